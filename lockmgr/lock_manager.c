/* lock_manager.c: a line per key, and the watcher thread that moves what stands in front of it.
 *
 *     request: QUEUED -> HOST -> LEASE -> answered        (front of its line only, and only while the line has no holder)
 *
 * m->mutex guards everything below except what is marked "watcher": that is touched by the watcher thread alone. The order
 * of locks: m->mutex is the only one, and it is held across no callback and no call into a lease engine; it is held across
 * the flock attempts, which do not block. Only the watcher frees requests; other threads mark them and ring the bell. */
#include "lockmgr/lockmgr_internal.h"

#include "base/log.h"
#include "base/map.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

enum request_state { QUEUED, HOST, LEASE_ASKED, LEASE_ANSWERED };

struct request {
    struct request *next, *ask_next;
    struct lock_manager *m;
    struct line *line;
    uint64_t id;
    char *what;
    int64_t deadline;
    lock_grant_fn *fn;
    void *user;
    enum request_state state;
    bool cancelled;
    /* watcher */
    int fd, wd, step;
    int64_t next_try;
    struct lock_host *host;
    struct lease_wait *wait;
    int status;                       /* how it ends */
    struct lock_grant *grant;
    /* filled by the engine, under the mutex */
    struct lease *lease;
    int lease_status;
    struct nf_error err;
};

struct line {
    struct line *next, **link;
    char key[LOCK_KEY_MAX + 1];
    struct request *first, **last;
    struct lock_grant *holder;
};

struct lock_grant {
    struct lock_manager *m;
    struct line *line;
    struct lock_host *host;
    struct lease *lease;
};

struct lock_manager {
    pthread_mutex_t mutex;
    struct lock_dir *dir;
    struct lease_engine *lease, *own_lease;
    struct nf_map *lines;             /* key -> line */
    struct line *first;
    uint64_t last_id;
    bool stop;
    int bell, notify;
    pthread_t watcher;
};

