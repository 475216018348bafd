/* A compile through the stand-in compiler, in all the ways in which one can end. */
#include "base/clock.h"
#include "base/file.h"
#include "pipeline/driver/driver.h"
#include "pipeline/driver/drv_keeper.h"
#include "pipeline/driver/drv_run.h"
#include "pipeline/pipeline.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct nf_error err;
static char dir[64], work[96], log_path[96];
static struct nf_arena *arena;
static struct nf_buf lines;
static unsigned alive, line_count;
static char artifact[512], log_file[512];
static int64_t cancel_at;
static struct compile_sink sink;
static int64_t time_limit;
static uint64_t memory_limit;
static struct pipe_option options[4];
static size_t option_count;
static struct pipe_side_file side[1];
static size_t side_count;
static const char *graph_text = "module {}\n";

static void on_log(void *user, int level, const char *source, struct nf_str line)
{
    (void)user, (void)level, (void)source;
    ck_assert(nf_utf8_valid(line));
    ck_assert_uint_le(line.len, 2 * DRV_LINE_MAX);
    line_count++;
    if (lines.len < 64 << 20) {
        nf_buf_add_str(&lines, line);
        nf_buf_add_char(&lines, '\n');
    }
}
static void on_progress(void *user, double fraction)
{
    (void)user, (void)fraction;
    alive++;
}
static void on_artifact(void *user, const char *kind, const char *path)
{
    (void)user;
    if (strcmp(kind, "neff") == 0)
        nf_format(artifact, sizeof(artifact), "%s", path);
    if (strcmp(kind, "log") == 0)
        nf_format(log_file, sizeof(log_file), "%s", path);
}
static bool cancelled(void *user)
{
    (void)user;
    return cancel_at && nf_now_ns() > cancel_at;
}

