/* lifecycle.c: the daemon's life: ready, SIGHUP, drain, end.
 *
 *     SIGTERM, SIGINT  drain: health says NOT_SERVING, the socket is closed, new calls on open connections get UNAVAILABLE
 *                      (draining), running jobs go on up to drain_timeout, then are cancelled; exit 0
 *     the second one   stop at once: every job is cancelled; exit 0
 *     SIGHUP           the log is reopened, the configuration reread, compilers looked for anew
 *
 * The end: jobs -> workers (killed with all that descends from them) -> gRPC -> cache -> locks -> working directories -> the socket's
 * lock. Nobody outside can hold it up: processes that do not die and peers that do not read are left after some seconds, and what it
 * waits for is in the log (ending.h). A supervisor is told READY, RELOADING, STOPPING and STATUS by the notify protocol of systemd, which is one datagram. */
#include "daemon/lifecycle.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/ending.h"
#include "daemon/hit.h"
#include "daemon/job.h"
#include "daemon/signals.h"
#include "daemon/task.h"
#include "pipeline/driver/drv_cgroup.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define SAVE_MS 2000
#define WORKERS_GRACE_MS 10000   /* for killed processes to be gone */
#define GRPC_GRACE_MS 2000       /* for answers to be taken; then calls are cancelled */
#define HANG_UP_MS 1000          /* for that to be heard; then connections are broken */
#define LOOK_MS 500

struct daemon *the_daemon;

enum phase { PHASE_RUN, PHASE_DRAIN, PHASE_WORKERS, PHASE_GRPC, PHASE_GONE };

static struct {
    enum phase phase;
    struct signal_watch signals;
    uv_timer_t save, drain, grace, look;
} life;

/* ------------------------------------------------------------------------------------------------------------------ log */

int lifecycle_log_open(const struct cfg *cfg, struct nf_error *err)
{
    const char *path = cfg->log_file[0] ? cfg->log_file : NULL;
    return nf_output_status(nf_log_open(path, (enum nf_log_level)cfg->log_level, cfg->log_format == CFG_LOG_JSON, err), err);
}

void lifecycle_process_init(void)
{
    signal(SIGPIPE, SIG_IGN);
    /* gRPC reads its settings from the environment: nobody else's are to count. */
    unsetenv("GRPC_TRACE");
    unsetenv("GRPC_POLL_STRATEGY");
    setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 1);
    setenv("GRPC_VERBOSITY", "ERROR", 1);
}

/* --------------------------------------------------------------------------------------------------------------- limits */

void lifecycle_limits(struct daemon *d)
{
    cpu_set_t set;
    unsigned cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    const struct cfg *c = d->cfg;
    unsigned workers = c->workers ? (unsigned)c->workers : cpus;
    d->slots = c->compile_slots ? (unsigned)c->compile_slots : workers;
    d->verify_always = c->verify == CFG_VERIFY_ALWAYS;
    uint64_t total, available;
    drv_memory(&total, &available);
    d->memory_limit_bytes = c->memory_limit ? c->memory_limit : total / 4 * 3;
}

struct cache_store_options daemon_store_options(const struct daemon *d)
{
    const struct cfg *c = d->cfg;
    return (struct cache_store_options){
        .local_dir = c->local_dir, .shared_dir = c->cache_dir, .spill_dir = scratch_spill_dir(d->scratch),
        .local_soft_bytes = c->local_soft_limit, .local_hard_bytes = c->local_hard_limit,
        .shared_soft_bytes = c->cache_soft_limit, .shared_hard_bytes = c->cache_hard_limit,
        .max_text_bytes = c->keep_stablehlo ? c->keep_stablehlo * 4 : 1, .max_aliases = (uint64_t)c->max_aliases,
        .mount_patience_ns = c->mount_timeout_ns, .mount_threads = (unsigned)c->mount_threads,
        .mount_retry_ns = c->mount_retry_ns, .zstd_level = c->zstd_level ? (int)c->zstd_level : -1, .alias_ttl_s = c->alias_ttl_ns / NF_SEC,
        .failure_user_ttl_s = c->failure_ttl_ns ? NF_MAX(c->failure_ttl_ns / NF_SEC, 1) : -1,
        .failure_internal_ttl_s = c->internal_failure_ttl_ns ? NF_MAX(c->internal_failure_ttl_ns / NF_SEC, 1) : -1,
        .scrub_bytes_per_s = c->scrub_interval_ns ? c->scrub_rate : 0, .scrub_interval_s = c->scrub_interval_ns / NF_SEC, .file_mode = (mode_t)c->cache_mode,
        .verify_always = c->verify == CFG_VERIFY_ALWAYS,
    };
}

