/* merge.c: equal pure operations become one, for the canonical form and the pass `cse`.
 *
 * Two operations of a block are equal when they are of one kind and have the same operands, attributes, result types and, for those
 * with regions, bodies that are the same but for the names of their values. An operation whose body has an effect is equal to none.
 * A hash table over what has been met; hashes cover everything that equality looks at, so that programs made of look-alikes cost
 * no more than others. */
#include "pipeline/hlo/merge.h"

#include "pipeline/hlo/hlo_internal.h"

struct entry {
    uint64_t hash;
    struct hlo_op *op;
    uint32_t youngest;      /* the largest id of its operands */
};

struct hlo_merge {
    struct nf_arena *scratch;
    struct entry *met;      /* in order */
    uint32_t *slots;        /* index into met + 1, 0 free: small, since every operation looks somewhere else in it */
    size_t len, cap;        /* of met; twice cap slots, a power of two */
    /* values of bodies that are being compared or hashed, by id: their number, and their twin in the other body */
    uint32_t *number;
    struct hlo_value **twin;
    size_t num_values;
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static uint64_t mix_ints(uint64_t h, struct hlo_ints v) { return mix(mix(h, v.n), v.n ? nf_xxh3(v.v, v.n * sizeof *v.v) : 0); }

static uint64_t mix_str(uint64_t h, struct nf_str s) { return mix(mix(h, s.len), s.len ? nf_xxh3(s.data, s.len) : 0); }

static uint64_t attr_hash(const struct hlo_attr *a, unsigned depth)
{
    uint64_t h = (uint64_t)a->kind * 0x100000001b3u;
    if (a->type)
        h = mix(h, a->type->id);
    switch (a->kind) {
    case HLO_ATTR_BOOL:
        return mix(h, a->b);
    case HLO_ATTR_INT:
        return mix(h, (uint64_t)a->i);
    case HLO_ATTR_FLOAT:
        return mix(h, a->bits);
    case HLO_ATTR_ENUM:
        return mix(h, (uint64_t)a->enumeration.value + ((uint64_t)a->enumeration.class << 32));
    case HLO_ATTR_STRING:
    case HLO_ATTR_SYMBOL:
    case HLO_ATTR_OPAQUE:
    case HLO_ATTR_RESOURCE:
        return mix_str(h, a->str);
    case HLO_ATTR_DENSE:
        return mix_str(h, a->dense.raw);
    case HLO_ATTR_DENSE_ARRAY:
    case HLO_ATTR_BOUNDS:
        return mix_ints(h, a->ints);
    case HLO_ATTR_ARRAY:
        h = mix(h, a->array.n);
        for (size_t i = 0; depth < 64 && i < a->array.n; i++)
            h = mix(h, attr_hash(a->array.v[i], depth + 1));
        return h;
    case HLO_ATTR_DICT:
        h = mix(h, a->dict.n);
        for (size_t i = 0; depth < 64 && i < a->dict.n; i++)
            h = mix(mix_str(h, a->dict.v[i].name), attr_hash(a->dict.v[i].attr, depth + 1));
        return h;
    case HLO_ATTR_DOT:
        return mix_ints(mix_ints(mix_ints(mix_ints(h, a->dot->lhs_batching), a->dot->rhs_batching), a->dot->lhs_contracting), a->dot->rhs_contracting);
    case HLO_ATTR_RAGGED_DOT:
        h = mix_ints(mix_ints(mix_ints(h, a->ragged->lhs_batching), a->ragged->rhs_batching), a->ragged->lhs_contracting);
        return mix_ints(mix_ints(mix_ints(h, a->ragged->rhs_contracting), a->ragged->lhs_ragged), a->ragged->rhs_group);
    case HLO_ATTR_CONV:
        h = mix(mix(mix(h, (uint64_t)a->conv->input_batch), (uint64_t)a->conv->input_feature), (uint64_t)a->conv->kernel_input_feature);
        h = mix(mix(mix(h, (uint64_t)a->conv->kernel_output_feature), (uint64_t)a->conv->output_batch), (uint64_t)a->conv->output_feature);
        return mix_ints(mix_ints(mix_ints(h, a->conv->input_spatial), a->conv->kernel_spatial), a->conv->output_spatial);
    case HLO_ATTR_GATHER:
        h = mix_ints(mix_ints(mix_ints(h, a->gather->offset_dims), a->gather->collapsed_slice_dims), a->gather->operand_batching_dims);
        return mix(mix_ints(mix_ints(h, a->gather->start_indices_batching_dims), a->gather->start_index_map), (uint64_t)a->gather->index_vector_dim);
    case HLO_ATTR_SCATTER:
        h = mix_ints(mix_ints(mix_ints(h, a->scatter->update_window_dims), a->scatter->inserted_window_dims), a->scatter->input_batching_dims);
        return mix(mix_ints(mix_ints(h, a->scatter->scatter_indices_batching_dims), a->scatter->scatter_dims_to_operand_dims), (uint64_t)a->scatter->index_vector_dim);
    case HLO_ATTR_CHANNEL:
        return mix(mix(h, (uint64_t)a->channel.handle), (uint64_t)a->channel.type);
    case HLO_ATTR_DOT_ALGORITHM:
        h = mix(mix(mix(h, a->algorithm->lhs_precision->id), a->algorithm->rhs_precision->id), a->algorithm->accumulation->id);
        h = mix(mix(h, (uint64_t)a->algorithm->lhs_components), (uint64_t)a->algorithm->rhs_components);
        return mix(mix(h, (uint64_t)a->algorithm->primitive_operations), a->algorithm->allow_imprecise);
    case HLO_ATTR_ALIAS:
        return mix(mix_ints(mix_ints(h, a->alias->output_tuple_indices), a->alias->operand_tuple_indices), (uint64_t)a->alias->operand_index);
    case HLO_ATTR_ACCURACY: /* the doubles are compared as numbers: 0 and -0 are equal, so they stay out */
        return mix(mix(h, (uint64_t)a->accuracy->ulps), (uint64_t)a->accuracy->mode);
    case HLO_ATTR_MESH_AXES:
        return depth < 64 ? mix(mix(h, attr_hash(a->mesh_axes.mesh, depth + 1)), attr_hash(a->mesh_axes.axes, depth + 1)) : h;
    case HLO_ATTR_UNIT:
    case HLO_ATTR_TYPE:
    case HLO_ATTR_LOCATION:
    case HLO_ATTR_KIND_MAX:
        break;
    }
    return h;
}

/* Without operands and regions. */
static uint64_t hash_shallow(const struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    uint64_t h = op->id;
    for (uint32_t i = 0; i < op->num_results; i++)
        h = mix(h, op->results[i].type->id);
    for (int i = 0; i < info->num_attrs; i++)
        h = mix(h, op->attrs[i] ? attr_hash(op->attrs[i], 0) : 7);
    for (uint32_t i = 0; i < op->num_dict; i++)
        h = mix(mix_str(h, op->dict[i].name), attr_hash(op->dict[i].attr, 0));
    return h;
}

static bool equal_shallow(const struct hlo_op *a, const struct hlo_op *b)
{
    if (a->id != b->id || a->num_operands != b->num_operands || a->num_results != b->num_results || a->num_dict != b->num_dict || a->num_regions != b->num_regions)
        return false;
    for (uint32_t i = 0; i < a->num_results; i++)
        if (a->results[i].type != b->results[i].type)
            return false;
    int attrs = hlo_op_info((enum hlo_op_id)a->id)->num_attrs;
    for (int i = 0; i < attrs; i++)
        if (a->attrs[i] != b->attrs[i] && !hlo_attr_eq(a->attrs[i], b->attrs[i]))
            return false;
    for (uint32_t i = 0; i < a->num_dict; i++)
        if (!nf_str_eq(a->dict[i].name, b->dict[i].name) || !hlo_attr_eq(a->dict[i].attr, b->dict[i].attr))
            return false;
    return true;
}

struct hlo_merge *hlo__merge_new(const struct hlo_module *m, struct nf_arena *scratch)
{
    struct hlo_merge *t = NF_NEW(scratch, struct hlo_merge);
    t->scratch = scratch;
    for (t->cap = 128; t->cap < m->num_ops; t->cap *= 2)
        ;
    t->num_values = m->num_values;
    return t;
}

/* Tables by value, for bodies: made for the first one. */
static void bodies_begin(struct hlo_merge *t)
{
    if (t->number)
        return;
    t->number = NF_NEW_ARRAY(t->scratch, uint32_t, t->num_values + 1);
    t->twin = NF_NEW_ARRAY(t->scratch, struct hlo_value *, t->num_values + 1);
}

/* Adds op's regions to the hash; false if something in them has an effect. Inside, values count by their number, outside by their id. */
static bool hash_regions(struct hlo_merge *t, struct hlo_op *op, uint64_t *h)
{
    uint32_t n = 0;
    bodies_begin(t);
    for (uint16_t r = 0; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r]) {
            *h = mix(*h, b->num_args);
            for (uint32_t i = 0; i < b->num_args; i++)
                t->number[b->args[i]->id] = ++n, *h = mix(*h, b->args[i]->type->id);
        }
    bool pure = true;
    struct hlo_walk w = hlo_walk_of(op);
    for (struct hlo_op *in; pure && (in = hlo_walk_next(&w));) {
        pure = (hlo_op_info((enum hlo_op_id)in->id)->traits & (HLO_T_PURE | HLO_T_TERMINATOR)) != 0;
        *h = mix(*h, hash_shallow(in));
        for (uint32_t i = 0; i < in->num_operands; i++) {
            uint32_t id = in->operands[i].value->id;
            *h = mix(*h, t->number[id] ? (uint64_t)t->number[id] << 32 : id);
        }
        for (uint32_t i = 0; i < in->num_results; i++)
            t->number[in->results[i].id] = ++n;
        for (uint16_t r = 0; r < in->num_regions; r++)
            HLO_FOR_BLOCKS(b, in->regions[r]) {
                *h = mix(*h, b->num_args);
                for (uint32_t i = 0; i < b->num_args; i++)
                    t->number[b->args[i]->id] = ++n, *h = mix(*h, b->args[i]->type->id);
            }
    }
    /* numbers are given anew for each body; those of this one must not be met again from outside */
    w = hlo_walk_of(op);
    for (struct hlo_op *in = op; in; in = hlo_walk_next(&w)) {
        for (uint32_t i = 0; in != op && i < in->num_results; i++)
            t->number[in->results[i].id] = 0;
        for (uint16_t r = 0; r < in->num_regions; r++)
            HLO_FOR_BLOCKS(b, in->regions[r])
                for (uint32_t i = 0; i < b->num_args; i++)
                    t->number[b->args[i]->id] = 0;
    }
    return pure;
}

