/* index_internal.h: shared by index.c (writing) and index_read.c. SQLite's types stay in these three files. */
#ifndef NEFFD_CACHE_INDEX_INTERNAL_H
#define NEFFD_CACHE_INDEX_INTERNAL_H

#include "cache/index.h"

#include <pthread.h>
#include <sqlite3.h>

#define INDEX_SCHEMA 2
#define INDEX_SCHEMA_TEXT "2"

enum index_sql {
#define SQL(sym, writer, text) SQL_##sym,
#include "cache/index_sql.def"
#undef SQL
    SQL_MAX
};
extern const char *const index__sql[SQL_MAX];

struct index_conn {
    sqlite3 *db;
    sqlite3_stmt *stmt[SQL_MAX];
};

struct index_op;
struct nf_map;

struct cache__index {
    char path[4352];
    void (*rebuild)(void *user);
    void *user;
    pthread_t thread;

    struct index_conn writer;           /* the index thread's alone, with words, dev, ino, size, lossy, tried_ns */
    struct nf_map *words;               /* text -> id */
    dev_t dev;
    ino_t ino;
    off_t size;                         /* the largest that was seen */
    bool lossy;                         /* something that was queued is not in the file */
    int64_t tried_ns;                   /* the last attempt to open */

    pthread_mutex_t read_lock;          /* reader */
    struct index_conn reader;

    pthread_mutex_t lock;               /* all below */
    pthread_cond_t work_cond, flush_cond, done_cond;
    struct index_op *queue, **queue_end;
    struct nf_map *sums;                /* key or name -> the queued op that further uses or counts are added to; NULL: none yet */
    size_t queue_len;
    uint64_t queued, written;
    uint64_t pending_local, pending_shared; /* bytes of queued puts */
    bool flush_wanted, closing, ready, complete, dropped;
    struct cache__totals totals;
    char trouble[4608];
};

static inline int64_t index__prefix(const struct nf_digest *d)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | d->bytes[i];
    return (int64_t)v;
}

int index__conn_open(const char *path, bool writer, struct index_conn *ret_conn);  /* an SQLite code */
void index__conn_close(struct index_conn *c);
sqlite3_stmt *index__stmt(struct index_conn *c, enum index_sql sql);               /* reset; NULL when it cannot be prepared */
void index__cond_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ns);

#endif
