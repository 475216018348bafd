/* drv_run.h: one run of an external program, with everything that it starts.
 *
 *     this process ── keeper ── program ── whatever it starts
 *
 * The keeper is a fork of this process that only makes system calls: a session of its own, sub-reaper, every other descriptor closed. A
 * descendant that leaves the program's process group or session is adopted by the keeper when its parent ends, so all of them can be
 * found and ended. When this process dies, the keeper sees its socket close and ends them too: nothing is left behind, whoever is
 * killed. Only a kill -9 of the keeper itself would leave grandchildren (the program has it as parent-death signal); a cgroup, where one
 * can be made, catches those as well.
 *
 * Both pipes are drained as they fill; lines come out within DRV_LINE_NS also without a newline at their end. No thread is made. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_RUN_H
#define NEFFD_PIPELINE_DRIVER_DRV_RUN_H

#include "base/str.h"

#define DRV_LINE_NS ((int64_t)500000000)
#define DRV_LINE_MAX 4096

struct drv_command {
    const char *path;                    /* of the binary */
    const char *const *argv;             /* never joined, never split; ends with NULL */
    const char *const *env;              /* ends with NULL; NULL: this process's */
    const char *cwd;
    int64_t time_limit_ns;               /* 0: none */
    int64_t grace_ns;                    /* between TERM and KILL */
    uint64_t memory_limit_bytes;         /* resident, of all of them together; 0: none */
    /* On this thread. stream: 1 stdout, 2 stderr; text is valid UTF-8 without line ends, at most DRV_LINE_MAX; whole is false for a part
     * of a longer line. */
    void (*line)(void *user, int stream, struct nf_str text, bool whole);
    void (*alive)(void *user);           /* at most once a second while there is output without lines (progress dots) */
    bool (*cancelled)(void *user);       /* asked every 100 ms; may be NULL */
    /* After the program has ended with 0: whether its output is there. Asked every 50 ms while false, descendants live and late_ns
     * has not passed. May be NULL. */
    bool (*finished)(void *user);
    int64_t late_ns;
    void *user;
};

enum drv_end { DRV_EXITED, DRV_SIGNALLED, DRV_TIMED_OUT, DRV_CANCELLED, DRV_OVER_MEMORY, DRV_NOT_STARTED };

struct drv_result {
    enum drv_end end;
    int status;                          /* exit code; signal number; errno of DRV_NOT_STARTED */
    uint64_t peak_rss_bytes;             /* of all of them together, as sampled; at least the largest single one's */
    int64_t cpu_ns;                      /* of those that were waited for */
    int64_t wall_ns;
    bool oom_killed;                     /* one of them, their cgroup says */
    bool oom_nearby;                     /* somebody on this machine, while it ran */
    unsigned leftovers;                  /* descendants that had to be killed at the end */
};

/* NF_OK: the program was tried, *ret_result says how it ended, and none of its descendants lives. Else: no keeper could be made. */
int drv_run(const struct drv_command *command, struct drv_result *ret_result, struct nf_error *err);

#endif
