/* From bytes to an artifact for cpu, and what the key is made of. */
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"
#include "proto/neffd.pb-c.h"
#include "runtime/neff.h"

#include "base/file.h"

#include <check.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct nf_error err;
static struct nf_arena *arena;
static char dir[64], neff_path[256];

static void setup(void)
{
    arena = nf_arena_new(0);
    nf_format(dir, sizeof(dir), "/tmp/import-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    target_register(&target_cpu);
}
static void teardown(void)
{
    nf_arena_free(arena);
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    nf_remove_tree(fd, dir + strlen("/tmp/"));
    close(fd);
}

#define PROGRAM(x, y) "module @m {\n  func.func public @main(%" x ": tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %k: tensor<i64>) -> (tensor<2x3xf32>) {\n" \
                      "    %" y " = stablehlo.add %" x ", %" x " : tensor<2x3xf32>\n    return %" y " : tensor<2x3xf32>\n  }\n}\n"

static struct pipe_graph *import(struct nf_str text)
{
    struct pipe_graph *g = NULL;
    ck_assert_msg(pipe_import(text, PIPE_KIND_UNKNOWN, "f.mlir", NULL, arena, &g, &err) == 0, "%s %s", err.location, err.message);
    return g;
}

START_TEST(kinds_are_told_from_the_first_bytes)
{
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("// hello\n  module {}")), PIPE_KIND_STABLEHLO_TEXT);
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("#loc = loc(\"x\")\nmodule {}")), PIPE_KIND_STABLEHLO_TEXT);
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("func.func @main() { return }")), PIPE_KIND_STABLEHLO_TEXT);
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("modul {")), PIPE_KIND_STABLEHLO_TEXT);      /* so that the parser says what is wrong */
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("ML\xefR\x06")), PIPE_KIND_STABLEHLO_BYTECODE);
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("")), PIPE_KIND_UNKNOWN);
    ck_assert_int_eq(pipe_kind_sniff(nf_str_n("\0\0\0\0", 4)), PIPE_KIND_UNKNOWN);
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("\x7f" "ELF\x02\x01")), PIPE_KIND_UNKNOWN);
    /* HloModuleProto { name: "m" entry: "main" computations { name: "main" } } */
    ck_assert_int_eq(pipe_kind_sniff(NF_STR("\x0a\x01m\x12\x04main\x1a\x06\x0a\x04main")), PIPE_KIND_HLO_PROTO);
}
END_TEST

START_TEST(stages_and_kinds_are_those_of_the_wire)
{
    ck_assert_int_eq(PIPE_STAGE_IMPORT, NEFFD__V1__STAGE__STAGE_IMPORT);
    ck_assert_int_eq(PIPE_STAGE_STABLEHLO, NEFFD__V1__STAGE__STAGE_STABLEHLO);
    ck_assert_int_eq(PIPE_STAGE_COMPILE, NEFFD__V1__STAGE__STAGE_COMPILE);
    ck_assert_int_eq(PIPE_STAGE_PUBLISH, NEFFD__V1__STAGE__STAGE_PUBLISH);
    ck_assert_int_eq(PIPE_KIND_FX_GRAPH, NEFFD__V1__INPUT_KIND__INPUT_KIND_FX_GRAPH);
    ck_assert_int_eq(PIPE_KIND_HLO_PROTO, NEFFD__V1__INPUT_KIND__INPUT_KIND_HLO_PROTO);
}
END_TEST

static struct nf_str structure(struct pipe_graph *g, size_t *ret_ops)
{
    struct target_id id;
    const struct pipe_component *c;
    size_t n;
    ck_assert_int_eq(target_cpu.identify(NULL, &id, &err), 0);
    pipe_components(g, &id, NULL, 0, NULL, 0, NF_STR(""), NF_STR(""), arena, &c, &n);
    struct nf_str key = {0};
    *ret_ops = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(c[i].component, "structure") == 0 && c[i].name[0] == 0)
            key = c[i].value;
        *ret_ops += strncmp(c[i].name, "op ", 3) == 0;
    }
    return key;
}

START_TEST(names_do_not_count)
{
    size_t a, b, c;
    struct nf_str one = structure(import(NF_STR(PROGRAM("arg0", "0"))), &a), two = structure(import(NF_STR(PROGRAM("left", "sum"))), &b);
    ck_assert_uint_eq(one.len, 64);
    ck_assert(nf_str_eq(one, two));
    ck_assert_uint_ge(a, 1);
    ck_assert_uint_eq(a, b);
    struct nf_str three = structure(import(NF_STR("module { func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> { return %a : tensor<2x3xf32> } }")), &c);
    ck_assert(!nf_str_eq(one, three));
}
END_TEST

/* A deprecated operation and what replaced it are one program. */
START_TEST(einsum_is_a_product)
{
    static const char einsum[] = "func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32> {\n  %0 = stablehlo.einsum %a, %b, config = \"ab,bc->ca\" : "
                                 "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>\n  return %0 : tensor<4x2xf32>\n}\n";
    static const char product[] = "func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32> {\n  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
                                  "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>\n  return %1 : "
                                  "tensor<4x2xf32>\n}\n";
    struct pipe_graph *a, *b;
    ck_assert_msg(pipe_import(nf_str_c(einsum), PIPE_KIND_UNKNOWN, "a", NULL, arena, &a, &err) == 0, "%s", err.message);
    ck_assert_msg(pipe_import(nf_str_c(product), PIPE_KIND_UNKNOWN, "b", NULL, arena, &b, &err) == 0, "%s", err.message);
    ck_assert(nf_digest_eq(&a->key, &b->key));
}
END_TEST