static void setup(void)
{
    arena = nf_arena_new(0);
    nf_format(dir, sizeof(dir), "/tmp/driver-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    nf_format(work, sizeof(work), "%s/work", dir);
    nf_format(log_path, sizeof(log_path), "%s/log", dir);
    ck_assert_int_eq(mkdir(work, 0700), 0);
    setenv("FAKE_NEURONX_CC_LOG", log_path, 1);
    setenv("NEURON_CC_FLAGS", "--optlevel=3", 1);
    nf_buf_done(&lines);
    alive = line_count = 0;
    artifact[0] = 0;
    cancel_at = time_limit = 0;
    memory_limit = 0;
    option_count = side_count = 0;
    graph_text = "module {}\n";
}
static void teardown(void)
{
    nf_arena_free(arena);
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    nf_remove_tree(fd, dir + strlen("/tmp/"));
    close(fd);
}

static int compile(const char *actions)
{
    setenv("FAKE_NEURONX_CC", actions, 1);
    struct target_id id = {.target = "trn2", .compiler = "neuronx-cc 2.21.0", .version = "2.22.0"};
    nf_format(id.path, sizeof(id.path), "%s", getenv("FAKE_NEURONX_CC_PATH"));
    struct pipe_graph g = {.kind = PIPE_KIND_STABLEHLO_TEXT, .canonical = nf_str_c(graph_text), .original = nf_str_c(graph_text), .arena = arena};
    struct compile_input in = {.graph = &g, .target = "trn2", .id = &id, .work_dir = work, .time_limit_ns = time_limit,
                               .memory_limit_bytes = memory_limit, .options = options, .option_count = option_count,
                               .side_files = side, .side_file_count = side_count};
    sink = (struct compile_sink){.log = on_log, .progress = on_progress, .artifact = on_artifact, .cancelled = cancelled};
    memset(&err, 0, sizeof(err));
    return drv_compile(&in, &sink, &err);
}

/* No descendant of this process may be left. */
static void nothing_left(void)
{
    pid_t pids[64];
    unsigned n = drv_tree_list(getpid(), pids, 64);
    ck_assert_msg(n == 0, "%u processes are left, the first is %d", n, n ? (int)pids[0] : 0);
    struct nf_buf left = NF_BUF_INIT;
    char *path = nf_asprintf("%s.left", log_path);
    if (nf_file_read(path, 4096, &left, NULL) == NF_OK) {
        struct nf_str rest = nf_buf_str(&left);
        uint64_t pid;
        while (rest.len > 0)
            if (nf_str_to_u64(nf_str_cut(&rest, '\n'), &pid) == NF_OK)
                ck_assert_msg(kill((pid_t)pid, 0) < 0, "process %d is left", (int)pid);
    }
    nf_buf_done(&left);
    free(path);
}

START_TEST(a_good_compile_gives_its_file)
{
    ck_assert_msg(compile("ok") == 0, "%s", err.message);
    ck_assert_str_ne(artifact, "");
    struct stat st;
    ck_assert_int_eq(stat(artifact, &st), 0);
    ck_assert_ptr_nonnull(strstr(lines.data, "Compiler status PASS"));
    nothing_left();
}
END_TEST

static const struct {
    const char *actions;
    int code, exit_code;
} ends[] = {
    {"ok", 0, 0},
    {"rename", 0, 0},
    {"elsewhere", 0, 0},
    {"late:300", 0, 0},
    {"unique", 0, 0},
    {"badutf8", 0, 0},
    {"cwdcheck", 0, 0},
    {"flood:200", 0, 0},
    {"fork", 0, 0},
    {"escape", 0, 0},
    {"escape,fail", NF_ECOMPILEFAILED, 70},
    {"fork,killed", NF_ECOMPILERKILLED, -9},
    {"escape,killed", NF_ECOMPILERKILLED, -9},
    {"fail", NF_ECOMPILEFAILED, 70},
    {"fail:1", NF_ECOMPILEFAILED, 1},
    {"exit:70", NF_ECOMPILERUNSTABLE, 70},
    {"exit:1", NF_ECOMPILEFAILED, 1},
    {"killed", NF_ECOMPILERKILLED, -9},
    {"killed-late", NF_ECOMPILERKILLED, -9},
    {"sig:SEGV", NF_ECOMPILERCRASH, -11},
    {"sig:ABRT", NF_ECOMPILERCRASH, -6},
    {"sig:TERM", NF_ECOMPILERKILLED, -15},
    {"f137", NF_ENOMEM, 70},
    {"pool", NF_ENOMEM, 1},
    {"diskfull", NF_ENOSPACE, 70},
    {"code:NCC_IBIR229", NF_ECOMPILERCRASH, 70},
    {"code:NCC_EVRF065", NF_ESIDEFILE, 70},
    {"needfile:k/a.bin", NF_ESIDEFILE, 70},
    {"none", NF_ECOMPILERCRASH, 0},
    {"empty", NF_ECOMPILERCRASH, 0},
    {"header", NF_ECOMPILERCRASH, 0},
    {"cut", NF_ECOMPILERCRASH, 0},
    {"cut:5000", NF_ECOMPILERCRASH, 0},
    {"badsize", NF_ECOMPILERCRASH, 0},
    {"lnc:1", NF_ECOMPILERCRASH, 0},     /* 2 was asked for */
    {"sparse:2147483648", 0, 0},         /* huge, with an archive that ends early: a NEFF */
    {"link", NF_ECOMPILERCRASH, 0},
};

START_TEST(every_end_is_told_apart)
{
    options[0] = (struct pipe_option){"logical-nc-config", NF_STR("2")};
    options[1] = (struct pipe_option){"lnc", NF_STR("2")};
    option_count = 1;
    int r = compile(ends[_i].actions);
    ck_assert_msg(r == ends[_i].code, "%s: %s (%s)", ends[_i].actions, nf_status_name(r), err.message);
    ck_assert_int_eq(err.exit_code, ends[_i].exit_code);
    ck_assert_int_eq(artifact[0] != 0, r == 0);
    if (r != 0)
        ck_assert_str_ne(err.hint, "");
    nothing_left();
}
END_TEST

START_TEST(a_compiler_that_hangs_is_ended_at_its_limit)
{
    time_limit = NF_SEC / 2;
    int64_t t = nf_now_ns();
    ck_assert_int_eq(compile("escape,hang"), NF_ECOMPILETIMEOUT);
    ck_assert_int_lt(nf_now_ns() - t, 6 * NF_SEC);
    nothing_left();
}
END_TEST

START_TEST(a_compile_can_be_cancelled)
{
    cancel_at = nf_now_ns() + NF_SEC / 3;
    int64_t t = nf_now_ns();
    ck_assert_int_eq(compile("fork,slow:30"), NF_ECANCELLED);
    ck_assert_int_lt(nf_now_ns() - t, 5 * NF_SEC);
    nothing_left();
}
END_TEST

START_TEST(memory_is_watched_over_all_of_them)
{
    ck_assert_int_eq(compile("alloc:200:0.6"), 0);
    ck_assert_uint_ge(sink.peak_rss_bytes, (uint64_t)200 << 20);
    const char *sanitizer = getenv("TEST_SANITIZE");
    if (sanitizer && *sanitizer)                                 /* an instrumented compiler needs more, and ends in a way of its own */
        return;
    memory_limit = (uint64_t)100 << 20;
    ck_assert_int_eq(compile("alloc:200:20"), NF_ENOMEM);        /* one cannot have it */
    ck_assert_int_eq(compile("spread:80:0.2"), 0);
    ck_assert_int_eq(compile("spread:240:20"), NF_ENOMEM);       /* four together are seen */
    ck_assert_ptr_nonnull(strstr(err.message, "memory"));
    nothing_left();
}
END_TEST

START_TEST(dots_are_signs_of_life_within_a_second)
{
    ck_assert_int_eq(compile("slow:2.2"), 0);
    ck_assert_uint_ge(alive, 2);
}
END_TEST

START_TEST(a_flood_is_bounded_and_its_end_is_seen)
{
    ck_assert_int_eq(compile("flood:2048,longline,code:NCC_EVRF004"), NF_ECOMPILEFAILED);
    ck_assert_uint_le(line_count, 3000);
    ck_assert_ptr_nonnull(strstr(lines.data, "lines left out"));
    ck_assert_ptr_nonnull(strstr(lines.data, "NCC_EVRF004"));
    ck_assert_ptr_nonnull(strstr(err.message, "NCC_EVRF004"));
    struct stat st;
    ck_assert_int_eq(stat(log_file, &st), 0);
    ck_assert_int_le(st.st_size, 5 << 20);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(log_file, 8 << 20, &b, &err), 0);
    ck_assert_ptr_nonnull(strstr(b.data, "NCC_EVRF004"));
    nf_buf_done(&b);
}
END_TEST

