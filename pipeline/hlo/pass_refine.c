/* pass_refine.c: shapes from what is known.
 *
 * In the order of the program: an operation whose operands say more about its result than its type gives it that type; one whose
 * shape operand is a constant gets the shape, and becomes the static operation. Arguments of functions that nobody calls stay as the
 * program gives them; for each list of operand types that a call has, its function is copied once and takes them. A loop takes the
 * types of its operands where its body gives them back: a copy of it is tried, and becomes the loop or goes. */
#include "pipeline/hlo/passes.h"

#include "base/map.h"
#include "pipeline/hlo/verify_internal.h"

#include <stdlib.h>

#define MAX_COPIES 1000u        /* of functions */
#define MAX_OPS_AFTER 2000000u
#define MAX_ROUNDS 256
#define MAX_ATTEMPTS 32         /* loops inside loops */

struct refine {
    struct hlo_verifier v;
    struct nf_error *err;
    bool changed;
    struct nf_map *copies;      /* by callee and operand types: the function that is called instead */
    unsigned num_copies;
    struct hlo_value **map;     /* for hlo_op_clone */
    size_t map_len;
};

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

static void set_type(struct refine *r, struct hlo_value *v, const struct hlo_type *t)
{
    r->changed = r->changed || v->type != t;
    v->type = t;
}

static void set_result(struct refine *r, struct hlo_op *op, uint32_t i, const struct hlo_type *by)
{
    set_type(r, &op->results[i], merge(r->v.m, op->results[i].type, by));
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
    case HLO_OP_SET_DIMENSION_SIZE: {
        const struct hlo_type *t = op->operands[0].value->type, *r = op->results[0].type;
        int64_t dim = hlo_op_i64(op, HLO_A_dimension, 0);
        if (!t->is_static || !hlo__constant_ints(v, op->operands[1].value, &in) || in.n != 1 || in.v[0] != r->dims[dim] || in.v[0] > t->dims[dim])
            return;
        int64_t *start = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1), *step = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
        for (uint32_t i = 0; i < t->rank; i++)
            step[i] = 1;
        struct hlo_op *by = hlo__instead(m, op, HLO_OP_SLICE, 1);
        hlo_op_set_attr(by, HLO_A_start_indices, hlo_attr_i64s(m, t->rank, start));
        hlo_op_set_attr(by, HLO_A_limit_indices, hlo_attr_i64s(m, t->rank, r->dims));
        hlo_op_set_attr(by, HLO_A_strides, hlo_attr_i64s(m, t->rank, step));
        hlo__replace(op, by);
        return;
    }
    default:
        return;
    }
}

/* Shapes of results that only this pass works out, because the verifier takes them as given. */
static void refine_given(struct refine *rf, struct hlo_op *op)
{
    struct hlo_verifier *v = &rf->v;
    struct hlo_module *m = v->m;
    const struct hlo_type *t = op->operands[0].value->type, *r = op->results[0].type;
    struct hlo_ints lo, hi, in;
    if (op->id == HLO_OP_DYNAMIC_PAD && t->kind == HLO_TYPE_TENSOR && hlo__constant_ints(v, op->operands[2].value, &lo) && hlo__constant_ints(v, op->operands[3].value, &hi) &&
        hlo__constant_ints(v, op->operands[4].value, &in) && lo.n == t->rank && hi.n == t->rank && in.n == t->rank) {
        int64_t *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
        for (uint32_t i = 0; i < t->rank; i++)
            d[i] = known(t->dims[i]) ? t->dims[i] + lo.v[i] + hi.v[i] + (t->dims[i] > 1 ? t->dims[i] - 1 : 0) * in.v[i] : HLO_DYNAMIC;
        set_result(rf, op, 0, hlo_type_with_shape(m, r, t->rank, d));
    }
    if (op->id == HLO_OP_REAL_DYNAMIC_SLICE && hlo__constant_ints(v, op->operands[1].value, &lo) && hlo__constant_ints(v, op->operands[2].value, &hi) &&
        hlo__constant_ints(v, op->operands[3].value, &in) && lo.n == t->rank && hi.n == t->rank && in.n == t->rank) {
        int64_t *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
        for (uint32_t i = 0; i < t->rank; i++) {
            if (in.v[i] <= 0 || hi.v[i] < lo.v[i])
                return;
            d[i] = (hi.v[i] - lo.v[i]) / in.v[i] + ((hi.v[i] - lo.v[i]) % in.v[i] != 0);
        }
        set_result(rf, op, 0, hlo_type_with_shape(m, r, t->rank, d));
    }
    if (op->id == HLO_OP_SET_DIMENSION_SIZE && hlo__constant_ints(v, op->operands[1].value, &in) && in.n == 1) {
        int64_t dim = hlo_op_i64(op, HLO_A_dimension, 0), *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
        if (in.v[0] < 0 || !known(t->dims[dim]) || in.v[0] > t->dims[dim])
            return;
        memcpy(d, t->dims, t->rank * sizeof(*d));
        d[dim] = in.v[0];
        set_result(rf, op, 0, hlo_type_with_shape(m, r, t->rank, d));
    }
}

