/* type.c: interning, properties and spelling of types. */
#include "pipeline/hlo/type.h"

#include "pipeline/hlo/hlo_internal.h"

#define MAX_TYPE_DEPTH 256

static const struct {
    const char *name;
    uint8_t len, bits, bytes;
    enum hlo_elem_class class;
    enum nf_dtype dtype;
} elems[HLO_ELEM_MAX] = {
#define X(id, name, bits, bytes, class) [HLO_ELEM_##id] = {name, sizeof(name) - 1, bits, bytes, HLO_CLASS_##class, NF_DT_NONE},
    HLO_ELEMS(X)
#undef X
};

static const enum nf_dtype dtypes[HLO_ELEM_MAX] = {
    [HLO_ELEM_I1] = NF_DT_PRED, [HLO_ELEM_I2] = NF_DT_S2, [HLO_ELEM_I4] = NF_DT_S4, [HLO_ELEM_I8] = NF_DT_S8,
    [HLO_ELEM_I16] = NF_DT_S16, [HLO_ELEM_I32] = NF_DT_S32, [HLO_ELEM_I64] = NF_DT_S64, [HLO_ELEM_UI2] = NF_DT_U2,
    [HLO_ELEM_UI4] = NF_DT_U4, [HLO_ELEM_UI8] = NF_DT_U8, [HLO_ELEM_UI16] = NF_DT_U16, [HLO_ELEM_UI32] = NF_DT_U32,
    [HLO_ELEM_UI64] = NF_DT_U64, [HLO_ELEM_F4E2M1FN] = NF_DT_F4E2M1FN, [HLO_ELEM_F6E2M3FN] = NF_DT_F6E2M3FN,
    [HLO_ELEM_F6E3M2FN] = NF_DT_F6E3M2FN, [HLO_ELEM_F8E3M4] = NF_DT_F8E3M4, [HLO_ELEM_F8E4M3] = NF_DT_F8E4M3,
    [HLO_ELEM_F8E4M3FN] = NF_DT_F8E4M3FN, [HLO_ELEM_F8E4M3FNUZ] = NF_DT_F8E4M3FNUZ, [HLO_ELEM_F8E4M3B11FNUZ] = NF_DT_F8E4M3B11,
    [HLO_ELEM_F8E5M2] = NF_DT_F8E5M2, [HLO_ELEM_F8E5M2FNUZ] = NF_DT_F8E5M2FNUZ, [HLO_ELEM_F8E8M0FNU] = NF_DT_F8E8M0FNU,
    [HLO_ELEM_BF16] = NF_DT_BF16, [HLO_ELEM_F16] = NF_DT_F16, [HLO_ELEM_F32] = NF_DT_F32, [HLO_ELEM_F64] = NF_DT_F64,
    [HLO_ELEM_TF32] = NF_DT_F32, [HLO_ELEM_C64] = NF_DT_C64, [HLO_ELEM_C128] = NF_DT_C128, [HLO_ELEM_INDEX] = NF_DT_S64,
};

const char *hlo_elem_name(enum hlo_elem e) { return elems[e].name; }
unsigned hlo_elem_bits(enum hlo_elem e) { return elems[e].bits; }
unsigned hlo_elem_bytes(enum hlo_elem e) { return elems[e].bytes; }
enum hlo_elem_class hlo_elem_class(enum hlo_elem e) { return elems[e].class; }
enum nf_dtype hlo_elem_dtype(enum hlo_elem e) { return dtypes[e]; }

bool hlo_elem_find(struct nf_str name, enum hlo_elem *ret_elem)
{
    for (int i = 0; i < HLO_ELEM_QUANT; i++)
        if (elems[i].len == name.len && memcmp(elems[i].name, name.data, name.len) == 0) {
            *ret_elem = (enum hlo_elem)i;
            return true;
        }
    return false;
}

enum hlo_elem hlo_elem_part(enum hlo_elem e)
{
    return e == HLO_ELEM_C64 ? HLO_ELEM_F32 : e == HLO_ELEM_C128 ? HLO_ELEM_F64 : e;
}

uint64_t hlo__mask_bits(enum hlo_elem e, uint64_t v)
{
    unsigned bits = elems[e].bits;
    return bits >= 64 ? v : v & (((uint64_t)1 << bits) - 1);
}

bool hlo__quant_eq(const struct hlo_quant *a, const struct hlo_quant *b)
{
    if (a == b)
        return true;
    if (!a || !b)
        return false;
    return a->storage == b->storage && a->expressed == b->expressed && a->per_axis == b->per_axis && a->axis == b->axis &&
           a->storage_min == b->storage_min && a->storage_max == b->storage_max && a->count == b->count &&
           memcmp(a->scales, b->scales, a->count * sizeof *a->scales) == 0 &&
           memcmp(a->zero_points, b->zero_points, a->count * sizeof *a->zero_points) == 0;
}

