/* random_bound.c: see random_bound.h. Running error analysis in the largest norm: each operation carries the errors of its operands along and adds
 * its own, some units of its largest result. An error that is small beside the values that it came from may be large beside a result in which those
 * cancel, and it stays as large in all that is computed from it: a bound relative to the result alone would be wrong for x - ifft(fft(x)).
 *
 * The rules are for what random.c writes, not for every program: logarithms of what is at least 1, no quotients. */
#include "tests/unit/codegen/random_bound.h"

#include "base/str.h"
#include "pipeline/hlo/eval.h"

#include <math.h>
#include <stdlib.h>

void bounds_done(struct bounds *b)
{
    free(b->of);
    *b = (struct bounds){0};
}

static struct bound *find(const struct bounds *b, const struct hlo_value *v, unsigned device)
{
    for (size_t i = b->n; i-- > 0;)
        if (b->of[i].value == v && b->of[i].device == device) return &b->of[i];
    return NULL;
}
double bounds_err(const struct bounds *b, const struct hlo_value *v, unsigned device)
{
    const struct bound *f = find(b, v, device);
    return f ? f->err : 0;
}
/* A value of a loop's body is seen again: the larger bound holds. */
static void enter(struct bounds *b, const struct hlo_value *v, unsigned device, double err, double top)
{
    struct bound *f = find(b, v, device);
    if (!f) {
        if (b->n == b->cap) {
            b->cap = b->cap ? 2 * b->cap : 64;
            b->of = nf_realloc(b->of, b->cap * sizeof *b->of);
        }
        f = &b->of[b->n++];
        *f = (struct bound){.value = v, .device = device};
    }
    f->err = fmax(f->err, err);
    f->top = fmax(f->top, top);
}

static double largest(const struct rt_array *a)
{
    enum cpu_dt t = cpu_dt_of(a->dtype);
    double top = 0;
    for (int64_t i = 0; i < rt_array_count(a); i++) {
        struct cpu_num y = cpu_num_load(t, (char *)a->data + (size_t)i * cpu_dt_bytes(t));
        if (!cpu_dt_float(t) && !cpu_dt_complex(t)) y = (struct cpu_num){.re = t == CPU_U64 ? (double)(uint64_t)y.i : (double)y.i};
        if (isfinite(y.re)) top = fmax(top, fabs(y.re));
        if (isfinite(y.im)) top = fmax(top, fabs(y.im));
    }
    return top;
}

void bounds_argument(struct bounds *b, const struct hlo_value *v, unsigned device, const struct rt_array *a) { enter(b, v, device, 0, largest(a)); }

/* What one operation may add: elementary functions of f32 and f64 are good to some units, sums are made in another order; narrow floats are rounded
 * once, which an error before may turn to the neighbour. */
static double own(enum cpu_dt t, double top)
{
    static const int digits[CPU_DT_MAX] = {[CPU_F4E2M1FN] = 1, [CPU_F6E2M3FN] = 3, [CPU_F6E3M2FN] = 2, [CPU_F8E3M4] = 4, [CPU_F8E4M3] = 3, [CPU_F8E4M3FN] = 3, [CPU_F8E4M3FNUZ] = 3,
                                           [CPU_F8E4M3B11FNUZ] = 3, [CPU_F8E5M2] = 2, [CPU_F8E5M2FNUZ] = 2, [CPU_F8E8M0FNU] = 0, [CPU_BF16] = 7, [CPU_F16] = 10};
    if (cpu_dt_small(t)) return fmax(ldexp(top, -digits[t]), cpu_small_decode(t, 1));
    return t == CPU_F32 || t == CPU_C64 ? fmax(ldexp(top, -18), 1e-44) : t == CPU_F64 || t == CPU_C128 ? fmax(ldexp(top, -47), 1e-323) : 0;
}

static int64_t count_of(const struct hlo_value *v)
{
    int64_t n = 1;
    for (size_t d = 0; d < v->type->rank; d++) n *= v->type->dims[d];
    return NF_MAX(n, (int64_t)1);
}

