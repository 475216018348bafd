/* neffopt.h: the parts of neffopt. */
#ifndef NEFFD_PIPELINE_TOOLS_NEFFOPT_H
#define NEFFD_PIPELINE_TOOLS_NEFFOPT_H

#include "base/str.h"
#include "pipeline/hlo/hlo.h"

struct check_options {
    const char *const *paths;
    size_t num_paths;
    bool json, list, cpu;
    int jobs;
    double time_limit_s;      /* of one case */
};
/* Judges all cases below the paths and prints the report; returns the exit code. */
int neffopt_check(const struct check_options *o);

/* One case: a section of a file. */
enum verdict { VERDICT_PASS, VERDICT_FAIL, VERDICT_SKIP };
struct case_result {
    enum verdict verdict;
    unsigned line;            /* of the failure, in the file */
    unsigned checks;          /* check operations that ran */
    char reason[600];
};
struct case_input {
    const char *path;         /* of the file */
    struct nf_str text;       /* the section */
    unsigned first_line;
    bool cpu;
    double time_limit_s;
};
void neffopt_case(const struct case_input *in, struct case_result *out);
/* X.mlir.bc: reads it and compares with the text beside it, or expects it to be refused (invalid_*). */
void neffopt_case_bytecode(const char *path, struct case_result *out);
/* X.pb, an HloModuleProto: read, written again, and read to the same program. */
void neffopt_case_hlo(const char *path, struct case_result *out);

struct eval_options {
    const char *inputs, *expected, *output, *function; /* NULL: not given */
    double time_limit_s;      /* 0: none */
    bool stats;
};
int neffopt_eval(const struct hlo_module *m, const struct eval_options *o, struct nf_error *err);
/* Compiles the function natively, runs it and lets the evaluator judge its checks; changes the module. NF_EUNSUPPORTED when an
 * operation has no native form. */
struct hlo_eval_hooks;
int neffopt_native(struct hlo_module *m, struct nf_str function, const struct hlo_eval_hooks *hooks, double time_limit_s, struct nf_error *err);

/* The native form beside the evaluator, step by step. */
int neffopt_steps(struct hlo_module *m, const char *inputs, struct nf_error *err);
/* Prints a stage of the code generator, or all; changes the module. */
int neffopt_stage(struct hlo_module *m, const char *stage, bool to_stderr, struct nf_error *err);
/* From what stage import or group printed. */
int neffopt_stage_text(struct nf_str graph, const char *stage, struct nf_error *err);

/* Says it on stderr, or with --json as {"error": Error} on stdout; returns the exit code. */
int neffopt_fail(const struct nf_error *err);

void json_string(struct nf_str s, struct nf_buf *out);

#endif
