/* Products and convolutions.
 *
 * Operands are converted to the result's element type, then brought into plain layouts of the type that sums them: float for
 * floats of at most 32 bits, double, 32- or 64-bit unsigned for integers (modulo arithmetic makes the sign irrelevant), pairs for
 * complex. Terms are added in row-major order of the contracting dimensions, one rounding per multiply and add, none fused. */
#include "pipeline/hlo/eval_kernels.h"

#include <stdlib.h>

enum sum_type { SUM_F32, SUM_F64, SUM_U32, SUM_U64, SUM_C64, SUM_C128, SUM_NONE };

static enum sum_type sum_type_of(enum nf_dtype t)
{
    switch (nf_dtype_class(t)) {
    case NF_DTC_FLOAT:
        return t == NF_DT_F64 ? SUM_F64 : SUM_F32;
    case NF_DTC_BOOL:
        return SUM_U32;
    case NF_DTC_SINT: case NF_DTC_UINT:
        return nf_dtype_bits(t) > 32 ? SUM_U64 : SUM_U32;
    case NF_DTC_COMPLEX:
        return t == NF_DT_C64 ? SUM_C64 : SUM_C128;
    case NF_DTC_NONE: case NF_DTC_MAX:
        break;
    }
    return SUM_NONE;
}

static enum nf_dtype sum_dtype(enum sum_type s)
{
    static const enum nf_dtype types[] = {NF_DT_F32, NF_DT_F64, NF_DT_U32, NF_DT_U64, NF_DT_C64, NF_DT_C128, NF_DT_NONE};
    return types[s];
}

/* A copy of `in` with its dimensions permuted, converted to `value` and from there to the summing type. */
static int prepare(const struct rt_array *in, const int64_t *perm, enum nf_dtype value, enum sum_type s, struct rt_array *ret, struct nf_error *err)
{
    struct rt_array moved, as_value, as_sum;
    int64_t dims[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < in->rank; i++)
        dims[i] = in->dims[perm[i]];
    int rc = rt_array_alloc(in->dtype, in->rank, dims, 0, &moved, err);
    if (rc)
        return rc;
    ev_transpose(in, perm, &moved);
    int64_t n = rt_array_count(&moved);
    if (value != moved.dtype) {
        if ((rc = rt_array_alloc(value, in->rank, dims, 0, &as_value, err))) {
            rt_array_done(&moved);
            return rc;
        }
        ev_convert(n, value, as_value.data, moved.dtype, moved.data);
        rt_array_done(&moved);
        moved = as_value;
    }
    if (sum_dtype(s) != moved.dtype) {
        if ((rc = rt_array_alloc(sum_dtype(s), in->rank, dims, 0, &as_sum, err))) {
            rt_array_done(&moved);
            return rc;
        }
        ev_convert(n, sum_dtype(s), as_sum.data, moved.dtype, moved.data);
        rt_array_done(&moved);
        moved = as_sum;
    }
    *ret = moved;
    return NF_OK;
}

/* One float rounded to a smaller type and back, for sums that round at each step. */
static inline float round_to(enum nf_dtype t, float v)
{
    if (t == NF_DT_BF16)
        return nf_bf16_to_float(nf_bf16_from_float(v));
    if (t == NF_DT_F16)
        return nf_f16_to_float(nf_f16_from_float(v));
    return (float)nf_small_to_double(t, nf_small_from_double(t, (double)v));
}

/* acc[0..n) += x * row[0..n) */
#define AXPY(name, T)                                                                \
    static inline void name(int64_t n, T *restrict acc, T x, const T *restrict row) \
    {                                                                                \
        for (int64_t i = 0; i < n; i++)                                              \
            acc[i] += x * row[i];                                                    \
    }
AXPY(axpy_f32, float)
AXPY(axpy_f64, double)
AXPY(axpy_u32, uint32_t)
AXPY(axpy_u64, uint64_t)
#define AXPY_COMPLEX(name, T)                                                        \
    static inline void name(int64_t n, T *restrict acc, const T *x, const T *restrict row) \
    {                                                                                \
        T xr = x[0], xi = x[1];                                                      \
        for (int64_t i = 0; i < n; i++) {                                            \
            T br = row[2 * i], bi = row[2 * i + 1];                                  \
            acc[2 * i] += xr * br - xi * bi;                                         \
            acc[2 * i + 1] += xr * bi + xi * br;                                     \
        }                                                                            \
    }
