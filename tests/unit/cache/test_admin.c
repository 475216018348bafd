/* Eviction, limits, uses, listing, verify and repair, removal, scrub, and what is left lying about. */
#include "fixture.h"

#include <sys/wait.h>

static struct request put_entry(struct cache_store *s, const char *seed, size_t bytes, uint64_t compile_us, const char *space)
{
    struct request r = request_of(seed, "2");
    struct cache_publication p = publication_of(&r, bytes_of(bytes, true));
    p.meta.compile_us = compile_us;
    p.meta.name = nf_str_c(seed);
    p.meta.cache_namespace = nf_str_c(space);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    cache_hit_close(out.hit);
    return r;
}

static bool in_local(const struct request *r)
{
    char path[512];
    entry_path_of(local_dir, &r->key, CACHE_KIND_NEFF, path);
    return is_file(path);
}

static struct cache_store *local_only(struct cache_store_options o)
{
    return store_open_with(o);
}

/* Uses of long ago, as readers leave them. */
static void used_at(struct cache_store *s, const struct request *r, int64_t at_s)
{
    (void)s;
    ck_assert_int_eq(cache__uses_leave(local_dir, &(struct cache__use){r->key, at_s}, 1), NF_OK);
}

struct collected {
    struct cache_progress last;
    int calls;
};
static int collect(void *user, const struct cache_progress *p)
{
    struct collected *c = user;
    c->last = *p;
    c->calls++;
    return 0;
}

START_TEST(least_recently_used_goes_first_and_what_is_in_use_stays)
{
    struct cache_store *s = local_only((struct cache_store_options){.shared_dir = NULL});
    struct request r[6];
    int64_t now_s = nf_wall_us() / 1000000;
    for (int i = 0; i < 6; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "e%d", i);
        r[i] = put_entry(s, seed, 100000, 1000, "");
    }
    for (int i = 0; i < 6; i++) /* e3 is the oldest use, then e0, ... ; uses only move forward, so all lie ahead */
        used_at(s, &r[i], now_s + 0 * i);
    cache_store_flush(s);
    struct cache_store_status st;
    cache_store_status(s, &st);
    uint64_t each = st.local_bytes / 6;
    nf_sleep_ns(2100 * NF_MS); /* two seconds on, four of them are used again: one by the store, the others by a reader */
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &r[1].key, "", 0, &found, &err));
    cache_found_done(&found);
    struct cache_reader *reader;
    struct cache_hit *hit;
    ASSERT_OK(cache_reader_open(&(struct cache_reader_options){.local_dir = local_dir}, &reader, &err));
    for (int i = 2; i < 5; i++) {
        ASSERT_OK(cache_reader_lookup(reader, &r[i].key, "", &hit, &err));
        cache_hit_close(hit);
    }
    cache_reader_close(reader); /* leaves its notes */
    ASSERT_OK(cache_store_lookup_local(s, &r[0].key, "", 0, &found, &err)); /* open: old, but in use */
    struct nf_digest before = cache_hit_footer(found.hit)->key;
    ck_assert(nf_digest_eq(&before, &r[0].key));
    struct collected c = {.calls = 0};
    ASSERT_OK(cache_store_gc(s, each * 4 + each / 2, true, collect, &c, &err)); /* a rehearsal */
    ck_assert(c.last.finished);
    ck_assert_uint_eq(c.last.removed, 2);
    for (int i = 0; i < 6; i++)
        ck_assert(in_local(&r[i]));
    ASSERT_OK(cache_store_gc(s, each * 4 + each / 2, false, collect, &c, &err));
    ck_assert(c.last.finished);
    ck_assert_uint_eq(c.last.removed, 2);
    ck_assert(in_local(&r[0]) && !in_local(&r[5]));
    ASSERT_OK(cache_store_gc(s, 0, false, collect, &c, &err));
    for (int i = 1; i < 6; i++)
        ck_assert(!in_local(&r[i]));
    ck_assert(in_local(&r[0]));
    cache_found_done(&found);
    ASSERT_OK(cache_store_gc(s, 0, false, collect, &c, &err));
    ck_assert(!in_local(&r[0]));
    cache_store_status(s, &st);
    ck_assert_uint_eq(st.entries + st.local_bytes, 0);
    struct cache_store_counters counters;
    cache_store_counters(s, &counters);
    ck_assert_uint_eq(counters.evicted, 6);
    cache_store_close(s);
}
END_TEST

