/* canonical.c: the canonical form, in place.
 *
 * Two programs that must compile to the same thing become the same module (README.md, "canonical form", lists what is dropped
 * and what stays). Steps, each on what the one before left:
 *   1. functions: keep what the entry reaches, in the order of first reference; private ones are renamed f0, f1, ...
 *   2. attributes: what says the default becomes absent, decoration that cannot matter goes
 *   3. constants: small ones move into the block that uses them, large ones to the top of their function
 *   4. equal pure operations of a block become one, on the way of steps 2 and 3 those without regions, afterwards those with
 *      equal bodies; in each block unused pure ones go, the rest stands in the order in which the effects and the terminator need it
 *   5. dense value ids
 * requires: a verified module. provides: the canonical form. breaks: value ids, operation order, function names, visibility. */
#include "base/map.h"
#include "pipeline/hlo/hlo_internal.h"
#include "pipeline/hlo/merge.h"
#include "pipeline/hlo/spec_internal.h"

#define SMALL_CONSTANT_BYTES 64

struct canon {
    struct hlo_module *m;
    struct nf_arena *scratch;
    int64_t devices;
    struct nf_error *err;
    struct hlo_op **naming;             /* operations in functions that name functions */
    size_t num_naming, cap_naming;
    struct hlo_block **blocks;          /* all of them, outer before inner */
    size_t num_blocks, cap_blocks;
    struct hlo_merge *merge;            /* step 4, where bodies may be equal; NULL before */
    struct visit *stack;                /* of step 4: what is being visited, and the captures of those with regions */
    struct capture *captures;
    size_t depth, cap_stack, num_captures, cap_captures;
    uint8_t *state;
};

/* Another element at the end of a stack in the scratch arena. */
#define PUSH(c, stack, cap, n, ...)                                                                                        \
    do {                                                                                                                   \
        if ((n) == (c)->cap) {                                                                                             \
            (c)->cap = (c)->cap ? (c)->cap * 2 : 64;                                                                       \
            void *grown_ = nf_arena_alloc_array((c)->scratch, (c)->cap, sizeof *(c)->stack);                               \
            if (n)                                                                                                         \
                memcpy(grown_, (c)->stack, (n) * sizeof *(c)->stack);                                                      \
            (c)->stack = grown_;                                                                                           \
        }                                                                                                                  \
        (c)->stack[(n)++] = __VA_ARGS__;                                                                                   \
    } while (0)

static uint32_t traits_of(const struct hlo_op *op) { return hlo_op_info((enum hlo_op_id)op->id)->traits; }

/* ---- 1: functions ---- */

static void mark_symbol(struct canon *c, struct nf_str name, struct hlo_op **queue, size_t *n)
{
    struct hlo_op *f = hlo_module_func(c->m, name);
    if (!f || f->loc == UINT32_MAX) /* UINT32_MAX: queued */
        return;
    queue[(*n)++] = f;
    f->loc = UINT32_MAX;
}

/* False if there is no symbol in it. */
static bool mark_symbols(struct canon *c, const struct hlo_attr *a, struct hlo_op **queue, size_t *n, unsigned depth)
{
    bool any = false;
    if (!a || depth > 64)
        return false;
    if (a->kind == HLO_ATTR_SYMBOL) {
        mark_symbol(c, a->str, queue, n);
        any = true;
    } else if (a->kind == HLO_ATTR_ARRAY) {
        for (size_t i = 0; i < a->array.n; i++)
            any |= mark_symbols(c, a->array.v[i], queue, n, depth + 1);
    } else if (a->kind == HLO_ATTR_DICT) {
        for (size_t i = 0; i < a->dict.n; i++)
            any |= mark_symbols(c, a->dict.v[i].attr, queue, n, depth + 1);
    } else if (a->kind == HLO_ATTR_MESH_AXES) {
        any = mark_symbols(c, a->mesh_axes.mesh, queue, n, depth + 1);
    }
    return any;
}

