/* toolchain.h: the compilers of this host, by target.
 *
 * A worker finds out (it may take a process that hangs); the list goes to <local>/toolchains for clients, and into every key.
 * Looked at again when a compiler's file changes, and on SIGHUP. Loop thread only. */
#ifndef NEFFD_DAEMON_TOOLCHAIN_H
#define NEFFD_DAEMON_TOOLCHAIN_H

#include "base/error.h"
#include "cache/key.h"
#include "proto/worker.pb-c.h"

struct daemon;
struct toolchains;

struct toolchain {
    struct cache_toolchain info;      /* target, id, compiler, version, path, mtime, size */
    char isa[256];
    char remark[256];                 /* what it does worse than it could, and why */
    struct nf_error err;              /* code: there is none, and why */
};

void toolchains_open(struct daemon *d, struct toolchains **ret_toolchains);
void toolchains_close(struct toolchains *t);
/* Asks again; `known` below stays true with the old answers meanwhile. */
void toolchains_refresh(struct toolchains *t);
/* The first answer is there. */
bool toolchains_known(const struct toolchains *t);
/* Called on the loop: `fn` when the first answer is there, and at each change; `failure` while there is none and cannot be had, after a few
 * tries and then at each. */
void toolchains_on_change(struct toolchains *t, void (*fn)(struct daemon *d), void (*failure)(struct daemon *d, const struct nf_error *err));
/* By the request's target, "" for the default. NF_EINVAL: no such target; NF_ENOCOMPILER. The pointer holds until the next change. */
int toolchains_find(const struct toolchains *t, const char *target, const struct toolchain **ret_toolchain, struct nf_error *err);
const struct toolchain *toolchains_at(const struct toolchains *t, size_t i);   /* NULL: past the last */
void toolchain_to_identity(const struct toolchain *t, Neffd__Worker__V1__Identity *ret_message);   /* borrowed pointers */

#endif
