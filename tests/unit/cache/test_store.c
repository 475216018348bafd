/* Publishing, looking up, admission, failures and damage, in both tiers, on healthy directories. */
#include "fixture.h"

#include <sys/wait.h>

START_TEST(published_then_hit_in_the_local_tier)
{
    struct cache_store *s = store_open();
    struct request r = request_of("a", "2");
    struct nf_str artifact = bytes_of(300000, false);
    struct cache_publication p = publication_of(&r, artifact);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert(out.ours);
    ck_assert_int_eq(out.local_rc, NF_OK);
    ck_assert_int_eq(out.shared_rc, NF_OK);
    ck_assert(payload_is(out.hit, artifact));
    ck_assert_str_eq(cache_hit_path(out.hit) + strlen(local_dir), strstr(cache_hit_path(out.hit), "/entries/"));
    cache_hit_close(out.hit);

    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
    ck_assert_int_eq(found.tier, CACHE_TIER_LOCAL);
    ck_assert(payload_is(found.hit, artifact));
    struct nf_digest sha = nf_digest_of(artifact.data, artifact.len);
    ck_assert(nf_digest_eq(&cache_hit_footer(found.hit)->sha256, &sha));
    struct cache_meta meta;
    ASSERT_OK(cache_hit_meta(found.hit, arena, &meta, &err));
    ck_assert(nf_str_eq_c(meta.name, "model"));
    ck_assert_uint_eq(meta.compile_us, 2500000);
    struct nf_str text;
    ASSERT_OK(cache_meta_text(&meta, arena, &text, &err));
    ck_assert(nf_str_eq_c(text, "func.func @main() { return }\n"));
    struct cache_components list;
    ASSERT_OK(cache_meta_components(&meta, arena, &list, &err));
    ck_assert_uint_eq(list.count, r.list.count);
    ck_assert(nf_str_eq_c(list.items[list.count - 2].location, "model.py:3:4"));
    cache_found_done(&found);

    /* By its digest, and through the reader. */
    ASSERT_OK(cache_store_sha256(s, &sha, &found, &err));
    cache_found_done(&found);
    struct cache_hit *hit;
    ASSERT_OK(cache_reader_lookup(cache_store_reader(s), &r.key, NULL, &hit, &err));
    ck_assert(payload_is(hit, artifact));
    cache_hit_close(hit);

    struct cache_store_status st;
    cache_store_status(s, &st);
    ck_assert_uint_eq(st.entries, 1);
    ck_assert_uint_gt(st.local_bytes, artifact.len);
    ck_assert_str_eq(st.trouble, "");
    ck_assert(st.shared_writable);
    cache_store_close(s);
}
END_TEST

START_TEST(another_host_admits_from_the_shared_tier)
{
    static const size_t sizes[] = {0, 1, 4095, 3000000};
    for (size_t i = 0; i < NF_ARRAY_LEN(sizes) * 2; i++) {
        bool dense = i % 2;
        struct nf_str artifact = bytes_of(sizes[i / 2], dense);
        char seed[32], other[128];
        nf_format(seed, sizeof(seed), "seed %zu", i);
        nf_format(other, sizeof(other), "%s/other%zu", root, i);
        struct request r = request_of(seed, "2");
        struct cache_store *s = store_open();
        publish(s, &r, artifact);
        cache_store_close(s);

        s = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = shared_dir});
        struct cache_found found;
        ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
        ck_assert_int_eq(found.tier, CACHE_TIER_SHARED);
        ck_assert_int_eq(cache_hit_tier(found.hit), CACHE_TIER_LOCAL);
        ck_assert(payload_is(found.hit, artifact));
        cache_found_done(&found);
        ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
        ck_assert_int_eq(found.tier, CACHE_TIER_LOCAL);
        cache_found_done(&found);
        struct cache_store_counters c;
        cache_store_counters(s, &c);
        ck_assert_uint_eq(c.hits_shared, 1);
        ck_assert_uint_eq(c.hits_local, 1);
        ck_assert_uint_eq(c.admitted, 1);
        cache_store_close(s);
        char path[512];
        struct cache__file f;
        entry_path_of(shared_dir, &r.key, CACHE_KIND_NEFF, path);
        ASSERT_OK(cache__file_open(path, &r.key, CACHE_KIND_NEFF, NULL, 0, &f, &err));
        ck_assert_int_eq(f.footer.encoding, sizes[i / 2] > 1 && !dense ? CACHE_ZSTD : CACHE_RAW);
        close(f.fd);
    }
}
END_TEST

