/* parse_type.c: types.
 *
 *   type        ::= function-type | non-function | '!' alias
 *   tensor      ::= 'tensor' '<' (dim 'x')* element (',' attribute)? '>'     also '*x'
 *   element     ::= i1 i4 .. f32 .. index | complex '<' element '>' | '!quant.uniform' '<' ... '>'
 *
 * Spellings repeat a lot: simple ones are looked up by their text first. */
#include "pipeline/hlo/parse_internal.h"

static bool parse_element(struct hlo_parser *p, struct hlo_type *t);

static bool make(struct hlo_parser *p, const struct hlo_type *wanted, const struct hlo_type **ret)
{
    *ret = hlo_type_intern(p->m, wanted);
    return true;
}

/* 8 of `i8`, `u8`: the storage of a quantised element. */
static bool parse_storage(struct hlo_parser *p, enum hlo_elem *ret)
{
    struct nf_str w;
    if (!hlo__parse_word(p, &w))
        return false;
    static const struct {
        const char *name;
        enum hlo_elem e;
    } names[] = {{"i2", HLO_ELEM_I2}, {"i4", HLO_ELEM_I4}, {"i8", HLO_ELEM_I8}, {"i16", HLO_ELEM_I16}, {"i32", HLO_ELEM_I32},
                 {"u2", HLO_ELEM_UI2}, {"u4", HLO_ELEM_UI4}, {"u8", HLO_ELEM_UI8}, {"u16", HLO_ELEM_UI16}, {"u32", HLO_ELEM_UI32},
                 {"ui2", HLO_ELEM_UI2}, {"ui4", HLO_ELEM_UI4}, {"ui8", HLO_ELEM_UI8}, {"ui16", HLO_ELEM_UI16}, {"ui32", HLO_ELEM_UI32},
                 {"si4", HLO_ELEM_I4}, {"si8", HLO_ELEM_I8}, {"si16", HLO_ELEM_I16}, {"si32", HLO_ELEM_I32}};
    for (size_t i = 0; i < NF_ARRAY_LEN(names); i++)
        if (nf_str_eq_c(w, names[i].name)) {
            *ret = names[i].e;
            return true;
        }
    return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "'%.*s' is not a storage type of a quantized element", NF_STR_ARG(w));
}

/* The largest finite value of a float kind. */
static double largest(enum hlo_elem e)
{
    if (e == HLO_ELEM_F64)
        return 1.7976931348623157e308;
    if (e == HLO_ELEM_F32 || e == HLO_ELEM_TF32)
        return 3.4028234663852886e38;
    double max = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << (hlo_elem_bits(e) - 1); bits++) {
        double d = hlo_float_decode(e, bits);
        if (d > max && d <= 1.7976931348623157e308)
            max = d;
    }
    return max;
}

static bool parse_scale(struct hlo_parser *p, struct nf_buf *scales, struct nf_buf *zeros, enum hlo_elem expressed)
{
    const struct hlo_attr *a;
    bool negative = parse_accept(p, '-');
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_number(p, negative, &a))
        return false;
    double scale = a->kind == HLO_ATTR_FLOAT ? hlo_float_decode(HLO_ELEM_F64, a->bits) : (double)a->i;
    int64_t zero = 0;
    if (a->kind != HLO_ATTR_FLOAT)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "expected a floating point scale");
    if (!(scale > 0) || scale > 1.7976931348623157e308)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "a quantization scale must be positive and finite, this one is %g", scale);
    if (scale < hlo_float_decode(expressed, 1) || scale > largest(expressed))
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "scale %e out of expressed type range", scale);
    if (parse_accept(p, ':') && !hlo__parse_i64(p, &zero))
        return false;
    nf_buf_add(scales, &scale, sizeof scale);
    nf_buf_add(zeros, &zero, sizeof zero);
    return true;
}

