/* The index: what it holds, and that it can be deleted, spoiled, of another version or shared at any moment. */
#include "fixture.h"

#include "cache/index_internal.h"

#include <signal.h>
#include <sys/wait.h>

static _Atomic int rebuilds;
static void rebuild(void *user)
{
    (void)user;
    rebuilds++;
}

static struct cache__index *index_open(void)
{
    struct cache__index *ix;
    ASSERT_OK(nf_mkdir_p(local_dir, 0755, &err));
    rebuilds = 0;
    ASSERT_OK(cache__index_open(local_dir, rebuild, NULL, &ix, &err));
    return ix;
}

static struct cache__row row_of(unsigned n)
{
    struct cache__row r = {
        .key = nf_digest_of(&n, sizeof(n)),
        .raw_bytes = 1000 + n,
        .local_bytes = 1100,
        .created_s = 1000000 + n,
        .used_s = 1000000 + n,
        .compile_us = 5000716,
        .owner = 1000,
        .name = NF_STR("name"),
        .cache_namespace = n % 2 ? NF_STR("odd") : NF_STR(""),
        .target = NF_STR("cpu"),
        .compiler = NF_STR("neffd-cpu 0.1.0"),
        .created_by = NF_STR("uid 1000"),
    };
    r.sha256 = nf_digest_of(r.key.bytes, 32);
    r.sketch.group[0] = n;
    return r;
}

static void put(struct cache__index *ix, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        struct cache__row r = row_of(i);
        cache__index_put(ix, &r);
    }
    cache__index_flush(ix, 5 * NF_SEC);
}

static int count_row(void *user, const struct cache__row *r)
{
    (void)r;
    ++*(unsigned *)user;
    return 0;
}

static unsigned rows_in(struct cache__index *ix)
{
    unsigned n = 0;
    ck_assert_int_eq(cache__index_scan(ix, false, count_row, &n), NF_OK);
    return n;
}

START_TEST(rows_come_back_as_they_went_in)
{
    struct cache__index *ix = index_open();
    struct cache__row want = row_of(7), got;
    put(ix, 0, 100);
    ck_assert_int_eq(cache__index_get(ix, &want.key, false, arena, &got), NF_OK);
    ck_assert(nf_digest_eq(&got.key, &want.key) && nf_digest_eq(&got.sha256, &want.sha256));
    ck_assert_uint_eq(got.raw_bytes, want.raw_bytes);
    ck_assert_uint_eq(got.local_bytes, 1100);
    ck_assert_uint_eq(got.shared_bytes, 0);
    ck_assert_int_eq(got.created_s, want.created_s);
    ck_assert_uint_eq(got.compile_us, want.compile_us);
    ck_assert_uint_eq(got.owner, 1000);
    ck_assert_uint_eq(got.sketch.group[0], 7);
    ck_assert(nf_str_eq_c(got.cache_namespace, "odd"));
    ck_assert(nf_str_eq_c(got.compiler, "neffd-cpu 0.1.0"));
    ck_assert_int_eq(cache__index_by_sha(ix, &want.sha256, arena, &got), NF_OK);
    ck_assert(nf_digest_eq(&got.key, &want.key));
    struct nf_digest none = {{1}};
    ck_assert_int_eq(cache__index_get(ix, &none, false, arena, &got), NF_ENOTFOUND);
    ck_assert_int_eq(cache__index_get(ix, &want.key, true, arena, &got), NF_ENOTFOUND);
    struct cache__totals t;
    cache__index_totals(ix, &t);
    ck_assert_uint_eq(t.entries, 100);
    ck_assert_uint_eq(t.local_bytes, 110000);
    ck_assert_uint_eq(t.shared_bytes, 0);
    cache__index_close(ix);
}
END_TEST

