/* print_form.c: the pretty forms, the mirror of parse_form.c. */
#include "pipeline/hlo/print_internal.h"
#include "pipeline/hlo/spec_internal.h"

#define OUT(s) print_put(p->out, (s), sizeof(s) - 1)

static uint32_t bit(const struct hlo_op *op, enum hlo_attr_name name) { return 1u << hlo_op_slot((enum hlo_op_id)op->id, name); }

static void operands(struct hlo_printer *p, const struct hlo_op *op, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            OUT(", ");
        hlo__print_value(p, op->operands[from + i].value);
    }
}

static void types_of(struct hlo_printer *p, const struct hlo_op *op)
{
    for (uint32_t i = 0; i < op->num_operands; i++) {
        if (i)
            OUT(", ");
        hlo__print_type(p, op->operands[i].value->type);
    }
}

static void results_of(struct hlo_printer *p, const struct hlo_op *op)
{
    bool paren = op->num_results != 1 || op->results[0].type->kind == HLO_TYPE_FUNCTION;
    if (paren)
        OUT("(");
    for (uint32_t i = 0; i < op->num_results; i++) {
        if (i)
            OUT(", ");
        hlo__print_type(p, op->results[i].type);
    }
    if (paren)
        OUT(")");
}

static bool functional(struct hlo_printer *p, const struct hlo_op *op)
{
    OUT(" : (");
    types_of(p, op);
    OUT(") -> ");
    results_of(p, op);
    return true;
}

static bool same_type(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_type *t = op->results[0].type;
    for (uint32_t i = 0; i < op->num_operands; i++)
        if (op->operands[i].value->type != t)
            return functional(p, op);
    OUT(" : ");
    hlo__print_type(p, t);
    return true;
}

static void list(struct hlo_printer *p, const char *before, struct hlo_ints v)
{
    nf_buf_add_c(p->out, before);
    OUT("[");
    hlo__print_ints(v, p->out);
    OUT("]");
}

static void dict(struct hlo_printer *p, const struct hlo_op *op, uint32_t done) { hlo__print_op_dict(p, op, done, " "); }

static bool simple(struct hlo_printer *p, const struct hlo_op *op)
{
    OUT(" ");
    operands(p, op, 0, op->num_operands);
    dict(p, op, 0);
    return same_type(p, op);
}

/* "op %a, %b, key = [1, 2]" with the first attribute of the row */
static bool with_list(struct hlo_printer *p, const struct hlo_op *op, const char *key, bool same)
{
    OUT(" ");
    operands(p, op, 0, op->num_operands);
    list(p, key, op->attrs[0]->ints);
    dict(p, op, 1);
    return same ? same_type(p, op) : functional(p, op);
}

static const char *enum_text(const struct hlo_attr *a)
{
    const char *s = hlo_enum_name(a->enumeration.class, a->enumeration.value);
    return s ? s : "INVALID";
}

static void precisions(struct hlo_printer *p, const struct hlo_attr *a)
{
    OUT(", precision = [");
    for (size_t i = 0; i < a->array.n; i++) {
        if (i)
            OUT(", ");
        nf_buf_add_c(p->out, enum_text(a->array.v[i]));
    }
    OUT("]");
}

static bool print_slice(struct hlo_printer *p, const struct hlo_op *op)
{
    struct hlo_ints s = hlo_op_i64s(op, HLO_A_start_indices), l = hlo_op_i64s(op, HLO_A_limit_indices), st = hlo_op_i64s(op, HLO_A_strides);
    if (s.n != l.n || s.n != st.n)
        return false;
    OUT(" ");
    operands(p, op, 0, 1);
    OUT(" [");
    for (size_t i = 0; i < s.n; i++) {
        if (i)
            OUT(", ");
        hlo__print_i64(s.v[i], p->out);
        OUT(":");
        hlo__print_i64(l.v[i], p->out);
        if (st.v[i] != 1) {
            OUT(":");
            hlo__print_i64(st.v[i], p->out);
        }
    }
    OUT("]");
    dict(p, op, 7);
    return functional(p, op);
}

