#include "base/dtype.h"

#include <math.h>

static const struct row {
    const char *name;
    uint16_t bits, bytes;
    enum nf_dtype_class cls;
    const char *npy;
} rows[NF_DT_MAX] = {
    {"none", 0, 0, NF_DTC_NONE, ""},
#define DTYPE(sym, name, bits, bytes, cls, npy) {name, bits, bytes, NF_DTC_##cls, npy},
#include "base/dtype.def"
#undef DTYPE
};

static const struct row *row_of(enum nf_dtype t) { return &rows[(unsigned)t < NF_DT_MAX ? t : NF_DT_NONE]; }

const char *nf_dtype_name(enum nf_dtype t) { return row_of(t)->name; }
unsigned nf_dtype_bits(enum nf_dtype t) { return row_of(t)->bits; }
size_t nf_dtype_bytes(enum nf_dtype t) { return row_of(t)->bytes; }
enum nf_dtype_class nf_dtype_class(enum nf_dtype t) { return row_of(t)->cls; }
const char *nf_dtype_npy(enum nf_dtype t) { return row_of(t)->npy; }

enum nf_dtype nf_dtype_from_name(struct nf_str name)
{
    if (nf_str_eq(name, NF_STR("index")))
        return NF_DT_S64;
    if (name.len > 2 && name.data[0] == 's' && name.data[1] == 'i')
        name = nf_str_n(name.data + 1, name.len - 1);
    for (int t = NF_DT_NONE + 1; t < NF_DT_MAX; t++)
        if (nf_str_eq(name, nf_str_c(rows[t].name)))
            return (enum nf_dtype)t;
    return NF_DT_NONE;
}

enum nf_dtype nf_dtype_part(enum nf_dtype t) { return t == NF_DT_C64 ? NF_DT_F32 : t == NF_DT_C128 ? NF_DT_F64 : t; }

const struct nf_float_format *nf_dtype_float_format(enum nf_dtype t)
{
    static const struct nf_float_format formats[NF_DT_MAX] = {
        /*                 exp man bias  sign   inf    nan    fnuz   ones   no_zero */
        [NF_DT_F4E2M1FN] = {2, 1, 1, true, false, false, false, false, false},
        [NF_DT_F6E2M3FN] = {2, 3, 1, true, false, false, false, false, false},
        [NF_DT_F6E3M2FN] = {3, 2, 3, true, false, false, false, false, false},
        [NF_DT_F8E3M4] = {3, 4, 3, true, true, true, false, false, false},
        [NF_DT_F8E4M3] = {4, 3, 7, true, true, true, false, false, false},
        [NF_DT_F8E4M3FN] = {4, 3, 7, true, false, true, false, true, false},
        [NF_DT_F8E4M3FNUZ] = {4, 3, 8, true, false, true, true, false, false},
        [NF_DT_F8E4M3B11] = {4, 3, 11, true, false, true, true, false, false},
        [NF_DT_F8E5M2] = {5, 2, 15, true, true, true, false, false, false},
        [NF_DT_F8E5M2FNUZ] = {5, 2, 16, true, false, true, true, false, false},
        [NF_DT_F8E8M0FNU] = {8, 0, 127, false, false, true, false, true, true},
        [NF_DT_BF16] = {8, 7, 127, true, true, true, false, false, false},
        [NF_DT_F16] = {5, 10, 15, true, true, true, false, false, false},
    };
    return (unsigned)t < NF_DT_MAX && formats[t].exp_bits ? &formats[t] : NULL;
}

double nf_small_to_double(enum nf_dtype t, uint16_t bits)
{
    const struct nf_float_format *f = nf_dtype_float_format(t);
    if (!f)
        return 0;
    unsigned width = (unsigned)f->has_sign + f->exp_bits + f->man_bits;
    unsigned mag_mask = (1u << (f->exp_bits + f->man_bits)) - 1, exp_max = (1u << f->exp_bits) - 1;
    bool neg = f->has_sign && (bits >> (width - 1) & 1);
    unsigned mag = bits & mag_mask, exp = mag >> f->man_bits, man = mag & ((1u << f->man_bits) - 1);
    double sign = neg ? -1.0 : 1.0;
    if (f->nan_is_neg_zero && neg && mag == 0)
        return (double)NAN;
    if (f->nan_all_ones && mag == mag_mask)
        return copysign((double)NAN, sign);
    if (f->has_inf && exp == exp_max)
        return man ? copysign((double)NAN, sign) : sign * (double)INFINITY;
    if (f->no_zero)
        return ldexp(1.0, (int)exp - f->bias);
    if (exp == 0)
        return sign * ldexp((double)man, 1 - f->bias - f->man_bits);
    return sign * ldexp((double)(man | 1u << f->man_bits), (int)exp - f->bias - f->man_bits);
}

