/* Text: errors have their line, limits hold, literals of all spellings read alike, printing is a fixed point. */
#include "samples.h"

#include <time.h>

static struct nf_error err;

static int parse(const char *text, const struct hlo_limits *limits)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m;
    memset(&err, 0, sizeof err);
    int rc = hlo_parse(nf_str_c(text), limits, arena, &m, &err);
    if (!rc)
        rc = hlo_verify(m, &err);
    nf_arena_free(arena);
    return rc;
}

/* ---- errors and their places ---- */

static const struct {
    const char *text, *where, *says;
} wrong[] = {
    {"func.func @f() {\n  %0 = stablehlo.foo : tensor<f32>\n}", "2:8", "unknown"},
    {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %b : tensor<f32>\n  return\n}", "2:22", "undeclared"},
    {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %a : tensor<f32>\n  %0 = stablehlo.abs %a : tensor<f32>\n  return\n}", "3:3", "redefinition"},
    {"func.func @f(%0: tensor<f32>) {\n  return\n}\nfunc.func @g() {\n  %1 = stablehlo.abs %0 : tensor<f32>\n  return\n}", "5:22", "undeclared"},
    {"func.func @f(%0: tensor<f32>) {\n  %1 = stablehlo.abs %00 : tensor<f32>\n  return\n}", "2:22", "undeclared"},
    {"func.func @f(%0: tensor<f32>) {\n  %1 = stablehlo.abs %4294967296 : tensor<f32>\n  return\n}", "2:22", "undeclared"},
    {"func.func @f(%a: tensor<f32>) {\n  %a = stablehlo.abs %a : tensor<f32>\n  return\n}", "2:3", "redefinition"},
    {"func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %a : tensor<f64>\n  return\n}", "2:27", "different type"},
    {"func.func @f(%a: tensor<2xq32>) {\n  return\n}", "1:27", "type"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>\n  return\n}", "2:33", "shape"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<[[1], [2, 3]]> : tensor<3x1xi32>\n  return\n}", "2:", "ranks"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<300> : tensor<i8>\n  return\n}", "2:33", "range"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<-1> : tensor<ui8>\n  return\n}", "2:33", "unsigned"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<1> : tensor<f32>\n  return\n}", "2:33", "integer"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<\"0x0102\"> : tensor<i32>\n  return\n}", "2:33", "size"},
    {"func.func @f() {\n  %0 = stablehlo.constant dense<\"0x0102030g\"> : tensor<i32>\n  return\n}", "2:33", "hex"},
    {"func.func @f() {\n  return\n", "2:", "'}'"},
    {"module @m {\n  func.func @f() {\n    return \"x\n  }\n}", "3:", ""},
    {"func.func @f(%a: tensor<f32>) -> tensor<f32> {\n  return %a#1 : tensor<f32>\n}", "2:10", "#1"},
    {"func.func @f(%a: tensor<f32> {x = #missing}) {\n  return\n}", "1:35", "alias"},
    {"#a = #b\n#b = #a\nmodule attributes {x = #a} {\n}", "", "alias"},
    {"func.func @f(%a: tensor<3xf32, #stablehlo.bounds<3>>) {\n  return\n}", "1:", "bound"},
    {"func.func @f(%a: tensor<4xf32>) {\n  %0 = stablehlo.slice %a [0:5] : (tensor<4xf32>) -> tensor<5xf32>\n  return\n}", "2:8", "limit index 5"},
    {"func.func @f(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {\n  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>\n  return\n}", "2:8",
     "contracting dimension sizes"},
    {"func.func @f(%a: tensor<4xf32>) -> tensor<2xf32> {\n  return %a : tensor<4xf32>\n}", "2:3", "result type"},
    {"func.func @f() {\n  call @nobody() : () -> ()\n  return\n}", "2:3", "valid function"},
    {"func.func @f() {\n  return\n}\nfunc.func @f() {\n  return\n}", "4:1", "redefinition"},
};

START_TEST(errors_have_their_place)
{
    ck_assert_msg(parse(wrong[_i].text, NULL) < 0, "case %d is accepted", _i);
    ck_assert_msg(strncmp(err.location, wrong[_i].where, strlen(wrong[_i].where)) == 0, "case %d: at '%s', not '%s': %s", _i, err.location, wrong[_i].where, err.message);
    ck_assert_msg(strstr(err.message, wrong[_i].says) != NULL, "case %d: '%s' does not say '%s'", _i, err.message, wrong[_i].says);
}
END_TEST

