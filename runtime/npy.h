/* npy.h: NumPy's .npy files (format 1.0 to 3.0), bounded reading of hostile ones.
 *
 * Types that NumPy has not are stored as unsigned integers that hold their bits (base/dtype.def): a reader who expects such a
 * type says so. Big-endian files are swapped, Fortran order is transposed; object and string arrays are refused. */
#ifndef NEFFD_RUNTIME_NPY_H
#define NEFFD_RUNTIME_NPY_H

#include "runtime/array.h"

/* want: the element type that the array is for, NF_DT_NONE: what the file says. NF_EINVAL if the file is not such an array
 * (byte offset in the error's location), NF_ELIMIT over limit_bytes (0: none). The caller rt_array_done()s the result. */
int rt_npy_parse(struct nf_str file, enum nf_dtype want, size_t limit_bytes, struct rt_array *ret_array, struct nf_error *err);
int rt_npy_read(const char *path, enum nf_dtype want, size_t limit_bytes, struct rt_array *ret_array, struct nf_error *err);
void rt_npy_print(const struct rt_array *t, struct nf_buf *out); /* the file's bytes */
int rt_npy_write(const char *path, const struct rt_array *t, struct nf_error *err);

#endif
