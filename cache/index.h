/* index.h: the SQLite index of one daemon (private to cache/). Derived from the files; can be deleted at any time.
 *
 * Nothing is believed because the index says so, and nothing is absent because it does not: lookups probe the path. It
 * serves what a path cannot: sums, the order of eviction, listing, look-up by digest, the nearest entry.
 *
 * Threads: put, drop, use, count queue and return (any thread). One thread of its own writes, in short transactions, with one
 * connection. get, by_sha, text and scans run on the caller's thread (not the loop's). Several processes may have the same
 * file open: WAL, a busy time-out, and a check before every batch that the file is still the one at the path.
 *
 * When the file is garbage, of another schema version, or gone: it is made anew, and `rebuild` is called once on the index's
 * thread, to walk the files and put every row. cache__index_complete says when that is done. */
#ifndef NEFFD_CACHE_INDEX_H
#define NEFFD_CACHE_INDEX_H

#include "cache/entry.h"
#include "cache/sketch.h"

struct cache__index;

enum { CACHE_IN_LOCAL = 1, CACHE_IN_SHARED = 2 };

struct cache__row {
    struct nf_digest key, sha256;
    enum cache_kind kind;
    uint64_t raw_bytes;
    uint64_t local_bytes, shared_bytes;  /* of the file in that tier; 0: not there */
    int64_t created_s, used_s, expires_s;
    uint64_t uses, compile_us;
    uid_t owner;
    struct cache_sketch sketch;
    struct nf_str name, cache_namespace, target, compiler, created_by;
};

struct cache__totals {
    uint64_t entries, failures, local_bytes, shared_bytes;
};

/* rebuild is called on the index's thread and must only start the work elsewhere. Fails only for want of memory or threads: an
 * index that cannot be opened is retried, and meanwhile knows nothing. */
int cache__index_open(const char *local_dir, void (*rebuild)(void *user), void *user, struct cache__index **ret_index, struct nf_error *err);
/* Writes what is queued and ends the thread; afterwards nothing is taken and nothing is known. Takes NULL, and may be repeated. */
void cache__index_stop(struct cache__index *ix);
void cache__index_close(struct cache__index *ix);                       /* stops and frees; takes NULL */

void cache__index_put(struct cache__index *ix, const struct cache__row *row);  /* only tiers with bytes are set; the rest of a row stays */
void cache__index_drop(struct cache__index *ix, const struct nf_digest *key, bool failure, unsigned tiers);
void cache__index_use(struct cache__index *ix, const struct nf_digest *key, int64_t at_s, uint64_t uses);
void cache__index_count(struct cache__index *ix, const char *name, uint64_t delta);
void cache__index_set_complete(struct cache__index *ix);
/* Waits until all that was queued before is committed, or the time is over. */
void cache__index_flush(struct cache__index *ix, int64_t timeout_ns);

bool cache__index_complete(struct cache__index *ix);
void cache__index_totals(struct cache__index *ix, struct cache__totals *ret_totals); /* never waits for the disk */
void cache__index_trouble(struct cache__index *ix, char *out, size_t size);
uint64_t cache__index_counter(struct cache__index *ix, const char *name);

/* NF_ENOTFOUND; others when the index is in trouble. Texts from the arena. */
int cache__index_get(struct cache__index *ix, const struct nf_digest *key, bool failure, struct nf_arena *arena, struct cache__row *ret_row);
int cache__index_by_sha(struct cache__index *ix, const struct nf_digest *sha256, struct nf_arena *arena, struct cache__row *ret_row);

/* Every row, newest use first when `ordered`; fn not 0 stops and is returned. Own connection; other calls go on meanwhile.
 * Texts live for the call of fn. */
typedef int cache__row_fn(void *user, const struct cache__row *row);
int cache__index_scan(struct cache__index *ix, bool ordered, cache__row_fn *fn, void *user);
/* Only what eviction needs: key, kind, cache_namespace, bytes, times, compile_us. */
int cache__index_scan_sizes(struct cache__index *ix, cache__row_fn *fn, void *user);
/* Only key, kind, cache_namespace, used_s and sketch, artifacts only. */
int cache__index_scan_sketches(struct cache__index *ix, cache__row_fn *fn, void *user);

#endif
