/* rp_eval.c: one instruction of a row program on numbers: what StableHLO says, in double or int64, rounded once to the type.
 *
 * Sums, products, quotients and square roots of f32 or narrower operands computed in double and rounded once are correctly
 * rounded; elementary functions come from libm in double. */
#include "runtime/cpu/rowprog.h"
#include "runtime/cpu/special.h"

#include <math.h>

static double round_to(enum cpu_dt t, double x)
{
    if (t == CPU_F64 || t == CPU_C128) return x;
    if (t == CPU_F32 || t == CPU_C64) return (double)(float)x;
    return (double)cpu_small_decode(t, cpu_small_encode(t, x));
}

/* Order of all floats: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN. */
static int64_t total_key(double x)
{
    int64_t k;
    memcpy(&k, &x, 8);
    return k < 0 ? k ^ INT64_MAX : k;
}

static bool compare(int how, enum cpu_dt t, struct cpu_num a, struct cpu_num b)
{
    bool total = how & RP_CMP_TOTAL;
    how &= ~RP_CMP_TOTAL;
    if (cpu_dt_complex(t)) {
        bool eq = a.re == b.re && a.im == b.im;
        bool lt = a.re < b.re || (a.re == b.re && a.im < b.im), gt = b.re < a.re || (a.re == b.re && b.im < a.im);
        return how == RP_EQ ? eq : how == RP_NE ? !eq : how == RP_LT ? lt : how == RP_LE ? lt || eq : how == RP_GT ? gt : gt || eq;
    }
    if (cpu_dt_float(t) && !total) {
        double x = a.re, y = b.re;
        return how == RP_EQ ? x == y : how == RP_NE ? x != y : how == RP_LT ? x < y : how == RP_LE ? x <= y : how == RP_GT ? x > y : x >= y;
    }
    int64_t x = total ? total_key(a.re) : a.i, y = total ? total_key(b.re) : b.i;
    bool lt = t == CPU_U64 ? (uint64_t)x < (uint64_t)y : x < y;
    return how == RP_EQ ? x == y : how == RP_NE ? x != y : how == RP_LT ? lt : how == RP_LE ? lt || x == y : how == RP_GT ? !lt && x != y : !lt;
}

