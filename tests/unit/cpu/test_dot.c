/* The step `dot` of plans: what a plan may say of its dims, and what may not be executed. */
#include "runtime/cpu/plan.h"

#include <check.h>

/* Attributes: offsets of the three; then batch, rows, columns, contracted: how many dims, and of each its extent and strides. */
START_TEST(plans_that_lie)
{
    static const struct {
        const char *shapes[3], *attrs;
        bool fine;
    } plan[] = {
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1 4", true},
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1", false},
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1 4 7", false},
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 3 3 4 1 4 1 1 1 3 1 4", false},     /* a row too many */
        {{"2x3", "3x4", "2x4"}, "1 0 0 0 1 2 3 4 1 4 1 1 1 3 1 4", false},     /* A is begun too late */
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1 5", false},     /* B is left */
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 2 3 -4 1 4 1 1 1 3 1 4", false},
        {{"2x3", "3x4", "2x4"}, "0 0 0 0 1 2 3 4 1 4 1 1 1 -3 1 4", false},
        {{"", "", ""}, "0 0 0 0 0 0 1 5 0 0", true},                           /* the same elements five times */
        {{"", "", ""}, "0 0 0 0 0 0 1 1099511627776 0 0", true},
        {{"", "", ""}, "0 0 0 0 0 0 1 1152921504606846976 0 0", false},        /* tables of it would have no size */
        {{"", "", ""}, "0 0 0 0 1 1152921504606846976 0 0 0 0", false},
        {{"", "", ""}, "0 0 0 0 1 2 0 0 0 0", false},                          /* two results in one element */
        {{"", "", ""}, "0 0 0 0 1 1099511627776 0 0 1 1099511627776 0 0 0", false},
        {{"0", "", ""}, "0 0 0 0 0 0 1 0 1 1", true},
    };
    static const uint64_t in[2] = {64, 64}, out[1] = {64};
    struct plan_sizes z = {.arg_bytes = in, .out_bytes = out, .nargs = 2, .nouts = 1};
    for (size_t i = 0; i < NF_ARRAY_LEN(plan); i++) {
        struct nf_arena *a = nf_arena_new(0);
        struct nf_error err = {0};
        struct plan *p;
        char text[512];
        nf_format(text, sizeof text, "plan args=2 outs=1 values=3 arena=0 scratch=0 features=none\nblock 0 () -> ()\n    dot (v0:f32[%s]@arg0 v1:f32[%s]@arg1) -> (v2:f32[%s]@out0) [%s]\n",
                  plan[i].shapes[0], plan[i].shapes[1], plan[i].shapes[2], plan[i].attrs);
        ck_assert_msg(plan_parse(nf_str_c(text), a, &p, &err) == 0, "%s: %s", plan[i].attrs, err.message);
        int rc = plan_check(p, &z, a, &err);
        ck_assert_msg(rc == (plan[i].fine ? 0 : NF_ECORRUPT), "%s: %s", plan[i].attrs, rc ? err.message : "no error");
        nf_arena_free(a);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dot");
    TCase *c = tcase_create("dot");
    tcase_add_test(c, plans_that_lie);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
