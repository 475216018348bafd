/* hlo_proto_internal.h: shared by hlo_proto_read.c (computations, calls, regions) and hlo_proto_attrs.c (shapes, constants,
 * attributes of instructions). */
#ifndef NEFFD_PIPELINE_HLO_HLO_PROTO_INTERNAL_H
#define NEFFD_PIPELINE_HLO_HLO_PROTO_INTERNAL_H

#include "pipeline/hlo/hlo_proto.h"
#include "pipeline/hlo/hlo_proto_fields.h"
#include "pipeline/hlo/pb.h"

/* One HloInstructionProto: the parts that every one has, and the message for the rest. */
struct hp_inst {
    int64_t id;
    struct nf_str name, opcode, shape, message;
    size_t num_operands, num_called;
    int64_t *operands, *called;
    /* what it stands for, as a list of arrays: one value, or the leaves of its tuple */
    struct hlo_value **leaves;
    uint32_t num_leaves;
    /* of what goes on until another instruction ends it: that one's opcode, whether it came, and the operation; else NULL */
    const char *done;
    bool ended;
    struct hlo_op *op;
};
struct hp_comp {
    int64_t id, root;
    struct nf_str name, message;
    size_t num_insts;
    struct nf_str symbol;   /* of the function that it has become, or empty */
};

struct hp {
    struct hlo_module *m;
    const struct hlo_limits *limits;
    struct nf_error *err;
    struct nf_str bytes;
    struct hp_comp *comps;  /* sorted by id */
    size_t num_comps;
    int64_t entry;
    uint64_t literal_bytes;
    unsigned depth;
};

/* Algorithm of PrecisionConfig: its number for a dot algorithm (0: XLA has none), and the other way (false: no such number). */
unsigned hp_algorithm_of(const struct hlo_dot_algorithm *a);
bool hp_algorithm(struct hlo_module *m, uint64_t number, struct hlo_dot_algorithm *ret);

int hp_fail(struct hp *p, const struct hp_inst *i, int code, const char *fmt, ...) NF_PRINTF(4, 5);
int hp_cut(struct hp *p, const void *at, const char *what);     /* "byte N: WHAT is cut" */

/* Element kind of a PrimitiveType, HLO_ELEM_MAX if it has none; and back, 0. */
enum hlo_elem hp_elem_of(uint64_t primitive);
unsigned hp_primitive_of(enum hlo_elem e);

unsigned hp_literal_field(enum hlo_elem e);                      /* of LiteralProto */

/* All numbers of a repeated integer field, packed or not. NULL with *ret_n 0 when there are none. */
int64_t *hp_ints(struct hp *p, struct nf_str message, uint32_t num, size_t *ret_n);

/* Types of the leaves of a ShapeProto, in order, appended to list (cap of them at most). */
int hp_shape_leaves(struct hp *p, const struct hp_inst *i, struct nf_str shape, const struct hlo_type **list, uint32_t cap, uint32_t *n);
int hp_literal(struct hp *p, const struct hp_inst *i, const struct hlo_type *type, const struct hlo_attr **ret);
/* Attributes of the operation from the fields of the instruction, including sharding and frontend attributes. */
int hp_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op);
void hp_decorate(struct hp *p, const struct hp_inst *i, struct hlo_op *op);
/* Of send and recv: all that their first instruction says, but its sharding, which is that of more than the results. */
int hp_transfer_attributes(struct hp *p, const struct hp_inst *i, struct hlo_op *op);
/* mhlo.sharding and mhlo.frontend_attributes, as far as the instruction has them: how many. */
size_t hp_decoration(struct hp *p, const struct hp_inst *i, struct hlo_named out[2]);
/* A map of strings as a dictionary, without entries whose key starts with `without` (unless that is empty); NULL if it has no others. */
const struct hlo_attr *hp_frontend(struct hp *p, struct nf_str map, struct nf_str without);

/* Meshes, manual computations and the number of devices, after the functions (hlo_proto_devices.c). */
void hp_devices(struct hp *p);

/* The inverse of hp_attributes: fields of the instruction, appended to o. NF_EUNSUPPORTED by name. */
int hp_put_attributes(struct hlo_module *m, const struct hlo_op *op, struct nf_buf *o, struct nf_error *err);
/* Of both instructions of a send or recv, `done`: of the second. */
int hp_put_transfer(struct hlo_module *m, const struct hlo_op *op, bool done, struct nf_buf *o, struct nf_error *err);
#define HP_PAIRS "_xla_send_recv_source_target_pairs" /* the frontend attribute that has the pairs of send and recv: {{0,1},{1,2}} */

/* What an instruction says beside its meaning: sharding and frontend attributes. Any may be NULL. Shardy's attributes become frontend
 * attributes, as Shardy itself exports them. */
struct hp_decor {
    const struct hlo_attr *sharding, *frontend;     /* mhlo.sharding, mhlo.frontend_attributes */
    const struct hlo_attr *sdy, *rule;              /* sdy.sharding, sdy.sharding_rule */
    struct hlo_module *module;                      /* sdy also becomes the sharding message, by this module's meshes; NULL: it does not */
    bool per_value;                                 /* sdy is #sdy.sharding where #sdy.sharding_per_value is wanted */
    struct hlo_named more[4];                       /* further strings or attributes to print, up to the first without a name */
};
bool hp_put_decor(const struct hp_decor *d, struct nf_buf *o);                          /* of an instruction; false: a sharding that cannot be read */
bool hp_put_decor_at(const struct hp_decor *d, uint32_t frontend, struct nf_buf *o);    /* frontend attributes in that field */
/* hlo_proto_sharding.c: the sharding message for mhlo.sharding (a string: the message, or "{devices=[..]..}"), else for #sdy.sharding<@mesh, ..> by
 * the module's meshes (NULL: not). *ret_any: there is one. False: a string that cannot be read. */
bool hp_sharding(struct hlo_module *m, const struct hlo_attr *sharding, const struct hlo_attr *sdy, struct nf_buf *message, bool *ret_any);
/* Of a function's results, where all have one: the field of its root tuple. False: a string that cannot be read. */
bool hp_result_shardings(struct hlo_module *m, const struct hlo_op *func, struct nf_buf *o);
/* The messages of a tuple's elements, `max` at most; how many there are, up to max + 1. */
size_t hp_tuple_shardings(struct nf_str message, size_t max, struct nf_str *ret);

#endif
