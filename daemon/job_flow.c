/* job_flow.c: the steps of a job: receive, look up, lock, look up again, queue; and how jobs meet.
 *
 *     RECEIVE -> KEYQ -> KEY -> LOOKUP -> [EXPLAIN] -> LOCK -> RECHECK -> QUEUE -> COMPILE -> PUBLISH -> DONE
 *        ^                        |  hit: DONE          |  hit: DONE
 *        +---- alias only --------+  merge: MERGED
 *
 * Each step either goes on at once or leaves something behind that will: a worker's answer, a lookup's, a lock's grant, a timer. */
#include "daemon/job_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

#define LOOKUP_TRIES 3

/* ---------------------------------------------------------------------------------------------------------- receiving */

static bool upload_all_there(const struct waiter *w)
{
    const struct upload *u = &w->upload;
    if (!upload_started(u) || u->complete || u->failed)
        return false;
    if (u->half_closed)
        return true;
    const Neffd__V1__CompileStart *s = w->req->start;
    bool all = s->input_bytes > 0 && u->parts[0].got == s->input_bytes;
    for (size_t i = 1; i < u->count && all; i++)
        all = u->parts[i].got == s->side_files[i - 1]->size;
    return all;
}

/* Bytes that came before the compilers were known: their key is made now. False: the waiter is gone. */
static bool finish_early_upload(struct job *j, struct waiter *w)
{
    struct nf_error err = {0};
    if (upload_end(j->d, &w->upload, w->req, w->target, j->toolchain.id, w->peer.uid, &err) == NF_OK)
        return true;
    COUNT(&j->d->counters, failures_user, 1);
    job_detach(j, w);
    waiter_failed(w, &err, NULL, NULL);
    return false;
}

void job_step_receive(struct job *j)
{
    if (j->state != JOB_RECEIVE)
        job_state_set(j, JOB_RECEIVE);
    struct waiter *next;
    for (struct waiter *w = j->waiters; w; w = next) {
        next = w->next;
        if (upload_all_there(w) && !finish_early_upload(j, w))
            continue;
        if (w->upload.complete) {
            job_step_keyed_input(j, w);
            return;
        }
    }
    struct waiter *candidate = NULL;
    for (struct waiter *w = j->waiters; w; w = w->next) {
        if (w->upload.failed || w->upload.half_closed)
            continue;
        if (w->told_send_input)
            return;   /* on its way */
        if (!candidate || (upload_started(&w->upload) && !upload_started(&candidate->upload)))
            candidate = w;
    }
    if (candidate) {
        candidate->told_send_input = true;
        candidate->heard_ns = nf_now_ns();
        candidate->pending |= PENDING_SEND_INPUT;
        event_pump(candidate);
        return;
    }
    if (!j->waiter_count) {
        job_last_waiter_left(j);
        if (!j->finished)
            job_dissolve(j, JOB_CANCELLED);   /* detached, but nobody is left who has the bytes */
        return;
    }
    struct nf_error err = {0};
    nf_fail(&err, NF_EINVAL, "the graph is needed, and every caller has closed its side without sending it");
    job_end_failed(j, &err);
}

/* These waiters said that their bytes have a key which turned out to be another's: they start over. */
static void split_claims(struct job *j, const struct waiter *from, const struct nf_digest *front)
{
    struct job_table *t = j->d->jobs;
    for (size_t i = 0; i < j->front_count; i++)
        nf_map_del(t->by_front, nf_digest_str(&j->fronts[i]));
    j->front_count = 0;
    struct waiter *others = NULL, *next;
    for (struct waiter *w = j->waiters; w; w = next) {
        next = w->next;
        if (w == from || !w->has_claim || nf_digest_eq(&w->claimed, front))
            continue;
        job_detach(j, w);
        w->next = others;
        others = w;
    }
    if (others)
        nf_log(NF_LOG_WARNING, "job", "a front key was not that of the bytes: others start over", "id=%llu uid=%u", (unsigned long long)j->id, from->peer.uid);
    struct job *fresh = NULL;
    for (struct waiter *w = others; w; w = next) {
        next = w->next;
        w->next = NULL;
        if (!fresh) {
            fresh = job_new(j->d, w);
            fresh->toolchain = j->toolchain;
            nf_format(fresh->isa, sizeof fresh->isa, "%s", j->isa);
            job_front_add(fresh, &w->claimed);
        }
        job_attach(fresh, w);
    }
    if (fresh)
        job_step_receive(fresh);
}

