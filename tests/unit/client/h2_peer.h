/* h2_peer.h: an HTTP/2 server on a Unix socket for one test, in a thread, that answers as the test says: also wrongly. */
#ifndef NEFFD_TESTS_CLIENT_H2_PEER_H
#define NEFFD_TESTS_CLIENT_H2_PEER_H

#include "base/str.h"

struct h2_peer;

enum h2_how {
    H2_ECHO,          /* every message back, then status 0 */
    H2_STATUS,        /* trailers only: `status`, `message`, `error_bin` (base64) */
    H2_SILENT,        /* headers, then nothing */
    H2_COUNT,         /* one message: how many bytes of messages came; after the half-close */
    H2_STREAM,        /* `count` messages of `size` bytes, then status 0 */
    H2_COMPRESSED,    /* a message with the compressed flag */
    H2_CUT,           /* half a message, then status 0 */
    H2_TOO_LONG,      /* the head of a message of 2 MiB */
    H2_NO_STATUS,     /* the stream ends without trailers */
    H2_HTTP,          /* HTTP status `status`, text */
    H2_CLOSE,         /* the connection is closed when the request has come */
    H2_REFUSE_ONCE,   /* the first stream is refused, later ones are echoed */
    H2_GOAWAY_AFTER,  /* echo, then GOAWAY: the next call needs a new connection */
    H2_RESET,         /* RST_STREAM INTERNAL_ERROR */
    H2_EARLY,         /* one message at once, before the half-close; then waits */
    H2_GARBAGE,       /* not HTTP/2 */
    H2_SCRIPT,        /* plan.script is asked for each message */
};

/* A message of the call number `call` (from 0), the index-th of it, has come; message.data NULL: the caller has half-closed. Runs on
 * the peer's thread. Answers with h2_reply and h2_end. */
struct h2_stream;
typedef void h2_script_fn(void *user, struct h2_stream *s, unsigned call, const char *path, size_t index, struct nf_str message);
void h2_reply(struct h2_stream *s, const void *message, size_t len);
void h2_end(struct h2_stream *s, int grpc_status, const char *error_bin);   /* error_bin may be NULL */
void h2_drop(struct h2_stream *s);                                          /* closes the connection after what was replied */

struct h2_plan {
    enum h2_how how;
    int status;
    const char *message, *error_bin;
    size_t count, size;
    h2_script_fn *script;
    void *user;
};

struct h2_seen {
    unsigned connections, streams, cancelled, pings;
    char timeout[32], path[64], content_type[64], te[16];
};

struct h2_peer *h2_peer_start(const char *socket_path, const struct h2_plan *plan);
void h2_peer_stop(struct h2_peer *peer, struct h2_seen *ret_seen); /* ret_seen may be NULL */

#endif
