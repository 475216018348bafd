/* gemm.c: packing and blocking around the inner kernels; see gemm.h. */
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/plan.h"

#include <pthread.h>
#include <stdatomic.h>

static const struct gemm_kernels *kernels(void)
{
    static _Atomic(const struct gemm_kernels *) chosen;
    const struct gemm_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (k) return k;
    k = &gemm_kernels_portable;
#if defined(__x86_64__)
    uint64_t f = cpu_features();
    if ((f & CPU_FEATURE_AVX2) && (f & CPU_FEATURE_FMA)) k = &gemm_kernels_avx2;
    if (f & CPU_FEATURE_AVX512) k = &gemm_kernels_avx512;
#endif
    atomic_store_explicit(&chosen, k, memory_order_relaxed);
    return k;
}

const char *gemm_isa(void) { return kernels()->isa; }

enum { MC = 144, TILE_BYTES = GEMM_MR_MAX * GEMM_NR_MAX * 8 };

/* A panel block, a B block, one tile, and the rows of a narrower operand on their way to f32. */
size_t gemm_scratch(void) { return (size_t)(MC + GEMM_MR_MAX) * GEMM_KC * 8 + (size_t)(GEMM_NC + GEMM_NR_MAX) * GEMM_KC * 8 + TILE_BYTES + 256; }

void gemm_block(const struct gemm *g, int threads, int64_t *ret_rows, int64_t *ret_cols)
{
    const struct gemm_kernels *k = kernels();
    int64_t mr = k->mr, nr = g->c_type == CPU_F32 ? k->nr32 : k->nr64;
    /* Tall blocks: what is packed of B serves all rows of a block. */
    int64_t rows = NF_MIN(g->m, (int64_t)8 * MC / mr * mr), cols = NF_MIN(g->n, (int64_t)GEMM_NC);
    /* Enough tasks for every thread, but none so small that packing shows. */
    while (threads > 1 && ((g->m + rows - 1) / rows) * ((g->n + cols - 1) / cols) < 2 * threads && rows * cols * g->k > 1 << 20) {
        if (cols >= rows && cols >= 2 * nr) cols = (cols / 2 + nr - 1) / nr * nr;
        else if (rows >= 2 * mr) rows = (rows / 2 + mr - 1) / mr * mr;
        else break;
    }
    *ret_rows = rows < 1 ? 1 : rows;
    *ret_cols = cols < 1 ? 1 : cols;
}

/* Is off[0..n) an arithmetic progression of step 1? */
static bool contiguous(const int64_t *off, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (off[i] != off[0] + i) return false;
    return true;
}

static inline float load_f32(enum cpu_dt t, const void *p, int64_t i)
{
    float f;
    cpu_to_f32(t, (const char *)p + i * (int64_t)cpu_dt_bytes(t), &f, 1);
    return f;
}
static inline double load_f64(enum cpu_dt t, const void *p, int64_t i)
{
    double d;
    if (t == CPU_F64) memcpy(&d, (const char *)p + i * 8, 8);
    else d = (double)load_f32(t, p, i);
    return d;
}

