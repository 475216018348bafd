/* cache_internal.h: what the files of cache/ share. The first part is the read side's, the second the write side's. */
#ifndef NEFFD_CACHE_INTERNAL_H
#define NEFFD_CACHE_INTERNAL_H

#include "base/file.h"
#include "cache/mount.h"
#include "cache/read.h"
#include "cache/sketch.h"

/* ------------------------------------------------------------------------------------------------- both sides */

/* "<64 hex><suffix>" of a known kind. */
bool cache__entry_name_parse(const char *name, struct nf_digest *ret_key, enum cache_kind *ret_kind);

/* A file that is open, whose place, owner, sizes and footer hold. */
struct cache__file {
    int fd;
    struct stat st;
    struct cache_footer footer;
};
/* Opens path (O_NOFOLLOW) and checks it as the entry of `key` (NULL: any): regular file, owner allowed, footer, key, kind.
 * NF_ENOTFOUND (absent; also a symbolic link, which is somebody's probe), NF_ECORRUPT, NF_EPERM, NF_EIO ... */
int cache__file_open(const char *path, const struct nf_digest *key, enum cache_kind kind, const uid_t *trusted, size_t trusted_count,
                     struct cache__file *ret_file, struct nf_error *err);
/* The mtime rule: true when nobody wrote to the file since it was checked. */
bool cache__mtime_holds(const struct stat *st, const struct cache_footer *f);
/* Hashes the raw payload; NF_ECORRUPT when it is not the footer's SHA-256. */
int cache__raw_hash_check(int fd, const struct cache_footer *f, struct nf_error *err);
/* LOCK_SH without waiting for ever; false when an evictor took the file away meanwhile. */
bool cache__lock_shared(int fd);

/* A hit over an open file, whose descriptor it takes over. */
struct cache_hit *cache__hit_new(const struct cache__file *file, const char *path, enum cache_tier tier);

/* `<local>/uses/`: files of notes that readers leave: head, then records. */
#define CACHE_USES_HEAD "NFUSES1\n"
struct cache__use {
    struct nf_digest key;
    int64_t at_s;
};
#define CACHE_USE_BYTES 40
int cache__uses_leave(const char *local_dir, const struct cache__use *uses, size_t count);

#define CACHE_CHUNK ((size_t)1 << 20)

/* -------------------------------------------------------------------------------------------------- write side */

/* Raw bytes in order, from a file's payload (raw or zstd), or from memory. */
struct cache__source {
    int fd;                      /* -1: memory */
    const char *memory;
    enum cache_encoding encoding;
    uint64_t stored, at;         /* of the stored bytes */
    uint64_t raw, given;         /* raw: what must come out; UINT64_MAX: whatever there is */
    void *zstd, *in;             /* decoder, input buffer */
    size_t in_at, in_len;
    bool frame_open;
};
void cache__source_fd(struct cache__source *s, int fd, enum cache_encoding encoding, uint64_t stored, uint64_t raw);
void cache__source_memory(struct cache__source *s, struct nf_str bytes);
int cache__source_rewind(struct cache__source *s);
/* Up to len bytes; *ret_n 0 at the end. NF_ECORRUPT: not zstd, or more or fewer bytes than `raw`. */
int cache__source_read(struct cache__source *s, void *out, size_t len, size_t *ret_n, struct nf_error *err);
void cache__source_done(struct cache__source *s);

int cache__zstd_pack(struct nf_str raw, struct nf_buf *out);
/* raw_bytes must be right; limit bounds it. NF_ECORRUPT */
int cache__zstd_unpack(struct nf_str packed, uint64_t raw_bytes, uint64_t limit, struct nf_arena *arena, struct nf_str *ret_raw, struct nf_error *err);

#define CACHE_OPS_MAX_BYTES ((uint64_t)256 << 20)
/* The metadata as bytes; text over max_text_bytes is dropped. */
int cache__meta_encode(const struct cache_meta *meta, uint64_t max_text_bytes, struct nf_buf *out, struct nf_error *err);

/* --------------------------------------------------------------------------------------------------------- tiers */

struct cache__tier {
    char *dir;
    enum cache_tier id;
    mode_t file_mode, dir_mode;
    _Atomic int zstd_level;      /* store zstd where it pays; 0 and less: raw */
};

/* What is to be placed. */
struct cache__draft {
    struct nf_str cache_namespace;
    struct cache_footer footer;  /* key, kind, created_us, mtime_s, compile_us, expires_us; the rest is filled in */
    bool sha256_known;           /* footer.sha256 and raw_bytes are what must come out */
    struct nf_str meta;          /* encoded */
    struct cache__source *source;
};
enum cache__place { CACHE_PLACED, CACHE_LOST };   /* ours stands; somebody else's good one does */
/* Publishes (DESIGN §4). replace: a good occupant is renamed away as well. On success draft->footer is complete, and ret_file is
 * the open file that stands. quarantined counts damaged occupants. */
int cache__tier_place(const struct cache__tier *t, struct cache__draft *draft, bool replace, struct cache_mount_item *beat,
                      enum cache__place *ret_place, struct cache__file *ret_file, uint64_t *quarantined, struct nf_error *err);
/* Opens an entry; path is filled in either way. cache_namespace.data NULL: whichever namespace has it. */
int cache__tier_open(const struct cache__tier *t, struct nf_str cache_namespace, const struct nf_digest *key, enum cache_kind kind,
                     char path[4352], struct cache__file *ret_file, struct nf_error *err);
/* Whole payload against the footer. */
int cache__tier_check(const struct cache__file *f, uint64_t max_raw, struct cache_mount_item *beat, struct nf_error *err);
/* Renames a file into quarantine/, which keeps the newest 64. */
int cache__tier_quarantine(const struct cache__tier *t, const char *path, const char *reason, struct nf_error *err);
int cache__tier_prepare(const struct cache__tier *t, struct nf_error *err);
/* Walks every entry file; fn not 0 stops. Directories that vanish meanwhile are skipped. */
typedef int cache__walk_fn(void *user, const char *path, const char *cache_namespace, const struct nf_digest *key, enum cache_kind kind);
int cache__tier_walk(const struct cache__tier *t, struct cache_mount_item *beat, cache__walk_fn *fn, void *user, struct nf_error *err);
/* The namespaces that have a directory, NUL-terminated in the arena. */
int cache__tier_namespaces(const struct cache__tier *t, struct nf_arena *arena, const char ***ret_names, size_t *ret_count);

/* Of the file system that holds path: NULL when it is one that a local tier can live on, else its name. */
const char *cache__network_fs(const char *path);

#endif
