/* eval_kernels.h: the evaluator's arithmetic on arrays, without the IR.
 *
 * Arrays are struct rt_array with shapes already settled; outputs are allocated by the caller. Kernels never fail on values.
 * An elementwise kernel works on n elements that lie next to each other, so it serves whole arrays, runs of a reduction, and
 * (n = 1) the scalars of a region. Outputs may be the same memory as an input of the same width. */
#ifndef NEFFD_PIPELINE_HLO_EVAL_KERNELS_H
#define NEFFD_PIPELINE_HLO_EVAL_KERNELS_H

#include "runtime/array.h"

/* ---- elementwise: eval_ew.c, eval_complex.c, eval_special.c ---- */

enum ev_op {
    EV_NONE,
    /* two operands, result of their type */
    EV_ADD, EV_SUB, EV_MUL, EV_DIV, EV_REM, EV_MAX, EV_MIN, EV_POW, EV_ATAN2, EV_AND, EV_OR, EV_XOR, EV_SHL, EV_SHRA, EV_SHRL,
    EV_NEXT_AFTER, EV_MULHI, EV_POLYGAMMA, EV_ZETA,
    /* two operands, result i1 */
    EV_EQ, EV_NE, EV_GE, EV_GT, EV_LE, EV_LT,
    EV_TOTAL_EQ, EV_TOTAL_NE, EV_TOTAL_GE, EV_TOTAL_GT, EV_TOTAL_LE, EV_TOTAL_LT,
    /* one operand, result of its type (abs of a complex: of its parts' type) */
    EV_ABS, EV_NEG, EV_SIGN, EV_CEIL, EV_FLOOR, EV_ROUND_AFZ, EV_ROUND_EVEN, EV_NOT, EV_POPCNT, EV_CLZ,
    EV_SQRT, EV_RSQRT, EV_CBRT, EV_EXP, EV_EXPM1, EV_LOG, EV_LOG1P, EV_LOGISTIC, EV_SIN, EV_COS, EV_TAN, EV_TANH,
    EV_ACOS, EV_ACOSH, EV_ASIN, EV_ASINH, EV_ATAN, EV_ATANH, EV_COSH, EV_SINH, EV_ERF, EV_ERFC, EV_ERF_INV, EV_LGAMMA, EV_DIGAMMA,
    EV_BESSEL_I1E, EV_SQUARE, EV_CONJ,
    /* one operand, result i1 */
    EV_IS_FINITE, EV_IS_INF, EV_IS_POS_INF, EV_IS_NEG_INF,
    /* between complex and its parts; the type looked up is the complex one */
    EV_REAL, EV_IMAG, EV_COMPLEX,
    EV_OP_MAX,
};

typedef void (*ev_kernel)(int64_t n, void *out, const void *a, const void *b);

/* NULL: the operation does not exist for the type. dt is that of the operands (EV_REAL, EV_IMAG, EV_COMPLEX: the complex type;
 * real and imag of a real type exist, too). */
ev_kernel ev_kernel_find(enum ev_op op, enum nf_dtype dt);
ev_kernel ev__complex_kernel(enum ev_op op, enum nf_dtype dt);

/* Sequential reduction of n elements, `stride` elements apart, into *acc: acc = op(acc, x). ADD MUL MAX MIN AND OR XOR; NULL else. */
typedef void (*ev_fold)(int64_t n, void *acc, const void *in, int64_t stride);
ev_fold ev_fold_find(enum ev_op op, enum nf_dtype dt);

/* out[i] = p ? a[i] : b[i]; pred_step 0: one predicate for all. w: bytes of an element. */
void ev_select(int64_t n, size_t w, void *out, const uint8_t *pred, int pred_step, const void *a, const void *b);
/* Value conversion as `convert` defines it. */
void ev_convert(int64_t n, enum nf_dtype to, void *out, enum nf_dtype from, const void *in);
/* reduce_precision of a float type. */
void ev_reduce_precision(int64_t n, enum nf_dtype dt, int exponent_bits, int mantissa_bits, void *out, const void *in);
/* Bits as they are, element widths may differ (the total is the same). */
void ev_bitcast(enum nf_dtype to, void *out, int64_t out_n, enum nf_dtype from, const void *in, int64_t in_n);
/* Any float type (not complex) to and from double; one rounding. */
void ev_load_double(int64_t n, enum nf_dtype dt, const void *in, double *out);
void ev_store_double(int64_t n, enum nf_dtype dt, const double *in, void *out);
void ev_fill(int64_t n, size_t w, void *out, const void *elem);

