/* emit_kernel.c: a row program as LLVM IR with explicit vectors.
 *
 * The loops are those of rowprog.h: over the parallel range, over sequential dims, over vectors of the last dim. What is left of it are
 * vectors of half as many lanes, a quarter and so on, one of each at most: no masks, behind whose stores loads would wait. Instructions
 * that do not depend on the vector index are emitted once before that loop, as scalars. Reductions use several accumulators and a fixed
 * tree. No fast-math flags: only the sums that reductions reorder are. */
#include "pipeline/codegen/emit_internal.h"
#include "pipeline/codegen/vmath.h"

#include <math.h>

enum { UNROLL = 4, SLOTS = UNROLL + 4 };
typedef LLVMValueRef V;
/* Accumulators: UNROLL of whole vectors, then those of 1, 2, 4 and 8 lanes for what is left. */
static int slot_of(int lanes) { return UNROLL + __builtin_ctz((unsigned)lanes); }

struct em {
    const struct rp_prog *p;
    const struct emit_target *t;
    LLVMContextRef cx;
    LLVMModuleRef m;
    LLVMBuilderRef b;
    LLVMTypeRef i1, i8, i16, i32, i64, ptr, half;
    V fn, args;
    V *argp;               /* by argument; scratch last */
    V end;                 /* of a program that is cut: one more than its last column */
    V *rowp;               /* address of each access at the parallel index */
    V *addr;               /* ... and at the sequential index */
    V *val, *inv;          /* by instruction: vector of the current slot; scalar, when it is the same for all lanes */
    V (*acc)[SLOTS];       /* accumulators of reductions (allocas); see slot_of */
    V (*done)[UNROLL];     /* finished reductions: a scalar (ROW) or a vector for each slot (COL) */
    V idx[RP_DIMS_MAX];    /* loop counters */
    bool *same;            /* instruction does not depend on the vector index */
    uint8_t *pair;         /* by access: 1, 2: the first and second part of neighbouring elements that are both accessed (complex.c) */
    V first_part;          /* of a pair that is being stored */
    V table[CPU_DT_MAX];   /* of small floats: the number of each bit pattern */
    int lanes;
};
#define B e->b

static int native_class(enum cpu_dt t) { return emit_class(t); }

/* ------------------------------------------------------------------------------------------------------------ types */

static V c64(struct em *e, int64_t x) { return LLVMConstInt(e->i64, (unsigned long long)x, 1); }

static LLVMTypeRef int_type(struct em *e, enum cpu_dt t)
{
    if (cpu_dt_int(t) && cpu_dt_info[t].bits < 8) return LLVMIntTypeInContext(e->cx, cpu_dt_info[t].bits);
    switch (cpu_dt_bytes(t)) {
    case 1: return e->i8;
    case 2: return e->i16;
    case 4: return e->i32;
    default: return e->i64;
    }
}
/* Lane in a register. */
static LLVMTypeRef lane_type(struct em *e, enum cpu_dt t)
{
    switch (native_class(t)) {
    case 1: return e->i1;
    case 2: return int_type(e, t);
    case 4: return LLVMDoubleTypeInContext(e->cx);
    default: return LLVMFloatTypeInContext(e->cx);
    }
}
static LLVMTypeRef vec(LLVMTypeRef t, int vl) { return vl == 1 ? t : LLVMVectorType(t, (unsigned)vl); }
static V const_splat(V c, int vl)
{
    V l[64];
    if (vl == 1) return c;
    for (int i = 0; i < vl; i++) l[i] = c;
    return LLVMConstVector(l, (unsigned)vl);
}
static V splat(struct em *e, V x, int vl)
{
    if (vl == 1) return x;
    if (LLVMIsConstant(x)) return const_splat(x, vl);
    V u = LLVMBuildInsertElement(B, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), (unsigned)vl)), x, c64(e, 0), "");
    return LLVMBuildShuffleVector(B, u, LLVMGetPoison(LLVMTypeOf(u)), LLVMConstNull(LLVMVectorType(e->i32, (unsigned)vl)), "");
}
static V int_splat(struct em *e, LLVMTypeRef t, int64_t x, int vl)
{
    (void)e;
    return const_splat(LLVMConstInt(t, (unsigned long long)x, 1), vl);
}
static struct vm math(struct em *e, int vl, bool wide) { return vm_of(e->cx, e->m, e->b, vl, wide); }

static V gep(struct em *e, V p, V off, int64_t scale)
{
    if (scale != 1) off = LLVMBuildMul(B, off, c64(e, scale), "");
    return LLVMBuildGEP2(B, e->i8, p, &off, 1, "");
}

