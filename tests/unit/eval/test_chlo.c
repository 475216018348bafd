/* CHLO expanded to StableHLO, against CHLO evaluated as it is: within a few units in the last place on a grid of values. */
#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/pass_chlo.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct nf_error err;

static struct rt_array run(const char *text, bool expand, const struct rt_array *in, size_t n)
{
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct hlo_eval *e;
    struct rt_array out[2] = {{0}};
    memset(&err, 0, sizeof(err));
    ck_assert_msg(hlo_parse(nf_str_c(text), NULL, a, &m, &err) == 0, "%s: %s in %s", err.location, err.message, text);
    if (expand) {
        ck_assert_msg(hlo_pass_chlo(m, &err) == 0, "%s", err.message);
        ck_assert_msg(hlo_verify(m, &err) == 0, "%s: %s in %s", err.location, err.message, text);
        struct hlo_walk w = hlo_walk_of(m->op);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));)
            ck_assert_int_ne(hlo_op_info((enum hlo_op_id)op->id)->dialect, HLO_DIALECT_CHLO);
    }
    ck_assert_int_eq(hlo_eval_new(m, NULL, &e, &err), 0);
    size_t outs = hlo_eval_num_outputs(e, NF_STR(""));
    ck_assert_msg(hlo_eval_run(e, NF_STR(""), in, n, out, outs, &err) == 0, "%s", err.message);
    hlo_eval_free(e);
    nf_arena_free(a);
    if (outs > 1)
        rt_array_done(&out[1]);
    return out[0];
}

static double ulps(enum nf_dtype dt, double a, double b)
{
    if ((isnan(a) && isnan(b)) || a == b)
        return 0;
    if (!isfinite(a) || !isfinite(b))
        return 1e300;
    int e;
    (void)frexp(fmax(fabs(a), fabs(b)), &e);
    const struct nf_float_format *f = nf_dtype_float_format(dt);
    int digits = dt == NF_DT_F64 ? 53 : dt == NF_DT_F32 ? 24 : f->man_bits + 1, least = dt == NF_DT_F64 ? -1074 : dt == NF_DT_F32 ? -149 : 1 - f->bias - f->man_bits;
    return fabs(a - b) / ldexp(1.0, e - digits < least ? least : e - digits);
}

/* a grid over the whole range, and a fine one around zero and one */
static void fill(enum nf_dtype dt, double *v, size_t n)
{
    size_t k = 0;
    static const double special[] = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 10, -10, 100, 1e-3, -1e-3, 1e-8, 1e-20, 1e20, -1e20, 0.999, -0.999, 1.001};
    for (; k < NF_ARRAY_LEN(special); k++)
        v[k] = special[k];
    v[k++] = (double)INFINITY;
    v[k++] = -(double)INFINITY;
    v[k++] = (double)NAN;
    for (; k < n; k++)
        v[k] = ((double)(k * 7919 % 4001) / 4001 * 2 - 1) * (k % 3 == 0 ? 1 : k % 3 == 1 ? 5 : 60);
    struct rt_array tmp;
    int64_t count = (int64_t)n;
    ck_assert_int_eq(rt_array_alloc(dt, 1, &count, 0, &tmp, NULL), 0);
    for (size_t i = 0; i < n; i++) { /* as the type holds them */
        if (dt == NF_DT_F32)
            v[i] = (double)(float)v[i];
        else if (dt != NF_DT_F64)
            v[i] = nf_small_to_double(dt, nf_small_from_double(dt, v[i]));
    }
    rt_array_done(&tmp);
}

