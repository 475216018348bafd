/* parse_attr.c: attributes, dictionaries, aliases and locations.
 *
 *   attribute ::= string | number (':' type)? | 'true' | 'false' | 'unit' | symbol | '[' attributes ']' | '{' entries '}'
 *               | 'dense' ... | 'dense_resource' ... | 'array' '<' ... '>' | 'affine_map' '<' ... '>' | 'loc' '(' ... ')' | type
 *               | '#' alias | '#' dialect '.' name '<' ... '>' | '#' dialect '<' name ... '>'
 *   entry     ::= (word | string) ('=' attribute)?
 *
 * What no dialect here knows stays as its own text, with white space made uniform. */
#include "pipeline/hlo/parse_internal.h"
#include "pipeline/hlo/spec_internal.h"

/* ---- aliases ---- */

struct parse_alias {
    size_t at, end;                 /* offsets of the value; end once it was read */
    bool busy;
    uint64_t nodes;                 /* what it expands to */
    const struct hlo_attr *attr;
    const struct hlo_type *type;
};

/* Finds the lines "#name = ..." and "!name = ..." of the whole text; needed only when the text uses an alias. */
static void scan_aliases(struct hlo_parser *p)
{
    p->aliases_scanned = true;
    for (const char *s = p->begin; s < p->end;) {
        const char *nl = memchr(s, '\n', (size_t)(p->end - s));
        const char *e = nl ? nl : p->end;
        while (s < e && (*s == ' ' || *s == '\t'))
            s++;
        if (s < e && (*s == '#' || *s == '!')) {
            const char *name = s++;
            while (s < e && parse_is(*s, PARSE_LETTER | PARSE_DIGIT | PARSE_ID_EXTRA | PARSE_DASH))
                s++;
            const char *name_end = s;
            while (s < e && (*s == ' ' || *s == '\t'))
                s++;
            if (name_end > name + 1 && s < e && *s == '=') {
                struct parse_alias *a = NF_NEW(p->scratch, struct parse_alias);
                a->at = (size_t)(s + 1 - p->begin);
                nf_map_put(p->aliases, nf_str_n(name, (size_t)(name_end - name)), a);
            }
        }
        s = nl ? nl + 1 : p->end;
    }
}

bool hlo__parse_alias(struct hlo_parser *p, char sigil, struct nf_str name, const struct hlo_attr **ret_attr, const struct hlo_type **ret_type)
{
    if (!p->aliases_scanned)
        scan_aliases(p);
    struct nf_str key = nf_str_n(name.data - 1, name.len + 1); /* with its sigil, which stands before it */
    struct parse_alias *a = key.data[0] == sigil ? nf_map_get(p->aliases, key) : NULL;
    if (!a)
        return hlo__parse_fail_at(p, name.data - 1, NF_EGRAPH, "undefined alias '%c%.*s'", sigil, (int)NF_MIN(name.len, (size_t)80), name.data);
    if (a->busy)
        return hlo__parse_fail_at(p, name.data - 1, NF_EGRAPH, "alias '%c%.*s' is defined by itself", sigil, (int)NF_MIN(name.len, (size_t)80), name.data);
    if (!a->attr && !a->type) {
        const char *back = p->at;
        uint64_t before = p->nodes;
        if (!hlo__parse_enter(p))
            return false;
        a->busy = true;
        p->at = p->begin + a->at;
        bool ok = sigil == '#' ? hlo__parse_attr(p, &a->attr) : hlo__parse_type(p, &a->type);
        a->busy = false;
        parse_leave(p);
        if (!ok)
            return false;
        a->nodes = p->nodes - before;
        a->end = (size_t)(p->at - p->begin);
        p->at = back;
    } else {
        /* a text of a few lines must not become gigabytes when it is printed */
        p->nodes += a->nodes;
        if (p->nodes > PARSE_MAX_NODES)
            return hlo__parse_fail_at(p, name.data - 1, NF_ELIMIT, "aliases expand to more than %u attributes and types", PARSE_MAX_NODES);
    }
    if (ret_attr)
        *ret_attr = a->attr;
    if (ret_type)
        *ret_type = a->type;
    return true;
}

/* Behind "#name =": reads the value, once even if it was used before, and goes behind it. */
bool hlo__parse_alias_value(struct hlo_parser *p, char sigil, struct nf_str name)
{
    const struct hlo_attr *attr;
    const struct hlo_type *type;
    if (!p->aliases_scanned)
        scan_aliases(p);
    struct parse_alias *a = nf_map_get(p->aliases, nf_str_n(name.data - 1, name.len + 1));
    if (!a || p->begin + a->at != p->at) /* defined twice: the last one counts */
        return sigil == '#' ? hlo__parse_attr(p, &attr) : hlo__parse_type(p, &type);
    if (!hlo__parse_alias(p, sigil, name, &attr, &type))
        return false;
    p->at = p->begin + a->end;
    return true;
}

/* ---- dictionaries ---- */

enum { PAIRWISE = 16 }; /* keys of a dictionary that are compared one with another; longer ones are sorted */

static bool duplicate(struct hlo_parser *p, const char *where, struct nf_str key)
{
    return hlo__parse_fail_at(p, where, NF_EGRAPH, "duplicate key '%.*s' in an attribute dictionary", NF_STR_ARG(key));
}

static int str_order(const void *a, const void *b) { return nf_str_cmp(*(const struct nf_str *)a, *(const struct nf_str *)b); }

