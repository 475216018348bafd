/* job_run.c: what workers and the cache's threads do for a job: key, compile, publish, explain; and what follows when they fail.
 *
 *     failure                                       what is done
 *     worker lost, compiler killed, out of memory   again, with back-off, `retries` times; out of memory: alone, with twice the room
 *     worker or compiler crashed by itself          once more, then remembered for a short time
 *     no space in the working directory             once more in another one
 *     the graph's own fault                         remembered; no retry
 *     environment, time-out                         told, never remembered */
#include "daemon/job_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "cache/explain.h"
#include "daemon/details.h"
#include "daemon/task.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKOFF_MAX_NS (60 * NF_SEC)

/* ------------------------------------------------------------------------------------------------------------ requests */

void job_request_pack(struct job *j, Neffd__Worker__V1__Key *k, Neffd__Worker__V1__Identity *id)
{
    const Neffd__V1__CompileStart *s = j->req->start;
    neffd__worker__v1__key__init(k);
    neffd__worker__v1__identity__init(id);
    struct toolchain tc = {.info = j->toolchain};
    toolchain_to_identity(&tc, id);
    id->target = j->toolchain.target;
    id->compiler = j->toolchain.compiler;
    id->version = j->toolchain.version;
    id->path = j->toolchain.path;
    id->isa = j->isa;
    k->job = j->id;
    k->input_kind = s->input_kind;
    k->input_path = j->input.parts[0].path;
    k->identity = id;
    k->options = s->options;
    k->n_options = s->n_options;
    k->side_files = nf_alloc_array(s->n_side_files + 1, sizeof *k->side_files);
    k->n_side_files = s->n_side_files;
    for (size_t i = 0; i < s->n_side_files; i++) {
        Neffd__Worker__V1__InputFile *f = k->side_files[i] = nf_alloc(sizeof *f);
        neffd__worker__v1__input_file__init(f);
        f->name = s->side_files[i]->name;
        f->sha256 = rpc_binary(j->input.parts[i + 1].sha256.bytes, NF_DIGEST_BYTES);
        f->size = j->input.parts[i + 1].got;
        f->path = j->input.parts[i + 1].path;
    }
    if (s->base_key[0]) {
        k->base_key = nf_alloc(NF_DIGEST_HEX);
        cache_base_key_scope(nf_str_c(s->base_key), j->base_uid, nf_str_c(s->cache_namespace), k->base_key);
    } else {
        k->base_key = nf_strdup("");
    }
    k->cache_namespace = j->cache_namespace;
    k->work_dir = j->work_dir;
    k->name = j->name;
}

void job_request_pack_free(Neffd__Worker__V1__Key *k)
{
    for (size_t i = 0; i < k->n_side_files; i++)
        free(k->side_files[i]);
    free(k->side_files);
    free(k->base_key);
}

static int ensure_work_dir(struct job *j, struct nf_error *err)
{
    return j->work_dir ? NF_OK : scratch_dir(j->d->scratch, j->id, &j->work_dir, err);
}

/* -------------------------------------------------------------------------------------------------------------- retries */

static void on_backoff(uv_timer_t *timer)
{
    struct job *j = timer->data;
    if (j->finished)
        return;
    if (j->state == JOB_LOOKUP || j->state == JOB_RECHECK) {
        job_lookup_again(j);
        return;
    }
    if (j->state != JOB_BACKOFF)
        return;
    if (j->keyed)
        job_enqueue(j);
    else
        job_state_set(j, JOB_KEYQ);
    sched_kick(j->d);
}

void job_timer_start(struct job *j, int64_t ns)
{
    if (!j->timer_open) {
        uv_timer_init(j->d->loop, &j->timer);
        j->timer.data = j;
        j->timer_open = true;
    }
    uv_timer_start(&j->timer, on_backoff, (uint64_t)(ns / NF_MS), 0);
}

static void back_off(struct job *j, unsigned attempt)
{
    int64_t ns = j->d->cfg->retry_backoff_ns;
    for (unsigned i = 1; i < attempt && ns < BACKOFF_MAX_NS; i++)
        ns *= 2;
    ns = NF_MIN(ns, BACKOFF_MAX_NS);
    COUNT(&j->d->counters, retries, 1);
    job_timer_start(j, ns);
}