static bool print_dot_general(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_dot *d = hlo_op_attr(op, HLO_A_dot_dimension_numbers)->dot;
    const struct hlo_attr *prec = hlo_op_attr(op, HLO_A_precision_config), *alg = hlo_op_attr(op, HLO_A_algorithm);
    OUT(" ");
    operands(p, op, 0, 2);
    if (d->lhs_batching.n || d->rhs_batching.n) {
        list(p, ", batching_dims = ", d->lhs_batching);
        list(p, " x ", d->rhs_batching);
    }
    list(p, ", contracting_dims = ", d->lhs_contracting);
    list(p, " x ", d->rhs_contracting);
    if (prec)
        precisions(p, prec);
    if (alg) {
        OUT(", algorithm = ");
        hlo__print_dot_algorithm(alg->algorithm, p->out);
    }
    dict(p, op, 7);
    return functional(p, op);
}

static bool print_convolution(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_conv *c = hlo_op_attr(op, HLO_A_dimension_numbers)->conv;
    const struct hlo_attr *pad = hlo_op_attr(op, HLO_A_padding), *rev = hlo_op_attr(op, HLO_A_window_reversal);
    if (!hlo__conv_regular(c) || (pad && (pad->type->rank != 2 || pad->type->dims[1] != 2)))
        return false;
    OUT("(");
    operands(p, op, 0, 2);
    OUT(") dim_numbers = ");
    hlo__print_conv_dims(c, p->out);
    OUT(", window = {");
    const char *sep = "";
    static const struct {
        enum hlo_attr_name name;
        const char *text;
    } lists[] = {{HLO_A_window_strides, "stride = "}, {HLO_A_padding, NULL}, {HLO_A_lhs_dilation, "lhs_dilate = "}, {HLO_A_rhs_dilation, "rhs_dilate = "}};
    for (size_t k = 0; k < NF_ARRAY_LEN(lists); k++) {
        const struct hlo_attr *a = hlo_op_attr(op, lists[k].name);
        if (!a)
            continue;
        nf_buf_add_c(p->out, sep);
        sep = ", ";
        if (lists[k].text) {
            list(p, lists[k].text, a->ints);
            continue;
        }
        OUT("pad = [");
        for (int64_t i = 0; i < a->type->dims[0]; i++) {
            nf_buf_add_c(p->out, i ? ", [" : "[");
            hlo__print_i64(hlo_attr_dense_int_at(a, (size_t)i * 2), p->out);
            OUT(", ");
            hlo__print_i64(hlo_attr_dense_int_at(a, (size_t)i * 2 + 1), p->out);
            OUT("]");
        }
        OUT("]");
    }
    if (rev) {
        nf_buf_add_c(p->out, sep);
        OUT("reverse = [");
        for (size_t i = 0; i < rev->ints.n; i++) {
            if (i)
                OUT(", ");
            nf_buf_add_c(p->out, rev->ints.v[i] ? "true" : "false");
        }
        OUT("]");
    }
    OUT("}");
    dict(p, op, bit(op, HLO_A_dimension_numbers) | bit(op, HLO_A_window_strides) | bit(op, HLO_A_padding) | bit(op, HLO_A_lhs_dilation) | bit(op, HLO_A_rhs_dilation) |
                    bit(op, HLO_A_window_reversal));
    return functional(p, op);
}

static void region_arg(struct hlo_printer *p, const struct hlo_block *b, uint32_t i)
{
    hlo__print_value(p, b->args[i]);
    OUT(": ");
    hlo__print_type(p, b->args[i]->type);
    if (p->locations && b->arg_locs && b->arg_locs[i]) {
        OUT(" ");
        hlo_attr_print(p->m->locs[b->arg_locs[i]], p->out);
    }
}

