/* check.h: what a check in a program means (dialect check, custom calls check.*): the same to the evaluator and to native code. */
#ifndef NEFFD_RUNTIME_CHECK_H
#define NEFFD_RUNTIME_CHECK_H

#include "runtime/array.h"

enum rt_check_how {
    RT_CHECK_EXACT,   /* floats by value, so that NaN is equal to nothing and the zeros are equal; others bit by bit */
    RT_CHECK_ALMOST,  /* floats at most `tolerance` apart; NaN equals NaN, infinities themselves */
    RT_CHECK_CLOSE,   /* floats min_ulp to max_ulp units in the last place apart */
    RT_CHECK_HOW_MAX
};

struct rt_check_rule {
    enum rt_check_how how;
    double tolerance;
    uint64_t min_ulp, max_ulp;
};

/* Whether the rule can be asked of elements of this type: a tolerance is for floats (and complex: by parts). */
bool rt_check_fits(const struct rt_check_rule *rule, enum nf_dtype dtype);
/* Whether the rule holds; where it does not, adds to `why` how many elements differ, and the first of them. Arrays of another type or shape differ. */
bool rt_check(const struct rt_check_rule *rule, const struct rt_array *actual, const struct rt_array *expected, struct nf_buf *why);

#endif
