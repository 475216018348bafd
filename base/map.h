/* map.h: hash map from bytes to a pointer. Open addressing, XXH3 with a per-process random seed (keys are hostile).
 * Keys are borrowed unless the map was made with `copy_keys`. Iteration order is insertion order. Not thread-safe. */
#ifndef NEFFD_BASE_MAP_H
#define NEFFD_BASE_MAP_H

#include "base/str.h"

struct nf_map;

struct nf_map *nf_map_new(bool copy_keys);
void nf_map_free(struct nf_map *m);                                /* takes NULL; values are the caller's */
void *nf_map_get(const struct nf_map *m, struct nf_str key);       /* NULL if absent */
void *nf_map_put(struct nf_map *m, struct nf_str key, void *value); /* value not NULL; returns the one it replaced, or NULL */
void *nf_map_del(struct nf_map *m, struct nf_str key);             /* returns what was there, or NULL */
size_t nf_map_len(const struct nf_map *m);
/* for (size_t it = 0; nf_map_next(m, &it, &key, &value);) ... ; deleting the current one inside the loop is allowed. */
bool nf_map_next(const struct nf_map *m, size_t *it, struct nf_str *ret_key, void **ret_value);

#endif
