/* svc_admin.c: neffd.v1.Admin.
 *
 * What walks the whole cache (list, verify, collect) runs on a thread of the store and hands its messages over in a bounded queue:
 * entries wait for a slow reader, up to STREAM_PATIENCE; progress is latest-wins. */
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/job.h"
#include "daemon/task.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>
#include <uv.h>

#define STREAM_QUEUE 128
#define STREAM_PATIENCE_NS (30 * NF_SEC)
#define JOBS_COALESCE_MS 50

#define DECODE(type, name, call, message)                                                           \
    struct nf_error name##_err = {0};                                                               \
    ProtobufCMessage *name##_m = NULL;                                                              \
    if (rpc_decode(&type##__descriptor, message, &name##_m, &name##_err) < 0) {                     \
        srv_finish(call, &name##_err);                                                              \
        return;                                                                                     \
    }

/* --------------------------------------------------------------------------------------------------------------- Status */

static const char *const features[] = {"front_keys", "canonical_keys", "join", "merge", "explain", "remembered_failures", "namespaces", "fetch", "stop_after"};

struct status {
    struct task task;
    struct srv_call *call;
    Neffd__V1__Counters lifetime;
    struct cache_store_status cache;
};

static int status_run(struct task *t, struct nf_error *err)
{
    struct status *s = (struct status *)t;
    (void)err;
    counters_read_lifetime(t->d->store, &s->lifetime);
    cache_store_status(t->d->store, &s->cache);
    return NF_OK;
}

static void status_end(struct task *t, int rc, const struct nf_error *err)
{
    struct status *s = (struct status *)t;
    struct daemon *d = t->d;
    (void)rc, (void)err;
    if (!s->call)
        return;
    Neffd__V1__StatusReply r = NEFFD__V1__STATUS_REPLY__INIT;
    Neffd__V1__Counters now = NEFFD__V1__COUNTERS__INIT;
    Neffd__V1__CacheStatus cache = NEFFD__V1__CACHE_STATUS__INIT;
    struct job_counts jobs = job_counts(d->jobs);
    const char *targets[32];
    char default_target[64] = "";
    const struct toolchain *tc;
    char *remarks[32];
    size_t n = 0, n_remarks = 0;
    for (size_t i = 0; (tc = toolchains_at(d->toolchains, i)) && n < NF_ARRAY_LEN(targets); i++)
        if (!tc->err.code) {
            targets[n++] = tc->info.target;
            if (tc->remark[0])
                remarks[n_remarks++] = nf_asprintf("%s: %s", tc->info.target, tc->remark);
        }
    if (toolchains_find(d->toolchains, "", &tc, NULL) == NF_OK)
        nf_format(default_target, sizeof default_target, "%s", tc->info.target);
    counters_fill(&d->counters, &now);
    counters_complete_lifetime(&d->counters, &s->lifetime);
    cache.shared_dir = s->cache.shared_dir;
    cache.local_dir = s->cache.local_dir;
    cache.shared_writable = s->cache.shared_writable;
    cache.entries = s->cache.entries;
    cache.bytes = s->cache.bytes;
    cache.local_bytes = s->cache.local_bytes;
    cache.limit_bytes = s->cache.limit_bytes;
    cache.trouble = s->cache.trouble;
    r.version = (char *)(uintptr_t)NEFFD_VERSION;
    r.pid = (uint32_t)getpid();
    r.uptime_us = (uint64_t)((nf_now_ns() - d->started_ns) / 1000);
    r.rss_bytes = tree_rss_of(getpid());
    r.draining = d->draining;
    r.jobs_queued = jobs.queued;
    r.jobs_running = jobs.running;
    r.waiters = jobs.waiters;
    r.workers = d->workers ? (uint32_t)worker_pool_count(d->workers) : 0;
    r.counters = &now;
    r.counters_lifetime = &s->lifetime;
    r.cache = &cache;
    r.default_target = default_target;
    r.targets = (char **)(uintptr_t)targets;
    r.n_targets = n;
    r.api_version = 1;
    r.features = (char **)(uintptr_t)features;
    r.n_features = NF_ARRAY_LEN(features);
    r.remarks = remarks;
    r.n_remarks = n_remarks;
    srv_call_set_user(s->call, NULL);
    srv_reply(s->call, &r.base);
    for (size_t i = 0; i < n_remarks; i++)
        free(remarks[i]);
}

static void status_free(struct task *t) { free(t); }

static void status_request(struct srv_call *call, struct nf_str message)
{
    struct daemon *d = the_daemon;
    struct status *s = nf_alloc(sizeof *s);
    (void)message;
    s->task.run = status_run;
    s->task.end = status_end;
    s->task.free = status_free;
    s->call = call;
    neffd__v1__counters__init(&s->lifetime);
    counters_save(&d->counters, d->store);
    srv_call_set_user(call, s);
    task_start(d, &s->task);
}

static void status_closed(struct srv_call *call, bool cancelled)
{
    struct status *s = srv_call_user(call);
    (void)cancelled;
    if (s)
        s->call = NULL;
}

const struct srv_handler svc_status = {.on_request = status_request, .on_closed = status_closed};

/* ----------------------------------------------------------------------------------------------------------------- Jobs */

struct jobs_watch {
    struct jobs_watch *next;
    struct srv_call *call;
    bool changed;
};
static struct jobs_watch *jobs_watches;
static uv_timer_t jobs_timer;
static bool jobs_timer_open;

static void send_jobs(struct jobs_watch *w)
{
    if (!w->changed || !srv_call_can_send(w->call))
        return;
    w->changed = false;
    struct nf_buf b = NF_BUF_INIT;
    job_list(the_daemon->jobs, &b);
    srv_send_bytes(w->call, b.data, b.len, NULL, 0);
    nf_buf_done(&b);
}

static void on_jobs_timer(uv_timer_t *t)
{
    (void)t;
    for (struct jobs_watch *w = jobs_watches; w; w = w->next)
        send_jobs(w);
}

void svc_jobs_changed(struct daemon *d)
{
    if (!jobs_watches)
        return;
    if (!jobs_timer_open) {
        jobs_timer_open = true;
        uv_timer_init(d->loop, &jobs_timer);
    }
    for (struct jobs_watch *w = jobs_watches; w; w = w->next)
        w->changed = true;
    if (!uv_is_active((uv_handle_t *)&jobs_timer))
        uv_timer_start(&jobs_timer, on_jobs_timer, JOBS_COALESCE_MS, 0);
}

void svc_admin_close(struct daemon *d)
{
    (void)d;
    if (jobs_timer_open)
        uv_close((uv_handle_t *)&jobs_timer, NULL);
    jobs_timer_open = false;
}

static void jobs_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__jobs_request, r, call, message)
    bool watch = ((Neffd__V1__JobsRequest *)r_m)->watch;
    protobuf_c_message_free_unpacked(r_m, NULL);
    struct jobs_watch w = {.call = call, .changed = true};
    if (watch) {
        struct jobs_watch *kept = nf_alloc(sizeof *kept);
        *kept = w;
        kept->next = jobs_watches;
        jobs_watches = kept;
        srv_call_set_user(call, kept);
        send_jobs(kept);
    } else {
        send_jobs(&w);
        srv_finish(call, NULL);
    }
}

