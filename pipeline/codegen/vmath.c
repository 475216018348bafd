/* vmath.c: see vmath.h. Range reduction and polynomials after Cody and Waite; f32 ones are accurate to 1.0 to 1.5 units in the
 * last place (tests/unit/codegen/test_emit.c measures them), f64 ones to about 2. Infinities, NaN, signed zeros and denormal
 * results are right for all of them. */
#include "pipeline/codegen/vmath.h"

#include "base/str.h"

#include <math.h>
#include <string.h>

struct vm vm_of(LLVMContextRef cx, LLVMModuleRef m, LLVMBuilderRef b, int vl, bool wide)
{
    struct vm v = {.cx = cx, .m = m, .b = b, .vl = vl, .wide = wide};
    v.f1 = wide ? LLVMDoubleTypeInContext(cx) : LLVMFloatTypeInContext(cx);
    v.i1 = wide ? LLVMInt64TypeInContext(cx) : LLVMInt32TypeInContext(cx);
    v.f = vm_type(&v, v.f1);
    v.i = vm_type(&v, v.i1);
    return v;
}

LLVMTypeRef vm_type(const struct vm *v, LLVMTypeRef lane) { return v->vl == 1 ? lane : LLVMVectorType(lane, (unsigned)v->vl); }

static LLVMValueRef splat(const struct vm *v, LLVMValueRef c)
{
    LLVMValueRef e[64];
    if (v->vl == 1) return c;
    for (int i = 0; i < v->vl; i++) e[i] = c;
    return LLVMConstVector(e, (unsigned)v->vl);
}
LLVMValueRef vm_f(const struct vm *v, double x) { return splat(v, LLVMConstReal(v->f1, x)); }
LLVMValueRef vm_i(const struct vm *v, int64_t x) { return splat(v, LLVMConstInt(v->i1, (unsigned long long)x, 1)); }
LLVMValueRef vm_call(const struct vm *v, const char *name, LLVMTypeRef t, LLVMValueRef *a, int n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(v->m, id, &t, 1);
    return LLVMBuildCall2(v->b, LLVMIntrinsicGetType(v->cx, id, &t, 1), f, a, (unsigned)n, "");
}

