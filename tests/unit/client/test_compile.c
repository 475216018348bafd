/* The life of a request against a scripted daemon: upload, events, failures, fetch, asking again. */
#include "client/client_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "tests/unit/client/h2_peer.h"

#include <check.h>
#include <fcntl.h>
#include <unistd.h>

static char dir[64], local[80], shared[80], socket_path[80], address[96], file[96];
static struct h2_peer *peer;
static neffd_client *client;

enum { GRAPH_BYTES = 3 * 1024 * 1024 + 17 };
static char *graph;
static const char payload[] = "this is the artifact";

/* What the script shall do, and what it saw. */
static struct play {
    enum { FRONT_HIT, UPLOAD, FAIL, MISS, EXPLAIN, OVERLOADED_TWICE, DIES_ONCE, NEVER, SEND_TWICE, END_EARLY } how;
    bool bad_path, bad_bytes;
    int fetch_drops;                 /* connections cut in the middle of a fetch */
    size_t chunks, bytes, side_bytes, fetches;
    bool half_closed, same;
    uint64_t fetch_offset;
    struct nf_digest sha;
    char start_name[64], start_target[32], option[32];
    int action;
} play;

static void event(struct h2_stream *s, Neffd__V1__CompileEvent *e)
{
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(rpc_encode(&e->base, &b), NF_OK);
    h2_reply(s, b.data, b.len);
    nf_buf_done(&b);
}

static void done(struct h2_stream *s, int outcome)
{
    Neffd__V1__CompileEvent e = NEFFD__V1__COMPILE_EVENT__INIT;
    Neffd__V1__Done d = NEFFD__V1__DONE__INIT;
    Neffd__V1__Artifact a = NEFFD__V1__ARTIFACT__INIT;
    Neffd__V1__Explanation x = NEFFD__V1__EXPLANATION__INIT;
    Neffd__V1__Difference diff = NEFFD__V1__DIFFERENCE__INIT, *list[] = {&diff};
    d.outcome = (Neffd__V1__Outcome)outcome;
    a.kind = (char *)(uintptr_t)"neff";
    a.target = (char *)(uintptr_t)"cpu";
    a.path = play.bad_path ? (char *)(uintptr_t)"/nonexistent/file" : file;
    a.sha256 = rpc_binary(play.sha.bytes, 32);
    a.size = sizeof(payload) - 1;
    if (outcome != NEFFD_OUTCOME_MISS)
        d.artifact = &a;
    if (play.how == EXPLAIN) {
        diff.component = (char *)(uintptr_t)"option";
        diff.name = (char *)(uintptr_t)"optlevel";
        diff.cached = (char *)(uintptr_t)"2";
        diff.requested = (char *)(uintptr_t)"1";
        x.found = 1;
        x.nearest_key = rpc_binary(play.sha.bytes, 32);
        x.n_differences = 1;
        x.differences = list;
        d.explanation = &x;
    }
    e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_DONE;
    e.done = &d;
    event(s, &e);
    h2_end(s, 0, NULL);
}

static void send_input(struct h2_stream *s)
{
    Neffd__V1__CompileEvent e = NEFFD__V1__COMPILE_EVENT__INIT;
    Neffd__V1__SendInput in = NEFFD__V1__SEND_INPUT__INIT;
    uint32_t parts[] = {0, 1};
    in.n_parts = 2;
    in.parts = parts;
    e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_SEND_INPUT;
    e.send_input = &in;
    event(s, &e);
}

static void fetch(struct h2_stream *s, struct nf_str message)
{
    ProtobufCMessage *m;
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(rpc_decode(&neffd__v1__fetch_request__descriptor, message, &m, NULL), NF_OK);
    uint64_t at = ((Neffd__V1__FetchRequest *)m)->offset;
    protobuf_c_message_free_unpacked(m, NULL);
    play.fetches++;
    play.fetch_offset = at;
    bool drop = play.fetch_drops-- > 0;
    while (at < sizeof(payload) - 1) {
        Neffd__V1__FetchChunk c = NEFFD__V1__FETCH_CHUNK__INIT;
        size_t n = NF_MIN((size_t)5, sizeof(payload) - 1 - (size_t)at);
        c.sha256 = rpc_binary(play.sha.bytes, 32);
        c.size = sizeof(payload) - 1;
        c.offset = at;
        c.data = rpc_binary(play.bad_bytes ? "xxxxx" : payload + at, n);
        nf_buf_clear(&b);
        ck_assert_int_eq(rpc_encode(&c.base, &b), NF_OK);
        h2_reply(s, b.data, b.len);
        at += n;
        if (drop)
            break;
    }
    nf_buf_done(&b);
    if (drop)
        h2_drop(s);
    else
        h2_end(s, 0, NULL);
}

