/* mount.c: the thread pool that alone touches a mount, and its watchdog.
 *
 *     item:   QUEUED -> RUNNING -> DONE             run's own outcome
 *                    \          \-> GIVEN_UP        the watchdog called done; run's outcome is dropped when it comes
 *                     \-> (failed from the queue)   while the mount is in trouble, or at close
 *
 *     threads  =  idle + running + stuck,  idle + running <= wanted,  threads <= 2 * wanted + PROBES
 *
 * A stuck thread that comes back goes on as a worker if one is missing, else it ends. The probe is a thread of its own, so
 * that it can hang as well; up to PROBES of them, because a mount that was replaced under the old path answers a new one.
 *
 * Locks: `lock` guards everything here; it is a leaf, no callback runs under it. */
#include "cache/mount.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PROBES 3
#define PROBE_PERIOD_NS (250 * NF_MS)
#define PROBE_AGAIN_NS (10 * NF_SEC)
#define PATIENCE_NEVER INT64_MAX

enum item_state { ITEM_QUEUED, ITEM_RUNNING, ITEM_GIVEN_UP };

struct cache_mount_item {
    struct cache_mount_work work;
    enum item_state state;
    _Atomic int64_t last_ns;            /* of progress */
    atomic_bool given_up;
    atomic_uint refs;                   /* whoever runs it, and the watchdog while it calls done */
    struct cache_mount_item *next;      /* in the queue, or in the list of running ones */
};

struct cache_mount {
    pthread_mutex_t lock;
    pthread_cond_t work_cond;           /* something queued, or closing */
    pthread_cond_t watch_cond;          /* the watchdog has something to look at */
    pthread_cond_t idle_cond;           /* close waits */
    char *dir;
    unsigned wanted, idle, running, stuck, probes;
    int64_t patience_ns, retry_ns;
    struct cache_mount_item *queue, **queue_end, *active;
    bool closing, watchdog_alive;
    atomic_bool troubled;
    _Atomic int64_t trouble_since_ns;
    int64_t probe_started_ns;
    unsigned refs;                      /* the owner, the watchdog, each thread */
};

static void mount_unref_unlock(struct cache_mount *m)
{
    bool last = --m->refs == 0;
    pthread_mutex_unlock(&m->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->work_cond);
    pthread_cond_destroy(&m->watch_cond);
    pthread_cond_destroy(&m->idle_cond);
    free(m->dir);
    free(m);
}

static void item_end(struct cache_mount_item *item)
{
    if (atomic_fetch_sub(&item->refs, 1) != 1)
        return;
    if (item->work.free)
        item->work.free(item->work.ctx);
    free(item);
}

/* done, and one reference less. */
static void item_finish(struct cache_mount_item *item, int rc, const struct nf_error *err)
{
    if (item->work.done)
        item->work.done(item->work.ctx, rc, err);
    item_end(item);
}

static int64_t patience_of(const struct cache_mount *m, const struct cache_mount_item *item)
{
    return item->work.patience_ns ? item->work.patience_ns : m->patience_ns;
}

static void hung_error(const struct cache_mount *m, struct nf_error *err)
{
    *err = (struct nf_error){0};
    nf_fail(err, NF_EMOUNTHUNG, "%s does not answer", m->dir);
    nf_error_hint(err, "the daemon goes on without it and uses it again as soon as it answers");
}

