#include "runtime/array.h"

#include <stdlib.h>

int64_t rt_shape_count(enum nf_dtype dtype, int rank, const int64_t *dims)
{
    int64_t n = 1, limit = (int64_t)1 << 62;
    bool empty = false;
    if (rank < 0 || rank > RT_ARRAY_RANK_MAX)
        return -1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return -1;
        if (dims[i] == 0)
            empty = true;
        else if (n > limit / dims[i])
            return -1;
        else
            n *= dims[i];
    }
    size_t w = nf_dtype_bytes(dtype);
    if (w && n > limit / (int64_t)w)
        return empty ? 0 : -1;
    return empty ? 0 : n;
}

int rt_array_alloc(enum nf_dtype dtype, int rank, const int64_t *dims, size_t limit_bytes, struct rt_array *ret_array, struct nf_error *err)
{
    int64_t n = rt_shape_count(dtype, rank, dims);
    if (n < 0)
        return nf_fail(err, NF_ELIMIT, "an array has a shape that cannot be held");
    size_t bytes = (size_t)n * nf_dtype_bytes(dtype);
    if (limit_bytes && bytes > limit_bytes)
        return nf_fail(err, NF_ELIMIT, "an array of %zu bytes is over the limit of %zu", bytes, limit_bytes);
    void *data = calloc(bytes ? bytes : 1, 1);
    if (!data)
        return nf_fail(err, NF_ENOMEM, "no memory for an array of %zu bytes", bytes);
    struct rt_array t = {.dtype = dtype, .rank = rank, .data = data, .bytes = bytes};
    for (int i = 0; i < rank; i++)
        t.dims[i] = dims[i];
    *ret_array = t;
    return NF_OK;
}

void rt_array_done(struct rt_array *t)
{
    free(t->data);
    *t = (struct rt_array){0};
}

bool rt_array_same_shape(const struct rt_array *a, const struct rt_array *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

void rt_shape_print(enum nf_dtype dtype, int rank, const int64_t *dims, struct nf_buf *out)
{
    for (int i = 0; i < rank; i++)
        nf_buf_addf(out, "%lldx", (long long)dims[i]);
    nf_buf_add_c(out, nf_dtype_name(dtype));
}
