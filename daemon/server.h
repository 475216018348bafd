/* server.h: the gRPC server, on the core C API.
 *
 * One completion queue, one pump thread that blocks in it. Everything that happens to a call is posted to the loop thread and
 * handled there; a unary method may give an `inline_answer`, which runs in the pump itself and must not touch the daemon's
 * state (a hop costs 10 to 26 us, so this is for hits in the local tier alone).
 *
 * Connections are accepted by our own loop and handed to gRPC by descriptor: that is how the peer's uid is known, how systemd
 * can give us the socket, and how running out of descriptors becomes waiting in the listen queue instead of an error.
 *
 * Life of a call (loop thread, unless said otherwise)
 *     on_request   each message: once for unary and server streams, again and again for bidi; bytes are gone when it returns
 *     on_half_close  bidi: the caller has sent its last
 *     on_sent      what srv_send() took is out; the next may be sent. One send is outstanding per call: that is the back-pressure
 *     on_closed    last, exactly once: the call is finished and its answer handed to the transport, or the caller is gone
 *                  (`cancelled`: disconnect, cancellation, deadline). The handle is dead when it returns.
 * A handler answers with srv_reply / srv_send / srv_finish; never after on_closed. */
#ifndef NEFFD_DAEMON_SERVER_H
#define NEFFD_DAEMON_SERVER_H

#include "base/error.h"
#include "base/str.h"
#include "daemon/post.h"
#include "proto/rpc.h"

#include <stdbool.h>
#include <stdint.h>

struct srv_server;
struct srv_call;

struct srv_peer {
    bool unix_socket;    /* the three below come from SO_PEERCRED */
    uint32_t uid, gid, pid;
};

/* What the daemon does for one method of proto/rpc_methods.def; any member may be NULL. */
struct srv_handler {
    void (*on_request)(struct srv_call *call, struct nf_str message);
    void (*on_half_close)(struct srv_call *call);
    void (*on_sent)(struct srv_call *call);
    void (*on_closed)(struct srv_call *call, bool cancelled);
    /* Pump thread, unary only. True: ret_reply holds the serialised answer. False: the loop gets the call. */
    bool (*inline_answer)(void *ctx, struct nf_str message, const struct srv_peer *peer, struct nf_buf *ret_reply);
};

struct srv_options {
    struct uv_loop_s *loop;
    const struct srv_handler *const *handlers; /* RPC_METHOD_MAX of them, by enum rpc_method_id; NULL: not implemented. Static */
    void *inline_ctx;
    int max_connections;                       /* at most; fewer where descriptors are scarce */
};

int srv_server_new(const struct srv_options *o, struct srv_server **ret_server, struct nf_error *err);
/* Hands over a connected, non-blocking descriptor (it is gRPC's from here, also on failure). NF_EBUSY: no descriptor number is
 * free for it at the moment, and `fd` is still the caller's. */
int srv_server_adopt(struct srv_server *s, int fd, const struct srv_peer *peer);
bool srv_server_has_room(struct srv_server *s);       /* srv_server_adopt would find a number */
size_t srv_server_connections(const struct srv_server *s);
/* So many answers in a row follow. Each wakes its caller, and callers that run at once would keep the rest of them waiting (256 answers
 * took 120 ms on two busy cores, 15 ms with this). Where they are many, the loop and the pump run before ordinary processes for some
 * milliseconds, until gRPC has written them, if the system allows it (CAP_SYS_NICE or an RLIMIT_RTPRIO of 1). Loop thread. */
void srv_burst(struct srv_server *s, size_t answers);
/* No new calls; `done` when the last call has ended. cancel_now ends them all with UNAVAILABLE. May be called again to cancel. */
void srv_server_shutdown(struct srv_server *s, bool cancel_now, void (*done)(void *arg), void *arg);
/* Breaks every connection. gRPC closes none whose last write has not been taken, and a peer that does not read never takes it: so this
 * comes when srv_server_shutdown(cancel_now) has had its time. */
void srv_server_hang_up(struct srv_server *s);
/* Appends "2 connections (pid 17, pid 18)". */
void srv_server_describe(const struct srv_server *s, struct nf_buf *out);
/* After `done`. Joins the pump. */
void srv_server_free(struct srv_server *s);

/* ---- calls ---- */
void srv_call_set_user(struct srv_call *c, void *user);
void *srv_call_user(const struct srv_call *c);
const struct srv_peer *srv_call_peer(const struct srv_call *c);
enum rpc_method_id srv_call_method(const struct srv_call *c);
int64_t srv_call_deadline_ns(const struct srv_call *c);     /* nf_now_ns() clock; INT64_MAX: none */
int64_t srv_call_finished_ns(const struct srv_call *c);     /* in on_closed: when the transport had taken the last message; 0: it has not */
bool srv_call_can_send(const struct srv_call *c);           /* no send is outstanding, the call is alive */
void srv_call_pause(struct srv_call *c, bool paused);       /* bidi: stop or go on reading messages */

/* The message is serialised before these return. A message over the limit is an internal error on the wire. */
void srv_send(struct srv_call *c, const ProtobufCMessage *m);   /* needs srv_call_can_send() */
void srv_send_bytes(struct srv_call *c, const void *head, size_t head_len, const void *body, size_t body_len);
/* The last message and status OK at once (one batch). An outstanding send is waited for. */
void srv_reply(struct srv_call *c, const ProtobufCMessage *m);
/* Status from err->code (NULL or code 0: OK), the whole error in the trailer `neffd-error-bin`. */
void srv_finish(struct srv_call *c, const struct nf_error *err);

#endif