START_TEST(many_uses_are_one_update)
{
    struct cache__index *ix = index_open();
    struct cache__row a = row_of(1), b = row_of(2), got;
    cache__index_put(ix, &a);
    cache__index_put(ix, &b);
    cache__index_flush(ix, NF_SEC);
    uint64_t before = ix->queued;
    for (int i = 0; i < 1000; i++) {
        cache__index_use(ix, &a.key, 2000000 + i % 7, 1);
        cache__index_use(ix, &b.key, 2000000, 2);
        cache__index_count(ix, "hits", 1);
    }
    ck_assert_uint_lt(ix->queued - before, 3000 / 2);
    /* What is dropped takes the uses before it along, and not those after it. */
    cache__index_drop(ix, &b.key, false, CACHE_IN_LOCAL);
    cache__index_put(ix, &b);
    cache__index_use(ix, &b.key, 3000000, 5);
    cache__index_flush(ix, NF_SEC);
    ck_assert_int_eq(cache__index_get(ix, &a.key, false, arena, &got), NF_OK);
    ck_assert_uint_eq(got.uses, 1000);
    ck_assert_int_eq(got.used_s, 2000006);
    ck_assert_int_eq(cache__index_get(ix, &b.key, false, arena, &got), NF_OK);
    ck_assert_uint_eq(got.uses, 5);
    ck_assert_int_eq(got.used_s, 3000000);
    ck_assert_uint_eq(cache__index_counter(ix, "hits"), 1000);
    cache__index_close(ix);
}
END_TEST

START_TEST(tiers_uses_failures_and_sums)
{
    struct cache__index *ix = index_open();
    struct cache__row r = row_of(1), got;
    struct cache__totals t;
    cache__index_put(ix, &r);
    r.local_bytes = 0;
    r.shared_bytes = 700; /* later, from the other tier: the first stays */
    cache__index_put(ix, &r);
    struct cache__row f = row_of(1);
    f.kind = CACHE_KIND_FAILURE;
    f.local_bytes = 50;
    cache__index_put(ix, &f);
    cache__index_use(ix, &r.key, 2000000, 3);
    cache__index_flush(ix, NF_SEC);
    ck_assert_int_eq(cache__index_get(ix, &r.key, false, arena, &got), NF_OK);
    ck_assert_uint_eq(got.local_bytes, 1100);
    ck_assert_uint_eq(got.shared_bytes, 700);
    ck_assert_int_eq(got.used_s, 2000000);
    ck_assert_uint_eq(got.uses, 3);
    ck_assert_int_eq(cache__index_get(ix, &r.key, true, arena, &got), NF_OK);
    cache__index_totals(ix, &t);
    ck_assert_uint_eq(t.entries, 1);
    ck_assert_uint_eq(t.failures, 1);
    ck_assert_uint_eq(t.local_bytes, 1150);
    ck_assert_uint_eq(t.shared_bytes, 700);
    cache__index_drop(ix, &r.key, false, CACHE_IN_LOCAL);
    cache__index_flush(ix, NF_SEC);
    ck_assert_int_eq(cache__index_get(ix, &r.key, false, arena, &got), NF_OK);
    ck_assert_uint_eq(got.local_bytes, 0);
    cache__index_drop(ix, &r.key, false, CACHE_IN_SHARED);
    cache__index_drop(ix, &r.key, true, CACHE_IN_LOCAL | CACHE_IN_SHARED);
    cache__index_flush(ix, NF_SEC);
    ck_assert_int_eq(cache__index_get(ix, &r.key, false, arena, &got), NF_ENOTFOUND);
    cache__index_totals(ix, &t);
    ck_assert_uint_eq(t.entries + t.failures + t.local_bytes + t.shared_bytes, 0);
    cache__index_count(ix, "compiles", 5);
    cache__index_count(ix, "compiles", 2);
    cache__index_flush(ix, NF_SEC);
    ck_assert_uint_eq(cache__index_counter(ix, "compiles"), 7);
    ck_assert_uint_eq(cache__index_counter(ix, "none"), 0);
    cache__index_close(ix);
}
END_TEST

START_TEST(it_is_there_after_a_restart)
{
    struct cache__index *ix = index_open();
    put(ix, 0, 50);
    ck_assert(!cache__index_complete(ix)); /* a new one is not whole until somebody says so */
    cache__index_set_complete(ix);
    cache__index_flush(ix, NF_SEC);
    ck_assert(cache__index_complete(ix));
    ck_assert_int_eq(rebuilds, 1);
    cache__index_close(ix);
    ix = index_open();
    cache__index_flush(ix, NF_SEC);
    put(ix, 50, 1);
    ck_assert(cache__index_complete(ix));
    ck_assert_int_eq(rebuilds, 0);
    ck_assert_uint_eq(rows_in(ix), 51);
    cache__index_close(ix);
}
END_TEST

