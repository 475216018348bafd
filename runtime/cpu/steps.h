/* steps.h: private to runtime/cpu: the state of an execution and the functions of plan_ops.def. */
#ifndef NEFFD_RUNTIME_CPU_STEPS_H
#define NEFFD_RUNTIME_CPU_STEPS_H

#include "runtime/cpu/group.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/pool.h"

#include <pthread.h>

struct cpu_probe;
struct rt_array;

/* What goes from one member of a group to another, as cpu_group_send takes it. NULL: no memory. */
void *cpu_parcel_of(const struct rt_array *values, size_t n);

/* What an execution has once, for all devices of a mesh. */
struct cpu_run {
    pthread_mutex_t lock;            /* guards what follows, and calls of print; innermost */
    struct nf_error unmet;           /* the first check that did not hold, which the execution ends with; code 0: none */
    struct cpu_probe *probes;
    void (*print)(void *user, struct nf_str text); /* NULL: nobody reads */
    void *print_user;
};
void cpu_run_done(struct cpu_run *run);

/* One execution of a program. */
struct cpu_exec {
    const struct plan *plan;
    const char *image;               /* machine code */
    void **ptr;                      /* of every value */
    char *scratch;                   /* threads * scratch_stride */
    size_t scratch_stride;
    int64_t *profile;                /* NULL, or ns by step (counted in order of blocks and steps) */
    const uint32_t *profile_base;    /* first number of each block */
    struct cpu_rendezvous *group;    /* NULL: alone */
    struct cpu_turn turn;            /* in the group */
    uint32_t replica, partition, replicas, partitions;
    uint64_t draws;                  /* how many rng steps ran so far */
    int depth;
    struct cpu_run *run;
};

typedef void (*cpu_kernel_fn)(void *const *args, int64_t lo, int64_t hi);

int cpu_exec_block(struct cpu_exec *x, uint32_t block, struct nf_error *err);
/* Block 0, with a call after each of its steps. */
int cpu_exec_watch(struct cpu_exec *x, int (*seen)(void *user, const struct plan *p, uint32_t step, void *const *values, struct nf_error *err), void *user,
                   struct nf_error *err);

/* Reading attribute lists: n, then n numbers. The sticky flag is checked once. */
struct attrs {
    const struct plan_step *s;
    uint32_t at;
    bool failed;
};
static inline int64_t attrs_next(struct attrs *a)
{
    if (a->at >= a->s->nattr) {
        a->failed = true;
        return 0;
    }
    return a->s->attr[a->at++];
}
/* At most `max` numbers; copies them. */
static inline uint32_t attrs_list(struct attrs *a, int64_t *out, uint32_t max)
{
    int64_t n = attrs_next(a);
    if (a->failed || n < 0 || n > max || (uint64_t)n > a->s->nattr - a->at) {
        a->failed = true;
        return 0;
    }
    for (int64_t i = 0; i < n; i++) out[i] = a->s->attr[a->at++];
    return (uint32_t)n;
}

/* Argument `arg` of an interpreted kernel is this value: does it stay inside, and leave it alone if it is an input? */
int step_kernel_argument(const struct rp_prog *p, int arg, int64_t outer, const struct plan_value *v, bool input, struct nf_error *err);

/* Where the rows that an attention's second product reads lie: a strip of them in place of the scores, or beside them; or all of them, as a
 * value that others read too. */
enum { ATTENTION_IN_PLACE, ATTENTION_BESIDE, ATTENTION_KEPT };
/* Scratch of a thread that such a step needs, with a kernel that needs `kernel_scratch`. */
uint64_t cpu_attention_scratch(const struct plan_step *s, uint64_t kernel_scratch);
bool cpu_attention_rowwise(const struct rp_prog *p, int arg, int64_t cols);

/* What a region computes: one of enum rp_red, or these, or a block (then `block` is its number). */
enum { BODY_BLOCK = -1, BODY_SET = -2, BODY_KEEP = -3 };

/* What a collective does. */
enum { COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_ALL_TO_ALL, COLL_PERMUTE, COLL_BROADCAST, COLL_REDUCE, COLL_MAX };

/* acc[i] = acc[i] (op) x[i * step]; kinds of enum rp_red. Floats below f32 round each time. */
void cpu_combine(enum cpu_dt t, int kind, void *acc, const void *x, int64_t n, int64_t step);
struct cpu_num cpu_combine_one(enum cpu_dt t, int kind, struct cpu_num a, struct cpu_num b);

static inline const struct plan_value *step_in(const struct plan *p, const struct plan_step *s, uint32_t i) { return &p->value[s->in[i]]; }
static inline const struct plan_value *step_out(const struct plan *p, const struct plan_step *s, uint32_t i) { return &p->value[s->out[i]]; }
static inline bool same_shape(const struct plan_value *a, const struct plan_value *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}
static inline void row_major(const struct plan_value *v, int64_t *stride)
{
    int64_t s = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        stride[d] = s;
        s *= v->dims[d] ? v->dims[d] : 1;
    }
}
static inline uint32_t in_list(const int64_t *list, uint32_t n, int64_t x)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == x) return i;
    return n;
}

/* Whether one is there twice but for those below 0. */
static inline bool named_twice(const int64_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] >= 0 && in_list(list, i, list[i]) < i) return true;
    return false;
}

/* The i-th block number among the attributes; false: it has no more. */
bool step_block(const struct plan_step *s, uint32_t i, int64_t *ret_id);

/* A dense copy of nd dims: dst[base + sum ds*i] = src[base + sum ss*i], `size` bytes an element. Threads are used. */
struct cpu_copy_dim {
    int64_t n, src, dst;
};
void cpu_copy(char *dst, const char *src, size_t size, int nd, const struct cpu_copy_dim *dims);
void cpu_memcpy(void *dst, const void *src, size_t bytes); /* with threads when large */

/* Zeroed memory that takes room when it is touched; munmap ends it. NULL: there is none. */
void *cpu_map_memory(size_t bytes);

#define PLAN_OP(sym, name, in0, in1, out0, out1, attrs)                                               \
    int step_##name##__check(const struct plan *p, const struct plan_step *s, struct nf_error *err);    \
    int step_##name##__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err);
#include "runtime/cpu/plan_ops.def"
#undef PLAN_OP

#endif
