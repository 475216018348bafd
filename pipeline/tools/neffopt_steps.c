/* neffopt_steps.c: neffopt FILE --check-steps [--inputs DIR]: the native form of a program beside the evaluator, value by value.
 *
 * The program runs natively, and every value of the entry function that its plan stores is kept as the step that makes it leaves it.
 * Then the evaluator runs, and the first operation whose value differs by more than rounding is named. Without --inputs the arguments
 * are made up. --native-stage=S and --print-after=S print a stage of the code generator instead. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/tools/neffopt.h"
#include "runtime/compare.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/plan.h"
#include "runtime/npy.h"

#include <math.h>

struct steps {
    const struct hlo_module *m;
    struct cg_traces traces;
    struct rt_array *kept;       /* by trace; no data: the value is never written */
    size_t compared;
    char message[600];
};

static int keep(void *user, const struct plan *p, uint32_t step, void *const *values, struct nf_error *err)
{
    struct steps *s = user;
    const struct plan_step *st = &p->block[0].step[step];
    for (uint32_t k = 0; k < st->nout; k++)
        for (size_t i = 0; i < s->traces.n; i++) {
            const struct plan_value *v = &p->value[st->out[k]];
            if (s->traces.v[i].plan_value != st->out[k]) continue;
            rt_array_done(&s->kept[i]);
            int rc = rt_array_alloc(cpu_dt_base((enum cpu_dt)v->dt), v->rank, v->dims, 0, &s->kept[i], err);
            if (rc) return rc;
            memcpy(s->kept[i].data, values[st->out[k]], s->kept[i].bytes);
        }
    return 0;
}

static double largest(const struct rt_array *a)
{
    double top = 0;
    size_t w = nf_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < rt_array_count(a); i++) {
        double x = fabs(nf_elem_to_double(a->dtype, (const char *)a->data + (size_t)i * w));
        if (isfinite(x) && x > top) top = x;
    }
    return top;
}

static int observe(void *user, const struct hlo_op *op, unsigned device, const struct rt_array *results, size_t n)
{
    struct steps *s = user;
    char where[256];
    (void)device;
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < s->traces.n; i++) {
            if (s->traces.v[i].value != &op->results[k] || !s->kept[i].data || s->kept[i].dtype != results[k].dtype) continue;
            struct rt_difference d;
            struct nf_error ignored = {0};
            double tol = !nf_dtype_is_float(nf_dtype_part(results[k].dtype)) ? 0 : nf_dtype_bits(results[k].dtype) < 32 ? 1.0 / 32 : 1e-4;
            s->compared++;
            if (rt_compare(&s->kept[i], &results[k], tol, tol * 0.1 * largest(&results[k]), &d, &ignored) || d.mismatched == 0) continue;
            nf_format(s->message, sizeof s->message, "%.*s at %s: %lld of %lld elements differ; element %lld is %.9g, the evaluator has %.9g", (int)NF_MIN(hlo_op_name(op).len, (size_t)60), hlo_op_name(op).data,
                      hlo_op_where(s->m, op, where, sizeof where), (long long)d.mismatched, (long long)d.count, (long long)d.worst_index, d.worst_actual, d.worst_expected);
            return NF_EMISMATCH;
        }
    return NF_OK;
}

static void make_up(struct rt_array *a, uint64_t *state)
{
    enum cpu_dt t = cpu_dt_of(a->dtype);
    for (int64_t i = 0; i < rt_array_count(a); i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int64_t r = (int64_t)(*state >> 40);
        struct cpu_num v = {.re = (double)(r % 2001 - 1000) / 1000, .i = t == CPU_PRED ? r & 1 : r % 5};
        cpu_num_store(t, (char *)a->data + (size_t)i * nf_dtype_bytes(a->dtype), v);
    }
}

struct shown {
    const char *stage; /* or all */
    FILE *to;
};
static void show(void *user, const char *stage, struct nf_str text)
{
    const struct shown *s = user;
    if (strcmp(stage, s->stage) != 0 && strcmp(s->stage, "all") != 0) return;
    if (s->to == stderr) fprintf(stderr, "// ----- after %s\n", stage);
    fwrite(text.data, 1, text.len, s->to);
}

