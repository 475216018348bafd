/* group.c: which values share a kernel, and which of them get memory.
 *
 * space = how a value is walked: rows x inner, or a reduction that is no row reduction. depth grows by one whenever data
 * crosses from one space to another or through a library operation. Values of equal (space, depth) cannot have a path between
 * them that leaves the space, as it would have raised the depth; so every connected component of (space, depth) is one kernel
 * and no check for cycles is needed. Linear time. */
#include "pipeline/codegen/cg.h"

enum { SIBLINGS_MAX = 160, SIBLING_ARGS_MAX = 24 };

static bool source(const struct cg_value *v) { return v->kind <= CG_IOTA; } /* nothing computes it */
static bool spaced(const struct cg_value *v) { return v->kind == CG_EW || v->kind == CG_REDUCE || v->kind == CG_PIECE; }

/* --------------------------------------------------------------------------------------------------------- liveness */

static void mark(struct cg_value **stack, uint32_t *n, struct cg_value *v)
{
    if (!v->dead) return;
    v->dead = false;
    stack[(*n)++] = v;
}

static uint32_t total(const struct cg_graph *g)
{
    uint32_t n = g->n;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i]->ngraph; k++) n += total(g->v[i]->graphs[k]); /* depth: bounded by import */
    return n;
}

/* What makes a value ordered: it meets other devices of its grid, or the execution as a whole sees it run. */
enum { MEETS = 1, SEEN = 2 };

static int effects(const struct cg_value *v)
{
    if (v->kind != CG_LIB) return 0;
    if (v->op == PLAN_RNG) return SEEN; /* the next draws are others if it does not run */
    if (v->op == PLAN_CHECK || v->op == PLAN_PROBE || v->op == PLAN_PROBED || v->op == PLAN_PRINT) return SEEN;
    return v->op == PLAN_COLLECTIVE || v->op == PLAN_SEND || v->op == PLAN_RECV || v->op == PLAN_INFEED ? MEETS : 0;
}

/* Returns the effects of all in g. */
static int kill_all(struct cg_graph *g)
{
    int all = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        int own = effects(v);
        v->dead = true;
        v->captured = false;
        v->nuse = 0;
        for (uint32_t k = 0; k < v->ngraph; k++) own |= kill_all(v->graphs[k]) & (v->op == PLAN_DEVICES ? ~MEETS : ~0); /* the devices of a mesh meet each other only */
        v->ordered = own != 0;
        all |= own;
    }
    return all;
}

static void find_live(struct cg_graph *g)
{
    struct cg_value **stack = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, total(g) + 1);
    uint32_t n = 0;
    kill_all(g);
    for (uint32_t i = 0; i < g->nresult; i++) mark(stack, &n, g->results[i]);
    for (uint32_t i = 0; i < g->n; i++)
        if (g->v[i]->ordered) mark(stack, &n, g->v[i]);
    while (n) {
        struct cg_value *v = stack[--n];
        for (uint32_t k = 0; k < v->nin; k++) {
            struct cg_value *in = v->in[k];
            in->nuse++;
            if (in->graph != v->graph) cg_base(in)->captured = true;
            mark(stack, &n, in);
        }
        if (v->kind == CG_LIB)
            for (uint32_t k = 0; k < v->nresult; k++) mark(stack, &n, v->results[k]);
        for (uint32_t k = 0; k < v->ngraph; k++) {
            struct cg_graph *b = v->graphs[k];
            for (uint32_t i = 0; i < b->nparam; i++) mark(stack, &n, b->params[i]);
            for (uint32_t i = 0; i < b->nresult; i++) {
                if (b->results[i]->graph != b) cg_base(b->results[i])->captured = true;
                mark(stack, &n, b->results[i]);
            }
            for (uint32_t i = 0; i < b->n; i++)
                if (b->v[i]->ordered) mark(stack, &n, b->v[i]);
        }
    }
}

/* ----------------------------------------------------------------------------------------------------------- spaces */

static int space_of(struct cg *cg, const int64_t *key, size_t n)
{
    if (!cg->space_map) cg->space_map = nf_map_new(true);
    struct nf_str k = nf_str_n(key, n * sizeof *key);
    intptr_t at = (intptr_t)nf_map_get(cg->space_map, k);
    if (!at) {
        at = ++cg->nspace;
        nf_map_put(cg->space_map, k, (void *)at);
    }
    return (int)at;
}

/* The value behind v when every view on the way keeps row-major order, else NULL. */
static struct cg_value *same_order(struct cg_value *v)
{
    v = cg_memory(v);
    return cg_is_view(v) ? NULL : v;
}

