#include "client/grpc_client.h"

#include "base/clock.h"
#include "proto/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* How a call moves
 *
 *     cl_call_send / recv -> pump(): flush what nghttp2 wants written, poll, read, feed nghttp2, until a condition holds
 *
 * nghttp2's callbacks only note what came (header fields, bytes of messages, end of the stream, GOAWAY, PING answers) in the
 * call and the connection; all decisions are taken outside of them. */

enum {
    IDLE_MAX = 8,                        /* connections kept by a channel */
    READ_BYTES = 128 * 1024,
    SEND_LOW_BYTES = 256 * 1024,         /* cl_call_send blocks while more than this waits */
    STREAM_WINDOW = 8 * 1024 * 1024,     /* above bandwidth x delay of any local link, so Fetch never waits for an update */
    CONNECTION_WINDOW = 16 * 1024 * 1024,
    FRAME_MAX = 256 * 1024,
    HEADER_BYTES_MAX = 32 * 1024,
};
#define CONNECT_LIMIT_NS (20 * NF_SEC)   /* where the channel was not told */
/* A peer that is silent for so long is asked (PING), and given up when it does not answer. The daemon allows a ping every 10 s. */
#define KEEPALIVE_AFTER_NS (60 * NF_SEC)
#define KEEPALIVE_ANSWER_NS (30 * NF_SEC)

struct conn {
    int fd;
    pid_t pid;
    nghttp2_session *session;
    struct cl_call *call;                /* that uses it, else NULL */
    const uint8_t *out;                  /* nghttp2's, not yet written */
    size_t out_len;
    bool dead, goaway, used;             /* used: has carried a call before this one */
    bool ping_sent;
    int64_t heard_ns, ping_ns;           /* last byte from the peer; when the unanswered ping went out */
    char why[160];                       /* of dead */
};

struct cl_channel {
    char *address;
    char *authority;
    char *unix_path;                     /* else NULL, and */
    char *host, *port;
    int64_t connect_limit_ns;
    _Atomic uint32_t peer_uid;           /* of a Unix socket's listener; -1: not known */
    /* Idle connections. Lock-free slots, because a mutex that another thread holds at a fork() would stay locked in the child. */
    _Atomic(struct conn *) idle[IDLE_MAX];
};

struct cl_call {
    struct cl_channel *channel;
    struct conn *conn;
    char *path;
    int64_t deadline_ns;
    int32_t stream;                      /* 0: not submitted yet */
    struct nf_buf out;                   /* framed messages; out_at: given to nghttp2 so far */
    size_t out_at;
    bool out_end, out_deferred;
    struct nf_buf in;                    /* as it came; in_at: consumed so far */
    size_t in_at;
    bool in_failed;                      /* out of memory or over a limit */
    bool headers_seen, refused;
    bool closed;                         /* the server has ended it: nothing more will come */
    bool gone;                           /* nghttp2 has forgotten the stream (both sides have ended it) */
    uint32_t reset_code;
    int http_status, grpc_status;        /* -1: not said */
    bool grpc_content;
    size_t header_bytes;
    struct nf_buf message, error_bin;
};

/* ------------------------------------------------------------------------------------------------------ small things */

/* RFC 4648, with or without padding; anything else fails. */
static bool base64_decode(struct nf_str in, struct nf_buf *out)
{
    uint32_t acc = 0;
    unsigned bits = 0;
    while (in.len && in.data[in.len - 1] == '=')
        in.len--;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.data[i];
        uint32_t v;
        if (c >= 'A' && c <= 'Z')
            v = (uint32_t)(c - 'A');
        else if (c >= 'a' && c <= 'z')
            v = (uint32_t)(c - 'a') + 26;
        else if (c >= '0' && c <= '9')
            v = (uint32_t)(c - '0') + 52;
        else if (c == '+' || c == '-')
            v = 62;
        else if (c == '/' || c == '_')
            v = 63;
        else
            return false;
        acc = acc << 6 | v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            nf_buf_add_char(out, (char)(acc >> bits & 0xFF));
        }
    }
    return in.len % 4 != 1 && !out->failed;
}

/* grpc-message: percent-encoded UTF-8; a bad escape is kept as it is. */
static void percent_decode(struct nf_str in, struct nf_buf *out)
{
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] == '%' && i + 2 < in.len && nf_hex_digit(in.data[i + 1]) >= 0 && nf_hex_digit(in.data[i + 2]) >= 0) {
            nf_buf_add_char(out, (char)(nf_hex_digit(in.data[i + 1]) * 16 + nf_hex_digit(in.data[i + 2])));
            i += 2;
        } else {
            nf_buf_add_char(out, in.data[i]);
        }
    }
}

