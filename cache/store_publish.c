/* store_publish.c: an artifact or a failure goes into both tiers.
 *
 *     store thread    metadata packed, artifact measured
 *     mount thread    shared tier: exclusive publish. Another host's whole entry at the name has won: its bytes are admitted
 *     store thread    local tier: the bytes that won; index; answer
 *
 * The shared tier goes first so that everybody on every host gets one publisher's bytes. A mount that is in trouble, read-only,
 * full or gone costs its part only. What the mount's item needs is its own (descriptor, metadata), so that a thread that hangs in it
 * never looks at anything that was given back. */
#include "cache/store_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct publish_job {
    atomic_uint refs;                    /* the chain, and a mount item that may outlive it */
    struct cache_store *store;
    struct nf_arena *arena;              /* owns meta's texts */
    struct cache_meta meta;
    struct nf_buf packed;                /* encoded metadata; constant after the first step */
    struct cache_footer footer;
    int artifact_fd;                     /* -1: artifact */
    struct nf_str artifact;
    uint64_t size;
    bool replace;
    int64_t started_ns;
    cache_publish_fn *done;
    void *user;
    struct cache_published out;
    struct cache_hit *admitted;          /* the winner's bytes, when they came through the mount */
    uint64_t shared_bytes;
    bool shared_full;                    /* over its limit, and eviction did not help */
};

static void job_unref(struct publish_job *j)
{
    if (atomic_fetch_sub(&j->refs, 1) != 1)
        return;
    if (j->artifact_fd >= 0)
        close(j->artifact_fd);
    cache_hit_close(j->admitted);
    nf_buf_done(&j->packed);
    nf_arena_free(j->arena);
    store__unref(j->store);
    free(j);
}

static void job_free(void *ctx)
{
    job_unref(ctx);
}

static void source_of(struct publish_job *j, struct cache__source *source)
{
    if (j->artifact_fd >= 0)
        cache__source_fd(source, j->artifact_fd, CACHE_RAW, j->size, j->size);
    else
        cache__source_memory(source, j->artifact);
}

static struct cache__draft draft_of(const struct publish_job *j, struct cache__source *source)
{
    return (struct cache__draft){
        .cache_namespace = j->meta.cache_namespace,
        .footer = j->footer,
        .meta = nf_buf_str(&j->packed),
        .source = source,
    };
}

/* A new artifact ends what is remembered of an older failure. */
static void forget_failure(const struct cache__tier *t, const struct cache_meta *meta)
{
    char rel[CACHE_PATH_MAX], path[4352];
    cache_entry_path(meta->cache_namespace, &meta->key, cache_kind_suffix(CACHE_KIND_FAILURE), rel);
    nf_format(path, sizeof(path), "%s/%s", t->dir, rel);
    unlink(path);
}

/* ------------------------------------------------------------------------------------------------------- the mount's part */

struct shared_part {
    struct publish_job *job;
    struct cache_hit *admitted;          /* run's results */
    uint64_t shared_bytes;
    bool lost;
};

static int shared_part_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct shared_part *part = ctx;
    struct publish_job *j = part->job;
    struct cache_store *s = j->store;
    struct cache__source source;
    source_of(j, &source);
    struct cache__draft draft = draft_of(j, &source);
    enum cache__place place;
    struct cache__file file;
    uint64_t bad = 0;
    int rc = cache__tier_place(&s->shared, &draft, j->replace, item, &place, &file, &bad, err);
    cache__source_done(&source);
    atomic_fetch_add(&s->quarantined, bad);
    if (rc)
        return rc;
    part->shared_bytes = (uint64_t)file.st.st_size;
    part->lost = place == CACHE_LOST;
    if (part->lost && !nf_digest_eq(&file.footer.sha256, &draft.footer.sha256)) {
        struct nf_error why = {0};
        char rel[CACHE_PATH_MAX], path[4352];
        cache_entry_path(j->meta.cache_namespace, &j->meta.key, cache_kind_suffix(j->meta.kind), rel);
        nf_format(path, sizeof(path), "%s/%s", s->shared.dir, rel);
        if (store__admit(s, &file, path, item, &part->admitted, &why) != NF_OK)
            nf_log(NF_LOG_WARNING, "cache", "the winner's entry cannot be admitted", "path=%s why=%s", nf_log_quote(path), nf_log_quote(why.message));
    }
    close(file.fd);
    if (j->meta.kind != CACHE_KIND_FAILURE)
        forget_failure(&s->shared, &j->meta);
    return NF_OK;
}

