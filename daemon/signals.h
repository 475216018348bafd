/* signals.h: signals as events of the loop.
 *
 * They are blocked in every thread and read from a descriptor (signalfd). With handlers, the kernel may give a signal to any thread
 * that does not block it, gRPC's among them; ThreadSanitizer keeps it back until that thread calls something that it knows,
 * and a thread of gRPC that waits in a bare futex never does: its signals would be lost. */
#ifndef NEFFD_DAEMON_SIGNALS_H
#define NEFFD_DAEMON_SIGNALS_H

#include "base/error.h"

#include <uv.h>

/* Blocks what a daemon listens to (SIGTERM, SIGINT, SIGHUP, SIGCHLD) in this thread and in those that it starts from here on. Children
 * inherit it too: whoever starts one resets its mask. */
void signals_block(void);

/* Signals that somebody listens to. Embedded; every field is signals.c's, but `data`. */
struct signal_watch {
    uv_poll_t *poll;   /* of its own memory: the loop may list it longer than the watch lives */
    int fd;
    void (*fn)(struct signal_watch *w, int signum);
    void (*closed)(struct signal_watch *w);
    void *data;
};
/* After signals_block(). `fn` runs on the loop, once for one or more signals of a kind; `signums` ends with 0. An open watch keeps the
 * loop running. After an error there is none, and nothing of `w` is used later. */
int signals_watch(uv_loop_t *loop, struct signal_watch *w, const int *signums, void (*fn)(struct signal_watch *w, int signum), struct nf_error *err);
/* `closed` (may be NULL): the memory may be let go. */
void signals_unwatch(struct signal_watch *w, void (*closed)(struct signal_watch *w));

#endif
