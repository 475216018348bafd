/* steps_reduce.c: reductions that are no row programs: several operands, bodies of any kind, windows.
 *
 * A body is one of the named reducers, done on whole rows, or a block of the plan, run once an element. Elements are taken in
 * row-major order of the input, the accumulator on the left. */
#include "runtime/cpu/steps.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* Does a body suit n accumulators of these types? A block takes the accumulators, then the elements. */
static int check_body(const struct plan *p, int64_t kind, int64_t block, uint32_t n, const struct plan_value *const *v, bool predicate, struct nf_error *err)
{
    if (kind == BODY_SET || kind == BODY_KEEP) return 0;
    if (kind >= 0) {
        if (kind >= RP_RED_MAX || n != 1) BAD("there is no reducer %" PRId64 " for %u values", kind, n);
        enum cpu_dt t = (enum cpu_dt)v[0]->dt;
        if (kind >= RP_ALL && !(t == CPU_PRED || cpu_dt_int(t))) BAD("a logical reducer for %s", cpu_dt_info[t].name);
        return 0;
    }
    if (kind != BODY_BLOCK) BAD("there is no body of kind %" PRId64, kind);
    const struct plan_block *b = &p->block[block];
    if (b->nparam != 2 * n || b->nresult != (predicate ? 1 : n)) BAD("the body's signature is another");
    for (uint32_t i = 0; i < 2 * n; i++) {
        const struct plan_value *e = &p->value[b->param[i]];
        if (e->dt != v[i % n]->dt || e->count != 1 || e->where != PLAN_ARENA) BAD("parameter %u of the body has another type", i);
    }
    for (uint32_t i = 0; i < b->nresult; i++) {
        const struct plan_value *e = &p->value[b->result[i]];
        if (e->count != 1 || e->dt != (predicate ? CPU_PRED : v[i]->dt)) BAD("result %u of the body has another type", i);
    }
    return 0;
}

/* acc <- body(acc, x) for n accumulators by a block. */
static int body_block(struct cpu_exec *x, uint32_t block, uint32_t n, char *const *acc, const char *const *el, struct nf_error *err)
{
    const struct plan_block *b = &x->plan->block[block];
    for (uint32_t i = 0; i < n; i++) {
        size_t size = (size_t)x->plan->value[b->param[i]].bytes;
        memcpy(x->ptr[b->param[i]], acc[i], size);
        memcpy(x->ptr[b->param[n + i]], el[i], size);
    }
    int rc = cpu_exec_block(x, block, err);
    for (uint32_t i = 0; i < n && !rc; i++) memcpy(acc[i], x->ptr[b->result[i]], (size_t)x->plan->value[b->result[i]].bytes);
    return rc;
}

/* ----------------------------------------------------------------------------------------------------------- reduce */

/* attributes: kind, block, then the list of reduced dims; inputs: operands, then initial values */
struct reduce {
    uint32_t n, ndims;
    int64_t dims[PLAN_RANK_MAX];
};

static bool read_reduce(const struct plan_step *s, struct reduce *r)
{
    struct attrs a = {.s = s, .at = 2};
    r->n = s->nout;
    r->ndims = attrs_list(&a, r->dims, PLAN_RANK_MAX);
    return !a.failed && a.at == s->nattr;
}

int step_reduce__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct reduce r;
    const struct plan_value *outs[64];
    if (!read_reduce(s, &r) || s->nin != 2 * r.n || r.n > 64) BAD("its operands are not understood");
    for (uint32_t i = 0; i < r.n; i++) {
        const struct plan_value *v = step_in(p, s, i), *init = step_in(p, s, r.n + i), *o = step_out(p, s, i);
        outs[i] = o;
        if (!same_shape(v, step_in(p, s, 0)) || v->dt != init->dt || v->dt != o->dt || init->count != 1) BAD("operand %u has another type", i);
        int at = 0;
        for (int d = 0; d < v->rank; d++) {
            if (in_list(r.dims, r.ndims, d) < r.ndims) continue;
            if (at >= o->rank || o->dims[at] != v->dims[d]) BAD("result %u has another shape", i);
            at++;
        }
        if (at != o->rank) BAD("result %u has another shape", i);
    }
    return check_body(p, s->attr[0], s->attr[1], r.n, outs, false, err);
}