static int finish_run(void *ctx, struct cache_mount_item *item, struct nf_error *err);
static void finish_done(void *ctx, int rc, const struct nf_error *err);

static void finish_submit(struct publish_job *j)
{
    cache_mount_submit(j->store->pool, &(struct cache_mount_work){finish_run, finish_done, job_free, j, 0});
}

static void shared_part_done(void *ctx, int rc, const struct nf_error *err)
{
    struct shared_part *part = ctx;
    struct publish_job *j = part->job;
    struct cache_store *s = j->store;
    j->out.shared_rc = rc;
    if (rc) {
        j->out.shared_err = *err;
        if (j->meta.kind != CACHE_KIND_FAILURE)
            atomic_store(&s->backfill_wanted, true);
        if (rc != NF_EMOUNTHUNG && rc != NF_ECANCELLED) {
            atomic_store(&s->shared_writable, false);
            store__trouble(s, CACHE_TIER_SHARED, err);
        }
    } else {
        atomic_store(&s->shared_writable, true);
        store__trouble(s, CACHE_TIER_SHARED, NULL);
        j->admitted = part->admitted;
        part->admitted = NULL;
        j->shared_bytes = part->shared_bytes;
        j->out.ours = !part->lost;
    }
    atomic_fetch_add(&j->refs, 1);
    finish_submit(j);
}

static void shared_part_free(void *ctx)
{
    struct shared_part *part = ctx;
    cache_hit_close(part->admitted);
    job_unref(part->job);
    free(part);
}

/* ------------------------------------------------------------------------------------------------------- the local parts */

static int begin_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct publish_job *j = ctx;
    struct cache_store *s = j->store;
    (void)item;
    struct stat st;
    if (j->artifact_fd >= 0) {
        if (fstat(j->artifact_fd, &st) != 0 || !S_ISREG(st.st_mode))
            return nf_fail(err, NF_EIO, "the artifact is not a file");
        j->size = (uint64_t)st.st_size;
    } else {
        j->size = j->artifact.len;
    }
    if (j->size > s->opt.max_payload_bytes)
        return nf_fail(err, NF_ELIMIT, "an artifact of %llu bytes is over the limit of %llu", (unsigned long long)j->size,
                       (unsigned long long)s->opt.max_payload_bytes);
    if (!j->meta.created_us)
        j->meta.created_us = nf_wall_us();
    int rc = cache__meta_encode(&j->meta, s->limits.max_text_bytes, &j->packed, err);
    if (rc)
        return rc;
    if (s->has_shared && s->limits.shared_hard_bytes)
        j->shared_full = !store__shared_room(s, j->size + j->packed.len);
    j->footer = (struct cache_footer){
        .kind = j->meta.kind,
        .created_us = j->meta.created_us,
        .mtime_s = j->meta.created_us / 1000000,
        .compile_us = j->meta.compile_us,
        .expires_us = j->meta.failure ? j->meta.failure->expires_us : 0,
        .key = j->meta.key,
    };
    return NF_OK;
}

static void answer(struct publish_job *j, int rc, const struct nf_error *err)
{
    struct cache_published out = j->out;
    out.publish_us = (uint64_t)((nf_now_ns() - j->started_ns) / 1000);
    if (rc == NF_OK) {
        atomic_fetch_add(&j->store->published, 1);
        if (!out.ours)
            atomic_fetch_add(&j->store->publish_lost, 1);
    }
    j->out = (struct cache_published){0};
    j->done(j->user, rc, rc == NF_OK ? &out : NULL, err);
}

