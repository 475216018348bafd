/* index.c: the index's writing thread and its life: opening, damage, other processes. Reading is in index_read.c.
 *
 *     totals in memory = sum over `spaces` at the last commit; spaces = sum over `entries`, kept in the same transactions
 *
 * Locks, in order: `read_lock` (the reading connection; also held while connections are replaced), then `lock` (queue,
 * snapshot, flags). The writing connection belongs to the index's thread alone. */
#include "cache/index.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "cache/index_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#define GATHER_NS (20 * NF_MS)
#define BATCH_MAX 16384
#define QUEUE_MAX 200000
#define RETRY_NS (3 * NF_SEC)

enum op_kind { OP_PUT, OP_DROP, OP_USE, OP_COUNT, OP_COMPLETE };

struct index_op {
    struct index_op *next;
    enum op_kind kind;
    struct cache__row row;       /* texts point behind the op */
    bool failure;
    unsigned tiers;
    uint64_t number;
    char text[];
};

static const char schema_sql[] =
    "PRAGMA page_size = 4096;"
    "PRAGMA journal_mode = WAL;"
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS words (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);"
    "CREATE TABLE IF NOT EXISTS spaces (ns INTEGER PRIMARY KEY, entries INTEGER NOT NULL, failures INTEGER NOT NULL, local INTEGER NOT NULL,"
    " shared INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, key BLOB NOT NULL, s INTEGER NOT NULL, sha BLOB NOT NULL,"
    " ns INTEGER NOT NULL, kind INTEGER NOT NULL, target INTEGER NOT NULL, compiler INTEGER NOT NULL, creator INTEGER NOT NULL, raw INTEGER NOT NULL,"
    " local INTEGER NOT NULL, shared INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL, uses INTEGER NOT NULL, cost INTEGER NOT NULL,"
    " expires INTEGER NOT NULL, owner INTEGER NOT NULL, sketch BLOB NOT NULL, name BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS by_key ON entries (k);"
    "CREATE INDEX IF NOT EXISTS by_sha ON entries (s);"
    "INSERT OR IGNORE INTO meta (name, value) VALUES ('schema', " INDEX_SCHEMA_TEXT ");"
    "COMMIT;";

/* --------------------------------------------------------------------------------------------------------- connections */

const char *const index__sql[SQL_MAX] = {
#define SQL(sym, writer, text) [SQL_##sym] = text,
#include "cache/index_sql.def"
#undef SQL
};

void index__conn_close(struct index_conn *c)
{
    for (int i = 0; i < SQL_MAX; i++)
        sqlite3_finalize(c->stmt[i]);
    sqlite3_close(c->db);
    *c = (struct index_conn){0};
}

sqlite3_stmt *index__stmt(struct index_conn *c, enum index_sql sql)
{
    if (!c->stmt[sql] && sqlite3_prepare_v3(c->db, index__sql[sql], -1, SQLITE_PREPARE_PERSISTENT, &c->stmt[sql], NULL) != SQLITE_OK)
        return NULL;
    sqlite3_reset(c->stmt[sql]);
    return c->stmt[sql];
}

