/* neffd.h without a daemon: what is checked, what is a hit, what an error says. Links libneffd.so as its users do. */
#include "neffd.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/neffd-test-XXXXXX";
static char local[64], shared[64], address[80];

static neffd_client *open_client(bool offline)
{
    neffd_client *client = NULL;
    neffd_error err;
    neffd_client_options options = {.struct_size = sizeof(options), .socket = address, .shared_dir = shared, .local_dir = local, .offline = offline};
    ck_assert_msg(neffd_client_open(&options, &client, &err) == NEFFD_OK, "%s", err.message);
    return client;
}

/* <local>/toolchains as the daemon writes it. */
static void write_toolchains(const char *id)
{
    char path[128];
    (void)mkdir(local, 0755);
    (void)snprintf(path, sizeof(path), "%s/toolchains", local);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "neffd-toolchains 1\ncpu\t%s\tneffd-cpu\t0.1.0\t-\t0\t0\n", id);
    fclose(f);
}

static const char graph[] = "func.func @main() { return }";

static neffd_request request_of(const neffd_option *options, size_t count)
{
    return (neffd_request){.struct_size = sizeof(neffd_request), .graph = graph, .graph_bytes = sizeof(graph) - 1, .target = "cpu", .options = options, .option_count = count};
}

START_TEST(opening_needs_nothing)
{
    neffd_client *client = NULL;
    neffd_error err;
    ck_assert_str_eq(neffd_version(), NEFFD_VERSION);
    ck_assert_int_eq(neffd_client_open(NULL, &client, &err), NEFFD_OK);
    neffd_client_close(client);
    neffd_client_close(NULL);
    neffd_artifact_unref(NULL);
    neffd_program_unload(NULL);
    ck_assert_ptr_null(neffd_artifact_path(NULL));
}
END_TEST

START_TEST(structures_say_their_size)
{
    struct {
        neffd_client_options options;
        char more[16];
    } grown = {.options = {.struct_size = sizeof(grown)}};
    neffd_client *client = NULL;
    neffd_error err;
    ck_assert_int_eq(neffd_client_open(&grown.options, &client, &err), NEFFD_OK); /* a newer caller that uses nothing new */
    neffd_client_close(client);
    client = NULL;
    grown.more[3] = 1;
    ck_assert_int_eq(neffd_client_open(&grown.options, &client, &err), NEFFD_EUNSUPPORTED);
    grown.options.struct_size = 8;
    ck_assert_int_eq(neffd_client_open(&grown.options, &client, &err), NEFFD_EINVAL);
    ck_assert_str_eq(err.name, "invalid_argument");
    ck_assert_ptr_null(client);
}
END_TEST

START_TEST(requests_are_checked)
{
    neffd_client *client = open_client(true);
    neffd_error err;
    neffd_artifact *artifact = NULL;
    neffd_option nameless = {.name = "", .value = "1"}, broken = {.name = "x", .value = "\xff"};
    neffd_request q = request_of(NULL, 0);
    q.graph_bytes = 0;
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_EGRAPH);
    ck_assert_int_eq(err.failure_class, NEFFD_FAILURE_CLASS_USER);
    q = request_of(NULL, 1);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_EINVAL);
    q = request_of(&nameless, 1);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_EINVAL);
    q = request_of(&broken, 1);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_EINVAL);
    q = request_of(NULL, 0);
    q.priority = 9;
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_EINVAL);
    q = request_of(NULL, 0);
    q.target = "gpu";
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_EINVAL);
    ck_assert_int_eq(neffd_compile(client, NULL, &artifact, &err), NEFFD_EINVAL);
    ck_assert_int_eq(neffd_compile(NULL, &q, &artifact, &err), NEFFD_EINVAL);
    ck_assert_int_eq(neffd_compile(client, &q, NULL, NULL), NEFFD_EINVAL);
    ck_assert_ptr_null(artifact);
    neffd_client_close(client);
}
END_TEST

START_TEST(front_keys)
{
    uint8_t a[32], b[32], untouched[32];
    neffd_error err;
    neffd_option o2 = {"optlevel", "2"}, twice[] = {{"optlevel", "1"}, {"optlevel", "2"}};
    neffd_client *client = open_client(false);
    neffd_request q = request_of(NULL, 0);
    memset(a, 7, sizeof(a));
    memset(untouched, 7, sizeof(untouched));
    ck_assert_int_eq(neffd_front_key(client, &q, a, &err), NEFFD_ENOTFOUND); /* no list of toolchains */
    ck_assert_mem_eq(a, untouched, 32);
    write_toolchains("id-1");
    ck_assert_msg(neffd_front_key(client, &q, a, &err) == NEFFD_OK, "%s", err.message);
    ck_assert_int_eq(neffd_front_key(client, &q, b, &err), NEFFD_OK);
    ck_assert_mem_eq(a, b, 32);
    q.name = "a name is never part of a key";
    q.priority = NEFFD_PRIORITY_WARMUP;
    q.timeout_ms = 5;
    ck_assert_int_eq(neffd_front_key(client, &q, b, &err), NEFFD_OK);
    ck_assert_mem_eq(a, b, 32);
    q = request_of(&o2, 1);
    ck_assert_int_eq(neffd_front_key(client, &q, b, &err), NEFFD_OK);
    ck_assert_mem_ne(a, b, 32);
    q = request_of(twice, 2);
    ck_assert_int_eq(neffd_front_key(client, &q, a, &err), NEFFD_OK);
    ck_assert_mem_eq(a, b, 32); /* the right-most of a name wins */
    write_toolchains("id-2");
    ck_assert_int_eq(neffd_front_key(client, &q, b, &err), NEFFD_OK);
    ck_assert_mem_ne(a, b, 32);
    neffd_side_file side = {.name = "k.neff", .data = "abc", .bytes = 3};
    q.side_files = &side;
    q.side_file_count = 1;
    ck_assert_int_eq(neffd_front_key(client, &q, a, &err), NEFFD_OK);
    ck_assert_mem_ne(a, b, 32);
    side.data = "abd";
    ck_assert_int_eq(neffd_front_key(client, &q, b, &err), NEFFD_OK);
    ck_assert_mem_ne(a, b, 32);
    neffd_client_close(client);
}
END_TEST