AXPY_COMPLEX(axpy_c64, float)
AXPY_COMPLEX(axpy_c128, double)

/* acc += x * row for any summing type; step_type not NONE: round after each operation. */
static void axpy(enum sum_type s, enum nf_dtype step_type, int64_t n, void *acc, const void *x, const void *row)
{
    switch (s) {
    case SUM_F32:
        if (step_type != NF_DT_NONE) {
            float *a = acc, v = *(const float *)x;
            for (int64_t i = 0; i < n; i++)
                a[i] = round_to(step_type, a[i] + round_to(step_type, v * ((const float *)row)[i]));
        } else {
            axpy_f32(n, acc, *(const float *)x, row);
        }
        break;
    case SUM_F64:
        axpy_f64(n, acc, *(const double *)x, row);
        break;
    case SUM_U32:
        axpy_u32(n, acc, *(const uint32_t *)x, row);
        break;
    case SUM_U64:
        axpy_u64(n, acc, *(const uint64_t *)x, row);
        break;
    case SUM_C64:
        axpy_c64(n, acc, x, row);
        break;
    case SUM_C128:
        axpy_c128(n, acc, x, row);
        break;
    case SUM_NONE:
        break;
    }
}

/* acc[i] += x[i] * y[i]: one channel a group */
static void multiply_add(enum sum_type s, enum nf_dtype step_type, int64_t n, void *acc, const void *x, const void *y)
{
#define EACH(T)                                                                      \
    for (int64_t i = 0; i < n; i++)                                                  \
        ((T *)acc)[i] += ((const T *)x)[i] * ((const T *)y)[i];                      \
    break;
    switch (s) {
    case SUM_F32:
        if (step_type == NF_DT_NONE) {
            EACH(float)
        }
        for (int64_t i = 0; i < n; i++)
            ((float *)acc)[i] = round_to(step_type, ((float *)acc)[i] + round_to(step_type, ((const float *)x)[i] * ((const float *)y)[i]));
        break;
    case SUM_F64:
        EACH(double)
    case SUM_U32:
        EACH(uint32_t)
    case SUM_U64:
        EACH(uint64_t)
    case SUM_C64:
        for (int64_t i = 0; i < n; i++)
            axpy_c64(1, (float *)acc + 2 * i, (const float *)x + 2 * i, (const float *)y + 2 * i);
        break;
    case SUM_C128:
        for (int64_t i = 0; i < n; i++)
            axpy_c128(1, (double *)acc + 2 * i, (const double *)x + 2 * i, (const double *)y + 2 * i);
        break;
    case SUM_NONE:
        break;
    }
#undef EACH
}

/* Four rows of the left matrix at a time over one panel of the right, so that it is read from cache. */
#define GEMM_ROWS 4
static void gemm_f32(int64_t M, int64_t N, int64_t K, const float *A, const float *B, float *C)
{
    for (int64_t m0 = 0; m0 < M; m0 += GEMM_ROWS) {
        int64_t rows = NF_MIN((int64_t)GEMM_ROWS, M - m0);
        for (int64_t k = 0; k < K; k++) {
            const float *b = B + k * N;
            if (rows == GEMM_ROWS) {
                float a0 = A[m0 * K + k], a1 = A[(m0 + 1) * K + k], a2 = A[(m0 + 2) * K + k], a3 = A[(m0 + 3) * K + k];
                float *restrict c0 = C + m0 * N, *restrict c1 = c0 + N, *restrict c2 = c1 + N, *restrict c3 = c2 + N;
                for (int64_t n = 0; n < N; n++) {
                    float v = b[n];
                    c0[n] += a0 * v;
                    c1[n] += a1 * v;
                    c2[n] += a2 * v;
                    c3[n] += a3 * v;
                }
            } else {
                for (int64_t r = 0; r < rows; r++)
                    axpy_f32(N, C + (m0 + r) * N, A[(m0 + r) * K + k], b);
            }
        }
    }
}

