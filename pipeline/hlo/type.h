/* type.h: types of StableHLO values.
 *
 * Types are interned in their module: two types of one module are equal if and only if their pointers are, and they are
 * never changed. Between modules use hlo_type_text. A quantised element is HLO_ELEM_QUANT plus `quant`. */
#ifndef NEFFD_PIPELINE_HLO_TYPE_H
#define NEFFD_PIPELINE_HLO_TYPE_H

#include "base/dtype.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct hlo_attr;
struct hlo_module;

#define HLO_MAX_RANK 1024        /* what readers accept: rules compare lists of dimensions with each other */
#define HLO_DYNAMIC INT64_MIN /* a dimension or a bound that is not known */

/* Element kinds. Columns: enumerator, spelling, bits of the value, bytes of storage of one element, class. Sub-byte kinds
 * are stored one a byte (signed ones sign-extended, unsigned and floats zero-extended), i1 as 0 or 1, complex as the real
 * part followed by the imaginary one; all little-endian. */
#define HLO_ELEMS(X)                                                                                                       \
    X(I1,          "i1",             1,  1, BOOL)                                                                          \
    X(I2,          "i2",             2,  1, SINT)                                                                          \
    X(I4,          "i4",             4,  1, SINT)                                                                          \
    X(I8,          "i8",             8,  1, SINT)                                                                          \
    X(I16,         "i16",           16,  2, SINT)                                                                          \
    X(I32,         "i32",           32,  4, SINT)                                                                          \
    X(I64,         "i64",           64,  8, SINT)                                                                          \
    X(UI2,         "ui2",            2,  1, UINT)                                                                          \
    X(UI4,         "ui4",            4,  1, UINT)                                                                          \
    X(UI8,         "ui8",            8,  1, UINT)                                                                          \
    X(UI16,        "ui16",          16,  2, UINT)                                                                          \
    X(UI32,        "ui32",          32,  4, UINT)                                                                          \
    X(UI64,        "ui64",          64,  8, UINT)                                                                          \
    X(F4E2M1FN,    "f4E2M1FN",       4,  1, FLOAT)                                                                         \
    X(F6E2M3FN,    "f6E2M3FN",       6,  1, FLOAT)                                                                         \
    X(F6E3M2FN,    "f6E3M2FN",       6,  1, FLOAT)                                                                         \
    X(F8E3M4,      "f8E3M4",         8,  1, FLOAT)                                                                         \
    X(F8E4M3,      "f8E4M3",         8,  1, FLOAT)                                                                         \
    X(F8E4M3FN,    "f8E4M3FN",       8,  1, FLOAT)                                                                         \
    X(F8E4M3FNUZ,  "f8E4M3FNUZ",     8,  1, FLOAT)                                                                         \
    X(F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8, 1, FLOAT)                                                                         \
    X(F8E5M2,      "f8E5M2",         8,  1, FLOAT)                                                                         \
    X(F8E5M2FNUZ,  "f8E5M2FNUZ",     8,  1, FLOAT)                                                                         \
    X(F8E8M0FNU,   "f8E8M0FNU",      8,  1, FLOAT)                                                                         \
    X(BF16,        "bf16",          16,  2, FLOAT)                                                                         \
    X(F16,         "f16",           16,  2, FLOAT)                                                                         \
    X(F32,         "f32",           32,  4, FLOAT)                                                                         \
    X(F64,         "f64",           64,  8, FLOAT)                                                                         \
    X(TF32,        "tf32",          32,  4, FLOAT)   /* in dot algorithms only */                                          \
    X(C64,         "complex<f32>",  64,  8, COMPLEX)                                                                       \
    X(C128,        "complex<f64>", 128, 16, COMPLEX)                                                                       \
    X(INDEX,       "index",         64,  8, INDEX)                                                                         \
    X(QUANT,       "!quant",         0,  0, QUANT)   /* see struct hlo_quant */                                            \
    X(OTHER,       "other",          0,  0, OTHER)   /* an element outside StableHLO; its spelling is in `text` */

enum hlo_elem {
#define X(id, name, bits, bytes, class) HLO_ELEM_##id,
    HLO_ELEMS(X)
#undef X
    HLO_ELEM_MAX
};

enum hlo_elem_class {
    HLO_CLASS_BOOL,
    HLO_CLASS_SINT,
    HLO_CLASS_UINT,
    HLO_CLASS_FLOAT,
    HLO_CLASS_COMPLEX,
    HLO_CLASS_INDEX,
    HLO_CLASS_QUANT,
    HLO_CLASS_OTHER,
};

const char *hlo_elem_name(enum hlo_elem e);
unsigned hlo_elem_bits(enum hlo_elem e);
unsigned hlo_elem_bytes(enum hlo_elem e);                       /* of storage; 0 for QUANT and OTHER */
enum hlo_elem_class hlo_elem_class(enum hlo_elem e);
bool hlo_elem_find(struct nf_str name, enum hlo_elem *ret_elem); /* by spelling; complex<..> too */
/* C64 -> F32, C128 -> F64, others themselves. */
enum hlo_elem hlo_elem_part(enum hlo_elem e);
/* As arrays in memory: INDEX is i64, TF32 is f32; NF_DT_NONE for QUANT and OTHER. */
enum nf_dtype hlo_elem_dtype(enum hlo_elem e);

