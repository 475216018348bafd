#include "daemon/post.h"

#include "base/status.h"

#include <check.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <uv.h>

enum { THREADS = 4, EACH = 20000 };

struct number {
    struct post_item item;
    unsigned thread, value;
};

static struct post_queue *queue;
static uv_loop_t loop;
static unsigned next_of[THREADS], seen;
static bool in_order = true;

static void on_number(struct post_item *item)
{
    struct number *n = (struct number *)item;
    in_order = in_order && post_on_loop_thread() && n->value == next_of[n->thread];
    next_of[n->thread]++;
    free(n);
    if (++seen == THREADS * EACH)
        uv_stop(&loop);
}

static void *pusher(void *arg)
{
    for (unsigned i = 0; i < EACH; i++) {
        struct number *n = malloc(sizeof *n);
        *n = (struct number){.item.run = on_number, .thread = (unsigned)(uintptr_t)arg, .value = i};
        post_push(queue, &n->item);
    }
    return NULL;
}

START_TEST(everything_arrives_once_and_in_the_order_of_its_thread)
{
    pthread_t threads[THREADS];
    uv_loop_init(&loop);
    post_loop_thread_set();
    ck_assert_int_eq(post_queue_new(&loop, &queue), NF_OK);
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, pusher, (void *)i), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(seen, THREADS * EACH);
    ck_assert(in_order);
    post_queue_close(queue);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon-post");
    TCase *t = tcase_create("post");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, everything_arrives_once_and_in_the_order_of_its_thread);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
