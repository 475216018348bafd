/* rng natively: the evaluator's numbers to the last bit, on every number of threads; each execution draws from its start, and each member of a
 * group as its own process. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/pool.h"

#include <check.h>
#include <stdlib.h>

/* TYPE drawn twice, 5000 numbers each time. */
static const char *const program = "module @m attributes {mhlo.num_replicas = %d : i32, mhlo.num_partitions = %d : i32} {\n"
                                   "  func.func @main(%%a: tensor<%s>, %%b: tensor<%s>) -> (tensor<50x100x%s>, tensor<50x100x%s>) {\n"
                                   "    %%s = stablehlo.constant dense<[50, 100]> : tensor<2xi64>\n"
                                   "    %%0 = stablehlo.rng %%a, %%b, %%s, distribution = %s : (tensor<%s>, tensor<%s>, tensor<2xi64>) -> tensor<50x100x%s>\n"
                                   "    %%1 = stablehlo.rng %%a, %%b, %%s, distribution = %s : (tensor<%s>, tensor<%s>, tensor<2xi64>) -> tensor<50x100x%s>\n"
                                   "    return %%0, %%1 : tensor<50x100x%s>, tensor<50x100x%s>\n  }\n}\n";
enum { COUNT = 5000 };

static struct rt_device *device;

struct both {
    struct nf_arena *arena;
    struct hlo_module *m;
    struct hlo_eval *eval;
    struct nf_buf neff;
};

static void build(struct both *b, int replicas, int partitions, const char *t, const char *how)
{
    struct nf_error err = {0};
    char text[2048];
    *b = (struct both){.arena = nf_arena_new(0)};
    nf_format(text, sizeof text, program, replicas, partitions, t, t, t, t, how, t, t, t, how, t, t, t, t, t);
    struct nf_str s = nf_arena_str(b->arena, nf_str_c(text));
    ck_assert_msg(hlo_parse(s, NULL, b->arena, &b->m, &err) == 0 && hlo_verify(b->m, &err) == 0, "%s\n%s", err.message, text);
    struct cg_request q = {0};
    ck_assert_msg(cg_compile(b->m, &q, &b->neff, NULL, &err) == 0, "%s", err.message);
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    ck_assert_msg(hlo_eval_new(b->m, &o, &b->eval, &err) == 0, "%s", err.message);
}

static void done(struct both *b)
{
    hlo_eval_free(b->eval);
    nf_buf_done(&b->neff);
    nf_arena_free(b->arena);
}

static const struct {
    const char *type, *how;
    double a, b;
} draws[] = {{"f32", "UNIFORM", -1, 3}, {"f32", "NORMAL", 2, 0.5}, {"f64", "NORMAL", 0, 1}, {"f64", "UNIFORM", 1, 1}, {"bf16", "UNIFORM", -0.5, 0}, {"bf16", "NORMAL", 0, 1e-39},
             {"f16", "NORMAL", 0, 60000}, {"f16", "UNIFORM", 3, 2}, {"f8E5M2", "NORMAL", 0, 8}, {"f8E4M3FN", "UNIFORM", 0, 448}, {"f4E2M1FN", "NORMAL", 0, 2}, {"i4", "UNIFORM", -8, 7},
             {"ui2", "UNIFORM", 0, 3}, {"i8", "UNIFORM", -128, 127}, {"i32", "UNIFORM", -5, 1000000}, {"i64", "UNIFORM", -1, 1e18}, {"ui64", "UNIFORM", 3, 1.5e19}, {"i1", "UNIFORM", 0, 1},
             {"complex<f32>", "UNIFORM", 0, 1}};