START_TEST(without_a_daemon)
{
    neffd_error err;
    neffd_artifact *artifact = NULL;
    neffd_request q = request_of(NULL, 0);
    neffd_client *client = open_client(false);
    write_toolchains("id-1");
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_ENODAEMON);
    ck_assert_str_eq(err.name, "no_daemon");
    ck_assert_ptr_nonnull(strstr(err.message, address));
    ck_assert_ptr_nonnull(strstr(err.hint, "neffd --socket"));
    ck_assert(err.retryable);
    ck_assert_int_eq(err.failure_class, NEFFD_FAILURE_CLASS_ENVIRONMENT);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, NULL), NEFFD_ENODAEMON); /* err may be NULL */
    char *text = NULL;
    void *done = NULL;
    size_t n = 77;
    ck_assert_int_eq(neffd_explain(client, &q, &text, &done, &n, &err), NEFFD_ENODAEMON);
    ck_assert_ptr_null(text);
    ck_assert_uint_eq(n, 77);
    neffd_client_close(client);

    client = open_client(true);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_ENOTFOUND);
    ck_assert_int_eq(neffd_lookup(client, &q, &artifact, &err), NEFFD_ENOTFOUND);
    ck_assert_ptr_null(artifact);
    neffd_client_close(client);
}
END_TEST

START_TEST(a_wrong_address_is_told_when_it_is_needed)
{
    neffd_client *client = NULL;
    neffd_error err;
    neffd_artifact *artifact = NULL;
    neffd_request q = request_of(NULL, 0);
    char path[200] = "unix:/";
    memset(path + 6, 'a', sizeof(path) - 7);
    neffd_client_options options = {.struct_size = sizeof(options), .socket = path, .shared_dir = shared, .local_dir = local};
    int r = neffd_client_open(&options, &client, &err);
    if (r == NEFFD_OK)
        r = neffd_compile(client, &q, &artifact, &err);
    ck_assert(r == NEFFD_EINVAL || r == NEFFD_ECONFIG);
    ck_assert_uint_gt(strlen(err.message), 10);
    neffd_client_close(client);
}
END_TEST

START_TEST(no_program_to_start)
{
    neffd_client *client = NULL;
    neffd_error err;
    neffd_artifact *artifact = NULL;
    neffd_request q = request_of(NULL, 0);
    neffd_client_options options = {.struct_size = sizeof(options), .socket = address, .shared_dir = shared, .local_dir = local, .start_daemon = true};
    setenv("NEFFD_DAEMON", "/nonexistent/neffd", 1);
    ck_assert_int_eq(neffd_client_open(&options, &client, &err), NEFFD_OK);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_ENODAEMON);
    ck_assert_ptr_nonnull(strstr(err.message, "/nonexistent/neffd"));
    neffd_client_close(client);

    /* One that ends at once: its last words are the reason. */
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/neffd", dir);
    FILE *f = fopen(path, "w");
    fprintf(f, "#!/bin/sh\necho 'neffd: the cache is on fire' >&2\necho 'hint: call somebody' >&2\nexit 7\n");
    fclose(f);
    ck_assert_int_eq(chmod(path, 0755), 0);
    setenv("NEFFD_DAEMON", path, 1);
    ck_assert_int_eq(neffd_client_open(&options, &client, &err), NEFFD_OK);
    ck_assert_int_eq(neffd_compile(client, &q, &artifact, &err), NEFFD_ENODAEMON);
    ck_assert_msg(strstr(err.message, "the cache is on fire") != NULL, "%s", err.message);
    ck_assert_ptr_nonnull(strstr(err.hint, ".log"));
    neffd_client_close(client);
}
END_TEST

static void setup(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/neffd-test-XXXXXX");
    if (!mkdtemp(dir))
        abort();
    (void)snprintf(local, sizeof(local), "%s/local", dir);
    (void)snprintf(shared, sizeof(shared), "%s/shared", dir);
    (void)snprintf(address, sizeof(address), "unix:%s/s", dir);
    setenv("NEFFD_CONFIG", "", 1);
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    (void)!system(command);
}

int main(void)
{
    Suite *s = suite_create("client-api");
    TCase *t = tcase_create("api");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, opening_needs_nothing);
    tcase_add_test(t, structures_say_their_size);
    tcase_add_test(t, requests_are_checked);
    tcase_add_test(t, front_keys);
    tcase_add_test(t, without_a_daemon);
    tcase_add_test(t, a_wrong_address_is_told_when_it_is_needed);
    tcase_add_test(t, no_program_to_start);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