static bool keys_differ(struct hlo_parser *p, uint32_t base)
{
    uint32_t n = p->num_named - base;
    struct nf_str *keys = nf_alloc_array(n, sizeof *keys), twice = {0};
    for (uint32_t i = 0; i < n; i++)
        keys[i] = p->named[base + i].name;
    qsort(keys, n, sizeof *keys, str_order);
    for (uint32_t i = 1; i < n && !twice.data; i++)
        if (nf_str_eq(keys[i - 1], keys[i]))
            twice = keys[i];
    free(keys);
    return !twice.data || duplicate(p, p->at, twice);
}

bool hlo__parse_dict(struct hlo_parser *p)
{
    uint32_t base = p->num_named;
    if (!parse_expect(p, '{'))
        return false;
    if (parse_accept(p, '}'))
        return true;
    do {
        struct nf_str key;
        const struct hlo_attr *a;
        if (parse_peek(p) == '"') {
            if (!hlo__parse_string(p, &key))
                return false;
        } else if (!hlo__parse_word(p, &key)) {
            return false;
        }
        const char *where = p->at;
        if (parse_accept(p, '=')) {
            if (!hlo__parse_attr(p, &a))
                return false;
        } else {
            a = hlo_attr_unit(p->m);
        }
        if (p->num_named - base < PAIRWISE) {
            for (uint32_t i = base; i < p->num_named; i++)
                if (nf_str_eq(p->named[i].name, key))
                    return duplicate(p, where, key);
        }
        parse_push_named(p, key, a);
    } while (parse_accept(p, ','));
    return parse_expect(p, '}') && (p->num_named - base <= PAIRWISE || keys_differ(p, base));
}

const struct hlo_attr *hlo__parse_dict_attr(struct hlo_parser *p, uint32_t base)
{
    const struct hlo_attr *a = hlo_attr_dict(p->m, p->num_named - base, p->named + base);
    p->num_named = base;
    return a;
}

/* ---- numbers ---- */

double hlo__strtod(const char *s, const char *end, const char **ret_end)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *start = s;
    uint64_t mant = 0;
    int digits = 0, exp = 0;
    for (; s < end && parse_is(*s, PARSE_DIGIT); s++) {
        digits += mant || *s != '0';
        if (digits <= 19)
            mant = mant * 10 + (uint64_t)(*s - '0');
    }
    if (s < end && *s == '.') {
        for (s++; s < end && parse_is(*s, PARSE_DIGIT); s++) {
            digits += mant || *s != '0';
            if (digits <= 19) {
                mant = mant * 10 + (uint64_t)(*s - '0');
                exp--;
            }
        }
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        const char *e = s + 1;
        bool neg = e < end && *e == '-';
        if (e < end && (*e == '-' || *e == '+'))
            e++;
        if (e < end && parse_is(*e, PARSE_DIGIT)) {
            int v = 0;
            for (; e < end && parse_is(*e, PARSE_DIGIT); e++)
                v = v < 100000 ? v * 10 + (*e - '0') : v;
            exp += neg ? -v : v;
            s = e;
        }
    }
    *ret_end = s;
    if (digits <= 19 && mant <= (uint64_t)1 << 53 && exp >= -22 && exp <= 22)
        return exp < 0 ? (double)mant / powers[-exp] : (double)mant * powers[exp];
    double v = 0;
    if (nf_str_to_double(nf_str_n(start, (size_t)(s - start)), &v) != 0)
        v = exp > 0 ? __builtin_inf() : 0; /* out of range: as IEEE arithmetic rounds it */
    return v;
}

bool hlo__parse_number(struct hlo_parser *p, bool negative, const struct hlo_attr **ret)
{
    const char *s = p->at, *e = s;
    while (e < p->end && parse_is(*e, PARSE_DIGIT))
        e++;
    if (e == s)
        return hlo__parse_wrong(p, "a number");
    if (e < p->end && *e == '.') {
        double v = hlo__strtod(s, p->end, &p->at);
        *ret = hlo_attr_float(p->m, HLO_ELEM_F64, negative ? -v : v);
        return true;
    }
    bool hex = e == s + 1 && *s == '0' && e + 1 < p->end && *e == 'x' && parse_is(e[1], PARSE_HEX);
    uint64_t v = 0;
    if (hex) {
        for (p->at = e + 1; p->at < p->end && parse_is(*p->at, PARSE_HEX); p->at++) {
            if (v >> 60)
                return hlo__parse_fail_at(p, s, NF_EGRAPH, "the integer is too large");
            v = v << 4 | (uint64_t)(*p->at <= '9' ? *p->at - '0' : (*p->at | 32) - 'a' + 10);
        }
    } else if (!hlo__parse_u64_at(p, &v)) {
        return false;
    }
    struct hlo_attr a = {.kind = HLO_ATTR_INT, .type = hlo_type_scalar(p->m, HLO_ELEM_I64), .i = (int64_t)(negative ? 0 - v : v)};
    *ret = hlo_attr_new(p->m, &a);
    return true;
}

static bool int_fits(struct hlo_parser *p, enum hlo_elem e, bool negative, uint64_t magnitude, const char *where)
{
    unsigned bits = hlo_elem_bits(e);
    bool is_unsigned = hlo_elem_class(e) == HLO_CLASS_UINT;
    if (negative && is_unsigned && magnitude)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "a negative value for the unsigned type %s", hlo_elem_name(e));
    uint64_t max = negative ? (uint64_t)1 << (bits - 1) : bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (magnitude > max)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "integer constant out of range for type %s", hlo_elem_name(e));
    return true;
}

