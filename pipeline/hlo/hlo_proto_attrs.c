/* Shapes, constants and attributes of HLO instructions. See hlo_proto_internal.h. */
#include "pipeline/hlo/hlo_proto_internal.h"

#include "base/map.h"

#include <stdlib.h>

/* PrimitiveType of xla_data.proto. */
static const struct {
    unsigned char number;
    enum hlo_elem elem;
    unsigned char literal_field; /* of LiteralProto */
} primitives[] = {
    {1, HLO_ELEM_I1, 2},           {2, HLO_ELEM_I8, 15},          {3, HLO_ELEM_I16, 17},         {4, HLO_ELEM_I32, 4},
    {5, HLO_ELEM_I64, 5},          {6, HLO_ELEM_UI8, 3},          {7, HLO_ELEM_UI16, 16},        {8, HLO_ELEM_UI32, 6},
    {9, HLO_ELEM_UI64, 7},         {10, HLO_ELEM_F16, 11},        {11, HLO_ELEM_F32, 8},         {12, HLO_ELEM_F64, 9},
    {15, HLO_ELEM_C64, 12},        {16, HLO_ELEM_BF16, 13},       {18, HLO_ELEM_C128, 18},       {19, HLO_ELEM_F8E5M2, 19},
    {20, HLO_ELEM_F8E4M3FN, 20},   {21, HLO_ELEM_I4, 21},         {22, HLO_ELEM_UI4, 22},        {23, HLO_ELEM_F8E4M3B11FNUZ, 23},
    {24, HLO_ELEM_F8E5M2FNUZ, 24}, {25, HLO_ELEM_F8E4M3FNUZ, 25}, {26, HLO_ELEM_I2, 26},         {27, HLO_ELEM_UI2, 27},
    {28, HLO_ELEM_F8E4M3, 28},     {29, HLO_ELEM_F8E3M4, 29},     {32, HLO_ELEM_F4E2M1FN, 30},   {33, HLO_ELEM_F8E8M0FNU, 31},
};

enum hlo_elem hp_elem_of(uint64_t primitive)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(primitives); i++)
        if (primitives[i].number == primitive)
            return primitives[i].elem;
    return HLO_ELEM_MAX;
}

unsigned hp_primitive_of(enum hlo_elem e)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(primitives); i++)
        if (primitives[i].elem == e)
            return primitives[i].number;
    return 0;
}

unsigned hp_literal_field(enum hlo_elem e)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(primitives); i++)
        if (primitives[i].elem == e)
            return primitives[i].literal_field;
    return 0;
}

/* PrecisionConfig.Algorithm of xla_data.proto. `f8`: any two of the 8-bit floats; read as f8E5M2, as XLA does. */
static const struct {
    unsigned char number;
    enum hlo_elem operands, accumulation;
    unsigned char operations;   /* products that make one */
    bool f8, imprecise;
} algorithms[] = {
    {1, HLO_ELEM_F8E5M2, HLO_ELEM_F32, 1, true, false}, {2, HLO_ELEM_F8E5M2, HLO_ELEM_F32, 1, true, true},
    {3, HLO_ELEM_F16, HLO_ELEM_F16, 1, false, false},   {4, HLO_ELEM_F16, HLO_ELEM_F32, 1, false, false},
    {5, HLO_ELEM_BF16, HLO_ELEM_BF16, 1, false, false}, {6, HLO_ELEM_BF16, HLO_ELEM_F32, 1, false, false},
    {7, HLO_ELEM_BF16, HLO_ELEM_F32, 3, false, false},  {8, HLO_ELEM_BF16, HLO_ELEM_F32, 6, false, false},
    {9, HLO_ELEM_TF32, HLO_ELEM_F32, 1, false, false},  {10, HLO_ELEM_TF32, HLO_ELEM_F32, 3, false, false},
    {11, HLO_ELEM_F32, HLO_ELEM_F32, 1, false, false},  {12, HLO_ELEM_F64, HLO_ELEM_F64, 1, false, false},
    {13, HLO_ELEM_BF16, HLO_ELEM_F32, 9, false, false},
};

static bool is_f8(enum hlo_elem e) { return hlo_elem_class(e) == HLO_CLASS_FLOAT && hlo_elem_bits(e) == 8; }

unsigned hp_algorithm_of(const struct hlo_dot_algorithm *a)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(algorithms); i++) {
        enum hlo_elem l = a->lhs_precision->elem, r = a->rhs_precision->elem;
        bool operands = algorithms[i].f8 ? is_f8(l) && is_f8(r) : l == algorithms[i].operands && r == algorithms[i].operands;
        if (operands && a->accumulation->elem == algorithms[i].accumulation && a->lhs_components == 1 && a->rhs_components == 1 &&
            a->primitive_operations == algorithms[i].operations && a->allow_imprecise == algorithms[i].imprecise)
            return algorithms[i].number;
    }
    return 0;
}

bool hp_algorithm(struct hlo_module *m, uint64_t number, struct hlo_dot_algorithm *ret)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(algorithms); i++) {
        if (algorithms[i].number != number)
            continue;
        const struct hlo_type *t = hlo_type_scalar(m, algorithms[i].operands);
        *ret = (struct hlo_dot_algorithm){.lhs_precision = t, .rhs_precision = t, .accumulation = hlo_type_scalar(m, algorithms[i].accumulation), .lhs_components = 1,
                                          .rhs_components = 1, .primitive_operations = algorithms[i].operations, .allow_imprecise = algorithms[i].imprecise};
        return true;
    }
    return false;
}

