/* drv_classify.h: from the lines and the end of a compiler to a status, a message and advice. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_CLASSIFY_H
#define NEFFD_PIPELINE_DRIVER_DRV_CLASSIFY_H

#include "pipeline/driver/drv_run.h"

/* Collects while the compiler runs, in constant memory: the best match, and the lines that say most. */
#define DRV_KEY_LINES 8
#define DRV_TAIL_LINES 40
struct drv_evidence {
    int row;                                  /* in drv_failures.def; -1: nothing matched */
    char code[24];                            /* "NCC_EVRF001", "[F137]"; "" */
    char matched[400];                        /* the line of it */
    char first_error[400];                    /* the first line that looks like an error, matched or not */
    struct nf_buf tail[DRV_TAIL_LINES];       /* ring */
    size_t lines;
};

void drv_evidence_init(struct drv_evidence *e);
void drv_evidence_done(struct drv_evidence *e);
void drv_evidence_line(struct drv_evidence *e, struct nf_str line);
/* The last lines in order, oldest first: i below drv_evidence_tail_count. */
size_t drv_evidence_tail_count(const struct drv_evidence *e);
struct nf_str drv_evidence_tail(const struct drv_evidence *e, size_t i);

/* What a run that did not give a good file means. problem: what is wrong with the output of a compiler that ended with 0, else NULL.
 * Fills err (code, exit_code, message, hint) and returns the code. */
int drv_classify(const char *compiler, const struct drv_evidence *e, const struct drv_result *result, const char *problem, struct nf_error *err);

#endif
