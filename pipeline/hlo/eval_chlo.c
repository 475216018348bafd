/* CHLO operations that are no elementwise kernels, and the deprecated ones that are easily said with others. */
#include "pipeline/hlo/eval_internal.h"

#include <math.h>
#include <stdlib.h>

/* Operand k spread to the result's shape; the operand itself where it has that shape. dims: where its dimensions go, NULL: at the end. */
static int spread(struct ev_ctx *c, uint32_t k, int rank, const int64_t *shape, struct hlo_ints dims, struct ev_value **ret, struct nf_error *err)
{
    const struct rt_array *a = &c->in[k]->a;
    int64_t map[RT_ARRAY_RANK_MAX];
    bool same = a->rank == rank;
    for (int i = 0; i < a->rank; i++) {
        map[i] = dims.n == (size_t)a->rank && a->rank != rank ? dims.v[i] : rank - a->rank + i;
        if (map[i] < 0 || map[i] >= rank || (a->dims[i] != 1 && a->dims[i] != shape[map[i]]))
            return ev_fail(c, err, NF_EGRAPH, "operand %u cannot be broadcast at run time", k);
        same = same && a->dims[i] == shape[i];
    }
    if (same) {
        *ret = ev_ref(c->in[k]);
        return NF_OK;
    }
    int rc = ev_array_new(c->f->proc->run, a->dtype, rank, shape, ret, err);
    if (!rc)
        ev_broadcast(a, map, &(*ret)->a);
    return rc;
}

static int joint_shape(struct ev_ctx *c, struct hlo_ints dims, int64_t *shape, int *ret_rank, struct nf_error *err)
{
    int rank = 0;
    for (uint32_t k = 0; k < c->n_in; k++)
        rank = NF_MAX(rank, c->in[k]->a.rank);
    for (int i = 0; i < rank; i++)
        shape[i] = 1;
    for (uint32_t k = 0; k < c->n_in; k++)
        for (int i = 0; i < c->in[k]->a.rank; i++) {
            int64_t d = c->in[k]->a.rank != rank && dims.n == (size_t)c->in[k]->a.rank ? dims.v[i] : rank - c->in[k]->a.rank + i;
            if (d < 0 || d >= rank)
                return ev_fail(c, err, NF_EGRAPH, "broadcast dimension %lld is out of range", (long long)d);
            if (c->in[k]->a.dims[i] != 1)
                shape[d] = c->in[k]->a.dims[i];
        }
    *ret_rank = rank;
    return NF_OK;
}

int hlo_e_chlo_broadcast(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints dims = hlo_op_i64s(c->op, HLO_A_broadcast_dimensions);
    int64_t shape[RT_ARRAY_RANK_MAX];
    int rank = 0;
    struct ev_value *in[2] = {NULL, NULL};
    int rc = joint_shape(c, dims, shape, &rank, err);
    for (uint32_t k = 0; k < 2 && !rc; k++)
        rc = spread(c, k, rank, shape, dims, &in[k], err);
    if (!rc) {
        struct ev_ctx plain = *c;
        plain.in = in;
        plain.dies = NULL;
        rc = hlo_e_elementwise(&plain, err);
    }
    ev_unref(in[0]);
    ev_unref(in[1]);
    return rc;
}

int hlo_e_chlo_broadcast_select(struct ev_ctx *c, struct nf_error *err)
{
    int64_t shape[RT_ARRAY_RANK_MAX];
    int rank = 0;
    struct ev_value *in[3] = {NULL, NULL, NULL};
    struct hlo_ints none = {0, NULL};
    int rc = joint_shape(c, none, shape, &rank, err);
    for (uint32_t k = 0; k < 3 && !rc; k++)
        rc = spread(c, k, rank, shape, none, &in[k], err);
    if (!rc) {
        struct ev_ctx plain = *c;
        plain.in = in;
        plain.dies = NULL;
        rc = hlo_e_select(&plain, err);
    }
    for (uint32_t k = 0; k < 3; k++)
        ev_unref(in[k]);
    return rc;
}

