#include "base/reader.h"

uint64_t nf_reader_varint(struct nf_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70 && !r->failed; shift += 7) {
        uint8_t byte = nf_reader_u8(r);
        if (shift == 63 && byte > 1)
            break; /* more than 64 bits */
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return r->failed ? 0 : v;
    }
    r->failed = true;
    return 0;
}

struct nf_str nf_reader_bytes(struct nf_reader *r, size_t len)
{
    if (r->failed || nf_reader_left(r) < len) {
        r->failed = true;
        return (struct nf_str){NULL, 0};
    }
    struct nf_str s = nf_str_n(r->at, len);
    if (len)
        r->at += len;
    return s;
}

void nf_reader_skip(struct nf_reader *r, size_t len) { (void)nf_reader_bytes(r, len); }
