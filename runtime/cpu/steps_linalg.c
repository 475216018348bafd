/* steps_linalg.c: fft, cholesky, triangular_solve, random bits and numbers: plain C in double or complex double, rounded once. */
#include "runtime/cpu/special.h"
#include "runtime/cpu/steps.h"
#include "runtime/random.h"

#include <inttypes.h>
#include <math.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

typedef double _Complex cplx;

static cplx load_c(enum cpu_dt t, const char *base, int64_t i)
{
    struct cpu_num v = cpu_num_load(t, base + i * (int64_t)cpu_dt_bytes(t));
    return CMPLX(v.re, v.im);
}
static void store_c(enum cpu_dt t, char *base, int64_t i, cplx z)
{
    cpu_num_store(t, base + i * (int64_t)cpu_dt_bytes(t), (struct cpu_num){.re = creal(z), .im = cimag(z)});
}

/* -------------------------------------------------------------------------------------------------------------- fft */

enum { FFT, IFFT, RFFT, IRFFT };

static cplx root(int64_t k, int64_t n, int sign)
{
    double a = 2 * M_PI * (double)(k % n) / (double)n;
    return CMPLX(cos(a), sign * sin(a));
}

/* In place, n a power of two, e^(sign 2 pi i k / n). w: n/2 roots. */
static void radix2(cplx *x, int64_t n, const cplx *w)
{
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            cplx t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
    for (int64_t len = 2; len <= n; len *= 2)
        for (int64_t i = 0; i < n; i += len)
            for (int64_t k = 0; k < len / 2; k++) {
                cplx u = x[i + k], v = x[i + k + len / 2] * w[k * (n / len)];
                x[i + k] = u + v;
                x[i + k + len / 2] = u - v;
            }
}

/* Any n: powers of two directly, others by Bluestein's convolution in a power of two. tmp: fft_room(n) numbers. */
static int64_t power_above(int64_t n)
{
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}
static int64_t fft_room(int64_t n) { return (n & (n - 1)) == 0 ? n : 4 * power_above(2 * n); }

static void transform(cplx *x, int64_t n, int sign, cplx *tmp)
{
    if (n <= 1) return;
    if ((n & (n - 1)) == 0) {
        for (int64_t k = 0; k < n / 2; k++) tmp[k] = root(k, n, sign);
        radix2(x, n, tmp);
        return;
    }
    int64_t m = power_above(2 * n);
    cplx *a = tmp, *b = a + m, *w = b + m;
    for (int64_t k = 0; k < m / 2; k++) w[k] = root(k, m, -1);
    for (int64_t k = 0; k < m; k++) a[k] = b[k] = 0;
    for (int64_t k = 0; k < n; k++) {
        cplx c = root((int64_t)((__extension__ (unsigned __int128)k * k) % (uint64_t)(2 * n)), 2 * n, sign);
        a[k] = x[k] * c;
        b[k] = conj(c);
        if (k) b[m - k] = conj(c);
    }
    radix2(a, m, w);
    radix2(b, m, w);
    for (int64_t k = 0; k < m; k++) a[k] = conj(a[k] * b[k]); /* the inverse by conjugation */
    radix2(a, m, w);
    for (int64_t k = 0; k < n; k++) {
        cplx c = root((int64_t)((__extension__ (unsigned __int128)k * k) % (uint64_t)(2 * n)), 2 * n, sign);
        x[k] = conj(a[k]) / (double)m * c;
    }
}

/* attributes: type, list of lengths (of the innermost dims) */
int step_fft__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0), *o = step_out(p, s, 0);
    int64_t n = s->attr[1], type = s->attr[0];
    if (type < FFT || type > IRFFT || n < 1 || n > 3 || s->nattr != 2 + (uint64_t)n || v->rank < n || o->rank != v->rank) BAD("its lengths are not understood");
    if (cpu_dt_complex((enum cpu_dt)v->dt) == (type == RFFT) || cpu_dt_complex((enum cpu_dt)o->dt) == (type == IRFFT) || !(cpu_dt_complex((enum cpu_dt)v->dt) || v->dt == CPU_F32 || v->dt == CPU_F64) ||
        !(cpu_dt_complex((enum cpu_dt)o->dt) || o->dt == CPU_F32 || o->dt == CPU_F64))
        BAD("its operands have other types");
    for (int d = 0; d < v->rank; d++) {
        int64_t at = d - (v->rank - n), len = at >= 0 ? s->attr[2 + at] : 0, half = len / 2 + 1;
        bool last = d == v->rank - 1;
        int64_t want_in = at < 0 ? v->dims[d] : type == IRFFT && last ? half : len, want_out = at < 0 ? v->dims[d] : type == RFFT && last ? half : len;
        if (v->dims[d] != want_in || o->dims[d] != want_out || len > INT32_MAX) BAD("its shapes do not fit its lengths");
    }
    return 0;
}