int64_t *hp_ints(struct hp *p, struct nf_str message, uint32_t num, size_t *ret_n)
{
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    size_t n = 0;
    while (pb_next(&r, &f))
        if (f.num == num)
            n += f.wire == PB_BYTES ? f.bytes.len : 1; /* a byte each at least */
    *ret_n = 0;
    if (n == 0)
        return NULL;
    int64_t *v = NF_NEW_ARRAY(p->m->arena, int64_t, n);
    r = nf_reader_of(message);
    while (pb_next(&r, &f)) {
        if (f.num != num)
            continue;
        if (f.wire != PB_BYTES) {
            v[(*ret_n)++] = (int64_t)f.v;
            continue;
        }
        struct nf_reader inner = nf_reader_of(f.bytes);
        while (nf_reader_left(&inner) && !inner.failed)
            v[(*ret_n)++] = (int64_t)nf_reader_varint(&inner);
    }
    return v;
}

/* Row-major, as IR constants and arguments are. */
static bool default_layout(struct hp *p, struct nf_str shape, size_t rank)
{
    struct nf_str layout = pb_bytes(shape, SHAPE_LAYOUT);
    size_t n;
    int64_t *order = hp_ints(p, layout, LAYOUT_MINOR_TO_MAJOR, &n);
    for (size_t i = 0; i < n; i++)
        if (order[i] != (int64_t)(rank - 1 - i))
            return false;
    return true;
}

static int array_type(struct hp *p, const struct hp_inst *i, struct nf_str shape, uint64_t primitive, const struct hlo_type **ret)
{
    enum hlo_elem e = hp_elem_of(primitive);
    size_t rank, flags;
    int64_t *dims = hp_ints(p, shape, SHAPE_DIMENSIONS, &rank), *dynamic = hp_ints(p, shape, SHAPE_DYNAMIC, &flags);
    struct hlo_type t = {.kind = HLO_TYPE_TENSOR, .elem = e, .rank = (uint32_t)rank, .dims = dims};
    if (e == HLO_ELEM_MAX)
        return hp_fail(p, i, NF_EUNSUPPORTED, "element type %llu", (unsigned long long)primitive);
    if (rank > HLO_MAX_RANK)
        return hp_fail(p, i, NF_ELIMIT, "more dimensions than the limit of %d", HLO_MAX_RANK);
    for (size_t k = 0; k < rank; k++)
        if (dims[k] < 0)
            return hp_fail(p, i, NF_EGRAPH, "a dimension of %lld", (long long)dims[k]);
    for (size_t k = 0; k < flags && k < rank; k++) {
        if (!dynamic[k])
            continue;
        if (!t.bounds) {
            int64_t *bounds = NF_NEW_ARRAY(p->m->arena, int64_t, rank);
            for (size_t j = 0; j < rank; j++)
                bounds[j] = j < flags && dynamic[j] ? dims[j] : HLO_DYNAMIC;
            t.bounds = bounds;
        }
        dims[k] = HLO_DYNAMIC;
    }
    *ret = hlo_type_intern(p->m, &t);
    return 0;
}

int hp_shape_leaves(struct hp *p, const struct hp_inst *i, struct nf_str shape, const struct hlo_type **list, uint32_t cap, uint32_t *n)
{
    uint64_t primitive = pb_uint(shape, SHAPE_ELEMENT, 0);
    int e = 0;
    if (primitive == PRIMITIVE_TUPLE) {
        if (p->depth >= p->limits->depth) {
            hp_fail(p, i, NF_ELIMIT, "tuples nest deeper than %u", p->limits->depth);
            return hlo_limit_hint(p->limits, "max_depth", p->err);
        }
        p->depth++;
        struct nf_reader r = nf_reader_of(shape);
        struct pb_field f;
        while (!e && pb_next(&r, &f))
            if (f.num == SHAPE_TUPLE && f.wire == PB_BYTES)
                e = hp_shape_leaves(p, i, f.bytes, list, cap, n);
        p->depth--;
        return e ? e : r.failed ? hp_cut(p, r.at, "a shape") : 0;
    }
    if (*n >= cap)
        return hp_fail(p, i, NF_ELIMIT, "a tuple of more than %u arrays", cap);
    if (primitive == PRIMITIVE_TOKEN) {
        list[(*n)++] = hlo_type_token(p->m);
        return 0;
    }
    if ((e = array_type(p, i, shape, primitive, &list[*n])))
        return e;
    (*n)++;
    return 0;
}

