/* random.h: StableHLO programs made up from a seed, for comparing the native form with the evaluator. */
#ifndef NEFFD_TESTS_UNIT_CODEGEN_RANDOM_H
#define NEFFD_TESTS_UNIT_CODEGEN_RANDOM_H

#include "base/str.h"

#include <stdint.h>

/* A module with @main, `ops` operations at most; the same seed gives the same text. */
void random_program(uint64_t seed, int ops, struct nf_buf *out);

/* Compiles, runs on `threads` threads and on one more (the same bits), and compares with the evaluator; inputs from the seed; what the stages print reads back (stages.h). 0, or -1 with *why filled. Programs that
 * one of the two refuses by name count as agreement only if both do: *ret_refused. */
int random_compare(struct nf_str text, uint64_t seed, int threads, bool interpret, bool *ret_refused, struct nf_buf *why);

#endif
