/* steps_dot.c: products of tensors. One step takes any layout: batch, row, column and contracted dims with strides for each
 * operand, so transposed operands, results in another order and the windows of a convolution need no copies.
 *
 * f32 and narrower floats go through gemm in f32, f64 in f64; integers (exact), complex numbers and tiny products in f32 are plain
 * sums in order of k, one rounding an operation. */
#include "runtime/cpu/dot.h"
#include "runtime/cpu/gemm.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

static void read_dims(struct attrs *a, struct dot_dims *d, bool in_a, bool in_b, bool in_c)
{
    int64_t n = attrs_next(a);
    bool in[3] = {in_a, in_b, in_c};
    if (n < 0 || n > PLAN_RANK_MAX) {
        a->failed = true;
        n = 0;
    }
    memset(d, 0, sizeof *d);
    d->n = (int)n;
    d->total = 1;
    for (int i = 0; i < d->n; i++) {
        d->extent[i] = attrs_next(a);
        if (d->extent[i] < 0 || __builtin_mul_overflow(d->total, d->extent[i], &d->total)) a->failed = true;
        for (int k = 0; k < 3; k++)
            if (in[k]) d->s[k][i] = attrs_next(a);
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
    return 0;
}

void dot_table(const struct dot_dims *d, int operand, int64_t *out)
{
    int64_t at = 1;
    out[0] = 0;
    for (int i = 0; i < d->n; i++) { /* outermost first: the table so far is repeated for every index of the next dim */
        for (int64_t j = at - 1; j >= 0; j--) {
            int64_t base = out[j];
            for (int64_t x = d->extent[i] - 1; x >= 0; x--) out[j * d->extent[i] + x] = base + x * d->s[operand][i];
        }
        at *= d->extent[i];
    }
}

enum { WIDEN_MAX = 1 << 22 };

struct dot_job {
    const struct dot *d;
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

/* ---- plain products: integers in int64, complex numbers and tiny products in their own type ---- */

enum { TINY = 2048 }; /* multiplications; packing would cost more than it saves */

struct plain_job {
    const struct dot *d;
    int64_t *t[3], *am, *ak, *bk, *bn, *cm, *cn;
    enum cpu_dt type[3];
    const char *a, *b;
    char *c;
};

static void plain_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct plain_job *j = ctx;
    const struct dot *d = j->d;
    enum cpu_dt ct = j->type[2];
    (void)thread;
    for (int64_t r = lo; r < hi; r++) { /* one row of one batch */
        int64_t b = r / d->m.total, i = r % d->m.total;
        for (int64_t n = 0; n < d->n.total; n++) {
            struct cpu_num sum = {0};
            for (int64_t k = 0; k < d->k.total; k++) {
                struct cpu_num x = cpu_num_load(j->type[0], j->a + (j->t[0][b] + j->am[i] + j->ak[k]) * (int64_t)cpu_dt_bytes(j->type[0]));
                struct cpu_num y = cpu_num_load(j->type[1], j->b + (j->t[1][b] + j->bk[k] + j->bn[n]) * (int64_t)cpu_dt_bytes(j->type[1]));
                x = cpu_num_convert(j->type[0], ct, x);
                y = cpu_num_convert(j->type[1], ct, y);
                if (ct == CPU_C64) {
                    float xr = (float)x.re, xi = (float)x.im, yr = (float)y.re, yi = (float)y.im;
                    sum.re = (double)((float)sum.re + (xr * yr - xi * yi));
                    sum.im = (double)((float)sum.im + (xr * yi + xi * yr));
                } else if (ct == CPU_C128) {
                    sum.re += x.re * y.re - x.im * y.im;
                    sum.im += x.re * y.im + x.im * y.re;
                } else if (ct == CPU_F32) {
                    sum.re = (double)((float)sum.re + (float)x.re * (float)y.re);
                } else if (ct == CPU_PRED) {
                    sum.i |= x.i & y.i;
                } else {
                    sum.i = (int64_t)((uint64_t)sum.i + (uint64_t)x.i * (uint64_t)y.i);
                }
            }
            cpu_num_store(ct, j->c + (j->t[2][b] + j->cm[i] + j->cn[n]) * (int64_t)cpu_dt_bytes(ct), sum);
        }
    }
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
    bool tiny = type[0] == CPU_F32 && type[1] == CPU_F32 && type[2] == CPU_F32 && B * M * N <= TINY && B * M * N * K <= TINY;
    if (!cpu_dt_float(type[2]) || tiny) {
        struct plain_job j = {&d, {bt[0], bt[1], bt[2]}, am, ak, bk, bn, cm, cn, {type[0], type[1], type[2]}, base[0], base[1], c};
        cpu_pool_for(B * M, 32768 / (N * (K + 1)) + 1, plain_chunk, &j);
        free(mem);
        return 0;
    }
    enum cpu_dt acc = type[2] == CPU_F64 ? CPU_F64 : CPU_F32;
    struct dot_job j = {.d = &d, .scratch = x->scratch, .stride = x->scratch_stride};
    char *temp[3] = {NULL, NULL, NULL}; /* operands that are no floats as wide as c, widened whole; a narrower c in f32 */
    for (int o = 0; o < 2; o++) {
        const struct plan_value *v = step_in(p, s, (uint32_t)o);
        /* Narrow floats of moderate size are widened at once, which is faster than lane by lane while packing. */
        bool narrow = cpu_dt_small(type[o]) && acc == CPU_F32 && v->count <= WIDEN_MAX;
        if (!narrow && cpu_dt_float(type[o]) && (type[o] != CPU_F64 || acc == CPU_F64)) continue;
        temp[o] = nf_try_alloc((size_t)v->count * cpu_dt_bytes(acc) + 1);
        if (!temp[o]) goto nomem;
        if (narrow) cpu_to_f32(type[o], x->ptr[s->in[o]], (float *)(void *)temp[o], (size_t)v->count);
        for (int64_t i = 0; !narrow && i < v->count; i++) {
            struct cpu_num e = cpu_num_convert(type[o], acc, cpu_num_load(type[o], (const char *)x->ptr[s->in[o]] + i * (int64_t)cpu_dt_bytes(type[o])));
            cpu_num_store(acc, temp[o] + i * (int64_t)cpu_dt_bytes(acc), e);
        }
        type[o] = acc;
        base[o] = temp[o] + d.offset[o] * (int64_t)cpu_dt_bytes(acc);
    }
    j.g = (struct gemm){type[0], type[1], acc, base[0], base[1], c, M, N, K, am, ak, bk, bn, cm, cn};
    j.batch[0] = bt[0];
    j.batch[1] = bt[1];
    j.batch[2] = bt[2];
    if (type[2] != acc) { /* C in rows of f32, converted at the end */
        temp[2] = nf_try_alloc((size_t)(M * N) * (size_t)B * 4 + 1);
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
    int64_t work = j.rows * j.cols * (K + 1);
    cpu_pool_for(B * j.row_blocks * j.col_blocks, work < 65536 ? 65536 / work + 1 : 1, dot_chunk, &j);
    if (temp[2]) {
        size_t size = cpu_dt_bytes(type[2]);
        float *f = (float *)(void *)temp[2];
        bool flat = true;
        for (int64_t n = 1; n < N; n++) flat = flat && cn[n] == cn[0] + n;
        for (int64_t b = 0; b < B; b++)
            for (int64_t i = 0; i < M; i++)
                if (flat) cpu_from_f32(type[2], f + (b * M + i) * N, c + (bt[2][b] + cm[i] + cn[0]) * (int64_t)size, (size_t)N);
                else
                    for (int64_t n = 0; n < N; n++) cpu_from_f32(type[2], f + (b * M + i) * N + n, c + (bt[2][b] + cm[i] + cn[n]) * (int64_t)size, 1);
        free((void *)(uintptr_t)j.g.cm);
    }
    goto out;
nomem:
    rc = nf_fail(err, NF_ENOMEM, "no memory for a product of %" PRId64 " x %" PRId64 " x %" PRId64, M, N, K);
out:
    for (int o = 0; o < 3; o++) free(temp[o]);
    free(mem);
    return rc;
}
