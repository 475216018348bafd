/* attr.h: attributes of operations, functions and types.
 *
 * Immutable, owned by the module's arena. Short ones that repeat are mostly one object, not always: compare with hlo_attr_eq. Make them
 * with the hlo_attr_* functions, read the fields directly after looking at `kind`. */
#ifndef NEFFD_PIPELINE_HLO_ATTR_H
#define NEFFD_PIPELINE_HLO_ATTR_H

#include "base/digest.h"
#include "pipeline/hlo/type.h"

enum hlo_attr_kind {
    HLO_ATTR_UNIT,
    HLO_ATTR_BOOL,          /* b */
    HLO_ATTR_INT,           /* i with type (scalar); ui64 as its bits */
    HLO_ATTR_FLOAT,         /* bits with type (scalar): the pattern in that kind, so that NaN payloads live */
    HLO_ATTR_STRING,        /* str: bytes, NUL allowed; type usually NULL */
    HLO_ATTR_TYPE,          /* type */
    HLO_ATTR_ARRAY,         /* array */
    HLO_ATTR_DICT,          /* dict, sorted by name */
    HLO_ATTR_SYMBOL,        /* str: @name without the sign; nested ones joined by "::" */
    HLO_ATTR_DENSE,         /* dense<..> : type (tensor): dense */
    HLO_ATTR_DENSE_ARRAY,   /* array<i64: ..>: type (scalar), ints (floats: their bits) */
    HLO_ATTR_ENUM,          /* enum_class, i */
    HLO_ATTR_DOT,           /* dot */
    HLO_ATTR_CONV,          /* conv */
    HLO_ATTR_GATHER,        /* gather */
    HLO_ATTR_SCATTER,       /* scatter */
    HLO_ATTR_RAGGED_DOT,    /* ragged */
    HLO_ATTR_CHANNEL,       /* channel */
    HLO_ATTR_DOT_ALGORITHM, /* algorithm */
    HLO_ATTR_ALIAS,         /* alias: output_operand_alias */
    HLO_ATTR_ACCURACY,      /* accuracy: result_accuracy */
    HLO_ATTR_MESH_AXES,     /* mesh_axes: replica_group_mesh_axes */
    HLO_ATTR_BOUNDS,        /* ints: #stablehlo.bounds, when it is not part of a type */
    HLO_ATTR_LOCATION,      /* loc */
    HLO_ATTR_RESOURCE,      /* dense_resource<str> : type whose data the file did not hold (elided) */
    HLO_ATTR_OPAQUE,        /* str: anything else as balanced text, white space outside strings reduced */
    HLO_ATTR_KIND_MAX
};

/* Enumerations: class, mnemonic in #stablehlo<mnemonic VALUE>, then the values in order of their numbers. */
#define HLO_ENUMS(X)                                                                                                       \
    X(DIRECTION,    "comparison_direction", "EQ", "NE", "GE", "GT", "LE", "LT")                                            \
    X(COMPARE_TYPE, "comparison_type",      "NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")                         \
    X(PRECISION,    "precision",            "DEFAULT", "HIGH", "HIGHEST")                                                  \
    X(FFT,          "fft_type",             "FFT", "IFFT", "RFFT", "IRFFT")                                                \
    X(TRANSPOSE,    "transpose",            "TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")                   \
    X(RNG_ALGORITHM, "rng_algorithm",       "DEFAULT", "THREE_FRY", "PHILOX")                                              \
    X(DISTRIBUTION, "rng_distribution",     "INVALID", "UNIFORM", "NORMAL")                                                \
    X(ACCURACY,     "result_accuracy_mode", "DEFAULT", "HIGHEST", "TOLERANCE")                                             \
    X(CUSTOM_CALL_API, "custom_call_api_version", "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL",                       \
      "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI")

enum hlo_enum_class {
#define X(id, mnemonic, ...) HLO_ENUM_##id,
    HLO_ENUMS(X)
#undef X
    HLO_ENUM_CLASS_MAX
};
enum hlo_direction { HLO_EQ, HLO_NE, HLO_GE, HLO_GT, HLO_LE, HLO_LT };
enum hlo_compare_type { HLO_COMPARE_NOTYPE, HLO_COMPARE_FLOAT, HLO_COMPARE_TOTALORDER, HLO_COMPARE_SIGNED, HLO_COMPARE_UNSIGNED };
enum hlo_precision { HLO_PRECISION_DEFAULT, HLO_PRECISION_HIGH, HLO_PRECISION_HIGHEST };
enum hlo_fft { HLO_FFT, HLO_IFFT, HLO_RFFT, HLO_IRFFT };
enum hlo_transpose { HLO_TRANSPOSE_INVALID, HLO_NO_TRANSPOSE, HLO_TRANSPOSE, HLO_ADJOINT };
enum hlo_rng_algorithm { HLO_RNG_DEFAULT, HLO_RNG_THREE_FRY, HLO_RNG_PHILOX };
enum hlo_rng_distribution { HLO_RNG_INVALID, HLO_RNG_UNIFORM, HLO_RNG_NORMAL };
enum hlo_accuracy_mode { HLO_ACCURACY_DEFAULT, HLO_ACCURACY_HIGHEST, HLO_ACCURACY_TOLERANCE };

