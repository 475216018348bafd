/* store.c: opening, closing, state of the store. Looking up, publishing, eviction and administration have files of their own. */
#include "cache/store.h"

#include "base/clock.h"
#include "base/log.h"
#include "cache/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#define POOL_THREADS 4
#define PATIENCE_NEVER INT64_MAX

/* ----------------------------------------------------------------------------------------------------------- references */

struct cache_store *store__ref(struct cache_store *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void store__unref(struct cache_store *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    cache_mount_close(s->mount);
    cache_mount_close(s->pool);
    cache__index_close(s->index);
    cache_reader_close(s->reader);
    if (s->hold_fd >= 0)
        close(s->hold_fd);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->gc_lock);
    pthread_cond_destroy(&s->wake_cond);
    free(s->local.dir);
    free(s->shared.dir);
    free(s->spill.dir);
    free(s);
}

void store__wait_init(struct store__wait *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->cond, NULL);
    w->over = false;
}

void store__wait_signal(struct store__wait *w)
{
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

void store__wait_for(struct store__wait *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->over)
        pthread_cond_wait(&w->cond, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->cond);
}

/* -------------------------------------------------------------------------------------------------------------- trouble */

void store__trouble(struct cache_store *s, enum cache_tier tier, const struct nf_error *err)
{
    char *text = tier == CACHE_TIER_LOCAL ? s->local_trouble : s->shared_trouble;
    pthread_mutex_lock(&s->lock);
    bool fresh = err && !text[0];
    if (err)
        nf_format(text, sizeof(s->local_trouble), "%s", err->message);
    else
        text[0] = 0;
    pthread_mutex_unlock(&s->lock);
    if (fresh)
        nf_log(NF_LOG_WARNING, "cache", tier == CACHE_TIER_LOCAL ? "trouble with the local tier" : "trouble with the shared tier", "why=%s",
               nf_log_quote(err->message));
}

void store__quarantine(struct cache_store *s, const struct cache__tier *t, const char *path, const struct nf_digest *key, enum cache_kind kind,
                       const char *reason)
{
    struct nf_error err = {0};
    int rc = cache__tier_quarantine(t, path, reason, &err);
    if (rc == NF_OK)
        atomic_fetch_add(&s->quarantined, 1);
    else if (rc != NF_ENOTFOUND) {
        store__trouble(s, t->id, &err);
        nf_log(NF_LOG_ERROR, "cache", "a damaged entry cannot be moved away", "path=%s reason=%s why=%s", nf_log_quote(path), nf_log_quote(reason),
               nf_log_quote(err.message));
    }
    cache__index_drop(s->index, key, kind == CACHE_KIND_FAILURE, t->id == CACHE_TIER_LOCAL ? CACHE_IN_LOCAL : CACHE_IN_SHARED);
}

/* ----------------------------------------------------------------------------------------------------------------- rows */

void store__row_of_meta(const struct cache_meta *meta, const struct cache_footer *footer, uid_t owner, struct cache__row *ret_row)
{
    struct cache__row r = {
        .key = footer->key,
        .sha256 = footer->sha256,
        .kind = footer->kind,
        .raw_bytes = footer->raw_bytes,
        .created_s = footer->created_us / 1000000,
        .used_s = footer->created_us / 1000000,
        .expires_s = footer->expires_us / 1000000,
        .compile_us = footer->compile_us,
        .owner = owner,
        .name = meta->name,
        .cache_namespace = meta->cache_namespace,
        .target = meta->target,
        .compiler = meta->compiler,
        .created_by = meta->created_by,
    };
    if (meta->sketch.len == CACHE_SKETCH_BYTES)
        cache_sketch_decode((const uint8_t *)meta->sketch.data, &r.sketch);
    else
        cache_sketch_make(meta->components, meta->component_count, &r.sketch);
    *ret_row = r;
}

int store__row_read(const struct cache__file *f, enum cache_tier tier, struct nf_arena *arena, struct cache__row *ret_row, struct nf_error *err)
{
    struct cache_meta meta;
    int rc = cache_meta_read(f->fd, &f->footer, arena, &meta, err);
    if (rc)
        return rc;
    struct cache__row r;
    store__row_of_meta(&meta, &f->footer, f->st.st_uid, &r);
    if (tier == CACHE_TIER_LOCAL)
        r.local_bytes = (uint64_t)f->st.st_size;
    else
        r.shared_bytes = (uint64_t)f->st.st_size;
    *ret_row = r;
    return NF_OK;
}

/* -------------------------------------------------------------------------------------------------------------- opening */

