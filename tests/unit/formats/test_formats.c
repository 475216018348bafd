/* Text, portable bytecode and HLO protobuf hold the same programs; damaged bytes are errors, never more. */
#include "pipeline/hlo/bytecode.h"
#include "pipeline/hlo/hlo_proto_internal.h"

#include "tests/unit/formats/programs.h"

#include <check.h>
#include <stdlib.h>

static struct nf_arena *arena;

static void set_up(void) { arena = nf_arena_new(0); }
static void tear_down(void) { nf_arena_free(arena); }

static struct hlo_module *parsed(const char *text)
{
    struct hlo_module *m;
    struct nf_error err = {0};
    int e = hlo_parse(nf_str_c(text), NULL, arena, &m, &err);
    ck_assert_msg(!e, "%s: %s", err.location, err.message);
    e = hlo_verify(m, &err);
    ck_assert_msg(!e, "%s: %s", err.location, err.message);
    return m;
}

static struct nf_str canonical(struct hlo_module *m)
{
    struct nf_error err = {0};
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_msg(!hlo_verify(m, &err), "%s: %s", err.location, err.message);
    ck_assert_msg(!hlo_canonicalise(m, &err), "%s", err.message);
    ck_assert_int_eq(hlo_print_canonical(m, &b, NULL), 0);
    struct nf_str s = nf_arena_str(arena, nf_buf_str(&b));
    nf_buf_done(&b);
    return s;
}

START_TEST(bytecode_of_any_version_reads_to_the_same_program)
{
    static const char *const versions[] = {"1.0.0", "1.1.0", "1.4.0", "1.6.0", "1.9.0", "1.10.0", "1.14.0", "1.17.0", "1.20.0"};
    for (size_t v = 0; v < NF_ARRAY_LEN(versions); v++) {
        struct nf_buf out = NF_BUF_INIT;
        struct nf_error err = {0};
        struct hlo_module *back;
        ck_assert_msg(!hlo_bytecode_write(parsed(programs[_i]), versions[v], v % 2, &out, &err), "%s: %s", versions[v], err.message);
        struct nf_str bytes = nf_arena_str(arena, nf_buf_str(&out));
        nf_buf_done(&out);
        ck_assert_msg(!hlo_bytecode_read(bytes, NULL, arena, &back, &err), "%s: %s (%s)", versions[v], err.message, err.location);
        struct nf_str want = canonical(parsed(programs[_i])), got = canonical(back);
        ck_assert_msg(nf_str_eq(want, got), "%s:\n%.*s\n%.*s", versions[v], NF_STR_ARG(want), NF_STR_ARG(got));
    }
}
END_TEST

START_TEST(hlo_protobuf_reads_back_to_what_was_written)
{
    struct nf_error err = {0};
    struct nf_str first = {0}, bytes;
    struct hlo_module *m = parsed(programs[_i]);
    for (int round = 0; round < 2; round++) {
        struct nf_buf out = NF_BUF_INIT;
        ck_assert_msg(!hlo_proto_write(m, &out, &err), "%s (%s)", err.message, err.location);
        bytes = nf_arena_str(arena, nf_buf_str(&out));
        nf_buf_done(&out);
        ck_assert_msg(!hlo_proto_read(bytes, NULL, arena, &m, &err), "%s (%s)", err.message, err.location);
        struct hlo_module *again;
        ck_assert(!hlo_proto_read(bytes, NULL, arena, &again, &err));
        struct nf_str c = canonical(again);
        if (round == 0)
            first = c;
        else
            ck_assert_msg(nf_str_eq(first, c), "%.*s\n%.*s", (int)NF_MIN(first.len, 1500u), first.data, (int)NF_MIN(c.len, 1500u), c.data);
    }
}
END_TEST

