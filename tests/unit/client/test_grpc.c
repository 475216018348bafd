/* The gRPC client against a server that also answers wrongly. */
#include "base/clock.h"
#include "client/grpc_client.h"
#include "proto/rpc.h"
#include "tests/unit/client/h2_peer.h"

#include <check.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/neffd-test-XXXXXX";
static char socket_path[64], address[80];
static struct h2_peer *peer;
static struct cl_channel *channel;

static void begin(struct h2_plan plan)
{
    peer = h2_peer_start(socket_path, &plan);
    ck_assert_int_eq(cl_channel_new(address, &channel, NULL), NF_OK);
}

static struct h2_seen end(void)
{
    struct h2_seen seen;
    cl_channel_free(channel);
    h2_peer_stop(peer, &seen);
    return seen;
}

static int unary(const char *text, struct nf_buf *reply, struct nf_error *err)
{
    nf_buf_clear(reply);
    return cl_unary(channel, "/t.T/M", nf_str_c(text), nf_now_ns() + 5 * NF_SEC, reply, err);
}

START_TEST(echo_reuses_a_connection)
{
    struct nf_buf reply = NF_BUF_INIT;
    struct nf_error err = {0};
    begin((struct h2_plan){.how = H2_ECHO});
    for (int i = 0; i < 20; i++) {
        ck_assert_msg(unary("hello", &reply, &err) == NF_OK, "%s", err.message);
        ck_assert_str_eq(reply.data, "hello");
    }
    ck_assert_int_eq(unary("", &reply, &err), NF_OK); /* an empty message is a message */
    ck_assert_uint_eq(reply.len, 0);
    nf_buf_done(&reply);
    struct h2_seen seen = end();
    ck_assert_uint_eq(seen.connections, 1);
    ck_assert_uint_eq(seen.streams, 21);
    ck_assert_str_eq(seen.path, "/t.T/M");
    ck_assert_str_eq(seen.content_type, "application/grpc");
    ck_assert_str_eq(seen.te, "trailers");
    ck_assert_uint_gt(strlen(seen.timeout), 1);
    ck_assert_uint_le(strlen(seen.timeout), 9); /* eight digits and the unit */
}
END_TEST

START_TEST(status_is_decoded)
{
    static const struct {
        int status, code;
        const char *message, *error_bin, *want;
    } rows[] = {
        {3, NF_EINVAL, "100%25 wr%C3%B6ng %zz", NULL, "100% wr\xC3\xB6ng %zz"},
        {5, NF_ENOTFOUND, NULL, NULL, NULL},
        {8, NF_EOVERLOADED, "full", NULL, "full"},
        {12, NF_EUNSUPPORTED, "no such method", NULL, "no such method"},
        {14, NF_EDISCONNECTED, "gone", NULL, "gone"},
        {16, NF_EPERM, "who", NULL, "who"},
        {77, NF_EINTERNAL, "new", NULL, "new"},
        /* Error {code: "lock_timeout", message: "held", retry_after_ms: 250}, without padding */
        {4, NF_ELOCKTIMEOUT, "short", "Cgxsb2NrX3RpbWVvdXQaBGhlbGQ4+gE", "held"},
        {4, NF_ETIMEOUT, "short", "not base64!", "short"},
        {4, NF_ETIMEOUT, "short", "////", "short"}, /* base64, but no Error */
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        struct nf_buf reply = NF_BUF_INIT;
        struct nf_error err = {0};
        begin((struct h2_plan){.how = H2_STATUS, .status = rows[i].status, .message = rows[i].message, .error_bin = rows[i].error_bin});
        ck_assert_msg(unary("x", &reply, &err) == rows[i].code, "row %zu: %d %s", i, err.code, err.message);
        ck_assert_int_eq(err.code, rows[i].code);
        if (rows[i].want)
            ck_assert_str_eq(err.message, rows[i].want);
        if (rows[i].code == NF_ELOCKTIMEOUT)
            ck_assert_uint_eq(err.retry_after_ms, 250);
        nf_buf_done(&reply);
        end();
    }
}
END_TEST

