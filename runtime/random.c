/* random.c: see random.h. Compiled so that products are not fused with sums: the numbers are the same on every machine. */
#include "runtime/random.h"

#include <math.h>

/* The largest value of a float type below b, which is one of it and not the least. */
static double below(enum nf_dtype t, double b)
{
    const struct nf_float_format *f = nf_dtype_float_format(t);
    if (t == NF_DT_F64) return nextafter(b, -INFINITY);
    if (!f) return (double)nextafterf((float)b, -INFINITY);
    uint16_t bits = nf_small_from_double(t, b), sign = f->has_sign ? (uint16_t)(1u << (nf_dtype_bits(t) - 1)) : 0;
    if (!(bits & (uint16_t)~sign) && sign) return nf_small_to_double(t, sign | 1u); /* from zero to the first below */
    return nf_small_to_double(t, (uint16_t)(bits & sign ? bits + 1 : bits - 1));
}

void rt_random_floats(uint64_t seed, bool normal, enum nf_dtype t, double a, double b, int64_t first, int64_t n, double *ret)
{
    bool range = b > a;
    double top = range ? below(t, b) : a;
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        rt_philox(seed, (uint64_t)(first + i), 0, r);
        uint64_t bits = (uint64_t)r[1] << 32 | r[0], bits2 = (uint64_t)r[3] << 32 | r[2];
        double u = (double)(bits >> 11) * 0x1p-53, v = (double)(bits2 >> 11) * 0x1p-53;
        ret[i] = normal ? a + b * sqrt(-2 * log(1 - u)) * cos(2 * 3.14159265358979323846 * v) : range ? fmin(a + (b - a) * u, top) : a;
    }
}

void rt_random_ints(uint64_t seed, int64_t low, int64_t high, int64_t first, int64_t n, uint64_t *ret)
{
    uint64_t span = (uint64_t)high - (uint64_t)low;
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        rt_philox(seed, (uint64_t)(first + i), 0, r);
        ret[i] = (uint64_t)low + (high > low ? ((uint64_t)r[1] << 32 | r[0]) % span : 0);
    }
}