/* number (':' type)?, standing on '-' or a digit */
static bool parse_number_attr(struct hlo_parser *p, const struct hlo_attr **ret)
{
    bool negative = parse_accept(p, '-');
    parse_space(p);
    const char *where = p->at;
    bool hex = p->end - where > 1 && where[0] == '0' && where[1] == 'x';
    const struct hlo_attr *a;
    if (!hlo__parse_number(p, negative, &a))
        return false;
    if (!parse_accept(p, ':')) {
        *ret = a;
        return true;
    }
    const struct hlo_type *t;
    if (!hlo__parse_type(p, &t))
        return false;
    if (t->kind != HLO_TYPE_SCALAR)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "a number of a type that is neither an integer nor a float");
    enum hlo_elem_class c = hlo_elem_class(t->elem);
    if (c == HLO_CLASS_FLOAT) {
        if (a->kind == HLO_ATTR_FLOAT)
            *ret = hlo_attr_float(p->m, t->elem, hlo_float_decode(HLO_ELEM_F64, a->bits));
        else if (hex)
            *ret = hlo_attr_float_bits(p->m, t->elem, hlo__mask_bits(t->elem, (uint64_t)a->i));
        else
            return hlo__parse_fail_at(p, where, NF_EGRAPH, "an integer literal for a float type");
        return true;
    }
    if (a->kind == HLO_ATTR_FLOAT || c == HLO_CLASS_COMPLEX || c == HLO_CLASS_QUANT)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "the number does not fit its type");
    if (c != HLO_CLASS_OTHER && !int_fits(p, t->elem, negative, negative ? 0 - (uint64_t)a->i : (uint64_t)a->i, where))
        return false;
    if (t->elem == HLO_ELEM_I1) {
        *ret = hlo_attr_bool(p->m, a->i != 0);
        return true;
    }
    int64_t v = a->i;
    if (c == HLO_CLASS_SINT && hlo_elem_bits(t->elem) < 64) { /* 255 : i8 is -1 */
        unsigned shift = 64 - hlo_elem_bits(t->elem);
        v = (int64_t)((uint64_t)v << shift) >> shift;
    }
    struct hlo_attr n = {.kind = HLO_ATTR_INT, .type = t, .i = v};
    *ret = hlo_attr_new(p->m, &n);
    return true;
}

/* ---- lists ---- */

static bool parse_array(struct hlo_parser *p, const struct hlo_attr **ret)
{
    uint32_t base = p->num_named;
    p->at++;
    if (!parse_accept(p, ']')) {
        do {
            const struct hlo_attr *a;
            if (!hlo__parse_attr(p, &a))
                return false;
            parse_push_named(p, (struct nf_str){0}, a);
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ']'))
            return false;
    }
    size_t n = p->num_named - base;
    const struct hlo_attr **v = nf_arena_alloc_array(p->arena, n + 1, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = p->named[base + i].attr;
    p->num_named = base;
    *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_ARRAY, .array = {n, v}});
    return true;
}

/* 'array' '<' element (':' values)? '>' */
static bool parse_dense_array(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct nf_str w;
    enum hlo_elem e;
    if (!parse_expect(p, '<') || !hlo__parse_word(p, &w))
        return false;
    if (!hlo_elem_find(w, &e) || (hlo_elem_class(e) != HLO_CLASS_SINT && hlo_elem_class(e) != HLO_CLASS_BOOL && hlo_elem_class(e) != HLO_CLASS_FLOAT))
        return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "'%.*s' is no element type of an array attribute", NF_STR_ARG(w));
    uint32_t base = p->num_ints;
    if (parse_accept(p, ':')) {
        do {
            bool b;
            if (e == HLO_ELEM_I1 && parse_is(parse_peek(p), PARSE_LETTER)) {
                if (!hlo__parse_bool(p, &b))
                    return false;
                parse_push_int(p, b);
                continue;
            }
            bool negative = parse_accept(p, '-');
            parse_space(p);
            const char *where = p->at;
            const struct hlo_attr *a;
            if (!hlo__parse_number(p, negative, &a))
                return false;
            if (hlo_elem_class(e) == HLO_CLASS_FLOAT) {
                bool hex = p->end - where > 1 && where[1] == 'x';
                if (a->kind == HLO_ATTR_INT && !hex)
                    return hlo__parse_fail_at(p, where, NF_EGRAPH, "expected a float");
                parse_push_int(p, a->kind == HLO_ATTR_INT ? a->i : (int64_t)hlo_float_encode(e, hlo_float_decode(HLO_ELEM_F64, a->bits)));
            } else {
                if (a->kind != HLO_ATTR_INT)
                    return hlo__parse_fail_at(p, where, NF_EGRAPH, "expected an integer");
                if (!int_fits(p, e, negative, negative ? 0 - (uint64_t)a->i : (uint64_t)a->i, where))
                    return false;
                parse_push_int(p, a->i);
            }
        } while (parse_accept(p, ','));
    }
    *ret = hlo_attr_dense_array(p->m, e, p->num_ints - base, p->ints + base);
    p->num_ints = base;
    return parse_expect(p, '>');
}

/* ---- structures of the dialects ---- */

struct field {
    const char *key;
    bool list;
    size_t offset;
};
#define LIST(type, field_, key) {key, true, offsetof(struct type, field_)}
#define NUMBER(type, field_, key) {key, false, offsetof(struct type, field_)}

