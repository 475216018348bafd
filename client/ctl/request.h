/* request.h: a request from neffctl's options, shared by compile, lookup, explain and run. */
#ifndef NEFFD_CLIENT_CTL_REQUEST_H
#define NEFFD_CLIENT_CTL_REQUEST_H

#include "client/ctl/ctl.h"

struct ctl_request {
    neffd_request request;
    struct ctl *ctl;
    const char *path;
    char *name;
    struct nf_buf graph;
    neffd_option *options;
    double fraction;      /* of the compile, as last heard; < 0: not known */
    char stage[32];
};

/* Reads the file and the options. ctl_request_done also after a failure. */
int ctl_request_init(struct ctl *c, const char *path, struct ctl_request *q, struct nf_error *err);
void ctl_request_done(struct ctl_request *q);
/* neffd_event_fn: progress on the terminal; user is the ctl_request. */
int ctl_request_event(void *user, const char *line, const void *event, size_t event_bytes);

/* By canonical key, without a daemon where that is possible. Done with outcome MISS when there is none. */
int ctl_lookup_key(struct ctl *c, const struct nf_digest *key, struct cl_answer *ret_answer, struct nf_error *err);
void ctl_print_done(struct ctl *c, const Neffd__V1__Done *done, const char *output);

#endif