static int thread_start(void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, (size_t)512 << 10);
    int rc = pthread_create(&thread, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

static void cond_wait_ns(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ns)
{
    int64_t at = nf_now_ns() + ns;
    struct timespec ts = {.tv_sec = at / NF_SEC, .tv_nsec = at % NF_SEC};
    pthread_cond_timedwait(c, lock, &ts);
}

/* ----------------------------------------------------------------------------------------------------------- workers */

static void active_remove(struct cache_mount *m, struct cache_mount_item *item)
{
    for (struct cache_mount_item **at = &m->active; *at; at = &(*at)->next)
        if (*at == item) {
            *at = item->next;
            return;
        }
}

static void trouble_over(struct cache_mount *m)
{
    if (!atomic_exchange(&m->troubled, false))
        return;
    nf_log(NF_LOG_WARNING, "cache", "mount answers again", "dir=%s after_ms=%lld", nf_log_quote(m->dir),
           (long long)((nf_now_ns() - atomic_load(&m->trouble_since_ns)) / NF_MS));
}

static void *worker_main(void *arg)
{
    struct cache_mount *m = arg;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (!m->queue && !m->closing && m->idle + m->running <= m->wanted)
            pthread_cond_wait(&m->work_cond, &m->lock);
        if (!m->queue || m->idle + m->running > m->wanted)
            break; /* closing, or a replacement has taken this thread's place */
        struct cache_mount_item *item = m->queue;
        m->queue = item->next;
        if (!m->queue)
            m->queue_end = &m->queue;
        item->state = ITEM_RUNNING;
        atomic_store(&item->last_ns, nf_now_ns());
        item->next = m->active;
        m->active = item;
        m->idle--;
        m->running++;
        pthread_cond_signal(&m->watch_cond);
        pthread_mutex_unlock(&m->lock);

        struct nf_error err = {0};
        int rc = item->work.run(item->work.ctx, item, &err);

        pthread_mutex_lock(&m->lock);
        bool dropped = item->state == ITEM_GIVEN_UP;
        if (dropped) {
            m->stuck--;
        } else {
            active_remove(m, item);
            m->running--;
        }
        m->idle++;
        pthread_mutex_unlock(&m->lock);
        if (dropped)
            item_end(item);
        else
            item_finish(item, rc, rc ? &err : NULL);
        pthread_mutex_lock(&m->lock);
        pthread_cond_broadcast(&m->idle_cond);
    }
    m->idle--;
    pthread_cond_broadcast(&m->idle_cond);
    mount_unref_unlock(m);
    return NULL;
}