typedef LLVMValueRef V;
#define B v->b
static V mul(const struct vm *v, V a, V b) { return LLVMBuildFMul(B, a, b, ""); }
static V add(const struct vm *v, V a, V b) { return LLVMBuildFAdd(B, a, b, ""); }
static V sub(const struct vm *v, V a, V b) { return LLVMBuildFSub(B, a, b, ""); }
static V quo(const struct vm *v, V a, V b) { return LLVMBuildFDiv(B, a, b, ""); }
static V mulc(const struct vm *v, V a, double c) { return mul(v, a, vm_f(v, c)); }
static V addc(const struct vm *v, V a, double c) { return add(v, a, vm_f(v, c)); }
static V fma3(const struct vm *v, V a, V b, V c) { return vm_call(v, "llvm.fma", v->f, (V[]){a, b, c}, 3); }
static V fmac(const struct vm *v, V a, double b, V c) { return fma3(v, a, vm_f(v, b), c); }
static V bits(const struct vm *v, V x) { return LLVMBuildBitCast(B, x, v->i, ""); }
static V flt(const struct vm *v, V x) { return LLVMBuildBitCast(B, x, v->f, ""); }
static V absv(const struct vm *v, V x) { return vm_call(v, "llvm.fabs", v->f, &x, 1); }
static V copysignv(const struct vm *v, V x, V s) { return vm_call(v, "llvm.copysign", v->f, (V[]){x, s}, 2); }
static V sel(const struct vm *v, V c, V a, V b) { return LLVMBuildSelect(B, c, a, b, ""); }
static V cmp(const struct vm *v, LLVMRealPredicate p, V a, V b) { return LLVMBuildFCmp(B, p, a, b, ""); }
static V cmpc(const struct vm *v, LLVMRealPredicate p, V a, double c) { return cmp(v, p, a, vm_f(v, c)); }
static V both(const struct vm *v, V a, V b) { return LLVMBuildAnd(B, a, b, ""); }
static V either(const struct vm *v, V a, V b) { return LLVMBuildOr(B, a, b, ""); }
static V iadd(const struct vm *v, V a, V b) { return LLVMBuildAdd(B, a, b, ""); }
static V isub(const struct vm *v, V a, V b) { return LLVMBuildSub(B, a, b, ""); }
/* One instruction each; NaN in x is kept. */
static V minc(const struct vm *v, V x, double c) { return sel(v, cmp(v, LLVMRealOLT, vm_f(v, c), x), vm_f(v, c), x); }
static V maxc(const struct vm *v, V x, double c) { return sel(v, cmp(v, LLVMRealOGT, vm_f(v, c), x), vm_f(v, c), x); }
static V poly(const struct vm *v, V x, const double *c, size_t n) /* c[0]: highest power */
{
    V r = vm_f(v, c[0]);
    for (size_t i = 1; i < n; i++) r = fma3(v, r, x, vm_f(v, c[i]));
    return r;
}
#define POLY(x, ...) poly(v, (x), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* Nearest integer by adding a number that leaves no fraction bits; *ret_int: as integer lanes. */
static V nearest(const struct vm *v, V x, V *ret_int)
{
    double big = v->wide ? 6755399441055744.0 : 12582912.0;
    V t = addc(v, x, big);
    *ret_int = isub(v, bits(v, t), vm_i(v, v->wide ? 0x4338000000000000LL : 0x4B400000));
    return addc(v, t, -big);
}
static V pow2i(const struct vm *v, V n)
{
    return flt(v, LLVMBuildShl(B, iadd(v, n, vm_i(v, v->wide ? 1023 : 127)), vm_i(v, v->wide ? 52 : 23), ""));
}
/* e^(s r) - 1 for |s r| <= ln2/2; s is 1 or 2. f32: what does not depend on one another stands side by side, for its latency is what counts. */
static V exp_less_one(const struct vm *v, V r, double s)
{
    V z = mul(v, r, r), x = s == 1 ? r : add(v, r, r);
    if (v->wide) {
        V p = POLY(x, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5);
        return add(v, mul(v, z, p), r);
    }
    const double c[] = {4.9999994e-1 * s * s, 1.6666462e-1 * s * s * s, 4.1668226e-2 * s * s * s * s, 8.3733046e-3 * s * s * s * s * s, 1.3836846e-3 * s * s * s * s * s * s};
    V low = fma3(v, vm_f(v, c[1]), r, vm_f(v, c[0])), high = fma3(v, z, vm_f(v, c[4]), fma3(v, vm_f(v, c[3]), r, vm_f(v, c[2])));
    return fma3(v, z, fma3(v, z, high, low), x);
}
/* x = n ln2 + r; *ret_n: integer lanes. */
static V reduce_ln2(const struct vm *v, V x, V *ret_n)
{
    V f = nearest(v, mulc(v, x, 1.44269504088896341), ret_n);
    if (v->wide) return fmac(v, f, -1.90821492927058770002e-10, fmac(v, f, -6.93147180369123816490e-01, x));
    return fmac(v, f, -1.428606765330187e-6, fmac(v, f, -0.693145751953125, x));
}

V vm_exp(const struct vm *v, V x)
{
    V n;
    x = v->wide ? maxc(v, minc(v, x, 710.0), -746.0) : maxc(v, minc(v, x, 89.0), -104.5);
    V r = reduce_ln2(v, x, &n), p = addc(v, exp_less_one(v, r, 1), 1.0);
    /* In two steps: over the top to infinity, and down through the denormals with one rounding. */
    V h = LLVMBuildAShr(B, n, vm_i(v, 1), "");
    return mul(v, mul(v, p, pow2i(v, h)), pow2i(v, isub(v, n, h)));
}

V vm_expm1(const struct vm *v, V x)
{
    /* 2^n (1 + e) - 1 = 2^n e + (2^n - 1); with n = 0 for small x nothing cancels. */
    V n, y = v->wide ? maxc(v, minc(v, x, 709.7), -40.0) : maxc(v, minc(v, x, 88.7), -20.0);
    V r = reduce_ln2(v, y, &n), e = exp_less_one(v, r, 1);
    V h = pow2i(v, LLVMBuildSub(B, n, vm_i(v, 1), "")); /* half of it: n may be one above what fits */
    V half = fma3(v, h, e, addc(v, h, -0.5)), res = add(v, half, half);
    res = sel(v, cmpc(v, LLVMRealOGT, x, v->wide ? 709.7 : 88.7), vm_exp(v, x), res);
    res = sel(v, cmpc(v, LLVMRealUNO, x, 0), x, res);
    return sel(v, cmpc(v, LLVMRealOEQ, x, 0), x, res);
}

