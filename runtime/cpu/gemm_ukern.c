/* gemm_ukern.c: the register-blocked inner kernels, in C with vector types; compiled once for each instruction set with
 *     UK_ISA    suffix of the table's name
 *     UK_BYTES  bytes of a vector
 *     UK_MR     rows of a tile (6 or 14); a tile is UK_MR rows of two vectors, all of it in registers. There is a form for each number of rows
 * and the packing of f32 operands beside them, which is moving vectors too. */
#include "runtime/cpu/gemm.h"

#define UK_STR2(x) #x
#define UK_STR(x) UK_STR2(x)
#define UK_CAT2(a, b) a##b
#define UK_CAT(a, b) UK_CAT2(a, b)

_Static_assert(UK_MR == 6 || UK_MR == 14, "EVERY_HEIGHT has these");
/* The kernel of `rows` rows; what the optimiser knows as a constant is unrolled. */
#if UK_MR > 6
#define TALLER(call, ...)                  \
    case 6: call(6, __VA_ARGS__); break;   \
    case 7: call(7, __VA_ARGS__); break;   \
    case 8: call(8, __VA_ARGS__); break;   \
    case 9: call(9, __VA_ARGS__); break;   \
    case 10: call(10, __VA_ARGS__); break; \
    case 11: call(11, __VA_ARGS__); break; \
    case 12: call(12, __VA_ARGS__); break; \
    case 13: call(13, __VA_ARGS__); break;
#else
#define TALLER(call, ...)
#endif
#define EVERY_HEIGHT(call, ...)                 \
    switch (rows) {                             \
    case 1: call(1, __VA_ARGS__); break;        \
    case 2: call(2, __VA_ARGS__); break;        \
    case 3: call(3, __VA_ARGS__); break;        \
    case 4: call(4, __VA_ARGS__); break;        \
    case 5: call(5, __VA_ARGS__); break;        \
    TALLER(call, __VA_ARGS__)                   \
    default: call(UK_MR, __VA_ARGS__); break;   \
    }

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
            __builtin_prefetch(a + rows * GEMM_KC); /* the panel after this one */                                              \
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
        EVERY_HEIGHT(name##_tile, k, a, b, ldb, c, ldc, accumulate)                                                             \
    }

TILE(float, f32)
TILE(double, f64)
TILE(uint32_t, u32)
TILE(uint64_t, u64)

/* ------------------------------------------------------------------------------------------- f32, A where it lies */

/* What a tile begins and ends with, as above. */
static inline __attribute__((always_inline)) void begin(const int rows, f32_vec acc[UK_MR][2], const float *c, int64_t ldc)
{
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    {
        acc[i][0] = acc[i][1] = (f32_vec){0};
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + 2 * f32_lanes - 1, 1);
    }
}

static inline __attribute__((always_inline)) void finish(const int rows, f32_vec acc[UK_MR][2], float *c, int64_t ldc, int accumulate)
{
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    {
        f32_vec *p = (f32_vec *)(void *)(c + i * ldc), *q = (f32_vec *)(void *)(c + i * ldc + f32_lanes);
        if (accumulate) {
            acc[i][0] += *p;
            acc[i][1] += *q;
        }
        *p = acc[i][0];
        *q = acc[i][1];
    }
}

static inline __attribute__((always_inline)) void rows_tile(const int rows, const float *const *row, const struct gemm_runs *runs, const float *b,
                                                            float *c, int64_t ldc, int accumulate)
{
    f32_vec acc[UK_MR][2];
    begin(rows, acc, c, ldc);
    for (int r = 0; r < runs->n; r++) {
        const float *a[UK_MR];
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) a[i] = row[i] + runs->offset[r];
        for (int64_t k = 0, n = runs->length[r]; k < n; k++) {
            f32_vec b0 = *(const f32_vec *)(const void *)b, b1 = *(const f32_vec *)(const void *)(b + f32_lanes);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            {
                f32_vec s = a[i][k] - (f32_vec){0};
                acc[i][0] += s * b0;
                acc[i][1] += s * b1;
            }
            b += 2 * f32_lanes;
        }
    }
    finish(rows, acc, c, ldc, accumulate);
}

static inline __attribute__((always_inline)) void cols_tile(const int rows, const float *a, const int64_t *along, int64_t kc, const float *b,
                                                            float *c, int64_t ldc, int accumulate)
{
    f32_vec acc[UK_MR][2];
    begin(rows, acc, c, ldc);
    for (int64_t k = 0; k < kc; k++) {
        const float *at = a + along[k];
        f32_vec b0 = *(const f32_vec *)(const void *)b, b1 = *(const f32_vec *)(const void *)(b + f32_lanes);
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        {
            f32_vec s = at[i] - (f32_vec){0};
            acc[i][0] += s * b0;
            acc[i][1] += s * b1;
        }
        b += 2 * f32_lanes;
    }
    finish(rows, acc, c, ldc, accumulate);
}

static void by_rows(int rows, const float *const *row, const struct gemm_runs *runs, const float *b, float *c, int64_t ldc, int accumulate)
{
    EVERY_HEIGHT(rows_tile, row, runs, b, c, ldc, accumulate)
}
static void by_cols(int rows, const float *a, const int64_t *along, int64_t kc, const float *b, float *c, int64_t ldc, int accumulate)
{
    EVERY_HEIGHT(cols_tile, a, along, kc, b, c, ldc, accumulate)
}