/* !quant.uniform<storage<min:max>:expressed[:axis], {scale:zero_point, ...}>; value = (stored - zero point) * scale. */
struct hlo_quant {
    enum hlo_elem storage, expressed;
    bool per_axis;
    int64_t axis;
    int64_t storage_min, storage_max;       /* the kind's own range when the text gave none */
    size_t count;                           /* of scales and zero points; 1 per tensor */
    const double *scales;
    const int64_t *zero_points;
};

enum hlo_type_kind {
    HLO_TYPE_TENSOR,    /* tensor<2x?xf32>: elem, rank, dims, bounds, encoding */
    HLO_TYPE_UNRANKED,  /* tensor<*xf32>: elem */
    HLO_TYPE_MEMREF,    /* memref<2xf32>: as tensor */
    HLO_TYPE_SCALAR,    /* f32: elem; an attribute's type, never a value's in a valid program */
    HLO_TYPE_TOKEN,     /* !stablehlo.token */
    HLO_TYPE_TUPLE,     /* tuple<...>: types */
    HLO_TYPE_FUTURE,    /* !stablehlo.future<...>: types */
    HLO_TYPE_FUNCTION,  /* (a, b) -> c: types are the inputs, then the results; num_inputs */
    HLO_TYPE_NONE,      /* none */
    HLO_TYPE_OPAQUE,    /* any other, kept as text */
    HLO_TYPE_KIND_MAX
};

struct hlo_type {
    enum hlo_type_kind kind;
    enum hlo_elem elem;
    uint32_t id;                            /* dense in the module, in order of first use */
    uint32_t rank;
    bool is_static;                         /* no dynamic dimension anywhere inside; false for UNRANKED and OPAQUE */
    const int64_t *dims;                    /* rank of them, HLO_DYNAMIC where unknown */
    const int64_t *bounds;                  /* rank of them, HLO_DYNAMIC where there is none; NULL without bounds */
    const struct hlo_quant *quant;
    const struct hlo_attr *encoding;        /* any other than bounds, or NULL */
    uint32_t num_types, num_inputs;
    const struct hlo_type *const *types;
    struct nf_str text;                     /* OPAQUE; element OTHER */
};

/* Constructors. dims and types are copied. Products of dimensions are not checked here: hlo_type_count does. */
const struct hlo_type *hlo_type_tensor(struct hlo_module *m, enum hlo_elem e, uint32_t rank, const int64_t *dims);
const struct hlo_type *hlo_type_scalar(struct hlo_module *m, enum hlo_elem e);
const struct hlo_type *hlo_type_token(struct hlo_module *m);
const struct hlo_type *hlo_type_none(struct hlo_module *m);
const struct hlo_type *hlo_type_tuple(struct hlo_module *m, uint32_t n, const struct hlo_type *const *types);
const struct hlo_type *hlo_type_future(struct hlo_module *m, uint32_t n, const struct hlo_type *const *types);
const struct hlo_type *hlo_type_function(struct hlo_module *m, uint32_t inputs, const struct hlo_type *const *in,
                                         uint32_t results, const struct hlo_type *const *out);
/* Anything: fill a struct hlo_type (id and is_static are ignored), pointers may be the caller's own. */
const struct hlo_type *hlo_type_intern(struct hlo_module *m, const struct hlo_type *wanted);
/* The same tensor, memref or unranked tensor with another shape or element (quantised: from->quant with elem QUANT). Bounds
 * and encoding are dropped by with_shape and kept by with_elem. */
const struct hlo_type *hlo_type_with_shape(struct hlo_module *m, const struct hlo_type *t, uint32_t rank, const int64_t *dims);
const struct hlo_type *hlo_type_with_elem(struct hlo_module *m, const struct hlo_type *t, enum hlo_elem e);

static inline bool hlo_type_is_tensor(const struct hlo_type *t) { return t->kind == HLO_TYPE_TENSOR; }
static inline bool hlo_type_is_quant(const struct hlo_type *t) { return t->kind <= HLO_TYPE_SCALAR && t->elem == HLO_ELEM_QUANT; }
/* Kind as which the elements are stored: the storage of a quantised one, else elem. */
static inline enum hlo_elem hlo_type_storage(const struct hlo_type *t) { return t->elem == HLO_ELEM_QUANT ? t->quant->storage : t->elem; }
/* Elements of a static tensor; false if a dimension is dynamic or the product does not fit in 63 bits. */
bool hlo_type_count(const struct hlo_type *t, uint64_t *ret_count);
/* Bytes of a static tensor in the storage above. */
bool hlo_type_bytes(const struct hlo_type *t, uint64_t *ret_bytes);
/* Appends the spelling, as StableHLO prints it. */
void hlo_type_print(const struct hlo_type *t, struct nf_buf *out);

#endif
