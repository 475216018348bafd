/* worker_pool.c: starting, feeding, watching and ending worker processes. See worker.h.
 *
 * Ends: the daemon alone waits for children (waitpid(-1) on SIGCHLD), because as a sub-reaper it is also handed the orphans of
 * killed workers; whatever is a child and no worker of ours is such an orphan and is killed. Nothing else in the daemon may
 * start processes: questions to compilers go through workers too.
 *
 * A worker's answer and its end may arrive in either order; the pipe is read to its end before an end is believed. */
#include "daemon/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/post.h"
#include "daemon/signals.h"
#include "daemon/tree.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define SAMPLE_MS 250
#define ORPHAN_MS 50
#define STDERR_TAIL 2048
#define START_LIMIT_NS (60 * NF_SEC)

extern char **environ;

enum worker_state { WORKER_STARTING, WORKER_IDLE, WORKER_TAKEN, WORKER_BUSY, WORKER_DEAD };

struct worker {
    struct worker *next;
    struct worker_pool *pool;
    pid_t pid;
    enum worker_state state;
    bool ready, reaped, killed, retire;
    bool held;                     /* somebody has taken it: its memory stays until it is given back */
    int wait_status;
    int fd, err_fd;
    int open_handles;
    uv_poll_t poll, err_poll;
    struct nf_buf in, out;
    size_t in_at, out_at;
    unsigned jobs;
    int64_t started_ns, idle_since_ns;
    struct worker_request request;
    bool has_request;
    int64_t request_started_ns;
    uint64_t rss, peak;
    char tail[STDERR_TAIL + 1];
    size_t tail_len;
    int kill_code;                 /* why we killed it: NF_ECOMPILETIMEOUT, NF_ENOMEM; 0: nobody asks */
};

struct worker_pool {
    struct worker_pool_options o;
    struct worker *workers;
    struct signal_watch sigchld;
    uv_timer_t sample, orphans;
    bool closing;
    char **argv;
    void (*closed)(void *user);
    void *closed_user;
    int open_handles;
};

static void worker_try_free(struct worker *w);

/* ------------------------------------------------------------------------------------------------------------ starting */

static char **child_environment(const char *marker)
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = nf_alloc_array(n + 2, sizeof *env);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], TREE_MARKER "=", sizeof TREE_MARKER) != 0 && strncmp(environ[i], "NOTIFY_SOCKET=", 14) != 0)
            env[k++] = environ[i];
    env[k] = nf_asprintf(TREE_MARKER "=%s", marker);
    return env;
}

static void argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

void worker_pool_set_config(struct worker_pool *p, const struct cfg *cfg)
{
    char **argv = nf_alloc_array(CFG_ID_MAX + 3, sizeof *argv);
    size_t n = 0;
    argv[n++] = nf_strdup(p->o.program);
    argv[n++] = nf_strdup("--worker");
    for (int i = 0; i < CFG_ID_MAX; i++) {
        struct cfg_setting s = cfg_setting(cfg, (enum cfg_id)i);
        if (!s.set)
            continue;
        char *arg = argv[n++] = nf_asprintf("--%s=%s", s.name, s.value);
        for (char *c = arg; *c && *c != '='; c++)
            if (*c == '_')
                *c = '-';
    }
    argv_free(p->argv);
    p->argv = argv;
}

static void child_environment_free(char **env)
{
    size_t n = 0;
    while (env[n])
        n++;
    free(env[n - 1]);
    free(env);
}

