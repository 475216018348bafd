/* job.c: the table of jobs, the one setter of their state, attaching and detaching waiters, and what happens when the last one
 * leaves. The steps between states are in job_flow.c. */
#include "daemon/job.h"

#include "daemon/job_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

#define TICK_MS 1000
#define LINGER_NS (5 * NF_SEC)
#define LINGER_MAX 8

/* ------------------------------------------------------------------------------------------------------------- states */

#define B(sym) (1u << JOB_##sym)
static const struct {
    const char *name;
    uint32_t next;
} states[JOB_STATE_MAX] = {
#define JOB_STATE(sym, name, next) [JOB_##sym] = {name, next},
#include "daemon/job_states.def"
#undef JOB_STATE
};
#undef B

const char *job_state_name(enum job_state s) { return s >= 0 && s < JOB_STATE_MAX ? states[s].name : "?"; }
bool job_state_terminal(enum job_state s) { return states[s].next == 0; }

void job_state_set(struct job *j, enum job_state s)
{
    assert(post_on_loop_thread());
    assert(states[j->state].next & (1u << s));
    int64_t now = nf_now_ns();
    nf_log(NF_LOG_DEBUG, "job", "state", "id=%llu from=%s to=%s after_us=%lld waiters=%zu", (unsigned long long)j->id, states[j->state].name,
           states[s].name, (long long)((now - j->state_since_ns) / 1000), j->waiter_count);
    if (j->state == JOB_QUEUE || j->state == JOB_KEYQ)
        j->queue_ns += now - j->state_since_ns;
    if (j->state == JOB_LOCK)
        j->lock_ns += now - j->state_since_ns;
    j->state = s;
    j->state_since_ns = now;
    svc_jobs_changed(j->d);
}

/* ------------------------------------------------------------------------------------------------------------ requests */

struct request *request_ref(struct request *r)
{
    r->refs++;
    return r;
}

void request_unref(struct request *r)
{
    if (!r || --r->refs)
        return;
    neffd__v1__compile_start__free_unpacked(r->start, NULL);
    free(r->options);
    free(r->side_files);
    free(r);
}

static struct request *request_new(Neffd__V1__CompileStart *start)
{
    struct request *r = nf_alloc(sizeof *r);
    r->refs = 1;
    r->start = start;
    r->options = nf_alloc_array(start->n_options + 1, sizeof *r->options);
    for (size_t i = 0; i < start->n_options; i++)
        r->options[i] = (struct cache_option){nf_str_c(start->options[i]->name), nf_str_c(start->options[i]->value)};
    r->side_files = nf_alloc_array(start->n_side_files + 1, sizeof *r->side_files);
    for (size_t i = 0; i < start->n_side_files; i++) {
        r->side_files[i] = (struct cache_side_file){.name = nf_str_c(start->side_files[i]->name), .size = start->side_files[i]->size};
        if (start->side_files[i]->sha256.len == NF_DIGEST_BYTES)
            memcpy(r->side_files[i].sha256.bytes, start->side_files[i]->sha256.data, NF_DIGEST_BYTES);
    }
    return r;
}

/* ---------------------------------------------------------------------------------------------------------------- jobs */

struct job *job_ref(struct job *j)
{
    j->refs++;
    return j;
}

static void on_timer_closed(uv_handle_t *h)
{
    struct job *j = h->data;
    j->timer_open = false;
    job_unref(j);
}

void job_unref(struct job *j)
{
    if (--j->refs)
        return;
    assert(!j->waiters && job_state_terminal(j->state));
    if (j->timer_open) {
        j->refs = 1;
        uv_close((uv_handle_t *)&j->timer, on_timer_closed);
        return;
    }
    request_unref(j->req);
    upload_done(j->d, &j->input);
    free(j->fronts);
    for (size_t i = 0; i < JOB_LOG_LINES; i++) {
        free(j->log[i].source);
        free(j->log[i].line);
    }
    for (size_t i = 0; i < j->output_count; i++)
        free(j->outputs[i].path);
    free(j->outputs);
    cache_hit_close(j->hit);
    if (j->work_dir && j->state == JOB_FAILED && j->d->cfg->keep_work)
        scratch_set_aside(j->d->scratch, j->work_dir);
    else if (j->work_dir)
        scratch_remove(j->d->scratch, j->work_dir);
    if (j->leader)
        neffd__v1__client_info__free_unpacked(j->leader, NULL);
    free(j);
}

