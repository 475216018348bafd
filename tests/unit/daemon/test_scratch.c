#include "daemon/scratch.h"

#include "base/file.h"
#include "base/str.h"

#include <check.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define MARKER "0123456789abcdef0123456789abcdef"

static char dir[64];
static uv_loop_t loop;
static struct scratch *s;

static void setup(void)
{
    nf_format(dir, sizeof dir, "/tmp/neffd-scratch-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    uv_loop_init(&loop);
    ck_assert_int_eq(scratch_open(&loop, dir, "", MARKER, &s, NULL), NF_OK);
}

static void teardown(void)
{
    scratch_close(s);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    char *work = nf_asprintf("%s/work/" MARKER, dir);
    ck_assert_int_ne(access(work, F_OK), 0);   /* nothing is left */
    free(work);
    char *path = nf_asprintf("%s/work", dir);
    rmdir(path);
    free(path);
    rmdir(dir);
}

START_TEST(directories_and_files_are_private)
{
    char *path, *file;
    int fd;
    struct stat st;
    ck_assert_int_eq(scratch_dir(s, 1, &path, NULL), NF_OK);
    ck_assert(strncmp(path, dir, strlen(dir)) == 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    ck_assert_int_eq(scratch_file(s, &file, &fd, NULL), NF_OK);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    close(fd);
    free(file);
    scratch_remove(s, path);
    uv_run(&loop, UV_RUN_NOWAIT);
}
END_TEST

START_TEST(another_place_is_used_when_one_is_avoided)
{
    char *a, *b;
    ck_assert_int_eq(scratch_dir(s, 1, &a, NULL), NF_OK);
    ck_assert(scratch_avoid(s, a));
    ck_assert_int_eq(scratch_dir(s, 2, &b, NULL), NF_OK);
    ck_assert(strncmp(b, dir, strlen(dir)) != 0);
    free(a);
    free(b);
}
END_TEST

START_TEST(kept_bytes_are_found_by_their_digest)
{
    const struct loose_file *f, *again;
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(scratch_keep_bytes(s, NF_STR("some text"), "log", &f, NULL), NF_OK);
    struct nf_digest sha = nf_digest_of("some text", 9);
    ck_assert(nf_digest_eq(&f->sha256, &sha));
    ck_assert_ptr_eq(scratch_find(s, &sha), f);
    ck_assert_int_eq(nf_file_read(f->path, 100, &b, NULL), NF_OK);
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "some text"));
    nf_buf_done(&b);
    ck_assert_int_eq(scratch_keep_bytes(s, NF_STR("some text"), "log", &again, NULL), NF_OK);
    ck_assert_ptr_eq(f, again);
    sha = nf_digest_of("other", 5);
    ck_assert_ptr_null(scratch_find(s, &sha));
}
END_TEST

START_TEST(files_from_elsewhere_are_not_taken)
{
    const struct loose_file *f;
    struct nf_error err = {0};
    struct nf_digest sha;
    uint64_t size;
    char *path = nf_asprintf("%s/mine", dir);
    ck_assert_int_eq(nf_file_replace(path, NF_STR("x"), 0600, NULL), NF_OK);
    ck_assert_int_eq(scratch_hash_file(path, &sha, &size, NULL), NF_OK);
    ck_assert_int_lt(scratch_keep_file(s, path, "neff", &sha, size, &f, &err), 0);
    ck_assert_int_eq(access(path, F_OK), 0);
    unlink(path);
    free(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("daemon-scratch");
    TCase *t = tcase_create("scratch");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, directories_and_files_are_private);
    tcase_add_test(t, another_place_is_used_when_one_is_avoided);
    tcase_add_test(t, kept_bytes_are_found_by_their_digest);
    tcase_add_test(t, files_from_elsewhere_are_not_taken);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
