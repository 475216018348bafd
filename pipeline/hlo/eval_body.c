/* Regions that compute scalars from scalars: bodies of reduce, scatter, sort, map and the collectives.
 *
 * Such a region becomes a program: a list of elementwise kernels over registers of EV_CHUNK elements, so that one pass over the
 * list serves up to EV_CHUNK applications of the body. What is not so simple (loops, arrays inside) runs as an ordinary block, one
 * application at a time. */
#include "pipeline/hlo/eval_internal.h"

#include <stdlib.h>

enum step_kind { STEP_KERNEL, STEP_SELECT, STEP_CONVERT, STEP_COPY, STEP_CLAMP, STEP_PRECISION };

struct step {
    enum step_kind kind;
    uint32_t out, a, b, c;      /* registers */
    ev_kernel fn, fn2;          /* CLAMP: maximum, minimum */
    enum nf_dtype from, to;
    int exponent_bits, mantissa_bits;
};

struct ev_prog {
    uint32_t n_args, n_regs, n_steps, n_results;
    enum nf_dtype *types;       /* of registers */
    struct step *steps;
    uint32_t *results;          /* registers */
    const struct hlo_attr **constants; /* n_regs: value of a register that a constant fills, or NULL */
    uint32_t *captured;         /* n_regs: slot + 1 of a register that the enclosing frame fills, or 0 */
};

