/* status.h: the one list of outcomes. Functions return NF_OK (0) or a negative NF_E... code; status.def has the table. */
#ifndef NEFFD_BASE_STATUS_H
#define NEFFD_BASE_STATUS_H

#include <stdbool.h>

enum nf_status {
#define STATUS(sym, num, name, cls, grpc, retry, exit, text) NF_E##sym = -(num),
#include "base/status.def"
#undef STATUS
};
#define NF_OK 0
#define NF_ESTATUS_MAX 37 /* one past the largest number in status.def */

/* Whose fault a failure is. Values are those of neffd.v1.FailureClass. */
enum nf_class {
    NF_CLASS_NONE = 0,
    NF_CLASS_USER,
    NF_CLASS_TRANSIENT,
    NF_CLASS_ENVIRONMENT,
    NF_CLASS_INTERNAL,
    NF_CLASS_TIMEOUT,
    NF_CLASS_MAX,
};

/* All take any int: an unknown code reads as NF_EINTERNAL. Strings are static. */
const char *nf_status_name(int code);    /* "lock_timeout" */
const char *nf_status_text(int code);    /* "the lock was not free in time" */
enum nf_class nf_status_class(int code);
int nf_status_grpc(int code);            /* a grpc_status_code */
bool nf_status_retryable(int code);
int nf_status_exit(int code);            /* exit code of a program */
int nf_status_from_name(const char *name); /* the code, or NF_EINTERNAL */
const char *nf_class_name(enum nf_class cls); /* "user", "transient", ... */

/* The code that an errno means: ENOSPC and EDQUOT no_space, EACCES and EPERM permission_denied, EROFS read_only, ENOENT
 * not_found, EEXIST exists, ENOMEM out_of_memory, ETIMEDOUT timeout, else io_error. */
int nf_status_from_errno(int err);

#endif
