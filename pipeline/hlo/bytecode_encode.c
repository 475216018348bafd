/* Types and attributes of the bytecode writer: encoded bottom-up, equal bytes get one number. See bytecode_writer.h. */
#include "pipeline/hlo/bytecode_writer.h"

#include <stdio.h>
#include <stdlib.h>

void hlo__bw_varint(struct nf_buf *o, uint64_t v)
{
    if (v >> 56) {
        nf_buf_add_char(o, 0);
        nf_buf_add_u64le(o, v);
        return;
    }
    unsigned bytes = 1;
    while (bytes < 8 && v >> (7 * bytes))
        bytes++;
    uint64_t x = (v << 1 | 1) << (bytes - 1);
    for (unsigned i = 0; i < bytes; i++)
        nf_buf_add_char(o, (char)(x >> (8 * i)));
}

static void put_svarint(struct nf_buf *o, int64_t v)
{
    hlo__bw_varint(o, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_f64(struct nf_buf *o, double d)
{
    int64_t bits;
    memcpy(&bits, &d, 8);
    put_svarint(o, bits);
}

/* Number of the bytes in the table; `dialect` is part of the identity. */
uint64_t hlo__bw_number(struct bw_table *t, int dialect, struct nf_str bytes)
{
    struct nf_buf key = NF_BUF_INIT;
    nf_buf_add_char(&key, (char)dialect);
    nf_buf_add_str(&key, bytes);
    void *found = nf_map_get(t->index, nf_buf_str(&key));
    if (!found) {
        uint64_t size = bytes.len;
        nf_buf_add_str(&t->bytes, bytes);
        nf_buf_add(&t->sizes, &size, sizeof(size));
        nf_buf_add_char(&t->dialects, (char)dialect);
        found = (void *)(uintptr_t)++t->n;
        nf_map_put(t->index, nf_buf_str(&key), found);
    }
    nf_buf_done(&key);
    return (uint64_t)(uintptr_t)found - 1;
}

uint64_t hlo__bw_string_number(struct bw *w, struct nf_str s)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_str(&b, s);
    nf_buf_add_char(&b, 0);
    uint64_t n = hlo__bw_number(&w->strings, 0, nf_buf_str(&b));
    nf_buf_done(&b);
    return n;
}

int hlo__bw_fail(struct bw *w, const struct hlo_op *op, const char *fmt, ...)
{
    char text[512], where[200] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    nf_fail(w->err, NF_EUNSUPPORTED, "%s%s%s", op ? hlo_op_info(op->id)->name : "", op ? ": " : "", text);
    if (op)
        nf_error_location(w->err, "%s", hlo_op_where(w->m, op, where, sizeof(where)));
    return NF_EUNSUPPORTED;
}

/* ---- types ---- */

int hlo__bw_put_type(struct bw *w, struct nf_buf *o, const struct hlo_type *t, int dialect)
{
    uint64_t n = 0;
    int e = hlo__bw_type_number(w, t, dialect, &n);
    hlo__bw_varint(o, n);
    return e;
}

int hlo__bw_put_types(struct bw *w, struct nf_buf *o, uint32_t n, const struct hlo_type *const *v, int dialect)
{
    int e = 0;
    hlo__bw_varint(o, n);
    for (uint32_t i = 0; i < n && !e; i++)
        e = hlo__bw_put_type(w, o, v[i], dialect);
    return e;
}

static int put_scalar(struct bw *w, struct nf_buf *o, enum hlo_elem elem, int dialect)
{
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m; /* interning a scalar changes nothing that is printed */
    return hlo__bw_put_type(w, o, hlo_type_scalar(m, elem), dialect);
}

static int encode_elem(struct bw *w, struct nf_buf *o, enum hlo_elem e, int dialect)
{
    unsigned width = hlo_elem_bits(e);
    if (dialect == BW_BUILTIN) {
        switch (hlo_elem_class(e)) {
        case HLO_CLASS_BOOL:
        case HLO_CLASS_SINT: hlo__bw_varint(o, BUILTIN_T_INTEGER); hlo__bw_varint(o, (uint64_t)width << 2); return 0;
        case HLO_CLASS_UINT: hlo__bw_varint(o, BUILTIN_T_INTEGER); hlo__bw_varint(o, (uint64_t)width << 2 | 2); return 0;
        case HLO_CLASS_INDEX: hlo__bw_varint(o, BUILTIN_T_INDEX); return 0;
        case HLO_CLASS_FLOAT:
            if (e == HLO_ELEM_BF16 || e == HLO_ELEM_F16 || e == HLO_ELEM_F32 || e == HLO_ELEM_F64) {
                hlo__bw_varint(o, e == HLO_ELEM_BF16 ? BUILTIN_T_BF16 : e == HLO_ELEM_F16 ? BUILTIN_T_F16 : e == HLO_ELEM_F32 ? BUILTIN_T_F32 : BUILTIN_T_F64);
                return 0;
            }
            break;
        case HLO_CLASS_COMPLEX: hlo__bw_varint(o, BUILTIN_T_COMPLEX); return put_scalar(w, o, hlo_elem_part(e), dialect);
        case HLO_CLASS_QUANT:
        case HLO_CLASS_OTHER: break;
        }
        return hlo__bw_fail(w, NULL, "type %s cannot be written outside the portable dialect", hlo_elem_name(e));
    }
    if (hlo_elem_class(e) == HLO_CLASS_COMPLEX) {
        hlo__bw_varint(o, VHLO_T_COMPLEX);
        return put_scalar(w, o, hlo_elem_part(e), dialect);
    }
    int code = vhlo_code_of_elem(e);
    unsigned since = vhlo_elem_since(e);
    if (code < 0)
        return hlo__bw_fail(w, NULL, "type %s has no portable form", hlo_elem_name(e));
    if (!vhlo_at_least(w->version, since / 100, since % 100))
        return hlo__bw_fail(w, NULL, "type %s is newer than version %u.%u.%u", hlo_elem_name(e), w->version.major, w->version.minor, w->version.patch);
    hlo__bw_varint(o, (uint64_t)code);
    return 0;
}

static int encode_quant(struct bw *w, struct nf_buf *o, const struct hlo_quant *q)
{
    bool is_signed = hlo_elem_class(q->storage) == HLO_CLASS_SINT;
    enum hlo_elem storage = q->storage;
    if (!is_signed && !hlo_elem_find(nf_str_c(hlo_elem_name(q->storage) + 1), &storage))
        return hlo__bw_fail(w, NULL, "quantized storage %s", hlo_elem_name(q->storage));
    hlo__bw_varint(o, q->per_axis ? VHLO_T_QUANT_AXIS : VHLO_T_QUANT);
    hlo__bw_varint(o, is_signed);
    int e = put_scalar(w, o, storage, BW_VHLO);
    if (e || (e = put_scalar(w, o, q->expressed, BW_VHLO)))
        return e;
    if (!q->per_axis) {
        put_f64(o, q->scales[0]);
        put_svarint(o, q->zero_points[0]);
        put_svarint(o, q->storage_min);
        put_svarint(o, q->storage_max);
        return 0;
    }
    hlo__bw_varint(o, (uint64_t)q->axis);
    put_svarint(o, q->storage_min);
    put_svarint(o, q->storage_max);
    hlo__bw_varint(o, q->count);
    for (size_t i = 0; i < q->count; i++)
        put_f64(o, q->scales[i]);
    hlo__bw_varint(o, q->count);
    for (size_t i = 0; i < q->count; i++)
        put_svarint(o, q->zero_points[i]);
    return 0;
}

static int encode_shaped(struct bw *w, struct nf_buf *o, const struct hlo_type *t, int dialect)
{
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m;
    bool encoded = t->bounds || t->encoding;
    uint64_t n = 0;
    int e;
    if (t->kind == HLO_TYPE_MEMREF && !vhlo_at_least(w->version, 1, 13))
        return hlo__bw_fail(w, NULL, "buffers are newer than version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
    if (t->kind == HLO_TYPE_MEMREF && dialect == BW_BUILTIN)
        return hlo__bw_fail(w, NULL, "a buffer type outside the portable dialect");
    if (t->kind == HLO_TYPE_UNRANKED)
        hlo__bw_varint(o, dialect == BW_VHLO ? VHLO_T_UNRANKED : BUILTIN_T_UNRANKED);
    else if (t->kind == HLO_TYPE_MEMREF)
        hlo__bw_varint(o, VHLO_T_BUFFER);
    else if (dialect == BW_VHLO)
        hlo__bw_varint(o, encoded ? VHLO_T_TENSOR_ENCODED : VHLO_T_TENSOR);
    else
        hlo__bw_varint(o, encoded ? BUILTIN_T_TENSOR_ENCODED : BUILTIN_T_TENSOR);
    if (encoded && t->kind == HLO_TYPE_TENSOR) {
        struct hlo_attr bounds = {.kind = HLO_ATTR_BOUNDS, .ints = {t->rank, t->bounds}};
        if (dialect == BW_BUILTIN)
            return hlo__bw_fail(w, NULL, "a tensor encoding outside the portable dialect");
        if ((e = hlo__bw_attr_number(w, t->bounds ? &bounds : t->encoding, dialect, &n)))
            return e;
        hlo__bw_varint(o, n);
    }
    if (t->kind != HLO_TYPE_UNRANKED) {
        hlo__bw_varint(o, t->rank);
        for (uint32_t i = 0; i < t->rank; i++)
            put_svarint(o, t->dims[i]);
    }
    const struct hlo_type *elem = t->elem == HLO_ELEM_QUANT
                                      ? hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_SCALAR, .elem = t->elem, .quant = t->quant})
                                      : hlo_type_scalar(m, t->elem);
    return hlo__bw_put_type(w, o, elem, dialect);
}

