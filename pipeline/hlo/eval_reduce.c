/* Operations with a scalar region over many elements: reduce, reduce_window, select_and_scatter, scatter, map, sort.
 *
 * Orders are those of the specification: an accumulator meets the elements in row-major order, updates are applied in row-major order.
 * Where neighbouring elements belong to different accumulators, one call of the body serves a run of them. */
#include "pipeline/hlo/eval_internal.h"

#include <stdlib.h>

#define MAX_OPERANDS 30

/* acc[0..n) = body(acc, x) for each operand's own pointers. */
static int apply_run(struct ev_body *b, uint32_t k, int64_t n, char *const *acc, const char *const *x, const size_t *w, struct nf_error *err)
{
    if (b->simple != EV_NONE) {
        ev_kernel_find(b->simple, b->simple_type)(n, acc[0], acc[0], x[0]);
        return NF_OK;
    }
    const void *args[2 * MAX_OPERANDS];
    void *res[MAX_OPERANDS];
    for (int64_t at = 0; at < n; at += EV_CHUNK) {
        int64_t m = NF_MIN((int64_t)EV_CHUNK, n - at);
        for (uint32_t i = 0; i < k; i++) {
            args[i] = res[i] = acc[i] + (size_t)at * w[i];
            args[k + i] = x[i] + (size_t)at * w[i];
        }
        int rc = ev_body_call(b, m, args, res, err);
        if (rc)
            return rc;
    }
    return NF_OK;
}

static int same_shapes(struct ev_ctx *c, uint32_t k, struct nf_error *err)
{
    for (uint32_t i = 1; i < k; i++)
        if (!rt_array_same_shape(&c->in[0]->a, &c->in[i]->a))
            return ev_fail(c, err, NF_EGRAPH, "inputs have different shapes at run time");
    return NF_OK;
}

int hlo_e_reduce(struct ev_ctx *c, struct nf_error *err)
{
    uint32_t k = c->n_in / 2;
    struct hlo_ints rd = hlo_op_i64s(c->op, HLO_A_dimensions);
    struct ev_ints reduced = {rd.v, rd.n};
    if (k == 0 || k > MAX_OPERANDS)
        return ev_fail(c, err, NF_EUNSUPPORTED, "%u inputs", k);
    int rc = same_shapes(c, k, err);
    if (rc)
        return rc;
    const struct rt_array *in = &c->in[0]->a;
    int64_t dims[RT_ARRAY_RANK_MAX], out_strides[RT_ARRAY_RANK_MAX], in_strides[RT_ARRAY_RANK_MAX];
    int rank = 0;
    for (int d = 0; d < in->rank; d++)
        if (!ev_ints_has(reduced, d))
            dims[rank++] = in->dims[d];
    size_t w[MAX_OPERANDS];
    for (uint32_t i = 0; i < k; i++) {
        if ((rc = ev_out_shaped(c, i, rank, dims, err)))
            return rc;
        w[i] = nf_dtype_bytes(c->in[i]->a.dtype);
        if (c->in[k + i]->a.dtype != c->in[i]->a.dtype || c->out[i]->a.dtype != c->in[i]->a.dtype)
            return ev_fail(c, err, NF_EUNSUPPORTED, "input, initial value and result have different element types");
        ev_fill(ev_count(c->out[i]), w[i], c->out[i]->a.data, c->in[k + i]->a.data);
    }
    if (ev_count(c->in[0]) == 0)
        return NF_OK;
    struct ev_body b;
    if ((rc = ev_body_init(c, 0, &b, err)))
        return rc;
    ev_fold fold = b.simple != EV_NONE ? ev_fold_find(b.simple, b.simple_type) : NULL;
    if (fold && b.simple_type != in->dtype)
        fold = NULL;
    /* strides of the output along each input dimension; neighbours of one kind are joined */
    ev_strides(in->rank, in->dims, in_strides);
    int64_t s = 1, box[RT_ARRAY_RANK_MAX], os[RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX];
    for (int d = in->rank - 1; d >= 0; d--) {
        bool r = ev_ints_has(reduced, d);
        out_strides[d] = r ? 0 : s;
        s *= r ? 1 : in->dims[d];
    }
    int n = 0;
    for (int d = 0; d < in->rank; d++) {
        if (in->dims[d] == 1)
            continue;
        if (n && os[n - 1] == out_strides[d] * in->dims[d] && (out_strides[d] != 0) == (os[n - 1] != 0)) {
            box[n - 1] *= in->dims[d];
            os[n - 1] = out_strides[d];
            is[n - 1] = in_strides[d];
            continue;
        }
        box[n] = in->dims[d];
        os[n] = out_strides[d];
        is[n] = in_strides[d];
        n++;
    }
    if (n == 0) {
        box[0] = 1;
        os[0] = is[0] = 0;
        n = 1;
    }
    int inner = n - 1;
    int64_t at[RT_ARRAY_RANK_MAX] = {0}, run = box[inner], since = 0;
    do {
        int64_t o = 0, x = 0;
        for (int d = 0; d < inner; d++) {
            o += at[d] * os[d];
            x += at[d] * is[d];
        }
        char *acc[MAX_OPERANDS];
        const char *elem[MAX_OPERANDS];
        for (uint32_t i = 0; i < k; i++) {
            acc[i] = (char *)c->out[i]->a.data + (size_t)o * w[i];
            elem[i] = (const char *)c->in[i]->a.data + (size_t)x * w[i];
        }
        if (os[inner] == 0 && fold && k == 1) {
            fold(run, acc[0], elem[0], 1);
        } else if (os[inner] == 0) {
            for (int64_t j = 0; j < run && !rc; j++) {
                rc = apply_run(&b, k, 1, acc, elem, w, err);
                for (uint32_t i = 0; i < k; i++)
                    elem[i] += w[i];
            }
        } else {
            rc = apply_run(&b, k, run, acc, elem, w, err);
        }
        since += run;
        if (since > 1 << 16) {
            since = 0;
            if (!rc && ev_out_of_time(c->f->proc->run))
                rc = ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
        }
    } while (!rc && ev_next_index(inner, box, at));
    ev_body_done(&b);
    return rc;
}

