#include "runtime/tensor.h"

int rt_tensor_dense_bytes(enum nf_dtype dtype, const int64_t *dims, size_t rank, size_t *ret_bytes)
{
    size_t bytes = nf_dtype_bytes(dtype);
    bool empty = false;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return NF_ELIMIT;
        if (dims[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(bytes, (size_t)dims[i], &bytes) || bytes > PTRDIFF_MAX)
            return NF_ELIMIT;
    }
    *ret_bytes = empty ? 0 : bytes;
    return NF_OK;
}
