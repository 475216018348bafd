/* The evaluator's frame: plans of functions, and running them.
 *
 * hlo_eval_new turns each function of the module into a plan (ev_func, ev_block, ev_inst): values get slots, each operation its
 * function from the table's evaluate column and the list of slots that it is the last to read. Running a block is a loop over its
 * plan. Recursion is that of the program (calls, regions) and stops at depth_limit. */
#include "pipeline/hlo/eval.h"

#include "base/clock.h"
#include "pipeline/hlo/eval_internal.h"

#include <stdlib.h>

#define NONE NULL
static const ev_fn eval_fns[HLO_OP_MAX] = {
#define OP(id, dialect, mnemonic, operands, results, regions, tier, traits, form, verify, infer, eval, attributes) [HLO_OP_##id] = eval,
#include "pipeline/hlo/hlo_ops.def"
#undef OP
};
#undef NONE

/* ---- plans ---- */

struct builder {
    struct hlo_eval *e;
    struct ev_func *func;
    uint8_t *seen;              /* by value id: read by a later operation of its block */
    unsigned depth;
    struct nf_error *err;
};

static struct ev_block *plan_block(struct builder *b, const struct hlo_block *block);

static bool defined_in(const struct hlo_value *v, const struct hlo_block *block)
{
    return v->is_arg ? v->def.block == block : v->def.op->block == block;
}

struct uses {
    struct nf_arena *arena;
    uint32_t *v;                /* value ids whose last use is here */
    uint32_t n, cap;
};

static void note_use(struct builder *b, struct uses *u, const struct hlo_value *v, const struct hlo_block *block)
{
    if (!v || !defined_in(v, block) || b->seen[v->id])
        return;
    b->seen[v->id] = 1;
    if (u->n == u->cap) {
        uint32_t cap = u->cap ? 2 * u->cap : 8, *grown = NF_NEW_ARRAY(u->arena, uint32_t, cap);
        if (u->n)
            memcpy(grown, u->v, u->n * sizeof(*grown));
        u->v = grown;
        u->cap = cap;
    }
    u->v[u->n++] = v->id;
}

static int plan_inst(struct builder *b, struct ev_inst *inst, struct hlo_op *op, const struct hlo_block *block)
{
    struct nf_arena *ar = b->e->arena;
    struct uses last = {.arena = ar};
    inst->op = op;
    inst->fn = eval_fns[op->id];
    inst->n_in = op->num_operands;
    inst->n_out = op->num_results;
    uint32_t *in = NF_NEW_ARRAY(ar, uint32_t, NF_MAX(1u, inst->n_in)), *out = NF_NEW_ARRAY(ar, uint32_t, NF_MAX(1u, inst->n_out));
    bool *dies = NF_NEW_ARRAY(ar, bool, NF_MAX(1u, inst->n_in));
    for (uint32_t i = 0; i < inst->n_out; i++) {
        out[i] = b->e->slot_of[op->results[i].id];
        if (!b->seen[op->results[i].id])
            note_use(b, &last, &op->results[i], block); /* never read: freed at once */
    }
    /* inside first: a value that a region reads must not be taken over by the operation */
    if (op->num_regions) {
        struct hlo_walk w = hlo_walk_of(op);
        for (struct hlo_op *inner; (inner = hlo_walk_next(&w));)
            for (uint32_t i = 0; i < inner->num_operands; i++)
                note_use(b, &last, inner->operands[i].value, block);
    }
    for (uint32_t i = 0; i < inst->n_in; i++) {
        const struct hlo_value *v = op->operands[i].value;
        in[i] = b->e->slot_of[v->id];
        bool again = false;
        for (uint32_t k = 0; k < inst->n_in && !again; k++)
            again = k != i && op->operands[k].value == v;
        dies[i] = !again && defined_in(v, block) && !b->seen[v->id];
        note_use(b, &last, v, block);
    }
    uint32_t *frees = NF_NEW_ARRAY(ar, uint32_t, NF_MAX(1u, last.n));
    for (uint32_t i = 0; i < last.n; i++)
        frees[i] = b->e->slot_of[last.v[i]];
    inst->in = in;
    inst->out = out;
    inst->dies = dies;
    inst->frees = frees;
    inst->n_free = last.n;
    return NF_OK;
}

