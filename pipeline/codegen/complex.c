/* complex.c: a row program over complex numbers as one over their parts, which is what there is machine code for.
 *
 * Every complex access becomes two of the parts' type, every complex value two values. Sums, products and comparisons are done in the
 * parts' own type, quotients and elementary functions of complex<f32> in f64 and rounded once; special values are those of C99's
 * Annex G as far as the evaluator has them. Elementary functions of complex<f64> and products over complex values (which mix the
 * parts) have no such form: those programs are interpreted. */
#include "pipeline/codegen/emit_internal.h"

#include <math.h>

struct split {
    const struct rp_prog *p;
    struct nf_arena *arena;
    struct rp_ins *ins;
    int n, cap;
    int *re, *im;        /* by old instruction; real ones: re */
    int *acc;            /* by old access: the first one's number */
    bool failed;
};
typedef struct split *S;

static int put(S s, enum rp_op op, enum cpu_dt dt, int aux, int a, int b, int c)
{
    if (s->n == s->cap) {
        struct rp_ins *more = NF_NEW_ARRAY(s->arena, struct rp_ins, (size_t)s->cap * 2 + 64);
        if (s->n) memcpy(more, s->ins, (size_t)s->n * sizeof *more);
        s->ins = more;
        s->cap = s->cap * 2 + 64;
    }
    if (s->n >= RP_INS_MAX / 2) s->failed = true;
    if (s->failed) return 0;
    s->ins[s->n] = (struct rp_ins){.op = (uint16_t)op, .dt = (uint8_t)dt, .aux = (uint16_t)aux, .src = {a, b, c}};
    return s->n++;
}
static int un(S s, enum rp_op op, enum cpu_dt t, int a) { return put(s, op, t, 0, a, 0, 0); }
static int bin(S s, enum rp_op op, enum cpu_dt t, int a, int b) { return put(s, op, t, 0, a, b, 0); }
static int sel(S s, enum cpu_dt t, int p, int a, int b) { return put(s, RP_SEL, t, 0, p, a, b); }
static int cmp(S s, enum rp_cmp how, int a, int b) { return put(s, RP_CMP, CPU_PRED, how, a, b, 0); }
static int number(S s, enum cpu_dt t, double x)
{
    int i = put(s, RP_CONST, t, 0, 0, 0, 0);
    cpu_num_store(t, s->ins[i].bits, (struct cpu_num){.re = x});
    return i;
}
static int either(S s, int a, int b) { return bin(s, RP_OR, CPU_PRED, a, b); }
static int both(S s, int a, int b) { return bin(s, RP_AND, CPU_PRED, a, b); }
static int is_nan(S s, int a) { return cmp(s, RP_NE, a, a); }

/* A complex number in f64 while a function is computed. */
struct z {
    int x, y;
};
#define D CPU_F64
static int add(S s, int a, int b) { return bin(s, RP_ADD, D, a, b); }
static int sub(S s, int a, int b) { return bin(s, RP_SUB, D, a, b); }
static int mul(S s, int a, int b) { return bin(s, RP_MUL, D, a, b); }
static int quo(S s, int a, int b) { return bin(s, RP_DIV, D, a, b); }
static int fn(S s, enum rp_op op, int a) { return un(s, op, D, a); }
static int c(S s, double x) { return number(s, D, x); }
static int infinite(S s, int a) { return cmp(s, RP_EQ, fn(s, RP_ABS, a), c(s, (double)INFINITY)); }
static int is_zero(S s, int a) { return cmp(s, RP_EQ, a, c(s, 0)); }
static int if_(S s, int p, int a, int b) { return sel(s, D, p, a, b); }
/* |x| with the sign of y, from bits */
static int copysign_(S s, int x, int y)
{
    int i = put(s, RP_CONST, CPU_U64, 0, 0, 0, 0), j = put(s, RP_CONST, CPU_U64, 0, 0, 0, 0);
    s->ins[i].bits[0] = (uint64_t)1 << 63;
    s->ins[j].bits[0] = UINT64_MAX >> 1;
    int bits = bin(s, RP_OR, CPU_U64, bin(s, RP_AND, CPU_U64, un(s, RP_BITS, CPU_U64, x), j), bin(s, RP_AND, CPU_U64, un(s, RP_BITS, CPU_U64, y), i));
    return un(s, RP_BITS, D, bits);
}

