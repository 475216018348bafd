/* Machine code against the interpreter of row programs, and elementary functions against libm. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/emit_internal.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/plan.h"

#include <check.h>
#include <math.h>

static struct rt_device *device;

/* A module of one function of n f32 (or f64) to n: compiled. */
static struct rt_program *compiled(const char *text, struct nf_buf *neff, bool interpret)
{
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct nf_error err = {0};
    struct rt_program *p = NULL;
    struct cg_request q = {.tier = 1, .interpret = interpret};
    struct cg_report r = {0};
    ck_assert_msg(hlo_parse(nf_str_c(text), NULL, a, &m, &err) == 0, "%s", err.message);
    ck_assert_msg(cg_compile(m, &q, neff, &r, &err) == 0, "%s", err.message);
    if (!interpret) ck_assert_uint_eq(r.native, r.distinct);
    ck_assert_msg(rt_program_load(device, nf_buf_str(neff), NULL, &p, &err) == 0, "%s", err.message);
    nf_arena_free(a);
    return p;
}

static int64_t ordered(float f)
{
    int32_t b;
    memcpy(&b, &f, 4);
    return b < 0 ? (int64_t)INT32_MIN - b : b;
}

static double cube_root(double x) { return cbrt(x); }
static double reciprocal_root(double x) { return 1 / sqrt(x); }
static double logistic(double x) { return 1 / (1 + exp(-x)); }

static const struct function {
    const char *op;
    double (*exact)(double);
    int64_t ulp;
} functions[] = {
    {"stablehlo.exponential", exp, 2}, {"stablehlo.log", log, 1}, {"stablehlo.tanh", tanh, 2}, {"stablehlo.sine", sin, 2}, {"stablehlo.cosine", cos, 2},
    {"stablehlo.logistic", logistic, 3}, {"stablehlo.rsqrt", reciprocal_root, 2}, {"stablehlo.sqrt", sqrt, 0}, {"stablehlo.cbrt", cube_root, 1},
    {"stablehlo.exponential_minus_one", expm1, 3}, {"stablehlo.log_plus_one", log1p, 3}, {"stablehlo.floor", floor, 0}, {"stablehlo.ceil", ceil, 0},
    {"stablehlo.round_nearest_even", nearbyint, 0}, {"stablehlo.round_nearest_afz", round, 0}, {"chlo.erf", erf, 2}, {"chlo.erfc", erfc, 4},
};

START_TEST(elementary_functions)
{
    enum { N = 65536 + 5 };
    static float x[N], y[N];
    const struct function *f = &functions[_i];
    char text[512];
    struct nf_buf neff = NF_BUF_INIT;
    bool chlo = strncmp(f->op, "chlo", 4) == 0;
    nf_format(text, sizeof text, "func.func @main(%%x: tensor<%dxf32>) -> tensor<%dxf32> {\n  %%y = %s %%x : tensor<%dxf32>%s%s\n  return %%y : tensor<%dxf32>\n}\n", N, N, f->op, N, chlo ? " -> tensor<65541xf32>" : "", "", N);
    struct rt_program *p = compiled(text, &neff, false);
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
    for (uint32_t block = 0; block < 16; block++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t bits = (block * 65536 + (i & 65535)) * 4099u;
            memcpy(&x[i], &bits, 4);
            if (i >= 65536) x[i] = special[i - 65536];
        }
        struct nf_error err = {0};
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){x}, (void *[]){y}, &err), 0);
        for (int i = 0; i < N; i++) {
            float want = (float)f->exact((double)x[i]);
            bool trig = f->exact == sin || f->exact == cos;
            if (trig && fabsf(x[i]) > 1e15f) { /* vmath.c says how far they go */
                ck_assert_msg(fabsf(y[i]) <= 1 || isnan(y[i]), "%s(%a) = %a", f->op, (double)x[i], (double)y[i]);
                continue;
            }
            if (isnan(want)) {
                ck_assert_msg(isnan(y[i]), "%s(%a) = %a, not a NaN", f->op, (double)x[i], (double)y[i]);
                continue;
            }
            int64_t d = ordered(y[i]) - ordered(want);
            ck_assert_msg(!isnan(y[i]) && (d < 0 ? -d : d) <= f->ulp + (fabsf(want) < 1e-37f ? 2 : 0), "%s(%a) = %a, not %a", f->op, (double)x[i], (double)y[i], (double)want);
            if (want == 0 && f->ulp <= 2) ck_assert_msg(!signbit(want) == !signbit(y[i]) || y[i] != 0, "%s(%a) has the wrong sign", f->op, (double)x[i]);
        }
    }
    rt_program_unload(p);
    nf_buf_done(&neff);
}
END_TEST

