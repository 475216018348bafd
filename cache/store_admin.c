/* store_admin.c: rebuilding the index, listing, verifying, removing. Blocking calls for the store's or the caller's threads.
 *
 * Work on the mount is cut into items that own all they touch: one that lists paths, then one per entry. A mount that hangs in the
 * middle ends the walk with its error and leaves what was done. */
#include "cache/store_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <unistd.h>

/* --------------------------------------------------------------------------------------------------------- lists of paths */

struct path_item {
    char *path;
    char space[65];
    struct nf_digest key;
    enum cache_kind kind;
};
struct path_list {
    struct path_item *items;
    size_t count, cap;
};

static void list_free(struct path_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].path);
    free(l->items);
    *l = (struct path_list){0};
}

static int list_add(void *user, const char *path, const char *cache_namespace, const struct nf_digest *key, enum cache_kind kind)
{
    struct path_list *l = user;
    if (l->count == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->items = nf_realloc(l->items, l->cap * sizeof(*l->items));
    }
    struct path_item *i = &l->items[l->count++];
    *i = (struct path_item){.path = nf_strdup(path), .key = *key, .kind = kind};
    nf_format(i->space, sizeof(i->space), "%s", cache_namespace);
    return 0;
}

struct list_ctx {
    struct cache_store *store;
    struct path_list list;
    struct path_list *result;
};

static int list_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct list_ctx *c = ctx;
    return cache__tier_walk(&c->store->shared, item, list_add, &c->list, err);
}

static void list_done(void *ctx, int rc, const struct nf_error *err)
{
    struct list_ctx *c = ctx;
    (void)err;
    if (rc == NF_OK) {
        *c->result = c->list;
        c->list = (struct path_list){0};
    }
}

static void list_ctx_free(void *ctx)
{
    struct list_ctx *c = ctx;
    list_free(&c->list);
    store__unref(c->store);
    free(c);
}

static int tier_list(struct cache_store *s, enum cache_tier tier, struct path_list *ret_list, struct nf_error *err)
{
    *ret_list = (struct path_list){0};
    if (tier == CACHE_TIER_LOCAL)
        return cache__tier_walk(&s->local, NULL, list_add, ret_list, err);
    if (!s->has_shared)
        return NF_OK;
    struct list_ctx *c = nf_alloc(sizeof(*c));
    c->store = store__ref(s);
    c->result = ret_list;
    return cache_mount_run(s->mount, &(struct cache_mount_work){list_run, list_done, list_ctx_free, c, 0}, err);
}

/* ---------------------------------------------------------------------------------------------- one entry, by either tier */

enum one_op { ONE_ROW, ONE_CHECK, ONE_REMOVE };

struct one_ctx {
    struct cache_store *store;
    const struct cache__tier *tier;
    enum one_op op;
    struct path_item item;               /* path is its own */
    struct nf_arena *arena;
    struct cache__row row;               /* ONE_ROW's result */
    uint64_t bytes;
    struct one_result *result;
};
struct one_result {
    struct nf_arena *arena;              /* of row's texts; free it */
    struct cache__row row;
    uint64_t bytes;
};

static int one_do(struct one_ctx *c, struct cache_mount_item *item, struct nf_error *err)
{
    struct cache__file f;
    if (c->op == ONE_REMOVE) {
        if (unlink(c->item.path) == 0)
            return NF_OK;
        return errno == ENOENT ? NF_ENOTFOUND : nf_fail_errno(err, errno, "cannot remove %s", c->item.path);
    }
    int rc = cache__file_open(c->item.path, &c->item.key, c->item.kind, NULL, 0, &f, err);
    if (rc == NF_EPERM) { /* the owner of the directory is trusted as well; tier_open knows */
        char path[4352];
        rc = cache__tier_open(c->tier, nf_str_c(c->item.space), &c->item.key, c->item.kind, path, &f, err);
    }
    if (rc)
        return rc;
    c->bytes = (uint64_t)f.st.st_size;
    if (c->op == ONE_CHECK)
        rc = cache__tier_check(&f, c->store->opt.max_payload_bytes, item, err);
    else
        rc = store__row_read(&f, c->tier->id, c->arena, &c->row, err);
    close(f.fd);
    return rc;
}