static void jobs_sent(struct srv_call *call)
{
    struct jobs_watch *w = srv_call_user(call);
    if (w && w->changed && !uv_is_active((uv_handle_t *)&jobs_timer) && jobs_timer_open)
        uv_timer_start(&jobs_timer, on_jobs_timer, JOBS_COALESCE_MS, 0);
}

static void jobs_closed(struct srv_call *call, bool cancelled)
{
    struct jobs_watch *w = srv_call_user(call);
    (void)cancelled;
    for (struct jobs_watch **at = &jobs_watches; w && *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            free(w);
            return;
        }
}

const struct srv_handler svc_jobs = {.on_request = jobs_request, .on_sent = jobs_sent, .on_closed = jobs_closed};

static void cancel_job_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__cancel_job_request, r, call, message)
    Neffd__V1__CancelJobReply reply = NEFFD__V1__CANCEL_JOB_REPLY__INIT;
    char why[96];
    nf_format(why, sizeof why, "cancelled by uid %u, pid %u", srv_call_peer(call)->uid, srv_call_peer(call)->pid);
    reply.found = job_cancel(the_daemon, ((Neffd__V1__CancelJobRequest *)r_m)->id, why);
    protobuf_c_message_free_unpacked(r_m, NULL);
    srv_reply(call, &reply.base);
}

