/* dot.h: how steps describe products (steps_dot.c, steps_attention.c).
 *
 * Numbers of a product: offsets of a, b, c; then four lists, each n and its dims:
 *     batch (extent, a, b, c)   rows (extent, a, c)   columns (extent, b, c)   contracted (extent, a, b)
 * all strides in elements, the outermost dim first. A contracted extent of 0 gives zeros. */
#ifndef NEFFD_RUNTIME_CPU_DOT_H
#define NEFFD_RUNTIME_CPU_DOT_H

#include "runtime/cpu/steps.h"

enum { DOT_A, DOT_B, DOT_C };

struct dot_dims {
    int n;
    int64_t extent[PLAN_RANK_MAX], s[3][PLAN_RANK_MAX]; /* by operand */
    int64_t total;
};
struct dot {
    int64_t offset[3];
    struct dot_dims batch, m, n, k;
};

/* From `count` attributes of the step at `from`; false when they are not a product's. */
bool dot_read(const struct plan_step *s, uint32_t from, uint32_t count, struct dot *ret);
/* Does the operand lie inside a value of that many elements? Of a product that is not empty. */
bool dot_inside(const struct dot *d, int operand, int64_t count);
/* Do the elements of a (batch, rows, contracted) or c (batch, rows, columns) lie in that order, one after the other? Extents must not overflow. */
bool dot_in_order(const struct dot *d, int operand);
/* Offsets of all indices of dims, in order: `total` of them, at least one. */
void dot_table(const struct dot_dims *d, int operand, int64_t *out);

#endif