static int stage_of(struct hlo_module *m, struct nf_str graph, const char *stage, FILE *to, struct nf_error *err)
{
    struct shown s = {stage, to};
    struct cg_request q = {.tier = 1, .print = show, .print_user = &s};
    struct cg_artifact a = {0};
    int rc = m ? cg_build(m, &q, &a, err) : cg_build_text(graph, &q, &a, err);
    if (!rc) cg_artifact_done(&a);
    return rc;
}

int neffopt_stage(struct hlo_module *m, const char *stage, bool to_stderr, struct nf_error *err)
{
    return stage_of(m, (struct nf_str){0}, stage, to_stderr ? stderr : stdout, err);
}

int neffopt_stage_text(struct nf_str graph, const char *stage, struct nf_error *err)
{
    int rc = stage_of(NULL, graph, stage, stdout, err);
    if (rc != NF_EINTERNAL) return rc;
    err->code = NF_EGRAPH;   /* not our mistake: a person has written it */
    return nf_error_prefix(err, "the graph does not hold together");
}

int neffopt_steps(struct hlo_module *m, const char *inputs, struct nf_error *err)
{
    struct steps s = {.m = m};
    struct nf_buf neff = NF_BUF_INIT;
    struct rt_device *dev = NULL;
    struct rt_program *p = NULL;
    struct rt_array *in = NULL, *out = NULL;
    struct hlo_eval *e = NULL;
    const void **ip = NULL;
    void **op = NULL;
    uint64_t state = 1;
    struct cg_request q = {.tier = 1, .ret_traces = &s.traces};
    rt_device_register(&cpu_device_ops);
    int rc = cg_compile(m, &q, &neff, NULL, err);
    if (rc) goto out;
    s.kept = nf_alloc_array(s.traces.n + 1, sizeof *s.kept);
    if ((rc = rt_device_open("cpu", NULL, &dev, err)) || (rc = rt_program_load(dev, nf_buf_str(&neff), NULL, &p, err))) goto out;
    size_t n = p->input_count, k = p->output_count;
    in = nf_alloc_array(n + 1, sizeof *in);
    out = nf_alloc_array(k + 1, sizeof *out);
    ip = nf_alloc_array(n + 1, sizeof *ip);
    op = nf_alloc_array(k + 1, sizeof *op);
    for (size_t i = 0; i < n && !rc; i++) {
        char path[4096];
        if (inputs) {
            nf_format(path, sizeof path, "%s/%02zu.npy", inputs, i);
            rc = rt_npy_read(path, p->inputs[i].dtype, 0, &in[i], err);
            if (!rc && in[i].bytes != p->inputs[i].bytes) rc = nf_fail(err, NF_EINVAL, "%s is not what argument %zu takes", path, i);
        } else {
            rc = rt_array_alloc(p->inputs[i].dtype, (int)p->inputs[i].rank, p->inputs[i].dims, 0, &in[i], err);
            if (!rc) make_up(&in[i], &state);
        }
        ip[i] = in[i].data;
    }
    for (size_t i = 0; i < k && !rc; i++) {
        rc = rt_array_alloc(p->outputs[i].dtype, (int)p->outputs[i].rank, p->outputs[i].dims, 0, &out[i], err);
        op[i] = out[i].data;
    }
    struct cpu_watch watch = {keep, &s};
    if (rc || (rc = cpu_program_watch(p, ip, op, &watch, err))) goto out;
    struct hlo_eval_hooks hooks = {.user = &s, .observe = observe};
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    o.hooks = &hooks;
    for (size_t i = 0; i < k; i++) rt_array_done(&out[i]);
    if ((rc = hlo_eval_new(m, &o, &e, err))) goto out;
    rc = hlo_eval_run(e, NF_STR(""), in, n, out, k, err);
    if (s.message[0]) rc = nf_fail(err, NF_EMISMATCH, "%s", s.message);
    else if (!rc) printf("%zu stored values agree with the evaluator\n", s.compared);
out:
    for (size_t i = 0; s.kept && i < s.traces.n; i++) rt_array_done(&s.kept[i]);
    for (size_t i = 0; p && in && i < p->input_count; i++) rt_array_done(&in[i]);
    for (size_t i = 0; p && out && i < p->output_count; i++) rt_array_done(&out[i]);
    free(in);
    free(out);
    free(ip);
    free(op);
    free(s.kept);
    free(s.traces.v);
    hlo_eval_free(e);
    rt_program_unload(p);
    rt_device_close(dev);
    nf_buf_done(&neff);
    return rc;
}