/* What XLA and Shardy write for what HLO has no operation for: seen in modules that JAX exported. */
START_TEST(hlo_protobuf_says_it_as_xla_does)
{
    static const char *const devices[] = {
        "sdy.mesh @mesh = <[\"a\"=2, \"b\"=2]>", "mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding<@mesh, [{\\22a\\22}, {}]>\"}", "mhlo.sharding = \"\\08\\03\\1A\\03\\02\\01\\020\\01J\\01\\04R\\01\\00\"",
        "stablehlo.custom_call @Sharding(%arg0) {mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding_per_value<[<@mesh, [{\\22a\\22}, {\\22b\\22}]>]>\"}, mhlo.sharding = \"\\08\\03\\1A\\02\\02\\02\\22\\04\\00\\01\\02\\03\"} : ",
        "{xla.sdy.sharding = \"#sdy.sharding<@mesh, [{\\22a\\22}, {}]>\"}, mhlo.sharding = \"\\08\\03\\1A\\03\\02\\01\\02\\22\\04\\00\\01\\02\\030\\01\"",
        "stablehlo.add %0, %arg1 {mhlo.frontend_attributes = {xla.sdy.sharding = \"#sdy.sharding_per_value<[<@mesh, [{\\22a\\22, ?}, {}]>]>\"}}",
        "in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{\"a\"}, {}]>] manual_axes={\"a\"}", "concat_dimension = 1 : i64",
        "stablehlo.reshape %1 : (tensor<4x8xf32>) -> tensor<4x2x4xf32>", "stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<4x2x4xf32>) -> tensor<2x4x4xf32>",
        "stablehlo.reshape %3 : (tensor<2x4x4xf32>) -> tensor<8x4xf32>", "stablehlo.custom_call @xla.sdy.FuncResultSharding(%2#0) {has_side_effect = true, ", NULL};
    static const char *const calls[] = {
        "stablehlo.composite \"my.op\" %arg0 {composite_attributes = {k = 3 : i64, s = \"x\"}, decomposition = @computation_", ", version = 2 : i32}", "backend_config = {uplo = 76 : ui8}",
        "mhlo.frontend_attributes = {z = \"1\"}", "distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>", NULL};
    const char *const *want = _i ? calls : devices;
    struct hlo_module *m = parsed(programs[NF_ARRAY_LEN(programs) - 2 + (size_t)_i]), *back;
    struct nf_buf out = NF_BUF_INIT, text = NF_BUF_INIT;
    struct nf_error err = {0};
    ck_assert_msg(!hlo_proto_write(m, &out, &err), "%s (%s)", err.message, err.location);
    ck_assert_msg(!hlo_proto_read(nf_buf_str(&out), NULL, arena, &back, &err), "%s (%s)", err.message, err.location);
    ck_assert_msg(!hlo_verify(back, &err), "%s (%s)", err.message, err.location);
    ck_assert_int_eq(hlo_print(back, HLO_PRETTY, &text), 0);
    nf_buf_add_char(&text, 0);
    for (; *want; want++)
        ck_assert_msg(strstr(text.data, *want) != NULL, "no %s in\n%s", *want, text.data);
    nf_buf_done(&text);
    nf_buf_done(&out);
}
END_TEST

/* PrecisionConfig.Algorithm, as XLA numbers it. */
START_TEST(dot_algorithms_have_xlas_numbers)
{
    static const struct {
        const char *operands, *rhs, *accumulation;
        int operations;
        const char *imprecise;
        unsigned char number;
    } cases[] = {
        {"f8E5M2", "f8E5M2", "f32", 1, "false", 1}, {"f8E5M2", "f8E5M2", "f32", 1, "true", 2}, {"f16", "f16", "f16", 1, "false", 3}, {"f16", "f16", "f32", 1, "false", 4},
        {"bf16", "bf16", "bf16", 1, "false", 5}, {"bf16", "bf16", "f32", 1, "false", 6}, {"bf16", "bf16", "f32", 3, "false", 7}, {"bf16", "bf16", "f32", 6, "false", 8},
        {"tf32", "tf32", "f32", 1, "false", 9}, {"tf32", "tf32", "f32", 3, "false", 10}, {"f32", "f32", "f32", 1, "false", 11}, {"f64", "f64", "f64", 1, "false", 12},
        {"bf16", "bf16", "f32", 9, "false", 13}, 
    };
    struct nf_buf text = NF_BUF_INIT, out = NF_BUF_INIT;
    struct nf_error err = {0};
    struct hlo_module *m, *back;
    char wire[3] = {0x10, (char)cases[_i].number, 0};
    nf_buf_addf(&text,
        "func.func @main(%%a: tensor<2x2xf32>) -> tensor<2x2xf32> {\n  %%0 = stablehlo.dot_general %%a, %%a, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = %s, rhs_precision_type = %s, "
        "accumulation_type = %s, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = %d, allow_imprecise_accumulation = %s> : (tensor<2x2xf32>, tensor<2x2xf32>) -> "
        "tensor<2x2xf32>\n  return %%0 : tensor<2x2xf32>\n}\n",
        cases[_i].operands, cases[_i].rhs, cases[_i].accumulation, cases[_i].operations, cases[_i].imprecise);
    ck_assert_msg(!hlo_parse(nf_buf_str(&text), NULL, arena, &m, &err), "%s", err.message);
    int e = hlo_proto_write(m, &out, &err);
    ck_assert_msg(!e, "%s", err.message);
    ck_assert_ptr_nonnull(memmem(out.data, out.len, wire, 2));
    ck_assert_msg(!hlo_proto_read(nf_buf_str(&out), NULL, arena, &back, &err), "%s", err.message);
    const struct hlo_op *want = hlo_func_block(hlo_module_entry(m))->first, *got = hlo_func_block(hlo_module_entry(back))->first;
    struct nf_buf a = NF_BUF_INIT, b = NF_BUF_INIT;
    hlo_attr_print(hlo_op_attr(want, HLO_A_algorithm), &a);
    hlo_attr_print(hlo_op_attr(got, HLO_A_algorithm), &b);
    ck_assert(a.len && nf_str_eq(nf_buf_str(&a), nf_buf_str(&b)));
    nf_buf_done(&a);
    nf_buf_done(&b);
    nf_buf_done(&text);
    nf_buf_done(&out);
}
END_TEST

