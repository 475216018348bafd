/* ending.h: a daemon that takes long to end says in its log what it still waits for.
 *
 * A thread of its own tells, because some waits are on the loop thread itself (for the cache's threads, for tasks). */
#ifndef NEFFD_DAEMON_ENDING_H
#define NEFFD_DAEMON_ENDING_H

#include "base/error.h"

#include <stdbool.h>

/* From here on it counts; again is nothing. Without a thread to be had nothing is told. */
void ending_begin(void);
/* What is waited for now. `expected`: told as information (a drain with work left), else as a warning. Any thread. */
void ending_waits_for(bool expected, const char *fmt, ...) NF_PRINTF(2, 3);
/* It has ended: the thread is joined. */
void ending_over(void);

#endif