static const int64_t *or_ones(struct hlo_ints v, const int64_t *ones) { return v.n ? v.v : ones; }

/* Padding pairs of the operation, zeros when absent. */
static int padding_of(struct ev_ctx *c, int rank, int64_t *pad, struct nf_error *err)
{
    const struct hlo_attr *p = hlo_op_attr(c->op, HLO_A_padding);
    size_t n = 0;
    memset(pad, 0, 2 * (size_t)rank * sizeof(*pad));
    if (p && (!hlo_attr_dense_ints(p, 2 * (size_t)rank, pad, &n) || n != 2 * (size_t)rank))
        return ev_fail(c, err, NF_EGRAPH, "padding is not a list of pairs");
    return NF_OK;
}

/* Size of a windowed dimension, or -1 if it is out of range. */
static int64_t windowed(int64_t size, int64_t base_dil, int64_t low, int64_t high, int64_t window, int64_t win_dil, int64_t stride)
{
    int64_t a, b, limit = (int64_t)1 << 40;
    if (low > limit || low < -limit || high > limit || high < -limit || __builtin_mul_overflow(size - 1, base_dil, &a) ||
        __builtin_mul_overflow(window - 1, win_dil, &b) || a > limit || b > limit || stride < 1)
        return -1;
    int64_t padded = low + high + (size ? a + 1 : 0), reach = window ? b + 1 : 0;
    return padded <= 0 || reach > padded ? 0 : (padded - reach) / stride + 1;
}

