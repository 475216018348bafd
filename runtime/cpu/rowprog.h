/* rowprog.h: row programs, the one form of fused kernels.
 *
 * A program walks an index space dims[0..nd). The first `npar` dims (at least one) are flattened into one parallel range
 * [lo, hi); the last dim is the vector dim; dims between are sequential. The extent of dims[0] is not part of the program:
 * it only bounds the range.
 *
 *     ROW mode: a pass loops over the sequential and vector dims; a reduction gives one number per parallel index.
 *     ROW mode, cut: passes end at a column that the caller gives in the place after the scratch, a multiple of RP_CUT and at
 *               most the vector dim's extent, which is one too
 *     COL mode: the vector dim is cut in blocks of `block` lanes that join the parallel range as its fastest part; a pass
 *               loops over the sequential dims; a reduction gives one number per lane.
 *
 * Instructions are SSA by position. `pass` starts a pass over the inner space, `once` one that runs a single time per
 * parallel index (ROW) or block (COL). Operands are of the same pass; the only value that crosses passes is a finished
 * reduction (`row`). Within a pass an access is read before it is written at the same element, so an output may take the
 * buffer of an input with equal access.
 *
 * An access is affine: element offset = base + sum(stride[i] * index[i]). arg RP_SCRATCH is memory of the running thread.
 *
 * Text form, one line an instruction, parse(print(p)) == p:
 *
 *     program = ( "row" [ SP "cut" ] | "col" SP block ) SP npar SP "*" { SP extent } "\n" { access } { instruction } "end\n"
 *     access  = "acc" SP ( arg | "-" | "scratch" ) SP type SP base { SP stride } "\n"      ; "-": no memory, for idx
 *     instruction = op SP type SP aux { SP operand } [ SP hex [ SP hex ] ] "\n"            ; hex: bits of a const
 *
 * It is the key under which equal kernels are compiled once, and what an artifact holds of programs that are interpreted. */
#ifndef NEFFD_RUNTIME_CPU_ROWPROG_H
#define NEFFD_RUNTIME_CPU_ROWPROG_H

#include "base/arena.h"
#include "runtime/cpu/types.h"

enum { RP_DIMS_MAX = 16, RP_ACCS_MAX = 4096, RP_INS_MAX = 65536, RP_ARGS_MAX = 4096 };
enum { RP_NO_ARG = -1, RP_SCRATCH = -2, RP_CUT = 64 };

enum rp_op {
#define RP_OP(sym, name, nsrc, cost) RP_##sym,
#include "runtime/cpu/rp_ops.def"
#undef RP_OP
    RP_OP_MAX
};
enum rp_cmp { RP_EQ, RP_NE, RP_LT, RP_LE, RP_GT, RP_GE, RP_CMP_MAX, RP_CMP_TOTAL = 8 };
enum rp_red { RP_SUM, RP_PROD, RP_RMAX, RP_RMIN, RP_ALL, RP_ANY, RP_PARITY, RP_RED_MAX };

struct rp_op_info {
    const char *name;
    uint8_t nsrc, cost;
};
extern const struct rp_op_info rp_op_info[RP_OP_MAX];
extern const char *const rp_red_names[RP_RED_MAX];

struct rp_acc {
    int arg;
    enum cpu_dt dt;
    int64_t base;
    int64_t stride[RP_DIMS_MAX];
};

struct rp_ins {
    uint16_t op;         /* enum rp_op */
    uint8_t dt;          /* of the result; of the operand for st, red */
    uint16_t aux;
    int32_t src[3];
    uint64_t bits[2];    /* const: the element as in memory */
};

struct rp_prog {
    int nd, npar, nacc, nins, narg;
    int block;           /* COL: lanes of a block; 0: ROW */
    bool cut;
    int64_t dims[RP_DIMS_MAX];
    int64_t scratch_bytes; /* of RP_SCRATCH accesses, found by rp_verify */
    struct rp_acc *acc;
    struct rp_ins *ins;
};

void rp_print(const struct rp_prog *p, struct nf_buf *out);
/* Bounded and verified: text may come from a file. NF_ECORRUPT. */
int rp_parse(struct nf_str text, struct nf_arena *arena, struct rp_prog **ret_prog, struct nf_error *err);
/* The rules above: operands, classes, passes, sizes. Fills narg and scratch_bytes. */
int rp_verify(struct rp_prog *p, struct nf_error *err);
/* Iterations of the parallel range when dims[0] is `outer`. */
int64_t rp_range(const struct rp_prog *p, int64_t outer);
/* Elements that access a spans with that outer extent: [*ret_low, *ret_high], false when it overflows. */
bool rp_extent(const struct rp_prog *p, int a, int64_t outer, int64_t *ret_low, int64_t *ret_high);

/* Runs [lo, hi) in C. args: narg pointers, then the thread's scratch, then (as a
 * number) where a program that is cut ends. Same results as compiled code up to rounding of
 * elementary functions and the order of sums; used where no code was emitted, and as its test. */
void rp_run(const struct rp_prog *p, void *const *args, int64_t lo, int64_t hi);

/* One instruction on single numbers, for constant folding; operands of the types t. */
struct cpu_num rp_eval(const struct rp_ins *ins, const enum cpu_dt *t, const struct cpu_num *v);

#endif
