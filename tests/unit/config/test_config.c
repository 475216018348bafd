#include "config/config.h"

#include "base/clock.h"
#include "base/file.h"

#include <check.h>
#include <unistd.h>

static const char *const no_env[] = {NULL};
static struct nf_error err;

static int load(struct cfg_sources s, struct cfg **ret_cfg)
{
    s.program = "test";
    if (!s.env)
        s.env = no_env;
    if (!s.file)
        s.file = "";
    err = (struct nf_error){0};
    return cfg_load(&s, ret_cfg, &err);
}

static struct cfg *must(struct cfg_sources s)
{
    struct cfg *cfg = NULL;
    int rc = load(s, &cfg);
    ck_assert_msg(rc == NF_OK, "%s", err.message);
    return cfg;
}

#define WORDS(...) ((const char *[]){"test", __VA_ARGS__})
#define ARGS(...) .argc = (int)NF_ARRAY_LEN(WORDS(__VA_ARGS__)), .argv = (char *const *)(uintptr_t)WORDS(__VA_ARGS__)
#define ENV(...) .env = (const char *[]){__VA_ARGS__, NULL}

static const char *write_file(const char *text)
{
    static char path[64];
    nf_format(path, sizeof(path), "/tmp/nf-config-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(nf_fd_write_all(fd, text, strlen(text)), NF_OK);
    close(fd);
    return path;
}

static bool warns(const struct cfg *cfg, const char *part)
{
    for (size_t i = 0; cfg_warning(cfg, i); i++)
        if (strstr(cfg_warning(cfg, i), part))
            return true;
    return false;
}

START_TEST(defaults_are_the_tables)
{
    struct cfg *cfg = must((struct cfg_sources){0});
    ck_assert_str_eq(cfg->cache_dir, "/tmp/neff_cache");
    ck_assert_int_eq(cfg->lock_timeout_ns, 1200 * NF_SEC);
    ck_assert_str_eq(cfg->socket, "unix:/run/neffd/neffd.sock");
    ck_assert(cfg->enable_streams);
    ck_assert_int_eq(cfg->split_allgather, CFG_UNSET);
    ck_assert_uint_eq(cfg->profile_cores.len, 2);
    ck_assert_uint_eq(cfg->profile_modes.len, 3);
    ck_assert_str_eq(cfg->profile_modes.items[1], "cpu_util");
    ck_assert_int_eq(cfg->cache_mode, 0640);
    ck_assert_str_eq(cfg->target, "");
    ck_assert_ptr_null(cfg_warning(cfg, 0));
    ck_assert_str_eq(cfg_setting(cfg, CFG_ID_lock_timeout).source, "default");
    cfg_free(cfg);
    cfg_free(NULL);
}
END_TEST

START_TEST(later_sources_win)
{
    const char *path = write_file("# comment\n[neffd]\nworkers = 1 # few\nlock_timeout = 10\nmax-ops=7\nlog_file = \"/a # b\"\n");
    struct cfg *cfg = must((struct cfg_sources){.file = path, ENV("NEFFD_WORKERS=2", "TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT=20"), ARGS("--lock-timeout=30")});
    ck_assert_int_eq(cfg->workers, 2);
    ck_assert_int_eq(cfg->lock_timeout_ns, 30 * NF_SEC);
    ck_assert_int_eq(cfg->max_ops, 7);
    ck_assert_str_eq(cfg->log_file, "/a # b");
    ck_assert_str_eq(cfg_setting(cfg, CFG_ID_workers).source, "env");
    ck_assert_str_eq(cfg_setting(cfg, CFG_ID_max_ops).source, "file");
    ck_assert_str_eq(cfg_setting(cfg, CFG_ID_lock_timeout).source, "command line");
    ck_assert_str_eq(cfg_file(cfg), path);
    cfg_free(cfg);
    unlink(path);
}
END_TEST

START_TEST(our_name_wins_over_the_others)
{
    struct cfg *cfg = must((struct cfg_sources){ENV("NEFFD_CACHE_DIR=/a", "TORCH_NEURONX_NEFF_CACHE_DIR=/b")});
    ck_assert_str_eq(cfg->cache_dir, "/a");
    cfg_free(cfg);
    cfg = must((struct cfg_sources){ENV("TORCH_NEURONX_NEFF_CACHE_DIR=/b", "NEFFD_CACHE_DIR=/a")});
    ck_assert_str_eq(cfg->cache_dir, "/a");
    cfg_free(cfg);
    cfg = must((struct cfg_sources){ENV("TORCH_NEURONX_NEFF_CACHE_DIR=/b", "NEFFD_CACHE_DIR=")});
    ck_assert_str_eq(cfg->cache_dir, "/b"); /* empty is not set */
    cfg_free(cfg);
}
END_TEST

START_TEST(unknown_keys_are_errors_with_the_nearest_name)
{
    struct cfg *cfg = NULL;
    const char *path = write_file("\nworkres = 1\n");
    ck_assert_int_eq(load((struct cfg_sources){.file = path}, &cfg), NF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(err.message, ":2: unknown setting workres"));
    ck_assert_str_eq(err.hint, "did you mean workers?");
    unlink(path);
    ck_assert_int_eq(load((struct cfg_sources){ARGS("--lock-timeuot=3")}, &cfg), NF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "--lock-timeuot"));
    ck_assert_str_eq(err.hint, "did you mean --lock-timeout?");
    ck_assert_int_eq(load((struct cfg_sources){ARGS("--workers")}, &cfg), NF_EUSAGE);
    ck_assert_int_eq(load((struct cfg_sources){ARGS("stray")}, &cfg), NF_EUSAGE);
    ck_assert_ptr_null(cfg);
}
END_TEST

