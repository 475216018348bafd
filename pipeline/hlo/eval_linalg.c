/* Cholesky factors and triangular solves, batch by batch, in long double complex arithmetic (real matrices have zero imaginary
 * parts): exact enough to serve as the reference for every element type. */
#include "pipeline/hlo/eval_kernels.h"

#include <complex.h>
#ifndef CMPLXL /* glibc has it for gcc alone */
#define CMPLXL(x, y) __builtin_complex((long double)(x), (long double)(y))
#endif
#include <math.h>
#include <stdlib.h>

typedef long double complex ldc;

static ldc load(const struct rt_array *a, int64_t i)
{
    if (a->dtype == NF_DT_C64)
        return (long double)((const float *)a->data)[2 * i] + (long double)((const float *)a->data)[2 * i + 1] * (ldc)I;
    if (a->dtype == NF_DT_C128)
        return (long double)((const double *)a->data)[2 * i] + (long double)((const double *)a->data)[2 * i + 1] * (ldc)I;
    return (long double)nf_elem_to_double(a->dtype, (const char *)a->data + (size_t)i * nf_dtype_bytes(a->dtype));
}

static void store(struct rt_array *a, int64_t i, ldc v)
{
    if (a->dtype == NF_DT_C64) {
        ((float *)a->data)[2 * i] = (float)creall(v);
        ((float *)a->data)[2 * i + 1] = (float)cimagl(v);
    } else if (a->dtype == NF_DT_C128) {
        ((double *)a->data)[2 * i] = (double)creall(v);
        ((double *)a->data)[2 * i + 1] = (double)cimagl(v);
    } else {
        double d = (double)creall(v);
        ev_store_double(1, a->dtype, &d, (char *)a->data + (size_t)i * nf_dtype_bytes(a->dtype));
    }
}

static inline ldc mul(ldc a, ldc b) /* without C's recovery of infinities, which costs ten times as much */
{
    long double ar = creall(a), ai = cimagl(a), br = creall(b), bi = cimagl(b);
    return CMPLXL(ar * br - ai * bi, ar * bi + ai * br);
}

int ev_cholesky(const struct rt_array *in, bool lower, struct rt_array *out, struct nf_error *err)
{
    int64_t n = in->dims[in->rank - 1], total = rt_array_count(in), size = n * n;
    if (total == 0)
        return NF_OK;
    ldc *l = calloc((size_t)size, sizeof(*l));
    if (!l)
        return nf_fail(err, NF_ENOMEM, "no memory for a Cholesky factor");
    for (int64_t base = 0; base < total; base += size) {
        bool good = true;
        for (int64_t j = 0; j < n; j++) { /* l: lower factor; an upper one is its adjoint */
            for (int64_t i = j; i < n; i++) {
                ldc s = lower ? load(in, base + i * n + j) : conjl(load(in, base + j * n + i));
                for (int64_t k = 0; k < j; k++)
                    s -= mul(l[i * n + k], conjl(l[j * n + k]));
                if (i == j) {
                    long double d = creall(s);
                    good = good && d > 0;
                    l[i * n + j] = sqrtl(d);
                } else {
                    l[i * n + j] = CMPLXL(creall(s) / creall(l[j * n + j]), cimagl(s) / creall(l[j * n + j]));
                }
            }
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                ldc v = 0;
                if (!good)
                    v = CMPLXL((long double)NAN, nf_dtype_is_complex(in->dtype) ? (long double)NAN : 0);
                else if (lower && j <= i)
                    v = l[i * n + j];
                else if (!lower && i <= j)
                    v = conjl(l[j * n + i]);
                if (!good && (lower ? j > i : i > j))
                    v = 0;
                store(out, base + i * n + j, v);
            }
    }
    free(l);
    return NF_OK;
}

bool ev_trsm_fits(const struct rt_array *a, const struct rt_array *b, bool left)
{
    if (a->rank < 2 || a->rank != b->rank || a->dtype != b->dtype || a->dims[a->rank - 1] != a->dims[a->rank - 2] ||
        a->dims[a->rank - 1] != b->dims[b->rank - (left ? 2 : 1)])
        return false;
    for (int i = 0; i < a->rank - 2; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

int ev_triangular_solve(const struct rt_array *a, const struct rt_array *b, const struct ev_trsm *t, struct rt_array *out, struct nf_error *err)
{
    int64_t n = a->dims[a->rank - 1], rows = b->dims[b->rank - 2], cols = b->dims[b->rank - 1], size = rows * cols;
    int64_t batches = size ? rt_array_count(b) / size : 0;
    if (rt_array_count(b) == 0)
        return NF_OK;
    ldc *m = calloc((size_t)(n * n), sizeof(*m)), *x = calloc((size_t)size, sizeof(*x));
    if (!m || !x) {
        free(m);
        free(x);
        return nf_fail(err, NF_ENOMEM, "no memory for a triangular solve");
    }
    /* Everything is brought to: m x = b with m triangular. From the right: x op(a) = b is op(a)^T x^T = b^T. */
    bool flip = t->left == (t->transpose != 0); /* m[i][j] is a[j][i] */
    bool conj = t->transpose == 2, low = t->lower != flip;
    int64_t vecs = t->left ? cols : rows;
    for (int64_t q = 0; q < batches; q++) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                ldc v = load(a, q * n * n + (flip ? j * n + i : i * n + j));
                m[i * n + j] = conj ? conjl(v) : v;
            }
        for (int64_t i = 0; i < n; i++)
            for (int64_t v = 0; v < vecs; v++)
                x[i * vecs + v] = load(b, q * size + (t->left ? i * cols + v : v * cols + i));
        for (int64_t step = 0; step < n; step++) {
            int64_t i = low ? step : n - 1 - step;
            for (int64_t k = low ? 0 : i + 1; k < (low ? i : n); k++) {
                ldc f = m[i * n + k];
                for (int64_t v = 0; v < vecs; v++)
                    x[i * vecs + v] -= mul(f, x[k * vecs + v]);
            }
            if (!t->unit_diagonal)
                for (int64_t v = 0; v < vecs; v++) {
                    ldc d = m[i * n + i];
                    x[i * vecs + v] = cimagl(d) == 0 ? CMPLXL(creall(x[i * vecs + v]) / creall(d), cimagl(x[i * vecs + v]) / creall(d)) : x[i * vecs + v] / d;
                }
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t v = 0; v < vecs; v++)
                store(out, q * size + (t->left ? i * cols + v : v * cols + i), x[i * vecs + v]);
    }
    free(m);
    free(x);
    return NF_OK;
}
