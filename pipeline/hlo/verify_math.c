/* verify_math.c: products, convolutions, transforms, factorisations, normalisation, random numbers. */
#include "pipeline/hlo/verify_internal.h"

#include "pipeline/hlo/spec_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)

static const struct hlo_type *operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value->type; }
static const struct hlo_type *result(const struct hlo_op *op, uint32_t i) { return op->results[i].type; }
static bool known(int64_t d) { return d != HLO_DYNAMIC; }
static bool fits(int64_t a, int64_t b) { return a == b || !known(a) || !known(b); }
static bool contains(struct hlo_ints v, int64_t x)
{
    for (size_t i = 0; i < v.n; i++)
        if (v.v[i] == x)
            return true;
    return false;
}

/* ---- precision ---- */

static int check_precision(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_precision_config);
    if (a && a->array.n > 2)
        FAIL("expects precision config to be empty or have <= 2 elements, but got %zu", a->array.n);
    return 0;
}

static bool is_f8(enum hlo_elem e) { return hlo_elem_class(e) == HLO_CLASS_FLOAT && hlo_elem_bits(e) == 8; }

/* The algorithms that some hardware is known to have. */
static bool algorithm_known(const struct hlo_dot_algorithm *a)
{
    enum hlo_elem l = a->lhs_precision->elem, r = a->rhs_precision->elem, acc = a->accumulation->elem;
    int64_t ops = a->primitive_operations;
    if (a->lhs_components != 1 || a->rhs_components != 1)
        return false;
    if (is_f8(l) && is_f8(r))
        return acc == HLO_ELEM_F32 && ops == 1; /* with and without imprecise accumulation */
    if (a->allow_imprecise || l != r)
        return false;
    if (l == HLO_ELEM_F16)
        return (acc == HLO_ELEM_F16 || acc == HLO_ELEM_F32) && ops == 1;
    if (l == HLO_ELEM_BF16)
        return (acc == HLO_ELEM_BF16 && ops == 1) || (acc == HLO_ELEM_F32 && (ops == 1 || ops == 3 || ops == 6 || ops == 9));
    if (l == HLO_ELEM_TF32)
        return acc == HLO_ELEM_F32 && (ops == 1 || ops == 3);
    return (l == HLO_ELEM_F32 || l == HLO_ELEM_F64) && acc == l && ops == 1;
}

const char *hlo__dot_algorithm_wrong(const struct hlo_dot_algorithm *g)
{
    if (g->lhs_components < 1)
        return "lhs component count must be positive";
    if (g->rhs_components < 1)
        return "rhs component count must be positive";
    if (g->primitive_operations < 1)
        return "num primitive operations must be positive";
    return algorithm_known(g) ? NULL : "dot algorithm not known to be supported on any hardware";
}

static int check_algorithm(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_algorithm), *p = hlo_op_attr(op, HLO_A_precision_config);
    if (!a)
        return 0;
    const struct hlo_dot_algorithm *g = a->algorithm;
    for (size_t i = 0; p && i < p->array.n; i++)
        if (p->array.v[i]->enumeration.value != HLO_PRECISION_DEFAULT)
            FAIL("must specify DEFAULT precision config when algorithm is set");
    const char *wrong = hlo__dot_algorithm_wrong(g);
    if (wrong)
        FAIL("%s: lhs '%s', rhs '%s', accumulation '%s', components %lld and %lld, operations %lld, imprecise %d",
             wrong, hlo__type_text(v, g->lhs_precision), hlo__type_text(v, g->rhs_precision), hlo__type_text(v, g->accumulation), (long long)g->lhs_components, (long long)g->rhs_components,
             (long long)g->primitive_operations, g->allow_imprecise);
    return 0;
}

/* Rules for a product of quantised operands: rhs is quantised, lhs if and only if the result is. axis_free: dimensions of rhs that an axis may not
 * be in. */
