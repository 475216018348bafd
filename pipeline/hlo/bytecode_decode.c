/* Types and attributes, decoded when something names them, each once. See bytecode_internal.h. */
#include "pipeline/hlo/bytecode_internal.h"

#include <stdlib.h>

/* ---- types ---- */

static enum dialect dialect_of(const struct bc *b, const struct entry *e)
{
    struct nf_str d = b->dialects[e->dialect];
    return nf_str_eq_c(d, "vhlo") ? D_VHLO : nf_str_eq_c(d, "builtin") ? D_BUILTIN : nf_str_eq_c(d, "sdy") ? D_SDY : D_OTHER;
}

int hlo__bc_type_list(struct bc *b, struct nf_reader *r, uint32_t *ret_n, const struct hlo_type ***ret)
{
    size_t n = hlo__bc_count(r);
    const struct hlo_type **v = NF_NEW_ARRAY(b->m->arena, const struct hlo_type *, n);
    for (size_t i = 0; i < n; i++) {
        int e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &v[i]);
        if (e)
            return e;
    }
    *ret_n = (uint32_t)n;
    *ret = v;
    return 0;
}

static int64_t *int_list(struct bc *b, struct nf_reader *r, size_t *ret_n)
{
    size_t n = hlo__bc_count(r);
    int64_t *v = NF_NEW_ARRAY(b->m->arena, int64_t, n);
    for (size_t i = 0; i < n; i++)
        v[i] = hlo__bc_svarint(r);
    *ret_n = n;
    return v;
}

static double f64_of(struct nf_reader *r)
{
    int64_t bits = hlo__bc_svarint(r);
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

static bool scalar_kind(const struct hlo_type *t) { return t->kind == HLO_TYPE_SCALAR; }

/* tensor, memref, unranked: element first decoded as a scalar */
static int shaped(struct bc *b, struct nf_reader *r, enum hlo_type_kind kind, bool has_shape, const struct hlo_attr *encoding, const struct hlo_type **ret)
{
    struct hlo_type t = {.kind = kind};
    size_t rank = 0;
    if (has_shape) {
        int64_t *dims = int_list(b, r, &rank);
        if (rank > HLO_MAX_RANK)
            return hlo__bc_fail(b, r->at, NF_ELIMIT, "more dimensions than the limit of %d", HLO_MAX_RANK);
        for (size_t i = 0; i < rank; i++)
            if (dims[i] < 0 && dims[i] != HLO_DYNAMIC)
                return hlo__bc_fail(b, r->at, NF_EGRAPH, "a dimension of %lld", (long long)dims[i]);
        t.dims = dims;
        t.rank = (uint32_t)rank;
    }
    const struct hlo_type *elem;
    int e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &elem);
    if (e)
        return e;
    if (!scalar_kind(elem))
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "a tensor of something that is no element type");
    t.elem = elem->elem;
    t.quant = elem->quant;
    t.text = elem->text;
    if (encoding && encoding->kind == HLO_ATTR_BOUNDS) {
        if (encoding->ints.n != rank)
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "%zu bounds for %zu dimensions", encoding->ints.n, rank);
        t.bounds = encoding->ints.v;
    } else {
        t.encoding = encoding;
    }
    *ret = hlo_type_intern(b->m, &t);
    return 0;
}

