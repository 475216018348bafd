/* Operations of the table: elementwise ones, constants, and moving data. Attributes come from the IR, the work is done by kernels. */
#include "pipeline/hlo/eval_internal.h"

#include "runtime/random.h"

#include <stdlib.h>

static struct ev_ints ints_of(struct hlo_ints v) { return (struct ev_ints){v.v, v.n}; }

/* ---- elementwise ---- */

int hlo_e_elementwise(struct ev_ctx *c, struct nf_error *err)
{
    enum ev_op e = ev_op_of(c->op);
    enum nf_dtype first = c->in[0]->a.dtype;
    ev_kernel fn = e == EV_NONE ? NULL : ev_kernel_find(e, ev_op_dtype(c->op, e, first));
    if (!fn)
        return ev_fail(c, err, NF_EUNSUPPORTED, "is not defined for elements %s", nf_dtype_name(first));
    if (c->n_in > 1 && (!rt_array_same_shape(&c->in[0]->a, &c->in[1]->a) || c->in[1]->a.dtype != first))
        return ev_fail(c, err, NF_EGRAPH, "operands have different shapes at run time");
    uint32_t like = c->n_in > 1 && !ev_steal(c, 0) && ev_steal(c, 1) ? 1 : 0;
    int rc = ev_out_like(c, 0, like, err);
    if (rc)
        return rc;
    fn(ev_count(c->in[0]), c->out[0]->a.data, c->in[0]->a.data, c->n_in > 1 ? c->in[1]->a.data : NULL);
    return NF_OK;
}

int hlo_e_convert(struct ev_ctx *c, struct nf_error *err)
{
    enum nf_dtype from = c->in[0]->a.dtype;
    int rc = ev_out_like(c, 0, 0, err);
    if (!rc)
        ev_convert(ev_count(c->out[0]), c->out[0]->a.dtype, c->out[0]->a.data, from, c->in[0]->a.data);
    return rc;
}

int hlo_e_reduce_precision(struct ev_ctx *c, struct nf_error *err)
{
    int rc = ev_out_like(c, 0, 0, err);
    if (!rc)
        ev_reduce_precision(ev_count(c->in[0]), c->in[0]->a.dtype, (int)hlo_op_i64(c->op, HLO_A_exponent_bits, 8),
            (int)hlo_op_i64(c->op, HLO_A_mantissa_bits, 23), c->out[0]->a.data, c->in[0]->a.data);
    return rc;
}

int hlo_e_select(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *p = &c->in[0]->a;
    if (!rt_array_same_shape(&c->in[1]->a, &c->in[2]->a) || (p->rank && !rt_array_same_shape(p, &c->in[1]->a)))
        return ev_fail(c, err, NF_EGRAPH, "operands have different shapes at run time");
    int rc = ev_out_like(c, 0, ev_steal(c, 2) && !ev_steal(c, 1) ? 2 : 1, err);
    if (!rc)
        ev_select(ev_count(c->in[1]), nf_dtype_bytes(c->in[1]->a.dtype), c->out[0]->a.data, p->data, p->rank ? 1 : 0, c->in[1]->a.data, c->in[2]->a.data);
    return rc;
}

int hlo_e_clamp(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *x = &c->in[1]->a;
    ev_kernel max = ev_kernel_find(EV_MAX, x->dtype), min = ev_kernel_find(EV_MIN, x->dtype);
    if (!max || !min)
        return ev_fail(c, err, NF_EUNSUPPORTED, "is not defined for elements %s", nf_dtype_name(x->dtype));
    int64_t n = ev_count(c->in[1]);
    size_t w = nf_dtype_bytes(x->dtype);
    for (uint32_t k = 0; k < 3; k += 2)
        if (c->in[k]->a.rank && !rt_array_same_shape(&c->in[k]->a, x))
            return ev_fail(c, err, NF_EGRAPH, "operands have different shapes at run time");
    int rc = ev_out_like(c, 0, 1, err);
    if (rc)
        return rc;
    _Alignas(16) char lo[EV_CHUNK * 16], hi[EV_CHUNK * 16];
    bool lo1 = c->in[0]->a.rank == 0, hi1 = c->in[2]->a.rank == 0;
    if (lo1)
        ev_fill(EV_CHUNK, w, lo, c->in[0]->a.data);
    if (hi1)
        ev_fill(EV_CHUNK, w, hi, c->in[2]->a.data);
    for (int64_t at = 0; at < n; at += EV_CHUNK) {
        int64_t m = NF_MIN((int64_t)EV_CHUNK, n - at);
        size_t off = (size_t)at * w;
        char *o = (char *)c->out[0]->a.data + off;
        max(m, o, (char *)x->data + off, lo1 ? lo : (char *)c->in[0]->a.data + off);
        min(m, o, o, hi1 ? hi : (char *)c->in[2]->a.data + off);
    }
    return NF_OK;
}

