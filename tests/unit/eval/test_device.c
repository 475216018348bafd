/* The evaluator as a device: an artifact made by hand, executed with the caller's buffers, from several threads, in a group. */
#include "pipeline/hlo/evaluator_device.h"

#include "pipeline/target.h"
#include "runtime/neff.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

static const char donated[] =
    "module @m {\n func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {\n"
    "  %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>\n"
    "  %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
    "  return %0, %1 : tensor<4xf32>, tensor<f32>\n }\n}\n";
static const char replicas[] =
    "module @m attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {\n func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %0 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n"
    "   ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n %r = stablehlo.add %x, %y : tensor<f32>\n stablehlo.return %r : tensor<f32>\n"
    "  }) : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n }\n}\n";

static struct nf_error err;

static struct nf_buf artifact(const char *module, size_t inputs, size_t outputs, const char *member)
{
    static const int64_t four = 4;
    struct neff_writer_options o = {.name = "t", .target = "cpu", .compiler = "test", .lnc_size = 1};
    struct neff_writer *w = neff_writer_new(&o);
    for (size_t i = 0; i < inputs; i++)
        neff_writer_input(w, &(struct rt_tensor){.name = "", .dtype = NF_DT_F32, .rank = 1, .dims = &four, .bytes = 16, .alias = RT_NO_ALIAS});
    for (size_t i = 0; i < outputs; i++)
        neff_writer_output(w, &(struct rt_tensor){.name = "", .dtype = NF_DT_F32, .rank = i ? 0 : 1, .dims = &four, .bytes = i ? 4 : 16, .alias = i || inputs < 2 ? RT_NO_ALIAS : 0});
    neff_writer_member(w, member, nf_str_c(module), 0);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_msg(neff_writer_finish(w, &b, &err) == NF_OK, "%s", err.message);
    neff_writer_free(w);
    return b;
}

static struct rt_device *device(void)
{
    struct rt_device *d;
    rt_device_register(&hlo_evaluator_device);
    ck_assert_int_eq(rt_device_open("evaluator", NULL, &d, &err), 0);
    return d;
}

START_TEST(an_output_may_take_its_inputs_memory)
{
    struct rt_device *d = device();
    struct nf_buf neff = artifact(donated, 2, 2, TARGET_CPU_MODULE);
    struct rt_program *p;
    ck_assert_msg(rt_program_load(d, nf_buf_str(&neff), NULL, &p, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(p->input_count, 2);
    float x[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40}, sum = 0;
    ck_assert_msg(rt_execute_host(p, (const void *[]){x, y}, (void *[]){x, &sum}, &err) == 0, "%s", err.message);
    ck_assert_float_eq(x[3], 44);
    ck_assert_float_eq(sum, 110);
    rt_program_unload(p);
    nf_buf_done(&neff);
    rt_device_close(d);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    struct rt_device *d = device();
    struct rt_program *p;
    struct nf_buf other = artifact(donated, 2, 2, "neffd/code"), fewer = artifact(donated, 1, 2, TARGET_CPU_MODULE), broken = artifact("module {", 2, 2, TARGET_CPU_MODULE);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&other), NULL, &p, &err), NF_EUNSUPPORTED);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&fewer), NULL, &p, &err), NF_ECORRUPT);
    ck_assert_int_lt(rt_program_load(d, nf_buf_str(&broken), NULL, &p, &err), 0);
    ck_assert_int_lt(rt_program_load(d, NF_STR("not an artifact"), NULL, &p, &err), 0);
    nf_buf_done(&other);
    nf_buf_done(&fewer);
    nf_buf_done(&broken);
    rt_device_close(d);
}
END_TEST

struct job {
    struct rt_program *p;
    float scale;
    int rc;
    float sum;
};

static void *many(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < 50 && !j->rc; i++) {
        float x[4] = {j->scale, j->scale, j->scale, j->scale}, y[4] = {0, 0, 0, 0}, out[4];
        j->rc = rt_execute_host(j->p, (const void *[]){x, y}, (void *[]){out, &j->sum}, NULL);
        if (j->sum != 4 * j->scale)
            j->rc = -1;
    }
    return NULL;
}

START_TEST(several_threads_execute_one_program)
{
    struct rt_device *d = device();
    struct nf_buf neff = artifact(donated, 2, 2, TARGET_CPU_MODULE);
    struct rt_program *p;
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&neff), NULL, &p, &err), 0);
    pthread_t t[4];
    struct job j[4];
    for (int i = 0; i < 4; i++) {
        j[i] = (struct job){.p = p, .scale = (float)(i + 1)};
        ck_assert_int_eq(pthread_create(&t[i], NULL, many, &j[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        ck_assert_int_eq(j[i].rc, 0);
    }
    rt_program_unload(p);
    nf_buf_done(&neff);
    rt_device_close(d);
}
END_TEST

static void *member(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < 50 && !j->rc; i++) {
        float x[4] = {j->scale, 0, 0, (float)i}, out[4] = {0};
        j->rc = rt_execute_host(j->p, (const void *[]){x}, (void *[]){out}, NULL);
        if (out[0] != 3 || out[3] != (float)(2 * i))
            j->rc = -1;
    }
    return NULL;
}

START_TEST(programs_of_one_group_meet)
{
    struct rt_device *d = device();
    struct nf_buf neff = artifact(replicas, 1, 1, TARGET_CPU_MODULE);
    struct job j[2];
    pthread_t t[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
        o.rank = i;
        o.world_size = 2;
        o.group = "pair";
        j[i] = (struct job){.scale = (float)(i + 1)};
        ck_assert_msg(rt_program_load(d, nf_buf_str(&neff), &o, &j[i].p, &err) == 0, "%s", err.message);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, member, &j[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        ck_assert_int_eq(j[i].rc, 0);
    }
    rt_program_unload(j[0].p);
    float x[4] = {0}, out[4];
    ck_assert_int_lt(rt_execute_host(j[1].p, (const void *[]){x}, (void *[]){out}, NULL), 0); /* nobody is left to meet */
    rt_program_unload(j[1].p);
    nf_buf_done(&neff);
    rt_device_close(d);
}
END_TEST

static const char failing[] =
    "module @m {\n func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %r = stablehlo.constant dense<7> : tensor<1xi32>\n"
    "  %0 = \"stablehlo.collective_broadcast\"(%a, %r) {replica_groups = dense<[[0]]> : tensor<1x1xi64>, has_dynamic_root} : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>\n"
    "  return %0 : tensor<4xf32>\n }\n}\n";

START_TEST(an_artifact_without_places_says_whose_line_it_names)
{
    struct rt_device *d = device();
    struct nf_buf neff = artifact(failing, 1, 1, TARGET_CPU_MODULE);
    struct rt_program *p;
    float x[4] = {0}, out[4];
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&neff), NULL, &p, &err), 0);
    err = (struct nf_error){0};
    ck_assert_int_lt(rt_execute_host(p, (const void *[]){x}, (void *[]){out}, &err), 0);
    ck_assert_str_eq(err.location, "4:8 of the canonical program");
    rt_program_unload(p);
    nf_buf_done(&neff);
    rt_device_close(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval-device");
    TCase *t = tcase_create("device");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, an_output_may_take_its_inputs_memory);
    tcase_add_test(t, what_does_not_fit_is_refused);
    tcase_add_test(t, several_threads_execute_one_program);
    tcase_add_test(t, programs_of_one_group_meet);
    tcase_add_test(t, an_artifact_without_places_says_whose_line_it_names);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
