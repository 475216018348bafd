/* random_bound.h: how far the values of a program may be from the evaluator's, by rounding alone. */
#ifndef NEFFD_TESTS_UNIT_CODEGEN_RANDOM_BOUND_H
#define NEFFD_TESTS_UNIT_CODEGEN_RANDOM_BOUND_H

#include "pipeline/hlo/hlo.h"
#include "runtime/array.h"
#include "runtime/cpu/types.h"

/* of: absolute error and largest finite magnitude of each value that was seen so far, by device. */
struct bounds {
    struct bound {
        const struct hlo_value *value;
        unsigned device;
        double err, top;
    } * of;
    size_t n, cap;
};
void bounds_done(struct bounds *b);

/* An argument: exact. */
void bounds_argument(struct bounds *b, const struct hlo_value *v, unsigned device, const struct rt_array *a);
/* hlo_eval_hooks.observe; user is a struct bounds. */
int bounds_observe(void *user, const struct hlo_op *op, unsigned device, const struct rt_array *results, size_t n);
double bounds_err(const struct bounds *b, const struct hlo_value *v, unsigned device);

#endif
