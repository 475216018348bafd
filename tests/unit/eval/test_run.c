/* Whole programs: checks that fail, limits, observers, processes that meet or do not. */
#include "base/clock.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/passes.h"

#include <check.h>

struct seen {
    unsigned checks, failed, observed;
    char message[256];
};

static int on_check(void *user, const struct hlo_eval_check *c)
{
    struct seen *s = user;
    s->checks++;
    s->failed += !c->passed;
    if (!c->passed)
        nf_format(s->message, sizeof(s->message), "%s", c->message);
    return 0;
}

static int on_observe(void *user, const struct hlo_op *op, unsigned device, const struct rt_array *results, size_t n)
{
    (void)op, (void)device;
    ((struct seen *)user)->observed++;
    return n && results[0].dtype == NF_DT_F64 ? NF_ECANCELLED : 0;
}

static struct seen seen;
static struct nf_error error;

/* Runs @main without arguments; outputs are dropped. */
static int run(const char *text, const struct hlo_eval_options *o)
{
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct hlo_eval *e = NULL;
    struct hlo_eval_hooks hooks = {.user = &seen, .check = on_check};
    struct hlo_eval_options own = HLO_EVAL_OPTIONS_INIT;
    if (o)
        own = *o;
    if (!own.hooks)
        own.hooks = &hooks;
    memset(&seen, 0, sizeof(seen));
    memset(&error, 0, sizeof(error));
    int rc = hlo_parse(nf_str_c(text), NULL, a, &m, &error);
    ck_assert_msg(rc == 0, "%s: %s", error.location, error.message);
    ck_assert_msg(hlo_verify(m, &error) == 0, "%s: %s", error.location, error.message);
    rc = hlo_eval_new(m, &own, &e, &error);
    if (!rc) {
        size_t n = hlo_eval_num_outputs(e, NF_STR(""));
        struct rt_array out[8] = {0};
        ck_assert_uint_le(n, 8);
        rc = hlo_eval_run(e, NF_STR(""), NULL, 0, out, n, &error);
        for (size_t i = 0; i < n && !rc; i++)
            rt_array_done(&out[i]);
    }
    hlo_eval_free(e);
    nf_arena_free(a);
    return rc;
}

START_TEST(a_failed_check_is_reported_with_its_element)
{
    static const char text[] =
        "func.func @main() {\n"
        "  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n"
        "  check.expect_eq_const %a, dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n"
        "  check.expect_eq_const %a, dense<[[1, 2], [5, 4]]> : tensor<2x2xi32>\n"
        "  return\n}\n";
    ck_assert_int_eq(run(text, NULL), NF_EMISMATCH);
    ck_assert_uint_eq(seen.checks, 2);
    ck_assert_uint_eq(seen.failed, 1);
    ck_assert_ptr_nonnull(strstr(seen.message, "[1, 0]: 3 instead of 5"));
    ck_assert_str_eq(error.location, "4:3");
}
END_TEST

START_TEST(tolerances_mean_what_they_say)
{
#define FLOATS(check) "func.func @main() {\n %a = stablehlo.constant dense<1.0> : tensor<f32>\n %b = stablehlo.constant dense<0x3F800003> : tensor<f32>\n" check "\n return\n}\n"
    ck_assert_int_eq(run(FLOATS("check.expect_close %a, %b, max_ulp_difference = 3 : tensor<f32>, tensor<f32>"), NULL), 0);
    ck_assert_int_eq(run(FLOATS("check.expect_close %a, %b, max_ulp_difference = 2 : tensor<f32>, tensor<f32>"), NULL), NF_EMISMATCH);
    ck_assert_int_eq(run(FLOATS("check.expect_close %a, %b, max_ulp_difference = 9, min_ulp_difference = 4 : tensor<f32>, tensor<f32>"), NULL), NF_EMISMATCH);
    ck_assert_int_eq(run(FLOATS("check.expect_almost_eq %a, %b : tensor<f32>"), NULL), 0);
    ck_assert_int_eq(run(FLOATS("check.expect_eq %a, %b : tensor<f32>"), NULL), NF_EMISMATCH);
    ck_assert_int_eq(run("func.func @main() {\n %a = stablehlo.constant dense<0x7FC00000> : tensor<f32>\n check.expect_eq %a, %a : tensor<f32>\n return\n}\n", NULL), NF_EMISMATCH);
    ck_assert_int_eq(run("func.func @main() {\n %a = stablehlo.constant dense<0x7FC00000> : tensor<f32>\n check.expect_almost_eq %a, %a : tensor<f32>\n return\n}\n", NULL), 0);
}
END_TEST

