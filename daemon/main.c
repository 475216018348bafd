/* main.c: `neffd`: the daemon, from command line to exit. `neffd --worker` is another program in the same file (worker_main.c).
 *
 * Order of starting: configuration; log; the socket's lock (a second daemon ends here, before it touches anything); the instance's
 * marker and the sweep of what a killed predecessor left; cache, locks, working directories; the worker pool; gRPC with its thread;
 * then the socket is accepted from and `ready` is said. Stopping is the reverse, see lifecycle.c. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/hit.h"
#include "daemon/job.h"
#include "daemon/lifecycle.h"
#include "daemon/signals.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

extern const struct srv_handler svc_compile, svc_lookup, svc_fetch, svc_status, svc_jobs, svc_cancel_job, svc_get_config, svc_list, svc_verify,
    svc_gc, svc_remove, svc_drain, svc_health_check, svc_health_watch, svc_reflect;

static const struct srv_handler *const handlers[RPC_METHOD_MAX] = {
    [RPC_COMPILE] = &svc_compile, [RPC_LOOKUP] = &svc_lookup, [RPC_FETCH] = &svc_fetch, [RPC_STATUS] = &svc_status, [RPC_JOBS] = &svc_jobs,
    [RPC_CANCEL_JOB] = &svc_cancel_job, [RPC_GET_CONFIG] = &svc_get_config, [RPC_LIST_ENTRIES] = &svc_list, [RPC_VERIFY_CACHE] = &svc_verify,
    [RPC_COLLECT_GARBAGE] = &svc_gc, [RPC_REMOVE_ENTRIES] = &svc_remove, [RPC_DRAIN] = &svc_drain, [RPC_HEALTH_CHECK] = &svc_health_check,
    [RPC_HEALTH_WATCH] = &svc_health_watch, [RPC_REFLECT] = &svc_reflect, [RPC_REFLECT_ALPHA] = &svc_reflect,
};

static const char usage[] = "neffd [OPTION]...\n"
                            "The compile daemon. Serves on --socket until SIGTERM, which drains; a second one stops at once.";

static int open_store(struct daemon *d, struct nf_error *err)
{
    struct cache_store_options o = daemon_store_options(d);
    int rc = cache_store_open(&o, &d->store, err);
    if (rc == NF_OK)
        d->reader = cache_store_reader(d->store);
    return rc;
}

static void open_locks(struct daemon *d)
{
    struct nf_error err = {0};
    if (lock_dir_open(d->cfg->local_dir, &d->locks, &err) < 0 || lock_manager_new(d->locks, NULL, &d->lock_manager, &err) < 0)
        nf_log(NF_LOG_WARNING, "daemon", "no host locks: other daemons of this host may compile the same", "why=%s", nf_log_quote(err.message));
}

static void on_worker_free(void *user) { job_workers_free(user); }

static void on_worker_crash(void *user)
{
    struct daemon *d = user;
    COUNT(&d->counters, worker_crashes, 1);
}

static int open_workers(struct daemon *d, struct nf_error *err)
{
    struct worker_pool_options o = {.loop = d->loop, .cfg = d->cfg, .program = d->argv[0], .marker = d->marker, .max_workers = d->slots + 2, .keep_idle = 1,
                                    .recycle_jobs = (unsigned)d->cfg->worker_jobs, .idle_ns = d->cfg->worker_idle_ns,
                                    .idle_rss_bytes = d->cfg->worker_rss, .on_free = on_worker_free, .on_crash = on_worker_crash, .user = d};
    return worker_pool_new(&o, &d->workers, err);
}

static void raise_descriptor_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int start(struct daemon *d, struct nf_error *err)
{
    int rc;
    if ((rc = listen_open(&(struct listen_options){.loop = d->loop, .address = d->cfg->socket, .mode = (unsigned)d->cfg->socket_mode}, &d->listener, err)) < 0)
        return rc;
    struct nf_error ignored = {0};
    if (tree_instance_open(d->cfg->local_dir, d->marker, &d->instance_fd, &ignored) < 0)
        nf_log(NF_LOG_WARNING, "daemon", "leftovers of this daemon could not be found after a kill -9", "why=%s", nf_log_quote(ignored.message));
    if ((rc = scratch_open(d->loop, d->cfg->local_dir, d->cfg->work_dir, d->marker, &d->scratch, err)) < 0)
        return rc;
    if ((rc = open_store(d, err)) < 0)
        return rc;
    open_locks(d);
    d->estimates = estimates_open(d->cfg->local_dir);
    if ((rc = post_queue_new(d->loop, &d->post)) < 0)
        return nf_fail(err, rc, "cannot make the loop's wake-up");
    if ((rc = job_table_new(d, &d->jobs)) < 0)
        return nf_fail(err, rc, "cannot make the table of jobs");
    signals_block();   /* until here they end the process; the threads that exist by now take none */
    if ((rc = open_workers(d, err)) < 0)
        return rc;
    toolchains_open(d, &d->toolchains);   /* the first worker starts now, before gRPC has threads */
    toolchains_on_change(d->toolchains, job_toolchains_changed, job_toolchains_failed);
    hit_init();
    if ((rc = srv_server_new(&(struct srv_options){.loop = d->loop, .handlers = handlers, .inline_ctx = d, .max_connections = (int)d->cfg->max_clients}, &d->server, err)) < 0)
        return rc;
    listen_start(d->listener, d->server);
    return lifecycle_start(d, err);
}

