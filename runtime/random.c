/* random.c: see random.h. Compiled so that products are not fused with sums: the numbers are the same on every machine. */
#include "runtime/random.h"

#include <math.h>

void rt_random_floats(uint64_t seed, bool normal, double a, double b, int64_t first, int64_t n, double *ret)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        rt_philox(seed, (uint64_t)(first + i), 0, r);
        uint64_t bits = (uint64_t)r[1] << 32 | r[0], bits2 = (uint64_t)r[3] << 32 | r[2];
        double u = (double)(bits >> 11) * 0x1p-53, v = (double)(bits2 >> 11) * 0x1p-53;
        ret[i] = normal ? a + b * sqrt(-2 * log(1 - u)) * cos(2 * 3.14159265358979323846 * v) : fmin(a + (b - a) * u, nextafter(b, a));
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