/* dst[k*width + i] = src[across[i] + along[k]] for i < width, k < kc; columns beyond `real` are zero. */
#define PACK(type, name)                                                                                                    \
    static void name(type *dst, const type *src, const int64_t *across, const int64_t *along, int width, int real, int64_t kc, bool across1, \
                     bool along1)                                                                                           \
    {                                                                                                                       \
        if (across1 && real == width) {                                                                                     \
            const type *from = src + across[0];                                                                             \
            if (width == 64 / (int)sizeof(type))                                                                            \
                for (int64_t k = 0; k < kc; k++) memcpy(dst + k * width, from + along[k], 64);                              \
            else if (width == 128 / (int)sizeof(type))                                                                      \
                for (int64_t k = 0; k < kc; k++) memcpy(dst + k * width, from + along[k], 128);                             \
            else                                                                                                            \
                for (int64_t k = 0; k < kc; k++)                                                                            \
                    for (int i = 0; i < width; i++) dst[k * width + i] = from[along[k] + i];                                \
            return;                                                                                                         \
        }                                                                                                                   \
        if (along1) {                                                                                                       \
            int i = 0;                                                                                                      \
            for (; i + 4 <= real; i += 4) {                                                                                 \
                const type *a = src + across[i] + along[0], *b = src + across[i + 1] + along[0];                            \
                const type *c = src + across[i + 2] + along[0], *d = src + across[i + 3] + along[0];                        \
                for (int64_t k = 0; k < kc; k++) {                                                                          \
                    type *o = dst + k * width + i;                                                                          \
                    o[0] = a[k];                                                                                            \
                    o[1] = b[k];                                                                                            \
                    o[2] = c[k];                                                                                            \
                    o[3] = d[k];                                                                                            \
                }                                                                                                           \
            }                                                                                                               \
            for (; i < real; i++) {                                                                                         \
                const type *a = src + across[i] + along[0];                                                                 \
                for (int64_t k = 0; k < kc; k++) dst[k * width + i] = a[k];                                                 \
            }                                                                                                               \
        } else {                                                                                                            \
            for (int64_t k = 0; k < kc; k++)                                                                                \
                for (int i = 0; i < real; i++) dst[k * width + i] = src[across[i] + along[k]];                              \
        }                                                                                                                   \
        for (int i = real; i < width; i++)                                                                                  \
            for (int64_t k = 0; k < kc; k++) dst[k * width + i] = 0;                                                        \
    }
PACK(float, pack_f32)
PACK(double, pack_f64)

static void pack_any_f32(float *dst, enum cpu_dt t, const void *src, const int64_t *across, const int64_t *along, int width, int real, int64_t kc,
                         bool across1, bool along1)
{
    if (t == CPU_F32) {
        pack_f32(dst, src, across, along, width, real, kc, across1, along1);
        return;
    }
    size_t size = cpu_dt_bytes(t);
    for (int64_t k = 0; k < kc; k++) {
        if (across1) cpu_to_f32(t, (const char *)src + (across[0] + along[k]) * (int64_t)size, dst + k * width, (size_t)real);
        else
            for (int i = 0; i < real; i++) dst[k * width + i] = load_f32(t, src, across[i] + along[k]);
        for (int i = real; i < width; i++) dst[k * width + i] = 0;
    }
}
static void pack_any_f64(double *dst, enum cpu_dt t, const void *src, const int64_t *across, const int64_t *along, int width, int real, int64_t kc,
                         bool across1, bool along1)
{
    if (t == CPU_F64) {
        pack_f64(dst, src, across, along, width, real, kc, across1, along1);
        return;
    }
    for (int64_t k = 0; k < kc; k++)
        for (int i = 0; i < width; i++) dst[k * width + i] = i < real ? load_f64(t, src, across[i] + along[k]) : 0;
}

