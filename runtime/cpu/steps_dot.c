/* steps_dot.c: products of tensors. One step takes any layout: batch, row, column and contracted dims with strides for each
 * operand, so transposed operands, results in another order and the windows of a convolution need no copies.
 *
 * f32 and narrower floats go through gemm in f32, f64 in f64, integers modulo 2^32 or 2^64, complex numbers as products of twice as many
 * reals. Tiny products of f32 and complex numbers are plain sums in order of k with one rounding an operation, as the evaluator and XLA make
 * them: what is recorded of such was compared to a few units. */
#include "runtime/cpu/dot.h"
#include "runtime/cpu/gemm.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* Of what is walked: beyond any memory, and tables of it still have a size. */
#define TOTAL_MAX ((int64_t)1 << 48)

static void read_dims(struct attrs *a, struct dot_dims *d, bool in_a, bool in_b, bool in_c)
{
    int64_t n = attrs_next(a);
    bool in[3] = {in_a, in_b, in_c};
    if (n < 0 || n > PLAN_RANK_MAX) {
        a->failed = true;
        n = 0;
    }
    d->n = (int)n;
    d->total = 1;
    for (int i = 0; i < d->n; i++) {
        d->extent[i] = attrs_next(a);
        if (d->extent[i] < 0 || __builtin_mul_overflow(d->total, d->extent[i], &d->total) || d->total > TOTAL_MAX) a->failed = true;
        for (int k = 0; k < 3; k++) d->s[k][i] = in[k] ? attrs_next(a) : 0;
    }
}

bool dot_read(const struct plan_step *s, uint32_t from, uint32_t count, struct dot *d)
{
    struct attrs a = {.s = s, .at = from};
    if (from > s->nattr || count > s->nattr - from) return false;
    for (int i = 0; i < 3; i++) d->offset[i] = attrs_next(&a);
    read_dims(&a, &d->batch, true, true, true);
    read_dims(&a, &d->m, true, false, true);
    read_dims(&a, &d->n, false, true, true);
    read_dims(&a, &d->k, true, true, false);
    return !a.failed && a.at == from + count;
}

static bool reach(const struct dot_dims *d, int operand, int64_t *low, int64_t *high)
{
    for (int i = 0; i < d->n; i++) {
        int64_t span;
        if (__builtin_mul_overflow(d->extent[i] - 1, d->s[operand][i], &span)) return false;
        if (__builtin_add_overflow(span < 0 ? *low : *high, span, span < 0 ? low : high)) return false;
    }
    return true;
}

bool dot_inside(const struct dot *d, int o, int64_t count)
{
    int64_t low = d->offset[o], high = low;
    return reach(&d->batch, o, &low, &high) && (o == DOT_B || reach(&d->m, o, &low, &high)) && (o == DOT_A || reach(&d->n, o, &low, &high)) &&
           (o == DOT_C || reach(&d->k, o, &low, &high)) && low >= 0 && high < count;
}

bool dot_in_order(const struct dot *d, int operand)
{
    const struct dot_dims *by[] = {operand == DOT_C ? &d->n : &d->k, &d->m, &d->batch};
    int64_t next = 1;
    for (size_t c = 0; c < NF_ARRAY_LEN(by); c++)
        for (int i = by[c]->n - 1; i >= 0; i--) {
            if (by[c]->s[operand][i] != next) return false;
            next *= by[c]->extent[i];
        }
    return d->offset[operand] == 0;
}

/* attributes: a product (dot.h) */
int step_dot__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct dot d;
    if (!dot_read(s, 0, s->nattr, &d)) BAD("its dims are not understood");
    if (d.batch.total == 0 || d.m.total == 0 || d.n.total == 0) return 0;
    for (int o = 0; o < 3; o++) {
        if (o < 2 && d.k.total == 0) continue;
        const struct plan_value *v = o < 2 ? step_in(p, s, (uint32_t)o) : step_out(p, s, 0);
        if (!dot_inside(&d, o, v->count)) BAD("operand %d reaches outside its value", o);
    }
    int64_t results;
    if (__builtin_mul_overflow(d.m.total, d.n.total, &results) || __builtin_mul_overflow(results, d.batch.total, &results) || results > step_out(p, s, 0)->count)
        BAD("it has more results than its value elements");
    return 0;
}

void dot_table(const struct dot_dims *d, int operand, int64_t *out)
{
    int64_t at = 1;
    out[0] = 0;
    for (int i = 0; i < d->n; i++) { /* outermost first: the table so far is repeated for every index of the next dim */
        const int64_t n = d->extent[i], stride = d->s[operand][i];
        for (int64_t j = at - 1; j >= 0; j--) {
            int64_t base = out[j], *to = out + j * n;
            for (int64_t x = 0; x < n; x++) to[x] = base + x * stride;
        }
        at *= n;
    }
}