static int code_of_grpc(int status)
{
    switch (status) {
    case 0: return NF_OK;
    case 1: return NF_ECANCELLED;
    case 3: return NF_EINVAL;
    case 4: return NF_ETIMEOUT;
    case 5: return NF_ENOTFOUND;
    case 6: return NF_EEXISTS;
    case 7: return NF_EPERM;
    case 8: return NF_EOVERLOADED;
    case 9: return NF_EINVAL;
    case 10: return NF_EDISCONNECTED; /* aborted: again may help */
    case 11: return NF_EINVAL;
    case 12: return NF_EUNSUPPORTED;
    case 14: return NF_EDISCONNECTED;
    case 15: return NF_ECORRUPT;
    case 16: return NF_EPERM;
    default: return NF_EINTERNAL;
    }
}

static const char *grpc_status_word(int status)
{
    static const char *const words[] = {"ok", "cancelled", "unknown", "invalid argument", "deadline exceeded", "not found",
        "already exists", "permission denied", "resource exhausted", "failed precondition", "aborted", "out of range",
        "unimplemented", "internal", "unavailable", "data loss", "unauthenticated"};
    return status >= 0 && (size_t)status < NF_ARRAY_LEN(words) ? words[status] : "unknown";
}

/* poll(2)'s timeout until `until_ns`, rounded up so that it does not wake early; -1 for no deadline. */
static int poll_ms(int64_t until_ns)
{
    if (until_ns == CL_NO_DEADLINE)
        return -1;
    int64_t left = until_ns - nf_now_ns();
    if (left <= 0)
        return 0;
    int64_t ms = (left + NF_MS - 1) / NF_MS;
    return ms > 3600 * 1000 ? 3600 * 1000 : (int)ms;
}

/* ----------------------------------------------------------------------------------------------------------- channel */

int cl_channel_new(const char *address, struct cl_channel **ret_channel, struct nf_error *err)
{
    struct nf_str a = nf_str_c(address);
    const char *path = NULL;

    if (nf_str_starts(a, NF_STR("unix:"))) {
        path = address + 5;
        if (path[0] == '/' && path[1] == '/')
            path += 2;
    } else if (address[0] == '/') {
        path = address;
    }
    if (path) {
        struct sockaddr_un sun;
        if (path[0] == 0)
            return nf_fail(err, NF_EINVAL, "the socket address '%s' names no path", address);
        if (strlen(path) >= sizeof(sun.sun_path)) {
            nf_fail(err, NF_EINVAL, "the socket path %s is longer than the %zu bytes that the system allows", path, sizeof(sun.sun_path) - 1);
            nf_error_hint(err, "choose a shorter path with --socket or NEFFD_SOCKET");
            return NF_EINVAL;
        }
    }
    struct nf_str host = {0};
    uint16_t port = 0;
    if (!path && (!nf_host_port(address, &host, &port) || port == 0)) {
        nf_fail(err, NF_EINVAL, "'%s' is no address", address);
        nf_error_hint(err, "an address is unix:PATH or HOST:PORT");
        return NF_EINVAL;
    }
    struct cl_channel *c = nf_alloc(sizeof(*c));
    c->address = nf_strdup(address);
    c->peer_uid = UINT32_MAX;
    c->connect_limit_ns = CONNECT_LIMIT_NS;
    if (path) {
        c->unix_path = nf_strdup(path);
        c->authority = nf_strdup("localhost");
    } else {
        bool bare = host.len > 1 && host.data[0] == '[' && host.data[host.len - 1] == ']';
        c->host = bare ? nf_strndup(host.data + 1, host.len - 2) : nf_strndup(host.data, host.len);
        c->port = nf_asprintf("%u", port);
        c->authority = nf_strdup(address);
    }
    *ret_channel = c;
    return NF_OK;
}

/* A forked child must not keep its parent's connections open: the daemon would see a waiter that left only when the child ends.
 * So every descriptor is noted here (number + 1; 0: free), and closed in the child before it runs. */
static _Atomic int open_fds[256];
static pthread_once_t at_fork_once = PTHREAD_ONCE_INIT;

