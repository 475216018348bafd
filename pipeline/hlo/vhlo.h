/* vhlo.h: how the portable form (VHLO) of bytecode spells our operations; one description serves reader and writer.
 *
 * A portable operation is named mnemonic_vN and has a flat list of attributes in alphabetical order, every one present:
 * structures (dot dimensions, convolution dimensions, channels ...) are taken apart, defaults are written out. Private to
 * bytecode_*.c. Facts: StableHLO's compatibility document and its VHLO dialect, by way of decoded files. */
#ifndef NEFFD_PIPELINE_HLO_VHLO_H
#define NEFFD_PIPELINE_HLO_VHLO_H

#include "pipeline/hlo/ir.h"

/* Codes of attributes, types and builtin things in the bytecode; see vhlo.c for the names of enumerations. */
enum {
    VHLO_A_ARRAY = 1, VHLO_A_BOOL, VHLO_A_DIRECTION, VHLO_A_COMPARE_TYPE, VHLO_A_API_VERSION, VHLO_A_DICT, VHLO_A_FFT,
    VHLO_A_FLOAT, VHLO_A_INTEGER, VHLO_A_ALIAS, VHLO_A_PRECISION, VHLO_A_RNG_ALGORITHM, VHLO_A_DISTRIBUTION, VHLO_A_STRING,
    VHLO_A_TENSOR, VHLO_A_TRANSPOSE, VHLO_A_TYPE, VHLO_A_EXTENSIONS, VHLO_A_ACCURACY_MODE, VHLO_A_ACCURACY,
    VHLO_A_SUB_AXIS, VHLO_A_AXIS_REF, VHLO_A_MESH_AXES, VHLO_A_MESH_AXIS, VHLO_A_MESH,
};
enum {
    VHLO_T_BOOL = 0, VHLO_T_COMPLEX = 1, VHLO_T_FUNCTION = 8, VHLO_T_INDEX = 9, VHLO_T_TENSOR = 20, VHLO_T_TENSOR_ENCODED = 21,
    VHLO_T_TOKEN = 22, VHLO_T_TUPLE = 23, VHLO_T_QUANT = 24, VHLO_T_UNRANKED = 25, VHLO_T_WITNESS = 26, VHLO_T_QUANT_AXIS = 30,
    VHLO_T_NONE = 33, VHLO_T_BUFFER = 41, VHLO_T_FUTURE = 42, VHLO_T_MAX = 43,
};
enum {
    BUILTIN_A_ARRAY = 0, BUILTIN_A_DICT, BUILTIN_A_STRING, BUILTIN_A_STRING_TYPED, BUILTIN_A_SYMBOL, BUILTIN_A_SYMBOL_NESTED,
    BUILTIN_A_TYPE, BUILTIN_A_UNIT, BUILTIN_A_INTEGER, BUILTIN_A_FLOAT, BUILTIN_A_CALLSITE, BUILTIN_A_FILE, BUILTIN_A_FUSED,
    BUILTIN_A_FUSED_METADATA, BUILTIN_A_NAME, BUILTIN_A_UNKNOWN, BUILTIN_A_RESOURCE, BUILTIN_A_DENSE_ARRAY, BUILTIN_A_DENSE,
    BUILTIN_A_DENSE_STRING, BUILTIN_A_SPARSE, BUILTIN_A_DISTINCT, BUILTIN_A_FILE_RANGE,
};
enum {
    BUILTIN_T_INTEGER = 0, BUILTIN_T_INDEX, BUILTIN_T_FUNCTION, BUILTIN_T_BF16, BUILTIN_T_F16, BUILTIN_T_F32, BUILTIN_T_F64,
    BUILTIN_T_COMPLEX = 9, BUILTIN_T_NONE = 12, BUILTIN_T_TENSOR = 13, BUILTIN_T_TENSOR_ENCODED = 14, BUILTIN_T_TUPLE = 15,
    BUILTIN_T_UNRANKED = 18,
};

