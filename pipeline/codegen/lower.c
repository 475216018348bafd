/* lower.c: groups become row programs, products their strides, libraries their steps; in an order that respects who reads
 * what.
 *
 * A value is generated at an index, an affine expression of loop atoms for each of its dims. Views change the index, stored
 * values become loads, everything else instructions. A reshape may cut atoms, so a kernel is generated again until nothing is
 * cut any more. Where an index is not affine the value behind it is stored (or copied), and grouping starts anew. */
#include "pipeline/codegen/cg.h"

#include <inttypes.h>

struct gen {
    struct cg_graph *g;
    struct cg_index x;
    struct rp_prog p;            /* acc strides are filled at the end from `expr` */
    int cap_ins, cap_acc;
    struct cg_expr *expr;        /* by access */
    struct cg_value **acc_value; /* by access: whose memory; NULL for idx and scratch */
    bool *acc_out;
    const struct shape *shape;
    int64_t kept_bytes;          /* of the thread's scratch that rows are kept in */
    bool kept_more;              /* one is kept that was not before: generate again */
    struct nf_map *memo;         /* of the pass: (value, flat index) -> instruction + 1 */
    struct cg_value *unit;       /* representative of the group */
    int pass, pass_start;        /* number; first instruction */
    struct cg_value **red_value; /* by instruction: the reduction that a red is */
    bool restart;                /* something was stored that was not */
    int rc;
    struct nf_error *err;
};

static struct cg_value *rep(struct cg_value *v) { return v->up; }
static bool spaced(const struct cg_value *v) { return v->kind == CG_EW || v->kind == CG_REDUCE || v->kind == CG_PIECE; }
static bool in_group(const struct gen *n, struct cg_value *v) { return spaced(v) && v->graph == n->g && rep(v) == n->unit; }
static bool in_memory(const struct cg_value *v)
{
    return v->kind <= CG_CONST || v->kind == CG_ASSEMBLE || v->kind == CG_DOT || v->kind == CG_RESULT || (spaced(v) && v->stored);
}

static void *grow(struct nf_arena *arena, void *old, int n, int *cap, size_t size)
{
    if (n < *cap) return old;
    int more = *cap ? *cap * 2 : 32;
    void *p = nf_arena_alloc_array(arena, (size_t)more, size);
    if (n) memcpy(p, old, (size_t)n * size);
    *cap = more;
    return p;
}

static int emit(struct gen *n, enum rp_op op, enum cpu_dt dt, int aux, int a, int b, int c)
{
    struct nf_arena *ar = n->g->cg->arena;
    int cap = n->cap_ins;
    n->p.ins = grow(ar, n->p.ins, n->p.nins, &cap, sizeof *n->p.ins);
    cap = n->cap_ins;
    n->red_value = grow(ar, n->red_value, n->p.nins, &cap, sizeof *n->red_value);
    n->cap_ins = cap;
    n->red_value[n->p.nins] = NULL;
    n->p.ins[n->p.nins] = (struct rp_ins){.op = (uint16_t)op, .dt = (uint8_t)dt, .aux = (uint16_t)aux, .src = {a, b, c}};
    return n->p.nins++;
}

static bool same_expr(const struct cg_expr *a, const struct cg_expr *b)
{
    if (a->n != b->n || a->base != b->base) return false;
    for (int i = 0; i < a->n; i++)
        if (a->t[i].atom != b->t[i].atom || a->t[i].coef != b->t[i].coef) return false;
    return true;
}

static int access_of(struct gen *n, struct cg_value *v, enum cpu_dt dt, const struct cg_expr *e, bool out)
{
    struct nf_arena *ar = n->g->cg->arena;
    for (int i = 0; i < n->p.nacc; i++)
        if (n->acc_value[i] == v && n->acc_out[i] == out && n->p.acc[i].dt == dt && same_expr(&n->expr[i], e)) return i;
    int cap = n->cap_acc, c2 = cap, c3 = cap, c4 = cap;
    n->p.acc = grow(ar, n->p.acc, n->p.nacc, &cap, sizeof *n->p.acc);
    n->expr = grow(ar, n->expr, n->p.nacc, &c2, sizeof *n->expr);
    n->acc_value = grow(ar, n->acc_value, n->p.nacc, &c3, sizeof *n->acc_value);
    n->acc_out = grow(ar, n->acc_out, n->p.nacc, &c4, sizeof *n->acc_out);
    n->cap_acc = cap;
    n->p.acc[n->p.nacc] = (struct rp_acc){.arg = v ? 0 : RP_NO_ARG, .dt = dt};
    n->expr[n->p.nacc] = *e;
    n->acc_value[n->p.nacc] = v;
    n->acc_out[n->p.nacc] = out;
    return n->p.nacc++;
}

/* The index of view `v` is not affine through it: what it reads must lie in memory in its own order. */
static void materialise(struct gen *n, struct cg_value *v)
{
    struct cg_value *in = v->in[0];
    n->restart = true;
    if (spaced(in) && in->graph == n->g && !(in->stored && in->barrier)) {
        in->stored = in->barrier = true;
        return;
    }
    struct cg_value *c = cg_copy(v->graph, in); /* appended, or of a later reader: moved in front of this one */
    struct cg_graph *g = v->graph;
    uint32_t at = v->id;
    if (c->id > at) {
        memmove(g->v + at + 1, g->v + at, (c->id - at) * sizeof *g->v);
        g->v[at] = c;
        for (uint32_t i = at; i < g->n; i++) g->v[i]->id = i;
    }
    c->stored = c->barrier = true;
    c->label = v->label;
    v->in[0] = c;
}

static int memo_get(struct gen *n, const struct cg_value *v, const struct cg_expr *flat, int put)
{
    char key[sizeof(void *) + 8 + CG_TERMS_MAX * 16];
    size_t at = 0;
    memcpy(key, &v, sizeof v);
    at += sizeof v;
    memcpy(key + at, &flat->base, 8);
    at += 8;
    for (int i = 0; i < flat->n; i++) {
        int64_t t[2] = {flat->t[i].atom, flat->t[i].coef};
        memcpy(key + at, t, 16);
        at += 16;
    }
    struct nf_str k = nf_str_n(key, at);
    if (put >= 0) nf_map_put(n->memo, k, (void *)(uintptr_t)(put + 1));
    return (int)(intptr_t)nf_map_get(n->memo, k) - 1;
}

/* ------------------------------------------------------------------------------------------- rows kept between passes */