static void mark_references(struct canon *c, struct hlo_op *func, struct hlo_op **queue, size_t *n)
{
    struct hlo_walk w = hlo_walk_of(func);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        int attrs = hlo_op_info((enum hlo_op_id)op->id)->num_attrs;
        bool any = false;
        for (int i = 0; i < attrs; i++)
            any |= mark_symbols(c, op->attrs[i], queue, n, 0);
        for (uint32_t i = 0; i < op->num_dict; i++)
            any |= mark_symbols(c, op->dict[i].attr, queue, n, 0);
        if (any)
            PUSH(c, naming, cap_naming, c->num_naming, op);
    }
}

/* Rewrites symbol references to renamed functions. renames: old name -> new name. */
static const struct hlo_attr *renamed(struct canon *c, const struct hlo_attr *a, const struct nf_map *renames, unsigned depth)
{
    if (!a || depth > 64)
        return a;
    if (a->kind == HLO_ATTR_SYMBOL) {
        const char *to = nf_map_get(renames, a->str);
        return to ? hlo_attr_symbol(c->m, nf_str_c(to)) : a;
    }
    if (a->kind == HLO_ATTR_ARRAY) {
        const struct hlo_attr **v = NULL;
        for (size_t i = 0; i < a->array.n; i++) {
            const struct hlo_attr *r = renamed(c, a->array.v[i], renames, depth + 1);
            if (r != a->array.v[i] && !v) {
                v = NF_NEW_ARRAY(c->scratch, const struct hlo_attr *, a->array.n);
                memcpy(v, a->array.v, a->array.n * sizeof *v);
            }
            if (v)
                v[i] = r;
        }
        return v ? hlo_attr_array(c->m, a->array.n, v) : a;
    }
    if (a->kind == HLO_ATTR_DICT) {
        struct hlo_named *v = NULL;
        for (size_t i = 0; i < a->dict.n; i++) {
            const struct hlo_attr *r = renamed(c, a->dict.v[i].attr, renames, depth + 1);
            if (r != a->dict.v[i].attr && !v) {
                v = NF_NEW_ARRAY(c->scratch, struct hlo_named, a->dict.n);
                memcpy(v, a->dict.v, a->dict.n * sizeof *v);
            }
            if (v)
                v[i].attr = r;
        }
        return v ? hlo_attr_dict(c->m, a->dict.n, v) : a;
    }
    if (a->kind == HLO_ATTR_MESH_AXES) {
        const struct hlo_attr *mesh = renamed(c, a->mesh_axes.mesh, renames, depth + 1);
        if (mesh == a->mesh_axes.mesh)
            return a;
        struct hlo_attr n = *a;
        n.mesh_axes.mesh = mesh;
        return hlo_attr_new(c->m, &n);
    }
    return a;
}

static bool is_private(const struct hlo_op *f) { return nf_str_eq_c(hlo_op_string(f, HLO_A_sym_visibility), "private"); }

/* Private functions are called f0, f1, ..; where a root has one of these names, ff0, ff1, ..; and so on: how many letters it takes. */
static size_t free_prefix(struct canon *c, struct hlo_op *const *roots, size_t n, size_t count)
{
    bool *taken = NF_NEW_ARRAY(c->scratch, bool, n + 2); /* n names cannot take n + 1 prefixes */
    for (size_t i = 0; i < n; i++) {
        struct nf_str name = hlo_func_name(roots[i]);
        size_t letters = 0;
        uint64_t number;
        while (letters < name.len && name.data[letters] == 'f')
            letters++;
        struct nf_str digits = nf_str_n(name.data + letters, name.len - letters);
        bool as_printed = digits.len && (digits.data[0] != '0' || digits.len == 1);
        if (letters && letters <= n && as_printed && nf_str_to_u64(digits, &number) == 0 && number < count)
            taken[letters] = true;
    }
    size_t letters = 1;
    while (taken[letters])
        letters++;
    return letters;
}

static void rename_symbols(struct canon *c, struct hlo_op *op, const struct nf_map *renames)
{
    int attrs = hlo_op_info((enum hlo_op_id)op->id)->num_attrs;
    for (int i = 0; i < attrs; i++)
        op->attrs[i] = renamed(c, op->attrs[i], renames, 0);
    for (uint32_t i = 0; i < op->num_dict; i++)
        op->dict[i].attr = renamed(c, op->dict[i].attr, renames, 0);
}

