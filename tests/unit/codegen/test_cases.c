/* Text cases: tests/ir/codegen/NAME.mlir compiles (without machine code) to the plan in NAME.plan. With UPDATE=1 in the environment the
 * plans are written instead of compared. Every plan, every kernel in it, and the graphs of the
 * stages before also read back to what was printed. */
#include "base/file.h"
#include "pipeline/codegen/cg.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/plan.h"
#include "tests/unit/codegen/stages.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>

static char *names[256];
static int count;

static void kernels_read_back(struct nf_str plan)
{
    while (plan.data && plan.len) {
        struct nf_str l = nf_str_cut(&plan, '\n');
        if (!nf_str_starts(l, NF_STR("kernel "))) continue;
        struct nf_buf text = NF_BUF_INIT, again = NF_BUF_INIT;
        bool end = false;
        while (!end) {
            struct nf_str k = nf_str_cut(&plan, '\n');
            ck_assert(k.len > 4);
            end = nf_str_eq_c(k, "    end");
            nf_buf_add(&text, k.data + 4, k.len - 4);
            nf_buf_add_char(&text, '\n');
        }
        struct nf_arena *a = nf_arena_new(0);
        struct rp_prog *p;
        struct nf_error err = {0};
        ck_assert_msg(rp_parse(nf_buf_str(&text), a, &p, &err) == 0, "%s", err.message);
        rp_print(p, &again);
        ck_assert_str_eq(again.data, text.data);
        nf_buf_done(&text);
        nf_buf_done(&again);
        nf_arena_free(a);
    }
}

/* A graph with a letter changed is refused or another graph, and what comes behind can do with that one. */
static void damaged_graph(struct nf_buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        struct cg_request q = {.interpret = true};
        struct cg_artifact art = {0};
        struct nf_error err = {0};
        char old = text->data[i];
        text->data[i] = (char)(old ^ (1 << i % 7));
        if (cg_build_text(nf_buf_str(text), &q, &art, &err) == 0) cg_artifact_done(&art);
        text->data[i] = old;
    }
}

START_TEST(plan_of)
{
    char path[512];
    struct nf_buf text = NF_BUF_INIT, want = NF_BUF_INIT, got = NF_BUF_INIT, why = NF_BUF_INIT;
    struct stages stages = {0};
    struct nf_error err = {0};
    struct hlo_module *m;
    struct cg_artifact art = {0};
    struct nf_arena *a = nf_arena_new(0);
    struct cg_request q = {.interpret = true, .features = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C | CPU_FEATURE_BMI, .print = stages_keep, .print_user = &stages};
    nf_format(path, sizeof path, "%s/%s.mlir", CASES, names[_i]);
    ck_assert_int_eq(nf_file_read(path, 1 << 20, &text, &err), 0);
    ck_assert_msg(hlo_parse(nf_buf_str(&text), NULL, a, &m, &err) == 0 && hlo_verify(m, &err) == 0, "%s: %s", path, err.message);
    ck_assert_msg(cg_build(m, &q, &art, &err) == 0, "%s: %s", path, err.message);
    ck_assert_msg(stages_read_back(&stages, &q, &why) == 0, "%s", why.data);
    damaged_graph(&stages.group);
    nf_buf_add_str(&got, nf_buf_str(&stages.plan));
    stages_done(&stages);
    kernels_read_back(nf_buf_str(&got));
    struct plan *plan;
    struct nf_buf again = NF_BUF_INIT;
    ck_assert_msg(plan_parse(nf_buf_str(&got), a, &plan, &err) == 0, "%s", err.message);
    plan_print(plan, &again);
    ck_assert_str_eq(again.data, got.data);
    for (size_t i = 0; i < got.len; i++) { /* a text with a letter changed is refused or another plan */
        char old = got.data[i];
        struct nf_arena *b = nf_arena_new(0);
        got.data[i] = (char)(old ^ (1 << i % 7));
        (void)plan_parse(nf_buf_str(&got), b, &plan, &err);
        got.data[i] = old;
        nf_arena_free(b);
    }
    nf_buf_done(&again);
    nf_format(path, sizeof path, "%s/%s.plan", CASES, names[_i]);
    if (getenv("UPDATE")) ck_assert_int_eq(nf_file_replace(path, nf_buf_str(&got), 0644, &err), 0);
    ck_assert_msg(nf_file_read(path, 1 << 20, &want, &err) == 0, "%s", err.message);
    ck_assert_str_eq(got.data, want.data);
    cg_artifact_done(&art);
    nf_arena_free(a);
    nf_buf_done(&text);
    nf_buf_done(&want);
    nf_buf_done(&got);
}
END_TEST