int step_fft__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(x->plan, s, 0), *o = step_out(x->plan, s, 0);
    int type = (int)s->attr[0], n = (int)s->attr[1], sign = type == IFFT || type == IRFFT ? 1 : -1;
    int64_t total = 1, longest = 1, room = 1, len[3];
    if (o->count == 0) return 0;
    for (int i = 0; i < n; i++) {
        len[i] = s->attr[2 + i];
        total *= len[i];
        longest = NF_MAX(longest, len[i]);
        room = NF_MAX(room, fft_room(len[i]));
    }
    cplx *a = nf_try_alloc((size_t)(total + longest + room) * sizeof *a);
    if (!a) return nf_fail(err, NF_ENOMEM, "no memory for a transform of %" PRId64 " points", total);
    cplx *line = a + total, *tmp = line + longest;
    int64_t in_last = v->dims[v->rank - 1], out_last = o->dims[o->rank - 1], in_n = total / len[n - 1] * in_last, out_n = total / len[n - 1] * out_last;
    for (int64_t b = 0; b < o->count / out_n; b++) {
        const char *src = (const char *)x->ptr[s->in[0]] + b * in_n * (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt);
        char *dst = (char *)x->ptr[s->out[0]] + b * out_n * (int64_t)cpu_dt_bytes((enum cpu_dt)o->dt);
        for (int64_t i = 0; i < total; i++) {
            int64_t c = i % len[n - 1], r = i / len[n - 1];
            if (type != IRFFT) a[i] = load_c((enum cpu_dt)v->dt, src, i);
            else a[i] = c < in_last ? load_c((enum cpu_dt)v->dt, src, r * in_last + c) : 0; /* the mirrored half follows below */
        }
        for (int e = 0; e < n; e++) {
            int d = type == RFFT ? n - 1 - e : e; /* real lines first */
            int64_t step = 1;
            for (int k = d + 1; k < n; k++) step *= len[k];
            if (type == IRFFT && d == n - 1) /* after the outer dims: Hermitian in the last one */
                for (int64_t r = 0; r < total / len[d]; r++) {
                    cplx *row = a + r * len[d];
                    row[0] = creal(row[0]);
                    for (int64_t c = in_last; c < len[d]; c++) row[c] = conj(row[len[d] - c]);
                    if (len[d] % 2 == 0) row[len[d] / 2] = creal(row[len[d] / 2]);
                }
            for (int64_t i = 0; i < total / len[d]; i++) {
                int64_t base = i / step * step * len[d] + i % step;
                bool real = true, all_real = type == RFFT && d == n - 1;
                for (int64_t k = 0; k < len[d]; k++) {
                    line[k] = a[base + k * step];
                    real = real && cimag(line[k]) == 0 && isfinite(creal(line[k]));
                }
                transform(line, len[d], sign, tmp);
                if (real || all_real) { /* what must be real is; of numbers that are not finite, where no imaginary parts were given */
                    line[0] = creal(line[0]);
                    if (len[d] % 2 == 0) line[len[d] / 2] = creal(line[len[d] / 2]);
                }
                for (int64_t k = 0; k < len[d]; k++) a[base + k * step] = sign > 0 ? line[k] / (double)len[d] : line[k];
            }
        }
        for (int64_t i = 0; i < out_n; i++) store_c((enum cpu_dt)o->dt, dst, i, a[i / out_last * len[n - 1] + i % out_last]);
    }
    free(a);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- cholesky */

static bool matrix_type(const struct plan_value *v) { return cpu_dt_float((enum cpu_dt)v->dt) || cpu_dt_complex((enum cpu_dt)v->dt); }

