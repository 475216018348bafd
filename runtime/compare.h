/* compare.h: two arrays against a tolerance.
 *
 * An element passes when |actual - expected| <= rel_tol * |expected| + abs_tol, in double; NaN equals NaN, equal infinities are equal.
 * Integers and booleans must be equal. Complex: by parts. */
#ifndef NEFFD_RUNTIME_COMPARE_H
#define NEFFD_RUNTIME_COMPARE_H

#include "runtime/array.h"

struct rt_difference {
    int64_t count, mismatched;
    double max_abs, max_rel;   /* over finite pairs; relative to |expected|, where it is not 0 */
    double worst;              /* largest share of the tolerance used; infinite where a NaN or infinity stands alone */
    int64_t worst_index;       /* row-major, of the first element with the largest share; -1 if there is none */
    double worst_actual, worst_expected;
};

/* NF_OK: all pass. NF_EMISMATCH: *ret_difference says how (it is filled in both cases); other type or shape: err says so. */
int rt_compare(const struct rt_array *actual, const struct rt_array *expected, double rel_tol, double abs_tol, struct rt_difference *ret_difference,
    struct nf_error *err);

#endif
