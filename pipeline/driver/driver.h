/* driver.h: an external compiler as a target: neuronx-cc, whoever calls it.
 *
 *     drv_find, drv_identify    which binary, and its version, asked once per (path, mtime, size)
 *     drv_flags.h               its command line: known flags normalised, unknown ones passed through unmangled
 *     drv_run.h                 a child process with all its descendants, limits, both pipes drained
 *     drv_classify.h            what a failure means, and what to tell the user
 *     drv_compile               all of it: a graph in, a checked NEFF out
 *
 * Everything that is known about neuronx-cc here comes from its documentation and from reports; it cannot be installed on most
 * machines. tests/fake-neuronx-cc follows the documented command line; what only the fake shows is said in README.md. */
#ifndef NEFFD_PIPELINE_DRIVER_DRIVER_H
#define NEFFD_PIPELINE_DRIVER_DRIVER_H

#include "pipeline/target.h"

/* Registers trn1, trn1n, trn2, trn3 and inf2. */
void drv_register(void);

/* The real compiler: cfg->neuronx_cc (cfg NULL: NEFFD_NEURONX_CC, which a wrong setting beside it does not take away), else the first neuronx-cc on PATH that is not `not_this` (a path; NULL: any) and, behind its
 * links, no file named neffcc. NF_ENOCOMPILER. */
int drv_find(const struct cfg *cfg, const char *not_this, struct nf_buf *ret_path, struct nf_error *err);

/* Fills ret_id for a target. The version is remembered in this process by (path, mtime, size); else the compiler is started with
 * --version (at most 30 s). NF_ENOCOMPILER, NF_ETIMEOUT. */
int drv_identify(const struct cfg *cfg, const char *target, const char *not_this, struct target_id *ret_id, struct nf_error *err);
/* The version in what `neuronx-cc --version` printed: what follows "ompiler version " in the first line that has it. */
bool drv_version_parse(struct nf_str text, char *ret_version, size_t size);

int drv_compile(const struct compile_input *input, struct compile_sink *sink, struct nf_error *err);

#endif
