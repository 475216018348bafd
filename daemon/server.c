/* server.c: see server.h. gRPC core's types stay in this file.
 *
 * Ownership of a call: `refs` counts outstanding batches plus one for the loop's (or, for an inline answer, the pump's) handle;
 * whoever drops the last frees it. Apart from refs and the fields written before the first post, a call belongs to the loop
 * thread once it has been posted, to the pump before.
 *
 * Why the descriptor numbers are chosen: gRPC says no more about a call's connection than "fd:17". If the kernel gave 17 to a new
 * connection while a call of the old one still stands in the queue, the call would be taken for the new peer's. So connections
 * live in a high range of numbers that nothing else opens, and a number is used again only when gRPC has closed it and QUARANTINE
 * has passed since we saw that. When none is free, nothing is accepted: callers wait in the listen queue.
 *
 * ThreadSanitizer does not see gRPC's inside: start_batch and next carry the release/acquire pair that really exists. */
#include "daemon/server.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SRV_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SRV_TSAN 1
#endif
#ifdef SRV_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define tsan_acquire(p) __tsan_acquire(p)
#define tsan_release(p) __tsan_release(p)
#else
#define tsan_acquire(p) ((void)(p))
#define tsan_release(p) ((void)(p))
#endif

#define REQUESTED 64                      /* calls asked for ahead of time */
#define QUARANTINE (2 * NF_SEC)           /* before a descriptor number is used again */
#define CONNECTIONS_MAX 16384

enum op_kind { OP_NEW, OP_RECV, OP_SEND, OP_FINISH, OP_CLOSE, OP_SHUTDOWN };

struct srv_op {
    struct post_item item;
    enum op_kind kind;
    bool ok;
    int64_t at_ns;            /* when the pump saw it */
    struct srv_call *call;
};

struct srv_call {
    _Atomic int refs;
    struct srv_server *server;
    const struct rpc_method *method;
    const struct srv_handler *handler;
    enum rpc_method_id id;
    grpc_call *gcall;
    grpc_call_details details;
    grpc_metadata_array metadata;
    gpr_timespec deadline;
    struct srv_peer peer;
    int64_t deadline_ns;
    struct srv_op op_new, op_recv, op_send, op_finish, op_close;
    bool in_pump;             /* answered inline: the loop never sees it */
    void *registered;         /* asked for by its method's name: the message comes with the call */
    /* loop thread */
    bool posted, half_closed, paused, receiving, sending, initial_sent, finishing, gone, closed_told;
    struct nf_buf *last;      /* a final message that waits for an outstanding send */
    struct nf_error *last_error;
    bool last_waits;
    void *user;
    /* buffers of batches under way */
    grpc_byte_buffer *incoming, *outgoing;
    int cancelled;
    grpc_slice status_details;
    grpc_metadata trailers[2];
    bool has_details;
    size_t trailer_count;
};

struct connection {
    bool used;                /* the number was given to gRPC, and we have not yet seen it closed */
    int64_t free_since;
    struct srv_peer peer;
};

struct srv_server {
    grpc_server *server;
    grpc_completion_queue *cq;
    grpc_server_credentials *creds;
    struct post_queue *post;
    const struct srv_handler *const *handlers;
    void *registered[RPC_METHOD_MAX];   /* methods with an inline answer */
    void *inline_ctx;
    pthread_t pump;
    bool pump_runs;
    uv_timer_t *burst;                  /* runs while the loop and the pump are ahead of ordinary processes */
    /* Guards connections[]: written by the loop (accept), read by the pump (a new call). A leaf: nothing is taken under it. */
    pthread_mutex_t connections_lock;
    struct connection *connections;
    int first_fd, fd_count, next_fd;
    /* shutdown, loop thread */
    bool shutting_down;
    struct srv_op op_shutdown;
    void (*shutdown_done)(void *arg);
    void *shutdown_arg;
};

static void on_posted(struct post_item *item);

/* ------------------------------------------------------------------------------------------------ batches and events */