const struct srv_handler svc_cancel_job = {.on_request = cancel_job_request};

/* ------------------------------------------------------------------------------------------------------------ GetConfig */

static void get_config_request(struct srv_call *call, struct nf_str message)
{
    (void)message;
    Neffd__V1__GetConfigReply reply = NEFFD__V1__GET_CONFIG_REPLY__INIT;
    Neffd__V1__Setting *items = nf_alloc_array(CFG_ID_MAX, sizeof *items);
    Neffd__V1__Setting **list = nf_alloc_array(CFG_ID_MAX, sizeof *list);
    struct cfg_setting *settings = nf_alloc_array(CFG_ID_MAX, sizeof *settings);
    for (int i = 0; i < CFG_ID_MAX; i++) {
        struct cfg_setting *s = &settings[i];
        *s = cfg_setting(the_daemon->cfg, (enum cfg_id)i);
        Neffd__V1__Setting *m = list[i] = &items[i];
        neffd__v1__setting__init(m);
        m->name = (char *)(uintptr_t)s->name;
        m->value = (char *)(uintptr_t)s->value;
        m->source = (char *)(uintptr_t)s->source;
        m->default_value = (char *)(uintptr_t)s->default_value;
        m->help = (char *)(uintptr_t)s->help;
        m->scope = (char *)(uintptr_t)s->scope;
        m->in_effect = s->in_effect;
        m->env = (char **)(uintptr_t)s->env;
        while (s->env && s->env[m->n_env])
            m->n_env++;
    }
    reply.settings = list;
    reply.n_settings = CFG_ID_MAX;
    srv_reply(call, &reply.base);
    free(settings);
    free(list);
    free(items);
}

const struct srv_handler svc_get_config = {.on_request = get_config_request};

/* ------------------------------------------------------------------------------------------- streams out of the cache */

enum stream_kind { STREAM_LIST, STREAM_VERIFY, STREAM_GC };

struct stream {
    struct task task;
    struct post_item wake;
    enum stream_kind kind;
    /* Guards what follows up to `loop`: filled by the store's thread, emptied by the loop. A leaf. */
    pthread_mutex_t lock;
    pthread_cond_t room;
    char *queue[STREAM_QUEUE];
    size_t lengths[STREAM_QUEUE];
    size_t head, count;
    char *progress;
    size_t progress_len;
    bool stop, waking;
    /* constant */
    char *ns, *filter;
    uint32_t limit;
    bool flag;
    uint64_t target_bytes;
    /* loop */
    struct srv_call *call;
    bool over;
    struct nf_error err;
};

