/* The command line both ways, the environment variable, classes of failures, versions. */
#include "pipeline/driver/driver.h"
#include "pipeline/driver/drv_classify.h"
#include "pipeline/driver/drv_flags.h"
#include "pipeline/driver/drv_lines.h"
#include "pipeline/side.h"

#include <check.h>

static struct nf_error err;
static struct nf_arena *arena;
static const struct target_id trn1 = {.target = "trn1", .version = "2.22.1+a"}, trn2 = {.target = "trn2", .version = "2.22.1+a"},
                              old = {.target = "trn1", .version = "2.14.227.0+2d4f85be"};

static void setup(void) { arena = nf_arena_new(0); }
static void teardown(void) { nf_arena_free(arena); }

/* argv -> options -> effective -> argv, joined by | for comparison. */
static const char *round_trip(const struct target_id *id, int argc, char *const *argv)
{
    struct drv_call c;
    ck_assert_msg(drv_call_parse(argc, argv, arena, &c, &err) == 0, "%s", err.message);
    ck_assert_msg(c.strange == NULL, "%s", c.strange);
    const struct pipe_option *o;
    size_t n;
    ck_assert_msg(drv_options(id, c.options, c.option_count, arena, &o, &n, &err) == 0, "%s", err.message);
    const char **out = drv_arguments(id, o, n, NULL, NULL, arena);
    struct nf_buf b = NF_BUF_INIT;
    for (size_t i = 0; out[i]; i++)
        nf_buf_addf(&b, "%s%s", i ? "|" : "", out[i]);
    const char *text = nf_arena_strn(arena, b.data, b.len);
    nf_buf_done(&b);
    return text;
}
#define ARGS(...) (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]){__VA_ARGS__, NULL}

START_TEST(unknown_flags_come_out_as_they_went_in)
{
    static const struct {
        const char *argv[12], *out;
    } rows[] = {
        {{"compile", "m.pb", "--tensorizer-options=--a --b=2 "}, "--framework=XLA|--tensorizer-options=--a --b=2 "},
        {{"compile", "m.pb", "--internal-foo"}, "--framework=XLA|--internal-foo"},
        {{"compile", "m.pb", "--internal-foo="}, "--framework=XLA|--internal-foo="},
        {{"compile", "m.pb", "--internal-foo", ""}, "--framework=XLA|--internal-foo|"},
        {{"compile", "m.pb", "--x=a", "--x=b"}, "--framework=XLA|--x=a|--x=b"},
        {{"compile", "m.pb", "--x", "--x=b", "--x", "c d"}, "--framework=XLA|--x|--x=b|--x|c d"},
        {{"compile", "m.pb", "--pipeline", "compile", "SaveTemps"}, "--framework=XLA|--pipeline|compile|SaveTemps"},
        {{"compile", "m.pb", "--internal-enable-dge-levels", "a", "b", "io", "--x"}, "--framework=XLA|--internal-enable-dge-levels|a|b|io|--x"},
        {{"compile", "m.pb", "--y=\\\"q\\\"'s"}, "--framework=XLA|--y=\\\"q\\\"'s"},
        {{"compile", "m.pb", "--y=\xc3\xa9"}, "--framework=XLA|--y=\xc3\xa9"},
        {{"compile", "m.pb", "--a=1=2"}, "--framework=XLA|--a=1=2"},
        {{"compile", "--execute-repetition", "1", "m.pb"}, "--framework=XLA|--execute-repetition|1"},
        {{"compile", "--verify", "m.pb"}, "--framework=XLA|--verify"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        int argc = 0;
        while (argc < 12 && rows[i].argv[argc])
            argc++;
        ck_assert_str_eq(round_trip(&trn1, argc, (char *const *)(uintptr_t)rows[i].argv), rows[i].out);
    }
}
END_TEST

START_TEST(known_flags_have_one_form)
{
    char compile[] = "compile", m[] = "m.pb", a[] = "-O1", b[] = "--optlevel", one[] = "1", c[] = "-O=1", d[] = "--optlevel=1", e[] = "--optlevel=3",
         lnc[] = "-lnc=2", lnc2[] = "--logical-nc-config", two[] = "2", cast[] = "--auto-cast=none", mix[] = "--enable-mixed-precision-accumulation",
         unmix[] = "--disable-mixed-precision-accumulation", dist[] = "--distribution_strategy=NEMO", o[] = "--output", of[] = "x.neff",
         v[] = "--verbose=35", t[] = "--target=trn1", fw[] = "--framework", xla[] = "XLA";
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, a)), "--framework=XLA|--optlevel=1");
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, b, one)), "--framework=XLA|--optlevel=1");
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, c)), "--framework=XLA|--optlevel=1");
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, e, d)), "--framework=XLA|--optlevel=1");        /* right-most wins */
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, d, e)), "--framework=XLA|--optlevel=3");
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, lnc)), "--framework=XLA|--logical-nc-config=2");
    ck_assert_str_eq(round_trip(&trn2, ARGS(compile, m, lnc2, two)), "--framework=XLA");                 /* its default */
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, cast)), "--framework=XLA");                      /* default since 2.22 */
    ck_assert_str_eq(round_trip(&old, ARGS(compile, m, cast)), "--framework=XLA|--auto-cast=none");      /* was another before */
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, mix, unmix)), "--framework=XLA|--disable-mixed-precision-accumulation");
    ck_assert_str_eq(round_trip(&trn1, ARGS(compile, m, dist)), "--framework=XLA|--distribution-strategy=llm-training");
    ck_assert_str_eq(round_trip(&trn1, ARGS(t, compile, m, o, of, v, fw, xla)), "--framework=XLA");
    struct drv_call call;
    ck_assert_int_eq(drv_call_parse(ARGS(t, compile, m, o, of, v), arena, &call, &err), 0);
    ck_assert_str_eq(call.output, "x.neff");
    ck_assert_str_eq(call.target, "trn1");
    ck_assert_str_eq(call.input, "m.pb");
}
END_TEST

