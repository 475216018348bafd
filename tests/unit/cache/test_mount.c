/* The pool that alone touches a mount: every item ends in exactly one done and one free, whatever hangs. */
#include "fixture.h"

#include <stdatomic.h>

/* An item that waits for its gate. */
struct gate {
    atomic_bool open;
    atomic_int started, done, freed, hung, cancelled, ran_through;
    atomic_int last_rc;
};

static int wait_gate(void *ctx, struct cache_mount_item *item, struct nf_error *e)
{
    struct gate *g = ctx;
    (void)item;
    atomic_fetch_add(&g->started, 1);
    while (!atomic_load(&g->open))
        nf_sleep_ns(NF_MS);
    atomic_fetch_add(&g->ran_through, 1);
    return nf_fail(e, NF_EIO, "its own outcome");
}

static int tick_gate(void *ctx, struct cache_mount_item *item, struct nf_error *e)
{
    struct gate *g = ctx;
    (void)e;
    atomic_fetch_add(&g->started, 1);
    while (!atomic_load(&g->open)) {
        nf_sleep_ns(5 * NF_MS);
        cache_mount_tick(item);
    }
    return NF_OK;
}

static void gate_done(void *ctx, int rc, const struct nf_error *e)
{
    struct gate *g = ctx;
    ck_assert(rc == NF_OK || e);
    atomic_fetch_add(&g->done, 1);
    atomic_fetch_add(&g->hung, rc == NF_EMOUNTHUNG);
    atomic_fetch_add(&g->cancelled, rc == NF_ECANCELLED);
    atomic_store(&g->last_rc, rc);
}

static void gate_free(void *ctx)
{
    struct gate *g = ctx;
    ck_assert_int_lt(atomic_load(&g->freed), atomic_load(&g->done)); /* after done, always */
    atomic_fetch_add(&g->freed, 1);
}

static void submit(struct cache_mount *m, struct gate *g, int (*run)(void *, struct cache_mount_item *, struct nf_error *))
{
    cache_mount_submit(m, &(struct cache_mount_work){run, gate_done, gate_free, g, 0});
}

