/* passes.h: changing modules. A pass works in place and leaves a valid module; passes.def says what each needs and gives. */
#ifndef NEFFD_PIPELINE_HLO_PASSES_H
#define NEFFD_PIPELINE_HLO_PASSES_H

#include "pipeline/hlo/hlo.h"

typedef int (*hlo_pass_fn)(struct hlo_module *m, struct nf_error *err);

struct hlo_pass {
    const char *name;
    hlo_pass_fn run;
    const char *needs, *gives, *breaks, *help;
};

const struct hlo_pass *hlo_pass_find(struct nf_str name);      /* NULL if there is none */
const struct hlo_pass *hlo_pass_at(size_t i);                  /* NULL: past the last */

/* "a,b,c": runs them in order; the verifier runs behind each. after (may be NULL) is called behind each pass. NF_EUSAGE for an
 * unknown name; an error names the pass. */
int hlo_passes_run(struct hlo_module *m, struct nf_str names, void (*after)(void *user, const struct hlo_pass *pass, const struct hlo_module *m), void *user,
                   struct nf_error *err);

/* Between the passes. A new operation before op with its first operands, its type, dictionary and place; and one result for one. */
struct hlo_op *hlo__instead(struct hlo_module *m, struct hlo_op *op, enum hlo_op_id id, uint32_t num_operands);
void hlo__replace(struct hlo_op *op, struct hlo_op *by);

/* pass_inline.c: private functions that nothing names which stays go. */
void hlo__drop_unnamed(struct hlo_module *m, struct nf_arena *scratch);

/* pass_einsum.c: op, an einsum or unary_einsum, is replaced; false: its config says nothing that can be done, or does not fit. */
bool hlo__legalise_einsum(struct hlo_module *m, struct hlo_op *op);
int hlo_pass_legalise(struct hlo_module *m, struct nf_error *err);
int hlo_pass_decompose(struct hlo_module *m, struct nf_error *err);
int hlo_pass_inline(struct hlo_module *m, struct nf_error *err);
int hlo_pass_fold(struct hlo_module *m, struct nf_error *err);
int hlo_pass_refine(struct hlo_module *m, struct nf_error *err);
int hlo_pass_cse(struct hlo_module *m, struct nf_error *err);
int hlo_pass_dce(struct hlo_module *m, struct nf_error *err);

#endif