static void begin_done(void *ctx, int rc, const struct nf_error *err)
{
    struct publish_job *j = ctx;
    if (rc) {
        answer(j, rc, err);
        return;
    }
    if (!j->store->has_shared || j->shared_full) {
        if (j->shared_full) {
            j->out.shared_rc = nf_fail(&j->out.shared_err, NF_ENOSPACE, "%s is full: its limit is %llu bytes", j->store->shared.dir,
                                       (unsigned long long)j->store->limits.shared_hard_bytes);
            store__trouble(j->store, CACHE_TIER_SHARED, &j->out.shared_err);
        } else {
            j->out.shared_rc = nf_fail(&j->out.shared_err, NF_ENOTFOUND, "there is no shared cache directory");
        }
        atomic_fetch_add(&j->refs, 1);
        finish_submit(j);
        return;
    }
    struct shared_part *part = nf_alloc(sizeof(*part));
    part->job = j;
    atomic_fetch_add(&j->refs, 1);
    cache_mount_submit(j->store->mount, &(struct cache_mount_work){shared_part_run, shared_part_done, shared_part_free, part, 0});
}

/* The index learns of it before the answer goes out, so that whoever asks next sees it counted. */
static void index_row(struct publish_job *j, const struct cache_footer *footer, uid_t owner, bool in_local)
{
    struct cache_store *s = j->store;
    struct cache__row row;
    store__row_of_meta(&j->meta, footer, owner, &row);
    cache_sketch_make(j->meta.components, j->meta.component_count, &row.sketch);
    row.shared_bytes = j->shared_bytes;
    row.local_bytes = in_local ? footer->raw_bytes + j->packed.len + CACHE_FOOTER_BYTES : 0;
    row.used_s = nf_wall_us() / 1000000;
    cache__index_put(s->index, &row);
    store__limits_look(s);
    if (j->meta.kind != CACHE_KIND_FAILURE)
        cache__index_drop(s->index, &j->meta.key, true, CACHE_IN_LOCAL | CACHE_IN_SHARED);
    cache__index_flush(s->index, NF_SEC);
    if (s->opt.no_index)
        cache__uses_leave(s->local.dir, &(struct cache__use){j->meta.key, row.used_s}, 1); /* the daemon's index reads of it there */
}

static int finish_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct publish_job *j = ctx;
    struct cache_store *s = j->store;
    (void)item;
    if (j->admitted) { /* with its row */
        j->out.hit = j->admitted;
        j->admitted = NULL;
        cache__index_flush(s->index, NF_SEC);
        return NF_OK;
    }
    struct cache__source source;
    source_of(j, &source);
    struct cache__draft draft = draft_of(j, &source);
    enum cache__place place;
    int rc = store__local_place(s, &draft, j->replace, NULL, &place, &j->out.hit, &j->out.local_err);
    cache__source_done(&source);
    j->out.local_rc = rc;
    if (rc == NF_OK) {
        const struct cache_footer *stands = cache_hit_footer(j->out.hit);
        bool local = cache_hit_tier(j->out.hit) == CACHE_TIER_LOCAL;
        if (!local)
            j->out.local_rc = nf_fail(&j->out.local_err, NF_ENOSPACE, "the local tier cannot take it, %s has it", s->spill.dir);
        else if (j->meta.kind != CACHE_KIND_FAILURE)
            forget_failure(&s->local, &j->meta);
        if (j->out.shared_rc)
            j->out.ours = place == CACHE_PLACED;
        else
            j->out.ours = j->out.ours && nf_digest_eq(&stands->sha256, &draft.footer.sha256);
        index_row(j, stands, cache_hit_owner(j->out.hit), local);
        return NF_OK;
    }
    if (j->out.shared_rc == NF_OK) {
        draft.footer.kind = j->meta.kind;
        index_row(j, &draft.footer, geteuid(), false);
        return NF_OK;
    }
    if (err) { /* neither tier: the local one's cause leads, it is the one that must work */
        *err = j->out.local_err;
        if (s->has_shared)
            nf_error_hint(err, "the shared tier cannot take it either: %.300s", j->out.shared_err.message);
    }
    return rc;
}