/* quant ::= '<' storage ('<' min ':' max '>')? ':' expressed (':' axis)? ',' (scale | '{' scale (',' scale)* '}') '>' */
static bool parse_quant(struct hlo_parser *p, struct hlo_type *t)
{
    struct hlo_quant q = {.count = 0};
    struct nf_buf scales = NF_BUF_INIT, zeros = NF_BUF_INIT;
    bool ok = false;
    const char *start = p->at;
    if (!parse_expect(p, '<') || !parse_storage(p, &q.storage))
        goto out;
    unsigned bits = hlo_elem_bits(q.storage);
    bool is_signed = hlo_elem_class(q.storage) == HLO_CLASS_SINT;
    q.storage_min = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    q.storage_max = (int64_t)(((uint64_t)1 << (is_signed ? bits - 1 : bits)) - 1);
    if (parse_accept(p, '<')) {
        int64_t min, max;
        if (!hlo__parse_i64(p, &min) || !parse_expect(p, ':') || !hlo__parse_i64(p, &max) || !parse_expect(p, '>'))
            goto out;
        if (min < q.storage_min || max > q.storage_max || min >= max) {
            hlo__parse_fail_at(p, start, NF_EGRAPH, "the storage range %lld:%lld does not fit in %s", (long long)min, (long long)max, hlo_elem_name(q.storage));
            goto out;
        }
        q.storage_min = min;
        q.storage_max = max;
    }
    struct hlo_type expressed = {0};
    if (!parse_expect(p, ':') || !parse_element(p, &expressed))
        goto out;
    if (hlo_elem_class(expressed.elem) != HLO_CLASS_FLOAT) {
        hlo__parse_fail_at(p, start, NF_EGRAPH, "the expressed type of a quantized element must be a float");
        goto out;
    }
    q.expressed = expressed.elem;
    if (parse_accept(p, ':')) {
        q.per_axis = true;
        if (!hlo__parse_i64(p, &q.axis))
            goto out;
        if (q.axis < 0) {
            hlo__parse_fail_at(p, start, NF_EGRAPH, "illegal quantized dimension: %lld", (long long)q.axis);
            goto out;
        }
    }
    if (!parse_expect(p, ','))
        goto out;
    if (q.per_axis) {
        if (!parse_expect(p, '{'))
            goto out;
        do {
            if (!parse_scale(p, &scales, &zeros, q.expressed))
                goto out;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, '}'))
            goto out;
    } else if (!parse_scale(p, &scales, &zeros, q.expressed)) {
        goto out;
    }
    if (!parse_expect(p, '>'))
        goto out;
    q.count = scales.len / sizeof(double);
    double *s = nf_arena_alloc_raw(p->arena, scales.len);
    int64_t *z = nf_arena_alloc_raw(p->arena, zeros.len);
    memcpy(s, scales.data, scales.len);
    memcpy(z, zeros.data, zeros.len);
    q.scales = s;
    q.zero_points = z;
    struct hlo_quant *copy = nf_arena_alloc_raw(p->arena, sizeof *copy);
    *copy = q;
    t->elem = HLO_ELEM_QUANT;
    t->quant = copy;
    ok = true;
out:
    nf_buf_done(&scales);
    nf_buf_done(&zeros);
    return ok;
}

/* An element behind "tensor<2x" or alone: fills elem, and quant or text. */
static bool parse_element(struct hlo_parser *p, struct hlo_type *t)
{
    char c = parse_peek(p);
    const char *start = p->at;
    if (c == '!') {
        p->at++;
        struct nf_str name;
        if (!hlo__parse_suffix_id(p, &name))
            return false;
        if (nf_str_eq_c(name, "quant.uniform"))
            return parse_quant(p, t);
        if (!memchr(name.data, '.', name.len)) {
            const struct hlo_type *alias;
            if (!hlo__parse_alias(p, '!', name, NULL, &alias))
                return false;
            if (alias->kind == HLO_TYPE_SCALAR) {
                t->elem = alias->elem;
                t->quant = alias->quant;
                t->text = alias->text;
                return true;
            }
        } else if (p->at < p->end && *p->at == '<') {
            struct nf_str body;
            if (!hlo__parse_balanced(p, &body))
                return false;
        }
        t->elem = HLO_ELEM_OTHER;
        t->text = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)));
        return true;
    }
    struct nf_str w = hlo__parse_peek_word(p);
    if (!w.len)
        return hlo__parse_wrong(p, "an element type");
    p->at += w.len;
    if (hlo_elem_find(w, &t->elem) && t->elem != HLO_ELEM_OTHER)
        return true;
    if (nf_str_eq_c(w, "complex")) {
        struct hlo_type inner = {0};
        if (!parse_expect(p, '<') || !parse_element(p, &inner) || !parse_expect(p, '>'))
            return false;
        if (inner.elem == HLO_ELEM_F32)
            t->elem = HLO_ELEM_C64;
        else if (inner.elem == HLO_ELEM_F64)
            t->elem = HLO_ELEM_C128;
        else {
            t->elem = HLO_ELEM_OTHER;
            t->text = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)));
        }
        return true;
    }
    /* other integers and floats of MLIR are kept by name: i3, si8, f80, f128 */
    size_t digits = w.data[0] == 'i' ? 1 : (w.len > 1 && w.data[1] == 'i' && (w.data[0] == 's' || w.data[0] == 'u')) ? 2 : 0;
    bool integer = digits && w.len > digits && w.len < digits + 9;
    for (size_t i = digits; integer && i < w.len; i++)
        integer = parse_is(w.data[i], PARSE_DIGIT);
    if (integer || nf_str_eq_c(w, "f80") || nf_str_eq_c(w, "f128") || nf_str_eq_c(w, "none") || nf_str_eq_c(w, "vector") || nf_str_eq_c(w, "tensor") ||
        nf_str_eq_c(w, "memref") || nf_str_eq_c(w, "tuple")) {
        if (p->at < p->end && *p->at == '<') {
            struct nf_str body;
            if (!hlo__parse_balanced(p, &body))
                return false;
        }
        t->elem = HLO_ELEM_OTHER;
        t->text = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)));
        return true;
    }
    return hlo__parse_fail_at(p, start, NF_EGRAPH, "expected a type, found '%.*s'", (int)NF_MIN(w.len, (size_t)40), w.data);
}

