/* The writer: operations, regions and the file. Operations that the wanted version has in an older form are written in that form,
 * when nothing that the form lacks is in use. Types and attributes: bytecode_encode.c. */
#include "pipeline/hlo/bytecode_writer.h"

#include <stdlib.h>

static const char *const dialect_names[BW_MAX] = {"builtin", "vhlo", "sdy"};

/* ---- attributes of operations ---- */

/* Length of a window attribute that is absent. */
static uint32_t window_rank(const struct hlo_op *op)
{
    const struct hlo_type *t = op->num_operands ? op->operands[0].value->type : NULL;
    if (!t || t->kind != HLO_TYPE_TENSOR)
        return 0;
    return op->id == HLO_OP_CONVOLUTION || op->id == HLO_OP_DYNAMIC_CONV ? NF_MAX(t->rank, 2u) - 2 : t->rank;
}

static const struct hlo_attr *splat_ints(struct hlo_module *m, enum hlo_elem e, uint32_t rank, const int64_t *dims, int64_t v)
{
    const struct hlo_type *t = hlo_type_tensor(m, e, rank, dims);
    char *raw = nf_arena_alloc(m->arena, 8);
    memcpy(raw, &v, hlo_elem_bytes(e)); /* little-endian hosts; elements are i64 or i1 */
    uint64_t n = 0;
    hlo_type_count(t, &n);
    return hlo_attr_dense(m, t, nf_str_n(raw, n ? hlo_elem_bytes(e) : 0), n > 1);
}

static const struct hlo_attr *absent_value(struct bw *w, const struct hlo_op *op, const struct hlo_attr_spec *spec)
{
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m;
    const char *d = spec->absent;
    int64_t n = d ? window_rank(op) : 0, pairs[2] = {n, 2};
    switch (spec->kind) {
    case HLO_AK_I64: return hlo_attr_int(m, HLO_ELEM_I64, d ? strtoll(d, NULL, 10) : 0);
    case HLO_AK_I32: return hlo_attr_int(m, HLO_ELEM_I32, d ? strtoll(d, NULL, 10) : 0);
    case HLO_AK_BOOL: return hlo_attr_bool(m, d && !strcmp(d, "true"));
    case HLO_AK_UNIT: return hlo_attr_bool(m, false);
    case HLO_AK_STR:
    case HLO_AK_ANY: return spec->id == HLO_A_result_tilings ? hlo_attr_array(m, 0, NULL) : hlo_attr_string(m, NF_STR(""));
    case HLO_AK_A64: return splat_ints(m, HLO_ELEM_I64, 1, &n, d && !strcmp(d, "ones"));
    case HLO_AK_AB: return splat_ints(m, HLO_ELEM_I1, 1, &n, 0);
    case HLO_AK_E64: return splat_ints(m, HLO_ELEM_I64, 2, pairs, 0);
    case HLO_AK_COMPARE_TYPE: return hlo_attr_enum(m, HLO_ENUM_COMPARE_TYPE, HLO_COMPARE_NOTYPE);
    case HLO_AK_PRECISIONS: {
        const struct hlo_attr *p = hlo_attr_enum(m, HLO_ENUM_PRECISION, HLO_PRECISION_DEFAULT);
        return hlo_attr_array(m, 2, (const struct hlo_attr *[]){p, p});
    }
    case HLO_AK_ACCURACY: return hlo_attr_accuracy(m, &(struct hlo_accuracy){.mode = HLO_ACCURACY_DEFAULT});
    case HLO_AK_DICT: return hlo_attr_dict(m, 0, NULL);
    case HLO_AK_ALIASES:
    case HLO_AK_SYMBOLS:
    case HLO_AK_DICTS:
    case HLO_AK_LAYOUTS:
    case HLO_AK_ARRAY: return hlo_attr_array(m, 0, NULL);
    case HLO_AK_F32:
    case HLO_AK_ELEMENTS:
    case HLO_AK_DIRECTION:
    case HLO_AK_FFT:
    case HLO_AK_TRANSPOSE:
    case HLO_AK_RNG_ALGORITHM:
    case HLO_AK_DISTRIBUTION:
    case HLO_AK_DOT:
    case HLO_AK_CONV:
    case HLO_AK_GATHER:
    case HLO_AK_SCATTER:
    case HLO_AK_RAGGED_DOT:
    case HLO_AK_CHANNEL:
    case HLO_AK_DOT_ALGORITHM:
    case HLO_AK_GROUPS:
    case HLO_AK_SYMBOL:
    case HLO_AK_TYPE:
    case HLO_AK_MAX: break;
    }
    return NULL; /* required ones; the verifier has seen to them */
}

