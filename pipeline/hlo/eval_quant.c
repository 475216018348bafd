/* Quantised values: (stored - zero point) * scale, per tensor or per slice of one axis.
 *
 * Quantising follows the specification: divide by the scale and add the zero point in the expressed type, clamp to the storage's
 * range, round to nearest even. Operations without a meaning of their own on storage run on the expressed values; those that combine
 * elements by a region (sums, sorts, scatters) hand the storage to it, and each operation in it rounds as it does elsewhere. */
#include "pipeline/hlo/eval_internal.h"

#include <math.h>
#include <stdlib.h>

static enum nf_dtype elem_dtype(enum hlo_elem e)
{
    struct hlo_type t = {.kind = HLO_TYPE_SCALAR, .elem = e};
    return hlo_eval_dtype(&t);
}

/* Channel of element i: which scale it has. */
static size_t channel(const struct hlo_quant *q, const struct rt_array *a, int64_t i)
{
    if (!q->per_axis || q->axis < 0 || q->axis >= a->rank)
        return 0;
    int64_t inner = 1;
    for (int d = (int)q->axis + 1; d < a->rank; d++)
        inner *= a->dims[d];
    size_t k = inner ? (size_t)(i / inner % NF_MAX(a->dims[q->axis], (int64_t)1)) : 0;
    return k < q->count ? k : 0;
}

int ev_dequantise(struct ev_run *run, const struct ev_value *v, const struct hlo_quant *q, enum nf_dtype to, struct ev_value **ret, struct nf_error *err)
{
    int rc = ev_array_new(run, to, v->a.rank, v->a.dims, ret, err);
    if (rc)
        return rc;
    int64_t n = ev_count(v);
    size_t w = nf_dtype_bytes(to);
    for (int64_t i = 0; i < n; i++) {
        size_t k = channel(q, &v->a, i);
        double d = (double)(ev_int_at(v->a.dtype, v->a.data, i) - q->zero_points[k]);
        if (to == NF_DT_F64)
            d *= q->scales[k];
        else
            d = (double)((float)d * (float)q->scales[k]);
        ev_store_double(1, to, &d, (char *)(*ret)->a.data + (size_t)i * w);
    }
    return NF_OK;
}

int ev_quantise(struct ev_run *run, const struct ev_value *v, const struct hlo_quant *q, struct ev_value **ret, struct nf_error *err)
{
    enum nf_dtype storage = elem_dtype(q->storage);
    int rc = ev_array_new(run, storage, v->a.rank, v->a.dims, ret, err);
    if (rc)
        return rc;
    int64_t n = ev_count(v);
    size_t w = nf_dtype_bytes(v->a.dtype), ws = nf_dtype_bytes(storage);
    for (int64_t i = 0; i < n; i++) {
        size_t k = channel(q, &v->a, i);
        double d;
        ev_load_double(1, v->a.dtype, (const char *)v->a.data + (size_t)i * w, &d);
        if (v->a.dtype == NF_DT_F64)
            d = d / q->scales[k] + (double)q->zero_points[k];
        else
            d = (double)((float)d / (float)q->scales[k] + (float)q->zero_points[k]);
        d = isnan(d) ? 0 : fmin(fmax(d, (double)q->storage_min), (double)q->storage_max);
        d = nearbyint(d); /* the default rounding: nearest, ties to even */
        ev_store_double(1, storage, &d, (char *)(*ret)->a.data + (size_t)i * ws);
    }
    return NF_OK;
}

int hlo_e_uniform_quantize(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_type *from = c->op->operands[0].value->type, *to = c->op->results[0].type;
    if (!hlo_type_is_quant(from))
        return ev_quantise(c->f->proc->run, c->in[0], to->quant, &c->out[0], err);
    struct ev_value *plain = NULL;
    int rc = ev_dequantise(c->f->proc->run, c->in[0], from->quant, elem_dtype(from->quant->expressed), &plain, err);
    rc = rc ? rc : ev_quantise(c->f->proc->run, plain, to->quant, &c->out[0], err);
    ev_unref(plain);
    return rc;
}

int hlo_e_uniform_dequantize(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_quant *q = c->op->operands[0].value->type->quant;
    return ev_dequantise(c->f->proc->run, c->in[0], q, elem_dtype(q->expressed), &c->out[0], err);
}

