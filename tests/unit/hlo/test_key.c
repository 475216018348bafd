/* The canonical key: equal for what means the same, different for each attribute of each operation that is changed. The second
 * half is generated from the operation table and samples.mlir. */
#include "samples.h"

#include <time.h>

/* ---- what must not change the key ---- */

#define BODY                                                                                                               \
    "    %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"                                                      \
    "    %0 = stablehlo.add %x, %c : tensor<2xf32>\n"                                                                      \
    "    %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>\n"                                                            \
    "    return %1 : tensor<2xf32>\n  }\n"
#define HELPER                                                                                                             \
    "  func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n    %0 = stablehlo.dot_general %x, %x, contracting_dims = [] x [] " \
    ": (tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>\n    %1 = stablehlo.slice %0 [0:1, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>\n" \
    "    %2 = stablehlo.reshape %1 : (tensor<1x2xf32>) -> tensor<2xf32>\n    return %2 : tensor<2xf32>\n  }\n"
static const char base[] = "module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n" BODY HELPER "}\n";

static const char *const same[] = {
    /* names, order of functions, decoration, comments */
    "// a comment\nmodule @other attributes {jax.uses_shape_polymorphism = false, mhlo.num_replicas = 1 : i32} {\n" HELPER
    "  func.func @main(%x: tensor<2xf32> {mhlo.layout_mode = \"default\"}) -> (tensor<2xf32> {jax.result_info = \"out\"}) {\n" BODY "}\n",
    "module {\n  func.func @main(%in: tensor<2xf32>) -> tensor<2xf32> {\n    %sum0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n    %y-1 = stablehlo.add %in, %sum0 : tensor<2xf32>\n"
    "    %z = func.call @another_name(%y-1) : (tensor<2xf32>) -> tensor<2xf32>\n    func.return %z : tensor<2xf32>\n  }\n"
    "  func.func private @another_name(%x: tensor<2xf32>) -> tensor<2xf32> {\n    %0 = stablehlo.dot_general %x, %x, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>\n"
    "    %1 = stablehlo.slice %0 [0:1:1, 0:2:1] : (tensor<2x2xf32>) -> tensor<1x2xf32>\n    %2 = stablehlo.reshape %1 : (tensor<1x2xf32>) -> tensor<2xf32>\n    return %2 : tensor<2xf32>\n  }\n}\n",
    /* constants spelled otherwise, several times, dead operations, an unreachable function */
    "module {\n  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n    %dead = stablehlo.negate %x : tensor<2xf32>\n    %c = stablehlo.constant dense<\"0x0000803F00000040\"> : tensor<2xf32>\n"
    "    %c2 = stablehlo.constant dense<[0x3F800000, 2.000000e+00]> : tensor<2xf32>\n    %dead2 = stablehlo.multiply %c2, %c : tensor<2xf32>\n    %0 = stablehlo.add %x, %c2 : tensor<2xf32>\n"
    "    %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>\n    return %1 : tensor<2xf32>\n  }\n" HELPER
    "  func.func private @nobody(%x: tensor<2xf32>) -> tensor<2xf32> {\n    return %x : tensor<2xf32>\n  }\n}\n",
    /* locations, aliases, generic form, old attribute dictionaries */
    "#loc = loc(unknown)\n!t = tensor<2xf32>\nmodule {\n  \"func.func\"() ({\n  ^bb0(%x: !t loc(\"x\")):\n    %c = \"stablehlo.constant\"() {value = dense<[1.0, 2.0]> : !t} : () -> !t loc(#loc1)\n"
    "    %0 = \"stablehlo.add\"(%x, %c) : (!t, !t) -> !t loc(\"f.py\":1:2)\n    %1 = \"func.call\"(%0) {callee = @f} : (!t) -> !t\n    \"func.return\"(%1) : (!t) -> () loc(callsite(#loc1 at \"g\"))\n"
    "  }) {function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = \"main\"} : () -> ()\n" HELPER "}\n#loc1 = loc(fused[\"a\", \"b\":3:4])\n",
};

