#include "base/digest.h"

#include <nettle/md5.h>
#include <nettle/sha2.h>
#include <xxhash.h>

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(((struct nf_sha256 *)0)->opaque), "room for nettle's state");
_Static_assert(SHA256_DIGEST_SIZE == NF_DIGEST_BYTES, "SHA-256 is 32 bytes");

static struct sha256_ctx *ctx(struct nf_sha256 *s) { return (struct sha256_ctx *)(void *)s->opaque; }

void nf_sha256_init(struct nf_sha256 *s) { sha256_init(ctx(s)); }

void nf_sha256_add(struct nf_sha256 *s, const void *data, size_t len)
{
    if (len)
        sha256_update(ctx(s), len, data);
}

void nf_sha256_add_u64(struct nf_sha256 *s, uint64_t v)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(v >> (8 * i));
    nf_sha256_add(s, bytes, sizeof(bytes));
}

void nf_sha256_add_field(struct nf_sha256 *s, struct nf_str f)
{
    nf_sha256_add_u64(s, f.len);
    nf_sha256_add(s, f.data, f.len);
}

struct nf_digest nf_sha256_end(struct nf_sha256 *s)
{
    struct nf_digest d;
    sha256_digest(ctx(s), NF_DIGEST_BYTES, d.bytes);
    return d;
}

struct nf_digest nf_digest_of(const void *data, size_t len)
{
    struct nf_sha256 s;
    nf_sha256_init(&s);
    nf_sha256_add(&s, data, len);
    return nf_sha256_end(&s);
}

bool nf_digest_eq(const struct nf_digest *a, const struct nf_digest *b) { return memcmp(a, b, sizeof(*a)) == 0; }

bool nf_digest_zero(const struct nf_digest *d)
{
    static const struct nf_digest zero;
    return nf_digest_eq(d, &zero);
}

const char *nf_digest_hex(const struct nf_digest *d, char out[NF_DIGEST_HEX])
{
    for (size_t i = 0; i < NF_DIGEST_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[d->bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[d->bytes[i] & 15];
    }
    out[NF_DIGEST_HEX - 1] = 0;
    return out;
}

int nf_digest_parse(struct nf_str hex, struct nf_digest *ret_digest)
{
    struct nf_digest d;
    if (hex.len != 2 * NF_DIGEST_BYTES)
        return NF_EINVAL;
    for (size_t i = 0; i < NF_DIGEST_BYTES; i++) {
        int high = nf_hex_digit(hex.data[2 * i]), low = nf_hex_digit(hex.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return NF_EINVAL;
        d.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *ret_digest = d;
    return NF_OK;
}

uint64_t nf_xxh3(const void *data, size_t len) { return XXH3_64bits(len ? data : "", len); }

void nf_md5(const void *data, size_t len, uint8_t out[16])
{
    struct md5_ctx md5;
    md5_init(&md5);
    if (len)
        md5_update(&md5, len, data);
    md5_digest(&md5, MD5_DIGEST_SIZE, out);
}
