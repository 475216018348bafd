#include "runtime/compare.h"

#include <math.h>

/* Whether a pair passes, and the share of the tolerance it uses in *ret_share. */
static bool pair_passes(double a, double e, double rel_tol, double abs_tol, struct rt_difference *d, double *ret_share)
{
    *ret_share = 0;
    if (isnan(a) && isnan(e))
        return true;
    if (!isfinite(a) || !isfinite(e)) {
        bool same = !isnan(a) && !isnan(e) && isinf(a) && isinf(e) && (a > 0) == (e > 0);
        *ret_share = same ? 0 : (double)INFINITY;
        return same;
    }
    double diff = fabs(a - e), allowed = rel_tol * fabs(e) + abs_tol;
    d->max_abs = fmax(d->max_abs, diff);
    if (e != 0)
        d->max_rel = fmax(d->max_rel, diff / fabs(e));
    *ret_share = diff == 0 ? 0 : allowed > 0 ? diff / allowed : (double)INFINITY;
    return diff <= allowed;
}

int rt_compare(const struct rt_array *actual, const struct rt_array *expected, double rel_tol, double abs_tol, struct rt_difference *ret_difference,
    struct nf_error *err)
{
    struct rt_difference d = {.worst_index = -1};
    if (actual->dtype != expected->dtype || !rt_array_same_shape(actual, expected)) {
        struct nf_buf a = NF_BUF_INIT, e = NF_BUF_INIT;
        rt_shape_print(actual->dtype, actual->rank, actual->dims, &a);
        rt_shape_print(expected->dtype, expected->rank, expected->dims, &e);
        nf_fail(err, NF_EMISMATCH, "type %s instead of %s", a.data ? a.data : "?", e.data ? e.data : "?");
        nf_buf_done(&a);
        nf_buf_done(&e);
        d.count = d.mismatched = rt_array_count(expected);
        d.worst = (double)INFINITY;
        *ret_difference = d;
        return NF_EMISMATCH;
    }
    enum nf_dtype part = nf_dtype_part(actual->dtype);
    size_t w = nf_dtype_bytes(part), parts = w ? nf_dtype_bytes(actual->dtype) / w : 1;
    bool exact = !nf_dtype_is_float(part);
    const unsigned char *pa = actual->data, *pe = expected->data;
    d.count = rt_array_count(actual);
    for (int64_t i = 0; i < d.count; i++) {
        bool pass = true;
        for (size_t p = 0; p < parts; p++, pa += w, pe += w) {
            double share = 0, a = nf_elem_to_double(part, pa), e = nf_elem_to_double(part, pe);
            bool ok;
            if (exact) {
                ok = memcmp(pa, pe, w) == 0;
                share = ok ? 0 : (double)INFINITY;
                if (!ok) {
                    d.max_abs = fmax(d.max_abs, fabs(a - e));
                    if (e != 0)
                        d.max_rel = fmax(d.max_rel, fabs(a - e) / fabs(e));
                }
            } else {
                ok = pair_passes(a, e, rel_tol, abs_tol, &d, &share);
            }
            pass = pass && ok;
            if (d.worst_index < 0 || share > d.worst) {
                d.worst = share;
                d.worst_index = i;
                d.worst_actual = a;
                d.worst_expected = e;
            }
        }
        d.mismatched += !pass;
    }
    *ret_difference = d;
    if (!d.mismatched)
        return NF_OK;
    struct nf_buf at = NF_BUF_INIT;
    rt_place_print(actual, d.worst_index, &at);
    nf_fail(err, NF_EMISMATCH, "%lld of %lld elements differ by more than rel_tol %g, abs_tol %g; worst at %s: %.9g instead of %.9g", (long long)d.mismatched,
        (long long)d.count, rel_tol, abs_tol, at.data ? at.data : "?", d.worst_actual, d.worst_expected);
    nf_buf_done(&at);
    return NF_EMISMATCH;
}