/* attributes: 1 lower, 0 upper. The other triangle of the result is zero. */
int step_cholesky__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0), *o = step_out(p, s, 0);
    if (v->dt != o->dt || !same_shape(v, o) || v->rank < 2 || v->dims[v->rank - 1] != v->dims[v->rank - 2] || !matrix_type(v)) BAD("its operand is not square");
    return 0;
}

int step_cholesky__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(x->plan, s, 0);
    enum cpu_dt t = (enum cpu_dt)v->dt;
    int64_t n = v->dims[v->rank - 1], size = (int64_t)cpu_dt_bytes(t);
    bool lower = s->attr[0] != 0;
    if (v->count == 0) return 0;
    cplx *l = nf_try_alloc((size_t)(n * n) * sizeof *l);
    if (!l) return nf_fail(err, NF_ENOMEM, "no memory for a matrix of %" PRId64 " rows", n);
    for (int64_t b = 0; b < v->count / (n * n); b++) {
        const char *src = (const char *)x->ptr[s->in[0]] + b * n * n * size;
        char *dst = (char *)x->ptr[s->out[0]] + b * n * n * size;
        bool bad = false;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                cplx a = lower ? load_c(t, src, i * n + j) : conj(load_c(t, src, j * n + i));
                for (int64_t k = 0; k < j; k++) a -= l[i * n + k] * conj(l[j * n + k]);
                if (i == j) {
                    if (!(creal(a) > 0)) bad = true;
                    l[i * n + i] = sqrt(creal(a));
                } else {
                    l[i * n + j] = a / l[j * n + j];
                }
            }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                bool in = lower ? j <= i : i <= j;
                cplx z = !in ? 0 : bad ? CMPLX(NAN, cpu_dt_complex(t) ? NAN : 0) : lower ? l[i * n + j] : conj(l[j * n + i]);
                store_c(t, dst, i * n + j, z);
            }
    }
    free(l);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- triangular_solve */

/* attributes: left side, lower, unit diagonal, transposition (0 none, 1 transpose, 2 adjoint) */
int step_triangular_solve__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *a = step_in(p, s, 0), *b = step_in(p, s, 1), *o = step_out(p, s, 0);
    int r = a->rank;
    if (r < 2 || b->rank != r || !same_shape(b, o) || a->dt != b->dt || a->dt != o->dt || !matrix_type(a) || a->dims[r - 1] != a->dims[r - 2] ||
        b->dims[s->attr[0] ? r - 2 : r - 1] != a->dims[r - 1] || memcmp(a->dims, b->dims, (size_t)(r - 2) * sizeof *a->dims) != 0)
        BAD("its operands do not fit");
    return 0;
}

int step_triangular_solve__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *av = step_in(x->plan, s, 0), *bv = step_in(x->plan, s, 1);
    enum cpu_dt t = (enum cpu_dt)av->dt;
    bool left = s->attr[0] != 0, lower = s->attr[1] != 0, unit = s->attr[2] != 0;
    int64_t trans = s->attr[3], n = av->dims[av->rank - 1], rows = bv->dims[bv->rank - 2], cols = bv->dims[bv->rank - 1], size = (int64_t)cpu_dt_bytes(t);
    if (bv->count == 0) return 0;
    cplx *a = nf_try_alloc((size_t)(n * n + n) * sizeof *a);
    if (!a) return nf_fail(err, NF_ENOMEM, "no memory for a matrix of %" PRId64 " rows", n);
    cplx *y = a + n * n;
    for (int64_t m = 0; m < bv->count / (rows * cols); m++) {
        const char *as = (const char *)x->ptr[s->in[0]] + m * n * n * size, *bs = (const char *)x->ptr[s->in[1]] + m * rows * cols * size;
        char *dst = (char *)x->ptr[s->out[0]] + m * rows * cols * size;
        /* Everything as op(A) y = b with y a column: from the right, the transposed system of each row. */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                bool in = lower ? j <= i : j >= i;
                cplx e = i == j && unit ? 1 : in ? load_c(t, as, i * n + j) : 0;
                if (trans == 2) e = conj(e);
                bool flip = (trans != 0) != !left;
                a[flip ? j * n + i : i * n + j] = e;
            }
        bool down = lower == ((trans != 0) == !left); /* op(A) as laid out in a[] is lower triangular */
        for (int64_t c = 0; c < (left ? cols : rows); c++) {
            for (int64_t q = 0; q < n; q++) {
                int64_t i = down ? q : n - 1 - q;
                cplx e = left ? load_c(t, bs, i * cols + c) : load_c(t, bs, c * cols + i);
                for (int64_t k = down ? 0 : i + 1; k < (down ? i : n); k++) e -= a[i * n + k] * y[k];
                y[i] = unit ? e : e / a[i * n + i];
            }
            for (int64_t i = 0; i < n; i++) store_c(t, dst, left ? i * cols + c : c * cols + i, y[i]);
        }
    }
    free(a);
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- rng bits */

