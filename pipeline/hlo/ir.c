/* ir.c: modules, operations, values, blocks: making, changing, walking. */
#include "pipeline/hlo/ir.h"

#include "pipeline/hlo/hlo_internal.h"
#include "pipeline/hlo/spec_internal.h"

#include <assert.h>

struct hlo_module *hlo_module_new(struct nf_arena *arena)
{
    struct hlo_module *m = NF_NEW(arena, struct hlo_module);
    m->arena = arena;
    m->tables = NF_NEW(arena, struct hlo_tables);
    m->cap_locs = 16;
    m->num_locs = 1;
    m->locs = NF_NEW_ARRAY(arena, const struct hlo_attr *, m->cap_locs);
    m->first_line = 1;
    m->op = hlo_op_new(m, HLO_OP_MODULE, 0, NULL, 0, NULL, 1);
    hlo_block_new(m, m->op->regions[0]);
    return m;
}

/* ---- uses ---- */

static void use_link(struct hlo_operand *u)
{
    struct hlo_value *v = u->value;
    if (!v)
        return;
    u->next_use = v->uses;
    u->prev_use = &v->uses;
    if (v->uses)
        v->uses->prev_use = &u->next_use;
    v->uses = u;
}

static void use_unlink(struct hlo_operand *u)
{
    if (!u->prev_use)
        return;
    *u->prev_use = u->next_use;
    if (u->next_use)
        u->next_use->prev_use = u->prev_use;
    u->prev_use = NULL;
    u->next_use = NULL;
}

void hlo_op_set_operand(struct hlo_op *op, uint32_t i, struct hlo_value *v)
{
    use_unlink(&op->operands[i]);
    op->operands[i].value = v;
    use_link(&op->operands[i]);
}

void hlo_op_set_operands(struct hlo_module *m, struct hlo_op *op, uint32_t n, struct hlo_value *const *v)
{
    for (uint32_t i = 0; i < op->num_operands; i++)
        use_unlink(&op->operands[i]);
    if (n > op->num_operands)
        op->operands = nf_arena_alloc_array(m->arena, n, sizeof *op->operands);
    op->num_operands = n;
    for (uint32_t i = 0; i < n; i++) {
        op->operands[i] = (struct hlo_operand){.value = v[i], .user = op};
        use_link(&op->operands[i]);
    }
}

void hlo_value_replace(struct hlo_value *old, struct hlo_value *by)
{
    if (old == by)
        return;
    while (old->uses) {
        struct hlo_operand *u = old->uses;
        use_unlink(u);
        u->value = by;
        use_link(u);
    }
}

/* ---- operations ---- */

struct hlo_op *hlo_op_new(struct hlo_module *m, enum hlo_op_id id, uint32_t num_operands, struct hlo_value *const *operands,
                          uint32_t num_results, const struct hlo_type *const *result_types, uint16_t num_regions)
{
    const struct hlo_op_info *info = hlo_op_info(id);
    size_t slots = (size_t)info->num_attrs;
    size_t bytes = sizeof(struct hlo_op) + num_operands * sizeof(struct hlo_operand) + num_results * sizeof(struct hlo_value) +
                   slots * sizeof(void *) + num_regions * (sizeof(void *) + sizeof(struct hlo_region));
    char *p = nf_arena_alloc(m->arena, bytes);
    struct hlo_op *op = (struct hlo_op *)p;
    p += sizeof *op + num_results * sizeof(struct hlo_value);
    op->id = (uint16_t)id;
    op->num_results = num_results;
    op->operands = (struct hlo_operand *)p;
    op->num_operands = num_operands;
    p += num_operands * sizeof(struct hlo_operand);
    op->attrs = (const struct hlo_attr **)p;
    p += slots * sizeof(void *);
    op->regions = (struct hlo_region **)p;
    op->num_regions = num_regions;
    p += num_regions * sizeof(void *);
    for (uint16_t i = 0; i < num_regions; i++) {
        op->regions[i] = (struct hlo_region *)p + i;
        op->regions[i]->op = op;
    }
    for (uint32_t i = 0; i < num_operands; i++) {
        op->operands[i].user = op;
        if (operands && operands[i]) {
            op->operands[i].value = operands[i];
            use_link(&op->operands[i]);
        }
    }
    for (uint32_t i = 0; i < num_results; i++) {
        struct hlo_value *v = &op->results[i];
        v->type = result_types ? result_types[i] : NULL;
        v->def.op = op;
        v->id = m->num_values++;
        v->index = i & 0x7fffffffu;
    }
    m->num_ops++;
    m->made[id] = true;
    return op;
}

