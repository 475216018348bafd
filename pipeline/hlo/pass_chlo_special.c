/* Special functions of real numbers out of StableHLO's elementary ones, in f64 (narrower types are widened before).
 *
 * Everything is computed and the right branch selected: there are no loops and no control flow. Coefficients of rational functions for
 * erf and erfc are those of W. J. Cody's and S. Moshier's published approximations, of the gamma function Lanczos' with g = 7. */
#include "pipeline/hlo/pass_chlo.h"

#include <math.h>

typedef struct hlo_value *V;
typedef const struct hlo_chlo *X;

#define ADD(a, b) hlo__chlo_2(x, HLO_OP_ADD, a, b)
#define SUB(a, b) hlo__chlo_2(x, HLO_OP_SUBTRACT, a, b)
#define MUL(a, b) hlo__chlo_2(x, HLO_OP_MULTIPLY, a, b)
#define DIV(a, b) hlo__chlo_2(x, HLO_OP_DIVIDE, a, b)
#define POW(a, b) hlo__chlo_2(x, HLO_OP_POWER, a, b)
#define NEG(a) hlo__chlo_1(x, HLO_OP_NEGATE, a)
#define ABS(a) hlo__chlo_1(x, HLO_OP_ABS, a)
#define EXP(a) hlo__chlo_1(x, HLO_OP_EXPONENTIAL, a)
#define LOG(a) hlo__chlo_1(x, HLO_OP_LOG, a)
#define LOG1P(a) hlo__chlo_1(x, HLO_OP_LOG_PLUS_ONE, a)
#define SQRT(a) hlo__chlo_1(x, HLO_OP_SQRT, a)
#define FLOOR(a) hlo__chlo_1(x, HLO_OP_FLOOR, a)
#define SIN(a) hlo__chlo_1(x, HLO_OP_SINE, a)
#define COS(a) hlo__chlo_1(x, HLO_OP_COSINE, a)
#define C(v) hlo__chlo_const(x, v)
#define LT(a, b) hlo__chlo_compare(x, HLO_LT, a, b)
#define LE(a, b) hlo__chlo_compare(x, HLO_LE, a, b)
#define EQ(a, b) hlo__chlo_compare(x, HLO_EQ, a, b)
#define NE(a, b) hlo__chlo_compare(x, HLO_NE, a, b)
#define SEL(p, a, b) hlo__chlo_select(x, p, a, b)

static const double pi = 3.14159265358979323846;

/* Horner, highest power first */
static V poly(X x, V v, const double *c, size_t n)
{
    V r = C(c[0]);
    for (size_t i = 1; i < n; i++)
        r = ADD(MUL(r, v), C(c[i]));
    return r;
}
#define POLY(v, c) poly(x, v, c, NF_ARRAY_LEN(c))

static const double erf_t[] = {9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3, 7.00332514112805075473e3,
    5.55923013010394962768e4};
static const double erf_u[] = {1, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3, 2.26290000613890934246e4,
    4.92673942608635921086e4};
static const double erfc_p[] = {2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1,
    1.96520832956077098242e2, 5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2};
static const double erfc_q[] = {1, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2,
    1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2};
static const double erfc_r[] = {5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0, 6.16021097993053585195e0,
    7.40974269950448939160e0, 2.97886665372100240670e0};
static const double erfc_s[] = {1, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1, 1.70814450747565897222e1,
    9.60896809063285878198e0, 3.36907645100081516050e0};

/* erf where |a| <= 1 */
static V erf_small(X x, V a)
{
    V z = MUL(a, a);
    return MUL(a, DIV(POLY(z, erf_t), POLY(z, erf_u)));
}

/* exp(-a^2) without the error of the rounded square: the upper half of a is squared exactly */
static V exp_minus_square(X x, V a)
{
    V big = MUL(a, C(134217729.0)), hi = SUB(big, SUB(big, a)), lo = SUB(a, hi);
    return MUL(EXP(NEG(MUL(hi, hi))), EXP(NEG(MUL(lo, ADD(a, hi)))));
}

/* erfc where a >= 1 */
static V erfc_tail(X x, V a)
{
    V b = hlo__chlo_2(x, HLO_OP_MINIMUM, a, C(40)); /* beyond, it is 0; keeps the quotients finite */
    V near = DIV(POLY(b, erfc_p), POLY(b, erfc_q)), far = DIV(POLY(b, erfc_r), POLY(b, erfc_s));
    return MUL(exp_minus_square(x, b), SEL(LT(b, C(8)), near, far));
}

