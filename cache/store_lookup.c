/* store_lookup.c: by canonical key: local tier, then the mount with admission into the local tier; by digest; aliases.
 *
 *     local   open, footer, owner, mtime rule (or hash)            any thread
 *     shared  open, unpack, SHA-256, publish into the local tier   a mount thread
 *
 * A damaged file in either tier is quarantined, counted, and then not found. */
#include "cache/store_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void cache_found_done(struct cache_found *f)
{
    cache_hit_close(f->hit);
    nf_arena_free(f->arena);
    *f = (struct cache_found){0};
}

/* --------------------------------------------------------------------------------------------------------------- local */

/* An open local file: whole, unchanged since it was checked, held. */
static int local_accept(struct cache_store *s, const struct cache__file *f, struct nf_error *err)
{
    if (f->footer.encoding != CACHE_RAW)
        return nf_fail(err, NF_ECORRUPT, "compressed, which a local entry never is");
    if (!cache__lock_shared(f->fd))
        return NF_ENOTFOUND;
    bool holds = cache__mtime_holds(&f->st, &f->footer);
    if (holds && !s->limits.verify_always)
        return NF_OK;
    int rc = cache__raw_hash_check(f->fd, &f->footer, err);
    if (rc || holds)
        return rc;
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = f->footer.mtime_s}};
    futimens(f->fd, times); /* checked again: the next reader need not */
    return NF_OK;
}

static int failure_take(const struct cache__file *f, struct cache_found *ret_found, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    int rc = cache_meta_read(f->fd, &f->footer, arena, &meta, err);
    if (rc) {
        nf_arena_free(arena);
        return rc;
    }
    *ret_found = (struct cache_found){.is_failure = true, .failure = *meta.failure, .arena = arena};
    return NF_OK;
}

static bool expired(const struct cache_footer *f)
{
    return f->expires_us && f->expires_us <= nf_wall_us();
}

static struct cache__tier *tier_at(struct cache_store *s, int i)
{
    return i == 0 ? &s->local : &s->spill;
}

int store__local_find(struct cache_store *s, const struct nf_digest *key, struct nf_str space, unsigned flags, struct cache_found *ret_found,
                      struct nf_error *err)
{
    char path[4352];
    for (int i = 0; i < 1 + s->has_spill; i++) {
        struct cache__tier *t = tier_at(s, i);
        for (int k = 0; k < CACHE_KIND_MAX; k++) {
            enum cache_kind kind = (enum cache_kind)k;
            struct cache__file f;
            struct nf_error why = {0};
            if (kind == CACHE_KIND_FAILURE && (flags & CACHE_LOOKUP_NO_FAILURES))
                continue;
            int rc = cache__tier_open(t, space, key, kind, path, &f, &why);
            bool open = rc == NF_OK;
            if (rc == NF_OK && kind == CACHE_KIND_FAILURE && expired(&f.footer)) {
                unlink(path);
                cache__index_drop(s->index, key, true, CACHE_IN_LOCAL);
                rc = NF_ENOTFOUND;
            } else if (rc == NF_OK && kind == CACHE_KIND_FAILURE) {
                rc = failure_take(&f, ret_found, &why);
                if (!rc)
                    ret_found->tier = CACHE_TIER_LOCAL;
                if (!rc) {
                    close(f.fd);
                    return NF_OK;
                }
            } else if (rc == NF_OK) {
                rc = local_accept(s, &f, &why);
                if (!rc) {
                    *ret_found = (struct cache_found){.hit = cache__hit_new(&f, path, t->id), .tier = CACHE_TIER_LOCAL};
                    return NF_OK;
                }
            }
            if (open)
                close(f.fd);
            if (rc == NF_ECORRUPT || rc == NF_EPERM)
                store__quarantine(s, t, path, key, kind, why.message);
            else if (rc != NF_ENOTFOUND)
                store__trouble(s, CACHE_TIER_LOCAL, &why);
        }
    }
    char hex[NF_DIGEST_HEX];
    return nf_fail(err, NF_ENOTFOUND, "no entry of key %.12s in %s", nf_digest_hex(key, hex), s->local.dir);
}

