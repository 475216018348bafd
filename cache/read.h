/* read.h: the read side of the cache, for clients and for the daemon's RPC thread. (DESIGN §4, local tier)
 *
 * A hit on this host needs no daemon, no SQLite, no hash of the payload:
 *     front key -> alias (a symbolic link whose text names the entry) -> open, LOCK_SH, fstat, pread of the footer
 * The payload's SHA-256 was checked when it was admitted; the file's mtime was then set to the value in its footer. A file
 * whose mtime is another one was written to since: it is hashed again before it is served.
 *
 * Trust: an alias or entry is used only if its file belongs to root, to this process's user, or to the owner of the local
 * directory when that is one of `trusted_uids`. What belongs to others does not exist.
 *
 * Threads: open and close by one thread, everything else on a reader from any thread at once. A hit belongs to one thread
 * at a time. fork(): the child may go on. Local file system only, never a network mount, except
 * cache_reader_lookup_shared. */
#ifndef NEFFD_CACHE_READ_H
#define NEFFD_CACHE_READ_H

#include "cache/entry.h"

struct cache_reader;
struct cache_hit;

enum cache_tier { CACHE_TIER_LOCAL = 0, CACHE_TIER_SHARED = 1, CACHE_TIER_SPILL = 2, CACHE_TIER_MAX };

struct cache_reader_options {
    const char *local_dir;         /* need not exist: then nothing is ever found */
    const char *shared_dir;        /* NULL: none */
    const uid_t *trusted_uids;     /* beside root and this process's: the daemon's, learned from its socket */
    size_t trusted_count;
    bool verify_always;            /* hash every payload before it is served */
};

int cache_reader_open(const struct cache_reader_options *options, struct cache_reader **ret_reader, struct nf_error *err);
void cache_reader_close(struct cache_reader *reader);          /* takes NULL; hands noted uses to the LRU */

void cache_reader_set_verify(struct cache_reader *reader, bool always);

/* NF_ENOTFOUND: a miss. NF_ECORRUPT: there is an entry and it is damaged (the message names it): ask the daemon, which
 * quarantines it. NF_EPERM: it belongs to a stranger. Others: as the file system says. */
int cache_reader_lookup_front(struct cache_reader *reader, const struct nf_digest *front_key, struct cache_hit **ret_hit, struct nf_error *err);
/* cache_namespace NULL: whichever namespace has it. */
int cache_reader_lookup(struct cache_reader *reader, const struct nf_digest *canonical_key, const char *cache_namespace,
                        struct cache_hit **ret_hit, struct nf_error *err);
/* The alias alone. ret_namespace has room for 65 bytes; may be NULL. */
int cache_reader_alias(struct cache_reader *reader, const struct nf_digest *front_key, struct nf_digest *ret_canonical,
                       char *ret_namespace, struct nf_error *err);
/* In the shared tier, hashed whole before it is served; an entry that is stored compressed is unpacked into anonymous
 * memory (libzstd is loaded only then; NF_EUNSUPPORTED if there is none). May take as long as the mount takes: not for
 * threads that must answer. */
int cache_reader_lookup_shared(struct cache_reader *reader, const struct nf_digest *canonical_key, const char *cache_namespace,
                               struct cache_hit **ret_hit, struct nf_error *err);

/* ------------------------------------------------------------------------------------------------------------ hits
 * While a hit is open its file is held with LOCK_SH, which keeps eviction away. Its mapping lives as long as the hit. */
const struct cache_footer *cache_hit_footer(const struct cache_hit *hit); /* sha256, raw_bytes, key, compile_us, created_us */
const char *cache_hit_path(const struct cache_hit *hit);       /* of the file; its first raw_bytes are the artifact */
enum cache_tier cache_hit_tier(const struct cache_hit *hit);
uid_t cache_hit_owner(const struct cache_hit *hit);
int cache_hit_fd(const struct cache_hit *hit);                 /* borrowed */
int cache_hit_map(struct cache_hit *hit, const void **ret_data, struct nf_error *err); /* raw_bytes, shared, read-only; once, then the same */
/* Metadata: names, target, compiler, provenance, components. From the arena. */
int cache_hit_meta(struct cache_hit *hit, struct nf_arena *arena, struct cache_meta *ret_meta, struct nf_error *err);
void cache_hit_close(struct cache_hit *hit);                   /* takes NULL */

/* ------------------------------------------------------------------------------------------------------------ uses
 * Each lookup that hits is noted in memory; every 256 and at close they are left in `<local>/uses/` as one small file,
 * which the daemon's index picks up. Losing them costs nothing but the order of eviction. */
void cache_reader_flush_uses(struct cache_reader *reader);

#endif
