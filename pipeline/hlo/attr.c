/* attr.c: making, comparing and looking into attributes. Spelling is in print_attr.c. */
#include "pipeline/hlo/attr.h"

#include "pipeline/hlo/hlo_internal.h"

#include <math.h>

#define MAX_ATTR_DEPTH 512

static const struct {
    const char *mnemonic;
    const char *values[8];
} enums[HLO_ENUM_CLASS_MAX] = {
#define X(id, mnemonic, ...) [HLO_ENUM_##id] = {mnemonic, {__VA_ARGS__}},
    HLO_ENUMS(X)
#undef X
};

const char *hlo_enum_name(enum hlo_enum_class c, int64_t value)
{
    return value >= 0 && value < 8 ? enums[c].values[value] : NULL;
}

const char *hlo_enum_mnemonic(enum hlo_enum_class c) { return enums[c].mnemonic; }

bool hlo_enum_find(enum hlo_enum_class c, struct nf_str name, int64_t *ret_value)
{
    for (int i = 0; i < 8 && enums[c].values[i]; i++)
        if (nf_str_eq_c(name, enums[c].values[i])) {
            *ret_value = i;
            return true;
        }
    return false;
}

/* A copy, or one that was made not long ago of the same bytes: lists and attributes repeat all over a program, and none is ever changed. */
static const void *shared_copy(struct hlo_module *m, const void *data, size_t bytes)
{
    struct hlo_recent own = {0}, *r = bytes <= 256 ? &m->tables->recent[nf_xxh3(data, bytes) % HLO_RECENT] : &own;
    if (!r->copy || r->bytes != bytes || memcmp(r->copy, data, bytes) != 0) {
        void *copy = nf_arena_alloc_raw(m->arena, bytes);
        memcpy(copy, data, bytes);
        *r = (struct hlo_recent){copy, bytes};
    }
    return r->copy;
}

const struct hlo_attr *hlo_attr_new(struct hlo_module *m, const struct hlo_attr *filled) { return shared_copy(m, filled, sizeof *filled); }

struct hlo_ints hlo_ints_copy(struct hlo_module *m, size_t n, const int64_t *v)
{
    static const int64_t nothing[1];
    return (struct hlo_ints){n, n ? shared_copy(m, v, n * sizeof *v) : nothing};
}

const struct hlo_attr *hlo_attr_unit(struct hlo_module *m)
{
    if (!m->tables->unit)
        m->tables->unit = hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_UNIT});
    return m->tables->unit;
}

const struct hlo_attr *hlo_attr_bool(struct hlo_module *m, bool b)
{
    if (!m->tables->bools[b])
        m->tables->bools[b] = hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_BOOL, .b = b});
    return m->tables->bools[b];
}

const struct hlo_attr *hlo_attr_int(struct hlo_module *m, enum hlo_elem e, int64_t v)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_INT, .type = hlo_type_scalar(m, e), .i = v});
}

const struct hlo_attr *hlo_attr_float_bits(struct hlo_module *m, enum hlo_elem e, uint64_t bits)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_FLOAT, .type = hlo_type_scalar(m, e), .bits = bits});
}

const struct hlo_attr *hlo_attr_float(struct hlo_module *m, enum hlo_elem e, double v)
{
    return hlo_attr_float_bits(m, e, hlo_float_encode(e, v));
}

static const struct hlo_attr *with_text(struct hlo_module *m, enum hlo_attr_kind kind, struct nf_str s)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = kind, .str = s.len ? nf_arena_str(m->arena, s) : (struct nf_str){"", 0}});
}

const struct hlo_attr *hlo_attr_string(struct hlo_module *m, struct nf_str s) { return with_text(m, HLO_ATTR_STRING, s); }
const struct hlo_attr *hlo_attr_symbol(struct hlo_module *m, struct nf_str s) { return with_text(m, HLO_ATTR_SYMBOL, s); }
const struct hlo_attr *hlo_attr_opaque(struct hlo_module *m, struct nf_str s) { return with_text(m, HLO_ATTR_OPAQUE, s); }