static int one_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    return one_do(ctx, item, err);
}

static void one_done(void *ctx, int rc, const struct nf_error *err)
{
    struct one_ctx *c = ctx;
    (void)err;
    if (rc == NF_EMOUNTHUNG)
        return;
    c->result->bytes = c->bytes;
    if (rc == NF_OK && c->op == ONE_ROW) {
        c->result->row = c->row;
        c->result->arena = c->arena;
        c->arena = NULL;
    }
}

static void one_free(void *ctx)
{
    struct one_ctx *c = ctx;
    nf_arena_free(c->arena);
    free(c->item.path);
    store__unref(c->store);
    free(c);
}

static int one(struct cache_store *s, enum cache_tier tier, enum one_op op, const struct path_item *item, struct one_result *ret_result,
               struct nf_error *err)
{
    *ret_result = (struct one_result){0};
    struct one_ctx *c = nf_alloc(sizeof(*c));
    c->store = store__ref(s);
    c->tier = tier == CACHE_TIER_LOCAL ? &s->local : &s->shared;
    c->op = op;
    c->item = *item;
    c->item.path = nf_strdup(item->path);
    c->arena = op == ONE_ROW ? nf_arena_new(0) : NULL;
    c->result = ret_result;
    if (tier == CACHE_TIER_SHARED)
        return cache_mount_run(s->mount, &(struct cache_mount_work){one_run, one_done, one_free, c, 0}, err);
    int rc = one_do(c, NULL, err);
    one_done(c, rc, err);
    one_free(c);
    return rc;
}

/* --------------------------------------------------------------------------------------------------------------- rebuild */

static int rebuild_tier(struct cache_store *s, enum cache_tier tier, struct nf_error *err)
{
    struct path_list list;
    uint64_t gone = atomic_load(&s->evicted) + atomic_load(&s->quarantined);
    int rc = tier_list(s, tier, &list, err);
    for (size_t i = 0; i < list.count && !rc && !atomic_load(&s->closing); i++) {
        struct one_result r;
        int got = one(s, tier, ONE_ROW, &list.items[i], &r, err);
        if (got == NF_OK)
            cache__index_put(s->index, &r.row);
        else if (got == NF_EMOUNTHUNG || got == NF_ECANCELLED)
            rc = got;
        nf_arena_free(r.arena);
        if (i % 8192 == 8191)
            cache__index_flush(s->index, 10 * NF_SEC); /* no faster than it is written */
    }
    /* What was evicted between its reading and its put would stay as a ghost: looked for after the put, it cannot. */
    bool moved = gone != atomic_load(&s->evicted) + atomic_load(&s->quarantined);
    for (size_t i = 0; i < list.count && !rc && moved && !atomic_load(&s->closing); i++) {
        struct one_result r;
        if (one(s, tier, ONE_ROW, &list.items[i], &r, NULL) == NF_ENOTFOUND)
            cache__index_drop(s->index, &list.items[i].key, list.items[i].kind == CACHE_KIND_FAILURE,
                              tier == CACHE_TIER_LOCAL ? CACHE_IN_LOCAL : CACHE_IN_SHARED);
        nf_arena_free(r.arena);
    }
    list_free(&list);
    return rc;
}

