/* vmath.h: private: elementary functions as inline LLVM IR on vectors of any lane count, f32 and f64; no calls. */
#ifndef NEFFD_PIPELINE_CODEGEN_VMATH_H
#define NEFFD_PIPELINE_CODEGEN_VMATH_H

#include <llvm-c/Core.h>

#include <stdbool.h>
#include <stdint.h>

struct rp_prog;
struct emit_target;

/* emit_kernel.c: adds `void name(void **args, int64 lo, int64 hi)`. */
void emit_kernel(LLVMModuleRef m, const char *name, const struct rp_prog *p, const struct emit_target *t);

/* A view of a builder for one lane type. f1 is float or double, i1 the integer of its width; f, i are vectors of vl lanes
 * (vl 1: the lane types themselves). */
struct vm {
    LLVMContextRef cx;
    LLVMModuleRef m;
    LLVMBuilderRef b;
    int vl;
    bool wide;               /* f64 */
    LLVMTypeRef f, i, f1, i1;
};

struct vm vm_of(LLVMContextRef cx, LLVMModuleRef m, LLVMBuilderRef b, int vl, bool wide);
LLVMTypeRef vm_type(const struct vm *v, LLVMTypeRef lane);        /* vector of vl such lanes */
LLVMValueRef vm_f(const struct vm *v, double x);
LLVMValueRef vm_i(const struct vm *v, int64_t x);
LLVMValueRef vm_call(const struct vm *v, const char *intrinsic, LLVMTypeRef t, LLVMValueRef *a, int n);

LLVMValueRef vm_exp(const struct vm *v, LLVMValueRef x);
LLVMValueRef vm_expm1(const struct vm *v, LLVMValueRef x);
LLVMValueRef vm_log(const struct vm *v, LLVMValueRef x);
LLVMValueRef vm_log1p(const struct vm *v, LLVMValueRef x);
LLVMValueRef vm_tanh(const struct vm *v, LLVMValueRef x);
LLVMValueRef vm_logistic(const struct vm *v, LLVMValueRef x);
LLVMValueRef vm_erf(const struct vm *v, LLVMValueRef x);          /* f32 only */
LLVMValueRef vm_erfc(const struct vm *v, LLVMValueRef x);         /* f32 only */
LLVMValueRef vm_sincos(const struct vm *v, LLVMValueRef x, bool cosine);
LLVMValueRef vm_pow(const struct vm *v, LLVMValueRef x, LLVMValueRef y); /* f32 only, all special cases */
LLVMValueRef vm_cbrt(const struct vm *v, LLVMValueRef x);         /* f32 only */
LLVMValueRef vm_hyperbolic(const struct vm *v, LLVMValueRef x, bool sine);
LLVMValueRef vm_atan2(const struct vm *v, LLVMValueRef y, LLVMValueRef x); /* all special cases; f32 by way of f64 */
/* NaN wins, +0 above -0. */
LLVMValueRef vm_max(const struct vm *v, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef vm_min(const struct vm *v, LLVMValueRef a, LLVMValueRef b);

#endif
