/* hlo_proto_digest: what an HloModuleProto means, without importing it. See hlo_proto.h.
 *
 * Computations are hashed in order of first use from the entry; a computation's digest stands for it where it is called, so ids of
 * computations vanish. Inside, an instruction is named by its position. Fields are taken in the order of their numbers where they are
 * scalars and in wire order within a number; unknown fields count as bytes. */
#include "pipeline/hlo/hlo_proto_fields.h"
#include "pipeline/hlo/hlo_proto.h"
#include "pipeline/hlo/pb.h"

#include <stdlib.h>

struct comp {
    int64_t id, root;
    struct nf_str message;
    struct nf_digest digest;
    int state;              /* 0 not yet, 1 being hashed, 2 done */
};
struct hasher {
    struct comp *comps;
    size_t n;
    int64_t entry;
    struct nf_error *err;
    unsigned depth;
};

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct comp *)a)->id, y = ((const struct comp *)b)->id;
    return (x > y) - (x < y);
}

struct position {
    int64_t id;
    uint64_t at;
};
static int by_position_id(const void *a, const void *b)
{
    int64_t x = ((const struct position *)a)->id, y = ((const struct position *)b)->id;
    return (x > y) - (x < y);
}

static uint64_t position_of(const struct position *v, size_t n, int64_t id)
{
    struct position key = {id, 0};
    const struct position *p = bsearch(&key, v, n, sizeof(key), by_position_id);
    return p ? p->at : UINT64_MAX;
}

static bool ignored(uint32_t num, bool keep_name)
{
    switch (num) {
    case INST_NAME: return !keep_name;
    case INST_METADATA:
    case INST_ID:
    case INST_STATISTICS:
    case INST_ORIGINAL_VALUE: return true;
    default: return false;
    }
}

static void add_field(struct nf_sha256 *s, const struct pb_field *f)
{
    nf_sha256_add_u64(s, (uint64_t)f->num << 3 | f->wire);
    if (f->wire == PB_BYTES)
        nf_sha256_add_field(s, f->bytes);
    else
        nf_sha256_add_u64(s, f->v);
}

static int hash_comp(struct hasher *h, int64_t id, struct nf_digest *ret);

/* Each id of a field, packed or not, through fn. */
static int each_id(struct hasher *h, struct nf_sha256 *s, const struct pb_field *f, const struct position *positions, size_t n, bool computations)
{
    struct nf_reader r = nf_reader_of(f->bytes);
    uint64_t v = f->v;
    int e = 0;
    do {
        if (f->wire == PB_BYTES) {
            if (!nf_reader_left(&r))
                break;
            v = nf_reader_varint(&r);
        }
        if (computations) {
            struct nf_digest d;
            if ((e = hash_comp(h, (int64_t)v, &d)))
                return e;
            nf_sha256_add(s, d.bytes, sizeof(d.bytes));
        } else {
            nf_sha256_add_u64(s, position_of(positions, n, (int64_t)v));
        }
    } while (f->wire == PB_BYTES && !r.failed);
    return r.failed ? nf_fail(h->err, NF_EGRAPH, "a list of ids is cut") : 0;
}

static int hash_inst(struct hasher *h, struct nf_sha256 *s, struct nf_str message, const struct position *positions, size_t n, bool entry)
{
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    bool keep_name = entry && nf_str_eq_c(pb_bytes(message, INST_OPCODE), "parameter");
    int e = 0;
    while (!e && pb_next(&r, &f)) {
        if (ignored(f.num, keep_name) || (f.wire == PB_BYTES && f.bytes.len == 0))
            continue;
        if (f.num == INST_OPERANDS || f.num == INST_CONTROL || f.num == INST_CALLED) {
            nf_sha256_add_u64(s, f.num);
            e = each_id(h, s, &f, positions, n, f.num == INST_CALLED);
        } else {
            add_field(s, &f);
        }
    }
    nf_sha256_add_u64(s, 0);
    return e ? e : r.failed ? nf_fail(h->err, NF_EGRAPH, "an instruction is cut") : 0;
}

/* Results of the entry keep their names: those of the root's operands when it is a tuple. */
static void add_result_names(struct nf_sha256 *s, const struct comp *c)
{
    struct nf_reader r = nf_reader_of(c->message);
    struct pb_field f;
    struct nf_str root = {0};
    while (pb_next(&r, &f))
        if (f.num == COMP_INSTRUCTIONS && f.wire == PB_BYTES && (int64_t)pb_uint(f.bytes, INST_ID, 0) == c->root)
            root = f.bytes;
    if (!nf_str_eq_c(pb_bytes(root, INST_OPCODE), "tuple")) {
        nf_sha256_add_field(s, pb_bytes(root, INST_NAME));
        return;
    }
    struct nf_str ids = pb_bytes(root, INST_OPERANDS);
    struct nf_reader ids_reader = nf_reader_of(ids);
    while (nf_reader_left(&ids_reader) && !ids_reader.failed) {
        int64_t id = (int64_t)nf_reader_varint(&ids_reader);
        r = nf_reader_of(c->message);
        while (pb_next(&r, &f))
            if (f.num == COMP_INSTRUCTIONS && f.wire == PB_BYTES && (int64_t)pb_uint(f.bytes, INST_ID, 0) == id)
                nf_sha256_add_field(s, pb_bytes(f.bytes, INST_NAME));
    }
}