static int modulus(S s, struct z a)
{
    int m = fn(s, RP_SQRT, add(s, mul(s, a.x, a.x), mul(s, a.y, a.y)));
    return if_(s, either(s, infinite(s, a.x), infinite(s, a.y)), c(s, (double)INFINITY), m);
}

static struct z divide(S s, struct z a, struct z b)
{
    int d = add(s, mul(s, b.x, b.x), mul(s, b.y, b.y)), inf = c(s, (double)INFINITY), zero = c(s, 0), one = c(s, 1);
    struct z r = {quo(s, add(s, mul(s, a.x, b.x), mul(s, a.y, b.y)), d), quo(s, sub(s, mul(s, a.y, b.x), mul(s, a.x, b.y)), d)};
    /* Where both parts came out undefined: by zero; infinite by finite; finite by infinite. */
    int ai = either(s, infinite(s, a.x), infinite(s, a.y)), bi = either(s, infinite(s, b.x), infinite(s, b.y));
    int an = either(s, is_nan(s, a.x), is_nan(s, a.y)), bn = either(s, is_nan(s, b.x), is_nan(s, b.y)), all_nan = both(s, is_nan(s, a.x), is_nan(s, a.y));
    int by_zero = both(s, is_zero(s, d), un(s, RP_NOT, CPU_PRED, all_nan)), sinf = copysign_(s, inf, b.x);
    int lost = both(s, is_nan(s, r.x), is_nan(s, r.y));
    int u = copysign_(s, if_(s, infinite(s, a.x), one, zero), a.x), v = copysign_(s, if_(s, infinite(s, a.y), one, zero), a.y);
    int p = copysign_(s, if_(s, infinite(s, b.x), one, zero), b.x), q = copysign_(s, if_(s, infinite(s, b.y), one, zero), b.y);
    int grow = both(s, ai, un(s, RP_NOT, CPU_PRED, either(s, bi, bn))), vanish = both(s, bi, un(s, RP_NOT, CPU_PRED, either(s, ai, an)));
    int gx = mul(s, inf, add(s, mul(s, u, b.x), mul(s, v, b.y))), gy = mul(s, inf, sub(s, mul(s, v, b.x), mul(s, u, b.y)));
    int vx = mul(s, zero, add(s, mul(s, a.x, p), mul(s, a.y, q))), vy = mul(s, zero, sub(s, mul(s, a.y, p), mul(s, a.x, q)));
    int x = if_(s, by_zero, mul(s, sinf, a.x), if_(s, grow, gx, if_(s, vanish, vx, r.x)));
    int y = if_(s, by_zero, mul(s, sinf, a.y), if_(s, grow, gy, if_(s, vanish, vy, r.y)));
    return (struct z){if_(s, lost, x, r.x), if_(s, lost, y, r.y)};
}