/* log(m) + e ln2 for m = 1 + f in [sqrt(1/2), sqrt(2)); e as float lanes; c: a small correction to add. */
static V log_core(const struct vm *v, V f, V ef, V c)
{
    if (v->wide) {
        V s = quo(v, f, addc(v, f, 2.0)), z = mul(v, s, s);
        V p = POLY(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                   6.666666666666735130e-01);
        V R = mul(v, p, z), hfsq = mulc(v, mul(v, f, f), 0.5);
        V low = sub(v, sub(v, hfsq, add(v, mul(v, s, add(v, hfsq, R)), fmac(v, ef, 1.90821492927058770002e-10, c))), f);
        return fmac(v, ef, 6.93147180369123816490e-01, LLVMBuildFNeg(B, low, ""));
    }
    V z = mul(v, f, f);
    V p = POLY(f, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1);
    p = mul(v, mul(v, p, f), z);
    p = add(v, fmac(v, ef, -2.12194440e-4, p), c);
    p = fmac(v, z, -0.5, p);
    return fmac(v, ef, 0.693359375, add(v, f, p));
}
/* y > 0 normal: e and f = m - 1. */
static V log_split(const struct vm *v, V y, V *ret_e)
{
    V i = isub(v, bits(v, y), vm_i(v, v->wide ? 0x3fe6a09e667f3bcdLL : 0x3f3504f3));
    V e = LLVMBuildAShr(B, i, vm_i(v, v->wide ? 52 : 23), "");
    *ret_e = e;
    return addc(v, flt(v, isub(v, bits(v, y), LLVMBuildShl(B, e, vm_i(v, v->wide ? 52 : 23), ""))), -1.0);
}
static V log_special(const struct vm *v, V x, V r)
{
    V pos = cmpc(v, LLVMRealOGT, x, 0), zero = cmpc(v, LLVMRealOEQ, x, 0), inf = cmpc(v, LLVMRealOEQ, x, (double)INFINITY);
    r = sel(v, inf, x, r);
    r = sel(v, either(v, pos, zero), r, vm_f(v, (double)NAN));
    return sel(v, zero, vm_f(v, -(double)INFINITY), r);
}

V vm_log(const struct vm *v, V x)
{
    V den = cmpc(v, LLVMRealOLT, x, v->wide ? 2.2250738585072014e-308 : 1.17549435e-38), e;
    V y = sel(v, den, mulc(v, x, v->wide ? 18014398509481984.0 : 8388608.0), x);
    V f = log_split(v, y, &e);
    e = sel(v, den, isub(v, e, vm_i(v, v->wide ? 54 : 23)), e);
    return log_special(v, x, log_core(v, f, LLVMBuildSIToFP(B, e, v->f, ""), vm_f(v, 0)));
}

V vm_log1p(const struct vm *v, V x)
{
    /* u = 1 + x rounded; log(u) + (x - (u - 1)) / u takes the lost part back. */
    V u = addc(v, x, 1.0), e, f = log_split(v, u, &e);
    V lost = sub(v, x, addc(v, u, -1.0)), big = cmpc(v, LLVMRealOGT, x, 1e9);
    V c = sel(v, big, vm_f(v, 0), quo(v, lost, u));
    V r = log_special(v, u, log_core(v, f, LLVMBuildSIToFP(B, e, v->f, ""), c));
    V tiny = cmpc(v, LLVMRealOLT, absv(v, x), v->wide ? 1e-16 : 3e-8);
    return sel(v, tiny, x, r);
}

V vm_tanh(const struct vm *v, V x)
{
    V a = absv(v, x);
    if (v->wide) { /* e = expm1(2a): e / (e + 2) */
        V e = vm_expm1(v, minc(v, add(v, a, a), 44.0));
        return copysignv(v, quo(v, e, addc(v, e, 2.0)), x);
    }
    /* Below 0.625 an odd polynomial, else 1 - 2/(e^2a + 1). */
    V z = mul(v, x, x), n;
    V p = POLY(z, -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1);
    V small = fma3(v, mul(v, z, x), p, x);
    /* a = n ln2/2 + r: where n is not small, what ln2 has lost is not seen in the result. */
    V t = minc(v, a, 9.025), r = fmac(v, nearest(v, mulc(v, t, 2 * 1.44269504088896341), &n), -0.5 * 6.93147180559945309417e-01, t), power = pow2i(v, n);
    V big = sub(v, vm_f(v, 1), quo(v, vm_f(v, 2), fma3(v, power, exp_less_one(v, r, 2), addc(v, power, 1.0))));
    return copysignv(v, sel(v, cmpc(v, LLVMRealOLT, a, 0.625), small, big), x); /* of both: small makes +0 of -0 */
}