/* A compile or a key has failed. True: it will be tried again. */
static bool try_again(struct job *j, const struct nf_error *err, unsigned attempts)
{
    struct daemon *d = j->d;
    if (d->draining && nf_status_class(err->code) != NF_CLASS_USER)
        return false;
    bool again = false;
    if (err->code == NF_ENOSPACE && j->work_dir && attempts <= 1 + (unsigned)NF_MAX(d->cfg->retries, 0)) {
        char *old = j->work_dir;
        again = scratch_avoid(d->scratch, old);
        if (again) {
            j->work_dir = NULL;
            j->keyed = false;   /* the canonical text was in there */
            scratch_remove(d->scratch, old);
        }
    } else if (nf_status_class(err->code) == NF_CLASS_TRANSIENT) {
        again = attempts <= (unsigned)NF_MAX(d->cfg->retries, 0);
        if (again && (err->code == NF_ENOMEM || err->code == NF_ECOMPILERKILLED))   /* killed is often for memory, without anybody saying so */
            j->memory_hint = NF_MAX(d->memory_limit_bytes, j->peak_rss * 2);   /* alone */
    } else if (err->code == NF_EWORKERCRASH || err->code == NF_ECOMPILERCRASH) {
        again = ++j->internal_attempts <= 1;
    }
    if (!again)
        return false;
    nf_log(NF_LOG_WARNING, "job", "will be tried again", "id=%llu attempt=%u code=%s why=%s", (unsigned long long)j->id, attempts,
           nf_status_name(err->code), nf_log_quote(err->message));
    char line[300];
    nf_format(line, sizeof line, "attempt %u failed and will be repeated: %.200s", attempts, err->message);
    event_log(j, NF_LOG_WARNING, "neffd", nf_str_c(line));
    job_state_set(j, JOB_BACKOFF);
    back_off(j, attempts);
    return true;
}

/* ----------------------------------------------------------------------------------------------------------------- key */

static void let_worker_go(struct job *j, bool lost)
{
    struct worker *w = j->worker;
    j->worker = NULL;
    if (w && !lost)
        worker_release(w);
}

/* The worker has died between being taken and being asked. */
static void submit_failed(struct job *j, const struct nf_error *err, unsigned attempts)
{
    sched_slot_free(j);
    let_worker_go(j, false);
    if (!try_again(j, err, attempts))
        job_end_failed(j, err);
}

static void take_stage_times(struct job *j, Neffd__V1__StageTime *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < j->stage_count && j->stage_times[k].stage != list[i]->stage)
            k++;
        if (k == NF_ARRAY_LEN(j->stage_times))
            return;
        if (k == j->stage_count)
            neffd__v1__stage_time__init(&j->stage_times[j->stage_count++]);
        j->stage_times[k].stage = list[i]->stage;
        j->stage_times[k].us = list[i]->us;
        j->stage_times[k].peak_rss_bytes = list[i]->peak_rss_bytes;
    }
}

static void on_keyed(struct job *j, const Neffd__Worker__V1__Keyed *m)
{
    struct daemon *d = j->d;
    struct nf_error err = {0};
    if (m->canonical_key.len != NF_DIGEST_BYTES || m->job != j->id) {
        nf_fail(&err, NF_EPROTOCOL, "a worker's answer has no key");
        job_end_failed(j, &err);
        return;
    }
    struct nf_digest key;
    memcpy(key.bytes, m->canonical_key.data, NF_DIGEST_BYTES);
    j->ops = m->ops;
    j->canonical_bytes = m->canonical_bytes;
    take_stage_times(j, m->stages, m->n_stages);
    j->keyed = true;
    if (m->lowered && !j->lowered) {
        j->lowered = true;
        COUNT(&d->counters, lowerings, 1);
    }
    if (j->stop_after) {
        job_answer_stage(j);
        return;
    }
    if (j->grant || j->attempts) {   /* keyed again after a retry: the key is known and claimed */
        job_enqueue(j);
        return;
    }
    struct job *other = job_by_canonical(d->jobs, &key, j->stop_after);
    if (other && other != j && job_try_merge(j, other))
        return;
    job_canonical_set(j, &key);
    job_step_lookup(j);
}

