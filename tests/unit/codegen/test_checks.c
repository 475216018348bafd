/* Checks, probes and prints in native programs: what they say is what the evaluator says, and a check that does not hold fails the execution at
 * its end. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"

#include <check.h>
#include <stdlib.h>

#define FUNC "func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {\n"
#define END "  return %x : tensor<2x2xf32>\n}\n"

static const struct {
    const char *text;
    bool holds;
} programs[] = {
    {FUNC "  check.expect_eq_const %x, dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>\n" END, true},
    {FUNC "  check.expect_eq_const %x, dense<[[1.0, 2.0], [3.5, 4.5]]> : tensor<2x2xf32>\n" END, false},
    {FUNC "  check.expect_almost_eq_const %x, dense<[[1.0, 2.0], [3.0, 4.01]]> : tensor<2x2xf32>\n" END, false},
    {FUNC "  %y = stablehlo.add %x, %x : tensor<2x2xf32>\n  check.expect_close %x, %y, max_ulp_difference = 3 : tensor<2x2xf32>, tensor<2x2xf32>\n" END, false},
    {FUNC "  %y = stablehlo.iota dim = 0 : tensor<2x2xi8>\n  check.expect_eq_const %y, dense<[[0, 0], [-1, 1]]> : tensor<2x2xi8>\n" END, false},
    {FUNC "  %y = stablehlo.complex %x, %x : tensor<2x2xcomplex<f32>>\n  %z = stablehlo.negate %y : tensor<2x2xcomplex<f32>>\n"
          "  check.expect_eq %y, %z : tensor<2x2xcomplex<f32>>\n" END, false},
    {FUNC "  %y = stablehlo.add %x, %x : tensor<2x2xf32>\n  stablehlo.custom_call @check.expect_close(%x, %y) {has_side_effect = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()\n" END, false},
    {FUNC "  %y = stablehlo.add %x, %x : tensor<2x2xf32>\n  %0 = stablehlo.custom_call @check.eq(%x, %y) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<i1>\n" END, false},
    /* the first one is told, and what is behind it runs */
    {FUNC "  %y = stablehlo.add %x, %x : tensor<2x2xf32>\n  interpreter.print %x : tensor<2x2xf32>\n  check.expect_eq %x, %y : tensor<2x2xf32>\n"
          "  check.expect_eq_const %y, dense<7.0> : tensor<2x2xf32>\n  interpreter.print %y : tensor<2x2xf32>\n" END, false},
    {FUNC "  %n = stablehlo.constant dense<0> : tensor<i64>\n  %one = stablehlo.constant dense<1> : tensor<i64>\n  %three = stablehlo.constant dense<3> : tensor<i64>\n"
          "  %r = stablehlo.while(%i = %n) : tensor<i64>\n   cond {\n    %p = stablehlo.compare LT, %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>\n"
          "    interpreter.print %p : tensor<i1>\n    stablehlo.return %p : tensor<i1>\n  } do {\n    check.expect_eq %i, %n : tensor<i64>\n    %j = stablehlo.add %i, %one : tensor<i64>\n"
          "    stablehlo.return %j : tensor<i64>\n  }\n" END, false},
    {FUNC "  %q = stablehlo.uniform_quantize %x : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>\n  interpreter.print %q : tensor<2x2x!quant.uniform<i8:f32, 0.5>>\n"
          "  %y = stablehlo.convert %x : (tensor<2x2xf32>) -> tensor<2x2xf64>\n  interpreter.print %y : tensor<2x2xf64>\n" END, true},
    {FUNC "  %0 = interpreter.probe %x, probe_id = \"a\" : tensor<2x2xf32>\n  %y = stablehlo.add %x, %x : tensor<2x2xf32>\n  %1 = interpreter.probe %y, probe_id = \"a\" : tensor<2x2xf32>\n"
          "  check.expect_serialized_eq %y, probe_id = \"a\", iter = 1 : tensor<2x2xf32>\n" END, false},
    {FUNC "  %0 = interpreter.probe %x, probe_id = \"a\" : tensor<2x2xf32>\n  check.expect_serialized_eq %x, probe_id = \"a\", iter = 2 : tensor<2x2xf32>\n" END, false},
};

static struct rt_device *device;

static void hear(void *user, struct nf_str text) { nf_buf_add_str(user, text); }