static const char endless[] =
    "func.func @main() -> tensor<i32> {\n"
    "  %a = stablehlo.constant dense<0> : tensor<i32>\n"
    "  %t = stablehlo.constant dense<true> : tensor<i1>\n"
    "  %0 = stablehlo.while(%i = %a) : tensor<i32>\n"
    "   cond { stablehlo.return %t : tensor<i1> }\n"
    "   do { %1 = stablehlo.add %i, %i : tensor<i32>\n stablehlo.return %1 : tensor<i32> }\n"
    "  return %0 : tensor<i32>\n}\n";

START_TEST(time_memory_and_depth_end)
{
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    o.deadline_ns = nf_now_ns() + 50 * NF_MS;
    ck_assert_int_eq(run(endless, &o), NF_ETIMEOUT);
    o = HLO_EVAL_OPTIONS_INIT;
    o.memory_limit_bytes = 1 << 20;
    ck_assert_int_eq(run("func.func @main() -> tensor<1024x1024xf32> {\n %a = stablehlo.iota dim = 0 : tensor<1024x1024xf32>\n return %a : tensor<1024x1024xf32>\n}\n", &o), NF_ELIMIT);
    ck_assert_int_eq(run("func.func @main() -> tensor<i32> {\n %0 = call @main() : () -> tensor<i32>\n return %0 : tensor<i32>\n}\n", NULL), NF_ELIMIT);
    ck_assert_int_eq(run("func.func @main() -> tensor<4611686018427387904xf32> {\n %a = stablehlo.iota dim = 0 : tensor<4611686018427387904xf32>\n return %a : tensor<4611686018427387904xf32>\n}\n", NULL), NF_ELIMIT);
}
END_TEST

/* Many large temporaries, few at once: memory of dead values is given back. */
START_TEST(values_die_with_their_last_use)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_c(&b, "func.func @main() -> tensor<256x256xf32> {\n %0 = stablehlo.iota dim = 0 : tensor<256x256xf32>\n");
    for (int i = 1; i < 100; i++)
        nf_buf_addf(&b, " %%%d = stablehlo.transpose %%%d, dims = [1, 0] : (tensor<256x256xf32>) -> tensor<256x256xf32>\n", i, i - 1);
    nf_buf_add_c(&b, " return %99 : tensor<256x256xf32>\n}\n");
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    o.memory_limit_bytes = 2 * 256 * 256 * 4;
    ck_assert_msg(run(b.data, &o) == 0, "%s", error.message);
    o.memory_limit_bytes -= 4;
    ck_assert_int_eq(run(b.data, &o), NF_ELIMIT);
    nf_buf_done(&b);
}
END_TEST

