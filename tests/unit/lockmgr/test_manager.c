/* What specs cannot show: many threads at once, withdrawals that race with grants, engines that answer late. */
#include "lockmgr/lease.h"
#include "lockmgr/lock.h"

#include "base/file.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static struct nf_error err;
static char local[64];
static struct lock_dir *dir;

static void setup(void)
{
    nf_format(local, sizeof(local), "/tmp/lockmgr-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(local));
    ck_assert_msg(lock_dir_open(local, &dir, &err) == 0, "%s", err.message);
}
static void teardown(void)
{
    lock_dir_close(dir);
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    nf_remove_tree(fd, local + strlen("/tmp/"));
    close(fd);
}

#define THREADS 8
#define ROUNDS 60
#define KEYS 3
static _Atomic int inside[KEYS], entered, broken;
static struct lock_manager *managers[2];

static void *fight(void *arg)
{
    size_t n = (size_t)(uintptr_t)arg;
    unsigned seed = (unsigned)n;
    for (int i = 0; i < ROUNDS; i++) {
        int k = rand_r(&seed) % KEYS;
        char key[8];
        nf_format(key, sizeof(key), "k%d", k);
        struct lock_grant *g = NULL;
        struct nf_error e = {0};
        if (lock_manager_acquire(managers[n % 2], nf_str_c(key), "fight", 60 * NF_SEC, NULL, NULL, &g, &e) != 0) {
            atomic_fetch_add(&broken, 1);
            continue;
        }
        if (atomic_fetch_add(&inside[k], 1) != 0)
            atomic_fetch_add(&broken, 1);
        atomic_fetch_add(&entered, 1);
        if (i % 7 == 0)
            nf_sleep_ns(NF_MS / 4);
        atomic_fetch_sub(&inside[k], 1);
        lock_grant_release(g);
    }
    return NULL;
}

START_TEST(two_managers_and_eight_threads_never_meet)
{
    /* Two managers have two descriptors each: to flock they are as two processes. */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(lock_manager_new(dir, NULL, &managers[i], &err), 0);
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, fight, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    ck_assert_int_eq(atomic_load(&broken), 0);
    ck_assert_int_eq(atomic_load(&entered), THREADS * ROUNDS);
    for (int i = 0; i < 2; i++)
        lock_manager_free(managers[i]);
}
END_TEST

struct answer {
    pthread_mutex_t mutex; /* guards the rest */
    int times, status;
    struct lock_grant *grant;
};

static void note_answer(void *user, int status, struct lock_grant *grant, const struct nf_error *e)
{
    (void)e;
    struct answer *a = user;
    pthread_mutex_lock(&a->mutex);
    a->times++;
    a->status = status;
    a->grant = grant;
    pthread_mutex_unlock(&a->mutex);
}

static int answered(struct answer *a)
{
    pthread_mutex_lock(&a->mutex);
    int n = a->times;
    pthread_mutex_unlock(&a->mutex);
    return n;
}

START_TEST(a_withdrawal_is_answered_or_withdrawn_never_both)
{
    struct lock_manager *m = NULL;
    ck_assert_int_eq(lock_manager_new(dir, NULL, &m, &err), 0);
    int withdrawn = 0, granted = 0;
    for (int i = 0; i < 300; i++) {
        struct answer a = {.mutex = PTHREAD_MUTEX_INITIALIZER};
        uint64_t id = lock_manager_request(m, NF_STR("k"), "w", LOCK_FOREVER, note_answer, &a);
        ck_assert_uint_ne(id, 0);
        for (int spin = 0; spin < i * 40; spin++)
            atomic_load(&entered);
        if (lock_manager_cancel(m, id)) {
            withdrawn++;
            ck_assert(!lock_manager_cancel(m, id));
            nf_sleep_ns(NF_MS / 10);
            ck_assert_int_eq(answered(&a), 0);
        } else {
            granted++;
            while (answered(&a) == 0)
                nf_sleep_ns(NF_MS / 50);
            ck_assert_int_eq(a.status, 0);
            lock_grant_release(a.grant);
        }
    }
    ck_assert_int_eq(withdrawn + granted, 300);
    lock_manager_free(m);
}
END_TEST

START_TEST(a_grant_that_was_on_its_way_can_be_released_after_the_stop)
{
    struct lock_manager *m = NULL;
    struct answer a = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    ck_assert_int_eq(lock_manager_new(dir, NULL, &m, &err), 0);
    lock_manager_request(m, NF_STR("k"), "w", LOCK_FOREVER, note_answer, &a);
    while (answered(&a) == 0)
        nf_sleep_ns(NF_MS / 50);
    ck_assert_int_eq(a.status, 0);
    lock_manager_stop(m);
    lock_manager_stop(m);
    lock_grant_release(a.grant);
    struct lock_host *again = NULL;   /* and it is free */
    ck_assert_int_eq(lock_host_try(dir, NF_STR("k"), "again", &again, &err), 0);
    lock_host_release(again);
    lock_manager_free(m);
}
END_TEST

START_TEST(a_manager_ends_with_requests_open)
{
    struct lock_manager *m = NULL;
    struct lock_host *other = NULL;
    struct answer a = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    ck_assert_int_eq(lock_host_try(dir, NF_STR("k"), "other", &other, &err), 0);
    ck_assert_int_eq(lock_manager_new(dir, NULL, &m, &err), 0);
    for (int i = 0; i < 5; i++)
        lock_manager_request(m, NF_STR("k"), "w", LOCK_FOREVER, note_answer, &a);
    nf_sleep_ns(5 * NF_MS);
    lock_manager_free(m);
    ck_assert_int_eq(answered(&a), 0);
    lock_host_release(other);
}
END_TEST

static bool always(void *user)
{
    (void)user;
    return true;
}

START_TEST(who_does_not_wait_gets_what_is_free)
{
    struct lock_manager *m = NULL;
    struct lock_grant *g = NULL, *second = NULL;
    ck_assert_int_eq(lock_manager_new(dir, NULL, &m, &err), 0);
    for (int i = 0; i < 20; i++) {
        ck_assert_msg(lock_manager_acquire(m, NF_STR("k"), "w", 0, NULL, NULL, &g, &err) == 0, "%s", err.message);
        ck_assert_int_eq(lock_manager_acquire(m, NF_STR("k"), "w", 0, NULL, NULL, &second, &err), NF_ELOCKTIMEOUT);
        lock_grant_release(g);
    }
    struct lock_host *other = NULL;
    ck_assert_int_eq(lock_host_try(dir, NF_STR("k"), "other", &other, &err), 0);
    ck_assert_int_eq(lock_manager_acquire(m, NF_STR("k"), "w", 0, NULL, NULL, &g, &err), NF_ELOCKTIMEOUT);
    lock_host_release(other);
    lock_manager_free(m);
}
END_TEST

START_TEST(a_time_out_names_the_holder)
{
    struct lock_host *other = NULL, *l = NULL;
    struct lock_manager *m = NULL;
    struct lock_grant *g = NULL;
    ck_assert_int_eq(lock_host_try(dir, NF_STR("k"), "the one\nand only", &other, &err), 0);
    ck_assert_int_eq(lock_host_acquire(dir, NF_STR("k"), "me", 20 * NF_MS, NULL, NULL, &l, &err), NF_ELOCKTIMEOUT);
    char pid[32];
    nf_format(pid, sizeof(pid), "pid %d on ", (int)getpid());
    ck_assert_ptr_nonnull(strstr(err.message, pid));
    ck_assert_ptr_nonnull(strstr(err.message, "(the one and only)"));
    ck_assert_int_eq(lock_host_acquire(dir, NF_STR("k"), "me", LOCK_FOREVER, always, NULL, &l, &err), NF_ECANCELLED);
    ck_assert_int_eq(lock_manager_new(dir, NULL, &m, &err), 0);
    ck_assert_int_eq(lock_manager_acquire(m, NF_STR("k"), "me", 20 * NF_MS, NULL, NULL, &g, &err), NF_ELOCKTIMEOUT);
    ck_assert_ptr_nonnull(strstr(err.message, pid));
    ck_assert_int_eq(lock_manager_acquire(m, NF_STR("k"), "me", LOCK_FOREVER, always, NULL, &g, &err), NF_ECANCELLED);
    lock_host_release(other);
    lock_manager_free(m);
}
END_TEST

/* --------------------------------------------------------------------------------------- an engine that takes its time */

struct lease {
    int unused;
};
struct late_engine {
    struct lease_engine base;
    pthread_mutex_t mutex; /* guards the rest */
    lease_grant_fn *fn;
    void *user;
    int asked, cancelled, released;
};
static struct lease the_lease;
static struct late_engine late;

static void late_acquire(struct lease_engine *e, struct nf_str key, const struct lock_host *lock, const char *what, int64_t deadline,
                         lease_grant_fn *fn, void *user, struct lease_wait **ret_wait)
{
    (void)e, (void)key, (void)lock, (void)what, (void)deadline;
    pthread_mutex_lock(&late.mutex);
    late.fn = fn;
    late.user = user;
    late.asked++;
    pthread_mutex_unlock(&late.mutex);
    *ret_wait = (struct lease_wait *)(void *)&late;
}
static bool late_cancel(struct lease_engine *e, struct lease_wait *w)
{
    (void)e, (void)w;
    pthread_mutex_lock(&late.mutex);
    bool open = late.fn != NULL;
    late.fn = NULL;
    late.cancelled += open;
    pthread_mutex_unlock(&late.mutex);
    return open;
}
static bool late_held(const struct lease *l) { return l == &the_lease; }
static uint64_t late_epoch(const struct lease *l) { return l == &the_lease ? 42 : 0; }
static void late_release(struct lease *l)
{
    (void)l;
    pthread_mutex_lock(&late.mutex);
    late.released++;
    pthread_mutex_unlock(&late.mutex);
}
static int late_owner(struct lease_engine *e, struct nf_str key, struct lock_owner *ret_owner)
{
    (void)e, (void)key;
    nf_format(ret_owner->what, sizeof(ret_owner->what), "another host");
    return NF_OK;
}
static const struct lease_ops late_ops = {.name = "late", .acquire = late_acquire, .cancel = late_cancel, .held = late_held,
                                          .epoch = late_epoch, .release = late_release, .owner = late_owner};

static int late_asked(void)
{
    pthread_mutex_lock(&late.mutex);
    int n = late.asked;
    pthread_mutex_unlock(&late.mutex);
    return n;
}

static void late_answer(int status, struct lease *l)
{
    pthread_mutex_lock(&late.mutex);
    lease_grant_fn *fn = late.fn;
    late.fn = NULL;
    pthread_mutex_unlock(&late.mutex);
    struct nf_error e = {0};
    if (status)
        nf_fail(&e, status, "no lease today");
    fn(late.user, status, l, status ? &e : NULL);
}

START_TEST(leases_are_waited_for_refused_and_withdrawn)
{
    struct lock_manager *m = NULL;
    late = (struct late_engine){.base.ops = &late_ops, .mutex = PTHREAD_MUTEX_INITIALIZER};
    ck_assert_int_eq(lock_manager_new(dir, &late.base, &m, &err), 0);

    struct answer a = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    lock_manager_request(m, NF_STR("k"), "w", LOCK_FOREVER, note_answer, &a);
    while (late_asked() < 1)
        nf_sleep_ns(NF_MS / 10);
    struct lock_owner o;
    size_t waiting;
    ck_assert_int_eq(lock_manager_state(m, NF_STR("k"), &waiting, &o), LOCK_WAIT_LEASE);
    ck_assert_str_eq(o.what, "another host");
    ck_assert_int_eq(answered(&a), 0);
    late_answer(NF_OK, &the_lease);
    while (!answered(&a))
        nf_sleep_ns(NF_MS / 10);
    ck_assert_int_eq(a.status, 0);
    ck_assert_uint_eq(lock_grant_epoch(a.grant), 42);
    lock_grant_release(a.grant);
    ck_assert_int_eq(late.released, 1);

    struct answer b = {.mutex = PTHREAD_MUTEX_INITIALIZER};       /* refused: the host lock is free again */
    lock_manager_request(m, NF_STR("k"), "w", LOCK_FOREVER, note_answer, &b);
    while (late_asked() < 2)
        nf_sleep_ns(NF_MS / 10);
    late_answer(NF_EIO, NULL);
    while (!answered(&b))
        nf_sleep_ns(NF_MS / 10);
    ck_assert_int_eq(b.status, NF_EIO);

    struct answer c = {.mutex = PTHREAD_MUTEX_INITIALIZER};       /* runs out of time while the engine thinks */
    lock_manager_request(m, NF_STR("k"), "w", nf_now_ns() + 30 * NF_MS, note_answer, &c);
    while (!answered(&c))
        nf_sleep_ns(NF_MS / 10);
    ck_assert_int_eq(c.status, NF_ELOCKTIMEOUT);
    ck_assert_int_eq(late.cancelled, 1);

    struct lock_host *l = NULL;
    ck_assert_int_eq(lock_host_acquire(dir, NF_STR("k"), "me", NF_SEC, NULL, NULL, &l, &err), 0);
    lock_host_release(l);
    lock_manager_free(m);
}
END_TEST

START_TEST(engines_have_names)
{
    struct lease_engine *e = NULL;
    ck_assert_int_eq(lease_engine_open("host", NULL, &e, &err), 0);
    lease_engine_close(e);
    ck_assert_int_eq(lease_engine_open("carrier-pigeon", NULL, &e, &err), NF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(err.hint, "host"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lockmgr-manager");
    TCase *t = tcase_create("manager");
    tcase_set_timeout(t, 100);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, two_managers_and_eight_threads_never_meet);
    tcase_add_test(t, a_withdrawal_is_answered_or_withdrawn_never_both);
    tcase_add_test(t, a_grant_that_was_on_its_way_can_be_released_after_the_stop);
    tcase_add_test(t, a_manager_ends_with_requests_open);
    tcase_add_test(t, who_does_not_wait_gets_what_is_free);
    tcase_add_test(t, a_time_out_names_the_holder);
    tcase_add_test(t, leases_are_waited_for_refused_and_withdrawn);
    tcase_add_test(t, engines_have_names);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