/* With the lock. */
static void workers_fill(struct cache_mount *m)
{
    while (!m->closing && m->idle + m->running < m->wanted && m->idle + m->running + m->stuck < 2 * m->wanted) {
        m->refs++;
        m->idle++;
        if (thread_start(worker_main, m) != 0) {
            m->refs--;
            m->idle--;
            return; /* the ones that exist go on; the next recovery tries again */
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------- probe */

/* A name that nobody has asked for cannot be answered from a cache. */
static bool probe(const char *dir)
{
    uint64_t bits;
    char path[4400];
    struct statvfs vfs;
    nf_random(&bits, sizeof(bits));
    if (!nf_format(path, sizeof(path), "%s/.probe-%016llx", dir, (unsigned long long)bits))
        return true;
    if (access(path, F_OK) != 0 && (errno == ENOTCONN || errno == EIO || errno == ESTALE || errno == ETIMEDOUT))
        return false;
    return statvfs(dir, &vfs) == 0 || errno == ENOENT || errno == EACCES;
}

static void *probe_main(void *arg)
{
    struct cache_mount *m = arg;
    pthread_mutex_lock(&m->lock);
    char *dir = m->dir; /* never changes */
    pthread_mutex_unlock(&m->lock);
    bool ok = probe(dir);
    pthread_mutex_lock(&m->lock);
    m->probes--;
    if (ok && !m->closing) {
        trouble_over(m);
        workers_fill(m);
    }
    pthread_cond_broadcast(&m->watch_cond);
    mount_unref_unlock(m);
    return NULL;
}

/* With the lock. */
static void probe_maybe(struct cache_mount *m, int64_t now)
{
    if (!atomic_load(&m->troubled) || m->closing || m->probes >= PROBES)
        return;
    if (m->probe_started_ns && now - m->probe_started_ns < (m->probes ? PROBE_AGAIN_NS : m->retry_ns))
        return;
    m->probe_started_ns = now;
    m->refs++;
    m->probes++;
    if (thread_start(probe_main, m) != 0) {
        m->refs--;
        m->probes--;
    }
}

/* ---------------------------------------------------------------------------------------------------------- watchdog */

/* With the lock; moves what must be told NF_EMOUNTHUNG onto *hung (running ones) and *failed (queued ones). */
static void watch_once(struct cache_mount *m, int64_t now, struct cache_mount_item **hung, struct cache_mount_item **failed)
{
    for (struct cache_mount_item **at = &m->active; *at;) {
        struct cache_mount_item *item = *at;
        int64_t patience = patience_of(m, item);
        if (patience == PATIENCE_NEVER || now - atomic_load(&item->last_ns) < patience) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        item->next = *hung;
        *hung = item;
        item->state = ITEM_GIVEN_UP;
        atomic_store(&item->given_up, true);
        atomic_fetch_add(&item->refs, 1); /* its thread may come back and drop its own at any moment */
        m->running--;
        m->stuck++;
        if (!atomic_exchange(&m->troubled, true)) {
            atomic_store(&m->trouble_since_ns, atomic_load(&item->last_ns));
            m->probe_started_ns = 0;
            nf_log(NF_LOG_ERROR, "cache", "mount does not answer", "dir=%s waited_ms=%lld", nf_log_quote(m->dir),
                   (long long)(patience / NF_MS));
        }
    }
    if (atomic_load(&m->troubled) && m->queue) {
        *failed = m->queue;
        m->queue = NULL;
        m->queue_end = &m->queue;
    }
}

static int64_t watch_sleep(const struct cache_mount *m)
{
    int64_t ns = NF_SEC;
    for (const struct cache_mount_item *i = m->active; i; i = i->next)
        ns = NF_MIN(ns, patience_of(m, i) / 8);
    if (atomic_load(&m->troubled))
        ns = NF_MIN(ns, m->retry_ns);
    return NF_MAX(ns, 5 * NF_MS);
}

static void *watchdog_main(void *arg)
{
    struct cache_mount *m = arg;
    pthread_mutex_lock(&m->lock);
    while (!(m->closing && !m->active)) {
        if (!m->active && !atomic_load(&m->troubled) && !m->closing) {
            pthread_cond_wait(&m->watch_cond, &m->lock);
            continue;
        }
        struct cache_mount_item *hung = NULL, *failed = NULL;
        int64_t now = nf_now_ns();
        watch_once(m, now, &hung, &failed);
        probe_maybe(m, now);
        if (hung || failed) {
            struct nf_error err;
            hung_error(m, &err);
            pthread_mutex_unlock(&m->lock);
            while (failed) {
                struct cache_mount_item *next = failed->next;
                item_finish(failed, NF_EMOUNTHUNG, &err);
                failed = next;
            }
            while (hung) {
                struct cache_mount_item *next = hung->next;
                item_finish(hung, NF_EMOUNTHUNG, &err);
                hung = next;
            }
            pthread_mutex_lock(&m->lock);
            pthread_cond_broadcast(&m->idle_cond);
            continue;
        }
        cond_wait_ns(&m->watch_cond, &m->lock, watch_sleep(m));
    }
    m->watchdog_alive = false;
    pthread_cond_broadcast(&m->idle_cond);
    mount_unref_unlock(m);
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------------- api */

int cache_mount_open(const char *dir, unsigned threads, int64_t patience_ns, struct cache_mount **ret_mount, struct nf_error *err)
{
    if (threads < 1 || threads > 256 || patience_ns <= 0)
        return nf_fail(err, NF_EINVAL, "a mount needs 1 to 256 threads and a patience");
    struct cache_mount *m = nf_alloc(sizeof(*m));
    pthread_mutex_init(&m->lock, NULL);
    cond_init(&m->work_cond);
    cond_init(&m->watch_cond);
    cond_init(&m->idle_cond);
    m->dir = nf_strdup(dir);
    m->wanted = threads;
    m->patience_ns = patience_ns;
    m->retry_ns = PROBE_PERIOD_NS;
    m->queue_end = &m->queue;
    m->refs = 2;
    m->watchdog_alive = true;
    int rc = thread_start(watchdog_main, m);
    pthread_mutex_lock(&m->lock);
    if (rc != 0) {
        m->refs = 1;
        mount_unref_unlock(m);
        return nf_fail_errno(err, rc, "cannot start a thread");
    }
    workers_fill(m);
    if (m->idle + m->running == 0) {
        m->closing = true;
        pthread_cond_broadcast(&m->watch_cond);
        mount_unref_unlock(m);
        return nf_fail(err, NF_ENOMEM, "cannot start a thread for %s", dir);
    }
    pthread_mutex_unlock(&m->lock);
    *ret_mount = m;
    return NF_OK;
}

void cache_mount_set_retry(struct cache_mount *m, int64_t retry_ns)
{
    pthread_mutex_lock(&m->lock);
    m->retry_ns = NF_MAX(retry_ns, 10 * NF_MS);
    pthread_mutex_unlock(&m->lock);
}

void cache_mount_set_patience(struct cache_mount *m, int64_t patience_ns)
{
    pthread_mutex_lock(&m->lock);
    m->patience_ns = NF_MAX(patience_ns, 10 * NF_MS);
    pthread_mutex_unlock(&m->lock);
}

void cache_mount_stop(struct cache_mount *m)
{
    if (!m)
        return;
    struct nf_error err = {0};
    nf_fail(&err, NF_ECANCELLED, "the cache is being closed");
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    struct cache_mount_item *queued = m->queue;
    m->queue = NULL;
    m->queue_end = &m->queue;
    pthread_cond_broadcast(&m->work_cond);
    pthread_cond_broadcast(&m->watch_cond);
    pthread_mutex_unlock(&m->lock);
    while (queued) {
        struct cache_mount_item *next = queued->next;
        item_finish(queued, NF_ECANCELLED, &err);
        queued = next;
    }
    pthread_mutex_lock(&m->lock);
    /* Running items end, or the watchdog gives them up and then ends itself. */
    while (m->idle + m->running > 0 || m->watchdog_alive)
        pthread_cond_wait(&m->idle_cond, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void cache_mount_close(struct cache_mount *m)
{
    if (!m)
        return;
    cache_mount_stop(m);
    pthread_mutex_lock(&m->lock);
    mount_unref_unlock(m);
}

void cache_mount_submit(struct cache_mount *m, const struct cache_mount_work *work)
{
    struct cache_mount_item *item = nf_alloc(sizeof(*item));
    item->work = *work;
    atomic_init(&item->refs, 1);
    struct nf_error err;
    int rc = NF_OK;
    pthread_mutex_lock(&m->lock);
    if (m->closing) {
        rc = NF_ECANCELLED;
        err = (struct nf_error){0};
        nf_fail(&err, rc, "the cache is being closed");
    } else if (atomic_load(&m->troubled)) {
        rc = NF_EMOUNTHUNG;
        hung_error(m, &err);
    } else {
        *m->queue_end = item;
        m->queue_end = &item->next;
        pthread_cond_signal(&m->work_cond);
    }
    pthread_mutex_unlock(&m->lock);
    if (rc)
        item_finish(item, rc, &err);
}

/* A waiter that outlives whichever of the two sides ends first. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct cache_mount_work inner;
    bool over;
    int rc, refs;
    struct nf_error err;
};

static void waiter_unref(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    bool last = --w->refs == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->cond);
    free(w);
}

static int waiter_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct waiter *w = ctx;
    return w->inner.run(w->inner.ctx, item, err);
}

static void waiter_done(void *ctx, int rc, const struct nf_error *err)
{
    struct waiter *w = ctx;
    if (w->inner.done)
        w->inner.done(w->inner.ctx, rc, err);
    pthread_mutex_lock(&w->lock);
    w->over = true;
    w->rc = rc;
    if (err)
        w->err = *err;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static void waiter_free(void *ctx)
{
    struct waiter *w = ctx;
    if (w->inner.free)
        w->inner.free(w->inner.ctx);
    waiter_unref(w);
}

int cache_mount_run(struct cache_mount *m, const struct cache_mount_work *work, struct nf_error *err)
{
    struct waiter *w = nf_alloc(sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, NULL);
    w->inner = *work;
    w->refs = 2;
    cache_mount_submit(m, &(struct cache_mount_work){waiter_run, waiter_done, waiter_free, w, work->patience_ns});
    pthread_mutex_lock(&w->lock);
    while (!w->over)
        pthread_cond_wait(&w->cond, &w->lock);
    int rc = w->rc;
    if (rc && err)
        *err = w->err;
    pthread_mutex_unlock(&w->lock);
    waiter_unref(w);
    return rc;
}

void cache_mount_tick(struct cache_mount_item *item)
{
    if (item)
        atomic_store(&item->last_ns, nf_now_ns());
}

bool cache_mount_given_up(const struct cache_mount_item *item)
{
    return item && atomic_load(&item->given_up);
}

bool cache_mount_troubled(const struct cache_mount *m)
{
    return atomic_load(&m->troubled);
}

void cache_mount_trouble_text(const struct cache_mount *m, char *out, size_t size)
{
    if (!size)
        return;
    out[0] = 0;
    if (atomic_load(&m->troubled))
        nf_format(out, size, "%s does not answer since %lld s", m->dir,
                  (long long)((nf_now_ns() - atomic_load(&m->trouble_since_ns)) / NF_SEC));
}
