/* Attention in every form that pipeline/codegen/attention.c knows, and some that it must leave alone, against sums in double: as one step with the kernel
 * cut or not, kept or not, on one thread and on several (the same bits), as machine code and interpreted. */
#include "base/arena.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/pool.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum mask { NO_MASK, CAUSAL, STRICT, COLUMNS_FIRST, SHIFTED, WITH_PADDING, UPPER, AS_NUMBER };
enum scores { PLAIN, TURNED, SCALED_TWICE, SHARED };
enum also { NOTHING, P_TOO, BIAS, BIAS_LAST, DIVIDED_LAST };
enum values { USUAL, INFINITE_V, NAN_K, SMALL_SCORES };
enum form { APART, TOGETHER, CUT };

static const struct attention_case {
    const char *name;
    int batch, rows, cols, depth, width;
    enum mask mask;
    float fill;
    enum scores scores;
    enum also also;
    enum values values;
    enum form form;
} cases[] = {
    {"no mask", 2, 197, 197, 64, 64, NO_MASK, 0, PLAIN, NOTHING, USUAL, TOGETHER},
    {"causal", 2, 256, 256, 32, 48, CAUSAL, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"causal, one batch", 1, 320, 320, 64, 64, CAUSAL, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"columns are not whole pieces", 2, 200, 200, 16, 16, CAUSAL, -INFINITY, PLAIN, NOTHING, USUAL, TOGETHER},
    {"a number, not infinity", 2, 256, 256, 32, 32, CAUSAL, -1e9F, PLAIN, NOTHING, USUAL, CUT},
    {"what is masked counts", 2, 256, 256, 32, 32, CAUSAL, -3, PLAIN, NOTHING, USUAL, CUT},
    {"all scores are below what is masked", 1, 256, 256, 8, 8, CAUSAL, -30, PLAIN, NOTHING, SMALL_SCORES, CUT},
    {"a row without columns is not a number", 2, 256, 256, 32, 32, STRICT, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"a row without columns is the mean", 2, 256, 256, 32, 32, STRICT, -1e9F, PLAIN, NOTHING, USUAL, CUT},
    {"the mask the other way round", 2, 256, 256, 32, 32, COLUMNS_FIRST, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"more columns than rows", 2, 128, 384, 32, 32, SHIFTED, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"more rows than columns", 2, 512, 128, 32, 32, CAUSAL, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"with padding", 2, 256, 256, 32, 32, WITH_PADDING, -INFINITY, PLAIN, NOTHING, USUAL, CUT},
    {"columns before are masked", 2, 256, 256, 32, 32, UPPER, -INFINITY, PLAIN, NOTHING, USUAL, TOGETHER},
    {"keys times queries", 2, 256, 256, 32, 32, CAUSAL, -INFINITY, TURNED, NOTHING, USUAL, CUT},
    {"two heads share keys", 4, 256, 256, 32, 32, CAUSAL, -INFINITY, SHARED, NOTHING, USUAL, CUT},
    {"scores that others read", 2, 256, 256, 32, 32, CAUSAL, -INFINITY, SCALED_TWICE, NOTHING, USUAL, APART},
    {"weights are an output", 2, 256, 256, 32, 32, CAUSAL, -INFINITY, PLAIN, P_TOO, USUAL, CUT},
    {"weights are an output, no mask", 3, 160, 160, 32, 32, NO_MASK, 0, PLAIN, P_TOO, USUAL, TOGETHER},
    {"a bias by column", 2, 256, 256, 32, 32, CAUSAL, -INFINITY, PLAIN, BIAS, USUAL, CUT},
    {"a bias by column where the mask is", 2, 256, 256, 32, 32, CAUSAL, -50, PLAIN, BIAS_LAST, USUAL, TOGETHER},
    {"divided by the sum at the end", 2, 256, 256, 32, 32, CAUSAL, -1e9F, PLAIN, DIVIDED_LAST, USUAL, CUT},
    {"the mask was a number", 2, 256, 256, 32, 32, AS_NUMBER, -1e9F, PLAIN, NOTHING, USUAL, CUT},
    {"infinite values where the mask is", 2, 256, 256, 32, 32, CAUSAL, -INFINITY, PLAIN, NOTHING, INFINITE_V, CUT},
    {"keys that are not numbers", 2, 256, 256, 32, 32, CAUSAL, -INFINITY, PLAIN, NOTHING, NAN_K, CUT},
    {"a deep product", 1, 288, 288, 300, 20, CAUSAL, -INFINITY, PLAIN, NOTHING, USUAL, TOGETHER},
    {"few rows stay apart", 8, 16, 1024, 32, 32, NO_MASK, 0, PLAIN, NOTHING, USUAL, APART},
    {"wide strips are low", 1, 64, 8192, 8, 8, NO_MASK, 0, PLAIN, NOTHING, USUAL, TOGETHER},
};

