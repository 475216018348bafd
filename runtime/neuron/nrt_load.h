/* nrt_load.h: libnrt in this process. */
#ifndef NEFFD_RUNTIME_NEURON_NRT_LOAD_H
#define NEFFD_RUNTIME_NEURON_NRT_LOAD_H

#include "base/str.h"
#include "runtime/neuron/nrt.h"

struct nrt_api {
#define NRT(result, name, parameters) result (*name) parameters;
#include "runtime/neuron/nrt_api.def"
#undef NRT
    void *handle;
    struct nrt_version version;
    char path[512];
};

/* Opened once a process and never closed (its threads would lose their code). A second call with another path is NF_EBUSY. */
int nrt_api_get(const char *library, const struct nrt_api **ret_api, struct nf_error *err);
/* "what: NAME (number)", with the hint of the table; returns the code. */
int nrt_fail(struct nf_error *err, nrt_status status, const char *fmt, ...) NF_PRINTF(3, 4);

#endif