int step_reduce__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan *p = x->plan;
    struct reduce r;
    if (!read_reduce(s, &r)) BAD("reduce: not understood");
    const struct plan_value *v = step_in(p, s, 0);
    int64_t out_stride[PLAN_RANK_MAX] = {0}, so = 1, idx[PLAN_RANK_MAX] = {0};
    for (int d = v->rank - 1; d >= 0; d--) {
        if (in_list(r.dims, r.ndims, d) < r.ndims) continue;
        out_stride[d] = so;
        so *= v->dims[d];
    }
    for (uint32_t i = 0; i < r.n; i++) {
        const struct plan_value *o = step_out(p, s, i);
        size_t size = cpu_dt_bytes((enum cpu_dt)o->dt);
        for (int64_t k = 0; k < o->count; k++) memcpy((char *)x->ptr[s->out[i]] + k * (int64_t)size, x->ptr[s->in[r.n + i]], size);
    }
    if (v->count == 0) return 0;
    int last = v->rank - 1;
    int64_t inner = v->rank ? v->dims[last] : 1, step = v->rank ? out_stride[last] : 0;
    size_t size = cpu_dt_bytes((enum cpu_dt)v->dt);
    for (int64_t at = 0; at < v->count; at += inner) {
        int64_t o = 0;
        int rc = 0;
        for (int d = 0; d < last; d++) o += idx[d] * out_stride[d];
        if (s->attr[0] >= 0) {
            const char *src = (const char *)x->ptr[s->in[0]] + at * (int64_t)size;
            char *dst = (char *)x->ptr[s->out[0]] + o * (int64_t)size;
            if (step) cpu_combine((enum cpu_dt)v->dt, (int)s->attr[0], dst, src, inner, 1);
            else
                for (int64_t k = 0; k < inner; k++) cpu_combine((enum cpu_dt)v->dt, (int)s->attr[0], dst, src + k * (int64_t)size, 1, 1);
        } else {
            for (int64_t k = 0; k < inner && !rc; k++) {
                char *acc[64];
                const char *el[64];
                for (uint32_t i = 0; i < r.n; i++) {
                    int64_t es = (int64_t)cpu_dt_bytes((enum cpu_dt)step_out(p, s, i)->dt);
                    acc[i] = (char *)x->ptr[s->out[i]] + (o + k * step) * es;
                    el[i] = (const char *)x->ptr[s->in[i]] + (at + k) * es;
                }
                rc = body_block(x, (uint32_t)s->attr[1], r.n, acc, el, err);
            }
            if (rc) return rc;
        }
        for (int d = last - 1; d >= 0 && ++idx[d] == v->dims[d]; d--) idx[d] = 0;
    }
    return 0;
}

/* --------------------------------------------------------------------------------------------------- reduce_window */

/* attributes: kind, block, then lists: window, strides, base dilations, window dilations, low padding, high padding */
struct window {
    uint32_t n, rank;
    int64_t size[PLAN_RANK_MAX], stride[PLAN_RANK_MAX], base[PLAN_RANK_MAX], dil[PLAN_RANK_MAX], low[PLAN_RANK_MAX], high[PLAN_RANK_MAX];
};

static bool positive(const int64_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] < 1 || v[i] > INT32_MAX) return false;
    return true;
}

static bool read_window(const struct plan_step *s, uint32_t from, struct window *w, bool dilations)
{
    struct attrs a = {.s = s, .at = from};
    uint32_t n[6];
    n[0] = w->rank = attrs_list(&a, w->size, PLAN_RANK_MAX);
    n[1] = attrs_list(&a, w->stride, PLAN_RANK_MAX);
    for (int d = 0; d < PLAN_RANK_MAX; d++) w->base[d] = w->dil[d] = 1;
    n[2] = dilations ? attrs_list(&a, w->base, PLAN_RANK_MAX) : w->rank;
    n[3] = dilations ? attrs_list(&a, w->dil, PLAN_RANK_MAX) : w->rank;
    n[4] = attrs_list(&a, w->low, PLAN_RANK_MAX);
    n[5] = attrs_list(&a, w->high, PLAN_RANK_MAX);
    for (int i = 0; i < 6; i++)
        if (n[i] != w->rank) return false;
    for (uint32_t d = 0; d < w->rank; d++)
        if (w->low[d] < -INT32_MAX || w->low[d] > INT32_MAX || w->high[d] < -INT32_MAX || w->high[d] > INT32_MAX) return false;
    return !a.failed && a.at == s->nattr && positive(w->size, w->rank) && positive(w->stride, w->rank) && positive(w->base, w->rank) && positive(w->dil, w->rank);
}

/* Windows that fit along dim d of v. */
static int64_t window_count(const struct window *w, const struct plan_value *v, uint32_t d)
{
    int64_t padded = (v->dims[d] ? (v->dims[d] - 1) * w->base[d] + 1 : 0) + w->low[d] + w->high[d], span = (w->size[d] - 1) * w->dil[d] + 1;
    return padded < span ? 0 : (padded - span) / w->stride[d] + 1;
}

