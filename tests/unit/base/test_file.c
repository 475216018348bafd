#include "base/file.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static int dir_fd;

/* In the place of libc's: says so, once it has closed. */
static int close_says;

int close(int fd)
{
    int rc = (int)syscall(SYS_close, fd);
    if (rc == 0 && close_says) {
        errno = close_says;
        return -1;
    }
    return rc;
}

static void setup(void)
{
    nf_format(dir, sizeof(dir), "/tmp/nf-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    dir_fd = nf_dir_open(dir, NULL);
    ck_assert_int_ge(dir_fd, 0);
}

static void teardown(void)
{
    close(dir_fd);
    ck_assert_int_eq(nf_remove_tree(AT_FDCWD, dir), NF_OK);
}

static size_t count_files(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' || strncmp(e->d_name, ".tmp-", 5) == 0;
    closedir(d);
    return n;
}

static const char *at(const char *name)
{
    static char path[128];
    nf_format(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static int publish(const char *name, struct nf_str bytes, struct nf_error *err)
{
    struct nf_pub p;
    int rc = nf_pub_begin(dir_fd, &p, err);
    if (rc)
        return rc;
    nf_pub_write(&p, bytes.data, bytes.len);
    return nf_pub_commit(&p, name, 0644, err);
}

START_TEST(a_published_file_is_whole_and_alone)
{
    struct nf_error err = {0};
    ck_assert_int_eq(publish("entry", NF_STR("payload"), &err), NF_OK);
    ck_assert_uint_eq(count_files(), 1);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(at("entry"), 100, &b, &err), NF_OK);
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "payload"));
    nf_buf_done(&b);
    struct stat st;
    ck_assert_int_eq(stat(at("entry"), &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0644);
    ck_assert_uint_eq(st.st_nlink, 1);
}
END_TEST

START_TEST(the_first_publisher_wins)
{
    struct nf_error err = {0};
    ck_assert_int_eq(publish("entry", NF_STR("first"), &err), NF_OK);
    ck_assert_int_eq(publish("entry", NF_STR("second"), &err), NF_EEXISTS);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(at("entry"), 100, &b, &err), NF_OK);
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "first"));
    nf_buf_done(&b);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(racing_publishers_leave_one_file)
{
    enum { COUNT = 8 };
    pid_t pids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            int rc = publish("entry", NF_STR("same"), NULL);
            _exit(rc == NF_OK ? 0 : rc == NF_EEXISTS ? 1 : 2);
        }
    }
    int won = 0, lost = 0;
    for (int i = 0; i < COUNT; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        won += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        lost += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    ck_assert_int_eq(won, 1);
    ck_assert_int_eq(lost, COUNT - 1);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(an_aborted_publish_leaves_nothing)
{
    struct nf_pub p;
    ck_assert_int_eq(nf_pub_begin(dir_fd, &p, NULL), NF_OK);
    nf_pub_write(&p, "x", 1);
    ck_assert_uint_eq(count_files(), 1);
    nf_pub_abort(&p);
    nf_pub_abort(&p);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(a_write_error_comes_out_at_commit)
{
    struct nf_pub p;
    struct nf_error err = {0};
    ck_assert_int_eq(nf_pub_begin(dir_fd, &p, NULL), NF_OK);
    int good = p.fd;
    p.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    nf_pub_write(&p, "x", 1);
    nf_pub_write(&p, "y", 1);
    ck_assert_int_eq(nf_pub_commit(&p, "entry", 0600, &err), NF_ENOSPACE);
    ck_assert_ptr_nonnull(strstr(err.message, "entry"));
    close(good);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(reading_stops_at_the_limit)
{
    struct nf_error err = {0};
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_replace(at("f"), NF_STR("12345"), 0600, &err), NF_OK);
    ck_assert_int_eq(nf_file_read(at("f"), 5, &b, &err), NF_OK);
    ck_assert_uint_eq(b.len, 5);
    nf_buf_done(&b);
    ck_assert_int_eq(nf_file_read(at("f"), 4, &b, &err), NF_ELIMIT);
    ck_assert_ptr_null(b.data);
    ck_assert_int_eq(nf_file_read(at("missing"), 4, &b, &err), NF_ENOTFOUND);
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(nf_fd_write_all(fds[1], "pipe", 4), NF_OK);
    close(fds[1]);
    ck_assert_int_eq(nf_fd_read_all(fds[0], 100, &b), NF_OK);
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "pipe"));
    nf_buf_done(&b);
    close(fds[0]);
}
END_TEST