int ev_dequantised(struct ev_ctx *c, ev_fn fn, struct nf_error *err)
{
    struct ev_run *run = c->f->proc->run;
    if (c->inst->n_regions)
        return ev_fail(c, err, NF_EUNSUPPORTED, "is not supported on quantised values");
    struct ev_value **in = nf_alloc_array(c->n_in + 1, sizeof(*in));
    struct ev_ctx plain = *c;
    int rc = NF_OK;
    for (uint32_t i = 0; i < c->n_in && !rc; i++) {
        const struct hlo_type *t = c->op->operands[i].value->type;
        if (hlo_type_is_quant(t))
            rc = ev_dequantise(run, c->in[i], t->quant, elem_dtype(t->quant->expressed), &in[i], err);
        else
            in[i] = ev_ref(c->in[i]);
    }
    plain.in = in;
    plain.dies = NULL;
    plain.expressed = true;
    rc = rc ? rc : fn(&plain, err);
    for (uint32_t i = 0; i < c->n_out && !rc; i++) {
        const struct hlo_type *t = c->op->results[i].type;
        if (!hlo_type_is_quant(t))
            continue;
        struct ev_value *v = c->out[i];
        c->out[i] = NULL;
        rc = ev_quantise(run, v, t->quant, &c->out[i], err);
        ev_unref(v);
    }
    for (uint32_t i = 0; i < c->n_in; i++)
        ev_unref(in[i]);
    free(in);
    return rc;
}

bool ev_same_quant(const struct hlo_quant *a, const struct hlo_quant *b)
{
    if (a->storage != b->storage || a->expressed != b->expressed || a->count != b->count || a->storage_min != b->storage_min || a->storage_max != b->storage_max)
        return false;
    for (size_t k = 0; k < a->count; k++)
        if (a->scales[k] != b->scales[k] || a->zero_points[k] != b->zero_points[k])
            return false;
    return true;
}

const struct hlo_type *ev_body_type(const struct hlo_op *op, uint32_t i)
{
    const struct hlo_block *b = op->num_regions ? op->regions[op->id == HLO_OP_SELECT_AND_SCATTER && i > 0]->first : NULL;
    uint32_t k = op->num_operands / 2, arg = UINT32_MAX;
    switch (op->id) {
    case HLO_OP_REDUCE: case HLO_OP_REDUCE_WINDOW: arg = i < k ? k + i : i - k; break;
    case HLO_OP_MAP: arg = i; break;
    case HLO_OP_SORT: arg = 2 * i; break;
    case HLO_OP_SCATTER: arg = i < k ? i : i == k ? UINT32_MAX : i - 1; break;
    case HLO_OP_SELECT_AND_SCATTER: arg = 0; break;
    case HLO_OP_COLLECTIVE_REDUCE:
        arg = hlo_op_bool(op, HLO_A_has_dynamic_root, false) && i + 1 == op->num_operands ? UINT32_MAX : 0;
        break;
    case HLO_OP_ALL_REDUCE: case HLO_OP_REDUCE_SCATTER: arg = 0; break;
    default: break;
    }
    const struct hlo_type *t = b && arg < b->num_args ? b->args[arg]->type : NULL;
    return t && t->kind == HLO_TYPE_TENSOR && op->operands[i].value->type->kind == HLO_TYPE_TENSOR ? t : NULL;
}

int ev_promoted(struct ev_ctx *c, ev_fn fn, struct nf_error *err)
{
    struct ev_run *run = c->f->proc->run;
    struct ev_value **in = nf_alloc_array(c->n_in + 1, sizeof(*in));
    struct ev_ctx promoted = *c;
    int rc = NF_OK;
    for (uint32_t i = 0; i < c->n_in && !rc; i++) {
        const struct hlo_type *t = c->op->operands[i].value->type, *to = ev_body_type(c->op, i);
        if (to && hlo_type_is_quant(to)) {
            struct ev_value *plain = NULL;
            rc = ev_dequantise(run, c->in[i], t->quant, elem_dtype(t->quant->expressed), &plain, err);
            rc = rc ? rc : ev_quantise(run, plain, to->quant, &in[i], err);
            ev_unref(plain);
        } else if (to && to->elem != t->elem) {
            rc = ev_array_new(run, hlo_eval_dtype(to), c->in[i]->a.rank, c->in[i]->a.dims, &in[i], err);
            if (!rc)
                ev_convert(ev_count(c->in[i]), in[i]->a.dtype, in[i]->a.data, c->in[i]->a.dtype, c->in[i]->a.data);
        } else {
            in[i] = ev_ref(c->in[i]);
        }
    }
    promoted.in = in;
    promoted.dies = NULL;
    rc = rc ? rc : fn(&promoted, err);
    for (uint32_t i = 0; i < c->n_in; i++)
        ev_unref(in[i]);
    free(in);
    return rc;
}
