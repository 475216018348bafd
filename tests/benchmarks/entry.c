#include "tests/benchmarks/entry.h"

#include "cache/store.h"
#include "tests/benchmarks/bench.h"

static struct nf_error err;

static void check(int rc, const char *what)
{
    if (rc)
        bench_fail(what, &err);
}

void bench_publish(const char *local_dir, const struct nf_digest *front_key, const void *payload, size_t bytes)
{
    struct cache_store *store = NULL;
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_components list;
    struct nf_digest key, structure = nf_digest_of(payload, bytes);
    char hex[NF_DIGEST_HEX];
    check(cache_store_open(&(struct cache_store_options){.local_dir = local_dir}, &store, &err), "open the store");
    cache_components_init(&list, arena);
    cache_components_add(&list, CACHE_COMPONENT_STRUCTURE, NF_STR(""), nf_str_c(nf_digest_hex(&structure, hex)), NF_STR(""));
    cache_components_add(&list, CACHE_COMPONENT_TARGET, NF_STR(""), NF_STR("cpu"), NF_STR(""));
    cache_components_add(&list, CACHE_COMPONENT_COMPILER, NF_STR("bench"), NF_STR("bench"), NF_STR(""));
    check(cache_key_canonical(list.items, list.count, &key, &err), "make the key");
    struct cache_publication p = {
        .meta = {.key = key, .kind = CACHE_KIND_NEFF, .name = NF_STR("bench"), .target = NF_STR("cpu"), .compiler = NF_STR("bench 1"),
                 .toolchain_id = NF_STR("bench"), .created_by = NF_STR("bench"), .host = NF_STR("here"), .components = list.items,
                 .component_count = list.count},
        .artifact_fd = -1,
        .artifact = nf_str_n(payload, bytes),
    };
    struct cache_published done = {0};
    check(cache_store_publish(store, &p, &done, &err), "publish");
    cache_hit_close(done.hit);
    check(cache_store_alias_put(store, front_key, &key, "", &err), "write the alias");
    cache_store_close(store);
    nf_arena_free(arena);
}