/* One block of C. B is read where it lies when few rows use it and its columns are neighbours. */
#define RUN(type, name, dt, field, nr_field)                                                                                          \
    static void name(const struct gemm *g, const struct gemm_kernels *uk, int64_t i0, int64_t i1, int64_t j0, int64_t j1, char *scratch) \
    {                                                                                                                                 \
        const int mr = uk->mr, nr = uk->nr_field;                                                                                     \
        type *pa = (type *)(void *)scratch, *pb = pa + (size_t)(MC + GEMM_MR_MAX) * GEMM_KC;                                          \
        type *tile = pb + (size_t)(GEMM_NC + GEMM_NR_MAX) * GEMM_KC;                                                                  \
        const bool c_flat = contiguous(g->cn + j0, j1 - j0), c_rows = i1 - i0 > 1 && c_flat;                                            \
        const bool bn1 = contiguous(g->bn + j0, j1 - j0), am1 = contiguous(g->am + i0, i1 - i0);                                       \
        type *c = g->c;                                                                                                               \
        (void)c_rows;                                                                                                                 \
        for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += GEMM_KC) {                                                                   \
            int64_t kc = NF_MIN(g->k - k0, (int64_t)GEMM_KC);                                                                         \
            const bool ak1 = contiguous(g->ak + k0, kc), bk1 = contiguous(g->bk + k0, kc);                                             \
            int64_t step = kc > 1 ? g->bk[k0 + 1] - g->bk[k0] : 0;                                                                    \
            bool in_place = g->b_type == dt && bn1 && i1 - i0 <= 4 * mr && step >= 0;                                                  \
            for (int64_t k = 2; in_place && k < kc; k++) in_place = g->bk[k0 + k] - g->bk[k0 + k - 1] == step;                        \
            for (int64_t ib = i0; ib < i1; ib += MC) {                                                                                \
                int64_t ie = NF_MIN(ib + MC, i1);                                                                                     \
                for (int64_t i = ib; i < ie; i += mr) {                                                                               \
                    int rows = (int)NF_MIN(ie - i, (int64_t)mr);                                                                      \
                    if (rows > 5 && rows < mr) rows = mr; /* zero rows: the kernels have 1 to 5 and all */                            \
                    pack_any_##field(pa + (i - ib) * kc, g->a_type, g->a, g->am + i, g->ak + k0, rows, (int)NF_MIN(ie - i, (int64_t)rows), kc, am1, ak1); \
                }                                                                                                                     \
                for (int64_t jb = j0; jb < j1; jb += GEMM_NC) {                                                                       \
                    int64_t je = NF_MIN(jb + GEMM_NC, j1);                                                                            \
                    if (ib == i0 || j1 - j0 > GEMM_NC)                                                                                \
                        for (int64_t j = jb; j < je; j += nr)                                                                         \
                            if (!in_place || je - j < nr)                                                                             \
                                pack_any_##field(pb + (j - jb) * kc, g->b_type, g->b, g->bn + j, g->bk + k0, nr, (int)NF_MIN(je - j, (int64_t)nr), kc, bn1, bk1); \
                    for (int64_t j = jb; j < je; j += nr) {                                                                           \
                        int cols = (int)NF_MIN(je - j, (int64_t)nr);                                                                  \
                        const bool direct_b = in_place && cols == nr;                                                                 \
                        const type *b = direct_b ? (const type *)g->b + g->bn[j] + g->bk[k0] : pb + (j - jb) * kc;                     \
                        int64_t ldb = direct_b ? step : nr;                                                                           \
                        for (int64_t i = ib; i < ie; i += mr) {                                                                       \
                            int real = (int)NF_MIN(ie - i, (int64_t)mr), rows = real > 5 ? mr : real;                                 \
                            const type *a = pa + (i - ib) * kc;                                                                       \
                            int64_t ldc = real > 1 ? g->cm[i + 1] - g->cm[i] : 0;                                                     \
                            bool direct = c_flat && cols == nr && rows == real && ldc >= 0;                                           \
                            for (int r = 2; direct && r < real; r++) direct = g->cm[i + r] - g->cm[i + r - 1] == ldc;                 \
                            if (direct) {                                                                                             \
                                uk->field(rows, kc, a, b, ldb, c + g->cm[i] + g->cn[j], ldc, k0 > 0);                                 \
                                continue;                                                                                             \
                            }                                                                                                         \
                            uk->field(rows, kc, a, b, ldb, tile, nr, 0);                                                              \
                            for (int r = 0; r < real; r++)                                                                            \
                                for (int q = 0; q < cols; q++) {                                                                      \
                                    type *to = c + g->cm[i + r] + g->cn[j + q];                                                       \
                                    *to = k0 > 0 ? *to + tile[r * nr + q] : tile[r * nr + q];                                         \
                                }                                                                                                     \
                        }                                                                                                             \
                    }                                                                                                                 \
                }                                                                                                                     \
            }                                                                                                                         \
        }                                                                                                                             \
    }
RUN(float, run_f32, CPU_F32, f32, nr32)
RUN(double, run_f64, CPU_F64, f64, nr64)

void gemm_run(const struct gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *scratch)
{
    char *s = (char *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    if (i0 >= i1 || j0 >= j1) return;
    if (g->c_type == CPU_F32) run_f32(g, kernels(), i0, i1, j0, j1, s);
    else run_f64(g, kernels(), i0, i1, j0, j1, s);
}
