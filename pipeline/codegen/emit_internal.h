/* emit_internal.h: between the module that holds LLVM (llvm.c, emit_kernel.c, vmath.c) and emit.c and link.c, which do not see it.
 *
 * libLLVM costs 59 ms and 48 MB to load, so it is linked into a shared object of its own, which emit.c loads when a program
 * compiles kernels for the first time. The object exports one name. */
#ifndef NEFFD_PIPELINE_CODEGEN_EMIT_INTERNAL_H
#define NEFFD_PIPELINE_CODEGEN_EMIT_INTERNAL_H

#include "base/digest.h"
#include "runtime/cpu/rowprog.h"

struct emit_target {
    int lanes;          /* f32 lanes of a vector */
    bool f16;           /* conversions of half in hardware */
    const char *cpu, *features, *triple;
};

/* Kernels [0, count) as relocatable objects, `batch` to each in order; kernel i is the function k<i>, in a section of its own. An object costs
 * about two milliseconds besides its kernels. */
enum { EMIT_BATCH = 8 };
struct emit_request {
    const struct emit_target *target;
    const struct rp_prog *const *prog;
    uint32_t count, batch;
    int tier, threads;
};
struct emit_objects {
    uint32_t count;
    struct nf_str *object;      /* each malloc'ed */
};
struct emit_module {
    int version;                /* EMIT_MODULE_VERSION */
    int (*compile)(const struct emit_request *, struct emit_objects *ret_objects, struct nf_error *);
    /* LLVM's own version, and the assembly of one kernel, for people. */
    void (*llvm_version)(unsigned *major, unsigned *minor, unsigned *patch);
    int (*assembly)(const struct emit_request *, struct nf_buf *out, struct nf_error *);
};
enum { EMIT_MODULE_VERSION = 3 };
#define EMIT_MODULE_SYMBOL "neffd_llvm_module"

/* Is there code for every instruction? false: the program is interpreted; *ret_why names the first one without. */
/* How values of a type are held: 0 not at all, 1 as bits, 2 integers, 3 f32 lanes, 4 f64 lanes. */
int emit_class(enum cpu_dt t);
bool emit_supported(const struct rp_prog *p, const struct emit_target *t, const char **ret_why);
/* complex.c: the same program with complex numbers in parts; p itself when it has none, NULL when it cannot be done. */
const struct rp_prog *emit_split_complex(const struct rp_prog *p, struct nf_arena *arena);
/* link.c: appends the code of a kernel, which begins with its function and needs nothing else; it runs wherever it is put at a multiple
 * of 64 (aarch64: of 4096). NF_EINTERNAL: a foreign relocation, an undefined symbol, a writable section. LINK_ALONE: it reads constants
 * that cannot be told from those of other kernels, so it needs an object of its own, which is then `alone`. */
enum { LINK_ALONE = 1 };
int link_kernel(const void *object, size_t size, const char *name, bool alone, struct nf_buf *ret_code, struct nf_error *err);

/* kernel_cache.c: code of kernels that were compiled before. */
struct kernel_key {
    struct nf_digest digest;
};
struct kernel_key kernel_key(struct nf_str text, const struct emit_target *t, int tier);
bool kernel_cache_get(const char *dir, const struct kernel_key *key, struct nf_buf *ret_code);
void kernel_cache_put(const char *dir, const struct kernel_key *key, struct nf_str code); /* as far as it can */

#endif