static bool ints_eq(const int64_t *a, const int64_t *b, size_t n)
{
    if (!a || !b)
        return a == b;
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

static bool type_eq(const struct hlo_type *a, const struct hlo_type *b)
{
    return a->kind == b->kind && a->elem == b->elem && a->rank == b->rank && a->num_types == b->num_types &&
           a->num_inputs == b->num_inputs && (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0) &&
           ints_eq(a->bounds, b->bounds, a->rank) && hlo__quant_eq(a->quant, b->quant) &&
           (a->num_types == 0 || memcmp(a->types, b->types, a->num_types * sizeof *a->types) == 0) && nf_str_eq(a->text, b->text) &&
           (a->encoding == b->encoding || (a->encoding && b->encoding && hlo_attr_eq(a->encoding, b->encoding)));
}

static uint32_t type_hash(const struct hlo_type *t)
{
    uint64_t h = (uint64_t)t->kind * 31 + t->elem * 131u + t->rank * 7u + t->num_types * 3u + t->num_inputs;
    for (uint32_t i = 0; i < t->rank; i++)
        h = (h ^ (uint64_t)t->dims[i]) * 0x9e3779b97f4a7c15u ^ (h >> 29);
    for (uint32_t i = 0; i < t->num_types; i++)
        h = (h ^ (uint64_t)t->types[i]->id) * 0x9e3779b97f4a7c15u ^ (h >> 29);
    if (t->text.len)
        h ^= nf_xxh3(t->text.data, t->text.len);
    if (t->quant)
        h = (h ^ nf_xxh3(t->quant->scales, t->quant->count * sizeof(double))) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h ^ (h >> 32));
}

static void types_grow(struct hlo_module *m)
{
    struct hlo_tables *tb = m->tables;
    uint32_t cap = tb->cap_types ? tb->cap_types * 2 : 64;
    const struct hlo_type **types = NF_NEW_ARRAY(m->arena, const struct hlo_type *, cap);
    uint32_t *hashes = NF_NEW_ARRAY(m->arena, uint32_t, cap);
    for (uint32_t i = 0; i < tb->cap_types; i++) {
        if (!tb->types[i])
            continue;
        uint32_t h = tb->type_hashes[i] & (cap - 1);
        while (types[h])
            h = (h + 1) & (cap - 1);
        types[h] = tb->types[i];
        hashes[h] = tb->type_hashes[i];
    }
    tb->types = types;
    tb->type_hashes = hashes;
    tb->cap_types = cap;
}

static const int64_t *copy_ints(struct hlo_module *m, const int64_t *v, size_t n)
{
    if (!v)
        return NULL;
    int64_t *c = nf_arena_alloc_raw(m->arena, n ? n * sizeof *c : 1);
    if (n)
        memcpy(c, v, n * sizeof *c);
    return c;
}

const struct hlo_type *hlo_type_intern(struct hlo_module *m, const struct hlo_type *wanted)
{
    struct hlo_tables *tb = m->tables;
    if ((tb->num_types + 1) * 2 > tb->cap_types)
        types_grow(m);
    uint32_t hash = type_hash(wanted), h = hash & (tb->cap_types - 1);
    for (; tb->types[h]; h = (h + 1) & (tb->cap_types - 1))
        if (tb->type_hashes[h] == hash && type_eq(tb->types[h], wanted))
            return tb->types[h];
    struct hlo_type *t = nf_arena_alloc_raw(m->arena, sizeof *t);
    *t = *wanted;
    t->id = tb->num_types++;
    t->dims = copy_ints(m, wanted->dims ? wanted->dims : (const int64_t[]){0}, t->rank);
    t->bounds = copy_ints(m, wanted->bounds, t->rank);
    if (t->num_types) {
        const struct hlo_type **types = nf_arena_alloc_raw(m->arena, t->num_types * sizeof *types);
        memcpy(types, wanted->types, t->num_types * sizeof *types);
        t->types = types;
    } else {
        static const struct hlo_type *const nothing[1];
        t->types = nothing; /* an offset of 0 may be taken of it */
    }
    if (t->text.len)
        t->text = nf_arena_str(m->arena, t->text);
    if (t->quant) {
        struct hlo_quant *q = nf_arena_alloc_raw(m->arena, sizeof *q);
        *q = *t->quant;
        double *scales = nf_arena_alloc_raw(m->arena, q->count * sizeof *scales);
        memcpy(scales, t->quant->scales, q->count * sizeof *scales);
        q->scales = scales;
        q->zero_points = copy_ints(m, t->quant->zero_points, q->count);
        t->quant = q;
    }
    t->is_static = t->kind != HLO_TYPE_UNRANKED && t->kind != HLO_TYPE_OPAQUE;
    for (uint32_t i = 0; i < t->rank; i++)
        t->is_static &= t->dims[i] != HLO_DYNAMIC;
    for (uint32_t i = 0; i < t->num_types; i++)
        t->is_static &= t->types[i]->is_static;
    tb->types[h] = t;
    tb->type_hashes[h] = hash;
    return t;
}