static struct rt_array array_of(enum nf_dtype dt, const double *v, size_t n)
{
    struct rt_array a;
    int64_t count = (int64_t)n;
    ck_assert_int_eq(rt_array_alloc(dt, 1, &count, 0, &a, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        if (dt == NF_DT_F64)
            ((double *)a.data)[i] = v[i];
        else if (dt == NF_DT_F32)
            ((float *)a.data)[i] = (float)v[i];
        else
            ((uint16_t *)a.data)[i] = nf_small_from_double(dt, v[i]);
    }
    return a;
}

enum { N = 600 };

START_TEST(real_functions)
{
    static const struct {
        const char *name;
        double ulp32, ulp64;
    } ops[] = {{"acos", 3, 3}, {"acosh", 3, 3}, {"asin", 3, 3}, {"asinh", 3, 3}, {"atan", 2, 2}, {"atanh", 3, 3}, {"cosh", 3, 3}, {"sinh", 4, 4}, {"tan", 1, 1},
        {"erf", 1, 3}, {"erfc", 1, 10}, {"erf_inv", 1, 8}, {"square", 1, 1}, {"bessel_i1e", 1, 12}};
    static const enum nf_dtype types[] = {NF_DT_F32, NF_DT_F64, NF_DT_BF16, NF_DT_F16};
    double v[N];
    for (size_t o = 0; o < NF_ARRAY_LEN(ops); o++)
        for (size_t t = 0; t < NF_ARRAY_LEN(types); t++) {
            enum nf_dtype dt = types[t];
            char text[512];
            fill(dt, v, N);
            nf_format(text, sizeof(text), "func.func @main(%%a: tensor<%dx%s>) -> tensor<%dx%s> {\n %%0 = chlo.%s %%a : tensor<%dx%s> -> tensor<%dx%s>\n return %%0 : tensor<%dx%s>\n}\n",
                N, nf_dtype_name(dt), N, nf_dtype_name(dt), ops[o].name, N, nf_dtype_name(dt), N, nf_dtype_name(dt), N, nf_dtype_name(dt));
            struct rt_array in = array_of(dt, v, N), a = run(text, false, &in, 1), b = run(text, true, &in, 1);
            size_t w = nf_dtype_bytes(dt);
            double limit = dt == NF_DT_F64 ? ops[o].ulp64 : dt == NF_DT_F32 ? ops[o].ulp32 : 1;
            for (size_t i = 0; i < N; i++) {
                double x = nf_elem_to_double(dt, (char *)a.data + i * w), y = nf_elem_to_double(dt, (char *)b.data + i * w);
                ck_assert_msg(ulps(dt, x, y) <= limit, "%s(%.17g) as %s: %.17g, expanded %.17g (%.1f ulp)", ops[o].name, v[i], nf_dtype_name(dt), x, y, ulps(dt, x, y));
            }
            rt_array_done(&in);
            rt_array_done(&a);
            rt_array_done(&b);
        }
}
END_TEST

/* absolute where the function has zeros */
START_TEST(gamma_and_zeta)
{
    static const char *const ops[] = {"lgamma", "digamma"};
    double v[N];
    fill(NF_DT_F64, v, N);
    for (size_t o = 0; o < 2; o++) {
        char text[512];
        nf_format(text, sizeof(text), "func.func @main(%%a: tensor<%dxf64>) -> tensor<%dxf64> {\n %%0 = chlo.%s %%a : tensor<%dxf64> -> tensor<%dxf64>\n return %%0 : tensor<%dxf64>\n}\n", N, N,
            ops[o], N, N, N);
        struct rt_array in = array_of(NF_DT_F64, v, N), a = run(text, false, &in, 1), b = run(text, true, &in, 1);
        for (size_t i = 0; i < N; i++) {
            double x = ((double *)a.data)[i], y = ((double *)b.data)[i];
            bool near = (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 2e-13 * fabs(x) + 2e-13 + (fabs(x) > 1e3 ? 1e-9 * fabs(x) : 0);
            ck_assert_msg(near, "%s(%.17g): %.17g, expanded %.17g", ops[o], v[i], x, y);
        }
        rt_array_done(&in);
        rt_array_done(&a);
        rt_array_done(&b);
    }
    double s[] = {1, 2, 2.5, 3, 4, 8, 20, 2, 3, 0.5, 2, 3}, q[] = {2, 1, 0.5, 3, 10, 0.25, 1.5, -2, -2, 1, -1.5, -1.5};
    for (int k = 0; k < 2; k++) {
        char text[512];
        nf_format(text, sizeof(text), "func.func @main(%%a: tensor<12xf64>, %%b: tensor<12xf64>) -> tensor<12xf64> {\n %%0 = chlo.%s %%a, %%b : tensor<12xf64>, tensor<12xf64> -> tensor<12xf64>\n return %%0 : tensor<12xf64>\n}\n",
            k ? "polygamma" : "zeta");
        double n[12];
        for (int i = 0; i < 12; i++)
            n[i] = k ? i % 5 : s[i];
        struct rt_array in[2] = {array_of(NF_DT_F64, n, 12), array_of(NF_DT_F64, q, 12)}, a = run(text, false, in, 2), b = run(text, true, in, 2);
        for (int i = 0; i < 12; i++) {
            double x = ((double *)a.data)[i], y = ((double *)b.data)[i];
            bool near = (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-12 * fabs(x);
            ck_assert_msg(near, "%s(%g, %g): %.17g, expanded %.17g", k ? "polygamma" : "zeta", n[i], q[i], x, y);
        }
        rt_array_done(&in[0]);
        rt_array_done(&in[1]);
        rt_array_done(&a);
        rt_array_done(&b);
    }
}
END_TEST

START_TEST(complex_functions)
{
    static const struct {
        const char *name;
        double ulp;
    } ops[] = {{"acos", 5}, {"acosh", 5}, {"asin", 5}, {"asinh", 5}, {"atan", 5}, {"atanh", 5}, {"square", 2}, {"conj", 0}, {"tan", 0}};
    double g[] = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 1e-5, -1e-5, 1e-30, 1e-200, 0.999, 1.5, -3, 10, 1e5, 1e30, 1e200, -1e200, 1.0000001, -0.9999999};
    enum { G = NF_ARRAY_LEN(g), M = G * G };
    for (size_t o = 0; o < NF_ARRAY_LEN(ops); o++)
        for (int wide = 0; wide < 2; wide++) {
            const char *type = wide ? "complex<f64>" : "complex<f32>";
            enum nf_dtype dt = wide ? NF_DT_C128 : NF_DT_C64, part = nf_dtype_part(dt);
            char text[512];
            int64_t count = M;
            nf_format(text, sizeof(text), "func.func @main(%%a: tensor<%dx%s>) -> tensor<%dx%s> {\n %%0 = chlo.%s %%a : tensor<%dx%s> -> tensor<%dx%s>\n return %%0 : tensor<%dx%s>\n}\n", (int)M, type,
                (int)M, type, ops[o].name, (int)M, type, (int)M, type, (int)M, type);
            struct rt_array in;
            ck_assert_int_eq(rt_array_alloc(dt, 1, &count, 0, &in, NULL), 0);
            for (size_t i = 0; i < M; i++)
                for (size_t p = 0; p < 2; p++) {
                    double x = p ? g[i % G] : g[i / G];
                    if (wide)
                        ((double *)in.data)[2 * i + p] = x;
                    else
                        ((float *)in.data)[2 * i + p] = fabs(x) > 1e38 ? (float)copysign(1e38, x) : (float)x;
                }
            struct rt_array a = run(text, false, &in, 1), b = run(text, true, &in, 1);
            size_t w = nf_dtype_bytes(part);
            for (size_t i = 0; i < 2 * M; i++) {
                double x = nf_elem_to_double(part, (char *)a.data + i * w), y = nf_elem_to_double(part, (char *)b.data + i * w);
                double re = nf_elem_to_double(part, (char *)in.data + (i & ~(size_t)1) * w), im = nf_elem_to_double(part, (char *)in.data + (i | 1) * w);
                ck_assert_msg(ulps(part, x, y) <= ops[o].ulp, "%s(%.17g, %.17g) as %s, part %d: %.17g, expanded %.17g (%.1f ulp)", ops[o].name, re, im, type, (int)(i & 1), x, y,
                    ulps(part, x, y));
            }
            rt_array_done(&in);
            rt_array_done(&a);
            rt_array_done(&b);
        }
}
END_TEST

START_TEST(the_others_are_exact)
{
    static const char *const texts[] = {
        "func.func @main() -> tensor<5xi32> {\n %a = stablehlo.constant dense<[2147483647, -5, 65536, -2147483648, 7]> : tensor<5xi32>\n"
        " %0 = chlo.mulhi %a, %a : tensor<5xi32>, tensor<5xi32> -> tensor<5xi32>\n return %0 : tensor<5xi32>\n}\n",
        "func.func @main() -> tensor<4xi64> {\n %a = stablehlo.constant dense<[9223372036854775807, -5, 4294967296, -9223372036854775808]> : tensor<4xi64>\n"
        " %b = stablehlo.constant dense<[-3, -7, 4294967297, -9223372036854775808]> : tensor<4xi64>\n"
        " %0 = chlo.mulhi %a, %b : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>\n return %0 : tensor<4xi64>\n}\n",
        "func.func @main() -> tensor<3xui64> {\n %a = stablehlo.constant dense<[18446744073709551615, 5, 4294967296]> : tensor<3xui64>\n"
        " %0 = chlo.mulhi %a, %a : tensor<3xui64>, tensor<3xui64> -> tensor<3xui64>\n return %0 : tensor<3xui64>\n}\n",
        "func.func @main() -> tensor<6xf32> {\n %a = stablehlo.constant dense<[0.0, -0.0, 1.0, 1.0, 0x7FC00000, 0x7F7FFFFF]> : tensor<6xf32>\n"
        " %b = stablehlo.constant dense<[-1.0, 1.0, 2.0, 0.0, 1.0, 0x7F800000]> : tensor<6xf32>\n"
        " %0 = chlo.next_after %a, %b : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>\n return %0 : tensor<6xf32>\n}\n",
        "func.func @main() -> (tensor<2x3xf32>, tensor<2x3xi32>) {\n %a = stablehlo.constant dense<[[1.0, 3.0, 3.0, 0x7FC00000], [-0.0, 0.0, -1.0, 5.0]]> : tensor<2x4xf32>\n"
        " %v, %i = chlo.top_k(%a, k = 3) : tensor<2x4xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)\n return %v, %i : tensor<2x3xf32>, tensor<2x3xi32>\n}\n",
        "func.func @main() -> tensor<2x3xi1> {\n %a = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>\n %b = stablehlo.constant dense<[0.5, 1.5, 2.5]> : tensor<3xf32>\n"
        " %0 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xi1>\n return %0 : tensor<2x3xi1>\n}\n",
        "func.func @main() -> (tensor<4xi32>, tensor<i32>) {\n %a = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>\n %z = stablehlo.constant dense<10> : tensor<i32>\n"
        " %0:2 = chlo.scan(%a) inits(%z) dimension=0 attributes {is_reverse = true} {\n ^bb0(%x: tensor<i32>, %s: tensor<i32>):\n %r = stablehlo.multiply %x, %s : tensor<i32>\n"
        " stablehlo.return %r, %r : tensor<i32>, tensor<i32>\n } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)\n return %0#0, %0#1 : tensor<4xi32>, tensor<i32>\n}\n",
        "func.func @main() -> tensor<2x1x2xi32> {\n %a = stablehlo.constant dense<[[1, 2, 3]]> : tensor<1x3xi32>\n %b = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>\n"
        " %g = stablehlo.constant dense<[1, 2]> : tensor<2xi64>\n %0 = \"chlo.ragged_dot\"(%a, %b, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], "
        "rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1], rhs_group_dimensions = []>} : "
        "(tensor<1x3xi32>, tensor<3x2xi32>, tensor<2xi64>) -> tensor<2x1x2xi32>\n return %0 : tensor<2x1x2xi32>\n}\n",
        "func.func @main() -> tensor<3xi1> {\n %a = stablehlo.constant dense<[0x7F800000, 0xFF800000, 1.0]> : tensor<3xf32>\n"
        " %0 = chlo.is_neg_inf %a : tensor<3xf32> -> tensor<3xi1>\n return %0 : tensor<3xi1>\n}\n",
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(texts); i++) {
        struct rt_array a = run(texts[i], false, NULL, 0), b = run(texts[i], true, NULL, 0);
        ck_assert_uint_eq(a.bytes, b.bytes);
        ck_assert_msg(memcmp(a.data, b.data, a.bytes) == 0, "%s", texts[i]);
        rt_array_done(&a);
        rt_array_done(&b);
    }
}
END_TEST

/* The texts of functions on static shapes, and the same where the pass sees only ranks: equal bits. */
START_TEST(shapes_of_run_time_give_the_same)
{
    static const struct {
        const char *elem, *statics, *dynamics;  /* operand's element; body with %a: 2x3 and %b: 3 (or 2x1), and with types open */
    } cases[] = {
        {"f32", "chlo.erf %a : tensor<2x3xf32> -> tensor<2x3xf32>", "chlo.erf %a : tensor<?x3xf32> -> tensor<?x3xf32>"},
        {"f32", "chlo.lgamma %a : tensor<2x3xf32> -> tensor<2x3xf32>", "chlo.lgamma %a : tensor<?x3xf32> -> tensor<?x3xf32>"},
        {"f32", "chlo.acosh %a : tensor<2x3xf32> -> tensor<2x3xf32>", "chlo.acosh %a : tensor<?x3xf32> -> tensor<?x3xf32>"},
        {"f32", "chlo.is_inf %a : tensor<2x3xf32> -> tensor<2x3xi1>", "chlo.is_inf %a : tensor<?x3xf32> -> tensor<?x3xi1>"},
        {"f32", "chlo.next_after %a, %a : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>", "chlo.next_after %a, %a : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>"},
        {"f32", "chlo.zeta %a, %a : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>", "chlo.zeta %a, %a : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>"},
        {"i32", "chlo.mulhi %a, %a : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>", "chlo.mulhi %a, %a : tensor<?x3xi32>, tensor<?x3xi32> -> tensor<?x3xi32>"},
        {"f32", "\"chlo.constant_like\"(%a) {value = 2.5 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>", "\"chlo.constant_like\"(%a) {value = 2.5 : f32} : (tensor<?x3xf32>) -> tensor<?x3xf32>"},
        {"f32", "chlo.broadcast_subtract %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>", "chlo.broadcast_subtract %a, %c : (tensor<?x3xf32>, tensor<?xf32>) -> tensor<?x3xf32>"},
        {"f32", "chlo.broadcast_subtract %d, %a : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>", "chlo.broadcast_subtract %e, %a : (tensor<?x?xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>"},
        {"f32", "chlo.broadcast_subtract %a, %k {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>",
         "chlo.broadcast_subtract %a, %l {broadcast_dimensions = array<i64: 0>} : (tensor<?x3xf32>, tensor<?xf32>) -> tensor<?x3xf32>"},
        {"f32", "chlo.broadcast_compare %d, %a {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
         "chlo.broadcast_compare %e, %a {comparison_direction = #chlo<comparison_direction GT>} : (tensor<?x?xf32>, tensor<?x3xf32>) -> tensor<?x3xi1>"},
        {"f32", "chlo.top_k(%a, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)", "chlo.top_k(%a, k = 2) : tensor<?x3xf32> -> (tensor<?x2xf32>, tensor<?x2xi32>)"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(cases); i++) {
        struct rt_array r[2];
        for (int open = 0; open < 2; open++) {
            const char *body = open ? cases[i].dynamics : cases[i].statics, *type = strstr(body, "-> ") + 3;
            bool top = strstr(body, "top_k") != NULL;
            char text[3000];
            nf_format(text, sizeof(text),
                "func.func @main() -> %.*s {\n %%x = stablehlo.constant dense<[[%s], [%s]]> : tensor<2x3x%s>\n %%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
                " %%a = stablehlo.dynamic_reshape %%x, %%s : (tensor<2x3x%s>, tensor<2xi32>) -> tensor<%dx3x%s>\n"
                " %%b = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>\n %%n = stablehlo.constant dense<3> : tensor<1xi32>\n"
                " %%c = stablehlo.dynamic_reshape %%b, %%n : (tensor<3xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
                " %%d = stablehlo.constant dense<[[0.5], [4.5]]> : tensor<2x1xf32>\n %%m = stablehlo.constant dense<[2, 1]> : tensor<2xi32>\n"
                " %%e = stablehlo.dynamic_reshape %%d, %%m : (tensor<2x1xf32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
                " %%k = stablehlo.reshape %%d : (tensor<2x1xf32>) -> tensor<2xf32>\n %%o = stablehlo.constant dense<2> : tensor<1xi32>\n"
                " %%l = stablehlo.dynamic_reshape %%k, %%o : (tensor<2xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
                " %s = %s\n return %s : %.*s\n}\n",
                (int)strlen(type), type, cases[i].elem[0] == 'i' ? "1000000, -7, 2147483647" : "0.5, 1.25, 3.5", cases[i].elem[0] == 'i' ? "3, 99999999, -2147483648" : "2.0, 0x7F800000, 7.75", cases[i].elem,
                cases[i].elem, open ? -1 : 2, cases[i].elem, top ? "%v, %w" : "%v", body, top ? "%v, %w" : "%v",
                top ? (int)strlen(type) - 2 : (int)strlen(type), top ? type + 1 : type);
            for (char *at; (at = strstr(text, "<-1x"));) /* a size of -1 is written ? */
                memmove(at + 1, at + 2, strlen(at + 1)), at[1] = '?';
            r[open] = run(text, true, NULL, 0);
        }
        ck_assert_uint_eq(r[0].bytes, r[1].bytes);
        ck_assert_msg(r[0].bytes && memcmp(r[0].data, r[1].data, r[0].bytes) == 0, "%s", cases[i].dynamics);
        rt_array_done(&r[0]);
        rt_array_done(&r[1]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval-chlo");
    TCase *t = tcase_create("chlo");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, real_functions);
    tcase_add_test(t, gamma_and_zeta);
    tcase_add_test(t, complex_functions);
    tcase_add_test(t, the_others_are_exact);
    tcase_add_test(t, shapes_of_run_time_give_the_same);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
