/* arena.h: memory that lives and dies together (one compile, one parse).
 *
 * Allocation is a pointer bump, alignment 16, nothing is freed singly. Blocks double up to 2 MiB, the size of a large page, which
 * they ask for; larger requests get a block of their own. Not thread-safe: one arena, one thread. A limit (0: none) makes an allocation beyond it set
 * nf_arena_over() while still succeeding, so that a parser can look at one place per operation instead of at each call;
 * only memory refused by the system ends the process, and workers exist to be ended. */
#ifndef NEFFD_BASE_ARENA_H
#define NEFFD_BASE_ARENA_H

#include "base/str.h"

struct nf_arena;

struct nf_arena *nf_arena_new(size_t limit_bytes);
void nf_arena_free(struct nf_arena *a);                            /* takes NULL */
void *nf_arena_alloc(struct nf_arena *a, size_t bytes);            /* zeroed, never NULL */
void *nf_arena_alloc_raw(struct nf_arena *a, size_t bytes);        /* not zeroed, never NULL */
void *nf_arena_alloc_array(struct nf_arena *a, size_t count, size_t bytes); /* zeroed; overflow ends the process: check counts first */
char *nf_arena_strn(struct nf_arena *a, const char *data, size_t len); /* NUL-terminated copy */
struct nf_str nf_arena_str(struct nf_arena *a, struct nf_str s);   /* copy */
char *nf_arena_printf(struct nf_arena *a, const char *fmt, ...) NF_PRINTF(2, 3);
size_t nf_arena_bytes(const struct nf_arena *a);                   /* obtained from the system */
bool nf_arena_over(const struct nf_arena *a);                      /* the limit has been passed */

#define NF_NEW(arena, type) ((type *)nf_arena_alloc((arena), sizeof(type)))
#define NF_NEW_ARRAY(arena, type, n) ((type *)nf_arena_alloc_array((arena), (n), sizeof(type)))

#endif