static void on_key_answer(void *user, const struct worker_answer *a)
{
    struct job *j = user;
    sched_slot_free(j);
    struct nf_error err = a->err;
    if (err.code) {
        let_worker_go(j, a->lost);
        if (err.code == NF_ECOMPILETIMEOUT) {
            nf_fail(&err, NF_ELIMIT, "reading and keying the graph took more than %lld s", (long long)(j->d->cfg->key_timeout_ns / NF_SEC));
            nf_error_hint(&err, "raise the daemon's option key_timeout");
        }
        if (!try_again(j, &err, j->key_attempts))
            job_end_failed(j, &err);
    } else if (a->frame != NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_KEYED) {
        nf_fail(&err, NF_EPROTOCOL, "a worker gave the wrong answer");
        job_end_failed(j, &err);
    } else {
        on_keyed(j, (const Neffd__Worker__V1__Keyed *)a->message);   /* the worker stays: it has the graph */
    }
    sched_kick(j->d);
    job_unref(j);
}

static void on_event(void *user, const Neffd__Worker__V1__Event *e)
{
    struct job *j = user;
    switch (e->event_case) {
    case NEFFD__WORKER__V1__EVENT__EVENT_STAGE:
        j->stage = e->stage->stage;
        j->stage_since_ns = nf_now_ns();
        nf_format(j->stage_detail, sizeof j->stage_detail, "%.150s", e->stage->detail);
        event_all(j, PENDING_STAGE);
        svc_jobs_changed(j->d);
        break;
    case NEFFD__WORKER__V1__EVENT__EVENT_PROGRESS:
        j->fraction = e->progress->fraction;
        event_all(j, PENDING_PROGRESS);
        break;
    case NEFFD__WORKER__V1__EVENT__EVENT_LOG:
        event_log(j, e->log->level, e->log->source, nf_str_c(e->log->line));
        break;
    case NEFFD__WORKER__V1__EVENT__EVENT__NOT_SET:
    case _NEFFD__WORKER__V1__EVENT__EVENT__CASE_IS_INT_SIZE:
        break;
    }
}

void job_run_key(struct job *j)
{
    struct nf_error err = {0};
    job_state_set(j, JOB_KEY);
    j->key_attempts++;
    Neffd__Worker__V1__Key k;
    Neffd__Worker__V1__Identity id;
    if (ensure_work_dir(j, &err) < 0) {
        job_end_failed(j, &err);
        return;
    }
    job_request_pack(j, &k, &id);
    struct worker_request r = {.frame = NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_KEY, .message = &k.base,
                               .time_limit_ns = j->d->cfg->key_timeout_ns, .on_event = on_event, .on_answer = on_key_answer, .user = j};
    int rc = worker_submit(j->worker, &r, &err);
    job_request_pack_free(&k);
    if (rc < 0)
        submit_failed(j, &err, j->key_attempts);
    else
        job_ref(j);
}

/* ------------------------------------------------------------------------------------------------------------- compile */

static int64_t compile_limit(const struct job *j)
{
    int64_t longest = 0;
    for (const struct waiter *w = j->waiters; w; w = w->next) {
        if (waiter_is_lookup(w))
            continue;
        uint64_t ms = w->req->start->compile_timeout_ms;
        int64_t ns = ms == 0 ? j->d->cfg->compile_timeout_ns : ms > (uint64_t)INT64_MAX / 4 / NF_MS ? INT64_MAX / 4 : (int64_t)ms * NF_MS;
        if (ns == 0)
            return 0;   /* none */
        longest = NF_MAX(longest, ns);
    }
    return longest ? longest : j->d->cfg->compile_timeout_ns;
}

/* What an entry says of the job that made it, copied: a task writes it off the loop. */
struct record {
    struct cache_meta meta;       /* strings point to the fields below */
    char name[128], ns[72], target[64], compiler[256], toolchain[256], host[128];
    struct nf_digest *fronts;     /* the verified ones */
    size_t front_count;
};

static void record_take(struct record *r, const struct job *j, enum cache_kind kind)
{
    nf_format(r->name, sizeof r->name, "%s", j->name);
    nf_format(r->ns, sizeof r->ns, "%s", j->cache_namespace);
    nf_format(r->target, sizeof r->target, "%s", j->target);
    nf_format(r->compiler, sizeof r->compiler, "%s", j->toolchain.compiler);
    nf_format(r->toolchain, sizeof r->toolchain, "%s", j->toolchain.id);
    nf_format(r->host, sizeof r->host, "%s", j->prov_host);
    r->meta = (struct cache_meta){
        .key = j->canonical, .kind = kind, .name = nf_str_c(r->name), .cache_namespace = nf_str_c(r->ns), .target = nf_str_c(r->target),
        .compiler = nf_str_c(r->compiler), .toolchain_id = nf_str_c(r->toolchain), .host = nf_str_c(r->host), .pid = (uint32_t)getpid(),
        .attempts = j->attempts, .started_us = j->wall_started_us,
    };
    if (j->front_verified) {
        r->fronts = nf_alloc_array(j->front_count + 1, sizeof *r->fronts);
        memcpy(r->fronts, j->fronts, j->front_count * sizeof *r->fronts);
        r->front_count = j->front_count;
    }
}

