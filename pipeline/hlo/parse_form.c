/* parse_form.c: the pretty forms, one function for each FORM of hlo_forms.def. Each begins behind the mnemonic and leaves
 * operands, result types, attributes and regions in the parse_op. Productions stand at each function; F is a function type,
 * S one type for all operands and results, or F. */
#include "pipeline/hlo/parse_internal.h"

/* ':' '(' types ')' '->' types */
static bool functional(struct hlo_parser *p, struct parse_op *b)
{
    if (!parse_expect(p, ':'))
        return false;
    parse_space(p);
    const char *where = p->at;
    uint32_t base = p->num_types;
    if (parse_peek(p) != '(')
        return hlo__parse_wrong(p, "a function type");
    if (!hlo__parse_type_list_paren(p) || !hlo__parse_expect_str(p, "->"))
        return false;
    uint32_t inputs = p->num_types - base;
    if (!hlo__parse_check_types(p, b, p->types + base, inputs, where))
        return false;
    p->num_types = base;
    return hlo__parse_type_list_paren(p);
}

/* ':' (type | F): one type for every operand and for the result */
static bool same_type(struct hlo_parser *p, struct parse_op *b, uint32_t results)
{
    if (!parse_expect(p, ':'))
        return false;
    const char *colon = p->at - 1;
    if (parse_peek(p) == '(') {
        p->at = colon;
        return functional(p, b);
    }
    parse_space(p);
    const char *where = p->at;
    const struct hlo_type *t;
    if (!hlo__parse_type(p, &t))
        return false;
    uint32_t n = p->num_values - b->values;
    for (uint32_t i = 0; i < n; i++)
        if (p->values[b->values + i]->type != t) {
            const struct hlo_type *wanted[64];
            for (uint32_t k = 0; k < n && k < 64; k++)
                wanted[k] = t;
            return hlo__parse_check_types(p, b, wanted, NF_MIN(n, 64u), where);
        }
    for (uint32_t i = 0; i < results; i++)
        parse_push_type(p, t);
    return true;
}

static bool operands_n(struct hlo_parser *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if ((i && !parse_expect(p, ',')) || !hlo__parse_operand(p))
            return false;
    return true;
}

/* %a, %b, up to (not including) the comma before a word; at least `min` */
static bool operands_before_word(struct hlo_parser *p, uint32_t min)
{
    uint32_t n = 0;
    while (parse_peek(p) == '%') {
        if (!hlo__parse_operand(p) || !parse_expect(p, ','))
            return false;
        n++;
    }
    if (n < min)
        return hlo__parse_wrong(p, "an SSA operand");
    return true;
}

static bool key(struct hlo_parser *p, const char *word) { return hlo__parse_expect_word(p, word) && parse_expect(p, '='); }

static bool set_i64s(struct hlo_parser *p, struct parse_op *b, enum hlo_attr_name name)
{
    struct hlo_ints v;
    if (!hlo__parse_i64_list(p, &v))
        return false;
    return hlo__parse_set(p, b, name, hlo_attr_new(p->m, &(struct hlo_attr){.kind = HLO_ATTR_DENSE_ARRAY, .type = hlo_type_scalar(p->m, HLO_ELEM_I64), .ints = v}));
}

static bool set_i64(struct hlo_parser *p, struct parse_op *b, enum hlo_attr_name name, enum hlo_elem e)
{
    int64_t v;
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_i64(p, &v))
        return false;
    if (e == HLO_ELEM_I32 && (v < INT32_MIN || v > INT32_MAX))
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "the integer does not fit in 32 bits");
    if (parse_peek(p) == ':' && nf_str_starts(nf_str_n(p->at, (size_t)(p->end - p->at)), NF_STR(": i"))) {
        const char *back = p->at++; /* "dim = 0 : i64" */
        struct nf_str w = hlo__parse_peek_word(p);
        if (nf_str_eq_c(w, hlo_elem_name(e)))
            p->at += w.len;
        else
            p->at = back;
    }
    return hlo__parse_set(p, b, name, hlo_attr_int(p->m, e, v));
}

static bool set_enum(struct hlo_parser *p, struct parse_op *b, enum hlo_attr_name name, enum hlo_enum_class c)
{
    const struct hlo_attr *a;
    return hlo__parse_enum(p, c, &a) && hlo__parse_set(p, b, name, a);
}

static enum hlo_attr_name first_attr(const struct parse_op *b) { return b->info->attrs[0].id; }

/* ---- builtin and func ---- */

/* module (@name)? ('attributes' dict)? region */
static bool form_module(struct hlo_parser *p, struct parse_op *b)
{
    if (parse_peek(p) == '@') {
        struct nf_str name;
        if (!hlo__parse_symbol(p, &name) || !hlo__parse_set(p, b, HLO_A_sym_name, hlo_attr_string(p->m, name)))
            return false;
    }
    if (hlo__parse_accept_word(p, "attributes") && !hlo__parse_attr_dict(p, b))
        return false;
    if (!hlo__parse_region(p, b, NULL, 0, true))
        return false;
    if (!b->regions[0]->first)
        hlo_block_new(p->m, b->regions[0]);
    return true;
}

/* '(' (%name ':' type dict? location?),* ')' or '(' type,* ')'; names, types and dictionaries come back in lists */
struct func_args {
    struct parse_arg *args;
    const struct hlo_attr **dicts;
    uint32_t n, cap;
    bool any_dict, any_name;
};

static bool func_arg(struct hlo_parser *p, struct func_args *f, bool may_name)
{
    struct parse_arg arg = {.where = p->at};
    const struct hlo_attr *dict = NULL;
    if (may_name && parse_peek(p) == '%') {
        arg.where = p->at++;
        if (!hlo__parse_suffix_id(p, &arg.name) || !parse_expect(p, ':'))
            return false;
        f->any_name = true;
    }
    if (!hlo__parse_type(p, &arg.type))
        return false;
    if (parse_peek(p) == '{') {
        uint32_t base = p->num_named;
        if (!hlo__parse_dict(p))
            return false;
        if (p->num_named > base)
            f->any_dict = true;
        dict = hlo__parse_dict_attr(p, base);
    }
    if (!hlo__parse_opt_location(p, &arg.loc))
        return false;
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? f->cap * 2 : 16;
        struct parse_arg *args = NF_NEW_ARRAY(p->scratch, struct parse_arg, cap);
        const struct hlo_attr **dicts = NF_NEW_ARRAY(p->scratch, const struct hlo_attr *, cap);
        for (uint32_t i = 0; i < f->n; i++) {
            args[i] = f->args[i];
            dicts[i] = f->dicts[i];
        }
        f->args = args;
        f->dicts = dicts;
        f->cap = cap;
    }
    f->args[f->n] = arg;
    f->dicts[f->n++] = dict;
    return true;
}

