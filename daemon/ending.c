/* ending.c: see ending.h. Told after FIRST, then after twice as long each time. */
#include "daemon/ending.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define FIRST_NS (4 * NF_SEC)
#define LONGEST_NS (300 * NF_SEC)

/* Guards all of it. A leaf: nothing is taken under it, but the log's line is written. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, over, expected;
    char what[512];
    int64_t began_ns;
} ending = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *tell(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "neffd-ending");
    int64_t pause = FIRST_NS;
    pthread_mutex_lock(&ending.lock);
    int64_t at = ending.began_ns + pause;
    while (!ending.over) {
        struct timespec until = {.tv_sec = at / NF_SEC, .tv_nsec = at % NF_SEC};
        pthread_cond_timedwait(&ending.changed, &ending.lock, &until);
        int64_t now = nf_now_ns();
        if (ending.over || now < at)
            continue;
        nf_log(ending.expected ? NF_LOG_INFO : NF_LOG_WARNING, "daemon", "still ending", "for_s=%lld waits_for=%s",
               (long long)((now - ending.began_ns) / NF_SEC), nf_log_quote(ending.what));
        pause = NF_MIN(2 * pause, LONGEST_NS);
        at = now + pause;
    }
    pthread_mutex_unlock(&ending.lock);
    return NULL;
}

void ending_begin(void)
{
    pthread_condattr_t attr;
    if (ending.runs)
        return;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&ending.changed, &attr);
    pthread_condattr_destroy(&attr);
    ending.began_ns = nf_now_ns();
    ending.runs = pthread_create(&ending.thread, NULL, tell, NULL) == 0;
}

void ending_waits_for(bool expected, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pthread_mutex_lock(&ending.lock);
    ending.expected = expected;
    vsnprintf(ending.what, sizeof ending.what, fmt, ap);
    pthread_mutex_unlock(&ending.lock);
    va_end(ap);
}

void ending_over(void)
{
    if (!ending.runs)
        return;
    pthread_mutex_lock(&ending.lock);
    ending.over = true;
    pthread_cond_signal(&ending.changed);
    pthread_mutex_unlock(&ending.lock);
    pthread_join(ending.thread, NULL);
    ending.runs = false;
}