static void call_unref(struct srv_call *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (c->incoming)
        grpc_byte_buffer_destroy(c->incoming);
    if (c->outgoing)
        grpc_byte_buffer_destroy(c->outgoing);
    if (c->has_details)
        grpc_slice_unref(c->status_details);
    for (size_t i = 0; i < c->trailer_count; i++) {
        grpc_slice_unref(c->trailers[i].key);
        grpc_slice_unref(c->trailers[i].value);
    }
    if (c->last) {
        nf_buf_done(c->last);
        free(c->last);
    }
    free(c->last_error);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_call_details_destroy(&c->details);
    if (c->gcall)
        grpc_call_unref(c->gcall);
    free(c);
}

/* One batch with its tag. A refusal by gRPC is our own mistake, but no reason to die: the call is ended. */
static bool start_batch(struct srv_call *c, const grpc_op *ops, size_t count, struct srv_op *op)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    tsan_release(op);
    grpc_call_error e = grpc_call_start_batch(c->gcall, ops, count, op, NULL);
    if (e == GRPC_CALL_OK)
        return true;
    nf_log(NF_LOG_ERROR, "rpc", "batch refused", "error=%s op=%d", grpc_call_error_to_string(e), (int)op->kind);
    grpc_call_cancel(c->gcall, NULL);
    call_unref(c);
    return false;
}

static void start_recv(struct srv_call *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &c->incoming;
    c->receiving = start_batch(c, &op, 1, &c->op_recv);
}

static void start_close(struct srv_call *c)
{
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    op.data.recv_close_on_server.cancelled = &c->cancelled;
    start_batch(c, &op, 1, &c->op_close);
}

static struct srv_call *call_new(struct srv_server *s)
{
    struct srv_call *c = nf_alloc(sizeof *c);
    atomic_init(&c->refs, 1);
    c->server = s;
    c->deadline_ns = INT64_MAX;
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    struct srv_op *ops[] = {&c->op_new, &c->op_recv, &c->op_send, &c->op_finish, &c->op_close};
    static const enum op_kind kinds[] = {OP_NEW, OP_RECV, OP_SEND, OP_FINISH, OP_CLOSE};
    for (size_t i = 0; i < NF_ARRAY_LEN(ops); i++)
        *ops[i] = (struct srv_op){.item.run = on_posted, .kind = kinds[i], .call = c};
    return c;
}

static void request_any(struct srv_server *s)
{
    struct srv_call *c = call_new(s);
    tsan_release(&c->op_new);
    grpc_call_error e = grpc_server_request_call(s->server, &c->gcall, &c->details, &c->metadata, s->cq, s->cq, &c->op_new);
    if (e != GRPC_CALL_OK) {
        nf_log(NF_LOG_ERROR, "rpc", "cannot ask for a call", "error=%s", grpc_call_error_to_string(e));
        c->gcall = NULL;
        call_unref(c);
    }
}

static void request_registered(struct srv_server *s, enum rpc_method_id id)
{
    struct srv_call *c = call_new(s);
    c->id = id;
    c->handler = s->handlers[id];
    c->method = rpc_method(id);
    c->registered = s->registered[id];
    tsan_release(&c->op_new);
    grpc_call_error e = grpc_server_request_registered_call(s->server, c->registered, &c->gcall, &c->deadline, &c->metadata, &c->incoming, s->cq,
                                                            s->cq, &c->op_new);
    if (e != GRPC_CALL_OK) {
        nf_log(NF_LOG_ERROR, "rpc", "cannot ask for a call", "error=%s", grpc_call_error_to_string(e));
        c->gcall = NULL;
        call_unref(c);
    }
}

static int64_t deadline_of(gpr_timespec deadline)
{
    if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) >= 0)
        return INT64_MAX;
    gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
    if (left.tv_sec > (int64_t)365 * 86400)
        return INT64_MAX;
    return nf_now_ns() + left.tv_sec * NF_SEC + left.tv_nsec;
}