static bool sees(const struct attention_case *c, int row, int col)
{
    switch (c->mask) {
    case NO_MASK: return true;
    case CAUSAL: case COLUMNS_FIRST: case AS_NUMBER: return col <= row;
    case STRICT: return col < row;
    case SHIFTED: return col <= row + 256;
    case WITH_PADDING: return col <= row && col >= 3;
    case UPPER: return col >= row;
    }
    return false;
}

static void write_mask(const struct attention_case *c, struct nf_buf *b)
{
    char t[64], i1[64];
    nf_format(t, sizeof t, "tensor<%dx%dxi32>", c->rows, c->cols);
    nf_format(i1, sizeof i1, "tensor<%dx%dxi1>", c->rows, c->cols);
    nf_buf_addf(b, "  %%r = stablehlo.iota dim = 0 : %s\n  %%c = stablehlo.iota dim = 1 : %s\n", t, t);
    switch (c->mask) {
    case NO_MASK: return;
    case CAUSAL: nf_buf_addf(b, "  %%m = stablehlo.compare GE, %%r, %%c : (%s, %s) -> %s\n", t, t, i1); break;
    case STRICT: nf_buf_addf(b, "  %%m = stablehlo.compare GT, %%r, %%c : (%s, %s) -> %s\n", t, t, i1); break;
    case COLUMNS_FIRST: nf_buf_addf(b, "  %%m0 = stablehlo.compare GT, %%c, %%r : (%s, %s) -> %s\n  %%m = stablehlo.not %%m0 : %s\n", t, t, i1, i1); break;
    case SHIFTED:
        nf_buf_addf(b, "  %%k256 = stablehlo.constant dense<256> : %s\n  %%r1 = stablehlo.add %%r, %%k256 : %s\n  %%m = stablehlo.compare GE, %%r1, %%c : (%s, %s) -> %s\n", t, t, t, t, i1);
        break;
    case WITH_PADDING:
        nf_buf_addf(b, "  %%k3 = stablehlo.constant dense<3> : %s\n  %%m0 = stablehlo.compare GE, %%r, %%c : (%s, %s) -> %s\n", t, t, t, i1);
        nf_buf_addf(b, "  %%m1 = stablehlo.compare GE, %%c, %%k3 : (%s, %s) -> %s\n  %%m = stablehlo.and %%m0, %%m1 : %s\n", t, t, i1, i1);
        break;
    case AS_NUMBER: {
        char f[64];
        nf_format(f, sizeof f, "tensor<%dx%dxf32>", c->rows, c->cols);
        nf_buf_addf(b, "  %%m0 = stablehlo.compare GE, %%r, %%c : (%s, %s) -> %s\n  %%m1 = stablehlo.convert %%m0 : (%s) -> %s\n", t, t, i1, i1, f);
        nf_buf_addf(b, "  %%m2 = stablehlo.constant dense<0.0> : %s\n  %%m = stablehlo.compare NE, %%m1, %%m2 : (%s, %s) -> %s\n", f, f, f, i1);
        break;
    }
    case UPPER: nf_buf_addf(b, "  %%m = stablehlo.compare LE, %%r, %%c : (%s, %s) -> %s\n", t, t, i1); break;
    }
}

/* Batches that have keys and values of their own. */
static int keys(const struct attention_case *c) { return c->scores == SHARED ? c->batch / 2 : c->batch; }

/* A value of c->batch batches, or as that of keys(c) batches of two heads each. */
static void two_heads(const struct attention_case *c, char *ret, size_t size, int n) { nf_format(ret, size, "tensor<%dx2x%dx%dxf32>", keys(c), c->rows, n); }

