/* Elementwise kernels of complex types.
 *
 * + - * work in the parts' own type by the textbook formulas. Everything else is computed in long double (at least 64 digits of
 * mantissa and a 15-bit exponent on the machines we build for, so that nothing over- or underflows on the way) and rounded once;
 * branch cuts and special values are C99's (Annex G). */
#include "pipeline/hlo/eval_kernels.h"

#include <complex.h>
#include <math.h>

typedef long double complex ldc;

static inline ldc make(long double re, long double im)
{
    union {
        long double part[2];
        ldc z;
    } u = {{re, im}};
    return u.z;
}

/* log(1 + z): |1 + z|^2 - 1 = 2x + x^2 + y^2 is summed with its rounding errors, since it may cancel to almost nothing. */
static ldc log1p_c(ldc z)
{
    long double x = creall(z), y = cimagl(z), im = atan2l(y, 1.0L + x);
    if (!isfinite(x) || !isfinite(y) || fabsl(x) > 0x1p30L || fabsl(y) > 0x1p30L)
        return make(logl(hypotl(1.0L + x, y)), im);
    long double xx = x * x, yy = y * y;
    long double terms[5] = {2 * x, yy, xx, fmal(y, y, -yy), fmal(x, x, -xx)};
    long double s = 0, e = 0;
    for (int i = 0; i < 5; i++) {
        long double t = s + terms[i], b = t - s;
        e += (s - (t - b)) + (terms[i] - b);
        s = t;
    }
    s += e;
    return make(s > -0.75L && s < 3 ? 0.5L * log1pl(s) : logl(hypotl(1.0L + x, y)), im);
}

static ldc expm1_c(ldc z)
{
    long double x = creall(z), y = cimagl(z);
    if (y == 0)
        return make(expm1l(x), y);
    if (!isfinite(x) || !isfinite(y) || x > 40)
        return cexpl(z) - 1.0L;
    long double h = sinl(0.5L * y);
    return make(expm1l(x) * cosl(y) - 2 * h * h, expl(x) * sinl(y));
}

static ldc pow_c(ldc a, ldc b)
{
    long double x = creall(b), y = cimagl(b);
    if (creall(a) == 0 && cimagl(a) == 0) {
        if (x == 0 && y == 0)
            return make(1, 0);
        if (x > 0)
            return make(0, 0);
        if (y == 0)
            return make((long double)INFINITY, 0);
        return make((long double)NAN, (long double)NAN);
    }
    ldc l = clogl(a);
    long double re = x * creall(l) - y * cimagl(l), im = x * cimagl(l) + y * creall(l);
    return im == 0 ? make(expl(re), im) : make(expl(re) * cosl(im), expl(re) * sinl(im));
}

static ldc div_c(ldc a, ldc b) { return a / b; }
static ldc sign_c(ldc z)
{
    long double m = cabsl(z);
    if (creall(z) == 0 && cimagl(z) == 0)
        return z;
    return isnan(m) || isnan(creall(z)) || isnan(cimagl(z)) ? make((long double)NAN, (long double)NAN) : make(creall(z) / m, cimagl(z) / m);
}
static ldc cbrt_c(ldc z)
{
    long double m = cbrtl(cabsl(z)), t = cargl(z) / 3;
    return cimagl(z) == 0 && creall(z) >= 0 ? make(m, cimagl(z)) : make(m * cosl(t), m * sinl(t));
}
static ldc rsqrt_c(ldc z)
{
    if (creall(z) == 0 && cimagl(z) == 0)
        return make((long double)INFINITY, (long double)NAN);
    if (isinf(creall(z)) || isinf(cimagl(z)))
        return make(0, copysignl(0, -cimagl(z)));
    ldc r = csqrtl(z);
    long double m = cabsl(z);
    return make(creall(r) / m, -cimagl(r) / m);
}
static ldc logistic_c(ldc z) { return 1.0L / (1.0L + cexpl(-z)); }
static ldc square_c(ldc z)
{
    long double x = creall(z), y = cimagl(z);
    return make(fabsl(x) == fabsl(y) && isfinite(x) ? 0 : (x - y) * (x + y), 2 * x * y);
}
static ldc exp_c(ldc z)
{
    /* exp(x) (cos y + i sin y), so that an infinite or undefined angle stays undefined where C's cexp says 0 */
    if (!isfinite(cimagl(z)))
        return make((long double)NAN, (long double)NAN);
    return cimagl(z) == 0 ? make(expl(creall(z)), cimagl(z)) : cexpl(z);
}
static ldc atan2_c(ldc y, ldc x)
{
    ldc n = x + make(-cimagl(y), creall(y)), d = csqrtl(x * x + y * y), l = clogl(n / d);
    return make(cimagl(l), -creall(l));
}
/* Lexicographic; a NaN part wins. */
static bool is_nan_c(ldc z) { return isnan(creall(z)) || isnan(cimagl(z)); }
static bool less_c(ldc a, ldc b) { return creall(a) < creall(b) || (creall(a) == creall(b) && cimagl(a) < cimagl(b)); }
static ldc max_c(ldc a, ldc b) { return is_nan_c(a) ? a : is_nan_c(b) ? b : less_c(a, b) ? b : a; }
static ldc min_c(ldc a, ldc b) { return is_nan_c(a) ? a : is_nan_c(b) ? b : less_c(b, a) ? b : a; }