static bool pair_args(struct hlo_merge *t, const struct hlo_op *a, const struct hlo_op *b)
{
    for (uint16_t r = 0; r < a->num_regions; r++) {
        const struct hlo_block *y = b->regions[r]->first;
        HLO_FOR_BLOCKS(x, a->regions[r]) {
            if (!y || x->num_args != y->num_args)
                return false;
            for (uint32_t i = 0; i < x->num_args; i++) {
                if (x->args[i]->type != y->args[i]->type)
                    return false;
                t->twin[x->args[i]->id] = y->args[i];
            }
            y = y->next;
        }
        if (y)
            return false;
    }
    return true;
}

/* Bodies side by side. What twin says of values that are not a's own is from another body and cannot equal b's operand: ids are unique. */
static bool equal_regions(struct hlo_merge *t, struct hlo_op *a, struct hlo_op *b)
{
    if (!pair_args(t, a, b))
        return false;
    struct hlo_walk wa = hlo_walk_of(a), wb = hlo_walk_of(b);
    for (;;) {
        struct hlo_op *x = hlo_walk_next(&wa), *y = hlo_walk_next(&wb);
        if (!x || !y)
            return x == y;
        if (!equal_shallow(x, y) || !pair_args(t, x, y))
            return false;
        for (uint32_t i = 0; i < x->num_operands; i++) {
            struct hlo_value *u = x->operands[i].value, *v = y->operands[i].value;
            if (u != v && t->twin[u->id] != v)
                return false;
        }
        for (uint32_t i = 0; i < x->num_results; i++)
            t->twin[x->results[i].id] = &y->results[i];
        /* the same nesting: both are the last of their block, or neither is */
        if (!x->next != !y->next)
            return false;
    }
}

