/* check_rule.c: see check_rule.h. */
#include "pipeline/hlo/check_rule.h"

static uint64_t number(const struct hlo_op *op, enum hlo_attr_name name, uint64_t absent)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    return a && a->kind == HLO_ATTR_INT ? (uint64_t)a->i : absent;
}

/* check.eq is exact but for floats, and for complex numbers by their parts. */
static bool first_is_float(const struct hlo_op *op)
{
    const struct hlo_type *t = op->num_operands ? hlo_op_operand(op, 0)->type : NULL;
    return t && t->kind <= HLO_TYPE_SCALAR && !hlo_type_is_quant(t) && nf_dtype_is_float(nf_dtype_part(hlo_elem_dtype(t->elem)));
}

static bool call_rule(const struct hlo_op *op, struct rt_check_rule *ret_rule)
{
    struct nf_str target = hlo_op_string(op, HLO_A_call_target_name);
    *ret_rule = (struct rt_check_rule){.how = RT_CHECK_EXACT};
    if (nf_str_eq_c(target, "check.expect_almost_eq"))
        *ret_rule = (struct rt_check_rule){.how = RT_CHECK_ALMOST, .tolerance = 1e-3};
    else if (nf_str_eq_c(target, "check.expect_close"))
        *ret_rule = (struct rt_check_rule){.how = RT_CHECK_CLOSE, .max_ulp = 3};
    else if (nf_str_eq_c(target, "check.eq") && first_is_float(op))
        *ret_rule = (struct rt_check_rule){.how = RT_CHECK_ALMOST, .tolerance = 1e-4};
    else
        return nf_str_eq_c(target, "check.eq") || nf_str_eq_c(target, "check.expect_eq");
    return true;
}

bool hlo_check_rule(const struct hlo_op *op, struct rt_check_rule *ret_rule)
{
    const struct hlo_attr *t = hlo_op_attr(op, HLO_A_tolerance);
    switch ((int)op->id) {
    case HLO_OP_CUSTOM_CALL:
        return call_rule(op, ret_rule);
    case HLO_OP_CHECK_EXPECT_EQ: case HLO_OP_CHECK_EXPECT_EQ_CONST: case HLO_OP_CHECK_EXPECT_SERIALIZED_EQ:
        *ret_rule = (struct rt_check_rule){.how = RT_CHECK_EXACT};
        return true;
    case HLO_OP_CHECK_EXPECT_ALMOST_EQ: case HLO_OP_CHECK_EXPECT_ALMOST_EQ_CONST:
        *ret_rule = (struct rt_check_rule){.how = RT_CHECK_ALMOST, .tolerance = t && t->kind == HLO_ATTR_FLOAT ? hlo_float_decode(t->type->elem, t->bits) : 1e-4};
        return true;
    case HLO_OP_CHECK_EXPECT_CLOSE:
        *ret_rule = (struct rt_check_rule){RT_CHECK_CLOSE, 0, number(op, HLO_A_min_ulp_difference, 0), number(op, HLO_A_max_ulp_difference, 1)};
        return true;
    default:
        return false;
    }
}
