/* job.h: jobs and waiters: one compile for all who ask for the same thing.
 *
 * A waiter is one Compile call. A job is what it waits for. Invariants (loop thread; checked by job_check in debug builds):
 *     J1  a waiter has at most one job; a job that is not terminal has a waiter, is detached, or is being finished for the cache
 *     J2  by_front:     at most one live job for a front key; every front key of a live job points to it
 *     J3  by_canonical: at most one live job for (canonical key, stop_after); a job is there from LOOKUP until it is terminal
 *     J4  a job holds a worker only in KEY .. COMPILE; a slot only in COMPILE; a lock grant from RECHECK to its end
 *     J5  what a waiter is told last is `done` or `failed`, once
 *
 * Joining. First level: requests with one front key share one upload and one keying. Second level: a job whose canonical key
 * is in flight already hands its waiters over and ends as MERGED. A front key is only a claim until the daemon has hashed the bytes
 * itself: when they turn out to be others, the waiters that made the claim are asked for theirs.
 *
 * A waiter that leaves hurts nobody: its upload is asked of the next one; the last one's leaving cancels the job unless it is
 * detached or past the share of its expected time that `cancel_keep_percent` says. */
#ifndef NEFFD_DAEMON_JOB_H
#define NEFFD_DAEMON_JOB_H

#include "daemon/daemon.h"
#include "proto/neffd.pb-c.h"

enum job_state {
#define JOB_STATE(sym, name, next) JOB_##sym,
#include "daemon/job_states.def"
#undef JOB_STATE
    JOB_STATE_MAX
};
const char *job_state_name(enum job_state s);
bool job_state_terminal(enum job_state s);

struct job;
struct waiter;
struct job_table;

int job_table_new(struct daemon *d, struct job_table **ret_table);
void job_table_free(struct job_table *t);

/* A new Compile call with its first message, which the table takes over. */
void job_request(struct daemon *d, struct srv_call *call, Neffd__V1__CompileStart *start);
/* What else a waiter's call can do; `user` of the call is the waiter, NULL once it has been answered. */
void job_waiter_chunk(struct waiter *w, const Neffd__V1__Chunk *chunk);
void job_waiter_half_close(struct waiter *w);
void job_waiter_sent(struct waiter *w);
void job_waiter_closed(struct waiter *w, bool cancelled);

void job_toolchains_changed(struct daemon *d);
void job_toolchains_failed(struct daemon *d, const struct nf_error *err);   /* who waits for them is told */
void job_workers_free(struct daemon *d);               /* worker_pool's on_free */
/* Ends one job for all its waiters. False: there is none of that number. */
bool job_cancel(struct daemon *d, uint64_t id, const char *why);
void job_cancel_all(struct daemon *d, int code, const char *why);
size_t job_live(const struct job_table *t);

struct job_counts {
    uint32_t queued, running, waiters;
};
struct job_counts job_counts(const struct job_table *t);
/* Appends "2 jobs (7 compiling, 9 queued)". */
void job_describe(const struct job_table *t, struct nf_buf *out);
/* Appends a serialised neffd.v1.JobsReply. */
void job_list(const struct job_table *t, struct nf_buf *out);

#endif