static int rebuild_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct cache_store *s = ctx;
    (void)item;
    int64_t begin = nf_now_ns();
    int rc = rebuild_tier(s, CACHE_TIER_LOCAL, err);
    struct nf_error shared_err = {0};
    int shared_rc = s->has_shared ? rebuild_tier(s, CACHE_TIER_SHARED, &shared_err) : NF_OK;
    if (atomic_load(&s->closing))
        return NF_ECANCELLED;
    if (rc || shared_rc) {
        nf_log(NF_LOG_WARNING, "cache", "the index could not be rebuilt whole", "why=%s", nf_log_quote(rc ? err->message : shared_err.message));
        return rc ? rc : shared_rc; /* incomplete: the next start tries again */
    }
    cache__index_set_complete(s->index);
    cache__index_flush(s->index, NF_SEC);
    struct cache__totals totals;
    cache__index_totals(s->index, &totals);
    nf_log(NF_LOG_INFO, "cache", "index rebuilt", "entries=%llu ms=%lld", (unsigned long long)totals.entries, (long long)((nf_now_ns() - begin) / NF_MS));
    return NF_OK;
}

static void rebuild_free(void *ctx)
{
    struct cache_store *s = ctx;
    atomic_store(&s->rebuilding, false);
    store__unref(s);
}

void store__rebuild(void *store)
{
    struct cache_store *s = store;
    if (!atomic_exchange(&s->rebuilding, true))
        cache_mount_submit(s->pool, &(struct cache_mount_work){rebuild_run, NULL, rebuild_free, store__ref(s), 0});
}

/* ------------------------------------------------------------------------------------------------------------------ rows */

/* Without an index: both tiers, an entry that is in both given once. */
static int rows_from_files(struct cache_store *s, cache__row_fn *fn, void *user, struct nf_error *err)
{
    struct path_list local, shared;
    struct nf_error ignored = {0};
    int rc = tier_list(s, CACHE_TIER_LOCAL, &local, err);
    if (rc)
        return rc;
    if (tier_list(s, CACHE_TIER_SHARED, &shared, &ignored))
        shared = (struct path_list){0}; /* a mount in trouble takes its own entries out of the list, not the others */
    for (int t = 0; t < 2 && !rc; t++) {
        const struct path_list *list = t == 0 ? &local : &shared;
        for (size_t i = 0; i < list->count && !rc; i++) {
            struct one_result r;
            bool skip = false;
            for (size_t k = 0; t == 1 && k < local.count && !skip; k++)
                skip = local.items[k].kind == list->items[i].kind && nf_digest_eq(&local.items[k].key, &list->items[i].key);
            if (skip)
                continue;
            if (one(s, t == 0 ? CACHE_TIER_LOCAL : CACHE_TIER_SHARED, ONE_ROW, &list->items[i], &r, &ignored) == NF_OK)
                rc = fn(user, &r.row);
            nf_arena_free(r.arena);
        }
    }
    list_free(&local);
    list_free(&shared);
    return rc;
}

int store__rows(struct cache_store *s, enum store__rows what, cache__row_fn *fn, void *user, struct nf_error *err)
{
    if (!s->index)
        return rows_from_files(s, fn, user, err);
    for (int64_t until = nf_now_ns() + 2 * NF_SEC; !cache__index_complete(s->index) && nf_now_ns() < until;)
        nf_sleep_ns(10 * NF_MS); /* just made anew: a small cache is there in a moment */
    int rc = what == STORE_ROWS_SIZES      ? cache__index_scan_sizes(s->index, fn, user)
             : what == STORE_ROWS_SKETCHES ? cache__index_scan_sketches(s->index, fn, user)
                                           : cache__index_scan(s->index, what == STORE_ROWS_ORDERED, fn, user);
    if (rc == NF_EIO || rc == NF_EBUSY)
        return rows_from_files(s, fn, user, err);
    return rc;
}

/* --------------------------------------------------------------------------------------------------------------- listing */

struct listing {
    struct cache_store *store;
    const char *cache_namespace, *filter;
    uint32_t limit, given;
    cache_entry_fn *fn;
    void *user;
};

static bool contains(struct nf_str text, const char *part)
{
    return part[0] == 0 || (text.len && memmem(text.data, text.len, part, strlen(part)));
}

static const char *c_text(struct nf_arena *arena, struct nf_str s)
{
    return nf_arena_strn(arena, s.data ? s.data : "", s.len);
}