static int check_quant_product(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1), *o = result(op, 0);
    bool lq = hlo_type_is_quant(l), rq = hlo_type_is_quant(r), oq = hlo_type_is_quant(o);
    if (!lq && !rq && !oq)
        return 0;
    if (!rq || lq != oq)
        FAIL("rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold: '%s', '%s' and '%s'", hlo__type_text(v, l),
             hlo__type_text(v, r), hlo__type_text(v, o));
    const struct hlo_quant *rt = r->quant;
    for (size_t i = 0; i < rt->count; i++)
        if (op->id == HLO_OP_DOT_GENERAL && (rt->per_axis || !lq) && rt->zero_points[i] != 0)
            FAIL("Zero point of rhs should be 0, but is %lld", (long long)rt->zero_points[i]);
    if (!lq) { /* hybrid */
        if (rt->expressed != l->elem || rt->expressed != o->elem)
            FAIL("mismatched rhs quantization expressed type and lhs and result element type: '%s', '%s' and '%s'", hlo__type_text(v, r), hlo__type_text(v, l), hlo__type_text(v, o));
        return 0;
    }
    const struct hlo_quant *lt = l->quant, *ot = o->quant;
    if (lt->storage != rt->storage)
        FAIL("mismatched lhs and rhs quantization storage types: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    if (lt->expressed != rt->expressed || lt->expressed != ot->expressed)
        FAIL("mismatched lhs, rhs and result quantization expressed types");
    if (lt->per_axis)
        FAIL("lhs must be quantized per tensor, but is '%s'", hlo__type_text(v, l));
    if (!rt->per_axis && ot->per_axis)
        FAIL("mismatched rhs and result quantization granularity: '%s' and '%s'", hlo__type_text(v, r), hlo__type_text(v, o));
    return 0;
}

/* ---- dot ---- */

static int check_dims(struct hlo_verifier *v, const struct hlo_op *op, const char *name, struct hlo_ints d, uint32_t rank)
{
    for (size_t i = 0; i < d.n; i++)
        if (d.v[i] < 0 || d.v[i] >= rank)
            FAIL("%s value: %lld is out of range: [0, %u)", name, (long long)d.v[i], rank);
    return 0;
}

static int check_apart(struct hlo_verifier *v, const struct hlo_op *op, const char *an, struct hlo_ints a, const char *bn, struct hlo_ints b)
{
    for (size_t i = 0; i < a.n; i++) {
        for (size_t k = 0; k < i; k++)
            if (a.v[i] == a.v[k])
                FAIL("has duplicated dimension from %s and %s: %lld", an, bn, (long long)a.v[i]);
        if (contains(b, a.v[i]))
            FAIL("has duplicated dimension from %s and %s: %lld", an, bn, (long long)a.v[i]);
    }
    for (size_t i = 0; i < b.n; i++)
        for (size_t k = 0; k < i; k++)
            if (b.v[i] == b.v[k])
                FAIL("has duplicated dimension from %s and %s: %lld", an, bn, (long long)b.v[i]);
    return 0;
}

