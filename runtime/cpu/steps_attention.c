/* steps_attention.c: two products with a kernel of rows between them, a strip of rows at a time:
 *
 *     S = A * B        scores: `rows` x `columns` a batch
 *     P = kernel(S)    each row for itself (a softmax)
 *     O = P * V
 *
 * S and P of a strip lie in the thread's scratch and stay in its cache; B and V are packed once for a batch. Columns of S that
 * the kernel does not look at (a causal mask) are not computed. Columns of P that are zero in the whole strip need no product,
 * unless V is not finite there. Strips follow from shapes, so results do not depend on the number of threads. */
#include "runtime/cpu/dot.h"
#include "runtime/cpu/gemm.h"

#include <inttypes.h>
#include <math.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* inputs: A, B, V, then what else the kernel reads; outputs: O, then what else the kernel writes
 * attributes: kernel, extent of its outermost dim, number of S and of P among its arguments, where P lies, columns beyond its
 * own number that a row looks at, is the kernel cut, how many numbers the first product has, the two products (dot.h). Of S and P the
 * products see all batches and rows, though only a strip is there.
 *
 * A kernel that is cut (rowprog.h) treats all columns that a row does not look at alike: if it makes zero of one of them, it need not go on to the
 * others, which then are zero and change no reduction. */
enum { A_KERNEL, A_OUTER, A_S, A_P, A_WHERE, A_BEYOND, A_CUT, A_NUMBERS, A_PRODUCTS };

enum { EXTENT_MAX = 1 << 30 };

struct attention {
    struct dot s, o;
    int64_t batch, rows, cols;
};

static bool read_attention(const struct plan_step *s, struct attention *t)
{
    if (s->nattr < A_PRODUCTS || s->attr[A_NUMBERS] < 0 || s->attr[A_NUMBERS] > s->nattr - A_PRODUCTS) return false;
    uint32_t n = (uint32_t)s->attr[A_NUMBERS];
    if (!dot_read(s, A_PRODUCTS, n, &t->s) || !dot_read(s, A_PRODUCTS + n, s->nattr - A_PRODUCTS - n, &t->o)) return false;
    t->batch = t->s.batch.total;
    t->rows = t->s.m.total;
    t->cols = t->s.n.total;
    return true;
}

/* Rows of a strip: at most 48, so few that S takes no more than a part of the second cache. */
enum { STRIP_ROWS = 48, STRIP_BYTES = 192 << 10 };
static int64_t strip_rows(int64_t cols, int tile, int least) { return NF_MAX(least, NF_MIN(STRIP_ROWS, STRIP_BYTES / 4 / cols) / tile * tile); }

static size_t align(size_t bytes) { return (bytes + 63) & ~(size_t)63; }
struct layout {
    size_t s, p, b, v, bytes; /* after the kernel's scratch */
};
static struct layout layout_of(const struct attention *t, size_t kernel_scratch)
{
    struct layout l = {.s = align(kernel_scratch)};
    size_t strip = align((size_t)strip_rows(t->cols, 1, GEMM_MR_MAX) * (size_t)t->cols * 4);
    l.p = l.s + strip;
    l.b = l.p + strip;
    l.v = l.b + align(gemm_packed(t->cols, t->s.k.total) * 4);
    l.bytes = l.v + align(gemm_packed(t->o.n.total, t->cols) * 4) + 64;
    return l;
}

uint64_t cpu_attention_scratch(const struct plan_step *s, uint64_t kernel_scratch)
{
    struct attention t;
    return read_attention(s, &t) ? layout_of(&t, (size_t)kernel_scratch).bytes : 0;
}

/* Does the program go through argument `arg` by rows of `cols` elements, one row an iteration, without leaving the row? */
bool cpu_attention_rowwise(const struct rp_prog *p, int arg, int64_t cols)
{
    if (p->block) return false;
    for (int a = 0; a < p->nacc; a++) {
        const struct rp_acc *acc = &p->acc[a];
        int64_t row = cols, low = acc->base, high = acc->base;
        if (acc->arg != arg) continue;
        if (acc->dt != CPU_F32) return false;
        for (int d = p->npar - 1; d >= 0; d--) {
            if (acc->stride[d] != row) return false;
            if (d && __builtin_mul_overflow(row, p->dims[d], &row)) return false;
        }
        for (int d = p->npar; d < p->nd; d++) {
            int64_t span;
            if (__builtin_mul_overflow(p->dims[d] - 1, acc->stride[d], &span) || __builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high)) return false;
        }
        if (low < 0 || high >= cols) return false;
    }
    return true;
}

