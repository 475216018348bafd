/* ops.h: what is known of each operation, from hlo_ops.def. */
#ifndef NEFFD_PIPELINE_HLO_OPS_H
#define NEFFD_PIPELINE_HLO_OPS_H

#include "base/error.h"
#include "base/str.h"

enum hlo_dialect { HLO_DIALECT_UNKNOWN, HLO_DIALECT_BUILTIN, HLO_DIALECT_FUNC, HLO_DIALECT_STABLEHLO, HLO_DIALECT_CHLO,
                   HLO_DIALECT_SDY, HLO_DIALECT_CHECK, HLO_DIALECT_INTERPRETER, HLO_DIALECT_ARITH, HLO_DIALECT_TENSOR, HLO_DIALECT_TEST, HLO_DIALECT_MAX };

/* HLO_OP_ADD, HLO_OP_CHLO_ERF, HLO_OP_FUNC, HLO_OP_CALL, HLO_OP_FUNC_RETURN, HLO_OP_RETURN (stablehlo), ... */
enum hlo_op_id {
#define OP(id, ...) HLO_OP_##id,
#include "pipeline/hlo/hlo_ops.def"
#undef OP
    HLO_OP_MAX
};

/* Names of inherent attributes: HLO_A_dimension, ... */
enum hlo_attr_name {
#define ATTR(name) HLO_A_##name,
#include "pipeline/hlo/hlo_attrs.def"
#undef ATTR
    HLO_A_MAX
};

/* What an attribute slot holds. */
enum hlo_attr_spec_kind {
    HLO_AK_I64,             /* 1 : i64 */
    HLO_AK_I32,             /* 1 : i32 */
    HLO_AK_F32,             /* 1.0 : f32 */
    HLO_AK_BOOL,
    HLO_AK_UNIT,
    HLO_AK_STR,
    HLO_AK_A64,             /* array<i64: ..>; old dense<..> : tensor<nxi64> is turned into it */
    HLO_AK_AB,              /* array<i1: ..> */
    HLO_AK_E64,             /* dense<..> : tensor<..xi64> */
    HLO_AK_ELEMENTS,        /* dense of any type */
    HLO_AK_DIRECTION,       /* the enumerations */
    HLO_AK_COMPARE_TYPE,
    HLO_AK_FFT,
    HLO_AK_TRANSPOSE,
    HLO_AK_RNG_ALGORITHM,
    HLO_AK_DISTRIBUTION,
    HLO_AK_PRECISIONS,      /* array of precision */
    HLO_AK_ACCURACY,
    HLO_AK_DOT,
    HLO_AK_CONV,
    HLO_AK_GATHER,
    HLO_AK_SCATTER,
    HLO_AK_RAGGED_DOT,
    HLO_AK_CHANNEL,
    HLO_AK_DOT_ALGORITHM,
    HLO_AK_ALIASES,         /* array of output_operand_alias */
    HLO_AK_GROUPS,          /* E64 of rank 2, or replica_group_mesh_axes */
    HLO_AK_SYMBOL,
    HLO_AK_SYMBOLS,         /* array of symbols */
    HLO_AK_DICT,
    HLO_AK_DICTS,           /* array of dictionaries (arg_attrs) */
    HLO_AK_LAYOUTS,         /* array of E(index) */
    HLO_AK_ARRAY,
    HLO_AK_TYPE,
    HLO_AK_ANY,             /* kept as it is */
    HLO_AK_MAX
};

struct hlo_attr_spec {
    const char *name;
    enum hlo_attr_name id;
    enum hlo_attr_spec_kind kind;
    bool required;
    /* What absent means, as text: "0", "false", "DEFAULT", "[]"; "ones", "zeros": a list as long as the operation wants;
     * "natural" (compare_type); NULL: absent is a value of its own. */
    const char *absent;
};

/* Traits (or'ed). */
enum {
    HLO_T_PURE = 1 << 0,            /* no side effects: may be dropped when unused, merged when equal */
    HLO_T_COMMUTATIVE = 1 << 1,
    HLO_T_ELEMENTWISE = 1 << 2,
    HLO_T_SAME_TYPE = 1 << 3,       /* operands and result: the same shape and element type, as far as both are known */
    HLO_T_SAME_SHAPE = 1 << 4,      /* operands and results: the same shape */
    HLO_T_SAME_ELEM = 1 << 5,
    HLO_T_TERMINATOR = 1 << 6,
    HLO_T_ISOLATED = 1 << 7,        /* regions see no value from outside */
    HLO_T_COLLECTIVE = 1 << 8,      /* talks to other devices: never moved, merged or dropped */
    HLO_T_DEPRECATED = 1 << 9,
    HLO_T_SYMBOL = 1 << 10,         /* defines a name in the module */
    HLO_T_SINGLE_BLOCK = 1 << 11,
    HLO_T_VARIADIC_RESULTS = 1 << 12,
    HLO_T_BROADCASTS = 1 << 13,     /* chlo.broadcast_* */
};

/* How the pretty form is spelled (text.c and print.c have one case each). */
enum hlo_form {
#define FORM(name) HLO_FORM_##name,
#include "pipeline/hlo/hlo_forms.def"
#undef FORM
    HLO_FORM_MAX
};

struct hlo_op;
struct hlo_type;
struct hlo_verifier;
/* Constraints beyond signature and traits; 0 or the code of an error that it has put into v. */
typedef int (*hlo_verify_fn)(struct hlo_verifier *v, const struct hlo_op *op);
/* Types of the results from operands, attributes and regions, checking what it needs on the way. */
typedef int (*hlo_infer_fn)(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);

struct hlo_op_info {
    enum hlo_dialect dialect;
    const char *name;               /* "stablehlo.add" */
    const char *mnemonic;           /* "add" */
    const char *operands, *results; /* signature: see hlo_ops.def */
    int min_operands, max_operands, min_results, max_results; /* from the signatures; max -1: any number */
    int regions;                    /* -1: any number */
    uint32_t traits;
    enum hlo_form form;
    hlo_verify_fn verify;           /* NULL: nothing beyond the signature and traits */
    hlo_infer_fn infer;             /* NULL: the types are given by the program */
    const struct hlo_attr_spec *attrs;
    int num_attrs;
    int tier;                       /* 0..3 of the project's tiers, -1 not StableHLO */
};

extern struct hlo_op_info hlo__op_infos[HLO_OP_MAX]; /* constant from main on */
static inline const struct hlo_op_info *hlo_op_info(enum hlo_op_id id) { return &hlo__op_infos[id]; }
/* "stablehlo.add" -> HLO_OP_ADD; HLO_OP_UNKNOWN if there is none. */
enum hlo_op_id hlo_op_find(struct nf_str name);
/* Slot of the attribute in the row, -1 if it has none. */
int hlo_op_slot(enum hlo_op_id id, enum hlo_attr_name name);
int hlo_op_slot_by_name(enum hlo_op_id id, struct nf_str name);
const char *hlo_attr_name_text(enum hlo_attr_name name);
const char *hlo_dialect_name(enum hlo_dialect d);

#endif
