/* bench_rpc.c: a unary Lookup (a hit in the local tier) against an empty echo on the same gRPC core, both by our own client over a Unix
 * socket in the same run. The echo is what no gRPC server can be faster than: one completion queue, one thread, inline, registered.
 *
 *     bench_rpc            starts `bench_rpc --echo SOCKET` and the daemon, measures, stops them
 *
 * Blocks of the two alternate, so that a busy machine is busy for both. */
#include "tests/benchmarks/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "client/grpc_client.h"
#include "proto/rpc.h"
#include "tests/benchmarks/entry.h"

#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 20, BLOCK = 1000, CLIENTS = 4, EACH = 5000, PAYLOAD = 64 << 10 };
#define ECHO_PATH "/bench.Echo/Echo"

static struct nf_error err;
static char root[128];

/* ------------------------------------------------------------------------------------------------ the echo */

enum { OUTSTANDING = 64 };

struct echo_call {
    grpc_call *call;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    gpr_timespec deadline;
    int cancelled;
    bool replying;
};

static void echo_request(grpc_server *server, void *method, grpc_completion_queue *cq, struct echo_call *c)
{
    *c = (struct echo_call){0};
    grpc_metadata_array_init(&c->metadata);
    grpc_server_request_registered_call(server, method, &c->call, &c->deadline, &c->metadata, &c->payload, cq, cq, c);
}