int hlo_e_bitcast_convert(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a;
    enum nf_dtype to = ev_out_dtype(c, 0);
    unsigned bi = nf_dtype_bits(in->dtype), bo = nf_dtype_bits(to);
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = in->rank;
    memcpy(dims, in->dims, sizeof(dims));
    if (bi > bo) {
        if (rank == RT_ARRAY_RANK_MAX)
            return ev_fail(c, err, NF_EUNSUPPORTED, "result has too many dimensions");
        dims[rank++] = bi / bo;
    } else if (bi < bo) {
        if (rank == 0 || dims[rank - 1] != (int64_t)(bo / bi))
            return ev_fail(c, err, NF_EGRAPH, "the last dimension is not the ratio of the element widths");
        rank--;
    }
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    if (!rc)
        ev_bitcast(to, c->out[0]->a.data, ev_count(c->out[0]), in->dtype, in->data, ev_count(c->in[0]));
    return rc;
}

/* ---- constants ---- */

int hlo_e_constant(struct ev_ctx *c, struct nf_error *err)
{
    if (c->inst->constant) {
        c->out[0] = ev_ref(c->inst->constant);
        return NF_OK;
    }
    const struct hlo_attr *v = hlo_op_attr(c->op, HLO_A_value);
    if (!v)
        return ev_fail(c, err, NF_EGRAPH, "has no value");
    return ev_constant_new(c->f->proc->run, v, &c->out[0], err);
}

int hlo_e_iota(struct ev_ctx *c, struct nf_error *err)
{
    int rc = ev_out_new(c, 0, err);
    if (!rc)
        ev_iota(&c->out[0]->a, hlo_op_i64(c->op, HLO_A_iota_dimension, 0));
    return rc;
}

/* ---- shapes known before ---- */

int hlo_e_broadcast_in_dim(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints map = hlo_op_i64s(c->op, HLO_A_broadcast_dimensions);
    int rc = ev_out_new(c, 0, err);
    for (int i = 0; i < c->in[0]->a.rank && !rc; i++)
        if (c->in[0]->a.dims[i] != 1 && c->in[0]->a.dims[i] != c->out[0]->a.dims[map.v[i]])
            rc = ev_fail(c, err, NF_EGRAPH, "dimension %d cannot be broadcast at run time", i);
    if (!rc)
        ev_broadcast(&c->in[0]->a, map.v, &c->out[0]->a);
    return rc;
}

/* Result 0: the same elements under another shape. */
static int reshaped(struct ev_ctx *c, int rank, const int64_t *dims, struct nf_error *err)
{
    if (rt_shape_count(c->in[0]->a.dtype, rank, dims) != ev_count(c->in[0]))
        return ev_fail(c, err, NF_EGRAPH, "the result does not have as many elements as the operand at run time");
    if (ev_take(c, 0, 0)) {
        c->out[0]->a.rank = rank;
        memmove(c->out[0]->a.dims, dims, (size_t)rank * sizeof(*dims));
        return NF_OK;
    }
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    if (!rc && c->in[0]->a.bytes)
        memcpy(c->out[0]->a.data, c->in[0]->a.data, c->in[0]->a.bytes);
    return rc;
}

int hlo_e_reshape(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_type *t = c->op->results[0].type;
    int64_t dims[RT_ARRAY_RANK_MAX], known = 1, open = -1, n = ev_count(c->in[0]);
    if (t->rank > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "result has more than %d dimensions", RT_ARRAY_RANK_MAX);
    for (uint32_t i = 0; i < t->rank; i++) {
        dims[i] = t->dims[i];
        if (dims[i] != HLO_DYNAMIC)
            known *= dims[i];
        else if (open >= 0)
            return ev_fail(c, err, NF_EUNSUPPORTED, "result has more than one dynamic dimension");
        else
            open = i;
    }
    if (open >= 0)
        dims[open] = known ? n / known : 0;
    return reshaped(c, (int)t->rank, dims, err);
}