static void record_alias(const struct record *r, struct cache_store *store)
{
    for (size_t i = 0; i < r->front_count; i++)
        cache_store_alias_put(store, &r->fronts[i], &r->meta.key, r->ns, NULL);
}

/* A failure that will be the same again is remembered before it is told: who asks at once must find it. */
struct remembering {
    struct task task;
    struct job *job;
    struct nf_error err;
    struct record record;
    char *lines[JOB_LOG_LINES];
    size_t line_count;
};

static int remember_run(struct task *t, struct nf_error *err)
{
    struct remembering *r = (struct remembering *)t;
    struct nf_str tail[JOB_LOG_LINES];
    for (size_t i = 0; i < r->line_count; i++)
        tail[i] = nf_str_c(r->lines[i]);
    struct cache_meta meta = r->record.meta;
    struct cache_failure f = {
        .error = r->err, .cls = nf_status_class(r->err.code), .attempts = meta.attempts, .log_tail = tail, .log_count = r->line_count,
    };
    meta.failure = &f;
    int rc = cache_store_remember_failure(t->d->store, &meta, err);
    record_alias(&r->record, t->d->store);
    return rc;
}

static void remember_end(struct task *t, int rc, const struct nf_error *err)
{
    struct remembering *r = (struct remembering *)t;
    if (rc < 0)
        nf_log(NF_LOG_WARNING, "job", "a failure cannot be remembered", "id=%llu why=%s", (unsigned long long)r->job->id, nf_log_quote(err->message));
    if (!r->job->finished)
        job_end_failed(r->job, &r->err);
    job_unref(r->job);
}

static void remember_free(struct task *t)
{
    struct remembering *r = (struct remembering *)t;
    for (size_t i = 0; i < r->line_count; i++)
        free(r->lines[i]);
    free(r->record.fronts);
    free(r);
}

/* False: it is not one of those; the caller ends the job. */
static bool remember(struct job *j, const struct nf_error *err)
{
    enum nf_class cls = nf_status_class(err->code);
    int64_t ttl = cls == NF_CLASS_USER ? j->d->cfg->failure_ttl_ns : j->d->cfg->internal_failure_ttl_ns;
    if ((cls != NF_CLASS_USER && cls != NF_CLASS_INTERNAL) || !ttl || !j->has_canonical || j->stop_after || (j->waiter_count && job_all(j, waiter_no_publish)))
        return false;
    struct remembering *r = nf_alloc(sizeof *r);
    r->task.run = remember_run;
    r->task.end = remember_end;
    r->task.free = remember_free;
    r->job = job_ref(j);
    r->err = *err;
    record_take(&r->record, j, CACHE_KIND_FAILURE);
    r->line_count = job_log_tail(j, (size_t)NF_MIN(NF_MAX(j->d->cfg->log_tail_lines, 0), (int64_t)JOB_LOG_LINES), r->lines);
    job_state_set(j, JOB_PUBLISH);
    task_start(j->d, &r->task);
    return true;
}

static bool inside(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    return strncmp(dir, path, n) == 0 && path[n] == '/' && path[n + 1] && !strstr(path + n, "/../") && !strchr(path + n + 1, '/');
}

static int take_outputs(struct job *j, const Neffd__Worker__V1__Compiled *m, struct nf_error *err)
{
    bool neff = false;
    for (size_t i = 0; i < m->n_files && i < 16; i++) {
        if (!inside(j->try_dir, m->files[i]->path))
            return nf_fail(err, NF_EPROTOCOL, "a worker names a file outside its directory");
        struct output *o;
        j->outputs = nf_realloc(j->outputs, (j->output_count + 1) * sizeof *j->outputs);
        o = &j->outputs[j->output_count++];
        *o = (struct output){.path = nf_strdup(m->files[i]->path)};
        nf_format(o->kind, sizeof o->kind, "%s", m->files[i]->kind);
        neff = neff || strcmp(o->kind, "neff") == 0;
    }
    return neff ? NF_OK : nf_fail(err, NF_EPROTOCOL, "a worker says that it has compiled and names no artifact");
}

