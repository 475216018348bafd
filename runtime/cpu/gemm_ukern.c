/* gemm_ukern.c: the register-blocked inner kernels, in C with vector types; compiled once for each instruction set with
 *     UK_ISA    suffix of the table's name
 *     UK_BYTES  bytes of a vector
 *     UK_MR     rows of a tile; a tile is UK_MR rows of two vectors, all of it in registers */
#include "runtime/cpu/gemm.h"

#define UK_STR2(x) #x
#define UK_STR(x) UK_STR2(x)
#define UK_CAT2(a, b) a##b
#define UK_CAT(a, b) UK_CAT2(a, b)

#define TILE(type, name)                                                                                                        \
    typedef type name##_vec __attribute__((vector_size(UK_BYTES), aligned(sizeof(type)), may_alias));                             \
    enum { name##_lanes = UK_BYTES / sizeof(type) };                                                                            \
    static inline __attribute__((always_inline)) void name##_tile(const int rows, int64_t k, const type *a, const type *b, int64_t ldb, \
                                                                  type *c, int64_t ldc, int accumulate)                         \
    {                                                                                                                           \
        name##_vec acc[UK_MR][2];                                                                                                \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                                                 \
        {                                                                                                                       \
            acc[i][0] = acc[i][1] = (name##_vec){0};                                                                             \
            __builtin_prefetch(c + i * ldc, 1);                                                                                 \
            __builtin_prefetch(c + i * ldc + 2 * name##_lanes - 1, 1);                                                           \
        }                                                                                                                       \
        for (; k > 0; k--) {                                                                                                    \
            name##_vec b0 = *(const name##_vec *)(const void *)b, b1 = *(const name##_vec *)(const void *)(b + name##_lanes);    \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                                             \
            {                                                                                                                   \
                name##_vec s = a[i] - (name##_vec){0};                                                                           \
                acc[i][0] += s * b0;                                                                                            \
                acc[i][1] += s * b1;                                                                                            \
            }                                                                                                                   \
            a += rows;                                                                                                          \
            b += ldb;                                                                                                           \
        }                                                                                                                       \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                                                 \
        {                                                                                                                       \
            name##_vec *p = (name##_vec *)(void *)(c + i * ldc), *q = (name##_vec *)(void *)(c + i * ldc + name##_lanes);         \
            if (accumulate) {                                                                                                   \
                acc[i][0] += *p;                                                                                                \
                acc[i][1] += *q;                                                                                                \
            }                                                                                                                   \
            *p = acc[i][0];                                                                                                     \
            *q = acc[i][1];                                                                                                     \
        }                                                                                                                       \
    }                                                                                                                           \
    static void name(int rows, int64_t k, const type *a, const type *b, int64_t ldb, type *c, int64_t ldc, int accumulate)      \
    {                                                                                                                           \
        switch (rows) {                                                                                                         \
        case 1: name##_tile(1, k, a, b, ldb, c, ldc, accumulate); break;                                                        \
        case 2: name##_tile(2, k, a, b, ldb, c, ldc, accumulate); break;                                                        \
        case 3: name##_tile(3, k, a, b, ldb, c, ldc, accumulate); break;                                                        \
        case 4: name##_tile(4, k, a, b, ldb, c, ldc, accumulate); break;                                                        \
        case 5: name##_tile(5, k, a, b, ldb, c, ldc, accumulate); break;                                                        \
        default: name##_tile(UK_MR, k, a, b, ldb, c, ldc, accumulate); break;                                                   \
        }                                                                                                                       \
    }

TILE(float, f32)
TILE(double, f64)

const struct gemm_kernels UK_CAT(gemm_kernels_, UK_ISA) = {UK_STR(UK_ISA), UK_MR, 2 * f32_lanes, 2 * f64_lanes, f32, f64};