enum harm { GARBAGE, EMPTY_FILE, OTHER_SCHEMA, OTHER_TABLES, TORN_PAGES, A_DIRECTORY_OF_LINKS, HARM_MAX };

static void harm(enum harm how)
{
    char path[256], command[600];
    nf_format(path, sizeof(path), "%s/index.sqlite", local_dir);
    struct nf_str garbage = bytes_of(100000, true);
    switch (how) {
    case GARBAGE: ASSERT_OK(nf_file_replace(path, garbage, 0600, &err)); break;
    case EMPTY_FILE: ASSERT_OK(nf_file_replace(path, NF_STR(""), 0600, &err)); break;
    case OTHER_SCHEMA:
    case OTHER_TABLES: {
        nf_format(command, sizeof(command), "import sqlite3; c = sqlite3.connect('%s'); c.execute(\"%s\"); c.commit()", path,
                  how == OTHER_SCHEMA ? "UPDATE meta SET value = 99 WHERE name = 'schema'" : "ALTER TABLE entries RENAME COLUMN cost TO price");
        pid_t pid = fork();
        if (pid == 0) {
            execlp("python3", "python3", "-c", command, (char *)NULL);
            _exit(127);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        break;
    }
    case TORN_PAGES: {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        struct stat st;
        ck_assert_int_eq(fstat(fd, &st), 0);
        for (off_t at = 4096; at < st.st_size; at += 4096) /* the head looks well */
            ck_assert_int_eq(pwrite(fd, garbage.data, 4096, at), 4096);
        close(fd);
        break;
    }
    case A_DIRECTORY_OF_LINKS:
        unlink(path);
        ck_assert_int_eq(symlink("/etc/passwd", path), 0);
        break;
    case HARM_MAX: break;
    }
}

START_TEST(whatever_was_done_to_the_file_it_is_made_anew)
{
    for (int how = 0; how < HARM_MAX; how++) {
        struct cache__index *ix = index_open();
        put(ix, 0, 2000);
        cache__index_set_complete(ix);
        cache__index_close(ix);
        harm((enum harm)how);
        ix = index_open();
        put(ix, 0, 10); /* and takes rows again, at the latest with the second batch */
        put(ix, 0, 10);
        ck_assert_msg(rebuilds >= 1, "harm %d was not noticed", how);
        struct cache__row r = row_of(3), got;
        int rc = cache__index_get(ix, &r.key, false, arena, &got);
        if (how == A_DIRECTORY_OF_LINKS) { /* never followed; nothing is known, nothing breaks */
            char text[8];
            int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
            ck_assert_int_eq(read(fd, text, 5), 5);
            ck_assert(memcmp(text, "SQLit", 5) != 0);
            close(fd);
        }
        ck_assert_msg(rc == NF_OK, "harm %d: %s", how, nf_status_name(rc));
        cache__index_close(ix);
        ck_assert_int_eq(nf_remove_tree(AT_FDCWD, local_dir), NF_OK);
    }
}
END_TEST

START_TEST(a_file_that_is_deleted_under_a_running_index_is_made_anew)
{
    struct cache__index *ix = index_open();
    char path[256];
    put(ix, 0, 100);
    cache__index_set_complete(ix);
    cache__index_flush(ix, NF_SEC);
    nf_format(path, sizeof(path), "%s/index.sqlite", local_dir);
    int before = rebuilds;
    ck_assert_int_eq(unlink(path), 0);
    put(ix, 100, 1);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(rebuilds, before + 1);
    ck_assert(!cache__index_complete(ix));
    struct cache__row r = row_of(100), got;
    ck_assert_int_eq(cache__index_get(ix, &r.key, false, arena, &got), NF_OK);
    cache__index_close(ix);
}
END_TEST

START_TEST(garbage_that_is_written_over_a_running_index_ends_nothing)
{
    for (int round = 0; round < 3; round++) {
        struct cache__index *ix = index_open();
        char path[256];
        struct cache__row r = row_of(3), got;
        struct nf_str garbage = bytes_of(round == 1 ? 100 : 400000, true);
        put(ix, 0, 2000);
        cache__index_set_complete(ix);
        cache__index_flush(ix, NF_SEC);
        nf_format(path, sizeof(path), "%s/index.sqlite", local_dir);
        int fd = open(path, O_WRONLY | O_CLOEXEC | (round < 2 ? O_TRUNC : 0)); /* in place: the same file */
        if (round)
            ck_assert_int_eq(nf_fd_write_all(fd, garbage.data, garbage.len), NF_OK);
        close(fd);
        for (int i = 0; i < 5; i++) {
            cache__index_get(ix, &r.key, false, arena, &got); /* whatever it says */
            put(ix, 0, 3000);
        }
        cache__index_close(ix);
        ix = index_open();
        put(ix, 0, 10);
        ck_assert_int_eq(cache__index_get(ix, &r.key, false, arena, &got), NF_OK);
        ck_assert_uint_ge(rows_in(ix), 10);
        cache__index_close(ix);
        ck_assert_int_eq(nf_remove_tree(AT_FDCWD, local_dir), NF_OK);
    }
}
END_TEST

START_TEST(several_processes_share_one_file)
{
    pid_t pids[4];
    for (unsigned p = 0; p < 4; p++) {
        pids[p] = fork();
        if (pids[p] == 0) {
            struct cache__index *ix = index_open();
            for (unsigned i = 0; i < 20; i++)
                put(ix, p * 1000 + i * 10, 10);
            cache__index_close(ix);
            _exit(0);
        }
    }
    for (int p = 0; p < 4; p++) {
        int status;
        ck_assert_int_eq(waitpid(pids[p], &status, 0), pids[p]);
        ck_assert_int_eq(status, 0);
    }
    struct cache__index *ix = index_open();
    put(ix, 9999, 1);
    ck_assert_uint_eq(rows_in(ix), 801);
    struct cache__totals t;
    cache__index_totals(ix, &t);
    ck_assert_uint_eq(t.entries, 801);
    ck_assert_uint_eq(t.local_bytes, 801 * 1100);
    cache__index_close(ix);
}
END_TEST

START_TEST(a_killed_writer_leaves_a_whole_file)
{
    for (int round = 0; round < 5; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct cache__index *ix = index_open();
            for (unsigned i = 0;; i += 100)
                put(ix, i, 100);
        }
        nf_sleep_ns((60 + round * 37) * NF_MS);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        struct cache__index *ix = index_open();
        put(ix, 1000000, 1);
        struct cache__totals t;
        cache__index_totals(ix, &t);
        ck_assert_uint_eq(t.entries, rows_in(ix));
        cache__index_close(ix);
    }
}
END_TEST

