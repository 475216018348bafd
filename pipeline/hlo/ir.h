/* ir.h: the one representation of programs in every stage: text and bytecode readers fill it, passes change it, the
 * evaluator, code generator and printers read it.
 *
 * A module owns an arena; everything below lives and dies with it, nothing is freed singly. One module, one thread.
 *
 *   struct hlo_module  -- op: the builtin.module operation, whose only block holds the functions
 *   struct hlo_op      -- id says which (hlo_ops.def); operands, results, attribute slots, dictionary, regions
 *   struct hlo_region  -- list of blocks (StableHLO: exactly one)
 *   struct hlo_block   -- arguments and a doubly linked list of operations, the last one a terminator
 *   struct hlo_value   -- a result or a block argument; type, dense id, list of its uses
 *
 * Reading:
 *     HLO_FOR_OPS(op, hlo_func_block(f))                       operations of a function's body in order
 *         switch (op->id) { case HLO_OP_ADD: ... }
 *     op->operands[i].value, op->results[i].type               num_operands, num_results
 *     hlo_op_attr(op, HLO_A_dimension)                         inherent attribute (declared in the row of the table); NULL if absent
 *     hlo_op_i64(op, HLO_A_dimension, -1)                      ... as a number, with what absent means
 *     hlo_op_i64s(op, HLO_A_permutation)                       ... as a list {n, v}; absent gives n 0, v NULL
 *     hlo_op_enum(op, HLO_A_comparison_direction, HLO_EQ)
 *     hlo_op_discardable(op, NF_STR("mhlo.sharding"))          any other attribute
 *     op->regions[i]->first, ->args[k]                         first block of a region, its arguments
 *     constants: hlo_op_attr(op, HLO_A_value)->dense.raw (and .splat); integers one by one: hlo_attr_dense_int_at
 * Walking all operations of a region tree, parents first, without recursion:
 *     struct hlo_walk w = hlo_walk_of(m->op); struct hlo_op *op;
 *     while ((op = hlo_walk_next(&w))) ...                     the op returned last may be erased; hlo_walk_skip(&w) leaves its regions out
 * Building:
 *     struct hlo_op *op = hlo_op_new(m, HLO_OP_ADD, 2, (struct hlo_value *[]){a, b}, 1, &type, 0);
 *     hlo_op_set_attr(op, HLO_A_dimension, hlo_attr_int(m, HLO_ELEM_I64, 0));
 *     hlo_block_append(block, op);
 *
 * Invariants: value->uses lists exactly the operands that name it; an operation in a block has op->block set; value ids are
 * unique and below m->num_values (holes after erasing; hlo_canonicalise makes them dense again). */
#ifndef NEFFD_PIPELINE_HLO_IR_H
#define NEFFD_PIPELINE_HLO_IR_H

#include "base/arena.h"
#include "pipeline/hlo/attr.h"
#include "pipeline/hlo/ops.h"
#include "pipeline/hlo/type.h"

struct hlo_op;
struct hlo_block;
struct hlo_region;

struct hlo_operand {
    struct hlo_value *value;
    struct hlo_op *user;
    struct hlo_operand *next_use, **prev_use;
};

struct hlo_value {
    const struct hlo_type *type;
    struct hlo_operand *uses;           /* in no particular order */
    union {
        struct hlo_op *op;              /* !is_arg: the operation that makes it */
        struct hlo_block *block;        /* is_arg */
    } def;
    uint32_t id;
    uint32_t index : 31;                /* which result or argument */
    uint32_t is_arg : 1;
};

struct hlo_op {
    uint16_t id;                        /* enum hlo_op_id */
    uint16_t num_regions;
    uint32_t num_operands, num_results, num_dict;
    struct hlo_block *block;            /* NULL while it is in none */
    struct hlo_op *prev, *next;
    struct hlo_operand *operands;
    union {
        const struct hlo_attr **attrs;  /* one slot for each attribute of the row (hlo_op_info(id)->attrs), NULL where absent */
        const struct nf_str *name;      /* HLO_OP_UNKNOWN, whose row has none: "dialect.op" */
    };
    struct hlo_named *dict;             /* the other attributes, sorted by name */
    struct hlo_region **regions;        /* they lie one behind the other */
    uint32_t loc;                       /* index into m->locs; 0 unknown */
    uint32_t pos;                       /* byte offset in the input, for messages */
    struct hlo_value results[];
};

struct hlo_block {
    struct hlo_region *region;
    struct hlo_block *prev, *next;
    struct hlo_op *first, *last;
    uint32_t num_args;
    struct hlo_value **args;
    uint32_t *arg_locs;                 /* num_args of them, or NULL */
};

