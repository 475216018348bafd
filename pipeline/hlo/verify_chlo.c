/* verify_chlo.c: operations of chlo that have rules of their own. */
#include "pipeline/hlo/verify_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)

static const struct hlo_type *operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value->type; }
static bool known(int64_t d) { return d != HLO_DYNAMIC; }
static bool fits(int64_t a, int64_t b) { return a == b || !known(a) || !known(b); }
static bool contains(struct hlo_ints v, int64_t x)
{
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] == x)
            return true;
    return false;
}

/* The result's shape as numpy's rules give it, or with broadcast_dimensions for the operand of the smaller rank. */
int hlo_v_chlo_broadcast(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1), *o = op->results[0].type;
    const struct hlo_attr *bd = hlo_op_attr(op, HLO_A_broadcast_dimensions);
    if (op->id != HLO_OP_CHLO_BROADCAST_COMPARE && op->id != HLO_OP_CHLO_BROADCAST_COMPLEX) {
        if (!hlo__elem_compatible(l, r, true) || !hlo__elem_compatible(l, o, true))
            FAIL("requires compatible element types for all operands and results: '%s', '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r), hlo__type_text(v, o));
    } else if (!hlo__elem_compatible(l, r, true)) {
        FAIL("mismatched operand types: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    }
    if (op->id == HLO_OP_CHLO_BROADCAST_COMPARE && o->elem != HLO_ELEM_I1)
        FAIL("result must be a tensor of i1, but got '%s'", hlo__type_text(v, o));
    if (op->id == HLO_OP_CHLO_BROADCAST_COMPLEX && (hlo_elem_class(o->elem) != HLO_CLASS_COMPLEX || hlo_elem_part(o->elem) != l->elem))
        FAIL("result must be a tensor of complex<%s>, but got '%s'", hlo_elem_name(l->elem), hlo__type_text(v, o));
    if (l->kind == HLO_TYPE_UNRANKED || r->kind == HLO_TYPE_UNRANKED || o->kind == HLO_TYPE_UNRANKED)
        return 0;
    const struct hlo_type *small = l->rank < r->rank ? l : r, *large = l->rank < r->rank ? r : l;
    if (l->rank == r->rank)
        bd = NULL; /* nothing to place: it says nothing */
    if (bd) {
        struct hlo_ints d = bd->ints;
        if (d.n != small->rank)
            FAIL("broadcast_dimensions implies %zu dimensions, but the smaller operand is '%s'", d.n, hlo__type_text(v, small));
        for (size_t i = 0; i < d.n; i++)
            if (d.v[i] < 0 || d.v[i] >= large->rank || (i && d.v[i] <= d.v[i - 1]))
                FAIL("broadcast_dimensions %s must be strictly increasing and below the rank %u", hlo__ints_text(v, d), large->rank);
    }
    if (o->rank != large->rank)
        FAIL("result '%s' has not the rank of broadcasting '%s' and '%s'", hlo__type_text(v, o), hlo__type_text(v, l), hlo__type_text(v, r));
    for (uint32_t i = 0; i < large->rank; i++) {
        int64_t s = 1;
        if (bd) {
            for (size_t k = 0; k < bd->ints.n; k++)
                if (bd->ints.v[k] == i)
                    s = small->dims[k];
        } else if (i + small->rank >= large->rank) {
            s = small->dims[i + small->rank - large->rank];
        }
        int64_t b = large->dims[i], want = s == 1 ? b : b == 1 ? s : known(b) ? b : s;
        if (s != 1 && b != 1 && !fits(s, b))
            FAIL("incompatible shapes for broadcasting: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
        if (!fits(want, o->dims[i]))
            FAIL("result '%s' is not what broadcasting '%s' and '%s' gives", hlo__type_text(v, o), hlo__type_text(v, l), hlo__type_text(v, r));
    }
    return 0;
}

int hlo_v_chlo_broadcast_select(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *p = operand(op, 0), *t = operand(op, 1), *f = operand(op, 2), *o = op->results[0].type;
    if (p->elem != HLO_ELEM_I1)
        FAIL("operand #0 must be a tensor of i1, but got '%s'", hlo__type_text(v, p));
    if (!hlo__elem_compatible(t, f, true) || !hlo__elem_compatible(t, o, true))
        FAIL("mismatched operand types: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, f));
    return 0;
}

/* The test operation of StableHLO's broadcasting helpers: all operands to one shape by numpy's rules. Shapes that do not fit are
 * reported where the function stands, as its rewriting does. */
int hlo_v_numpy_broadcast(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_op *where = hlo_op_parent(op) ? hlo_op_parent(op) : op;
    if (op->num_operands == 0)
        FAIL("requires at least one operand to broadcast");
    uint32_t rank = 0;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        if (operand(op, i)->kind != HLO_TYPE_TENSOR)
            FAIL("expected ranked tensor type for broadcast inputs, but got '%s'", hlo__type_text(v, operand(op, i)));
        rank = NF_MAX(rank, operand(op, i)->rank);
    }
    for (uint32_t d = 0; d < rank; d++) { /* from the innermost */
        int64_t size = 1;
        bool bounded = false;
        for (uint32_t i = 0; i < op->num_operands; i++) {
            const struct hlo_type *t = operand(op, i);
            if (d >= t->rank)
                continue;
            uint32_t k = t->rank - 1 - d;
            bool b = !known(t->dims[k]);
            int64_t s = b && t->bounds ? t->bounds[k] : t->dims[k];
            if (s == 1 && !b)
                continue;
            if (size != 1 && b != bounded)
                return hlo__verify_fail(v, where, "cannot mix bounded and static dimensions in broadcast");
            if (size != 1 && s != size)
                return hlo__verify_fail(v, where, "incompatible shapes for broadcasting %lld and %lld", (long long)size, (long long)s);
            size = s;
            bounded = b;
        }
    }
    return 0;
}

int hlo_v_chlo_constant_like(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_value);
    const struct hlo_type *o = op->results[0].type;
    enum hlo_elem e = a->kind == HLO_ATTR_BOOL ? HLO_ELEM_I1 : (a->kind == HLO_ATTR_INT || a->kind == HLO_ATTR_FLOAT) ? a->type->elem : HLO_ELEM_OTHER;
    if (e == HLO_ELEM_OTHER)
        return 0; /* complex: kept as text */
    if (e != o->elem)
        FAIL("value's type doesn't match element return type: '%s' and '%s'", hlo_elem_name(e), hlo__type_text(v, o));
    if (!hlo__dims_compatible(operand(op, 0), o))
        FAIL("requires the same shape for operand and result: '%s' and '%s'", hlo__type_text(v, operand(op, 0)), hlo__type_text(v, o));
    return 0;
}

int hlo_i_chlo_top_k(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    int64_t k = hlo_op_i64(op, HLO_A_k, 0);
    if (k < 0)
        FAIL("k must be non-negative, but got %lld", (long long)k);
    struct hlo_type out = *t;
    if (t->kind != HLO_TYPE_UNRANKED) {
        if (t->rank == 0)
            FAIL("operand's rank must be at least 1, but got '%s'", hlo__type_text(v, t));
        if (known(t->dims[t->rank - 1]) && t->dims[t->rank - 1] < k)
            FAIL("operand's last dimension must be at least %lld, but got '%s'", (long long)k, hlo__type_text(v, t));
        int64_t *d = nf_arena_alloc_array(v->scratch, t->rank, sizeof *d);
        memcpy(d, t->dims, t->rank * sizeof *d);
        d[t->rank - 1] = k;
        out.dims = d;
        out.bounds = NULL;
    }
    ret[0] = hlo_type_intern(v->m, &out);
    out.elem = HLO_ELEM_I32;
    out.quant = NULL;
    ret[1] = hlo_type_intern(v->m, &out);
    return 0;
}

int hlo_i_chlo_ragged_dot(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1), *g = operand(op, 2);
    const struct hlo_ragged_dot *d = hlo_op_attr(op, HLO_A_ragged_dot_dimension_numbers)->ragged;
    const struct hlo_attr *prec = hlo_op_attr(op, HLO_A_precision_config);
    if (prec && prec->array.n > 2)
        FAIL("expects precision config to be empty or have <= 2 elements");
    int rc = hlo__check_dot_dims(v, op, l, r, d->lhs_batching, d->rhs_batching, d->lhs_contracting, d->rhs_contracting);
    if (rc)
        return rc;
    if (d->lhs_ragged.n != 1)
        FAIL("There must be exactly one ragged dimension in the lhs, but got %s", hlo__ints_text(v, d->lhs_ragged));
    int64_t ragged = d->lhs_ragged.v[0];
    if (ragged < 0 || ragged >= l->rank)
        FAIL("lhs_ragged_dimensions value: %lld is out of range: [0, %u)", (long long)ragged, l->rank);
    for (size_t i = 0; i < d->rhs_group.n; i++) {
        if (d->rhs_group.v[i] < 0 || d->rhs_group.v[i] >= r->rank)
            FAIL("rhs_group_dimensions value: %lld is out of range: [0, %u)", (long long)d->rhs_group.v[i], r->rank);
        if (contains(d->rhs_batching, d->rhs_group.v[i]))
            FAIL("has duplicated dimension from rhs_group_dimensions and rhs_batching_dimensions: %lld", (long long)d->rhs_group.v[i]);
        if (contains(d->rhs_contracting, d->rhs_group.v[i]))
            FAIL("has duplicated dimension from rhs_group_dimensions and rhs_contracting_dimensions: %lld", (long long)d->rhs_group.v[i]);
    }
    bool batch = contains(d->lhs_batching, ragged), contracting = contains(d->lhs_contracting, ragged);
    /* sizes of groups: [g], or with the dimensions of lhs that stand before the ragged one */
    if (g->rank == 0)
        FAIL("expected group_sizes to have rank 1, got 0");
    int64_t *prefix = nf_arena_alloc_array(v->scratch, (size_t)l->rank + 2, sizeof *prefix);
    uint32_t n = 0;
    if (batch) {
        for (size_t i = 0; i < d->lhs_batching.n && d->lhs_batching.v[i] != ragged; i++)
            prefix[n++] = l->dims[d->lhs_batching.v[i]];
    } else if (contracting) {
        for (size_t i = 0; i < d->lhs_batching.n; i++)
            prefix[n++] = l->dims[d->lhs_batching.v[i]];
        for (size_t i = 0; i < d->lhs_contracting.n && d->lhs_contracting.v[i] != ragged; i++)
            prefix[n++] = l->dims[d->lhs_contracting.v[i]];
    } else {
        for (size_t i = 0; i < d->lhs_batching.n; i++)
            prefix[n++] = l->dims[d->lhs_batching.v[i]];
        for (int64_t i = 0; i < ragged; i++)
            if (!contains(d->lhs_batching, i) && !contains(d->lhs_contracting, i))
                prefix[n++] = l->dims[i];
    }
    int64_t groups = g->dims[g->rank - 1];
    if (g->rank != 1) {
        prefix[n] = groups;
        bool ok = g->rank == n + 1;
        for (uint32_t i = 0; ok && i < n; i++)
            ok = fits(g->dims[i], prefix[i]);
        if (!ok && n == 0)
            FAIL("expected group_sizes to have rank 1, got %u", g->rank);
        if (!ok)
            FAIL("group_sizes is expected to have shape %s, got %s", hlo__ints_text(v, (struct hlo_ints){n + 1, prefix}), hlo__ints_text(v, (struct hlo_ints){g->rank, g->dims}));
    }
    if (batch || contracting) {
        if (d->rhs_group.n)
            FAIL("There must be zero group dimensions in the rhs when the ragged dimension is batch or contracting");
    } else {
        if (d->rhs_group.n != 1)
            FAIL("There must be exactly one group dimension in the rhs when the lhs ragged dimension is non-contracting");
        if (!fits(r->dims[d->rhs_group.v[0]], groups))
            FAIL("rhs group dimension is expected to have size=%lld, got %lld", (long long)groups, (long long)r->dims[d->rhs_group.v[0]]);
    }
    int64_t *dims = nf_arena_alloc_array(v->scratch, (size_t)l->rank + r->rank + 2, sizeof *dims);
    uint32_t rank = 0;
    if (contracting)
        dims[rank++] = groups;
    for (size_t i = 0; i < d->lhs_batching.n; i++)
        dims[rank++] = l->dims[d->lhs_batching.v[i]];
    for (uint32_t i = 0; i < l->rank; i++)
        if (!contains(d->lhs_batching, i) && !contains(d->lhs_contracting, i))
            dims[rank++] = l->dims[i];
    for (uint32_t i = 0; i < r->rank; i++)
        if (!contains(d->rhs_batching, i) && !contains(d->rhs_contracting, i) && !contains(d->rhs_group, i))
            dims[rank++] = r->dims[i];
    const struct hlo_type *o = op->results[0].type, *t = hlo_type_with_shape(v->m, o, rank, dims);
    if (!hlo__dims_compatible(t, o))
        FAIL("inferred shape %s is incompatible with return type of operation '%s'", hlo__ints_text(v, (struct hlo_ints){rank, dims}), hlo__type_text(v, o));
    ret[0] = NULL;
    return 0;
}

int hlo_v_chlo_scan(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *sizes = hlo_op_attr(op, HLO_A_operandSegmentSizes), *rsizes = hlo_op_attr(op, HLO_A_resultSegmentSizes);
    int64_t dim = hlo_op_i64(op, HLO_A_dimension, 0), size = hlo_op_i64(op, HLO_A_scan_dim_size, HLO_DYNAMIC);
    const struct hlo_block *b = op->regions[0]->first;
    const struct hlo_op *ret = b->last;
    if (!sizes || sizes->kind != HLO_ATTR_DENSE_ARRAY || sizes->ints.n != 2 || sizes->ints.v[0] < 0 || sizes->ints.v[1] < 0 ||
        sizes->ints.v[0] + sizes->ints.v[1] != (int64_t)op->num_operands)
        FAIL("operandSegmentSizes must divide the operands into inputs and inits");
    if (!rsizes || rsizes->kind != HLO_ATTR_DENSE_ARRAY || rsizes->ints.n != 2 || rsizes->ints.v[0] < 0 || rsizes->ints.v[0] + rsizes->ints.v[1] != (int64_t)op->num_results)
        FAIL("resultSegmentSizes must divide the results into outputs and carries");
    uint32_t inputs = (uint32_t)sizes->ints.v[0], carries = (uint32_t)sizes->ints.v[1], outputs = (uint32_t)rsizes->ints.v[0];
    if (rsizes->ints.v[1] != carries)
        FAIL("has %u inits, but %lld carries", carries, (long long)rsizes->ints.v[1]);
    if (b->num_args != inputs + carries)
        FAIL("body must take %u arguments, but takes %u", inputs + carries, b->num_args);
    for (uint32_t i = 0; i < inputs; i++) {
        const struct hlo_type *t = operand(op, i);
        if (dim < 0 || dim >= t->rank)
            FAIL("scan dimension of operand %u is out of bounds", i);
        if (!fits(t->dims[dim], size))
            FAIL("invalid scan dimension size of operand %u", i);
        if (!known(size))
            size = t->dims[dim];
    }
    for (uint32_t i = 0; i < inputs + carries; i++) {
        const struct hlo_type *t = operand(op, i), *a = b->args[i]->type;
        const struct hlo_type *want = t;
        if (i < inputs) { /* a slice without the scanned dimension */
            int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *d);
            uint32_t n = 0;
            for (uint32_t k = 0; k < t->rank; k++)
                if (k != dim)
                    d[n++] = t->dims[k];
            want = hlo_type_with_shape(v->m, t, n, d);
        }
        if (!hlo__type_compatible(want, a))
            FAIL("operand and body argument %u are incompatible: '%s' and '%s'", i, hlo__type_text(v, t), hlo__type_text(v, a));
    }
    if (ret->num_operands != outputs + carries)
        FAIL("body must return %u values, but returns %u", outputs + carries, ret->num_operands);
    for (uint32_t i = 0; i < outputs + carries; i++) {
        const struct hlo_type *t = op->results[i].type, *y = operand(ret, i);
        const struct hlo_type *want = t;
        if (i < outputs) {
            if (t->kind != HLO_TYPE_TENSOR || dim >= t->rank)
                FAIL("scan dimension of result %u is out of bounds", i);
            if (!fits(t->dims[dim], size))
                FAIL("invalid scan dimension size of result %u", i);
            int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *d);
            uint32_t n = 0;
            for (uint32_t k = 0; k < t->rank; k++)
                if (k != dim)
                    d[n++] = t->dims[k];
            want = hlo_type_with_shape(v->m, t, n, d);
        }
        if (!hlo__type_compatible(want, y))
            FAIL("result and body result %u are incompatible: '%s' and '%s'", i, hlo__type_text(v, t), hlo__type_text(v, y));
        if (i >= outputs && !hlo__type_compatible(operand(op, inputs + i - outputs), y))
            FAIL("init and body result %u are incompatible: '%s' and '%s'", i, hlo__type_text(v, operand(op, inputs + i - outputs)), hlo__type_text(v, y));
    }
    return 0;
}
