/* neffopt_native.c: --check --target cpu: a function with checks is compiled natively and run.
 *
 * The function is changed to give what its checks compare; a second function, which only takes those values and checks them, goes to
 * the evaluator with what the native run gave. So the checks mean the same on every target. */
#include "pipeline/tools/neffopt.h"

#include "base/clock.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/eval.h"
#include "runtime/cpu/cpu.h"

static bool is_check(const struct hlo_op *op)
{
    if (hlo_op_info((enum hlo_op_id)op->id)->dialect == HLO_DIALECT_CHECK) return true;
    return op->id == HLO_OP_CUSTOM_CALL && nf_str_starts(hlo_op_string(op, HLO_A_call_target_name), NF_STR("check."));
}

struct split {
    struct hlo_module *m;
    struct hlo_op *f;
    struct hlo_value **values;
    const struct hlo_type **types;
    uint32_t n;
};

/* Takes the checks out of f, which gives their operands instead, and makes @neffopt_checks of them. */
static void split_checks(struct split *s)
{
    struct hlo_module *m = s->m;
    struct hlo_block *b = hlo_func_block(s->f);
    size_t most = 0;
    HLO_FOR_OPS(op, b) most += is_check(op) ? op->num_operands : 0;
    s->values = NF_NEW_ARRAY(m->arena, struct hlo_value *, most + 1);
    s->types = NF_NEW_ARRAY(m->arena, const struct hlo_type *, most + 1);
    struct hlo_op *g = hlo_op_new(m, HLO_OP_FUNC, 0, NULL, 0, NULL, 1);
    struct hlo_block *gb = hlo_block_new(m, g->regions[0]);
    HLO_FOR_OPS(op, b) {
        if (!is_check(op)) continue;
        struct hlo_op *c = hlo_op_clone(m, op, NULL, 0);
        for (uint32_t i = 0; i < op->num_operands; i++) {
            struct hlo_value *v = hlo_op_operand(op, i);
            s->values[s->n] = v;
            s->types[s->n++] = v->type;
            hlo_op_set_operand(c, i, hlo_block_add_arg(m, gb, v->type));
        }
        hlo_block_append(gb, c);
    }
    hlo_block_append(gb, hlo_op_new(m, HLO_OP_FUNC_RETURN, 0, NULL, 0, NULL, 0));
    hlo_op_set_attr(g, HLO_A_sym_name, hlo_attr_string(m, NF_STR("neffopt_checks")));
    hlo_op_set_attr(g, HLO_A_function_type, hlo_attr_type(m, hlo_type_function(m, s->n, s->types, 0, NULL)));
    hlo_op_set_operands(m, b->last, s->n, s->values);
    HLO_FOR_OPS(op, b) {
        if (is_check(op)) hlo_op_erase(op);
    }
    hlo_op_set_attr(s->f, HLO_A_function_type, hlo_attr_type(m, hlo_type_function(m, 0, NULL, s->n, s->types)));
    hlo_op_set_attr(s->f, HLO_A_res_attrs, NULL);
    struct hlo_op *old = hlo_module_func(m, NF_STR("main"));
    if (old && old != s->f) hlo_op_set_attr(old, HLO_A_sym_name, hlo_attr_string(m, NF_STR("neffopt_old_main")));
    hlo_op_set_attr(s->f, HLO_A_sym_name, hlo_attr_string(m, NF_STR("main")));
    hlo_block_append(hlo_module_block(m), g);
    hlo_module_symbols_changed(m);
}

static int run_native(struct split *s, struct rt_array *out, struct nf_error *err)
{
    static bool registered;
    struct nf_buf neff = NF_BUF_INIT;
    struct rt_device *dev = NULL;
    struct rt_program *p = NULL;
    void **ptr = nf_alloc_array(s->n + 1, sizeof *ptr);
    struct cg_request q = {.tier = 0};
    if (!registered) rt_device_register(&cpu_device_ops);
    registered = true;
    int rc = cg_compile(s->m, &q, &neff, NULL, err);
    if (!rc) rc = rt_device_open("cpu", NULL, &dev, err);
    if (!rc) rc = rt_program_load(dev, nf_buf_str(&neff), NULL, &p, err);
    for (uint32_t i = 0; i < s->n && !rc; i++) {
        const struct rt_tensor *t = &p->outputs[i];
        rc = rt_array_alloc(t->dtype, (int)t->rank, t->dims, 0, &out[i], err);
        ptr[i] = out[i].data;
    }
    if (!rc) rc = rt_execute_host(p, NULL, ptr, err);
    rt_program_unload(p);
    rt_device_close(dev);
    nf_buf_done(&neff);
    free(ptr);
    return rc;
}

int neffopt_native(struct hlo_module *m, struct nf_str function, const struct hlo_eval_hooks *hooks, double time_limit_s, struct nf_error *err)
{
    struct split s = {.m = m, .f = hlo_module_func(m, function)};
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    struct hlo_eval *e = NULL;
    split_checks(&s);
    struct rt_array *out = nf_alloc_array(s.n + 1, sizeof *out);
    int rc = run_native(&s, out, err);
    o.hooks = hooks;
    o.deadline_ns = time_limit_s > 0 ? nf_now_ns() + (int64_t)(time_limit_s * 1e9) : 0;
    if (!rc) rc = hlo_eval_new(m, &o, &e, err);
    if (!rc) rc = hlo_eval_run(e, NF_STR("neffopt_checks"), out, s.n, NULL, 0, err);
    hlo_eval_free(e);
    for (uint32_t i = 0; i < s.n; i++) rt_array_done(&out[i]);
    free(out);
    return rc;
}