int step_attention__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct attention t;
    if (!read_attention(s, &t)) BAD("its products are not understood");
    int64_t k = s->attr[A_KERNEL], range, all, outer = s->attr[A_OUTER], where = s->attr[A_WHERE], arg_s = s->attr[A_S], arg_p = s->attr[A_P];
    const struct dot_dims *dims[] = {&t.s.batch, &t.s.m, &t.s.n, &t.s.k, &t.o.n};
    int64_t scores;
    for (size_t i = 0; i < NF_ARRAY_LEN(dims); i++)
        if (dims[i]->total < 1 || dims[i]->total > EXTENT_MAX) BAD("its extents are not a product's");
    if (__builtin_mul_overflow(t.batch * t.rows, t.cols, &scores) || scores > (int64_t)1 << 56) BAD("it has too many scores");
    if (t.o.batch.total != t.batch || t.o.m.total != t.rows || t.o.k.total != t.cols || !dot_in_order(&t.s, DOT_C) || !dot_in_order(&t.o, DOT_A)) BAD("its products do not fit");
    all = t.batch * t.rows;
    if (k < 0 || k >= p->nkernels || outer < 1) BAD("there is no kernel %" PRId64, k);
    const struct plan_kernel *kernel = &p->kernel[k];
    if (where < ATTENTION_IN_PLACE || where > ATTENTION_KEPT) BAD("P lies nowhere");
    int64_t nin = (int64_t)s->nin - 2, nout = (int64_t)s->nout - (where == ATTENTION_KEPT);
    if (kernel->args != nin + nout || kernel->args > 1024 || arg_s < 0 || arg_s >= nin || arg_p < nin || arg_p >= nin + nout) BAD("kernel %" PRId64 " takes %u arguments", k, kernel->args);
    if (__builtin_mul_overflow(outer, kernel->per_outer, &range) || range != all) BAD("the kernel does not run over the rows");
    for (uint32_t i = 0; i < 4; i++)
        if ((i < 3 ? step_in(p, s, i) : step_out(p, s, 0))->dt != CPU_F32) BAD("operand %u is not f32", i);
    if (!dot_inside(&t.s, DOT_A, step_in(p, s, 0)->count) || !dot_inside(&t.s, DOT_B, step_in(p, s, 1)->count) || !dot_inside(&t.o, DOT_B, step_in(p, s, 2)->count) ||
        !dot_inside(&t.o, DOT_C, step_out(p, s, 0)->count))
        BAD("an operand reaches outside its value");
    if (p->scratch_bytes < cpu_attention_scratch(s, kernel->scratch_bytes)) BAD("needs more scratch than the plan has");
    if (where == ATTENTION_KEPT && step_out(p, s, (uint32_t)(1 + arg_p - nin))->count != all * t.cols) BAD("P is another value");
    const struct rp_prog *prog = kernel->prog;
    if (!prog) return 0;
    if (prog->cut != (s->attr[A_CUT] != 0) || (prog->cut && prog->dims[prog->nd - 1] != t.cols)) BAD("kernel %" PRId64 " is cut, or is not", k);
    if (!cpu_attention_rowwise(prog, (int)arg_s, t.cols) || !cpu_attention_rowwise(prog, (int)arg_p, t.cols)) BAD("the kernel does not go by rows");
    uint32_t in = 3, out = 1;
    for (int a = 0; a < nin + nout; a++) {
        if (a == arg_s || (a == arg_p && where != ATTENTION_KEPT)) continue;
        int rc = step_kernel_argument(prog, a, outer, a < nin ? step_in(p, s, in++) : step_out(p, s, out++), a < nin, err);
        if (rc) return rc;
    }
    return 0;
}

struct attention_job {
    const struct attention *t;
    cpu_kernel_fn fn;
    const struct rp_prog *prog;
    void **args;
    uint32_t nargs, arg_s, arg_p;
    int where;
    bool cut, v_flat; /* V's columns are neighbours */
    int64_t beyond, strip, groups, *batch[4]; /* of A, B, V, O */
    struct gemm s, o;
    struct layout l;
    char *scratch;
    size_t stride;
};

