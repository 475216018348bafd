/* Elementwise kernels of real types: one typed loop per operation and element type, made by macros from one list of types.
 *
 * Integers work modulo 2^bits. Division by zero gives all bits set, remainder by zero the dividend, the most negative value
 * divided by -1 itself; shifts by the width or more (or by a negative amount) give 0, arithmetic ones the sign.
 * Floats of at most 32 bits: + - * and division in float, rounded once more where the type is smaller (innocuous, float has
 * more than twice the digits); elementary functions in double through libm, rounded once. */
#include "pipeline/hlo/eval_kernels.h"

#include <math.h>

/* ---- types: symbol, stored as, unsigned of that width, wide unsigned for products, wrap to the type's range, bits ---- */
#define WRAP_ID(t, x) ((t)(x))
#define WRAP_S2(t, x) ((int8_t)((int8_t)((uint8_t)(x) << 6) >> 6))
#define WRAP_S4(t, x) ((int8_t)((int8_t)((uint8_t)(x) << 4) >> 4))
#define WRAP_U2(t, x) ((uint8_t)((x) & 3))
#define WRAP_U4(t, x) ((uint8_t)((x) & 15))

#define SINTS(X)                                    \
    X(S2, int8_t, uint8_t, uint32_t, WRAP_S2, 2)    \
    X(S4, int8_t, uint8_t, uint32_t, WRAP_S4, 4)    \
    X(S8, int8_t, uint8_t, uint32_t, WRAP_ID, 8)    \
    X(S16, int16_t, uint16_t, uint32_t, WRAP_ID, 16) \
    X(S32, int32_t, uint32_t, uint32_t, WRAP_ID, 32) \
    X(S64, int64_t, uint64_t, uint64_t, WRAP_ID, 64)
#define UINTS(X)                                     \
    X(U2, uint8_t, uint8_t, uint32_t, WRAP_U2, 2)    \
    X(U4, uint8_t, uint8_t, uint32_t, WRAP_U4, 4)    \
    X(U8, uint8_t, uint8_t, uint32_t, WRAP_ID, 8)    \
    X(U16, uint16_t, uint16_t, uint32_t, WRAP_ID, 16) \
    X(U32, uint32_t, uint32_t, uint32_t, WRAP_ID, 32) \
    X(U64, uint64_t, uint64_t, uint64_t, WRAP_ID, 64)
#define INTS(X) SINTS(X) UINTS(X)

/* ---- floats: symbol, stored as, computes in, load, store ---- */
#define SMALL8(X)                                                          \
    X(F4E2M1FN) X(F6E2M3FN) X(F6E3M2FN) X(F8E3M4) X(F8E4M3) X(F8E4M3FN) X(F8E4M3FNUZ) X(F8E4M3B11) X(F8E5M2) X(F8E5M2FNUZ) X(F8E8M0FNU)

#define DEF_SMALL(S)                                                                                            \
    static inline float ld_##S(uint8_t v) { return (float)nf_small_to_double(NF_DT_##S, v); }                   \
    static inline uint8_t st_##S(float v) { return (uint8_t)nf_small_from_double(NF_DT_##S, (double)v); }       \
    static inline double ldd_##S(uint8_t v) { return nf_small_to_double(NF_DT_##S, v); }                        \
    static inline uint8_t std_##S(double v) { return (uint8_t)nf_small_from_double(NF_DT_##S, v); }
SMALL8(DEF_SMALL)

static inline float ld_BF16(uint16_t v) { return nf_bf16_to_float(v); }
static inline uint16_t st_BF16(float v) { return nf_bf16_from_float(v); }
static inline double ldd_BF16(uint16_t v) { return (double)nf_bf16_to_float(v); }
static inline float ld_F16(uint16_t v) { return nf_f16_to_float(v); }
static inline uint16_t st_F16(float v) { return nf_f16_from_float(v); }
static inline double ldd_F16(uint16_t v) { return (double)nf_f16_to_float(v); }
/* Double to a smaller type through float would round twice; round the first time to odd, which the second one cannot see. */
static inline float to_float_odd(double v)
{
    float f = (float)v;
    if ((double)f == v || isnan(v) || isinf(f))
        return isinf(f) && !isinf(v) ? copysignf(0x1.fffffep127f, f) : f;
    uint32_t u;
    if (fabs((double)f) > fabs(v)) {
        memcpy(&u, &f, 4);
        u -= 1; /* toward zero */
        memcpy(&f, &u, 4);
    }
    memcpy(&u, &f, 4);
    u |= 1u;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t std_BF16(double v) { return nf_bf16_from_float(to_float_odd(v)); }
static inline uint16_t std_F16(double v) { return nf_f16_from_float(to_float_odd(v)); }
static inline float ld_F32(float v) { return v; }
static inline float st_F32(float v) { return v; }
static inline double ldd_F32(float v) { return (double)v; }
static inline float std_F32(double v) { return (float)v; }
static inline double ld_F64(double v) { return v; }
static inline double st_F64(double v) { return v; }
static inline double ldd_F64(double v) { return v; }
static inline double std_F64(double v) { return v; }

#define FLOATS(X)                       \
    X(F4E2M1FN, uint8_t, float, u8)     \
    X(F6E2M3FN, uint8_t, float, u8)     \
    X(F6E3M2FN, uint8_t, float, u8)     \
    X(F8E3M4, uint8_t, float, u8)       \
    X(F8E4M3, uint8_t, float, u8)       \
    X(F8E4M3FN, uint8_t, float, u8)     \
    X(F8E4M3FNUZ, uint8_t, float, u8)   \
    X(F8E4M3B11, uint8_t, float, u8)    \
    X(F8E5M2, uint8_t, float, u8)       \
    X(F8E5M2FNUZ, uint8_t, float, u8)   \
    X(F8E8M0FNU, uint8_t, float, u8)    \
    X(BF16, uint16_t, float, u16)       \
    X(F16, uint16_t, float, u16)        \
    X(F32, float, float, u32)           \
    X(F64, double, double, u64)

/* ---- loops ---- */
#define BIN_LOOP(name, T, expr)                                                      \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            T a = A[i], b = B[i];                                                    \
            O[i] = (expr);                                                           \
        }                                                                            \
    }
#define UN_LOOP(name, T, expr)                                                       \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa;                                                             \
        T *O = out;                                                                  \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            T a = A[i];                                                              \
            O[i] = (expr);                                                           \
        }                                                                            \
    }
