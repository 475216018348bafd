/* entry.c: reading entry files: footer, metadata, places. Writing is in entry_write.c (write side). */
#include "cache/entry.h"

#include "base/file.h"
#include "cache/cache_internal.h"
#include "cache/entry.pb-c.h"

static const uint8_t magic[8] = {0x89, 'N', 'F', 'E', 'N', 'T', '\r', '\n'};

/* ------------------------------------------------------------------------------------------------------------- kinds */

static const struct {
    const char *word, *suffix;
} kinds[CACHE_KIND_MAX] = {
#define KIND(sym, word, suffix) [CACHE_KIND_##sym] = {word, suffix},
#include "cache/kinds.def"
#undef KIND
};

const char *cache_kind_word(enum cache_kind kind)
{
    return (unsigned)kind < CACHE_KIND_MAX ? kinds[kind].word : "?";
}

const char *cache_kind_suffix(enum cache_kind kind)
{
    return (unsigned)kind < CACHE_KIND_MAX ? kinds[kind].suffix : "";
}

int cache_kind_of(struct nf_str word)
{
    for (int k = 0; k < CACHE_KIND_MAX; k++)
        if (nf_str_eq_c(word, kinds[k].word))
            return k;
    return -1;
}

void cache_entry_path(struct nf_str cache_namespace, const struct nf_digest *key, const char *suffix, char out[CACHE_PATH_MAX])
{
    char hex[NF_DIGEST_HEX];
    nf_digest_hex(key, hex);
    if (!cache_namespace.len)
        cache_namespace = NF_STR("_");
    nf_format(out, CACHE_PATH_MAX, "entries/%.*s/%.2s/%.2s/%s%s", (int)NF_MIN(cache_namespace.len, 64), cache_namespace.data, hex, hex + 2, hex, suffix);
}

bool cache__entry_name_parse(const char *name, struct nf_digest *ret_key, enum cache_kind *ret_kind)
{
    size_t len = strlen(name);
    if (len <= 64 || nf_digest_parse(nf_str_n(name, 64), ret_key) != NF_OK)
        return false;
    for (int k = 0; k < CACHE_KIND_MAX; k++)
        if (strcmp(name + 64, kinds[k].suffix) == 0) {
            *ret_kind = (enum cache_kind)k;
            return true;
        }
    return false;
}

