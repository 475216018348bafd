/* Shardings as the OpSharding message that HLO protobuf holds: those of Shardy, which name axes of a mesh, and mhlo.sharding as a human
 * writes it, "{devices=[2,1,2]<=[4] last_tile_dim_replicate}".
 *
 * sharding := "{" ("replicated" | "manual" | "unknown" | "maximal device=" N | tiles | sharding ("," sharding)*) "}"
 * tiles    := "devices=" list (N ("," N)* | "<=" list ("T(" N ("," N)* ")")?) (" last_tile_dim_replicate" | " last_tile_dims={" kind (", " kind)* "}")? */
#include "pipeline/hlo/hlo_proto_internal.h"
#include "pipeline/hlo/mesh.h"

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

/* False: the mesh does not say. */
static bool put_mesh_sharding(struct hlo_module *m, const struct hlo_attr *sdy, struct nf_buf *o)
{
    struct nf_str s = sdy->kind == HLO_ATTR_OPAQUE ? sdy->str : nf_str_n("", 0), text = s, name;
    struct hlo_mesh mesh;
    struct hlo_mesh_cut cut;
    (void)nf_str_cut(&s, '@');
    bool quoted = s.len && s.data[0] == '"';
    if (quoted) {
        s.data++;
        s.len--;
    }
    name = nf_str_cut(&s, quoted ? '"' : ',');
    struct hlo_attr symbol = {.kind = HLO_ATTR_SYMBOL, .str = name};
    if (!name.len || !hlo_mesh_of(m, &symbol, m->arena, &mesh) || !mesh.n || !hlo_mesh_next_cut(&mesh, &text, &cut))
        return false;
    int64_t tiles = 1, dims[HLO_MESH_RANK_MAX + 1];
    for (int d = 0; d < cut.rank; d++) {
        dims[d] = 1;
        for (unsigned k = 0; k < cut.n_parts[d]; k++)
            dims[d] *= cut.parts[d][k].size;
        tiles *= dims[d];
        if (tiles > mesh.devices)
            return false;
    }
    int64_t copies = mesh.devices / tiles;
    if (tiles > 1) { /* devices tile after tile; those that hold the same one behind each other */
        int64_t *at = NF_NEW_ARRAY(m->arena, int64_t, (size_t)mesh.devices), *n = NF_NEW_ARRAY(m->arena, int64_t, (size_t)tiles);
        for (int64_t pos = 0; pos < mesh.devices; pos++) {
            int64_t tile = 0;
            for (int d = 0; d < cut.rank; d++)
                for (unsigned k = 0; k < cut.n_parts[d]; k++)
                    tile = tile * cut.parts[d][k].size + pos / cut.parts[d][k].stride % cut.parts[d][k].size;
            if (n[tile] == copies) /* an axis that is named twice */
                return false;
            at[tile * copies + n[tile]++] = mesh.device_at[pos];
        }
        dims[cut.rank] = copies;
        pb_put_uint(o, SHARDING_TYPE, TYPE_OTHER);
        pb_put_ints(o, SHARDING_TILES, (size_t)cut.rank + (copies > 1), dims);
        pb_put_ints(o, SHARDING_DEVICES, (size_t)mesh.devices, at);
        pb_put_uint(o, SHARDING_REPLICATE, copies > 1);
    }
    return true; /* of one tile: replicated, which is an empty message */
}

bool hp_sharding(struct hlo_module *m, const struct hlo_attr *sharding, const struct hlo_attr *sdy, struct nf_buf *message, bool *ret_any)
{
    *ret_any = false;
    if (sharding && sharding->kind == HLO_ATTR_STRING) {
        struct nf_str text = sharding->str;
        bool spelled = nf_str_starts(text, NF_STR("{"));
        if (spelled && (!put_one(&text, 0, message) || text.len))
            return false;
        if (!spelled)
            nf_buf_add_str(message, text);
        *ret_any = true;
    } else if (sdy && m) {
        *ret_any = put_mesh_sharding(m, sdy, message);
    }
    return true;
}

bool hp_result_shardings(struct hlo_module *m, const struct hlo_op *func, struct nf_buf *o)
{
    uint32_t n = hlo_func_block(func)->last->num_operands;
    struct nf_buf tuple = NF_BUF_INIT;
    bool all = n > 0, ok = true;
    pb_put_uint(&tuple, SHARDING_TYPE, TYPE_TUPLE);
    for (uint32_t i = 0; i < n && all && ok; i++) {
        struct nf_buf one = NF_BUF_INIT;
        ok = hp_sharding(m, hlo_func_result_attr(func, i, NF_STR("mhlo.sharding")), hlo_func_result_attr(func, i, NF_STR("sdy.sharding")), &one, &all);
        pb_put_bytes(&tuple, SHARDING_TUPLE, nf_buf_str(&one));
        nf_buf_done(&one);
    }
    if (all && ok)
        pb_put_bytes(o, INST_SHARDING, nf_buf_str(&tuple));
    nf_buf_done(&tuple);
    return ok;
}

size_t hp_tuple_shardings(struct nf_str message, size_t max, struct nf_str *ret)
{
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    size_t n = 0;
    while (pb_uint(message, SHARDING_TYPE, 0) == TYPE_TUPLE && n <= max && pb_next(&r, &f))
        if (f.num == SHARDING_TUPLE && f.wire == PB_BYTES) {
            if (n < max)
                ret[n] = f.bytes;
            n++;
        }
    return n;
}