/* Rounds f32 lanes to a narrower float and back; nothing for f32. */
static V bf16_bits(struct em *e, V x, int vl)
{
    struct vm v = math(e, vl, false);
    V b = LLVMBuildBitCast(B, x, v.i, ""), hi = LLVMBuildLShr(B, b, vm_i(&v, 16), "");
    V r = LLVMBuildAdd(B, LLVMBuildAdd(B, b, vm_i(&v, 0x7fff), ""), LLVMBuildAnd(B, hi, vm_i(&v, 1), ""), "");
    return LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealUNO, x, x, ""), LLVMBuildOr(B, b, vm_i(&v, 0x400000), ""), r, "");
}
/* f32 lanes as the bits of a float of at most 8 bits, in integer lanes: as nf_small_from_double does it. */
static V small_bits(struct em *e, enum cpu_dt t, V x, int vl)
{
    const struct nf_float_format *f = nf_dtype_float_format(cpu_dt_base(t));
    struct vm v = math(e, vl, false);
    int mag_bits = f->exp_bits + f->man_bits, emin = 1 - f->bias, drop = 23 - f->man_bits;
    int64_t sign_bit = (int64_t)1 << mag_bits, all = sign_bit - 1, inf = (((int64_t)1 << f->exp_bits) - 1) << f->man_bits;
    int64_t largest = f->has_inf ? inf - 1 : f->nan_all_ones ? all - 1 : all;
    V b = LLVMBuildBitCast(B, x, v.i, ""), neg = LLVMBuildICmp(B, LLVMIntSLT, b, vm_i(&v, 0), ""), a = LLVMBuildAnd(B, b, vm_i(&v, INT32_MAX), "");
    V sign = f->has_sign ? LLVMBuildSelect(B, neg, vm_i(&v, sign_bit), vm_i(&v, 0), "") : vm_i(&v, 0);
    /* To nearest even by an addition to the bits; below the normal numbers by one to a float whose last bit is the quantum. */
    V up = LLVMBuildAnd(B, LLVMBuildLShr(B, a, vm_i(&v, drop), ""), vm_i(&v, 1), "");
    V code = LLVMBuildLShr(B, LLVMBuildAdd(B, LLVMBuildAdd(B, a, vm_i(&v, ((int64_t)1 << (drop - 1)) - 1), ""), up, ""), vm_i(&v, drop), ""), low;
    if (f->no_zero) {
        low = LLVMBuildZExt(B, LLVMBuildICmp(B, LLVMIntUGT, a, vm_i(&v, 0x600000), ""), v.i, "");
        code = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntULT, a, vm_i(&v, 0x800000), ""), low, code, "");
    } else {
        V magic = vm_f(&v, ldexp(1, 23 + emin - f->man_bits)), sum = LLVMBuildFAdd(B, LLVMBuildBitCast(B, a, v.f, ""), magic, "");
        low = LLVMBuildSub(B, LLVMBuildBitCast(B, sum, v.i, ""), LLVMBuildBitCast(B, magic, v.i, ""), "");
        code = LLVMBuildSub(B, code, vm_i(&v, (int64_t)(126 + emin) << f->man_bits), "");
        code = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntULT, a, vm_i(&v, (int64_t)(127 + emin) << 23), ""), low, code, "");
    }
    V nan = f->nan_is_neg_zero || (!f->nan_all_ones && !f->has_inf) ? vm_i(&v, sign_bit) : LLVMBuildOr(B, sign, vm_i(&v, f->nan_all_ones ? all : inf | ((int64_t)1 << f->man_bits >> 1)), "");
    V over = f->has_inf ? LLVMBuildOr(B, sign, vm_i(&v, inf), "") : f->has_nan ? nan : LLVMBuildOr(B, sign, vm_i(&v, largest), "");
    V r = LLVMBuildOr(B, sign, code, "");
    if (f->nan_is_neg_zero) r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntEQ, code, vm_i(&v, 0), ""), code, r, "");
    r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGT, code, vm_i(&v, largest), ""), over, r, "");
    if (!f->has_sign) r = LLVMBuildSelect(B, LLVMBuildAnd(B, neg, LLVMBuildICmp(B, LLVMIntNE, a, vm_i(&v, 0), ""), ""), nan, r, "");
    return LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealUNO, x, x, ""), nan, r, "");
}
/* ... and back, by a table. */
static V small_value(struct em *e, enum cpu_dt t, V bits, int vl)
{
    LLVMTypeRef f32 = LLVMFloatTypeInContext(e->cx);
    if (!e->table[t]) {
        V c[256];
        unsigned n = 1u << cpu_dt_info[t].bits;
        for (unsigned i = 0; i < n; i++) {
            float x = cpu_small_decode(t, i);
            uint32_t w;
            memcpy(&w, &x, 4);
            c[i] = LLVMConstBitCast(LLVMConstInt(e->i32, w, 0), f32);
        }
        V init = LLVMConstArray2(f32, c, n);
        char section[64];
        nf_format(section, sizeof section, ".rodata.%s", cpu_dt_info[t].name);
        e->table[t] = LLVMAddGlobal(e->m, LLVMTypeOf(init), "");
        LLVMSetSection(e->table[t], section);
        LLVMSetInitializer(e->table[t], init);
        LLVMSetGlobalConstant(e->table[t], 1);
        LLVMSetLinkage(e->table[t], LLVMPrivateLinkage);
        LLVMSetUnnamedAddress(e->table[t], LLVMGlobalUnnamedAddr);
    }
    V at = LLVMBuildAnd(B, bits, int_splat(e, e->i32, (1 << cpu_dt_info[t].bits) - 1, vl), ""), r = LLVMGetPoison(vec(f32, vl));
    for (int i = 0; i < vl; i++) {
        V k = LLVMBuildZExt(B, vl == 1 ? at : LLVMBuildExtractElement(B, at, c64(e, i), ""), e->i64, "");
        V x = LLVMBuildLoad2(B, f32, LLVMBuildGEP2(B, f32, e->table[t], &k, 1, ""), "");
        if (vl == 1) return x;
        r = LLVMBuildInsertElement(B, r, x, c64(e, i), "");
    }
    return r;
}
static V round_small(struct em *e, enum cpu_dt t, V x, int vl)
{
    struct vm v = math(e, vl, false);
    if (t == CPU_BF16) return LLVMBuildBitCast(B, LLVMBuildAnd(B, bf16_bits(e, x, vl), vm_i(&v, 0xffff0000), ""), v.f, "");
    if (t == CPU_F16) return LLVMBuildFPExt(B, LLVMBuildFPTrunc(B, x, vec(e->half, vl), ""), v.f, "");
    return !cpu_dt_small(t) ? x : small_value(e, t, small_bits(e, t, x, vl), vl);
}
/* double to f32 by rounding to odd, so that a second rounding to fewer bits is right. */
static V to_odd(struct em *e, V d, int vl)
{
    struct vm v = math(e, vl, false);
    V t = LLVMBuildFPTrunc(B, d, v.f, ""), back = LLVMBuildFPExt(B, t, LLVMTypeOf(d), ""), bits = LLVMBuildBitCast(B, t, v.i, "");
    V exact = LLVMBuildFCmp(B, LLVMRealUEQ, back, d, ""), odd = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, bits, vm_i(&v, 1), ""), vm_i(&v, 0), "");
    struct vm w = math(e, vl, true);
    V above = LLVMBuildFCmp(B, LLVMRealOGT, vm_call(&w, "llvm.fabs", w.f, &d, 1), vm_call(&w, "llvm.fabs", w.f, &back, 1), "");
    V moved = LLVMBuildSelect(B, above, LLVMBuildAdd(B, bits, vm_i(&v, 1), ""), LLVMBuildSub(B, bits, vm_i(&v, 1), ""), "");
    return LLVMBuildBitCast(B, LLVMBuildSelect(B, LLVMBuildOr(B, exact, odd, ""), bits, moved, ""), v.f, "");
}

/* ----------------------------------------------------------------------------------------------------------- memory */