static int spawn(struct worker_pool *p, struct worker *w, struct nf_error *err)
{
    int pair[2] = {-1, -1}, pipe_fds[2] = {-1, -1}, rc = NF_OK;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    char **env = child_environment(p->o.marker);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || pipe2(pipe_fds, O_CLOEXEC) != 0) {
        rc = nf_fail_errno(err, errno, "cannot make a pipe for a worker");
        goto out;
    }
    /* Targets of dup2 (0 to 3) must not be sources that a later action still needs: lift ours above them. */
    for (int i = 0; i < 2; i++) {
        int *ends[] = {&pair[i], &pipe_fds[i]};
        for (size_t k = 0; k < 2; k++) {
            if (*ends[k] > 3)
                continue;
            int high = fcntl(*ends[k], F_DUPFD_CLOEXEC, 4);
            if (high < 0) {
                rc = nf_fail_errno(err, errno, "cannot make a pipe for a worker");
                goto out;
            }
            close(*ends[k]);
            *ends[k] = high;
        }
    }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 2);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
    posix_spawn_file_actions_addclosefrom_np(&actions, 4);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int e = posix_spawn(&w->pid, "/proc/self/exe", &actions, &attr, p->argv, env);
    if (e != 0) {
        rc = nf_fail_errno(err, e, "cannot start a worker process");
        goto out;
    }
    w->fd = pair[0];
    w->err_fd = pipe_fds[0];
    pair[0] = pipe_fds[0] = -1;
    fcntl(w->fd, F_SETFL, O_NONBLOCK);
    fcntl(w->err_fd, F_SETFL, O_NONBLOCK);
out:
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        if (pipe_fds[i] >= 0)
            close(pipe_fds[i]);
    }
    child_environment_free(env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return rc;
}

static void on_io(uv_poll_t *poll, int status, int events);
static void on_stderr(uv_poll_t *poll, int status, int events);

static struct worker *worker_start(struct worker_pool *p, struct nf_error *err)
{
    struct worker *w = nf_alloc(sizeof *w);
    w->pool = p;
    w->fd = w->err_fd = -1;
    w->state = WORKER_STARTING;
    if (spawn(p, w, err) < 0) {
        free(w);
        return NULL;
    }
    w->started_ns = nf_now_ns();
    uv_poll_init(p->o.loop, &w->poll, w->fd);
    uv_poll_init(p->o.loop, &w->err_poll, w->err_fd);
    w->poll.data = w->err_poll.data = w;
    w->open_handles = 2;
    uv_poll_start(&w->poll, UV_READABLE, on_io);
    uv_poll_start(&w->err_poll, UV_READABLE, on_stderr);
    w->next = p->workers;
    p->workers = w;
    nf_log(NF_LOG_DEBUG, "worker", "started", "pid=%d", (int)w->pid);
    return w;
}

/* ---------------------------------------------------------------------------------------------------------------- ends */

/* Decodes how it ended into the error that its request gets. */
static void describe_end(const struct worker *w, struct nf_error *err)
{
    int st = w->wait_status;
    const char *tail = w->tail_len ? w->tail : "";
    const char *last = strrchr(tail, '\n');
    last = last ? last + 1 : tail;
    if (w->kill_code == NF_ECOMPILETIMEOUT) {
        nf_fail(err, NF_ECOMPILETIMEOUT, "the compile was stopped after %lld s", (long long)((nf_now_ns() - w->request_started_ns) / NF_SEC));
        nf_error_hint(err, "raise the limit with --timeout or the daemon's compile_timeout option");
    } else if (w->kill_code == NF_ENOMEM) {
        nf_fail(err, NF_ENOMEM, "the compile was stopped at %llu MiB of memory, over its limit of %llu MiB",
                (unsigned long long)(w->peak >> 20), (unsigned long long)(w->request.memory_limit_bytes >> 20));
    } else if (!w->reaped) {
        nf_fail(err, NF_EWORKERLOST, "worker process %d broke its pipe", (int)w->pid);
    } else if (WIFSIGNALED(st)) {
        int sig = WTERMSIG(st);
        bool outside = sig == SIGKILL || sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT;
        nf_fail(err, outside ? NF_EWORKERLOST : NF_EWORKERCRASH, "worker process %d was ended by signal %d (%s)%s%.200s", (int)w->pid, sig,
                strsignal(sig), *last ? ": " : "", last);
        err->exit_code = -sig;
        if (!outside)
            nf_error_hint(err, "this graph crashes neffd: please report it with the graph");
    } else {
        nf_fail(err, NF_EWORKERCRASH, "worker process %d ended with code %d%s%.200s", (int)w->pid, WEXITSTATUS(st), *last ? ": " : "", last);
        err->exit_code = WEXITSTATUS(st);
    }
}