struct hlo_region {
    struct hlo_op *op;                  /* that it belongs to */
    struct hlo_block *first, *last;     /* NULL: empty */
};

enum hlo_source { HLO_SOURCE_NONE, HLO_SOURCE_TEXT, HLO_SOURCE_BYTES };

struct hlo_module {
    struct nf_arena *arena;
    struct hlo_op *op;                  /* builtin.module */
    uint32_t num_values, num_ops;       /* ids given so far; operations made so far */
    bool made[HLO_OP_MAX];              /* kinds of operations that there ever were */
    /* side table of locations: [0] is NULL (unknown) */
    const struct hlo_attr **locs;
    uint32_t num_locs, cap_locs;
    /* where `pos` counts: the text is borrowed and must live as long as line numbers are wanted */
    enum hlo_source source;
    struct nf_str text;
    uint32_t first_line;                /* of the text in its file; 1 unless it is a section of one */
    struct hlo_tables *tables;          /* interned types, symbols (private) */
};

struct hlo_module *hlo_module_new(struct nf_arena *arena);     /* with an empty builtin.module */

/* ---- building and changing ---- */

/* An operation in no block. Attribute slots are empty, regions exist and are empty. Operand values may be NULL and set later. */
struct hlo_op *hlo_op_new(struct hlo_module *m, enum hlo_op_id id, uint32_t num_operands, struct hlo_value *const *operands,
                          uint32_t num_results, const struct hlo_type *const *result_types, uint16_t num_regions);
struct hlo_op *hlo_op_new_unknown(struct hlo_module *m, struct nf_str name, uint32_t num_operands,
                                  struct hlo_value *const *operands, uint32_t num_results,
                                  const struct hlo_type *const *result_types, uint16_t num_regions);
void hlo_op_set_attr(struct hlo_op *op, enum hlo_attr_name name, const struct hlo_attr *a);   /* asserts that the row has it; NULL removes */
/* By any name: the slot when the row has it, else the dictionary. */
void hlo_op_set_named(struct hlo_module *m, struct hlo_op *op, struct nf_str name, const struct hlo_attr *a);
void hlo_op_set_operand(struct hlo_op *op, uint32_t i, struct hlo_value *v);
void hlo_op_set_operands(struct hlo_module *m, struct hlo_op *op, uint32_t n, struct hlo_value *const *v); /* another number of them */
void hlo_op_set_loc(struct hlo_module *m, struct hlo_op *op, const struct hlo_attr *loc);
const struct hlo_attr *hlo_op_loc(const struct hlo_module *m, const struct hlo_op *op);       /* NULL: unknown */
uint32_t hlo_loc_add(struct hlo_module *m, const struct hlo_attr *loc);                       /* index for the side table */

struct hlo_block *hlo_block_new(struct hlo_module *m, struct hlo_region *r);                  /* appended to r */
struct hlo_value *hlo_block_add_arg(struct hlo_module *m, struct hlo_block *b, const struct hlo_type *t);
void hlo_block_append(struct hlo_block *b, struct hlo_op *op);
void hlo_block_insert(struct hlo_block *b, struct hlo_op *before, struct hlo_op *op);         /* before NULL: at the end */
void hlo_op_move(struct hlo_op *op, struct hlo_block *b, struct hlo_op *before);
void hlo_op_remove(struct hlo_op *op);                          /* out of its block; stays whole */
/* Out of its block, and its operands (and those of everything inside it) are no uses any more. Results must have no uses. */
void hlo_op_erase(struct hlo_op *op);
void hlo_value_replace(struct hlo_value *old, struct hlo_value *by);                          /* all uses */
void hlo_op_replace(struct hlo_op *op, struct hlo_value *const *by);                          /* all results, then erase */
void hlo_region_take(struct hlo_region *to, struct hlo_region *from);                         /* moves all blocks */
/* A deep copy in the same module; values found in `map` (indexed by value id, map_len of them, NULL: as is) are replaced, and those
 * that the copy defines are entered, where their ids are below map_len. Iterative. */
struct hlo_op *hlo_op_clone(struct hlo_module *m, const struct hlo_op *op, struct hlo_value **map, size_t map_len);

/* Shorthand: one operand in, same attributes none; appended to b. */
struct hlo_value *hlo_build(struct hlo_module *m, struct hlo_block *b, struct hlo_op *before, enum hlo_op_id id,
                            const struct hlo_type *result, uint32_t num_operands, struct hlo_value *const *operands);
