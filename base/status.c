#include "base/status.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Numbers of grpc_status_code, which are fixed by the protocol (base does not see gRPC's headers). */
enum {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
};

static const struct row {
    const char *name, *text;
    enum nf_class cls;
    int grpc, exit;
    bool retryable;
} rows[NF_ESTATUS_MAX] = {
#define STATUS(sym, num, name, cls, grpc, retry, exit, text) [num] = {name, text, NF_CLASS_##cls, GRPC_##grpc, exit, retry},
#include "base/status.def"
#undef STATUS
};

#define COUNT(sym, num, name, cls, grpc, retry, exit, text) +1
#define STATUS COUNT
_Static_assert((0
#include "base/status.def"
                ) == NF_ESTATUS_MAX, "NF_ESTATUS_MAX is the number of rows");
#undef STATUS

static const struct row *row_of(int code)
{
    if (code > 0 || code <= -NF_ESTATUS_MAX)
        code = NF_EINTERNAL;
    return &rows[-code];
}

const char *nf_status_name(int code) { return row_of(code)->name; }
const char *nf_status_text(int code) { return row_of(code)->text; }
enum nf_class nf_status_class(int code) { return row_of(code)->cls; }
int nf_status_grpc(int code) { return row_of(code)->grpc; }
bool nf_status_retryable(int code) { return row_of(code)->retryable; }
int nf_status_exit(int code) { return row_of(code)->exit; }

int nf_status_from_name(const char *name)
{
    for (int i = 0; i < NF_ESTATUS_MAX; i++)
        if (strcmp(rows[i].name, name) == 0)
            return -i;
    return NF_EINTERNAL;
}

const char *nf_class_name(enum nf_class cls)
{
    static const char *const names[NF_CLASS_MAX] = {"none", "user", "transient", "environment", "internal", "timeout"};
    return (unsigned)cls < NF_CLASS_MAX ? names[cls] : "internal";
}

int nf_status_from_errno(int err)
{
    switch (err) {
    case 0: return NF_OK;
    case ENOSPC:
    case EDQUOT: return NF_ENOSPACE;
    case EACCES:
    case EPERM: return NF_EPERM;
    case EROFS: return NF_EREADONLY;
    case ENOENT:
    case ENOTDIR: return NF_ENOTFOUND;
    case EEXIST: return NF_EEXISTS;
    case ENOMEM: return NF_ENOMEM;
    case ETIMEDOUT: return NF_ETIMEOUT;
    case EBUSY: return NF_EBUSY;
    default: return NF_EIO;
    }
}