static const struct hlo_attr *dict_list(struct hlo_parser *p, struct func_args *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (!f->dicts[i])
            f->dicts[i] = hlo_attr_dict(p->m, 0, NULL);
    return hlo_attr_array(p->m, f->n, f->dicts);
}

/* func (public|private|nested)? @name args ('->' results)? ('attributes' dict)? region? */
static bool form_func(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str name, w = hlo__parse_peek_word(p);
    struct func_args in = {0}, out = {0};
    if (nf_str_eq_c(w, "public") || nf_str_eq_c(w, "private") || nf_str_eq_c(w, "nested")) {
        p->at += w.len;
        if (!hlo__parse_set(p, b, HLO_A_sym_visibility, hlo_attr_string(p->m, w)))
            return false;
    }
    if (!hlo__parse_symbol(p, &name) || !hlo__parse_set(p, b, HLO_A_sym_name, hlo_attr_string(p->m, name)) || !parse_expect(p, '('))
        return false;
    if (!parse_accept(p, ')')) {
        do {
            if (!func_arg(p, &in, true))
                return false;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ')'))
            return false;
    }
    if (hlo__parse_accept_str(p, "->")) {
        if (parse_accept(p, '(')) {
            if (!parse_accept(p, ')')) {
                do {
                    if (!func_arg(p, &out, false))
                        return false;
                } while (parse_accept(p, ','));
                if (!parse_expect(p, ')'))
                    return false;
            }
        } else {
            const struct hlo_type *t;
            if (!hlo__parse_type(p, &t))
                return false;
            out.args = NF_NEW_ARRAY(p->scratch, struct parse_arg, 1);
            out.args[0].type = t;
            out.n = 1;
        }
    }
    if (hlo__parse_accept_word(p, "attributes") && !hlo__parse_attr_dict(p, b))
        return false;
    const struct hlo_type **types = NF_NEW_ARRAY(p->scratch, const struct hlo_type *, (size_t)in.n + out.n + 1);
    for (uint32_t i = 0; i < in.n; i++)
        types[i] = in.args[i].type;
    for (uint32_t i = 0; i < out.n; i++)
        types[in.n + i] = out.args[i].type;
    const struct hlo_type *ft = hlo_type_function(p->m, in.n, types, out.n, types + in.n);
    if (!hlo__parse_set(p, b, HLO_A_function_type, hlo_attr_type(p->m, ft)))
        return false;
    if (in.any_dict && !hlo__parse_set(p, b, HLO_A_arg_attrs, dict_list(p, &in)))
        return false;
    if (out.any_dict && !hlo__parse_set(p, b, HLO_A_res_attrs, dict_list(p, &out)))
        return false;
    if (parse_peek(p) != '{') {
        if (in.any_name)
            return hlo__parse_wrong(p, "'{'");
        hlo__parse_region_new(p, b);
        return true;
    }
    if (in.n && !in.any_name)
        return hlo__parse_wrong(p, "names of the arguments of a function with a body");
    const char *where = p->at;
    if (!hlo__parse_region(p, b, in.args, in.n, true))
        return false;
    if (!b->regions[0]->first)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "expected non-empty function body");
    return true;
}

/* call @f '(' operands ')' dict? ':' F */
static bool form_call(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str name;
    return hlo__parse_symbol(p, &name) && hlo__parse_set(p, b, HLO_A_callee, hlo_attr_symbol(p->m, name)) && parse_expect(p, '(') && hlo__parse_operands(p) &&
           parse_expect(p, ')') && hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* return dict? (operands ':' types)? */
static bool form_return(struct hlo_parser *p, struct parse_op *b)
{
    if (!hlo__parse_attr_dict(p, b) || !hlo__parse_operands(p))
        return false;
    if (p->num_values == b->values)
        return true;
    if (!hlo__parse_attr_dict(p, b) || !parse_expect(p, ':'))
        return false;
    parse_space(p);
    const char *where = p->at;
    uint32_t base = p->num_types;
    if (!hlo__parse_type_list(p) || !hlo__parse_check_types(p, b, p->types + base, p->num_types - base, where))
        return false;
    p->num_types = base;
    return true;
}

/* ---- elementwise ---- */

static bool form_unary(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 1) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1); }
static bool form_binary(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 2) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1); }
static bool form_ternary(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 3) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1); }
static bool form_functional(struct hlo_parser *p, struct parse_op *b) { return hlo__parse_operands(p) && hlo__parse_attr_dict(p, b) && functional(p, b); }

/* %x ',' 'format' '=' e#m# ':' S */
static bool form_reduce_precision(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str w;
    if (!operands_n(p, 1) || !parse_expect(p, ',') || !key(p, "format") || !hlo__parse_word(p, &w))
        return false;
    int64_t bits[2] = {-1, -1};
    const char *s = w.data, *e = w.data + w.len;
    for (int i = 0; i < 2; i++) {
        if (s == e || *s != "em"[i] || ++s == e || !parse_is(*s, PARSE_DIGIT))
            return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "expected exponent mantissa in format e#m#, saw %.*s", (int)NF_MIN(w.len, (size_t)40), w.data);
        for (bits[i] = 0; s < e && parse_is(*s, PARSE_DIGIT); s++) {
            bits[i] = bits[i] * 10 + (*s - '0');
            if (bits[i] > INT32_MAX)
                return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "unable to parse %s in %.*s", i ? "mantissa" : "exponent", (int)NF_MIN(w.len, (size_t)40), w.data);
        }
    }
    if (s != e)
        return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "expected exponent mantissa in format e#m#, saw %.*s", (int)NF_MIN(w.len, (size_t)40), w.data);
    return hlo__parse_set(p, b, HLO_A_exponent_bits, hlo_attr_int(p->m, HLO_ELEM_I32, bits[0])) &&
           hlo__parse_set(p, b, HLO_A_mantissa_bits, hlo_attr_int(p->m, HLO_ELEM_I32, bits[1])) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1);
}