static void started(struct h2_stream *s, unsigned call, const Neffd__V1__CompileStart *start)
{
    (void)nf_format(play.start_name, sizeof(play.start_name), "%s", start->name);
    (void)nf_format(play.start_target, sizeof(play.start_target), "%s", start->target);
    if (start->n_options)
        (void)nf_format(play.option, sizeof(play.option), "%s=%s", start->options[0]->name, start->options[0]->value);
    play.action = (int)start->action;
    switch (play.how) {
    case FRONT_HIT: done(s, NEFFD_OUTCOME_HIT_SHARED); break;
    case UPLOAD:
    case SEND_TWICE: send_input(s); break;
    case FAIL: {
        Neffd__V1__CompileEvent e = NEFFD__V1__COMPILE_EVENT__INIT;
        Neffd__V1__Error err = NEFFD__V1__ERROR__INIT;
        err.code = (char *)(uintptr_t)"invalid_graph";
        err.message = (char *)(uintptr_t)"no such operation";
        err.location = (char *)(uintptr_t)"m.mlir:3:7";
        err.hint = (char *)(uintptr_t)"look there";
        err.from_cache = 1;
        e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_FAILED;
        e.failed = &err;
        event(s, &e);
        h2_end(s, 0, NULL);
        break;
    }
    case MISS:
    case EXPLAIN: done(s, NEFFD_OUTCOME_MISS); break;
    case OVERLOADED_TWICE:
        if (call < 2) /* Error {code: "overloaded", message: "full", retry_after_ms: 20} */
            h2_end(s, 8, "CgpvdmVybG9hZGVkGgRmdWxsOBQ=");
        else
            done(s, NEFFD_OUTCOME_COMPILED);
        break;
    case DIES_ONCE:
        if (call == 0)
            h2_drop(s);
        else
            done(s, NEFFD_OUTCOME_JOINED);
        break;
    case NEVER: break;
    case END_EARLY: h2_end(s, 0, NULL); break;
    }
}

static void script(void *user, struct h2_stream *s, unsigned call, const char *path, size_t index, struct nf_str message)
{
    (void)user;
    if (strcmp(path, "/neffd.v1.Compiler/Fetch") == 0) {
        if (message.data)
            fetch(s, message);
        return;
    }
    if (!message.data) {
        play.half_closed = true;
        if (play.how == UPLOAD)
            done(s, NEFFD_OUTCOME_COMPILED);
        return;
    }
    ProtobufCMessage *base;
    ck_assert_int_eq(rpc_decode(&neffd__v1__compile_request__descriptor, message, &base, NULL), NF_OK);
    const Neffd__V1__CompileRequest *m = (const Neffd__V1__CompileRequest *)base;
    if (m->message_case == NEFFD__V1__COMPILE_REQUEST__MESSAGE_START) {
        ck_assert_uint_eq(index, 0);
        started(s, call, m->start);
    } else {
        if (play.how == SEND_TWICE && play.chunks == 0)
            send_input(s);
        play.chunks++;
        if (m->chunk->part == 0) {
            play.same = play.same && memcmp(m->chunk->data.data, graph + play.bytes, m->chunk->data.len) == 0;
            play.bytes += m->chunk->data.len;
        } else {
            play.side_bytes += m->chunk->data.len;
        }
    }
    protobuf_c_message_free_unpacked(base, NULL);
}

static void begin(struct play p)
{
    struct h2_plan plan = {.how = H2_SCRIPT, .script = script};
    neffd_client_options options = {.struct_size = sizeof(options), .socket = address, .shared_dir = shared, .local_dir = local};
    play = p;
    play.same = true;
    play.sha = nf_digest_of(payload, sizeof(payload) - 1);
    peer = h2_peer_start(socket_path, &plan);
    ck_assert_int_eq(cl_client_open(&options, "test", &client, NULL), NF_OK);
}

static neffd_request request(void)
{
    static const neffd_side_file side = {.name = "side", .data = "abcdef", .bytes = 6};
    static const neffd_option option = {.name = "optlevel", .value = "1"};
    return (neffd_request){.struct_size = sizeof(neffd_request), .graph = graph, .graph_bytes = GRAPH_BYTES, .target = "cpu", .name = "bert", .options = &option,
        .option_count = 1, .side_files = &side, .side_file_count = 1, .timeout_ms = 20000};
}

static void end(void)
{
    neffd_client_close(client);
    h2_peer_stop(peer, NULL);
}

