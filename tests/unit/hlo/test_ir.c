/* The representation itself: types are interned, uses are kept, changes leave it whole. */
#include "samples.h"

static struct nf_arena *arena;
static struct hlo_module *m;

static void setup(void)
{
    arena = nf_arena_new(0);
    m = hlo_module_new(arena);
}
static void teardown(void) { nf_arena_free(arena); }

START_TEST(types_are_interned)
{
    int64_t d[2] = {2, 3}, e[2] = {2, HLO_DYNAMIC};
    const struct hlo_type *a = hlo_type_tensor(m, HLO_ELEM_F32, 2, d), *b = hlo_type_tensor(m, HLO_ELEM_F32, 2, d);
    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_ne(a, hlo_type_tensor(m, HLO_ELEM_F64, 2, d));
    ck_assert_ptr_ne(a, hlo_type_tensor(m, HLO_ELEM_F32, 2, e));
    ck_assert(a->is_static && !hlo_type_tensor(m, HLO_ELEM_F32, 2, e)->is_static);
    const struct hlo_type *t[2] = {a, hlo_type_token(m)};
    ck_assert_ptr_eq(hlo_type_tuple(m, 2, t), hlo_type_tuple(m, 2, t));
    ck_assert_ptr_ne(hlo_type_tuple(m, 2, t), hlo_type_future(m, 2, t));
    for (int64_t i = 0; i < 5000; i++) /* growth keeps what was there */
        hlo_type_tensor(m, HLO_ELEM_I8, 1, &i);
    ck_assert_ptr_eq(a, hlo_type_tensor(m, HLO_ELEM_F32, 2, d));
    uint64_t n;
    int64_t big[3] = {INT64_MAX / 2, 8, 8}, zero[3] = {INT64_MAX, INT64_MAX, 0};
    ck_assert(!hlo_type_count(hlo_type_tensor(m, HLO_ELEM_I8, 3, big), &n));
    ck_assert(hlo_type_count(hlo_type_tensor(m, HLO_ELEM_I8, 3, zero), &n) && n == 0);
}
END_TEST

/* %c = constant; n operations that use it twice each */
static struct hlo_block *chain(unsigned n)
{
    struct hlo_block *b = hlo_module_block(m);
    const struct hlo_type *t = hlo_type_tensor(m, HLO_ELEM_F32, 0, NULL);
    struct hlo_value *v = hlo_build_splat(m, b, NULL, t, 1.5);
    for (unsigned i = 0; i < n; i++)
        v = hlo_build(m, b, NULL, HLO_OP_ADD, t, 2, (struct hlo_value *[]){v, v});
    return b;
}

static unsigned uses(const struct hlo_value *v)
{
    unsigned n = 0;
    for (const struct hlo_operand *u = v->uses; u; u = u->next_use) {
        ck_assert_ptr_eq(u->value, v);
        ck_assert_ptr_eq(&u->user->operands[hlo_operand_index(u)], u);
        n++;
    }
    return n;
}

START_TEST(uses_follow_changes)
{
    struct hlo_block *b = chain(3);
    struct hlo_op *c = b->first, *a1 = c->next, *a2 = a1->next, *a3 = a2->next;
    ck_assert_uint_eq(uses(&c->results[0]), 2);
    hlo_op_set_operand(a3, 0, &c->results[0]);
    ck_assert_uint_eq(uses(&c->results[0]), 3);
    ck_assert_uint_eq(uses(&a2->results[0]), 1);
    hlo_value_replace(&a1->results[0], &c->results[0]);
    ck_assert_uint_eq(uses(&c->results[0]), 5);
    ck_assert(hlo_value_unused(&a1->results[0]));
    hlo_op_erase(a1);
    ck_assert_uint_eq(uses(&c->results[0]), 3);
    ck_assert_ptr_eq(c->next, a2);
    hlo_op_set_operands(m, a2, 1, (struct hlo_value *[]){&c->results[0]});
    ck_assert_uint_eq(uses(&c->results[0]), 2);
    hlo_op_replace(a2, (struct hlo_value *[]){&c->results[0]});
    ck_assert_ptr_eq(a3->operands[1].value, &c->results[0]);
    ck_assert_ptr_eq(b->last, a3);
    ck_assert_ptr_eq(a3->prev, c);
}
END_TEST

