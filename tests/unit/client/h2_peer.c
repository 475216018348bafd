#include "tests/unit/client/h2_peer.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNS_MAX = 64, STREAMS_MAX = 64 };

struct h2_stream {
    int32_t id;
    bool used, ended_in, answered, want_trailers;
    struct nf_buf in, out;
    size_t out_at, left;      /* left: messages of H2_STREAM still to come */
    bool out_end, deferred;
    struct peer_conn *conn;
    unsigned call;
    size_t index, in_at;
    int grpc_status;
    char path[64], error_bin[1024];
};

struct peer_conn {
    int fd;
    nghttp2_session *session;
    struct h2_peer *peer;
    struct h2_stream streams[STREAMS_MAX];
    bool close_now;
};

struct h2_peer {
    struct h2_plan plan;
    int listen_fd, wake[2];
    pthread_t thread;
    struct peer_conn *conns[CONNS_MAX];
    struct h2_seen seen;
    char path[108];
};

static struct h2_stream *stream_of(struct peer_conn *c, int32_t id, bool add)
{
    struct h2_stream *empty = NULL;
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        if (c->streams[i].used && c->streams[i].id == id)
            return &c->streams[i];
        if (!c->streams[i].used && !empty)
            empty = &c->streams[i];
    }
    if (!add || !empty)
        return NULL;
    *empty = (struct h2_stream){.id = id, .used = true, .conn = c};
    return empty;
}

static void frame(struct nf_buf *out, uint8_t flag, const void *data, size_t len)
{
    uint8_t head[5] = {flag, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len};
    nf_buf_add(out, head, 5);
    nf_buf_add(out, data, len);
}

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len, uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct h2_stream *s = source->ptr;
    struct peer_conn *c = user;
    (void)id;
    while (s->left && s->out.len - s->out_at < 65536) {
        char *chunk = nf_alloc(c->peer->plan.size + 1);
        memset(chunk, 'x', c->peer->plan.size);
        if (s->out_at == s->out.len) {
            nf_buf_clear(&s->out);
            s->out_at = 0;
        }
        frame(&s->out, 0, chunk, c->peer->plan.size);
        free(chunk);
        if (--s->left == 0)
            s->out_end = true;
    }
    size_t n = NF_MIN(s->out.len - s->out_at, len);
    if (n == 0 && !s->out_end) {
        s->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    memcpy(buf, s->out.data ? s->out.data + s->out_at : "", n);
    s->out_at += n;
    if (s->out_end && s->out_at == s->out.len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (c->peer->plan.how != H2_NO_STATUS) {
            char status[16];
            (void)nf_format(status, sizeof(status), "%d", s->grpc_status);
            nghttp2_nv t[] = {nv("grpc-status", status), nv("neffd-error-bin", s->error_bin)};
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(session, s->id, t, s->error_bin[0] ? 2 : 1);
        }
    }
    return (ssize_t)n;
}