/* The row value that v repeats along the inner dim, else NULL. */
static struct cg_value *row_broadcast(struct cg_value *v, int64_t rows)
{
    v = cg_memory(v);
    if (v->kind != CG_BROADCAST || v->in[0]->count != rows) return NULL;
    int at = 0;
    for (int d = 0; d < v->in[0]->rank; d++) {
        if (v->in[0]->dims[d] == 1) continue;
        while (at < v->rank && v->dims[at] == 1) at++;
        if (v->list[d] != at) return NULL;
        at++;
    }
    return same_order(v->in[0]);
}

/* {kind, class, rows, inner} of elementwise values; class keeps what has no machine code apart from what has. */
static int interpreted(const struct cg_value *v);
struct rows {
    int64_t rows, inner;
};
static struct rows rows_of(const struct cg_value *v)
{
    int64_t inner = 1;
    for (int d = v->rank - 1; d >= 0; d--)
        if (v->dims[d] != 1) {
            inner = v->dims[d];
            break;
        }
    return (struct rows){inner ? v->count / inner : 0, inner};
}

static struct cg_value *find(struct cg_value *v)
{
    while (v->up != v) {
        v->up = v->up->up;
        v = v->up;
    }
    return v;
}
static void unite(struct cg_value *a, struct cg_value *b)
{
    a = find(a);
    b = find(b);
    if (a == b) return;
    a->up = b;
    b->group_size += a->group_size;
}

/* Some functions of complex numbers are interpreted; they do not drag others along. */
static int interpreted(const struct cg_value *v) { return cpu_dt_complex((enum cpu_dt)v->dt); }

/* The least depth of what runs graph b, which may read values of g. */
static int depth_of_reads(const struct cg_graph *g, const struct cg_graph *b)
{
    int depth = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct cg_value *v = b->v[i];
        for (uint32_t k = 0; k < v->nin && !v->dead; k++) {
            const struct cg_value *in = cg_base(v->in[k]);
            if (in->graph == g && !source(in)) depth = NF_MAX(depth, in->depth + 1);
        }
        for (uint32_t k = 0; k < v->ngraph && !v->dead; k++) depth = NF_MAX(depth, depth_of_reads(g, v->graphs[k])); /* depth: bounded by import */
    }
    for (uint32_t i = 0; i < b->nresult; i++) {
        const struct cg_value *r = cg_base(b->results[i]);
        if (r->graph == g && !source(r)) depth = NF_MAX(depth, r->depth + 1);
    }
    return depth;
}

static void assign(struct cg_graph *g)
{
    struct cg *cg = g->cg;
    int64_t (*rows)[2] = nf_arena_alloc_array(cg->arena, g->n + 1, sizeof *rows); /* of row spaces, by value */
    int ordered = -1; /* depth of the last one that is */
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        v->space = v->depth = 0;
        v->row = false;
        v->up = v;
        v->group_size = 1;
        if (v->dead) continue;
        if (v->kind == CG_REDUCE) {
            const struct cg_value *in = v->in[0];
            int64_t inner = 1, key[2 * CG_RANK_MAX + 4] = {1, interpreted(v)};
            bool trailing = true;
            for (uint32_t k = 0; k < v->nlist; k++) {
                inner *= in->dims[v->list[k]];
                if (v->list[k] != (int64_t)(in->rank - v->nlist + k)) trailing = false;
            }
            if (trailing) {
                rows[i][0] = in->count / inner;
                rows[i][1] = inner;
                key[2] = rows[i][0];
                key[3] = inner;
                key[4] = v->solo ? (int64_t)i + 1 : 0;
                v->space = space_of(cg, key, 5);
                v->row = true;
            } else {
                size_t at = 0;
                key[at++] = 2;
                key[at++] = interpreted(v);
                key[at++] = in->rank;
                for (int d = 0; d < in->rank; d++) key[at++] = in->dims[d];
                for (uint32_t k = 0; k < v->nlist; k++) key[at++] = v->list[k];
                v->space = space_of(cg, key, at);
            }
        } else if (v->kind == CG_EW || v->kind == CG_PIECE) {
            struct rows r = rows_of(v);
            rows[i][0] = r.rows;
            rows[i][1] = r.inner;
            int64_t key[5] = {1, interpreted(v), r.rows, r.inner, v->solo ? (int64_t)i + 1 : 0};
            v->space = space_of(cg, key, 5);
            for (uint32_t k = 0; k < v->nin && v->kind == CG_EW && !v->solo; k++) { /* arithmetic on row values (mean, 1/std) joins their space */
                struct cg_value *b = same_order(v->in[k]);
                if (!b || b->graph != g || !b->space || !b->row || b->count != v->count || interpreted(b) != interpreted(v)) continue;
                v->space = b->space;
                v->row = true;
                memcpy(rows[i], rows[b->id], sizeof rows[i]);
            }
        }
        for (uint32_t k = 0; k < v->nin; k++) {
            struct cg_value *b = cg_base(v->in[k]);
            if (b->graph != g) continue;
            bool inside = false;
            if (v->space && b->space == v->space && rows[i][1] && !b->barrier) {
                bool plain = v->kind != CG_REDUCE || v->row;
                bool same = same_order(v->in[k]) == b && b->row == (v->row && v->kind != CG_REDUCE);
                inside = plain && (same || (!v->row && b->row && row_broadcast(v->in[k], rows[i][0]) == b));
            }
            int d = b->depth + (!inside && !source(b));
            if (d > v->depth) v->depth = d;
        }
        for (uint32_t k = 0; k < v->ngraph; k++) v->depth = NF_MAX(v->depth, depth_of_reads(g, v->graphs[k]));
        if (v->ordered) ordered = v->depth = NF_MAX(v->depth, ordered + 1);
    }
    /* Components: producer and consumer, and readers of the same value. */
    struct nf_map *reader = nf_map_new(true);
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (!spaced(v) || v->dead) continue;
        for (uint32_t k = 0; k < v->nin; k++) {
            struct cg_value *b = cg_base(v->in[k]);
            if (b->kind == CG_SPLAT || b->kind == CG_IOTA) continue;
            if (b->graph == g && b->space == v->space && b->depth == v->depth && spaced(b)) {
                unite(v, b);
                continue;
            }
            if (b->count == 1) continue;
            struct {
                struct cg_value *b;
                int64_t space, depth;
            } key = {b, v->space, v->depth};
            struct cg_value *other = nf_map_get(reader, nf_str_n(&key, sizeof key));
            if (!other) nf_map_put(reader, nf_str_n(&key, sizeof key), v);
            else if (find(other)->group_size + find(v)->group_size < SIBLINGS_MAX) unite(v, other);
        }
    }
    nf_map_free(reader);
    for (uint32_t i = 0; i < g->n; i++) g->v[i]->group_next = g->v[i]->group_first = g->v[i]->group_last = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (!spaced(v) || v->dead) continue;
        struct cg_value *r = find(v); /* members in program order, hung on the representative */
        if (r->group_last) r->group_last->group_next = v;
        else r->group_first = v;
        r->group_last = v;
        v->up = r;
    }
}

