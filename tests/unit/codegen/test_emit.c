/* Machine code against the interpreter of row programs, and elementary functions against libm. */
#include "base/file.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/plan.h"

#include <check.h>
#include <math.h>
#include <unistd.h>

/* ck_assert_msg reports every time that it holds, too: not for millions of elements. */
#define HOLDS(condition, ...) do { if (!(condition)) ck_abort_msg(__VA_ARGS__); } while (0)

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
/* With the errors of their steps: test_rowprog.c and the evaluator have the exact ones. */
static double hyperbolic_sine(double x) { return fabs(x) < 1 ? sinh(x) : (double)((float)exp((double)((float)x - 0.693147182f)) - (float)exp((double)(-0.693147182f - (float)x))); }
static double hyperbolic_cosine(double x) { return (double)((float)exp((double)((float)x - 0.693147182f)) + (float)exp((double)(-0.693147182f - (float)x))); }

static const struct function {
    const char *op;
    double (*exact)(double);
    int64_t ulp;
} functions[] = {
    {"stablehlo.exponential", exp, 1}, {"stablehlo.log", log, 1}, {"stablehlo.tanh", tanh, 1}, {"stablehlo.sine", sin, 2}, {"stablehlo.cosine", cos, 2},
    {"stablehlo.logistic", logistic, 2}, {"stablehlo.rsqrt", reciprocal_root, 2}, {"stablehlo.sqrt", sqrt, 0}, {"stablehlo.cbrt", cube_root, 1},
    {"stablehlo.exponential_minus_one", expm1, 3}, {"stablehlo.log_plus_one", log1p, 3}, {"stablehlo.floor", floor, 0}, {"stablehlo.ceil", ceil, 0},
    {"stablehlo.round_nearest_even", nearbyint, 0}, {"stablehlo.round_nearest_afz", round, 0}, {"chlo.erf", erf, 2}, {"chlo.erfc", erfc, 3},
    {"chlo.sinh", hyperbolic_sine, 3}, {"chlo.cosh", hyperbolic_cosine, 3}, {"stablehlo.tan", tan, 3},
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
            if (isnan(want)) {
                HOLDS(isnan(y[i]), "%s(%a) = %a, not a NaN", f->op, (double)x[i], (double)y[i]);
                continue;
            }
            int64_t d = ordered(y[i]) - ordered(want);
            HOLDS(!isnan(y[i]) && (d < 0 ? -d : d) <= f->ulp + (fabsf(want) < 1e-37f ? 2 : 0), "%s(%a) = %a, not %a", f->op, (double)x[i], (double)y[i], (double)want);
            if (want == 0 && f->ulp <= 2) HOLDS(!signbit(want) == !signbit(y[i]) || y[i] != 0, "%s(%a) has the wrong sign", f->op, (double)x[i]);
        }
    }
    rt_program_unload(p);
    nf_buf_done(&neff);
}
END_TEST

/* Functions of two f32: of all kinds of bits, and of numbers that are near each other. */
static const struct function2 {
    const char *op;
    double (*exact)(double, double);
    int64_t ulp;
} functions2[] = {{"remainder", fmod, 0}, {"atan2", atan2, 1}, {"power", pow, 1}};

START_TEST(functions_of_two)
{
    enum { N = 65536 + 3 };
    static float x[N], z[N], y[N];
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 2, 0.5f, 1e-40f, 3e38f};
    const struct function2 *f = &functions2[_i];
    char text[512];
    struct nf_buf neff = NF_BUF_INIT;
    nf_format(text, sizeof text, "func.func @main(%%x: tensor<%dxf32>, %%z: tensor<%dxf32>) -> tensor<%dxf32> {\n  %%y = stablehlo.%s %%x, %%z : tensor<%dxf32>\n  return %%y : tensor<%dxf32>\n}\n", N, N, N, f->op, N, N);
    struct rt_program *p = compiled(text, &neff, false);
    uint64_t s = 88172645463325252u;
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < N; i++) {
            float *to[2] = {&x[i], &z[i]};
            for (int k = 0; k < 2; k++) {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                uint32_t bits = (uint32_t)(s >> 16);
                if (round & 1) *to[k] = (float)((int64_t)(s >> 20) % 2001 - 1000) / 64;
                else memcpy(to[k], &bits, 4);
                if (i < 121) *to[k] = special[k ? i % 11 : i / 11];
            }
        }
        struct nf_error err = {0};
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){x, z}, (void *[]){y}, &err), 0);
        for (int i = 0; i < N; i++) {
            float want = (float)f->exact((double)x[i], (double)z[i]);
            if (isnan(want) && isnan(y[i])) continue;
            int64_t d = ordered(y[i]) - ordered(want);
            HOLDS(!isnan(y[i]) && !isnan(want) && (d < 0 ? -d : d) <= f->ulp && (want != 0 || y[i] != 0 || !signbit(want) == !signbit(y[i])), "%s(%a, %a) = %a, not %a", f->op, (double)x[i], (double)z[i], (double)y[i], (double)want);
        }
    }
    rt_program_unload(p);
    nf_buf_done(&neff);
}
END_TEST