int hlo_e_reduce_window(struct ev_ctx *c, struct nf_error *err)
{
    uint32_t k = c->n_in / 2;
    if (k == 0 || k > MAX_OPERANDS)
        return ev_fail(c, err, NF_EUNSUPPORTED, "%u inputs", k);
    int rc = same_shapes(c, k, err);
    if (rc)
        return rc;
    const struct rt_array *in = &c->in[0]->a;
    int64_t ones[RT_ARRAY_RANK_MAX], pad[2 * RT_ARRAY_RANK_MAX], dims[RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < RT_ARRAY_RANK_MAX; i++)
        ones[i] = 1;
    const int64_t *win = hlo_op_i64s(c->op, HLO_A_window_dimensions).v, *stride = or_ones(hlo_op_i64s(c->op, HLO_A_window_strides), ones),
                  *base = or_ones(hlo_op_i64s(c->op, HLO_A_base_dilations), ones), *wdil = or_ones(hlo_op_i64s(c->op, HLO_A_window_dilations), ones);
    if ((rc = padding_of(c, in->rank, pad, err)))
        return rc;
    for (int d = 0; d < in->rank; d++) {
        dims[d] = windowed(in->dims[d], base[d], pad[2 * d], pad[2 * d + 1], win[d], wdil[d], stride[d]);
        if (dims[d] < 0)
            return ev_fail(c, err, NF_ELIMIT, "window dimension %d is out of range", d);
    }
    size_t w[MAX_OPERANDS];
    const char *init[MAX_OPERANDS];
    for (uint32_t i = 0; i < k; i++) {
        if ((rc = ev_out_shaped(c, i, in->rank, dims, err)))
            return rc;
        w[i] = nf_dtype_bytes(c->in[i]->a.dtype);
        if (c->in[k + i]->a.dtype != c->in[i]->a.dtype || c->out[i]->a.dtype != c->in[i]->a.dtype)
            return ev_fail(c, err, NF_EUNSUPPORTED, "input, initial value and result have different element types");
        ev_fill(ev_count(c->out[i]), w[i], c->out[i]->a.data, c->in[k + i]->a.data);
    }
    if (c->out[0]->a.bytes == 0)
        return NF_OK;
    struct ev_body b;
    if ((rc = ev_body_init(c, 0, &b, err)))
        return rc;
    if (b.simple != EV_NONE && b.simple_type != in->dtype)
        b.simple = EV_NONE;
    /* trailing dimensions without a window go through the body together */
    int outer = in->rank;
    int64_t run = 1;
    while (outer > 0 && win[outer - 1] == 1 && stride[outer - 1] == 1 && base[outer - 1] == 1 && !pad[2 * outer - 2] && !pad[2 * outer - 1])
        run *= in->dims[--outer];
    char *pads[MAX_OPERANDS] = {0}; /* a run of initial values, for positions in the padding */
    for (uint32_t i = 0; i < k && !rc; i++) {
        if (!(pads[i] = nf_try_alloc((size_t)run * w[i] + 1)))
            rc = ev_fail(c, err, NF_ENOMEM, "no memory for padding");
        else
            ev_fill(run, w[i], pads[i], c->in[k + i]->a.data);
        init[i] = pads[i];
    }
    ev_strides(in->rank, in->dims, is);
    int64_t at[RT_ARRAY_RANK_MAX] = {0}, o = 0, since = 0;
    do {
        int64_t wat[RT_ARRAY_RANK_MAX] = {0};
        char *acc[MAX_OPERANDS];
        for (uint32_t i = 0; i < k; i++)
            acc[i] = (char *)c->out[i]->a.data + (size_t)o * w[i];
        if (rc)
            break;
        do {
            int64_t x = 0;
            bool inside = true;
            for (int d = 0; d < outer && inside; d++) {
                int64_t p = at[d] * stride[d] + wat[d] * wdil[d] - pad[2 * d], q = p / base[d];
                inside = p >= 0 && q * base[d] == p && q < in->dims[d];
                x += q * is[d];
            }
            const char *elem[MAX_OPERANDS];
            for (uint32_t i = 0; i < k; i++)
                elem[i] = inside ? (const char *)c->in[i]->a.data + (size_t)x * w[i] : init[i];
            rc = apply_run(&b, k, run, acc, elem, w, err);
            since += run;
        } while (!rc && ev_next_index(outer, win, wat));
        o += run;
        if (since > 1 << 16) {
            since = 0;
            if (!rc && ev_out_of_time(c->f->proc->run))
                rc = ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
        }
    } while (!rc && ev_next_index(outer, dims, at));
    for (uint32_t i = 0; i < k; i++)
        free(pads[i]);
    ev_body_done(&b);
    return rc;
}