enum ev_op ev_op_of(const struct hlo_op *op)
{
    switch (op->id) {
    case HLO_OP_ADD: case HLO_OP_CHLO_BROADCAST_ADD: return EV_ADD;
    case HLO_OP_SUBTRACT: case HLO_OP_CHLO_BROADCAST_SUBTRACT: return EV_SUB;
    case HLO_OP_MULTIPLY: case HLO_OP_CHLO_BROADCAST_MULTIPLY: return EV_MUL;
    case HLO_OP_DIVIDE: case HLO_OP_CHLO_BROADCAST_DIVIDE: return EV_DIV;
    case HLO_OP_REMAINDER: case HLO_OP_CHLO_BROADCAST_REMAINDER: return EV_REM;
    case HLO_OP_MAXIMUM: case HLO_OP_CHLO_BROADCAST_MAXIMUM: return EV_MAX;
    case HLO_OP_MINIMUM: case HLO_OP_CHLO_BROADCAST_MINIMUM: return EV_MIN;
    case HLO_OP_POWER: case HLO_OP_CHLO_BROADCAST_POWER: return EV_POW;
    case HLO_OP_ATAN2: case HLO_OP_CHLO_BROADCAST_ATAN2: return EV_ATAN2;
    case HLO_OP_AND: case HLO_OP_CHLO_BROADCAST_AND: return EV_AND;
    case HLO_OP_OR: case HLO_OP_CHLO_BROADCAST_OR: return EV_OR;
    case HLO_OP_XOR: case HLO_OP_CHLO_BROADCAST_XOR: return EV_XOR;
    case HLO_OP_SHIFT_LEFT: case HLO_OP_CHLO_BROADCAST_SHIFT_LEFT: return EV_SHL;
    case HLO_OP_SHIFT_RIGHT_ARITHMETIC: case HLO_OP_CHLO_BROADCAST_SHIFT_RIGHT_ARITHMETIC: return EV_SHRA;
    case HLO_OP_SHIFT_RIGHT_LOGICAL: case HLO_OP_CHLO_BROADCAST_SHIFT_RIGHT_LOGICAL: return EV_SHRL;
    case HLO_OP_CHLO_NEXT_AFTER: case HLO_OP_CHLO_BROADCAST_NEXT_AFTER: return EV_NEXT_AFTER;
    case HLO_OP_CHLO_POLYGAMMA: case HLO_OP_CHLO_BROADCAST_POLYGAMMA: return EV_POLYGAMMA;
    case HLO_OP_CHLO_ZETA: case HLO_OP_CHLO_BROADCAST_ZETA: return EV_ZETA;
    case HLO_OP_CHLO_MULHI: return EV_MULHI;
    case HLO_OP_COMPLEX: case HLO_OP_CHLO_BROADCAST_COMPLEX: return EV_COMPLEX;
    case HLO_OP_COMPARE: case HLO_OP_CHLO_BROADCAST_COMPARE: {
        int64_t dir = hlo_op_enum(op, HLO_A_comparison_direction, HLO_EQ);
        bool total = hlo_op_enum(op, HLO_A_compare_type, HLO_COMPARE_NOTYPE) == HLO_COMPARE_TOTALORDER;
        static const enum ev_op plain[] = {EV_EQ, EV_NE, EV_GE, EV_GT, EV_LE, EV_LT};
        static const enum ev_op totals[] = {EV_TOTAL_EQ, EV_TOTAL_NE, EV_TOTAL_GE, EV_TOTAL_GT, EV_TOTAL_LE, EV_TOTAL_LT};
        return dir >= 0 && dir < 6 ? (total ? totals[dir] : plain[dir]) : EV_NONE;
    }
    case HLO_OP_ABS: return EV_ABS;
    case HLO_OP_CBRT: return EV_CBRT;
    case HLO_OP_CEIL: return EV_CEIL;
    case HLO_OP_COUNT_LEADING_ZEROS: return EV_CLZ;
    case HLO_OP_COSINE: return EV_COS;
    case HLO_OP_EXPONENTIAL: return EV_EXP;
    case HLO_OP_EXPONENTIAL_MINUS_ONE: return EV_EXPM1;
    case HLO_OP_FLOOR: return EV_FLOOR;
    case HLO_OP_LOG: return EV_LOG;
    case HLO_OP_LOG_PLUS_ONE: return EV_LOG1P;
    case HLO_OP_LOGISTIC: return EV_LOGISTIC;
    case HLO_OP_NEGATE: return EV_NEG;
    case HLO_OP_NOT: return EV_NOT;
    case HLO_OP_POPCNT: return EV_POPCNT;
    case HLO_OP_ROUND_NEAREST_AFZ: return EV_ROUND_AFZ;
    case HLO_OP_ROUND_NEAREST_EVEN: return EV_ROUND_EVEN;
    case HLO_OP_RSQRT: return EV_RSQRT;
    case HLO_OP_SIGN: return EV_SIGN;
    case HLO_OP_SINE: return EV_SIN;
    case HLO_OP_SQRT: return EV_SQRT;
    case HLO_OP_TAN: case HLO_OP_CHLO_TAN: return EV_TAN;
    case HLO_OP_TANH: return EV_TANH;
    case HLO_OP_REAL: return EV_REAL;
    case HLO_OP_IMAG: return EV_IMAG;
    case HLO_OP_IS_FINITE: return EV_IS_FINITE;
    case HLO_OP_CHLO_ACOS: return EV_ACOS;
    case HLO_OP_CHLO_ACOSH: return EV_ACOSH;
    case HLO_OP_CHLO_ASIN: return EV_ASIN;
    case HLO_OP_CHLO_ASINH: return EV_ASINH;
    case HLO_OP_CHLO_ATAN: return EV_ATAN;
    case HLO_OP_CHLO_ATANH: return EV_ATANH;
    case HLO_OP_CHLO_COSH: return EV_COSH;
    case HLO_OP_CHLO_SINH: return EV_SINH;
    case HLO_OP_CHLO_ERF: return EV_ERF;
    case HLO_OP_CHLO_ERFC: return EV_ERFC;
    case HLO_OP_CHLO_ERF_INV: return EV_ERF_INV;
    case HLO_OP_CHLO_LGAMMA: return EV_LGAMMA;
    case HLO_OP_CHLO_DIGAMMA: return EV_DIGAMMA;
    case HLO_OP_CHLO_BESSEL_I1E: return EV_BESSEL_I1E;
    case HLO_OP_CHLO_SQUARE: return EV_SQUARE;
    case HLO_OP_CHLO_CONJ: return EV_CONJ;
    case HLO_OP_CHLO_IS_INF: return EV_IS_INF;
    case HLO_OP_CHLO_IS_POS_INF: return EV_IS_POS_INF;
    case HLO_OP_CHLO_IS_NEG_INF: return EV_IS_NEG_INF;
    default: return EV_NONE;
    }
}

enum nf_dtype ev_op_dtype(const struct hlo_op *op, enum ev_op e, enum nf_dtype first)
{
    (void)op;
    if (e == EV_COMPLEX)
        return first == NF_DT_F64 ? NF_DT_C128 : NF_DT_C64;
    return first;
}

