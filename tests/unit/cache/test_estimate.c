#include "cache/estimate.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#include <check.h>
#include <fcntl.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    nf_format(dir, sizeof dir, "/tmp/neffd-estimate-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void) { nf_remove_tree(AT_FDCWD, dir); }

START_TEST(quantiles_of_what_was_seen)
{
    struct estimates *e = estimates_open(dir);
    ck_assert(!estimates_of(e, "cpu", 100).known);
    for (int i = 1; i <= 10; i++)
        estimates_add(e, "cpu", 100, i * NF_SEC, (uint64_t)i << 20);
    struct estimate x = estimates_of(e, "cpu", 100);
    ck_assert(x.known);
    ck_assert_int_eq(x.p50_ns, 5 * NF_SEC);
    ck_assert_int_eq(x.p90_ns, 9 * NF_SEC);
    ck_assert_uint_eq(x.rss_bytes, (uint64_t)9 << 20);
    ck_assert(!estimates_of(e, "trn2", 100).known);
    estimates_close(e);
}
END_TEST

START_TEST(a_near_size_tells_more_than_nothing)
{
    struct estimates *e = estimates_open(dir);
    estimates_add(e, "cpu", 1024, NF_SEC, 1);
    ck_assert(estimates_of(e, "cpu", 2048).known);
    ck_assert(estimates_of(e, "cpu", 512).known);
    ck_assert(!estimates_of(e, "cpu", 1 << 20).known);
    estimates_close(e);
}
END_TEST

START_TEST(the_last_32_count_and_survive_a_restart)
{
    struct estimates *e = estimates_open(dir);
    for (int i = 0; i < 100; i++)
        estimates_add(e, "trn2", 7, (i < 68 ? 1 : 3) * NF_SEC, 5);
    ck_assert_int_eq(estimates_of(e, "trn2", 7).p50_ns, 3 * NF_SEC);
    estimates_close(e);
    e = estimates_open(dir);
    ck_assert_int_eq(estimates_of(e, "trn2", 7).p50_ns, 3 * NF_SEC);
    estimates_close(e);
}
END_TEST

START_TEST(a_damaged_file_is_an_empty_one)
{
    char *path = nf_asprintf("%s/estimates", dir);
    static const char *const bad[] = {"", "neffd-estimates 2\ncpu 1 1 1\n", "neffd-estimates 1\ncpu 99 1 1\ncpu x\n\n\xff\xff 1 1\ncpu 1 99999999999999999999 1\n"};
    for (size_t i = 0; i < NF_ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(nf_file_replace(path, nf_str_c(bad[i]), 0644, NULL), NF_OK);
        struct estimates *e = estimates_open(dir);
        ck_assert(!estimates_of(e, "cpu", 2).known);
        estimates_close(e);
    }
    free(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon-estimate");
    TCase *t = tcase_create("estimate");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, quantiles_of_what_was_seen);
    tcase_add_test(t, a_near_size_tells_more_than_nothing);
    tcase_add_test(t, the_last_32_count_and_survive_a_restart);
    tcase_add_test(t, a_damaged_file_is_an_empty_one);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