struct hlo_op *hlo_op_new_unknown(struct hlo_module *m, struct nf_str name, uint32_t num_operands, struct hlo_value *const *operands,
                                  uint32_t num_results, const struct hlo_type *const *result_types, uint16_t num_regions)
{
    struct hlo_op *op = hlo_op_new(m, HLO_OP_UNKNOWN, num_operands, operands, num_results, result_types, num_regions);
    struct nf_str *kept = NF_NEW(m->arena, struct nf_str);
    *kept = nf_arena_str(m->arena, name);
    op->name = kept;
    return op;
}

void hlo_op_set_attr(struct hlo_op *op, enum hlo_attr_name name, const struct hlo_attr *a)
{
    int slot = hlo_op_slot((enum hlo_op_id)op->id, name);
    assert(slot >= 0);
    op->attrs[slot] = a;
}

void hlo_op_set_named(struct hlo_module *m, struct hlo_op *op, struct nf_str name, const struct hlo_attr *a)
{
    int slot = hlo_op_slot_by_name((enum hlo_op_id)op->id, name);
    if (slot >= 0) {
        op->attrs[slot] = hlo__spec_normalise(m, hlo_op_info((enum hlo_op_id)op->id)->attrs[slot].kind, a);
        return;
    }
    uint32_t at = 0;
    while (at < op->num_dict && nf_str_cmp(op->dict[at].name, name) < 0)
        at++;
    bool found = at < op->num_dict && nf_str_eq(op->dict[at].name, name);
    if (found && a) {
        op->dict[at].attr = a;
    } else if (found) {
        for (uint32_t i = at + 1; i < op->num_dict; i++)
            op->dict[i - 1] = op->dict[i];
        op->num_dict--;
    } else if (a) {
        struct hlo_named *d = nf_arena_alloc_array(m->arena, (size_t)op->num_dict + 1, sizeof *d);
        for (uint32_t i = 0; i < at; i++)
            d[i] = op->dict[i];
        d[at] = (struct hlo_named){nf_arena_str(m->arena, name), a};
        for (uint32_t i = at; i < op->num_dict; i++)
            d[i + 1] = op->dict[i];
        op->dict = d;
        op->num_dict++;
    }
}

uint32_t hlo_loc_add(struct hlo_module *m, const struct hlo_attr *loc)
{
    if (!loc || (loc->kind == HLO_ATTR_LOCATION && loc->loc->kind == HLO_LOC_UNKNOWN))
        return 0;
    if (m->num_locs > 1 && m->locs[m->num_locs - 1] == loc)
        return m->num_locs - 1;
    if (m->num_locs == m->cap_locs) {
        const struct hlo_attr **n = NF_NEW_ARRAY(m->arena, const struct hlo_attr *, (size_t)m->cap_locs * 2);
        memcpy(n, m->locs, m->num_locs * sizeof *n);
        m->locs = n;
        m->cap_locs *= 2;
    }
    m->locs[m->num_locs] = loc;
    return m->num_locs++;
}

void hlo_op_set_loc(struct hlo_module *m, struct hlo_op *op, const struct hlo_attr *loc) { op->loc = hlo_loc_add(m, loc); }

const struct hlo_attr *hlo_op_loc(const struct hlo_module *m, const struct hlo_op *op) { return m->locs[op->loc]; }

