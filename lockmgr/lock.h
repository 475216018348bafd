/* lock.h: one compile per key, on one host (DESIGN §5, levels 1 and 2).
 *
 *     queue     FIFO per key inside this process: no system call, never two host waits for one key
 *     host      flock on <local>/locks/<key>: between the processes of a host
 *     manager   both in that order, then the lease of lease.h: what the daemon and neffcc call
 *
 * Laws
 *   L1  A lock whose owner lives is never broken, whatever its age. The kernel frees a dead owner's lock at once, because
 *       the descriptor is close-on-exec and no child inherits it.
 *   L2  A waiter is told within LOCK_WAKE_NS of the release.
 *   L3  A file is unlinked only by who holds its flock exclusively and after the inode behind the name was compared; who
 *       wins a flock compares again and starts over if the name has moved on. So one name never has two owners.
 *   L4  The record inside the file is for display. Nothing is ever decided from it except the epoch, which its holder reads
 *       and raises under the lock.
 *   L5  A time-out ends the wait of one waiter, never the holder and never the other waiters.
 *
 * How a waiter is woken: one inotify watch on the lock file; the close that ends a holder, also a killed one, is an event.
 * The event can come a moment before the kernel drops the lock, so the try is repeated at short distances after it. When
 * the kernel has no inotify instance left, the waiter tries every LOCK_POLL_NS instead. No waiter spins, none holds a
 * thread of its own: all asynchronous waits of a process share one watcher thread.
 *
 * Threads: everything here may be called from any thread, except that one handle is used by one thread at a time. A
 * lock_grant_fn runs on the watcher thread with no lock of ours held; it should only hand the news on (for libuv: push to a
 * queue, uv_async_send). */
#ifndef NEFFD_LOCKMGR_LOCK_H
#define NEFFD_LOCKMGR_LOCK_H

#include "base/clock.h"
#include "base/str.h"

#include <sys/types.h>

#define LOCK_WAKE_NS (50 * NF_MS)
#define LOCK_POLL_NS (25 * NF_MS)
#define LOCK_KEY_MAX 160      /* bytes of a key, which is a file name: [A-Za-z0-9_-][A-Za-z0-9._-]* */
#define LOCK_FOREVER INT64_MAX
#define LOCK_SWEEP_AGE_NS (3600 * NF_SEC)

/* Who holds a lock, for people. Texts are cut to fit and stripped of control characters. */
struct lock_owner {
    pid_t pid;
    int64_t since_us;         /* wall clock */
    uint64_t epoch;           /* of the key: above every earlier holder's */
    char host[64];
    char what[128];           /* "neffd 0.1.0", the graph's name */
};

/* ----------------------------------------------------------------------------------------------------------- host */

struct lock_dir;              /* an open <local>/locks */
struct lock_host;             /* a held host lock */

/* Makes the directory if it is missing (mode 0777 less the umask). */
int lock_dir_open(const char *local_dir, struct lock_dir **ret_dir, struct nf_error *err);
void lock_dir_close(struct lock_dir *dir);                       /* takes NULL; after the last handle of it */

/* Does not wait: NF_EBUSY when somebody else holds it (`err` names the owner). `what` goes into the record. */
int lock_host_try(struct lock_dir *dir, struct nf_str key, const char *what, struct lock_host **ret_lock, struct nf_error *err);
/* Waits on the calling thread. NF_ELOCKTIMEOUT at the end of timeout_ns, NF_ECANCELLED when `stop` (may be NULL) says true;
 * it is asked at least every 100 ms. */
int lock_host_acquire(struct lock_dir *dir, struct nf_str key, const char *what, int64_t timeout_ns,
                      bool (*stop)(void *user), void *user, struct lock_host **ret_lock, struct nf_error *err);
void lock_host_release(struct lock_host *lock);                  /* takes NULL */
uint64_t lock_host_epoch(const struct lock_host *lock);          /* grows from holder to holder of a key */
int lock_host_fd(const struct lock_host *lock);

/* Who holds it now: NF_ENOTFOUND when nobody does. From the record and /proc/locks; only when a record stands there and the kernel
 * shows no holder (other pid namespace, or it has died) a shared lock is tried for a moment. */
int lock_host_owner(struct lock_dir *dir, struct nf_str key, struct lock_owner *ret_owner);

/* Removes lock files that nobody holds and that were last used min_age_ns ago; looks at most at `max` files (0: all).
 * Called by itself now and then from lock_host_try. */
int lock_dir_sweep(struct lock_dir *dir, int64_t min_age_ns, size_t max, size_t *ret_removed, struct nf_error *err);

/* -------------------------------------------------------------------------------------------------------- manager */

struct lock_manager;
struct lock_grant;            /* what was won: queue place, host lock, lease */
struct lease_engine;

enum lock_wait_on { LOCK_WAIT_NOTHING, LOCK_WAIT_QUEUE, LOCK_WAIT_HOST, LOCK_WAIT_LEASE, LOCK_WAIT_MAX };
const char *lock_wait_on_name(enum lock_wait_on w);               /* "", "queue", "host lock", "lease" */

/* dir and lease are borrowed and must outlive the manager. lease NULL: the single-host engine. */
int lock_manager_new(struct lock_dir *dir, struct lease_engine *lease, struct lock_manager **ret_manager, struct nf_error *err);
/* Ends the watcher thread: no fn runs any more. Grants may still be released, nothing else be asked. Takes NULL; again is nothing. */
void lock_manager_stop(struct lock_manager *m);
/* Stops it; open requests are dropped unanswered. Grants must have been released. Takes NULL. */
void lock_manager_free(struct lock_manager *m);

/* status 0: `grant` belongs to the callee. Else grant is NULL and err says why: NF_ELOCKTIMEOUT (err names the holder),
 * or what the file system said. Called exactly once, unless lock_manager_cancel came first. */
typedef void lock_grant_fn(void *user, int status, struct lock_grant *grant, const struct nf_error *err);

/* Always answers through fn, on the watcher thread: this call does no I/O. deadline_ns is of nf_now_ns(), or LOCK_FOREVER; one that has
 * passed still gets what is free.
 * Returns the request's number, never 0. */
uint64_t lock_manager_request(struct lock_manager *m, struct nf_str key, const char *what, int64_t deadline_ns,
                              lock_grant_fn *fn, void *user);
/* true: fn will not run. false: it has run or is running (or there was no such request): its answer counts. */
bool lock_manager_cancel(struct lock_manager *m, uint64_t request);

/* The blocking form: for neffcc and tests. */
int lock_manager_acquire(struct lock_manager *m, struct nf_str key, const char *what, int64_t timeout_ns,
                         bool (*stop)(void *user), void *user, struct lock_grant **ret_grant, struct nf_error *err);
void lock_grant_release(struct lock_grant *grant);                /* takes NULL; the next in line is told at once */
uint64_t lock_grant_epoch(const struct lock_grant *grant);

/* What the first waiter for the key in this process waits for, and how many stand in line here; owner is filled for
 * HOST and LEASE as far as it is known (pid 0: it is not). */
enum lock_wait_on lock_manager_state(struct lock_manager *m, struct nf_str key, size_t *ret_waiting, struct lock_owner *ret_owner);

#endif