static int quantized(struct bc *b, struct nf_reader *r, bool per_axis, const struct hlo_type **ret)
{
    struct hlo_quant q = {.per_axis = per_axis};
    uint64_t flags = hlo__bc_varint(r);
    const struct hlo_type *storage, *expressed;
    int e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &storage);
    if (e || (e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &expressed)))
        return e;
    if (!scalar_kind(storage) || !scalar_kind(expressed))
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "a quantized type of something that is no element type");
    q.storage = storage->elem;
    q.expressed = expressed->elem;
    if (!(flags & 1) && hlo_elem_class(q.storage) == HLO_CLASS_SINT) {
        char name[16];
        nf_format(name, sizeof(name), "u%s", hlo_elem_name(q.storage));
        if (!hlo_elem_find(nf_str_c(name), &q.storage))
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "no unsigned storage like %s", hlo_elem_name(storage->elem));
    }
    if (per_axis) {
        q.axis = (int64_t)hlo__bc_varint(r);
        q.storage_min = hlo__bc_svarint(r);
        q.storage_max = hlo__bc_svarint(r);
        size_t n = hlo__bc_count(r), zeros = 0;
        double *scales = NF_NEW_ARRAY(b->m->arena, double, n);
        for (size_t i = 0; i < n; i++)
            scales[i] = f64_of(r);
        q.zero_points = int_list(b, r, &zeros);
        if (zeros != n)
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "%zu scales, %zu zero points", n, zeros);
        q.scales = scales;
        q.count = n;
    } else {
        double *scale = NF_NEW(b->m->arena, double);
        int64_t *zero = NF_NEW(b->m->arena, int64_t);
        *scale = f64_of(r);
        *zero = hlo__bc_svarint(r);
        q.scales = scale;
        q.zero_points = zero;
        q.count = 1;
        q.storage_min = hlo__bc_svarint(r);
        q.storage_max = hlo__bc_svarint(r);
    }
    struct hlo_quant *copy = NF_NEW(b->m->arena, struct hlo_quant);
    *copy = q;
    *ret = hlo_type_intern(b->m, &(struct hlo_type){.kind = HLO_TYPE_SCALAR, .elem = HLO_ELEM_QUANT, .quant = copy});
    return 0;
}

static int complex_of(struct bc *b, struct nf_reader *r, const struct hlo_type **ret)
{
    const struct hlo_type *part;
    int e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &part);
    if (e)
        return e;
    if (!scalar_kind(part) || (part->elem != HLO_ELEM_F32 && part->elem != HLO_ELEM_F64))
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "complex of something that is neither f32 nor f64");
    *ret = hlo_type_scalar(b->m, part->elem == HLO_ELEM_F32 ? HLO_ELEM_C64 : HLO_ELEM_C128);
    return 0;
}

static int function_of(struct bc *b, struct nf_reader *r, const struct hlo_type **ret)
{
    uint32_t n_in, n_out;
    const struct hlo_type **in, **out;
    int e = hlo__bc_type_list(b, r, &n_in, &in);
    if (e || (e = hlo__bc_type_list(b, r, &n_out, &out)))
        return e;
    *ret = hlo_type_function(b->m, n_in, in, n_out, out);
    return 0;
}

static int vhlo_type(struct bc *b, struct nf_reader *r, const struct hlo_type **ret)
{
    uint64_t code = hlo__bc_varint(r);
    enum hlo_elem elem = code < VHLO_T_MAX ? vhlo_elem_of_code((unsigned)code) : HLO_ELEM_MAX;
    if (elem != HLO_ELEM_MAX) {
        *ret = hlo_type_scalar(b->m, elem);
        return 0;
    }
    uint32_t n;
    const struct hlo_type **list;
    const struct hlo_attr *encoding;
    int e;
    switch (code) {
    case VHLO_T_COMPLEX: return complex_of(b, r, ret);
    case VHLO_T_FUNCTION: return function_of(b, r, ret);
    case VHLO_T_TENSOR: return shaped(b, r, HLO_TYPE_TENSOR, true, NULL, ret);
    case VHLO_T_TENSOR_ENCODED:
        if ((e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &encoding)))
            return e;
        return shaped(b, r, HLO_TYPE_TENSOR, true, encoding, ret);
    case VHLO_T_UNRANKED: return shaped(b, r, HLO_TYPE_UNRANKED, false, NULL, ret);
    case VHLO_T_BUFFER: return shaped(b, r, HLO_TYPE_MEMREF, true, NULL, ret);
    case VHLO_T_TOKEN: *ret = hlo_type_token(b->m); return 0;
    case VHLO_T_NONE: *ret = hlo_type_none(b->m); return 0;
    case VHLO_T_TUPLE:
        if ((e = hlo__bc_type_list(b, r, &n, &list)))
            return e;
        *ret = hlo_type_tuple(b->m, n, list);
        return 0;
    case VHLO_T_FUTURE:
        if ((e = hlo__bc_type_list(b, r, &n, &list)))
            return e;
        *ret = hlo_type_future(b->m, n, list);
        return 0;
    case VHLO_T_QUANT: return quantized(b, r, false, ret);
    case VHLO_T_QUANT_AXIS: return quantized(b, r, true, ret);
    default: return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "unknown portable type %llu", (unsigned long long)code);
    }
}