START_TEST(a_miss_is_a_miss_in_every_namespace)
{
    struct cache_store *s = store_open();
    struct request r = request_of("a", "2");
    struct cache_found found;
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", 0, &found, &err));
    struct cache_publication p = publication_of(&r, NF_STR("x"));
    p.meta.cache_namespace = NF_STR("team-a");
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    cache_hit_close(out.hit);
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", 0, &found, &err));
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "team-b", 0, &found, &err));
    ASSERT_OK(cache_store_lookup(s, &r.key, "team-a", 0, &found, &err));
    cache_found_done(&found);
    ASSERT_OK(cache_store_lookup(s, &r.key, NULL, 0, &found, &err));
    cache_found_done(&found);
    ASSERT_FAILS(NF_EINVAL, cache_store_lookup(s, &r.key, "../x", 0, &found, &err));
    cache_store_close(s);
}
END_TEST

START_TEST(the_first_publisher_wins_and_its_bytes_are_used)
{
    struct cache_store *s = store_open();
    struct request r = request_of("a", "2");
    publish(s, &r, NF_STR("first"));
    struct cache_publication p = publication_of(&r, NF_STR("second"));
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert(!out.ours);
    ck_assert(payload_is(out.hit, NF_STR("first")));
    cache_hit_close(out.hit);

    /* Also when the winner is another host. */
    char other[128];
    nf_format(other, sizeof(other), "%s/other", root);
    struct cache_store *o = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = shared_dir});
    ASSERT_OK(cache_store_publish(o, &p, &out, &err));
    ck_assert(!out.ours);
    ck_assert(payload_is(out.hit, NF_STR("first")));
    cache_hit_close(out.hit);
    cache_store_close(o);

    /* ignore_cache: what was mapped stays mapped, the name is the new one's. */
    struct cache_found old;
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &old, &err));
    p.replace = true;
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert(out.ours);
    ck_assert(payload_is(out.hit, NF_STR("second")));
    ck_assert(payload_is(old.hit, NF_STR("first")));
    cache_hit_close(out.hit);
    cache_found_done(&old);
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &old, &err));
    ck_assert(payload_is(old.hit, NF_STR("second")));
    cache_found_done(&old);
    cache_store_close(s);
}
END_TEST

enum damage { EMPTY, CUT, FLIP_PAYLOAD, FLIP_META, FLIP_FOOTER, GARBAGE, DIRECTORY_OF_OTHER, DAMAGE_MAX };

static void damage_file(const char *path, enum damage how, uint64_t payload_bytes)
{
    struct stat before;
    ck_assert_int_eq(stat(path, &before), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    off_t at = -1;
    switch (how) {
    case EMPTY: ck_assert_int_eq(ftruncate(fd, 0), 0); break;
    case CUT: ck_assert_int_eq(ftruncate(fd, before.st_size / 2), 0); break;
    case FLIP_PAYLOAD: at = (off_t)(payload_bytes / 2); break;
    case FLIP_META: at = (off_t)payload_bytes + 5; break;
    case FLIP_FOOTER: at = before.st_size - 100; break;
    case GARBAGE:
        for (off_t i = 0; i < before.st_size; i += 7)
            ck_assert_int_eq(pwrite(fd, "garbage", 7, i), 7);
        break;
    case DIRECTORY_OF_OTHER: ck_assert_int_eq(ftruncate(fd, before.st_size + 1), 0); break;
    case DAMAGE_MAX: break;
    }
    if (at >= 0) {
        char c;
        ck_assert_int_eq(pread(fd, &c, 1, at), 1);
        c ^= 0x10;
        ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    }
    close(fd);
}

START_TEST(damage_in_the_local_tier_is_quarantined_and_comes_back_from_the_shared_one)
{
    for (int how = 0; how < DAMAGE_MAX; how++) {
        char seed[16], path[512], quarantine[256];
        nf_format(seed, sizeof(seed), "d%d", how);
        struct request r = request_of(seed, "2");
        struct nf_str artifact = bytes_of(200000, true);
        struct cache_store *s = store_open();
        publish(s, &r, artifact);
        struct cache_store_counters c;
        entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path);
        damage_file(path, (enum damage)how, artifact.len);
        struct cache_found found;
        ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
        if (how == FLIP_META) { /* is not read on a hit: the payload is what is served, and it is whole */
            ck_assert(payload_is(found.hit, artifact));
            cache_found_done(&found);
            cache_store_close(s);
            continue;
        }
        ck_assert_int_eq(found.tier, CACHE_TIER_SHARED);
        ck_assert(payload_is(found.hit, artifact));
        cache_found_done(&found);
        cache_store_counters(s, &c);
        ck_assert_uint_eq(c.quarantined, 1);
        nf_format(quarantine, sizeof(quarantine), "%s/quarantine", local_dir);
        ck_assert_uint_ge(files_in(quarantine), 1);
        ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
        ck_assert_int_eq(found.tier, CACHE_TIER_LOCAL);
        cache_found_done(&found);
        cache_store_close(s);
    }
}
END_TEST

