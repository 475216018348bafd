/* entry_write.c: making entry files: sources of payload bytes, compressed parts, metadata. Write side; uses zstd. */
#include "cache/store.h"

#include "base/reader.h"
#include "cache/cache_internal.h"
#include "cache/entry.pb-c.h"

#include <errno.h>
#include <unistd.h>
#include <zstd.h>

/* ------------------------------------------------------------------------------------------------------------ sources */

void cache__source_fd(struct cache__source *s, int fd, enum cache_encoding encoding, uint64_t stored, uint64_t raw)
{
    *s = (struct cache__source){.fd = fd, .encoding = encoding, .stored = stored, .raw = raw};
}

void cache__source_memory(struct cache__source *s, struct nf_str bytes)
{
    *s = (struct cache__source){.fd = -1, .memory = bytes.data, .encoding = CACHE_RAW, .stored = bytes.len, .raw = bytes.len};
}

int cache__source_rewind(struct cache__source *s)
{
    s->at = s->given = 0;
    s->in_at = s->in_len = 0;
    s->frame_open = false;
    if (s->zstd)
        ZSTD_DCtx_reset(s->zstd, ZSTD_reset_session_only);
    return NF_OK;
}

void cache__source_done(struct cache__source *s)
{
    ZSTD_freeDCtx(s->zstd);
    free(s->in);
    s->zstd = NULL;
    s->in = NULL;
}

/* At most len stored bytes. */
static int stored_read(struct cache__source *s, void *out, size_t len, size_t *ret_n)
{
    size_t n = (size_t)NF_MIN(s->stored - s->at, (uint64_t)len);
    if (s->fd < 0) {
        memcpy(out, n ? s->memory + s->at : "", n);
    } else {
        int rc = nf_fd_pread_all(s->fd, out, n, s->at);
        if (rc)
            return rc;
    }
    s->at += n;
    *ret_n = n;
    return NF_OK;
}

static int zstd_read(struct cache__source *s, void *out, size_t len, size_t *ret_n, struct nf_error *err)
{
    if (!s->zstd) {
        s->zstd = ZSTD_createDCtx();
        s->in = nf_alloc(CACHE_CHUNK);
        if (!s->zstd)
            return nf_fail(err, NF_ENOMEM, "no memory for a decoder");
        ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, 27);
    }
    ZSTD_outBuffer to = {out, len, 0};
    while (to.pos < to.size) {
        if (s->in_at == s->in_len && s->at < s->stored) {
            s->in_at = 0;
            int rc = stored_read(s, s->in, CACHE_CHUNK, &s->in_len);
            if (rc)
                return nf_fail(err, rc, "cannot read the payload at byte %llu: %s", (unsigned long long)s->at, nf_status_text(rc));
        }
        if (s->in_at == s->in_len && !s->frame_open)
            break;
        ZSTD_inBuffer from = {s->in, s->in_len, s->in_at};
        size_t before = to.pos, left = ZSTD_decompressStream(s->zstd, &to, &from);
        if (ZSTD_isError(left))
            return nf_fail(err, NF_ECORRUPT, "the payload does not unpack: %s", ZSTD_getErrorName(left));
        bool still = from.pos == s->in_at && to.pos == before;
        s->frame_open = left != 0;
        s->in_at = from.pos;
        if (still && s->at == s->stored)
            return nf_fail(err, NF_ECORRUPT, "the packed payload ends in the middle of a frame");
    }
    *ret_n = to.pos;
    return NF_OK;
}

int cache__source_read(struct cache__source *s, void *out, size_t len, size_t *ret_n, struct nf_error *err)
{
    size_t n = 0;
    int rc;
    if (s->encoding == CACHE_ZSTD) {
        if ((rc = zstd_read(s, out, len, &n, err)))
            return rc;
        if (n > s->raw - s->given)
            return nf_fail(err, NF_ECORRUPT, "the payload unpacks to more than %llu bytes", (unsigned long long)s->raw);
        if (n == 0 && s->given != s->raw)
            return nf_fail(err, NF_ECORRUPT, "the payload unpacks to %llu bytes instead of %llu", (unsigned long long)s->given, (unsigned long long)s->raw);
    } else {
        if ((rc = stored_read(s, out, len, &n)))
            return nf_fail(err, rc, "cannot read the payload at byte %llu: %s", (unsigned long long)s->at, nf_status_text(rc));
    }
    s->given += n;
    *ret_n = n;
    return NF_OK;
}

/* --------------------------------------------------------------------------------------------------- compressed parts */

int cache__zstd_pack(struct nf_str raw, struct nf_buf *out)
{
    size_t bound = ZSTD_compressBound(raw.len);
    if (!nf_buf_reserve(out, bound))
        return NF_ENOMEM;
    size_t n = ZSTD_compress(out->data + out->len, bound, raw.data ? raw.data : "", raw.len, 3);
    if (ZSTD_isError(n))
        return NF_ENOMEM;
    out->len += n;
    out->data[out->len] = 0;
    return NF_OK;
}

