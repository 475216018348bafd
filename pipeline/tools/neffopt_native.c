/* neffopt_native.c: --check --target cpu: a function with checks is compiled natively and run.
 *
 * The function is changed to give what its checks compare; a second function, which only takes those values and checks them, goes to
 * the evaluator with what the native run gave. So the checks mean the same on every target. */
#include "pipeline/tools/neffopt.h"

#include "base/clock.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/eval.h"
#include "runtime/cpu/cpu.h"

#include <pthread.h>

static bool is_check(const struct hlo_op *op)
{
    if (hlo_op_info((enum hlo_op_id)op->id)->dialect == HLO_DIALECT_CHECK) return true;
    return op->id == HLO_OP_CUSTOM_CALL && nf_str_starts(hlo_op_string(op, HLO_A_call_target_name), NF_STR("check."));
}

enum { PARALLEL_MAX = 16, PROCESSES_MAX = 64 };

/* An interpreter.run_parallel of the function: its operands come from the native run, its results from programs that run together. */
struct parallel {
    const struct hlo_op *op;
    uint32_t first;              /* of its operands among the outputs */
    uint32_t n, nresults;        /* arrays among its operands and results */
    struct rt_array *results;
};

/* Tokens are no arrays: counted without them. */
static bool is_array(const struct hlo_value *v) { return v->type->kind != HLO_TYPE_TOKEN; }

struct split {
    struct hlo_module *m;
    struct hlo_op *f;
    struct hlo_value **values;   /* what the native run gives */
    const struct hlo_type **types;
    uint32_t n, checked;
    struct check_operand {
        int parallel;            /* -1: output `index` of the native run; else result `index` of that one */
        uint32_t index;
    } *operands;                 /* of all checks, in order */
    struct parallel parallel[PARALLEL_MAX];
    int nparallel;
};

static void add_output(struct split *s, struct hlo_value *v)
{
    s->values[s->n] = v;
    s->types[s->n++] = v->type;
}

/* Takes the checks out of f, which gives their operands instead, and makes @neffopt_checks of them. */
static int split_checks(struct split *s, struct nf_error *err)
{
    struct hlo_module *m = s->m;
    struct hlo_block *b = hlo_func_block(s->f);
    size_t most = 0;
    HLO_FOR_OPS(op, b) most += op->num_operands;
    s->values = NF_NEW_ARRAY(m->arena, struct hlo_value *, most + 1);
    s->types = NF_NEW_ARRAY(m->arena, const struct hlo_type *, most + 1);
    s->operands = NF_NEW_ARRAY(m->arena, struct check_operand, most + 1);
    const struct hlo_type **checked = NF_NEW_ARRAY(m->arena, const struct hlo_type *, most + 1);
    HLO_FOR_OPS(op, b) {
        if (op->id != HLO_OP_INTERPRETER_RUN_PARALLEL) continue;
        if (s->nparallel == PARALLEL_MAX) return nf_fail(err, NF_EUNSUPPORTED, "native code for cpu does not do interpreter.run_parallel more than %d times", PARALLEL_MAX);
        struct parallel *p = &s->parallel[s->nparallel++];
        *p = (struct parallel){.op = op, .first = s->n};
        for (uint32_t i = 0; i < op->num_operands; i++)
            if (is_array(hlo_op_operand(op, i))) add_output(s, hlo_op_operand(op, i));
        for (uint32_t i = 0; i < op->num_results; i++) p->nresults += is_array(&op->results[i]);
        p->n = s->n - p->first;
    }
    struct hlo_op *g = hlo_op_new(m, HLO_OP_FUNC, 0, NULL, 0, NULL, 1);
    struct hlo_block *gb = hlo_block_new(m, g->regions[0]);
    HLO_FOR_OPS(op, b) {
        if (!is_check(op) && op->id != HLO_OP_INTERPRETER_PROBE) continue; /* a probe is for the checks, and in the program does nothing */
        struct hlo_op *c = hlo_op_clone(m, op, NULL, 0);
        for (uint32_t i = 0; i < op->num_operands; i++) {
            struct hlo_value *v = hlo_op_operand(op, i);
            struct check_operand *o = &s->operands[s->checked];
            *o = (struct check_operand){-1, s->n};
            for (int p = 0; p < s->nparallel && !v->is_arg; p++)
                if (v->def.op == s->parallel[p].op) {
                    *o = (struct check_operand){p, 0};
                    for (uint32_t k = 0; k < v->index; k++) o->index += is_array(&v->def.op->results[k]);
                }
            if (o->parallel < 0) add_output(s, v);
            checked[s->checked++] = v->type;
            hlo_op_set_operand(c, i, hlo_block_add_arg(m, gb, v->type));
        }
        hlo_block_append(gb, c);
    }
    hlo_block_append(gb, hlo_op_new(m, HLO_OP_FUNC_RETURN, 0, NULL, 0, NULL, 0));
    hlo_op_set_attr(g, HLO_A_sym_name, hlo_attr_string(m, NF_STR("neffopt_checks")));
    hlo_op_set_attr(g, HLO_A_function_type, hlo_attr_type(m, hlo_type_function(m, s->checked, checked, 0, NULL)));
    hlo_op_set_operands(m, b->last, s->n, s->values);
    HLO_FOR_OPS(op, b) {
        if (is_check(op)) hlo_op_erase(op);
        else if (op->id == HLO_OP_INTERPRETER_RUN_PARALLEL) hlo_op_remove(op);
    }
    hlo_op_set_attr(s->f, HLO_A_function_type, hlo_attr_type(m, hlo_type_function(m, 0, NULL, s->n, s->types)));
    hlo_op_set_attr(s->f, HLO_A_res_attrs, NULL);
    hlo_block_append(hlo_module_block(m), g);
    hlo_module_symbols_changed(m);
    return 0;
}

