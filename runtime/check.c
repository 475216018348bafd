/* check.c: see check.h. */
#include "runtime/check.h"

#include <math.h>

static bool exact_pair(enum nf_dtype part, const char *a, const char *b)
{
    if (!nf_dtype_is_float(part))
        return memcmp(a, b, nf_dtype_bytes(part)) == 0;
    return nf_elem_to_double(part, a) == nf_elem_to_double(part, b);
}

static bool almost_pair(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= tolerance;
}

/* Bits apart; the largest number where the two are not comparable. */
static uint64_t ulps(enum nf_dtype part, const char *a, const char *b)
{
    size_t w = nf_dtype_bytes(part);
    if (memcmp(a, b, w) == 0)
        return 0;
    double x = nf_elem_to_double(part, a), y = nf_elem_to_double(part, b);
    if (isnan(x) && isnan(y))
        return 0;
    if (!isfinite(x) || !isfinite(y))
        return UINT64_MAX;
    uint64_t p = 0, q = 0;
    memcpy(&p, a, w);
    memcpy(&q, b, w);
    uint64_t sign = (uint64_t)1 << (nf_dtype_bits(part) - 1), mp = p & (sign - 1), mq = q & (sign - 1);
    if ((p & sign) != (q & sign))
        return mp + mq;
    return mp > mq ? mp - mq : mq - mp;
}

bool rt_check_fits(const struct rt_check_rule *rule, enum nf_dtype dtype)
{
    return rule->how == RT_CHECK_EXACT || nf_dtype_is_float(nf_dtype_part(dtype));
}

bool rt_check(const struct rt_check_rule *rule, const struct rt_array *actual, const struct rt_array *expected, struct nf_buf *why)
{
    const struct rt_array *a = actual, *e = expected;
    int64_t bad = 0, first = -1, n = rt_array_count(e);
    uint64_t worst = 0;
    bool same = a->dtype == e->dtype && rt_array_same_shape(a, e);
    enum nf_dtype part = nf_dtype_part(e->dtype);
    size_t w = nf_dtype_bytes(part), elem = nf_dtype_bytes(e->dtype);
    for (int64_t i = 0; i < n && same; i++) {
        bool ok = true;
        uint64_t far = 0;
        for (size_t off = 0; off < elem; off += w) {
            const char *pa = (const char *)a->data + (size_t)i * elem + off, *pe = (const char *)e->data + (size_t)i * elem + off;
            if (rule->how == RT_CHECK_EXACT)
                ok = ok && exact_pair(part, pa, pe);
            else if (rule->how == RT_CHECK_ALMOST)
                ok = ok && almost_pair(nf_elem_to_double(part, pa), nf_elem_to_double(part, pe), rule->tolerance);
            else
                far = NF_MAX(far, ulps(part, pa, pe));
        }
        if (rule->how == RT_CHECK_CLOSE)
            ok = far >= rule->min_ulp && far <= rule->max_ulp;
        worst = NF_MAX(worst, far);
        if (!ok && bad++ == 0)
            first = i;
    }
    if (!same) {
        nf_buf_add_c(why, "actual value is ");
        rt_shape_print(a->dtype, a->rank, a->dims, why);
        nf_buf_add_c(why, ", expected ");
        rt_shape_print(e->dtype, e->rank, e->dims, why);
    } else if (bad) {
        nf_buf_addf(why, "%lld of %lld elements differ; first at ", (long long)bad, (long long)n);
        rt_place_print(e, first, why);
        nf_buf_add_c(why, ": ");
        rt_element_print(a->dtype, (const char *)a->data + (size_t)first * elem, why);
        nf_buf_add_c(why, " instead of ");
        rt_element_print(e->dtype, (const char *)e->data + (size_t)first * elem, why);
        if (rule->how == RT_CHECK_CLOSE)
            nf_buf_addf(why, "; at most %llu units in the last place apart, %llu to %llu allowed", (unsigned long long)worst,
                (unsigned long long)rule->min_ulp, (unsigned long long)rule->max_ulp);
        if (rule->how == RT_CHECK_ALMOST)
            nf_buf_addf(why, "; tolerance %g", rule->tolerance);
    }
    return same && !bad;
}