static LLVMTypeRef mem_type(struct em *e, enum cpu_dt t)
{
    if (t == CPU_F32 || t == CPU_F64) return lane_type(e, t);
    if (t == CPU_F16) return e->half;
    return cpu_dt_bytes(t) == 1 ? e->i8 : int_type(e, t);
}
static V from_mem(struct em *e, enum cpu_dt t, V x, int vl)
{
    struct vm v = math(e, vl, false);
    if (t == CPU_PRED) return LLVMBuildICmp(B, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    if (t == CPU_F16) return LLVMBuildFPExt(B, x, v.f, "");
    if (t == CPU_BF16) return LLVMBuildBitCast(B, LLVMBuildShl(B, LLVMBuildZExt(B, x, v.i, ""), vm_i(&v, 16), ""), v.f, "");
    if (cpu_dt_small(t)) return small_value(e, t, LLVMBuildZExt(B, x, v.i, ""), vl);
    if (cpu_dt_int(t) && cpu_dt_info[t].bits < 8) return LLVMBuildTrunc(B, x, vec(int_type(e, t), vl), "");
    return x;
}
static V to_mem(struct em *e, enum cpu_dt t, V x, int vl)
{
    struct vm v = math(e, vl, false);
    if (t == CPU_PRED) return LLVMBuildZExt(B, x, vec(e->i8, vl), "");
    if (t == CPU_F16) return LLVMBuildFPTrunc(B, x, vec(e->half, vl), "");
    if (t == CPU_BF16) return LLVMBuildTrunc(B, LLVMBuildLShr(B, bf16_bits(e, x, vl), vm_i(&v, 16), ""), vec(e->i16, vl), "");
    if (cpu_dt_small(t)) return LLVMBuildTrunc(B, small_bits(e, t, x, vl), vec(e->i8, vl), "");
    if (cpu_dt_int(t) && cpu_dt_info[t].bits < 8) return cpu_dt_info[t].is_signed ? LLVMBuildSExt(B, x, vec(e->i8, vl), "") : LLVMBuildZExt(B, x, vec(e->i8, vl), "");
    return x;
}
static V load1(struct em *e, LLVMTypeRef t, V p, size_t align)
{
    V x = LLVMBuildLoad2(B, t, p, "");
    LLVMSetAlignment(x, (unsigned)align);
    return x;
}
static V masked_call(struct em *e, const char *name, LLVMTypeRef *ts, size_t nt, V *a, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    return LLVMBuildCall2(B, LLVMIntrinsicGetType(e->cx, id, ts, nt), LLVMGetIntrinsicDeclaration(e->m, id, ts, nt), a, n, "");
}
static V reversed(struct em *e, V x, int vl)
{
    V mask[64];
    for (int i = 0; i < vl; i++) mask[i] = LLVMConstInt(e->i32, (unsigned)(vl - 1 - i), 0);
    return LLVMBuildShuffleVector(B, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(mask, (unsigned)vl), "");
}

/* col: element along the vector dim (NULL: 0). */
static V load(struct em *e, int a, V col, int vl, V mask)
{
    const struct rp_acc *x = &e->p->acc[a];
    size_t size = cpu_dt_bytes(x->dt);
    int64_t st = x->stride[e->p->nd - 1];
    LLVMTypeRef mt = mem_type(e, x->dt), t = vec(mt, vl);
    V p = col && st ? gep(e, e->addr[a], col, st * (int64_t)size) : e->addr[a], r;
    if (vl == 1) return from_mem(e, x->dt, load1(e, mt, p, size), 1);
    if (st == 0) return splat(e, from_mem(e, x->dt, load1(e, mt, p, size), 1), vl);
    if (st == 1 && mask) {
        V a4[] = {p, LLVMConstInt(e->i32, size, 0), mask, LLVMConstNull(t)};
        return from_mem(e, x->dt, masked_call(e, "llvm.masked.load", (LLVMTypeRef[]){t, e->ptr}, 2, a4, 4), vl);
    }
    if (st == 1) return from_mem(e, x->dt, load1(e, t, p, size), vl);
    if (st == 2 && !mask && e->pair[a]) { /* both parts at once: the loads of one pair become one */
        V both = load1(e, vec(mt, 2 * vl), e->pair[a] == 2 ? gep(e, p, c64(e, -(int64_t)size), 1) : p, size), pick[64];
        for (int i = 0; i < vl; i++) pick[i] = LLVMConstInt(e->i32, (unsigned)(2 * i + e->pair[a] - 1), 0);
        return LLVMBuildShuffleVector(B, both, LLVMGetPoison(LLVMTypeOf(both)), LLVMConstVector(pick, (unsigned)vl), "");
    }
    if (st == -1 && !mask) return from_mem(e, x->dt, reversed(e, load1(e, t, gep(e, p, c64(e, -(int64_t)size * (vl - 1)), 1), size), vl), vl);
    if (mask) {
        V off[64];
        for (int i = 0; i < vl; i++) off[i] = c64(e, i * st * (int64_t)size);
        V ov = LLVMConstVector(off, (unsigned)vl), pv = LLVMBuildGEP2(B, e->i8, p, &ov, 1, "");
        V a4[] = {pv, LLVMConstInt(e->i32, size, 0), mask, LLVMConstNull(t)};
        return from_mem(e, x->dt, masked_call(e, "llvm.masked.gather", (LLVMTypeRef[]){t, LLVMTypeOf(pv)}, 2, a4, 4), vl);
    }
    r = LLVMGetPoison(t);
    for (int i = 0; i < vl; i++) r = LLVMBuildInsertElement(B, r, load1(e, mt, i ? gep(e, p, c64(e, i * st * (int64_t)size), 1) : p, size), c64(e, i), "");
    return from_mem(e, x->dt, r, vl);
}

static void store(struct em *e, int a, V col, int vl, V mask, V x)
{
    const struct rp_acc *c = &e->p->acc[a];
    size_t size = cpu_dt_bytes(c->dt);
    int64_t st = c->stride[e->p->nd - 1];
    V p = col && st ? gep(e, e->addr[a], col, st * (int64_t)size) : e->addr[a], s;
    x = to_mem(e, c->dt, x, vl);
    if (vl == 1 || (st == 1 && !mask)) {
        s = LLVMBuildStore(B, x, p);
        LLVMSetAlignment(s, (unsigned)size);
        return;
    }
    if (st == 1) {
        V a4[] = {x, p, LLVMConstInt(e->i32, size, 0), mask};
        masked_call(e, "llvm.masked.store", (LLVMTypeRef[]){LLVMTypeOf(x), e->ptr}, 2, a4, 4);
        return;
    }
    if (mask) {
        V off[64];
        for (int i = 0; i < vl; i++) off[i] = c64(e, i * st * (int64_t)size);
        V ov = LLVMConstVector(off, (unsigned)vl), pv = LLVMBuildGEP2(B, e->i8, p, &ov, 1, "");
        V a4[] = {x, pv, LLVMConstInt(e->i32, size, 0), mask};
        masked_call(e, "llvm.masked.scatter", (LLVMTypeRef[]){LLVMTypeOf(x), LLVMTypeOf(pv)}, 2, a4, 4);
        return;
    }
    if (st == 2 && e->pair[a] == 1) { /* waits for the other part */
        e->first_part = x;
        return;
    }
    if (st == 2 && e->pair[a] == 2) {
        V mix[128];
        for (int i = 0; i < 2 * vl; i++) mix[i] = LLVMConstInt(e->i32, (unsigned)(i / 2 + (i & 1) * vl), 0);
        s = LLVMBuildStore(B, LLVMBuildShuffleVector(B, e->first_part, x, LLVMConstVector(mix, 2 * (unsigned)vl), ""), gep(e, p, c64(e, -(int64_t)size), 1));
        LLVMSetAlignment(s, (unsigned)size);
        return;
    }
    for (int i = 0; i < vl; i++) {
        s = LLVMBuildStore(B, LLVMBuildExtractElement(B, x, c64(e, i), ""), i ? gep(e, p, c64(e, i * st * (int64_t)size), 1) : p);
        LLVMSetAlignment(s, (unsigned)size);
    }
}

/* ------------------------------------------------------------------------------------------------------- arithmetic */

static V convert(struct em *e, enum cpu_dt from, enum cpu_dt to, V x, int vl)
{
    int cf = native_class(from), ct = native_class(to);
    LLVMTypeRef t = vec(lane_type(e, to), vl);
    bool sgn = cpu_dt_info[from].is_signed && from != CPU_PRED;
    if (ct == 1) {
        if (cf == 1) return x;
        if (cf == 2) return LLVMBuildICmp(B, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
        return LLVMBuildFCmp(B, LLVMRealUNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    }
    if (ct == 2) {
        if (cf <= 2) {
            unsigned a = cf == 1 ? 1 : cpu_dt_info[from].bits, b = cpu_dt_info[to].bits;
            return a == b ? x : a > b ? LLVMBuildTrunc(B, x, t, "") : sgn ? LLVMBuildSExt(B, x, t, "") : LLVMBuildZExt(B, x, t, "");
        }
        const char *name = cpu_dt_info[to].is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
        return masked_call(e, name, (LLVMTypeRef[]){t, LLVMTypeOf(x)}, 2, &x, 1);
    }
    bool small = cpu_dt_small(to);
    if (cf <= 2) {
        if (small && cf == 2 && cpu_dt_info[from].bits > 16) { /* through double and one odd rounding */
            LLVMTypeRef d = vec(LLVMDoubleTypeInContext(e->cx), vl);
            x = to_odd(e, sgn ? LLVMBuildSIToFP(B, x, d, "") : LLVMBuildUIToFP(B, x, d, ""), vl);
        } else {
            x = sgn ? LLVMBuildSIToFP(B, x, t, "") : LLVMBuildUIToFP(B, x, t, "");
        }
        return round_small(e, to, x, vl);
    }
    if (ct == 4) return cf == 4 ? x : LLVMBuildFPExt(B, x, t, "");
    if (cf == 4) x = small ? to_odd(e, x, vl) : LLVMBuildFPTrunc(B, x, t, "");
    return small && from != to ? round_small(e, to, x, vl) : x;
}

static V total_key(struct em *e, V x, int vl, bool wide)
{
    struct vm v = math(e, vl, wide);
    V b = LLVMBuildBitCast(B, x, v.i, ""), s = LLVMBuildAShr(B, b, vm_i(&v, wide ? 63 : 31), "");
    return LLVMBuildXor(B, b, LLVMBuildAnd(B, s, vm_i(&v, wide ? INT64_MAX : INT32_MAX), ""), "");
}

static V compare(struct em *e, const struct rp_ins *s, enum cpu_dt t, V a, V b, int vl)
{
    static const LLVMRealPredicate fp[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT, LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
    static const LLVMIntPredicate ip[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
    static const LLVMIntPredicate up[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
    int how = s->aux & ~RP_CMP_TOTAL, c = native_class(t);
    if (s->aux & RP_CMP_TOTAL) {
        a = total_key(e, a, vl, c == 4);
        b = total_key(e, b, vl, c == 4);
        return LLVMBuildICmp(B, ip[how], a, b, "");
    }
    if (c >= 3) return LLVMBuildFCmp(B, fp[how], a, b, "");
    return LLVMBuildICmp(B, c == 2 && cpu_dt_info[t].is_signed ? ip[how] : up[how], a, b, "");
}

static V extreme(struct em *e, enum cpu_dt t, bool max, V a, V b, int vl)
{
    int c = native_class(t);
    if (c >= 3) {
        struct vm v = math(e, vl, c == 4);
        return max ? vm_max(&v, a, b) : vm_min(&v, a, b);
    }
    if (c == 1) return max ? LLVMBuildOr(B, a, b, "") : LLVMBuildAnd(B, a, b, "");
    bool sgn = cpu_dt_info[t].is_signed;
    V take = LLVMBuildICmp(B, max ? (sgn ? LLVMIntSGT : LLVMIntUGT) : (sgn ? LLVMIntSLT : LLVMIntULT), a, b, "");
    return LLVMBuildSelect(B, take, a, b, "");
}

/* |a| - n |b| with the sign of a, exactly, in double: the quotient's first 24 bits are taken away until less than |b| is left. A quotient
 * a little too small is taken, so nothing is ever taken twice; in the end |b| itself may be left. */
static V remainder_f32(struct em *e, V a, V b, int vl)
{
    struct vm v = math(e, vl, true);
    LLVMTypeRef f32 = vec(LLVMFloatTypeInContext(e->cx), vl);
    V x = LLVMBuildFPExt(B, a, v.f, ""), y = LLVMBuildFPExt(B, b, v.f, ""), ax = vm_call(&v, "llvm.fabs", v.f, &x, 1), ay = vm_call(&v, "llvm.fabs", v.f, &y, 1);
    V inf = vm_f(&v, (double)INFINITY), zero = vm_f(&v, 0);
    V fit = LLVMBuildAnd(B, LLVMBuildFCmp(B, LLVMRealOGT, ay, zero, ""), LLVMBuildFCmp(B, LLVMRealOLT, ay, inf, ""), "");
    fit = LLVMBuildAnd(B, fit, LLVMBuildFCmp(B, LLVMRealOLT, ax, inf, ""), "");
    V start = LLVMBuildSelect(B, fit, ax, zero, ""), d = LLVMBuildSelect(B, fit, ay, vm_f(&v, 1), "");
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(B), head = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""), out = LLVMAppendBasicBlockInContext(e->cx, e->fn, "");
    LLVMBuildBr(B, head);
    LLVMPositionBuilderAtEnd(B, head);
    V r = LLVMBuildPhi(B, v.f, "");
    LLVMAddIncoming(r, &start, &pre, 1);
    V q = LLVMBuildFMul(B, LLVMBuildFDiv(B, r, d, ""), vm_f(&v, 1 - 0x1p-50), "");
    q = LLVMBuildBitCast(B, LLVMBuildAnd(B, LLVMBuildBitCast(B, q, v.i, ""), vm_i(&v, -((int64_t)1 << 29)), ""), v.f, "");
    q = vm_call(&v, "llvm.trunc", v.f, &q, 1);
    V more = LLVMBuildFCmp(B, LLVMRealOGE, r, d, "");
    q = LLVMBuildSelect(B, LLVMBuildAnd(B, more, LLVMBuildFCmp(B, LLVMRealOLT, q, vm_f(&v, 1), ""), ""), vm_f(&v, 1), q, "");
    V n = vm_call(&v, "llvm.fma", v.f, (V[]){LLVMBuildFNeg(B, q, ""), d, r}, 3), any = LLVMBuildFCmp(B, LLVMRealOGE, n, d, "");
    if (vl > 1) any = masked_call(e, "llvm.vector.reduce.or", (LLVMTypeRef[]){LLVMTypeOf(any)}, 1, &any, 1);
    LLVMAddIncoming(r, &n, &head, 1);
    LLVMBuildCondBr(B, any, head, out);
    LLVMPositionBuilderAtEnd(B, out);
    V res = LLVMBuildFPTrunc(B, vm_call(&v, "llvm.copysign", v.f, (V[]){n, x}, 2), f32, "");
    V whole = LLVMBuildAnd(B, LLVMBuildFCmp(B, LLVMRealOEQ, ay, inf, ""), LLVMBuildFCmp(B, LLVMRealOLT, ax, inf, ""), "");
    V bad = LLVMBuildNot(B, LLVMBuildOr(B, fit, whole, ""), "");
    res = LLVMBuildSelect(B, whole, a, res, "");
    return LLVMBuildSelect(B, bad, const_splat(LLVMConstReal(LLVMFloatTypeInContext(e->cx), (double)NAN), vl), res, "");
}

/* f32 and bf16, which have f32's exponent: rounding to mantissa bits on the bits, then what the exponent cannot hold. */
static V reduce_precision(struct em *e, const struct rp_ins *s, V x, int vl)
{
    struct vm v = math(e, vl, false);
    int ebits = NF_MAX(1, NF_MIN(s->aux >> 8, 8)), mbits = s->aux & 255, reach = (1 << (ebits - 1)) - 1;
    V b = LLVMBuildBitCast(B, x, v.i, ""), sign = LLVMBuildAnd(B, b, vm_i(&v, INT32_MIN), ""), a = LLVMBuildAnd(B, b, vm_i(&v, INT32_MAX), ""), r = a;
    if (mbits < 23) {
        V odd = LLVMBuildAnd(B, LLVMBuildLShr(B, a, vm_i(&v, 23 - mbits), ""), vm_i(&v, 1), "");
        r = LLVMBuildAdd(B, LLVMBuildAdd(B, a, odd, ""), vm_i(&v, ((int64_t)1 << (22 - mbits)) - 1), "");
        r = LLVMBuildAnd(B, r, vm_i(&v, -((int64_t)1 << (23 - mbits))), "");
    }
    if (ebits < 8) {
        r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGE, r, vm_i(&v, (int64_t)(reach + 128) << 23), ""), vm_i(&v, 0x7f800000), r, "");
        r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntULT, r, vm_i(&v, (int64_t)(128 - reach) << 23), ""), vm_i(&v, 0), r, "");
    }
    V nan = mbits == 0 ? vm_i(&v, 0x7f800000) : a;
    r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGT, a, vm_i(&v, 0x7f800000), ""), nan, r, "");
    return LLVMBuildBitCast(B, LLVMBuildOr(B, sign, r, ""), v.f, "");
}