/* DIRECTION ',' %a ',' %b (',' TYPE)? ':' F */
static bool form_compare(struct hlo_parser *p, struct parse_op *b)
{
    if (!set_enum(p, b, HLO_A_comparison_direction, HLO_ENUM_DIRECTION) || !parse_expect(p, ',') || !operands_n(p, 2))
        return false;
    if (parse_accept(p, ',') && !set_enum(p, b, HLO_A_compare_type, HLO_ENUM_COMPARE_TYPE))
        return false;
    return hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* %re ',' %im ':' (complex tensor | F) */
static bool form_complex(struct hlo_parser *p, struct parse_op *b)
{
    if (!operands_n(p, 2) || !hlo__parse_attr_dict(p, b))
        return false;
    if (!parse_expect(p, ':'))
        return false;
    const char *colon = p->at - 1;
    if (parse_peek(p) == '(') {
        p->at = colon;
        return functional(p, b);
    }
    parse_space(p);
    const char *where = p->at;
    const struct hlo_type *t;
    if (!hlo__parse_type(p, &t))
        return false;
    if (t->kind > HLO_TYPE_UNRANKED || hlo_elem_class(t->elem) != HLO_CLASS_COMPLEX)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'stablehlo.complex' expected tensor with complex element type");
    const struct hlo_type *part = hlo_type_with_elem(p->m, t, hlo_elem_part(t->elem)), *wanted[2] = {part, part};
    parse_push_type(p, t);
    return hlo__parse_check_types(p, b, wanted, 2, where);
}

/* %p ',' %t ',' %f ':' (pred ',' type | F) */
static bool form_select(struct hlo_parser *p, struct parse_op *b)
{
    if (!operands_n(p, 3) || !hlo__parse_attr_dict(p, b) || !parse_expect(p, ':'))
        return false;
    const char *colon = p->at - 1;
    if (parse_peek(p) == '(') {
        p->at = colon;
        return functional(p, b);
    }
    parse_space(p);
    const char *where = p->at;
    uint32_t base = p->num_types;
    if (!hlo__parse_type_list(p))
        return false;
    if (p->num_types - base != 2)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'stablehlo.select' expected functional type or list of two types");
    const struct hlo_type *wanted[3] = {p->types[base], p->types[base + 1], p->types[base + 1]};
    p->num_types = base;
    parse_push_type(p, wanted[2]);
    return hlo__parse_check_types(p, b, wanted, 3, where);
}

/* ---- constants, shapes ---- */

/* dict? elements | '()' dict ':' F */
static bool form_constant(struct hlo_parser *p, struct parse_op *b)
{
    if (parse_accept(p, '('))
        return parse_expect(p, ')') && hlo__parse_attr_dict(p, b) && functional(p, b);
    const struct hlo_attr *a;
    if (!hlo__parse_attr_dict(p, b))
        return false;
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_attr(p, &a))
        return false;
    if (a->kind != HLO_ATTR_DENSE && a->kind != HLO_ATTR_RESOURCE)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'%.*s' expected elements", NF_STR_ARG(b->name));
    parse_push_type(p, a->type);
    return hlo__parse_set(p, b, HLO_A_value, a);
}

/* 'dim' '=' n ':' type */
static bool form_iota(struct hlo_parser *p, struct parse_op *b)
{
    const struct hlo_type *t;
    if (!key(p, "dim") || !set_i64(p, b, HLO_A_iota_dimension, HLO_ELEM_I64) || !hlo__parse_attr_dict(p, b) || !parse_expect(p, ':') || !hlo__parse_type(p, &t))
        return false;
    parse_push_type(p, t);
    return true;
}

/* operands ',' 'dims' '=' list ':' F */
static bool form_dims(struct hlo_parser *p, struct parse_op *b)
{
    return operands_before_word(p, 1) && key(p, "dims") && set_i64s(p, b, first_attr(b)) && hlo__parse_attr_dict(p, b) && functional(p, b);
}
static bool form_dims_same(struct hlo_parser *p, struct parse_op *b)
{
    return operands_before_word(p, 1) && key(p, "dims") && set_i64s(p, b, first_attr(b)) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1);
}
static bool form_dim(struct hlo_parser *p, struct parse_op *b)
{
    return operands_before_word(p, 0) && key(p, "dim") && set_i64(p, b, first_attr(b), HLO_ELEM_I64) && hlo__parse_attr_dict(p, b) && functional(p, b);
}
static bool form_sizes(struct hlo_parser *p, struct parse_op *b)
{
    return operands_before_word(p, 1) && key(p, "sizes") && set_i64s(p, b, first_attr(b)) && hlo__parse_attr_dict(p, b) && functional(p, b);
}
static bool form_broadcast(struct hlo_parser *p, struct parse_op *b) { return form_sizes(p, b); }

/* %x '[' (start ':' limit (':' stride)?),* ']' ':' F */
static bool form_slice(struct hlo_parser *p, struct parse_op *b)
{
    if (!operands_n(p, 1) || !parse_expect(p, '['))
        return false;
    uint32_t base = p->num_ints;
    if (!parse_accept(p, ']')) {
        do {
            int64_t start, limit, stride = 1;
            if (!hlo__parse_i64(p, &start) || !parse_expect(p, ':') || !hlo__parse_i64(p, &limit) || (parse_accept(p, ':') && !hlo__parse_i64(p, &stride)))
                return false;
            parse_push_int(p, start);
            parse_push_int(p, limit);
            parse_push_int(p, stride);
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ']'))
            return false;
    }
    uint32_t n = (p->num_ints - base) / 3;
    static const enum hlo_attr_name names[3] = {HLO_A_start_indices, HLO_A_limit_indices, HLO_A_strides};
    for (int k = 0; k < 3; k++) {
        int64_t *v = nf_arena_alloc_array(p->arena, (size_t)n + 1, sizeof *v);
        for (uint32_t i = 0; i < n; i++)
            v[i] = p->ints[base + i * 3 + (uint32_t)k];
        struct hlo_attr a = {.kind = HLO_ATTR_DENSE_ARRAY, .type = hlo_type_scalar(p->m, HLO_ELEM_I64), .ints = {n, v}};
        if (!hlo__parse_set(p, b, names[k], hlo_attr_new(p->m, &a)))
            return false;
    }
    p->num_ints = base;
    return hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* %x ',' %v ',' 'low' '=' list ',' 'high' '=' list ',' 'interior' '=' list ':' F */
static bool form_pad(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 2) && parse_expect(p, ',') && key(p, "low") && set_i64s(p, b, HLO_A_edge_padding_low) && parse_expect(p, ',') && key(p, "high") &&
           set_i64s(p, b, HLO_A_edge_padding_high) && parse_expect(p, ',') && key(p, "interior") && set_i64s(p, b, HLO_A_interior_padding) &&
           hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* ---- products, windows ---- */

/* (',' 'precision' '=' '[' .. ']')? */
static bool opt_precision(struct hlo_parser *p, struct parse_op *b, bool *ret_comma)
{
    const struct hlo_attr *a;
    *ret_comma = parse_accept(p, ',');
    if (!*ret_comma || !nf_str_eq_c(hlo__parse_peek_word(p), "precision"))
        return true;
    *ret_comma = false;
    return key(p, "precision") && hlo__parse_precisions(p, &a) && hlo__parse_set(p, b, HLO_A_precision_config, a);
}