static bool has_quantised(const struct hlo_op *op)
{
    for (uint32_t i = 0; i < op->num_operands; i++)
        if (hlo_type_is_quant(op->operands[i].value->type))
            return true;
    for (uint32_t i = 0; i < op->num_results; i++)
        if (hlo_type_is_quant(op->results[i].type))
            return true;
    return false;
}

/* Operations that move elements and may do so on the storage, when all quantised types agree. */
static bool moves_only(const struct hlo_op *op)
{
    switch (op->id) {
    case HLO_OP_RESHAPE: case HLO_OP_TRANSPOSE: case HLO_OP_BROADCAST_IN_DIM: case HLO_OP_SLICE: case HLO_OP_GATHER: case HLO_OP_CONCATENATE:
    case HLO_OP_PAD: case HLO_OP_REVERSE: case HLO_OP_DYNAMIC_SLICE: case HLO_OP_DYNAMIC_UPDATE_SLICE: case HLO_OP_SELECT:
    case HLO_OP_DYNAMIC_RESHAPE: case HLO_OP_DYNAMIC_BROADCAST_IN_DIM: case HLO_OP_DYNAMIC_PAD: case HLO_OP_DYNAMIC_GATHER:
    case HLO_OP_REAL_DYNAMIC_SLICE: case HLO_OP_ALL_GATHER: case HLO_OP_ALL_TO_ALL: case HLO_OP_COLLECTIVE_PERMUTE:
    case HLO_OP_COLLECTIVE_BROADCAST:
        break;
    default:
        return false;
    }
    const struct hlo_quant *q = NULL;
    for (uint32_t i = 0; i < op->num_operands + op->num_results; i++) {
        const struct hlo_type *t = i < op->num_operands ? op->operands[i].value->type : op->results[i - op->num_operands].type;
        if (!hlo_type_is_quant(t))
            continue;
        if (!q)
            q = t->quant;
        if (!ev_same_quant(t->quant, q))
            return false;
    }
    return true;
}

/* Operations whose region combines elements of one operand after the other: on their storage, where the region has quantised types of
 * its own for them, none per axis. */
static bool combines(const struct hlo_op *op, bool *ret_promote)
{
    bool any = false;
    *ret_promote = false;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_type *t = op->operands[i].value->type, *body = ev_body_type(op, i);
        if (!body)
            continue;
        any = true;
        if (body->elem != t->elem || (hlo_type_is_quant(t) && hlo_type_is_quant(body) && !ev_same_quant(t->quant, body->quant)))
            *ret_promote = true;
        if (hlo_type_is_quant(t) != hlo_type_is_quant(body) || (hlo_type_is_quant(t) && (t->quant->per_axis || body->quant->per_axis)))
            return false;
    }
    return any;
}

/* Operations that hand values on, or know about quantised types themselves. */
static bool passes_through(const struct hlo_op *op)
{
    switch (op->id) {
    case HLO_OP_CONSTANT: case HLO_OP_UNIFORM_QUANTIZE: case HLO_OP_UNIFORM_DEQUANTIZE: case HLO_OP_BITCAST_CONVERT: case HLO_OP_CALL:
    case HLO_OP_COMPOSITE: case HLO_OP_WHILE: case HLO_OP_IF: case HLO_OP_CASE: case HLO_OP_OPTIMIZATION_BARRIER: case HLO_OP_TUPLE:
    case HLO_OP_GET_TUPLE_ELEMENT: case HLO_OP_CUSTOM_CALL: case HLO_OP_SEND: case HLO_OP_RECV: case HLO_OP_INFEED: case HLO_OP_OUTFEED:
    case HLO_OP_ASYNC_START: case HLO_OP_ASYNC_DONE: case HLO_OP_GET_DIMENSION_SIZE: case HLO_OP_DOT_GENERAL: case HLO_OP_CONVOLUTION:
    case HLO_OP_DYNAMIC_CONV: case HLO_OP_INTERPRETER_RUN_PARALLEL: case HLO_OP_SDY_SHARDING_CONSTRAINT: case HLO_OP_SDY_MANUAL_COMPUTATION:
        return true;
    default:
        return false;
    }
}

