/* types.c: numbers of any type and their conversions; the small floats' formats are base/dtype's. */
#include "runtime/cpu/types.h"

#include <math.h>

const struct cpu_dt_info cpu_dt_info[CPU_DT_MAX] = {
#define CPU_DT(sym, name, bytes, bits, cls, sgn) {name, bytes, bits, CPU_CLASS_##cls, sgn},
#include "runtime/cpu/types.def"
#undef CPU_DT
};

enum cpu_dt cpu_dt_find(struct nf_str name)
{
    for (int t = 0; t < CPU_DT_MAX; t++)
        if (nf_str_eq_c(name, cpu_dt_info[t].name)) return (enum cpu_dt)t;
    return CPU_DT_MAX;
}

/* The table here and base/dtype.def list the same types in the same order; that one starts with NF_DT_NONE. */
#define CPU_DT(sym, name, bytes, bits, cls, sgn) _Static_assert((int)CPU_##sym + 1 == (int)CPU_BASE_##sym, "types in another order");
#define CPU_BASE_F8E4M3B11FNUZ NF_DT_F8E4M3B11
#define BASE(sym) CPU_BASE_##sym = NF_DT_##sym
enum { BASE(PRED), BASE(S2), BASE(S4), BASE(S8), BASE(S16), BASE(S32), BASE(S64), BASE(U2), BASE(U4), BASE(U8), BASE(U16), BASE(U32), BASE(U64),
       BASE(F4E2M1FN), BASE(F6E2M3FN), BASE(F6E3M2FN), BASE(F8E3M4), BASE(F8E4M3), BASE(F8E4M3FN), BASE(F8E4M3FNUZ), BASE(F8E5M2), BASE(F8E5M2FNUZ),
       BASE(F8E8M0FNU), BASE(BF16), BASE(F16), BASE(F32), BASE(F64), BASE(C64), BASE(C128) };
#include "runtime/cpu/types.def"
#undef CPU_DT

float cpu_small_decode(enum cpu_dt t, uint32_t bits) { return (float)nf_small_to_double(cpu_dt_base(t), (uint16_t)bits); }
uint32_t cpu_small_encode(enum cpu_dt t, double x) { return nf_small_from_double(cpu_dt_base(t), x); }

int64_t cpu_int_wrap(enum cpu_dt t, int64_t x)
{
    int bits = cpu_dt_info[t].bits;
    if (bits >= 64) return x;
    uint64_t u = (uint64_t)x << (64 - bits);
    return cpu_dt_info[t].is_signed ? (int64_t)u >> (64 - bits) : (int64_t)(u >> (64 - bits));
}

static uint64_t load_bits(const void *p, size_t bytes)
{
    uint8_t a;
    uint16_t b;
    uint32_t c;
    uint64_t d;
    switch (bytes) {
    case 1: memcpy(&a, p, 1); return a;
    case 2: memcpy(&b, p, 2); return b;
    case 4: memcpy(&c, p, 4); return c;
    default: memcpy(&d, p, 8); return d;
    }
}

struct cpu_num cpu_num_load(enum cpu_dt t, const void *p)
{
    struct cpu_num v = {0};
    float f[2];
    double d[2];
    switch (cpu_dt_info[t].cls) {
    case CPU_CLASS_PRED: v.i = *(const uint8_t *)p != 0; break;
    case CPU_CLASS_INT: v.i = cpu_int_wrap(t, (int64_t)load_bits(p, cpu_dt_bytes(t))); break;
    case CPU_CLASS_F32:
        if (t == CPU_F32) {
            memcpy(f, p, 4);
            v.re = (double)f[0];
        } else {
            v.re = (double)cpu_small_decode(t, (uint32_t)load_bits(p, cpu_dt_bytes(t)));
        }
        break;
    case CPU_CLASS_F64: memcpy(&v.re, p, 8); break;
    case CPU_CLASS_C64:
        memcpy(f, p, 8);
        v.re = (double)f[0];
        v.im = (double)f[1];
        break;
    default:
        memcpy(d, p, 16);
        v.re = d[0];
        v.im = d[1];
        break;
    }
    return v;
}

