/* stages.h: what a stage of the code generator prints can be read back, and goes on to the same plan. */
#ifndef NEFFD_TESTS_UNIT_CODEGEN_STAGES_H
#define NEFFD_TESTS_UNIT_CODEGEN_STAGES_H

#include "pipeline/codegen/codegen.h"

struct stages {
    struct nf_buf import, group, plan;
};
void stages_done(struct stages *s);
/* cg_request.print; user is a struct stages. */
void stages_keep(void *user, const char *stage, struct nf_str text);
/* From the texts of import and of group: the same texts, and the same plan. 0, or -1 with *why. */
int stages_read_back(const struct stages *s, const struct cg_request *request, struct nf_buf *why);

#endif