const struct hlo_type *hlo_type_tensor(struct hlo_module *m, enum hlo_elem e, uint32_t rank, const int64_t *dims)
{
    return hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_TENSOR, .elem = e, .rank = rank, .dims = dims});
}

const struct hlo_type *hlo_type_scalar(struct hlo_module *m, enum hlo_elem e)
{
    if (!m->tables->scalars[e])
        m->tables->scalars[e] = hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_SCALAR, .elem = e});
    return m->tables->scalars[e];
}

const struct hlo_type *hlo_type_token(struct hlo_module *m)
{
    if (!m->tables->token)
        m->tables->token = hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_TOKEN});
    return m->tables->token;
}

const struct hlo_type *hlo_type_none(struct hlo_module *m)
{
    if (!m->tables->none)
        m->tables->none = hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_NONE});
    return m->tables->none;
}

const struct hlo_type *hlo_type_tuple(struct hlo_module *m, uint32_t n, const struct hlo_type *const *types)
{
    return hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_TUPLE, .num_types = n, .types = types});
}

const struct hlo_type *hlo_type_future(struct hlo_module *m, uint32_t n, const struct hlo_type *const *types)
{
    return hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_FUTURE, .num_types = n, .types = types});
}

const struct hlo_type *hlo_type_function(struct hlo_module *m, uint32_t inputs, const struct hlo_type *const *in, uint32_t results,
                                         const struct hlo_type *const *out)
{
    const struct hlo_type **all = nf_arena_alloc_array(m->arena, (size_t)inputs + results + 1, sizeof *all);
    for (uint32_t i = 0; i < inputs; i++)
        all[i] = in[i];
    for (uint32_t i = 0; i < results; i++)
        all[inputs + i] = out[i];
    return hlo_type_intern(m, &(struct hlo_type){.kind = HLO_TYPE_FUNCTION, .num_types = inputs + results, .num_inputs = inputs, .types = all});
}

const struct hlo_type *hlo_type_with_shape(struct hlo_module *m, const struct hlo_type *t, uint32_t rank, const int64_t *dims)
{
    return hlo_type_intern(m, &(struct hlo_type){.kind = t->kind == HLO_TYPE_UNRANKED ? HLO_TYPE_TENSOR : t->kind, .elem = t->elem,
                                                 .rank = rank, .dims = dims, .quant = t->quant, .text = t->text});
}

const struct hlo_type *hlo_type_with_elem(struct hlo_module *m, const struct hlo_type *t, enum hlo_elem e)
{
    struct hlo_type n = *t;
    n.elem = e;
    if (e != HLO_ELEM_QUANT)
        n.quant = NULL;
    if (e != HLO_ELEM_OTHER)
        n.text = (struct nf_str){0};
    return hlo_type_intern(m, &n);
}

bool hlo_type_count(const struct hlo_type *t, uint64_t *ret_count)
{
    if (t->kind == HLO_TYPE_UNRANKED)
        return false;
    uint64_t n = 1;
    bool zero = false, over = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dims[i] == HLO_DYNAMIC || t->dims[i] < 0)
            return false;
        if (t->dims[i] == 0)
            zero = true;
        else
            over |= __builtin_mul_overflow(n, (uint64_t)t->dims[i], &n);
    }
    if (!zero && (over || n > INT64_MAX))
        return false;
    *ret_count = zero ? 0 : n;
    return true;
}

bool hlo_type_bytes(const struct hlo_type *t, uint64_t *ret_bytes)
{
    uint64_t n;
    unsigned each = elems[hlo_type_storage(t)].bytes;
    if (each == 0 || !hlo_type_count(t, &n) || __builtin_mul_overflow(n, (uint64_t)each, &n) || n > INT64_MAX)
        return false;
    *ret_bytes = n;
    return true;
}

/* ---- spelling ---- */