int step_reduce_window__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct window w;
    const struct plan_value *outs[64];
    w.n = s->nout;
    if (!read_window(s, 2, &w, true) || s->nin != 2 * w.n || w.n > 64) BAD("its operands are not understood");
    for (uint32_t i = 0; i < w.n; i++) {
        const struct plan_value *v = step_in(p, s, i), *init = step_in(p, s, w.n + i), *o = step_out(p, s, i);
        outs[i] = o;
        if (!same_shape(v, step_in(p, s, 0)) || v->dt != init->dt || v->dt != o->dt || init->count != 1 || v->rank != w.rank || o->rank != w.rank)
            BAD("operand %u has another type", i);
        for (uint32_t d = 0; d < w.rank; d++)
            if (v->dims[d] > INT32_MAX || o->dims[d] != window_count(&w, v, d)) BAD("result %u has another shape", i);
    }
    return check_body(p, s->attr[0], s->attr[1], w.n, outs, false, err);
}

struct window_job {
    struct cpu_exec *x;
    const struct plan_step *s;
    const struct window *w;
    const struct plan_value *v, *o;
    int64_t in_stride[PLAN_RANK_MAX];
    int rc;
    struct nf_error *err;
};

/* Element of the input under tap `tap` of the window at `pos`, or -1 in the padding. */
static int64_t under(const struct window_job *j, const int64_t *pos, const int64_t *tap, uint32_t from, uint32_t to)
{
    int64_t at = 0;
    for (uint32_t d = from; d < to; d++) {
        int64_t i = pos[d] * j->w->stride[d] + tap[d] * j->w->dil[d] - j->w->low[d];
        if (j->w->base[d] > 1) { /* rare, and divisions are slow */
            if (i < 0 || i % j->w->base[d]) return -1;
            i /= j->w->base[d];
        }
        if (i < 0 || i >= j->v->dims[d]) return -1;
        at += i * j->in_stride[d];
    }
    return at;
}

/* n times the element at `from`. */
static void fill(char *dst, const void *from, int64_t n, int64_t size)
{
    if (n <= 0) return;
    memcpy(dst, from, (size_t)size);
    for (int64_t have = 1; have < n; have *= 2) memcpy(dst + have * size, dst, (size_t)(NF_MIN(have, n - have) * size));
}

static bool next_index(int64_t *idx, const int64_t *extent, uint32_t from, uint32_t n)
{
    for (uint32_t d = n; d-- > from;) {
        if (++idx[d] < extent[d]) return true;
        idx[d] = 0;
    }
    return false;
}

/* Rows [lo, hi) of the output, where a row is its last dim. Named reducers combine a whole row for each tap of the outer
 * dims; when the window is 1 in the last dim (channels) that is one vector loop. */
static void window_rows(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct window_job *j = ctx;
    const struct window *w = j->w;
    uint32_t last = w->rank - 1;
    int64_t n = j->o->dims[last], size = (int64_t)cpu_dt_bytes((enum cpu_dt)j->v->dt);
    (void)thread;
    for (int64_t row = lo; row < hi; row++) {
        int64_t pos[PLAN_RANK_MAX], tap[PLAN_RANK_MAX], rest = row;
        for (uint32_t d = last; d-- > 0;) {
            tap[d] = 0;
            pos[d] = rest % j->o->dims[d];
            rest /= j->o->dims[d];
        }
        char *dst = (char *)j->x->ptr[j->s->out[0]] + row * n * size;
        const char *src = j->x->ptr[j->s->in[0]];
        fill(dst, j->x->ptr[j->s->in[1]], n, size);
        do {
            int64_t base = under(j, pos, tap, 0, last);
            if (base < 0) continue;
            for (int64_t t = 0; t < w->size[last]; t++) {
                /* output k reads input (k * stride + t * dil - low) / base */
                int64_t off = t * w->dil[last] - w->low[last];
                if (w->base[last] == 1) {
                    int64_t st = w->stride[last], k0 = off < 0 ? (-off + st - 1) / st : 0, k1 = n;
                    if (j->v->dims[last] - off <= 0) continue;
                    k1 = NF_MIN(k1, (j->v->dims[last] - off + st - 1) / st);
                    if (k1 > k0) cpu_combine((enum cpu_dt)j->v->dt, (int)j->s->attr[0], dst + k0 * size, src + (base + k0 * st + off) * size, k1 - k0, st);
                    continue;
                }
                for (int64_t k = 0; k < n; k++) {
                    int64_t i = k * w->stride[last] + off;
                    if (i < 0 || i % w->base[last] || i / w->base[last] >= j->v->dims[last]) continue;
                    cpu_combine((enum cpu_dt)j->v->dt, (int)j->s->attr[0], dst + k * size, src + (base + i / w->base[last]) * size, 1, 1);
                }
            }
        } while (next_index(tap, w->size, 0, last));
    }
}

/* Cumulative sums and the like: a window as long as the dim, padded on one side only, over one dim. */
static bool is_scan(const struct window *w, const struct plan_value *v, uint32_t *ret_dim, bool *ret_reverse)
{
    uint32_t found = w->rank;
    for (uint32_t d = 0; d < w->rank; d++) {
        if (w->stride[d] != 1 || w->base[d] != 1 || w->dil[d] != 1) return false;
        if (w->size[d] == 1 && w->low[d] == 0 && w->high[d] == 0) continue;
        if (found < w->rank || w->size[d] != v->dims[d]) return false;
        bool forward = w->low[d] == w->size[d] - 1 && w->high[d] == 0, backward = w->high[d] == w->size[d] - 1 && w->low[d] == 0;
        if (!forward && !backward) return false;
        found = d;
        *ret_reverse = backward;
    }
    *ret_dim = found;
    return found < w->rank;
}