START_TEST(the_stores_index_is_rebuilt_from_the_files_of_both_tiers)
{
    struct cache_store *s = store_open();
    struct request a = request_of("a", "2"), b = request_of("b", "2");
    publish(s, &a, bytes_of(10000, true));
    publish(s, &b, bytes_of(20000, true));
    struct cache_store_status before, st;
    cache_store_status(s, &before);
    cache_store_close(s);
    char path[512];
    entry_path_of(local_dir, &a.key, CACHE_KIND_NEFF, path);
    unlink(path); /* one is only in the shared tier now */
    nf_format(path, sizeof(path), "%s/index.sqlite", local_dir);
    unlink(path);
    s = store_open();
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &b.key, "", 0, &found, &err)); /* at once, whatever the index knows */
    cache_found_done(&found);
    for (int i = 0; i < 500; i++) {
        cache_store_status(s, &st);
        if (st.index_complete)
            break;
        nf_sleep_ns(10 * NF_MS);
    }
    ck_assert(st.index_complete);
    ck_assert_uint_eq(st.entries, 2);
    ck_assert_uint_eq(st.bytes, before.bytes);
    ck_assert_uint_lt(st.local_bytes, before.local_bytes);
    cache_store_close(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-index");
    TCase *t = tcase_create("index");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, rows_come_back_as_they_went_in);
    tcase_add_test(t, many_uses_are_one_update);
    tcase_add_test(t, tiers_uses_failures_and_sums);
    tcase_add_test(t, it_is_there_after_a_restart);
    tcase_add_test(t, whatever_was_done_to_the_file_it_is_made_anew);
    tcase_add_test(t, a_file_that_is_deleted_under_a_running_index_is_made_anew);
    tcase_add_test(t, garbage_that_is_written_over_a_running_index_ends_nothing);
    tcase_add_test(t, several_processes_share_one_file);
    tcase_add_test(t, a_killed_writer_leaves_a_whole_file);
    tcase_add_test(t, the_stores_index_is_rebuilt_from_the_files_of_both_tiers);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