START_TEST(a_value_that_is_still_needed_is_not_changed)
{
    static const char text[] =
        "func.func @main() {\n"
        "  %a = stablehlo.iota dim = 0 : tensor<4xi32>\n"
        "  %b = stablehlo.negate %a : tensor<4xi32>\n"
        "  %c = stablehlo.add %a, %b : tensor<4xi32>\n"
        "  check.expect_eq_const %c, dense<0> : tensor<4xi32>\n"
        "  %z = stablehlo.constant dense<1> : tensor<i32>\n"
        "  %u = stablehlo.constant dense<9> : tensor<1xi32>\n"
        "  %d = stablehlo.dynamic_update_slice %b, %u, %z : (tensor<4xi32>, tensor<1xi32>, tensor<i32>) -> tensor<4xi32>\n"
        "  check.expect_eq_const %b, dense<[0, -1, -2, -3]> : tensor<4xi32>\n"
        "  check.expect_eq_const %d, dense<[0, 9, -2, -3]> : tensor<4xi32>\n"
        "  %e = stablehlo.dynamic_update_slice %d, %u, %z : (tensor<4xi32>, tensor<1xi32>, tensor<i32>) -> tensor<4xi32>\n"
        "  %f = stablehlo.add %e, %e : tensor<4xi32>\n"
        "  check.expect_eq_const %f, dense<[0, 18, -4, -6]> : tensor<4xi32>\n"
        "  return\n}\n";
    ck_assert_msg(run(text, NULL) == 0, "%s", error.message);
    ck_assert_uint_eq(seen.checks, 4);
}
END_TEST

/* Bodies that are no list of scalar kernels run as blocks; captured values are seen. */
START_TEST(regions_may_hold_loops_and_captures)
{
    static const char text[] =
        "func.func @main() {\n"
        "  %a = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>\n"
        "  %z = stablehlo.constant dense<0> : tensor<i32>\n"
        "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
        "  %two = stablehlo.add %one, %one : tensor<i32>\n"
        "  %0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 0>}> ({\n"
        "   ^bb0(%x: tensor<i32>, %y: tensor<i32>):\n"
        "    %r = stablehlo.while(%i = %y, %s = %x) : tensor<i32>, tensor<i32>\n"
        "     cond { %c = stablehlo.compare GT, %i, %z, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n stablehlo.return %c : tensor<i1> }\n"
        "     do { %j = stablehlo.subtract %i, %one : tensor<i32>\n %t = stablehlo.add %s, %two : tensor<i32>\n stablehlo.return %j, %t : tensor<i32>, tensor<i32> }\n"
        "    stablehlo.return %r#1 : tensor<i32>\n"
        "   }) : (tensor<4xi32>, tensor<i32>) -> tensor<i32>\n"
        "  check.expect_eq_const %0, dense<20> : tensor<i32>\n"
        "  %1 = \"stablehlo.map\"(%a) <{dimensions = array<i64: 0>}> ({\n"
        "   ^bb0(%x: tensor<i32>):\n %r = stablehlo.multiply %x, %two : tensor<i32>\n stablehlo.return %r : tensor<i32>\n"
        "   }) : (tensor<4xi32>) -> tensor<4xi32>\n"
        "  check.expect_eq_const %1, dense<[2, 4, 6, 8]> : tensor<4xi32>\n"
        "  return\n}\n";
    static char fixed[4096];
    /* two results of a loop need a pack */
    const char *at = strstr(text, "%r = stablehlo.while");
    nf_format(fixed, sizeof(fixed), "%.*s%%r:2 =%s", (int)(at - text), text, at + 4);
    ck_assert_msg(run(fixed, NULL) == 0, "%s: %s", error.location, error.message);
    ck_assert_uint_eq(seen.checks, 2);
}
END_TEST

START_TEST(processes_that_cannot_meet_are_told)
{
    static const char text[] =
        "module @m {\n"
        " func.func @reduce(%a: tensor<2xi64>) -> tensor<2xi64> {\n"
        "  %0 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n"
        "   ^bb0(%x: tensor<i64>, %y: tensor<i64>):\n %r = stablehlo.add %x, %y : tensor<i64>\n stablehlo.return %r : tensor<i64>\n"
        "  }) : (tensor<2xi64>) -> tensor<2xi64>\n  return %0 : tensor<2xi64>\n }\n"
        " func.func @idle(%a: tensor<2xi64>) -> tensor<2xi64> {\n  return %a : tensor<2xi64>\n }\n"
        " func.func @main() {\n"
        "  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>\n"
        "  %0:2 = \"interpreter.run_parallel\"(%a, %a) {programs = [[@reduce], [@%s]]} : (tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)\n"
        "  check.expect_eq_const %0#1, dense<[2, 4]> : tensor<2xi64>\n"
        "  return\n }\n}\n";
    const char *hole = strstr(text, "%s");
    char full[2048];
    nf_format(full, sizeof(full), "%.*sreduce%s", (int)(hole - text), text, hole + 2);
    for (int i = 0; i < 50; i++)
        ck_assert_msg(run(full, NULL) == 0, "%s", error.message);
    nf_format(full, sizeof(full), "%.*sidle%s", (int)(hole - text), text, hole + 2);
    ck_assert_int_eq(run(full, NULL), NF_EGRAPH);
    ck_assert_ptr_nonnull(strstr(error.message, "wait"));
}
END_TEST

