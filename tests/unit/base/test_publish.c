/* The order of system calls in a publish, seen by a recorder, and what happens when one of them fails or lies. The recorder stands
 * between base/file.c and the C library (the linker's --wrap), so it sees each call with its descriptor and can spoil it. */
#include "base/file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum call { WRITE, FCHMOD, FSYNC_FILE, FSYNC_DIR, LINK, RENAME_NEW, RENAME, UNLINK, CALL_MAX };

static enum call calls[256];
static size_t call_count;
static int spoil[CALL_MAX]; /* errno to fail with instead of doing it */
static bool lost_reply;     /* link does its work and then says EEXIST */

int __real_fsync(int fd);
int __wrap_fsync(int fd);
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __real_linkat(int a, const char *b, int c, const char *d, int e);
int __wrap_linkat(int a, const char *b, int c, const char *d, int e);
int __real_renameat2(int a, const char *b, int c, const char *d, unsigned e);
int __wrap_renameat2(int a, const char *b, int c, const char *d, unsigned e);
int __real_renameat(int a, const char *b, int c, const char *d);
int __wrap_renameat(int a, const char *b, int c, const char *d);
int __real_unlinkat(int a, const char *b, int c);
int __wrap_unlinkat(int a, const char *b, int c);

static bool record(enum call c)
{
    if (call_count < NF_ARRAY_LEN(calls))
        calls[call_count++] = c;
    errno = spoil[c];
    return spoil[c] != 0;
}

int __wrap_fsync(int fd)
{
    struct stat st;
    bool dir = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    return record(dir ? FSYNC_DIR : FSYNC_FILE) ? -1 : __real_fsync(fd);
}
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    if (fd <= STDERR_FILENO)
        return __real_write(fd, data, len);
    return record(WRITE) ? -1 : __real_write(fd, data, NF_MIN(len, (size_t)3)); /* and short, always */
}
int __wrap_fchmod(int fd, mode_t mode) { return record(FCHMOD) ? -1 : __real_fchmod(fd, mode); }
int __wrap_linkat(int a, const char *b, int c, const char *d, int e)
{
    if (record(LINK))
        return -1;
    int rc = __real_linkat(a, b, c, d, e);
    if (rc == 0 && lost_reply) {
        errno = EEXIST;
        return -1;
    }
    return rc;
}
int __wrap_renameat2(int a, const char *b, int c, const char *d, unsigned e) { return record(RENAME_NEW) ? -1 : __real_renameat2(a, b, c, d, e); }
int __wrap_renameat(int a, const char *b, int c, const char *d) { return record(RENAME) ? -1 : __real_renameat(a, b, c, d); }
int __wrap_unlinkat(int a, const char *b, int c) { return record(UNLINK) ? -1 : __real_unlinkat(a, b, c); }

static char dir[64];
static int dir_fd;

static void setup(void)
{
    nf_format(dir, sizeof(dir), "/tmp/nf-publish-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    dir_fd = nf_dir_open(dir, NULL);
    call_count = 0;
}

static void teardown(void)
{
    memset(spoil, 0, sizeof(spoil));
    close(dir_fd);
    ck_assert_int_eq(nf_remove_tree(AT_FDCWD, dir), NF_OK);
}

static int publish(void)
{
    struct nf_pub p;
    ck_assert_int_eq(nf_pub_begin(dir_fd, &p, NULL), NF_OK);
    nf_pub_write(&p, "0123456789", 10);
    return nf_pub_commit(&p, "entry", 0644, NULL);
}

static bool exists(const char *name) { return faccessat(dir_fd, name, F_OK, 0) == 0; }

/* The last of `c`, or SIZE_MAX. */
static size_t last(enum call c)
{
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < call_count; i++)
        if (calls[i] == c)
            at = i;
    return at;
}

