/* Attributes of operations: the portable form has a flat list in alphabetical order with every default written out; the IR has
 * slots, structures, and nothing where the program said nothing. */
#include "pipeline/hlo/bytecode_internal.h"

#include <stdlib.h>

/* ---- attributes of operations ---- */

static bool dense_is_ints(const struct hlo_attr *a, struct bc *b, struct hlo_ints *ret)
{
    uint64_t n;
    if (!a || a->kind != HLO_ATTR_DENSE || !hlo_type_count(a->type, &n) || n > 1 << 20)
        return false;
    int64_t *v = NF_NEW_ARRAY(b->m->arena, int64_t, (size_t)n);
    size_t got;
    if (!hlo_attr_dense_ints(a, (size_t)n, v, &got))
        return false;
    *ret = (struct hlo_ints){(size_t)n, v};
    return true;
}

/* The portable attribute as what the slot wants; NULL in *ret: absent. False: it is of another kind. */
static bool coerce(struct bc *b, const struct hlo_attr_spec *spec, const struct hlo_attr *a, const struct hlo_attr **ret)
{
    struct hlo_module *m = b->m;
    struct hlo_ints ints;
    *ret = a;
    switch (spec->kind) {
    case HLO_AK_I64:
    case HLO_AK_I32:
        if (a->kind == HLO_ATTR_ENUM)
            *ret = hlo_attr_int(m, HLO_ELEM_I32, a->enumeration.value);
        else if (a->kind == HLO_ATTR_INT)
            *ret = hlo_attr_int(m, spec->kind == HLO_AK_I64 ? HLO_ELEM_I64 : HLO_ELEM_I32, a->i);
        else
            return false;
        return true;
    case HLO_AK_F32: return a->kind == HLO_ATTR_FLOAT;
    case HLO_AK_BOOL: return a->kind == HLO_ATTR_BOOL;
    case HLO_AK_UNIT:
        *ret = a->kind == HLO_ATTR_BOOL && a->b ? hlo_attr_unit(m) : a->kind == HLO_ATTR_UNIT ? a : NULL;
        return a->kind == HLO_ATTR_BOOL || a->kind == HLO_ATTR_UNIT;
    case HLO_AK_STR: return a->kind == HLO_ATTR_STRING;
    case HLO_AK_A64:
        if (!dense_is_ints(a, b, &ints))
            return false;
        *ret = hlo_attr_i64s(m, ints.n, ints.v);
        return true;
    case HLO_AK_AB:
        if (!dense_is_ints(a, b, &ints))
            return false;
        *ret = hlo_attr_dense_array(m, HLO_ELEM_I1, ints.n, ints.v);
        return true;
    case HLO_AK_E64:
    case HLO_AK_ELEMENTS: return a->kind == HLO_ATTR_DENSE;
    case HLO_AK_GROUPS: return a->kind == HLO_ATTR_DENSE || a->kind == HLO_ATTR_MESH_AXES;
    case HLO_AK_DIRECTION: return a->kind == HLO_ATTR_ENUM && a->enumeration.class == HLO_ENUM_DIRECTION;
    case HLO_AK_COMPARE_TYPE: return a->kind == HLO_ATTR_ENUM && a->enumeration.class == HLO_ENUM_COMPARE_TYPE;
    case HLO_AK_FFT: return a->kind == HLO_ATTR_ENUM && a->enumeration.class == HLO_ENUM_FFT;
    case HLO_AK_TRANSPOSE: return a->kind == HLO_ATTR_ENUM && a->enumeration.class == HLO_ENUM_TRANSPOSE;
    case HLO_AK_RNG_ALGORITHM: return a->kind == HLO_ATTR_ENUM && a->enumeration.class == HLO_ENUM_RNG_ALGORITHM;
    case HLO_AK_DISTRIBUTION: return a->kind == HLO_ATTR_ENUM && a->enumeration.class == HLO_ENUM_DISTRIBUTION;
    case HLO_AK_PRECISIONS:
    case HLO_AK_ALIASES:
    case HLO_AK_LAYOUTS:
    case HLO_AK_DICTS:
    case HLO_AK_ARRAY: return a->kind == HLO_ATTR_ARRAY;
    case HLO_AK_ACCURACY: return a->kind == HLO_ATTR_ACCURACY;
    case HLO_AK_SYMBOL:
        if (a->kind == HLO_ATTR_STRING)
            *ret = hlo_attr_symbol(m, a->str);
        return a->kind == HLO_ATTR_STRING || a->kind == HLO_ATTR_SYMBOL;
    case HLO_AK_SYMBOLS: {
        if (a->kind != HLO_ATTR_ARRAY)
            return false;
        const struct hlo_attr **v = NF_NEW_ARRAY(m->arena, const struct hlo_attr *, a->array.n);
        for (size_t i = 0; i < a->array.n; i++) {
            v[i] = a->array.v[i];
            if (v[i]->kind == HLO_ATTR_STRING)
                v[i] = hlo_attr_symbol(m, v[i]->str);
            else if (v[i]->kind != HLO_ATTR_SYMBOL)
                return false;
        }
        *ret = hlo_attr_array(m, a->array.n, v);
        return true;
    }
    case HLO_AK_DICT: return a->kind == HLO_ATTR_DICT;
    case HLO_AK_TYPE: return a->kind == HLO_ATTR_TYPE;
    case HLO_AK_DOT:
    case HLO_AK_CONV:
    case HLO_AK_GATHER:
    case HLO_AK_SCATTER:
    case HLO_AK_RAGGED_DOT:
    case HLO_AK_CHANNEL:
    case HLO_AK_DOT_ALGORITHM:
    case HLO_AK_ANY:
    case HLO_AK_MAX: return true;
    }
    return false;
}

