/* pass_refine.c: shapes from what is known.
 *
 * In the order of the program: an operation whose operands say more about its result than its type gives it that type; one whose
 * shape operand is a constant gets the shape, and becomes the static operation. Arguments of functions stay as the program gives
 * them; a private function that is called from one place only takes the types of that call. Loops keep their types. */
#include "pipeline/hlo/passes.h"

#include "pipeline/hlo/verify_internal.h"

static bool known(int64_t d) { return d != HLO_DYNAMIC; }

/* t with the dimensions that `by` knows and t does not; t itself when there is nothing new, or they contradict. */
static const struct hlo_type *merge(struct hlo_module *m, const struct hlo_type *t, const struct hlo_type *by)
{
    if (t == by || t->kind != HLO_TYPE_TENSOR || by->kind != HLO_TYPE_TENSOR || t->rank != by->rank || t->is_static)
        return t;
    int64_t *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1), *b = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
    bool bounded = false, any = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        d[i] = t->dims[i];
        b[i] = t->bounds ? t->bounds[i] : HLO_DYNAMIC;
        if (!known(d[i]) && known(by->dims[i])) {
            d[i] = by->dims[i];
            b[i] = HLO_DYNAMIC;
            any = true;
        }
        bounded |= known(b[i]);
    }
    if (!any)
        return t;
    struct hlo_type n = *t;
    n.dims = d;
    n.bounds = bounded ? b : NULL;
    return hlo_type_intern(m, &n);
}

static bool set_result(struct hlo_module *m, struct hlo_op *op, uint32_t i, const struct hlo_type *by)
{
    const struct hlo_type *t = merge(m, op->results[i].type, by);
    if (t == op->results[i].type)
        return false;
    op->results[i].type = t;
    return true;
}

/* Operations that take a shape as an operand: its index; -1 for others. */
static int shape_operand(enum hlo_op_id id)
{
    switch ((unsigned)id) {
    case HLO_OP_DYNAMIC_IOTA:
        return 0;
    case HLO_OP_DYNAMIC_RESHAPE:
    case HLO_OP_DYNAMIC_BROADCAST_IN_DIM:
        return 1;
    case HLO_OP_RNG:
        return 2;
    default:
        return -1;
    }
}

