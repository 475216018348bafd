/* array.h: an array in memory, as plain data.
 *
 * Row-major, elements as base/dtype.h says. `data` is owned by whoever made it; rt_array_alloc'd ones by rt_array_done. */
#ifndef NEFFD_RUNTIME_ARRAY_H
#define NEFFD_RUNTIME_ARRAY_H

#include "base/dtype.h"

#define RT_ARRAY_RANK_MAX 32

struct rt_array {
    enum nf_dtype dtype;
    int rank;
    int64_t dims[RT_ARRAY_RANK_MAX];
    void *data;   /* at least 16-byte aligned when allocated here */
    size_t bytes; /* count * nf_dtype_bytes(dtype) */
};

/* Elements of a shape, or -1 if negative, over RT_ARRAY_RANK_MAX dimensions or over 2^62 bytes. */
int64_t rt_shape_count(enum nf_dtype dtype, int rank, const int64_t *dims);
/* Zeroed memory of the shape's size. NF_ELIMIT over limit_bytes (0: none), NF_ENOMEM. */
int rt_array_alloc(enum nf_dtype dtype, int rank, const int64_t *dims, size_t limit_bytes, struct rt_array *ret_array, struct nf_error *err);
void rt_array_done(struct rt_array *t); /* frees data, empties */
static inline int64_t rt_array_count(const struct rt_array *t)
{
    size_t w = nf_dtype_bytes(t->dtype);
    return w ? (int64_t)(t->bytes / w) : 0;
}
bool rt_array_same_shape(const struct rt_array *a, const struct rt_array *b);
void rt_shape_print(enum nf_dtype dtype, int rank, const int64_t *dims, struct nf_buf *out); /* "2x3xf32" */
void rt_element_print(enum nf_dtype dtype, const void *elem, struct nf_buf *out); /* "-3", "0.1", "(1, 2)", "true"; as many digits as tell it from others */
void rt_place_print(const struct rt_array *a, int64_t i, struct nf_buf *out);     /* of element i: "[0, 2]" */
void rt_elements_print(const struct rt_array *a, struct nf_buf *out);             /* all: "[[1, 2], [3, 4]]" */

#endif
