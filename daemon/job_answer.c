/* job_answer.c: the last word to each waiter: hit, compiled, joined, miss, remembered failure, or the text of a stage. */
#include "daemon/job_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/details.h"
#include "daemon/hit.h"

#include <fcntl.h>
#include <unistd.h>

#define KEEP_MAX 8

struct intermediates {
    Neffd__V1__Artifact items[KEEP_MAX];
    Neffd__V1__Artifact *list[KEEP_MAX];
    size_t count;
};

static void add_intermediate(struct intermediates *x, const struct waiter *w, const char *kind, const struct loose_file *f, const char *target)
{
    if (x->count == KEEP_MAX)
        return;
    Neffd__V1__Artifact *a = x->list[x->count] = &x->items[x->count];
    x->count++;
    neffd__v1__artifact__init(a);
    a->kind = (char *)(uintptr_t)kind;
    bool path = w->peer.unix_socket && w->req->start->delivery != NEFFD__V1__DELIVERY__DELIVERY_FETCH;
    a->path = path ? f->path : (char *)(uintptr_t)"";
    a->sha256 = rpc_binary(f->sha256.bytes, NF_DIGEST_BYTES);
    a->size = f->size;
    a->target = (char *)(uintptr_t)target;
    a->owner_uid = (uint32_t)geteuid();
}

static bool wants(const struct waiter *w, const char *kind)
{
    for (size_t i = 0; i < w->req->start->n_keep; i++)
        if (strcmp(w->req->start->keep[i], kind) == 0)
            return true;
    return false;
}

/* What `keep` asks for can, on a hit, only be the text that is stored with the entry. */
static void intermediates_of_hit(struct waiter *w, struct cache_hit *hit, const char *target, struct intermediates *x)
{
    if (!wants(w, "stablehlo"))
        return;
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    struct nf_str t = {NULL, 0};
    struct nf_error err = {0};
    const struct loose_file *f;
    if (cache_hit_meta(hit, arena, &meta, &err) == NF_OK && cache_meta_text(&meta, arena, &t, &err) == NF_OK && t.len &&
        scratch_keep_bytes(w->d->scratch, t, "stablehlo", &f, &err) == NF_OK)
        add_intermediate(x, w, "stablehlo", f, target);
    nf_arena_free(arena);
}

static void fill_times(const struct waiter *w, const struct job *j, Neffd__V1__Times *t, bool compiled)
{
    t->total_us = (uint64_t)((nf_now_ns() - w->started_ns) / 1000);
    if (!j)
        return;
    t->queue_us = (uint64_t)(j->queue_ns / 1000);
    t->lock_us = (uint64_t)(j->lock_ns / 1000);
    if (compiled) {
        t->compile_us = (uint64_t)(j->compile_ns / 1000);
        t->publish_us = (uint64_t)(j->publish_ns / 1000);
    }
}

static const struct nf_digest *front_of(const struct waiter *w, const struct job *j)
{
    if (w->has_claim)
        return &w->claimed;
    return j && j->front_count && j->front_verified ? &j->fronts[0] : NULL;
}

static void explain_hit(const struct waiter *w, struct hit_answer *a, Neffd__V1__Explanation *x)
{
    if (!waiter_is_explain(w))
        return;
    neffd__v1__explanation__init(x);
    x->found = true;
    x->nearest_key = a->done.canonical_key;
    x->nearest_name = a->info.name;
    x->similarity = 1;
    a->done.explanation = x;
}

static void answer_hit(struct waiter *w, struct job *j, struct cache_hit *hit, enum cache_tier tier, const struct nf_digest *front, bool front_hit)
{
    struct daemon *d = w->d;
    struct hit_answer a;
    struct intermediates x = {.count = 0};
    Neffd__V1__Explanation explanation;
    bool shared = tier == CACHE_TIER_SHARED;
    hit_answer_fill(&a, hit, shared ? NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED : NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, front, &w->peer,
                    w->req->start->delivery);
    fill_times(w, j, &a.times, false);
    explain_hit(w, &a, &explanation);
    intermediates_of_hit(w, hit, a.info.target, &x);
    a.done.intermediates = x.list;
    a.done.n_intermediates = x.count;
    COUNT(&d->counters, compile_us_saved, a.info.compile_us);
    if (shared)
        COUNT(&d->counters, hits_shared, 1);
    else
        COUNT(&d->counters, hits_local, 1);
    if (front_hit)
        COUNT(&d->counters, front_hits, 1);
    else
        COUNT(&d->counters, canonical_hits, 1);
    waiter_done(w, &a.done, j ? j->id : 0);
}

void waiter_answer_hit(struct waiter *w, struct cache_hit *hit, enum cache_tier tier, const struct nf_digest *front)
{
    answer_hit(w, NULL, hit, tier, front, true);
    cache_hit_close(hit);
}

