/* explain.h: why a request misses: which entry is nearest, and exactly what differs.
 *
 * A request and an entry are compared component by component. What is only a consequence of something already named is
 * left out: types inside the graph when an input's type changed, a constant's shape when it is the same value. If nothing
 * else differs, the canonical text does, and then the first operation that differs is named.
 *
 * cache_explain_diff is pure and runs on any thread. cache_explain_nearest reads the index and up to 16 entries: not on
 * the loop thread (store.h has the asynchronous form). */
#ifndef NEFFD_CACHE_EXPLAIN_H
#define NEFFD_CACHE_EXPLAIN_H

#include "cache/key.h"

struct cache_request_view {                  /* what is asked for, or what an entry holds. Borrowed */
    const struct cache_component *components; /* with op lines */
    size_t component_count;
};

struct cache_difference {                    /* as neffd.v1.Difference; from the arena, NUL-terminated */
    const char *component, *name, *cached, *requested, *location;
};

struct cache_explanation {                   /* as neffd.v1.Explanation */
    bool found;
    struct nf_digest nearest_key;
    const char *nearest_name;
    double similarity;                       /* share of equal components, 0 to 1 */
    double ops_alike;                        /* share of equal operations, 0 to 1 */
    struct cache_difference *differences;
    size_t difference_count;
};

/* Every component that differs, most telling first: target, compiler, namespace, format, option, side_file, input, output,
 * constant, structure. Texts are cut at 256 bytes. At most 64 differences: the last then says how many more. */
void cache_explain_diff(const struct cache_request_view *cached, const struct cache_request_view *requested, struct nf_arena *arena,
                        struct cache_explanation *ret_explanation);

/* One line for people: `nearest: "bert" (1a2b3c4d…): option optlevel: 2 -> 1; input 3: tensor<8xf32> -> tensor<16xf32>`, the
 * first four differences and how many more there are. "no entry is near" when there is none. */
void cache_explain_line(const struct cache_explanation *e, struct nf_buf *out);

struct cache_store;
/* The nearest among all entries of the namespaces in `readable` (NULL: all), or found = false when none shares enough
 * (under three tenths of the operations, or of the components). Never an error of its own: what cannot be read is not near. */
int cache_explain_nearest(struct cache_store *store, const struct cache_request_view *request, const char *const *readable,
                          size_t readable_count, struct nf_arena *arena, struct cache_explanation *ret_explanation, struct nf_error *err);

#endif
