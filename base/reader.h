/* reader.h: bounded reading of hostile bytes. The first overrun sets `failed` (sticky), later reads give 0 and empty, so a
 * decoder checks once per record. offset() is for error messages. */
#ifndef NEFFD_BASE_READER_H
#define NEFFD_BASE_READER_H

#include "base/str.h"

struct nf_reader {
    const uint8_t *begin, *at, *end;
    bool failed;
};

static inline struct nf_reader nf_reader_of(struct nf_str s)
{
    const uint8_t *p = (const uint8_t *)s.data;
    return (struct nf_reader){p, p, p ? p + s.len : p, false};
}
static inline size_t nf_reader_left(const struct nf_reader *r) { return (size_t)(r->end - r->at); }
static inline size_t nf_reader_offset(const struct nf_reader *r) { return (size_t)(r->at - r->begin); }

/* Inline: formats are thousands of these, and the compiler makes one load of each. */
static inline uint64_t nf__reader_le(struct nf_reader *r, size_t bytes)
{
    if (r->failed || nf_reader_left(r) < bytes) {
        r->failed = true;
        return 0;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return v;
}
static inline uint8_t nf_reader_u8(struct nf_reader *r) { return (uint8_t)nf__reader_le(r, 1); }
static inline uint16_t nf_reader_u16le(struct nf_reader *r) { return (uint16_t)nf__reader_le(r, 2); }
static inline uint32_t nf_reader_u32le(struct nf_reader *r) { return (uint32_t)nf__reader_le(r, 4); }
static inline uint64_t nf_reader_u64le(struct nf_reader *r) { return nf__reader_le(r, 8); }
uint64_t nf_reader_varint(struct nf_reader *r);                    /* protobuf's base-128, at most 10 bytes */
struct nf_str nf_reader_bytes(struct nf_reader *r, size_t len);    /* a view */
void nf_reader_skip(struct nf_reader *r, size_t len);

#endif