static struct ev_block *plan_block(struct builder *b, const struct hlo_block *block)
{
    struct nf_arena *ar = b->e->arena;
    if (++b->depth > b->e->options.depth_limit) {
        nf_fail(b->err, NF_ELIMIT, "regions are nested deeper than %u", b->e->options.depth_limit);
        return NULL;
    }
    struct ev_block *eb = NF_NEW(ar, struct ev_block);
    eb->block = block;
    eb->n_args = block->num_args;
    uint32_t *args = NF_NEW_ARRAY(ar, uint32_t, NF_MAX(1u, eb->n_args)), n = 0;
    for (uint32_t i = 0; i < eb->n_args; i++)
        args[i] = b->e->slot_of[block->args[i]->id] = b->func->n_slots++;
    eb->args = args;
    for (struct hlo_op *op = block->first; op; op = op->next) {
        for (uint32_t i = 0; i < op->num_results; i++)
            b->e->slot_of[op->results[i].id] = b->func->n_slots++;
        n++;
    }
    if (!n) {
        nf_fail(b->err, NF_EGRAPH, "a block has no operations");
        return NULL;
    }
    eb->n_insts = n - 1;
    eb->insts = NF_NEW_ARRAY(ar, struct ev_inst, n);
    /* backwards, so that the first sight of a use is the last one */
    struct hlo_op *op = block->last;
    uint32_t *results = NF_NEW_ARRAY(ar, uint32_t, NF_MAX(1u, op->num_operands));
    bool *die = NF_NEW_ARRAY(ar, bool, NF_MAX(1u, op->num_operands));
    struct uses ignore = {.arena = ar};
    for (uint32_t i = op->num_operands; i-- > 0;) {
        const struct hlo_value *v = op->operands[i].value;
        results[i] = b->e->slot_of[v->id];
        die[i] = defined_in(v, block) && !b->seen[v->id];
        note_use(b, &ignore, v, block);
    }
    eb->n_results = op->num_operands;
    eb->results = results;
    eb->results_die = die;
    uint32_t k = eb->n_insts;
    for (op = op->prev; op; op = op->prev)
        if (plan_inst(b, &eb->insts[--k], op, block))
            return NULL;
    /* regions after their outside: slots of what they capture are known */
    for (uint32_t i = 0; i < eb->n_insts; i++) {
        struct ev_inst *inst = &eb->insts[i];
        inst->n_regions = inst->op->num_regions;
        if (inst->n_regions) {
            inst->regions = NF_NEW_ARRAY(ar, struct ev_block *, inst->n_regions);
            inst->progs = NF_NEW_ARRAY(ar, struct ev_prog *, inst->n_regions);
        }
        for (uint32_t r = 0; r < inst->n_regions; r++) {
            struct hlo_block *body = inst->op->regions[r]->first;
            if (!body)
                continue; /* an empty region: a decomposition that was left out */
            if (!(inst->regions[r] = plan_block(b, body)))
                return NULL;
            inst->progs[r] = ev_prog_compile(b->e, inst->regions[r]);
        }
        if (!combines(inst->op, &inst->promote) && has_quantised(inst->op) && !passes_through(inst->op) && !moves_only(inst->op))
            inst->dequantise = true;
        if (inst->op->id == HLO_OP_CONSTANT) {
            const struct hlo_attr *v = hlo_op_attr(inst->op, HLO_A_value);
            uint64_t bytes;
            bool keep = v && v->kind == HLO_ATTR_DENSE && v->type && (!v->dense.splat || (hlo_type_bytes(v->type, &bytes) && bytes <= 4096));
            struct nf_error ignored;
            if (keep && ev_constant_new(NULL, v, &inst->constant, &ignored))
                inst->constant = NULL; /* running it will say why */
        }
    }
    b->depth--;
    return eb;
}