static Neffd__V1__ClientInfo *client_copy(const Neffd__V1__ClientInfo *c, const struct srv_peer *peer)
{
    struct nf_buf b = NF_BUF_INIT;
    ProtobufCMessage *copy = NULL;
    Neffd__V1__ClientInfo none = NEFFD__V1__CLIENT_INFO__INIT;
    if (rpc_encode(c ? &c->base : &none.base, &b) < 0 || rpc_decode(&neffd__v1__client_info__descriptor, nf_buf_str(&b), &copy, NULL) < 0)
        copy = NULL;
    nf_buf_done(&b);
    if (copy && peer->unix_socket)
        ((Neffd__V1__ClientInfo *)copy)->pid = peer->pid;
    return (Neffd__V1__ClientInfo *)copy;
}

struct job *job_new(struct daemon *d, const struct waiter *first)
{
    struct job_table *t = d->jobs;
    const Neffd__V1__CompileStart *start = first->req->start;
    struct job *j = nf_alloc(sizeof *j);
    j->refs = 1;
    j->d = d;
    j->id = ++t->next_id;
    j->state = JOB_RECEIVE;
    j->created_ns = j->state_since_ns = nf_now_ns();
    j->fraction = -1;
    j->stop_after = start->stop_after >= NEFFD__V1__STAGE__STAGE_COMPILE ? 0 : start->stop_after;
    j->warmup = true;   /* until an interactive waiter attaches */
    nf_format(j->target, sizeof j->target, "%s", first->target);
    nf_format(j->name, sizeof j->name, "%.120s", start->name ? start->name : "");
    nf_format(j->cache_namespace, sizeof j->cache_namespace, "%s", start->cache_namespace ? start->cache_namespace : "");
    j->leader = client_copy(start->client, &first->peer);
    j->leader_peer = first->peer;
    j->prev = t->last;
    if (t->last)
        t->last->next = j;
    else
        t->jobs = j;
    t->last = j;
    t->live++;
    nf_log(NF_LOG_DEBUG, "job", "new", "id=%llu name=%s target=%s pid=%u", (unsigned long long)j->id, nf_log_quote(j->name), j->target,
           first->peer.pid);
    return j;
}

struct job *job_by_front(struct job_table *t, const struct nf_digest *front) { return nf_map_get(t->by_front, nf_digest_str(front)); }

void job_front_add(struct job *j, const struct nf_digest *front)
{
    struct job_table *t = j->d->jobs;
    if (nf_map_get(t->by_front, nf_digest_str(front)))
        return;
    j->fronts = nf_realloc(j->fronts, (j->front_count + 1) * sizeof *j->fronts);
    j->fronts[j->front_count++] = *front;
    nf_map_put(t->by_front, nf_digest_str(front), j);
}

static struct nf_str canonical_key(uint8_t out[36], const struct nf_digest *key, uint32_t stop_after)
{
    memcpy(out, key->bytes, 32);
    for (int i = 0; i < 4; i++)
        out[32 + i] = (uint8_t)(stop_after >> (8 * i));
    return nf_str_n(out, 36);
}

struct job *job_by_canonical(struct job_table *t, const struct nf_digest *key, uint32_t stop_after)
{
    uint8_t k[36];
    return nf_map_get(t->by_canonical, canonical_key(k, key, stop_after));
}

/* What a waiter asks for is known: does it agree with the other ranks of its job? Both sides are told. */
static void note_rank(struct job *j, const struct waiter *w)
{
    char text[512];
    struct nf_digest other;
    const Neffd__V1__CompileStart *s = w->req->start;
    if (!ranks_note(j->d->jobs->ranks, w->peer.uid, s->client, &j->canonical, s->name, text, sizeof text, &other))
        return;
    nf_log(NF_LOG_WARNING, "job", "ranks have drifted apart", "id=%llu what=%s", (unsigned long long)j->id, nf_log_quote(text));
    event_log(j, NF_LOG_WARNING, "neffd", nf_str_c(text));
    for (struct job *k = j->d->jobs->jobs; k; k = k->next)
        if (k->has_canonical && !k->finished && nf_digest_eq(&k->canonical, &other))
            event_log(k, NF_LOG_WARNING, "neffd", nf_str_c(text));
}

