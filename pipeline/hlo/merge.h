/* merge.h: equal pure operations of a block become the first of them. */
#ifndef NEFFD_PIPELINE_HLO_MERGE_H
#define NEFFD_PIPELINE_HLO_MERGE_H

#include "pipeline/hlo/ir.h"

struct hlo_merge;
/* A table of what has been met; it may serve all blocks. No value may be made while operations with regions are offered. */
struct hlo_merge *hlo__merge_new(const struct hlo_module *m, struct nf_arena *scratch);
/* Offers an operation, those that its operands need before it. An equal one was met: its results take the place of op's, op is erased,
 * true. Else op is remembered if it is pure, and must not be erased before the table's last use. */
bool hlo__merge_op(struct hlo_merge *t, struct hlo_op *op);

#endif