struct ev_func *ev_func_find(struct hlo_eval *e, struct nf_str name)
{
    const struct hlo_op *op = name.len ? hlo_module_func(e->module, name) : hlo_module_entry(e->module);
    for (size_t i = 0; op && i < e->n_funcs; i++)
        if (e->funcs[i].op == op)
            return e->funcs[i].body ? &e->funcs[i] : NULL;
    return NULL;
}

static void resolve_calls(struct hlo_eval *e, struct ev_block *b)
{
    for (uint32_t i = 0; b && i < b->n_insts; i++) {
        struct ev_inst *inst = &b->insts[i];
        if (inst->op->id == HLO_OP_CALL)
            inst->callee = ev_func_find(e, hlo_op_string(inst->op, HLO_A_callee));
        else if (inst->op->id == HLO_OP_COMPOSITE)
            inst->callee = ev_func_find(e, hlo_op_string(inst->op, HLO_A_decomposition));
        for (uint32_t r = 0; r < inst->n_regions; r++)
            resolve_calls(e, inst->regions[r]); /* as deep as plan_block went */
    }
}

int hlo_eval_new(const struct hlo_module *module, const struct hlo_eval_options *options, struct hlo_eval **ret_eval, struct nf_error *err)
{
    struct hlo_eval *e = nf_alloc(sizeof(*e));
    struct hlo_eval_options plain = HLO_EVAL_OPTIONS_INIT;
    e->module = module;
    e->options = options ? *options : plain;
    if (!e->options.depth_limit)
        e->options.depth_limit = 200;
    e->arena = nf_arena_new(0);
    pthread_mutex_init(&e->lock, NULL);
    size_t n = module->num_values ? module->num_values : 1;
    e->slot_of = NF_NEW_ARRAY(e->arena, uint32_t, n);
    struct hlo_block *top = hlo_module_block(module);
    size_t count = 0;
    HLO_FOR_OPS(op, top)
        count += op->id == HLO_OP_FUNC;
    e->funcs = NF_NEW_ARRAY(e->arena, struct ev_func, count ? count : 1);
    struct builder b = {.e = e, .seen = NF_NEW_ARRAY(e->arena, uint8_t, n), .err = err};
    HLO_FOR_OPS(op, top) {
        if (op->id != HLO_OP_FUNC)
            continue;
        struct ev_func *f = &e->funcs[e->n_funcs++];
        f->op = op;
        struct hlo_block *body = hlo_func_block(op);
        if (!body)
            continue;
        b.func = f;
        b.depth = 0;
        if (!(f->body = plan_block(&b, body))) {
            int code = err ? err->code : NF_EGRAPH;
            hlo_eval_free(e);
            return code;
        }
    }
    for (size_t i = 0; i < e->n_funcs; i++)
        resolve_calls(e, e->funcs[i].body);
    *ret_eval = e;
    return NF_OK;
}

static void free_constants(struct ev_block *b)
{
    for (uint32_t i = 0; b && i < b->n_insts; i++) {
        ev_unref(b->insts[i].constant);
        for (uint32_t r = 0; r < b->insts[i].n_regions; r++)
            if (b->insts[i].regions)
                free_constants(b->insts[i].regions[r]);
    }
}

void hlo_eval_free(struct hlo_eval *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->n_funcs; i++)
        free_constants(e->funcs[i].body);
    pthread_mutex_destroy(&e->lock);
    nf_arena_free(e->arena);
    free(e);
}

/* ---- running ---- */