static void on_compile_answer(void *user, const struct worker_answer *a)
{
    struct job *j = user;
    struct daemon *d = j->d;
    struct nf_error err = a->err;
    j->peak_rss = NF_MAX(j->peak_rss, a->peak_rss_bytes);
    j->compile_ns = nf_now_ns() - j->compile_started_ns;
    sched_slot_free(j);
    let_worker_go(j, a->lost);
    if (!err.code) {
        const Neffd__Worker__V1__Compiled *m = (const Neffd__Worker__V1__Compiled *)a->message;
        if (a->frame != NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_COMPILED || m->job != j->id) {
            nf_fail(&err, NF_EPROTOCOL, "a worker gave the wrong answer");
        } else if (take_outputs(j, m, &err) == NF_OK) {
            j->peak_rss = NF_MAX(j->peak_rss, m->peak_rss_bytes);
            if (m->compile_us)
                j->compile_ns = (int64_t)m->compile_us * 1000;
            take_stage_times(j, m->stages, m->n_stages);
            estimates_add(d->estimates, j->target, j->ops, j->compile_ns, j->peak_rss);
            COUNT(&d->counters, compile_us, j->compile_ns / 1000);
            job_run_publish(j);
        }
    }
    if (err.code) {
        if (!err.stage)
            err.stage = NEFFD__V1__STAGE__STAGE_COMPILE;
        if (err.code == NF_ENOMEM || err.code == NF_ECOMPILETIMEOUT)
            estimates_add(d->estimates, j->target, j->ops, j->compile_ns, j->peak_rss);
        if (!try_again(j, &err, j->attempts) && !remember(j, &err))
            job_end_failed(j, &err);
    }
    sched_kick(d);
    job_unref(j);
}

/* Each attempt has an empty directory of its own; they go with the job's. */
static int make_try_dir(struct job *j, struct nf_error *err)
{
    int rc = ensure_work_dir(j, err);
    if (rc < 0)
        return rc;
    if (!nf_format(j->try_dir, sizeof j->try_dir, "%s/try-%u", j->work_dir, j->attempts))
        return nf_fail(err, NF_ECONFIG, "the path of the working directory is too long: %s", j->work_dir);
    return mkdir(j->try_dir, 0700) == 0 ? NF_OK : nf_fail_errno(err, errno, "cannot make %s", j->try_dir);
}

void job_run_compile(struct job *j)
{
    struct nf_error err = {0};
    struct daemon *d = j->d;
    Neffd__Worker__V1__Key k;
    Neffd__Worker__V1__Identity id;
    job_state_set(j, JOB_COMPILE);
    j->attempts++;
    j->compile_started_ns = nf_now_ns();
    j->wall_started_us = nf_wall_us();
    gethostname(j->prov_host, sizeof j->prov_host - 1);
    nf_format(j->prov_id, sizeof j->prov_id, "%.12s-%llu-%u", d->marker, (unsigned long long)j->id, j->attempts);
    COUNT(&d->counters, compiles, 1);
    nf_log(NF_LOG_INFO, "job", "compile", "id=%llu name=%s target=%s attempt=%u ops=%llu waiters=%zu worker=%d", (unsigned long long)j->id,
           nf_log_quote(j->name), j->target, j->attempts, (unsigned long long)j->ops, j->waiter_count, (int)worker_pid(j->worker));
    if (make_try_dir(j, &err) < 0) {
        if (!try_again(j, &err, j->attempts))
            job_end_failed(j, &err);
        return;
    }
    for (size_t i = 0; i < j->output_count; i++)
        free(j->outputs[i].path);
    j->output_count = 0;
    int64_t limit = compile_limit(j);
    job_request_pack(j, &k, &id);
    Neffd__Worker__V1__Compile m = NEFFD__WORKER__V1__COMPILE__INIT;
    m.key = &k;
    m.time_limit_ms = (uint64_t)(limit / NF_MS);
    m.memory_limit_bytes = d->cfg->compiler_memory;
    m.work_dir = j->try_dir;
    /* The target enforces the limit itself and says more; this one is for when it cannot. */
    int64_t margin = d->cfg->compiler_grace_ns + NF_SEC;
    struct worker_request r = {.frame = NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_COMPILE, .message = &m.base,
                               .time_limit_ns = limit ? limit + margin : 0, .memory_limit_bytes = d->memory_limit_bytes,
                               .on_event = on_event, .on_answer = on_compile_answer, .user = j};
    int rc = worker_submit(j->worker, &r, &err);
    job_request_pack_free(&k);
    if (rc < 0) {
        submit_failed(j, &err, j->attempts);
        return;
    }
    job_ref(j);
    if (j->stage != NEFFD__V1__STAGE__STAGE_COMPILE) {
        j->stage = NEFFD__V1__STAGE__STAGE_COMPILE;
        j->stage_since_ns = nf_now_ns();
        nf_format(j->stage_detail, sizeof j->stage_detail, "%.150s", j->toolchain.compiler);
    }
    event_all(j, PENDING_STAGE | PENDING_PROGRESS);
}