/* What is remembered, from whichever tier answers without a mount first. */
static const struct cache_failure *failure_of_row(struct cache_store *s, const struct cache__row *r, struct nf_arena *arena)
{
    char path[4352];
    struct cache__file f;
    struct cache_meta meta;
    const struct cache_failure *failure = NULL;
    if (cache__tier_open(&s->local, r->cache_namespace, &r->key, CACHE_KIND_FAILURE, path, &f, NULL) == NF_OK) {
        if (cache_meta_read(f.fd, &f.footer, arena, &meta, NULL) == NF_OK)
            failure = meta.failure;
        close(f.fd);
    }
    if (!failure) {
        struct cache_failure *unknown = NF_NEW(arena, struct cache_failure);
        unknown->cls = NF_CLASS_USER;
        unknown->error.code = NF_ECOMPILEFAILED;
        unknown->error.from_cache = true;
        nf_format(unknown->error.message, sizeof(unknown->error.message), "a failure that another host remembers");
        failure = unknown;
    }
    return failure;
}

static int list_row(void *user, const struct cache__row *r)
{
    struct listing *l = user;
    struct cache_store *s = l->store;
    char hex[NF_DIGEST_HEX];
    if (l->cache_namespace && !nf_str_eq_c(r->cache_namespace, l->cache_namespace))
        return 0;
    nf_digest_hex(&r->key, hex);
    if (l->filter && !contains(r->name, l->filter) && !contains(r->target, l->filter) && !contains(nf_str_c(hex), l->filter))
        return 0;
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_entry_info e = {
        .key = r->key,
        .sha256 = r->sha256,
        .kind = r->kind,
        .name = c_text(arena, r->name),
        .cache_namespace = c_text(arena, r->cache_namespace),
        .target = c_text(arena, r->target),
        .compiler = c_text(arena, r->compiler),
        .created_by = c_text(arena, r->created_by),
        .size = r->raw_bytes,
        .created_us = r->created_s * 1000000,
        .last_used_us = r->used_s * 1000000,
        .compile_us = r->compile_us,
        .uses = r->uses,
        .in_local = r->local_bytes != 0,
        .in_shared = r->shared_bytes != 0,
        .owner = r->owner,
    };
    char rel[CACHE_PATH_MAX];
    cache_entry_path(r->cache_namespace, &r->key, cache_kind_suffix(r->kind), rel);
    nf_format(e.path, sizeof(e.path), "%s/%s", e.in_local ? s->local.dir : s->shared.dir, rel);
    if (r->kind == CACHE_KIND_FAILURE) {
        e.failure = failure_of_row(s, r, arena);
        e.created_us = r->created_s * 1000000;
    }
    int rc = l->fn(l->user, &e);
    nf_arena_free(arena);
    l->given++;
    return rc ? rc : l->limit && l->given >= l->limit ? 1 : 0;
}

int cache_store_list(struct cache_store *s, const char *cache_namespace, const char *filter, uint32_t limit, cache_entry_fn *fn, void *user,
                     struct nf_error *err)
{
    struct listing l = {s, cache_namespace, filter && filter[0] ? filter : NULL, limit, 0, fn, user};
    cache__index_flush(s->index, 500 * NF_MS);
    int rc = store__rows(s, STORE_ROWS_ORDERED, list_row, &l, err);
    return rc == 1 && limit && l.given >= limit ? NF_OK : rc;
}