bool ev_out_of_time(const struct ev_run *run)
{
    int64_t d = run->eval->options.deadline_ns;
    return d && nf_now_ns() > d;
}

static void slot_set(struct ev_frame *f, uint32_t slot, struct ev_value *v)
{
    ev_unref(f->slots[slot]);
    f->slots[slot] = v;
}

/* Whether a value is what the type says. Operations rely on the types of their operands, so this is asked of every value that is
 * made: what crosses between processes, queues and calls has no verifier behind it. */
static bool fits(const struct ev_value *v, const struct hlo_type *t)
{
    switch (t->kind) {
    case HLO_TYPE_TENSOR:
        if (v->kind != EV_ARRAY || v->a.dtype != hlo_eval_dtype(t) || v->a.rank != (int)t->rank)
            return false;
        for (uint32_t i = 0; i < t->rank; i++)
            if (t->dims[i] != HLO_DYNAMIC && t->dims[i] != v->a.dims[i])
                return false;
        return true;
    case HLO_TYPE_UNRANKED: case HLO_TYPE_MEMREF: case HLO_TYPE_SCALAR:
        return v->kind == EV_ARRAY && v->a.dtype == hlo_eval_dtype(t);
    case HLO_TYPE_TOKEN:
        return v->kind == EV_TOKEN;
    case HLO_TYPE_TUPLE: case HLO_TYPE_FUTURE:
        if (v->kind != EV_TUPLE || v->n != t->num_types)
            return false;
        for (uint32_t i = 0; i < v->n; i++)
            if (!fits(v->parts[i], t->types[i])) /* as deep as the type */
                return false;
        return true;
    case HLO_TYPE_FUNCTION: case HLO_TYPE_NONE: case HLO_TYPE_OPAQUE: case HLO_TYPE_KIND_MAX:
        break;
    }
    return false;
}

static int observe(struct ev_frame *f, const struct ev_inst *inst, struct nf_error *err)
{
    struct hlo_eval *e = f->proc->run->eval;
    const struct hlo_eval_hooks *h = e->options.hooks;
    struct rt_array few[8], *all = inst->n_out <= 8 ? few : nf_alloc_array(inst->n_out, sizeof(*all));
    for (uint32_t i = 0; i < inst->n_out; i++) {
        const struct ev_value *v = f->slots[inst->out[i]];
        all[i] = v->kind == EV_ARRAY ? v->a : (struct rt_array){0};
    }
    pthread_mutex_lock(&e->lock);
    int rc = h->observe(h->user, inst->op, f->proc->id, all, inst->n_out);
    pthread_mutex_unlock(&e->lock);
    if (all != few)
        free(all);
    return rc ? nf_fail(err, rc, "stopped by the observer") : NF_OK;
}

static int run_inst(struct ev_frame *f, const struct ev_inst *inst, struct nf_error *err)
{
    struct ev_value *few_in[8], *few_out[8];
    struct ev_ctx c = {.f = f, .inst = inst, .op = inst->op, .n_in = inst->n_in, .n_out = inst->n_out, .dies = inst->dies};
    if (!inst->fn)
        return ev_fail(&c, err, NF_EUNSUPPORTED, "cannot be evaluated");
    c.in = inst->n_in <= 8 ? few_in : nf_alloc_array(inst->n_in, sizeof(*c.in));
    c.out = inst->n_out <= 8 ? few_out : nf_alloc_array(inst->n_out, sizeof(*c.out));
    for (uint32_t i = 0; i < inst->n_in; i++)
        c.in[i] = f->slots[inst->in[i]];
    for (uint32_t i = 0; i < inst->n_out; i++)
        c.out[i] = NULL;
    int rc = inst->dequantise ? ev_dequantised(&c, inst->fn, err) : inst->promote ? ev_promoted(&c, inst->fn, err) : inst->fn(&c, err);
    for (uint32_t i = 0; i < inst->n_out && !rc; i++)
        if (!c.out[i] || !fits(c.out[i], inst->op->results[i].type))
            rc = ev_fail(&c, err, NF_EGRAPH, "result %u is not of its type at run time", i);
    if (rc && err && !err->location[0] && err->code == rc) {
        char where[256];
        nf_error_location(err, "%s", hlo_op_where(f->proc->run->eval->module, inst->op, where, sizeof(where)));
    }
    for (uint32_t i = 0; i < inst->n_out; i++) {
        if (!rc)
            slot_set(f, inst->out[i], c.out[i]);
        else
            ev_unref(c.out[i]);
    }
    if (c.in != few_in)
        free(c.in);
    if (c.out != few_out)
        free(c.out);
    return rc;
}