int hlo_e_select_and_scatter(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a, *src = &c->in[1]->a;
    int64_t ones[RT_ARRAY_RANK_MAX], pad[2 * RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < RT_ARRAY_RANK_MAX; i++)
        ones[i] = 1;
    const int64_t *win = or_ones(hlo_op_i64s(c->op, HLO_A_window_dimensions), ones), *stride = or_ones(hlo_op_i64s(c->op, HLO_A_window_strides), ones);
    int rc = padding_of(c, in->rank, pad, err);
    rc = rc ? rc : ev_out_shaped(c, 0, in->rank, in->dims, err);
    if (rc)
        return rc;
    size_t w = nf_dtype_bytes(in->dtype), ws = nf_dtype_bytes(src->dtype);
    if (c->out[0]->a.dtype != src->dtype || c->in[2]->a.dtype != src->dtype || w != ws)
        return ev_fail(c, err, NF_EUNSUPPORTED, "operand, source and result have different element types");
    ev_fill(ev_count(c->out[0]), ws, c->out[0]->a.data, c->in[2]->a.data);
    if (src->bytes == 0 || in->bytes == 0)
        return NF_OK;
    struct ev_body select, scatter;
    if ((rc = ev_body_init(c, 0, &select, err)))
        return rc;
    if ((rc = ev_body_init(c, 1, &scatter, err))) {
        ev_body_done(&select);
        return rc;
    }
    ev_strides(in->rank, in->dims, is);
    int64_t at[RT_ARRAY_RANK_MAX] = {0}, s = 0;
    do {
        int64_t wat[RT_ARRAY_RANK_MAX] = {0}, chosen = -1;
        do {
            int64_t x = 0;
            bool inside = true;
            for (int d = 0; d < in->rank && inside; d++) {
                int64_t p = at[d] * stride[d] + wat[d] - pad[2 * d];
                inside = p >= 0 && p < in->dims[d];
                x += p * is[d];
            }
            if (!inside)
                continue;
            if (chosen < 0) {
                chosen = x;
                continue;
            }
            uint8_t keep = 0;
            const void *args[2] = {(const char *)in->data + (size_t)chosen * w, (const char *)in->data + (size_t)x * w};
            void *res[1] = {&keep};
            rc = ev_body_call(&select, 1, args, res, err);
            if (!keep)
                chosen = x;
        } while (!rc && ev_next_index(in->rank, win, wat));
        if (!rc && chosen >= 0) {
            char *acc = (char *)c->out[0]->a.data + (size_t)chosen * ws;
            const void *args[2] = {acc, (const char *)src->data + (size_t)s * ws};
            void *res[1] = {acc};
            rc = ev_body_call(&scatter, 1, args, res, err);
        }
        s++;
        if (!(s & 0xfff) && !rc && ev_out_of_time(c->f->proc->run))
            rc = ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
    } while (!rc && ev_next_index(src->rank, src->dims, at));
    ev_body_done(&select);
    ev_body_done(&scatter);
    return rc;
}