#define CMP_LOOP(name, T, expr)                                                      \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        uint8_t *O = out;                                                            \
        for (int64_t i = 0; i < n; i++) {                                            \
            T a = A[i], b = B[i];                                                    \
            O[i] = (uint8_t)(expr);                                                  \
        }                                                                            \
    }
#define TEST_LOOP(name, T, expr)                                                     \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa;                                                             \
        uint8_t *O = out;                                                            \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            T a = A[i];                                                              \
            O[i] = (uint8_t)(expr);                                                  \
        }                                                                            \
    }

/* ---- integers ---- */
static inline uint64_t upow(uint64_t base, uint64_t exp)
{
    uint64_t r = 1;
    for (; exp; exp >>= 1, base *= base)
        if (exp & 1)
            r *= base;
    return r;
}
static inline int64_t spow(int64_t base, int64_t exp)
{
    if (exp < 0)
        return base == 1 ? 1 : base == -1 ? ((exp & 1) ? -1 : 1) : 0;
    return (int64_t)upow((uint64_t)base, (uint64_t)exp);
}
static inline uint64_t mulhi_u64(uint64_t a, uint64_t b)
{
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (mid & 0xffffffffu);
    return ah * bh + (mid >> 32) + (mid2 >> 32);
}
static inline int64_t mulhi_s64(int64_t a, int64_t b)
{
    return (int64_t)(mulhi_u64((uint64_t)a, (uint64_t)b) - (a < 0 ? (uint64_t)b : 0) - (b < 0 ? (uint64_t)a : 0));
}