/* ---- limits ---- */

START_TEST(nesting_is_limited)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_c(&b, "module attributes {x = ");
    for (int i = 0; i < 100000; i++)
        nf_buf_add_char(&b, '[');
    ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    nf_buf_clear(&b);
    nf_buf_add_c(&b, "module attributes {x = ");
    for (int i = 0; i < 100000; i++)
        nf_buf_add_c(&b, "tuple<");
    ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    nf_buf_clear(&b);
    for (int i = 0; i < 100000; i++)
        nf_buf_add_c(&b, "module {");
    ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    nf_buf_clear(&b);
    nf_buf_add_c(&b, "module attributes {x = #foo.bar");
    for (int i = 0; i < 100000; i++)
        nf_buf_add_char(&b, '<');
    ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    nf_buf_done(&b);
}
END_TEST

START_TEST(sizes_are_limited)
{
    struct hlo_limits l = hlo_limits_default;
    const char *two = "func.func @f(%a: tensor<f32>) {\n  %0 = stablehlo.abs %a : tensor<f32>\n  %1 = stablehlo.abs %0 : tensor<f32>\n  return\n}";
    ck_assert_int_eq(parse(two, &l), 0);
    l.ops = 3;
    ck_assert_int_eq(parse(two, &l), NF_ELIMIT);
    ck_assert_str_eq(err.hint, "");
    l.are_options = true;
    ck_assert_int_eq(parse(two, &l), NF_ELIMIT);
    ck_assert_str_eq(err.hint, "raise the option max_ops");
    l = hlo_limits_default;
    l.are_options = true;
    l.depth = 0;
    ck_assert_int_eq(parse(two, &l), NF_ELIMIT);
    ck_assert_str_eq(err.hint, "raise the option max_depth");
    l.input_bytes = 10;
    ck_assert_int_eq(parse(two, &l), NF_ELIMIT);
    ck_assert_str_eq(err.hint, "");
    l = hlo_limits_default;
    l.input_bytes = 10;
    ck_assert_int_eq(parse(two, &l), NF_ELIMIT);
    l = hlo_limits_default;
    l.literal_bytes = 7;
    ck_assert_int_eq(parse("func.func @f() {\n  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n  return\n}", &l), NF_ELIMIT);
    ck_assert_int_eq(parse("func.func @f() {\n  %0 = stablehlo.constant dense<\"0x0102030405060708\"> : tensor<2xi32>\n  return\n}", &l), NF_ELIMIT);
    /* a short text never asks for much memory */
    ck_assert_int_eq(parse("func.func @f() {\n  %0 = stablehlo.constant dense<[1]> : tensor<9000000000000xi32>\n  return\n}", NULL), NF_EGRAPH);
    ck_assert_int_eq(parse("func.func @f() {\n  %0 = stablehlo.constant dense<1> : tensor<9000000000000x9000000000000xi32>\n  return\n}", NULL), NF_EGRAPH);
}
END_TEST

START_TEST(regions_and_dimensions_are_limited)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_c(&b, "func.func @f(%i: tensor<i32>, %a: tensor<f32>) -> tensor<f32> {\n%0 = \"stablehlo.case\"(%i) (");
    for (int i = 0; i < 66000; i++)
        nf_buf_add_c(&b, i ? ",{stablehlo.return %a : tensor<f32>}" : "{stablehlo.return %a : tensor<f32>}");
    nf_buf_add_c(&b, ") : (tensor<i32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}");
    ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    nf_buf_clear(&b);
    nf_buf_add_c(&b, "func.func @f(%a: tensor<");
    for (int i = 0; i <= HLO_MAX_RANK; i++)
        nf_buf_add_c(&b, "1x");
    nf_buf_add_c(&b, "f32>) {\nreturn\n}");
    ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    nf_buf_done(&b);
}
END_TEST

/* Keys of a dictionary differ, however many there are. */
START_TEST(long_dictionaries_have_no_key_twice)
{
    for (int twice = 0; twice < 40; twice += 39) {
        struct nf_buf module = NF_BUF_INIT, op = NF_BUF_INIT;
        nf_buf_add_c(&module, "module attributes {a = {k0 = 1");
        nf_buf_add_c(&op, "func.func @f(%a: tensor<f32>) {\n%0 = stablehlo.add %a, %a {k0 = 1");
        for (int i = 1; i < 40; i++) {
            nf_buf_addf(&module, ", k%d = 1", i == 39 ? i - twice : i);
            nf_buf_addf(&op, ", k%d = 1", i == 39 ? i - twice : i);
        }
        nf_buf_add_c(&module, "}} {}");
        nf_buf_add_c(&op, "} : tensor<f32>\nreturn\n}");
        ck_assert_int_eq(parse(module.data, NULL), twice ? NF_EGRAPH : 0);
        ck_assert_int_eq(parse(op.data, NULL), twice ? NF_EGRAPH : 0);
        nf_buf_done(&module);
        nf_buf_done(&op);
    }
}
END_TEST