struct ev_value *ev_move_in(struct ev_ctx *c, uint32_t k)
{
    if (!c->dies || !c->dies[k])
        return ev_ref(c->in[k]);
    struct ev_value *v = c->f->slots[c->inst->in[k]];
    c->f->slots[c->inst->in[k]] = NULL;
    return v;
}

int ev_run_block(struct ev_frame *f, const struct ev_block *b, struct ev_value *const *args, struct ev_value **ret, struct nf_error *err)
{
    struct ev_run *run = f->proc->run;
    const struct hlo_eval_hooks *h = run->eval->options.hooks;
    int rc = NF_OK;
    for (uint32_t i = 0; i < b->n_args; i++) {
        slot_set(f, b->args[i], args[i]);
        if (!rc && !fits(args[i], b->block->args[i]->type))
            rc = nf_fail(err, NF_EGRAPH, "argument %u of a function or region is not of its type at run time", i);
    }
    if (++f->proc->depth > run->eval->options.depth_limit)
        rc = nf_fail(err, NF_ELIMIT, "calls and regions are nested deeper than %u", run->eval->options.depth_limit);
    for (uint32_t i = 0; i < b->n_insts && !rc; i++) {
        const struct ev_inst *inst = &b->insts[i];
        if (ev_out_of_time(run)) {
            rc = nf_fail(err, NF_ETIMEOUT, "evaluating took longer than its time limit");
            break;
        }
        rc = run_inst(f, inst, err);
        if (!rc && h && h->observe)
            rc = observe(f, inst, err);
        for (uint32_t k = 0; k < inst->n_free; k++)
            slot_set(f, inst->frees[k], NULL);
    }
    atomic_fetch_add_explicit(&run->ops, b->n_insts, memory_order_relaxed);
    f->proc->depth--;
    if (rc)
        return rc;
    for (uint32_t i = 0; i < b->n_results; i++)
        ret[i] = ev_ref(f->slots[b->results[i]]);
    for (uint32_t i = 0; i < b->n_results; i++)
        if (b->results_die[i])
            slot_set(f, b->results[i], NULL);
    return NF_OK;
}

int ev_call(struct ev_proc *p, const struct ev_func *func, struct ev_value *const *args, struct ev_value **ret, struct nf_error *err)
{
    struct ev_frame f = {.proc = p, .n_slots = func->n_slots};
    f.slots = nf_alloc_array(f.n_slots ? f.n_slots : 1, sizeof(*f.slots));
    int rc = ev_run_block(&f, func->body, args, ret, err);
    for (uint32_t i = 0; i < f.n_slots; i++)
        ev_unref(f.slots[i]);
    free(f.slots);
    return rc;
}