START_TEST(groups_by_mesh_axes_are_written_out)
{
    struct nf_str text = nf_str_c(programs[NF_ARRAY_LEN(programs) - 2]);
    static const char list[] = "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>", axes[] = "#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = \"a\">]>";
    struct nf_buf b = NF_BUF_INIT, want = NF_BUF_INIT, got = NF_BUF_INIT;
    struct nf_error err = {0};
    const char *at = strstr(text.data, list);
    ck_assert_ptr_nonnull(at);
    nf_buf_addf(&b, "%.*s%s%s", (int)(at - text.data), text.data, axes, at + strlen(list));
    nf_buf_add_char(&b, 0);
    ck_assert_msg(!hlo_proto_write(parsed(text.data), &want, &err), "%s", err.message);
    ck_assert_msg(!hlo_proto_write(parsed(b.data), &got, &err), "%s", err.message);
    ck_assert(nf_str_eq(nf_buf_str(&want), nf_buf_str(&got)));
    nf_buf_done(&b);
    nf_buf_done(&want);
    nf_buf_done(&got);
}
END_TEST

START_TEST(shardings_become_messages)
{
    static const struct {
        const char *text;
        size_t len;
        const char *bytes;
    } cases[] = {
        {"{replicated}", 0, ""}, {"{manual}", 2, "\x08\x04"}, {"{maximal device=3}", 8, "\x08\x01\x1a\x01\x01\x22\x01\x03"},
        {"{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", 16, "\x08\x03\x1a\x02\x02\x02\x4a\x02\x02\x02\x52\x02\x01\x00\x30\x01"},
        {"{devices=[4,1]<=[4]}", 12, "\x08\x03\x1a\x02\x04\x01\x4a\x01\x04\x52\x01\x00"},
        {"{devices=[2,1]1,0}", 10, "\x08\x03\x1a\x02\x02\x01\x22\x02\x01\x00"},
        {"{{replicated}, {manual}}", 8, "\x08\x02\x2a\x00\x2a\x02\x08\x04"}, {"{devices=[2,1]<=[2}", SIZE_MAX, NULL}, {"{what}", SIZE_MAX, NULL}, {"{replicated} ", SIZE_MAX, NULL},
    };
    struct nf_buf program = NF_BUF_INIT, out = NF_BUF_INIT;
    struct nf_error err = {0};
    struct hlo_module *back;
    nf_buf_addf(&program, "func.func @main(%%a: tensor<4x8xf32> {mhlo.sharding = \"%s\"}) -> tensor<4x8xf32> {\n return %%a : tensor<4x8xf32>\n}", cases[_i].text);
    nf_buf_add_char(&program, 0);
    int e = hlo_proto_write(parsed(program.data), &out, &err);
    if (cases[_i].len == SIZE_MAX) {
        ck_assert_int_eq(e, NF_EUNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(err.message, "the sharding of argument 0"));
    } else {
        ck_assert_msg(!e && !hlo_proto_read(nf_buf_str(&out), NULL, arena, &back, &err), "%s", err.message);
        const struct hlo_attr *a = hlo_func_arg_attr(hlo_module_entry(back), 0, NF_STR("mhlo.sharding"));
        ck_assert_ptr_nonnull(a);
        ck_assert(nf_str_eq(a->str, nf_str_n(cases[_i].bytes, cases[_i].len)));
    }
    nf_buf_done(&program);
    nf_buf_done(&out);
}
END_TEST

