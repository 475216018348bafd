/* mhlo.sharding as a human writes it, "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", as the OpSharding message that HLO protobuf holds.
 *
 * sharding := "{" ("replicated" | "manual" | "unknown" | "maximal device=" N | tiles | sharding ("," sharding)*) "}"
 * tiles    := "devices=" list (N ("," N)* | "<=" list ("T(" N ("," N)* ")")?) (" last_tile_dim_replicate" | " last_tile_dims={" kind (", " kind)* "}")? */
#include "pipeline/hlo/hlo_proto_internal.h"

enum { TYPE_REPLICATED, TYPE_MAXIMAL, TYPE_TUPLE, TYPE_OTHER, TYPE_MANUAL, TYPE_UNKNOWN };
enum { SHARDING_TYPE = 1, SHARDING_TILES = 3, SHARDING_DEVICES = 4, SHARDING_TUPLE = 5, SHARDING_REPLICATE = 6, SHARDING_LAST = 8, SHARDING_IOTA = 9, SHARDING_PERM = 10 };

static void skip_space(struct nf_str *s)
{
    while (s->len && s->data[0] == ' ') {
        s->data++;
        s->len--;
    }
}

static bool take(struct nf_str *s, const char *word)
{
    skip_space(s);
    if (!nf_str_starts(*s, nf_str_c(word)))
        return false;
    s->data += strlen(word);
    s->len -= strlen(word);
    return true;
}

/* N ("," N)* packed into the field; how many in *ret_n */
static bool put_numbers(struct nf_str *s, uint32_t field, size_t *ret_n, struct nf_buf *o)
{
    struct nf_buf b = NF_BUF_INIT;
    size_t n = 0;
    bool ok = true;
    do {
        int64_t v = 0;
        skip_space(s);
        ok = s->len && s->data[0] >= '0' && s->data[0] <= '9';
        while (ok && s->len && s->data[0] >= '0' && s->data[0] <= '9') {
            ok = v < 1 << 24;
            v = v * 10 + (s->data[0] - '0');
            s->data++;
            s->len--;
        }
        nf_buf_add_varint(&b, (uint64_t)v);
        n++;
    } while (ok && take(s, ","));
    if (ok)
        pb_put_bytes(o, field, nf_buf_str(&b));
    nf_buf_done(&b);
    *ret_n = n;
    return ok;
}

static bool put_tiles(struct nf_str *s, struct nf_buf *o)
{
    size_t n;
    pb_put_uint(o, SHARDING_TYPE, TYPE_OTHER);
    if (!take(s, "[") || !put_numbers(s, SHARDING_TILES, &n, o) || !take(s, "]"))
        return false;
    if (take(s, "<=")) {
        if (!take(s, "[") || !put_numbers(s, SHARDING_IOTA, &n, o) || !take(s, "]"))
            return false;
        if (take(s, "T(")) {
            if (!put_numbers(s, SHARDING_PERM, &n, o) || !take(s, ")"))
                return false;
        } else {
            struct nf_buf perm = NF_BUF_INIT;
            for (size_t i = 0; i < n; i++)
                nf_buf_add_varint(&perm, i);
            pb_put_bytes(o, SHARDING_PERM, nf_buf_str(&perm));
            nf_buf_done(&perm);
        }
    } else if (!put_numbers(s, SHARDING_DEVICES, &n, o)) {
        return false;
    }
    if (take(s, "last_tile_dim_replicate")) {
        pb_put_uint(o, SHARDING_REPLICATE, 1);
    } else if (take(s, "last_tile_dims={")) {
        struct nf_buf kinds = NF_BUF_INIT;
        bool ok = true;
        do {
            bool manual = take(s, "manual");
            ok = manual || take(s, "replicated");
            nf_buf_add_varint(&kinds, manual ? TYPE_MANUAL : TYPE_REPLICATED);
        } while (ok && take(s, ","));
        pb_put_bytes(o, SHARDING_LAST, nf_buf_str(&kinds));
        nf_buf_done(&kinds);
        return ok && take(s, "}");
    }
    return true;
}

static bool put_one(struct nf_str *s, unsigned depth, struct nf_buf *o)
{
    size_t n;
    skip_space(s);
    if (depth > 8 || !take(s, "{"))
        return false;
    if (s->len && s->data[0] == '{') {
        pb_put_uint(o, SHARDING_TYPE, TYPE_TUPLE);
        do {
            struct nf_buf part = NF_BUF_INIT;
            bool ok = put_one(s, depth + 1, &part);
            pb_put_bytes(o, SHARDING_TUPLE, nf_buf_str(&part));
            nf_buf_done(&part);
            if (!ok)
                return false;
        } while (take(s, ","));
    } else if (take(s, "manual")) {
        pb_put_uint(o, SHARDING_TYPE, TYPE_MANUAL);
    } else if (take(s, "unknown")) {
        pb_put_uint(o, SHARDING_TYPE, TYPE_UNKNOWN);
    } else if (take(s, "maximal device=")) {
        pb_put_uint(o, SHARDING_TYPE, TYPE_MAXIMAL);
        pb_put_bytes(o, SHARDING_TILES, NF_STR("\x01"));
        if (!put_numbers(s, SHARDING_DEVICES, &n, o) || n != 1)
            return false;
    } else if (take(s, "devices=")) {
        if (!put_tiles(s, o))
            return false;
    } else if (!take(s, "replicated")) {
        return false;
    }
    return take(s, "}");
}

bool hp_put_sharding(struct nf_str text, struct nf_buf *o)
{
    struct nf_buf b = NF_BUF_INIT;
    bool ok = put_one(&text, 0, &b) && !text.len;
    if (ok)
        pb_put_bytes(o, INST_SHARDING, nf_buf_str(&b));
    nf_buf_done(&b);
    return ok;
}