static int print_config(const struct cfg *cfg)
{
    struct nf_buf b = NF_BUF_INIT;
    cfg_print_file(cfg, &b);
    fwrite(b.data ? b.data : "", 1, b.len, stdout);
    nf_buf_done(&b);
    return 0;
}

static int print_help(const struct cfg *cfg)
{
    struct nf_buf b = NF_BUF_INIT;
    cfg_print_help(cfg, usage, NULL, &b);
    fwrite(b.data ? b.data : "", 1, b.len, stdout);
    nf_buf_done(&b);
    return 0;
}

int main(int argc, char **argv)
{
    static struct daemon daemon;
    struct daemon *d = the_daemon = &daemon;
    struct nf_error err = {0};
    nf_std_open();
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return worker_main(argc, argv);
    d->argc = argc;
    d->argv = argv;
    d->started_ns = nf_now_ns();
    d->instance_fd = -1;
    if (cfg_load(&(struct cfg_sources){.program = "neffd", .argc = argc, .argv = argv}, &d->cfg, &err) < 0) {
        nf_error_print("neffd", &err);
        return nf_status_exit(err.code);
    }
    for (size_t i = 0; cfg_warning(d->cfg, i); i++)
        fprintf(stderr, "neffd: warning: %s\n", cfg_warning(d->cfg, i));
    int rc = 0;
    switch (cfg_action(d->cfg)) {
    case CFG_HELP:
        rc = print_help(d->cfg);
        goto out;
    case CFG_VERSION:
        printf("neffd %s\n", NEFFD_VERSION);
        goto out;
    case CFG_PRINT:
        rc = print_config(d->cfg);
        goto out;
    case CFG_CHECK:
        printf("%s: ok\n", cfg_file(d->cfg)[0] ? cfg_file(d->cfg) : "configuration");
        goto out;
    case CFG_RUN:
        break;
    }
    if (lifecycle_log_open(d->cfg, &err) < 0) {
        nf_error_print("neffd", &err);
        rc = nf_status_exit(err.code);
        goto out;
    }
    umask(022);
    raise_descriptor_limit();
    lifecycle_process_init();
    lifecycle_limits(d);
    uv_loop_t loop;
    uv_loop_init(&loop);
    d->loop = &loop;
    post_loop_thread_set();
    if (start(d, &err) < 0) {
        nf_error_print("neffd", &err);
        rc = nf_status_exit(err.code);
        lifecycle_abandon(d);
        uv_run(&loop, UV_RUN_NOWAIT);
        uv_loop_close(&loop);   /* says EBUSY when the failure came late; the process ends anyhow */
        goto out;
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    rc = lifecycle_finish(d);
    uv_loop_close(&loop);
out:
    cfg_free(d->cfg);
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == 0) {
        fputs("neffd: cannot write to standard output\n", stderr);
        rc = nf_status_exit(NF_EIO);
    }
    return rc;
}
