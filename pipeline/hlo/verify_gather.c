/* verify_gather.c: gather and scatter. */
#include "pipeline/hlo/verify_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)

static bool known(int64_t d) { return d != HLO_DYNAMIC; }
static bool contains(struct hlo_ints v, int64_t x)
{
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] == x)
            return true;
    return false;
}

static int check_unique(struct hlo_verifier *v, const struct hlo_op *op, const char *name, struct hlo_ints x)
{
    if (!hlo__unique(x))
        FAIL("expects %s to not repeat, got: %s", name, hlo__ints_text(v, x));
    return 0;
}

static int check_sorted(struct hlo_verifier *v, const struct hlo_op *op, const char *name, struct hlo_ints x)
{
    if (!hlo__sorted(x))
        FAIL("expects %s to be sorted, got: %s", name, hlo__ints_text(v, x));
    return 0;
}

static int check_apart(struct hlo_verifier *v, const struct hlo_op *op, const char *an, struct hlo_ints a, const char *bn, struct hlo_ints b)
{
    for (size_t i = 0; i < a.n; i++)
        if (contains(b, a.v[i]))
            FAIL("has duplicated dimension from %s and %s: %lld", an, bn, (long long)a.v[i]);
    return 0;
}

static int check_range(struct hlo_verifier *v, const struct hlo_op *op, const char *name, struct hlo_ints x, const char *of, int64_t limit)
{
    for (size_t i = 0; i < x.n; i++)
        if (x.v[i] < 0 || x.v[i] >= limit)
            FAIL("Expects each element of %s to be in range [0, %s) i.e. [0, %lld). got: %lld", name, of, (long long)limit, (long long)x.v[i]);
    return 0;
}

/* Sizes of the index dimensions that are no index vector. */
static uint32_t batch_sizes(const struct hlo_type *indices, int64_t index_vector_dim, int64_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < indices->rank; i++)
        if (i != index_vector_dim)
            out[n++] = indices->dims[i];
    return n;
}

/* Rules that gather and scatter share about batching dimensions. */
static int check_batching(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *t, const struct hlo_type *x, struct hlo_ints operand_dims, const char *operand_name,
                          struct hlo_ints index_dims, const char *index_name, int64_t index_vector_dim, const char *indices)
{
    int rc;
    char of[48];
    nf_format(of, sizeof of, "rank-of('%s')", indices);
    if ((rc = check_unique(v, op, index_name, index_dims)) || (rc = check_range(v, op, index_name, index_dims, of, x->rank)))
        return rc;
    if (contains(index_dims, index_vector_dim))
        FAIL("expects %s not to include index_vector_dim %lld", index_name, (long long)index_vector_dim);
    if (operand_dims.n != index_dims.n)
        FAIL("%s and %s should have the same size, but got %zu and %zu", operand_name, index_name, operand_dims.n, index_dims.n);
    for (size_t i = 0; i < operand_dims.n; i++) {
        int64_t a = t->dims[operand_dims.v[i]], b = x->dims[index_dims.v[i]];
        if (known(a) && known(b) && a != b)
            FAIL("%s[%zu] and %s[%zu] must have compatible sizes, but got %lld and %lld", operand_name, i, index_name, i, (long long)a, (long long)b);
    }
    return 0;
}