/* ---- time: twice the text takes about twice as long, whatever it repeats ---- */

static void many_attributes(struct nf_buf *b, int n)
{
    nf_buf_add_c(b, "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n%0 = stablehlo.add %a, %a {");
    for (int i = 0; i < n; i++)
        nf_buf_addf(b, i ? ", k%d = 1" : "k%d = 1", i);
    nf_buf_add_c(b, "} : tensor<f32>\nreturn %0 : tensor<f32>\n}");
}

/* No entry: all public functions are roots; the names of private ones are f0, f1, .. as theirs are. */
static void many_roots(struct nf_buf *b, int n)
{
    for (int i = 0; i < n; i++)
        nf_buf_addf(b, "func.func @f%d(%%a: tensor<f32>) -> tensor<f32> {\n%%0 = call @p%d(%%a) : (tensor<f32>) -> tensor<f32>\nreturn %%0 : tensor<f32>\n}\n"
                       "func.func private @p%d(%%a: tensor<f32>) -> tensor<f32> {\nreturn %%a : tensor<f32>\n}\n", i, i, i);
}

static void many_branches(struct nf_buf *b, int n)
{
    nf_buf_add_c(b, "func.func @main(%i: tensor<i32>, %a: tensor<f32>) -> tensor<f32> {\n%0 = \"stablehlo.case\"(%i) (");
    for (int i = 0; i < n; i++)
        nf_buf_add_c(b, i ? ",{stablehlo.return %a : tensor<f32>}" : "{stablehlo.return %a : tensor<f32>}");
    nf_buf_add_c(b, ") : (tensor<i32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}");
}

/* The same operands each time, but another attribute. */
static void many_lookalikes(struct nf_buf *b, int n)
{
    nf_buf_add_c(b, "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n");
    for (int i = 0; i < n; i++)
        nf_buf_addf(b, "%%%d = stablehlo.add %%a, %%a {x = %d} : tensor<f32>\n", i, i);
    nf_buf_add_c(b, "%r = stablehlo.custom_call @f(");
    for (int i = 0; i < n; i++)
        nf_buf_addf(b, i ? ", %%%d" : "%%%d", i);
    nf_buf_add_c(b, ") : (");
    for (int i = 0; i < n; i++)
        nf_buf_add_c(b, i ? ", tensor<f32>" : "tensor<f32>");
    nf_buf_add_c(b, ") -> tensor<f32>\nreturn %r : tensor<f32>\n}");
}

static void (*const repeats[])(struct nf_buf *, int) = {many_attributes, many_roots, many_branches, many_lookalikes};

static double seconds_of_key(int which, int n)
{
    struct nf_buf b = NF_BUF_INIT;
    double best = 1e9;
    repeats[which](&b, n);
    for (int i = 0; i < 3; i++) {
        struct timespec t, u;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        key_of(nf_buf_str(&b));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &u);
        best = NF_MIN(best, (double)(u.tv_sec - t.tv_sec) + (double)(u.tv_nsec - t.tv_nsec) * 1e-9);
    }
    nf_buf_done(&b);
    return best;
}

START_TEST(time_grows_as_the_text_does)
{
    double one = seconds_of_key(_i, 2500), eight = seconds_of_key(_i, 20000); /* quadratic: 64 times as long */
    ck_assert_msg(eight < 30 * one, "%g s, and %g s for eight times the text", one, eight);
}
END_TEST

