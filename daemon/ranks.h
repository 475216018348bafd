/* ranks.h: ranks of one job that have drifted apart.
 *
 * The ranks of a job ask for the same graphs in the same order, unless something differs between them that should not: a flag, a shape, a
 * branch on the rank. Then each compiles its own and all wait for the slowest, or hang in a collective that the others never enter.
 * What each (user, job, ordinal) asked for first is kept; the first rank that asks for something else makes a warning, once a job.
 * Who starts a process for each graph (neffcc) has no ordinals and is left out. Loop thread. */
#ifndef NEFFD_DAEMON_RANKS_H
#define NEFFD_DAEMON_RANKS_H

#include "base/digest.h"
#include "proto/neffd.pb-c.h"

struct ranks;

struct ranks *ranks_new(void);
void ranks_free(struct ranks *r);
/* True: `who` asks for something else than another rank of its job did at the same ordinal. The text names both, and ret_other is
 * what the other one asked for. name: the graph's; may be "". */
bool ranks_note(struct ranks *r, uint32_t uid, const Neffd__V1__ClientInfo *who, const struct nf_digest *key, const char *name,
                char *ret_text, size_t text_bytes, struct nf_digest *ret_other);

#endif