static const struct field dot_fields[] = {
    LIST(hlo_dot, lhs_batching, "lhs_batching_dimensions"), LIST(hlo_dot, rhs_batching, "rhs_batching_dimensions"),
    LIST(hlo_dot, lhs_contracting, "lhs_contracting_dimensions"), LIST(hlo_dot, rhs_contracting, "rhs_contracting_dimensions"), {NULL, false, 0}};
static const struct field ragged_fields[] = {
    LIST(hlo_ragged_dot, lhs_batching, "lhs_batching_dimensions"), LIST(hlo_ragged_dot, rhs_batching, "rhs_batching_dimensions"),
    LIST(hlo_ragged_dot, lhs_contracting, "lhs_contracting_dimensions"), LIST(hlo_ragged_dot, rhs_contracting, "rhs_contracting_dimensions"),
    LIST(hlo_ragged_dot, lhs_ragged, "lhs_ragged_dimensions"), LIST(hlo_ragged_dot, rhs_group, "rhs_group_dimensions"), {NULL, false, 0}};
static const struct field gather_fields[] = {
    LIST(hlo_gather, offset_dims, "offset_dims"), LIST(hlo_gather, collapsed_slice_dims, "collapsed_slice_dims"),
    LIST(hlo_gather, operand_batching_dims, "operand_batching_dims"), LIST(hlo_gather, start_indices_batching_dims, "start_indices_batching_dims"),
    LIST(hlo_gather, start_index_map, "start_index_map"), NUMBER(hlo_gather, index_vector_dim, "index_vector_dim"), {NULL, false, 0}};
static const struct field scatter_fields[] = {
    LIST(hlo_scatter, update_window_dims, "update_window_dims"), LIST(hlo_scatter, inserted_window_dims, "inserted_window_dims"),
    LIST(hlo_scatter, input_batching_dims, "input_batching_dims"), LIST(hlo_scatter, scatter_indices_batching_dims, "scatter_indices_batching_dims"),
    LIST(hlo_scatter, scatter_dims_to_operand_dims, "scatter_dims_to_operand_dims"), NUMBER(hlo_scatter, index_vector_dim, "index_vector_dim"), {NULL, false, 0}};
static const struct field channel_fields[] = {NUMBER(hlo_channel, handle, "handle"), NUMBER(hlo_channel, type, "type"), {NULL, false, 0}};
static const struct field alias_fields[] = {
    LIST(hlo_alias, output_tuple_indices, "output_tuple_indices"), NUMBER(hlo_alias, operand_index, "operand_index"),
    LIST(hlo_alias, operand_tuple_indices, "operand_tuple_indices"), {NULL, false, 0}};
static const struct field conv_fields[] = {
    NUMBER(hlo_conv, input_batch, "input_batch_dimension"), NUMBER(hlo_conv, input_feature, "input_feature_dimension"),
    LIST(hlo_conv, input_spatial, "input_spatial_dimensions"), NUMBER(hlo_conv, kernel_input_feature, "kernel_input_feature_dimension"),
    NUMBER(hlo_conv, kernel_output_feature, "kernel_output_feature_dimension"), LIST(hlo_conv, kernel_spatial, "kernel_spatial_dimensions"),
    NUMBER(hlo_conv, output_batch, "output_batch_dimension"), NUMBER(hlo_conv, output_feature, "output_feature_dimension"),
    LIST(hlo_conv, output_spatial, "output_spatial_dimensions"), {NULL, false, 0}};

/* (key '=' value ','?)* up to '>', in any order; *into is zero before. */
static bool parse_fields(struct hlo_parser *p, const struct field *fields, void *into)
{
    uint32_t seen = 0;
    while (!parse_accept(p, '>')) {
        struct nf_str key;
        if (!hlo__parse_word(p, &key))
            return false;
        int f = 0;
        while (fields[f].key && !nf_str_eq_c(key, fields[f].key))
            f++;
        if (!fields[f].key)
            return hlo__parse_fail_at(p, key.data, NF_EGRAPH, "unknown field '%.*s'", (int)NF_MIN(key.len, (size_t)60), key.data);
        if (seen & 1u << f)
            return hlo__parse_fail_at(p, key.data, NF_EGRAPH, "duplicated field '%.*s'", NF_STR_ARG(key));
        seen |= 1u << f;
        if (!parse_expect(p, '='))
            return false;
        char *at = (char *)into + fields[f].offset;
        if (fields[f].list ? !hlo__parse_i64_list(p, (struct hlo_ints *)at) : !hlo__parse_i64(p, (int64_t *)at))
            return false;
        if (!parse_accept(p, ',') && parse_peek(p) != '>')
            return hlo__parse_wrong(p, "',' or '>'");
    }
    return true;
}