START_TEST(arguments_are_never_joined)
{
    options[0] = (struct pipe_option){"tensorizer-options", NF_STR("--a --b=2 ")};
    options[1] = (struct pipe_option){"quote", NF_STR("'\" \\ $(touch /tmp/x) \xc3\xa9")};
    options[2] = (struct pipe_option){"env:NKI_DEBUG_INFO", NF_STR("1")};
    option_count = 3;
    char *dump = nf_asprintf("%s/argv.json", dir), *actions = nf_asprintf("argvdump:%s", dump);
    ck_assert_int_eq(compile(actions), 0);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(dump, 1 << 20, &b, &err), 0);
    ck_assert_ptr_nonnull(strstr(b.data, "\"--tensorizer-options=--a --b=2 \""));
    ck_assert_ptr_nonnull(strstr(b.data, "\"--quote='\\\" \\\\ $(touch /tmp/x) \xc3\xa9\""));
    ck_assert_ptr_nonnull(strstr(b.data, "\"NKI_DEBUG_INFO\":\"1\""));
    ck_assert_ptr_null(strstr(b.data, "NEURON_CC_FLAGS"));      /* flags come from the request alone */
    nf_buf_done(&b);
    free(dump);
    free(actions);
}
END_TEST

START_TEST(side_files_stand_where_the_compiler_looks)
{
    char *path = nf_asprintf("%s/kernel", dir);
    ck_assert_int_eq(nf_file_replace(path, NF_STR("kernel"), 0600, &err), 0);
    side[0] = (struct pipe_side_file){"k1/a.bin", nf_digest_of("kernel", 6), 6, path};
    side_count = 1;
    graph_text = "module { stablehlo.custom_call @AwsNeuronCustomNativeKernel() {backend_config = \"/gone/k1/a.bin\"} }\n";
    ck_assert_msg(compile("needfile:k1/a.bin") == 0, "%s", err.message);
    free(path);
}
END_TEST

START_TEST(a_missing_side_file_is_found_before_the_compiler_starts)
{
    graph_text = "module { stablehlo.custom_call @AwsNeuronCustomNativeKernel() {backend_config = \"/gone/k1/a.bin\"} }\n";
    ck_assert_int_eq(compile("ok"), NF_ESIDEFILE);
    ck_assert_ptr_nonnull(strstr(err.message, "/gone/k1/a.bin"));
    ck_assert_int_lt(access(log_path, F_OK), 0);
}
END_TEST