START_TEST(spellings_share_a_key)
{
    struct nf_digest want = key_of_c(base), got = key_of_c(same[_i]);
    ck_assert_msg(nf_digest_eq(&want, &got), "spelling %d", _i);
}
END_TEST

static const char *const pairs[][2] = {
    /* order of independent pure operations; compare type that says the natural thing; defaults written out; order of attributes */
    {"func.func @main(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n %0 = stablehlo.sine %a : tensor<f32>\n %1 = stablehlo.cosine %a : tensor<f32>\n return %0, %1 : tensor<f32>, tensor<f32>\n}",
     "func.func @main(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n %1 = stablehlo.cosine %a : tensor<f32>\n %0 = stablehlo.sine %a {result_accuracy = #stablehlo.result_accuracy<mode = "
     "#stablehlo.result_accuracy_mode<DEFAULT>>} : tensor<f32>\n return %0, %1 : tensor<f32>, tensor<f32>\n}"},
    {"func.func @main(%a: tensor<f32>) -> tensor<i1> {\n %0 = stablehlo.compare LT, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>\n return %0 : tensor<i1>\n}",
     "func.func @main(%a: tensor<f32>) -> tensor<i1> {\n %0 = stablehlo.compare  LT, %a, %a,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n return %0 : tensor<i1>\n}"},
    {"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n %0 = \"stablehlo.custom_call\"(%a) {call_target_name = \"t\", foo = 1 : i64, bar = \"x\"} : (tensor<2xf32>) -> tensor<2xf32>\n return %0 : tensor<2xf32>\n}",
     "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n %0 = stablehlo.custom_call @t(%a) {api_version = 1 : i32, bar = \"x\", foo = 1, has_side_effect = false} : (tensor<2xf32>) -> tensor<2xf32>\n return %0 : "
     "tensor<2xf32>\n}"},
    /* reduce, short and long; a constant inside or outside a loop's body; shardings on one device */
    {"func.func @main(%a: tensor<2xi32>, %z: tensor<i32>) -> tensor<i32> {\n %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n return %0 : "
     "tensor<i32>\n}",
     "func.func @main(%a: tensor<2xi32> {mhlo.sharding = \"{replicated}\"}, %z: tensor<i32>) -> tensor<i32> {\n %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n "
     "reducer(%p: tensor<i32>, %q: tensor<i32>) {\n  %1 = stablehlo.add %p, %q : tensor<i32>\n  stablehlo.return %1 : tensor<i32>\n }\n return %0 : tensor<i32>\n}"},
    {"func.func @main(%n: tensor<i32>) -> tensor<i32> {\n %c = stablehlo.constant dense<1> : tensor<i32>\n %0 = stablehlo.while(%i = %n) : tensor<i32> cond {\n  %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> "
     "tensor<i1>\n  stablehlo.return %1 : tensor<i1>\n } do {\n  %1 = stablehlo.add %i, %c : tensor<i32>\n  stablehlo.return %1 : tensor<i32>\n }\n return %0 : tensor<i32>\n}",
     "func.func @main(%n: tensor<i32>) -> tensor<i32> {\n %0 = stablehlo.while(%i = %n) : tensor<i32> cond {\n  %c = stablehlo.constant dense<1> : tensor<i32>\n  %1 = stablehlo.compare LT, %i, %c, SIGNED : (tensor<i32>, tensor<i32>) "
     "-> tensor<i1>\n  stablehlo.return %1 : tensor<i1>\n } do {\n  %c = stablehlo.constant dense<1> : tensor<i32>\n  %1 = stablehlo.add %i, %c : tensor<i32>\n  stablehlo.return %1 : tensor<i32>\n }\n return %0 : tensor<i32>\n}"},
    /* equal bodies under other names, and what is equal because of them; bodies that capture equal values */
    {"func.func @main(%a: tensor<2xi32>, %z: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%p: tensor<i32>, %q: tensor<i32>) {\n  %x = stablehlo.add %p, %q : tensor<i32>\n  %y = stablehlo.add %x, %p : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n %1 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%r: tensor<i32>, %s: tensor<i32>) {\n  %x = stablehlo.add %r, %s : tensor<i32>\n  %y = stablehlo.add %x, %r : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n %2 = stablehlo.negate %0 : tensor<i32>\n %3 = stablehlo.negate %1 : tensor<i32>\n return %2, %3 : tensor<i32>, tensor<i32>\n}",
     "func.func @main(%a: tensor<2xi32>, %z: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%p: tensor<i32>, %q: tensor<i32>) {\n  %x = stablehlo.add %p, %q : tensor<i32>\n  %y = stablehlo.add %x, %p : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n %2 = stablehlo.negate %0 : tensor<i32>\n return %2, %2 : tensor<i32>, tensor<i32>\n}"},
    {"func.func @main(%a: tensor<2xi32>, %z: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n %c1 = stablehlo.add %z, %z : tensor<i32>\n %c2 = stablehlo.add %z, %z : tensor<i32>\n %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%p: tensor<i32>, %q: tensor<i32>) {\n  %x = stablehlo.add %p, %q : tensor<i32>\n  %y = stablehlo.add %x, %c1 : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n %1 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%r: tensor<i32>, %s: tensor<i32>) {\n  %x = stablehlo.add %r, %s : tensor<i32>\n  %y = stablehlo.add %x, %c2 : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n return %0, %1 : tensor<i32>, tensor<i32>\n}",
     "func.func @main(%a: tensor<2xi32>, %z: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n %c1 = stablehlo.add %z, %z : tensor<i32>\n %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%p: tensor<i32>, %q: tensor<i32>) {\n  %x = stablehlo.add %p, %q : tensor<i32>\n  %y = stablehlo.add %x, %c1 : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n return %0, %0 : tensor<i32>, tensor<i32>\n}"},
    /* the portable form knows no channel types */
    {"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n %0 = \"stablehlo.collective_permute\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : "
     "(tensor<2xf32>) -> tensor<2xf32>\n return %0 : tensor<2xf32>\n}",
     "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n %0 = \"stablehlo.collective_permute\"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 0>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : "
     "(tensor<2xf32>) -> tensor<2xf32>\n return %0 : tensor<2xf32>\n}"},
    /* i1 constants: words, a byte each, packed bits */
    {"func.func @main() -> tensor<9xi1> {\n %c = stablehlo.constant dense<[true, false, true, false, false, false, false, false, true]> : tensor<9xi1>\n return %c : tensor<9xi1>\n}",
     "func.func @main() -> tensor<9xi1> {\n %c = stablehlo.constant dense<\"0x0501\"> : tensor<9xi1>\n return %c : tensor<9xi1>\n}"},
    {"func.func @main() -> tensor<2x2xf32> {\n %c = stablehlo.constant dense<[[1.5, 1.5], [1.5, 1.5]]> : tensor<2x2xf32>\n return %c : tensor<2x2xf32>\n}",
     "func.func @main() -> tensor<2x2xf32> {\n %c = stablehlo.constant dense_resource<w> : tensor<2x2xf32>\n return %c : tensor<2x2xf32>\n}\n{-#\n  dialect_resources: {\n    builtin: {\n      w: "
     "\"0x040000000000C03F0000C03F0000C03F0000C03F\"\n    }\n  }\n#-}\n"},
};