const struct hlo_attr *hlo_attr_type(struct hlo_module *m, const struct hlo_type *t)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_TYPE, .type = t});
}

const struct hlo_attr *hlo_attr_array(struct hlo_module *m, size_t n, const struct hlo_attr *const *v)
{
    static const struct hlo_attr *const nothing[1];
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_ARRAY, .array = {n, n ? shared_copy(m, v, n * sizeof *v) : nothing}});
}

static int named_cmp(const void *a, const void *b)
{
    return nf_str_cmp(((const struct hlo_named *)a)->name, ((const struct hlo_named *)b)->name);
}

const struct hlo_attr *hlo_attr_dict(struct hlo_module *m, size_t n, const struct hlo_named *v)
{
    struct hlo_named *c = nf_arena_alloc_array(m->arena, n + 1, sizeof *c);
    for (size_t i = 0; i < n; i++)
        c[i] = v[i];
    qsort(c, n, sizeof *c, named_cmp);
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_DICT, .dict = {n, c}});
}

const struct hlo_attr *hlo_attr_enum(struct hlo_module *m, enum hlo_enum_class c, int64_t value)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_ENUM, .enumeration = {c, value}});
}

const struct hlo_attr *hlo_attr_dense_array(struct hlo_module *m, enum hlo_elem e, size_t n, const int64_t *v)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_DENSE_ARRAY, .type = hlo_type_scalar(m, e), .ints = hlo_ints_copy(m, n, v)});
}

const struct hlo_attr *hlo_attr_i64s(struct hlo_module *m, size_t n, const int64_t *v)
{
    return hlo_attr_dense_array(m, HLO_ELEM_I64, n, v);
}

const struct hlo_attr *hlo_attr_bools(struct hlo_module *m, size_t n, const bool *v)
{
    int64_t *c = nf_arena_alloc_array(m->arena, n + 1, sizeof *c);
    for (size_t i = 0; i < n; i++)
        c[i] = v[i];
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_DENSE_ARRAY, .type = hlo_type_scalar(m, HLO_ELEM_I1), .ints = {n, c}});
}

/* True when all elements equal the first. Comparing the bytes with themselves one element further finds that fast. */
static bool all_equal(struct nf_str raw, size_t each)
{
    return raw.len <= each || memcmp(raw.data, raw.data + each, raw.len - each) == 0;
}

const struct hlo_attr *hlo_attr_dense(struct hlo_module *m, const struct hlo_type *tensor, struct nf_str raw, bool splat)
{
    size_t each = hlo_elem_bytes(hlo_type_storage(tensor));
    if (!splat && raw.len > 0 && each > 0 && all_equal(raw, each)) {
        splat = true;
        raw.len = each;
    }
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_DENSE, .type = tensor, .dense = {.raw = raw, .splat = splat}});
}

const struct hlo_attr *hlo_attr_dense_i64s(struct hlo_module *m, uint32_t rank, const int64_t *dims, const int64_t *v)
{
    const struct hlo_type *t = hlo_type_tensor(m, HLO_ELEM_I64, rank, dims);
    uint64_t n = 0;
    if (!hlo_type_count(t, &n))
        n = 0;
    struct hlo_ints c = hlo_ints_copy(m, (size_t)n, v);
    return hlo_attr_dense(m, t, nf_str_n(c.v, (size_t)n * 8), false);
}

#define COPY_ATTR(kind_, field, source)                                                                                    \
    return hlo_attr_new(m, &(struct hlo_attr){.kind = kind_, .field = shared_copy(m, source, sizeof *(source))})