START_TEST(broken_answers_are_errors)
{
    static const struct {
        struct h2_plan plan;
        int code;
    } rows[] = {
        {{.how = H2_COMPRESSED}, NF_EPROTOCOL}, {{.how = H2_CUT}, NF_EPROTOCOL}, {{.how = H2_TOO_LONG}, NF_EPROTOCOL},
        {{.how = H2_NO_STATUS}, NF_EPROTOCOL}, {{.how = H2_HTTP, .status = 503}, NF_EDISCONNECTED}, {{.how = H2_HTTP, .status = 404}, NF_EPROTOCOL},
        {{.how = H2_CLOSE}, NF_EDISCONNECTED}, {{.how = H2_RESET}, NF_EDISCONNECTED}, {{.how = H2_GARBAGE}, NF_EDISCONNECTED},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        struct nf_buf reply = NF_BUF_INIT;
        struct nf_error err = {0};
        begin(rows[i].plan);
        int r = unary("x", &reply, &err);
        ck_assert_msg(r == rows[i].code, "row %zu: %d %s", i, r, err.message);
        ck_assert_uint_gt(strlen(err.message), 10);
        ck_assert_uint_eq(reply.len, 0);
        nf_buf_done(&reply);
        end();
    }
}
END_TEST

START_TEST(refused_and_goaway_are_taken_up_again)
{
    struct nf_buf reply = NF_BUF_INIT;
    struct nf_error err = {0};
    begin((struct h2_plan){.how = H2_REFUSE_ONCE});
    ck_assert_msg(unary("again", &reply, &err) == NF_OK, "%s", err.message);
    ck_assert_str_eq(reply.data, "again");
    end();
    begin((struct h2_plan){.how = H2_GOAWAY_AFTER});
    for (int i = 0; i < 3; i++)
        ck_assert_msg(unary("hello", &reply, &err) == NF_OK, "%s", err.message);
    ck_assert_uint_eq(end().connections, 3);
    nf_buf_done(&reply);
}
END_TEST

START_TEST(idle_connection_that_died_is_replaced)
{
    struct nf_buf reply = NF_BUF_INIT;
    struct nf_error err = {0};
    struct h2_plan plan = {.how = H2_ECHO};
    begin(plan);
    ck_assert_int_eq(unary("one", &reply, &err), NF_OK);
    h2_peer_stop(peer, NULL);
    ck_assert_int_eq(unary("none", &reply, &err), NF_ENODAEMON);
    peer = h2_peer_start(socket_path, &plan);
    ck_assert_msg(unary("two", &reply, &err) == NF_OK, "%s", err.message);
    ck_assert_str_eq(reply.data, "two");
    nf_buf_done(&reply);
    end();
}
END_TEST

START_TEST(deadline_ends_a_call_and_tells_the_server)
{
    struct nf_buf reply = NF_BUF_INIT;
    struct nf_error err = {0};
    begin((struct h2_plan){.how = H2_SILENT});
    int64_t t = nf_now_ns();
    ck_assert_int_eq(cl_unary(channel, "/t.T/M", nf_str_c("x"), t + 150 * NF_MS, &reply, &err), NF_ETIMEOUT);
    t = nf_now_ns() - t;
    ck_assert_int_ge(t, 149 * NF_MS);
    ck_assert_int_le(t, 2 * NF_SEC);
    ck_assert_int_eq(cl_unary(channel, "/t.T/M", nf_str_c("x"), nf_now_ns() - 1, &reply, &err), NF_ETIMEOUT);
    nf_sleep_ns(50 * NF_MS);
    nf_buf_done(&reply);
    ck_assert_uint_eq(end().cancelled, 1);
}
END_TEST