static int builtin_type(struct bc *b, struct nf_reader *r, const struct hlo_type **ret)
{
    uint64_t code = hlo__bc_varint(r);
    const struct hlo_attr *encoding;
    const struct hlo_type **list;
    uint32_t n;
    int e;
    switch (code) {
    case BUILTIN_T_INTEGER: {
        uint64_t v = hlo__bc_varint(r);
        char name[24];
        enum hlo_elem elem;
        nf_format(name, sizeof(name), "%si%llu", (v & 3) == 2 ? "u" : "", (unsigned long long)(v >> 2));
        if (!hlo_elem_find(nf_str_c(name), &elem))
            return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "integers of %llu bits", (unsigned long long)(v >> 2));
        *ret = hlo_type_scalar(b->m, elem);
        return 0;
    }
    case BUILTIN_T_INDEX: *ret = hlo_type_scalar(b->m, HLO_ELEM_INDEX); return 0;
    case BUILTIN_T_FUNCTION: return function_of(b, r, ret);
    case BUILTIN_T_BF16: *ret = hlo_type_scalar(b->m, HLO_ELEM_BF16); return 0;
    case BUILTIN_T_F16: *ret = hlo_type_scalar(b->m, HLO_ELEM_F16); return 0;
    case BUILTIN_T_F32: *ret = hlo_type_scalar(b->m, HLO_ELEM_F32); return 0;
    case BUILTIN_T_F64: *ret = hlo_type_scalar(b->m, HLO_ELEM_F64); return 0;
    case BUILTIN_T_COMPLEX: return complex_of(b, r, ret);
    case BUILTIN_T_NONE: *ret = hlo_type_none(b->m); return 0;
    case BUILTIN_T_TENSOR: return shaped(b, r, HLO_TYPE_TENSOR, true, NULL, ret);
    case BUILTIN_T_TENSOR_ENCODED:
        if ((e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &encoding)))
            return e;
        return shaped(b, r, HLO_TYPE_TENSOR, true, encoding, ret);
    case BUILTIN_T_TUPLE:
        if ((e = hlo__bc_type_list(b, r, &n, &list)))
            return e;
        *ret = hlo_type_tuple(b->m, n, list);
        return 0;
    case BUILTIN_T_UNRANKED: return shaped(b, r, HLO_TYPE_UNRANKED, false, NULL, ret);
    default: return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "unknown builtin type %llu", (unsigned long long)code);
    }
}

/* Enters an entry: bounds, circles, depth. */
static int enter(struct bc *b, struct entry *table, size_t n, uint64_t index, const void *at, const char *what, struct entry **ret)
{
    if (index >= n)
        return hlo__bc_fail(b, at, NF_EGRAPH, "%s %llu of %zu", what, (unsigned long long)index, n);
    struct entry *e = &table[index];
    if (e->busy)
        return hlo__bc_fail(b, at, NF_EGRAPH, "%s %llu contains itself", what, (unsigned long long)index);
    if (b->depth >= b->limits->depth) {
        hlo__bc_fail(b, at, NF_ELIMIT, "%ss nest deeper than %u", what, b->limits->depth);
        return hlo_limit_hint(b->limits, "max_depth", b->err);
    }
    *ret = e;
    return 0;
}

int hlo__bc_type_at(struct bc *b, uint64_t index, const void *at, const struct hlo_type **ret)
{
    struct entry *t = NULL;
    int e = enter(b, b->types, b->num_types, index, at, "type", &t);
    if (e)
        return e;
    if (!t->type) {
        struct nf_reader r = nf_reader_of(t->bytes);
        const struct hlo_type *type = NULL;
        t->busy = true;
        b->depth++;
        enum dialect d = dialect_of(b, t);
        if (!t->custom || d == D_OTHER || d == D_SDY)
            e = hlo__bc_fail(b, r.at, NF_EUNSUPPORTED, "a type of dialect %.*s", NF_STR_ARG(b->dialects[t->dialect]));
        else
            e = d == D_VHLO ? vhlo_type(b, &r, &type) : builtin_type(b, &r, &type);
        b->depth--;
        t->busy = false;
        if (!e && (r.failed || nf_reader_left(&r)))
            e = hlo__bc_fail(b, r.at, NF_EGRAPH, "type %llu is cut or has bytes left over", (unsigned long long)index);
        if (e)
            return e;
        t->type = type;
    }
    *ret = t->type;
    return 0;
}