void job_step_keyed_input(struct job *j, struct waiter *from)
{
    struct daemon *d = j->d;
    struct nf_digest front = from->upload.front_key;
    assert(!j->req);
    j->req = request_ref(from->req);
    j->input = from->upload;
    j->base_uid = from->peer.uid;
    from->upload = (struct upload){.complete = true};
    if (j->front_count && job_by_front(d->jobs, &front) != j)
        split_claims(j, from, &front);
    for (struct waiter *w = j->waiters; w; w = w->next) {   /* dropped from here on */
        w->pending &= ~(unsigned)PENDING_SEND_INPUT;
        if (upload_started(&w->upload)) {
            upload_done(w->d, &w->upload);
            w->upload.failed = true;
        }
    }
    struct job *other = job_by_front(d->jobs, &front);
    if (other && other != j && job_try_merge(j, other))
        return;
    job_front_add(j, &front);
    j->front_verified = true;
    struct cache_hit *hit;
    if (!j->has_canonical && !d->verify_always && !job_all(j, waiter_is_fresh) && cache_reader_lookup_front(d->reader, &front, &hit, NULL) == NF_OK) {
        job_answer_hit(j, hit, CACHE_TIER_LOCAL, true);
        if (j->finished)
            return;
    }
    job_state_set(j, JOB_KEYQ);
    sched_kick(d);
}

/* ------------------------------------------------------------------------------------------------------------- merging */

/* Hands j's waiters to `into`. False: it was the other way round, or not possible; j goes on. */
bool job_try_merge(struct job *j, struct job *into)
{
    struct daemon *d = j->d;
    assert(j != into && !into->finished);
    if (j->has_canonical || into->has_canonical)
        COUNT(&d->counters, merged, 1);
    bool reverse = !into->req && j->req;   /* it came by an alias and has no bytes: ours serve both */
    struct job *from = reverse ? into : j, *to = reverse ? j : into;
    nf_log(NF_LOG_INFO, "job", "merged", "id=%llu into=%llu waiters=%zu", (unsigned long long)from->id, (unsigned long long)to->id, from->waiter_count);
    struct nf_digest *fronts = from->fronts;
    size_t front_count = from->front_verified ? from->front_count : 0;
    from->fronts = NULL;
    for (size_t i = 0; i < from->front_count; i++)
        nf_map_del(d->jobs->by_front, nf_digest_str(&fronts[i]));
    from->front_count = 0;
    for (size_t i = 0; i < front_count; i++)
        job_front_add(to, &fronts[i]);
    free(fronts);
    to->detached |= from->detached;
    while (from->waiters) {
        struct waiter *w = from->waiters;
        job_detach(from, w);
        w->joined = true;
        job_attach(to, w);
        w->pending |= PENDING_JOINED | (to->state == JOB_QUEUE || to->state == JOB_LOCK ? PENDING_QUEUED : 0) | (to->stage ? PENDING_STAGE : 0);
        w->pending &= ~(unsigned)PENDING_SEND_INPUT;
        event_pump(w);
    }
    job_dissolve(from, JOB_MERGED);
    if (!reverse) {
        job_late_lookups(to);
        if (!to->finished)
            sched_kick(d);
    }
    return !reverse;
}

/* Those who only ask are told that it is a miss; whether somebody wants it explained. */
static bool answer_lookups(struct job *j)
{
    struct waiter *next;
    bool explain = false;
    for (struct waiter *w = j->waiters; w; w = next) {
        next = w->next;
        if (waiter_is_explain(w)) {
            explain = true;
        } else if (waiter_is_lookup(w)) {
            job_detach(j, w);
            job_answer_miss(w, j, NULL);
        }
    }
    return explain;
}

/* Who only wants to know, and came when the answer was clear already: a job that is being compiled is a miss. */
void job_late_lookups(struct job *j)
{
    switch (j->state) {
    case JOB_LOCK: case JOB_RECHECK: case JOB_QUEUE: case JOB_COMPILE: case JOB_BACKOFF: case JOB_PUBLISH:
        break;
    case JOB_RECEIVE: case JOB_KEYQ: case JOB_KEY: case JOB_LOOKUP: case JOB_EXPLAIN: case JOB_DONE: case JOB_FAILED:
    case JOB_CANCELLED: case JOB_MERGED: case JOB_STATE_MAX:
        return;
    }
    bool explain = answer_lookups(j);
    if (explain && !j->explaining)
        job_run_explain(j);
}