/* The bytes of a literal in the storage of the IR: a view where the wire has them so. */
int hp_literal(struct hp *p, const struct hp_inst *i, const struct hlo_type *type, const struct hlo_attr **ret)
{
    struct nf_str literal = pb_bytes(i->message, INST_LITERAL);
    uint64_t count, bytes;
    if (!hlo_type_count(type, &count) || !hlo_type_bytes(type, &bytes))
        return hp_fail(p, i, NF_EGRAPH, "a constant without a static shape");
    if (count > 1 && !default_layout(p, pb_bytes(literal, 1), type->rank))
        return hp_fail(p, i, NF_EUNSUPPORTED, "a constant whose layout is not row-major");
    if (bytes > p->limits->literal_bytes) {
        hp_fail(p, i, NF_ELIMIT, "a constant of more than %llu bytes", (unsigned long long)p->limits->literal_bytes);
        return hlo_limit_hint(p->limits, "max_literal", p->err);
    }
    if ((p->literal_bytes += bytes) > p->limits->literals_bytes)
        return hp_fail(p, i, NF_ELIMIT, "constants of more than %llu bytes", (unsigned long long)p->limits->literals_bytes);
    unsigned num = hp_literal_field(type->elem), size = hlo_elem_bytes(type->elem), part = hlo_elem_bytes(hlo_elem_part(type->elem));
    struct nf_reader r = nf_reader_of(literal);
    struct pb_field f;
    struct nf_str raw = {0};
    bool fixed = hlo_elem_class(type->elem) == HLO_CLASS_FLOAT || hlo_elem_class(type->elem) == HLO_CLASS_COMPLEX || size <= 2;
    bool packed4 = type->elem == HLO_ELEM_I4 || type->elem == HLO_ELEM_UI4;
    while (pb_next(&r, &f))
        if (f.num == num && f.wire == PB_BYTES && f.bytes.len == (packed4 ? (bytes + 1) / 2 : bytes))
            raw = f.bytes;
    if (packed4 && raw.data) { /* two a byte, the first in the lower half */
        char *out = nf_arena_alloc_raw(p->m->arena, (size_t)bytes);
        for (uint64_t k = 0; k < bytes; k++) {
            unsigned v = (uint8_t)raw.data[k / 2] >> (k % 2 * 4) & 15u;
            out[k] = (char)(type->elem == HLO_ELEM_I4 && v > 7 ? v | 0xF0u : v);
        }
        raw = nf_str_n(out, (size_t)bytes);
    } else if (type->elem == HLO_ELEM_I1 && raw.data) {
        for (uint64_t k = 0; k < bytes; k++)
            if ((uint8_t)raw.data[k] > 1)
                return hp_fail(p, i, NF_EGRAPH, "a boolean that is neither 0 nor 1");
    } else if (!fixed || !raw.data) {
        /* numbers one by one: varints, or floats that were not packed */
        if (count > literal.len)
            return hp_fail(p, i, NF_EGRAPH, "%llu elements in %zu bytes", (unsigned long long)count, literal.len);
        char *out = nf_arena_alloc(p->m->arena, (size_t)bytes);
        uint64_t at = 0;
        r = nf_reader_of(literal);
        while (pb_next(&r, &f)) {
            if (f.num != num)
                continue;
            struct nf_reader inner = nf_reader_of(f.bytes);
            while (at + part <= bytes && (f.wire != PB_BYTES || nf_reader_left(&inner))) {
                uint64_t v = f.v;
                if (f.wire == PB_BYTES)
                    v = fixed ? (part == 8 ? nf_reader_u64le(&inner) : nf_reader_u32le(&inner)) : nf_reader_varint(&inner);
                memcpy(out + at, &v, part);
                at += part;
                if (f.wire != PB_BYTES)
                    break;
            }
        }
        if (at != bytes)
            return hp_fail(p, i, NF_EGRAPH, "a constant with %llu bytes of %llu", (unsigned long long)at, (unsigned long long)bytes);
        raw = nf_str_n(out, (size_t)bytes);
    }
    *ret = hlo_attr_dense(p->m, type, raw, false);
    return 0;
}

/* ---- attributes ---- */

static const struct hlo_attr *i64_attr(struct hp *p, uint64_t v) { return hlo_attr_int(p->m, HLO_ELEM_I64, (int64_t)v); }

static const struct hlo_attr *list_attr(struct hp *p, const struct hp_inst *i, uint32_t num)
{
    size_t n;
    int64_t *v = hp_ints(p, i->message, num, &n);
    return hlo_attr_i64s(p->m, n, v);
}

static struct hlo_ints ints(struct hp *p, struct nf_str message, uint32_t num)
{
    struct hlo_ints v = {0};
    v.v = hp_ints(p, message, num, &v.n);
    return v;
}

/* A rows x cols matrix of i64. */
static const struct hlo_attr *matrix(struct hp *p, size_t rows, size_t cols, const int64_t *v)
{
    return hlo_attr_dense_i64s(p->m, 2, (int64_t[]){(int64_t)rows, (int64_t)cols}, v);
}

static const struct hlo_attr *precision(struct hp *p, const struct hp_inst *i)
{
    size_t n;
    int64_t *v = hp_ints(p, pb_bytes(i->message, INST_PRECISION), 1, &n);
    if (n == 0)
        return NULL;
    bool plain = true;
    const struct hlo_attr **list = NF_NEW_ARRAY(p->m->arena, const struct hlo_attr *, n);
    for (size_t k = 0; k < n; k++) {
        plain = plain && v[k] == HLO_PRECISION_DEFAULT;
        list[k] = hlo_attr_enum(p->m, HLO_ENUM_PRECISION, v[k] >= 0 && v[k] <= HLO_PRECISION_HIGHEST ? v[k] : HLO_PRECISION_HIGHEST);
    }
    return plain ? NULL : hlo_attr_array(p->m, n, list);
}

/* The fields of all WindowDimensions, as columns. */
struct window {
    size_t n;
    int64_t *size, *stride, *pad, *dilation, *base, *reversal; /* pad: low, high of each */
    bool any_reversal;
};

static int window_of(struct hp *p, const struct hp_inst *i, struct window *w)
{
    struct nf_str message = pb_bytes(i->message, INST_WINDOW);
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    *w = (struct window){0};
    while (pb_next(&r, &f))
        w->n += f.num == 1 && f.wire == PB_BYTES;
    if (r.failed)
        return hp_cut(p, r.at, "a window");
    int64_t **columns[] = {&w->size, &w->stride, &w->dilation, &w->base, &w->reversal};
    static const uint32_t nums[] = {WINDOW_SIZE, WINDOW_STRIDE, WINDOW_DILATION, WINDOW_BASE_DILATION, WINDOW_REVERSAL};
    for (size_t c = 0; c < NF_ARRAY_LEN(columns); c++)
        *columns[c] = NF_NEW_ARRAY(p->m->arena, int64_t, w->n);
    w->pad = NF_NEW_ARRAY(p->m->arena, int64_t, 2 * w->n);
    r = nf_reader_of(message);
    for (size_t k = 0; k < w->n && pb_next(&r, &f);) {
        if (f.num != 1 || f.wire != PB_BYTES)
            continue;
        for (size_t c = 0; c < NF_ARRAY_LEN(columns); c++)
            (*columns[c])[k] = (int64_t)pb_uint(f.bytes, nums[c], 0);
        w->pad[2 * k] = (int64_t)pb_uint(f.bytes, WINDOW_LOW, 0);
        w->pad[2 * k + 1] = (int64_t)pb_uint(f.bytes, WINDOW_HIGH, 0);
        w->any_reversal = w->any_reversal || w->reversal[k];
        k++;
    }
    return 0;
}