/* ---- attributes ---- */

static int string_attr(struct bc *b, struct nf_reader *r, struct nf_str *ret)
{
    const struct hlo_attr *a;
    int e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &a);
    if (e)
        return e;
    if (a->kind != HLO_ATTR_STRING)
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "a string was expected");
    *ret = a->str;
    return 0;
}

/* Bits of an integer or float of the kind. */
static uint64_t scalar_bits(struct nf_reader *r, enum hlo_elem e)
{
    unsigned bits = hlo_elem_bits(e);
    return bits <= 8 ? nf_reader_u8(r) : (uint64_t)hlo__bc_svarint(r);
}

static int number(struct bc *b, struct nf_reader *r, bool is_float, const struct hlo_attr **ret)
{
    const struct hlo_type *t;
    int e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &t);
    if (e)
        return e;
    enum hlo_elem_class c = scalar_kind(t) ? hlo_elem_class(t->elem) : HLO_CLASS_OTHER;
    if (is_float ? c != HLO_CLASS_FLOAT : (c > HLO_CLASS_UINT && c != HLO_CLASS_INDEX))
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "a number whose type is no number's");
    uint64_t bits = scalar_bits(r, t->elem);
    if (is_float) {
        *ret = hlo_attr_float_bits(b->m, t->elem, bits);
        return 0;
    }
    unsigned width = hlo_elem_bits(t->elem);
    if (c == HLO_CLASS_BOOL) {
        *ret = hlo_attr_bool(b->m, bits & 1);
        return 0;
    }
    int64_t v = (int64_t)bits;
    if (width < 64)
        v = c == HLO_CLASS_UINT ? (int64_t)(bits & (((uint64_t)1 << width) - 1)) : (int64_t)(bits << (64 - width)) >> (64 - width);
    *ret = hlo_attr_int(b->m, t->elem, v);
    return 0;
}

static int array_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    size_t n = hlo__bc_count(r);
    const struct hlo_attr **v = NF_NEW_ARRAY(b->m->arena, const struct hlo_attr *, n);
    for (size_t i = 0; i < n; i++) {
        int e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &v[i]);
        if (e)
            return e;
    }
    *ret = hlo_attr_array(b->m, n, v);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return nf_str_cmp(((const struct hlo_named *)a)->name, ((const struct hlo_named *)b)->name);
}

static int dict_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    size_t n = hlo__bc_count(r);
    struct hlo_named *v = NF_NEW_ARRAY(b->m->arena, struct hlo_named, n);
    for (size_t i = 0; i < n; i++) {
        int e = string_attr(b, r, &v[i].name);
        if (e || (e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &v[i].attr)))
            return e;
    }
    qsort(v, n, sizeof(*v), by_name);
    for (size_t i = 1; i < n; i++)
        if (nf_str_eq(v[i].name, v[i - 1].name))
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "a dictionary with two entries of one name");
    *ret = hlo_attr_dict(b->m, n, v);
    return 0;
}