/* Every element of a list equals v. */
static bool all_ints(const struct hlo_attr *a, int64_t v)
{
    for (size_t i = 0; i < a->ints.n; i++)
        if (a->ints.v[i] != v)
            return false;
    return true;
}

static bool dense_zero(const struct hlo_attr *a)
{
    for (size_t i = 0; i < a->dense.raw.len; i++)
        if (a->dense.raw.data[i])
            return false;
    return true;
}

/* The value that a portable file writes where the program said nothing. */
static bool is_default(const struct hlo_attr_spec *spec, const struct hlo_attr *a)
{
    const char *d = spec->absent;
    uint64_t n;
    if (spec->required)
        return false;
    if (a->kind == HLO_ATTR_BOOL)
        return a->b == (d && !strcmp(d, "true"));
    if (a->kind == HLO_ATTR_INT)
        return d && (d[0] == '-' || (d[0] >= '0' && d[0] <= '9')) && a->i == strtoll(d, NULL, 10);
    if (a->kind == HLO_ATTR_STRING)
        return a->str.len == 0;
    if (a->kind == HLO_ATTR_DICT)
        return a->dict.n == 0;
    if (a->kind == HLO_ATTR_ARRAY && spec->kind != HLO_AK_PRECISIONS)
        return a->array.n == 0;
    if (a->kind == HLO_ATTR_ARRAY) {
        for (size_t i = 0; i < a->array.n; i++)
            if (a->array.v[i]->kind != HLO_ATTR_ENUM || a->array.v[i]->enumeration.value != HLO_PRECISION_DEFAULT)
                return false;
        return true;
    }
    if (a->kind == HLO_ATTR_DENSE_ARRAY)
        return !d ? a->ints.n == 0 : all_ints(a, !strcmp(d, "ones"));
    if (a->kind == HLO_ATTR_DENSE)
        return hlo_type_count(a->type, &n) && (n == 0 || (d && !strcmp(d, "zeros") && dense_zero(a)));
    if (a->kind == HLO_ATTR_ENUM)
        return a->enumeration.class == HLO_ENUM_COMPARE_TYPE && a->enumeration.value == HLO_COMPARE_NOTYPE;
    if (a->kind == HLO_ATTR_ACCURACY)
        return a->accuracy->mode == HLO_ACCURACY_DEFAULT && a->accuracy->absolute == 0 && a->accuracy->relative == 0 && a->accuracy->ulps == 0;
    return false;
}

/* A structure put together from its pieces; its address goes into the slot at the end. */
struct pieces {
    struct hlo_dot dot;
    struct hlo_conv conv;
    struct hlo_gather gather;
    struct hlo_scatter scatter;
    struct hlo_channel channel;
    struct hlo_dot_algorithm algorithm;
    int slot_dot, slot_conv, slot_gather, slot_scatter, slot_channel, slot_algorithm;
    bool has_algorithm;
};