static int encode_type(struct bw *w, struct nf_buf *o, const struct hlo_type *t, int dialect)
{
    switch (t->kind) {
    case HLO_TYPE_SCALAR:
        if (t->elem == HLO_ELEM_QUANT)
            return dialect == BW_VHLO ? encode_quant(w, o, t->quant) : hlo__bw_fail(w, NULL, "a quantized type outside the portable dialect");
        return encode_elem(w, o, t->elem, dialect);
    case HLO_TYPE_TENSOR:
    case HLO_TYPE_UNRANKED:
    case HLO_TYPE_MEMREF: return encode_shaped(w, o, t, dialect);
    case HLO_TYPE_TUPLE:
        hlo__bw_varint(o, dialect == BW_VHLO ? VHLO_T_TUPLE : BUILTIN_T_TUPLE);
        return hlo__bw_put_types(w, o, t->num_types, t->types, dialect);
    case HLO_TYPE_FUNCTION: {
        hlo__bw_varint(o, dialect == BW_VHLO ? VHLO_T_FUNCTION : BUILTIN_T_FUNCTION);
        int e = hlo__bw_put_types(w, o, t->num_inputs, t->types, dialect);
        return e ? e : hlo__bw_put_types(w, o, t->num_types - t->num_inputs, t->types + t->num_inputs, dialect);
    }
    case HLO_TYPE_NONE: hlo__bw_varint(o, dialect == BW_VHLO ? VHLO_T_NONE : BUILTIN_T_NONE); return 0;
    case HLO_TYPE_TOKEN:
        if (dialect != BW_VHLO)
            break;
        hlo__bw_varint(o, VHLO_T_TOKEN);
        return 0;
    case HLO_TYPE_FUTURE:
        if (dialect != BW_VHLO)
            break;
        if (!vhlo_at_least(w->version, 1, 15))
            return hlo__bw_fail(w, NULL, "futures are newer than version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
        hlo__bw_varint(o, VHLO_T_FUTURE);
        return hlo__bw_put_types(w, o, t->num_types, t->types, dialect);
    case HLO_TYPE_OPAQUE:
    case HLO_TYPE_KIND_MAX: break;
    }
    struct nf_buf text = NF_BUF_INIT;
    hlo_type_print(t, &text);
    int e = hlo__bw_fail(w, NULL, "type %.*s has no portable form", (int)NF_MIN(text.len, 80u), text.data);
    nf_buf_done(&text);
    return e;
}

int hlo__bw_type_number(struct bw *w, const struct hlo_type *t, int dialect, uint64_t *ret)
{
    struct nf_str key = nf_str_n(&t, sizeof(t));
    void *known = nf_map_get(w->type_numbers[dialect], key);
    if (!known) {
        struct nf_buf b = NF_BUF_INIT;
        int e = w->depth > 200 ? hlo__bw_fail(w, NULL, "types nest too deeply") : 0;
        w->depth++;
        if (!e)
            e = encode_type(w, &b, t, dialect);
        w->depth--;
        if (!e) {
            known = (void *)(uintptr_t)(hlo__bw_number(&w->types, dialect, nf_buf_str(&b)) + 1);
            nf_map_put(w->type_numbers[dialect], key, known);
        }
        nf_buf_done(&b);
        if (e)
            return e;
    }
    *ret = (uint64_t)(uintptr_t)known - 1;
    return 0;
}

/* ---- attributes ---- */

int hlo__bw_put_attr(struct bw *w, struct nf_buf *o, const struct hlo_attr *a, int dialect)
{
    uint64_t n = 0;
    int e = hlo__bw_attr_number(w, a, dialect, &n);
    hlo__bw_varint(o, n);
    return e;
}

int hlo__bw_put_string(struct bw *w, struct nf_buf *o, struct nf_str s, int dialect)
{
    struct hlo_attr a = {.kind = HLO_ATTR_STRING, .str = s};
    return hlo__bw_put_attr(w, o, &a, dialect);
}

static void put_bits(struct nf_buf *o, enum hlo_elem e, uint64_t bits)
{
    unsigned width = hlo_elem_bits(e);
    if (width <= 8) {
        nf_buf_add_char(o, (char)(bits & ((1u << width) - 1)));
    } else {
        int64_t v = width < 64 ? (int64_t)(bits << (64 - width)) >> (64 - width) : (int64_t)bits;
        put_svarint(o, v);
    }
}

static void put_dense_bytes(struct nf_buf *o, enum hlo_elem e, const struct hlo_dense *d, uint64_t n)
{
    unsigned bits = hlo_elem_bits(e);
    if (e == HLO_ELEM_I1) {
        if (d->raw.len == 1 && (d->splat || n == 1)) {
            hlo__bw_varint(o, 1);
            nf_buf_add_char(o, d->raw.data[0] ? (char)0xFF : 0);
            return;
        }
        hlo__bw_varint(o, (n + 7) / 8);
        for (uint64_t i = 0; i < n; i += 8) {
            unsigned byte = 0;
            for (uint64_t k = 0; k < 8 && i + k < n; k++)
                byte |= (unsigned)(d->raw.data[i + k] & 1) << k;
            nf_buf_add_char(o, (char)byte);
        }
        return;
    }
    hlo__bw_varint(o, d->raw.len);
    if (bits >= 8) {
        nf_buf_add_str(o, d->raw);
        return;
    }
    for (size_t i = 0; i < d->raw.len; i++)
        nf_buf_add_char(o, (char)((uint8_t)d->raw.data[i] & ((1u << bits) - 1)));
}

static int encode_dense(struct bw *w, struct nf_buf *o, const struct hlo_attr *a, int dialect)
{
    uint64_t n;
    if (!hlo_type_count(a->type, &n))
        return hlo__bw_fail(w, NULL, "a constant without a static type");
    hlo__bw_varint(o, dialect == BW_VHLO ? VHLO_A_TENSOR : BUILTIN_A_DENSE);
    int e = hlo__bw_put_type(w, o, a->type, dialect);
    if (!e)
        put_dense_bytes(o, hlo_type_storage(a->type), &a->dense, n);
    return e;
}

static int encode_loc(struct bw *w, struct nf_buf *o, const struct hlo_loc *l)
{
    static const struct hlo_loc unknown = {0};
    struct hlo_attr none = {.kind = HLO_ATTR_LOCATION, .loc = &unknown};
    int e = 0;
    switch (l->kind) {
    case HLO_LOC_UNKNOWN: hlo__bw_varint(o, BUILTIN_A_UNKNOWN); return 0;
    case HLO_LOC_FILE:
        if (l->end_line == 0) {
            hlo__bw_varint(o, BUILTIN_A_FILE);
            e = hlo__bw_put_string(w, o, l->name, BW_BUILTIN);
            hlo__bw_varint(o, l->line);
            hlo__bw_varint(o, l->col);
            return e;
        }
        hlo__bw_varint(o, BUILTIN_A_FILE_RANGE);
        e = hlo__bw_put_string(w, o, l->name, BW_BUILTIN);
        hlo__bw_varint(o, l->line == l->end_line ? 3 : 4);
        hlo__bw_varint(o, l->line);
        hlo__bw_varint(o, l->col);
        if (l->line != l->end_line)
            hlo__bw_varint(o, l->end_line);
        hlo__bw_varint(o, l->end_col);
        return e;
    case HLO_LOC_NAME:
        hlo__bw_varint(o, BUILTIN_A_NAME);
        e = hlo__bw_put_string(w, o, l->name, BW_BUILTIN);
        return e ? e : hlo__bw_put_attr(w, o, l->num_children ? l->children[0] : &none, BW_BUILTIN);
    case HLO_LOC_CALLSITE:
        hlo__bw_varint(o, BUILTIN_A_CALLSITE);
        for (uint32_t i = 0; i < 2 && !e; i++)
            e = hlo__bw_put_attr(w, o, i < l->num_children ? l->children[i] : &none, BW_BUILTIN);
        return e;
    case HLO_LOC_FUSED: /* metadata is for people and may be of any dialect: it is left out */
        hlo__bw_varint(o, BUILTIN_A_FUSED);
        hlo__bw_varint(o, l->num_children);
        for (uint32_t i = 0; i < l->num_children && !e; i++)
            e = hlo__bw_put_attr(w, o, l->children[i], BW_BUILTIN);
        return e;
    }
    return 0;
}

static void put_ints(struct nf_buf *o, struct hlo_ints v)
{
    hlo__bw_varint(o, v.n);
    for (size_t i = 0; i < v.n; i++)
        put_svarint(o, v.v[i]);
}

/* "(1)2" and the like of axis references; the texts are those that the reader makes. */
static int encode_axis_ref(struct bw *w, struct nf_buf *o, const struct hlo_attr *a)
{
    const struct nf_str head = NF_STR("#stablehlo.axis_ref<name = \"");
    struct nf_str s = a->kind == HLO_ATTR_OPAQUE ? a->str : nf_str_n("", 0);
    if (!nf_str_starts(s, head))
        return hlo__bw_fail(w, NULL, "a mesh axis that is no axis_ref");
    s = nf_str_n(s.data + head.len, s.len - head.len);
    struct nf_str name = nf_str_cut(&s, '"');
    hlo__bw_varint(o, VHLO_A_AXIS_REF);
    int e = hlo__bw_put_string(w, o, name, BW_VHLO);
    const char *open = s.data ? memchr(s.data, '(', s.len) : NULL;
    const char *close = open ? memchr(open, ')', (size_t)(s.data + s.len - open)) : NULL;
    hlo__bw_varint(o, close != NULL);
    if (!close || e)
        return e;
    int64_t pre, size;
    const char *end = memchr(close, '>', (size_t)(s.data + s.len - close));
    if (!end || nf_str_to_i64(nf_str_n(open + 1, (size_t)(close - open - 1)), &pre) || nf_str_to_i64(nf_str_trim(nf_str_n(close + 1, (size_t)(end - close - 1))), &size))
        return hlo__bw_fail(w, NULL, "a mesh axis with an unreadable part");
    struct nf_buf sub = NF_BUF_INIT;
    hlo__bw_varint(&sub, VHLO_A_SUB_AXIS);
    put_svarint(&sub, pre);
    put_svarint(&sub, size);
    hlo__bw_varint(o, hlo__bw_number(&w->attrs, BW_VHLO, nf_buf_str(&sub)));
    nf_buf_done(&sub);
    return 0;
}

static int encode_mesh_axes(struct bw *w, struct nf_buf *o, const struct hlo_attr *a)
{
    const struct hlo_attr *axes = a->mesh_axes.axes;
    if (a->mesh_axes.mesh->kind != HLO_ATTR_SYMBOL)
        return hlo__bw_fail(w, NULL, "replica groups by a mesh that is no symbol");
    hlo__bw_varint(o, VHLO_A_MESH_AXES);
    int e = hlo__bw_put_string(w, o, a->mesh_axes.mesh->str, BW_VHLO);
    if (e)
        return e;
    struct nf_buf list = NF_BUF_INIT, one = NF_BUF_INIT;
    hlo__bw_varint(&list, VHLO_A_ARRAY);
    hlo__bw_varint(&list, axes->array.n);
    for (size_t i = 0; i < axes->array.n && !e; i++) {
        nf_buf_clear(&one);
        e = encode_axis_ref(w, &one, axes->array.v[i]);
        hlo__bw_varint(&list, hlo__bw_number(&w->attrs, BW_VHLO, nf_buf_str(&one)));
    }
    hlo__bw_varint(o, hlo__bw_number(&w->attrs, BW_VHLO, nf_buf_str(&list)));
    nf_buf_done(&list);
    nf_buf_done(&one);
    return e;
}

static int encode_attr(struct bw *w, struct nf_buf *o, const struct hlo_attr *a, int dialect)
{
    bool v = dialect == BW_VHLO;
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m;
    int e = 0;
    switch (a->kind) {
    case HLO_ATTR_UNIT:
        if (v) { /* portable programs spell it as true */
            hlo__bw_varint(o, VHLO_A_BOOL);
            hlo__bw_varint(o, 1);
        } else {
            hlo__bw_varint(o, BUILTIN_A_UNIT);
        }
        return 0;
    case HLO_ATTR_BOOL:
        if (v) {
            hlo__bw_varint(o, VHLO_A_BOOL);
            hlo__bw_varint(o, a->b);
            return 0;
        }
        hlo__bw_varint(o, BUILTIN_A_INTEGER);
        e = put_scalar(w, o, HLO_ELEM_I1, dialect);
        put_bits(o, HLO_ELEM_I1, a->b);
        return e;
    case HLO_ATTR_INT:
        hlo__bw_varint(o, v ? VHLO_A_INTEGER : BUILTIN_A_INTEGER);
        e = hlo__bw_put_type(w, o, a->type, dialect);
        put_bits(o, a->type->elem, (uint64_t)a->i);
        return e;
    case HLO_ATTR_FLOAT:
        hlo__bw_varint(o, v ? VHLO_A_FLOAT : BUILTIN_A_FLOAT);
        e = hlo__bw_put_type(w, o, a->type, dialect);
        put_bits(o, a->type->elem, a->bits);
        return e;
    case HLO_ATTR_STRING:
        hlo__bw_varint(o, v ? VHLO_A_STRING : BUILTIN_A_STRING);
        hlo__bw_varint(o, hlo__bw_string_number(w, a->str));
        return 0;
    case HLO_ATTR_SYMBOL:
        if (v) {
            hlo__bw_varint(o, VHLO_A_STRING);
            hlo__bw_varint(o, hlo__bw_string_number(w, a->str));
            return 0;
        }
        hlo__bw_varint(o, BUILTIN_A_SYMBOL);
        return hlo__bw_put_string(w, o, a->str, dialect);
    case HLO_ATTR_TYPE:
        hlo__bw_varint(o, v ? VHLO_A_TYPE : BUILTIN_A_TYPE);
        return hlo__bw_put_type(w, o, a->type, dialect);
    case HLO_ATTR_ARRAY:
        hlo__bw_varint(o, v ? VHLO_A_ARRAY : BUILTIN_A_ARRAY);
        hlo__bw_varint(o, a->array.n);
        for (size_t i = 0; i < a->array.n && !e; i++)
            e = hlo__bw_put_attr(w, o, a->array.v[i], dialect);
        return e;
    case HLO_ATTR_DICT:
        hlo__bw_varint(o, v ? VHLO_A_DICT : BUILTIN_A_DICT);
        hlo__bw_varint(o, a->dict.n);
        for (size_t i = 0; i < a->dict.n && !e; i++) {
            e = hlo__bw_put_string(w, o, a->dict.v[i].name, dialect);
            if (!e)
                e = hlo__bw_put_attr(w, o, a->dict.v[i].attr, dialect);
        }
        return e;
    case HLO_ATTR_DENSE: return encode_dense(w, o, a, dialect);
    case HLO_ATTR_DENSE_ARRAY: {
        if (a->type->elem != HLO_ELEM_I64 && a->type->elem != HLO_ELEM_I1)
            return hlo__bw_fail(w, NULL, "an array of %s has no portable form", hlo_elem_name(a->type->elem));
        int64_t n = (int64_t)a->ints.n;
        const struct hlo_type *t = hlo_type_tensor(m, a->type->elem, 1, &n);
        struct nf_buf raw = NF_BUF_INIT;
        for (size_t i = 0; i < a->ints.n; i++)
            if (a->type->elem == HLO_ELEM_I1)
                nf_buf_add_char(&raw, a->ints.v[i] != 0);
            else
                nf_buf_add_u64le(&raw, (uint64_t)a->ints.v[i]);
        bool same = n > 1;
        for (int64_t i = 1; i < n && same; i++)
            same = a->ints.v[i] == a->ints.v[0];
        size_t size = hlo_elem_bytes(a->type->elem);
        struct hlo_attr d = {.kind = HLO_ATTR_DENSE, .type = t, .dense = {.raw = {raw.data, same ? size : raw.len}, .splat = same}};
        e = encode_dense(w, o, &d, dialect);
        nf_buf_done(&raw);
        return e;
    }
    case HLO_ATTR_ENUM: {
        int code = v ? vhlo_code_of_enum(a->enumeration.class) : -1;
        if (code < 0)
            break;
        hlo__bw_varint(o, (uint64_t)code);
        hlo__bw_varint(o, (uint64_t)a->enumeration.value);
        return 0;
    }
    case HLO_ATTR_ALIAS:
        if (!v)
            break;
        hlo__bw_varint(o, VHLO_A_ALIAS);
        put_ints(o, a->alias->output_tuple_indices);
        put_svarint(o, a->alias->operand_index);
        put_ints(o, a->alias->operand_tuple_indices);
        return 0;
    case HLO_ATTR_ACCURACY: {
        if (!v)
            break;
        struct hlo_attr mode = {.kind = HLO_ATTR_ENUM, .enumeration = {HLO_ENUM_ACCURACY, a->accuracy->mode}};
        hlo__bw_varint(o, VHLO_A_ACCURACY);
        put_f64(o, a->accuracy->absolute);
        put_f64(o, a->accuracy->relative);
        put_svarint(o, a->accuracy->ulps);
        return hlo__bw_put_attr(w, o, &mode, dialect);
    }
    case HLO_ATTR_MESH_AXES:
        if (!v)
            break;
        return encode_mesh_axes(w, o, a);
    case HLO_ATTR_BOUNDS:
        if (!v)
            break;
        hlo__bw_varint(o, VHLO_A_EXTENSIONS);
        put_ints(o, a->ints);
        return 0;
    case HLO_ATTR_LOCATION: return encode_loc(w, o, a->loc);
    case HLO_ATTR_OPAQUE:
    case HLO_ATTR_DOT:
    case HLO_ATTR_CONV:
    case HLO_ATTR_GATHER:
    case HLO_ATTR_SCATTER:
    case HLO_ATTR_RAGGED_DOT:
    case HLO_ATTR_CHANNEL:
    case HLO_ATTR_DOT_ALGORITHM:
    case HLO_ATTR_RESOURCE:
    case HLO_ATTR_KIND_MAX: break;
    }
    struct nf_buf text = NF_BUF_INIT;
    hlo_attr_print(a, &text);
    e = hlo__bw_fail(w, NULL, "attribute %.*s has no portable form", (int)NF_MIN(text.len, 80u), text.data);
    nf_buf_done(&text);
    return e;
}

/* The entry of an sdy attribute is its spelling. */
static bool is_sdy_text(const struct hlo_attr *a)
{
    return a->kind == HLO_ATTR_OPAQUE && (nf_str_starts(a->str, NF_STR("#sdy.")) || nf_str_starts(a->str, NF_STR("#sdy<")));
}

int hlo__bw_attr_number(struct bw *w, const struct hlo_attr *a, int dialect, uint64_t *ret)
{
    struct nf_buf b = NF_BUF_INIT;
    int e = w->depth > 200 ? hlo__bw_fail(w, NULL, "attributes nest too deeply") : 0;
    w->depth++;
    if (!e && is_sdy_text(a)) {
        nf_buf_add_str(&b, a->str);
        nf_buf_add_char(&b, 0);
        dialect = BW_SDY;
    } else if (!e) {
        if (a->kind == HLO_ATTR_LOCATION)
            dialect = BW_BUILTIN;
        e = encode_attr(w, &b, a, dialect);
    }
    w->depth--;
    if (!e)
        *ret = hlo__bw_number(&w->attrs, dialect, nf_buf_str(&b));
    nf_buf_done(&b);
    return e;
}
