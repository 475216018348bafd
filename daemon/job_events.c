/* job_events.c: what waiters are told.
 *
 * A job keeps the latest event of each kind and its last log lines; a waiter keeps one bit a kind and how far it has read the
 * log. One send is outstanding per call; when it is out, the next kind that is pending goes, with what is true by then. So a
 * waiter that reads slowly costs a few bytes, and 10,000 of them cost no copies of anything. */
#include "daemon/job_internal.h"

#include "base/clock.h"
#include "base/log.h"

static void build_joined(const struct job *j, Neffd__V1__Joined *m)
{
    neffd__v1__joined__init(m);
    m->waiters = (uint32_t)j->waiter_count;
    m->leader = j->leader;
    m->running_us = (uint64_t)((nf_now_ns() - j->created_ns) / 1000);
}

static void build_progress(const struct job *j, Neffd__V1__Progress *m)
{
    neffd__v1__progress__init(m);
    m->fraction = j->fraction;
    if (j->estimate.known && j->state == JOB_COMPILE) {
        int64_t ran = nf_now_ns() - j->compile_started_ns;
        m->eta_p50_ms = (uint64_t)(NF_MAX(j->estimate.p50_ns - ran, 0) / NF_MS);
        m->eta_p90_ms = (uint64_t)(NF_MAX(j->estimate.p90_ns - ran, 0) / NF_MS);
        if (m->fraction < 0 && j->estimate.p50_ns > 0)
            m->fraction = NF_MIN(0.95, (double)ran / (double)j->estimate.p90_ns);
    }
}

/* Sends at most one event; the next follows when it is out. */
void event_pump(struct waiter *w)
{
    struct job *j = w->job;
    if (!j || !w->call || w->answered || !srv_call_can_send(w->call))
        return;
    Neffd__V1__CompileEvent ev = NEFFD__V1__COMPILE_EVENT__INIT;
    Neffd__V1__SendInput send_input;
    Neffd__V1__Queued queued;
    Neffd__V1__Joined joined;
    Neffd__V1__StageEvent stage;
    Neffd__V1__Progress progress;
    Neffd__V1__LogLine log;
    uint32_t parts_few[16], *parts = parts_few;
    ev.job_id = j->id;
    if (w->pending & PENDING_SEND_INPUT) {
        w->pending &= ~(unsigned)PENDING_SEND_INPUT;
        size_t n = w->req->start->n_side_files + 1;
        if (n > NF_ARRAY_LEN(parts_few))
            parts = nf_alloc_array(n, sizeof *parts);
        for (size_t i = 0; i < n; i++)
            parts[i] = (uint32_t)i;
        neffd__v1__send_input__init(&send_input);
        send_input.parts = parts;
        send_input.n_parts = n;
        ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_SEND_INPUT;
        ev.send_input = &send_input;
    } else if (w->pending & PENDING_JOINED) {
        w->pending &= ~(unsigned)PENDING_JOINED;
        build_joined(j, &joined);
        ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_JOINED;
        ev.joined = &joined;
    } else if (w->pending & PENDING_QUEUED) {
        w->pending &= ~(unsigned)PENDING_QUEUED;
        neffd__v1__queued__init(&queued);
        queued.position = j->queued.position;
        queued.waiting_for = j->queued.waiting_for;
        ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_QUEUED;
        ev.queued = &queued;
    } else if (w->pending & PENDING_STAGE) {
        w->pending &= ~(unsigned)PENDING_STAGE;
        neffd__v1__stage_event__init(&stage);
        stage.stage = (Neffd__V1__Stage)j->stage;
        stage.since_start_us = (uint64_t)((j->stage_since_ns - j->created_ns) / 1000);
        stage.detail = j->stage_detail;
        ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_STAGE;
        ev.stage = &stage;
    } else if (w->log_seen < j->log_count) {
        if (j->log_count - w->log_seen > JOB_LOG_LINES)
            w->log_seen = j->log_count - JOB_LOG_LINES;
        size_t at = w->log_seen++ % JOB_LOG_LINES;
        neffd__v1__log_line__init(&log);
        log.level = j->log[at].level;
        log.source = j->log[at].source;
        log.line = j->log[at].line;
        ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_LOG;
        ev.log = &log;
    } else if (w->pending & PENDING_PROGRESS) {
        w->pending &= ~(unsigned)PENDING_PROGRESS;
        build_progress(j, &progress);
        ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_PROGRESS;
        ev.progress = &progress;
    } else {
        return;
    }
    srv_send(w->call, &ev.base);
    if (parts != parts_few)
        free(parts);
}

void event_all(struct job *j, enum waiter_pending what)
{
    for (struct waiter *w = j->waiters; w; w = w->next) {
        w->pending |= what;
        event_pump(w);
    }
}