static void ring(struct lock_manager *m)
{
    uint64_t one = 1;
    while (write(m->bell, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* ---------------------------------------------------------------------------------------------------- watcher: parts */

static void unwatch(struct request *q)
{
    if (q->wd >= 0)
        inotify_rm_watch(q->m->notify, q->wd);
    q->wd = -1;
}

static void free_request(struct request *q)
{
    unwatch(q);
    if (q->fd >= 0)
        close(q->fd);
    if (q->lease)
        q->m->lease->ops->release(q->lease);
    lock_host_release(q->host);
    free(q->what);
    free(q);
}

static void unlink_request(struct line *l, struct request **at)
{
    struct request *q = *at;
    *at = q->next;
    if (l->last == &q->next)
        l->last = at;
    q->next = NULL;
}

/* On an engine's thread, or inside ask_lease. */
static void lease_answered(void *user, int status, struct lease *lease, const struct nf_error *err)
{
    struct request *q = user;
    struct lock_manager *m = q->m;
    pthread_mutex_lock(&m->mutex);
    q->lease = lease;
    q->lease_status = status;
    if (err)
        q->err = *err;
    q->state = LEASE_ANSWERED;
    pthread_mutex_unlock(&m->mutex);
    ring(m);
}

/* One try for the front of a line. true: it has an answer (q->status). */
static bool try_host(struct lock_manager *m, struct request *q, int64_t now)
{
    int old_fd = q->fd;
    int r = lock__attempt(m->dir, q->line->key, &q->fd, &q->err);
    if (r == NF_EBUSY) {
        if (q->wd < 0 || q->fd != old_fd) {
            unwatch(q);
            q->wd = lock__watch(m->notify, q->fd);
            if (q->wd >= 0)           /* the release may have come before the watch */
                r = lock__attempt(m->dir, q->line->key, &q->fd, &q->err);
        }
        if (r == NF_EBUSY) {
            q->next_try = lock__next_try(now, &q->step, q->wd >= 0);
            return false;
        }
    }
    if (r != NF_OK) {
        q->status = r;
        return true;
    }
    unwatch(q);
    q->host = lock__won(m->dir, q->line->key, q->fd, q->what);
    q->fd = -1;
    q->state = LEASE_ASKED;
    return false;
}

static void give(struct request *q)
{
    struct lock_grant *g = nf_alloc(sizeof(*g));
    *g = (struct lock_grant){q->m, q->line, q->host, q->lease};
    q->host = NULL;
    q->lease = NULL;
    q->line->holder = g;
    q->grant = g;
    q->status = NF_OK;
}

/* What the watcher does outside the mutex, collected inside it. */
struct todo {
    struct request *answers, **last_answer;
    struct request *gone;             /* cancelled or expired: to be freed */
    struct request *ask;              /* for the lease; by ask_next */
    int64_t wake;
};

static void move_line(struct lock_manager *m, struct line *l, int64_t now, struct todo *t)
{
    /* Cancelled and expired ones, wherever they stand. One that has asked for a lease stays until the engine lets go of it. */
    for (struct request **at = &l->first; *at;) {
        struct request *q = *at;
        bool untried = q == l->first && !l->holder && q->state == QUEUED; /* one try it has: whoever will not wait at all takes what is free */
        bool expired = now >= q->deadline && q->state != LEASE_ANSWERED && !untried;
        if (q->state == LEASE_ASKED && (q->cancelled || expired) && q->wait && m->lease->ops->cancel(m->lease, q->wait)) {
            q->wait = NULL;
            q->state = HOST;
        }
        if (q->state != LEASE_ASKED && (q->cancelled || expired)) {
            unlink_request(l, at);
            if (q->cancelled) {
                q->next = t->gone;
                t->gone = q;
            } else {
                q->status = NF_ELOCKTIMEOUT;
                *t->last_answer = q;
                t->last_answer = &q->next;
            }
            continue;
        }
        if (q->deadline < t->wake && !(q->state == LEASE_ASKED && expired))   /* expired: the engine's answer rings */
            t->wake = q->deadline;
        at = &q->next;
    }
    struct request *q = l->first;
    if (!q || l->holder)
        return;
    bool answer = false;
    if (q->state == QUEUED) {
        q->state = HOST;
        q->next_try = now;
    }
    if (q->state == HOST && now >= q->next_try) {
        answer = try_host(m, q, now);
        if (q->state == LEASE_ASKED) {
            q->ask_next = t->ask;
            t->ask = q;
        }
    }
    if (q->state == LEASE_ANSWERED) {
        answer = true;
        q->status = q->lease_status;
        if (q->lease_status == NF_OK)
            give(q);
    }
    if (answer) {
        unlink_request(l, &l->first);
        *t->last_answer = q;
        t->last_answer = &q->next;
        t->wake = now;                /* the next in line has its turn */
    } else if (q->state == HOST && q->next_try < t->wake) {
        t->wake = q->next_try;
    }
}

static void drop_empty_lines(struct lock_manager *m)
{
    for (struct line *l = m->first, *next; l; l = next) {
        next = l->next;
        if (l->first || l->holder)
            continue;
        nf_map_del(m->lines, nf_str_c(l->key));
        *l->link = l->next;
        if (l->next)
            l->next->link = l->link;
        free(l);
    }
}

static void read_events(struct lock_manager *m)
{
    _Alignas(struct inotify_event) char buf[4096];
    ssize_t n;
    while ((n = read(m->notify, buf, sizeof(buf))) > 0) {
        for (char *p = buf; p < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)p;
            p += sizeof(*e) + e->len;
            pthread_mutex_lock(&m->mutex);
            for (struct line *l = m->first; l; l = l->next) {
                struct request *q = l->first;
                if (!q || q->state != HOST || (q->wd != e->wd && !(e->mask & IN_Q_OVERFLOW)))
                    continue;
                if (e->mask & IN_IGNORED)
                    q->wd = -1;       /* the file is gone; the next try opens the new one */
                q->step = 0;
                q->next_try = 0;
            }
            pthread_mutex_unlock(&m->mutex);
        }
    }
}

static void *watch(void *arg)
{
    struct lock_manager *m = arg;
    for (;;) {
        struct todo t = {.wake = LOCK_FOREVER};
        t.last_answer = &t.answers;
        int64_t now = nf_now_ns();
        pthread_mutex_lock(&m->mutex);
        bool stop = m->stop;
        drop_empty_lines(m);
        for (struct line *l = m->first; l && !stop; l = l->next)
            move_line(m, l, now, &t);
        pthread_mutex_unlock(&m->mutex);
        if (stop)
            return NULL;

        for (struct request *q = t.ask; q; q = q->ask_next) {
            struct lease_wait *wait = NULL;
            m->lease->ops->acquire(m->lease, nf_str_c(q->line->key), q->host, q->what, q->deadline, lease_answered, q, &wait);
            q->wait = wait;
        }
        while (t.gone) {
            struct request *q = t.gone;
            t.gone = q->next;
            free_request(q);
        }
        for (struct request *q = t.answers, *next; q; q = next) {
            next = q->next;
            if (q->status == NF_ELOCKTIMEOUT && q->err.code == 0)
                lock__not_won(m->dir, q->line->key, NF_ELOCKTIMEOUT, "waited too long", &q->err);
            q->fn(q->user, q->status, q->grant, q->status == NF_OK ? NULL : &q->err);
            free_request(q);
        }
        if (t.answers || t.ask || t.wake <= now)
            continue;
        struct pollfd p[2] = {{m->bell, POLLIN, 0}, {m->notify, POLLIN, 0}};
        int64_t left = t.wake == LOCK_FOREVER ? 0 : NF_MAX(t.wake - nf_now_ns(), (int64_t)0);
        struct timespec wait = {left / NF_SEC, left % NF_SEC};
        if (ppoll(p, m->notify >= 0 ? 2 : 1, t.wake == LOCK_FOREVER ? NULL : &wait, NULL) <= 0)
            continue;
        if (p[0].revents) {
            uint64_t n;
            if (read(m->bell, &n, sizeof(n)) < 0 && errno != EAGAIN && errno != EINTR)
                return NULL;
        }
        if (m->notify >= 0 && p[1].revents)
            read_events(m);
    }
}

/* --------------------------------------------------------------------------------------------------------- interface */

int lock_manager_new(struct lock_dir *dir, struct lease_engine *lease, struct lock_manager **ret_manager, struct nf_error *err)
{
    struct lock_manager *m = nf_alloc(sizeof(*m));
    int r = NF_OK;
    m->dir = dir;
    m->bell = m->notify = -1;
    m->lines = nf_map_new(true);
    pthread_mutex_init(&m->mutex, NULL);
    if (!lease)
        r = lease_engine_open("host", NULL, &m->own_lease, err);
    m->lease = lease ? lease : m->own_lease;
    if (r == NF_OK && (m->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        r = nf_fail_errno(err, errno, "cannot start the lock manager");
    if (r == NF_OK) {
        m->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (m->notify < 0)
            nf_log(NF_LOG_INFO, "lock", "no inotify instance left: waiting by tries", "every_ms=%d", (int)(LOCK_POLL_NS / NF_MS));
        /* Signals are for the program's own threads. */
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int e = pthread_create(&m->watcher, NULL, watch, m);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (e != 0)
            r = nf_fail_errno(err, e, "cannot start the lock manager's thread");
    }
    if (r != NF_OK) {
        if (m->bell >= 0)
            close(m->bell);
        if (m->notify >= 0)
            close(m->notify);
        lease_engine_close(m->own_lease);
        pthread_mutex_destroy(&m->mutex);
        nf_map_free(m->lines);
        free(m);
        return r;
    }
    *ret_manager = m;
    return NF_OK;
}

void lock_manager_stop(struct lock_manager *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->mutex);
    bool again = m->stop;
    m->stop = true;
    pthread_mutex_unlock(&m->mutex);
    if (again)
        return;
    ring(m);
    pthread_join(m->watcher, NULL);
}

void lock_manager_free(struct lock_manager *m)
{
    if (!m)
        return;
    lock_manager_stop(m);
    for (struct line *l = m->first, *next; l; l = next) {
        next = l->next;
        for (struct request *q = l->first, *after; q; q = after) {
            after = q->next;
            if (q->state == LEASE_ASKED && q->wait)
                m->lease->ops->cancel(m->lease, q->wait);
            free_request(q);
        }
        free(l);
    }
    lease_engine_close(m->own_lease);
    nf_map_free(m->lines);
    close(m->bell);
    if (m->notify >= 0)
        close(m->notify);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

/* A line whose key is no file name: its one request is answered with the error by the first attempt. */
static struct line *line_of(struct lock_manager *m, struct nf_str key)
{
    struct line *l = nf_map_get(m->lines, key);
    if (l)
        return l;
    l = nf_alloc(sizeof(*l));
    nf_format(l->key, sizeof(l->key), "%.*s", (int)NF_MIN(key.len, (size_t)LOCK_KEY_MAX), key.data);
    l->last = &l->first;
    l->link = &m->first;
    l->next = m->first;
    if (l->next)
        l->next->link = &l->next;
    m->first = l;
    nf_map_put(m->lines, key, l);
    return l;
}

uint64_t lock_manager_request(struct lock_manager *m, struct nf_str key, const char *what, int64_t deadline_ns,
                              lock_grant_fn *fn, void *user)
{
    struct request *q = nf_alloc(sizeof(*q));
    char name[LOCK_KEY_MAX + 1];
    *q = (struct request){.m = m, .what = nf_strdup(what ? what : ""), .deadline = deadline_ns, .fn = fn, .user = user, .fd = -1, .wd = -1};
    bool bad = lock__key(key, name, &q->err) != NF_OK;
    pthread_mutex_lock(&m->mutex);
    uint64_t id = q->id = ++m->last_id;
    q->line = line_of(m, bad ? NF_STR(".invalid") : key);
    if (bad) {                            /* answered as if an engine had refused it */
        q->state = LEASE_ANSWERED;
        q->lease_status = q->err.code;
    }
    *q->line->last = q;
    q->line->last = &q->next;
    pthread_mutex_unlock(&m->mutex);
    ring(m);
    return id;
}

bool lock_manager_cancel(struct lock_manager *m, uint64_t request)
{
    bool found = false;
    pthread_mutex_lock(&m->mutex);
    for (struct line *l = m->first; l && !found; l = l->next) {
        for (struct request *q = l->first; q && !found; q = q->next) {
            if (q->id == request && !q->cancelled)
                found = q->cancelled = true;
        }
    }
    pthread_mutex_unlock(&m->mutex);
    if (found)
        ring(m);
    return found;
}

struct waiting {
    pthread_mutex_t mutex;            /* guards the rest; taken with no other lock held */
    pthread_cond_t cond;
    bool answered;
    int status;
    struct lock_grant *grant;
    struct nf_error err;
};

static void wake_waiting(void *user, int status, struct lock_grant *grant, const struct nf_error *err)
{
    struct waiting *w = user;
    pthread_mutex_lock(&w->mutex);
    w->answered = true;
    w->status = status;
    w->grant = grant;
    if (err)
        w->err = *err;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

int lock_manager_acquire(struct lock_manager *m, struct nf_str key, const char *what, int64_t timeout_ns,
                         bool (*stop)(void *user), void *user, struct lock_grant **ret_grant, struct nf_error *err)
{
    struct waiting w = {.answered = false};
    int64_t now = nf_now_ns();
    pthread_mutex_init(&w.mutex, NULL);
    pthread_cond_init(&w.cond, NULL);
    uint64_t id = lock_manager_request(m, key, what, timeout_ns >= LOCK_FOREVER - now ? LOCK_FOREVER : now + timeout_ns, wake_waiting, &w);
    bool cancelled = false;
    pthread_mutex_lock(&w.mutex);
    while (!w.answered && !cancelled) {
        if (!stop) {
            pthread_cond_wait(&w.cond, &w.mutex);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100 * NF_MS;
        until.tv_sec += until.tv_nsec / NF_SEC;
        until.tv_nsec %= NF_SEC;
        pthread_cond_timedwait(&w.cond, &w.mutex, &until);
        if (!w.answered) {
            pthread_mutex_unlock(&w.mutex);
            if (stop(user)) {
                cancelled = lock_manager_cancel(m, id);
                stop = NULL;          /* too late: the answer comes */
            }
            pthread_mutex_lock(&w.mutex);
        }
    }
    pthread_mutex_unlock(&w.mutex);
    pthread_cond_destroy(&w.cond);
    pthread_mutex_destroy(&w.mutex);
    if (cancelled)
        return nf_fail(err, NF_ECANCELLED, "the wait for lock %.*s was cancelled", (int)NF_MIN(key.len, (size_t)LOCK_KEY_MAX), key.data);
    if (w.status != NF_OK) {
        if (err)
            *err = w.err;
        return w.status;
    }
    *ret_grant = w.grant;
    return NF_OK;
}

void lock_grant_release(struct lock_grant *grant)
{
    if (!grant)
        return;
    struct lock_manager *m = grant->m;
    m->lease->ops->release(grant->lease);
    lock_host_release(grant->host);
    pthread_mutex_lock(&m->mutex);
    grant->line->holder = NULL;
    pthread_mutex_unlock(&m->mutex);
    ring(m);
    free(grant);
}

uint64_t lock_grant_epoch(const struct lock_grant *grant)
{
    return grant->m->lease->ops->epoch(grant->lease);
}

const char *lock_wait_on_name(enum lock_wait_on w)
{
    switch (w) {
    case LOCK_WAIT_QUEUE: return "queue";
    case LOCK_WAIT_HOST: return "host lock";
    case LOCK_WAIT_LEASE: return "lease";
    case LOCK_WAIT_NOTHING:
    case LOCK_WAIT_MAX: break;
    }
    return "";
}

enum lock_wait_on lock_manager_state(struct lock_manager *m, struct nf_str key, size_t *ret_waiting, struct lock_owner *ret_owner)
{
    enum lock_wait_on on = LOCK_WAIT_NOTHING;
    size_t waiting = 0;
    struct lock_owner owner = {0};
    pthread_mutex_lock(&m->mutex);
    const struct line *l = nf_map_get(m->lines, key);
    const struct request *front = NULL;
    for (const struct request *q = l ? l->first : NULL; q; q = q->next) {
        if (q->cancelled)                 /* gone for its caller, though the watcher has yet to free it */
            continue;
        front = front ? front : q;
        waiting++;
    }
    if (front && l->holder)
        on = LOCK_WAIT_QUEUE;
    else if (front)
        on = front->state == LEASE_ASKED ? LOCK_WAIT_LEASE : LOCK_WAIT_HOST;
    pthread_mutex_unlock(&m->mutex);
    if (on == LOCK_WAIT_HOST)
        lock_host_owner(m->dir, key, &owner);
    else if (on == LOCK_WAIT_LEASE)
        m->lease->ops->owner(m->lease, key, &owner);
    if (ret_waiting)
        *ret_waiting = waiting;
    if (ret_owner)
        *ret_owner = owner;
    return on;
}