START_TEST(streams_pass_the_windows)
{
    struct cl_call *call;
    struct nf_error err = {0};
    struct nf_str m;
    size_t n = 0, bytes = 0;
    int r;
    begin((struct h2_plan){.how = H2_STREAM, .count = 64, .size = CL_MESSAGE_MAX});
    ck_assert_int_eq(cl_call_start(channel, "/t.T/M", CL_NO_DEADLINE, &call, &err), NF_OK);
    ck_assert_int_eq(cl_call_send(call, "go", 2, true, &err), NF_OK);
    while ((r = cl_call_recv(call, &m, &err)) == 1) {
        n++;
        bytes += m.len;
        ck_assert_int_eq(m.data[m.len - 1], 'x');
    }
    ck_assert_msg(r == 0, "%s", err.message);
    ck_assert_int_eq(cl_call_recv(call, &m, &err), 0); /* the end stays the end */
    cl_call_free(call);
    ck_assert_uint_eq(n, 64);
    ck_assert_uint_eq(bytes, 64 * CL_MESSAGE_MAX);
    ck_assert_str_eq(end().timeout, ""); /* no deadline, no header */

    /* And the other way: 64 MiB up, then the count down. */
    char *big = nf_alloc(CL_MESSAGE_MAX);
    begin((struct h2_plan){.how = H2_COUNT});
    ck_assert_int_eq(cl_call_start(channel, "/t.T/M", nf_now_ns() + 60 * NF_SEC, &call, &err), NF_OK);
    for (int i = 0; i < 64; i++)
        ck_assert_msg(cl_call_send(call, big, CL_MESSAGE_MAX, false, &err) == NF_OK, "%s", err.message);
    ck_assert_int_eq(cl_call_send(call, big, CL_MESSAGE_MAX + 1, false, &err), NF_ELIMIT);
    ck_assert_int_eq(cl_call_half_close(call, &err), NF_OK);
    ck_assert_msg(cl_call_recv(call, &m, &err) == 1, "%s", err.message);
    ck_assert(nf_str_eq_c(m, "67109184")); /* 64 x (1 MiB + 5) */
    ck_assert_int_eq(cl_call_recv(call, &m, &err), 0);
    cl_call_free(call);
    free(big);
    end();
}
END_TEST

START_TEST(an_answer_before_the_half_close)
{
    struct cl_call *call;
    struct nf_error err = {0};
    struct nf_str m;
    begin((struct h2_plan){.how = H2_EARLY});
    ck_assert_int_eq(cl_call_start(channel, "/t.T/M", CL_NO_DEADLINE, &call, &err), NF_OK);
    ck_assert(!cl_call_ready(call));
    ck_assert_int_eq(cl_call_send(call, "start", 5, false, &err), NF_OK);
    ck_assert_int_eq(cl_call_recv(call, &m, &err), 1);
    ck_assert(nf_str_eq_c(m, "early"));
    cl_call_free(call); /* cancels: the server would wait for ever */
    nf_sleep_ns(50 * NF_MS);
    ck_assert_uint_eq(end().cancelled, 1);
}
END_TEST

START_TEST(a_forked_child_connects_for_itself)
{
    struct nf_buf reply = NF_BUF_INIT;
    struct nf_error err = {0};
    int status;
    begin((struct h2_plan){.how = H2_ECHO});
    ck_assert_int_eq(unary("parent", &reply, &err), NF_OK);
    pid_t pid = fork();
    if (pid == 0) {
        bool fine = unary("child", &reply, &err) == NF_OK && strcmp(reply.data, "child") == 0;
        _exit(fine ? 0 : 1);
    }
    /* Both use the channel at once. */
    for (int i = 0; i < 10; i++)
        ck_assert_msg(unary("parent", &reply, &err) == NF_OK, "%s", err.message);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(unary("still", &reply, &err), NF_OK);
    nf_buf_done(&reply);
    ck_assert_uint_eq(end().connections, 2);
}
END_TEST

static void on_alarm(int sig) { (void)sig; }