START_TEST(errors_name_the_file_and_the_stage)
{
    struct pipe_graph *g = NULL;
    ck_assert_int_lt(pipe_import(NF_STR("module {\n  nonsense\n}\n"), PIPE_KIND_UNKNOWN, "f.mlir", NULL, arena, &g, &err), 0);
    ck_assert_msg(strncmp(err.location, "f.mlir:2:", 9) == 0, "%s", err.location);
    ck_assert_int_eq(err.stage, PIPE_STAGE_IMPORT);
    ck_assert_int_eq(pipe_import(NF_STR(""), PIPE_KIND_UNKNOWN, "", NULL, arena, &g, &err), NF_EGRAPH);
    ck_assert_int_eq(pipe_import(NF_STR("\x01\x02\x03"), PIPE_KIND_UNKNOWN, "", NULL, arena, &g, &err), NF_EGRAPH);
}
END_TEST

static void take(void *user, const char *kind, const char *path)
{
    (void)user;
    if (strcmp(kind, "neff") == 0)
        nf_format(neff_path, sizeof(neff_path), "%s", path);
}

START_TEST(cpu_makes_a_neff_that_says_what_it_takes)
{
    struct pipe_graph *g = import(NF_STR(PROGRAM("x", "y")));
    struct target_id id;
    ck_assert_int_eq(target_cpu.identify(NULL, &id, &err), 0);
    ck_assert_str_eq(id.compiler, "neffd-cpu " NEFFD_VERSION);
    struct compile_input in = {.graph = g, .target = "cpu", .id = &id, .work_dir = dir};
    struct compile_sink sink = {.artifact = take};
    for (int again = 0; again < 2; again++)
        ck_assert_msg(pipe_compile(&in, &sink, &err) == 0, "%s", err.message);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(neff_path, 1 << 20, &b, &err), 0);
    struct neff *n = NULL;
    ck_assert_msg(neff_open(nf_buf_str(&b), &n, &err) == 0, "%s", err.message);
    const struct rt_tensor *ins, *outs;
    ck_assert_uint_eq(neff_inputs(n, &ins), 2);
    ck_assert_uint_eq(neff_outputs(n, &outs), 1);
    ck_assert_int_eq(ins[1].dtype, NF_DT_S64);
    ck_assert_uint_eq(ins[0].bytes, 24);
    ck_assert_int_eq(outs[0].alias, 0);
    ck_assert_str_eq(neff_target(n), "cpu");
    neff_close(n);
    nf_buf_done(&b);
}
END_TEST

/* At compile time, at the line that the user wrote, however the artifact would have been made; a mark that changes nothing is let through. */
START_TEST(cpu_refuses_what_nothing_here_runs)
{
    static const char text[] = "module @m {\n  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n    %c = stablehlo.negate %a : tensor<4xf32>\n\n"
                               "    %0 = stablehlo.custom_call @%s(%c) : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n";
    const struct pipe_option modes[] = {{"native", NF_STR("auto")}, {"native", NF_STR("0")}, {"native", NF_STR("1")}};
    struct target_id id;
    ck_assert_int_eq(target_cpu.identify(NULL, &id, &err), 0);
    const char *hole = strstr(text, "%s");
    for (size_t i = 0; i < 3; i++)
        for (int known = 0; known < 2; known++) {
            char full[1024];
            nf_format(full, sizeof(full), "%.*s%s%s", (int)(hole - text), text, known ? "LayoutConstraint" : "my_kernel", hole + 2);
            struct compile_input in = {.graph = import(nf_str_c(full)), .target = "cpu", .id = &id, .work_dir = dir, .options = &modes[i], .option_count = 1};
            struct compile_sink sink = {.artifact = take};
            memset(&err, 0, sizeof(err));
            int r = pipe_compile(&in, &sink, &err);
            if (known) {
                ck_assert_msg(r == 0, "%s", err.message);
                continue;
            }
            ck_assert_int_eq(r, NF_EUNSUPPORTED);
            ck_assert_msg(strstr(err.message, "my_kernel") != NULL, "%s", err.message);
            ck_assert_str_eq(err.location, "5:10");
        }
}
END_TEST

START_TEST(cpu_knows_its_options)
{
    struct target_id id = {.target = "cpu"};
    const struct pipe_option *o;
    size_t n;
    struct pipe_option good[] = {{"optlevel", NF_STR("1")}, {"env:XLA_IR_DEBUG", NF_STR("1")}, {"optlevel", NF_STR("2")}};
    ck_assert_int_eq(target_cpu_options(&id, good, 3, arena, &o, &n, &err), 0);
    for (size_t i = 0; i < n; i++)
        if (strcmp(o[i].name, "optlevel") == 0)
            ck_assert(nf_str_eq_c(o[i].value, "2"));
    struct pipe_option bad[] = {{"model-type", NF_STR("transformer")}};
    ck_assert_int_eq(target_cpu_options(&id, bad, 1, arena, &o, &n, &err), NF_EINVAL);
    ck_assert_str_ne(err.hint, "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pipeline-import");
    TCase *t = tcase_create("import");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, kinds_are_told_from_the_first_bytes);
    tcase_add_test(t, stages_and_kinds_are_those_of_the_wire);
    tcase_add_test(t, names_do_not_count);
    tcase_add_test(t, einsum_is_a_product);
    tcase_add_test(t, errors_name_the_file_and_the_stage);
    tcase_add_test(t, cpu_makes_a_neff_that_says_what_it_takes);
    tcase_add_test(t, cpu_refuses_what_nothing_here_runs);
    tcase_add_test(t, cpu_knows_its_options);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
