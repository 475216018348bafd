/* cg.h: private to pipeline/codegen: the graph between StableHLO and a plan.
 *
 *     value    one tensor, made by one operation of a few kinds; static shape
 *     view     BROADCAST, RESHAPE, TRANSPOSE, SLICE: no work, only another way to index its operand
 *     graph    values in program order, with parameters and results; regions that stay regions (loops, branches, odd
 *              reducers) are nested graphs, which may read values of the graphs around them
 *     group    values that share a kernel; a unit is a group or a library operation: what becomes steps
 *
 * Stages (codegen.c): import -> dots take transpositions -> group -> store -> lower -> schedule -> memory -> plan. */
#ifndef NEFFD_PIPELINE_CODEGEN_CG_H
#define NEFFD_PIPELINE_CODEGEN_CG_H

#include "base/arena.h"
#include "base/map.h"
#include "runtime/cpu/plan.h"

enum { CG_RANK_MAX = 12, CG_LOOPS_MAX = 24 };

enum cg_kind {
    CG_ARG,         /* argument `index` of the program */
    CG_PARAM,       /* parameter of a nested graph */
    CG_CONST,       /* data */
    CG_SPLAT,       /* one number everywhere: num */
    CG_IOTA,        /* index along dim `index`, in the value's type */
    CG_EW,          /* op, aux: elementwise over operands of the same shape */
    CG_BROADCAST,   /* list: result dim of each operand dim */
    CG_RESHAPE,
    CG_TRANSPOSE,   /* list: operand dim of each result dim */
    CG_SLICE,       /* list: start by dim; list2: step by dim (negative: backwards) */
    CG_REDUCE,      /* aux: enum rp_red; list: reduced dims, ascending */
    CG_ASSEMBLE,    /* operands: pieces that write into its buffer, in order */
    CG_PIECE,       /* operand's elements go to place list + step list2 of `owner`; itself never read */
    CG_DOT,         /* dot */
    CG_LIB,         /* op: enum plan_op; attrs, graphs */
    CG_RESULT,      /* result `index` of a LIB with several */
};

struct cg_loop {
    int64_t extent;
    char cls;       /* b batch, m rows, n columns, k contracted */
};
/* c[loops b m n] = sum over k of a * b; each dim of each operand is an affine form of the loops */
struct cg_dot {
    int nloop;
    struct cg_loop loop[CG_LOOPS_MAX];
    int64_t coef[3][CG_RANK_MAX][CG_LOOPS_MAX], base[3][CG_RANK_MAX];
};

struct cg_value {
    uint8_t kind, dt, rank;
    bool row;               /* one number a row of its space */
    bool stored, captured, output, barrier, dead;
    bool ordered;           /* LIB that others see run, or with such in its graphs: it runs, and in program order among those of its graph */
    bool solo;              /* its shape cuts the rows of its space elsewhere than others': a space of its own */
    uint16_t op, aux;
    uint32_t id, index;     /* id: position in its graph */
    uint32_t label;         /* PLAN_NO_LABEL: none */
    uint32_t nin, nuse;
    struct cg_value **in;
    int64_t dims[CG_RANK_MAX], count;
    int64_t *list, *list2;
    uint32_t nlist;
    struct cpu_num num;
    struct nf_str data;
    struct cg_dot *dot;
    struct cg_value *owner;
    struct cg_graph *graph;
    /* LIB */
    int64_t *attrs;
    uint32_t nattr, nresult, ngraph;
    struct cg_graph **graphs;
    const uint32_t *graph_attr;        /* which attribute takes the block number of each graph */
    struct cg_value **results;         /* of a LIB with several: its CG_RESULTs */
    bool in_place;                     /* the first result may take the first operand's buffer */
    /* group.c */
    int space, depth;
    struct cg_value *up;               /* union-find */
    struct cg_value *group_next, *group_first, *group_last; /* of the representative, which every member's `up` is */
    uint32_t group_size;
    int level;
    int64_t kept;                      /* lower.c: offset of its row in the scratch of its kernel; -1: none */
    uint32_t unit;
    /* lower.c, memory.c */
    int32_t buffer;                    /* memory.c; -1: none */
    uint32_t plan_value;               /* its number + 1 */
};