static bool piece(struct bc *b, struct pieces *p, const struct vhlo_prop *prop, const struct hlo_attr *a)
{
    struct hlo_ints *list = NULL;
    int64_t *num = NULL;
    const struct hlo_type **type = NULL;
    switch (prop->part) {
    case VHLO_WHOLE:
    case VHLO_IGNORED:
    case VHLO_PART_MAX: return false;
    case VHLO_DOT_LHS_BATCHING: list = &p->dot.lhs_batching; break;
    case VHLO_DOT_RHS_BATCHING: list = &p->dot.rhs_batching; break;
    case VHLO_DOT_LHS_CONTRACTING: list = &p->dot.lhs_contracting; break;
    case VHLO_DOT_RHS_CONTRACTING: list = &p->dot.rhs_contracting; break;
    case VHLO_ALGO_ACCUMULATION: type = &p->algorithm.accumulation; break;
    case VHLO_ALGO_LHS_PRECISION: type = &p->algorithm.lhs_precision; break;
    case VHLO_ALGO_RHS_PRECISION: type = &p->algorithm.rhs_precision; break;
    case VHLO_ALGO_LHS_COUNT: num = &p->algorithm.lhs_components; break;
    case VHLO_ALGO_RHS_COUNT: num = &p->algorithm.rhs_components; break;
    case VHLO_ALGO_PRIMITIVE: num = &p->algorithm.primitive_operations; break;
    case VHLO_ALGO_IMPRECISE:
        p->algorithm.allow_imprecise = a->kind == HLO_ATTR_BOOL && a->b;
        p->slot_algorithm = prop->slot;
        return a->kind == HLO_ATTR_BOOL || a->kind == HLO_ATTR_TYPE;
    case VHLO_CONV_INPUT_BATCH: num = &p->conv.input_batch; break;
    case VHLO_CONV_INPUT_FEATURE: num = &p->conv.input_feature; break;
    case VHLO_CONV_INPUT_SPATIAL: list = &p->conv.input_spatial; break;
    case VHLO_CONV_KERNEL_INPUT: num = &p->conv.kernel_input_feature; break;
    case VHLO_CONV_KERNEL_OUTPUT: num = &p->conv.kernel_output_feature; break;
    case VHLO_CONV_KERNEL_SPATIAL: list = &p->conv.kernel_spatial; break;
    case VHLO_CONV_OUTPUT_BATCH: num = &p->conv.output_batch; break;
    case VHLO_CONV_OUTPUT_FEATURE: num = &p->conv.output_feature; break;
    case VHLO_CONV_OUTPUT_SPATIAL: list = &p->conv.output_spatial; break;
    case VHLO_GATHER_OFFSET: list = &p->gather.offset_dims; break;
    case VHLO_GATHER_COLLAPSED: list = &p->gather.collapsed_slice_dims; break;
    case VHLO_GATHER_OPERAND_BATCHING: list = &p->gather.operand_batching_dims; break;
    case VHLO_GATHER_INDICES_BATCHING: list = &p->gather.start_indices_batching_dims; break;
    case VHLO_GATHER_INDEX_MAP: list = &p->gather.start_index_map; break;
    case VHLO_GATHER_VECTOR: num = &p->gather.index_vector_dim; break;
    case VHLO_SCATTER_WINDOW: list = &p->scatter.update_window_dims; break;
    case VHLO_SCATTER_INSERTED: list = &p->scatter.inserted_window_dims; break;
    case VHLO_SCATTER_INPUT_BATCHING: list = &p->scatter.input_batching_dims; break;
    case VHLO_SCATTER_INDICES_BATCHING: list = &p->scatter.scatter_indices_batching_dims; break;
    case VHLO_SCATTER_TO_OPERAND: list = &p->scatter.scatter_dims_to_operand_dims; break;
    case VHLO_SCATTER_VECTOR: num = &p->scatter.index_vector_dim; break;
    case VHLO_CHANNEL_ID: num = &p->channel.handle; break;
    case VHLO_CHANNEL_TYPE: num = &p->channel.type; break;
    }
    if (prop->part <= VHLO_DOT_RHS_CONTRACTING)
        p->slot_dot = prop->slot;
    else if (prop->part <= VHLO_ALGO_RHS_PRECISION)
        p->slot_algorithm = prop->slot;
    else if (prop->part <= VHLO_CONV_OUTPUT_SPATIAL)
        p->slot_conv = prop->slot;
    else if (prop->part <= VHLO_GATHER_VECTOR)
        p->slot_gather = prop->slot;
    else if (prop->part <= VHLO_SCATTER_VECTOR)
        p->slot_scatter = prop->slot;
    else
        p->slot_channel = prop->slot;
    if (list)
        return dense_is_ints(a, b, list);
    if (type) { /* the type `none` where there is no algorithm */
        if (a->kind != HLO_ATTR_TYPE)
            return false;
        if (a->type->kind != HLO_TYPE_NONE) {
            *type = a->type;
            p->has_algorithm = true;
        }
        return true;
    }
    if (a->kind == HLO_ATTR_TYPE)
        return true; /* none */
    if (a->kind != HLO_ATTR_INT)
        return false;
    *num = a->i;
    return true;
}

