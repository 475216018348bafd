/* Checks: the operations of the check dialect, the custom calls of the same names, probes and prints. */
#include "pipeline/hlo/check_rule.h"
#include "pipeline/hlo/eval_internal.h"

#include <math.h>
#include <stdlib.h>

struct ev_probe {
    struct ev_probe *next;
    struct nf_str id;
    uint32_t iter;
    struct ev_value *value;
};

void ev_probes_free(struct ev_run *run)
{
    while (run->probes) {
        struct ev_probe *p = run->probes;
        run->probes = p->next;
        ev_unref(p->value);
        free(p);
    }
}

static int compare(struct ev_ctx *c, const struct ev_value *actual, const struct ev_value *expected, const struct rt_check_rule *rule, bool *ret_passed,
                   struct nf_error *err)
{
    struct nf_buf why = NF_BUF_INIT;
    if (actual->kind != EV_ARRAY || expected->kind != EV_ARRAY)
        return ev_fail(c, err, NF_EUNSUPPORTED, "compares what is no array");
    if (!rt_check_fits(rule, expected->a.dtype))
        return ev_fail(c, err, NF_EUNSUPPORTED, "compares %s with a tolerance", nf_dtype_name(nf_dtype_part(expected->a.dtype)));
    bool passed = rt_check(rule, &actual->a, &expected->a, &why);
    if (ret_passed)
        *ret_passed = passed;
    int rc = ev_check_result(c, passed, why.data ? why.data : "", err);
    nf_buf_done(&why);
    return rc;
}

static int find_probe(struct ev_ctx *c, struct ev_value **ret, struct nf_error *err)
{
    struct ev_run *run = c->f->proc->run;
    struct nf_str id = hlo_op_string(c->op, HLO_A_probe_id);
    const struct hlo_attr *it = hlo_op_attr(c->op, HLO_A_iter);
    uint32_t iter = it && it->kind == HLO_ATTR_INT ? (uint32_t)it->i : 1;
    *ret = NULL;
    pthread_mutex_lock(&run->lock);
    for (struct ev_probe *p = run->probes; p; p = p->next)
        if (nf_str_eq(p->id, id) && p->iter == iter)
            *ret = ev_ref(p->value);
    pthread_mutex_unlock(&run->lock);
    return *ret ? NF_OK : ev_fail(c, err, NF_EMISMATCH, "there is no probe \"%.*s\" number %u", NF_STR_ARG(id), iter);
}

int hlo_e_check(struct ev_ctx *c, struct nf_error *err)
{
    struct rt_check_rule rule;
    struct ev_value *expected = NULL;
    int rc = NF_OK;
    (void)hlo_check_rule(c->op, &rule); /* it is a check */
    if (c->op->id == HLO_OP_CHECK_EXPECT_EQ_CONST || c->op->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ_CONST) {
        const struct hlo_attr *v = hlo_op_attr(c->op, HLO_A_value);
        rc = v ? ev_constant_new(c->f->proc->run, v, &expected, err) : ev_fail(c, err, NF_EGRAPH, "has no value");
    } else if (c->op->id == HLO_OP_CHECK_EXPECT_SERIALIZED_EQ) {
        rc = find_probe(c, &expected, err);
    } else {
        expected = ev_ref(c->in[1]);
    }
    rc = rc ? rc : compare(c, c->in[0], expected, &rule, NULL, err);
    ev_unref(expected);
    return rc;
}

int hlo_e_probe(struct ev_ctx *c, struct nf_error *err)
{
    (void)err;
    struct ev_run *run = c->f->proc->run;
    struct nf_str id = hlo_op_string(c->op, HLO_A_probe_id);
    struct ev_probe *p = nf_alloc(sizeof(*p));
    p->id = id;
    p->iter = 1;
    p->value = ev_ref(c->in[0]);
    pthread_mutex_lock(&run->lock);
    struct ev_probe *before = run->probes; /* the newest comes first */
    while (before && !nf_str_eq(before->id, id))
        before = before->next;
    if (before)
        p->iter = before->iter + 1;
    p->next = run->probes;
    run->probes = p;
    pthread_mutex_unlock(&run->lock);
    c->out[0] = ev_ref(c->in[0]);
    return NF_OK;
}

int hlo_e_print(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_eval *e = c->f->proc->run->eval;
    const struct hlo_eval_hooks *h = e->options.hooks;
    struct nf_buf b = NF_BUF_INIT;
    (void)err;
    if (!h || !h->print)
        return NF_OK;
    for (uint32_t i = 0; i < c->n_in; i++) {
        hlo_type_print(c->op->operands[i].value->type, &b);
        nf_buf_add_c(&b, " {");
        if (c->in[i]->kind == EV_ARRAY)
            rt_elements_print(&c->in[i]->a, &b);
        nf_buf_add_c(&b, "}\n");
    }
    pthread_mutex_lock(&e->lock);
    h->print(h->user, nf_buf_str(&b));
    pthread_mutex_unlock(&e->lock);
    nf_buf_done(&b);
    return NF_OK;
}

/* ---- custom calls ---- */

static int target_expect(struct ev_ctx *c, struct nf_error *err)
{
    struct rt_check_rule rule;
    if (!hlo_check_rule(c->op, &rule) || c->n_in != 2)
        return ev_fail(c, err, NF_EGRAPH, "a check takes two operands, not %u", c->n_in);
    return compare(c, c->in[0], c->in[1], &rule, NULL, err);
}

