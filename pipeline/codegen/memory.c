/* memory.c: when each buffer lives, which ones share memory, and the plan that comes of it.
 *
 * Time is a number for each step, in order, those of nested graphs inside the step that runs them. A buffer lives from its
 * first write to its last read; what a loop reads from outside lives until the loop is over. Two buffers become one (in place)
 * when the first dies in the step that makes the second and no element is read after it was overwritten. Then the largest are
 * placed first, each at the lowest offset that is free during its life. */
#include "pipeline/codegen/cg.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/steps.h"

#include <inttypes.h>

struct buffer {
    struct cg_value *v;          /* the first owner */
    int32_t up;                  /* union; itself when representative */
    int32_t first, last;
    uint64_t bytes, offset;
    uint8_t where;
    uint32_t index;
    bool apart;                  /* of a graph that is */
    int32_t writers;             /* steps that write it */
};

struct mem {
    struct cg *cg;
    struct buffer *b;
    int32_t n, cap;
    int32_t now;
    uint32_t blocks;
    struct plan *plan;
    uint32_t cap_values, cap_kernels;
    int32_t *arg_last;           /* last read of each argument */
    struct cg_step **arg_last_step;
    struct nf_error *err;
};

static int32_t find(struct mem *m, int32_t i)
{
    while (m->b[i].up != i) {
        m->b[i].up = m->b[m->b[i].up].up;
        i = m->b[i].up;
    }
    return i;
}

static struct buffer *buffer_of(struct mem *m, struct cg_value *v)
{
    v = cg_memory(v);
    return v->buffer < 0 ? NULL : &m->b[find(m, v->buffer)];
}

static void new_buffer(struct mem *m, struct cg_value *v)
{
    if (v->buffer >= 0 || v->kind == CG_ARG || v->kind == CG_CONST) return;
    if (m->n == m->cap) {
        int32_t cap = m->cap ? m->cap * 2 : 256;
        struct buffer *b = NF_NEW_ARRAY(m->cg->arena, struct buffer, cap);
        if (m->n) memcpy(b, m->b, (size_t)m->n * sizeof *b);
        m->b = b;
        m->cap = cap;
    }
    v->buffer = m->n;
    m->b[m->n] = (struct buffer){.v = v, .up = m->n, .first = INT32_MAX, .last = -1, .bytes = (uint64_t)v->count * cpu_dt_bytes((enum cpu_dt)v->dt), .where = PLAN_ARENA, .apart = v->graph->apart};
    m->n++;
}

/* ------------------------------------------------------------------------------------------------------------ times */

static void touch(struct mem *m, struct cg_value *v, int32_t t, struct cg_step *reader)
{
    v = cg_memory(v);
    if (v->kind == CG_ARG) {
        if (t >= m->arg_last[v->index]) {
            m->arg_last[v->index] = t;
            m->arg_last_step[v->index] = reader;
        }
        return;
    }
    if (v->kind == CG_CONST) return;
    new_buffer(m, v);
    struct buffer *b = &m->b[v->buffer];
    b->first = NF_MIN(b->first, t);
    b->last = NF_MAX(b->last, t);
}

/* A read in graph g at time t: of an outer value, it counts until the loop that g is in is over. */
static void read_at(struct mem *m, struct cg_graph *g, struct cg_value *v, int32_t t, struct cg_step *reader)
{
    struct cg_graph *owner = cg_memory(v)->graph;
    struct cg_graph *at = g;
    int32_t until = t;
    while (at && at != owner) {
        until = at->end;
        at = at->parent;
    }
    if (until != t) reader = NULL;
    touch(m, v, t, reader);
    if (until != t) touch(m, v, until, NULL);
}

static void number(struct mem *m, struct cg_graph *g)
{
    struct cg_steps *s = g->steps;
    s->time = NF_NEW_ARRAY(m->cg->arena, int32_t, s->n + 2);
    s->end = NF_NEW_ARRAY(m->cg->arena, int32_t, s->n + 2);
    for (uint32_t i = 0; i < s->n; i++) {
        struct cg_value *lib = s->s[i].lib;
        s->time[i] = m->now++;
        for (uint32_t k = 0; lib && k < lib->ngraph; k++) {
            lib->graphs[k]->block = m->blocks++;
            number(m, lib->graphs[k]);
        }
        s->end[i] = lib && lib->ngraph ? m->now++ : s->time[i];
        for (uint32_t k = 0; lib && k < lib->ngraph; k++) lib->graphs[k]->end = s->end[i];
    }
}