START_TEST(damage_in_the_shared_tier_is_quarantined_and_the_next_publisher_wins)
{
    for (int how = 0; how < DAMAGE_MAX; how++) {
        char seed[16], path[512], other[128], quarantine[256];
        nf_format(seed, sizeof(seed), "d%d", how);
        nf_format(other, sizeof(other), "%s/other%d", root, how);
        struct request r = request_of(seed, "2");
        struct nf_str artifact = bytes_of(200000, true);
        struct cache_store *s = store_open();
        publish(s, &r, artifact);
        cache_store_close(s);
        entry_path_of(shared_dir, &r.key, CACHE_KIND_NEFF, path);
        damage_file(path, (enum damage)how, artifact.len);
        s = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = shared_dir});
        struct cache_found found;
        ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", 0, &found, &err));
        struct cache_store_counters c;
        cache_store_counters(s, &c);
        ck_assert_uint_eq(c.quarantined, 1);
        ck_assert(!is_file(path));
        nf_format(quarantine, sizeof(quarantine), "%s/quarantine", shared_dir);
        ck_assert_uint_ge(files_in(quarantine), 1);
        publish(s, &r, artifact);
        ck_assert(is_file(path));
        cache_store_close(s);
    }
}
END_TEST

START_TEST(a_damaged_occupant_is_renamed_away_by_a_publisher)
{
    struct cache_store *s = store_open();
    struct request r = request_of("a", "2");
    struct nf_str artifact = bytes_of(100000, true);
    char path[2][512];
    publish(s, &r, artifact);
    entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path[0]);
    entry_path_of(shared_dir, &r.key, CACHE_KIND_NEFF, path[1]);
    for (int i = 0; i < 2; i++) {
        int fd = open(path[i], O_WRONLY | O_TRUNC | O_CLOEXEC); /* 0 bytes, in an entry's place */
        close(fd);
    }
    struct cache_publication p = publication_of(&r, artifact);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.local_rc | out.shared_rc, 0);
    ck_assert(payload_is(out.hit, artifact));
    cache_hit_close(out.hit);
    struct cache_store_counters c;
    cache_store_counters(s, &c);
    ck_assert_uint_eq(c.quarantined, 2);
    cache_store_close(s);
}
END_TEST

START_TEST(a_write_to_a_local_payload_shows_on_its_mtime)
{
    struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = NULL});
    struct request r = request_of("a", "2");
    struct nf_str artifact = bytes_of(100000, true);
    publish(s, &r, artifact);
    char path[512];
    struct stat st;
    entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path);
    struct cache_hit *hit;
    /* Touched but the same: served after a check, and believed again. */
    ck_assert_int_eq(utimensat(AT_FDCWD, path, NULL, 0), 0);
    ASSERT_OK(cache_reader_lookup(cache_store_reader(s), &r.key, "", &hit, &err));
    cache_hit_close(hit);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mtim.tv_nsec, 0);
    /* Written to: not served by the reader, quarantined by the store. */
    damage_file(path, FLIP_PAYLOAD, artifact.len);
    ASSERT_FAILS(NF_ECORRUPT, cache_reader_lookup(cache_store_reader(s), &r.key, "", &hit, &err));
    ck_assert_msg(strstr(err.message, path), "%s", err.message);
    struct cache_found found;
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", 0, &found, &err));
    ck_assert(!is_file(path));
    cache_store_close(s);
}
END_TEST