static void finish_done(void *ctx, int rc, const struct nf_error *err)
{
    answer(ctx, rc, err);
}

/* ------------------------------------------------------------------------------------------------------------ copying */

static struct nf_str keep(struct nf_arena *arena, struct nf_str s)
{
    return nf_arena_str(arena, s);
}

static struct cache_meta meta_copy(const struct cache_meta *m, struct nf_arena *a)
{
    struct cache_meta c = *m;
    c.name = keep(a, m->name);
    c.cache_namespace = keep(a, m->cache_namespace);
    c.target = keep(a, m->target);
    c.compiler = keep(a, m->compiler);
    c.toolchain_id = keep(a, m->toolchain_id);
    c.created_by = keep(a, m->created_by);
    c.host = keep(a, m->host);
    c.compile_id = keep(a, m->compile_id);
    c.stablehlo = keep(a, m->stablehlo);
    struct cache_component *components = NF_NEW_ARRAY(a, struct cache_component, m->component_count + 1);
    for (size_t i = 0; i < m->component_count; i++) {
        const struct cache_component *from = &m->components[i];
        int kind = cache_component_kind_of(from->component);
        components[i] = (struct cache_component){
            .component = kind >= 0 ? nf_str_c(cache_component_word((enum cache_component_kind)kind)) : keep(a, from->component),
            .name = keep(a, from->name),
            .value = keep(a, from->value),
            .location = keep(a, from->location),
        };
    }
    c.components = components;
    if (m->failure) {
        struct cache_failure *f = NF_NEW(a, struct cache_failure);
        struct nf_str *log = NF_NEW_ARRAY(a, struct nf_str, m->failure->log_count + 1);
        *f = *m->failure;
        for (size_t i = 0; i < f->log_count; i++)
            log[i] = keep(a, m->failure->log_tail[i]);
        f->log_tail = log;
        c.failure = f;
    }
    return c;
}

static struct publish_job *job_new(struct cache_store *s, const struct cache_publication *p, cache_publish_fn *done, void *user)
{
    struct publish_job *j = nf_alloc(sizeof(*j));
    atomic_init(&j->refs, 1);
    j->store = store__ref(s);
    j->arena = nf_arena_new(0);
    j->meta = meta_copy(&p->meta, j->arena);
    j->artifact_fd = p->artifact_fd >= 0 ? fcntl(p->artifact_fd, F_DUPFD_CLOEXEC, 3) : -1;
    j->artifact = keep(j->arena, p->artifact);
    j->replace = p->replace;
    j->started_ns = nf_now_ns();
    j->done = done;
    j->user = user;
    return j;
}

void cache_store_publish_async(struct cache_store *s, const struct cache_publication *p, cache_publish_fn *done, void *user)
{
    struct publish_job *j = job_new(s, p, done, user);
    if (p->artifact_fd >= 0 && j->artifact_fd < 0) {
        struct nf_error err = {0};
        nf_fail_errno(&err, errno, "cannot keep the artifact open");
        done(user, err.code, NULL, &err);
        job_unref(j);
        return;
    }
    cache_mount_submit(s->pool, &(struct cache_mount_work){begin_run, begin_done, job_free, j, 0});
}

struct sync_publish {
    struct store__wait wait;
    int rc;
    struct cache_published out;
    struct nf_error err;
};

static void sync_publish_done(void *user, int rc, struct cache_published *published, const struct nf_error *err)
{
    struct sync_publish *sync = user;
    sync->rc = rc;
    if (published)
        sync->out = *published;
    if (err)
        sync->err = *err;
    store__wait_signal(&sync->wait);
}