int hlo__check_dot_dims(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *l, const struct hlo_type *r, struct hlo_ints lb, struct hlo_ints rb, struct hlo_ints lc,
                        struct hlo_ints rc_)
{
    int rc;
    if (lb.n != rb.n)
        FAIL("lhs and rhs should have the same number of batching dimensions, but got %zu and %zu", lb.n, rb.n);
    if (lc.n != rc_.n)
        FAIL("lhs and rhs should have the same number of contracting dimensions, but got %zu and %zu", lc.n, rc_.n);
    if ((rc = check_apart(v, op, "lhs_batching_dimensions", lb, "lhs_contracting_dimensions", lc)) ||
        (rc = check_apart(v, op, "rhs_batching_dimensions", rb, "rhs_contracting_dimensions", rc_)) || (rc = check_dims(v, op, "lhs_batching_dimensions", lb, l->rank)) ||
        (rc = check_dims(v, op, "lhs_contracting_dimensions", lc, l->rank)) || (rc = check_dims(v, op, "rhs_batching_dimensions", rb, r->rank)) ||
        (rc = check_dims(v, op, "rhs_contracting_dimensions", rc_, r->rank)))
        return rc;
    for (size_t i = 0; i < lb.n; i++)
        if (!fits(l->dims[lb.v[i]], r->dims[rb.v[i]]))
            FAIL("batching dimension sizes must match for lhs/rhs: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    for (size_t i = 0; i < lc.n; i++)
        if (!fits(l->dims[lc.v[i]], r->dims[rc_.v[i]]))
            FAIL("contracting dimension sizes must match for lhs/rhs: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    return 0;
}

/* The result: batching dimensions, free ones of lhs, free ones of rhs. Its element type is the program's choice. */
int hlo_i_dot_general(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1);
    const struct hlo_dot *d = hlo_op_attr(op, HLO_A_dot_dimension_numbers)->dot;
    int rc = hlo__check_dot_dims(v, op, l, r, d->lhs_batching, d->rhs_batching, d->lhs_contracting, d->rhs_contracting);
    if (rc || (rc = check_precision(v, op)))
        return rc;
    int64_t *dims = nf_arena_alloc_array(v->scratch, (size_t)l->rank + r->rank + 1, sizeof *dims);
    uint32_t n = 0;
    for (size_t i = 0; i < d->lhs_batching.n; i++)
        dims[n++] = l->dims[d->lhs_batching.v[i]];
    for (uint32_t i = 0; i < l->rank; i++)
        if (!contains(d->lhs_batching, i) && !contains(d->lhs_contracting, i))
            dims[n++] = l->dims[i];
    for (uint32_t i = 0; i < r->rank; i++)
        if (!contains(d->rhs_batching, i) && !contains(d->rhs_contracting, i))
            dims[n++] = r->dims[i];
    const struct hlo_type *t = hlo_type_with_shape(v->m, result(op, 0), n, dims);
    if (!hlo__dims_compatible(t, result(op, 0)))
        FAIL("inferred shape %s is incompatible with return type of operation '%s'", hlo__ints_text(v, (struct hlo_ints){n, dims}), hlo__type_text(v, result(op, 0)));
    ret[0] = NULL;
    return 0;
}

int hlo_v_dot_general(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_dot *d = hlo_op_attr(op, HLO_A_dot_dimension_numbers)->dot;
    const struct hlo_type *r = operand(op, 1);
    int rc = check_algorithm(v, op);
    if (rc || (rc = check_quant_product(v, op)))
        return rc;
    if (hlo_type_is_quant(r) && r->quant->per_axis && contains(d->rhs_contracting, r->quant->axis))
        FAIL("Quantization dimension of rhs should not be in the contracting dimension of rhs");
    bool float_l = !hlo_type_is_quant(operand(op, 0)), float_r = !hlo_type_is_quant(r);
    if (float_l && float_r && (hlo_elem_class(operand(op, 0)->elem) == HLO_CLASS_COMPLEX) != (hlo_elem_class(r->elem) == HLO_CLASS_COMPLEX))
        FAIL("requires compatible element types for lhs and rhs: '%s' and '%s'", hlo__type_text(v, operand(op, 0)), hlo__type_text(v, r));
    return 0;
}

int hlo_i_dot(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1);
    int64_t d[2];
    uint32_t n = 0;
    int rc = check_precision(v, op);
    if (rc)
        return rc;
    if (l->rank < 1 || l->rank > 2 || r->rank < 1 || r->rank > 2)
        FAIL("expected both lhs/rhs ranks to be either 1 or 2: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    if (!fits(l->dims[l->rank - 1], r->dims[0]))
        FAIL("contracting dimension sizes must match for lhs/rhs: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    if (l->rank == 2)
        d[n++] = l->dims[0];
    if (r->rank == 2)
        d[n++] = r->dims[1];
    const struct hlo_type *t = hlo_type_with_shape(v->m, result(op, 0), n, d);
    if (!hlo__dims_compatible(t, result(op, 0)))
        FAIL("inferred shape %s is incompatible with return type of operation '%s'", hlo__ints_text(v, (struct hlo_ints){n, d}), hlo__type_text(v, result(op, 0)));
    ret[0] = NULL;
    return 0;
}

/* ---- convolution ---- */

static int check_conv_list(struct hlo_verifier *v, const struct hlo_op *op, const char *what, int64_t a, int64_t b, struct hlo_ints s, uint32_t rank)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < s.n + 2; i++) {
        int64_t d = i < s.n ? s.v[i] : i == s.n ? a : b;
        if (d < 0 || d >= rank || d >= 64)
            FAIL("expects input, kernel, and output dimension-numbers to be in-range [0, %u)", rank);
        if (seen >> d & 1)
            FAIL("expects %s dimension-numbers to be unique, got %lld twice", what, (long long)d);
        seen |= (uint64_t)1 << d;
    }
    return 0;
}

struct conv_window {
    struct hlo_ints strides, pad, lhs, rhs, reverse;
};