const struct hlo_attr *hlo_attr_dot(struct hlo_module *m, const struct hlo_dot *d) { COPY_ATTR(HLO_ATTR_DOT, dot, d); }
const struct hlo_attr *hlo_attr_conv(struct hlo_module *m, const struct hlo_conv *c) { COPY_ATTR(HLO_ATTR_CONV, conv, c); }
const struct hlo_attr *hlo_attr_gather(struct hlo_module *m, const struct hlo_gather *g) { COPY_ATTR(HLO_ATTR_GATHER, gather, g); }
const struct hlo_attr *hlo_attr_scatter(struct hlo_module *m, const struct hlo_scatter *s) { COPY_ATTR(HLO_ATTR_SCATTER, scatter, s); }
const struct hlo_attr *hlo_attr_accuracy(struct hlo_module *m, const struct hlo_accuracy *s) { COPY_ATTR(HLO_ATTR_ACCURACY, accuracy, s); }
const struct hlo_attr *hlo_attr_loc(struct hlo_module *m, const struct hlo_loc *l) { COPY_ATTR(HLO_ATTR_LOCATION, loc, l); }

const struct hlo_attr *hlo_attr_channel(struct hlo_module *m, int64_t handle, int64_t type)
{
    return hlo_attr_new(m, &(struct hlo_attr){.kind = HLO_ATTR_CHANNEL, .channel = {handle, type}});
}

/* ---- comparing ---- */

static bool ints_eq(struct hlo_ints a, struct hlo_ints b) { return a.n == b.n && (a.n == 0 || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0); }

static bool dense_eq(const struct hlo_attr *a, const struct hlo_attr *b)
{
    if (a->dense.splat == b->dense.splat)
        return nf_str_eq(a->dense.raw, b->dense.raw);
    const struct hlo_dense *s = a->dense.splat ? &a->dense : &b->dense, *f = a->dense.splat ? &b->dense : &a->dense;
    return f->raw.len >= s->raw.len && s->raw.len && memcmp(f->raw.data, s->raw.data, s->raw.len) == 0 && all_equal(f->raw, s->raw.len);
}

static bool eq_at(const struct hlo_attr *a, const struct hlo_attr *b, unsigned depth);

static bool loc_eq(const struct hlo_loc *a, const struct hlo_loc *b, unsigned depth)
{
    if (a->kind != b->kind || !nf_str_eq(a->name, b->name) || a->line != b->line || a->col != b->col || a->end_line != b->end_line ||
        a->end_col != b->end_col || a->num_children != b->num_children)
        return false;
    for (uint32_t i = 0; i < a->num_children; i++)
        if (!eq_at(a->children[i], b->children[i], depth + 1))
            return false;
    return (!a->metadata && !b->metadata) || (a->metadata && b->metadata && eq_at(a->metadata, b->metadata, depth + 1));
}

