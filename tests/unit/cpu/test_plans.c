/* Steps that no plan may hold: each step's own check finds what running it relies on. */
#include "runtime/cpu/plan.h"

#include <check.h>

/* Attributes: offsets of the three; then batch, rows, columns, contracted: how many dims, and of each its extent and strides. */
#define DOT(a, b, c, attrs) "dot (v0:f32[" a "]@arg0 v1:f32[" b "]@arg1) -> (v2:f32[" c "]@out0) [" attrs "]"

START_TEST(plans_that_lie)
{
    static const struct {
        const char *step;
        bool fine;
    } plan[] = {
        /* checks, probes, prints */
        {"check (v0:f32[]@arg0 v1:f32[]@arg1) -> () [1 0 0 0]", true},
        {"check (v0:f32[]@arg0 v1:f32[0]@arg1) -> () [0 0 0 0]", true},
        {"check (v0:f32[]@arg0 v1:f32[]@arg1) -> (v2:i1[]@out0) [0 0 0 0]", true},
        {"check (v0:f32[]@arg0 v1:f32[]@arg1) -> (v2:i1[2]@out0) [0 0 0 0]", false},
        {"check (v0:f32[]@arg0 v1:f32[]@arg1) -> () [3 0 0 0]", false},
        {"check (v0:f32[]@arg0 v1:f32[]@arg1) -> () [0 0 0]", false},
        {"check (v0:i32[]@arg0 v1:f32[]@arg1) -> () [2 0 0 0]", false},
        {"probe (v0:ui8[2]@const v1:f32[]@arg1) -> () []", true},
        {"probe (v0:ui8[0]@const v1:f32[]@arg1) -> () []", false},
        {"probe (v0:ui8[2]@arg0 v1:f32[]@arg1) -> () []", false},
        {"check_probe (v0:ui8[2]@const v1:f32[]@arg1) -> () [1]", true},
        {"check_probe (v0:ui8[]@const v1:f32[]@arg1) -> () [1]", false},
        {"print (v0:ui8[5]@const v1:f32[]@arg1) -> () []", true},
        {"print (v0:ui8[9]@const v1:f32[]@arg1) -> () []", false},
        {"print (v0:i32[1]@const v1:f32[]@arg1) -> () []", false},
        /* rng */
        {"rng (v0:f32[]@arg0 v1:f32[]@arg1) -> (v2:f32[2x3]@out0) [1]", true},
        {"rng (v0:f32[]@arg0 v1:f32[]@arg1) -> (v2:f32[2x3]@out0) [2]", false},
        {"rng (v0:f32[]@arg0 v1:f32[]@arg1) -> (v2:f32[2x3]@out0) [-1]", false},
        {"rng (v0:f32[]@arg0 v1:f32[]@arg1) -> (v2:f32[2x3]@out0) []", false},
        {"rng (v0:i32[]@arg0 v1:i32[]@arg1) -> (v2:f32[2x3]@out0) [0]", false},
        {"rng (v0:f32[]@arg0 v1:f32[0]@arg1) -> (v2:f32[2x3]@out0) [0]", false},
        {"rng (v0:i32[]@arg0 v1:i32[]@arg1) -> (v2:i32[2x3]@out0) [0]", true},
        {"rng (v0:i32[]@arg0 v1:i32[]@arg1) -> (v2:i32[2x3]@out0) [1]", false},
        /* dot */
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1 4"), true},
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1"), false},
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1 4 7"), false},
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 3 3 4 1 4 1 1 1 3 1 4"), false}, /* a row too many */
        {DOT("2x3", "3x4", "2x4", "1 0 0 0 1 2 3 4 1 4 1 1 1 3 1 4"), false}, /* A is begun too late */
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 2 3 4 1 4 1 1 1 3 1 5"), false}, /* B is left */
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 2 3 -4 1 4 1 1 1 3 1 4"), false},
        {DOT("2x3", "3x4", "2x4", "0 0 0 0 1 2 3 4 1 4 1 1 1 -3 1 4"), false},
        {DOT("", "", "", "0 0 0 0 0 0 1 5 0 0"), true}, /* the same elements five times */
        {DOT("", "", "", "0 0 0 0 0 0 1 1099511627776 0 0"), true},
        {DOT("", "", "", "0 0 0 0 0 0 1 1152921504606846976 0 0"), false}, /* tables of it would have no size */
        {DOT("", "", "", "0 0 0 0 1 1152921504606846976 0 0 0 0"), false},
        {DOT("", "", "", "0 0 0 0 1 2 0 0 0 0"), false}, /* two results in one element */
        {DOT("", "", "", "0 0 0 0 1 1099511627776 0 0 1 1099511627776 0 0 0"), false},
        {DOT("0", "", "", "0 0 0 0 0 0 1 0 1 1"), true},
    };
    static const uint64_t in[2] = {64, 64}, out[1] = {64};
    struct plan_sizes z = {.arg_bytes = in, .out_bytes = out, .nargs = 2, .nouts = 1, .const_bytes = 8};
    for (size_t i = 0; i < NF_ARRAY_LEN(plan); i++) {
        struct nf_arena *a = nf_arena_new(0);
        struct nf_error err = {0};
        struct plan *p;
        char text[512];
        nf_format(text, sizeof text, "plan args=2 outs=1 values=%d arena=0 scratch=0 features=none\nblock 0 () -> ()\n    %s\n", strstr(plan[i].step, "v2") ? 3 : 2, plan[i].step);
        ck_assert_msg(plan_parse(nf_str_c(text), a, &p, &err) == 0, "%s: %s", plan[i].step, err.message);
        int rc = plan_check(p, &z, a, &err);
        ck_assert_msg(rc == (plan[i].fine ? 0 : NF_ECORRUPT), "%s: %s", plan[i].step, rc ? err.message : "no error");
        nf_arena_free(a);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu-plans");
    TCase *c = tcase_create("plans");
    tcase_add_test(c, plans_that_lie);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