static void finish(const struct rt_array *sum, struct rt_array *out)
{
    ev_convert(rt_array_count(out), out->dtype, out->data, sum->dtype, sum->data);
}

int ev_dot(const struct rt_array *lhs, const struct rt_array *rhs, const struct ev_dot *d, struct rt_array *out, struct nf_error *err)
{
    enum sum_type s = sum_type_of(out->dtype);
    if (s == SUM_NONE)
        return nf_fail(err, NF_EUNSUPPORTED, "a product of elements %s is not supported", nf_dtype_name(out->dtype));
    struct rt_array a = {0}, b = {0}, c = {0};
    int64_t perm[RT_ARRAY_RANK_MAX], batch = 1, M = 1, N = 1, K = 1;
    int n = 0;
    for (size_t i = 0; i < d->lhs_batching.n; i++)
        batch *= lhs->dims[perm[n++] = d->lhs_batching.v[i]];
    for (int i = 0; i < lhs->rank; i++)
        if (!ev_ints_has(d->lhs_batching, i) && !ev_ints_has(d->lhs_contracting, i))
            M *= lhs->dims[perm[n++] = i];
    for (size_t i = 0; i < d->lhs_contracting.n; i++)
        K *= lhs->dims[perm[n++] = d->lhs_contracting.v[i]];
    int rc = prepare(lhs, perm, out->dtype, s, &a, err);
    if (rc)
        return rc;
    n = 0;
    for (size_t i = 0; i < d->rhs_batching.n; i++)
        perm[n++] = d->rhs_batching.v[i];
    for (size_t i = 0; i < d->rhs_contracting.n; i++)
        perm[n++] = d->rhs_contracting.v[i];
    for (int i = 0; i < rhs->rank; i++)
        if (!ev_ints_has(d->rhs_batching, i) && !ev_ints_has(d->rhs_contracting, i))
            N *= rhs->dims[perm[n++] = i];
    if ((rc = prepare(rhs, perm, out->dtype, s, &b, err)))
        goto done;
    int64_t flat[3] = {batch, M, N};
    if ((rc = rt_array_alloc(sum_dtype(s), 3, flat, 0, &c, err)))
        goto done;
    size_t w = nf_dtype_bytes(sum_dtype(s));
    bool each = d->round_each_step && s == SUM_F32 && out->dtype != NF_DT_F32;
    for (int64_t q = 0; q < batch; q++) {
        char *pa = (char *)a.data + (size_t)(q * M * K) * w, *pb = (char *)b.data + (size_t)(q * K * N) * w, *pc = (char *)c.data + (size_t)(q * M * N) * w;
        if (s == SUM_F32 && !each) {
            gemm_f32(M, N, K, (float *)(void *)pa, (float *)(void *)pb, (float *)(void *)pc);
            continue;
        }
        for (int64_t m = 0; m < M; m++)
            for (int64_t k = 0; k < K; k++)
                axpy(s, each ? out->dtype : NF_DT_NONE, N, pc + (size_t)(m * N) * w, pa + (size_t)(m * K + k) * w, pb + (size_t)(k * N) * w);
    }
    finish(&c, out);
done:
    rt_array_done(&a);
    rt_array_done(&b);
    rt_array_done(&c);
    return rc;
}