/* --------------------------------------------------------------------------------------------------------------- notify */

static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@') || !nf_format(sun.sun_path, sizeof sun.sun_path, "%s", path))
        return;
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + (path[0] == '/'));
    if (path[0] == '@')
        sun.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sun, len) < 0)
        nf_log(NF_LOG_WARNING, "daemon", "the service manager cannot be told", "errno=%d", errno);
    close(fd);
}

/* ------------------------------------------------------------------------------------------------------------------ end */

static void on_closed(uv_handle_t *h) { (void)h; }

static void add_handle(uv_handle_t *h, void *arg)
{
    struct nf_buf *b = arg;
    if (!uv_is_closing(h) && uv_is_active(h) && uv_has_ref(h))
        nf_buf_addf(b, " %s", uv_handle_type_name(uv_handle_get_type(h)));
}

static void say_what_is_left(const struct daemon *d)
{
    struct nf_buf b = NF_BUF_INIT;
    switch (life.phase) {
    case PHASE_RUN:
        break;
    case PHASE_DRAIN:
        job_describe(d->jobs, &b);
        break;
    case PHASE_WORKERS:
        worker_pool_describe(d->workers, &b);
        break;
    case PHASE_GRPC:
        srv_server_describe(d->server, &b);
        break;
    case PHASE_GONE:
        nf_buf_addf(&b, "the loop:");
        uv_walk(d->loop, add_handle, &b);
        break;
    }
    ending_waits_for(life.phase == PHASE_DRAIN, "%s", b.data ? b.data : "");
    nf_buf_done(&b);
}

static void on_look(uv_timer_t *t) { say_what_is_left(t->data); }

static void enter(struct daemon *d, enum phase phase)
{
    life.phase = phase;
    ending_begin();
    say_what_is_left(d);
    if (!uv_is_active((uv_handle_t *)&life.look))
        uv_timer_start(&life.look, on_look, LOOK_MS, LOOK_MS);
}

/* gRPC is down: what is left keeps the loop running no longer. */
static void close_rest(struct daemon *d)
{
    if (life.phase == PHASE_GONE)
        return;
    enter(d, PHASE_GONE);
    ending_waits_for(false, "gRPC's queue");
    srv_server_free(d->server);
    d->server = NULL;
    counters_save(&d->counters, d->store);
    ending_waits_for(false, "work on the cache");
    task_close();
    ending_waits_for(false, "the cache's threads");
    cache_store_close(d->store);   /* waits for its threads: what they still say is in the queue after this */
    d->store = NULL;
    ending_waits_for(false, "the lock manager's thread");
    lock_manager_stop(d->lock_manager);
    post_queue_close(d->post);   /* a grant that was on its way is released here: the manager is still there */
    lock_manager_free(d->lock_manager);
    lock_dir_close(d->locks);
    d->lock_manager = NULL;
    d->locks = NULL;
    job_table_free(d->jobs);
    toolchains_close(d->toolchains);
    estimates_close(d->estimates);
    svc_admin_close(d);
    signals_unwatch(&life.signals, NULL);
    uv_handle_t *handles[] = {(uv_handle_t *)&life.save, (uv_handle_t *)&life.drain, (uv_handle_t *)&life.grace, (uv_handle_t *)&life.look};
    for (size_t i = 0; i < NF_ARRAY_LEN(handles); i++)
        uv_close(handles[i], on_closed);
    hit_done();
    say_what_is_left(d);
}

static void on_server_down(void *arg) { close_rest(arg); }

static void on_hang_up(uv_timer_t *t)
{
    struct daemon *d = t->data;
    srv_server_hang_up(d->server);
}

