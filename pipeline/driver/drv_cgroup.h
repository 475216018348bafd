/* drv_cgroup.h: a cgroup v2 of one's own for a program, where the place that this process is in may be written; and how much memory there
 * is. All of it is a best effort: -1 and "" mean that there is none. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_CGROUP_H
#define NEFFD_PIPELINE_DRIVER_DRV_CGROUP_H

#include "base/str.h"

struct drv_cgroup {
    char *path;                          /* NULL: none */
    int procs;                           /* open cgroup.procs, or -1 */
    bool limited;                        /* memory.max holds */
};

void drv_cgroup_make(struct drv_cgroup *g, uint64_t memory_limit_bytes);
bool drv_cgroup_oom(const struct drv_cgroup *g);
uint64_t drv_cgroup_peak(const struct drv_cgroup *g);   /* 0: not known */
void drv_cgroup_remove(struct drv_cgroup *g);           /* kills what is in it */

/* How many processes the kernel has killed for memory since the machine was started. */
uint64_t drv_oom_kills(void);
/* Of the machine and of every cgroup (v1 or v2) that this process is in, the least. Available: what can be had without swapping, with the
 * files in memory that nobody uses. */
void drv_memory(uint64_t *ret_total, uint64_t *ret_available);

#endif
