/* import_internal.h: between import.c, import_check.c and import_dot.c. */
#ifndef NEFFD_PIPELINE_CODEGEN_IMPORT_INTERNAL_H
#define NEFFD_PIPELINE_CODEGEN_IMPORT_INTERNAL_H

#include "pipeline/codegen/cg.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/hlo/mesh.h"
#include "runtime/cpu/steps.h"

struct import {
    struct cg *cg;
    struct hlo_module *m;
    struct cg_value **map;       /* by value id; values of a function called twice are entered anew each time */
    struct cg_value ***parts;    /* by value id: the arrays that a tuple or future holds; NULL until there is one */
    size_t nmap;
    uint32_t label;              /* of the operation being read */
    size_t *line, nline;         /* where the lines of the text begin */
    struct hlo_mesh *manual;     /* in the region of a manual computation: its mesh */
    bool probed;                 /* some check asks for what a probe kept */
    bool expressed;              /* quantised results are read as what they express */
    int depth, rc;               /* first failure */
    struct nf_error *err;
};

int imp_refuse(struct import *im, const struct hlo_op *op, const char *why);
enum cpu_dt imp_type(struct import *im, const struct hlo_op *op, const struct hlo_type *t, int64_t *dims, int *rank);
/* The arrays that a value holds: a tensor one, a token none, tuples and futures those of what they are made of. */
uint32_t imp_parts(const struct hlo_type *t);
bool imp_get_parts(struct import *im, const struct hlo_value *v, struct cg_value **ret);        /* false: refused */
void imp_set_parts(struct import *im, const struct hlo_value *v, struct cg_value *const *parts); /* copied */
struct cg_value *imp_get(struct import *im, const struct hlo_value *v);
/* The first n operands, where there is room for so many; false: refused. */
bool imp_operands(struct import *im, const struct hlo_op *op, uint32_t n, struct cg_value **in, size_t room);
void imp_op(struct import *im, struct cg_graph *g, const struct hlo_op *op);
void imp_block(struct import *im, struct cg_graph *g, const struct hlo_block *b);
void imp_finish_lib(struct import *im, const struct hlo_op *op, struct cg_value *lib);
int imp_body_kind(const struct hlo_block *b, uint32_t n);
void imp_attach_body(struct import *im, struct cg_value *lib, const struct hlo_block *b);
/* The attribute `value` of op, as elements of type t; NULL: refused. */
struct cg_value *imp_constant(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_type *t);
void imp_check(struct import *im, struct cg_graph *g, const struct hlo_op *op);      /* of the check dialect */
bool imp_check_call(struct import *im, struct cg_graph *g, const struct hlo_op *op); /* a custom call that is a check; false: it is none */
void imp_print(struct import *im, struct cg_graph *g, const struct hlo_op *op);
/* A value by name, kept for the checks of the program that ask for it. */
void imp_probe(struct import *im, struct cg_graph *g, const struct hlo_op *op);
bool imp_asks_for_probes(const struct hlo_module *m);
void imp_dot(struct import *im, struct cg_graph *g, const struct hlo_op *op);
void imp_convolution(struct import *im, struct cg_graph *g, const struct hlo_op *op);
void imp_collective(struct import *im, struct cg_graph *g, const struct hlo_op *op);

#endif