START_TEST(unknown_variables_only_warn)
{
    struct cfg *cfg = must((struct cfg_sources){ENV("NEFFD_WORKRES=3", "NEFFD_SERVICE_HOST=10.0.0.1", "NEFFD_CONFIG=", "OTHER=1")});
    ck_assert(warns(cfg, "NEFFD_WORKRES in the environment is ignored; did you mean NEFFD_WORKERS?"));
    ck_assert(warns(cfg, "NEFFD_SERVICE_HOST"));
    ck_assert_ptr_null(cfg_warning(cfg, 2));
    cfg_free(cfg);
}
END_TEST

START_TEST(wrong_files_are_refused_with_their_line)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"workers\n", ":1: expected name = value"}, {"workers = 1\nworkers = 2\n", ":2: workers was set in line 1 already"},
        {"[other]\n", ":1: unknown section"},       {"workers = many\n", ":1: \"many\" is not a value for workers"},
        {"log_file = \"open\n", ":1: the quoted"},  {"workers = 2000\n", "expected 0 to 1024"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        struct cfg *cfg = NULL;
        const char *path = write_file(rows[i].text);
        ck_assert_int_eq(load((struct cfg_sources){.file = path}, &cfg), NF_ECONFIG);
        ck_assert_msg(strstr(err.message, rows[i].message) != NULL, "%s", err.message);
        unlink(path);
    }
    struct cfg *cfg = NULL;
    ck_assert_int_eq(load((struct cfg_sources){.file = "/nonexistent"}, &cfg), NF_ECONFIG);
    struct nf_buf b = NF_BUF_INIT; /* a long value is read whole */
    nf_buf_add_c(&b, "cache_dir = /");
    for (int i = 0; i < 1000; i++)
        nf_buf_add_char(&b, 'x');
    const char *path = write_file(b.data);
    cfg = must((struct cfg_sources){.file = path});
    ck_assert_uint_eq(strlen(cfg->cache_dir), 1001);
    cfg_free(cfg);
    nf_buf_done(&b);
    unlink(path);
}
END_TEST

static int set_one(const char *name, const char *value, struct cfg **ret_cfg)
{
    struct cfg_override o[] = {{name, value}, {NULL, NULL}};
    return load((struct cfg_sources){.overrides = o}, ret_cfg);
}