static void refine_op(struct refine *r, struct hlo_op *op)
{
    struct hlo_verifier *v = &r->v;
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
                set_result(r, op, k, op->operands[i].value->type);
    if (info->infer && op->num_results <= 64) {
        const struct hlo_type *types[64] = {NULL};
        if (info->infer(v, op, types) == 0)
            for (uint32_t i = 0; i < op->num_results; i++)
                if (types[i] && hlo__type_compatible(types[i], op->results[i].type))
                    set_result(r, op, i, types[i]);
    }
    int shape = shape_operand((enum hlo_op_id)op->id);
    struct hlo_ints d;
    if (shape >= 0 && hlo__constant_ints(v, op->operands[shape].value, &d) && d.n == op->results[0].type->rank)
        set_result(r, op, 0, hlo_type_with_shape(m, op->results[0].type, (uint32_t)d.n, d.v));
    if (op->num_operands && op->num_results == 1) {
        refine_given(r, op);
        make_static(v, op);
    }
}

/* The type of a function is that of its arguments and of its return. */
static void set_function_type(struct refine *r, struct hlo_op *func)
{
    struct hlo_module *m = r->v.m;
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
    if (now != t) {
        hlo_op_set_attr(func, HLO_A_function_type, hlo_attr_type(m, now));
        r->changed = true;
    }
}

static struct hlo_op *copy_of(struct refine *r, const struct hlo_op *op)
{
    struct hlo_module *m = r->v.m;
    if (m->num_values > r->map_len) {
        r->map_len = (size_t)m->num_values * 2;
        r->map = NF_NEW_ARRAY(r->v.scratch, struct hlo_value *, r->map_len);
    }
    r->changed = true;
    struct hlo_op *copy = hlo_op_clone(m, op, r->map, r->map_len);
    /* the map is empty again: what it says of this one's values would hold for no other copy */
    struct hlo_walk w = hlo_walk_of((struct hlo_op *)(uintptr_t)op);
    for (const struct hlo_op *x = op; x; x = hlo_walk_next(&w)) {
        for (uint32_t i = 0; i < x->num_results; i++)
            r->map[x->results[i].id] = NULL;
        for (unsigned k = 0; k < x->num_regions; k++)
            HLO_FOR_BLOCKS(b, x->regions[k])
                for (uint32_t i = 0; i < b->num_args; i++)
                    r->map[b->args[i]->id] = NULL;
    }
    return copy;
}

/* The private copy of func for operands of these types. NULL: too many. */
static struct hlo_op *specialised(struct refine *r, struct hlo_op *func, const struct hlo_type *const *types)
{
    struct hlo_module *m = r->v.m;
    struct hlo_block *b = hlo_func_block(func);
    struct nf_str name = hlo_func_name(func);
    struct nf_buf key = NF_BUF_INIT;
    nf_buf_add_str(&key, name);
    nf_buf_add_char(&key, '\0');
    nf_buf_add(&key, types, b->num_args * sizeof(*types));
    struct hlo_op *copy = nf_map_get(r->copies, nf_buf_str(&key));
    if (!copy && r->num_copies < MAX_COPIES && m->num_ops < MAX_OPS_AFTER) {
        char *fresh = NULL;
        copy = copy_of(r, func);
        for (unsigned i = 0; !fresh || hlo_module_func(m, nf_str_c(fresh)); i++)
            fresh = nf_arena_printf(m->arena, "%.*s_%u", NF_STR_ARG(name), i);
        hlo_op_set_attr(copy, HLO_A_sym_name, hlo_attr_string(m, nf_str_c(fresh)));
        hlo_op_set_attr(copy, HLO_A_sym_visibility, hlo_attr_string(m, NF_STR("private")));
        for (uint32_t i = 0; i < b->num_args; i++)
            hlo_func_block(copy)->args[i]->type = types[i];
        hlo_block_insert(hlo_module_block(m), func->next, copy);
        hlo_module_symbols_changed(m);
        set_function_type(r, copy);
        nf_map_put(r->copies, nf_buf_str(&key), copy);
        r->num_copies++;
    }
    nf_buf_done(&key);
    return copy;
}