/* ------------------------------------------------------------------------------------------------------------- publish */

struct publish {
    struct task task;
    struct job *job;              /* loop thread only; what run needs is copied below */
    bool store;                   /* false: no_publish, the artifact is only hashed */
    bool replace;
    char *work_dir, *artifact;
    struct record record;
    char created_by[192], compile_id[64];
    uint64_t max_text;
    struct output *outputs;       /* hashed here, off the loop */
    size_t output_count;
    int hash_rc;
    struct cache_published published;
    bool has_published;
    struct nf_error store_err;
};

static int publish_run(struct task *t, struct nf_error *err)
{
    struct publish *p = (struct publish *)t;
    struct nf_arena *arena = nf_arena_new(0);
    struct details details = {0};
    int rc = NF_OK;
    if (p->store) {
        rc = details_read(p->work_dir, p->max_text, arena, &details, err);
        if (rc < 0)
            nf_log(NF_LOG_WARNING, "job", "an entry goes without details", "why=%s", nf_log_quote(err ? err->message : ""));
        p->record.meta.components = details.components;
        p->record.meta.component_count = details.component_count;
        p->record.meta.stablehlo = details.stablehlo;
        int fd = open(p->artifact, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0) {
            rc = nf_fail_errno(err, errno, "cannot open %s", p->artifact);
        } else {
            struct cache_publication pub = {.meta = p->record.meta, .artifact_fd = fd, .replace = p->replace};
            rc = cache_store_publish(t->d->store, &pub, &p->published, err);
            close(fd);
            p->has_published = rc == NF_OK;
        }
        if (rc == NF_OK)
            record_alias(&p->record, t->d->store);
    }
    for (size_t i = 0; i < p->output_count; i++) {
        bool is_neff = strcmp(p->outputs[i].kind, "neff") == 0;
        if (is_neff && p->has_published && p->published.hit)
            continue;
        struct nf_error hash_err = {0};
        int hrc = scratch_hash_file(p->outputs[i].path, &p->outputs[i].sha256, &p->outputs[i].size, &hash_err);
        if (is_neff)
            p->hash_rc = hrc;
    }
    nf_arena_free(arena);
    return rc;
}

static void publish_free(struct task *t)
{
    struct publish *p = (struct publish *)t;
    for (size_t i = 0; i < p->output_count; i++)
        free(p->outputs[i].path);
    free(p->outputs);
    free(p->record.fronts);
    free(p->work_dir);
    free(p->artifact);
    free(p);
}

static void warn_tier(struct job *j, const char *tier, int rc, const struct nf_error *err)
{
    if (rc == NF_OK || rc == NF_ENOTFOUND)
        return;
    char line[1200];
    nf_format(line, sizeof line, "the %s tier did not take the artifact: %s", tier, err->message[0] ? err->message : nf_status_text(rc));
    nf_log(NF_LOG_WARNING, "cache", "publish", "id=%llu tier=%s code=%s why=%s", (unsigned long long)j->id, tier, nf_status_name(rc),
           nf_log_quote(err->message));
    event_log(j, NF_LOG_WARNING, "cache", nf_str_c(line));
}