static void on_grace(uv_timer_t *t)
{
    struct daemon *d = t->data;
    srv_server_shutdown(d->server, true, NULL, NULL);
    uv_timer_start(&life.grace, on_hang_up, HANG_UP_MS, 0);
}

static void on_workers_gone(void *user)
{
    struct daemon *d = user;
    d->workers = NULL;
    enter(d, PHASE_GRPC);
    uv_timer_start(&life.grace, on_grace, GRPC_GRACE_MS, 0);
    srv_server_shutdown(d->server, false, on_server_down, d);
}

static void on_workers_late(uv_timer_t *t)
{
    struct daemon *d = t->data;
    worker_pool_give_up(d->workers);
}

static void end_now(struct daemon *d)
{
    if (life.phase >= PHASE_WORKERS)
        return;
    enter(d, PHASE_WORKERS);
    uv_timer_stop(&life.drain);
    uv_timer_stop(&life.save);
    notify("STOPPING=1");
    job_cancel_all(d, NF_EDRAINING, "the daemon is shutting down");
    uv_timer_start(&life.grace, on_workers_late, WORKERS_GRACE_MS, 0);
    worker_pool_close(d->workers, on_workers_gone, d);
}

static void on_drained(uv_timer_t *t) { end_now(t->data); }

static void on_idle(struct daemon *d)
{
    (void)d;
    /* Not from inside the last job's end: a moment later, when its answers are on their way. */
    if (life.phase == PHASE_DRAIN)
        uv_timer_start(&life.drain, on_drained, 20, 0);
}

static void on_drain_timeout(uv_timer_t *t)
{
    struct daemon *d = t->data;
    nf_log(NF_LOG_WARNING, "daemon", "the drain ran out of time", "jobs=%zu", job_live(d->jobs));
    end_now(d);
}

void daemon_drain(struct daemon *d, int64_t timeout_ns)
{
    if (life.phase != PHASE_RUN)
        return;
    enter(d, PHASE_DRAIN);
    d->draining = true;
    d->on_idle = on_idle;
    size_t live = job_live(d->jobs);
    nf_log(NF_LOG_INFO, "daemon", "draining", "jobs=%zu timeout_s=%lld", live, (long long)(timeout_ns / NF_SEC));
    char text[96];
    nf_format(text, sizeof text, "STOPPING=1\nSTATUS=draining, %zu jobs left", live);
    notify(text);
    listen_stop(d->listener);
    svc_health_changed(d);
    /* Also with nothing to wait for: the answer to Drain itself must get out. */
    if (live)
        uv_timer_start(&life.drain, on_drain_timeout, (uint64_t)(timeout_ns / NF_MS), 0);
    else
        uv_timer_start(&life.drain, on_drained, 20, 0);
}

void daemon_stop_now(struct daemon *d)
{
    listen_stop(d->listener);
    d->draining = true;
    end_now(d);
}

int lifecycle_finish(struct daemon *d)
{
    tree_kill(getpid(), false);
    ending_waits_for(false, "the removal of working directories");
    scratch_close(d->scratch);
    listen_close(d->listener);
    tree_instance_close(d->cfg->local_dir, d->marker, d->instance_fd);
    say_what_is_left(d);
    uv_run(d->loop, UV_RUN_DEFAULT);
    ending_over();
    nf_log(NF_LOG_INFO, "daemon", "ended", "uptime_s=%lld", (long long)((nf_now_ns() - d->started_ns) / NF_SEC));
    return 0;
}

void lifecycle_abandon(struct daemon *d)
{
    if (d->workers) {
        worker_pool_close(d->workers, NULL, NULL);
        tree_kill(getpid(), false);
    }
    cache_store_close(d->store);
    scratch_close(d->scratch);
    if (d->instance_fd >= 0)
        tree_instance_close(d->cfg->local_dir, d->marker, d->instance_fd);
    listen_close(d->listener);
}

/* -------------------------------------------------------------------------------------------------------------- signals */

static void on_term(struct daemon *d, int signum)
{
    nf_log(NF_LOG_INFO, "daemon", "signal", "name=%s", signum == SIGTERM ? "SIGTERM" : "SIGINT");
    if (life.phase == PHASE_RUN)
        daemon_drain(d, d->cfg->drain_timeout_ns);
    else
        daemon_stop_now(d);
}

