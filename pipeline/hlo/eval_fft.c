/* Discrete Fourier transforms of any length, in long double: recursion over the prime factors, Bluestein's chirp for prime factors
 * that are too large to be summed directly. IFFT and IRFFT are scaled by 1/n. */
#include "pipeline/hlo/eval_kernels.h"

#include <math.h>
#include <stdlib.h>

typedef long double real;
struct cplx {
    real re, im;
};

#define PI 3.14159265358979323846264338327950288L
#define DIRECT_MAX 64

static inline struct cplx mul(struct cplx a, struct cplx b) { return (struct cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

/* exp(sign * 2 pi i k / n), exact in the eighth turns */
static struct cplx turn(int64_t k, int64_t n, int sign)
{
    k %= n;
    int64_t eighth = 8 * k / n; /* octant, then the angle inside it is at most pi/4 */
    real re, im;
    switch (eighth) {
    case 0: re = cosl(2 * PI * (real)k / (real)n), im = sinl(2 * PI * (real)k / (real)n); break;
    case 1: case 2: {
        real a = 2 * PI * ((real)(4 * k - n) / (real)(4 * n));
        re = -sinl(a), im = cosl(a);
        break;
    }
    case 3: case 4: {
        real a = 2 * PI * ((real)(2 * k - n) / (real)(2 * n));
        re = -cosl(a), im = -sinl(a);
        break;
    }
    case 5: case 6: {
        real a = 2 * PI * ((real)(4 * k - 3 * n) / (real)(4 * n));
        re = sinl(a), im = -cosl(a);
        break;
    }
    default: {
        real a = 2 * PI * ((real)(k - n) / (real)n);
        re = cosl(a), im = sinl(a);
    }
    }
    return (struct cplx){re, sign < 0 ? -im : im};
}

struct plan {
    int64_t n;
    int sign;
    struct cplx *roots;    /* n of them */
    struct cplx *scratch;  /* n */
    /* Bluestein, for n with a prime factor over DIRECT_MAX */
    int64_t m;             /* power of two >= 2n - 1, 0 unused */
    struct cplx *chirp, *filter, *work;
    struct plan *sub, *inverse;
};

static void plan_free(struct plan *p)
{
    if (!p)
        return;
    free(p->roots);
    free(p->scratch);
    free(p->chirp);
    free(p->filter);
    free(p->work);
    plan_free(p->sub);
    plan_free(p->inverse);
    free(p);
}

static int64_t smallest_factor(int64_t n)
{
    for (int64_t f = 2; f * f <= n; f++)
        if (n % f == 0)
            return f;
    return n;
}

static void transform(struct plan *p, struct cplx *data);

/* Depth is at most 2: a chirp's transforms have a power of two as length. */
static struct plan *plan_new(int64_t n, int sign)
{
    struct plan *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->n = n;
    p->sign = sign;
    int64_t largest = 1;
    for (int64_t r = n; r > 1;) {
        int64_t f = smallest_factor(r);
        largest = NF_MAX(largest, f);
        r /= f;
    }
    if (largest <= DIRECT_MAX) {
        p->roots = calloc((size_t)n, sizeof(struct cplx));
        p->scratch = calloc((size_t)n, sizeof(struct cplx));
        if (!p->roots || !p->scratch)
            goto fail;
        for (int64_t k = 0; k < n; k++)
            p->roots[k] = turn(k, n, sign);
        return p;
    }
    for (p->m = 1; p->m < 2 * n - 1; p->m *= 2)
        ;
    p->chirp = calloc((size_t)n, sizeof(struct cplx));
    p->filter = calloc((size_t)p->m, sizeof(struct cplx));
    p->work = calloc((size_t)p->m, sizeof(struct cplx));
    p->sub = plan_new(p->m, -1);
    p->inverse = plan_new(p->m, 1);
    if (!p->chirp || !p->filter || !p->work || !p->sub || !p->inverse)
        goto fail;
    for (int64_t k = 0, sq = 0; k < n; k++) { /* sq = k^2 mod 2n */
        p->chirp[k] = turn(sq, 2 * n, sign);
        struct cplx c = {p->chirp[k].re, -p->chirp[k].im};
        p->filter[k] = c;
        if (k)
            p->filter[p->m - k] = c;
        sq = (sq + 2 * k + 1) % (2 * n);
    }
    transform(p->sub, p->filter);
    return p;
fail:
    plan_free(p);
    return NULL;
}

/* out[0..n) = DFT of in[0], in[stride], ...; recursion by the factors, at most 62 deep. */
static void recurse(const struct plan *p, int64_t n, const struct cplx *in, int64_t stride, struct cplx *out)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    int64_t f = smallest_factor(n), m = n / f, step = p->n / n;
    for (int64_t j = 0; j < f; j++)
        recurse(p, m, in + j * stride, stride * f, out + j * m);
    struct cplx t[DIRECT_MAX];
    for (int64_t k = 0; k < m; k++) {
        for (int64_t j = 0; j < f; j++)
            t[j] = mul(out[j * m + k], p->roots[(j * k * step) % p->n]);
        for (int64_t q = 0; q < f; q++) {
            struct cplx s = t[0];
            for (int64_t j = 1; j < f; j++) {
                struct cplx v = mul(t[j], p->roots[(j * q % f) * (p->n / f)]);
                s.re += v.re;
                s.im += v.im;
            }
            out[q * m + k] = s;
        }
    }
}

static void transform(struct plan *p, struct cplx *data)
{
    if (!p->m) {
        memcpy(p->scratch, data, (size_t)p->n * sizeof(*data));
        recurse(p, p->n, p->scratch, 1, data);
        return;
    }
    memset(p->work, 0, (size_t)p->m * sizeof(*p->work));
    for (int64_t k = 0; k < p->n; k++)
        p->work[k] = mul(data[k], p->chirp[k]);
    transform(p->sub, p->work);
    for (int64_t k = 0; k < p->m; k++)
        p->work[k] = mul(p->work[k], p->filter[k]);
    transform(p->inverse, p->work);
    for (int64_t k = 0; k < p->n; k++) {
        struct cplx v = mul(p->work[k], p->chirp[k]);
        data[k] = (struct cplx){v.re / (real)p->m, v.im / (real)p->m};
    }
}

static void load(const struct rt_array *a, int64_t i, struct cplx *ret)
{
    if (a->dtype == NF_DT_C64)
        *ret = (struct cplx){((const float *)a->data)[2 * i], ((const float *)a->data)[2 * i + 1]};
    else if (a->dtype == NF_DT_C128)
        *ret = (struct cplx){((const double *)a->data)[2 * i], ((const double *)a->data)[2 * i + 1]};
    else
        *ret = (struct cplx){nf_elem_to_double(a->dtype, (const char *)a->data + (size_t)i * nf_dtype_bytes(a->dtype)), 0};
}

static void store(struct rt_array *a, int64_t i, struct cplx v)
{
    double d = (double)v.re;
    if (a->dtype == NF_DT_C64) {
        ((float *)a->data)[2 * i] = (float)v.re;
        ((float *)a->data)[2 * i + 1] = (float)v.im;
    } else if (a->dtype == NF_DT_C128) {
        ((double *)a->data)[2 * i] = d;
        ((double *)a->data)[2 * i + 1] = (double)v.im;
    } else if (a->dtype == NF_DT_F32) {
        ((float *)a->data)[i] = (float)v.re;
    } else {
        ev_store_double(1, a->dtype, &d, (char *)a->data + (size_t)i * nf_dtype_bytes(a->dtype));
    }
}

int ev_fft(const struct rt_array *in, enum ev_fft_kind kind, const int64_t *length, size_t n, struct rt_array *out, struct nf_error *err)
{
    if (out->bytes == 0)
        return NF_OK;
    int r = in->rank, first = r - (int)n, sign = kind == EV_FFT || kind == EV_RFFT ? -1 : 1;
    /* the complex box that is transformed: the output's shape, but lengths of fft_length in the transformed dimensions */
    int64_t dims[RT_ARRAY_RANK_MAX], count = 1, longest = 1;
    for (int i = 0; i < r; i++) {
        dims[i] = i >= first ? length[i - first] : out->dims[i];
        count *= dims[i];
        longest = NF_MAX(longest, dims[i]);
    }
    struct cplx *box = calloc((size_t)count, sizeof(*box)), *line = calloc((size_t)longest, sizeof(*line));
    struct plan *plan = NULL;
    int rc = NF_OK;
    if (!box || !line) {
        rc = nf_fail(err, NF_ENOMEM, "no memory for a Fourier transform of %lld elements", (long long)count);
        goto done;
    }
    int64_t index[RT_ARRAY_RANK_MAX] = {0}, is[RT_ARRAY_RANK_MAX], k = 0;
    ev_strides(r, in->dims, is);
    do { /* fill; of a half spectrum (IRFFT) the rest follows from symmetry in the last dimension, after the others are done */
        int64_t at = 0;
        bool have = true;
        for (int i = 0; i < r; i++) {
            have = have && index[i] < in->dims[i];
            at += index[i] * is[i];
        }
        if (have)
            load(in, at, &box[k]);
        k++;
    } while (ev_next_index(r, dims, index));
    for (int d0 = first; d0 < r; d0++) {
        /* the last dimension goes first for real input, last for real output */
        int d = kind == EV_IRFFT ? d0 : first + (r - 1 - d0);
        int64_t len = dims[d], stride = 1;
        for (int i = d + 1; i < r; i++)
            stride *= dims[i];
        plan = plan_new(len, sign);
        if (!plan) {
            rc = nf_fail(err, NF_ENOMEM, "no memory for a Fourier transform");
            goto done;
        }
        for (int64_t base = 0; base < count; base++) {
            if (base / stride % len)
                continue;
            for (int64_t i = 0; i < len; i++)
                line[i] = box[base + i * stride];
            if (kind == EV_IRFFT && d == r - 1) {
                line[0].im = 0;
                if (len % 2 == 0)
                    line[len / 2].im = 0;
                for (int64_t i = len / 2 + 1; i < len; i++)
                    line[i] = (struct cplx){line[len - i].re, -line[len - i].im};
            }
            transform(plan, line);
            if (kind == EV_RFFT && d == r - 1) { /* real, also of what is not finite */
                line[0].im = 0;
                if (len % 2 == 0)
                    line[len / 2].im = 0;
            }
            for (int64_t i = 0; i < len; i++)
                box[base + i * stride] = sign > 0 ? (struct cplx){line[i].re / (real)len, line[i].im / (real)len} : line[i];
        }
        plan_free(plan);
        plan = NULL;
    }
    int64_t bs[RT_ARRAY_RANK_MAX];
    ev_strides(r, dims, bs);
    memset(index, 0, sizeof(index));
    k = 0;
    do {
        int64_t at = 0;
        for (int i = 0; i < r; i++)
            at += index[i] * bs[i];
        store(out, k++, box[at]);
    } while (ev_next_index(r, out->dims, index));
done:
    free(box);
    free(line);
    plan_free(plan);
    return rc;
}