static bool eq_at(const struct hlo_attr *a, const struct hlo_attr *b, unsigned depth)
{
    if (a == b)
        return true;
    if (!a || !b || depth > MAX_ATTR_DEPTH || a->kind != b->kind || a->type != b->type)
        return false;
    switch (a->kind) {
    case HLO_ATTR_UNIT:
    case HLO_ATTR_TYPE:
        return true;
    case HLO_ATTR_BOOL:
        return a->b == b->b;
    case HLO_ATTR_INT:
        return a->i == b->i;
    case HLO_ATTR_FLOAT:
        return a->bits == b->bits;
    case HLO_ATTR_STRING:
    case HLO_ATTR_SYMBOL:
    case HLO_ATTR_RESOURCE:
    case HLO_ATTR_OPAQUE:
        return nf_str_eq(a->str, b->str);
    case HLO_ATTR_ARRAY:
        if (a->array.n != b->array.n)
            return false;
        for (size_t i = 0; i < a->array.n; i++)
            if (!eq_at(a->array.v[i], b->array.v[i], depth + 1))
                return false;
        return true;
    case HLO_ATTR_DICT:
        if (a->dict.n != b->dict.n)
            return false;
        for (size_t i = 0; i < a->dict.n; i++)
            if (!nf_str_eq(a->dict.v[i].name, b->dict.v[i].name) || !eq_at(a->dict.v[i].attr, b->dict.v[i].attr, depth + 1))
                return false;
        return true;
    case HLO_ATTR_DENSE:
        return dense_eq(a, b);
    case HLO_ATTR_DENSE_ARRAY:
    case HLO_ATTR_BOUNDS:
        return ints_eq(a->ints, b->ints);
    case HLO_ATTR_ENUM:
        return a->enumeration.class == b->enumeration.class && a->enumeration.value == b->enumeration.value;
    case HLO_ATTR_DOT:
        return ints_eq(a->dot->lhs_batching, b->dot->lhs_batching) && ints_eq(a->dot->rhs_batching, b->dot->rhs_batching) &&
               ints_eq(a->dot->lhs_contracting, b->dot->lhs_contracting) && ints_eq(a->dot->rhs_contracting, b->dot->rhs_contracting);
    case HLO_ATTR_RAGGED_DOT: {
        const struct hlo_ragged_dot *x = a->ragged, *y = b->ragged;
        return ints_eq(x->lhs_batching, y->lhs_batching) && ints_eq(x->rhs_batching, y->rhs_batching) &&
               ints_eq(x->lhs_contracting, y->lhs_contracting) && ints_eq(x->rhs_contracting, y->rhs_contracting) &&
               ints_eq(x->lhs_ragged, y->lhs_ragged) && ints_eq(x->rhs_group, y->rhs_group);
    }
    case HLO_ATTR_CONV: {
        const struct hlo_conv *x = a->conv, *y = b->conv;
        return x->input_batch == y->input_batch && x->input_feature == y->input_feature && x->kernel_input_feature == y->kernel_input_feature &&
               x->kernel_output_feature == y->kernel_output_feature && x->output_batch == y->output_batch &&
               x->output_feature == y->output_feature && ints_eq(x->input_spatial, y->input_spatial) &&
               ints_eq(x->kernel_spatial, y->kernel_spatial) && ints_eq(x->output_spatial, y->output_spatial);
    }
    case HLO_ATTR_GATHER: {
        const struct hlo_gather *x = a->gather, *y = b->gather;
        return ints_eq(x->offset_dims, y->offset_dims) && ints_eq(x->collapsed_slice_dims, y->collapsed_slice_dims) &&
               ints_eq(x->operand_batching_dims, y->operand_batching_dims) &&
               ints_eq(x->start_indices_batching_dims, y->start_indices_batching_dims) &&
               ints_eq(x->start_index_map, y->start_index_map) && x->index_vector_dim == y->index_vector_dim;
    }
    case HLO_ATTR_SCATTER: {
        const struct hlo_scatter *x = a->scatter, *y = b->scatter;
        return ints_eq(x->update_window_dims, y->update_window_dims) && ints_eq(x->inserted_window_dims, y->inserted_window_dims) &&
               ints_eq(x->input_batching_dims, y->input_batching_dims) &&
               ints_eq(x->scatter_indices_batching_dims, y->scatter_indices_batching_dims) &&
               ints_eq(x->scatter_dims_to_operand_dims, y->scatter_dims_to_operand_dims) && x->index_vector_dim == y->index_vector_dim;
    }
    case HLO_ATTR_CHANNEL:
        return a->channel.handle == b->channel.handle && a->channel.type == b->channel.type;
    case HLO_ATTR_DOT_ALGORITHM: {
        const struct hlo_dot_algorithm *x = a->algorithm, *y = b->algorithm;
        return x->lhs_precision == y->lhs_precision && x->rhs_precision == y->rhs_precision && x->accumulation == y->accumulation &&
               x->lhs_components == y->lhs_components && x->rhs_components == y->rhs_components &&
               x->primitive_operations == y->primitive_operations && x->allow_imprecise == y->allow_imprecise;
    }
    case HLO_ATTR_ALIAS:
        return a->alias->operand_index == b->alias->operand_index && ints_eq(a->alias->output_tuple_indices, b->alias->output_tuple_indices) &&
               ints_eq(a->alias->operand_tuple_indices, b->alias->operand_tuple_indices);
    case HLO_ATTR_ACCURACY:
        return memcmp(&a->accuracy->absolute, &b->accuracy->absolute, 8) == 0 && memcmp(&a->accuracy->relative, &b->accuracy->relative, 8) == 0 &&
               a->accuracy->ulps == b->accuracy->ulps && a->accuracy->mode == b->accuracy->mode;
    case HLO_ATTR_MESH_AXES:
        return eq_at(a->mesh_axes.mesh, b->mesh_axes.mesh, depth + 1) && eq_at(a->mesh_axes.axes, b->mesh_axes.axes, depth + 1);
    case HLO_ATTR_LOCATION:
        return loc_eq(a->loc, b->loc, depth);
    case HLO_ATTR_KIND_MAX:
        break;
    }
    return false;
}