START_TEST(verify_always_finds_what_the_mtime_does_not_show)
{
    for (int always = 0; always < 2; always++) {
        char seed[16], path[512];
        nf_format(seed, sizeof(seed), "v%d", always);
        struct request r = request_of(seed, "2");
        struct nf_str artifact = bytes_of(100000, true);
        struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = NULL, .verify_always = always});
        publish(s, &r, artifact);
        entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path);
        struct stat st;
        ck_assert_int_eq(stat(path, &st), 0);
        damage_file(path, FLIP_PAYLOAD, artifact.len);
        struct timespec times[2] = {st.st_atim, st.st_mtim};
        ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
        struct cache_found found;
        int rc = cache_store_lookup(s, &r.key, "", 0, &found, &err);
        ck_assert_int_eq(rc, always ? NF_ENOTFOUND : NF_OK);
        if (rc == NF_OK)
            cache_found_done(&found);
        cache_store_close(s);
    }
}
END_TEST

START_TEST(failures_are_remembered_by_class_and_forgotten)
{
    struct cache_store *s = store_open();
    struct request r = request_of("bad", "2");
    struct nf_str log[2] = {NF_STR("first line"), NF_STR("last line")};
    struct cache_failure f = {.cls = NF_CLASS_USER, .attempts = 1, .log_tail = log, .log_count = 2};
    nf_fail(&f.error, NF_ECOMPILEFAILED, "the graph has a cycle");
    nf_error_location(&f.error, "model.py:7");
    f.error.exit_code = 70;
    struct cache_publication p = publication_of(&r, (struct nf_str){0});
    p.meta.failure = &f;
    ASSERT_OK(cache_store_remember_failure(s, &p.meta, &err));
    struct cache_found found;
    for (int tier = 0; tier < 2; tier++) {
        ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
        ck_assert(found.is_failure);
        ck_assert_ptr_null(found.hit);
        ck_assert_int_eq(found.tier, tier ? CACHE_TIER_SHARED : CACHE_TIER_LOCAL);
        ck_assert_int_eq(found.failure.error.code, NF_ECOMPILEFAILED);
        ck_assert_str_eq(found.failure.error.message, "the graph has a cycle");
        ck_assert_str_eq(found.failure.error.location, "model.py:7");
        ck_assert_int_eq(found.failure.error.exit_code, 70);
        ck_assert(found.failure.error.from_cache);
        ck_assert_uint_eq(found.failure.log_count, 2);
        ck_assert(nf_str_eq_c(found.failure.log_tail[1], "last line"));
        cache_found_done(&found);
        char path[512];
        entry_path_of(local_dir, &r.key, CACHE_KIND_FAILURE, path);
        unlink(path);
    }
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", CACHE_LOOKUP_NO_FAILURES, &found, &err));

    /* Not these. */
    static const enum nf_class never[] = {NF_CLASS_TRANSIENT, NF_CLASS_ENVIRONMENT, NF_CLASS_TIMEOUT};
    for (size_t i = 0; i < NF_ARRAY_LEN(never); i++) {
        f.cls = never[i];
        ASSERT_FAILS(NF_EINVAL, cache_store_remember_failure(s, &p.meta, &err));
    }
    /* Expired ones are not there. */
    f.cls = NF_CLASS_INTERNAL;
    f.expires_us = nf_wall_us() + 3000000;
    ASSERT_OK(cache_store_remember_failure(s, &p.meta, &err));
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
    ck_assert_int_eq(found.failure.cls, NF_CLASS_INTERNAL);
    cache_found_done(&found);
    nf_sleep_ns(NF_MAX(f.expires_us - nf_wall_us() + 1000, 0) * 1000);
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", 0, &found, &err));

    /* An artifact ends a failure. */
    f.expires_us = 0;
    ASSERT_OK(cache_store_remember_failure(s, &p.meta, &err));
    publish(s, &r, NF_STR("works now"));
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
    ck_assert(!found.is_failure);
    cache_found_done(&found);
    struct cache_store_status st;
    cache_store_status(s, &st);
    ck_assert_uint_eq(st.entries, 1);
    cache_store_close(s);
}
END_TEST

