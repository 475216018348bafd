#include "cache/bundle.h"

#include "base/file.h"
#include "base/reader.h"

#include <errno.h>

#define HEAD "NEFFDBN1"
#define RECORD "RECD"
#define END "ENDB"
#define RECORD_BYTES (4 + 4 + 8 + 8 + 32 + 32)
#define END_BYTES (4 + 8 + 32)

/* ---------------------------------------------------------------------------------------------------------------- writing */

static void put(struct cache_bundle_writer *w, const void *data, size_t len)
{
    if (w->failed)
        return;
    nf_sha256_add(&w->sha, data, len);
    w->failed = nf_fd_write_all(w->fd, data, len);
    w->bytes += len;
}

void cache_bundle_begin(struct cache_bundle_writer *w, int fd)
{
    *w = (struct cache_bundle_writer){.fd = fd};
    nf_sha256_init(&w->sha);
    put(w, HEAD, sizeof(HEAD) - 1);
}

int cache_bundle_add(struct cache_bundle_writer *w, struct cache_hit *hit, struct nf_error *err)
{
    const struct cache_footer *f = cache_hit_footer(hit);
    struct nf_buf head = NF_BUF_INIT;
    const void *payload;
    char *meta = NULL;
    int rc = cache_hit_map(hit, &payload, err);
    if (rc < 0)
        return rc;
    if (f->meta_bytes > CACHE_META_MAX_BYTES || !(meta = nf_try_alloc((size_t)f->meta_bytes + 1)))
        return nf_fail(err, NF_ELIMIT, "the metadata of %s is too large", cache_hit_path(hit));
    rc = nf_fd_pread_all(cache_hit_fd(hit), meta, (size_t)f->meta_bytes, f->stored_bytes);
    if (rc < 0 || nf_xxh3(meta, (size_t)f->meta_bytes) != f->meta_xxh3) {
        rc = nf_fail(err, NF_ENOTFOUND, "the metadata of %s cannot be read", cache_hit_path(hit));
    } else {
        nf_buf_add(&head, RECORD, 4);
        nf_buf_add_u32le(&head, (uint32_t)f->kind);
        nf_buf_add_u64le(&head, f->meta_bytes);
        nf_buf_add_u64le(&head, f->raw_bytes);
        nf_buf_add(&head, f->key.bytes, NF_DIGEST_BYTES);
        nf_buf_add(&head, f->sha256.bytes, NF_DIGEST_BYTES);
        put(w, head.data, head.len);
        put(w, meta, (size_t)f->meta_bytes);
        put(w, payload, (size_t)f->raw_bytes);
        w->count++;
        rc = w->failed ? nf_fail(err, w->failed, "the bundle cannot be written: %s", nf_status_text(w->failed)) : NF_OK;
    }
    nf_buf_done(&head);
    free(meta);
    return rc;
}