/* stablehlo.constant; the splat takes one element's value, rounded to the element type (integers: two's complement). */
struct hlo_value *hlo_build_constant(struct hlo_module *m, struct hlo_block *b, struct hlo_op *before, const struct hlo_attr *dense);
struct hlo_value *hlo_build_splat(struct hlo_module *m, struct hlo_block *b, struct hlo_op *before, const struct hlo_type *t, double v);

/* ---- reading ---- */

/* op->next. Operations mostly lie one behind the other, each a few cache lines long: what comes two or three behind is fetched ahead. */
static inline struct hlo_op *hlo_op_next(const struct hlo_op *op)
{
    uintptr_t next = (uintptr_t)op->next; /* a number: there need be nothing where it points */
    __builtin_prefetch((const void *)(next + 512));
    __builtin_prefetch((const void *)(next + 576));
    return op->next;
}
#define HLO_FOR_OPS(op, block) for (struct hlo_op *op = (block)->first, *op##_next = NULL; op && (op##_next = hlo_op_next(op), true); op = op##_next)
#define HLO_FOR_BLOCKS(b, region) for (struct hlo_block *b = (region)->first; b; b = b->next)

struct nf_str hlo_op_name(const struct hlo_op *op);             /* "stablehlo.add" */
const struct hlo_attr *hlo_op_attr(const struct hlo_op *op, enum hlo_attr_name name);
int64_t hlo_op_i64(const struct hlo_op *op, enum hlo_attr_name name, int64_t absent);         /* INT, BOOL or UNIT (1) */
bool hlo_op_bool(const struct hlo_op *op, enum hlo_attr_name name, bool absent);
int64_t hlo_op_enum(const struct hlo_op *op, enum hlo_attr_name name, int64_t absent);
double hlo_op_float(const struct hlo_op *op, enum hlo_attr_name name, double absent);
struct hlo_ints hlo_op_i64s(const struct hlo_op *op, enum hlo_attr_name name);                /* DENSE_ARRAY */
struct nf_str hlo_op_string(const struct hlo_op *op, enum hlo_attr_name name);                /* STRING or SYMBOL; absent: empty */
const struct hlo_attr *hlo_op_discardable(const struct hlo_op *op, struct nf_str name);
const struct hlo_attr *hlo_op_named(const struct hlo_op *op, struct nf_str name);             /* slot or dictionary */

static inline struct hlo_value *hlo_op_operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value; }
static inline struct hlo_block *hlo_op_body(const struct hlo_op *op, unsigned region) { return op->regions[region]->first; }
static inline uint32_t hlo_operand_index(const struct hlo_operand *u) { return (uint32_t)(u - u->user->operands); }
static inline struct hlo_op *hlo_op_parent(const struct hlo_op *op) { return op->block ? op->block->region->op : NULL; }
static inline bool hlo_value_unused(const struct hlo_value *v) { return v->uses == NULL; }
/* The value's constant: attribute of the stablehlo.constant that makes it, or NULL. */
const struct hlo_attr *hlo_value_constant(const struct hlo_value *v);

/* Functions: func.func operations of the module's block. */
struct hlo_op *hlo_module_func(const struct hlo_module *m, struct nf_str name);               /* NULL if there is none */
struct hlo_op *hlo_module_entry(const struct hlo_module *m);    /* @main, else the only function; NULL */
const struct hlo_type *hlo_func_type(const struct hlo_op *func);
struct nf_str hlo_func_name(const struct hlo_op *func);
struct hlo_block *hlo_func_block(const struct hlo_op *func);    /* NULL for a declaration */
/* Dictionary of argument or result i: attribute `name`, NULL if absent. */
const struct hlo_attr *hlo_func_arg_attr(const struct hlo_op *func, uint32_t i, struct nf_str name);
const struct hlo_attr *hlo_func_result_attr(const struct hlo_op *func, uint32_t i, struct nf_str name);
void hlo_module_symbols_changed(struct hlo_module *m);          /* after functions were added, removed or renamed */
struct hlo_block *hlo_module_block(const struct hlo_module *m);

struct hlo_walk {
    struct hlo_op *root, *at, *next;
    bool skip;
};
struct hlo_walk hlo_walk_of(struct hlo_op *root);               /* root itself is not returned */
struct hlo_op *hlo_walk_next(struct hlo_walk *w);
static inline void hlo_walk_skip(struct hlo_walk *w) { w->skip = true; }

/* "file:line:column" of an operation for messages: source position in the text, else byte offset; into out, which it returns. */
const char *hlo_op_where(const struct hlo_module *m, const struct hlo_op *op, char *out, size_t size);
void hlo_pos_line(const struct hlo_module *m, uint32_t pos, uint32_t *ret_line, uint32_t *ret_col);

#endif