static void print_quant(const struct hlo_quant *q, struct nf_buf *out)
{
    nf_buf_add_c(out, "!quant.uniform<");
    const char *name = elems[q->storage].name;
    if (name[0] == 'u') /* unsigned storage: u8 */
        nf_buf_addf(out, "u%s", name + 2);
    else
        nf_buf_add_c(out, name);
    unsigned bits = elems[q->storage].bits;
    bool is_signed = elems[q->storage].class == HLO_CLASS_SINT;
    int64_t min = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    int64_t max = is_signed ? ((int64_t)1 << (bits - 1)) - 1 : (int64_t)(((uint64_t)1 << bits) - 1);
    if (q->storage_min != min || q->storage_max != max)
        nf_buf_addf(out, "<%lld:%lld>", (long long)q->storage_min, (long long)q->storage_max);
    nf_buf_add_char(out, ':');
    nf_buf_add_c(out, elems[q->expressed].name);
    if (q->per_axis)
        nf_buf_addf(out, ":%lld", (long long)q->axis);
    nf_buf_add_c(out, q->per_axis ? ", {" : ", ");
    for (size_t i = 0; i < q->count; i++) {
        if (i)
            nf_buf_add_c(out, ", ");
        uint64_t bits64;
        memcpy(&bits64, &q->scales[i], 8);
        hlo__print_float(HLO_ELEM_F64, bits64, out);
        if (q->zero_points[i]) {
            nf_buf_add_char(out, ':');
            hlo__print_i64(q->zero_points[i], out);
        }
    }
    nf_buf_add_c(out, q->per_axis ? "}>" : ">");
}

static void print_elem(const struct hlo_type *t, struct nf_buf *out)
{
    if (t->elem == HLO_ELEM_QUANT)
        print_quant(t->quant, out);
    else if (t->elem == HLO_ELEM_OTHER)
        nf_buf_add_str(out, t->text);
    else
        nf_buf_add(out, elems[t->elem].name, elems[t->elem].len);
}

static void print_at(const struct hlo_type *t, struct nf_buf *out, unsigned depth);

static void print_list(const struct hlo_type *const *types, uint32_t n, struct nf_buf *out, unsigned depth)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            nf_buf_add_c(out, ", ");
        print_at(types[i], out, depth + 1);
    }
}

static void print_bounds(const struct hlo_type *t, struct nf_buf *out)
{
    nf_buf_add_c(out, ", #stablehlo.bounds<");
    for (uint32_t i = 0; i < t->rank; i++) {
        if (i)
            nf_buf_add_c(out, ", ");
        if (t->bounds[i] == HLO_DYNAMIC)
            nf_buf_add_char(out, '?');
        else
            hlo__print_i64(t->bounds[i], out);
    }
    nf_buf_add_char(out, '>');
}

static void print_at(const struct hlo_type *t, struct nf_buf *out, unsigned depth)
{
    if (depth > MAX_TYPE_DEPTH) {
        nf_buf_add_c(out, "...");
        return;
    }
    switch (t->kind) {
    case HLO_TYPE_TENSOR:
    case HLO_TYPE_MEMREF:
        nf_buf_add_c(out, t->kind == HLO_TYPE_TENSOR ? "tensor<" : "memref<");
        for (uint32_t i = 0; i < t->rank; i++) {
            if (t->dims[i] == HLO_DYNAMIC)
                nf_buf_add_char(out, '?');
            else
                hlo__print_i64(t->dims[i], out);
            nf_buf_add_char(out, 'x');
        }
        print_elem(t, out);
        if (t->bounds)
            print_bounds(t, out);
        if (t->encoding) {
            nf_buf_add_c(out, ", ");
            hlo_attr_print(t->encoding, out);
        }
        nf_buf_add_char(out, '>');
        return;
    case HLO_TYPE_UNRANKED:
        nf_buf_add_c(out, "tensor<*x");
        print_elem(t, out);
        nf_buf_add_char(out, '>');
        return;
    case HLO_TYPE_SCALAR:
        print_elem(t, out);
        return;
    case HLO_TYPE_TOKEN:
        nf_buf_add_c(out, "!stablehlo.token");
        return;
    case HLO_TYPE_TUPLE:
        nf_buf_add_c(out, "tuple<");
        print_list(t->types, t->num_types, out, depth);
        nf_buf_add_char(out, '>');
        return;
    case HLO_TYPE_FUTURE:
        nf_buf_add_c(out, "!stablehlo.future<");
        print_list(t->types, t->num_types, out, depth);
        nf_buf_add_char(out, '>');
        return;
    case HLO_TYPE_FUNCTION: {
        uint32_t results = t->num_types - t->num_inputs;
        nf_buf_add_char(out, '(');
        print_list(t->types, t->num_inputs, out, depth);
        nf_buf_add_c(out, ") -> ");
        bool paren = results != 1 || t->types[t->num_inputs]->kind == HLO_TYPE_FUNCTION;
        if (paren)
            nf_buf_add_char(out, '(');
        print_list(t->types + t->num_inputs, results, out, depth);
        if (paren)
            nf_buf_add_char(out, ')');
        return;
    }
    case HLO_TYPE_NONE:
        nf_buf_add_c(out, "none");
        return;
    case HLO_TYPE_OPAQUE:
        nf_buf_add_str(out, t->text);
        return;
    case HLO_TYPE_KIND_MAX:
        break;
    }
}

void hlo_type_print(const struct hlo_type *t, struct nf_buf *out) { print_at(t, out, 0); }