static V float_op(struct em *e, const struct rp_ins *s, V *w, int vl, bool wide, bool *ret_exact)
{
    struct vm v = math(e, vl, wide);
    V a = w[0], b = w[1];
    *ret_exact = false;
    switch ((int)s->op) {
    case RP_NEG: /* some floats of 8 bits have no -0 */
        *ret_exact = cpu_dt_info[s->dt].bits >= 16;
        return LLVMBuildFNeg(B, a, "");
    case RP_ABS: *ret_exact = true; return vm_call(&v, "llvm.fabs", v.f, &a, 1);
    case RP_SIGN: {
        V one = vm_call(&v, "llvm.copysign", v.f, (V[]){vm_f(&v, 1), a}, 2);
        *ret_exact = true;
        return LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealUEQ, a, vm_f(&v, 0), ""), a, one, "");
    }
    case RP_FLOOR: return vm_call(&v, "llvm.floor", v.f, &a, 1);
    case RP_CEIL: return vm_call(&v, "llvm.ceil", v.f, &a, 1);
    case RP_RNE: return vm_call(&v, "llvm.rint", v.f, &a, 1);
    case RP_RAZ: { /* trunc(|x|) plus one where the fraction is a half or more */
        V m = vm_call(&v, "llvm.fabs", v.f, &a, 1), t = vm_call(&v, "llvm.trunc", v.f, &m, 1);
        V up = LLVMBuildFCmp(B, LLVMRealOGE, LLVMBuildFSub(B, m, t, ""), vm_f(&v, 0.5), "");
        t = LLVMBuildFAdd(B, t, LLVMBuildSelect(B, up, vm_f(&v, 1), vm_f(&v, 0), ""), "");
        return vm_call(&v, "llvm.copysign", v.f, (V[]){t, a}, 2);
    }
    case RP_SQRT: return vm_call(&v, "llvm.sqrt", v.f, &a, 1);
    case RP_RSQRT: return LLVMBuildFDiv(B, vm_f(&v, 1), vm_call(&v, "llvm.sqrt", v.f, &a, 1), "");
    case RP_CBRT: return vm_cbrt(&v, a);
    case RP_EXP: return vm_exp(&v, a);
    case RP_EXPM1: return vm_expm1(&v, a);
    case RP_LOG: return vm_log(&v, a);
    case RP_LOG1P: return vm_log1p(&v, a);
    case RP_LOGISTIC: return vm_logistic(&v, a);
    case RP_TANH: return vm_tanh(&v, a);
    case RP_SIN: return vm_sincos(&v, a, false);
    case RP_COS: return vm_sincos(&v, a, true);
    case RP_SINH: return vm_hyperbolic(&v, a, true);
    case RP_COSH: return vm_hyperbolic(&v, a, false);
    case RP_ATAN2: return vm_atan2(&v, a, b);
    case RP_REM: return remainder_f32(e, a, b, vl);
    case RP_PREC: return reduce_precision(e, s, a, vl);
    case RP_TAN: return LLVMBuildFDiv(B, vm_sincos(&v, a, false), vm_sincos(&v, a, true), "");
    case RP_ERF: return vm_erf(&v, a);
    case RP_ERFC: return vm_erfc(&v, a);
    case RP_REAL: *ret_exact = true; return a;
    case RP_IMAG: *ret_exact = true; return vm_f(&v, 0);
    case RP_ADD: return LLVMBuildFAdd(B, a, b, "");
    case RP_SUB: return LLVMBuildFSub(B, a, b, "");
    case RP_MUL: return LLVMBuildFMul(B, a, b, "");
    case RP_DIV: return LLVMBuildFDiv(B, a, b, "");
    case RP_POW: return vm_pow(&v, a, b);
    case RP_MAX: *ret_exact = true; return vm_max(&v, a, b);
    case RP_MIN: *ret_exact = true; return vm_min(&v, a, b);
    default: /* clamp: min, x, max */
        *ret_exact = true;
        return vm_min(&v, vm_max(&v, b, a), w[2]);
    }
}

