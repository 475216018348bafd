/* steps_check.c: what a program says of itself: checks, probes, prints. A check that does not hold lets the execution go on and fails it at its end,
 * as in the evaluator. */
#include "runtime/check.h"
#include "runtime/cpu/steps.h"

#include <inttypes.h>
#include <stdlib.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* What a probe kept. */
struct cpu_probe {
    struct cpu_probe *next;
    struct nf_str id;            /* in the constants */
    int64_t iter;                /* how many of this id there are with it */
    struct rt_array value;
};

void cpu_run_done(struct cpu_run *run)
{
    while (run->probes) {
        struct cpu_probe *p = run->probes;
        run->probes = p->next;
        rt_array_done(&p->value);
        free(p);
    }
    pthread_mutex_destroy(&run->lock);
}

static struct rt_array array_of(const struct cpu_exec *x, uint32_t value)
{
    const struct plan_value *v = &x->plan->value[value];
    struct rt_array a = {.dtype = cpu_dt_base((enum cpu_dt)v->dt), .rank = v->rank, .data = x->ptr[value], .bytes = (size_t)v->bytes};
    memcpy(a.dims, v->dims, v->rank * sizeof *a.dims);
    return a;
}

/* A text is a constant of bytes, with one more behind it. */
static bool is_text(const struct plan_value *v) { return v->dt == CPU_U8 && v->rank == 1 && v->count >= 1 && v->where == PLAN_CONST; }
static struct nf_str text_of(const struct cpu_exec *x, uint32_t value) { return nf_str_n(x->ptr[value], (size_t)x->plan->value[value].count - 1); }

/* attributes: enum rt_check_how, bits of the tolerance (f64), least and most units in the last place; inputs: actual, expected;
 * output, if there is one: whether it holds */
static struct rt_check_rule rule_of(const struct plan_step *s)
{
    struct rt_check_rule r = {.how = (enum rt_check_how)s->attr[0], .min_ulp = (uint64_t)s->attr[2], .max_ulp = (uint64_t)s->attr[3]};
    memcpy(&r.tolerance, &s->attr[1], sizeof r.tolerance);
    return r;
}

int step_check__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    if (s->attr[0] < 0 || s->attr[0] >= RT_CHECK_HOW_MAX) BAD("there is no such check");
    struct rt_check_rule r = rule_of(s);
    for (uint32_t i = 0; i < 2; i++)
        if (!rt_check_fits(&r, cpu_dt_base((enum cpu_dt)step_in(p, s, i)->dt))) BAD("it compares integers with a tolerance");
    if (s->nout && (step_out(p, s, 0)->dt != CPU_PRED || step_out(p, s, 0)->count != 1)) BAD("its result has another type");
    return 0;
}

/* What a label begins with: the operation's name. */
static struct nf_str name_of(const struct cpu_exec *x, const struct plan_step *s)
{
    struct nf_str l = s->label == PLAN_NO_LABEL ? NF_STR("check") : x->plan->label[s->label];
    return nf_str_cut(&l, ' ');
}

static void compare(struct cpu_exec *x, const struct plan_step *s, const struct rt_check_rule *r, const struct rt_array *actual, const struct rt_array *expected, bool *ret_holds)
{
    struct nf_buf why = NF_BUF_INIT;
    bool holds = *ret_holds = rt_check(r, actual, expected, &why);
    struct nf_str name = name_of(x, s);
    if (!holds) {
        pthread_mutex_lock(&x->run->lock);
        if (!x->run->unmet.code) {
            nf_fail(&x->run->unmet, NF_EMISMATCH, "%.*s: %s", (int)NF_MIN(name.len, (size_t)100), name.data, why.data);
            if (s->label != PLAN_NO_LABEL) nf_error_location(&x->run->unmet, "%.*s", (int)NF_MIN(x->plan->label[s->label].len, (size_t)200), x->plan->label[s->label].data);
        }
        pthread_mutex_unlock(&x->run->lock);
    }
    nf_buf_done(&why);
}

int step_check__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct rt_check_rule r = rule_of(s);
    struct rt_array a = array_of(x, s->in[0]), e = array_of(x, s->in[1]);
    bool holds;
    (void)err;
    compare(x, s, &r, &a, &e, &holds);
    if (s->nout) *(uint8_t *)x->ptr[s->out[0]] = holds;
    return 0;
}

/* No attributes; inputs: the name, a value to keep. */
int step_probe__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    if (s->nattr || !is_text(step_in(p, s, 0))) BAD("its name is not understood");
    return 0;
}

int step_probe__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct rt_array a = array_of(x, s->in[1]);
    struct cpu_probe *p = nf_alloc(sizeof *p);
    *p = (struct cpu_probe){.id = text_of(x, s->in[0]), .iter = 1};
    int rc = rt_array_alloc(a.dtype, a.rank, a.dims, 0, &p->value, err);
    if (rc) {
        free(p);
        return rc;
    }
    if (a.bytes) memcpy(p->value.data, a.data, a.bytes);
    pthread_mutex_lock(&x->run->lock);
    for (const struct cpu_probe *q = x->run->probes; q; q = q->next) p->iter += nf_str_eq(q->id, p->id);
    p->next = x->run->probes;
    x->run->probes = p;
    pthread_mutex_unlock(&x->run->lock);
    return 0;
}

/* attributes: which probe of that name, from 1; inputs: the name, the actual value. Exact. */
int step_check_probe__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    if (!is_text(step_in(p, s, 0))) BAD("its name is not understood");
    return 0;
}

int step_check_probe__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    static const struct rt_check_rule exact = {.how = RT_CHECK_EXACT};
    struct rt_array a = array_of(x, s->in[1]);
    struct nf_str id = text_of(x, s->in[0]), name = name_of(x, s);
    const struct cpu_probe *found = NULL;
    bool holds;
    pthread_mutex_lock(&x->run->lock);
    for (const struct cpu_probe *p = x->run->probes; p; p = p->next)
        if (nf_str_eq(p->id, id) && p->iter == s->attr[0]) found = p; /* stays while the execution does */
    pthread_mutex_unlock(&x->run->lock);
    if (!found)
        return nf_fail(err, NF_EMISMATCH, "%.*s: there is no probe \"%.*s\" number %" PRId64, (int)NF_MIN(name.len, (size_t)100), name.data, (int)NF_MIN(id.len, (size_t)100), id.data, s->attr[0]);
    compare(x, s, &exact, &a, &found->value, &holds);
    return 0;
}

/* No attributes; inputs: the type as people write it, the value. */
int step_print__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    if (s->nattr || !is_text(step_in(p, s, 0))) BAD("its type is not understood");
    return 0;
}

int step_print__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct rt_array a = array_of(x, s->in[1]);
    struct nf_buf b = NF_BUF_INIT;
    (void)err;
    if (!x->run->print) return 0;
    nf_buf_add_str(&b, text_of(x, s->in[0]));
    nf_buf_add_c(&b, " {");
    rt_elements_print(&a, &b);
    nf_buf_add_c(&b, "}\n");
    pthread_mutex_lock(&x->run->lock);
    x->run->print(x->run->print_user, nf_buf_str(&b));
    pthread_mutex_unlock(&x->run->lock);
    nf_buf_done(&b);
    return 0;
}
