/* Values of a run: counted, with the memory they hold counted against the run's limit. */
#include "pipeline/hlo/eval_internal.h"

#include <stdarg.h>
#include <stdlib.h>

struct ev_value *ev_ref(struct ev_value *v)
{
    if (v)
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void ev_unref(struct ev_value *v)
{
    if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < v->n; i++)
        ev_unref(v->parts[i]); /* as deep as the type: the reader bounds it */
    free(v->parts);
    if (!v->borrowed)
        free(v->a.data);
    if (v->run)
        atomic_fetch_sub(&v->run->live_bytes, v->a.bytes);
    free(v);
}

int ev_array_new(struct ev_run *run, enum nf_dtype dt, int rank, const int64_t *dims, struct ev_value **ret, struct nf_error *err)
{
    int64_t n = rt_shape_count(dt, rank, dims);
    if (n < 0)
        return nf_fail(err, NF_ELIMIT, "an array has a shape that cannot be held");
    size_t bytes = (size_t)n * nf_dtype_bytes(dt), limit = run ? run->eval->options.memory_limit_bytes : 0;
    if (run) {
        size_t live = atomic_fetch_add(&run->live_bytes, bytes) + bytes;
        if (limit && live > limit) {
            atomic_fetch_sub(&run->live_bytes, bytes);
            return nf_fail(err, NF_ELIMIT, "evaluating needs more than the limit of %zu bytes", limit);
        }
        size_t peak = atomic_load(&run->peak_bytes);
        while (live > peak && !atomic_compare_exchange_weak(&run->peak_bytes, &peak, live))
            ;
    }
    struct ev_value *v = calloc(1, sizeof(*v));
    void *data = v ? calloc(bytes ? bytes : 1, 1) : NULL;
    if (!data) {
        free(v);
        if (run)
            atomic_fetch_sub(&run->live_bytes, bytes);
        return nf_fail(err, NF_ENOMEM, "no memory for an array of %zu bytes", bytes);
    }
    atomic_init(&v->refs, 1);
    v->kind = EV_ARRAY;
    v->run = run;
    v->a = (struct rt_array){.dtype = dt, .rank = rank, .data = data, .bytes = bytes};
    for (int i = 0; i < rank; i++)
        v->a.dims[i] = dims[i];
    *ret = v;
    return NF_OK;
}

struct ev_value *ev_borrow(enum nf_dtype dt, int rank, const int64_t *dims, const void *data, size_t bytes)
{
    struct ev_value *v = nf_alloc(sizeof(*v));
    atomic_init(&v->refs, 1);
    v->kind = EV_ARRAY;
    v->borrowed = true;
    v->a = (struct rt_array){.dtype = dt, .rank = rank, .data = (void *)(uintptr_t)data, .bytes = bytes};
    for (int i = 0; i < rank; i++)
        v->a.dims[i] = dims[i];
    return v;
}

struct ev_value *ev_token_new(void)
{
    struct ev_value *v = nf_alloc(sizeof(*v));
    atomic_init(&v->refs, 1);
    v->kind = EV_TOKEN;
    return v;
}

struct ev_value *ev_tuple_new(uint32_t n, struct ev_value *const *parts)
{
    struct ev_value *v = nf_alloc(sizeof(*v));
    atomic_init(&v->refs, 1);
    v->kind = EV_TUPLE;
    v->n = n;
    v->parts = nf_alloc_array(n ? n : 1, sizeof(struct ev_value *));
    for (uint32_t i = 0; i < n; i++)
        v->parts[i] = ev_ref(parts[i]);
    return v;
}

enum nf_dtype hlo_eval_dtype(const struct hlo_type *t)
{
    if (t->kind != HLO_TYPE_TENSOR && t->kind != HLO_TYPE_UNRANKED && t->kind != HLO_TYPE_MEMREF && t->kind != HLO_TYPE_SCALAR)
        return NF_DT_NONE;
    enum hlo_elem e = hlo_type_storage(t);
    return e == HLO_ELEM_INDEX ? NF_DT_S64 : hlo_elem_dtype(e);
}