START_TEST(pairs_share_a_key)
{
    struct nf_digest a = key_of_c(pairs[_i][0]), b = key_of_c(pairs[_i][1]);
    ck_assert_msg(nf_digest_eq(&a, &b), "pair %d", _i);
}
END_TEST

static const char *const apart[][2] = {
    {"dense<[1.0, 2.0]>", "dense<[1.0, 2.5]>"}, {"dense<[1.0, 2.0]>", "dense<[-0.0, 2.0]>"}, {"stablehlo.add", "stablehlo.multiply"}, {"[0:1, 0:2]", "[1:2, 0:2]"},
    {"stablehlo.add %x, %c", "stablehlo.add %c, %x"}, {"num_partitions = 1", "num_partitions = 2"}, {"%x: tensor<2xf32>) -> tensor<2xf32> {\n    %c", "%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {\n    %c"},
    {"%x: tensor<2xf32>) -> tensor<2xf32> {\n    %c", "%x: tensor<2xf32> {jax.buffer_donor = true}) -> tensor<2xf32> {\n    %c"}, {"f32", "f64"}, {"tensor<2xf32>\n    %1 = call", "tensor<2xf32>\n    %k = stablehlo.custom_call @k(%0) : (tensor<2xf32>) -> tensor<2xf32>\n    %1 = call"},
};

