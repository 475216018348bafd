/* worker.h: worker processes, as the daemon sees them.
 *
 * A worker is `neffd --worker`: spawned (never forked), one framed pipe, one request at a time. Whatever a graph does to it
 * (crash, hang, eat memory) costs that process and gives the request an error. Loop thread only.
 *
 * Life: starting -> idle <-> busy -> dead. A worker that was taken stays with its job between the key and the compile, because
 * it holds the parsed graph; it goes back to the pool, or is retired after `recycle_jobs` jobs. */
#ifndef NEFFD_DAEMON_WORKER_H
#define NEFFD_DAEMON_WORKER_H

#include "base/error.h"
#include "base/str.h"
#include "proto/frame.h"
#include "proto/worker.pb-c.h"

struct cfg;
struct uv_loop_s;
struct worker_pool;
struct worker;

struct worker_pool_options {
    struct uv_loop_s *loop;
    const struct cfg *cfg;         /* what the workers are told on their command line; see worker_pool_set_config */
    const char *program;           /* their argv[0]; /proc/self/exe is run */
    const char *marker;            /* tree.h. Borrowed */
    unsigned max_workers;
    unsigned keep_idle;            /* idle ones beyond this number end after a while */
    unsigned recycle_jobs;
    int64_t idle_ns;               /* 0: never */
    uint64_t idle_rss_bytes;       /* an idle one above it is replaced; 0: never */
    void (*on_free)(void *user);   /* a worker may be had again */
    void (*on_crash)(void *user);  /* one has died without being told to */
    void *user;
};

int worker_pool_new(const struct worker_pool_options *o, struct worker_pool **ret_pool, struct nf_error *err);
/* Kills them all, waits for their ends, then calls `done`. */
void worker_pool_close(struct worker_pool *p, void (*done)(void *user), void *user);
/* After worker_pool_close: those whose end has not been seen yet are waited for no longer. A process that waits for a disk which hangs
 * does not die, and of one that somebody traces the tracer learns first. */
void worker_pool_give_up(struct worker_pool *p);
/* Appends "2 worker processes (pid 17, pid 18)". */
void worker_pool_describe(const struct worker_pool *p, struct nf_buf *out);
void worker_pool_set_max(struct worker_pool *p, unsigned max_workers);
/* For those started from here on. Workers get the daemon's settings word for word and read no file: what has been written into it
 * since, and may be wrong, is not in effect. */
void worker_pool_set_config(struct worker_pool *p, const struct cfg *cfg);
size_t worker_pool_count(const struct worker_pool *p);
/* Idle ones end, busy ones after their job: new ones see the present environment and files. */
void worker_pool_retire_all(struct worker_pool *p);

/* An idle worker, or a new one while there are fewer than max_workers; NULL: wait for on_free. NULL with err filled: none can be started. */
struct worker *worker_take(struct worker_pool *p, struct nf_error *err);
/* One that was taken may die at any time; the handle is good until it is given back (or an answer says `lost`). */
bool worker_alive(const struct worker *w);
/* Back to the pool. Not while a request is under way. */
void worker_release(struct worker *w);
/* Ends it with everything that descends from it; its request is forgotten, the handle is gone. */
void worker_kill(struct worker *w);

struct worker_answer {
    int frame;                     /* NEFFD__WORKER__V1__FRAME_TYPE__...; FAILED when err is set */
    const ProtobufCMessage *message; /* decoded; valid during the call. NULL for a lost worker */
    struct nf_error err;           /* code 0: message is the answer */
    bool lost;                     /* the worker is gone: do not release it */
    uint64_t peak_rss_bytes;       /* of the worker's tree during this request, as the daemon saw it */
    const char *stderr_tail;       /* of a lost one; may be empty */
};
struct worker_request {
    int frame;                     /* IDENTIFY, KEY, COMPILE */
    const ProtobufCMessage *message; /* serialised before worker_submit returns */
    int64_t time_limit_ns;         /* 0: none. At the limit: killed, err NF_ECOMPILETIMEOUT */
    uint64_t memory_limit_bytes;   /* 0: none. Over it: killed, err NF_ENOMEM */
    void (*on_event)(void *user, const Neffd__Worker__V1__Event *event); /* may be NULL */
    void (*on_answer)(void *user, const struct worker_answer *answer);   /* exactly once, unless worker_kill came first */
    void *user;
};
/* NF_EWORKERLOST: it has died since it was taken; release it. NF_ELIMIT: the message is too large. */
int worker_submit(struct worker *w, const struct worker_request *request, struct nf_error *err);
bool worker_busy(const struct worker *w);
uint64_t worker_rss_bytes(const struct worker *w);  /* of its tree, at most half a second old */
pid_t worker_pid(const struct worker *w);

/* The other side: `neffd --worker`. Returns the exit code. */
int worker_main(int argc, char **argv);

#endif