/* ----------------------------------------------------------------------------------------------------------- looking up */

struct lookup {
    struct post_item item;
    struct job *job;
    unsigned number;
    int rc;
    struct cache_found found;
    struct nf_error err;
};

static void on_lookup(struct post_item *item);

static void lookup_done(void *user, int rc, struct cache_found *found, const struct nf_error *err)
{
    struct lookup *l = user;
    l->rc = rc;
    if (rc == NF_OK)
        l->found = *found;
    if (err)
        l->err = *err;
    post_push(l->job->d->post, &l->item);
}

static void start_lookup(struct job *j, unsigned flags)
{
    struct lookup *l = nf_alloc(sizeof *l);
    l->item.run = on_lookup;
    l->job = job_ref(j);
    l->number = ++j->async_number;
    if (job_all(j, waiter_no_failures))
        flags |= CACHE_LOOKUP_NO_FAILURES;
    cache_store_lookup_async(j->d->store, &j->canonical, j->cache_namespace, flags, lookup_done, l);
}

static void after_lookup(struct job *j)
{
    if (j->finished)
        return;
    if (j->state == JOB_LOOKUP)
        job_step_after_miss(j);
    else
        job_enqueue(j);
}

static void on_lookup(struct post_item *item)
{
    struct lookup *l = (struct lookup *)((char *)item - offsetof(struct lookup, item));
    struct job *j = l->job;
    if (j->finished || l->number != j->async_number || (j->state != JOB_LOOKUP && j->state != JOB_RECHECK)) {
        if (l->rc == NF_OK)
            cache_found_done(&l->found);
    } else if (l->rc == NF_OK && !l->found.is_failure) {
        struct cache_hit *hit = l->found.hit;
        enum cache_tier tier = l->found.tier;
        l->found.hit = NULL;
        cache_found_done(&l->found);
        job_answer_hit(j, hit, tier, j->hit_alias_only);
        after_lookup(j);
    } else if (l->rc == NF_OK) {
        job_answer_failure(j, &l->found.failure);
        cache_found_done(&l->found);
        after_lookup(j);
    } else {
        if (l->rc != NF_ENOTFOUND)
            nf_log(NF_LOG_WARNING, "job", "lookup failed", "id=%llu code=%s why=%s", (unsigned long long)j->id, nf_status_name(l->rc),
                   nf_log_quote(l->err.message));
        /* No answer is not a miss: a lack of descriptors passes, and a compile would cost more than the wait. A hung mount is said at once. */
        if (l->rc != NF_ENOTFOUND && l->rc != NF_EMOUNTHUNG && j->lookup_errors < LOOKUP_TRIES)
            job_timer_start(j, (50 * NF_MS) << j->lookup_errors++);
        else
            after_lookup(j);
    }
    job_unref(j);
    free(l);
}

void job_lookup_again(struct job *j) { start_lookup(j, j->state == JOB_RECHECK ? CACHE_LOOKUP_CLAIMED : 0); }

void job_step_lookup(struct job *j)
{
    job_state_set(j, JOB_LOOKUP);
    if (job_all(j, waiter_is_fresh) && j->waiter_count) {
        job_step_after_miss(j);
        return;
    }
    start_lookup(j, 0);
}

void job_step_after_miss(struct job *j)
{
    struct daemon *d = j->d;
    if (!j->req) {   /* came by an alias; now the bytes are needed after all */
        j->hit_alias_only = false;
        job_step_receive(j);
        return;
    }
    bool explain = answer_lookups(j);
    if (job_wants_compile(j) && (j->waiter_count || j->detached))
        COUNT(&d->counters, misses, 1);
    if (explain) {
        job_state_set(j, JOB_EXPLAIN);
        job_run_explain(j);
        return;
    }
    job_step_compile(j);
}

/* Nobody is left who only asks. */
void job_step_compile(struct job *j)
{
    if (!j->waiter_count && !j->detached) {
        job_dissolve(j, JOB_DONE);
        return;
    }
    if (!job_any(j, waiter_is_fresh))
        job_run_explain(j);   /* says in one line what was nearest; nobody waits for it */
    if (j->waiter_count && job_all(j, waiter_no_publish)) {
        job_enqueue(j);       /* nothing will be stored, so there is nothing to claim */
        return;
    }
    job_step_lock(j);
}