/* Compiles function f as the module's entry. */
static int compile(struct hlo_module *m, struct hlo_op *f, int64_t replicas, int64_t partitions, struct nf_buf *neff, struct nf_error *err)
{
    struct cg_request q = {.tier = 0};
    struct nf_str name = hlo_func_name(f);
    struct hlo_op *old = hlo_module_func(m, NF_STR("main"));
    if (old && old != f) hlo_op_set_attr(old, HLO_A_sym_name, hlo_attr_string(m, NF_STR("neffopt_old_main")));
    hlo_op_set_attr(f, HLO_A_sym_name, hlo_attr_string(m, NF_STR("main")));
    hlo_op_set_named(m, m->op, NF_STR("mhlo.num_replicas"), hlo_attr_int(m, HLO_ELEM_I32, replicas));
    hlo_op_set_named(m, m->op, NF_STR("mhlo.num_partitions"), hlo_attr_int(m, HLO_ELEM_I32, partitions));
    hlo_module_symbols_changed(m);
    int rc = cg_compile(m, &q, neff, NULL, err);
    hlo_op_set_attr(f, HLO_A_sym_name, hlo_attr_string(m, name));
    if (old && old != f) hlo_op_set_attr(old, HLO_A_sym_name, hlo_attr_string(m, NF_STR("main")));
    hlo_module_symbols_changed(m);
    return rc;
}

static int outputs_of(const struct rt_program *p, struct rt_array *out, struct nf_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < p->output_count && !rc; i++) rc = rt_array_alloc(p->outputs[i].dtype, (int)p->outputs[i].rank, p->outputs[i].dims, 0, &out[i], err);
    return rc;
}

static int run_native(struct split *s, struct rt_device *dev, struct rt_array *out, struct nf_error *err)
{
    struct nf_buf neff = NF_BUF_INIT;
    struct rt_program *p = NULL;
    void **ptr = nf_alloc_array(s->n + 1, sizeof *ptr);
    int rc = compile(s->m, s->f, 1, 1, &neff, err);
    if (!rc) rc = rt_program_load(dev, nf_buf_str(&neff), NULL, &p, err);
    if (!rc) rc = outputs_of(p, out, err);
    for (uint32_t i = 0; i < s->n; i++) ptr[i] = out[i].data;
    if (!rc) rc = rt_execute_host(p, NULL, ptr, err);
    rt_program_unload(p);
    nf_buf_done(&neff);
    free(ptr);
    return rc;
}

struct process {
    struct nf_buf neff;
    struct rt_program *program;
    const void **in;
    void **out;
    pthread_t thread;
    bool started;
    int rc;
    struct nf_error err;
};

static void *execute(void *arg)
{
    struct process *p = arg;
    p->rc = rt_execute_host(p->program, p->in, p->out, &p->err);
    return NULL;
}

/* What a function gives goes into the queue that infeed takes from. */
static int feed(struct split *s, const struct hlo_attr *name, struct rt_device *dev, struct rt_program *to, struct nf_error *err)
{
    struct hlo_op *f = name->kind == HLO_ATTR_SYMBOL ? hlo_module_func(s->m, name->str) : NULL;
    struct rt_array out[64] = {{0}};
    void *ptr[64];
    struct nf_buf neff = NF_BUF_INIT;
    struct rt_program *p = NULL;
    int rc = f ? compile(s->m, f, 1, 1, &neff, err) : nf_fail(err, NF_EGRAPH, "the infeed of interpreter.run_parallel names no function");
    if (!rc) rc = rt_program_load(dev, nf_buf_str(&neff), NULL, &p, err);
    if (!rc && (p->input_count || p->output_count > NF_ARRAY_LEN(out))) rc = nf_fail(err, NF_EGRAPH, "the infeed of interpreter.run_parallel is no function without arguments");
    if (!rc) rc = outputs_of(p, out, err);
    for (size_t i = 0; i < NF_ARRAY_LEN(out); i++) ptr[i] = out[i].data;
    if (!rc) rc = rt_execute_host(p, NULL, ptr, err);
    if (!rc) rc = cpu_program_feed(to, out, p->output_count, err);
    for (size_t i = 0; i < NF_ARRAY_LEN(out); i++) rt_array_done(&out[i]);
    rt_program_unload(p);
    nf_buf_done(&neff);
    return rc;
}