START_TEST(the_same_numbers)
{
    struct both b;
    struct nf_error err = {0};
    struct rt_program *p;
    struct rt_array in[2], want[2], got[2];
    build(&b, 1, 1, draws[_i].type, draws[_i].how);
    ck_assert_int_eq(rt_program_load(device, nf_buf_str(&b.neff), NULL, &p, &err), 0);
    for (int i = 0; i < 2; i++) {
        double x = i ? draws[_i].b : draws[_i].a;
        ck_assert_int_eq(rt_array_alloc(p->inputs[i].dtype, 0, NULL, 0, &in[i], &err), 0);
        ck_assert_int_eq(rt_array_alloc(p->outputs[i].dtype, 2, p->outputs[i].dims, 0, &got[i], &err), 0);
        enum cpu_dt t = cpu_dt_of(p->inputs[i].dtype);
        cpu_num_store(t, in[i].data, cpu_num_convert(CPU_F64, t, (struct cpu_num){.re = x}));
    }
    ck_assert_msg(hlo_eval_run(b.eval, NF_STR(""), in, 2, want, 2, &err) == 0, "%s", err.message);
    for (int threads = 1; threads <= 3; threads++) {
        cpu_pool_set_threads(threads);
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){in[0].data, in[1].data}, (void *[]){got[0].data, got[1].data}, &err), 0);
        for (int64_t k = 0; k < COUNT && strcmp(draws[_i].how, "UNIFORM") == 0 && nf_dtype_is_float(got[0].dtype); k++) {
            double x = nf_elem_to_double(got[0].dtype, (const char *)got[0].data + (size_t)k * nf_dtype_bytes(got[0].dtype));
            ck_assert_msg(x == draws[_i].a || (x > draws[_i].a && x < draws[_i].b), "%g of %s", x, draws[_i].type);
        }
        for (int i = 0; i < 2; i++) ck_assert_msg(memcmp(got[i].data, want[i].data, want[i].bytes) == 0, "draw %d of %s on %d threads", i, draws[_i].type, threads);
    }
    for (int i = 0; i < 2; i++) {
        rt_array_done(&in[i]);
        rt_array_done(&want[i]);
        rt_array_done(&got[i]);
    }
    rt_program_unload(p);
    done(&b);
}
END_TEST

/* Nobody waits for another here, so the members may run one after the other. */
START_TEST(members_are_processes)
{
    struct both b;
    struct nf_error err = {0};
    struct hlo_eval_group *group[4];
    float seen[4][COUNT];
    build(&b, 2, 2, "f32", "UNIFORM");
    for (uint32_t r = 0; r < 4; r++) ck_assert_int_eq(hlo_eval_group_join("rng", 2, 2, r, &group[r], &err), 0);
    for (uint32_t r = 0; r < 4; r++) {
        struct rt_program *p;
        struct rt_array want[2];
        struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
        float a = 0, c = 1, got[2][COUNT];
        const struct rt_array in[2] = {{.dtype = NF_DT_F32, .data = &a, .bytes = 4}, {.dtype = NF_DT_F32, .data = &c, .bytes = 4}};
        o.rank = r;
        o.world_size = 4;
        o.group = "rng";
        ck_assert_msg(rt_program_load(device, nf_buf_str(&b.neff), &o, &p, &err) == 0, "%s", err.message);
        ck_assert_int_eq(rt_execute_host(p, (const void *[]){&a, &c}, (void *[]){got[0], got[1]}, &err), 0);
        ck_assert_msg(hlo_eval_run_member(b.eval, group[r], r, in, 2, want, 2, &err) == 0, "%s", err.message);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(memcmp(got[i], want[i].data, want[i].bytes), 0);
            rt_array_done(&want[i]);
        }
        ck_assert_int_ne(memcmp(got[0], got[1], sizeof got[0]), 0);
        memcpy(seen[r], got[0], sizeof got[0]);
        for (uint32_t k = 0; k < r; k++) ck_assert_int_ne(memcmp(seen[k], seen[r], sizeof seen[r]), 0);
        rt_program_unload(p);
    }
    for (uint32_t r = 0; r < 4; r++) hlo_eval_group_leave(group[r]);
    done(&b);
}
END_TEST

int main(void)
{
    struct nf_error err = {0};
    rt_device_register(&cpu_device_ops);
    if (rt_device_open("cpu", NULL, &device, &err)) return 1;
    Suite *s = suite_create("codegen-rng");
    TCase *c = tcase_create("rng");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, the_same_numbers, 0, NF_ARRAY_LEN(draws));
    tcase_add_test(c, members_are_processes);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    rt_device_close(device);
    return failed != 0;
}
