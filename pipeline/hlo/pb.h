/* pb.h: bounded reading and writing of protobuf's wire format, field by field, without copies. For messages that are too large
 * or too deep for a generated decoder (HloModuleProto: hundreds of megabytes of constants). */
#ifndef NEFFD_PIPELINE_HLO_PB_H
#define NEFFD_PIPELINE_HLO_PB_H

#include "base/reader.h"

enum { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb_field {
    uint32_t num;
    unsigned wire;
    uint64_t v;             /* varint and fixed */
    struct nf_str bytes;    /* PB_BYTES: a view */
};

/* The next field; false at the end or when r->failed (cut, a group, field number 0). */
static inline bool pb_next(struct nf_reader *r, struct pb_field *ret)
{
    if (r->failed || nf_reader_left(r) == 0)
        return false;
    uint64_t tag = nf_reader_varint(r);
    *ret = (struct pb_field){.num = (uint32_t)(tag >> 3), .wire = (unsigned)(tag & 7)};
    if (ret->num == 0 || tag >> 3 > 536870911)
        r->failed = true;
    else if (ret->wire == PB_VARINT)
        ret->v = nf_reader_varint(r);
    else if (ret->wire == PB_FIXED64)
        ret->v = nf_reader_u64le(r);
    else if (ret->wire == PB_FIXED32)
        ret->v = nf_reader_u32le(r);
    else if (ret->wire == PB_BYTES) {
        uint64_t n = nf_reader_varint(r);
        if (n > nf_reader_left(r))
            r->failed = true;
        else
            ret->bytes = nf_reader_bytes(r, (size_t)n);
    } else
        r->failed = true;
    return !r->failed;
}

/* The last field of that number in a message; false if there is none (or the message is cut before it). */
static inline bool pb_find(struct nf_str message, uint32_t num, struct pb_field *ret)
{
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    bool found = false;
    while (pb_next(&r, &f))
        if (f.num == num) {
            *ret = f;
            found = true;
        }
    return found;
}

static inline uint64_t pb_uint(struct nf_str message, uint32_t num, uint64_t absent)
{
    struct pb_field f;
    return pb_find(message, num, &f) && f.wire != PB_BYTES ? f.v : absent;
}

static inline struct nf_str pb_bytes(struct nf_str message, uint32_t num)
{
    struct pb_field f;
    return pb_find(message, num, &f) && f.wire == PB_BYTES ? f.bytes : nf_str_n("", 0);
}

/* Value of a key in a map<string, string> message; empty if it is not there. */
static inline struct nf_str pb_map_value(struct nf_str map, const char *key)
{
    struct nf_reader r = nf_reader_of(map);
    struct pb_field f;
    while (pb_next(&r, &f))
        if (f.num == 1 && f.wire == PB_BYTES && nf_str_eq_c(pb_bytes(f.bytes, 1), key))
            return pb_bytes(f.bytes, 2);
    return nf_str_n("", 0);
}

static inline void pb_put_tag(struct nf_buf *o, uint32_t num, unsigned wire) { nf_buf_add_varint(o, (uint64_t)num << 3 | wire); }
static inline void pb_put_uint(struct nf_buf *o, uint32_t num, uint64_t v) /* zero is left out, as proto3 does */
{
    if (!v)
        return;
    pb_put_tag(o, num, PB_VARINT);
    nf_buf_add_varint(o, v);
}
static inline void pb_put_bytes(struct nf_buf *o, uint32_t num, struct nf_str s)
{
    pb_put_tag(o, num, PB_BYTES);
    nf_buf_add_varint(o, s.len);
    nf_buf_add_str(o, s);
}
static inline void pb_put_ints(struct nf_buf *o, uint32_t num, size_t n, const int64_t *v) /* packed; none are left out */
{
    struct nf_buf b = NF_BUF_INIT;
    for (size_t i = 0; i < n; i++)
        nf_buf_add_varint(&b, (uint64_t)v[i]);
    if (n)
        pb_put_bytes(o, num, nf_buf_str(&b));
    nf_buf_done(&b);
}

#endif