static void unlink_worker(struct worker *w)
{
    for (struct worker **at = &w->pool->workers; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            return;
        }
}

static void on_handle_closed(uv_handle_t *h)
{
    struct worker *w = h->data;
    w->open_handles--;
    worker_try_free(w);
}

static void close_io(struct worker *w)
{
    if (w->fd < 0)
        return;
    uv_close((uv_handle_t *)&w->poll, on_handle_closed);
    uv_close((uv_handle_t *)&w->err_poll, on_handle_closed);
    close(w->fd);
    close(w->err_fd);
    w->fd = w->err_fd = -1;
}

static void pool_try_close(struct worker_pool *p);

static void worker_try_free(struct worker *w)
{
    if (w->state != WORKER_DEAD || !w->reaped || w->open_handles || w->held)
        return;
    struct worker_pool *p = w->pool;
    unlink_worker(w);
    nf_buf_done(&w->in);
    nf_buf_done(&w->out);
    free(w);
    if (p->closing)
        pool_try_close(p);
    else if (p->o.on_free)
        p->o.on_free(p->o.user);
}

/* The request, if there is one, learns that its worker is gone. */
static void worker_lost(struct worker *w)
{
    if (w->state == WORKER_DEAD)
        return;
    bool crashed = !w->killed && !w->pool->closing && !(w->reaped && WIFEXITED(w->wait_status) && WEXITSTATUS(w->wait_status) == 0);
    w->state = WORKER_DEAD;
    if (!w->reaped)
        tree_kill(w->pid, true);
    close_io(w);
    if (crashed) {
        nf_log(NF_LOG_WARNING, "worker", "lost", "pid=%d busy=%d status=%d stderr=%s", (int)w->pid, (int)w->has_request, w->wait_status,
               nf_log_quote(w->tail));
        if (w->pool->o.on_crash)
            w->pool->o.on_crash(w->pool->o.user);
    }
    if (w->has_request) {
        w->has_request = false;
        w->held = false;   /* `lost` tells the holder so */
        struct worker_answer a = {.frame = NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_FAILED, .lost = true, .peak_rss_bytes = w->peak,
                                  .stderr_tail = w->tail};
        describe_end(w, &a.err);
        w->request.on_answer(w->request.user, &a);
    }
    worker_try_free(w);
}

static void read_stderr(struct worker *w);
static bool read_frames(struct worker *w);

static void kill_orphans(struct worker_pool *p);

static void on_sigchld(struct signal_watch *watch, int signum)
{
    struct worker_pool *p = watch->data;
    (void)signum;
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0)
            break;
        for (struct worker *w = p->workers; w; w = w->next) {
            if (w->pid != pid || w->reaped)
                continue;
            w->reaped = true;
            w->wait_status = status;
            w->retire = true;   /* never taken again, whatever it has still to say */
            if (w->state != WORKER_DEAD) {
                read_stderr(w);
                if (read_frames(w) && w->state != WORKER_DEAD)   /* an answer that it had already written counts */
                    worker_lost(w);
            } else {
                worker_try_free(w);
            }
            break;
        }
    }
    kill_orphans(p);
}