static int conv_list(struct hlo_verifier *v, const struct hlo_op *op, enum hlo_attr_name name, const char *text, size_t n, const char *positive, struct hlo_ints *ret)
{
    *ret = hlo_op_i64s(op, name);
    /* JAX gives dynamic_conv more strides than there are dimensions: the first ones count */
    if (hlo_op_attr(op, name) && (op->id == HLO_OP_DYNAMIC_CONV ? ret->n < n : ret->n != n))
        FAIL("expects %s to have same dimension-size as size of window dimensions (%zu), but got: %zu", text, n, ret->n);
    for (size_t i = 0; positive && i < ret->n; i++)
        if (ret->v[i] <= 0)
            FAIL("expects window to have positive %s for %zu-th window dimension, but got %lld", positive, i, (long long)ret->v[i]);
    return 0;
}

static int check_conv(struct hlo_verifier *v, const struct hlo_op *op, bool have_padding)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1), *o = result(op, 0);
    const struct hlo_conv *c = hlo_op_attr(op, HLO_A_dimension_numbers)->conv;
    int64_t features = hlo_op_i64(op, HLO_A_feature_group_count, 1), batches = hlo_op_i64(op, HLO_A_batch_group_count, 1);
    struct conv_window w = {.pad = {0, NULL}};
    int rc;
    if (l->rank != r->rank)
        FAIL("expects convolution arguments to have same number of dimensions. Got: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    if (l->rank < 2)
        FAIL("expects convolution arguments to have >= 2 dimensions. Got: '%s' and '%s'", hlo__type_text(v, l), hlo__type_text(v, r));
    if (features <= 0)
        FAIL("attribute 'feature_group_count' must be positive, but got %lld", (long long)features);
    if (batches <= 0)
        FAIL("attribute 'batch_group_count' must be positive, but got %lld", (long long)batches);
    if (batches > 1 && features > 1)
        FAIL("expects batch_group_count and feature_group_count not to be both greater than 1. Got %lld and %lld resp", (long long)batches, (long long)features);
    if (c->input_spatial.n != c->kernel_spatial.n || c->input_spatial.n != c->output_spatial.n)
        FAIL("expects the same size for input, kernel and output spatial-dimensions, but got %zu, %zu, and %zu resp", c->input_spatial.n, c->kernel_spatial.n, c->output_spatial.n);
    if (c->input_spatial.n + 2 != l->rank)
        FAIL("expects convolution arguments to have %zu dimensions. Got: %u", c->input_spatial.n + 2, l->rank);
    if ((rc = check_conv_list(v, op, "input", c->input_batch, c->input_feature, c->input_spatial, l->rank)) ||
        (rc = check_conv_list(v, op, "kernel", c->kernel_input_feature, c->kernel_output_feature, c->kernel_spatial, l->rank)) ||
        (rc = check_conv_list(v, op, "output", c->output_batch, c->output_feature, c->output_spatial, l->rank)))
        return rc;
    size_t n = c->input_spatial.n;
    int64_t in_f = l->dims[c->input_feature], in_b = l->dims[c->input_batch], k_in = r->dims[c->kernel_input_feature], k_out = r->dims[c->kernel_output_feature];
    if (known(in_f) && in_f % features)
        FAIL("expects input feature dimension (%lld) to be a multiple of feature_group_count. Got feature_group_count = %lld", (long long)in_f, (long long)features);
    if (known(in_b) && in_b % batches)
        FAIL("expects input batch dimension (%lld) to be divisible by batch_group_count. Got batch_group_count = %lld", (long long)in_b, (long long)batches);
    if (known(in_f) && known(k_in) && in_f / features != k_in)
        FAIL("expects input feature dimension (%lld) / feature_group_count = kernel input feature dimension (%lld). Got feature_group_count = %lld", (long long)in_f, (long long)k_in,
             (long long)features);
    if (known(k_out) && k_out % features)
        FAIL("expects kernel output feature dimension (%lld) to be divisible by feature_group_count. For feature_group_count = %lld", (long long)k_out, (long long)features);
    if (known(k_out) && k_out % batches)
        FAIL("expects output feature dimension size (%lld) to be a multiple of batch_group_count. Got batch_group_count = %lld", (long long)k_out, (long long)batches);
    for (size_t i = 0; i < n; i++)
        if (known(r->dims[c->kernel_spatial.v[i]]) && r->dims[c->kernel_spatial.v[i]] <= 0)
            FAIL("expects window to have positive value for %zu-th window dimension, but got %lld", i, (long long)r->dims[c->kernel_spatial.v[i]]);
    if ((rc = conv_list(v, op, HLO_A_window_strides, "window-strides", n, "stride", &w.strides)) ||
        (rc = conv_list(v, op, HLO_A_lhs_dilation, "base-dilation factors", n, "base dilation factor", &w.lhs)) ||
        (rc = conv_list(v, op, HLO_A_rhs_dilation, "window-dilation factors", n, "window dilation factor", &w.rhs)) ||
        (rc = conv_list(v, op, HLO_A_window_reversal, "window-reversal", n, NULL, &w.reverse)) || (have_padding && (rc = hlo__check_padding(v, op, n, &w.pad))) ||
        (rc = check_precision(v, op)))
        return rc;
    bool any_quant = hlo_type_is_quant(l) || hlo_type_is_quant(r) || hlo_type_is_quant(o);
    if (!any_quant && l->elem != r->elem)
        FAIL("expects lhs and rhs to have compatible element type. Got: '%s' and '%s'", hlo_elem_name(l->elem), hlo_elem_name(r->elem));
    if (any_quant) {
        if ((rc = check_quant_product(v, op)))
            return rc;
        if (r->quant->per_axis && r->quant->axis != c->kernel_output_feature)
            FAIL("quantization dimension of rhs should be same with kernel_output_feature_dimension, but is %lld", (long long)r->quant->axis);
        if (hlo_type_is_quant(o) && o->quant->per_axis && o->quant->axis != c->output_feature)
            FAIL("quantization dimension of result should be same with output_feature_dimension, but is %lld", (long long)o->quant->axis);
    }
    int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)l->rank + 1, sizeof *d);
    for (uint32_t i = 0; i < l->rank; i++)
        d[i] = HLO_DYNAMIC;
    d[c->output_batch] = known(in_b) ? in_b / batches : HLO_DYNAMIC;
    d[c->output_feature] = k_out;
    for (size_t i = 0; i < n; i++) {
        int64_t size = l->dims[c->input_spatial.v[i]], k = r->dims[c->kernel_spatial.v[i]];
        if (have_padding && known(k))
            d[c->output_spatial.v[i]] = hlo__window_size(size, k, w.strides.n ? w.strides.v[i] : 1, w.pad.n ? w.pad.v[2 * i] : 0, w.pad.n ? w.pad.v[2 * i + 1] : 0,
                                                         w.lhs.n ? w.lhs.v[i] : 1, w.rhs.n ? w.rhs.v[i] : 1);
    }
    const struct hlo_type *t = hlo_type_with_shape(v->m, o, l->rank, d);
    if (!hlo__dims_compatible(t, o))
        FAIL("inferred shape %s is incompatible with return type of operation '%s'", hlo__ints_text(v, (struct hlo_ints){l->rank, d}), hlo__type_text(v, o));
    return 0;
}

