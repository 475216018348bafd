/* group.h: programs of one process that run as replicas or partitions of one another, and where they meet.
 *
 * A group has a name and a size; each member joins with its rank. A meeting is named by what meets (kind, channel, who): members that come
 * while one of that name is not full join it, so disjoint parts of a group meet as often as they like. Everybody shows a pointer, waits for the
 * others, reads what they show, and waits again before going on. Parcels go from one member to another without waiting for who takes them.
 * A member that leaves with an error breaks the meetings of all instead of leaving them to wait. */
#ifndef NEFFD_RUNTIME_CPU_GROUP_H
#define NEFFD_RUNTIME_CPU_GROUP_H

#include "base/error.h"

#include <stdint.h>

struct cpu_rendezvous;
struct cpu_meeting;

/* NF_EINVAL: the name is in use with another size. */
int cpu_group_join(const char *name, uint32_t size, struct cpu_rendezvous **ret_group, struct nf_error *err);
/* A group that nobody else finds, all of whose members have begun: when all that still run wait for one another, the wait ends with an error. */
struct cpu_rendezvous *cpu_group_new(uint32_t size);
void cpu_group_leave(struct cpu_rendezvous *g);                   /* takes NULL */

/* An execution of one member begins and ends; failed: it breaks the meetings of this round. */
void cpu_group_begin(struct cpu_rendezvous *g);
void cpu_group_end(struct cpu_rendezvous *g, bool failed);

/* Shows `data` as the member at place `me` of the n in `ids` and returns when all of them have shown theirs. Who got a meeting must part from it:
 * that waits until nobody reads what is shown any more, and cannot fail. */
int cpu_group_meet(struct cpu_rendezvous *g, int kind, int64_t channel, const int64_t *ids, uint32_t n, uint32_t me, const void *data, struct cpu_meeting **ret,
                   struct nf_error *err);
const void *cpu_meeting_shown(const struct cpu_meeting *m, uint32_t i);
void cpu_group_part(struct cpu_rendezvous *g, struct cpu_meeting *m);

/* Parcels are memory of malloc that goes from hand to hand. to -1: whoever receives on the channel first. */
void cpu_group_send(struct cpu_rendezvous *g, int64_t channel, int64_t to, void *parcel);
int cpu_group_receive(struct cpu_rendezvous *g, int64_t channel, int64_t me, void **ret_parcel, struct nf_error *err);
/* The queue that infeed takes from; NULL: it is empty. */
void cpu_group_feed(struct cpu_rendezvous *g, void *parcel);
void *cpu_group_fed(struct cpu_rendezvous *g);

uint32_t cpu_group_size(const struct cpu_rendezvous *g);

#endif