static int scalar_attr(struct ev_ctx *c, const struct hlo_attr *v, enum nf_dtype to, void *elem, struct nf_error *err)
{
    if (v && v->kind == HLO_ATTR_FLOAT) {
        double d = hlo_float_decode(v->type->elem, v->bits);
        ev_store_double(1, to, &d, elem);
    } else if (v && v->kind == HLO_ATTR_INT) {
        ev_convert(1, to, elem, NF_DT_S64, &v->i);
    } else if (v && v->kind == HLO_ATTR_BOOL) {
        uint8_t b = v->b;
        ev_convert(1, to, elem, NF_DT_PRED, &b);
    } else if (v && v->kind == HLO_ATTR_DENSE && v->type && v->dense.raw.len == nf_dtype_bytes(hlo_eval_dtype(v->type))) {
        ev_convert(1, to, elem, hlo_eval_dtype(v->type), v->dense.raw.data);
    } else {
        return ev_fail(c, err, NF_EUNSUPPORTED, "its value cannot be evaluated");
    }
    return NF_OK;
}

int hlo_e_chlo_constant_like(struct ev_ctx *c, struct nf_error *err)
{
    _Alignas(16) char elem[16] = {0};
    enum nf_dtype dt = ev_out_dtype(c, 0);
    int rc = scalar_attr(c, hlo_op_attr(c->op, HLO_A_value), dt, elem, err);
    rc = rc ? rc : ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    if (!rc)
        ev_fill(ev_count(c->out[0]), nf_dtype_bytes(dt), c->out[0]->a.data, elem);
    return rc;
}

int hlo_e_arith_constant(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_attr *v = hlo_op_attr(c->op, HLO_A_value);
    if (v && v->kind == HLO_ATTR_DENSE && c->op->results[0].type->kind == HLO_TYPE_TENSOR)
        return ev_constant_new(c->f->proc->run, v, &c->out[0], err);
    _Alignas(16) char elem[16] = {0};
    enum nf_dtype dt = ev_out_dtype(c, 0);
    int rc = scalar_attr(c, v, dt, elem, err);
    rc = rc ? rc : ev_out_shaped(c, 0, 0, NULL, err);
    if (!rc)
        memcpy(c->out[0]->a.data, elem, nf_dtype_bytes(dt));
    return rc;
}

int hlo_e_chlo_asin_acos_kernel(struct ev_ctx *c, struct nf_error *err)
{
    return ev_fail(c, err, NF_EUNSUPPORTED, "is a step inside an expansion and has no meaning alone");
}

/* ---- top_k ---- */

struct ranked {
    const char *row;
    enum nf_dtype dt;
    size_t w;
    ev_kernel before;
};

static bool ranks_before(const struct ranked *r, int64_t i, int64_t j)
{
    uint8_t b = 0;
    r->before(1, &b, r->row + (size_t)i * r->w, r->row + (size_t)j * r->w);
    return b;
}

