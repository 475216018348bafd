/* An entry file is whatever somebody left in the directory: footer, metadata, compressed parts and payload are read as the cache does,
 * from a file in memory. Also the toolchain list and aliases' text, which are read by the same code paths of the client. */
#include "base/file.h"
#include "cache/cache_internal.h"
#include "cache/explain.h"
#include "cache/store.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void metadata(const struct cache_meta *meta, struct nf_arena *arena)
{
    struct nf_str text;
    struct cache_components list;
    cache_meta_text(meta, arena, &text, NULL);
    if (cache_meta_components(meta, arena, &list, NULL) == NF_OK) {
        struct cache_request_view view = {list.items, list.count};
        struct cache_explanation e;
        struct cache_sketch sketch;
        struct nf_digest key;
        struct nf_buf line = NF_BUF_INIT;
        cache_sketch_make(list.items, list.count, &sketch);
        cache_key_canonical(list.items, list.count, &key, NULL);
        cache_explain_diff(&view, &view, arena, &e);
        cache_explain_line(&e, &line);
        nf_buf_done(&line);
    }
    if (meta->failure && meta->failure->error.code > 0)
        abort();
}

/* The same bytes with a footer that holds, so that the parts behind the checksums are reached: payload | metadata, split at `cut`. */
static void with_footer(const uint8_t *data, size_t size, int fd)
{
    if (size < 4)
        return;
    uint8_t footer[CACHE_FOOTER_BYTES];
    size_t cut = (size_t)data[0] % (size - 2);
    struct cache_footer f = {
        .kind = (enum cache_kind)(data[1] % CACHE_KIND_MAX),
        .encoding = (enum cache_encoding)(data[1] / 16 % CACHE_ENCODING_MAX),
        .stored_bytes = cut,
        .raw_bytes = data[1] / 16 % CACHE_ENCODING_MAX == CACHE_RAW ? cut : (uint64_t)data[2] * 97,
        .meta_bytes = size - 3 - NF_MIN(cut, size - 3),
        .mtime_s = 1,
    };
    f.stored_bytes = NF_MIN(cut, size - 3);
    if (f.encoding == CACHE_RAW)
        f.raw_bytes = f.stored_bytes;
    f.meta_xxh3 = nf_xxh3(data + 3 + f.stored_bytes, (size_t)f.meta_bytes);
    f.sha256 = nf_digest_of(data + 3, (size_t)f.stored_bytes);
    cache_footer_encode(&f, footer);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data + 3, size - 3, 0) < 0 || pwrite(fd, footer, sizeof(footer), (off_t)(size - 3)) < 0)
        abort();
    struct cache__file file = {.fd = fd};
    if (cache_footer_read(fd, size - 3 + CACHE_FOOTER_BYTES, &file.footer, NULL) != NF_OK)
        abort(); /* what was encoded decodes */
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    cache__tier_check(&file, (uint64_t)1 << 20, NULL, NULL);
    if (cache_meta_decode(nf_str_n(data + 3 + f.stored_bytes, (size_t)f.meta_bytes), arena, &meta, NULL) == NF_OK)
        metadata(&meta, arena);
    cache_meta_read(fd, &file.footer, arena, &meta, NULL);
    nf_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("entry", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    struct cache__file file = {.fd = fd};
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    if (cache_footer_read(fd, size, &file.footer, NULL) == NF_OK) {
        cache__tier_check(&file, (uint64_t)16 << 20, NULL, NULL);
        if (cache_meta_read(fd, &file.footer, arena, &meta, NULL) == NF_OK)
            metadata(&meta, arena);
    }
    if (cache_meta_decode(nf_str_n(data, size), arena, &meta, NULL) == NF_OK)
        metadata(&meta, arena);
    nf_arena_free(arena);
    with_footer(data, size, fd);
    close(fd);
    return 0;
}