/* A call whose operands know more than its function calls a copy that knows as much; its results are those of the function. */
static int refine_call(struct refine *r, struct hlo_op *op)
{
    struct hlo_module *m = r->v.m;
    enum hlo_attr_name attr = op->id == HLO_OP_CALL ? HLO_A_callee : HLO_A_decomposition;
    struct hlo_op *f = hlo_module_func(m, hlo_op_string(op, attr));
    const struct hlo_type *t = f ? hlo_func_type(f) : NULL;
    struct hlo_block *b = f ? hlo_func_block(f) : NULL;
    if (t && b && b->num_args == op->num_operands && b->last->id == HLO_OP_FUNC_RETURN) {
        const struct hlo_type **types = NF_NEW_ARRAY(r->v.scratch, const struct hlo_type *, (size_t)b->num_args + 1);
        bool more = false;
        for (uint32_t i = 0; i < b->num_args; i++) {
            types[i] = merge(m, b->args[i]->type, op->operands[i].value->type);
            more = more || types[i] != b->args[i]->type;
        }
        if (more && !(f = specialised(r, f, types)))
            return nf_fail(r->err, NF_ELIMIT, "refining shapes takes more than %u copies of functions", MAX_COPIES);
        if (more)
            hlo_op_set_attr(op, attr, hlo_attr_symbol(m, hlo_func_name(f)));
        t = hlo_func_type(f);
    }
    for (uint32_t i = 0; t && i < op->num_results && t->num_inputs + i < t->num_types; i++)
        if (op->id == HLO_OP_CALL)
            set_type(r, &op->results[i], t->types[t->num_inputs + i]);
        else
            set_result(r, op, i, t->types[t->num_inputs + i]);
    return 0;
}

/* Sizes must be constants before shapes can follow from them, and shapes known before more sizes are: until nothing changes. Callers
 * mostly stand before what they call: operands go down with the functions in order, results come up with them backwards. */
static int settle(struct refine *r)
{
    struct hlo_module *m = r->v.m;
    struct hlo_block *b = hlo_module_block(m);
    int rc = 0;
    r->changed = true;
    for (int round = 0; r->changed && !rc; round++) {
        uint32_t ops = m->num_ops;
        bool down = round % 2 == 0;
        if (round == MAX_ROUNDS)
            return nf_fail(r->err, NF_ELIMIT, "shapes are not known after %d rounds", MAX_ROUNDS);
        r->changed = false;
        for (struct hlo_op *func = down ? b->first : b->last; func && !rc; func = down ? func->next : func->prev) {
            if (func->id != HLO_OP_FUNC)
                continue;
            struct hlo_walk w = hlo_walk_of(func);
            for (struct hlo_op *op; (op = hlo_walk_next(&w)) && !rc;) {
                r->v.code = 0;
                if (op->id == HLO_OP_CALL || op->id == HLO_OP_COMPOSITE)
                    rc = refine_call(r, op);
                else if (op->id != HLO_OP_UNKNOWN)
                    refine_op(r, op);
            }
            set_function_type(r, func);
        }
        rc = rc ? rc : hlo_pass_fold(m, r->err);
        r->changed = r->changed || m->num_ops != ops;
    }
    return rc;
}

/* A loop and its copy with the types of its operands. */
struct attempt {
    struct attempt *next;
    struct hlo_op *loop, *copy; /* copy NULL: it failed for the arguments `not` */
    unsigned level;             /* how many copies it stands in */
    bool *not;                  /* arguments whose types the body does not give back */
};

static struct attempt *attempt_of(struct attempt *list, const struct hlo_op *loop)
{
    while (list && list->loop != loop)
        list = list->next;
    return list;
}