START_TEST(walks_see_everything_once)
{
    samples_load();
    for (size_t i = 0; i < num_samples; i++) {
        struct hlo_module *s = parse_ok(arena, samples[i]);
        unsigned seen = 0;
        struct hlo_walk w = hlo_walk_of(s->op);
        uint8_t *ids = nf_arena_alloc(arena, s->num_values + 1);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
            seen++;
            for (uint32_t k = 0; k < op->num_results; k++)
                ck_assert_int_eq(ids[op->results[k].id]++, 0);
        }
        /* all but the module, and the implicit one of a bare file */
        ck_assert_msg(seen + 2 >= s->num_ops && seen < s->num_ops, "sample %zu: %u of %u", i, seen, s->num_ops);
    }
}
END_TEST

START_TEST(clones_are_whole)
{
    samples_load();
    for (size_t i = 0; i < num_samples; i++) {
        struct hlo_module *s = parse_ok(arena, samples[i]);
        struct hlo_value **map = NF_NEW_ARRAY(arena, struct hlo_value *, s->num_values + 1);
        size_t n = s->num_values;
        struct nf_buf a = NF_BUF_INIT, b = NF_BUF_INIT;
        hlo_print(s, HLO_GENERIC, &a);
        struct hlo_op *copy = hlo_op_clone(s, s->op, map, n);
        struct hlo_walk w = hlo_walk_of(copy);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));)
            for (uint32_t k = 0; k < op->num_operands; k++)
                ck_assert_msg(op->operands[k].value->id >= n, "the copy uses a value of the original");
        s->op = copy;
        hlo_module_symbols_changed(s);
        hlo_print(s, HLO_GENERIC, &b);
        ck_assert_str_eq(a.data, b.data);
        struct nf_error err = {0};
        ck_assert_msg(hlo_verify(s, &err) == 0, "%s", err.message);
        nf_buf_done(&a);
        nf_buf_done(&b);
    }
}
END_TEST

START_TEST(attributes_by_any_name)
{
    struct hlo_op *op = hlo_op_new(m, HLO_OP_IOTA, 0, NULL, 1, (const struct hlo_type *[]){hlo_type_tensor(m, HLO_ELEM_I32, 1, (int64_t[]){3})}, 0);
    hlo_op_set_named(m, op, NF_STR("iota_dimension"), hlo_attr_int(m, HLO_ELEM_I64, 0));
    hlo_op_set_named(m, op, NF_STR("b"), hlo_attr_bool(m, true));
    hlo_op_set_named(m, op, NF_STR("a"), hlo_attr_unit(m));
    hlo_op_set_named(m, op, NF_STR("b"), hlo_attr_bool(m, false));
    ck_assert_uint_eq(op->num_dict, 2);
    ck_assert_int_eq(hlo_op_i64(op, HLO_A_iota_dimension, 7), 0);
    ck_assert(hlo_op_discardable(op, NF_STR("b"))->b == false);
    ck_assert(nf_str_eq_c(op->dict[0].name, "a"));
    hlo_op_set_named(m, op, NF_STR("a"), NULL);
    ck_assert_ptr_null(hlo_op_named(op, NF_STR("a")));
    ck_assert_uint_eq(op->num_dict, 1);
    ck_assert_int_eq(hlo_op_i64(op, HLO_A_dimension, 7), 7); /* not an attribute of iota */
}
END_TEST

