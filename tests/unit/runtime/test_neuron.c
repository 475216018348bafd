/* The Neuron device against tests/fake-libnrt, which ends the process when the contract is broken. Each case runs in a process of its
 * own (Check forks), as the runtime can be started once a process. */
#include "runtime/neuron/neuron.h"

#include "base/file.h"
#include "runtime/neff.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct nf_error err;
static struct nf_buf artifact;
static char trace_path[] = "/tmp/nrt-trace-XXXXXX";

static void make(uint64_t features, uint32_t lnc)
{
    const struct neff_writer_options o = {.name = "g", .target = "trn2", .compiler = "c", .feature_bits = features, .lnc_size = lnc};
    struct neff_writer *w = neff_writer_new(&o);
    neff_writer_member(w, "kelf-a.json", NF_STR("{}"), 0);
    nf_buf_done(&artifact);
    ck_assert_int_eq(neff_writer_finish(w, &artifact, &err), 0);
    neff_writer_free(w);
}

static void setup(void)
{
    close(mkstemp(trace_path));
    setenv("FAKE_NRT_TRACE", trace_path, 1);
    make(0, 2);
}
static void teardown(void)
{
    unlink(trace_path);
    nf_buf_done(&artifact);
}

static struct rt_device *device(const char *name)
{
    struct rt_device *d = NULL;
    struct rt_device_config c = {.library = getenv("FAKE_LIBNRT"), .feature_mask = 0xff};
    ck_assert_msg(rt_device_open(name, &c, &d, &err) == 0, "%s", err.message);
    return d;
}

static bool traced(const char *line)
{
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(trace_path, 1 << 20, &b, &err), 0);
    bool found = b.data && strstr(b.data, line);
    nf_buf_done(&b);
    return found;
}

START_TEST(a_program_runs)
{
    struct rt_device *d = device("neuron:1");
    struct rt_program *p = NULL;
    ck_assert_msg(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(p->input_count, 1);
    ck_assert_uint_eq(p->output_count, 1);
    ck_assert_str_eq(p->inputs[0].name, "input0");
    ck_assert_int_eq(p->inputs[0].dtype, NF_DT_F32);
    ck_assert_int_eq(p->outputs[0].dims[0], 4);
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const void *in[] = {x};
    void *out[] = {y};
    for (int i = 0; i < 3; i++)
        ck_assert_msg(rt_execute_host(p, in, out, &err) == 0, "%s", err.message);
    ck_assert_float_eq(y[3], 5);
    rt_program_unload(p);
    rt_device_close(d);
    ck_assert(traced("load 1"));
    ck_assert(traced("close"));
    ck_assert(!traced("misuse"));
}
END_TEST

START_TEST(ranks_load_together)
{
    struct rt_device *d = device("neuron");
    struct rt_program *p = NULL;
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    o.rank = 3;
    o.world_size = 4;
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), &o, &p, &err), 0);
    rt_program_unload(p);
    rt_device_close(d);
    ck_assert(traced("load_collectives 0 3/4"));
}
END_TEST

START_TEST(two_devices_share_one_runtime)
{
    struct rt_device *a = device("neuron:0"), *b = device("neuron:1");
    rt_device_close(a);
    ck_assert(!traced("close"));
    rt_device_close(b);
    ck_assert(traced("close"));
    struct rt_device *d = NULL;
    struct rt_device_config c = {.library = getenv("FAKE_LIBNRT")};
    ck_assert_int_eq(rt_device_open("neuron", &c, &d, &err), NF_ENODEVICE);      /* it cannot be started twice */
    ck_assert_ptr_nonnull(strstr(err.message, "CLOSED (14)"));
}
END_TEST

START_TEST(what_the_runtime_lacks_is_never_sent)
{
    struct rt_device *d = device("neuron");
    struct rt_program *p = NULL;
    make(0x100, 2);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err), NF_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "0x100"));
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    o.lnc = 1;
    make(0, 2);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), &o, &p, &err), NF_EUNSUPPORTED);
    ck_assert_int_eq(rt_program_load(d, nf_str_n(artifact.data, 1000), NULL, &p, &err), NF_ECORRUPT);
    ck_assert_int_eq(rt_program_load(d, nf_str_n(artifact.data, artifact.len - 1), NULL, &p, &err), NF_ECORRUPT);
    ck_assert(!traced("load "));
    rt_device_close(d);
}
END_TEST