void job_canonical_set(struct job *j, const struct nf_digest *key)
{
    struct nf_str k = canonical_key(j->canonical_map_key, key, j->stop_after);
    j->canonical = *key;
    j->has_canonical = true;
    if (!nf_map_get(j->d->jobs->by_canonical, k)) {
        nf_map_put(j->d->jobs->by_canonical, k, j);
        j->in_canonical_map = true;
    }
    for (struct waiter *w = j->waiters; w; w = w->next)
        note_rank(j, w);
}

static void forget_keys(struct job *j)
{
    struct job_table *t = j->d->jobs;
    for (size_t i = 0; i < j->front_count; i++)
        if (nf_map_get(t->by_front, nf_digest_str(&j->fronts[i])) == j)
            nf_map_del(t->by_front, nf_digest_str(&j->fronts[i]));
    if (j->in_canonical_map)
        nf_map_del(t->by_canonical, nf_str_n(j->canonical_map_key, sizeof j->canonical_map_key));
    j->in_canonical_map = false;
}

/* A terminal job's hit stays open for a moment: whoever was just told its path must find it there, whatever eviction does. */
static void linger(struct job *j)
{
    struct job_table *t = j->d->jobs;
    struct job **at = &t->lingering;
    size_t n = 0;
    for (; *at; at = &(*at)->next)
        n++;
    j->next = j->prev = NULL;
    *at = j;
    if (n >= LINGER_MAX) {
        struct job *oldest = t->lingering;
        t->lingering = oldest->next;
        oldest->next = NULL;
        job_unref(oldest);
    }
}

static void end_lingering(struct job_table *t, bool all)
{
    int64_t now = nf_now_ns();
    while (t->lingering && (all || now - t->lingering->state_since_ns > LINGER_NS)) {
        struct job *j = t->lingering;
        t->lingering = j->next;
        j->next = NULL;
        job_unref(j);
    }
}

void job_dissolve(struct job *j, enum job_state s)
{
    struct daemon *d = j->d;
    struct job_table *t = d->jobs;
    if (j->finished)
        return;
    j->finished = true;
    job_state_set(j, s);
    j->async_number++;   /* what is still under way is nobody's any more */
    forget_keys(j);
    job_lock_drop(j);
    if (j->timer_open)
        uv_timer_stop(&j->timer);
    sched_slot_free(j);
    if (j->worker) {
        struct worker *w = j->worker;
        j->worker = NULL;
        if (worker_busy(w)) {
            worker_kill(w);
            job_unref(j);   /* its answer, which will not come, held one */
        } else {
            worker_release(w);
        }
    }
    upload_done(d, &j->input);
    if (j->prev)
        j->prev->next = j->next;
    else
        t->jobs = j->next;
    if (j->next)
        j->next->prev = j->prev;
    else
        t->last = j->prev;
    t->live--;
    if (j->hit)
        linger(j);
    else
        job_unref(j);
    sched_kick(d);
    if (!t->live && d->draining && d->on_idle)
        d->on_idle(d);
}

/* ------------------------------------------------------------------------------------------------------------- waiters */

bool waiter_is_lookup(const struct waiter *w)
{
    return w->req->start->action == NEFFD__V1__ACTION__ACTION_LOOKUP || w->req->start->action == NEFFD__V1__ACTION__ACTION_EXPLAIN;
}
bool waiter_is_explain(const struct waiter *w) { return w->req->start->action == NEFFD__V1__ACTION__ACTION_EXPLAIN; }
bool waiter_is_fresh(const struct waiter *w) { return (w->req->start->ignore_cache || w->req->start->no_publish) && !waiter_is_lookup(w); }
bool waiter_no_publish(const struct waiter *w) { return w->req->start->no_publish; }
bool waiter_no_failures(const struct waiter *w) { return w->req->start->ignore_failures || waiter_is_fresh(w); }

bool job_all(const struct job *j, bool (*test)(const struct waiter *w))
{
    for (const struct waiter *w = j->waiters; w; w = w->next)
        if (!test(w))
            return false;
    return true;
}

bool job_any(const struct job *j, bool (*test)(const struct waiter *w))
{
    for (const struct waiter *w = j->waiters; w; w = w->next)
        if (test(w))
            return true;
    return false;
}

bool job_wants_compile(const struct job *j) { return j->detached || !job_all(j, waiter_is_lookup); }