V vm_logistic(const struct vm *v, V x)
{
    /* e = exp(-|x|): 1/(1 + e), or e/(1 + e) for negative x, so that nothing overflows and small results are denormals. */
    V e = vm_exp(v, LLVMBuildFNeg(B, absv(v, x), "")), top = sel(v, cmpc(v, LLVMRealOLT, x, 0), e, vm_f(v, 1));
    return quo(v, top, addc(v, e, 1.0));
}

/* erf(x) = x + x P(x^2) for |x| < 0.921875. Coefficients here and below: weighted minimax. */
static V erf_small(const struct vm *v, V x)
{
    return POLY(mul(v, x, x), 8.370188152e-05, -8.142728475e-04, 5.201034714e-03, -2.685939893e-02, 1.128369570e-01, -3.761263490e-01, 1.283791661e-01);
}

V vm_erf(const struct vm *v, V x)
{
    /* Above: 1 - exp(Q(|x|)). */
    V a = minc(v, absv(v, x), 4.0), small = fma3(v, x, erf_small(v, x), x);
    V q = POLY(a, -2.100057100e-05, 4.333719553e-04, -4.165787715e-03, 2.510556392e-02, -1.082586944e-01, -6.333662868e-01, -1.129505396e+00, 1.727002818e-04);
    V big = copysignv(v, sub(v, vm_f(v, 1), vm_exp(v, q)), x);
    return sel(v, cmpc(v, LLVMRealOLT, a, 0.921875), small, big);
}

V vm_erfc(const struct vm *v, V x)
{
    /* From |x| = 0.8 on exp(-x^2) t P(t), t = 1/(|x| + 1.25): at most 3 units in the last place over the whole range. The rounding of what is
     * divided by and of the quotient would show, and is taken back. */
    V a = minc(v, absv(v, x), 10.2), d = addc(v, a, 1.25), lost = sub(v, vm_f(v, 1.25), sub(v, d, a)), t = quo(v, vm_f(v, 1), d), n;
    V minus_t = LLVMBuildFNeg(B, t, "");
    t = fma3(v, t, fma3(v, minus_t, lost, fma3(v, minus_t, d, vm_f(v, 1))), t);
    V q = mul(v, t, POLY(t, 3.65891336, -10.4212767, 11.4667628, -5.11258447, 0.0395953465, -0.0797203494, 0.610110573, 0.704723012, 0.564200172));
    V square = LLVMBuildFNeg(B, mul(v, a, a), ""), r = sub(v, reduce_ln2(v, square, &n), fma3(v, a, a, square)), e = exp_less_one(v, r, 1);
    V h = LLVMBuildAShr(B, n, vm_i(v, 1), ""); /* in two steps, as in vm_exp */
    q = mul(v, mul(v, fma3(v, e, q, q), pow2i(v, h)), pow2i(v, isub(v, n, h)));
    q = sel(v, cmpc(v, LLVMRealOLT, x, 0), sub(v, vm_f(v, 2), q), q);
    V small = fma3(v, LLVMBuildFNeg(B, x, ""), erf_small(v, x), sub(v, vm_f(v, 1), x));
    return sel(v, cmpc(v, LLVMRealOLT, a, 0.8), small, q);
}

/* The function {double r, int64 n} reduce(double x) of a module: |x| >= 2^28 as n pi/2 + r, |r| <= pi/4, after Payne and Hanek: the bits of
 * 2/pi that matter, 192 from where the product is below 4, times x as an integer. */