/* [b, 0, 1, f]: letters at most once, numbers 0..n-1 without gaps. */
static bool parse_conv_list(struct hlo_parser *p, char first, char second, int64_t *ret_first, int64_t *ret_second, struct hlo_ints *ret_spatial)
{
    int64_t where[64], n = 0, spatial = 0;
    bool have_first = false, have_second = false;
    for (int i = 0; i < 64; i++)
        where[i] = -1;
    if (!parse_expect(p, '['))
        return false;
    const char *start = p->at;
    if (!parse_accept(p, ']')) {
        do {
            char c = parse_peek(p);
            const char *at = p->at;
            if (c >= '0' && c <= '9') {
                uint64_t v;
                if (!hlo__parse_u64_at(p, &v))
                    return false;
                if (v >= 64)
                    return hlo__parse_fail_at(p, at, NF_EGRAPH, "unexpected dimension %llu", (unsigned long long)v);
                if (where[v] >= 0)
                    return hlo__parse_fail_at(p, at, NF_EGRAPH, "duplicate entry %llu", (unsigned long long)v);
                where[v] = n;
                spatial++;
            } else if (c == '?') { /* a dimension without meaning */
                p->at++;
            } else {
                struct nf_str w;
                if (!hlo__parse_word(p, &w))
                    return false;
                bool *have = w.len == 1 && w.data[0] == first ? &have_first : w.len == 1 && w.data[0] == second ? &have_second : NULL;
                if (!have)
                    return hlo__parse_fail_at(p, at, NF_EGRAPH, "unexpected dimension '%.*s', expected %c or %c", (int)NF_MIN(w.len, (size_t)20), w.data, first, second);
                if (*have)
                    return hlo__parse_fail_at(p, at, NF_EGRAPH, "duplicate entry '%.*s'", NF_STR_ARG(w));
                *have = true;
                *(have == &have_first ? ret_first : ret_second) = n;
            }
            n++;
        } while (parse_accept(p, ',') && n < 64);
        if (!parse_expect(p, ']'))
            return false;
    }
    if (!have_first || !have_second)
        return hlo__parse_fail_at(p, start, NF_EGRAPH, "expected the dimension '%c'", have_first ? second : first);
    for (int64_t i = 0; i < spatial; i++)
        if (where[i] < 0)
            return hlo__parse_fail_at(p, start, NF_EGRAPH, "expected the spatial dimensions to be 0 to %lld without gaps", (long long)spatial - 1);
    *ret_spatial = hlo_ints_copy(p->m, (size_t)spatial, where);
    return true;
}

bool hlo__parse_conv_dims(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct hlo_conv c = {0};
    if (!parse_conv_list(p, 'b', 'f', &c.input_batch, &c.input_feature, &c.input_spatial) || !hlo__parse_expect_str(p, "x") ||
        !parse_conv_list(p, 'i', 'o', &c.kernel_input_feature, &c.kernel_output_feature, &c.kernel_spatial) || !hlo__parse_expect_str(p, "->") ||
        !parse_conv_list(p, 'b', 'f', &c.output_batch, &c.output_feature, &c.output_spatial))
        return false;
    *ret = hlo_attr_conv(p->m, &c);
    return true;
}

bool hlo__parse_enum(struct hlo_parser *p, enum hlo_enum_class c, const struct hlo_attr **ret)
{
    struct nf_str w;
    int64_t v;
    if (!hlo__parse_word(p, &w))
        return false;
    if (!hlo_enum_find(c, w, &v))
        return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "'%.*s' is not a %s", (int)NF_MIN(w.len, (size_t)60), w.data, hlo_enum_mnemonic(c));
    *ret = hlo_attr_enum(p->m, c, v);
    return true;
}

bool hlo__parse_precisions(struct hlo_parser *p, const struct hlo_attr **ret)
{
    const struct hlo_attr *v[8];
    size_t n = 0;
    if (!parse_expect(p, '['))
        return false;
    if (!parse_accept(p, ']')) {
        do {
            if (n == 8)
                return hlo__parse_wrong(p, "']'");
            if (!hlo__parse_enum(p, HLO_ENUM_PRECISION, &v[n++]))
                return false;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ']'))
            return false;
    }
    *ret = hlo_attr_array(p->m, n, v);
    return true;
}

static bool keyed(struct hlo_parser *p, const char *key, bool last_comma)
{
    (void)last_comma;
    return hlo__parse_expect_word(p, key) && parse_expect(p, '=');
}

bool hlo__parse_dot_algorithm(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct hlo_dot_algorithm *a = NF_NEW(p->arena, struct hlo_dot_algorithm);
    parse_space(p);
    const char *where = p->at;
    if (!parse_expect(p, '<') || !keyed(p, "lhs_precision_type", true) || !hlo__parse_type(p, &a->lhs_precision) || !parse_expect(p, ',') ||
        !keyed(p, "rhs_precision_type", true) || !hlo__parse_type(p, &a->rhs_precision) || !parse_expect(p, ',') ||
        !keyed(p, "accumulation_type", true) || !hlo__parse_type(p, &a->accumulation) || !parse_expect(p, ',') ||
        !keyed(p, "lhs_component_count", true) || !hlo__parse_i64(p, &a->lhs_components) || !parse_expect(p, ',') ||
        !keyed(p, "rhs_component_count", true) || !hlo__parse_i64(p, &a->rhs_components) || !parse_expect(p, ',') ||
        !keyed(p, "num_primitive_operations", true) || !hlo__parse_i64(p, &a->primitive_operations) || !parse_expect(p, ',') ||
        !keyed(p, "allow_imprecise_accumulation", true) || !hlo__parse_bool(p, &a->allow_imprecise) || !parse_expect(p, '>'))
        return false;
    const char *wrong = hlo__dot_algorithm_wrong(a);
    if (wrong)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "%s", wrong);
    *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_DOT_ALGORITHM, .algorithm = a});
    return true;
}

