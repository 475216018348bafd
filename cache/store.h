/* store.h: the write side of the cache: two tiers, an index, failures, quarantine, eviction. For the daemon and neffcc.
 *
 * Layout below each tier's directory (README.md):
 *     entries/<namespace or _>/ab/cd/<key>.neff | .mlir | .fx | .failure      one file an entry (entry.h)
 *     quarantine/                                                              damaged files, a bounded number
 * and in the local tier only
 *     aliases/ab/<front key> -> <namespace or _>/<key>    toolchains    uses/    index.sqlite (-wal, -shm)
 *
 * Threads. The store is made for a loop thread that must not block and a few that may:
 *     any thread, never blocks on a disk      cache_store_*_async, cache_store_status, cache_store_counters,
 *                                             cache_store_note_use, cache_store_reader
 *     any thread, local disk only             cache_store_lookup_local, cache_store_alias_put, cache_store_sha256
 *     any thread but the loop, may block      the others (they wait for the mount at most its patience)
 * Callbacks come on a thread of the store and must not block: post them on. Several stores, in one process or many, may
 * share one local and one shared directory.
 *
 * Trouble with the shared tier never fails what the local tier can do, and the other way round: a publication is done when
 * one tier holds it durably; the result says what went wrong with the other. What the shared tier could not take is given to it
 * in the background when it can. */
#ifndef NEFFD_CACHE_STORE_H
#define NEFFD_CACHE_STORE_H

#include "cache/mount.h"
#include "cache/read.h"

struct cache_store;

struct cache_store_options {
    const char *local_dir;              /* required */
    const char *shared_dir;             /* NULL or "": local tier only. May be absent, read-only or hung */
    const char *spill_dir;              /* NULL: none. Where payloads go that the local tier cannot take; emptied by the caller */
    uint64_t local_soft_bytes;          /* eviction in the background goes down to this; 0: no limit */
    uint64_t local_hard_bytes;          /* nothing is admitted beyond; 0: no limit */
    uint64_t shared_soft_bytes, shared_hard_bytes;
    uint64_t namespace_bytes;           /* limit of each namespace in either tier; 0: none */
    uint64_t max_payload_bytes;         /* 0: 16 GiB */
    uint64_t max_text_bytes;            /* of the canonical StableHLO kept with an entry; 0: 64 MiB; larger texts are not kept */
    uint64_t max_aliases;               /* 0: 200000 */
    int64_t mount_patience_ns;          /* 0: 5 s without progress */
    unsigned mount_threads;             /* 0: 4 */
    int64_t mount_retry_ns;             /* pause between looks at a mount in trouble; 0: 250 ms */
    int64_t failure_user_ttl_s;         /* 0: one day; negative: they are not remembered */
    int64_t failure_internal_ttl_s;     /* 0: ten minutes; negative: they are not remembered */
    uint64_t scrub_bytes_per_s;         /* 0: no background scrub */
    int64_t scrub_interval_s;           /* from the end of one scrub to the next; 0: one day */
    int64_t alias_ttl_s;                /* age at which an alias goes; 0: none */
    int zstd_level;                     /* on the mount; 0: 3; negative: nothing is compressed */
    mode_t file_mode;                   /* 0: 0640; directories get the matching x bits */
    bool verify_always;
    bool no_index;                      /* neffcc: SQLite is not opened; the daemon's index finds new entries by itself */
};

/* NF_ECONFIG: the local directory is on a network or FUSE file system, or belongs to somebody else than this user or root.
 * A damaged, missing or foreign-version index is rebuilt in the background and is no error; nor is any state of the
 * shared directory. Holds a shared lock on the local directory until close (cleaners of /tmp respect it). */
int cache_store_open(const struct cache_store_options *options, struct cache_store **ret_store, struct nf_error *err);
void cache_store_close(struct cache_store *s);                  /* takes NULL. Waits for its own threads, not for hung ones */

/* Takes over what may change while it runs: limits, lifetimes, scrub, verify_always, zstd_level, patience and pause of the mount.
 * Directories, threads and modes stay. Any thread. */