/* The piece of a structure as an attribute; used says whether it is anything but the default. */
static const struct hlo_attr *piece(struct bw *w, const struct hlo_attr *a, enum vhlo_part part, bool *used)
{
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m;
    static const struct hlo_dot_algorithm no_algorithm;
    const struct hlo_dot_algorithm *algo = a && a->kind == HLO_ATTR_DOT_ALGORITHM ? a->algorithm : &no_algorithm;
    const struct hlo_attr *none = hlo_attr_type(m, hlo_type_none(m));
    struct hlo_ints list = {0};
    int64_t num = 0;
    bool is_list = true;
    *used = a != NULL;
    if (part >= VHLO_ALGO_ACCUMULATION && part <= VHLO_ALGO_RHS_PRECISION) {
        if (!a)
            return none;
        if (part == VHLO_ALGO_ACCUMULATION)
            return hlo_attr_type(m, algo->accumulation);
        if (part == VHLO_ALGO_LHS_PRECISION)
            return hlo_attr_type(m, algo->lhs_precision);
        if (part == VHLO_ALGO_RHS_PRECISION)
            return hlo_attr_type(m, algo->rhs_precision);
        if (part == VHLO_ALGO_IMPRECISE)
            return hlo_attr_bool(m, algo->allow_imprecise);
        return hlo_attr_int(m, HLO_ELEM_I64, part == VHLO_ALGO_LHS_COUNT   ? algo->lhs_components
                                             : part == VHLO_ALGO_RHS_COUNT ? algo->rhs_components
                                                                           : algo->primitive_operations);
    }
    if (!a)
        return hlo_attr_int(m, HLO_ELEM_I64, 0); /* channel_id, channel_type */
#define LIST(p, field) case p: list = field; break
#define NUM(p, field) case p: num = field; is_list = false; break
    switch (part) {
    LIST(VHLO_DOT_LHS_BATCHING, a->dot->lhs_batching);
    LIST(VHLO_DOT_RHS_BATCHING, a->dot->rhs_batching);
    LIST(VHLO_DOT_LHS_CONTRACTING, a->dot->lhs_contracting);
    LIST(VHLO_DOT_RHS_CONTRACTING, a->dot->rhs_contracting);
    NUM(VHLO_CONV_INPUT_BATCH, a->conv->input_batch);
    NUM(VHLO_CONV_INPUT_FEATURE, a->conv->input_feature);
    LIST(VHLO_CONV_INPUT_SPATIAL, a->conv->input_spatial);
    NUM(VHLO_CONV_KERNEL_INPUT, a->conv->kernel_input_feature);
    NUM(VHLO_CONV_KERNEL_OUTPUT, a->conv->kernel_output_feature);
    LIST(VHLO_CONV_KERNEL_SPATIAL, a->conv->kernel_spatial);
    NUM(VHLO_CONV_OUTPUT_BATCH, a->conv->output_batch);
    NUM(VHLO_CONV_OUTPUT_FEATURE, a->conv->output_feature);
    LIST(VHLO_CONV_OUTPUT_SPATIAL, a->conv->output_spatial);
    LIST(VHLO_GATHER_OFFSET, a->gather->offset_dims);
    LIST(VHLO_GATHER_COLLAPSED, a->gather->collapsed_slice_dims);
    LIST(VHLO_GATHER_OPERAND_BATCHING, a->gather->operand_batching_dims);
    LIST(VHLO_GATHER_INDICES_BATCHING, a->gather->start_indices_batching_dims);
    LIST(VHLO_GATHER_INDEX_MAP, a->gather->start_index_map);
    NUM(VHLO_GATHER_VECTOR, a->gather->index_vector_dim);
    LIST(VHLO_SCATTER_WINDOW, a->scatter->update_window_dims);
    LIST(VHLO_SCATTER_INSERTED, a->scatter->inserted_window_dims);
    LIST(VHLO_SCATTER_INPUT_BATCHING, a->scatter->input_batching_dims);
    LIST(VHLO_SCATTER_INDICES_BATCHING, a->scatter->scatter_indices_batching_dims);
    LIST(VHLO_SCATTER_TO_OPERAND, a->scatter->scatter_dims_to_operand_dims);
    NUM(VHLO_SCATTER_VECTOR, a->scatter->index_vector_dim);
    NUM(VHLO_CHANNEL_ID, a->channel.handle);
    NUM(VHLO_CHANNEL_TYPE, a->channel.type);
    case VHLO_WHOLE:
    case VHLO_IGNORED:
    case VHLO_ALGO_ACCUMULATION:
    case VHLO_ALGO_IMPRECISE:
    case VHLO_ALGO_LHS_COUNT:
    case VHLO_ALGO_LHS_PRECISION:
    case VHLO_ALGO_PRIMITIVE:
    case VHLO_ALGO_RHS_COUNT:
    case VHLO_ALGO_RHS_PRECISION:
    case VHLO_PART_MAX: break;
    }
#undef LIST
#undef NUM
    if (is_list) {
        *used = list.n > 0;
        return hlo_attr_i64s(m, list.n, list.v);
    }
    *used = num != 0;
    return hlo_attr_int(m, HLO_ELEM_I64, num);
}