START_TEST(what_is_dear_to_rebuild_stays_longer)
{
    struct cache_store *s = local_only((struct cache_store_options){.shared_dir = NULL});
    struct request cheap = put_entry(s, "cheap", 100000, 1000, ""), dear = put_entry(s, "dear", 100000, (uint64_t)3600 * 1000000, "");
    struct cache_store_status st;
    cache_store_status(s, &st);
    nf_sleep_ns(1100 * NF_MS);
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &cheap.key, "", 0, &found, &err)); /* used last, and still the first to go */
    cache_found_done(&found);
    ASSERT_OK(cache_store_gc(s, st.local_bytes / 2 + 1000, false, NULL, NULL, &err));
    ck_assert(in_local(&dear));
    ck_assert(!in_local(&cheap));
    cache_store_close(s);
}
END_TEST

START_TEST(limits_hold)
{
    /* Hard: older ones give way before an admission; a payload that is larger than all of it is served from elsewhere. */
    struct cache_store *s = local_only((struct cache_store_options){.shared_dir = shared_dir, .local_hard_bytes = 350000});
    struct request r[6];
    struct cache_store_status st;
    for (int i = 0; i < 6; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "h%d", i);
        r[i] = put_entry(s, seed, 100000, 1000, "");
        cache_store_status(s, &st);
        ck_assert_uint_le(st.local_bytes, 350000);
        ck_assert(in_local(&r[i]));
    }
    ck_assert(!in_local(&r[0]));
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &r[0].key, "", 0, &found, &err)); /* the other tier has them all */
    ck_assert_int_eq(found.tier, CACHE_TIER_SHARED);
    cache_found_done(&found);
    struct request big = request_of("big", "2");
    struct cache_publication p = publication_of(&big, bytes_of(400000, true));
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.local_rc, NF_ENOSPACE);
    ck_assert_msg(strstr(out.local_err.message, "limit"), "%s", out.local_err.message);
    ck_assert_int_eq(out.shared_rc, NF_OK);
    cache_hit_close(out.hit);
    cache_store_close(s);

    /* Soft: in the background. */
    char other[128];
    nf_format(other, sizeof(other), "%s/other", root);
    s = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = NULL, .local_soft_bytes = 350000});
    for (int i = 0; i < 8; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "s%d", i);
        put_entry(s, seed, 100000, 1000, "");
    }
    for (int i = 0; i < 500; i++) {
        cache_store_status(s, &st);
        if (st.local_bytes <= 350000)
            break;
        nf_sleep_ns(10 * NF_MS);
    }
    ck_assert_uint_le(st.local_bytes, 350000);
    ck_assert_uint_gt(st.local_bytes, 0);
    cache_store_close(s);

    /* The shared tier's. */
    char shared2[128];
    nf_format(shared2, sizeof(shared2), "%s/shared2", root);
    nf_format(other, sizeof(other), "%s/other2", root);
    s = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = shared2, .shared_hard_bytes = 350000});
    for (int i = 0; i < 6; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "m%d", i);
        put_entry(s, seed, 100000, 1000, "");
        cache_store_status(s, &st);
        ck_assert_uint_le(st.bytes, 350000);
    }
    p = publication_of(&big, bytes_of(400000, true));
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.shared_rc, NF_ENOSPACE);
    ck_assert_int_eq(out.local_rc, NF_OK);
    cache_hit_close(out.hit);
    cache_store_close(s);
}
END_TEST