int cache_store_lookup_local(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                             struct cache_found *ret_found, struct nf_error *err)
{
    struct nf_str space = nf_str_c(cache_namespace);
    int rc = cache_namespace_check(space, err);
    if (!rc)
        rc = store__local_find(s, key, space, flags, ret_found, err);
    if (rc == NF_OK && !ret_found->is_failure) {
        atomic_fetch_add(&s->hits_local, 1);
        cache_store_note_use(s, key);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------- placing into the local tier */

int store__local_place(struct cache_store *s, struct cache__draft *draft, bool replace, struct cache_mount_item *beat, enum cache__place *ret_place,
                       struct cache_hit **ret_hit, struct nf_error *err)
{
    struct nf_error why = {0};
    struct cache__file f;
    uint64_t bad = 0;
    char rel[CACHE_PATH_MAX], path[4352];
    uint64_t need = (draft->source->raw == UINT64_MAX ? draft->source->stored : draft->source->raw) + draft->meta.len;
    struct cache__tier *t = &s->local;
    int rc = NF_ENOSPACE;
    for (int tries = 0; tries < 2; tries++) {
        struct cache__totals totals;
        cache__index_totals(s->index, &totals);
        bool over = s->limits.local_hard_bytes && totals.local_bytes + need > s->limits.local_hard_bytes;
        if (over && tries == 0) {
            uint64_t target = s->limits.local_hard_bytes > need ? s->limits.local_hard_bytes - need : 0;
            store__evict_local(s, s->limits.local_soft_bytes ? NF_MIN(target, s->limits.local_soft_bytes) : target);
            cache_mount_tick(beat);
            cache__index_totals(s->index, &totals);
            over = totals.local_bytes + need > s->limits.local_hard_bytes;
        }
        if (over) {
            rc = nf_fail(&why, NF_ENOSPACE, "%s is full: %llu bytes are in use, the limit is %llu", t->dir, (unsigned long long)totals.local_bytes,
                         (unsigned long long)s->limits.local_hard_bytes);
            break;
        }
        rc = cache__tier_place(t, draft, replace, beat, ret_place, &f, &bad, &why);
        if (rc != NF_ENOSPACE || tries)
            break;
        /* The disk is full, whatever the limits say: make room for twice of it, once. */
        cache__index_totals(s->index, &totals);
        if (!totals.local_bytes)
            break;
        store__evict_local(s, totals.local_bytes > 2 * need ? totals.local_bytes - 2 * need : 0);
    }
    atomic_fetch_add(&s->quarantined, bad);
    if (rc == NF_OK)
        store__trouble(s, CACHE_TIER_LOCAL, NULL);
    else if (rc != NF_ECORRUPT && rc != NF_ECANCELLED)
        store__trouble(s, CACHE_TIER_LOCAL, &why);
    if (rc && rc != NF_ECORRUPT && rc != NF_ECANCELLED && s->has_spill) {
        t = &s->spill;
        rc = cache__tier_place(t, draft, replace, beat, ret_place, &f, &bad, NULL);
    }
    if (rc) {
        if (err)
            *err = why;
        return rc;
    }
    cache_entry_path(draft->cache_namespace, &draft->footer.key, cache_kind_suffix(draft->footer.kind), rel);
    nf_format(path, sizeof(path), "%s/%s", t->dir, rel);
    if (f.footer.encoding != CACHE_RAW || !cache__lock_shared(f.fd)) {
        close(f.fd);
        return nf_fail(err, NF_EBUSY, "%s went away while it was published", path);
    }
    if (t->id == CACHE_TIER_LOCAL && !cache__mtime_holds(&f.st, &f.footer) && *ret_place == CACHE_LOST) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = f.footer.mtime_s}};
        futimens(f.fd, times); /* an occupant was hashed whole just now */
    }
    *ret_hit = cache__hit_new(&f, path, t->id);
    return NF_OK;
}

/* ----------------------------------------------------------------------------------------------------- shared: admission */

int store__admit(struct cache_store *s, const struct cache__file *from, const char *from_path, struct cache_mount_item *beat,
                 struct cache_hit **ret_hit, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    struct cache__source source = {.fd = -1};
    int rc = NF_OK;
    if (from->footer.raw_bytes > s->opt.max_payload_bytes) {
        rc = nf_fail(err, NF_ECORRUPT, "a payload of %llu bytes is over the limit", (unsigned long long)from->footer.raw_bytes);
        goto out;
    }
    char *meta_bytes = nf_arena_alloc_raw(arena, (size_t)from->footer.meta_bytes + 1);
    rc = nf_fd_pread_all(from->fd, meta_bytes, (size_t)from->footer.meta_bytes, from->footer.stored_bytes);
    if (rc) {
        nf_fail(err, rc, "cannot read the metadata of %s: %s", from_path, nf_status_text(rc));
        goto out;
    }
    rc = cache_meta_read(from->fd, &from->footer, arena, &meta, err);
    if (rc)
        goto out;
    cache_mount_tick(beat);
    cache__source_fd(&source, from->fd, from->footer.encoding, from->footer.stored_bytes, from->footer.raw_bytes);
    struct cache__draft draft = {
        .cache_namespace = meta.cache_namespace,
        .footer = from->footer,
        .sha256_known = true,
        .meta = nf_str_n(meta_bytes, (size_t)from->footer.meta_bytes),
        .source = &source,
    };
    enum cache__place place;
    struct cache_hit *hit;
    rc = store__local_place(s, &draft, false, beat, &place, &hit, err);
    if (rc)
        goto out;
    struct cache__row row;
    store__row_of_meta(&meta, &from->footer, cache_hit_owner(hit), &row);
    row.shared_bytes = (uint64_t)from->st.st_size;
    if (cache_hit_tier(hit) == CACHE_TIER_LOCAL)
        row.local_bytes = row.raw_bytes + draft.meta.len + CACHE_FOOTER_BYTES;
    row.used_s = nf_wall_us() / 1000000;
    cache__index_put(s->index, &row);
    store__limits_look(s);
    atomic_fetch_add(&s->admitted, place == CACHE_PLACED);
    *ret_hit = hit;
out:
    cache__source_done(&source);
    nf_arena_free(arena);
    return rc;
}