int hlo_e_chlo_top_k(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a;
    int64_t k = hlo_op_i64(c->op, HLO_A_k, 0), n = in->rank ? in->dims[in->rank - 1] : 0, dims[RT_ARRAY_RANK_MAX];
    if (in->rank == 0 || k < 0 || k > n)
        return ev_fail(c, err, NF_EGRAPH, "k is %lld of %lld elements", (long long)k, (long long)n);
    /* largest first, NaN before all numbers, of equals the first */
    struct ranked r = {.dt = in->dtype, .w = nf_dtype_bytes(in->dtype), .before = ev_kernel_find(EV_TOTAL_GT, in->dtype)};
    if (!r.before)
        return ev_fail(c, err, NF_EUNSUPPORTED, "is not defined for elements %s", nf_dtype_name(in->dtype));
    memcpy(dims, in->dims, sizeof(dims));
    dims[in->rank - 1] = k;
    int rc = ev_out_shaped(c, 0, in->rank, dims, err);
    rc = rc ? rc : ev_out_shaped(c, 1, in->rank, dims, err);
    if (rc || !n || !k)
        return rc;
    int64_t *a = nf_try_alloc((size_t)n * sizeof(*a)), *t = nf_try_alloc((size_t)n * sizeof(*t));
    if (!a || !t) {
        free(a);
        free(t);
        return ev_fail(c, err, NF_ENOMEM, "no memory to sort %lld elements", (long long)n);
    }
    size_t wi = nf_dtype_bytes(c->out[1]->a.dtype);
    for (int64_t row = 0; row < rt_array_count(in) / n; row++) {
        r.row = (const char *)in->data + (size_t)(row * n) * r.w;
        for (int64_t i = 0; i < n; i++)
            a[i] = i;
        for (int64_t width = 1; width < n; width *= 2) {
            for (int64_t lo = 0; lo < n; lo += 2 * width) {
                int64_t mid = NF_MIN(lo + width, n), hi = NF_MIN(lo + 2 * width, n), x = lo, y = mid, o = lo;
                while (x < mid && y < hi)
                    t[o++] = ranks_before(&r, a[y], a[x]) ? a[y++] : a[x++];
                while (x < mid)
                    t[o++] = a[x++];
                while (y < hi)
                    t[o++] = a[y++];
            }
            int64_t *swap = a;
            a = t;
            t = swap;
        }
        for (int64_t i = 0; i < k; i++) {
            memcpy((char *)c->out[0]->a.data + (size_t)(row * k + i) * r.w, r.row + (size_t)a[i] * r.w, r.w);
            ev_convert(1, c->out[1]->a.dtype, (char *)c->out[1]->a.data + (size_t)(row * k + i) * wi, NF_DT_S64, &a[i]);
        }
    }
    free(a);
    free(t);
    return NF_OK;
}

/* ---- ragged_dot ----
 *
 * Groups cut the ragged dimension of the left operand into runs of group_sizes elements. Where that is a free dimension, the rows of
 * group g meet matrix g of the right operand; where it is contracted, there is one product a group; where it is a batch dimension,
 * the groups do not matter. group_sizes may have the batch (and, before the ragged one, free) dimensions of the left in front. */