struct shape {
    bool reduces, rowwise;      /* has reductions; loops are rows x inner (else: kept dims, then reduced ones) */
    struct cg_value *first;
    int64_t rows, inner;
    int nloop, loops[CG_RANK_MAX]; /* atoms */
    int nkept;
};

enum { KEPT_BYTES_MAX = 256 << 10 }; /* of a row: half of an L2 */

/* Access to the row of the thread's scratch where kept value `v` is. */
static int kept_row(struct gen *n, struct cg_value *v)
{
    struct cg_expr inner = {0}, c = {.n = 1, .t = {{n->shape->loops[1], 1}}};
    cg_expr_add(&n->x, &inner, &c, 1);
    inner.base = v->kept / (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt);
    int a = access_of(n, NULL, (enum cpu_dt)v->dt, &inner, true);
    n->p.acc[a].arg = RP_SCRATCH;
    return a;
}

/* An elementary function that a pass made and a later one needs at the same element is kept, a row of it, and not computed again. Whether it is
 * shows when the later pass is generated; generation then starts anew. */
static bool keeps(struct gen *n, struct cg_value *v, const struct cg_expr *flat)
{
    const struct shape *s = n->shape;
    struct cg_expr own = {0}, r = {.n = 1, .t = {{s->loops[0], 1}}}, c = {.n = 1, .t = {{s->loops[1], 1}}};
    if (!s->reduces || !s->rowwise || v->row || v->stored || v->level >= n->pass || rp_op_info[v->op].cost < 8 || !cpu_dt_float((enum cpu_dt)v->dt)) return false;
    cg_expr_add(&n->x, &own, &r, s->inner);
    cg_expr_add(&n->x, &own, &c, 1);
    if (!same_expr(&own, flat)) return false;
    if (v->kept < 0) {
        int64_t bytes = (s->inner * (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt) + 63) & ~(int64_t)63;
        if (bytes > KEPT_BYTES_MAX - n->kept_bytes) return false;
        v->kept = n->kept_bytes;
        n->kept_bytes += bytes;
        n->kept_more = true;
    }
    return true;
}

static int gen_value(struct gen *n, struct cg_value *v, const struct cg_expr *idx, int depth)
{
    struct cg_expr flat, ret[CG_RANK_MAX];
    int at, src[3] = {0};
    if (n->rc || n->restart) return 0;
    if (depth > 2000 || n->p.nins > RP_INS_MAX - 64) {
        n->rc = nf_fail(n->err, NF_EUNSUPPORTED, "a fused kernel grew beyond its limits");
        return 0;
    }
    cg_index_flatten(&n->x, idx, v->dims, v->rank, &flat);
    at = memo_get(n, v, &flat, -1);
    if (at >= 0) return at;
    enum cpu_dt dt = (enum cpu_dt)v->dt;
    struct cg_value *b = cg_memory(v);
    bool mine = in_group(n, v);
    if (v->kind == CG_SPLAT) {
        at = emit(n, RP_CONST, dt, 0, 0, 0, 0);
        cpu_num_store(dt, n->p.ins[at].bits, v->num);
    } else if (v->kind == CG_IOTA) {
        struct cg_expr e = idx[v->index];
        cg_expr_norm(&n->x, &e);
        at = emit(n, RP_IDX, dt, access_of(n, NULL, dt, &e, false), 0, 0, 0);
    } else if (mine && v->kind == CG_REDUCE) {
        at = -1;
        for (int i = 0; i < n->pass_start; i++)
            if (n->red_value[i] == v) at = i;
        if (at < 0) {
            n->rc = nf_fail(n->err, NF_EINTERNAL, "codegen: a reduction is read before it is done");
            return 0;
        }
        at = emit(n, RP_ROW, dt, 0, at, 0, 0);
    } else if (mine && v->stored && v->level < n->pass && rp_op_info[v->op].cost >= 2) {
        at = emit(n, RP_LD, dt, access_of(n, v, dt, &flat, true), 0, 0, 0); /* an earlier pass stored it */
    } else if (mine && v->kind == CG_EW && keeps(n, v, &flat)) {
        at = emit(n, RP_LD, dt, kept_row(n, v), 0, 0, 0);
    } else if (!mine && in_memory(v)) {
        at = emit(n, RP_LD, dt, access_of(n, v, dt, &flat, false), 0, 0, 0);
    } else if (v->kind == CG_RESHAPE && in_memory(b) && !in_group(n, b)) {
        at = emit(n, RP_LD, dt, access_of(n, b, dt, &flat, false), 0, 0, 0);
    } else if (cg_is_view(v)) {
        if (!cg_index_view(&n->x, v, idx, ret)) {
            if (n->x.failed) n->rc = nf_fail(n->err, NF_EUNSUPPORTED, "index expressions of a kernel grew beyond their limits");
            else materialise(n, v);
            return 0;
        }
        return gen_value(n, v->in[0], ret, depth + 1);
    } else if (v->kind == CG_EW || v->kind == CG_PIECE) {
        for (uint32_t k = 0; k < v->nin; k++) src[k] = gen_value(n, v->in[k], idx, depth + 1);
        if (v->kind == CG_PIECE || v->op == RP_COPY) return src[0];
        at = emit(n, (enum rp_op)v->op, dt, v->aux, src[0], src[1], src[2]);
    } else {
        n->rc = nf_fail(n->err, NF_EINTERNAL, "codegen: a value of kind %d has no memory", v->kind);
        return 0;
    }
    memo_get(n, v, &flat, at);
    return at;
}

/* ------------------------------------------------------------------------------------------------- groups to kernels */

/* owner: the member of the group for which v is indexed. */
static void row_index(struct gen *n, const struct shape *s, const struct cg_value *v, struct cg_value *owner, bool full, struct cg_expr *idx)
{
    struct cg_expr flat = {0}, r = {.n = 1, .t = {{s->loops[0], full ? s->inner : 1}}}, c = {.n = 1, .t = {{s->loops[1], 1}}};
    cg_expr_add(&n->x, &flat, &r, 1);
    if (full) cg_expr_add(&n->x, &flat, &c, 1);
    if (cg_index_unflatten(&n->x, &flat, v->dims, v->rank, idx) || n->rc) return;
    if (owner->solo) {
        n->rc = nf_fail(n->err, NF_EINTERNAL, "codegen: the rows of a kernel do not fit a value");
    } else {
        owner->solo = true;
        n->restart = true;
    }
}