enum { WIDEN_MAX = 1 << 22 };

struct dot_job {
    struct gemm g;
    int64_t *batch[3];
    int64_t rows, cols, row_blocks, col_blocks;
    char *scratch;
    size_t stride;
};

static void dot_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct dot_job *j = ctx;
    for (int64_t t = lo; t < hi; t++) {
        int64_t cb = t % j->col_blocks, rb = t / j->col_blocks % j->row_blocks, b = t / j->col_blocks / j->row_blocks;
        struct gemm g = j->g;
        g.a = (const char *)g.a + j->batch[0][b] * (int64_t)cpu_dt_bytes(g.a_type);
        g.b = (const char *)g.b + j->batch[1][b] * (int64_t)cpu_dt_bytes(g.b_type);
        g.c = (char *)g.c + j->batch[2][b] * (int64_t)cpu_dt_bytes(g.c_type);
        gemm_run(&g, rb * j->rows, NF_MIN((rb + 1) * j->rows, g.m), cb * j->cols, NF_MIN((cb + 1) * j->cols, g.n), j->scratch + (size_t)thread * j->stride);
    }
}

/* What the products of a result of type t are added in. */
static enum cpu_dt sum_type(enum cpu_dt t)
{
    if (cpu_dt_complex(t) || t == CPU_F64) return t;
    return cpu_dt_float(t) ? CPU_F32 : cpu_dt_info[t].bits <= 32 ? CPU_U32 : CPU_U64;
}

/* The same bits for gemm. */
static bool is_sum_type(enum cpu_dt t, enum cpu_dt acc)
{
    return t == acc || (acc == CPU_U32 && t == CPU_S32) || (acc == CPU_U64 && t == CPU_S64);
}