/* %a ',' %b (',' 'batching_dims' '=' list 'x' list)? ',' 'contracting_dims' '=' list 'x' list precision? (',' 'algorithm' '=' <..>)? ':' F */
static bool form_dot_general(struct hlo_parser *p, struct parse_op *b)
{
    struct hlo_dot d = {{0}, {0}, {0}, {0}};
    static const int64_t none[1];
    d.lhs_batching.v = d.rhs_batching.v = d.lhs_contracting.v = d.rhs_contracting.v = none;
    if (!operands_n(p, 2) || !parse_expect(p, ','))
        return false;
    if (nf_str_eq_c(hlo__parse_peek_word(p), "batching_dims")) {
        if (!key(p, "batching_dims") || !hlo__parse_i64_list(p, &d.lhs_batching) || !hlo__parse_expect_word(p, "x") || !hlo__parse_i64_list(p, &d.rhs_batching) ||
            !parse_expect(p, ','))
            return false;
    }
    if (!key(p, "contracting_dims") || !hlo__parse_i64_list(p, &d.lhs_contracting) || !hlo__parse_expect_word(p, "x") || !hlo__parse_i64_list(p, &d.rhs_contracting) ||
        !hlo__parse_set(p, b, HLO_A_dot_dimension_numbers, hlo_attr_dot(p->m, &d)))
        return false;
    bool comma;
    if (!opt_precision(p, b, &comma))
        return false;
    if (comma || parse_accept(p, ',')) {
        const struct hlo_attr *a;
        if (!key(p, "algorithm") || !hlo__parse_dot_algorithm(p, &a) || !hlo__parse_set(p, b, HLO_A_algorithm, a))
            return false;
    }
    return hlo__parse_attr_dict(p, b) && functional(p, b);
}

static bool form_dot(struct hlo_parser *p, struct parse_op *b)
{
    bool comma;
    if (!operands_n(p, 2) || !opt_precision(p, b, &comma))
        return false;
    if (comma)
        return hlo__parse_wrong(p, "'precision'");
    return hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* operands ',' 'config' '=' string ':' F */
static bool form_einsum(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str s;
    return operands_before_word(p, 1) && key(p, "config") && hlo__parse_string(p, &s) && hlo__parse_set(p, b, HLO_A_einsum_config, hlo_attr_string(p->m, s)) &&
           hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* '[' ('[' low ',' high ']'),* ']' as elements of an n x 2 tensor */
static bool parse_padding(struct hlo_parser *p, const struct hlo_attr **ret)
{
    uint32_t base = p->num_ints;
    if (!parse_expect(p, '['))
        return false;
    if (!parse_accept(p, ']')) {
        do {
            int64_t low, high;
            if (!parse_expect(p, '[') || !hlo__parse_i64(p, &low) || !parse_expect(p, ',') || !hlo__parse_i64(p, &high) || !parse_expect(p, ']'))
                return false;
            parse_push_int(p, low);
            parse_push_int(p, high);
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ']'))
            return false;
    }
    int64_t dims[2] = {(p->num_ints - base) / 2, 2};
    *ret = hlo_attr_dense_i64s(p->m, 2, dims, p->ints + base);
    p->num_ints = base;
    return true;
}

/* '[' (bool | 0 | 1),* ']' */
static bool parse_reversal(struct hlo_parser *p, const struct hlo_attr **ret)
{
    uint32_t base = p->num_ints;
    if (!parse_expect(p, '['))
        return false;
    if (!parse_accept(p, ']')) {
        do {
            int64_t v;
            bool flag = false;
            if (parse_is(parse_peek(p), PARSE_LETTER)) {
                if (!hlo__parse_bool(p, &flag))
                    return false;
                v = flag;
            } else if (!hlo__parse_i64(p, &v)) {
                return false;
            }
            parse_push_int(p, v != 0);
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ']'))
            return false;
    }
    *ret = hlo_attr_dense_array(p->m, HLO_ELEM_I1, p->num_ints - base, p->ints + base);
    p->num_ints = base;
    return true;
}

/* '(' %a ',' %b ')' 'dim_numbers' '=' .. ',' 'window' '=' '{' (name '=' list),* '}' dict? ':' F */
static bool form_convolution(struct hlo_parser *p, struct parse_op *b)
{
    const struct hlo_attr *a;
    if (!parse_expect(p, '(') || !operands_n(p, 2) || !parse_expect(p, ')') || !key(p, "dim_numbers") || !hlo__parse_conv_dims(p, &a) ||
        !hlo__parse_set(p, b, HLO_A_dimension_numbers, a) || !parse_expect(p, ',') || !key(p, "window") || !parse_expect(p, '{'))
        return false;
    if (!parse_accept(p, '}')) {
        do {
            struct nf_str w;
            if (!hlo__parse_word(p, &w) || !parse_expect(p, '='))
                return false;
            bool ok;
            if (nf_str_eq_c(w, "stride"))
                ok = set_i64s(p, b, HLO_A_window_strides);
            else if (nf_str_eq_c(w, "lhs_dilate"))
                ok = set_i64s(p, b, HLO_A_lhs_dilation);
            else if (nf_str_eq_c(w, "rhs_dilate"))
                ok = set_i64s(p, b, HLO_A_rhs_dilation);
            else if (nf_str_eq_c(w, "pad"))
                ok = parse_padding(p, &a) && hlo__parse_set(p, b, HLO_A_padding, a);
            else if (nf_str_eq_c(w, "reverse"))
                ok = parse_reversal(p, &a) && hlo__parse_set(p, b, HLO_A_window_reversal, a);
            else
                return hlo__parse_fail_at(p, w.data, NF_EGRAPH, "unexpected attribute '%.*s' of a window", (int)NF_MIN(w.len, (size_t)40), w.data);
            if (!ok)
                return false;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, '}'))
            return false;
    }
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_attr_dict(p, b))
        return false;
    for (int i = 0; i < b->info->num_attrs; i++)
        if ((b->info->attrs[i].id == HLO_A_feature_group_count || b->info->attrs[i].id == HLO_A_batch_group_count) && b->slots[i] && b->slots[i]->kind == HLO_ATTR_INT &&
            b->slots[i]->i <= 0)
            return hlo__parse_fail_at(p, where, NF_EGRAPH, "attribute '%s' must be positive, but got %lld", b->info->attrs[i].name, (long long)b->slots[i]->i);
    return functional(p, b);
}

/* ---- operations with regions ---- */

static bool region_arg(struct hlo_parser *p, struct parse_arg *arg)
{
    if (parse_peek(p) != '%')
        return hlo__parse_wrong(p, "an argument");
    arg->where = p->at++;
    return hlo__parse_suffix_id(p, &arg->name) && parse_expect(p, ':') && hlo__parse_type(p, &arg->type) && hlo__parse_opt_location(p, &arg->loc);
}

