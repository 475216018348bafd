/* steps_check.c: what a program says of itself: checks, probes, prints. A check that does not hold lets the execution go on and fails it at its end,
 * as in the evaluator. */
#include "runtime/check.h"
#include "runtime/cpu/steps.h"

#include <inttypes.h>
#include <stdlib.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* The probes of one name, and of them those that some check asks for. */
struct cpu_probe {
    struct cpu_probe *next;
    struct nf_str id;            /* in the constants */
    int64_t seen;                /* so far */
    size_t n, met;               /* met: how many of the kept ones have been seen */
    struct kept {
        int64_t iter;            /* ascending */
        struct rt_array value;   /* once it has been seen */
    } *kept;
};

void cpu_run_done(struct cpu_run *run)
{
    while (run->probes) {
        struct cpu_probe *p = run->probes;
        run->probes = p->next;
        for (size_t i = 0; i < p->met; i++) rt_array_done(&p->kept[i].value);
        free(p->kept);
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

/* Whether it holds. */
static bool compare(struct cpu_exec *x, const struct plan_step *s, const struct rt_check_rule *r, const struct rt_array *actual, const struct rt_array *expected)
{
    struct nf_buf why = NF_BUF_INIT;
    bool holds = rt_check(r, actual, expected, &why);
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
    return holds;
}

int step_check__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct rt_check_rule r = rule_of(s);
    struct rt_array a = array_of(x, s->in[0]), e = array_of(x, s->in[1]);
    (void)err;
    bool holds = compare(x, s, &r, &a, &e);
    if (s->nout) *(uint8_t *)x->ptr[s->out[0]] = holds;
    return 0;
}

/* No attributes; inputs: the name, a value to keep. */
int step_probe__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    if (s->nattr || !is_text(step_in(p, s, 0))) BAD("its name is not understood");
    return 0;
}

/* With the lock. */
static struct cpu_probe *probe_find(const struct cpu_run *run, struct nf_str id)
{
    struct cpu_probe *p = run->probes;
    while (p && !nf_str_eq(p->id, id)) p = p->next;
    return p;
}

static int by_iter(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return x->iter < y->iter ? -1 : x->iter > y->iter;
}

/* With the lock. Which of them checks ask for, anywhere in the plan: their names are constants, which lie as the probe's own does. */
static struct cpu_probe *probe_new(struct cpu_exec *x, const struct plan_step *s)
{
    const struct plan *plan = x->plan;
    const char *constants = (const char *)x->ptr[s->in[0]] - step_in(plan, s, 0)->offset;
    struct cpu_probe *p = nf_alloc(sizeof *p);
    size_t cap = 0, n = 0;
    *p = (struct cpu_probe){.next = x->run->probes, .id = text_of(x, s->in[0])};
    x->run->probes = p;
    for (uint32_t i = 0; i < plan->nblocks; i++) {
        for (uint32_t k = 0; k < plan->block[i].nstep; k++) {
            const struct plan_step *c = &plan->block[i].step[k];
            if (c->op != PLAN_PROBED || c->attr[0] < 1) continue;
            const struct plan_value *v = step_in(plan, c, 0);
            if (!nf_str_eq(p->id, nf_str_n(constants + v->offset, (size_t)v->count - 1))) continue;
            if (p->n == cap) p->kept = nf_realloc(p->kept, (cap = cap ? 2 * cap : 8) * sizeof *p->kept);
            p->kept[p->n++] = (struct kept){.iter = c->attr[0]};
        }
    }
    if (p->n) qsort(p->kept, p->n, sizeof *p->kept, by_iter);
    for (size_t i = 0; i < p->n; i++)
        if (!i || p->kept[i].iter != p->kept[n - 1].iter) p->kept[n++] = p->kept[i];
    p->n = n;
    return p;
}

int step_probe__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct rt_array a = array_of(x, s->in[1]);
    int rc = 0;
    pthread_mutex_lock(&x->run->lock);
    struct cpu_probe *p = probe_find(x->run, text_of(x, s->in[0]));
    if (!p) p = probe_new(x, s);
    p->seen++;
    if (p->met < p->n && p->kept[p->met].iter == p->seen) {
        struct rt_array *v = &p->kept[p->met].value;
        rc = rt_array_alloc(a.dtype, a.rank, a.dims, 0, v, err);
        if (!rc && a.bytes) memcpy(v->data, a.data, a.bytes);
        p->met += !rc;
    }
    pthread_mutex_unlock(&x->run->lock);
    return rc;
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
    const struct rt_array *found = NULL;
    pthread_mutex_lock(&x->run->lock);
    const struct cpu_probe *p = probe_find(x->run, id);
    for (size_t i = 0; p && i < p->met; i++)
        if (p->kept[i].iter == s->attr[0]) found = &p->kept[i].value; /* stays while the execution does */
    pthread_mutex_unlock(&x->run->lock);
    if (!found)
        return nf_fail(err, NF_EMISMATCH, "%.*s: there is no probe \"%.*s\" number %" PRId64, (int)NF_MIN(name.len, (size_t)100), name.data, (int)NF_MIN(id.len, (size_t)100), id.data, s->attr[0]);
    compare(x, s, &exact, &a, found);
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
