/* entry.h: one entry, one file. FORMAT.md has the grammar; this header has the two halves of the code.
 *
 *     payload at offset 0 | metadata (protobuf, cache/entry.proto) | footer, fixed size, at the very end
 *
 * The footer alone tells sizes, digests, key and times, so a hit costs one pread. Metadata is for people, `cache ls`,
 * explain and recompiling; it is read only when asked for.
 *
 * Everything in a file is hostile until checked: sizes against fstat, checksums, bounds on every list and string.
 * Part of the read side (protobuf-c; no zstd: compressed parts are handed out as they are). Any thread. */
#ifndef NEFFD_CACHE_ENTRY_H
#define NEFFD_CACHE_ENTRY_H

#include "base/arena.h"
#include "base/digest.h"
#include "cache/key.h"

#define CACHE_FORMAT_VERSION 1
#define CACHE_FOOTER_BYTES 192
#define CACHE_META_MAX_BYTES ((uint64_t)64 << 20)

enum cache_kind { /* what the payload is; the file's suffix (kinds.def) */
#define KIND(sym, word, suffix) CACHE_KIND_##sym,
#include "cache/kinds.def"
#undef KIND
    CACHE_KIND_MAX
};
const char *cache_kind_word(enum cache_kind kind);    /* "neff" */
const char *cache_kind_suffix(enum cache_kind kind);  /* ".neff" */
int cache_kind_of(struct nf_str word);                /* the kind, or -1 */

enum cache_encoding { CACHE_RAW = 0, CACHE_ZSTD = 1, CACHE_ENCODING_MAX };

struct cache_footer {
    uint32_t version;
    enum cache_kind kind;
    enum cache_encoding encoding;
    uint64_t stored_bytes;      /* of the payload in this file */
    uint64_t raw_bytes;         /* of the artifact */
    uint64_t meta_bytes;
    int64_t created_us;         /* since the epoch */
    int64_t mtime_s;            /* what the mtime of a checked file in the local tier is set to */
    uint64_t compile_us;        /* what it cost */
    int64_t expires_us;         /* failures: when it is forgotten; else 0 */
    struct nf_digest key;       /* canonical */
    struct nf_digest sha256;    /* of the raw payload */
    uint64_t meta_xxh3;
};

void cache_footer_encode(const struct cache_footer *f, uint8_t out[CACHE_FOOTER_BYTES]);
/* bytes: the last CACHE_FOOTER_BYTES of a file of file_bytes. NF_ECORRUPT with what does not hold. */
int cache_footer_decode(const uint8_t bytes[CACHE_FOOTER_BYTES], uint64_t file_bytes, struct cache_footer *ret_footer, struct nf_error *err);
/* One pread of the end of fd. */
int cache_footer_read(int fd, uint64_t file_bytes, struct cache_footer *ret_footer, struct nf_error *err);

/* A remembered failure. */
struct cache_failure {
    struct nf_error error;          /* code, stage, exit_code, message, location, hint */
    enum nf_class cls;
    uint32_t attempts;
    int64_t expires_us;             /* 0: never */
    const struct nf_str *log_tail;  /* lines */
    size_t log_count;
};

/* What is known about an entry. Texts are borrowed: by the writer for the call, from the arena after a read. */
struct cache_meta {
    struct nf_digest key;
    enum cache_kind kind;
    struct nf_str name;             /* for people; never part of a key */
    struct nf_str cache_namespace;
    struct nf_str target;
    struct nf_str compiler;         /* "neuronx-cc 2.21.1234.0+abcd" */
    struct nf_str toolchain_id;
    struct nf_str created_by;       /* user and tool: "uid 1000, neffctl 0.1.0" */
    struct nf_str host;             /* provenance */
    uint32_t pid;
    struct nf_str compile_id;
    uint32_t attempts;
    int64_t started_us;
    int64_t created_us;             /* 0: now, when writing */
    uint64_t compile_us;
    uint64_t peak_rss_bytes;
    const struct cache_component *components; /* all of the request's; after a read without the op lines, which are compressed */
    size_t component_count;
    struct nf_str stablehlo;        /* the canonical text; dropped when over the limit of the store */
    const struct cache_failure *failure; /* not NULL: a failure entry */
    /* After cache_meta_decode only: still compressed; cache_meta_text() and cache_meta_components() of store.h unpack them. */
    struct nf_str stablehlo_zstd, ops_zstd;
    uint64_t stablehlo_bytes, ops_bytes;
    struct nf_str sketch;           /* sketch.h */
};

/* Reads and checks metadata into the arena. NF_ECORRUPT. */
int cache_meta_decode(struct nf_str bytes, struct nf_arena *arena, struct cache_meta *ret_meta, struct nf_error *err);
/* pread of the metadata that f describes, checksum, decode. */
int cache_meta_read(int fd, const struct cache_footer *f, struct nf_arena *arena, struct cache_meta *ret_meta, struct nf_error *err);

/* `entries/<namespace or _>/ab/cd/<key><suffix>` below a tier's directory. */
#define CACHE_PATH_MAX 192
void cache_entry_path(struct nf_str cache_namespace, const struct nf_digest *key, const char *suffix, char out[CACHE_PATH_MAX]);

#endif