static V reduce_huge_fn(const struct vm *v, LLVMTypeRef *ret_type)
{
    static const uint64_t two_over_pi[] = {
        0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
        0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
        0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
    LLVMTypeRef d = LLVMDoubleTypeInContext(v->cx), i64 = LLVMInt64TypeInContext(v->cx), i128 = LLVMIntTypeInContext(v->cx, 128);
    *ret_type = LLVMFunctionType(LLVMStructTypeInContext(v->cx, (LLVMTypeRef[]){d, i64}, 2, 0), &d, 1, 0);
    V f = LLVMGetNamedFunction(v->m, "reduce_huge"), words[NF_ARRAY_LEN(two_over_pi)];
    if (f) return f;
    f = LLVMAddFunction(v->m, "reduce_huge", *ret_type);
    LLVMSetSection(f, ".text.reduce_huge"); /* taken along by the kernels that call it */
    LLVMSetLinkage(f, LLVMInternalLinkage);
    V user = LLVMGetBasicBlockParent(LLVMGetInsertBlock(v->b));
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "target-features" : "target-cpu";
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(user, LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
        if (a) LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, a);
    }
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(v->cx, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    for (size_t i = 0; i < NF_ARRAY_LEN(two_over_pi); i++) words[i] = LLVMConstInt(i64, two_over_pi[i], 0);
    V init = LLVMConstArray2(i64, words, NF_ARRAY_LEN(two_over_pi)), table = LLVMAddGlobal(v->m, LLVMTypeOf(init), "");
    LLVMSetSection(table, ".rodata.two_over_pi");
    LLVMSetInitializer(table, init);
    LLVMSetGlobalConstant(table, 1);
    LLVMSetLinkage(table, LLVMPrivateLinkage);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(v->cx);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(v->cx, f, ""));
#define C64(x) LLVMConstInt(i64, (unsigned long long)(x), 1)
    V x = LLVMGetParam(f, 0), raw = LLVMBuildBitCast(b, x, i64, ""), biased = LLVMBuildAnd(b, LLVMBuildLShr(b, raw, C64(52), ""), C64(2047), "");
    V m = LLVMBuildOr(b, LLVMBuildAnd(b, raw, C64(0xfffffffffffff), ""), C64(0x10000000000000), "");
    /* x = m 2^e, e = biased - 1075; the first bit that matters is number e - 2, and the table has 64 zeros in front */
    V at = LLVMBuildSub(b, biased, C64(1075 + 2 - 64), ""), top = C64(64 * (NF_ARRAY_LEN(two_over_pi) - 4));
    at = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, at, top, ""), top, at, ""); /* infinities, NaN: anything */
    V word = LLVMBuildLShr(b, at, C64(6), ""), shift = LLVMBuildAnd(b, at, C64(63), ""), w[4], u[3];
    for (int i = 0; i < 4; i++) {
        V k = LLVMBuildAdd(b, word, C64(i), "");
        w[i] = LLVMBuildLoad2(b, i64, LLVMBuildGEP2(b, i64, table, &k, 1, ""), "");
    }
    for (int i = 0; i < 3; i++) {
        V low = LLVMBuildLShr(b, LLVMBuildLShr(b, w[i + 1], C64(1), ""), LLVMBuildSub(b, C64(63), shift, ""), "");
        u[i] = LLVMBuildZExt(b, LLVMBuildOr(b, LLVMBuildShl(b, w[i], shift, ""), low, ""), i128, "");
    }
    /* The product's upper 128 of 192 bits: in units of 2^-126 quarter turns. */
    V wide = LLVMBuildZExt(b, m, i128, ""), sixty_four = LLVMConstInt(i128, 64, 0);
    V p = LLVMBuildAdd(b, LLVMBuildMul(b, wide, u[1], ""), LLVMBuildLShr(b, LLVMBuildMul(b, wide, u[2], ""), sixty_four, ""), "");
    p = LLVMBuildAdd(b, p, LLVMBuildShl(b, LLVMBuildMul(b, wide, u[0], ""), sixty_four, ""), "");
    V high = LLVMBuildTrunc(b, LLVMBuildLShr(b, p, sixty_four, ""), i64, "");
    V n = LLVMBuildLShr(b, LLVMBuildAdd(b, high, C64((uint64_t)1 << 61), ""), C64(62), "");
    high = LLVMBuildSub(b, high, LLVMBuildShl(b, n, C64(62), ""), "");
    V r = LLVMBuildFMul(b, LLVMBuildSIToFP(b, high, d, ""), LLVMConstReal(d, 0x1p-62), "");
    r = LLVMBuildFAdd(b, r, LLVMBuildFMul(b, LLVMBuildUIToFP(b, LLVMBuildTrunc(b, p, i64, ""), d, ""), LLVMConstReal(d, 0x1p-126), ""), "");
    r = LLVMBuildFMul(b, r, LLVMConstReal(d, 1.57079632679489661923), "");
    V negative = LLVMBuildICmp(b, LLVMIntSLT, raw, C64(0), "");
    r = LLVMBuildSelect(b, negative, LLVMBuildFNeg(b, r, ""), r, "");
    n = LLVMBuildSelect(b, negative, LLVMBuildNeg(b, n, ""), n, "");