/* Axes of a mesh name the groups: whole axes, in any order, parts of one, and a mesh whose devices stand elsewhere. */
START_TEST(groups_by_mesh_axes)
{
#define GATHER(n, mesh, manual, in, axes, n_out, out)                                                                                                        \
    "  %" #n " = sdy.manual_computation(%x) in_shardings=[<@" mesh ", [{" in "}]>] out_shardings=[<@" mesh ", [{" out "}]>] manual_axes={" manual "} (%p: tensor<1xi64>) {\n" \
    "   %g = \"stablehlo.all_gather\"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, "   \
    "replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @" mesh ", axes = [" axes "]>}> : (tensor<1xi64>) -> tensor<" #n_out "xi64>\n"                  \
    "   sdy.return %g : tensor<" #n_out "xi64>\n  } : (tensor<4xi64>) -> tensor<4xi64>\n"
#define AXIS(name) "#stablehlo.axis_ref<name = \"" name "\">"
    static const char text[] =
        "module @m {\n"
        " sdy.mesh @grid = <[\"a\"=2, \"b\"=2]>\n sdy.mesh @line = <[\"d\"=4]>\n sdy.mesh @back = <[\"d\"=4], device_ids=[3, 2, 1, 0]>\n"
        " func.func @main() {\n"
        "  %x = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi64>\n"
        GATHER(0, "grid", "\"a\", \"b\"", "\"a\", \"b\"", AXIS("b"), 2, "\"a\"")
        "  check.expect_eq_const %0, dense<[0, 1, 2, 3]> : tensor<4xi64>\n"
        GATHER(1, "grid", "\"a\", \"b\"", "\"a\", \"b\"", AXIS("a"), 2, "\"b\"")
        "  check.expect_eq_const %1, dense<[0, 2, 1, 3]> : tensor<4xi64>\n"
        GATHER(2, "grid", "\"a\", \"b\"", "\"a\", \"b\"", AXIS("b") ", " AXIS("a"), 4, "")
        "  check.expect_eq_const %2, dense<[0, 2, 1, 3]> : tensor<4xi64>\n"
        GATHER(3, "line", "\"d\"", "\"d\"", "#stablehlo.axis_ref<name = \"d\", sub_axis_info = (1)2>", 2, "\"d\":(2)2")
        "  check.expect_eq_const %3, dense<[0, 2, 1, 3]> : tensor<4xi64>\n"
        GATHER(4, "back", "\"d\"", "\"d\"", AXIS("d"), 4, "")
        "  check.expect_eq_const %4, dense<[0, 1, 2, 3]> : tensor<4xi64>\n"
        "  %5 = sdy.manual_computation(%x) in_shardings=[<@back, [{\"d\"}]>] out_shardings=[<@back, [{\"d\"}]>] manual_axes={\"d\"} (%p: tensor<1xi64>) {\n"
        "   %i = stablehlo.partition_id : tensor<ui32>\n   %r = stablehlo.reshape %i : (tensor<ui32>) -> tensor<1xui32>\n   %c = stablehlo.convert %r : (tensor<1xui32>) -> tensor<1xi64>\n"
        "   sdy.return %c : tensor<1xi64>\n  } : (tensor<4xi64>) -> tensor<4xi64>\n"
        "  check.expect_eq_const %5, dense<[3, 2, 1, 0]> : tensor<4xi64>\n"
        "  return\n }\n}\n";
    ck_assert_msg(run(text, NULL) == 0, "%s: %s %s", error.location, error.message, seen.message);
    ck_assert_uint_eq(seen.checks, 6);
    char wrong[sizeof(text)];
    nf_format(wrong, sizeof(wrong), "%s", text);
    memcpy(strstr(wrong, "(1)2>"), "(3)2>", 5); /* 4 has no part of 2 behind 3 */
    ck_assert_int_eq(run(wrong, NULL), NF_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "mesh axes"));
}
END_TEST