START_TEST(transfers_and_asynchronous_operations_are_pairs)
{
    static const char *const written[] = {"send", "send-done", "recv", "recv-done", "all-reduce-start", "all-reduce-done", "all-gather-start", "all-gather-done",
                                          "collective-permute-start", "collective-permute-done", "async-start", "async-done"};
    static const char *const want[] = {"source_target_pairs = dense<[[0, 1], [1, 2]]>", "handle = 6, type = 2>, is_host_transfer = true", "handle = 7, type = 3>, is_host_transfer = true",
                                       "mhlo.frontend_attributes = {x = \"y\"}} : (tensor<2xf32>, !stablehlo.token)", "mhlo.num_partitions = 3 : i32",
                                       "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> {mhlo.frontend_attributes = {k = \"z\"}} : (tensor<2xf32>) -> tensor<2xf32>"};
    struct nf_buf out = NF_BUF_INIT, text = NF_BUF_INIT;
    struct nf_error err = {0};
    struct hlo_module *back, *again;
    struct hlo_module *m = parsed(transfers);
    ck_assert_msg(!hlo_proto_write(m, &out, &err), "%s (%s)", err.message, err.location);
    for (size_t i = 0; i < NF_ARRAY_LEN(written); i++) {
        struct nf_buf opcode = NF_BUF_INIT;
        pb_put_bytes(&opcode, INST_OPCODE, nf_str_c(written[i]));
        ck_assert_msg(memmem(out.data, out.len, opcode.data, opcode.len) != NULL, "no %s", written[i]);
        nf_buf_done(&opcode);
    }
    ck_assert_msg(!hlo_proto_read(nf_buf_str(&out), NULL, arena, &back, &err), "%s (%s)", err.message, err.location);
    ck_assert_msg(!hlo_verify(back, &err), "%s (%s)", err.message, err.location);
    ck_assert_int_eq(hlo_print(back, HLO_PRETTY, &text), 0);
    nf_buf_add_char(&text, 0);
    for (size_t i = 0; i < NF_ARRAY_LEN(want); i++)
        ck_assert_msg(strstr(text.data, want[i]) != NULL, "no %s in\n%s", want[i], text.data);
    ck_assert_ptr_null(strstr(text.data, HP_PAIRS));
    /* operation by operation the program that was written */
    const struct hlo_op *a = hlo_func_block(hlo_module_entry(m))->first, *b = hlo_func_block(hlo_module_entry(back))->first;
    for (; a && b; a = a->next, b = b->next)
        ck_assert_msg(a->id == b->id && a->num_operands == b->num_operands && a->num_results == b->num_results, "%s, %s", hlo_op_info((enum hlo_op_id)a->id)->name,
                      hlo_op_info((enum hlo_op_id)b->id)->name);
    ck_assert(!a && !b);
    struct nf_buf second = NF_BUF_INIT;
    ck_assert_msg(!hlo_proto_write(back, &second, &err), "%s (%s)", err.message, err.location);
    ck_assert_msg(!hlo_proto_read(nf_buf_str(&second), NULL, arena, &again, &err), "%s (%s)", err.message, err.location);
    ck_assert(nf_str_eq(canonical(again), canonical(back)));
    nf_buf_done(&second);
    nf_buf_done(&text);
    nf_buf_done(&out);
}
END_TEST

/* f: f32[2], g: f32[3], u: u32[], t: token; in brackets: a tuple. */
static const char *put_shape(struct nf_buf *o, uint32_t num, const char *s)
{
    struct nf_buf b = NF_BUF_INIT;
    if (*s == '(') {
        pb_put_uint(&b, SHAPE_ELEMENT, PRIMITIVE_TUPLE);
        for (s++; *s != ')';)
            s = put_shape(&b, SHAPE_TUPLE, s);
    } else {
        pb_put_uint(&b, SHAPE_ELEMENT, *s == 't' ? PRIMITIVE_TOKEN : *s == 'u' ? 8 : 11);
        if (*s == 'f' || *s == 'g')
            pb_put_ints(&b, SHAPE_DIMENSIONS, 1, &(int64_t){*s == 'f' ? 2 : 3});
    }
    pb_put_bytes(o, num, nf_buf_str(&b));
    nf_buf_done(&b);
    return s + 1;
}

