/* job_internal.h: the insides of jobs, shared by job*.c alone. */
#ifndef NEFFD_DAEMON_JOB_INTERNAL_H
#define NEFFD_DAEMON_JOB_INTERNAL_H

#include "base/map.h"
#include "daemon/job.h"
#include "daemon/ranks.h"

#include <uv.h>

#define JOB_LOG_LINES 64          /* kept for slow and late waiters */
#define JOB_LOG_LINE_MAX 4096

/* What is asked for: parsed once, shared by the waiter and the job that it gave its input to. */
struct request {
    int refs;
    Neffd__V1__CompileStart *start;
    struct cache_option *options;
    struct cache_side_file *side_files;
};
struct request *request_ref(struct request *r);
void request_unref(struct request *r);      /* takes NULL */

/* Bytes as they arrive: part 0 the graph, part n side file n-1. */
struct upload_part {
    char *path;
    int fd;
    uint64_t got;
    struct nf_digest sha256;
    struct nf_sha256 sha;
};
struct upload {
    struct upload_part *parts;
    size_t count, at;
    bool hashing;                 /* front hash has begun */
    struct cache_front_hash front;
    struct nf_digest front_key;   /* once complete */
    bool complete, failed, half_closed;
};
/* Begins on the first chunk. Both fill err when the bytes cannot be taken. */
int upload_chunk(struct daemon *d, struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid,
                 const Neffd__V1__Chunk *chunk, struct nf_error *err);
/* The caller has sent its last: complete, or an error that says what is missing. */
int upload_end(struct daemon *d, struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid,
               struct nf_error *err);
void upload_done(struct daemon *d, struct upload *u);         /* closes and removes */
bool upload_started(const struct upload *u);

/* Files of a finished job that waiters are told of. */
struct output {
    char kind[16];
    char *path;
    struct nf_digest sha256;
    uint64_t size;
};

enum waiter_pending {                       /* events to be sent, latest wins */
    PENDING_SEND_INPUT = 1, PENDING_JOINED = 2, PENDING_QUEUED = 4, PENDING_STAGE = 8, PENDING_PROGRESS = 16,
};

/* When the answers of one job were handed to the transport: what the log says about the spread of a storm. */
struct answers {
    uint64_t job_id;
    size_t open, count, joined, cancelled;
    int64_t first_ns, last_ns;
};
void answers_one(struct answers *a, int64_t finished_ns);   /* 0: the caller was gone. Frees it with the last */

struct waiter {
    struct waiter *next, *prev;             /* of its job */
    struct daemon *d;
    struct job *job;
    struct srv_call *call;
    struct request *req;
    struct srv_peer peer;
    char target[64];                        /* resolved; "" while the toolchains are not known */
    struct upload upload;
    struct nf_digest claimed;
    bool has_claim;
    bool joined;                            /* somebody else's job, when it came */
    bool told_send_input;
    int64_t heard_ns;                       /* when it was told to send, or last sent something */
    bool parked;                            /* waits for the toolchains */
    bool answered;
    bool reading_paused;
    enum waiter_pending pending;
    uint64_t log_seen;
    int64_t started_ns;
    struct answers *answers;                /* the record that its answer's time goes to; may be NULL */
};

struct job {
    struct job *next, *prev;                /* of the table, oldest first */
    int refs;                               /* the table's, and one for each asynchronous step */
    struct daemon *d;
    uint64_t id;
    enum job_state state;
    int64_t created_ns, state_since_ns;
    struct waiter *waiters, *last_waiter;
    size_t waiter_count;
    char target[64];
    struct cache_toolchain toolchain;
    char isa[256];
    char name[128];
    char cache_namespace[72];
    uint32_t stop_after;
    bool detached, warmup, finished, explaining, explained;
    Neffd__V1__ClientInfo *leader;          /* a copy */
    struct srv_peer leader_peer;
    /* keys */
    struct nf_digest *fronts;               /* verified by hash (fronts_verified of them), or claimed */
    size_t front_count;
    bool front_verified;
    bool has_canonical, in_canonical_map, keyed;
    struct nf_digest canonical;
    uint8_t canonical_map_key[36];
    /* input */
    struct request *req;                    /* of the waiter whose bytes are used */
    struct upload input;
    uint32_t base_uid;
    /* work */
    char *work_dir;
    char try_dir[512];                      /* below it: of the compile under way */
    struct worker *worker;
    bool hit_alias_only;                    /* came by an alias; the input was never seen */
    uint64_t ops, canonical_bytes, peak_rss;
    bool lowered;
    unsigned attempts, internal_attempts;   /* compiles started; own crashes among them */
    unsigned key_attempts;
    uint64_t memory_hint;                   /* after running out of memory */
    int64_t compile_started_ns, compile_ns, queue_ns, lock_ns, publish_ns;
    int64_t wall_started_us;
    bool has_slot, has_key_slot;
    uint64_t slot_memory;
    struct estimate estimate;
    Neffd__V1__StageTime stage_times[8];
    size_t stage_count;
    /* lock */
    struct lock_wait *lock_wait;
    struct lock_grant *grant;
    int64_t lock_deadline_ns;
    /* lookups under way are told apart by their number */
    unsigned async_number;
    unsigned lookup_errors;                 /* in a row, without an answer either way */
    uv_timer_t timer;                       /* backoff */
    bool timer_open;
    /* what everybody is told */
    struct {
        uint32_t position;
        char waiting_for[160];
    } queued;
    uint32_t stage;
    int64_t stage_since_ns;
    char stage_detail[160];
    double fraction;
    struct {
        uint32_t level;
        char *source, *line;
    } log[JOB_LOG_LINES];
    uint64_t log_count;
    /* the end */
    struct cache_hit *hit;
    struct output *outputs;                 /* what the worker has written, "neff" among them */
    size_t output_count;
    const struct loose_file *loose;         /* the artifact, when it is no entry of the cache */
    uint64_t entry_compile_us;
    char entry_compiler[256];
    Neffd__V1__Provenance provenance;       /* strings in prov_host, prov_id */
    char prov_host[128], prov_id[64];
};

