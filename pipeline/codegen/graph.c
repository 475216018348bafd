/* graph.c: builds graph values; equal ones are made once, what needs no work is simplified away as it is built. */
#include "pipeline/codegen/cg.h"

#include <inttypes.h>
#include <math.h>

struct cg_graph *cg_graph_new(struct cg *cg, struct cg_graph *parent)
{
    struct cg_graph *g = NF_NEW(cg->arena, struct cg_graph);
    g->cg = cg;
    g->parent = parent;
    g->older = cg->newest;
    cg->newest = g;
    return g;
}

static void append(struct cg_graph *g, struct cg_value *v)
{
    if (g->n == g->cap) {
        uint32_t cap = g->cap ? g->cap * 2 : 64;
        struct cg_value **n = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, cap);
        if (g->n) memcpy(n, g->v, g->n * sizeof *n);
        g->v = n;
        g->cap = cap;
    }
    v->id = g->n;
    g->v[g->n++] = v;
}

struct cg_value *cg_raw(struct cg_graph *g, enum cg_kind kind, enum cpu_dt dt, int rank, const int64_t *dims)
{
    struct cg_value *v = NF_NEW(g->cg->arena, struct cg_value);
    v->kind = (uint8_t)kind;
    v->dt = (uint8_t)dt;
    v->rank = (uint8_t)rank;
    v->label = PLAN_NO_LABEL;
    v->graph = g;
    v->count = 1;
    v->buffer = -1;
    for (int d = 0; d < rank; d++) {
        v->dims[d] = dims[d];
        v->count *= dims[d];
    }
    append(g, v);
    return v;
}

static int64_t *copy_list(struct cg_graph *g, const int64_t *v, size_t n)
{
    int64_t *c = NF_NEW_ARRAY(g->cg->arena, int64_t, n ? n : 1);
    if (n) memcpy(c, v, n * sizeof *c);
    return c;
}
static struct cg_value **copy_in(struct cg_graph *g, struct cg_value *const *in, uint32_t n)
{
    struct cg_value **c = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, n ? n : 1);
    if (n) memcpy(c, in, n * sizeof *c);
    return c;
}

/* The value, or the equal one that the graph already has (and then this one, which is the last, is taken back). */
static struct cg_value *unique(struct cg_graph *g, struct cg_value *v)
{
    char key[1024];
    size_t at = 0;
    bool fits = true;
#define PUT(p, n)                                         \
    do {                                                  \
        if (at + (n) > sizeof key) fits = false;          \
        else memcpy(key + at, (p), (n)), at += (n);       \
    } while (0)
    uint16_t head[5] = {v->kind, v->dt, v->rank, v->op, v->aux};
    PUT(head, sizeof head);
    PUT(&v->index, sizeof v->index);
    PUT(v->dims, v->rank * sizeof *v->dims);
    for (uint32_t i = 0; i < v->nin && fits; i++) PUT(&v->in[i], sizeof v->in[i]);
    if (v->list) PUT(v->list, v->nlist * sizeof *v->list);
    if (v->list2) PUT(v->list2, v->nlist * sizeof *v->list2);
    if (v->nattr) PUT(v->attrs, v->nattr * sizeof *v->attrs);
    if (v->kind == CG_SPLAT) {
        PUT(&v->num.re, 8);
        PUT(&v->num.im, 8);
        PUT(&v->num.i, 8);
    }
    if (v->kind == CG_CONST) {
        PUT(&v->data.data, sizeof v->data.data);
        PUT(&v->data.len, sizeof v->data.len);
    }
#undef PUT
    if (!fits) return v;
    if (!g->cse) g->cse = nf_map_new(true);
    struct cg_value *old = nf_map_get(g->cse, nf_str_n(key, at));
    if (old) {
        g->n--;
        return old;
    }
    nf_map_put(g->cse, nf_str_n(key, at), v);
    return v;
}

void cg_enter(struct cg_value *v)
{
    bool made_once = v->kind == CG_SPLAT || v->kind == CG_CONST || v->kind == CG_IOTA || v->kind == CG_REDUCE || cg_is_view(v) || (v->kind == CG_EW && !(v->op == RP_COPY && v->output));
    uint32_t n = v->graph->n;
    if (made_once && !v->dead) (void)unique(v->graph, v);
    v->graph->n = n; /* an equal one that stands before takes nothing back */
}