/* check.eq(expected, actual) gives whether they agree */
static int target_eq(struct ev_ctx *c, struct nf_error *err)
{
    struct rt_check_rule rule;
    if (!hlo_check_rule(c->op, &rule) || c->n_in != 2 || c->n_out != 1)
        return ev_fail(c, err, NF_EGRAPH, "check.eq takes two operands and gives one");
    bool passed = false;
    int rc = compare(c, c->in[1], c->in[0], &rule, &passed, err);
    rc = rc ? rc : ev_out_new(c, 0, err);
    if (!rc && c->out[0]->a.bytes == 1)
        *(uint8_t *)c->out[0]->a.data = passed;
    return rc;
}

/* Marks of a partitioner, and calls that only pass values on. */
static int target_pass(struct ev_ctx *c, struct nf_error *err)
{
    if (c->n_in != c->n_out)
        return ev_fail(c, err, NF_EUNSUPPORTED, "custom call @%.*s gives another number of values than it takes",
            NF_STR_ARG(hlo_op_string(c->op, HLO_A_call_target_name)));
    return hlo_e_pass(c, err);
}

/* An attribute of mhlo.backend_config, as the character that LAPACK takes. */
static char lapack_char(const struct ev_ctx *c, const char *name)
{
    const struct hlo_attr *cfg = hlo_op_discardable(c->op, NF_STR("mhlo.backend_config"));
    if (!cfg)
        cfg = hlo_op_attr(c->op, HLO_A_backend_config);
    const struct hlo_attr *v = cfg && cfg->kind == HLO_ATTR_DICT ? hlo_named_find(cfg->dict.v, cfg->dict.n, nf_str_c(name)) : NULL;
    return v && v->kind == HLO_ATTR_INT ? (char)v->i : 0;
}

/* potrf: (a) -> (factor with the other triangle as it was, info: 0 or the order of the first minor that is not positive) */
static int target_potrf(struct ev_ctx *c, struct nf_error *err)
{
    char uplo = lapack_char(c, "uplo");
    if (c->n_in != 1 || c->n_out != 2 || c->in[0]->a.rank < 2 || c->in[0]->a.dims[c->in[0]->a.rank - 1] != c->in[0]->a.dims[c->in[0]->a.rank - 2] ||
        (uplo != 'L' && uplo != 'U'))
        return ev_fail(c, err, NF_EUNSUPPORTED, "this form of potrf cannot be evaluated");
    const struct rt_array *a = &c->in[0]->a;
    int64_t n = a->dims[a->rank - 1], total = rt_array_count(a);
    int rc = ev_out_shaped(c, 0, a->rank, a->dims, err);
    rc = rc ? rc : ev_out_new(c, 1, err);
    rc = rc ? rc : ev_cholesky(a, uplo == 'L', &c->out[0]->a, err);
    if (rc || !n)
        return rc;
    size_t w = nf_dtype_bytes(a->dtype);
    for (int64_t b = 0; b < total / (n * n); b++) {
        double first = nf_elem_to_double(nf_dtype_part(a->dtype), (char *)c->out[0]->a.data + (size_t)(b * n * n) * w);
        int32_t info = isnan(first) ? 1 : 0;
        if (b < ev_count(c->out[1]))
            ev_convert(1, c->out[1]->a.dtype, (char *)c->out[1]->a.data + (size_t)b * nf_dtype_bytes(c->out[1]->a.dtype), NF_DT_S32, &info);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                if (uplo == 'L' ? j > i : j < i)
                    memcpy((char *)c->out[0]->a.data + (size_t)((b * n + i) * n + j) * w, (const char *)a->data + (size_t)((b * n + i) * n + j) * w, w);
    }
    return NF_OK;
}

static int target_trsm(struct ev_ctx *c, struct nf_error *err)
{
    char side = lapack_char(c, "side"), uplo = lapack_char(c, "uplo"), trans = lapack_char(c, "trans_x"), diag = lapack_char(c, "diag");
    if (c->n_in != 2 || c->n_out != 1 || c->in[0]->a.rank < 2 || c->in[1]->a.rank != c->in[0]->a.rank || !strchr("LR", side) || !strchr("LU", uplo) ||
        !strchr("NTC", trans) || !strchr("NU", diag) || !side || !uplo || !trans || !diag)
        return ev_fail(c, err, NF_EUNSUPPORTED, "this form of trsm cannot be evaluated");
    const struct rt_array *a = &c->in[0]->a, *b = &c->in[1]->a;
    if (!ev_trsm_fits(a, b, side == 'L'))
        return ev_fail(c, err, NF_EGRAPH, "the matrices of trsm do not fit together");
    struct ev_trsm t = {side == 'L', uplo == 'L', diag == 'U', trans == 'N' ? 0 : trans == 'T' ? 1 : 2};
    int rc = ev_out_shaped(c, 0, b->rank, b->dims, err);
    return rc ? rc : ev_triangular_solve(a, b, &t, &c->out[0]->a, err);
}

int hlo_e_custom_call(struct ev_ctx *c, struct nf_error *err)
{
    static const struct {
        const char *name;
        ev_fn fn;
    } targets[] = {
#define TARGET(name, function) {name, function},
#include "pipeline/hlo/eval_targets.def"
#undef TARGET
    };
    struct nf_str name = hlo_op_string(c->op, HLO_A_call_target_name);
    for (size_t i = 0; i < NF_ARRAY_LEN(targets); i++)
        if (nf_str_eq(name, nf_str_c(targets[i].name)))
            return targets[i].fn(c, err);
    return ev_fail(c, err, NF_EUNSUPPORTED, "custom call @%.*s cannot be evaluated", NF_STR_ARG(name));
}