static void echo_reply(struct echo_call *c)
{
    grpc_op ops[4] = {0};
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = c->payload;
    ops[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    ops[3].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[3].data.recv_close_on_server.cancelled = &c->cancelled;
    c->replying = true;
    grpc_call_start_batch(c->call, ops, 4, c, NULL);
}

static int echo_main(const char *socket)
{
    static struct echo_call calls[OUTSTANDING];
    grpc_init();
    grpc_arg quiet = {.type = GRPC_ARG_INTEGER, .key = (char *)"grpc.per_message_compression", .value.integer = 0};
    grpc_channel_args args = {1, &quiet};
    grpc_server *server = grpc_server_create(&args, NULL);
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
    void *method = grpc_server_register_method(server, ECHO_PATH, NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_register_completion_queue(server, cq, NULL);
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    if (!grpc_server_add_http2_port(server, socket, credentials))
        return 1;
    grpc_server_start(server);
    for (size_t i = 0; i < OUTSTANDING; i++)
        echo_request(server, method, cq, &calls[i]);
    for (;;) { /* until the parent kills it */
        grpc_event e = grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        struct echo_call *c = e.tag;
        if (e.type != GRPC_OP_COMPLETE)
            return 1;
        if (!c->replying && e.success) {
            echo_reply(c);
            continue;
        }
        grpc_byte_buffer_destroy(c->payload);
        grpc_metadata_array_destroy(&c->metadata);
        if (c->call)
            grpc_call_unref(c->call);
        echo_request(server, method, cq, c);
    }
}

/* ------------------------------------------------------------------------------------------------ measuring */

static pid_t start(char *const argv[])
{
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        bench_fail("fork", NULL);
    return pid;
}

static struct cl_channel *connect_to(const char *address)
{
    struct cl_channel *channel = NULL;
    if (cl_channel_new(address, &channel, &err) != NF_OK)
        bench_fail("make a channel", &err);
    for (int i = 0; i < 200 && !cl_channel_answers(channel); i++)
        nf_sleep_ns(50 * NF_MS);
    return channel;
}

static void call(struct cl_channel *channel, const char *path, struct nf_str request, struct nf_buf *reply)
{
    nf_buf_clear(reply);
    if (cl_unary(channel, path, request, nf_now_ns() + 10 * NF_SEC, reply, &err) != NF_OK)
        bench_fail(path, &err);
}

static void measure(struct cl_channel *channel, const char *path, struct nf_str request, int count, struct bench_sample *s)
{
    struct nf_buf reply = NF_BUF_INIT;
    for (int i = 0; i < count; i++) {
        int64_t begin = nf_now_ns();
        call(channel, path, request, &reply);
        bench_add(s, (double)(nf_now_ns() - begin) / 1e3);
    }
    nf_buf_done(&reply);
}

/* Calls a second of several processes at once. */
static double rate(const char *address, const char *path, struct nf_str request)
{
    pid_t pids[CLIENTS];
    int64_t begin = nf_now_ns();
    for (int i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct cl_channel *channel = connect_to(address);
            struct bench_sample s = {0};
            measure(channel, path, request, EACH, &s);
            _exit(0);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        int status = 1;
        waitpid(pids[i], &status, 0);
        if (status)
            bench_fail("a client of the rate", NULL);
    }
    return (double)CLIENTS * EACH / ((double)(nf_now_ns() - begin) / 1e9);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--echo") == 0)
        return echo_main(argv[2]);
    const char *tmp = getenv("TMPDIR"), *build = getenv("TEST_BUILD");
    if (!build)
        bench_fail("TEST_BUILD is not set: run it by tests/bench", NULL);
    nf_format(root, sizeof(root), "%s/nf-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        bench_fail("make a directory", NULL);

    char *payload = nf_alloc(PAYLOAD), *local = nf_asprintf("%s/local", root);
    struct nf_digest front = nf_digest_of("bench", 5);
    nf_random(payload, PAYLOAD);
    bench_publish(local, &front, payload, PAYLOAD);

    char *echo_address = nf_asprintf("unix:%s/echo", root), *address = nf_asprintf("unix:%s/neffd.sock", root);
    char *echo_argv[] = {argv[0], (char *)"--echo", echo_address, NULL};
    char *daemon_argv[] = {nf_asprintf("%s/bin/neffd", build), nf_asprintf("--socket=%s", address), nf_asprintf("--local-dir=%s", local),
                           nf_asprintf("--cache-dir=%s/shared", root), nf_asprintf("--log-file=%s/log", root), (char *)"--workers=1", NULL};
    pid_t echo = start(echo_argv), neffd = start(daemon_argv);
    struct cl_channel *echo_channel = connect_to(echo_address), *channel = connect_to(address);

    Neffd__V1__LookupRequest lookup = NEFFD__V1__LOOKUP_REQUEST__INIT;
    lookup.front_key = rpc_binary(front.bytes, sizeof(front.bytes));
    lookup.delivery = NEFFD__V1__DELIVERY__DELIVERY_PATH;
    struct nf_buf request = NF_BUF_INIT, reply = NF_BUF_INIT;
    const char *path = rpc_method(RPC_LOOKUP)->path;
    if (rpc_encode(&lookup.base, &request) != NF_OK)
        bench_fail("encode", NULL);
    call(channel, path, nf_buf_str(&request), &reply);
    ProtobufCMessage *msg = NULL;
    if (rpc_decode(&neffd__v1__done__descriptor, nf_buf_str(&reply), &msg, &err) != NF_OK)
        bench_fail("decode", &err);
    if (((Neffd__V1__Done *)msg)->outcome != NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL)
        bench_fail("the daemon does not answer with a hit in the local tier", NULL);
    protobuf_c_message_free_unpacked(msg, NULL);

    struct bench_sample echoes = {0}, lookups = {0};
    for (int i = 0; i < BLOCKS; i++) {
        measure(echo_channel, ECHO_PATH, NF_STR(""), BLOCK, &echoes);
        measure(channel, path, nf_buf_str(&request), BLOCK, &lookups);
    }
    bench_report("empty gRPC echo", "us", &echoes, NULL);
    bench_report("Lookup, a hit", "us", &lookups, "empty gRPC echo");
    bench_report_value("empty gRPC echo, 4 clients", "calls/s", rate(echo_address, ECHO_PATH, NF_STR("")), CLIENTS * EACH, NULL);
    bench_report_value("Lookup, 4 clients", "calls/s", rate(address, path, nf_buf_str(&request)), CLIENTS * EACH, "empty gRPC echo, 4 clients");

    bench_sample_done(&echoes);
    bench_sample_done(&lookups);
    cl_channel_free(channel);
    cl_channel_free(echo_channel);
    kill(echo, SIGKILL);
    kill(neffd, SIGTERM);
    waitpid(echo, NULL, 0);
    waitpid(neffd, NULL, 0);
    nf_buf_done(&request);
    nf_buf_done(&reply);
    nf_remove_tree(AT_FDCWD, root);
    return 0;
}