/* reduce '(' %x 'init' ':' %i ')',+ ('applies' op)? 'across' 'dimensions' '=' list dict? ':' F ('reducer' '(' arg ',' arg ')'+ region)? */
static bool form_reduce(struct hlo_parser *p, struct parse_op *b)
{
    uint32_t base = p->num_values, n = 0;
    struct hlo_value *pairs[2];
    struct hlo_value **inits = NULL;
    uint32_t cap = 0;
    const char *op_where = NULL;
    struct nf_str inner = {0};
    do {
        if (!parse_expect(p, '(') || !hlo__parse_value(p, &pairs[0]) || !hlo__parse_expect_word(p, "init") || !parse_expect(p, ':') ||
            !hlo__parse_value(p, &pairs[1]) || !parse_expect(p, ')'))
            return false;
        if (n == cap) {
            uint32_t c = cap ? cap * 2 : 8;
            struct hlo_value **grown = NF_NEW_ARRAY(p->scratch, struct hlo_value *, c);
            for (uint32_t i = 0; i < n; i++)
                grown[i] = inits[i];
            inits = grown;
            cap = c;
        }
        parse_push_value(p, pairs[0]);
        inits[n++] = pairs[1];
    } while (parse_accept(p, ','));
    for (uint32_t i = 0; i < n; i++)
        parse_push_value(p, inits[i]);
    if (hlo__parse_accept_word(p, "applies")) {
        parse_space(p);
        op_where = p->at;
        if (!hlo__parse_word(p, &inner))
            return false;
    }
    if (!hlo__parse_expect_word(p, "across") || !key(p, "dimensions") || !set_i64s(p, b, HLO_A_dimensions) || !hlo__parse_attr_dict(p, b) || !functional(p, b))
        return false;
    if (!op_where) {
        struct parse_arg *args = NF_NEW_ARRAY(p->scratch, struct parse_arg, (size_t)n * 2);
        if (!hlo__parse_expect_word(p, "reducer"))
            return false;
        for (uint32_t i = 0; i < n; i++)
            if (!parse_expect(p, '(') || !region_arg(p, &args[i]) || !parse_expect(p, ',') || !region_arg(p, &args[i + n]) || !parse_expect(p, ')'))
                return false;
        return hlo__parse_region(p, b, args, n * 2, false);
    }
    /* the short form: a body of one operation on scalars of the first input's element type */
    enum hlo_op_id id = hlo_op_find(inner);
    const struct hlo_op_info *info = hlo_op_info(id);
    const struct hlo_type *in = p->values[base]->type;
    if (id == HLO_OP_UNKNOWN || info->dialect != HLO_DIALECT_STABLEHLO || info->min_operands != 2 || info->max_operands != 2 || info->regions != 0 ||
        !(info->traits & HLO_T_COMMUTATIVE))
        return hlo__parse_fail_at(p, op_where, NF_EGRAPH, "'%.*s' cannot be applied by a reduction: it is no commutative operation of two operands", (int)NF_MIN(inner.len, (size_t)60), inner.data);
    if (in->kind > HLO_TYPE_UNRANKED)
        return hlo__parse_fail_at(p, op_where, NF_EGRAPH, "a reduction applies an operation to tensors only");
    const struct hlo_type *scalar = hlo_type_with_shape(p->m, in, 0, NULL);
    struct hlo_region *r = hlo__parse_region_new(p, b);
    struct hlo_block *block = hlo_block_new(p->m, r);
    struct hlo_value *lhs = hlo_block_add_arg(p->m, block, scalar), *rhs = hlo_block_add_arg(p->m, block, scalar);
    struct hlo_op *op = hlo_op_new(p->m, id, 2, (struct hlo_value *[]){lhs, rhs}, 1, &scalar, 0);
    struct hlo_op *ret = hlo_op_new(p->m, HLO_OP_RETURN, 1, (struct hlo_value *[]){&op->results[0]}, 0, NULL, 0);
    op->pos = ret->pos = (uint32_t)(op_where - p->begin);
    hlo_block_append(block, op);
    hlo_block_append(block, ret);
    return true;
}

/* while '(' (%arg '=' %x),* ')' (':' types)? ('attributes' dict)? 'cond' region 'do' region */
static bool form_while(struct hlo_parser *p, struct parse_op *b)
{
    struct parse_arg *args = NULL;
    uint32_t n = 0, cap = 0;
    if (!parse_expect(p, '('))
        return false;
    if (!parse_accept(p, ')')) {
        do {
            if (n == cap) {
                uint32_t c = cap ? cap * 2 : 16;
                struct parse_arg *grown = NF_NEW_ARRAY(p->scratch, struct parse_arg, c);
                for (uint32_t i = 0; i < n; i++)
                    grown[i] = args[i];
                args = grown;
                cap = c;
            }
            if (parse_peek(p) != '%')
                return hlo__parse_wrong(p, "an argument");
            args[n].where = p->at++;
            if (!hlo__parse_suffix_id(p, &args[n].name) || !parse_expect(p, '=') || !hlo__parse_operand(p))
                return false;
            n++;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ')'))
            return false;
    }
    if (n) {
        if (!parse_expect(p, ':'))
            return false;
        parse_space(p);
        const char *where = p->at;
        uint32_t base = p->num_types;
        if (!hlo__parse_type_list(p) || !hlo__parse_check_types(p, b, p->types + base, p->num_types - base, where))
            return false;
        for (uint32_t i = 0; i < n; i++)
            args[i].type = p->types[base + i];
    } else if (parse_accept(p, ':')) {
        return hlo__parse_wrong(p, "'cond'");
    }
    if (hlo__parse_accept_word(p, "attributes") && !hlo__parse_attr_dict(p, b))
        return false;
    return hlo__parse_expect_word(p, "cond") && hlo__parse_region(p, b, args, n, false) && hlo__parse_expect_word(p, "do") && hlo__parse_region(p, b, args, n, false);
}