/* The operation of a body that the short form can name: one commutative operation on the two arguments in order, its result
 * returned, all of the scalar type of the first input. */
static const struct hlo_op *reduce_short(const struct hlo_op *op)
{
    const struct hlo_region *r = op->regions[0];
    if (!r->first || r->first->next || r->first->num_args != 2)
        return NULL;
    const struct hlo_block *b = r->first;
    const struct hlo_op *inner = b->first, *ret = inner ? inner->next : NULL;
    if (!ret || ret->next || ret->id != HLO_OP_RETURN || ret->num_operands != 1 || inner->num_operands != 2 || inner->num_results != 1 || inner->num_regions)
        return NULL;
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)inner->id);
    if (info->dialect != HLO_DIALECT_STABLEHLO || !(info->traits & HLO_T_COMMUTATIVE) || info->num_attrs || inner->num_dict || ret->num_dict)
        return NULL;
    const struct hlo_type *in = op->operands[0].value->type, *t = inner->results[0].type;
    if (inner->operands[0].value != b->args[0] || inner->operands[1].value != b->args[1] || ret->operands[0].value != &inner->results[0] ||
        b->args[0]->type != t || b->args[1]->type != t)
        return NULL;
    if (in->kind > HLO_TYPE_UNRANKED || t->kind != HLO_TYPE_TENSOR || t->rank != 0 || t->elem != in->elem || t->quant != in->quant || t->bounds || t->encoding)
        return NULL;
    return inner;
}

static bool print_reduce(struct hlo_printer *p, const struct hlo_op *op)
{
    uint32_t n = op->num_operands / 2;
    const struct hlo_block *b = op->regions[0]->first;
    const struct hlo_op *inner = n == 1 ? reduce_short(op) : NULL;
    if (op->num_operands % 2 || n == 0 || (!inner && (!b || b->next || b->num_args != 2 * n)))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        nf_buf_add_c(p->out, i ? ", (" : "(");
        hlo__print_value(p, op->operands[i].value);
        OUT(" init: ");
        hlo__print_value(p, op->operands[i + n].value);
        OUT(")");
    }
    if (inner) {
        OUT(" applies ");
        nf_buf_add_c(p->out, hlo_op_info((enum hlo_op_id)inner->id)->name);
    }
    list(p, " across dimensions = ", op->attrs[0]->ints);
    dict(p, op, 1);
    functional(p, op);
    if (inner)
        return true;
    p->indent += 1;
    nf_buf_add_char(p->out, '\n');
    for (unsigned i = 0; i < p->indent; i++)
        nf_buf_add_char(p->out, ' ');
    OUT("reducer");
    for (uint32_t i = 0; i < n; i++) {
        nf_buf_add_c(p->out, i ? " (" : "(");
        region_arg(p, b, i);
        OUT(", ");
        region_arg(p, b, i + n);
        OUT(")");
    }
    OUT(" ");
    p->indent -= 1;
    hlo__print_region(p, op->regions[0], false);
    return true;
}

static bool print_while(struct hlo_printer *p, const struct hlo_op *op)
{
    for (int r = 0; r < 2; r++) {
        const struct hlo_block *b = op->regions[r]->first;
        if (!b || b->next || b->num_args != op->num_operands)
            return false;
    }
    if (op->num_results != op->num_operands)
        return false;
    const struct hlo_block *c = op->regions[0]->first, *d = op->regions[1]->first;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_type *t = op->operands[i].value->type;
        if (op->results[i].type != t || c->args[i]->type != t || d->args[i]->type != t)
            return false;
    }
    /* the two blocks share the argument names of the form */
    for (uint32_t i = 0; i < op->num_operands; i++)
        p->names[c->args[i]->id] = p->names[d->args[i]->id];
    OUT("(");
    for (uint32_t i = 0; i < op->num_operands; i++) {
        if (i)
            OUT(", ");
        hlo__print_value(p, c->args[i]);
        OUT(" = ");
        hlo__print_value(p, op->operands[i].value);
    }
    OUT(")");
    if (op->num_operands) {
        OUT(" : ");
        types_of(p, op);
    }
    hlo__print_op_dict(p, op, 0, " attributes ");
    nf_buf_add_char(p->out, '\n');
    for (unsigned i = 0; i < p->indent + 1; i++)
        nf_buf_add_char(p->out, ' ');
    OUT("cond ");
    hlo__print_region(p, op->regions[0], false);
    OUT(" do ");
    hlo__print_region(p, op->regions[1], false);
    return true;
}

