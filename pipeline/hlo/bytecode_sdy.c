/* Attributes of the sdy dialect (Shardy) in bytecode: decoded into their spelling, which is how the IR keeps them. The encoding
 * was read off artifacts of jaxlib 0.10; codes below. */
#include "pipeline/hlo/bytecode_internal.h"

enum {
    SDY_MANUAL_AXES, SDY_MESH_AXIS, SDY_MESH, SDY_SUB_AXIS, SDY_AXIS_REF, SDY_DIMENSION, SDY_SHARDING, SDY_PER_VALUE,
    SDY_DIM_MAPPING, SDY_TENSOR_MAPPING, SDY_RULE, SDY_SHARDING_UNREDUCED = 15,
};

static int string_of(struct bc *b, struct nf_reader *r, struct nf_buf *o)
{
    struct nf_str s;
    int e = hlo__bc_string_at(b, hlo__bc_varint(r), r->at, &s);
    struct hlo_attr quoted = {.kind = HLO_ATTR_STRING, .str = s};
    if (!e)
        hlo_attr_print(&quoted, o);
    return e;
}

/* The attribute's spelling; `without` is cut off its front. */
static int part_of(struct bc *b, uint64_t index, const void *at, struct nf_str without, struct nf_buf *o)
{
    const struct hlo_attr *a;
    int e = hlo__bc_attr_at(b, index, at, &a);
    if (e)
        return e;
    if (a->kind == HLO_ATTR_SYMBOL || a->kind == HLO_ATTR_STRING) {
        hlo_attr_print(a, o);
        return 0;
    }
    if (a->kind != HLO_ATTR_OPAQUE || !nf_str_starts(a->str, without))
        return hlo__bc_fail(b, at, NF_EGRAPH, "a part of a sharding is of another kind");
    nf_buf_add(o, a->str.data + without.len, a->str.len - without.len);
    return 0;
}

static int list_of(struct bc *b, struct nf_reader *r, struct nf_str without, bool *ret_any, struct nf_buf *o)
{
    size_t n = hlo__bc_count(r);
    int e = 0;
    for (size_t i = 0; i < n && !e; i++) {
        if (i)
            nf_buf_add_c(o, ", ");
        e = part_of(b, hlo__bc_varint(r), r->at, without, o);
    }
    *ret_any = n > 0;
    return e;
}

/* name={a, b}, when there are any */
static int named_list(struct bc *b, struct nf_reader *r, const char *name, struct nf_buf *o)
{
    struct nf_buf list = NF_BUF_INIT;
    bool any;
    int e = list_of(b, r, NF_STR(""), &any, &list);
    if (!e && any) {
        nf_buf_addf(o, ", %s={", name);
        nf_buf_add_str(o, nf_buf_str(&list));
        nf_buf_add_char(o, '}');
    }
    nf_buf_done(&list);
    return e;
}

/* Factors are named i..z, then z_1, z_2, ... */
static void factor(struct nf_buf *o, int64_t i)
{
    if (i <= 'z' - 'i')
        nf_buf_add_char(o, (char)('i' + i));
    else
        nf_buf_addf(o, "z_%lld", (long long)(i - ('z' - 'i')));
}

static int factors(struct bc *b, struct nf_reader *r, const char *before, const char *after, struct nf_buf *o)
{
    size_t n = hlo__bc_count(r);
    if (n || !before[0])
        nf_buf_add_c(o, before);
    for (size_t i = 0; i < n; i++) {
        int64_t f = hlo__bc_svarint(r);
        if (f < 0 || f > 1 << 16)
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "a sharding rule with factor %lld", (long long)f);
        if (i && after[0])
            nf_buf_add_c(o, ", ");
        factor(o, f);
    }
    if (n)
        nf_buf_add_c(o, after);
    return 0;
}

static int rule_of(struct bc *b, struct nf_reader *r, struct nf_buf *o)
{
    static const char *const special[] = {" reduction={", " need_replication={", " permutation={", " blocked_propagation={"};
    size_t n = hlo__bc_count(r);
    int64_t *sizes = NF_NEW_ARRAY(b->m->arena, int64_t, n);
    bool any;
    int e;
    for (size_t i = 0; i < n; i++)
        sizes[i] = hlo__bc_svarint(r);
    nf_buf_add_c(o, "#sdy.op_sharding_rule<(");
    if ((e = list_of(b, r, NF_STR(""), &any, o)))
        return e;
    nf_buf_add_c(o, ")->(");
    if ((e = list_of(b, r, NF_STR(""), &any, o)))
        return e;
    nf_buf_add_c(o, ") {");
    for (size_t i = 0; i < n; i++) {
        if (i)
            nf_buf_add_c(o, ", ");
        factor(o, (int64_t)i);
        nf_buf_addf(o, "=%lld", (long long)sizes[i]);
    }
    nf_buf_add_char(o, '}');
    for (size_t i = 0; i < NF_ARRAY_LEN(special); i++)
        if ((e = factors(b, r, special[i], "}", o)))
            return e;
    if (nf_reader_u8(r))
        nf_buf_add_c(o, ", custom");
    nf_buf_add_char(o, '>');
    return 0;
}

