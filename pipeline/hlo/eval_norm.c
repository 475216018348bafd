/* batch_norm_training, _inference and _grad: sums in double, results rounded once. */
#include "pipeline/hlo/eval_internal.h"

#include <math.h>
#include <stdlib.h>

struct shape {
    int64_t outer, features, inner;
};

static struct shape shape_of(const struct rt_array *a, int64_t feature)
{
    struct shape s = {1, a->dims[feature], 1};
    for (int i = 0; i < a->rank; i++) {
        if (i < feature)
            s.outer *= a->dims[i];
        if (i > feature)
            s.inner *= a->dims[i];
    }
    return s;
}

/* The arrays of an operation as doubles: operands first, then results to be stored. */
struct work {
    double *v[8];
    uint32_t n;
};

static int load_all(struct ev_ctx *c, struct work *w, struct nf_error *err)
{
    for (uint32_t i = 0; i < c->n_in + c->n_out; i++) {
        const struct ev_value *v = i < c->n_in ? c->in[i] : c->out[i - c->n_in];
        w->v[i] = nf_try_alloc((size_t)ev_count(v) * sizeof(double) + 1);
        if (!w->v[i])
            return ev_fail(c, err, NF_ENOMEM, "no memory for its operands");
        w->n = i + 1;
        if (i < c->n_in)
            ev_load_double(ev_count(v), v->a.dtype, v->a.data, w->v[i]);
    }
    return NF_OK;
}

static void store_all(struct ev_ctx *c, struct work *w, int rc)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (!rc && i >= c->n_in)
            ev_store_double(ev_count(c->out[i - c->n_in]), c->out[i - c->n_in]->a.dtype, w->v[i], c->out[i - c->n_in]->a.data);
        free(w->v[i]);
    }
}

static int check_vectors(struct ev_ctx *c, uint32_t first, uint32_t last, int64_t n, struct nf_error *err)
{
    for (uint32_t i = first; i <= last; i++)
        if (ev_count(c->in[i]) != n)
            return ev_fail(c, err, NF_EGRAPH, "operand %u does not have one element a feature", i);
    return NF_OK;
}

#define FOR_FEATURE(s, f, at)                                                        \
    for (int64_t o_ = 0; o_ < (s).outer; o_++)                                       \
        for (int64_t i_ = 0, at = (o_ * (s).features + (f)) * (s).inner; i_ < (s).inner; i_++, at++)

int hlo_e_batch_norm_training(struct ev_ctx *c, struct nf_error *err)
{
    int64_t feature = hlo_op_i64(c->op, HLO_A_feature_index, 0);
    double eps = hlo_op_float(c->op, HLO_A_epsilon, 0);
    struct shape s = shape_of(&c->in[0]->a, feature);
    struct work w = {.n = 0};
    int rc = check_vectors(c, 1, 2, s.features, err);
    rc = rc ? rc : ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    rc = rc ? rc : ev_out_shaped(c, 1, 1, &s.features, err);
    rc = rc ? rc : ev_out_shaped(c, 2, 1, &s.features, err);
    rc = rc ? rc : load_all(c, &w, err);
    for (int64_t f = 0; f < s.features && !rc; f++) {
        double n = (double)(s.outer * s.inner), mean = 0, var = 0;
        FOR_FEATURE(s, f, at)
            mean += w.v[0][at];
        mean /= n;
        FOR_FEATURE(s, f, at)
            var += (w.v[0][at] - mean) * (w.v[0][at] - mean);
        var /= n;
        FOR_FEATURE(s, f, at)
            w.v[3][at] = (w.v[0][at] - mean) / sqrt(var + eps) * w.v[1][f] + w.v[2][f];
        w.v[4][f] = mean;
        w.v[5][f] = var;
    }
    store_all(c, &w, rc);
    return rc;
}

int hlo_e_batch_norm_inference(struct ev_ctx *c, struct nf_error *err)
{
    int64_t feature = hlo_op_i64(c->op, HLO_A_feature_index, 0);
    double eps = hlo_op_float(c->op, HLO_A_epsilon, 0);
    struct shape s = shape_of(&c->in[0]->a, feature);
    struct work w = {.n = 0};
    int rc = check_vectors(c, 1, 4, s.features, err);
    rc = rc ? rc : ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    rc = rc ? rc : load_all(c, &w, err);
    for (int64_t f = 0; f < s.features && !rc; f++)
        FOR_FEATURE(s, f, at)
            w.v[5][at] = (w.v[0][at] - w.v[3][f]) / sqrt(w.v[4][f] + eps) * w.v[1][f] + w.v[2][f];
    store_all(c, &w, rc);
    return rc;
}

/* operand, scale, mean, variance, gradient of the output -> gradients of operand, scale, offset */
int hlo_e_batch_norm_grad(struct ev_ctx *c, struct nf_error *err)
{
    int64_t feature = hlo_op_i64(c->op, HLO_A_feature_index, 0);
    double eps = hlo_op_float(c->op, HLO_A_epsilon, 0);
    struct shape s = shape_of(&c->in[0]->a, feature);
    struct work w = {.n = 0};
    int rc = check_vectors(c, 1, 3, s.features, err);
    if (!rc && !rt_array_same_shape(&c->in[0]->a, &c->in[4]->a))
        rc = ev_fail(c, err, NF_EGRAPH, "the gradient does not have the operand's shape");
    rc = rc ? rc : ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    rc = rc ? rc : ev_out_shaped(c, 1, 1, &s.features, err);
    rc = rc ? rc : ev_out_shaped(c, 2, 1, &s.features, err);
    rc = rc ? rc : load_all(c, &w, err);
    for (int64_t f = 0; f < s.features && !rc; f++) {
        const double *x = w.v[0], *g = w.v[4];
        double n = (double)(s.outer * s.inner), mean = w.v[2][f], istd = 1 / sqrt(w.v[3][f] + eps), sum = 0, dot = 0;
        FOR_FEATURE(s, f, at) {
            sum += g[at];
            dot += g[at] * (x[at] - mean);
        }
        FOR_FEATURE(s, f, at)
            w.v[5][at] = w.v[1][f] * istd / n * (n * g[at] - sum - (x[at] - mean) * istd * istd * dot);
        w.v[6][f] = dot * istd;
        w.v[7][f] = sum;
    }
    store_all(c, &w, rc);
    return rc;
}