static void find_peer(struct srv_call *c)
{
    struct srv_server *s = c->server;
    char *peer = grpc_call_get_peer(c->gcall);
    int64_t fd = -1;
    if (peer && strncmp(peer, "fd:", 3) == 0 && nf_str_to_i64(nf_str_c(peer + 3), &fd) == NF_OK && fd >= s->first_fd &&
        fd < s->first_fd + s->fd_count) {
        pthread_mutex_lock(&s->connections_lock);
        c->peer = s->connections[fd - s->first_fd].peer;
        pthread_mutex_unlock(&s->connections_lock);
    } else {
        c->peer = (struct srv_peer){.unix_socket = false, .uid = UINT32_MAX, .gid = UINT32_MAX};   /* trusted with nothing */
        nf_log(NF_LOG_WARNING, "rpc", "call from an unknown connection", "peer=%s", nf_log_quote(peer ? peer : ""));
    }
    gpr_free(peer);
}

/* The message as one run of bytes: in place when it is one slice, else copied into `copy`. */
static struct nf_str buffer_bytes(grpc_byte_buffer *b, grpc_byte_buffer_reader *reader, grpc_slice *ret_slice, bool *ret_opened)
{
    *ret_opened = grpc_byte_buffer_reader_init(reader, b) != 0;
    if (!*ret_opened)
        return (struct nf_str){NULL, 0};
    *ret_slice = grpc_byte_buffer_reader_readall(reader);
    return nf_str_n(GRPC_SLICE_START_PTR(*ret_slice), GRPC_SLICE_LENGTH(*ret_slice));
}

static void buffer_end(grpc_byte_buffer_reader *reader, grpc_slice slice, bool opened)
{
    if (!opened)
        return;
    grpc_slice_unref(slice);
    grpc_byte_buffer_reader_destroy(reader);
}

static void set_trailers(struct srv_call *c, const struct nf_error *err)
{
    struct nf_buf packed = NF_BUF_INIT;
    rpc_error_encode(err, &packed);   /* fields of nf_error are bounded: under the 8 KiB that peers allow in headers */
    c->trailers[0] = (grpc_metadata){.key = grpc_slice_from_static_string(RPC_ERROR_METADATA),
                                     .value = grpc_slice_from_copied_buffer(packed.data ? packed.data : "", packed.len)};
    c->trailer_count = 1;
    nf_buf_done(&packed);
    if (err->retry_after_ms) {
        char text[24];
        nf_format(text, sizeof text, "%llu", (unsigned long long)err->retry_after_ms);
        c->trailers[1] = (grpc_metadata){.key = grpc_slice_from_static_string("grpc-retry-pushback-ms"),
                                         .value = grpc_slice_from_copied_string(text)};
        c->trailer_count = 2;
    }
}