/* Instructions 1 (an f), 2 (a token) and then these; the last one is the root, if no other is named. */
static const struct pair_case {
    int code;
    const char *words;
    struct {
        const char *opcode, *shape;
        int64_t operands[2];
        unsigned channel;
        const char *pairs;
    } insts[4];
    int64_t root;
} pair_cases[] = {
    {0, "", {{"send", "(fut)", {1, 2}, 5, "{{0,1},{1,0}}"}, {"send-done", "t", {3}, 5, NULL}}},
    {0, "", {{"recv", "(fut)", {2}, 5, "{}"}, {"recv-done", "(ft)", {3}, 5, NULL}}},
    {0, "", {{"collective-permute-start", "(ff)", {1}, 5, NULL}, {"collective-permute-done", "f", {3}, 0, NULL}}},
    {NF_EGRAPH, "no send-done ends it", {{"send", "(fut)", {1, 2}, 5, NULL}, {"negate", "f", {1}, 0, NULL}}},
    {NF_EGRAPH, "no recv-done ends it", {{"recv", "(fut)", {2}, 5, NULL}}},
    {NF_EGRAPH, "no collective-permute-done ends it", {{"collective-permute-start", "(ff)", {1}, 0, NULL}, {"negate", "f", {1}, 0, NULL}}},
    {NF_EGRAPH, "a send, which only send-done may read", {{"send", "(fut)", {1, 2}, 5, NULL}, {"get-tuple-element", "f", {3}, 0, NULL}}},
    {NF_EGRAPH, "a send, which only send-done may read", {{"send", "(fut)", {1, 2}, 5, NULL}, {"recv-done", "(ft)", {3}, 5, NULL}}},
    {NF_EGRAPH, "the root, which only send-done may read", {{"send", "(fut)", {1, 2}, 5, NULL}, {"send-done", "t", {3}, 5, NULL}}, 3},
    {NF_EGRAPH, "a collective-permute-start, which only", {{"collective-permute-start", "(ff)", {1}, 0, NULL}, {"all-gather-done", "f", {3}, 0, NULL}}},
    {NF_EGRAPH, "the end of nothing", {{"send-done", "t", {2}, 5, NULL}}},
    {NF_EGRAPH, "the end of nothing", {{"recv-done", "(ft)", {2}, 5, NULL}}},
    {NF_EGRAPH, "the end of nothing", {{"all-reduce-done", "f", {1}, 0, NULL}}},
    {NF_EGRAPH, "the end of nothing", {{"async-done", "f", {1}, 0, NULL}}},
    {NF_EGRAPH, "the second end of 3", {{"send", "(fut)", {1, 2}, 5, NULL}, {"send-done", "t", {3}, 5, NULL}, {"send-done", "t", {3}, 5, NULL}}},
    {NF_EGRAPH, "the second end of 3", {{"collective-permute-start", "(ff)", {1}, 0, NULL}, {"collective-permute-done", "f", {3}, 0, NULL}, {"collective-permute-done", "f", {3}, 0, NULL}}},
    {NF_EGRAPH, "not that of data, a u32 and a token", {{"send", "(gut)", {1, 2}, 5, NULL}, {"send-done", "t", {3}, 5, NULL}}},
    {NF_EGRAPH, "not that of data, a u32 and a token", {{"recv", "(fft)", {2}, 5, NULL}, {"recv-done", "(ft)", {3}, 5, NULL}}},
    {NF_EGRAPH, "not that of data, a u32 and a token", {{"recv", "(ffut)", {2}, 5, NULL}, {"recv-done", "(ft)", {3}, 5, NULL}}},
    {NF_EGRAPH, "element 0 of a tuple that has 0", {{"recv", "t", {2}, 5, NULL}, {"recv-done", "t", {3}, 5, NULL}}},
    {NF_EGRAPH, "not data and a token", {{"send", "(fut)", {1, 1}, 5, NULL}, {"send-done", "t", {3}, 5, NULL}}},
    {NF_EGRAPH, "not a token", {{"recv", "(fut)", {1}, 5, NULL}, {"recv-done", "(ft)", {3}, 5, NULL}}},
    {NF_EGRAPH, "another shape than what 3 began", {{"recv", "(fut)", {2}, 5, NULL}, {"recv-done", "(gt)", {3}, 5, NULL}}},
    {NF_EGRAPH, "another shape than what 3 began", {{"collective-permute-start", "(ff)", {1}, 0, NULL}, {"collective-permute-done", "g", {3}, 0, NULL}}},
    {NF_EGRAPH, "another channel than that of 3", {{"send", "(fut)", {1, 2}, 5, NULL}, {"send-done", "t", {3}, 6, NULL}}},
    {NF_EGRAPH, "source and target pairs", {{"send", "(fut)", {1, 2}, 5, "{{0,1},{1}}"}, {"send-done", "t", {3}, 5, NULL}}},
    {NF_EGRAPH, "source and target pairs", {{"send", "(fut)", {1, 2}, 5, "{{0,1},}"}, {"send-done", "t", {3}, 5, NULL}}},
    {NF_EGRAPH, "not that of operands and results", {{"collective-permute-start", "(gf)", {1}, 0, NULL}, {"collective-permute-done", "f", {3}, 0, NULL}}},
    {NF_EGRAPH, "element 1 of a tuple that has 1", {{"collective-permute-start", "(f)", {1}, 0, NULL}, {"collective-permute-done", "f", {3}, 0, NULL}}},
    {NF_EUNSUPPORTED, "results that are not arrays", {{"async-start", "((f)t)", {1}, 0, NULL}, {"async-done", "t", {3}, 0, NULL}}},
    {NF_EGRAPH, "computation 0 is missing", {{"async-start", "((f)f)", {1}, 0, NULL}, {"async-done", "f", {3}, 0, NULL}}},
    {NF_EUNSUPPORTED, "several arrays at once", {{"all-gather-start", "((ff)(ff))", {1, 1}, 0, NULL}, {"all-gather-done", "(ff)", {3}, 0, NULL}}},
    {NF_EUNSUPPORTED, "without a StableHLO counterpart", {{"copy-start", "(ffu)", {1}, 0, NULL}, {"copy-done", "f", {3}, 0, NULL}}},
    {NF_EUNSUPPORTED, "without a StableHLO counterpart", {{"async-update", "((f)f)", {1}, 0, NULL}}},
};