static void tier_init(struct cache__tier *t, const char *dir, enum cache_tier id, mode_t file_mode)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    t->dir = nf_strndup(dir, len);
    t->id = id;
    t->file_mode = file_mode;
    t->dir_mode = 0700 | (file_mode & 0040 ? 0050 : 0) | (file_mode & 0020 ? 0020 : 0) | (file_mode & 0004 ? 0005 : 0);
}

/* Held against cleaners, and with the directories that others look for. Again when the directory has been made anew meanwhile. */
void store__local_hold(struct cache_store *s)
{
    struct stat held, now;
    struct nf_error why = {0};
    if (stat(s->local.dir, &now) != 0)
        return;
    if (s->hold_fd >= 0 && fstat(s->hold_fd, &held) == 0 && held.st_ino == now.st_ino && held.st_dev == now.st_dev)
        return;
    if (s->hold_fd >= 0)
        close(s->hold_fd);
    s->hold_fd = open(s->local.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->hold_fd >= 0 && flock(s->hold_fd, LOCK_SH | LOCK_NB) != 0) {
        close(s->hold_fd); /* a cleaner holds it at this moment; the next look gets it */
        s->hold_fd = -1;
    }
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = {{"entries", 0}, {"aliases", 0755}, {"uses", 01777}};
    for (size_t i = 0; i < NF_ARRAY_LEN(dirs); i++) {
        char path[4352];
        nf_format(path, sizeof(path), "%s/%s", s->local.dir, dirs[i].name);
        mode_t mode = dirs[i].mode ? dirs[i].mode : s->local.dir_mode;
        if (mkdir(path, 0700) == 0)
            chmod(path, mode);
        else if (errno != EEXIST) {
            nf_fail_errno(&why, errno, "cannot make the directory %s", path);
            store__trouble(s, CACHE_TIER_LOCAL, &why);
            return;
        }
    }
}

/* The local directory must be ours or root's, and on a file system whose locks and mtimes can be believed. One that cannot be made
 * is trouble, not an error: the shared tier may still serve. */
static int local_check(struct cache_store *s, struct nf_error *err)
{
    struct nf_error why = {0};
    struct stat st;
    bool made = lstat(s->local.dir, &st) != 0;
    if (nf_mkdir_p(s->local.dir, s->local.dir_mode, &why) != NF_OK) {
        if (stat(s->local.dir, &st) == 0 && !S_ISDIR(st.st_mode))
            return nf_fail(err, NF_ECONFIG, "the local cache directory %s is not a directory", s->local.dir);
        store__trouble(s, CACHE_TIER_LOCAL, &why);
        return NF_OK;
    }
    if (made)
        chmod(s->local.dir, s->local.dir_mode); /* whatever the umask says */
    const char *fs = cache__network_fs(s->local.dir);
    if (fs) {
        int rc = nf_fail(err, NF_ECONFIG, "the local cache directory %s is on %s", s->local.dir, fs);
        nf_error_hint(err, "set TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR to a directory on a local disk: locks and times of network file systems are not reliable");
        return rc;
    }
    if (stat(s->local.dir, &st) != 0) {
        nf_fail_errno(&why, errno, "cannot stat the local cache directory %s", s->local.dir);
        store__trouble(s, CACHE_TIER_LOCAL, &why);
        return NF_OK;
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        int rc = nf_fail(err, NF_ECONFIG, "the local cache directory %s belongs to uid %u", s->local.dir, (unsigned)st.st_uid);
        nf_error_hint(err, "whoever owns it decides what is executed here; give neffd a directory of its own");
        return rc;
    }
    if ((st.st_mode & 0002) && !(st.st_mode & S_ISVTX)) {
        int rc = nf_fail(err, NF_ECONFIG, "the local cache directory %s can be written by everybody", s->local.dir);
        nf_error_hint(err, "chmod o-w %s", s->local.dir);
        return rc;
    }
    store__local_hold(s);
    return NF_OK;
}

struct shared_start {
    struct cache_store *store;
    bool writable;
};

static int shared_start_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct shared_start *start = ctx;
    (void)item;
    int rc = cache__tier_prepare(&start->store->shared, err);
    char path[4352];
    nf_format(path, sizeof(path), "%s/entries", start->store->shared.dir);
    start->writable = rc == NF_OK && access(path, W_OK) == 0;
    return rc;
}

static void shared_start_done(void *ctx, int rc, const struct nf_error *err)
{
    struct shared_start *start = ctx;
    if (rc != NF_EMOUNTHUNG)
        atomic_store(&start->store->shared_writable, start->writable);
    if (rc && rc != NF_ECANCELLED && rc != NF_EREADONLY)
        store__trouble(start->store, CACHE_TIER_SHARED, err);
}

