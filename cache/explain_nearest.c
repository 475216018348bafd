/* explain_nearest.c: which entry is nearest. Sketches of all entries give the best few; their metadata decide. */
#include "cache/explain.h"

#include "base/log.h"
#include "cache/store_internal.h"

#include <unistd.h>

#define NEAREST 16
#define ENOUGH 0.3
#define ENOUGH_OPS 0.3

struct near {
    double score;
    int64_t used_s;
    struct nf_digest key;
    enum cache_kind kind;
    char space[65];
};

struct nearest {
    struct cache_sketch wanted;
    const struct nf_digest *self;
    const char *const *readable;
    size_t readable_count;
    bool all;
    struct near best[NEAREST];           /* best first */
    size_t count;
};

static bool may_read(const struct nearest *n, struct nf_str space)
{
    if (n->all)
        return true;
    for (size_t i = 0; i < n->readable_count; i++)
        if (nf_str_eq_c(space, n->readable[i]))
            return true;
    return false;
}

static int consider(void *user, const struct cache__row *r)
{
    struct nearest *n = user;
    if (r->kind == CACHE_KIND_FAILURE || !may_read(n, r->cache_namespace) || (n->self && nf_digest_eq(n->self, &r->key)))
        return 0;
    double score = cache_sketch_similarity(&n->wanted, &r->sketch);
    size_t at = n->count;
    while (at && (n->best[at - 1].score < score || (!(n->best[at - 1].score > score) && n->best[at - 1].used_s < r->used_s)))
        at--;
    if (at == NEAREST)
        return 0;
    n->count = NF_MIN(n->count + 1, (size_t)NEAREST);
    memmove(&n->best[at + 1], &n->best[at], (n->count - 1 - at) * sizeof(*n->best));
    n->best[at] = (struct near){.score = score, .used_s = r->used_s, .key = r->key, .kind = r->kind};
    nf_format(n->best[at].space, sizeof(n->best[at].space), "%.*s", (int)NF_MIN(r->cache_namespace.len, (size_t)64), r->cache_namespace.data);
    return 0;
}

/* Metadata of one entry: from the local tier, else on a mount thread. */
struct meta_ctx {
    struct cache_store *store;
    struct near near;
    struct nf_arena *arena;
    struct cache_meta meta;
    struct meta_ctx *result;
};

static int meta_of_tier(const struct cache__tier *t, const struct near *near, struct nf_arena *arena, struct cache_meta *ret_meta)
{
    char path[4352];
    struct cache__file f;
    int rc = cache__tier_open(t, nf_str_c(near->space), &near->key, near->kind, path, &f, NULL);
    if (rc)
        return rc;
    rc = cache_meta_read(f.fd, &f.footer, arena, ret_meta, NULL);
    close(f.fd);
    return rc;
}

static int meta_run(void *ctx, struct cache_mount_item *item, struct nf_error *err)
{
    struct meta_ctx *c = ctx;
    (void)item;
    (void)err;
    return meta_of_tier(&c->store->shared, &c->near, c->arena, &c->meta);
}

static void meta_done(void *ctx, int rc, const struct nf_error *err)
{
    struct meta_ctx *c = ctx;
    (void)err;
    if (rc == NF_OK) {
        c->result->meta = c->meta;
        c->result->arena = c->arena;
        c->arena = NULL;
    }
}

static void meta_free(void *ctx)
{
    struct meta_ctx *c = ctx;
    nf_arena_free(c->arena);
    store__unref(c->store);
    free(c);
}

static int meta_of(struct cache_store *s, const struct near *near, struct nf_arena **ret_arena, struct cache_meta *ret_meta)
{
    struct nf_arena *arena = nf_arena_new(0);
    int rc = meta_of_tier(&s->local, near, arena, ret_meta);
    if (rc == NF_OK) {
        *ret_arena = arena;
        return NF_OK;
    }
    nf_arena_free(arena);
    if (!s->has_shared)
        return rc;
    struct meta_ctx result = {0}, *c = nf_alloc(sizeof(*c));
    c->store = store__ref(s);
    c->near = *near;
    c->arena = nf_arena_new(0);
    c->result = &result;
    rc = cache_mount_run(s->mount, &(struct cache_mount_work){meta_run, meta_done, meta_free, c, 0}, NULL);
    if (rc == NF_OK) {
        *ret_meta = result.meta;
        *ret_arena = result.arena;
    }
    return rc;
}

static double worth(const struct cache_explanation *e)
{
    return e->similarity - 0.01 * (double)e->difference_count;
}

int cache_explain_nearest(struct cache_store *store, const struct cache_request_view *request, const char *const *readable,
                          size_t readable_count, struct nf_arena *arena, struct cache_explanation *ret_explanation, struct nf_error *err)
{
    struct nearest n = {.readable = readable, .readable_count = readable_count, .all = !readable};
    struct nf_digest self;
    if (cache_key_canonical(request->components, request->component_count, &self, NULL) == NF_OK)
        n.self = &self; /* a request that hits is explained against the others */
    cache_sketch_make(request->components, request->component_count, &n.wanted);
    cache__index_flush(store->index, 100 * 1000000);
    int rc = store__rows(store, STORE_ROWS_SKETCHES, consider, &n, err);
    if (rc)
        nf_log(NF_LOG_WARNING, "cache", "entries cannot be compared", "why=%s", nf_status_text(rc));

    struct cache_explanation best = {.found = false, .nearest_name = ""};
    for (size_t i = 0; i < n.count && !rc; i++) {
        if (best.found && n.best[i].score < n.best[0].score - 0.25)
            break; /* sketches err by less */
        struct nf_arena *scratch = NULL;
        struct cache_meta meta;
        struct cache_components list;
        if (meta_of(store, &n.best[i], &scratch, &meta))
            continue;
        if (cache_meta_components(&meta, scratch, &list, NULL) == NF_OK) {
            struct cache_explanation e;
            struct cache_request_view cached = {list.items, list.count};
            cache_explain_diff(&cached, request, arena, &e);
            if (e.similarity >= ENOUGH && e.ops_alike >= ENOUGH_OPS && (!best.found || worth(&e) > worth(&best))) {
                best = e;
                best.nearest_key = n.best[i].key;
                best.nearest_name = nf_arena_strn(arena, meta.name.data ? meta.name.data : "", meta.name.len);
            }
        }
        nf_arena_free(scratch);
    }
    *ret_explanation = best;
    return NF_OK;
}