static void write_program(const struct attention_case *c, struct nf_buf *b)
{
    char q[64], k[64], v[64], s[64], st[64], i1[64], row[64], o[64], bias[64];
    nf_format(q, sizeof q, "tensor<%dx%dx%dxf32>", c->batch, c->rows, c->depth);
    nf_format(k, sizeof k, "tensor<%dx%dx%dxf32>", keys(c), c->cols, c->depth);
    nf_format(v, sizeof v, "tensor<%dx%dx%dxf32>", keys(c), c->cols, c->width);
    nf_format(s, sizeof s, "tensor<%dx%dx%dxf32>", c->batch, c->rows, c->cols);
    nf_format(st, sizeof st, "tensor<%dx%dx%dxf32>", c->batch, c->cols, c->rows);
    nf_format(i1, sizeof i1, "tensor<%dx%dx%dxi1>", c->batch, c->rows, c->cols);
    nf_format(row, sizeof row, "tensor<%dx%dxf32>", c->batch, c->rows);
    nf_format(o, sizeof o, "tensor<%dx%dx%dxf32>", c->batch, c->rows, c->width);
    nf_format(bias, sizeof bias, "tensor<%dxf32>", c->cols);
    const char *more = c->also == P_TOO || c->scores == SCALED_TWICE ? s : NULL;
    nf_buf_addf(b, "func.func @main(%%q: %s, %%k: %s, %%v: %s, %%bias: %s) -> (%s%s%s) {\n", q, k, v, bias, o, more ? ", " : "", more ? more : "");
    if (c->scores == TURNED) {
        nf_buf_addf(b, "  %%s0 = stablehlo.dot_general %%k, %%q, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (%s, %s) -> %s\n", k, q, st);
        nf_buf_addf(b, "  %%s = stablehlo.transpose %%s0, dims = [0, 2, 1] : (%s) -> %s\n", st, s);
    } else if (c->scores == SHARED) {
        char q2[64], s2[64];
        two_heads(c, q2, sizeof q2, c->depth);
        two_heads(c, s2, sizeof s2, c->cols);
        nf_buf_addf(b, "  %%q2 = stablehlo.reshape %%q : (%s) -> %s\n", q, q2);
        nf_buf_addf(b, "  %%s2 = stablehlo.dot_general %%q2, %%k, batching_dims = [0] x [0], contracting_dims = [3] x [2] : (%s, %s) -> %s\n", q2, k, s2);
        nf_buf_addf(b, "  %%s = stablehlo.reshape %%s2 : (%s) -> %s\n", s2, s);
    } else {
        nf_buf_addf(b, "  %%s = stablehlo.dot_general %%q, %%k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (%s, %s) -> %s\n", q, k, s);
    }
    nf_buf_addf(b, "  %%scale = stablehlo.constant dense<0.25> : %s\n  %%x0 = stablehlo.multiply %%s, %%scale : %s\n", s, s);
    if (c->also == BIAS) {
        nf_buf_addf(b, "  %%bb = stablehlo.broadcast_in_dim %%bias, dims = [2] : (%s) -> %s\n  %%x1 = stablehlo.add %%x0, %%bb : %s\n", bias, s, s);
    }
    const char *x = c->also == BIAS ? "x1" : "x0";
    if (c->mask != NO_MASK) {
        write_mask(c, b);
        nf_buf_addf(b, "  %%mm = stablehlo.broadcast_in_dim %%m, dims = [1, 2] : (tensor<%dx%dxi1>) -> %s\n", c->rows, c->cols, i1);
        if (isinf(c->fill)) nf_buf_addf(b, "  %%fill = stablehlo.constant dense<0xFF800000> : %s\n", s);
        else nf_buf_addf(b, "  %%fill = stablehlo.constant dense<%.1f> : %s\n", (double)c->fill, s);
        nf_buf_addf(b, "  %%x = stablehlo.select %%mm, %%%s, %%fill : %s, %s\n", x, i1, s);
        x = "x";
    }
    if (c->also == BIAS_LAST) {
        nf_buf_addf(b, "  %%bb = stablehlo.broadcast_in_dim %%bias, dims = [2] : (%s) -> %s\n  %%x2 = stablehlo.add %%x, %%bb : %s\n", bias, s, s);
        x = "x2";
    }
    nf_buf_addf(b, "  %%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n  %%zero = stablehlo.constant dense<0.0> : tensor<f32>\n");
    nf_buf_addf(b, "  %%top = stablehlo.reduce(%%%s init: %%low) applies stablehlo.maximum across dimensions = [2] : (%s, tensor<f32>) -> %s\n", x, s, row);
    nf_buf_addf(b, "  %%tops = stablehlo.broadcast_in_dim %%top, dims = [0, 1] : (%s) -> %s\n  %%d = stablehlo.subtract %%%s, %%tops : %s\n", row, s, x, s);
    nf_buf_addf(b, "  %%e = stablehlo.exponential %%d : %s\n  %%sum = stablehlo.reduce(%%e init: %%zero) applies stablehlo.add across dimensions = [2] : (%s, tensor<f32>) -> %s\n", s, s, row);
    nf_buf_addf(b, "  %%sums = stablehlo.broadcast_in_dim %%sum, dims = [0, 1] : (%s) -> %s\n  %%p = stablehlo.divide %%e, %%sums : %s\n", row, s, s);
    if (c->also == DIVIDED_LAST) {
        nf_buf_addf(b, "  %%o0 = stablehlo.dot_general %%e, %%v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (%s, %s) -> %s\n", s, v, o);
        nf_buf_addf(b, "  %%sumo = stablehlo.broadcast_in_dim %%sum, dims = [0, 1] : (%s) -> %s\n  %%o = stablehlo.divide %%o0, %%sumo : %s\n", row, o, o);
    } else if (c->scores == SHARED) {
        char p2[64], o2[64];
        two_heads(c, p2, sizeof p2, c->cols);
        two_heads(c, o2, sizeof o2, c->width);
        nf_buf_addf(b, "  %%p2 = stablehlo.reshape %%p : (%s) -> %s\n", s, p2);
        nf_buf_addf(b, "  %%o2 = stablehlo.dot_general %%p2, %%v, batching_dims = [0] x [0], contracting_dims = [3] x [1] : (%s, %s) -> %s\n", p2, v, o2);
        nf_buf_addf(b, "  %%o = stablehlo.reshape %%o2 : (%s) -> %s\n", o2, o);
    } else nf_buf_addf(b, "  %%o = stablehlo.dot_general %%p, %%v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (%s, %s) -> %s\n", s, v, o);
    nf_buf_addf(b, "  return %%o%s : %s%s%s\n}\n", c->also == P_TOO ? ", %p" : more ? ", %s" : "", o, more ? ", " : "", more ? more : "");
}