/* ------------------------------------------------------------------------------------------------------------ store */

static int cost(const struct cg_value *v, int limit)
{
    const struct cg_value *b = cg_base((struct cg_value *)(uintptr_t)v);
    if (b->stored || source(b) || b->kind == CG_ASSEMBLE || b->kind == CG_DOT || b->kind == CG_LIB || b->kind == CG_RESULT) return 0;
    if (b->kind == CG_REDUCE) return limit + 1; /* never repeated */
    int c = rp_op_info[b->op].cost;
    for (uint32_t i = 0; i < b->nin && c <= limit; i++) c += cost(b->in[i], limit); /* ends: every level costs */
    return c;
}

/* The one elementary function without memory among what b is made of, or NULL: storing it in place of b serves others who want it too (tanh
 * and the terms of its derivative). */
static struct cg_value *heavy_part(struct cg_value *b, int *budget)
{
    struct cg_value *found = NULL;
    if (b->stored || b->kind != CG_EW || --*budget < 0) return NULL;
    if (rp_op_info[b->op].cost >= 8) return b;
    for (uint32_t i = 0; i < b->nin; i++) {
        struct cg_value *h = heavy_part(cg_base(b->in[i]), budget);
        if (!h || h == found) continue;
        if (found) *budget = -1; /* two of them: b itself is less */
        found = h;
    }
    return *budget < 0 ? NULL : found;
}

static void choose(struct cg_graph *g)
{
    int limit = g->cg->options.recompute;
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (v->dead) continue;
        if (v->kind == CG_ASSEMBLE || v->kind == CG_DOT || v->kind == CG_LIB || v->kind == CG_RESULT || v->captured) v->stored = true;
        if (v->kind == CG_DOT || v->kind == CG_LIB)
            for (uint32_t k = 0; k < v->nin; k++) cg_base(v->in[k])->stored = true;
    }
    for (uint32_t i = 0; i < g->nresult; i++) cg_base(g->results[i])->stored = true;
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (!spaced(v) || v->dead) continue;
        for (uint32_t k = 0; k < v->nin; k++) {
            struct cg_value *b = cg_base(v->in[k]);
            if (b->stored || b->graph != g || !spaced(b)) continue;
            if (find(b) == find(v)) {
                /* Inside a kernel only values at the same element are shared; others would be computed again. */
                continue;
            }
            if (cost(b, limit) <= limit) continue;
            int budget = 32;
            struct cg_value *h = heavy_part(b, &budget);
            if (h && h != b && h->graph == g) h->stored = true;
            if (cost(b, limit) > limit) b->stored = true;
        }
    }
}

void cg_group(struct cg_graph *g)
{
    if (!g->parent) find_live(g);
    assign(g);
    choose(g);
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i]->ngraph && !g->v[i]->dead; k++) cg_group(g->v[i]->graphs[k]);
}
