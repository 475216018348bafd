/* verify_shape.c: elementwise operations with rules of their own, constants, and operations that move data. */
#include "pipeline/hlo/verify_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)
__extension__ typedef __int128 wide;

static const struct hlo_type *operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value->type; }
static const struct hlo_type *result(const struct hlo_op *op, uint32_t i) { return op->results[i].type; }
static bool known(int64_t d) { return d != HLO_DYNAMIC; }
static bool fits(int64_t a, int64_t b) { return a == b || !known(a) || !known(b); }
static int64_t bound_of(const struct hlo_type *t, uint32_t i) { return t->bounds ? t->bounds[i] : HLO_DYNAMIC; }

/* ---- shared ---- */

bool hlo__unique(struct hlo_ints v)
{
    for (size_t i = 0; i < v.n; i++)
        for (size_t k = i + 1; k < v.n; k++)
            if (v.v[i] == v.v[k])
                return false;
    return true;
}

bool hlo__sorted(struct hlo_ints v)
{
    for (size_t i = 1; i < v.n; i++)
        if (v.v[i - 1] > v.v[i])
            return false;
    return true;
}

/* The shape of t in a fresh list, to be changed. */
static int64_t *copy_dims(struct hlo_verifier *v, const struct hlo_type *t)
{
    int64_t *d = nf_arena_alloc_array(v->m->arena, (size_t)t->rank + 1, sizeof *d);
    if (t->rank)
        memcpy(d, t->dims, t->rank * sizeof *d);
    return d;
}

/* t with another shape and bounds (NULL or all unknown: none) */
static const struct hlo_type *shaped(struct hlo_verifier *v, const struct hlo_type *t, uint32_t rank, const int64_t *dims, const int64_t *bounds)
{
    bool any = false;
    for (uint32_t i = 0; bounds && i < rank; i++)
        any |= known(bounds[i]);
    struct hlo_type n = {.kind = HLO_TYPE_TENSOR, .elem = t->elem, .rank = rank, .dims = dims, .bounds = any ? bounds : NULL, .quant = t->quant, .text = t->text};
    return hlo_type_intern(v->m, &n);
}

static const struct hlo_type *with_elem(struct hlo_verifier *v, const struct hlo_type *t, enum hlo_elem e) { return hlo_type_with_elem(v->m, t, e); }

static bool single_bounded(const struct hlo_type *t)
{
    uint32_t dynamic = 0, bounded = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        dynamic += !known(t->dims[i]);
        bounded += known(bound_of(t, i));
    }
    return dynamic == 0 || (dynamic == 1 && bounded == 1);
}

/* Integers of a constant operand; false if it is no constant. */
bool hlo__constant_ints(struct hlo_verifier *v, const struct hlo_value *value, struct hlo_ints *ret)
{
    const struct hlo_attr *a = hlo_value_constant(value);
    uint64_t n;
    if (!a || !hlo_type_count(a->type, &n) || n > 4096)
        return false;
    int64_t *out = nf_arena_alloc_array(v->m->arena, (size_t)n + 1, sizeof *out);
    size_t got;
    if (!hlo_attr_dense_ints(a, (size_t)n, out, &got))
        return false;
    *ret = (struct hlo_ints){got, out};
    return true;
}

