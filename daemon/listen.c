/* listen.c: see listen.h. */
#include "daemon/listen.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define BACKLOG 4096
#define ACCEPTS_PER_WAKE 64
#define RETRY_MS 20
#define SD_LISTEN_FDS_START 3

struct listener {
    uv_loop_t *loop;
    struct srv_server *server;
    char *path;               /* of a Unix socket, else NULL */
    char *address;
    int fd, lock_fd;
    mode_t mode;
    bool unix_socket, from_systemd;
    bool polling, stopped, lost; /* lost: the name is gone or another's, and that was said */
    dev_t dev;                /* of the name, to tell it from another's */
    ino_t ino;
    int open_handles;
    uv_poll_t poll;
    uv_timer_t timer;
};

/* --------------------------------------------------------------------------------------------------------- the lock */

static void describe_holder(int fd, char *out, size_t size)
{
    char text[128];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    int64_t pid = 0, since = 0;
    if (n > 0) {
        struct nf_str rest = nf_str_trim(nf_str_n(text, (size_t)n));
        struct nf_str first = nf_str_cut(&rest, ' ');
        if (nf_str_to_i64(first, &pid) < 0 || nf_str_to_i64(rest, &since) < 0)
            pid = 0;
    }
    if (pid <= 0) {
        nf_format(out, size, "another daemon");
        return;
    }
    time_t t = (time_t)(since / 1000000);
    struct tm tm;
    char when[32] = "?";
    if (gmtime_r(&t, &tm))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    nf_format(out, size, "neffd with pid %lld, since %s", (long long)pid, when);
}

static int take_lock(struct listener *l, struct nf_error *err)
{
    char *path = nf_asprintf("%s.lock", l->path);
    int rc = NF_OK;
    l->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (l->lock_fd < 0) {
        rc = nf_fail_errno(err, errno, "cannot open the lock file %s", path);
        goto out;
    }
    if (flock(l->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            char who[96];
            describe_holder(l->lock_fd, who, sizeof who);
            rc = nf_fail(err, NF_EBUSY, "%s is held by %s", l->path, who);
            nf_error_hint(err, "use that daemon, stop it, or give this one another --socket");
        } else {
            rc = nf_fail_errno(err, errno, "cannot lock %s", path);
        }
        close(l->lock_fd);
        l->lock_fd = -1;
        goto out;
    }
    char text[64];
    nf_format(text, sizeof text, "%d %lld\n", (int)getpid(), (long long)nf_wall_us());
    if (ftruncate(l->lock_fd, 0) != 0 || nf_fd_write_all(l->lock_fd, text, strlen(text)) < 0)
        nf_log(NF_LOG_WARNING, "listen", "the lock file cannot be written", "path=%s", nf_log_quote(path));
out:
    free(path);
    return rc;
}

/* -------------------------------------------------------------------------------------------------------- addresses */

/* Somebody who does not know of our lock may serve the path: never steal from the living. */
static bool somebody_answers(const struct sockaddr_un *sun)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    int rc = connect(fd, (const struct sockaddr *)sun, sizeof *sun);
    int e = errno;
    close(fd);
    return rc == 0 || e == EAGAIN;
}

/* A listening socket under the path, where nothing stands. */
static int bind_path(struct listener *l, const struct sockaddr_un *sun, int *ret_fd, struct nf_error *err)
{
    struct stat st;
    int rc = NF_OK, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot make a socket");
    /* The directory says who may connect; what a caller may do is decided by its uid. */
    if (bind(fd, (const struct sockaddr *)sun, sizeof *sun) != 0)
        rc = nf_fail_errno(err, errno, "cannot bind %s", l->path);
    else if (chmod(l->path, l->mode) != 0)
        rc = nf_fail_errno(err, errno, "cannot set the mode of %s", l->path);
    else if (lstat(l->path, &st) != 0)
        rc = nf_fail_errno(err, errno, "cannot stat %s", l->path);
    else if (listen(fd, BACKLOG) != 0)
        rc = nf_fail_errno(err, errno, "cannot listen on %s", l->path);
    if (rc) {
        close(fd);
        return rc;
    }
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    *ret_fd = fd;
    return NF_OK;
}