/* Index of a value of the group: of its elements (full) or of its rows. */
static void index_of(struct gen *n, const struct shape *s, struct cg_value *v, struct cg_expr *idx)
{
    if (s->rowwise) {
        bool full = !s->reduces ? true : v->kind == CG_REDUCE ? false : !v->row;
        row_index(n, s, v, v, full, idx);
        return;
    }
    /* a reduction over some dims: its result is indexed by the kept loops */
    for (int d = 0; d < v->rank; d++) {
        struct cg_expr e = {.n = 1, .t = {{s->loops[d], 1}}}, r = {0};
        cg_expr_add(&n->x, &r, &e, 1);
        idx[d] = r;
    }
}

/* Index of what a reduction reads. */
static void index_of_operand(struct gen *n, const struct shape *s, struct cg_value *v, struct cg_expr *idx)
{
    struct cg_value *in = v->in[0];
    if (s->rowwise) {
        row_index(n, s, in, v, true, idx);
        return;
    }
    int kept = 0, red = s->nkept;
    for (int d = 0; d < in->rank; d++) {
        bool gone = false;
        for (uint32_t k = 0; k < v->nlist; k++) gone = gone || v->list[k] == d;
        struct cg_expr e = {.n = 1, .t = {{s->loops[gone ? red++ : kept++], 1}}}, r = {0};
        cg_expr_add(&n->x, &r, &e, 1);
        idx[d] = r;
    }
}

static void store_value(struct gen *n, struct cg_value *v, const struct cg_expr *idx, int what)
{
    struct cg_expr flat, to[CG_RANK_MAX];
    struct cg_value *where = v;
    if (v->kind == CG_PIECE) {
        where = v->owner;
        for (int d = 0; d < v->rank; d++) {
            to[d] = (struct cg_expr){.base = v->list[d]};
            cg_expr_add(&n->x, &to[d], &idx[d], v->list2[d]);
        }
        idx = to;
    }
    cg_index_flatten(&n->x, idx, where->dims, where->rank, &flat);
    emit(n, RP_ST, (enum cpu_dt)v->dt, access_of(n, where, (enum cpu_dt)v->dt, &flat, true), what, 0, 0);
}

static void begin_pass(struct gen *n, bool once)
{
    nf_map_free(n->memo);
    n->memo = nf_map_new(true);
    n->pass_start = emit(n, once ? RP_ONCE : RP_PASS, CPU_PRED, 0, 0, 0, 0);
}

/* Levels: how many reductions, one inside the other, a value waits for. */
static int set_levels(struct gen *n)
{
    int most = 0;
    for (struct cg_value *v = n->unit->group_first; v; v = v->group_next) {
        v->level = 0;
        for (uint32_t k = 0; k < v->nin; k++) {
            struct cg_value *b = cg_base(v->in[k]);
            if (!in_group(n, b)) continue;
            int l = b->level + (b->kind == CG_REDUCE);
            if (l > v->level) v->level = l;
        }
        most = NF_MAX(most, v->level + (v->kind == CG_REDUCE));
    }
    return most;
}

enum { STORES_MAX = 4096 };

static void generate(struct gen *n, const struct shape *s, int levels)
{
    struct cg_expr idx[CG_RANK_MAX];
    n->p.nins = n->p.nacc = 0;
    n->kept_more = false;
    for (int p = 0; p <= levels && !n->rc && !n->restart; p++) {
        n->pass = p;
        for (int loop = 0; loop < 2; loop++) { /* what runs once a row, then the pass */
            bool begun = false;
            struct {
                struct cg_value *v;
                int what;
            } *st = NULL;
            int nst = 0, cap = 0;
            for (struct cg_value *v = n->unit->group_first; v && !n->rc && !n->restart; v = v->group_next) {
                bool row = s->reduces && (v->row || v->kind == CG_REDUCE), red = v->kind == CG_REDUCE && v->level == p && loop == 1;
                bool store = v->stored && (row ? loop == 0 && v->level + (v->kind == CG_REDUCE) == p : loop == 1 && v->level == p);
                bool keep = v->kept >= 0 && v->level == p && loop == 1;
                if (!red && !store && !keep) continue;
                if (!begun) begin_pass(n, loop == 0);
                begun = true;
                if (red) {
                    index_of_operand(n, s, v, idx);
                    if (n->rc || n->restart) return;
                    int a = gen_value(n, v->in[0], idx, 0);
                    int r = emit(n, RP_RED, (enum cpu_dt)v->dt, v->aux, a, 0, 0);
                    n->red_value[r] = v;
                    continue;
                }
                index_of(n, s, v, idx);
                if (n->rc || n->restart) return;
                int a;
                if (v->kind == CG_EW && v->op == RP_COPY) a = gen_value(n, v->in[0], idx, 0);
                else a = gen_value(n, v, idx, 0);
                st = grow(n->g->cg->arena, st, nst, &cap, sizeof *st);
                st[nst].v = v;
                st[nst++].what = a;
            }
            for (int i = 0; i < nst && !n->rc && !n->restart; i++) { /* all loads of a pass stand before its stores */
                if (st[i].v->kept >= 0) {
                    emit(n, RP_ST, (enum cpu_dt)st[i].v->dt, kept_row(n, st[i].v), st[i].what, 0, 0);
                    continue;
                }
                index_of(n, s, st[i].v, idx);
                store_value(n, st[i].v, idx, st[i].what);
            }
        }
    }
}

/* -------------------------------------------------------------------------------------------- loop dims of a kernel */

struct loops {
    int n;
    int64_t extent[CG_ATOMS_MAX];
    char cls[CG_ATOMS_MAX];             /* p parallel, s sequential, v vector */
    int64_t (*stride)[CG_ATOMS_MAX];    /* by access */
};

static int64_t coef_of(const struct cg_expr *e, int atom)
{
    for (int i = 0; i < e->n; i++)
        if (e->t[i].atom == atom) return e->t[i].coef;
    return 0;
}

static void add_atoms(struct gen *n, struct loops *l, int loop, char cls)
{
    int leaf[CG_ATOMS_MAX], k = cg_index_leaves(&n->x, loop, leaf, CG_ATOMS_MAX);
    for (int i = 0; i < k; i++) {
        if (n->x.extent[leaf[i]] == 1) continue;
        for (int a = 0; a < n->p.nacc; a++) l->stride[a][l->n] = coef_of(&n->expr[a], leaf[i]);
        l->extent[l->n] = n->x.extent[leaf[i]];
        l->cls[l->n++] = cls;
    }
}