#undef C64
    LLVMBuildAggregateRet(b, (V[]){r, n}, 2);
    LLVMDisposeBuilder(b);
    return f;
}

/* d = n pi/2 + r. In three parts up to 2^28; where a lane is beyond, each is done on its own. */
static V reduce_pi(const struct vm *v, V d, V *ret_n)
{
    V n, f = nearest(v, mulc(v, d, 0.63661977236758134308), &n);
    V r = fmac(v, f, -1.57079632673412561417e+00, d);
    r = fmac(v, f, -6.07710050630396597660e-11, r);
    r = fmac(v, f, -2.02226624879595063154e-21, r);
    V fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(B)), huge = cmpc(v, LLVMRealOGE, absv(v, d), 0x1p28);
    LLVMTypeRef t = LLVMTypeOf(huge), call;
    if (v->vl > 1) huge = LLVMBuildCall2(B, LLVMIntrinsicGetType(v->cx, LLVMLookupIntrinsicID("llvm.vector.reduce.or", 21), &t, 1),
                                         LLVMGetIntrinsicDeclaration(v->m, LLVMLookupIntrinsicID("llvm.vector.reduce.or", 21), &t, 1), &huge, 1, "");
    LLVMBasicBlockRef here = LLVMGetInsertBlock(B), slow = LLVMAppendBasicBlockInContext(v->cx, fn, ""), join = LLVMAppendBasicBlockInContext(v->cx, fn, "");
    LLVMBuildCondBr(B, huge, slow, join);
    LLVMPositionBuilderAtEnd(B, slow);
    V callee = reduce_huge_fn(v, &call), sr = r, sn = n, big = cmpc(v, LLVMRealOGE, absv(v, d), 0x1p28), hr = LLVMGetPoison(v->f), hn = LLVMGetPoison(v->i);
    for (int i = 0; i < v->vl; i++) {
        V k = LLVMConstInt(v->i1, (unsigned)i, 0), one = LLVMBuildCall2(B, call, callee, (V[]){v->vl == 1 ? d : LLVMBuildExtractElement(B, d, k, "")}, 1, "");
        V x = LLVMBuildExtractValue(B, one, 0, ""), y = LLVMBuildExtractValue(B, one, 1, "");
        hr = v->vl == 1 ? x : LLVMBuildInsertElement(B, hr, x, k, "");
        hn = v->vl == 1 ? y : LLVMBuildInsertElement(B, hn, y, k, "");
    }
    sr = sel(v, big, hr, sr);
    sn = sel(v, big, hn, sn);
    LLVMBuildBr(B, join);
    LLVMPositionBuilderAtEnd(B, join);
    V pr = LLVMBuildPhi(B, v->f, ""), pn = LLVMBuildPhi(B, v->i, "");
    LLVMAddIncoming(pr, (V[]){r, sr}, (LLVMBasicBlockRef[]){here, slow}, 2);
    LLVMAddIncoming(pn, (V[]){n, sn}, (LLVMBasicBlockRef[]){here, slow}, 2);
    *ret_n = pn;
    return pr;
}

/* f32 is done in f64. */
V vm_sincos(const struct vm *cv, V x, bool cosine)
{
    struct vm w = vm_of(cv->cx, cv->m, cv->b, cv->vl, true), *v = &w;
    V d = cv->wide ? x : LLVMBuildFPExt(B, x, w.f, "");
    V n, r = reduce_pi(v, d, &n);
    if (cosine) n = iadd(v, n, vm_i(v, 1));
    V z = mul(v, r, r), s, c;
    if (cv->wide) {
        s = POLY(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01);
        c = POLY(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02, -0.5);
    } else {
        s = POLY(z, 2.7183114939898219064e-6, -1.9839334836096632e-4, 8.3333293858894632e-3, -1.6666666641626524e-1);
        c = POLY(z, 2.43904487962774090654e-5, -1.38867637746099294692e-3, 4.16666233237390631894e-2, -4.99999997251031003120e-1);
    }
    s = fma3(v, mul(v, z, r), s, r);
    c = fma3(v, z, c, vm_f(v, 1));
    V odd = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, n, vm_i(v, 1), ""), vm_i(v, 0), "");
    V y = bits(v, sel(v, odd, c, s));
    y = flt(v, LLVMBuildXor(B, y, LLVMBuildShl(B, LLVMBuildAnd(B, n, vm_i(v, 2), ""), vm_i(v, 62), ""), ""));
    y = sel(v, cmp(v, LLVMRealOLT, absv(v, d), vm_f(v, (double)INFINITY)), y, vm_f(v, (double)NAN));
    if (!cosine) y = sel(v, cmpc(v, LLVMRealOEQ, d, 0), d, y); /* keeps -0 */
    return cv->wide ? y : LLVMBuildFPTrunc(B, y, cv->f, "");
}

