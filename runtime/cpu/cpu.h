/* cpu.h: the cpu device and the form of its artifacts.
 *
 * An artifact is a NEFF with the members
 *     cpu/plan        runtime/cpu/plan.h
 *     cpu/constants   bytes of the constants, 64-byte aligned
 *     cpu/image       machine code, position independent, at a multiple of 4,096 of the file; may be missing
 * and the note "x-processes R P" when it runs as R replicas times P partitions. */
#ifndef NEFFD_RUNTIME_CPU_CPU_H
#define NEFFD_RUNTIME_CPU_CPU_H

#include "runtime/device.h"

#define CPU_MEMBER_PLAN "cpu/plan"
#define CPU_MEMBER_CONSTANTS "cpu/constants"
#define CPU_MEMBER_IMAGE "cpu/image"
#define CPU_NOTE_PROCESSES "processes"

extern const struct rt_device_ops cpu_device_ops;

/* Does this NEFF hold a plan for this device? */
struct neff;
bool cpu_artifact(const struct neff *n);

/* For checks step by step: runs like execute, and after every step of the program's outermost block calls `seen` with its number
 * and a view of all values (by number: pointer). A code from it ends the run and is returned. */
struct plan;
struct cpu_watch {
    int (*seen)(void *user, const struct plan *p, uint32_t step, void *const *values, struct nf_error *err);
    void *user;
};
int cpu_program_watch(struct rt_program *program, const void *const *inputs, void *const *outputs, const struct cpu_watch *watch, struct nf_error *err);
const struct plan *cpu_program_plan(const struct rt_program *program);
/* Puts arrays into the queue that infeed takes from, which belongs to the program's group. NF_EINVAL: it runs alone. */
struct rt_array;
int cpu_program_feed(struct rt_program *program, const struct rt_array *values, size_t n, struct nf_error *err);
/* Times since load as a Chrome trace (JSON), when asked for at load. */
void cpu_program_trace(const struct rt_program *program, struct nf_buf *out);

#endif
