/* tensor.h: what a program takes and gives: names, element types, shapes. */
#ifndef NEFFD_RUNTIME_TENSOR_H
#define NEFFD_RUNTIME_TENSOR_H

#include "base/str.h"

enum rt_dtype {
#define DTYPE(sym, word, bytes, npy) RT_##sym,
#include "runtime/dtype.def"
#undef DTYPE
    RT_DTYPE_MAX,
};

const char *rt_dtype_name(enum rt_dtype d);
size_t rt_dtype_bytes(enum rt_dtype d);
const char *rt_dtype_npy(enum rt_dtype d);
int rt_dtype_parse(struct nf_str word, enum rt_dtype *ret_dtype);  /* NF_EUNSUPPORTED */

#define RT_RANK_MAX 64
#define RT_NO_ALIAS (-1)

/* One input or output. Strings and arrays belong to whoever made the list (a neff reader, a program). The same fields as
 * neffd_tensor_desc of the client API. */
struct rt_tensor {
    const char *name;         /* "" if it has none */
    enum rt_dtype dtype;
    size_t rank;
    const int64_t *dims;      /* rank numbers, none negative */
    const int64_t *strides;   /* in elements; NULL: dense, row-major */
    size_t bytes;             /* of the caller's buffer */
    int alias;                /* outputs: the input whose memory it may take over (donation), else RT_NO_ALIAS */
};

/* Bytes of a dense tensor; NF_ELIMIT on overflow or a negative dimension. */
int rt_tensor_dense_bytes(enum rt_dtype dtype, const int64_t *dims, size_t rank, size_t *ret_bytes);

#endif