/* text with every `from` replaced */
static struct nf_buf replaced(const char *text, const char *from, const char *to)
{
    struct nf_buf b = NF_BUF_INIT;
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        nf_buf_add(&b, text, (size_t)(p - text));
        nf_buf_add_c(&b, to);
    }
    nf_buf_add_c(&b, text);
    return b;
}

START_TEST(changes_change_the_key)
{
    struct nf_buf b = replaced(base, apart[_i][0], apart[_i][1]);
    ck_assert(!nf_str_eq_c(nf_buf_str(&b), base));
    struct nf_digest want = key_of_c(base), got = key_of(nf_buf_str(&b));
    ck_assert_msg(!nf_digest_eq(&want, &got), "'%s' to '%s'", apart[_i][0], apart[_i][1]);
    nf_buf_done(&b);
}
END_TEST

/* ---- generated: forms of all samples ---- */

START_TEST(samples_keep_their_key_through_every_form)
{
    samples_load();
    for (size_t i = 0; i < num_samples; i++) {
        struct nf_digest want = key_of(samples[i]);
        for (int form = 0; form < 4; form++) {
            struct nf_arena *arena = nf_arena_new(0);
            struct hlo_module *m = parse_ok(arena, samples[i]);
            struct nf_buf text = NF_BUF_INIT;
            struct nf_error err = {0};
            struct hlo_print_options o = {.style = form % 2 ? HLO_GENERIC : HLO_PRETTY, .locations = form >= 2};
            if (form >= 2) { /* a location on everything */
                struct hlo_walk w = hlo_walk_of(m->op);
                for (struct hlo_op *op; (op = hlo_walk_next(&w));)
                    hlo_op_set_loc(m, op, hlo_attr_loc(m, &(struct hlo_loc){.kind = HLO_LOC_FILE, .name = NF_STR("a \"b\".py"), .line = op->pos + 1, .col = 3}));
            }
            ck_assert_int_eq(hlo_print_with(m, &o, &text), 0);
            struct nf_digest got = key_of(nf_buf_str(&text));
            ck_assert_msg(nf_digest_eq(&want, &got), "sample %zu, form %d", i, form);
            /* and the canonical form is its own canonical form */
            nf_buf_clear(&text);
            ck_assert_int_eq(hlo_canonicalise(m, &err), 0);
            struct nf_digest both, alone;
            ck_assert_int_eq(hlo_print_canonical(m, &text, &both), 0);
            ck_assert_int_eq(hlo_key(m, &alone, &err), 0);
            ck_assert(nf_digest_eq(&both, &alone));
            got = key_of(nf_buf_str(&text));
            ck_assert_msg(nf_digest_eq(&want, &got), "sample %zu, canonical", i);
            nf_buf_done(&text);
            nf_arena_free(arena);
        }
    }
}
END_TEST

/* ---- generated: each attribute changed ---- */