static int name_unix(const struct listener *l, struct sockaddr_un *ret, struct nf_error *err)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (l->path[0] != '/')
        return nf_fail(err, NF_ECONFIG, "the socket's path must be absolute: %s", l->path);
    if (!nf_format(ret->sun_path, sizeof ret->sun_path, "%s", l->path))
        return nf_fail(err, NF_ECONFIG, "the socket's path has more than %zu bytes: %s", sizeof ret->sun_path - 1, l->path);
    return NF_OK;
}

static int open_unix(struct listener *l, struct nf_error *err)
{
    struct sockaddr_un sun;
    int rc = name_unix(l, &sun, err);
    if (rc < 0)
        return rc;
    char *dir = nf_strdup(l->path);
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = '\0';
    rc = nf_mkdir_p(dir, 0755, err);
    free(dir);
    if (rc < 0)
        return rc;
    if ((rc = take_lock(l, err)) < 0)
        return rc;
    struct stat st;
    if (lstat(l->path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode))
            return nf_fail(err, NF_ECONFIG, "%s exists and is not a socket", l->path);
        if (somebody_answers(&sun))
            return nf_fail(err, NF_EBUSY, "%s is served by another program", l->path);
        if (unlink(l->path) != 0 && errno != ENOENT)
            return nf_fail_errno(err, errno, "cannot remove the stale socket %s", l->path);
        nf_log(NF_LOG_INFO, "listen", "stale socket taken over", "path=%s", nf_log_quote(l->path));
    }
    if ((rc = bind_path(l, &sun, &l->fd, err)) < 0)
        return rc;
    l->unix_socket = true;
    l->address = nf_asprintf("unix:%s", l->path);
    return NF_OK;
}

static int refuse_address(const char *address, struct nf_error *err)
{
    nf_fail(err, NF_ECONFIG, "cannot serve %s: TCP is for loopback only (127.0.0.1 or [::1])", address);
    nf_error_hint(err, "use a Unix socket (--socket unix:/path), or 127.0.0.1:PORT");
    return NF_ECONFIG;
}

static void name_tcp(struct listener *l)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof ss;
    char host[INET6_ADDRSTRLEN] = "?";
    if (getsockname(l->fd, (struct sockaddr *)&ss, &len) != 0) {
        l->address = nf_strdup("?");
    } else if (ss.ss_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)&ss;
        inet_ntop(AF_INET6, &a->sin6_addr, host, sizeof host);
        l->address = nf_asprintf("[%s]:%u", host, ntohs(a->sin6_port));
    } else {
        const struct sockaddr_in *a = (const struct sockaddr_in *)&ss;
        inet_ntop(AF_INET, &a->sin_addr, host, sizeof host);
        l->address = nf_asprintf("%s:%u", host, ntohs(a->sin_port));
    }
}

static int open_tcp(struct listener *l, const char *address, struct nf_error *err)
{
    struct nf_str host;
    uint16_t port;
    if (!nf_host_port(address, &host, &port))
        return nf_fail(err, NF_ECONFIG, "not an address: %s (unix:/path or HOST:PORT)", address);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool is_v6 = nf_str_eq_c(host, "[::1]");
    if (!is_v6 && !nf_str_eq_c(host, "127.0.0.1") && !nf_str_eq_c(host, "localhost"))
        return refuse_address(address, err);
    l->fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return nf_fail_errno(err, errno, "cannot make a socket");
    int on = 1;
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);   /* TIME_WAIT only; SO_REUSEPORT stays off */
    int rc = is_v6 ? bind(l->fd, (struct sockaddr *)&v6, sizeof v6) : bind(l->fd, (struct sockaddr *)&v4, sizeof v4);
    if (rc != 0)
        return errno == EADDRINUSE ? nf_fail(err, NF_EBUSY, "%s is in use by another program", address)
                                   : nf_fail_errno(err, errno, "cannot bind %s", address);
    if (listen(l->fd, BACKLOG) != 0)
        return nf_fail_errno(err, errno, "cannot listen on %s", address);
    name_tcp(l);
    return NF_OK;
}

