#include "daemon/tree.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

#include <check.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child with a child with a child, the last in a session of its own; they do nothing. */
static pid_t chain(int depth)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (depth == 1)
            setsid();
        if (depth > 1)
            chain(depth - 1);
        for (;;)
            pause();
    }
    return pid;
}

static size_t wait_for(pid_t root, size_t count)
{
    pid_t pids[16];
    size_t n = 0;
    for (int i = 0; i < 500 && (n = tree_descendants(root, pids, 16)) != count; i++)
        nf_sleep_ns(10 * NF_MS);
    return n;
}

START_TEST(descendants_are_found_and_killed)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t pid = chain(3);
    pid_t pids[16];
    ck_assert_uint_eq(wait_for(pid, 2), 2);
    ck_assert_uint_eq(tree_children(getpid(), pids, 16), 1);
    ck_assert_int_eq(pids[0], pid);
    ck_assert_uint_ge(tree_rss_bytes(pid), 3 * tree_rss_of(pid) / 2);
    ck_assert_uint_eq(tree_kill(pid, true), 3);
    for (int i = 0; i < 500 && waitpid(-1, NULL, 0) > 0; i++)
        ;
    ck_assert_uint_eq(tree_children(getpid(), pids, 16), 0);
}
END_TEST

START_TEST(processes_that_do_not_exist)
{
    pid_t pids[4];
    ck_assert_uint_eq(tree_children(0x3ffffff, pids, 4), 0);
    ck_assert_uint_eq(tree_rss_of(0x3ffffff), 0);
    ck_assert_uint_eq(tree_kill(0x3ffffff, true), 0);
}
END_TEST

START_TEST(leftovers_of_a_dead_instance_are_found_by_their_marker)
{
    char dir[64], marker[TREE_MARKER_LEN], second[TREE_MARKER_LEN];
    int fd;
    nf_format(dir, sizeof dir, "/tmp/neffd-tree-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(tree_instance_open(dir, marker, &fd, NULL), NF_OK);
    char *setting = nf_asprintf(TREE_MARKER "=%s", marker);
    char name[] = "sleep", seconds[] = "60", *env[] = {setting, NULL}, *argv[] = {name, seconds, NULL};
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        execve("/bin/sleep", argv, env);
        _exit(1);
    }
    for (int i = 0; i < 500 && tree_rss_of(pid) == 0; i++)
        nf_sleep_ns(10 * NF_MS);
    /* While the instance lives, another one lets it be. */
    int other;
    nf_sleep_ns(50 * NF_MS);
    ck_assert_int_eq(tree_instance_open(dir, second, &other, NULL), NF_OK);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    tree_instance_close(dir, second, other);
    close(fd);   /* as by kill -9: the file stays, the lock goes */
    ck_assert_int_eq(tree_instance_open(dir, second, &other, NULL), NF_OK);
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    char *path = nf_asprintf("%s/run/%s", dir, marker);
    ck_assert_int_ne(access(path, F_OK), 0);
    free(path);
    free(setting);
    tree_instance_close(dir, second, other);
    char *run = nf_asprintf("%s/run", dir);
    rmdir(run);
    free(run);
    rmdir(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon-tree");
    TCase *t = tcase_create("tree");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, descendants_are_found_and_killed);
    tcase_add_test(t, processes_that_do_not_exist);
    tcase_add_test(t, leftovers_of_a_dead_instance_are_found_by_their_marker);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
