/* digest.h: SHA-256 for whatever an adversary may want to forge (keys, artifacts), XXH3 for the rest. */
#ifndef NEFFD_BASE_DIGEST_H
#define NEFFD_BASE_DIGEST_H

#include "base/str.h"

#define NF_DIGEST_BYTES 32
#define NF_DIGEST_HEX 65 /* with the terminator */

struct nf_digest {
    uint8_t bytes[NF_DIGEST_BYTES];
};

/* In place, opaque storage of nettle's sha256_ctx. */
struct nf_sha256 {
    _Alignas(8) unsigned char opaque[128];
};

void nf_sha256_init(struct nf_sha256 *s);
void nf_sha256_add(struct nf_sha256 *s, const void *data, size_t len);
void nf_sha256_add_u64(struct nf_sha256 *s, uint64_t v);           /* little-endian */
void nf_sha256_add_field(struct nf_sha256 *s, struct nf_str f);    /* length (u64 LE), then the bytes: never ambiguous */
struct nf_digest nf_sha256_end(struct nf_sha256 *s);               /* s may be reused after init */
struct nf_digest nf_digest_of(const void *data, size_t len);

bool nf_digest_eq(const struct nf_digest *a, const struct nf_digest *b);
bool nf_digest_zero(const struct nf_digest *d);
const char *nf_digest_hex(const struct nf_digest *d, char out[NF_DIGEST_HEX]); /* returns out */
int nf_digest_parse(struct nf_str hex, struct nf_digest *ret_digest); /* 64 hex digits; NF_EINVAL */
static inline struct nf_str nf_digest_str(const struct nf_digest *d) { return nf_str_n(d->bytes, NF_DIGEST_BYTES); }

/* Only to recognise what other tools have written. */
void nf_md5(const void *data, size_t len, uint8_t out[16]);

uint64_t nf_xxh3(const void *data, size_t len);

#endif