/* ---- compiling ---- */

struct compiler {
    struct hlo_eval *e;
    const struct ev_block *b;
    struct ev_prog *p;
    uint32_t cap;
    struct { const struct hlo_value *v; uint32_t reg; } map[256];
    uint32_t n_map;
};

static uint32_t reg_new(struct compiler *c, enum nf_dtype t, const struct hlo_value *v)
{
    if (c->p->n_regs == c->cap || c->n_map == NF_ARRAY_LEN(c->map))
        return UINT32_MAX;
    uint32_t r = c->p->n_regs++;
    c->p->types[r] = t;
    if (v) {
        c->map[c->n_map].v = v;
        c->map[c->n_map++].reg = r;
    }
    return r;
}

static bool is_scalar(const struct hlo_type *t)
{
    return t->kind == HLO_TYPE_TENSOR && t->rank == 0 && !hlo_type_is_quant(t) && hlo_eval_dtype(t) != NF_DT_NONE;
}

static uint32_t reg_of(struct compiler *c, const struct hlo_value *v)
{
    for (uint32_t i = 0; i < c->n_map; i++)
        if (c->map[i].v == v)
            return c->map[i].reg;
    bool inside = v->is_arg ? v->def.block == c->b->block : v->def.op->block == c->b->block;
    if (inside || !is_scalar(v->type))
        return UINT32_MAX;
    uint32_t r = reg_new(c, hlo_eval_dtype(v->type), v);
    if (r != UINT32_MAX)
        c->p->captured[r] = c->e->slot_of[v->id] + 1;
    return r;
}

