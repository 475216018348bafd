/* steps_index.c: reads and writes at places that are known only when the program runs. */
#include "runtime/cpu/steps.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

static int64_t load_index(enum cpu_dt t, const void *p)
{
    int64_t i = cpu_num_load(t, p).i;
    return t == CPU_U64 && i < 0 ? INT64_MAX : i;
}
static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* ----------------------------------------------------------------------------------------------------------- gather */

/* attributes: lists: offset dims, collapsed slice dims, operand batching dims, indices batching dims, start index map,
 * (index vector dim), list: slice sizes; inputs: operand, indices */
struct gather {
    uint32_t noffset, ncollapsed, nbatch, nibatch, nmap, nslice;
    int64_t offset[PLAN_RANK_MAX], collapsed[PLAN_RANK_MAX], batch[PLAN_RANK_MAX], ibatch[PLAN_RANK_MAX], map[PLAN_RANK_MAX], slice[PLAN_RANK_MAX];
    int64_t vector_dim;
    int to_operand[PLAN_RANK_MAX], to_index[PLAN_RANK_MAX]; /* by dim of the result; -1 */
};

static bool read_gather(const struct plan *p, const struct plan_step *s, struct gather *g)
{
    struct attrs a = {.s = s};
    const struct plan_value *v = step_in(p, s, 0), *ix = step_in(p, s, 1), *o = step_out(p, s, 0);
    g->noffset = attrs_list(&a, g->offset, PLAN_RANK_MAX);
    g->ncollapsed = attrs_list(&a, g->collapsed, PLAN_RANK_MAX);
    g->nbatch = attrs_list(&a, g->batch, PLAN_RANK_MAX);
    g->nibatch = attrs_list(&a, g->ibatch, PLAN_RANK_MAX);
    g->nmap = attrs_list(&a, g->map, PLAN_RANK_MAX);
    g->vector_dim = attrs_next(&a);
    g->nslice = attrs_list(&a, g->slice, PLAN_RANK_MAX);
    if (a.failed || a.at != s->nattr || g->nslice != v->rank || g->vector_dim < 0 || g->vector_dim > ix->rank) return false;
    uint32_t od = 0, sd = 0;
    for (int d = 0; d < o->rank; d++) {
        g->to_operand[d] = g->to_index[d] = -1;
        if (in_list(g->offset, g->noffset, d) < g->noffset) {
            while (od < v->rank && (in_list(g->collapsed, g->ncollapsed, od) < g->ncollapsed || in_list(g->batch, g->nbatch, od) < g->nbatch)) od++;
            if (od >= v->rank || o->dims[d] != g->slice[od]) return false;
            g->to_operand[d] = (int)od++;
        } else {
            if (sd == g->vector_dim) sd++;
            if (sd >= ix->rank || o->dims[d] != ix->dims[sd]) return false;
            g->to_index[d] = (int)sd++;
        }
    }
    if (sd == g->vector_dim) sd++;
    return sd >= ix->rank;
}

int step_gather__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    struct gather g;
    const struct plan_value *v = step_in(p, s, 0), *ix = step_in(p, s, 1), *o = step_out(p, s, 0);
    if (!read_gather(p, s, &g)) BAD("its dims are not understood");
    if (v->dt != o->dt || ix->dt > CPU_U64 || ix->dt == CPU_PRED) BAD("its operands have other types");
    for (int d = 0; d < v->rank; d++) {
        bool dropped = in_list(g.collapsed, g.ncollapsed, d) < g.ncollapsed || in_list(g.batch, g.nbatch, d) < g.nbatch;
        if (g.slice[d] < 0 || g.slice[d] > v->dims[d] || (dropped && g.slice[d] > 1)) BAD("a slice is larger than the operand");
    }
    if (g.noffset + g.ncollapsed + g.nbatch != v->rank || g.nbatch != g.nibatch) BAD("its dims are not understood");
    if (g.nmap != (g.vector_dim < ix->rank ? (uint64_t)ix->dims[g.vector_dim] : 1)) BAD("index vectors have another length");
    for (uint32_t i = 0; i < g.nmap; i++)
        if (g.map[i] < 0 || g.map[i] >= v->rank) BAD("there is no dim %" PRId64, g.map[i]);
    for (uint32_t i = 0; i < g.nbatch; i++)
        if (g.batch[i] < 0 || g.batch[i] >= v->rank || g.ibatch[i] < 0 || g.ibatch[i] >= ix->rank || g.ibatch[i] == g.vector_dim ||
            v->dims[g.batch[i]] != ix->dims[g.ibatch[i]])
            BAD("batch dims differ");
    return 0;
}