/* Those that were noted in functions, and all that stand outside. */
static void rename_all(struct canon *c, const struct nf_map *renames)
{
    for (size_t i = 0; i < c->num_naming; i++)
        rename_symbols(c, c->naming[i], renames);
    HLO_FOR_OPS(op, hlo_module_block(c->m)) {
        struct hlo_walk w = hlo_walk_of(op);
        rename_symbols(c, op, renames);
        for (struct hlo_op *in; op->id != HLO_OP_FUNC && (in = hlo_walk_next(&w));)
            rename_symbols(c, in, renames);
    }
}

static void order_functions(struct canon *c)
{
    struct hlo_module *m = c->m;
    struct hlo_block *top = hlo_module_block(m);
    size_t count = 0, n = 0, done = 0;
    HLO_FOR_OPS(op, top)
        count++;
    if (!count)
        return;
    struct hlo_op **queue = NF_NEW_ARRAY(c->scratch, struct hlo_op *, count + 1);
    uint32_t *locs = NF_NEW_ARRAY(c->scratch, uint32_t, count + 1);
    hlo_module_symbols_changed(m);
    struct hlo_op *entry = hlo_module_entry(m);
    /* roots: the entry; without one every function that others may call from outside */
    size_t at = 0;
    HLO_FOR_OPS(op, top)
        if (op->id == HLO_OP_FUNC)
            locs[at++] = op->loc;
    at = 0;
    HLO_FOR_OPS(op, top) {
        if (op->id != HLO_OP_FUNC)
            continue;
        if (op == entry || (!entry && !is_private(op)))
            mark_symbol(c, hlo_func_name(op), queue, &n);
    }
    if (entry)
        for (size_t i = 0; i < n; i++)
            if (queue[i] == entry) { /* first, whatever its place */
                queue[i] = queue[0];
                queue[0] = entry;
            }
    size_t roots = n;
    for (; roots < count && done < n; done++)
        mark_references(c, queue[done], queue, &n);
    /* what was not reached goes; others of the module's operations stay in front */
    HLO_FOR_OPS(op, top) {
        if (op->id != HLO_OP_FUNC)
            continue;
        bool reached = op->loc == UINT32_MAX;
        op->loc = locs[at++];
        if (!reached)
            hlo_op_erase(op);
    }
    struct nf_map *renames = nf_map_new(false);
    size_t letters = free_prefix(c, queue, roots, n - roots);
    char *prefix = nf_arena_alloc(c->scratch, letters + 1);
    memset(prefix, 'f', letters);
    for (size_t i = 0; i < n; i++) {
        hlo_op_move(queue[i], top, NULL);
        if (hlo_func_block(queue[i])) /* a declaration must stay private */
            hlo_op_set_attr(queue[i], HLO_A_sym_visibility, NULL);
        if (i >= roots)
            nf_map_put(renames, hlo_func_name(queue[i]), nf_arena_printf(m->arena, "%s%zu", prefix, i - roots));
    }
    for (size_t i = roots; i < n; i++)
        hlo_op_set_attr(queue[i], HLO_A_sym_name, hlo_attr_string(m, nf_str_c(nf_map_get(renames, hlo_func_name(queue[i])))));
    if (n > roots)
        rename_all(c, renames);
    nf_map_free(renames);
    hlo_module_symbols_changed(m);
}

/* ---- 2: attributes ---- */

static bool string_is(const struct hlo_attr *a, const char *s) { return a->kind == HLO_ATTR_STRING && nf_str_eq_c(a->str, s); }

/* Decoration that cannot change what is computed. */
static bool is_decoration(const struct canon *c, struct nf_str name, const struct hlo_attr *a)
{
    if (nf_str_eq_c(name, "jax.result_info") || nf_str_eq_c(name, "jax.arg_info"))
        return true;
    if (nf_str_eq_c(name, "jax.uses_shape_polymorphism"))
        return a->kind == HLO_ATTR_BOOL && !a->b;
    if (nf_str_eq_c(name, "mhlo.layout_mode"))
        return string_is(a, "default");
    if (nf_str_eq_c(name, "mhlo.num_partitions") || nf_str_eq_c(name, "mhlo.num_replicas"))
        return a->kind == HLO_ATTR_INT && a->i == 1;
    if (c->devices == 1 && (nf_str_eq_c(name, "mhlo.sharding") || nf_str_eq_c(name, "sdy.sharding") || nf_str_eq_c(name, "sdy.sharding_rule")))
        return true;
    return false;
}