/* Four that publish and evict in one directory: what one has removed is no error of another, nobody ends, what is read is whole. */
START_TEST(several_evict_in_one_directory)
{
    pid_t pids[4];
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        struct cache_store *s = NULL;
        struct cache_store_options o = {.local_dir = local_dir, .shared_dir = shared_dir, .local_hard_bytes = 300000, .shared_hard_bytes = 600000};
        if (cache_store_open(&o, &s, NULL) != NF_OK)
            _exit(2);
        for (int k = 0; k < 20; k++) {
            char seed[16];
            nf_format(seed, sizeof(seed), "e%d", (k * 7 + i * 3) % 12);   /* the others make and remove the same */
            struct request r = request_of(seed, "2");
            char *bytes = nf_arena_alloc_raw(arena, 60000);
            memset(bytes, seed[1], 60000);
            struct cache_publication p = publication_of(&r, nf_str_n(bytes, 60000));
            struct cache_published out = {0};
            struct nf_error e = {0};
            const void *data;
            if (cache_store_publish(s, &p, &out, &e) != NF_OK) {
                fprintf(stderr, "publish: %s\n", e.message);
                _exit(3);
            }
            /* No hit: all that is there is in use just now; whoever has made it goes on with what it has. */
            if (out.hit && (cache_hit_map(out.hit, &data, NULL) != NF_OK || cache_hit_footer(out.hit)->raw_bytes != 60000 || memcmp(data, bytes, 60000) != 0))
                _exit(4);
            cache_hit_close(out.hit);
            struct cache_found found = {0};
            int rc = cache_store_lookup(s, &r.key, "", 0, &found, &e);
            if (rc != NF_OK && rc != NF_ENOTFOUND) {
                fprintf(stderr, "lookup: %s\n", e.message);
                _exit(5);
            }
            if (rc == NF_OK)
                cache_found_done(&found);
        }
        cache_store_close(s);
        _exit(0);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d: status %d", i, status);
    }
    struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .local_hard_bytes = 300000, .shared_hard_bytes = 600000});
    struct cache_store_status st;
    cache_store_status(s, &st);
    ck_assert_uint_le(st.local_bytes, 300000 + 4 * 62000);   /* each counts for itself what the others add meanwhile */
    cache_store_close(s);
}
END_TEST

START_TEST(limits_change_while_the_store_runs)
{
    struct cache_store_options o = {.local_dir = local_dir};
    struct cache_store *s = store_open_with(o);
    for (int i = 0; i < 6; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "c%d", i);
        put_entry(s, seed, 100000, 1000, "");
    }
    o.local_soft_bytes = 250000;
    o.verify_always = true;
    cache_store_set_limits(s, &o);
    struct cache_store_status st;
    for (int i = 0; i < 500; i++) {
        cache_store_status(s, &st);
        if (st.local_bytes <= 250000)
            break;
        nf_sleep_ns(10 * NF_MS);
    }
    ck_assert_uint_le(st.local_bytes, 250000);
    ck_assert_uint_eq(st.limit_bytes, 250000);
    cache_store_close(s);
}
END_TEST

START_TEST(a_namespace_has_a_limit_of_its_own)
{
    struct cache_store *s = local_only((struct cache_store_options){.shared_dir = NULL, .namespace_bytes = 250000, .local_soft_bytes = 10000000});
    struct request mine = put_entry(s, "mine", 100000, 1000, "");
    for (int i = 0; i < 5; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "t%d", i);
        put_entry(s, seed, 100000, 1000, "team");
    }
    struct cache_store_status st;
    for (int i = 0; i < 1500; i++) {
        cache_store_status(s, &st);
        if (st.local_bytes < 360000)
            break;
        nf_sleep_ns(10 * NF_MS);
    }
    ck_assert_uint_lt(st.local_bytes, 360000);
    ck_assert(in_local(&mine));
    cache_store_close(s);
}
END_TEST