static void close_in_child(void)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(open_fds); i++) {
        int fd = atomic_exchange(&open_fds[i], 0) - 1;
        if (fd >= 0)
            close(fd);
    }
}

static void register_at_fork(void) { (void)pthread_atfork(NULL, NULL, close_in_child); }

static void note_fd(int fd)
{
    (void)pthread_once(&at_fork_once, register_at_fork);
    for (size_t i = 0; i < NF_ARRAY_LEN(open_fds); i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&open_fds[i], &none, fd + 1))
            return;
    }
}

static void forget_fd(int fd)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(open_fds); i++) {
        int mine = fd + 1;
        if (atomic_compare_exchange_strong(&open_fds[i], &mine, 0))
            return;
    }
}

static void conn_free(struct conn *conn)
{
    if (!conn)
        return;
    nghttp2_session_del(conn->session);
    if (conn->fd >= 0 && conn->pid == getpid()) { /* a child's copy has been closed at the fork, its number may be somebody else's */
        forget_fd(conn->fd);
        close(conn->fd);
    }
    free(conn);
}

void cl_channel_free(struct cl_channel *channel)
{
    if (!channel)
        return;
    for (size_t i = 0; i < IDLE_MAX; i++)
        conn_free(atomic_exchange(&channel->idle[i], NULL));
    free(channel->address);
    free(channel->authority);
    free(channel->unix_path);
    free(channel->host);
    free(channel->port);
    free(channel);
}

const char *cl_channel_address(const struct cl_channel *channel) { return channel->address; }
const char *cl_channel_unix_path(const struct cl_channel *channel) { return channel->unix_path; }
void cl_channel_set_connect_limit(struct cl_channel *channel, int64_t limit_ns) { channel->connect_limit_ns = NF_MAX(limit_ns, 100 * NF_MS); }
uint32_t cl_channel_peer_uid(struct cl_channel *channel) { return atomic_load(&channel->peer_uid); }

/* -------------------------------------------------------------------------------------------------- nghttp2's callbacks */

static bool name_is(const uint8_t *name, size_t len, const char *want) { return len == strlen(want) && memcmp(name, want, len) == 0; }