struct gather_job {
    const struct gather *g;
    const struct plan_value *v, *ix, *o;
    const char *src, *index;
    char *dst;
    int64_t vs[PLAN_RANK_MAX], is[PLAN_RANK_MAX], inner, step;
    int rows; /* dims that make up the range */
};

static void gather_rows(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct gather_job *j = ctx;
    const struct gather *g = j->g;
    enum cpu_dt it = (enum cpu_dt)j->ix->dt;
    int64_t size = (int64_t)cpu_dt_bytes((enum cpu_dt)j->o->dt), isize = (int64_t)cpu_dt_bytes(it);
    int64_t istep = g->vector_dim < j->ix->rank ? j->is[g->vector_dim] : 0;
    (void)thread;
    for (int64_t r = lo; r < hi; r++) {
        int64_t idx[PLAN_RANK_MAX] = {0}, rest = r, ipos = 0, pos[PLAN_RANK_MAX] = {0}, base = 0;
        for (int d = j->rows - 1; d >= 0; d--) {
            idx[d] = rest % j->o->dims[d];
            rest /= j->o->dims[d];
            if (g->to_index[d] >= 0) ipos += idx[d] * j->is[g->to_index[d]];
        }
        for (uint32_t k = 0; k < g->nmap; k++)
            pos[g->map[k]] = clamp(load_index(it, j->index + (ipos + (int64_t)k * istep) * isize), 0, j->v->dims[g->map[k]] - g->slice[g->map[k]]);
        for (uint32_t k = 0; k < g->nbatch; k++)
            for (int d = 0; d < j->o->rank; d++)
                if (g->to_index[d] == g->ibatch[k]) pos[g->batch[k]] = idx[d];
        for (int d = 0; d < j->rows; d++)
            if (g->to_operand[d] >= 0) pos[g->to_operand[d]] += idx[d];
        for (int d = 0; d < j->v->rank; d++) base += pos[d] * j->vs[d];
        char *dst = j->dst + r * j->inner * size;
        const char *src = j->src + base * size;
        if (j->step == 1) memcpy(dst, src, (size_t)(j->inner * size));
        else
            for (int64_t k = 0; k < j->inner; k++) memcpy(dst + k * size, src + k * j->step * size, (size_t)size);
    }
}

int step_gather__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan *p = x->plan;
    struct gather g;
    if (!read_gather(p, s, &g)) BAD("gather: not understood");
    struct gather_job j = {.g = &g, .v = step_in(p, s, 0), .ix = step_in(p, s, 1), .o = step_out(p, s, 0), .inner = 1, .step = 1};
    if (j.o->count == 0) return 0;
    row_major(j.v, j.vs);
    row_major(j.ix, j.is);
    j.src = x->ptr[s->in[0]];
    j.index = x->ptr[s->in[1]];
    j.dst = x->ptr[s->out[0]];
    j.rows = j.o->rank;
    /* Trailing window dims that lie together in the operand are one row. */
    while (j.rows > 0 && g.to_operand[j.rows - 1] >= 0) {
        int d = j.rows - 1;
        int64_t st = j.vs[g.to_operand[d]];
        if (j.inner == 1) j.step = st;
        else if (st != j.inner * j.step) break;
        j.inner *= j.o->dims[d];
        j.rows = d;
    }
    cpu_pool_for(j.o->count / j.inner, 8192 / j.inner + 1, gather_rows, &j);
    return 0;
}