static uint32_t filter_dict(const struct canon *c, struct hlo_named *v, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!is_decoration(c, v[i].name, v[i].attr))
            v[kept++] = v[i];
    return kept;
}

static const struct hlo_attr *filter_dicts(struct canon *c, const struct hlo_attr *dicts)
{
    if (!dicts || dicts->kind != HLO_ATTR_ARRAY)
        return dicts;
    const struct hlo_attr **v = NF_NEW_ARRAY(c->scratch, const struct hlo_attr *, dicts->array.n + 1);
    bool any = false;
    for (size_t i = 0; i < dicts->array.n; i++) {
        const struct hlo_attr *d = dicts->array.v[i];
        v[i] = d;
        if (d->kind != HLO_ATTR_DICT)
            continue;
        struct hlo_named *copy = NF_NEW_ARRAY(c->scratch, struct hlo_named, d->dict.n + 1);
        memcpy(copy, d->dict.v, d->dict.n * sizeof *copy);
        uint32_t n = filter_dict(c, copy, (uint32_t)d->dict.n);
        if (n != d->dict.n)
            v[i] = hlo_attr_dict(c->m, n, copy);
        any |= n > 0;
    }
    return any ? hlo_attr_array(c->m, dicts->array.n, v) : NULL;
}

static bool compare_type_is_natural(const struct hlo_op *op, const struct hlo_attr *a)
{
    if (a->kind != HLO_ATTR_ENUM || op->num_operands < 1)
        return false;
    const struct hlo_type *t = op->operands[0].value->type;
    enum hlo_elem_class k = t->kind <= HLO_TYPE_SCALAR ? hlo_elem_class(t->elem) : HLO_CLASS_OTHER;
    switch ((enum hlo_compare_type)a->enumeration.value) {
    case HLO_COMPARE_NOTYPE:
        return true;
    case HLO_COMPARE_FLOAT:
        return k == HLO_CLASS_FLOAT || k == HLO_CLASS_COMPLEX;
    case HLO_COMPARE_UNSIGNED:
        return k == HLO_CLASS_UINT || k == HLO_CLASS_BOOL;
    case HLO_COMPARE_SIGNED:
        return k == HLO_CLASS_SINT || k == HLO_CLASS_INDEX;
    case HLO_COMPARE_TOTALORDER:
        break;
    }
    return false;
}

static void clean_attrs(struct canon *c, struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    for (int i = 0; i < info->num_attrs; i++) {
        const struct hlo_attr *a = op->attrs[i];
        if (!a || !info->attrs[i].absent)
            continue;
        if (strcmp(info->attrs[i].absent, "natural") == 0 ? compare_type_is_natural(op, a) : hlo__spec_default_text(a, info->attrs[i].absent))
            op->attrs[i] = NULL;
    }
    /* collectives talk from device to device (1): the portable form keeps only the number of their channel, and reads back as 0 */
    int slot = op->id == HLO_OP_SEND || op->id == HLO_OP_RECV ? -1 : hlo_op_slot((enum hlo_op_id)op->id, HLO_A_channel_handle);
    if (slot >= 0 && op->attrs[slot] && op->attrs[slot]->kind == HLO_ATTR_CHANNEL && op->attrs[slot]->channel.type == 0)
        op->attrs[slot] = hlo_attr_channel(c->m, op->attrs[slot]->channel.handle, 1);
    if (op->id == HLO_OP_FUNC || op->id == HLO_OP_CALL) {
        hlo_op_set_attr(op, HLO_A_arg_attrs, filter_dicts(c, hlo_op_attr(op, HLO_A_arg_attrs)));
        hlo_op_set_attr(op, HLO_A_res_attrs, filter_dicts(c, hlo_op_attr(op, HLO_A_res_attrs)));
    }
    op->num_dict = filter_dict(c, op->dict, op->num_dict);
}

/* ---- 3: constants ---- */

/* Bodies that run once for each element are kept closed: nothing of the outside is moved into view. */
static bool is_loop_like(const struct hlo_op *op) { return op->id == HLO_OP_WHILE || op->id == HLO_OP_IF || op->id == HLO_OP_CASE || op->id == HLO_OP_FUNC; }