static void respond(struct peer_conn *c, struct h2_stream *s)
{
    const struct h2_plan *p = &c->peer->plan;
    nghttp2_data_provider body = {.source.ptr = s, .read_callback = read_body};
    char status[16];
    if (s->answered)
        return;
    switch (p->how) {
    case H2_STATUS: {
        nghttp2_nv h[5];
        size_t n = 0;
        h[n++] = nv(":status", "200");
        h[n++] = nv("content-type", "application/grpc");
        (void)nf_format(status, sizeof(status), "%d", p->status);
        h[n++] = nv("grpc-status", status);
        if (p->message)
            h[n++] = nv("grpc-message", p->message);
        if (p->error_bin)
            h[n++] = nv("neffd-error-bin", p->error_bin);
        nghttp2_submit_response(c->session, s->id, h, n, NULL);
        break;
    }
    case H2_HTTP: {
        (void)nf_format(status, sizeof(status), "%d", p->status);
        nghttp2_nv h[] = {nv(":status", status), nv("content-type", "text/html")};
        nghttp2_submit_response(c->session, s->id, h, 2, NULL);
        break;
    }
    case H2_CLOSE: c->close_now = true; break;
    case H2_RESET: nghttp2_submit_rst_stream(c->session, 0, s->id, NGHTTP2_INTERNAL_ERROR); break;
    case H2_REFUSE_ONCE:
        if (c->peer->seen.streams == 1) {
            nghttp2_submit_rst_stream(c->session, 0, s->id, NGHTTP2_REFUSED_STREAM);
            break;
        }
        /* fall through */
    case H2_ECHO:
    case H2_SILENT:
    case H2_COUNT:
    case H2_STREAM:
    case H2_COMPRESSED:
    case H2_CUT:
    case H2_TOO_LONG:
    case H2_NO_STATUS:
    case H2_GOAWAY_AFTER:
    case H2_EARLY:
    case H2_SCRIPT:
    case H2_GARBAGE: {
        nghttp2_nv h[] = {nv(":status", "200"), nv("content-type", "application/grpc+proto")};
        uint8_t head[5] = {0};
        if (p->how == H2_COMPRESSED) {
            frame(&s->out, 1, "zzz", 3);
            s->out_end = true;
        } else if (p->how == H2_CUT) {
            head[4] = 100;
            nf_buf_add(&s->out, head, 5);
            nf_buf_add(&s->out, "half", 4);
            s->out_end = true;
        } else if (p->how == H2_TOO_LONG) {
            head[1] = 0;
            head[2] = 0x20;
            nf_buf_add(&s->out, head, 5);
            s->out_end = true;
        } else if (p->how == H2_NO_STATUS) {
            frame(&s->out, 0, "ok", 2);
            s->out_end = true;
        } else if (p->how == H2_STREAM) {
            s->left = p->count;
        } else if (p->how == H2_EARLY) {
            frame(&s->out, 0, "early", 5);
        }
        nghttp2_submit_response(c->session, s->id, h, 2, &body);
        break;
    }
    }
    s->answered = true;
}

static void resume(struct peer_conn *c, struct h2_stream *s)
{
    if (s->deferred) {
        s->deferred = false;
        nghttp2_session_resume_data(c->session, s->id);
    }
}

void h2_reply(struct h2_stream *s, const void *message, size_t len)
{
    if (s->out_at == s->out.len) {
        nf_buf_clear(&s->out);
        s->out_at = 0;
    }
    frame(&s->out, 0, message, len);
    respond(s->conn, s);
    resume(s->conn, s);
}

void h2_end(struct h2_stream *s, int grpc_status, const char *error_bin)
{
    s->grpc_status = grpc_status;
    (void)nf_format(s->error_bin, sizeof(s->error_bin), "%s", error_bin ? error_bin : "");
    s->out_end = true;
    if (!s->answered) { /* trailers only, as gRPC servers do for a call without messages */
        char status[16];
        (void)nf_format(status, sizeof(status), "%d", grpc_status);
        nghttp2_nv h[] = {nv(":status", "200"), nv("content-type", "application/grpc"), nv("grpc-status", status), nv("neffd-error-bin", s->error_bin)};
        nghttp2_submit_response(s->conn->session, s->id, h, error_bin ? 4 : 3, NULL);
        s->answered = true;
        return;
    }
    resume(s->conn, s);
}

void h2_drop(struct h2_stream *s) { s->conn->close_now = true; }