static void assert_durable_order(enum call naming)
{
    ck_assert_uint_ne(last(WRITE), SIZE_MAX);
    ck_assert_msg(last(FSYNC_FILE) != SIZE_MAX, "the file was never synced");
    ck_assert_msg(last(FSYNC_DIR) != SIZE_MAX, "the directory was never synced");
    ck_assert_uint_lt(last(WRITE), last(FSYNC_FILE));
    ck_assert_uint_lt(last(FCHMOD), last(FSYNC_FILE));
    ck_assert_uint_lt(last(FSYNC_FILE), last(naming));
    ck_assert_uint_lt(last(naming), last(FSYNC_DIR));
}

START_TEST(bytes_are_durable_before_the_name_and_the_name_before_success)
{
    ck_assert_int_eq(publish(), NF_OK);
    assert_durable_order(LINK);
    ck_assert_uint_gt(last(UNLINK), last(FSYNC_DIR));
    struct nf_buf b = NF_BUF_INIT;
    int fd = openat(dir_fd, "entry", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(nf_fd_read_all(fd, 100, &b), NF_OK);
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "0123456789")); /* short writes were finished */
    nf_buf_done(&b);
    close(fd);
}
END_TEST

START_TEST(where_links_are_refused_a_rename_without_replacing_serves)
{
    spoil[LINK] = EPERM;
    ck_assert_int_eq(publish(), NF_OK);
    assert_durable_order(RENAME_NEW);
    ck_assert(exists("entry"));
    call_count = 0;
    ck_assert_int_eq(publish(), NF_EEXISTS);
}
END_TEST

START_TEST(a_lost_reply_of_our_own_link_is_success)
{
    lost_reply = true;
    ck_assert_int_eq(publish(), NF_OK);
    ck_assert_uint_ne(last(FSYNC_DIR), SIZE_MAX);
    ck_assert_int_eq(publish(), NF_EEXISTS); /* and somebody else's file is still somebody else's */
    lost_reply = false;
}
END_TEST

START_TEST(a_failure_before_the_name_leaves_no_name)
{
    static const enum call where[] = {WRITE, FCHMOD, FSYNC_FILE};
    for (size_t i = 0; i < NF_ARRAY_LEN(where); i++) {
        spoil[where[i]] = ENOSPC;
        ck_assert_int_eq(publish(), NF_ENOSPACE);
        spoil[where[i]] = 0;
        ck_assert(!exists("entry"));
    }
    spoil[LINK] = EPERM;
    spoil[RENAME_NEW] = EINVAL;
    ck_assert_int_eq(publish(), NF_EPERM);
    ck_assert(!exists("entry"));
}
END_TEST

START_TEST(a_name_that_may_be_lost_is_no_success)
{
    spoil[FSYNC_DIR] = EIO;
    ck_assert_int_eq(publish(), NF_EIO);
}
END_TEST

START_TEST(replacing_keeps_the_same_order)
{
    char path[100];
    nf_format(path, sizeof(path), "%s/file", dir);
    ck_assert_int_eq(nf_file_replace(path, NF_STR("0123456789"), 0600, NULL), NF_OK);
    assert_durable_order(RENAME);
    spoil[FSYNC_FILE] = EIO;
    ck_assert_int_eq(nf_file_replace(path, NF_STR("other"), 0600, NULL), NF_EIO);
    spoil[FSYNC_FILE] = 0;
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(path, 100, &b, NULL), NF_OK);
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "0123456789"));
    nf_buf_done(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-publish");
    TCase *t = tcase_create("publish");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, bytes_are_durable_before_the_name_and_the_name_before_success);
    tcase_add_test(t, where_links_are_refused_a_rename_without_replacing_serves);
    tcase_add_test(t, a_lost_reply_of_our_own_link_is_success);
    tcase_add_test(t, a_failure_before_the_name_leaves_no_name);
    tcase_add_test(t, a_name_that_may_be_lost_is_no_success);
    tcase_add_test(t, replacing_keeps_the_same_order);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