START_TEST(what_is_no_compile_is_said)
{
    char version[] = "--version", list[] = "list-operators", compile[] = "compile", help[] = "--help", m[] = "m.pb", n[] = "n.pb", q[] = "-q";
    struct drv_call c;
    ck_assert_int_eq(drv_call_parse(ARGS(version), arena, &c, &err), NF_EUSAGE);
    ck_assert_int_eq(drv_call_parse(ARGS(list), arena, &c, &err), NF_EUSAGE);
    ck_assert_int_eq(drv_call_parse(ARGS(compile, help), arena, &c, &err), NF_EUSAGE);
    ck_assert_int_eq(drv_call_parse(ARGS(compile), arena, &c, &err), 0);
    ck_assert_ptr_nonnull(c.strange);
    ck_assert_int_eq(drv_call_parse(ARGS(compile, m, n), arena, &c, &err), 0);
    ck_assert_ptr_nonnull(c.strange);
    ck_assert_int_eq(drv_call_parse(ARGS(compile, m, q), arena, &c, &err), 0);
    ck_assert_ptr_nonnull(c.strange);
}
END_TEST

static const char *split(const char *text)
{
    char **argv;
    size_t argc;
    struct drv_wrapper w;
    if (drv_cc_flags_split(nf_str_c(text), arena, &argv, &argc, &w, &err) != 0)
        return "error";
    struct nf_buf b = NF_BUF_INIT;
    for (size_t i = 0; i < argc; i++)
        nf_buf_addf(&b, "[%s]", argv[i]);
    nf_buf_addf(&b, "%s%s%s", w.cache_dir ? " dir=" : "", w.cache_dir ? w.cache_dir : "", w.no_cache ? " no" : "");
    const char *out = nf_arena_strn(arena, b.data, b.len);
    nf_buf_done(&b);
    return out;
}

START_TEST(cc_flags_are_split_as_a_shell_does)
{
    ck_assert_str_eq(split(""), "");
    ck_assert_str_eq(split("  --a   -O1\n"), "[--a][-O1]");
    ck_assert_str_eq(split("--tensorizer-options='--a --b=2 ' -O2"), "[--tensorizer-options=--a --b=2 ][-O2]");
    ck_assert_str_eq(split("--x=\"a \\\"b\\\" $c\" ''"), "[--x=a \"b\" $c][]");
    ck_assert_str_eq(split("a\\ b 'c\\d' \"e\\f\""), "[a b][c\\d][e\\f]");
    ck_assert_str_eq(split("--cache_dir=/c --no_cache --retry_failed_compilation --log_level=INFO --model-type=transformer"),
                     "[--model-type=transformer] dir=/c no");
    ck_assert_str_eq(split("--x='open"), "error");
    ck_assert_str_eq(split("--model-type=transformer--cache_dir=x"), "error");
    ck_assert_ptr_nonnull(strstr(err.hint, "--cache_dir=x"));
    ck_assert_str_eq(split("--tensorizer-options='--a=1 --optlevel=2'"), "[--tensorizer-options=--a=1 --optlevel=2]");
    ck_assert_str_eq(split("--internal-hlo2tensorizer-options='--verify-hlo=true'"), "[--internal-hlo2tensorizer-options=--verify-hlo=true]");
}
END_TEST

