/* place.h: when neffcc may compile by itself: a slot for the processors, and room in memory.
 *
 * Slots are lock files `slot-N` beside those of the keys; whoever holds slot N and has been let in holds `memory-N` too, whose record says
 * what its compile is expected to take. Who wants in stands in line at the lock `admission`, so that a big one is not overtaken for
 * ever by small ones. It is let in when it would be alone, or when what all are expected to take fits into the limit and what is still
 * to be taken fits into what is free now. All of it is the kernel's: a process that dies leaves its place. */
#ifndef NEFFD_CLIENT_CC_PLACE_H
#define NEFFD_CLIENT_CC_PLACE_H

#include "config/config.h"
#include "lockmgr/lock.h"

struct cc_place {
    struct lock_host *slot, *memory;
};

#define CC_NEED_ALL UINT64_MAX

/* need_bytes: 0 for not known, a slot's share of the limit then; CC_NEED_ALL: nothing beside it. Asks `stop` at least every 200 ms
 * (NF_ECANCELLED). There is no time limit while places change hands; NF_ELOCKTIMEOUT when none did for patience_ns. */
int cc_place_take(struct lock_dir *dir, const struct cfg *cfg, uint64_t need_bytes, int64_t patience_ns, bool (*stop)(void *user), void *user,
                  struct cc_place *ret_place, struct nf_error *err);
void cc_place_leave(struct cc_place *p);           /* takes an empty one */

#endif
