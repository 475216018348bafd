/* parse_dense.c: the elements of constants.
 *
 *   dense    ::= 'dense' '<' (element | list | hex-string)? '>' ':' tensor-type
 *   list     ::= '[' (element | list) (',' (element | list))* ']' | '[' ']'
 *   element  ::= '-'? number | 'true' | 'false' | '(' element ',' element ')'
 *
 * The type stands behind the elements, so it is read first. Hex strings are the bytes of all elements, or of one. */
#include "pipeline/hlo/parse_internal.h"

#define MAX_RANK 64

struct elements {
    enum hlo_elem elem;
    size_t each;
    char *out;                  /* where the next one goes */
    uint64_t count, max;
    const char *type_name;
};

static bool bad(struct hlo_parser *p, const char *where, const char *what)
{
    return hlo__parse_fail_at(p, where, NF_EGRAPH, "%s", what);
}

static bool parse_int_element(struct hlo_parser *p, enum hlo_elem e, uint64_t *ret)
{
    parse_space(p);
    const char *where = p->at;
    if (parse_is(*where, PARSE_LETTER) && p->at < p->end) {
        bool b;
        if (!hlo__parse_bool(p, &b))
            return false;
        if (e != HLO_ELEM_I1)
            return bad(p, where, "expected integer elements, but parsed a boolean");
        *ret = b;
        return true;
    }
    bool negative = *where == '-' && p->at < p->end;
    uint64_t v = 0;
    if (negative)
        p->at++;
    if (p->end - p->at > 2 && p->at[0] == '0' && p->at[1] == 'x') {
        const char *digits = p->at += 2;
        for (; p->at < p->end && parse_is(*p->at, PARSE_HEX); p->at++) {
            if (v >> 60)
                return bad(p, where, "integer constant out of range for its type");
            v = v << 4 | (uint64_t)(*p->at <= '9' ? *p->at - '0' : (*p->at | 32) - 'a' + 10);
        }
        if (p->at == digits)
            return bad(p, where, "expected an integer");
    } else if (!hlo__parse_u64_at(p, &v)) {
        return false;
    }
    if (p->at < p->end && *p->at == '.')
        return bad(p, where, "expected integer elements, but parsed floating-point");
    unsigned bits = hlo_elem_bits(e);
    if (negative && hlo_elem_class(e) == HLO_CLASS_UINT && v)
        return bad(p, where, "expected unsigned integer elements, but parsed negative value");
    uint64_t max = negative ? (uint64_t)1 << (bits - 1) : bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (v > max)
        return bad(p, where, "integer constant out of range for its type");
    if (negative)
        v = 0 - v;
    if (e == HLO_ELEM_I1)
        v &= 1;
    else if (bits < 8 && hlo_elem_class(e) == HLO_CLASS_SINT) /* sign-extended in its byte */
        v = (uint64_t)((int64_t)(v << (64 - bits)) >> (64 - bits));
    *ret = v;
    return true;
}

static bool parse_float_element(struct hlo_parser *p, enum hlo_elem e, uint64_t *ret)
{
    parse_space(p);
    const char *where = p->at;
    bool negative = p->at < p->end && *p->at == '-';
    if (negative)
        p->at++;
    if (p->end - p->at > 2 && p->at[0] == '0' && p->at[1] == 'x') { /* the bit pattern */
        uint64_t v = 0;
        const char *digits = p->at += 2;
        for (; p->at < p->end && parse_is(*p->at, PARSE_HEX); p->at++) {
            if (v >> 60)
                return bad(p, where, "hexadecimal float constant out of range for its type");
            v = v << 4 | (uint64_t)(*p->at <= '9' ? *p->at - '0' : (*p->at | 32) - 'a' + 10);
        }
        if (p->at == digits || negative)
            return bad(p, where, "a hexadecimal float constant is a bit pattern without a sign");
        if (v != hlo__mask_bits(e, v))
            return bad(p, where, "hexadecimal float constant out of range for its type");
        *ret = v;
        return true;
    }
    const char *q = p->at;
    while (q < p->end && parse_is(*q, PARSE_DIGIT))
        q++;
    if (q == p->at)
        return hlo__parse_wrong(p, "a floating point element");
    if (q >= p->end || *q != '.')
        return bad(p, where, "expected floating-point elements, but parsed integer");
    double d = hlo__strtod(p->at, p->end, &p->at);
    *ret = hlo_float_encode(e, negative ? -d : d);
    return true;
}

