/* counters.h: what the daemon has done, since start and over its life on this local directory.
 *
 * Any thread may count (the pump counts hits that it answers itself). The lifetime values are kept by the cache's store; what
 * has been counted is handed to it now and then, so that a kill -9 loses seconds of counting and nothing else. */
#ifndef NEFFD_DAEMON_COUNTERS_H
#define NEFFD_DAEMON_COUNTERS_H

#include "proto/rpc.h"

#include <stdatomic.h>

struct cache_store;

struct counters {
#define COUNTER(field) _Atomic uint64_t field;
#include "daemon/counters.def"
#undef COUNTER
    struct {
#define COUNTER(field) uint64_t field;
#include "daemon/counters.def"
#undef COUNTER
    } saved;                 /* loop thread: what the store has been told */
    struct {
#define COUNTER(field) uint64_t field;
#include "daemon/counters.def"
#undef COUNTER
    } before;                /* loop thread: the store's value before this daemon began, as far as it has shown */
};

#define COUNT(c, field, n) atomic_fetch_add_explicit(&(c)->field, (uint64_t)(n), memory_order_relaxed)

/* Takes over what the store counts itself (quarantined, evicted). Loop thread. */
void counters_from_store(struct counters *c, struct cache_store *store);
/* Adds what is new to the lifetime values. Loop thread. */
void counters_save(struct counters *c, struct cache_store *store);
void counters_fill(const struct counters *c, Neffd__V1__Counters *ret_message);
/* The lifetime values as the store has them; it applies what it is handed a little later. Any thread; may wait for a disk. */
void counters_read_lifetime(struct cache_store *store, Neffd__V1__Counters *ret_message);
/* Adds what the store has not applied yet to what it had. Loop thread. */
void counters_complete_lifetime(struct counters *c, Neffd__V1__Counters *lifetime);

#endif