/* Behind "result_accuracy<": atol, rtol, ulps, mode, in this order, the numbers optional. */
static bool parse_accuracy(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct hlo_accuracy a = {0};
    const char *start = p->at;
    for (int i = 0; i < 2; i++) {
        double *d = i ? &a.relative : &a.absolute;
        if (!hlo__parse_accept_word(p, i ? "rtol" : "atol"))
            continue;
        const struct hlo_attr *v;
        if (!parse_expect(p, '='))
            return false;
        bool negative = parse_accept(p, '-');
        parse_space(p);
        if (!hlo__parse_number(p, negative, &v) || !parse_expect(p, ','))
            return false;
        *d = v->kind == HLO_ATTR_FLOAT ? hlo_float_decode(HLO_ELEM_F64, v->bits) : (double)v->i;
    }
    if (hlo__parse_accept_word(p, "ulps") && (!parse_expect(p, '=') || !hlo__parse_i64(p, &a.ulps) || !parse_expect(p, ',')))
        return false;
    if (!keyed(p, "mode", false))
        return false;
    const struct hlo_attr *mode;
    if (parse_peek(p) == '#') {
        if (!hlo__parse_attr(p, &mode))
            return false;
    } else if (!hlo__parse_enum(p, HLO_ENUM_ACCURACY, &mode)) {
        return false;
    }
    if (mode->kind != HLO_ATTR_ENUM || mode->enumeration.class != HLO_ENUM_ACCURACY)
        return hlo__parse_fail_at(p, start, NF_EGRAPH, "expected a result accuracy mode");
    a.mode = (enum hlo_accuracy_mode)mode->enumeration.value;
    const char *wrong = hlo__accuracy_wrong(&a);
    if (wrong)
        return hlo__parse_fail_at(p, start, NF_EGRAPH, "%s", wrong);
    *ret = hlo_attr_accuracy(p->m, &a);
    return parse_expect(p, '>');
}

/* Behind "bounds<" or "type_extensions<bounds = [": numbers and '?'. */
static bool parse_bounds(struct hlo_parser *p, char close, const struct hlo_attr **ret)
{
    uint32_t base = p->num_ints;
    if (!parse_accept(p, close)) {
        do {
            int64_t v = HLO_DYNAMIC;
            if (!parse_accept(p, '?') && !hlo__parse_i64(p, &v))
                return false;
            parse_push_int(p, v);
        } while (parse_accept(p, ','));
        if (!parse_expect(p, close))
            return false;
    }
    *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_BOUNDS, .ints = hlo_ints_copy(p->m, p->num_ints - base, p->ints + base)});
    p->num_ints = base;
    return true;
}

static bool parse_mesh_axes(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct hlo_mesh_axes a;
    if (!keyed(p, "mesh", true) || !hlo__parse_attr(p, &a.mesh) || !parse_expect(p, ',') || !keyed(p, "axes", false) || !hlo__parse_attr(p, &a.axes) ||
        !parse_expect(p, '>'))
        return false;
    *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_MESH_AXES, .mesh_axes = a});
    return true;
}

/* Behind "#stablehlo." or "#chlo." name, and '<' where there is one. known: false if the name is none of these. */
static bool parse_known(struct hlo_parser *p, struct nf_str name, const struct hlo_attr **ret, bool *ret_known)
{
    struct hlo_attr a = {.kind = HLO_ATTR_KIND_MAX};
    *ret_known = true;
    for (int c = 0; c < HLO_ENUM_CLASS_MAX; c++)
        if (nf_str_eq_c(name, hlo_enum_mnemonic((enum hlo_enum_class)c)))
            return hlo__parse_enum(p, (enum hlo_enum_class)c, ret) && parse_expect(p, '>');
    if (nf_str_eq_c(name, "dot")) {
        struct hlo_dot *d = NF_NEW(p->arena, struct hlo_dot);
        a = (struct hlo_attr){.kind = HLO_ATTR_DOT, .dot = d};
        if (!parse_fields(p, dot_fields, d))
            return false;
    } else if (nf_str_eq_c(name, "gather")) {
        struct hlo_gather *g = NF_NEW(p->arena, struct hlo_gather);
        a = (struct hlo_attr){.kind = HLO_ATTR_GATHER, .gather = g};
        if (!parse_fields(p, gather_fields, g))
            return false;
    } else if (nf_str_eq_c(name, "scatter")) {
        struct hlo_scatter *s = NF_NEW(p->arena, struct hlo_scatter);
        a = (struct hlo_attr){.kind = HLO_ATTR_SCATTER, .scatter = s};
        if (!parse_fields(p, scatter_fields, s))
            return false;
    } else if (nf_str_eq_c(name, "ragged_dot")) {
        struct hlo_ragged_dot *d = NF_NEW(p->arena, struct hlo_ragged_dot);
        a = (struct hlo_attr){.kind = HLO_ATTR_RAGGED_DOT, .ragged = d};
        if (!parse_fields(p, ragged_fields, d))
            return false;
    } else if (nf_str_eq_c(name, "channel_handle")) {
        a = (struct hlo_attr){.kind = HLO_ATTR_CHANNEL};
        if (!parse_fields(p, channel_fields, &a.channel))
            return false;
    } else if (nf_str_eq_c(name, "output_operand_alias")) {
        struct hlo_alias *s = NF_NEW(p->arena, struct hlo_alias);
        a = (struct hlo_attr){.kind = HLO_ATTR_ALIAS, .alias = s};
        if (!parse_fields(p, alias_fields, s))
            return false;
    } else if (nf_str_eq_c(name, "conv")) {
        if (hlo__parse_accept_word(p, "raw")) {
            struct hlo_conv *c = NF_NEW(p->arena, struct hlo_conv);
            a = (struct hlo_attr){.kind = HLO_ATTR_CONV, .conv = c};
            if (!parse_fields(p, conv_fields, c))
                return false;
        } else {
            return hlo__parse_conv_dims(p, ret) && parse_expect(p, '>');
        }
    } else if (nf_str_eq_c(name, "dot_algorithm")) {
        p->at--; /* its own '<' */
        return hlo__parse_dot_algorithm(p, ret);
    } else if (nf_str_eq_c(name, "result_accuracy")) {
        return parse_accuracy(p, ret);
    } else if (nf_str_eq_c(name, "bounds")) {
        return parse_bounds(p, '>', ret);
    } else if (nf_str_eq_c(name, "type_extensions")) {
        return keyed(p, "bounds", false) && parse_expect(p, '[') && parse_bounds(p, ']', ret) && parse_expect(p, '>');
    } else if (nf_str_eq_c(name, "replica_group_mesh_axes")) {
        return parse_mesh_axes(p, ret);
    } else {
        *ret_known = false;
        return true;
    }
    *ret = hlo_attr_new(p->m, &a);
    return true;
}