static void run_script(struct h2_stream *s, bool half_closed)
{
    const struct h2_plan *p = &s->conn->peer->plan;
    while (s->in.len - s->in_at >= 5) {
        const uint8_t *h = (const uint8_t *)s->in.data + s->in_at;
        size_t len = (size_t)h[1] << 24 | (size_t)h[2] << 16 | (size_t)h[3] << 8 | h[4];
        if (s->in.len - s->in_at - 5 < len)
            break;
        s->in_at += 5 + len;
        p->script(p->user, s, s->call, s->path, s->index++, nf_str_n(h + 5, len));
    }
    if (half_closed)
        p->script(p->user, s, s->call, s->path, s->index, (struct nf_str){0});
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *user)
{
    struct peer_conn *c = user;
    struct h2_stream *s = stream_of(c, id, false);
    (void)session;
    (void)flags;
    if (!s)
        return 0;
    enum h2_how how = c->peer->plan.how;
    if (how == H2_SCRIPT) {
        nf_buf_add(&s->in, data, len);
        run_script(s, false);
        return 0;
    }
    if (how == H2_ECHO || how == H2_GOAWAY_AFTER || how == H2_REFUSE_ONCE) {
        if (s->out_at == s->out.len) {
            nf_buf_clear(&s->out);
            s->out_at = 0;
        }
        nf_buf_add(&s->out, data, len);
    }
    s->in.len += len; /* only the amount matters */
    if (how == H2_ECHO)
        respond(c, s);
    resume(c, s);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *f, const uint8_t *name, size_t nl, const uint8_t *value, size_t vl, uint8_t flags, void *user)
{
    struct peer_conn *c = user;
    struct h2_seen *seen = &c->peer->seen;
    struct nf_str n = nf_str_n(name, nl);
    (void)session;
    (void)f;
    (void)flags;
    if (nf_str_eq_c(n, "grpc-timeout"))
        (void)nf_format(seen->timeout, sizeof(seen->timeout), "%.*s", (int)vl, value);
    else if (nf_str_eq_c(n, ":path"))
        (void)nf_format(seen->path, sizeof(seen->path), "%.*s", (int)vl, value);
    else if (nf_str_eq_c(n, "content-type"))
        (void)nf_format(seen->content_type, sizeof(seen->content_type), "%.*s", (int)vl, value);
    else if (nf_str_eq_c(n, "te"))
        (void)nf_format(seen->te, sizeof(seen->te), "%.*s", (int)vl, value);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *f, void *user)
{
    struct peer_conn *c = user;
    (void)session;
    if (f->hd.type == NGHTTP2_PING && !(f->hd.flags & NGHTTP2_FLAG_ACK))
        c->peer->seen.pings++;
    if (f->hd.type == NGHTTP2_RST_STREAM && f->rst_stream.error_code == NGHTTP2_CANCEL)
        c->peer->seen.cancelled++;
    if (f->hd.type == NGHTTP2_HEADERS) {
        struct h2_stream *s = stream_of(c, f->hd.stream_id, true);
        if (s) {
            s->call = c->peer->seen.streams;
            (void)nf_format(s->path, sizeof(s->path), "%s", c->peer->seen.path);
        }
        c->peer->seen.streams++;
        if (s && (c->peer->plan.how == H2_EARLY || c->peer->plan.how == H2_SILENT || c->peer->plan.how == H2_CLOSE))
            respond(c, s);
    }
    if ((f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS) && (f->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        struct h2_stream *s = stream_of(c, f->hd.stream_id, false);
        if (!s)
            return 0;
        if (c->peer->plan.how == H2_SCRIPT) {
            run_script(s, true);
            return 0;
        }
        if (c->peer->plan.how == H2_COUNT) {
            char text[32];
            (void)nf_format(text, sizeof(text), "%zu", s->in.len);
            frame(&s->out, 0, text, strlen(text));
        }
        respond(c, s);
        if (c->peer->plan.how != H2_SILENT && c->peer->plan.how != H2_EARLY && c->peer->plan.how != H2_STREAM)
            s->out_end = true;
        resume(c, s);
        if (c->peer->plan.how == H2_GOAWAY_AFTER)
            nghttp2_submit_goaway(c->session, 0, f->hd.stream_id, NGHTTP2_NO_ERROR, (const uint8_t *)"bye", 3);
    }
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct peer_conn *c = user;
    struct h2_stream *s = stream_of(c, id, false);
    (void)session;
    (void)code;
    if (s) {
        nf_buf_done(&s->in);
        nf_buf_done(&s->out);
        s->used = false;
    }
    return 0;
}

static struct peer_conn *conn_new(struct h2_peer *peer, int fd)
{
    struct peer_conn *c = nf_alloc(sizeof(*c));
    nghttp2_session_callbacks *cbs;
    c->fd = fd;
    c->peer = peer;
    nghttp2_session_callbacks_new(&cbs);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
    nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cbs, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_close);
    nghttp2_session_server_new(&c->session, cbs, c);
    nghttp2_session_callbacks_del(cbs);
    nghttp2_submit_settings(c->session, 0, NULL, 0);
    return c;
}