#define DEF_INT(S, T, U, W, WR, BITS)                                                                        \
    BIN_LOOP(add_##S, T, WR(T, (W)(U)a + (W)(U)b))                                                           \
    BIN_LOOP(sub_##S, T, WR(T, (W)(U)a - (W)(U)b))                                                           \
    BIN_LOOP(mul_##S, T, WR(T, (W)(U)a * (W)(U)b))                                                           \
    BIN_LOOP(max_##S, T, a > b ? a : b)                                                                      \
    BIN_LOOP(min_##S, T, a < b ? a : b)                                                                      \
    BIN_LOOP(and_##S, T, (T)(a & b))                                                                         \
    BIN_LOOP(or_##S, T, (T)(a | b))                                                                          \
    BIN_LOOP(xor_##S, T, (T)(a ^ b))                                                                         \
    BIN_LOOP(shl_##S, T, (uint64_t)b >= BITS ? (T)0 : WR(T, (W)(U)a << (b & (BITS - 1))))                    \
    BIN_LOOP(shrl_##S, T, (uint64_t)b >= BITS ? (T)0 : WR(T, ((W)(U)a & MASK(W, BITS)) >> (b & (BITS - 1)))) \
    UN_LOOP(not_##S, T, WR(T, ~(W)(U)a))                                                                     \
    UN_LOOP(neg_##S, T, WR(T, (W)0 - (W)(U)a))                                                               \
    UN_LOOP(popcnt_##S, T, WR(T, __builtin_popcountll((uint64_t)((W)(U)a & MASK(W, BITS)))))                 \
    UN_LOOP(clz_##S, T, WR(T, ((W)(U)a & MASK(W, BITS)) ? __builtin_clzll((uint64_t)((W)(U)a & MASK(W, BITS))) - (64 - BITS) : BITS)) \
    UN_LOOP(square_##S, T, WR(T, (W)(U)a * (W)(U)a))                                                         \
    CMP_LOOP(eq_##S, T, a == b)                                                                              \
    CMP_LOOP(ne_##S, T, a != b)                                                                              \
    CMP_LOOP(ge_##S, T, a >= b)                                                                              \
    CMP_LOOP(gt_##S, T, a > b)                                                                               \
    CMP_LOOP(le_##S, T, a <= b)                                                                              \
    CMP_LOOP(lt_##S, T, a < b)
#define MASK(W, BITS) ((W)(~(uint64_t)0 >> (64 - BITS)))
INTS(DEF_INT)

#define DEF_SINT(S, T, U, W, WR, BITS)                                                                       \
    BIN_LOOP(div_##S, T, b == 0 ? (T)-1 : b == -1 ? WR(T, (W)0 - (W)(U)a) : (T)(a / b))                      \
    BIN_LOOP(rem_##S, T, b == 0 ? a : b == -1 ? (T)0 : (T)(a % b))                                           \
    BIN_LOOP(pow_##S, T, WR(T, spow((int64_t)a, (int64_t)b)))                                                \
    BIN_LOOP(shra_##S, T, (uint64_t)b >= BITS ? (T)(a < 0 ? -1 : 0) : (T)(a >> (b & (BITS - 1))))            \
    UN_LOOP(abs_##S, T, a < 0 ? WR(T, (W)0 - (W)(U)a) : a)                                                   \
    UN_LOOP(sign_##S, T, (T)((a > 0) - (a < 0)))
SINTS(DEF_SINT)
#define DEF_UINT(S, T, U, W, WR, BITS)                                                                       \
    BIN_LOOP(div_##S, T, b == 0 ? WR(T, ~(W)0) : (T)(a / b))                                                 \
    BIN_LOOP(rem_##S, T, b == 0 ? a : (T)(a % b))                                                            \
    BIN_LOOP(pow_##S, T, WR(T, upow((uint64_t)a, (uint64_t)b)))                                              \
    BIN_LOOP(shra_##S, T, (uint64_t)b >= BITS ? (T)((a >> (BITS - 1)) ? WR(T, ~(W)0) : 0)                    \
                              : WR(T, ((a >> (BITS - 1)) ? ~(((W)(U)~a & MASK(W, BITS)) >> (b & (BITS - 1))) : (W)(U)a >> (b & (BITS - 1))))) \
    UN_LOOP(abs_##S, T, a)                                                                                   \
    UN_LOOP(sign_##S, T, (T)(a != 0))
UINTS(DEF_UINT)

#define DEF_MULHI_S(S, T, U, W, WR, BITS) \
    BIN_LOOP(mulhi_##S, T, BITS == 64 ? (T)mulhi_s64((int64_t)a, (int64_t)b) : (T)(((int64_t)a * (int64_t)b) >> (BITS & 63)))
SINTS(DEF_MULHI_S)
#define DEF_MULHI_U(S, T, U, W, WR, BITS) \
    BIN_LOOP(mulhi_##S, T, BITS == 64 ? (T)mulhi_u64((uint64_t)a, (uint64_t)b) : (T)(((uint64_t)a * (uint64_t)b) >> (BITS & 63)))
UINTS(DEF_MULHI_U)

/* ---- booleans: add is or, multiply is and ---- */
BIN_LOOP(or_PRED, uint8_t, (uint8_t)(a | b))
BIN_LOOP(and_PRED, uint8_t, (uint8_t)(a & b))
BIN_LOOP(xor_PRED, uint8_t, (uint8_t)(a ^ b))
UN_LOOP(not_PRED, uint8_t, (uint8_t)!a)
UN_LOOP(same_PRED, uint8_t, a)
CMP_LOOP(eq_PRED, uint8_t, a == b)
CMP_LOOP(ne_PRED, uint8_t, a != b)
CMP_LOOP(ge_PRED, uint8_t, a >= b)
CMP_LOOP(gt_PRED, uint8_t, a > b)
CMP_LOOP(le_PRED, uint8_t, a <= b)
CMP_LOOP(lt_PRED, uint8_t, a < b)

/* ---- floats ---- */
#define FBIN(name, S, T, C, expr)                                                    \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            C a = ld_##S(A[i]), b = ld_##S(B[i]);                                    \
            O[i] = st_##S(expr);                                                     \
        }                                                                            \
    }
#define FBIND(name, S, T, expr)                                                      \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            double a = ldd_##S(A[i]), b = ldd_##S(B[i]);                             \
            O[i] = std_##S(expr);                                                    \
        }                                                                            \
    }
#define FUN(name, S, T, C, expr)                                                     \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa;                                                             \
        T *O = out;                                                                  \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            C a = ld_##S(A[i]);                                                      \
            O[i] = st_##S(expr);                                                     \
        }                                                                            \
    }
#define FUND(name, S, T, expr)                                                       \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa;                                                             \
        T *O = out;                                                                  \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            double a = ldd_##S(A[i]);                                                \
            O[i] = std_##S(expr);                                                    \
        }                                                                            \
    }
#define FCMP(name, S, T, C, expr)                                                    \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        uint8_t *O = out;                                                            \
        for (int64_t i = 0; i < n; i++) {                                            \
            C a = ld_##S(A[i]), b = ld_##S(B[i]);                                    \
            O[i] = (uint8_t)(expr);                                                  \
        }                                                                            \
    }
#define FTEST(name, S, T, C, expr)                                                   \
    static void name(int64_t n, void *out, const void *pa, const void *pb)           \
    {                                                                                \
        const T *A = pa;                                                             \
        uint8_t *O = out;                                                            \
        (void)pb;                                                                    \
        for (int64_t i = 0; i < n; i++) {                                            \
            C a = ld_##S(A[i]);                                                      \
            O[i] = (uint8_t)(expr);                                                  \
        }                                                                            \
    }

static inline float maxf(float a, float b) { return isnan(a) ? a : isnan(b) ? b : a > b ? a : b > a ? b : signbit(a) ? b : a; }
static inline float minf(float a, float b) { return isnan(a) ? a : isnan(b) ? b : a < b ? a : b < a ? b : signbit(a) ? a : b; }
static inline double maxd(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a > b ? a : b > a ? b : signbit(a) ? b : a; }
static inline double mind(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a < b ? a : b < a ? b : signbit(a) ? a : b; }
#define MAX_C(a, b) _Generic((a), float: maxf, default: maxd)(a, b)
#define MIN_C(a, b) _Generic((a), float: minf, default: mind)(a, b)

static inline double sign_d(double a) { return isnan(a) ? a : a > 0 ? 1 : a < 0 ? -1 : a; }
static inline double round_even(double a)
{
    double f = floor(a), d = a - f;
    if (!isfinite(a) || d == 0)
        return a;
    double r = d < 0.5 ? f : d > 0.5 ? f + 1 : fmod(f, 2) == 0 ? f : f + 1;
    return copysign(r, a);
}
static inline double logistic_d(double a) { return 1.0 / (1.0 + exp(-a)); }

/* As everybody expands them, and so as recorded results have them: exp(x + log 1/2) +- exp(log 1/2 - x) in steps of the type. The
 * rounding of x + log 1/2 is felt for large x, up to a few units in the last place. */
static inline float cosh_f(float a)
{
    const float half = (float)-M_LN2;
    return (float)exp((double)(a + half)) + (float)exp((double)(half - a));
}
static inline double cosh_d(double a) { return exp(a - M_LN2) + exp(-M_LN2 - a); }
static inline float sinh_f(float a)
{
    const float half = (float)-M_LN2;
    if (!(fabsf(a) < 1))
        return (float)exp((double)(a + half)) - (float)exp((double)(half - a));
    return (float)sinh((double)a);
}
static inline double sinh_d(double a) { return fabs(a) < 1 ? sinh(a) : exp(a - M_LN2) - exp(-M_LN2 - a); }
#define COSH_C(a) _Generic((a), float: cosh_f, default: cosh_d)(a)
#define SINH_C(a) _Generic((a), float: sinh_f, default: sinh_d)(a)

#define DEF_FLOAT(S, T, C, BITS_T)                                                   \
    FBIN(add_##S, S, T, C, a + b)                                                    \
    FBIN(sub_##S, S, T, C, a - b)                                                    \
    FBIN(mul_##S, S, T, C, a * b)                                                    \
    FBIN(div_##S, S, T, C, a / b)                                                    \
    FBIND(rem_##S, S, T, fmod(a, b))                                                 \
    FBIN(max_##S, S, T, C, MAX_C(a, b))                                              \
    FBIN(min_##S, S, T, C, MIN_C(a, b))                                              \
    FBIND(pow_##S, S, T, pow(a, b))                                                  \
    FBIND(atan2_##S, S, T, atan2(a, b))                                              \
    FBIND(polygamma_##S, S, T, ev_polygamma(a, b))                                   \
    FBIND(zeta_##S, S, T, ev_zeta(a, b))                                             \
    FCMP(eq_##S, S, T, C, a == b)                                                    \
    FCMP(ne_##S, S, T, C, a != b)                                                    \
    FCMP(ge_##S, S, T, C, a >= b)                                                    \
    FCMP(gt_##S, S, T, C, a > b)                                                     \
    FCMP(le_##S, S, T, C, a <= b)                                                    \
    FCMP(lt_##S, S, T, C, a < b)                                                     \
    FUN(square_##S, S, T, C, a *a)                                                   \
    FUND(sign_##S, S, T, sign_d(a))                                                  \
    FUND(ceil_##S, S, T, ceil(a))                                                    \
    FUND(floor_##S, S, T, floor(a))                                                  \
    FUND(afz_##S, S, T, round(a))                                                    \
    FUND(even_##S, S, T, round_even(a))                                              \
    FUND(sqrt_##S, S, T, sqrt(a))                                                    \
    FUND(rsqrt_##S, S, T, 1 / sqrt(a))                                               \
    FUND(cbrt_##S, S, T, cbrt(a))                                                    \
    FUND(exp_##S, S, T, exp(a))                                                      \
    FUND(expm1_##S, S, T, expm1(a))                                                  \
    FUND(log_##S, S, T, log(a))                                                      \
    FUND(log1p_##S, S, T, log1p(a))                                                  \
    FUND(logistic_##S, S, T, logistic_d(a))                                          \
    FUND(sin_##S, S, T, sin(a))                                                      \
    FUND(cos_##S, S, T, cos(a))                                                      \
    FUND(tan_##S, S, T, tan(a))                                                      \
    FUND(tanh_##S, S, T, tanh(a))                                                    \
    FUND(acos_##S, S, T, acos(a))                                                    \
    FUND(acosh_##S, S, T, acosh(a))                                                  \
    FUND(asin_##S, S, T, asin(a))                                                    \
    FUND(asinh_##S, S, T, asinh(a))                                                  \
    FUND(atan_##S, S, T, atan(a))                                                    \
    FUND(atanh_##S, S, T, atanh(a))                                                  \
    FUN(cosh_##S, S, T, C, COSH_C(a))                                                \
    FUN(sinh_##S, S, T, C, SINH_C(a))                                                \
    FUND(erf_##S, S, T, erf(a))                                                      \
    FUND(erfc_##S, S, T, erfc(a))                                                    \
    FUND(erf_inv_##S, S, T, ev_erf_inv(a))                                           \
    FUND(lgamma_##S, S, T, ev_lgamma(a))                                             \
    FUND(digamma_##S, S, T, ev_digamma(a))                                           \
    FUND(bessel_i1e_##S, S, T, ev_bessel_i1e(a))                                     \
    FUN(same_##S, S, T, C, a)                                                        \
    FTEST(is_finite_##S, S, T, C, isfinite(a))                                       \
    FTEST(is_inf_##S, S, T, C, isinf(a))                                             \
    FTEST(is_pos_inf_##S, S, T, C, isinf(a) && a > 0)                                \
    FTEST(is_neg_inf_##S, S, T, C, isinf(a) && a < 0)                                \
    static void zero_##S(int64_t n, void *out, const void *pa, const void *pb)       \
    {                                                                                \
        (void)pa, (void)pb;                                                          \
        memset(out, 0, (size_t)n * sizeof(T));                                       \
    }
FLOATS(DEF_FLOAT)

#define DEF_COMPLEX(S, T)                                                            \
    static void complex_##S(int64_t n, void *out, const void *pa, const void *pb)    \
    {                                                                                \
        const T *A = pa, *B = pb;                                                    \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            O[2 * i] = A[i];                                                         \
            O[2 * i + 1] = B[i];                                                     \
        }                                                                            \
    }
DEF_COMPLEX(F32, float)
DEF_COMPLEX(F64, double)

/* Sign operations work on bits, so that NaNs keep their payload. Total order: two's complement of the magnitude where negative. */
#define DEF_BITS(S, U, I, BITS)                                                      \
    UN_LOOP(neg_##S, U, (U)(a ^ ((U)1 << (BITS - 1))))                               \
    UN_LOOP(abs_##S, U, (U)(a & (U) ~((U)1 << (BITS - 1))))                          \
    static inline int64_t total_##S(U a)                                             \
    {                                                                                \
        uint64_t sign = (uint64_t)a >> (BITS - 1) & 1, mag = (uint64_t)a & (((uint64_t)1 << (BITS - 1)) - 1); \
        return sign ? (int64_t)~mag : (int64_t)mag;                                  \
    }                                                                                \
    CMP_LOOP(teq_##S, U, total_##S(a) == total_##S(b))                               \
    CMP_LOOP(tne_##S, U, total_##S(a) != total_##S(b))                               \
    CMP_LOOP(tge_##S, U, total_##S(a) >= total_##S(b))                               \
    CMP_LOOP(tgt_##S, U, total_##S(a) > total_##S(b))                                \
    CMP_LOOP(tle_##S, U, total_##S(a) <= total_##S(b))                               \
    CMP_LOOP(tlt_##S, U, total_##S(a) < total_##S(b))                                \
    static inline U next_bits_##S(U a, U b)                                          \
    {                                                                                \
        U one = 1, top = (U)(one << (BITS - 1));                                     \
        if (!(a & (U)~top))                                                          \
            return (U)((b & top) | one);                                             \
        bool away = (a & top) == (b & top) && (b & (U)~top) > (a & (U)~top);         \
        return (U)(away ? a + one : a - one);                                        \
    }
DEF_BITS(F4E2M1FN, uint8_t, int8_t, 4)
DEF_BITS(F6E2M3FN, uint8_t, int8_t, 6)
DEF_BITS(F6E3M2FN, uint8_t, int8_t, 6)
DEF_BITS(F8E3M4, uint8_t, int8_t, 8)
DEF_BITS(F8E4M3, uint8_t, int8_t, 8)
DEF_BITS(F8E4M3FN, uint8_t, int8_t, 8)
DEF_BITS(F8E4M3FNUZ, uint8_t, int8_t, 8)
DEF_BITS(F8E4M3B11, uint8_t, int8_t, 8)
DEF_BITS(F8E5M2, uint8_t, int8_t, 8)
DEF_BITS(F8E5M2FNUZ, uint8_t, int8_t, 8)
DEF_BITS(F8E8M0FNU, uint8_t, int8_t, 8)
DEF_BITS(BF16, uint16_t, int16_t, 16)
DEF_BITS(F16, uint16_t, int16_t, 16)
DEF_BITS(F32, uint32_t, int32_t, 32)
DEF_BITS(F64, uint64_t, int64_t, 64)

#define DEF_NEXT(S, T, C, BT)                                                        \
    static void next_##S(int64_t n, void *out, const void *pa, const void *pb)       \
    {                                                                                \
        const BT##_bits *A = pa, *B = pb;                                            \
        BT##_bits *O = out;                                                          \
        for (int64_t i = 0; i < n; i++) {                                            \
            T ta, tb;                                                                \
            memcpy(&ta, &A[i], sizeof(T));                                           \
            memcpy(&tb, &B[i], sizeof(T));                                           \
            C a = ld_##S(ta), b = ld_##S(tb);                                        \
            O[i] = isnan(a) ? A[i] : isnan(b) ? B[i] : a == b ? B[i] : next_bits_##S(A[i], B[i]); \
        }                                                                            \
    }
typedef uint8_t u8_bits;
typedef uint16_t u16_bits;
typedef uint32_t u32_bits;
typedef uint64_t u64_bits;
FLOATS(DEF_NEXT)

/* The types whose one NaN is "negative zero", or that have no sign, cannot flip a bit blindly. */
#define DEF_SPECIAL_SIGN(S) FUN(fneg_##S, S, uint8_t, float, -a) FUN(fabs_##S, S, uint8_t, float, isnan(a) ? a : fabsf(a))
DEF_SPECIAL_SIGN(F8E4M3FNUZ)
DEF_SPECIAL_SIGN(F8E4M3B11)
DEF_SPECIAL_SIGN(F8E5M2FNUZ)
DEF_SPECIAL_SIGN(F8E8M0FNU)

/* ---- the table ---- */
#define ROW_INT(S, T, U, W, WR, BITS)                                                                                              \
    [NF_DT_##S] = {[EV_ADD] = add_##S, [EV_SUB] = sub_##S, [EV_MUL] = mul_##S, [EV_DIV] = div_##S, [EV_REM] = rem_##S,             \
        [EV_MAX] = max_##S, [EV_MIN] = min_##S, [EV_POW] = pow_##S, [EV_AND] = and_##S, [EV_OR] = or_##S, [EV_XOR] = xor_##S,      \
        [EV_SHL] = shl_##S, [EV_SHRA] = shra_##S, [EV_SHRL] = shrl_##S, [EV_MULHI] = mulhi_##S, [EV_EQ] = eq_##S, [EV_NE] = ne_##S, \
        [EV_GE] = ge_##S, [EV_GT] = gt_##S, [EV_LE] = le_##S, [EV_LT] = lt_##S, [EV_TOTAL_EQ] = eq_##S, [EV_TOTAL_NE] = ne_##S,    \
        [EV_TOTAL_GE] = ge_##S, [EV_TOTAL_GT] = gt_##S, [EV_TOTAL_LE] = le_##S, [EV_TOTAL_LT] = lt_##S, [EV_ABS] = abs_##S,        \
        [EV_NEG] = neg_##S, [EV_SIGN] = sign_##S, [EV_NOT] = not_##S, [EV_POPCNT] = popcnt_##S, [EV_CLZ] = clz_##S,                \
        [EV_SQUARE] = square_##S},
#define ROW_FLOAT(S, T, C, BT)                                                                                                     \
    [NF_DT_##S] = {[EV_ADD] = add_##S, [EV_SUB] = sub_##S, [EV_MUL] = mul_##S, [EV_DIV] = div_##S, [EV_REM] = rem_##S,             \
        [EV_MAX] = max_##S, [EV_MIN] = min_##S, [EV_POW] = pow_##S, [EV_ATAN2] = atan2_##S, [EV_NEXT_AFTER] = next_##S,            \
        [EV_POLYGAMMA] = polygamma_##S, [EV_ZETA] = zeta_##S, [EV_EQ] = eq_##S, [EV_NE] = ne_##S, [EV_GE] = ge_##S,                \
        [EV_GT] = gt_##S, [EV_LE] = le_##S, [EV_LT] = lt_##S, [EV_TOTAL_EQ] = teq_##S, [EV_TOTAL_NE] = tne_##S,                    \
        [EV_TOTAL_GE] = tge_##S, [EV_TOTAL_GT] = tgt_##S, [EV_TOTAL_LE] = tle_##S, [EV_TOTAL_LT] = tlt_##S, [EV_ABS] = abs_##S,    \
        [EV_NEG] = neg_##S, [EV_SIGN] = sign_##S, [EV_CEIL] = ceil_##S, [EV_FLOOR] = floor_##S, [EV_ROUND_AFZ] = afz_##S,          \
        [EV_ROUND_EVEN] = even_##S, [EV_SQRT] = sqrt_##S, [EV_RSQRT] = rsqrt_##S, [EV_CBRT] = cbrt_##S, [EV_EXP] = exp_##S,        \
        [EV_EXPM1] = expm1_##S, [EV_LOG] = log_##S, [EV_LOG1P] = log1p_##S, [EV_LOGISTIC] = logistic_##S, [EV_SIN] = sin_##S,      \
        [EV_COS] = cos_##S, [EV_TAN] = tan_##S, [EV_TANH] = tanh_##S, [EV_ACOS] = acos_##S, [EV_ACOSH] = acosh_##S,                \
        [EV_ASIN] = asin_##S, [EV_ASINH] = asinh_##S, [EV_ATAN] = atan_##S, [EV_ATANH] = atanh_##S, [EV_COSH] = cosh_##S,          \
        [EV_SINH] = sinh_##S, [EV_ERF] = erf_##S, [EV_ERFC] = erfc_##S, [EV_ERF_INV] = erf_inv_##S, [EV_LGAMMA] = lgamma_##S,      \
        [EV_DIGAMMA] = digamma_##S, [EV_BESSEL_I1E] = bessel_i1e_##S, [EV_SQUARE] = square_##S, [EV_CONJ] = same_##S,              \
        [EV_IS_FINITE] = is_finite_##S, [EV_IS_INF] = is_inf_##S, [EV_IS_POS_INF] = is_pos_inf_##S,                                \
        [EV_IS_NEG_INF] = is_neg_inf_##S, [EV_REAL] = same_##S, [EV_IMAG] = zero_##S},
#define ROW_SPECIAL_SIGN(S) [NF_DT_##S] = {fneg_##S, fabs_##S},

static const ev_kernel kernels[NF_DT_MAX][EV_OP_MAX] = {
    [NF_DT_PRED] = {[EV_ADD] = or_PRED, [EV_MUL] = and_PRED, [EV_MAX] = or_PRED, [EV_MIN] = and_PRED, [EV_AND] = and_PRED, [EV_OR] = or_PRED,
        [EV_XOR] = xor_PRED, [EV_NOT] = not_PRED, [EV_ABS] = same_PRED, [EV_EQ] = eq_PRED, [EV_NE] = ne_PRED, [EV_GE] = ge_PRED, [EV_GT] = gt_PRED,
        [EV_LE] = le_PRED, [EV_LT] = lt_PRED, [EV_TOTAL_EQ] = eq_PRED, [EV_TOTAL_NE] = ne_PRED, [EV_TOTAL_GE] = ge_PRED, [EV_TOTAL_GT] = gt_PRED,
        [EV_TOTAL_LE] = le_PRED, [EV_TOTAL_LT] = lt_PRED},
    INTS(ROW_INT)
    FLOATS(ROW_FLOAT)
};
static const ev_kernel special_sign[NF_DT_MAX][2] = {
    ROW_SPECIAL_SIGN(F8E4M3FNUZ) ROW_SPECIAL_SIGN(F8E4M3B11) ROW_SPECIAL_SIGN(F8E5M2FNUZ) ROW_SPECIAL_SIGN(F8E8M0FNU)
};

ev_kernel ev_kernel_find(enum ev_op op, enum nf_dtype dt)
{
    if ((unsigned)op >= EV_OP_MAX || (unsigned)dt >= NF_DT_MAX)
        return NULL;
    if (op == EV_COMPLEX)
        return dt == NF_DT_C64 ? complex_F32 : dt == NF_DT_C128 ? complex_F64 : NULL;
    if (nf_dtype_is_complex(dt))
        return ev__complex_kernel(op, dt);
    if (op == EV_NEG && special_sign[dt][0])
        return special_sign[dt][0];
    if (op == EV_ABS && special_sign[dt][1])
        return special_sign[dt][1];
    return kernels[dt][op];
}

/* ---- folds ---- */
#define FOLD(name, T, expr)                                                          \
    static void name(int64_t n, void *acc, const void *in, int64_t stride)           \
    {                                                                                \
        const T *A = in;                                                             \
        T a = *(T *)acc;                                                             \
        for (int64_t i = 0; i < n; i++) {                                            \
            T b = A[i * stride];                                                     \
            a = (expr);                                                              \
        }                                                                            \
        *(T *)acc = a;                                                               \
    }
#define FFOLD(name, S, T, C, expr)                                                   \
    static void name(int64_t n, void *acc, const void *in, int64_t stride)           \
    {                                                                                \
        const T *A = in;                                                             \
        C a = ld_##S(*(T *)acc);                                                     \
        for (int64_t i = 0; i < n; i++) {                                            \
            C b = ld_##S(A[i * stride]);                                             \
            a = ld_##S(st_##S(expr));                                                \
        }                                                                            \
        *(T *)acc = st_##S(a);                                                       \
    }
#define DEF_FOLD_INT(S, T, U, W, WR, BITS)                                           \
    FOLD(fold_add_##S, T, WR(T, (W)(U)a + (W)(U)b))                                  \
    FOLD(fold_mul_##S, T, WR(T, (W)(U)a * (W)(U)b))                                  \
    FOLD(fold_max_##S, T, a > b ? a : b)                                             \
    FOLD(fold_min_##S, T, a < b ? a : b)                                             \
    FOLD(fold_and_##S, T, (T)(a & b))                                                \
    FOLD(fold_or_##S, T, (T)(a | b))                                                 \
    FOLD(fold_xor_##S, T, (T)(a ^ b))
INTS(DEF_FOLD_INT)
#define DEF_FOLD_FLOAT(S, T, C, BT)                                                  \
    FFOLD(fold_add_##S, S, T, C, a + b)                                              \
    FFOLD(fold_mul_##S, S, T, C, a *b)                                               \
    FFOLD(fold_max_##S, S, T, C, MAX_C(a, b))                                        \
    FFOLD(fold_min_##S, S, T, C, MIN_C(a, b))
FLOATS(DEF_FOLD_FLOAT)
FOLD(fold_and_PRED, uint8_t, (uint8_t)(a & b))
FOLD(fold_or_PRED, uint8_t, (uint8_t)(a | b))
FOLD(fold_xor_PRED, uint8_t, (uint8_t)(a ^ b))

#define FOLD_ROW_INT(S, T, U, W, WR, BITS)                                                                                        \
    [NF_DT_##S] = {[EV_ADD] = fold_add_##S, [EV_MUL] = fold_mul_##S, [EV_MAX] = fold_max_##S, [EV_MIN] = fold_min_##S,            \
        [EV_AND] = fold_and_##S, [EV_OR] = fold_or_##S, [EV_XOR] = fold_xor_##S},
#define FOLD_ROW_FLOAT(S, T, C, BT) \
    [NF_DT_##S] = {[EV_ADD] = fold_add_##S, [EV_MUL] = fold_mul_##S, [EV_MAX] = fold_max_##S, [EV_MIN] = fold_min_##S},

ev_fold ev_fold_find(enum ev_op op, enum nf_dtype dt)
{
    static const ev_fold folds[NF_DT_MAX][EV_XOR + 1] = {
        [NF_DT_PRED] = {[EV_ADD] = fold_or_PRED, [EV_MUL] = fold_and_PRED, [EV_MAX] = fold_or_PRED, [EV_MIN] = fold_and_PRED,
            [EV_AND] = fold_and_PRED, [EV_OR] = fold_or_PRED, [EV_XOR] = fold_xor_PRED},
        INTS(FOLD_ROW_INT)
        FLOATS(FOLD_ROW_FLOAT)
    };
    return (unsigned)op <= EV_XOR && (unsigned)dt < NF_DT_MAX ? folds[dt][op] : NULL;
}

/* ---- the rest ---- */
void ev_fill(int64_t n, size_t w, void *out, const void *elem)
{
    unsigned char *o = out;
    if (n <= 0 || !w)
        return;
    memcpy(o, elem, w);
    size_t total = (size_t)n * w;
    for (size_t done = w; done < total;) {
        size_t step = NF_MIN(done, total - done);
        memcpy(o + done, o, step);
        done += step;
    }
}

void ev_select(int64_t n, size_t w, void *out, const uint8_t *pred, int pred_step, const void *a, const void *b)
{
#define SEL(T)                                                                       \
    {                                                                                \
        const T *A = a, *B = b;                                                      \
        T *O = out;                                                                  \
        for (int64_t i = 0; i < n; i++)                                              \
            O[i] = pred[i * pred_step] ? A[i] : B[i];                                \
    }
    if (w == 1)
        SEL(uint8_t)
    else if (w == 2)
        SEL(uint16_t)
    else if (w == 4)
        SEL(uint32_t)
    else if (w == 8)
        SEL(uint64_t)
    else
        for (int64_t i = 0; i < n; i++)
            memmove((char *)out + (size_t)i * w, (const char *)(pred[i * pred_step] ? a : b) + (size_t)i * w, w);
#undef SEL
}

void ev_load_double(int64_t n, enum nf_dtype dt, const void *in, double *out)
{
    switch (dt) {
#define LOAD_CASE(S, T, C, BT)                                                       \
    case NF_DT_##S:                                                                  \
        for (int64_t i = 0; i < n; i++)                                              \
            out[i] = ldd_##S(((const T *)in)[i]);                                    \
        break;
        FLOATS(LOAD_CASE)
    case NF_DT_NONE: case NF_DT_PRED: case NF_DT_S2: case NF_DT_S4: case NF_DT_S8: case NF_DT_S16: case NF_DT_S32: case NF_DT_S64:
    case NF_DT_U2: case NF_DT_U4: case NF_DT_U8: case NF_DT_U16: case NF_DT_U32: case NF_DT_U64: case NF_DT_C64: case NF_DT_C128: case NF_DT_MAX: {
        size_t w = nf_dtype_bytes(dt);
        for (int64_t i = 0; i < n; i++)
            out[i] = nf_elem_to_double(dt, (const char *)in + (size_t)i * w);
    }
    }
}

void ev_store_double(int64_t n, enum nf_dtype dt, const double *in, void *out)
{
    switch (dt) {
#define STORE_CASE(S, T, C, BT)                                                      \
    case NF_DT_##S:                                                                  \
        for (int64_t i = 0; i < n; i++)                                              \
            ((T *)out)[i] = std_##S(in[i]);                                          \
        break;
        FLOATS(STORE_CASE)
    case NF_DT_C64:
        for (int64_t i = 0; i < n; i++) {
            ((float *)out)[2 * i] = (float)in[i];
            ((float *)out)[2 * i + 1] = 0;
        }
        break;
    case NF_DT_C128:
        for (int64_t i = 0; i < n; i++) {
            ((double *)out)[2 * i] = in[i];
            ((double *)out)[2 * i + 1] = 0;
        }
        break;
    case NF_DT_PRED:
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = in[i] != 0;
        break;
    /* Integers saturate; NaN is 0. */
#define STORE_SINT(S, T, U, W, WR, BITS)                                             \
    case NF_DT_##S:                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            double v = in[i], lim = ldexp(1.0, BITS - 1);                            \
            int64_t lo = -(int64_t)(((uint64_t)1 << (BITS - 1)) - 1) - 1;            \
            int64_t r = isnan(v) ? 0 : v <= -lim ? lo : v >= lim ? -(lo + 1) : (int64_t)v; \
            ((T *)out)[i] = (T)r;                                                    \
        }                                                                            \
        break;
        SINTS(STORE_SINT)
#define STORE_UINT(S, T, U, W, WR, BITS)                                             \
    case NF_DT_##S:                                                                  \
        for (int64_t i = 0; i < n; i++) {                                            \
            double v = in[i], lim = ldexp(1.0, BITS);                                \
            uint64_t r = isnan(v) || v <= 0 ? 0 : v >= lim ? ~(uint64_t)0 >> (64 - BITS) : (uint64_t)v; \
            ((T *)out)[i] = (T)r;                                                    \
        }                                                                            \
        break;
        UINTS(STORE_UINT)
    case NF_DT_NONE: case NF_DT_MAX:
        break;
    }
}

int64_t ev_int_at(enum nf_dtype dt, const void *data, int64_t i)
{
    switch (dt) {
#define INT_CASE(S, T, U, W, WR, BITS)                                               \
    case NF_DT_##S:                                                                  \
        return (int64_t)((const T *)data)[i];
        SINTS(INT_CASE)
    case NF_DT_U2: case NF_DT_U4: case NF_DT_U8: case NF_DT_PRED:
        return ((const uint8_t *)data)[i];
    case NF_DT_U16:
        return ((const uint16_t *)data)[i];
    case NF_DT_U32:
        return ((const uint32_t *)data)[i];
    case NF_DT_U64: {
        uint64_t v = ((const uint64_t *)data)[i];
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    case NF_DT_NONE: case NF_DT_F4E2M1FN: case NF_DT_F6E2M3FN: case NF_DT_F6E3M2FN: case NF_DT_F8E3M4: case NF_DT_F8E4M3: case NF_DT_F8E4M3FN:
    case NF_DT_F8E4M3FNUZ: case NF_DT_F8E4M3B11: case NF_DT_F8E5M2: case NF_DT_F8E5M2FNUZ: case NF_DT_F8E8M0FNU: case NF_DT_BF16: case NF_DT_F16:
    case NF_DT_F32: case NF_DT_F64: case NF_DT_C64: case NF_DT_C128: case NF_DT_MAX:
        break;
    }
    return 0;
}

/* Integer (as 64 bits, `neg` when it is below zero) to a float type, rounded once. */
static void ints_to_float(int64_t n, enum nf_dtype to, void *out, const uint64_t *bits, bool is_signed)
{
    for (int64_t i = 0; i < n; i++) {
        bool neg = is_signed && (int64_t)bits[i] < 0;
        uint64_t mag = neg ? 0 - bits[i] : bits[i];
        if (to == NF_DT_F64) {
            double d = (double)mag;
            ((double *)out)[i] = neg ? -d : d;
        } else if (to == NF_DT_F32) {
            float f = (float)mag;
            ((float *)out)[i] = neg ? -f : f;
        } else {
            if (mag >> 56) /* keep what a smaller type can see: 48 bits and whether there was more */
                mag = (mag & ~(uint64_t)0xffff) | ((mag & 0xffff) ? 0x8000u : 0);
            double d = neg ? -(double)mag : (double)mag;
            ev_store_double(1, to, &d, (char *)out + (size_t)i * nf_dtype_bytes(to));
        }
    }
}

static void load_ints(int64_t n, enum nf_dtype dt, const void *in, uint64_t *out)
{
    if (dt == NF_DT_U64)
        memcpy(out, in, (size_t)n * 8);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = (uint64_t)ev_int_at(dt, in, i);
}

static void store_ints(int64_t n, enum nf_dtype dt, const uint64_t *in, void *out)
{
    switch (dt) {
#define WRAP_CASE(S, T, U, W, WR, BITS)                                              \
    case NF_DT_##S:                                                                  \
        for (int64_t i = 0; i < n; i++)                                              \
            ((T *)out)[i] = WR(T, in[i]);                                            \
        break;
        INTS(WRAP_CASE)
    case NF_DT_PRED:
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = in[i] != 0;
        break;
    case NF_DT_NONE: case NF_DT_F4E2M1FN: case NF_DT_F6E2M3FN: case NF_DT_F6E3M2FN: case NF_DT_F8E3M4: case NF_DT_F8E4M3: case NF_DT_F8E4M3FN:
    case NF_DT_F8E4M3FNUZ: case NF_DT_F8E4M3B11: case NF_DT_F8E5M2: case NF_DT_F8E5M2FNUZ: case NF_DT_F8E8M0FNU: case NF_DT_BF16: case NF_DT_F16:
    case NF_DT_F32: case NF_DT_F64: case NF_DT_C64: case NF_DT_C128: case NF_DT_MAX:
        break;
    }
}

void ev_convert(int64_t n, enum nf_dtype to, void *out, enum nf_dtype from, const void *in)
{
    enum { CHUNK = 256 };
    size_t wi = nf_dtype_bytes(from), wo = nf_dtype_bytes(to);
    if (to == from) {
        if (n > 0)
            memmove(out, in, (size_t)n * wi);
        return;
    }
    bool complex_in = nf_dtype_is_complex(from), complex_out = nf_dtype_is_complex(to);
    bool int_in = nf_dtype_is_int(from) || from == NF_DT_PRED, int_out = nf_dtype_is_int(to) || to == NF_DT_PRED;
    if (from == NF_DT_F32 && to == NF_DT_F64) {
        for (int64_t i = 0; i < n; i++)
            ((double *)out)[i] = (double)((const float *)in)[i];
        return;
    }
    if (from == NF_DT_BF16 && to == NF_DT_F32) {
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[i] = nf_bf16_to_float(((const uint16_t *)in)[i]);
        return;
    }
    if (from == NF_DT_F32 && to == NF_DT_BF16) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = nf_bf16_from_float(((const float *)in)[i]);
        return;
    }
    double d[CHUNK];
    uint64_t u[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t m = NF_MIN((int64_t)CHUNK, n - at);
        const char *pi = (const char *)in + (size_t)at * wi;
        char *po = (char *)out + (size_t)at * wo;
        if (complex_in && complex_out) {
            for (int64_t i = 0; i < 2 * m; i++) {
                if (from == NF_DT_C64)
                    ((double *)po)[i] = (double)((const float *)pi)[i];
                else
                    ((float *)po)[i] = (float)((const double *)pi)[i];
            }
        } else if (int_in && int_out) {
            load_ints(m, from, pi, u);
            store_ints(m, to, u, po);
        } else if (int_in && !complex_out) {
            load_ints(m, from, pi, u);
            ints_to_float(m, to, po, u, nf_dtype_class(from) == NF_DTC_SINT);
        } else if (int_in) {
            _Alignas(16) char part[CHUNK * 8];
            load_ints(m, from, pi, u);
            ints_to_float(m, nf_dtype_part(to), part, u, nf_dtype_class(from) == NF_DTC_SINT);
            for (int64_t i = 0; i < m; i++) {
                memcpy(po + (size_t)i * wo, part + (size_t)i * wo / 2, wo / 2);
                memset(po + (size_t)i * wo + wo / 2, 0, wo / 2);
            }
        } else {
            ev_load_double(m, from, pi, d); /* of a complex: the real part */
            ev_store_double(m, to, d, po);
        }
    }
}

void ev_reduce_precision(int64_t n, enum nf_dtype dt, int exponent_bits, int mantissa_bits, void *out, const void *in)
{
    size_t w = nf_dtype_bytes(dt);
    const struct nf_float_format *f = nf_dtype_float_format(dt);
    int src_exp = f ? f->exp_bits : dt == NF_DT_F64 ? 11 : 8, src_man = f ? f->man_bits : dt == NF_DT_F64 ? 52 : 23;
    exponent_bits = NF_MAX(1, NF_MIN(exponent_bits, src_exp)); /* wider is no change */
    for (int64_t i = 0; i < n; i++) {
        double v;
        ev_load_double(1, dt, (const char *)in + (size_t)i * w, &v);
        if (isnan(v) && mantissa_bits == 0) {
            v = copysign((double)INFINITY, v); /* no bit is left to tell a NaN */
        } else if (isfinite(v) && v != 0) {
            /* Round the fraction field to mantissa_bits; a narrower exponent then overflows to infinity, underflows to zero. */
            int e, emin = 1 - ((1 << (src_exp - 1)) - 1), reach = (1 << (exponent_bits - 1)) - 1;
            double a = fabs(v), r = a;
            (void)frexp(a, &e);
            e = NF_MAX(e - 1, emin);
            if (mantissa_bits < src_man) {
                double q = ldexp(a, mantissa_bits - e);
                bool odd_exponent_tie = mantissa_bits == 0 && q == 1.5; /* its last bit is that of the biased exponent */
                r = ldexp(odd_exponent_tie ? ((e & 1) ? 1 : 2) : rint(q), e - mantissa_bits);
            }
            (void)frexp(r, &e);
            e--;
            if (exponent_bits < src_exp && e > reach)
                r = (double)INFINITY;
            else if (exponent_bits < src_exp && e < 1 - reach)
                r = 0;
            v = copysign(r, v);
        }
        ev_store_double(1, dt, &v, (char *)out + (size_t)i * w);
    }
}

void ev_bitcast(enum nf_dtype to, void *out, int64_t out_n, enum nf_dtype from, const void *in, int64_t in_n)
{
    unsigned bi = nf_dtype_bits(from), bo = nf_dtype_bits(to);
    size_t wi = nf_dtype_bytes(from), wo = nf_dtype_bytes(to);
    if (bi >= 8 && bo >= 8) {
        memcpy(out, in, (size_t)NF_MIN(in_n * (int64_t)wi, out_n * (int64_t)wo));
        return;
    }
    /* Sub-byte elements: a stream of bits, lowest first. */
    memset(out, 0, (size_t)out_n * wo);
    const uint8_t *pi = in;
    uint8_t *po = out;
    int64_t total = NF_MIN(in_n * (int64_t)bi, out_n * (int64_t)bo);
    for (int64_t k = 0; k < total; k++) {
        int64_t ei = k / bi, eo = k / bo;
        unsigned oi = (unsigned)(k % bi), oo = (unsigned)(k % bo);
        unsigned bit = pi[(size_t)ei * wi + oi / 8] >> (oi % 8) & 1u;
        po[(size_t)eo * wo + oo / 8] = (uint8_t)(po[(size_t)eo * wo + oo / 8] | bit << (oo % 8));
    }
    if (nf_dtype_class(to) == NF_DTC_SINT && bo < 8)
        for (int64_t i = 0; i < out_n; i++)
            po[i] = (uint8_t)((int8_t)(po[i] << (8 - bo)) >> (8 - bo));
}