static const struct {
    const char *why, *where, *text;
} refused[] = {
    {"stablehlo.set_dimension_size: a dimension that is known only at run time", "2:8",
     "func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>> {\n"
     "  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>\n"
     "  return %0 : tensor<?xf32, #stablehlo.bounds<4>>\n}\n"},
    {"stablehlo.set_dimension_size: a size that is known only at run time", "2:8",
     "func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<2xf32> {\n"
     "  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>\n"
     "  return %0 : tensor<2xf32>\n}\n"},
    {"stablehlo.set_dimension_size: a size that does not fit its dimension", "3:8",
     "func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {\n"
     "  %n = stablehlo.constant dense<3> : tensor<i32>\n"
     "  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>\n"
     "  return %0 : tensor<2xf32>\n}\n"},
};

START_TEST(refused_by_name)
{
    struct nf_error err = {0};
    struct hlo_module *m;
    struct cg_artifact art = {0};
    struct nf_arena *a = nf_arena_new(0);
    struct cg_request q = {.interpret = true};
    ck_assert_msg(hlo_parse(nf_str_c(refused[_i].text), NULL, a, &m, &err) == 0 && hlo_verify(m, &err) == 0, "%s", err.message);
    ck_assert_int_eq(cg_build(m, &q, &art, &err), NF_EUNSUPPORTED);
    ck_assert_msg(strstr(err.message, refused[_i].why), "%s", err.message);
    ck_assert_str_eq(err.location, refused[_i].where);
    nf_arena_free(a);
}
END_TEST

#define HEAD "graph replicas=1 partitions=1 alias=-1\n%0:f32[4x6] = arg index=0\n%1:f32[6x3] = arg index=1\n"
#define DOT "dot %0 %1 loops=m4n3k6 a0=0+1l0 a1=0+1l2 b0=0+1l2 b1=0+1l1 c0=0+1l0 c1=0+1l1 stored"
static const struct {
    const char *good, *bad[8];
} shapes[] = {
    {"f32[6x4] = transpose %0 list=1,0", {"f32[6x4] = transpose %0 list=1,10", "f32[6x4] = transpose %0 list=1", "f32[6x4] = transpose %0 list=1,1", "f32[6x4] = transpose %0 list=0,1", "f32[6x4] = transpose %0", "i32[6x4] = transpose %0 list=1,0"}},
    {"f32[4x6x2] = broadcast %0 list=0,1", {"f32[4x6x2] = broadcast %0 list=0,3", "f32[4x6x2] = broadcast %0 list=0,-1", "f32[4x6x2] = broadcast %0 list=0", "f32[4x7x2] = broadcast %0 list=0,1", "f32[4x6x2] = broadcast %0 list=0,0"}},
    {"f32[2x6] = slice %0 list=1,0 step=2,1", {"f32[2x6] = slice %0 list=2,0 step=2,1", "f32[2x6] = slice %0 list=1,0 step=9223372036854775807,1", "f32[2x6] = slice %0 list=1,0", "f32[2x6] = slice %0 list=-1,0 step=1,1", "f32[2x6] = slice %0 step=1,1"}},
    {"f32[24] = reshape %0", {"f32[25] = reshape %0", "f32[24] = reshape %0 %1", "f32[24] = reshape", "f32[24] = reshape %2"}},
    {"f32[4] = reduce.sum %0 list=1", {"f32[6] = reduce.sum %0 list=1", "f32[4] = reduce.sum %0 list=2", "f32[4] = reduce.sum %0", "f32[] = reduce.sum %0 list=1,0"}},
    {"f32[4x6] = add %0 %0", {"f32[4x6] = add %0 %1", "f32[4x6] = add %0", "f32[4x6] = ld", "f32[4x6] = st %0", "f32[4x6] = sel %0 %0", "f32[24] = exp %0"}},
    {"f32[4x3] = " DOT, {"f32[4x2] = " DOT, "f32[4x3] = dot %0 %1", "f32[4x3] = dot %0 loops=m4n3k6", "f32[4x3] = dot %0 %1 loops=m4n3k7 a0=0+1l0 a1=0+1l2 b0=0+1l2 b1=0+1l1 c0=0+1l0 c1=0+1l1 stored"}},
    {"f32[2] = const data=0000000000000000", {"f32[2] = const data=00", "f32[2] = const", "f32[1000000] = const data=0000000000000000"}},
    {"f32[2x3] = iota index=1", {"f32[2x3] = iota index=2", "f32[] = iota"}},
};

