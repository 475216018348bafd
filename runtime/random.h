/* random.h: the generator behind stablehlo.rng, for every device that runs it here: philox4x32 with 10 rounds.
 *
 * A sequence belongs to a seed, and each of its numbers depends on the seed and its place alone, so parts of it may be made in any
 * order and on any thread. Storing a number as an element of its type, rounded to the nearest, is the caller's. */
#ifndef NEFFD_RUNTIME_RANDOM_H
#define NEFFD_RUNTIME_RANDOM_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* One block: 128 random bits of a key and a counter of two words. */
static inline void rt_philox(uint64_t key, uint64_t low, uint64_t high, uint32_t ret_words[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t s0 = (uint32_t)low, s1 = (uint32_t)(low >> 32), s2 = (uint32_t)high, s3 = (uint32_t)(high >> 32);
    for (int i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        uint64_t p0 = (uint64_t)s0 * 0xD2511F53u, p1 = (uint64_t)s2 * 0xCD9E8D57u;
        s0 = (uint32_t)(p1 >> 32) ^ s1 ^ k0;
        s2 = (uint32_t)(p0 >> 32) ^ s3 ^ k1;
        s1 = (uint32_t)p1;
        s3 = (uint32_t)p0;
    }
    ret_words[0] = s0;
    ret_words[1] = s1;
    ret_words[2] = s2;
    ret_words[3] = s3;
}

/* The seed of draw number `draw` (from 0) in an execution by process `process` of its grid, which counts its own draws. */
static inline uint64_t rt_random_seed(uint64_t draw, uint32_t process) { return draw + ((uint64_t)process << 48); }

/* Numbers first .. first + n - 1. normal: a is the mean, b the deviation; else uniform from a to below b, as elements of float type t too, of which
 * a and b are (a everywhere where b is not above it). */
void rt_random_floats(uint64_t seed, bool normal, enum nf_dtype t, double a, double b, int64_t first, int64_t n, double *ret);
/* The same of integers, uniform from low to below high; low everywhere where high is not above it. */
void rt_random_ints(uint64_t seed, int64_t low, int64_t high, int64_t first, int64_t n, uint64_t *ret);

#endif