int hlo_e_scatter(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_scatter *n = hlo_op_attr(c->op, HLO_A_scatter_dimension_numbers)->scatter;
    uint32_t k = (c->n_in - 1) / 2;
    if (k == 0 || k > MAX_OPERANDS || c->n_in != 2 * k + 1)
        return ev_fail(c, err, NF_EUNSUPPORTED, "%u operands", c->n_in);
    const struct rt_array *in = &c->in[0]->a, *ix = &c->in[k]->a, *up = &c->in[k + 1]->a;
    struct ev_ints window = {n->update_window_dims.v, n->update_window_dims.n}, inserted = {n->inserted_window_dims.v, n->inserted_window_dims.n},
                   batching = {n->input_batching_dims.v, n->input_batching_dims.n};
    int rc = same_shapes(c, k, err);
    size_t w[MAX_OPERANDS];
    for (uint32_t i = 0; i < k && !rc; i++) {
        if (!rt_array_same_shape(up, &c->in[k + 1 + i]->a))
            return ev_fail(c, err, NF_EGRAPH, "updates have different shapes at run time");
        w[i] = nf_dtype_bytes(c->in[i]->a.dtype);
        if (c->in[k + 1 + i]->a.dtype != c->in[i]->a.dtype || ev_out_dtype(c, i) != c->in[i]->a.dtype)
            return ev_fail(c, err, NF_EUNSUPPORTED, "input, update and result have different element types");
        if (ev_take(c, i, i))
            continue;
        rc = ev_out_shaped(c, i, in->rank, in->dims, err);
        if (!rc && in->bytes)
            memcpy(c->out[i]->a.data, c->in[i]->a.data, c->in[i]->a.bytes);
    }
    if (rc || up->bytes == 0)
        return rc;
    struct ev_body b;
    if ((rc = ev_body_init(c, 0, &b, err)))
        return rc;
    if (b.simple != EV_NONE && b.simple_type != in->dtype)
        b.simple = EV_NONE;
    int64_t is[RT_ARRAY_RANK_MAX], us[RT_ARRAY_RANK_MAX], xs[RT_ARRAY_RANK_MAX];
    ev_strides(in->rank, in->dims, is);
    ev_strides(up->rank, up->dims, us);
    ev_strides(ix->rank, ix->dims, xs);
    /* update dimensions that walk the indices, and the input dimension of each window dimension */
    int64_t sdims[RT_ARRAY_RANK_MAX] = {0}, sup[RT_ARRAY_RANK_MAX], six[RT_ARRAY_RANK_MAX], saxis[RT_ARRAY_RANK_MAX];
    int64_t wdims[RT_ARRAY_RANK_MAX], wup[RT_ARRAY_RANK_MAX], win[RT_ARRAY_RANK_MAX];
    int ns = 0, nw = 0;
    for (int d = 0; d < ix->rank; d++) {
        if (d == n->index_vector_dim)
            continue;
        six[ns] = xs[d];
        saxis[ns++] = d;
    }
    for (int d = 0, s = 0; d < up->rank; d++) {
        if (ev_ints_has(window, d) || s == ns)
            continue;
        sdims[s] = up->dims[d];
        sup[s++] = us[d];
    }
    for (int d = 0; d < in->rank; d++) {
        if (ev_ints_has(inserted, d) || ev_ints_has(batching, d))
            continue;
        wdims[nw] = up->dims[window.v[nw]];
        wup[nw] = us[window.v[nw]];
        win[nw] = d;
        nw++;
    }
    bool fits_together = n->index_vector_dim < ix->rank ? ix->dims[n->index_vector_dim] == (int64_t)n->scatter_dims_to_operand_dims.n
                                                        : n->scatter_dims_to_operand_dims.n <= 1;
    for (int s = 0; s < ns; s++)
        fits_together = fits_together && sdims[s] == ix->dims[saxis[s]];
    if (!fits_together) {
        ev_body_done(&b);
        return ev_fail(c, err, NF_EGRAPH, "indices and updates do not fit together at run time");
    }
    /* the last window dimension as a run, where elements lie next to each other in both */
    bool runs = nw > 0 && win[nw - 1] == in->rank - 1 && wup[nw - 1] == 1;
    int outer = runs ? nw - 1 : nw;
    int64_t vec = n->index_vector_dim < ix->rank ? xs[n->index_vector_dim] : 0, sat[RT_ARRAY_RANK_MAX] = {0}, since = 0;
    do {
        int64_t start[RT_ARRAY_RANK_MAX] = {0}, u0 = 0, x0 = 0;
        for (int s = 0; s < ns; s++) {
            u0 += sat[s] * sup[s];
            x0 += sat[s] * six[s];
        }
        for (size_t i = 0; i < n->scatter_dims_to_operand_dims.n; i++)
            start[n->scatter_dims_to_operand_dims.v[i]] = ev_int_at(ix->dtype, ix->data, x0 + (int64_t)i * vec);
        for (size_t i = 0; i < batching.n; i++)
            for (int s = 0; s < ns; s++)
                if (saxis[s] == n->scatter_indices_batching_dims.v[i])
                    start[batching.v[i]] = sat[s];
        /* an index outside by more than any window reaches nothing; kept small so that sums cannot overflow */
        bool fits = true;
        for (int d = 0; d < in->rank; d++) {
            fits = fits && start[d] < in->dims[d] && start[d] > -((int64_t)1 << 60);
        }
        int64_t wat[RT_ARRAY_RANK_MAX] = {0};
        if (fits)
            do {
                int64_t pos[RT_ARRAY_RANK_MAX], u = u0, o = 0, lo = 0, hi = 1;
                memcpy(pos, start, (size_t)in->rank * sizeof(*pos));
                for (int i = 0; i < outer; i++) {
                    pos[win[i]] += wat[i];
                    u += wat[i] * wup[i];
                }
                bool inside = true;
                for (int d = 0; d < in->rank; d++) {
                    if (runs && d == in->rank - 1)
                        continue;
                    inside = inside && pos[d] >= 0 && pos[d] < in->dims[d];
                    o += pos[d] * is[d];
                }
                if (runs) {
                    int64_t first = pos[in->rank - 1];
                    lo = first < 0 ? -first : 0;
                    hi = NF_MIN(wdims[nw - 1], in->dims[in->rank - 1] - first);
                    o += first;
                }
                if (!inside || hi <= lo)
                    continue;
                char *acc[MAX_OPERANDS];
                const char *elem[MAX_OPERANDS];
                for (uint32_t i = 0; i < k; i++) {
                    acc[i] = (char *)c->out[i]->a.data + (o + lo) * (int64_t)w[i];
                    elem[i] = (const char *)c->in[k + 1 + i]->a.data + (u + lo) * (int64_t)w[i];
                }
                if (k == 1 && b.returns_arg == 1)
                    memcpy(acc[0], elem[0], (size_t)(hi - lo) * w[0]);
                else
                    rc = apply_run(&b, k, hi - lo, acc, elem, w, err);
                since += hi - lo;
            } while (!rc && ev_next_index(outer, wdims, wat));
        if (since > 1 << 16) {
            since = 0;
            if (!rc && ev_out_of_time(c->f->proc->run))
                rc = ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
        }
    } while (!rc && ev_next_index(ns, sdims, sat));
    ev_body_done(&b);
    return rc;
}

