/* check_rule.h: which rule (runtime/check.h) an operation asks for that is a check, with what is meant where it does not say. */
#ifndef NEFFD_PIPELINE_HLO_CHECK_RULE_H
#define NEFFD_PIPELINE_HLO_CHECK_RULE_H

#include "pipeline/hlo/hlo.h"
#include "runtime/check.h"

/* False: the operation is neither of the check dialect nor a custom call @check.*. */
bool hlo_check_rule(const struct hlo_op *op, struct rt_check_rule *ret_rule);

#endif