START_TEST(statuses_have_names)
{
    struct rt_device *d = device("neuron");
    struct rt_program *p = NULL;
    setenv("FAKE_NRT_LOAD", "9", 1);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err), NF_EBUSY);
    ck_assert_ptr_nonnull(strstr(err.message, "LOAD_NOT_ENOUGH_NC (9)"));
    ck_assert_str_ne(err.hint, "");
    setenv("FAKE_NRT_LOAD", "4242", 1);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err), NF_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(err.message, "4242"));
    unsetenv("FAKE_NRT_LOAD");
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err), 0);
    float x[4] = {0}, y[4];
    const void *in[] = {x};
    void *out[] = {y};
    setenv("FAKE_NRT_EXECUTE", "1201", 1);
    ck_assert_int_eq(rt_execute_host(p, in, out, &err), NF_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(err.message, "HBM_UE"));
    rt_program_unload(p);
    rt_device_close(d);
}
END_TEST

START_TEST(no_device_no_library_no_symbols)
{
    struct rt_device *d = NULL;
    struct rt_device_config c = {.library = "/nonexistent/libnrt.so"};
    ck_assert_int_eq(rt_device_open("neuron", &c, &d, &err), NF_ENODEVICE);
    ck_assert_str_ne(err.hint, "");
    c.library = "libm.so.6";
    ck_assert_int_eq(rt_device_open("neuron", &c, &d, &err), NF_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(err.message, "nrt_init"));
    c.library = getenv("FAKE_LIBNRT");
    setenv("FAKE_NRT_MAJOR", "3", 1);
    ck_assert_int_eq(rt_device_open("neuron", &c, &d, &err), NF_EUNSUPPORTED);
    unsetenv("FAKE_NRT_MAJOR");
    ck_assert_int_eq(rt_device_open("neuron:7", &c, &d, &err), NF_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(err.message, "2 cores"));
}
END_TEST

START_TEST(compile_only_when_the_runtime_cannot_start)
{
    struct rt_device *d = NULL;
    struct rt_program *p = NULL;
    struct rt_device_config c = {.library = getenv("FAKE_LIBNRT"), .compile_only = true};
    setenv("FAKE_NRT_INIT", "1", 1);
    ck_assert_int_eq(rt_device_open("neuron", &c, &d, &err), 0);
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err), NF_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(err.message, "compile only"));
    rt_device_close(d);
    c.compile_only = false;
    ck_assert_int_eq(rt_device_open("neuron", &c, &d, &err), NF_ENODEVICE);
}
END_TEST

START_TEST(a_forked_child_is_told)
{
    struct rt_device *d = device("neuron");
    struct rt_program *p = NULL;
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &p, &err), 0);
    pid_t pid = fork();
    if (pid == 0) {
        float x[4] = {0}, y[4];
        const void *in[] = {x};
        void *out[] = {y};
        int r = rt_execute_host(p, in, out, &err);
        rt_program_unload(p);
        rt_device_close(d);
        _exit(r == NF_ENODEVICE ? 0 : 1);
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    ck_assert_int_eq(status, 0);
    rt_program_unload(p);
    rt_device_close(d);
    ck_assert(!traced("misuse"));
}
END_TEST

static struct rt_program *shared;
static void *run_many(void *arg)
{
    float x[4] = {(float)(uintptr_t)arg, 0, 0, 0}, y[4];
    const void *in[] = {x};
    void *out[] = {y};
    struct nf_error e;
    for (int i = 0; i < 50; i++)
        if (rt_execute_host(shared, in, out, &e) != 0 || y[0] > x[0] + 1.5f || y[0] < x[0] + 0.5f)
            return shared;
    return NULL;
}

START_TEST(threads_may_execute_one_program)
{
    struct rt_device *d = device("neuron");
    ck_assert_int_eq(rt_program_load(d, nf_buf_str(&artifact), NULL, &shared, &err), 0);
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, run_many, (void *)(uintptr_t)i);
    for (size_t i = 0; i < 4; i++) {
        void *bad;
        pthread_join(t[i], &bad);
        ck_assert_ptr_null(bad);
    }
    rt_program_unload(shared);
    rt_device_close(d);
}
END_TEST

int main(void)
{
    rt_device_register(&rt_neuron_device);
    Suite *s = suite_create("runtime-neuron");
    TCase *t = tcase_create("neuron");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_program_runs);
    tcase_add_test(t, ranks_load_together);
    tcase_add_test(t, two_devices_share_one_runtime);
    tcase_add_test(t, what_the_runtime_lacks_is_never_sent);
    tcase_add_test(t, statuses_have_names);
    tcase_add_test(t, no_device_no_library_no_symbols);
    tcase_add_test(t, compile_only_when_the_runtime_cannot_start);
    tcase_add_test(t, a_forked_child_is_told);
    tcase_add_test(t, threads_may_execute_one_program);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