/* |x|^y in double, so that 24 bits survive the product with y; sign and special cases as C's pow has them. */
V vm_pow(const struct vm *cv, V x, V y)
{
    struct vm w = vm_of(cv->cx, cv->m, cv->b, cv->vl, true), *v = &w;
    V xd = LLVMBuildFPExt(B, x, w.f, ""), yd = LLVMBuildFPExt(B, y, w.f, ""), a = absv(v, xd), e;
    V f = log_split(v, a, &e), inf = vm_f(v, (double)INFINITY);
    V s = quo(v, f, addc(v, f, 2.0)), z = mul(v, s, s);
    V p = POLY(z, 2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5, 2. / 3, 2.0);
    V t = fma3(v, LLVMBuildSIToFP(B, e, w.f, ""), vm_f(v, 0.69314718055994531), mul(v, p, s));
    t = maxc(v, minc(v, mul(v, t, yd), 700.0), -700.0);
    V n, r = reduce_ln2(v, t, &n);
    V q = mul(v, addc(v, exp_less_one(v, r, 1), 1.0), pow2i(v, n));
    /* |x| of 0 or inf, or |y| of inf, where the logarithm has no meaning. */
    V yneg = cmpc(v, LLVMRealOLT, yd, 0), azero = cmpc(v, LLVMRealOEQ, a, 0), ainf = cmp(v, LLVMRealOEQ, a, inf);
    V up = sel(v, yneg, vm_f(v, 0), inf), down = sel(v, yneg, inf, vm_f(v, 0));
    q = sel(v, azero, down, q);
    q = sel(v, ainf, up, q);
    V yinf = cmp(v, LLVMRealOEQ, absv(v, yd), inf);
    V one = cmpc(v, LLVMRealOEQ, a, 1.0);
    V at_yinf = sel(v, one, vm_f(v, 1), sel(v, cmpc(v, LLVMRealOGT, a, 1.0), up, down));
    q = sel(v, yinf, at_yinf, q);
    /* Negative bases: a sign for odd y, NaN for y that is no integer. */
    V fl = vm_call(v, "llvm.floor", w.f, &yd, 1), half = mulc(v, yd, 0.5), hf = vm_call(v, "llvm.floor", w.f, &half, 1);
    V isint = cmp(v, LLVMRealOEQ, fl, yd), odd = both(v, isint, cmp(v, LLVMRealUNE, hf, half));
    odd = both(v, odd, cmp(v, LLVMRealOLT, absv(v, yd), vm_f(v, 9007199254740992.0)));
    V signs = LLVMBuildICmp(B, LLVMIntSLT, bits(v, xd), vm_i(v, 0), "");
    q = sel(v, both(v, signs, odd), LLVMBuildFNeg(B, q, ""), q);
    V bad = both(v, both(v, cmpc(v, LLVMRealOLT, xd, 0), LLVMBuildNot(B, isint, "")), both(v, LLVMBuildNot(B, yinf, ""), LLVMBuildNot(B, ainf, "")));
    q = sel(v, bad, vm_f(v, (double)NAN), q);
    q = sel(v, cmp(v, LLVMRealUNO, xd, yd), vm_f(v, (double)NAN), q);
    V always = either(v, cmpc(v, LLVMRealOEQ, yd, 0), cmpc(v, LLVMRealOEQ, xd, 1.0));
    q = sel(v, always, vm_f(v, 1), q);
    return LLVMBuildFPTrunc(B, q, cv->f, "");
}