/* The batch that ends a call: [headers] [message] status. */
static void start_finish(struct srv_call *c, const void *message, size_t len, bool has_message, const struct nf_error *err)
{
    grpc_op ops[3] = {0};
    size_t n = 0;
    if (!c->initial_sent) {
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
        c->initial_sent = true;
    }
    if (has_message) {
        grpc_slice slice = grpc_slice_from_copied_buffer(len ? message : "", len);
        c->outgoing = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = c->outgoing;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    if (err && err->code) {
        set_trailers(c, err);
        c->status_details = grpc_slice_from_copied_string(err->message[0] ? err->message : nf_status_text(err->code));
        c->has_details = true;
        ops[n].data.send_status_from_server.status = (grpc_status_code)nf_status_grpc(err->code);
        ops[n].data.send_status_from_server.status_details = &c->status_details;
        ops[n].data.send_status_from_server.trailing_metadata = c->trailers;
        ops[n].data.send_status_from_server.trailing_metadata_count = c->trailer_count;
    } else {
        ops[n].data.send_status_from_server.status = GRPC_STATUS_OK;
    }
    n++;
    start_batch(c, ops, n, &c->op_finish);
}

/* -------------------------------------------------------------------------------------------------------- the pump */

/* Answers in the pump: used for refusals and for inline answers. The handle is dropped when the batch is done. */
static void refuse(struct srv_call *c, const struct nf_error *err)
{
    c->in_pump = true;
    start_close(c);
    start_finish(c, NULL, 0, false, err);
    call_unref(c);
}

static bool admitted(struct srv_call *c)
{
    struct nf_error err = {0};
    if (!c->method->admin || (c->peer.unix_socket && (c->peer.uid == 0 || c->peer.uid == (uint32_t)geteuid())))
        return true;
    if (c->peer.unix_socket)
        nf_fail(&err, NF_EPERM, "%s needs the daemon's uid %u or root, and the caller is uid %u", c->method->path, (unsigned)geteuid(), c->peer.uid);
    else
        nf_fail(&err, NF_EPERM, "%s is answered over the Unix socket only", c->method->path);
    refuse(c, &err);
    return false;
}

static bool pump_inline(struct srv_call *c);

/* The message is here already: an inline answer, else the loop's as any other. */
static void pump_registered_call(struct srv_call *c)
{
    find_peer(c);
    if (!admitted(c))
        return;
    if (pump_inline(c))
        return;
    c->deadline_ns = deadline_of(c->deadline);
    c->posted = true;
    start_close(c);
    /* As if the receive had been asked for and had come. */
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    c->op_recv.ok = true;
    post_push(c->server->post, &c->op_recv.item);
}

static void pump_new_call(struct srv_call *c)
{
    find_peer(c);
    c->deadline_ns = deadline_of(c->details.deadline);
    struct nf_str p = nf_str_n(GRPC_SLICE_START_PTR(c->details.method), GRPC_SLICE_LENGTH(c->details.method));
    c->id = rpc_method_find(p);
    c->handler = c->id < RPC_METHOD_MAX ? c->server->handlers[c->id] : NULL;
    struct nf_error err = {0};
    if (!c->handler) {
        nf_fail(&err, NF_EUNSUPPORTED, "unknown method %.*s", (int)NF_MIN(p.len, (size_t)200), p.data);
        refuse(c, &err);
        return;
    }
    c->method = rpc_method(c->id);
    if (!admitted(c))
        return;
    start_close(c);
    start_recv(c);
}

/* True: answered here. */
static bool pump_inline(struct srv_call *c)
{
    if (!c->handler->inline_answer || !c->incoming)
        return false;
    grpc_byte_buffer_reader reader;
    grpc_slice slice;
    bool opened;
    struct nf_str message = buffer_bytes(c->incoming, &reader, &slice, &opened);
    struct nf_buf reply = NF_BUF_INIT;
    bool answered = opened && c->handler->inline_answer(c->server->inline_ctx, message, &c->peer, &reply) && !reply.failed &&
                    reply.len <= RPC_MESSAGE_MAX;
    buffer_end(&reader, slice, opened);
    if (answered) {
        c->in_pump = true;
        grpc_slice out = grpc_slice_from_copied_buffer(reply.len ? reply.data : "", reply.len);
        c->outgoing = grpc_raw_byte_buffer_create(&out, 1);
        grpc_slice_unref(out);
        grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_MESSAGE},
                          {.op = GRPC_OP_SEND_STATUS_FROM_SERVER}, {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}};
        ops[1].data.send_message.send_message = c->outgoing;
        ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
        ops[3].data.recv_close_on_server.cancelled = &c->cancelled;
        start_batch(c, ops, 4, &c->op_finish);
        call_unref(c);   /* the handle; the batch holds the other */
    }
    nf_buf_done(&reply);
    return answered;
}

static void pump_event(struct srv_server *s, struct srv_op *op, bool ok)
{
    struct srv_call *c = op->call;
    op->ok = ok;
    if (op->kind == OP_FINISH)
        op->at_ns = nf_now_ns();
    if (op->kind == OP_SHUTDOWN) {
        post_push(s->post, &op->item);
        return;
    }
    if (op->kind == OP_NEW) {
        if (!ok) {   /* shutting down: never became a call */
            c->gcall = NULL;
            call_unref(c);
            return;
        }
        if (c->registered) {
            request_registered(s, c->id);
            pump_registered_call(c);
        } else {
            request_any(s);
            pump_new_call(c);
        }
        return;
    }
    if (c->in_pump) {
        call_unref(c);
        return;
    }
    post_push(s->post, &op->item);
}

