/* gemm.h: matrix products C = A * B for any strides, of f32, f64 and integers modulo 2^32 or 2^64, on the instruction set of the running machine.
 *
 * Rows, columns and the contracted dim are given by tables of element offsets, so several tensor dims may be collapsed into
 * one and rows may overlap (a convolution's windows): element (i, k) of A is at a[am[i] + ak[k]]. Operands are packed into
 * panels, so what their strides are costs little; C is written in place when its columns are neighbours.
 *
 * The order of additions is fixed by the shapes alone (blocks of GEMM_KC in order; in each the order of k or, where C has few columns, first
 * every n-th, n the lanes of a vector), so results depend neither on how C is cut into tasks nor on the number of threads. */
#ifndef NEFFD_RUNTIME_CPU_GEMM_H
#define NEFFD_RUNTIME_CPU_GEMM_H

#include "runtime/cpu/types.h"

enum { GEMM_KC = 256, GEMM_NC = 1024, GEMM_MR_MAX = 16, GEMM_NR_MAX = 32 };

struct gemm {
    enum cpu_dt a_type, b_type;      /* of floats any up to the class of c, widened while packing; of integers c_type */
    enum cpu_dt c_type;              /* CPU_F32, CPU_F64, CPU_U32 or CPU_U64 */
    const void *a, *b;
    void *c;
    int64_t m, n, k;
    const int64_t *am, *ak, *bk, *bn, *cm, *cn;
};

/* Bytes of scratch that a thread needs. */
size_t gemm_scratch(void);
/* Block of C that one task should compute; multiples of the kernel's tile. */
void gemm_block(const struct gemm *g, int threads, int64_t *ret_rows, int64_t *ret_cols);
/* Rows [i0, i1), columns [j0, j1) of C, on the calling thread. */
void gemm_run(const struct gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *scratch);
/* f32, B packed once for many blocks of rows: columns [0, n) and the first k of the contracted dim, into gemm_packed(n, k) floats. Then rows
 * [i0, i1) of C from columns and k up to what was packed; rows of A are read where they lie. */
static inline size_t gemm_packed(int64_t n, int64_t k) { return (size_t)(n + GEMM_NR_MAX) * (size_t)k; }
void gemm_pack(const struct gemm *g, int64_t n, int64_t k, float *packed);
void gemm_run_packed(const struct gemm *g, const float *packed, int64_t packed_n, int64_t packed_k, int64_t i0, int64_t i1, int64_t n, int64_t k);
int gemm_tile_rows(void);            /* rows of C that a kernel makes at once */
const char *gemm_isa(void);          /* "avx2", "avx512", "portable" */

/* Offsets of neighbours: stretches of a contracted dim in which each element lies beside the one before. */
struct gemm_runs {
    int n;
    int64_t offset[GEMM_KC], length[GEMM_KC];
};

/* Rows that a narrow kernel takes: as many accumulators as hide the latency of an addition. */
enum { GEMM_NARROW_COLS = 3, GEMM_NARROW_ROWS_MAX = 8 };
static inline int gemm_narrow_rows(int cols) { return cols == 1 ? 8 : cols == 2 ? 6 : 4; }

/* The kernels of one instruction set (gemm_ukern.c, compiled once for each). */
struct gemm_kernels {
    const char *isa;
    int mr, nr32, nr64;
    /* c[i*ldc + j] (+)= sum_k a[k*rows + i] * b[k*ldb + j]; rows <= mr, all columns of a tile. */
    void (*f32)(int rows, int64_t k, const float *a, const float *b, int64_t ldb, float *c, int64_t ldc, int accumulate);
    void (*f64)(int rows, int64_t k, const double *a, const double *b, int64_t ldb, double *c, int64_t ldc, int accumulate);
    void (*u32)(int rows, int64_t k, const uint32_t *a, const uint32_t *b, int64_t ldb, uint32_t *c, int64_t ldc, int accumulate);
    void (*u64)(int rows, int64_t k, const uint64_t *a, const uint64_t *b, int64_t ldb, uint64_t *c, int64_t ldc, int accumulate);
    /* The same, with packed b (ldb the width of a tile), and a where it lies: row[i][offset + k] by runs, a[along[k] + i]. */
    void (*f32_rows)(int rows, const float *const *row, const struct gemm_runs *runs, const float *b, float *c, int64_t ldc, int accumulate);
    void (*f32_cols)(int rows, const float *a, const int64_t *along, int64_t k, const float *b, float *c, int64_t ldc, int accumulate);
    /* sum[i * cols + j] = sum_k row[i][offset + k] * b[j * GEMM_KC + k] by runs, for 1 to 3 columns and gemm_narrow_rows rows: vectors along k. */
    void (*f32_narrow)(int cols, const float *const *row, const struct gemm_runs *runs, const float *b, float *sum);
    /* Panels of f32, [0] of mr rows for a, [1] of nr32 columns for b; `width` stands for either:
     *     rows: dst[k * width + i] = row[i][k], one panel
     *     flat: dst[p * width * kc + k * width + i] = src[along[k] + p * width + i], the whole panels of n columns */
    void (*pack_rows[2])(float *dst, const float *const *row, int64_t kc);
    void (*pack_flat[2])(float *dst, const float *src, const int64_t *along, int64_t n, int64_t kc);
};
extern const struct gemm_kernels gemm_kernels_portable, gemm_kernels_avx2, gemm_kernels_avx512;

#endif