/* chlo.scan '(' operands ')' 'inits' '(' operands ')' 'dimension' '=' n ('attributes' dict)? region ':' F */
static bool form_chlo_scan(struct hlo_parser *p, struct parse_op *b)
{
    if (!parse_expect(p, '(') || !hlo__parse_operands(p) || !parse_expect(p, ')'))
        return false;
    int64_t sizes[2] = {p->num_values - b->values, 0};
    if (!hlo__parse_expect_word(p, "inits") || !parse_expect(p, '(') || !hlo__parse_operands(p) || !parse_expect(p, ')'))
        return false;
    sizes[1] = p->num_values - b->values - sizes[0];
    if (!hlo__parse_set(p, b, HLO_A_operandSegmentSizes, hlo_attr_dense_array(p->m, HLO_ELEM_I32, 2, sizes)) || !key(p, "dimension") ||
        !set_i64(p, b, HLO_A_dimension, HLO_ELEM_I64))
        return false;
    if (hlo__parse_accept_word(p, "attributes") && !hlo__parse_attr_dict(p, b))
        return false;
    if (!hlo__parse_region(p, b, NULL, 0, false))
        return false;
    uint32_t base = p->num_types;
    if (!functional(p, b))
        return false;
    int64_t results[2] = {(int64_t)(p->num_types - base) - sizes[1], sizes[1]};
    if (results[0] < 0)
        return hlo__parse_fail_at(p, p->at, NF_EGRAPH, "'chlo.scan' has fewer results than carries");
    return hlo__parse_set(p, b, HLO_A_resultSegmentSizes, hlo_attr_dense_array(p->m, HLO_ELEM_I32, 2, results));
}

/* ---- linear algebra, random ---- */

/* %a (',' 'lower' '=' bool)? ':' S */
static bool form_cholesky(struct hlo_parser *p, struct parse_op *b)
{
    bool lower;
    if (!operands_n(p, 1))
        return false;
    if (parse_accept(p, ',') && (!key(p, "lower") || !hlo__parse_bool(p, &lower) || !hlo__parse_set(p, b, HLO_A_lower, hlo_attr_bool(p->m, lower))))
        return false;
    return hlo__parse_attr_dict(p, b) && same_type(p, b, 1);
}

static bool form_fft(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 1) && parse_expect(p, ',') && key(p, "type") && set_enum(p, b, HLO_A_fft_type, HLO_ENUM_FFT) && parse_expect(p, ',') && key(p, "length") &&
           set_i64s(p, b, HLO_A_fft_length) && hlo__parse_attr_dict(p, b) && functional(p, b);
}

static bool form_rng(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 3) && parse_expect(p, ',') && key(p, "distribution") && set_enum(p, b, HLO_A_rng_distribution, HLO_ENUM_DISTRIBUTION) &&
           hlo__parse_attr_dict(p, b) && functional(p, b);
}

static bool form_rng_bit(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 1) && parse_expect(p, ',') && key(p, "algorithm") && set_enum(p, b, HLO_A_rng_algorithm, HLO_ENUM_RNG_ALGORITHM) &&
           hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* ---- structure ---- */

/* operands dict? ':' types, the same for operands and results; '()' without operands */
static bool form_pairwise(struct hlo_parser *p, struct parse_op *b)
{
    if (parse_accept(p, '('))
        return parse_expect(p, ')') && hlo__parse_attr_dict(p, b);
    if (!hlo__parse_operands(p) || !hlo__parse_attr_dict(p, b) || !parse_expect(p, ':'))
        return false;
    const char *colon = p->at - 1;
    if (parse_peek(p) == '(') {
        p->at = colon;
        return functional(p, b);
    }
    parse_space(p);
    const char *where = p->at;
    uint32_t base = p->num_types;
    return hlo__parse_type_list(p) && hlo__parse_check_types(p, b, p->types + base, p->num_types - base, where);
}

/* operands dict? ':' (tuple type | F) */
static bool form_tuple(struct hlo_parser *p, struct parse_op *b)
{
    if (!hlo__parse_operands(p) || !hlo__parse_attr_dict(p, b) || !parse_expect(p, ':'))
        return false;
    const char *colon = p->at - 1;
    if (parse_peek(p) == '(') {
        p->at = colon;
        return functional(p, b);
    }
    parse_space(p);
    const char *where = p->at;
    const struct hlo_type *t;
    if (!hlo__parse_type(p, &t))
        return false;
    if (t->kind != HLO_TYPE_TUPLE)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'stablehlo.tuple' expected tuple type");
    parse_push_type(p, t);
    return hlo__parse_check_types(p, b, t->types, t->num_types, where);
}

/* %t '[' index ']' dict? ':' F */
static bool form_get_tuple_element(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 1) && parse_expect(p, '[') && set_i64(p, b, HLO_A_index, HLO_ELEM_I32) && parse_expect(p, ']') && hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* @target '(' operands ')' dict? ':' F */
static bool form_custom_call(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str name;
    return hlo__parse_symbol(p, &name) && hlo__parse_set(p, b, HLO_A_call_target_name, hlo_attr_string(p->m, name)) && parse_expect(p, '(') && hlo__parse_operands(p) &&
           parse_expect(p, ')') && hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* string operands dict? ':' F */
static bool form_composite(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str name;
    if (!hlo__parse_string(p, &name) || !hlo__parse_set(p, b, HLO_A_name, hlo_attr_string(p->m, name)) || !hlo__parse_operands(p) || !hlo__parse_attr_dict(p, b))
        return false;
    while (parse_accept(p, '(')) { /* ({region}, {region}) */
        do {
            if (!hlo__parse_region(p, b, NULL, 0, false))
                return false;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ')'))
            return false;
    }
    return functional(p, b);
}

/* operands dict? ':' type, of every operand and the result */
static bool form_variadic_same(struct hlo_parser *p, struct parse_op *b) { return hlo__parse_operands(p) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1); }

/* dict? ':' type */
static bool form_nullary(struct hlo_parser *p, struct parse_op *b)
{
    const struct hlo_type *t;
    if (!hlo__parse_attr_dict(p, b) || !parse_expect(p, ':') || !hlo__parse_type(p, &t))
        return false;
    parse_push_type(p, t);
    return true;
}

/* ---- chlo ---- */

/* operands ':' types '->' type */
static bool arrow_types(struct hlo_parser *p, struct parse_op *b)
{
    if (!parse_expect(p, ':'))
        return false;
    const char *colon = p->at - 1;
    if (parse_peek(p) == '(') {
        p->at = colon;
        return functional(p, b);
    }
    parse_space(p);
    const char *where = p->at;
    uint32_t base = p->num_types;
    if (!hlo__parse_type_list(p) || !hlo__parse_check_types(p, b, p->types + base, p->num_types - base, where))
        return false;
    p->num_types = base;
    return hlo__parse_expect_str(p, "->") && hlo__parse_type_list_paren(p);
}
static bool form_chlo_unary(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 1) && hlo__parse_attr_dict(p, b) && arrow_types(p, b); }
static bool form_chlo_binary(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 2) && hlo__parse_attr_dict(p, b) && arrow_types(p, b); }
static bool form_chlo_broadcast(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 2) && hlo__parse_attr_dict(p, b) && functional(p, b); }
static bool form_chlo_select(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 3) && hlo__parse_attr_dict(p, b) && functional(p, b); }

/* %x dict? ':' F, the value in the dictionary */
static bool form_chlo_constant_like(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 1) && hlo__parse_attr_dict(p, b) && functional(p, b); }