static void fill(float *x, int64_t n, uint32_t seed, float low, float high)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = low + (high - low) * (float)(seed >> 8) / (float)(1 << 24);
    }
}

static void expected(const struct attention_case *c, const float *q, const float *k, const float *v, const float *bias, double *o, double *p, double *s)
{
    for (int b = 0; b < c->batch; b++)
        for (int i = 0; i < c->rows; i++) {
            double *row = p + ((int64_t)b * c->rows + i) * c->cols, *score = s + ((int64_t)b * c->rows + i) * c->cols, top = -INFINITY, sum = 0;
            for (int j = 0; j < c->cols; j++) {
                double x = 0;
                for (int d = 0; d < c->depth; d++) x += (double)q[((int64_t)b * c->rows + i) * c->depth + d] * (double)k[((int64_t)(b / (c->batch / keys(c))) * c->cols + j) * c->depth + d];
                score[j] = x;
                x *= 0.25;
                if (c->also == BIAS) x += (double)bias[j];
                row[j] = (sees(c, i, j) ? x : (double)c->fill) + (c->also == BIAS_LAST ? (double)bias[j] : 0);
                top = isnan(top) || isnan(row[j]) ? NAN : fmax(top, row[j]);
            }
            for (int j = 0; j < c->cols; j++) sum += row[j] = exp(row[j] - top);
            for (int j = 0; j < c->cols; j++) row[j] = row[j] / sum < 1e-40 ? 0 : row[j] / sum; /* as in f32 */
            for (int n = 0; n < c->width; n++) {
                double x = 0;
                for (int j = 0; j < c->cols; j++) x += row[j] * (double)v[((int64_t)(b / (c->batch / keys(c))) * c->cols + j) * c->width + n];
                o[((int64_t)b * c->rows + i) * c->width + n] = x;
            }
        }
}

static void compare(const char *what, const float *got, const double *want, int64_t n, double bound)
{
    for (int64_t i = 0; i < n; i++) {
        bool same = isnan(want[i]) ? isnan(got[i]) : isinf(want[i]) ? (double)got[i] == want[i] : fabs((double)got[i] - want[i]) <= bound;
        ck_assert_msg(same, "%s, element %" PRId64 ": %.9g, not %.9g", what, i, (double)got[i], want[i]);
    }
}

static void keep_plan(void *user, const char *stage, struct nf_str text)
{
    if (strcmp(stage, "plan") == 0) nf_buf_add(user, text.data, text.len);
}