static bool parse_hash(struct hlo_parser *p, const struct hlo_attr **ret)
{
    const char *start = p->at++;
    struct nf_str name, body;
    if (!hlo__parse_suffix_id(p, &name))
        return false;
    const char *dot = memchr(name.data, '.', name.len);
    bool open = p->at < p->end && *p->at == '<';
    if (!dot && !open)
        return hlo__parse_alias(p, '#', name, ret, NULL);
    struct nf_str dialect = dot ? nf_str_n(name.data, (size_t)(dot - name.data)) : name;
    if (open && (nf_str_eq_c(dialect, "stablehlo") || nf_str_eq_c(dialect, "chlo"))) {
        bool known;
        const char *back = p->at++;
        if (dot) {
            if (!parse_known(p, nf_str_n(dot + 1, (size_t)(name.data + name.len - dot - 1)), ret, &known))
                return false;
        } else {
            struct nf_str inner;
            if (!hlo__parse_word(p, &inner))
                return false;
            bool nested = p->at < p->end && *p->at == '<'; /* #stablehlo<dot<...>> */
            if (nested)
                p->at++;
            if (!parse_known(p, inner, ret, &known) || (known && nested && !parse_expect(p, '>')))
                return false;
        }
        if (known)
            return true;
        p->at = back;
    }
    if (open && !hlo__parse_balanced(p, &body))
        return false;
    *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_OPAQUE, .str = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)))});
    return true;
}

/* ---- locations ---- */

static bool parse_loc_body(struct hlo_parser *p, const struct hlo_attr **ret);

static bool parse_u32(struct hlo_parser *p, uint32_t *ret)
{
    uint64_t v;
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_u64_at(p, &v))
        return false;
    if (v > UINT32_MAX)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "the number is too large");
    *ret = (uint32_t)v;
    return true;
}

/* "f" (':' line ':' col ('to' (line? ':' col))?)? | "name" ('(' location ')')? | callsite(a at b) | fused(<meta>)?[..] | unknown | #alias */
static bool parse_loc_inner(struct hlo_parser *p, const struct hlo_attr **ret)
{
    struct hlo_loc l = {.kind = HLO_LOC_UNKNOWN};
    char c = parse_peek(p);
    if (c == '#') {
        const char *where = p->at;
        if (!parse_hash(p, ret))
            return false;
        if ((*ret)->kind != HLO_ATTR_LOCATION)
            return hlo__parse_fail_at(p, where, NF_EGRAPH, "the alias is no location");
        return true;
    }
    if (c == '"') {
        if (!hlo__parse_string(p, &l.name))
            return false;
        if (parse_accept(p, ':')) {
            l.kind = HLO_LOC_FILE;
            if (!parse_u32(p, &l.line) || !parse_expect(p, ':') || !parse_u32(p, &l.col))
                return false;
            if (hlo__parse_accept_word(p, "to")) {
                l.end_line = l.line;
                if (!parse_accept(p, ':') && (!parse_u32(p, &l.end_line) || !parse_expect(p, ':')))
                    return false;
                if (!parse_u32(p, &l.end_col))
                    return false;
            }
        } else {
            l.kind = HLO_LOC_NAME;
            if (parse_accept(p, '(')) {
                const struct hlo_attr **child = NF_NEW_ARRAY(p->arena, const struct hlo_attr *, 1);
                if (!parse_loc_body(p, &child[0]) || !parse_expect(p, ')'))
                    return false;
                l.children = child;
                l.num_children = 1;
            }
        }
    } else if (hlo__parse_accept_word(p, "callsite")) {
        const struct hlo_attr **child = NF_NEW_ARRAY(p->arena, const struct hlo_attr *, 2);
        l.kind = HLO_LOC_CALLSITE;
        if (!parse_expect(p, '(') || !parse_loc_body(p, &child[0]) || !hlo__parse_expect_word(p, "at") || !parse_loc_body(p, &child[1]) || !parse_expect(p, ')'))
            return false;
        l.children = child;
        l.num_children = 2;
    } else if (hlo__parse_accept_word(p, "fused")) {
        l.kind = HLO_LOC_FUSED;
        if (parse_accept(p, '<') && (!hlo__parse_attr(p, &l.metadata) || !parse_expect(p, '>')))
            return false;
        if (!parse_expect(p, '['))
            return false;
        uint32_t base = p->num_named;
        if (!parse_accept(p, ']')) {
            do {
                const struct hlo_attr *child;
                if (!parse_loc_body(p, &child))
                    return false;
                parse_push_named(p, (struct nf_str){0}, child);
            } while (parse_accept(p, ','));
            if (!parse_expect(p, ']'))
                return false;
        }
        l.num_children = p->num_named - base;
        const struct hlo_attr **children = NF_NEW_ARRAY(p->arena, const struct hlo_attr *, l.num_children + 1);
        for (uint32_t i = 0; i < l.num_children; i++)
            children[i] = p->named[base + i].attr;
        l.children = children;
        p->num_named = base;
    } else if (hlo__parse_accept_word(p, "unknown")) {
        l.kind = HLO_LOC_UNKNOWN;
    } else {
        return hlo__parse_wrong(p, "a location");
    }
    *ret = hlo_attr_loc(p->m, &l);
    return true;
}