void event_log(struct job *j, uint32_t level, const char *source, struct nf_str line)
{
    size_t at = j->log_count++ % JOB_LOG_LINES;
    free(j->log[at].source);
    free(j->log[at].line);
    j->log[at].level = level;
    j->log[at].source = nf_strdup(source ? source : "");
    j->log[at].line = nf_strndup(line.data ? line.data : "", NF_MIN(line.len, (size_t)JOB_LOG_LINE_MAX));
    for (struct waiter *w = j->waiters; w; w = w->next)
        event_pump(w);
}

/* ------------------------------------------------------------------------------------------------------ the last event */

static void last_event(struct waiter *w, Neffd__V1__CompileEvent *ev)
{
    w->answered = true;
    w->d->jobs->waiters--;
    upload_done(w->d, &w->upload);
    if (w->call)
        srv_reply(w->call, &ev->base);   /* the waiter goes with its call */
    else
        waiter_free(w);
}

void waiter_done(struct waiter *w, Neffd__V1__Done *done, uint64_t job_id)
{
    Neffd__V1__CompileEvent ev = NEFFD__V1__COMPILE_EVENT__INIT;
    ev.job_id = job_id;
    ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_DONE;
    ev.done = done;
    last_event(w, &ev);
}

/* The last lines that the compiler said; what we said about the cache is not among them. Copies, oldest first. */
size_t job_log_tail(const struct job *j, size_t limit, char **ret_lines)
{
    uint64_t from = j->log_count > JOB_LOG_LINES ? j->log_count - JOB_LOG_LINES : 0, count = 0;
    for (uint64_t i = from; i < j->log_count; i++)
        count += strcmp(j->log[i % JOB_LOG_LINES].source, "explain") != 0;
    size_t n = 0;
    for (uint64_t i = from; i < j->log_count; i++) {
        if (strcmp(j->log[i % JOB_LOG_LINES].source, "explain") == 0)
            continue;
        if (count-- > limit)
            continue;
        ret_lines[n++] = nf_strdup(j->log[i % JOB_LOG_LINES].line);
    }
    return n;
}

static size_t copy_tail(const struct nf_str *lines, size_t count, size_t limit, char **ret_lines)
{
    size_t n = 0;
    for (size_t i = count > limit ? count - limit : 0; i < count; i++)
        ret_lines[n++] = nf_strndup(lines[i].data, NF_MIN(lines[i].len, (size_t)JOB_LOG_LINE_MAX));
    return n;
}

void waiter_failed(struct waiter *w, const struct nf_error *err, const struct job *j, const struct cache_failure *remembered)
{
    Neffd__V1__CompileEvent ev = NEFFD__V1__COMPILE_EVENT__INIT;
    Neffd__V1__Error m = NEFFD__V1__ERROR__INIT;
    rpc_error_to_message(err, &m);
    char *tail[JOB_LOG_LINES];
    size_t limit = (size_t)NF_MIN(NF_MAX(w->d->cfg->log_tail_lines, 0), (int64_t)JOB_LOG_LINES);
    if (j) {
        ev.job_id = j->id;
        if (j->has_canonical)
            m.canonical_key = rpc_binary(j->canonical.bytes, NF_DIGEST_BYTES);
    }
    m.log_tail = tail;
    m.n_log_tail = remembered ? copy_tail(remembered->log_tail, remembered->log_count, limit, tail) : j ? job_log_tail(j, limit, tail) : 0;
    ev.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_FAILED;
    ev.failed = &m;
    last_event(w, &ev);
    for (size_t i = 0; i < m.n_log_tail; i++)
        free(tail[i]);
}

void answers_one(struct answers *a, int64_t finished_ns)
{
    if (!finished_ns) {
        a->cancelled++;
    } else {
        a->count++;
        a->first_ns = a->first_ns ? NF_MIN(a->first_ns, finished_ns) : finished_ns;
        a->last_ns = NF_MAX(a->last_ns, finished_ns);
    }
    if (--a->open)
        return;
    nf_log(NF_LOG_INFO, "job", "answered", "id=%llu answers=%zu joined=%zu gone=%zu spread_us=%lld", (unsigned long long)a->job_id, a->count,
           a->joined, a->cancelled, (long long)((a->last_ns - a->first_ns) / 1000));
    free(a);
}

void waiter_refuse(struct waiter *w, const struct nf_error *err)
{
    w->answered = true;
    w->d->jobs->waiters--;
    nf_log(NF_LOG_INFO, "job", "refused", "code=%s pid=%u why=%s", nf_status_name(err->code), w->peer.pid, nf_log_quote(err->message));
    if (w->call)
        srv_finish(w->call, err);
    else
        waiter_free(w);
}
