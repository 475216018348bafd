/* The writer. Attributes and types are encoded bottom-up and kept once by their bytes, so that equal ones get one number; the
 * sections are put together at the end. Operations that the wanted version has in an older form are written in that form,
 * when nothing that the form lacks is in use. */
#include "pipeline/hlo/bytecode.h"

#include "base/map.h"
#include "pipeline/hlo/vhlo.h"

#include <stdlib.h>

enum { D_BUILTIN, D_VHLO, D_SDY, D_MAX };
static const char *const dialect_names[D_MAX] = {"builtin", "vhlo", "sdy"};

/* Things numbered by their bytes. */
struct table {
    struct nf_map *index;       /* bytes -> number + 1 */
    struct nf_buf bytes;        /* all of them, in order */
    struct nf_buf sizes;        /* uint64_t each */
    struct nf_buf dialects;     /* char each */
    size_t n;
};

struct bw {
    const struct hlo_module *m;
    struct nf_error *err;
    struct vhlo_version version;
    bool debug_info;
    struct table strings, attrs, types, props, ops;
    uint64_t *loc_numbers;      /* of m->locs, + 1 */
    uint64_t *value_numbers;    /* by value id */
    struct nf_map *type_numbers[2]; /* hlo_type pointer -> number + 1, builtin and portable */
    unsigned depth;
};

static void put_varint(struct nf_buf *o, uint64_t v)
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
    put_varint(o, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_f64(struct nf_buf *o, double d)
{
    int64_t bits;
    memcpy(&bits, &d, 8);
    put_svarint(o, bits);
}

/* Number of the bytes in the table; `dialect` is part of the identity. */
static uint64_t number(struct table *t, int dialect, struct nf_str bytes)
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

static uint64_t string_number(struct bw *w, struct nf_str s)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_str(&b, s);
    nf_buf_add_char(&b, 0);
    uint64_t n = number(&w->strings, 0, nf_buf_str(&b));
    nf_buf_done(&b);
    return n;
}

__attribute__((format(printf, 3, 4)))
static int bad(struct bw *w, const struct hlo_op *op, const char *fmt, ...)
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

static int type_number(struct bw *w, const struct hlo_type *t, int dialect, uint64_t *ret);
static int attr_number(struct bw *w, const struct hlo_attr *a, int dialect, uint64_t *ret);

static int put_type(struct bw *w, struct nf_buf *o, const struct hlo_type *t, int dialect)
{
    uint64_t n = 0;
    int e = type_number(w, t, dialect, &n);
    put_varint(o, n);
    return e;
}

static int put_types(struct bw *w, struct nf_buf *o, uint32_t n, const struct hlo_type *const *v, int dialect)
{
    int e = 0;
    put_varint(o, n);
    for (uint32_t i = 0; i < n && !e; i++)
        e = put_type(w, o, v[i], dialect);
    return e;
}

static int put_scalar(struct bw *w, struct nf_buf *o, enum hlo_elem elem, int dialect)
{
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m; /* interning a scalar changes nothing that is printed */
    return put_type(w, o, hlo_type_scalar(m, elem), dialect);
}

static int encode_elem(struct bw *w, struct nf_buf *o, enum hlo_elem e, int dialect)
{
    unsigned width = hlo_elem_bits(e);
    if (dialect == D_BUILTIN) {
        switch (hlo_elem_class(e)) {
        case HLO_CLASS_BOOL:
        case HLO_CLASS_SINT: put_varint(o, BUILTIN_T_INTEGER); put_varint(o, (uint64_t)width << 2); return 0;
        case HLO_CLASS_UINT: put_varint(o, BUILTIN_T_INTEGER); put_varint(o, (uint64_t)width << 2 | 2); return 0;
        case HLO_CLASS_INDEX: put_varint(o, BUILTIN_T_INDEX); return 0;
        case HLO_CLASS_FLOAT:
            if (e == HLO_ELEM_BF16 || e == HLO_ELEM_F16 || e == HLO_ELEM_F32 || e == HLO_ELEM_F64) {
                put_varint(o, e == HLO_ELEM_BF16 ? BUILTIN_T_BF16 : e == HLO_ELEM_F16 ? BUILTIN_T_F16 : e == HLO_ELEM_F32 ? BUILTIN_T_F32 : BUILTIN_T_F64);
                return 0;
            }
            break;
        case HLO_CLASS_COMPLEX: put_varint(o, BUILTIN_T_COMPLEX); return put_scalar(w, o, hlo_elem_part(e), dialect);
        case HLO_CLASS_QUANT:
        case HLO_CLASS_OTHER: break;
        }
        return bad(w, NULL, "type %s cannot be written outside the portable dialect", hlo_elem_name(e));
    }
    if (hlo_elem_class(e) == HLO_CLASS_COMPLEX) {
        put_varint(o, VHLO_T_COMPLEX);
        return put_scalar(w, o, hlo_elem_part(e), dialect);
    }
    int code = vhlo_code_of_elem(e);
    unsigned since = vhlo_elem_since(e);
    if (code < 0)
        return bad(w, NULL, "type %s has no portable form", hlo_elem_name(e));
    if (!vhlo_at_least(w->version, since / 100, since % 100))
        return bad(w, NULL, "type %s is newer than version %u.%u.%u", hlo_elem_name(e), w->version.major, w->version.minor, w->version.patch);
    put_varint(o, (uint64_t)code);
    return 0;
}