/* Every element type and mode: the same bits from code and interpreter where nothing is reordered. */
static const char *const programs[] = {
    "func.func @main(%a: tensor<37x19xi8>, %b: tensor<37x19xi8>) -> tensor<37x19xi8> {\n %c = stablehlo.divide %a, %b : tensor<37x19xi8>\n %d = stablehlo.remainder %a, %b : tensor<37x19xi8>\n %e = stablehlo.xor %c, %d : tensor<37x19xi8>\n return %e : tensor<37x19xi8>\n}\n",
    "func.func @main(%a: tensor<37x19xui64>, %b: tensor<37x19xui64>) -> tensor<19x37xf32> {\n %c = stablehlo.shift_left %a, %b : tensor<37x19xui64>\n %d = stablehlo.convert %c : (tensor<37x19xui64>) -> tensor<37x19xf32>\n %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<37x19xf32>) -> tensor<19x37xf32>\n return %t : tensor<19x37xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xbf16>, %b: tensor<37x19xbf16>) -> tensor<37x19xbf16> {\n %c = stablehlo.multiply %a, %b : tensor<37x19xbf16>\n %d = stablehlo.add %c, %a : tensor<37x19xbf16>\n return %d : tensor<37x19xbf16>\n}\n",
    "func.func @main(%a: tensor<37x19xf16>, %b: tensor<37x19xf16>) -> tensor<37x19xi32> {\n %c = stablehlo.subtract %a, %b : tensor<37x19xf16>\n %d = stablehlo.convert %c : (tensor<37x19xf16>) -> tensor<37x19xi32>\n return %d : tensor<37x19xi32>\n}\n",
    "func.func @main(%a: tensor<37x19xi64>, %b: tensor<37x19xi64>) -> tensor<37x19xbf16> {\n %c = stablehlo.maximum %a, %b : tensor<37x19xi64>\n %d = stablehlo.convert %c : (tensor<37x19xi64>) -> tensor<37x19xbf16>\n return %d : tensor<37x19xbf16>\n}\n",
    "func.func @main(%a: tensor<37x19xf64>, %b: tensor<37x19xf64>) -> tensor<37x19xf16> {\n %c = stablehlo.divide %a, %b : tensor<37x19xf64>\n %d = stablehlo.convert %c : (tensor<37x19xf64>) -> tensor<37x19xf16>\n return %d : tensor<37x19xf16>\n}\n",
    "func.func @main(%a: tensor<37x19xi16>, %b: tensor<37x19xi16>) -> tensor<19xi16> {\n %z = stablehlo.constant dense<0> : tensor<i16>\n %c = stablehlo.multiply %a, %b : tensor<37x19xi16>\n %d = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<37x19xi16>, tensor<i16>) -> tensor<19xi16>\n return %d : tensor<19xi16>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37xf32> {\n %z = stablehlo.constant dense<0xFF800000> : tensor<f32>\n %c = stablehlo.minimum %a, %b : tensor<37x19xf32>\n %d = stablehlo.reduce(%c init: %z) applies stablehlo.maximum across dimensions = [1] : (tensor<37x19xf32>, tensor<f32>) -> tensor<37xf32>\n return %d : tensor<37xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xi1>, %b: tensor<37x19xi1>) -> tensor<19xi1> {\n %z = stablehlo.constant dense<true> : tensor<i1>\n %c = stablehlo.xor %a, %b : tensor<37x19xi1>\n %d = stablehlo.reduce(%c init: %z) applies stablehlo.and across dimensions = [0] : (tensor<37x19xi1>, tensor<i1>) -> tensor<19xi1>\n return %d : tensor<19xi1>\n}\n",
    "func.func @main(%a: tensor<37x19xi32>, %b: tensor<37x19xi32>) -> tensor<37x19xi32> {\n %i = stablehlo.iota dim = 0 : tensor<37x19xi32>\n %r = stablehlo.reverse %a, dims = [0, 1] : tensor<37x19xi32>\n %c = stablehlo.compare LT, %r, %i : (tensor<37x19xi32>, tensor<37x19xi32>) -> tensor<37x19xi1>\n %d = stablehlo.select %c, %r, %b : tensor<37x19xi1>, tensor<37x19xi32>\n return %d : tensor<37x19xi32>\n}\n",
};