int hlo_e_chlo_ragged_dot(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_attr *at = hlo_op_attr(c->op, HLO_A_ragged_dot_dimension_numbers);
    if (!at || at->kind != HLO_ATTR_RAGGED_DOT || at->ragged->lhs_ragged.n != 1)
        return ev_fail(c, err, NF_EGRAPH, "has no dimension numbers with one ragged dimension");
    const struct hlo_ragged_dot *d = at->ragged;
    const struct rt_array *l = &c->in[0]->a, *r = &c->in[1]->a, *gs = &c->in[2]->a;
    int64_t ragged = d->lhs_ragged.v[0], groups = gs->rank ? gs->dims[gs->rank - 1] : 1;
    struct ev_ints lb = {d->lhs_batching.v, d->lhs_batching.n}, rb = {d->rhs_batching.v, d->rhs_batching.n},
                   lc = {d->lhs_contracting.v, d->lhs_contracting.n}, rcn = {d->rhs_contracting.v, d->rhs_contracting.n},
                   rg = {d->rhs_group.v, d->rhs_group.n};
    bool contracted = ev_ints_has(lc, ragged), batch = ev_ints_has(lb, ragged);
    int64_t dims[RT_ARRAY_RANK_MAX], lfree[RT_ARRAY_RANK_MAX], rfree[RT_ARRAY_RANK_MAX];
    int rank = 0, nl = 0, nr = 0;
    if (contracted)
        dims[rank++] = groups;
    for (size_t i = 0; i < lb.n; i++)
        dims[rank++] = l->dims[lb.v[i]];
    for (int i = 0; i < l->rank; i++)
        if (!ev_ints_has(lb, i) && !ev_ints_has(lc, i))
            dims[rank++] = l->dims[lfree[nl++] = i];
    for (int i = 0; i < r->rank; i++)
        if (!ev_ints_has(rb, i) && !ev_ints_has(rcn, i) && !ev_ints_has(rg, i))
            dims[rank++] = r->dims[rfree[nr++] = i];
    for (size_t i = 0; i < lc.n; i++)
        if (rcn.n != lc.n || l->dims[lc.v[i]] != r->dims[rcn.v[i]])
            return ev_fail(c, err, NF_EGRAPH, "contracting dimensions differ at run time");
    for (size_t i = 0; i < lb.n; i++)
        if (rb.n != lb.n || l->dims[lb.v[i]] != r->dims[rb.v[i]])
            return ev_fail(c, err, NF_EGRAPH, "batching dimensions differ at run time");
    if (rg.n && r->dims[rg.v[0]] < groups)
        return ev_fail(c, err, NF_EGRAPH, "there are fewer matrices than groups at run time");
    for (int g = 0, f = 0; g < gs->rank - 1; g++) { /* sizes a batch: their leading dimensions are those of the left operand */
        int64_t want = -1;
        if ((size_t)g < lb.n)
            want = l->dims[lb.v[g]];
        else if (f < nl)
            want = l->dims[lfree[f++]];
        if (want != gs->dims[g])
            return ev_fail(c, err, NF_EGRAPH, "group sizes do not have the shape of the batch at run time");
    }
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    if (rc)
        return rc;
    enum nf_dtype dt = c->out[0]->a.dtype;
    if (!nf_dtype_is_float(dt) && !nf_dtype_is_int(dt))
        return ev_fail(c, err, NF_EUNSUPPORTED, "is not defined for elements %s", nf_dtype_name(dt));
    /* one output element at a time, in double (integers: modulo 2^64): rarely used, so plain */
    int64_t ls[RT_ARRAY_RANK_MAX], rs[RT_ARRAY_RANK_MAX], gstr[RT_ARRAY_RANK_MAX], index[RT_ARRAY_RANK_MAX] = {0}, cdims[RT_ARRAY_RANK_MAX], o = 0;
    ev_strides(l->rank, l->dims, ls);
    ev_strides(r->rank, r->dims, rs);
    ev_strides(gs->rank, gs->dims, gstr);
    for (size_t i = 0; i < lc.n; i++)
        cdims[i] = l->dims[lc.v[i]];
    if (c->out[0]->a.bytes == 0)
        return NF_OK;
    size_t wl = nf_dtype_bytes(l->dtype), wr = nf_dtype_bytes(r->dtype), wo = nf_dtype_bytes(dt);
    do {
        int64_t lat = 0, rat = 0, gat = 0, lidx[RT_ARRAY_RANK_MAX] = {0}, group = contracted ? index[0] : 0, from = 0, to = INT64_MAX;
        int p = contracted ? 1 : 0;
        for (size_t i = 0; i < lb.n; i++, p++) {
            lat += index[p] * ls[lb.v[i]];
            rat += index[p] * rs[rb.v[i]];
            lidx[lb.v[i]] = index[p];
        }
        for (int i = 0; i < nl; i++, p++) {
            lat += index[p] * ls[lfree[i]];
            lidx[lfree[i]] = index[p];
        }
        for (int i = 0; i < nr; i++, p++)
            rat += index[p] * rs[rfree[i]];
        /* group sizes of this batch: their leading dimensions follow batch dimensions, then free ones in front of the ragged one */
        if (gs->rank > 1) {
            int g = 0;
            for (size_t i = 0; i < lb.n && g < gs->rank - 1; i++)
                if (lb.v[i] != ragged)
                    gat += lidx[lb.v[i]] * gstr[g++];
            for (int i = 0; i < nl && g < gs->rank - 1 && lfree[i] != ragged; i++)
                gat += lidx[lfree[i]] * gstr[g++];
        }
        bool none = false;
        if (!batch) {
            int64_t sum = 0, pos = lidx[ragged], g = 0;
            if (contracted) {
                for (; g < group; g++)
                    sum += ev_int_at(gs->dtype, gs->data, gat + g);
                from = sum;
                to = sum + ev_int_at(gs->dtype, gs->data, gat + group);
            } else {
                for (; g < groups; g++) {
                    sum += ev_int_at(gs->dtype, gs->data, gat + g);
                    if (pos < sum)
                        break;
                }
                none = g == groups;
                if (rg.n && !none)
                    rat += g * rs[rg.v[0]];
            }
        }
        double acc = 0;
        uint64_t iacc = 0;
        int64_t k[RT_ARRAY_RANK_MAX] = {0};
        bool some = !none;
        for (size_t i = 0; i < lc.n; i++)
            some = some && cdims[i] > 0;
        if (some)
            do {
                int64_t x = lat, y = rat;
                bool inside = true;
                for (size_t i = 0; i < lc.n; i++) {
                    x += k[i] * ls[lc.v[i]];
                    y += k[i] * rs[rcn.v[i]];
                    if (contracted && lc.v[i] == ragged)
                        inside = k[i] >= from && k[i] < to;
                }
                if (!inside)
                    continue;
                if (nf_dtype_is_int(dt))
                    iacc += (uint64_t)ev_int_at(l->dtype, l->data, x) * (uint64_t)ev_int_at(r->dtype, r->data, y);
                else
                    acc += nf_elem_to_double(l->dtype, (const char *)l->data + (size_t)x * wl) *
                           nf_elem_to_double(r->dtype, (const char *)r->data + (size_t)y * wr);
            } while (ev_next_index((int)lc.n, cdims, k));
        if (nf_dtype_is_int(dt))
            ev_convert(1, dt, (char *)c->out[0]->a.data + (size_t)o * wo, NF_DT_U64, &iacc);
        else
            ev_store_double(1, dt, &acc, (char *)c->out[0]->a.data + (size_t)o * wo);
        o++;
        if (!(o & 0xfff) && ev_out_of_time(c->f->proc->run))
            return ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
    } while (ev_next_index(rank, dims, index));
    return NF_OK;
}

