/* mount.h: work on a mount that may hang, on a bounded set of threads with a watchdog.
 *
 * Nothing outside this pool's threads ever touches the mount, so a hung one costs its threads and nothing else. An item
 * that makes no progress for its patience is given up: its `done` is called with NF_EMOUNTHUNG while its thread may
 * still be stuck in the kernel, and the mount is in trouble: everything queued, and everything submitted from then on,
 * gets NF_EMOUNTHUNG at once. One thread keeps probing (stat of the directory); when it gets through, the trouble is over.
 *
 * Threads: submit, tick, troubled and status from any thread. */
#ifndef NEFFD_CACHE_MOUNT_H
#define NEFFD_CACHE_MOUNT_H

#include "base/str.h"

struct cache_mount;
struct cache_mount_item;

/* Three functions on one context, which the item owns:
 *   run   on a mount thread; may block. Returns the item's outcome. Touches nothing but ctx and what ctx owns.
 *   done  exactly once, on a mount thread or the watchdog's, never with a lock held. rc is run's result, or NF_EMOUNTHUNG
 *         when it was given up: then run may still be writing to ctx, so done must not read results. Must not block.
 *   free  after both are over. */
struct cache_mount_work {
    int (*run)(void *ctx, struct cache_mount_item *item, struct nf_error *err);
    void (*done)(void *ctx, int rc, const struct nf_error *err);  /* may be NULL */
    void (*free)(void *ctx);                                       /* may be NULL */
    void *ctx;
    int64_t patience_ns;                                           /* 0: the mount's own */
};

/* dir is only ever touched on the pool's threads; it need not exist. threads 1 to 256. */
int cache_mount_open(const char *dir, unsigned threads, int64_t patience_ns, struct cache_mount **ret_mount, struct nf_error *err);
/* How often a mount in trouble is looked at; 250 ms unless set. */
void cache_mount_set_retry(struct cache_mount *m, int64_t retry_ns);
void cache_mount_set_patience(struct cache_mount *m, int64_t patience_ns);
/* Finishes what is running, or gives it up; queued items, and all that are submitted later, get NF_ECANCELLED. */
void cache_mount_stop(struct cache_mount *m);
/* Stops and frees. Takes NULL. Threads that hang are left behind: what they hold is theirs. */
void cache_mount_close(struct cache_mount *m);

/* Always ends in exactly one done (possibly before it returns, when the mount is in trouble). */
void cache_mount_submit(struct cache_mount *m, const struct cache_mount_work *work);
/* Submits and waits. After NF_EMOUNTHUNG ctx is no longer the caller's: results must be read only after another code. The
 * pool calls work->free later in any case, so results that must survive are moved out in work->done. */
int cache_mount_run(struct cache_mount *m, const struct cache_mount_work *work, struct nf_error *err);

void cache_mount_tick(struct cache_mount_item *item);              /* run: "still getting on" */
bool cache_mount_given_up(const struct cache_mount_item *item);    /* run: nobody waits any more, stop when convenient */
bool cache_mount_troubled(const struct cache_mount *m);
/* "" or "does not answer since 12 s". */
void cache_mount_trouble_text(const struct cache_mount *m, char *out, size_t size);

#endif
