/* Running passes: by name, in order, with the verifier behind each. What each does is in tests/ir. */
#include "samples.h"

#include "pipeline/hlo/passes.h"

static unsigned ran;
static void count(void *user, const struct hlo_pass *pass, const struct hlo_module *m)
{
    (void)user, (void)pass, (void)m;
    ran++;
}

START_TEST(every_pass_leaves_the_samples_valid)
{
    samples_load();
    for (size_t i = 0; i < num_samples; i++)
        for (size_t p = 0; hlo_pass_at(p); p++) {
            struct nf_arena *arena = nf_arena_new(0);
            struct nf_error err = {0};
            struct hlo_module *m = parse_ok(arena, samples[i]);
            int rc = hlo_passes_run(m, nf_str_c(hlo_pass_at(p)->name), NULL, NULL, &err);
            ck_assert_msg(rc == 0 || rc == NF_EUNSUPPORTED, "sample %zu: %s: %s", i, err.location, err.message);
            nf_arena_free(arena);
        }
}
END_TEST

static struct nf_digest legal_key(const char *text)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_error err = {0};
    struct nf_digest key;
    struct hlo_module *m = parse_ok(arena, nf_str_c(text));
    ck_assert_int_eq(hlo_passes_run(m, NF_STR("legalise,canonicalise"), NULL, NULL, &err), 0);
    ck_assert_int_eq(hlo_key(m, &key, &err), 0);
    nf_arena_free(arena);
    return key;
}

static const char *const deprecated[][2] = {
    {"func.func @main(%a: tensor<3xf32>) -> tensor<2x3xf32> {\n %0 = stablehlo.broadcast %a, sizes = [2] : (tensor<3xf32>) -> tensor<2x3xf32>\n return %0 : tensor<2x3xf32>\n}",
     "func.func @main(%a: tensor<3xf32>) -> tensor<2x3xf32> {\n %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>\n return %0 : tensor<2x3xf32>\n}"},
    {"func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {\n %0 = stablehlo.dot %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n return %0 : tensor<2x4xf32>\n}",
     "func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {\n %0 = stablehlo.einsum %a, %b, config = \"ij,jk->ik\" : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>\n return %0 : "
     "tensor<2x4xf32>\n}"},
    {"func.func @main() -> !stablehlo.token {\n %0 = stablehlo.create_token : !stablehlo.token\n return %0 : !stablehlo.token\n}",
     "func.func @main() -> !stablehlo.token {\n %0 = stablehlo.after_all : !stablehlo.token\n return %0 : !stablehlo.token\n}"},
};

START_TEST(deprecated_spellings_share_a_key)
{
    struct nf_digest a = legal_key(deprecated[_i][0]), b = legal_key(deprecated[_i][1]);
    ck_assert(nf_digest_eq(&a, &b));
}
END_TEST

START_TEST(names_are_checked)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_error err = {0};
    struct hlo_module *m = hlo_module_new(arena);
    ck_assert_int_eq(hlo_passes_run(m, NF_STR("dce,nothing"), count, NULL, &err), NF_EUSAGE);
    ck_assert_uint_eq(ran, 1);
    ck_assert_ptr_nonnull(strstr(err.message, "nothing"));
    nf_arena_free(arena);
}
END_TEST

START_TEST(circles_of_calls_are_refused)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_error err = {0};
    struct hlo_module *m = parse_ok(arena, NF_STR("func.func @main() {\n call @a() : () -> ()\n return\n}\nfunc.func private @a() {\n call @b() : () -> ()\n return\n}\nfunc.func private @b() {\n call @a() : () -> ()\n return\n}"));
    ck_assert_int_eq(hlo_pass_inline(m, &err), NF_EGRAPH);
    nf_arena_free(arena);
}
END_TEST

/* f0 calls f1 twice, f1 calls f2 twice, ...: 2^40 operations are refused, not made. */
START_TEST(explosions_are_refused)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_buf b = NF_BUF_INIT;
    struct nf_error err = {0};
    nf_buf_add_c(&b, "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n %0 = call @f0(%a) : (tensor<f32>) -> tensor<f32>\n return %0 : tensor<f32>\n}\n");
    for (int i = 0; i < 40; i++)
        nf_buf_addf(&b,
                    "func.func private @f%d(%%a: tensor<f32>) -> tensor<f32> {\n %%0 = call @f%d(%%a) : (tensor<f32>) -> tensor<f32>\n %%1 = call @f%d(%%0) : (tensor<f32>) -> tensor<f32>\n return %%1 : "
                    "tensor<f32>\n}\n",
                    i, i + 1, i + 1);
    nf_buf_add_c(&b, "func.func private @f40(%a: tensor<f32>) -> tensor<f32> {\n %0 = stablehlo.sine %a : tensor<f32>\n return %0 : tensor<f32>\n}\n");
    struct hlo_module *m = parse_ok(arena, nf_buf_str(&b));
    ck_assert_int_eq(hlo_pass_inline(m, &err), NF_ELIMIT);
    nf_buf_done(&b);
    nf_arena_free(arena);
}
END_TEST

/* Shapes go down a long chain of calls, written in either order, and their results come back up. */
START_TEST(shapes_go_through_a_chain_of_calls)
{
    struct nf_buf text = NF_BUF_INIT;
    struct nf_error err = {0};
    int n = 400;
    for (int k = 0; k <= n; k++) {
        int i = _i ? n - k : k;
        if (i == 0)
            nf_buf_add_c(&text, "func.func @main(%a: tensor<4xf32>) -> tensor<?xf32> {\n %s = stablehlo.constant dense<4> : tensor<1xi32>\n"
                                " %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>\n %1 = call @f1(%0) : (tensor<?xf32>) -> tensor<?xf32>\n return %1 : tensor<?xf32>\n}\n");
        else if (i == n)
            nf_buf_addf(&text, "func.func private @f%d(%%x: tensor<?xf32>) -> tensor<?xf32> {\n %%0 = stablehlo.negate %%x : tensor<?xf32>\n return %%0 : tensor<?xf32>\n}\n", i);
        else
            nf_buf_addf(&text, "func.func private @f%d(%%x: tensor<?xf32>) -> tensor<?xf32> {\n %%0 = call @f%d(%%x) : (tensor<?xf32>) -> tensor<?xf32>\n return %%0 : tensor<?xf32>\n}\n", i, i + 1);
    }
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m;
    ck_assert_msg(!hlo_parse(nf_buf_str(&text), NULL, arena, &m, &err), "%s", err.message);
    ck_assert_msg(!hlo_pass_refine(m, &err) && !hlo_verify(m, &err), "%s", err.message);
    HLO_FOR_OPS(op, hlo_module_block(m))
        for (uint32_t i = 0; i < hlo_func_type(op)->num_types; i++)
            ck_assert(hlo_func_type(op)->types[i]->is_static);
    nf_buf_done(&text);
    nf_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("hlo-passes");
    TCase *t = tcase_create("passes");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_pass_leaves_the_samples_valid);
    tcase_add_loop_test(t, deprecated_spellings_share_a_key, 0, (int)NF_ARRAY_LEN(deprecated));
    tcase_add_test(t, names_are_checked);
    tcase_add_test(t, circles_of_calls_are_refused);
    tcase_add_test(t, explosions_are_refused);
    tcase_add_loop_test(t, shapes_go_through_a_chain_of_calls, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
