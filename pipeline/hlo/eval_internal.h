/* eval_internal.h: what the evaluator's files share.
 *
 * Preparation (eval.c) turns functions and regions into plans: one ev_inst an operation, values in numbered slots of a frame. A
 * function's regions use the function's frame, so captured values need no copying. An ev_value is counted (atomically: constants
 * and rendezvous share them between threads) and its elements are never changed once another holder can see them; an operation may
 * take an operand's memory over when the operand dies with it and nobody else holds it (ev_take). */
#ifndef NEFFD_PIPELINE_HLO_EVAL_INTERNAL_H
#define NEFFD_PIPELINE_HLO_EVAL_INTERNAL_H

#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/eval_kernels.h"

#include <pthread.h>
#include <stdatomic.h>

struct ev_run;
struct ev_frame;
struct ev_ctx;
struct ev_prog;
struct ev_grid;

enum ev_kind { EV_ARRAY, EV_TOKEN, EV_TUPLE };

struct ev_value {
    atomic_int refs;
    enum ev_kind kind;
    bool borrowed;              /* a.data is somebody else's */
    struct ev_run *run;         /* whose memory count it is in; NULL: none */
    struct rt_array a;
    uint32_t n;                 /* TUPLE (futures too): parts */
    struct ev_value **parts;
};

typedef int (*ev_fn)(struct ev_ctx *c, struct nf_error *err);

struct ev_block;
struct ev_inst {
    const struct hlo_op *op;
    ev_fn fn;
    uint32_t n_in, n_out, n_free, n_regions;
    const uint32_t *in, *out;   /* slots */
    const uint32_t *frees;      /* slots that are read here for the last time */
    const bool *dies;           /* n_in: operand's last use */
    struct ev_block **regions;
    struct ev_func *callee;     /* call, composite */
    struct ev_value *constant;  /* constants that are kept */
    struct ev_prog **progs;     /* one a region, where the region is a scalar program; else NULL */
    bool dequantise;            /* run on the expressed values of quantised operands */
    bool promote;               /* operands become the types that the region combines first */
};

struct ev_block {
    const struct hlo_block *block;
    uint32_t n_args, n_insts;   /* insts: without the terminator */
    const uint32_t *args;       /* slots */
    struct ev_inst *insts;
    uint32_t n_results;         /* operands of the terminator */
    const uint32_t *results;
    const bool *results_die;
};

struct ev_func {
    const struct hlo_op *op;
    struct ev_block *body;
    uint32_t n_slots;
};

struct hlo_eval {
    const struct hlo_module *module;
    struct hlo_eval_options options;
    struct nf_arena *arena;
    struct ev_func *funcs;
    size_t n_funcs;
    uint32_t *slot_of;          /* by value id */
    pthread_mutex_t lock;       /* guards stats and calls of hooks; a leaf */
    struct hlo_eval_stats stats;
};

/* One call of hlo_eval_run. */
struct ev_run {
    struct hlo_eval *eval;
    atomic_size_t live_bytes, peak_bytes;
    atomic_uint_fast64_t ops;
    pthread_mutex_t lock;       /* guards what follows; a leaf */
    bool check_failed;
    struct nf_error first_failure;
    struct ev_probe *probes;    /* interpreter.probe */
};

/* One process: a thread with its place in a grid. */
struct ev_proc {
    struct ev_run *run;
    struct ev_grid *grid;       /* NULL: alone */
    unsigned replica, partition, id;
    unsigned depth;
    uint64_t draws;             /* of rng so far */
    struct ev_func **infeed;    /* functions whose results infeed gives, in turn */
    size_t n_infeed, next_infeed;
};

struct ev_frame {
    struct ev_proc *proc;
    struct ev_value **slots;
    uint32_t n_slots;
};

struct ev_ctx {
    struct ev_frame *f;
    const struct ev_inst *inst;
    const struct hlo_op *op;
    uint32_t n_in, n_out;
    struct ev_value **in;       /* held by the frame (or by the caller) during the call */
    struct ev_value **out;      /* each to be set to a value that the frame then owns */
    const bool *dies;
    bool expressed;             /* quantised types read as their expressed ones */
};

/* ---- values: eval_value.c ---- */
struct ev_value *ev_ref(struct ev_value *v);
void ev_unref(struct ev_value *v);              /* takes NULL */
int ev_array_new(struct ev_run *run, enum nf_dtype dt, int rank, const int64_t *dims, struct ev_value **ret, struct nf_error *err); /* zeroed */
struct ev_value *ev_token_new(void);
struct ev_value *ev_tuple_new(uint32_t n, struct ev_value *const *parts); /* takes references of its own */
int ev_constant_new(struct ev_run *run, const struct hlo_attr *dense, struct ev_value **ret, struct nf_error *err);
/* A view of constant memory, aligned. */
struct ev_value *ev_borrow(enum nf_dtype dt, int rank, const int64_t *dims, const void *data, size_t bytes);
static inline int64_t ev_count(const struct ev_value *v) { return rt_array_count(&v->a); }