/* The dimension list: digits or '?' each followed by 'x'. "0x2xi64" is 0, 2. */
static bool parse_dims(struct hlo_parser *p, uint32_t *ret_base)
{
    *ret_base = p->num_ints;
    for (;;) {
        char c = parse_peek(p);
        if (c == '?') {
            p->at++;
            parse_push_int(p, HLO_DYNAMIC);
        } else if (c >= '0' && c <= '9') {
            uint64_t v;
            const char *start = p->at;
            if (!hlo__parse_u64_at(p, &v))
                return false;
            if (v > INT64_MAX)
                return hlo__parse_fail_at(p, start, NF_EGRAPH, "the dimension is too large");
            parse_push_int(p, (int64_t)v);
        } else {
            return true;
        }
        parse_space(p);
        if (p->at >= p->end || *p->at != 'x')
            return hlo__parse_wrong(p, "'x' in a dimension list");
        p->at++;
        if (p->num_ints - *ret_base > HLO_MAX_RANK)
            return hlo__parse_fail_at(p, p->at, NF_ELIMIT, "more dimensions than the limit of %d", HLO_MAX_RANK);
    }
}

static bool set_encoding(struct hlo_parser *p, struct hlo_type *t, const struct hlo_attr *enc, const char *where)
{
    if (enc->kind != HLO_ATTR_BOUNDS) {
        t->encoding = enc;
        return true;
    }
    if (enc->ints.n != t->rank)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "bounds have %zu entries for a tensor of rank %u", enc->ints.n, t->rank);
    for (uint32_t i = 0; i < t->rank; i++)
        if (enc->ints.v[i] != HLO_DYNAMIC && t->dims[i] != HLO_DYNAMIC)
            return hlo__parse_fail_at(p, where, NF_EGRAPH, "static dimension %u cannot have a bound", i);
    t->bounds = enc->ints.v;
    return true;
}

/* Behind "tensor" or "memref". */
static bool parse_shaped(struct hlo_parser *p, enum hlo_type_kind kind, const struct hlo_type **ret)
{
    struct hlo_type t = {.kind = kind};
    uint32_t base = p->num_ints;
    if (!parse_expect(p, '<'))
        return false;
    if (parse_peek(p) == '*') {
        p->at++;
        parse_space(p);
        if (p->at >= p->end || *p->at != 'x')
            return hlo__parse_wrong(p, "'x'");
        p->at++;
        t.kind = HLO_TYPE_UNRANKED;
    } else if (!parse_dims(p, &base)) {
        return false;
    }
    if (!parse_element(p, &t))
        return false;
    t.rank = p->num_ints - base;
    int64_t *dims = nf_arena_alloc_raw(p->scratch, t.rank * sizeof *dims + 1);
    if (t.rank)
        memcpy(dims, p->ints + base, t.rank * sizeof *dims);
    t.dims = dims;
    p->num_ints = base;
    while (parse_accept(p, ',')) { /* memref layouts and spaces: kept as encoding */
        const struct hlo_attr *enc;
        parse_space(p);
        const char *at = p->at;
        if (!hlo__parse_attr(p, &enc) || !set_encoding(p, &t, enc, at))
            return false;
    }
    return parse_expect(p, '>') && make(p, &t, ret);
}