static int dense_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    const struct hlo_type *t;
    int e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &t);
    if (e)
        return e;
    size_t len = hlo__bc_count(r);
    struct nf_str raw = nf_reader_bytes(r, len);
    uint64_t n;
    unsigned size = hlo_type_is_tensor(t) ? hlo_elem_bytes(hlo_type_storage(t)) : 0;
    if (r->failed || size == 0 || !hlo_type_count(t, &n) || n > UINT64_MAX / 16)
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "a constant whose type is no static tensor");
    uint64_t held = t->elem == HLO_ELEM_I1 ? NF_MIN(n, (uint64_t)raw.len * 8) : raw.len;
    b->literal_bytes += held;
    if (held > b->limits->literal_bytes) {
        hlo__bc_fail(b, r->at, NF_ELIMIT, "a constant of more than %llu bytes", (unsigned long long)b->limits->literal_bytes);
        return hlo_limit_hint(b->limits, "max_literal", b->err);
    }
    if (b->literal_bytes > b->limits->literals_bytes)
        return hlo__bc_fail(b, r->at, NF_ELIMIT, "constants of more than %llu bytes", (unsigned long long)b->limits->literals_bytes);
    if (t->elem == HLO_ELEM_I1 && n > 0) {
        if (raw.len == 1 && n > 1 && (raw.data[0] == 0 || (uint8_t)raw.data[0] == 0xFF || (n > 8 && raw.data[0] == 1))) {
            *ret = hlo_attr_dense(b->m, t, raw.data[0] ? NF_STR("\1") : NF_STR("\0"), true);
            return 0;
        }
        if (raw.len == (n + 7) / 8 && raw.len != n) { /* packed, first element in the lowest bit */
            char *bytes = nf_arena_alloc_raw(b->m->arena, (size_t)n);
            for (uint64_t i = 0; i < n; i++)
                bytes[i] = (char)((uint8_t)raw.data[i / 8] >> (i % 8) & 1);
            *ret = hlo_attr_dense(b->m, t, nf_str_n(bytes, (size_t)n), false);
            return 0;
        }
        char *bytes = nf_arena_alloc_raw(b->m->arena, raw.len);
        for (size_t i = 0; i < raw.len; i++)
            bytes[i] = raw.data[i] != 0;
        raw.data = bytes;
    }
    bool splat = n != 1 && raw.len == size && n > 0;
    if (!splat && raw.len != n * size)
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "a constant with %zu bytes for %llu elements of %u", raw.len, (unsigned long long)n, size);
    unsigned bits = hlo_elem_bits(hlo_type_storage(t));
    if (bits < 8 && t->elem != HLO_ELEM_I1) { /* one a byte, the upper bits mean nothing: signed ones are sign-extended here */
        bool is_signed = hlo_elem_class(hlo_type_storage(t)) == HLO_CLASS_SINT;
        char *bytes = nf_arena_alloc_raw(b->m->arena, raw.len);
        for (size_t i = 0; i < raw.len; i++) {
            unsigned v = (uint8_t)raw.data[i] & ((1u << bits) - 1);
            bytes[i] = (char)(is_signed && v >> (bits - 1) ? v | (0xFFu << bits & 0xFFu) : v);
        }
        raw.data = bytes;
    }
    *ret = hlo_attr_dense(b->m, t, raw, splat);
    return 0;
}

static int alias_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    struct hlo_alias *a = NF_NEW(b->m->arena, struct hlo_alias);
    size_t n;
    a->output_tuple_indices.v = int_list(b, r, &n);
    a->output_tuple_indices.n = n;
    a->operand_index = hlo__bc_svarint(r);
    a->operand_tuple_indices.v = int_list(b, r, &n);
    a->operand_tuple_indices.n = n;
    *ret = hlo_attr_new(b->m, &(struct hlo_attr){.kind = HLO_ATTR_ALIAS, .alias = a});
    return 0;
}

static int accuracy_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    struct hlo_accuracy a = {.absolute = f64_of(r), .relative = f64_of(r), .ulps = hlo__bc_svarint(r)};
    const struct hlo_attr *mode;
    int e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &mode);
    if (e)
        return e;
    if (mode->kind != HLO_ATTR_ENUM || mode->enumeration.class != HLO_ENUM_ACCURACY)
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "result_accuracy without a mode");
    a.mode = (enum hlo_accuracy_mode)mode->enumeration.value;
    *ret = hlo_attr_accuracy(b->m, &a);
    return 0;
}

