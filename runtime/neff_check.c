/* neff_check.c: everything that is wrong with a file, for `neffctl neff check`, for the driver's verdict on a compiler's output,
 * and before an artifact is sent to a device that lacks features. */
#include "runtime/neff_internal.h"

#include <zlib.h>

#define INFLATE_LIMIT ((size_t)16 << 30)

int neff__inflate(struct nf_str packed, size_t limit_bytes, struct nf_buf *ret_bytes, struct nf_error *err)
{
    z_stream z = {0};
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return nf_fail(err, NF_ENOMEM, "cannot start to unpack the archive");
    int r = NF_OK, zr = Z_OK;
    size_t left = packed.len;
    z.next_in = (Bytef *)(uintptr_t)packed.data;
    while (zr != Z_STREAM_END) {
        if (z.avail_in == 0 && left > 0) {
            z.avail_in = (uInt)NF_MIN(left, (size_t)1 << 30);
            left -= z.avail_in;
        }
        size_t room = NF_MIN((size_t)1 << 18, limit_bytes > ret_bytes->len ? limit_bytes - ret_bytes->len : 0);
        if (room == 0) {
            r = nf_fail(err, NF_ELIMIT, "the unpacked archive is larger than %zu bytes", limit_bytes);
            break;
        }
        if (!nf_buf_reserve(ret_bytes, room)) {
            r = nf_fail(err, NF_ENOMEM, "out of memory while unpacking the archive");
            break;
        }
        z.next_out = (Bytef *)(ret_bytes->data + ret_bytes->len);
        z.avail_out = (uInt)room;
        zr = inflate(&z, Z_NO_FLUSH);
        ret_bytes->len += room - z.avail_out;
        if (zr == Z_BUF_ERROR || (zr != Z_OK && zr != Z_STREAM_END)) {
            nf_fail(err, NF_ECORRUPT, "damaged NEFF archive: gzip stream %s", zr == Z_BUF_ERROR ? "ends early" : "is broken");
            nf_error_location(err, "byte %zu", NEFF_HEADER_BYTES + (size_t)z.total_in);
            r = NF_ECORRUPT;
            break;
        }
    }
    inflateEnd(&z);
    return r;
}

struct checking {
    struct nf_arena *arena;
    const char **v;
    size_t count, cap;
};

static void problem(struct checking *c, const char *fmt, ...) NF_PRINTF(2, 3);
static void problem(struct checking *c, const char *fmt, ...)
{
    if (c->count == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 8;
        const char **v = NF_NEW_ARRAY(c->arena, const char *, cap);
        if (c->count)
            memcpy(v, c->v, c->count * sizeof(*v));
        c->v = v;
        c->cap = cap;
    }
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->v[c->count++] = nf_arena_strn(c->arena, text, strlen(text));
}

static enum neff_hash which_hash(const struct neff_header *h, struct nf_str data)
{
    static const uint8_t none[32];
    if (memcmp(h->hash, none, 32) == 0)
        return NEFF_HASH_NONE;
    struct nf_digest sha = nf_digest_of(data.data, data.len);
    if (memcmp(h->hash, sha.bytes, 32) == 0)
        return NEFF_HASH_SHA256;
    uint8_t md5[16];
    nf_md5(data.data, data.len, md5);
    if (memcmp(h->hash, md5, 16) == 0 && memcmp(h->hash + 16, none, 16) == 0)
        return NEFF_HASH_MD5;
    return NEFF_HASH_OTHER;
}

static bool hash_holds(const struct neff *n, enum neff_hash hash) { return !n->has_manifest || hash == NEFF_HASH_SHA256; }

int neff_check_hash(const struct neff *n, struct nf_str bytes, struct nf_error *err)
{
    struct neff_header h;
    neff__header_decode((const uint8_t *)bytes.data, &h);
    if (hash_holds(n, which_hash(&h, nf_str_n(bytes.data + NEFF_HEADER_BYTES, bytes.len - NEFF_HEADER_BYTES))))
        return NF_OK;
    nf_fail(err, NF_ECORRUPT, "damaged NEFF: the hash in the header is not that of the archive");
    nf_error_hint(err, "compile it again");
    return NF_ECORRUPT;
}

