/* store_gc.c: eviction, and the two threads in the background: maintenance and scrub.
 *
 * What goes first: the highest  age / weight,  where age is the time since the last use and
 *
 *     weight = 1 + log2(1 + seconds it cost to compile)       1 when the shared tier still has it: then it costs one copy
 *
 * so that of two entries that nobody used for a day, the one that took an hour to compile stays thirteen times as long as the
 * one that took none. Least recently used in all other respects.
 *
 * In use is what somebody holds with LOCK_SH: tried with LOCK_EX without waiting, skipped if that fails. An entry that is
 * unlinked while it is mapped stays mapped. Other processes' rows are in the same index; an entry that one process has removed
 * is noticed by the other when it is not there. */
#include "cache/store_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/file.h>
#include <unistd.h>

#define MAINTENANCE_NS (10 * NF_SEC)
#define SCRUB_LOOK_NS (60 * NF_SEC)
#define ALIAS_CHECK_NS (3600 * NF_SEC)
#define STALE_TEMPORARY_S 900
#define STALE_SHARED_TEMPORARY_S 86400
#define USE_FILES_MAX 4096

struct candidate {
    struct nf_digest key;
    uint64_t bytes;
    double score;
    char space[65];
    uint8_t kind;
};

struct plan {
    enum cache_tier tier;
    int64_t now_s;
    const char *only_space;              /* NULL: all */
    struct candidate *items;
    size_t count, cap;
    uint64_t total;
    uint64_t expired;
};

static int plan_row(void *user, const struct cache__row *r)
{
    struct plan *p = user;
    uint64_t bytes = p->tier == CACHE_TIER_LOCAL ? r->local_bytes : r->shared_bytes;
    if (!bytes || (p->only_space && !nf_str_eq_c(r->cache_namespace, p->only_space)))
        return 0;
    p->total += bytes;
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 1024;
        p->items = nf_realloc(p->items, p->cap * sizeof(*p->items));
    }
    struct candidate *c = &p->items[p->count++];
    double age = (double)NF_MAX(p->now_s - r->used_s, (int64_t)0) + 1;
    bool cheap = p->tier == CACHE_TIER_LOCAL && r->shared_bytes;
    double weight = cheap ? 1 : 1 + log2(1 + (double)r->compile_us / 1e6);
    bool expired = r->kind == CACHE_KIND_FAILURE && r->expires_s && r->expires_s <= p->now_s;
    *c = (struct candidate){.key = r->key, .bytes = bytes, .score = expired ? INFINITY : age / weight, .kind = (uint8_t)r->kind};
    nf_format(c->space, sizeof(c->space), "%.*s", (int)NF_MIN(r->cache_namespace.len, (size_t)64), r->cache_namespace.data);
    return 0;
}

static int by_score(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

/* NF_OK: gone (also if somebody else was faster); NF_EBUSY: in use. */
static int evict_file(const struct cache__tier *t, const struct candidate *c, struct nf_error *err)
{
    char rel[CACHE_PATH_MAX], path[4352];
    cache_entry_path(nf_str_c(c->space), &c->key, cache_kind_suffix((enum cache_kind)c->kind), rel);
    nf_format(path, sizeof(path), "%s/%s", t->dir, rel);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT && errno != EACCES)
        return nf_fail_errno(err, errno, "cannot open %s", path);
    int rc = NF_OK;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        rc = NF_EBUSY;
    else if (unlink(path) != 0 && errno != ENOENT)
        rc = nf_fail_errno(err, errno, "cannot remove %s", path);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* A batch of unlinks on a mount thread. */
struct evict_part {
    struct cache_store *store;
    size_t count;
    struct candidate items[32];
    int rc[32];
};

struct evict_result {
    int rc[32];
    bool valid;
};

struct evict_ctx {
    struct evict_part part;
    struct evict_result *result;         /* the waiter's; written in done only */
};

static int evict_part_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct evict_ctx *e = ctx;
    for (size_t i = 0; i < e->part.count && !cache_mount_given_up(item); i++) {
        e->part.rc[i] = evict_file(&e->part.store->shared, &e->part.items[i], err);
        cache_mount_tick(item);
    }
    return NF_OK;
}