static void stream_pump(struct stream *s)
{
    char *bytes = NULL;
    size_t len = 0;
    if (!s->call || !srv_call_can_send(s->call))
        return;
    pthread_mutex_lock(&s->lock);
    if (s->count) {
        bytes = s->queue[s->head];
        len = s->lengths[s->head];
        s->head = (s->head + 1) % STREAM_QUEUE;
        s->count--;
        pthread_cond_signal(&s->room);
    } else if (s->progress) {
        bytes = s->progress;
        len = s->progress_len;
        s->progress = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (bytes) {
        srv_send_bytes(s->call, bytes, len, NULL, 0);
        free(bytes);
    } else if (s->over) {
        struct srv_call *call = s->call;
        s->call = NULL;
        srv_call_set_user(call, NULL);
        srv_finish(call, &s->err);
        task_unref(&s->task);   /* the call's */
    }
}

static void stream_wake(struct post_item *item)
{
    struct stream *s = (struct stream *)((char *)item - offsetof(struct stream, wake));
    pthread_mutex_lock(&s->lock);
    s->waking = false;
    pthread_mutex_unlock(&s->lock);
    stream_pump(s);
}

/* Store's thread. Not 0: stop. */
static int stream_put(struct stream *s, const ProtobufCMessage *m, bool latest_wins)
{
    struct nf_buf b = NF_BUF_INIT;
    if (rpc_encode(m, &b) < 0) {
        nf_buf_done(&b);
        return 0;
    }
    size_t len = b.len;
    char *bytes = nf_buf_take(&b);
    int rc = 0;
    bool wake = false;
    pthread_mutex_lock(&s->lock);
    if (latest_wins) {
        free(s->progress);
        s->progress = bytes;
        s->progress_len = len;
    } else {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += STREAM_PATIENCE_NS / NF_SEC;
        while (s->count == STREAM_QUEUE && !s->stop && rc == 0)
            rc = pthread_cond_timedwait(&s->room, &s->lock, &until);
        if (s->stop || rc) {
            free(bytes);
            rc = NF_ECANCELLED;
        } else {
            size_t at = (s->head + s->count++) % STREAM_QUEUE;
            s->queue[at] = bytes;
            s->lengths[at] = len;
            free(s->progress); /* older than what has just been queued */
            s->progress = NULL;
        }
    }
    if (s->stop)
        rc = NF_ECANCELLED;
    if (!s->waking)
        wake = s->waking = true;
    pthread_mutex_unlock(&s->lock);
    if (wake)
        post_push(s->task.d->post, &s->wake);
    return rc;
}

static int on_entry(void *user, const struct cache_entry_info *e)
{
    Neffd__V1__Entry m = NEFFD__V1__ENTRY__INIT;
    Neffd__V1__Artifact a = NEFFD__V1__ARTIFACT__INIT;
    Neffd__V1__Error f = NEFFD__V1__ERROR__INIT;
    m.canonical_key = rpc_binary(e->key.bytes, NF_DIGEST_BYTES);
    m.name = (char *)(uintptr_t)(e->name ? e->name : "");
    m.created_us = (uint64_t)e->created_us;
    m.last_used_us = (uint64_t)e->last_used_us;
    m.compile_us = e->compile_us;
    m.cache_namespace = (char *)(uintptr_t)(e->cache_namespace ? e->cache_namespace : "");
    m.created_by = (char *)(uintptr_t)(e->created_by ? e->created_by : "");
    if (e->failure) {
        rpc_error_to_message(&e->failure->error, &f);
        f.canonical_key = m.canonical_key;
        f.from_cache = true;
        m.failure = &f;
    } else {
        a.kind = (char *)(uintptr_t)cache_kind_word(e->kind);
        a.path = (char *)(uintptr_t)e->path;
        a.sha256 = rpc_binary(e->sha256.bytes, NF_DIGEST_BYTES);
        a.size = e->size;
        a.target = (char *)(uintptr_t)(e->target ? e->target : "");
        a.compiler = (char *)(uintptr_t)(e->compiler ? e->compiler : "");
        a.owner_uid = e->owner;
        m.artifact = &a;
    }
    return stream_put(user, &m.base, false);
}

static int on_progress(void *user, const struct cache_progress *p)
{
    Neffd__V1__CacheProgress m = NEFFD__V1__CACHE_PROGRESS__INIT;
    m.done = p->done;
    m.total = p->total;
    m.bad = p->bad;
    m.removed = p->removed;
    m.bytes_freed = p->bytes_freed;
    m.note = (char *)(uintptr_t)p->note;
    m.finished = p->finished;
    /* What is said about a damaged entry, and the last word, are not to be lost. */
    return stream_put(user, &m.base, !p->finished && !p->note[0]);
}

static int stream_run(struct task *t, struct nf_error *err)
{
    struct stream *s = (struct stream *)t;
    struct cache_store *store = t->d->store;
    switch (s->kind) {
    case STREAM_LIST:
        cache_store_flush(store);
        return cache_store_list(store, s->ns[0] ? s->ns : NULL, s->filter[0] ? s->filter : NULL, s->limit, on_entry, s, err);
    case STREAM_VERIFY:
        return cache_store_verify(store, s->flag, on_progress, s, err);
    case STREAM_GC:
        return cache_store_gc(store, s->target_bytes, s->flag, on_progress, s, err);
    }
    return NF_EINTERNAL;
}

static void stream_end(struct task *t, int rc, const struct nf_error *err)
{
    struct stream *s = (struct stream *)t;
    s->over = true;
    if (rc < 0) {
        s->err = *err;
        if (!s->err.code)
            nf_fail(&s->err, rc, "%s", nf_status_text(rc));
    }
    stream_pump(s);
}

static void stream_free(struct task *t)
{
    struct stream *s = (struct stream *)t;
    while (s->count) {
        free(s->queue[s->head]);
        s->head = (s->head + 1) % STREAM_QUEUE;
        s->count--;
    }
    free(s->progress);
    free(s->ns);
    free(s->filter);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->room);
    free(s);
}