static bool same_dims(const struct cg_value *v, int rank, const int64_t *dims)
{
    return v->rank == rank && memcmp(v->dims, dims, (size_t)rank * sizeof *dims) == 0;
}

struct cg_value *cg_splat(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims, struct cpu_num num)
{
    struct cg_value *v = cg_raw(g, CG_SPLAT, dt, rank, dims);
    v->num = num;
    return unique(g, v);
}

struct cg_value *cg_const(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims, struct nf_str data)
{
    struct cg_value *v = cg_raw(g, CG_CONST, dt, rank, dims);
    v->data = data;
    return unique(g, v);
}

struct cg_value *cg_iota(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims, uint32_t dim)
{
    struct cg_value *v = cg_raw(g, CG_IOTA, dt, rank, dims);
    v->index = dim;
    return unique(g, v);
}

bool cg_splat_is(const struct cg_value *v, double x)
{
    if (v->kind != CG_SPLAT) return false;
    if (v->dt <= CPU_U64) return (double)v->num.i == x;
    return v->num.re == x && v->num.im == 0 && signbit(v->num.re) == signbit(x);
}

struct cg_value *cg_ew(struct cg_graph *g, enum rp_op op, enum cpu_dt dt, int aux, uint32_t n, struct cg_value *const *in)
{
    bool splats = n > 0;
    for (uint32_t i = 0; i < n; i++) splats = splats && in[i]->kind == CG_SPLAT;
    if (splats) {
        struct rp_ins ins = {.op = (uint16_t)op, .dt = (uint8_t)dt, .aux = (uint16_t)aux};
        enum cpu_dt t[3] = {0};
        struct cpu_num v[3] = {{0}};
        for (uint32_t i = 0; i < n; i++) {
            t[i] = (enum cpu_dt)in[i]->dt;
            v[i] = in[i]->num;
        }
        return cg_splat(g, dt, in[0]->rank, in[0]->dims, rp_eval(&ins, t, v));
    }
    if (op == RP_CVT && in[0]->dt == dt) return in[0];
    if (op == RP_MUL && !cpu_dt_complex(dt)) {
        if (cg_splat_is(in[1], 1)) return in[0];
        if (cg_splat_is(in[0], 1)) return in[1];
    }
    if ((op == RP_ADD || op == RP_SUB) && cpu_dt_int(dt) && cg_splat_is(in[1], 0)) return in[0];
    if (op == RP_ADD && cpu_dt_int(dt) && cg_splat_is(in[0], 0)) return in[1];
    if (op == RP_DIV && cg_splat_is(in[1], 1) && !cpu_dt_complex(dt)) return in[0];
    if (op == RP_SEL && in[0]->kind == CG_SPLAT) return in[0]->num.i ? in[1] : in[2];
    if (op == RP_SEL && in[1] == in[2]) return in[1];
    if (op == RP_SEL && dt == CPU_PRED && cg_splat_is(in[1], 1) && cg_splat_is(in[2], 0)) return in[0];
    if (op == RP_CMP && aux == RP_NE && cg_splat_is(in[1], 0) && in[0]->kind == CG_EW && in[0]->op == RP_CVT && in[0]->in[0]->dt == CPU_PRED)
        return in[0]->in[0]; /* a mask that was a number for a while */
    struct cg_value *v = cg_raw(g, CG_EW, dt, in[0]->rank, in[0]->dims);
    v->op = (uint16_t)op;
    v->aux = (uint16_t)aux;
    v->nin = n;
    v->in = copy_in(g, in, n);
    return unique(g, v);
}

struct cg_value *cg_convert(struct cg_graph *g, struct cg_value *v, enum cpu_dt dt) { return cg_ew(g, RP_CVT, dt, 0, 1, &v); }

static struct cg_value *view(struct cg_graph *g, enum cg_kind kind, struct cg_value *in, int rank, const int64_t *dims, uint32_t nlist, const int64_t *list,
                             const int64_t *list2)
{
    struct cg_value *v = cg_raw(g, kind, (enum cpu_dt)in->dt, rank, dims);
    v->nin = 1;
    v->in = copy_in(g, &in, 1);
    v->nlist = nlist;
    if (list) v->list = copy_list(g, list, nlist);
    if (list2) v->list2 = copy_list(g, list2, nlist);
    return unique(g, v);
}