/* What descends from a killed worker becomes our child. */
static void kill_orphans(struct worker_pool *p)
{
    pid_t pids[512];
    size_t n = tree_children(getpid(), pids, NF_ARRAY_LEN(pids)), orphans = 0;
    for (size_t i = 0; i < n; i++) {
        bool ours = false;
        for (struct worker *w = p->workers; w && !ours; w = w->next)
            ours = w->pid == pids[i] && !w->reaped;
        if (!ours) {
            orphans++;
            tree_kill(pids[i], true);
        }
    }
    if (orphans && !uv_is_closing((uv_handle_t *)&p->orphans))
        nf_log(NF_LOG_DEBUG, "worker", "orphans killed", "count=%zu", orphans);
}

static void on_orphan_timer(uv_timer_t *t)
{
    struct worker_pool *p = t->data;
    bool dying = false;
    for (struct worker *w = p->workers; w; w = w->next)
        dying = dying || w->state == WORKER_DEAD;
    kill_orphans(p);
    if (!dying)
        uv_timer_stop(t);
}

static void end_worker(struct worker *w)
{
    w->killed = true;
    if (!w->reaped)
        tree_kill(w->pid, true);
    uv_timer_start(&w->pool->orphans, on_orphan_timer, ORPHAN_MS, ORPHAN_MS);
}

void worker_kill(struct worker *w)
{
    assert(post_on_loop_thread());
    w->held = false;
    if (w->state == WORKER_DEAD) {
        worker_try_free(w);
        return;
    }
    w->has_request = false;
    end_worker(w);
    w->state = WORKER_DEAD;
    close_io(w);
    worker_try_free(w);
}

/* --------------------------------------------------------------------------------------------------------- the pipe */

static void read_stderr(struct worker *w)
{
    char chunk[2048];
    while (w->err_fd >= 0) {
        ssize_t n = read(w->err_fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                uv_poll_stop(&w->err_poll);
            return;
        }
        size_t add = NF_MIN((size_t)n, (size_t)STDERR_TAIL);
        size_t keep = NF_MIN(w->tail_len, STDERR_TAIL - add);
        memmove(w->tail, w->tail + w->tail_len - keep, keep);
        memcpy(w->tail + keep, chunk + (size_t)n - add, add);
        w->tail_len = keep + add;
        while (w->tail_len && w->tail[w->tail_len - 1] == '\n')
            w->tail_len--;
        w->tail[w->tail_len] = '\0';
        nf_log(NF_LOG_DEBUG, "worker", "stderr", "pid=%d text=%s", (int)w->pid, nf_log_quote(w->tail));
    }
}

static void on_stderr(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    read_stderr(poll->data);
}

static void protocol_error(struct worker *w, const char *what)
{
    nf_log(NF_LOG_ERROR, "worker", "broke the protocol", "pid=%d what=%s", (int)w->pid, nf_log_quote(what));
    w->killed = true;
    worker_lost(w);
}

static const ProtobufCMessageDescriptor *answer_type(int frame)
{
    switch (frame) {
    case NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_IDENTIFIED: return &neffd__worker__v1__identified__descriptor;
    case NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_KEYED: return &neffd__worker__v1__keyed__descriptor;
    case NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_COMPILED: return &neffd__worker__v1__compiled__descriptor;
    case NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_FAILED: return &neffd__worker__v1__failed__descriptor;
    default: return NULL;
    }
}

static void answer(struct worker *w, int frame, const ProtobufCMessage *message)
{
    struct worker_answer a = {.frame = frame, .message = message, .peak_rss_bytes = NF_MAX(w->peak, w->rss)};
    if (frame == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_FAILED) {
        const Neffd__Worker__V1__Failed *f = (const Neffd__Worker__V1__Failed *)message;
        if (f->error)
            rpc_error_from_message(f->error, &a.err);
        if (!a.err.code)
            nf_fail(&a.err, NF_EINTERNAL, "worker process %d failed without saying why", (int)w->pid);
        a.peak_rss_bytes = NF_MAX(a.peak_rss_bytes, f->peak_rss_bytes);
    }
    w->has_request = false;
    w->state = WORKER_TAKEN;
    w->jobs++;
    w->request.on_answer(w->request.user, &a);   /* may release or kill it */
}