void job_attach(struct job *j, struct waiter *w)
{
    const Neffd__V1__CompileStart *s = w->req->start;
    assert(!w->job);
    w->job = j;
    w->prev = j->last_waiter;
    w->next = NULL;
    if (j->last_waiter)
        j->last_waiter->next = w;
    else
        j->waiters = w;
    j->last_waiter = w;
    j->waiter_count++;
    w->log_seen = j->log_count;
    if (s->detach)
        j->detached = true;
    if (s->priority != NEFFD__V1__PRIORITY__PRIORITY_WARMUP && j->warmup) {
        j->warmup = false;
        if (j->waiter_count > 1)
            nf_log(NF_LOG_INFO, "job", "promoted", "id=%llu", (unsigned long long)j->id);
    }
    if (j->state == JOB_LOCK)
        job_lock_extend(j);
    if (j->has_canonical)
        note_rank(j, w);
    svc_jobs_changed(j->d);
}

void job_detach(struct job *j, struct waiter *w)
{
    assert(w->job == j);
    if (w->prev)
        w->prev->next = w->next;
    else
        j->waiters = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        j->last_waiter = w->prev;
    w->next = w->prev = NULL;
    w->job = NULL;
    j->waiter_count--;
    svc_jobs_changed(j->d);
}

void waiter_free(struct waiter *w)
{
    struct job_table *t = w->d->jobs;
    assert(!w->job);
    if (w->parked) {
        for (struct waiter **at = &t->parked, *before = NULL; *at; before = *at, at = &(*at)->next)
            if (*at == w) {
                *at = w->next;
                if (t->last_parked == w)
                    t->last_parked = before;
                break;
            }
    }
    if (w->call)
        srv_call_set_user(w->call, NULL);
    upload_done(w->d, &w->upload);
    request_unref(w->req);
    if (!w->answered)
        t->waiters--;
    free(w);
}

void job_last_waiter_left(struct job *j)
{
    if (j->finished || j->waiter_count || j->detached)
        return;
    if (j->state == JOB_PUBLISH)
        return;   /* it is done: keep it */
    if (j->state == JOB_COMPILE) {
        int64_t ran = nf_now_ns() - j->compile_started_ns;
        int64_t keep = j->d->cfg->cancel_keep_percent;
        if (j->estimate.known && ran >= j->estimate.p50_ns / 100 * keep) {
            nf_log(NF_LOG_INFO, "job", "goes on without waiters", "id=%llu ran_ms=%lld expected_ms=%lld", (unsigned long long)j->id,
                   (long long)(ran / NF_MS), (long long)(j->estimate.p50_ns / NF_MS));
            return;
        }
    }
    nf_log(NF_LOG_INFO, "job", "cancelled: the last waiter left", "id=%llu state=%s", (unsigned long long)j->id, job_state_name(j->state));
    job_dissolve(j, JOB_CANCELLED);
}

/* The job failed: everybody hears it, in one go. */
void job_end_failed(struct job *j, const struct nf_error *err)
{
    struct daemon *d = j->d;
    enum nf_class cls = nf_status_class(err->code);
    nf_log(err->code == NF_ECANCELLED ? NF_LOG_INFO : NF_LOG_WARNING, "job", "failed",
           "id=%llu name=%s code=%s waiters=%zu from_cache=%d why=%s", (unsigned long long)j->id, nf_log_quote(j->name), nf_status_name(err->code),
           j->waiter_count, (int)err->from_cache, nf_log_quote(err->message));
    size_t n = j->waiter_count;
    if (err->from_cache)
        COUNT(&d->counters, failures_from_cache, n);
    else if (cls == NF_CLASS_USER)
        COUNT(&d->counters, failures_user, 1);
    else if (cls == NF_CLASS_TRANSIENT)
        COUNT(&d->counters, failures_transient, 1);
    else if (cls == NF_CLASS_ENVIRONMENT)
        COUNT(&d->counters, failures_environment, 1);
    else if (cls == NF_CLASS_INTERNAL)
        COUNT(&d->counters, failures_internal, 1);
    if (err->code == NF_ELOCKTIMEOUT)
        COUNT(&d->counters, lock_timeouts, n);
    srv_burst(d->server, n);
    while (j->waiters) {
        struct waiter *w = j->waiters;
        job_detach(j, w);
        waiter_failed(w, err, j, NULL);
    }
    job_dissolve(j, err->code == NF_ECANCELLED ? JOB_CANCELLED : JOB_FAILED);
}

/* ---------------------------------------------------------------------------------------------------------- the table */

static void upload_failed(struct waiter *w, const struct nf_error *err);