struct cg_value *cg_reshape(struct cg_graph *g, struct cg_value *v, int rank, const int64_t *dims)
{
    if (v->kind == CG_SPLAT) return cg_splat(g, (enum cpu_dt)v->dt, rank, dims, v->num);
    while (v->kind == CG_RESHAPE) v = v->in[0];
    if (same_dims(v, rank, dims)) return v;
    if (v->kind == CG_CONST) return cg_const(g, (enum cpu_dt)v->dt, rank, dims, v->data);
    return view(g, CG_RESHAPE, v, rank, dims, 0, NULL, NULL);
}

struct cg_value *cg_broadcast(struct cg_graph *g, struct cg_value *v, int rank, const int64_t *dims, const int64_t *map)
{
    if (v->kind == CG_SPLAT) return cg_splat(g, (enum cpu_dt)v->dt, rank, dims, v->num);
    int64_t count = 1;
    bool ascending = true;
    for (int d = 0; d < rank; d++) count *= dims[d];
    int64_t last = -1;
    for (int d = 0; d < v->rank; d++) {
        if (v->dims[d] == 1) continue;
        if (map[d] <= last) ascending = false;
        last = map[d];
    }
    if (count == v->count && ascending) return cg_reshape(g, v, rank, dims);
    return view(g, CG_BROADCAST, v, rank, dims, v->rank, map, NULL);
}

struct cg_value *cg_broadcast_scalar(struct cg_graph *g, struct cg_value *v, const struct cg_value *like)
{
    if (v->rank == like->rank) return v;
    return cg_broadcast(g, v, like->rank, like->dims, NULL);
}

struct cg_value *cg_transpose(struct cg_graph *g, struct cg_value *v, const int64_t *perm)
{
    int64_t dims[CG_RANK_MAX], last = -1, both[CG_RANK_MAX];
    bool moves = false;
    for (int d = 0; d < v->rank; d++) {
        dims[d] = v->dims[perm[d]];
        if (dims[d] == 1) continue;
        if (perm[d] < last) moves = true;
        last = perm[d];
    }
    if (v->kind == CG_SPLAT) return cg_splat(g, (enum cpu_dt)v->dt, v->rank, dims, v->num);
    if (!moves) return cg_reshape(g, v, v->rank, dims);
    if (v->kind == CG_TRANSPOSE) {
        for (int d = 0; d < v->rank; d++) both[d] = v->list[perm[d]];
        return cg_transpose(g, v->in[0], both);
    }
    return view(g, CG_TRANSPOSE, v, v->rank, dims, v->rank, perm, NULL);
}

struct cg_value *cg_slice(struct cg_graph *g, struct cg_value *v, const int64_t *dims, const int64_t *start, const int64_t *step)
{
    if (v->kind == CG_SPLAT) return cg_splat(g, (enum cpu_dt)v->dt, v->rank, dims, v->num);
    bool all = true;
    for (int d = 0; d < v->rank; d++) all = all && dims[d] == v->dims[d] && (dims[d] <= 1 || (start[d] == 0 && step[d] == 1));
    if (all) return v;
    return view(g, CG_SLICE, v, v->rank, dims, v->rank, start, step);
}

static struct cg_value *reduce_once(struct cg_graph *g, struct cg_value *v, enum rp_red kind, uint32_t n, const int64_t *dims)
{
    int64_t kept[CG_RANK_MAX], list[CG_RANK_MAX], full[CG_RANK_MAX];
    int rank = 0, nfull = 0;
    uint32_t nlist = 0, at = 0;
    bool unit = false;
    for (int d = 0; d < v->rank; d++) {
        bool gone = at < n && dims[at] == d;
        if (gone) at++;
        if (!gone) kept[rank++] = v->dims[d];
        if (v->dims[d] == 1 && v->rank > 1) {
            unit = true;
            continue;
        }
        if (gone) list[nlist++] = nfull;
        full[nfull++] = v->dims[d];
    }
    if (nlist == 0) return cg_reshape(g, v, rank, kept);
    if (unit) return cg_reshape(g, reduce_once(g, cg_reshape(g, v, nfull, full), kind, nlist, list), rank, kept);
    struct cg_value *r = cg_raw(g, CG_REDUCE, (enum cpu_dt)v->dt, rank, kept);
    r->aux = (uint16_t)kind;
    r->nin = 1;
    r->in = copy_in(g, &v, 1);
    r->nlist = n;
    r->list = copy_list(g, dims, n);
    return unique(g, r);
}

