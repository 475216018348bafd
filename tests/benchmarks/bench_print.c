/* bench_print.c: MB/s and operations/s, beside SHA-256 over the same bytes: a module of 70,000 operations, and one that is a constant. */
#include "tests/benchmarks/hlo_inputs.h"

int main(void) { return hlo_bench_main(HLO_BENCH_PRINT); }