static const struct hlo_attr *column(struct hp *p, const struct window *w, const int64_t *v)
{
    bool ones = true;
    for (size_t k = 0; k < w->n; k++)
        ones = ones && v[k] == 1;
    return ones ? NULL : hlo_attr_i64s(p->m, w->n, v);
}

static const struct hlo_attr *padding(struct hp *p, const struct window *w)
{
    bool zeros = true;
    for (size_t k = 0; k < 2 * w->n; k++)
        zeros = zeros && w->pad[k] == 0;
    return zeros ? NULL : matrix(p, w->n, 2, w->pad);
}

static const struct hlo_attr *replica_groups(struct hp *p, const struct hp_inst *i)
{
    struct nf_str holder = i->message;
    uint32_t num = INST_GROUPS;
    struct pb_field f;
    if (pb_find(i->message, INST_DEVICE_LIST, &f) && f.wire == PB_BYTES) {
        holder = f.bytes;
        num = 1;
    }
    struct nf_reader r = nf_reader_of(holder);
    size_t rows = 0, cols = 0, n;
    while (pb_next(&r, &f))
        if (f.num == num && f.wire == PB_BYTES) {
            hp_ints(p, f.bytes, 1, &n);
            rows++;
            cols = NF_MAX(cols, n);
        }
    int64_t *v = NF_NEW_ARRAY(p->m->arena, int64_t, rows * cols);
    memset(v, 0xff, rows * cols * sizeof(*v)); /* ragged groups are padded with -1 */
    r = nf_reader_of(holder);
    size_t row = 0;
    while (pb_next(&r, &f))
        if (f.num == num && f.wire == PB_BYTES) {
            int64_t *ids = hp_ints(p, f.bytes, 1, &n);
            if (n)
                memcpy(v + row * cols, ids, n * sizeof(*v));
            row++;
        }
    return matrix(p, rows, cols, v);
}

static const struct hlo_attr *pairs(struct hp *p, const struct hp_inst *i)
{
    struct nf_reader r = nf_reader_of(i->message);
    struct pb_field f;
    size_t n = 0;
    while (pb_next(&r, &f))
        n += f.num == INST_PAIRS && f.wire == PB_BYTES;
    int64_t *v = NF_NEW_ARRAY(p->m->arena, int64_t, 2 * n);
    r = nf_reader_of(i->message);
    for (size_t k = 0; k < n && pb_next(&r, &f);)
        if (f.num == INST_PAIRS && f.wire == PB_BYTES) {
            v[2 * k] = (int64_t)pb_uint(f.bytes, 1, 0);
            v[2 * k + 1] = (int64_t)pb_uint(f.bytes, 2, 0);
            k++;
        }
    return matrix(p, n, 2, v);
}

static const struct hlo_attr *conv_dims(struct hp *p, const struct hp_inst *i)
{
    struct nf_str d = pb_bytes(i->message, INST_CONV_DIMS);
    struct hlo_conv c = {
        .input_batch = (int64_t)pb_uint(d, CONV_INPUT_BATCH, 0),
        .input_feature = (int64_t)pb_uint(d, CONV_INPUT_FEATURE, 0),
        .kernel_input_feature = (int64_t)pb_uint(d, CONV_KERNEL_INPUT, 0),
        .kernel_output_feature = (int64_t)pb_uint(d, CONV_KERNEL_OUTPUT, 0),
        .output_batch = (int64_t)pb_uint(d, CONV_OUTPUT_BATCH, 0),
        .output_feature = (int64_t)pb_uint(d, CONV_OUTPUT_FEATURE, 0),
        .input_spatial = ints(p, d, CONV_INPUT_SPATIAL),
        .kernel_spatial = ints(p, d, CONV_KERNEL_SPATIAL),
        .output_spatial = ints(p, d, CONV_OUTPUT_SPATIAL),
    };
    return hlo_attr_conv(p->m, &c);
}

static void set(struct hlo_op *op, enum hlo_attr_name name, const struct hlo_attr *a)
{
    hlo_op_set_attr(op, name, a);
}

static void set_flag(struct hp *p, const struct hp_inst *i, struct hlo_op *op, enum hlo_attr_name name, uint32_t num)
{
    if (pb_uint(i->message, num, 0))
        set(op, name, hlo_attr_bool(p->m, true));
}

static void set_channel(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    uint64_t id = pb_uint(i->message, INST_CHANNEL, 0);
    if (id)
        set(op, HLO_A_channel_handle, hlo_attr_channel(p->m, (int64_t)id, 0));
    if (hlo_op_slot((enum hlo_op_id)op->id, HLO_A_use_global_device_ids) >= 0 && pb_uint(i->message, INST_GLOBAL_IDS, 0))
        set(op, HLO_A_use_global_device_ids, hlo_attr_unit(p->m));
}