int ev_constant_new(struct ev_run *run, const struct hlo_attr *dense, struct ev_value **ret, struct nf_error *err)
{
    const struct hlo_type *t = dense->type;
    if (dense->kind == HLO_ATTR_RESOURCE)
        return nf_fail(err, NF_EUNSUPPORTED, "the data of a constant was left out of the file (dense_resource<%.*s>)", NF_STR_ARG(dense->str));
    if (dense->kind != HLO_ATTR_DENSE || !t || !t->is_static || t->rank > RT_ARRAY_RANK_MAX)
        return nf_fail(err, NF_EUNSUPPORTED, "a constant of this kind cannot be evaluated");
    enum nf_dtype dt = hlo_eval_dtype(t);
    size_t w = nf_dtype_bytes(dt);
    int64_t n = rt_shape_count(dt, (int)t->rank, t->dims);
    if (!w || n < 0 || (!dense->dense.splat && (size_t)n * w != dense->dense.raw.len) || (dense->dense.splat && dense->dense.raw.len != w))
        return nf_fail(err, NF_EUNSUPPORTED, "a constant's data does not fit its type");
    if (!dense->dense.splat && (uintptr_t)dense->dense.raw.data % w == 0) {
        *ret = ev_borrow(dt, (int)t->rank, t->dims, dense->dense.raw.data, (size_t)n * w);
        return NF_OK;
    }
    int rc = ev_array_new(run, dt, (int)t->rank, t->dims, ret, err);
    if (rc)
        return rc;
    if (dense->dense.splat)
        ev_fill(n, w, (*ret)->a.data, dense->dense.raw.data);
    else if (n)
        memcpy((*ret)->a.data, dense->dense.raw.data, (size_t)n * w);
    return NF_OK;
}

int hlo_eval_constant(const struct hlo_attr *dense, struct rt_array *ret_array, struct nf_error *err)
{
    struct ev_value *v;
    struct rt_array a;
    int rc = ev_constant_new(NULL, dense, &v, err);
    if (rc)
        return rc;
    rc = rt_array_alloc(v->a.dtype, v->a.rank, v->a.dims, 0, &a, err);
    if (!rc) {
        if (v->a.bytes)
            memcpy(a.data, v->a.data, v->a.bytes);
        *ret_array = a;
    }
    ev_unref(v);
    return rc;
}

enum nf_dtype ev_out_dtype(const struct ev_ctx *c, uint32_t i)
{
    const struct hlo_type *t = c->op->results[i].type;
    if (c->expressed && hlo_type_is_quant(t)) {
        struct hlo_type plain = *t;
        plain.elem = t->quant->expressed;
        return hlo_eval_dtype(&plain);
    }
    return hlo_eval_dtype(t);
}

int ev_out_shaped(struct ev_ctx *c, uint32_t i, int rank, const int64_t *dims, struct nf_error *err)
{
    return ev_array_new(c->f->proc->run, ev_out_dtype(c, i), rank, dims, &c->out[i], err);
}

int ev_out_new(struct ev_ctx *c, uint32_t i, struct nf_error *err)
{
    const struct hlo_type *t = c->op->results[i].type;
    if (t->kind != HLO_TYPE_TENSOR || !t->is_static || t->rank > RT_ARRAY_RANK_MAX)
        return ev_fail(c, err, NF_EUNSUPPORTED, "result %u has no static shape of at most %d dimensions", i, RT_ARRAY_RANK_MAX);
    return ev_out_shaped(c, i, (int)t->rank, t->dims, err);
}

bool ev_steal(const struct ev_ctx *c, uint32_t k)
{
    return c->dies && c->dies[k] && !c->in[k]->borrowed && c->in[k]->kind == EV_ARRAY && c->in[k]->run &&
           atomic_load_explicit(&c->in[k]->refs, memory_order_acquire) == 1;
}

bool ev_take(struct ev_ctx *c, uint32_t i, uint32_t k)
{
    if (!ev_steal(c, k))
        return false;
    c->out[i] = ev_ref(c->in[k]);
    return true;
}

int ev_out_like(struct ev_ctx *c, uint32_t i, uint32_t k, struct nf_error *err)
{
    enum nf_dtype dt = ev_out_dtype(c, i);
    if (nf_dtype_bytes(dt) == nf_dtype_bytes(c->in[k]->a.dtype) && !nf_dtype_is_complex(dt) == !nf_dtype_is_complex(c->in[k]->a.dtype) && ev_steal(c, k)) {
        /* The frame still holds it under the operand's number; the two never look at each other again. */
        c->out[i] = ev_ref(c->in[k]);
        c->out[i]->a.dtype = dt;
        return NF_OK;
    }
    return ev_out_shaped(c, i, c->in[k]->a.rank, c->in[k]->a.dims, err);
}

int ev_fail(const struct ev_ctx *c, struct nf_error *err, int code, const char *fmt, ...)
{
    char text[512], where[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    struct nf_str name = hlo_op_name(c->op);
    nf_fail(err, code, "%.*s: %s", NF_STR_ARG(name), text);
    nf_error_location(err, "%s", hlo_op_where(c->f->proc->run->eval->module, c->op, where, sizeof(where)));
    return code;
}