START_TEST(as_the_evaluator)
{
    struct nf_arena *a = nf_arena_new(0);
    struct nf_error err = {0}, own = {0};
    struct nf_buf neff = NF_BUF_INIT, said = NF_BUF_INIT, heard = NF_BUF_INIT;
    struct hlo_module *m;
    struct hlo_eval *e;
    struct rt_program *p;
    float x[4] = {1, 2, 3, 4}, y[4];
    struct rt_array in = {.dtype = NF_DT_F32, .rank = 2, .dims = {2, 2}, .data = x, .bytes = sizeof x}, out = {0};
    ck_assert_msg(hlo_parse(nf_str_c(programs[_i].text), NULL, a, &m, &err) == 0 && hlo_verify(m, &err) == 0, "%s", err.message);
    struct cg_request q = {0};
    ck_assert_msg(cg_compile(m, &q, &neff, NULL, &err) == 0, "%s", err.message);
    struct hlo_eval_hooks hooks = {.user = &said, .print = hear};
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    o.hooks = &hooks;
    ck_assert_int_eq(hlo_eval_new(m, &o, &e, &err), 0);
    int rc = hlo_eval_run(e, NF_STR(""), &in, 1, &out, 1, &err);
    ck_assert_msg(rc == (programs[_i].holds ? 0 : NF_EMISMATCH), "%s", err.message);
    struct rt_load_options load = RT_LOAD_OPTIONS_INIT;
    load.print = hear;
    load.print_user = &heard;
    ck_assert_int_eq(rt_program_load(device, nf_buf_str(&neff), &load, &p, &own), 0);
    for (int round = 0; round < 2; round++) {
        own = (struct nf_error){0};
        nf_buf_clear(&heard);
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){x}, (void *[]){y}, &own), rc);
        ck_assert_str_eq(own.message, err.message);
        ck_assert_msg(rc == 0 || strstr(own.location, err.location), "%s, not %s", own.location, err.location);
        ck_assert(nf_str_eq(nf_buf_str(&heard), nf_buf_str(&said)));
    }
    rt_program_unload(p);
    hlo_eval_free(e);
    rt_array_done(&out);
    nf_buf_done(&neff);
    nf_buf_done(&said);
    nf_buf_done(&heard);
    nf_arena_free(a);
}
END_TEST

/* A probe in a long loop is counted, and what no check asks for is not kept. */
START_TEST(many_probes)
{
    static const char text[] = "func.func @main(%last: tensor<i64>) -> tensor<i64> {\n  %n = stablehlo.constant dense<0> : tensor<i64>\n  %r = stablehlo.while(%i = %n) : tensor<i64>\n   cond {\n"
                               "    %p = stablehlo.compare LT, %i, %last : (tensor<i64>, tensor<i64>) -> tensor<i1>\n    stablehlo.return %p : tensor<i1>\n  } do {\n"
                               "    %one = stablehlo.constant dense<1> : tensor<i64>\n    %k = interpreter.probe %i, probe_id = \"k\" : tensor<i64>\n    %j = stablehlo.add %i, %one : tensor<i64>\n"
                               "    stablehlo.return %j : tensor<i64>\n  }\n  %late = stablehlo.constant dense<299998> : tensor<i64>\n"
                               "  check.expect_serialized_eq %n, probe_id = \"k\", iter = 1 : tensor<i64>\n  check.expect_serialized_eq %late, probe_id = \"k\", iter = 299999 : tensor<i64>\n"
                               "  check.expect_serialized_eq %n, probe_id = \"k\", iter = 1 : tensor<i64>\n  return %r : tensor<i64>\n}\n";
    struct nf_arena *a = nf_arena_new(0);
    struct nf_error err = {0};
    struct nf_buf neff = NF_BUF_INIT;
    struct hlo_module *m;
    struct rt_program *p;
    struct cg_request q = {0};
    int64_t last = 300000, got = 0;
    ck_assert_msg(hlo_parse(nf_str_c(text), NULL, a, &m, &err) == 0 && hlo_verify(m, &err) == 0, "%s", err.message);
    ck_assert_msg(cg_compile(m, &q, &neff, NULL, &err) == 0, "%s", err.message);
    ck_assert_msg(rt_program_load(device, nf_buf_str(&neff), NULL, &p, &err) == 0, "%s", err.message);
    ck_assert_msg(rt_execute_host(p, (const void *[]){&last}, (void *[]){&got}, &err) == 0, "%s", err.message);
    ck_assert_int_eq(got, last);
    last = 299998; /* the last one that is asked for is not seen */
    ck_assert_int_eq(rt_execute_host(p, (const void *[]){&last}, (void *[]){&got}, &err), NF_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(err.message, "number 299999"));
    rt_program_unload(p);
    nf_buf_done(&neff);
    nf_arena_free(a);
}
END_TEST

int main(void)
{
    struct nf_error err = {0};
    rt_device_register(&cpu_device_ops);
    if (rt_device_open("cpu", NULL, &device, &err)) return 1;
    Suite *s = suite_create("codegen-checks");
    TCase *c = tcase_create("checks");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, as_the_evaluator, 0, NF_ARRAY_LEN(programs));
    tcase_add_test(c, many_probes);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    rt_device_close(device);
    return failed != 0;
}