/* Regions combine quantised elements in their storage, each step rounded and kept in range: 40 + 40 is 63, the largest value there is. */
START_TEST(regions_combine_quantised_elements)
{
#define Q "!q"
#define ALIASES "!q = !quant.uniform<i8:f32, 0.5:1>\n!w = !quant.uniform<i32:f32, 0.5:1>\n"
#define BODY(op) "{\n  ^bb0(%p: tensor<" Q ">, %q: tensor<" Q ">):\n   %r = stablehlo." op " %p, %q : tensor<" Q ">\n   stablehlo.return %r : tensor<" Q ">\n  }"
#define COMPARE(how) "{\n  ^bb0(%p: tensor<" Q ">, %q: tensor<" Q ">):\n   %r = stablehlo.compare " how ", %p, %q : (tensor<" Q ">, tensor<" Q ">) -> tensor<i1>\n   stablehlo.return %r : tensor<i1>\n  }"
#define EXPECT(v, n, values) "  %f" #v " = stablehlo.uniform_dequantize %" #v " : (tensor<" n Q ">) -> tensor<" n "f32>\n  check.expect_eq_const %f" #v ", dense<" values "> : tensor<" n "f32>\n"
    static const char text[] = ALIASES
        "func.func @main() {\n"
        "  %c = stablehlo.constant dense<[40.0, 40.0, -10.0, 2.5]> : tensor<4xf32>\n  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %x = stablehlo.uniform_quantize %c : (tensor<4xf32>) -> tensor<4x" Q ">\n  %i = stablehlo.uniform_quantize %z : (tensor<f32>) -> tensor<" Q ">\n"
        "  %0 = \"stablehlo.reduce\"(%x, %i) <{dimensions = array<i64: 0>}> (" BODY("add") ") : (tensor<4x" Q ">, tensor<" Q ">) -> tensor<" Q ">\n"
        EXPECT(0, "", "55.5")
        "  %1 = \"stablehlo.reduce_window\"(%x, %i) <{window_dimensions = array<i64: 2>}> (" BODY("maximum") ") : (tensor<4x" Q ">, tensor<" Q ">) -> tensor<3x" Q ">\n"
        EXPECT(1, "3x", "[40.0, 40.0, 2.5]")
        "  %2 = \"stablehlo.map\"(%x, %x) <{dimensions = array<i64: 0>}> (" BODY("add") ") : (tensor<4x" Q ">, tensor<4x" Q ">) -> tensor<4x" Q ">\n"
        EXPECT(2, "4x", "[63.0, 63.0, -20.0, 5.0]")
        "  %3 = \"stablehlo.sort\"(%x) <{dimension = 0 : i64}> (" COMPARE("LT") ") : (tensor<4x" Q ">) -> tensor<4x" Q ">\n"
        EXPECT(3, "4x", "[-10.0, 2.5, 40.0, 40.0]")
        "  %n = stablehlo.constant dense<[[1], [1], [3]]> : tensor<3x1xi64>\n  %u = stablehlo.slice %x [1:4] : (tensor<4x" Q ">) -> tensor<3x" Q ">\n"
        "  %4 = \"stablehlo.scatter\"(%x, %n, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> (" BODY("add")
        ") : (tensor<4x" Q ">, tensor<3x1xi64>, tensor<3x" Q ">) -> tensor<4x" Q ">\n"
        EXPECT(4, "4x", "[40.0, 53.0, -10.0, 5.0]")
        "  %t = stablehlo.slice %x [2:4] : (tensor<4x" Q ">) -> tensor<2x" Q ">\n"
        "  %5 = \"stablehlo.select_and_scatter\"(%x, %t, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> (" COMPARE("GE") ", " BODY("add")
        ") : (tensor<4x" Q ">, tensor<2x" Q ">, tensor<" Q ">) -> tensor<4x" Q ">\n"
        EXPECT(5, "4x", "[-10.0, 0.0, 0.0, 2.5]")
        "  %6 = \"stablehlo.all_reduce\"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}> (" BODY("add") ") : (tensor<4x" Q ">) -> tensor<4x" Q ">\n"
        EXPECT(6, "4x", "[40.0, 40.0, -10.0, 2.5]")
        "  return\n}\n";
    ck_assert_msg(run(text, NULL) == 0, "%s: %s %s", error.location, error.message, seen.message);
    ck_assert_uint_eq(seen.checks, 7);
}
END_TEST

