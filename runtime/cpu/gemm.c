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

/* MC_MAX: rows of A packed at a time, in whole tiles. NC_ONCE: columns of B packed at a time when a single block of rows uses them: little
 * enough to stay in the second cache. */
enum { MC_MAX = 144, NC_ONCE = 256, TILE_BYTES = GEMM_MR_MAX * GEMM_NR_MAX * 8 };

/* A panel block, a B block, one tile, and the rows of a narrower operand on their way to f32. */
size_t gemm_scratch(void) { return (size_t)(MC_MAX + GEMM_MR_MAX) * GEMM_KC * 8 + (size_t)(GEMM_NC + GEMM_NR_MAX) * GEMM_KC * 8 + TILE_BYTES + 256; }

/* Whole tiles, so that direct_mode judges those that direct_block makes. */
static int block_rows(const struct gemm_kernels *k) { return MC_MAX / k->mr * k->mr; }

void gemm_block(const struct gemm *g, int threads, int64_t *ret_rows, int64_t *ret_cols)
{
    const struct gemm_kernels *k = kernels();
    int64_t mr = k->mr, nr = cpu_dt_bytes(g->c_type) == 4 ? k->nr32 : k->nr64;
    /* Tall blocks: what is packed of B serves all rows of a block. */
    int64_t rows = NF_MIN(g->m, (int64_t)8 * block_rows(k)), cols = NF_MIN(g->n, (int64_t)GEMM_NC);
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

static int64_t run_at(const int64_t *off, int64_t n)
{
    int64_t i = 1;
    while (i < n && off[i] == off[i - 1] + 1) i++;
    return i;
}
static int64_t average_run(const int64_t *off, int64_t n)
{
    int64_t runs = 0;
    for (int64_t i = 0; i < n; i += run_at(off + i, n - i)) runs++;
    return runs ? n / runs : 0;
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
PACK(uint32_t, pack_u32)
PACK(uint64_t, pack_u64)

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

/* Panels of `width` over [0, n) of across. The last one of A may have fewer rows; of B it has all columns. */

static void pack_block_f32(const struct gemm_kernels *uk, bool is_b, float *dst, enum cpu_dt t, const void *src, const int64_t *across, const int64_t *along, int64_t n,
                           int64_t kc)
{
    const int width = is_b ? uk->nr32 : uk->mr;
    const bool along1 = contiguous(along, kc), long_runs = along1 || average_run(along, kc) >= 8;
    for (int64_t i = 0; i < n; i += width) {
        const int64_t real = NF_MIN(n - i, (int64_t)width), run = t == CPU_F32 ? run_at(across + i, n - i) / width * width : 0;
        if (run) {
            uk->pack_flat[is_b](dst + i * kc, (const float *)src + across[i], along, run, kc);
            i += run - width;
        } else if (t == CPU_F32 && long_runs && real == width) {
            for (int64_t k = 0, n_run; k < kc; k += n_run) {
                const float *row[GEMM_NR_MAX];
                for (int r = 0; r < width; r++) row[r] = (const float *)src + across[i + r] + along[k];
                n_run = run_at(along + k, kc - k);
                uk->pack_rows[is_b](dst + i * kc + k * width, row, n_run);
            }
        } else {
            pack_any_f32(dst + i * kc, t, src, across + i, along, is_b ? width : (int)real, (int)real, kc, contiguous(across + i, real), along1);
        }
    }
}
#define PACK_BLOCK(type, name, nr_field, pack)                                                                                                          \
    static void name(const struct gemm_kernels *uk, bool is_b, type *dst, enum cpu_dt t, const void *src, const int64_t *across, const int64_t *along, \
                     int64_t n, int64_t kc)                                                                                                            \
    {                                                                                                                                                  \
        const int width = is_b ? uk->nr_field : uk->mr;                                                                                                \
        const bool along1 = contiguous(along, kc);                                                                                                     \
        for (int64_t i = 0; i < n; i += width) {                                                                                                       \
            const int real = (int)NF_MIN(n - i, (int64_t)width);                                                                                       \
            pack(dst + i * kc, t, src, across + i, along, is_b ? width : real, real, kc, contiguous(across + i, real), along1);                        \
        }                                                                                                                                              \
    }
#define PACK_INT(type, name, pack)                                                                                                                     \
    static void name(type *dst, enum cpu_dt t, const void *src, const int64_t *across, const int64_t *along, int width, int real, int64_t kc,          \
                     bool across1, bool along1)                                                                                                        \
    {                                                                                                                                                  \
        (void)t;                                                                                                                                       \
        pack(dst, src, across, along, width, real, kc, across1, along1);                                                                               \
    }
PACK_INT(uint32_t, pack_any_u32, pack_u32)
PACK_INT(uint64_t, pack_any_u64, pack_u64)
PACK_BLOCK(double, pack_block_f64, nr64, pack_any_f64)
PACK_BLOCK(uint32_t, pack_block_u32, nr32, pack_any_u32)
PACK_BLOCK(uint64_t, pack_block_u64, nr64, pack_any_u64)

/* One block of C. B is read where it lies when few rows use it and its columns are neighbours. */
#define RUN(type, name, dt, field, nr_field)                                                                                          \
    static void name(const struct gemm *g, const struct gemm_kernels *uk, int64_t i0, int64_t i1, int64_t j0, int64_t j1, char *scratch)\
    {                                                                                                                                 \
        const int mr = uk->mr, nr = uk->nr_field, mc = block_rows(uk);                                                                \
        type *pa = (type *)(void *)scratch, *pb = pa + (size_t)(MC_MAX + GEMM_MR_MAX) * GEMM_KC;                                      \
        type *tile = pb + (size_t)(GEMM_NC + GEMM_NR_MAX) * GEMM_KC;                                                                  \
        const bool c_flat = contiguous(g->cn + j0, j1 - j0), bn1 = contiguous(g->bn + j0, j1 - j0);                                   \
        const int64_t nc = i1 - i0 <= mc ? NC_ONCE : GEMM_NC;                                                                         \
        type *c = g->c;                                                                                                               \
        for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += GEMM_KC) {                                                                   \
            int64_t kc = NF_MIN(g->k - k0, (int64_t)GEMM_KC);                                                                         \
            int64_t step = kc > 1 ? g->bk[k0 + 1] - g->bk[k0] : 0;                                                                    \
            bool in_place = g->b_type == dt && bn1 && i1 - i0 <= 4 * mr && step >= 0;                                                 \
            for (int64_t k = 2; in_place && k < kc; k++) in_place = g->bk[k0 + k] - g->bk[k0 + k - 1] == step;                        \
            for (int64_t ib = i0; ib < i1; ib += mc) {                                                                                \
                int64_t ie = NF_MIN(ib + mc, i1);                                                                                     \
                pack_block_##field(uk, false, pa, g->a_type, g->a, g->am + ib, g->ak + k0, ie - ib, kc);                              \
                for (int64_t jb = j0; jb < j1; jb += nc) {                                                                            \
                    int64_t je = NF_MIN(jb + nc, j1);                                                                                 \
                    if (ib == i0 || j1 - j0 > nc) {                                                                                   \
                        int64_t from = in_place ? jb + (je - jb) / nr * nr : jb;                                                      \
                        pack_block_##field(uk, true, pb + (from - jb) * kc, g->b_type, g->b, g->bn + from, g->bk + k0, je - from, kc);\
                    }                                                                                                                 \
                    for (int64_t j = jb; j < je; j += nr) {                                                                           \
                        int cols = (int)NF_MIN(je - j, (int64_t)nr);                                                                  \
                        const bool direct_b = in_place && cols == nr;                                                                 \
                        const type *b = direct_b ? (const type *)g->b + g->bn[j] + g->bk[k0] : pb + (j - jb) * kc;                    \
                        int64_t ldb = direct_b ? step : nr;                                                                           \
                        for (int64_t i = ib; i < ie; i += mr) {                                                                       \
                            const int rows = (int)NF_MIN(ie - i, (int64_t)mr);                                                        \
                            const type *a = pa + (i - ib) * kc;                                                                       \
                            int64_t ldc = rows > 1 ? g->cm[i + 1] - g->cm[i] : 0;                                                     \
                            bool direct = c_flat && cols == nr && ldc >= 0;                                                           \
                            for (int r = 2; direct && r < rows; r++) direct = g->cm[i + r] - g->cm[i + r - 1] == ldc;                 \
                            if (direct) {                                                                                             \
                                uk->field(rows, kc, a, b, ldb, c + g->cm[i] + g->cn[j], ldc, k0 > 0);                                 \
                                continue;                                                                                             \
                            }                                                                                                         \
                            uk->field(rows, kc, a, b, ldb, tile, nr, 0);                                                              \
                            for (int r = 0; r < rows; r++)                                                                            \
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
RUN(uint32_t, run_u32, CPU_U32, u32, nr32)
RUN(uint64_t, run_u64, CPU_U64, u64, nr64)

/* Few columns use a row of A: packing it would show. Tiles read A where it lies, by rows when k is contiguous in stretches (a
 * convolution's windows), by columns when the rows of every tile are neighbours (its gradient for the weights). The same additions in the
 * same order as with panels. NARROW is another order, and follows from the columns and the contracted dim alone. */
enum direct { PANELS, BY_ROWS, BY_COLS, NARROW };
enum { DIRECT_COLS = 160, NARROW_COLS = 6 };

static enum direct direct_mode(const struct gemm *g, int mr, int64_t i0, int64_t i1)
{
    if (g->a_type != CPU_F32 || g->n > DIRECT_COLS) return PANELS;
    int64_t run = average_run(g->ak, g->k);
    if (g->n <= NARROW_COLS && run >= 16 * g->n) return NARROW; /* shorter ones are rather remainders and additions of lanes */
    if (i1 - i0 <= mr && g->b_type == CPU_F32 && contiguous(g->bn, g->n)) return PANELS; /* which need not pack B then */
    if (run >= 12) return BY_ROWS;
    for (int64_t i = i0; i < i1; i += mr)
        if (!contiguous(g->am + i, NF_MIN((int64_t)mr, i1 - i))) return PANELS;
    return BY_COLS;
}

static void stretches(const struct gemm *g, int64_t k0, int64_t kc, struct gemm_runs *runs)
{
    runs->n = 0;
    for (int64_t k = 0; k < kc; k += runs->length[runs->n++]) {
        runs->offset[runs->n] = g->ak[k0 + k];
        runs->length[runs->n] = run_at(g->ak + k0 + k, kc - k);
    }
}

/* So few columns that a tile would be mostly empty, and A contiguous in stretches of k: inner products of rows and columns. */
static void run_narrow(const struct gemm *g, const struct gemm_kernels *uk, int64_t i0, int64_t i1, int64_t j0, int64_t j1, float *b)
{
    float *c = g->c, sum[GEMM_NARROW_ROWS_MAX * GEMM_NARROW_COLS];
    struct gemm_runs runs;
    for (int64_t k0 = 0; k0 < g->k; k0 += GEMM_KC) {
        int64_t kc = NF_MIN(g->k - k0, (int64_t)GEMM_KC);
        stretches(g, k0, kc, &runs);
        for (int64_t j = j0; j < j1; j++) {
            const float *from = (const float *)g->b + g->bn[j];
            float *to = b + (j - j0) * GEMM_KC;
            for (int64_t k = 0; k < kc; k++) to[k] = g->b_type == CPU_F32 ? from[g->bk[k0 + k]] : load_f32(g->b_type, g->b, g->bn[j] + g->bk[k0 + k]);
        }
        for (int64_t j = j0; j < j1; j += GEMM_NARROW_COLS) {
            int cols = (int)NF_MIN(j1 - j, (int64_t)GEMM_NARROW_COLS), height = gemm_narrow_rows(cols);
            for (int64_t i = i0; i < i1; i += height) {
                int real = (int)NF_MIN(i1 - i, (int64_t)height);
                const float *row[GEMM_NARROW_ROWS_MAX];
                for (int r = 0; r < height; r++) row[r] = (const float *)g->a + g->am[i + NF_MIN(r, real - 1)];
                uk->f32_narrow(cols, row, &runs, b + (j - j0) * GEMM_KC, sum);
                for (int r = 0; r < real; r++)
                    for (int q = 0; q < cols; q++) {
                        float *to = c + g->cm[i + r] + g->cn[j + q];
                        *to = k0 > 0 ? *to + sum[r * cols + q] : sum[r * cols + q];
                    }
            }
        }
    }
}

/* Rows [i0, i1), columns [j0, j1) of C (+)= kc of the contracted dim from k0; pb: panels of B from column j0 on, of panel_k rows each. */
static void direct_block(const struct gemm *g, const struct gemm_kernels *uk, enum direct mode, int64_t k0, int64_t kc, const float *pb, int64_t panel_k, int64_t i0,
                         int64_t i1, int64_t j0, int64_t j1, float *tile)
{
    const int mr = uk->mr, nr = uk->nr32, mc = block_rows(uk);
    const float *a = g->a;
    const bool c_flat = contiguous(g->cn + j0, j1 - j0);
    float *c = g->c;
    struct gemm_runs runs;
    if (mode == BY_ROWS) stretches(g, k0, kc, &runs);
    for (int64_t ib = i0; ib < i1; ib += mc)
        for (int64_t j = j0; j < j1; j += nr)
            for (int64_t i = ib, ie = NF_MIN(ib + mc, i1); i < ie; i += mr) {
                int cols = (int)NF_MIN(j1 - j, (int64_t)nr), rows = (int)NF_MIN(ie - i, (int64_t)mr);
                int64_t ldc = rows > 1 ? g->cm[i + 1] - g->cm[i] : 0;
                bool direct = c_flat && cols == nr && ldc >= 0;
                for (int r = 2; direct && r < rows; r++) direct = g->cm[i + r] - g->cm[i + r - 1] == ldc;
                float *to = direct ? c + g->cm[i] + g->cn[j] : tile;
                int64_t ld = direct ? ldc : nr;
                const float *b = pb + (j - j0) * panel_k;
                if (mode == BY_ROWS) {
                    const float *row[GEMM_MR_MAX];
                    for (int r = 0; r < rows; r++) row[r] = a + g->am[i + r];
                    uk->f32_rows(rows, row, &runs, b, to, ld, direct && k0 > 0);
                } else {
                    uk->f32_cols(rows, a + g->am[i], g->ak + k0, kc, b, to, ld, direct && k0 > 0);
                }
                for (int r = 0; !direct && r < rows; r++)
                    for (int q = 0; q < cols; q++) {
                        float *out = c + g->cm[i + r] + g->cn[j + q];
                        *out = k0 > 0 ? *out + tile[r * nr + q] : tile[r * nr + q];
                    }
            }
}

static void run_direct(const struct gemm *g, const struct gemm_kernels *uk, enum direct mode, int64_t i0, int64_t i1, int64_t j0, int64_t j1, float *scratch)
{
    float *pb = scratch + (size_t)(MC_MAX + GEMM_MR_MAX) * GEMM_KC, *tile = pb + (size_t)(GEMM_NC + GEMM_NR_MAX) * GEMM_KC;
    for (int64_t k0 = 0; k0 < g->k; k0 += GEMM_KC) {
        int64_t kc = NF_MIN(g->k - k0, (int64_t)GEMM_KC);
        pack_block_f32(uk, true, pb, g->b_type, g->b, g->bn + j0, g->bk + k0, j1 - j0, kc);
        direct_block(g, uk, mode, k0, kc, pb, kc, i0, i1, j0, j1, tile);
    }
}

/* ------------------------------------------------------------------------------------------------------ packed once */

int gemm_tile_rows(void) { return kernels()->mr; }

static int64_t whole_panels(int64_t n, int nr) { return (n + nr - 1) / nr * nr; }

void gemm_pack(const struct gemm *g, int64_t n, int64_t k, float *packed)
{
    const struct gemm_kernels *uk = kernels();
    for (int64_t k0 = 0; k0 < k; k0 += GEMM_KC)
        pack_block_f32(uk, true, packed + whole_panels(n, uk->nr32) * k0, g->b_type, g->b, g->bn, g->bk + k0, n, NF_MIN(k - k0, (int64_t)GEMM_KC));
}

void gemm_run_packed(const struct gemm *g, const float *packed, int64_t packed_n, int64_t packed_k, int64_t i0, int64_t i1, int64_t n, int64_t k)
{
    const struct gemm_kernels *uk = kernels();
    float tile[GEMM_MR_MAX * GEMM_NR_MAX];
    for (int64_t k0 = 0; k0 < k; k0 += GEMM_KC)
        direct_block(g, uk, BY_ROWS, k0, NF_MIN(k - k0, (int64_t)GEMM_KC), packed + whole_panels(packed_n, uk->nr32) * k0, NF_MIN(packed_k - k0, (int64_t)GEMM_KC), i0, i1,
                     0, n, tile);
}

void gemm_run(const struct gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *scratch)
{
    char *s = (char *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    if (i0 >= i1 || j0 >= j1) return;
    enum direct mode = g->c_type == CPU_F32 && g->k > 0 ? direct_mode(g, kernels()->mr, i0, i1) : PANELS;
    if (mode == NARROW) run_narrow(g, kernels(), i0, i1, j0, j1, (float *)(void *)s);
    else if (mode != PANELS) run_direct(g, kernels(), mode, i0, i1, j0, j1, (float *)(void *)s);
    else if (g->c_type == CPU_F32) run_f32(g, kernels(), i0, i1, j0, j1, s);
    else if (g->c_type == CPU_F64) run_f64(g, kernels(), i0, i1, j0, j1, s);
    else if (g->c_type == CPU_U32) run_u32(g, kernels(), i0, i1, j0, j1, s);
    else run_u64(g, kernels(), i0, i1, j0, j1, s);
}