static double float_max(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    if (a == 0 && b == 0) return signbit(a) ? b : a;
    return a > b ? a : b;
}
static double float_min(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    if (a == 0 && b == 0) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double fsign(double x) { return isnan(x) || x == 0 ? x : x > 0 ? 1 : -1; }

static double reduce_precision(enum cpu_dt t, double x, int ebits, int mbits)
{
    const struct nf_float_format *f = nf_dtype_float_format(cpu_dt_base(t));
    int src_exp = f ? f->exp_bits : t == CPU_F64 ? 11 : 8, src_man = f ? f->man_bits : t == CPU_F64 ? 52 : 23;
    ebits = NF_MAX(1, NF_MIN(ebits, src_exp)); /* wider is no change */
    if (isnan(x) && mbits == 0) return copysign((double)INFINITY, x);    /* a NaN without mantissa bits */
    if (isnan(x) || isinf(x) || x == 0) return x;
    int emin = 1 - ((1 << (src_exp - 1)) - 1), reach = (1 << (ebits - 1)) - 1, e = NF_MAX(ilogb(x), emin);
    double r = x;
    if (mbits < src_man) {
        double q = ldexp(fabs(x), mbits - e);
        bool tie = mbits == 0 && q == 1.5; /* the last bit is that of the biased exponent */
        r = copysign(ldexp(tie ? (e & 1 ? 1 : 2) : nearbyint(q), e - mbits), x);
    }
    if (ebits == src_exp) return r;
    e = r == 0 ? 1 - reach - 1 : ilogb(r);
    return e > reach ? copysign((double)INFINITY, x) : e < 1 - reach ? copysign(0, x) : r;
}

static double next_after(enum cpu_dt t, double a, double b)
{
    if (t == CPU_F64) return nextafter(a, b);
    if (t == CPU_F32) return (double)nextafterf((float)a, (float)b);
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return b;
    uint32_t sign = 1u << (cpu_dt_info[t].bits - 1), u = cpu_small_encode(t, a);
    if (a == 0) u = (b < 0 ? sign : 0) | 1;
    else u += (a < b) == !(u & sign) ? 1u : -1u;
    return (double)cpu_small_decode(t, u);
}

/* As everybody expands them: exp(x + log 1/2) +- exp(log 1/2 - x) in steps of the type. */
static double hyperbolic(enum cpu_dt t, double x, bool sine)
{
    double half = round_to(t == CPU_F64 ? t : CPU_F32, -M_LN2), up, down;
    if (sine && fabs(x) < 1) return sinh(x);
    if (t == CPU_F64) up = exp(x + half), down = exp(half - x);
    else up = (double)(float)exp((double)(float)(x + half)), down = (double)(float)exp((double)(float)(half - x));
    return sine ? up - down : up + down;
}

static double float1(const struct rp_ins *s, double x)
{
    switch ((int)s->op) {
    case RP_NEG: return -x;
    case RP_ABS: return fabs(x);
    case RP_SIGN: return fsign(x);
    case RP_FLOOR: return floor(x);
    case RP_CEIL: return ceil(x);
    case RP_RNE: return nearbyint(x);
    case RP_RAZ: return round(x);
    case RP_SQRT: return sqrt(x);
    case RP_RSQRT: return 1 / sqrt(x);
    case RP_CBRT: return cbrt(x);
    case RP_EXP: return exp(x);
    case RP_EXPM1: return expm1(x);
    case RP_LOG: return log(x);
    case RP_LOG1P: return log1p(x);
    case RP_LOGISTIC: return 1 / (1 + exp(-x));
    case RP_TANH: return tanh(x);
    case RP_SIN: return sin(x);
    case RP_COS: return cos(x);
    case RP_TAN: return tan(x);
    case RP_ASIN: return asin(x);
    case RP_ACOS: return acos(x);
    case RP_ATAN: return atan(x);
    case RP_SINH: return hyperbolic((enum cpu_dt)s->dt, x, true);
    case RP_COSH: return hyperbolic((enum cpu_dt)s->dt, x, false);
    case RP_ASINH: return asinh(x);
    case RP_ACOSH: return acosh(x);
    case RP_ATANH: return atanh(x);
    case RP_ERF: return erf(x);
    case RP_ERFC: return erfc(x);
    case RP_ERFINV: return cpu_erf_inv(x);
    case RP_LGAMMA: return cpu_lgamma(x);
    case RP_DIGAMMA: return cpu_digamma(x);
    case RP_I1E: return cpu_bessel_i1e(x);
    case RP_PREC: return reduce_precision((enum cpu_dt)s->dt, x, s->aux >> 8, s->aux & 255);
    default: return x; /* copy, real */
    }
}

static double float2(const struct rp_ins *s, double a, double b)
{
    switch ((int)s->op) {
    case RP_ADD: return a + b;
    case RP_SUB: return a - b;
    case RP_MUL: return a * b;
    case RP_DIV: return a / b;
    case RP_REM: return fmod(a, b);
    case RP_MAX: return float_max(a, b);
    case RP_MIN: return float_min(a, b);
    case RP_POW: return pow(a, b);
    case RP_ATAN2: return atan2(a, b);
    case RP_NEXTAFTER: return next_after((enum cpu_dt)s->dt, a, b);
    case RP_ZETA: return cpu_zeta(a, b);
    case RP_POLYGAMMA: return cpu_polygamma(a, b);
    default: return 0;
    }
}

static double _Complex complex1(const struct rp_ins *s, double _Complex z)
{
    double _Complex one = 1;
    switch ((int)s->op) {
    case RP_NEG: return CMPLX(-creal(z), -cimag(z));
    case RP_SIGN: {
        double m = cabs(z);
        if (isnan(creal(z)) || isnan(cimag(z))) return CMPLX(NAN, NAN);
        return m == 0 ? z : CMPLX(creal(z) / m, cimag(z) / m);
    }
    case RP_SQRT: return csqrt(z);
    case RP_RSQRT: {
        double _Complex r = csqrt(z);
        double m = cabs(z);
        if (m == 0) return CMPLX((double)INFINITY, (double)NAN);
        return isinf(m) ? CMPLX(0, copysign(0, -cimag(z))) : CMPLX(creal(r) / m, -cimag(r) / m);
    }
    case RP_CBRT: return cpow(z, 1.0 / 3);
    case RP_EXP: /* an infinite or undefined angle stays undefined where C's cexp says 0 */
        if (!isfinite(cimag(z))) return CMPLX(NAN, NAN);
        return cimag(z) == 0 ? CMPLX(exp(creal(z)), cimag(z)) : cexp(z);
    case RP_EXPM1: {
        double a = creal(z), b = cimag(z), h = sin(b / 2);
        return CMPLX(expm1(a) * cos(b) - 2 * h * h, exp(a) * sin(b));
    }
    case RP_LOG: return clog(z);
    case RP_LOG1P: {
        double a = creal(z), b = cimag(z);
        if (fabs(a) < 0.5 && fabs(b) < 0.5) return CMPLX(0.5 * log1p(a * (2 + a) + b * b), atan2(b, 1 + a));
        return clog(CMPLX(1 + a, b));
    }
    case RP_LOGISTIC: return one / (one + cexp(CMPLX(-creal(z), -cimag(z))));
    case RP_TANH: return ctanh(z);
    case RP_SIN: return csin(z);
    case RP_COS: return ccos(z);
    case RP_TAN: return ctan(z);
    case RP_ASIN: return casin(z);
    case RP_ACOS: return cacos(z);
    case RP_ATAN: return catan(z);
    case RP_SINH: return csinh(z);
    case RP_COSH: return ccosh(z);
    case RP_ASINH: return casinh(z);
    case RP_ACOSH: return cacosh(z);
    case RP_ATANH: return catanh(z);
    default: return z;
    }
}

static struct cpu_num complex2(const struct rp_ins *s, struct cpu_num a, struct cpu_num b)
{
    struct cpu_num r = {0};
    double _Complex z;
    bool gt;
    switch ((int)s->op) {
    case RP_ADD: r.re = a.re + b.re; r.im = a.im + b.im; return r;
    case RP_SUB: r.re = a.re - b.re; r.im = a.im - b.im; return r;
    case RP_MUL: /* by the textbook, in the parts' type */
        if (s->dt == CPU_C64) {
            float x = (float)a.re, y = (float)a.im, u = (float)b.re, v = (float)b.im;
            r.re = (double)(x * u - y * v);
            r.im = (double)(x * v + y * u);
        } else {
            r.re = a.re * b.re - a.im * b.im;
            r.im = a.re * b.im + a.im * b.re;
        }
        return r;
    case RP_DIV: z = CMPLX(a.re, a.im) / CMPLX(b.re, b.im); break;
    case RP_POW:
        if (a.re == 0 && a.im == 0) {
            double none = b.re > 0 ? 0 : b.re == 0 && b.im == 0 ? 1 : b.im == 0 ? (double)INFINITY : (double)NAN;
            z = CMPLX(none, b.re > 0 || b.im == 0 ? 0 : (double)NAN);
        }
        else z = cpow(CMPLX(a.re, a.im), CMPLX(b.re, b.im));
        break;
    case RP_ATAN2: { /* -i log((x + iy) / sqrt(x^2 + y^2)) */
        double _Complex y = CMPLX(a.re, a.im), x = CMPLX(b.re, b.im);
        z = -I * clog((x + I * y) / csqrt(x * x + y * y));
        break;
    }
    case RP_MAX: case RP_MIN:
        if (isnan(a.re) || isnan(a.im)) return a;
        if (isnan(b.re) || isnan(b.im)) return b;
        gt = compare(RP_GT, (enum cpu_dt)s->dt, a, b);
        return (s->op == RP_MAX) == gt ? a : b;
    default: return r;
    }
    r.re = creal(z);
    r.im = cimag(z);
    return r;
}

static int64_t int_pow(enum cpu_dt t, int64_t base, int64_t exponent)
{
    if (cpu_dt_info[t].is_signed && exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t r = 1, b = (uint64_t)base;
    for (uint64_t e = (uint64_t)exponent; e; e >>= 1, b *= b)
        if (e & 1) r *= b;
    return (int64_t)r;
}

static int64_t int1(enum rp_op op, enum cpu_dt t, int64_t x)
{
    int bits = cpu_dt_info[t].bits;
    uint64_t u = bits == 64 ? (uint64_t)x : (uint64_t)x & (((uint64_t)1 << bits) - 1);
    switch ((int)op) {
    case RP_NEG: return (int64_t)(0 - (uint64_t)x);
    case RP_ABS: return cpu_dt_info[t].is_signed && x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    case RP_SIGN: return cpu_dt_info[t].is_signed ? (x > 0) - (x < 0) : x != 0;
    case RP_NOT: return t == CPU_PRED ? !x : ~x;
    case RP_POPCNT: return __builtin_popcountll(u);
    case RP_CLZ: return u ? __builtin_clzll(u) - (64 - bits) : bits;
    default: return x;
    }
}

static int64_t int2(enum rp_op op, enum cpu_dt t, int64_t a, int64_t b)
{
    bool sgn = cpu_dt_info[t].is_signed, pred = t == CPU_PRED;
    int bits = cpu_dt_info[t].bits;
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b, mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    bool wide = ub >= (uint64_t)bits; /* also a negative amount */
    switch ((int)op) {
    case RP_ADD: return pred ? a | b : (int64_t)(ua + ub);
    case RP_SUB: return (int64_t)(ua - ub);
    case RP_MUL: return pred ? a & b : (int64_t)(ua * ub);
    case RP_DIV:
        if (b == 0) return -1;
        if (sgn) return b == -1 ? (int64_t)(0 - ua) : a / b;
        return (int64_t)(ua / ub);
    case RP_REM:
        if (b == 0) return a;
        if (sgn) return b == -1 ? 0 : a % b;
        return (int64_t)(ua % ub);
    case RP_MAX: return (sgn || t != CPU_U64 ? a > b : ua > ub) ? a : b;
    case RP_MIN: return (sgn || t != CPU_U64 ? a < b : ua < ub) ? a : b;
    case RP_POW: return int_pow(t, a, b);
    case RP_AND: return a & b;
    case RP_OR: return a | b;
    case RP_XOR: return a ^ b;
    case RP_SHL: return wide ? 0 : (int64_t)(ua << ub);
    case RP_SHR: return wide ? 0 : (int64_t)((ua & mask) >> ub);
    case RP_SAR: {
        int64_t s = (int64_t)((ua & mask) << (64 - bits)) >> (64 - bits);
        return wide ? (s < 0 ? -1 : 0) : s >> ub;
    }
    case RP_MULHI:
        if (sgn) return (int64_t)((__extension__ (__int128)a * b) >> bits);
        return (int64_t)((__extension__ (unsigned __int128)ua * ub) >> bits);
    default: return 0;
    }
}

/* Same storage, other type. */
static struct cpu_num rebits(enum cpu_dt from, enum cpu_dt to, struct cpu_num v)
{
    unsigned char raw[16] = {0};
    cpu_num_store(from, raw, v);
    return cpu_num_load(to, raw);
}

struct cpu_num rp_eval(const struct rp_ins *s, const enum cpu_dt *t, const struct cpu_num *v)
{
    struct cpu_num r = {0};
    enum cpu_dt dt = (enum cpu_dt)s->dt;
    enum rp_op op = (enum rp_op)s->op;
    double _Complex z;
    switch ((int)op) {
    case RP_CONST: return cpu_num_load(dt, s->bits);
    case RP_COPY: return v[0];
    case RP_CVT: return cpu_num_convert(t[0], dt, v[0]);
    case RP_BITS: return rebits(t[0], dt, v[0]);
    case RP_SEL: return v[0].i ? v[1] : v[2];
    case RP_CMP: r.i = compare(s->aux, t[0], v[0], v[1]); return r;
    case RP_FINITE: r.i = isfinite(v[0].re); return r;
    case RP_REAL: r.re = v[0].re; return r;
    case RP_IMAG: r.re = cpu_dt_complex(t[0]) ? v[0].im : 0; return r;
    case RP_COMPLEX: r.re = v[0].re; r.im = v[1].re; return r;
    case RP_ABS:
        if (cpu_dt_complex(t[0])) {
            r.re = round_to(dt, hypot(v[0].re, v[0].im));
            return r;
        }
        break;
    case RP_CLAMP:
        if (dt <= CPU_U64) {
            r.i = int2(RP_MIN, dt, int2(RP_MAX, dt, v[1].i, v[0].i), v[2].i);
            return r;
        }
        r.re = float_min(float_max(v[1].re, v[0].re), v[2].re);
        return r;
    default: break;
    }
    switch (cpu_dt_info[dt].cls) {
    case CPU_CLASS_PRED:
    case CPU_CLASS_INT:
        r.i = cpu_int_wrap(dt, rp_op_info[op].nsrc == 1 ? int1(op, dt, v[0].i) : int2(op, dt, v[0].i, v[1].i));
        if (dt == CPU_PRED) r.i &= 1;
        break;
    case CPU_CLASS_F32:
    case CPU_CLASS_F64:
        r.re = round_to(dt, rp_op_info[op].nsrc == 1 ? float1(s, v[0].re) : float2(s, v[0].re, v[1].re));
        break;
    default:
        if (rp_op_info[op].nsrc == 1) {
            z = complex1(s, CMPLX(v[0].re, v[0].im));
            r.re = creal(z);
            r.im = cimag(z);
        } else {
            r = complex2(s, v[0], v[1]);
        }
        r.re = round_to(dt, r.re);
        r.im = round_to(dt, r.im);
        break;
    }
    return r;
}