static void shared_start_free(void *ctx)
{
    struct shared_start *start = ctx;
    store__unref(start->store);
    free(start);
}

static int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static void limits_set(struct cache_store *s, const struct cache_store_options *o)
{
    struct store__limits *l = &s->limits;
    atomic_store(&l->local_soft_bytes, o->local_soft_bytes);
    atomic_store(&l->local_hard_bytes, o->local_hard_bytes);
    atomic_store(&l->shared_soft_bytes, o->shared_soft_bytes);
    atomic_store(&l->shared_hard_bytes, o->shared_hard_bytes);
    atomic_store(&l->namespace_bytes, o->namespace_bytes);
    atomic_store(&l->max_text_bytes, o->max_text_bytes ? o->max_text_bytes : (uint64_t)64 << 20);
    atomic_store(&l->max_aliases, o->max_aliases ? o->max_aliases : 200000);
    atomic_store(&l->scrub_bytes_per_s, o->scrub_bytes_per_s);
    atomic_store(&l->scrub_interval_s, o->scrub_interval_s ? o->scrub_interval_s : 86400);
    atomic_store(&l->failure_user_ttl_s, o->failure_user_ttl_s ? o->failure_user_ttl_s : 86400);
    atomic_store(&l->failure_internal_ttl_s, o->failure_internal_ttl_s ? o->failure_internal_ttl_s : 600);
    atomic_store(&l->alias_ttl_s, o->alias_ttl_s);
    atomic_store(&l->verify_always, o->verify_always);
    atomic_store(&s->shared.zstd_level, o->zstd_level ? o->zstd_level : 3);
}

void cache_store_set_limits(struct cache_store *s, const struct cache_store_options *options)
{
    limits_set(s, options);
    cache_reader_set_verify(s->reader, options->verify_always);
    if (s->mount && options->mount_patience_ns)
        cache_mount_set_patience(s->mount, options->mount_patience_ns);
    if (s->mount && options->mount_retry_ns)
        cache_mount_set_retry(s->mount, options->mount_retry_ns);
    pthread_mutex_lock(&s->lock); /* new limits are looked at, a new rate is kept to, at once */
    s->gc_wanted = true;
    pthread_cond_broadcast(&s->wake_cond);
    pthread_mutex_unlock(&s->lock);
}

int cache_store_open(const struct cache_store_options *options, struct cache_store **ret_store, struct nf_error *err)
{
    if (!options->local_dir || options->local_dir[0] != '/' || strlen(options->local_dir) > 4000 ||
        (options->shared_dir && (strlen(options->shared_dir) > 4000 || (options->shared_dir[0] && options->shared_dir[0] != '/'))) ||
        (options->spill_dir && strlen(options->spill_dir) > 4000))
        return nf_fail(err, NF_ECONFIG, "the cache directories must be absolute paths of at most 4000 bytes");
    struct cache_store *s = nf_alloc(sizeof(*s));
    atomic_init(&s->refs, 1);
    s->hold_fd = -1;
    s->opt = *options;
    mode_t mode = options->file_mode ? options->file_mode & 0666 : 0640;
    tier_init(&s->local, options->local_dir, CACHE_TIER_LOCAL, mode);
    s->has_shared = options->shared_dir && options->shared_dir[0];
    tier_init(&s->shared, s->has_shared ? options->shared_dir : "", CACHE_TIER_SHARED, mode);
    s->has_spill = options->spill_dir && options->spill_dir[0];
    tier_init(&s->spill, s->has_spill ? options->spill_dir : "", CACHE_TIER_SPILL, mode);
    s->opt.local_dir = s->local.dir;
    s->opt.shared_dir = s->shared.dir;
    s->opt.spill_dir = s->spill.dir;
    limits_set(s, options);
    s->opt.max_payload_bytes = options->max_payload_bytes ? options->max_payload_bytes : (uint64_t)16 << 30;
    s->opt.mount_patience_ns = options->mount_patience_ns ? options->mount_patience_ns : 5 * NF_SEC;
    s->opt.mount_threads = options->mount_threads ? options->mount_threads : 4;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->gc_lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake_cond, &attr);
    pthread_condattr_destroy(&attr);

    int rc = local_check(s, err);
    if (!rc)
        rc = cache_reader_open(&(struct cache_reader_options){.local_dir = s->local.dir, .verify_always = options->verify_always}, &s->reader, err);
    if (!rc)
        rc = cache_mount_open(s->local.dir, POOL_THREADS, PATIENCE_NEVER, &s->pool, err);
    if (!rc && s->has_shared)
        rc = cache_mount_open(s->shared.dir, s->opt.mount_threads, s->opt.mount_patience_ns, &s->mount, err);
    if (!rc && s->mount && options->mount_retry_ns)
        cache_mount_set_retry(s->mount, options->mount_retry_ns);
    if (!rc && !options->no_index)
        rc = cache__index_open(s->local.dir, store__rebuild, s, &s->index, err);
    if (rc) {
        cache_store_close(s);
        return rc;
    }
    if (s->has_shared) {
        struct shared_start *start = nf_alloc(sizeof(*start));
        start->store = store__ref(s);
        cache_mount_submit(s->mount, &(struct cache_mount_work){shared_start_run, shared_start_done, shared_start_free, start, 0});
    }
    if (!options->no_index) {
        s->maintenance_on = thread_start(&s->maintenance, store__maintenance_main, s) == 0;
        s->scrub_on = thread_start(&s->scrub, store__scrub_main, s) == 0;
    }
    *ret_store = s;
    return NF_OK;
}

