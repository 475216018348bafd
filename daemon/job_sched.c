/* job_sched.c: who runs next.
 *
 * Keys (reading, verifying, canonical form) have slots of their own, so that a graph which turns out to be a hit never waits behind
 * compiles that take an hour. Compiles are admitted by slots and by memory: what similar jobs were measured to need must fit
 * beside what runs. Interactive before warm-up; inside a class the one that is expected to take longest first, because it
 * decides when the last one is done; a job that has waited OVERTAKE_NS is not overtaken any more. */
#include "daemon/job_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

#define KEY_SLOTS 2
#define OVERTAKE_NS (60 * NF_SEC)

static uint64_t memory_need(const struct job *j)
{
    uint64_t need = j->estimate.known ? j->estimate.rss_bytes : 0;
    return NF_MAX(need, j->memory_hint);
}

/* Does a stand before b in the queue? */
static bool before(const struct job *a, const struct job *b, int64_t now)
{
    if (a->warmup != b->warmup)
        return !a->warmup;
    bool a_old = now - a->state_since_ns > OVERTAKE_NS, b_old = now - b->state_since_ns > OVERTAKE_NS;
    if (a_old != b_old)
        return a_old;
    if (!a_old && a->state == JOB_QUEUE && a->estimate.p50_ns != b->estimate.p50_ns)
        return a->estimate.p50_ns > b->estimate.p50_ns;
    return a->id < b->id;
}

static struct job *best(struct job_table *t, enum job_state state, const struct job *after)
{
    int64_t now = nf_now_ns();
    struct job *found = NULL;
    for (struct job *j = t->jobs; j; j = j->next)
        if (j->state == state && (!after || (j != after && before(after, j, now))) && (!found || before(j, found, now)))
            found = j;
    return found;
}

static bool fits(const struct job_table *t, const struct job *j)
{
    return t->compiles_running == 0 || t->memory_expected + memory_need(j) <= t->d->memory_limit_bytes;
}

static void start_keys(struct daemon *d)
{
    struct job_table *t = d->jobs;
    while (t->keys_running < KEY_SLOTS) {
        struct job *j = best(t, JOB_KEYQ, NULL);
        if (!j)
            return;
        struct nf_error err = {0};
        struct worker *w = worker_take(d->workers, &err);
        if (!w) {
            if (err.code && !worker_pool_count(d->workers)) {
                job_end_failed(j, &err);
                continue;
            }
            return;
        }
        j->worker = w;
        t->keys_running++;
        j->has_key_slot = true;
        job_run_key(j);
    }
}

static void start_compiles(struct daemon *d)
{
    struct job_table *t = d->jobs;
    int64_t now = nf_now_ns();
    struct job *j = NULL;
    while (t->compiles_running < d->slots && (j = best(t, JOB_QUEUE, j))) {
        if (!fits(t, j)) {
            if (now - j->state_since_ns > OVERTAKE_NS)
                return;   /* nobody passes it any more */
            continue;
        }
        if (j->worker && !worker_alive(j->worker)) {   /* it has died with our graph: another imports it again */
            worker_release(j->worker);
            j->worker = NULL;
        }
        if (!j->worker) {
            struct nf_error err = {0};
            j->worker = worker_take(d->workers, &err);
            if (!j->worker) {
                if (err.code && !worker_pool_count(d->workers)) {
                    job_end_failed(j, &err);
                    j = NULL;
                    continue;
                }
                return;
            }
        }
        t->compiles_running++;
        t->memory_expected += (j->slot_memory = memory_need(j));
        j->has_slot = true;
        job_run_compile(j);
        j = NULL;
    }
}

/* Workers kept by jobs that cannot start now are given back, or keys would starve. */
static void release_held(struct daemon *d)
{
    struct job_table *t = d->jobs;
    for (struct job *j = t->jobs; j; j = j->next) {
        if (!j->worker || worker_busy(j->worker))
            continue;
        if (j->state == JOB_QUEUE || j->state == JOB_LOCK || j->state == JOB_BACKOFF) {
            struct worker *w = j->worker;
            j->worker = NULL;
            worker_release(w);
        }
    }
}

static uint32_t position_of(struct job_table *t, const struct job *j, int64_t now)
{
    uint32_t n = 1;
    for (const struct job *k = t->jobs; k; k = k->next)
        if (k != j && k->state == j->state && before(k, j, now))
            n++;
    return n;
}

static void describe_lock(struct job *j, char *out, size_t size)
{
    struct lock_owner owner = {0};
    size_t waiting = 0;
    char key[NF_DIGEST_HEX];
    enum lock_wait_on on = lock_manager_state(j->d->lock_manager, nf_str_c(nf_digest_hex(&j->canonical, key)), &waiting, &owner);
    if (on == LOCK_WAIT_NOTHING)
        nf_format(out, size, "host lock");
    else if (owner.pid)
        nf_format(out, size, "%s, held by pid %d (%s)", lock_wait_on_name(on), (int)owner.pid, owner.what);
    else
        nf_format(out, size, "%s", lock_wait_on_name(on));
}

static void tell_queued(struct job *j, int64_t now)
{
    uint32_t position = 0;
    char text[sizeof j->queued.waiting_for] = "";
    if (j->state == JOB_QUEUE) {
        position = position_of(j->d->jobs, j, now);
        nf_format(text, sizeof text, "%s", j->d->jobs->compiles_running < j->d->slots && !fits(j->d->jobs, j) ? "memory" : "slot");
    } else if (j->state == JOB_KEYQ) {
        position = position_of(j->d->jobs, j, now);
        nf_format(text, sizeof text, "slot");
    } else if (j->state == JOB_LOCK && j->lock_wait) {
        if (now - j->state_since_ns < 20 * NF_MS)
            return;
        describe_lock(j, text, sizeof text);
    } else {
        return;
    }
    if (position == j->queued.position && strcmp(text, j->queued.waiting_for) == 0)
        return;
    j->queued.position = position;
    nf_format(j->queued.waiting_for, sizeof j->queued.waiting_for, "%s", text);
    event_all(j, PENDING_QUEUED);
}

void sched_kick(struct daemon *d)
{
    struct job_table *t = d->jobs;
    assert(post_on_loop_thread());
    if (t->scheduling)
        return;   /* releasing a worker calls back into here */
    t->scheduling = true;
    start_compiles(d);
    release_held(d);
    start_keys(d);
    start_compiles(d);
    int64_t now = nf_now_ns();
    if (t->live < 200)   /* more are told by the tick: positions are quadratic */
        for (struct job *j = t->jobs, *next; j; j = next) {
            next = j->next;
            tell_queued(j, now);
        }
    t->scheduling = false;
}

void sched_slot_free(struct job *j)
{
    struct job_table *t = j->d->jobs;
    if (j->has_key_slot)
        t->keys_running--;
    j->has_key_slot = false;
    if (!j->has_slot)
        return;
    j->has_slot = false;
    t->compiles_running--;
    t->memory_expected -= j->slot_memory;
}

void sched_tick(struct job_table *t)
{
    int64_t now = nf_now_ns();
    size_t told = 0;
    for (struct job *j = t->jobs, *next; j; j = next) {
        next = j->next;
        if (j->state == JOB_COMPILE)
            event_all(j, PENDING_PROGRESS);   /* a sign of life each second, with what is left */
        else if (told++ < 500)
            tell_queued(j, now);
    }
    sched_kick(t->d);
}