bool hlo__parse_type_list(struct hlo_parser *p)
{
    do {
        const struct hlo_type *t;
        if (!hlo__parse_type(p, &t))
            return false;
        parse_push_type(p, t);
    } while (parse_accept(p, ','));
    return true;
}

bool hlo__parse_type_list_paren(struct hlo_parser *p)
{
    if (!parse_accept(p, '(')) {
        const struct hlo_type *t;
        if (!hlo__parse_type(p, &t))
            return false;
        parse_push_type(p, t);
        return true;
    }
    if (parse_accept(p, ')'))
        return true;
    return hlo__parse_type_list(p) && parse_expect(p, ')');
}

/* '(' types ')' '->' (type | '(' types ')') */
static bool parse_function(struct hlo_parser *p, const struct hlo_type **ret)
{
    uint32_t base = p->num_types;
    if (!hlo__parse_type_list_paren(p))
        return false;
    uint32_t inputs = p->num_types - base;
    if (!hlo__parse_expect_str(p, "->") || !hlo__parse_type_list_paren(p))
        return false;
    struct hlo_type t = {.kind = HLO_TYPE_FUNCTION, .num_inputs = inputs, .num_types = p->num_types - base, .types = p->types + base};
    *ret = hlo_type_intern(p->m, &t);
    p->num_types = base;
    return true;
}

static bool parse_list_type(struct hlo_parser *p, enum hlo_type_kind kind, const struct hlo_type **ret)
{
    uint32_t base = p->num_types;
    if (!parse_expect(p, '<'))
        return false;
    if (!parse_accept(p, '>') && !(hlo__parse_type_list(p) && parse_expect(p, '>')))
        return false;
    if (kind == HLO_TYPE_FUTURE) {
        for (uint32_t i = base; i < p->num_types; i++)
            if (p->types[i]->kind != HLO_TYPE_TENSOR)
                return hlo__parse_fail_at(p, p->at, NF_EGRAPH, "an element of a future must be a ranked tensor");
    }
    struct hlo_type t = {.kind = kind, .num_types = p->num_types - base, .types = p->types + base};
    *ret = hlo_type_intern(p->m, &t);
    p->num_types = base;
    return true;
}

static bool parse_bang(struct hlo_parser *p, const struct hlo_type **ret)
{
    const char *start = p->at++;
    struct nf_str name;
    if (!hlo__parse_suffix_id(p, &name))
        return false;
    if (nf_str_eq_c(name, "stablehlo.token") || nf_str_eq_c(name, "mhlo.token")) {
        *ret = hlo_type_token(p->m);
        return true;
    }
    if (nf_str_eq_c(name, "stablehlo.future"))
        return parse_list_type(p, HLO_TYPE_FUTURE, ret);
    if (nf_str_eq_c(name, "quant.uniform")) {
        struct hlo_type t = {.kind = HLO_TYPE_SCALAR};
        return parse_quant(p, &t) && make(p, &t, ret);
    }
    if (!memchr(name.data, '.', name.len) && !(p->at < p->end && *p->at == '<'))
        return hlo__parse_alias(p, '!', name, NULL, ret);
    struct nf_str body;
    if (p->at < p->end && *p->at == '<') {
        const char *open = p->at;
        if (nf_str_eq_c(name, "stablehlo") && hlo__parse_starts(p, "<token>")) {
            p->at += 7;
            *ret = hlo_type_token(p->m);
            return true;
        }
        p->at = open;
        if (!hlo__parse_balanced(p, &body))
            return false;
    }
    if (nf_str_starts(name, NF_STR("stablehlo")) || nf_str_starts(name, NF_STR("chlo.")))
        return hlo__parse_fail_at(p, start, NF_EGRAPH, "unknown type '!%.*s'", (int)NF_MIN(name.len, (size_t)60), name.data);
    struct hlo_type t = {.kind = HLO_TYPE_OPAQUE, .text = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)))};
    return make(p, &t, ret);
}

