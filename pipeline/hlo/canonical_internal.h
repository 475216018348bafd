/* canonical_internal.h: what passes share with the canonical form. */
#ifndef NEFFD_PIPELINE_HLO_CANONICAL_INTERNAL_H
#define NEFFD_PIPELINE_HLO_CANONICAL_INTERNAL_H

#include "pipeline/hlo/ir.h"

/* Operations without regions: the same kind, operands, attributes and result types. */
bool hlo__op_equal(const struct hlo_op *a, const struct hlo_op *b);
uint64_t hlo__op_hash(const struct hlo_op *op);
void hlo__number_values(struct hlo_module *m);     /* dense ids in the order of the walk */
/* Equal pure operations of one block become the first of them. The table is kept between calls. */
void hlo__merge_equal(struct hlo_block *b, struct nf_arena *scratch, struct hlo_op ***table, size_t *cap);

#endif