static void expect_payload(neffd_artifact *a)
{
    const void *data;
    neffd_error err;
    ck_assert_uint_eq(neffd_artifact_bytes(a), sizeof(payload) - 1);
    ck_assert_mem_eq(neffd_artifact_sha256(a), play.sha.bytes, 32);
    ck_assert_msg(neffd_artifact_map(a, &data, &err) == NEFFD_OK, "%s", err.message);
    ck_assert_mem_eq(data, payload, sizeof(payload) - 1);
    /* The path can be opened, too. */
    struct nf_buf b = NF_BUF_INIT;
    struct nf_error why = {0};
    ck_assert_msg(nf_file_read(neffd_artifact_path(a), 1 << 20, &b, &why) == NF_OK, "%s", why.message);
    ck_assert_uint_ge(b.len, sizeof(payload) - 1);
    ck_assert_mem_eq(b.data, payload, sizeof(payload) - 1);
    nf_buf_done(&b);
}

START_TEST(front_hit_uploads_nothing)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    begin((struct play){.how = FRONT_HIT});
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    expect_payload(a);
    ck_assert_str_eq(neffd_artifact_path(a), file);
    ck_assert_int_eq(neffd_artifact_outcome(a), NEFFD_OUTCOME_HIT_SHARED);
    neffd_artifact_unref(a);
    end();
    ck_assert_uint_eq(play.chunks, 0);
    ck_assert_str_eq(play.start_name, "bert");
    ck_assert_str_eq(play.start_target, "cpu");
    ck_assert_str_eq(play.option, "optlevel=1");
    ck_assert_int_eq(play.action, CL_COMPILE);
}
END_TEST

static unsigned events;
static int count_event(void *user, const char *line, const void *bytes, size_t len)
{
    (void)line;
    (void)bytes;
    ck_assert_uint_gt(len, 0);
    events++;
    return *(int *)user;
}

START_TEST(upload_when_asked)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    int stop = 0;
    q.on_event = count_event;
    q.user = &stop;
    events = 0;
    begin((struct play){.how = UPLOAD});
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    expect_payload(a);
    neffd_artifact_unref(a);
    end();
    ck_assert_uint_eq(play.bytes, GRAPH_BYTES);
    ck_assert(play.same);
    ck_assert_uint_eq(play.side_bytes, 6);
    ck_assert(play.half_closed);
    ck_assert_uint_eq(events, 2);
}
END_TEST

START_TEST(the_caller_may_stop_waiting)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    int stop = 1;
    q.on_event = count_event;
    q.user = &stop;
    begin((struct play){.how = UPLOAD});
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_ECANCELLED);
    ck_assert_ptr_null(a);
    end();
}
END_TEST

START_TEST(a_failure_is_an_answer)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    begin((struct play){.how = FAIL});
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_EGRAPH);
    ck_assert_str_eq(err.name, "invalid_graph");
    ck_assert_str_eq(err.message, "no such operation");
    ck_assert_str_eq(err.location, "m.mlir:3:7");
    ck_assert_str_eq(err.hint, "look there");
    ck_assert(!err.retryable);
    end();
}
END_TEST

START_TEST(misses)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    char *text;
    void *bytes;
    size_t n;
    begin((struct play){.how = MISS});
    ck_assert_int_eq(neffd_lookup(client, &q, &a, &err), NEFFD_ENOTFOUND);
    ck_assert_int_eq(play.action, CL_LOOKUP);
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_EPROTOCOL); /* a compile cannot miss */
    end();
    begin((struct play){.how = EXPLAIN});
    ck_assert_int_eq(neffd_explain(client, &q, &text, &bytes, &n, &err), NEFFD_OK);
    ck_assert_int_eq(play.action, CL_EXPLAIN);
    ck_assert_ptr_nonnull(strstr(text, "option optlevel"));
    ProtobufCMessage *m;
    ck_assert_int_eq(rpc_decode(&neffd__v1__done__descriptor, nf_str_n(bytes, n), &m, NULL), NF_OK);
    ck_assert(((Neffd__V1__Done *)m)->explanation->found);
    protobuf_c_message_free_unpacked(m, NULL);
    free(text);
    free(bytes);
    end();
    /* Where compiling is forbidden, a compile is a question, and the error explains. */
    setenv("NEFFD_CACHE_ONLY", "1", 1);
    begin((struct play){.how = EXPLAIN});
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_ENOTFOUND);
    ck_assert_int_eq(play.action, CL_EXPLAIN);
    ck_assert_ptr_nonnull(strstr(err.message, "option optlevel: 2 -> 1"));
    end();
    unsetenv("NEFFD_CACHE_ONLY");
}
END_TEST