static bool parse_element(struct hlo_parser *p, struct elements *el)
{
    uint64_t v[2] = {0, 0};
    if (el->count == el->max)
        return bad(p, p->at, "more elements than the type has");
    switch (hlo_elem_class(el->elem)) {
    case HLO_CLASS_BOOL:
    case HLO_CLASS_SINT:
    case HLO_CLASS_UINT:
    case HLO_CLASS_INDEX:
        if (!parse_int_element(p, el->elem, &v[0]))
            return false;
        break;
    case HLO_CLASS_FLOAT:
        if (!parse_float_element(p, el->elem, &v[0]))
            return false;
        break;
    case HLO_CLASS_COMPLEX: {
        enum hlo_elem part = hlo_elem_part(el->elem);
        if (!parse_expect(p, '(') || !parse_float_element(p, part, &v[0]) || !parse_expect(p, ',') || !parse_float_element(p, part, &v[1]) || !parse_expect(p, ')'))
            return false;
        if (part == HLO_ELEM_F32)
            v[0] |= v[1] << 32;
        break;
    }
    case HLO_CLASS_QUANT:
    case HLO_CLASS_OTHER:
        return hlo__parse_fail_at(p, p->at, NF_EUNSUPPORTED, "a dense literal cannot have elements of this type");
    }
    memcpy(el->out, v, el->each);
    el->out += el->each;
    el->count++;
    return true;
}

/* Nested lists; standing on '['. Their shape must be the type's. */
static bool parse_lists(struct hlo_parser *p, const struct hlo_type *t, struct elements *el)
{
    int64_t dims[MAX_RANK + 1], counts[MAX_RANK + 1];
    uint32_t depth = 0, leaf = 0;
    const char *start = p->at;
    do {
        char c = parse_peek(p);
        if (c == '[') {
            if (depth == MAX_RANK || (leaf && depth == leaf))
                return bad(p, p->at, "tensor literal is invalid; ranks are not consistent between elements");
            p->at++;
            depth++;
            counts[depth] = 0;
            if (!leaf)
                dims[depth] = -1;
            if (parse_peek(p) != ']')
                continue;
        } else {
            if (leaf == 0)
                leaf = depth;
            if (depth != leaf)
                return bad(p, p->at, "tensor literal is invalid; ranks are not consistent between elements");
            if (!parse_element(p, el))
                return false;
            counts[depth]++;
        }
        /* behind an element or before the end of an empty list: close what ends here */
        while (depth && parse_accept(p, ']')) {
            if (dims[depth] < 0)
                dims[depth] = counts[depth];
            else if (dims[depth] != counts[depth])
                return bad(p, p->at, "tensor literal is invalid; ranks are not consistent between elements");
            if (--depth)
                counts[depth]++;
        }
        if (depth && !parse_expect(p, ','))
            return false;
    } while (depth);
    if (el->count == 0 && el->max == 0)
        return true; /* [], [[], []]: nothing is nothing */
    if (leaf != t->rank)
        return hlo__parse_fail_at(p, start, NF_EGRAPH, "inferred shape of elements literal does not match type: %u dimensions for rank %u", leaf, t->rank);
    for (uint32_t i = 0; i < t->rank; i++)
        if (dims[i + 1] != t->dims[i])
            return hlo__parse_fail_at(p, start, NF_EGRAPH, "inferred shape of elements literal does not match type: dimension %u is %lld, not %lld", i,
                                      (long long)dims[i + 1], (long long)t->dims[i]);
    return true;
}

/* Eight hex digits to four bytes at once; false if one of them is none. */
static inline bool hex8(const char *s, uint8_t *out)
{
    uint64_t v;
    memcpy(&v, s, 8);
    uint64_t high = 0x8080808080808080u, lower = v | 0x2020202020202020u;
    uint64_t digit = (v + 0x5050505050505050u) & ~(v + 0x4646464646464646u);             /* '0'..'9' */
    uint64_t letter = (lower + 0x1f1f1f1f1f1f1f1fu) & ~(lower + 0x1919191919191919u);    /* 'a'..'f' */
    if ((v & high) || ((digit | letter) & high) != high)
        return false;
    uint64_t x = (v & 0x0f0f0f0f0f0f0f0fu) + 9 * ((v >> 6) & 0x0101010101010101u);
    x = (x << 4 | x >> 8) & 0x00ff00ff00ff00ffu;
    out[0] = (uint8_t)x;
    out[1] = (uint8_t)(x >> 16);
    out[2] = (uint8_t)(x >> 32);
    out[3] = (uint8_t)(x >> 48);
    return true;
}

static bool hex_decode(const char *s, size_t digits, char *out)
{
    size_t i = 0;
    for (; i + 8 <= digits; i += 8)
        if (!hex8(s + i, (uint8_t *)out + i / 2))
            return false;
    for (; i + 2 <= digits; i += 2) {
        char pair[8] = {'0', '0', '0', '0', '0', '0', s[i], s[i + 1]};
        uint8_t four[4];
        if (!hex8(pair, four))
            return false;
        out[i / 2] = (char)four[3];
    }
    return true;
}