struct job_table {
    struct daemon *d;
    struct job *jobs, *last;
    size_t live;
    uint64_t next_id;
    uint32_t waiters;
    uint64_t upload_bytes;                  /* kept for uploads and inputs of live jobs */
    struct nf_map *by_front, *by_canonical;
    unsigned keys_running, compiles_running;
    uint64_t memory_expected;
    uv_timer_t tick;
    struct waiter *parked, *last_parked;
    bool scheduling;
    struct ranks *ranks;
    struct job *lingering;                  /* terminal, their hits kept open for a moment */
};

/* job.c */
void job_state_set(struct job *j, enum job_state s);
struct job *job_ref(struct job *j);
void job_unref(struct job *j);
struct job *job_new(struct daemon *d, const struct waiter *first);
void job_attach(struct job *j, struct waiter *w);
void job_detach(struct job *j, struct waiter *w);
void job_front_add(struct job *j, const struct nf_digest *front);
struct job *job_by_front(struct job_table *t, const struct nf_digest *front);
struct job *job_by_canonical(struct job_table *t, const struct nf_digest *key, uint32_t stop_after);
void job_canonical_set(struct job *j, const struct nf_digest *key);
void job_dissolve(struct job *j, enum job_state s);   /* terminal: out of the maps, resources let go */
void job_end_failed(struct job *j, const struct nf_error *err);
void job_last_waiter_left(struct job *j);
bool job_wants_compile(const struct job *j);
bool job_all(const struct job *j, bool (*test)(const struct waiter *w));
bool job_any(const struct job *j, bool (*test)(const struct waiter *w));
bool waiter_is_lookup(const struct waiter *w);        /* LOOKUP or EXPLAIN */
bool waiter_is_explain(const struct waiter *w);
bool waiter_is_fresh(const struct waiter *w);         /* must not be answered from the cache */
bool waiter_no_publish(const struct waiter *w);
bool waiter_no_failures(const struct waiter *w);
void waiter_free(struct waiter *w);

/* job_flow.c: the steps */
void job_step_receive(struct job *j);
void job_step_keyed_input(struct job *j, struct waiter *from);
void job_step_lookup(struct job *j);
void job_step_after_miss(struct job *j);
void job_lookup_again(struct job *j);     /* from the timer */
void job_step_compile(struct job *j);
void job_step_lock(struct job *j);
void job_enqueue(struct job *j);
void job_late_lookups(struct job *j);
void job_lock_extend(struct job *j);
void job_lock_drop(struct job *j);
bool job_try_merge(struct job *j, struct job *into);

/* job_sched.c */
void sched_kick(struct daemon *d);
void sched_key_start(struct job *j);
void sched_slot_free(struct job *j);     /* of a key or a compile; takes a job without one */
void sched_tick(struct job_table *t);

/* job_run.c */
void job_run_key(struct job *j);
void job_run_compile(struct job *j);
void job_run_publish(struct job *j);
void job_timer_start(struct job *j, int64_t ns);   /* then, by its state: queue, key, or look up again */
void job_run_explain(struct job *j);      /* for those who asked, and as a line for the others */
void job_request_pack(struct job *j, Neffd__Worker__V1__Key *ret_key, Neffd__Worker__V1__Identity *ret_identity);
void job_request_pack_free(Neffd__Worker__V1__Key *key);

/* job_events.c */
void event_pump(struct waiter *w);
void event_all(struct job *j, enum waiter_pending what);
void event_log(struct job *j, uint32_t level, const char *source, struct nf_str line);
size_t job_log_tail(const struct job *j, size_t limit, char **ret_lines);   /* at most JOB_LOG_LINES copies, to be freed */
void waiter_done(struct waiter *w, Neffd__V1__Done *done, uint64_t job_id);  /* the last event; the waiter, already detached, ends with its call */
void waiter_failed(struct waiter *w, const struct nf_error *err, const struct job *j, const struct cache_failure *remembered);  /* the last two may be NULL */
void waiter_refuse(struct waiter *w, const struct nf_error *err);    /* a status, no event */

/* job_answer.c */
void job_answer_hit(struct job *j, struct cache_hit *hit, enum cache_tier tier, bool front_hit);  /* takes the hit */
void job_answer_compiled(struct job *j);
void job_answer_failure(struct job *j, const struct cache_failure *f);
void job_answer_miss(struct waiter *w, const struct job *j, Neffd__V1__Explanation *explanation);   /* the waiter is detached */
void waiter_answer_hit(struct waiter *w, struct cache_hit *hit, enum cache_tier tier, const struct nf_digest *front);  /* no job; takes the hit */
void job_answer_stage(struct job *j);   /* stop_after: the canonical text is the answer */

#endif