START_TEST(each_type_reads_its_forms)
{
    static const struct {
        const char *name, *good, *bad;
    } rows[] = {
        {"disable_cache", "1", "2"},         {"disable_cache", "False", "maybe"}, {"enable_streams", "0", "true"},
        {"workers", "3", "3.5"},             {"workers", "0", "-1"},              {"max_input", "1.5G", "1X"},
        {"max_input", "64KiB", "64KiBB"},    {"max_input", "10 M", "M"},          {"lock_timeout", "1.5", "-1"},
        {"lock_timeout", "20m", "20y"},      {"log_level", "debug", "loud"},      {"profile_cores", "0,2-5", "5-2"},
        {"profile_cores", "", "x"},          {"cache_mode", "0644", "0888"},      {"segment_pool_boundary", "1048576", "1MB"},
        {"client_log_level", "3", "4"},      {"segment_power2_divisions", "64", "65"}, {"socket", "127.0.0.1:9", "nothing"}, {"socket", "127.0.0.1:65535", "127.0.0.1:65536"},
        {"socket", "/run/x", "unix:x"},      {"segment_alignment", "4096", "4095"}, {"max_input", "1T", "99999999999999G"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        struct cfg *cfg = NULL;
        int rc = set_one(rows[i].name, rows[i].good, &cfg);
        ck_assert_msg(rc == NF_OK, "%s=%s: %s", rows[i].name, rows[i].good, err.message);
        cfg_free(cfg);
        cfg = NULL;
        ck_assert_msg(set_one(rows[i].name, rows[i].bad, &cfg) != NF_OK, "%s=%s", rows[i].name, rows[i].bad);
        ck_assert_msg(strstr(err.message, rows[i].name) != NULL, "%s", err.message);
    }
}
END_TEST

START_TEST(values_come_out_right)
{
    struct cfg *cfg = NULL;
    ck_assert_int_eq(set_one("max_input", "1.5K", &cfg), NF_OK);
    ck_assert_uint_eq(cfg->max_input, 1536);
    cfg_free(cfg);
    ck_assert_int_eq(set_one("lock_timeout", "250ms", &cfg), NF_OK);
    ck_assert_int_eq(cfg->lock_timeout_ns, 250 * NF_MS);
    cfg_free(cfg);
    ck_assert_int_eq(set_one("profile_cores", "0, 2-5", &cfg), NF_OK);
    ck_assert_uint_eq(cfg->profile_cores.len, 2);
    ck_assert_int_eq(cfg->profile_cores.items[1].first, 2);
    ck_assert_int_eq(cfg->profile_cores.items[1].last, 5);
    cfg_free(cfg);
    ck_assert_int_eq(set_one("namespaces", "a, b,,c", &cfg), NF_OK);
    ck_assert_uint_eq(cfg->namespaces.len, 3);
    ck_assert_str_eq(cfg->namespaces.items[2], "c");
    cfg_free(cfg);
    ck_assert_int_eq(set_one("verify", "always", &cfg), NF_OK);
    ck_assert_int_eq(cfg->verify, CFG_VERIFY_ALWAYS);
    cfg_free(cfg);
}
END_TEST

START_TEST(tristate_is_on_only_for_exactly_one)
{
    static const struct {
        const char *env;
        enum cfg_tristate want;
    } rows[] = {{"NEURON_USE_SPLIT_ALLGATHER=1", CFG_ON}, {"NEURON_USE_SPLIT_ALLGATHER=true", CFG_OFF}, {"NEURON_USE_SPLIT_ALLGATHER=", CFG_OFF}, {"X=1", CFG_UNSET}};
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        struct cfg *cfg = must((struct cfg_sources){ENV(rows[i].env)});
        ck_assert_int_eq(cfg->split_allgather, rows[i].want);
        cfg_free(cfg);
    }
}
END_TEST

START_TEST(strict_variables_refuse_everything_else)
{
    struct cfg *cfg = NULL;
    ck_assert_int_eq(load((struct cfg_sources){ENV("TORCH_NEURONX_ENABLE_STREAMS=true")}, &cfg), NF_ECONFIG);
    ck_assert_int_eq(load((struct cfg_sources){ENV("TORCH_NEURONX_ENABLE_STREAMS=")}, &cfg), NF_ECONFIG);
    ck_assert_int_eq(load((struct cfg_sources){ENV("TORCH_NEURONX_ENABLE_STREAMS=0", "TORCH_NEURONX_ENABLE_HOST_CC=1")}, &cfg), NF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(err.hint, "TORCH_NEURONX_ENABLE_STREAMS=1"));
    ck_assert_ptr_null(cfg);
}
END_TEST

