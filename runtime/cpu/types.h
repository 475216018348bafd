/* types.h: element types of the cpu device and their conversions to what registers hold.
 *
 * A register class is what arithmetic is done in: small floats (bf16, f16, the fp8 kinds) are storage and compute in f32
 * with one rounding per operation; integers of every width are kept as int64 normalised to their type. */
#ifndef NEFFD_RUNTIME_CPU_TYPES_H
#define NEFFD_RUNTIME_CPU_TYPES_H

#include "base/dtype.h"

#include <stdint.h>

enum cpu_dt {
#define CPU_DT(sym, name, bytes, bits, cls, sgn) CPU_##sym,
#include "runtime/cpu/types.def"
#undef CPU_DT
    CPU_DT_MAX
};

enum cpu_class { CPU_CLASS_PRED, CPU_CLASS_INT, CPU_CLASS_F32, CPU_CLASS_F64, CPU_CLASS_C64, CPU_CLASS_C128 };

struct cpu_dt_info {
    const char *name;
    uint8_t bytes, bits, cls, is_signed;
};
extern const struct cpu_dt_info cpu_dt_info[CPU_DT_MAX];

static inline size_t cpu_dt_bytes(enum cpu_dt t) { return cpu_dt_info[t].bytes; }
static inline bool cpu_dt_complex(enum cpu_dt t) { return t >= CPU_C64; }
static inline bool cpu_dt_float(enum cpu_dt t) { return t >= CPU_F4E2M1FN && t <= CPU_F64; }
static inline bool cpu_dt_int(enum cpu_dt t) { return t > CPU_PRED && t <= CPU_U64; }
/* A float narrower than f32: stored, computed in f32, rounded. */
static inline bool cpu_dt_small(enum cpu_dt t) { return t >= CPU_F4E2M1FN && t < CPU_F32; }
static inline enum nf_dtype cpu_dt_base(enum cpu_dt t) { return (enum nf_dtype)(t + 1); }
static inline enum cpu_dt cpu_dt_of(enum nf_dtype t) { return t == NF_DT_NONE ? CPU_DT_MAX : (enum cpu_dt)(t - 1); }
/* The type with this StableHLO spelling, or CPU_DT_MAX. */
enum cpu_dt cpu_dt_find(struct nf_str name);

/* A number of any type, wide enough for each class. */
struct cpu_num {
    double re, im;  /* floats and complex; f32 values are exact in a double */
    int64_t i;      /* pred and integers, normalised: zero- or sign-extended from the type's bits */
};
struct cpu_num cpu_num_load(enum cpu_dt t, const void *p);
void cpu_num_store(enum cpu_dt t, void *p, struct cpu_num v);    /* rounds to nearest even, integers keep their low bits */
/* StableHLO's convert: float to integer truncates and saturates with NaN to 0, anything to i1 is "not zero". */
struct cpu_num cpu_num_convert(enum cpu_dt from, enum cpu_dt to, struct cpu_num v);

/* Low bits of x as a value of integer type t. */
int64_t cpu_int_wrap(enum cpu_dt t, int64_t x);

float cpu_small_decode(enum cpu_dt t, uint32_t bits);            /* exact */
uint32_t cpu_small_encode(enum cpu_dt t, double x);              /* one rounding, to nearest even */
/* n elements between memory of a float type (up to f32) and f32. */
void cpu_to_f32(enum cpu_dt t, const void *src, float *dst, size_t n);
void cpu_from_f32(enum cpu_dt t, const float *src, void *dst, size_t n);

#endif