static bool parse_type_slow(struct hlo_parser *p, const struct hlo_type **ret)
{
    char c = parse_peek(p);
    if (c == '(')
        return parse_function(p, ret);
    if (c == '!')
        return parse_bang(p, ret);
    struct nf_str w = hlo__parse_peek_word(p);
    if (nf_str_eq_c(w, "tensor") || nf_str_eq_c(w, "memref")) {
        p->at += w.len;
        return parse_shaped(p, w.data[0] == 't' ? HLO_TYPE_TENSOR : HLO_TYPE_MEMREF, ret);
    }
    if (nf_str_eq_c(w, "tuple")) {
        p->at += w.len;
        return parse_list_type(p, HLO_TYPE_TUPLE, ret);
    }
    if (nf_str_eq_c(w, "none")) {
        p->at += w.len;
        *ret = hlo_type_none(p->m);
        return true;
    }
    if (nf_str_eq_c(w, "vector")) {
        const char *start = p->at;
        struct nf_str body;
        p->at += w.len;
        if (parse_peek(p) != '<')
            return hlo__parse_wrong(p, "'<'");
        if (!hlo__parse_balanced(p, &body))
            return false;
        struct hlo_type t = {.kind = HLO_TYPE_OPAQUE, .text = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)))};
        return make(p, &t, ret);
    }
    if (!w.len)
        return hlo__parse_wrong(p, "a type");
    struct hlo_type t = {.kind = HLO_TYPE_SCALAR};
    return parse_element(p, &t) && make(p, &t, ret);
}

/* ---- the cache of spellings ---- */

static uint32_t text_hash(const struct hlo_parser *p, const char *s, size_t n)
{
    uint64_t h = (n + p->seed) * 0x9e3779b97f4a7c15u, w;
    for (; n >= 8; n -= 8, s += 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, s, n);
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h ^ (h >> 32));
}

static void cache_grow(struct hlo_parser *p)
{
    uint32_t cap = p->cap_type_cache ? p->cap_type_cache * 2 : 256;
    struct parse_type_entry *n = NF_NEW_ARRAY(p->scratch, struct parse_type_entry, cap);
    for (uint32_t i = 0; i < p->cap_type_cache; i++) {
        if (!p->type_cache[i].type)
            continue;
        uint32_t h = p->type_cache[i].hash & (cap - 1);
        while (n[h].type)
            h = (h + 1) & (cap - 1);
        n[h] = p->type_cache[i];
    }
    p->type_cache = n;
    p->cap_type_cache = cap;
}

bool hlo__parse_type(struct hlo_parser *p, const struct hlo_type **ret)
{
    parse_space(p);
    size_t last = p->last_type.len;
    if (last && (size_t)(p->end - p->at) >= last && memcmp(p->at, p->last_type.text, last) == 0) { /* it ends with its own '>' */
        p->at += last;
        *ret = p->last_type.type;
        return true;
    }
    /* "tensor<" up to its '>' with nothing in between but letters, digits, '?' and one level of '<' */
    if (hlo__parse_starts(p, "tensor<")) {
        const char *e = p->at + 7;
        int open = 1;
        while (e < p->end && e - p->at < 200) {
            char c = *e++;
            if (c == '>') {
                if (--open == 0)
                    break;
            } else if (c == '<') {
                open++;
            } else if (!(parse_is(c, PARSE_LETTER | PARSE_DIGIT) || c == '?')) {
                open = -1;
                break;
            }
        }
        if (open == 0) {
            size_t len = (size_t)(e - p->at);
            uint32_t hash = text_hash(p, p->at, len);
            if ((p->num_type_cache + 1) * 2 > p->cap_type_cache)
                cache_grow(p);
            uint32_t h = hash & (p->cap_type_cache - 1);
            for (; p->type_cache[h].type; h = (h + 1) & (p->cap_type_cache - 1))
                if (p->type_cache[h].hash == hash && p->type_cache[h].len == len && memcmp(p->type_cache[h].text, p->at, len) == 0) {
                    p->last_type = p->type_cache[h];
                    *ret = p->last_type.type;
                    p->at = e;
                    return true;
                }
            const char *start = p->at;
            if (!parse_type_slow(p, ret))
                return false;
            if ((size_t)(p->at - start) == len) {
                p->type_cache[h] = (struct parse_type_entry){start, (uint32_t)len, hash, *ret};
                p->num_type_cache++;
            }
            return true;
        }
    }
    if (!hlo__parse_enter(p))
        return false;
    bool ok = parse_type_slow(p, ret);
    parse_leave(p);
    return ok;
}