/* Padding and holes hold the initial value, which is seldom more than nothing. */
static bool padding_counts(int64_t kind, enum cpu_dt t, const void *init)
{
    struct cpu_num v = cpu_num_load(t, init);
    if (kind == RP_PROD) return t == CPU_PRED ? false : cpu_dt_int(t) ? v.i != 1 : v.re != 1 || v.im != 0;
    if (kind == RP_SUM && t != CPU_PRED) return v.i != 0 || v.re != 0 || v.im != 0;
    return kind == RP_PARITY ? v.i != 0 : kind < 0;
}

struct scan_job {
    const char *src, *init;
    char *dst;
    enum cpu_dt t;
    int kind;
    bool reverse;
    int64_t n, inner, size;      /* along the dim; elements beside one another; bytes of one */
};
enum { SCAN_ROWS = 8 };

/* Sums of f32 along rows: several at a time, as each waits for the addition before. */
static void scan_sums(const struct scan_job *j, int64_t row, int rows)
{
    const float *x[SCAN_ROWS];
    float *y[SCAN_ROWS], sum[SCAN_ROWS];
    const int64_t from = j->reverse ? j->n - 1 : 0, step = j->reverse ? -1 : 1;
    for (int r = 0; r < SCAN_ROWS; r++) { /* those that are not there repeat the last one */
        const int64_t at = (row + NF_MIN(r, rows - 1)) * j->n + from;
        x[r] = (const float *)(const void *)j->src + at;
        y[r] = (float *)(void *)j->dst + at;
        memcpy(&sum[r], j->init, sizeof sum[r]);
    }
    for (int64_t k = 0, i = 0; k < j->n; k++, i += step)
        for (int r = 0; r < SCAN_ROWS; r++) {
            sum[r] += x[r][i];
            y[r][i] = sum[r];
        }
}

static void scan_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct scan_job *j = ctx;
    const int64_t bytes = j->inner * j->size;
    (void)thread;
    if (j->t == CPU_F32 && j->kind == RP_SUM && j->inner == 1) {
        for (int64_t row = lo; row < hi; row += SCAN_ROWS) scan_sums(j, row, (int)NF_MIN(hi - row, (int64_t)SCAN_ROWS));
        return;
    }
    for (int64_t o = lo; o < hi; o++)
        for (int64_t k = 0; k < j->n; k++) {
            int64_t i = j->reverse ? j->n - 1 - k : k, before = j->reverse ? i + 1 : i - 1;
            char *dst = j->dst + (o * j->n + i) * bytes;
            if (k) memcpy(dst, j->dst + (o * j->n + before) * bytes, (size_t)bytes);
            else
                for (int64_t c = 0; c < j->inner; c++) memcpy(dst + c * j->size, j->init, (size_t)j->size);
            cpu_combine(j->t, j->kind, dst, j->src + (o * j->n + i) * bytes, j->inner, 1);
        }
}

int step_reduce_window__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan *p = x->plan;
    struct window w = {.n = s->nout};
    if (!read_window(s, 2, &w, true)) BAD("reduce_window: not understood");
    struct window_job j = {.x = x, .s = s, .w = &w, .v = step_in(p, s, 0), .o = step_out(p, s, 0), .err = err};
    row_major(j.v, j.in_stride);
    if (j.o->count == 0) return 0;
    uint32_t dim;
    bool reverse = false;
    enum cpu_dt t = (enum cpu_dt)j.v->dt;
    int64_t size = (int64_t)cpu_dt_bytes(t);
    bool quick = s->attr[0] >= 0 && w.rank && !padding_counts(s->attr[0], t, x->ptr[s->in[w.n]]);
    if (quick && j.v->count && is_scan(&w, j.v, &dim, &reverse)) {
        struct scan_job c = {x->ptr[s->in[0]], x->ptr[s->in[1]], x->ptr[s->out[0]], t, (int)s->attr[0], reverse, j.v->dims[dim], j.in_stride[dim], size};
        cpu_pool_for(j.v->count / (c.inner * c.n), 16384 / (c.inner * c.n) / SCAN_ROWS * SCAN_ROWS + SCAN_ROWS, scan_chunk, &c);
        return 0;
    }
    if (quick) {
        int64_t rows = j.o->count / j.o->dims[w.rank - 1], taps = 1;
        for (uint32_t d = 0; d < w.rank; d++) taps *= w.size[d];
        cpu_pool_for(rows, 16384 / (j.o->dims[w.rank - 1] * NF_MIN(taps, 16384)) + 1, window_rows, &j);
        return 0;
    }
    int64_t pos[PLAN_RANK_MAX] = {0}, at = 0;
    do {
        int64_t tap[PLAN_RANK_MAX] = {0};
        char *acc[64];
        const char *el[64];
        for (uint32_t i = 0; i < w.n; i++) {
            int64_t es = (int64_t)cpu_dt_bytes((enum cpu_dt)step_out(p, s, i)->dt);
            acc[i] = (char *)x->ptr[s->out[i]] + at * es;
            memcpy(acc[i], x->ptr[s->in[w.n + i]], (size_t)es);
        }
        do {
            int64_t from = under(&j, pos, tap, 0, w.rank);
            for (uint32_t i = 0; i < w.n; i++) el[i] = from < 0 ? x->ptr[s->in[w.n + i]] : (const char *)x->ptr[s->in[i]] + from * (int64_t)cpu_dt_bytes((enum cpu_dt)step_out(p, s, i)->dt);
            if (s->attr[0] >= 0) {
                cpu_combine(t, (int)s->attr[0], acc[0], el[0], 1, 1);
            } else {
                int rc = body_block(x, (uint32_t)s->attr[1], w.n, acc, el, err);
                if (rc) return rc;
            }
        } while (next_index(tap, w.size, 0, w.rank));
        at++;
    } while (next_index(pos, j.o->dims, 0, w.rank));
    return 0;
}