/* sizes: NULL for dynamic_gather when they are no constant */
static int infer_gather(struct hlo_verifier *v, const struct hlo_op *op, struct hlo_ints sizes, bool have_sizes, const struct hlo_type **ret)
{
    const struct hlo_type *t = op->operands[0].value->type, *x = op->operands[1].value->type;
    const struct hlo_gather *g = hlo_op_attr(op, HLO_A_dimension_numbers)->gather;
    int rc;
    if (g->index_vector_dim < 0 || g->index_vector_dim > x->rank)
        FAIL("Expects index_vector_dim to be in range [0, rank-of('start_indices')] i.e. [0, %u]. got: %lld", x->rank, (long long)g->index_vector_dim);
    if (g->offset_dims.n + g->collapsed_slice_dims.n + g->operand_batching_dims.n != t->rank)
        FAIL("offset_dims size (%zu) plus collapse_slice_dims size (%zu) plus operand_batching_dims size (%zu) is not equal to operand rank (%u)", g->offset_dims.n,
             g->collapsed_slice_dims.n, g->operand_batching_dims.n, t->rank);
    int64_t index_size = g->index_vector_dim == x->rank ? 1 : x->dims[g->index_vector_dim];
    if (known(index_size) && (int64_t)g->start_index_map.n != index_size)
        FAIL("start_index_map size (%zu) is not equal to size of index dimension (%lld) of start_indices (%lld)", g->start_index_map.n, (long long)g->index_vector_dim,
             (long long)index_size);
    if ((rc = check_range(v, op, "start_index_map", g->start_index_map, "rank-of('operand')", t->rank)) ||
        (rc = check_sorted(v, op, "offset_dims", g->offset_dims)) || (rc = check_unique(v, op, "offset_dims", g->offset_dims)) ||
        (rc = check_apart(v, op, "collapsed_slice_dims", g->collapsed_slice_dims, "operand_batching_dims", g->operand_batching_dims)) ||
        (rc = check_unique(v, op, "collapsed_slice_dims", g->collapsed_slice_dims)) || (rc = check_unique(v, op, "operand_batching_dims", g->operand_batching_dims)) ||
        (rc = check_sorted(v, op, "collapsed_slice_dims", g->collapsed_slice_dims)) ||
        (rc = check_range(v, op, "collapsed_slice_dims", g->collapsed_slice_dims, "rank-of('operand')", t->rank)) ||
        (rc = check_sorted(v, op, "operand_batching_dims", g->operand_batching_dims)) ||
        (rc = check_range(v, op, "operand_batching_dims", g->operand_batching_dims, "rank-of('operand')", t->rank)) ||
        (rc = check_unique(v, op, "start_index_map", g->start_index_map)) ||
        (rc = check_apart(v, op, "start_index_map", g->start_index_map, "operand_batching_dims", g->operand_batching_dims)) ||
        (rc = check_batching(v, op, t, x, g->operand_batching_dims, "operand_batching_dims", g->start_indices_batching_dims, "start_indices_batching_dims", g->index_vector_dim,
                             "start_indices")))
        return rc;
    if (have_sizes) {
        if (sizes.n != t->rank)
            FAIL("slice_sizes size (%zu) not equal to operand rank (%u)", sizes.n, t->rank);
        for (size_t i = 0; i < sizes.n; i++) {
            if (sizes.v[i] < 0 || (known(t->dims[i]) && sizes.v[i] > t->dims[i]))
                FAIL("slice size (%lld) is out of bounds for operand dimension (%lld) at index %zu", (long long)sizes.v[i], (long long)t->dims[i], i);
        }
        for (int k = 0; k < 2; k++) {
            struct hlo_ints d = k ? g->operand_batching_dims : g->collapsed_slice_dims;
            for (size_t i = 0; i < d.n; i++)
                if (sizes.v[d.v[i]] > 1)
                    FAIL("Expects that for each dim in %s, slice_sizes[dim] should be <= 1, but got %lld", k ? "operand_batching_dims" : "collapsed_slice_dims",
                         (long long)sizes.v[d.v[i]]);
        }
    }
    uint32_t batch_rank = x->rank - (g->index_vector_dim < x->rank), rank = batch_rank + (uint32_t)g->offset_dims.n;
    if ((rc = check_range(v, op, "offset_dims", g->offset_dims, "implied-result-rank", rank)))
        return rc;
    int64_t *batch = nf_arena_alloc_array(v->scratch, (size_t)x->rank + 1, sizeof *batch), *d = nf_arena_alloc_array(v->scratch, (size_t)rank + 1, sizeof *d);
    batch_sizes(x, g->index_vector_dim, batch);
    uint32_t b = 0, o = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (!contains(g->offset_dims, i)) {
            d[i] = batch[b++];
            continue;
        }
        /* the next operand dimension that stays in the slice */
        while (o < t->rank && (contains(g->collapsed_slice_dims, o) || contains(g->operand_batching_dims, o)))
            o++;
        d[i] = have_sizes && o < sizes.n ? sizes.v[o] : HLO_DYNAMIC;
        o++;
    }
    ret[0] = hlo_type_with_shape(v->m, t, rank, d);
    return 0;
}