/* Special functions in double, good to a few units in the last place. eval_special.c */
double ev_erf_inv(double x);
double ev_digamma(double x);
double ev_polygamma(double n, double x);
double ev_zeta(double x, double q);
double ev_bessel_i1e(double x);
double ev_lgamma(double x);

/* ---- moving data: eval_move.c ---- */

/* Copies a box of `dims` from src to dst; strides in elements, may be 0 or negative. */
void ev_copy_box(size_t w, int rank, const int64_t *dims, void *dst, const int64_t *dst_strides, const void *src, const int64_t *src_strides);
void ev_strides(int rank, const int64_t *dims, int64_t *ret_strides); /* row-major */
void ev_broadcast(const struct rt_array *in, const int64_t *dims_map, struct rt_array *out);
void ev_transpose(const struct rt_array *in, const int64_t *perm, struct rt_array *out);
void ev_slice(const struct rt_array *in, const int64_t *start, const int64_t *stride, struct rt_array *out);
void ev_reverse(const struct rt_array *in, const int64_t *dims, size_t n, struct rt_array *out);
void ev_pad(const struct rt_array *in, const void *value, const int64_t *low, const int64_t *interior, struct rt_array *out);
void ev_update(struct rt_array *inout, const int64_t *start, const struct rt_array *update); /* start in range */
void ev_iota(struct rt_array *out, int64_t dim);
/* Next index in row-major order; false after the last. */
bool ev_next_index(int rank, const int64_t *dims, int64_t *index);

struct ev_ints {
    const int64_t *v;
    size_t n;
};
static inline bool ev_ints_has(struct ev_ints s, int64_t x)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.v[i] == x)
            return true;
    return false;
}

struct ev_gather {
    struct ev_ints offset_dims, collapsed, operand_batching, indices_batching, index_map;
    int64_t index_vector_dim;
    const int64_t *slice_sizes;
};
void ev_gather(const struct rt_array *operand, const struct rt_array *indices, const struct ev_gather *g, struct rt_array *out);
/* indices as 64-bit signed numbers; unsigned ones beyond the range become the largest. */
int64_t ev_int_at(enum nf_dtype dt, const void *data, int64_t i);

/* ---- products: eval_dot.c ---- */

struct ev_dot {
    struct ev_ints lhs_batching, rhs_batching, lhs_contracting, rhs_contracting;
    bool round_each_step; /* bf16, f16 and smaller: round after each multiply and add instead of once */
};
/* 0, NF_ENOMEM, NF_EUNSUPPORTED */
int ev_dot(const struct rt_array *lhs, const struct rt_array *rhs, const struct ev_dot *d, struct rt_array *out, struct nf_error *err);

struct ev_conv {
    int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
    struct ev_ints input_spatial, kernel_spatial, output_spatial;
    const int64_t *strides, *pad_low, *lhs_dilation, *rhs_dilation; /* one a spatial dimension */
    const bool *reversal;
    int64_t feature_groups, batch_groups;
    bool round_each_step;
};
int ev_convolution(const struct rt_array *lhs, const struct rt_array *rhs, const struct ev_conv *c, struct rt_array *out, struct nf_error *err);

/* ---- linear algebra and transforms ---- */

enum ev_fft_kind { EV_FFT, EV_IFFT, EV_RFFT, EV_IRFFT };
int ev_fft(const struct rt_array *in, enum ev_fft_kind kind, const int64_t *length, size_t n, struct rt_array *out, struct nf_error *err);
int ev_cholesky(const struct rt_array *in, bool lower, struct rt_array *out, struct nf_error *err);
struct ev_trsm {
    bool left, lower, unit_diagonal;
    int transpose; /* 0 none, 1 transpose, 2 adjoint */
};
bool ev_trsm_fits(const struct rt_array *a, const struct rt_array *b, bool left); /* square, of b's size, the same batches */
int ev_triangular_solve(const struct rt_array *a, const struct rt_array *b, const struct ev_trsm *t, struct rt_array *out, struct nf_error *err);

/* ---- random bits: eval_rng.c; layouts are XLA's ---- */

enum ev_rng { EV_RNG_THREE_FRY, EV_RNG_PHILOX };
/* state: ui64 words (2 or 3) or the same bytes as ui32; both arrays are filled. */
int ev_rng_bits(enum ev_rng kind, const struct rt_array *state, struct rt_array *out_state, struct rt_array *out_bits, struct nf_error *err);
void ev_rng_fill(uint64_t seed, bool normal, const void *a, const void *b, struct rt_array *out);

#endif
