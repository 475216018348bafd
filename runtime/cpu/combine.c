/* combine.c: the named reducers (sum, product, extremes, logic) on arrays, typed. */
#include "runtime/cpu/steps.h"

#include <math.h>

struct cpu_num cpu_combine_one(enum cpu_dt t, int kind, struct cpu_num a, struct cpu_num b)
{
    static const uint16_t op[RP_RED_MAX] = {RP_ADD, RP_MUL, RP_MAX, RP_MIN, RP_AND, RP_OR, RP_XOR};
    struct rp_ins s = {.op = op[kind], .dt = (uint8_t)t};
    return rp_eval(&s, (enum cpu_dt[]){t, t}, (struct cpu_num[]){a, b});
}

/* NaN wins, and +0 is above -0, as StableHLO's maximum and minimum want. */
#define FMAX(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) > (b) ? (a) : (b) > (a) ? (b) : signbit(a) ? (b) : (a))
#define FMIN(a, b) ((a) != (a) ? (a) : (b) != (b) ? (b) : (a) < (b) ? (a) : (b) < (a) ? (b) : signbit(a) ? (a) : (b))
/* The same for floats without branches, which compilers make vectors of: equal numbers differ in the sign of a zero at most. */
#define EXTREME32(name, better, join)                             \
    static inline float name(float a, float b)                    \
    {                                                             \
        uint32_t x, y;                                            \
        float m = a better b ? a : b, same;                       \
        memcpy(&x, &a, 4);                                        \
        memcpy(&y, &b, 4);                                        \
        x = x join y;                                             \
        memcpy(&same, &x, 4);                                     \
        m = a == b ? same : m;                                    \
        m = b != b ? b : m;                                       \
        return a != a ? a : m;                                    \
    }
EXTREME32(max32, >, &)
EXTREME32(min32, <, |)
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define IMAX(a, b) ((a) > (b) ? (a) : (b))
#define IMIN(a, b) ((a) < (b) ? (a) : (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))

#define LOOP(type, f)                                                                                                     \
    do {                                                                                                                  \
        type *p = acc;                                                                                                    \
        const type *q = x;                                                                                                \
        if (step == 1)                                                                                                    \
            for (int64_t i = 0; i < n; i++) p[i] = (type)(f(p[i], q[i]));                                                 \
        else                                                                                                              \
            for (int64_t i = 0; i < n; i++) p[i] = (type)(f(p[i], q[i * step]));                                          \
        return;                                                                                                           \
    } while (0)

#define FLOATS(type, max, min)                    \
    switch (kind) {                               \
    case RP_SUM: LOOP(type, ADD);                 \
    case RP_PROD: LOOP(type, MUL);                \
    case RP_RMAX: LOOP(type, max);                \
    case RP_RMIN: LOOP(type, min);                \
    default: break;                               \
    }                                             \
    break

/* Sums and products wrap, so they are done in the unsigned type. */
#define INTS(type, wide)                          \
    switch (kind) {                               \
    case RP_SUM: LOOP(wide, ADD);                 \
    case RP_PROD: LOOP(wide, MUL);                \
    case RP_RMAX: LOOP(type, IMAX);               \
    case RP_RMIN: LOOP(type, IMIN);               \
    case RP_ALL: LOOP(wide, AND);                 \
    case RP_ANY: LOOP(wide, OR);                  \
    case RP_PARITY: LOOP(wide, XOR);              \
    default: break;                               \
    }                                             \
    break

void cpu_combine(enum cpu_dt t, int kind, void *acc, const void *x, int64_t n, int64_t step)
{
    size_t size = cpu_dt_bytes(t);
    switch ((int)t) {
    case CPU_F32: FLOATS(float, max32, min32);
    case CPU_F64: FLOATS(double, FMAX, FMIN);
    case CPU_S32: INTS(int32_t, uint32_t);
    case CPU_U32: INTS(uint32_t, uint32_t);
    case CPU_S64: INTS(int64_t, uint64_t);
    case CPU_U64: INTS(uint64_t, uint64_t);
    default: break;
    }
    for (int64_t i = 0; i < n; i++) {
        char *p = (char *)acc + i * (int64_t)size;
        cpu_num_store(t, p, cpu_combine_one(t, kind, cpu_num_load(t, p), cpu_num_load(t, (const char *)x + i * step * (int64_t)size)));
    }
}