START_TEST(halves_of_pairs_are_refused)
{
    const struct pair_case *c = &pair_cases[_i];
    struct nf_buf comp = NF_BUF_INIT, module = NF_BUF_INIT;
    struct nf_error err = {0};
    struct hlo_module *m;
    int64_t id = 0;
    for (size_t i = 0; i < 6; i++) {
        const char *opcode = i == 0 ? "parameter" : i == 1 ? "after-all" : c->insts[i - 2].opcode;
        struct nf_buf b = NF_BUF_INIT;
        char name[8];
        if (!opcode)
            break;
        nf_format(name, sizeof(name), "%lld", (long long)++id);
        pb_put_bytes(&b, INST_NAME, nf_str_c(name));
        pb_put_bytes(&b, INST_OPCODE, nf_str_c(opcode));
        put_shape(&b, INST_SHAPE, i == 0 ? "f" : i == 1 ? "t" : c->insts[i - 2].shape);
        pb_put_uint(&b, INST_ID, (uint64_t)id);
        if (i > 1) {
            pb_put_ints(&b, INST_OPERANDS, c->insts[i - 2].operands[1] ? 2 : 1, c->insts[i - 2].operands);
            pb_put_uint(&b, INST_CHANNEL, c->insts[i - 2].channel);
        }
        if (i > 1 && c->insts[i - 2].pairs) {
            struct nf_buf entry = NF_BUF_INIT, map = NF_BUF_INIT;
            pb_put_bytes(&entry, 1, NF_STR(HP_PAIRS));
            pb_put_bytes(&entry, 2, nf_str_c(c->insts[i - 2].pairs));
            pb_put_bytes(&map, 1, nf_buf_str(&entry));
            pb_put_bytes(&b, INST_FRONTEND, nf_buf_str(&map));
            nf_buf_done(&entry);
            nf_buf_done(&map);
        }
        pb_put_bytes(&comp, COMP_INSTRUCTIONS, nf_buf_str(&b));
        nf_buf_done(&b);
    }
    pb_put_uint(&comp, COMP_ID, 1);
    pb_put_uint(&comp, COMP_ROOT, (uint64_t)(c->root ? c->root : id));
    pb_put_bytes(&module, MODULE_COMPUTATIONS, nf_buf_str(&comp));
    pb_put_uint(&module, MODULE_ENTRY_ID, 1);
    int e = hlo_proto_read(nf_buf_str(&module), NULL, arena, &m, &err);
    ck_assert_msg(e == c->code && (!e || strstr(err.message, c->words)), "%d: %s", e, err.message);
    if (!e)
        ck_assert_msg(!hlo_verify(m, &err), "%s", err.message);
    nf_buf_done(&comp);
    nf_buf_done(&module);
}
END_TEST

