/* eval.h: the reference evaluator: runs a verified module on arrays, one operation after the other.
 *
 * It is the oracle of the other stages: simple and right before fast (EVALUATOR.md says which numerics). A module is
 * prepared once; runs may go on at once from several threads. Programs that passed hlo_verify never crash it, use more memory or
 * time than the options allow, or recurse without bound.
 *
 *     struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
 *     hlo_eval_new(module, &o, &e, err);
 *     hlo_eval_run(e, NF_STR(""), inputs, n, outputs, m, err);     outputs: the caller rt_array_done()s each
 *     hlo_eval_free(e);
 *
 * Arrays of quantised types hold their storage; tokens have dtype NF_DT_NONE; tuples at the border of a function are refused. */
#ifndef NEFFD_PIPELINE_HLO_EVAL_H
#define NEFFD_PIPELINE_HLO_EVAL_H

#include "pipeline/hlo/hlo.h"
#include "runtime/array.h"

struct hlo_eval;

/* What a check operation or custom call found. Strings live as long as the call. */
struct hlo_eval_check {
    const struct hlo_op *op;
    bool passed;
    const char *message;         /* how it failed: element, actual and expected value, how many differ; "" when it passed */
};

/* All may be NULL. With several devices the calls come from their threads, one at a time. A non-zero result ends the run with it. */
struct hlo_eval_hooks {
    void *user;
    int (*check)(void *user, const struct hlo_eval_check *check);
    /* After each operation of a function's body and of the bodies of control flow, not for scalar regions: its results that are arrays
     * (others have dtype NF_DT_NONE). device: number in the grid. */
    int (*observe)(void *user, const struct hlo_op *op, unsigned device, const struct rt_array *results, size_t n);
    /* interpreter.print */
    void (*print)(void *user, struct nf_str text);
};

struct hlo_eval_options {
    size_t memory_limit_bytes;   /* of all live arrays of a run; 0: none. NF_ELIMIT */
    int64_t deadline_ns;         /* nf_now_ns() after which a run ends with NF_ETIMEOUT; 0: none */
    unsigned depth_limit;        /* calls and regions inside each other */
    bool round_each_step;        /* products of types below 32 bits round after each multiply and add, as StableHLO's interpreter */
    bool stop_at_failed_check;   /* a failed check ends the run with NF_EMISMATCH; else the first one does so at the run's end */
    const struct hlo_eval_hooks *hooks;
};
#define HLO_EVAL_OPTIONS_INIT ((struct hlo_eval_options){.memory_limit_bytes = (size_t)16 << 30, .depth_limit = 200})

/* The module is borrowed, and must not change while the evaluator lives. Options are copied, the hooks borrowed. NF_EUNSUPPORTED
 * names an operation that cannot be evaluated (only if the entry function can reach it). */
int hlo_eval_new(const struct hlo_module *module, const struct hlo_eval_options *options, struct hlo_eval **ret_eval, struct nf_error *err);
void hlo_eval_free(struct hlo_eval *e);

/* function empty: the entry. Types of inputs must be the function's; shapes must fit (dynamic dimensions take any size). outputs:
 * n_outputs must be the number of results. NF_EMISMATCH after a failed check: outputs are then not given. */
int hlo_eval_run(struct hlo_eval *e, struct nf_str function, const struct rt_array *inputs, size_t n_inputs, struct rt_array *outputs,
                 size_t n_outputs, struct nf_error *err);
/* One process per device of a grid of replicas x partitions (device = replica * partitions + partition), all at once on threads;
 * collectives meet. Arrays of device d start at inputs[d * n_inputs]. */
int hlo_eval_run_grid(struct hlo_eval *e, struct nf_str function, unsigned replicas, unsigned partitions, const struct rt_array *inputs,
                      size_t n_inputs, struct rt_array *outputs, size_t n_outputs, struct nf_error *err);
/* Runs of one process that meet: each member runs its own program on a thread of the caller's. join: all members name the same grid;
 * the name is copied. rank = replica * partitions + partition. A member that leaves, or whose run fails, breaks the
 * group: runs of the others end with that error. */
struct hlo_eval_group;
int hlo_eval_group_join(const char *name, uint32_t replicas, uint32_t partitions, uint32_t rank, struct hlo_eval_group **ret_group, struct nf_error *err);
void hlo_eval_group_leave(struct hlo_eval_group *group);                 /* takes NULL */
int hlo_eval_run_member(struct hlo_eval *e, struct hlo_eval_group *group, uint32_t rank, const struct rt_array *inputs, size_t n_inputs,
                        struct rt_array *outputs, size_t n_outputs, struct nf_error *err);
size_t hlo_eval_num_inputs(struct hlo_eval *e, struct nf_str function);  /* 0 if there is no such function */
size_t hlo_eval_num_outputs(struct hlo_eval *e, struct nf_str function);

/* Counted over all runs so far. */
struct hlo_eval_stats {
    uint64_t ops, checks, failed_checks;
    size_t peak_bytes;
};
struct hlo_eval_stats hlo_eval_stats(const struct hlo_eval *e);

/* Element type in memory of a tensor's type (quantised: its storage); NF_DT_NONE for what is no array. */
enum nf_dtype hlo_eval_dtype(const struct hlo_type *t);
/* A constant's elements as an array of its own. */
int hlo_eval_constant(const struct hlo_attr *dense, struct rt_array *ret_array, struct nf_error *err);

#endif