int cache_store_show(struct cache_store *s, const struct nf_digest *key, cache_entry_fn *fn, void *user, struct nf_error *err)
{
    struct listing l = {s, NULL, NULL, 0, 0, fn, user};
    struct nf_arena *arena = nf_arena_new(0);
    struct cache__row row;
    char path[4352], hex[NF_DIGEST_HEX];
    int rc = NF_OK;
    cache__index_flush(s->index, 500 * NF_MS);
    for (int failure = 0; failure < 2 && !rc; failure++) {
        struct cache__file f;
        int got = cache__index_get(s->index, key, failure, arena, &row);
        for (int k = 0; k < CACHE_KIND_MAX && got != NF_OK; k++) { /* absence is never the index's to tell */
            if ((k == CACHE_KIND_FAILURE) != failure ||
                cache__tier_open(&s->local, (struct nf_str){0}, key, (enum cache_kind)k, path, &f, NULL) != NF_OK)
                continue;
            got = store__row_read(&f, CACHE_TIER_LOCAL, arena, &row, NULL);
            close(f.fd);
        }
        if (got == NF_OK)
            rc = list_row(&l, &row);
    }
    nf_arena_free(arena);
    if (!rc && !l.given)
        return nf_fail(err, NF_ENOTFOUND, "no entry of key %.12s", nf_digest_hex(key, hex));
    return rc;
}

/* ---------------------------------------------------------------------------------------------------------------- verify */

static bool is_there(const struct path_list *list, const struct path_item *item)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].kind == item->kind && nf_digest_eq(&list->items[i].key, &item->key))
            return true;
    return false;
}

struct quarantine_ctx {
    struct cache_store *store;
    struct path_item item;
    char reason[300];
};

static int quarantine_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct quarantine_ctx *c = ctx;
    (void)item;
    return cache__tier_quarantine(&c->store->shared, c->item.path, c->reason, err);
}

static void quarantine_free(void *ctx)
{
    struct quarantine_ctx *c = ctx;
    free(c->item.path);
    store__unref(c->store);
    free(c);
}

static int take_away(struct cache_store *s, enum cache_tier tier, const struct path_item *item, const char *reason, struct nf_error *err)
{
    if (tier == CACHE_TIER_LOCAL) {
        int rc = cache__tier_quarantine(&s->local, item->path, reason, err);
        return rc == NF_ENOTFOUND ? NF_OK : rc;
    }
    struct quarantine_ctx *c = nf_alloc(sizeof(*c));
    c->store = store__ref(s);
    c->item = *item;
    c->item.path = nf_strdup(item->path);
    nf_format(c->reason, sizeof(c->reason), "%s", reason);
    int rc = cache_mount_run(s->mount, &(struct cache_mount_work){quarantine_run, NULL, quarantine_free, c, 0}, err);
    return rc == NF_ENOTFOUND ? NF_OK : rc;
}

/* One that was damaged here and whole on the mount comes back. */
static void fetch_again(struct cache_store *s, const struct path_item *item)
{
    struct cache_found found;
    if (item->kind != CACHE_KIND_FAILURE && cache_store_lookup(s, &item->key, item->space, CACHE_LOOKUP_NO_FAILURES, &found, NULL) == NF_OK)
        cache_found_done(&found);
}