const char *hlo_enum_name(enum hlo_enum_class c, int64_t value);             /* NULL if there is no such value */
const char *hlo_enum_mnemonic(enum hlo_enum_class c);
bool hlo_enum_find(enum hlo_enum_class c, struct nf_str name, int64_t *ret_value);

struct hlo_ints {
    size_t n;
    const int64_t *v;
};

struct hlo_named {          /* an entry of a dictionary */
    struct nf_str name;
    const struct hlo_attr *attr;
};

/* Elements row-major, little-endian, in the storage of type.h. A splat holds exactly one element, whatever the shape. */
struct hlo_dense {
    struct nf_str raw;
    bool splat;
    struct nf_digest *digest; /* of the full raw bytes, computed on demand by hlo_attr_digest; else NULL */
};

struct hlo_dot {
    struct hlo_ints lhs_batching, rhs_batching, lhs_contracting, rhs_contracting;
};
struct hlo_ragged_dot {
    struct hlo_ints lhs_batching, rhs_batching, lhs_contracting, rhs_contracting, lhs_ragged, rhs_group;
};
struct hlo_conv {
    int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
    struct hlo_ints input_spatial, kernel_spatial, output_spatial;
};
struct hlo_gather {
    struct hlo_ints offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims, start_index_map;
    int64_t index_vector_dim;
};
struct hlo_scatter {
    struct hlo_ints update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
        scatter_dims_to_operand_dims;
    int64_t index_vector_dim;
};
struct hlo_channel {
    int64_t handle, type;   /* type: 0 invalid, 1 device to device, 2 device to host, 3 host to device */
};
struct hlo_dot_algorithm {
    const struct hlo_type *lhs_precision, *rhs_precision, *accumulation; /* scalars */
    int64_t lhs_components, rhs_components, primitive_operations;
    bool allow_imprecise;
};
struct hlo_alias {
    struct hlo_ints output_tuple_indices, operand_tuple_indices;
    int64_t operand_index;
};
struct hlo_accuracy {
    double absolute, relative;  /* atol, rtol */
    int64_t ulps;
    enum hlo_accuracy_mode mode;
};
struct hlo_mesh_axes {
    const struct hlo_attr *mesh;        /* symbol or an opaque mesh */
    const struct hlo_attr *axes;        /* array of opaque axis references */
};

enum hlo_loc_kind { HLO_LOC_UNKNOWN, HLO_LOC_FILE, HLO_LOC_NAME, HLO_LOC_CALLSITE, HLO_LOC_FUSED };
struct hlo_loc {
    enum hlo_loc_kind kind;
    struct nf_str name;                 /* FILE: path; NAME */
    uint32_t line, col, end_line, end_col; /* FILE; ends are 0 when there is no range */
    uint32_t num_children;              /* NAME 0 or 1; CALLSITE callee, caller; FUSED any */
    const struct hlo_attr *const *children;
    const struct hlo_attr *metadata;    /* FUSED, or NULL */
};

struct hlo_attr {
    enum hlo_attr_kind kind;
    const struct hlo_type *type;        /* as said above; else NULL */
    union {
        bool b;
        int64_t i;
        uint64_t bits;
        struct nf_str str;
        struct {
            enum hlo_enum_class class;
            int64_t value;
        } enumeration;
        struct {
            size_t n;
            const struct hlo_attr *const *v;
        } array;
        struct {
            size_t n;
            const struct hlo_named *v;
        } dict;
        struct hlo_ints ints;
        struct hlo_dense dense;
        const struct hlo_dot *dot;
        const struct hlo_ragged_dot *ragged;
        const struct hlo_conv *conv;
        const struct hlo_gather *gather;
        const struct hlo_scatter *scatter;
        struct hlo_channel channel;
        const struct hlo_dot_algorithm *algorithm;
        const struct hlo_alias *alias;
        const struct hlo_accuracy *accuracy;
        struct hlo_mesh_axes mesh_axes;
        const struct hlo_loc *loc;
    };
};