/* #stablehlo.axis_ref<name = "x", sub_axis_info = (pre)size> */
static int axis_ref_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    struct nf_str name;
    int e = string_attr(b, r, &name);
    if (e)
        return e;
    struct nf_buf text = NF_BUF_INIT;
    struct hlo_attr quoted = {.kind = HLO_ATTR_STRING, .str = name};
    nf_buf_add_c(&text, "#stablehlo.axis_ref<name = ");
    hlo_attr_print(&quoted, &text);
    if (hlo__bc_varint(r)) {
        const struct hlo_attr *sub;
        if ((e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &sub))) {
            nf_buf_done(&text);
            return e;
        }
        if (sub->kind == HLO_ATTR_OPAQUE)
            nf_buf_addf(&text, ", sub_axis_info = %.*s", NF_STR_ARG(sub->str));
    }
    nf_buf_add_char(&text, '>');
    *ret = hlo_attr_opaque(b->m, nf_arena_str(b->m->arena, nf_buf_str(&text)));
    nf_buf_done(&text);
    return 0;
}

static int mesh_axes_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    struct hlo_attr a = {.kind = HLO_ATTR_MESH_AXES};
    int e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &a.mesh_axes.mesh);
    if (e || (e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &a.mesh_axes.axes)))
        return e;
    if (a.mesh_axes.mesh->kind == HLO_ATTR_STRING)
        a.mesh_axes.mesh = hlo_attr_symbol(b->m, a.mesh_axes.mesh->str);
    if (a.mesh_axes.axes->kind != HLO_ATTR_ARRAY)
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "mesh axes without a list of axes");
    *ret = hlo_attr_new(b->m, &a);
    return 0;
}

static int mesh_of(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    const struct hlo_attr *axes, *ids = NULL;
    int e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &axes);
    if (!e && hlo__bc_varint(r))
        e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &ids);
    if (e)
        return e;
    struct nf_buf text = NF_BUF_INIT;
    nf_buf_add_c(&text, "#stablehlo.mesh<axes = ");
    hlo_attr_print(axes, &text);
    if (ids) {
        nf_buf_add_c(&text, ", device_ids = ");
        hlo_attr_print(ids, &text);
    }
    nf_buf_add_char(&text, '>');
    *ret = hlo_attr_opaque(b->m, nf_arena_str(b->m->arena, nf_buf_str(&text)));
    nf_buf_done(&text);
    return 0;
}

static int vhlo_attr(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    uint64_t code = hlo__bc_varint(r);
    enum hlo_enum_class c = code <= VHLO_A_MESH ? vhlo_enum_of_code((unsigned)code) : HLO_ENUM_CLASS_MAX;
    if (c != HLO_ENUM_CLASS_MAX) {
        uint64_t v = hlo__bc_varint(r);
        if (v > 100 || !hlo_enum_name(c, (int64_t)v))
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "%s has no value %llu", hlo_enum_mnemonic(c), (unsigned long long)v);
        *ret = hlo_attr_enum(b->m, c, (int64_t)v);
        return 0;
    }
    struct nf_str s;
    int e;
    size_t n;
    switch (code) {
    case VHLO_A_ARRAY: return array_of(b, r, ret);
    case VHLO_A_BOOL: *ret = hlo_attr_bool(b->m, hlo__bc_varint(r) != 0); return 0;
    case VHLO_A_DICT: return dict_of(b, r, ret);
    case VHLO_A_FLOAT: return number(b, r, true, ret);
    case VHLO_A_INTEGER: return number(b, r, false, ret);
    case VHLO_A_ALIAS: return alias_of(b, r, ret);
    case VHLO_A_STRING:
        if ((e = hlo__bc_string_at(b, hlo__bc_varint(r), r->at, &s)))
            return e;
        *ret = hlo_attr_string(b->m, s);
        return 0;
    case VHLO_A_TENSOR: return dense_of(b, r, ret);
    case VHLO_A_TYPE: {
        const struct hlo_type *t;
        if ((e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &t)))
            return e;
        *ret = hlo_attr_type(b->m, t);
        return 0;
    }
    case VHLO_A_EXTENSIONS: {
        int64_t *v = int_list(b, r, &n);
        *ret = hlo_attr_new(b->m, &(struct hlo_attr){.kind = HLO_ATTR_BOUNDS, .ints = {n, v}});
        return 0;
    }
    case VHLO_A_ACCURACY: return accuracy_of(b, r, ret);
    case VHLO_A_SUB_AXIS: {
        int64_t pre = hlo__bc_svarint(r), size = hlo__bc_svarint(r);
        char text[64];
        nf_format(text, sizeof(text), "(%lld)%lld", (long long)pre, (long long)size);
        *ret = hlo_attr_opaque(b->m, nf_arena_str(b->m->arena, nf_str_c(text)));
        return 0;
    }
    case VHLO_A_AXIS_REF: return axis_ref_of(b, r, ret);
    case VHLO_A_MESH_AXES: return mesh_axes_of(b, r, ret);
    case VHLO_A_MESH_AXIS: {
        if ((e = string_attr(b, r, &s)))
            return e;
        struct nf_buf text = NF_BUF_INIT;
        struct hlo_attr quoted = {.kind = HLO_ATTR_STRING, .str = s};
        nf_buf_add_c(&text, "#stablehlo.mesh_axis<name = ");
        hlo_attr_print(&quoted, &text);
        nf_buf_addf(&text, ", size = %lld>", (long long)hlo__bc_svarint(r));
        *ret = hlo_attr_opaque(b->m, nf_arena_str(b->m->arena, nf_buf_str(&text)));
        nf_buf_done(&text);
        return 0;
    }
    case VHLO_A_MESH: return mesh_of(b, r, ret);
    default: return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "unknown portable attribute %llu", (unsigned long long)code);
    }
}