/* ---- blocks ---- */

struct hlo_block *hlo_block_new(struct hlo_module *m, struct hlo_region *r)
{
    struct hlo_block *b = NF_NEW(m->arena, struct hlo_block);
    b->region = r;
    b->prev = r->last;
    if (r->last)
        r->last->next = b;
    else
        r->first = b;
    r->last = b;
    return b;
}

struct hlo_value *hlo_block_add_arg(struct hlo_module *m, struct hlo_block *b, const struct hlo_type *t)
{
    struct hlo_value *v = NF_NEW(m->arena, struct hlo_value);
    v->type = t;
    v->def.block = b;
    v->id = m->num_values++;
    v->index = b->num_args & 0x7fffffffu;
    v->is_arg = 1;
    if ((b->num_args & (b->num_args - 1)) == 0) { /* full at powers of two */
        struct hlo_value **args = nf_arena_alloc_array(m->arena, b->num_args ? (size_t)b->num_args * 2 : 1, sizeof *args);
        if (b->num_args)
            memcpy(args, b->args, b->num_args * sizeof *args);
        b->args = args;
        if (b->arg_locs) {
            uint32_t *locs = NF_NEW_ARRAY(m->arena, uint32_t, (size_t)b->num_args * 2);
            memcpy(locs, b->arg_locs, b->num_args * sizeof *locs);
            b->arg_locs = locs;
        }
    }
    b->args[b->num_args++] = v;
    return v;
}

void hlo_block_insert(struct hlo_block *b, struct hlo_op *before, struct hlo_op *op)
{
    assert(!op->block);
    op->block = b;
    op->next = before;
    op->prev = before ? before->prev : b->last;
    if (op->prev)
        op->prev->next = op;
    else
        b->first = op;
    if (before)
        before->prev = op;
    else
        b->last = op;
}

void hlo_block_append(struct hlo_block *b, struct hlo_op *op) { hlo_block_insert(b, NULL, op); }

void hlo_op_remove(struct hlo_op *op)
{
    struct hlo_block *b = op->block;
    if (!b)
        return;
    if (op->prev)
        op->prev->next = op->next;
    else
        b->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        b->last = op->prev;
    op->block = NULL;
    op->prev = op->next = NULL;
}

void hlo_op_move(struct hlo_op *op, struct hlo_block *b, struct hlo_op *before)
{
    hlo_op_remove(op);
    hlo_block_insert(b, before, op);
}

void hlo_op_erase(struct hlo_op *op)
{
    struct hlo_walk w = hlo_walk_of(op);
    for (struct hlo_op *inner; (inner = hlo_walk_next(&w));)
        for (uint32_t i = 0; i < inner->num_operands; i++)
            use_unlink(&inner->operands[i]);
    for (uint32_t i = 0; i < op->num_operands; i++)
        use_unlink(&op->operands[i]);
    hlo_op_remove(op);
}

void hlo_op_replace(struct hlo_op *op, struct hlo_value *const *by)
{
    for (uint32_t i = 0; i < op->num_results; i++)
        hlo_value_replace(&op->results[i], by[i]);
    hlo_op_erase(op);
}

void hlo_region_take(struct hlo_region *to, struct hlo_region *from)
{
    HLO_FOR_BLOCKS(b, from)
        b->region = to;
    if (!from->first)
        return;
    from->first->prev = to->last;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    from->first = from->last = NULL;
}

static struct hlo_value *mapped(struct hlo_value *v, struct hlo_value **map, size_t map_len)
{
    return v && v->id < map_len && map[v->id] ? map[v->id] : v;
}