int cache_store_verify(struct cache_store *s, bool repair, cache_progress_fn *fn, void *user, struct nf_error *err)
{
    struct path_list lists[2] = {{0}, {0}}, damaged = {0};
    struct cache_progress p = {0};
    struct nf_error why = {0};
    int rc = tier_list(s, CACHE_TIER_LOCAL, &lists[0], err);
    int shared_rc = rc ? NF_OK : tier_list(s, CACHE_TIER_SHARED, &lists[1], &why);
    if (shared_rc)
        nf_format(p.note, sizeof(p.note), "%s", why.message);
    p.total = lists[0].count + lists[1].count;
    for (int t = 0; t < 2 && !rc; t++) {
        for (size_t i = 0; i < lists[t].count && !rc; i++) {
            const struct path_item *item = &lists[t].items[i];
            enum cache_tier tier = t == 0 ? CACHE_TIER_LOCAL : CACHE_TIER_SHARED;
            struct one_result r;
            why = (struct nf_error){0};
            int got = one(s, tier, ONE_CHECK, item, &r, &why);
            p.done++;
            p.note[0] = 0;
            if (got == NF_EMOUNTHUNG || got == NF_ECANCELLED) {
                rc = got;
                if (err)
                    *err = why;
                break;
            }
            if (got && got != NF_ENOTFOUND) {
                p.bad++;
                nf_format(p.note, sizeof(p.note), "%.240s: %.240s", item->path, why.message);
                if (repair && got == NF_ECORRUPT) {
                    struct nf_error moved = {0};
                    int away = take_away(s, tier, item, why.message, &moved);
                    if (away == NF_OK) {
                        atomic_fetch_add(&s->quarantined, 1);
                        p.removed++;
                        p.bytes_freed += r.bytes;
                        cache__index_drop(s->index, &item->key, item->kind == CACHE_KIND_FAILURE, t == 0 ? CACHE_IN_LOCAL : CACHE_IN_SHARED);
                        if (t == 0)
                            list_add(&damaged, item->path, item->space, &item->key, item->kind);
                    } else {
                        nf_format(p.note, sizeof(p.note), "%.500s", moved.message);
                    }
                }
            } else if (repair && got == NF_OK) {
                struct one_result row; /* brings the index in line */
                if (one(s, tier, ONE_ROW, item, &row, NULL) == NF_OK)
                    cache__index_put(s->index, &row.row);
                nf_arena_free(row.arena);
            }
            if (fn && fn(user, &p))
                rc = nf_fail(err, NF_ECANCELLED, "stopped");
        }
    }
    for (size_t i = 0; i < damaged.count && !rc; i++)
        if (is_there(&lists[1], &damaged.items[i]))
            fetch_again(s, &damaged.items[i]);
    list_free(&lists[0]);
    list_free(&lists[1]);
    list_free(&damaged);
    if (repair)
        cache__index_flush(s->index, NF_SEC);
    if (rc)
        return rc;
    p.finished = true;
    if (fn)
        fn(user, &p);
    return NF_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- remove */

static int remove_path(struct cache_store *s, enum cache_tier tier, const char *space, const struct nf_digest *key, enum cache_kind kind,
                       struct nf_error *err)
{
    const struct cache__tier *t = tier == CACHE_TIER_LOCAL ? &s->local : &s->shared;
    char rel[CACHE_PATH_MAX], path[4352];
    cache_entry_path(nf_str_c(space), key, cache_kind_suffix(kind), rel);
    nf_format(path, sizeof(path), "%s/%s", t->dir, rel);
    struct path_item item = {.path = path, .key = *key, .kind = kind};
    nf_format(item.space, sizeof(item.space), "%s", space);
    struct one_result r;
    int rc = one(s, tier, ONE_REMOVE, &item, &r, err);
    if (rc == NF_OK || rc == NF_ENOTFOUND)
        cache__index_drop(s->index, key, kind == CACHE_KIND_FAILURE, tier == CACHE_TIER_LOCAL ? CACHE_IN_LOCAL : CACHE_IN_SHARED);
    return rc;
}

struct spaces_ctx {
    struct cache_store *store;
    struct nf_arena *arena;
    const char **names;
    size_t count;
    struct spaces_ctx *result;
};

static int spaces_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct spaces_ctx *c = ctx;
    (void)item;
    (void)err;
    return cache__tier_namespaces(&c->store->shared, c->arena, &c->names, &c->count);
}

static void spaces_done(void *ctx, int rc, const struct nf_error *err)
{
    struct spaces_ctx *c = ctx;
    (void)err;
    if (rc == NF_OK) {
        c->result->arena = c->arena;
        c->result->names = c->names;
        c->result->count = c->count;
        c->arena = NULL;
    }
}

static void spaces_free(void *ctx)
{
    struct spaces_ctx *c = ctx;
    nf_arena_free(c->arena);
    store__unref(c->store);
    free(c);
}

