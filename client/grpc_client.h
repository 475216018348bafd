/* grpc_client.h: gRPC calls over HTTP/2 by nghttp2, for processes that may fork and must not grow threads.
 *
 * A channel is an address and a few idle connections. A call takes a connection (an idle one, else a new one), owns it until
 * it ends, and gives it back: so one blocked call is one connection, no call waits for another, and no thread is needed.
 * Every function blocks in poll(2) up to the call's deadline and does the connection's housekeeping (settings, windows,
 * pings, GOAWAY) meanwhile.
 *
 * Threads: a channel may be used by any number of threads; a call by one at a time.
 * fork(): an idle connection remembers the process that made it; a child drops it unused and connects for itself.
 *         A call that was running at the fork belongs to the parent only.
 * Signals: EINTR is taken up again; writes never raise SIGPIPE.
 * Limits: no message over 1 MiB in either direction (the contract's), headers and trailers up to 32 KiB.
 *
 * Errors: NF_ENODAEMON nothing listens at the address; NF_EDISCONNECTED the connection ended before the answer;
 * NF_ETIMEOUT the deadline passed; NF_EPROTOCOL the peer does not speak gRPC; else what the server said, in full where it
 * attached `neffd-error-bin`. */
#ifndef NEFFD_CLIENT_GRPC_CLIENT_H
#define NEFFD_CLIENT_GRPC_CLIENT_H

#include "base/str.h"

#define CL_MESSAGE_MAX ((size_t)1 << 20)
#define CL_NO_DEADLINE INT64_MAX

struct cl_channel;
struct cl_call;

/* "unix:PATH", "unix:///PATH", "/PATH", "HOST:PORT", "[V6]:PORT". Only parses: NF_EINVAL when it is none of these. */
int cl_channel_new(const char *address, struct cl_channel **ret_channel, struct nf_error *err);
void cl_channel_free(struct cl_channel *channel);                  /* no call may be running; takes NULL */
const char *cl_channel_address(const struct cl_channel *channel);  /* as it was given */
const char *cl_channel_unix_path(const struct cl_channel *channel); /* NULL when it is not a Unix socket */

/* How long a connection may take to be made; before the first call. */
void cl_channel_set_connect_limit(struct cl_channel *channel, int64_t limit_ns);
/* The user that runs the server, known after a connection over a Unix socket; else UINT32_MAX. */
uint32_t cl_channel_peer_uid(struct cl_channel *channel);

/* A call of `path` ("/package.Service/Method"), with its deadline on the monotonic clock (nf_now_ns). Connects if needed;
 * sends nothing before the first message, end or receive. */
int cl_call_start(struct cl_channel *channel, const char *path, int64_t deadline_ns, struct cl_call **ret_call, struct nf_error *err);
/* Queues one message, and blocks only while more than 256 KiB wait to be written. last: half-close behind it. A server that
 * has ended the call already makes this return NF_OK without effect: cl_call_recv tells how it ended. */
int cl_call_send(struct cl_call *call, const void *message, size_t len, bool last, struct nf_error *err);
int cl_call_half_close(struct cl_call *call, struct nf_error *err);
/* The next message, valid until the next use of the call: 1. 0: the server ended the call with status OK. */
int cl_call_recv(struct cl_call *call, struct nf_str *ret_message, struct nf_error *err);
/* Whether cl_call_recv would return without waiting for the network. Looks once, never blocks. */
bool cl_call_ready(struct cl_call *call);
/* The caller has its answer: waits up to patience_ns for the server to end the call too, so that the connection can be kept. */
void cl_call_finish(struct cl_call *call, int64_t patience_ns);
/* Ends the call; one that has not ended is cancelled (RST_STREAM). Takes NULL. */
void cl_call_free(struct cl_call *call);

/* One request, one reply, appended to *reply. A connection that was idle and turns out to be dead is replaced once. */
int cl_unary(struct cl_channel *channel, const char *path, struct nf_str request, int64_t deadline_ns, struct nf_buf *reply,
             struct nf_error *err);

/* Whether something accepts connections at the address: connects and closes. Never blocks longer than a second. */
bool cl_channel_answers(struct cl_channel *channel);

#endif
