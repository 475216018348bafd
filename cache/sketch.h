/* sketch.h: a few bytes per entry by which the nearest one is found without reading entries.
 *
 *     groups   one 32-bit digest for each group of components: equal groups are equal digests
 *     ops      a one-permutation MinHash of the operations without types and value names: the share of equal places
 *              estimates the share of equal operations
 *
 * Fixed size, no pointers, byte order little-endian when stored. Pure; any thread. */
#ifndef NEFFD_CACHE_SKETCH_H
#define NEFFD_CACHE_SKETCH_H

#include "cache/key.h"

enum cache_group {
    CACHE_GROUP_OPTIONS,
    CACHE_GROUP_COMPILER,
    CACHE_GROUP_TARGET,
    CACHE_GROUP_NAMESPACE,
    CACHE_GROUP_SIDE_FILES,
    CACHE_GROUP_INPUTS,
    CACHE_GROUP_OUTPUTS,
    CACHE_GROUP_CONSTANTS,
    CACHE_GROUP_STRUCTURE,  /* all operations, without types */
    CACHE_GROUP_MAX
};
#define CACHE_SKETCH_OPS 16

struct cache_sketch {
    uint32_t group[CACHE_GROUP_MAX];
    uint16_t ops[CACHE_SKETCH_OPS];
};
#define CACHE_SKETCH_BYTES (CACHE_GROUP_MAX * 4 + CACHE_SKETCH_OPS * 2)

void cache_sketch_make(const struct cache_component *components, size_t count, struct cache_sketch *ret_sketch);
/* 0 to 1: the graph counts for as much as everything else together. */
double cache_sketch_similarity(const struct cache_sketch *a, const struct cache_sketch *b);
void cache_sketch_encode(const struct cache_sketch *s, uint8_t out[CACHE_SKETCH_BYTES]);
void cache_sketch_decode(const uint8_t in[CACHE_SKETCH_BYTES], struct cache_sketch *ret_sketch);

/* Appends an operation line with everything in angle brackets after `tensor`, `dense`, `dense_resource`, `complex`, `tuple`,
 * `vector` and `memref` taken out, which is what types and constant values are written in. */
void cache_op_strip(struct nf_str line, struct nf_buf *out);
/* Of an operation without types and value names: one operation more at the top renumbers all that follow. */
uint64_t cache_op_hash(struct nf_str line, struct nf_buf *scratch);

#endif