static bool compile_op(struct compiler *c, const struct hlo_op *op, struct step *s)
{
    uint32_t in[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    if (op->num_results != 1 || op->num_regions || op->num_operands > 3 || !is_scalar(op->results[0].type))
        return false;
    for (uint32_t i = 0; i < op->num_operands; i++)
        if ((in[i] = reg_of(c, op->operands[i].value)) == UINT32_MAX)
            return false;
    enum nf_dtype t = hlo_eval_dtype(op->results[0].type), first = in[0] == UINT32_MAX ? NF_DT_NONE : c->p->types[in[0]];
    uint32_t r = reg_new(c, t, &op->results[0]);
    if (r == UINT32_MAX)
        return false;
    *s = (struct step){.out = r, .a = in[0], .b = in[1], .c = in[2], .from = first, .to = t};
    switch (op->id) {
    case HLO_OP_CONSTANT: {
        const struct hlo_attr *v = hlo_op_attr(op, HLO_A_value);
        if (!v || v->kind != HLO_ATTR_DENSE || v->dense.raw.len != nf_dtype_bytes(t))
            return false;
        c->p->constants[r] = v;
        s->kind = STEP_COPY;
        s->a = r; /* nothing to do */
        return true;
    }
    case HLO_OP_SELECT:
        s->kind = STEP_SELECT;
        return true;
    case HLO_OP_CONVERT:
        s->kind = STEP_CONVERT;
        return true;
    case HLO_OP_RESHAPE: case HLO_OP_BROADCAST_IN_DIM: case HLO_OP_TRANSPOSE: case HLO_OP_OPTIMIZATION_BARRIER:
        s->kind = STEP_COPY;
        return first == t;
    case HLO_OP_BITCAST_CONVERT:
        s->kind = STEP_COPY;
        return nf_dtype_bits(first) == nf_dtype_bits(t) && nf_dtype_bits(t) >= 8;
    case HLO_OP_CLAMP:
        s->kind = STEP_CLAMP;
        s->fn = ev_kernel_find(EV_MAX, t);
        s->fn2 = ev_kernel_find(EV_MIN, t);
        return s->fn && s->fn2;
    case HLO_OP_REDUCE_PRECISION:
        s->kind = STEP_PRECISION;
        s->exponent_bits = (int)hlo_op_i64(op, HLO_A_exponent_bits, 8);
        s->mantissa_bits = (int)hlo_op_i64(op, HLO_A_mantissa_bits, 23);
        return nf_dtype_is_float(t);
    default:
        break;
    }
    enum ev_op e = ev_op_of(op);
    s->kind = STEP_KERNEL;
    s->fn = e == EV_NONE ? NULL : ev_kernel_find(e, ev_op_dtype(op, e, first));
    return s->fn != NULL;
}

struct ev_prog *ev_prog_compile(struct hlo_eval *e, const struct ev_block *b)
{
    if (b->n_insts > 120 || b->n_args > 60 || b->n_results > 60)
        return NULL;
    struct nf_arena *ar = e->arena;
    struct compiler c = {.e = e, .b = b, .cap = 256};
    for (uint32_t i = 0; i < b->n_args; i++)
        if (!is_scalar(b->block->args[i]->type))
            return NULL;
    /* look before allocating: most blocks of control flow hold arrays */
    for (const struct hlo_op *op = b->block->first; op; op = op->next)
        for (uint32_t i = 0; i < op->num_results; i++)
            if (!is_scalar(op->results[i].type) || op->num_regions)
                return NULL;
    c.p = NF_NEW(ar, struct ev_prog);
    c.p->types = NF_NEW_ARRAY(ar, enum nf_dtype, c.cap);
    c.p->constants = NF_NEW_ARRAY(ar, const struct hlo_attr *, c.cap);
    c.p->captured = NF_NEW_ARRAY(ar, uint32_t, c.cap);
    c.p->steps = NF_NEW_ARRAY(ar, struct step, b->n_insts + 1);
    c.p->n_args = b->n_args;
    for (uint32_t i = 0; i < b->n_args; i++)
        if (reg_new(&c, hlo_eval_dtype(b->block->args[i]->type), b->block->args[i]) == UINT32_MAX)
            return NULL;
    for (const struct hlo_op *op = b->block->first; op != b->block->last; op = op->next) {
        struct step s;
        if (!compile_op(&c, op, &s))
            return NULL;
        if (!(s.kind == STEP_COPY && s.a == s.out))
            c.p->steps[c.p->n_steps++] = s;
    }
    c.p->n_results = b->n_results;
    c.p->results = NF_NEW_ARRAY(ar, uint32_t, b->n_results ? b->n_results : 1);
    for (uint32_t i = 0; i < b->n_results; i++)
        if ((c.p->results[i] = reg_of(&c, b->block->last->operands[i].value)) == UINT32_MAX)
            return NULL;
    return c.p;
}

/* ---- running ---- */

static void classify(struct ev_body *b)
{
    const struct hlo_block *blk = b->block->block;
    const struct hlo_op *op = blk->first, *last = blk->last;
    b->returns_arg = -1;
    if (last->num_operands != 1)
        return;
    const struct hlo_value *r = last->operands[0].value;
    if (r->is_arg && r->def.block == blk) {
        b->returns_arg = (int)r->index;
        return;
    }
    if (blk->num_args != 2 || op->next != last || op->num_operands != 2 || r != &op->results[0])
        return;
    const struct hlo_value *x = op->operands[0].value, *y = op->operands[1].value;
    enum ev_op e = ev_op_of(op);
    bool straight = x == blk->args[0] && y == blk->args[1], swapped = x == blk->args[1] && y == blk->args[0];
    bool commutes = e == EV_ADD || e == EV_MUL || e == EV_AND || e == EV_OR || e == EV_XOR;
    if (straight || (swapped && commutes)) {
        b->simple = e;
        b->simple_type = hlo_eval_dtype(x->type);
    }
}

int ev_body_init(struct ev_ctx *c, uint32_t region, struct ev_body *b, struct nf_error *err)
{
    *b = (struct ev_body){.f = c->f, .op = c->op, .block = c->inst->regions ? c->inst->regions[region] : NULL, .returns_arg = -1};
    if (!b->block)
        return ev_fail(c, err, NF_EGRAPH, "the region is empty");
    if (b->block->n_args > 64 || b->block->n_results > 64)
        return ev_fail(c, err, NF_EUNSUPPORTED, "a region of more than 64 arguments or results");
    for (uint32_t i = 0; i < b->block->n_results; i++)
        b->out_width[i] = nf_dtype_bytes(hlo_eval_dtype(b->block->block->last->operands[i].value->type));
    b->prog = c->inst->progs[region];
    if (!b->prog)
        return NF_OK;
    classify(b);
    b->regs = nf_try_alloc((size_t)b->prog->n_regs * EV_CHUNK * 16 + 1);
    b->reg_ptrs = nf_try_alloc((b->prog->n_regs + 1) * sizeof(void *));
    if (!b->regs || !b->reg_ptrs) {
        ev_body_done(b);
        return ev_fail(c, err, NF_ENOMEM, "no memory for a region's registers");
    }
    for (uint32_t r = 0; r < b->prog->n_regs; r++) {
        char *p = b->regs + (size_t)r * EV_CHUNK * 16;
        size_t w = nf_dtype_bytes(b->prog->types[r]);
        b->reg_ptrs[r] = p;
        if (b->prog->constants[r])
            ev_fill(EV_CHUNK, w, p, b->prog->constants[r]->dense.raw.data);
        else if (b->prog->captured[r])
            ev_fill(EV_CHUNK, w, p, c->f->slots[b->prog->captured[r] - 1]->a.data);
    }
    return NF_OK;
}

void ev_body_done(struct ev_body *b)
{
    free(b->regs);
    free(b->reg_ptrs);
    b->regs = NULL;
    b->reg_ptrs = NULL;
}

static void run_program(struct ev_body *b, int64_t n, const void *const *args, void *const *results)
{
    const struct ev_prog *p = b->prog;
    void **reg = b->reg_ptrs;
    for (uint32_t i = 0; i < p->n_args; i++)
        reg[i] = (void *)(uintptr_t)args[i];
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        void *out = reg[s->out];
        switch (s->kind) {
        case STEP_KERNEL:
            s->fn(n, out, reg[s->a], s->b == UINT32_MAX ? NULL : reg[s->b]);
            break;
        case STEP_SELECT:
            ev_select(n, nf_dtype_bytes(s->to), out, reg[s->a], 1, reg[s->b], reg[s->c]);
            break;
        case STEP_CONVERT:
            ev_convert(n, s->to, out, s->from, reg[s->a]);
            break;
        case STEP_COPY:
            memcpy(out, reg[s->a], (size_t)n * nf_dtype_bytes(s->to));
            break;
        case STEP_CLAMP:
            s->fn(n, out, reg[s->b], reg[s->a]);
            s->fn2(n, out, out, reg[s->c]);
            break;
        case STEP_PRECISION:
            ev_reduce_precision(n, s->to, s->exponent_bits, s->mantissa_bits, out, reg[s->a]);
            break;
        }
    }
    /* Results may be the memory of arguments; none is read once the first is written, unless a result is an argument itself. */
    if (p->n_results > 1)
        for (uint32_t i = 0; i < p->n_results; i++)
            if (p->results[i] < p->n_args) {
                char *own = b->regs + (size_t)p->results[i] * EV_CHUNK * 16;
                memcpy(own, reg[p->results[i]], (size_t)n * b->out_width[i]);
                reg[p->results[i]] = own;
            }
    for (uint32_t i = 0; i < p->n_results; i++)
        memmove(results[i], reg[p->results[i]], (size_t)n * b->out_width[i]);
}