/* ---- scan: body(slices of inputs, carries) -> (slices of outputs, carries), along one dimension ---- */
int hlo_e_chlo_scan(struct ev_ctx *c, struct nf_error *err)
{
    const struct ev_block *b = c->inst->regions[0];
    int64_t dim = hlo_op_i64(c->op, HLO_A_dimension, 0), steps = hlo_op_i64(c->op, HLO_A_scan_dim_size, -1);
    bool reverse = hlo_op_bool(c->op, HLO_A_is_reverse, false);
    uint32_t carries = 0;
    /* operands: inputs, then carries; results: outputs, then carries. Carries keep their type. */
    const struct hlo_attr *seg = hlo_op_attr(c->op, HLO_A_operandSegmentSizes);
    if (seg && seg->kind == HLO_ATTR_DENSE_ARRAY && seg->ints.n == 2)
        carries = (uint32_t)seg->ints.v[1];
    else if (b)
        for (uint32_t i = 0; i < c->n_in; i++) /* an input loses a dimension in the region, a carry does not */
            carries += i < b->n_args && b->block->args[i]->type->rank == c->op->operands[i].value->type->rank;
    if (!b || b->n_args != c->n_in || b->n_results != c->n_out || carries > c->n_in || carries > c->n_out)
        return ev_fail(c, err, NF_EGRAPH, "the region does not fit operands and results");
    uint32_t ins = c->n_in - carries, outs = c->n_out - carries;
    for (uint32_t i = 0; i < ins; i++) {
        if (dim < 0 || dim >= c->in[i]->a.rank || (steps >= 0 && c->in[i]->a.dims[dim] != steps && i))
            return ev_fail(c, err, NF_EGRAPH, "inputs do not agree in dimension %lld", (long long)dim);
        steps = c->in[i]->a.dims[dim];
    }
    if (steps < 0)
        return ev_fail(c, err, NF_EGRAPH, "the number of steps is not known");
    struct ev_value **args = nf_alloc_array(c->n_in + 1, sizeof(*args)), **res = nf_alloc_array(c->n_out + 1, sizeof(*res)),
                    **carry = nf_alloc_array(carries + 1, sizeof(*carry));
    int rc = NF_OK;
    for (uint32_t i = 0; i < carries; i++)
        carry[i] = ev_ref(c->in[ins + i]);
    for (int64_t s = 0; s < steps && !rc; s++) {
        int64_t at = reverse ? steps - 1 - s : s, start[RT_ARRAY_RANK_MAX] = {0}, dims[RT_ARRAY_RANK_MAX];
        start[dim] = at;
        for (uint32_t i = 0; i < ins && !rc; i++) {
            const struct rt_array *a = &c->in[i]->a;
            memcpy(dims, a->dims, sizeof(dims));
            dims[dim] = 1;
            rc = ev_array_new(c->f->proc->run, a->dtype, a->rank, dims, &args[i], err);
            if (rc) {
                while (i--)
                    ev_unref(args[i]);
                break;
            }
            ev_slice(a, start, NULL, &args[i]->a);
            struct rt_array *slice = &args[i]->a; /* without the dimension */
            memmove(&slice->dims[dim], &slice->dims[dim + 1], (size_t)(slice->rank - 1 - dim) * sizeof(int64_t));
            slice->rank--;
        }
        if (rc)
            break;
        for (uint32_t i = 0; i < carries; i++) {
            args[ins + i] = carry[i];
            carry[i] = NULL;
        }
        if ((rc = ev_run_block(c->f, b, args, res, err)))
            break;
        for (uint32_t i = 0; i < carries; i++)
            carry[i] = res[outs + i];
        for (uint32_t i = 0; i < outs; i++) {
            struct rt_array *piece = &res[i]->a;
            if (!rc && (res[i]->kind != EV_ARRAY || dim > piece->rank || piece->rank + 1 > RT_ARRAY_RANK_MAX))
                rc = ev_fail(c, err, NF_EGRAPH, "output %u of the region does not fit", i);
            if (!rc) {
                struct rt_array view = *piece;
                memmove(&view.dims[dim + 1], &view.dims[dim], (size_t)(piece->rank - dim) * sizeof(int64_t));
                view.dims[dim] = 1;
                view.rank++;
                if (!c->out[i]) {
                    int64_t whole[RT_ARRAY_RANK_MAX];
                    memcpy(whole, view.dims, sizeof(whole));
                    whole[dim] = steps;
                    rc = ev_out_shaped(c, i, view.rank, whole, err);
                }
                if (!rc)
                    ev_update(&c->out[i]->a, start, &view);
            }
            ev_unref(res[i]);
        }
    }
    for (uint32_t i = 0; i < carries; i++) {
        if (!rc)
            c->out[outs + i] = ev_ref(carry[i]);
        ev_unref(carry[i]);
    }
    for (uint32_t i = 0; i < outs && !rc; i++)
        if (!c->out[i])
            rc = ev_out_new(c, i, err); /* no step was made */
    free(args);
    free(res);
    free(carry);
    return rc;
}

