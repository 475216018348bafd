/* pool.c: see pool.h. The state word is epoch<<32 | next chunk. A chunk is claimed by compare-and-swap, so a worker that wakes
 * late with the fields of an older job can never claim a chunk of a newer one; the word is closed (next = ~0) while the fields
 * change, so it cannot claim a chunk of the older job by the newer job's count either. */
#include "runtime/cpu/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#else
#define RELAX() __asm__ volatile("yield")
#endif

enum { SPIN = 4000 }; /* pauses before a worker parks: about 100 us, longer than a serial step between two loops */

static struct {
    _Alignas(64) atomic_ullong state;
    _Alignas(64) atomic_uint epoch;                              /* futex word, equals state >> 32 */
    atomic_int sleepers;
    _Alignas(64) atomic_llong done;                              /* finished chunks of the current job */
    _Alignas(64) _Atomic int64_t n, grain;                       /* written only while no chunk can be claimed */
    _Atomic(cpu_pool_fn) fn;
    _Atomic(void *) ctx;
    atomic_int use;                                              /* workers with a higher number skip the job */
    atomic_bool busy;                                            /* held by the thread whose loop runs */
    atomic_int wanted;                                           /* threads asked for; 0: not decided yet */
    int started;                                                 /* guarded by busy; threads of this process */
    atomic_int pid;                                              /* whose threads they are; negative: being taken over */
} pool;

static void futex(atomic_uint *word, int op, unsigned value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void drain(unsigned epoch, int me)
{
    int64_t n = pool.n, grain = pool.grain, chunks = (n + grain - 1) / grain;
    cpu_pool_fn fn = pool.fn;
    void *ctx = pool.ctx;
    unsigned long long s = atomic_load(&pool.state);
    for (;;) {
        if ((unsigned)(s >> 32) != epoch || (int64_t)(uint32_t)s >= chunks) return;
        if (!atomic_compare_exchange_weak(&pool.state, &s, s + 1)) continue;
        int64_t lo = (int64_t)(uint32_t)s * grain;
        fn(ctx, lo, lo + grain < n ? lo + grain : n, me);
        atomic_fetch_add_explicit(&pool.done, 1, memory_order_release);
        s = atomic_load(&pool.state);
    }
}

static void *worker(void *arg)
{
    int me = (int)(intptr_t)arg;
    unsigned seen = 0, epoch;
    for (;;) {
        int spins = 0;
        while ((epoch = atomic_load_explicit(&pool.epoch, memory_order_acquire)) == seen) {
            if (spins++ < SPIN) {
                RELAX();
                continue;
            }
            atomic_fetch_add(&pool.sleepers, 1);
            futex(&pool.epoch, FUTEX_WAIT, seen);
            atomic_fetch_sub(&pool.sleepers, 1);
        }
        seen = epoch;
        if (me < atomic_load(&pool.use)) drain(epoch, me);
    }
    return NULL;
}

/* CPUs that the cgroup's quota allows, 0 if it sets none. */
static int quota(void)
{
    long max = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) return 0;
    if (fscanf(f, "%ld %ld", &max, &period) != 2) max = 0;
    fclose(f);
    return max > 0 && period > 0 ? (int)((max + period - 1) / period) : 0;
}

static int default_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, q = quota();
    return q && q < n ? q : n;
}

void cpu_pool_set_threads(int threads)
{
    if (threads <= 0) threads = default_threads();
    atomic_store(&pool.wanted, threads > CPU_POOL_MAX ? CPU_POOL_MAX : threads);
}

int cpu_pool_threads(void)
{
    int n = atomic_load(&pool.wanted);
    if (n == 0) {
        cpu_pool_set_threads(0);
        n = atomic_load(&pool.wanted);
    }
    return n;
}

/* The first loop of a process, which may be a forked child, takes the pool over: it has no workers, and a loop that another process's
 * thread was in does not hold it. All of that is done before `pid` says that the pool is ours. */
static void adopt(int me)
{
    int seen = atomic_load(&pool.pid);
    while (seen != me) {
        if (seen != -me && atomic_compare_exchange_strong(&pool.pid, &seen, -me)) {
            pool.started = 1;
            atomic_store(&pool.sleepers, 0);
            atomic_store(&pool.busy, false);
            atomic_store(&pool.pid, me);
            return;
        }
        if (seen == -me) sched_yield(); /* another thread is at it */
        seen = atomic_load(&pool.pid);
    }
}

/* Workers block every signal: handlers belong to the program's own threads. Threads that cannot be had are done without. */
static void start_workers(int threads)
{
    sigset_t all, old;
    pthread_attr_t attr;
    if (pool.started >= threads) return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    while (pool.started < threads) {
        pthread_t t;
        if (pthread_create(&t, &attr, worker, (void *)(intptr_t)pool.started)) break;
        pool.started++;
    }
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void cpu_pool_for(int64_t n, int64_t grain, cpu_pool_fn fn, void *ctx)
{
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (n / grain >= UINT32_MAX / 2) grain = n / (UINT32_MAX / 2) + 1;
    int64_t chunks = (n + grain - 1) / grain;
    int threads = cpu_pool_threads();
    bool taken = false;
    if (chunks > 1 && threads > 1) {
        adopt((int)getpid());
        taken = !atomic_load_explicit(&pool.busy, memory_order_relaxed) && !atomic_exchange_explicit(&pool.busy, true, memory_order_acquire);
    }
    if (!taken) {
        for (int64_t lo = 0; lo < n; lo += grain) fn(ctx, lo, lo + grain < n ? lo + grain : n, 0);
        return;
    }
    start_workers(threads);
    unsigned epoch = atomic_load(&pool.epoch) + 1;
    atomic_store(&pool.state, (unsigned long long)epoch << 32 | 0xffffffffu);
    pool.n = n;
    pool.grain = grain;
    pool.fn = fn;
    pool.ctx = ctx;
    atomic_store(&pool.use, threads);
    atomic_store(&pool.done, 0);
    atomic_store(&pool.state, (unsigned long long)epoch << 32);
    atomic_store(&pool.epoch, epoch);
    if (atomic_load(&pool.sleepers)) futex(&pool.epoch, FUTEX_WAKE, chunks > CPU_POOL_MAX ? CPU_POOL_MAX : (unsigned)chunks - 1);
    drain(epoch, 0);
    for (int s = 0; atomic_load_explicit(&pool.done, memory_order_acquire) < chunks; s++) {
        RELAX();
        if (s > SPIN) sched_yield();
    }
    atomic_store_explicit(&pool.busy, false, memory_order_release);
}