static int encode_quant(struct bw *w, struct nf_buf *o, const struct hlo_quant *q)
{
    bool is_signed = hlo_elem_class(q->storage) == HLO_CLASS_SINT;
    enum hlo_elem storage = q->storage;
    if (!is_signed && !hlo_elem_find(nf_str_c(hlo_elem_name(q->storage) + 1), &storage))
        return bad(w, NULL, "quantized storage %s", hlo_elem_name(q->storage));
    put_varint(o, q->per_axis ? VHLO_T_QUANT_AXIS : VHLO_T_QUANT);
    put_varint(o, is_signed);
    int e = put_scalar(w, o, storage, D_VHLO);
    if (e || (e = put_scalar(w, o, q->expressed, D_VHLO)))
        return e;
    if (!q->per_axis) {
        put_f64(o, q->scales[0]);
        put_svarint(o, q->zero_points[0]);
        put_svarint(o, q->storage_min);
        put_svarint(o, q->storage_max);
        return 0;
    }
    put_varint(o, (uint64_t)q->axis);
    put_svarint(o, q->storage_min);
    put_svarint(o, q->storage_max);
    put_varint(o, q->count);
    for (size_t i = 0; i < q->count; i++)
        put_f64(o, q->scales[i]);
    put_varint(o, q->count);
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
        return bad(w, NULL, "buffers are newer than version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
    if (t->kind == HLO_TYPE_MEMREF && dialect == D_BUILTIN)
        return bad(w, NULL, "a buffer type outside the portable dialect");
    if (t->kind == HLO_TYPE_UNRANKED)
        put_varint(o, dialect == D_VHLO ? VHLO_T_UNRANKED : BUILTIN_T_UNRANKED);
    else if (t->kind == HLO_TYPE_MEMREF)
        put_varint(o, VHLO_T_BUFFER);
    else if (dialect == D_VHLO)
        put_varint(o, encoded ? VHLO_T_TENSOR_ENCODED : VHLO_T_TENSOR);
    else
        put_varint(o, encoded ? BUILTIN_T_TENSOR_ENCODED : BUILTIN_T_TENSOR);
    if (encoded && t->kind == HLO_TYPE_TENSOR) {
        struct hlo_attr bounds = {.kind = HLO_ATTR_BOUNDS, .ints = {t->rank, t->bounds}};
        if (dialect == D_BUILTIN)
            return bad(w, NULL, "a tensor encoding outside the portable dialect");
        if ((e = attr_number(w, t->bounds ? &bounds : t->encoding, dialect, &n)))
            return e;
        put_varint(o, n);
    }
    if (t->kind != HLO_TYPE_UNRANKED) {
        put_varint(o, t->rank);
        for (uint32_t i = 0; i < t->rank; i++)
            put_svarint(o, t->dims[i]);
    }
    const struct hlo_type *elem = t->elem == HLO_ELEM_QUANT
                                      ? hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_SCALAR, .elem = t->elem, .quant = t->quant})
                                      : hlo_type_scalar(m, t->elem);
    return put_type(w, o, elem, dialect);
}