static bool print_scan(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_operandSegmentSizes);
    const struct hlo_attr *rs = hlo_op_attr(op, HLO_A_resultSegmentSizes);
    if (!a || a->kind != HLO_ATTR_DENSE_ARRAY || a->ints.n != 2 || a->ints.v[0] < 0 || a->ints.v[1] < 0 || a->ints.v[0] + a->ints.v[1] != (int64_t)op->num_operands)
        return false;
    if (!rs || rs->kind != HLO_ATTR_DENSE_ARRAY || rs->ints.n != 2 || rs->ints.v[1] != a->ints.v[1] || rs->ints.v[0] + rs->ints.v[1] != (int64_t)op->num_results)
        return false;
    OUT("(");
    operands(p, op, 0, (uint32_t)a->ints.v[0]);
    OUT(") inits (");
    operands(p, op, (uint32_t)a->ints.v[0], (uint32_t)a->ints.v[1]);
    OUT(") dimension=");
    hlo__print_i64(hlo_op_i64(op, HLO_A_dimension, 0), p->out);
    hlo__print_op_dict(p, op, bit(op, HLO_A_dimension) | bit(op, HLO_A_operandSegmentSizes) | bit(op, HLO_A_resultSegmentSizes), " attributes ");
    OUT(" ");
    hlo__print_region(p, op->regions[0], true);
    return functional(p, op);
}

static bool arrow(struct hlo_printer *p, const struct hlo_op *op)
{
    OUT(" : ");
    types_of(p, op);
    OUT(" -> ");
    results_of(p, op);
    return true;
}

/* "#sdy.sharding<@mesh, ..>" without its first len bytes, and without `tail` bytes at the end; false if it is not spelled so */
static bool sdy_text(struct hlo_printer *p, const struct hlo_attr *a, const char *before, size_t tail)
{
    struct nf_str s = a->str, head = nf_str_c(before);
    if (a->kind != HLO_ATTR_OPAQUE || !nf_str_starts(s, head) || s.len < head.len + tail)
        return false;
    nf_buf_add(p->out, s.data + head.len, s.len - head.len - tail);
    return true;
}

static bool print_manual(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_block *b = op->regions[0]->first;
    if (!b || b->next)
        return false;
    OUT("(");
    operands(p, op, 0, op->num_operands);
    OUT(") in_shardings=");
    if (!sdy_text(p, hlo_op_attr(op, HLO_A_in_shardings), "#sdy.sharding_per_value<", 1))
        return false;
    OUT(" out_shardings=");
    if (!sdy_text(p, hlo_op_attr(op, HLO_A_out_shardings), "#sdy.sharding_per_value<", 1))
        return false;
    OUT(" manual_axes=");
    if (!sdy_text(p, hlo_op_attr(op, HLO_A_manual_axes), "#sdy<manual_axes", 1))
        return false;
    OUT(" (");
    for (uint32_t i = 0; i < b->num_args; i++) {
        if (i)
            OUT(", ");
        region_arg(p, b, i);
    }
    OUT(") ");
    hlo__print_region(p, op->regions[0], false);
    dict(p, op, 7);
    return functional(p, op);
}

static void number_attr(struct hlo_printer *p, const struct hlo_op *op, enum hlo_attr_name name, const char *text)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    if (!a)
        return;
    nf_buf_add_c(p->out, text);
    if (a->kind == HLO_ATTR_FLOAT)
        hlo__print_float(a->type->elem, a->bits, p->out);
    else if (a->kind == HLO_ATTR_INT)
        hlo__print_i64(a->i, p->out);
    else
        hlo__print_attr(p, op, a);
}

