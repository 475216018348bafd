#include "runtime/cpu/pool.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct sum {
    atomic_llong total;
    atomic_int wrong;
    int64_t n, grain;
};

static void add(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct sum *s = ctx;
    if (lo % s->grain || hi > s->n || hi - lo > s->grain || thread < 0 || thread >= CPU_POOL_MAX) atomic_store(&s->wrong, 1);
    for (int64_t i = lo; i < hi; i++) atomic_fetch_add(&s->total, i);
}

static void loop_once(int64_t n, int64_t grain)
{
    struct sum s = {.n = n, .grain = grain};
    cpu_pool_for(n, grain, add, &s);
    ck_assert_int_eq(atomic_load(&s.total), n * (n - 1) / 2);
    ck_assert_int_eq(atomic_load(&s.wrong), 0);
}

START_TEST(covers_every_index_once)
{
    for (int threads = 1; threads <= 6; threads++) {
        cpu_pool_set_threads(threads);
        for (int64_t n = 1; n < 200; n += 13)
            for (int64_t grain = 1; grain < 50; grain += 7) loop_once(n, grain);
    }
    cpu_pool_for(0, 1, add, NULL);
}
END_TEST

/* Late workers must not run chunks of another loop: many short loops with changing sizes, more threads than cores. */
START_TEST(many_short_loops)
{
    cpu_pool_set_threads(6);
    for (int i = 0; i < 20000; i++) loop_once(1 + i % 40, 1 + i % 3);
}
END_TEST

static void *other_thread(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) loop_once(64, 4);
    return NULL;
}

START_TEST(several_callers_at_once)
{
    pthread_t t[4];
    cpu_pool_set_threads(4);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, other_thread, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}
END_TEST

START_TEST(a_forked_child_starts_its_own)
{
    cpu_pool_set_threads(4);
    loop_once(100, 1);
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct sum s = {.n = 1000, .grain = 3};
            alarm(20);
            cpu_pool_for(s.n, s.grain, add, &s);
            _exit(atomic_load(&s.total) == 499500 ? 0 : 1);
        }
        int status = 0;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        loop_once(100, 1);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *c = tcase_create("pool");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, covers_every_index_once);
    tcase_add_test(c, many_short_loops);
    tcase_add_test(c, several_callers_at_once);
#if !defined(__SANITIZE_THREAD__) /* which cannot follow threads that a forked child starts */
    tcase_add_test(c, a_forked_child_starts_its_own);
#else
    (void)a_forked_child_starts_its_own;
#endif
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