static void evict_part_done(void *ctx, int rc, const struct nf_error *err)
{
    struct evict_ctx *e = ctx;
    (void)err;
    if (rc == NF_OK) {
        memcpy(e->result->rc, e->part.rc, sizeof(e->part.rc));
        e->result->valid = true;
    }
}

static void evict_part_free(void *ctx)
{
    struct evict_ctx *e = ctx;
    store__unref(e->part.store);
    free(e);
}

static int evict_shared(struct cache_store *s, const struct candidate *items, size_t count, int *rcs, struct nf_error *err)
{
    struct evict_result result = {.valid = false};
    struct evict_ctx *e = nf_alloc(sizeof(*e));
    e->part.store = store__ref(s);
    e->part.count = count;
    memcpy(e->part.items, items, count * sizeof(*items));
    e->result = &result;
    int rc = cache_mount_run(s->mount, &(struct cache_mount_work){evict_part_run, evict_part_done, evict_part_free, e, 0}, err);
    if (rc == NF_OK)
        memcpy(rcs, result.rc, count * sizeof(*rcs));
    return rc;
}

struct evicting {
    bool dry_run;
    cache_progress_fn *fn;
    void *user;
    struct cache_progress progress;
};

/* With gc_lock. Down to target bytes (of only_space, or of everything). */
static int evict_tier(struct cache_store *s, enum cache_tier tier, const char *only_space, uint64_t target, struct evicting *ev, struct nf_error *err)
{
    struct plan plan = {.tier = tier, .now_s = nf_wall_us() / 1000000, .only_space = only_space};
    cache__index_flush(s->index, NF_SEC); /* the last uses are in it */
    int rc = store__rows(s, STORE_ROWS_SIZES, plan_row, &plan, err);
    if (rc) {
        free(plan.items);
        return rc;
    }
    if (plan.count)
        qsort(plan.items, plan.count, sizeof(*plan.items), by_score);
    uint64_t left = plan.total;
    size_t at = 0;
    ev->progress.total += plan.count;
    while (at < plan.count && !rc && (left > target || isinf(plan.items[at].score))) {
        size_t n = 0;
        int rcs[32] = {0};
        uint64_t would = left;
        while (at + n < plan.count && n < (tier == CACHE_TIER_LOCAL ? 1 : 32) && (would > target || isinf(plan.items[at + n].score))) {
            would -= plan.items[at + n].bytes;
            n++;
        }
        if (ev->dry_run)
            rc = NF_OK;
        else if (tier == CACHE_TIER_LOCAL)
            rcs[0] = evict_file(&s->local, &plan.items[at], err);
        else
            rc = evict_shared(s, plan.items + at, n, rcs, err);
        for (size_t i = 0; i < n && !rc; i++) {
            const struct candidate *c = &plan.items[at + i];
            ev->progress.done++;
            if (rcs[i] == NF_EBUSY)
                continue;
            if (rcs[i]) {
                rc = rcs[i];
                break;
            }
            left -= c->bytes;
            ev->progress.removed++;
            ev->progress.bytes_freed += c->bytes;
            if (!ev->dry_run) {
                cache__index_drop(s->index, &c->key, c->kind == CACHE_KIND_FAILURE, tier == CACHE_TIER_LOCAL ? CACHE_IN_LOCAL : CACHE_IN_SHARED);
                atomic_fetch_add(&s->evicted, 1);
            }
        }
        at += n;
        if (!rc && ev->fn && ev->fn(ev->user, &ev->progress))
            rc = nf_fail(err, NF_ECANCELLED, "stopped");
    }
    ev->progress.done += plan.count - NF_MIN(at, plan.count);
    free(plan.items);
    if (ev->progress.removed && !ev->dry_run)
        cache__index_flush(s->index, NF_SEC);
    return rc;
}

int store__evict_local(struct cache_store *s, uint64_t target_bytes)
{
    struct evicting ev = {.dry_run = false};
    struct nf_error err = {0};
    store__uses_collect(s);
    pthread_mutex_lock(&s->gc_lock);
    int rc = evict_tier(s, CACHE_TIER_LOCAL, NULL, target_bytes, &ev, &err);
    pthread_mutex_unlock(&s->gc_lock);
    if (rc)
        nf_log(NF_LOG_WARNING, "cache", "eviction stopped", "dir=%s why=%s", nf_log_quote(s->local.dir), nf_log_quote(err.message));
    return rc;
}