/* A socket that systemd holds for us: already bound and listening. */
static int take_systemd(struct listener *l, bool *ret_taken, struct nf_error *err)
{
    *ret_taken = false;
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t p = 0, n = 0;
    if (!pid || !fds || nf_str_to_u64(nf_str_c(pid), &p) < 0 || nf_str_to_u64(nf_str_c(fds), &n) < 0 || p != (uint64_t)getpid() || n < 1)
        return NF_OK;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof ss;
    if (getsockname(SD_LISTEN_FDS_START, (struct sockaddr *)&ss, &len) != 0)
        return nf_fail_errno(err, errno, "the socket that systemd passed is none");
    l->fd = SD_LISTEN_FDS_START;
    fcntl(l->fd, F_SETFD, FD_CLOEXEC);
    fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
    for (uint64_t i = 1; i < n && i < 64; i++)
        close(SD_LISTEN_FDS_START + (int)i);
    l->from_systemd = true;
    if (ss.ss_family == AF_UNIX) {
        const struct sockaddr_un *sun = (const struct sockaddr_un *)&ss;
        l->unix_socket = true;
        l->path = nf_strdup(sun->sun_path);
        l->address = nf_asprintf("unix:%s", l->path);
        int rc = l->path[0] == '/' ? take_lock(l, err) : NF_OK;
        if (rc < 0)
            return rc;
    } else if (ss.ss_family == AF_INET || ss.ss_family == AF_INET6) {
        bool loopback = ss.ss_family == AF_INET
                            ? ntohl(((struct sockaddr_in *)&ss)->sin_addr.s_addr) == INADDR_LOOPBACK
                            : IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&ss)->sin6_addr);
        name_tcp(l);
        if (!loopback)
            return refuse_address(l->address, err);
    } else {
        return nf_fail(err, NF_ECONFIG, "the socket that systemd passed is neither Unix nor TCP");
    }
    *ret_taken = true;
    return NF_OK;
}

int listen_open(const struct listen_options *o, struct listener **ret_listener, struct nf_error *err)
{
    struct listener *l = nf_alloc(sizeof *l);
    l->loop = o->loop;
    l->mode = o->mode;
    l->fd = l->lock_fd = -1;
    bool taken = false;
    int rc = take_systemd(l, &taken, err);
    if (rc == NF_OK && !taken) {
        if (strncmp(o->address, "unix:", 5) == 0 || o->address[0] == '/') {
            l->path = nf_strdup(o->address[0] == '/' ? o->address : o->address + 5);
            rc = open_unix(l, err);
        } else {
            rc = open_tcp(l, o->address, err);
        }
    }
    if (rc < 0) {
        listen_close(l);
        return rc;
    }
    *ret_listener = l;
    return NF_OK;
}

const char *listen_address(const struct listener *l) { return l->address; }

/* -------------------------------------------------------------------------------------------------------- accepting */

static void pause_accepting(struct listener *l);

static void adopt(struct listener *l, int fd)
{
    struct srv_peer peer = {.unix_socket = l->unix_socket, .uid = UINT32_MAX, .gid = UINT32_MAX};
    if (l->unix_socket) {
        struct ucred cred;
        socklen_t len = sizeof cred;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
            peer.uid = cred.uid;
            peer.gid = cred.gid;
            peer.pid = (uint32_t)cred.pid;
        }
    } else {
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    int rc = NF_EBUSY;
    for (int tries = 0; tries < 16 && rc == NF_EBUSY && srv_server_has_room(l->server); tries++)
        rc = srv_server_adopt(l->server, fd, &peer);
    if (rc != NF_OK) {
        close(fd);
        nf_log(NF_LOG_WARNING, "listen", "a connection had to be dropped: no descriptor number is free", NULL);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *l = poll->data;
    (void)status, (void)events;
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        if (!srv_server_has_room(l->server)) {
            pause_accepting(l);
            return;
        }
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            adopt(l, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EAGAIN)
            pause_accepting(l);   /* EMFILE, ENFILE, ENOMEM: later */
        return;
    }
}