static int encode_type(struct bw *w, struct nf_buf *o, const struct hlo_type *t, int dialect)
{
    switch (t->kind) {
    case HLO_TYPE_SCALAR:
        if (t->elem == HLO_ELEM_QUANT)
            return dialect == D_VHLO ? encode_quant(w, o, t->quant) : bad(w, NULL, "a quantized type outside the portable dialect");
        return encode_elem(w, o, t->elem, dialect);
    case HLO_TYPE_TENSOR:
    case HLO_TYPE_UNRANKED:
    case HLO_TYPE_MEMREF: return encode_shaped(w, o, t, dialect);
    case HLO_TYPE_TUPLE:
        put_varint(o, dialect == D_VHLO ? VHLO_T_TUPLE : BUILTIN_T_TUPLE);
        return put_types(w, o, t->num_types, t->types, dialect);
    case HLO_TYPE_FUNCTION: {
        put_varint(o, dialect == D_VHLO ? VHLO_T_FUNCTION : BUILTIN_T_FUNCTION);
        int e = put_types(w, o, t->num_inputs, t->types, dialect);
        return e ? e : put_types(w, o, t->num_types - t->num_inputs, t->types + t->num_inputs, dialect);
    }
    case HLO_TYPE_NONE: put_varint(o, dialect == D_VHLO ? VHLO_T_NONE : BUILTIN_T_NONE); return 0;
    case HLO_TYPE_TOKEN:
        if (dialect != D_VHLO)
            break;
        put_varint(o, VHLO_T_TOKEN);
        return 0;
    case HLO_TYPE_FUTURE:
        if (dialect != D_VHLO)
            break;
        if (!vhlo_at_least(w->version, 1, 15))
            return bad(w, NULL, "futures are newer than version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
        put_varint(o, VHLO_T_FUTURE);
        return put_types(w, o, t->num_types, t->types, dialect);
    case HLO_TYPE_OPAQUE:
    case HLO_TYPE_KIND_MAX: break;
    }
    struct nf_buf text = NF_BUF_INIT;
    hlo_type_print(t, &text);
    int e = bad(w, NULL, "type %.*s has no portable form", (int)NF_MIN(text.len, 80u), text.data);
    nf_buf_done(&text);
    return e;
}

static int type_number(struct bw *w, const struct hlo_type *t, int dialect, uint64_t *ret)
{
    struct nf_str key = nf_str_n(&t, sizeof(t));
    void *known = nf_map_get(w->type_numbers[dialect], key);
    if (!known) {
        struct nf_buf b = NF_BUF_INIT;
        int e = w->depth > 200 ? bad(w, NULL, "types nest too deeply") : 0;
        w->depth++;
        if (!e)
            e = encode_type(w, &b, t, dialect);
        w->depth--;
        if (!e) {
            known = (void *)(uintptr_t)(number(&w->types, dialect, nf_buf_str(&b)) + 1);
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

static int put_attr(struct bw *w, struct nf_buf *o, const struct hlo_attr *a, int dialect)
{
    uint64_t n = 0;
    int e = attr_number(w, a, dialect, &n);
    put_varint(o, n);
    return e;
}

static int put_string(struct bw *w, struct nf_buf *o, struct nf_str s, int dialect)
{
    struct hlo_attr a = {.kind = HLO_ATTR_STRING, .str = s};
    return put_attr(w, o, &a, dialect);
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
            put_varint(o, 1);
            nf_buf_add_char(o, d->raw.data[0] ? (char)0xFF : 0);
            return;
        }
        put_varint(o, (n + 7) / 8);
        for (uint64_t i = 0; i < n; i += 8) {
            unsigned byte = 0;
            for (uint64_t k = 0; k < 8 && i + k < n; k++)
                byte |= (unsigned)(d->raw.data[i + k] & 1) << k;
            nf_buf_add_char(o, (char)byte);
        }
        return;
    }
    put_varint(o, d->raw.len);
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
        return bad(w, NULL, "a constant without a static type");
    put_varint(o, dialect == D_VHLO ? VHLO_A_TENSOR : BUILTIN_A_DENSE);
    int e = put_type(w, o, a->type, dialect);
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
    case HLO_LOC_UNKNOWN: put_varint(o, BUILTIN_A_UNKNOWN); return 0;
    case HLO_LOC_FILE:
        if (l->end_line == 0) {
            put_varint(o, BUILTIN_A_FILE);
            e = put_string(w, o, l->name, D_BUILTIN);
            put_varint(o, l->line);
            put_varint(o, l->col);
            return e;
        }
        put_varint(o, BUILTIN_A_FILE_RANGE);
        e = put_string(w, o, l->name, D_BUILTIN);
        put_varint(o, l->line == l->end_line ? 3 : 4);
        put_varint(o, l->line);
        put_varint(o, l->col);
        if (l->line != l->end_line)
            put_varint(o, l->end_line);
        put_varint(o, l->end_col);
        return e;
    case HLO_LOC_NAME:
        put_varint(o, BUILTIN_A_NAME);
        e = put_string(w, o, l->name, D_BUILTIN);
        return e ? e : put_attr(w, o, l->num_children ? l->children[0] : &none, D_BUILTIN);
    case HLO_LOC_CALLSITE:
        put_varint(o, BUILTIN_A_CALLSITE);
        for (uint32_t i = 0; i < 2 && !e; i++)
            e = put_attr(w, o, i < l->num_children ? l->children[i] : &none, D_BUILTIN);
        return e;
    case HLO_LOC_FUSED: /* metadata is for people and may be of any dialect: it is left out */
        put_varint(o, BUILTIN_A_FUSED);
        put_varint(o, l->num_children);
        for (uint32_t i = 0; i < l->num_children && !e; i++)
            e = put_attr(w, o, l->children[i], D_BUILTIN);
        return e;
    }
    return 0;
}

static void put_ints(struct nf_buf *o, struct hlo_ints v)
{
    put_varint(o, v.n);
    for (size_t i = 0; i < v.n; i++)
        put_svarint(o, v.v[i]);
}

/* "(1)2" and the like of axis references; the texts are those that the reader makes. */
static int encode_axis_ref(struct bw *w, struct nf_buf *o, const struct hlo_attr *a)
{
    const struct nf_str head = NF_STR("#stablehlo.axis_ref<name = \"");
    struct nf_str s = a->kind == HLO_ATTR_OPAQUE ? a->str : nf_str_n("", 0);
    if (!nf_str_starts(s, head))
        return bad(w, NULL, "a mesh axis that is no axis_ref");
    s = nf_str_n(s.data + head.len, s.len - head.len);
    struct nf_str name = nf_str_cut(&s, '"');
    put_varint(o, VHLO_A_AXIS_REF);
    int e = put_string(w, o, name, D_VHLO);
    const char *open = s.data ? memchr(s.data, '(', s.len) : NULL;
    const char *close = open ? memchr(open, ')', (size_t)(s.data + s.len - open)) : NULL;
    put_varint(o, close != NULL);
    if (!close || e)
        return e;
    int64_t pre, size;
    const char *end = memchr(close, '>', (size_t)(s.data + s.len - close));
    if (!end || nf_str_to_i64(nf_str_n(open + 1, (size_t)(close - open - 1)), &pre) || nf_str_to_i64(nf_str_trim(nf_str_n(close + 1, (size_t)(end - close - 1))), &size))
        return bad(w, NULL, "a mesh axis with an unreadable part");
    struct nf_buf sub = NF_BUF_INIT;
    put_varint(&sub, VHLO_A_SUB_AXIS);
    put_svarint(&sub, pre);
    put_svarint(&sub, size);
    put_varint(o, number(&w->attrs, D_VHLO, nf_buf_str(&sub)));
    nf_buf_done(&sub);
    return 0;
}

static int encode_mesh_axes(struct bw *w, struct nf_buf *o, const struct hlo_attr *a)
{
    const struct hlo_attr *axes = a->mesh_axes.axes;
    if (a->mesh_axes.mesh->kind != HLO_ATTR_SYMBOL)
        return bad(w, NULL, "replica groups by a mesh that is no symbol");
    put_varint(o, VHLO_A_MESH_AXES);
    int e = put_string(w, o, a->mesh_axes.mesh->str, D_VHLO);
    if (e)
        return e;
    struct nf_buf list = NF_BUF_INIT, one = NF_BUF_INIT;
    put_varint(&list, VHLO_A_ARRAY);
    put_varint(&list, axes->array.n);
    for (size_t i = 0; i < axes->array.n && !e; i++) {
        nf_buf_clear(&one);
        e = encode_axis_ref(w, &one, axes->array.v[i]);
        put_varint(&list, number(&w->attrs, D_VHLO, nf_buf_str(&one)));
    }
    put_varint(o, number(&w->attrs, D_VHLO, nf_buf_str(&list)));
    nf_buf_done(&list);
    nf_buf_done(&one);
    return e;
}

static int encode_attr(struct bw *w, struct nf_buf *o, const struct hlo_attr *a, int dialect)
{
    bool v = dialect == D_VHLO;
    struct hlo_module *m = (struct hlo_module *)(uintptr_t)w->m;
    int e = 0;
    switch (a->kind) {
    case HLO_ATTR_UNIT:
        if (v) { /* portable programs spell it as true */
            put_varint(o, VHLO_A_BOOL);
            put_varint(o, 1);
        } else {
            put_varint(o, BUILTIN_A_UNIT);
        }
        return 0;
    case HLO_ATTR_BOOL:
        if (v) {
            put_varint(o, VHLO_A_BOOL);
            put_varint(o, a->b);
            return 0;
        }
        put_varint(o, BUILTIN_A_INTEGER);
        e = put_scalar(w, o, HLO_ELEM_I1, dialect);
        put_bits(o, HLO_ELEM_I1, a->b);
        return e;
    case HLO_ATTR_INT:
        put_varint(o, v ? VHLO_A_INTEGER : BUILTIN_A_INTEGER);
        e = put_type(w, o, a->type, dialect);
        put_bits(o, a->type->elem, (uint64_t)a->i);
        return e;
    case HLO_ATTR_FLOAT:
        put_varint(o, v ? VHLO_A_FLOAT : BUILTIN_A_FLOAT);
        e = put_type(w, o, a->type, dialect);
        put_bits(o, a->type->elem, a->bits);
        return e;
    case HLO_ATTR_STRING:
        put_varint(o, v ? VHLO_A_STRING : BUILTIN_A_STRING);
        put_varint(o, string_number(w, a->str));
        return 0;
    case HLO_ATTR_SYMBOL:
        if (v) {
            put_varint(o, VHLO_A_STRING);
            put_varint(o, string_number(w, a->str));
            return 0;
        }
        put_varint(o, BUILTIN_A_SYMBOL);
        return put_string(w, o, a->str, dialect);
    case HLO_ATTR_TYPE:
        put_varint(o, v ? VHLO_A_TYPE : BUILTIN_A_TYPE);
        return put_type(w, o, a->type, dialect);
    case HLO_ATTR_ARRAY:
        put_varint(o, v ? VHLO_A_ARRAY : BUILTIN_A_ARRAY);
        put_varint(o, a->array.n);
        for (size_t i = 0; i < a->array.n && !e; i++)
            e = put_attr(w, o, a->array.v[i], dialect);
        return e;
    case HLO_ATTR_DICT:
        put_varint(o, v ? VHLO_A_DICT : BUILTIN_A_DICT);
        put_varint(o, a->dict.n);
        for (size_t i = 0; i < a->dict.n && !e; i++) {
            e = put_string(w, o, a->dict.v[i].name, dialect);
            if (!e)
                e = put_attr(w, o, a->dict.v[i].attr, dialect);
        }
        return e;
    case HLO_ATTR_DENSE: return encode_dense(w, o, a, dialect);
    case HLO_ATTR_DENSE_ARRAY: {
        if (a->type->elem != HLO_ELEM_I64 && a->type->elem != HLO_ELEM_I1)
            return bad(w, NULL, "an array of %s has no portable form", hlo_elem_name(a->type->elem));
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
        put_varint(o, (uint64_t)code);
        put_varint(o, (uint64_t)a->enumeration.value);
        return 0;
    }
    case HLO_ATTR_ALIAS:
        if (!v)
            break;
        put_varint(o, VHLO_A_ALIAS);
        put_ints(o, a->alias->output_tuple_indices);
        put_svarint(o, a->alias->operand_index);
        put_ints(o, a->alias->operand_tuple_indices);
        return 0;
    case HLO_ATTR_ACCURACY: {
        if (!v)
            break;
        struct hlo_attr mode = {.kind = HLO_ATTR_ENUM, .enumeration = {HLO_ENUM_ACCURACY, a->accuracy->mode}};
        put_varint(o, VHLO_A_ACCURACY);
        put_f64(o, a->accuracy->absolute);
        put_f64(o, a->accuracy->relative);
        put_svarint(o, a->accuracy->ulps);
        return put_attr(w, o, &mode, dialect);
    }
    case HLO_ATTR_MESH_AXES:
        if (!v)
            break;
        return encode_mesh_axes(w, o, a);
    case HLO_ATTR_BOUNDS:
        if (!v)
            break;
        put_varint(o, VHLO_A_EXTENSIONS);
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
    e = bad(w, NULL, "attribute %.*s has no portable form", (int)NF_MIN(text.len, 80u), text.data);
    nf_buf_done(&text);
    return e;
}

/* The entry of an sdy attribute is its spelling. */
static bool is_sdy_text(const struct hlo_attr *a)
{
    return a->kind == HLO_ATTR_OPAQUE && nf_str_starts(a->str, NF_STR("#sdy."));
}

static int attr_number(struct bw *w, const struct hlo_attr *a, int dialect, uint64_t *ret)
{
    struct nf_buf b = NF_BUF_INIT;
    int e = w->depth > 200 ? bad(w, NULL, "attributes nest too deeply") : 0;
    w->depth++;
    if (!e && is_sdy_text(a)) {
        nf_buf_add_str(&b, a->str);
        nf_buf_add_char(&b, 0);
        dialect = D_SDY;
    } else if (!e) {
        if (a->kind == HLO_ATTR_LOCATION)
            dialect = D_BUILTIN;
        e = encode_attr(w, &b, a, dialect);
    }
    w->depth--;
    if (!e)
        *ret = number(&w->attrs, dialect, nf_buf_str(&b));
    nf_buf_done(&b);
    return e;
}

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
        if (dialect != D_VHLO && !spec->required) {
            uint64_t n = 0;
            if (a && (e = attr_number(w, a, dialect, &n)))
                break;
            put_varint(o, a ? n << 1 | 1 : 0);
            continue;
        }
        if (p->part != VHLO_WHOLE)
            a = piece(w, a, p->part, &used);
        if (p->missing) {
            if (used)
                e = bad(w, op, "attribute %s is newer than version %u.%u.%u", p->name, w->version.major, w->version.minor, w->version.patch);
            continue;
        }
        if (!a)
            a = absent_value(w, op, spec);
        if (!a)
            return bad(w, op, "attribute %s is missing", p->name);
        if (spec->id == HLO_A_api_version && a->kind == HLO_ATTR_INT)
            a = hlo_attr_enum(m, HLO_ENUM_CUSTOM_CALL_API, a->i);
        e = put_attr(w, o, a, dialect);
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
        *e = attr_number(w, loc ? w->m->locs[loc] : &none, D_BUILTIN, &n);
        w->loc_numbers[loc] = n + 1;
    }
    return w->loc_numbers[loc] - 1;
}

