/* pass_fold.c: integer arithmetic on constants, movement of small integer constants, sizes of known dimensions.
 *
 * Only what is exact: integers and i1, two's complement of their width, at most MAX_ELEMENTS elements. Floats stay: folding them
 * could change which NaN or rounding a device gives. */
#include "pipeline/hlo/passes.h"

#include "pipeline/hlo/hlo_internal.h"

#define MAX_ELEMENTS 4096

struct ints {
    uint64_t n;
    int64_t *v;
};

static bool foldable(const struct hlo_type *t, uint64_t *ret_n)
{
    if (t->kind != HLO_TYPE_TENSOR || t->bounds || t->encoding)
        return false;
    enum hlo_elem_class c = hlo_elem_class(t->elem);
    return (c == HLO_CLASS_BOOL || c == HLO_CLASS_SINT || c == HLO_CLASS_UINT || c == HLO_CLASS_INDEX) && hlo_type_count(t, ret_n) && *ret_n <= MAX_ELEMENTS;
}

static bool constant_of(struct nf_arena *scratch, const struct hlo_value *v, struct ints *ret)
{
    const struct hlo_attr *a = hlo_value_constant(v);
    if (!a || !foldable(a->type, &ret->n))
        return false;
    ret->v = NF_NEW_ARRAY(scratch, int64_t, (size_t)ret->n + 1);
    for (size_t i = 0; i < ret->n; i++)
        ret->v[i] = hlo_attr_dense_int_at(a, i);
    return true;
}

/* v as the element kind keeps it. */
static int64_t wrap(enum hlo_elem e, int64_t v)
{
    unsigned bits = hlo_elem_bits(e);
    if (bits >= 64)
        return v;
    uint64_t low = (uint64_t)v & (((uint64_t)1 << bits) - 1);
    if (hlo_elem_class(e) != HLO_CLASS_SINT)
        return (int64_t)low;
    return (int64_t)(low << (64 - bits)) >> (64 - bits);
}

static const struct hlo_attr *make(struct hlo_module *m, const struct hlo_type *t, const int64_t *v, uint64_t n)
{
    size_t each = hlo_elem_bytes(t->elem);
    char *raw = nf_arena_alloc_raw(m->arena, (size_t)n * each + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(raw + i * each, &v[i], each);
    return hlo_attr_dense(m, t, nf_str_n(raw, (size_t)n * each), false);
}

static bool is_unsigned(enum hlo_elem e) { return hlo_elem_class(e) == HLO_CLASS_UINT || hlo_elem_class(e) == HLO_CLASS_BOOL; }

static bool less(enum hlo_elem e, int64_t a, int64_t b) { return is_unsigned(e) ? (uint64_t)a < (uint64_t)b : a < b; }

/* Division and remainder only where every machine agrees. */
static bool binary(enum hlo_op_id id, enum hlo_elem e, int64_t a, int64_t b, int64_t *ret)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    bool boolean = e == HLO_ELEM_I1;
    if (id == HLO_OP_ADD)
        *ret = boolean ? a | b : (int64_t)(x + y);
    else if (id == HLO_OP_SUBTRACT)
        *ret = (int64_t)(x - y);
    else if (id == HLO_OP_MULTIPLY)
        *ret = boolean ? a & b : (int64_t)(x * y);
    else if (id == HLO_OP_AND)
        *ret = a & b;
    else if (id == HLO_OP_OR)
        *ret = a | b;
    else if (id == HLO_OP_XOR)
        *ret = a ^ b;
    else if (id == HLO_OP_MAXIMUM)
        *ret = less(e, a, b) ? b : a;
    else if (id == HLO_OP_MINIMUM)
        *ret = less(e, a, b) ? a : b;
    else if (id == HLO_OP_DIVIDE || id == HLO_OP_REMAINDER) {
        if (b == 0 || boolean || (!is_unsigned(e) && b == -1))
            return false;
        bool div = id == HLO_OP_DIVIDE;
        *ret = is_unsigned(e) ? (int64_t)(div ? x / y : x % y) : div ? a / b : a % b;
    } else {
        return false;
    }
    *ret = wrap(e, *ret);
    return true;
}

static bool compare(enum hlo_direction d, enum hlo_elem e, int64_t a, int64_t b)
{
    switch (d) {
    case HLO_EQ: return a == b;
    case HLO_NE: return a != b;
    case HLO_GE: return !less(e, a, b);
    case HLO_GT: return less(e, b, a);
    case HLO_LE: return !less(e, b, a);
    case HLO_LT: return less(e, a, b);
    }
    return false;
}

/* Row-major position of an element, dimension by dimension. */
static void position(const struct hlo_type *t, uint64_t i, int64_t *at)
{
    for (uint32_t d = t->rank; d-- > 0;) {
        at[d] = (int64_t)(i % (uint64_t)t->dims[d]);
        i /= (uint64_t)t->dims[d];
    }
}

static uint64_t index_of(const struct hlo_type *t, const int64_t *at)
{
    uint64_t i = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        i = i * (uint64_t)t->dims[d] + (uint64_t)at[d];
    return i;
}

#define MAX_FOLD_RANK 16