static struct z exponential(S s, struct z a)
{
    int e = fn(s, RP_EXP, a.x), nan = c(s, (double)NAN), real = is_zero(s, a.y), odd = un(s, RP_NOT, CPU_PRED, un(s, RP_FINITE, CPU_PRED, a.y));
    int x = if_(s, real, e, mul(s, e, fn(s, RP_COS, a.y))), y = if_(s, real, a.y, mul(s, e, fn(s, RP_SIN, a.y)));
    return (struct z){if_(s, odd, nan, x), if_(s, odd, nan, y)};
}
static struct z expm1_(S s, struct z a)
{
    struct z e = exponential(s, a);
    int h = fn(s, RP_SIN, mul(s, c(s, 0.5), a.y)), m = fn(s, RP_EXPM1, a.x);
    int x = sub(s, mul(s, m, fn(s, RP_COS, a.y)), mul(s, c(s, 2), mul(s, h, h)));
    int far = either(s, cmp(s, RP_GT, a.x, c(s, 40)), un(s, RP_NOT, CPU_PRED, un(s, RP_FINITE, CPU_PRED, a.x)));
    x = if_(s, far, sub(s, e.x, c(s, 1)), x);
    return (struct z){if_(s, is_zero(s, a.y), m, x), e.y};
}
static struct z logarithm(S s, struct z a)
{
    int m2 = add(s, mul(s, a.x, a.x), mul(s, a.y, a.y)), ax = fn(s, RP_ABS, a.x), ay = fn(s, RP_ABS, a.y);
    int big = bin(s, RP_MAX, D, ax, ay), small = bin(s, RP_MIN, D, ax, ay), one = c(s, 1);
    /* |z|^2 - 1 without losing what the subtraction would */
    int near = fn(s, RP_LOG1P, add(s, mul(s, sub(s, big, one), add(s, big, one)), mul(s, small, small)));
    int close = both(s, cmp(s, RP_GT, m2, c(s, 0.5)), cmp(s, RP_LT, m2, c(s, 2)));
    int l = mul(s, c(s, 0.5), if_(s, close, near, fn(s, RP_LOG, m2)));
    return (struct z){if_(s, either(s, infinite(s, a.x), infinite(s, a.y)), c(s, (double)INFINITY), l), bin(s, RP_ATAN2, D, a.y, a.x)};
}
static struct z log1p_(S s, struct z a)
{
    struct z far = logarithm(s, (struct z){add(s, a.x, c(s, 1)), a.y});
    int t = add(s, mul(s, a.x, add(s, a.x, c(s, 2))), mul(s, a.y, a.y)), near = mul(s, c(s, 0.5), fn(s, RP_LOG1P, t));
    int close = both(s, cmp(s, RP_GT, t, c(s, -0.75)), cmp(s, RP_LT, t, c(s, 3)));
    return (struct z){if_(s, close, near, far.x), far.y};
}
static struct z square_root(S s, struct z a)
{
    int m = modulus(s, a), ax = fn(s, RP_ABS, a.x), inf = c(s, (double)INFINITY), zero = both(s, is_zero(s, a.x), is_zero(s, a.y));
    int t = fn(s, RP_SQRT, mul(s, c(s, 0.5), add(s, m, ax))), o = quo(s, fn(s, RP_ABS, a.y), add(s, t, t));
    int neg = cmp(s, RP_LT, a.x, c(s, 0));
    int x = if_(s, neg, o, t), y = copysign_(s, if_(s, neg, t, o), a.y);
    int yinf = infinite(s, a.y);
    x = if_(s, yinf, inf, if_(s, zero, c(s, 0), x));
    return (struct z){x, if_(s, either(s, yinf, zero), a.y, y)};
}
static struct z reciprocal_root(S s, struct z a)
{
    struct z r = square_root(s, a);
    int m = modulus(s, a), zero = both(s, is_zero(s, a.x), is_zero(s, a.y)), inf = either(s, infinite(s, a.x), infinite(s, a.y));
    int x = quo(s, r.x, m), y = fn(s, RP_NEG, quo(s, r.y, m));
    x = if_(s, zero, c(s, (double)INFINITY), if_(s, inf, c(s, 0), x));
    return (struct z){x, if_(s, zero, c(s, (double)NAN), if_(s, inf, copysign_(s, c(s, 0), fn(s, RP_NEG, a.y)), y))};
}
/* sinh and cosh of a real number, both good to the last bits, from expm1 */
static void hyperbolic(S s, int x, int *sh, int *ch)
{
    int a = fn(s, RP_ABS, x), e = fn(s, RP_EXPM1, a), one = c(s, 1), half = c(s, 0.5), e1 = add(s, e, one);
    int big = cmp(s, RP_GT, a, c(s, 700)), up = fn(s, RP_EXP, mul(s, half, a)), far = mul(s, mul(s, half, up), up);
    *sh = copysign_(s, if_(s, big, far, mul(s, half, add(s, e, quo(s, e, e1)))), x);
    *ch = if_(s, big, far, add(s, one, mul(s, half, quo(s, mul(s, e, e), e1))));
}
/* 0 times whatever is 0, which keeps the parts of numbers on an axis. */
static int times(S s, int a, int zero_of, int b) { return if_(s, is_zero(s, zero_of), a, mul(s, a, b)); }