static void on_retry(uv_timer_t *timer)
{
    struct listener *l = timer->data;
    if (!l->stopped && srv_server_has_room(l->server)) {
        uv_timer_stop(&l->timer);
        uv_poll_start(&l->poll, UV_READABLE, on_readable);
    }
}

static void pause_accepting(struct listener *l)
{
    uv_poll_stop(&l->poll);
    uv_timer_start(&l->timer, on_retry, RETRY_MS, RETRY_MS);
}

void listen_start(struct listener *l, struct srv_server *server)
{
    l->server = server;
    uv_timer_init(l->loop, &l->timer);
    uv_poll_init(l->loop, &l->poll, l->fd);
    l->timer.data = l->poll.data = l;
    l->open_handles = 2;
    l->polling = true;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
}

static bool name_is_ours(const struct listener *l)
{
    struct stat st;
    return lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

/* Whether the lock that we hold is the one that others would try: its file may have been removed as well. */
static bool lock_is_known(const struct listener *l)
{
    struct stat held, there;
    char *path = nf_asprintf("%s.lock", l->path);
    bool same = fstat(l->lock_fd, &held) == 0 && lstat(path, &there) == 0 && held.st_dev == there.st_dev && held.st_ino == there.st_ino;
    free(path);
    return same;
}

static int renew(struct listener *l, struct nf_error *err)
{
    struct sockaddr_un sun;
    int rc = name_unix(l, &sun, err), fd = -1, old = l->lock_fd;
    if (rc == NF_OK && !lock_is_known(l)) {
        if ((rc = take_lock(l, err)) < 0)
            l->lock_fd = old;
        else
            close(old);
    }
    if (rc == NF_OK)
        rc = bind_path(l, &sun, &fd, err);
    if (rc < 0)
        return rc;
    bool waiting = uv_is_active((uv_handle_t *)&l->poll);
    uv_poll_stop(&l->poll);
    dup3(fd, l->fd, O_CLOEXEC); /* the loop's handle keeps its number */
    close(fd);
    if (waiting)
        uv_poll_start(&l->poll, UV_READABLE, on_readable);
    return NF_OK;
}

void listen_renew(struct listener *l)
{
    struct nf_error err = {0};
    if (!l->path || l->from_systemd || l->stopped || !l->polling || name_is_ours(l))
        return;
    int rc = renew(l, &err);
    if (rc == NF_OK)
        nf_log(NF_LOG_WARNING, "listen", "the socket's name was gone and has been made again", "path=%s", nf_log_quote(l->path));
    else if (!l->lost)
        nf_log(NF_LOG_ERROR, "listen", "the socket's name is gone: new callers do not find this daemon", "path=%s why=%s", nf_log_quote(l->path),
               nf_log_quote(err.message));
    l->lost = rc != NF_OK;
}

void listen_stop(struct listener *l)
{
    if (l->stopped)
        return;
    l->stopped = true;
    if (l->polling) {
        uv_poll_stop(&l->poll);
        uv_timer_stop(&l->timer);
    }
    if (l->path && !l->from_systemd && l->lock_fd >= 0 && l->fd >= 0 && name_is_ours(l))
        unlink(l->path);
}

static void finish_close(struct listener *l)
{
    if (l->fd >= 0)
        close(l->fd);
    if (l->lock_fd >= 0)
        close(l->lock_fd);   /* the file stays: whoever comes next locks the same inode */
    free(l->path);
    free(l->address);
    free(l);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct listener *l = h->data;
    if (--l->open_handles == 0)
        finish_close(l);
}

void listen_close(struct listener *l)
{
    if (!l)
        return;
    if (!l->polling) {
        finish_close(l);
        return;
    }
    listen_stop(l);
    uv_close((uv_handle_t *)&l->poll, on_handle_closed);
    uv_close((uv_handle_t *)&l->timer, on_handle_closed);
}