static int same_quant(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *a, const struct hlo_type *b)
{
    const struct hlo_quant *x = a->quant, *y = b->quant;
    if (x->storage != y->storage || x->expressed != y->expressed || x->storage_min != y->storage_min || x->storage_max != y->storage_max)
        FAIL("expects operand and result to have compatible element type: '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    return 0;
}

/* Moving data does not change how it is quantised: per tensor the same scale and zero point, per axis the same list. */
static int moves_quant(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *a, const struct hlo_type *b)
{
    if (a->elem != HLO_ELEM_QUANT && b->elem != HLO_ELEM_QUANT)
        return 0;
    if (a->elem != b->elem)
        FAIL("expects operand and result to have compatible element type: '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    int rc = same_quant(v, op, a, b);
    if (rc)
        return rc;
    const struct hlo_quant *x = a->quant, *y = b->quant;
    if (x->per_axis != y->per_axis || x->count != y->count)
        FAIL("expect same quantization granularity: '%s' and '%s'", hlo__type_text(v, a), hlo__type_text(v, b));
    if (memcmp(x->scales, y->scales, x->count * sizeof(double)) != 0 || memcmp(x->zero_points, y->zero_points, x->count * sizeof(int64_t)) != 0)
        FAIL("expect same quantization scale%s and zero_point%s: '%s' and '%s'", x->per_axis ? "s" : "", x->per_axis ? "s" : "", hlo__type_text(v, a), hlo__type_text(v, b));
    return 0;
}

/* ---- elementwise ---- */

int hlo_i_abs(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    ret[0] = hlo_elem_class(t->elem) == HLO_CLASS_COMPLEX ? with_elem(v, t, hlo_elem_part(t->elem)) : t;
    return 0;
}

int hlo_i_real(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    ret[0] = with_elem(v, t, hlo_elem_part(t->elem));
    return 0;
}

int hlo_i_is_finite(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    ret[0] = with_elem(v, operand(op, 0), HLO_ELEM_I1);
    return 0;
}

int hlo_i_compare(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret) { return hlo_i_is_finite(v, op, ret); }

int hlo_v_compare(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (!hlo__elem_compatible(operand(op, 0), operand(op, 1), true))
        FAIL("requires the same element type for both operands: '%s' and '%s'", hlo__type_text(v, operand(op, 0)), hlo__type_text(v, operand(op, 1)));
    return 0;
}

int hlo_i_complex(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    if (t->elem != operand(op, 1)->elem)
        FAIL("requires the same element type for both parts: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, operand(op, 1)));
    ret[0] = with_elem(v, t, t->elem == HLO_ELEM_F32 ? HLO_ELEM_C64 : HLO_ELEM_C128);
    return 0;
}

int hlo_i_uniform_dequantize(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    ret[0] = with_elem(v, t, t->quant->expressed);
    return 0;
}

int hlo_v_uniform_quantize(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    enum hlo_elem from = t->elem == HLO_ELEM_QUANT ? t->quant->expressed : t->elem;
    if (r->quant->expressed != from)
        FAIL("expressed type of result expected to be '%s', but got '%s'", hlo_elem_name(from), hlo_elem_name(r->quant->expressed));
    return 0;
}

int hlo_v_reduce_precision(struct hlo_verifier *v, const struct hlo_op *op)
{
    int64_t e = hlo_op_i64(op, HLO_A_exponent_bits, 0), m = hlo_op_i64(op, HLO_A_mantissa_bits, 0);
    if (e < 1)
        FAIL("exponent_bits must be at least 1, but got %lld", (long long)e);
    if (m < 0)
        FAIL("mantissa_bits must be at least 0, but got %lld", (long long)m);
    return 0;
}

int hlo_v_add(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *l = operand(op, 0), *r = operand(op, 1), *o = result(op, 0);
    bool any = hlo_type_is_quant(l) || hlo_type_is_quant(r) || hlo_type_is_quant(o);
    if (!any)
        return 0;
    if (!hlo_type_is_quant(l) || !hlo_type_is_quant(r) || !hlo_type_is_quant(o))
        FAIL("expects all operands and results to be either quantized or non-quantized");
    /* a per-axis result keeps the axis of a per-axis operand; a per-tensor one has per-tensor operands */
    if (o->quant->per_axis) {
        if ((l->quant->per_axis && l->quant->axis != o->quant->axis) || (r->quant->per_axis && r->quant->axis != o->quant->axis))
            FAIL("quantization_dimension of %s and result are not same", l->quant->per_axis && l->quant->axis != o->quant->axis ? "lhs" : "rhs");
        if (!l->quant->per_axis && !r->quant->per_axis)
            FAIL("result is not quantized per axis unless an operand is");
    } else if (l->quant->per_axis || r->quant->per_axis) {
        FAIL("result must be quantized per axis when an operand is");
    }
    return 0;
}

int hlo_i_select(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *p = operand(op, 0), *t = operand(op, 1), *f = operand(op, 2);
    if (!hlo__type_compatible(t, f))
        FAIL("requires compatible types for non-predicate operands: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, f));
    if (p->rank != 0 && !hlo__dims_compatible(p, t))
        FAIL("requires the predicate to be a scalar or of the same shape: '%s' and '%s'", hlo__type_text(v, p), hlo__type_text(v, t));
    int64_t *d = copy_dims(v, t);
    for (uint32_t i = 0; i < t->rank; i++)
        d[i] = known(d[i]) ? d[i] : f->dims[i];
    ret[0] = shaped(v, t, t->rank, d, t->bounds);
    return 0;
}

int hlo_i_clamp(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *min = operand(op, 0), *x = operand(op, 1), *max = operand(op, 2);
    for (int i = 0; i < 2; i++) {
        const struct hlo_type *m = i ? max : min;
        if (m->rank != 0 && !hlo__dims_compatible(m, x))
            FAIL("%s shape '%s' is not scalar and is not compatible to operand shape '%s'", i ? "max" : "min", hlo__type_text(v, m), hlo__type_text(v, x));
        if (!hlo__elem_compatible(m, x, true))
            FAIL("requires the same element type for all operands: '%s' and '%s'", hlo__type_text(v, m), hlo__type_text(v, x));
    }
    ret[0] = x;
    return 0;
}

/* ---- constants ---- */

int hlo_v_constant(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_value);
    const struct hlo_type *r = result(op, 0);
    if (a->kind == HLO_ATTR_OPAQUE || !a->type)
        return 0;
    const struct hlo_type *t = a->type;
    if (!r->is_static)
        FAIL("result must have a static shape, but got '%s'", hlo__type_text(v, r));
    bool stores = r->elem == HLO_ELEM_QUANT && t->elem == r->quant->storage && hlo__dims_compatible(t, r);
    if (!stores && !hlo__type_compatible(t, r))
        FAIL("inferred type '%s' is incompatible with the type of the result, '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    return 0;
}

int hlo_v_iota(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *r = result(op, 0);
    int64_t d = hlo_op_i64(op, HLO_A_iota_dimension, 0);
    if (!r->is_static)
        FAIL("result #0 must be statically shaped tensor, but got '%s'", hlo__type_text(v, r));
    if (r->rank == 0)
        FAIL("does not support scalars");
    if (d < 0 || d >= r->rank)
        FAIL("iota dimension %lld cannot go beyond the output rank %u", (long long)d, r->rank);
    return 0;
}

static int check_shape_operand(struct hlo_verifier *v, const struct hlo_op *op, uint32_t i)
{
    const struct hlo_type *s = operand(op, i), *r = result(op, 0);
    struct hlo_ints dims;
    if (!known(s->dims[0]))
        FAIL("operand #%u must be statically shaped, but got '%s'", i, hlo__type_text(v, s));
    if (s->dims[0] != r->rank)
        FAIL("result should have a rank equal to the number of elements in output_shape: '%s' and '%s'", hlo__type_text(v, r), hlo__type_text(v, s));
    if (hlo__constant_ints(v, op->operands[i].value, &dims))
        for (uint32_t k = 0; k < r->rank; k++)
            if (dims.v[k] < 0 || !fits(dims.v[k], r->dims[k]) || (known(bound_of(r, k)) && dims.v[k] > bound_of(r, k)))
                FAIL("output shape %s is incompatible with return type '%s'", hlo__ints_text(v, dims), hlo__type_text(v, r));
    return 0;
}

int hlo_v_dynamic_iota(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *r = result(op, 0);
    int64_t d = hlo_op_i64(op, HLO_A_iota_dimension, 0);
    if (d < 0 || d >= r->rank)
        FAIL("iota dimension %lld cannot go beyond the output rank %u", (long long)d, r->rank);
    return check_shape_operand(v, op, 0);
}

/* ---- shapes ---- */

static int check_broadcast_dims(struct hlo_verifier *v, const struct hlo_op *op, struct hlo_ints dims, const struct hlo_type *t, const struct hlo_type *r)
{
    if (dims.n != t->rank)
        FAIL("broadcast_dimensions size (%zu) does not match operand rank (%u)", dims.n, t->rank);
    if (!hlo__unique(dims))
        FAIL("broadcast_dimensions should not have duplicates: %s", hlo__ints_text(v, dims));
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t d = dims.v[i];
        if (d < 0 || d >= r->rank)
            FAIL("broadcast_dimensions contains invalid value %lld for result with rank %u", (long long)d, r->rank);
        if (known(t->dims[i]) && t->dims[i] != 1 && !fits(t->dims[i], r->dims[d]))
            FAIL("size of operand dimension %u (%lld) is not compatible with size of result dimension %lld (%lld)", i, (long long)t->dims[i], (long long)d, (long long)r->dims[d]);
    }
    return 0;
}

static int check_broadcast_quant(struct hlo_verifier *v, const struct hlo_op *op, struct hlo_ints dims, const struct hlo_type *t, const struct hlo_type *r)
{
    if (t->elem != r->elem || (t->elem == HLO_ELEM_OTHER && !hlo__elem_compatible(t, r, true)))
        FAIL("expects operand and result to have compatible element type: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    if (t->elem != HLO_ELEM_QUANT)
        return 0;
    int rc = same_quant(v, op, t, r);
    if (rc)
        return rc;
    const struct hlo_quant *x = t->quant, *y = r->quant;
    if (x->per_axis != y->per_axis)
        FAIL("expects operand and result to have compatible element type: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    if (!x->per_axis)
        return moves_quant(v, op, t, r);
    if (y->axis != dims.v[x->axis])
        FAIL("result quantization_dimension %lld not same as broadcast_dimensions[%lld] = %lld", (long long)y->axis, (long long)x->axis, (long long)dims.v[x->axis]);
    if (t->dims[x->axis] == 1) {
        for (size_t i = 0; i < y->count; i++) {
            if (y->scales[i] != x->scales[0])
                FAIL("mismatch result scale %zu (%g) and operand scale 0 (%g)", i, y->scales[i], x->scales[0]);
            if (y->zero_points[i] != x->zero_points[0])
                FAIL("mismatch result zero_point %zu (%lld) and operand zero_point 0 (%lld)", i, (long long)y->zero_points[i], (long long)x->zero_points[0]);
        }
        return 0;
    }
    return moves_quant(v, op, t, r);
}

int hlo_v_broadcast_in_dim(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_broadcast_dimensions);
    if (!single_bounded(r))
        FAIL("result #0 must be statically shaped or single bounded dimension tensor, but got '%s'", hlo__type_text(v, r));
    int rc = check_broadcast_dims(v, op, dims, t, r);
    if (!rc)
        rc = check_broadcast_quant(v, op, dims, t, r);
    return rc;
}

int hlo_v_dynamic_broadcast_in_dim(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_broadcast_dimensions), ex = hlo_op_i64s(op, HLO_A_known_expanding_dimensions),
                    non = hlo_op_i64s(op, HLO_A_known_nonexpanding_dimensions);
    int rc = check_broadcast_dims(v, op, dims, t, r);
    if (!rc)
        rc = check_broadcast_quant(v, op, dims, t, r);
    if (rc)
        return rc;
    for (int k = 0; k < 2; k++) {
        struct hlo_ints h = k ? non : ex;
        for (size_t i = 0; i < h.n; i++) {
            if (h.v[i] < 0 || h.v[i] >= t->rank)
                FAIL("hint for expanding dimension %lld does not refer to a valid operand dimension", (long long)h.v[i]);
            for (size_t j = 0; j < ex.n; j++)
                if (k && ex.v[j] == h.v[i])
                    FAIL("duplicate expansion hint for at least one operand dimension");
        }
        if (!hlo__unique(h))
            FAIL("duplicate expansion hint for at least one operand dimension");
    }
    return check_shape_operand(v, op, 1);
}

/* Quantised per axis: what lies before the axis must keep its size, and the axis too. */
static int check_reshape_quant(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *t, const struct hlo_type *r)
{
    if (t->elem != r->elem || (t->elem == HLO_ELEM_OTHER && !hlo__elem_compatible(t, r, true)))
        FAIL("expects operand and result to have compatible element type: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    if (t->elem != HLO_ELEM_QUANT)
        return 0;
    const struct hlo_quant *x = t->quant, *y = r->quant;
    int rc = same_quant(v, op, t, r);
    if (rc)
        return rc;
    if (x->per_axis != y->per_axis)
        FAIL("expects operand and result to have compatible element type: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    if (x->per_axis) {
        if (!fits(t->dims[x->axis], r->dims[y->axis]))
            FAIL("expect same quantization dimension size for operand and result: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
        int64_t before[2] = {1, 1};
        bool all = true;
        for (int64_t i = 0; i < x->axis; i++) {
            all &= known(t->dims[i]);
            before[0] *= t->dims[i];
        }
        for (int64_t i = 0; i < y->axis; i++) {
            all &= known(r->dims[i]);
            before[1] *= r->dims[i];
        }
        if (all && before[0] != before[1])
            FAIL("product of dimensions before quantization dimension must match between operand (%lld) and result (%lld)", (long long)before[0], (long long)before[1]);
    }
    return moves_quant(v, op, t, r);
}

int hlo_v_reshape(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    uint64_t a, b;
    if (!single_bounded(r))
        FAIL("result #0 must be statically shaped or single bounded dimension tensor, but got '%s'", hlo__type_text(v, r));
    if (hlo_type_count(t, &a) && hlo_type_count(r, &b) && a != b)
        FAIL("number of output elements (%llu) doesn't match expected number of elements (%llu): '%s' and '%s'", (unsigned long long)b, (unsigned long long)a,
             hlo__type_text(v, t), hlo__type_text(v, r));
    return check_reshape_quant(v, op, t, r);
}

int hlo_v_dynamic_reshape(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    struct hlo_ints dims;
    uint64_t a, b;
    if (hlo_type_count(t, &a) && hlo_type_count(r, &b) && a != b)
        FAIL("number of output elements (%llu) doesn't match expected number of elements (%llu)", (unsigned long long)b, (unsigned long long)a);
    if (hlo__constant_ints(v, op->operands[1].value, &dims) && hlo_type_count(t, &a)) {
        uint64_t n = 1;
        bool ok = true;
        for (size_t i = 0; i < dims.n; i++)
            ok &= dims.v[i] >= 0 && !__builtin_mul_overflow(n, (uint64_t)dims.v[i], &n);
        if (ok && n != a)
            FAIL("output_shape is incompatible with input type of operation: input has %llu elements, but output_shape has %llu", (unsigned long long)a, (unsigned long long)n);
    }
    int rc = check_reshape_quant(v, op, t, r);
    return rc ? rc : check_shape_operand(v, op, 1);
}

int hlo_v_bitcast_convert(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    bool ct = hlo_elem_class(t->elem) == HLO_CLASS_COMPLEX, cr = hlo_elem_class(r->elem) == HLO_CLASS_COMPLEX;
    if (ct != cr)
        FAIL("cannot convert between real and complex types: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    unsigned a = hlo_elem_bits(hlo_type_storage(t)), b = hlo_elem_bits(hlo_type_storage(r));
    if (a == 0 || b == 0)
        return 0;
    if (a == b) {
        if (!hlo__dims_compatible(t, r))
            FAIL("operand and result shapes must match except for the innermost dimension of the shape with the smaller element type. Got: '%s' and '%s'",
                 hlo__type_text(v, t), hlo__type_text(v, r));
        return 0;
    }
    const struct hlo_type *small = a < b ? t : r, *large = a < b ? r : t;
    unsigned sb = NF_MIN(a, b), lb = NF_MAX(a, b);
    if (small->rank != large->rank + 1)
        FAIL("rank of smaller element type (%u) should be 1 more than rank of larger element type (%u), but %u != %u + 1", small->rank, large->rank, small->rank, large->rank);
    for (uint32_t i = 0; i < large->rank; i++)
        if (!fits(small->dims[i], large->dims[i]))
            FAIL("operand and result shapes must match except for the innermost dimension of the shape with the smaller element type. Got: '%s' and '%s'",
                 hlo__type_text(v, t), hlo__type_text(v, r));
    if (lb % sb || (known(small->dims[large->rank]) && small->dims[large->rank] * sb != lb))
        FAIL("requires compatible bit widths. Got: '%s' and '%s', but %u * %lld != %u", hlo__type_text(v, t), hlo__type_text(v, r), sb, (long long)small->dims[large->rank], lb);
    return 0;
}

int hlo_i_transpose(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    struct hlo_ints perm = hlo_op_i64s(op, HLO_A_permutation);
    if (perm.n != t->rank)
        FAIL("permutation size (%zu) does not match operand rank (%u)", perm.n, t->rank);
    for (size_t i = 0; i < perm.n; i++)
        if (perm.v[i] < 0 || perm.v[i] >= t->rank)
            FAIL("attribute permutation must be a permutation of [0, %u), but got %s", t->rank, hlo__ints_text(v, perm));
    if (!hlo__unique(perm))
        FAIL("attribute permutation must be a permutation of [0, %u), but got %s", t->rank, hlo__ints_text(v, perm));
    int64_t *d = copy_dims(v, t), *b = copy_dims(v, t);
    for (uint32_t i = 0; i < t->rank; i++) {
        d[i] = t->dims[perm.v[i]];
        b[i] = bound_of(t, (uint32_t)perm.v[i]);
    }
    if (t->elem == HLO_ELEM_QUANT && r->elem == HLO_ELEM_QUANT) {
        int rc = moves_quant(v, op, t, r);
        if (rc)
            return rc;
        if (t->quant->per_axis && perm.v[r->quant->axis] != t->quant->axis)
            FAIL("operand quantization_dimension %lld is not same as permutation[%lld] = %lld", (long long)t->quant->axis, (long long)r->quant->axis, (long long)perm.v[r->quant->axis]);
    }
    ret[0] = shaped(v, t, t->rank, d, b);
    return 0;
}

int hlo_v_reverse(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_dimensions);
    if (!hlo__unique(dims))
        FAIL("dimensions should be unique. Got: %s", hlo__ints_text(v, dims));
    for (size_t i = 0; i < dims.n; i++) {
        if (dims.v[i] < 0)
            FAIL("all dimensions should be non-negative. Got dimension: %lld", (long long)dims.v[i]);
        if (dims.v[i] >= t->rank)
            FAIL("all dimensions should be between [0, %u). Got dimension: %lld", t->rank, (long long)dims.v[i]);
    }
    return 0;
}

int hlo_i_concatenate(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    int64_t d = hlo_op_i64(op, HLO_A_dimension, 0);
    if (op->num_operands == 0)
        FAIL("expected 1 or more operands, but found 0");
    const struct hlo_type *first = operand(op, 0);
    if (d < 0)
        FAIL("attribute 'dimension' must be non-negative, but got %lld", (long long)d);
    if (first->rank == 0)
        FAIL("rank-0 values cannot be concatenated");
    if (d >= first->rank)
        FAIL("dimension %lld is out-of-bounds for input rank %u", (long long)d, first->rank);
    int64_t *dims = copy_dims(v, first), *bounds = copy_dims(v, first);
    int64_t bound = 0;
    bool dynamic = false, bounded = false;
    for (uint32_t k = 0; k < first->rank; k++)
        bounds[k] = bound_of(first, k);
    dims[d] = 0;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_type *t = operand(op, i);
        if (t->rank != first->rank)
            FAIL("operands (0) and (%u) do not match rank", i);
        if (!hlo__elem_compatible(first, t, true))
            FAIL("requires the same element type for all operands: '%s' and '%s'", hlo__type_text(v, first), hlo__type_text(v, t));
        for (uint32_t k = 0; k < t->rank; k++) {
            if (k == d)
                continue;
            if (!fits(dims[k], t->dims[k]))
                FAIL("shapes of operand (0) and (%u) are not compatible at non-concat index %u: '%s' and '%s'", i, k, hlo__type_text(v, first), hlo__type_text(v, t));
            if (!known(dims[k]))
                dims[k] = t->dims[k];
        }
        if (known(t->dims[d])) {
            dynamic = dynamic || __builtin_add_overflow(dims[d], t->dims[d], &dims[d]);
            bound += t->dims[d];
        } else {
            dynamic = true;
            bounded = known(bound_of(t, (uint32_t)d));
            bound += bounded ? bound_of(t, (uint32_t)d) : 0;
        }
    }
    if (dynamic)
        dims[d] = HLO_DYNAMIC;
    bounds[d] = dynamic && bounded ? bound : HLO_DYNAMIC;
    for (uint32_t k = 0; k < first->rank; k++)
        if (known(dims[k]))
            bounds[k] = HLO_DYNAMIC;
    ret[0] = shaped(v, first, first->rank, dims, bounds);
    return 0;
}

int hlo_i_slice(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints s = hlo_op_i64s(op, HLO_A_start_indices), l = hlo_op_i64s(op, HLO_A_limit_indices), st = hlo_op_i64s(op, HLO_A_strides);
    if (s.n != t->rank || l.n != t->rank || st.n != t->rank)
        FAIL("the number of elements in start_indices (%zu), limit_indices (%zu) and strides (%zu) does not match the rank of the operand (%u)", s.n, l.n, st.n, t->rank);
    int64_t *d = copy_dims(v, t);
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t b = bound_of(t, i);
        if (s.v[i] < 0)
            FAIL("negative start index %lld in dimension %u", (long long)s.v[i], i);
        if (known(t->dims[i]) && l.v[i] > t->dims[i])
            FAIL("limit index %lld is larger than dimension size %lld in dimension %u", (long long)l.v[i], (long long)t->dims[i], i);
        if (known(b) && l.v[i] > b)
            FAIL("limit index %lld is larger than dimension bound %lld in dimension %u", (long long)l.v[i], (long long)b, i);
        if (s.v[i] > l.v[i])
            FAIL("start index %lld is larger than limit index %lld in dimension %u", (long long)s.v[i], (long long)l.v[i], i);
        if (st.v[i] <= 0)
            FAIL("stride must be positive but got %lld in dimension %u", (long long)st.v[i], i);
        d[i] = (l.v[i] - s.v[i]) / st.v[i] + ((l.v[i] - s.v[i]) % st.v[i] != 0);
    }
    ret[0] = shaped(v, t, t->rank, d, NULL);
    return 0;
}

static int check_index_operands(struct hlo_verifier *v, const struct hlo_op *op, uint32_t from, uint32_t rank)
{
    if (op->num_operands - from != rank)
        FAIL("has mismatched number of start indices (%u) and the rank of operand (%u)", op->num_operands - from, rank);
    for (uint32_t i = from + 1; i < op->num_operands; i++)
        if (operand(op, i)->elem != operand(op, from)->elem)
            FAIL("start indices must have same element type: '%s' and '%s'", hlo__type_text(v, operand(op, from)), hlo__type_text(v, operand(op, i)));
    return 0;
}

int hlo_i_dynamic_slice(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints sizes = hlo_op_i64s(op, HLO_A_slice_sizes);
    int rc = check_index_operands(v, op, 1, t->rank);
    if (rc)
        return rc;
    if (sizes.n != t->rank)
        FAIL("has mismatched number of slice sizes (%zu) and the rank of operand (%u)", sizes.n, t->rank);
    for (uint32_t i = 0; i < t->rank; i++) {
        if (sizes.v[i] < 0)
            FAIL("has negative size index to dynamic slice: %lld", (long long)sizes.v[i]);
        if (known(t->dims[i]) && sizes.v[i] > t->dims[i])
            FAIL("has slice size %lld greater than dimension size %lld in dimension %u of operand", (long long)sizes.v[i], (long long)t->dims[i], i);
    }
    ret[0] = shaped(v, t, t->rank, sizes.v, NULL);
    return 0;
}

int hlo_i_dynamic_update_slice(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0), *u = operand(op, 1);
    if (u->rank != t->rank)
        FAIL("update rank does not match operand rank: %u vs %u", u->rank, t->rank);
    int rc = check_index_operands(v, op, 2, t->rank);
    if (rc)
        return rc;
    if (!hlo__elem_compatible(t, u, true))
        FAIL("requires the same element type for operand and update: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, u));
    for (uint32_t i = 0; i < t->rank; i++)
        if (known(u->dims[i]) && known(t->dims[i]) && u->dims[i] > t->dims[i])
            FAIL("expects size at dimension %u of update to be in range [0, %lld]. Got: %lld", i, (long long)t->dims[i], (long long)u->dims[i]);
    ret[0] = t;
    return 0;
}

int hlo_i_pad(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0), *p = operand(op, 1);
    struct hlo_ints low = hlo_op_i64s(op, HLO_A_edge_padding_low), high = hlo_op_i64s(op, HLO_A_edge_padding_high), in = hlo_op_i64s(op, HLO_A_interior_padding);
    if (p->rank != 0)
        FAIL("padding value type should be a rank-0 tensor, is rank %u", p->rank);
    if (!hlo__elem_compatible(t, p, true))
        FAIL("requires the same element type for operand and padding value: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, p));
    if (low.n != t->rank)
        FAIL("edge_padding_low length (%zu) must match operand rank (%u)", low.n, t->rank);
    if (high.n != t->rank)
        FAIL("edge_padding_high length (%zu) must match operand rank (%u)", high.n, t->rank);
    if (in.n != t->rank)
        FAIL("interior_padding length (%zu) must match operand rank (%u)", in.n, t->rank);
    int64_t *d = copy_dims(v, t), *b = copy_dims(v, t);
    for (uint32_t i = 0; i < t->rank; i++) {
        if (in.v[i] < 0)
            FAIL("Interior padding cannot be negative: %lld", (long long)in.v[i]);
        bool bounded = !known(t->dims[i]) && known(bound_of(t, i));
        b[i] = HLO_DYNAMIC;
        if (!known(t->dims[i]) && !bounded)
            continue;
        int64_t size = bounded ? bound_of(t, i) : t->dims[i];
        wide total = (wide)size + low.v[i] + high.v[i] + (wide)(size > 1 ? size - 1 : 0) * in.v[i];
        if (total < 0)
            FAIL("Padding result in negative %s for dimension %u", bounded ? "bound" : "size", i);
        if (total > INT64_MAX)
            FAIL("Padding result is too large in dimension %u", i);
        *(bounded ? &b[i] : &d[i]) = (int64_t)total;
    }
    ret[0] = shaped(v, t, t->rank, d, b);
    return 0;
}

int hlo_v_dynamic_pad(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *p = operand(op, 1), *r = result(op, 0);
    struct hlo_ints lo, hi, in;
    if (p->rank != 0)
        FAIL("padding value type should be a rank-0 tensor, is rank %u", p->rank);
    if (!hlo__elem_compatible(t, p, true) || !hlo__elem_compatible(t, r, true))
        FAIL("requires the same element type for operand, padding value and result: '%s', '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, p), hlo__type_text(v, r));
    for (uint32_t i = 2; i < 5; i++) {
        if (operand(op, i)->elem != operand(op, 2)->elem)
            FAIL("requires the same element type for the padding operands");
        if (known(operand(op, i)->dims[0]) && operand(op, i)->dims[0] != t->rank)
            FAIL("padding operands size (%lld) must match operand rank (%u)", (long long)operand(op, i)->dims[0], t->rank);
    }
    if (t->rank != r->rank)
        FAIL("operand and result must have the same rank: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    bool have_in = hlo__constant_ints(v, op->operands[4].value, &in);
    for (size_t i = 0; have_in && i < in.n; i++)
        if (in.v[i] < 0)
            FAIL("interior_padding must be non-negative, but got %lld", (long long)in.v[i]);
    if (have_in && hlo__constant_ints(v, op->operands[2].value, &lo) && hlo__constant_ints(v, op->operands[3].value, &hi))
        for (uint32_t i = 0; i < t->rank && i < lo.n && i < hi.n && i < in.n; i++) {
            if (!known(t->dims[i]) || !known(r->dims[i]))
                continue;
            wide total = (wide)t->dims[i] + lo.v[i] + hi.v[i] + (wide)(t->dims[i] > 1 ? t->dims[i] - 1 : 0) * in.v[i];
            if (total != r->dims[i])
                FAIL("expected output dimension at index %u to equal %lld, but got %lld", i, (long long)total, (long long)r->dims[i]);
        }
    return 0;
}

int hlo_v_real_dynamic_slice(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = result(op, 0);
    static const char *const names[] = {"", "start_indices", "limit_indices", "strides"};
    for (uint32_t i = 1; i < 4; i++) {
        if (known(operand(op, i)->dims[0]) && operand(op, i)->dims[0] != t->rank)
            FAIL("has mismatched number of operand rank (%u) and %s size (%lld)", t->rank, names[i], (long long)operand(op, i)->dims[0]);
        if (operand(op, i)->elem != operand(op, 1)->elem)
            FAIL("requires the same element type for the index operands: '%s' and '%s'", hlo__type_text(v, operand(op, 1)), hlo__type_text(v, operand(op, i)));
    }
    if (!hlo__elem_compatible(t, r, true) || t->rank != r->rank)
        FAIL("operand and result must have the same rank and element type: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    return 0;
}

/* ---- sizes ---- */

int hlo_i_get_dimension_size(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    int64_t d = hlo_op_i64(op, HLO_A_dimension, 0);
    if (d < 0 || d >= t->rank)
        FAIL("requires dimension attribute in range [0, %u); found (%lld)", t->rank, (long long)d);
    ret[0] = hlo_type_tensor(v->m, HLO_ELEM_I32, 0, NULL);
    return 0;
}

int hlo_i_set_dimension_size(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0), *s = operand(op, 1);
    int64_t d = hlo_op_i64(op, HLO_A_dimension, 0);
    if (s->rank != 0)
        FAIL("size operand should be of rank-0, but got '%s'", hlo__type_text(v, s));
    if (s->elem != HLO_ELEM_I32)
        FAIL("size operand must be tensor<i32>, but got '%s'", hlo__type_text(v, s));
    if (d < 0 || d >= t->rank)
        FAIL("requires dimension attribute in range [0, %u); found (%lld)", t->rank, (long long)d);
    int64_t *dims = copy_dims(v, t), *bounds = copy_dims(v, t);
    struct hlo_ints size;
    for (uint32_t i = 0; i < t->rank; i++)
        bounds[i] = bound_of(t, i);
    if (hlo__constant_ints(v, op->operands[1].value, &size) && size.n == 1 && size.v[0] == t->dims[d]) {
        ret[0] = t;
        return 0;
    }
    if (known(dims[d]))
        bounds[d] = dims[d];
    dims[d] = HLO_DYNAMIC;
    ret[0] = shaped(v, t, t->rank, dims, bounds);
    return 0;
}

/* ---- deprecated ---- */

int hlo_i_broadcast(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints sizes = hlo_op_i64s(op, HLO_A_broadcast_sizes);
    int64_t *d = nf_arena_alloc_array(v->m->arena, sizes.n + t->rank + 1, sizeof *d);
    for (size_t i = 0; i < sizes.n; i++) {
        if (sizes.v[i] < 0)
            FAIL("Broadcast with negative dimension size %lld", (long long)sizes.v[i]);
        d[i] = sizes.v[i];
    }
    if (t->rank)
        memcpy(d + sizes.n, t->dims, t->rank * sizeof *d);
    ret[0] = shaped(v, t, (uint32_t)sizes.n + t->rank, d, NULL);
    return 0;
}

int hlo_i_torch_index_select(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0), *x = operand(op, 1);
    int64_t dim = hlo_op_i64(op, HLO_A_dim, 0), batch = hlo_op_i64(op, HLO_A_batch_dims, 0);
    if (dim < 0 || dim >= t->rank || batch < 0 || batch > x->rank || batch > dim)
        FAIL("dim (%lld) and batch_dims (%lld) must be valid for operand '%s' and index '%s'", (long long)dim, (long long)batch, hlo__type_text(v, t), hlo__type_text(v, x));
    int64_t *d = nf_arena_alloc_array(v->m->arena, (size_t)t->rank + x->rank + 1, sizeof *d);
    uint32_t n = 0;
    for (int64_t i = 0; i < dim; i++)
        d[n++] = t->dims[i];
    for (int64_t i = batch; i < x->rank; i++)
        d[n++] = x->dims[i];
    for (int64_t i = dim + 1; i < t->rank; i++)
        d[n++] = t->dims[i];
    ret[0] = shaped(v, t, n, d, NULL);
    return 0;
}