static struct stream *stream_new(struct srv_call *call, enum stream_kind kind)
{
    struct stream *s = nf_alloc(sizeof *s);
    s->task.run = stream_run;
    s->task.end = stream_end;
    s->task.free = stream_free;
    s->wake.run = stream_wake;
    s->kind = kind;
    s->call = call;
    s->ns = nf_strdup("");
    s->filter = nf_strdup("");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->room, NULL);
    srv_call_set_user(call, s);
    return s;
}

static void stream_start(struct stream *s)
{
    task_start(the_daemon, &s->task);
    atomic_fetch_add_explicit(&s->task.refs, 1, memory_order_relaxed);   /* the call's */
}

static void stream_sent(struct srv_call *call)
{
    if (srv_call_user(call))
        stream_pump(srv_call_user(call));
}

static void stream_closed(struct srv_call *call, bool cancelled)
{
    struct stream *s = srv_call_user(call);
    (void)cancelled;
    if (!s)
        return;
    s->call = NULL;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->lock);
    task_unref(&s->task);
}

static void list_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__list_entries_request, r, call, message)
    const Neffd__V1__ListEntriesRequest *m = (const Neffd__V1__ListEntriesRequest *)r_m;
    struct stream *s = stream_new(call, STREAM_LIST);
    free(s->ns);
    free(s->filter);
    s->ns = nf_strdup(m->cache_namespace);
    s->filter = nf_strdup(m->filter);
    s->limit = m->limit;
    protobuf_c_message_free_unpacked(r_m, NULL);
    stream_start(s);
}

static void verify_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__verify_cache_request, r, call, message)
    struct stream *s = stream_new(call, STREAM_VERIFY);
    s->flag = ((Neffd__V1__VerifyCacheRequest *)r_m)->repair;
    protobuf_c_message_free_unpacked(r_m, NULL);
    stream_start(s);
}

static void gc_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__collect_garbage_request, r, call, message)
    const Neffd__V1__CollectGarbageRequest *m = (const Neffd__V1__CollectGarbageRequest *)r_m;
    struct stream *s = stream_new(call, STREAM_GC);
    s->target_bytes = m->target_bytes ? m->target_bytes : UINT64_MAX;   /* 0: "not given": down to the soft limits */
    s->flag = m->dry_run;
    protobuf_c_message_free_unpacked(r_m, NULL);
    stream_start(s);
}

const struct srv_handler svc_list = {.on_request = list_request, .on_sent = stream_sent, .on_closed = stream_closed};
const struct srv_handler svc_verify = {.on_request = verify_request, .on_sent = stream_sent, .on_closed = stream_closed};
const struct srv_handler svc_gc = {.on_request = gc_request, .on_sent = stream_sent, .on_closed = stream_closed};