#define UNTIL(condition) \
    do { \
        int64_t until_ = nf_now_ns() + 10 * NF_SEC; \
        while (!(condition) && nf_now_ns() < until_) \
            nf_sleep_ns(NF_MS); \
        ck_assert_msg(condition, "never: %s", #condition); \
    } while (0)

START_TEST(items_run_and_end_once)
{
    struct cache_mount *m;
    struct gate g = {.open = true};
    ASSERT_OK(cache_mount_open(root, 3, NF_SEC, &m, &err));
    for (int i = 0; i < 1000; i++)
        submit(m, &g, wait_gate);
    UNTIL(atomic_load(&g.freed) == 1000);
    ck_assert_int_eq(g.done, 1000);
    ck_assert_int_eq(g.last_rc, NF_EIO);
    ck_assert(!cache_mount_troubled(m));
    ASSERT_FAILS(NF_EIO, cache_mount_run(m, &(struct cache_mount_work){wait_gate, NULL, NULL, &g, 0}, &err));
    ck_assert_str_eq(err.message, "its own outcome");
    cache_mount_close(m);
}
END_TEST

START_TEST(what_hangs_is_given_up_and_the_rest_told_at_once)
{
    struct cache_mount *m;
    struct gate stuck = {.open = false}, queued = {.open = true};
    char text[200];
    ASSERT_OK(cache_mount_open("/nonexistent/\xff", 2, 100 * NF_MS, &m, &err));
    cache_mount_set_retry(m, 60 * NF_SEC); /* no probe gets in the way here */
    for (int i = 0; i < 2; i++)
        submit(m, &stuck, wait_gate);
    UNTIL(atomic_load(&stuck.started) == 2);
    for (int i = 0; i < 5; i++)
        submit(m, &queued, wait_gate);
    UNTIL(atomic_load(&stuck.done) == 2);
    ck_assert_int_eq(stuck.hung, 2);
    ck_assert_int_eq(stuck.freed, 0); /* still in use by threads that hang */
    UNTIL(atomic_load(&queued.freed) == 5);
    ck_assert_int_eq(queued.hung, 5);
    ck_assert_int_eq(queued.started, 0);
    atomic_store(&stuck.open, true);
    UNTIL(atomic_load(&stuck.freed) == 2);
    ck_assert_int_eq(stuck.done, 2); /* the outcome that came late is dropped */
    cache_mount_trouble_text(m, text, sizeof(text));
    ck_assert_msg(!text[0] || strstr(text, "does not answer"), "%s", text);
    cache_mount_close(m);
}
END_TEST

START_TEST(it_is_used_again_when_it_answers)
{
    struct cache_mount *m;
    struct gate stuck = {.open = false}, after = {.open = true};
    ASSERT_OK(cache_mount_open(root, 2, 100 * NF_MS, &m, &err));
    cache_mount_set_retry(m, 20 * NF_MS);
    for (int i = 0; i < 2; i++)
        submit(m, &stuck, wait_gate);
    UNTIL(atomic_load(&stuck.hung) == 2);
    UNTIL(!cache_mount_troubled(m)); /* the directory answers the probe, though two threads are lost */
    for (int i = 0; i < 10; i++)
        submit(m, &after, wait_gate);
    UNTIL(atomic_load(&after.freed) == 10);
    ck_assert_int_eq(after.hung, 0);
    atomic_store(&stuck.open, true);
    UNTIL(atomic_load(&stuck.freed) == 2);
    submit(m, &after, wait_gate);
    UNTIL(atomic_load(&after.freed) == 11);
    cache_mount_close(m);
}
END_TEST

START_TEST(whoever_gets_on_is_not_given_up)
{
    struct cache_mount *m;
    struct gate slow = {.open = false};
    ASSERT_OK(cache_mount_open(root, 1, 60 * NF_MS, &m, &err));
    submit(m, &slow, tick_gate);
    nf_sleep_ns(400 * NF_MS);
    ck_assert_int_eq(slow.done, 0);
    atomic_store(&slow.open, true);
    UNTIL(atomic_load(&slow.freed) == 1);
    ck_assert_int_eq(slow.last_rc, NF_OK);
    cache_mount_close(m);
}
END_TEST

START_TEST(stopping_ends_everything)
{
    struct cache_mount *m;
    struct gate running = {.open = false}, queued = {.open = true}, late = {.open = true};
    ASSERT_OK(cache_mount_open(root, 1, 100 * NF_MS, &m, &err));
    submit(m, &running, wait_gate);
    UNTIL(atomic_load(&running.started) == 1);
    for (int i = 0; i < 5; i++)
        submit(m, &queued, wait_gate);
    int64_t begin = nf_now_ns();
    cache_mount_stop(m); /* waits for the running one no longer than its patience */
    ck_assert_int_lt((nf_now_ns() - begin) / NF_MS, 3000);
    ck_assert_int_eq(queued.done, 5);
    ck_assert_int_eq(running.hung, 1);
    submit(m, &late, wait_gate);
    ck_assert_int_eq(late.cancelled, 1);
    ck_assert_int_eq(late.freed, 1);
    cache_mount_close(m);
    atomic_store(&running.open, true); /* comes back to a pool that is gone */
    UNTIL(atomic_load(&running.freed) == 1);
    nf_sleep_ns(20 * NF_MS);
}
END_TEST

START_TEST(bounds_are_checked)
{
    struct cache_mount *m;
    ASSERT_FAILS(NF_EINVAL, cache_mount_open(root, 0, NF_SEC, &m, &err));
    ASSERT_FAILS(NF_EINVAL, cache_mount_open(root, 257, NF_SEC, &m, &err));
    ASSERT_FAILS(NF_EINVAL, cache_mount_open(root, 1, 0, &m, &err));
    cache_mount_close(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-mount");
    TCase *t = tcase_create("mount");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, items_run_and_end_once);
    tcase_add_test(t, what_hangs_is_given_up_and_the_rest_told_at_once);
    tcase_add_test(t, it_is_used_again_when_it_answers);
    tcase_add_test(t, whoever_gets_on_is_not_given_up);
    tcase_add_test(t, stopping_ends_everything);
    tcase_add_test(t, bounds_are_checked);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