/* Past the mount's cached negative answers: an exclusive creation asks the server. It leaves a symbolic link for a moment, which
 * readers take for absence; whoever finds something else at the name when it is taken away puts it back. True: there is an entry. */
static bool probe_exclusive(const char *path)
{
    char own[4400];
    uint64_t bits[2];
    nf_random(bits, sizeof(bits));
    nf_format(own, sizeof(own), "%s.probe-%016llx%016llx", path, (unsigned long long)bits[0], (unsigned long long)bits[1]);
    if (symlink("probe", path) != 0)
        return errno == EEXIST;
    struct stat st;
    if (rename(path, own) != 0)
        return false;
    bool entry = lstat(own, &st) == 0 && S_ISREG(st.st_mode);
    if (entry && link(own, path) != 0 && errno != EEXIST)
        nf_log(NF_LOG_WARNING, "cache", "an entry that was published during a probe is lost", "path=%s", nf_log_quote(path));
    unlink(own);
    return entry;
}

struct shared_lookup {
    struct cache_store *store;
    struct nf_digest key;
    char space[65];
    bool any_space;
    unsigned flags;
    cache_lookup_fn *done;
    void *user;
    struct cache_found found;            /* run's result, handed over by done */
};

/* NF_ENOTFOUND: go on with the next kind. */
static int shared_try(struct shared_lookup *l, enum cache_kind kind, struct cache_mount_item *item, struct nf_error *err)
{
    struct cache_store *s = l->store;
    struct nf_str space = l->any_space ? (struct nf_str){0} : nf_str_c(l->space);
    char path[4352];
    struct cache__file f;
    struct nf_error why = {0};
    int rc = cache__tier_open(&s->shared, space, &l->key, kind, path, &f, &why);
    cache_mount_tick(item);
    if (rc == NF_ENOTFOUND && kind == CACHE_KIND_NEFF && (l->flags & CACHE_LOOKUP_CLAIMED) && !l->any_space && cache__network_fs(s->shared.dir) &&
        probe_exclusive(path))
        rc = cache__tier_open(&s->shared, space, &l->key, kind, path, &f, &why);
    bool open = rc == NF_OK;
    if (open && kind == CACHE_KIND_FAILURE) {
        if (expired(&f.footer))
            rc = NF_ENOTFOUND; /* whoever owns the tier removes it */
        else
            rc = failure_take(&f, &l->found, &why);
        l->found.tier = CACHE_TIER_SHARED;
    } else if (open) {
        struct cache_hit *hit = NULL;
        rc = store__admit(s, &f, path, item, &hit, &why);
        if (rc != NF_OK && rc != NF_ECORRUPT && rc != NF_ECANCELLED && f.footer.encoding == CACHE_RAW) {
            /* The local tier cannot take it: served where it is, after the same check. */
            rc = cache__tier_check(&f, s->opt.max_payload_bytes, item, &why);
            if (rc == NF_OK) {
                hit = cache__hit_new(&f, path, CACHE_TIER_SHARED);
                open = false; /* the descriptor is the hit's */
            }
        }
        if (rc == NF_OK)
            l->found = (struct cache_found){.hit = hit, .tier = CACHE_TIER_SHARED};
    }
    if (open)
        close(f.fd);
    if (rc == NF_ECORRUPT && !cache_mount_given_up(item)) {
        store__quarantine(s, &s->shared, path, &l->key, kind, why.message);
        rc = NF_ENOTFOUND;
    } else if (rc == NF_EPERM) {
        nf_log(NF_LOG_WARNING, "cache", "an entry of a stranger is left alone", "why=%s", nf_log_quote(why.message));
        rc = NF_ENOTFOUND;
    } else if (rc && err) {
        *err = why;
    }
    return rc;
}