/* One operation without what is in its regions. */
static struct hlo_op *clone_shallow(struct hlo_module *m, const struct hlo_op *op, struct hlo_value **map, size_t map_len)
{
    const struct hlo_type **types = nf_arena_alloc_array(m->arena, (size_t)op->num_results + 1, sizeof *types);
    struct hlo_value **operands = nf_arena_alloc_array(m->arena, (size_t)op->num_operands + 1, sizeof *operands);
    for (uint32_t i = 0; i < op->num_results; i++)
        types[i] = op->results[i].type;
    for (uint32_t i = 0; i < op->num_operands; i++)
        operands[i] = mapped(op->operands[i].value, map, map_len);
    struct hlo_op *c = hlo_op_new(m, (enum hlo_op_id)op->id, op->num_operands, operands, op->num_results, types, op->num_regions);
    for (int i = 0; i < hlo_op_info((enum hlo_op_id)op->id)->num_attrs; i++)
        c->attrs[i] = op->attrs[i];
    if (op->num_dict) {
        c->dict = nf_arena_alloc_array(m->arena, op->num_dict, sizeof *c->dict);
        memcpy(c->dict, op->dict, op->num_dict * sizeof *c->dict);
        c->num_dict = op->num_dict;
    }
    if (op->id == HLO_OP_UNKNOWN)
        c->name = op->name;
    c->loc = op->loc;
    c->pos = op->pos;
    for (uint32_t i = 0; i < op->num_results; i++)
        if (op->results[i].id < map_len)
            map[op->results[i].id] = &c->results[i];
    return c;
}

struct hlo_op *hlo_op_clone(struct hlo_module *m, const struct hlo_op *root, struct hlo_value **map, size_t map_len)
{
    struct hlo_op *copy = clone_shallow(m, root, map, map_len);
    /* Source and copy are walked side by side: at every step `from` has been copied to `to`, whose regions are to be filled. */
    const struct hlo_op *from = root;
    struct hlo_op *to = copy;
    for (;;) {
        /* down: blocks of `from`, arguments first; then its first operation anywhere */
        const struct hlo_op *child = NULL;
        struct hlo_block *child_block = NULL;
        for (uint16_t r = 0; r < from->num_regions; r++) {
            HLO_FOR_BLOCKS(b, from->regions[r]) {
                struct hlo_block *nb = hlo_block_new(m, to->regions[r]);
                for (uint32_t i = 0; i < b->num_args; i++) {
                    struct hlo_value *v = hlo_block_add_arg(m, nb, b->args[i]->type);
                    if (b->args[i]->id < map_len)
                        map[b->args[i]->id] = v;
                }
                if (!child && b->first) {
                    child = b->first;
                    child_block = nb;
                }
            }
        }
        while (!child) {
            /* sideways or up: the operation after `from` in its block, in a later block, in a later region, or after the parent */
            if (from == root)
                return copy;
            struct hlo_block *b = from->block, *nb = to->block;
            child = from->next;
            child_block = nb;
            while (!child && (b->next || b->region != b->region->op->regions[b->region->op->num_regions - 1])) {
                if (b->next) {
                    b = b->next;
                    nb = nb->next;
                } else {
                    const struct hlo_op *parent = b->region->op;
                    uint16_t r = 0;
                    while (parent->regions[r] != b->region)
                        r++;
                    struct hlo_block *first = NULL, *nfirst = NULL;
                    for (r++; r < parent->num_regions && !first; r++) {
                        first = parent->regions[r]->first;
                        nfirst = nb->region->op->regions[r]->first;
                    }
                    if (!first)
                        break;
                    b = first;
                    nb = nfirst;
                }
                child = b->first;
                child_block = nb;
            }
            if (!child) {
                to = nb->region->op;
                from = b->region->op;
            }
        }
        struct hlo_op *c = clone_shallow(m, child, map, map_len);
        hlo_block_append(child_block, c);
        from = child;
        to = c;
    }
}

struct hlo_value *hlo_build(struct hlo_module *m, struct hlo_block *b, struct hlo_op *before, enum hlo_op_id id, const struct hlo_type *result,
                            uint32_t num_operands, struct hlo_value *const *operands)
{
    struct hlo_op *op = hlo_op_new(m, id, num_operands, operands, 1, &result, 0);
    hlo_block_insert(b, before, op);
    if (before) {
        op->loc = before->loc;
        op->pos = before->pos;
    }
    return &op->results[0];
}

