/* key.h: the two keys, what they are made of, and the list of toolchains of this host. (DESIGN §3)
 *
 *     front key      what the caller can compute without parsing: bytes, explicit options, target, toolchain id, side files
 *     canonical key  names the artifact: canonical form of the IR, effective options, target, toolchain, side files
 *     alias          front -> canonical, recorded by whoever hashed the bytes itself (store.h), read through read.h
 *
 * Both are SHA-256 over length-prefixed fields behind a domain word, so no two different requests share a preimage by the
 * way their parts are joined, and a front key is never also a canonical key.
 *
 * Nothing here allocates behind the caller's back except where an arena is taken; nothing keeps a pointer. Any thread.
 * Part of the read side: no SQLite, no zstd, no protobuf. */
#ifndef NEFFD_CACHE_KEY_H
#define NEFFD_CACHE_KEY_H

#include "base/arena.h"
#include "base/digest.h"

#include <sys/types.h>

/* Goes up whenever the same request must get another key (a fixed defect in what is hashed). Part of both keys. */
#define CACHE_KEY_SCHEMA 1

/* ----------------------------------------------------------------------------------------------------- components */

enum cache_component_kind {
#define COMPONENT(sym, word, once) CACHE_COMPONENT_##sym,
#include "cache/components.def"
#undef COMPONENT
    CACHE_COMPONENT_MAX
};
const char *cache_component_word(enum cache_component_kind kind);              /* "side_file"; "?" outside the enum */
int cache_component_kind_of(struct nf_str word);                               /* the kind, or -1 */

/* One component of a request. Borrowed text. The worker reports them, the key hashes some, the entry stores all.
 *
 *     component   name          value                                          hashed
 *     format      "artifact"    version                                        yes
 *     target      ""            "trn2"                                         yes
 *     compiler    for people    toolchain id                                   value
 *     namespace   ""            the cache namespace; absent when empty         yes
 *     option      "optlevel"    effective value                                yes
 *     side_file   its name      hex SHA-256                                    yes
 *     structure   "" or words   hex SHA-256 of the canonical print, or         value
 *                               the scoped base key
 *     structure   "op 412"      one operation of the canonical print           no: it is in the digest; for explain
 *     input       "input 3"     type text: "tensor<8x128xf32>"                 no: as above
 *     output      "output 0"    type text                                      no
 *     constant    "constant 2"  "dense<0.5> : tensor<4xf32>" for splats, else  no
 *                               "sha256:<hex> : tensor<4xf32>"
 *
 * Numbered ones come in ascending order. location: of an op, as the source had it ("model.py:12:3"), else empty. */
struct cache_component {
    struct nf_str component; /* a word of components.def */
    struct nf_str name;
    struct nf_str value;
    struct nf_str location;
};
bool cache_component_hashed(const struct cache_component *c);
bool cache_component_is_op(const struct cache_component *c);   /* a `structure` whose name starts with "op " */

/* A growing list in an arena. */
struct cache_components {
    struct nf_arena *arena;
    struct cache_component *items;
    size_t count, cap;
};
void cache_components_init(struct cache_components *list, struct nf_arena *arena);
/* Copies the texts into the arena. */
void cache_components_add(struct cache_components *list, enum cache_component_kind kind, struct nf_str name, struct nf_str value,
                          struct nf_str location);

/* The canonical key: over CACHE_KEY_SCHEMA and the hashed components, sorted by (component, name), so that the order in
 * which stages report them does not matter. The list must hold one `structure` digest, one `target` and one `compiler`, at
 * most one of each kind that components.def calls `once`, and no hashed (component, name) twice: else NF_EINVAL, which says
 * what. */
int cache_key_canonical(const struct cache_component *items, size_t count, struct nf_digest *ret_key, struct nf_error *err);

/* ------------------------------------------------------------------------------------------------------- front key */

struct cache_option {
    struct nf_str name, value;
};
struct cache_side_file {
    struct nf_str name;
    struct nf_digest sha256;
    uint64_t size;
};