/* Bytes that 10,000 rounds of the same attributes leave in a module. */
static size_t repeated(struct hlo_module *of, struct nf_arena *in, const int64_t *v, const int64_t *w)
{
    size_t before = 0;
    for (int round = 0; round < 10000; round++) {
        const struct hlo_attr *a = hlo_attr_i64s(of, 2, v), *b = hlo_attr_i64s(of, 2, w), *c = hlo_attr_i64s(of, 1, v);
        struct hlo_dot d = {.lhs_contracting = a->ints, .rhs_contracting = b->ints};
        const struct hlo_attr *e = hlo_attr_dot(of, &d), *p = hlo_attr_enum(of, HLO_ENUM_PRECISION, 1), *l = hlo_attr_array(of, 2, (const struct hlo_attr *[]){p, p});
        if (round == 0)
            before = nf_arena_bytes(in);
        ck_assert(!hlo_attr_eq(a, b) && !hlo_attr_eq(a, c));
        ck_assert_int_eq(a->ints.v[1], 1);
        ck_assert_int_eq(b->ints.v[1], 7);
        ck_assert_uint_eq(c->ints.n, 1);
        ck_assert(e->dot->rhs_contracting.v[1] == 7 && e->dot->lhs_batching.n == 0);
        ck_assert(l->array.v[1] == p && p->enumeration.value == 1);
    }
    return nf_arena_bytes(in) - before;
}

/* What is kept is found by a hash that covers addresses, so now and then two of a round push each other out; not in each of eight modules. */
START_TEST(attributes_that_repeat_are_kept_once)
{
    int64_t v[64], w[64];
    size_t least = SIZE_MAX;
    struct nf_arena *in[8];
    for (int i = 0; i < 64; i++)
        v[i] = w[i] = i;
    w[1] = 7;
    for (int i = 0; i < 8; i++) {
        in[i] = nf_arena_new(0);
        least = NF_MIN(least, repeated(hlo_module_new(in[i]), in[i], v, w));
    }
    for (int i = 0; i < 8; i++)
        nf_arena_free(in[i]);
    ck_assert_uint_le(least, 64 << 10); /* some hundred bytes a round otherwise */
    /* long ones are copies, each its own */
    struct hlo_ints x = hlo_ints_copy(m, 64, v), y = hlo_ints_copy(m, 64, v);
    ck_assert(x.v != y.v && memcmp(x.v, y.v, sizeof v) == 0);
}
END_TEST

START_TEST(the_table_is_sound)
{
    for (int i = 1; i < HLO_OP_MAX; i++) {
        const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)i);
        if (i != HLO_OP_UNKNOWN)
            ck_assert_int_eq(hlo_op_find(nf_str_c(info->name)), i);
        ck_assert_int_le(info->num_attrs, 16);
        for (int a = 0; a < info->num_attrs; a++) {
            ck_assert_int_eq(hlo_op_slot((enum hlo_op_id)i, info->attrs[a].id), a);
            ck_assert_int_eq(hlo_op_slot_by_name((enum hlo_op_id)i, nf_str_c(info->attrs[a].name)), a);
        }
    }
    unsigned stablehlo = 0, chlo = 0;
    for (int i = 0; i < HLO_OP_MAX; i++) {
        stablehlo += hlo_op_info((enum hlo_op_id)i)->dialect == HLO_DIALECT_STABLEHLO;
        chlo += hlo_op_info((enum hlo_op_id)i)->dialect == HLO_DIALECT_CHLO;
    }
    ck_assert_uint_eq(stablehlo, 118);
    ck_assert_uint_eq(chlo, 51);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hlo-ir");
    TCase *t = tcase_create("ir");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, types_are_interned);
    tcase_add_test(t, uses_follow_changes);
    tcase_add_test(t, walks_see_everything_once);
    tcase_add_test(t, clones_are_whole);
    tcase_add_test(t, attributes_by_any_name);
    tcase_add_test(t, attributes_that_repeat_are_kept_once);
    tcase_add_test(t, the_table_is_sound);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