static void *pump_main(void *arg)
{
    struct srv_server *s = arg;
    pthread_setname_np(pthread_self(), "neffd-grpc");
    for (;;) {
        grpc_event ev = grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (ev.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (ev.type != GRPC_OP_COMPLETE)
            continue;
        tsan_acquire(ev.tag);
        pump_event(s, ev.tag, ev.success != 0);
    }
}

/* --------------------------------------------------------------------------------------------------- the loop's side */

/* Tells the method that the call is over and drops the loop's handle. */
static void tell_closed(struct srv_call *c, bool cancelled)
{
    if (c->closed_told)
        return;
    c->closed_told = true;
    c->gone = true;
    if (c->handler->on_closed)
        c->handler->on_closed(c, cancelled);
    call_unref(c);
}

static void send_waiting_last(struct srv_call *c)
{
    if (!c->last_waits || c->sending || c->gone)
        return;
    c->last_waits = false;
    start_finish(c, c->last ? c->last->data : NULL, c->last ? c->last->len : 0, c->last != NULL, c->last_error);
}

static void on_received(struct srv_call *c, bool ok)
{
    grpc_byte_buffer *b = c->incoming;
    c->incoming = NULL;
    c->receiving = false;
    c->posted = true;
    if (!ok || !b) {
        if (b)
            grpc_byte_buffer_destroy(b);
        c->half_closed = true;
        if (c->gone || c->finishing)
            return;
        if (c->method->streams == RPC_STREAMS_BOTH) {
            if (ok && c->handler->on_half_close)
                c->handler->on_half_close(c);
        } else if (ok) {
            struct nf_error err = {0};
            nf_fail(&err, NF_EINVAL, "%s was called without a request message", c->method->path);
            srv_finish(c, &err);
        }
        return;
    }
    if (!c->gone && !c->finishing) {
        grpc_byte_buffer_reader reader;
        grpc_slice slice;
        bool opened;
        struct nf_str message = buffer_bytes(b, &reader, &slice, &opened);
        struct nf_error err = {0};
        if (!opened) {
            nf_fail(&err, NF_EINVAL, "the request message cannot be decompressed");
            srv_finish(c, &err);
        } else {
            c->handler->on_request(c, message);
        }
        buffer_end(&reader, slice, opened);
    }
    grpc_byte_buffer_destroy(b);
    if (c->method->streams == RPC_STREAMS_BOTH && !c->gone && !c->finishing && !c->paused && !c->receiving)
        start_recv(c);
}

static void on_posted(struct post_item *item)
{
    struct srv_op *op = (struct srv_op *)((char *)item - offsetof(struct srv_op, item));
    struct srv_call *c = op->call;
    bool ok = op->ok;
    switch (op->kind) {
    case OP_RECV:
        on_received(c, ok);
        break;
    case OP_SEND:
        c->sending = false;
        if (c->outgoing)
            grpc_byte_buffer_destroy(c->outgoing);
        c->outgoing = NULL;
        send_waiting_last(c);
        if (ok && !c->gone && !c->finishing && c->handler->on_sent)
            c->handler->on_sent(c);
        break;
    case OP_FINISH:
        tell_closed(c, !ok);
        break;
    case OP_CLOSE:
        if (c->cancelled && !c->closed_told)
            tell_closed(c, true);
        break;
    case OP_NEW:
    case OP_SHUTDOWN:
        assert(false);
    }
    call_unref(c);
}

void srv_call_set_user(struct srv_call *c, void *user) { c->user = user; }
void *srv_call_user(const struct srv_call *c) { return c->user; }
const struct srv_peer *srv_call_peer(const struct srv_call *c) { return &c->peer; }
enum rpc_method_id srv_call_method(const struct srv_call *c) { return c->id; }
int64_t srv_call_deadline_ns(const struct srv_call *c) { return c->deadline_ns; }
int64_t srv_call_finished_ns(const struct srv_call *c) { return c->op_finish.at_ns; }
bool srv_call_can_send(const struct srv_call *c) { return !c->gone && !c->finishing && !c->sending; }

void srv_call_pause(struct srv_call *c, bool paused)
{
    c->paused = paused;
    if (!paused && !c->receiving && !c->half_closed && !c->gone && !c->finishing && c->posted)
        start_recv(c);
}

void srv_send_bytes(struct srv_call *c, const void *head, size_t head_len, const void *body, size_t body_len)
{
    assert(post_on_loop_thread() && srv_call_can_send(c));
    if (head_len + body_len > RPC_MESSAGE_MAX) {
        struct nf_error err = {0};
        nf_fail(&err, NF_EINTERNAL, "an answer of %zu bytes is over the limit of a message", head_len + body_len);
        srv_finish(c, &err);
        return;
    }
    grpc_slice slice = grpc_slice_malloc(head_len + body_len);
    if (head_len)
        memcpy(GRPC_SLICE_START_PTR(slice), head, head_len);
    if (body_len)
        memcpy(GRPC_SLICE_START_PTR(slice) + head_len, body, body_len);
    c->outgoing = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    grpc_op ops[2] = {0};
    size_t n = 0;
    if (!c->initial_sent) {
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
        c->initial_sent = true;
    }
    ops[n].op = GRPC_OP_SEND_MESSAGE;
    ops[n++].data.send_message.send_message = c->outgoing;
    c->sending = start_batch(c, ops, n, &c->op_send);
}

void srv_send(struct srv_call *c, const ProtobufCMessage *m)
{
    struct nf_buf b = NF_BUF_INIT;
    int rc = rpc_encode(m, &b);
    if (rc == NF_OK) {
        srv_send_bytes(c, b.data, b.len, NULL, 0);
    } else {
        struct nf_error err = {0};
        nf_fail(&err, NF_EINTERNAL, "an answer is over the limit of a message");
        srv_finish(c, &err);
    }
    nf_buf_done(&b);
}

static void end_call(struct srv_call *c, struct nf_buf *message, const struct nf_error *err)
{
    assert(post_on_loop_thread());
    if (c->gone || c->finishing) {
        if (message)
            nf_buf_done(message);
        free(message);
        return;
    }
    c->finishing = true;
    c->last = message;
    if (err && err->code) {
        c->last_error = nf_alloc(sizeof *err);
        *c->last_error = *err;
    }
    c->last_waits = true;
    send_waiting_last(c);
}

void srv_reply(struct srv_call *c, const ProtobufCMessage *m)
{
    struct nf_buf *b = nf_alloc(sizeof *b);
    if (rpc_encode(m, b) < 0) {
        struct nf_error err = {0};
        nf_fail(&err, NF_EINTERNAL, "an answer is over the limit of a message");
        nf_buf_done(b);
        free(b);
        end_call(c, NULL, &err);
        return;
    }
    end_call(c, b, NULL);
}

void srv_finish(struct srv_call *c, const struct nf_error *err) { end_call(c, NULL, err); }

/* ------------------------------------------------------------------------------------------------------ connections */

/* A number that gRPC does not hold and that has been quiet long enough; -1 if there is none. */
static int find_number(struct srv_server *s)
{
    int64_t now = nf_now_ns();
    for (int tried = 0; tried < s->fd_count; tried++) {
        int i = (s->next_fd + tried) % s->fd_count;
        struct connection *k = &s->connections[i];
        if (k->used) {
            if (fcntl(s->first_fd + i, F_GETFD) >= 0)
                continue;
            k->used = false;
            k->free_since = now;
        }
        if (k->free_since && now - k->free_since < QUARANTINE)
            continue;
        if (fcntl(s->first_fd + i, F_GETFD) >= 0)
            continue;   /* the low numbers have run out, and something else of ours is here */
        return i;
    }
    return -1;
}

bool srv_server_has_room(struct srv_server *s) { return find_number(s) >= 0; }

static bool is_open(const struct srv_server *s, int i) { return s->connections[i].used && fcntl(s->first_fd + i, F_GETFD) >= 0; }

size_t srv_server_connections(const struct srv_server *s)
{
    size_t n = 0;
    for (int i = 0; i < s->fd_count; i++)
        n += is_open(s, i);
    return n;
}

void srv_server_describe(const struct srv_server *s, struct nf_buf *out)
{
    size_t n = 0;
    nf_buf_add_count(out, srv_server_connections(s), "connection", "connections");
    for (int i = 0; i < s->fd_count; i++) {
        if (!is_open(s, i))
            continue;
        if (!nf_buf_add_item(out, n))
            break;
        nf_buf_addf(out, "pid %u", s->connections[i].peer.pid);
        n++;
    }
    nf_buf_add_c(out, n ? ")" : "");
}

void srv_server_hang_up(struct srv_server *s)
{
    for (int i = 0; i < s->fd_count; i++)
        if (is_open(s, i) && shutdown(s->first_fd + i, SHUT_RDWR) == 0)
            nf_log(NF_LOG_WARNING, "rpc", "a peer that does not read is cut off", "pid=%u", s->connections[i].peer.pid);
}

int srv_server_adopt(struct srv_server *s, int fd, const struct srv_peer *peer)
{
    int i = fd - s->first_fd, number = fd;
    bool in_place = i >= 0 && i < s->fd_count && !s->connections[i].used &&
                    (!s->connections[i].free_since || nf_now_ns() - s->connections[i].free_since >= QUARANTINE);
    if (!in_place) {
        if ((i = find_number(s)) < 0)
            return NF_EBUSY;
        number = fcntl(fd, F_DUPFD_CLOEXEC, s->first_fd + i);
        if (number != s->first_fd + i) {
            if (number >= 0)
                close(number);   /* another thread was quicker: not that one, then */
            s->next_fd = (i + 1) % s->fd_count;
            return NF_EBUSY;
        }
    }
    pthread_mutex_lock(&s->connections_lock);
    s->connections[i] = (struct connection){.used = true, .peer = *peer};
    pthread_mutex_unlock(&s->connections_lock);
    s->next_fd = (i + 1) % s->fd_count;
    if (!in_place)
        close(fd);
    grpc_server_add_channel_from_fd(s->server, number, s->creds);
    return NF_OK;
}

static void choose_numbers(struct srv_server *s, int most)
{
    struct rlimit lim;
    int top = 1024;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
        top = (int)NF_MIN(lim.rlim_cur, (rlim_t)(2 * CONNECTIONS_MAX));
    /* Files, pipes of workers and gRPC's own have the numbers below. */
    s->first_fd = top >= 2048 ? 512 : NF_MIN(NF_MAX(72, top / 4), top - 1);
    s->fd_count = NF_MIN(NF_MIN(top - s->first_fd, CONNECTIONS_MAX), NF_MAX(most, 1));
    s->connections = nf_alloc_array((size_t)s->fd_count, sizeof *s->connections);
}

/* --------------------------------------------------------------------------------------------------- start and stop */

static void on_grpc_log(gpr_log_func_args *args)
{
    nf_log(args->severity == GPR_LOG_SEVERITY_ERROR ? NF_LOG_WARNING : NF_LOG_DEBUG, "grpc", "core", "text=%s",
           nf_log_quote(args->message));
}

int srv_server_new(const struct srv_options *o, struct srv_server **ret_server, struct nf_error *err)
{
    gpr_set_log_function(on_grpc_log);
    grpc_init();
    struct srv_server *s = nf_alloc(sizeof *s);
    s->handlers = o->handlers;
    s->inline_ctx = o->inline_ctx;
    pthread_mutex_init(&s->connections_lock, NULL);
    choose_numbers(s, o->max_connections);
    if (post_queue_new(o->loop, &s->post) < 0) {
        free(s->connections);
        free(s);
        grpc_shutdown();
        return nf_fail(err, NF_EINTERNAL, "cannot make the loop's wake-up");
    }
    s->burst = nf_alloc(sizeof *s->burst);
    uv_timer_init(o->loop, s->burst);
    s->burst->data = s;
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ALLOW_REUSEPORT, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, .value.integer = (int)RPC_MESSAGE_MAX},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_CONCURRENT_STREAMS, .value.integer = 1024},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_CHANNELZ, .value.integer = 0},
        /* Waits last an hour: callers may ping every 10 s, with or without calls; dead ones are noticed within two minutes. */
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, .value.integer = 5000},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, .value.integer = 1},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIME_MS, .value.integer = 60000},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_KEEPALIVE_TIMEOUT_MS, .value.integer = 60000},
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_ENABLE_HTTP_PROXY, .value.integer = 0},
        /* Callers reconnect by themselves: where descriptors are short, one that is idle makes room for one that waits. The last one: its
         * filter costs each call a little, and is left out where there are plenty. */
        {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_CONNECTION_IDLE_MS, .value.integer = 2000},
    };
    grpc_channel_args channel_args = {.num_args = NF_ARRAY_LEN(args) - (s->fd_count >= 512), .args = args};
    s->server = grpc_server_create(&channel_args, NULL);
    s->cq = grpc_completion_queue_create_for_next(NULL);
    s->creds = grpc_insecure_server_credentials_create();
    grpc_server_register_completion_queue(s->server, s->cq, NULL);
    for (int id = 0; id < RPC_METHOD_MAX; id++)
        if (s->handlers[id] && s->handlers[id]->inline_answer)
            s->registered[id] = grpc_server_register_method(s->server, rpc_method((enum rpc_method_id)id)->path, NULL,
                                                            GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_start(s->server);
    for (int i = 0; i < REQUESTED; i++) {
        request_any(s);
        for (int id = 0; id < RPC_METHOD_MAX; id++)
            if (s->registered[id])
                request_registered(s, (enum rpc_method_id)id);
    }
    if (pthread_create(&s->pump, NULL, pump_main, s) != 0) {
        *ret_server = NULL;
        return nf_fail(err, NF_EINTERNAL, "cannot start the gRPC thread");   /* the process ends; nothing is given back */
    }
    s->pump_runs = true;
    *ret_server = s;
    return NF_OK;
}