static int window_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct window w;
    int e = window_of(p, i, &w);
    if (e)
        return e;
    if (op->id == HLO_OP_CONVOLUTION) {
        set(op, HLO_A_window_strides, column(p, &w, w.stride));
        set(op, HLO_A_lhs_dilation, column(p, &w, w.base));
        set(op, HLO_A_rhs_dilation, column(p, &w, w.dilation));
        if (w.any_reversal)
            set(op, HLO_A_window_reversal, hlo_attr_dense_array(p->m, HLO_ELEM_I1, w.n, w.reversal));
        set(op, HLO_A_dimension_numbers, conv_dims(p, i));
        set(op, HLO_A_feature_group_count, i64_attr(p, pb_uint(i->message, INST_FEATURE_GROUPS, 1)));
        set(op, HLO_A_batch_group_count, i64_attr(p, pb_uint(i->message, INST_BATCH_GROUPS, 1)));
        set(op, HLO_A_precision_config, precision(p, i));
    } else {
        set(op, HLO_A_window_dimensions, hlo_attr_i64s(p->m, w.n, w.size));
        set(op, HLO_A_window_strides, column(p, &w, w.stride));
        if (op->id == HLO_OP_REDUCE_WINDOW) {
            set(op, HLO_A_base_dilations, column(p, &w, w.base));
            set(op, HLO_A_window_dilations, column(p, &w, w.dilation));
        }
    }
    set(op, HLO_A_padding, padding(p, &w));
    return 0;
}

static void slice_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct nf_reader r = nf_reader_of(i->message);
    struct pb_field f;
    size_t n = 0, k = 0;
    while (pb_next(&r, &f))
        n += f.num == INST_SLICE && f.wire == PB_BYTES;
    int64_t *v = NF_NEW_ARRAY(p->m->arena, int64_t, 3 * n);
    r = nf_reader_of(i->message);
    while (k < n && pb_next(&r, &f))
        if (f.num == INST_SLICE && f.wire == PB_BYTES) {
            v[k] = (int64_t)pb_uint(f.bytes, 1, 0);
            v[n + k] = (int64_t)pb_uint(f.bytes, 2, 0);
            v[2 * n + k] = (int64_t)pb_uint(f.bytes, 3, 1);
            k++;
        }
    set(op, HLO_A_start_indices, hlo_attr_i64s(p->m, n, v));
    set(op, HLO_A_limit_indices, hlo_attr_i64s(p->m, n, v + n));
    set(op, HLO_A_strides, hlo_attr_i64s(p->m, n, v + 2 * n));
}

static void pad_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct nf_str config = pb_bytes(i->message, INST_PADDING);
    struct nf_reader r = nf_reader_of(config);
    struct pb_field f;
    size_t n = 0, k = 0;
    while (pb_next(&r, &f))
        n += f.num == 1 && f.wire == PB_BYTES;
    int64_t *v = NF_NEW_ARRAY(p->m->arena, int64_t, 3 * n);
    r = nf_reader_of(config);
    while (k < n && pb_next(&r, &f))
        if (f.num == 1 && f.wire == PB_BYTES) {
            for (uint32_t c = 0; c < 3; c++)
                v[c * n + k] = (int64_t)pb_uint(f.bytes, c + 1, 0);
            k++;
        }
    set(op, HLO_A_edge_padding_low, hlo_attr_i64s(p->m, n, v));
    set(op, HLO_A_edge_padding_high, hlo_attr_i64s(p->m, n, v + n));
    set(op, HLO_A_interior_padding, hlo_attr_i64s(p->m, n, v + 2 * n));
}

static int compare_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct nf_str type = pb_bytes(i->message, INST_COMPARE_TYPE);
    int64_t v;
    if (!hlo_enum_find(HLO_ENUM_DIRECTION, pb_bytes(i->message, INST_DIRECTION), &v))
        return hp_fail(p, i, NF_EGRAPH, "compare without a direction");
    set(op, HLO_A_comparison_direction, hlo_attr_enum(p->m, HLO_ENUM_DIRECTION, v));
    if (type.len) {
        if (!hlo_enum_find(HLO_ENUM_COMPARE_TYPE, type, &v))
            return hp_fail(p, i, NF_EGRAPH, "compare of type %.*s", (int)NF_MIN(type.len, 40u), type.data);
        set(op, HLO_A_compare_type, hlo_attr_enum(p->m, HLO_ENUM_COMPARE_TYPE, v));
    }
    return 0;
}

static const struct hlo_attr *layout_attr(struct hp *p, struct nf_str shape)
{
    size_t n;
    int64_t *order = hp_ints(p, pb_bytes(shape, SHAPE_LAYOUT), LAYOUT_MINOR_TO_MAJOR, &n);
    char *raw = nf_arena_alloc_raw(p->m->arena, n * 8);
    for (size_t k = 0; k < n; k++)
        memcpy(raw + 8 * k, &order[k], 8);
    int64_t dim = (int64_t)n;
    return hlo_attr_dense(p->m, hlo_type_tensor(p->m, HLO_ELEM_INDEX, 1, &dim), nf_str_n(raw, n * 8), false);
}

/* Layouts of a list of shapes: those of the fields `num` of message, or the leaves of one tuple shape. */
static const struct hlo_attr *layouts(struct hp *p, struct nf_str message, uint32_t num)
{
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    size_t n = 0;
    while (pb_next(&r, &f))
        n += f.num == num && f.wire == PB_BYTES;
    const struct hlo_attr **v = NF_NEW_ARRAY(p->m->arena, const struct hlo_attr *, n);
    r = nf_reader_of(message);
    for (size_t k = 0; k < n && pb_next(&r, &f);)
        if (f.num == num && f.wire == PB_BYTES)
            v[k++] = layout_attr(p, f.bytes);
    return hlo_attr_array(p->m, n, v);
}