int ev_check_result(struct ev_ctx *c, bool passed, const char *message, struct nf_error *err)
{
    struct ev_run *run = c->f->proc->run;
    struct hlo_eval *e = run->eval;
    const struct hlo_eval_hooks *h = e->options.hooks;
    int rc = NF_OK;
    pthread_mutex_lock(&e->lock);
    e->stats.checks++;
    e->stats.failed_checks += !passed;
    if (h && h->check) {
        struct hlo_eval_check check = {.op = c->op, .passed = passed, .message = passed ? "" : message};
        rc = h->check(h->user, &check);
        if (rc)
            nf_fail(err, rc, "stopped by the caller after a check");
    }
    pthread_mutex_unlock(&e->lock);
    if (!passed) {
        pthread_mutex_lock(&run->lock);
        if (!run->check_failed) {
            run->check_failed = true;
            ev_fail(c, &run->first_failure, NF_EMISMATCH, "%s", message);
        }
        pthread_mutex_unlock(&run->lock);
        if (!rc && e->options.stop_at_failed_check)
            rc = ev_fail(c, err, NF_EMISMATCH, "%s", message);
    }
    return rc;
}

static int input_value(const struct hlo_type *t, const struct rt_array *a, size_t number, struct ev_value **ret, struct nf_error *err)
{
    if (t->kind == HLO_TYPE_TOKEN) {
        *ret = ev_token_new();
        return NF_OK;
    }
    enum nf_dtype dt = hlo_eval_dtype(t);
    if (t->kind != HLO_TYPE_TENSOR || dt == NF_DT_NONE)
        return nf_fail(err, NF_EUNSUPPORTED, "input %zu is not a tensor", number);
    bool same = a->dtype == dt && a->rank == (int)t->rank;
    for (uint32_t i = 0; same && i < t->rank; i++)
        same = t->dims[i] == HLO_DYNAMIC ? a->dims[i] >= 0 : t->dims[i] == a->dims[i];
    if (!same) {
        struct nf_buf want = NF_BUF_INIT, got = NF_BUF_INIT;
        hlo_type_print(t, &want);
        rt_shape_print(a->dtype, a->rank, a->dims, &got);
        nf_fail(err, NF_EINVAL, "input %zu must be %s, not %s", number, want.data ? want.data : "?", got.data ? got.data : "?");
        nf_buf_done(&want);
        nf_buf_done(&got);
        return NF_EINVAL;
    }
    *ret = ev_borrow(dt, a->rank, a->dims, a->data, a->bytes);
    return NF_OK;
}

static int output_array(struct ev_value *v, size_t number, struct rt_array *ret, struct nf_error *err)
{
    if (v->kind == EV_TOKEN) {
        *ret = (struct rt_array){0};
        return NF_OK;
    }
    if (v->kind != EV_ARRAY)
        return nf_fail(err, NF_EUNSUPPORTED, "output %zu is a tuple", number);
    if (!v->borrowed && v->run && atomic_load(&v->refs) == 1) {
        *ret = v->a; /* moved out: the caller frees it */
        atomic_fetch_sub(&v->run->live_bytes, v->a.bytes);
        v->run = NULL;
        v->borrowed = true;
        return NF_OK;
    }
    struct rt_array a;
    int rc = rt_array_alloc(v->a.dtype, v->a.rank, v->a.dims, 0, &a, err);
    if (rc)
        return rc;
    if (a.bytes)
        memcpy(a.data, v->a.data, a.bytes);
    *ret = a;
    return NF_OK;
}

int hlo_eval_run(struct hlo_eval *e, struct nf_str function, const struct rt_array *inputs, size_t n_inputs, struct rt_array *outputs,
                 size_t n_outputs, struct nf_error *err)
{
    return hlo_eval_run_grid(e, function, 1, 1, inputs, n_inputs, outputs, n_outputs, err);
}

int hlo_eval_run_grid(struct hlo_eval *e, struct nf_str function, unsigned replicas, unsigned partitions, const struct rt_array *inputs,
                      size_t n_inputs, struct rt_array *outputs, size_t n_outputs, struct nf_error *err)
{
    return ev_run_with(e, function, NULL, 0, replicas, partitions, inputs, n_inputs, outputs, n_outputs, err);
}

