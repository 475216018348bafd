/* store_internal.h: the store's inside, shared by store*.c and explain_nearest.c.
 *
 * Life: the store is counted. Its owner holds one reference, each work item in a pool another, so that a thread that comes back
 * from a hung mount after cache_store_close finds everything that it may still touch. What is freed with the last one:
 * index, tiers, the struct.
 *
 * Locks: `lock` guards the trouble texts and the maintenance flags. It is a leaf. */
#ifndef NEFFD_CACHE_STORE_INTERNAL_H
#define NEFFD_CACHE_STORE_INTERNAL_H

#include "cache/cache_internal.h"
#include "cache/index.h"
#include "cache/store.h"

#include <pthread.h>
#include <stdatomic.h>

/* What may change while the store runs (cache_store_set_limits). */
struct store__limits {
    _Atomic uint64_t local_soft_bytes, local_hard_bytes, shared_soft_bytes, shared_hard_bytes, namespace_bytes, max_text_bytes, max_aliases;
    _Atomic uint64_t scrub_bytes_per_s;
    _Atomic int64_t failure_user_ttl_s, failure_internal_ttl_s, scrub_interval_s, alias_ttl_s;
    atomic_bool verify_always;
};

struct cache_store {
    atomic_uint refs;
    struct store__limits limits;
    struct cache_store_options opt;      /* strings are those of the tiers */
    struct cache__tier local, shared, spill;
    bool has_shared, has_spill;
    struct cache_mount *mount;           /* the shared directory's threads */
    struct cache_mount *pool;            /* the store's own */
    struct cache__index *index;          /* NULL with no_index */
    struct cache_reader *reader;
    int hold_fd;                         /* LOCK_SH on the local directory */

    atomic_bool shared_writable, closing, rebuilding, backfill_wanted;
    _Atomic uint64_t hits_local, hits_shared, misses, quarantined, evicted, admitted, published, publish_lost, scrubbed_bytes;
    _Atomic uint64_t alias_puts;

    pthread_mutex_t lock;
    pthread_cond_t wake_cond;            /* maintenance and scrub */
    bool gc_wanted;
    char local_trouble[300], shared_trouble[300];
    pthread_t maintenance, scrub;
    bool maintenance_on, scrub_on;
    pthread_mutex_t gc_lock;             /* one eviction at a time; taken before everything else */
};

void store__local_hold(struct cache_store *s);                  /* at the start, and by the maintenance thread */
struct cache_store *store__ref(struct cache_store *s);
void store__unref(struct cache_store *s);

/* What is wrong with a tier, for status; err NULL: nothing any more. */
void store__trouble(struct cache_store *s, enum cache_tier tier, const struct nf_error *err);
void store__quarantine(struct cache_store *s, const struct cache__tier *t, const char *path, const struct nf_digest *key, enum cache_kind kind,
                       const char *reason);

/* The row of an open entry; texts from the arena. */
int store__row_read(const struct cache__file *f, enum cache_tier tier, struct nf_arena *arena, struct cache__row *ret_row, struct nf_error *err);
void store__row_of_meta(const struct cache_meta *meta, const struct cache_footer *footer, uid_t owner, struct cache__row *ret_row);

/* store_lookup.c */
int store__local_find(struct cache_store *s, const struct nf_digest *key, struct nf_str space, unsigned flags, struct cache_found *ret_found,
                      struct nf_error *err);
/* Copies an open entry of the shared tier into the local one (or the spill directory), checking its SHA-256. NF_ECORRUPT: the shared
 * file is damaged. The hit that stands. */
int store__admit(struct cache_store *s, const struct cache__file *from, const char *from_path, struct cache_mount_item *beat,
                 struct cache_hit **ret_hit, struct nf_error *err);
/* Places a draft in the local tier: limits, eviction when it is full, spill directory when that does not help. */
int store__local_place(struct cache_store *s, struct cache__draft *draft, bool replace, struct cache_mount_item *beat, enum cache__place *ret_place,
                       struct cache_hit **ret_hit, struct nf_error *err);

/* store_publish.c */
void store__backfill(struct cache_store *s);                    /* what only the local tier holds goes to a mount that answers again */

/* store_gc.c */
int store__evict_local(struct cache_store *s, uint64_t target_bytes);
/* Whether `need` more bytes fit under the shared tier's hard limit; evicts when they do not. Waits for the mount. */
bool store__shared_room(struct cache_store *s, uint64_t need);
void store__limits_look(struct cache_store *s);                 /* after a put: wakes the maintenance thread when a soft limit is passed */
void *store__maintenance_main(void *store);
void *store__scrub_main(void *store);
void store__uses_collect(struct cache_store *s);

/* store_admin.c */
void store__rebuild(void *store);
/* Rows from the index if it has them all (waits a little), else from the files. fn on the caller's thread. */
enum store__rows { STORE_ROWS_ALL, STORE_ROWS_ORDERED, STORE_ROWS_SIZES, STORE_ROWS_SKETCHES };
int store__rows(struct cache_store *s, enum store__rows what, cache__row_fn *fn, void *user, struct nf_error *err);

/* Waits for one callback: a completion on the caller's stack. */
struct store__wait {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool over;
};
void store__wait_init(struct store__wait *w);
void store__wait_signal(struct store__wait *w);
void store__wait_for(struct store__wait *w);                     /* and destroys it */

#endif