struct hlo_value *hlo_build_constant(struct hlo_module *m, struct hlo_block *b, struct hlo_op *before, const struct hlo_attr *dense)
{
    struct hlo_value *v = hlo_build(m, b, before, HLO_OP_CONSTANT, dense->type, 0, NULL);
    hlo_op_set_attr(v->def.op, HLO_A_value, dense);
    return v;
}

struct hlo_value *hlo_build_splat(struct hlo_module *m, struct hlo_block *b, struct hlo_op *before, const struct hlo_type *t, double v)
{
    enum hlo_elem e = hlo_type_storage(t), part = hlo_elem_part(e);
    char *raw = nf_arena_alloc(m->arena, 16);
    uint64_t bits;
    switch (hlo_elem_class(part)) {
    case HLO_CLASS_FLOAT:
        bits = hlo_float_encode(part, v);
        break;
    case HLO_CLASS_BOOL:
        bits = v != 0;
        break;
    case HLO_CLASS_SINT:
    case HLO_CLASS_UINT:
    case HLO_CLASS_INDEX:
    case HLO_CLASS_COMPLEX:
    case HLO_CLASS_QUANT:
    case HLO_CLASS_OTHER:
    default:
        bits = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
        if (hlo_elem_class(part) == HLO_CLASS_UINT)
            bits = hlo__mask_bits(part, bits);
        break;
    }
    memcpy(raw, &bits, 8);
    return hlo_build_constant(m, b, before, hlo_attr_dense(m, t, nf_str_n(raw, hlo_elem_bytes(e)), true));
}

/* ---- reading ---- */

struct nf_str hlo_op_name(const struct hlo_op *op)
{
    return op->id == HLO_OP_UNKNOWN ? *op->name : nf_str_c(hlo_op_info((enum hlo_op_id)op->id)->name);
}

const struct hlo_attr *hlo_op_attr(const struct hlo_op *op, enum hlo_attr_name name)
{
    int slot = hlo_op_slot((enum hlo_op_id)op->id, name);
    return slot < 0 ? NULL : op->attrs[slot];
}

int64_t hlo_op_i64(const struct hlo_op *op, enum hlo_attr_name name, int64_t absent)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    if (!a)
        return absent;
    return a->kind == HLO_ATTR_INT ? a->i : a->kind == HLO_ATTR_BOOL ? a->b : a->kind == HLO_ATTR_UNIT ? 1 : absent;
}

bool hlo_op_bool(const struct hlo_op *op, enum hlo_attr_name name, bool absent) { return hlo_op_i64(op, name, absent) != 0; }

int64_t hlo_op_enum(const struct hlo_op *op, enum hlo_attr_name name, int64_t absent)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    return a && a->kind == HLO_ATTR_ENUM ? a->enumeration.value : absent;
}

double hlo_op_float(const struct hlo_op *op, enum hlo_attr_name name, double absent)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    return a && a->kind == HLO_ATTR_FLOAT ? hlo_float_decode(a->type->elem, a->bits) : absent;
}

struct hlo_ints hlo_op_i64s(const struct hlo_op *op, enum hlo_attr_name name)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    return a && a->kind == HLO_ATTR_DENSE_ARRAY ? a->ints : (struct hlo_ints){0, NULL};
}

struct nf_str hlo_op_string(const struct hlo_op *op, enum hlo_attr_name name)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    return a && (a->kind == HLO_ATTR_STRING || a->kind == HLO_ATTR_SYMBOL) ? a->str : (struct nf_str){0};
}

const struct hlo_attr *hlo_op_discardable(const struct hlo_op *op, struct nf_str name)
{
    return hlo_named_find(op->dict, op->num_dict, name);
}