START_TEST(a_side_file_that_changed_is_refused)
{
    char *path = nf_asprintf("%s/kernel", dir);
    ck_assert_int_eq(nf_file_replace(path, NF_STR("kernes"), 0600, &err), 0);
    side[0] = (struct pipe_side_file){"k1/a.bin", nf_digest_of("kernel", 6), 6, path};
    side_count = 1;
    ck_assert_int_eq(compile("ok"), NF_EINVAL);
    side[0].name = "../a.bin";
    ck_assert_int_eq(compile("ok"), NF_EINVAL);
    free(path);
}
END_TEST

/* kill -9 of the process that runs the compiler: the keeper ends everything, also what left its session. */
START_TEST(nothing_outlives_a_killed_driver)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child == 0) {
        compile("escape,slow:30");
        _exit(0);
    }
    char *left = nf_asprintf("%s.left", log_path);
    for (int i = 0; i < 500 && access(left, F_OK) < 0; i++)
        nf_sleep_ns(10 * NF_MS);
    ck_assert_int_eq(access(left, F_OK), 0);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    int64_t t = nf_now_ns();
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    ck_assert_int_lt(nf_now_ns() - t, 2 * NF_SEC);
    nothing_left();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    free(left);
}
END_TEST

START_TEST(a_compiler_that_is_not_there_is_told)
{
    char *real = nf_strdup(getenv("FAKE_NEURONX_CC_PATH"));
    setenv("FAKE_NEURONX_CC_PATH", "/nonexistent/neuronx-cc", 1);
    ck_assert_int_eq(compile("ok"), NF_ENOCOMPILER);
    setenv("FAKE_NEURONX_CC_PATH", real, 1);
    free(real);
    nothing_left();
}
END_TEST

START_TEST(the_version_is_asked_once_a_binary)
{
    char *bin = nf_asprintf("%s/bin", dir), *cc = nf_asprintf("%s/neuronx-cc", bin), *asked = nf_asprintf("%s.version", log_path);
    struct target_id id;
    ck_assert_int_eq(mkdir(bin, 0700), 0);
    ck_assert_int_eq(symlink(getenv("FAKE_NEURONX_CC_PATH"), cc), 0);
    char *path = nf_asprintf("%s:%s", bin, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("FAKE_NEURONX_CC_VERSION_MODE", "warning", 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(drv_identify(NULL, i ? "trn1" : "trn2", NULL, &id, &err) == 0, "%s", err.message);
        ck_assert_str_eq(id.compiler, "neuronx-cc 2.21.18209.0+043b1bf7");
        ck_assert_str_eq(id.path, cc);
    }
    struct stat st;
    ck_assert_int_eq(stat(asked, &st), 0);
    ck_assert_int_eq(st.st_size, 8);
    /* Another file at the same place is another compiler. */
    ck_assert_int_eq(unlink(cc), 0);
    ck_assert_int_eq(nf_file_replace(cc, NF_STR("#!/bin/sh\necho broken >&2\nexit 3\n"), 0755, &err), 0);
    ck_assert_int_eq(drv_identify(NULL, "trn1", NULL, &id, &err), NF_ENOCOMPILER);
    ck_assert_ptr_nonnull(strstr(err.message, "broken"));
    ck_assert_int_eq(drv_identify(NULL, "trn1", cc, &id, &err), NF_ENOCOMPILER);
    unsetenv("FAKE_NEURONX_CC_VERSION_MODE");
    free(bin);
    free(cc);
    free(asked);
    free(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pipeline-driver");
    TCase *t = tcase_create("driver");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_good_compile_gives_its_file);
    tcase_add_loop_test(t, every_end_is_told_apart, 0, NF_ARRAY_LEN(ends));
    tcase_add_test(t, a_compiler_that_hangs_is_ended_at_its_limit);
    tcase_add_test(t, a_compile_can_be_cancelled);
    tcase_add_test(t, memory_is_watched_over_all_of_them);
    tcase_add_test(t, dots_are_signs_of_life_within_a_second);
    tcase_add_test(t, a_flood_is_bounded_and_its_end_is_seen);
    tcase_add_test(t, arguments_are_never_joined);
    tcase_add_test(t, side_files_stand_where_the_compiler_looks);
    tcase_add_test(t, a_missing_side_file_is_found_before_the_compiler_starts);
    tcase_add_test(t, a_side_file_that_changed_is_refused);
    tcase_add_test(t, nothing_outlives_a_killed_driver);
    tcase_add_test(t, a_compiler_that_is_not_there_is_told);
    tcase_add_test(t, the_version_is_asked_once_a_binary);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