struct names {
    char text[2000];
    int count, stop_after;
    bool has_failure;
};
static int list_name(void *user, const struct cache_entry_info *e)
{
    struct names *n = user;
    size_t at = strlen(n->text);
    nf_format(n->text + at, sizeof(n->text) - at, "%s%s", at ? " " : "", e->name);
    ck_assert(e->failure || access(e->path, R_OK) == 0);
    n->has_failure |= e->failure != NULL;
    if (e->failure)
        ck_assert_str_eq(e->failure->error.message, "wrong");
    n->count++;
    return n->stop_after && n->count >= n->stop_after ? 42 : 0;
}

START_TEST(entries_are_listed_shown_and_removed)
{
    for (int no_index = 0; no_index < 2; no_index++) {
        struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .no_index = no_index});
        struct request a = put_entry(s, "alpha", 1000, 1000, ""), b = put_entry(s, "beta", 1000, 1000, "team");
        put_entry(s, "gamma", 1000, 1000, "");
        struct request bad = request_of("bad", "2");
        struct cache_failure f = {.cls = NF_CLASS_USER};
        nf_fail(&f.error, NF_EGRAPH, "wrong");
        struct cache_publication p = publication_of(&bad, (struct nf_str){0});
        p.meta.name = NF_STR("delta");
        p.meta.failure = &f;
        ASSERT_OK(cache_store_remember_failure(s, &p.meta, &err));
        struct names n = {.count = 0};
        ASSERT_OK(cache_store_list(s, NULL, NULL, 0, list_name, &n, &err));
        ck_assert_int_eq(n.count, 4);
        ck_assert(n.has_failure);
        n = (struct names){.count = 0};
        ASSERT_OK(cache_store_list(s, "team", NULL, 0, list_name, &n, &err));
        ck_assert_str_eq(n.text, "beta");
        n = (struct names){.count = 0};
        ASSERT_OK(cache_store_list(s, NULL, "amm", 0, list_name, &n, &err));
        ck_assert_str_eq(n.text, "gamma");
        n = (struct names){.count = 0};
        ASSERT_OK(cache_store_list(s, NULL, NULL, 2, list_name, &n, &err));
        ck_assert_int_eq(n.count, 2);
        n = (struct names){.stop_after = 1};
        ck_assert_int_eq(cache_store_list(s, NULL, NULL, 0, list_name, &n, &err), 42);
        n = (struct names){.count = 0};
        ASSERT_OK(cache_store_show(s, &b.key, list_name, &n, &err));
        ck_assert_str_eq(n.text, "beta");
        struct nf_digest none = {{9}};
        ASSERT_FAILS(NF_ENOTFOUND, cache_store_show(s, &none, list_name, &n, &err));

        uint64_t removed;
        struct nf_digest keys[3] = {a.key, b.key, none};
        ASSERT_OK(cache_store_remove(s, NULL, 0, true, NULL, &removed, &err));
        ck_assert_uint_eq(removed, 1);
        ASSERT_OK(cache_store_remove(s, keys, 3, false, "team", &removed, &err));
        ck_assert_uint_eq(removed, 1);
        ASSERT_OK(cache_store_remove(s, keys, 3, false, NULL, &removed, &err));
        ck_assert_uint_eq(removed, 1);
        struct cache_found found;
        ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &a.key, NULL, 0, &found, &err));
        n = (struct names){.count = 0};
        ASSERT_OK(cache_store_list(s, NULL, NULL, 0, list_name, &n, &err));
        ck_assert_str_eq(n.text, "gamma");
        ASSERT_FAILS(NF_EINVAL, cache_store_remove(s, keys, 1, false, "../..", &removed, &err));
        cache_store_close(s);
    }
}
END_TEST

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char c;
    struct stat st;
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c ^= 1;
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    struct timespec times[2] = {st.st_atim, st.st_mtim}; /* rot does not show on the mtime */
    ck_assert_int_eq(futimens(fd, times), 0);
    close(fd);
}