/* Twenty lines that would print as 10^20 attributes. */
START_TEST(aliases_do_not_explode)
{
    struct nf_buf b = NF_BUF_INIT;
    for (int kind = 0; kind < 3; kind++) {
        nf_buf_clear(&b);
        for (int i = 0; i < 20; i++) {
            nf_buf_addf(&b, kind == 1 ? "!a%d = tuple<" : kind == 2 ? "#a%d = loc(fused[" : "#a%d = [", i);
            for (int k = 0; k < 10; k++)
                nf_buf_addf(&b, kind == 1 ? "%s!a%d" : "%s#a%d", k ? ", " : "", i + 1);
            nf_buf_add_c(&b, kind == 1 ? ">\n" : kind == 2 ? "])\n" : "]\n");
        }
        nf_buf_add_c(&b, kind == 1 ? "!a20 = tuple<>\nmodule attributes {x = !a0} {\n}\n" : kind == 2 ? "#a20 = loc(unknown)\nmodule {\n} loc(#a0)\n" : "#a20 = 1 : i64\nmodule attributes {x = #a0} {\n}\n");
        ck_assert_int_eq(parse(b.data, NULL), NF_ELIMIT);
    }
    nf_buf_done(&b);
}
END_TEST

/* Every prefix and every single-byte damage of the samples is answered, not crashed on. */
START_TEST(damaged_text_is_answered)
{
    samples_load();
    for (size_t i = 0; i < num_samples; i++) {
        char *copy = nf_strndup(samples[i].data, samples[i].len);
        for (size_t at = 1; at < samples[i].len; at += 1 + samples[i].len / 400) {
            for (int how = 0; how < 3; how++) {
                struct nf_arena *arena = nf_arena_new(0);
                struct hlo_module *m;
                char was = copy[at];
                if (how)
                    copy[at] = how == 1 ? '<' : (char)(was ^ 0x15);
                memset(&err, 0, sizeof err);
                int rc = hlo_parse(nf_str_n(copy, how ? samples[i].len : at), NULL, arena, &m, &err);
                if (rc)
                    ck_assert_msg(err.message[0] && err.location[0], "an error without words or place");
                else
                    hlo_verify(m, &err);
                copy[at] = was;
                nf_arena_free(arena);
            }
        }
        free(copy);
    }
}
END_TEST

/* ---- literals ---- */

static void elements_are(const char *literal, const void *bytes, size_t len)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_buf text = NF_BUF_INIT;
    nf_buf_addf(&text, "func.func @f() {\n  %%0 = stablehlo.constant %s\n  return\n}", literal);
    struct hlo_module *m = parse_ok(arena, nf_buf_str(&text));
    const struct hlo_attr *a = hlo_value_constant(&hlo_func_block(hlo_module_entry(m))->first->results[0]);
    ck_assert_ptr_nonnull(a);
    ck_assert_msg(a->dense.raw.len == len && memcmp(a->dense.raw.data, bytes, len) == 0, "%s", literal);
    nf_buf_done(&text);
    nf_arena_free(arena);
}

