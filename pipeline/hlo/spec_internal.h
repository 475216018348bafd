/* spec_internal.h: attribute slots (spec.c). */
#ifndef NEFFD_PIPELINE_HLO_SPEC_INTERNAL_H
#define NEFFD_PIPELINE_HLO_SPEC_INTERNAL_H

#include "pipeline/hlo/ir.h"

/* Old spellings into the present one: lists once written as dense<[..]> : tensor<nxi64> become array<i64: ..>. Others as they are. */
const struct hlo_attr *hlo__spec_normalise(struct hlo_module *m, enum hlo_attr_spec_kind kind, const struct hlo_attr *a);
bool hlo__spec_fits(enum hlo_attr_spec_kind kind, const struct hlo_attr *a);
const char *hlo__spec_wants(enum hlo_attr_spec_kind kind); /* "a bool", for messages */
/* Whether the attribute says what the table's text for "absent" means ("natural" is not judged here). */
bool hlo__spec_default_text(const struct hlo_attr *a, const char *absent);
/* What is wrong with the values of these structures, or NULL. */
const char *hlo__dot_algorithm_wrong(const struct hlo_dot_algorithm *g);
const char *hlo__accuracy_wrong(const struct hlo_accuracy *a);

#endif