/* Columns that some row below `end` looks at. */
static int64_t seen_columns(const struct attention_job *j, int64_t end)
{
    int64_t n;
    return __builtin_add_overflow(end, j->beyond, &n) ? j->t->cols : NF_MAX(0, NF_MIN(n, j->t->cols));
}

/* One more than the last of the first `end` columns that is not zero in the whole strip. */
static int64_t used_columns(const float *p, int64_t rows, int64_t cols, int64_t end)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = p + i * cols;
        int64_t c = end;
        for (; c - n >= 16; c -= 16) {
            uint32_t any = 0; /* bits but for the sign */
            for (int q = 1; q <= 16; q++) {
                uint32_t bits;
                memcpy(&bits, row + c - q, 4);
                any |= bits << 1;
            }
            if (any) break;
        }
        while (c > n && row[c - 1] == 0) c--;
        n = NF_MAX(n, c);
    }
    return n;
}

/* Moves *from, from which on the rows of V are finite, down to `wanted`, unless a row before it is not. */
static void look_for_infinite(const struct gemm *g, bool flat, int64_t wanted, int64_t *from)
{
    for (; *from > wanted; --*from) {
        const float *row = (const float *)g->b + g->bk[*from - 1];
        uint32_t bad = 0, bits;
        for (int64_t n = 0; n < g->n; n++) {
            memcpy(&bits, row + (flat ? g->bn[0] + n : g->bn[n]), 4);
            bad |= (bits & 0x7f800000) == 0x7f800000;
        }
        if (bad) return;
    }
}

static void attention_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct attention_job *j = ctx;
    const int64_t rows = j->t->rows, cols = j->t->cols, strips = (rows + j->strip - 1) / j->strip;
    char *scratch = (char *)(((uintptr_t)(j->scratch + (size_t)thread * j->stride) + 63) & ~(uintptr_t)63);
    float *s = (float *)(void *)(scratch + j->l.s), *own = (float *)(void *)(scratch + (j->where == ATTENTION_IN_PLACE ? j->l.s : j->l.p));
    float *packed_b = (float *)(void *)(scratch + j->l.b), *packed_v = (float *)(void *)(scratch + j->l.v);
    void *args[1024 + 2];
    memcpy(args, j->args, j->nargs * sizeof *args);
    args[j->nargs] = scratch;
    for (int64_t at = lo; at < hi; at++) {
        int64_t batch = at / j->groups, group = at % j->groups, first = strips * group / j->groups, behind = strips * (group + 1) / j->groups;
        struct gemm gs = j->s, go = j->o;
        gs.a = (const float *)gs.a + j->batch[0][batch];
        gs.b = (const float *)gs.b + j->batch[1][batch];
        go.b = (const float *)go.b + j->batch[2][batch];
        go.c = (float *)go.c + j->batch[3][batch];
        int64_t seen = seen_columns(j, NF_MIN(behind * j->strip, rows) - 1);
        int64_t finite = cols;
        gemm_pack(&gs, seen, gs.k, packed_b);
        gemm_pack(&go, go.n, cols, packed_v);
        for (int64_t i = first; i < behind; i++) {
            int64_t r0 = i * j->strip, r1 = NF_MIN(r0 + j->strip, rows), row = batch * rows + r0;
            float *p = j->where == ATTENTION_KEPT ? (float *)j->args[j->arg_p] + row * cols : own;
            gs.c = s - r0 * cols;
            args[j->arg_s] = s - row * cols; /* of which the rows from `row` on are there */
            if (j->where != ATTENTION_KEPT) args[j->arg_p] = p - row * cols;
            const int64_t looked = seen_columns(j, r1 - 1);
            int64_t end = j->cut ? NF_MIN(looked / RP_CUT * RP_CUT + RP_CUT, cols) : cols, k;
            for (;;) {
                gemm_run_packed(&gs, packed_b, seen, gs.k, r0, r1, looked, gs.k);
                args[j->nargs + 1] = (void *)(intptr_t)end;
                if (j->fn) j->fn(args, row, row + r1 - r0);
                else rp_run(j->prog, args, row, row + r1 - r0);
                k = used_columns(p, r1 - r0, cols, end);
                if (k < end || end == cols) break;
                end = cols; /* the last column, at which no row looked, is not zero: all are needed */
            }
            look_for_infinite(&go, j->v_flat, k, &finite);
            k = NF_MAX(NF_MAX(k, finite), 1);
            const int64_t zeros = j->where == ATTENTION_KEPT ? cols : k; /* to be there, though the kernel did not write them */
            for (int64_t r = 0; end < zeros && r < r1 - r0; r++) memset(p + r * cols + end, 0, (size_t)(zeros - end) * sizeof *p);
            go.a = p - r0 * cols;
            gemm_run_packed(&go, packed_v, go.n, cols, r0, r1, go.n, k);
        }
    }
}