/* ---------------------------------------------------------------------------------------------- select_and_scatter */

/* attributes: select kind (enum rp_cmp, or BODY_BLOCK), its block, scatter kind, its block, then lists: window, strides,
 * low padding, high padding; inputs: operand, source, initial value */
int step_select_and_scatter__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct window w = {.n = 1};
    const struct plan_value *v = step_in(p, s, 0), *src = step_in(p, s, 1), *o = step_out(p, s, 0);
    if (!read_window(s, 4, &w, false) || v->rank != w.rank || src->rank != w.rank) BAD("its operands are not understood");
    if (!same_shape(v, o) || v->dt != src->dt || v->dt != o->dt || step_in(p, s, 2)->dt != v->dt || step_in(p, s, 2)->count != 1) BAD("its operands have other types");
    for (uint32_t d = 0; d < w.rank; d++)
        if (v->dims[d] > INT32_MAX || src->dims[d] != window_count(&w, v, d)) BAD("the source has another shape");
    if (s->attr[0] < BODY_BLOCK || s->attr[0] >= RP_CMP_MAX) BAD("there is no comparison %" PRId64, s->attr[0]);
    int rc = s->attr[0] == BODY_BLOCK ? check_body(p, BODY_BLOCK, s->attr[1], 1, &v, true, err) : 0;
    return rc ? rc : check_body(p, s->attr[2], s->attr[3], 1, &v, false, err);
}

static bool chosen(int how, enum cpu_dt t, const char *a, const char *b)
{
    float f[2];
    if (t == CPU_F32) {
        memcpy(&f[0], a, 4);
        memcpy(&f[1], b, 4);
        return how == RP_GE ? f[0] >= f[1] : how == RP_GT ? f[0] > f[1] : how == RP_LE ? f[0] <= f[1] : how == RP_LT ? f[0] < f[1] : how == RP_EQ ? f[0] == f[1] : f[0] != f[1];
    }
    struct rp_ins s = {.op = RP_CMP, .dt = CPU_PRED, .aux = (uint16_t)how};
    return rp_eval(&s, (enum cpu_dt[]){t, t}, (struct cpu_num[]){cpu_num_load(t, a), cpu_num_load(t, b)}).i != 0;
}

/* The gradient of a max pool: f32, windows that leave the last dim alone, sums. A row of the last dim at a time; dims that no window spans
 * are independent of one another, so they are what threads share. */
enum { CHANNELS = 256 };

struct pool_gradient {
    const struct window_job *j;
    const float *operand, *source;
    float *out;
    int how;
    uint32_t outer;             /* dims before the first that windows span */
    int64_t rows;               /* of the source for one index of those dims */
    int64_t blocks;             /* of channels */
};

static inline bool keeps(int how, float a, float b) { return how == RP_GE ? a >= b : how == RP_GT ? a > b : how == RP_LE ? a <= b : a < b; }