static const struct hlo_attr *with_int(struct hlo_module *m, const struct hlo_attr *a, int64_t add)
{
    struct hlo_attr n = *a;
    n.i += add;
    return hlo_attr_new(m, &n);
}

static struct hlo_ints longer(struct hlo_module *m, struct hlo_ints v)
{
    int64_t w[64] = {0};
    ck_assert_uint_lt(v.n, 63);
    if (v.n)
        memcpy(w, v.v, v.n * sizeof *w);
    w[v.n] = 1;
    return hlo_ints_copy(m, v.n + 1, w);
}

/* Another value of the same kind, valid or not: the key does not look. */
static const struct hlo_attr *changed(struct hlo_module *m, const struct hlo_attr *a)
{
    struct hlo_attr n = *a;
    switch (a->kind) {
    case HLO_ATTR_UNIT: return NULL;
    case HLO_ATTR_BOOL: return hlo_attr_bool(m, !a->b);
    case HLO_ATTR_INT: return with_int(m, a, 1);
    case HLO_ATTR_FLOAT: n.bits ^= 1; return hlo_attr_new(m, &n);
    case HLO_ATTR_STRING:
    case HLO_ATTR_SYMBOL: n.str = nf_str_c(nf_arena_printf(m->arena, "%.*s_other", NF_STR_ARG(a->str))); return hlo_attr_new(m, &n);
    case HLO_ATTR_TYPE: return hlo_attr_type(m, hlo_type_none(m));
    case HLO_ATTR_ARRAY: {
        if (a->array.n == 0)
            return hlo_attr_array(m, 1, (const struct hlo_attr *[]){hlo_attr_unit(m)});
        const struct hlo_attr *v[16];
        ck_assert_uint_lt(a->array.n, 16);
        for (size_t i = 0; i < a->array.n; i++)
            v[i] = a->array.v[i];
        v[0] = changed(m, v[0]);
        return hlo_attr_array(m, a->array.n, v);
    }
    case HLO_ATTR_DICT: {
        struct hlo_named v[16];
        ck_assert_uint_lt(a->dict.n, 15);
        for (size_t i = 0; i < a->dict.n; i++)
            v[i] = a->dict.v[i];
        v[a->dict.n] = (struct hlo_named){NF_STR("zzz"), hlo_attr_unit(m)};
        return hlo_attr_dict(m, a->dict.n + 1, v);
    }
    case HLO_ATTR_DENSE: {
        if (a->dense.raw.len == 0)
            return hlo_attr_dense_i64s(m, 1, (int64_t[]){1}, (int64_t[]){7});
        char *raw = nf_arena_strn(m->arena, a->dense.raw.data, a->dense.raw.len);
        raw[a->dense.raw.len - 1] ^= 1;
        n.dense.raw = nf_str_n(raw, a->dense.raw.len);
        n.dense.digest = NULL;
        return hlo_attr_new(m, &n);
    }
    case HLO_ATTR_DENSE_ARRAY: n.ints = longer(m, a->ints); return hlo_attr_new(m, &n);
    case HLO_ATTR_ENUM: n.enumeration.value = (a->enumeration.value + 1) % 3; return hlo_attr_new(m, &n);
    case HLO_ATTR_DOT: {
        struct hlo_dot d = *a->dot;
        d.lhs_contracting = longer(m, d.lhs_contracting);
        return hlo_attr_dot(m, &d);
    }
    case HLO_ATTR_CONV: {
        struct hlo_conv c = *a->conv;
        c.input_batch = a->conv->input_feature;
        c.input_feature = a->conv->input_batch;
        return hlo_attr_conv(m, &c);
    }
    case HLO_ATTR_GATHER: {
        struct hlo_gather g = *a->gather;
        g.index_vector_dim++;
        return hlo_attr_gather(m, &g);
    }
    case HLO_ATTR_SCATTER: {
        struct hlo_scatter s = *a->scatter;
        s.index_vector_dim++;
        return hlo_attr_scatter(m, &s);
    }
    case HLO_ATTR_CHANNEL: return hlo_attr_channel(m, a->channel.handle + 1, a->channel.type);
    case HLO_ATTR_DOT_ALGORITHM: {
        struct hlo_dot_algorithm *g = NF_NEW(m->arena, struct hlo_dot_algorithm);
        *g = *a->algorithm;
        g->primitive_operations = 6;
        n.algorithm = g;
        return hlo_attr_new(m, &n);
    }
    case HLO_ATTR_ALIAS: {
        struct hlo_alias *x = NF_NEW(m->arena, struct hlo_alias);
        *x = *a->alias;
        x->operand_index++;
        n.alias = x;
        return hlo_attr_new(m, &n);
    }
    case HLO_ATTR_ACCURACY: {
        struct hlo_accuracy x = *a->accuracy;
        x.ulps++;
        return hlo_attr_accuracy(m, &x);
    }
    case HLO_ATTR_OPAQUE: return hlo_attr_opaque(m, NF_STR("#x.y<z>"));
    case HLO_ATTR_RAGGED_DOT:
    case HLO_ATTR_MESH_AXES:
    case HLO_ATTR_BOUNDS:
    case HLO_ATTR_LOCATION:
    case HLO_ATTR_RESOURCE:
    case HLO_ATTR_KIND_MAX: break;
    }
    ck_abort_msg("no other value for this kind");
    return NULL;
}