/* ---- deprecated ---- */

int hlo_e_broadcast(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints sizes = hlo_op_i64s(c->op, HLO_A_broadcast_sizes);
    const struct rt_array *in = &c->in[0]->a;
    int64_t dims[RT_ARRAY_RANK_MAX], map[RT_ARRAY_RANK_MAX];
    if (sizes.n + (size_t)in->rank > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "result has more than %d dimensions", RT_ARRAY_RANK_MAX);
    for (size_t i = 0; i < sizes.n; i++)
        dims[i] = sizes.v[i];
    for (int i = 0; i < in->rank; i++) {
        map[i] = (int64_t)sizes.n + i;
        dims[map[i]] = in->dims[i];
    }
    int rc = ev_out_shaped(c, 0, (int)sizes.n + in->rank, dims, err);
    if (!rc)
        ev_broadcast(in, map, &c->out[0]->a);
    return rc;
}

int hlo_e_dot(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *l = &c->in[0]->a, *r = &c->in[1]->a;
    int64_t lc = l->rank - 1, rcn = 0, dims[2];
    int rank = 0;
    if (l->rank < 1 || l->rank > 2 || r->rank < 1 || r->rank > 2 || l->dims[lc] != r->dims[0])
        return ev_fail(c, err, NF_EGRAPH, "operands do not fit together");
    if (l->rank == 2)
        dims[rank++] = l->dims[0];
    if (r->rank == 2)
        dims[rank++] = r->dims[1];
    struct ev_dot d = {.lhs_contracting = {&lc, 1}, .rhs_contracting = {&rcn, 1}, .round_each_step = c->f->proc->run->eval->options.round_each_step};
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    return rc ? rc : ev_dot(l, r, &d, &c->out[0]->a, err);
}