static void custom_call_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct nf_str config = pb_bytes(i->message, INST_BACKEND_CONFIG);
    uint64_t api = pb_uint(i->message, INST_API_VERSION, 0);
    set(op, HLO_A_call_target_name, hlo_attr_string(p->m, pb_bytes(i->message, INST_TARGET)));
    set_flag(p, i, op, HLO_A_has_side_effect, INST_SIDE_EFFECT);
    if (api == 4) { /* typed: a dictionary in MLIR's spelling */
        const struct hlo_attr *dict = NULL;
        struct nf_error ignored = {0};
        if (config.len == 0)
            dict = hlo_attr_dict(p->m, 0, NULL);
        else if (hlo_parse_attr(p->m, config, &dict, &ignored) || dict->kind != HLO_ATTR_DICT)
            dict = hlo_attr_string(p->m, config);
        set(op, HLO_A_backend_config, dict);
    } else if (config.len) {
        set(op, HLO_A_backend_config, hlo_attr_string(p->m, config));
    }
    if (api)
        set(op, HLO_A_api_version, hlo_attr_int(p->m, HLO_ELEM_I32, (int64_t)api));
    if (pb_uint(i->message, INST_CONSTRAIN_LAYOUT, 0)) {
        set(op, HLO_A_operand_layouts, layouts(p, i->message, INST_OPERAND_SHAPES));
        if (pb_uint(i->shape, SHAPE_ELEMENT, 0) == PRIMITIVE_TUPLE)
            set(op, HLO_A_result_layouts, layouts(p, i->shape, SHAPE_TUPLE));
        else
            set(op, HLO_A_result_layouts, layouts(p, i->message, INST_SHAPE));
    }
    struct nf_reader r = nf_reader_of(i->message);
    struct pb_field f;
    size_t n = 0, k = 0;
    while (pb_next(&r, &f))
        n += f.num == INST_OPERAND_ALIASES && f.wire == PB_BYTES;
    if (!n)
        return;
    const struct hlo_attr **v = NF_NEW_ARRAY(p->m->arena, const struct hlo_attr *, n);
    r = nf_reader_of(i->message);
    while (k < n && pb_next(&r, &f))
        if (f.num == INST_OPERAND_ALIASES && f.wire == PB_BYTES) {
            struct hlo_alias *a = NF_NEW(p->m->arena, struct hlo_alias);
            a->output_tuple_indices = ints(p, f.bytes, 1);
            a->operand_index = (int64_t)pb_uint(f.bytes, 2, 0);
            a->operand_tuple_indices = ints(p, f.bytes, 3);
            v[k++] = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_ALIAS, .alias = a});
        }
    set(op, HLO_A_output_operand_aliases, hlo_attr_array(p->m, n, v));
}