static const struct pipe_option *effective(const struct target_id *id, const struct pipe_option *in, size_t n, size_t *ret_n)
{
    const struct pipe_option *out;
    ck_assert_msg(drv_options(id, in, n, arena, &out, ret_n, &err) == 0, "%s", err.message);
    return out;
}

START_TEST(equal_meaning_is_equal_options)
{
    struct pipe_option a[] = {{"optlevel", NF_STR("2")}, {"verbose", NF_STR("35")}, {"x", NF_STR("1")}, {"model-type", NF_STR("generic")}};
    struct pipe_option b[] = {{"x", NF_STR("1")}, {"logfile", NF_STR("/tmp/l")}, {"O", NF_STR("2")}};
    size_t na, nb;
    const struct pipe_option *ea = effective(&trn1, a, 4, &na), *eb = effective(&trn1, b, 3, &nb);
    ck_assert_uint_eq(na, nb);
    for (size_t i = 0; i < na; i++) {
        ck_assert_str_eq(ea[i].name, eb[i].name);
        ck_assert(nf_str_eq(ea[i].value, eb[i].value));
    }
}
END_TEST

START_TEST(wrong_values_are_refused)
{
    const struct pipe_option *o;
    size_t n;
    struct pipe_option bad[] = {{"optlevel", NF_STR("9")}};
    ck_assert_int_eq(drv_options(&trn1, bad, 1, arena, &o, &n, &err), NF_EINVAL);
    struct pipe_option dash[] = {{"--x", NF_STR("9")}};
    ck_assert_int_eq(drv_options(&trn1, dash, 1, arena, &o, &n, &err), NF_EINVAL);
    struct pipe_option env[] = {{"env:LD_PRELOAD", NF_STR("/tmp/x.so")}};
    ck_assert_int_eq(drv_options(&trn1, env, 1, arena, &o, &n, &err), NF_EINVAL);
    struct pipe_option good[] = {{"env:NKI_DEBUG_INFO", NF_STR("1")}};
    ck_assert_int_eq(drv_options(&trn1, good, 1, arena, &o, &n, &err), 0);
}
END_TEST

/* --------------------------------------------------------------------------------------------------------- failures */

static int class_of(enum drv_end end, int status, const char *lines, const char *problem)
{
    struct drv_evidence e;
    drv_evidence_init(&e);
    for (struct nf_str rest = nf_str_c(lines); rest.len > 0;)
        drv_evidence_line(&e, nf_str_cut(&rest, '\n'));
    struct drv_result r = {.end = end, .status = status};
    int code = drv_classify("neuronx-cc 2.0", &e, &r, problem, &err);
    ck_assert_int_eq(code, err.code);
    ck_assert_msg(err.hint[0] != 0, "no advice for %s", err.message);
    drv_evidence_done(&e);
    return code;
}

