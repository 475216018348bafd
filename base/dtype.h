/* dtype.h: element types of arrays in memory (dtype.def) and conversions of the small floats.
 *
 * Memory form: little-endian, row-major where it is an array; types under 8 bits take one byte an element. Booleans are 0 or 1. */
#ifndef NEFFD_BASE_DTYPE_H
#define NEFFD_BASE_DTYPE_H

#include "base/str.h"

enum nf_dtype {
    NF_DT_NONE, /* a value without elements (token) */
#define DTYPE(sym, name, bits, bytes, cls, npy) NF_DT_##sym,
#include "base/dtype.def"
#undef DTYPE
    NF_DT_MAX,
};

enum nf_dtype_class { NF_DTC_NONE, NF_DTC_BOOL, NF_DTC_SINT, NF_DTC_UINT, NF_DTC_FLOAT, NF_DTC_COMPLEX, NF_DTC_MAX };

const char *nf_dtype_name(enum nf_dtype t);           /* "f32"; "none" for NF_DT_NONE */
enum nf_dtype nf_dtype_from_name(struct nf_str name); /* NF_DT_NONE if unknown; also takes "index" (i64) and "si8" spellings */
unsigned nf_dtype_bits(enum nf_dtype t);
size_t nf_dtype_bytes(enum nf_dtype t);               /* of one element in memory; 0 for NF_DT_NONE */
enum nf_dtype_class nf_dtype_class(enum nf_dtype t);
const char *nf_dtype_npy(enum nf_dtype t);            /* NumPy's descr */
static inline bool nf_dtype_is_int(enum nf_dtype t) { return nf_dtype_class(t) == NF_DTC_SINT || nf_dtype_class(t) == NF_DTC_UINT; }
static inline bool nf_dtype_is_float(enum nf_dtype t) { return nf_dtype_class(t) == NF_DTC_FLOAT; }
static inline bool nf_dtype_is_complex(enum nf_dtype t) { return nf_dtype_class(t) == NF_DTC_COMPLEX; }
enum nf_dtype nf_dtype_part(enum nf_dtype t);         /* complex: type of its parts; else t itself */

/* Layout of a float type of at most 16 bits. Where a type has no infinity an overflow gives NaN; where it has neither, the
 * largest finite value, and NaN gives negative zero. */
struct nf_float_format {
    uint8_t exp_bits, man_bits;
    int16_t bias;
    bool has_sign, has_inf, has_nan;
    bool nan_is_neg_zero; /* ...FNUZ: the only NaN stands where -0 would, and -0 does not exist */
    bool nan_all_ones;    /* ...FN: the only NaN of a sign is all ones */
    bool no_zero;         /* E8M0: a bare exponent; no zero, no subnormals */
};
const struct nf_float_format *nf_dtype_float_format(enum nf_dtype t); /* NULL for f32, f64 and what is not a float */

/* A float type of at most 16 bits to and from double; rounds to nearest, ties to even, once. */
double nf_small_to_double(enum nf_dtype t, uint16_t bits);
uint16_t nf_small_from_double(enum nf_dtype t, double v);

/* The two that loops need fast. */
static inline float nf_bf16_to_float(uint16_t b)
{
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t nf_bf16_from_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float nf_f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu, u;
    float f;
    if (rest >= 0x7c00u) {
        u = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
        memcpy(&f, &u, 4);
        return f;
    }
    u = rest << 13; /* exponent off by 112: multiplying by 2^112 also normalises subnormals */
    memcpy(&f, &u, 4);
    f *= 0x1p112f;
    memcpy(&u, &f, 4);
    u |= sign;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t nf_f16_from_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = (u >> 16) & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((mag >> 13) & 0x3ffu));
    if (mag >= 0x477ff000u) /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (mag < 0x38800000u) { /* subnormal: adding 0.5 puts the rounding position at bit 0 */
        float m;
        memcpy(&m, &mag, 4);
        m += 0.5f;
        memcpy(&mag, &m, 4);
        return (uint16_t)(sign | (mag - 0x3f000000u));
    }
    mag += 0xfffu + ((mag >> 13) & 1u) - 0x38000000u; /* rebias, round to even */
    return (uint16_t)(sign | mag >> 13);
}

/* One element, by type, as a double (complex: its real part; 64-bit integers round). For tools, not for loops. */
double nf_elem_to_double(enum nf_dtype t, const void *elem);

#endif