static int number_of(const uint8_t *value, size_t len)
{
    uint64_t v;
    return nf_str_to_u64(nf_str_n(value, len), &v) == NF_OK && v < 1000 ? (int)v : -1;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
    const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct conn *conn = user;
    struct cl_call *call = conn->call;
    (void)session;
    (void)flags;
    if (!call || frame->hd.stream_id != call->stream)
        return 0;
    call->header_bytes += name_len + value_len + 32;
    if (call->header_bytes > HEADER_BYTES_MAX) {
        call->in_failed = true;
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (name_is(name, name_len, ":status")) {
        call->http_status = number_of(value, value_len);
    } else if (name_is(name, name_len, "content-type")) {
        call->grpc_content = nf_str_starts(nf_str_n(value, value_len), NF_STR("application/grpc"));
    } else if (name_is(name, name_len, "grpc-status")) {
        call->grpc_status = number_of(value, value_len);
    } else if (name_is(name, name_len, "grpc-message")) {
        nf_buf_clear(&call->message);
        percent_decode(nf_str_n(value, value_len), &call->message);
    } else if (name_is(name, name_len, RPC_ERROR_METADATA)) {
        nf_buf_clear(&call->error_bin);
        if (!base64_decode(nf_str_n(value, value_len), &call->error_bin))
            nf_buf_clear(&call->error_bin);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *user)
{
    struct conn *conn = user;
    struct cl_call *call = conn->call;
    (void)session;
    (void)flags;
    if (!call || stream != call->stream)
        return 0;
    if (call->in_at == call->in.len) {
        nf_buf_clear(&call->in);
        call->in_at = 0;
    }
    nf_buf_add(&call->in, data, len);
    if (call->in.failed)
        call->in_failed = true;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct conn *conn = user;
    struct cl_call *call = conn->call;
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        conn->goaway = true;
        nf_format(conn->why, sizeof(conn->why), "the server is closing the connection%s%.*s", frame->goaway.opaque_data_len ? ": " : "",
            (int)NF_MIN(frame->goaway.opaque_data_len, (size_t)64), (const char *)frame->goaway.opaque_data);
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        conn->ping_sent = false;
    } else if (call && call->stream != 0 && frame->hd.stream_id == call->stream) {
        if (frame->hd.type == NGHTTP2_HEADERS)
            call->headers_seen = true;
        /* The trailers end a call even when this side has not half-closed: then nghttp2 keeps the stream. */
        if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            call->closed = true;
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct conn *conn = user;
    struct cl_call *call = conn->call;
    (void)session;
    if (!call || stream != call->stream)
        return 0;
    if (!call->closed)
        call->reset_code = code;
    call->closed = call->gone = true;
    call->refused = code == NGHTTP2_REFUSED_STREAM;
    return 0;
}

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t len, uint32_t *flags,
    nghttp2_data_source *source, void *user)
{
    struct cl_call *call = source->ptr;
    (void)session;
    (void)stream;
    (void)user;
    size_t left = call->out.len - call->out_at;
    if (left == 0 && !call->out_end) {
        call->out_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t n = NF_MIN(left, len);
    memcpy(buf, call->out.data + call->out_at, n);
    call->out_at += n;
    if (call->out_at == call->out.len) {
        nf_buf_clear(&call->out);
        call->out_at = 0;
        if (call->out_end)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

/* -------------------------------------------------------------------------------------------------------- connections */

static void conn_die(struct conn *conn, const char *fmt, ...) NF_PRINTF(2, 3);
static void conn_die(struct conn *conn, const char *fmt, ...)
{
    if (conn->dead)
        return;
    conn->dead = true;
    if (conn->why[0])
        return; /* a GOAWAY said it better */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(conn->why, sizeof(conn->why), fmt, ap);
    (void)n;
    va_end(ap);
}

/* Writes what nghttp2 has, as far as the socket takes it. */
static void conn_flush(struct conn *conn)
{
    while (!conn->dead) {
        if (conn->out_len == 0) {
            ssize_t n = nghttp2_session_mem_send(conn->session, &conn->out);
            if (n < 0) {
                conn_die(conn, "%s", nghttp2_strerror((int)n));
                return;
            }
            if (n == 0)
                return;
            conn->out_len = (size_t)n;
        }
        ssize_t n = send(conn->fd, conn->out, conn->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                return;
            /* The peer may have answered before it closed: let the reading side find that out first. */
            if (errno == EPIPE || errno == ECONNRESET) {
                conn->out_len = 0;
                return;
            }
            conn_die(conn, "%s", strerror(errno));
            return;
        }
        conn->out += n;
        conn->out_len -= (size_t)n;
    }
}

/* Reads what has arrived; false when nothing had. */
static bool conn_read(struct conn *conn)
{
    uint8_t buf[READ_BYTES];
    ssize_t n;
    do
        n = recv(conn->fd, buf, sizeof(buf), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return false;
        conn_die(conn, "%s", strerror(errno));
        return false;
    }
    if (n == 0) {
        conn_die(conn, "the server closed the connection");
        return false;
    }
    conn->heard_ns = nf_now_ns();
    ssize_t used = nghttp2_session_mem_recv(conn->session, buf, (size_t)n);
    if (used != n)
        conn_die(conn, "the other side does not speak HTTP/2: %s", used < 0 ? nghttp2_strerror((int)used) : "data was refused");
    return true;
}

static int connect_fd(struct cl_channel *channel, const struct sockaddr *sa, socklen_t sa_len, int family, int64_t until_ns,
    int *ret_fd, int *ret_errno)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        *ret_errno = errno;
        return -1;
    }
    int64_t pause_ns = NF_MS;
    for (;;) {
        if (connect(fd, sa, sa_len) == 0)
            break;
        if (errno == EINTR)
            continue;
        if (errno == EISCONN)
            break;
        if (errno == EAGAIN && channel->unix_path) {
            /* The listener's backlog is full: a storm. Come back, not all at once. */
            int64_t left = until_ns - nf_now_ns();
            if (left <= 0) {
                *ret_errno = ETIMEDOUT;
                goto fail;
            }
            nf_sleep_ns(NF_MIN(NF_MIN(pause_ns + (int64_t)(getpid() % 7) * NF_MS / 4, 50 * NF_MS), left));
            pause_ns *= 2;
            continue;
        }
        if (errno != EINPROGRESS && errno != EALREADY) {
            *ret_errno = errno;
            goto fail;
        }
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int n = poll(&p, 1, poll_ms(until_ns));
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0) {
            *ret_errno = ETIMEDOUT;
            goto fail;
        }
        int so_error = 0;
        socklen_t so_len = sizeof(so_error);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &so_error, &so_len) < 0)
            so_error = errno;
        if (so_error) {
            *ret_errno = so_error;
            goto fail;
        }
        break;
    }
    if (family != AF_UNIX) {
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    *ret_fd = fd;
    return 0;
fail:
    close(fd);
    return -1;
}

