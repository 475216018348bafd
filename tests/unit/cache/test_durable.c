/* Power and kill -9. The linker's --wrap puts a recorder between the cache and the C library: it sees every call that changes a
 * directory or a file, in order, and can end the process in the middle of the n-th. */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

int __real_fsync(int fd);
int __wrap_fsync(int fd);
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
int __real_linkat(int a, const char *b, int c, const char *d, int e);
int __wrap_linkat(int a, const char *b, int c, const char *d, int e);
int __real_renameat(int a, const char *b, int c, const char *d);
int __wrap_renameat(int a, const char *b, int c, const char *d);
int __real_unlinkat(int a, const char *b, int c);
int __wrap_unlinkat(int a, const char *b, int c);
int __real_mkdirat(int a, const char *b, mode_t c);
int __wrap_mkdirat(int a, const char *b, mode_t c);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __real_futimens(int fd, const struct timespec t[2]);
int __wrap_futimens(int fd, const struct timespec t[2]);
int __real_symlink(const char *a, const char *b);
int __wrap_symlink(const char *a, const char *b);

/* ------------------------------------------------------------------------------------------------------------ recorder */

struct seen {
    ino_t ino;
    dev_t dev;
    bool dir;
    unsigned written, synced, named; /* when, last: bytes or times of a file; names in a directory */
};
static struct seen files[4096];
static size_t file_count;
static atomic_uint moment, die_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char complaint[400];
static atomic_bool recording;

/* A call begins: the moment, or the end of this process. */
static unsigned begin(void)
{
    unsigned now = atomic_fetch_add(&moment, 1) + 1, end = atomic_load(&die_at);
    if (end && now == end)
        raise(SIGKILL);
    return now;
}

static struct seen *file_of(const struct stat *st)
{
    for (size_t i = 0; i < file_count; i++)
        if (files[i].ino == st->st_ino && files[i].dev == st->st_dev)
            return &files[i];
    if (file_count == NF_ARRAY_LEN(files))
        abort();
    files[file_count] = (struct seen){.ino = st->st_ino, .dev = st->st_dev, .dir = S_ISDIR(st->st_mode)};
    return &files[file_count++];
}

static void note_fd(int fd, bool sync, unsigned now)
{
    struct stat st;
    if (!atomic_load(&recording) || fstat(fd, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return;
    pthread_mutex_lock(&lock);
    struct seen *f = file_of(&st);
    *(sync ? &f->synced : &f->written) = now;
    pthread_mutex_unlock(&lock);
}

static void note_name(int dir_fd, unsigned now)
{
    struct stat st;
    if (!atomic_load(&recording) || dir_fd < 0 || fstat(dir_fd, &st) != 0)
        return;
    pthread_mutex_lock(&lock);
    file_of(&st)->named = now;
    pthread_mutex_unlock(&lock);
}

int __wrap_fsync(int fd)
{
    unsigned now = begin();
    int rc = __real_fsync(fd);
    note_fd(fd, true, now);
    return rc;
}
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    if (fd <= STDERR_FILENO)
        return __real_write(fd, data, len);
    unsigned now = begin();
    note_fd(fd, false, now);
    return __real_write(fd, data, len > 4096 ? len / 2 : len); /* short, so that a kill can cut a file anywhere */
}
int __wrap_fchmod(int fd, mode_t mode)
{
    note_fd(fd, false, begin());
    return __real_fchmod(fd, mode);
}
int __wrap_futimens(int fd, const struct timespec t[2])
{
    note_fd(fd, false, begin());
    return __real_futimens(fd, t);
}
int __wrap_linkat(int a, const char *b, int c, const char *d, int e)
{
    unsigned now = begin();
    struct stat st;
    if (atomic_load(&recording) && fstatat(a, b, &st, 0) == 0) {
        pthread_mutex_lock(&lock);
        struct seen *f = file_of(&st);
        if (f->synced <= f->written && !complaint[0])
            nf_format(complaint, sizeof(complaint), "%s got its name before its bytes were durable", d);
        pthread_mutex_unlock(&lock);
    }
    int rc = __real_linkat(a, b, c, d, e);
    note_name(c, now);
    return rc;
}
int __wrap_renameat(int a, const char *b, int c, const char *d)
{
    begin();
    return __real_renameat(a, b, c, d);
}
int __wrap_unlinkat(int a, const char *b, int c)
{
    begin();
    return __real_unlinkat(a, b, c);
}
int __wrap_mkdirat(int a, const char *b, mode_t c)
{
    unsigned now = begin();
    int rc = __real_mkdirat(a, b, c);
    note_name(a, now);
    return rc;
}
int __wrap_symlink(const char *a, const char *b)
{
    begin();
    return __real_symlink(a, b);
}

/* --------------------------------------------------------------------------------------------------------------- tests */

START_TEST(a_publish_is_durable_before_it_is_named_and_before_it_is_acknowledged)
{
    struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .no_index = true});
    struct request r = request_of("a", "2");
    nf_sleep_ns(50 * NF_MS); /* what opening does is not what is looked at */
    atomic_store(&recording, true);
    publish(s, &r, bytes_of(300000, true));
    atomic_store(&recording, false);
    ck_assert_msg(!complaint[0], "%s", complaint);
    size_t synced_files = 0, named_dirs = 0;
    for (size_t i = 0; i < file_count; i++) {
        if (files[i].dir && files[i].named) {
            named_dirs++;
            ck_assert_msg(files[i].synced > files[i].named, "a directory was not made durable after its last new name");
        }
        synced_files += !files[i].dir && files[i].synced && files[i].written;
    }
    ck_assert_uint_eq(synced_files, 2); /* one in each tier */
    ck_assert_uint_ge(named_dirs, 2);
    cache_store_close(s);
}
END_TEST