int hlo_v_convolution(struct hlo_verifier *v, const struct hlo_op *op) { return check_conv(v, op, true); }

int hlo_v_dynamic_conv(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *p = operand(op, 2);
    const struct hlo_conv *c = hlo_op_attr(op, HLO_A_dimension_numbers)->conv;
    int rc = check_conv(v, op, false);
    if (rc)
        return rc;
    if (p->rank != 2 || (known(p->dims[0]) && (uint64_t)p->dims[0] != c->input_spatial.n) || (known(p->dims[1]) && p->dims[1] != 2))
        FAIL("expects padding to be of shape [%zu, 2], but got %s", c->input_spatial.n, hlo__ints_text(v, (struct hlo_ints){p->rank, p->dims}));
    return 0;
}

/* ---- linear algebra ---- */

int hlo_v_cholesky(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *a = operand(op, 0);
    if (a->rank < 2)
        FAIL("argument 'a' must have rank >= 2, got shape '%s'", hlo__type_text(v, a));
    if (!fits(a->dims[a->rank - 1], a->dims[a->rank - 2]))
        FAIL("minor dimensions of 'a' must have equal size, got shape '%s'", hlo__type_text(v, a));
    return 0;
}

int hlo_i_triangular_solve(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *a = operand(op, 0), *b = operand(op, 1);
    bool left = hlo_op_bool(op, HLO_A_left_side, true);
    if (a->elem != b->elem)
        FAIL("requires the same element type for all operands: '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    if (a->rank < 2)
        FAIL("operand 'a' must have rank >= 2, but got '%s'", hlo__type_text(v, a));
    if (!fits(a->dims[a->rank - 2], a->dims[a->rank - 1]))
        FAIL("two minor dimensions of operand 'a' must be compatible, but got '%s'", hlo__type_text(v, a));
    if (a->rank != b->rank)
        FAIL("operands must have equal rank, but got '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    if (!fits(a->dims[a->rank - 1], b->dims[b->rank - (left ? 2 : 1)]))
        FAIL("shared dimension of operands 'a' and 'b' does not match, but got '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    for (uint32_t i = 0; i + 2 < a->rank; i++)
        if (!fits(a->dims[i], b->dims[i]))
            FAIL("batch dimensions of the operands must be compatible, but got '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    if (hlo_op_enum(op, HLO_A_transpose_a, HLO_NO_TRANSPOSE) == HLO_TRANSPOSE_INVALID)
        FAIL("Invalid transpose option value for triangular solve");
    ret[0] = b;
    return 0;
}

int hlo_i_fft(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints len = hlo_op_i64s(op, HLO_A_fft_length);
    enum hlo_fft kind = (enum hlo_fft)hlo_op_enum(op, HLO_A_fft_type, HLO_FFT);
    bool real = hlo_elem_class(t->elem) == HLO_CLASS_FLOAT;
    if (len.n < 1 || len.n > 3)
        FAIL("rank must be between 1 and 3, but got %zu", len.n);
    if (kind == HLO_RFFT ? !real : real)
        FAIL("%s, but is given '%s'", kind == HLO_RFFT ? "RFFT requires f32 or f64 input type" : "FFT/IFFT/IRFFT take a complex tensor as input", hlo__type_text(v, t));
    if (kind == HLO_RFFT && t->elem != HLO_ELEM_F32 && t->elem != HLO_ELEM_F64)
        FAIL("RFFT requires f32 or f64 input type, but is given '%s'", hlo_elem_name(t->elem));
    if (t->rank < len.n)
        FAIL("operand rank must not be less than fft rank of %zu for operand of type '%s'", len.n, hlo__type_text(v, t));
    int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *d);
    memcpy(d, t->dims, t->rank * sizeof *d);
    for (size_t i = 0; i < len.n; i++) {
        int64_t have = t->dims[t->rank - len.n + i], want = len.v[i];
        if (len.v[i] < 0)
            FAIL("fft_length must not be negative, but got %s", hlo__ints_text(v, len));
        if (kind == HLO_IRFFT && i + 1 == len.n) {
            if (known(have) && have != 0 && have != want / 2 + 1)
                FAIL("IRFFT requires innermost dimension to be compatible with fft_length[-1]/2+1. Got: %lld but fft_length is %lld", (long long)have, (long long)want);
        } else if (known(have) && have != want) {
            FAIL("%s requires innermost dimensions to be compatible with fft_length. Got: '%s' but wanted %s", hlo_enum_name(HLO_ENUM_FFT, kind), hlo__type_text(v, t), hlo__ints_text(v, len));
        }
    }
    enum hlo_elem e = t->elem;
    if (kind == HLO_RFFT) {
        e = e == HLO_ELEM_F32 ? HLO_ELEM_C64 : HLO_ELEM_C128;
        if (d[t->rank - 1] != 0 && known(d[t->rank - 1]))
            d[t->rank - 1] = len.v[len.n - 1] / 2 + 1;
    } else if (kind == HLO_IRFFT) {
        e = hlo_elem_part(e);
        if (d[t->rank - 1] != 0 && known(d[t->rank - 1]))
            d[t->rank - 1] = len.v[len.n - 1];
    }
    ret[0] = hlo_type_tensor(v->m, e, t->rank, d);
    return 0;
}

/* ---- normalisation ---- */

/* multi: operands with the shape of the first, single: those of one dimension, the features; results likewise. */
static int batch_norm(struct hlo_verifier *v, const struct hlo_op *op, uint32_t multi_mask, const struct hlo_type **ret, bool three)
{
    const struct hlo_type *t = operand(op, 0), *single = NULL;
    int64_t f = hlo_op_i64(op, HLO_A_feature_index, 0);
    if (f < 0)
        FAIL("expects featureIndex to be a non-negative number, got %lld", (long long)f);
    if (f >= t->rank)
        FAIL("expects featureIndex to be smaller than the rank of multi-dimensional operands; got featureIndex %lld, and rank %u", (long long)f, t->rank);
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_type *o = operand(op, i);
        if (o->elem != t->elem)
            FAIL("requires the same element type for all operands: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, o));
        if (multi_mask >> i & 1) {
            if (!hlo__dims_compatible(t, o))
                FAIL("expects multi-dimensional operands to have compatible shapes: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, o));
            continue;
        }
        if (o->rank != 1)
            FAIL("operand #%u must be 1D tensor of float values, but got '%s'", i, hlo__type_text(v, o));
        if (single && !hlo__dims_compatible(single, o))
            FAIL("expects single-dimensional operands to have compatible shapes: '%s' and '%s'", hlo__type_text(v, single), hlo__type_text(v, o));
        if (!fits(o->dims[0], t->dims[f]))
            FAIL("expects the size of single-dimensional operands to be compatible with feature count, but the size of single-dimensional operands is %lld and the feature count is %lld",
                 (long long)o->dims[0], (long long)t->dims[f]);
        single = o;
    }
    ret[0] = t;
    if (three) {
        int64_t d = t->dims[f];
        ret[1] = ret[2] = hlo_type_with_shape(v->m, t, 1, &d);
    }
    return 0;
}

int hlo_i_batch_norm_training(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret) { return batch_norm(v, op, 1, ret, true); }
int hlo_i_batch_norm_inference(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret) { return batch_norm(v, op, 1, ret, false); }
int hlo_i_batch_norm_grad(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret) { return batch_norm(v, op, 1 | 1 << 4, ret, true); }

/* ---- random ---- */

int hlo_v_rng(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *a = operand(op, 0), *b = operand(op, 1), *s = operand(op, 2), *r = result(op, 0);
    struct hlo_ints dims;
    if (a->rank != 0 || b->rank != 0)
        FAIL("operands a and b must be scalars, but got '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    if (a->elem != b->elem || a->elem != r->elem)
        FAIL("requires the same element type for a, b and the result: '%s', '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b), hlo__type_text(v, r));
    int64_t dist = hlo_op_enum(op, HLO_A_rng_distribution, 0);
    if (dist == HLO_RNG_NORMAL && hlo_elem_class(a->elem) != HLO_CLASS_FLOAT)
        FAIL("a normal distribution must be of floats, but got '%s'", hlo__type_text(v, a));
    if (known(s->dims[0]) && s->dims[0] != r->rank)
        FAIL("inferred rank %lld is incompatible with return type '%s'", (long long)s->dims[0], hlo__type_text(v, r));
    if (hlo__constant_ints(v, op->operands[2].value, &dims))
        for (uint32_t i = 0; i < r->rank && i < dims.n; i++)
            if (!fits(dims.v[i], r->dims[i]))
                FAIL("inferred shape %s is incompatible with return type of operation '%s'", hlo__ints_text(v, dims), hlo__type_text(v, r));
    return 0;
}

int hlo_v_rng_bit_generator(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *s = operand(op, 0), *o = result(op, 0), *r = result(op, 1);
    if (!hlo__type_compatible(s, o))
        FAIL("output state shape must be compatible with initial state shape. Got: '%s' and '%s'", hlo__type_text(v, s), hlo__type_text(v, o));
    enum hlo_elem_class c = hlo_elem_class(r->elem), k = hlo_elem_class(s->elem);
    if (c != HLO_CLASS_SINT && c != HLO_CLASS_UINT && c != HLO_CLASS_FLOAT)
        FAIL("result must be a tensor of integers or floats, but got '%s'", hlo__type_text(v, r));
    if (k != HLO_CLASS_SINT && k != HLO_CLASS_UINT && k != HLO_CLASS_FLOAT)
        FAIL("state must be a tensor of integers or floats, but got '%s'", hlo__type_text(v, s));
    return 0;
}