static struct attempt *attempt_new(struct refine *r, struct attempt **list, struct hlo_op *loop, bool *not)
{
    struct attempt *a = NF_NEW(r->v.scratch, struct attempt);
    *a = (struct attempt){.next = *list, .loop = loop, .not = not};
    return *list = a;
}

/* The types that the loop's arguments would take; false: none is new. */
static bool wanted_types(struct refine *r, const struct hlo_op *loop, const struct attempt *failed, const struct hlo_type **types)
{
    bool any = false;
    for (uint32_t i = 0; i < loop->num_operands; i++) {
        const struct hlo_type *t = loop->regions[1]->first->args[i]->type;
        types[i] = failed && failed->not[i] ? t : merge(r->v.m, t, loop->operands[i].value->type);
        any = any || types[i] != t;
    }
    return any;
}

/* Copies of all loops that may take better types, beside the loops; of loops inside each other the outermost, those in its copy next time. */
static bool try_loops(struct refine *r, unsigned level, struct attempt **list)
{
    bool any = false;
    struct hlo_walk w = hlo_walk_of(r->v.m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (op->id != HLO_OP_WHILE || r->v.m->num_ops > MAX_OPS_AFTER)
            continue;
        const struct hlo_type **types = NF_NEW_ARRAY(r->v.scratch, const struct hlo_type *, (size_t)op->num_operands + 1);
        struct attempt *a = attempt_of(*list, op);
        if (a && a->copy)
            hlo_walk_skip(&w);
        if ((a && a->copy) || !wanted_types(r, op, a, types))
            continue;
        if (!a)
            a = attempt_new(r, list, op, NF_NEW_ARRAY(r->v.scratch, bool, (size_t)op->num_operands + 1));
        a->level = level;
        a->copy = copy_of(r, op);
        attempt_new(r, list, a->copy, a->not); /* what failed for the one fails for the other */
        for (uint32_t i = 0; i < op->num_operands; i++) {
            for (unsigned k = 0; k < 2; k++)
                a->copy->regions[k]->first->args[i]->type = types[i];
            a->copy->results[i].type = merge(r->v.m, a->copy->results[i].type, types[i]);
        }
        hlo_block_insert(op->block, op, a->copy);
        hlo_walk_skip(&w);
        any = true;
    }
    return any;
}

/* A copy whose body gives back what it takes becomes the loop. */
static void keep_or_drop(struct attempt *list, unsigned level)
{
    for (struct attempt *a = list; a; a = a->next) {
        if (!a->copy || a->level != level)
            continue;
        const struct hlo_op *ret = a->copy->regions[1]->first->last;
        bool ok = true;
        for (uint32_t i = 0; i < ret->num_operands; i++)
            if (a->copy->regions[1]->first->args[i]->type != a->loop->regions[1]->first->args[i]->type && ret->operands[i].value->type != a->copy->regions[1]->first->args[i]->type) {
                a->not[i] = true;
                ok = false;
            }
        if (!ok) {
            hlo_op_erase(a->copy);
            a->copy = NULL;
            continue;
        }
        struct hlo_value **by = nf_alloc_array(a->loop->num_results + 1u, sizeof(*by));
        for (uint32_t i = 0; i < a->loop->num_results; i++)
            by[i] = &a->copy->results[i];
        hlo_op_replace(a->loop, by);
        free(by);
        a->loop = NULL;
        a->copy = NULL;
    }
}

int hlo_pass_refine(struct hlo_module *m, struct nf_error *err)
{
    struct refine r = {.v = {.m = m, .scratch = nf_arena_new(0)}, .err = err, .copies = nf_map_new(true)};
    struct attempt *list = NULL;
    int rc = settle(&r);
    for (int i = 0; i < MAX_ATTEMPTS && !rc; i++) {
        unsigned levels = 0;
        while (!rc && levels < MAX_ATTEMPTS && try_loops(&r, levels, &list)) {
            rc = settle(&r);
            levels++;
        }
        if (!levels)
            break;
        while (levels-- > 0 && !rc) { /* inner ones first: what they give decides about the outer ones */
            keep_or_drop(list, levels);
            rc = settle(&r);
        }
    }
    if (!rc && r.num_copies)
        hlo__drop_unnamed(m, r.v.scratch);
    nf_map_free(r.copies);
    nf_arena_free(r.v.scratch);
    return rc;
}