void job_enqueue(struct job *j)
{
    job_state_set(j, JOB_QUEUE);
    j->estimate = estimates_of(j->d->estimates, j->target, j->ops);
    sched_kick(j->d);
}

/* ----------------------------------------------------------------------------------------------------------------- lock */

struct lock_wait {
    struct post_item item;
    struct job *job;
    uint64_t request;
    bool dropped;              /* loop thread: the answer is nobody's */
    int status;
    struct lock_grant *grant;
    struct nf_error err;
};

static void on_lock(struct post_item *item);

static void lock_answer(void *user, int status, struct lock_grant *grant, const struct nf_error *err)
{
    struct lock_wait *lw = user;
    lw->status = status;
    lw->grant = grant;
    if (err)
        lw->err = *err;
    post_push(lw->job->d->post, &lw->item);
}

static int64_t lock_deadline(const struct job *j)
{
    int64_t longest = j->waiters ? 0 : j->d->cfg->lock_timeout_ns;
    for (const struct waiter *w = j->waiters; w; w = w->next) {
        uint64_t ms = w->req->start->lock_timeout_ms;
        int64_t ns = ms == 0 ? j->d->cfg->lock_timeout_ns : ms > (uint64_t)INT64_MAX / 4 / NF_MS ? INT64_MAX / 4 : (int64_t)ms * NF_MS;
        longest = NF_MAX(longest, ns);
    }
    return j->state_since_ns + longest;
}

static void ask_lock(struct job *j)
{
    struct lock_wait *lw = nf_alloc(sizeof *lw);
    lw->item.run = on_lock;
    lw->job = job_ref(j);
    j->lock_wait = lw;
    char key[NF_DIGEST_HEX], what[128];
    nf_format(what, sizeof what, "neffd %s, %.60s", NEFFD_VERSION, j->name[0] ? j->name : "unnamed graph");
    j->lock_deadline_ns = lock_deadline(j);
    lw->request = lock_manager_request(j->d->lock_manager, nf_str_c(nf_digest_hex(&j->canonical, key)), what, j->lock_deadline_ns, lock_answer, lw);
}

void job_step_lock(struct job *j)
{
    job_state_set(j, JOB_LOCK);
    if (!j->d->lock_manager) {   /* logged at start: the local directory cannot hold locks */
        job_enqueue(j);
        return;
    }
    ask_lock(j);
}

/* A waiter with more patience has come: the limit is the largest of all. */
void job_lock_extend(struct job *j)
{
    if (!j->lock_wait || lock_deadline(j) <= j->lock_deadline_ns)
        return;
    job_lock_drop(j);
    ask_lock(j);
}

void job_lock_drop(struct job *j)
{
    struct lock_wait *lw = j->lock_wait;
    if (lw) {
        j->lock_wait = NULL;
        lw->dropped = true;
        if (lock_manager_cancel(j->d->lock_manager, lw->request)) {
            job_unref(lw->job);
            free(lw);
        }   /* else its answer is on its way to the loop, which lets it go */
    }
    lock_grant_release(j->grant);
    j->grant = NULL;
}

static void on_lock(struct post_item *item)
{
    struct lock_wait *lw = (struct lock_wait *)((char *)item - offsetof(struct lock_wait, item));
    struct job *j = lw->job;
    if (lw->dropped || j->finished) {
        lock_grant_release(lw->grant);
    } else {
        j->lock_wait = NULL;
        if (lw->status == NF_ELOCKTIMEOUT) {
            job_end_failed(j, &lw->err);
        } else if (lw->status != NF_OK) {
            /* Locks save work, they do not make it right: without one the compile goes on. */
            nf_log(NF_LOG_WARNING, "job", "no lock can be had; going on without", "id=%llu why=%s", (unsigned long long)j->id, nf_log_quote(lw->err.message));
            job_enqueue(j);
        } else {
            j->grant = lw->grant;
            job_state_set(j, JOB_RECHECK);
            if (job_all(j, waiter_is_fresh) && j->waiter_count)
                job_enqueue(j);
            else
                start_lookup(j, CACHE_LOOKUP_CLAIMED);
        }
    }
    job_unref(j);
    free(lw);
}