static int connect_channel(struct cl_channel *channel, int64_t deadline_ns, int *ret_fd, struct nf_error *err)
{
    int64_t until = nf_now_ns() + channel->connect_limit_ns;
    int why = 0;
    bool by_deadline = deadline_ns < until;
    if (by_deadline)
        until = deadline_ns;
    if (channel->unix_path) {
        struct sockaddr_un sun = {.sun_family = AF_UNIX};
        memcpy(sun.sun_path, channel->unix_path, strlen(channel->unix_path) + 1);
        if (connect_fd(channel, (struct sockaddr *)&sun, sizeof(sun), AF_UNIX, until, ret_fd, &why) == 0)
            return NF_OK;
    } else {
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
        int rc = getaddrinfo(channel->host, channel->port, &hints, &list);
        if (rc != 0) {
            nf_fail(err, NF_ENODAEMON, "cannot find %s: %s", channel->address, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
            nf_error_hint(err, "check the address (--socket or NEFFD_SOCKET)");
            return NF_ENODAEMON;
        }
        for (struct addrinfo *a = list; a; a = a->ai_next) {
            if (connect_fd(channel, a->ai_addr, a->ai_addrlen, a->ai_family, until, ret_fd, &why) == 0) {
                freeaddrinfo(list);
                return NF_OK;
            }
        }
        freeaddrinfo(list);
    }
    if (why == ETIMEDOUT && by_deadline)
        return nf_fail(err, NF_ETIMEOUT, "no connection to %s in time", channel->address);
    if (why == EACCES || why == EPERM) {
        nf_fail(err, NF_EPERM, "cannot connect to %s: %s", channel->address, strerror(why));
        nf_error_hint(err, "the daemon's socket belongs to another user; ask for access, or start your own daemon with another --socket");
        return NF_EPERM;
    }
    if (why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS)
        return nf_fail_errno(err, why, "cannot connect to %s", channel->address);
    if (why == ETIMEDOUT && channel->unix_path) /* somebody listens, and has more than enough to do */
        return nf_fail(err, NF_EOVERLOADED, "the daemon at %s does not get round to accepting connections", channel->address);
    return nf_fail(err, NF_ENODAEMON, "no daemon answers at %s: %s", channel->address, strerror(why));
}

static int conn_new(struct cl_channel *channel, int64_t deadline_ns, struct conn **ret_conn, struct nf_error *err)
{
    int fd;
    int r = connect_channel(channel, deadline_ns, &fd, err);
    if (r < 0)
        return r;
    struct ucred peer;
    socklen_t peer_len = sizeof(peer);
    if (channel->unix_path && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0)
        atomic_store(&channel->peer_uid, peer.uid);
    struct conn *conn = nf_alloc(sizeof(*conn));
    conn->fd = fd;
    conn->pid = getpid();
    note_fd(fd);
    conn->heard_ns = nf_now_ns();

    nghttp2_session_callbacks *cbs = NULL;
    if (nghttp2_session_callbacks_new(&cbs) != 0) {
        conn_free(conn);
        return nf_fail(err, NF_ENOMEM, "no memory for a connection");
    }
    nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_close);
    int rv = nghttp2_session_client_new(&conn->session, cbs, conn);
    nghttp2_session_callbacks_del(cbs);
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, FRAME_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_BYTES_MAX},
    };
    if (rv == 0)
        rv = nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, NF_ARRAY_LEN(settings));
    if (rv == 0)
        rv = nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    if (rv != 0) {
        conn_free(conn);
        return nf_fail(err, NF_ENOMEM, "no memory for a connection: %s", nghttp2_strerror(rv));
    }
    *ret_conn = conn;
    return NF_OK;
}

/* An idle connection of this process that is still open, or a new one. */
static int conn_take(struct cl_channel *channel, int64_t deadline_ns, bool fresh, struct conn **ret_conn, struct nf_error *err)
{
    pid_t pid = getpid();
    for (size_t i = 0; i < IDLE_MAX && !fresh; i++) {
        struct conn *conn = atomic_exchange(&channel->idle[i], NULL);
        if (!conn)
            continue;
        if (conn->pid == pid) {
            while (!conn->dead && conn_read(conn))
                ;
            if (!conn->dead && !conn->goaway) {
                conn->used = true;
                conn->ping_sent = false;
                conn->heard_ns = nf_now_ns();
                *ret_conn = conn;
                return NF_OK;
            }
        }
        conn_free(conn);
    }
    return conn_new(channel, deadline_ns, ret_conn, err);
}

