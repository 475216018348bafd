#include "base/dtype.h"

#include <check.h>
#include <math.h>

START_TEST(names_go_both_ways)
{
    for (int t = 1; t < NF_DT_MAX; t++)
        ck_assert_int_eq(nf_dtype_from_name(nf_str_c(nf_dtype_name((enum nf_dtype)t))), t);
    ck_assert_int_eq(nf_dtype_from_name(NF_STR("si8")), NF_DT_S8);
    ck_assert_int_eq(nf_dtype_from_name(NF_STR("f12")), NF_DT_NONE);
    ck_assert_uint_eq(nf_dtype_bytes(NF_DT_C128), 16);
    ck_assert_int_eq(nf_dtype_part(NF_DT_C64), NF_DT_F32);
}
END_TEST

/* Every bit pattern that is a number comes back; halfway points go to the even neighbour, others to the nearer one. */
START_TEST(small_floats_round_to_nearest_even)
{
    for (int i = 1; i < NF_DT_MAX; i++) {
        enum nf_dtype t = (enum nf_dtype)i;
        const struct nf_float_format *f = nf_dtype_float_format(t);
        if (!f)
            continue;
        unsigned count = 1u << ((unsigned)f->has_sign + f->exp_bits + f->man_bits);
        for (unsigned b = 0; b < count; b++) {
            double v = nf_small_to_double(t, (uint16_t)b);
            uint16_t back = nf_small_from_double(t, v);
            if (isnan(v))
                ck_assert_msg(isnan(nf_small_to_double(t, back)), "%s 0x%x", nf_dtype_name(t), b);
            else
                ck_assert_msg(back == b, "%s 0x%x -> %g -> 0x%x", nf_dtype_name(t), b, v, back);
            if (b + 1 < count) {
                double next = nf_small_to_double(t, (uint16_t)(b + 1));
                if (isfinite(v) && isfinite(next) && signbit(v) == signbit(next)) {
                    double mid = v / 2 + next / 2;
                    ck_assert_msg(nf_small_from_double(t, mid) == (b & 1 ? b + 1 : b), "%s tie above 0x%x", nf_dtype_name(t), b);
                    ck_assert_uint_eq(nf_small_from_double(t, nextafter(mid, next)), b + 1);
                    ck_assert_uint_eq(nf_small_from_double(t, nextafter(mid, v)), b);
                }
            }
        }
    }
}
END_TEST

START_TEST(overflow_follows_the_type)
{
    ck_assert(isnan(nf_small_to_double(NF_DT_F8E4M3FN, nf_small_from_double(NF_DT_F8E4M3FN, 465))));
    ck_assert_double_eq(nf_small_to_double(NF_DT_F8E4M3FN, nf_small_from_double(NF_DT_F8E4M3FN, 463.9)), 448);
    ck_assert(isinf(nf_small_to_double(NF_DT_F8E5M2, nf_small_from_double(NF_DT_F8E5M2, 61440))));
    ck_assert_double_eq(nf_small_to_double(NF_DT_F8E5M2, nf_small_from_double(NF_DT_F8E5M2, 61439)), 57344);
    ck_assert(isnan(nf_small_to_double(NF_DT_F8E4M3FNUZ, nf_small_from_double(NF_DT_F8E4M3FNUZ, (double)INFINITY))));
    ck_assert_double_eq(nf_small_to_double(NF_DT_F4E2M1FN, nf_small_from_double(NF_DT_F4E2M1FN, -100)), -6);
    ck_assert_double_eq(nf_small_to_double(NF_DT_F8E8M0FNU, nf_small_from_double(NF_DT_F8E8M0FNU, 3.1)), 4);
    ck_assert(isnan(nf_small_to_double(NF_DT_F8E8M0FNU, nf_small_from_double(NF_DT_F8E8M0FNU, -1))));
    ck_assert_uint_eq(nf_small_from_double(NF_DT_F8E5M2FNUZ, -0.0), 0);
    ck_assert_uint_eq(nf_small_from_double(NF_DT_F16, -0.0), 0x8000);
}
END_TEST

START_TEST(fast_paths_equal_the_table)
{
    for (uint64_t u = 0; u < 0x100000000ull; u += 4099) {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, 4);
        if (isnan(f)) {
            ck_assert(isnan(nf_f16_to_float(nf_f16_from_float(f))) && isnan(nf_bf16_to_float(nf_bf16_from_float(f))));
            continue;
        }
        ck_assert_msg(nf_f16_from_float(f) == nf_small_from_double(NF_DT_F16, (double)f), "f16 of %a", (double)f);
        ck_assert_msg(nf_bf16_from_float(f) == nf_small_from_double(NF_DT_BF16, (double)f), "bf16 of %a", (double)f);
    }
    for (unsigned b = 0; b < 0x10000; b++) {
        double d = nf_small_to_double(NF_DT_F16, (uint16_t)b), e = (double)nf_f16_to_float((uint16_t)b);
        ck_assert(memcmp(&d, &e, 8) == 0 || (isnan(d) && isnan(e)));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-dtype");
    TCase *t = tcase_create("dtype");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, names_go_both_ways);
    tcase_add_test(t, small_floats_round_to_nearest_even);
    tcase_add_test(t, overflow_follows_the_type);
    tcase_add_test(t, fast_paths_equal_the_table);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