static bool name_leaves_tree(const char *name)
{
    if (name[0] == '/')
        return true;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == 0))
            return true;
        if (*p == 0)
            break;
    }
    return false;
}

static void check_members(struct checking *c, const struct neff *n)
{
    for (size_t i = 0; i < n->member_count; i++)
        if (name_leaves_tree(n->members[i].name))
            problem(c, "member %s: the name leaves the archive", n->members[i].name);
    if (n->member_count == 0)
        problem(c, "the archive is empty");
}

size_t neff_check(struct nf_str bytes, const struct neff_expect *expect, struct nf_arena *arena,
                  const char *const **ret_problems, enum neff_hash *ret_hash)
{
    static const struct neff_expect anything;
    const struct neff_expect *x = expect ? expect : &anything;
    struct checking c = {.arena = arena};
    struct neff *n = NULL;
    if (ret_hash)
        *ret_hash = NEFF_HASH_NOT_CHECKED;
    if (bytes.len < NEFF_HEADER_BYTES) {
        problem(&c, bytes.len ? "the file has %zu bytes, a header alone has 1024" : "the file is empty", bytes.len);
        goto out;
    }
    struct neff_header h;
    neff__header_decode((const uint8_t *)bytes.data, &h);
    if (h.header_size != NEFF_HEADER_BYTES) {   /* the other fields say nothing then */
        problem(&c, "it is no NEFF: header_size is %llu, not 1024", (unsigned long long)h.header_size);
        goto out;
    }
    if (h.data_size != bytes.len - NEFF_HEADER_BYTES)
        problem(&c, "data_size is %llu, but %zu bytes follow the header", (unsigned long long)h.data_size, bytes.len - NEFF_HEADER_BYTES);
    if (h.version_major == 0)
        problem(&c, "the version is %llu.%llu", (unsigned long long)h.version_major, (unsigned long long)h.version_minor);
    if (h.lnc_size > 2)
        problem(&c, "lnc_size is %u; 0, 1 and 2 are known", h.lnc_size);
    if (x->lnc_size && h.lnc_size && h.lnc_size != x->lnc_size)
        problem(&c, "lnc_size is %u, %u was asked for", h.lnc_size, x->lnc_size);
    if (x->feature_mask && (h.feature_bits & ~x->feature_mask))
        problem(&c, "features 0x%llx are not supported, only 0x%llx are", (unsigned long long)(h.feature_bits & ~x->feature_mask),
                (unsigned long long)x->feature_mask);
    if (c.count > 0)
        goto out;
    if (h.data_size == 0) {
        problem(&c, "there is no archive after the header");
        goto out;
    }
    struct nf_error err = {0};
    int r = x->members ? neff_open_inflated(bytes, INFLATE_LIMIT, &n, &err) : neff_open(bytes, &n, &err);
    if (r != NF_OK) {
        problem(&c, "%s%s%s", err.message, err.location[0] ? ", at " : "", err.location);
        goto out;
    }
    if (!n->compressed || n->inflated)
        check_members(&c, n);
    if (x->target && n->target[0] && strcmp(x->target, n->target) != 0)
        problem(&c, "it is for target %s, %s was asked for", n->target, x->target);
    if (x->hash) {
        enum neff_hash hash = which_hash(&h, nf_str_n(bytes.data + NEFF_HEADER_BYTES, bytes.len - NEFF_HEADER_BYTES));
        if (ret_hash)
            *ret_hash = hash;
        if (!hash_holds(n, hash))
            problem(&c, "the hash in the header is not that of the archive");
    }
out:
    neff_close(n);
    *ret_problems = c.v;
    return c.count;
}

const char *neff_hash_name(enum neff_hash h)
{
    switch (h) {
    case NEFF_HASH_SHA256: return "sha256";
    case NEFF_HASH_MD5: return "md5";
    case NEFF_HASH_NONE: return "none";
    case NEFF_HASH_OTHER: return "other";
    case NEFF_HASH_NOT_CHECKED:
    case NEFF_HASH_MAX: break;
    }
    return "not checked";
}