struct cg_graph {
    struct cg_graph *parent;
    struct cg *cg;
    struct cg_value **v;
    uint32_t n, cap;
    struct cg_value **params, **results;
    uint32_t nparam, nresult;
    struct nf_map *cse;
    uint32_t block;                    /* of the plan */
    uint32_t number;                   /* of the printed form */
    struct cg_steps *steps;
    int32_t end;                       /* nested: when the operation that it belongs to is over */
    bool apart;                        /* memory.c: each of several devices has its own memory for it, in the place of the arena */
    struct cg_graph *older;            /* the one made before, of all of a cg */
};

struct cg_kernel {
    struct nf_str text;
    struct rp_prog *prog;
    uint32_t number;
};

struct cg_step;

struct cg_options {
    int tier;               /* 0 quick, 1 good code */
    bool interpret;         /* no machine code: row programs stay text */
    uint64_t features;      /* of the processor to make code for */
    int lanes;              /* f32 lanes of a vector */
    int recompute;          /* limit of the store rule */
    int threads;            /* that compile kernels */
    const char *module;     /* file of the LLVM module; NULL: the usual places */
    const char *cache_dir;  /* of kernels; NULL: none */
};

struct cg {
    struct nf_arena *arena;
    struct cg_options options;
    struct cg_graph *main, *newest;
    uint32_t nargs, nouts;
    struct cg_value **args;
    struct cg_value **map;             /* by id of the module's values */
    uint64_t *arg_bytes, *out_bytes;
    int64_t *alias;                    /* by output: argument, or -1 */
    uint32_t replicas, partitions;
    struct nf_str *labels;
    uint32_t nlabel, cap_label;
    struct nf_map *label_map;
    /* spaces (group.c) */
    struct nf_map *space_map;
    int nspace;
    /* kernels by text */
    struct nf_map *kernel_map;
    struct cg_kernel **kernels;
    uint32_t nkernel, cap_kernel;
    struct nf_buf constants;
    struct nf_map *const_map;
    /* printed stages */
    void (*print)(void *user, const char *stage, struct nf_str text);
    void *print_user;
    struct nf_error *err;
};

/* ---- graph.c: building, simplifying as it goes; a value may come back as another one ---- */
struct cg_graph *cg_graph_new(struct cg *cg, struct cg_graph *parent);
struct cg_value *cg_raw(struct cg_graph *g, enum cg_kind kind, enum cpu_dt dt, int rank, const int64_t *dims);  /* no simplification, appended */
struct cg_value *cg_splat(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims, struct cpu_num num);
struct cg_value *cg_const(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims, struct nf_str data);
struct cg_value *cg_iota(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims, uint32_t dim);
struct cg_value *cg_ew(struct cg_graph *g, enum rp_op op, enum cpu_dt dt, int aux, uint32_t n, struct cg_value *const *in);
struct cg_value *cg_broadcast(struct cg_graph *g, struct cg_value *v, int rank, const int64_t *dims, const int64_t *map);
struct cg_value *cg_broadcast_scalar(struct cg_graph *g, struct cg_value *v, const struct cg_value *like);
struct cg_value *cg_reshape(struct cg_graph *g, struct cg_value *v, int rank, const int64_t *dims);
struct cg_value *cg_transpose(struct cg_graph *g, struct cg_value *v, const int64_t *perm);
struct cg_value *cg_slice(struct cg_graph *g, struct cg_value *v, const int64_t *dims, const int64_t *start, const int64_t *step);
struct cg_value *cg_reduce(struct cg_graph *g, struct cg_value *v, enum rp_red kind, uint32_t n, const int64_t *dims);
struct cg_value *cg_convert(struct cg_graph *g, struct cg_value *v, enum cpu_dt dt);
/* Buffer made of pieces: n of them, each with its place. */
struct cg_value *cg_assemble(struct cg_graph *g, enum cpu_dt dt, int rank, const int64_t *dims);
void cg_assemble_add(struct cg_graph *g, struct cg_value *whole, struct cg_value *part, const int64_t *start, const int64_t *step);
struct cg_value *cg_pad(struct cg_graph *g, struct cg_value *v, struct cg_value *fill, const int64_t *dims, const int64_t *low, const int64_t *interior);
/* A value that a library step can take: dense in memory; views that are not are copied. */
struct cg_value *cg_dense(struct cg_graph *g, struct cg_value *v);
struct cg_value *cg_copy(struct cg_graph *g, struct cg_value *v);
struct cg_value *cg_lib(struct cg_graph *g, enum plan_op op, uint32_t nin, struct cg_value *const *in, uint32_t nattr, const int64_t *attrs);
void cg_lib_results(struct cg_value *lib, uint32_t n, const uint8_t *dt, const int *rank, const int64_t *const *dims, struct cg_value **ret);
void cg_enter(struct cg_value *v);                        /* a value that was read: equal ones will not be made again */
uint32_t cg_label(struct cg *cg, struct nf_str text);
bool cg_is_view(const struct cg_value *v);
struct cg_value *cg_base(struct cg_value *v);             /* behind all views */
struct cg_value *cg_memory(struct cg_value *v);           /* behind reshapes, which lie in the same memory */
bool cg_splat_is(const struct cg_value *v, double x);