/* The static operation for a dynamic one whose operands are constants by now. */
static void make_static(struct hlo_verifier *v, struct hlo_op *op)
{
    struct hlo_module *m = v->m;
    struct hlo_ints lo, hi, in;
    if (!op->results[0].type->is_static)
        return;
    switch (op->id) {
    case HLO_OP_DYNAMIC_IOTA: {
        struct hlo_op *by = hlo__instead(m, op, HLO_OP_IOTA, 0);
        hlo_op_set_attr(by, HLO_A_iota_dimension, hlo_op_attr(op, HLO_A_iota_dimension));
        hlo__replace(op, by);
        return;
    }
    case HLO_OP_DYNAMIC_RESHAPE:
        if (op->operands[0].value->type->is_static)
            hlo__replace(op, hlo__instead(m, op, HLO_OP_RESHAPE, 1));
        return;
    case HLO_OP_DYNAMIC_BROADCAST_IN_DIM: {
        if (!op->operands[0].value->type->is_static)
            return;
        struct hlo_op *by = hlo__instead(m, op, HLO_OP_BROADCAST_IN_DIM, 1);
        hlo_op_set_attr(by, HLO_A_broadcast_dimensions, hlo_op_attr(op, HLO_A_broadcast_dimensions));
        hlo__replace(op, by);
        return;
    }
    case HLO_OP_DYNAMIC_PAD: {
        if (!op->operands[0].value->type->is_static || !hlo__constant_ints(v, op->operands[2].value, &lo) || !hlo__constant_ints(v, op->operands[3].value, &hi) ||
            !hlo__constant_ints(v, op->operands[4].value, &in))
            return;
        struct hlo_op *by = hlo__instead(m, op, HLO_OP_PAD, 2);
        hlo_op_set_attr(by, HLO_A_edge_padding_low, hlo_attr_i64s(m, lo.n, lo.v));
        hlo_op_set_attr(by, HLO_A_edge_padding_high, hlo_attr_i64s(m, hi.n, hi.v));
        hlo_op_set_attr(by, HLO_A_interior_padding, hlo_attr_i64s(m, in.n, in.v));
        hlo__replace(op, by);
        return;
    }
    case HLO_OP_REAL_DYNAMIC_SLICE: {
        if (!op->operands[0].value->type->is_static || !hlo__constant_ints(v, op->operands[1].value, &lo) || !hlo__constant_ints(v, op->operands[2].value, &hi) ||
            !hlo__constant_ints(v, op->operands[3].value, &in))
            return;
        struct hlo_op *by = hlo__instead(m, op, HLO_OP_SLICE, 1);
        hlo_op_set_attr(by, HLO_A_start_indices, hlo_attr_i64s(m, lo.n, lo.v));
        hlo_op_set_attr(by, HLO_A_limit_indices, hlo_attr_i64s(m, hi.n, hi.v));
        hlo_op_set_attr(by, HLO_A_strides, hlo_attr_i64s(m, in.n, in.v));
        hlo__replace(op, by);
        return;
    }
    case HLO_OP_DYNAMIC_GATHER: {
        if (!op->operands[0].value->type->is_static || !hlo__constant_ints(v, op->operands[2].value, &lo))
            return;
        struct hlo_op *by = hlo__instead(m, op, HLO_OP_GATHER, 2);
        hlo_op_set_attr(by, HLO_A_dimension_numbers, hlo_op_attr(op, HLO_A_dimension_numbers));
        hlo_op_set_attr(by, HLO_A_slice_sizes, hlo_attr_i64s(m, lo.n, lo.v));
        hlo_op_set_attr(by, HLO_A_indices_are_sorted, hlo_op_attr(op, HLO_A_indices_are_sorted));
        hlo__replace(op, by);
        return;
    }
    default:
        return;
    }
}

/* Shapes of results that only this pass works out, because the verifier takes them as given. */
static void refine_given(struct hlo_verifier *v, struct hlo_op *op)
{
    struct hlo_module *m = v->m;
    const struct hlo_type *t = op->operands[0].value->type, *r = op->results[0].type;
    struct hlo_ints lo, hi, in;
    if (op->id == HLO_OP_DYNAMIC_PAD && t->kind == HLO_TYPE_TENSOR && hlo__constant_ints(v, op->operands[2].value, &lo) && hlo__constant_ints(v, op->operands[3].value, &hi) &&
        hlo__constant_ints(v, op->operands[4].value, &in) && lo.n == t->rank && hi.n == t->rank && in.n == t->rank) {
        int64_t *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
        for (uint32_t i = 0; i < t->rank; i++)
            d[i] = known(t->dims[i]) ? t->dims[i] + lo.v[i] + hi.v[i] + (t->dims[i] > 1 ? t->dims[i] - 1 : 0) * in.v[i] : HLO_DYNAMIC;
        set_result(m, op, 0, hlo_type_with_shape(m, r, t->rank, d));
    }
    if (op->id == HLO_OP_REAL_DYNAMIC_SLICE && hlo__constant_ints(v, op->operands[1].value, &lo) && hlo__constant_ints(v, op->operands[2].value, &hi) &&
        hlo__constant_ints(v, op->operands[3].value, &in) && lo.n == t->rank && hi.n == t->rank && in.n == t->rank) {
        int64_t *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
        for (uint32_t i = 0; i < t->rank; i++) {
            if (in.v[i] <= 0 || hi.v[i] < lo.v[i])
                return;
            d[i] = (hi.v[i] - lo.v[i]) / in.v[i] + ((hi.v[i] - lo.v[i]) % in.v[i] != 0);
        }
        set_result(m, op, 0, hlo_type_with_shape(m, r, t->rank, d));
    }
}