static float f32_of(struct nf_str message, uint32_t num)
{
    uint32_t bits = (uint32_t)pb_uint(message, num, 0);
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

static int enum_of(struct hp *p, const struct hp_inst *i, struct hlo_op *op, enum hlo_attr_name name, enum hlo_enum_class c, uint64_t v)
{
    if (v > 100 || !hlo_enum_name(c, (int64_t)v))
        return hp_fail(p, i, NF_EGRAPH, "%s has no value %llu", hlo_enum_mnemonic(c), (unsigned long long)v);
    set(op, name, hlo_attr_enum(p->m, c, (int64_t)v));
    return 0;
}

static int first_dim(struct hp *p, const struct hp_inst *i, const struct hlo_attr **ret)
{
    size_t n;
    int64_t *v = hp_ints(p, i->message, INST_DIMENSIONS, &n);
    if (n != 1)
        return hp_fail(p, i, NF_EGRAPH, "%zu dimensions where one is wanted", n);
    *ret = hlo_attr_int(p->m, HLO_ELEM_I64, v[0]);
    return 0;
}

int hp_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct hlo_module *m = p->m;
    struct nf_str msg = i->message, d;
    const struct hlo_attr *dim;
    int e = 0;
    switch ((int)op->id) {
    case HLO_OP_COMPARE: return compare_attributes(p, i, op);
    case HLO_OP_REDUCE_PRECISION:
        set(op, HLO_A_exponent_bits, hlo_attr_int(m, HLO_ELEM_I32, (int64_t)pb_uint(msg, INST_EXPONENT_BITS, 0)));
        set(op, HLO_A_mantissa_bits, hlo_attr_int(m, HLO_ELEM_I32, (int64_t)pb_uint(msg, INST_MANTISSA_BITS, 0)));
        break;
    case HLO_OP_IOTA:
        if (!(e = first_dim(p, i, &dim)))
            set(op, HLO_A_iota_dimension, dim);
        break;
    case HLO_OP_BROADCAST_IN_DIM: set(op, HLO_A_broadcast_dimensions, list_attr(p, i, INST_DIMENSIONS)); break;
    case HLO_OP_TRANSPOSE: set(op, HLO_A_permutation, list_attr(p, i, INST_DIMENSIONS)); break;
    case HLO_OP_REVERSE:
    case HLO_OP_REDUCE:
    case HLO_OP_MAP: set(op, HLO_A_dimensions, list_attr(p, i, INST_DIMENSIONS)); break;
    case HLO_OP_CONCATENATE:
    case HLO_OP_SORT:
    case HLO_OP_GET_DIMENSION_SIZE:
    case HLO_OP_SET_DIMENSION_SIZE:
        if (!(e = first_dim(p, i, &dim)))
            set(op, HLO_A_dimension, dim);
        if (op->id == HLO_OP_SORT)
            set_flag(p, i, op, HLO_A_is_stable, INST_STABLE);
        break;
    case HLO_OP_SLICE: slice_attributes(p, i, op); break;
    case HLO_OP_DYNAMIC_SLICE: set(op, HLO_A_slice_sizes, list_attr(p, i, INST_DYNAMIC_SIZES)); break;
    case HLO_OP_PAD: pad_attributes(p, i, op); break;
    case HLO_OP_DOT_GENERAL:
        d = pb_bytes(msg, INST_DOT_DIMS);
        set(op, HLO_A_dot_dimension_numbers, hlo_attr_dot(m, &(struct hlo_dot){ints(p, d, 3), ints(p, d, 4), ints(p, d, 1), ints(p, d, 2)}));
        set(op, HLO_A_precision_config, precision(p, i));
        if (pb_uint(pb_bytes(msg, INST_PRECISION), 2, 0)) {
            struct hlo_dot_algorithm *a = NF_NEW(m->arena, struct hlo_dot_algorithm);
            if (hp_algorithm(m, pb_uint(pb_bytes(msg, INST_PRECISION), 2, 0), a))
                set(op, HLO_A_algorithm, hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_DOT_ALGORITHM, .algorithm = a}));
            else
                e = hp_fail(p, i, NF_EUNSUPPORTED, "dot algorithm %llu", (unsigned long long)pb_uint(pb_bytes(msg, INST_PRECISION), 2, 0));
        }
        break;
    case HLO_OP_CONVOLUTION:
    case HLO_OP_REDUCE_WINDOW:
    case HLO_OP_SELECT_AND_SCATTER: return window_attributes(p, i, op);
    case HLO_OP_GATHER:
        d = pb_bytes(msg, INST_GATHER_DIMS);
        set(op, HLO_A_dimension_numbers, hlo_attr_gather(m, &(struct hlo_gather){
            .offset_dims = ints(p, d, 1), .collapsed_slice_dims = ints(p, d, 2), .start_index_map = ints(p, d, 3),
            .index_vector_dim = (int64_t)pb_uint(d, 4, 0), .operand_batching_dims = ints(p, d, 5), .start_indices_batching_dims = ints(p, d, 6)}));
        set(op, HLO_A_slice_sizes, list_attr(p, i, INST_GATHER_SIZES));
        set_flag(p, i, op, HLO_A_indices_are_sorted, INST_SORTED);
        break;
    case HLO_OP_SCATTER:
        d = pb_bytes(msg, INST_SCATTER_DIMS);
        set(op, HLO_A_scatter_dimension_numbers, hlo_attr_scatter(m, &(struct hlo_scatter){
            .update_window_dims = ints(p, d, 1), .inserted_window_dims = ints(p, d, 2), .scatter_dims_to_operand_dims = ints(p, d, 3),
            .index_vector_dim = (int64_t)pb_uint(d, 4, 0), .input_batching_dims = ints(p, d, 5), .scatter_indices_batching_dims = ints(p, d, 6)}));
        set_flag(p, i, op, HLO_A_indices_are_sorted, INST_SORTED);
        set_flag(p, i, op, HLO_A_unique_indices, INST_UNIQUE);
        break;
    case HLO_OP_CHOLESKY:
        if (pb_uint(pb_bytes(msg, INST_CHOLESKY), 1, 0))
            set(op, HLO_A_lower, hlo_attr_bool(m, true));
        break;
    case HLO_OP_TRIANGULAR_SOLVE:
        d = pb_bytes(msg, INST_TRIANGULAR);
        set(op, HLO_A_left_side, hlo_attr_bool(m, pb_uint(d, 1, 0)));
        set(op, HLO_A_lower, hlo_attr_bool(m, pb_uint(d, 2, 0)));
        set(op, HLO_A_unit_diagonal, hlo_attr_bool(m, pb_uint(d, 3, 0)));
        e = enum_of(p, i, op, HLO_A_transpose_a, HLO_ENUM_TRANSPOSE, pb_uint(d, 4, 0));
        break;
    case HLO_OP_FFT:
        set(op, HLO_A_fft_length, list_attr(p, i, INST_FFT_LENGTH));
        e = enum_of(p, i, op, HLO_A_fft_type, HLO_ENUM_FFT, pb_uint(msg, INST_FFT_TYPE, 0));
        break;
    case HLO_OP_BATCH_NORM_TRAINING:
    case HLO_OP_BATCH_NORM_INFERENCE:
    case HLO_OP_BATCH_NORM_GRAD:
        set(op, HLO_A_epsilon, hlo_attr_float(m, HLO_ELEM_F32, (double)f32_of(msg, INST_EPSILON)));
        set(op, HLO_A_feature_index, i64_attr(p, pb_uint(msg, INST_FEATURE, 0)));
        break;
    case HLO_OP_RNG: e = enum_of(p, i, op, HLO_A_rng_distribution, HLO_ENUM_DISTRIBUTION, pb_uint(msg, INST_DISTRIBUTION, 0)); break;
    case HLO_OP_RNG_BIT_GENERATOR: e = enum_of(p, i, op, HLO_A_rng_algorithm, HLO_ENUM_RNG_ALGORITHM, pb_uint(msg, INST_RNG_ALGORITHM, 0)); break;
    case HLO_OP_CHLO_TOP_K:
        if (!pb_uint(msg, INST_LARGEST, 0))
            return hp_fail(p, i, NF_EUNSUPPORTED, "topk of the smallest");
        set(op, HLO_A_k, i64_attr(p, pb_uint(msg, INST_K, 0)));
        break;
    case HLO_OP_CUSTOM_CALL: custom_call_attributes(p, i, op); break;
    case HLO_OP_ALL_GATHER:
    case HLO_OP_REDUCE_SCATTER:
        if ((e = first_dim(p, i, &dim)))
            break;
        set(op, op->id == HLO_OP_ALL_GATHER ? HLO_A_all_gather_dim : HLO_A_scatter_dimension, dim);
        set(op, HLO_A_replica_groups, replica_groups(p, i));
        set_channel(p, i, op);
        break;
    case HLO_OP_ALL_REDUCE:
    case HLO_OP_COLLECTIVE_BROADCAST:
        set(op, HLO_A_replica_groups, replica_groups(p, i));
        set_channel(p, i, op);
        break;
    case HLO_OP_ALL_TO_ALL: {
        const struct hlo_attr *groups = replica_groups(p, i);
        if ((e = first_dim(p, i, &dim)))
            break;
        set(op, HLO_A_split_dimension, dim);
        set(op, HLO_A_concat_dimension, dim);
        set(op, HLO_A_split_count, hlo_attr_int(m, HLO_ELEM_I64, groups->type->dims[1]));
        set(op, HLO_A_replica_groups, groups);
        set_channel(p, i, op);
        break;
    }
    case HLO_OP_COLLECTIVE_PERMUTE:
        set(op, HLO_A_source_target_pairs, pairs(p, i));
        set_channel(p, i, op);
        break;
    case HLO_OP_INFEED: set(op, HLO_A_infeed_config, hlo_attr_string(m, pb_bytes(msg, INST_INFEED_CONFIG))); break;
    case HLO_OP_OUTFEED: set(op, HLO_A_outfeed_config, hlo_attr_string(m, pb_bytes(msg, INST_OUTFEED_CONFIG))); break;
    default: break;
    }
    return e;
}