/* Numbers in check operations are written without their type, so they must have the one that a bare number has. */
static bool bare_number(const struct hlo_op *op, enum hlo_attr_name name)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    return !a || (a->kind == HLO_ATTR_FLOAT && a->type->elem == HLO_ELEM_F64 && hlo_float_decode(HLO_ELEM_F64, a->bits) - hlo_float_decode(HLO_ELEM_F64, a->bits) == 0) ||
           (a->kind == HLO_ATTR_INT && a->type->elem == HLO_ELEM_I64);
}

static bool print_check(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_type *t = op->operands[0].value->type;
    bool same = op->num_operands < 2 || op->operands[1].value->type == t;
    if (op->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ && !bare_number(op, HLO_A_tolerance))
        return false;
    if (op->id == HLO_OP_CHECK_EXPECT_CLOSE && (!bare_number(op, HLO_A_max_ulp_difference) || !bare_number(op, HLO_A_min_ulp_difference)))
        return false;
    if (op->id == HLO_OP_CHECK_EXPECT_SERIALIZED_EQ && !bare_number(op, HLO_A_iter))
        return false;
    OUT(" ");
    operands(p, op, 0, op->num_operands);
    if (op->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ)
        number_attr(p, op, HLO_A_tolerance, ", tolerance = ");
    if (op->id == HLO_OP_CHECK_EXPECT_CLOSE) {
        number_attr(p, op, HLO_A_max_ulp_difference, ", max_ulp_difference = ");
        number_attr(p, op, HLO_A_min_ulp_difference, ", min_ulp_difference = ");
    }
    if (op->id == HLO_OP_CHECK_EXPECT_SERIALIZED_EQ) {
        OUT(", probe_id = ");
        hlo__print_string(hlo_op_string(op, HLO_A_probe_id), p->out);
        number_attr(p, op, HLO_A_iter, ", iter = ");
    }
    dict(p, op, UINT32_MAX);
    OUT(" : ");
    hlo__print_type(p, t);
    if (!same || op->id == HLO_OP_CHECK_EXPECT_CLOSE) {
        OUT(", ");
        hlo__print_type(p, op->operands[1].value->type);
    }
    return true;
}