/* --------------------------------------------------------------------------------------------------------------- remove */

struct removal {
    struct task task;
    struct srv_call *call;
    struct nf_digest *keys;
    size_t count;
    bool failures_only;
    char *ns;
    uint64_t removed;
};

static int remove_run(struct task *t, struct nf_error *err)
{
    struct removal *r = (struct removal *)t;
    return cache_store_remove(t->d->store, r->keys, r->count, r->failures_only, r->ns[0] ? r->ns : NULL, &r->removed, err);
}

static void remove_end(struct task *t, int rc, const struct nf_error *err)
{
    struct removal *r = (struct removal *)t;
    if (!r->call)
        return;
    struct srv_call *call = r->call;
    r->call = NULL;
    srv_call_set_user(call, NULL);
    if (rc < 0) {
        struct nf_error e = *err;
        if (!e.code)
            nf_fail(&e, rc, "%s", nf_status_text(rc));
        srv_finish(call, &e);
    } else {
        Neffd__V1__RemoveEntriesReply m = NEFFD__V1__REMOVE_ENTRIES_REPLY__INIT;
        m.removed = r->removed;
        srv_reply(call, &m.base);
    }
}

static void remove_free(struct task *t)
{
    struct removal *r = (struct removal *)t;
    free(r->keys);
    free(r->ns);
    free(r);
}

static void remove_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__remove_entries_request, q, call, message)
    const Neffd__V1__RemoveEntriesRequest *m = (const Neffd__V1__RemoveEntriesRequest *)q_m;
    struct nf_error err = {0};
    for (size_t i = 0; i < m->n_canonical_keys && !err.code; i++)
        if (m->canonical_keys[i].len != NF_DIGEST_BYTES)
            nf_fail(&err, NF_EINVAL, "key %zu has %zu bytes instead of 32", i, m->canonical_keys[i].len);
    if (!err.code && !m->n_canonical_keys && !m->failures_only)
        nf_fail(&err, NF_EINVAL, "no keys were given");
    if (err.code) {
        protobuf_c_message_free_unpacked(q_m, NULL);
        srv_finish(call, &err);
        return;
    }
    struct removal *r = nf_alloc(sizeof *r);
    r->task.run = remove_run;
    r->task.end = remove_end;
    r->task.free = remove_free;
    r->call = call;
    r->count = m->n_canonical_keys;
    r->keys = nf_alloc_array(r->count + 1, sizeof *r->keys);
    for (size_t i = 0; i < r->count; i++)
        memcpy(r->keys[i].bytes, m->canonical_keys[i].data, NF_DIGEST_BYTES);
    r->failures_only = m->failures_only;
    r->ns = nf_strdup(m->cache_namespace);
    protobuf_c_message_free_unpacked(q_m, NULL);
    srv_call_set_user(call, r);
    task_start(the_daemon, &r->task);
}

static void remove_closed(struct srv_call *call, bool cancelled)
{
    struct removal *r = srv_call_user(call);
    (void)cancelled;
    if (r)
        r->call = NULL;
}

const struct srv_handler svc_remove = {.on_request = remove_request, .on_closed = remove_closed};

/* ---------------------------------------------------------------------------------------------------------------- drain */

static void drain_request(struct srv_call *call, struct nf_str message)
{
    DECODE(neffd__v1__drain_request, r, call, message)
    struct daemon *d = the_daemon;
    uint64_t ms = ((Neffd__V1__DrainRequest *)r_m)->timeout_ms;
    protobuf_c_message_free_unpacked(r_m, NULL);
    Neffd__V1__DrainReply reply = NEFFD__V1__DRAIN_REPLY__INIT;
    reply.jobs_left = (uint32_t)job_live(d->jobs);
    srv_reply(call, &reply.base);
    daemon_drain(d, ms ? (int64_t)NF_MIN(ms, (uint64_t)INT64_MAX / 4 / NF_MS) * NF_MS : d->cfg->drain_timeout_ns);
}

const struct srv_handler svc_drain = {.on_request = drain_request};