void job_answer_hit(struct job *j, struct cache_hit *hit, enum cache_tier tier, bool front_hit)
{
    cache_store_note_use(j->d->store, &cache_hit_footer(hit)->key);
    if (j->front_verified && j->has_canonical)   /* the next one will not have to be parsed */
        for (size_t i = 0; i < j->front_count; i++)
            cache_store_alias_put(j->d->store, &j->fronts[i], &j->canonical, j->cache_namespace, NULL);
    struct waiter *next;
    for (struct waiter *w = j->waiters; w; w = next) {
        next = w->next;
        if (waiter_is_fresh(w))
            continue;
        job_detach(j, w);
        answer_hit(w, j, hit, tier, front_of(w, j), front_hit);
    }
    cache_hit_close(j->hit);
    j->hit = hit;
    if (!j->waiter_count)
        job_dissolve(j, JOB_DONE);
}

static void job_intermediates(struct job *j, struct waiter *w, struct intermediates *x)
{
    struct nf_error err = {0};
    const struct loose_file *f;
    if (!w->req->start->n_keep)
        return;
    if (wants(w, "stablehlo") && j->work_dir) {
        char *path = nf_asprintf("%s/" DETAILS_TEXT, j->work_dir);
        struct nf_map_view v;
        if (nf_map_view_open(path, &v, &err) == NF_OK) {
            if (scratch_keep_bytes(j->d->scratch, nf_str_n(v.data, v.len), "stablehlo", &f, &err) == NF_OK)
                add_intermediate(x, w, "stablehlo", f, j->target);
            nf_map_view_close(&v);
        }
        free(path);
    }
    for (size_t i = 0; i < j->output_count; i++) {
        struct output *o = &j->outputs[i];
        if (strcmp(o->kind, "neff") == 0 || strcmp(o->kind, "stablehlo") == 0 || !wants(w, o->kind) || nf_digest_zero(&o->sha256))
            continue;
        f = scratch_find(j->d->scratch, &o->sha256);
        if (f || scratch_keep_file(j->d->scratch, o->path, o->kind, &o->sha256, o->size, &f, &err) == NF_OK)
            add_intermediate(x, w, o->kind, f, j->target);
    }
}

static void fill_loose(struct hit_answer *a, const struct job *j, const struct waiter *w, const struct loose_file *f, const char *kind)
{
    neffd__v1__done__init(&a->done);
    neffd__v1__artifact__init(&a->artifact);
    neffd__v1__times__init(&a->times);
    neffd__v1__provenance__init(&a->provenance);
    const struct nf_digest *front = front_of(w, j);
    if (front) {
        a->front = *front;
        a->done.front_key = rpc_binary(a->front.bytes, NF_DIGEST_BYTES);
    }
    if (j->has_canonical) {
        a->key = j->canonical;
        a->done.canonical_key = rpc_binary(a->key.bytes, NF_DIGEST_BYTES);
    }
    bool path = w->peer.unix_socket && w->req->start->delivery != NEFFD__V1__DELIVERY__DELIVERY_FETCH;
    nf_format(a->path, sizeof a->path, "%s", path ? f->path : "");
    a->sha256 = f->sha256;
    a->artifact.kind = (char *)(uintptr_t)kind;
    a->artifact.path = a->path;
    a->artifact.sha256 = rpc_binary(a->sha256.bytes, NF_DIGEST_BYTES);
    a->artifact.size = f->size;
    a->artifact.target = (char *)(uintptr_t)j->target;
    a->artifact.compiler = (char *)(uintptr_t)j->toolchain.compiler;
    a->artifact.owner_uid = (uint32_t)geteuid();
    a->provenance.host = (char *)(uintptr_t)j->prov_host;
    a->provenance.pid = (uint32_t)getpid();
    a->provenance.started_us = (uint64_t)j->wall_started_us;
    a->provenance.compile_id = (char *)(uintptr_t)j->prov_id;
    a->provenance.attempts = j->attempts;
    a->provenance.compile_us = (uint64_t)(j->compile_ns / 1000);
    a->done.artifact = &a->artifact;
    a->done.times = &a->times;
    a->done.provenance = &a->provenance;
}

static void fill_stages(const struct job *j, Neffd__V1__Done *done, Neffd__V1__StageTime **list)
{
    for (size_t i = 0; i < j->stage_count; i++)
        list[i] = (Neffd__V1__StageTime *)(uintptr_t)&j->stage_times[i];
    done->stages = list;
    done->n_stages = j->stage_count;
}

static struct answers *answers_new(const struct job *j)
{
    struct answers *a = nf_alloc(sizeof *a);
    a->job_id = j->id;
    return a;
}

