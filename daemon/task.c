/* task.c: see task.h. */
#include "daemon/task.h"

#include "base/clock.h"
#include "base/str.h"
#include "daemon/daemon.h"

#include <pthread.h>
#include <time.h>

#define THREADS_MAX 16
#define IDLE_S 10

/* Guards all of it. A leaf: nothing is called under it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, ended;
    struct task *first, *last;
    unsigned threads, idle;
    bool closing;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

void task_unref(struct task *t)
{
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        t->free(t);
}

static void on_posted(struct post_item *item)
{
    struct task *t = (struct task *)((char *)item - offsetof(struct task, item));
    t->end(t, t->rc, &t->err);
    task_unref(t);
}

static struct task *take(void)
{
    struct task *t = pool.first;
    pool.first = t->next;
    if (!pool.first)
        pool.last = NULL;
    return t;
}

static void *thread_main(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "neffd-task");
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        int rc = 0;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += IDLE_S;
        pool.idle++;
        while (!pool.first && !pool.closing && rc == 0)
            rc = pthread_cond_timedwait(&pool.work, &pool.lock, &until);
        pool.idle--;
        if (!pool.first)
            break;
        struct task *t = take();
        bool cancelled = pool.closing;
        pthread_mutex_unlock(&pool.lock);
        t->rc = cancelled ? nf_fail(&t->err, NF_ECANCELLED, "the daemon is ending") : t->run(t, &t->err);
        post_push(t->d->post, &t->item);
        pthread_mutex_lock(&pool.lock);
    }
    pool.threads--;
    pthread_cond_signal(&pool.ended);
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

void task_start(struct daemon *d, struct task *t)
{
    t->item.run = on_posted;
    t->d = d;
    t->next = NULL;
    atomic_init(&t->refs, 1);
    pthread_mutex_lock(&pool.lock);
    if (pool.last)
        pool.last->next = t;
    else
        pool.first = t;
    pool.last = t;
    bool more = pool.idle == 0 && pool.threads < THREADS_MAX;
    pool.threads += more;
    pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    pthread_t thread;
    if (more && pthread_create(&thread, NULL, thread_main, NULL) == 0) {
        pthread_detach(thread);
    } else if (more) {
        /* No thread can be had: with others at work they take it; else it is done here, which is slow but not wrong. */
        pthread_mutex_lock(&pool.lock);
        pool.threads--;
        struct task *mine = pool.threads == 0 && pool.first ? take() : NULL;
        pthread_mutex_unlock(&pool.lock);
        if (mine) {
            mine->rc = mine->run(mine, &mine->err);
            post_push(d->post, &mine->item);
        }
    }
}

void task_close(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.closing = true;
    pthread_cond_broadcast(&pool.work);
    while (pool.threads)
        pthread_cond_wait(&pool.ended, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}