/* Few results of many elements: reduced in a fixed number of chunks first, so that threads share the work. */
struct cg_value *cg_reduce(struct cg_graph *g, struct cg_value *v, enum rp_red kind, uint32_t n, const int64_t *dims)
{
    int64_t inner = 1, full[CG_RANK_MAX + 1], list[CG_RANK_MAX + 1];
    for (uint32_t i = 0; i < n; i++) inner *= v->dims[dims[i]];
    int64_t outer = inner ? v->count / inner : 0;
    if (n == 0 || v->kind == CG_SPLAT || outer >= 64 || inner < 32768 || v->rank + 1 > CG_RANK_MAX || cpu_dt_small((enum cpu_dt)v->dt)) return reduce_once(g, v, kind, n, dims);
    int64_t first = v->dims[dims[0]], chunks = 1, wanted = NF_MIN((int64_t)64, inner / 8192);
    for (int64_t c = 2; c <= first && c <= wanted; c++)
        if (first % c == 0) chunks = c;
    if (chunks == 1) return reduce_once(g, v, kind, n, dims);
    int rank = 0;
    uint32_t k = 0;
    for (int d = 0; d < v->rank; d++) {
        if (d == dims[0]) {
            full[rank++] = chunks;
            list[k++] = rank;
            full[rank++] = first / chunks;
            continue;
        }
        for (uint32_t i = 1; i < n; i++)
            if (dims[i] == d) list[k++] = rank;
        full[rank++] = v->dims[d];
    }
    struct cg_value *part = reduce_once(g, cg_reshape(g, v, rank, full), kind, k, list);
    return reduce_once(g, part, kind, 1, dims);
}

/* --------------------------------------------------------------------------------------------------------- assemble */

struct cg_value *cg_assemble(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims)
{
    return cg_raw(g, CG_ASSEMBLE, dt, rank, dims);
}

/* Pieces stand before their owner in program order: the owner is moved to the end. */
void cg_assemble_add(struct cg_graph *g, struct cg_value *whole, struct cg_value *part, const int64_t *start, const int64_t *step)
{
    if (part->count == 0) return;
    struct cg_value *p = cg_raw(g, CG_PIECE, (enum cpu_dt)part->dt, part->rank, part->dims);
    p->op = RP_COPY;
    p->nin = 1;
    p->in = copy_in(g, &part, 1);
    p->nlist = part->rank;
    p->list = copy_list(g, start, part->rank);
    p->list2 = copy_list(g, step, part->rank);
    p->owner = whole;
    p->stored = true;
    struct cg_value **in = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, whole->nin + 1);
    if (whole->nin) memcpy(in, whole->in, whole->nin * sizeof *in);
    in[whole->nin++] = p;
    whole->in = in;
    for (uint32_t i = whole->id; i + 1 < g->n; i++) {
        g->v[i] = g->v[i + 1];
        g->v[i]->id = i;
    }
    g->n--;
    append(g, whole);
}

struct cg_value *cg_pad(struct cg_graph *g, struct cg_value *v, struct cg_value *fill, const int64_t *dims, const int64_t *low, const int64_t *interior)
{
    int64_t zero[CG_RANK_MAX] = {0}, one[CG_RANK_MAX] = {0}, from[CG_RANK_MAX] = {0}, step[CG_RANK_MAX] = {0}, part[CG_RANK_MAX] = {0}, start[CG_RANK_MAX] = {0};
    bool padded = false, empty = v->count == 0;
    for (int d = 0; d < v->rank; d++) {
        one[d] = 1;
        /* Element i lands at low + i * (interior + 1); negative padding drops those outside. */
        int64_t s = interior[d] + 1, i0 = low[d] < 0 ? (-low[d] + s - 1) / s : 0, i1 = v->dims[d];
        while (i1 > i0 && low[d] + (i1 - 1) * s >= dims[d]) i1--;
        from[d] = i0;
        part[d] = i1 > i0 ? i1 - i0 : 0;
        start[d] = low[d] + i0 * s;
        step[d] = s;
        if (part[d] == 0) empty = true;
        if (part[d] != dims[d]) padded = true;
    }
    struct cg_value *whole_fill = cg_broadcast(g, fill, v->rank, dims, NULL);
    if (empty) return whole_fill;
    struct cg_value *kept = cg_slice(g, v, part, from, one);
    if (!padded) return kept;
    if (kept->kind == CG_SPLAT && fill->kind == CG_SPLAT && memcmp(&kept->num, &fill->num, sizeof fill->num) == 0) return whole_fill;
    struct cg_value *whole = cg_assemble(g, (enum cpu_dt)v->dt, v->rank, dims);
    cg_assemble_add(g, whole, whole_fill, zero, one);
    cg_assemble_add(g, whole, kept, start, step);
    return whole;
}

