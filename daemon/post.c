/* post.c: Treiber stack, emptied by exchange and reversed, so there is no ABA and order is kept. */
#include "daemon/post.h"

#include "base/status.h"
#include "base/str.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

struct post_queue {
    _Atomic(struct post_item *) head;
    uv_async_t async;
};

static pthread_t loop_thread;
static _Atomic bool loop_thread_known;

void post_loop_thread_set(void)
{
    loop_thread = pthread_self();
    atomic_store_explicit(&loop_thread_known, true, memory_order_release);
}

bool post_on_loop_thread(void)
{
    return !atomic_load_explicit(&loop_thread_known, memory_order_acquire) || pthread_equal(loop_thread, pthread_self());
}

static void drain(struct post_queue *q)
{
    for (;;) {
        struct post_item *stack = atomic_exchange_explicit(&q->head, NULL, memory_order_acq_rel);
        if (!stack)
            return;
        struct post_item *list = NULL;
        while (stack) {
            struct post_item *next = stack->next;
            stack->next = list;
            list = stack;
            stack = next;
        }
        while (list) {
            struct post_item *next = list->next;   /* run() may free the item, or push it again */
            list->run(list);
            list = next;
        }
    }
}

static void on_async(uv_async_t *async) { drain(async->data); }

int post_queue_new(uv_loop_t *loop, struct post_queue **ret_queue)
{
    struct post_queue *q = nf_alloc(sizeof *q);
    int rc = uv_async_init(loop, &q->async, on_async);
    if (rc < 0) {
        free(q);
        return NF_EINTERNAL;
    }
    q->async.data = q;
    *ret_queue = q;
    return NF_OK;
}

static void on_closed(uv_handle_t *handle) { free(handle->data); }

void post_queue_close(struct post_queue *q)
{
    if (!q)
        return;
    drain(q);
    uv_close((uv_handle_t *)&q->async, on_closed);
}

void post_push(struct post_queue *q, struct post_item *item)
{
    assert(item->run);
    struct post_item *head = atomic_load_explicit(&q->head, memory_order_relaxed);
    do
        item->next = head;
    while (!atomic_compare_exchange_weak_explicit(&q->head, &head, item, memory_order_release, memory_order_relaxed));
    if (!head)
        uv_async_send(&q->async);   /* whoever finds it not empty knows that a wake-up is on its way */
}