/* The namespaces that either tier has. */
static size_t spaces_of(struct cache_store *s, struct nf_arena *arena, const char ***ret_names)
{
    const char **local = NULL, **all;
    size_t local_count = 0, count = 0;
    struct spaces_ctx shared = {0};
    cache__tier_namespaces(&s->local, arena, &local, &local_count);
    if (s->has_shared) {
        struct spaces_ctx *c = nf_alloc(sizeof(*c));
        c->store = store__ref(s);
        c->arena = nf_arena_new(0);
        c->result = &shared;
        cache_mount_run(s->mount, &(struct cache_mount_work){spaces_run, spaces_done, spaces_free, c, 0}, NULL);
    }
    all = NF_NEW_ARRAY(arena, const char *, local_count + shared.count + 1);
    for (size_t i = 0; i < local_count + shared.count; i++) {
        const char *name = i < local_count ? local[i] : shared.names[i - local_count];
        bool known = false;
        for (size_t k = 0; k < count && !known; k++)
            known = strcmp(all[k], name) == 0;
        if (!known)
            all[count++] = nf_arena_strn(arena, name, strlen(name));
    }
    nf_arena_free(shared.arena);
    *ret_names = all;
    return count;
}

struct failures {
    struct path_list list;
    const char *cache_namespace;
};

static int failure_row(void *user, const struct cache__row *r)
{
    struct failures *f = user;
    char space[65];
    nf_format(space, sizeof(space), "%.*s", (int)NF_MIN(r->cache_namespace.len, (size_t)64), r->cache_namespace.data);
    if (r->kind == CACHE_KIND_FAILURE && (!f->cache_namespace || strcmp(f->cache_namespace, space) == 0))
        list_add(&f->list, "", space, &r->key, CACHE_KIND_FAILURE);
    return 0;
}

static int remove_both(struct cache_store *s, const char *space, const struct nf_digest *key, enum cache_kind kind, bool *ret_removed, struct nf_error *err)
{
    int rc = remove_path(s, CACHE_TIER_LOCAL, space, key, kind, err);
    int shared = s->has_shared ? remove_path(s, CACHE_TIER_SHARED, space, key, kind, rc && rc != NF_ENOTFOUND ? NULL : err) : NF_ENOTFOUND;
    *ret_removed |= rc == NF_OK || shared == NF_OK;
    if (rc && rc != NF_ENOTFOUND)
        return rc;
    return shared == NF_ENOTFOUND ? NF_OK : shared;
}

int cache_store_remove(struct cache_store *s, const struct nf_digest *keys, size_t count, bool failures_only, const char *cache_namespace,
                       uint64_t *ret_removed, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    uint64_t removed = 0;
    int rc = cache_namespace ? cache_namespace_check(nf_str_c(cache_namespace), err) : NF_OK;
    cache__index_flush(s->index, 500 * NF_MS);
    if (!rc && !count && failures_only) {
        struct failures f = {.cache_namespace = cache_namespace};
        rc = store__rows(s, STORE_ROWS_SIZES, failure_row, &f, err);
        for (size_t i = 0; i < f.list.count && !rc; i++) {
            bool gone = false;
            rc = remove_both(s, f.list.items[i].space, &f.list.items[i].key, CACHE_KIND_FAILURE, &gone, err);
            removed += gone;
        }
        list_free(&f.list);
    }
    const char *single[1] = {cache_namespace}, **spaces = single;
    size_t space_count = 1;
    if (!rc && count && !cache_namespace)
        space_count = spaces_of(s, arena, &spaces);
    for (size_t i = 0; i < count && !rc; i++) {
        bool gone = false;
        for (size_t n = 0; n < space_count && !rc; n++)
            for (int k = failures_only ? CACHE_KIND_FAILURE : 0; k < CACHE_KIND_MAX && !rc; k++)
                rc = remove_both(s, spaces[n], &keys[i], (enum cache_kind)k, &gone, err);
        removed += gone;
    }
    nf_arena_free(arena);
    cache__index_flush(s->index, 500 * NF_MS);
    if (rc)
        return rc;
    *ret_removed = removed;
    return NF_OK;
}