/* ---------------------------------------------------------------------------------------- dynamic slice and update */

static int check_starts(const struct plan *p, const struct plan_step *s, uint32_t from, int rank, struct nf_error *err)
{
    if (s->nin != from + (uint32_t)rank) BAD("it has %u start indices for %d dims", s->nin - from, rank);
    for (uint32_t i = from; i < s->nin; i++)
        if (step_in(p, s, i)->count != 1 || step_in(p, s, i)->dt == CPU_PRED || step_in(p, s, i)->dt > CPU_U64) BAD("start index %u is no integer", i - from);
    return 0;
}

/* attributes: none; inputs: operand, start indices; the result's shape is the slice's */
int step_dynamic_slice__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0), *o = step_out(p, s, 0);
    if (v->dt != o->dt || v->rank != o->rank) BAD("the result has another type");
    for (int d = 0; d < v->rank; d++)
        if (o->dims[d] > v->dims[d]) BAD("the slice is larger than the operand");
    return check_starts(p, s, 1, v->rank, err);
}

static int64_t starts(struct cpu_exec *x, const struct plan_step *s, uint32_t from, const struct plan_value *whole, const struct plan_value *part)
{
    int64_t st[PLAN_RANK_MAX], base = 0;
    row_major(whole, st);
    for (int d = 0; d < whole->rank; d++) {
        enum cpu_dt t = (enum cpu_dt)step_in(x->plan, s, from + (uint32_t)d)->dt;
        base += clamp(load_index(t, x->ptr[s->in[from + (uint32_t)d]]), 0, whole->dims[d] - part->dims[d]) * st[d];
    }
    return base;
}

static void copy_part(const struct plan_value *whole, const struct plan_value *part, char *dst, const char *src, bool into)
{
    struct cpu_copy_dim d[PLAN_RANK_MAX];
    int64_t ws[PLAN_RANK_MAX], ps[PLAN_RANK_MAX];
    row_major(whole, ws);
    row_major(part, ps);
    for (int i = 0; i < part->rank; i++) d[i] = (struct cpu_copy_dim){part->dims[i], into ? ps[i] : ws[i], into ? ws[i] : ps[i]};
    cpu_copy(dst, src, cpu_dt_bytes((enum cpu_dt)part->dt), part->rank, d);
}

int step_dynamic_slice__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(x->plan, s, 0), *o = step_out(x->plan, s, 0);
    (void)err;
    if (o->count == 0) return 0;
    int64_t at = starts(x, s, 1, v, o) * (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt);
    copy_part(v, o, x->ptr[s->out[0]], (const char *)x->ptr[s->in[0]] + at, false);
    return 0;
}

/* attributes: none; inputs: operand, update, start indices. The operand's memory may be the result's. */
int step_dynamic_update_slice__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0), *u = step_in(p, s, 1), *o = step_out(p, s, 0);
    if (v->dt != o->dt || u->dt != o->dt || !same_shape(v, o) || u->rank != v->rank) BAD("the result has another type");
    for (int d = 0; d < v->rank; d++)
        if (u->dims[d] > v->dims[d]) BAD("the update is larger than the operand");
    return check_starts(p, s, 2, v->rank, err);
}

int step_dynamic_update_slice__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(x->plan, s, 0), *u = step_in(x->plan, s, 1);
    (void)err;
    if (x->ptr[s->out[0]] != x->ptr[s->in[0]]) cpu_memcpy(x->ptr[s->out[0]], x->ptr[s->in[0]], (size_t)v->bytes);
    if (u->count == 0) return 0;
    int64_t at = starts(x, s, 2, v, u) * (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt);
    copy_part(v, u, (char *)x->ptr[s->out[0]] + at, x->ptr[s->in[1]], true);
    return 0;
}