START_TEST(futures_that_hlo_has_not_are_refused)
{
    static const char *const cases[][2] = {
        {"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n%f = \"stablehlo.async_start\"(%a) ({\n^bb0(%x: tensor<2xf32>):\n%1 = stablehlo.slice %x [0:1] : (tensor<2xf32>) -> tensor<1xf32>\n"
         "stablehlo.return %1 : tensor<1xf32>\n}) : (tensor<2xf32>) -> !stablehlo.future<tensor<1xf32>>\nreturn %a : tensor<2xf32>\n}\n", "not for one async_done"},
        {"func.func @main(%f: !stablehlo.future<tensor<2xf32>>) -> tensor<2xf32> {\n%r = \"stablehlo.async_done\"(%f) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>\nreturn %r : tensor<2xf32>\n}\n",
         "a value whose type XLA does not have"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(cases); i++) {
        struct nf_buf out = NF_BUF_INIT;
        struct nf_error err = {0};
        ck_assert_int_eq(hlo_proto_write(parsed(cases[i][0]), &out, &err), NF_EUNSUPPORTED);
        ck_assert_msg(strstr(err.message, cases[i][1]) != NULL, "%s", err.message);
        nf_buf_done(&out);
    }
}
END_TEST

static struct {
    const char *body, *words;
} const unwritable[] = {
    {"%1:2 = \"stablehlo.all_reduce\"(%x, %y) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%s = stablehlo.add %p, %q : tensor<f32>\n"
     "stablehlo.return %s : tensor<f32>\n}) : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)", "several arrays at once"},
    {"%1:2 = \"stablehlo.all_to_all\"(%x, %y) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : "
     "(tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)", "more than one HLO operation"},
};

START_TEST(asynchronous_operations_that_hlo_has_not_are_refused)
{
    struct nf_buf text = NF_BUF_INIT, out = NF_BUF_INIT;
    struct nf_error err = {0};
    nf_buf_addf(&text,
        "func.func @main(%%a: tensor<2x4xf32>) -> tensor<2x4xf32> {\n%%f = \"stablehlo.async_start\"(%%a, %%a) ({\n^bb0(%%x: tensor<2x4xf32>, %%y: tensor<2x4xf32>):\n%s\n"
        "stablehlo.return %%1#0, %%1#1 : tensor<2x4xf32>, tensor<2x4xf32>\n}) : (tensor<2x4xf32>, tensor<2x4xf32>) -> !stablehlo.future<tensor<2x4xf32>, tensor<2x4xf32>>\n"
        "%%r:2 = \"stablehlo.async_done\"(%%f) : (!stablehlo.future<tensor<2x4xf32>, tensor<2x4xf32>>) -> (tensor<2x4xf32>, tensor<2x4xf32>)\nreturn %%r#0 : tensor<2x4xf32>\n}\n",
        unwritable[_i].body);
    nf_buf_add_char(&text, 0);
    ck_assert_int_eq(hlo_proto_write(parsed(text.data), &out, &err), NF_EUNSUPPORTED);
    ck_assert_msg(strstr(err.message, unwritable[_i].words) != NULL, "%s", err.message);
    nf_buf_done(&text);
    nf_buf_done(&out);
}
END_TEST

/* Every prefix, and every byte changed in several ways: read or refused, and what is read verifies or not. */
static void torture(struct nf_str good, bool proto)
{
    char *copy = nf_alloc(good.len + 1);
    for (size_t i = 0; i < good.len; i++) {
        for (int how = 0; how < 4; how++) {
            static const unsigned char with[] = {0x00, 0xFF, 0x01, 0x80};
            struct nf_arena *a = nf_arena_new((size_t)64 << 20);
            struct nf_error err = {0};
            struct hlo_module *m;
            struct hlo_limits limits = hlo_limits_default;
            limits.literals_bytes = limits.literal_bytes = 1 << 20;
            limits.ops = 100000;
            memcpy(copy, good.data, good.len);
            copy[i] = how == 3 ? (char)(copy[i] ^ 0x10) : (char)with[how];
            struct nf_str s = nf_str_n(copy, how == 0 && i % 3 == 0 ? i : good.len);
            int e = proto ? hlo_proto_read(s, &limits, a, &m, &err) : hlo_bytecode_read(s, &limits, a, &m, &err);
            if (e)
                ck_assert_msg(err.code == e && err.message[0], "an error without words at byte %zu", i);
            else
                hlo_verify(m, &err);
            if (proto) {
                struct nf_digest d;
                hlo_proto_digest(s, &d, &err);
            }
            nf_arena_free(a);
        }
    }
    free(copy);
}

START_TEST(damaged_bytecode_is_refused)
{
    struct nf_buf out = NF_BUF_INIT;
    struct nf_error err = {0};
    ck_assert(!hlo_bytecode_write(parsed(programs[_i]), NULL, true, &out, &err));
    torture(nf_buf_str(&out), false);
    nf_buf_done(&out);
}
END_TEST

START_TEST(damaged_hlo_protobuf_is_refused)
{
    struct nf_buf out = NF_BUF_INIT;
    struct nf_error err = {0};
    ck_assert(!hlo_proto_write(parsed(programs[_i]), &out, &err));
    torture(nf_buf_str(&out), true);
    nf_buf_done(&out);
}
END_TEST

START_TEST(damaged_pairs_are_refused)
{
    struct nf_buf out = NF_BUF_INIT;
    struct nf_error err = {0};
    ck_assert(!hlo_proto_write(parsed(transfers), &out, &err));
    torture(nf_buf_str(&out), true);
    nf_buf_done(&out);
}
END_TEST

START_TEST(newer_majors_and_older_formats_are_refused_by_name)
{
    struct nf_error err = {0};
    struct hlo_module *m;
    ck_assert_int_eq(hlo_bytecode_read(NF_STR("ML\xEFR\x0DStableHLO_v2.0.0\0"), NULL, arena, &m, &err), NF_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "2.0.0"));
    ck_assert_int_eq(hlo_bytecode_read(NF_STR("ML\xEFR\x03StableHLO_v0.11.0\0"), NULL, arena, &m, &err), NF_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "format 1"));
    struct nf_buf out = NF_BUF_INIT;
    ck_assert_int_eq(hlo_bytecode_write(parsed(programs[0]), "2.0.0", false, &out, &err), NF_EINVAL);
    ck_assert_int_eq(hlo_bytecode_write(parsed(programs[0]), "1.99.0", false, &out, &err), NF_EINVAL);
    nf_buf_done(&out);
}
END_TEST

