/* task.h: one piece of blocking work on a thread of the cache's store, whose end comes back to the loop.
 *
 * A task is embedded first in what it works on. `run` touches nothing but that; `end` is on the loop thread; `free` comes when both the
 * store and the loop have let go (work that was given up may still be running when the loop hears of it: then rc is
 * NF_EMOUNTHUNG and `end` reads no results). */
#ifndef NEFFD_DAEMON_TASK_H
#define NEFFD_DAEMON_TASK_H

#include "base/error.h"
#include "daemon/post.h"

#include <stdatomic.h>

struct daemon;
struct cache_mount_item;

struct task {
    struct post_item item;
    _Atomic int refs;
    struct daemon *d;
    int (*run)(struct task *t, struct cache_mount_item *item, struct nf_error *err);
    void (*end)(struct task *t, int rc, const struct nf_error *err);
    void (*free)(struct task *t);
    int rc;
    struct nf_error err;
};

void task_start(struct daemon *d, struct task *t, int64_t patience_ns);   /* 0: the store's own */

#endif