START_TEST(aliases_lead_from_front_keys_to_hits)
{
    struct cache_store *s = store_open();
    struct cache_reader *reader = cache_store_reader(s);
    struct request r = request_of("a", "2");
    struct nf_digest front = nf_digest_of("front", 5), got;
    struct cache_hit *hit;
    char space[65];
    ASSERT_FAILS(NF_ENOTFOUND, cache_reader_lookup_front(reader, &front, &hit, &err));
    ASSERT_OK(cache_store_alias_put(s, &front, &r.key, "", &err));
    ASSERT_OK(cache_reader_alias(reader, &front, &got, space, &err));
    ck_assert(nf_digest_eq(&got, &r.key));
    ck_assert_str_eq(space, "");
    ASSERT_FAILS(NF_ENOTFOUND, cache_reader_lookup_front(reader, &front, &hit, &err)); /* the entry is not here */
    publish(s, &r, NF_STR("payload"));
    ASSERT_OK(cache_reader_lookup_front(reader, &front, &hit, &err));
    ck_assert(payload_is(hit, NF_STR("payload")));
    cache_hit_close(hit);
    struct request other = request_of("b", "2");
    ASSERT_OK(cache_store_alias_put(s, &front, &other.key, "team", &err)); /* replaced whole */
    ASSERT_OK(cache_reader_alias(reader, &front, &got, space, &err));
    ck_assert(nf_digest_eq(&got, &other.key));
    ck_assert_str_eq(space, "team");

    char hex[NF_DIGEST_HEX], path[512];
    nf_digest_hex(&front, hex);
    nf_format(path, sizeof(path), "%s/aliases/%.2s/%s", local_dir, hex, hex);
    static const char *const bad[] = {"_/12", "../../etc/passwd", "/etc/passwd", "_", "x y/0000000000000000000000000000000000000000000000000000000000000000"};
    for (size_t i = 0; i < NF_ARRAY_LEN(bad); i++) {
        unlink(path);
        ck_assert_int_eq(symlink(bad[i], path), 0);
        ASSERT_FAILS(NF_ECORRUPT, cache_reader_lookup_front(reader, &front, &hit, &err));
    }
    if (geteuid() == 0) { /* a stranger's alias does not count */
        ck_assert_int_eq(lchown(path, 12345, 12345), 0);
        ASSERT_FAILS(NF_EPERM, cache_reader_lookup_front(reader, &front, &hit, &err));
    }
    cache_store_close(s);
}
END_TEST

START_TEST(a_strangers_entry_is_not_served)
{
    if (geteuid() != 0)
        return;
    struct cache_store *s = store_open();
    struct request r = request_of("a", "2");
    char path[512];
    publish(s, &r, NF_STR("payload"));
    entry_path_of(local_dir, &r.key, CACHE_KIND_NEFF, path);
    ck_assert_int_eq(chown(path, 12345, 12345), 0);
    struct cache_hit *hit;
    ASSERT_FAILS(NF_EPERM, cache_reader_lookup(cache_store_reader(s), &r.key, "", &hit, &err));
    struct cache_reader *trusting;
    uid_t daemon = 12345;
    ASSERT_OK(cache_reader_open(&(struct cache_reader_options){.local_dir = local_dir, .trusted_uids = &daemon, .trusted_count = 1}, &trusting, &err));
    ASSERT_OK(cache_reader_lookup(trusting, &r.key, "", &hit, &err));
    ck_assert_uint_eq(cache_hit_owner(hit), 12345);
    cache_hit_close(hit);
    cache_reader_close(trusting);
    cache_store_close(s);
}
END_TEST

START_TEST(the_reader_finds_shared_entries_without_a_store)
{
    struct cache_store *s = store_open();
    struct request packed = request_of("packed", "2"), raw = request_of("raw", "2");
    struct nf_str soft = bytes_of(500000, false), hard = bytes_of(500000, true);
    publish(s, &packed, soft);
    publish(s, &raw, hard);
    cache_store_close(s);
    struct cache_reader *reader;
    char none[128];
    nf_format(none, sizeof(none), "%s/none", root);
    ASSERT_OK(cache_reader_open(&(struct cache_reader_options){.local_dir = none, .shared_dir = shared_dir}, &reader, &err));
    struct cache_hit *hit;
    ASSERT_FAILS(NF_ENOTFOUND, cache_reader_lookup(reader, &raw.key, "", &hit, &err));
    ASSERT_OK(cache_reader_lookup_shared(reader, &raw.key, "", &hit, &err));
    ck_assert(payload_is(hit, hard));
    cache_hit_close(hit);
    ASSERT_OK(cache_reader_lookup_shared(reader, &packed.key, NULL, &hit, &err));
    ck_assert(payload_is(hit, soft));
    struct cache_meta meta;
    ASSERT_OK(cache_hit_meta(hit, arena, &meta, &err));
    ck_assert(nf_str_eq_c(meta.name, "model"));
    cache_hit_close(hit);
    char path[512];
    entry_path_of(shared_dir, &packed.key, CACHE_KIND_NEFF, path);
    struct cache__file f;
    ASSERT_OK(cache__file_open(path, NULL, CACHE_KIND_NEFF, NULL, 0, &f, &err));
    damage_file(path, FLIP_PAYLOAD, f.footer.stored_bytes);
    close(f.fd);
    ASSERT_FAILS(NF_ECORRUPT, cache_reader_lookup_shared(reader, &packed.key, NULL, &hit, &err));
    cache_reader_close(reader);
}
END_TEST