/* A body may take a wider type than the operand has: quantised or not, elements become that first. */
START_TEST(operands_are_promoted_to_what_the_region_takes)
{
#define WIDE "!w"
    static const char text[] = ALIASES
        "func.func @main() {\n"
        "  %c = stablehlo.constant dense<[40.0, 40.0, -10.0, 2.5]> : tensor<4xf32>\n  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %x = stablehlo.uniform_quantize %c : (tensor<4xf32>) -> tensor<4x" Q ">\n  %i = stablehlo.uniform_quantize %z : (tensor<f32>) -> tensor<" Q ">\n"
        "  %0 = \"stablehlo.reduce\"(%x, %i) <{dimensions = array<i64: 0>}> ({\n  ^bb0(%p: tensor<" WIDE ">, %q: tensor<" WIDE ">):\n   %r = stablehlo.add %p, %q : tensor<" WIDE ">\n"
        "   stablehlo.return %r : tensor<" WIDE ">\n  }) : (tensor<4x" Q ">, tensor<" Q ">) -> tensor<" WIDE ">\n"
        "  %f = stablehlo.uniform_dequantize %0 : (tensor<" WIDE ">) -> tensor<f32>\n  check.expect_eq_const %f, dense<72.5> : tensor<f32>\n"
        "  %h = stablehlo.constant dense<[100, 100, 3]> : tensor<3xi8>\n  %k = stablehlo.constant dense<0> : tensor<i8>\n"
        "  %1 = \"stablehlo.reduce\"(%h, %k) <{dimensions = array<i64: 0>}> ({\n  ^bb0(%p: tensor<i32>, %q: tensor<i32>):\n   %r = stablehlo.add %p, %q : tensor<i32>\n"
        "   stablehlo.return %r : tensor<i32>\n  }) : (tensor<3xi8>, tensor<i8>) -> tensor<i32>\n"
        "  check.expect_eq_const %1, dense<203> : tensor<i32>\n"
        "  return\n}\n";
    ck_assert_msg(run(text, NULL) == 0, "%s: %s %s", error.location, error.message, seen.message);
    ck_assert_uint_eq(seen.checks, 2);
}
END_TEST

