/* index_read.c: questions to the index. Point questions share one connection under a lock; scans have one each. */
#include "cache/index_internal.h"

static struct nf_str column_str(sqlite3_stmt *st, int at)
{
    const void *data = sqlite3_column_blob(st, at); /* before its length */
    return nf_str_n(data, (size_t)sqlite3_column_bytes(st, at));
}

static bool digest_join(int64_t prefix, struct nf_str rest, struct nf_digest *ret_digest)
{
    if (rest.len != 24)
        return false;
    for (int i = 0; i < 8; i++)
        ret_digest->bytes[i] = (uint8_t)((uint64_t)prefix >> (56 - 8 * i));
    memcpy(ret_digest->bytes + 8, rest.data, 24);
    return true;
}

static bool sketch_of(struct nf_str bytes, struct cache_sketch *ret_sketch)
{
    if (bytes.len != CACHE_SKETCH_BYTES)
        return false;
    cache_sketch_decode((const uint8_t *)bytes.data, ret_sketch);
    return true;
}

static uint64_t column_u64(sqlite3_stmt *st, int at)
{
    int64_t v = sqlite3_column_int64(st, at);
    return v > 0 ? (uint64_t)v : 0;
}

/* The columns of GET, BY_SHA, SCAN. Texts live until the statement moves on. */
static bool row_of(sqlite3_stmt *st, struct cache__row *r)
{
    *r = (struct cache__row){0};
    int kind = sqlite3_column_int(st, 3);
    if (!digest_join(sqlite3_column_int64(st, 19), column_str(st, 0), &r->key) ||
        !digest_join(sqlite3_column_int64(st, 2), column_str(st, 1), &r->sha256) || !sketch_of(column_str(st, 13), &r->sketch) || kind < 0 ||
        kind >= CACHE_KIND_MAX)
        return false;
    r->kind = (enum cache_kind)kind;
    r->raw_bytes = column_u64(st, 4);
    r->local_bytes = column_u64(st, 5);
    r->shared_bytes = column_u64(st, 6);
    r->created_s = sqlite3_column_int64(st, 7);
    r->used_s = sqlite3_column_int64(st, 8);
    r->uses = column_u64(st, 9);
    r->compile_us = column_u64(st, 10);
    r->expires_s = sqlite3_column_int64(st, 11);
    r->owner = (uid_t)sqlite3_column_int64(st, 12);
    r->name = column_str(st, 14);
    r->cache_namespace = column_str(st, 15);
    r->target = column_str(st, 16);
    r->compiler = column_str(st, 17);
    r->created_by = column_str(st, 18);
    return true;
}

static void row_keep(struct cache__row *r, struct nf_arena *arena)
{
    r->name = nf_arena_str(arena, r->name);
    r->cache_namespace = nf_arena_str(arena, r->cache_namespace);
    r->target = nf_arena_str(arena, r->target);
    r->compiler = nf_arena_str(arena, r->compiler);
    r->created_by = nf_arena_str(arena, r->created_by);
}

static int status_of(int rc)
{
    if (rc == SQLITE_DONE || rc == SQLITE_OK)
        return NF_OK;
    return (rc & 0xff) == SQLITE_BUSY ? NF_EBUSY : NF_EIO;
}

static int point(struct cache__index *ix, enum index_sql sql, int64_t prefix, int failure, const struct nf_digest *key, const struct nf_digest *sha,
                 struct nf_arena *arena, struct cache__row *ret_row)
{
    if (!ix)
        return NF_ENOTFOUND;
    pthread_mutex_lock(&ix->read_lock);
    sqlite3_stmt *st = ix->reader.db ? index__stmt(&ix->reader, sql) : NULL;
    int rc = st ? SQLITE_OK : SQLITE_ERROR;
    bool found = false;
    struct cache__row r;
    if (st) {
        sqlite3_bind_int64(st, 1, prefix);
        if (!sha)
            sqlite3_bind_int(st, 2, failure);
        while (!found && (rc = sqlite3_step(st)) == SQLITE_ROW)
            found = row_of(st, &r) && (sha ? nf_digest_eq(&r.sha256, sha) : nf_digest_eq(&r.key, key));
        if (found) {
            row_keep(&r, arena);
            *ret_row = r;
        }
        sqlite3_reset(st);
    }
    pthread_mutex_unlock(&ix->read_lock);
    if (found)
        return NF_OK;
    rc = status_of(rc);
    return rc ? rc : NF_ENOTFOUND;
}