START_TEST(what_a_version_lacks_is_named)
{
    struct nf_error err = {0};
    struct nf_buf out = NF_BUF_INIT;
    struct hlo_module *m = parsed("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.tan %a : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n");
    ck_assert_int_eq(hlo_bytecode_write(m, "1.0.0", false, &out, &err), NF_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "stablehlo.tan"));
    nf_buf_clear(&out);
    ck_assert_int_eq(hlo_bytecode_write(m, "1.4.0", false, &out, &err), 0);
    nf_buf_done(&out);
}
END_TEST

START_TEST(the_digest_ignores_names_but_not_meaning)
{
    static const char *const texts[] = {
        "module @one { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.add %a, %a : tensor<4xf32>\n return %0 : tensor<4xf32> } }",
        "module @two { func.func @main(%b: tensor<4xf32>) -> tensor<4xf32> { %z = stablehlo.add %b, %b : tensor<4xf32>\n return %z : tensor<4xf32> } }",
        "module @one { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.multiply %a, %a : tensor<4xf32>\n return %0 : tensor<4xf32> } }",
    };
    struct nf_digest d[3];
    for (int i = 0; i < 3; i++) {
        struct nf_buf out = NF_BUF_INIT;
        struct nf_error err = {0};
        ck_assert(!hlo_proto_write(parsed(texts[i]), &out, &err));
        ck_assert(!hlo_proto_digest(nf_buf_str(&out), &d[i], &err));
        nf_buf_done(&out);
    }
    ck_assert(nf_digest_eq(&d[0], &d[1]));
    ck_assert(!nf_digest_eq(&d[0], &d[2]));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hlo-formats");
    TCase *t = tcase_create("formats");
    int n = (int)NF_ARRAY_LEN(programs);
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, bytecode_of_any_version_reads_to_the_same_program, 0, n);
    tcase_add_loop_test(t, hlo_protobuf_reads_back_to_what_was_written, 0, n);
    tcase_add_loop_test(t, hlo_protobuf_says_it_as_xla_does, 0, 2);
    tcase_add_loop_test(t, dot_algorithms_have_xlas_numbers, 0, 13);
    tcase_add_test(t, groups_by_mesh_axes_are_written_out);
    tcase_add_loop_test(t, shardings_become_messages, 0, 10);
    tcase_add_loop_test(t, damaged_bytecode_is_refused, 0, n);
    tcase_add_loop_test(t, damaged_hlo_protobuf_is_refused, 0, n);
    tcase_add_test(t, transfers_and_asynchronous_operations_are_pairs);
    tcase_add_loop_test(t, halves_of_pairs_are_refused, 0, (int)NF_ARRAY_LEN(pair_cases));
    tcase_add_loop_test(t, asynchronous_operations_that_hlo_has_not_are_refused, 0, (int)NF_ARRAY_LEN(unwritable));
    tcase_add_test(t, futures_that_hlo_has_not_are_refused);
    tcase_add_test(t, damaged_pairs_are_refused);
    tcase_add_test(t, newer_majors_and_older_formats_are_refused_by_name);
    tcase_add_test(t, what_a_version_lacks_is_named);
    tcase_add_test(t, the_digest_ignores_names_but_not_meaning);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