/* ------------------------------------------------------------------------------------------------------------ footer */

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void put64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const uint8_t *p)
{
    return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

void cache_footer_encode(const struct cache_footer *f, uint8_t out[CACHE_FOOTER_BYTES])
{
    memset(out, 0, CACHE_FOOTER_BYTES);
    put32(out, (uint32_t)f->kind);
    put32(out + 4, (uint32_t)f->encoding);
    put64(out + 8, f->stored_bytes);
    put64(out + 16, f->raw_bytes);
    put64(out + 24, f->meta_bytes);
    put64(out + 32, (uint64_t)f->created_us);
    put64(out + 40, (uint64_t)f->mtime_s);
    put64(out + 48, f->compile_us);
    put64(out + 56, (uint64_t)f->expires_us);
    memcpy(out + 64, f->key.bytes, NF_DIGEST_BYTES);
    memcpy(out + 96, f->sha256.bytes, NF_DIGEST_BYTES);
    put64(out + 128, f->meta_xxh3);
    put64(out + 168, nf_xxh3(out, 168));
    put32(out + 176, CACHE_FORMAT_VERSION);
    put32(out + 180, CACHE_FOOTER_BYTES);
    memcpy(out + 184, magic, sizeof(magic));
}

int cache_footer_decode(const uint8_t bytes[CACHE_FOOTER_BYTES], uint64_t file_bytes, struct cache_footer *ret_footer, struct nf_error *err)
{
    if (memcmp(bytes + 184, magic, sizeof(magic)) != 0)
        return nf_fail(err, NF_ECORRUPT, "the footer's magic is not there");
    uint32_t version = get32(bytes + 176);
    if (version != CACHE_FORMAT_VERSION || get32(bytes + 180) != CACHE_FOOTER_BYTES)
        return nf_fail(err, NF_ECORRUPT, "the entry has format version %u, this is version %u", version, CACHE_FORMAT_VERSION);
    if (get64(bytes + 168) != nf_xxh3(bytes, 168))
        return nf_fail(err, NF_ECORRUPT, "the footer's checksum does not hold");
    struct cache_footer f = {
        .version = version,
        .stored_bytes = get64(bytes + 8),
        .raw_bytes = get64(bytes + 16),
        .meta_bytes = get64(bytes + 24),
        .created_us = (int64_t)get64(bytes + 32),
        .mtime_s = (int64_t)get64(bytes + 40),
        .compile_us = get64(bytes + 48),
        .expires_us = (int64_t)get64(bytes + 56),
        .meta_xxh3 = get64(bytes + 128),
    };
    uint32_t kind = get32(bytes), encoding = get32(bytes + 4);
    memcpy(f.key.bytes, bytes + 64, NF_DIGEST_BYTES);
    memcpy(f.sha256.bytes, bytes + 96, NF_DIGEST_BYTES);
    if (kind >= CACHE_KIND_MAX || encoding >= CACHE_ENCODING_MAX)
        return nf_fail(err, NF_ECORRUPT, "the footer names kind %u and encoding %u, which do not exist", kind, encoding);
    f.kind = (enum cache_kind)kind;
    f.encoding = (enum cache_encoding)encoding;
    if (f.meta_bytes > CACHE_META_MAX_BYTES || file_bytes < CACHE_FOOTER_BYTES + f.meta_bytes ||
        f.stored_bytes != file_bytes - CACHE_FOOTER_BYTES - f.meta_bytes)
        return nf_fail(err, NF_ECORRUPT, "the footer's sizes are not those of a file of %llu bytes", (unsigned long long)file_bytes);
    if (f.encoding == CACHE_RAW && f.raw_bytes != f.stored_bytes)
        return nf_fail(err, NF_ECORRUPT, "the footer gives a raw payload two sizes");
    *ret_footer = f;
    return NF_OK;
}

int cache_footer_read(int fd, uint64_t file_bytes, struct cache_footer *ret_footer, struct nf_error *err)
{
    uint8_t bytes[CACHE_FOOTER_BYTES];
    if (file_bytes < CACHE_FOOTER_BYTES)
        return nf_fail(err, NF_ECORRUPT, "%llu bytes are too few for an entry", (unsigned long long)file_bytes);
    int rc = nf_fd_pread_all(fd, bytes, sizeof(bytes), file_bytes - CACHE_FOOTER_BYTES);
    if (rc)
        return nf_fail(err, rc, "cannot read the footer: %s", nf_status_text(rc));
    return cache_footer_decode(bytes, file_bytes, ret_footer, err);
}

/* ---------------------------------------------------------------------------------------------------------- metadata */

/* protobuf-c turns two hostile bytes into eighty of its own; what it may take is bounded by the size of the message. */
struct budget {
    struct nf_arena *arena;
    size_t left;
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *b = data;
    if (size > b->left)
        return NULL;
    b->left -= size;
    return nf_arena_alloc_raw(b->arena, size);
}

static void budget_free(void *data, void *p)
{
    (void)data;
    (void)p;
}

static struct nf_str str_of(ProtobufCBinaryData b)
{
    return nf_str_n(b.data, b.len);
}

static bool text_field(const char *text, size_t limit)
{
    return strlen(text) <= limit && nf_utf8_valid(nf_str_c(text));
}

static void error_text(ProtobufCBinaryData from, char *out, size_t size)
{
    size_t n = NF_MIN(from.len, size - 1);
    while (n && !nf_utf8_valid(nf_str_n(from.data, n)))
        n--;
    memcpy(out, from.data ? (const char *)from.data : "", n);
    out[n] = 0;
}

static void failure_of(const Neffd__Cache__V1__Failure *m, struct nf_arena *arena, struct cache_failure *f)
{
    *f = (struct cache_failure){
        .cls = m->failure_class < NF_CLASS_MAX ? (enum nf_class)m->failure_class : NF_CLASS_INTERNAL,
        .attempts = m->attempts,
        .expires_us = m->expires_us,
    };
    f->error.code = nf_status_from_name(m->code);
    f->error.stage = (int)m->stage;
    f->error.exit_code = m->exit_code;
    f->error.from_cache = true;
    error_text(m->message, f->error.message, sizeof(f->error.message));
    error_text(m->location, f->error.location, sizeof(f->error.location));
    error_text(m->hint, f->error.hint, sizeof(f->error.hint));
    struct nf_str *log = NF_NEW_ARRAY(arena, struct nf_str, m->n_log_tail ? m->n_log_tail : 1);
    for (size_t i = 0; i < m->n_log_tail; i++)
        log[i] = str_of(m->log_tail[i]);
    f->log_tail = log;
    f->log_count = m->n_log_tail;
}

int cache_meta_decode(struct nf_str bytes, struct nf_arena *arena, struct cache_meta *ret_meta, struct nf_error *err)
{
    if (bytes.len > CACHE_META_MAX_BYTES)
        return nf_fail(err, NF_ECORRUPT, "metadata of %zu bytes are over the limit", bytes.len);
    struct budget budget = {arena, bytes.len * 8 + ((size_t)1 << 20)};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};
    Neffd__Cache__V1__Metadata *m = neffd__cache__v1__metadata__unpack(&allocator, bytes.len, (const uint8_t *)bytes.data);
    if (!m)
        return nf_fail(err, NF_ECORRUPT, "the metadata are not a message");
    int kind = cache_kind_of(nf_str_c(m->kind));
    if (m->key.len != NF_DIGEST_BYTES || kind < 0 || !text_field(m->cache_namespace, 64) ||
        cache_namespace_check(nf_str_c(m->cache_namespace), NULL) != NF_OK)
        return nf_fail(err, NF_ECORRUPT, "the metadata name no key, kind or namespace");
    struct cache_meta out = {
        .kind = (enum cache_kind)kind,
        .name = str_of(m->name),
        .cache_namespace = nf_str_c(m->cache_namespace),
        .target = str_of(m->target),
        .compiler = str_of(m->compiler),
        .toolchain_id = str_of(m->toolchain_id),
        .created_by = str_of(m->created_by),
        .host = str_of(m->host),
        .pid = m->pid,
        .compile_id = str_of(m->compile_id),
        .attempts = m->attempts,
        .started_us = m->started_us,
        .created_us = m->created_us,
        .compile_us = m->compile_us,
        .peak_rss_bytes = m->peak_rss_bytes,
        .component_count = m->n_components,
        .stablehlo_zstd = str_of(m->stablehlo_zstd),
        .stablehlo_bytes = m->stablehlo_bytes,
        .ops_zstd = str_of(m->ops_zstd),
        .ops_bytes = m->ops_bytes,
        .sketch = str_of(m->sketch),
    };
    memcpy(out.key.bytes, m->key.data, NF_DIGEST_BYTES);
    struct cache_component *components = NF_NEW_ARRAY(arena, struct cache_component, m->n_components ? m->n_components : 1);
    for (size_t i = 0; i < m->n_components; i++) {
        if (cache_component_kind_of(nf_str_c(m->components[i]->component)) < 0)
            return nf_fail(err, NF_ECORRUPT, "the metadata hold a component that does not exist");
        components[i].component = nf_str_c(m->components[i]->component);
        components[i].name = str_of(m->components[i]->name);
        components[i].value = str_of(m->components[i]->value);
    }
    out.components = components;
    if (kind == CACHE_KIND_FAILURE) {
        if (!m->failure)
            return nf_fail(err, NF_ECORRUPT, "a failure entry without a failure");
        struct cache_failure *f = NF_NEW(arena, struct cache_failure);
        failure_of(m->failure, arena, f);
        out.failure = f;
    }
    *ret_meta = out;
    return NF_OK;
}

int cache_meta_read(int fd, const struct cache_footer *f, struct nf_arena *arena, struct cache_meta *ret_meta, struct nf_error *err)
{
    char *bytes = nf_arena_alloc_raw(arena, f->meta_bytes ? (size_t)f->meta_bytes : 1);
    int rc = nf_fd_pread_all(fd, bytes, (size_t)f->meta_bytes, f->stored_bytes);
    if (rc)
        return nf_fail(err, rc, "cannot read the metadata: %s", nf_status_text(rc));
    if (nf_xxh3(bytes, (size_t)f->meta_bytes) != f->meta_xxh3)
        return nf_fail(err, NF_ECORRUPT, "the metadata's checksum does not hold");
    struct cache_meta meta;
    rc = cache_meta_decode(nf_str_n(bytes, (size_t)f->meta_bytes), arena, &meta, err);
    if (rc)
        return rc;
    if (!nf_digest_eq(&meta.key, &f->key) || meta.kind != f->kind)
        return nf_fail(err, NF_ECORRUPT, "the metadata and the footer are of two entries");
    *ret_meta = meta;
    return NF_OK;
}