int cache__zstd_unpack(struct nf_str packed, uint64_t raw_bytes, uint64_t limit, struct nf_arena *arena, struct nf_str *ret_raw, struct nf_error *err)
{
    if (raw_bytes > limit)
        return nf_fail(err, NF_ELIMIT, "a part of %llu bytes is over the limit", (unsigned long long)raw_bytes);
    char *out = nf_try_alloc((size_t)raw_bytes + 1); /* before the arena takes it for good: the size is only a claim */
    if (!out)
        return nf_fail(err, NF_ENOMEM, "no memory to unpack %llu bytes", (unsigned long long)raw_bytes);
    size_t n = ZSTD_decompress(out, (size_t)raw_bytes, packed.data ? packed.data : "", packed.len);
    if (ZSTD_isError(n) || n != raw_bytes) {
        free(out);
        return nf_fail(err, NF_ECORRUPT, "a compressed part of the metadata does not unpack");
    }
    *ret_raw = nf_str_n(nf_arena_strn(arena, out, n), n);
    free(out);
    return NF_OK;
}

int cache_meta_text(const struct cache_meta *meta, struct nf_arena *arena, struct nf_str *ret_stablehlo, struct nf_error *err)
{
    if (!meta->stablehlo_zstd.len)
        return nf_fail(err, NF_ENOTFOUND, "the entry holds no StableHLO text");
    return cache__zstd_unpack(meta->stablehlo_zstd, meta->stablehlo_bytes, (uint64_t)1 << 30, arena, ret_stablehlo, err);
}

static struct nf_str reader_field(struct nf_reader *r)
{
    uint64_t len = nf_reader_varint(r);
    if (len > nf_reader_left(r)) {
        r->failed = true;
        return (struct nf_str){0};
    }
    return nf_reader_bytes(r, (size_t)len);
}

int cache_meta_components(const struct cache_meta *meta, struct nf_arena *arena, struct cache_components *ret_list, struct nf_error *err)
{
    struct cache_components list;
    cache_components_init(&list, arena);
    for (size_t i = 0; i < meta->component_count; i++) {
        const struct cache_component *c = &meta->components[i];
        int kind = cache_component_kind_of(c->component);
        if (kind >= 0)
            cache_components_add(&list, (enum cache_component_kind)kind, c->name, c->value, c->location);
    }
    if (meta->ops_zstd.len) {
        struct nf_str raw;
        int rc = cache__zstd_unpack(meta->ops_zstd, meta->ops_bytes, CACHE_OPS_MAX_BYTES, arena, &raw, err);
        if (rc)
            return rc;
        struct nf_reader r = nf_reader_of(raw);
        for (size_t i = 0; nf_reader_left(&r) && !r.failed; i++) {
            char name[32];
            nf_format(name, sizeof(name), "op %zu", i);
            struct nf_str line = reader_field(&r), location = reader_field(&r);
            if (!r.failed)
                cache_components_add(&list, CACHE_COMPONENT_STRUCTURE, nf_str_c(name), line, location);
        }
        if (r.failed)
            return nf_fail(err, NF_ECORRUPT, "the operations in the metadata end in the middle of one");
    }
    *ret_list = list;
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------------------ metadata */

static ProtobufCBinaryData binary(struct nf_str s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)(uintptr_t)(s.data ? s.data : "")};
}

static ProtobufCBinaryData binary_c(const char *s)
{
    return binary(nf_str_c(s));
}

static int ops_pack(const struct cache_meta *meta, struct nf_buf *out, uint64_t *ret_bytes)
{
    struct nf_buf raw = NF_BUF_INIT;
    for (size_t i = 0; i < meta->component_count; i++) {
        const struct cache_component *c = &meta->components[i];
        if (!cache_component_is_op(c))
            continue;
        nf_buf_add_varint(&raw, c->value.len);
        nf_buf_add_str(&raw, c->value);
        nf_buf_add_varint(&raw, c->location.len);
        nf_buf_add_str(&raw, c->location);
    }
    int rc = raw.failed ? NF_ENOMEM : NF_OK;
    if (!rc && raw.len && raw.len <= CACHE_OPS_MAX_BYTES) {
        rc = cache__zstd_pack(nf_buf_str(&raw), out);
        *ret_bytes = raw.len;
    }
    nf_buf_done(&raw);
    return rc;
}