/* All programs of the grid at once, each with its share of the operands, in order of the grid. */
static int run_parallel(struct split *s, struct parallel *p, struct rt_device *dev, const struct rt_array *given, struct nf_error *err)
{
    const struct hlo_attr *rows = hlo_op_attr(p->op, HLO_A_programs);
    size_t R = rows && rows->kind == HLO_ATTR_ARRAY ? rows->array.n : 0, P = R && rows->array.v[0]->kind == HLO_ATTR_ARRAY ? rows->array.v[0]->array.n : 0, n = R * P, in = 0, out = 0;
    if (n == 0 || n > PROCESSES_MAX) return nf_fail(err, NF_EUNSUPPORTED, "native code for cpu does not do interpreter.run_parallel: a grid of that size");
    struct process *proc = nf_alloc_array(n, sizeof *proc);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct hlo_attr *sym = rows->array.v[i / P]->array.v[i % P];
        struct hlo_op *f = sym->kind == HLO_ATTR_SYMBOL ? hlo_module_func(s->m, sym->str) : NULL;
        struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
        o.rank = (uint32_t)i;
        o.world_size = (uint32_t)n;
        o.group = "neffopt";
        if (!f) rc = nf_fail(err, NF_EGRAPH, "interpreter.run_parallel names no function");
        if (!rc) rc = compile(s->m, f, (int64_t)R, (int64_t)P, &proc[i].neff, err);
        if (!rc) rc = rt_program_load(dev, nf_buf_str(&proc[i].neff), &o, &proc[i].program, err);
        if (rc) break;
        struct rt_program *q = proc[i].program;
        if (in + q->input_count > p->n || out + q->output_count > p->nresults) {
            rc = nf_fail(err, NF_EGRAPH, "the programs of interpreter.run_parallel do not fit its operands");
            break;
        }
        proc[i].in = nf_alloc_array(q->input_count + 1, sizeof *proc[i].in);
        proc[i].out = nf_alloc_array(q->output_count + 1, sizeof *proc[i].out);
        rc = outputs_of(q, p->results + out, err);
        for (size_t k = 0; k < q->input_count; k++) proc[i].in[k] = given[p->first + in++].data;
        for (size_t k = 0; k < q->output_count; k++) proc[i].out[k] = p->results[out++].data;
    }
    const struct hlo_attr *queue = hlo_op_attr(p->op, HLO_A_infeed);
    for (size_t i = 0; i < (queue && queue->kind == HLO_ATTR_ARRAY ? queue->array.n : 0) && !rc; i++) rc = feed(s, queue->array.v[i], dev, proc[0].program, err);
    for (size_t i = 0; i < n && !rc; i++) proc[i].started = pthread_create(&proc[i].thread, NULL, execute, &proc[i]) == 0;
    for (size_t i = 0; i < n; i++) {
        if (proc[i].started) pthread_join(proc[i].thread, NULL);
        if (proc[i].rc && !rc) {
            rc = proc[i].rc;
            *err = proc[i].err;
        }
    }
    for (size_t i = 0; i < n; i++) {
        rt_program_unload(proc[i].program);
        nf_buf_done(&proc[i].neff);
        free(proc[i].in);
        free(proc[i].out);
    }
    free(proc);
    return rc;
}

int neffopt_native(struct hlo_module *m, struct nf_str function, const struct hlo_eval_hooks *hooks, double time_limit_s, struct nf_error *err)
{
    static bool registered;
    struct split s = {.m = m, .f = hlo_module_func(m, function)};
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    struct hlo_eval *e = NULL;
    struct rt_device *dev = NULL;
    if (!registered) rt_device_register(&cpu_device_ops);
    registered = true;
    int rc = split_checks(&s, err);
    struct rt_array *out = nf_alloc_array(s.n + 1, sizeof *out), *in = nf_alloc_array(s.checked + 1, sizeof *in);
    if (!rc) rc = rt_device_open("cpu", NULL, &dev, err);
    if (!rc) rc = run_native(&s, dev, out, err);
    for (int p = 0; p < s.nparallel; p++) {
        s.parallel[p].results = nf_alloc_array(s.parallel[p].nresults + 1, sizeof *in);
        if (!rc) rc = run_parallel(&s, &s.parallel[p], dev, out, err);
    }
    for (uint32_t i = 0; i < s.checked; i++) in[i] = s.operands[i].parallel < 0 ? out[s.operands[i].index] : s.parallel[s.operands[i].parallel].results[s.operands[i].index];
    o.hooks = hooks;
    o.deadline_ns = time_limit_s > 0 ? nf_now_ns() + (int64_t)(time_limit_s * 1e9) : 0;
    if (!rc) rc = hlo_eval_new(m, &o, &e, err);
    if (!rc) rc = hlo_eval_run(e, NF_STR("neffopt_checks"), in, s.checked, NULL, 0, err);
    hlo_eval_free(e);
    for (int p = 0; p < s.nparallel; p++) {
        for (uint32_t i = 0; i < s.parallel[p].nresults; i++) rt_array_done(&s.parallel[p].results[i]);
        free(s.parallel[p].results);
    }
    for (uint32_t i = 0; i < s.n; i++) rt_array_done(&out[i]);
    rt_device_close(dev);
    free(out);
    free(in);
    return rc;
}