static void answers_add(struct answers *a, struct waiter *w)
{
    if (!w->call)
        return;
    w->answers = a;
    a->open++;
    a->joined += w->joined;
}

/* Everybody at once: the answers differ in the outcome and the caller's own front key only. */
void job_answer_compiled(struct job *j)
{
    struct daemon *d = j->d;
    struct answers *record = answers_new(j);
    bool leader = true;
    for (struct waiter *w = j->waiters; w; w = w->next)
        if (!w->joined && !waiter_is_lookup(w))
            leader = false;
    /* The one that began it may be gone: then the first of the others counts as the one that it was compiled for. */
    size_t n = j->waiter_count;
    srv_burst(d->server, n);
    while (j->waiters) {
        struct waiter *w = j->waiters;
        struct hit_answer a;
        struct intermediates x = {.count = 0};
        Neffd__V1__StageTime *stages[NF_ARRAY_LEN(j->stage_times)];
        job_detach(j, w);
        if (waiter_is_lookup(w)) {
            job_answer_miss(w, j, NULL);
            continue;
        }
        if (leader)
            w->joined = leader = false;
        Neffd__V1__Outcome outcome = w->joined ? NEFFD__V1__OUTCOME__OUTCOME_JOINED : NEFFD__V1__OUTCOME__OUTCOME_COMPILED;
        if (j->hit)
            hit_answer_fill(&a, j->hit, outcome, front_of(w, j), &w->peer, w->req->start->delivery);
        else
            fill_loose(&a, j, w, j->loose, "neff");
        a.done.outcome = outcome;
        fill_times(w, j, &a.times, true);
        fill_stages(j, &a.done, stages);
        job_intermediates(j, w, &x);
        a.done.intermediates = x.list;
        a.done.n_intermediates = x.count;
        if (w->joined) {
            COUNT(&d->counters, joined, 1);
            COUNT(&d->counters, compile_us_saved, j->compile_ns / 1000);
        }
        answers_add(record, w);
        waiter_done(w, &a.done, j->id);
    }
    nf_log(NF_LOG_INFO, "job", "done", "id=%llu name=%s waiters=%zu compile_ms=%lld publish_ms=%lld peak_rss_mib=%llu attempts=%u",
           (unsigned long long)j->id, nf_log_quote(j->name), n, (long long)(j->compile_ns / NF_MS), (long long)(j->publish_ns / NF_MS),
           (unsigned long long)(j->peak_rss >> 20), j->attempts);
    if (!record->open)
        free(record);
    job_dissolve(j, JOB_DONE);
}

void job_answer_failure(struct job *j, const struct cache_failure *f)
{
    struct nf_error err = f->error;
    err.from_cache = true;
    struct waiter *next;
    for (struct waiter *w = j->waiters; w; w = next) {
        next = w->next;
        if (waiter_no_failures(w))
            continue;
        job_detach(j, w);
        COUNT(&j->d->counters, failures_from_cache, 1);
        waiter_failed(w, &err, j, f);
    }
    if (!j->waiter_count)
        job_dissolve(j, JOB_FAILED);
}

void job_answer_miss(struct waiter *w, const struct job *j, Neffd__V1__Explanation *explanation)
{
    struct hit_answer a;
    hit_answer_miss(&a, front_of(w, j), j->has_canonical ? &j->canonical : NULL);
    fill_times(w, j, &a.times, false);
    a.done.explanation = explanation;
    COUNT(&w->d->counters, misses, 1);
    waiter_done(w, &a.done, j->id);
}

void job_answer_stage(struct job *j)
{
    struct nf_error err = {0};
    struct nf_map_view v;
    const struct loose_file *f = NULL;
    char *path = nf_asprintf("%s/" DETAILS_TEXT, j->work_dir);
    int rc = nf_map_view_open(path, &v, &err);
    if (rc == NF_OK) {
        rc = scratch_keep_bytes(j->d->scratch, nf_str_n(v.data, v.len), "stablehlo", &f, &err);
        nf_map_view_close(&v);
    }
    free(path);
    if (rc < 0) {
        job_end_failed(j, &err);
        return;
    }
    while (j->waiters) {
        struct waiter *w = j->waiters;
        struct hit_answer a;
        Neffd__V1__StageTime *stages[NF_ARRAY_LEN(j->stage_times)];
        job_detach(j, w);
        fill_loose(&a, j, w, f, "stablehlo");
        a.done.outcome = w->joined ? NEFFD__V1__OUTCOME__OUTCOME_JOINED : NEFFD__V1__OUTCOME__OUTCOME_COMPILED;
        fill_times(w, j, &a.times, false);
        fill_stages(j, &a.done, stages);
        waiter_done(w, &a.done, j->id);
    }
    job_dissolve(j, JOB_DONE);
}