void cpu_num_store(enum cpu_dt t, void *p, struct cpu_num v)
{
    float f[2];
    double d[2];
    uint32_t bits;
    switch (cpu_dt_info[t].cls) {
    case CPU_CLASS_PRED: *(uint8_t *)p = v.i != 0; break;
    case CPU_CLASS_INT:
        v.i = cpu_int_wrap(t, v.i);
        if (cpu_dt_info[t].bits < 8) v.i &= 0xff;
        memcpy(p, &v.i, cpu_dt_bytes(t)); /* little-endian */
        break;
    case CPU_CLASS_F32:
        if (t == CPU_F32) {
            f[0] = (float)v.re;
            memcpy(p, f, 4);
        } else {
            bits = cpu_small_encode(t, v.re);
            memcpy(p, &bits, cpu_dt_bytes(t));
        }
        break;
    case CPU_CLASS_F64: memcpy(p, &v.re, 8); break;
    case CPU_CLASS_C64:
        f[0] = (float)v.re;
        f[1] = (float)v.im;
        memcpy(p, f, 8);
        break;
    default:
        d[0] = v.re;
        d[1] = v.im;
        memcpy(p, d, 16);
        break;
    }
}

static int64_t saturate(enum cpu_dt t, double x)
{
    int bits = cpu_dt_info[t].bits, sgn = cpu_dt_info[t].is_signed;
    double top = ldexp(1.0, sgn ? bits - 1 : bits), bottom = sgn ? -top : 0;
    if (isnan(x)) return 0;
    x = trunc(x);
    if (x < bottom) return sgn ? (bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1))) : 0;
    if (x >= top) {
        if (bits == 64) return sgn ? INT64_MAX : -1;
        return sgn ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1;
    }
    return bits == 64 && !sgn ? (int64_t)(uint64_t)x : (int64_t)x;
}

struct cpu_num cpu_num_convert(enum cpu_dt from, enum cpu_dt to, struct cpu_num v)
{
    struct cpu_num r = {0};
    bool integral = from <= CPU_U64;
    double as_double = integral ? (from == CPU_U64 ? (double)(uint64_t)v.i : (double)v.i) : v.re;
    switch (cpu_dt_info[to].cls) {
    case CPU_CLASS_PRED: r.i = integral ? v.i != 0 : v.re != 0; break;
    case CPU_CLASS_INT: r.i = integral ? cpu_int_wrap(to, v.i) : saturate(to, v.re); break;
    case CPU_CLASS_F32:
        /* 64-bit integers go to f32 directly: by way of a double they would round twice. */
        if (to == CPU_F32 && integral) r.re = from == CPU_U64 ? (double)(float)(uint64_t)v.i : (double)(float)v.i;
        else if (to == CPU_F32) r.re = (double)(float)as_double;
        else r.re = (double)cpu_small_decode(to, cpu_small_encode(to, as_double));
        break;
    case CPU_CLASS_F64: r.re = as_double; break;
    case CPU_CLASS_C64:
        r.re = integral && from == CPU_U64 ? (double)(float)(uint64_t)v.i : integral ? (double)(float)v.i : (double)(float)as_double;
        r.im = cpu_dt_complex(from) ? (double)(float)v.im : 0;
        break;
    default:
        r.re = as_double;
        r.im = cpu_dt_complex(from) ? v.im : 0;
        break;
    }
    return r;
}

void cpu_to_f32(enum cpu_dt t, const void *src, float *dst, size_t n)
{
    if (t == CPU_F32) {
        memcpy(dst, src, n * 4);
    } else if (t == CPU_BF16 || t == CPU_F16) {
        for (size_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, (const char *)src + 2 * i, 2);
            dst[i] = t == CPU_BF16 ? nf_bf16_to_float(h) : nf_f16_to_float(h);
        }
    } else {
        size_t size = cpu_dt_bytes(t);
        for (size_t i = 0; i < n; i++) dst[i] = cpu_small_decode(t, (uint32_t)load_bits((const char *)src + i * size, size));
    }
}

void cpu_from_f32(enum cpu_dt t, const float *src, void *dst, size_t n)
{
    if (t == CPU_F32) {
        memcpy(dst, src, n * 4);
    } else if (t == CPU_BF16 || t == CPU_F16) {
        for (size_t i = 0; i < n; i++) {
            uint16_t h = t == CPU_BF16 ? nf_bf16_from_float(src[i]) : nf_f16_from_float(src[i]);
            memcpy((char *)dst + 2 * i, &h, 2);
        }
    } else {
        size_t size = cpu_dt_bytes(t);
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = cpu_small_encode(t, (double)src[i]);
            memcpy((char *)dst + i * size, &bits, size);
        }
    }
}
