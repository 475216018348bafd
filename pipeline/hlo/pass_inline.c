/* pass_inline.c: calls become copies of the bodies they call.
 *
 * Callees first: a function is copied only after the calls in it are gone, so each call is visited once. Calls in a circle
 * are refused: StableHLO has none. */
#include "pipeline/hlo/passes.h"

#include "base/map.h"

#define MAX_OPS_AFTER 2000000u

struct inliner {
    struct hlo_module *m;
    struct nf_arena *scratch;
    struct hlo_value **map;     /* by value id */
    size_t map_len;
    struct nf_error *err;
};

enum { NEW, BUSY, DONE };

static int inline_call(struct inliner *in, struct hlo_op *call, struct hlo_op *func)
{
    struct hlo_block *b = hlo_func_block(func);
    struct hlo_module *m = in->m;
    if (m->num_values > in->map_len) {
        in->map_len = (size_t)m->num_values * 2;
        in->map = NF_NEW_ARRAY(in->scratch, struct hlo_value *, in->map_len);
    }
    for (uint32_t i = 0; i < b->num_args; i++)
        in->map[b->args[i]->id] = call->operands[i].value;
    HLO_FOR_OPS(op, b) {
        if (op == b->last)
            break;
        struct hlo_op *copy = hlo_op_clone(m, op, in->map, in->map_len);
        hlo_block_insert(call->block, call, copy);
        if (!copy->loc)
            copy->loc = call->loc;
    }
    struct hlo_value **results = NF_NEW_ARRAY(in->scratch, struct hlo_value *, (size_t)call->num_results + 1);
    for (uint32_t i = 0; i < call->num_results; i++) {
        struct hlo_value *v = b->last->operands[i].value;
        results[i] = v->id < in->map_len && in->map[v->id] ? in->map[v->id] : v;
    }
    hlo_op_replace(call, results);
    if (m->num_ops > MAX_OPS_AFTER)
        return nf_fail(in->err, NF_ELIMIT, "inlining makes more than %u operations", MAX_OPS_AFTER);
    return 0;
}

/* One frame of the walk through the call graph. */
struct frame {
    struct hlo_op *func;
    struct hlo_walk walk;
    struct hlo_op *call;        /* where the walk stands while the frames above do what this one calls */
};

static int inline_into(struct inliner *in, struct hlo_op *root, struct nf_map *states, uint8_t marks[3])
{
    size_t depth = 0, cap = 64;
    struct frame *stack = NF_NEW_ARRAY(in->scratch, struct frame, cap);
    if (nf_map_get(states, hlo_func_name(root)) == &marks[DONE])
        return 0;
    stack[depth++] = (struct frame){root, hlo_walk_of(root), NULL};
    nf_map_put(states, hlo_func_name(root), &marks[BUSY]);
    while (depth) {
        struct frame *f = &stack[depth - 1];
        struct hlo_op *op = f->call ? f->call : hlo_walk_next(&f->walk);
        f->call = NULL;
        if (!op) {
            nf_map_put(states, hlo_func_name(f->func), &marks[DONE]);
            depth--;
            continue;
        }
        if (op->id != HLO_OP_CALL || hlo_op_attr(op, HLO_A_no_inline))
            continue;
        struct hlo_op *callee = hlo_module_func(in->m, hlo_op_string(op, HLO_A_callee));
        if (!callee || !hlo_func_block(callee) || hlo_func_block(callee)->last->id != HLO_OP_FUNC_RETURN)
            continue;
        uint8_t *state = nf_map_get(states, hlo_func_name(callee));
        if (state == &marks[BUSY]) {
            char where[64];
            nf_fail(in->err, NF_EGRAPH, "function @%.*s calls itself", (int)NF_MIN(hlo_func_name(callee).len, (size_t)80), hlo_func_name(callee).data);
            nf_error_location(in->err, "%s", hlo_op_where(in->m, op, where, sizeof where));
            return NF_EGRAPH;
        }
        if (!state) { /* its own calls first, then this one again */
            f->call = op;
            if (depth == cap) {
                struct frame *grown = NF_NEW_ARRAY(in->scratch, struct frame, cap * 2);
                memcpy(grown, stack, depth * sizeof *grown);
                stack = grown;
                cap *= 2;
            }
            stack[depth++] = (struct frame){callee, hlo_walk_of(callee), NULL};
            nf_map_put(states, hlo_func_name(callee), &marks[BUSY]);
            continue;
        }
        int rc = inline_call(in, op, callee);
        if (rc)
            return rc;
    }
    return 0;
}

