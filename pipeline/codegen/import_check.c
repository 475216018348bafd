/* import_check.c: what a program says of itself: checks, probes and prints, as steps of the runtime. */
#include "pipeline/codegen/import_internal.h"
#include "pipeline/hlo/check_rule.h"

static void add_check(struct import *im, struct cg_graph *g, const struct hlo_op *op, struct cg_value *actual, struct cg_value *expected, const struct rt_check_rule *r)
{
    int64_t attrs[4] = {r->how, 0, (int64_t)r->min_ulp, (int64_t)r->max_ulp};
    struct cg_value *in[2] = {actual, expected};
    if (im->rc) return;
    if (!rt_check_fits(r, cpu_dt_base((enum cpu_dt)actual->dt)) || !rt_check_fits(r, cpu_dt_base((enum cpu_dt)expected->dt))) {
        imp_refuse(im, op, "integers with a tolerance");
        return;
    }
    memcpy(&attrs[1], &r->tolerance, sizeof r->tolerance);
    struct cg_value *lib = cg_lib(g, PLAN_CHECK, 2, in, 4, attrs);
    lib->label = im->label;
    imp_finish_lib(im, op, lib);
}

/* A text as a step takes it: with one byte more behind it. */
static struct cg_value *text_value(struct import *im, struct cg_graph *g, struct nf_str text)
{
    int64_t n = (int64_t)text.len + 1;
    char *bytes = nf_arena_alloc(im->cg->arena, (size_t)n);
    if (text.len) memcpy(bytes, text.data, text.len);
    return cg_const(g, CPU_U8, 1, &n, nf_str_n(bytes, (size_t)n));
}

void imp_check(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    const struct hlo_attr *it = hlo_op_attr(op, HLO_A_iter), *v = hlo_op_attr(op, HLO_A_value);
    struct rt_check_rule r;
    (void)hlo_check_rule(op, &r); /* it is a check */
    struct cg_value *actual = imp_get(im, hlo_op_operand(op, 0));
    if (im->rc) return;
    if (op->id == HLO_OP_CHECK_EXPECT_SERIALIZED_EQ) {
        int64_t iter = it && it->kind == HLO_ATTR_INT ? (int64_t)(uint32_t)it->i : 1;
        struct cg_value *in[2] = {text_value(im, g, hlo_op_string(op, HLO_A_probe_id)), actual};
        cg_lib(g, PLAN_PROBED, 2, in, 1, &iter)->label = im->label;
        return;
    }
    if (op->id == HLO_OP_CHECK_EXPECT_EQ_CONST || op->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ_CONST) {
        if (!v || !v->type || hlo_type_is_quant(v->type)) imp_refuse(im, op, "a constant whose data the file does not hold");
        else add_check(im, g, op, actual, imp_constant(im, g, op, v->type), &r);
    } else {
        add_check(im, g, op, actual, imp_get(im, hlo_op_operand(op, 1)), &r);
    }
}

/* Each of actual and expected, but check.eq of expected and actual. */
bool imp_check_call(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    bool eq = nf_str_eq_c(hlo_op_string(op, HLO_A_call_target_name), "check.eq");
    struct rt_check_rule r;
    if (!hlo_check_rule(op, &r)) return false;
    const struct hlo_type *t = op->num_results == 1 ? op->results[0].type : NULL;
    if (op->num_operands != 2 || (eq ? !t || t->kind != HLO_TYPE_TENSOR || t->elem != HLO_ELEM_I1 || t->rank : op->num_results != 0)) {
        imp_refuse(im, op, "this form of a check");
        return true;
    }
    struct cg_value *a = imp_get(im, hlo_op_operand(op, 0)), *b = imp_get(im, hlo_op_operand(op, 1));
    if (im->rc) return true;
    if (eq) add_check(im, g, op, b, a, &r);
    else add_check(im, g, op, a, b, &r);
    return true;
}

void imp_probe(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *v = im->map[op->results[0].id] = imp_get(im, hlo_op_operand(op, 0));
    if (!v || !im->probed) return;
    struct cg_value *in[2] = {text_value(im, g, hlo_op_string(op, HLO_A_probe_id)), v};
    cg_lib(g, PLAN_PROBE, 2, in, 0, NULL)->label = im->label;
}

void imp_print(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    for (uint32_t i = 0; i < op->num_operands; i++) {
        struct nf_buf type = NF_BUF_INIT;
        struct cg_value *in[2] = {NULL, imp_get(im, hlo_op_operand(op, i))};
        if (im->rc) return;
        hlo_type_print(hlo_op_operand(op, i)->type, &type);
        in[0] = text_value(im, g, nf_buf_str(&type));
        nf_buf_done(&type);
        cg_lib(g, PLAN_PRINT, 2, in, 0, NULL)->label = im->label;
    }
}

bool imp_asks_for_probes(const struct hlo_module *m)
{
    struct hlo_walk w = hlo_walk_of(m->op);
    for (const struct hlo_op *op; (op = hlo_walk_next(&w));)
        if (op->id == HLO_OP_CHECK_EXPECT_SERIALIZED_EQ) return true;
    return false;
}