/* By squaring, bit by bit of the exponent; a negative one leaves 1, -1 or 0. */
static V int_power(struct em *e, enum cpu_dt t, V a, V b, int vl)
{
    LLVMTypeRef lt = lane_type(e, t);
    V one = int_splat(e, lt, 1, vl), zero = int_splat(e, lt, 0, vl), minus = int_splat(e, lt, -1, vl), r = one, x = a;
    int bits = cpu_dt_info[t].bits;
    for (int i = 0; i < bits; i++) {
        V bit = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, b, int_splat(e, lt, (int64_t)((uint64_t)1 << i), vl), ""), zero, "");
        r = LLVMBuildSelect(B, bit, LLVMBuildMul(B, r, x, ""), r, "");
        if (i + 1 < bits) x = LLVMBuildMul(B, x, x, "");
    }
    if (!cpu_dt_info[t].is_signed) return r;
    V odd = LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, b, one, ""), zero, "");
    V low = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntEQ, a, one, ""), one, zero, "");
    low = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntEQ, a, minus, ""), LLVMBuildSelect(B, odd, minus, one, ""), low, "");
    return LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntSLT, b, zero, ""), low, r, "");
}

static V int_op(struct em *e, const struct rp_ins *s, V *w, int vl)
{
    enum cpu_dt t = (enum cpu_dt)s->dt;
    LLVMTypeRef lt = lane_type(e, t), vt = vec(lt, vl);
    bool sgn = cpu_dt_info[t].is_signed && t != CPU_PRED;
    int bits = t == CPU_PRED ? 1 : cpu_dt_info[t].bits;
    V a = w[0], b = w[1], zero = LLVMConstNull(vt), wide;
    struct vm v = math(e, vl, false);
    switch ((int)s->op) {
    case RP_NEG: return LLVMBuildNeg(B, a, "");
    case RP_ABS: return sgn ? LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntSLT, a, zero, ""), LLVMBuildNeg(B, a, ""), a, "") : a;
    case RP_SIGN:
        if (!sgn) return LLVMBuildZExt(B, LLVMBuildICmp(B, LLVMIntNE, a, zero, ""), vt, "");
        return LLVMBuildSub(B, LLVMBuildZExt(B, LLVMBuildICmp(B, LLVMIntSGT, a, zero, ""), vt, ""), LLVMBuildZExt(B, LLVMBuildICmp(B, LLVMIntSLT, a, zero, ""), vt, ""), "");
    case RP_POW: return int_power(e, t, a, b, vl);
    case RP_NOT: return LLVMBuildNot(B, a, "");
    case RP_POPCNT: return vm_call(&v, "llvm.ctpop", vt, &a, 1);
    case RP_CLZ: return vm_call(&v, "llvm.ctlz", vt, (V[]){a, LLVMConstInt(e->i1, 0, 0)}, 2);
    case RP_ADD: return t == CPU_PRED ? LLVMBuildOr(B, a, b, "") : LLVMBuildAdd(B, a, b, "");
    case RP_SUB: return LLVMBuildSub(B, a, b, "");
    case RP_MUL: return t == CPU_PRED ? LLVMBuildAnd(B, a, b, "") : LLVMBuildMul(B, a, b, "");
    case RP_DIV:
    case RP_REM: {
        V none = LLVMBuildICmp(B, LLVMIntEQ, b, zero, ""), ones = int_splat(e, lt, -1, vl), minus = LLVMBuildICmp(B, LLVMIntEQ, b, ones, "");
        V trap = sgn ? LLVMBuildOr(B, none, minus, "") : none, d = LLVMBuildSelect(B, trap, int_splat(e, lt, 1, vl), b, "");
        if (s->op == RP_DIV) {
            V q = sgn ? LLVMBuildSDiv(B, a, d, "") : LLVMBuildUDiv(B, a, d, "");
            if (sgn) q = LLVMBuildSelect(B, minus, LLVMBuildNeg(B, a, ""), q, "");
            return LLVMBuildSelect(B, none, ones, q, "");
        }
        V q = sgn ? LLVMBuildSRem(B, a, d, "") : LLVMBuildURem(B, a, d, ""); /* by 1 for -1: 0 */
        return LLVMBuildSelect(B, none, a, q, "");
    }
    case RP_MAX: return extreme(e, t, true, a, b, vl);
    case RP_MIN: return extreme(e, t, false, a, b, vl);
    case RP_AND: return LLVMBuildAnd(B, a, b, "");
    case RP_OR: return LLVMBuildOr(B, a, b, "");
    case RP_XOR: return LLVMBuildXor(B, a, b, "");
    case RP_SHL:
    case RP_SHR:
        wide = LLVMBuildICmp(B, LLVMIntUGE, b, int_splat(e, lt, bits, vl), "");
        b = LLVMBuildSelect(B, wide, zero, b, "");
        return LLVMBuildSelect(B, wide, zero, s->op == RP_SHL ? LLVMBuildShl(B, a, b, "") : LLVMBuildLShr(B, a, b, ""), "");
    case RP_SAR:
        wide = LLVMBuildICmp(B, LLVMIntUGE, b, int_splat(e, lt, bits, vl), "");
        return LLVMBuildAShr(B, a, LLVMBuildSelect(B, wide, int_splat(e, lt, bits - 1, vl), b, ""), "");
    case RP_REAL: return a;
    default: return extreme(e, t, false, extreme(e, t, true, b, a, vl), w[2], vl); /* clamp */
    }
}

static V rebits(struct em *e, enum cpu_dt from, enum cpu_dt to, V x, int vl)
{
    return from_mem(e, to, LLVMBuildBitCast(B, to_mem(e, from, x, vl), vec(mem_type(e, to), vl), ""), vl);
}

/* The offset of a memoryless access as a number. */
static V index_value(struct em *e, const struct rp_ins *s, V col, int vl)
{
    const struct rp_acc *x = &e->p->acc[s->aux];
    V off = c64(e, x->base);
    int last = e->p->nd - 1;
    int64_t st = x->stride[last], low, high;
    for (int d = 0; d < last; d++)
        if (x->stride[d]) off = LLVMBuildAdd(B, off, LLVMBuildMul(B, e->idx[d], c64(e, x->stride[d]), ""), "");
    if (st && last < e->p->npar && e->idx[last]) col = e->idx[last]; /* all dims parallel, one element at a time */
    if (st && col) off = LLVMBuildAdd(B, off, LLVMBuildMul(B, col, c64(e, st), ""), "");
    /* The extent of the first dim is not known here; with others below 2^31 the sum is narrow only if it does not use it. */
    bool narrow = rp_extent(e->p, s->aux, 1, &low, &high) && low > INT32_MIN && high < INT32_MAX && x->stride[0] == 0;
    enum cpu_dt it = narrow ? CPU_S32 : CPU_S64;
    V r = splat(e, narrow ? LLVMBuildTrunc(B, off, e->i32, "") : off, vl);
    if (vl > 1 && st) {
        V l[64];
        for (int i = 0; i < vl; i++) l[i] = LLVMConstInt(narrow ? e->i32 : e->i64, (unsigned long long)(i * st), 1);
        r = LLVMBuildAdd(B, r, LLVMConstVector(l, (unsigned)vl), "");
    }
    return convert(e, it, (enum cpu_dt)s->dt, r, vl);
}

static V constant(struct em *e, const struct rp_ins *s)
{
    struct cpu_num n = cpu_num_load((enum cpu_dt)s->dt, s->bits);
    LLVMTypeRef t = lane_type(e, (enum cpu_dt)s->dt);
    if (native_class((enum cpu_dt)s->dt) <= 2) return LLVMConstInt(t, (unsigned long long)n.i, 1);
    if (s->dt == CPU_F64) return LLVMConstBitCast(LLVMConstInt(e->i64, s->bits[0], 0), t);
    float f = (float)n.re; /* with the bits of a NaN as they are */
    uint32_t w;
    memcpy(&w, &f, 4);
    if (s->dt == CPU_F32) w = (uint32_t)s->bits[0];
    return LLVMConstBitCast(LLVMConstInt(e->i32, w, 0), t);
}

