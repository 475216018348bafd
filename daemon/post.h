/* post.h: how other threads reach the loop thread.
 *
 * The loop thread owns all state of the daemon, so everything else hands it items: a lock-free stack that any thread may push
 * to, a wake-up, and one drain per wake-up which runs the items in the order in which they were pushed. An item is embedded
 * in what it belongs to (no allocation on the way) and may be pushed again as soon as its function runs, not before. */
#ifndef NEFFD_DAEMON_POST_H
#define NEFFD_DAEMON_POST_H

#include <stdbool.h>
#include <stdint.h>

struct uv_loop_s;
struct post_queue;

struct post_item {
    struct post_item *next;
    void (*run)(struct post_item *item);   /* on the loop thread */
};

/* On the loop thread, before any thread that pushes exists. */
int post_queue_new(struct uv_loop_s *loop, struct post_queue **ret_queue);
/* After the last pusher has ended; runs what is left. */
void post_queue_close(struct post_queue *q);
void post_push(struct post_queue *q, struct post_item *item);

/* "We are on the loop thread": asserted by whoever touches the daemon's state. */
void post_loop_thread_set(void);
bool post_on_loop_thread(void);

#endif