int cache__meta_encode(const struct cache_meta *meta, uint64_t max_text_bytes, struct nf_buf *out, struct nf_error *err)
{
    int rc = cache_namespace_check(meta->cache_namespace, err);
    if (rc)
        return rc;
    if (nf_digest_zero(&meta->key) || (unsigned)meta->kind >= CACHE_KIND_MAX || (meta->kind == CACHE_KIND_FAILURE) != (meta->failure != NULL))
        return nf_fail(err, NF_EINVAL, "an entry needs a key and a kind, and a failure exactly when that is its kind");

    Neffd__Cache__V1__Metadata m = NEFFD__CACHE__V1__METADATA__INIT;
    Neffd__Cache__V1__Failure failure = NEFFD__CACHE__V1__FAILURE__INIT;
    struct nf_buf text = NF_BUF_INIT, ops = NF_BUF_INIT;
    size_t n = 0;
    for (size_t i = 0; i < meta->component_count; i++)
        n += !cache_component_is_op(&meta->components[i]);
    Neffd__Cache__V1__Component *components = nf_alloc_array(n + 1, sizeof(*components)), **pointers = nf_alloc_array(n + 1, sizeof(*pointers));
    ProtobufCBinaryData *log = NULL;
    char space[65];

    n = 0;
    for (size_t i = 0; i < meta->component_count; i++) {
        const struct cache_component *c = &meta->components[i];
        if (cache_component_is_op(c))
            continue;
        int kind = cache_component_kind_of(c->component);
        if (kind < 0) {
            rc = nf_fail(err, NF_EINVAL, "there is no component \"%.*s\"", (int)NF_MIN(c->component.len, 40), c->component.data);
            goto out;
        }
        components[n] = (Neffd__Cache__V1__Component)NEFFD__CACHE__V1__COMPONENT__INIT;
        components[n].component = (char *)(uintptr_t)cache_component_word((enum cache_component_kind)kind);
        components[n].name = binary(c->name);
        components[n].value = binary(c->value);
        pointers[n] = &components[n];
        n++;
    }
    m.schema = CACHE_KEY_SCHEMA;
    m.key = binary(nf_digest_str(&meta->key));
    m.kind = (char *)(uintptr_t)cache_kind_word(meta->kind);
    m.name = binary(meta->name);
    nf_format(space, sizeof(space), "%.*s", NF_STR_ARG(meta->cache_namespace));
    m.cache_namespace = space;
    m.target = binary(meta->target);
    m.compiler = binary(meta->compiler);
    m.toolchain_id = binary(meta->toolchain_id);
    m.created_by = binary(meta->created_by);
    m.host = binary(meta->host);
    m.pid = meta->pid;
    m.compile_id = binary(meta->compile_id);
    m.attempts = meta->attempts;
    m.started_us = meta->started_us;
    m.created_us = meta->created_us;
    m.compile_us = meta->compile_us;
    m.peak_rss_bytes = meta->peak_rss_bytes;
    m.n_components = n;
    m.components = pointers;

    struct cache_sketch sketch;
    uint8_t sketch_bytes[CACHE_SKETCH_BYTES];
    cache_sketch_make(meta->components, meta->component_count, &sketch);
    cache_sketch_encode(&sketch, sketch_bytes);
    m.sketch = binary(nf_str_n(sketch_bytes, sizeof(sketch_bytes)));

    if (meta->stablehlo.len && meta->stablehlo.len <= max_text_bytes) {
        rc = cache__zstd_pack(meta->stablehlo, &text);
        m.stablehlo_zstd = binary(nf_buf_str(&text));
        m.stablehlo_bytes = meta->stablehlo.len;
    }
    if (!rc) {
        rc = ops_pack(meta, &ops, &m.ops_bytes);
        m.ops_zstd = binary(nf_buf_str(&ops));
    }
    if (rc) {
        nf_fail(err, rc, "no memory to pack the metadata");
        goto out;
    }
    if (meta->failure) {
        const struct cache_failure *f = meta->failure;
        failure.code = (char *)(uintptr_t)nf_status_name(f->error.code);
        failure.failure_class = (uint32_t)f->cls;
        failure.stage = (uint32_t)f->error.stage;
        failure.exit_code = f->error.exit_code;
        failure.message = binary_c(f->error.message);
        failure.location = binary_c(f->error.location);
        failure.hint = binary_c(f->error.hint);
        failure.attempts = f->attempts;
        failure.expires_us = f->expires_us;
        log = nf_alloc_array(f->log_count + 1, sizeof(*log));
        for (size_t i = 0; i < f->log_count; i++)
            log[i] = binary(f->log_tail[i]);
        failure.n_log_tail = f->log_count;
        failure.log_tail = log;
        m.failure = &failure;
    }
    /* What people may miss goes first when it does not fit: the text, then the operations. */
    size_t size = neffd__cache__v1__metadata__get_packed_size(&m);
    if (size > CACHE_META_MAX_BYTES) {
        m.stablehlo_zstd = binary((struct nf_str){0});
        m.stablehlo_bytes = 0;
        size = neffd__cache__v1__metadata__get_packed_size(&m);
    }
    if (size > CACHE_META_MAX_BYTES) {
        m.ops_zstd = binary((struct nf_str){0});
        m.ops_bytes = 0;
        size = neffd__cache__v1__metadata__get_packed_size(&m);
    }
    if (size > CACHE_META_MAX_BYTES) {
        rc = nf_fail(err, NF_ELIMIT, "metadata of %zu bytes are over the limit", size);
        goto out;
    }
    if (!nf_buf_reserve(out, size)) {
        rc = nf_fail(err, NF_ENOMEM, "no memory for metadata of %zu bytes", size);
        goto out;
    }
    out->len += neffd__cache__v1__metadata__pack(&m, (uint8_t *)out->data + out->len);
    out->data[out->len] = 0;
out:
    nf_buf_done(&text);
    nf_buf_done(&ops);
    free(components);
    free(pointers);
    free(log);
    return rc;
}