static uint64_t op_number(struct bw *w, int dialect, const char *name)
{
    struct nf_buf b = NF_BUF_INIT;
    put_varint(&b, string_number(w, nf_str_c(name)));
    uint64_t n = number(&w->ops, dialect, nf_buf_str(&b));
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
    put_varint(o, op_number(w, D_BUILTIN, "unrealized_conversion_cast"));
    nf_buf_add_char(o, n ? 0x06 : 0);
    put_varint(o, loc_number(w, 0, &e));
    if (!n)
        return e;
    if (!e)
        e = put_types(w, o, n, types, to);
    put_varint(o, n);
    for (uint32_t i = 0; i < n; i++)
        put_varint(o, ids[i]);
    return e;
}

static int put_op(struct bw *w, struct nf_buf *o, const struct hlo_op *op, uint64_t inner_base)
{
    const struct hlo_op_info *info = hlo_op_info(op->id);
    struct vhlo_form f;
    char name[96];
    int dialect = op->id == HLO_OP_MODULE ? D_BUILTIN : info->dialect == HLO_DIALECT_SDY ? D_SDY : D_VHLO;
    int e = 0;
    if (w->depth > 200)
        return bad(w, op, "regions nest too deeply");
    if (dialect == D_VHLO) {
        if (op->id != HLO_OP_RETURN && !vhlo_form_for(op->id, w->version, &f)) {
            e = bad(w, op, info->dialect == HLO_DIALECT_STABLEHLO ? "is newer than version %u.%u.%u" : "has no portable form (version %u.%u.%u)",
                    w->version.major, w->version.minor, w->version.patch);
            if (info->dialect == HLO_DIALECT_CHLO)
                nf_error_hint(w->err, "expand it first: --passes=chlo-legalize");
            return e;
        }
        if (op->id == HLO_OP_RETURN)
            vhlo_form_for(HLO_OP_FUNC_RETURN, w->version, &f);
        if (f.one_operand && op->num_operands != 1)
            return bad(w, op, "takes one operand in version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
        if (f.no_regions && op->num_regions)
            return bad(w, op, "has no regions in version %u.%u.%u", w->version.major, w->version.minor, w->version.patch);
        nf_format(name, sizeof(name), "%s_v%u", info->mnemonic, f.version);
    } else {
        vhlo_form_plain(op->id, &f);
        nf_format(name, sizeof(name), "%s", info->mnemonic);
    }
    int type_dialect = dialect == D_SDY ? D_BUILTIN : D_VHLO;
    struct nf_buf props = NF_BUF_INIT;
    if ((e = put_properties(w, op, &f, dialect == D_SDY ? D_BUILTIN : dialect, &props)))
        goto out;
    unsigned mask = (op->num_dict ? 0x01u : 0) | (op->num_results ? 0x02u : 0) | (op->num_operands ? 0x04u : 0) |
                    (op->num_regions ? 0x10u : 0) | (f.num_props ? 0x40u : 0);
    put_varint(o, op_number(w, dialect, name));
    nf_buf_add_char(o, (char)mask);
    put_varint(o, loc_number(w, op->loc, &e));
    if (!e && op->num_dict) {
        struct nf_buf dict = NF_BUF_INIT;
        put_varint(&dict, BUILTIN_A_DICT);
        put_varint(&dict, op->num_dict);
        for (uint32_t i = 0; i < op->num_dict && !e; i++) {
            e = put_string(w, &dict, op->dict[i].name, D_BUILTIN);
            if (!e)
                e = put_attr(w, &dict, op->dict[i].attr, dialect == D_VHLO ? D_VHLO : D_BUILTIN);
        }
        put_varint(o, number(&w->attrs, D_BUILTIN, nf_buf_str(&dict)));
        nf_buf_done(&dict);
    }
    if (e)
        goto out;
    if (mask & 0x40)
        put_varint(o, number(&w->props, 0, nf_buf_str(&props)));
    if (op->num_results) {
        put_varint(o, op->num_results);
        for (uint32_t i = 0; i < op->num_results && !e; i++)
            e = put_type(w, o, op->results[i].type, type_dialect);
    }
    if (op->num_operands) {
        put_varint(o, op->num_operands);
        for (uint32_t i = 0; i < op->num_operands; i++)
            put_varint(o, w->value_numbers[op->operands[i].value->id]);
    }
    if (e || !op->num_regions)
        goto out;
    bool isolated = info->traits & HLO_T_ISOLATED;
    put_varint(o, (uint64_t)op->num_regions << 1 | isolated);
    w->depth++;
    if (isolated) {
        struct nf_buf body = NF_BUF_INIT;
        for (unsigned i = 0; i < op->num_regions && !e; i++)
            e = put_region(w, &body, op->regions[i], 0);
        nf_buf_add_char(o, 4);
        put_varint(o, body.len);
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
        e = put_cast(w, o, n, ids, types, D_BUILTIN);
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
        e = put_cast(w, o, r, ids, types, D_VHLO);
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
    put_varint(o, blocks);
    if (!blocks)
        return 0;
    put_varint(o, values);
    HLO_FOR_BLOCKS(b, r)
    {
        uint64_t ops = sdy_parent && b->num_args;
        HLO_FOR_OPS(op, b)
            ops += is_sdy(op) ? 1u + (op->num_operands > 0) + (op->num_results > 0) : 1;
        put_varint(o, ops << 1 | (b->num_args > 0));
        if (b->num_args) {
            put_varint(o, b->num_args);
            for (uint32_t i = 0; i < b->num_args && !e; i++) {
                uint64_t t = 0;
                uint32_t loc = w->debug_info && b->arg_locs ? b->arg_locs[i] : 0;
                e = type_number(w, b->args[i]->type, sdy_parent ? D_BUILTIN : D_VHLO, &t);
                put_varint(o, t << 1 | (loc != 0));
                if (loc && !e)
                    put_varint(o, loc_number(w, loc, &e));
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
            e = put_cast(w, o, b->num_args, ids, types, D_VHLO);
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
    put_varint(out, body->len);
    nf_buf_add(out, body->data, body->len);
}

static uint64_t size_at(const struct table *t, size_t i)
{
    uint64_t v;
    memcpy(&v, t->sizes.data + i * sizeof(v), sizeof(v));
    return v;
}

/* Runs of equal dialects: dialect, length, then what `item` writes for each. */
static void put_groups(struct nf_buf *o, const struct table *t, void (*item)(struct nf_buf *, const struct table *, size_t))
{
    for (size_t i = 0; i < t->n;) {
        size_t end = i;
        while (end < t->n && t->dialects.data[end] == t->dialects.data[i])
            end++;
        put_varint(o, (uint64_t)t->dialects.data[i]);
        put_varint(o, end - i);
        for (; i < end; i++)
            item(o, t, i);
    }
}

static void put_size(struct nf_buf *o, const struct table *t, size_t i)
{
    bool custom = t->dialects.data[i] != D_SDY;
    put_varint(o, size_at(t, i) << 1 | custom);
}

static void put_op_name(struct nf_buf *o, const struct table *t, size_t i)
{
    size_t at = 0;
    for (size_t k = 0; k < i; k++)
        at += size_at(t, k);
    uint64_t v = 0; /* the string's number, written as a varint: read it back, add the flag "registered" */
    const uint8_t *p = (const uint8_t *)t->bytes.data + at;
    unsigned n = (unsigned)size_at(t, i);
    for (unsigned k = 0; k < n; k++)
        v |= (uint64_t)p[k] << (8 * k);
    put_varint(o, (v >> n) << 1 | 1);
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
    struct table *tables[] = {&w.strings, &w.attrs, &w.types, &w.props, &w.ops};
    struct nf_buf ir = NF_BUF_INIT, body = NF_BUF_INIT;
    uint64_t dialect_strings[D_MAX];
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
    for (int i = 0; i < D_MAX; i++)
        dialect_strings[i] = string_number(&w, nf_str_c(dialect_names[i]));

    put_varint(&ir, 2); /* one block: one operation, no arguments */
    if ((e = put_op(&w, &ir, m->op, 0)))
        goto out;

    nf_buf_add_c(out, "ML\xEFR");
    put_varint(out, 6);
    nf_buf_addf(out, "StableHLO_v%u.%u.%u", w.version.major, w.version.minor, w.version.patch);
    nf_buf_add_char(out, 0);

    bool sdy = memchr(w.ops.dialects.data, D_SDY, w.ops.n) || (w.attrs.n && memchr(w.attrs.dialects.data, D_SDY, w.attrs.n));
    int dialects = sdy ? D_MAX : D_SDY;
    put_varint(&body, (uint64_t)dialects);
    for (int i = 0; i < dialects; i++)
        put_varint(&body, dialect_strings[i] << 1);
    put_varint(&body, w.ops.n);
    put_groups(&body, &w.ops, put_op_name);
    put_section(out, 1, &body);

    nf_buf_clear(&body);
    put_varint(&body, w.attrs.n);
    put_varint(&body, w.types.n);
    put_groups(&body, &w.attrs, put_size);
    put_groups(&body, &w.types, put_size);
    put_section(out, 3, &body);

    nf_buf_clear(&body);
    nf_buf_add_str(&body, nf_buf_str(&w.attrs.bytes));
    nf_buf_add_str(&body, nf_buf_str(&w.types.bytes));
    put_section(out, 2, &body);
    put_section(out, 4, &ir);

    nf_buf_clear(&body);
    put_varint(&body, 0);
    put_section(out, 6, &body);
    nf_buf_clear(&body);
    put_section(out, 5, &body);

    put_varint(&body, w.strings.n);
    for (size_t i = w.strings.n; i-- > 0;)
        put_varint(&body, size_at(&w.strings, i));
    nf_buf_add_str(&body, nf_buf_str(&w.strings.bytes));
    put_section(out, 0, &body);

    nf_buf_clear(&body);
    put_varint(&body, w.props.n);
    size_t at = 0;
    for (size_t i = 0; i < w.props.n; i++) {
        put_varint(&body, size_at(&w.props, i));
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