static struct hlo_block *function_block(struct hlo_block *b)
{
    while (is_loop_like(b->region->op) && b->region->op->id != HLO_OP_FUNC && b->region->op->block)
        b = b->region->op->block;
    return b;
}

static void place_constant(struct canon *c, struct hlo_op *op)
{
    const struct hlo_attr *a = op->attrs[0];
    bool small = a && a->kind == HLO_ATTR_DENSE && a->dense.raw.len <= SMALL_CONSTANT_BYTES;
    struct hlo_value *v = &op->results[0];
    if (!small) {
        struct hlo_block *top = function_block(op->block);
        if (top != op->block)
            hlo_op_move(op, top, top->first);
        return;
    }
    /* a copy in each other block that uses it; equal ones become one later */
    struct hlo_block *last_block = NULL;
    struct hlo_op *copy = NULL;
    for (struct hlo_operand *u = v->uses, *next; u; u = next) {
        next = u->next_use;
        struct hlo_block *b = u->user->block;
        if (!b || b == op->block)
            continue;
        if (b != last_block) {
            copy = hlo_op_clone(c->m, op, NULL, 0);
            hlo_block_insert(b, b->first, copy);
            last_block = b;
        }
        hlo_op_set_operand(u->user, hlo_operand_index(u), &copy->results[0]);
    }
}

/* ---- 4: blocks ---- */

/* The operation of block b that v needs, or NULL: its definition, or the one around it. */
static struct hlo_op *needed_in(const struct hlo_value *v, const struct hlo_block *b)
{
    if (v->is_arg)
        return NULL;
    return v->def.op->block == b ? v->def.op : NULL;
}

struct visit {
    struct hlo_op *op;
    uint32_t next;              /* operand */
};

/* Of a visit whose operation has regions: what they capture. */
struct capture {
    struct hlo_walk walk;
    struct hlo_op *inner;
    uint32_t next;              /* operand of inner */
};

/* The next operation of b that op's operands from *at on depend on, NULL when all have been named. */
static struct hlo_op *next_operand(const struct hlo_op *op, uint32_t *at, const struct hlo_block *b)
{
    while (*at < op->num_operands) {
        struct hlo_op *d = needed_in(op->operands[(*at)++].value, b);
        if (d)
            return d;
    }
    return NULL;
}

static struct hlo_op *next_operand_inside(struct capture *c, const struct hlo_block *b)
{
    for (;;) {
        struct hlo_op *d = c->inner ? next_operand(c->inner, &c->next, b) : NULL;
        if (d)
            return d;
        c->inner = hlo_walk_next(&c->walk);
        c->next = 0;
        if (!c->inner)
            return NULL;
    }
}

/* Where an operation with results is, as order_block walks its block; by the id of the first result. */
enum { AHEAD, MET, ON_STACK, PLACED };

static void enter(struct canon *c, struct hlo_op *op)
{
    if (op->num_results)
        c->state[op->results[0].id] = ON_STACK;
    PUSH(c, stack, cap_stack, c->depth, (struct visit){.op = op});
    if (op->num_regions)
        PUSH(c, captures, cap_captures, c->num_captures, (struct capture){.walk = hlo_walk_of(op)});
}

/* Keeps of block b what its effects and its terminator need, in the order in which they need it. From the first body on that may have
 * become equal to another, operations are compared again as they find their place. */
static int order_block(struct canon *c, struct hlo_block *b)
{
    struct hlo_op *first = NULL, *last = NULL; /* the new list */
    bool bodies = false;
    HLO_FOR_OPS(root, b) {
        if (root->num_results && c->state[root->results[0].id] == PLACED)
            continue;
        if (root->num_results && traits_of(root) & HLO_T_PURE) {
            c->state[root->results[0].id] = MET;
            continue;
        }
        enter(c, root);
        while (c->depth) {
            struct visit *v = &c->stack[c->depth - 1];
            struct hlo_op *op = v->op, *need = next_operand(op, &v->next, b);
            if (!need && op->num_regions)
                need = next_operand_inside(&c->captures[c->num_captures - 1], b);
            if (need) {
                uint8_t state = c->state[need->results[0].id];
                if (state == AHEAD || state == ON_STACK)
                    return nf_fail(c->err, NF_EGRAPH, "an operation needs one that stands behind it");
                if (state == MET)
                    enter(c, need);
                continue;
            }
            c->depth--;
            c->num_captures -= op->num_regions > 0;
            if (op->num_results)
                c->state[op->results[0].id] = PLACED;
            bodies |= op->num_results && op->num_regions && traits_of(op) & HLO_T_PURE;
            if (bodies && hlo__merge_op(c->merge, op))
                continue;
            /* out of the old list, to the end of the new one */
            hlo_op_remove(op);
            op->block = b;
            op->prev = last;
            if (last)
                last->next = op;
            else
                first = op;
            last = op;
        }
    }
    while (b->last) /* from the end: users before what they use */
        hlo_op_erase(b->last);
    b->first = first;
    b->last = last;
    return 0;
}