static int count_bad(void *user, const struct cache_progress *p)
{
    *(uint64_t *)user = p->bad;
    return 0;
}

/* A child that publishes, acknowledges, puts an alias and publishes again with ignore_cache, and dies at call n. True: it came through. */
static bool child_dies_at(unsigned n, const struct request *r, const struct nf_str *artifacts, int *ret_acknowledged)
{
    int ack[2];
    ck_assert_int_eq(pipe(ack), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ack[0]);
        struct cache_store *s;
        struct nf_digest front = nf_digest_of("f", 1);
        struct cache_store_options o = {.local_dir = local_dir, .shared_dir = shared_dir, .no_index = true};
        atomic_store(&moment, 0);
        atomic_store(&die_at, n);
        if (cache_store_open(&o, &s, NULL) != NF_OK)
            _exit(2);
        for (int i = 0; i < 2; i++) {
            struct cache_publication p = publication_of(r, artifacts[i]);
            struct cache_published out = {0};
            p.replace = i == 1;
            if (cache_store_publish(s, &p, &out, NULL) != NF_OK)
                _exit(3);
            cache_hit_close(out.hit);
            if (__real_write(ack[1], "a", 1) != 1 || cache_store_alias_put(s, &front, &r->key, "", NULL) != NF_OK)
                _exit(4);
        }
        cache_store_close(s);
        _exit(0);
    }
    close(ack[1]);
    char c;
    *ret_acknowledged = 0;
    while (read(ack[0], &c, 1) == 1)
        ++*ret_acknowledged;
    close(ack[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg((WIFEXITED(status) && WEXITSTATUS(status) == 0) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL), "status %x at %u", status, n);
    return WIFEXITED(status);
}

START_TEST(a_publisher_that_is_killed_anywhere_tears_nothing)
{
    struct nf_str artifacts[2] = {bytes_of(30000, true), bytes_of(20000, true)};
    struct request r = request_of("a", "2");
    unsigned n = 1;
    for (bool through = false; !through; n++) {
        ck_assert_uint_lt(n, 500);
        int acknowledged;
        through = child_dies_at(n, &r, artifacts, &acknowledged);
        struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .no_index = true});
        struct cache_found found;
        struct cache_hit *hit;
        struct nf_digest front = nf_digest_of("f", 1);
        int rc = cache_store_lookup(s, &r.key, "", 0, &found, &err);
        if (rc == NF_OK) {
            ck_assert(payload_is(found.hit, artifacts[0]) || payload_is(found.hit, artifacts[1]));
            cache_found_done(&found);
        } else {
            ck_assert_int_eq(rc, NF_ENOTFOUND);
            ck_assert_msg(acknowledged == 0, "acknowledged, and gone after a kill at call %u", n);
        }
        rc = cache_reader_lookup_front(cache_store_reader(s), &front, &hit, &err);
        ck_assert(rc == NF_OK || rc == NF_ENOTFOUND);
        if (rc == NF_OK)
            cache_hit_close(hit);
        uint64_t bad = 77;
        ASSERT_OK(cache_store_verify(s, false, count_bad, &bad, &err));
        ck_assert_msg(bad == 0, "a torn entry after a kill at call %u", n);
        struct cache_store_counters c;
        cache_store_counters(s, &c);
        ck_assert_uint_eq(c.quarantined, 0);
        publish(s, &r, artifacts[0]); /* the next request works */
        cache_store_close(s);
        ck_assert_int_eq(nf_remove_tree(AT_FDCWD, local_dir), NF_OK);
        ck_assert_int_eq(nf_remove_tree(AT_FDCWD, shared_dir), NF_OK);
    }
    ck_assert_uint_gt(n, 40); /* so many moments were tried */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-durable");
    TCase *t = tcase_create("durable");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 200);
    tcase_add_test(t, a_publish_is_durable_before_it_is_named_and_before_it_is_acknowledged);
    tcase_add_test(t, a_publisher_that_is_killed_anywhere_tears_nothing);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
