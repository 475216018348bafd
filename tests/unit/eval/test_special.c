/* Special functions against values from tables (20 digits), and against identities that their code does not use. */
#include "pipeline/hlo/eval_kernels.h"

#include <check.h>
#include <math.h>

#define NEAR(got, want) ck_assert_msg(fabs((got) - (want)) <= 4e-16 * fabs(want), "%s: %.17g, not %.17g", #got, (double)(got), (double)(want))

START_TEST(values_of_tables)
{
    NEAR(ev_digamma(1), -0.57721566490153286061);
    NEAR(ev_digamma(0.5), -1.96351002602142347944);
    NEAR(ev_digamma(-0.5), 0.03648997397857652056);
    NEAR(ev_zeta(2, 1), 1.64493406684822643647);
    NEAR(ev_zeta(3, 1), 1.20205690315959428540);
    NEAR(ev_zeta(2, 0.5), 4.93480220054467930942);
    NEAR(ev_polygamma(1, 1), 1.64493406684822643647);
    NEAR(ev_polygamma(2, 1), -2.40411380631918857080);
    NEAR(ev_polygamma(0, 1), -0.57721566490153286061);
    NEAR(ev_bessel_i1e(1), 0.20791041534970844887);
    NEAR(ev_bessel_i1e(-1), -0.20791041534970844887);
    NEAR(ev_erf_inv(0.5), 0.47693627620446987338);
    NEAR(ev_lgamma(0.5), 0.57236494292470008707);
    NEAR(ev_lgamma(100), 359.13420536957539878);
}
END_TEST

START_TEST(identities_hold)
{
    for (int i = 1; i < 400; i++) {
        double p = (double)i / 400, y = ev_erf_inv(p);
        ck_assert_double_eq_tol(erf(y), p, 3e-16);
        ck_assert_double_eq(ev_erf_inv(-p), -y);
        double x = 0.13 * (double)i - 20.055;
        ck_assert_double_eq_tol(ev_digamma(x + 1) - ev_digamma(x), 1 / x, 2e-13 * (1 + fabs(1 / x)));
        ck_assert_double_eq_tol(ev_polygamma(1, x + 1) - ev_polygamma(1, x), -1 / (x * x), 4e-13 * (1 + 1 / (x * x)) + 1e-12 * fabs(ev_polygamma(1, x)));
    }
    /* the power series and the asymptotic one meet */
    ck_assert_double_eq_tol(ev_bessel_i1e(30 - 1e-9), ev_bessel_i1e(30 + 1e-9), 1e-11);
}
END_TEST

START_TEST(poles_and_edges)
{
    ck_assert(isinf(ev_erf_inv(1)) && ev_erf_inv(-1) < 0 && isnan(ev_erf_inv(1.5)) && ev_erf_inv(0) == 0);
    ck_assert(isnan(ev_digamma(-3)) && isinf(ev_digamma(0)) && isnan(ev_digamma((double)NAN)));
    ck_assert(isinf(ev_zeta(1, 2)) && isnan(ev_zeta(0.5, 2)) && isinf(ev_zeta(2, -3)) && isnan(ev_zeta(3, -3)));
    ck_assert(isnan(ev_polygamma(-1, 2)) && isnan(ev_polygamma(1.5, 2)));
    ck_assert(ev_bessel_i1e(0) == 0 && ev_bessel_i1e((double)INFINITY) == 0 && isnan(ev_bessel_i1e((double)NAN)));
    ck_assert(isinf(ev_lgamma(-2)) && isinf(ev_lgamma((double)INFINITY)));
}
END_TEST

/* log(1 + z) where |1 + z| is 1 but for the last digits */
START_TEST(complex_log1p_does_not_cancel)
{
    double z[2] = {-0.5e-10, 1e-5}, r[2];
    ev_kernel_find(EV_LOG1P, NF_DT_C128)(1, r, z, NULL);
    double want = 0.5 * (2 * z[0] + z[1] * z[1] + z[0] * z[0]); /* the first two terms differ in the 17th digit only */
    ck_assert_double_eq_tol(r[0], want, 1e-25);
    ck_assert_double_eq_tol(r[1], atan2(1e-5, 1 - 0.5e-10), 1e-20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval-special");
    TCase *t = tcase_create("special");
    tcase_add_test(t, values_of_tables);
    tcase_add_test(t, identities_hold);
    tcase_add_test(t, poles_and_edges);
    tcase_add_test(t, complex_log1p_does_not_cancel);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