/* n elements at src, of type t, as the type of the sums. */
static void widen(enum cpu_dt t, const char *src, enum cpu_dt acc, char *dst, int64_t n)
{
    if (cpu_dt_float(t) && t != CPU_F64 && acc == CPU_F32) {
        cpu_to_f32(t, src, (float *)(void *)dst, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        cpu_num_store(acc, dst + i * (int64_t)cpu_dt_bytes(acc), cpu_num_convert(t, acc, cpu_num_load(t, src + i * (int64_t)cpu_dt_bytes(t))));
}

/* n sums as elements of type t at dst; of i1 they count what is true. */
static void narrow(enum cpu_dt acc, const char *src, enum cpu_dt t, char *dst, int64_t n)
{
    if (acc == CPU_F32) {
        cpu_from_f32(t, (const float *)(const void *)src, dst, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        cpu_num_store(t, dst + i * (int64_t)cpu_dt_bytes(t), cpu_num_convert(acc, t, cpu_num_load(acc, src + i * (int64_t)cpu_dt_bytes(acc))));
}

enum { TINY = 2048 }; /* multiplications */

#define PLAIN(type, name, width, term)                                                                                            \
    static void name(const struct dot_job *j, int64_t batches)                                                                    \
    {                                                                                                                             \
        const struct gemm *g = &j->g;                                                                                             \
        for (int64_t t = 0; t < batches; t++)                                                                                     \
            for (int64_t m = 0; m < g->m; m++)                                                                                    \
                for (int64_t n = 0; n < g->n; n++) {                                                                              \
                    const type *a = (const type *)g->a + width * (j->batch[0][t] + g->am[m]);                                     \
                    const type *b = (const type *)g->b + width * (j->batch[1][t] + g->bn[n]);                                     \
                    type sum[2] = {0}, *c = (type *)g->c + width * (j->batch[2][t] + g->cm[m] + g->cn[n]);                        \
                    for (int64_t k = 0; k < g->k; k++) {                                                                          \
                        const type *x = a + width * g->ak[k], *y = b + width * g->bk[k];                                          \
                        term;                                                                                                     \
                    }                                                                                                             \
                    memcpy(c, sum, width * sizeof *c);                                                                            \
                }                                                                                                                 \
    }
#define COMPLEX_TERM sum[0] += x[0] * y[0] - x[1] * y[1], sum[1] += x[0] * y[1] + x[1] * y[0]
PLAIN(float, plain_f32, 1, sum[0] += x[0] * y[0])
PLAIN(float, plain_c64, 2, COMPLEX_TERM)
PLAIN(double, plain_c128, 2, COMPLEX_TERM)

/* Complex numbers, as pairs of reals: a row (re, im) of A times
 *     ( re  im)
 *     (-im  re)
 * of B is a pair of C. A and C are used where they lie, B is written out; ret: what holds it and the tables, to be freed. */
static void *as_reals(struct dot_job *j, int64_t batches)
{
    struct gemm *g = &j->g;
    const int64_t m = g->m, n = g->n, k = g->k;
    const bool wide = g->c_type == CPU_C128;
    const int64_t size = wide ? 8 : 4, tables = (m * 2 + k * 4 + n * 4 + batches * 3) * 8;
    int64_t each, all;
    if (__builtin_mul_overflow(n, k, &each) || __builtin_mul_overflow(each, 4, &each) || __builtin_mul_overflow(each, batches, &all) ||
        __builtin_mul_overflow(all, size, &all) || __builtin_add_overflow(all, tables, &all))
        return NULL; /* more than there is */
    char *mem = nf_try_alloc((size_t)all + 1);
    if (!mem) return NULL;
    int64_t *am = (int64_t *)(void *)mem, *cm = am + m, *ak = cm + m, *bk = ak + 2 * k, *bn = bk + 2 * k, *cn = bn + 2 * n, *batch[3] = {cn + 2 * n};
    batch[1] = batch[0] + batches;
    batch[2] = batch[1] + batches;
    char *b = mem + tables;
    for (int64_t t = 0; t < batches; t++) {
        batch[0][t] = 2 * j->batch[0][t];
        batch[1][t] = t * each;
        batch[2][t] = 2 * j->batch[2][t];
        for (int64_t x = 0; x < k; x++)
            for (int64_t y = 0; y < n; y++) {
                const char *from = (const char *)g->b + (j->batch[1][t] + g->bk[x] + g->bn[y]) * 2 * size;
                for (int row = 0; row < 2; row++) {
                    char *to = b + (t * each + (2 * x + row) * 2 * n + 2 * y) * size;
                    memcpy(to, from + (row ? size : 0), (size_t)size);
                    memcpy(to + size, from + (row ? 0 : size), (size_t)size);
                    if (row) to[size - 1] = (char)(to[size - 1] ^ 0x80); /* the sign: little-endian */
                }
            }
    }
    for (int64_t i = 0; i < m; i++) {
        am[i] = 2 * g->am[i];
        cm[i] = 2 * g->cm[i];
    }
    for (int64_t i = 0; i < 2 * k; i++) {
        ak[i] = 2 * g->ak[i / 2] + i % 2;
        bk[i] = i * 2 * n;
    }
    for (int64_t i = 0; i < 2 * n; i++) {
        bn[i] = i;
        cn[i] = 2 * g->cn[i / 2] + i % 2;
    }
    enum cpu_dt part = wide ? CPU_F64 : CPU_F32;
    *g = (struct gemm){part, part, part, g->a, b, g->c, m, 2 * n, 2 * k, am, ak, bk, bn, cm, cn};
    memcpy(j->batch, batch, sizeof batch);
    return mem;
}

int step_dot__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct dot d;
    const struct plan *p = x->plan;
    if (!dot_read(s, 0, s->nattr, &d)) BAD("dot: its dims are not understood");
    if (d.batch.total == 0 || d.m.total == 0 || d.n.total == 0) return 0;
    enum cpu_dt type[3] = {(enum cpu_dt)step_in(p, s, 0)->dt, (enum cpu_dt)step_in(p, s, 1)->dt, (enum cpu_dt)step_out(p, s, 0)->dt};
    const char *base[2];
    for (int o = 0; o < 2; o++) base[o] = (const char *)x->ptr[s->in[o]] + d.offset[o] * (int64_t)cpu_dt_bytes(type[o]);
    char *c = (char *)x->ptr[s->out[0]] + d.offset[2] * (int64_t)cpu_dt_bytes(type[2]);
    int64_t M = d.m.total, N = d.n.total, K = d.k.total, B = d.batch.total;
    int64_t *mem = nf_try_alloc((size_t)(2 * M + 2 * N + 2 * K + 3 * B + 8) * 8);
    if (!mem) return nf_fail(err, NF_ENOMEM, "no memory for the tables of a product");
    int64_t *am = mem, *cm = am + M, *bn = cm + M, *cn = bn + N, *ak = cn + N, *bk = ak + K + 1, *bt[3] = {bk + K + 1, bk + K + 1 + B, bk + K + 1 + 2 * B};
    dot_table(&d.m, 0, am);
    dot_table(&d.m, 2, cm);
    dot_table(&d.n, 1, bn);
    dot_table(&d.n, 2, cn);
    ak[0] = bk[0] = 0;
    if (K) dot_table(&d.k, 0, ak);
    if (K) dot_table(&d.k, 1, bk);
    for (int o = 0; o < 3; o++) dot_table(&d.batch, o, bt[o]);
    int rc = 0;
    const enum cpu_dt acc = sum_type(type[2]);
    struct dot_job j = {.scratch = x->scratch, .stride = x->scratch_stride};
    /* Operands that gemm does not take, widened whole; a result of another type than the sums. */
    char *temp[3] = {NULL, NULL, NULL};
    void *reals = NULL;
    for (int o = 0; o < 2; o++) {
        const struct plan_value *v = step_in(p, s, (uint32_t)o);
        /* Narrow floats of moderate size are widened at once, which is faster than lane by lane while packing. */
        bool now = cpu_dt_small(type[o]) && acc == CPU_F32 && v->count <= WIDEN_MAX;
        bool packs = cpu_dt_float(acc) && cpu_dt_float(type[o]) && (type[o] != CPU_F64 || acc == CPU_F64) && !now;
        if (packs || is_sum_type(type[o], acc)) continue;
        temp[o] = nf_try_alloc((size_t)v->count * cpu_dt_bytes(acc) + 1);
        if (!temp[o]) goto nomem;
        widen(type[o], x->ptr[s->in[o]], acc, temp[o], v->count);
        type[o] = acc;
        base[o] = temp[o] + d.offset[o] * (int64_t)cpu_dt_bytes(acc);
    }
    if (!cpu_dt_float(acc) && !cpu_dt_complex(acc)) type[0] = type[1] = acc;
    j.g = (struct gemm){type[0], type[1], acc, base[0], base[1], c, M, N, K, am, ak, bk, bn, cm, cn};
    memcpy(j.batch, bt, sizeof bt);
    const bool simple = cpu_dt_complex(acc) || (type[0] == CPU_F32 && type[1] == CPU_F32 && type[2] == CPU_F32);
    if (simple && B * M * N <= TINY && K <= TINY && B * M * N * K <= TINY) {
        (acc == CPU_F32 ? plain_f32 : acc == CPU_C64 ? plain_c64 : plain_c128)(&j, B);
        goto out;
    }
    if (cpu_dt_complex(acc)) {
        if (!(reals = as_reals(&j, B))) goto nomem;
    } else if (!is_sum_type(type[2], acc)) { /* C in rows of sums, converted at the end */
        temp[2] = nf_try_alloc((size_t)(M * N * B) * cpu_dt_bytes(acc) + 1);
        int64_t *flat = nf_try_alloc((size_t)(M + N + B) * 8);
        if (!temp[2] || !flat) {
            free(flat);
            goto nomem;
        }
        for (int64_t i = 0; i < M; i++) flat[i] = i * N;
        for (int64_t i = 0; i < N; i++) flat[M + i] = i;
        for (int64_t i = 0; i < B; i++) flat[M + N + i] = i * M * N;
        j.g.c = temp[2];
        j.g.cm = flat;
        j.g.cn = flat + M;
        j.batch[2] = flat + M + N;
    } else if (N > 1 && cn[1] != cn[0] + 1 && M > 1 && cm[1] == cm[0] + 1) { /* C by columns: the transposed product */
        j.g = (struct gemm){type[1], type[0], acc, base[1], base[0], c, N, M, K, bn, bk, ak, am, cn, cm};
        j.batch[0] = bt[1];
        j.batch[1] = bt[0];
    }
    gemm_block(&j.g, cpu_pool_threads(), &j.rows, &j.cols);
    j.row_blocks = (j.g.m + j.rows - 1) / j.rows;
    j.col_blocks = (j.g.n + j.cols - 1) / j.cols;
    int64_t work = j.rows * j.cols * (j.g.k + 1);
    cpu_pool_for(B * j.row_blocks * j.col_blocks, work < 65536 ? 65536 / work + 1 : 1, dot_chunk, &j);
    if (temp[2]) {
        int64_t size = (int64_t)cpu_dt_bytes(type[2]), sum_size = (int64_t)cpu_dt_bytes(acc);
        bool flat = true;
        for (int64_t n = 1; n < N; n++) flat = flat && cn[n] == cn[0] + n;
        for (int64_t r = 0; r < B * M; r++)
            for (int64_t n = 0; n < N; n += flat ? N : 1)
                narrow(acc, temp[2] + (r * N + n) * sum_size, type[2], c + (bt[2][r / M] + cm[r % M] + cn[n]) * size, flat ? N : 1);
        free((void *)(uintptr_t)j.g.cm);
    }
    goto out;
nomem:
    rc = nf_fail(err, NF_ENOMEM, "no memory for a product of %" PRId64 " x %" PRId64 " x %" PRId64, M, N, K);
out:
    for (int o = 0; o < 3; o++) free(temp[o]);
    free(reals);
    free(mem);
    return rc;
}
