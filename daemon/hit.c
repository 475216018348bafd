/* hit.c: see hit.h. */
#include "daemon/hit.h"

#include "base/map.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMEMBERED 1024

struct remembered {
    struct nf_digest key;
    int64_t created_us;
    struct hit_info info;
};

/* Guards the two below. A leaf: nothing else is taken under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nf_map *map;
static struct {
    struct remembered *items[REMEMBERED];
    size_t next;
} ring;

void hit_init(void) { map = nf_map_new(false); }

void hit_done(void)
{
    for (size_t i = 0; i < REMEMBERED; i++) {
        free(ring.items[i]);
        ring.items[i] = NULL;
    }
    nf_map_free(map);
    map = NULL;
}

static bool recall(const struct cache_footer *f, struct hit_info *ret_info)
{
    pthread_mutex_lock(&lock);
    const struct remembered *r = nf_map_get(map, nf_digest_str(&f->key));
    bool found = r && r->created_us == f->created_us;
    if (found)
        *ret_info = r->info;
    pthread_mutex_unlock(&lock);
    return found;
}

static void keep(const struct cache_footer *f, const struct hit_info *info)
{
    struct remembered *r = nf_alloc(sizeof *r);
    *r = (struct remembered){.key = f->key, .created_us = f->created_us, .info = *info};
    pthread_mutex_lock(&lock);
    struct remembered *old = ring.items[ring.next];
    if (old && nf_map_get(map, nf_digest_str(&old->key)) == old)
        nf_map_del(map, nf_digest_str(&old->key));
    free(old);
    /* A map that borrows its keys must not keep the key of an item that is replaced. */
    nf_map_del(map, nf_digest_str(&r->key));
    nf_map_put(map, nf_digest_str(&r->key), r);
    ring.items[ring.next] = r;
    ring.next = (ring.next + 1) % REMEMBERED;
    pthread_mutex_unlock(&lock);
}

static void text(char *out, size_t size, struct nf_str s) { nf_format(out, size, "%.*s", (int)NF_MIN(s.len, size - 1), s.data ? s.data : ""); }

static void info_of(struct cache_hit *hit, struct hit_info *ret_info)
{
    const struct cache_footer *f = cache_hit_footer(hit);
    if (recall(f, ret_info))
        return;
    *ret_info = (struct hit_info){.compile_us = f->compile_us};
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta m;
    if (cache_hit_meta(hit, arena, &m, NULL) == NF_OK) {
        text(ret_info->target, sizeof ret_info->target, m.target);
        text(ret_info->compiler, sizeof ret_info->compiler, m.compiler);
        text(ret_info->host, sizeof ret_info->host, m.host);
        text(ret_info->compile_id, sizeof ret_info->compile_id, m.compile_id);
        text(ret_info->name, sizeof ret_info->name, m.name);
        ret_info->pid = m.pid;
        ret_info->attempts = m.attempts;
        ret_info->started_us = (uint64_t)m.started_us;
        keep(f, ret_info);
    }
    nf_arena_free(arena);
}

bool hit_path_fits(const struct srv_peer *peer, Neffd__V1__Delivery delivery, int fd)
{
    struct stat st;
    if (!peer->unix_socket || delivery == NEFFD__V1__DELIVERY__DELIVERY_FETCH)
        return false;
    if (peer->uid == 0 || peer->uid == geteuid())
        return true;
    if (fstat(fd, &st) != 0)
        return false;
    if (peer->uid == st.st_uid)
        return st.st_mode & S_IRUSR;
    if (peer->gid == st.st_gid)
        return st.st_mode & S_IRGRP;
    return st.st_mode & S_IROTH;
}

void hit_answer_fill(struct hit_answer *a, struct cache_hit *hit, Neffd__V1__Outcome outcome, const struct nf_digest *front,
                     const struct srv_peer *peer, Neffd__V1__Delivery delivery)
{
    const struct cache_footer *f = cache_hit_footer(hit);
    info_of(hit, &a->info);
    neffd__v1__done__init(&a->done);
    neffd__v1__artifact__init(&a->artifact);
    neffd__v1__times__init(&a->times);
    neffd__v1__provenance__init(&a->provenance);
    a->key = f->key;
    a->sha256 = f->sha256;
    a->done.outcome = outcome;
    if (front) {
        a->front = *front;
        a->done.front_key = rpc_binary(a->front.bytes, NF_DIGEST_BYTES);
    }
    a->done.canonical_key = rpc_binary(a->key.bytes, NF_DIGEST_BYTES);
    a->path[0] = '\0';
    if (hit_path_fits(peer, delivery, cache_hit_fd(hit)) && !nf_format(a->path, sizeof a->path, "%s", cache_hit_path(hit)))
        a->path[0] = '\0';
    a->artifact.kind = (char *)(uintptr_t)cache_kind_word(f->kind);
    a->artifact.path = a->path;
    a->artifact.sha256 = rpc_binary(a->sha256.bytes, NF_DIGEST_BYTES);
    a->artifact.size = f->raw_bytes;
    a->artifact.target = a->info.target;
    a->artifact.compiler = a->info.compiler;
    a->artifact.owner_uid = cache_hit_owner(hit);
    a->provenance.host = a->info.host;
    a->provenance.pid = a->info.pid;
    a->provenance.started_us = a->info.started_us;
    a->provenance.compile_id = a->info.compile_id;
    a->provenance.attempts = a->info.attempts;
    a->provenance.compile_us = a->info.compile_us;
    a->done.artifact = &a->artifact;
    a->done.times = &a->times;
    a->done.provenance = &a->provenance;
}

void hit_answer_miss(struct hit_answer *a, const struct nf_digest *front, const struct nf_digest *key)
{
    neffd__v1__done__init(&a->done);
    neffd__v1__times__init(&a->times);
    a->done.outcome = NEFFD__V1__OUTCOME__OUTCOME_MISS;
    if (front) {
        a->front = *front;
        a->done.front_key = rpc_binary(a->front.bytes, NF_DIGEST_BYTES);
    }
    if (key) {
        a->key = *key;
        a->done.canonical_key = rpc_binary(a->key.bytes, NF_DIGEST_BYTES);
    }
    a->done.times = &a->times;
}
