/* Control flow, calls, and what only hands values on. */
#include "pipeline/hlo/eval_internal.h"

#include <stdlib.h>

static void unref_all(struct ev_value **v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ev_unref(v[i]);
}

int hlo_e_pass(struct ev_ctx *c, struct nf_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < c->n_out; i++)
        c->out[i] = ev_ref(c->in[i]);
    return NF_OK;
}

int hlo_e_call(struct ev_ctx *c, struct nf_error *err)
{
    const struct ev_func *f = c->inst->callee;
    if (!f)
        return ev_fail(c, err, NF_EUNSUPPORTED, "the function that it calls has no body");
    if (f->body->n_args != c->n_in || f->body->n_results != c->n_out)
        return ev_fail(c, err, NF_EGRAPH, "the function that it calls has another signature");
    struct ev_value **args = nf_alloc_array(c->n_in + 1, sizeof(*args));
    for (uint32_t i = 0; i < c->n_in; i++)
        args[i] = ev_move_in(c, i);
    int rc = ev_call(c->f->proc, f, args, c->out, err);
    free(args);
    return rc;
}

int hlo_e_composite(struct ev_ctx *c, struct nf_error *err) { return hlo_e_call(c, err); }

static int predicate(struct ev_ctx *c, const struct ev_value *v, bool *ret, struct nf_error *err)
{
    if (v->kind != EV_ARRAY || v->a.bytes != 1)
        return ev_fail(c, err, NF_EGRAPH, "the condition is not one boolean");
    *ret = *(const uint8_t *)v->a.data != 0;
    return NF_OK;
}

int hlo_e_while(struct ev_ctx *c, struct nf_error *err)
{
    uint32_t n = c->n_in;
    const struct ev_block *cond = c->inst->regions[0], *body = c->inst->regions[1];
    if (!cond || !body || cond->n_args != n || body->n_args != n || cond->n_results != 1 || body->n_results != n)
        return ev_fail(c, err, NF_EGRAPH, "regions do not fit the operands");
    struct ev_value **cur = nf_alloc_array(n + 1, sizeof(*cur)), **args = nf_alloc_array(n + 1, sizeof(*args));
    int rc = NF_OK;
    for (uint32_t i = 0; i < n; i++)
        cur[i] = ev_move_in(c, i);
    for (;;) {
        struct ev_value *p = NULL;
        bool go = false;
        for (uint32_t i = 0; i < n; i++)
            args[i] = ev_ref(cur[i]);
        rc = ev_run_block(c->f, cond, args, &p, err);
        if (!rc)
            rc = predicate(c, p, &go, err);
        ev_unref(p);
        if (rc || !go)
            break;
        /* the condition's frame must not hold the values back from being changed in place */
        for (uint32_t i = 0; i < n; i++) {
            ev_unref(c->f->slots[cond->args[i]]);
            c->f->slots[cond->args[i]] = NULL;
        }
        memcpy(args, cur, n * sizeof(*args));
        memset(cur, 0, n * sizeof(*cur));
        rc = ev_run_block(c->f, body, args, cur, err);
        if (rc) {
            memset(cur, 0, n * sizeof(*cur));
            break;
        }
        if (ev_out_of_time(c->f->proc->run)) {
            rc = ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
            break;
        }
    }
    if (rc)
        unref_all(cur, n);
    else
        memcpy(c->out, cur, n * sizeof(*cur));
    free(cur);
    free(args);
    return rc;
}

static int branch(struct ev_ctx *c, const struct ev_block *b, struct nf_error *err)
{
    if (!b || b->n_args || b->n_results != c->n_out)
        return ev_fail(c, err, NF_EGRAPH, "the branch does not fit the results");
    return ev_run_block(c->f, b, NULL, c->out, err);
}

int hlo_e_if(struct ev_ctx *c, struct nf_error *err)
{
    bool yes = false;
    int rc = predicate(c, c->in[0], &yes, err);
    return rc ? rc : branch(c, c->inst->regions[yes ? 0 : 1], err);
}

int hlo_e_case(struct ev_ctx *c, struct nf_error *err)
{
    int64_t i = ev_int_at(c->in[0]->a.dtype, c->in[0]->a.data, 0), n = c->inst->n_regions;
    if (n == 0)
        return ev_fail(c, err, NF_EGRAPH, "has no branches");
    return branch(c, c->inst->regions[i < 0 || i >= n ? n - 1 : i], err);
}

int hlo_e_tuple(struct ev_ctx *c, struct nf_error *err)
{
    (void)err;
    c->out[0] = ev_tuple_new(c->n_in, c->in);
    return NF_OK;
}

int hlo_e_get_tuple_element(struct ev_ctx *c, struct nf_error *err)
{
    int64_t i = hlo_op_i64(c->op, HLO_A_index, 0);
    if (c->in[0]->kind != EV_TUPLE || i < 0 || i >= c->in[0]->n)
        return ev_fail(c, err, NF_EGRAPH, "index %lld is outside the tuple", (long long)i);
    c->out[0] = ev_ref(c->in[0]->parts[i]);
    return NF_OK;
}

int hlo_e_token(struct ev_ctx *c, struct nf_error *err)
{
    (void)err;
    c->out[0] = ev_token_new();
    return NF_OK;
}

/* An asynchronous operation may run at any time between its start and its end: here at its start. */
int hlo_e_async_start(struct ev_ctx *c, struct nf_error *err)
{
    const struct ev_block *b = c->inst->regions[0];
    if (!b || b->n_args != c->n_in)
        return ev_fail(c, err, NF_EGRAPH, "the region does not fit the operands");
    struct ev_value **args = nf_alloc_array(c->n_in + 1, sizeof(*args)), **res = nf_alloc_array(b->n_results + 1, sizeof(*res));
    for (uint32_t i = 0; i < c->n_in; i++)
        args[i] = ev_ref(c->in[i]);
    int rc = ev_run_block(c->f, b, args, res, err);
    if (!rc) {
        c->out[0] = ev_tuple_new(b->n_results, res);
        unref_all(res, b->n_results);
    }
    free(args);
    free(res);
    return rc;
}

int hlo_e_async_done(struct ev_ctx *c, struct nf_error *err)
{
    if (c->in[0]->kind != EV_TUPLE || c->in[0]->n != c->n_out)
        return ev_fail(c, err, NF_EGRAPH, "the future does not hold as many values as there are results");
    for (uint32_t i = 0; i < c->n_out; i++)
        c->out[i] = ev_ref(c->in[0]->parts[i]);
    return NF_OK;
}