static struct z sine(S s, struct z a, bool cosine)
{
    int sh, ch, si = fn(s, RP_SIN, a.x), co = fn(s, RP_COS, a.x);
    hyperbolic(s, a.y, &sh, &ch);
    if (!cosine) return (struct z){times(s, si, a.x, ch), times(s, sh, a.y, co)};
    int y = mul(s, si, sh);
    y = if_(s, either(s, is_zero(s, a.x), is_zero(s, a.y)), mul(s, copysign_(s, c(s, 1), a.x), copysign_(s, c(s, 0), a.y)), y);
    return (struct z){mul(s, co, ch), fn(s, RP_NEG, y)};
}
static struct z tanh_(S s, struct z a)
{
    int sh, ch, si = fn(s, RP_SIN, a.y), co = fn(s, RP_COS, a.y), t = fn(s, RP_ABS, a.x);
    hyperbolic(s, bin(s, RP_MIN, D, t, c(s, 21)), &sh, &ch);
    int d = add(s, mul(s, sh, sh), mul(s, co, co)), x = quo(s, mul(s, sh, ch), d), y = quo(s, mul(s, si, co), d);
    int far = cmp(s, RP_GT, t, c(s, 20)), e = fn(s, RP_EXP, fn(s, RP_NEG, t));
    x = if_(s, far, c(s, 1), x);
    y = if_(s, far, mul(s, mul(s, c(s, 4), mul(s, si, co)), mul(s, e, e)), y);
    int xinf = infinite(s, a.x), odd = un(s, RP_NOT, CPU_PRED, un(s, RP_FINITE, CPU_PRED, a.y));
    int sc = if_(s, odd, c(s, 1), mul(s, si, co));
    y = if_(s, xinf, copysign_(s, c(s, 0), sc), if_(s, is_zero(s, a.y), a.y, y));
    x = if_(s, both(s, odd, un(s, RP_NOT, CPU_PRED, xinf)), c(s, (double)NAN), x);
    return (struct z){copysign_(s, x, a.x), y};
}
static struct z power(S s, struct z a, struct z b)
{
    struct z l = logarithm(s, a);
    int re = sub(s, mul(s, b.x, l.x), mul(s, b.y, l.y)), im = add(s, mul(s, b.x, l.y), mul(s, b.y, l.x));
    int e = fn(s, RP_EXP, re), flat = is_zero(s, im), zero = both(s, is_zero(s, a.x), is_zero(s, a.y)), nan = c(s, (double)NAN);
    int x = if_(s, flat, e, mul(s, e, fn(s, RP_COS, im))), y = if_(s, flat, im, mul(s, e, fn(s, RP_SIN, im)));
    int bx0 = is_zero(s, b.x), by0 = is_zero(s, b.y), up = cmp(s, RP_GT, b.x, c(s, 0)), none = both(s, bx0, by0);
    int zx = if_(s, none, c(s, 1), if_(s, up, c(s, 0), if_(s, by0, c(s, (double)INFINITY), nan)));
    int zy = if_(s, either(s, up, by0), c(s, 0), nan);
    return (struct z){if_(s, zero, zx, x), if_(s, zero, zy, y)};
}

static struct z function(S s, enum rp_op op, struct z a, struct z b)
{
    struct z one = {c(s, 1), c(s, 0)}, r = a;
    int m;
    switch ((int)op) {
    case RP_DIV: return divide(s, a, b);
    case RP_POW: return power(s, a, b);
    case RP_EXP: return exponential(s, a);
    case RP_EXPM1: return expm1_(s, a);
    case RP_LOG: return logarithm(s, a);
    case RP_LOG1P: return log1p_(s, a);
    case RP_SQRT: return square_root(s, a);
    case RP_RSQRT: return reciprocal_root(s, a);
    case RP_SIN: return sine(s, a, false);
    case RP_COS: return sine(s, a, true);
    case RP_TANH: return tanh_(s, a);
    case RP_TAN: /* -i tanh(iz) */
        r = tanh_(s, (struct z){fn(s, RP_NEG, a.y), a.x});
        return (struct z){r.y, fn(s, RP_NEG, r.x)};
    case RP_LOGISTIC:
        r = exponential(s, (struct z){fn(s, RP_NEG, a.x), fn(s, RP_NEG, a.y)});
        return divide(s, one, (struct z){add(s, r.x, one.x), r.y});
    case RP_SIGN:
        m = modulus(s, a);
        r = (struct z){quo(s, a.x, m), quo(s, a.y, m)};
        m = both(s, is_zero(s, a.x), is_zero(s, a.y));
        r = (struct z){if_(s, m, a.x, r.x), if_(s, m, a.y, r.y)};
        m = either(s, is_nan(s, a.x), is_nan(s, a.y));
        return (struct z){if_(s, m, c(s, (double)NAN), r.x), if_(s, m, c(s, (double)NAN), r.y)};
    default: s->failed = true; return r;
    }
}
#undef D

