/* bytecode.h: portable StableHLO artifacts: MLIR bytecode holding the VHLO dialect.
 *
 * Read: every version from 0.15.0 (bytecode format 6) to the newest 1.x, upgraded to today's operations; mixed files that keep
 * sdy operations. Older files and newer majors are refused by name. Written: any version from 1.0.0 to the current one,
 * provided that the program needs nothing newer. Source: MLIR's bytecode format document, StableHLO's compatibility document. */
#ifndef NEFFD_PIPELINE_HLO_BYTECODE_H
#define NEFFD_PIPELINE_HLO_BYTECODE_H

#include "pipeline/hlo/hlo.h"

/* The four bytes that every file begins with. */
bool hlo_bytecode_magic(struct nf_str bytes);

/* The bytes are borrowed: constants are views of them, so they must outlive the module. *err has location "byte N".
 * NF_EGRAPH, NF_ELIMIT, NF_EUNSUPPORTED (a version or operation that is not known). limits NULL: the default. */
int hlo_bytecode_read(struct nf_str bytes, const struct hlo_limits *limits, struct nf_arena *arena,
                      struct hlo_module **ret_module, struct nf_error *err);

/* version "1.17.0", or NULL: the current one. Without debug_info all locations are written as unknown.
 * NF_EINVAL (not a version that can be written), NF_EUNSUPPORTED (the program has something that the version lacks, by name). */
int hlo_bytecode_write(const struct hlo_module *m, const char *version, bool debug_info, struct nf_buf *out, struct nf_error *err);

#endif