const struct hlo_attr *hp_frontend(struct hp *p, struct nf_str map, struct nf_str without)
{
    struct nf_reader r = nf_reader_of(map);
    struct pb_field f;
    size_t n = 0, k = 0;
    while (pb_next(&r, &f))
        n += f.num == 1 && f.wire == PB_BYTES;
    if (!n)
        return NULL;
    struct hlo_named *v = NF_NEW_ARRAY(p->m->arena, struct hlo_named, n);
    struct nf_map *seen = nf_map_new(false);
    r = nf_reader_of(map);
    while (pb_next(&r, &f)) {
        struct nf_str key = f.num == 1 && f.wire == PB_BYTES ? pb_bytes(f.bytes, 1) : nf_str_n("", 0);
        if (!key.len || nf_map_get(seen, key) || (without.len && nf_str_starts(key, without)))
            continue;
        nf_map_put(seen, key, p);
        v[k++] = (struct hlo_named){key, hlo_attr_string(p->m, pb_bytes(f.bytes, 2))};
    }
    nf_map_free(seen);
    return k ? hlo_attr_dict(p->m, k, v) : NULL;
}

/* "{{0,1},{1,2}}" as a matrix; NULL: it is none. */
static const struct hlo_attr *pairs_of_text(struct hp *p, struct nf_str text)
{
    int64_t *v = NF_NEW_ARRAY(p->m->arena, int64_t, text.len);
    size_t n = 0, at = 1;
    if (text.len < 2 || text.data[0] != '{' || text.data[text.len - 1] != '}')
        return NULL;
    while (at < text.len - 1) {
        static const char after[] = "{,}";
        for (size_t k = 0; k < 3; k++) {
            if (at >= text.len - 1 || text.data[at++] != after[k])
                return NULL;
            size_t from = at;
            while (k < 2 && at < text.len - 1 && text.data[at] >= '0' && text.data[at] <= '9')
                at++;
            if (k < 2 && nf_str_to_i64(nf_str_n(text.data + from, at - from), &v[n++]))
                return NULL;
        }
        if (at < text.len - 1 && (text.data[at++] != ',' || at == text.len - 1))
            return NULL;
    }
    return matrix(p, n / 2, 2, v);
}

int hp_transfer_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct nf_str frontend = pb_bytes(i->message, INST_FRONTEND), text = pb_map_value(frontend, HP_PAIRS);
    const struct hlo_attr *others = hp_frontend(p, frontend, NF_STR(HP_PAIRS));
    bool host = pb_uint(i->message, INST_HOST_TRANSFER, 0) != 0;
    set(op, HLO_A_channel_handle, hlo_attr_channel(p->m, (int64_t)pb_uint(i->message, INST_CHANNEL, 0), !host ? 1 : op->id == HLO_OP_SEND ? 2 : 3));
    set_flag(p, i, op, HLO_A_is_host_transfer, INST_HOST_TRANSFER);
    if (others)
        hlo_op_set_named(p->m, op, NF_STR("mhlo.frontend_attributes"), others);
    if (!text.len)
        return 0;
    const struct hlo_attr *pairs = pairs_of_text(p, text);
    if (!pairs)
        return hp_fail(p, i, NF_EGRAPH, "source and target pairs '%.*s'", (int)NF_MIN(text.len, 60u), text.data);
    set(op, HLO_A_source_target_pairs, pairs);
    return 0;
}

size_t hp_decoration(struct hp *p, const struct hp_inst *i, struct hlo_named out[2])
{
    struct pb_field f;
    size_t n = 0;
    bool transfer = nf_str_eq_c(i->opcode, "send-done") || nf_str_eq_c(i->opcode, "recv-done");
    const struct hlo_attr *frontend = hp_frontend(p, pb_bytes(i->message, INST_FRONTEND), transfer ? NF_STR(HP_PAIRS) : NF_STR("composite."));
    if (pb_find(i->message, INST_SHARDING, &f) && f.wire == PB_BYTES)
        out[n++] = (struct hlo_named){NF_STR("mhlo.sharding"), hlo_attr_string(p->m, f.bytes)};
    if (frontend)
        out[n++] = (struct hlo_named){NF_STR("mhlo.frontend_attributes"), frontend};
    return n;
}

void hp_decorate(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct hlo_named v[2];
    size_t n = hp_decoration(p, i, v);
    for (size_t k = 0; k < n; k++)
        hlo_op_set_named(p->m, op, v[k].name, v[k].attr);
}