static int compare(S s, int how, int ax, int ay, int bx, int by)
{
    int ex = cmp(s, RP_EQ, ax, bx);
    if (how == RP_EQ || how == RP_NE) {
        int e = both(s, ex, cmp(s, RP_EQ, ay, by));
        return how == RP_EQ ? e : un(s, RP_NOT, CPU_PRED, e);
    }
    bool less = how == RP_LT || how == RP_LE;
    return either(s, cmp(s, less ? RP_LT : RP_GT, ax, bx), both(s, ex, cmp(s, (enum rp_cmp)how, ay, by)));
}

static enum cpu_dt part(enum cpu_dt t) { return t == CPU_C64 ? CPU_F32 : CPU_F64; }

/* Instruction i, whose result or first operand is complex. */
static void instruction(S s, int i)
{
    const struct rp_ins *o = &s->p->ins[i];
    enum cpu_dt t = (enum cpu_dt)o->dt, from = rp_op_info[o->op].nsrc ? (enum cpu_dt)s->p->ins[o->src[o->op == RP_SEL ? 1 : 0]].dt : t;
    enum cpu_dt f = cpu_dt_complex(t) ? part(t) : cpu_dt_complex(from) ? part(from) : t;
    int a = s->re[o->src[0]], ai = s->im[o->src[0]], b = s->re[o->src[1]], bi = s->im[o->src[1]], p;
    int *re = &s->re[i], *im = &s->im[i];
    struct z r;
    switch ((int)o->op) {
    case RP_LD:
        *re = put(s, RP_LD, f, s->acc[o->aux], 0, 0, 0);
        *im = put(s, RP_LD, f, s->acc[o->aux] + 1, 0, 0, 0);
        return;
    case RP_ST:
        *re = put(s, RP_ST, f, s->acc[o->aux], a, 0, 0);
        *im = put(s, RP_ST, f, s->acc[o->aux] + 1, ai, 0, 0);
        return;
    case RP_CONST:
        *re = put(s, RP_CONST, f, 0, 0, 0, 0);
        *im = put(s, RP_CONST, f, 0, 0, 0, 0);
        s->ins[*re].bits[0] = t == CPU_C64 ? o->bits[0] & UINT32_MAX : o->bits[0];
        s->ins[*im].bits[0] = t == CPU_C64 ? o->bits[0] >> 32 : o->bits[1];
        return;
    case RP_IDX:
        *re = put(s, RP_IDX, f, s->acc[o->aux], 0, 0, 0);
        *im = number(s, f, 0);
        return;
    case RP_RED:
        if (o->aux != RP_SUM) s->failed = true;
        *re = put(s, RP_RED, f, o->aux, a, 0, 0);
        *im = put(s, RP_RED, f, o->aux, ai, 0, 0);
        return;
    case RP_ROW:
        *re = put(s, RP_ROW, f, 0, a, 0, 0);
        *im = put(s, RP_ROW, f, 0, ai, 0, 0);
        return;
    case RP_COPY: *re = a, *im = ai; return;
    case RP_NEG: *re = un(s, RP_NEG, f, a), *im = un(s, RP_NEG, f, ai); return;
    case RP_ADD: case RP_SUB: *re = bin(s, (enum rp_op)o->op, f, a, b), *im = bin(s, (enum rp_op)o->op, f, ai, bi); return;
    case RP_MUL:
        *re = bin(s, RP_SUB, f, bin(s, RP_MUL, f, a, b), bin(s, RP_MUL, f, ai, bi));
        *im = bin(s, RP_ADD, f, bin(s, RP_MUL, f, a, bi), bin(s, RP_MUL, f, ai, b));
        return;
    case RP_SEL:
        *re = sel(s, f, a, b, s->re[o->src[2]]);
        *im = sel(s, f, a, bi, s->im[o->src[2]]);
        return;
    case RP_CMP: *re = compare(s, o->aux, a, ai, b, bi); return;
    case RP_MAX: case RP_MIN:
        p = compare(s, o->op == RP_MAX ? RP_LT : RP_GT, a, ai, b, bi); /* then b */
        p = both(s, either(s, p, either(s, is_nan(s, b), is_nan(s, bi))), un(s, RP_NOT, CPU_PRED, either(s, is_nan(s, a), is_nan(s, ai))));
        *re = sel(s, f, p, b, a), *im = sel(s, f, p, bi, ai);
        return;
    case RP_REAL: *re = a; return;
    case RP_IMAG: *re = ai; return;
    case RP_COMPLEX: *re = a, *im = b; return;
    case RP_CVT:
        if (!cpu_dt_complex(from)) {
            *re = from == f ? a : un(s, RP_CVT, f, a);
            *im = number(s, f, 0);
        } else if (cpu_dt_complex(t)) {
            *re = un(s, RP_CVT, f, a), *im = un(s, RP_CVT, f, ai);
        } else {
            *re = un(s, RP_CVT, t, a);
        }
        return;
    case RP_ABS: {
        bool wide = from == CPU_C128;
        if (wide) s->failed = true; /* squares may overflow */
        *re = un(s, RP_CVT, f, modulus(s, (struct z){un(s, RP_CVT, CPU_F64, a), un(s, RP_CVT, CPU_F64, ai)}));
        return;
    }
    default: break;
    }
    bool two = rp_op_info[o->op].nsrc == 2;
    if (t != CPU_C64 || rp_op_info[o->op].nsrc == 0) {
        s->failed = true;
        return;
    }
    struct z u = {un(s, RP_CVT, CPU_F64, a), un(s, RP_CVT, CPU_F64, ai)}, v = {two ? un(s, RP_CVT, CPU_F64, b) : 0, two ? un(s, RP_CVT, CPU_F64, bi) : 0};
    r = function(s, (enum rp_op)o->op, u, v);
    *re = un(s, RP_CVT, f, r.x);
    *im = un(s, RP_CVT, f, r.y);
}