#define UN(S, T, name, call)                                                         \
    static void name##_##S(int64_t n, void *out, const void *pa, const void *pb)     \
    {                                                                                \
        const T *A = pa;                                                             \
        T *O = out;                                                                  \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            ldc r = call(make(A[2 * i], A[2 * i + 1]));                              \
            O[2 * i] = (T)creall(r);                                                 \
            O[2 * i + 1] = (T)cimagl(r);                                             \
        }                                                                            \
    }
#define BIN(S, T, name, call)                                                        \
    static void name##_##S(int64_t n, void *out, const void *pa, const void *pb)     \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            ldc r = call(make(A[2 * i], A[2 * i + 1]), make(B[2 * i], B[2 * i + 1])); \
            O[2 * i] = (T)creall(r);                                                 \
            O[2 * i + 1] = (T)cimagl(r);                                             \
        }                                                                            \
    }
#define PARTS(S, T, name, re, im)                                                    \
    static void name##_##S(int64_t n, void *out, const void *pa, const void *pb)     \
    {                                                                                \
        const T *A = pa, *B = pb ? pb : pa;                                          \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            T ar = A[2 * i], ai = A[2 * i + 1], br = B[2 * i], bi = B[2 * i + 1];    \
            (void)ar, (void)ai, (void)br, (void)bi;                                  \
            O[2 * i] = (re);                                                         \
            O[2 * i + 1] = (im);                                                     \
        }                                                                            \
    }
#define TO_PART(S, T, name, expr)                                                    \
    static void name##_##S(int64_t n, void *out, const void *pa, const void *pb)     \
    {                                                                                \
        const T *A = pa;                                                             \
        T *O = out;                                                                  \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            T ar = A[2 * i], ai = A[2 * i + 1];                                      \
            (void)ar, (void)ai;                                                      \
            O[i] = (T)(expr);                                                        \
        }                                                                            \
    }
#define TO_BOOL(S, T, name, expr)                                                    \
    static void name##_##S(int64_t n, void *out, const void *pa, const void *pb)     \
    {                                                                                \
        const T *A = pa, *B = pb ? pb : pa;                                          \
        uint8_t *O = out;                                                            \
        for (int64_t i = 0; i < n; i++) {                                            \
            T ar = A[2 * i], ai = A[2 * i + 1], br = B[2 * i], bi = B[2 * i + 1];    \
            (void)br, (void)bi;                                                      \
            O[i] = (uint8_t)(expr);                                                  \
        }                                                                            \
    }