START_TEST(a_file_of_its_own_can_be_published)
{
    struct cache_store *s = store_open();
    struct request r = request_of("file", "2");
    struct nf_str artifact = bytes_of(5 << 20, true);
    char path[256];
    nf_format(path, sizeof(path), "%s/artifact", root);
    ASSERT_OK(nf_file_replace(path, artifact, 0600, &err));
    struct cache_publication p = publication_of(&r, (struct nf_str){0});
    p.artifact_fd = open(path, O_RDONLY | O_CLOEXEC);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    close(p.artifact_fd);
    ck_assert(payload_is(out.hit, artifact));
    struct stat st;
    ck_assert_int_eq(stat(cache_hit_path(out.hit), &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0640); /* by policy, never by umask */
    cache_hit_close(out.hit);
    cache_store_close(s);
}
END_TEST

START_TEST(many_processes_publish_one_key_and_all_have_one_winners_bytes)
{
    struct request r = request_of("race", "2");
    pid_t pids[8];
    for (int i = 0; i < 8; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct cache_store *s;
            char text[200000];
            memset(text, 'a' + i, sizeof(text));
            struct cache_store_options o = {.local_dir = local_dir, .shared_dir = shared_dir};
            if (cache_store_open(&o, &s, NULL) != NF_OK)
                _exit(2);
            struct cache_publication p = publication_of(&r, nf_str_n(text, sizeof(text)));
            struct cache_published out = {0};
            if (cache_store_publish(s, &p, &out, NULL) != NF_OK || !out.hit)
                _exit(3);
            const void *data;
            if (cache_hit_map(out.hit, &data, NULL) != NF_OK)
                _exit(4);
            char winner = *(const char *)data;
            cache_hit_close(out.hit);
            cache_store_close(s);
            _exit(winner);
        }
    }
    int winner = 0;
    for (int i = 0; i < 8; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert(WIFEXITED(status));
        ck_assert_int_ge(WEXITSTATUS(status), 'a');
        if (winner)
            ck_assert_int_eq(WEXITSTATUS(status), winner);
        winner = WEXITSTATUS(status);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-store");
    TCase *t = tcase_create("store");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, published_then_hit_in_the_local_tier);
    tcase_add_test(t, another_host_admits_from_the_shared_tier);
    tcase_add_test(t, a_miss_is_a_miss_in_every_namespace);
    tcase_add_test(t, the_first_publisher_wins_and_its_bytes_are_used);
    tcase_add_test(t, damage_in_the_local_tier_is_quarantined_and_comes_back_from_the_shared_one);
    tcase_add_test(t, damage_in_the_shared_tier_is_quarantined_and_the_next_publisher_wins);
    tcase_add_test(t, a_damaged_occupant_is_renamed_away_by_a_publisher);
    tcase_add_test(t, a_write_to_a_local_payload_shows_on_its_mtime);
    tcase_add_test(t, verify_always_finds_what_the_mtime_does_not_show);
    tcase_add_test(t, failures_are_remembered_by_class_and_forgotten);
    tcase_add_test(t, aliases_lead_from_front_keys_to_hits);
    tcase_add_test(t, a_strangers_entry_is_not_served);
    tcase_add_test(t, the_reader_finds_shared_entries_without_a_store);
    tcase_add_test(t, a_file_of_its_own_can_be_published);
    tcase_add_test(t, many_processes_publish_one_key_and_all_have_one_winners_bytes);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