/* Functions that are named from what stays, each once. */
struct reached {
    struct hlo_module *m;
    struct nf_map *seen;
    struct hlo_op **queue;
    size_t n;
};

static void reach(struct reached *r, struct hlo_op *func)
{
    if (func && nf_map_put(r->seen, hlo_func_name(func), func) == NULL)
        r->queue[r->n++] = func;
}

static void reach_symbols(struct reached *r, const struct hlo_attr *a, unsigned depth)
{
    if (!a || depth > 64)
        return;
    if (a->kind == HLO_ATTR_SYMBOL)
        reach(r, hlo_module_func(r->m, a->str));
    else if (a->kind == HLO_ATTR_ARRAY)
        for (size_t i = 0; i < a->array.n; i++)
            reach_symbols(r, a->array.v[i], depth + 1);
    else if (a->kind == HLO_ATTR_DICT)
        for (size_t i = 0; i < a->dict.n; i++)
            reach_symbols(r, a->dict.v[i].attr, depth + 1);
}

static void reach_named(struct reached *r, const struct hlo_op *op)
{
    for (int i = 0; i < hlo_op_info((enum hlo_op_id)op->id)->num_attrs; i++)
        reach_symbols(r, op->attrs[i], 0);
    for (uint32_t i = 0; i < op->num_dict; i++)
        reach_symbols(r, op->dict[i].attr, 0);
}

void hlo__drop_unnamed(struct hlo_module *m, struct nf_arena *scratch)
{
    size_t count = 0;
    hlo_module_symbols_changed(m);
    HLO_FOR_OPS(op, hlo_module_block(m))
        count++;
    struct reached r = {.m = m, .seen = nf_map_new(false), .queue = NF_NEW_ARRAY(scratch, struct hlo_op *, count + 1)};
    reach_named(&r, m->op);
    HLO_FOR_OPS(op, hlo_module_block(m))
        if (op->id != HLO_OP_FUNC)
            reach_named(&r, op);
        else if (!nf_str_eq_c(hlo_op_string(op, HLO_A_sym_visibility), "private"))
            reach(&r, op);
    for (size_t done = 0; done < r.n; done++) {
        struct hlo_walk w = hlo_walk_of(r.queue[done]);
        reach_named(&r, r.queue[done]);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));)
            reach_named(&r, op);
    }
    HLO_FOR_OPS(op, hlo_module_block(m))
        if (op->id == HLO_OP_FUNC && !nf_map_get(r.seen, hlo_func_name(op)))
            hlo_op_erase(op);
    nf_map_free(r.seen);
    hlo_module_symbols_changed(m);
}

int hlo_pass_inline(struct hlo_module *m, struct nf_error *err)
{
    static uint8_t marks[3]; /* only their addresses count */
    struct inliner in = {.m = m, .scratch = nf_arena_new(0), .err = err};
    struct nf_map *states = nf_map_new(false);
    int rc = 0;
    HLO_FOR_OPS(op, hlo_module_block(m))
        if (!rc && op->id == HLO_OP_FUNC && hlo_func_block(op))
            rc = inline_into(&in, op, states, marks);
    nf_map_free(states);
    if (!rc)
        hlo__drop_unnamed(m, in.scratch);
    nf_arena_free(in.scratch);
    return rc;
}
