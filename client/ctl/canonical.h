/* canonical.h: the canonical key without a daemon: for targets whose rules this program knows (cpu). */
#ifndef NEFFD_CLIENT_CTL_CANONICAL_H
#define NEFFD_CLIENT_CTL_CANONICAL_H

#include "client/client_internal.h"

/* Imports the graph as a worker would. NF_EUNSUPPORTED: the target's options are not known here, or there is no toolchain
 * list; else as pipe_import. */
int ctl_canonical_key(neffd_client *client, const neffd_request *request, const char *file_name, struct nf_digest *ret_key, struct nf_error *err);

/* An entry of either tier under the canonical key, as an answer with what is known; NF_ENOTFOUND. */
struct cl_answer;
int ctl_canonical_lookup(neffd_client *client, const neffd_request *request, const char *file_name, struct cl_answer *ret_answer, struct nf_error *err);

#endif