int cache__index_get(struct cache__index *ix, const struct nf_digest *key, bool failure, struct nf_arena *arena, struct cache__row *ret_row)
{
    return point(ix, SQL_GET, index__prefix(key), failure, key, NULL, arena, ret_row);
}

int cache__index_by_sha(struct cache__index *ix, const struct nf_digest *sha256, struct nf_arena *arena, struct cache__row *ret_row)
{
    return point(ix, SQL_BY_SHA, index__prefix(sha256), 0, NULL, sha256, arena, ret_row);
}

uint64_t cache__index_counter(struct cache__index *ix, const char *name)
{
    if (!ix)
        return 0;
    uint64_t value = 0;
    pthread_mutex_lock(&ix->read_lock);
    sqlite3_stmt *st = ix->reader.db ? index__stmt(&ix->reader, SQL_COUNT_GET) : NULL;
    if (st) {
        sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
        if (sqlite3_step(st) == SQLITE_ROW)
            value = column_u64(st, 0);
        sqlite3_reset(st);
    }
    pthread_mutex_unlock(&ix->read_lock);
    return value;
}

static bool sizes_of(sqlite3_stmt *st, struct cache__row *r)
{
    *r = (struct cache__row){0};
    int kind = sqlite3_column_int(st, 2);
    if (!digest_join(sqlite3_column_int64(st, 0), column_str(st, 1), &r->key) || kind < 0 || kind >= CACHE_KIND_MAX)
        return false;
    r->kind = (enum cache_kind)kind;
    r->local_bytes = column_u64(st, 3);
    r->shared_bytes = column_u64(st, 4);
    r->used_s = sqlite3_column_int64(st, 5);
    r->created_s = sqlite3_column_int64(st, 6);
    r->compile_us = column_u64(st, 7);
    r->expires_s = sqlite3_column_int64(st, 8);
    r->cache_namespace = column_str(st, 9);
    return true;
}

static bool sketches_of(sqlite3_stmt *st, struct cache__row *r)
{
    *r = (struct cache__row){0};
    int kind = sqlite3_column_int(st, 2);
    if (!digest_join(sqlite3_column_int64(st, 0), column_str(st, 1), &r->key) || kind < 0 || kind >= CACHE_KIND_MAX ||
        !sketch_of(column_str(st, 4), &r->sketch))
        return false;
    r->kind = (enum cache_kind)kind;
    r->used_s = sqlite3_column_int64(st, 3);
    r->cache_namespace = column_str(st, 5);
    return true;
}

static int scan(struct cache__index *ix, enum index_sql sql, bool (*columns)(sqlite3_stmt *, struct cache__row *), cache__row_fn *fn, void *user)
{
    struct index_conn c;
    if (!ix)
        return NF_OK;
    int rc = index__conn_open(ix->path, false, &c);
    if (rc != SQLITE_OK)
        return status_of(rc);
    sqlite3_stmt *st = index__stmt(&c, sql);
    rc = st ? SQLITE_OK : SQLITE_ERROR;
    int stop = 0;
    while (st && !stop && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct cache__row r;
        if (columns(st, &r))
            stop = fn(user, &r);
    }
    index__conn_close(&c);
    return stop ? stop : status_of(rc);
}

int cache__index_scan(struct cache__index *ix, bool ordered, cache__row_fn *fn, void *user)
{
    return scan(ix, ordered ? SQL_SCAN_ORDERED : SQL_SCAN, row_of, fn, user);
}

int cache__index_scan_sizes(struct cache__index *ix, cache__row_fn *fn, void *user)
{
    return scan(ix, SQL_SCAN_SIZES, sizes_of, fn, user);
}

int cache__index_scan_sketches(struct cache__index *ix, cache__row_fn *fn, void *user)
{
    return scan(ix, SQL_SCAN_SKETCHES, sketches_of, fn, user);
}