enum { RNG_DEFAULT, RNG_THREE_FRY, RNG_PHILOX };

static uint32_t rotl(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void threefry(const uint32_t key[2], uint32_t x[2])
{
    static const int rot[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
    x[0] += ks[0];
    x[1] += ks[1];
    for (uint32_t r = 0; r < 5; r++) {
        for (int i = 0; i < 4; i++) {
            x[0] += x[1];
            x[1] = rotl(x[1], rot[r % 2][i]) ^ x[0];
        }
        x[0] += ks[(r + 1) % 3];
        x[1] += ks[(r + 2) % 3] + r + 1;
    }
}

static void threefry_at(const uint32_t key[2], uint64_t counter, uint32_t w[2])
{
    w[0] = (uint32_t)counter;
    w[1] = (uint32_t)(counter >> 32);
    threefry(key, w);
}

/* attributes: algorithm; input: state (ui64, 2 or 3); outputs: new state, bits */
int step_rng_bits__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0), *state = step_out(p, s, 0), *o = step_out(p, s, 1);
    if (v->dt != CPU_U64 || !same_shape(v, state) || state->dt != CPU_U64 || v->rank != 1 || (v->count != 2 && v->count != 3)) BAD("its state has another type");
    if (s->attr[0] < RNG_DEFAULT || s->attr[0] > RNG_PHILOX || (s->attr[0] == RNG_THREE_FRY && v->count != 2)) BAD("there is no such generator");
    if (cpu_dt_complex((enum cpu_dt)o->dt) || o->dt == CPU_PRED) BAD("its result has another type");
    return 0;
}

static void put(enum cpu_dt t, char *p, uint64_t bits)
{
    if (cpu_dt_info[t].bits < 8) bits &= ((uint64_t)1 << cpu_dt_info[t].bits) - 1;
    if (t == CPU_S2 || t == CPU_S4) bits = (uint64_t)cpu_int_wrap(t, (int64_t)bits);
    memcpy(p, &bits, cpu_dt_bytes(t));
}

/* Numbers of up to 32 bits take one word each, of 64 bits two words of one block. The counter is 64 bits of the state. */
int step_rng_bits__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(x->plan, s, 0), *o = step_out(x->plan, s, 1);
    enum cpu_dt t = (enum cpu_dt)o->dt;
    int64_t n = o->count, size = (int64_t)cpu_dt_bytes(t);
    uint64_t st[3] = {0};
    char *dst = x->ptr[s->out[1]];
    (void)err;
    memcpy(st, x->ptr[s->in[0]], (size_t)v->bytes);
    if (s->attr[0] == RNG_THREE_FRY) {
        uint32_t key[2] = {(uint32_t)st[0], (uint32_t)(st[0] >> 32)}, w[2];
        uint64_t counter = st[1];
        if (size == 8) {
            for (int64_t i = 0; i < n; i++) {
                threefry_at(key, counter + (uint64_t)i, w);
                put(t, dst + i * 8, (uint64_t)w[1] << 32 | w[0]);
            }
            st[1] = counter + (uint64_t)n;
        } else if (o->rank == 0) {
            threefry_at(key, counter, w);
            put(t, dst, w[0]);
            st[1] = counter + 1;
        } else {
            /* Pairs of words are neighbours along the first even dim, else along the longest. */
            int split = -1;
            for (int d = 0; d < o->rank && split < 0; d++)
                if (o->dims[d] % 2 == 0) split = d;
            for (int d = 0; d < o->rank && o->dims[split < 0 ? 0 : split] % 2; d++)
                if (split < 0 || o->dims[d] > o->dims[split]) split = d;
            int64_t outer = 1, inner = 1, len = o->dims[split], half = (len + 1) / 2;
            for (int d = 0; d < split; d++) outer *= o->dims[d];
            for (int d = split + 1; d < o->rank; d++) inner *= o->dims[d];
            for (int64_t a = 0; a < outer; a++)
                for (int64_t h = 0; h < half; h++)
                    for (int64_t i = 0; i < inner; i++) {
                        threefry_at(key, counter + (uint64_t)((a * half + h) * inner + i), w);
                        put(t, dst + ((a * len + 2 * h) * inner + i) * size, w[0]);
                        if (2 * h + 1 < len) put(t, dst + ((a * len + 2 * h + 1) * inner + i) * size, w[1]);
                    }
            st[1] = counter + (uint64_t)(outer * half * inner);
        }
    } else {
        int per = size == 8 ? 2 : 4;
        if (v->count == 2) st[2] = st[0]; /* two words: the key is the counter's upper half too */
        for (int64_t i = 0; i < n; i += per) {
            __extension__ unsigned __int128 counter = st[1] | (__extension__ (unsigned __int128)st[2] << 64);
            counter += (uint64_t)(i / per);
            uint32_t c[4];
            rt_philox(st[0], (uint64_t)counter, (uint64_t)(counter >> 64), c);
            for (int k = 0; k < per && i + k < n; k++) put(t, dst + (i + k) * size, per == 2 ? (uint64_t)c[2 * k + 1] << 32 | c[2 * k] : c[k]);
        }
        __extension__ unsigned __int128 counter = st[1] | (__extension__ (unsigned __int128)st[2] << 64);
        counter += (uint64_t)((n + per - 1) / per);
        st[1] = (uint64_t)counter;
        st[2] = (uint64_t)(counter >> 64);
    }
    memcpy(x->ptr[s->out[0]], st, (size_t)v->bytes);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- rng */