static void conn_free(struct peer_conn *c)
{
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        if (c->streams[i].used) {
            nf_buf_done(&c->streams[i].in);
            nf_buf_done(&c->streams[i].out);
        }
    }
    nghttp2_session_del(c->session);
    close(c->fd);
    free(c);
}

/* Blocking writes are fine: the client reads while it waits. */
static bool flush(struct peer_conn *c)
{
    const uint8_t *data;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(c->session, &data)) > 0) {
        while (n > 0) {
            ssize_t w = send(c->fd, data, (size_t)n, MSG_NOSIGNAL);
            if (w < 0 && errno == EINTR)
                continue;
            if (w < 0)
                return false;
            data += w;
            n -= w;
        }
    }
    return n == 0 && !c->close_now;
}

static void *serve(void *user)
{
    struct h2_peer *peer = user;
    uint8_t buf[65536];
    for (;;) {
        struct pollfd p[CONNS_MAX + 2] = {{.fd = peer->wake[0], .events = POLLIN}, {.fd = peer->listen_fd, .events = POLLIN}};
        for (size_t i = 0; i < CONNS_MAX; i++)
            p[i + 2] = (struct pollfd){.fd = peer->conns[i] ? peer->conns[i]->fd : -1, .events = POLLIN};
        if (poll(p, CONNS_MAX + 2, -1) < 0)
            continue;
        if (p[0].revents)
            break;
        for (size_t i = 0; i < CONNS_MAX; i++) {
            struct peer_conn *c = peer->conns[i];
            if (!c || !p[i + 2].revents)
                continue;
            ssize_t n = recv(c->fd, buf, sizeof(buf), 0);
            if (n <= 0 || nghttp2_session_mem_recv(c->session, buf, (size_t)n) != n || !flush(c)) {
                conn_free(c);
                peer->conns[i] = NULL;
            }
        }
        if (p[1].revents) {
            int fd = accept(peer->listen_fd, NULL, NULL);
            peer->seen.connections++;
            if (fd >= 0 && peer->plan.how == H2_GARBAGE) {
                (void)!send(fd, "HTTP/1.1 400 no\r\n\r\nthis is something else than frames, and long enough", 64, MSG_NOSIGNAL);
                close(fd);
                continue;
            }
            for (size_t i = 0; i < CONNS_MAX && fd >= 0; i++) {
                if (!peer->conns[i]) {
                    peer->conns[i] = conn_new(peer, fd);
                    (void)flush(peer->conns[i]);
                    break;
                }
            }
        }
    }
    for (size_t i = 0; i < CONNS_MAX; i++)
        if (peer->conns[i])
            conn_free(peer->conns[i]);
    return NULL;
}

struct h2_peer *h2_peer_start(const char *socket_path, const struct h2_plan *plan)
{
    struct h2_peer *peer = nf_alloc(sizeof(*peer));
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    peer->plan = *plan;
    (void)nf_format(peer->path, sizeof(peer->path), "%s", socket_path);
    (void)nf_format(sun.sun_path, sizeof(sun.sun_path), "%s", socket_path);
    (void)unlink(socket_path);
    peer->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->listen_fd < 0 || bind(peer->listen_fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 || listen(peer->listen_fd, 64) < 0 || pipe(peer->wake) < 0 ||
        pthread_create(&peer->thread, NULL, serve, peer) != 0) {
        perror("h2_peer_start");
        abort();
    }
    return peer;
}

void h2_peer_stop(struct h2_peer *peer, struct h2_seen *ret_seen)
{
    (void)!write(peer->wake[1], "x", 1);
    pthread_join(peer->thread, NULL);
    close(peer->listen_fd);
    close(peer->wake[0]);
    close(peer->wake[1]);
    (void)unlink(peer->path);
    if (ret_seen)
        *ret_seen = peer->seen;
    free(peer);
}