bool hlo__print_form(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    const struct hlo_attr *a;
    switch (info->form) {
    case HLO_FORM_UNARY:
    case HLO_FORM_BINARY:
    case HLO_FORM_TERNARY:
        return simple(p, op);
    case HLO_FORM_VARIADIC_SAME:
        for (uint32_t i = 0; i < op->num_operands; i++)
            if (op->operands[i].value->type != op->results[0].type)
                return false;
        if (op->num_operands)
            OUT(" ");
        operands(p, op, 0, op->num_operands);
        dict(p, op, 0);
        return same_type(p, op);
    case HLO_FORM_FUNCTIONAL:
    case HLO_FORM_CHLO_BROADCAST:
    case HLO_FORM_CHLO_SELECT:
    case HLO_FORM_CHLO_CONSTANT_LIKE:
        OUT(" ");
        operands(p, op, 0, op->num_operands);
        dict(p, op, 0);
        return functional(p, op);
    case HLO_FORM_CALL:
        OUT(" ");
        hlo__print_symbol(hlo_op_string(op, HLO_A_callee), p->out);
        OUT("(");
        operands(p, op, 0, op->num_operands);
        OUT(")");
        dict(p, op, bit(op, HLO_A_callee));
        return functional(p, op);
    case HLO_FORM_RETURN:
        dict(p, op, 0);
        if (op->num_operands == 0)
            return true;
        OUT(" ");
        operands(p, op, 0, op->num_operands);
        OUT(" : ");
        types_of(p, op);
        return true;
    case HLO_FORM_REDUCE_PRECISION: {
        int64_t e = hlo_op_i64(op, HLO_A_exponent_bits, 0), m = hlo_op_i64(op, HLO_A_mantissa_bits, 0);
        if (e < 0 || m < 0)
            return false;
        OUT(" ");
        operands(p, op, 0, 1);
        nf_buf_addf(p->out, ", format = e%lldm%lld", (long long)e, (long long)m);
        dict(p, op, 3);
        return same_type(p, op);
    }
    case HLO_FORM_COMPARE:
        OUT(" ");
        nf_buf_add_c(p->out, enum_text(hlo_op_attr(op, HLO_A_comparison_direction)));
        OUT(", ");
        operands(p, op, 0, 2);
        if ((a = hlo_op_attr(op, HLO_A_compare_type))) {
            OUT(", ");
            nf_buf_add_c(p->out, enum_text(a));
        }
        dict(p, op, 3);
        return functional(p, op);
    case HLO_FORM_COMPLEX: {
        const struct hlo_type *t = op->results[0].type, *l = op->operands[0].value->type, *r = op->operands[1].value->type;
        bool derived = t->kind == HLO_TYPE_TENSOR && hlo_elem_class(t->elem) == HLO_CLASS_COMPLEX && l == r &&
                       l == hlo_type_with_elem((struct hlo_module *)p->m, t, hlo_elem_part(t->elem));
        OUT(" ");
        operands(p, op, 0, 2);
        dict(p, op, 0);
        if (!derived)
            return functional(p, op);
        OUT(" : ");
        hlo__print_type(p, t);
        return true;
    }
    case HLO_FORM_SELECT: {
        const struct hlo_type *t = op->results[0].type;
        OUT(" ");
        operands(p, op, 0, 3);
        dict(p, op, 0);
        if (op->operands[1].value->type != t || op->operands[2].value->type != t)
            return functional(p, op);
        OUT(" : ");
        hlo__print_type(p, op->operands[0].value->type);
        OUT(", ");
        hlo__print_type(p, t);
        return true;
    }
    case HLO_FORM_CONSTANT:
        a = hlo_op_attr(op, HLO_A_value);
        if (a->kind == HLO_ATTR_OPAQUE)
            return false;
        if (a->type != op->results[0].type) {
            OUT("() <{value = ");
            hlo__print_attr(p, op, a);
            OUT("}>");
            dict(p, op, 1);
            return functional(p, op);
        }
        dict(p, op, 1);
        OUT(" ");
        hlo__print_attr(p, op, a);
        return true;
    case HLO_FORM_IOTA:
        OUT(" dim = ");
        hlo__print_i64(op->attrs[0]->i, p->out);
        dict(p, op, 1);
        OUT(" : ");
        hlo__print_type(p, op->results[0].type);
        return true;
    case HLO_FORM_DIMS:
        return with_list(p, op, ", dims = ", false);
    case HLO_FORM_DIMS_SAME:
        return with_list(p, op, ", dims = ", true);
    case HLO_FORM_SIZES:
    case HLO_FORM_BROADCAST:
        return with_list(p, op, ", sizes = ", false);
    case HLO_FORM_DIM:
        if (op->num_operands == 0)
            return false;
        OUT(" ");
        operands(p, op, 0, op->num_operands);
        OUT(", dim = ");
        hlo__print_i64(op->attrs[0]->i, p->out);
        dict(p, op, 1);
        return functional(p, op);
    case HLO_FORM_SLICE:
        return print_slice(p, op);
    case HLO_FORM_PAD:
        OUT(" ");
        operands(p, op, 0, 2);
        list(p, ", low = ", hlo_op_i64s(op, HLO_A_edge_padding_low));
        list(p, ", high = ", hlo_op_i64s(op, HLO_A_edge_padding_high));
        list(p, ", interior = ", hlo_op_i64s(op, HLO_A_interior_padding));
        dict(p, op, 7);
        return functional(p, op);
    case HLO_FORM_DOT_GENERAL:
        return print_dot_general(p, op);
    case HLO_FORM_DOT:
        OUT(" ");
        operands(p, op, 0, 2);
        if (op->attrs[0])
            precisions(p, op->attrs[0]);
        dict(p, op, 1);
        return functional(p, op);
    case HLO_FORM_EINSUM:
        OUT(" ");
        operands(p, op, 0, op->num_operands);
        OUT(", config = ");
        hlo__print_string(op->attrs[0]->str, p->out);
        dict(p, op, 1);
        return functional(p, op);
    case HLO_FORM_CONVOLUTION:
        return print_convolution(p, op);
    case HLO_FORM_REDUCE:
        return print_reduce(p, op);
    case HLO_FORM_WHILE:
        return print_while(p, op);
    case HLO_FORM_CHOLESKY:
        OUT(" ");
        operands(p, op, 0, 1);
        if (op->attrs[0] && op->attrs[0]->b)
            OUT(", lower = true");
        dict(p, op, 1);
        return same_type(p, op);
    case HLO_FORM_FFT:
        OUT(" ");
        operands(p, op, 0, 1);
        OUT(", type = ");
        nf_buf_add_c(p->out, enum_text(hlo_op_attr(op, HLO_A_fft_type)));
        list(p, ", length = ", hlo_op_i64s(op, HLO_A_fft_length));
        dict(p, op, 3);
        return functional(p, op);
    case HLO_FORM_RNG:
        OUT(" ");
        operands(p, op, 0, 3);
        OUT(", distribution = ");
        nf_buf_add_c(p->out, enum_text(op->attrs[0]));
        dict(p, op, 1);
        return functional(p, op);
    case HLO_FORM_RNG_BIT:
        OUT(" ");
        operands(p, op, 0, 1);
        OUT(", algorithm = ");
        nf_buf_add_c(p->out, enum_text(op->attrs[0]));
        dict(p, op, 1);
        return functional(p, op);
    case HLO_FORM_PAIRWISE:
        if (op->num_operands != op->num_results)
            return false;
        for (uint32_t i = 0; i < op->num_operands; i++)
            if (op->operands[i].value->type != op->results[i].type)
                return false;
        if (op->num_operands == 0) {
            OUT("()");
            dict(p, op, 0);
            return true;
        }
        OUT(" ");
        operands(p, op, 0, op->num_operands);
        dict(p, op, 0);
        OUT(" : ");
        types_of(p, op);
        return true;
    case HLO_FORM_TUPLE: {
        const struct hlo_type *t = op->results[0].type;
        if (t->kind != HLO_TYPE_TUPLE || t->num_types != op->num_operands)
            return false;
        for (uint32_t i = 0; i < t->num_types; i++)
            if (t->types[i] != op->operands[i].value->type)
                return false;
        if (op->num_operands)
            OUT(" ");
        operands(p, op, 0, op->num_operands);
        dict(p, op, 0);
        OUT(" : ");
        hlo__print_type(p, t);
        return true;
    }
    case HLO_FORM_GET_TUPLE_ELEMENT:
        OUT(" ");
        operands(p, op, 0, 1);
        OUT("[");
        hlo__print_i64(op->attrs[0]->i, p->out);
        OUT("]");
        dict(p, op, 1);
        return functional(p, op);
    case HLO_FORM_CUSTOM_CALL: {
        struct nf_str target = hlo_op_string(op, HLO_A_call_target_name);
        OUT(" @");
        if (hlo__bare_id(target))
            nf_buf_add_str(p->out, target);
        else
            hlo__print_string(target, p->out);
        OUT("(");
        operands(p, op, 0, op->num_operands);
        OUT(")");
        dict(p, op, bit(op, HLO_A_call_target_name));
        return functional(p, op);
    }
    case HLO_FORM_COMPOSITE:
        if (op->num_regions)
            return false;
        OUT(" ");
        hlo__print_string(hlo_op_string(op, HLO_A_name), p->out);
        if (op->num_operands)
            OUT(" ");
        operands(p, op, 0, op->num_operands);
        dict(p, op, bit(op, HLO_A_name));
        return functional(p, op);
    case HLO_FORM_NULLARY:
        dict(p, op, 0);
        OUT(" : ");
        hlo__print_type(p, op->results[0].type);
        return true;
    case HLO_FORM_CHLO_UNARY:
    case HLO_FORM_CHLO_BINARY:
        OUT(" ");
        operands(p, op, 0, op->num_operands);
        dict(p, op, 0);
        return arrow(p, op);
    case HLO_FORM_CHLO_TOP_K:
        OUT("(");
        operands(p, op, 0, 1);
        OUT(", k = ");
        hlo__print_i64(hlo_op_i64(op, HLO_A_k, 0), p->out);
        if (!hlo_op_bool(op, HLO_A_is_stable, true))
            OUT(", is_stable = false");
        OUT(")");
        dict(p, op, 3);
        return arrow(p, op);
    case HLO_FORM_CHLO_SCAN:
        return print_scan(p, op);
    case HLO_FORM_SDY_MESH:
        OUT(" ");
        hlo__print_symbol(hlo_op_string(op, HLO_A_sym_name), p->out);
        OUT(" = ");
        if (!sdy_text(p, hlo_op_attr(op, HLO_A_mesh), "#sdy.mesh", 0))
            return false;
        dict(p, op, 3);
        return true;
    case HLO_FORM_SDY_CONSTRAINT:
        if (op->operands[0].value->type != op->results[0].type)
            return false;
        OUT(" ");
        operands(p, op, 0, 1);
        OUT(" ");
        if (!sdy_text(p, op->attrs[0], "#sdy.sharding", 0))
            return false;
        dict(p, op, 1);
        return same_type(p, op);
    case HLO_FORM_SDY_MANUAL:
        return print_manual(p, op);
    case HLO_FORM_CHECK:
    case HLO_FORM_CHECK_CLOSE:
    case HLO_FORM_CHECK_SERIALIZED:
        return print_check(p, op);
    case HLO_FORM_CHECK_CONST:
        a = hlo_op_attr(op, HLO_A_value);
        if (a->kind == HLO_ATTR_OPAQUE || a->type != op->operands[0].value->type)
            return false;
        OUT(" ");
        operands(p, op, 0, 1);
        OUT(", ");
        hlo__print_attr(p, op, a);
        dict(p, op, bit(op, HLO_A_value));
        return true;
    case HLO_FORM_INTERPRETER_PRINT:
        OUT(" ");
        operands(p, op, 0, 1);
        dict(p, op, 0);
        OUT(" : ");
        hlo__print_type(p, op->operands[0].value->type);
        return true;
    case HLO_FORM_INTERPRETER_PROBE:
        OUT(" ");
        operands(p, op, 0, 1);
        OUT(", probe_id = ");
        hlo__print_string(hlo_op_string(op, HLO_A_probe_id), p->out);
        dict(p, op, bit(op, HLO_A_probe_id));
        return same_type(p, op);
    case HLO_FORM_ARITH_CONSTANT:
        a = op->attrs[0];
        if (a->type ? a->type != op->results[0].type : a->kind != HLO_ATTR_BOOL)
            return false;
        dict(p, op, 1);
        OUT(" ");
        hlo__print_attr(p, op, a);
        return true;
    case HLO_FORM_TENSOR_CAST:
        OUT(" ");
        operands(p, op, 0, 1);
        dict(p, op, 0);
        OUT(" : ");
        hlo__print_type(p, op->operands[0].value->type);
        OUT(" to ");
        hlo__print_type(p, op->results[0].type);
        return true;
    case HLO_FORM_GENERIC:
    case HLO_FORM_MODULE:
    case HLO_FORM_FUNC:
    case HLO_FORM_MAX:
        break;
    }
    return false;
}
