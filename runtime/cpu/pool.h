/* pool.h: parallel loops over [0, n) on the process's own small set of threads.
 *
 * Chunks depend on n and grain only, never on the number of threads, so what a loop computes does not either. The caller
 * works too and waits for chunks, not for workers: a worker that the kernel has not scheduled yet costs nothing.
 *
 * One loop at a time: a second caller (another thread that executes a program) finds the pool taken and runs its loop alone.
 * Threads start at the first loop that needs them; a forked child notices that it has none and starts its own. */
#ifndef NEFFD_RUNTIME_CPU_POOL_H
#define NEFFD_RUNTIME_CPU_POOL_H

#include <stdint.h>

/* thread: 0 for the caller, else the worker's number, below cpu_pool_threads(). */
typedef void (*cpu_pool_fn)(void *ctx, int64_t lo, int64_t hi, int thread);

enum { CPU_POOL_MAX = 256 };

/* Threads that loops will use, the caller included. 0: as many as the process may run on, by its affinity mask and its
 * cgroup's quota. Takes effect at the next loop; workers beyond it stay parked. */
void cpu_pool_set_threads(int threads);
int cpu_pool_threads(void);

void cpu_pool_for(int64_t n, int64_t grain, cpu_pool_fn fn, void *ctx);

#endif
