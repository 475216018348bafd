/* details.h: the file `details` that a worker leaves beside the canonical text (worker.proto): the components of the
 * request, read back for what is stored with an entry and for explanations. Any thread. */
#ifndef NEFFD_DAEMON_DETAILS_H
#define NEFFD_DAEMON_DETAILS_H

#include "base/arena.h"
#include "cache/key.h"

struct details {
    const struct cache_component *components;
    size_t component_count;
    struct nf_str stablehlo;      /* the canonical text; empty when it is over the limit */
};

/* Everything into the arena. */
int details_read(const char *work_dir, uint64_t max_text_bytes, struct nf_arena *arena, struct details *ret_details, struct nf_error *err);

#define DETAILS_FILE "details"
#define DETAILS_TEXT "canonical.mlir"
#define DETAILS_MAX_BYTES ((size_t)1 << 30)

#endif