static bool equal(struct hlo_merge *t, struct hlo_op *a, struct hlo_op *b)
{
    if (a->block != b->block || !equal_shallow(a, b))
        return false;
    for (uint32_t i = 0; i < a->num_operands; i++)
        if (a->operands[i].value != b->operands[i].value)
            return false;
    return !a->num_regions || equal_regions(t, a, b);
}

/* The k-th place to look at. The first ones lie near those of operations that were met at about the same time, since their operands are
 * of about the same age: neighbours in the cache. Where that neighbourhood is full, the hash decides. */
static size_t probe(const struct hlo_merge *t, const struct entry *e, uint32_t k)
{
    enum { NEAR = 4 };
    return (k < NEAR ? (size_t)e->youngest * 2 + k : (size_t)e->hash + k) & (t->cap * 2 - 1);
}

static void grow(struct hlo_merge *t)
{
    struct entry *old = t->met;
    if (t->len)
        t->cap *= 2;
    t->met = nf_arena_alloc_raw(t->scratch, t->cap * sizeof *t->met);
    t->slots = NF_NEW_ARRAY(t->scratch, uint32_t, t->cap * 2);
    for (size_t i = 0; i < t->len; i++) {
        uint32_t k = 0;
        t->met[i] = old[i];
        while (t->slots[probe(t, &old[i], k)])
            k++;
        t->slots[probe(t, &old[i], k)] = (uint32_t)i + 1;
    }
}

bool hlo__merge_op(struct hlo_merge *t, struct hlo_op *op)
{
    if (!(hlo_op_info((enum hlo_op_id)op->id)->traits & HLO_T_PURE) || op->num_results == 0)
        return false;
    struct entry e = {.op = op, .hash = mix(hash_shallow(op), (uintptr_t)op->block)};
    for (uint32_t i = 0; i < op->num_operands; i++) {
        uint32_t id = op->operands[i].value->id;
        e.hash = mix(e.hash, id);
        e.youngest = NF_MAX(e.youngest, id);
    }
    if (op->num_regions && !hash_regions(t, op, &e.hash))
        return false;
    if (t->len == t->cap || !t->met)
        grow(t);
    uint32_t k = 0;
    for (uint32_t slot; (slot = t->slots[probe(t, &e, k)]); k++) {
        struct entry *first = &t->met[slot - 1];
        if (first->hash != e.hash || !equal(t, first->op, op))
            continue;
        for (uint32_t i = 0; i < op->num_results; i++)
            hlo_value_replace(&op->results[i], &first->op->results[i]);
        hlo_op_erase(op);
        return true;
    }
    t->met[t->len] = e;
    t->slots[probe(t, &e, k)] = (uint32_t)++t->len;
    return false;
}