/* attributes: 1 normal, 0 uniform; inputs: two numbers of the result's type. Each run is the device's next draw. */
int step_rng__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *a = step_in(p, s, 0), *b = step_in(p, s, 1), *o = step_out(p, s, 0);
    if (a->dt != o->dt || b->dt != o->dt || a->count != 1 || b->count != 1) BAD("its bounds have another type");
    if (s->attr[0] < 0 || s->attr[0] > 1 || (s->attr[0] == 1 && !cpu_dt_float((enum cpu_dt)o->dt))) BAD("there is no such distribution");
    return 0;
}

struct rng_job {
    enum cpu_dt t;
    bool normal;
    uint64_t seed;
    struct cpu_num a, b;
    char *dst;
};

static void rng_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    enum { CHUNK = 256 };
    const struct rng_job *j = ctx;
    double d[CHUNK];
    uint64_t u[CHUNK];
    bool floats = cpu_dt_float(j->t);
    (void)thread;
    for (int64_t at = lo; at < hi; at += CHUNK) {
        int64_t m = NF_MIN((int64_t)CHUNK, hi - at);
        if (floats) rt_random_floats(j->seed, j->normal, cpu_dt_base(j->t), j->a.re, j->b.re, at, m, d);
        else rt_random_ints(j->seed, j->a.i, j->b.i, at, m, u);
        for (int64_t i = 0; i < m; i++) {
            struct cpu_num x = floats ? (struct cpu_num){.re = d[i]} : cpu_num_convert(CPU_U64, j->t, (struct cpu_num){.i = (int64_t)u[i]});
            cpu_num_store(j->t, j->dst + (at + i) * (int64_t)cpu_dt_bytes(j->t), x);
        }
    }
}

int step_rng__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *o = step_out(x->plan, s, 0);
    enum cpu_dt t = (enum cpu_dt)o->dt;
    struct rng_job j = {.t = t, .normal = s->attr[0] == 1, .dst = x->ptr[s->out[0]]};
    (void)err;
    j.seed = rt_random_seed(x->draws++, x->replica * x->partitions + x->partition);
    j.a = cpu_num_load(t, x->ptr[s->in[0]]);
    j.b = cpu_num_load(t, x->ptr[s->in[1]]);
    if (t == CPU_U64 && j.a.i < 0) j.a.i = INT64_MAX; /* bounds are signed numbers of 64 bits: larger ones are the largest of these */
    if (t == CPU_U64 && j.b.i < 0) j.b.i = INT64_MAX;
    cpu_pool_for(o->count, 1024, rng_chunk, &j);
    return 0;
}