int hlo_e_map(struct ev_ctx *c, struct nf_error *err)
{
    if (c->n_in == 0 || c->n_in > 2 * MAX_OPERANDS)
        return ev_fail(c, err, NF_EUNSUPPORTED, "%u inputs", c->n_in);
    int rc = same_shapes(c, c->n_in, err);
    rc = rc ? rc : ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    struct ev_body b;
    rc = rc ? rc : ev_body_init(c, 0, &b, err);
    if (rc)
        return rc;
    int64_t n = ev_count(c->in[0]);
    size_t wo = nf_dtype_bytes(c->out[0]->a.dtype);
    for (int64_t at = 0; at < n && !rc; at += EV_CHUNK) {
        const void *args[2 * MAX_OPERANDS];
        for (uint32_t i = 0; i < c->n_in; i++)
            args[i] = (const char *)c->in[i]->a.data + (size_t)at * nf_dtype_bytes(c->in[i]->a.dtype);
        void *res[1] = {(char *)c->out[0]->a.data + (size_t)at * wo};
        rc = ev_body_call(&b, NF_MIN((int64_t)EV_CHUNK, n - at), args, res, err);
    }
    ev_body_done(&b);
    return rc;
}

/* ---- sort ---- */

struct sorter {
    struct ev_body body;
    uint32_t k;
    const char *base[MAX_OPERANDS]; /* first element of the line */
    int64_t stride;
    size_t w[MAX_OPERANDS];
    struct nf_error *err;
    int rc;
};