START_TEST(replace_is_atomic_and_keeps_no_temporary)
{
    ck_assert_int_eq(nf_file_replace(at("f"), NF_STR("one"), 0600, NULL), NF_OK);
    ck_assert_int_eq(nf_file_replace(at("f"), NF_STR("two"), 0640, NULL), NF_OK);
    ck_assert_uint_eq(count_files(), 1);
    struct nf_map_view v;
    ck_assert_int_eq(nf_map_view_open(at("f"), &v, NULL), NF_OK);
    ck_assert(nf_str_eq_c(nf_str_n(v.data, v.len), "two"));
    nf_map_view_close(&v);
    nf_map_view_close(&v);
    char byte;
    int fd = open(at("f"), O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(nf_fd_pread_all(fd, &byte, 1, 2), NF_OK);
    ck_assert_int_eq(byte, 'o');
    ck_assert_int_eq(nf_fd_pread_all(fd, &byte, 1, 3), NF_ECORRUPT);
    close(fd);
}
END_TEST

START_TEST(an_empty_file_maps)
{
    struct nf_map_view v;
    ck_assert_int_eq(nf_file_replace(at("f"), NF_STR(""), 0600, NULL), NF_OK);
    ck_assert_int_eq(nf_map_view_open(at("f"), &v, NULL), NF_OK);
    ck_assert_uint_eq(v.len, 0);
    ck_assert_ptr_nonnull(v.data);
    nf_map_view_close(&v);
    ck_assert_int_eq(nf_map_view_open(dir, &v, NULL), NF_EINVAL);
}
END_TEST

START_TEST(directories_are_made_with_their_parents)
{
    struct nf_error err = {0};
    ck_assert_int_eq(nf_mkdir_p(at("a/b/c"), 0755, &err), NF_OK);
    ck_assert_int_eq(nf_mkdir_p(at("a/b/c/"), 0755, &err), NF_OK);
    ck_assert_int_eq(nf_file_replace(at("a/file"), NF_STR(""), 0600, NULL), NF_OK);
    ck_assert_int_eq(nf_mkdir_p(at("a/file"), 0755, &err), NF_EEXISTS);
    ck_assert_int_ne(nf_mkdir_p(at("a/file/x"), 0755, &err), NF_OK);
    ck_assert_int_eq(nf_mkdir_p("", 0755, &err), NF_EINVAL);
}
END_TEST

START_TEST(an_output_without_its_folder_is_trouble_of_the_place)
{
    struct nf_error err = {0};
    ck_assert_int_eq(nf_output_status(nf_file_replace(at("none/f"), NF_STR(""), 0600, &err), &err), NF_EIO);
    ck_assert_int_eq(err.code, NF_EIO);
    ck_assert_int_eq(nf_output_status(NF_ENOTFOUND, NULL), NF_EIO);
    ck_assert_int_eq(nf_output_status(NF_OK, NULL), NF_OK);
    ck_assert_int_eq(nf_output_status(nf_fail(&err, NF_ENOSPACE, "full"), &err), NF_ENOSPACE);
    ck_assert_int_eq(err.code, NF_ENOSPACE);
}
END_TEST

START_TEST(an_output_goes_into_a_pipe_and_behind_a_link)
{
    struct nf_error err = {0};
    struct stat st;
    char got[16];
    ck_assert_int_eq(mkfifo(at("pipe"), 0600), 0);
    int fd = open(at("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_eq(nf_output_write(at("pipe"), NF_STR("through"), 0644, &err), NF_OK);
    ck_assert_int_eq(read(fd, got, sizeof(got)), 7);
    close(fd);
    ck_assert_int_eq(lstat(at("pipe"), &st), 0);
    ck_assert(S_ISFIFO(st.st_mode));

    ck_assert_int_eq(symlink("target", at("link")), 0);
    ck_assert_int_eq(nf_file_replace(at("target"), NF_STR("old"), 0600, NULL), NF_OK);
    ck_assert_int_eq(nf_output_write(at("link"), NF_STR("newer"), 0644, &err), NF_OK);
    ck_assert_int_eq(lstat(at("link"), &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(lstat(at("target"), &st), 0);
    ck_assert_int_eq(st.st_size, 5);

    ck_assert_int_eq(nf_output_write(at("none/f"), NF_STR(""), 0644, &err), NF_EIO);
    ck_assert_int_ne(nf_output_write(dir, NF_STR(""), 0644, &err), NF_OK);
    ck_assert_int_eq(stat(dir, &st), 0);
    ck_assert(S_ISDIR(st.st_mode));
}
END_TEST

START_TEST(an_output_that_fails_as_it_is_closed_has_failed)
{
    struct nf_error err = {0};
    close_says = ENOSPC;
    int rc = nf_output_write("/dev/null", NF_STR("lost"), 0644, &err);
    close_says = EINTR;
    int interrupted = nf_output_write("/dev/null", NF_STR("kept"), 0644, NULL);
    close_says = 0;
    ck_assert_int_eq(rc, NF_ENOSPACE);
    ck_assert_msg(strstr(err.message, "cannot write /dev/null"), "%s", err.message);
    ck_assert_int_eq(interrupted, NF_OK);
}
END_TEST

START_TEST(removing_a_tree_does_not_follow_links)
{
    ck_assert_int_eq(nf_mkdir_p(at("outside"), 0755, NULL), NF_OK);
    ck_assert_int_eq(nf_file_replace(at("outside/kept"), NF_STR("x"), 0600, NULL), NF_OK);
    ck_assert_int_eq(nf_mkdir_p(at("tree/deep/er"), 0755, NULL), NF_OK);
    ck_assert_int_eq(symlinkat("../outside", dir_fd, "tree/link"), 0);
    ck_assert_int_eq(nf_remove_tree(dir_fd, "tree"), NF_OK);
    ck_assert_int_eq(access(at("outside/kept"), F_OK), 0);
    ck_assert_int_ne(access(at("tree"), F_OK), 0);
    ck_assert_int_eq(nf_remove_tree(dir_fd, "missing"), NF_OK);
    ck_assert_int_eq(nf_remove_tree(dir_fd, ".."), NF_EINVAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-file");
    TCase *t = tcase_create("file");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_published_file_is_whole_and_alone);
    tcase_add_test(t, the_first_publisher_wins);
    tcase_add_test(t, racing_publishers_leave_one_file);
    tcase_add_test(t, an_aborted_publish_leaves_nothing);
    tcase_add_test(t, a_write_error_comes_out_at_commit);
    tcase_add_test(t, reading_stops_at_the_limit);
    tcase_add_test(t, replace_is_atomic_and_keeps_no_temporary);
    tcase_add_test(t, an_empty_file_maps);
    tcase_add_test(t, directories_are_made_with_their_parents);
    tcase_add_test(t, an_output_without_its_folder_is_trouble_of_the_place);
    tcase_add_test(t, an_output_goes_into_a_pipe_and_behind_a_link);
    tcase_add_test(t, an_output_that_fails_as_it_is_closed_has_failed);
    tcase_add_test(t, removing_a_tree_does_not_follow_links);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