int cache_bundle_end(struct cache_bundle_writer *w, struct nf_error *err)
{
    struct nf_buf end = NF_BUF_INIT;
    nf_buf_add(&end, END, 4);
    nf_buf_add_u64le(&end, w->count);
    put(w, end.data, end.len);
    nf_buf_done(&end);
    struct nf_digest d = nf_sha256_end(&w->sha);
    if (!w->failed)
        w->failed = nf_fd_write_all(w->fd, d.bytes, NF_DIGEST_BYTES);
    return w->failed ? nf_fail(err, w->failed, "the bundle cannot be written: %s", nf_status_text(w->failed)) : NF_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- reading */

static int broken(struct nf_error *err, const struct nf_reader *r, const char *what)
{
    nf_fail(err, NF_ECORRUPT, "the bundle is damaged: %s", what);
    nf_error_location(err, "byte %zu", nf_reader_offset(r));
    return NF_ECORRUPT;
}

/* Production `record`; the reader stands behind "RECD". */
static int read_record(struct nf_reader *r, struct cache_bundle_record *ret, struct nf_error *err)
{
    uint32_t kind = nf_reader_u32le(r);
    uint64_t meta_bytes = nf_reader_u64le(r), raw_bytes = nf_reader_u64le(r);
    struct nf_str key = nf_reader_bytes(r, NF_DIGEST_BYTES), sha = nf_reader_bytes(r, NF_DIGEST_BYTES);
    if (r->failed)
        return broken(err, r, "a record ends early");
    if (kind >= CACHE_KIND_MAX || kind == CACHE_KIND_FAILURE)
        return broken(err, r, "a record is of no known kind");
    if (meta_bytes > CACHE_META_MAX_BYTES || meta_bytes > nf_reader_left(r) || raw_bytes > nf_reader_left(r) - meta_bytes)
        return broken(err, r, "a record is larger than the file");
    ret->kind = (enum cache_kind)kind;
    memcpy(ret->key.bytes, key.data, NF_DIGEST_BYTES);
    memcpy(ret->sha256.bytes, sha.data, NF_DIGEST_BYTES);
    ret->meta = nf_reader_bytes(r, (size_t)meta_bytes);
    ret->payload = nf_reader_bytes(r, (size_t)raw_bytes);
    return NF_OK;
}

static int walk(struct nf_str bytes, cache_bundle_fn *fn, void *user, struct nf_error *err)
{
    struct nf_reader r = nf_reader_of(bytes);
    uint64_t count = 0;
    if (!nf_str_eq(nf_reader_bytes(&r, sizeof(HEAD) - 1), NF_STR(HEAD)))
        return broken(err, &(struct nf_reader){0}, "it does not begin as one of this version");
    for (;;) {
        struct nf_str word = nf_reader_bytes(&r, 4);
        if (r.failed)
            return broken(err, &r, "it ends without its end");
        if (nf_str_eq(word, NF_STR(END))) {
            uint64_t said = nf_reader_u64le(&r);
            nf_reader_skip(&r, NF_DIGEST_BYTES);
            if (r.failed || nf_reader_left(&r) || said != count)
                return broken(err, &r, "its end does not fit what is before it");
            return NF_OK;
        }
        if (!nf_str_eq(word, NF_STR(RECORD)))
            return broken(err, &r, "no record where one is due");
        struct cache_bundle_record record;
        int rc = read_record(&r, &record, err);
        if (rc == NF_OK && fn)
            rc = fn(user, &record, err);
        if (rc)
            return rc;
        count++;
    }
}

int cache_bundle_read(struct nf_str bytes, cache_bundle_fn *fn, void *user, struct nf_error *err)
{
    if (bytes.len < sizeof(HEAD) - 1 + END_BYTES)
        return broken(err, &(struct nf_reader){0}, "it is too short");
    /* Twice: first whether it is whole. */
    int rc = walk(bytes, NULL, NULL, err);
    if (rc)
        return rc;
    struct nf_digest d = nf_digest_of(bytes.data, bytes.len - NF_DIGEST_BYTES);
    if (memcmp(d.bytes, bytes.data + bytes.len - NF_DIGEST_BYTES, NF_DIGEST_BYTES) != 0)
        return broken(err, &(struct nf_reader){0}, "its digest does not hold");
    return walk(bytes, fn, user, err);
}

int cache_bundle_publish(struct cache_store *store, const struct cache_bundle_record *record, bool *ret_new, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_publication p = {.artifact_fd = -1, .artifact = record->payload};
    struct cache_components list;
    struct cache_published out = {0};
    struct nf_digest sha = nf_digest_of(record->payload.data, record->payload.len), key;
    int rc = NF_OK;
    if (!nf_digest_eq(&sha, &record->sha256))
        rc = nf_fail(err, NF_ECORRUPT, "a payload does not have its digest");
    if (rc == NF_OK)
        rc = cache_meta_decode(record->meta, arena, &p.meta, err);
    if (rc == NF_OK && (!nf_digest_eq(&p.meta.key, &record->key) || p.meta.kind != record->kind || p.meta.failure))
        rc = nf_fail(err, NF_ECORRUPT, "the metadata is that of another entry");
    if (rc == NF_OK)
        rc = cache_namespace_check(p.meta.cache_namespace, err);
    if (rc == NF_OK)
        rc = cache_meta_components(&p.meta, arena, &list, err);
    /* Entries with foreign keys (imported ones) have no components that make a key. */
    if (rc == NF_OK && cache_key_canonical(list.items, list.count, &key, NULL) == NF_OK && !nf_digest_eq(&key, &record->key))
        rc = nf_fail(err, NF_ECORRUPT, "the key is not that of the components");
    if (rc == NF_OK) {
        p.meta.components = list.items;
        p.meta.component_count = list.count;
        if (cache_meta_text(&p.meta, arena, &p.meta.stablehlo, NULL) < 0)
            p.meta.stablehlo = (struct nf_str){0};
        rc = cache_store_publish(store, &p, &out, err);
    }
    if (rc == NF_OK) {
        *ret_new = out.ours;
        cache_hit_close(out.hit);
    } else if (rc != NF_ECORRUPT && nf_status_class(rc) == NF_CLASS_USER) {
        rc = nf_fail(err, NF_ECORRUPT, "a record does not hold"); /* what hostile metadata may have made fail */
    }
    nf_arena_free(arena);
    return rc;
}
