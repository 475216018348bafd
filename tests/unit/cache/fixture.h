/* fixture.h: a private directory, requests and artifacts for the tests of cache/. */
#ifndef NEFFD_TESTS_CACHE_FIXTURE_H
#define NEFFD_TESTS_CACHE_FIXTURE_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "cache/cache_internal.h"
#include "cache/store.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define ASSERT_OK(call) \
    do { \
        struct nf_error err_ = {0}; \
        err = err_; \
        int rc_ = (call); \
        ck_assert_msg(rc_ == NF_OK, "%s: %s: %s (%s)", #call, nf_status_name(rc_), err.message, err.hint); \
    } while (0)
#define ASSERT_FAILS(code, call) \
    do { \
        struct nf_error err_ = {0}; \
        err = err_; \
        int rc_ = (call); \
        ck_assert_msg(rc_ == (code), "%s: %s instead of %s: %s", #call, nf_status_name(rc_), nf_status_name(code), err.message); \
    } while (0)

static struct nf_error err;
static char root[64], local_dir[128], shared_dir[128];
static struct nf_arena *arena;

static inline void fixture_setup(void)
{
    nf_format(root, sizeof(root), "/tmp/nf-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    nf_format(local_dir, sizeof(local_dir), "%s/local", root);
    nf_format(shared_dir, sizeof(shared_dir), "%s/shared", root);
    arena = nf_arena_new(0);
}

static inline void fixture_teardown(void)
{
    nf_arena_free(arena);
    ck_assert_int_eq(nf_remove_tree(AT_FDCWD, root), NF_OK);
}

/* Takes a directory away from a store that is at work: at once, since what is removed name by name may grow again meanwhile. */
static inline void vanish(const char *dir)
{
    char gone[160];
    nf_format(gone, sizeof(gone), "%s.gone", dir);
    ck_assert_msg(rename(dir, gone) == 0, "rename %s: %s", dir, strerror(errno));
    (void)nf_remove_tree(AT_FDCWD, gone); /* what a late write leaves behind goes with the fixture */
}

static inline struct cache_store *store_open_with(struct cache_store_options o)
{
    struct cache_store *s = NULL;
    if (!o.local_dir)
        o.local_dir = local_dir;
    ASSERT_OK(cache_store_open(&o, &s, &err));
    return s;
}

static inline struct cache_store *store_open(void)
{
    return store_open_with((struct cache_store_options){.shared_dir = shared_dir});
}

/* A request whose key follows from `seed` and the option. */
struct request {
    struct cache_components list;
    struct nf_digest key;
};

static inline struct request request_of(const char *seed, const char *optlevel)
{
    struct request r;
    char hex[NF_DIGEST_HEX];
    struct nf_digest d = nf_digest_of(seed, strlen(seed));
    struct nf_str none = {0};
    cache_components_init(&r.list, arena);
    cache_components_add(&r.list, CACHE_COMPONENT_TARGET, none, NF_STR("cpu"), none);
    cache_components_add(&r.list, CACHE_COMPONENT_COMPILER, NF_STR("neffd-cpu 0.1.0"), NF_STR("0123456789abcdef"), none);
    cache_components_add(&r.list, CACHE_COMPONENT_OPTION, NF_STR("optlevel"), nf_str_c(optlevel), none);
    cache_components_add(&r.list, CACHE_COMPONENT_STRUCTURE, none, nf_str_c(nf_digest_hex(&d, hex)), none);
    cache_components_add(&r.list, CACHE_COMPONENT_INPUT, NF_STR("input 0"), NF_STR("tensor<8x128xf32>"), none);
    cache_components_add(&r.list, CACHE_COMPONENT_OUTPUT, NF_STR("output 0"), NF_STR("tensor<8x128xf32>"), none);
    cache_components_add(&r.list, CACHE_COMPONENT_STRUCTURE, NF_STR("op 0"), NF_STR("stablehlo.add %arg0, %arg0"), NF_STR("model.py:3:4"));
    cache_components_add(&r.list, CACHE_COMPONENT_STRUCTURE, NF_STR("op 1"), nf_str_c(seed), none);
    ASSERT_OK(cache_key_canonical(r.list.items, r.list.count, &r.key, &err));
    return r;
}

static inline struct cache_publication publication_of(const struct request *r, struct nf_str artifact)
{
    return (struct cache_publication){
        .meta = {.key = r->key,
                 .kind = CACHE_KIND_NEFF,
                 .name = NF_STR("model"),
                 .target = NF_STR("cpu"),
                 .compiler = NF_STR("neffd-cpu 0.1.0"),
                 .created_by = NF_STR("uid 0"),
                 .compile_us = 2500000,
                 .stablehlo = NF_STR("func.func @main() { return }\n"),
                 .components = r->list.items,
                 .component_count = r->list.count},
        .artifact_fd = -1,
        .artifact = artifact,
    };
}

/* Bytes that do, or do not, compress. */
static inline struct nf_str bytes_of(size_t len, bool dense)
{
    char *p = nf_arena_alloc_raw(arena, len + 1);
    if (dense)
        nf_random(p, len);
    else
        for (size_t i = 0; i < len; i++)
            p[i] = (char)(i / 64 * 7);
    return nf_str_n(p, len);
}

static inline void publish(struct cache_store *s, const struct request *r, struct nf_str artifact)
{
    struct cache_publication p = publication_of(r, artifact);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    cache_hit_close(out.hit);
}

static inline void entry_path_of(const char *dir, const struct nf_digest *key, enum cache_kind kind, char out[512])
{
    char rel[CACHE_PATH_MAX];
    cache_entry_path((struct nf_str){0}, key, cache_kind_suffix(kind), rel);
    nf_format(out, 512, "%s/%s", dir, rel);
}

static inline bool is_file(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static inline bool payload_is(struct cache_hit *hit, struct nf_str want)
{
    const void *data;
    if (cache_hit_footer(hit)->raw_bytes != want.len || cache_hit_map(hit, &data, NULL) != NF_OK)
        return false;
    return memcmp(data, want.data, want.len) == 0;
}

static inline size_t files_in(const char *dir)
{
    DIR *d = opendir(dir);
    size_t n = 0;
    if (!d)
        return 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#endif