static int sharding_of(struct bc *b, struct nf_reader *r, bool unreduced, struct nf_buf *o)
{
    bool any;
    nf_buf_add_c(o, "#sdy.sharding<");
    int e = part_of(b, hlo__bc_varint(r), r->at, NF_STR("#sdy."), o);
    if (e)
        return e;
    nf_buf_add_c(o, ", [");
    if ((e = list_of(b, r, NF_STR(""), &any, o)))
        return e;
    nf_buf_add_char(o, ']');
    e = named_list(b, r, "replicated", o);
    if (!e && unreduced)
        e = named_list(b, r, "unreduced", o);
    nf_buf_add_char(o, '>');
    return e;
}

static int mesh_of(struct bc *b, struct nf_reader *r, struct nf_buf *o)
{
    bool any;
    nf_buf_add_c(o, "#sdy.mesh<[");
    int e = list_of(b, r, NF_STR(""), &any, o);
    if (e)
        return e;
    nf_buf_add_char(o, ']');
    size_t n = hlo__bc_count(r);
    for (size_t i = 0; i < n; i++)
        nf_buf_addf(o, "%s%lld", i ? ", " : ", device_ids=[", (long long)hlo__bc_svarint(r));
    if (n)
        nf_buf_add_char(o, ']');
    nf_buf_add_char(o, '>');
    return 0;
}

static int spell(struct bc *b, struct nf_reader *r, struct nf_buf *o)
{
    uint64_t code = hlo__bc_varint(r), v;
    bool any;
    int e = 0;
    switch (code) {
    case SDY_MANUAL_AXES:
        nf_buf_add_c(o, "#sdy<manual_axes{");
        e = list_of(b, r, NF_STR(""), &any, o);
        nf_buf_add_c(o, "}>");
        return e;
    case SDY_MESH_AXIS:
        e = string_of(b, r, o);
        nf_buf_addf(o, "=%lld", (long long)hlo__bc_svarint(r));
        return e;
    case SDY_MESH: return mesh_of(b, r, o);
    case SDY_SUB_AXIS: {
        int64_t pre = hlo__bc_svarint(r);
        nf_buf_addf(o, ":(%lld)%lld", (long long)pre, (long long)hlo__bc_svarint(r));
        return 0;
    }
    case SDY_AXIS_REF:
        e = string_of(b, r, o);
        v = hlo__bc_varint(r); /* 0, or the part's index and a one */
        return e || !(v & 1) ? e : part_of(b, v >> 1, r->at, NF_STR(""), o);
    case SDY_DIMENSION:
        nf_buf_add_char(o, '{');
        if ((e = list_of(b, r, NF_STR(""), &any, o)))
            return e;
        if (!nf_reader_u8(r)) /* open: more axes may be added */
            nf_buf_add_c(o, any ? ", ?" : "?");
        nf_buf_add_char(o, '}');
        v = hlo__bc_varint(r);
        if (v & 1)
            nf_buf_addf(o, "p%llu", (unsigned long long)(v >> 1));
        return 0;
    case SDY_SHARDING: return sharding_of(b, r, false, o);
    case SDY_SHARDING_UNREDUCED: return sharding_of(b, r, true, o);
    case SDY_PER_VALUE:
        nf_buf_add_c(o, "#sdy.sharding_per_value<[");
        e = list_of(b, r, NF_STR("#sdy.sharding"), &any, o);
        nf_buf_add_c(o, "]>");
        return e;
    case SDY_DIM_MAPPING: return factors(b, r, "", "", o);
    case SDY_TENSOR_MAPPING:
        nf_buf_add_char(o, '[');
        e = list_of(b, r, NF_STR(""), &any, o);
        nf_buf_add_char(o, ']');
        return e;
    case SDY_RULE: return rule_of(b, r, o);
    default: return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "unknown sdy attribute %llu", (unsigned long long)code);
    }
}

int hlo__bc_sdy_attr(struct bc *b, struct nf_reader *r, const struct hlo_attr **ret)
{
    struct nf_buf o = NF_BUF_INIT;
    int e = spell(b, r, &o);
    /* A part may be named many times: what grows beyond the limit on input is no honest program. */
    if (!e && (o.len > 1 << 20 || nf_arena_over(b->m->arena)))
        e = hlo__bc_fail(b, r->at, NF_ELIMIT, "a sharding of %zu bytes", o.len);
    if (!e)
        *ret = hlo_attr_opaque(b->m, nf_buf_str(&o));
    nf_buf_done(&o);
    return e;
}