static void conn_give_back(struct cl_channel *channel, struct conn *conn)
{
    conn->call = NULL;
    if (!conn->dead && !conn->goaway && conn->out_len == 0 && conn->pid == getpid() &&
        nghttp2_session_check_request_allowed(conn->session)) {
        for (size_t i = 0; i < IDLE_MAX; i++) {
            struct conn *none = NULL;
            if (atomic_compare_exchange_strong(&channel->idle[i], &none, conn))
                return;
        }
    }
    conn_free(conn);
}

/* -------------------------------------------------------------------------------------------------------------- calls */

int cl_call_start(struct cl_channel *channel, const char *path, int64_t deadline_ns, struct cl_call **ret_call, struct nf_error *err)
{
    struct conn *conn = NULL;
    if (deadline_ns != CL_NO_DEADLINE && deadline_ns <= nf_now_ns())
        return nf_fail(err, NF_ETIMEOUT, "out of time before %s was asked", channel->address);
    int r = conn_take(channel, deadline_ns, false, &conn, err);
    if (r < 0)
        return r;
    struct cl_call *call = nf_alloc(sizeof(*call));
    call->channel = channel;
    call->conn = conn;
    call->path = nf_strdup(path);
    call->deadline_ns = deadline_ns;
    call->http_status = call->grpc_status = -1;
    conn->call = call;
    *ret_call = call;
    return NF_OK;
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static int submit(struct cl_call *call, struct nf_error *err)
{
    char timeout[32] = "";
    nghttp2_nv h[10];
    size_t n = 0;
    h[n++] = header(":method", "POST");
    h[n++] = header(":scheme", "http");
    h[n++] = header(":path", call->path);
    h[n++] = header(":authority", call->channel->authority);
    h[n++] = header("te", "trailers");
    if (call->deadline_ns != CL_NO_DEADLINE) {
        /* At most eight digits: the unit grows with the value. */
        int64_t us = NF_MAX((call->deadline_ns - nf_now_ns() + 999) / 1000, 1);
        if (us < 100000000)
            nf_format(timeout, sizeof(timeout), "%lldu", (long long)us);
        else if (us / 1000 < 100000000)
            nf_format(timeout, sizeof(timeout), "%lldm", (long long)(us / 1000));
        else
            nf_format(timeout, sizeof(timeout), "%lldS", (long long)NF_MIN(us / 1000000, 99999999));
        h[n++] = header("grpc-timeout", timeout);
    }
    h[n++] = header("content-type", "application/grpc");
    h[n++] = header("grpc-accept-encoding", "identity");
    h[n++] = header("user-agent", "neffd-client/" NEFFD_VERSION);
    nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_out};
    int32_t stream = nghttp2_submit_request(call->conn->session, NULL, h, n, &body, NULL);
    if (stream < 0)
        return nf_fail(err, NF_EDISCONNECTED, "cannot send to %s: %s", call->channel->address, nghttp2_strerror(stream));
    call->stream = stream;
    return NF_OK;
}

/* A whole message stands in `in`: 1; not yet: 0; over the limit or compressed: error. */
static int in_ready(struct cl_call *call, size_t *ret_len, struct nf_error *err)
{
    if (call->in_failed)
        return nf_fail(err, NF_ELIMIT, "the answer of %s is over a limit of this client", call->channel->address);
    size_t have = call->in.len - call->in_at;
    if (have < 5)
        return 0;
    const uint8_t *p = (const uint8_t *)call->in.data + call->in_at;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (p[0] != 0)
        return nf_fail(err, NF_EPROTOCOL, "%s sent a compressed message, which was not asked for", call->channel->address);
    if (len > CL_MESSAGE_MAX)
        return nf_fail(err, NF_EPROTOCOL, "%s sent a message of %zu bytes; the contract allows %zu", call->channel->address, len, CL_MESSAGE_MAX);
    if (have < 5 + len)
        return 0;
    *ret_len = len;
    return 1;
}

enum want { WANT_SENT, WANT_ANSWER };

