/* hlo_proto.h: HloModuleProto, XLA's own form of a program, which neuronx-cc --framework XLA and libneuronxla use.
 *
 * Import: computations that are called become private functions, bodies of reductions and loops become regions, tuples vanish
 * (every value is one array; a loop over a tuple is a loop over its leaves). What has no StableHLO counterpart is refused by
 * name, never dropped; hlo_proto_digest still gives such a module a key. Field numbers: hlo_proto_fields.h.
 * Parameter and result names of the entry stay as `neffd.name` of arguments and results, since a NEFF exposes them. */
#ifndef NEFFD_PIPELINE_HLO_HLO_PROTO_H
#define NEFFD_PIPELINE_HLO_HLO_PROTO_H

#include "pipeline/hlo/hlo.h"

/* The bytes are borrowed: constants are views of them. *err has location "byte N" or the instruction's name. NF_EGRAPH, NF_ELIMIT,
 * NF_EUNSUPPORTED. limits NULL: the default. The module is not verified. */
int hlo_proto_read(struct nf_str bytes, const struct hlo_limits *limits, struct nf_arena *arena, struct hlo_module **ret_module,
                   struct nf_error *err);

/* A serialised HloModuleProto, as XLA itself writes it: composites are calls that say so; what Shardy adds (meshes, constraints, manual
 * computations, sdy.sharding) stands in custom calls and frontend attributes, and of arguments, results and constraints as a sharding of
 * devices too. Dynamic shapes without bounds, CHLO beyond erf and top_k (--passes=chlo), quantised types, collective_reduce and futures that
 * no async_done ends are NF_EUNSUPPORTED by name; other attributes that HLO has no field for are left out, as XLA leaves them out. */
int hlo_proto_write(struct hlo_module *m, struct nf_buf *out, struct nf_error *err);

/* Digest of the module's meaning, for modules that cannot be imported: ids are made dense in order of use; names of the module, of
 * computations and instructions inside, metadata, stack frames and the schedule do not count; everything else does, also fields
 * that are unknown here. Entry parameter and result names count. NF_EGRAPH when it is cut. */
int hlo_proto_digest(struct nf_str bytes, struct nf_digest *ret_digest, struct nf_error *err);

#endif