START_TEST(literals_of_every_spelling)
{
    elements_are("dense<[1, -2]> : tensor<2xi16>", "\x01\x00\xfe\xff", 4);
    elements_are("dense<\"0x0100FEFF\"> : tensor<2xi16>", "\x01\x00\xfe\xff", 4);
    elements_are("dense<255> : tensor<3xi8>", "\xff", 1);
    elements_are("dense<[-8, 7]> : tensor<2xi4>", "\xf8\x07", 2);
    elements_are("dense<\"0x0807\"> : tensor<2xi4>", "\xf8\x07", 2);
    elements_are("dense<[3, 0]> : tensor<2xui2>", "\x03\x00", 2);
    elements_are("dense<[true, false]> : tensor<2xi1>", "\x01\x00", 2);
    elements_are("dense<\"0xFF\"> : tensor<9xi1>", "\x01", 1);
    elements_are("dense<> : tensor<0x2xi64>", "", 0);
    elements_are("dense<[]> : tensor<0xi64>", "", 0);
    elements_are("dense<0xFF800000> : tensor<f32>", "\x00\x00\x80\xff", 4);
    elements_are("dense<0x7FC00001> : tensor<f32>", "\x01\x00\xc0\x7f", 4);
    elements_are("dense<-0.0> : tensor<f32>", "\x00\x00\x00\x80", 4);
    elements_are("dense<1.5> : tensor<bf16>", "\xc0\x3f", 2);
    elements_are("dense<0x7F> : tensor<f8E4M3FN>", "\x7f", 1);
    elements_are("dense<6.0> : tensor<f4E2M1FN>", "\x07", 1);
    elements_are("dense<(1.0, -1.0)> : tensor<complex<f32>>", "\x00\x00\x80\x3f\x00\x00\x80\xbf", 8);
    elements_are("dense<18446744073709551615> : tensor<ui64>", "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    elements_are("dense<0.1> : tensor<f64>", "\x9a\x99\x99\x99\x99\x99\xb9\x3f", 8);
    elements_are("dense<123456789012345678.0> : tensor<f64>", "\x35\x0f\x63\xba\xb4\x69\x7b\x43", 8);
}
END_TEST

START_TEST(floats_print_so_that_they_read_back)
{
    static const enum hlo_elem kinds[] = {HLO_ELEM_F32, HLO_ELEM_F64, HLO_ELEM_BF16, HLO_ELEM_F16, HLO_ELEM_F8E4M3FN, HLO_ELEM_F8E5M2, HLO_ELEM_F6E2M3FN, HLO_ELEM_F4E2M1FN};
    uint64_t x = 88172645463325252u;
    for (size_t k = 0; k < NF_ARRAY_LEN(kinds); k++)
        for (int i = 0; i < 400; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            unsigned bits = hlo_elem_bits(kinds[k]);
            uint64_t v = bits == 64 ? x : x & (((uint64_t)1 << bits) - 1);
            struct nf_arena *arena = nf_arena_new(0);
            struct hlo_module *m = hlo_module_new(arena);
            struct nf_buf text = NF_BUF_INIT;
            nf_buf_add_c(&text, "module attributes {x = ");
            hlo_attr_print(hlo_attr_float_bits(m, kinds[k], v), &text);
            nf_buf_add_c(&text, "} {\n}");
            struct hlo_module *back = parse_ok(arena, nf_buf_str(&text));
            const struct hlo_attr *a = hlo_op_discardable(back->op, NF_STR("x"));
            ck_assert_msg(a && a->kind == HLO_ATTR_FLOAT && a->bits == v, "%s: %s, wanted %llx", hlo_elem_name(kinds[k]), text.data, (unsigned long long)v);
            nf_buf_done(&text);
            nf_arena_free(arena);
        }
}
END_TEST

START_TEST(printing_is_a_fixed_point)
{
    samples_load();
    for (size_t i = 0; i < num_samples; i++) {
        struct nf_arena *arena = nf_arena_new(0);
        struct nf_buf a = NF_BUF_INIT, b = NF_BUF_INIT, g = NF_BUF_INIT, c = NF_BUF_INIT;
        struct hlo_module *m = parse_ok(arena, samples[i]);
        hlo_print(m, HLO_PRETTY, &a);
        hlo_print(m, HLO_GENERIC, &g);
        hlo_print(parse_ok(arena, nf_buf_str(&a)), HLO_PRETTY, &b);
        hlo_print(parse_ok(arena, nf_buf_str(&g)), HLO_PRETTY, &c);
        ck_assert_str_eq(a.data, b.data);
        ck_assert_str_eq(a.data, c.data);
        nf_buf_done(&a);
        nf_buf_done(&b);
        nf_buf_done(&c);
        nf_buf_done(&g);
        nf_arena_free(arena);
    }
}
END_TEST

/* Deep programs are no deep recursion. */
START_TEST(long_chains_are_fine)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_c(&b, "func.func @main(%0: tensor<f32>) -> tensor<f32> {\n");
    for (int i = 0; i < 60000; i++)
        nf_buf_addf(&b, "  %%%d = stablehlo.sine %%%d : tensor<f32>\n", i + 1, i);
    nf_buf_add_c(&b, "  return %60000 : tensor<f32>\n}\n");
    struct nf_digest d = key_of(nf_buf_str(&b));
    ck_assert(!nf_digest_zero(&d));
    nf_buf_done(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hlo-text");
    TCase *t = tcase_create("text");
    tcase_set_timeout(t, 100);
    tcase_add_loop_test(t, errors_have_their_place, 0, (int)NF_ARRAY_LEN(wrong));
    tcase_add_test(t, nesting_is_limited);
    tcase_add_test(t, sizes_are_limited);
    tcase_add_test(t, regions_and_dimensions_are_limited);
    tcase_add_test(t, long_dictionaries_have_no_key_twice);
    tcase_add_loop_test(t, time_grows_as_the_text_does, 0, (int)NF_ARRAY_LEN(repeats));
    tcase_add_test(t, aliases_do_not_explode);
    tcase_add_test(t, damaged_text_is_answered);
    tcase_add_test(t, literals_of_every_spelling);
    tcase_add_test(t, floats_print_so_that_they_read_back);
    tcase_add_test(t, printing_is_a_fixed_point);
    tcase_add_test(t, long_chains_are_fine);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