int hlo_e_torch_index_select(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a, *ix = &c->in[1]->a;
    int64_t dim = hlo_op_i64(c->op, HLO_A_dim, 0), batch = hlo_op_i64(c->op, HLO_A_batch_dims, 0);
    if (dim < 0 || dim >= in->rank || batch < 0 || batch > dim || batch > ix->rank)
        return ev_fail(c, err, NF_EGRAPH, "dimension %lld or batch dimensions %lld are out of range", (long long)dim, (long long)batch);
    int64_t dims[RT_ARRAY_RANK_MAX], index[RT_ARRAY_RANK_MAX] = {0}, is[RT_ARRAY_RANK_MAX], xs[RT_ARRAY_RANK_MAX];
    int rank = 0, total = in->rank - 1 + ix->rank - (int)batch;
    if (total > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "result has more than %d dimensions", RT_ARRAY_RANK_MAX);
    for (int i = 0; i < dim; i++)
        dims[rank++] = in->dims[i];
    for (int i = (int)batch; i < ix->rank; i++)
        dims[rank++] = ix->dims[i];
    for (int i = (int)dim + 1; i < in->rank; i++)
        dims[rank++] = in->dims[i];
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    if (rc || c->out[0]->a.bytes == 0)
        return rc;
    ev_strides(in->rank, in->dims, is);
    ev_strides(ix->rank, ix->dims, xs);
    size_t w = nf_dtype_bytes(in->dtype);
    int64_t o = 0;
    do {
        int64_t x = 0, s = 0;
        for (int i = 0; i < batch; i++)
            x += index[i] * xs[i];
        for (int i = (int)batch; i < ix->rank; i++)
            x += index[dim + i - batch] * xs[i];
        for (int i = 0; i < dim; i++)
            s += index[i] * is[i];
        for (int i = (int)dim + 1; i < in->rank; i++)
            s += index[(int)dim + ix->rank - (int)batch + i - (int)dim - 1] * is[i];
        int64_t pick = ev_int_at(ix->dtype, ix->data, x);
        pick = NF_MAX((int64_t)0, NF_MIN(pick, in->dims[dim] - 1));
        memcpy((char *)c->out[0]->a.data + (size_t)o++ * w, (const char *)in->data + (s + pick * is[dim]) * (int64_t)w, w);
    } while (ev_next_index(rank, dims, index));
    return NF_OK;
}