/* Everything but the input's bytes. Zero-initialise; what is not given stays empty. */
struct cache_front_parts {
    int input_kind;                          /* neffd.v1.InputKind as it travels in the request (0: told from the bytes) */
    int stop_after;                          /* neffd.v1.Stage as it travels; 0: the whole way */
    uint64_t input_bytes;
    struct nf_str target;                    /* resolved, never empty */
    struct nf_str toolchain_id;              /* from the toolchain list, never empty */
    const struct cache_option *options;      /* as given, in order; of one name the right-most wins, the others vanish */
    size_t option_count;
    const struct cache_side_file *side_files; /* in order */
    size_t side_file_count;
    struct nf_str base_key;                  /* not empty: scoped by uid */
    uid_t uid;                               /* the caller's; enters only with a base_key */
    struct nf_str cache_namespace;
};

/* In steps, for bytes that arrive in chunks: begin, add (in order), end. end is NF_EINVAL when the bytes added are not
 * input_bytes; begin when target or toolchain id is missing. */
struct cache_front_hash {
    struct nf_sha256 sha;
    uint64_t left;
    bool over;
};
int cache_front_begin(struct cache_front_hash *h, const struct cache_front_parts *parts, struct nf_error *err);
void cache_front_add(struct cache_front_hash *h, const void *data, size_t len);
int cache_front_end(struct cache_front_hash *h, struct nf_digest *ret_key, struct nf_error *err);

/* In one call; parts->input_bytes is taken from input.len. */
int cache_key_front(const struct cache_front_parts *parts, struct nf_str input, struct nf_digest *ret_key, struct nf_error *err);

/* The value of the `structure` component when a base key replaces the IR: hex, scoped by uid and namespace. */
void cache_base_key_scope(struct nf_str base_key, uid_t uid, struct nf_str cache_namespace, char out[NF_DIGEST_HEX]);

/* Keeps the right-most of each name, in the order of the survivors. ret_count <= count; out may be options itself. */
size_t cache_options_effective(const struct cache_option *options, size_t count, struct cache_option *out);

/* ------------------------------------------------------------------------------------------------------ namespaces */

/* 1 to 64 of [A-Za-z0-9._-], not starting with a dot; "" is the default namespace. NF_EINVAL otherwise. */
int cache_namespace_check(struct nf_str name, struct nf_error *err);

/* ------------------------------------------------------------------------------------------------- toolchain list
 * `<local>/toolchains`, text, written by the daemon (or neffcc), read by clients. Grammar:
 *
 *     file = "neffd-toolchains 1\n" *line
 *     line = target TAB id TAB compiler TAB version TAB path TAB mtime_ns TAB size "\n"
 *
 * A line whose target is CACHE_TOOLCHAIN_DEFAULT has a target as its id: what a request that names none is compiled for.
 *
 * path, mtime_ns and size are those of the compiler's file ("-", 0, 0 for built-in ones): a reader that finds the file
 * changed treats the line as absent, so a compiler that was upgraded while no daemon ran never answers under its old id. */

#define CACHE_TOOLCHAIN_TEXT 256
#define CACHE_TOOLCHAIN_DEFAULT "default"
struct cache_toolchain {
    char target[64];
    char id[CACHE_TOOLCHAIN_TEXT];         /* what enters the keys */
    char compiler[CACHE_TOOLCHAIN_TEXT];   /* for people: "neuronx-cc" */
    char version[CACHE_TOOLCHAIN_TEXT];    /* "2.21.1234.0+abcd" */
    char path[4096];                       /* "" for built-in ones */
    int64_t mtime_ns;
    uint64_t size;
};

/* Reads one target's line. NF_ENOTFOUND: no list, no such target, or its compiler's file is not the one that was recorded;
 * NF_ECORRUPT: not a list; NF_EPERM: the list belongs to someone who may not speak for this host (not root, not this
 * process's user, not the owner of the local directory). */
int cache_toolchain_read(const char *local_dir, const char *target, struct cache_toolchain *ret_toolchain, struct nf_error *err);
/* Replaces the lines of the given targets and keeps the others (several daemons may share the directory; a lock on
 * `toolchains.lock` orders them). mtime_ns and size are filled in from `path` when that is not empty. */
int cache_toolchain_write(const char *local_dir, const struct cache_toolchain *list, size_t count, struct nf_error *err);
/* A hex id over compiler, version and detail (instruction set, LLVM version, ...): for targets without one of their own. */
void cache_toolchain_make_id(struct nf_str compiler, struct nf_str version, struct nf_str detail, char out[NF_DIGEST_HEX]);

#endif
