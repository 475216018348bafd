/* bundle.h: entries in one file, to carry a cache to where its mount is not (an image, an object store, another site).
 *
 *     bundle  = "NEFFDBN1" *record end
 *     record  = "RECD" kind:u32le meta_bytes:u64le raw_bytes:u64le key[32] sha256[32] meta payload
 *     end     = "ENDB" count:u64le sha256[32]      ; of everything before the digest
 *
 * meta is an entry's metadata as it stands in its file (entry.h), payload the artifact itself (raw). The digest at the end
 * tells a cut or damaged file before anything of it is used; it proves nothing about who made it. A reader believes no
 * size, checks every payload against its SHA-256 and every key against its components. Version history: 1.
 *
 * One thread a bundle. */
#ifndef NEFFD_CACHE_BUNDLE_H
#define NEFFD_CACHE_BUNDLE_H

#include "cache/store.h"

struct cache_bundle_writer {
    int fd;
    uint64_t count, bytes;
    struct nf_sha256 sha;
    int failed;                     /* first error, sticky */
};
void cache_bundle_begin(struct cache_bundle_writer *w, int fd);               /* fd is borrowed */
/* NF_ENOTFOUND: the hit has no metadata that can be read. A file that could not be written fails at the end, too. */
int cache_bundle_add(struct cache_bundle_writer *w, struct cache_hit *hit, struct nf_error *err);
int cache_bundle_end(struct cache_bundle_writer *w, struct nf_error *err);

struct cache_bundle_record {
    enum cache_kind kind;
    struct nf_digest key, sha256;
    struct nf_str meta, payload;    /* views of the file */
};
/* Not 0 stops, and is returned. */
typedef int cache_bundle_fn(void *user, const struct cache_bundle_record *record, struct nf_error *err);
/* bytes: the file as mapped. NF_ECORRUPT with the byte offset when it is not a whole bundle: then fn has not been called. */
int cache_bundle_read(struct nf_str bytes, cache_bundle_fn *fn, void *user, struct nf_error *err);
/* Checks payload, metadata and key, and publishes. *ret_new: it was not there. NF_ECORRUPT for a record that does not hold;
 * others as cache_store_publish. */
int cache_bundle_publish(struct cache_store *store, const struct cache_bundle_record *record, bool *ret_new, struct nf_error *err);

#endif