static bool parse_loc_body(struct hlo_parser *p, const struct hlo_attr **ret)
{
    if (!hlo__parse_enter(p))
        return false;
    bool ok;
    if (hlo__parse_accept_word(p, "loc")) /* nested ones may be spelled in full */
        ok = parse_expect(p, '(') && parse_loc_body(p, ret) && parse_expect(p, ')');
    else
        ok = parse_loc_inner(p, ret);
    parse_leave(p);
    return ok;
}

bool hlo__parse_location(struct hlo_parser *p, const struct hlo_attr **ret)
{
    return hlo__parse_expect_word(p, "loc") && parse_expect(p, '(') && parse_loc_body(p, ret) && parse_expect(p, ')');
}

bool hlo__parse_opt_location(struct hlo_parser *p, const struct hlo_attr **ret)
{
    *ret = NULL;
    if (parse_peek(p) != 'l' || !nf_str_eq_c(hlo__parse_peek_word(p), "loc"))
        return true;
    return hlo__parse_location(p, ret);
}

/* ---- any attribute ---- */

static bool opaque_from(struct hlo_parser *p, const char *start, const struct hlo_attr **ret)
{
    struct nf_str body;
    if (parse_peek(p) == '<' || parse_peek(p) == '[' || parse_peek(p) == '(')
        if (!hlo__parse_balanced(p, &body))
            return false;
    *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_OPAQUE, .str = hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start)))});
    return true;
}

static bool parse_attr_inner(struct hlo_parser *p, const struct hlo_attr **ret)
{
    char c = parse_peek(p);
    struct nf_str s;
    const struct hlo_type *t;
    const char *start = p->at;
    if (c == '"') {
        if (!hlo__parse_string(p, &s))
            return false;
        struct hlo_attr a = {.kind = HLO_ATTR_STRING, .str = s};
        if (parse_accept(p, ':') && !hlo__parse_type(p, &a.type))
            return false;
        *ret = hlo_attr_new(p->m, &a);
        return true;
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return parse_number_attr(p, ret);
    if (c == '@') {
        if (!hlo__parse_symbol(p, &s))
            return false;
        *ret = hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_SYMBOL, .str = s});
        return true;
    }
    if (c == '[')
        return parse_array(p, ret);
    if (c == '{') {
        uint32_t base = p->num_named;
        if (!hlo__parse_dict(p))
            return false;
        *ret = hlo__parse_dict_attr(p, base);
        return true;
    }
    if (c == '#')
        return parse_hash(p, ret);
    struct nf_str w = hlo__parse_peek_word(p);
    if (w.len) {
        if (nf_str_eq_c(w, "true") || nf_str_eq_c(w, "false")) {
            p->at += w.len;
            *ret = hlo_attr_bool(p->m, w.data[0] == 't');
            if (parse_accept(p, ':') && !hlo__parse_type(p, &t)) /* true : i1 */
                return false;
            return true;
        }
        if (nf_str_eq_c(w, "dense")) {
            p->at += w.len;
            return hlo__parse_dense(p, NULL, ret);
        }
        if (nf_str_eq_c(w, "dense_resource")) {
            p->at += w.len;
            return hlo__parse_dense_resource(p, ret);
        }
        if (nf_str_eq_c(w, "array")) {
            p->at += w.len;
            return parse_dense_array(p, ret);
        }
        if (nf_str_eq_c(w, "unit")) {
            p->at += w.len;
            *ret = hlo_attr_unit(p->m);
            return true;
        }
        if (nf_str_eq_c(w, "loc"))
            return hlo__parse_location(p, ret);
        if (nf_str_eq_c(w, "affine_map") || nf_str_eq_c(w, "affine_set") || nf_str_eq_c(w, "strided") || nf_str_eq_c(w, "distinct") || nf_str_eq_c(w, "sparse")) {
            p->at += w.len;
            if (!opaque_from(p, start, ret))
                return false;
            if (w.data[0] == 's' && w.data[1] == 'p') { /* sparse<..> : type */
                if (!parse_expect(p, ':') || !hlo__parse_type(p, &t))
                    return false;
                *ret = hlo_attr_opaque(p->m, hlo__parse_squeeze(p, nf_str_n(start, (size_t)(p->at - start))));
            }
            return true;
        }
    }
    if (!hlo__parse_type(p, &t))
        return false;
    *ret = hlo_attr_type(p->m, t);
    return true;
}

bool hlo__parse_attr(struct hlo_parser *p, const struct hlo_attr **ret)
{
    if (!hlo__parse_enter(p))
        return false;
    bool ok = parse_attr_inner(p, ret);
    parse_leave(p);
    return ok;
}
