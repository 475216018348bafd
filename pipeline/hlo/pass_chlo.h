/* pass_chlo.h: CHLO operations written with StableHLO's.
 *
 * requires: a verified module; operands of the operations to be expanded are ranked, those of ragged_dot and scan static
 * provides: no operation of the chlo dialect is left
 * breaks:   nothing; names, other operations and their order stay */
#ifndef NEFFD_PIPELINE_HLO_PASS_CHLO_H
#define NEFFD_PIPELINE_HLO_PASS_CHLO_H

#include "pipeline/hlo/ir.h"

/* NF_EUNSUPPORTED names an operation that cannot be expanded, with its place. */
int hlo_pass_chlo(struct hlo_module *m, struct nf_error *err);
/* The same, but for operations that keep says true of (NULL: of none). */
int hlo_chlo_expand(struct hlo_module *m, bool (*keep)(const struct hlo_op *op), struct nf_error *err);

/* pass_chlo_special.c: real functions of a tensor of f32 or f64, as values before `at`. */
struct hlo_chlo {
    struct hlo_module *m;
    struct hlo_op *at;                  /* new operations stand before it and have its place */
    const struct hlo_type *t;           /* the working type: a tensor of f32 or f64 */
    struct hlo_value *like;             /* has the shape of t, where that is not static */
    struct hlo_value **shape;           /* the sizes of `like`, once they are asked for */
};
typedef struct hlo_value *(*hlo_chlo_unary)(const struct hlo_chlo *x, struct hlo_value *a);

struct hlo_value *hlo__chlo_op(const struct hlo_chlo *x, enum hlo_op_id id, const struct hlo_type *t, uint32_t n, struct hlo_value *const *operands);
struct hlo_value *hlo__chlo_1(const struct hlo_chlo *x, enum hlo_op_id id, struct hlo_value *a);
struct hlo_value *hlo__chlo_2(const struct hlo_chlo *x, enum hlo_op_id id, struct hlo_value *a, struct hlo_value *b);
struct hlo_value *hlo__chlo_const(const struct hlo_chlo *x, double v);
struct hlo_value *hlo__chlo_compare(const struct hlo_chlo *x, enum hlo_direction d, struct hlo_value *a, struct hlo_value *b);
struct hlo_value *hlo__chlo_select(const struct hlo_chlo *x, struct hlo_value *p, struct hlo_value *a, struct hlo_value *b);

struct hlo_value *hlo__chlo_erf(const struct hlo_chlo *x, struct hlo_value *a);
struct hlo_value *hlo__chlo_erfc(const struct hlo_chlo *x, struct hlo_value *a);
struct hlo_value *hlo__chlo_erf_inv(const struct hlo_chlo *x, struct hlo_value *a);
struct hlo_value *hlo__chlo_lgamma(const struct hlo_chlo *x, struct hlo_value *a);
struct hlo_value *hlo__chlo_digamma(const struct hlo_chlo *x, struct hlo_value *a);
struct hlo_value *hlo__chlo_bessel_i1e(const struct hlo_chlo *x, struct hlo_value *a);
struct hlo_value *hlo__chlo_zeta(const struct hlo_chlo *x, struct hlo_value *a, struct hlo_value *q);
struct hlo_value *hlo__chlo_polygamma(const struct hlo_chlo *x, struct hlo_value *n, struct hlo_value *a);

#endif
