/* lifecycle.h: signals, drain, the service manager, and an orderly end. See lifecycle.c. */
#ifndef NEFFD_DAEMON_LIFECYCLE_H
#define NEFFD_DAEMON_LIFECYCLE_H

#include "daemon/daemon.h"

int lifecycle_log_open(const struct cfg *cfg, struct nf_error *err);
/* What the process is to have before anything else: SIGPIPE ignored, nobody's settings of gRPC in the environment. */
void lifecycle_process_init(void);
/* d->slots and d->memory_limit_bytes, from the configuration and the machine. */
void lifecycle_limits(struct daemon *d);
/* The last step of starting: signals, timers, `ready`. */
int lifecycle_start(struct daemon *d, struct nf_error *err);
/* Starting has failed: let go of what was taken, as far as it matters to others. */
void lifecycle_abandon(struct daemon *d);
/* The loop has ended. Returns the exit code. */
int lifecycle_finish(struct daemon *d);

#endif