/* Constructors: bytes, lists and structures are copied into the arena, except where said. */
const struct hlo_attr *hlo_attr_unit(struct hlo_module *m);
const struct hlo_attr *hlo_attr_bool(struct hlo_module *m, bool b);
const struct hlo_attr *hlo_attr_int(struct hlo_module *m, enum hlo_elem e, int64_t v);   /* 7 : i64 is (m, HLO_ELEM_I64, 7) */
const struct hlo_attr *hlo_attr_float(struct hlo_module *m, enum hlo_elem e, double v);  /* rounds to nearest even */
const struct hlo_attr *hlo_attr_float_bits(struct hlo_module *m, enum hlo_elem e, uint64_t bits);
const struct hlo_attr *hlo_attr_string(struct hlo_module *m, struct nf_str s);
const struct hlo_attr *hlo_attr_type(struct hlo_module *m, const struct hlo_type *t);
const struct hlo_attr *hlo_attr_symbol(struct hlo_module *m, struct nf_str name);
const struct hlo_attr *hlo_attr_array(struct hlo_module *m, size_t n, const struct hlo_attr *const *v);
const struct hlo_attr *hlo_attr_dict(struct hlo_module *m, size_t n, const struct hlo_named *v); /* sorts; names must differ */
const struct hlo_attr *hlo_attr_enum(struct hlo_module *m, enum hlo_enum_class c, int64_t value);
const struct hlo_attr *hlo_attr_i64s(struct hlo_module *m, size_t n, const int64_t *v);  /* array<i64: ..> */
const struct hlo_attr *hlo_attr_bools(struct hlo_module *m, size_t n, const bool *v);    /* array<i1: ..> */
const struct hlo_attr *hlo_attr_dense_array(struct hlo_module *m, enum hlo_elem e, size_t n, const int64_t *v);
/* `raw` is borrowed: it must live as long as the arena; of one element or all (the storage of type.h); n elements that are
 * equal byte for byte become a splat. */
const struct hlo_attr *hlo_attr_dense(struct hlo_module *m, const struct hlo_type *tensor, struct nf_str raw, bool splat);
const struct hlo_attr *hlo_attr_dense_i64s(struct hlo_module *m, uint32_t rank, const int64_t *dims, const int64_t *v); /* tensor<..xi64> */
const struct hlo_attr *hlo_attr_opaque(struct hlo_module *m, struct nf_str text);
/* For the structure kinds: a shallow copy of *filled; what it points to must live as long as the arena. */
const struct hlo_attr *hlo_attr_new(struct hlo_module *m, const struct hlo_attr *filled);
/* Copies of structures for the above. */
const struct hlo_attr *hlo_attr_dot(struct hlo_module *m, const struct hlo_dot *d);
const struct hlo_attr *hlo_attr_conv(struct hlo_module *m, const struct hlo_conv *c);
const struct hlo_attr *hlo_attr_gather(struct hlo_module *m, const struct hlo_gather *g);
const struct hlo_attr *hlo_attr_scatter(struct hlo_module *m, const struct hlo_scatter *s);
const struct hlo_attr *hlo_attr_channel(struct hlo_module *m, int64_t handle, int64_t type);
const struct hlo_attr *hlo_attr_accuracy(struct hlo_module *m, const struct hlo_accuracy *a);
const struct hlo_attr *hlo_attr_loc(struct hlo_module *m, const struct hlo_loc *l);
struct hlo_ints hlo_ints_copy(struct hlo_module *m, size_t n, const int64_t *v);

/* Structural equality; dense by type and bytes (a splat equals its full spelling). Bounded recursion. */
bool hlo_attr_eq(const struct hlo_attr *a, const struct hlo_attr *b);
/* Elements of a dense attribute as 64-bit integers (integers, bool, index; floats are refused): false if it is not one, or
 * has more than max. Writes *ret_n of them. */
bool hlo_attr_dense_ints(const struct hlo_attr *a, size_t max, int64_t *ret_values, size_t *ret_n);
/* The value of element i (row-major) of an integer dense attribute. */
int64_t hlo_attr_dense_int_at(const struct hlo_attr *a, size_t i);
/* SHA-256 over the stored bytes (of a splat: its one element), kept in the attribute. */
const struct nf_digest *hlo_attr_digest(struct hlo_module *m, const struct hlo_attr *dense);
/* Looks `name` up in a sorted dictionary; NULL if absent. */
const struct hlo_attr *hlo_named_find(const struct hlo_named *v, size_t n, struct nf_str name);
/* Appends the spelling, as StableHLO prints it in an attribute dictionary. */
void hlo_attr_print(const struct hlo_attr *a, struct nf_buf *out);

/* Soft conversion between double and the bit pattern of any float kind: nearest even, overflow as the kind defines. */
uint64_t hlo_float_encode(enum hlo_elem e, double v);
double hlo_float_decode(enum hlo_elem e, uint64_t bits);

#endif