START_TEST(signals_do_not_end_a_call)
{
    struct nf_buf reply = NF_BUF_INIT;
    struct nf_error err = {0};
    struct sigaction sa = {.sa_handler = on_alarm}; /* no SA_RESTART */
    sigaction(SIGALRM, &sa, NULL);
    begin((struct h2_plan){.how = H2_SILENT});
    ualarm(10000, 10000);
    int64_t t = nf_now_ns();
    ck_assert_int_eq(cl_unary(channel, "/t.T/M", nf_str_c("x"), t + 200 * NF_MS, &reply, &err), NF_ETIMEOUT);
    ualarm(0, 0);
    ck_assert_int_ge(nf_now_ns() - t, 199 * NF_MS);
    nf_buf_done(&reply);
    end();
}
END_TEST

START_TEST(a_full_backlog_is_waited_for)
{
    /* A listener that never accepts: connect(2) says EAGAIN once its backlog is full. */
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct nf_error err = {0};
    struct cl_call *calls[8];
    int n = 0, r = 0;
    (void)nf_format(sun.sun_path, sizeof(sun.sun_path), "%s", socket_path);
    (void)unlink(socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(cl_channel_new(address, &channel, NULL), NF_OK);
    int64_t t = 0;
    while (n < 8) {
        t = nf_now_ns();
        r = cl_call_start(channel, "/t.T/M", t + 120 * NF_MS, &calls[n], &err);
        if (r < 0)
            break;
        n++;
    }
    ck_assert_int_eq(r, NF_ETIMEOUT);
    ck_assert_int_ge(nf_now_ns() - t, 119 * NF_MS);
    while (n-- > 0)
        cl_call_free(calls[n]);
    cl_channel_free(channel);
    close(fd);
    (void)unlink(socket_path);
}
END_TEST

START_TEST(addresses)
{
    static const char *const good[] = {"unix:/run/x.sock", "unix:///run/x.sock", "/run/x.sock", "localhost:1", "127.0.0.1:50051", "[::1]:50051"};
    static const char *const bad[] = {"", "unix:", "host", "host:", ":1", "unix://"};
    char path[200];
    struct nf_error err;
    for (size_t i = 0; i < NF_ARRAY_LEN(good); i++) {
        ck_assert_msg(cl_channel_new(good[i], &channel, &err) == NF_OK, "%s", good[i]);
        ck_assert_str_eq(cl_channel_address(channel), good[i]);
        if (i < 3)
            ck_assert_str_eq(cl_channel_unix_path(channel), "/run/x.sock");
        else
            ck_assert_ptr_null(cl_channel_unix_path(channel));
        cl_channel_free(channel);
    }
    for (size_t i = 0; i < NF_ARRAY_LEN(bad); i++)
        ck_assert_msg(cl_channel_new(bad[i], &channel, &err) == NF_EINVAL, "%s", bad[i]);
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    memcpy(path, "unix:/", 6);
    ck_assert_int_eq(cl_channel_new(path, &channel, &err), NF_EINVAL);
}
END_TEST

int main(void)
{
    if (!mkdtemp(dir))
        return 2;
    (void)nf_format(socket_path, sizeof(socket_path), "%s/s", dir);
    (void)nf_format(address, sizeof(address), "unix:%s", socket_path);
    Suite *s = suite_create("client-grpc");
    TCase *t = tcase_create("grpc");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, echo_reuses_a_connection);
    tcase_add_test(t, status_is_decoded);
    tcase_add_test(t, broken_answers_are_errors);
    tcase_add_test(t, refused_and_goaway_are_taken_up_again);
    tcase_add_test(t, idle_connection_that_died_is_replaced);
    tcase_add_test(t, deadline_ends_a_call_and_tells_the_server);
    tcase_add_test(t, streams_pass_the_windows);
    tcase_add_test(t, an_answer_before_the_half_close);
    tcase_add_test(t, a_forked_child_connects_for_itself);
    tcase_add_test(t, signals_do_not_end_a_call);
    tcase_add_test(t, a_full_backlog_is_waited_for);
    tcase_add_test(t, addresses);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    (void)rmdir(dir);
    return failed ? 1 : 0;
}