static void run_case(const struct attention_case *c, bool interpret)
{
    struct nf_buf text = NF_BUF_INIT, neff = NF_BUF_INIT, plan = NF_BUF_INIT;
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_error err = {0};
    struct hlo_module *m;
    write_program(c, &text);
    ck_assert_msg(hlo_parse(nf_buf_str(&text), NULL, arena, &m, &err) == 0 && hlo_verify(m, &err) == 0, "%s: %s", err.location, err.message);
    struct cg_request request = {.tier = 1, .interpret = interpret, .print = keep_plan, .print_user = &plan};
    ck_assert_msg(cg_compile(m, &request, &neff, NULL, &err) == 0, "%s", err.message);
    ck_assert_msg((strstr(plan.data, "    attention (") != NULL) == (c->form != APART), "%s", plan.data);
    ck_assert_msg((strstr(plan.data, "    row cut ") != NULL) == (c->form == CUT), "%s", plan.data);
    int64_t nq = (int64_t)c->batch * c->rows * c->depth, nk = (int64_t)keys(c) * c->cols * c->depth, nv = (int64_t)keys(c) * c->cols * c->width;
    int64_t ns = (int64_t)c->batch * c->rows * c->cols, no = (int64_t)c->batch * c->rows * c->width;
    float *q = nf_alloc_array((size_t)(nq + nk + nv + c->cols), sizeof *q), *k = q + nq, *v = k + nk, *bias = v + nv;
    float *o[3], *second[3];
    double *want_o = nf_alloc_array((size_t)(no + 2 * ns), sizeof *want_o), *want_p = want_o + no, *want_s = want_p + ns;
    fill(q, nq, 1, c->values == SMALL_SCORES ? 3 : -1, c->values == SMALL_SCORES ? 4 : 1);
    fill(k, nk, 2, c->values == SMALL_SCORES ? -9 : -1, c->values == SMALL_SCORES ? -8 : 1);
    fill(v, nv, 3, -2, 2);
    fill(bias, c->cols, 4, -1, 1);
    if (c->values == INFINITE_V) {
        v[(int64_t)(c->cols - 70) * c->width + 5] = INFINITY;
        v[((int64_t)c->cols + 100) * c->width + 1] = NAN;
    }
    if (c->values == NAN_K) k[(int64_t)(c->cols - 90) * c->depth] = NAN;
    expected(c, q, k, v, bias, want_o, want_p, want_s);
    struct rt_device *dev;
    struct rt_program *p;
    struct rt_load_options load = RT_LOAD_OPTIONS_INIT;
    ck_assert_int_eq(rt_device_open("cpu", &(struct rt_device_config){.threads = 1}, &dev, &err), 0);
    ck_assert_msg(rt_program_load(dev, nf_buf_str(&neff), &load, &p, &err) == 0, "%s", err.message);
    for (int t = 0; t < 3; t++) {
        const void *in[] = {q, k, v, bias};
        o[t] = nf_alloc_array((size_t)no, sizeof **o);
        second[t] = nf_alloc_array((size_t)ns, sizeof **second);
        void *out[] = {o[t], second[t]};
        cpu_pool_set_threads(t + 1);
        ck_assert_msg(rt_execute_host(p, in, out, &err) == 0, "%s", err.message);
        for (int64_t i = 0; i < no; i++) ck_assert_msg(memcmp(&o[t][i], &o[0][i], 4) == 0, "element %" PRId64 " is %.9g on %d threads and %.9g on one", i, (double)o[t][i], t + 1, (double)o[0][i]);
        ck_assert_mem_eq(second[t], second[0], (size_t)ns * sizeof **second);
    }
    compare("output", o[0], want_o, no, 1e-5);
    if (c->also == P_TOO) compare("weights", second[0], want_p, ns, 2e-6);
    if (c->scores == SCALED_TWICE) compare("scores", second[0], want_s, ns, 1e-4);
    for (int t = 0; t < 3; t++) {
        free(o[t]);
        free(second[t]);
    }
    rt_program_unload(p);
    rt_device_close(dev);
    free(q);
    free(want_o);
    nf_buf_done(&text);
    nf_buf_done(&neff);
    nf_buf_done(&plan);
    nf_arena_free(arena);
}

START_TEST(test_native)
{
    printf("native: %s\n", cases[_i].name);
    run_case(&cases[_i], false);
}
END_TEST

START_TEST(test_interpreted)
{
    printf("interpreted: %s\n", cases[_i].name);
    run_case(&cases[_i], true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("codegen-attention");
    TCase *native = tcase_create("native"), *interpreted = tcase_create("interpreted");
    rt_device_register(&cpu_device_ops);
    tcase_add_loop_test(native, test_native, 0, NF_ARRAY_LEN(cases));
    tcase_add_loop_test(interpreted, test_interpreted, 0, NF_ARRAY_LEN(cases));
    tcase_set_timeout(native, 120);
    tcase_set_timeout(interpreted, 240);
    suite_add_tcase(s, native);
    suite_add_tcase(s, interpreted);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