#define DEF(S, T)                                                                    \
    PARTS(S, T, add, ar + br, ai + bi)                                               \
    PARTS(S, T, sub, ar - br, ai - bi)                                               \
    PARTS(S, T, mul, ar *br - ai * bi, ar *bi + ai * br)                             \
    PARTS(S, T, neg, -ar, -ai)                                                       \
    PARTS(S, T, conj, ar, -ai)                                                       \
    TO_PART(S, T, real, ar)                                                          \
    TO_PART(S, T, imag, ai)                                                          \
    TO_PART(S, T, abs, hypotl((long double)ar, (long double)ai))                     \
    TO_BOOL(S, T, eq, ar == br && ai == bi)                                          \
    TO_BOOL(S, T, ne, !(ar == br && ai == bi))                                       \
    TO_BOOL(S, T, lt, ar < br || (ar == br && ai < bi))                              \
    TO_BOOL(S, T, le, ar < br || (ar == br && ai <= bi))                             \
    TO_BOOL(S, T, gt, ar > br || (ar == br && ai > bi))                              \
    TO_BOOL(S, T, ge, ar > br || (ar == br && ai >= bi))                             \
    TO_BOOL(S, T, is_finite, isfinite(ar) && isfinite(ai))                           \
    BIN(S, T, div, div_c)                                                            \
    BIN(S, T, pow, pow_c)                                                            \
    BIN(S, T, atan2, atan2_c)                                                        \
    BIN(S, T, max, max_c)                                                            \
    BIN(S, T, min, min_c)                                                            \
    UN(S, T, sign, sign_c)                                                           \
    UN(S, T, sqrt, csqrtl)                                                           \
    UN(S, T, rsqrt, rsqrt_c)                                                         \
    UN(S, T, cbrt, cbrt_c)                                                           \
    UN(S, T, exp, exp_c)                                                             \
    UN(S, T, expm1, expm1_c)                                                         \
    UN(S, T, log, clogl)                                                             \
    UN(S, T, log1p, log1p_c)                                                         \
    UN(S, T, logistic, logistic_c)                                                   \
    UN(S, T, sin, csinl)                                                             \
    UN(S, T, cos, ccosl)                                                             \
    UN(S, T, tan, ctanl)                                                             \
    UN(S, T, tanh, ctanhl)                                                           \
    UN(S, T, acos, cacosl)                                                           \
    UN(S, T, acosh, cacoshl)                                                         \
    UN(S, T, asin, casinl)                                                           \
    UN(S, T, asinh, casinhl)                                                         \
    UN(S, T, atan, catanl)                                                           \
    UN(S, T, atanh, catanhl)                                                         \
    UN(S, T, cosh, ccoshl)                                                           \
    UN(S, T, sinh, csinhl)                                                           \
    UN(S, T, square, square_c)
DEF(C64, float)
DEF(C128, double)

#define ROW(S)                                                                                                                  \
    {                                                                                                                           \
        [EV_ADD] = add_##S, [EV_SUB] = sub_##S, [EV_MUL] = mul_##S, [EV_DIV] = div_##S, [EV_MAX] = max_##S, [EV_MIN] = min_##S, \
        [EV_POW] = pow_##S, [EV_ATAN2] = atan2_##S, [EV_EQ] = eq_##S, [EV_NE] = ne_##S, [EV_LT] = lt_##S, [EV_LE] = le_##S,     \
        [EV_GT] = gt_##S, [EV_GE] = ge_##S, [EV_ABS] = abs_##S, [EV_NEG] = neg_##S, [EV_SIGN] = sign_##S, [EV_SQRT] = sqrt_##S, \
        [EV_RSQRT] = rsqrt_##S, [EV_CBRT] = cbrt_##S, [EV_EXP] = exp_##S, [EV_EXPM1] = expm1_##S, [EV_LOG] = log_##S,           \
        [EV_LOG1P] = log1p_##S, [EV_LOGISTIC] = logistic_##S, [EV_SIN] = sin_##S, [EV_COS] = cos_##S, [EV_TAN] = tan_##S,       \
        [EV_TANH] = tanh_##S, [EV_ACOS] = acos_##S, [EV_ACOSH] = acosh_##S, [EV_ASIN] = asin_##S, [EV_ASINH] = asinh_##S,       \
        [EV_ATAN] = atan_##S, [EV_ATANH] = atanh_##S, [EV_COSH] = cosh_##S, [EV_SINH] = sinh_##S, [EV_SQUARE] = square_##S,     \
        [EV_CONJ] = conj_##S, [EV_REAL] = real_##S, [EV_IMAG] = imag_##S, [EV_IS_FINITE] = is_finite_##S,                       \
    }

ev_kernel ev__complex_kernel(enum ev_op op, enum nf_dtype dt)
{
    static const ev_kernel c64[EV_OP_MAX] = ROW(C64), c128[EV_OP_MAX] = ROW(C128);
    if ((unsigned)op >= EV_OP_MAX)
        return NULL;
    return dt == NF_DT_C64 ? c64[op] : dt == NF_DT_C128 ? c128[op] : NULL;
}