static void publish_end(struct task *t, int rc, const struct nf_error *err)
{
    struct publish *p = (struct publish *)t;
    struct job *j = p->job;
    struct daemon *d = j->d;
    struct nf_error fail = {0};
    j->publish_ns = nf_now_ns() - j->state_since_ns;
    if (j->finished) {
        if (p->has_published)
            cache_hit_close(p->published.hit);
        job_unref(j);
        return;
    }
    if (p->has_published && p->published.hit) {
        j->hit = p->published.hit;
        const struct cache_footer *f = cache_hit_footer(j->hit);
        if (cache_hit_tier(j->hit) == CACHE_TIER_SPILL)   /* no tier could take it */
            scratch_note(d->scratch, &f->sha256, f->raw_bytes, cache_hit_path(j->hit));
        warn_tier(j, "local", p->published.local_rc, &p->published.local_err);
        warn_tier(j, "shared", p->published.shared_rc, &p->published.shared_err);
        for (size_t i = p->record.front_count; i < j->front_count && j->front_verified; i++)   /* merged meanwhile */
            cache_store_alias_put(d->store, &j->fronts[i], &j->canonical, j->cache_namespace, NULL);
    } else {
        if (rc != NF_OK)
            warn_tier(j, "cache: no", rc, err);
        /* No tier holds it: it is delivered from where the worker left it. */
        for (size_t i = 0; i < p->output_count; i++)
            if (strcmp(p->outputs[i].kind, "neff") == 0 && p->hash_rc == NF_OK)
                scratch_keep_file(d->scratch, p->outputs[i].path, "neff", &p->outputs[i].sha256, p->outputs[i].size, &j->loose, &fail);
    }
    for (size_t i = 0; i < p->output_count && i < j->output_count; i++) {
        j->outputs[i].sha256 = p->outputs[i].sha256;
        j->outputs[i].size = p->outputs[i].size;
    }
    if (!j->hit && !j->loose) {
        if (!fail.code)
            fail = err->code ? *err : fail;
        if (!fail.code)
            nf_fail(&fail, NF_EIO, "the artifact cannot be kept anywhere");
        fail.stage = NEFFD__V1__STAGE__STAGE_PUBLISH;
        job_end_failed(j, &fail);
    } else {
        job_answer_compiled(j);
    }
    job_unref(j);
}

void job_run_publish(struct job *j)
{
    struct daemon *d = j->d;
    struct publish *p = nf_alloc(sizeof *p);
    job_state_set(j, JOB_PUBLISH);
    j->stage = NEFFD__V1__STAGE__STAGE_PUBLISH;
    j->stage_since_ns = nf_now_ns();
    j->stage_detail[0] = '\0';
    event_all(j, PENDING_STAGE);
    p->task.run = publish_run;
    p->task.end = publish_end;
    p->task.free = publish_free;
    p->job = job_ref(j);
    p->store = !(j->waiter_count && job_all(j, waiter_no_publish));
    for (const struct waiter *w = j->waiters; w; w = w->next)
        p->replace = p->replace || (w->req->start->ignore_cache && !w->req->start->no_publish);
    p->work_dir = nf_strdup(j->work_dir);
    p->max_text = (uint64_t)64 << 20;
    p->outputs = nf_alloc_array(j->output_count + 1, sizeof *p->outputs);
    p->output_count = j->output_count;
    for (size_t i = 0; i < j->output_count; i++) {
        p->outputs[i] = j->outputs[i];
        p->outputs[i].path = nf_strdup(j->outputs[i].path);
        if (strcmp(j->outputs[i].kind, "neff") == 0 && !p->artifact)
            p->artifact = nf_strdup(j->outputs[i].path);
    }
    record_take(&p->record, j, CACHE_KIND_NEFF);
    nf_format(p->compile_id, sizeof p->compile_id, "%s", j->prov_id);
    const char *tool = j->leader && j->leader->tool[0] ? j->leader->tool : "unknown tool";
    if (j->leader_peer.unix_socket)
        nf_format(p->created_by, sizeof p->created_by, "uid %u, %.100s", j->leader_peer.uid, tool);
    else
        nf_format(p->created_by, sizeof p->created_by, "tcp, %.100s", tool);
    p->record.meta.created_by = nf_str_c(p->created_by);
    p->record.meta.compile_id = nf_str_c(p->compile_id);
    p->record.meta.compile_us = (uint64_t)(j->compile_ns / 1000);
    p->record.meta.peak_rss_bytes = j->peak_rss;
    task_start(d, &p->task);
}

/* ------------------------------------------------------------------------------------------------------------- explain */

struct explain {
    struct task task;
    struct job *job;
    char *work_dir;
    char **readable;              /* namespaces; NULL: all */
    size_t readable_count;
    struct nf_arena *arena;
    struct cache_explanation result;
};

static int explain_run(struct task *t, struct nf_error *err)
{
    struct explain *x = (struct explain *)t;
    struct details details;
    int rc = details_read(x->work_dir, 0, x->arena, &details, err);
    if (rc < 0)
        return rc;
    struct cache_request_view view = {.components = details.components, .component_count = details.component_count};
    return cache_explain_nearest(t->d->store, &view, (const char *const *)x->readable, x->readable_count, x->arena, &x->result, err);
}