int hlo_i_gather(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    return infer_gather(v, op, hlo_op_i64s(op, HLO_A_slice_sizes), true, ret);
}

int hlo_i_dynamic_gather(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    struct hlo_ints sizes = {0, NULL};
    const struct hlo_type *s = op->operands[2].value->type;
    if (s->rank != 1)
        FAIL("slice_sizes should be rank 1, but got '%s'", hlo__type_text(v, s));
    if (known(s->dims[0]) && s->dims[0] != op->operands[0].value->type->rank)
        FAIL("slice_sizes size (%lld) not equal to operand rank (%u)", (long long)s->dims[0], op->operands[0].value->type->rank);
    bool have = hlo__constant_ints(v, op->operands[2].value, &sizes);
    return infer_gather(v, op, sizes, have, ret);
}

int hlo_i_scatter(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_scatter *s = hlo_op_attr(op, HLO_A_scatter_dimension_numbers)->scatter;
    int rc;
    if (op->num_operands < 3 || op->num_operands % 2 == 0)
        FAIL("expects inputs, scatter_indices and as many updates, but got %u operands", op->num_operands);
    uint32_t n = op->num_operands / 2;
    const struct hlo_type *t = op->operands[0].value->type, *x = op->operands[n].value->type, *u = op->operands[n + 1].value->type;
    if (!hlo__type_is('i', x))
        FAIL("scatter_indices must be a tensor of integers, but got '%s'", hlo__type_text(v, x));
    if (op->num_results != n)
        FAIL("inferred %u results, but the operation has %u", n, op->num_results);
    for (uint32_t i = 1; i < n; i++) {
        if (!hlo__dims_compatible(t, op->operands[i].value->type))
            FAIL("Not all inputs have compatible shapes: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, op->operands[i].value->type));
        if (!hlo__dims_compatible(u, op->operands[n + 1 + i].value->type))
            FAIL("Not all updates have compatible shapes: '%s' and '%s'", hlo__type_text(v, u), hlo__type_text(v, op->operands[n + 1 + i].value->type));
    }
    if (s->index_vector_dim < 0 || s->index_vector_dim > x->rank)
        FAIL("Expects index_vector_dim to be in range [0, rank-of('scatter_indices')] i.e. [0, %u]. got: %lld", x->rank, (long long)s->index_vector_dim);
    uint32_t batch_rank = x->rank - (s->index_vector_dim < x->rank);
    if (u->rank != batch_rank + s->update_window_dims.n)
        FAIL("expects updates tensor must be of rank %zu ( == rank-of('scatter_indices') - 1 + size-of('update_window_dims')), but got %u", batch_rank + s->update_window_dims.n, u->rank);
    if (s->update_window_dims.n + s->inserted_window_dims.n + s->input_batching_dims.n != t->rank)
        FAIL("Expects rank-of operand to match size-of('update_window_dims') + size-of('inserted_window_dims') + size-of('input_batching_dims') i.e. %zu but got %u",
             s->update_window_dims.n + s->inserted_window_dims.n + s->input_batching_dims.n, t->rank);
    if ((rc = check_sorted(v, op, "update_window_dims", s->update_window_dims)) || (rc = check_unique(v, op, "update_window_dims", s->update_window_dims)) ||
        (rc = check_range(v, op, "update_window_dims", s->update_window_dims, "rank-of('updates')", u->rank)) ||
        (rc = check_unique(v, op, "inserted_window_dims", s->inserted_window_dims)) || (rc = check_unique(v, op, "input_batching_dims", s->input_batching_dims)) ||
        (rc = check_apart(v, op, "inserted_window_dims", s->inserted_window_dims, "input_batching_dims", s->input_batching_dims)) ||
        (rc = check_sorted(v, op, "inserted_window_dims", s->inserted_window_dims)) ||
        (rc = check_range(v, op, "inserted_window_dims", s->inserted_window_dims, "rank-of('operand')", t->rank)) ||
        (rc = check_sorted(v, op, "input_batching_dims", s->input_batching_dims)) ||
        (rc = check_range(v, op, "input_batching_dims", s->input_batching_dims, "rank-of('operand')", t->rank)) ||
        (rc = check_batching(v, op, t, x, s->input_batching_dims, "input_batching_dims", s->scatter_indices_batching_dims, "scatter_indices_batching_dims", s->index_vector_dim,
                             "scatter_indices")))
        return rc;
    int64_t index_size = s->index_vector_dim == x->rank ? 1 : x->dims[s->index_vector_dim];
    if (known(index_size) && (int64_t)s->scatter_dims_to_operand_dims.n != index_size)
        FAIL("Scatter op has %zu elements in scatter_dims_to_operand_dims and the bound of dimension index_vector_dim=%lld of scatter_indices is %lld. These two numbers must be equal",
             s->scatter_dims_to_operand_dims.n, (long long)s->index_vector_dim, (long long)index_size);
    if ((rc = check_unique(v, op, "scatter_dims_to_operand_dims", s->scatter_dims_to_operand_dims)) ||
        (rc = check_apart(v, op, "scatter_dims_to_operand_dims", s->scatter_dims_to_operand_dims, "input_batching_dims", s->input_batching_dims)) ||
        (rc = check_range(v, op, "scatter_dims_to_operand_dims", s->scatter_dims_to_operand_dims, "rank-of('operand')", t->rank)))
        return rc;
    /* update window dimensions fit into the operand's, in order; the others are those of the indices */
    uint32_t o = 0, b = 0;
    int64_t *batch = nf_arena_alloc_array(v->scratch, (size_t)x->rank + 1, sizeof *batch);
    batch_sizes(x, s->index_vector_dim, batch);
    for (uint32_t i = 0; i < u->rank; i++) {
        if (contains(s->update_window_dims, i)) {
            while (o < t->rank && (contains(s->inserted_window_dims, o) || contains(s->input_batching_dims, o)))
                o++;
            if (o < t->rank && known(u->dims[i]) && known(t->dims[o]) && u->dims[i] > t->dims[o])
                FAIL("expects bounds of the window dimensions of updates to not exceed the bounds of the corresponding dimensions of operand. For dimension %u, updates bound is %lld, "
                     "operand bound is %lld",
                     i, (long long)u->dims[i], (long long)t->dims[o]);
            o++;
        } else {
            if (known(u->dims[i]) && known(batch[b]) && u->dims[i] != batch[b])
                FAIL("expects bounds of the scatter dimensions of updates to be same as the bounds of the corresponding dimensions of scatter indices. For scatter dimension %u, updates "
                     "bound is %lld, scatter_indices bound is %lld",
                     i, (long long)u->dims[i], (long long)batch[b]);
            b++;
        }
    }
    const struct hlo_type **inits = nf_arena_alloc_array(v->scratch, (size_t)n * 3, sizeof *inits), **inputs = inits + n, **elems = inits + 2 * n;
    for (uint32_t i = 0; i < n; i++) {
        inits[i] = hlo_type_with_shape(v->m, op->operands[i].value->type, 0, NULL);
        inputs[i] = hlo_type_with_shape(v->m, op->operands[n + 1 + i].value->type, 0, NULL);
    }
    if ((rc = hlo__check_reducer(v, op, 0, n, inputs, inits, 0, NULL, elems)))
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        struct hlo_type k = *op->operands[i].value->type;
        k.elem = elems[i]->elem;
        k.quant = elems[i]->quant;
        k.text = elems[i]->text;
        ret[i] = hlo_type_intern(v->m, &k);
    }
    return 0;
}