/* The constant that op computes, or NULL. */
static const struct hlo_attr *fold(struct hlo_module *m, struct nf_arena *scratch, struct hlo_op *op)
{
    const struct hlo_type *t = op->num_results == 1 ? op->results[0].type : NULL;
    uint64_t n;
    if (!t || op->num_regions || op->num_dict || !foldable(t, &n) || t->rank > MAX_FOLD_RANK)
        return NULL;
    struct ints a = {0, NULL}, b = {0, NULL}, c = {0, NULL};
    int64_t *out = NF_NEW_ARRAY(scratch, int64_t, (size_t)n + 1), at[MAX_FOLD_RANK], from[MAX_FOLD_RANK];
    if (op->id == HLO_OP_GET_DIMENSION_SIZE) {
        const struct hlo_type *o = op->operands[0].value->type;
        int64_t size = o->dims[hlo_op_i64(op, HLO_A_dimension, 0)];
        return size == HLO_DYNAMIC || size > INT32_MAX ? NULL : make(m, t, &size, 1);
    }
    if (op->id == HLO_OP_CONCATENATE) {
        int64_t dim = hlo_op_i64(op, HLO_A_dimension, 0), base = 0;
        for (uint32_t k = 0; k < op->num_operands; k++) {
            const struct hlo_type *o = op->operands[k].value->type;
            if (!constant_of(scratch, op->operands[k].value, &a))
                return NULL;
            for (uint64_t i = 0; i < a.n; i++) {
                position(o, i, at);
                at[dim] += base;
                out[index_of(t, at)] = a.v[i];
            }
            base += o->dims[dim];
        }
        return make(m, t, out, n);
    }
    if (op->num_operands < 1 || op->num_operands > 3 || !constant_of(scratch, op->operands[0].value, &a) ||
        (op->num_operands > 1 && !constant_of(scratch, op->operands[1].value, &b)) || (op->num_operands > 2 && !constant_of(scratch, op->operands[2].value, &c)))
        return NULL;
    const struct hlo_type *o = op->operands[0].value->type;
    if (o->rank > MAX_FOLD_RANK)
        return NULL;
    switch (op->id) {
    case HLO_OP_RESHAPE:
        return make(m, t, a.v, n);
    case HLO_OP_CONVERT:
        for (uint64_t i = 0; i < n; i++)
            out[i] = t->elem == HLO_ELEM_I1 ? a.v[i] != 0 : wrap(t->elem, a.v[i]);
        return make(m, t, out, n);
    case HLO_OP_NEGATE:
        for (uint64_t i = 0; i < n; i++)
            out[i] = wrap(t->elem, (int64_t)(0 - (uint64_t)a.v[i]));
        return make(m, t, out, n);
    case HLO_OP_NOT:
        for (uint64_t i = 0; i < n; i++)
            out[i] = t->elem == HLO_ELEM_I1 ? !a.v[i] : wrap(t->elem, ~a.v[i]);
        return make(m, t, out, n);
    case HLO_OP_COMPARE:
        for (uint64_t i = 0; i < n; i++)
            out[i] = compare((enum hlo_direction)hlo_op_enum(op, HLO_A_comparison_direction, HLO_EQ), o->elem, a.v[i], b.v[i]);
        return make(m, t, out, n);
    case HLO_OP_SELECT:
        for (uint64_t i = 0; i < n; i++)
            out[i] = a.v[a.n == 1 ? 0 : i] ? b.v[i] : c.v[i];
        return make(m, t, out, n);
    case HLO_OP_BROADCAST_IN_DIM: {
        struct hlo_ints d = hlo_op_i64s(op, HLO_A_broadcast_dimensions);
        for (uint64_t i = 0; i < n; i++) {
            position(t, i, at);
            for (uint32_t k = 0; k < o->rank; k++)
                from[k] = o->dims[k] == 1 ? 0 : at[d.v[k]];
            out[i] = a.v[index_of(o, from)];
        }
        return make(m, t, out, n);
    }
    case HLO_OP_TRANSPOSE: {
        struct hlo_ints d = hlo_op_i64s(op, HLO_A_permutation);
        for (uint64_t i = 0; i < n; i++) {
            position(t, i, at);
            for (uint32_t k = 0; k < t->rank; k++)
                from[d.v[k]] = at[k];
            out[i] = a.v[index_of(o, from)];
        }
        return make(m, t, out, n);
    }
    case HLO_OP_SLICE: {
        struct hlo_ints s = hlo_op_i64s(op, HLO_A_start_indices), st = hlo_op_i64s(op, HLO_A_strides);
        for (uint64_t i = 0; i < n; i++) {
            position(t, i, at);
            for (uint32_t k = 0; k < t->rank; k++)
                from[k] = s.v[k] + at[k] * st.v[k];
            out[i] = a.v[index_of(o, from)];
        }
        return make(m, t, out, n);
    }
    default:
        break;
    }
    if (op->num_operands != 2 || a.n != n || b.n != n)
        return NULL;
    for (uint64_t i = 0; i < n; i++)
        if (!binary((enum hlo_op_id)op->id, t->elem, a.v[i], b.v[i], &out[i]))
            return NULL;
    return make(m, t, out, n);
}

int hlo_pass_fold(struct hlo_module *m, struct nf_error *err)
{
    (void)err;
    struct hlo_walk w = hlo_walk_of(m->op);
    struct nf_arena *scratch = nf_arena_new(0);
    unsigned since = 0;
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        const struct hlo_attr *a = fold(m, scratch, op);
        if (++since == 4096) { /* what folding needed for a moment */
            nf_arena_free(scratch);
            scratch = nf_arena_new(0);
            since = 0;
        }
        if (!a)
            continue;
        struct hlo_value *c = hlo_build_constant(m, op->block, op, a);
        hlo_op_replace(op, &c);
    }
    nf_arena_free(scratch);
    return hlo_pass_dce(m, err);
}
