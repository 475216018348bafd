/* index.c: index expressions: sums of coefficient times atom plus a constant. An atom is a loop dim or, after a reshape cut
 * it, a part of one: atom = high * extent(low) + low. So any chain of views becomes strides over refined loop dims, without
 * division at run time. */
#include "pipeline/codegen/cg.h"

int cg_index_atom(struct cg_index *x, int64_t extent)
{
    if (x->natom == CG_ATOMS_MAX) {
        x->failed = true;
        return 0;
    }
    int a = x->natom++;
    x->extent[a] = extent;
    x->high[a] = x->low[a] = -1;
    return a;
}

static void split(struct cg_index *x, int a, int64_t low)
{
    int h = cg_index_atom(x, x->extent[a] / low), l = cg_index_atom(x, low);
    if (x->failed) return;
    x->high[a] = h;
    x->low[a] = l;
}

static void add_term(struct cg_index *x, struct cg_expr *e, int atom, int64_t coef)
{
    if (coef == 0 || x->extent[atom] <= 1) return;
    if (x->high[atom] >= 0) {
        add_term(x, e, x->high[atom], coef * x->extent[x->low[atom]]); /* depth: an atom is cut at most log2(extent) times */
        add_term(x, e, x->low[atom], coef);
        return;
    }
    int i = 0;
    while (i < e->n && e->t[i].atom < atom) i++;
    if (i < e->n && e->t[i].atom == atom) {
        e->t[i].coef += coef;
        if (e->t[i].coef == 0) {
            memmove(e->t + i, e->t + i + 1, (size_t)(e->n - i - 1) * sizeof *e->t);
            e->n--;
        }
        return;
    }
    if (e->n == CG_TERMS_MAX) {
        x->failed = true;
        return;
    }
    memmove(e->t + i + 1, e->t + i, (size_t)(e->n - i) * sizeof *e->t);
    e->t[i] = (struct cg_term){atom, coef};
    e->n++;
}

void cg_expr_add(struct cg_index *x, struct cg_expr *e, const struct cg_expr *by, int64_t scale)
{
    e->base += by->base * scale;
    for (int i = 0; i < by->n; i++) add_term(x, e, by->t[i].atom, by->t[i].coef * scale);
}

void cg_expr_norm(struct cg_index *x, struct cg_expr *e)
{
    struct cg_expr r = {0};
    cg_expr_add(x, &r, e, 1);
    *e = r;
}

void cg_index_flatten(struct cg_index *x, const struct cg_expr *idx, const int64_t *dims, int rank, struct cg_expr *ret)
{
    struct cg_expr r = {0};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        cg_expr_add(x, &r, &idx[d], stride);
        stride *= dims[d];
    }
    *ret = r;
}

bool cg_index_unflatten(struct cg_index *x, const struct cg_expr *flat, const int64_t *dims, int rank, struct cg_expr *ret)
{
    struct cg_expr e = *flat;
    int64_t stride[CG_RANK_MAX], s = 1;
    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= dims[d];
    }
    for (int d = 0; d < rank; d++) { /* cut every atom that crosses the border between this dim and the one inside it */
        int64_t b = stride[d];
        for (bool again = true; again && !x->failed;) {
            again = false;
            cg_expr_norm(x, &e);
            for (int i = 0; i < e.n; i++) {
                int64_t c = e.t[i].coef, n = x->extent[e.t[i].atom];
                if (c < 0) return false;
                if (!(c < b && b < c * n)) continue;
                if (b % c || n % (b / c)) return false;
                split(x, e.t[i].atom, b / c);
                again = true;
                break;
            }
        }
    }
    if (x->failed || e.base < 0) return false;
    int64_t base = e.base;
    bool used[CG_TERMS_MAX] = {0};
    for (int d = 0; d < rank; d++) {
        struct cg_expr r = {0};
        int64_t most = 0;
        for (int i = 0; i < e.n; i++) {
            int64_t c = e.t[i].coef;
            if (used[i] || c < stride[d] || dims[d] == 1) continue;
            if (c % stride[d]) return false;
            add_term(x, &r, e.t[i].atom, c / stride[d]);
            most += (x->extent[e.t[i].atom] - 1) * (c / stride[d]);
            used[i] = true;
        }
        r.base = base / stride[d];
        base %= stride[d];
        most += r.base;
        if (most >= dims[d] && dims[d] > 0) return false; /* carries into the dim outside: not affine by dims */
        ret[d] = r;
    }
    for (int i = 0; i < e.n; i++)
        if (!used[i]) return false;
    return base == 0;
}

bool cg_index_view(struct cg_index *x, const struct cg_value *v, const struct cg_expr *idx, struct cg_expr *ret)
{
    const struct cg_value *in = v->in[0];
    struct cg_expr flat;
    switch ((int)v->kind) {
    case CG_BROADCAST:
        for (int d = 0; d < in->rank; d++) ret[d] = in->dims[d] == 1 ? (struct cg_expr){0} : idx[v->list[d]];
        return true;
    case CG_TRANSPOSE:
        for (int d = 0; d < v->rank; d++) ret[v->list[d]] = idx[d];
        return true;
    case CG_SLICE:
        for (int d = 0; d < v->rank; d++) {
            struct cg_expr e = {.base = v->list[d]};
            cg_expr_add(x, &e, &idx[d], v->list2[d]);
            ret[d] = e;
        }
        return true;
    case CG_RESHAPE:
        cg_index_flatten(x, idx, v->dims, v->rank, &flat);
        return cg_index_unflatten(x, &flat, in->dims, in->rank, ret);
    default: return false;
    }
}

int cg_index_leaves(const struct cg_index *x, int a, int *ret, int max)
{
    if (x->high[a] < 0) {
        if (max < 1) return 1;
        ret[0] = a;
        return 1;
    }
    int n = cg_index_leaves(x, x->high[a], ret, max); /* bounded like add_term */
    return n + cg_index_leaves(x, x->low[a], n < max ? ret + n : ret, n < max ? max - n : 0);
}