START_TEST(a_path_that_cannot_be_trusted_is_fetched)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    begin((struct play){.how = FRONT_HIT, .bad_path = true});
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    expect_payload(a);
    ck_assert_uint_eq(play.fetches, 1);
    neffd_artifact_unref(a);
    end();
    /* The file holds something else. */
    int fd = open(file, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "T", 1, 0), 1);
    close(fd);
    begin((struct play){.how = FRONT_HIT});
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    expect_payload(a);
    ck_assert_uint_eq(play.fetches, 1);
    neffd_artifact_unref(a);
    end();
}
END_TEST

START_TEST(a_fetch_goes_on_where_it_was_cut)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    begin((struct play){.how = FRONT_HIT, .bad_path = true, .fetch_drops = 2});
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    expect_payload(a);
    ck_assert_uint_eq(play.fetches, 3);
    ck_assert_uint_gt(play.fetch_offset, 0);
    neffd_artifact_unref(a);
    end();
    a = NULL;
    begin((struct play){.how = FRONT_HIT, .bad_path = true, .bad_bytes = true});
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_ECORRUPT);
    ck_assert_ptr_null(a);
    end();
}
END_TEST

START_TEST(asking_again)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    begin((struct play){.how = OVERLOADED_TWICE});
    int64_t t = nf_now_ns();
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    ck_assert_int_ge(nf_now_ns() - t, 40 * NF_MS); /* as the server said */
    neffd_artifact_unref(a);
    end();
    begin((struct play){.how = DIES_ONCE});
    ck_assert_msg(neffd_compile(client, &q, &a, &err) == NEFFD_OK, "%s", err.message);
    ck_assert_int_eq(neffd_artifact_outcome(a), NEFFD_OUTCOME_JOINED);
    neffd_artifact_unref(a);
    end();
}
END_TEST

START_TEST(patience_ends)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    q.timeout_ms = 150;
    begin((struct play){.how = NEVER});
    int64_t t = nf_now_ns();
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_ETIMEOUT);
    ck_assert_int_eq(err.failure_class, NEFFD_FAILURE_CLASS_TIMEOUT);
    ck_assert_int_le(nf_now_ns() - t, 2 * NF_SEC);
    end();
}
END_TEST

START_TEST(a_daemon_that_breaks_the_protocol)
{
    neffd_artifact *a = NULL;
    neffd_error err;
    neffd_request q = request();
    begin((struct play){.how = SEND_TWICE});
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_EPROTOCOL);
    end();
    begin((struct play){.how = END_EARLY});
    ck_assert_int_eq(neffd_compile(client, &q, &a, &err), NEFFD_EPROTOCOL);
    end();
}
END_TEST

static void setup(void)
{
    (void)nf_format(dir, sizeof(dir), "/tmp/neffd-test-XXXXXX");
    if (!mkdtemp(dir))
        abort();
    (void)nf_format(local, sizeof(local), "%s/local", dir);
    (void)nf_format(shared, sizeof(shared), "%s/shared", dir);
    (void)nf_format(socket_path, sizeof(socket_path), "%s/s", dir);
    (void)nf_format(address, sizeof(address), "unix:%s", socket_path);
    (void)nf_format(file, sizeof(file), "%s/artifact", dir);
    setenv("NEFFD_CONFIG", "", 1);
    graph = nf_alloc(GRAPH_BYTES);
    for (size_t i = 0; i < GRAPH_BYTES; i++)
        graph[i] = (char)(i * 7 + i / 251);
    int fd = open(file, O_WRONLY | O_CREAT, 0644);
    if (fd < 0 || write(fd, payload, sizeof(payload) - 1) < 0 || write(fd, "what comes behind", 17) < 0)
        abort();
    close(fd);
}

static void teardown(void)
{
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY);
    (void)nf_remove_tree(fd, dir + 5);
    close(fd);
    free(graph);
}

int main(void)
{
    Suite *s = suite_create("client-compile");
    TCase *t = tcase_create("compile");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, front_hit_uploads_nothing);
    tcase_add_test(t, upload_when_asked);
    tcase_add_test(t, the_caller_may_stop_waiting);
    tcase_add_test(t, a_failure_is_an_answer);
    tcase_add_test(t, misses);
    tcase_add_test(t, a_path_that_cannot_be_trusted_is_fetched);
    tcase_add_test(t, a_fetch_goes_on_where_it_was_cut);
    tcase_add_test(t, asking_again);
    tcase_add_test(t, patience_ends);
    tcase_add_test(t, a_daemon_that_breaks_the_protocol);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