int hlo_e_transpose(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints perm = hlo_op_i64s(c->op, HLO_A_permutation);
    int64_t dims[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < c->in[0]->a.rank; i++)
        dims[i] = c->in[0]->a.dims[perm.v[i]];
    int rc = ev_out_shaped(c, 0, c->in[0]->a.rank, dims, err);
    if (!rc)
        ev_transpose(&c->in[0]->a, perm.v, &c->out[0]->a);
    return rc;
}

int hlo_e_reverse(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints d = hlo_op_i64s(c->op, HLO_A_dimensions);
    int rc = ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    if (!rc)
        ev_reverse(&c->in[0]->a, d.v, d.n, &c->out[0]->a);
    return rc;
}

int hlo_e_concatenate(struct ev_ctx *c, struct nf_error *err)
{
    int64_t d = hlo_op_i64(c->op, HLO_A_dimension, 0), dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
    const struct rt_array *first = &c->in[0]->a;
    memcpy(dims, first->dims, sizeof(dims));
    dims[d] = 0;
    for (uint32_t i = 0; i < c->n_in; i++) {
        for (int k = 0; k < first->rank; k++)
            if (k != d && c->in[i]->a.dims[k] != dims[k])
                return ev_fail(c, err, NF_EGRAPH, "operands do not fit together at run time");
        dims[d] += c->in[i]->a.dims[d];
    }
    int rc = ev_out_shaped(c, 0, first->rank, dims, err);
    for (uint32_t i = 0; i < c->n_in && !rc; i++) {
        ev_update(&c->out[0]->a, start, &c->in[i]->a);
        start[d] += c->in[i]->a.dims[d];
    }
    return rc;
}