const struct rp_prog *emit_split_complex(const struct rp_prog *p, struct nf_arena *arena)
{
    bool any = false;
    for (int i = 0; i < p->nins; i++) any = any || cpu_dt_complex((enum cpu_dt)p->ins[i].dt);
    if (!any) return p;
    struct split own = {.p = p, .arena = arena}, *s = &own;
    struct rp_prog *r = NF_NEW(arena, struct rp_prog);
    s->re = NF_NEW_ARRAY(arena, int, (size_t)p->nins);
    s->im = NF_NEW_ARRAY(arena, int, (size_t)p->nins);
    s->acc = NF_NEW_ARRAY(arena, int, (size_t)p->nacc + 1);
    *r = *p;
    r->acc = NF_NEW_ARRAY(arena, struct rp_acc, 2 * (size_t)p->nacc + 1);
    r->nacc = 0;
    for (int a = 0; a < p->nacc; a++) {
        struct rp_acc x = p->acc[a];
        bool pair = cpu_dt_complex(x.dt) && x.arg != RP_NO_ARG;
        s->acc[a] = r->nacc;
        if (cpu_dt_complex(x.dt)) x.dt = part(x.dt);
        for (int d = 0; d < p->nd && pair; d++) s->failed = s->failed || __builtin_mul_overflow(x.stride[d], 2, &x.stride[d]);
        if (pair) s->failed = s->failed || __builtin_mul_overflow(x.base, 2, &x.base);
        r->acc[r->nacc++] = x;
        x.base++;
        if (pair) r->acc[r->nacc++] = x;
    }
    for (int i = 0; i < p->nins && !s->failed; i++) {
        const struct rp_ins *o = &p->ins[i];
        int n = o->op == RP_ROW ? 1 : rp_op_info[o->op].nsrc;
        bool cplx = cpu_dt_complex((enum cpu_dt)o->dt);
        for (int k = 0; k < n; k++) cplx = cplx || cpu_dt_complex((enum cpu_dt)p->ins[o->src[k]].dt);
        if (cplx) {
            instruction(s, i);
            continue;
        }
        bool access = o->op == RP_LD || o->op == RP_ST || o->op == RP_IDX;
        s->re[i] = put(s, (enum rp_op)o->op, (enum cpu_dt)o->dt, access ? s->acc[o->aux] : o->aux, n > 0 ? s->re[o->src[0]] : 0, n > 1 ? s->re[o->src[1]] : 0, n > 2 ? s->re[o->src[2]] : 0);
        if (!s->failed) memcpy(s->ins[s->re[i]].bits, o->bits, sizeof o->bits);
    }
    if (s->failed) return NULL;
    r->ins = s->ins;
    r->nins = s->n;
    return rp_verify(r, NULL) ? NULL : r;
}
