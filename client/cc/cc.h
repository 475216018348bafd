/* cc.h: neffcc, which stands on PATH as neuronx-cc.
 *
 *     parse ── not a compile, or not understood ──────────────────────────────> exec the real compiler
 *       │
 *     local tier ── hit ───────────────────────────────────────────────────────> done           via "cache"
 *       │ a miss: neffcc-full takes this process over (fast_main.c says why)
 *     ask (local tier, daemon)  ── answered: file and exit code as neuronx-cc ─> done           via "cache" or "daemon"
 *       │ no daemon, one that dies, one that cannot
 *     alone (host lock, slots, cache, driver)  ── the same ────────────────────> done           via "cache"
 *       │ no usable cache, a graph that cannot be keyed
 *     exec the real compiler                                                                    via "exec"
 *
 * It never breaks a build: whatever goes wrong on our side ends in the real compiler, run as if we were not there. Only what the
 * compiler itself says about the graph, an output that cannot be written, a lock that its live holder does not free in time, and
 * `cache_only` end in an error; under that one nothing that is a compile reaches the real compiler. */
#ifndef NEFFD_CLIENT_CC_H
#define NEFFD_CLIENT_CC_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/digest.h"
#include "cache/read.h"
#include "config/config.h"
#include "pipeline/driver/driver.h"
#include "pipeline/driver/drv_flags.h"

#include <stdio.h>

#define CC_DOT_NS NF_SEC           /* between dots on stdout while somebody waits */
#define CC_WORD_NS (60 * NF_SEC)   /* between words about it on stderr */

#define CC_ACTIVE "NEFFCC_ACTIVE" /* set for the real compiler, so that a wrapper that finds us again is not led round in circles */
#define CC_SELF "NEFFCC_SELF"     /* set for neffcc-full: the file that stands for neuronx-cc, which is never the real one */

struct cc_side {
    const char *name;                  /* "<dir>/<file>" */
    const char *path;                  /* where it was read */
    struct nf_buf bytes;
};

struct cc {
    int argc;
    char **argv;
    struct cfg *cfg;
    struct nf_arena *arena;
    char *compiler;                    /* the real one; NULL: there is none */
    const char *no_compiler;           /* then: why not */
    char *self;                        /* this program's file */
    struct drv_call call;
    struct drv_wrapper wrapper;        /* what NEURON_CC_FLAGS says to whoever wraps the compiler, which is us too */
    const char *output;
    struct nf_buf graph;
    struct pipe_option *options;       /* of the call, and env:NAME */
    size_t option_count;
    struct cc_side *side;
    size_t side_count;
    int64_t began_ns;
    void (*sigpipe)(int);              /* what SIGPIPE did when we were started; we ignore it, who takes our place has it back */
    FILE *compiler_log;                /* log-neuron-cc.txt; NULL until there is something to say */
    bool no_compiler_log;              /* it cannot be opened, or is full */
    size_t compiler_log_bytes;
    /* for NEFFCC_LOG */
    const char *outcome, *via;
    struct nf_digest key;
    bool has_key;
};

enum cc_next { CC_DONE, CC_ALONE, CC_EXEC };

/* Each says how it goes on; *ret_rc is the exit code of CC_DONE. why: what to tell in debug output. */
enum cc_next cc_ask(struct cc *cc, int *ret_rc, struct nf_error *why);        /* ask.c */
enum cc_next cc_alone(struct cc *cc, int *ret_rc, struct nf_error *why);      /* alone.c */

/* Everything before the first look into a cache; what cannot be handled here ends in the real compiler and does not come back. */
void cc_begin(struct cc *cc, int argc, char **argv, struct nf_error *why);
_Noreturn void cc_end(struct cc *cc, int rc);
/* From here on a signal that would end us sets what cc_stop tells, so that there is time to clean up; then cc_end_if_stopped lets the
 * signal have its way. */
void cc_catch_signals(void);
bool cc_stop(void);
void cc_end_if_stopped(struct cc *cc);
/* NULL: it can be handled here; else why not. */
const char *cc_prepare(struct cc *cc, struct nf_error *err);
_Noreturn void cc_exec_real(struct cc *cc, const char *why);
void cc_write_log(const struct cc *cc, int rc);
/* A miss under cache_only, which is an error: says so, and returns the exit code. why (may be NULL): what is near, or why there was no look. */
#define CC_NOT_CACHED "this graph is not in the cache"
int cc_miss(struct cc *cc, const char *what, const char *why);

/* false: the output has no folder, is one, or may not be written. */
bool cc_output_possible(const struct cc *cc);
/* The artifact becomes the output file, all at once where that can be, and the compiler's words are said. NF_ECORRUPT: fd does
 * not give what it should, and there is no output; NF_ENOSPACE, NF_EIO, ...: the output cannot be written. */
int cc_deliver(struct cc *cc, int fd, uint64_t bytes, struct nf_error *err);
/* What a failed compile says on stderr: the lines of its log, then its error. Returns the exit code that neuronx-cc would have had. */
int cc_replay(struct cc *cc, const struct nf_error *err, const struct nf_str *log, size_t lines, bool remembered);
/* A line for log-neuron-cc.txt. */
void cc_log_line(struct cc *cc, struct nf_str line);
/* Reads the kernel files that the graph names. NF_ESIDEFILE. */
int cc_side_files(struct cc *cc, struct nf_error *err);

#endif