/* Floats below 16 bits: what is stored, and what is read, is what types.c says, bit by bit. */
START_TEST(small_floats)
{
    enum { N = 65536 + 7 };
    static float x[N], back[N];
    static uint8_t y[N];
    enum cpu_dt t = (enum cpu_dt)_i;
    const char *name = cpu_dt_info[t].name;
    char text[512];
    struct nf_buf neff = NF_BUF_INIT;
    nf_format(text, sizeof text, "func.func @main(%%x: tensor<%dxf32>) -> (tensor<%dx%s>, tensor<%dxf32>) {\n  %%y = stablehlo.convert %%x : (tensor<%dxf32>) -> tensor<%dx%s>\n  %%z = stablehlo.convert %%y : (tensor<%dx%s>) -> tensor<%dxf32>\n  return %%y, %%z : tensor<%dx%s>, tensor<%dxf32>\n}\n",
              N, N, name, N, N, N, name, N, name, N, N, name, N);
    struct rt_program *p = compiled(text, &neff, false);
    for (uint32_t round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t bits = (round * 65536 + i) * 8209u;
            if (round >= 4) bits = 0x30000000u + ((round & 1) << 31) + (i & 65535) * (round < 6 ? 0x4000u : 0x5555u); /* near what they hold, with ties */
            memcpy(&x[i], &bits, 4);
        }
        struct nf_error err = {0};
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){x}, (void *[]){y, back}, &err), 0);
        for (int i = 0; i < N; i++) {
            uint32_t want = cpu_small_encode(t, (double)x[i]);
            HOLDS(y[i] == want, "%a as %s: %02x, not %02x", (double)x[i], name, y[i], want);
            float value = cpu_small_decode(t, y[i]);
            HOLDS(memcmp(&value, &back[i], 4) == 0 || (isnan(value) && isnan(back[i])), "%02x of %s: %a, not %a", y[i], name, (double)back[i], (double)value);
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
    "func.func @main(%a: tensor<37x19xf8E4M3FN>, %b: tensor<37x19xf8E4M3FN>) -> tensor<37x19xf8E5M2> {\n %c = stablehlo.multiply %a, %b : tensor<37x19xf8E4M3FN>\n %d = stablehlo.add %c, %a : tensor<37x19xf8E4M3FN>\n %r = stablehlo.convert %d : (tensor<37x19xf8E4M3FN>) -> tensor<37x19xf8E5M2>\n return %r : tensor<37x19xf8E5M2>\n}\n",
    "func.func @main(%a: tensor<37x19xi4>, %b: tensor<37x19xi4>) -> tensor<37x19xi4> {\n %c = stablehlo.multiply %a, %b : tensor<37x19xi4>\n %d = stablehlo.divide %c, %b : tensor<37x19xi4>\n %e = stablehlo.shift_right_arithmetic %d, %a : tensor<37x19xi4>\n %r = stablehlo.subtract %e, %b : tensor<37x19xi4>\n return %r : tensor<37x19xi4>\n}\n",
    "func.func @main(%a: tensor<37x19xui2>, %b: tensor<37x19xui2>) -> tensor<37x19xbf16> {\n %c = stablehlo.subtract %a, %b : tensor<37x19xui2>\n %d = stablehlo.popcnt %c : tensor<37x19xui2>\n %r = stablehlo.convert %d : (tensor<37x19xui2>) -> tensor<37x19xbf16>\n return %r : tensor<37x19xbf16>\n}\n",
    "func.func @main(%a: tensor<37x19xi32>, %b: tensor<37x19xi32>) -> tensor<37x19xi32> {\n %r = stablehlo.power %a, %b : tensor<37x19xi32>\n return %r : tensor<37x19xi32>\n}\n",
    "func.func @main(%a: tensor<37x19xui16>, %b: tensor<37x19xui16>) -> tensor<37x19xui16> {\n %r = stablehlo.power %a, %b : tensor<37x19xui16>\n return %r : tensor<37x19xui16>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %c = stablehlo.add %a, %b : tensor<37x19xf32>\n %r = stablehlo.reduce_precision %c, format = e5m10 : tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %c = stablehlo.add %a, %b : tensor<37x19xf32>\n %r = stablehlo.reduce_precision %c, format = e8m7 : tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %c = stablehlo.add %a, %b : tensor<37x19xf32>\n %r = stablehlo.reduce_precision %c, format = e4m3 : tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %c = stablehlo.add %a, %b : tensor<37x19xf32>\n %r = stablehlo.reduce_precision %c, format = e2m0 : tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %c = stablehlo.add %a, %b : tensor<37x19xf32>\n %r = stablehlo.reduce_precision %c, format = e8m23 : tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %c = stablehlo.add %a, %b : tensor<37x19xf32>\n %r = stablehlo.reduce_precision %c, format = e3m22 : tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
    "func.func @main(%a: tensor<37x19xbf16>, %b: tensor<37x19xbf16>) -> tensor<37x19xbf16> {\n %r = stablehlo.reduce_precision %a, format = e4m2 : tensor<37x19xbf16>\n return %r : tensor<37x19xbf16>\n}\n",
    "func.func @main(%a: tensor<37x19xf32>, %b: tensor<37x19xf32>) -> tensor<37x19xf32> {\n %z = stablehlo.complex %a, %b : tensor<37x19xcomplex<f32>>\n %w = stablehlo.complex %b, %a : tensor<37x19xcomplex<f32>>\n %m = stablehlo.multiply %z, %w : tensor<37x19xcomplex<f32>>\n %s = stablehlo.subtract %m, %z : tensor<37x19xcomplex<f32>>\n %p = stablehlo.compare NE, %s, %w : (tensor<37x19xcomplex<f32>>, tensor<37x19xcomplex<f32>>) -> tensor<37x19xi1>\n %q = stablehlo.select %p, %s, %w : tensor<37x19xi1>, tensor<37x19xcomplex<f32>>\n %r = stablehlo.imag %q : (tensor<37x19xcomplex<f32>>) -> tensor<37x19xf32>\n return %r : tensor<37x19xf32>\n}\n",
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
            HOLDS(memcmp(y[0] + i * w, y[1] + i * w, w) == 0 || (isnan(u) && isnan(v)), "program %d, element %zu: %g, interpreted %g", _i, i, u, v);
        }
        rt_program_unload(p);
    }
    nf_buf_done(&neff[0]);
    nf_buf_done(&neff[1]);
}
END_TEST