static int loc_attr(struct bc *b, struct nf_reader *r, struct hlo_loc *l, uint32_t n, bool counted, const struct hlo_attr **ret)
{
    const struct hlo_attr **v;
    if (counted)
        n = (uint32_t)hlo__bc_count(r);
    v = NF_NEW_ARRAY(b->m->arena, const struct hlo_attr *, n);
    for (uint32_t i = 0; i < n; i++) {
        int e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &v[i]);
        if (e)
            return e;
        if (v[i]->kind != HLO_ATTR_LOCATION)
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "a location was expected");
    }
    l->children = v;
    l->num_children = n;
    if (l->kind == HLO_LOC_NAME && n == 1 && v[0]->loc->kind == HLO_LOC_UNKNOWN)
        l->num_children = 0;
    *ret = hlo_attr_loc(b->m, l);
    return 0;
}

/* FileLineColRange: how many numbers, then them: line | line column | line, columns | lines and columns. */
static int file_range(struct nf_reader *r, struct hlo_loc *l)
{
    uint64_t n = hlo__bc_varint(r), v[4] = {0};
    if (n > 4)
        return -1;
    for (uint64_t i = 0; i < n; i++)
        v[i] = hlo__bc_varint(r);
    for (int i = 0; i < 4; i++)
        if (v[i] > UINT32_MAX)
            return -1;
    l->line = (uint32_t)v[0];
    l->col = (uint32_t)v[1];
    if (n == 3) {
        l->end_line = l->line;
        l->end_col = (uint32_t)v[2];
    } else if (n == 4) {
        l->end_line = (uint32_t)v[2];
        l->end_col = (uint32_t)v[3];
    }
    return 0;
}

