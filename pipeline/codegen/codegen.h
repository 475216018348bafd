/* codegen.h: StableHLO to native code for `cpu`.
 *
 *     cg_compile    verified canonical module -> NEFF with plan, constants and image (runtime/cpu)
 *     cg_identify   what code is made for, for toolchain ids
 *
 * libLLVM is needed only here; see README.md for how programs without it are kept free of it. */
#ifndef NEFFD_PIPELINE_CODEGEN_CODEGEN_H
#define NEFFD_PIPELINE_CODEGEN_CODEGEN_H

#include "base/arena.h"
#include "base/str.h"

struct hlo_module;
struct hlo_value;

#define CG_EMITTER_VERSION 17 /* enters keys of artifacts and of cached kernels: raise it with every change of the code made */

/* Where the plan keeps what an operation of the entry function made: for checks step by step. */
struct cg_trace {
    const struct hlo_value *value;
    uint32_t plan_value;
};
struct cg_traces {
    struct cg_trace *v;      /* malloc'ed; of values that have memory of their own */
    size_t n;
};

struct cg_request {
    int tier;                /* 1: good code (default); 0: quick */
    bool interpret;          /* no machine code: kernels are interpreted (for tests, and where there is no LLVM) */
    uint64_t features;       /* of the processor (runtime/cpu/plan.h); 0: this machine's */
    int threads;             /* that compile kernels; 0: 1 */
    const char *name;        /* of the NEFF */
    const char *compiler;
    const char *module;      /* file of the LLVM module; NULL and "": the usual places. One in a process */
    const char *cache_dir;   /* of compiled kernels, of this user alone (kernel_cache.c), made when absent; NULL: none */
    /* Called with the printed form of each stage (cg_stages). NULL: not wanted. */
    void (*print)(void *user, const char *stage, struct nf_str text);
    void *print_user;
    struct cg_traces *ret_traces; /* NULL: not wanted */
};

struct cg_report {
    uint32_t steps, kernels, distinct, native, cached, dots; /* cached: of the native ones */
    uint64_t arena_bytes, image_bytes, constant_bytes;
    int64_t import_ns, group_ns, plan_ns, emit_ns;
};

/* What an artifact is made of beside its tensors; freed with cg_artifact_done. */
struct cg_artifact {
    struct nf_buf plan, constants, image;
    uint32_t replicas, partitions;
    struct cg_report report;
};
/* NF_EUNSUPPORTED names the operation that has no native form; NF_ENOCOMPILER: there is no LLVM module. Passes may have changed the module (deprecated operations, dynamic
 * shapes). */
int cg_build(struct hlo_module *m, const struct cg_request *request, struct cg_artifact *ret_artifact, struct nf_error *err);
/* From what a stage import or group printed: the same plan, but for labels of values that nothing uses. The text is our own and not checked like a
 * file's: the plan is. NF_EGRAPH with location "line:1". */
int cg_build_text(struct nf_str graph, const struct cg_request *request, struct cg_artifact *ret_artifact, struct nf_error *err);
void cg_artifact_done(struct cg_artifact *a);
struct neff_writer;
/* Adds the members (their bytes are borrowed until the writer is finished) and notes to a NEFF whose tensors are the caller's. */
void cg_artifact_write(const struct cg_artifact *a, struct neff_writer *w);

/* The same with tensors named input0, ..., as one file. NF_EUNSUPPORTED names the operation that has no native form. Appends the NEFF's bytes to *ret_neff; ret_report may be NULL. */
int cg_compile(struct hlo_module *m, const struct cg_request *request, struct nf_buf *ret_neff, struct cg_report *ret_report, struct nf_error *err);

/* The stages that print something, in order; ends with an entry without a name. */
struct cg_stage {
    const char *name, *needs, *gives;
};
extern const struct cg_stage cg_stages[];

/* Is there an LLVM module that this program can use? Reads its version from the file and loads nothing. NF_ENOCOMPILER says why not. */
int cg_module_check(const char *module, struct nf_error *err);

/* "neffd-codegen 1 llvm 19.1.7", and the instruction set as in isa. */
void cg_identify(char *version, size_t version_size, char *isa, size_t isa_size);

#endif