V hlo__chlo_erf(X x, V a)
{
    V m = ABS(a), tail = SUB(C(1), erfc_tail(x, m));
    return SEL(LE(m, C(1)), erf_small(x, a), SEL(LT(a, C(0)), NEG(tail), SEL(NE(a, a), a, tail)));
}

V hlo__chlo_erfc(X x, V a)
{
    V m = ABS(a), tail = erfc_tail(x, m);
    return SEL(LE(m, C(1)), SUB(C(1), erf_small(x, a)), SEL(LT(a, C(0)), SUB(C(2), tail), SEL(NE(a, a), a, tail)));
}

V hlo__chlo_erf_inv(X x, V a)
{
    /* Winitzki's start from log(1 - a^2), then Halley steps on what is left of erf or, in the tail, erfc */
    V m = ABS(a), tail = SUB(C(1), m), l = LOG(MUL(tail, ADD(C(1), m)));
    V k = ADD(C(2 / (pi * 0.147)), MUL(l, C(0.5)));
    V y = SQRT(SUB(SQRT(SUB(MUL(k, k), DIV(l, C(0.147)))), k));
    for (int i = 0; i < 3; i++) {
        V f = SEL(LT(m, C(0.5)), SUB(erf_small(x, y), m), SUB(tail, hlo__chlo_erfc(x, y)));
        V step = MUL(f, MUL(C(sqrt(pi) / 2), EXP(MUL(y, y))));
        y = SUB(y, DIV(step, ADD(C(1), MUL(y, step))));
    }
    y = SEL(EQ(m, C(1)), C((double)INFINITY), SEL(EQ(m, C(0)), C(0), y));
    y = SEL(LT(C(1), m), C((double)NAN), y);
    return SEL(LT(a, C(0)), NEG(y), SEL(EQ(a, C(0)), a, y));
}

static const double lanczos[] = {676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707, 9.984369578019570859563e-6,
    1.50563273514931155834e-7};
#define LANCZOS_BASE 0.99999999999980993227684700473478

/* log of the gamma function at z + 1, z >= -0.5 */
static V lgamma_upper(X x, V z)
{
    V s = C(LANCZOS_BASE);
    for (size_t i = 0; i < NF_ARRAY_LEN(lanczos); i++)
        s = ADD(s, DIV(C(lanczos[i]), ADD(z, C((double)i + 1))));
    V t = ADD(z, C(7.5)), log_t = ADD(C(log(7.5)), LOG1P(DIV(z, C(7.5))));
    return ADD(ADD(MUL(SUB(ADD(z, C(0.5)), DIV(t, log_t)), log_t), C(0.5 * log(2 * pi))), LOG(s));
}

V hlo__chlo_lgamma(X x, V a)
{
    V reflect = LT(a, C(0.5)), z = SEL(reflect, NEG(a), SUB(a, C(1)));
    V upper = lgamma_upper(x, z);
    /* log(pi) - log|sin(pi a)| - upper, the fraction brought to [0, 1/2] first */
    V m = ABS(a), f = SUB(m, FLOOR(m)), g = SEL(LT(C(0.5), f), SUB(C(1), f), f);
    V lower = SUB(SUB(C(log(pi)), LOG(SIN(MUL(C(pi), g)))), upper);
    V pole = SEL(EQ(g, C(0)), C((double)INFINITY), lower);
    V r = SEL(reflect, pole, upper);
    return SEL(EQ(m, C((double)INFINITY)), C((double)INFINITY), r);
}

V hlo__chlo_digamma(X x, V a)
{
    V reflect = LT(a, C(0.5)), z = SEL(reflect, SUB(C(1), a), a);
    /* move up by 16, then the asymptotic series */
    static const double bern[] = {-1.0 / 12, 691.0 / 32760, -1.0 / 132, 1.0 / 240, -1.0 / 252, 1.0 / 120, -1.0 / 12};
    V shift = C(0);
    for (int i = 0; i < 16; i++)
        shift = ADD(shift, DIV(C(1), ADD(z, C(i))));
    V w = ADD(z, C(16)), inv = DIV(C(1), MUL(w, w));
    V r = SUB(ADD(SUB(LOG(w), DIV(C(0.5), w)), MUL(inv, POLY(inv, bern))), shift);
    r = SEL(EQ(z, C((double)INFINITY)), z, r);
    /* psi(1 - a) - pi cot(pi a), the fraction in [-1/2, 1/2] */
    V f = SUB(a, FLOOR(ADD(a, C(0.5)))), cot = MUL(C(pi), DIV(COS(MUL(C(pi), f)), SIN(MUL(C(pi), f))));
    V low = SEL(EQ(f, C(0)), C((double)NAN), SUB(r, cot));
    low = SEL(EQ(a, C(0)), DIV(C(-1), a), low);
    low = SEL(EQ(a, C(-(double)INFINITY)), C((double)NAN), low);
    return SEL(reflect, low, r);
}