struct vhlo_version {
    unsigned major, minor, patch;
};
/* Newest that is known here. */
#define VHLO_CURRENT ((struct vhlo_version){1, 20, 0})
static inline bool vhlo_at_least(struct vhlo_version v, unsigned major, unsigned minor) { return v.major > major || (v.major == major && v.minor >= minor); }

/* Where one portable attribute comes from. part 0: the slot as a whole; else one of the pieces of a structure. */
enum vhlo_part {
    VHLO_WHOLE,
    VHLO_DOT_LHS_BATCHING, VHLO_DOT_RHS_BATCHING, VHLO_DOT_LHS_CONTRACTING, VHLO_DOT_RHS_CONTRACTING,
    VHLO_ALGO_ACCUMULATION, VHLO_ALGO_IMPRECISE, VHLO_ALGO_LHS_COUNT, VHLO_ALGO_LHS_PRECISION, VHLO_ALGO_PRIMITIVE,
    VHLO_ALGO_RHS_COUNT, VHLO_ALGO_RHS_PRECISION,
    VHLO_CONV_INPUT_BATCH, VHLO_CONV_INPUT_FEATURE, VHLO_CONV_INPUT_SPATIAL, VHLO_CONV_KERNEL_INPUT, VHLO_CONV_KERNEL_OUTPUT,
    VHLO_CONV_KERNEL_SPATIAL, VHLO_CONV_OUTPUT_BATCH, VHLO_CONV_OUTPUT_FEATURE, VHLO_CONV_OUTPUT_SPATIAL,
    VHLO_GATHER_OFFSET, VHLO_GATHER_COLLAPSED, VHLO_GATHER_OPERAND_BATCHING, VHLO_GATHER_INDICES_BATCHING, VHLO_GATHER_INDEX_MAP,
    VHLO_GATHER_VECTOR,
    VHLO_SCATTER_WINDOW, VHLO_SCATTER_INSERTED, VHLO_SCATTER_INPUT_BATCHING, VHLO_SCATTER_INDICES_BATCHING,
    VHLO_SCATTER_TO_OPERAND, VHLO_SCATTER_VECTOR,
    VHLO_CHANNEL_ID, VHLO_CHANNEL_TYPE,
    VHLO_IGNORED,               /* slot -1: of an old form, without a meaning today */
    VHLO_PART_MAX
};
struct vhlo_prop {
    const char *name;
    int slot;                   /* of the operation's row */
    enum vhlo_part part;
    bool missing;               /* this form lacks it */
};

#define VHLO_PROPS_MAX 24
struct vhlo_form {
    enum hlo_op_id op;
    unsigned version;           /* N of _vN */
    bool one_operand, no_regions;
    int num_props;
    struct vhlo_prop props[VHLO_PROPS_MAX]; /* alphabetical, missing ones included */
};

/* "add_v1"; false: there is no such operation. return_v1 gives HLO_OP_FUNC_RETURN (the reader looks at the parent). */
bool vhlo_form_find(struct nf_str name, struct vhlo_form *ret_form);
/* The form of `op` in files of that version; false: it has none there. */
bool vhlo_form_for(enum hlo_op_id op, struct vhlo_version v, struct vhlo_form *ret_form);
/* Attributes of a dialect that is kept as it is in mixed files (sdy, builtin.module): the row's slots, alphabetical. */
void vhlo_form_plain(enum hlo_op_id op, struct vhlo_form *ret_form);

/* Element kind of a type code without parameters, HLO_ELEM_MAX if it is none of those; and back, -1. */
enum hlo_elem vhlo_elem_of_code(unsigned code);
int vhlo_code_of_elem(enum hlo_elem e);
/* First version (1.minor or 0.minor as major*100+minor) that has the element kind. */
unsigned vhlo_elem_since(enum hlo_elem e);

/* Enumeration of a portable attribute code, HLO_ENUM_CLASS_MAX if it is none; and back, -1. */
enum hlo_enum_class vhlo_enum_of_code(unsigned code);
int vhlo_code_of_enum(enum hlo_enum_class c);

#endif