/* A few columns: a vector is a stretch of k, and lanes are added at the end. */
static inline __attribute__((always_inline)) void narrow_tile(const int rows, const int cols, const float *const *row, const struct gemm_runs *runs,
                                                              const float *b, float *sum)
{
    f32_vec acc[GEMM_NARROW_ROWS_MAX][GEMM_NARROW_COLS] = {0};
    float rest[GEMM_NARROW_ROWS_MAX][GEMM_NARROW_COLS] = {0};
    for (int r = 0; r < runs->n; r++) {
        const float *a[GEMM_NARROW_ROWS_MAX];
        int64_t k = 0, n = runs->length[r];
        _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++) a[i] = row[i] + runs->offset[r];
        for (; k + f32_lanes <= n; k += f32_lanes) {
            f32_vec bk[GEMM_NARROW_COLS];
            _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) bk[j] = *(const f32_vec *)(const void *)(b + j * GEMM_KC + k);
            _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)
            {
                f32_vec ak = *(const f32_vec *)(const void *)(a[i] + k);
                _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++) acc[i][j] += ak * bk[j];
            }
        }
        for (; k < n; k++)
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < cols; j++) rest[i][j] += a[i][k] * b[j * GEMM_KC + k];
        b += n;
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4") for (int j = 0; j < cols; j++)
        {
            float lane[f32_lanes];
            memcpy(lane, &acc[i][j], sizeof lane);
            _Pragma("GCC unroll 4") for (int half = f32_lanes / 2; half; half /= 2)
                _Pragma("GCC unroll 8") for (int l = 0; l < half; l++) lane[l] += lane[l + half];
            sum[i * cols + j] = lane[0] + rest[i][j];
        }
}
static void narrow(int cols, const float *const *row, const struct gemm_runs *runs, const float *b, float *sum)
{
    if (cols == 1) narrow_tile(8, 1, row, runs, b, sum);
    else if (cols == 2) narrow_tile(6, 2, row, runs, b, sum);
    else narrow_tile(4, 3, row, runs, b, sum);
}

/* ---------------------------------------------------------------------------------------------------------- packing */

typedef float pack_vec __attribute__((vector_size(32), aligned(4), may_alias));
#define LO(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HI(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LO2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HI2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW_HALVES(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH_HALVES(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

/* r[i][k] -> r[k][i] for 8 x 8 */
static inline __attribute__((always_inline)) void transpose8(pack_vec r[8])
{
    pack_vec t[8], u[8];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
    {
        t[2 * i] = LO(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = HI(r[2 * i], r[2 * i + 1]);
    }
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++)
    {
        u[4 * i] = LO2(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = HI2(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = LO2(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = HI2(t[4 * i + 1], t[4 * i + 3]);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
    {
        r[i] = LOW_HALVES(u[i], u[i + 4]);
        r[i + 4] = HIGH_HALVES(u[i], u[i + 4]);
    }
}

/* dst[k * width + i] = row[i][k]. Groups of eight rows; what a group of fewer writes too much is overwritten by what follows it, up to
 * the last step, which is written singly. */
static inline __attribute__((always_inline)) void transposed(const int width, float *dst, const float *const *row, int64_t kc)
{
    enum { GROUPS = (2 * f32_lanes + 7) / 8 };
    int64_t k = 0;
    for (; k + 9 <= kc; k += 8) {
        pack_vec r[GROUPS][8];
        _Pragma("GCC unroll 4") for (int g = 0; g < (width + 7) / 8; g++)
        {
            _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) r[g][i] = *(const pack_vec *)(const void *)(row[g * 8 + i < width ? g * 8 + i : width - 1] + k);
            transpose8(r[g]);
        }
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
            _Pragma("GCC unroll 4") for (int g = 0; g < (width + 7) / 8; g++) *(pack_vec *)(void *)(dst + (k + i) * width + g * 8) = r[g][i];
    }
    for (; k < kc; k++)
        for (int i = 0; i < width; i++) dst[k * width + i] = row[i][k];
}
static void pack_rows_a(float *dst, const float *const *row, int64_t kc) { transposed(UK_MR, dst, row, kc); }
static void pack_rows_b(float *dst, const float *const *row, int64_t kc) { transposed(2 * f32_lanes, dst, row, kc); }

/* dst[panel][k * width + i] = src[along[k]][panel * width + i]: whole rows of the operand, a few at a time, so that memory is read as it
 * lies. */
static inline __attribute__((always_inline)) void flat(const int width, float *dst, const float *src, const int64_t *along, int64_t n, int64_t kc)
{
    int64_t k = 0, whole = n / width * width;
    for (; k + 4 <= kc; k += 4) {
        const float *s[4] = {src + along[k], src + along[k + 1], src + along[k + 2], src + along[k + 3]};
        for (int64_t j = 0; j < whole; j += width)
            _Pragma("GCC unroll 4") for (int q = 0; q < 4; q++) memcpy(dst + j * kc + (k + q) * width, s[q] + j, (size_t)width * sizeof *dst);
    }
    for (; k < kc; k++)
        for (int64_t j = 0; j < whole; j += width) memcpy(dst + j * kc + k * width, src + along[k] + j, (size_t)width * sizeof *dst);
}
static void pack_flat_a(float *dst, const float *src, const int64_t *along, int64_t n, int64_t kc) { flat(UK_MR, dst, src, along, n, kc); }
static void pack_flat_b(float *dst, const float *src, const int64_t *along, int64_t n, int64_t kc) { flat(2 * f32_lanes, dst, src, along, n, kc); }

const struct gemm_kernels UK_CAT(gemm_kernels_, UK_ISA) = {
    .isa = UK_STR(UK_ISA),
    .mr = UK_MR,
    .nr32 = 2 * f32_lanes,
    .nr64 = 2 * f64_lanes,
    .f32 = f32,
    .f64 = f64,
    .u32 = u32,
    .u64 = u64,
    .f32_rows = by_rows,
    .f32_cols = by_cols,
    .f32_narrow = narrow,
    .pack_rows = {pack_rows_a, pack_rows_b},
    .pack_flat = {pack_flat_a, pack_flat_b},
};
