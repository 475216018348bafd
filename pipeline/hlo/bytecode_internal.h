/* bytecode_internal.h: what the parts of the bytecode reader share.
 *   bytecode_read.c    container, sections, operations and regions
 *   bytecode_decode.c  types and attributes of the portable (VHLO) and builtin dialects
 *   bytecode_sdy.c     attributes of the sdy dialect in mixed files
 *   bytecode_props.c   attributes of operations: from the flat portable list to the slots of hlo_ops.def */
#ifndef NEFFD_PIPELINE_HLO_BYTECODE_INTERNAL_H
#define NEFFD_PIPELINE_HLO_BYTECODE_INTERNAL_H

#include "base/reader.h"
#include "pipeline/hlo/bytecode.h"
#include "pipeline/hlo/vhlo.h"

enum { SEC_STRING, SEC_DIALECT, SEC_ATTR_TYPE, SEC_OFFSETS, SEC_IR, SEC_RESOURCE, SEC_RESOURCE_OFFSETS, SEC_VERSIONS, SEC_PROPERTIES, SEC_MAX };

enum dialect { D_OTHER, D_BUILTIN, D_VHLO, D_SDY };

struct op_name {
    struct nf_str dialect, name;
};
struct entry {
    struct nf_str bytes;
    uint32_t dialect;
    bool custom, busy;
    union {
        const struct hlo_attr *attr;
        const struct hlo_type *type;
    };
};
struct scope {
    struct hlo_value **values;
    size_t len, cap;
};

struct bc {
    struct hlo_module *m;
    const struct hlo_limits *limits;
    struct nf_error *err;
    struct nf_str file;
    struct vhlo_version version;
    struct nf_str sections[SEC_MAX];
    bool have[SEC_MAX];
    struct nf_str *strings, *dialects, *props;
    struct op_name *op_names;
    struct entry *attrs, *types;
    size_t num_strings, num_dialects, num_props, num_op_names, num_attrs, num_types;
    uint64_t literal_bytes;
    unsigned depth;
};

/* Fails with location "byte N" of the file, N where `at` points. Returns code. */
int hlo__bc_fail(struct bc *b, const void *at, int code, const char *fmt, ...) NF_PRINTF(4, 5);

/* Readers of MLIR's numbers; failures are the reader's. */
uint64_t hlo__bc_varint(struct nf_reader *r);
int64_t hlo__bc_svarint(struct nf_reader *r);
size_t hlo__bc_count(struct nf_reader *r);      /* of things of which each takes a byte at least */
const char *hlo__bc_c_string(struct nf_reader *r, size_t *ret_len);
int hlo__bc_string_at(struct bc *b, uint64_t index, const void *at, struct nf_str *ret);

/* Number `index` of the tables, decoded once; `at` is where it is named. */
int hlo__bc_type_at(struct bc *b, uint64_t index, const void *at, const struct hlo_type **ret);
int hlo__bc_attr_at(struct bc *b, uint64_t index, const void *at, const struct hlo_attr **ret);
int hlo__bc_type_list(struct bc *b, struct nf_reader *r, uint32_t *ret_n, const struct hlo_type ***ret);

/* An attribute of the sdy dialect, as its spelling. */
int hlo__bc_sdy_attr(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret);

/* Fills the slots from the operation's property bytes. portable: the flat list of VHLO; else of another dialect. */
int hlo__bc_set_properties(struct bc *b, struct hlo_op *op, const struct vhlo_form *f, bool portable, struct nf_str bytes, const void *at);

#endif