START_TEST(failures_have_their_class)
{
    static const struct {
        enum drv_end end;
        int status;
        const char *lines, *problem;
        int code;
    } rows[] = {
        {DRV_EXITED, 70, "ERROR [NCC_EVRF001] no such op", NULL, NF_ECOMPILEFAILED},
        {DRV_EXITED, 70, "ERROR [NCC_EARG001] lnc", NULL, NF_ECOMPILEFAILED},
        {DRV_EXITED, 70, "ERROR [NCC_EOOM001] hbm", NULL, NF_ECOMPILEFAILED},        /* the device's memory, not the host's */
        {DRV_EXITED, 70, "ERROR [NCC_EVRF059] kernel file", NULL, NF_ESIDEFILE},
        {DRV_EXITED, 70, "ERROR [NCC_EVRF065] nki", NULL, NF_ESIDEFILE},
        {DRV_EXITED, 70, "[INTERNAL_ERROR] [NCC_IBIR229] oops", NULL, NF_ECOMPILERCRASH},
        {DRV_EXITED, 1, "ERROR [TEN404] old", NULL, NF_ECOMPILERCRASH},
        {DRV_EXITED, 70, "", NULL, NF_ECOMPILERUNSTABLE},
        {DRV_EXITED, 70, "an unrelated [ABC] word NCC_", NULL, NF_ECOMPILERUNSTABLE},
        {DRV_EXITED, 70, "Backend exited with code -9\n[F137] neuronx-cc was forcibly killed", NULL, NF_ENOMEM},
        {DRV_EXITED, 70, "ERROR [NCC_EVRF001] x\n[F137] neuronx-cc was forcibly killed", NULL, NF_ENOMEM},
        {DRV_EXITED, 70, "[F137] neuronx-cc was forcibly killed\nERROR [NCC_EVRF001] x", NULL, NF_ENOMEM},
        {DRV_EXITED, 1, "Error class: BrokenProcessPool", NULL, NF_ENOMEM},
        {DRV_EXITED, 1, "OSError: [Errno 28] No space left on device", NULL, NF_ENOSPACE},
        {DRV_EXITED, 1, "Traceback (most recent call last):", NULL, NF_ECOMPILEFAILED},
        {DRV_EXITED, 127, "", NULL, NF_ENOCOMPILER},
        {DRV_EXITED, 137, "", NULL, NF_ENOMEM},
        {DRV_EXITED, 0, "Compiler status PASS", "the output file is empty", NF_ECOMPILERCRASH},
        {DRV_SIGNALLED, 9, "", NULL, NF_ECOMPILERKILLED},
        {DRV_SIGNALLED, 9, "std::bad_alloc", NULL, NF_ENOMEM},
        {DRV_SIGNALLED, 15, "", NULL, NF_ECOMPILERKILLED},
        {DRV_SIGNALLED, 11, "", NULL, NF_ECOMPILERCRASH},
        {DRV_SIGNALLED, 6, "Assertion failed", NULL, NF_ECOMPILERCRASH},
        {DRV_TIMED_OUT, 0, "", NULL, NF_ECOMPILETIMEOUT},
        {DRV_CANCELLED, 0, "", NULL, NF_ECANCELLED},
        {DRV_OVER_MEMORY, 0, "", NULL, NF_ENOMEM},
        {DRV_NOT_STARTED, 2, "", NULL, NF_ENOCOMPILER},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        if (rows[i].end == DRV_CANCELLED) {
            struct drv_evidence e;
            drv_evidence_init(&e);
            struct drv_result r = {.end = DRV_CANCELLED};
            ck_assert_int_eq(drv_classify("c", &e, &r, NULL, &err), NF_ECANCELLED);
            continue;
        }
        int code = class_of(rows[i].end, rows[i].status, rows[i].lines, rows[i].problem);
        ck_assert_msg(code == rows[i].code, "row %zu: %s, expected %s (%s)", i, nf_status_name(code), nf_status_name(rows[i].code), err.message);
    }
    class_of(DRV_SIGNALLED, 11, "", NULL);
    ck_assert_int_eq(err.exit_code, -11);
    class_of(DRV_EXITED, 70, "", NULL);
    ck_assert_int_eq(err.exit_code, 70);
}
END_TEST