static void explain_free(struct task *t)
{
    struct explain *x = (struct explain *)t;
    for (size_t i = 0; i < x->readable_count; i++)
        free(x->readable[i]);
    free(x->readable);
    free(x->work_dir);
    nf_arena_free(x->arena);
    free(x);
}

static void fill_explanation(const struct cache_explanation *e, Neffd__V1__Explanation *m, Neffd__V1__Difference **list, Neffd__V1__Difference *items)
{
    neffd__v1__explanation__init(m);
    m->found = e->found;
    if (!e->found)
        return;
    m->nearest_key = rpc_binary(e->nearest_key.bytes, NF_DIGEST_BYTES);
    m->nearest_name = (char *)(uintptr_t)(e->nearest_name ? e->nearest_name : "");
    m->similarity = e->similarity;
    m->differences = list;
    m->n_differences = e->difference_count;
    for (size_t i = 0; i < e->difference_count; i++) {
        const struct cache_difference *x = &e->differences[i];
        neffd__v1__difference__init(&items[i]);
        items[i].component = (char *)(uintptr_t)(x->component ? x->component : "");
        items[i].name = (char *)(uintptr_t)(x->name ? x->name : "");
        items[i].cached = (char *)(uintptr_t)(x->cached ? x->cached : "");
        items[i].requested = (char *)(uintptr_t)(x->requested ? x->requested : "");
        items[i].location = (char *)(uintptr_t)(x->location ? x->location : "");
        list[i] = &items[i];
    }
}

static void explain_end(struct task *t, int rc, const struct nf_error *err)
{
    struct explain *x = (struct explain *)t;
    struct job *j = x->job;
    struct cache_explanation none = {0};
    const struct cache_explanation *e = rc == NF_OK ? &x->result : &none;
    if (rc != NF_OK)
        nf_log(NF_LOG_WARNING, "job", "no explanation", "id=%llu why=%s", (unsigned long long)j->id, nf_log_quote(err->message));
    j->explaining = false;
    if (!j->finished) {
        Neffd__V1__Explanation m;
        Neffd__V1__Difference **list = nf_alloc_array(e->difference_count + 1, sizeof *list);
        Neffd__V1__Difference *items = nf_alloc_array(e->difference_count + 1, sizeof *items);
        fill_explanation(e, &m, list, items);
        struct waiter *next;
        for (struct waiter *w = j->waiters; w; w = next) {
            next = w->next;
            if (!waiter_is_explain(w))
                continue;
            job_detach(j, w);
            job_answer_miss(w, j, &m);
        }
        free(list);
        free(items);
        if (e->found && j->waiter_count) {
            struct nf_buf line = NF_BUF_INIT;
            cache_explain_line(e, &line);
            event_log(j, NF_LOG_INFO, "explain", nf_buf_str(&line));
            nf_buf_done(&line);
        }
        j->explained = true;
        if (j->state == JOB_EXPLAIN)
            job_step_compile(j);
        else if (!j->waiter_count)
            job_last_waiter_left(j);
    }
    job_unref(j);
}

void job_run_explain(struct job *j)
{
    if (j->explaining || !j->work_dir || (j->explained && !job_any(j, waiter_is_explain)))
        return;
    const struct cfg *cfg = j->d->cfg;
    struct explain *x = nf_alloc(sizeof *x);
    j->explaining = true;
    x->task.run = explain_run;
    x->task.end = explain_end;
    x->task.free = explain_free;
    x->job = job_ref(j);
    x->work_dir = nf_strdup(j->work_dir);
    x->arena = nf_arena_new(0);
    bool all = false;
    for (size_t i = 0; i < cfg->namespaces.len; i++)
        all = all || strcmp(cfg->namespaces.items[i], "*") == 0;
    if (!all) {
        x->readable = nf_alloc_array(cfg->namespaces.len + 3, sizeof *x->readable);
        x->readable[x->readable_count++] = nf_strdup("");
        x->readable[x->readable_count++] = nf_strdup(j->cache_namespace);
        for (size_t i = 0; i < cfg->namespaces.len; i++)
            x->readable[x->readable_count++] = nf_strdup(cfg->namespaces.items[i]);
    }
    task_start(j->d, &x->task);
}