/* Names that the canonical form makes up itself. */
static bool is_name(const struct hlo_op *op, enum hlo_attr_name a) { return op->id == HLO_OP_FUNC || (op->id == HLO_OP_MODULE && a != HLO_A_MAX); }

START_TEST(every_attribute_of_every_operation_counts)
{
    static bool covered[HLO_OP_MAX][HLO_A_MAX], met[HLO_OP_MAX];
    unsigned changes = 0;
    samples_load();
    for (size_t i = 0; i < num_samples; i++) {
        struct nf_digest want = key_of(samples[i]);
        for (uint32_t target = 0;; target++) {
            int slot = 0, slots;
            do {
                struct nf_arena *arena = nf_arena_new(0);
                struct hlo_module *m = parse_ok(arena, samples[i]);
                struct hlo_walk w = hlo_walk_of(m->op);
                struct hlo_op *op = NULL;
                for (uint32_t k = 0; k <= target; k++)
                    if (!(op = hlo_walk_next(&w)))
                        break;
                if (!op) {
                    nf_arena_free(arena);
                    goto next_sample;
                }
                const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
                slots = info->num_attrs;
                met[op->id] = true;
                if (slot < slots && op->attrs[slot] && !is_name(op, info->attrs[slot].id)) {
                    struct nf_error err = {0};
                    struct nf_digest got;
                    op->attrs[slot] = changed(m, op->attrs[slot]);
                    ck_assert_int_eq(hlo_canonicalise(m, &err), 0);
                    ck_assert_int_eq(hlo_key(m, &got, &err), 0);
                    ck_assert_msg(!nf_digest_eq(&want, &got), "%s of %s does not count", info->attrs[slot].name, info->name);
                    covered[op->id][info->attrs[slot].id] = true;
                    changes++;
                }
                nf_arena_free(arena);
            } while (++slot < slots);
        }
    next_sample:;
    }
    /* nothing of StableHLO is left out */
    for (int id = 0; id < HLO_OP_MAX; id++) {
        const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)id);
        if (info->dialect != HLO_DIALECT_STABLEHLO)
            continue;
        ck_assert_msg(met[id], "no sample of %s", info->name);
        for (int a = 0; a < info->num_attrs; a++)
            ck_assert_msg(covered[id][info->attrs[a].id], "no sample of %s with %s", info->name, info->attrs[a].name);
    }
    ck_assert_uint_gt(changes, 150);
}
END_TEST