void cache_store_set_limits(struct cache_store *s, const struct cache_store_options *options);

struct cache_reader *cache_store_reader(struct cache_store *s); /* of the local tier; lives as long as the store */

/* ---------------------------------------------------------------------------------------------------------- look up */

struct cache_found {
    struct cache_hit *hit;              /* the caller's to close; NULL for a remembered failure */
    enum cache_tier tier;               /* where it was found: SHARED means now also in the local tier */
    bool is_failure;
    struct cache_failure failure;       /* log lines point into `arena` */
    struct nf_arena *arena;             /* NULL or of the failure */
};
void cache_found_done(struct cache_found *f);                    /* closes the hit, frees the arena */

enum cache_lookup_flags {
    CACHE_LOOKUP_NO_FAILURES = 1,       /* remembered failures do not count */
    CACHE_LOOKUP_LOCAL_ONLY = 2,
    CACHE_LOOKUP_CLAIMED = 4,           /* the caller has won the claim: probe the mount past its cached negative answers */
};

/* NF_ENOTFOUND: neither tier has it. NF_EMOUNTHUNG: the local tier does not and the mount does not answer. A damaged
 * file is quarantined, counted, and then not found. */
int cache_store_lookup(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                       struct cache_found *ret_found, struct nf_error *err);
int cache_store_lookup_local(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                             struct cache_found *ret_found, struct nf_error *err);
typedef void cache_lookup_fn(void *user, int rc, struct cache_found *found, const struct nf_error *err); /* found is yours when rc is 0 */
void cache_store_lookup_async(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                              cache_lookup_fn *done, void *user);

/* By the artifact's own digest: through the index, local tier first. */
int cache_store_sha256(struct cache_store *s, const struct nf_digest *sha256, struct cache_found *ret_found, struct nf_error *err);

/* The alias front -> canonical. Only from bytes that the caller hashed itself. */
int cache_store_alias_put(struct cache_store *s, const struct nf_digest *front_key, const struct nf_digest *canonical_key,
                          const char *cache_namespace, struct nf_error *err);

/* What reading the metadata of a hit leaves compressed. Into the arena. NF_ENOTFOUND: the entry does not have it. */
int cache_meta_text(const struct cache_meta *meta, struct nf_arena *arena, struct nf_str *ret_stablehlo, struct nf_error *err);
/* All components, op lines included. */
int cache_meta_components(const struct cache_meta *meta, struct nf_arena *arena, struct cache_components *ret_list, struct nf_error *err);

/* ---------------------------------------------------------------------------------------------------------- publish */

struct cache_publication {
    struct cache_meta meta;             /* key, kind, namespace, name, target, components, text, provenance */
    int artifact_fd;                    /* the payload: whole file, or ... */
    struct nf_str artifact;             /* ... when artifact_fd is -1, these bytes */
    bool replace;                       /* ignore_cache: a good occupant is renamed away first, ours is used */
};

struct cache_published {
    struct cache_hit *hit;              /* the bytes that stand now (another publisher's if it was first); yours to close. NULL: only the
                                         * shared tier could take it, packed: serve the artifact that was given */
    bool ours;                          /* they are the ones given */
    int local_rc, shared_rc;            /* 0, or why that tier does not hold it (NF_ENOTFOUND: there is no such tier) */
    struct nf_error local_err, shared_err;
    uint64_t publish_us;
};
/* 0 when at least one tier (or the spill directory) holds it durably. */
int cache_store_publish(struct cache_store *s, const struct cache_publication *p, struct cache_published *ret_published, struct nf_error *err);
typedef void cache_publish_fn(void *user, int rc, struct cache_published *published, const struct nf_error *err); /* yours when rc is 0 */
/* Keeps nothing of p: texts and bytes are copied, artifact_fd is duplicated. */
void cache_store_publish_async(struct cache_store *s, const struct cache_publication *p, cache_publish_fn *done, void *user);