START_TEST(a_list_variable_fills_its_rows_and_only_warns)
{
    struct cfg *cfg = must((struct cfg_sources){
        ENV("TORCH_NEURONX_SEGMENT_ALLOCATOR_CONFIG=kPoolBoundary=4096,kMinRoundedSize=512,kSmallSegmentSize=1MB,kNothing=3,kSegmentAlignment=100,kRoundupPower2Divisions=65,kMediumThreshold")});
    ck_assert_uint_eq(cfg->segment_pool_boundary, 4096);
    ck_assert_uint_eq(cfg->segment_large_split, 4096); /* follows the pool boundary */
    ck_assert_uint_eq(cfg->segment_small_split, 512);
    ck_assert_uint_eq(cfg->segment_small_size, 2097152);
    ck_assert_uint_eq(cfg->segment_alignment, 2097152);
    ck_assert_int_eq(cfg->segment_power2_divisions, 4);
    ck_assert(cfg->segment_max_split == UINT64_MAX);
    ck_assert(warns(cfg, "kSmallSegmentSize=1MB"));
    ck_assert(warns(cfg, "unknown key kNothing"));
    ck_assert(warns(cfg, "kSegmentAlignment=100"));
    ck_assert(warns(cfg, "kRoundupPower2Divisions=65"));
    ck_assert(warns(cfg, "kMediumThreshold has no value"));
    ck_assert(warns(cfg, "TORCH_NEURONX_SEGMENT_ALLOCATOR_CONFIG is set but has no effect"));
    cfg_free(cfg);
    cfg = must((struct cfg_sources){ENV("NEFFD_HLO_CACHE_DIR=/x")});   /* the name that was used */
    ck_assert(warns(cfg, "NEFFD_HLO_CACHE_DIR is set but has no effect"));
    cfg_free(cfg);
    cfg = must((struct cfg_sources){ENV("TORCH_NEURONX_HLO_CACHE_DIR=/x")});
    ck_assert(warns(cfg, "TORCH_NEURONX_HLO_CACHE_DIR is set but has no effect"));
    cfg_free(cfg);
}
END_TEST

START_TEST(a_default_may_follow_pytorch)
{
    static const struct {
        const char *version;
        bool want;
    } rows[] = {{NULL, false}, {"2.12.1", false}, {"2.13.0a0", true}, {"3.0", true}, {"nonsense", false}};
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        struct cfg *cfg = must((struct cfg_sources){.torch_version = rows[i].version});
        ck_assert_int_eq(cfg->complex_decompose, rows[i].want);
        cfg_free(cfg);
    }
}
END_TEST

START_TEST(places_follow_user_and_session)
{
    struct cfg *cfg = must((struct cfg_sources){ENV("XDG_RUNTIME_DIR=/run/user/7", "USER=ada")});
    ck_assert_str_eq(cfg->socket, "unix:/run/user/7/neffd/neffd.sock");
    ck_assert_str_eq(cfg->torchinductor_cache_dir, "/tmp/torchinductor_ada/");
    char want[100];
    nf_format(want, sizeof(want), "/var/tmp/nki-trace-cache-uid%u/", (unsigned)geteuid());
    ck_assert_str_eq(cfg->nki_trace_cache_url, want);
    ck_assert_str_eq(cfg_socket_path(cfg->socket), "/run/user/7/neffd/neffd.sock");
    ck_assert_ptr_null(cfg_socket_path("localhost:1"));
    cfg_free(cfg);
    cfg = must((struct cfg_sources){ARGS("--cache-dir=rel/dir")});
    ck_assert_int_eq(cfg->cache_dir[0], '/');
    ck_assert(nf_str_ends(nf_str_c(cfg->cache_dir), NF_STR("/rel/dir")));
    cfg_free(cfg);
}
END_TEST