bool store__shared_room(struct cache_store *s, uint64_t need)
{
    struct cache__totals totals;
    uint64_t hard = s->limits.shared_hard_bytes;
    cache__index_totals(s->index, &totals);
    if (totals.shared_bytes + need <= hard)
        return true;
    uint64_t target = hard > need ? hard - need : 0;
    struct evicting ev = {.dry_run = false};
    pthread_mutex_lock(&s->gc_lock);
    evict_tier(s, CACHE_TIER_SHARED, NULL, s->limits.shared_soft_bytes ? NF_MIN(target, s->limits.shared_soft_bytes) : target, &ev, NULL);
    pthread_mutex_unlock(&s->gc_lock);
    cache__index_totals(s->index, &totals);
    return totals.shared_bytes + need <= hard;
}

/* ------------------------------------------------------------------------------------------------- stale temporaries */

static bool is_temporary(const char *name)
{
    return strncmp(name, ".tmp-", 5) == 0 || strncmp(name, ".old-", 5) == 0 || strncmp(name, ".use-", 5) == 0 || strstr(name, ".probe-");
}

/* Below dir, depth levels deep: temporaries that nobody has written to for older_s. */
static uint64_t sweep(int parent_fd, const char *name, int depth, int64_t older_s, struct cache_mount_item *beat)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    uint64_t removed = 0;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    int64_t now_s = nf_wall_us() / 1000000;
    for (struct dirent *e; (e = readdir(dir)) && !cache_mount_given_up(beat);) {
        struct stat st;
        cache_mount_tick(beat);
        if (is_temporary(e->d_name)) {
            if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) && st.st_ctim.tv_sec < now_s - older_s &&
                unlinkat(dirfd(dir), e->d_name, 0) == 0)
                removed++;
        } else if (depth && e->d_name[0] != '.') {
            removed += sweep(dirfd(dir), e->d_name, depth - 1, older_s, beat);
        }
    }
    closedir(dir);
    return removed;
}

static void sweep_local(struct cache_store *s)
{
    char path[4352];
    uint64_t removed = 0;
    nf_format(path, sizeof(path), "%s/entries", s->local.dir);
    removed += sweep(AT_FDCWD, path, 3, STALE_TEMPORARY_S, NULL);
    nf_format(path, sizeof(path), "%s/aliases", s->local.dir);
    removed += sweep(AT_FDCWD, path, 1, STALE_TEMPORARY_S, NULL);
    nf_format(path, sizeof(path), "%s/uses", s->local.dir);
    removed += sweep(AT_FDCWD, path, 0, STALE_TEMPORARY_S, NULL);
    if (removed)
        nf_log(NF_LOG_INFO, "cache", "stale temporaries removed", "dir=%s count=%llu", nf_log_quote(s->local.dir), (unsigned long long)removed);
}

struct sweep_ctx {
    struct cache_store *store;
};

static int sweep_shared_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct sweep_ctx *c = ctx;
    char path[4352];
    (void)err;
    nf_format(path, sizeof(path), "%s/entries", c->store->shared.dir);
    sweep(AT_FDCWD, path, 3, STALE_SHARED_TEMPORARY_S, item);
    return NF_OK;
}

static void sweep_shared_free(void *ctx)
{
    struct sweep_ctx *c = ctx;
    store__unref(c->store);
    free(c);
}

/* ---------------------------------------------------------------------------------------------------------- collect */

