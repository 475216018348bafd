/* task.h: one piece of blocking work on a thread of its own, whose end comes back to the loop.
 *
 * For the cache's blocking calls, which wait for threads of the cache in turn (so they may not run on those), and at most as long as
 * a mount's patience. A task is embedded first in what it works on. `run` touches nothing but that; `end` is on the loop thread;
 * `free` comes when nobody holds it any more. Threads are started as they are needed, up to a limit, and end when idle. */
#ifndef NEFFD_DAEMON_TASK_H
#define NEFFD_DAEMON_TASK_H

#include "base/error.h"
#include "daemon/post.h"

#include <stdatomic.h>

struct daemon;

struct task {
    struct post_item item;
    struct task *next;
    _Atomic int refs;
    struct daemon *d;
    int (*run)(struct task *t, struct nf_error *err);
    void (*end)(struct task *t, int rc, const struct nf_error *err);
    void (*free)(struct task *t);
    int rc;
    struct nf_error err;
};

void task_start(struct daemon *d, struct task *t);
void task_unref(struct task *t);
/* Waits for what runs; what has not begun ends with NF_ECANCELLED. The ends are in the loop's queue when it returns. */
void task_close(void);

#endif