static int shared_lookup_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct shared_lookup *l = ctx;
    int rc = NF_ENOTFOUND;
    for (int k = 0; k < CACHE_KIND_MAX && rc == NF_ENOTFOUND; k++)
        if (k != CACHE_KIND_FAILURE || !(l->flags & CACHE_LOOKUP_NO_FAILURES))
            rc = shared_try(l, (enum cache_kind)k, item, err);
    char hex[NF_DIGEST_HEX];
    if (rc == NF_ENOTFOUND)
        return nf_fail(err, rc, "no entry of key %.12s in %s or %s", nf_digest_hex(&l->key, hex), l->store->local.dir, l->store->shared.dir);
    return rc;
}

static void shared_lookup_done(void *ctx, int rc, const struct nf_error *err)
{
    struct shared_lookup *l = ctx;
    struct cache_store *s = l->store;
    struct nf_error changed;
    if (rc == NF_OK && !l->found.is_failure)
        atomic_fetch_add(&s->hits_shared, 1);
    if (rc == NF_OK || rc == NF_ENOTFOUND)
        store__trouble(s, CACHE_TIER_SHARED, NULL);
    else if (rc != NF_EMOUNTHUNG && rc != NF_ECANCELLED) {
        store__trouble(s, CACHE_TIER_SHARED, err);
        /* Whatever the mount says, a request is a miss then; the trouble is told by status. */
        changed = *err;
        changed.code = rc = NF_ENOTFOUND;
        err = &changed;
    }
    if (rc == NF_ENOTFOUND || rc == NF_EMOUNTHUNG)
        atomic_fetch_add(&s->misses, 1);
    struct cache_found found = {0};
    if (rc == NF_OK) {
        found = l->found;
        l->found = (struct cache_found){0};
    }
    l->done(l->user, rc, rc == NF_OK ? &found : NULL, err);
}

static void shared_lookup_free(void *ctx)
{
    struct shared_lookup *l = ctx;
    cache_found_done(&l->found); /* what a given-up run found after all */
    store__unref(l->store);
    free(l);
}

static void shared_lookup_submit(struct shared_lookup *l)
{
    cache_mount_submit(l->store->mount, &(struct cache_mount_work){shared_lookup_run, shared_lookup_done, shared_lookup_free, l, 0});
}

static struct shared_lookup *lookup_new(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                                        cache_lookup_fn *done, void *user)
{
    struct shared_lookup *l = nf_alloc(sizeof(*l));
    l->store = store__ref(s);
    l->key = *key;
    l->any_space = !cache_namespace;
    nf_format(l->space, sizeof(l->space), "%s", cache_namespace ? cache_namespace : "");
    l->flags = flags;
    l->done = done;
    l->user = user;
    return l;
}

/* ------------------------------------------------------------------------------------------------------------- look up */

static int local_step(struct shared_lookup *l, struct nf_error *err)
{
    struct cache_store *s = l->store;
    struct nf_str space = l->any_space ? (struct nf_str){0} : nf_str_c(l->space);
    int rc = cache_namespace_check(space, err);
    if (!rc)
        rc = store__local_find(s, &l->key, space, l->flags, &l->found, err);
    if (rc == NF_OK && !l->found.is_failure) {
        atomic_fetch_add(&s->hits_local, 1);
        cache_store_note_use(s, &l->key);
    }
    return rc;
}

static bool goes_on(const struct shared_lookup *l, int rc)
{
    return rc == NF_ENOTFOUND && l->store->has_shared && !(l->flags & CACHE_LOOKUP_LOCAL_ONLY);
}

static void miss_count(struct shared_lookup *l, int rc)
{
    if (rc == NF_ENOTFOUND)
        atomic_fetch_add(&l->store->misses, 1);
}

static int local_step_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    (void)item;
    return local_step(ctx, err);
}

static void local_step_done(void *ctx, int rc, const struct nf_error *err)
{
    struct shared_lookup *l = ctx;
    if (goes_on(l, rc)) {
        struct shared_lookup *next = lookup_new(l->store, &l->key, l->any_space ? NULL : l->space, l->flags, l->done, l->user);
        shared_lookup_submit(next);
        return;
    }
    miss_count(l, rc);
    struct cache_found found = l->found;
    l->found = (struct cache_found){0};
    l->done(l->user, rc, rc == NF_OK ? &found : NULL, err);
}