static bool satisfied(struct cl_call *call, enum want want)
{
    size_t len;
    struct nf_error ignored;
    if (call->closed || call->conn->dead)
        return true;
    if (want == WANT_SENT)
        return call->out.len - call->out_at <= SEND_LOW_BYTES;
    return in_ready(call, &len, &ignored) != 0;
}

/* Moves bytes until `want` holds (also when the call ended), or the deadline passes. */
static int pump(struct cl_call *call, enum want want, struct nf_error *err)
{
    struct conn *conn = call->conn;
    if (call->stream == 0) {
        int r = submit(call, err);
        if (r < 0)
            return r;
    }
    for (;;) {
        conn_flush(conn);
        if (satisfied(call, want))
            return NF_OK;
        int64_t now = nf_now_ns(), until = call->deadline_ns;
        if (now >= until)
            return nf_fail(err, NF_ETIMEOUT, "%s did not answer in time", call->channel->address);
        int64_t alive = conn->ping_sent ? conn->ping_ns + KEEPALIVE_ANSWER_NS : conn->heard_ns + KEEPALIVE_AFTER_NS;
        if (now >= alive) {
            if (conn->ping_sent) {
                conn_die(conn, "the server is silent");
                continue;
            }
            if (nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL) == 0) {
                conn->ping_sent = true;
                conn->ping_ns = now;
                continue;
            }
        }
        if (alive < until)
            until = alive;
        struct pollfd p = {.fd = conn->fd, .events = (short)(POLLIN | (conn->out_len ? POLLOUT : 0))};
        int n = poll(&p, 1, poll_ms(until));
        if (n < 0 && errno != EINTR)
            conn_die(conn, "%s", strerror(errno));
        if (n > 0 && (p.revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)))
            conn_read(conn);
    }
}

static void enqueue(struct cl_call *call, const void *message, size_t len)
{
    uint8_t head[5] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    nf_buf_add(&call->out, head, sizeof(head));
    nf_buf_add(&call->out, message, len);
}

static void resume(struct cl_call *call)
{
    if (call->out_deferred && !call->closed && !call->conn->dead) {
        call->out_deferred = false;
        (void)nghttp2_session_resume_data(call->conn->session, call->stream);
    }
}

int cl_call_send(struct cl_call *call, const void *message, size_t len, bool last, struct nf_error *err)
{
    if (len > CL_MESSAGE_MAX)
        return nf_fail(err, NF_ELIMIT, "a message of %zu bytes is over the limit of %zu", len, CL_MESSAGE_MAX);
    if (call->closed)
        return NF_OK;
    enqueue(call, message, len);
    if (call->out.failed)
        return nf_fail(err, NF_ENOMEM, "no memory to send %zu bytes", len);
    call->out_end = call->out_end || last;
    resume(call);
    return pump(call, WANT_SENT, err);
}

int cl_call_half_close(struct cl_call *call, struct nf_error *err)
{
    if (call->closed || call->out_end)
        return NF_OK;
    call->out_end = true;
    resume(call);
    return pump(call, WANT_SENT, err);
}

/* How a call without further messages ended. */
static int ended(struct cl_call *call, struct nf_error *err)
{
    const char *who = call->channel->address;
    if (call->grpc_status == 0 && call->http_status == 200)
        return call->in.len == call->in_at ? NF_OK : nf_fail(err, NF_EPROTOCOL, "%s cut a message short", who);
    if (call->grpc_status > 0) {
        struct nf_error said;
        if (call->error_bin.len && rpc_error_decode(nf_buf_str(&call->error_bin), &said) == NF_OK) {
            if (err)
                *err = said;
            return said.code;
        }
        if (call->message.len && nf_utf8_valid(nf_buf_str(&call->message)))
            return nf_fail(err, code_of_grpc(call->grpc_status), "%s", call->message.data);
        return nf_fail(err, code_of_grpc(call->grpc_status), "%s answered: %s", who, grpc_status_word(call->grpc_status));
    }
    if (call->conn->dead || call->refused)
        return nf_fail(err, NF_EDISCONNECTED, "the connection to %s was lost: %s", who,
            call->conn->why[0] ? call->conn->why : "the server refused the call");
    if (call->reset_code == NGHTTP2_CANCEL)
        return nf_fail(err, NF_ECANCELLED, "%s cancelled the call", who);
    if (call->reset_code != NGHTTP2_NO_ERROR)
        return nf_fail(err, NF_EDISCONNECTED, "%s ended the call: %s", who, nghttp2_http2_strerror(call->reset_code));
    if (call->http_status != 200 && call->http_status > 0)
        return nf_fail(err, call->http_status >= 500 ? NF_EDISCONNECTED : NF_EPROTOCOL, "%s answered with HTTP status %d", who, call->http_status);
    return nf_fail(err, NF_EPROTOCOL, "%s ended the call without a gRPC status", who);
}