/* The diagonal of a matrix whose size only its run knows. */
START_TEST(a_deprecated_einsum_takes_shapes_of_run_time)
{
    static const char text[] =
        "func.func @main() {\n"
        "  %a = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>\n  %s = stablehlo.constant dense<2> : tensor<2xi32>\n"
        "  %x = stablehlo.dynamic_reshape %a, %s : (tensor<2x2xf32>, tensor<2xi32>) -> tensor<?x?xf32>\n"
        "  %d = stablehlo.unary_einsum %x, config = \"aa->a\" : (tensor<?x?xf32>) -> tensor<?xf32>\n"
        "  %n = stablehlo.constant dense<2> : tensor<1xi32>\n  %r = stablehlo.dynamic_reshape %d, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<2xf32>\n"
        "  check.expect_eq_const %r, dense<[1.0, 4.0]> : tensor<2xf32>\n"
        "  return\n}\n";
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct nf_buf clean = NF_BUF_INIT;
    ck_assert_msg(!hlo_parse(nf_str_c(text), NULL, a, &m, &error), "%s", error.message);
    ck_assert_msg(!hlo_pass_legalise(m, &error), "%s", error.message);
    ck_assert_int_eq(hlo_print(m, HLO_PRETTY, &clean), 0);
    nf_buf_add_char(&clean, 0);
    ck_assert_msg(run(clean.data, NULL) == 0, "%s: %s %s", error.location, error.message, seen.message);
    ck_assert_uint_eq(seen.checks, 1);
    nf_buf_done(&clean);
    nf_arena_free(a);
}
END_TEST

START_TEST(observers_see_results_and_can_stop)
{
    struct hlo_eval_hooks hooks = {.user = &seen, .observe = on_observe};
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    o.hooks = &hooks;
    static const char text[] =
        "func.func @main() {\n %a = stablehlo.constant dense<1.0> : tensor<f32>\n %b = stablehlo.negate %a : tensor<f32>\n"
        " %c = stablehlo.convert %b : (tensor<f32>) -> tensor<f64>\n %d = stablehlo.negate %c : tensor<f64>\n return\n}\n";
    ck_assert_int_eq(run(text, &o), NF_ECANCELLED);
    ck_assert_uint_eq(seen.observed, 3);
}
END_TEST

START_TEST(shapes_of_run_time_are_followed)
{
    static const char text[] =
        "func.func @main() {\n"
        "  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>\n"
        "  %0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<?x?xi32>\n"
        "  %n = stablehlo.get_dimension_size %0, dim = 1 : (tensor<?x?xi32>) -> tensor<i32>\n"
        "  check.expect_eq_const %n, dense<3> : tensor<i32>\n"
        "  %1 = stablehlo.add %0, %0 : tensor<?x?xi32>\n"
        "  %t = stablehlo.constant dense<[6]> : tensor<1xi64>\n"
        "  %2 = stablehlo.dynamic_reshape %1, %t : (tensor<?x?xi32>, tensor<1xi64>) -> tensor<6xi32>\n"
        "  check.expect_eq_const %2, dense<[0, 2, 4, 0, 2, 4]> : tensor<6xi32>\n"
        "  %bad = stablehlo.constant dense<[7]> : tensor<1xi64>\n"
        "  %3 = stablehlo.dynamic_reshape %1, %bad : (tensor<?x?xi32>, tensor<1xi64>) -> tensor<?xi32>\n"
        "  return\n}\n";
    ck_assert_int_eq(run(text, NULL), NF_EGRAPH);
    ck_assert_uint_eq(seen.checks, 2);
    ck_assert_uint_eq(seen.failed, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval-run");
    TCase *t = tcase_create("run");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_failed_check_is_reported_with_its_element);
    tcase_add_test(t, tolerances_mean_what_they_say);
    tcase_add_test(t, time_memory_and_depth_end);
    tcase_add_test(t, values_die_with_their_last_use);
    tcase_add_test(t, a_value_that_is_still_needed_is_not_changed);
    tcase_add_test(t, regions_may_hold_loops_and_captures);
    tcase_add_test(t, processes_that_cannot_meet_are_told);
    tcase_add_test(t, groups_by_mesh_axes);
    tcase_add_test(t, regions_combine_quantised_elements);
    tcase_add_test(t, operands_are_promoted_to_what_the_region_takes);
    tcase_add_test(t, a_deprecated_einsum_takes_shapes_of_run_time);
    tcase_add_test(t, observers_see_results_and_can_stop);
    tcase_add_test(t, shapes_of_run_time_are_followed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