static void take_frame(struct worker *w, const struct rpc_frame *f)
{
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (f->type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_HELLO) {
        w->ready = true;
        if (w->state == WORKER_STARTING) {
            w->state = WORKER_IDLE;
            w->idle_since_ns = nf_now_ns();
            if (w->pool->o.on_free)
                w->pool->o.on_free(w->pool->o.user);
        }
        return;
    }
    if (!w->has_request) {
        protocol_error(w, "an answer that nobody asked for");
        return;
    }
    if (f->type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_EVENT) {
        if (rpc_decode(&neffd__worker__v1__event__descriptor, f->payload, &m, &err) < 0) {
            protocol_error(w, err.message);
            return;
        }
        if (w->request.on_event)
            w->request.on_event(w->request.user, (const Neffd__Worker__V1__Event *)m);
        protobuf_c_message_free_unpacked(m, NULL);
        return;
    }
    const ProtobufCMessageDescriptor *d = answer_type(f->type);
    if (!d || rpc_decode(d, f->payload, &m, &err) < 0) {
        protocol_error(w, d ? err.message : "unknown frame");
        return;
    }
    answer(w, f->type, m);
    protobuf_c_message_free_unpacked(m, NULL);
}

/* Reads and handles all there is. False: the worker has been lost or killed on the way. True at the end of the pipe, too. */
static bool read_frames(struct worker *w)
{
    bool end = false;
    while (w->state != WORKER_DEAD && !end) {
        if (!nf_buf_reserve(&w->in, 65536)) {
            protocol_error(w, "out of memory");
            return false;
        }
        ssize_t n = read(w->fd, w->in.data + w->in.len, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            end = true;
        else if (n == 0)
            end = true;
        else
            w->in.len += (size_t)n;
        struct rpc_frame f;
        int rc;
        while (w->state != WORKER_DEAD && (rc = rpc_frame_next(&w->in, &w->in_at, &f)) != 0) {
            if (rc < 0) {
                protocol_error(w, "a frame over the limit");
                return false;
            }
            take_frame(w, &f);
        }
        if (w->state == WORKER_DEAD)
            return false;
        rpc_frame_consume(&w->in, &w->in_at);
        if (n == 0) {
            uv_poll_stop(&w->poll);   /* its end follows by SIGCHLD, which knows the reason */
            if (!w->reaped)
                uv_timer_start(&w->pool->orphans, on_orphan_timer, ORPHAN_MS, ORPHAN_MS);
        }
    }
    return w->state != WORKER_DEAD;
}

static void write_out(struct worker *w)
{
    while (w->out_at < w->out.len) {
        ssize_t n = send(w->fd, w->out.data + w->out_at, w->out.len - w->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            uv_poll_start(&w->poll, UV_READABLE | UV_WRITABLE, on_io);
            return;
        }
        if (n < 0)
            return;   /* it is dying: SIGCHLD tells why */
        w->out_at += (size_t)n;
    }
    nf_buf_clear(&w->out);
    w->out_at = 0;
    uv_poll_start(&w->poll, UV_READABLE, on_io);
}

static void on_io(uv_poll_t *poll, int status, int events)
{
    struct worker *w = poll->data;
    if (status < 0)
        events = UV_READABLE;
    if ((events & UV_WRITABLE) && w->state != WORKER_DEAD)
        write_out(w);
    if ((events & UV_READABLE) && w->state != WORKER_DEAD)
        read_frames(w);
}

/* ------------------------------------------------------------------------------------------------------------ the pool */

static void on_sample(uv_timer_t *t)
{
    struct worker_pool *p = t->data;
    int64_t now = nf_now_ns();
    unsigned idle = 0;
    struct worker *next;
    for (struct worker *w = p->workers; w; w = next) {
        next = w->next;
        if (w->state == WORKER_DEAD)
            continue;
        if (w->state == WORKER_STARTING && now - w->started_ns > START_LIMIT_NS) {
            nf_log(NF_LOG_ERROR, "worker", "does not start", "pid=%d", (int)w->pid);
            w->killed = true;
            worker_lost(w);
            continue;
        }
        if (w->state == WORKER_IDLE && ++idle > p->o.keep_idle && p->o.idle_ns && now - w->idle_since_ns > p->o.idle_ns) {
            w->retire = true;
            worker_kill(w);
            continue;
        }
        if (!w->has_request)
            continue;
        w->rss = tree_rss_bytes(w->pid);
        w->peak = NF_MAX(w->peak, w->rss);
        int code = 0;
        if (w->request.time_limit_ns && now - w->request_started_ns > w->request.time_limit_ns)
            code = NF_ECOMPILETIMEOUT;
        else if (w->request.memory_limit_bytes && w->rss > w->request.memory_limit_bytes)
            code = NF_ENOMEM;
        if (code) {
            w->kill_code = code;
            end_worker(w);
            worker_lost(w);
        }
    }
}

int worker_pool_new(const struct worker_pool_options *o, struct worker_pool **ret_pool, struct nf_error *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return nf_fail_errno(err, errno, "cannot become a sub-reaper");
    struct worker_pool *p = nf_alloc(sizeof *p);
    p->o = *o;
    worker_pool_set_config(p, o->cfg);
    p->sigchld.data = p;
    int rc = signals_watch(o->loop, &p->sigchld, (const int[]){SIGCHLD, 0}, on_sigchld, err);
    if (rc < 0) {
        argv_free(p->argv);
        free(p);
        return rc;
    }
    uv_timer_init(o->loop, &p->sample);
    uv_timer_init(o->loop, &p->orphans);
    p->sample.data = p->orphans.data = p;
    p->open_handles = 3;
    uv_timer_start(&p->sample, on_sample, SAMPLE_MS, SAMPLE_MS);
    *ret_pool = p;
    return NF_OK;
}

static void pool_closed_one(struct worker_pool *p)
{
    if (--p->open_handles)
        return;
    void (*closed)(void *user) = p->closed;
    void *user = p->closed_user;
    argv_free(p->argv);
    free(p);
    if (closed)
        closed(user);
}

static void on_pool_handle_closed(uv_handle_t *h) { pool_closed_one(h->data); }
static void on_sigchld_closed(struct signal_watch *watch) { pool_closed_one(watch->data); }

static void pool_try_close(struct worker_pool *p)
{
    if (!p->closing || p->workers || uv_is_closing((uv_handle_t *)&p->sample))
        return;
    /* The last orphans: nobody else will ever take them. */
    for (int i = 0; i < 40; i++) {
        pid_t pid;
        if (tree_kill(getpid(), false) == 0)
            break;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        nf_sleep_ns(5 * NF_MS);
    }
    signals_unwatch(&p->sigchld, on_sigchld_closed);
    uv_close((uv_handle_t *)&p->sample, on_pool_handle_closed);
    uv_close((uv_handle_t *)&p->orphans, on_pool_handle_closed);
}

void worker_pool_close(struct worker_pool *p, void (*done)(void *user), void *user)
{
    p->closing = true;
    p->closed = done;
    p->closed_user = user;
    struct worker *next;
    for (struct worker *w = p->workers; w; w = next) {
        next = w->next;
        worker_kill(w);
    }
    pool_try_close(p);
}

void worker_pool_give_up(struct worker_pool *p)
{
    assert(post_on_loop_thread() && p->closing);
    struct worker *next;
    for (struct worker *w = p->workers; w; w = next) {
        next = w->next;
        if (w->reaped)
            continue;   /* its handles close in this turn of the loop */
        nf_log(NF_LOG_WARNING, "worker", "does not end, and is left", "pid=%d", (int)w->pid);
        w->reaped = true;
        worker_try_free(w);
    }
}

void worker_pool_describe(const struct worker_pool *p, struct nf_buf *out)
{
    size_t n = 0, all = 0;
    for (const struct worker *w = p->workers; w; w = w->next)
        all++;
    nf_buf_add_count(out, all, "worker process", "worker processes");
    for (const struct worker *w = p->workers; w && nf_buf_add_item(out, n); w = w->next, n++)
        nf_buf_addf(out, "pid %d", (int)w->pid);
    nf_buf_add_c(out, n ? ")" : "");
}

void worker_pool_set_max(struct worker_pool *p, unsigned max_workers) { p->o.max_workers = max_workers; }

size_t worker_pool_count(const struct worker_pool *p)
{
    size_t n = 0;
    for (const struct worker *w = p->workers; w; w = w->next)
        n += w->state != WORKER_DEAD;
    return n;
}

void worker_pool_retire_all(struct worker_pool *p)
{
    struct worker *next;
    for (struct worker *w = p->workers; w; w = next) {
        next = w->next;
        w->retire = true;
        if (w->state == WORKER_IDLE)
            worker_kill(w);
    }
}

struct worker *worker_take(struct worker_pool *p, struct nf_error *err)
{
    assert(post_on_loop_thread());
    if (p->closing)
        return NULL;
    struct worker *starting = NULL;
    for (struct worker *w = p->workers; w; w = w->next) {
        if (w->state == WORKER_IDLE && !w->retire) {
            w->state = WORKER_TAKEN;
            w->held = true;
            return w;
        }
        if (w->state == WORKER_STARTING)
            starting = w;
    }
    /* One that is starting takes its first request from the pipe when it is ready. */
    if (!starting) {
        if (worker_pool_count(p) >= p->o.max_workers)
            return NULL;
        starting = worker_start(p, err);
    }
    if (starting) {
        starting->state = WORKER_TAKEN;
        starting->held = true;
    }
    return starting;
}

void worker_release(struct worker *w)
{
    assert(post_on_loop_thread() && !w->has_request && w->held);
    w->held = false;
    if (w->state == WORKER_DEAD) {
        worker_try_free(w);
        return;
    }
    uint64_t rss = w->pool->o.idle_rss_bytes;
    if (w->retire || w->jobs >= w->pool->o.recycle_jobs || w->pool->closing || (rss && tree_rss_of(w->pid) > rss)) {
        w->retire = true;
        worker_kill(w);
        return;
    }
    w->state = WORKER_IDLE;
    w->idle_since_ns = nf_now_ns();
    if (w->pool->o.on_free)
        w->pool->o.on_free(w->pool->o.user);
}

int worker_submit(struct worker *w, const struct worker_request *request, struct nf_error *err)
{
    assert(post_on_loop_thread() && w->held && !w->has_request);
    if (w->state == WORKER_DEAD)
        return nf_fail(err, NF_EWORKERLOST, "worker process %d has ended", (int)w->pid);
    assert(w->state == WORKER_TAKEN);
    if (rpc_frame_add_message(&w->out, (uint8_t)request->frame, request->message) < 0)
        return nf_fail(err, NF_ELIMIT, "the request is over the limit of a message to a worker");
    w->request = *request;
    w->request.message = NULL;
    w->has_request = true;
    w->state = WORKER_BUSY;
    w->request_started_ns = nf_now_ns();
    w->rss = w->peak = 0;
    w->kill_code = 0;
    write_out(w);
    return NF_OK;
}

bool worker_alive(const struct worker *w) { return w->state != WORKER_DEAD && !w->reaped; }
bool worker_busy(const struct worker *w) { return w->has_request; }
uint64_t worker_rss_bytes(const struct worker *w) { return w->rss; }
pid_t worker_pid(const struct worker *w) { return w->pid; }
