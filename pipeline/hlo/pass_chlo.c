/* CHLO written with StableHLO, one operation after the other: the new operations stand where the old one stood.
 *
 * Real functions work in f32 or f64; narrower types are widened to f32. The special functions (erf, gamma, zeta, Bessel) work in f64
 * whatever the type, since their expansions lose digits. asin, acos, asinh, acosh of complex numbers follow Hull, Fairgrieve and Tang:
 * sums that would cancel are written as quotients, and arguments too large or too small to be squared have branches of their own. */
#include "pipeline/hlo/pass_chlo.h"

#include <math.h>

typedef struct hlo_value *V;
typedef const struct hlo_chlo *X;

/* ---- building ---- */

V hlo__chlo_op(X x, enum hlo_op_id id, const struct hlo_type *t, uint32_t n, V const *operands)
{
    V v = hlo_build(x->m, x->at->block, x->at, id, t, n, operands);
    v->def.op->loc = x->at->loc;
    v->def.op->pos = x->at->pos;
    return v;
}

V hlo__chlo_1(X x, enum hlo_op_id id, V a) { return hlo__chlo_op(x, id, a->type, 1, &a); }
V hlo__chlo_2(X x, enum hlo_op_id id, V a, V b) { return hlo__chlo_op(x, id, a->type, 2, (V[]){a, b}); }

