/* The numbers of stablehlo.rng: the published ones of its generator, ours of each distribution, and that none leaves its range as an element. */
#include "runtime/random.h"

#include <check.h>
#include <math.h>
#include <string.h>

START_TEST(blocks_are_the_published_ones)
{
    static const struct {
        uint64_t key, low, high;
        uint32_t words[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(known); i++) {
        uint32_t w[4];
        rt_philox(known[i].key, known[i].low, known[i].high, w);
        ck_assert_int_eq(memcmp(w, known[i].words, sizeof w), 0);
    }
}
END_TEST

/* Worked out apart from the code here, from the blocks and what the header says. */
START_TEST(numbers_are_these)
{
    static const double uniform[4] = {1.2504566663093377, 1.385852112020571, -0.9746406609150058, -0.24961457816637211}, normal[4] = {2.71501385434199, 2.859500183085112, 2.0378559261275666, 2.2436096774877807};
    static const int64_t ints[4] = {-103, -297, -196, -214};
    double d[3];
    uint64_t u[4];
    rt_random_floats(7, false, NF_DT_F64, -1, 2, 1, 3, d);
    for (int i = 0; i < 3; i++) ck_assert_double_eq(d[i], uniform[i + 1]);
    rt_random_floats(7, true, NF_DT_F64, 2, 0.5, 1, 3, d);
    for (int i = 0; i < 3; i++) ck_assert_double_eq_tol(d[i], normal[i + 1], 1e-14);
    rt_random_ints(7, -500, 500, 0, 4, u);
    for (int i = 0; i < 4; i++) ck_assert_int_eq((int64_t)u[i], ints[i]);
}
END_TEST

/* The last value of each range; with some types a number in 30 rounds to its end. */
START_TEST(none_reaches_the_end)
{
    static const struct {
        enum nf_dtype t;
        double a, b, last;
    } range[] = {
        {NF_DT_F8E4M3FN, 0, 448, 416}, {NF_DT_F8E5M2, -2, -1, -1.25}, {NF_DT_F4E2M1FN, 1, 4, 3}, {NF_DT_F8E4M3FNUZ, -1, 0, -0x1p-10}, {NF_DT_F8E8M0FNU, 1, 4, 2},
        {NF_DT_F16, 0, 1, 1 - 0x1p-11}, {NF_DT_BF16, 1, 2, 2 - 0x1p-7}, {NF_DT_F32, 1, 1 + 0x1p-23, 1}, {NF_DT_F32, -1, -1 + 0x1p-24, -1}, {NF_DT_F64, 1, 1 + 0x1p-52, 1},
    };
    enum { N = 5000 };
    static double d[N];
    for (size_t i = 0; i < NF_ARRAY_LEN(range); i++) {
        double most = -(double)INFINITY;
        rt_random_floats(0, false, range[i].t, range[i].a, range[i].b, 0, N, d);
        for (int k = 0; k < N; k++) {
            ck_assert_double_ge(d[k], range[i].a);
            most = fmax(most, d[k]);
        }
        ck_assert_msg(most <= range[i].last && most >= range[i].last - 0.01 * (range[i].b - range[i].a), "%s: %.17g", nf_dtype_name(range[i].t), most);
    }
}
END_TEST

START_TEST(where_there_is_no_range_all_are_its_beginning)
{
    static const double b[] = {3, 2, -(double)INFINITY, (double)NAN};
    for (size_t i = 0; i < NF_ARRAY_LEN(b); i++) {
        double d[8];
        uint64_t u[8];
        rt_random_floats(1, false, NF_DT_F32, 3, b[i], 0, 8, d);
        rt_random_ints(1, 3, 2, 0, 8, u);
        for (int k = 0; k < 8; k++) {
            ck_assert_double_eq(d[k], 3);
            ck_assert_int_eq(u[k], 3);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("runtime-random");
    TCase *t = tcase_create("random");
    tcase_add_test(t, blocks_are_the_published_ones);
    tcase_add_test(t, numbers_are_these);
    tcase_add_test(t, none_reaches_the_end);
    tcase_add_test(t, where_there_is_no_range_all_are_its_beginning);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