static V combine(struct em *e, int kind, enum cpu_dt t, V a, V b, int vl)
{
    bool fl = native_class(t) >= 3;
    switch (kind) {
    case RP_SUM: return fl ? LLVMBuildFAdd(B, a, b, "") : t == CPU_PRED ? LLVMBuildOr(B, a, b, "") : LLVMBuildAdd(B, a, b, "");
    case RP_PROD: return fl ? LLVMBuildFMul(B, a, b, "") : t == CPU_PRED ? LLVMBuildAnd(B, a, b, "") : LLVMBuildMul(B, a, b, "");
    case RP_RMAX: return extreme(e, t, true, a, b, vl);
    case RP_RMIN: return extreme(e, t, false, a, b, vl);
    case RP_ALL: return LLVMBuildAnd(B, a, b, "");
    case RP_ANY: return LLVMBuildOr(B, a, b, "");
    default: return LLVMBuildXor(B, a, b, "");
    }
}

static V identity(struct em *e, int kind, enum cpu_dt t)
{
    LLVMTypeRef lt = lane_type(e, t);
    bool fl = native_class(t) >= 3, sgn = cpu_dt_info[t].is_signed && t != CPU_PRED;
    int bits = t == CPU_PRED ? 1 : cpu_dt_info[t].bits;
    switch (kind) {
    case RP_PROD: return fl ? LLVMConstReal(lt, 1) : LLVMConstInt(lt, 1, 0);
    case RP_ALL: return LLVMConstAllOnes(lt);
    case RP_RMAX:
        if (fl) return LLVMConstReal(lt, -(double)INFINITY);
        return sgn ? LLVMConstInt(lt, (unsigned long long)1 << (bits - 1), 0) : LLVMConstNull(lt);
    case RP_RMIN:
        if (fl) return LLVMConstReal(lt, (double)INFINITY);
        return sgn ? LLVMConstInt(lt, ((unsigned long long)1 << (bits - 1)) - 1, 0) : LLVMConstAllOnes(lt);
    default: return LLVMConstNull(lt);
    }
}

/* --------------------------------------------------------------------------------------------------------- emission */

static V operand(struct em *e, int i, int vl) { return e->same[i] ? splat(e, e->inv[i], vl) : e->val[i]; }

/* Instruction i for vl lanes at column col. slot: accumulator. */
static void instruction(struct em *e, int i, V col, int vl, V mask, int slot)
{
    const struct rp_ins *s = &e->p->ins[i];
    enum cpu_dt t = (enum cpu_dt)s->dt, from = t;
    V w[3] = {0}, r = NULL;
    bool exact = true;
    for (int k = 0; k < rp_op_info[s->op].nsrc; k++) w[k] = operand(e, s->src[k], vl);
    if (rp_op_info[s->op].nsrc) from = (enum cpu_dt)e->p->ins[s->src[0]].dt;
    struct vm v = math(e, vl, from == CPU_F64);
    switch ((int)s->op) {
    case RP_LD: r = load(e, s->aux, col, vl, mask); break;
    case RP_ST: store(e, s->aux, col, vl, mask, w[0]); return;
    case RP_CONST: r = const_splat(constant(e, s), vl); break;
    case RP_IDX: r = index_value(e, s, col, vl); break;
    case RP_ROW: r = e->p->block ? e->done[s->src[0]][slot] : splat(e, e->done[s->src[0]][0], vl); break;
    case RP_RED: {
        V p = e->acc[i][slot], old = LLVMBuildLoad2(B, vec(lane_type(e, t), vl), p, "");
        LLVMBuildStore(B, combine(e, s->aux, t, old, w[0], vl), p);
        return;
    }
    case RP_COPY: r = w[0]; break;
    case RP_CVT: r = convert(e, from, t, w[0], vl); break;
    case RP_BITS: r = rebits(e, from, t, w[0], vl); break;
    case RP_SEL: r = LLVMBuildSelect(B, w[0], w[1], w[2], ""); break;
    case RP_CMP: r = compare(e, s, from, w[0], w[1], vl); break;
    case RP_FINITE: r = LLVMBuildFCmp(B, LLVMRealOLT, vm_call(&v, "llvm.fabs", v.f, &w[0], 1), vm_f(&v, (double)INFINITY), ""); break;
    default:
        if (native_class(t) >= 3) r = float_op(e, s, w, vl, t == CPU_F64, &exact);
        else r = int_op(e, s, w, vl);
        break;
    }
    if (!exact && cpu_dt_small(t)) r = round_small(e, t, r, vl);
    e->val[i] = r;
}

static void body(struct em *e, int from, int to, V col, int vl, V mask, int slot)
{
    for (int i = from; i < to; i++)
        if (!e->same[i]) instruction(e, i, col, vl, mask, slot);
}

struct loop {
    LLVMBasicBlockRef head;
    V i;
};
static struct loop loop_begin(struct em *e, V from)
{
    LLVMBasicBlockRef pre = LLVMGetInsertBlock(B);
    struct loop l = {.head = LLVMAppendBasicBlockInContext(e->cx, e->fn, "")};
    LLVMBuildBr(B, l.head);
    LLVMPositionBuilderAtEnd(B, l.head);
    l.i = LLVMBuildPhi(B, e->i64, "");
    LLVMAddIncoming(l.i, &from, &pre, 1);
    return l;
}
/* Goes round while i + step <= last (all at least once). */
static void loop_end(struct em *e, struct loop *l, int64_t step, V last)
{
    LLVMBasicBlockRef cur = LLVMGetInsertBlock(B), out = LLVMAppendBasicBlockInContext(e->cx, e->fn, "");
    V n = LLVMBuildNSWAdd(B, l->i, c64(e, step), "");
    LLVMAddIncoming(l->i, &n, &cur, 1);
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntSLE, n, last, ""), l->head, out);
    LLVMPositionBuilderAtEnd(B, out);
}

/* Which instructions of a pass are the same for all lanes? */
static void find_same(struct em *e, int from, int to, bool all)
{
    const struct rp_prog *p = e->p;
    int last = p->nd - 1;
    for (int i = from; i < to; i++) {
        const struct rp_ins *s = &p->ins[i];
        bool same = s->op != RP_ST && s->op != RP_RED && !all;
        for (int k = 0; k < rp_op_info[s->op].nsrc; k++) same = same && e->same[s->src[k]];
        if (s->op == RP_LD || s->op == RP_IDX) same = same && p->acc[s->aux].stride[last] == 0;
        if (s->op == RP_ROW) same = same && !p->block;
        e->same[i] = same;
    }
}

static V tree(struct em *e, int kind, enum cpu_dt t, V x, int vl)
{
    for (int h = vl / 2; h > 1; h /= 2) {
        V lo[64], hi[64], un = LLVMGetPoison(LLVMTypeOf(x));
        for (int i = 0; i < h; i++) {
            lo[i] = LLVMConstInt(e->i32, (unsigned)i, 0);
            hi[i] = LLVMConstInt(e->i32, (unsigned)(i + h), 0);
        }
        V a = LLVMBuildShuffleVector(B, x, un, LLVMConstVector(lo, (unsigned)h), ""), b = LLVMBuildShuffleVector(B, x, un, LLVMConstVector(hi, (unsigned)h), "");
        x = combine(e, kind, t, a, b, h);
    }
    return combine(e, kind, t, LLVMBuildExtractElement(B, x, c64(e, 0), ""), LLVMBuildExtractElement(B, x, c64(e, 1), ""), 1);
}

static void advance_addresses(struct em *e)
{
    const struct rp_prog *p = e->p;
    for (int a = 0; a < p->nacc; a++) {
        e->addr[a] = e->rowp[a];
        if (p->acc[a].arg == RP_NO_ARG) continue;
        for (int d = p->npar; d < p->nd - 1; d++)
            if (p->acc[a].stride[d]) e->addr[a] = gep(e, e->addr[a], e->idx[d], p->acc[a].stride[d] * (int64_t)cpu_dt_bytes(p->acc[a].dt));
    }
}

static bool has_op(const struct rp_prog *p, int from, int to, int least_cost, bool red)
{
    for (int i = from; i < to; i++)
        if (red ? p->ins[i].op == RP_RED : rp_op_info[p->ins[i].op].cost >= least_cost) return true;
    return false;
}

/* left: of the last dim, less than a vector. */
static void init_accumulators(struct em *e, int from, int to, int slots, int vl, int64_t left)
{
    for (int i = from; i < to; i++) {
        if (e->p->ins[i].op != RP_RED) continue;
        V id = identity(e, e->p->ins[i].aux, (enum cpu_dt)e->p->ins[i].dt);
        for (int u = 0; u < slots; u++) LLVMBuildStore(B, const_splat(id, vl), e->acc[i][u]);
        for (int h = vl / 2; h; h /= 2)
            if (left & h) LLVMBuildStore(B, const_splat(id, h), e->acc[i][slot_of(h)]);
    }
}