static bool before(struct sorter *s, int64_t i, int64_t j)
{
    const void *args[2 * MAX_OPERANDS];
    uint8_t less = 0;
    void *res[1] = {&less};
    for (uint32_t q = 0; q < s->k; q++) {
        args[2 * q] = s->base[q] + (size_t)(i * s->stride) * s->w[q];
        args[2 * q + 1] = s->base[q] + (size_t)(j * s->stride) * s->w[q];
    }
    if (!s->rc)
        s->rc = ev_body_call(&s->body, 1, args, res, s->err);
    return less;
}

/* Bottom-up merges: stable, and unmoved by a comparator that contradicts itself. The result is in index. */
static void merge_sort(struct sorter *s, int64_t n, int64_t *index, int64_t *tmp)
{
    for (int64_t i = 0; i < n; i++)
        index[i] = i;
    for (int64_t width = 1; width < n && !s->rc; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            int64_t mid = NF_MIN(lo + width, n), hi = NF_MIN(lo + 2 * width, n), a = lo, b = mid, o = lo;
            while (a < mid && b < hi)
                tmp[o++] = before(s, index[b], index[a]) ? index[b++] : index[a++];
            while (a < mid)
                tmp[o++] = index[a++];
            while (b < hi)
                tmp[o++] = index[b++];
        }
        memcpy(index, tmp, (size_t)n * sizeof(*index));
    }
}

int hlo_e_sort(struct ev_ctx *c, struct nf_error *err)
{
    if (c->n_in == 0 || c->n_in > MAX_OPERANDS)
        return ev_fail(c, err, NF_EUNSUPPORTED, "%u inputs", c->n_in);
    int rc = same_shapes(c, c->n_in, err);
    const struct rt_array *in = &c->in[0]->a;
    for (uint32_t i = 0; i < c->n_in && !rc; i++)
        rc = ev_out_shaped(c, i, in->rank, c->in[i]->a.dims, err);
    if (rc)
        return rc;
    int64_t d = hlo_op_i64(c->op, HLO_A_dimension, -1);
    d += d < 0 ? in->rank : 0;
    if (in->rank == 0) {
        for (uint32_t i = 0; i < c->n_in; i++)
            memcpy(c->out[i]->a.data, c->in[i]->a.data, c->in[i]->a.bytes);
        return NF_OK;
    }
    int64_t n = in->dims[d], stride = 1, total = ev_count(c->in[0]);
    for (int i = (int)d + 1; i < in->rank; i++)
        stride *= in->dims[i];
    if (total == 0)
        return NF_OK;
    struct sorter s = {.k = c->n_in, .stride = stride, .err = err};
    if ((rc = ev_body_init(c, 0, &s.body, err)))
        return rc;
    int64_t *index = nf_try_alloc((size_t)n * sizeof(*index)), *tmp = nf_try_alloc((size_t)n * sizeof(*tmp));
    if (!index || !tmp)
        s.rc = ev_fail(c, err, NF_ENOMEM, "no memory to sort %lld elements", (long long)n);
    for (uint32_t q = 0; q < s.k; q++)
        s.w[q] = nf_dtype_bytes(c->in[q]->a.dtype);
    for (int64_t outer = 0; outer < total / (n * stride) && !s.rc; outer++)
        for (int64_t inner = 0; inner < stride && !s.rc; inner++) {
            int64_t first = outer * n * stride + inner;
            for (uint32_t q = 0; q < s.k; q++)
                s.base[q] = (const char *)c->in[q]->a.data + (size_t)first * s.w[q];
            merge_sort(&s, n, index, tmp);
            for (uint32_t q = 0; q < s.k; q++)
                for (int64_t i = 0; i < n; i++)
                    memcpy((char *)c->out[q]->a.data + (size_t)(first + i * stride) * s.w[q], s.base[q] + (size_t)(index[i] * stride) * s.w[q], s.w[q]);
            if (!s.rc && ev_out_of_time(c->f->proc->run))
                s.rc = ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
        }
    free(index);
    free(tmp);
    ev_body_done(&s.body);
    return s.rc;
}