/* '(' %x ',' 'k' '=' n (',' 'is_stable' '=' bool)? ')' dict? ':' type '->' types */
static bool form_chlo_top_k(struct hlo_parser *p, struct parse_op *b)
{
    bool stable;
    if (!parse_expect(p, '(') || !operands_n(p, 1) || !parse_expect(p, ',') || !key(p, "k") || !set_i64(p, b, HLO_A_k, HLO_ELEM_I64))
        return false;
    if (parse_accept(p, ',') && (!key(p, "is_stable") || !hlo__parse_bool(p, &stable) || !hlo__parse_set(p, b, HLO_A_is_stable, hlo_attr_bool(p->m, stable))))
        return false;
    return parse_expect(p, ')') && hlo__parse_attr_dict(p, b) && arrow_types(p, b);
}

/* ---- shardy: its attributes stay text ---- */

static bool sdy_text(struct hlo_parser *p, const char *before, const char *after, struct parse_op *b, enum hlo_attr_name name)
{
    struct nf_str body;
    parse_space(p);
    if (p->at >= p->end || (*p->at != '<' && *p->at != '[' && *p->at != '{'))
        return hlo__parse_wrong(p, "a sharding");
    if (!hlo__parse_balanced(p, &body))
        return false;
    body = hlo__parse_squeeze(p, body);
    char *text = nf_arena_alloc_raw(p->arena, strlen(before) + body.len + strlen(after));
    size_t n = strlen(before);
    memcpy(text, before, n);
    memcpy(text + n, body.data, body.len);
    memcpy(text + n + body.len, after, strlen(after));
    struct hlo_attr a = {.kind = HLO_ATTR_OPAQUE, .str = {text, n + body.len + strlen(after)}};
    return hlo__parse_set(p, b, name, hlo_attr_new(p->m, &a));
}

/* @name '=' '<' .. '>' dict? */
static bool form_sdy_mesh(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str name;
    return hlo__parse_symbol(p, &name) && hlo__parse_set(p, b, HLO_A_sym_name, hlo_attr_string(p->m, name)) && parse_expect(p, '=') &&
           sdy_text(p, "#sdy.mesh", "", b, HLO_A_mesh) && hlo__parse_attr_dict(p, b);
}

/* %x '<' .. '>' dict? ':' type */
static bool form_sdy_constraint(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 1) && sdy_text(p, "#sdy.sharding", "", b, HLO_A_sharding) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1);
}

/* '(' operands ')' 'in_shardings' '=' [..] 'out_shardings' '=' [..] 'manual_axes' '=' {..} ('(' args ')')? region dict? ':' F */
static bool form_sdy_manual(struct hlo_parser *p, struct parse_op *b)
{
    struct parse_arg *args = NULL;
    uint32_t n = 0, cap = 0;
    if (!parse_expect(p, '(') || !hlo__parse_operands(p) || !parse_expect(p, ')') || !key(p, "in_shardings") ||
        !sdy_text(p, "#sdy.sharding_per_value<", ">", b, HLO_A_in_shardings) || !key(p, "out_shardings") ||
        !sdy_text(p, "#sdy.sharding_per_value<", ">", b, HLO_A_out_shardings) || !key(p, "manual_axes") || !sdy_text(p, "#sdy<manual_axes", ">", b, HLO_A_manual_axes) ||
        !parse_expect(p, '('))
        return false;
    if (!parse_accept(p, ')')) {
        do {
            if (n == cap) {
                uint32_t c = cap ? cap * 2 : 16;
                struct parse_arg *grown = NF_NEW_ARRAY(p->scratch, struct parse_arg, c);
                for (uint32_t i = 0; i < n; i++)
                    grown[i] = args[i];
                args = grown;
                cap = c;
            }
            if (!region_arg(p, &args[n++]))
                return false;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ')'))
            return false;
    }
    return hlo__parse_region(p, b, args, n, false) && hlo__parse_attr_dict(p, b) && functional(p, b);
}

/* ---- check, interpreter, arith ---- */

static bool opt_number(struct hlo_parser *p, struct parse_op *b, const char *word, enum hlo_attr_name name)
{
    const struct hlo_attr *a;
    const char *back = p->at;
    if (!parse_accept(p, ','))
        return true;
    if (!nf_str_eq_c(hlo__parse_peek_word(p), word)) {
        p->at = back;
        return true;
    }
    if (!key(p, word))
        return false;
    bool negative = parse_accept(p, '-');
    parse_space(p);
    return hlo__parse_number(p, negative, &a) && hlo__parse_set(p, b, name, a);
}

/* ':' types: one for all operands, or one each */
static bool check_types(struct hlo_parser *p, struct parse_op *b)
{
    if (!hlo__parse_attr_dict(p, b) || !parse_expect(p, ':'))
        return false;
    parse_space(p);
    const char *where = p->at;
    uint32_t base = p->num_types, n = p->num_values - b->values;
    if (!hlo__parse_type_list(p))
        return false;
    const struct hlo_type *wanted[2];
    for (uint32_t i = 0; i < 2; i++)
        wanted[i] = p->types[base + (p->num_types - base > i ? i : 0)];
    if (p->num_types - base != 1 && p->num_types - base != n)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'%.*s' expects one type or one for each operand", NF_STR_ARG(b->name));
    p->num_types = base;
    return hlo__parse_check_types(p, b, wanted, n, where) && hlo__parse_attr_dict(p, b);
}

static bool form_check(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 2) && (b->id != HLO_OP_CHECK_EXPECT_ALMOST_EQ || opt_number(p, b, "tolerance", HLO_A_tolerance)) && check_types(p, b);
}

static bool form_check_close(struct hlo_parser *p, struct parse_op *b)
{
    return operands_n(p, 2) && opt_number(p, b, "max_ulp_difference", HLO_A_max_ulp_difference) && opt_number(p, b, "min_ulp_difference", HLO_A_min_ulp_difference) &&
           check_types(p, b);
}

/* %x ',' elements dict? */
static bool form_check_const(struct hlo_parser *p, struct parse_op *b)
{
    const struct hlo_attr *a;
    if (!operands_n(p, 1) || !parse_expect(p, ','))
        return false;
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_attr(p, &a))
        return false;
    if (a->kind != HLO_ATTR_DENSE && a->kind != HLO_ATTR_RESOURCE)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'%.*s' expected elements", NF_STR_ARG(b->name));
    if (b->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ_CONST && !opt_number(p, b, "tolerance", HLO_A_tolerance))
        return false;
    return hlo__parse_set(p, b, HLO_A_value, a) && hlo__parse_attr_dict(p, b) && hlo__parse_check_types(p, b, &a->type, 1, where);
}

