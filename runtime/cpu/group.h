/* group.h: programs of one process that run as replicas or partitions of one another, and where they meet.
 *
 * A group has a name and a size; each member joins with its rank. A meeting is named by what meets (kind, channel, who): members that come
 * while one of that name is not full join it, so disjoint parts of a group meet as often as they like. Everybody shows a pointer, waits for the
 * others, reads what they show, and waits again before going on. Parcels go from one member to another without waiting for who takes them.
 *
 * Executions are counted by member: its n-th is its turn in round n, and those who meet are of one round, whatever they had counted. A member that
 * ends with an error breaks its round: whoever of the group runs then, and whoever has not begun that round yet, gets an error where it would wait;
 * the round after it is clean. So every member has to run as often as the others, after an error too. */
#ifndef NEFFD_RUNTIME_CPU_GROUP_H
#define NEFFD_RUNTIME_CPU_GROUP_H

#include "base/error.h"

#include <stdint.h>

struct cpu_rendezvous;
struct cpu_meeting;

/* NF_EINVAL: the name is in use with another size. */
int cpu_group_join(const char *name, uint32_t size, struct cpu_rendezvous **ret_group, struct nf_error *err);
/* A group that nobody else finds, all of whose members have begun (the turn of number r is {.rank = r}): when all that still run wait for one
 * another, the wait ends with an error. */
struct cpu_rendezvous *cpu_group_new(uint32_t size);
void cpu_group_leave(struct cpu_rendezvous *g);                   /* takes NULL */

/* One execution of a member, from its beginning to its end. */
struct cpu_turn {
    uint32_t rank;
    bool doomed;             /* its round has failed already */
    uint64_t breaks;         /* of the group when it began */
};
/* rank: below the size of the group. */
void cpu_group_begin(struct cpu_rendezvous *g, uint32_t rank, struct cpu_turn *ret_turn);
void cpu_group_end(struct cpu_rendezvous *g, const struct cpu_turn *t, bool failed);

/* Shows `data` as the member at place `me` of the n in `ids` and returns when all of them have shown theirs. Who got a meeting must part from it:
 * that waits until nobody reads what is shown any more, and cannot fail. */
int cpu_group_meet(struct cpu_rendezvous *g, const struct cpu_turn *t, int kind, int64_t channel, const int64_t *ids, uint32_t n, uint32_t me, const void *data,
                   struct cpu_meeting **ret_meeting, struct nf_error *err);
const void *cpu_meeting_shown(const struct cpu_meeting *m, uint32_t i);
void cpu_group_part(struct cpu_rendezvous *g, struct cpu_meeting *m);

/* Parcels are memory of malloc that goes from hand to hand; what a failed round sent is freed. to -1: whoever receives on the channel first. */
void cpu_group_send(struct cpu_rendezvous *g, const struct cpu_turn *t, int64_t channel, int64_t to, void *parcel);
int cpu_group_receive(struct cpu_rendezvous *g, const struct cpu_turn *t, int64_t channel, int64_t me, void **ret_parcel, struct nf_error *err);
/* The queue that infeed takes from; NULL: it is empty. */
void cpu_group_feed(struct cpu_rendezvous *g, void *parcel);
void *cpu_group_fed(struct cpu_rendezvous *g);

uint32_t cpu_group_size(const struct cpu_rendezvous *g);

#endif