static int put_properties(struct bw *w, const struct hlo_op *op, const struct vhlo_form *f, int dialect, struct nf_buf *o)
{
    const struct hlo_op_info *info = hlo_op_info(op->id);
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m;
    int e = 0;
    for (int i = 0; i < f->num_props && !e; i++) {
        const struct vhlo_prop *p = &f->props[i];
        const struct hlo_attr_spec *spec = &info->attrs[p->slot];
        const struct hlo_attr *a = op->attrs[p->slot];
        bool used = a != NULL;
        if (dialect != BW_VHLO && !spec->required) {
            uint64_t n = 0;
            if (a && (e = hlo__bw_attr_number(w, a, dialect, &n)))
                break;
            hlo__bw_varint(o, a ? n << 1 | 1 : 0);
            continue;
        }
        if (p->part != VHLO_WHOLE)
            a = piece(w, a, p->part, &used);
        if (p->missing) {
            if (used)
                e = hlo__bw_fail(w, op, "attribute %s is newer than version %u.%u.%u", p->name, w->version.major, w->version.minor, w->version.patch);
            continue;
        }
        if (!a)
            a = absent_value(w, op, spec);
        if (!a)
            return hlo__bw_fail(w, op, "attribute %s is missing", p->name);
        if (spec->id == HLO_A_api_version && a->kind == HLO_ATTR_INT)
            a = hlo_attr_enum(m, HLO_ENUM_CUSTOM_CALL_API, a->i);
        e = hlo__bw_put_attr(w, o, a, dialect);
    }
    return e;
}

/* ---- operations ---- */

static uint64_t loc_number(struct bw *w, uint32_t loc, int *e)
{
    static const struct hlo_loc unknown = {0};
    struct hlo_attr none = {.kind = HLO_ATTR_LOCATION, .loc = &unknown};
    if (!w->debug_info || !w->m->locs || !w->m->locs[loc])
        loc = 0;
    if (!w->loc_numbers[loc]) {
        uint64_t n = 0;
        *e = hlo__bw_attr_number(w, loc ? w->m->locs[loc] : &none, BW_BUILTIN, &n);
        w->loc_numbers[loc] = n + 1;
    }
    return w->loc_numbers[loc] - 1;
}

static uint64_t op_number(struct bw *w, int dialect, const char *name)
{
    struct nf_buf b = NF_BUF_INIT;
    hlo__bw_varint(&b, hlo__bw_string_number(w, nf_str_c(name)));
    uint64_t n = hlo__bw_number(&w->ops, dialect, nf_buf_str(&b));
    nf_buf_done(&b);
    return n;
}

static int put_region(struct bw *w, struct nf_buf *o, const struct hlo_region *r, uint64_t base);

/* Values of the region itself, without those of regions inside its operations. */
static uint64_t count_values(const struct hlo_region *r)
{
    uint64_t n = 0;
    HLO_FOR_BLOCKS(b, r)
    {
        n += b->num_args;
        HLO_FOR_OPS(op, b)
            n += op->num_results;
    }
    return n;
}