int cache_store_gc(struct cache_store *s, uint64_t target_bytes, bool dry_run, cache_progress_fn *fn, void *user, struct nf_error *err)
{
    struct evicting ev = {.dry_run = dry_run, .fn = fn, .user = user};
    bool soft = target_bytes == UINT64_MAX;
    store__uses_collect(s);
    pthread_mutex_lock(&s->gc_lock);
    int rc = evict_tier(s, CACHE_TIER_LOCAL, NULL, soft && s->limits.local_soft_bytes ? s->limits.local_soft_bytes : target_bytes, &ev, err);
    struct nf_error shared_err = {0};
    int shared_rc = NF_OK;
    if (!rc && s->has_shared)
        shared_rc = evict_tier(s, CACHE_TIER_SHARED, NULL, soft && s->limits.shared_soft_bytes ? s->limits.shared_soft_bytes : target_bytes, &ev, &shared_err);
    pthread_mutex_unlock(&s->gc_lock);
    if (!rc && !dry_run) {
        sweep_local(s);
        if (s->has_shared && !shared_rc) {
            struct sweep_ctx *c = nf_alloc(sizeof(*c));
            c->store = store__ref(s);
            cache_mount_run(s->mount, &(struct cache_mount_work){sweep_shared_run, NULL, sweep_shared_free, c, 0}, NULL);
        }
    }
    if (rc)
        return rc;
    if (shared_rc) /* what the local tier gave up is given up; the rest is told */
        nf_format(ev.progress.note, sizeof(ev.progress.note), "%s", shared_err.message);
    ev.progress.finished = true;
    ev.progress.done = ev.progress.total;
    if (fn)
        fn(user, &ev.progress);
    return NF_OK;
}

/* -------------------------------------------------------------------------------------------------------------- uses */

static void use_apply(struct cache_store *s, const struct cache__use *use, int64_t now_s)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct cache__row row;
    int64_t at_s = NF_MIN(use->at_s, now_s); /* whoever left it may have any clock */
    int rc = cache__index_get(s->index, &use->key, false, arena, &row);
    if (rc == NF_OK) {
        if (at_s > row.used_s - 86400)
            cache__index_use(s->index, &use->key, at_s, 1);
    } else if (rc == NF_ENOTFOUND) { /* published without a daemon: the file tells */
        char path[4352];
        struct cache__file f;
        for (int k = 0; k < CACHE_KIND_MAX; k++)
            if (cache__tier_open(&s->local, (struct nf_str){0}, &use->key, (enum cache_kind)k, path, &f, NULL) == NF_OK) {
                if (store__row_read(&f, CACHE_TIER_LOCAL, arena, &row, NULL) == NF_OK) {
                    row.used_s = at_s;
                    cache__index_put(s->index, &row);
                }
                close(f.fd);
            }
    }
    nf_arena_free(arena);
}

void store__uses_collect(struct cache_store *s)
{
    char path[4352];
    if (!s->index)
        return;
    nf_format(path, sizeof(path), "%s/uses", s->local.dir);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    int64_t now_s = nf_wall_us() / 1000000;
    size_t files = 0;
    for (struct dirent *e; (e = readdir(dir)) && files < USE_FILES_MAX;) {
        if (strncmp(e->d_name, "use-", 4) != 0)
            continue;
        files++;
        struct nf_buf b = NF_BUF_INIT;
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        bool read = fd >= 0 && nf_fd_read_all(fd, (size_t)64 << 10, &b) == NF_OK;
        if (fd >= 0)
            close(fd);
        unlinkat(dirfd(dir), e->d_name, 0); /* taken, whatever it is: several daemons may share the directory */
        size_t head = sizeof(CACHE_USES_HEAD) - 1;
        if (read && b.len >= head && memcmp(b.data, CACHE_USES_HEAD, head) == 0)
            for (size_t at = head; at + CACHE_USE_BYTES <= b.len; at += CACHE_USE_BYTES) {
                struct cache__use use;
                uint64_t t = 0;
                memcpy(use.key.bytes, b.data + at, NF_DIGEST_BYTES);
                for (int i = 7; i >= 0; i--)
                    t = t << 8 | (uint8_t)b.data[at + NF_DIGEST_BYTES + (size_t)i];
                use.at_s = t > INT64_MAX ? 0 : (int64_t)t;
                use_apply(s, &use, now_s);
            }
        nf_buf_done(&b);
    }
    closedir(dir);
}

/* -------------------------------------------------------------------------------------------------------- aliases age */

struct alias {
    int64_t at_s;
    char name[NF_DIGEST_HEX];
};