bool hlo_attr_eq(const struct hlo_attr *a, const struct hlo_attr *b) { return eq_at(a, b, 0); }

/* ---- looking in ---- */

int64_t hlo_attr_dense_int_at(const struct hlo_attr *a, size_t i)
{
    enum hlo_elem e = hlo_type_storage(a->type);
    size_t each = hlo_elem_bytes(e);
    const char *p = a->dense.raw.data + (a->dense.splat ? 0 : i * each);
    bool is_signed = hlo_elem_class(e) == HLO_CLASS_SINT || hlo_elem_class(e) == HLO_CLASS_INDEX;
    uint64_t v = 0;
    memcpy(&v, p, each); /* little-endian hosts only: see README, "hosts" */
    if (is_signed && each < 8) {
        unsigned shift = (unsigned)(64 - each * 8);
        return (int64_t)(v << shift) >> shift;
    }
    return (int64_t)v;
}

bool hlo_attr_dense_ints(const struct hlo_attr *a, size_t max, int64_t *ret_values, size_t *ret_n)
{
    if (!a || a->kind != HLO_ATTR_DENSE)
        return false;
    enum hlo_elem_class c = hlo_elem_class(a->type->elem);
    uint64_t n;
    if ((c != HLO_CLASS_BOOL && c != HLO_CLASS_SINT && c != HLO_CLASS_UINT && c != HLO_CLASS_INDEX) || !hlo_type_count(a->type, &n) || n > max)
        return false;
    for (size_t i = 0; i < n; i++)
        ret_values[i] = hlo_attr_dense_int_at(a, i);
    *ret_n = (size_t)n;
    return true;
}

const struct nf_digest *hlo_attr_digest(struct hlo_module *m, const struct hlo_attr *dense)
{
    if (!dense->dense.digest) {
        struct nf_digest *d = nf_arena_alloc_raw(m->arena, sizeof *d);
        *d = nf_digest_of(dense->dense.raw.data, dense->dense.raw.len);
        ((struct hlo_attr *)dense)->dense.digest = d; /* a cache: not part of the value */
    }
    return dense->dense.digest;
}

const struct hlo_attr *hlo_named_find(const struct hlo_named *v, size_t n, struct nf_str name)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = nf_str_cmp(v[mid].name, name);
        if (c == 0)
            return v[mid].attr;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

uint64_t hlo_float_encode(enum hlo_elem e, double v)
{
    if (e == HLO_ELEM_F64) {
        uint64_t u;
        memcpy(&u, &v, 8);
        return u;
    }
    if (e == HLO_ELEM_F32 || e == HLO_ELEM_TF32) {
        float f = (float)v;
        uint32_t u;
        memcpy(&u, &f, 4);
        return u;
    }
    return nf_small_from_double(hlo_elem_dtype(e), v);
}

double hlo_float_decode(enum hlo_elem e, uint64_t bits)
{
    if (e == HLO_ELEM_F64) {
        double d;
        memcpy(&d, &bits, 8);
        return d;
    }
    if (e == HLO_ELEM_F32 || e == HLO_ELEM_TF32) {
        uint32_t u = (uint32_t)bits;
        float f;
        memcpy(&f, &u, 4);
        return f;
    }
    return nf_small_to_double(hlo_elem_dtype(e), (uint16_t)bits);
}