int ev_body_call(struct ev_body *b, int64_t n, const void *const *args, void *const *results, struct nf_error *err)
{
    if (b->prog) {
        run_program(b, n, args, results);
        return NF_OK;
    }
    uint32_t n_args = b->block->n_args, n_results = b->block->n_results;
    for (int64_t k = 0; k < n; k++) {
        struct ev_run *run = b->f->proc->run;
        for (uint32_t i = 0; i < n_args; i++) {
            enum nf_dtype dt = hlo_eval_dtype(b->block->block->args[i]->type);
            size_t w = nf_dtype_bytes(dt);
            int rc = ev_array_new(run, dt, 0, NULL, &b->args[i], err);
            if (rc) {
                while (i--)
                    ev_unref(b->args[i]);
                return rc;
            }
            memcpy(b->args[i]->a.data, (const char *)args[i] + (size_t)k * w, w);
        }
        int rc = ev_run_block(b->f, b->block, b->args, b->results, err);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < n_results; i++) {
            struct ev_value *v = b->results[i];
            if (v->kind == EV_ARRAY && v->a.bytes >= b->out_width[i])
                memcpy((char *)results[i] + (size_t)k * b->out_width[i], v->a.data, b->out_width[i]);
            ev_unref(v);
        }
    }
    return NF_OK;
}