void cache_store_lookup_async(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                              cache_lookup_fn *done, void *user)
{
    struct shared_lookup *l = lookup_new(s, key, cache_namespace, flags, done, user);
    cache_mount_submit(s->pool, &(struct cache_mount_work){local_step_run, local_step_done, shared_lookup_free, l, 0});
}

struct sync_lookup {
    struct store__wait wait;
    int rc;
    struct cache_found found;
    struct nf_error err;
};

static void sync_lookup_done(void *user, int rc, struct cache_found *found, const struct nf_error *err)
{
    struct sync_lookup *sync = user;
    sync->rc = rc;
    if (found)
        sync->found = *found;
    if (err)
        sync->err = *err;
    store__wait_signal(&sync->wait);
}

int cache_store_lookup(struct cache_store *s, const struct nf_digest *key, const char *cache_namespace, unsigned flags,
                       struct cache_found *ret_found, struct nf_error *err)
{
    struct sync_lookup sync = {.rc = 0};
    struct shared_lookup *l = lookup_new(s, key, cache_namespace, flags, sync_lookup_done, &sync);
    int rc = local_step(l, err);
    if (!goes_on(l, rc)) {
        miss_count(l, rc);
        if (rc == NF_OK) {
            *ret_found = l->found;
            l->found = (struct cache_found){0};
        }
        shared_lookup_free(l);
        return rc;
    }
    store__wait_init(&sync.wait);
    shared_lookup_submit(l);
    store__wait_for(&sync.wait);
    if (sync.rc == NF_OK)
        *ret_found = sync.found;
    else if (err)
        *err = sync.err;
    return sync.rc;
}

int cache_store_sha256(struct cache_store *s, const struct nf_digest *sha256, struct cache_found *ret_found, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct cache__row row;
    char hex[NF_DIGEST_HEX], space[65];
    int rc = cache__index_by_sha(s->index, sha256, arena, &row);
    if (rc == NF_OK) {
        nf_format(space, sizeof(space), "%.*s", NF_STR_ARG(row.cache_namespace));
        struct cache_found found;
        rc = cache_store_lookup(s, &row.key, space, CACHE_LOOKUP_NO_FAILURES, &found, err);
        if (rc == NF_OK && (!found.hit || !nf_digest_eq(&cache_hit_footer(found.hit)->sha256, sha256))) {
            cache_found_done(&found); /* the key has other bytes by now */
            rc = NF_ENOTFOUND;
        }
        if (rc == NF_OK)
            *ret_found = found;
    }
    nf_arena_free(arena);
    if (rc == NF_ENOTFOUND)
        return nf_fail(err, rc, "no artifact with SHA-256 %.12s", nf_digest_hex(sha256, hex));
    return rc;
}

/* ------------------------------------------------------------------------------------------------------------- aliases */

int cache_store_alias_put(struct cache_store *s, const struct nf_digest *front_key, const struct nf_digest *canonical_key,
                          const char *cache_namespace, struct nf_error *err)
{
    char front[NF_DIGEST_HEX], canonical[NF_DIGEST_HEX], dir[4352], path[4480], tmp[4480], text[160], old[160];
    int rc = cache_namespace_check(nf_str_c(cache_namespace), err);
    if (rc)
        return rc;
    nf_digest_hex(front_key, front);
    nf_format(dir, sizeof(dir), "%s/aliases/%.2s", s->local.dir, front);
    nf_format(path, sizeof(path), "%s/%s", dir, front);
    nf_format(text, sizeof(text), "%s/%s", cache_namespace[0] ? cache_namespace : "_", nf_digest_hex(canonical_key, canonical));
    ssize_t n = readlink(path, old, sizeof(old));
    if (n >= 0 && nf_str_eq_c(nf_str_n(old, (size_t)n), text))
        return NF_OK;
    uint64_t bits[2];
    nf_random(bits, sizeof(bits));
    nf_format(tmp, sizeof(tmp), "%s/.tmp-%016llx%016llx", dir, (unsigned long long)bits[0], (unsigned long long)bits[1]);
    int made = symlink(text, tmp);
    if (made != 0 && errno == ENOENT) {
        rc = nf_mkdir_p(dir, 0755, err);
        if (rc)
            return rc;
        made = symlink(text, tmp);
    }
    if (made != 0)
        return nf_fail_errno(err, errno, "cannot make the alias %s", path);
    /* Not made durable: an alias that is lost costs one parse. */
    if (rename(tmp, path) != 0) {
        int saved = errno;
        unlink(tmp);
        return nf_fail_errno(err, saved, "cannot make the alias %s", path);
    }
    atomic_fetch_add(&s->alias_puts, 1);
    return NF_OK;
}