/* ---- components ---- */

static struct hlo_components components(struct nf_arena *arena, const char *text, struct nf_digest *ret_structure)
{
    struct hlo_module *m = parse_ok(arena, nf_str_c(text));
    struct hlo_components c;
    struct nf_error err = {0};
    ck_assert_int_eq(hlo_canonicalise(m, &err), 0);
    hlo_components(m, &c);
    *ret_structure = hlo_structure(m);
    return c;
}

START_TEST(components_tell_what_differs)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_buf shape = replaced(base, "<2xf32>", "<2xf64>"), value = replaced(base, "[1.0, 2.0]", "[1.0, 3.0]"), op = replaced(base, "stablehlo.add", "stablehlo.multiply");
    struct nf_digest of_a, of_s, of_v, of_o;
    struct hlo_components a = components(arena, base, &of_a), s = components(arena, shape.data, &of_s), v = components(arena, value.data, &of_v), o = components(arena, op.data, &of_o);
    ck_assert_uint_eq(a.num_inputs, 1);
    ck_assert_uint_eq(a.num_outputs, 1);
    ck_assert_uint_eq(a.num_constants, 1);
    ck_assert(nf_str_eq_c(a.inputs[0].text, "tensor<2xf32>"));
    ck_assert(nf_str_eq_c(s.inputs[0].text, "tensor<2xf64>"));
    ck_assert(nf_digest_eq(&of_a, &of_s));
    ck_assert(nf_digest_eq(&of_a, &of_v));
    ck_assert(!nf_digest_eq(&a.constants[0].digest, &v.constants[0].digest));
    ck_assert(!nf_digest_eq(&of_a, &of_o));
    ck_assert(nf_digest_eq(&a.constants[0].digest, &o.constants[0].digest));
    size_t differ = 0;
    ck_assert_uint_eq(a.num_ops, o.num_ops);
    for (size_t i = 0; i < a.num_ops; i++)
        differ += !nf_str_eq(a.ops[i].line, o.ops[i].line);
    ck_assert_uint_eq(differ, 1);
    nf_buf_done(&shape);
    nf_buf_done(&value);
    nf_buf_done(&op);
    nf_arena_free(arena);
}
END_TEST

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Each operation's line and column are those of the text, however many there are, and finding them takes no longer than reading did. */
START_TEST(bodies_that_differ_stay_apart)
{
    static const char two[] = "func.func @main(%a: tensor<2xi32>, %z: tensor<i32>) -> (tensor<i32>, tensor<i32>) {\n %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%p: tensor<i32>, %q: tensor<i32>) {\n  %x = stablehlo.add %p, %q : tensor<i32>\n  %y = stablehlo.add %x, %p : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n %1 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>\n reducer(%r: tensor<i32>, %s: tensor<i32>) {\n  %x = stablehlo.add %r, %s : tensor<i32>\n  %y = stablehlo.add %x, %r : tensor<i32>\n  stablehlo.return %y : tensor<i32>\n }\n %2 = stablehlo.negate %0 : tensor<i32>\n %3 = stablehlo.negate %1 : tensor<i32>\n return %2, %3 : tensor<i32>, tensor<i32>\n}";
    struct nf_buf wired = replaced(two, "%x, %r", "%x, %s"), effect = replaced(two, "%y = stablehlo.add %x, %r", "%y = stablehlo.custom_call @f(%x, %r)");
    struct nf_digest a = key_of_c(two), b = key_of(nf_buf_str(&wired));
    ck_assert(!nf_digest_eq(&a, &b));
    /* the type of a custom call is spelled with its operands */
    struct nf_buf typed = replaced(effect.data, "custom_call @f(%x, %r) : tensor<i32>", "custom_call @f(%x, %r) {has_side_effect = true} : (tensor<i32>, tensor<i32>) -> tensor<i32>");
    struct nf_buf both = replaced(typed.data, "%y = stablehlo.add %x, %p : tensor<i32>", "%y = stablehlo.custom_call @f(%x, %p) {has_side_effect = true} : (tensor<i32>, tensor<i32>) -> tensor<i32>");
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m = parse_ok(arena, nf_buf_str(&both));
    struct nf_error err = {0};
    ck_assert_int_eq(hlo_canonicalise(m, &err), 0);
    unsigned reductions = 0;
    HLO_FOR_OPS(op, hlo_func_block(hlo_module_entry(m)))
        reductions += op->id == HLO_OP_REDUCE;
    ck_assert_uint_eq(reductions, 2);
    nf_arena_free(arena);
    nf_buf_done(&wired);
    nf_buf_done(&effect);
    nf_buf_done(&typed);
    nf_buf_done(&both);
}
END_TEST