#define BURST_ANSWERS 8
#define BURST_MS 50

/* What the two threads start meanwhile is ordinary: a process as well as a thread. */
static void set_policy(const struct srv_server *s, int policy, int priority)
{
    struct sched_param param = {.sched_priority = priority};
    if (pthread_setschedparam(pthread_self(), policy | SCHED_RESET_ON_FORK, &param) == 0 && s->pump_runs)
        pthread_setschedparam(s->pump, policy | SCHED_RESET_ON_FORK, &param);
}

static void on_burst_over(uv_timer_t *timer) { set_policy(timer->data, SCHED_OTHER, 0); }

void srv_burst(struct srv_server *s, size_t answers)
{
    if (answers < BURST_ANSWERS)
        return;
    if (!uv_is_active((uv_handle_t *)s->burst))
        set_policy(s, SCHED_RR, 1);
    uv_timer_start(s->burst, on_burst_over, BURST_MS, 0);
}

static void on_burst_closed(uv_handle_t *handle) { free(handle); }

static void on_shutdown_posted(struct post_item *item)
{
    struct srv_op *op = (struct srv_op *)((char *)item - offsetof(struct srv_op, item));
    struct srv_server *s = (struct srv_server *)((char *)op - offsetof(struct srv_server, op_shutdown));
    if (s->shutdown_done)
        s->shutdown_done(s->shutdown_arg);
}

void srv_server_shutdown(struct srv_server *s, bool cancel_now, void (*done)(void *arg), void *arg)
{
    if (!s->shutting_down) {
        s->shutting_down = true;
        s->shutdown_done = done;
        s->shutdown_arg = arg;
        s->op_shutdown = (struct srv_op){.item.run = on_shutdown_posted, .kind = OP_SHUTDOWN};
        tsan_release(&s->op_shutdown);
        grpc_server_shutdown_and_notify(s->server, s->cq, &s->op_shutdown);
    }
    if (cancel_now)
        grpc_server_cancel_all_calls(s->server);
}

void srv_server_free(struct srv_server *s)
{
    if (!s)
        return;
    grpc_completion_queue_shutdown(s->cq);
    if (s->pump_runs)
        pthread_join(s->pump, NULL);
    post_queue_close(s->post);
    uv_close((uv_handle_t *)s->burst, on_burst_closed);
    grpc_server_destroy(s->server);
    grpc_completion_queue_destroy(s->cq);
    grpc_server_credentials_release(s->creds);
    pthread_mutex_destroy(&s->connections_lock);
    free(s->connections);
    free(s);
    grpc_shutdown();
}