V hlo__chlo_bessel_i1e(X x, V a)
{
    V m = ABS(a), near_m = hlo__chlo_2(x, HLO_OP_MINIMUM, m, C(20)), far_m = hlo__chlo_2(x, HLO_OP_MAXIMUM, m, C(20));
    /* (m/2) sum q^k / (k! (k+1)!), q = m^2/4, as nested products: all terms are positive */
    V q = MUL(MUL(near_m, near_m), C(0.25)), s = C(1);
    for (int k = 60; k >= 1; k--)
        s = ADD(C(1), MUL(s, MUL(q, C(1.0 / ((double)k * (double)(k + 1))))));
    V near = MUL(MUL(MUL(near_m, C(0.5)), s), EXP(NEG(near_m)));
    /* 1/sqrt(2 pi m) (1 - 3/(8m) (1 + 5/(16 m) (...))): term ratio -(4 - (2k-1)^2)/(8k m) */
    V inv = DIV(C(1), far_m), t = C(1);
    for (int k = 24; k >= 1; k--) {
        double odd = 2 * k - 1;
        t = ADD(C(1), MUL(t, MUL(inv, C(-(4 - odd * odd) / (8.0 * k)))));
    }
    V far = DIV(t, SQRT(MUL(C(2 * pi), far_m)));
    V r = SEL(LT(m, C(20)), near, far);
    r = SEL(LT(a, C(0)), NEG(r), r);
    return SEL(NE(a, a), a, r);
}

V hlo__chlo_zeta(X x, V a, V q)
{
    /* the first ten terms, then Euler and Maclaurin's correction: B(2j)/(2j)! a (a+1) ... w^(-a-2j+1) */
    static const double over[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
        1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18};
    V sum = C(0), minus = NEG(a);
    for (int k = 0; k < 10; k++)
        sum = ADD(sum, POW(ADD(q, C(k)), minus));
    V w = ADD(q, C(10)), b = POW(w, minus);
    sum = ADD(ADD(sum, DIV(MUL(b, w), SUB(a, C(1)))), MUL(b, C(0.5)));
    V fac = a, p = DIV(b, w);
    for (size_t j = 0; j < NF_ARRAY_LEN(over); j++) {
        sum = ADD(sum, DIV(MUL(fac, p), C(over[j])));
        double i = 2 * (double)j + 1;
        fac = MUL(MUL(fac, ADD(a, C(i))), ADD(a, C(i + 1)));
        p = DIV(DIV(p, w), w);
    }
    V whole = EQ(a, FLOOR(a)), half = MUL(a, C(0.5)), even = EQ(half, FLOOR(half));
    V pole = SEL(even, C((double)INFINITY), C((double)NAN));
    V neg = SEL(EQ(q, FLOOR(q)), SEL(whole, pole, C((double)NAN)), SEL(whole, sum, C((double)NAN)));
    V r = SEL(LE(q, C(0)), neg, sum);
    r = SEL(EQ(a, C(1)), C((double)INFINITY), r);
    return SEL(LT(a, C(1)), C((double)NAN), r);
}

V hlo__chlo_polygamma(X x, V n, V a)
{
    V half = MUL(n, C(0.5)), sign = SEL(EQ(half, FLOOR(half)), C(-1), C(1));
    V r = MUL(MUL(sign, EXP(hlo__chlo_lgamma(x, ADD(n, C(1))))), hlo__chlo_zeta(x, ADD(n, C(1)), a));
    r = SEL(EQ(n, C(0)), hlo__chlo_digamma(x, a), r);
    V bad = hlo__chlo_op(x, HLO_OP_OR, n->type == x->t ? LT(n, C(0))->type : n->type, 2, (V[]){LT(n, C(0)), NE(n, FLOOR(n))});
    return SEL(bad, C((double)NAN), r);
}