static void merge(struct gen *n, struct loops *l)
{
    int k = 0;
    for (int i = 0; i < l->n; i++) {
        bool join = k > 0 && l->cls[k - 1] == l->cls[i];
        for (int a = 0; a < n->p.nacc && join; a++) join = l->stride[a][k - 1] == l->stride[a][i] * l->extent[i];
        if (join) {
            l->extent[k - 1] *= l->extent[i];
            for (int a = 0; a < n->p.nacc; a++) l->stride[a][k - 1] = l->stride[a][i];
            continue;
        }
        l->extent[k] = l->extent[i];
        l->cls[k] = l->cls[i];
        for (int a = 0; a < n->p.nacc; a++) l->stride[a][k] = l->stride[a][i];
        k++;
    }
    l->n = k;
}

/* Cuts dim i into (extent / low, low). */
static void cut(struct gen *n, struct loops *l, int i, int64_t low)
{
    for (int k = l->n; k > i + 1; k--) {
        l->extent[k] = l->extent[k - 1];
        l->cls[k] = l->cls[k - 1];
        for (int a = 0; a < n->p.nacc; a++) l->stride[a][k] = l->stride[a][k - 1];
    }
    l->n++;
    l->extent[i + 1] = low;
    l->extent[i] /= low;
    l->cls[i + 1] = l->cls[i];
    for (int a = 0; a < n->p.nacc; a++) {
        l->stride[a][i + 1] = l->stride[a][i];
        l->stride[a][i] *= low;
    }
}

static int64_t divisor(int64_t n, int64_t most, int64_t multiple)
{
    for (int64_t d = most / multiple * multiple; d >= multiple; d -= multiple)
        if (n % d == 0) return d;
    return 1;
}

static int finish(struct gen *n, const struct shape *s, struct cg_step *st, int64_t *ret_cost)
{
    struct cg *cg = n->g->cg;
    struct loops l = {0};
    struct rp_prog *p = NF_NEW(cg->arena, struct rp_prog);
    l.stride = nf_arena_alloc_array(cg->arena, (size_t)n->p.nacc + 1, sizeof *l.stride);
    bool col = false, flat = false;
    if (s->rowwise && !s->reduces) {
        add_atoms(n, &l, s->loops[0], 'p');
        add_atoms(n, &l, s->loops[1], 'p');
        merge(n, &l);
        flat = l.n <= 1;
        for (int a = 0; a < n->p.nacc && flat && l.n; a++) flat = l.stride[a][0] == 0 || l.stride[a][0] == 1;
        if (!flat) {
            int64_t most = 4096, d;
            if (l.extent[l.n - 1] > most && (d = divisor(l.extent[l.n - 1], most, 8)) >= 64) cut(n, &l, l.n - 1, d);
            l.cls[l.n - 1] = 'v';
        }
    } else if (s->rowwise) {
        add_atoms(n, &l, s->loops[0], 'p');
        add_atoms(n, &l, s->loops[1], 's');
        merge(n, &l);
        if (l.n && l.cls[l.n - 1] == 's') l.cls[l.n - 1] = 'v';
    } else {
        /* Which dim is innermost in the operand decides: kept, by columns; reduced, by rows. */
        const struct cg_value *in = s->first->in[0];
        int d = in->rank - 1;
        while (d > 0 && in->dims[d] == 1) d--;
        col = true;
        for (uint32_t k = 0; k < s->first->nlist; k++)
            if (s->first->list[k] == d) col = false;
        for (int i = 0; i < s->nkept; i++) add_atoms(n, &l, s->loops[i], 'p');
        int kept = l.n;
        for (int i = s->nkept; i < s->nloop; i++) add_atoms(n, &l, s->loops[i], 's');
        if (col && kept) { /* the last kept atom goes to the end */
            struct loops m = {.stride = nf_arena_alloc_array(cg->arena, (size_t)n->p.nacc + 1, sizeof *m.stride)};
            for (int i = 0; i <= l.n; i++) {
                int from = i == l.n ? kept - 1 : i;
                if (i == kept - 1) continue;
                m.extent[m.n] = l.extent[from];
                m.cls[m.n] = i == l.n ? 'v' : l.cls[from];
                for (int a = 0; a < n->p.nacc; a++) m.stride[a][m.n] = l.stride[a][from];
                m.n++;
            }
            l = m;
            merge(n, &l);
        } else {
            col = false;
            merge(n, &l);
            if (l.n && l.cls[l.n - 1] == 's') l.cls[l.n - 1] = 'v';
        }
    }
    /* At least one parallel dim, and in a row kernel a vector dim. */
    int at = 0;
    if (l.n == 0 || l.cls[0] != 'p') p->dims[at++] = 1;
    int shift = at;
    for (int i = 0; i < l.n; i++) {
        if (at == RP_DIMS_MAX - 1) return nf_fail(n->err, NF_EUNSUPPORTED, "a fused kernel of more than %d dims", RP_DIMS_MAX - 2);
        p->dims[at++] = l.extent[i];
    }
    int npar = shift;
    for (int i = 0; i < l.n; i++) npar += l.cls[i] == 'p';
    if (!flat && npar == at) p->dims[at++] = 1; /* a row of one element */
    if (flat && at > 1) { /* only when a unit dim was put in front */
        p->dims[0] = p->dims[1];
        at = 1;
    }
    p->nd = at;
    p->npar = flat ? 1 : npar;
    if (col) {
        int64_t width = p->dims[p->nd - 1], lanes = cg->options.lanes, u = 4;
        while (u > 1 && width % (lanes * u)) u--;
        p->block = (int)(lanes * u);
    }
    p->nacc = n->p.nacc;
    p->acc = NF_NEW_ARRAY(cg->arena, struct rp_acc, (size_t)n->p.nacc + 1);
    p->nins = n->p.nins;
    p->ins = NF_NEW_ARRAY(cg->arena, struct rp_ins, (size_t)n->p.nins + 1);
    memcpy(p->ins, n->p.ins, (size_t)n->p.nins * sizeof *p->ins);
    /* Arguments: inputs in order of their accesses, then outputs. */
    struct cg_value **in = NF_NEW_ARRAY(cg->arena, struct cg_value *, (size_t)n->p.nacc + 1), **out = NF_NEW_ARRAY(cg->arena, struct cg_value *, (size_t)n->p.nacc + 1);
    uint32_t nin = 0, nout = 0;
    for (int a = 0; a < n->p.nacc; a++) {
        p->acc[a] = n->p.acc[a];
        p->acc[a].base = n->expr[a].base;
        for (int i = 0; i < l.n; i++) p->acc[a].stride[flat ? 0 : i + shift] = l.stride[a][i];
        if (!n->acc_value[a]) continue;
        uint32_t k = 0;
        struct cg_value **list = n->acc_out[a] ? out : in;
        uint32_t *count = n->acc_out[a] ? &nout : &nin;
        while (k < *count && list[k] != n->acc_value[a]) k++;
        list[k] = n->acc_value[a];
        if (k == *count) (*count)++;
        p->acc[a].arg = (int)k;
    }
    for (int a = 0; a < n->p.nacc; a++)
        if (n->acc_value[a] && n->acc_out[a]) p->acc[a].arg += (int)nin;
    if (nin + nout > 1000) return nf_fail(n->err, NF_EUNSUPPORTED, "a fused kernel of more than 1000 tensors");
    int rc = rp_verify(p, n->err);
    if (rc) {
        nf_error_prefix(n->err, "codegen");
        return rc;
    }
    int64_t outer = p->dims[0], inner = 1, per = 0;
    for (int a = 0; a < n->p.nacc; a++) {
        int64_t low, high;
        if (!n->acc_value[a]) continue;
        if (!rp_extent(p, a, outer, &low, &high) || low < 0 || high >= n->acc_value[a]->count)
            return nf_fail(n->err, NF_EINTERNAL, "codegen: an access of a kernel is outside its tensor");
    }
    for (int i = 0; i < p->nins; i++) per += rp_op_info[p->ins[i].op].cost + 1;
    if (!flat)
        for (int i = p->npar; i < p->nd - (p->block ? 1 : 0); i++) inner *= p->dims[i];
    if (p->block) inner *= p->block;
    *st = (struct cg_step){.op = PLAN_KERNEL, .label = PLAN_NO_LABEL, .nin = nin, .nout = nout, .in = in, .out = out, .prog = p, .outer = outer};
    /* A chunk is 10 to 20 us of work; borders are multiples of whole vectors. */
    int64_t work = inner * per;
    st->grain = 65536 / (work ? work : 1) + 1;
    if (flat) st->grain = (st->grain + 255) / 256 * 256;
    *ret_cost = per;
    return 0;
}