static void put_pieces(struct bc *b, struct hlo_op *op, const struct pieces *p)
{
    struct hlo_module *m = b->m;
    if (p->slot_dot >= 0)
        op->attrs[p->slot_dot] = hlo_attr_dot(m, &p->dot);
    if (p->slot_conv >= 0)
        op->attrs[p->slot_conv] = hlo_attr_conv(m, &p->conv);
    if (p->slot_gather >= 0)
        op->attrs[p->slot_gather] = hlo_attr_gather(m, &p->gather);
    if (p->slot_scatter >= 0)
        op->attrs[p->slot_scatter] = hlo_attr_scatter(m, &p->scatter);
    if (p->slot_channel >= 0 && (p->channel.handle != 0 || hlo_op_info(op->id)->attrs[p->slot_channel].required))
        op->attrs[p->slot_channel] = hlo_attr_channel(m, p->channel.handle, p->channel.type);
    if (p->slot_algorithm >= 0 && p->has_algorithm) {
        struct hlo_dot_algorithm *a = NF_NEW(m->arena, struct hlo_dot_algorithm);
        *a = p->algorithm;
        const struct hlo_type *f32 = hlo_type_scalar(m, HLO_ELEM_F32);
        if (!a->lhs_precision)
            a->lhs_precision = f32;
        if (!a->rhs_precision)
            a->rhs_precision = f32;
        if (!a->accumulation)
            a->accumulation = f32;
        op->attrs[p->slot_algorithm] = hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_DOT_ALGORITHM, .algorithm = a});
    }
}

/* arg_attrs and res_attrs say nothing when all dictionaries are empty. */
static bool only_empty_dicts(const struct hlo_attr *a)
{
    for (size_t i = 0; i < a->array.n; i++)
        if (a->array.v[i]->kind != HLO_ATTR_DICT || a->array.v[i]->dict.n)
            return false;
    return true;
}

int hlo__bc_set_properties(struct bc *b, struct hlo_op *op, const struct vhlo_form *f, bool portable, struct nf_str bytes, const void *at)
{
    struct nf_reader r = nf_reader_of(bytes);
    const struct hlo_op_info *info = hlo_op_info(op->id);
    struct pieces p = {.slot_dot = -1, .slot_conv = -1, .slot_gather = -1, .slot_scatter = -1, .slot_channel = -1, .slot_algorithm = -1};
    for (int i = 0; i < f->num_props; i++) {
        const struct vhlo_prop *prop = &f->props[i];
        if (prop->missing)
            continue;
        if (prop->part == VHLO_IGNORED) {
            hlo__bc_varint(&r);
            continue;
        }
        const struct hlo_attr_spec *spec = &info->attrs[prop->slot];
        uint64_t index = hlo__bc_varint(&r);
        if (!portable && !spec->required) { /* optional: 0, or the index and a one */
            if (!(index & 1))
                continue;
            index >>= 1;
        }
        if (r.failed)
            return hlo__bc_fail(b, at, NF_EGRAPH, "%s: its attributes are cut", info->name);
        const struct hlo_attr *a, *value;
        int e = hlo__bc_attr_at(b, index, at, &a);
        if (e)
            return e;
        if (prop->part != VHLO_WHOLE) {
            if (!piece(b, &p, prop, a))
                return hlo__bc_fail(b, at, NF_EGRAPH, "%s: attribute %s is of another kind", info->name, prop->name);
            continue;
        }
        if (!coerce(b, spec, a, &value))
            return hlo__bc_fail(b, at, NF_EGRAPH, "%s: attribute %s is of another kind", info->name, prop->name);
        if (value && portable && (is_default(spec, value) || (spec->kind == HLO_AK_DICTS && only_empty_dicts(value))))
            value = NULL;
        op->attrs[prop->slot] = value;
    }
    if (r.failed || nf_reader_left(&r))
        return hlo__bc_fail(b, at, NF_EGRAPH, "%s: its attributes are cut or too many", info->name);
    put_pieces(b, op, &p);
    if (op->id == HLO_OP_CUSTOM_CALL && !hlo_op_attr(op, HLO_A_operand_layouts) != !hlo_op_attr(op, HLO_A_result_layouts)) {
        /* layouts are given for both sides or for none: an empty list beside a full one says something */
        enum hlo_attr_name side = hlo_op_attr(op, HLO_A_operand_layouts) ? HLO_A_result_layouts : HLO_A_operand_layouts;
        hlo_op_set_attr(op, side, hlo_attr_array(b->m, 0, NULL));
    }
    return 0;
}