/* A caller that was asked for its bytes and says nothing, as one that is stopped or behind a broken network does, must not hold up
 * those who could send the same ones. */
static void drop_silent_uploaders(struct job_table *t)
{
    int64_t now = nf_now_ns(), patience = t->d->cfg->upload_timeout_ns;
    for (struct job *j = t->jobs, *next; j; j = next) {
        next = j->next;
        struct waiter *w = j->state == JOB_RECEIVE ? j->waiters : NULL;
        while (w && (!w->told_send_input || w->upload.complete || w->upload.failed || now - w->heard_ns < patience))
            w = w->next;
        if (!w)
            continue;
        struct nf_error err = {0};
        nf_fail(&err, NF_ETIMEOUT, "the daemon asked for the graph and heard nothing for %lld s", (long long)(patience / NF_SEC));
        nf_error_hint(&err, "the option upload_timeout says how long it waits");
        nf_log(NF_LOG_WARNING, "job", "an uploader is silent", "id=%llu pid=%u", (unsigned long long)j->id, w->peer.pid);
        upload_failed(w, &err);   /* the next one is asked */
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct job_table *t = timer->data;
    drop_silent_uploaders(t);
    end_lingering(t, false);
    sched_tick(t);
}

int job_table_new(struct daemon *d, struct job_table **ret_table)
{
    struct job_table *t = nf_alloc(sizeof *t);
    t->d = d;
    t->by_front = nf_map_new(true);
    t->by_canonical = nf_map_new(true);
    t->ranks = ranks_new();
    uv_timer_init(d->loop, &t->tick);
    t->tick.data = t;
    uv_timer_start(&t->tick, on_tick, TICK_MS, TICK_MS);
    *ret_table = t;
    return NF_OK;
}

static void on_table_closed(uv_handle_t *h) { free(h->data); }

void job_table_free(struct job_table *t)
{
    if (!t)
        return;
    assert(!t->jobs);
    end_lingering(t, true);
    nf_map_free(t->by_front);
    nf_map_free(t->by_canonical);
    ranks_free(t->ranks);
    uv_close((uv_handle_t *)&t->tick, on_table_closed);
}

size_t job_live(const struct job_table *t) { return t->live; }

struct job_counts job_counts(const struct job_table *t)
{
    struct job_counts c = {.waiters = t->waiters};
    for (const struct job *j = t->jobs; j; j = j->next) {
        if (j->state == JOB_KEY || j->state == JOB_COMPILE || j->state == JOB_PUBLISH)
            c.running++;
        else
            c.queued++;
    }
    return c;
}

void job_describe(const struct job_table *t, struct nf_buf *out)
{
    size_t n = 0;
    nf_buf_add_count(out, t->live, "job", "jobs");
    for (const struct job *j = t->jobs; j && nf_buf_add_item(out, n); j = j->next, n++)
        nf_buf_addf(out, "%llu %s", (unsigned long long)j->id, job_state_name(j->state));
    nf_buf_add_c(out, n ? ")" : "");
}

bool job_cancel(struct daemon *d, uint64_t id, const char *why)
{
    for (struct job *j = d->jobs->jobs; j; j = j->next) {
        if (j->id != id)
            continue;
        struct nf_error err = {0};
        nf_fail(&err, NF_ECANCELLED, "%s", why);
        job_end_failed(j, &err);
        return true;
    }
    return false;
}

static void fail_parked(struct job_table *t, const struct nf_error *err)
{
    while (t->parked) {
        struct waiter *w = t->parked;
        t->parked = w->next;
        w->next = NULL;
        w->parked = false;
        waiter_failed(w, err, NULL, NULL);
    }
    t->last_parked = NULL;
}

void job_cancel_all(struct daemon *d, int code, const char *why)
{
    struct nf_error err = {0};
    nf_fail(&err, code, "%s", why);
    fail_parked(d->jobs, &err);
    while (d->jobs->jobs)
        job_end_failed(d->jobs->jobs, &err);
}

void job_list(const struct job_table *t, struct nf_buf *out)
{
    size_t n = 0, limit = NF_MIN(t->live, (size_t)2000);   /* a message's worth */
    Neffd__V1__Job *jobs = nf_alloc_array(limit + 1, sizeof *jobs);
    Neffd__V1__Job **list = nf_alloc_array(limit + 1, sizeof *list);
    int64_t now = nf_now_ns();
    for (const struct job *j = t->jobs; j && n < limit; j = j->next, n++) {
        Neffd__V1__Job *m = list[n] = &jobs[n];
        neffd__v1__job__init(m);
        m->id = j->id;
        if (j->has_canonical)
            m->canonical_key = rpc_binary(j->canonical.bytes, NF_DIGEST_BYTES);
        m->name = (char *)(uintptr_t)j->name;
        m->target = (char *)(uintptr_t)j->target;
        m->state = (char *)(uintptr_t)job_state_name(j->state);
        m->stage = (Neffd__V1__Stage)j->stage;
        m->waiters = (uint32_t)j->waiter_count;
        m->leader = j->leader;
        m->age_us = (uint64_t)((now - j->created_ns) / 1000);
        m->fraction = j->fraction;
        m->eta_p50_ms = j->estimate.known && j->state == JOB_COMPILE
                            ? (uint64_t)(NF_MAX(j->estimate.p50_ns - (now - j->compile_started_ns), 0) / NF_MS) : 0;
        m->priority = j->warmup ? NEFFD__V1__PRIORITY__PRIORITY_WARMUP : NEFFD__V1__PRIORITY__PRIORITY_INTERACTIVE;
        m->rss_bytes = j->worker ? worker_rss_bytes(j->worker) : 0;
    }
    Neffd__V1__JobsReply reply = NEFFD__V1__JOBS_REPLY__INIT;
    reply.jobs = list;
    reply.n_jobs = n;
    while (rpc_encode(&reply.base, out) == NF_ELIMIT && reply.n_jobs)
        reply.n_jobs /= 2;
    free(jobs);
    free(list);
}

/* ------------------------------------------------------------------------------------------------- what callers ask for */

static int check_request(const struct daemon *d, const Neffd__V1__CompileStart *s, struct nf_error *err)
{
    const struct cfg *cfg = d->cfg;
    if (s->front_key.len && s->front_key.len != NF_DIGEST_BYTES)
        return nf_fail(err, NF_EINVAL, "front_key has %zu bytes instead of 32", s->front_key.len);
    if (s->input_bytes > cfg->max_input) {
        nf_fail(err, NF_ELIMIT, "the graph has %llu bytes, over the limit of %llu", (unsigned long long)s->input_bytes, (unsigned long long)cfg->max_input);
        nf_error_hint(err, "raise the daemon's option max_input");
        return NF_ELIMIT;
    }
    if (s->n_options > (size_t)cfg->max_options)
        return nf_fail(err, NF_ELIMIT, "%zu options, over the limit of %lld (max_options)", s->n_options, (long long)cfg->max_options);
    if (s->n_side_files > (size_t)cfg->max_side_files)
        return nf_fail(err, NF_ELIMIT, "%zu side files, over the limit of %lld (max_side_files)", s->n_side_files, (long long)cfg->max_side_files);
    uint64_t side = 0;
    for (size_t i = 0; i < s->n_side_files; i++) {
        const Neffd__V1__SideFile *f = s->side_files[i];
        if (!f->name[0])
            return nf_fail(err, NF_EINVAL, "side file %zu has no name", i);
        if (f->sha256.len != NF_DIGEST_BYTES)
            return nf_fail(err, NF_EINVAL, "side file %s has a sha256 of %zu bytes instead of 32", f->name, f->sha256.len);
        if (f->size > cfg->max_side_bytes || (side += f->size) > cfg->max_side_bytes)
            return nf_fail(err, NF_ELIMIT, "side files are over the limit of %llu bytes (max_side_bytes)", (unsigned long long)cfg->max_side_bytes);
    }
    if (s->action > NEFFD__V1__ACTION__ACTION_EXPLAIN)
        return nf_fail(err, NF_EINVAL, "unknown action %d", (int)s->action);
    if (s->stop_after > NEFFD__V1__STAGE__STAGE_PUBLISH)
        return nf_fail(err, NF_EINVAL, "unknown stage %d in stop_after", (int)s->stop_after);
    for (size_t i = 0; i < s->n_keep; i++) {
        static const char *const kinds[] = {"fx", "stablehlo", "log", "arguments", "metadata"};
        bool known = false;
        for (size_t k = 0; k < NF_ARRAY_LEN(kinds); k++)
            known = known || strcmp(s->keep[i], kinds[k]) == 0;
        if (!known)
            return nf_fail(err, NF_EINVAL, "unknown intermediate %.40s in keep (fx, stablehlo, log, arguments, metadata)", s->keep[i]);
    }
    struct nf_str ns = nf_str_c(s->cache_namespace);
    int rc = cache_namespace_check(ns, err);
    if (rc < 0 || !ns.len)
        return rc;
    if (nf_str_eq_c(ns, cfg->cache_namespace))
        return NF_OK;
    for (size_t i = 0; i < cfg->namespaces.len; i++)
        if (strcmp(cfg->namespaces.items[i], "*") == 0 || nf_str_eq_c(ns, cfg->namespaces.items[i]))
            return NF_OK;
    nf_fail(err, NF_EPERM, "the cache namespace %s is not one of this daemon's", s->cache_namespace);
    nf_error_hint(err, "add it to the daemon's option namespaces");
    return NF_EPERM;
}

/* With the toolchains known: resolve the target, then join or start a job. */
static void waiter_begin(struct waiter *w)
{
    struct daemon *d = w->d;
    struct job_table *t = d->jobs;
    struct nf_error err = {0};
    const struct toolchain *tc;
    if (toolchains_find(d->toolchains, w->req->start->target, &tc, &err) < 0) {
        waiter_failed(w, &err, NULL, NULL);
        return;
    }
    nf_format(w->target, sizeof w->target, "%s", tc->info.target);
    struct job *j = w->has_claim ? job_by_front(t, &w->claimed) : NULL;
    if (j) {
        w->joined = true;
        job_attach(j, w);
        w->pending |= PENDING_JOINED | (j->state == JOB_QUEUE || j->state == JOB_LOCK ? PENDING_QUEUED : 0) | (j->stage ? PENDING_STAGE : 0);
        event_pump(w);
        if (j->state == JOB_RECEIVE)
            job_step_receive(j);
        else
            job_late_lookups(j);
        sched_kick(d);   /* it may have been promoted */
        return;
    }
    if (t->live >= (size_t)d->cfg->max_queue) {
        nf_fail(&err, NF_EOVERLOADED, "%zu jobs are queued or running, the limit is %lld", t->live, (long long)d->cfg->max_queue);
        err.retry_after_ms = 1000 + t->live % 4000;
        waiter_refuse(w, &err);
        return;
    }
    j = job_new(d, w);
    j->toolchain = tc->info;
    nf_format(j->isa, sizeof j->isa, "%s", tc->isa);
    if (w->has_claim)
        job_front_add(j, &w->claimed);
    job_attach(j, w);
    struct nf_digest canonical;
    if (w->has_claim && !waiter_is_fresh(w) && cache_reader_alias(d->reader, &w->claimed, &canonical, NULL, NULL) == NF_OK) {
        /* Seen before, but its entry is not in the local tier: the mount may have it; the bytes may not be needed. */
        struct job *other = job_by_canonical(t, &canonical, j->stop_after);
        if (other && job_try_merge(j, other))
            return;
        job_canonical_set(j, &canonical);
        j->hit_alias_only = true;
        job_step_lookup(j);
        return;
    }
    job_step_receive(j);
}

void job_toolchains_changed(struct daemon *d)
{
    struct job_table *t = d->jobs;
    while (t->parked) {
        struct waiter *w = t->parked;
        t->parked = w->next;
        if (!t->parked)
            t->last_parked = NULL;
        w->next = NULL;
        w->parked = false;
        waiter_begin(w);
        if (!t->parked)
            break;
    }
}

void job_toolchains_failed(struct daemon *d, const struct nf_error *err)
{
    for (const struct waiter *w = d->jobs->parked; w; w = w->next)
        COUNT(&d->counters, failures_environment, 1);
    fail_parked(d->jobs, err);
}

void job_request(struct daemon *d, struct srv_call *call, Neffd__V1__CompileStart *start)
{
    struct job_table *t = d->jobs;
    struct waiter *w = nf_alloc(sizeof *w);
    w->d = d;
    w->call = call;
    w->peer = *srv_call_peer(call);
    w->req = request_new(start);
    w->started_ns = nf_now_ns();
    t->waiters++;
    srv_call_set_user(call, w);
    COUNT(&d->counters, requests, 1);
    struct nf_error err = {0};
    if (d->draining) {
        nf_fail(&err, NF_EDRAINING, "this daemon is shutting down");
        err.retry_after_ms = 500;
        waiter_refuse(w, &err);
        return;
    }
    if (t->waiters > (uint32_t)d->cfg->max_waiters) {
        nf_fail(&err, NF_EOVERLOADED, "%u requests are waiting, the limit is %lld", t->waiters, (long long)d->cfg->max_waiters);
        err.retry_after_ms = 2000;
        waiter_refuse(w, &err);
        return;
    }
    if (check_request(d, start, &err) < 0) {
        COUNT(&d->counters, failures_user, 1);
        waiter_failed(w, &err, NULL, NULL);
        return;
    }
    if (start->front_key.len == NF_DIGEST_BYTES) {
        w->has_claim = true;
        memcpy(w->claimed.bytes, start->front_key.data, NF_DIGEST_BYTES);
        struct cache_hit *hit;
        if (!waiter_is_fresh(w) && !d->verify_always && cache_reader_lookup_front(d->reader, &w->claimed, &hit, &err) == NF_OK) {
            waiter_answer_hit(w, hit, CACHE_TIER_LOCAL, &w->claimed);
            return;
        }
    }
    if (!toolchains_known(d->toolchains)) {
        w->parked = true;
        if (t->last_parked)
            t->last_parked->next = w;
        else
            t->parked = w;
        t->last_parked = w;
        return;
    }
    waiter_begin(w);
}

/* Hands the job its input: the first complete upload wins, whoever was asked. */
static void waiter_uploaded(struct waiter *w)
{
    if (w->job && w->job->state == JOB_RECEIVE)
        job_step_keyed_input(w->job, w);
    /* Else a lookup by alias is under way; if it finds nothing, the bytes are there. */
}

static void upload_failed(struct waiter *w, const struct nf_error *err)
{
    struct job *j = w->job;
    if (j)
        job_detach(j, w);
    if (err->code == NF_EOVERLOADED) {
        waiter_refuse(w, err);
    } else {
        COUNT(&w->d->counters, failures_user, 1);
        waiter_failed(w, err, NULL, NULL);
    }
    if (!j)
        return;
    if (!j->waiter_count)
        job_last_waiter_left(j);
    else if (j->state == JOB_RECEIVE)
        job_step_receive(j);
}

void job_waiter_chunk(struct waiter *w, const Neffd__V1__Chunk *chunk)
{
    struct job *j = w->job;
    w->heard_ns = nf_now_ns();
    if (w->answered || w->upload.complete || w->upload.failed)
        return;
    if (!w->parked && (!j || j->req)) {
        w->upload.failed = true;   /* somebody else's bytes are in use; from here on these are dropped */
        upload_done(w->d, &w->upload);
        return;
    }
    const char *target = w->target, *id = j ? j->toolchain.id : NULL;
    if (w->parked) {
        /* The key cannot be begun before the compiler is known; it is made from the file at the end. */
        target = NULL;
        id = NULL;
    }
    struct nf_error err = {0};
    if (upload_chunk(w->d, &w->upload, w->req, target, id, w->peer.uid, chunk, &err) < 0) {
        upload_failed(w, &err);
        return;
    }
    if (w->upload.complete)
        waiter_uploaded(w);
}

void job_waiter_half_close(struct waiter *w)
{
    struct job *j = w->job;
    w->upload.half_closed = true;
    if (w->answered)
        return;
    if (w->parked || w->upload.complete || w->upload.failed || !j || j->req)
        return;
    if (!upload_started(&w->upload) && !w->told_send_input)
        return;   /* it will not send; others may */
    struct nf_error err = {0};
    if (upload_end(w->d, &w->upload, w->req, w->target, j->toolchain.id, w->peer.uid, &err) < 0)
        upload_failed(w, &err);
    else
        waiter_uploaded(w);
}

void job_waiter_sent(struct waiter *w)
{
    event_pump(w);
}

void job_waiter_closed(struct waiter *w, bool cancelled)
{
    struct job *j = w->job;
    if (w->answers)
        answers_one(w->answers, cancelled ? 0 : srv_call_finished_ns(w->call));
    w->call = NULL;
    if (j)
        job_detach(j, w);
    bool was_uploading = upload_started(&w->upload) || w->told_send_input;
    waiter_free(w);
    if (!j || j->finished)
        return;
    if (!j->waiter_count)
        job_last_waiter_left(j);
    else if (j->state == JOB_RECEIVE && was_uploading)
        job_step_receive(j);   /* the next one is asked */
}

void job_workers_free(struct daemon *d)
{
    if (d->jobs)
        sched_kick(d);
}
