/* group.h: programs of one process that run as replicas or partitions of one another, and where they meet.
 *
 * A group has a name and a size; each member joins with its rank. A collective is a meeting: everybody shows a pointer, waits
 * for the others, reads what they show, and waits again before going on. A member that leaves with an error breaks the
 * meeting for all instead of leaving them to wait. */
#ifndef NEFFD_RUNTIME_CPU_GROUP_H
#define NEFFD_RUNTIME_CPU_GROUP_H

#include "base/error.h"

#include <stdint.h>

struct cpu_rendezvous;

/* NF_EINVAL: the name is in use with another size. */
int cpu_group_join(const char *name, uint32_t size, struct cpu_rendezvous **ret_group, struct nf_error *err);
/* A group that nobody else finds, all of whose members have begun: one that ends while the others wait for it breaks the meeting too. */
struct cpu_rendezvous *cpu_group_new(uint32_t size);
void cpu_group_leave(struct cpu_rendezvous *g);                   /* takes NULL */

/* An execution of one member begins and ends; failed: it breaks the meetings of this round. */
void cpu_group_begin(struct cpu_rendezvous *g);
void cpu_group_end(struct cpu_rendezvous *g, bool failed);

/* Shows `data` as rank's and returns when all have shown theirs: *ret_all is by rank, valid until cpu_group_release, which
 * waits until all have come to it. Both fail when the meeting is broken. */
int cpu_group_show(struct cpu_rendezvous *g, uint32_t rank, const void *data, const void *const **ret_all, struct nf_error *err);
int cpu_group_release(struct cpu_rendezvous *g, struct nf_error *err);
uint32_t cpu_group_size(const struct cpu_rendezvous *g);

#endif