int cache_store_publish(struct cache_store *s, const struct cache_publication *p, struct cache_published *ret_published, struct nf_error *err)
{
    struct sync_publish sync = {.rc = 0};
    store__wait_init(&sync.wait);
    cache_store_publish_async(s, p, sync_publish_done, &sync);
    store__wait_for(&sync.wait);
    if (sync.rc == NF_OK)
        *ret_published = sync.out;
    else if (err)
        *err = sync.err;
    return sync.rc;
}

/* ------------------------------------------------------------------------------------------------------------ backfill
 * What was published while the mount was in trouble is only here. When it answers again, the others get it as well. */

struct backfill_item {
    struct cache_store *store;
    struct nf_digest key;
    enum cache_kind kind;
    char space[65];
    struct cache__file file;             /* of the local tier, open and held */
    struct cache__row row;               /* run's result; texts in arena */
    struct nf_arena *arena;
};

static int backfill_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct backfill_item *b = ctx;
    struct cache_store *s = b->store;
    struct cache__source source;
    char *meta = nf_arena_alloc_raw(b->arena, (size_t)b->file.footer.meta_bytes + 1);
    int rc = nf_fd_pread_all(b->file.fd, meta, (size_t)b->file.footer.meta_bytes, b->file.footer.stored_bytes);
    if (rc)
        return nf_fail(err, rc, "cannot read the metadata of a local entry: %s", nf_status_text(rc));
    cache__source_fd(&source, b->file.fd, CACHE_RAW, b->file.footer.stored_bytes, b->file.footer.raw_bytes);
    struct cache__draft draft = {
        .cache_namespace = nf_str_c(b->space),
        .footer = b->file.footer,
        .sha256_known = true,
        .meta = nf_str_n(meta, (size_t)b->file.footer.meta_bytes),
        .source = &source,
    };
    enum cache__place place;
    struct cache__file file;
    uint64_t bad = 0;
    rc = cache__tier_place(&s->shared, &draft, false, item, &place, &file, &bad, err);
    cache__source_done(&source);
    atomic_fetch_add(&s->quarantined, bad);
    if (rc)
        return rc;
    rc = store__row_read(&file, CACHE_TIER_SHARED, b->arena, &b->row, err);
    close(file.fd);
    return rc;
}

static void backfill_done(void *ctx, int rc, const struct nf_error *err)
{
    struct backfill_item *b = ctx;
    struct cache_store *s = b->store;
    if (rc == NF_OK) {
        atomic_store(&s->shared_writable, true);
        store__trouble(s, CACHE_TIER_SHARED, NULL);
        cache__index_put(s->index, &b->row);
    } else {
        atomic_store(&s->backfill_wanted, true); /* another time */
        if (rc != NF_EMOUNTHUNG && rc != NF_ECANCELLED)
            store__trouble(s, CACHE_TIER_SHARED, err);
    }
}

static void backfill_free(void *ctx)
{
    struct backfill_item *b = ctx;
    close(b->file.fd);
    nf_arena_free(b->arena);
    store__unref(b->store);
    free(b);
}

struct backfill_list {
    struct nf_digest keys[256];
    enum cache_kind kinds[256];
    char spaces[256][65];
    size_t count;
};

static int backfill_row(void *user, const struct cache__row *r)
{
    struct backfill_list *l = user;
    if (r->kind == CACHE_KIND_FAILURE || !r->local_bytes || r->shared_bytes)
        return 0;
    l->keys[l->count] = r->key;
    l->kinds[l->count] = r->kind;
    nf_format(l->spaces[l->count], 65, "%.*s", (int)NF_MIN(r->cache_namespace.len, (size_t)64), r->cache_namespace.data);
    return ++l->count == NF_ARRAY_LEN(l->keys);
}