static int by_age(const void *a, const void *b)
{
    const struct alias *x = a, *y = b;
    return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

/* Each of the 256 directories keeps its share; the oldest go. */
static void aliases_bound(struct cache_store *s)
{
    size_t share = (size_t)(s->limits.max_aliases / 256) + 1;
    for (int i = 0; i < 256 && !atomic_load(&s->closing); i++) {
        char path[4352];
        nf_format(path, sizeof(path), "%s/aliases/%02x", s->local.dir, (unsigned)i);
        DIR *dir = opendir(path);
        if (!dir)
            continue;
        size_t count = 0, cap = 0;
        struct alias *list = NULL;
        for (struct dirent *e; (e = readdir(dir));) {
            struct stat st;
            if (strlen(e->d_name) != 64 || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            if (count == cap) {
                cap = cap ? cap * 2 : 64;
                list = nf_realloc(list, cap * sizeof(*list));
            }
            list[count].at_s = st.st_mtim.tv_sec;
            nf_format(list[count].name, sizeof(list[count].name), "%s", e->d_name);
            count++;
        }
        if (count)
            qsort(list, count, sizeof(*list), by_age);
        size_t drop = count > share ? count - (share - share / 4) : 0;
        int64_t oldest_s = s->limits.alias_ttl_s ? nf_wall_us() / 1000000 - s->limits.alias_ttl_s : INT64_MIN;
        for (size_t k = 0; k < count && (k < drop || list[k].at_s < oldest_s); k++)
            unlinkat(dirfd(dir), list[k].name, 0);
        free(list);
        closedir(dir);
    }
}

/* -------------------------------------------------------------------------------------------------------- maintenance */

void store__limits_look(struct cache_store *s)
{
    struct cache__totals totals;
    cache__index_totals(s->index, &totals);
    bool over = (s->limits.local_soft_bytes && totals.local_bytes > s->limits.local_soft_bytes) ||
                (s->limits.shared_soft_bytes && totals.shared_bytes > s->limits.shared_soft_bytes);
    if (!over)
        return;
    pthread_mutex_lock(&s->lock);
    s->gc_wanted = true;
    pthread_cond_broadcast(&s->wake_cond);
    pthread_mutex_unlock(&s->lock);
}

struct space_sum {
    char name[65];
    uint64_t local, shared;
};
struct space_sums {
    struct space_sum items[256];
    size_t count;
};

static int sum_row(void *user, const struct cache__row *r)
{
    struct space_sums *sums = user;
    size_t i = 0;
    while (i < sums->count && !nf_str_eq_c(r->cache_namespace, sums->items[i].name))
        i++;
    if (i == NF_ARRAY_LEN(sums->items))
        return 0;
    if (i == sums->count) {
        nf_format(sums->items[i].name, sizeof(sums->items[i].name), "%.*s", (int)NF_MIN(r->cache_namespace.len, (size_t)64), r->cache_namespace.data);
        sums->items[i].local = sums->items[i].shared = 0;
        sums->count++;
    }
    sums->items[i].local += r->local_bytes;
    sums->items[i].shared += r->shared_bytes;
    return 0;
}

static void limits_enforce(struct cache_store *s)
{
    struct cache__totals totals;
    struct evicting ev = {.dry_run = false};
    cache__index_totals(s->index, &totals);
    pthread_mutex_lock(&s->gc_lock);
    if (s->limits.local_soft_bytes && totals.local_bytes > s->limits.local_soft_bytes)
        evict_tier(s, CACHE_TIER_LOCAL, NULL, s->limits.local_soft_bytes / 10 * 9, &ev, NULL);
    if (s->has_shared && s->limits.shared_soft_bytes && totals.shared_bytes > s->limits.shared_soft_bytes)
        evict_tier(s, CACHE_TIER_SHARED, NULL, s->limits.shared_soft_bytes / 10 * 9, &ev, NULL);
    if (s->limits.namespace_bytes) {
        struct space_sums *sums = nf_alloc(sizeof(*sums));
        if (cache__index_scan_sizes(s->index, sum_row, sums) == NF_OK)
            for (size_t i = 0; i < sums->count; i++) {
                if (sums->items[i].local > s->limits.namespace_bytes)
                    evict_tier(s, CACHE_TIER_LOCAL, sums->items[i].name, s->limits.namespace_bytes / 10 * 9, &ev, NULL);
                if (s->has_shared && sums->items[i].shared > s->limits.namespace_bytes)
                    evict_tier(s, CACHE_TIER_SHARED, sums->items[i].name, s->limits.namespace_bytes / 10 * 9, &ev, NULL);
            }
        free(sums);
    }
    pthread_mutex_unlock(&s->gc_lock);
    if (ev.progress.removed)
        nf_log(NF_LOG_INFO, "cache", "evicted", "entries=%llu bytes=%llu", (unsigned long long)ev.progress.removed,
               (unsigned long long)ev.progress.bytes_freed);
}

static bool maintenance_wait(struct cache_store *s)
{
    int64_t at = nf_now_ns() + MAINTENANCE_NS;
    struct timespec ts = {.tv_sec = at / NF_SEC, .tv_nsec = at % NF_SEC};
    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->closing) && !s->gc_wanted && nf_now_ns() < at)
        pthread_cond_timedwait(&s->wake_cond, &s->lock, &ts);
    s->gc_wanted = false;
    pthread_mutex_unlock(&s->lock);
    return !atomic_load(&s->closing);
}