static void keep_label(struct cg_step *st, struct cg_value *unit)
{
    /* The most expensive member speaks for the kernel. */
    int best = -1;
    for (struct cg_value *v = unit->group_first; v; v = v->group_next) {
        int c = v->kind == CG_REDUCE ? 6 : rp_op_info[v->op].cost;
        if (c > best && v->label != PLAN_NO_LABEL) {
            best = c;
            st->label = v->label;
        }
    }
}

/* A kernel that only moves one tensor is a copy. */
static void as_copy(struct gen *n, struct cg_step *st)
{
    struct rp_prog *p = st->prog;
    if (p->nins != 3 || p->ins[1].op != RP_LD || p->ins[2].op != RP_ST || p->block || p->nd > PLAN_RANK_MAX) return;
    const struct rp_acc *a = &p->acc[p->ins[1].aux], *b = &p->acc[p->ins[2].aux];
    int64_t *attr = NF_NEW_ARRAY(n->g->cg->arena, int64_t, 3 + 3 * (size_t)p->nd);
    attr[0] = a->base;
    attr[1] = b->base;
    attr[2] = p->nd;
    for (int d = 0; d < p->nd; d++) {
        attr[3 + 3 * d] = d ? p->dims[d] : st->outer;
        attr[4 + 3 * d] = a->stride[d];
        attr[5 + 3 * d] = b->stride[d];
    }
    st->op = PLAN_COPY;
    st->attr = attr;
    st->nattr = 3 + 3 * (uint32_t)p->nd;
    st->prog = NULL;
}