START_TEST(places_of_many_operations)
{
    enum { OPS = 40000 };
    struct nf_buf text = NF_BUF_INIT;
    struct nf_arena *arena = nf_arena_new(0);
    nf_buf_add_c(&text, "func.func @main(%arg0: tensor<f32>) -> tensor<f32> {\n");
    static uint32_t begins[OPS];
    for (int i = 0; i < OPS; i++) {
        begins[i] = (uint32_t)text.len;
        nf_buf_addf(&text, i ? "  %%%d = stablehlo.sine %%%d : tensor<f32>\n" : "  %%%d = stablehlo.cosine %%arg%d : tensor<f32>\n", i, i ? i - 1 : 0);
    }
    nf_buf_addf(&text, "  return %%%d : tensor<f32>\n}\n", OPS - 1);
    struct nf_error err = {0};
    struct hlo_components c;
    int64_t began = cpu_ns();
    struct hlo_module *m = parse_ok(arena, nf_buf_str(&text));
    int64_t parsed = cpu_ns();
    ck_assert_int_eq(hlo_canonicalise(m, &err), 0);
    int64_t before = cpu_ns();
    hlo_components(m, &c);
    int64_t took = cpu_ns() - before;
    ck_assert_uint_eq(c.num_ops, OPS + 3); /* module, function, return */
    for (int i = 0; i < OPS; i++) {
        char want[32];
        nf_format(want, sizeof want, "%d:%d", i + 2, 3 + snprintf(NULL, 0, "%%%d = ", i));
        ck_assert_msg(nf_str_eq_c(c.ops[i + 2].location, want), "%.*s is not %s", NF_STR_ARG(c.ops[i + 2].location), want);
    }
    for (int k = 0; k < OPS; k++) { /* in no order */
        int i = (int)((int64_t)k * 7919 % OPS);
        uint32_t line, col;
        hlo_pos_line(m, begins[i] + 1, &line, &col);
        ck_assert_uint_eq(line, (uint32_t)i + 2);
        ck_assert_uint_eq(col, 2);
    }
    ck_assert_msg(took < 30 * (parsed - began), "parsing took %lld ns, the outline %lld", (long long)(parsed - began), (long long)took);
    nf_buf_done(&text);
    nf_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hlo-key");
    TCase *t = tcase_create("key");
    tcase_set_timeout(t, 100);
    tcase_add_loop_test(t, spellings_share_a_key, 0, (int)NF_ARRAY_LEN(same));
    tcase_add_loop_test(t, pairs_share_a_key, 0, (int)NF_ARRAY_LEN(pairs));
    tcase_add_loop_test(t, changes_change_the_key, 0, (int)NF_ARRAY_LEN(apart));
    tcase_add_test(t, samples_keep_their_key_through_every_form);
    tcase_add_test(t, every_attribute_of_every_operation_counts);
    tcase_add_test(t, components_tell_what_differs);
    tcase_add_test(t, bodies_that_differ_stay_apart);
    tcase_add_test(t, places_of_many_operations);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