static bool count_literal(struct hlo_parser *p, uint64_t bytes, const char *where)
{
    if (bytes > p->limits->literal_bytes)
        return hlo__parse_over(p, where, "max_literal", "a constant of %llu bytes is over the limit of %llu", (unsigned long long)bytes,
                               (unsigned long long)p->limits->literal_bytes);
    p->literals += bytes;
    if (p->literals > p->limits->literals_bytes)
        return hlo__parse_fail_at(p, where, NF_ELIMIT, "the constants together are over the limit of %llu bytes", (unsigned long long)p->limits->literals_bytes);
    return true;
}

/* Makes stored bytes uniform: i1 to 0/1, sub-byte kinds sign- or zero-extended. */
static void normalise(enum hlo_elem e, char *raw, size_t n)
{
    unsigned bits = hlo_elem_bits(e);
    if (e == HLO_ELEM_I1) {
        for (size_t i = 0; i < n; i++)
            raw[i] = raw[i] != 0;
    } else if (bits < 8 && hlo_elem_class(e) == HLO_CLASS_SINT) {
        for (size_t i = 0; i < n; i++)
            raw[i] = (char)((int8_t)((uint8_t)raw[i] << (8 - bits)) >> (8 - bits));
    } else if (bits < 8) {
        for (size_t i = 0; i < n; i++)
            raw[i] = (char)((uint8_t)raw[i] & ((1u << bits) - 1));
    }
}

/* hex: the digits behind "0x". count: of the type. */
static bool from_hex(struct hlo_parser *p, const struct hlo_type *t, uint64_t count, struct nf_str hex, const char *where, const struct hlo_attr **ret)
{
    enum hlo_elem e = t->elem;
    size_t each = hlo_elem_bytes(e), bytes = hex.len / 2;
    if (hex.len % 2 || each == 0)
        return bad(p, where, "elements hex string is invalid");
    if (!count_literal(p, bytes, where))
        return false;
    bool packed = e == HLO_ELEM_I1 && bytes != count && bytes == (count + 7) / 8;
    bool splat = !packed && bytes == each && count != 1 && count != 0;
    if (e == HLO_ELEM_I1 && bytes == 1 && count > 1 && count <= 8) { /* 00, 01 and FF are splats, others packed bits */
        uint8_t b;
        if (!hex_decode(hex.data, 2, (char *)&b))
            return bad(p, where, "elements hex string is invalid");
        splat = b == 0 || b == 1 || b == 0xff;
        packed = !splat;
    }
    if (!packed && !splat && bytes != count * each)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "elements hex data size is invalid for provided type: %zu bytes for %llu elements of %zu", bytes,
                                  (unsigned long long)count, each);
    char *raw = nf_arena_alloc_raw(p->arena, bytes + 1);
    if (!hex_decode(hex.data, hex.len, raw))
        return bad(p, where, "elements hex string is invalid");
    if (packed) {
        char *wide = nf_arena_alloc_raw(p->arena, (size_t)count + 1);
        for (size_t i = 0; i < count; i++)
            wide[i] = raw[i / 8] >> (i % 8) & 1;
        raw = wide;
        bytes = (size_t)count;
    } else {
        normalise(e, raw, bytes / each);
    }
    *ret = hlo_attr_dense(p->m, t, nf_str_n(raw, bytes), splat);
    return true;
}