/* Remembers meta->failure under meta->key, in both tiers as far as they can, for as long as its class says: user and
 * internal failures only; others are NF_EINVAL. Replaces an older failure; never touches an artifact. A class that is not to be
 * remembered is NF_OK and leaves nothing. */
int cache_store_remember_failure(struct cache_store *s, const struct cache_meta *meta, struct nf_error *err);
void cache_store_remember_failure_async(struct cache_store *s, const struct cache_meta *meta);

/* ------------------------------------------------------------------------------------------------------- uses, counts */

void cache_store_note_use(struct cache_store *s, const struct nf_digest *key);  /* batched into the index */
void cache_store_flush(struct cache_store *s);  /* everything queued for the index is in it; uses left by readers too */

struct cache_store_status {              /* neffd.v1.CacheStatus */
    char shared_dir[4096], local_dir[4096];
    bool shared_writable;
    uint64_t entries, bytes, local_bytes, limit_bytes;
    bool index_complete;                 /* false while it is being rebuilt */
    char trouble[512];                   /* "" or what is wrong with a directory */
};
void cache_store_status(struct cache_store *s, struct cache_store_status *ret_status);

struct cache_store_counters {            /* since open; monotonic */
    uint64_t hits_local, hits_shared, misses, quarantined, evicted, admitted, published, publish_lost, scrubbed_bytes;
};
void cache_store_counters(struct cache_store *s, struct cache_store_counters *ret_counters);

/* Counters that survive a restart, by name (for StatusReply.counters_lifetime): adds delta, and reads. */
void cache_store_lifetime_add(struct cache_store *s, const char *name, uint64_t delta);
uint64_t cache_store_lifetime_get(struct cache_store *s, const char *name);

/* --------------------------------------------------------------------------------------------------- administration */

struct cache_entry_info {                /* neffd.v1.Entry */
    struct nf_digest key, sha256;
    enum cache_kind kind;
    const char *name, *cache_namespace, *target, *compiler, *created_by;
    char path[4352];                     /* local if it is there, else shared */
    uint64_t size;                       /* of the artifact */
    int64_t created_us, last_used_us;
    uint64_t compile_us, uses;
    bool in_local, in_shared;
    uid_t owner;
    const struct cache_failure *failure; /* not NULL: a remembered failure */
};
/* Calls fn for each entry, newest use first; not 0 from fn stops and is returned. cache_namespace NULL: all. filter: part of
 * the name, target or key's hex; NULL: all. limit 0: all. */
typedef int cache_entry_fn(void *user, const struct cache_entry_info *entry);
int cache_store_list(struct cache_store *s, const char *cache_namespace, const char *filter, uint32_t limit, cache_entry_fn *fn,
                     void *user, struct nf_error *err);
int cache_store_show(struct cache_store *s, const struct nf_digest *key, cache_entry_fn *fn, void *user, struct nf_error *err);

struct cache_progress {                  /* neffd.v1.CacheProgress */
    uint64_t done, total, bad, removed, bytes_freed;
    char note[512];
    bool finished;
};
typedef int cache_progress_fn(void *user, const struct cache_progress *progress); /* not 0: stop */

/* Reads and hashes every entry of both tiers. repair: damaged ones are quarantined (and so rebuilt on demand), a damaged
 * local copy of a good shared one is fetched again, the index is brought in line. */
int cache_store_verify(struct cache_store *s, bool repair, cache_progress_fn *fn, void *user, struct nf_error *err);
/* Evicts down to target_bytes in each tier (UINT64_MAX: to the soft limits): least recently used first, weighed with the
 * cost to rebuild; what is in use is skipped; expired failures and stale temporaries of this host go too. */
int cache_store_gc(struct cache_store *s, uint64_t target_bytes, bool dry_run, cache_progress_fn *fn, void *user, struct nf_error *err);
/* Removes entries and failures of these keys (count 0 with failures_only: every remembered failure) in both tiers;
 * cache_namespace NULL: in all namespaces. */
int cache_store_remove(struct cache_store *s, const struct nf_digest *keys, size_t count, bool failures_only, const char *cache_namespace,
                       uint64_t *ret_removed, struct nf_error *err);

#endif