START_TEST(verify_finds_rot_and_repair_mends_it)
{
    struct cache_store *s = store_open();
    struct request r[5];
    char path[512];
    for (int i = 0; i < 5; i++) {
        char seed[8];
        nf_format(seed, sizeof(seed), "v%d", i);
        r[i] = put_entry(s, seed, 50000, 1000, i == 4 ? "team" : "");
    }
    struct collected c = {.calls = 0};
    ASSERT_OK(cache_store_verify(s, false, collect, &c, &err));
    ck_assert(c.last.finished);
    ck_assert_uint_eq(c.last.total, 10);
    ck_assert_uint_eq(c.last.done, 10);
    ck_assert_uint_eq(c.last.bad, 0);
    entry_path_of(local_dir, &r[0].key, CACHE_KIND_NEFF, path);
    flip(path, 100);
    entry_path_of(shared_dir, &r[1].key, CACHE_KIND_NEFF, path);
    flip(path, 100);
    entry_path_of(shared_dir, &r[2].key, CACHE_KIND_NEFF, path);
    flip(path, 50010); /* in the metadata */
    ASSERT_OK(cache_store_verify(s, false, collect, &c, &err));
    ck_assert_uint_eq(c.last.bad, 3);
    ck_assert_uint_eq(c.last.removed, 0);
    ASSERT_OK(cache_store_verify(s, true, collect, &c, &err));
    ck_assert_uint_eq(c.last.bad, 3);
    ck_assert_uint_eq(c.last.removed, 3);
    ck_assert(in_local(&r[0])); /* fetched again from the shared tier */
    ck_assert(!is_file(path));
    ASSERT_OK(cache_store_verify(s, true, collect, &c, &err));
    ck_assert_uint_eq(c.last.bad, 0);
    ck_assert_uint_eq(c.last.total, 8);
    struct cache_found found;
    for (int i = 0; i < 5; i++) {
        ASSERT_OK(cache_store_lookup(s, &r[i].key, i == 4 ? "team" : "", 0, &found, &err));
        cache_found_done(&found);
    }
    cache_store_close(s);
}
END_TEST

START_TEST(the_scrub_finds_rot_by_itself)
{
    struct cache_store *s = store_open();
    struct request r = put_entry(s, "rot", 50000, 1000, "");
    cache_store_close(s);
    char path[512];
    entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path);
    flip(path, 100);
    s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .scrub_bytes_per_s = 1 << 30});
    struct cache_store_counters c;
    for (int i = 0; i < 500; i++) {
        cache_store_counters(s, &c);
        if (c.quarantined)
            break;
        nf_sleep_ns(10 * NF_MS);
    }
    ck_assert_uint_eq(c.quarantined, 1);
    ck_assert_uint_ge(c.scrubbed_bytes, 50000);
    ck_assert(!is_file(path));
    cache_store_close(s);
}
END_TEST

START_TEST(notes_of_uses_reach_the_order_and_entries_made_without_a_daemon_are_found)
{
    struct cache_store *s = local_only((struct cache_store_options){.shared_dir = NULL});
    put_entry(s, "first", 1000, 1000, "");
    struct cache_store *cc = store_open_with((struct cache_store_options){.shared_dir = NULL, .no_index = true}); /* as neffcc does */
    struct request r = put_entry(cc, "alone", 1000, 1000, "");
    cache_store_close(cc);
    struct cache_store_status st;
    cache_store_flush(s);
    cache_store_status(s, &st);
    ck_assert_uint_eq(st.entries, 2);
    /* Whatever else lies there is no note. */
    char path[256];
    static const char *const junk[] = {"", "NFUSES1\n", "NFUSES1\nshort", "something else altogether that is long enough for a record"};
    for (size_t i = 0; i < NF_ARRAY_LEN(junk); i++) {
        nf_format(path, sizeof(path), "%s/uses/use-%zu", local_dir, i);
        ASSERT_OK(nf_file_replace(path, nf_str_c(junk[i]), 0666, &err));
    }
    nf_format(path, sizeof(path), "%s/uses/use-link", local_dir);
    ck_assert_int_eq(symlink("/etc/shadow", path), 0);
    cache_store_flush(s);
    nf_format(path, sizeof(path), "%s/uses", local_dir);
    ck_assert_uint_eq(files_in(path), 0);
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
    cache_found_done(&found);
    cache_store_close(s);
}
END_TEST