int ev_run_with(struct hlo_eval *e, struct nf_str function, struct ev_grid *member_of, uint32_t rank, unsigned replicas, unsigned partitions,
                const struct rt_array *inputs, size_t n_inputs, struct rt_array *outputs, size_t n_outputs, struct nf_error *err)
{
    struct ev_func *func = ev_func_find(e, function);
    if (!func)
        return nf_fail(err, NF_ENOTFOUND, function.len ? "there is no function @%.*s with a body" : "there is no entry function%.*s", NF_STR_ARG(function));
    if (n_inputs != func->body->n_args || n_outputs != func->body->n_results)
        return nf_fail(err, NF_EINVAL, "the function has %u inputs and %u outputs, not %zu and %zu", func->body->n_args, func->body->n_results, n_inputs,
            n_outputs);
    if (replicas < 1 || partitions < 1 || replicas > 1024 || partitions > 1024 || replicas * partitions > 1024)
        return nf_fail(err, NF_ELIMIT, "a grid of %u replicas and %u partitions is not supported", replicas, partitions);
    size_t n = (size_t)replicas * partitions;
    struct ev_run run = {.eval = e};
    pthread_mutex_init(&run.lock, NULL);
    struct ev_value **args = nf_alloc_array(n * n_inputs + 1, sizeof(*args)), **rets = nf_alloc_array(n * n_outputs + 1, sizeof(*rets));
    struct ev_value ***arg_lists = nf_alloc_array(n, sizeof(*arg_lists)), ***ret_lists = nf_alloc_array(n, sizeof(*ret_lists));
    struct ev_func **funcs = nf_alloc_array(n, sizeof(*funcs));
    int rc = NF_OK;
    for (size_t d = 0; d < n && !rc; d++)
        for (size_t i = 0; i < n_inputs && !rc; i++)
            rc = input_value(func->body->block->args[i]->type, &inputs[d * n_inputs + i], i, &args[d * n_inputs + i], err);
    for (size_t d = 0; d < n; d++) {
        arg_lists[d] = args + d * n_inputs;
        ret_lists[d] = rets + d * n_outputs;
        funcs[d] = func;
    }
    if (rc) {
        for (size_t i = 0; i < n * n_inputs; i++)
            ev_unref(args[i]);
    } else if (n == 1) {
        struct ev_proc p = {.run = &run};
        if (member_of)
            ev_grid_enter(member_of, rank, &p);
        rc = ev_call(&p, func, args, rets, err);
        if (member_of)
            ev_grid_exit(member_of, rc, err);
    } else {
        uint64_t draws = 0;
        rc = ev_grid_run(&run, replicas, partitions, funcs, NULL, 0, (struct ev_value *const *const *)arg_lists, ret_lists, &draws, err);
    }
    if (!rc && run.check_failed) {
        rc = run.first_failure.code;
        if (err)
            *err = run.first_failure;
    }
    size_t done = 0;
    for (; done < n * n_outputs && !rc; done++)
        rc = output_array(rets[done], done, &outputs[done], err);
    if (rc)
        for (size_t i = 0; i + 1 < done; i++)
            rt_array_done(&outputs[i]);
    for (size_t i = 0; i < n * n_outputs; i++)
        ev_unref(rets[i]);
    ev_probes_free(&run);
    pthread_mutex_lock(&e->lock);
    e->stats.ops += atomic_load(&run.ops);
    e->stats.peak_bytes = NF_MAX(e->stats.peak_bytes, atomic_load(&run.peak_bytes));
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_destroy(&run.lock);
    free(args);
    free(rets);
    free(arg_lists);
    free(ret_lists);
    free(funcs);
    return rc;
}

size_t hlo_eval_num_inputs(struct hlo_eval *e, struct nf_str function)
{
    struct ev_func *f = ev_func_find(e, function);
    return f ? f->body->n_args : 0;
}

size_t hlo_eval_num_outputs(struct hlo_eval *e, struct nf_str function)
{
    struct ev_func *f = ev_func_find(e, function);
    return f ? f->body->n_results : 0;
}

struct hlo_eval_stats hlo_eval_stats(const struct hlo_eval *e) { return e->stats; }