/* sdy operations take ordinary types: casts stand around them. */
static int put_cast(struct bw *w, struct nf_buf *o, uint32_t n, const uint64_t *ids, const struct hlo_type *const *types, int to)
{
    int e = 0;
    hlo__bw_varint(o, op_number(w, BW_BUILTIN, "unrealized_conversion_cast"));
    nf_buf_add_char(o, n ? 0x06 : 0);
    hlo__bw_varint(o, loc_number(w, 0, &e));
    if (!n)
        return e;
    if (!e)
        e = hlo__bw_put_types(w, o, n, types, to);
    hlo__bw_varint(o, n);
    for (uint32_t i = 0; i < n; i++)
        hlo__bw_varint(o, ids[i]);
    return e;
}

static int put_op(struct bw *w, struct nf_buf *o, const struct hlo_op *op, uint64_t inner_base)
{
    const struct hlo_op_info *info = hlo_op_info(op->id);
    struct vhlo_form f;
    char name[96];
    int dialect = op->id == HLO_OP_MODULE ? BW_BUILTIN : info->dialect == HLO_DIALECT_SDY ? BW_SDY : BW_VHLO;
    int e = 0;
    if (w->depth > 200)
        return hlo__bw_fail(w, op, "regions nest too deeply");
    if (dialect == BW_VHLO) {
        if (op->id != HLO_OP_RETURN && !vhlo_form_for(op->id, w->version, &f)) {
            e = hlo__bw_fail(w, op, info->dialect == HLO_DIALECT_STABLEHLO ? "is newer than version %u.%u.%u" : "has no portable form (version %u.%u.%u)",
                    w->version.major, w->version.minor, w->version.patch);
            if (info->dialect == HLO_DIALECT_CHLO)
                nf_error_hint(w->err, "expand it first: --passes=chlo");
            return e;
        }
        if (op->id == HLO_OP_RETURN)
            vhlo_form_for(HLO_OP_FUNC_RETURN, w->version, &f);
        if (f.one_operand && op->num_operands != 1)
            return hlo__bw_fail(w, op, "takes one operand in version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
        if (f.no_regions && op->num_regions)
            return hlo__bw_fail(w, op, "has no regions in version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
        nf_format(name, sizeof(name), "%s_v%u", info->mnemonic, f.version);
    } else {
        vhlo_form_plain(op->id, &f);
        nf_format(name, sizeof(name), "%s", info->mnemonic);
    }
    int type_dialect = dialect == BW_SDY ? BW_BUILTIN : BW_VHLO;
    struct nf_buf props = NF_BUF_INIT;
    if ((e = put_properties(w, op, &f, dialect == BW_SDY ? BW_BUILTIN : dialect, &props)))
        goto out;
    bool has_props = false; /* an older form may lack all of them: it has no properties then, not empty ones */
    for (int i = 0; i < f.num_props; i++)
        has_props |= !f.props[i].missing;
    unsigned mask = (op->num_dict ? 0x01u : 0) | (op->num_results ? 0x02u : 0) | (op->num_operands ? 0x04u : 0) |
                    (op->num_regions ? 0x10u : 0) | (has_props ? 0x40u : 0);
    hlo__bw_varint(o, op_number(w, dialect, name));
    nf_buf_add_char(o, (char)mask);
    hlo__bw_varint(o, loc_number(w, op->loc, &e));
    if (!e && op->num_dict) {
        struct nf_buf dict = NF_BUF_INIT;
        hlo__bw_varint(&dict, BUILTIN_A_DICT);
        hlo__bw_varint(&dict, op->num_dict);
        for (uint32_t i = 0; i < op->num_dict && !e; i++) {
            e = hlo__bw_put_string(w, &dict, op->dict[i].name, BW_BUILTIN);
            if (!e)
                e = hlo__bw_put_attr(w, &dict, op->dict[i].attr, dialect == BW_VHLO ? BW_VHLO : BW_BUILTIN);
        }
        hlo__bw_varint(o, hlo__bw_number(&w->attrs, BW_BUILTIN, nf_buf_str(&dict)));
        nf_buf_done(&dict);
    }
    if (e)
        goto out;
    if (mask & 0x40)
        hlo__bw_varint(o, hlo__bw_number(&w->props, 0, nf_buf_str(&props)));
    if (op->num_results) {
        hlo__bw_varint(o, op->num_results);
        for (uint32_t i = 0; i < op->num_results && !e; i++)
            e = hlo__bw_put_type(w, o, op->results[i].type, type_dialect);
    }
    if (op->num_operands) {
        hlo__bw_varint(o, op->num_operands);
        for (uint32_t i = 0; i < op->num_operands; i++)
            hlo__bw_varint(o, w->value_numbers[op->operands[i].value->id]);
    }
    if (e || !op->num_regions)
        goto out;
    bool isolated = info->traits & HLO_T_ISOLATED;
    hlo__bw_varint(o, (uint64_t)op->num_regions << 1 | isolated);
    w->depth++;
    if (isolated) {
        struct nf_buf body = NF_BUF_INIT;
        for (unsigned i = 0; i < op->num_regions && !e; i++)
            e = put_region(w, &body, op->regions[i], 0);
        nf_buf_add_char(o, 4);
        hlo__bw_varint(o, body.len);
        nf_buf_add_str(o, nf_buf_str(&body));
        nf_buf_done(&body);
    } else {
        for (unsigned i = 0; i < op->num_regions && !e; i++)
            e = put_region(w, o, op->regions[i], inner_base);
    }
    w->depth--;
out:
    nf_buf_done(&props);
    return e;
}

/* An sdy operation: operands cast to ordinary types, the operation, results cast back. Uses up 1 or 2 extra operations. */
static int put_sdy(struct bw *w, struct nf_buf *o, const struct hlo_op *op, uint64_t *next, uint64_t inner_base)
{
    int e = 0;
    uint32_t n = op->num_operands, r = op->num_results;
    uint64_t *ids = nf_alloc_array(NF_MAX(n, r) + 1, sizeof(*ids));
    const struct hlo_type **types = nf_alloc_array(NF_MAX(n, r) + 1, sizeof(*types));
    uint64_t *saved = nf_alloc_array(n + 1, sizeof(*saved));
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = w->value_numbers[op->operands[i].value->id];
        types[i] = op->operands[i].value->type;
    }
    if (n)
        e = put_cast(w, o, n, ids, types, BW_BUILTIN);
    for (uint32_t i = 0; i < n; i++) {
        saved[i] = w->value_numbers[op->operands[i].value->id];
        w->value_numbers[op->operands[i].value->id] = (*next)++;
    }
    if (!e)
        e = put_op(w, o, op, inner_base);
    for (uint32_t i = n; i-- > 0;)
        w->value_numbers[op->operands[i].value->id] = saved[i];
    for (uint32_t i = 0; i < r; i++) {
        ids[i] = (*next)++;
        types[i] = op->results[i].type;
    }
    if (!e && r)
        e = put_cast(w, o, r, ids, types, BW_VHLO);
    for (uint32_t i = 0; i < r; i++)
        w->value_numbers[op->results[i].id] = (*next)++;
    free(ids);
    free(types);
    free(saved);
    return e;
}

static bool is_sdy(const struct hlo_op *op) { return hlo_op_info(op->id)->dialect == HLO_DIALECT_SDY; }

static int put_region(struct bw *w, struct nf_buf *o, const struct hlo_region *r, uint64_t base)
{
    uint64_t blocks = 0, values = count_values(r), next = base;
    bool sdy_parent = is_sdy(r->op); /* its arguments have ordinary types: a cast stands at the head of the block */
    int e = 0;
    HLO_FOR_BLOCKS(b, r)
    {
        blocks++;
        if (sdy_parent)
            values += b->num_args;
        HLO_FOR_OPS(op, b)
            if (is_sdy(op))
                values += op->num_operands + op->num_results;
    }
    hlo__bw_varint(o, blocks);
    if (!blocks)
        return 0;
    hlo__bw_varint(o, values);
    HLO_FOR_BLOCKS(b, r)
    {
        uint64_t ops = sdy_parent && b->num_args;
        HLO_FOR_OPS(op, b)
            ops += is_sdy(op) ? 1u + (op->num_operands > 0) + (op->num_results > 0) : 1;
        hlo__bw_varint(o, ops << 1 | (b->num_args > 0));
        if (b->num_args) {
            hlo__bw_varint(o, b->num_args);
            for (uint32_t i = 0; i < b->num_args && !e; i++) {
                uint64_t t = 0;
                uint32_t loc = w->debug_info && b->arg_locs ? b->arg_locs[i] : 0;
                e = hlo__bw_type_number(w, b->args[i]->type, sdy_parent ? BW_BUILTIN : BW_VHLO, &t);
                hlo__bw_varint(o, t << 1 | (loc != 0));
                if (loc && !e)
                    hlo__bw_varint(o, loc_number(w, loc, &e));
                w->value_numbers[b->args[i]->id] = next++;
            }
            nf_buf_add_char(o, 0);
        }
        if (sdy_parent && b->num_args && !e) {
            uint64_t *ids = nf_alloc_array(b->num_args, sizeof(*ids));
            const struct hlo_type **types = nf_alloc_array(b->num_args, sizeof(*types));
            for (uint32_t i = 0; i < b->num_args; i++) {
                ids[i] = w->value_numbers[b->args[i]->id];
                types[i] = b->args[i]->type;
            }
            e = put_cast(w, o, b->num_args, ids, types, BW_VHLO);
            for (uint32_t i = 0; i < b->num_args; i++)
                w->value_numbers[b->args[i]->id] = next++;
            free(ids);
            free(types);
        }
        HLO_FOR_OPS(op, b)
        {
            if (e)
                return e;
            if (is_sdy(op)) {
                e = put_sdy(w, o, op, &next, base + values);
                continue;
            }
            e = put_op(w, o, op, base + values);
            for (uint32_t i = 0; i < op->num_results; i++)
                w->value_numbers[op->results[i].id] = next++;
        }
    }
    return e;
}

/* ---- the file ---- */

static void put_section(struct nf_buf *out, int id, const struct nf_buf *body)
{
    nf_buf_add_char(out, (char)id);
    hlo__bw_varint(out, body->len);
    nf_buf_add(out, body->data, body->len);
}

static uint64_t size_at(const struct bw_table *t, size_t i)
{
    uint64_t v;
    memcpy(&v, t->sizes.data + i * sizeof(v), sizeof(v));
    return v;
}

/* Runs of equal dialects: dialect, length, then what `item` writes for each. */
static void put_groups(struct nf_buf *o, const struct bw_table *t, void (*item)(struct nf_buf *, const struct bw_table *, size_t))
{
    for (size_t i = 0; i < t->n;) {
        size_t end = i;
        while (end < t->n && t->dialects.data[end] == t->dialects.data[i])
            end++;
        hlo__bw_varint(o, (uint64_t)t->dialects.data[i]);
        hlo__bw_varint(o, end - i);
        for (; i < end; i++)
            item(o, t, i);
    }
}

static void put_size(struct nf_buf *o, const struct bw_table *t, size_t i)
{
    bool custom = t->dialects.data[i] != BW_SDY;
    hlo__bw_varint(o, size_at(t, i) << 1 | custom);
}

static void put_op_name(struct nf_buf *o, const struct bw_table *t, size_t i)
{
    size_t at = 0;
    for (size_t k = 0; k < i; k++)
        at += size_at(t, k);
    uint64_t v = 0; /* the string's number, written as a varint: read it back, add the flag "registered" */
    const uint8_t *p = (const uint8_t *)t->bytes.data + at;
    unsigned n = (unsigned)size_at(t, i);
    for (unsigned k = 0; k < n; k++)
        v |= (uint64_t)p[k] << (8 * k);
    hlo__bw_varint(o, (v >> n) << 1 | 1);
}

static bool parse_target(const char *text, struct vhlo_version *ret)
{
    struct nf_str s = nf_str_c(text);
    uint64_t v[3];
    for (int i = 0; i < 3; i++)
        if (nf_str_to_u64(nf_str_cut(&s, '.'), &v[i]) || v[i] > 1000)
            return false;
    *ret = (struct vhlo_version){(unsigned)v[0], (unsigned)v[1], (unsigned)v[2]};
    struct vhlo_version top = VHLO_CURRENT;
    return s.data == NULL && ret->major == 1 && (ret->minor < top.minor || (ret->minor == top.minor && ret->patch <= top.patch));
}

int hlo_bytecode_write(const struct hlo_module *m, const char *version, bool debug_info, struct nf_buf *out, struct nf_error *err)
{
    struct bw w = {.m = m, .err = err, .version = VHLO_CURRENT, .debug_info = debug_info};
    struct bw_table *tables[] = {&w.strings, &w.attrs, &w.types, &w.props, &w.ops};
    struct nf_buf ir = NF_BUF_INIT, body = NF_BUF_INIT;
    uint64_t dialect_strings[BW_MAX];
    int e;
    if (version && !parse_target(version, &w.version)) {
        nf_fail(err, NF_EINVAL, "cannot write StableHLO version \"%s\"", version);
        nf_error_hint(err, "versions from 1.0.0 to %u.%u.%u can be written", VHLO_CURRENT.major, VHLO_CURRENT.minor, VHLO_CURRENT.patch);
        return NF_EINVAL;
    }
    for (size_t i = 0; i < NF_ARRAY_LEN(tables); i++)
        tables[i]->index = nf_map_new(true);
    for (int i = 0; i < 2; i++)
        w.type_numbers[i] = nf_map_new(true);
    w.loc_numbers = nf_alloc_array((size_t)m->num_locs + 1, sizeof(uint64_t));
    w.value_numbers = nf_alloc_array((size_t)m->num_values + 1, sizeof(uint64_t));
    for (int i = 0; i < BW_MAX; i++)
        dialect_strings[i] = hlo__bw_string_number(&w, nf_str_c(dialect_names[i]));

    hlo__bw_varint(&ir, 2); /* one block: one operation, no arguments */
    if ((e = put_op(&w, &ir, m->op, 0)))
        goto out;

    nf_buf_add_c(out, "ML\xEFR");
    hlo__bw_varint(out, 6);
    nf_buf_addf(out, "StableHLO_v%u.%u.%u", w.version.major, w.version.minor, w.version.patch);
    nf_buf_add_char(out, 0);

    bool sdy = memchr(w.ops.dialects.data, BW_SDY, w.ops.n) || (w.attrs.n && memchr(w.attrs.dialects.data, BW_SDY, w.attrs.n));
    int dialects = sdy ? BW_MAX : BW_SDY;
    hlo__bw_varint(&body, (uint64_t)dialects);
    for (int i = 0; i < dialects; i++)
        hlo__bw_varint(&body, dialect_strings[i] << 1);
    hlo__bw_varint(&body, w.ops.n);
    put_groups(&body, &w.ops, put_op_name);
    put_section(out, 1, &body);

    nf_buf_clear(&body);
    hlo__bw_varint(&body, w.attrs.n);
    hlo__bw_varint(&body, w.types.n);
    put_groups(&body, &w.attrs, put_size);
    put_groups(&body, &w.types, put_size);
    put_section(out, 3, &body);

    nf_buf_clear(&body);
    nf_buf_add_str(&body, nf_buf_str(&w.attrs.bytes));
    nf_buf_add_str(&body, nf_buf_str(&w.types.bytes));
    put_section(out, 2, &body);
    put_section(out, 4, &ir);

    nf_buf_clear(&body);
    hlo__bw_varint(&body, 0);
    put_section(out, 6, &body);
    nf_buf_clear(&body);
    put_section(out, 5, &body);

    hlo__bw_varint(&body, w.strings.n);
    for (size_t i = w.strings.n; i-- > 0;)
        hlo__bw_varint(&body, size_at(&w.strings, i));
    nf_buf_add_str(&body, nf_buf_str(&w.strings.bytes));
    put_section(out, 0, &body);

    nf_buf_clear(&body);
    hlo__bw_varint(&body, w.props.n);
    size_t at = 0;
    for (size_t i = 0; i < w.props.n; i++) {
        hlo__bw_varint(&body, size_at(&w.props, i));
        nf_buf_add(&body, w.props.bytes.data + at, (size_t)size_at(&w.props, i));
        at += (size_t)size_at(&w.props, i);
    }
    put_section(out, 8, &body);
    if (out->failed)
        e = nf_fail(err, NF_ENOMEM, "no memory for the bytecode");
out:
    for (size_t i = 0; i < NF_ARRAY_LEN(tables); i++) {
        nf_map_free(tables[i]->index);
        nf_buf_done(&tables[i]->bytes);
        nf_buf_done(&tables[i]->sizes);
        nf_buf_done(&tables[i]->dialects);
    }
    for (int i = 0; i < 2; i++)
        nf_map_free(w.type_numbers[i]);
    free(w.loc_numbers);
    free(w.value_numbers);
    nf_buf_done(&ir);
    nf_buf_done(&body);
    return e;
}