static void pool_gradient_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct pool_gradient *g = ctx;
    const struct window_job *j = g->j;
    const struct window *w = j->w;
    const uint32_t last = w->rank - 1;
    const int64_t width = j->v->dims[last];
    (void)thread;
    for (int64_t task = lo; task < hi; task++) {
        const int64_t from = task % g->blocks * CHANNELS, n = NF_MIN(width - from, (int64_t)CHANNELS);
        int64_t pos[PLAN_RANK_MAX] = {0}, rest = task / g->blocks;
        for (uint32_t d = g->outer; d-- > 0;) {
            pos[d] = rest % j->o->dims[d];
            rest /= j->o->dims[d];
        }
        for (int64_t row = task / g->blocks * g->rows, end = row + g->rows; row < end; row++) {
            int64_t tap[PLAN_RANK_MAX] = {0}, where[CHANNELS];
            float best[CHANNELS];
            bool first = true;
            do {
                int64_t at = under(j, pos, tap, 0, last);
                if (at < 0) continue;
                const float *x = g->operand + at + from;
                for (int64_t c = 0; c < n; c++) {
                    bool keep = !first && keeps(g->how, best[c], x[c]);
                    best[c] = keep ? best[c] : x[c];
                    where[c] = keep ? where[c] : at;
                }
                first = false;
            } while (next_index(tap, w->size, 0, last));
            for (int64_t c = 0; c < n && !first; c++) g->out[where[c] + from + c] += g->source[row * width + from + c];
            next_index(pos, j->o->dims, g->outer, last);
        }
    }
}

static bool pool_gradient(struct cpu_exec *x, const struct plan_step *s, const struct window_job *j)
{
    const struct window *w = j->w;
    struct pool_gradient g = {j, x->ptr[s->in[0]], x->ptr[s->in[1]], x->ptr[s->out[0]], (int)s->attr[0], 0, 1, 0};
    int64_t tasks = 1;
    uint32_t last = w->rank - 1;
    if (j->v->dt != CPU_F32 || w->rank < 2 || s->attr[0] < RP_LT || s->attr[2] != RP_SUM) return false;
    if (w->size[last] != 1 || w->stride[last] != 1 || w->low[last] || w->high[last]) return false;
    while (g.outer < last && w->size[g.outer] == 1 && w->stride[g.outer] == 1 && !w->low[g.outer] && !w->high[g.outer]) tasks *= j->o->dims[g.outer++];
    for (uint32_t d = g.outer; d < last; d++) g.rows *= j->o->dims[d];
    g.blocks = (j->v->dims[last] + CHANNELS - 1) / CHANNELS;
    cpu_pool_for(tasks * g.blocks, 1, pool_gradient_chunk, &g);
    return true;
}

int step_select_and_scatter__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan *p = x->plan;
    struct window w = {.n = 1};
    if (!read_window(s, 4, &w, false)) BAD("select_and_scatter: not understood");
    const struct plan_value *src = step_in(p, s, 1);
    struct window_job j = {.x = x, .s = s, .w = &w, .v = step_in(p, s, 0), .o = src, .err = err};
    enum cpu_dt t = (enum cpu_dt)j.v->dt;
    int64_t size = (int64_t)cpu_dt_bytes(t), pos[PLAN_RANK_MAX] = {0}, at = 0;
    row_major(j.v, j.in_stride);
    for (int64_t k = 0; k < j.v->count; k++) memcpy((char *)x->ptr[s->out[0]] + k * size, x->ptr[s->in[2]], (size_t)size);
    if (src->count == 0 || pool_gradient(x, s, &j)) return 0;
    const char *operand = x->ptr[s->in[0]];
    do {
        int64_t tap[PLAN_RANK_MAX] = {0}, best = -1;
        do {
            int64_t from = under(&j, pos, tap, 0, w.rank);
            if (from < 0) continue;
            bool keep = best >= 0;
            if (keep && s->attr[0] >= 0) {
                keep = chosen((int)s->attr[0], t, operand + best * size, operand + from * size);
            } else if (keep) {
                const struct plan_block *b = &p->block[s->attr[1]];
                memcpy(x->ptr[b->param[0]], operand + best * size, (size_t)size);
                memcpy(x->ptr[b->param[1]], operand + from * size, (size_t)size);
                int rc = cpu_exec_block(x, (uint32_t)s->attr[1], err);
                if (rc) return rc;
                keep = *(const uint8_t *)x->ptr[b->result[0]] != 0;
            }
            if (!keep) best = from;
        } while (next_index(tap, w.size, 0, w.rank));
        if (best >= 0) {
            char *acc = (char *)x->ptr[s->out[0]] + best * size;
            const char *el = (const char *)x->ptr[s->in[1]] + at * size;
            if (s->attr[2] >= 0) {
                cpu_combine(t, (int)s->attr[2], acc, el, 1, 1);
            } else if (s->attr[2] == BODY_SET) {
                memcpy(acc, el, (size_t)size);
            } else if (s->attr[2] == BODY_BLOCK) {
                int rc = body_block(x, (uint32_t)s->attr[3], 1, &acc, &el, err);
                if (rc) return rc;
            }
        }
        at++;
    } while (next_index(pos, src->dims, 0, w.rank));
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- scatter */

/* attributes: kind, block, 0, then lists: update window dims, inserted window dims, operand batching dims, indices batching
 * dims, scatter dims to operand dims, (index vector dim); inputs: n operands, indices, n updates. The first operand's memory
 * may be the first result's. */