void store__backfill(struct cache_store *s)
{
    struct nf_error err;
    if (!s->has_shared || cache_mount_troubled(s->mount) || !atomic_exchange(&s->backfill_wanted, false))
        return;
    struct backfill_list *l = nf_alloc(sizeof(*l));
    int rc = store__rows(s, STORE_ROWS_SIZES, backfill_row, l, &err);
    if (rc)
        atomic_store(&s->backfill_wanted, true); /* full: the rest next time */
    for (size_t i = 0; i < l->count && !atomic_load(&s->closing); i++) {
        char path[4352];
        struct backfill_item *b = nf_alloc(sizeof(*b));
        b->key = l->keys[i];
        b->kind = l->kinds[i];
        memcpy(b->space, l->spaces[i], sizeof(b->space));
        if (cache__tier_open(&s->local, nf_str_c(b->space), &b->key, b->kind, path, &b->file, NULL)) {
            free(b);
            continue;
        }
        cache__lock_shared(b->file.fd);
        b->store = store__ref(s);
        b->arena = nf_arena_new(0);
        if (cache_mount_run(s->mount, &(struct cache_mount_work){backfill_run, backfill_done, backfill_free, b, 0}, &err))
            break; /* it is still in trouble */
    }
    free(l);
}

/* ------------------------------------------------------------------------------------------------------------ failures */

static int failure_prepare(struct cache_store *s, const struct cache_meta *meta, struct cache_failure *ret_failure, struct cache_meta *ret_meta,
                           struct nf_error *err)
{
    if (!meta->failure)
        return nf_fail(err, NF_EINVAL, "there is no failure to remember");
    struct cache_failure f = *meta->failure;
    if (f.cls == NF_CLASS_NONE)
        f.cls = nf_status_class(f.error.code);
    if (f.cls != NF_CLASS_USER && f.cls != NF_CLASS_INTERNAL)
        return nf_fail(err, NF_EINVAL, "a failure of class %s is not remembered", nf_class_name(f.cls));
    int64_t ttl_s = f.cls == NF_CLASS_USER ? s->limits.failure_user_ttl_s : s->limits.failure_internal_ttl_s;
    if (!f.expires_us)
        f.expires_us = nf_wall_us() + ttl_s * 1000000;
    *ret_failure = f;
    *ret_meta = *meta;
    ret_meta->kind = CACHE_KIND_FAILURE;
    ret_meta->failure = ret_failure;
    return NF_OK;
}

static bool is_remembered(const struct cache_store *s, const struct cache_failure *f)
{
    return (f->cls == NF_CLASS_USER ? s->limits.failure_user_ttl_s : s->limits.failure_internal_ttl_s) > 0;
}

int cache_store_remember_failure(struct cache_store *s, const struct cache_meta *meta, struct nf_error *err)
{
    struct cache_failure f;
    struct cache_publication p = {.artifact_fd = -1, .replace = true};
    int rc = failure_prepare(s, meta, &f, &p.meta, err);
    struct cache_published out;
    if (!rc && !is_remembered(s, &f))
        return NF_OK;
    if (!rc)
        rc = cache_store_publish(s, &p, &out, err);
    if (!rc)
        cache_hit_close(out.hit);
    return rc;
}

static void remembered(void *user, int rc, struct cache_published *published, const struct nf_error *err)
{
    (void)user;
    if (published)
        cache_hit_close(published->hit);
    if (rc)
        nf_log(NF_LOG_WARNING, "cache", "a failure cannot be remembered", "why=%s", nf_log_quote(err->message));
}

void cache_store_remember_failure_async(struct cache_store *s, const struct cache_meta *meta)
{
    struct cache_failure f;
    struct cache_publication p = {.artifact_fd = -1, .replace = true};
    struct nf_error err = {0};
    int rc = failure_prepare(s, meta, &f, &p.meta, &err);
    if (rc == NF_OK && is_remembered(s, &f))
        cache_store_publish_async(s, &p, remembered, NULL);
    else if (rc)
        nf_log(NF_LOG_WARNING, "cache", "a failure cannot be remembered", "why=%s", nf_log_quote(err.message));
}