static void lives(struct mem *m, struct cg_graph *g)
{
    struct cg_steps *s = g->steps;
    for (uint32_t i = 0; i < s->n; i++) {
        struct cg_step *st = &s->s[i];
        for (uint32_t k = 0; k < st->nin; k++) {
            read_at(m, g, st->in[k], s->time[i], st);
            /* Operands of operations with bodies are read all the way through, a loop's initial values at its start. */
            if (st->lib && st->lib->ngraph && st->op != PLAN_WHILE && st->op != PLAN_CASE) read_at(m, g, st->in[k], s->end[i], NULL);
        }
        for (uint32_t k = 0; k < st->nout; k++) {
            bool late = st->op == PLAN_WHILE || st->op == PLAN_CASE;
            touch(m, st->out[k], late ? s->end[i] : s->time[i], NULL);
            if (!late) touch(m, st->out[k], s->end[i], NULL);
            struct buffer *b = &m->b[cg_memory(st->out[k])->buffer];
            b->writers++;
        }
        for (uint32_t k = 0; st->lib && k < st->lib->ngraph; k++) {
            struct cg_graph *b = st->lib->graphs[k];
            b->apart = g->apart || st->op == PLAN_DEVICES;
            for (uint32_t q = 0; q < b->nparam; q++) {
                touch(m, b->params[q], s->time[i], NULL);
                touch(m, b->params[q], s->end[i], NULL);
                m->b[b->params[q]->buffer].writers = 2; /* written from outside the steps */
            }
            lives(m, b);
            for (uint32_t q = 0; q < b->nresult; q++) read_at(m, b, b->results[q], s->end[i], NULL);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------ merge */

static bool mergeable(const struct buffer *b) { return b->where == PLAN_ARENA; }

static void merge(struct mem *m, struct buffer *a, struct buffer *b) /* b's users move to a */
{
    a->first = NF_MIN(a->first, b->first);
    a->last = NF_MAX(a->last, b->last);
    a->bytes = NF_MAX(a->bytes, b->bytes);
    a->writers += b->writers;
    b->up = (int32_t)(a - m->b);
}

static bool same_access(const struct rp_prog *p, int a, int b)
{
    if (p->acc[a].base != p->acc[b].base || cpu_dt_bytes(p->acc[a].dt) != cpu_dt_bytes(p->acc[b].dt)) return false;
    return memcmp(p->acc[a].stride, p->acc[b].stride, (size_t)p->nd * sizeof *p->acc[a].stride) == 0;
}

/* Every access to both arguments must be the same one, no
 * element be read after its store, and each stored by the iteration that reads it. */
bool cg_in_place(const struct rp_prog *p, int in, int out)
{
    int access = -1, stored = -1;
    for (int a = 0; a < p->nacc; a++) {
        if (p->acc[a].arg != in && p->acc[a].arg != out) continue;
        if (access < 0) access = a;
        else if (!same_access(p, access, a)) return false;
    }
    if (access < 0) return false;
    /* A stride of 0 over a loop would mean that other iterations read the element too. */
    for (int d = 0; d < p->nd; d++)
        if (p->acc[access].stride[d] == 0 && (d == 0 ? p->npar > 0 : p->dims[d] > 1)) return false;
    int pass = 0;
    for (int i = 0; i < p->nins; i++) {
        if (p->ins[i].op == RP_PASS || p->ins[i].op == RP_ONCE) pass++;
        if (p->ins[i].op == RP_ST && p->acc[p->ins[i].aux].arg == out && stored < 0) stored = pass;
        if (p->ins[i].op == RP_LD && p->acc[p->ins[i].aux].arg == in && stored >= 0 && pass >= stored) return false;
    }
    return stored >= 0;
}

static bool made_in_place(const struct cg_graph *body, const struct cg_value *p, const struct cg_value *r, int32_t t);

static void merge_steps(struct mem *m, struct cg_graph *g)
{
    struct cg_steps *s = g->steps;
    for (uint32_t i = 0; i < s->n; i++) {
        struct cg_step *st = &s->s[i];
        int32_t t = s->time[i];
        for (uint32_t k = 0; st->lib && k < st->lib->ngraph; k++) merge_steps(m, st->lib->graphs[k]);
        for (uint32_t o = 0; o < st->nout; o++) {
            struct buffer *ob = buffer_of(m, st->out[o]);
            if (!ob || !mergeable(ob) || ob->first != t || ob->writers != 1) continue;
            for (uint32_t k = 0; k < st->nin; k++) {
                struct cg_value *in = cg_memory(st->in[k]);
                struct buffer *ib = buffer_of(m, in);
                if (!ib || ib == ob || !mergeable(ib) || ib->last != t || ib->bytes != ob->bytes) continue;
                bool ok = st->op == PLAN_KERNEL ? cg_in_place(st->prog, (int)k, (int)(st->nin + o)) : st->lib && st->lib->in_place && k == 0 && o == 0;
                /* The same memory under another operand would be overwritten under its feet. */
                for (uint32_t q = 0; q < st->nin && ok; q++)
                    if (q != k && buffer_of(m, st->in[q]) == ib) ok = false;
                if (!ok) continue;
                merge(m, ib, ob);
                break;
            }
        }
        if (st->op == PLAN_WHILE) {
            struct cg_graph *body = st->lib->graphs[1];
            for (uint32_t k = 0; k < st->nin; k++) {
                struct buffer *pb = buffer_of(m, body->params[k]), *ob = buffer_of(m, st->out[k]), *ib = buffer_of(m, st->in[k]), *rb = buffer_of(m, body->results[k]);
                /* The loop's own memory is its result's. */
                if (ob && ob != pb && ob->first == s->end[i] && mergeable(pb) && (mergeable(ob) || ob->where == PLAN_OUT)) {
                    uint8_t where = ob->where;
                    uint32_t index = ob->index;
                    merge(m, pb, ob);
                    pb->where = where;
                    pb->index = index;
                }
                pb = buffer_of(m, body->params[k]);
                if (ib && ib != pb && mergeable(ib) && ib->last == t && ib->bytes == pb->bytes && mergeable(pb)) merge(m, pb, ib);
                /* What the body makes lies in the parameter's place if nobody reads the parameter afterwards. */
                struct cg_value *r = cg_memory(body->results[k]);
                bool once = true;
                for (uint32_t q = 0; q < st->nin; q++) once = once && (q == k || cg_memory(body->results[q]) != r);
                if (rb && rb != pb && once && r->graph == body && r->kind != CG_PARAM && mergeable(rb) && rb->bytes == pb->bytes &&
                    (rb->first > body->params[k]->level || (rb->first == body->params[k]->level && made_in_place(body, body->params[k], r, rb->first)))) {
                    bool where_out = pb->where == PLAN_OUT;
                    uint32_t index = pb->index;
                    if (where_out || mergeable(pb)) {
                        merge(m, pb, rb);
                        if (where_out) pb->index = index;
                    }
                }
            }
        }
    }
}

/* Is `r`, made by the body at the time of the last read of parameter `p`, made in place of it? */
static bool made_in_place(const struct cg_graph *body, const struct cg_value *p, const struct cg_value *r, int32_t t)
{
    for (uint32_t i = 0; i < body->steps->n; i++) {
        const struct cg_step *st = &body->steps->s[i];
        if (body->steps->time[i] != t) continue;
        uint32_t out = 0, in = st->nin, reads = 0;
        while (out < st->nout && cg_memory(st->out[out]) != r) out++;
        for (uint32_t k = 0; k < st->nin; k++)
            if (cg_memory(st->in[k]) == p) {
                in = k;
                reads++;
            }
        if (out == st->nout || reads != 1) return false;
        if (st->op == PLAN_KERNEL) return cg_in_place(st->prog, (int)in, (int)(st->nin + out));
        return st->lib && st->lib->in_place && in == 0 && out == 0;
    }
    return false;
}

/* Last read of every loop parameter inside its loop, into `level` (whose job in lower.c is done): by steps of body and condition. */
static void param_reads(struct mem *m, struct cg_graph *g)
{
    struct cg_steps *s = g->steps;
    for (uint32_t i = 0; i < s->n; i++) {
        struct cg_step *st = &s->s[i];
        for (uint32_t k = 0; k < st->nin; k++) {
            struct cg_value *v = cg_memory(st->in[k]);
            if (v->kind != CG_PARAM) continue;
            struct cg_graph *at = g;
            int32_t t = s->end[i];
            while (at && at != v->graph) {
                /* read in a graph inside: until that is over; the condition runs after the body's copies */
                t = at->parent == v->graph->parent && at != v->graph ? s->time[i] : at->end;
                at = at->parent;
                if (at == v->graph->parent) break;
            }
            v->level = NF_MAX(v->level, t);
        }
        for (uint32_t k = 0; st->lib && k < st->lib->ngraph; k++) {
            struct cg_graph *b = st->lib->graphs[k];
            for (uint32_t q = 0; q < b->nparam; q++)
                if (b->params[q]->graph == b) b->params[q]->level = 0;
        }
        for (uint32_t k = 0; st->lib && k < st->lib->ngraph; k++) param_reads(m, st->lib->graphs[k]);
        for (uint32_t k = 0; st->lib && k < st->lib->ngraph; k++) { /* a parameter that is a result is read at the end */
            struct cg_graph *b = st->lib->graphs[k];
            for (uint32_t q = 0; q < b->nresult; q++) {
                struct cg_value *r = cg_memory(b->results[q]);
                if (r->kind == CG_PARAM) r->level = INT32_MAX;
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------ place */

static int by_size(const void *x, const void *y)
{
    const struct buffer *a = *(struct buffer *const *)x, *b = *(struct buffer *const *)y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Memory that buffers are put into: the arena, or an output's until that is written. */
struct room {
    struct buffer *owner;        /* the output; NULL: the arena */
    uint64_t bytes;
    int32_t after;               /* free from after this time, which is the last read of the argument that it may be */
    struct buffer **done;        /* what is in it, by offset */
    int32_t ndone, cap;
};

/* The lowest offset that is free while b lives. */
static uint64_t lowest(const struct room *r, const struct buffer *b)
{
    uint64_t need = (b->bytes + 63) & ~(uint64_t)63, at = 0;
    for (int32_t k = 0; k < r->ndone; k++) {
        const struct buffer *o = r->done[k];
        if (o->last < b->first || b->last < o->first) continue;
        if (o->offset >= at + need) break;
        uint64_t end = o->offset + ((o->bytes + 63) & ~(uint64_t)63);
        if (end > at) at = end;
    }
    return at;
}

static void put(struct mem *m, struct room *r, struct buffer *b, uint64_t at)
{
    if (r->ndone == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 4;
        struct buffer **more = NF_NEW_ARRAY(m->cg->arena, struct buffer *, r->cap);
        if (r->ndone) memcpy(more, r->done, (size_t)r->ndone * sizeof *more);
        r->done = more;
    }
    b->offset = at;
    int32_t k = r->ndone++;
    for (; k > 0 && r->done[k - 1]->offset > at; k--) r->done[k] = r->done[k - 1];
    r->done[k] = b;
}

static int by_bytes(const void *x, const void *y)
{
    const struct room *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->owner->index < b->owner->index ? -1 : a->owner->index > b->owner->index;
}

/* Outputs that have their own memory, smallest first. */
static uint32_t output_rooms(struct mem *m, struct room *rooms)
{
    struct cg *cg = m->cg;
    uint32_t n = 0;
    for (uint32_t i = 0; i < cg->nouts; i++) {
        struct buffer *b = buffer_of(m, cg->main->results[i]);
        if (!b || b->where != PLAN_OUT || b->index != i || b->bytes < 4096) continue;
        rooms[n++] = (struct room){.owner = b, .bytes = b->bytes, .after = cg->alias[i] < 0 ? -1 : m->arg_last[cg->alias[i]]};
    }
    qsort(rooms, n, sizeof *rooms, by_bytes);
    return n;
}

/* Does the step that first writes the output read b for the last time, and each element before it is written over? */
static bool taken_over(struct mem *m, const struct buffer *b, const struct buffer *output)
{
    const struct cg_steps *s = m->cg->main->steps;
    uint32_t lo = 0, hi = s->n; /* times ascend */
    if (b->last != output->first) return false;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->time[mid] < b->last) lo = mid + 1;
        else hi = mid;
    }
    if (lo == s->n || s->time[lo] != b->last) return false;
    const struct cg_step *st = &s->s[lo];
    bool library = st->lib && st->lib->in_place;
    if (st->op != PLAN_KERNEL && !library) return false;
    uint32_t in = st->nin, reads = 0, out = st->nout, writes = 0;
    for (uint32_t k = 0; k < st->nin; k++)
        if (buffer_of(m, st->in[k]) == b) {
            in = k;
            reads++;
        }
    for (uint32_t k = 0; k < st->nout; k++) {
        if (buffer_of(m, st->out[k]) == b) return false; /* another result lies there already */
        if (buffer_of(m, st->out[k]) != output) continue;
        out = k;
        writes++;
    }
    if (reads != 1 || writes != 1) return false;
    return library ? in == 0 && out == 0 && b->bytes == output->bytes : cg_in_place(st->prog, (int)in, (int)(st->nin + out));
}

/* What is dead before an output is first written may lie in its memory (gradients in that of the weights to come); the rest goes to the
 * arena. Largest first. */
static uint64_t place(struct mem *m)
{
    struct buffer **list = NF_NEW_ARRAY(m->cg->arena, struct buffer *, (size_t)m->n + 1);
    struct room arena = {.bytes = UINT64_MAX}, *rooms = NF_NEW_ARRAY(m->cg->arena, struct room, m->cg->nouts + 1);
    uint32_t nroom = output_rooms(m, rooms);
    int32_t n = 0;
    uint64_t top = 0;
    for (int32_t i = 0; i < m->n; i++)
        if (m->b[i].up == i && m->b[i].where == PLAN_ARENA && m->b[i].bytes) list[n++] = &m->b[i];
    qsort(list, (size_t)n, sizeof *list, by_size);
    for (int32_t i = 0; i < n; i++) {
        struct buffer *b = list[i];
        uint64_t need = (b->bytes + 63) & ~(uint64_t)63, at = 0;
        struct room *in = &arena;
        for (uint32_t r = 0; r < nroom && in == &arena && need >= 4096 && !b->apart; r++) {
            const struct room *o = &rooms[r];
            bool over = b->last >= o->owner->first;
            if (o->bytes < b->bytes || b->first <= o->after || (over && !taken_over(m, b, o->owner))) continue;
            at = lowest(o, b);
            if (over && at) continue;
            if (at <= o->bytes && b->bytes <= o->bytes - at) in = &rooms[r];
        }
        if (in == &arena) {
            at = lowest(in, b);
            top = NF_MAX(top, at + need);
        } else {
            b->where = PLAN_OUT;
            b->index = in->owner->index;
        }
        put(m, in, b, at);
    }
    return top;
}

/* ------------------------------------------------------------------------------------------------------------- plan */

static uint32_t plan_value(struct mem *m, struct cg_value *v)
{
    if (v->plan_value) return v->plan_value - 1;
    struct plan *p = m->plan;
    struct cg_value *b = cg_memory(v);
    if (p->nvalues == m->cap_values) {
        uint32_t cap = m->cap_values ? m->cap_values * 2 : 256;
        struct plan_value *n = NF_NEW_ARRAY(m->cg->arena, struct plan_value, cap);
        if (p->nvalues) memcpy(n, p->value, p->nvalues * sizeof *n);
        p->value = n;
        m->cap_values = cap;
    }
    struct plan_value *pv = &p->value[p->nvalues];
    *pv = (struct plan_value){.dt = v->dt, .rank = v->rank, .count = v->count};
    pv->dims = nf_arena_alloc_raw(m->cg->arena, v->rank * sizeof *v->dims);
    memcpy(pv->dims, v->dims, v->rank * sizeof *v->dims);
    pv->bytes = v->count * (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt);
    if (b->kind == CG_ARG) {
        pv->where = PLAN_ARG;
        pv->index = b->index;
    } else if (b->kind == CG_CONST) {
        struct nf_buf *c = &m->cg->constants;
        struct nf_str key = nf_str_n(&b->data, sizeof b->data);
        if (!m->cg->const_map) m->cg->const_map = nf_map_new(true);
        uintptr_t at = (uintptr_t)nf_map_get(m->cg->const_map, key);
        if (!at) {
            static const char zero[64];
            nf_buf_add(c, zero, (64 - c->len % 64) % 64);
            at = c->len + 1;
            nf_buf_add(c, b->data.data, (size_t)pv->bytes);
            nf_map_put(m->cg->const_map, key, (void *)at);
        }
        pv->where = PLAN_CONST;
        pv->offset = (int64_t)(at - 1);
    } else {
        struct buffer *buf = buffer_of(m, b);
        if (!buf) { /* made by nothing that runs: an empty value */
            new_buffer(m, b);
            buf = buffer_of(m, b);
            buf->bytes = 0;
            if (b->count != 0 && !m->err->code) nf_fail(m->err, NF_EINTERNAL, "codegen: a value has no memory");
        }
        pv->where = buf->where;
        pv->index = buf->where == PLAN_OUT ? buf->index : 0;
        pv->offset = (int64_t)buf->offset;
    }
    v->plan_value = ++p->nvalues;
    return p->nvalues - 1;
}

static uint32_t kernel_number(struct mem *m, const struct cg_step *st)
{
    struct cg *cg = m->cg;
    struct nf_buf text = NF_BUF_INIT;
    rp_print(st->prog, &text);
    if (!cg->kernel_map) cg->kernel_map = nf_map_new(true);
    struct cg_kernel *k = nf_map_get(cg->kernel_map, nf_buf_str(&text));
    if (!k) {
        k = NF_NEW(cg->arena, struct cg_kernel);
        k->text = nf_arena_str(cg->arena, nf_buf_str(&text));
        k->prog = st->prog;
        k->number = cg->nkernel;
        if (cg->nkernel == cg->cap_kernel) {
            uint32_t cap = cg->cap_kernel ? cg->cap_kernel * 2 : 64;
            struct cg_kernel **n = NF_NEW_ARRAY(cg->arena, struct cg_kernel *, cap);
            if (cg->nkernel) memcpy(n, cg->kernels, cg->nkernel * sizeof *n);
            cg->kernels = n;
            cg->cap_kernel = cap;
        }
        cg->kernels[cg->nkernel++] = k;
        nf_map_put(cg->kernel_map, k->text, k);
    }
    nf_buf_done(&text);
    return k->number;
}

static uint32_t *ids(struct mem *m, struct cg_value *const *v, uint32_t n)
{
    uint32_t *r = NF_NEW_ARRAY(m->cg->arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++) r[i] = plan_value(m, v[i]);
    return r;
}

static void build(struct mem *m, struct cg_graph *g)
{
    struct plan_block *b = &m->plan->block[g->block];
    struct cg_steps *s = g->steps;
    if (g->parent) {
        b->nparam = g->nparam;
        b->param = ids(m, g->params, g->nparam);
        b->nresult = g->nresult;
        b->result = ids(m, g->results, g->nresult);
    }
    b->step = NF_NEW_ARRAY(m->cg->arena, struct plan_step, s->n + m->cg->nouts + 1);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct cg_step *st = &s->s[i];
        struct plan_step *ps = &b->step[b->nstep++];
        *ps = (struct plan_step){.op = st->op, .label = st->label, .nin = st->nin, .nout = st->nout, .nattr = st->nattr};
        ps->in = ids(m, st->in, st->nin);
        ps->out = ids(m, st->out, st->nout);
        if (st->op == PLAN_KERNEL) {
            int64_t *attr = NF_NEW_ARRAY(m->cg->arena, int64_t, 3);
            attr[0] = kernel_number(m, st);
            attr[1] = st->outer;
            attr[2] = st->grain;
            ps->attr = attr;
            ps->nattr = 3;
            continue;
        }
        int64_t *attr = NF_NEW_ARRAY(m->cg->arena, int64_t, st->nattr + 1);
        if (st->nattr) memcpy(attr, st->attr, st->nattr * sizeof *attr);
        ps->attr = attr;
        if (st->op == PLAN_ATTENTION) {
            attr[0] = kernel_number(m, st);
            m->plan->scratch_bytes = NF_MAX(m->plan->scratch_bytes, cpu_attention_scratch(ps, (uint64_t)st->prog->scratch_bytes));
        }
        for (uint32_t k = 0; st->lib && k < st->lib->ngraph; k++) {
            attr[st->lib->graph_attr[k]] = st->lib->graphs[k]->block;
            build(m, st->lib->graphs[k]);
        }
    }
}

/* An output that may share memory with an argument is written in place only after the argument's last reader. */
static bool donation_safe(struct mem *m, uint32_t out, const struct buffer *b)
{
    int64_t arg = m->cg->alias[out];
    if (arg < 0) return true;
    int32_t last = m->arg_last[arg];
    if (last < b->first) return true;
    if (last > b->first) return false;
    struct cg_step *st = m->arg_last_step[arg];
    if (!st || st->op != PLAN_KERNEL) return false;
    for (uint32_t k = 0; k < st->nin; k++)
        if (cg_memory(st->in[k]) == m->cg->args[arg])
            for (uint32_t o = 0; o < st->nout; o++)
                if (buffer_of(m, st->out[o]) == b) return cg_in_place(st->prog, (int)k, (int)(st->nin + o));
    return false;
}

static void all_kernels(struct mem *m)
{
    struct cg *cg = m->cg;
    struct plan *p = m->plan;
    p->nkernels = cg->nkernel;
    p->kernel = NF_NEW_ARRAY(cg->arena, struct plan_kernel, cg->nkernel + 1);
    for (uint32_t i = 0; i < cg->nkernel; i++) {
        const struct rp_prog *q = cg->kernels[i]->prog;
        p->kernel[i] = (struct plan_kernel){.image_offset = -1, .args = (uint32_t)q->narg, .per_outer = rp_range(q, 1), .scratch_bytes = (uint64_t)q->scratch_bytes, .text = cg->kernels[i]->text};
        p->scratch_bytes = NF_MAX(p->scratch_bytes, p->kernel[i].scratch_bytes);
    }
}

int cg_plan(struct cg *cg, struct plan **ret_plan, struct nf_error *err)
{
    struct nf_error own = {0};
    struct mem m = {.cg = cg, .blocks = 1, .err = &own};
    struct cg_graph *g = cg->main;
    m.plan = NF_NEW(cg->arena, struct plan);
    m.arg_last = NF_NEW_ARRAY(cg->arena, int32_t, cg->nargs + 1);
    m.arg_last_step = NF_NEW_ARRAY(cg->arena, struct cg_step *, cg->nargs + 1);
    for (uint32_t i = 0; i < cg->nargs; i++) m.arg_last[i] = -1;
    number(&m, g);
    lives(&m, g);
    int32_t end = m.now;
    /* Outputs first: their places are given. */
    bool *copied = NF_NEW_ARRAY(cg->arena, bool, cg->nouts + 1);
    for (uint32_t i = 0; i < cg->nouts; i++) {
        struct cg_value *v = g->results[i];
        new_buffer(&m, v);
        struct buffer *b = &m.b[v->buffer];
        b->last = end;
        if (b->first == INT32_MAX) b->first = end; /* empty: nothing writes it */
        copied[i] = !donation_safe(&m, i, b);
        if (copied[i]) continue;
        b->where = PLAN_OUT;
        b->index = i;
    }
    param_reads(&m, g);
    merge_steps(&m, g);
    /* A loop may have moved an output's first write before a reader of the argument that it shares memory with. */
    for (uint32_t i = 0; i < cg->nouts; i++) {
        struct buffer *b = buffer_of(&m, g->results[i]);
        if (copied[i] || b->where != PLAN_OUT || donation_safe(&m, i, b)) continue;
        b->where = PLAN_ARENA;
        b->last = end;
        copied[i] = true;
    }
    struct plan *p = m.plan;
    p->arena_bytes = place(&m);
    p->features = cg->options.interpret ? 0 : cg->options.features;
    p->nargs = cg->nargs;
    p->nouts = cg->nouts;
    p->nblocks = m.blocks;
    p->block = NF_NEW_ARRAY(cg->arena, struct plan_block, m.blocks);
    build(&m, g);
    for (uint32_t i = 0; i < cg->nouts; i++) {
        if (!copied[i] || g->results[i]->count == 0) continue;
        struct cg_value *v = g->results[i], *o = NF_NEW(cg->arena, struct cg_value);
        *o = *v;
        o->plan_value = 0;
        o->buffer = -1;
        new_buffer(&m, o);
        m.b[o->buffer].where = PLAN_OUT;
        m.b[o->buffer].index = i;
        int64_t *attr = NF_NEW_ARRAY(cg->arena, int64_t, 3);
        attr[2] = -1;
        p->block[0].step[p->block[0].nstep++] = (struct plan_step){.op = PLAN_COPY, .label = v->label, .nin = 1, .nout = 1, .nattr = 3, .in = ids(&m, &v, 1), .out = ids(&m, &o, 1), .attr = attr};
    }
    all_kernels(&m);
    p->nlabels = cg->nlabel;
    p->label = cg->labels ? cg->labels : NF_NEW_ARRAY(cg->arena, struct nf_str, 1);
    if (own.code) {
        if (err) *err = own;
        return own.code;
    }
    *ret_plan = p;
    return 0;
}