int index__conn_open(const char *path, bool writer, struct index_conn *ret_conn)
{
    struct index_conn c = {0};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | (writer ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(path, &c.db, flags, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(c.db, 2000);
        sqlite3_db_config(c.db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        rc = sqlite3_exec(c.db, writer ? "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 8000;"
                                         " PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON;"
                                       : "PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA mmap_size = 0; PRAGMA cell_size_check = ON;",
                          NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK) {
        sqlite3_close(c.db);
        return rc;
    }
    *ret_conn = c;
    return SQLITE_OK;
}

static void trouble_set(struct cache__index *ix, const char *what, const char *why)
{
    pthread_mutex_lock(&ix->lock);
    bool fresh = !ix->trouble[0];
    nf_format(ix->trouble, sizeof(ix->trouble), "%s: %s: %s", ix->path, what, why);
    pthread_mutex_unlock(&ix->lock);
    if (fresh)
        nf_log(NF_LOG_WARNING, "cache", "the index is in trouble", "path=%s what=%s why=%s", nf_log_quote(ix->path), nf_log_quote(what), nf_log_quote(why));
}

static void trouble_clear(struct cache__index *ix)
{
    pthread_mutex_lock(&ix->lock);
    ix->trouble[0] = 0;
    pthread_mutex_unlock(&ix->lock);
}

static bool is_damage(int rc)
{
    int primary = rc & 0xff;
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_SCHEMA || primary == SQLITE_ERROR || primary == SQLITE_MISMATCH;
}

static void close_both(struct cache__index *ix)
{
    pthread_mutex_lock(&ix->read_lock);
    index__conn_close(&ix->reader);
    pthread_mutex_unlock(&ix->read_lock);
    index__conn_close(&ix->writer);
    nf_map_free(ix->words);
    ix->words = NULL;
}

static void wipe(struct cache__index *ix)
{
    char path[4352];
    static const char *const suffix[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < NF_ARRAY_LEN(suffix); i++)
        if (nf_format(path, sizeof(path), "%s%s", ix->path, suffix[i]))
            unlink(path);
}

static int64_t meta_get(struct index_conn *c, const char *name, int *ret_rc)
{
    sqlite3_stmt *st = NULL;
    int64_t value = -1;
    int rc = sqlite3_prepare_v2(c->db, "SELECT value FROM meta WHERE name = ?1", -1, &st, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
        rc = sqlite3_step(st);
        if (rc == SQLITE_ROW)
            value = sqlite3_column_int64(st, 0);
    }
    sqlite3_finalize(st);
    *ret_rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
    return value;
}

static int totals_refresh(struct cache__index *ix)
{
    sqlite3_stmt *st = index__stmt(&ix->writer, SQL_TOTALS);
    int rc = st ? sqlite3_step(st) : SQLITE_ERROR;
    if (rc != SQLITE_ROW)
        return rc;
    uint64_t v[4];
    for (int i = 0; i < 4; i++) {
        double d = sqlite3_column_double(st, i);
        v[i] = d > 0 ? (uint64_t)d : 0;
    }
    sqlite3_reset(st);
    pthread_mutex_lock(&ix->lock);
    ix->totals = (struct cache__totals){v[0], v[1], v[2], v[3]};
    pthread_mutex_unlock(&ix->lock);
    return SQLITE_OK;
}

/* One attempt: the file as it is, or a new one when there is none. *ret_fresh: its rows are not all there. */
static int try_open(struct cache__index *ix, bool *ret_fresh)
{
    int rc = index__conn_open(ix->path, true, &ix->writer);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_exec(ix->writer.db, schema_sql, NULL, NULL, NULL);
    int64_t schema = rc == SQLITE_OK ? meta_get(&ix->writer, "schema", &rc) : 0;
    if (rc == SQLITE_OK && schema != INDEX_SCHEMA)
        rc = SQLITE_SCHEMA;
    int64_t complete = rc == SQLITE_OK ? meta_get(&ix->writer, "complete", &rc) : 0;
    for (int i = 0; i < SQL_MAX && rc == SQLITE_OK; i++) /* a table of another shape fails here, not in the middle of work */
        if (!index__stmt(&ix->writer, (enum index_sql)i))
            rc = SQLITE_SCHEMA;
    if (rc == SQLITE_OK)
        rc = totals_refresh(ix);
    if (rc == SQLITE_OK) {
        pthread_mutex_lock(&ix->read_lock);
        rc = index__conn_open(ix->path, false, &ix->reader);
        pthread_mutex_unlock(&ix->read_lock);
    }
    if (rc != SQLITE_OK) {
        close_both(ix);
        return rc;
    }
    struct stat st = {0};
    stat(ix->path, &st);
    ix->dev = st.st_dev;
    ix->ino = st.st_ino;
    ix->size = st.st_size;
    ix->words = nf_map_new(true);
    *ret_fresh = complete != 1;
    return SQLITE_OK;
}

static void set_complete_flag(struct cache__index *ix, bool complete)
{
    pthread_mutex_lock(&ix->lock);
    ix->complete = complete;
    pthread_mutex_unlock(&ix->lock);
}

/* Opens, and makes anew what cannot be read. Under a lock file, so that of several processes one does it. */
static void reopen(struct cache__index *ix)
{
    char lock_path[4352];
    bool fresh = false;
    nf_format(lock_path, sizeof(lock_path), "%s.lock", ix->path);
    close_both(ix);
    int lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_fd < 0) {
        trouble_set(ix, "cannot open its lock file", strerror(errno));
        return;
    }
    for (int tries = 0; flock(lock_fd, LOCK_EX | LOCK_NB) != 0 && tries < 200; tries++)
        nf_sleep_ns(10 * NF_MS);
    int rc = try_open(ix, &fresh);
    struct stat st;
    bool no_file = rc != SQLITE_OK && lstat(ix->path, &st) == 0 && !S_ISREG(st.st_mode);
    if (no_file) { /* a link or a directory in its place is not looked into */
        char away[4500];
        nf_format(away, sizeof(away), "%s.not-a-file", ix->path);
        rename(ix->path, away);
    }
    if (is_damage(rc) || no_file) {
        nf_log(NF_LOG_WARNING, "cache", "the index is damaged or of another version and is made anew", "path=%s why=%s", nf_log_quote(ix->path),
               sqlite3_errstr(rc));
        wipe(ix);
        rc = try_open(ix, &fresh);
    }
    close(lock_fd);
    if (rc != SQLITE_OK) {
        trouble_set(ix, "cannot open the index", sqlite3_errstr(rc));
        return;
    }
    trouble_clear(ix);
    set_complete_flag(ix, !fresh && !ix->lossy);
    if (fresh || ix->lossy) {
        ix->lossy = false;
        ix->rebuild(ix->user);
    }
}

/* The file at the path is the one that is open, and nobody cut it: SQLite never makes it smaller here. It is not mapped either, so
 * whoever writes garbage over it cannot end this process. */
static bool still_there(struct cache__index *ix)
{
    struct stat st;
    if (!ix->writer.db || stat(ix->path, &st) != 0 || st.st_dev != ix->dev || st.st_ino != ix->ino || st.st_size < ix->size)
        return false;
    ix->size = st.st_size;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- writing */

struct delta {
    int64_t ns;
    int64_t entries, failures, local, shared;
};

static int step_done(sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    sqlite3_reset(st);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int word_id(struct cache__index *ix, struct nf_str text, int64_t *ret_id)
{
    struct nf_str key = text.data ? text : NF_STR("");
    void *known = nf_map_get(ix->words, key);
    if (known) {
        *ret_id = (int64_t)(intptr_t)known;
        return SQLITE_OK;
    }
    sqlite3_stmt *st = index__stmt(&ix->writer, SQL_WORD_FIND);
    if (!st)
        return SQLITE_ERROR;
    sqlite3_bind_blob(st, 1, key.len ? key.data : "", (int)key.len, SQLITE_TRANSIENT);
    int rc = sqlite3_step(st);
    int64_t id = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    if (rc == SQLITE_DONE) {
        st = index__stmt(&ix->writer, SQL_WORD_INSERT);
        sqlite3_bind_blob(st, 1, key.len ? key.data : "", (int)key.len, SQLITE_TRANSIENT);
        rc = step_done(st);
        id = sqlite3_last_insert_rowid(ix->writer.db);
    } else if (rc == SQLITE_ROW) {
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_OK)
        return rc;
    if (nf_map_len(ix->words) < 4096) /* namespaces, targets and compilers are few; made-up ones must not fill memory */
        nf_map_put(ix->words, key, (void *)(intptr_t)id);
    *ret_id = id;
    return SQLITE_OK;
}

static void delta_add(struct delta *deltas, size_t *count, int64_t ns, int64_t entries, int64_t failures, int64_t local, int64_t shared)
{
    size_t i = 0;
    while (i < *count && deltas[i].ns != ns)
        i++;
    if (i == *count)
        deltas[(*count)++] = (struct delta){.ns = ns};
    deltas[i].entries += entries;
    deltas[i].failures += failures;
    deltas[i].local += local;
    deltas[i].shared += shared;
}

struct found {
    int64_t id, ns, local, shared;
};

static int find(struct cache__index *ix, const struct nf_digest *key, bool failure, struct found *ret_found)
{
    sqlite3_stmt *st = index__stmt(&ix->writer, SQL_FIND);
    if (!st)
        return SQLITE_ERROR;
    *ret_found = (struct found){0};
    sqlite3_bind_int64(st, 1, index__prefix(key));
    sqlite3_bind_int(st, 2, failure);
    int rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        if (sqlite3_column_bytes(st, 1) == 24 && memcmp(sqlite3_column_blob(st, 1), key->bytes + 8, 24) == 0) {
            *ret_found = (struct found){sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 2), sqlite3_column_int64(st, 3), sqlite3_column_int64(st, 4)};
            break;
        }
    sqlite3_reset(st);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static void bind_str(sqlite3_stmt *st, int at, struct nf_str s)
{
    sqlite3_bind_blob(st, at, s.len ? s.data : "", (int)s.len, SQLITE_STATIC);
}

static int apply_put(struct cache__index *ix, const struct cache__row *r, struct delta *deltas, size_t *delta_count)
{
    bool failure = r->kind == CACHE_KIND_FAILURE;
    struct found f;
    int64_t ns, target, compiler, creator;
    int rc = find(ix, &r->key, failure, &f);
    if (rc == SQLITE_OK)
        rc = word_id(ix, r->cache_namespace, &ns);
    if (rc == SQLITE_OK)
        rc = word_id(ix, r->target, &target);
    if (rc == SQLITE_OK)
        rc = word_id(ix, r->compiler, &compiler);
    if (rc == SQLITE_OK)
        rc = word_id(ix, r->created_by, &creator);
    if (rc != SQLITE_OK)
        return rc;
    uint8_t sketch[CACHE_SKETCH_BYTES];
    cache_sketch_encode(&r->sketch, sketch);
    int64_t local = r->local_bytes ? (int64_t)r->local_bytes : f.local, shared = r->shared_bytes ? (int64_t)r->shared_bytes : f.shared;
    sqlite3_stmt *st = index__stmt(&ix->writer, f.id ? SQL_UPDATE : SQL_INSERT);
    if (!st)
        return SQLITE_ERROR;
    struct nf_str key_rest = nf_str_n(r->key.bytes + 8, 24), sha_rest = nf_str_n(r->sha256.bytes + 8, 24), sketch_str = nf_str_n(sketch, sizeof(sketch));
    if (f.id) {
        sqlite3_bind_int64(st, 1, f.id);
        sqlite3_bind_int64(st, 2, index__prefix(&r->sha256));
        bind_str(st, 3, sha_rest);
        sqlite3_bind_int(st, 4, (int)r->kind);
        sqlite3_bind_int64(st, 5, target);
        sqlite3_bind_int64(st, 6, compiler);
        sqlite3_bind_int64(st, 7, creator);
        sqlite3_bind_int64(st, 8, (int64_t)r->raw_bytes);
        sqlite3_bind_int64(st, 9, local);
        sqlite3_bind_int64(st, 10, shared);
        sqlite3_bind_int64(st, 11, r->created_s);
        sqlite3_bind_int64(st, 12, r->used_s);
        sqlite3_bind_int64(st, 13, (int64_t)NF_MIN(r->compile_us, (uint64_t)INT64_MAX));
        sqlite3_bind_int64(st, 14, r->expires_s);
        sqlite3_bind_int64(st, 15, (int64_t)r->owner);
        bind_str(st, 16, sketch_str);
        bind_str(st, 17, r->name);
    } else {
        sqlite3_bind_int64(st, 1, index__prefix(&r->key));
        bind_str(st, 2, key_rest);
        sqlite3_bind_int64(st, 3, index__prefix(&r->sha256));
        bind_str(st, 4, sha_rest);
        sqlite3_bind_int64(st, 5, ns);
        sqlite3_bind_int(st, 6, (int)r->kind);
        sqlite3_bind_int64(st, 7, target);
        sqlite3_bind_int64(st, 8, compiler);
        sqlite3_bind_int64(st, 9, creator);
        sqlite3_bind_int64(st, 10, (int64_t)r->raw_bytes);
        sqlite3_bind_int64(st, 11, local);
        sqlite3_bind_int64(st, 12, shared);
        sqlite3_bind_int64(st, 13, r->created_s);
        sqlite3_bind_int64(st, 14, r->used_s);
        sqlite3_bind_int64(st, 15, (int64_t)r->uses);
        sqlite3_bind_int64(st, 16, (int64_t)NF_MIN(r->compile_us, (uint64_t)INT64_MAX));
        sqlite3_bind_int64(st, 17, r->expires_s);
        sqlite3_bind_int64(st, 18, (int64_t)r->owner);
        bind_str(st, 19, sketch_str);
        bind_str(st, 20, r->name);
    }
    rc = step_done(st);
    if (rc == SQLITE_OK)
        delta_add(deltas, delta_count, f.id ? f.ns : ns, f.id || failure ? 0 : 1, f.id || !failure ? 0 : 1, local - f.local, shared - f.shared);
    return rc;
}

static int apply_drop(struct cache__index *ix, const struct index_op *op, struct delta *deltas, size_t *delta_count)
{
    struct found f;
    int rc = find(ix, &op->row.key, op->failure, &f);
    if (rc != SQLITE_OK || !f.id)
        return rc;
    int64_t local = op->tiers & CACHE_IN_LOCAL ? 0 : f.local, shared = op->tiers & CACHE_IN_SHARED ? 0 : f.shared;
    bool gone = !local && !shared;
    sqlite3_stmt *st = index__stmt(&ix->writer, gone ? SQL_DELETE : SQL_SET_TIERS);
    if (!st)
        return SQLITE_ERROR;
    sqlite3_bind_int64(st, 1, f.id);
    if (!gone) {
        sqlite3_bind_int64(st, 2, local);
        sqlite3_bind_int64(st, 3, shared);
    }
    rc = step_done(st);
    if (rc == SQLITE_OK)
        delta_add(deltas, delta_count, f.ns, gone && !op->failure ? -1 : 0, gone && op->failure ? -1 : 0, local - f.local, shared - f.shared);
    return rc;
}

static int apply(struct cache__index *ix, const struct index_op *op, struct delta *deltas, size_t *delta_count)
{
    sqlite3_stmt *st;
    struct found f;
    int rc;
    switch (op->kind) {
    case OP_PUT:
        return apply_put(ix, &op->row, deltas, delta_count);
    case OP_DROP:
        return apply_drop(ix, op, deltas, delta_count);
    case OP_USE:
        rc = find(ix, &op->row.key, false, &f);
        if (rc != SQLITE_OK || !f.id)
            return rc;
        st = index__stmt(&ix->writer, SQL_USE);
        sqlite3_bind_int64(st, 1, f.id);
        sqlite3_bind_int64(st, 2, op->row.used_s);
        sqlite3_bind_int64(st, 3, (int64_t)op->number);
        return step_done(st);
    case OP_COUNT:
    case OP_COMPLETE:
        st = index__stmt(&ix->writer, op->kind == OP_COUNT ? SQL_COUNT_ADD : SQL_META_SET);
        if (!st)
            return SQLITE_ERROR;
        sqlite3_bind_text(st, 1, op->text, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 2, (int64_t)op->number);
        return step_done(st);
    }
    return SQLITE_OK;
}

static int commit_deltas(struct cache__index *ix, const struct delta *deltas, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sqlite3_stmt *st = index__stmt(&ix->writer, SQL_SPACE_ADD);
        if (!st)
            return SQLITE_ERROR;
        sqlite3_bind_int64(st, 1, deltas[i].ns);
        sqlite3_bind_int64(st, 2, deltas[i].entries);
        sqlite3_bind_int64(st, 3, deltas[i].failures);
        sqlite3_bind_int64(st, 4, deltas[i].local);
        sqlite3_bind_int64(st, 5, deltas[i].shared);
        int rc = step_done(st);
        if (rc != SQLITE_OK)
            return rc;
    }
    return SQLITE_OK;
}

/* All of the batch or nothing. */
static int batch_write(struct cache__index *ix, const struct index_op *batch, size_t batch_count)
{
    struct delta *deltas = nf_alloc_array(batch_count + 1, sizeof(*deltas));
    size_t delta_count = 0;
    sqlite3_stmt *st = index__stmt(&ix->writer, SQL_BEGIN);
    int rc = st ? step_done(st) : SQLITE_ERROR;
    bool open = rc == SQLITE_OK;
    for (const struct index_op *op = batch; op && rc == SQLITE_OK; op = op->next)
        rc = apply(ix, op, deltas, &delta_count);
    if (rc == SQLITE_OK)
        rc = commit_deltas(ix, deltas, delta_count);
    if (rc == SQLITE_OK && (st = index__stmt(&ix->writer, SQL_COMMIT)))
        rc = step_done(st);
    if (rc != SQLITE_OK && open && (st = index__stmt(&ix->writer, SQL_ROLLBACK)))
        step_done(st);
    free(deltas);
    if (rc == SQLITE_OK) {
        totals_refresh(ix);
        for (const struct index_op *op = batch; op; op = op->next)
            if (op->kind == OP_COMPLETE)
                set_complete_flag(ix, true);
    } else if (open) {
        nf_map_free(ix->words); /* ids that were made in the transaction are gone with it */
        ix->words = nf_map_new(true);
    }
    return rc;
}

static void batch_free(struct index_op *batch)
{
    while (batch) {
        struct index_op *next = batch->next;
        free(batch);
        batch = next;
    }
}

/* Opens again, but not all the time. */
static void reopen_due(struct cache__index *ix)
{
    int64_t now = nf_now_ns();
    if (!ix->tried_ns || now - ix->tried_ns >= RETRY_NS || ix->writer.db) {
        ix->tried_ns = now;
        reopen(ix);
    }
}

/* Tries until the batch is in, or the index cannot take it now: then what it said is lost, and the next opening rebuilds. */
static void batch_take(struct cache__index *ix, struct index_op *batch, size_t count)
{
    for (int tries = 0; tries < 3; tries++) {
        if (!still_there(ix)) {
            if (ix->writer.db)
                ix->lossy = true; /* rows of the file that is gone */
            reopen_due(ix);
            if (!ix->writer.db)
                break;
        }
        int rc = batch_write(ix, batch, count);
        if (rc == SQLITE_OK) {
            trouble_clear(ix);
            return;
        }
        trouble_set(ix, "cannot write", sqlite3_errstr(rc));
        if (is_damage(rc)) {
            close_both(ix);
            wipe(ix);
            ix->lossy = true;
            ix->tried_ns = 0;
        } else if ((rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_LOCKED) {
            break;
        }
    }
    ix->lossy = true;
    ix->tried_ns = nf_now_ns();
}

static void sums_forget(struct cache__index *ix)
{
    nf_map_free(ix->sums);
    ix->sums = NULL;
}

static void *index_main(void *arg)
{
    struct cache__index *ix = arg;
    reopen_due(ix);
    pthread_mutex_lock(&ix->lock);
    ix->ready = true;
    pthread_cond_broadcast(&ix->done_cond);
    for (;;) {
        bool wounded = ix->lossy || !ix->writer.db;
        if (!ix->queue && !ix->closing) {
            if (wounded)
                index__cond_wait(&ix->work_cond, &ix->lock, RETRY_NS);
            else
                pthread_cond_wait(&ix->work_cond, &ix->lock);
        }
        if (!ix->queue && ix->closing)
            break;
        if (ix->queue && ix->queue_len < BATCH_MAX && !ix->flush_wanted && !ix->closing) /* more may be coming */
            index__cond_wait(&ix->flush_cond, &ix->lock, GATHER_NS);
        struct index_op *batch = ix->queue, **end = &ix->queue;
        size_t n = 0;
        for (; *end && n < BATCH_MAX; n++)
            end = &(*end)->next;
        ix->queue = *end;
        *end = NULL;
        if (!ix->queue) {
            ix->queue_end = &ix->queue;
            ix->flush_wanted = false;
        }
        if (n == 0)
            batch = NULL;
        ix->queue_len -= n;
        sums_forget(ix);
        ix->lossy |= ix->dropped;
        ix->dropped = false;
        pthread_mutex_unlock(&ix->lock);
        uint64_t local = 0, shared = 0;
        for (const struct index_op *op = batch; op; op = op->next)
            if (op->kind == OP_PUT) {
                local += op->row.local_bytes;
                shared += op->row.shared_bytes;
            }
        if (batch)
            batch_take(ix, batch, n);
        if (wounded && ix->lossy && nf_now_ns() - ix->tried_ns >= RETRY_NS)
            reopen_due(ix);
        batch_free(batch);
        pthread_mutex_lock(&ix->lock);
        ix->pending_local -= local;
        ix->pending_shared -= shared;
        ix->written += n;
        pthread_cond_broadcast(&ix->done_cond);
    }
    pthread_mutex_unlock(&ix->lock);
    close_both(ix);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------ queueing */

/* What uses and counts are told apart by. */
static struct nf_str sum_key(const struct index_op *op)
{
    return op->kind == OP_USE ? nf_digest_str(&op->row.key) : nf_str_c(op->text);
}

/* A hundred hits of one key are one row's update: what is still queued takes the next one in. */
static bool sum_up(struct cache__index *ix, enum op_kind kind, struct nf_str key, uint64_t number, int64_t used_s)
{
    pthread_mutex_lock(&ix->lock);
    struct index_op *op = ix->sums ? nf_map_get(ix->sums, key) : NULL;
    bool found = op && op->kind == kind;
    if (found) {
        op->number += number;
        op->row.used_s = NF_MAX(op->row.used_s, used_s);
    }
    pthread_mutex_unlock(&ix->lock);
    return found;
}

static void enqueue(struct cache__index *ix, struct index_op *op)
{
    pthread_mutex_lock(&ix->lock);
    if (ix->queue_len >= QUEUE_MAX || ix->closing) {
        ix->dropped = true; /* a disk that takes nothing; the rebuild makes it good */
        pthread_mutex_unlock(&ix->lock);
        free(op);
        return;
    }
    *ix->queue_end = op;
    ix->queue_end = &op->next;
    ix->queue_len++;
    ix->queued++;
    if (op->kind == OP_USE || op->kind == OP_COUNT) {
        if (!ix->sums)
            ix->sums = nf_map_new(false);
        nf_map_del(ix->sums, sum_key(op)); /* the map borrows keys: not one of an op that it no longer leads to */
        nf_map_put(ix->sums, sum_key(op), op);
    } else {
        sums_forget(ix); /* a use of what is put or dropped here stays behind it */
    }
    if (op->kind == OP_PUT) {
        ix->pending_local += op->row.local_bytes;
        ix->pending_shared += op->row.shared_bytes;
    }
    pthread_cond_signal(&ix->work_cond);
    pthread_mutex_unlock(&ix->lock);
}

static struct nf_str text_copy(char **at, struct nf_str s)
{
    char *to = *at;
    memcpy(to, s.len ? s.data : "", s.len);
    *at += s.len;
    return nf_str_n(to, s.len);
}

static struct nf_str cut(struct nf_str s, size_t max)
{
    return nf_str_n(s.data, NF_MIN(s.len, max));
}

void cache__index_put(struct cache__index *ix, const struct cache__row *row)
{
    if (!ix)
        return;
    struct cache__row r = *row;
    r.name = cut(r.name, 200);
    r.target = cut(r.target, 64);
    r.compiler = cut(r.compiler, 200);
    r.created_by = cut(r.created_by, 200);
    struct index_op *op = nf_alloc(sizeof(*op) + r.name.len + r.cache_namespace.len + r.target.len + r.compiler.len + r.created_by.len + 1);
    char *at = op->text;
    r.name = text_copy(&at, r.name);
    r.cache_namespace = text_copy(&at, r.cache_namespace);
    r.target = text_copy(&at, r.target);
    r.compiler = text_copy(&at, r.compiler);
    r.created_by = text_copy(&at, r.created_by);
    op->kind = OP_PUT;
    op->row = r;
    enqueue(ix, op);
}

void cache__index_drop(struct cache__index *ix, const struct nf_digest *key, bool failure, unsigned tiers)
{
    if (!ix)
        return;
    struct index_op *op = nf_alloc(sizeof(*op) + 1);
    op->kind = OP_DROP;
    op->row.key = *key;
    op->failure = failure;
    op->tiers = tiers;
    enqueue(ix, op);
}

void cache__index_use(struct cache__index *ix, const struct nf_digest *key, int64_t at_s, uint64_t uses)
{
    if (!ix || sum_up(ix, OP_USE, nf_digest_str(key), uses, at_s))
        return;
    struct index_op *op = nf_alloc(sizeof(*op) + 1);
    op->kind = OP_USE;
    op->row.key = *key;
    op->row.used_s = at_s;
    op->number = uses;
    enqueue(ix, op);
}

static void enqueue_named(struct cache__index *ix, enum op_kind kind, const char *name, uint64_t number)
{
    struct index_op *op = nf_alloc(sizeof(*op) + strlen(name) + 1);
    op->kind = kind;
    op->number = number;
    memcpy(op->text, name, strlen(name) + 1);
    enqueue(ix, op);
}

void cache__index_count(struct cache__index *ix, const char *name, uint64_t delta)
{
    if (ix && delta && !sum_up(ix, OP_COUNT, nf_str_c(name), delta, 0))
        enqueue_named(ix, OP_COUNT, name, delta);
}

void cache__index_set_complete(struct cache__index *ix)
{
    if (ix)
        enqueue_named(ix, OP_COMPLETE, "complete", 1);
}

void cache__index_flush(struct cache__index *ix, int64_t timeout_ns)
{
    if (!ix)
        return;
    int64_t until = nf_now_ns() + timeout_ns;
    pthread_mutex_lock(&ix->lock);
    uint64_t goal = ix->queued;
    ix->flush_wanted = true;
    pthread_cond_signal(&ix->flush_cond);
    for (int64_t now; ix->written < goal && (now = nf_now_ns()) < until;)
        index__cond_wait(&ix->done_cond, &ix->lock, until - now);
    pthread_mutex_unlock(&ix->lock);
}

/* ---------------------------------------------------------------------------------------------------------------- life */

void index__cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ns)
{
    int64_t at = nf_now_ns() + ns;
    struct timespec ts = {.tv_sec = at / NF_SEC, .tv_nsec = at % NF_SEC};
    pthread_cond_timedwait(c, lock, &ts);
}

static void monotonic_cond(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

int cache__index_open(const char *local_dir, void (*rebuild)(void *user), void *user, struct cache__index **ret_index, struct nf_error *err)
{
    struct cache__index *ix = nf_alloc(sizeof(*ix));
    nf_format(ix->path, sizeof(ix->path), "%s/index.sqlite", local_dir);
    ix->rebuild = rebuild;
    ix->user = user;
    ix->queue_end = &ix->queue;
    pthread_mutex_init(&ix->read_lock, NULL);
    pthread_mutex_init(&ix->lock, NULL);
    monotonic_cond(&ix->work_cond);
    monotonic_cond(&ix->flush_cond);
    monotonic_cond(&ix->done_cond);
    sigset_t all, old;
    sigfillset(&all);
    *ret_index = ix; /* before there is a thread: what `rebuild` starts looks for it */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&ix->thread, NULL, index_main, ix);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        *ret_index = NULL;
        free(ix);
        return nf_fail_errno(err, rc, "cannot start the index thread");
    }
    return NF_OK;
}

void cache__index_stop(struct cache__index *ix)
{
    if (!ix)
        return;
    pthread_mutex_lock(&ix->lock);
    bool join = !ix->closing;
    ix->closing = true;
    pthread_cond_broadcast(&ix->work_cond);
    pthread_cond_broadcast(&ix->flush_cond);
    pthread_mutex_unlock(&ix->lock);
    if (join)
        pthread_join(ix->thread, NULL);
}

void cache__index_close(struct cache__index *ix)
{
    if (!ix)
        return;
    cache__index_stop(ix);
    batch_free(ix->queue);
    sums_forget(ix);
    pthread_mutex_destroy(&ix->read_lock);
    pthread_mutex_destroy(&ix->lock);
    pthread_cond_destroy(&ix->work_cond);
    pthread_cond_destroy(&ix->flush_cond);
    pthread_cond_destroy(&ix->done_cond);
    free(ix);
}

bool cache__index_complete(struct cache__index *ix)
{
    if (!ix)
        return false;
    pthread_mutex_lock(&ix->lock);
    bool complete = ix->complete;
    pthread_mutex_unlock(&ix->lock);
    return complete;
}

void cache__index_totals(struct cache__index *ix, struct cache__totals *ret_totals)
{
    *ret_totals = (struct cache__totals){0};
    if (!ix)
        return;
    pthread_mutex_lock(&ix->lock);
    *ret_totals = ix->totals;
    ret_totals->local_bytes += ix->pending_local; /* what is on its way counts: limits must not be overrun meanwhile */
    ret_totals->shared_bytes += ix->pending_shared;
    pthread_mutex_unlock(&ix->lock);
}

void cache__index_trouble(struct cache__index *ix, char *out, size_t size)
{
    if (!size)
        return;
    out[0] = 0;
    if (!ix)
        return;
    pthread_mutex_lock(&ix->lock);
    nf_format(out, size, "%s", ix->trouble);
    pthread_mutex_unlock(&ix->lock);
}