const struct hlo_attr *hlo_op_named(const struct hlo_op *op, struct nf_str name)
{
    int slot = hlo_op_slot_by_name((enum hlo_op_id)op->id, name);
    return slot >= 0 ? op->attrs[slot] : hlo_op_discardable(op, name);
}

const struct hlo_attr *hlo_value_constant(const struct hlo_value *v)
{
    if (v->is_arg || v->def.op->id != HLO_OP_CONSTANT)
        return NULL;
    const struct hlo_attr *a = v->def.op->attrs[0];
    return a && a->kind == HLO_ATTR_DENSE ? a : NULL;
}

struct hlo_block *hlo_module_block(const struct hlo_module *m) { return m->op->regions[0]->first; }

void hlo_module_symbols_changed(struct hlo_module *m) { m->tables->symbols = NULL; }

static void symbols_fill(struct hlo_module *m)
{
    struct hlo_tables *tb = m->tables;
    uint32_t n = 0, cap = 16;
    HLO_FOR_OPS(op, hlo_module_block(m))
        n++;
    while (cap < n * 2)
        cap *= 2;
    tb->symbols = NF_NEW_ARRAY(m->arena, struct hlo_op *, cap);
    tb->cap_symbols = cap;
    HLO_FOR_OPS(op, hlo_module_block(m)) {
        struct nf_str name = hlo_op_string(op, HLO_A_sym_name);
        if (op->id != HLO_OP_FUNC || !name.data)
            continue;
        uint32_t h = (uint32_t)nf_xxh3(name.data, name.len) & (cap - 1);
        while (tb->symbols[h])
            h = (h + 1) & (cap - 1);
        tb->symbols[h] = op;
    }
}

struct hlo_op *hlo_module_func(const struct hlo_module *m, struct nf_str name)
{
    struct hlo_tables *tb = m->tables;
    if (!tb->symbols)
        symbols_fill((struct hlo_module *)m); /* a cache */
    if (!name.len)
        return NULL;
    for (uint32_t h = (uint32_t)nf_xxh3(name.data, name.len) & (tb->cap_symbols - 1); tb->symbols[h]; h = (h + 1) & (tb->cap_symbols - 1))
        if (nf_str_eq(hlo_func_name(tb->symbols[h]), name))
            return tb->symbols[h];
    return NULL;
}

struct hlo_op *hlo_module_entry(const struct hlo_module *m)
{
    struct hlo_op *found = hlo_module_func(m, NF_STR("main"));
    if (found)
        return found;
    HLO_FOR_OPS(op, hlo_module_block(m)) {
        if (op->id != HLO_OP_FUNC)
            continue;
        if (found)
            return NULL;
        found = op;
    }
    return found;
}

const struct hlo_type *hlo_func_type(const struct hlo_op *func)
{
    const struct hlo_attr *a = hlo_op_attr(func, HLO_A_function_type);
    return a && a->kind == HLO_ATTR_TYPE ? a->type : NULL;
}

struct nf_str hlo_func_name(const struct hlo_op *func) { return hlo_op_string(func, HLO_A_sym_name); }

struct hlo_block *hlo_func_block(const struct hlo_op *func) { return func->num_regions ? func->regions[0]->first : NULL; }

static const struct hlo_attr *in_dicts(const struct hlo_attr *dicts, uint32_t i, struct nf_str name)
{
    if (!dicts || dicts->kind != HLO_ATTR_ARRAY || i >= dicts->array.n || dicts->array.v[i]->kind != HLO_ATTR_DICT)
        return NULL;
    return hlo_named_find(dicts->array.v[i]->dict.v, dicts->array.v[i]->dict.n, name);
}

const struct hlo_attr *hlo_func_arg_attr(const struct hlo_op *func, uint32_t i, struct nf_str name)
{
    return in_dicts(hlo_op_attr(func, HLO_A_arg_attrs), i, name);
}

const struct hlo_attr *hlo_func_result_attr(const struct hlo_op *func, uint32_t i, struct nf_str name)
{
    return in_dicts(hlo_op_attr(func, HLO_A_res_attrs), i, name);
}

