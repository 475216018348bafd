/* drv_keeper.h: the process between us and an external program (drv_run.h says why), and finding all that live below it. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_KEEPER_H
#define NEFFD_PIPELINE_DRIVER_DRV_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct drv_command;

enum keeper_word {
    KEEPER_STARTED = 'S',   /* value: pid of the program */
    KEEPER_FAILED = 'F',    /* value: errno of chdir or exec; nothing lives */
    KEEPER_ENDED = 'E',     /* value: wait status of the program; descendants may live */
    KEEPER_GONE = 'G',      /* value: descendants that had to be killed; last word */
};
struct keeper_message {
    int32_t word, value;
    int64_t cpu_ns;         /* of all that were waited for so far */
    uint64_t maxrss_bytes;  /* of the largest single one */
};
enum keeper_order {
    KEEPER_TERM = 't',      /* SIGTERM to all descendants */
    KEEPER_KILL = 'k',      /* SIGKILL to all until there is none, then the last word */
};

/* Never returns. In the forked child: control is one end of a SOCK_SEQPACKET pair, out and err the write ends of the pipes, procs an open
 * cgroup.procs file or -1, group its folder or NULL (the keeper removes it when nobody else is left to). Only system calls: the parent
 * may have had threads. */
_Noreturn void drv_keeper_main(const struct drv_command *command, char *const *env, int control, int out, int err, int procs, const char *group);

/* Resident bytes of all descendants of pid (itself not counted); their number in *ret_count. */
uint64_t drv_tree_rss(pid_t pid, unsigned *ret_count);
/* Direct and indirect children of pid, as far as max; a snapshot. Uses no memory but its own stack. */
unsigned drv_tree_list(pid_t pid, pid_t *ret_pids, unsigned max);

#endif