/* A pass of ROW mode: sequential loops, then vectors, then what is left of a vector. */
static void row_pass(struct em *e, int from, int to)
{
    const struct rp_prog *p = e->p;
    int last = p->nd - 1, L = e->lanes;
    bool vector = last >= p->npar;
    int64_t n = vector ? p->dims[last] : 1;
    bool reduces = has_op(p, from, to, 0, true);
    int U = reduces && !has_op(p, from, to, 8, false) && n >= L * UNROLL ? UNROLL : 1;
    find_same(e, from, to, false);
    init_accumulators(e, from, to, U, L, n % L);
    struct loop seq[RP_DIMS_MAX];
    for (int d = p->npar; d < last; d++) {
        seq[d] = loop_begin(e, c64(e, 0));
        e->idx[d] = seq[d].i;
    }
    advance_addresses(e);
    for (int i = from; i < to; i++)
        if (e->same[i]) {
            instruction(e, i, NULL, 1, NULL, 0);
            e->inv[i] = e->val[i];
        }
    int64_t unrolled = n / (L * U) * (L * U), vectors = n / L * L; /* cut: both are n, for RP_CUT is a multiple of L * U */
    if (unrolled) {
        struct loop l = loop_begin(e, c64(e, 0));
        for (int u = 0; u < U; u++) body(e, from, to, u ? LLVMBuildAdd(B, l.i, c64(e, u * L), "") : l.i, L, NULL, u);
        loop_end(e, &l, L * U, p->cut ? LLVMBuildSub(B, e->end, c64(e, L * U), "") : c64(e, unrolled - L * U));
    }
    if (vectors > unrolled) {
        struct loop l = loop_begin(e, c64(e, unrolled));
        body(e, from, to, l.i, L, NULL, 0);
        loop_end(e, &l, L, c64(e, vectors - L));
    }
    for (int h = L / 2, left = (int)(n - vectors); h; h /= 2)
        if (left & h) body(e, from, to, c64(e, n - (left & (2 * h - 1))), h, NULL, slot_of(h));
    for (int d = last - 1; d >= p->npar; d--) loop_end(e, &seq[d], 1, c64(e, p->dims[d] - 1));
    for (int i = from; i < to; i++) {
        const struct rp_ins *s = &p->ins[i];
        enum cpu_dt t = (enum cpu_dt)s->dt;
        if (s->op != RP_RED) continue;
        V r[UNROLL], x;
        for (int u = 0; u < U; u++) r[u] = LLVMBuildLoad2(B, vec(lane_type(e, t), L), e->acc[i][u], "");
        for (int h = 1; h < U; h *= 2)
            for (int u = 0; u + h < U; u += 2 * h) r[u] = combine(e, s->aux, t, r[u], r[u + h], L);
        x = tree(e, s->aux, t, r[0], L);
        for (int h = L / 2; h; h /= 2) {
            if (!((n - vectors) & h)) continue;
            V y = LLVMBuildLoad2(B, vec(lane_type(e, t), h), e->acc[i][slot_of(h)], "");
            x = combine(e, s->aux, t, x, h > 1 ? tree(e, s->aux, t, y, h) : y, 1);
        }
        e->done[i][0] = cpu_dt_small(t) ? round_small(e, t, x, 1) : x;
    }
}

/* A pass of COL mode over one block of lanes; mask NULL: all of them are there. */
static void col_pass(struct em *e, int from, int to, V first, V *mask, int U)
{
    const struct rp_prog *p = e->p;
    int last = p->nd - 1, L = e->lanes;
    find_same(e, from, to, true);
    init_accumulators(e, from, to, U, L, 0);
    struct loop seq[RP_DIMS_MAX];
    for (int d = p->npar; d < last; d++) {
        seq[d] = loop_begin(e, c64(e, 0));
        e->idx[d] = seq[d].i;
    }
    advance_addresses(e);
    for (int u = 0; u < U; u++) body(e, from, to, u ? LLVMBuildAdd(B, first, c64(e, u * L), "") : first, L, mask ? mask[u] : NULL, u);
    for (int d = last - 1; d >= p->npar; d--) loop_end(e, &seq[d], 1, c64(e, p->dims[d] - 1));
    for (int i = from; i < to; i++) {
        enum cpu_dt t = (enum cpu_dt)p->ins[i].dt;
        if (p->ins[i].op != RP_RED) continue;
        for (int u = 0; u < U; u++) {
            V x = LLVMBuildLoad2(B, vec(lane_type(e, t), L), e->acc[i][u], "");
            e->done[i][u] = cpu_dt_small(t) ? round_small(e, t, x, L) : x;
        }
    }
}

static void all_passes(struct em *e, V first, V *mask, int U)
{
    const struct rp_prog *p = e->p;
    for (int from = 0, to; from < p->nins; from = to) {
        bool once = p->ins[from].op == RP_ONCE;
        to = from + 1;
        while (to < p->nins && p->ins[to].op != RP_PASS && p->ins[to].op != RP_ONCE) to++;
        if (!once) {
            if (p->block) col_pass(e, from + 1, to, first, mask, U);
            else row_pass(e, from + 1, to);
            continue;
        }
        for (int d = p->npar; d < p->nd; d++) e->idx[d] = c64(e, 0);
        for (int a = 0; a < p->nacc; a++) e->addr[a] = e->rowp[a];
        find_same(e, from + 1, to, true);
        if (!p->block) body(e, from + 1, to, NULL, 1, NULL, 0);
        for (int u = 0; p->block && u < U; u++) body(e, from + 1, to, u ? LLVMBuildAdd(B, first, c64(e, u * e->lanes), "") : first, e->lanes, mask ? mask[u] : NULL, u);
    }
}

/* One dim, all of it parallel: vectors over the range itself. */
static void flat(struct em *e, V lo, V hi)
{
    const struct rp_prog *p = e->p;
    int L = e->lanes;
    for (int a = 0; a < p->nacc; a++)
        if (p->acc[a].arg != RP_NO_ARG) e->addr[a] = gep(e, e->argp[p->acc[a].arg == RP_SCRATCH ? p->narg : p->acc[a].arg], c64(e, p->acc[a].base * (int64_t)cpu_dt_bytes(p->acc[a].dt)), 1);
    find_same(e, 1, p->nins, false);
    for (int i = 1; i < p->nins; i++)
        if (e->same[i]) {
            instruction(e, i, NULL, 1, NULL, 0);
            e->inv[i] = e->val[i];
        }
    LLVMBasicBlockRef vec_bb = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""), test = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""), rest = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""),
                      done = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""), entry = LLVMGetInsertBlock(B);
    V last = LLVMBuildSub(B, hi, c64(e, L), "");
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntSLE, lo, last, ""), vec_bb, test);
    LLVMPositionBuilderAtEnd(B, vec_bb);
    struct loop l = loop_begin(e, lo);
    body(e, 1, p->nins, l.i, L, NULL, 0);
    V next = LLVMBuildNSWAdd(B, l.i, c64(e, L), "");
    LLVMBasicBlockRef cur = LLVMGetInsertBlock(B);
    LLVMAddIncoming(l.i, &next, &cur, 1);
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntSLE, next, last, ""), l.head, test);
    LLVMPositionBuilderAtEnd(B, test);
    V from = LLVMBuildPhi(B, e->i64, "");
    LLVMAddIncoming(from, (V[]){lo, next}, (LLVMBasicBlockRef[]){entry, cur}, 2);
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntSLT, from, hi, ""), rest, done);
    LLVMPositionBuilderAtEnd(B, rest);
    l = loop_begin(e, from);
    body(e, 1, p->nins, l.i, 1, NULL, 0);
    next = LLVMBuildNSWAdd(B, l.i, c64(e, 1), "");
    cur = LLVMGetInsertBlock(B);
    LLVMAddIncoming(l.i, &next, &cur, 1);
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntSLT, next, hi, ""), l.head, done);
    LLVMPositionBuilderAtEnd(B, done);
}

static void attribute(struct em *e, const char *name, const char *value)
{
    LLVMAttributeRef a = value ? LLVMCreateStringAttribute(e->cx, name, (unsigned)strlen(name), value, (unsigned)strlen(value))
                               : LLVMCreateEnumAttribute(e->cx, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
    LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex, a);
}