void *store__maintenance_main(void *store)
{
    struct cache_store *s = store;
    int64_t swept_ns = 0, aliases_ns = nf_now_ns();
    while (maintenance_wait(s)) {
        store__local_hold(s);
        store__uses_collect(s);
        cache__index_flush(s->index, 100 * NF_MS);
        if (!cache__index_complete(s->index) && !(s->mount && cache_mount_troubled(s->mount)))
            store__rebuild(s); /* the last attempt met a mount in trouble */
        limits_enforce(s);
        store__backfill(s);
        int64_t now = nf_now_ns();
        if (!swept_ns || now - swept_ns > ALIAS_CHECK_NS) {
            swept_ns = now;
            sweep_local(s);
        }
        if (atomic_load(&s->alias_puts) > s->limits.max_aliases / 16 || now - aliases_ns > ALIAS_CHECK_NS) {
            aliases_ns = now;
            atomic_store(&s->alias_puts, 0);
            aliases_bound(s);
        }
    }
    return NULL;
}

/* --------------------------------------------------------------------------------------------------------------- scrub */

static bool scrub_sleep(struct cache_store *s, int64_t ns)
{
    int64_t at = nf_now_ns() + ns;
    struct timespec ts = {.tv_sec = at / NF_SEC, .tv_nsec = at % NF_SEC};
    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->closing) && nf_now_ns() < at)
        pthread_cond_timedwait(&s->wake_cond, &s->lock, &ts);
    pthread_mutex_unlock(&s->lock);
    return !atomic_load(&s->closing);
}

static int scrub_one(void *user, const char *path, const char *cache_namespace, const struct nf_digest *key, enum cache_kind kind)
{
    struct cache_store *s = user;
    struct cache__file f;
    struct nf_error err = {0};
    (void)cache_namespace;
    int rc = cache__file_open(path, key, kind, NULL, 0, &f, &err);
    int64_t ns = 0;
    if (rc == NF_OK) {
        rc = cache__tier_check(&f, s->opt.max_payload_bytes, NULL, &err);
        uint64_t bytes = (uint64_t)f.st.st_size;
        close(f.fd);
        atomic_fetch_add(&s->scrubbed_bytes, bytes);
        uint64_t rate = s->limits.scrub_bytes_per_s;
        ns = rate ? (int64_t)((double)bytes / (double)rate * 1e9) : 0;
    }
    if (rc == NF_ECORRUPT)
        store__quarantine(s, &s->local, path, key, kind, err.message);
    return scrub_sleep(s, NF_MAX(ns, NF_MS)) ? 0 : NF_ECANCELLED;
}

void *store__scrub_main(void *store)
{
    struct cache_store *s = store;
    int64_t scrubbed_ns = 0;
    do {
        if (!s->limits.scrub_bytes_per_s || (scrubbed_ns && nf_now_ns() - scrubbed_ns < s->limits.scrub_interval_s * NF_SEC))
            continue;
        cache__tier_walk(&s->local, NULL, scrub_one, s, NULL);
        scrubbed_ns = nf_now_ns();
    } while (scrub_sleep(s, SCRUB_LOOK_NS));
    return NULL;
}