struct scatter {
    uint32_t n, nwindow, ninserted, nbatch, nibatch, nmap;
    int64_t window[PLAN_RANK_MAX], inserted[PLAN_RANK_MAX], batch[PLAN_RANK_MAX], ibatch[PLAN_RANK_MAX], map[PLAN_RANK_MAX], vector_dim;
};

static bool read_scatter(const struct plan_step *s, struct scatter *c)
{
    struct attrs a = {.s = s, .at = 3};
    c->n = s->nout;
    c->nwindow = attrs_list(&a, c->window, PLAN_RANK_MAX);
    c->ninserted = attrs_list(&a, c->inserted, PLAN_RANK_MAX);
    c->nbatch = attrs_list(&a, c->batch, PLAN_RANK_MAX);
    c->nibatch = attrs_list(&a, c->ibatch, PLAN_RANK_MAX);
    c->nmap = attrs_list(&a, c->map, PLAN_RANK_MAX);
    c->vector_dim = attrs_next(&a);
    return !a.failed && a.at == s->nattr && s->nin == 2 * c->n + 1 && c->n <= 64;
}

static bool dims_below(const int64_t *v, uint32_t n, int64_t rank)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] < 0 || v[i] >= rank) return false;
    return true;
}

int step_scatter__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct scatter c;
    const struct plan_value *outs[64];
    if (!read_scatter(s, &c)) BAD("its operands are not understood");
    const struct plan_value *v = step_in(p, s, 0), *ix = step_in(p, s, c.n), *up = step_in(p, s, c.n + 1);
    if (ix->dt > CPU_U64 || ix->dt == CPU_PRED) BAD("indices are no integers");
    for (uint32_t i = 0; i < c.n; i++) {
        outs[i] = step_out(p, s, i);
        if (!same_shape(step_in(p, s, i), v) || !same_shape(step_out(p, s, i), v) || !same_shape(step_in(p, s, c.n + 1 + i), up) ||
            step_in(p, s, i)->dt != step_out(p, s, i)->dt || step_in(p, s, c.n + 1 + i)->dt != step_in(p, s, i)->dt)
            BAD("operand %u has another type", i);
    }
    if (!dims_below(c.window, c.nwindow, up->rank) || !dims_below(c.inserted, c.ninserted, v->rank) || !dims_below(c.batch, c.nbatch, v->rank) ||
        !dims_below(c.ibatch, c.nibatch, ix->rank) || !dims_below(c.map, c.nmap, v->rank) || c.nbatch != c.nibatch || c.vector_dim < 0 ||
        c.vector_dim > ix->rank || c.nwindow + c.ninserted + c.nbatch != v->rank)
        BAD("its dims are not understood");
    if (c.nmap != (c.vector_dim < ix->rank ? (uint64_t)ix->dims[c.vector_dim] : 1)) BAD("index vectors have another length");
    /* Window extents within the operand, scatter extents those of the indices. */
    uint32_t od = 0, sd = 0;
    for (int d = 0; d < up->rank; d++) {
        if (in_list(c.window, c.nwindow, d) < c.nwindow) {
            while (od < v->rank && (in_list(c.inserted, c.ninserted, od) < c.ninserted || in_list(c.batch, c.nbatch, od) < c.nbatch)) od++;
            if (od >= v->rank || up->dims[d] > v->dims[od]) BAD("the updates are larger than the operand");
            od++;
        } else {
            if (sd == c.vector_dim) sd++;
            if (sd >= ix->rank || ix->dims[sd] != up->dims[d]) BAD("the updates have another shape than the indices");
            sd++;
        }
    }
    if (sd == c.vector_dim) sd++;
    if (sd < ix->rank) BAD("the updates have another shape than the indices");
    for (uint32_t i = 0; i < c.nbatch; i++)
        if (c.ibatch[i] == c.vector_dim || ix->dims[c.ibatch[i]] != v->dims[c.batch[i]]) BAD("batch dims differ");
    return check_body(p, s->attr[0], s->attr[1], c.n, outs, false, err);
}