static int sliced(struct ev_ctx *c, const int64_t *start, const int64_t *limit, const int64_t *stride, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a;
    int64_t dims[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < in->rank; i++) {
        if (start[i] < 0 || start[i] > limit[i] || limit[i] > in->dims[i] || stride[i] < 1)
            return ev_fail(c, err, NF_EGRAPH, "slice %lld:%lld:%lld does not fit dimension %d of size %lld", (long long)start[i], (long long)limit[i],
                (long long)stride[i], i, (long long)in->dims[i]);
        dims[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
    }
    int rc = ev_out_shaped(c, 0, in->rank, dims, err);
    if (!rc)
        ev_slice(in, start, stride, &c->out[0]->a);
    return rc;
}

int hlo_e_slice(struct ev_ctx *c, struct nf_error *err)
{
    return sliced(c, hlo_op_i64s(c->op, HLO_A_start_indices).v, hlo_op_i64s(c->op, HLO_A_limit_indices).v, hlo_op_i64s(c->op, HLO_A_strides).v, err);
}

static int64_t clamp_start(int64_t start, int64_t size, int64_t slice)
{
    return NF_MAX((int64_t)0, NF_MIN(start, size - slice));
}

int hlo_e_dynamic_slice(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints sizes = hlo_op_i64s(c->op, HLO_A_slice_sizes);
    const struct rt_array *in = &c->in[0]->a;
    int64_t start[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < in->rank; i++) {
        if (sizes.v[i] > in->dims[i])
            return ev_fail(c, err, NF_EGRAPH, "the slice is larger than the operand at run time");
        start[i] = clamp_start(ev_int_at(c->in[i + 1]->a.dtype, c->in[i + 1]->a.data, 0), in->dims[i], sizes.v[i]);
    }
    int rc = ev_out_shaped(c, 0, in->rank, sizes.v, err);
    if (!rc)
        ev_slice(in, start, NULL, &c->out[0]->a);
    return rc;
}

int hlo_e_dynamic_update_slice(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a, *up = &c->in[1]->a;
    int64_t start[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < in->rank; i++) {
        if (up->dims[i] > in->dims[i])
            return ev_fail(c, err, NF_EGRAPH, "the update is larger than the operand at run time");
        start[i] = clamp_start(ev_int_at(c->in[i + 2]->a.dtype, c->in[i + 2]->a.data, 0), in->dims[i], up->dims[i]);
    }
    if (!ev_take(c, 0, 0)) {
        int rc = ev_out_shaped(c, 0, in->rank, in->dims, err);
        if (rc)
            return rc;
        if (in->bytes)
            memcpy(c->out[0]->a.data, in->data, in->bytes);
    }
    ev_update(&c->out[0]->a, start, up);
    return NF_OK;
}

static int padded(struct ev_ctx *c, const int64_t *low, const int64_t *high, const int64_t *interior, struct nf_error *err)
{
    const struct rt_array *in = &c->in[0]->a;
    int64_t dims[RT_ARRAY_RANK_MAX];
    for (int i = 0; i < in->rank; i++) {
        int64_t inner, most = (int64_t)1 << 40;
        if (interior[i] < 0 || interior[i] > most || low[i] > most || low[i] < -most || high[i] > most || high[i] < -most ||
            __builtin_mul_overflow(NF_MAX(in->dims[i] - 1, (int64_t)0), interior[i], &inner) || inner > most)
            return ev_fail(c, err, NF_ELIMIT, "padding of dimension %d is out of range", i);
        dims[i] = low[i] + high[i] + in->dims[i] + inner;
        if (dims[i] < 0)
            return ev_fail(c, err, NF_EGRAPH, "padding makes dimension %d negative", i);
    }
    int rc = ev_out_shaped(c, 0, in->rank, dims, err);
    if (!rc)
        ev_pad(in, c->in[1]->a.data, low, interior, &c->out[0]->a);
    return rc;
}

int hlo_e_pad(struct ev_ctx *c, struct nf_error *err)
{
    return padded(c, hlo_op_i64s(c->op, HLO_A_edge_padding_low).v, hlo_op_i64s(c->op, HLO_A_edge_padding_high).v,
        hlo_op_i64s(c->op, HLO_A_interior_padding).v, err);
}

static int gathered(struct ev_ctx *c, const int64_t *sizes, struct nf_error *err)
{
    const struct hlo_gather *n = hlo_op_attr(c->op, HLO_A_dimension_numbers)->gather;
    const struct rt_array *in = &c->in[0]->a, *ix = &c->in[1]->a;
    struct ev_gather g = {.offset_dims = ints_of(n->offset_dims), .collapsed = ints_of(n->collapsed_slice_dims),
        .operand_batching = ints_of(n->operand_batching_dims), .indices_batching = ints_of(n->start_indices_batching_dims),
        .index_map = ints_of(n->start_index_map), .index_vector_dim = n->index_vector_dim, .slice_sizes = sizes};
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = 0, next_box = 0, next_batch = 0, total = 0;
    for (int d = 0; d < in->rank; d++) {
        if (sizes[d] < 0 || sizes[d] > in->dims[d])
            return ev_fail(c, err, NF_EGRAPH, "slice size %lld does not fit dimension %d", (long long)sizes[d], d);
        total += !ev_ints_has(g.collapsed, d) && !ev_ints_has(g.operand_batching, d);
    }
    total += ix->rank - (g.index_vector_dim < ix->rank);
    if (total > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "result has more than %d dimensions", RT_ARRAY_RANK_MAX);
    for (; rank < total; rank++) {
        if (ev_ints_has(g.offset_dims, rank)) {
            while (ev_ints_has(g.collapsed, next_box) || ev_ints_has(g.operand_batching, next_box))
                next_box++;
            dims[rank] = sizes[next_box++];
        } else {
            next_batch += next_batch == g.index_vector_dim;
            dims[rank] = ix->dims[next_batch++];
        }
    }
    if (g.index_vector_dim < ix->rank ? ix->dims[g.index_vector_dim] != (int64_t)g.index_map.n : g.index_map.n > 1)
        return ev_fail(c, err, NF_EGRAPH, "index vectors do not have %zu elements at run time", g.index_map.n);
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    if (!rc)
        ev_gather(in, ix, &g, &c->out[0]->a);
    return rc;
}

int hlo_e_gather(struct ev_ctx *c, struct nf_error *err) { return gathered(c, hlo_op_i64s(c->op, HLO_A_slice_sizes).v, err); }

int hlo_e_get_dimension_size(struct ev_ctx *c, struct nf_error *err)
{
    int32_t size = (int32_t)c->in[0]->a.dims[hlo_op_i64(c->op, HLO_A_dimension, 0)];
    int rc = ev_out_new(c, 0, err);
    if (!rc)
        ev_convert(1, c->out[0]->a.dtype, c->out[0]->a.data, NF_DT_S32, &size);
    return rc;
}

/* Sets the run-time size of a (bounded) dimension: the front part of the operand. */
int hlo_e_set_dimension_size(struct ev_ctx *c, struct nf_error *err)
{
    int64_t d = hlo_op_i64(c->op, HLO_A_dimension, 0), dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
    memcpy(dims, c->in[0]->a.dims, sizeof(dims));
    int64_t size = ev_int_at(c->in[1]->a.dtype, c->in[1]->a.data, 0);
    if (size < 0 || size > dims[d])
        return ev_fail(c, err, NF_EGRAPH, "size %lld does not fit dimension %lld", (long long)size, (long long)d);
    dims[d] = size;
    int rc = ev_out_shaped(c, 0, c->in[0]->a.rank, dims, err);
    if (!rc)
        ev_slice(&c->in[0]->a, start, NULL, &c->out[0]->a);
    return rc;
}

/* ---- shapes given at run time ---- */

static int shape_operand(struct ev_ctx *c, uint32_t k, int64_t *ret, int *ret_n, struct nf_error *err)
{
    const struct rt_array *s = &c->in[k]->a;
    int64_t n = rt_array_count(s);
    if (n > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "a shape has more than %d dimensions", RT_ARRAY_RANK_MAX);
    for (int64_t i = 0; i < n; i++)
        ret[i] = ev_int_at(s->dtype, s->data, i);
    *ret_n = (int)n;
    return NF_OK;
}

static int shape_of_result(struct ev_ctx *c, uint32_t k, int64_t *dims, int *rank, struct nf_error *err)
{
    int rc = shape_operand(c, k, dims, rank, err);
    const struct hlo_type *t = c->op->results[0].type;
    for (int i = 0; i < *rank && !rc; i++)
        if (dims[i] < 0 || (t->kind == HLO_TYPE_TENSOR && (uint32_t)*rank == t->rank && t->dims[i] != HLO_DYNAMIC && t->dims[i] != dims[i]))
            rc = ev_fail(c, err, NF_EGRAPH, "dimension %d of the result's shape is %lld at run time", i, (long long)dims[i]);
    return rc;
}

int hlo_e_dynamic_iota(struct ev_ctx *c, struct nf_error *err)
{
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = 0, rc = shape_of_result(c, 0, dims, &rank, err);
    if (!rc && !(rc = ev_out_shaped(c, 0, rank, dims, err)))
        ev_iota(&c->out[0]->a, hlo_op_i64(c->op, HLO_A_iota_dimension, 0));
    return rc;
}

int hlo_e_dynamic_reshape(struct ev_ctx *c, struct nf_error *err)
{
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = 0, rc = shape_of_result(c, 1, dims, &rank, err);
    return rc ? rc : reshaped(c, rank, dims, err);
}

int hlo_e_dynamic_broadcast_in_dim(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints map = hlo_op_i64s(c->op, HLO_A_broadcast_dimensions);
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = 0, rc = shape_of_result(c, 1, dims, &rank, err);
    for (int i = 0; i < c->in[0]->a.rank && !rc; i++)
        if (map.v[i] >= rank || (c->in[0]->a.dims[i] != 1 && c->in[0]->a.dims[i] != dims[map.v[i]]))
            rc = ev_fail(c, err, NF_EGRAPH, "dimension %d cannot be broadcast at run time", i);
    if (!rc && !(rc = ev_out_shaped(c, 0, rank, dims, err)))
        ev_broadcast(&c->in[0]->a, map.v, &c->out[0]->a);
    return rc;
}

int hlo_e_dynamic_pad(struct ev_ctx *c, struct nf_error *err)
{
    int64_t v[3][RT_ARRAY_RANK_MAX];
    for (uint32_t i = 0; i < 3; i++) {
        int n = 0, rc = shape_operand(c, i + 2, v[i], &n, err);
        if (rc || n != c->in[0]->a.rank)
            return rc ? rc : ev_fail(c, err, NF_EGRAPH, "padding does not have the operand's rank");
    }
    return padded(c, v[0], v[1], v[2], err);
}

int hlo_e_real_dynamic_slice(struct ev_ctx *c, struct nf_error *err)
{
    int64_t v[3][RT_ARRAY_RANK_MAX];
    for (uint32_t i = 0; i < 3; i++) {
        int n = 0, rc = shape_operand(c, i + 1, v[i], &n, err);
        if (rc || n != c->in[0]->a.rank)
            return rc ? rc : ev_fail(c, err, NF_EGRAPH, "indices do not have the operand's rank");
    }
    return sliced(c, v[0], v[1], v[2], err);
}

int hlo_e_dynamic_gather(struct ev_ctx *c, struct nf_error *err)
{
    int64_t sizes[RT_ARRAY_RANK_MAX];
    int n = 0, rc = shape_operand(c, 2, sizes, &n, err);
    if (!rc && n != c->in[0]->a.rank)
        rc = ev_fail(c, err, NF_EGRAPH, "slice sizes do not have the operand's rank");
    return rc ? rc : gathered(c, sizes, err);
}

/* ---- products and transforms ---- */

/* Quantised products: exact sums of (stored - zero point) products in double, scaled, then quantised. The kernels run on doubles. */
static int exact_operand(struct ev_ctx *c, uint32_t k, struct ev_value **ret, struct nf_error *err)
{
    const struct hlo_type *t = c->op->operands[k].value->type;
    if (!hlo_type_is_quant(t)) {
        int rc = ev_array_new(c->f->proc->run, NF_DT_F64, c->in[k]->a.rank, c->in[k]->a.dims, ret, err);
        if (!rc)
            ev_convert(ev_count(c->in[k]), NF_DT_F64, (*ret)->a.data, c->in[k]->a.dtype, c->in[k]->a.data);
        return rc;
    }
    return ev_dequantise(c->f->proc->run, c->in[k], t->quant, NF_DT_F64, ret, err);
}

static bool any_quantised(const struct ev_ctx *c)
{
    for (uint32_t i = 0; i < c->n_in; i++)
        if (hlo_type_is_quant(c->op->operands[i].value->type))
            return true;
    return hlo_type_is_quant(c->op->results[0].type);
}

static int finish_exact(struct ev_ctx *c, struct ev_value *sum, struct nf_error *err)
{
    const struct hlo_type *t = c->op->results[0].type;
    if (hlo_type_is_quant(t))
        return ev_quantise(c->f->proc->run, sum, t->quant, &c->out[0], err);
    int rc = ev_out_shaped(c, 0, sum->a.rank, sum->a.dims, err);
    if (!rc)
        ev_convert(ev_count(sum), c->out[0]->a.dtype, c->out[0]->a.data, NF_DT_F64, sum->a.data);
    return rc;
}

int hlo_e_dot_general(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_dot *n = hlo_op_attr(c->op, HLO_A_dot_dimension_numbers)->dot;
    struct ev_dot d = {ints_of(n->lhs_batching), ints_of(n->rhs_batching), ints_of(n->lhs_contracting), ints_of(n->rhs_contracting),
        c->f->proc->run->eval->options.round_each_step};
    const struct rt_array *l = &c->in[0]->a, *r = &c->in[1]->a;
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = 0;
    for (size_t i = 0; i < d.lhs_contracting.n; i++)
        if (l->dims[d.lhs_contracting.v[i]] != r->dims[d.rhs_contracting.v[i]])
            return ev_fail(c, err, NF_EGRAPH, "contracting dimensions differ at run time");
    if (l->rank + r->rank > 2 * RT_ARRAY_RANK_MAX || (size_t)(l->rank + r->rank) - d.lhs_batching.n - 2 * d.lhs_contracting.n > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "result has more than %d dimensions", RT_ARRAY_RANK_MAX);
    for (size_t i = 0; i < d.lhs_batching.n; i++) {
        if (l->dims[d.lhs_batching.v[i]] != r->dims[d.rhs_batching.v[i]])
            return ev_fail(c, err, NF_EGRAPH, "batching dimensions differ at run time");
        dims[rank++] = l->dims[d.lhs_batching.v[i]];
    }
    for (int i = 0; i < l->rank; i++)
        if (!ev_ints_has(d.lhs_batching, i) && !ev_ints_has(d.lhs_contracting, i))
            dims[rank++] = l->dims[i];
    for (int i = 0; i < r->rank; i++)
        if (!ev_ints_has(d.rhs_batching, i) && !ev_ints_has(d.rhs_contracting, i))
            dims[rank++] = r->dims[i];
    if (any_quantised(c)) {
        struct ev_value *a = NULL, *b = NULL, *s = NULL;
        int rc = exact_operand(c, 0, &a, err);
        rc = rc ? rc : exact_operand(c, 1, &b, err);
        rc = rc ? rc : ev_array_new(c->f->proc->run, NF_DT_F64, rank, dims, &s, err);
        rc = rc ? rc : ev_dot(&a->a, &b->a, &d, &s->a, err);
        rc = rc ? rc : finish_exact(c, s, err);
        ev_unref(a);
        ev_unref(b);
        ev_unref(s);
        return rc;
    }
    int rc = ev_out_shaped(c, 0, rank, dims, err);
    return rc ? rc : ev_dot(l, r, &d, &c->out[0]->a, err);
}

/* pad: pairs low, high of each spatial dimension; NULL: none. */
static int convolved(struct ev_ctx *c, const int64_t *pad, struct nf_error *err)
{
    const struct hlo_conv *n = hlo_op_attr(c->op, HLO_A_dimension_numbers)->conv;
    int sp = (int)n->input_spatial.n;
    int64_t ones[RT_ARRAY_RANK_MAX], low[RT_ARRAY_RANK_MAX] = {0}, dims[RT_ARRAY_RANK_MAX];
    bool reversal[RT_ARRAY_RANK_MAX] = {false};
    for (int i = 0; i < RT_ARRAY_RANK_MAX; i++)
        ones[i] = 1;
    struct hlo_ints strides = hlo_op_i64s(c->op, HLO_A_window_strides), ld = hlo_op_i64s(c->op, HLO_A_lhs_dilation), rd = hlo_op_i64s(c->op, HLO_A_rhs_dilation),
                    rev = hlo_op_i64s(c->op, HLO_A_window_reversal);
    struct ev_conv v = {.input_batch = n->input_batch, .input_feature = n->input_feature, .kernel_input_feature = n->kernel_input_feature,
        .kernel_output_feature = n->kernel_output_feature, .output_batch = n->output_batch, .output_feature = n->output_feature,
        .input_spatial = ints_of(n->input_spatial), .kernel_spatial = ints_of(n->kernel_spatial), .output_spatial = ints_of(n->output_spatial),
        .strides = strides.n ? strides.v : ones, .pad_low = low, .lhs_dilation = ld.n ? ld.v : ones, .rhs_dilation = rd.n ? rd.v : ones,
        .reversal = reversal, .feature_groups = hlo_op_i64(c->op, HLO_A_feature_group_count, 1),
        .batch_groups = hlo_op_i64(c->op, HLO_A_batch_group_count, 1), .round_each_step = c->f->proc->run->eval->options.round_each_step};
    for (size_t i = 0; i < rev.n && i < (size_t)sp; i++)
        reversal[i] = rev.v[i] != 0;
    const struct rt_array *l = &c->in[0]->a, *r = &c->in[1]->a;
    int64_t groups = v.feature_groups < 1 || v.batch_groups < 1 || v.feature_groups > 1 << 30 || v.batch_groups > 1 << 30 ? 0 : v.feature_groups * v.batch_groups;
    if (!groups || r->dims[v.kernel_output_feature] % groups || l->dims[v.input_batch] % v.batch_groups ||
        l->dims[v.input_feature] != r->dims[v.kernel_input_feature] * v.feature_groups)
        return ev_fail(c, err, NF_EGRAPH, "features, batch and groups do not fit together at run time");
    dims[v.output_batch] = l->dims[v.input_batch] / v.batch_groups;
    dims[v.output_feature] = r->dims[v.kernel_output_feature];
    for (int i = 0; i < sp; i++) {
        int64_t size = l->dims[n->input_spatial.v[i]], window = r->dims[n->kernel_spatial.v[i]], high = pad ? pad[2 * i + 1] : 0, limit = (int64_t)1 << 40;
        low[i] = pad ? pad[2 * i] : 0;
        if (low[i] < -limit || low[i] > limit || high < -limit || high > limit || v.lhs_dilation[i] > limit || v.rhs_dilation[i] > limit || size > limit ||
            window > limit)
            return ev_fail(c, err, NF_ELIMIT, "window dimension %d is out of range", i);
        int64_t dil_in, dil_win;
        if (__builtin_mul_overflow(size - 1, v.lhs_dilation[i], &dil_in) || __builtin_mul_overflow(window - 1, v.rhs_dilation[i], &dil_win) ||
            dil_in > limit || dil_win > limit)
            return ev_fail(c, err, NF_ELIMIT, "window dimension %d is out of range", i);
        int64_t padded_size = low[i] + high + (size ? dil_in + 1 : 0), reach = window ? dil_win + 1 : 0;
        dims[n->output_spatial.v[i]] = padded_size < reach || !padded_size ? 0 : (padded_size - reach) / v.strides[i] + 1;
    }
    if (any_quantised(c)) {
        struct ev_value *a = NULL, *b = NULL, *s = NULL;
        int rc = exact_operand(c, 0, &a, err);
        rc = rc ? rc : exact_operand(c, 1, &b, err);
        rc = rc ? rc : ev_array_new(c->f->proc->run, NF_DT_F64, l->rank, dims, &s, err);
        rc = rc ? rc : ev_convolution(&a->a, &b->a, &v, &s->a, err);
        rc = rc ? rc : finish_exact(c, s, err);
        ev_unref(a);
        ev_unref(b);
        ev_unref(s);
        return rc;
    }
    int rc = ev_out_shaped(c, 0, l->rank, dims, err);
    return rc ? rc : ev_convolution(l, r, &v, &c->out[0]->a, err);
}

int hlo_e_convolution(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_attr *p = hlo_op_attr(c->op, HLO_A_padding);
    int64_t pad[2 * RT_ARRAY_RANK_MAX];
    size_t n = 0;
    if (p && (!hlo_attr_dense_ints(p, NF_ARRAY_LEN(pad), pad, &n) || n != 2 * hlo_op_attr(c->op, HLO_A_dimension_numbers)->conv->input_spatial.n))
        return ev_fail(c, err, NF_EGRAPH, "padding is not a list of integers");
    return convolved(c, p ? pad : NULL, err);
}

int hlo_e_dynamic_conv(struct ev_ctx *c, struct nf_error *err)
{
    int64_t pad[RT_ARRAY_RANK_MAX];
    int n = 0, rc = shape_operand(c, 2, pad, &n, err);
    if (!rc && (size_t)n != 2 * hlo_op_attr(c->op, HLO_A_dimension_numbers)->conv->input_spatial.n)
        rc = ev_fail(c, err, NF_EGRAPH, "padding does not have a pair for each spatial dimension");
    return rc ? rc : convolved(c, pad, err);
}

int hlo_e_fft(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_ints len = hlo_op_i64s(c->op, HLO_A_fft_length);
    int rc = ev_out_new(c, 0, err);
    return rc ? rc : ev_fft(&c->in[0]->a, (enum ev_fft_kind)hlo_op_enum(c->op, HLO_A_fft_type, HLO_FFT), len.v, len.n, &c->out[0]->a, err);
}

int hlo_e_cholesky(struct ev_ctx *c, struct nf_error *err)
{
    const struct rt_array *a = &c->in[0]->a;
    if (a->rank < 2 || a->dims[a->rank - 1] != a->dims[a->rank - 2])
        return ev_fail(c, err, NF_EGRAPH, "the matrix is not square at run time");
    int rc = ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    return rc ? rc : ev_cholesky(&c->in[0]->a, hlo_op_bool(c->op, HLO_A_lower, false), &c->out[0]->a, err);
}

int hlo_e_triangular_solve(struct ev_ctx *c, struct nf_error *err)
{
    int64_t t = hlo_op_enum(c->op, HLO_A_transpose_a, HLO_NO_TRANSPOSE);
    struct ev_trsm s = {hlo_op_bool(c->op, HLO_A_left_side, true), hlo_op_bool(c->op, HLO_A_lower, true), hlo_op_bool(c->op, HLO_A_unit_diagonal, false),
        t == HLO_TRANSPOSE ? 1 : t == HLO_ADJOINT ? 2 : 0};
    if (!ev_trsm_fits(&c->in[0]->a, &c->in[1]->a, s.left))
        return ev_fail(c, err, NF_EGRAPH, "the matrices do not fit together at run time");
    int rc = ev_out_shaped(c, 0, c->in[1]->a.rank, c->in[1]->a.dims, err);
    return rc ? rc : ev_triangular_solve(&c->in[0]->a, &c->in[1]->a, &s, &c->out[0]->a, err);
}

int hlo_e_rng_bit_generator(struct ev_ctx *c, struct nf_error *err)
{
    int64_t a = hlo_op_enum(c->op, HLO_A_rng_algorithm, HLO_RNG_DEFAULT);
    int rc = ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    rc = rc ? rc : ev_out_new(c, 1, err);
    return rc ? rc : ev_rng_bits(a == HLO_RNG_THREE_FRY ? EV_RNG_THREE_FRY : EV_RNG_PHILOX, &c->in[0]->a, &c->out[0]->a, &c->out[1]->a, err);
}

int hlo_e_rng(struct ev_ctx *c, struct nf_error *err)
{
    int64_t dims[RT_ARRAY_RANK_MAX];
    int rank = 0, rc = shape_of_result(c, 2, dims, &rank, err);
    rc = rc ? rc : ev_out_shaped(c, 0, rank, dims, err);
    if (!rc) {
        uint64_t seed = rt_random_seed(c->f->proc->draws++, c->f->proc->id);
        ev_rng_fill(seed, hlo_op_enum(c->op, HLO_A_rng_distribution, HLO_RNG_INVALID) == 2, c->in[0]->a.data, c->in[1]->a.data, &c->out[0]->a);
    }
    return rc;
}