static void make_accumulators(struct em *e, int slots)
{
    for (int i = 0; i < e->p->nins; i++) {
        if (e->p->ins[i].op != RP_RED) continue;
        LLVMTypeRef t = lane_type(e, (enum cpu_dt)e->p->ins[i].dt);
        for (int u = 0; u < slots; u++) e->acc[i][u] = LLVMBuildAlloca(B, vec(t, e->lanes), "");
        for (int h = 1; h < e->lanes; h *= 2) e->acc[i][slot_of(h)] = LLVMBuildAlloca(B, vec(t, h), "");
    }
}

static void emit_body(struct em *e, V lo, V hi)
{
    const struct rp_prog *p = e->p;
    if (p->nd == 1 && !p->block && p->ins[0].op == RP_PASS && !has_op(p, 0, p->nins, 0, true)) {
        bool one_pass = true, strides = true;
        for (int i = 1; i < p->nins; i++) one_pass = one_pass && p->ins[i].op != RP_PASS && p->ins[i].op != RP_ONCE;
        for (int a = 0; a < p->nacc; a++) strides = strides && (p->acc[a].stride[0] == 0 || p->acc[a].stride[0] == 1 || p->acc[a].arg == RP_NO_ARG || e->pair[a]);
        if (one_pass && strides) {
            flat(e, lo, hi);
            return;
        }
    }
    int64_t width = p->dims[p->nd - 1];
    int U = p->block ? p->block / e->lanes : UNROLL;
    make_accumulators(e, U);
    struct loop l = loop_begin(e, lo);
    V rest = l.i, first = NULL, blocks = NULL, block = NULL;
    if (p->block) {
        blocks = c64(e, (width + p->block - 1) / p->block);
        block = LLVMBuildURem(B, rest, blocks, "");
        first = LLVMBuildMul(B, block, c64(e, p->block), "");
        rest = LLVMBuildUDiv(B, rest, blocks, "");
    }
    for (int d = p->npar - 1; d >= 0; d--) {
        e->idx[d] = d ? LLVMBuildURem(B, rest, c64(e, p->dims[d]), "") : rest;
        if (d) rest = LLVMBuildUDiv(B, rest, c64(e, p->dims[d]), "");
    }
    for (int a = 0; a < p->nacc; a++) {
        const struct rp_acc *x = &p->acc[a];
        if (x->arg == RP_NO_ARG) continue;
        V off = c64(e, x->base);
        for (int d = 0; d < p->npar; d++)
            if (x->stride[d]) off = LLVMBuildAdd(B, off, LLVMBuildMul(B, e->idx[d], c64(e, x->stride[d]), ""), "");
        e->rowp[a] = gep(e, e->argp[x->arg == RP_SCRATCH ? p->narg : x->arg], off, (int64_t)cpu_dt_bytes(x->dt));
    }
    if (p->block && width % p->block) { /* the last block has fewer lanes */
        LLVMBasicBlockRef whole = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""), part = LLVMAppendBasicBlockInContext(e->cx, e->fn, ""), join = LLVMAppendBasicBlockInContext(e->cx, e->fn, "");
        int64_t left = width % p->block;
        V mask[UNROLL];
        for (int u = 0; u < U; u++) {
            V m[64];
            for (int i = 0; i < e->lanes; i++) m[i] = LLVMConstInt(e->i1, u * e->lanes + i < left, 0);
            mask[u] = LLVMConstVector(m, (unsigned)e->lanes);
        }
        if (width < p->block) {
            LLVMBuildBr(B, part);
        } else {
            LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntEQ, block, LLVMBuildSub(B, blocks, c64(e, 1), ""), ""), part, whole);
        }
        LLVMPositionBuilderAtEnd(B, whole);
        if (width < p->block) LLVMBuildBr(B, join);
        else {
            all_passes(e, first, NULL, U);
            LLVMBuildBr(B, join);
        }
        LLVMPositionBuilderAtEnd(B, part);
        all_passes(e, first, mask, U);
        LLVMBuildBr(B, join);
        LLVMPositionBuilderAtEnd(B, join);
    } else {
        all_passes(e, first, NULL, U);
    }
    loop_end(e, &l, 1, LLVMBuildSub(B, hi, c64(e, 1), ""));
}

/* Accesses a, a + 1 of neighbouring elements of equal type, a at an even place, whose stores (if any) follow one another. */
static void find_pairs(struct em *e)
{
    const struct rp_prog *p = e->p;
    for (int a = 0; a + 1 < p->nacc; a++) {
        const struct rp_acc *x = &p->acc[a], *y = x + 1;
        bool pair = x->arg >= 0 && x->arg == y->arg && x->dt == y->dt && (x->dt == CPU_F32 || x->dt == CPU_F64) && x->base % 2 == 0 && y->base == x->base + 1 && !e->pair[a];
        bool both[2] = {false, false};
        for (int d = 0; d < p->nd; d++) pair = pair && x->stride[d] == y->stride[d] && x->stride[d] % 2 == 0;
        for (int i = 0; i < p->nins; i++) {
            const struct rp_ins *s = &p->ins[i];
            if (s->op == RP_ST && s->aux == a) pair = pair && i + 1 < p->nins && s[1].op == RP_ST && s[1].aux == a + 1;
            if (s->op == RP_ST && s->aux == a + 1) pair = pair && s[-1].op == RP_ST && s[-1].aux == a;
            if (s->op == RP_LD || s->op == RP_ST)
                for (int k = 0; k < 2; k++) both[k] = both[k] || s->aux == a + k;
        }
        if (!pair || !both[0] || !both[1]) continue;
        e->pair[a] = 1;
        e->pair[a + 1] = 2;
    }
}

void emit_kernel(LLVMModuleRef m, const char *name, const struct rp_prog *p, const struct emit_target *t)
{
    struct em E = {.p = p, .t = t, .m = m, .cx = LLVMGetModuleContext(m), .lanes = t->lanes}, *e = &E;
    size_t n = (size_t)p->nins + 1, na = (size_t)p->nacc + 1;
    e->b = LLVMCreateBuilderInContext(e->cx);
    e->i1 = LLVMInt1TypeInContext(e->cx);
    e->i8 = LLVMInt8TypeInContext(e->cx);
    e->i16 = LLVMInt16TypeInContext(e->cx);
    e->i32 = LLVMInt32TypeInContext(e->cx);
    e->i64 = LLVMInt64TypeInContext(e->cx);
    e->half = LLVMHalfTypeInContext(e->cx);
    e->ptr = LLVMPointerTypeInContext(e->cx, 0);
    e->val = nf_alloc_array(n, sizeof *e->val);
    e->inv = nf_alloc_array(n, sizeof *e->inv);
    e->same = nf_alloc_array(n, sizeof *e->same);
    e->acc = nf_alloc_array(n, sizeof *e->acc);
    e->done = nf_alloc_array(n, sizeof *e->done);
    e->rowp = nf_alloc_array(na, sizeof *e->rowp);
    e->addr = nf_alloc_array(na, sizeof *e->addr);
    e->pair = nf_alloc_array(na, sizeof *e->pair);
    find_pairs(e);
    e->argp = nf_alloc_array((size_t)p->narg + 1, sizeof *e->argp);
    LLVMTypeRef ft = LLVMFunctionType(LLVMVoidTypeInContext(e->cx), (LLVMTypeRef[]){e->ptr, e->i64, e->i64}, 3, 0);
    e->fn = LLVMAddFunction(m, name, ft);
    char section[64];
    nf_format(section, sizeof section, ".text.%s", name);
    LLVMSetSection(e->fn, section);
    attribute(e, "nounwind", NULL);
    attribute(e, "target-cpu", t->cpu);
    attribute(e, "target-features", t->features);
    attribute(e, "prefer-vector-width", t->lanes == 16 ? "512" : "256");
    attribute(e, "no-builtins", "");
    LLVMPositionBuilderAtEnd(B, LLVMAppendBasicBlockInContext(e->cx, e->fn, ""));
    for (int i = 0; i <= p->narg; i++) e->argp[i] = i < p->narg || p->scratch_bytes ? LLVMBuildLoad2(B, e->ptr, gep(e, LLVMGetParam(e->fn, 0), c64(e, i), 8), "") : NULL;
    if (p->cut) e->end = LLVMBuildLoad2(B, e->i64, gep(e, LLVMGetParam(e->fn, 0), c64(e, p->narg + 1), 8), "");
    emit_body(e, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2));
    LLVMBuildRetVoid(B);
    LLVMDisposeBuilder(e->b);
    free(e->val);
    free(e->inv);
    free(e->same);
    free(e->acc);
    free(e->done);
    free(e->rowp);
    free(e->addr);
    free(e->pair);
    free(e->argp);
}