static int lower_group(struct cg_graph *g, struct cg_value *unit, struct cg_step *st, struct nf_error *err)
{
    struct shape s = {.first = unit->group_first};
    struct gen n = {.g = g, .unit = unit, .shape = &s, .err = err};
    int64_t ignore;
    struct cg_value *full = NULL;
    bool row = false;
    for (struct cg_value *v = unit->group_first; v; v = v->group_next) {
        v->kept = -1;
        if (v->kind == CG_REDUCE) {
            if (!s.reduces) s.first = v;
            s.reduces = true;
        } else if (v->row) {
            row = true;
        } else if (!full) {
            full = v;
        }
    }
    /* Numbers of rows beside whole rows, though the reduction that they come from is another kernel's. */
    if (!s.reduces && row && full) {
        s.first = full;
        s.reduces = true;
    }
    int levels = set_levels(&n);
    s.rowwise = !s.reduces || s.first->kind != CG_REDUCE || s.first->row;
    if (s.rowwise) {
        if (s.first->kind == CG_REDUCE) {
            s.rows = s.first->count;
            s.inner = s.rows ? s.first->in[0]->count / s.rows : 0;
        } else {
            s.inner = 1;
            for (int d = s.first->rank - 1; d >= 0; d--)
                if (s.first->dims[d] != 1) {
                    s.inner = s.first->dims[d];
                    break;
                }
            s.rows = s.inner ? s.first->count / s.inner : 0;
        }
        s.loops[0] = cg_index_atom(&n.x, s.rows);
        s.loops[1] = cg_index_atom(&n.x, s.inner);
        s.nloop = 2;
    } else {
        const struct cg_value *in = s.first->in[0];
        for (int pass = 0; pass < 2; pass++)
            for (int d = 0; d < in->rank; d++) {
                bool gone = false;
                for (uint32_t k = 0; k < s.first->nlist; k++) gone = gone || s.first->list[k] == d;
                if (gone != (pass == 1)) continue;
                s.loops[s.nloop++] = cg_index_atom(&n.x, in->dims[d]);
                if (!gone) s.nkept++;
            }
    }
    for (int round = 0;; round++) {
        int before = n.x.natom;
        generate(&n, &s, levels);
        if (n.rc) break;
        if (n.restart) {
            nf_map_free(n.memo);
            return 1;
        }
        if (n.x.natom == before && !n.kept_more) break;
        if (round > CG_ATOMS_MAX + KEPT_BYTES_MAX / 64) {
            n.rc = nf_fail(err, NF_EINTERNAL, "codegen: index expressions do not settle");
            break;
        }
    }
    nf_map_free(n.memo);
    n.memo = NULL;
    if (!n.rc) n.rc = finish(&n, &s, st, &ignore);
    if (n.rc) return n.rc;
    as_copy(&n, st);
    keep_label(st, unit);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- products */

static int dot_operand(struct gen *n, struct cg_value *v, struct cg_expr *idx, struct cg_value **ret_base, struct cg_expr *ret_flat)
{
    struct cg_expr next[CG_RANK_MAX];
    for (;;) {
        struct cg_value *b = cg_memory(v);
        if (in_memory(v) || (v->kind == CG_RESHAPE && in_memory(b))) {
            cg_index_flatten(&n->x, idx, v->dims, v->rank, ret_flat);
            *ret_base = b;
            return 0;
        }
        if (!cg_is_view(v)) return nf_fail(n->err, NF_EINTERNAL, "codegen: an operand of a product has no memory");
        if (!cg_index_view(&n->x, v, idx, next)) {
            if (n->x.failed) return nf_fail(n->err, NF_EUNSUPPORTED, "index expressions of a product grew beyond their limits");
            materialise(n, v);
            return 1;
        }
        memcpy(idx, next, sizeof next);
        v = v->in[0];
    }
}

/* Dims of a class (extent, strides of a, b, c) in the order in which to walk them: the least stride innermost. Rows and columns by the
 * result's strides when it has neighbours among them, else by their operand's; contracted dims by both operands'. */
static void walk_order(int class, int64_t dim[][4], int n, int *order)
{
    enum { BATCH, ROWS, COLUMNS };
    bool in_result = false;
    int64_t weight[CG_ATOMS_MAX];
    for (int i = 0; i < n; i++) in_result = in_result || dim[i][3] == 1;
    for (int i = 0; i < n; i++) {
        int64_t a = dim[i][1] < 0 ? -dim[i][1] : dim[i][1], b = dim[i][2] < 0 ? -dim[i][2] : dim[i][2];
        weight[i] = class == ROWS ? (in_result ? dim[i][3] : a) : class == COLUMNS ? (in_result ? dim[i][3] : b) : a + b;
        int k = i; /* what is equal, and batches, as they are */
        for (; k > 0 && class != BATCH && weight[order[k - 1]] < weight[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

static int lower_dot(struct cg_graph *g, struct cg_value *v, struct cg_step *st, struct nf_error *err)
{
    struct gen n = {.g = g, .err = err};
    const struct cg_dot *d = v->dot;
    int atom[CG_LOOPS_MAX];
    struct cg_value *base[3];
    struct cg_expr flat[3];
    for (int i = 0; i < d->nloop; i++) atom[i] = cg_index_atom(&n.x, d->loop[i].extent);
    for (int before = -1; before != n.x.natom;) {
        before = n.x.natom;
        for (int o = 0; o < 3; o++) {
            struct cg_value *t = o < 2 ? v->in[o] : v;
            struct cg_expr idx[CG_RANK_MAX];
            for (int k = 0; k < t->rank; k++) {
                idx[k] = (struct cg_expr){.base = d->base[o][k]};
                for (int i = 0; i < d->nloop; i++) {
                    struct cg_expr e = {.n = 1, .t = {{atom[i], 1}}};
                    if (d->coef[o][k][i]) cg_expr_add(&n.x, &idx[k], &e, d->coef[o][k][i]);
                }
            }
            if (o == 2) {
                cg_index_flatten(&n.x, idx, t->dims, t->rank, &flat[2]);
                base[2] = v;
                continue;
            }
            int rc = dot_operand(&n, t, idx, &base[o], &flat[o]);
            if (rc) return rc;
        }
    }
    /* Dims by class, neighbours that continue one another in every operand merged. */
    int64_t *attr = NF_NEW_ARRAY(g->cg->arena, int64_t, 16 + 4 * CG_ATOMS_MAX);
    uint32_t at = 0;
    for (int o = 0; o < 3; o++) attr[at++] = flat[o].base;
    static const char classes[] = "bmnk";
    static const bool uses[4][3] = {{true, true, true}, {true, false, true}, {false, true, true}, {true, true, false}};
    for (int c = 0; c < 4; c++) {
        uint32_t count_at = at++;
        int64_t count = 0, last[4] = {0}, dim[CG_ATOMS_MAX][4];
        int ndim = 0, order[CG_ATOMS_MAX];
        for (int i = 0; i < d->nloop; i++) {
            int leaf[CG_ATOMS_MAX], k = d->loop[i].cls == classes[c] ? cg_index_leaves(&n.x, atom[i], leaf, CG_ATOMS_MAX) : 0;
            for (int q = 0; q < k && ndim < CG_ATOMS_MAX; q++) {
                if (n.x.extent[leaf[q]] == 1) continue;
                dim[ndim][0] = n.x.extent[leaf[q]];
                for (int o = 0; o < 3; o++) dim[ndim][1 + o] = coef_of(&flat[o], leaf[q]);
                ndim++;
            }
        }
        walk_order(c, dim, ndim, order);
        for (int i = 0; i < ndim; i++) {
            int64_t *now = dim[order[i]];
            bool join = count > 0;
            for (int o = 0; o < 3 && join; o++) join = !uses[c][o] || last[1 + o] == now[1 + o] * now[0];
            if (join) {
                at -= 1 + (uint32_t)uses[c][0] + uses[c][1] + uses[c][2];
                now[0] *= last[0];
            } else {
                count++;
            }
            if (count > PLAN_RANK_MAX) return nf_fail(err, NF_EUNSUPPORTED, "a product of that many dims");
            attr[at++] = now[0];
            for (int o = 0; o < 3; o++)
                if (uses[c][o]) attr[at++] = now[1 + o];
            memcpy(last, now, sizeof last);
        }
        attr[count_at] = count;
    }
    struct cg_value **in = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, 2), **out = NF_NEW_ARRAY(g->cg->arena, struct cg_value *, 1);
    in[0] = base[0];
    in[1] = base[1];
    out[0] = v;
    *st = (struct cg_step){.op = PLAN_DOT, .label = v->label, .nin = 2, .nout = 1, .in = in, .out = out, .attr = attr, .nattr = at};
    return 0;
}

/* A product that is only read transposed is written transposed. */
static void take_transpositions(struct cg_graph *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *t = g->v[i], *p;
        if (t->dead || t->kind != CG_TRANSPOSE) continue;
        p = t->in[0];
        if (p->kind != CG_DOT || p->nuse != 1 || p->graph != g || p->output || p->captured) continue;
        struct cg_dot *d = NF_NEW(g->cg->arena, struct cg_dot);
        *d = *p->dot;
        for (int k = 0; k < t->rank; k++) {
            memcpy(d->coef[2][k], p->dot->coef[2][t->list[k]], sizeof d->coef[2][k]);
            d->base[2][k] = p->dot->base[2][t->list[k]];
        }
        t->kind = CG_DOT;
        t->dot = d;
        t->nin = 2;
        t->in = p->in;
        t->list = NULL;
        t->label = p->label;
        p->dead = true;
    }
}

/* An output that is a copy of what only it reads is written at once. */
static void drop_copies(struct cg_graph *g)
{
    for (uint32_t i = 0; i < g->nresult && !g->parent; i++) {
        struct cg_value *c = g->results[i], *v = c->kind == CG_EW && c->op == RP_COPY ? c->in[0] : NULL;
        if (!v || v->kind != CG_DOT || v->nuse != 1 || v->graph != g || v->output || v->captured || c->nuse) continue;
        v->output = true;
        v->stored = true;
        g->results[i] = v;
        c->dead = true;
        c->stored = c->output = false;
    }
}

/* ------------------------------------------------------------------------------------------------------------ order */

struct units {
    struct cg_graph *g;
    struct cg_value **u;       /* representative of a group, or a DOT or LIB */
    uint32_t n;
    uint8_t *state;            /* 0 not yet, 1 on the way, 2 done */
};

static void add_unit(struct units *u, struct cg_value *v)
{
    v->unit = u->n;
    u->u[u->n++] = v;
}

static bool has_target(const struct cg_value *unit)
{
    for (const struct cg_value *v = unit->group_first; v; v = v->group_next)
        if (v->stored) return true;
    return false;
}

/* Units that `v`, seen from its reader, needs: pushed on the stack. */
struct walk {
    struct cg_value **stack;
    uint32_t n, cap;
    struct nf_arena *arena;
};
static void push(struct walk *w, struct cg_value *v)
{
    int cap = (int)w->cap;
    w->stack = grow(w->arena, w->stack, (int)w->n, &cap, sizeof *w->stack);
    w->cap = (uint32_t)cap;
    w->stack[w->n++] = v;
}

static void needs_of_graph(struct cg_graph *outer, struct cg_graph *b, struct walk *w)
{
    for (uint32_t i = 0; i < b->n; i++) {
        struct cg_value *v = b->v[i];
        if (v->dead) continue;
        for (uint32_t k = 0; k < v->nin; k++) push(w, v->in[k]);
        for (uint32_t k = 0; k < v->ngraph; k++) needs_of_graph(outer, v->graphs[k], w);
    }
    for (uint32_t i = 0; i < b->nresult; i++) push(w, b->results[i]);
}

/* Direct predecessors of unit `u` as unit numbers, and in args, when wanted, the arguments that it reads. */
static uint32_t predecessors(struct units *us, uint32_t u, struct walk *w, uint32_t *ret, uint32_t max, uint8_t *args)
{
    struct cg_graph *g = us->g;
    struct cg_value *unit = us->u[u];
    struct nf_map *seen = nf_map_new(true);
    uint32_t n = 0;
    w->n = 0;
    if (spaced(unit)) {
        for (struct cg_value *v = unit->group_first; v; v = v->group_next)
            for (uint32_t k = 0; k < v->nin; k++) push(w, v->in[k]);
        for (struct cg_value *v = unit->group_first; v; v = v->group_next) { /* a piece is written after what fills the whole */
            if (v->kind == CG_PIECE && v->owner->in[0] != v && v->owner->in[0]->count == v->owner->count) push(w, v->owner->in[0]);
        }
    } else {
        for (uint32_t k = 0; k < unit->nin; k++) push(w, unit->in[k]);
        for (uint32_t k = 0; k < unit->ngraph; k++) needs_of_graph(g, unit->graphs[k], w);
    }
    while (w->n) {
        struct cg_value *v = w->stack[--w->n];
        if (v->graph != g) continue;
        if (nf_map_put(seen, nf_str_n(&v, sizeof v), v)) continue;
        if (cg_is_view(v)) {
            push(w, v->in[0]);
        } else if (v->kind == CG_ARG) {
            if (args) args[v->index] = 1;
        } else if (v->kind == CG_ASSEMBLE) {
            for (uint32_t k = 0; k < v->nin; k++) push(w, v->in[k]);
        } else if (v->kind == CG_RESULT) {
            push(w, v->in[0]);
        } else if (spaced(v) && !v->stored) {
            for (uint32_t k = 0; k < v->nin; k++) push(w, v->in[k]);
        } else if (v->kind == CG_DOT || v->kind == CG_LIB || spaced(v)) {
            uint32_t p = spaced(v) ? rep(v)->unit : v->unit;
            if (p != u && n < max) ret[n++] = p;
        }
    }
    nf_map_free(seen);
    return n;
}

/* Units in program order, each after what it needs. Units that nothing waits for (they make outputs: updated weights) come as soon as
 * they can, so that what they read need not be kept; those that write over an argument, after its other readers. */
struct edges {
    uint32_t n, *to;
};
struct schedule {
    struct units *us;
    struct edges *pred, *succ;         /* by unit */
    struct edges *early;               /* by unit: early ones that wait for it */
    uint32_t *waits;                   /* by unit: how many an early one waits for; 0: not early */
    uint32_t *order, n;
};

static void finished(struct schedule *s, uint32_t u) /* not recursive without bound: nothing waits for an early one */
{
    s->us->state[u] = 2;
    s->order[s->n++] = u;
    for (uint32_t i = 0; i < s->early[u].n; i++) {
        uint32_t e = s->early[u].to[i];
        if (--s->waits[e] == 0 && s->us->state[e] == 0) finished(s, e);
    }
}

static void add_edge(struct nf_arena *ar, struct edges *e, uint32_t to)
{
    if ((e->n & (e->n - 1)) == 0) { /* there is room for a power of two */
        uint32_t *more = NF_NEW_ARRAY(ar, uint32_t, e->n ? e->n * 2 : 1);
        if (e->n) memcpy(more, e->to, e->n * sizeof *more);
        e->to = more;
    }
    e->to[e->n++] = to;
}

/* Which units are early, and what each waits for. */
static void find_early(struct schedule *s, uint8_t *const *reads)
{
    struct units *us = s->us;
    struct cg *cg = us->g->cg;
    struct edges *readers = NF_NEW_ARRAY(cg->arena, struct edges, cg->nargs + 1);
    for (uint32_t u = 0; u < us->n; u++)
        for (uint32_t a = 0; a < cg->nargs; a++)
            if (reads[u][a]) add_edge(cg->arena, &readers[a], u);
    for (uint32_t u = 0; u < us->n; u++) {
        if (s->succ[u].n || !spaced(us->u[u])) continue;
        for (uint32_t i = 0; i < s->pred[u].n; i++) {
            add_edge(cg->arena, &s->early[s->pred[u].to[i]], u);
            s->waits[u]++;
        }
        for (struct cg_value *v = us->u[u]->group_first; v && s->waits[u]; v = v->group_next)
            for (uint32_t o = 0; v->stored && o < cg->nouts; o++) {
                if (cg->alias[o] < 0 || us->g->results[o] != v) continue;
                const struct edges *r = &readers[cg->alias[o]];
                for (uint32_t i = 0; i < r->n; i++) {
                    if (r->to[i] == u) continue;
                    add_edge(cg->arena, &s->early[r->to[i]], u);
                    s->waits[u]++;
                }
            }
    }
}

static int order(struct units *us, uint32_t *ret_order, struct nf_error *err)
{
    struct nf_arena *ar = us->g->cg->arena;
    struct walk w = {.arena = ar};
    struct schedule s = {us, NF_NEW_ARRAY(ar, struct edges, us->n + 1), NF_NEW_ARRAY(ar, struct edges, us->n + 1), NF_NEW_ARRAY(ar, struct edges, us->n + 1),
                         NF_NEW_ARRAY(ar, uint32_t, us->n + 1), ret_order, 0};
    uint32_t depth = 0, max = us->n + 65536, last = us->n, nargs = us->g->cg->nargs;
    bool main = !us->g->parent && (uint64_t)us->n * nargs <= 64 << 20;
    struct frame {
        uint32_t unit, next;
    } *stack = NF_NEW_ARRAY(ar, struct frame, us->n + 1);
    uint32_t *buf = NF_NEW_ARRAY(ar, uint32_t, max);
    uint8_t **reads = NF_NEW_ARRAY(ar, uint8_t *, us->n + 1);
    for (uint32_t u = 0; u < us->n; u++) {
        if (main) reads[u] = NF_NEW_ARRAY(ar, uint8_t, nargs + 1);
        s.pred[u].n = predecessors(us, u, &w, buf, max, reads[u]);
        if (us->u[u]->ordered) {
            if (last < us->n && s.pred[u].n < max) buf[s.pred[u].n++] = last;
            last = u;
        }
        s.pred[u].to = NF_NEW_ARRAY(ar, uint32_t, s.pred[u].n + 1);
        if (s.pred[u].n) memcpy(s.pred[u].to, buf, s.pred[u].n * sizeof *buf);
        for (uint32_t i = 0; i < s.pred[u].n; i++) add_edge(ar, &s.succ[buf[i]], u);
    }
    if (main) find_early(&s, reads);
    for (uint32_t u = 0; main && u < us->n; u++) { /* a few numbers that need nothing else (powers of a step count) do not hold early ones up */
        bool ready = spaced(us->u[u]) && us->state[u] == 0;
        for (const struct cg_value *v = us->u[u]->group_first; v && ready; v = v->group_next) ready = !v->stored || v->count <= 16;
        for (uint32_t i = 0; i < s.pred[u].n && ready; i++) ready = us->state[s.pred[u].to[i]] == 2;
        if (ready) finished(&s, u);
    }
    for (uint32_t r = 0; r < us->n; r++) {
        if (us->state[r] == 2) continue;
        stack[depth++] = (struct frame){r, 0};
        us->state[r] = 1;
        while (depth) {
            struct frame *f = &stack[depth - 1];
            const struct edges *p = &s.pred[f->unit];
            while (f->next < p->n && us->state[p->to[f->next]] == 2) f->next++;
            if (f->next == p->n) {
                finished(&s, f->unit);
                depth--;
                continue;
            }
            uint32_t enter = p->to[f->next++];
            if (us->state[enter] == 1) return nf_fail(err, NF_EINTERNAL, "codegen: kernels wait for one another");
            us->state[enter] = 1;
            stack[depth++] = (struct frame){enter, 0};
        }
    }
    return 0;
}

int cg_lower(struct cg_graph *g, struct cg_steps *ret, struct nf_error *err)
{
    struct cg *cg = g->cg;
    struct units us = {.g = g, .u = NF_NEW_ARRAY(cg->arena, struct cg_value *, g->n + 1)};
    take_transpositions(g);
    drop_copies(g);
    for (uint32_t i = 0; i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (v->dead) continue;
        if (v->kind == CG_DOT || v->kind == CG_LIB) add_unit(&us, v);
        else if (spaced(v) && rep(v)->group_last == v && has_target(rep(v))) add_unit(&us, rep(v));
    }
    us.state = NF_NEW_ARRAY(cg->arena, uint8_t, us.n + 1);
    uint32_t *seq = NF_NEW_ARRAY(cg->arena, uint32_t, us.n + 1);
    int rc = order(&us, seq, err), again = 0;
    if (rc) return rc;
    *ret = (struct cg_steps){.s = NF_NEW_ARRAY(cg->arena, struct cg_step, us.n + 1), .cap = us.n};
    for (uint32_t i = 0; i < us.n && !rc; i++) {
        struct cg_value *v = us.u[seq[i]];
        struct cg_step *st = &ret->s[ret->n];
        if (spaced(v)) {
            if (v->group_first->count == 0) continue;
            rc = lower_group(g, v, st, err);
        } else if (v->kind == CG_DOT) {
            if (v->count == 0) continue;
            rc = lower_dot(g, v, st, err);
        } else {
            struct cg_value **in = NF_NEW_ARRAY(cg->arena, struct cg_value *, v->nin + 1);
            for (uint32_t k = 0; k < v->nin; k++) in[k] = v->in[k];
            *st = (struct cg_step){.op = v->op, .label = v->label, .nin = v->nin, .nout = v->nresult, .in = in, .out = v->results, .attr = v->attrs, .nattr = v->nattr, .lib = v};
        }
        if (rc == 1) {
            again = 1;
            rc = 0;
            continue;
        }
        if (!rc) ret->n++;
    }
    return rc ? rc : again;
}