int ev_convolution(const struct rt_array *lhs, const struct rt_array *rhs, const struct ev_conv *cv, struct rt_array *out, struct nf_error *err)
{
    enum sum_type s = sum_type_of(out->dtype);
    if (s == SUM_NONE)
        return nf_fail(err, NF_EUNSUPPORTED, "a convolution of elements %s is not supported", nf_dtype_name(out->dtype));
    int sp = (int)cv->input_spatial.n;
    struct rt_array x = {0}, k = {0}, y = {0};
    int64_t perm[RT_ARRAY_RANK_MAX];
    /* input: batch, space, features; kernel: space, input features, output features; output like the input */
    perm[0] = cv->input_batch;
    for (int i = 0; i < sp; i++)
        perm[i + 1] = cv->input_spatial.v[i];
    perm[sp + 1] = cv->input_feature;
    int rc = prepare(lhs, perm, out->dtype, s, &x, err);
    if (rc)
        return rc;
    for (int i = 0; i < sp; i++)
        perm[i] = cv->kernel_spatial.v[i];
    perm[sp] = cv->kernel_input_feature;
    perm[sp + 1] = cv->kernel_output_feature;
    if ((rc = prepare(rhs, perm, out->dtype, s, &k, err)))
        goto done;
    int64_t ydims[RT_ARRAY_RANK_MAX];
    ydims[0] = out->dims[cv->output_batch];
    for (int i = 0; i < sp; i++)
        ydims[i + 1] = out->dims[cv->output_spatial.v[i]];
    ydims[sp + 1] = out->dims[cv->output_feature];
    if ((rc = rt_array_alloc(sum_dtype(s), sp + 2, ydims, 0, &y, err)))
        goto done;
    size_t w = nf_dtype_bytes(sum_dtype(s));
    enum nf_dtype each = cv->round_each_step && s == SUM_F32 && out->dtype != NF_DT_F32 ? out->dtype : NF_DT_NONE;
    int64_t xs[RT_ARRAY_RANK_MAX], ks[RT_ARRAY_RANK_MAX];
    ev_strides(sp + 2, x.dims, xs);
    ev_strides(sp + 2, k.dims, ks);
    int64_t groups = cv->feature_groups * cv->batch_groups, outs = ydims[sp + 1] / groups, ins = k.dims[sp];
    bool depthwise = ins == 1 && outs == 1 && cv->batch_groups == 1;
    if (y.bytes && x.bytes && k.bytes) {
        int64_t at[RT_ARRAY_RANK_MAX] = {0}; /* batch, space of the output */
        char *py = y.data;
        do {
            int64_t passes = depthwise ? 1 : groups, wide = depthwise ? groups : outs; /* all groups at once, where each has one channel */
            for (int64_t g = 0; g < passes; g++, py += (size_t)wide * w) {
                int64_t b = cv->batch_groups > 1 ? g * ydims[0] + at[0] : at[0];
                int64_t feature0 = cv->feature_groups > 1 ? g * ins : 0;
                int64_t kat[RT_ARRAY_RANK_MAX] = {0};
                do {
                    int64_t xo = b * xs[0] + feature0, ko = g * outs;
                    bool inside = true;
                    for (int i = 0; i < sp && inside; i++) {
                        int64_t p = at[i + 1] * cv->strides[i] + kat[i] * cv->rhs_dilation[i] - cv->pad_low[i];
                        int64_t q = p / cv->lhs_dilation[i];
                        inside = p >= 0 && q * cv->lhs_dilation[i] == p && q < x.dims[i + 1];
                        xo += q * xs[i + 1];
                        ko += (cv->reversal && cv->reversal[i] ? k.dims[i] - 1 - kat[i] : kat[i]) * ks[i];
                    }
                    if (!inside)
                        continue;
                    const char *px = (const char *)x.data + xo * (int64_t)w, *pk = (const char *)k.data + ko * (int64_t)w;
                    if (depthwise)
                        multiply_add(s, each, groups, py, px, pk);
                    for (int64_t c = 0; c < ins && !depthwise; c++)
                        axpy(s, each, outs, py, px + (size_t)c * w, pk + c * ks[sp] * (int64_t)w);
                } while (ev_next_index(sp, k.dims, kat));
            }
        } while (ev_next_index(sp + 1, ydims, at));
    }
    /* back into the order of the output's dimensions, then to its element type */
    struct rt_array moved;
    if ((rc = rt_array_alloc(y.dtype, out->rank, out->dims, 0, &moved, err)))
        goto done;
    perm[cv->output_batch] = 0;
    for (int i = 0; i < sp; i++)
        perm[cv->output_spatial.v[i]] = i + 1;
    perm[cv->output_feature] = sp + 1;
    ev_transpose(&y, perm, &moved);
    finish(&moved, out);
    rt_array_done(&moved);
done:
    rt_array_done(&x);
    rt_array_done(&k);
    rt_array_done(&y);
    return rc;
}