static void refine_op(struct hlo_verifier *v, struct hlo_op *op)
{
    struct hlo_module *m = v->m;
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    bool open = false;
    for (uint32_t i = 0; i < op->num_results; i++)
        open |= op->results[i].type->kind == HLO_TYPE_TENSOR && !op->results[i].type->is_static;
    if (!open || op->id == HLO_OP_WHILE) {
        if (op->num_results == 1 && op->num_operands)
            make_static(v, op);
        return;
    }
    if (info->traits & (HLO_T_SAME_TYPE | HLO_T_SAME_SHAPE))
        for (uint32_t i = 0; i < op->num_operands; i++)
            for (uint32_t k = 0; k < op->num_results; k++)
                set_result(m, op, k, op->operands[i].value->type);
    if (info->infer && op->num_results <= 64) {
        const struct hlo_type *types[64] = {NULL};
        if (info->infer(v, op, types) == 0)
            for (uint32_t i = 0; i < op->num_results; i++)
                if (types[i] && hlo__type_compatible(types[i], op->results[i].type))
                    set_result(m, op, i, types[i]);
    }
    int shape = shape_operand((enum hlo_op_id)op->id);
    struct hlo_ints d;
    if (shape >= 0 && hlo__constant_ints(v, op->operands[shape].value, &d) && d.n == op->results[0].type->rank)
        set_result(m, op, 0, hlo_type_with_shape(m, op->results[0].type, (uint32_t)d.n, d.v));
    if (op->num_operands && op->num_results == 1) {
        refine_given(v, op);
        make_static(v, op);
    }
}

/* Types that a function returns are those of its return; types of a call are those of its function. */
static void refine_results(struct hlo_module *m, struct hlo_op *func)
{
    struct hlo_block *b = hlo_func_block(func);
    const struct hlo_type *t = hlo_func_type(func);
    if (!b || !t || !b->last || b->last->id != HLO_OP_FUNC_RETURN)
        return;
    uint32_t n = b->last->num_operands;
    const struct hlo_type **in = NF_NEW_ARRAY(m->arena, const struct hlo_type *, (size_t)b->num_args + 1), **out = NF_NEW_ARRAY(m->arena, const struct hlo_type *, (size_t)n + 1);
    for (uint32_t i = 0; i < b->num_args; i++)
        in[i] = b->args[i]->type;
    for (uint32_t i = 0; i < n; i++)
        out[i] = b->last->operands[i].value->type;
    const struct hlo_type *now = hlo_type_function(m, b->num_args, in, n, out);
    if (now != t)
        hlo_op_set_attr(func, HLO_A_function_type, hlo_attr_type(m, now));
}

int hlo_pass_refine(struct hlo_module *m, struct nf_error *err)
{
    struct hlo_verifier v = {.m = m, .scratch = nf_arena_new(0)};
    int rc = 0;
    /* sizes must be constants before shapes can follow from them, and shapes known before more sizes are: until nothing changes */
    for (int round = 0; round < 16 && !rc; round++) {
        uint32_t before = m->tables->num_types, ops = m->num_ops;
        struct hlo_walk w = hlo_walk_of(m->op);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
            v.code = 0;
            if (op->id != HLO_OP_FUNC && op->id != HLO_OP_MODULE && op->id != HLO_OP_UNKNOWN)
                refine_op(&v, op);
        }
        HLO_FOR_OPS(op, hlo_module_block(m))
            if (op->id == HLO_OP_FUNC)
                refine_results(m, op);
        w = hlo_walk_of(m->op);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
            if (op->id != HLO_OP_CALL)
                continue;
            const struct hlo_op *f = hlo_module_func(m, hlo_op_string(op, HLO_A_callee));
            const struct hlo_type *t = f ? hlo_func_type(f) : NULL;
            for (uint32_t i = 0; t && i < op->num_results && t->num_inputs + i < t->num_types; i++)
                op->results[i].type = t->types[t->num_inputs + i];
        }
        rc = hlo_pass_fold(m, err);
        if (m->tables->num_types == before && m->num_ops == ops)
            break;
    }
    nf_arena_free(v.scratch);
    return rc;
}