bool hlo__parse_dense(struct hlo_parser *p, const struct hlo_type *type, const struct hlo_attr **ret)
{
    if (!parse_expect(p, '<'))
        return false;
    char c = parse_peek(p);
    const char *start = p->at;
    struct nf_str hex = {0};
    if (c == '"') {
        if (!hlo__parse_string(p, &hex) || !parse_expect(p, '>'))
            return false;
        if (!nf_str_starts(hex, NF_STR("0x")))
            return hlo__parse_fail_at(p, start, NF_EUNSUPPORTED, "constants of strings are not supported");
        hex = nf_str_n(hex.data + 2, hex.len - 2);
    } else {
        /* no '>' can occur in the elements, only in comments */
        for (;;) {
            const char *gt = memchr(p->at, '>', (size_t)(p->end - p->at));
            if (!gt)
                return bad(p, start, "the literal does not end");
            const char *slash = memchr(p->at, '/', (size_t)(gt - p->at));
            if (!slash) {
                p->at = gt + 1;
                break;
            }
            p->at = slash;
            hlo__parse_comment(p);
            if (p->at == slash)
                return hlo__parse_wrong(p, "an element");
        }
    }
    if (!type && (!parse_expect(p, ':') || !hlo__parse_type(p, &type)))
        return false;
    const char *after = p->at;
    if (type->kind != HLO_TYPE_TENSOR)
        return bad(p, start, "elements literal must be a ranked tensor");
    uint64_t count;
    if (!type->is_static)
        return bad(p, start, "elements literal type must have static shape");
    if (!hlo_type_count(type, &count))
        return bad(p, start, "elements literal type is too large");
    if (hex.data) {
        *ret = NULL;
        return from_hex(p, type, count, hex, start, ret);
    }
    struct elements el = {.elem = type->elem, .each = hlo_elem_bytes(type->elem)};
    if (el.each == 0)
        return hlo__parse_fail_at(p, start, NF_EUNSUPPORTED, "a dense literal cannot have elements of this type");
    p->at = start;
    c = parse_peek(p);
    bool splat = false;
    struct nf_str raw = {"", 0};
    if (c == '>') {
        if (count != 0)
            return bad(p, start, "expected elements");
    } else if (c == '[') {
        if (count > (uint64_t)(after - start)) /* each takes two characters at least */
            return bad(p, start, "inferred shape of elements literal does not match type");
        if (!count_literal(p, count * el.each, start))
            return false;
        char *out = nf_arena_alloc_raw(p->arena, (size_t)count * el.each + 1);
        el.out = out;
        el.max = count;
        if (!parse_lists(p, type, &el))
            return false;
        raw = nf_str_n(out, (size_t)count * el.each);
    } else {
        char *out = nf_arena_alloc(p->arena, 16);
        el.out = out;
        el.max = 1;
        if (!parse_element(p, &el))
            return false;
        raw = nf_str_n(out, count ? el.each : 0);
        splat = count > 1;
    }
    if (!parse_expect(p, '>'))
        return false;
    p->at = after;
    *ret = hlo_attr_dense(p->m, type, raw, splat);
    return true;
}

/* ---- resources ---- */

/* '{-#' (section ':' '{' dialect ':' '{' (key ':' "0x...")* '}' '}')* '#-}' */
static bool scan_resources(struct hlo_parser *p)
{
    p->resources_scanned = true;
    const char *s = p->begin;
    while ((s = memmem(s, (size_t)(p->end - s), "{-#", 3)) && s > p->begin && s[-1] != '\n')
        s += 3;
    if (!s)
        return true;
    p->at = s + 3;
    while (!hlo__parse_accept_str(p, "#-}")) {
        struct nf_str section;
        if (!hlo__parse_word(p, &section) || !parse_expect(p, ':') || !parse_expect(p, '{'))
            return false;
        while (!parse_accept(p, '}')) {
            struct nf_str dialect;
            if (!hlo__parse_word(p, &dialect) || !parse_expect(p, ':') || !parse_expect(p, '{'))
                return false;
            while (!parse_accept(p, '}')) {
                struct nf_str key, value;
                if (parse_peek(p) == '"' ? !hlo__parse_string(p, &key) : !hlo__parse_word(p, &key))
                    return false;
                if (!parse_expect(p, ':'))
                    return false;
                if (parse_peek(p) == '"') {
                    if (!hlo__parse_string(p, &value))
                        return false;
                    if (nf_str_eq_c(section, "dialect_resources") && nf_str_eq_c(dialect, "builtin")) {
                        struct nf_str *v = NF_NEW(p->scratch, struct nf_str);
                        *v = value;
                        nf_map_put(p->resources, key, v);
                    }
                } else {
                    const struct hlo_attr *ignored;
                    if (!hlo__parse_attr(p, &ignored))
                        return false;
                }
                parse_accept(p, ',');
            }
            parse_accept(p, ',');
        }
        parse_accept(p, ',');
    }
    return true;
}

bool hlo__parse_dense_resource(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct nf_str key;
    const struct hlo_type *type;
    if (!parse_expect(p, '<'))
        return false;
    const char *start = p->at;
    if (parse_peek(p) == '"' ? !hlo__parse_string(p, &key) : !hlo__parse_word(p, &key))
        return false;
    if (!parse_expect(p, '>') || !parse_expect(p, ':') || !hlo__parse_type(p, &type))
        return false;
    if (!p->resources_scanned) {
        const char *back = p->at;
        if (!scan_resources(p))
            return false;
        p->at = back;
    }
    struct nf_str *value = nf_map_get(p->resources, key);
    if (!value) { /* elided: kept, so that it can be printed; nothing can execute it */
        *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_RESOURCE, .type = type, .str = key});
        return true;
    }
    uint64_t count;
    if (type->kind != HLO_TYPE_TENSOR || !hlo_type_count(type, &count))
        return bad(p, start, "a resource must have a ranked tensor type of static shape");
    if (!nf_str_starts(*value, NF_STR("0x")) || value->len < 10)
        return bad(p, start, "the resource is no hex string with its alignment in front");
    return from_hex(p, type, count, nf_str_n(value->data + 10, value->len - 10), start, ret);
}