static void on_hup(struct daemon *d)
{
    struct nf_error err = {0};
    struct cfg *next;
    notify("RELOADING=1");
    if (cfg_load(&(struct cfg_sources){.program = "neffd", .argc = d->argc, .argv = d->argv}, &next, &err) < 0) {
        nf_log(NF_LOG_ERROR, "daemon", "the configuration was not reread", "why=%s", nf_log_quote(err.message));
    } else {
        struct cfg *merged = cfg_reread(d->cfg, next);
        for (size_t i = 0; cfg_warning(merged, i); i++)
            nf_log(NF_LOG_WARNING, "daemon", "configuration", "text=%s", nf_log_quote(cfg_warning(merged, i)));
        cfg_free(next);
        cfg_free(d->cfg);
        d->cfg = merged;
        lifecycle_limits(d);
        worker_pool_set_max(d->workers, d->slots + 2);
        worker_pool_set_config(d->workers, d->cfg);
        struct cache_store_options store = daemon_store_options(d);
        cache_store_set_limits(d->store, &store);
        toolchains_refresh(d->toolchains);
    }
    if (lifecycle_log_open(d->cfg, &err) < 0)
        nf_log(NF_LOG_ERROR, "daemon", "the log cannot be reopened", "why=%s", nf_log_quote(err.message));
    nf_log(NF_LOG_INFO, "daemon", "reloaded", "file=%s", nf_log_quote(cfg_file(d->cfg)));
    notify("READY=1");
}

static void on_signal(struct signal_watch *w, int signum)
{
    if (signum == SIGHUP)
        on_hup(w->data);
    else
        on_term(w->data, signum);
}

/* The disk may take its time to make it durable: not on the loop. */
struct saving {
    struct task task;
    char *path, *text;
};

static int save_run(struct task *t, struct nf_error *err)
{
    struct saving *s = (struct saving *)t;
    (void)err;
    estimates_write(s->path, s->text);
    return NF_OK;
}

static void save_end(struct task *t, int rc, const struct nf_error *err) { (void)t, (void)rc, (void)err; }

static void save_free(struct task *t)
{
    struct saving *s = (struct saving *)t;
    free(s->path);
    free(s->text);
    free(s);
}

static void save_estimates(struct daemon *d)
{
    char *text = estimates_text(d->estimates);
    if (!text)
        return;
    struct saving *s = nf_alloc(sizeof *s);
    s->task.run = save_run;
    s->task.end = save_end;
    s->task.free = save_free;
    s->path = nf_strdup(estimates_path(d->estimates));
    s->text = text;
    task_start(d, &s->task);
}

static void on_save(uv_timer_t *t)
{
    struct daemon *d = t->data;
    counters_save(&d->counters, d->store);
    save_estimates(d);
    listen_renew(d->listener);
}

int lifecycle_start(struct daemon *d, struct nf_error *err)
{
    uv_timer_init(d->loop, &life.save);
    uv_timer_init(d->loop, &life.drain);
    uv_timer_init(d->loop, &life.grace);
    uv_timer_init(d->loop, &life.look);
    life.signals.data = life.save.data = life.drain.data = life.grace.data = life.look.data = d;
    int rc = signals_watch(d->loop, &life.signals, (const int[]){SIGTERM, SIGINT, SIGHUP, 0}, on_signal, err);
    if (rc < 0)
        return rc;
    uv_timer_start(&life.save, on_save, SAVE_MS, SAVE_MS);
    nf_log(NF_LOG_INFO, "daemon", "ready", "version=%s pid=%d socket=%s cache_dir=%s local_dir=%s slots=%u start_ms=%lld", NEFFD_VERSION, (int)getpid(),
           nf_log_quote(listen_address(d->listener)), nf_log_quote(d->cfg->cache_dir), nf_log_quote(d->cfg->local_dir), d->slots,
           (long long)((nf_now_ns() - d->started_ns) / NF_MS));
    notify("READY=1\nSTATUS=serving");
    return NF_OK;
}