/* Kernels that were compiled before are taken from the cache; the artifact is the same with and without it, and a damaged or foreign file
 * is as good as none. */
START_TEST(kernels_are_kept)
{
    char dir[] = "/tmp/nf-kernels-XXXXXX", path[64];
    struct cg_artifact art[4] = {0};
    struct nf_error err = {0};
    struct nf_buf slot = NF_BUF_INIT;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 4; i++) {
        struct nf_arena *a = nf_arena_new(0);
        struct hlo_module *m;
        struct cg_request q = {.tier = 1, .cache_dir = i ? dir : NULL};
        ck_assert_int_eq(hlo_parse(nf_str_c(programs[6]), NULL, a, &m, &err), 0);
        if (i == 3) { /* one byte of every file */
            for (int k = 0; k < 4096; k++) {
                nf_format(path, sizeof path, "%s/%03x", dir, (unsigned)k);
                if (access(path, F_OK)) continue;
                slot.len = 0;
                ck_assert_int_eq(nf_file_read(path, 1 << 21, &slot, &err), 0);
                slot.data[slot.len - 1] ^= 1;
                ck_assert_int_eq(nf_file_replace(path, nf_buf_str(&slot), 0600, &err), 0);
            }
        }
        ck_assert_msg(cg_build(m, &q, &art[i], &err) == 0, "%s", err.message);
        ck_assert_uint_gt(art[i].report.native, 0);
        ck_assert_uint_eq(art[i].report.cached, i == 2 ? art[i].report.native : 0);
        ck_assert(nf_str_eq(nf_buf_str(&art[i].image), nf_buf_str(&art[0].image)));
        ck_assert(nf_str_eq(nf_buf_str(&art[i].plan), nf_buf_str(&art[0].plan)));
        nf_arena_free(a);
    }
    for (int i = 0; i < 4; i++) cg_artifact_done(&art[i]);
    for (int k = 0; k < 4096; k++) {
        nf_format(path, sizeof path, "%s/%03x", dir, (unsigned)k);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(dir), 0);
    nf_buf_done(&slot);
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
    struct nf_arena *a = nf_arena_new(0); /* libLLVM is loaded before the cases fork */
    struct hlo_module *m;
    struct nf_buf neff = NF_BUF_INIT;
    if (hlo_parse(nf_str_c(programs[0]), NULL, a, &m, &err) || cg_compile(m, &(struct cg_request){.tier = 0}, &neff, NULL, &err)) return 1;
    nf_buf_done(&neff);
    nf_arena_free(a);
    Suite *s = suite_create("emit");
    TCase *c = tcase_create("emit");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, elementary_functions, 0, (int)NF_ARRAY_LEN(functions));
    tcase_add_loop_test(c, functions_of_two, 0, (int)NF_ARRAY_LEN(functions2));
    tcase_add_loop_test(c, small_floats, CPU_F4E2M1FN, CPU_BF16);
    tcase_add_loop_test(c, code_and_interpreter, 0, (int)NF_ARRAY_LEN(programs));
    tcase_add_test(c, kernels_are_kept);
    tcase_add_test(c, plans_with_wrong_bytes);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