START_TEST(graphs_that_do_not_hold)
{
    for (int i = -1; i < 8; i++) {
        const char *line = i < 0 ? shapes[_i].good : shapes[_i].bad[i];
        if (!line) continue;
        struct cg_request q = {.interpret = true};
        struct cg_artifact art = {0};
        struct nf_error err = {0};
        char *text = nf_asprintf("%s%%2:%s\n%%3:%.*s = copy %%2 stored output\nreturn %%3\n", HEAD, line, (int)strcspn(line, " "), line);
        int rc = cg_build_text(nf_str_c(text), &q, &art, &err);
        ck_assert_msg(rc == (i < 0 ? 0 : NF_EGRAPH), "%s: %d %s", line, rc, err.message);
        if (i >= 0) ck_assert_str_eq(err.location, "4:1");
        if (!rc) cg_artifact_done(&art);
        free(text);
    }
    for (int i = 0; i < 3; i++) {   /* results are computed into their buffers */
        struct cg_request q = {.interpret = true};
        struct cg_artifact art = {0};
        struct nf_error err = {0};
        char *text = nf_asprintf("%s%%2:f32[24] = %s\nreturn %s\n", HEAD, i == 1 ? "reshape %0 stored output" : i == 2 ? "splat num=1 stored output" : "reshape %0", i ? "%2" : "%0");
        ck_assert_int_eq(cg_build_text(nf_str_c(text), &q, &art, &err), NF_EGRAPH);
        ck_assert_str_eq(err.location, "5:1");
        free(text);
    }
    static const struct { const char *text, *where; } places[] = {
        {"graph replicas=1 partitions=1 alias=-1\n%0:f32[4] = arg index=0\n%1:f32[4] = arg index=0\n%2:f32[4] = copy %0 stored output\nreturn %2\n", "3:1"},
        {"graph replicas=1 partitions=1 alias=-1\n%0:f32[4] = arg index=0\n%1:f32[4] = copy %0 stored output\nreturn %1 %1\n", "4:1"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(places); i++) {   /* as many results as the head says; every argument once */
        struct cg_request q = {.interpret = true};
        struct cg_artifact art = {0};
        struct nf_error err = {0};
        ck_assert_int_eq(cg_build_text(nf_str_c(places[i].text), &q, &art, &err), NF_EGRAPH);
        ck_assert_str_eq(err.location, places[i].where);
    }
}
END_TEST

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(void)
{
    DIR *d = opendir(CASES);
    if (!d) return 1;
    for (struct dirent *e; (e = readdir(d)) && count < 256;) {
        size_t n = strlen(e->d_name);
        if (n > 5 && strcmp(e->d_name + n - 5, ".mlir") == 0) names[count++] = nf_strndup(e->d_name, n - 5);
    }
    closedir(d);
    qsort(names, (size_t)count, sizeof *names, by_name);
    Suite *s = suite_create("codegen-cases");
    TCase *c = tcase_create("cases");
    tcase_add_loop_test(c, plan_of, 0, count);
    tcase_add_loop_test(c, refused_by_name, 0, NF_ARRAY_LEN(refused));
    tcase_add_loop_test(c, graphs_that_do_not_hold, 0, NF_ARRAY_LEN(shapes));
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    for (int i = 0; i < count; i++) free(names[i]);
    return failed || count == 0 ? 1 : 0;
}
