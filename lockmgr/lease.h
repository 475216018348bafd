/* lease.h: one compile per key across hosts (DESIGN §5, level 3): an interface with engines behind it.
 *
 * A lease saves work; it is never needed for correctness, which is the exclusive publish's. A holder that stops renewing is
 * taken over after its TTL; its late result is harmless. The epoch grows with every holder of a key, so that a late one
 * cannot overwrite what a later one has recorded.
 *
 * A lease is asked for while the key's host lock is held, so an engine sees at most one request per key and host.
 *
 * Engines: `host` (here: this host is all there is; grants at once). The table below is what `mount` and `etcd` fill in. */
#ifndef NEFFD_LOCKMGR_LEASE_H
#define NEFFD_LOCKMGR_LEASE_H

#include "lockmgr/lock.h"

struct lease;
struct lease_wait;

struct lease_config {
    const char *place;        /* directory on the mount, or address; NULL where the engine needs none */
    int64_t ttl_ns;           /* 0: the engine's default */
    const char *host;         /* this host's name in records; NULL: gethostname() */
};

/* Exactly once per request, on a thread of the engine's, or inside acquire. status as for lock_grant_fn. */
typedef void lease_grant_fn(void *user, int status, struct lease *lease, const struct nf_error *err);

struct lease_ops {
    const char *name;
    int (*open)(const struct lease_config *config, struct lease_engine **ret_engine, struct nf_error *err);
    void (*close)(struct lease_engine *engine);
    /* lock is held by the caller until the lease has been released. *ret_wait is NULL when fn has run inside the call. */
    void (*acquire)(struct lease_engine *engine, struct nf_str key, const struct lock_host *lock, const char *what,
                    int64_t deadline_ns, lease_grant_fn *fn, void *user, struct lease_wait **ret_wait);
    bool (*cancel)(struct lease_engine *engine, struct lease_wait *wait);   /* true: fn will not run */
    /* Still ours, as far as the engine knows: false after a missed renewal. Publishing is allowed either way. */
    bool (*held)(const struct lease *lease);
    uint64_t (*epoch)(const struct lease *lease);
    void (*release)(struct lease *lease);
    /* Who holds it now, for display; NF_ENOTFOUND when nobody does. */
    int (*owner)(struct lease_engine *engine, struct nf_str key, struct lock_owner *ret_owner);
};

/* Every engine starts with this. */
struct lease_engine {
    const struct lease_ops *ops;
};

const struct lease_ops *lease_ops_find(const char *name);         /* NULL: no such engine */
int lease_engine_open(const char *name, const struct lease_config *config, struct lease_engine **ret_engine, struct nf_error *err);
void lease_engine_close(struct lease_engine *engine);             /* takes NULL */

#endif