/* Result i of the operation: element type, and shape where it is static; else as given. */
enum nf_dtype ev_out_dtype(const struct ev_ctx *c, uint32_t i);
int ev_out_new(struct ev_ctx *c, uint32_t i, struct nf_error *err);                     /* static type */
int ev_out_shaped(struct ev_ctx *c, uint32_t i, int rank, const int64_t *dims, struct nf_error *err);
/* Result i with the shape of operand k; in its memory if that dies here and has elements of the same width. */
int ev_out_like(struct ev_ctx *c, uint32_t i, uint32_t k, struct nf_error *err);
bool ev_take(struct ev_ctx *c, uint32_t i, uint32_t k);   /* operand k itself becomes result i (same type), if it may be changed */
bool ev_steal(const struct ev_ctx *c, uint32_t k);        /* operand k dies here and nobody else holds it */
int ev_fail(const struct ev_ctx *c, struct nf_error *err, int code, const char *fmt, ...) NF_PRINTF(4, 5); /* with op and place */

/* ---- running: eval.c ---- */
/* args: n_args values, given away. ret: n_results values, owned by the caller; untouched on failure. */
int ev_run_block(struct ev_frame *f, const struct ev_block *b, struct ev_value *const *args, struct ev_value **ret, struct nf_error *err);
int ev_call(struct ev_proc *p, const struct ev_func *func, struct ev_value *const *args, struct ev_value **ret, struct nf_error *err);
/* Operand k as a reference to give away; the frame's own when it dies here, so that it can be changed in place. */
struct ev_value *ev_move_in(struct ev_ctx *c, uint32_t k);
/* fn on the expressed values of quantised operands, its results quantised. eval_quant.c */
struct ev_value;
int ev_dequantise(struct ev_run *run, const struct ev_value *v, const struct hlo_quant *q, enum nf_dtype to, struct ev_value **ret, struct nf_error *err);
/* From any float type to the storage. */
int ev_quantise(struct ev_run *run, const struct ev_value *v, const struct hlo_quant *q, struct ev_value **ret, struct nf_error *err);
int ev_dequantised(struct ev_ctx *c, ev_fn fn, struct nf_error *err);
/* Operations whose region combines elements (reduce, sort, scatter, ...): the type that it takes for elements of operand i; NULL: none. */
const struct hlo_type *ev_body_type(const struct hlo_op *op, uint32_t i);
bool ev_same_quant(const struct hlo_quant *a, const struct hlo_quant *b);
/* fn on operands that are converted to those types; quantised elements are combined as such, in their storage. */
int ev_promoted(struct ev_ctx *c, ev_fn fn, struct nf_error *err);
void ev_probes_free(struct ev_run *run); /* eval_check.c */
struct ev_func *ev_func_find(struct hlo_eval *e, struct nf_str name);
int ev_check_result(struct ev_ctx *c, bool passed, const char *message, struct nf_error *err);
bool ev_out_of_time(const struct ev_run *run);

/* ---- scalar regions: eval_body.c ---- */
struct ev_prog *ev_prog_compile(struct hlo_eval *e, const struct ev_block *b); /* NULL: not a scalar program */
enum ev_op ev_op_of(const struct hlo_op *op);              /* elementwise operation of one or two operands; EV_NONE */
enum nf_dtype ev_op_dtype(const struct hlo_op *op, enum ev_op e, enum nf_dtype first); /* type to look the kernel up with */

#define EV_CHUNK 256
struct ev_body {
    struct ev_frame *f;
    const struct ev_block *block;
    const struct ev_prog *prog;
    const struct hlo_op *op;
    enum ev_op simple;          /* the region is simple(arg0, arg1); EV_NONE: it is not */
    enum nf_dtype simple_type;
    int returns_arg;            /* the region gives argument number so, one result; -1 */
    char *regs;
    void **reg_ptrs;
    size_t out_width[64];
    struct ev_value *args[64], *results[64]; /* without a program */
};
int ev_body_init(struct ev_ctx *c, uint32_t region, struct ev_body *b, struct nf_error *err);
void ev_body_done(struct ev_body *b);
/* n <= EV_CHUNK applications at once: args[i] points at n elements, results[i] at n; a result may be the memory of an argument. */
int ev_body_call(struct ev_body *b, int64_t n, const void *const *args, void *const *results, struct nf_error *err);

/* ---- several devices: eval_grid.c ---- */
/* draws: where each process counts its draws from; then the most that one came to. */
int ev_grid_run(struct ev_run *run, unsigned replicas, unsigned partitions, struct ev_func *const *funcs, struct ev_func **infeed, size_t n_infeed,
                struct ev_value *const *const *args, struct ev_value ***rets, uint64_t *draws, struct nf_error *err);

/* The body of hlo_eval_run*; member_of: one process as member `rank` of a grid that lives longer than the run. */
int ev_run_with(struct hlo_eval *e, struct nf_str function, struct ev_grid *member_of, uint32_t rank, unsigned replicas, unsigned partitions,
                const struct rt_array *inputs, size_t n_inputs, struct rt_array *outputs, size_t n_outputs, struct nf_error *err);
void ev_grid_enter(struct ev_grid *g, uint32_t rank, struct ev_proc *p);
void ev_grid_exit(struct ev_grid *g, int rc, const struct nf_error *err);

/* Functions of the table's evaluate column. */
#define EV_DECLARE(name) int name(struct ev_ctx *c, struct nf_error *err);
#include "pipeline/hlo/eval_fns.def"
#undef EV_DECLARE

#endif
