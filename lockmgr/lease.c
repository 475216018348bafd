/* lease.c: the table of engines, and the engine of a single host: whoever holds the host lock has the lease. */
#include "lockmgr/lease.h"

struct lease {
    uint64_t epoch;
};

static int host_open(const struct lease_config *config, struct lease_engine **ret_engine, struct nf_error *err);

static void host_close(struct lease_engine *engine)
{
    free(engine);
}

static void host_acquire(struct lease_engine *engine, struct nf_str key, const struct lock_host *lock, const char *what,
                         int64_t deadline_ns, lease_grant_fn *fn, void *user, struct lease_wait **ret_wait)
{
    (void)engine, (void)key, (void)what, (void)deadline_ns;
    struct lease *l = nf_alloc(sizeof(*l));
    l->epoch = lock_host_epoch(lock);
    *ret_wait = NULL;
    fn(user, NF_OK, l, NULL);
}

static bool host_cancel(struct lease_engine *engine, struct lease_wait *wait)
{
    (void)engine, (void)wait;
    return false;                        /* it has always been answered already */
}

static bool host_held(const struct lease *lease)
{
    (void)lease;
    return true;
}

static uint64_t host_epoch(const struct lease *lease)
{
    return lease->epoch;
}

static void host_release(struct lease *lease)
{
    free(lease);
}

static int host_owner(struct lease_engine *engine, struct nf_str key, struct lock_owner *ret_owner)
{
    (void)engine, (void)key, (void)ret_owner;
    return NF_ENOTFOUND;                 /* the host lock's record says it */
}

static const struct lease_ops host_ops = {
    .name = "host", .open = host_open, .close = host_close, .acquire = host_acquire, .cancel = host_cancel, .held = host_held,
    .epoch = host_epoch, .release = host_release, .owner = host_owner,
};

static int host_open(const struct lease_config *config, struct lease_engine **ret_engine, struct nf_error *err)
{
    (void)config, (void)err;
    struct lease_engine *e = nf_alloc(sizeof(*e));
    e->ops = &host_ops;
    *ret_engine = e;
    return NF_OK;
}

static const struct lease_ops *const engines[] = {&host_ops};

const struct lease_ops *lease_ops_find(const char *name)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(engines); i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

int lease_engine_open(const char *name, const struct lease_config *config, struct lease_engine **ret_engine, struct nf_error *err)
{
    const struct lease_ops *ops = lease_ops_find(name);
    if (!ops) {
        nf_fail(err, NF_ECONFIG, "no lease engine %s", name);
        struct nf_buf all = NF_BUF_INIT;
        for (size_t i = 0; i < NF_ARRAY_LEN(engines); i++)
            nf_buf_addf(&all, "%s%s", i ? ", " : "", engines[i]->name);
        nf_error_hint(err, "engines: %s", all.data);
        nf_buf_done(&all);
        return NF_ECONFIG;
    }
    return ops->open(config, ret_engine, err);
}

void lease_engine_close(struct lease_engine *engine)
{
    if (engine)
        engine->ops->close(engine);
}