static int builtin_attr(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    uint64_t code = hlo__bc_varint(r);
    struct nf_str s;
    const struct hlo_type *t;
    const struct hlo_attr *a;
    struct hlo_loc loc = {0};
    int e;
    switch (code) {
    case BUILTIN_A_ARRAY: return array_of(b, r, ret);
    case BUILTIN_A_DICT: return dict_of(b, r, ret);
    case BUILTIN_A_STRING:
    case BUILTIN_A_STRING_TYPED:
        if ((e = hlo__bc_string_at(b, hlo__bc_varint(r), r->at, &s)))
            return e;
        if (code == BUILTIN_A_STRING_TYPED && (e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &t)))
            return e;
        *ret = hlo_attr_string(b->m, s);
        return 0;
    case BUILTIN_A_SYMBOL:
        if ((e = string_attr(b, r, &s)))
            return e;
        *ret = hlo_attr_symbol(b->m, s);
        return 0;
    case BUILTIN_A_SYMBOL_NESTED: {
        if ((e = string_attr(b, r, &s)))
            return e;
        struct nf_buf full = NF_BUF_INIT;
        nf_buf_add_str(&full, s);
        size_t n = hlo__bc_count(r);
        for (size_t i = 0; i < n && !e; i++) {
            if ((e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &a)))
                break;
            if (a->kind != HLO_ATTR_SYMBOL) {
                e = hlo__bc_fail(b, r->at, NF_EGRAPH, "a symbol was expected");
                break;
            }
            nf_buf_add_c(&full, "::");
            nf_buf_add_str(&full, a->str);
        }
        if (!e)
            *ret = hlo_attr_symbol(b->m, nf_buf_str(&full));
        nf_buf_done(&full);
        return e;
    }
    case BUILTIN_A_TYPE:
        if ((e = hlo__bc_type_at(b, hlo__bc_varint(r), r->at, &t)))
            return e;
        *ret = hlo_attr_type(b->m, t);
        return 0;
    case BUILTIN_A_UNIT: *ret = hlo_attr_unit(b->m); return 0;
    case BUILTIN_A_INTEGER: return number(b, r, false, ret);
    case BUILTIN_A_FLOAT: return number(b, r, true, ret);
    case BUILTIN_A_CALLSITE: loc.kind = HLO_LOC_CALLSITE; return loc_attr(b, r, &loc, 2, false, ret);
    case BUILTIN_A_FILE:
    case BUILTIN_A_FILE_RANGE:
        loc.kind = HLO_LOC_FILE;
        if ((e = string_attr(b, r, &loc.name)))
            return e;
        if (code == BUILTIN_A_FILE) {
            uint64_t line = hlo__bc_varint(r), col = hlo__bc_varint(r);
            loc.line = (uint32_t)NF_MIN(line, UINT32_MAX);
            loc.col = (uint32_t)NF_MIN(col, UINT32_MAX);
        } else if (file_range(r, &loc)) {
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "a wrong range of lines");
        }
        *ret = hlo_attr_loc(b->m, &loc);
        return 0;
    case BUILTIN_A_FUSED:
    case BUILTIN_A_FUSED_METADATA:
        loc.kind = HLO_LOC_FUSED;
        if ((e = loc_attr(b, r, &loc, 0, true, ret)))
            return e;
        if (code == BUILTIN_A_FUSED_METADATA) {
            if ((e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &loc.metadata)))
                return e;
            *ret = hlo_attr_loc(b->m, &loc);
        }
        return 0;
    case BUILTIN_A_NAME:
        loc.kind = HLO_LOC_NAME;
        if ((e = string_attr(b, r, &loc.name)))
            return e;
        return loc_attr(b, r, &loc, 1, false, ret);
    case BUILTIN_A_UNKNOWN: *ret = hlo_attr_loc(b->m, &loc); return 0;
    case BUILTIN_A_DENSE: return dense_of(b, r, ret);
    default: return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "unknown builtin attribute %llu", (unsigned long long)code);
    }
}

int hlo__bc_attr_at(struct bc *b, uint64_t index, const void *at, const struct hlo_attr **ret)
{
    struct entry *a = NULL;
    int e = enter(b, b->attrs, b->num_attrs, index, at, "attribute", &a);
    if (e)
        return e;
    if (!a->attr) {
        struct nf_reader r = nf_reader_of(a->bytes);
        const struct hlo_attr *attr = NULL;
        a->busy = true;
        b->depth++;
        if (!a->custom) { /* its spelling */
            size_t len;
            const char *text = hlo__bc_c_string(&r, &len);
            if (!r.failed)
                attr = hlo_attr_opaque(b->m, nf_str_n(text, len));
        } else {
            switch (dialect_of(b, a)) {
            case D_VHLO: e = vhlo_attr(b, &r, &attr); break;
            case D_BUILTIN: e = builtin_attr(b, &r, &attr); break;
            case D_SDY: e = hlo__bc_sdy_attr(b, &r, &attr); break;
            case D_OTHER: e = hlo__bc_fail(b, r.at, NF_EUNSUPPORTED, "an attribute of dialect %.*s in its own encoding", NF_STR_ARG(b->dialects[a->dialect])); break;
            }
        }
        b->depth--;
        a->busy = false;
        if (!e && (r.failed || nf_reader_left(&r)))
            e = hlo__bc_fail(b, r.at, NF_EGRAPH, "attribute %llu is cut or has bytes left over", (unsigned long long)index);
        if (e)
            return e;
        a->attr = attr;
    }
    *ret = a->attr;
    return 0;
}