START_TEST(the_quarantine_is_bounded_and_temporaries_are_swept)
{
    struct cache_store *s = store_open();
    char path[512], quarantine[256], tmp[600];
    struct request r = put_entry(s, "q", 1000, 1000, "");
    for (int i = 0; i < 80; i++) {
        struct cache_found found;
        entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path);
        ck_assert_int_eq(truncate(path, 0), 0);
        ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
        cache_found_done(&found);
    }
    nf_format(quarantine, sizeof(quarantine), "%s/quarantine", local_dir);
    ck_assert_uint_le(files_in(quarantine), 64);
    ck_assert_uint_ge(files_in(quarantine), 60);
    *strrchr(path, '/') = 0;
    nf_format(tmp, sizeof(tmp), "%s/.tmp-0123456789abcdef0123456789abcdef", path);
    ASSERT_OK(nf_file_replace(tmp, NF_STR("x"), 0600, &err));
    ASSERT_OK(cache_store_gc(s, UINT64_MAX, false, NULL, NULL, &err));
    ck_assert_int_eq(access(tmp, F_OK), 0); /* fresh: somebody may be writing it. Times are set by the kernel, so age is not played here */
    cache_store_close(s);
}
END_TEST

START_TEST(aliases_are_bounded)
{
    struct cache_store *s = local_only((struct cache_store_options){.shared_dir = NULL, .max_aliases = 256, .local_soft_bytes = 1 << 30});
    struct request r = put_entry(s, "a", 1000, 1000, "");
    size_t many = 4000, left = 0;
    for (size_t i = 0; i < many; i++) {
        struct nf_digest front = nf_digest_of(&i, sizeof(i));
        ASSERT_OK(cache_store_alias_put(s, &front, &r.key, "", &err));
    }
    for (int tries = 0; tries < 250; tries++) {
        left = 0;
        for (int k = 0; k < 256; k++) {
            char dir[256];
            nf_format(dir, sizeof(dir), "%s/aliases/%02x", local_dir, (unsigned)k);
            left += files_in(dir);
        }
        if (left <= 512)
            break;
        nf_sleep_ns(100 * NF_MS);
    }
    ck_assert_uint_le(left, 512);
    ck_assert_uint_gt(left, 0);
    cache_store_close(s);
}
END_TEST

START_TEST(the_local_directory_is_held_against_cleaners)
{
    struct cache_store *s = store_open();
    int fd = open(local_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), -1);
    ck_assert_int_eq(errno, EWOULDBLOCK);
    cache_store_close(s);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
}
END_TEST

START_TEST(counters_outlive_the_store)
{
    struct cache_store *s = store_open();
    cache_store_lifetime_add(s, "compiles", 3);
    cache_store_close(s);
    s = store_open();
    cache_store_lifetime_add(s, "compiles", 4);
    cache_store_flush(s);
    ck_assert_uint_eq(cache_store_lifetime_get(s, "compiles"), 7);
    cache_store_close(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-admin");
    TCase *t = tcase_create("admin");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, least_recently_used_goes_first_and_what_is_in_use_stays);
    tcase_add_test(t, what_is_dear_to_rebuild_stays_longer);
    tcase_add_test(t, limits_hold);
    tcase_add_test(t, several_evict_in_one_directory);
    tcase_add_test(t, limits_change_while_the_store_runs);
    tcase_add_test(t, a_namespace_has_a_limit_of_its_own);
    tcase_add_test(t, entries_are_listed_shown_and_removed);
    tcase_add_test(t, verify_finds_rot_and_repair_mends_it);
    tcase_add_test(t, the_scrub_finds_rot_by_itself);
    tcase_add_test(t, notes_of_uses_reach_the_order_and_entries_made_without_a_daemon_are_found);
    tcase_add_test(t, the_quarantine_is_bounded_and_temporaries_are_swept);
    tcase_add_test(t, aliases_are_bounded);
    tcase_add_test(t, the_local_directory_is_held_against_cleaners);
    tcase_add_test(t, counters_outlive_the_store);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