/* -------------------------------------------------------------------------------------------------------- libraries */

bool cg_is_view(const struct cg_value *v) { return v->kind >= CG_BROADCAST && v->kind <= CG_SLICE; }

struct cg_value *cg_memory(struct cg_value *v)
{
    while (v->kind == CG_RESHAPE) v = v->in[0];
    return v;
}

struct cg_value *cg_base(struct cg_value *v)
{
    while (cg_is_view(v)) v = v->in[0];
    return v;
}

struct cg_value *cg_copy(struct cg_graph *g, struct cg_value *v)
{
    struct cg_value *c = cg_raw(g, CG_EW, (enum cpu_dt)v->dt, v->rank, v->dims);
    c->op = RP_COPY;
    c->nin = 1;
    c->in = copy_in(g, &v, 1);
    c = unique(g, c);
    c->stored = true;
    return c;
}

struct cg_value *cg_dense(struct cg_graph *g, struct cg_value *v)
{
    struct cg_value *b = v->kind == CG_RESHAPE ? v->in[0] : v;
    if (cg_is_view(b) || b->kind == CG_SPLAT || b->kind == CG_IOTA) return cg_copy(g, v);
    return v;
}

struct cg_value *cg_lib(struct cg_graph *g, enum plan_op op, uint32_t nin, struct cg_value *const *in, uint32_t nattr, const int64_t *attrs)
{
    struct cg_value **dense = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, nin ? nin : 1);
    for (uint32_t i = 0; i < nin; i++) dense[i] = cg_dense(g, in[i]);
    struct cg_value *v = cg_raw(g, CG_LIB, CPU_PRED, 0, NULL);
    v->op = (uint16_t)op;
    v->nin = nin;
    v->in = dense;
    v->nattr = nattr;
    v->attrs = copy_list(g, attrs, nattr);
    return v;
}

void cg_lib_results(struct cg_value *lib, uint32_t n, const uint8_t *dt, const int *rank, const int64_t *const *dims, struct cg_value **ret)
{
    struct cg_graph *g = lib->graph;
    lib->nresult = n;
    lib->results = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, n ? n : 1);
    for (uint32_t i = 0; i < n; i++) {
        struct cg_value *r = cg_raw(g, CG_RESULT, (enum cpu_dt)dt[i], rank[i], dims[i]);
        r->index = i;
        r->nin = 1;
        r->in = copy_in(g, &lib, 1);
        r->label = lib->label;
        lib->results[i] = r;
        ret[i] = r;
    }
}

uint32_t cg_label(struct cg *cg, struct nf_str text)
{
    if (text.len == 0) return PLAN_NO_LABEL;
    if (text.len > 1000) text.len = 1000;
    if (!cg->label_map) cg->label_map = nf_map_new(true);
    uintptr_t at = (uintptr_t)nf_map_get(cg->label_map, text);
    if (at) return (uint32_t)(at - 1);
    if (cg->nlabel == cg->cap_label) {
        uint32_t cap = cg->cap_label ? cg->cap_label * 2 : 64;
        struct nf_str *n = NF_NEW_ARRAY(cg->arena, struct nf_str, cap);
        if (cg->nlabel) memcpy(n, cg->labels, cg->nlabel * sizeof *n);
        cg->labels = n;
        cg->cap_label = cap;
    }
    cg->labels[cg->nlabel] = nf_arena_str(cg->arena, text);
    nf_map_put(cg->label_map, text, (void *)(uintptr_t)(cg->nlabel + 1));
    return cg->nlabel++;
}