int step_attention__run(struct cpu_exec *x, const struct plan_step *st, struct nf_error *err)
{
    struct attention t;
    void *args[1024];
    const struct plan_kernel *kernel = &x->plan->kernel[st->attr[A_KERNEL]];
    if (!read_attention(st, &t)) BAD("attention: its products are not understood");
    int64_t R = t.rows, C = t.cols, K = t.s.k.total, N = t.o.n.total, B = t.batch;
    int64_t *mem = nf_try_alloc((size_t)(3 * R + 3 * C + 2 * K + 2 * N + 4 * B) * 8), *next = mem;
    if (!mem) return nf_fail(err, NF_ENOMEM, "no memory for the tables of an attention of %" PRId64 " x %" PRId64, R, C);
#define TABLE(dims, operand, n) (dot_table(dims, operand, next), next += (n), next - (n))
    int64_t *am = TABLE(&t.s.m, DOT_A, R), *row = TABLE(&t.s.m, DOT_C, R), *om = TABLE(&t.o.m, DOT_C, R);
    int64_t *bn = TABLE(&t.s.n, DOT_B, C), *column = TABLE(&t.s.n, DOT_C, C), *vk = TABLE(&t.o.k, DOT_B, C);
    int64_t *ak = TABLE(&t.s.k, DOT_A, K), *bk = TABLE(&t.s.k, DOT_B, K), *vn = TABLE(&t.o.n, DOT_B, N), *on = TABLE(&t.o.n, DOT_C, N);
    struct attention_job j = {.t = &t, .prog = kernel->prog, .args = args, .nargs = kernel->args, .arg_s = (uint32_t)st->attr[A_S], .arg_p = (uint32_t)st->attr[A_P],
                              .where = (int)st->attr[A_WHERE], .beyond = st->attr[A_BEYOND], .cut = st->attr[A_CUT], .strip = strip_rows(C, gemm_tile_rows(), gemm_tile_rows()),
                              .batch = {TABLE(&t.s.batch, DOT_A, B), TABLE(&t.s.batch, DOT_B, B), TABLE(&t.o.batch, DOT_B, B), TABLE(&t.o.batch, DOT_C, B)},
                              .l = layout_of(&t, (size_t)kernel->scratch_bytes), .scratch = x->scratch, .stride = x->scratch_stride};
#undef TABLE
    const float *a = x->ptr[st->in[0]], *b = x->ptr[st->in[1]], *v = x->ptr[st->in[2]];
    float *o = x->ptr[st->out[0]];
    j.s = (struct gemm){CPU_F32, CPU_F32, CPU_F32, a + t.s.offset[DOT_A], b + t.s.offset[DOT_B], NULL, R, C, K, am, ak, bk, bn, row, column};
    j.o = (struct gemm){CPU_F32, CPU_F32, CPU_F32, NULL, v + t.o.offset[DOT_B], o + t.o.offset[DOT_C], R, N, C, row, column, vk, vn, om, on};
    j.v_flat = true;
    for (int64_t n = 1; n < N; n++) j.v_flat = j.v_flat && vn[n] == vn[0] + n;
    uint32_t in = 3, out = 1, nin = st->nin - 2;
    for (uint32_t i = 0; i < kernel->args; i++) {
        if (i == j.arg_s || (i == j.arg_p && j.where != ATTENTION_KEPT)) args[i] = NULL;
        else args[i] = i < nin ? x->ptr[st->in[in++]] : x->ptr[st->out[out++]];
    }
    if (kernel->image_offset >= 0) {
        const char *at = x->image + kernel->image_offset;
        memcpy(&j.fn, &at, sizeof j.fn);
    }
    /* What is packed serves a batch, or a part of one where there are few. */
    int64_t strips = (R + j.strip - 1) / j.strip, threads = cpu_pool_threads();
    j.groups = threads > 1 ? NF_MAX(1, NF_MIN(strips / 4, 4 * threads / B)) : 1;
    cpu_pool_for(B * j.groups, 1, attention_chunk, &j);
    free(mem);
    return 0;
}