static int hash_comp(struct hasher *h, int64_t id, struct nf_digest *ret)
{
    struct comp key = {.id = id}, *c = bsearch(&key, h->comps, h->n, sizeof(key), by_id);
    struct nf_reader r;
    struct pb_field f;
    size_t n = 0, at = 0;
    int e = 0;
    if (!c || c->state == 1 || h->depth > 256)
        return nf_fail(h->err, NF_EGRAPH, !c ? "a called computation is missing" : "computations that call each other in a circle, or nest too deeply");
    if (c->state == 2) {
        *ret = c->digest;
        return 0;
    }
    c->state = 1;
    r = nf_reader_of(c->message);
    while (pb_next(&r, &f))
        n += f.num == COMP_INSTRUCTIONS && f.wire == PB_BYTES;
    struct position *positions = nf_alloc_array(n + 1, sizeof(*positions));
    r = nf_reader_of(c->message);
    while (at < n && pb_next(&r, &f))
        if (f.num == COMP_INSTRUCTIONS && f.wire == PB_BYTES) {
            positions[at] = (struct position){(int64_t)pb_uint(f.bytes, INST_ID, 0), at};
            at++;
        }
    qsort(positions, n, sizeof(*positions), by_position_id);
    struct nf_sha256 s;
    nf_sha256_init(&s);
    r = nf_reader_of(c->message);
    h->depth++;
    while (!e && pb_next(&r, &f)) {
        if (f.num == COMP_INSTRUCTIONS && f.wire == PB_BYTES)
            e = hash_inst(h, &s, f.bytes, positions, n, c->id == h->entry);
        else if (f.num == COMP_ROOT)
            nf_sha256_add_u64(&s, position_of(positions, n, (int64_t)f.v));
        else if (f.num != COMP_NAME && f.num != COMP_ID && f.num != COMP_PROGRAM_SHAPE)
            add_field(&s, &f); /* the program shape repeats parameters and root, with their names */
    }
    h->depth--;
    if (c->id == h->entry)
        add_result_names(&s, c);
    free(positions);
    if (e)
        return e;
    if (r.failed)
        return nf_fail(h->err, NF_EGRAPH, "a computation is cut");
    c->digest = nf_sha256_end(&s);
    c->state = 2;
    *ret = c->digest;
    return 0;
}

int hlo_proto_digest(struct nf_str bytes, struct nf_digest *ret_digest, struct nf_error *err)
{
    struct hasher h = {.err = err, .entry = (int64_t)pb_uint(bytes, MODULE_ENTRY_ID, 0)};
    struct nf_reader r = nf_reader_of(bytes);
    struct pb_field f;
    struct nf_sha256 s;
    struct nf_digest entry;
    while (pb_next(&r, &f))
        h.n += f.num == MODULE_COMPUTATIONS && f.wire == PB_BYTES;
    if (r.failed || h.n == 0)
        return nf_fail(err, NF_EGRAPH, "no HloModuleProto, or it is cut");
    h.comps = nf_alloc_array(h.n, sizeof(*h.comps));
    nf_sha256_init(&s);
    nf_sha256_add_field(&s, NF_STR("neffd hlo proto 1"));
    r = nf_reader_of(bytes);
    size_t at = 0;
    while (pb_next(&r, &f)) {
        switch (f.num) {
        case MODULE_COMPUTATIONS:
            if (f.wire == PB_BYTES)
                h.comps[at++] = (struct comp){.id = (int64_t)pb_uint(f.bytes, COMP_ID, 0), .root = (int64_t)pb_uint(f.bytes, COMP_ROOT, 0), .message = f.bytes};
            break;
        case MODULE_NAME:
        case MODULE_ENTRY_NAME:
        case MODULE_PROGRAM_SHAPE:
        case MODULE_ID:
        case MODULE_ENTRY_ID:
        case MODULE_SCHEDULE:
        case MODULE_PROFILE:
        case MODULE_STACK_FRAMES: break;
        default:
            if (f.wire != PB_BYTES || f.bytes.len)
                add_field(&s, &f);
        }
    }
    qsort(h.comps, h.n, sizeof(*h.comps), by_id);
    int e = hash_comp(&h, h.entry, &entry);
    free(h.comps);
    if (e)
        return e;
    nf_sha256_add(&s, entry.bytes, sizeof(entry.bytes));
    *ret_digest = nf_sha256_end(&s);
    return 0;
}