V vm_cbrt(const struct vm *cv, V x)
{
    struct vm w = vm_of(cv->cx, cv->m, cv->b, cv->vl, true), *v = &w;
    V d = LLVMBuildFPExt(B, x, w.f, ""), a = absv(v, d);
    /* A guess of 5 bits by a third of the exponent, then Newton in double. */
    V high = LLVMBuildLShr(B, bits(v, a), vm_i(v, 32), "");
    V third = LLVMBuildUDiv(B, high, vm_i(v, 3), "");
    V g = flt(v, LLVMBuildShl(B, iadd(v, third, vm_i(v, 715094163)), vm_i(v, 32), ""));
    for (int i = 0; i < 4; i++) { /* g - (g^3 - a) / (3 g^2) */
        V g2 = mul(v, g, g);
        g = sub(v, g, quo(v, fma3(v, g2, g, LLVMBuildFNeg(B, a, "")), mulc(v, g2, 3.0)));
    }
    V ok = both(v, cmpc(v, LLVMRealOGT, a, 0), cmp(v, LLVMRealOLT, a, vm_f(v, (double)INFINITY)));
    g = sel(v, ok, copysignv(v, g, d), d);
    return LLVMBuildFPTrunc(B, g, cv->f, "");
}

/* exp(x + log 1/2) +- exp(log 1/2 - x) in steps of the type, as everybody has it; the sine below 1 by expm1. */
V vm_hyperbolic(const struct vm *v, V x, bool sine)
{
    V half = vm_f(v, -0.69314718055994531), up = vm_exp(v, add(v, x, half)), down = vm_exp(v, sub(v, half, x));
    if (!sine) return add(v, up, down);
    V a = absv(v, x), e = vm_expm1(v, a), small = mulc(v, add(v, e, quo(v, e, addc(v, e, 1))), 0.5);
    return sel(v, cmpc(v, LLVMRealOLT, a, 1), copysignv(v, small, x), sub(v, up, down));
}

V vm_atan2(const struct vm *cv, V y, V x)
{
    struct vm w = vm_of(cv->cx, cv->m, cv->b, cv->vl, true), *v = &w;
    V yd = cv->wide ? y : LLVMBuildFPExt(B, y, w.f, ""), xd = cv->wide ? x : LLVMBuildFPExt(B, x, w.f, "");
    V ax = absv(v, xd), ay = absv(v, yd), steep = cmp(v, LLVMRealOGT, ay, ax), hi = sel(v, steep, ay, ax), lo = sel(v, steep, ax, ay);
    V inf = vm_f(v, (double)INFINITY), t = quo(v, lo, hi);
    t = sel(v, cmpc(v, LLVMRealOEQ, hi, 0), vm_f(v, 0), t);
    t = sel(v, cmp(v, LLVMRealOEQ, lo, inf), vm_f(v, 1), t);
    /* In [0, 1]; above tan(pi/8) atan(t) = pi/4 + atan((t - 1)/(t + 1)). Coefficients: Chebyshev fits of (atan(u)/u - 1)/u^2. */
    V big = cmpc(v, LLVMRealOGT, t, 0.41421356237309503), u = sel(v, big, quo(v, addc(v, t, -1), addc(v, t, 1)), t), z = mul(v, u, u), p;
    if (cv->wide)
        p = POLY(z, 0.0162843750500433944, -0.0345693150633260898, 0.0455154473402216165, -0.0523044364068694771, 0.0587892755447380676, -0.0666642476020052014, 0.0769229636804229712,
                 -0.0909090875325911294, 0.111111111051505879, -0.142857142856597778, 0.199999999999998043, -0.333333333333333332);
    else p = POLY(z, 0.0504793743204009103, -0.0862459821519612667, 0.110713545712013515, -0.142841506297302882, 0.199999772482335304, -0.333333332792245395);
    V r = fma3(v, mul(v, u, z), p, u);
    r = sel(v, big, addc(v, addc(v, r, 3.061616997868383e-17), 0.78539816339744831), r);
    r = sel(v, steep, addc(v, sub(v, vm_f(v, 6.123233995736766e-17), r), 1.5707963267948966), r);
    r = sel(v, LLVMBuildICmp(B, LLVMIntSLT, bits(v, xd), vm_i(v, 0), ""), addc(v, sub(v, vm_f(v, 1.2246467991473532e-16), r), 3.1415926535897931), r);
    r = sel(v, cmp(v, LLVMRealUNO, xd, yd), vm_f(v, (double)NAN), copysignv(v, r, yd));
    return cv->wide ? r : LLVMBuildFPTrunc(B, r, cv->f, "");
}

V vm_max(const struct vm *v, V a, V b) { return vm_call(v, "llvm.maximum", v->f, (V[]){a, b}, 2); }
V vm_min(const struct vm *v, V a, V b) { return vm_call(v, "llvm.minimum", v->f, (V[]){a, b}, 2); }
