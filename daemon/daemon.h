/* daemon.h: everything that one running daemon is made of. Owned by the loop thread; what other threads may touch says so. */
#ifndef NEFFD_DAEMON_DAEMON_H
#define NEFFD_DAEMON_DAEMON_H

#include "cache/store.h"
#include "config/config.h"
#include "daemon/counters.h"
#include "cache/estimate.h"
#include "daemon/listen.h"
#include "daemon/post.h"
#include "daemon/scratch.h"
#include "daemon/server.h"
#include "daemon/toolchain.h"
#include "daemon/tree.h"
#include "daemon/worker.h"
#include "lockmgr/lock.h"

struct job_table;

struct daemon {
    struct uv_loop_s *loop;
    struct post_queue *post;           /* any thread */
    struct cfg *cfg;                   /* replaced whole by SIGHUP; loop thread, and constant while workers' arguments are built */
    int argc;
    char **argv;
    int64_t started_ns;
    char marker[TREE_MARKER_LEN];
    int instance_fd;
    struct listener *listener;
    struct srv_server *server;
    struct worker_pool *workers;
    struct cache_store *store;         /* any thread, as its header says */
    struct cache_reader *reader;       /* any thread */
    struct lock_dir *locks;            /* NULL: the local directory cannot hold locks; see lock_trouble */
    struct lock_manager *lock_manager;
    struct scratch *scratch;
    struct toolchains *toolchains;
    struct estimates *estimates;
    struct job_table *jobs;
    struct counters counters;          /* any thread */
    unsigned slots;                    /* compiles at the same time */
    uint64_t memory_limit_bytes;       /* of all compiles together */
    _Atomic bool verify_always;        /* any thread: a hit costs a digest of the payload, so it is for the cache's threads */
    bool draining;
    void (*on_idle)(struct daemon *d); /* draining: the last job has ended */
};

/* lifecycle.c */
void daemon_drain(struct daemon *d, int64_t timeout_ns);  /* no new requests; ends the daemon when the jobs have ended, or at the time-out */
void daemon_stop_now(struct daemon *d);

/* The handlers of svc_*.c, by method; RPC_METHOD_MAX of them. */
extern const struct srv_handler *const daemon_handlers[];
extern struct daemon *the_daemon;   /* handlers get no context of their own; there is one daemon a process */

void svc_health_changed(struct daemon *d);
void svc_jobs_changed(struct daemon *d);
void svc_admin_close(struct daemon *d);

/* What the store is told at the start, and again after SIGHUP. */
struct cache_store_options daemon_store_options(const struct daemon *d);

#endif
