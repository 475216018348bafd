/* entry.h: a cache entry for the benchmarks, as the daemon leaves one. */
#ifndef NEFFD_TESTS_BENCHMARKS_ENTRY_H
#define NEFFD_TESTS_BENCHMARKS_ENTRY_H

#include "base/digest.h"

/* Publishes the payload in the local tier and the alias that leads to it. Ends the process when that fails. */
void bench_publish(const char *local_dir, const struct nf_digest *front_key, const void *payload, size_t bytes);

#endif