START_TEST(code_and_interpreter)
{
    enum { BYTES = 37 * 19 * 8 };
    static unsigned char a[BYTES], b[BYTES], y[2][BYTES];
    struct nf_buf neff[2] = {{0}};
    for (int k = 0; k < 2; k++) {
        struct rt_program *p = compiled(programs[_i], &neff[k], k == 1);
        uint64_t s = 88172645463325252u;
        enum nf_dtype t = p->inputs[0].dtype;
        for (size_t i = 0; i < 37 * 19; i++) {
            size_t w = nf_dtype_bytes(t);
            for (int j = 0; j < 2; j++) {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                uint64_t v = nf_dtype_class(t) == NF_DTC_BOOL ? s & 1 : i % 5 == 0 ? s % 3 : s;
                memcpy((j ? b : a) + i * w, &v, w);
            }
        }
        struct nf_error err = {0};
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){a, b}, (void *[]){y[k]}, &err), 0);
        size_t w = nf_dtype_bytes(p->outputs[0].dtype), n = p->outputs[0].bytes / w;
        for (size_t i = 0; k && i < n; i++) {
            double u = nf_elem_to_double(p->outputs[0].dtype, y[0] + i * w), v = nf_elem_to_double(p->outputs[0].dtype, y[1] + i * w);
            ck_assert_msg(memcmp(y[0] + i * w, y[1] + i * w, w) == 0 || (isnan(u) && isnan(v)), "program %d, element %zu: %g, interpreted %g", _i, i, u, v);
        }
        rt_program_unload(p);
    }
    nf_buf_done(&neff[0]);
    nf_buf_done(&neff[1]);
}
END_TEST

/* The linker refuses what would not run by itself, and never reads outside an object. */
START_TEST(link_refuses)
{
    struct link_image l = {0};
    struct nf_error err = {0};
    char junk[256];
    memset(junk, 0x5a, sizeof junk);
    ck_assert_int_eq(link_add(&l, junk, 3, &err), NF_EINTERNAL);
    ck_assert_int_eq(link_add(&l, junk, sizeof junk, &err), NF_EINTERNAL);
    link_done(&l);
}
END_TEST

/* A plan with any byte changed is refused or, if it passes the checks, harmless to look at; nothing crashes. */
START_TEST(plans_with_wrong_bytes)
{
    struct nf_arena *a = nf_arena_new(0), *b;
    struct hlo_module *m;
    struct nf_error err = {0};
    struct cg_artifact art = {0};
    struct cg_request q = {.interpret = true};
    ck_assert_int_eq(hlo_parse(nf_str_c(programs[6]), NULL, a, &m, &err), 0);
    ck_assert_int_eq(cg_build(m, &q, &art, &err), 0);
    uint64_t in[2] = {37 * 19 * 2, 37 * 19 * 2}, out[1] = {38};
    struct plan_sizes z = {.arg_bytes = in, .out_bytes = out, .nargs = 2, .nouts = 1};
    size_t refused = 0;
    for (size_t i = 0; i < art.plan.len; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            struct plan *p;
            b = nf_arena_new(0);
            art.plan.data[i] = (char)(art.plan.data[i] ^ (1 << bit));
            refused += plan_read(nf_buf_str(&art.plan), &z, b, &p, &err) != 0;
            art.plan.data[i] = (char)(art.plan.data[i] ^ (1 << bit));
            nf_arena_free(b);
        }
    ck_assert_uint_gt(refused, art.plan.len / 2);
    for (size_t n = 0; n < art.plan.len; n++) {
        struct plan *p;
        b = nf_arena_new(0);
        ck_assert_int_ne(plan_read(nf_str_n(art.plan.data, n), &z, b, &p, &err), 0);
        nf_arena_free(b);
    }
    cg_artifact_done(&art);
    nf_arena_free(a);
}
END_TEST

int main(void)
{
    struct nf_error err = {0};
    rt_device_register(&cpu_device_ops);
    if (rt_device_open("cpu", &(struct rt_device_config){.threads = 2}, &device, &err)) return 1;
    Suite *s = suite_create("emit");
    TCase *c = tcase_create("emit");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, elementary_functions, 0, (int)NF_ARRAY_LEN(functions));
    tcase_add_loop_test(c, code_and_interpreter, 0, (int)NF_ARRAY_LEN(programs));
    tcase_add_test(c, link_refuses);
    tcase_add_test(c, plans_with_wrong_bytes);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