static void note_blocks(struct canon *c, struct hlo_op *op)
{
    for (uint16_t r = 0; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r])
            PUSH(c, blocks, cap_blocks, c->num_blocks, b);
}

/* Inner blocks first: a dead operation inside a region must not keep one outside alive, and bodies are compared in their final order. */
static int order_blocks(struct canon *c)
{
    size_t n = c->num_blocks;
    c->state = nf_arena_alloc(c->scratch, (size_t)c->m->num_values + 1);
    c->merge = hlo__merge_new(c->m, c->scratch);
    while (n--) {
        struct hlo_block *b = c->blocks[n];
        if (b->region->op->id == HLO_OP_MODULE)
            continue;
        int rc = order_block(c, b);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- 5 ---- */

static void number_values(struct hlo_module *m)
{
    uint32_t n = 0, ops = 0;
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        ops++;
        for (uint32_t i = 0; i < op->num_results; i++)
            op->results[i].id = n++;
        for (uint16_t r = 0; r < op->num_regions; r++)
            HLO_FOR_BLOCKS(b, op->regions[r])
                for (uint32_t i = 0; i < b->num_args; i++)
                    b->args[i]->id = n++;
    }
    m->num_values = n;
    m->num_ops = ops + 1;
}

static int64_t count_attr(const struct hlo_module *m, struct nf_str name)
{
    const struct hlo_attr *a = hlo_op_discardable(m->op, name);
    return a && a->kind == HLO_ATTR_INT && a->i > 0 ? a->i : 1;
}

static bool any_mesh_of_many(const struct hlo_module *m)
{
    HLO_FOR_OPS(op, hlo_module_block(m))
        if (op->id == HLO_OP_SDY_MESH) {
            const struct hlo_attr *a = hlo_op_attr(op, HLO_A_mesh);
            /* ["x"=4]: any size other than 1 */
            for (size_t i = 0; a && a->kind == HLO_ATTR_OPAQUE && i + 1 < a->str.len; i++)
                if (a->str.data[i] == '=' && !(a->str.data[i + 1] == '1' && (i + 2 == a->str.len || a->str.data[i + 2] < '0' || a->str.data[i + 2] > '9')))
                    return true;
        }
    return false;
}

int hlo_canonicalise(struct hlo_module *m, struct nf_error *err)
{
    struct canon c = {.m = m, .err = err, .scratch = nf_arena_new(0)};
    c.devices = count_attr(m, NF_STR("mhlo.num_partitions")) * count_attr(m, NF_STR("mhlo.num_replicas"));
    if (any_mesh_of_many(m))
        c.devices = NF_MAX(c.devices, 2);
    order_functions(&c);
    hlo_op_set_attr(m->op, HLO_A_sym_name, NULL);
    hlo_op_set_attr(m->op, HLO_A_sym_visibility, NULL);
    clean_attrs(&c, m->op);
    struct hlo_merge *merge = hlo__merge_new(m, c.scratch);
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (op->id == HLO_OP_SDY_MESH && c.devices == 1) {
            hlo_op_erase(op);
            continue;
        }
        clean_attrs(&c, op);
        note_blocks(&c, op);
        if (op->id == HLO_OP_CONSTANT)
            place_constant(&c, op);
        if (!op->num_regions) /* outer blocks before inner ones: what is captured is one value then */
            hlo__merge_op(merge, op);
    }
    int rc = order_blocks(&c);
    if (!rc)
        number_values(m);
    nf_arena_free(c.scratch);
    return rc;
}
