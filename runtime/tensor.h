/* tensor.h: what a program takes and gives: names, element types, shapes. */
#ifndef NEFFD_RUNTIME_TENSOR_H
#define NEFFD_RUNTIME_TENSOR_H

#include "base/dtype.h"

#define RT_RANK_MAX 64
#define RT_NO_ALIAS (-1)

/* One input or output. Strings and arrays belong to whoever made the list (a neff reader, a program). The same fields as
 * neffd_tensor_desc of the client API. */
struct rt_tensor {
    const char *name;         /* "" if it has none */
    enum nf_dtype dtype;
    size_t rank;
    const int64_t *dims;      /* rank numbers, none negative */
    const int64_t *strides;   /* in elements; NULL: dense, row-major */
    size_t bytes;             /* of the caller's buffer */
    int alias;                /* outputs: the input whose memory it may take over (donation), else RT_NO_ALIAS */
};

/* Bytes of a dense tensor; NF_ELIMIT on overflow or a negative dimension. */
int rt_tensor_dense_bytes(enum nf_dtype dtype, const int64_t *dims, size_t rank, size_t *ret_bytes);

#endif