/* What an expansion works with: a type, and (for constants of shapes that are known at run time) a value of its shape. */
#define WORK(name, module, op, type, value)                                                                                \
    V name##_shape = NULL;                                                                                                 \
    struct hlo_chlo name = {.m = (module), .at = (op), .t = (type), .like = (value), .shape = &name##_shape}

static V splat(X x, const struct hlo_type *t, double v)
{
    V c = hlo_build_splat(x->m, x->at->block, x->at, t, v);
    c->def.op->loc = x->at->loc;
    c->def.op->pos = x->at->pos;
    return c;
}

static const struct hlo_type *i32s(X x, uint32_t rank, int64_t n) { return hlo_type_tensor(x->m, HLO_ELEM_I32, rank, &n); }

static V size_of(X x, V a, uint32_t d)
{
    if (a->type->dims[d] != HLO_DYNAMIC)
        return splat(x, i32s(x, 0, 0), (double)a->type->dims[d]);
    V v = hlo__chlo_op(x, HLO_OP_GET_DIMENSION_SIZE, i32s(x, 0, 0), 1, &a);
    hlo_op_set_attr(v->def.op, HLO_A_dimension, hlo_attr_int(x->m, HLO_ELEM_I64, d));
    return v;
}

/* Scalars as the elements of a list. */
static V list_of(X x, uint32_t n, V const *scalars)
{
    V *one = NF_NEW_ARRAY(x->m->arena, V, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        one[i] = hlo__chlo_op(x, HLO_OP_RESHAPE, i32s(x, 1, 1), 1, &scalars[i]);
    V v = hlo__chlo_op(x, HLO_OP_CONCATENATE, i32s(x, 1, n), n, one);
    hlo_op_set_attr(v->def.op, HLO_A_dimension, hlo_attr_int(x->m, HLO_ELEM_I64, 0));
    return v;
}

static V shape_of(X x, V a)
{
    V *sizes = NF_NEW_ARRAY(x->m->arena, V, (size_t)a->type->rank + 1);
    for (uint32_t d = 0; d < a->type->rank; d++)
        sizes[d] = size_of(x, a, d);
    return list_of(x, a->type->rank, sizes);
}

V hlo__chlo_const(X x, double v)
{
    if (x->t->is_static)
        return splat(x, x->t, v);
    if (!*x->shape)
        *x->shape = shape_of(x, x->like);
    V c = hlo__chlo_op(x, HLO_OP_DYNAMIC_BROADCAST_IN_DIM, x->t, 2, (V[]){splat(x, hlo_type_with_shape(x->m, x->t, 0, NULL), v), *x->shape});
    hlo_op_set_attr(c->def.op, HLO_A_broadcast_dimensions, hlo_attr_i64s(x->m, 0, NULL));
    return c;
}

V hlo__chlo_compare(X x, enum hlo_direction d, V a, V b)
{
    V v = hlo__chlo_op(x, HLO_OP_COMPARE, hlo_type_with_elem(x->m, a->type, HLO_ELEM_I1), 2, (V[]){a, b});
    hlo_op_set_attr(v->def.op, HLO_A_comparison_direction, hlo_attr_enum(x->m, HLO_ENUM_DIRECTION, d));
    return v;
}

V hlo__chlo_select(X x, V p, V a, V b) { return hlo__chlo_op(x, HLO_OP_SELECT, a->type, 3, (V[]){p, a, b}); }

#define ADD(a, b) hlo__chlo_2(x, HLO_OP_ADD, a, b)
#define SUB(a, b) hlo__chlo_2(x, HLO_OP_SUBTRACT, a, b)
#define MUL(a, b) hlo__chlo_2(x, HLO_OP_MULTIPLY, a, b)
#define DIV(a, b) hlo__chlo_2(x, HLO_OP_DIVIDE, a, b)
#define MAX(a, b) hlo__chlo_2(x, HLO_OP_MAXIMUM, a, b)
#define MIN(a, b) hlo__chlo_2(x, HLO_OP_MINIMUM, a, b)
#define ATAN2(a, b) hlo__chlo_2(x, HLO_OP_ATAN2, a, b)
#define AND(a, b) hlo__chlo_2(x, HLO_OP_AND, a, b)
#define OR(a, b) hlo__chlo_2(x, HLO_OP_OR, a, b)
#define NEG(a) hlo__chlo_1(x, HLO_OP_NEGATE, a)
#define ABS(a) hlo__chlo_1(x, HLO_OP_ABS, a)
#define SIGN(a) hlo__chlo_1(x, HLO_OP_SIGN, a)
#define EXP(a) hlo__chlo_1(x, HLO_OP_EXPONENTIAL, a)
#define EXPM1(a) hlo__chlo_1(x, HLO_OP_EXPONENTIAL_MINUS_ONE, a)
#define LOG(a) hlo__chlo_1(x, HLO_OP_LOG, a)
#define LOG1P(a) hlo__chlo_1(x, HLO_OP_LOG_PLUS_ONE, a)
#define SQRT(a) hlo__chlo_1(x, HLO_OP_SQRT, a)
#define SIN(a) hlo__chlo_1(x, HLO_OP_SINE, a)
#define COS(a) hlo__chlo_1(x, HLO_OP_COSINE, a)
#define C(v) hlo__chlo_const(x, v)
#define LT(a, b) hlo__chlo_compare(x, HLO_LT, a, b)
#define LE(a, b) hlo__chlo_compare(x, HLO_LE, a, b)
#define GE(a, b) hlo__chlo_compare(x, HLO_GE, a, b)
#define EQ(a, b) hlo__chlo_compare(x, HLO_EQ, a, b)
#define NE(a, b) hlo__chlo_compare(x, HLO_NE, a, b)
#define SEL(p, a, b) hlo__chlo_select(x, p, a, b)

static const double ln2 = 0.693147180559945309417, pi = 3.14159265358979323846;

static bool is_double(X x) { return x->t->elem == HLO_ELEM_F64; }
static double largest(X x) { return is_double(x) ? 0x1.fffffffffffffp1023 : 0x1.fffffep127; }
static double smallest(X x) { return is_double(x) ? 0x1p-1022 : 0x1p-126; }
/* |a| with the sign of b: a sign of zero counts */
static V with_sign(X x, V a, V b)
{
    V zero = EQ(b, C(0)), negative = SEL(zero, LT(DIV(C(1), b), C(0)), LT(b, C(0)));
    return SEL(negative, NEG(ABS(a)), ABS(a));
}

/* ---- real functions ---- */

static V f_square(X x, V a) { return MUL(a, a); }
static V f_atan(X x, V a) { return ATAN2(a, C(1)); }
static V f_asin(X x, V a) { return MUL(C(2), ATAN2(a, ADD(C(1), SQRT(MUL(SUB(C(1), a), ADD(C(1), a)))))); }
static V f_acos(X x, V a)
{
    V r = MUL(C(2), ATAN2(SQRT(MUL(SUB(C(1), a), ADD(C(1), a))), ADD(C(1), a)));
    return SEL(NE(a, C(-1)), r, C(pi));
}
static V f_acosh(X x, V a)
{
    V d = SUB(a, C(1)), near = LOG1P(ADD(d, MUL(SQRT(d), SQRT(ADD(a, C(1)))))), far = ADD(LOG(a), C(ln2));
    return SEL(LT(a, C(-1)), C((double)NAN), SEL(GE(a, C(largest(x) / 2)), far, near));
}
static V f_asinh(X x, V a)
{
    V m = ABS(a), sq = MUL(m, m), near = LOG1P(ADD(m, DIV(sq, ADD(C(1), SQRT(ADD(C(1), sq)))))), far = ADD(LOG(m), C(ln2));
    V r = SEL(GE(m, C(sqrt(largest(x)))), far, near);
    return SEL(EQ(a, C(0)), a, SEL(LT(a, C(0)), NEG(r), r));
}
static V f_atanh(X x, V a)
{
    V m = ABS(a), r = MUL(C(0.5), LOG1P(DIV(MUL(C(2), m), SUB(C(1), m))));
    r = SEL(LT(C(1), m), C((double)NAN), r);
    return SEL(EQ(a, C(0)), a, SEL(LT(a, C(0)), NEG(r), r));
}
static V f_cosh(X x, V a) { return ADD(EXP(ADD(a, C(-ln2))), EXP(SUB(C(-ln2), a))); }
static V f_sinh(X x, V a)
{
    V e = EXPM1(a), small = MUL(C(0.5), ADD(e, DIV(e, ADD(e, C(1)))));
    V big = SUB(EXP(ADD(a, C(-ln2))), EXP(SUB(C(-ln2), a)));
    return SEL(LT(ABS(a), C(1)), small, big);
}

/* ---- complex functions: parts in, parts out ---- */

struct parts {
    V re, im;
};
typedef struct parts (*complex_unary)(X x, struct parts z);

static V hypot_of(X x, V a, V b)
{
    V p = ABS(a), q = ABS(b), mx = MAX(p, q), mn = MIN(p, q), r = DIV(mn, mx), rr = MUL(r, r), sq = SQRT(ADD(C(1), rr));
    /* 1 + r^2 rounds to 1 for small r: the missing half of r^2 then counts */
    V gen = SEL(AND(EQ(sq, C(1)), LT(C(0), rr)), ADD(mx, MUL(mx, MUL(rr, C(0.5)))), MUL(mx, sq));
    V inf = OR(EQ(p, C((double)INFINITY)), EQ(q, C((double)INFINITY)));
    return SEL(inf, C((double)INFINITY), SEL(EQ(mx, mn), MUL(mx, C(sqrt(2))), gen));
}

/* Of z in the first quadrant (x, y >= 0): the pair that asin and acos are made of: asin z = atan2(x, az) + i im. */
static struct parts asin_kernel(X x, V u, V v)
{
    double big = sqrt(largest(x)) / 8, tiny = sqrt(smallest(x)) * 4;
    V up1 = ADD(u, C(1)), um1 = SUB(u, C(1)), r = hypot_of(x, up1, v), s = hypot_of(x, um1, v);
    V a = MUL(C(0.5), ADD(r, s)), vv = MUL(v, v), half_vv = MUL(C(0.5), vv), half_au = MUL(C(0.5), ADD(a, u));
    V r_up1 = ADD(r, up1), s_um1 = ADD(s, um1), s_1mu = SUB(s, um1), inside = LE(u, C(1));
    V az = SEL(inside, SQRT(MUL(half_au, ADD(DIV(vv, r_up1), s_1mu))),
        MUL(v, SQRT(ADD(DIV(half_au, r_up1), DIV(half_au, s_um1)))));
    V am1_in = ADD(DIV(half_vv, r_up1), DIV(half_vv, s_1mu)), am1_out = ADD(DIV(half_vv, r_up1), MUL(C(0.5), s_um1));
    V am1 = SEL(LT(u, C(1)), am1_in, am1_out);
    am1 = SEL(LE(a, C(1.5)), am1, SUB(a, C(1)));
    V im = LOG1P(ADD(am1, SQRT(MUL(am1, ADD(a, C(1))))));
    /* v^2 would vanish: the limits of the above */
    V flat = LT(v, MUL(C(tiny), ABS(um1)));
    V im_flat = SEL(LT(u, C(1)), DIV(v, SQRT(MUL(SUB(C(1), u), up1))), LOG1P(ADD(um1, SQRT(MUL(um1, up1)))));
    V az_flat = SEL(inside, SQRT(MUL(SUB(C(1), u), up1)), MUL(v, DIV(u, SQRT(MUL(um1, up1)))));
    az_flat = SEL(inside, az_flat, MUL(v, SQRT(ADD(DIV(MUL(C(0.5), MUL(C(2), u)), MUL(C(2), up1)), DIV(MUL(C(0.5), MUL(C(2), u)), MUL(C(2), um1))))));
    V corner = AND(LT(v, C(tiny)), EQ(u, C(1)));
    im = SEL(corner, SQRT(v), SEL(flat, im_flat, im));
    az = SEL(corner, SQRT(v), SEL(flat, az_flat, az));
    /* large: |z| with the logarithm of its parts */
    V mx = MAX(u, v), mn = MIN(u, v), ratio = DIV(mn, mx);
    V ratio_or_1 = SEL(EQ(mn, mx), C(1), ratio);
    V im_far = ADD(ADD(C(ln2), LOG(mx)), MUL(C(0.5), LOG1P(MUL(ratio_or_1, ratio_or_1))));
    V far = GE(mx, C(big));
    return (struct parts){SEL(far, v, az), SEL(far, im_far, im)};
}

static V is_nan(X x, V a) { return NE(a, a); }

static struct parts c_asin(X x, struct parts z)
{
    struct parts k = asin_kernel(x, ABS(z.re), ABS(z.im));
    V re = ATAN2(ABS(z.re), k.re);
    /* C99's special values where a part is not a number */
    V bad = OR(is_nan(x, z.re), is_nan(x, z.im)), inf_im = EQ(ABS(z.im), C((double)INFINITY)), inf_re = EQ(ABS(z.re), C((double)INFINITY));
    V im = SEL(bad, SEL(OR(inf_im, inf_re), C((double)INFINITY), C((double)NAN)), k.im);
    re = SEL(bad, SEL(EQ(z.re, C(0)), C(0), C((double)NAN)), re);
    return (struct parts){with_sign(x, re, z.re), SEL(is_nan(x, z.im), im, with_sign(x, im, z.im))};
}

static struct parts c_acos(X x, struct parts z)
{
    struct parts k = asin_kernel(x, ABS(z.re), ABS(z.im));
    V re = ATAN2(k.re, z.re);
    V bad = OR(is_nan(x, z.re), is_nan(x, z.im)), inf_im = EQ(ABS(z.im), C((double)INFINITY)), inf_re = EQ(ABS(z.re), C((double)INFINITY));
    V im = SEL(bad, SEL(OR(inf_im, inf_re), C((double)INFINITY), C((double)NAN)), k.im);
    re = SEL(bad, SEL(EQ(z.re, C(0)), C(pi / 2), C((double)NAN)), re);
    return (struct parts){re, NEG(SEL(is_nan(x, z.im), NEG(im), with_sign(x, im, z.im)))};
}

/* acosh z is acos z turned by a right angle, into the half plane of positive real parts */
static struct parts c_acosh(X x, struct parts z)
{
    struct parts a = c_acos(x, z);
    V im = SEL(EQ(z.im, C(0)), with_sign(x, a.re, z.im), SEL(LT(z.im, C(0)), NEG(a.re), a.re));
    return (struct parts){ABS(a.im), im};
}

static struct parts c_asinh(X x, struct parts z)
{
    struct parts a = c_asin(x, (struct parts){z.im, z.re});
    return (struct parts){a.im, a.re};
}

/* atanh z = log((1 + z)/(1 - z))/2 with the sums written so that nothing cancels or overflows */
static struct parts c_atanh(X x, struct parts z)
{
    double big = sqrt(largest(x)) / 4, tiny = sqrt(smallest(x)) * 2;
    V u = ABS(z.re), v = ABS(z.im), d = SUB(C(1), u), vv = MUL(v, v);
    V den = ADD(MUL(d, d), vv), mx = MAX(u, v), mn = MIN(u, v), ratio = DIV(mn, mx);
    V near = MUL(C(0.25), LOG1P(DIV(MUL(C(4), u), den)));
    /* on the pole's line with a v whose square vanishes: |4u/v^2| by its logarithm */
    V at_pole = MUL(C(0.5), SUB(LOG(C(2)), LOG(v)));
    V far = DIV(DIV(DIV(u, mx), mx), ADD(C(1), MUL(ratio, ratio)));
    V inf = OR(EQ(u, C((double)INFINITY)), EQ(v, C((double)INFINITY)));
    V re = SEL(GE(mx, C(big)), SEL(inf, C(0), far), SEL(AND(EQ(u, C(1)), LT(v, C(tiny))), at_pole, near));
    V im = MUL(C(0.5), ATAN2(MUL(C(2), v), SUB(MUL(d, ADD(C(1), u)), vv)));
    im = SEL(GE(mx, C(big)), C(pi / 2), im);
    im = SEL(AND(EQ(v, C(0)), LE(u, C(1))), C(0), im);
    V bad = OR(is_nan(x, z.re), is_nan(x, z.im));
    re = SEL(bad, SEL(OR(EQ(u, C((double)INFINITY)), AND(EQ(v, C((double)INFINITY)), is_nan(x, u))), C(0), SEL(EQ(u, C(0)), u, C((double)NAN))), re);
    im = SEL(bad, SEL(EQ(v, C((double)INFINITY)), C(pi / 2), C((double)NAN)), im);
    return (struct parts){with_sign(x, re, z.re), with_sign(x, im, z.im)};
}

static struct parts c_atan(X x, struct parts z)
{
    struct parts a = c_atanh(x, (struct parts){z.im, z.re}); /* i atan z = atanh(i z), both odd */
    return (struct parts){a.im, a.re};
}

static struct parts c_square(X x, struct parts z)
{
    V p = ABS(z.re), q = ABS(z.im), same = AND(EQ(p, q), LT(p, C((double)INFINITY)));
    return (struct parts){SEL(same, C(0), MUL(SUB(z.re, z.im), ADD(z.re, z.im))), MUL(C(2), MUL(z.re, z.im))};
}

static struct parts c_sinh(X x, struct parts z)
{
    V zero = EQ(z.im, C(0));
    return (struct parts){SEL(zero, f_sinh(x, z.re), MUL(f_sinh(x, z.re), COS(z.im))), SEL(zero, z.im, MUL(f_cosh(x, z.re), SIN(z.im)))};
}

static struct parts c_cosh(X x, struct parts z)
{
    V zero = EQ(z.im, C(0));
    return (struct parts){SEL(zero, f_cosh(x, z.re), MUL(f_cosh(x, z.re), COS(z.im))), SEL(zero, MUL(SIGN(z.re), z.im), MUL(f_sinh(x, z.re), SIN(z.im)))};
}

/* ---- which operation is which ---- */

static const struct unary {
    enum hlo_op_id id;
    hlo_chlo_unary real;
    complex_unary complex;
    bool in_f64;                /* real: whatever the type */
} unaries[] = {
    {HLO_OP_CHLO_SQUARE, f_square, c_square, false}, {HLO_OP_CHLO_ATAN, f_atan, c_atan, false}, {HLO_OP_CHLO_ASIN, f_asin, c_asin, false},
    {HLO_OP_CHLO_ACOS, f_acos, c_acos, false}, {HLO_OP_CHLO_ACOSH, f_acosh, c_acosh, false}, {HLO_OP_CHLO_ASINH, f_asinh, c_asinh, false},
    {HLO_OP_CHLO_ATANH, f_atanh, c_atanh, false}, {HLO_OP_CHLO_COSH, f_cosh, c_cosh, false}, {HLO_OP_CHLO_SINH, f_sinh, c_sinh, false},
    {HLO_OP_CHLO_ERF, hlo__chlo_erf, NULL, true}, {HLO_OP_CHLO_ERFC, hlo__chlo_erfc, NULL, true}, {HLO_OP_CHLO_ERF_INV, hlo__chlo_erf_inv, NULL, true},
    {HLO_OP_CHLO_LGAMMA, hlo__chlo_lgamma, NULL, true}, {HLO_OP_CHLO_DIGAMMA, hlo__chlo_digamma, NULL, true},
    {HLO_OP_CHLO_BESSEL_I1E, hlo__chlo_bessel_i1e, NULL, true},
};

static V convert(X x, V a, enum hlo_elem e)
{
    return a->type->elem == e ? a : hlo__chlo_op(x, HLO_OP_CONVERT, hlo_type_with_elem(x->m, a->type, e), 1, &a);
}

static enum hlo_elem working(enum hlo_elem e, bool in_f64) { return e == HLO_ELEM_F64 || in_f64 ? HLO_ELEM_F64 : HLO_ELEM_F32; }

static V expand_unary(struct hlo_module *m, struct hlo_op *op, const struct unary *u)
{
    V a = op->operands[0].value;
    WORK(own, m, op, NULL, a);
    X x = &own;
    enum hlo_elem e = a->type->elem;
    if (hlo_elem_class(e) == HLO_CLASS_COMPLEX) {
        if (!u->complex)
            return NULL;
        own.t = hlo_type_with_elem(m, a->type, hlo_elem_part(e));
        struct parts z = {hlo__chlo_op(x, HLO_OP_REAL, own.t, 1, &a), hlo__chlo_op(x, HLO_OP_IMAG, own.t, 1, &a)}, r = u->complex(x, z);
        return hlo__chlo_op(x, HLO_OP_COMPLEX, a->type, 2, (V[]){r.re, r.im});
    }
    if (u->id == HLO_OP_CHLO_SQUARE)
        return MUL(a, a);
    enum hlo_elem w = working(e, u->in_f64);
    own.t = hlo_type_with_elem(m, a->type, w);
    return convert(x, u->real(x, convert(x, a, w)), e);
}

static V expand_pair(struct hlo_module *m, struct hlo_op *op, enum hlo_op_id id, V a, V b)
{
    WORK(own, m, op, hlo_type_with_elem(m, a->type, HLO_ELEM_F64), a);
    X x = &own;
    V p = convert(x, a, HLO_ELEM_F64), q = convert(x, b, HLO_ELEM_F64);
    return convert(x, id == HLO_OP_CHLO_ZETA || id == HLO_OP_CHLO_BROADCAST_ZETA ? hlo__chlo_zeta(x, p, q) : hlo__chlo_polygamma(x, p, q), a->type->elem);
}

/* The neighbour of a towards b, by its bits. */
static V next_after(struct hlo_module *m, struct hlo_op *op, V a, V b)
{
    unsigned bits = hlo_elem_bits(a->type->elem);
    enum hlo_elem ie = bits == 64 ? HLO_ELEM_I64 : bits == 32 ? HLO_ELEM_I32 : bits == 16 ? HLO_ELEM_I16 : HLO_ELEM_I8;
    WORK(own, m, op, hlo_type_with_elem(m, a->type, ie), a);
    WORK(flt, m, op, a->type, a);
    X x = &own;
    if (bits < 8)
        return NULL;
    V ia = hlo__chlo_op(x, HLO_OP_BITCAST_CONVERT, own.t, 1, &a), ib = hlo__chlo_op(x, HLO_OP_BITCAST_CONVERT, own.t, 1, &b);
    V top = hlo__chlo_2(x, HLO_OP_SHIFT_LEFT, C(1), C((double)bits - 1)), low = hlo__chlo_1(x, HLO_OP_NOT, top);
    V ma = AND(ia, low), mb = AND(ib, low), sa = AND(ia, top), sb = AND(ib, top);
    V away = AND(EQ(sa, sb), LT(ma, mb));
    V step = SEL(away, ADD(ia, C(1)), SUB(ia, C(1)));
    V r = SEL(EQ(ma, C(0)), OR(sb, C(1)), step);
    r = SEL(hlo__chlo_compare(&flt, HLO_EQ, a, b), ib, r);
    r = SEL(hlo__chlo_compare(&flt, HLO_NE, b, b), ib, r);
    r = SEL(hlo__chlo_compare(&flt, HLO_NE, a, a), ia, r);
    return hlo__chlo_op(x, HLO_OP_BITCAST_CONVERT, a->type, 1, &r);
}

/* The upper half of the double-width product. */
static V mulhi(struct hlo_module *m, struct hlo_op *op, V a, V b)
{
    enum hlo_elem e = a->type->elem;
    unsigned bits = hlo_elem_bits(e);
    bool sign = hlo_elem_class(e) == HLO_CLASS_SINT;
    enum hlo_op_id shift = sign ? HLO_OP_SHIFT_RIGHT_ARITHMETIC : HLO_OP_SHIFT_RIGHT_LOGICAL;
    WORK(own, m, op, hlo_type_with_elem(m, a->type, sign ? HLO_ELEM_I64 : HLO_ELEM_UI64), a);
    X x = &own;
    V p = convert(x, a, own.t->elem), q = convert(x, b, own.t->elem);
    if (bits < 64)
        return convert(x, hlo__chlo_2(x, shift, MUL(p, q), C(bits)), e);
    /* 64 bits: upper halves carry the sign, lower ones do not */
    V half = C(32), mask = hlo__chlo_2(x, HLO_OP_SHIFT_RIGHT_LOGICAL, hlo__chlo_1(x, HLO_OP_NOT, C(0)), half);
    V al = AND(p, mask), bl = AND(q, mask), ah = hlo__chlo_2(x, shift, p, half), bh = hlo__chlo_2(x, shift, q, half);
    V low = hlo__chlo_2(x, HLO_OP_SHIFT_RIGHT_LOGICAL, MUL(al, bl), half), mid = ADD(MUL(ah, bl), low);
    V mid2 = ADD(MUL(al, bh), AND(mid, mask));
    return ADD(ADD(MUL(ah, bh), hlo__chlo_2(x, shift, mid, half)), hlo__chlo_2(x, shift, mid2, half));
}

/* ---- broadcasts ---- */

static const struct {
    enum hlo_op_id chlo, plain;
} broadcasts[] = {
    {HLO_OP_CHLO_BROADCAST_ADD, HLO_OP_ADD}, {HLO_OP_CHLO_BROADCAST_AND, HLO_OP_AND}, {HLO_OP_CHLO_BROADCAST_ATAN2, HLO_OP_ATAN2},
    {HLO_OP_CHLO_BROADCAST_DIVIDE, HLO_OP_DIVIDE}, {HLO_OP_CHLO_BROADCAST_MAXIMUM, HLO_OP_MAXIMUM}, {HLO_OP_CHLO_BROADCAST_MINIMUM, HLO_OP_MINIMUM},
    {HLO_OP_CHLO_BROADCAST_MULTIPLY, HLO_OP_MULTIPLY}, {HLO_OP_CHLO_BROADCAST_OR, HLO_OP_OR}, {HLO_OP_CHLO_BROADCAST_POWER, HLO_OP_POWER},
    {HLO_OP_CHLO_BROADCAST_REMAINDER, HLO_OP_REMAINDER}, {HLO_OP_CHLO_BROADCAST_SHIFT_LEFT, HLO_OP_SHIFT_LEFT},
    {HLO_OP_CHLO_BROADCAST_SHIFT_RIGHT_ARITHMETIC, HLO_OP_SHIFT_RIGHT_ARITHMETIC},
    {HLO_OP_CHLO_BROADCAST_SHIFT_RIGHT_LOGICAL, HLO_OP_SHIFT_RIGHT_LOGICAL}, {HLO_OP_CHLO_BROADCAST_SUBTRACT, HLO_OP_SUBTRACT},
    {HLO_OP_CHLO_BROADCAST_XOR, HLO_OP_XOR}, {HLO_OP_CHLO_BROADCAST_COMPLEX, HLO_OP_COMPLEX}, {HLO_OP_CHLO_BROADCAST_COMPARE, HLO_OP_COMPARE},
    {HLO_OP_CHLO_BROADCAST_SELECT, HLO_OP_SELECT}, {HLO_OP_CHLO_BROADCAST_NEXT_AFTER, HLO_OP_CHLO_NEXT_AFTER},
    {HLO_OP_CHLO_BROADCAST_ZETA, HLO_OP_CHLO_ZETA}, {HLO_OP_CHLO_BROADCAST_POLYGAMMA, HLO_OP_CHLO_POLYGAMMA},
};

/* The dimension of the result that dimension i of the operand goes to. */
static int64_t goes_to(V a, uint32_t i, uint32_t rank, struct hlo_ints dims)
{
    return dims.n == a->type->rank && dims.n != rank ? dims.v[i] : (int64_t)(rank - a->type->rank + i);
}

/* Sizes of the result at run time: of each dimension that of the first operand that has not 1 there. */
static V joint_shape(X x, const struct hlo_op *op, const struct hlo_type *r, struct hlo_ints dims)
{
    V sizes[64];
    for (uint32_t d = 0; d < r->rank; d++) {
        V size = NULL, one = splat(x, i32s(x, 0, 0), 1);
        for (uint32_t i = 0; i < op->num_operands; i++) {
            V a = op->operands[i].value;
            for (uint32_t k = 0; k < a->type->rank; k++) {
                if (goes_to(a, k, r->rank, dims) != d || a->type->dims[k] == 1)
                    continue;
                V s = size_of(x, a, k);
                size = size ? hlo__chlo_select(x, hlo__chlo_compare(x, HLO_EQ, size, one), s, size) : s;
            }
        }
        sizes[d] = r->dims[d] != HLO_DYNAMIC ? splat(x, i32s(x, 0, 0), (double)r->dims[d]) : size ? size : one;
    }
    return list_of(x, r->rank, sizes);
}

/* shape: NULL where the result's is static */
static V spread(X x, V a, const struct hlo_type *r, V shape, struct hlo_ints dims)
{
    const struct hlo_type *t = hlo_type_with_shape(x->m, a->type, r->rank, r->dims);
    if (t == a->type && !shape)
        return a;
    int64_t map[64];
    for (uint32_t i = 0; i < a->type->rank; i++)
        map[i] = goes_to(a, i, r->rank, dims);
    V v = shape ? hlo__chlo_op(x, HLO_OP_DYNAMIC_BROADCAST_IN_DIM, t, 2, (V[]){a, shape}) : hlo__chlo_op(x, HLO_OP_BROADCAST_IN_DIM, t, 1, &a);
    hlo_op_set_attr(v->def.op, HLO_A_broadcast_dimensions, hlo_attr_i64s(x->m, a->type->rank, map));
    return v;
}

static V expand_broadcast(struct hlo_module *m, struct hlo_op *op, enum hlo_op_id plain)
{
    const struct hlo_type *r = op->results[0].type;
    WORK(own, m, op, r, NULL);
    X x = &own;
    struct hlo_ints dims = plain == HLO_OP_SELECT ? (struct hlo_ints){0, NULL} : hlo_op_i64s(op, HLO_A_broadcast_dimensions);
    V in[3];
    if (r->rank > 64)
        return NULL;
    bool fixed = r->is_static;
    for (uint32_t i = 0; i < op->num_operands; i++)
        fixed = fixed && op->operands[i].value->type->is_static;
    V shape = fixed ? NULL : joint_shape(x, op, r, dims);
    for (uint32_t i = 0; i < op->num_operands; i++)
        in[i] = spread(x, op->operands[i].value, r, shape, dims);
    switch ((int)plain) {
    case HLO_OP_CHLO_NEXT_AFTER:
        return next_after(m, op, in[0], in[1]);
    case HLO_OP_CHLO_ZETA: case HLO_OP_CHLO_POLYGAMMA:
        return expand_pair(m, op, plain, in[0], in[1]);
    default:
        break;
    }
    V v = hlo__chlo_op(x, plain, r, op->num_operands, in);
    if (plain == HLO_OP_COMPARE) {
        hlo_op_set_attr(v->def.op, HLO_A_comparison_direction, hlo_op_attr(op, HLO_A_comparison_direction));
        hlo_op_set_attr(v->def.op, HLO_A_compare_type, hlo_op_attr(op, HLO_A_compare_type));
    }
    return v;
}

/* ---- top_k: a stable sort with the positions, cut ---- */

static bool expand_top_k(struct hlo_module *m, struct hlo_op *op, V *ret)
{
    V a = op->operands[0].value;
    const struct hlo_type *t = a->type, *it = hlo_type_with_elem(m, t, op->results[1].type->elem);
    WORK(own, m, op, t, a);
    X x = &own;
    uint32_t last = t->rank - 1;
    if (!t->rank || t->rank > 64)
        return false;
    V shape = t->is_static ? NULL : shape_of(x, a), iota = hlo__chlo_op(x, shape ? HLO_OP_DYNAMIC_IOTA : HLO_OP_IOTA, it, shape ? 1 : 0, &shape);
    hlo_op_set_attr(iota->def.op, HLO_A_iota_dimension, hlo_attr_int(m, HLO_ELEM_I64, last));
    struct hlo_op *sort = hlo_op_new(m, HLO_OP_SORT, 2, (V[]){a, iota}, 2, (const struct hlo_type *[]){t, it}, 1);
    hlo_op_set_attr(sort, HLO_A_dimension, hlo_attr_int(m, HLO_ELEM_I64, last));
    hlo_op_set_attr(sort, HLO_A_is_stable, hlo_attr_bool(m, true));
    sort->loc = op->loc;
    sort->pos = op->pos;
    struct hlo_block *b = hlo_block_new(m, sort->regions[0]);
    const struct hlo_type *se = hlo_type_tensor(m, t->elem, 0, NULL), *si = hlo_type_tensor(m, it->elem, 0, NULL), *sb = hlo_type_tensor(m, HLO_ELEM_I1, 0, NULL);
    V p = hlo_block_add_arg(m, b, se), q = hlo_block_add_arg(m, b, se);
    (void)hlo_block_add_arg(m, b, si);
    (void)hlo_block_add_arg(m, b, si);
    V gt = hlo_build(m, b, NULL, HLO_OP_COMPARE, sb, 2, (V[]){p, q});
    hlo_op_set_attr(gt->def.op, HLO_A_comparison_direction, hlo_attr_enum(m, HLO_ENUM_DIRECTION, HLO_GT));
    if (hlo_elem_class(t->elem) == HLO_CLASS_FLOAT)
        hlo_op_set_attr(gt->def.op, HLO_A_compare_type, hlo_attr_enum(m, HLO_ENUM_COMPARE_TYPE, HLO_COMPARE_TOTALORDER));
    hlo_block_append(b, hlo_op_new(m, HLO_OP_RETURN, 1, &gt, 0, NULL, 0));
    hlo_block_insert(op->block, op, sort);
    for (uint32_t i = 0; i < 2; i++) {
        int64_t zeros[64] = {0}, ones[64], limits[64];
        if (shape) { /* all of the other dimensions, k of the last */
            V limit[64], at[2];
            for (uint32_t k = 0; k < t->rank; k++)
                limit[k] = k == last ? splat(x, i32s(x, 0, 0), (double)hlo_op_i64(op, HLO_A_k, 0)) : size_of(x, a, k);
            for (int k = 0; k < 2; k++)
                at[k] = splat(x, i32s(x, 1, t->rank), k);
            ret[i] = hlo__chlo_op(x, HLO_OP_REAL_DYNAMIC_SLICE, op->results[i].type, 4, (V[]){&sort->results[i], at[0], list_of(x, t->rank, limit), at[1]});
            continue;
        }
        for (uint32_t k = 0; k < t->rank; k++) {
            ones[k] = 1;
            limits[k] = op->results[i].type->dims[k];
        }
        ret[i] = hlo__chlo_op(x, HLO_OP_SLICE, op->results[i].type, 1, (V[]){&sort->results[i]});
        hlo_op_set_attr(ret[i]->def.op, HLO_A_start_indices, hlo_attr_i64s(m, t->rank, zeros));
        hlo_op_set_attr(ret[i]->def.op, HLO_A_limit_indices, hlo_attr_i64s(m, t->rank, limits));
        hlo_op_set_attr(ret[i]->def.op, HLO_A_strides, hlo_attr_i64s(m, t->rank, ones));
    }
    return true;
}

/* ---- ragged_dot ----
 *
 * Groups are runs of the ragged dimension of the left operand. A free ragged dimension: for each group the product with its matrix of
 * the right operand, kept in the group's rows. A contracted one: for each group a product with zeros outside it, one behind the other.
 * A batch dimension: the groups do not matter. */

/* i1 of the left operand's shape: group g holds the element. group_sizes: one list, or one a batch (and free) index in front. */
static V group_mask(X x, V lhs, V sizes, const struct hlo_ragged_dot *d, int64_t g)
{
    const struct hlo_type *st = sizes->type;
    uint32_t gr = st->rank;
    int64_t ragged = d->lhs_ragged.v[0], start[64], limit[64], ones[64], map[64];
    const struct hlo_type *it = hlo_type_with_elem(x->m, lhs->type, st->elem), *cut_t;
    for (uint32_t i = 0; i < gr; i++) {
        start[i] = 0;
        ones[i] = 1;
        limit[i] = st->dims[i];
    }
    V bounds[2];
    for (int which = 0; which < 2; which++) { /* sums of the sizes before group g, and through it */
        V sum = NULL;
        int64_t dims[64];
        uint32_t n = 0;
        for (uint32_t i = 0; i + 1 < gr; i++)
            dims[n++] = st->dims[i];
        cut_t = hlo_type_tensor(x->m, st->elem, n, dims);
        for (int64_t k = 0; k < g + which; k++) {
            int64_t cut[64];
            for (uint32_t i = 0; i < gr; i++)
                cut[i] = st->dims[i];
            start[gr - 1] = k;
            limit[gr - 1] = k + 1;
            cut[gr - 1] = 1;
            V one = hlo__chlo_op(x, HLO_OP_SLICE, hlo_type_tensor(x->m, st->elem, gr, cut), 1, &sizes);
            hlo_op_set_attr(one->def.op, HLO_A_start_indices, hlo_attr_i64s(x->m, gr, start));
            hlo_op_set_attr(one->def.op, HLO_A_limit_indices, hlo_attr_i64s(x->m, gr, limit));
            hlo_op_set_attr(one->def.op, HLO_A_strides, hlo_attr_i64s(x->m, gr, ones));
            one = hlo__chlo_op(x, HLO_OP_RESHAPE, cut_t, 1, &one);
            sum = sum ? ADD(sum, one) : one;
        }
        struct hlo_chlo cut_x = {x->m, x->at, cut_t};
        if (!sum)
            sum = hlo__chlo_const(&cut_x, 0);
        /* leading dimensions of the sizes are the batch dimensions, then free ones in front of the ragged one */
        uint32_t q = 0;
        for (size_t i = 0; i < d->lhs_batching.n && q < n; i++)
            if (d->lhs_batching.v[i] != ragged)
                map[q++] = d->lhs_batching.v[i];
        for (int64_t i = 0; i < (int64_t)lhs->type->rank && q < n; i++) {
            bool taken = i == ragged;
            for (size_t k = 0; k < d->lhs_batching.n; k++)
                taken = taken || d->lhs_batching.v[k] == i;
            for (size_t k = 0; k < d->lhs_contracting.n; k++)
                taken = taken || d->lhs_contracting.v[k] == i;
            if (!taken)
                map[q++] = i;
        }
        if (q != n)
            return NULL;
        bounds[which] = hlo__chlo_op(x, HLO_OP_BROADCAST_IN_DIM, it, 1, &sum);
        hlo_op_set_attr(bounds[which]->def.op, HLO_A_broadcast_dimensions, hlo_attr_i64s(x->m, n, map));
    }
    V at = hlo__chlo_op(x, HLO_OP_IOTA, it, 0, NULL);
    hlo_op_set_attr(at->def.op, HLO_A_iota_dimension, hlo_attr_int(x->m, HLO_ELEM_I64, ragged));
    return AND(GE(at, bounds[0]), LT(at, bounds[1]));
}

static V dot(X x, V l, V r, const struct hlo_type *t, const struct hlo_dot *d, const struct hlo_attr *precision)
{
    V v = hlo__chlo_op(x, HLO_OP_DOT_GENERAL, t, 2, (V[]){l, r});
    hlo_op_set_attr(v->def.op, HLO_A_dot_dimension_numbers, hlo_attr_dot(x->m, d));
    if (precision)
        hlo_op_set_attr(v->def.op, HLO_A_precision_config, precision);
    return v;
}

static V expand_ragged_dot(struct hlo_module *m, struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_ragged_dot_dimension_numbers), *precision = hlo_op_attr(op, HLO_A_precision_config);
    V l = op->operands[0].value, r = op->operands[1].value, sizes = op->operands[2].value;
    const struct hlo_type *out = op->results[0].type;
    WORK(own, m, op, l->type, l);
    X x = &own;
    if (!a || a->kind != HLO_ATTR_RAGGED_DOT || a->ragged->lhs_ragged.n != 1 || !sizes->type->rank || l->type->rank > 60 || r->type->rank > 60 || sizes->type->rank > 60)
        return NULL;
    const struct hlo_ragged_dot *d = a->ragged;
    struct hlo_dot plain = {d->lhs_batching, d->rhs_batching, d->lhs_contracting, d->rhs_contracting};
    int64_t ragged = d->lhs_ragged.v[0], groups = sizes->type->dims[sizes->type->rank - 1];
    for (size_t i = 0; i < d->lhs_batching.n; i++)
        if (d->lhs_batching.v[i] == ragged)
            return dot(x, l, r, out, &plain, precision);
    if (groups < 1 || groups > 4096)
        return NULL;
    bool contracted = false;
    for (size_t i = 0; i < d->lhs_contracting.n; i++)
        contracted = contracted || d->lhs_contracting.v[i] == ragged;
    V zero = C(0), sum = NULL;
    if (contracted) { /* one product a group, stacked in front */
        const struct hlo_type *one_t = hlo_type_with_shape(m, out, out->rank - 1, out->dims + 1);
        int64_t dims[64], map[64];
        dims[0] = 1;
        for (uint32_t i = 1; i < out->rank; i++) {
            dims[i] = out->dims[i];
            map[i - 1] = i;
        }
        const struct hlo_type *row_t = hlo_type_with_shape(m, out, out->rank, dims);
        V *rows = NF_NEW_ARRAY(m->arena, V, groups);
        for (int64_t g = 0; g < groups; g++) {
            V mask = group_mask(x, l, sizes, d, g);
            if (!mask)
                return NULL;
            V p = dot(x, SEL(mask, l, zero), r, one_t, &plain, precision);
            rows[g] = hlo__chlo_op(x, HLO_OP_BROADCAST_IN_DIM, row_t, 1, &p);
            hlo_op_set_attr(rows[g]->def.op, HLO_A_broadcast_dimensions, hlo_attr_i64s(m, out->rank - 1, map));
        }
        V all = hlo__chlo_op(x, HLO_OP_CONCATENATE, out, (uint32_t)groups, rows);
        hlo_op_set_attr(all->def.op, HLO_A_dimension, hlo_attr_int(m, HLO_ELEM_I64, 0));
        return all;
    }
    /* rows of a group meet its matrix: zeros elsewhere, so the products can be added up */
    if (d->rhs_group.n != 1)
        return NULL;
    int64_t gd = d->rhs_group.v[0], start[64], limit[64], ones[64], dims[64], batching[64], contracting[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->type->rank; i++) {
        start[i] = 0;
        ones[i] = 1;
        limit[i] = r->type->dims[i];
        if (i != gd)
            dims[n++] = r->type->dims[i];
    }
    for (size_t i = 0; i < d->rhs_batching.n; i++)
        batching[i] = d->rhs_batching.v[i] - (d->rhs_batching.v[i] > gd);
    for (size_t i = 0; i < d->rhs_contracting.n; i++)
        contracting[i] = d->rhs_contracting.v[i] - (d->rhs_contracting.v[i] > gd);
    plain.rhs_batching = hlo_ints_copy(m, d->rhs_batching.n, batching);
    plain.rhs_contracting = hlo_ints_copy(m, d->rhs_contracting.n, contracting);
    const struct hlo_type *matrix_t = hlo_type_with_shape(m, r->type, n, dims);
    for (int64_t g = 0; g < groups; g++) {
        int64_t cut[64];
        for (uint32_t i = 0; i < r->type->rank; i++)
            cut[i] = r->type->dims[i];
        start[gd] = g;
        limit[gd] = g + 1;
        cut[gd] = 1;
        V matrix = hlo__chlo_op(x, HLO_OP_SLICE, hlo_type_with_shape(m, r->type, r->type->rank, cut), 1, &r);
        hlo_op_set_attr(matrix->def.op, HLO_A_start_indices, hlo_attr_i64s(m, r->type->rank, start));
        hlo_op_set_attr(matrix->def.op, HLO_A_limit_indices, hlo_attr_i64s(m, r->type->rank, limit));
        hlo_op_set_attr(matrix->def.op, HLO_A_strides, hlo_attr_i64s(m, r->type->rank, ones));
        matrix = hlo__chlo_op(x, HLO_OP_RESHAPE, matrix_t, 1, &matrix);
        V mask = group_mask(x, l, sizes, d, g);
        if (!mask)
            return NULL;
        V p = dot(x, SEL(mask, l, zero), matrix, out, &plain, precision);
        sum = sum ? ADD(sum, p) : p;
    }
    return sum;
}

/* ---- scan: a loop over slices ---- */

static V index_constant(X x, double v)
{
    WORK(scalar, x->m, x->at, hlo_type_tensor(x->m, HLO_ELEM_I64, 0, NULL), NULL);
    return hlo__chlo_const(&scalar, v);
}

static bool expand_scan(struct hlo_module *m, struct hlo_op *op, V *ret)
{
    WORK(own, m, op, NULL, NULL);
    X x = &own;
    struct hlo_block *old = op->regions[0]->first;
    int64_t dim = hlo_op_i64(op, HLO_A_dimension, 0), steps = hlo_op_i64(op, HLO_A_scan_dim_size, -1);
    bool reverse = hlo_op_bool(op, HLO_A_is_reverse, false);
    uint32_t carries = 0;
    for (uint32_t i = 0; i < op->num_operands; i++) /* an input loses a dimension in the region, a carry does not */
        carries += i < old->num_args && old->args[i]->type->rank == op->operands[i].value->type->rank;
    uint32_t ins = op->num_operands - carries, outs = op->num_results - carries;
    if (ins)
        steps = op->operands[0].value->type->dims[dim];
    if (steps < 0 || op->num_operands > 60 || op->num_results > 60 || old->num_args != op->num_operands || carries > op->num_results)
        return false;
    /* state: counter, carries, outputs */
    uint32_t n = 1 + carries + outs;
    V *state = NF_NEW_ARRAY(m->arena, V, n), *args = NF_NEW_ARRAY(m->arena, V, n), *back = NF_NEW_ARRAY(m->arena, V, n);
    const struct hlo_type **types = NF_NEW_ARRAY(m->arena, const struct hlo_type *, n);
    state[0] = index_constant(x, 0);
    for (uint32_t i = 0; i < carries; i++)
        state[1 + i] = op->operands[ins + i].value;
    for (uint32_t i = 0; i < outs; i++) {
        struct hlo_chlo o = {m, op, op->results[i].type};
        state[1 + carries + i] = hlo__chlo_const(&o, 0);
    }
    for (uint32_t i = 0; i < n; i++)
        types[i] = state[i]->type;
    V zero = index_constant(x, 0), one = index_constant(x, 1), last = index_constant(x, (double)steps - 1), end = index_constant(x, (double)steps);
    struct hlo_op *loop = hlo_op_new(m, HLO_OP_WHILE, n, state, n, types, 2);
    loop->loc = op->loc;
    loop->pos = op->pos;
    hlo_block_insert(op->block, op, loop);
    struct hlo_block *cond = hlo_block_new(m, loop->regions[0]), *body = hlo_block_new(m, loop->regions[1]);
    V at = NULL;
    for (uint32_t i = 0; i < n; i++) {
        V c = hlo_block_add_arg(m, cond, types[i]);
        at = i ? at : c;
    }
    V go = hlo_build(m, cond, NULL, HLO_OP_COMPARE, hlo_type_tensor(m, HLO_ELEM_I1, 0, NULL), 2, (V[]){at, end});
    hlo_op_set_attr(go->def.op, HLO_A_comparison_direction, hlo_attr_enum(m, HLO_ENUM_DIRECTION, HLO_LT));
    hlo_block_append(cond, hlo_op_new(m, HLO_OP_RETURN, 1, &go, 0, NULL, 0));
    for (uint32_t i = 0; i < n; i++)
        args[i] = hlo_block_add_arg(m, body, types[i]);
    V where = reverse ? hlo_build(m, body, NULL, HLO_OP_SUBTRACT, types[0], 2, (V[]){last, args[0]}) : args[0];
    /* the region, with its arguments replaced */
    size_t map_len = m->num_values;
    V *map = NF_NEW_ARRAY(m->arena, V, map_len);
    V starts[66];
    for (uint32_t i = 0; i < ins; i++) {
        V in = op->operands[i].value;
        int64_t sizes[64];
        if (in->type->rank > 64)
            return false;
        starts[0] = in;
        for (uint32_t k = 0; k < in->type->rank; k++) {
            sizes[k] = k == dim ? 1 : in->type->dims[k];
            starts[1 + k] = k == dim ? where : zero;
        }
        V cut = hlo_build(m, body, NULL, HLO_OP_DYNAMIC_SLICE, hlo_type_with_shape(m, in->type, in->type->rank, sizes), 1 + in->type->rank, starts);
        hlo_op_set_attr(cut->def.op, HLO_A_slice_sizes, hlo_attr_i64s(m, in->type->rank, sizes));
        map[old->args[i]->id] = hlo_build(m, body, NULL, HLO_OP_RESHAPE, old->args[i]->type, 1, &cut);
    }
    for (uint32_t i = 0; i < carries; i++)
        map[old->args[ins + i]->id] = args[1 + i];
    for (struct hlo_op *o = old->first; o != old->last; o = o->next)
        hlo_block_append(body, hlo_op_clone(m, o, map, map_len));
    back[0] = hlo_build(m, body, NULL, HLO_OP_ADD, types[0], 2, (V[]){args[0], one});
    for (uint32_t i = 0; i < outs + carries; i++) {
        V v = old->last->operands[i].value, now = v->id < map_len && map[v->id] ? map[v->id] : v;
        if (i >= outs) {
            back[1 + i - outs] = now;
            continue;
        }
        const struct hlo_type *whole = op->results[i].type;
        int64_t dims[64];
        if (whole->rank > 64)
            return false;
        starts[0] = args[1 + carries + i];
        for (uint32_t k = 0; k < whole->rank; k++) {
            dims[k] = k == dim ? 1 : whole->dims[k];
            starts[2 + k] = k == dim ? where : zero;
        }
        starts[1] = hlo_build(m, body, NULL, HLO_OP_RESHAPE, hlo_type_with_shape(m, whole, whole->rank, dims), 1, &now);
        back[1 + carries + i] = hlo_build(m, body, NULL, HLO_OP_DYNAMIC_UPDATE_SLICE, whole, 2 + whole->rank, starts);
    }
    hlo_block_append(body, hlo_op_new(m, HLO_OP_RETURN, n, back, 0, NULL, 0));
    for (uint32_t i = 0; i < outs; i++)
        ret[i] = &loop->results[1 + carries + i];
    for (uint32_t i = 0; i < carries; i++)
        ret[outs + i] = &loop->results[1 + i];
    return true;
}

/* ---- the pass ---- */

static V expand_one(struct hlo_module *m, struct hlo_op *op)
{
    enum hlo_op_id id = (enum hlo_op_id)op->id;
    V a = op->num_operands ? op->operands[0].value : NULL;
    WORK(own, m, op, a ? a->type : op->results[0].type, a);
    X x = &own;
    for (size_t i = 0; i < NF_ARRAY_LEN(unaries); i++)
        if (unaries[i].id == id)
            return expand_unary(m, op, &unaries[i]);
    for (size_t i = 0; i < NF_ARRAY_LEN(broadcasts); i++)
        if (broadcasts[i].chlo == id)
            return expand_broadcast(m, op, broadcasts[i].plain);
    switch ((int)id) {
    case HLO_OP_CHLO_TAN:
        return hlo__chlo_1(x, HLO_OP_TAN, a);
    case HLO_OP_CHLO_CONJ: {
        if (hlo_elem_class(a->type->elem) != HLO_CLASS_COMPLEX)
            return a;
        const struct hlo_type *part = hlo_type_with_elem(m, a->type, hlo_elem_part(a->type->elem));
        V re = hlo__chlo_op(x, HLO_OP_REAL, part, 1, &a), im = NEG(hlo__chlo_op(x, HLO_OP_IMAG, part, 1, &a));
        return hlo__chlo_op(x, HLO_OP_COMPLEX, a->type, 2, (V[]){re, im});
    }
    case HLO_OP_CHLO_IS_INF:
        return EQ(ABS(a), C((double)INFINITY));
    case HLO_OP_CHLO_IS_POS_INF:
        return EQ(a, C((double)INFINITY));
    case HLO_OP_CHLO_IS_NEG_INF:
        return EQ(a, C(-(double)INFINITY));
    case HLO_OP_CHLO_NEXT_AFTER:
        return next_after(m, op, a, op->operands[1].value);
    case HLO_OP_CHLO_MULHI:
        return mulhi(m, op, a, op->operands[1].value);
    case HLO_OP_CHLO_ZETA: case HLO_OP_CHLO_POLYGAMMA:
        return expand_pair(m, op, id, a, op->operands[1].value);
    case HLO_OP_CHLO_RAGGED_DOT:
        return expand_ragged_dot(m, op);
    case HLO_OP_CHLO_CONSTANT: {
        const struct hlo_attr *v = hlo_op_attr(op, HLO_A_value);
        return v && v->kind == HLO_ATTR_DENSE ? hlo_build_constant(m, op->block, op, v) : NULL;
    }
    case HLO_OP_CHLO_CONSTANT_LIKE: {
        const struct hlo_attr *v = hlo_op_attr(op, HLO_A_value);
        own.t = op->results[0].type;
        if (v && v->kind == HLO_ATTR_FLOAT)
            return C(hlo_float_decode(v->type->elem, v->bits));
        return v && v->kind == HLO_ATTR_INT ? C((double)v->i) : NULL;
    }
    default:
        return NULL;
    }
}

/* Operands and results are ranked tensors; of ragged_dot and scan static ones. */
static bool expandable(const struct hlo_op *op)
{
    bool fixed = op->id == HLO_OP_CHLO_RAGGED_DOT || op->id == HLO_OP_CHLO_SCAN;
    for (uint32_t i = 0; i < op->num_operands + op->num_results; i++) {
        const struct hlo_type *t = i < op->num_operands ? op->operands[i].value->type : op->results[i - op->num_operands].type;
        if (t->kind != HLO_TYPE_TENSOR || (fixed && !t->is_static))
            return false;
    }
    return true;
}

int hlo_chlo_expand(struct hlo_module *m, bool (*keep)(const struct hlo_op *op), struct nf_error *err)
{
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (hlo_op_info((enum hlo_op_id)op->id)->dialect != HLO_DIALECT_CHLO || (keep && keep(op)))
            continue;
        V by[64] = {NULL};
        if (expandable(op)) {
            if (op->id == HLO_OP_CHLO_TOP_K)
                (void)expand_top_k(m, op, by);
            else if (op->id == HLO_OP_CHLO_SCAN)
                (void)expand_scan(m, op, by);
            else if (op->num_results == 1)
                by[0] = expand_one(m, op);
        }
        if (!by[0]) {
            char where[256];
            struct nf_str name = hlo_op_name(op);
            nf_fail(err, NF_EUNSUPPORTED, "%.*s cannot be written with StableHLO's operations here", NF_STR_ARG(name));
            nf_error_location(err, "%s", hlo_op_where(m, op, where, sizeof(where)));
            return NF_EUNSUPPORTED;
        }
        hlo_op_replace(op, by);
    }
    return NF_OK;
}

int hlo_pass_chlo(struct hlo_module *m, struct nf_error *err) { return hlo_chlo_expand(m, NULL, err); }