/* Between devices the largest error and value of any of them counts. */
static struct bound operand(const struct bounds *b, const struct hlo_op *op, uint32_t i, unsigned device, bool meets)
{
    struct bound r = {.value = op->operands[i].value};
    for (size_t k = 0; k < b->n; k++)
        if (b->of[k].value == r.value && (meets || b->of[k].device == device)) {
            r.err = fmax(r.err, b->of[k].err);
            r.top = fmax(r.top, b->of[k].top);
        }
    return r;
}

/* Largest scale of a quantised type, and what its zero points move; smallest scale. */
static double scale_of(const struct hlo_quant *q, double *ret_zero, double *ret_least)
{
    double most = 0;
    *ret_zero = 0;
    *ret_least = INFINITY;
    for (size_t i = 0; i < q->count; i++) {
        most = fmax(most, q->scales[i]);
        *ret_least = fmin(*ret_least, q->scales[i]);
        *ret_zero = fmax(*ret_zero, fabs((double)q->zero_points[i]));
    }
    return most;
}

int bounds_observe(void *user, const struct hlo_op *op, unsigned device, const struct rt_array *results, size_t n)
{
    struct bounds *b = user;
    double sum = 0, most = 0, e[5] = {0}, t[5] = {0}, zero, least;
    bool meets = op->id >= HLO_OP_ALL_GATHER && op->id <= HLO_OP_COLLECTIVE_REDUCE;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        struct bound x = operand(b, op, i, device, meets);
        const struct hlo_type *from = op->operands[i].value->type;
        if (hlo_type_is_quant(from)) { /* in what the numbers express */
            double s = scale_of(from->quant, &zero, &least);
            x.err *= s;
            x.top = (x.top + zero) * s;
        }
        sum += x.err;
        most = fmax(most, x.err);
        if (i < NF_ARRAY_LEN(e)) {
            e[i] = x.err;
            t[i] = x.top;
        }
    }
    for (size_t k = 0; k < n; k++) {
        if (results[k].dtype == NF_DT_NONE) continue;
        const struct hlo_type *rt = op->results[k].type;
        const struct hlo_quant *q = hlo_type_is_quant(rt) ? rt->quant : NULL;
        enum cpu_dt stored = cpu_dt_of(results[k].dtype), dt = q ? cpu_dt_of(hlo_elem_dtype(q->expressed)) : stored;
        double seen = largest(&results[k]), top = q ? (seen + zero) * scale_of(q, &zero, &least) : seen, unit = own(dt, 1), err = most, terms;
        bool rounds = true; /* the operation computes, and the two may round differently */
        switch (op->id) {
        case HLO_OP_ADD:
        case HLO_OP_SUBTRACT:
            err = sum;
            rounds = most > 0;
            break;
        case HLO_OP_MULTIPLY: 
            err = (cpu_dt_complex(dt) ? 2 : 1) * (e[0] * t[1] + e[1] * t[0] + e[0] * e[1]);
            rounds = most > 0;
            break;
        case HLO_OP_EXPONENTIAL:
        case HLO_OP_EXPONENTIAL_MINUS_ONE:
        case HLO_OP_CHLO_SINH: err = (top + 1) * expm1(most); break;
        case HLO_OP_SQRT:
        case HLO_OP_CHLO_ACOSH: err = 2 * fmax(most, sqrt(most)); break;
        case HLO_OP_CBRT: err = 2 * fmax(most, cbrt(most)); break;
        case HLO_OP_ATAN2:
        case HLO_OP_LOG_PLUS_ONE:
        case HLO_OP_CHLO_LGAMMA:
        case HLO_OP_CHLO_DIGAMMA:
        case HLO_OP_CHLO_ERF:
        case HLO_OP_CHLO_ERFC: err = 4 * most; break;
        case HLO_OP_LOGISTIC: err = 4 * most * (cpu_dt_complex(dt) ? 1 + top * top : 1); break;
        case HLO_OP_NEGATE:
        case HLO_OP_MAXIMUM:
        case HLO_OP_MINIMUM:
        case HLO_OP_UNIFORM_QUANTIZE:
        case HLO_OP_UNIFORM_DEQUANTIZE: rounds = most > 0; break;
        case HLO_OP_TANH:
            err = most;
            if (cpu_dt_complex(dt)) err *= 4 * (1 + top * top); /* its derivative, which has poles */
            break;
        case HLO_OP_ABS:
        case HLO_OP_SINE:
        case HLO_OP_COSINE: err = (cpu_dt_complex(cpu_dt_of(hlo_eval_dtype(op->operands[0].value->type))) ? 4 : 1) * most; break;
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_SCATTER:
        case HLO_OP_SELECT_AND_SCATTER:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_REDUCE_SCATTER:
        case HLO_OP_COLLECTIVE_REDUCE: /* at most all that goes in; the sum's own error grows as the root of their number */
            terms = (double)count_of(op->operands[0].value);
            if (op->id == HLO_OP_REDUCE) terms /= (double)NF_MIN((int64_t)terms, count_of(&op->results[k]));
            if (op->id == HLO_OP_SCATTER) terms = (double)count_of(op->operands[1].value) + 1;
            if (meets) terms = 8;
            if (hlo_op_body(op, op->num_regions - 1)->first->id == HLO_OP_MULTIPLY) err = sum * top * terms + unit * sqrt(terms) * top;
            else if (hlo_op_body(op, op->num_regions - 1)->first->id == HLO_OP_ADD) err = sum * terms + unit * sqrt(terms) * fmax(t[0], fmax(t[1], t[2]));
            break;
        case HLO_OP_BATCH_NORM_TRAINING:
        case HLO_OP_BATCH_NORM_INFERENCE:
        case HLO_OP_BATCH_NORM_GRAD: /* epsilon 0.25, and numbers of at most 1 */
            terms = (double)count_of(op->operands[0].value) / (double)count_of(op->operands[1].value);
            if (op->id == HLO_OP_BATCH_NORM_GRAD) err = 64 * (sum + unit) * (k ? terms : 1);
            else err = 64 * (sum + unit);
            break;
        case HLO_OP_DOT_GENERAL:
        case HLO_OP_CONVOLUTION: /* the contracted dims are the right side's all but one, at most */
            terms = (double)(op->id == HLO_OP_DOT_GENERAL ? op->operands[0].value->type->dims[op->operands[0].value->type->rank - 1]
                                                          : count_of(op->operands[1].value) / NF_MAX(op->operands[1].value->type->dims[op->operands[1].value->type->rank - 1], (int64_t)1));
            err = terms * (e[0] * t[1] + e[1] * t[0] + e[0] * e[1]) + unit * sqrt(terms) * t[0] * t[1];
            break;
        case HLO_OP_FFT: /* in double inside: one rounding, but of sums in which all may have cancelled */
            terms = (double)hlo_op_i64s(op, HLO_A_fft_length).v[0];
            if (hlo_op_enum(op, HLO_A_fft_type, HLO_FFT) == HLO_IFFT || hlo_op_enum(op, HLO_A_fft_type, HLO_FFT) == HLO_IRFFT) err = most + 1e-14 * t[0];
            else err = terms * (most + 1e-14 * t[0]);
            break;
        case HLO_OP_CHOLESKY: err = 64 * (most + unit * t[0]); break; /* of matrices whose eigenvalues are at least 1 */
        case HLO_OP_TRIANGULAR_SOLVE: err = 64 * (e[0] * top + e[1] + unit * top) * (1 + (t[1] > 0 ? top / t[1] : 0)); break;
        case HLO_OP_WHILE: err = 8 * (sum + unit * (t[1] + t[2] + top)); break; /* three turns at most, of sums */
        case HLO_OP_CASE:
        case HLO_OP_IF:
            for (unsigned r = 0; r < op->num_regions; r++) err = fmax(err, bounds_err(b, hlo_op_body(op, r)->last->operands[k].value, device));
            break;
        default: break;
        }
        if (q) enter(b, &op->results[k], device, rounds ? (err + own(dt, top)) / least + 1 : err / least, seen);
        else enter(b, &op->results[k], device, dt <= CPU_U64 ? 0 : err + own(dt, top), top);
    }
    return NF_OK;
}