/* ---- walking ---- */

struct hlo_walk hlo_walk_of(struct hlo_op *root) { return (struct hlo_walk){.root = root}; }

/* First operation in the regions from r on. */
static struct hlo_op *first_inside(const struct hlo_op *op, uint16_t r)
{
    for (; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r])
            if (b->first)
                return b->first;
    return NULL;
}

/* The operation after op and all that is in it, inside root. */
static struct hlo_op *after(const struct hlo_op *op, const struct hlo_op *root)
{
    while (op != root) {
        if (op->next)
            return hlo_op_next(op);
        for (struct hlo_block *b = op->block->next; b; b = b->next)
            if (b->first)
                return b->first;
        const struct hlo_op *parent = op->block->region->op;
        ptrdiff_t r = op->block->region - parent->regions[0];
        struct hlo_op *inside = first_inside(parent, (uint16_t)(r + 1));
        if (inside)
            return inside;
        op = parent;
    }
    return NULL;
}

struct hlo_op *hlo_walk_next(struct hlo_walk *w)
{
    if (!w->at) {
        w->at = first_inside(w->root, 0);
    } else {
        /* w->next was noted when at was returned: where to go if its regions are skipped or it was erased */
        struct hlo_op *inside = w->skip || !w->at->block ? NULL : first_inside(w->at, 0);
        w->at = inside ? inside : w->next;
    }
    w->skip = false;
    w->next = w->at ? after(w->at, w->root) : NULL;
    return w->at;
}

/* ---- places ---- */

void hlo__index_lines(struct hlo_module *m)
{
    struct hlo_tables *tb = m->tables;
    const char *text = m->text.data, *end = text + m->text.len;
    if (m->source != HLO_SOURCE_TEXT || tb->line_starts || !m->text.len)
        return;
    uint32_t n = 1;
    for (const char *p = text; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        n++;
    tb->line_starts = nf_arena_alloc_array(m->arena, n, sizeof *tb->line_starts);
    for (const char *p = text; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        tb->line_starts[++tb->num_lines] = (uint32_t)(p - text) + 1;
    tb->num_lines++;
}

void hlo_pos_line(const struct hlo_module *m, uint32_t pos, uint32_t *ret_line, uint32_t *ret_col)
{
    struct hlo_tables *tb = m->tables;
    uint32_t line = m->first_line;
    size_t end = NF_MIN((size_t)pos, m->text.len), start = 0;
    if (tb->line_starts) {
        /* the last line that does not begin behind end, in growing steps from the one before */
        uint32_t low = tb->line_starts[tb->last_line] <= end ? tb->last_line : 0, step = 1;
        for (; low + step < tb->num_lines && tb->line_starts[low + step] <= end; step *= 2)
            low += step;
        uint32_t high = NF_MIN(low + step, tb->num_lines);
        while (high - low > 1) {
            uint32_t mid = low + (high - low) / 2;
            if (tb->line_starts[mid] <= end)
                low = mid;
            else
                high = mid;
        }
        tb->last_line = low;
        line += low;
        start = tb->line_starts[low];
    } else {
        for (const char *p; start < end && (p = memchr(m->text.data + start, '\n', end - start)); line++)
            start = (size_t)(p - m->text.data) + 1;
    }
    *ret_line = line;
    *ret_col = (uint32_t)(end - start) + 1;
}

const char *hlo_op_where(const struct hlo_module *m, const struct hlo_op *op, char *out, size_t size)
{
    uint32_t line, col;
    switch (m->source) {
    case HLO_SOURCE_TEXT:
        hlo_pos_line(m, op->pos, &line, &col);
        nf_format(out, size, "%u:%u", line, col);
        break;
    case HLO_SOURCE_BYTES:
        nf_format(out, size, "byte %u", op->pos);
        break;
    case HLO_SOURCE_NONE:
        if (size)
            out[0] = 0;
        break;
    }
    return out;
}