/* ---- graph_text.c ---- */
void cg_graph_print(struct cg_graph *g, struct nf_buf *out);        /* of the main one, with all inside */
int cg_graph_parse(struct cg *cg, struct nf_str text, struct nf_error *err); /* into an empty cg, as cg_import leaves it; NF_EGRAPH */

/* ---- index.c: affine index expressions over loop atoms ---- */
struct cg_term {
    int atom;
    int64_t coef;
};
enum { CG_TERMS_MAX = 32, CG_ATOMS_MAX = 96 };
struct cg_expr {
    int n;
    int64_t base;
    struct cg_term t[CG_TERMS_MAX];
};
struct cg_index {
    int natom;
    int64_t extent[CG_ATOMS_MAX];
    int high[CG_ATOMS_MAX], low[CG_ATOMS_MAX];  /* of a split atom; -1 */
    bool failed;                                /* too many atoms or terms */
};
int cg_index_atom(struct cg_index *x, int64_t extent);
void cg_expr_norm(struct cg_index *x, struct cg_expr *e);       /* by atoms that are not split, merged, sorted */
void cg_expr_add(struct cg_index *x, struct cg_expr *e, const struct cg_expr *by, int64_t scale);
void cg_index_flatten(struct cg_index *x, const struct cg_expr *idx, const int64_t *dims, int rank, struct cg_expr *ret);
/* Index by dim from a row-major number; false when it is not affine. May split atoms. */
bool cg_index_unflatten(struct cg_index *x, const struct cg_expr *flat, const int64_t *dims, int rank, struct cg_expr *ret);
/* One view: the operand's index from the view's; false when it is not affine. */
bool cg_index_view(struct cg_index *x, const struct cg_value *v, const struct cg_expr *idx, struct cg_expr *ret);
/* Atoms that make up a, most significant first; returns how many. */
int cg_index_leaves(const struct cg_index *x, int a, int *ret, int max);

/* ---- group.c ---- */
void cg_group(struct cg_graph *g);                       /* spaces, depths, groups, stored values, units */

/* ---- import.c ---- */
struct hlo_module;
int cg_import(struct cg *cg, struct hlo_module *m, struct nf_error *err);

/* ---- lower.c ---- */
struct cg_step {
    uint16_t op;
    uint32_t label, nin, nout, nattr;
    struct cg_value **in, **out;
    int64_t *attr;
    struct rp_prog *prog;      /* KERNEL */
    uint32_t kernel;
    int64_t outer, grain;
    struct cg_value *lib;      /* its nested graphs */
};
struct cg_steps {
    struct cg_step *s;
    uint32_t n, cap;
    int32_t *time;             /* memory.c: of each step; end of those with graphs */
    int32_t *end;
};
/* 1: a value was stored or copied that was not before; group again. 0 or negative: as usual. */
int cg_lower(struct cg_graph *g, struct cg_steps *ret_steps, struct nf_error *err);

/* ---- attention.c ---- */
void cg_fuse_attention(struct cg_graph *g);

/* ---- memory.c ---- */
bool cg_in_place(const struct rp_prog *p, int in, int out); /* may output argument `out` of the kernel lie where input argument `in` is? */
int cg_plan(struct cg *cg, struct plan **ret_plan, struct nf_error *err);

/* ---- emit.c ---- */
/* ret_cached: kernels that did not have to be compiled. */
int cg_emit(struct cg *cg, struct plan *plan, struct nf_buf *image, uint32_t *ret_cached, struct nf_error *err);

#endif