START_TEST(versions_are_found)
{
    char v[96];
    ck_assert(drv_version_parse(NF_STR("NeuronX Compiler version 2.14.227.0+2d4f85be\n\nPython version 3.10.12\n"), v, sizeof(v)));
    ck_assert_str_eq(v, "2.14.227.0+2d4f85be");
    ck_assert(drv_version_parse(NF_STR("x.py:1: Warning: version 9\nNeuronX Compiler version 2.1 \n"), v, sizeof(v)));
    ck_assert_str_eq(v, "2.1");
    ck_assert(!drv_version_parse(NF_STR("Python version 3.10.12\n"), v, sizeof(v)));
    ck_assert(!drv_version_parse(NF_STR("Compiler version none\n"), v, sizeof(v)));
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------ lines */

static char seen[4096];
static void see(void *user, struct nf_str text, bool whole)
{
    (void)user;
    size_t n = strlen(seen);
    nf_format(seen + n, sizeof(seen) - n, "<%.*s%s>", (int)text.len, text.data, whole ? "" : "~");
}

START_TEST(bytes_become_lines)
{
    struct drv_lines l = {0};
    seen[0] = 0;
    drv_lines_add(&l, NF_STR("one\r\ntw"), 100, 0, see, NULL);
    drv_lines_add(&l, NF_STR("o\n\n..."), 100, 0, see, NULL);
    ck_assert_str_eq(seen, "<one><two>");
    ck_assert(drv_lines_flush(&l, 500, 1000, see, NULL));            /* dots are a sign of life, not a line */
    drv_lines_add(&l, NF_STR(". done"), 100, 1000, see, NULL);
    ck_assert(!drv_lines_flush(&l, 500, 1200, see, NULL));
    ck_assert(!drv_lines_flush(&l, 500, 1600, see, NULL));
    ck_assert_str_eq(seen, "<one><two><.... done>");
    seen[0] = 0;
    drv_lines_add(&l, NF_STR("abcdefghij\n"), 4, 0, see, NULL);
    ck_assert_str_eq(seen, "<abcd~><efgh~><ij>");
    seen[0] = 0;
    drv_lines_add(&l, NF_STR("abc\xc3\xa9z\n"), 4, 0, see, NULL);       /* not through a character */
    ck_assert_str_eq(seen, "<abc~><\xc3\xa9z>");
    seen[0] = 0;
    drv_lines_add(&l, NF_STR("a\xff" "b\x01\xe2\x82\n"), 100, 0, see, NULL);
    ck_assert_str_eq(seen, "<a\xef\xbf\xbd" "b \xef\xbf\xbd\xef\xbf\xbd>");
    drv_lines_done(&l);
}
END_TEST

START_TEST(kernel_files_are_found_in_graphs)
{
    const struct nf_str *v;
    ck_assert_uint_eq(pipe_side_paths(NF_STR("stablehlo.custom_call @other(%a) {backend_config = \"/tmp/x/y.bin\"}"), arena, &v), 0);
    ck_assert_uint_eq(pipe_side_paths(NF_STR("custom_call @AwsNeuronCustomNativeKernel(%a) {backend_config = \"{\\22f\\22: \\22/tmp/nki/k1/a.bin\\22}\"} : "
                                            "... @AwsNeuronCustomNativeKernel {backend_config = \"/tmp/nki/k1/a.bin\"} x=/other/k2/b.bin, //no 1/2"),
                                     arena, &v), 2);
    ck_assert(nf_str_eq_c(v[0], "/tmp/nki/k1/a.bin") || nf_str_eq_c(v[0], "/tmp/nki/k1/a.bin\\22"));
    ck_assert(nf_str_eq_c(v[1], "/other/k2/b.bin"));
    ck_assert_uint_eq(pipe_side_paths(NF_STR("@AwsNeuronCustomNativeKernel {b = \"/t/k/a\"} loc(\"/home/a/b.x\")\n other /c/d/e"), arena, &v), 1);
    ck_assert(nf_str_eq_c(pipe_side_strip(NF_STR("@AwsNeuronCustomNativeKernel {b = \"/home/u1/k/a\", c = \"/x/y/k/a\"}\n/q/r/s"), arena),
                          "@AwsNeuronCustomNativeKernel {b = \"/k/a\", c = \"/k/a\"}\n/q/r/s"));
    pipe_side_paths(NF_STR("@AwsNeuronCustomNativeKernel /tmp/nki/k1/a.bin /other/k2/b.bin"), arena, &v);
    char name[64];
    ck_assert(pipe_side_name(v[1], name, sizeof(name)));
    ck_assert_str_eq(name, "k2/b.bin");
    ck_assert(!pipe_side_name_good("../x"));
    ck_assert(!pipe_side_name_good("a/.."));
    ck_assert(!pipe_side_name_good("a/b/c"));
    ck_assert(!pipe_side_name_good("/a"));
    ck_assert(!pipe_side_name_good("a"));
    ck_assert(pipe_side_name_good("a/b"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pipeline-flags");
    TCase *t = tcase_create("flags");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, unknown_flags_come_out_as_they_went_in);
    tcase_add_test(t, known_flags_have_one_form);
    tcase_add_test(t, what_is_no_compile_is_said);
    tcase_add_test(t, cc_flags_are_split_as_a_shell_does);
    tcase_add_test(t, equal_meaning_is_equal_options);
    tcase_add_test(t, wrong_values_are_refused);
    tcase_add_test(t, failures_have_their_class);
    tcase_add_test(t, versions_are_found);
    tcase_add_test(t, bytes_become_lines);
    tcase_add_test(t, kernel_files_are_found_in_graphs);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
