/* task.c: see task.h. */
#include "daemon/task.h"

#include "daemon/daemon.h"

static void unref(struct task *t)
{
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        t->free(t);
}

static int on_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct task *t = ctx;
    return t->run(t, item, err);
}

static void on_done(void *ctx, int rc, const struct nf_error *err)
{
    struct task *t = ctx;
    t->rc = rc;
    if (err)
        t->err = *err;
    post_push(t->d->post, &t->item);
}

static void on_free(void *ctx) { unref(ctx); }

static void on_posted(struct post_item *item)
{
    struct task *t = (struct task *)((char *)item - offsetof(struct task, item));
    t->end(t, t->rc, &t->err);
    unref(t);
}

void task_start(struct daemon *d, struct task *t, int64_t patience_ns)
{
    t->item.run = on_posted;
    t->d = d;
    atomic_init(&t->refs, 2);
    struct cache_mount_work work = {.run = on_run, .done = on_done, .free = on_free, .ctx = t, .patience_ns = patience_ns};
    cache_store_submit(d->store, &work);
}
