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

/* Of at most 64 bits: sign- or zero-extended. */
static uint64_t int_bits(enum nf_dtype dtype, const void *elem)
{
    uint64_t v = 0;
    size_t bytes = nf_dtype_bytes(dtype);
    memcpy(&v, elem, bytes);
    if (nf_dtype_class(dtype) == NF_DTC_SINT && bytes < 8 && v >> (8 * bytes - 1) & 1)
        v |= ~(uint64_t)0 << 8 * bytes;
    return v;
}

void rt_element_print(enum nf_dtype dtype, const void *elem, struct nf_buf *out)
{
    switch (nf_dtype_class(dtype)) {
    case NF_DTC_BOOL:
        nf_buf_add_c(out, *(const uint8_t *)elem ? "true" : "false");
        break;
    case NF_DTC_SINT:
        nf_buf_addf(out, "%lld", (long long)int_bits(dtype, elem));
        break;
    case NF_DTC_UINT:
        nf_buf_addf(out, "%llu", (unsigned long long)int_bits(dtype, elem));
        break;
    case NF_DTC_FLOAT:
        nf_buf_addf(out, dtype == NF_DT_F64 ? "%.17g" : "%.9g", nf_elem_to_double(dtype, elem));
        break;
    case NF_DTC_COMPLEX: {
        enum nf_dtype part = nf_dtype_part(dtype);
        nf_buf_add_char(out, '(');
        rt_element_print(part, elem, out);
        nf_buf_add_c(out, ", ");
        rt_element_print(part, (const char *)elem + nf_dtype_bytes(part), out);
        nf_buf_add_char(out, ')');
        break;
    }
    case NF_DTC_NONE: case NF_DTC_MAX:
        nf_buf_add_c(out, "token");
    }
}

void rt_place_print(const struct rt_array *a, int64_t i, struct nf_buf *out)
{
    int64_t at[RT_ARRAY_RANK_MAX];
    for (int d = a->rank - 1; d >= 0; d--) {
        at[d] = a->dims[d] ? i % a->dims[d] : 0;
        i = a->dims[d] ? i / a->dims[d] : 0;
    }
    nf_buf_add_char(out, '[');
    for (int d = 0; d < a->rank; d++)
        nf_buf_addf(out, d ? ", %lld" : "%lld", (long long)at[d]);
    nf_buf_add_char(out, ']');
}

static void print_nested(const struct rt_array *a, int dim, int64_t at, struct nf_buf *out)
{
    if (dim == a->rank) {
        rt_element_print(a->dtype, (const char *)a->data + (size_t)at * nf_dtype_bytes(a->dtype), out);
        return;
    }
    int64_t inner = 1;
    for (int i = dim + 1; i < a->rank; i++)
        inner *= a->dims[i];
    nf_buf_add_char(out, '[');
    for (int64_t i = 0; i < a->dims[dim]; i++) {
        nf_buf_add_c(out, i ? ", " : "");
        print_nested(a, dim + 1, at + i * inner, out); /* as deep as the rank */
    }
    nf_buf_add_char(out, ']');
}

void rt_elements_print(const struct rt_array *a, struct nf_buf *out) { print_nested(a, 0, 0, out); }
