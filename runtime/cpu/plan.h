/* plan.h: what an artifact for `cpu` tells this runtime to do.
 *
 *     value    a dense row-major tensor: type, dims, and where its bytes are: an argument's or an output's buffer, the
 *              constants of the artifact, or the arena of the execution. Values may share bytes; the writer of the plan
 *              (pipeline/codegen) answers for their lifetimes, the reader for their bounds.
 *     kernel   a row program: machine code at an offset of the image, or, at -1, its text, which is interpreted
 *     step     one operation on whole values: inputs, outputs, integer attributes (plan_ops.def)
 *     block    a list of steps with parameters and results. Block 0 is the program; others are bodies of loops, branches,
 *              reducers and comparators. A block has its values to itself; no block calls itself.
 *
 * Bytes, all little-endian, version in the magic:
 *
 *     plan    = magic "NFCPLAN2" u64 features u64 arena_bytes u64 scratch_bytes u32 args u32 outs u32 values u32 kernels u32 blocks
 *               u32 labels { value } { kernel } { block } { label }
 *     value   = u8 type u8 rank u8 where u8 0 u32 index u64 offset { i64 dim }
 *     kernel  = i64 image_offset u32 args u32 text_bytes i64 per_outer u64 scratch text
 *     block   = u32 params u32 results u32 steps { u32 value } { u32 value } { step }
 *     step    = u16 op u16 0 u32 label u32 inputs u32 outputs u32 attributes { u32 value } { u32 value } { i64 }
 *     label   = u32 bytes text                     ; what people call the step, and its source location
 *
 * plan_read checks everything that running relies on: indices, ranks, sizes, that values lie inside their buffers, that
 * blocks are nested without cycles, and each step by its own check. Machine code is not checked: who can write the file can
 * run code (see device.c for whose files are taken). */
#ifndef NEFFD_RUNTIME_CPU_PLAN_H
#define NEFFD_RUNTIME_CPU_PLAN_H

#include "runtime/cpu/rowprog.h"

enum { PLAN_RANK_MAX = 16, PLAN_VALUES_MAX = 1 << 22, PLAN_STEPS_MAX = 1 << 22, PLAN_ATTRS_MAX = 4096, PLAN_DEPTH_MAX = 64 };
#define PLAN_NO_LABEL UINT32_MAX

enum plan_op {
#define PLAN_OP(sym, name, in0, in1, out0, out1, attrs) PLAN_##sym,
#include "runtime/cpu/plan_ops.def"
#undef PLAN_OP
    PLAN_OP_MAX
};
const char *plan_op_name(enum plan_op op);

enum plan_where { PLAN_ARG, PLAN_OUT, PLAN_CONST, PLAN_ARENA, PLAN_WHERE_MAX };

struct plan_value {
    uint8_t dt, rank, where;
    uint32_t index;               /* of the argument or output */
    int64_t offset, count, bytes; /* elements and bytes are derived */
    int64_t *dims;
};

struct plan_kernel {
    int64_t image_offset;         /* -1: interpreted */
    uint32_t args;
    int64_t per_outer;            /* iterations of the range for each step of the outermost dim */
    uint64_t scratch_bytes;
    struct nf_str text;
    struct rp_prog *prog;         /* of interpreted ones, after plan_read */
};

struct plan_step {
    uint16_t op;
    uint32_t label, nin, nout, nattr;
    const uint32_t *in, *out;
    const int64_t *attr;
};

struct plan_block {
    uint32_t nparam, nresult, nstep;
    const uint32_t *param, *result;
    struct plan_step *step;
    bool open;                    /* while checking: on the way down */
};

struct plan {
    uint64_t features, arena_bytes, scratch_bytes;
    uint32_t nargs, nouts, nvalues, nkernels, nblocks, nlabels;
    struct plan_value *value;
    struct plan_kernel *kernel;
    struct plan_block *block;
    struct nf_str *label;
};

struct plan_sizes {               /* of what the plan may refer to */
    const uint64_t *arg_bytes, *out_bytes;
    uint32_t nargs, nouts;
    uint64_t const_bytes, image_bytes;
};

void plan_write(const struct plan *p, struct nf_buf *out);
/* Labels and kernel texts are views of bytes. NF_ECORRUPT, NF_EUNSUPPORTED (another version). */
int plan_read(struct nf_str bytes, const struct plan_sizes *sizes, struct nf_arena *arena, struct plan **ret_plan, struct nf_error *err);
/* The same checks on a plan in memory. */
int plan_check(struct plan *p, const struct plan_sizes *sizes, struct nf_arena *arena, struct nf_error *err);
/* For people and tests (plan_text.c). What was parsed still has to pass plan_check. NF_ECORRUPT names the line. */
void plan_print(const struct plan *p, struct nf_buf *out);
int plan_parse(struct nf_str text, struct nf_arena *arena, struct plan **ret_plan, struct nf_error *err);

/* Processor features (the bits of `features`) that code is made for: an artifact is refused where one of its features is missing. What this
 * machine has of them. */
enum { CPU_FEATURE_AVX2 = 1, CPU_FEATURE_FMA = 2, CPU_FEATURE_F16C = 4, CPU_FEATURE_AVX512 = 8, CPU_FEATURE_BMI = 32, CPU_FEATURE_NEON = 1 << 16 };
uint64_t cpu_features(void);
void cpu_features_print(uint64_t features, struct nf_buf *out);   /* "avx2 fma f16c" */

#endif