void cache_store_close(struct cache_store *s)
{
    if (!s)
        return;
    atomic_store(&s->closing, true);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->wake_cond);
    pthread_mutex_unlock(&s->lock);
    if (s->maintenance_on)
        pthread_join(s->maintenance, NULL);
    if (s->scrub_on)
        pthread_join(s->scrub, NULL);
    cache_mount_stop(s->mount); /* what it has in hand is finished or given up; the rest of a publication goes to the pool */
    cache_mount_stop(s->pool);
    cache__index_stop(s->index); /* its thread may still ask for a rebuild, which the pool refuses by now */
    store__unref(s);
}

struct cache_reader *cache_store_reader(struct cache_store *s)
{
    return s->reader;
}

/* --------------------------------------------------------------------------------------------------------------- state */

void cache_store_status(struct cache_store *s, struct cache_store_status *ret_status)
{
    struct cache_store_status st = {0};
    struct cache__totals totals;
    cache__index_totals(s->index, &totals);
    nf_format(st.shared_dir, sizeof(st.shared_dir), "%s", s->shared.dir);
    nf_format(st.local_dir, sizeof(st.local_dir), "%s", s->local.dir);
    st.shared_writable = atomic_load(&s->shared_writable) && !(s->mount && cache_mount_troubled(s->mount));
    st.entries = totals.entries;
    st.bytes = s->has_shared ? totals.shared_bytes : totals.local_bytes;
    st.local_bytes = totals.local_bytes;
    st.limit_bytes = s->limits.local_hard_bytes ? s->limits.local_hard_bytes : s->limits.local_soft_bytes;
    st.index_complete = cache__index_complete(s->index);
    char mount[4352] = "", index[4352] = "";
    if (s->mount)
        cache_mount_trouble_text(s->mount, mount, sizeof(mount));
    cache__index_trouble(s->index, index, sizeof(index));
    pthread_mutex_lock(&s->lock);
    const char *texts[] = {s->local_trouble, mount[0] ? mount : s->shared_trouble, index};
    struct nf_buf b = NF_BUF_INIT;
    for (size_t i = 0; i < NF_ARRAY_LEN(texts); i++)
        if (texts[i][0])
            nf_buf_addf(&b, "%s%s", b.len ? "; " : "", texts[i]);
    pthread_mutex_unlock(&s->lock);
    nf_format(st.trouble, sizeof(st.trouble), "%s", b.len ? b.data : "");
    nf_buf_done(&b);
    *ret_status = st;
}

void cache_store_counters(struct cache_store *s, struct cache_store_counters *ret_counters)
{
    *ret_counters = (struct cache_store_counters){
        .hits_local = atomic_load(&s->hits_local),
        .hits_shared = atomic_load(&s->hits_shared),
        .misses = atomic_load(&s->misses),
        .quarantined = atomic_load(&s->quarantined),
        .evicted = atomic_load(&s->evicted),
        .admitted = atomic_load(&s->admitted),
        .published = atomic_load(&s->published),
        .publish_lost = atomic_load(&s->publish_lost),
        .scrubbed_bytes = atomic_load(&s->scrubbed_bytes),
    };
}

void cache_store_lifetime_add(struct cache_store *s, const char *name, uint64_t delta)
{
    cache__index_count(s->index, name, delta);
}

uint64_t cache_store_lifetime_get(struct cache_store *s, const char *name)
{
    return cache__index_counter(s->index, name);
}

void cache_store_note_use(struct cache_store *s, const struct nf_digest *key)
{
    cache__index_use(s->index, key, nf_wall_us() / 1000000, 1);
}

void cache_store_flush(struct cache_store *s)
{
    cache_reader_flush_uses(s->reader);
    store__uses_collect(s);
    cache__index_flush(s->index, 5 * NF_SEC);
}