uint16_t nf_small_from_double(enum nf_dtype t, double v)
{
    const struct nf_float_format *f = nf_dtype_float_format(t);
    if (!f)
        return 0;
    unsigned mag_bits = (unsigned)f->exp_bits + f->man_bits;
    unsigned mag_mask = (1u << mag_bits) - 1, exp_max = (1u << f->exp_bits) - 1;
    unsigned sign = f->has_sign && signbit(v) ? 1u << mag_bits : 0;
    unsigned largest = mag_mask; /* magnitude of the largest finite value */
    if (f->has_inf)
        largest = (exp_max << f->man_bits) - 1;
    else if (f->nan_all_ones)
        largest = mag_mask - 1;
    unsigned nan_bits, over_bits;
    if (f->nan_is_neg_zero)
        nan_bits = 1u << mag_bits;
    else if (f->nan_all_ones)
        nan_bits = sign | mag_mask;
    else if (f->has_inf)
        nan_bits = sign | exp_max << f->man_bits | (1u << f->man_bits >> 1);
    else
        nan_bits = 1u << mag_bits; /* no NaN at all: negative zero */
    over_bits = f->has_inf ? sign | exp_max << f->man_bits : f->has_nan ? nan_bits : sign | largest;

    if (isnan(v))
        return (uint16_t)nan_bits;
    if (isinf(v))
        return (uint16_t)(!f->has_sign && v < 0 ? nan_bits : over_bits);
    if (!f->has_sign && v < 0)
        return (uint16_t)nan_bits;
    double a = fabs(v);
    if (a == 0)
        return (uint16_t)(f->no_zero || f->nan_is_neg_zero ? 0 : sign);
    int e;
    (void)frexp(a, &e);
    e--; /* a = 1.x * 2^e */
    if (f->no_zero) {
        int lo = -f->bias;
        double scaled = rint(a / ldexp(1.0, e)); /* 1 or 2, ties to even: the lowest bit of "1" is the exponent's */
        double m = a / ldexp(1.0, e);
        unsigned code = e < lo ? 0 : (unsigned)(e - lo);
        if (e >= lo && m != 1.5 && scaled == 2)
            code++;
        else if (e >= lo && m == 1.5)
            code += code & 1u;
        return (uint16_t)(code > largest ? nan_bits : code);
    }
    int emin = 1 - f->bias;
    int quantum = (e < emin ? emin : e) - f->man_bits;
    /* The quotient has at most man_bits + 2 integer bits, so it and its rounding are exact. rint: nearest, ties to even. */
    double q = rint(ldexp(a, -quantum));
    unsigned code;
    if (e < emin)
        code = (unsigned)q; /* may round up into the first normal: same code */
    else
        code = (unsigned)((unsigned)(e - emin) << f->man_bits) + (unsigned)q;
    if (e - emin > (int)exp_max + 1 || code > largest)
        return (uint16_t)over_bits;
    if (code == 0 && f->nan_is_neg_zero)
        return 0;
    return (uint16_t)(sign | code);
}

double nf_elem_to_double(enum nf_dtype t, const void *elem)
{
    uint8_t u8;
    int8_t s8;
    uint16_t u16;
    int16_t s16;
    uint32_t u32;
    int32_t s32;
    uint64_t u64;
    int64_t s64;
    float f;
    double d;
    switch (t) {
    case NF_DT_PRED: case NF_DT_U2: case NF_DT_U4: case NF_DT_U8:
        memcpy(&u8, elem, 1);
        return u8;
    case NF_DT_S2: case NF_DT_S4: case NF_DT_S8:
        memcpy(&s8, elem, 1);
        return s8;
    case NF_DT_S16:
        memcpy(&s16, elem, 2);
        return s16;
    case NF_DT_U16:
        memcpy(&u16, elem, 2);
        return u16;
    case NF_DT_S32:
        memcpy(&s32, elem, 4);
        return s32;
    case NF_DT_U32:
        memcpy(&u32, elem, 4);
        return u32;
    case NF_DT_S64:
        memcpy(&s64, elem, 8);
        return (double)s64;
    case NF_DT_U64:
        memcpy(&u64, elem, 8);
        return (double)u64;
    case NF_DT_F32: case NF_DT_C64:
        memcpy(&f, elem, 4);
        return (double)f;
    case NF_DT_F64: case NF_DT_C128:
        memcpy(&d, elem, 8);
        return d;
    case NF_DT_BF16: case NF_DT_F16:
        memcpy(&u16, elem, 2);
        return nf_small_to_double(t, u16);
    case NF_DT_F4E2M1FN: case NF_DT_F6E2M3FN: case NF_DT_F6E3M2FN: case NF_DT_F8E3M4: case NF_DT_F8E4M3: case NF_DT_F8E4M3FN:
    case NF_DT_F8E4M3FNUZ: case NF_DT_F8E4M3B11: case NF_DT_F8E5M2: case NF_DT_F8E5M2FNUZ: case NF_DT_F8E8M0FNU:
        memcpy(&u8, elem, 1);
        return nf_small_to_double(t, u8);
    case NF_DT_NONE: case NF_DT_MAX:
        break;
    }
    return 0;
}