int cl_call_recv(struct cl_call *call, struct nf_str *ret_message, struct nf_error *err)
{
    int r = NF_OK;
    size_t len;
    if (call->stream == 0 || !satisfied(call, WANT_ANSWER))
        r = pump(call, WANT_ANSWER, err);
    if (r < 0)
        return r;
    r = in_ready(call, &len, err);
    if (r < 0)
        return r;
    if (r == 0)
        return ended(call, err);
    if (!call->grpc_content)
        return nf_fail(err, NF_EPROTOCOL, "%s does not speak gRPC", call->channel->address);
    *ret_message = nf_str_n(call->in.data + call->in_at + 5, len);
    call->in_at += 5 + len;
    return 1;
}

bool cl_call_ready(struct cl_call *call)
{
    if (call->stream == 0)
        return false;
    conn_flush(call->conn);
    while (!satisfied(call, WANT_ANSWER) && conn_read(call->conn))
        conn_flush(call->conn);
    return satisfied(call, WANT_ANSWER);
}

void cl_call_finish(struct cl_call *call, int64_t patience_ns)
{
    struct nf_str ignored;
    call->deadline_ns = NF_MIN(call->deadline_ns, nf_now_ns() + patience_ns);
    if (cl_call_half_close(call, NULL) == NF_OK)
        while (cl_call_recv(call, &ignored, NULL) == 1)
            ;
}

void cl_call_free(struct cl_call *call)
{
    if (!call)
        return;
    struct conn *conn = call->conn;
    if (conn && conn->pid != getpid()) {
        /* A forked child clears up: the stream is the parent's, and its descriptor is closed here already. */
        conn->call = NULL;
        conn_free(conn);
    } else if (conn && call->stream != 0 && !call->gone) {
        bool ended = call->closed;
        conn->call = NULL;
        if (!conn->dead && nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE, call->stream, ended ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL) == 0)
            conn_flush(conn);
        /* Bytes of a cancelled stream may be on their way: not worth keeping. */
        if (ended && !nghttp2_session_want_write(conn->session))
            conn_give_back(call->channel, conn);
        else
            conn_free(conn);
    } else if (conn) {
        conn_flush(conn);
        conn_give_back(call->channel, conn);
    }
    free(call->path);
    nf_buf_done(&call->out);
    nf_buf_done(&call->in);
    nf_buf_done(&call->message);
    nf_buf_done(&call->error_bin);
    free(call);
}

int cl_unary(struct cl_channel *channel, const char *path, struct nf_str request, int64_t deadline_ns, struct nf_buf *reply,
    struct nf_error *err)
{
    for (int attempt = 0;; attempt++) {
        struct cl_call *call = NULL;
        struct nf_str message = {0};
        size_t start = reply->len;
        int r = cl_call_start(channel, path, deadline_ns, &call, err);
        if (r < 0)
            return r;
        r = cl_call_send(call, request.data, request.len, true, err);
        if (r >= 0)
            r = cl_call_recv(call, &message, err);
        if (r == 1) {
            nf_buf_add_str(reply, message);
            r = cl_call_recv(call, &message, err);
            if (r == 1)
                r = nf_fail(err, NF_EPROTOCOL, "%s sent two answers to one question", channel->address);
            else if (r == 0 && reply->failed)
                r = nf_fail(err, NF_ENOMEM, "no memory for the answer");
        } else if (r == 0) {
            r = nf_fail(err, NF_EPROTOCOL, "%s sent no answer", channel->address);
        }
        /* An idle connection that the server had closed meanwhile, or a call that it promises not to have looked at. */
        bool again = r == NF_EDISCONNECTED && attempt == 0 && !call->headers_seen && (call->conn->used || call->refused || call->conn->goaway);
        cl_call_free(call);
        if (!again) {
            if (r < 0)
                reply->len = start;
            return r;
        }
        reply->len = start;
    }
}

bool cl_channel_answers(struct cl_channel *channel)
{
    int fd;
    if (connect_channel(channel, nf_now_ns() + NF_SEC, &fd, NULL) < 0)
        return false;
    close(fd);
    return true;
}