START_TEST(flags_and_the_programs_own_options)
{
    const char *stage = NULL;
    bool detach = false;
    struct cfg_extra extra[] = {{"stop-after", "STAGE", "", &stage, NULL}, {"detach", NULL, "", NULL, &detach}, {0}};
    struct cfg *cfg = must((struct cfg_sources){ARGS("compile", "--disable-cache", "--stop-after", "import", "--no-hlo-cache", "--detach", "x.mlir", "--start", "0"),
                                                .extra = extra, .positionals_max = -1});
    ck_assert(cfg->disable_cache && !cfg->hlo_cache && detach && !cfg->start);
    ck_assert_str_eq(stage, "import");
    size_t n;
    char *const *rest = cfg_positionals(cfg, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(rest[0], "compile");
    ck_assert_str_eq(rest[1], "x.mlir");
    cfg_free(cfg);
    cfg = must((struct cfg_sources){ARGS("--help"), ENV("NEFFD_WORKERS=broken")});
    ck_assert_int_eq(cfg_action(cfg), CFG_HELP);
    cfg_free(cfg);
}
END_TEST

START_TEST(the_printed_file_reads_back)
{
    struct cfg *cfg = must((struct cfg_sources){ARGS("--workers=3", "--log-file=/a # b", "--namespaces=x,y", "--no-enable-streams")});
    struct nf_buf b = NF_BUF_INIT;
    cfg_print_file(cfg, &b);
    const char *path = write_file(b.data);
    struct cfg *back = must((struct cfg_sources){.file = path});
    for (int i = 0; i < CFG_ID_MAX; i++)
        ck_assert_str_eq(cfg_setting(cfg, (enum cfg_id)i).value, cfg_setting(back, (enum cfg_id)i).value);
    ck_assert_str_eq(cfg_setting(back, CFG_ID_workers).source, "file");
    unlink(path);
    nf_buf_done(&b);
    cfg_free(cfg);
    cfg_free(back);
}
END_TEST

START_TEST(a_reread_changes_only_what_may_change)
{
    struct cfg *now = must((struct cfg_sources){ARGS("--workers=3", "--log-level=info")});
    struct cfg *next = must((struct cfg_sources){ARGS("--workers=4", "--log-level=debug")});
    struct cfg *merged = cfg_reread(now, next);
    ck_assert_int_eq(merged->workers, 3);
    ck_assert_int_eq(merged->log_level, 3);
    ck_assert(warns(merged, "workers changes only with a restart"));
    ck_assert_int_eq(merged->lock_timeout_ns, 1200 * NF_SEC);
    ck_assert_str_eq(merged->target, "");
    ck_assert_uint_eq(merged->profile_cores.len, 2);
    cfg_free(now);
    cfg_free(next);
    cfg_free(merged);
}
END_TEST

START_TEST(help_names_everything)
{
    struct nf_buf b = NF_BUF_INIT;
    struct cfg *cfg = must((struct cfg_sources){ARGS("--help")});
    cfg_print_help(cfg, "usage: test", NULL, &b);
    for (int i = 0; i < CFG_ID_MAX; i++) {
        const char *const *env = cfg_setting(cfg, (enum cfg_id)i).env;
        for (size_t n = 0; env[n]; n++)
            ck_assert_msg(strstr(b.data, env[n]) != NULL, "%s", env[n]);
    }
    nf_buf_done(&b);
    cfg_free(cfg);
}
END_TEST

START_TEST(limits_must_agree)
{
    struct cfg *cfg = NULL;
    ck_assert_int_eq(load((struct cfg_sources){ARGS("--cache-soft-limit=2G", "--cache-hard-limit=1G")}, &cfg), NF_ECONFIG);
    cfg = must((struct cfg_sources){ARGS("--local-hard-limit=1G")});
    ck_assert_uint_le(cfg->local_soft_limit, cfg->local_hard_limit);
    cfg_free(cfg);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config-config");
    TCase *t = tcase_create("config");
    tcase_add_test(t, defaults_are_the_tables);
    tcase_add_test(t, later_sources_win);
    tcase_add_test(t, our_name_wins_over_the_others);
    tcase_add_test(t, unknown_keys_are_errors_with_the_nearest_name);
    tcase_add_test(t, unknown_variables_only_warn);
    tcase_add_test(t, wrong_files_are_refused_with_their_line);
    tcase_add_test(t, each_type_reads_its_forms);
    tcase_add_test(t, values_come_out_right);
    tcase_add_test(t, tristate_is_on_only_for_exactly_one);
    tcase_add_test(t, strict_variables_refuse_everything_else);
    tcase_add_test(t, a_list_variable_fills_its_rows_and_only_warns);
    tcase_add_test(t, a_default_may_follow_pytorch);
    tcase_add_test(t, places_follow_user_and_session);
    tcase_add_test(t, flags_and_the_programs_own_options);
    tcase_add_test(t, the_printed_file_reads_back);
    tcase_add_test(t, a_reread_changes_only_what_may_change);
    tcase_add_test(t, help_names_everything);
    tcase_add_test(t, limits_must_agree);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