/* Elements of dt at memory order of `idx` for the window: the innermost window dim is done as a row when it is a dim of both. */
int step_scatter__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan *p = x->plan;
    struct scatter c;
    if (!read_scatter(s, &c)) BAD("scatter: not understood");
    const struct plan_value *v = step_in(p, s, 0), *ix = step_in(p, s, c.n), *up = step_in(p, s, c.n + 1);
    for (uint32_t i = 0; i < c.n; i++)
        if (x->ptr[s->out[i]] != x->ptr[s->in[i]]) cpu_memcpy(x->ptr[s->out[i]], x->ptr[s->in[i]], (size_t)step_out(p, s, i)->bytes);
    if (up->count == 0) return 0;
    int64_t vs[PLAN_RANK_MAX], is[PLAN_RANK_MAX], us[PLAN_RANK_MAX];
    row_major(v, vs);
    row_major(ix, is);
    row_major(up, us);
    /* Of each dim of the updates: the operand's dim (window), or the indices' dim (scatter). */
    int64_t to_operand[PLAN_RANK_MAX], to_index[PLAN_RANK_MAX];
    uint32_t od = 0, sd = 0;
    for (int d = 0; d < up->rank; d++) {
        to_operand[d] = to_index[d] = -1;
        if (in_list(c.window, c.nwindow, d) < c.nwindow) {
            while (in_list(c.inserted, c.ninserted, od) < c.ninserted || in_list(c.batch, c.nbatch, od) < c.nbatch) od++;
            to_operand[d] = od++;
        } else {
            if (sd == c.vector_dim) sd++;
            to_index[d] = sd++;
        }
    }
    enum cpu_dt it = (enum cpu_dt)ix->dt;
    int64_t isize = (int64_t)cpu_dt_bytes(it), istep = c.vector_dim < ix->rank ? is[c.vector_dim] : 0;
    int last = up->rank - 1;
    bool row = last >= 0 && to_operand[last] >= 0;
    int64_t inner = row ? up->dims[last] : 1, step = row ? vs[to_operand[last]] : 1;
    int64_t idx[PLAN_RANK_MAX] = {0}, lastrow = row ? last : up->rank;
    for (int64_t at = 0; at < up->count; at += inner) {
        int64_t ipos = 0, base = 0;
        bool inside = true;
        for (int d = 0; d < up->rank; d++)
            if (to_index[d] >= 0) ipos += idx[d] * is[to_index[d]];
        int64_t start[PLAN_RANK_MAX] = {0};
        for (uint32_t k = 0; k < c.nmap; k++) {
            int64_t i = cpu_num_load(it, (const char *)x->ptr[s->in[c.n]] + (ipos + (int64_t)k * istep) * isize).i;
            if (it == CPU_U64 && i < 0) i = INT64_MAX / 2;
            start[c.map[k]] = i;
        }
        for (uint32_t k = 0; k < c.nbatch; k++)
            for (int d = 0; d < up->rank; d++)
                if (to_index[d] == c.ibatch[k]) start[c.batch[k]] = idx[d];
        int64_t pos[PLAN_RANK_MAX];
        memcpy(pos, start, sizeof pos);
        for (int d = 0; d < up->rank; d++)
            if (to_operand[d] >= 0) pos[to_operand[d]] += idx[d];
        int64_t k0 = 0, k1 = inner;
        for (int d = 0; d < v->rank; d++) {
            if (row && d == to_operand[last]) {
                if (pos[d] < 0) k0 = pos[d] < -inner ? inner : -pos[d];
                k1 = pos[d] >= v->dims[d] ? 0 : NF_MIN(k1, v->dims[d] - pos[d]);
            } else if (pos[d] < 0 || pos[d] >= v->dims[d]) {
                inside = false;
            }
            base += inside ? pos[d] * vs[d] : 0;
        }
        if (inside && k1 > k0) {
            for (uint32_t i = 0; i < c.n; i++) {
                enum cpu_dt t = (enum cpu_dt)step_out(p, s, i)->dt;
                int64_t size = (int64_t)cpu_dt_bytes(t);
                char *acc = (char *)x->ptr[s->out[i]] + (base + k0 * step) * size;
                const char *el = (const char *)x->ptr[s->in[c.n + 1 + i]] + (at + k0) * size;
                if (s->attr[0] == BODY_SET && step == 1) memcpy(acc, el, (size_t)((k1 - k0) * size));
                else if (s->attr[0] == BODY_SET)
                    for (int64_t k = 0; k < k1 - k0; k++) memcpy(acc + k * step * size, el + k * size, (size_t)size);
                else if (s->attr[0] >= 0 && step == 1) cpu_combine(t, (int)s->attr[0], acc, el, k1 - k0, 1);
                else if (s->attr[0] >= 0)
                    for (int64_t k = 0; k < k1 - k0; k++) cpu_combine(t, (int)s->attr[0], acc + k * step * size, el + k * size, 1, 1);
            }
            for (int64_t k = k0; s->attr[0] == BODY_BLOCK && k < k1; k++) {
                char *acc[64];
                const char *el[64];
                for (uint32_t i = 0; i < c.n; i++) {
                    int64_t size = (int64_t)cpu_dt_bytes((enum cpu_dt)step_out(p, s, i)->dt);
                    acc[i] = (char *)x->ptr[s->out[i]] + (base + k * step) * size;
                    el[i] = (const char *)x->ptr[s->in[c.n + 1 + i]] + (at + k) * size;
                }
                int rc = body_block(x, (uint32_t)s->attr[1], c.n, acc, el, err);
                if (rc) return rc;
            }
        }
        for (int64_t d = lastrow - 1; d >= 0 && ++idx[d] == up->dims[d]; d--) idx[d] = 0;
    }
    return 0;
}