static bool probe_id(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str s;
    return operands_n(p, 1) && parse_expect(p, ',') && key(p, "probe_id") && hlo__parse_string(p, &s) && hlo__parse_set(p, b, HLO_A_probe_id, hlo_attr_string(p->m, s));
}
static bool form_check_serialized(struct hlo_parser *p, struct parse_op *b) { return probe_id(p, b) && opt_number(p, b, "iter", HLO_A_iter) && check_types(p, b); }
static bool form_interpreter_print(struct hlo_parser *p, struct parse_op *b) { return operands_n(p, 1) && check_types(p, b); }
static bool form_interpreter_probe(struct hlo_parser *p, struct parse_op *b) { return probe_id(p, b) && hlo__parse_attr_dict(p, b) && same_type(p, b, 1); }

/* dict? attribute with its type */
static bool form_arith_constant(struct hlo_parser *p, struct parse_op *b)
{
    const struct hlo_attr *a;
    if (!hlo__parse_attr_dict(p, b))
        return false;
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_attr(p, &a))
        return false;
    if (!a->type && a->kind != HLO_ATTR_BOOL)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'arith.constant' expected a typed attribute");
    parse_push_type(p, a->type ? a->type : hlo_type_scalar(p->m, HLO_ELEM_I1));
    return hlo__parse_set(p, b, HLO_A_value, a);
}

/* %x dict? ':' type 'to' type */
static bool form_tensor_cast(struct hlo_parser *p, struct parse_op *b)
{
    const struct hlo_type *from, *to;
    if (!operands_n(p, 1) || !hlo__parse_attr_dict(p, b) || !parse_expect(p, ':'))
        return false;
    parse_space(p);
    const char *where = p->at;
    if (!hlo__parse_type(p, &from) || !hlo__parse_expect_word(p, "to") || !hlo__parse_type(p, &to))
        return false;
    parse_push_type(p, to);
    return hlo__parse_check_types(p, b, &from, 1, where);
}

bool hlo__parse_form(struct hlo_parser *p, struct parse_op *b)
{
    switch (b->info->form) {
    case HLO_FORM_GENERIC:
        return hlo__parse_fail_at(p, p->at, NF_EGRAPH, "'%.*s' has no pretty form: write \"%.*s\"(...)", NF_STR_ARG(b->name), NF_STR_ARG(b->name));
    case HLO_FORM_MODULE: return form_module(p, b);
    case HLO_FORM_FUNC: return form_func(p, b);
    case HLO_FORM_CALL: return form_call(p, b);
    case HLO_FORM_RETURN: return form_return(p, b);
    case HLO_FORM_UNARY: return form_unary(p, b);
    case HLO_FORM_FUNCTIONAL: return form_functional(p, b);
    case HLO_FORM_REDUCE_PRECISION: return form_reduce_precision(p, b);
    case HLO_FORM_BINARY: return form_binary(p, b);
    case HLO_FORM_COMPARE: return form_compare(p, b);
    case HLO_FORM_COMPLEX: return form_complex(p, b);
    case HLO_FORM_SELECT: return form_select(p, b);
    case HLO_FORM_TERNARY: return form_ternary(p, b);
    case HLO_FORM_CONSTANT: return form_constant(p, b);
    case HLO_FORM_IOTA: return form_iota(p, b);
    case HLO_FORM_DIMS: return form_dims(p, b);
    case HLO_FORM_DIMS_SAME: return form_dims_same(p, b);
    case HLO_FORM_DIM: return form_dim(p, b);
    case HLO_FORM_SLICE: return form_slice(p, b);
    case HLO_FORM_SIZES: return form_sizes(p, b);
    case HLO_FORM_PAD: return form_pad(p, b);
    case HLO_FORM_DOT_GENERAL: return form_dot_general(p, b);
    case HLO_FORM_CONVOLUTION: return form_convolution(p, b);
    case HLO_FORM_REDUCE: return form_reduce(p, b);
    case HLO_FORM_CHOLESKY: return form_cholesky(p, b);
    case HLO_FORM_FFT: return form_fft(p, b);
    case HLO_FORM_RNG: return form_rng(p, b);
    case HLO_FORM_RNG_BIT: return form_rng_bit(p, b);
    case HLO_FORM_WHILE: return form_while(p, b);
    case HLO_FORM_PAIRWISE: return form_pairwise(p, b);
    case HLO_FORM_TUPLE: return form_tuple(p, b);
    case HLO_FORM_GET_TUPLE_ELEMENT: return form_get_tuple_element(p, b);
    case HLO_FORM_CUSTOM_CALL: return form_custom_call(p, b);
    case HLO_FORM_COMPOSITE: return form_composite(p, b);
    case HLO_FORM_VARIADIC_SAME: return form_variadic_same(p, b);
    case HLO_FORM_NULLARY: return form_nullary(p, b);
    case HLO_FORM_BROADCAST: return form_broadcast(p, b);
    case HLO_FORM_DOT: return form_dot(p, b);
    case HLO_FORM_EINSUM: return form_einsum(p, b);
    case HLO_FORM_CHLO_UNARY: return form_chlo_unary(p, b);
    case HLO_FORM_CHLO_BINARY: return form_chlo_binary(p, b);
    case HLO_FORM_CHLO_BROADCAST: return form_chlo_broadcast(p, b);
    case HLO_FORM_CHLO_SELECT: return form_chlo_select(p, b);
    case HLO_FORM_CHLO_CONSTANT_LIKE: return form_chlo_constant_like(p, b);
    case HLO_FORM_CHLO_TOP_K: return form_chlo_top_k(p, b);
    case HLO_FORM_CHLO_SCAN: return form_chlo_scan(p, b);
    case HLO_FORM_SDY_MESH: return form_sdy_mesh(p, b);
    case HLO_FORM_SDY_CONSTRAINT: return form_sdy_constraint(p, b);
    case HLO_FORM_SDY_MANUAL: return form_sdy_manual(p, b);
    case HLO_FORM_CHECK: return form_check(p, b);
    case HLO_FORM_CHECK_CONST: return form_check_const(p, b);
    case HLO_FORM_CHECK_CLOSE: return form_check_close(p, b);
    case HLO_FORM_CHECK_SERIALIZED: return form_check_serialized(p, b);
    case HLO_FORM_INTERPRETER_PRINT: return form_interpreter_print(p, b);
    case HLO_FORM_INTERPRETER_PROBE: return form_interpreter_probe(p, b);
    case HLO_FORM_ARITH_CONSTANT: return form_arith_constant(p, b);
    case HLO_FORM_TENSOR_CAST: return form_tensor_cast(p, b);
    case HLO_FORM_MAX: break;
    }
    return hlo__parse_fail_at(p, p->at, NF_EINTERNAL, "no parser for this form");
}
