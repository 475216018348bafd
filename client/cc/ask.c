/* ask.c: the way through the local tier and the daemon. */
#include "client/cc/cc.h"

#include "base/clock.h"
#include "base/log.h"
#include "client/client_internal.h"
#include "client/wire.h"

#include <fcntl.h>
#include <unistd.h>

struct waiting {
    struct cc *cc;
    int64_t next_dot, next_word;
};

/* While we wait: dots on stdout as neuronx-cc prints them, the compiler's lines in its log file, warnings of the daemon and once a minute
 * how far it is on stderr. */
static int on_event(void *user, const char *line, const void *bytes, size_t len)
{
    struct waiting *w = user;
    Neffd__V1__CompileEvent *e = neffd__v1__compile_event__unpack(NULL, len, bytes);
    int64_t now = nf_now_ns();
    nf_log(NF_LOG_DEBUG, "neffcc", line, " ");
    bool log = e && e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_LOG, compilers = log && strcmp(e->log->source, "neuronx-cc") == 0;
    if (compilers) {
        cc_log_line(w->cc, nf_str_c(e->log->line));
    } else if (log && e->log->level <= 1 && strcmp(e->log->source, "neffd") == 0) {
        fprintf(stderr, "neffcc: warning: %s\n", e->log->line);
    } else if (now >= w->next_word && e && e->event_case != NEFFD__V1__COMPILE_EVENT__EVENT_DONE && e->event_case != NEFFD__V1__COMPILE_EVENT__EVENT_FAILED) {
        fprintf(stderr, "neffcc: waiting: %s\n", line);
        w->next_word = now + CC_WORD_NS;
    }
    if (now >= w->next_dot) {
        putchar('.');
        fflush(stdout);
        w->next_dot = now + CC_DOT_NS;
    }
    if (e)
        neffd__v1__compile_event__free_unpacked(e, NULL);
    return 0;
}

static const char *outcome_word(int outcome)
{
    switch (outcome) {
    case NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL: return "hit_local";
    case NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED: return "hit_shared";
    case NEFFD__V1__OUTCOME__OUTCOME_JOINED: return "joined";
    case NEFFD__V1__OUTCOME__OUTCOME_COMPILED: return "compiled";
    default: return "miss";
    }
}

/* What the compiler itself has said, which the real one would say again. Everything else is our own trouble. */
static bool compilers_word(int code)
{
    return code == NF_ECOMPILEFAILED || code == NF_ECOMPILERCRASH || code == NF_ECOMPILERKILLED || code == NF_ENOMEM ||
           code == NF_ECOMPILERUNSTABLE || code == NF_ESIDEFILE || code == NF_ECOMPILETIMEOUT;
}

static int deliver_artifact(struct cc *cc, const neffd_artifact *a, struct nf_error *err)
{
    int fd = a->hit ? cache_hit_fd(a->hit) : a->fd, opened = -1;
    if (fd < 0) {
        opened = fd = open(neffd_artifact_path(a), O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return nf_fail(err, NF_ECORRUPT, "cannot open %s", neffd_artifact_path(a));
    }
    int r = cc_deliver(cc, fd, neffd_artifact_bytes(a), err);
    if (opened >= 0)
        close(opened);
    return r;
}

enum cc_next cc_ask(struct cc *cc, int *ret_rc, struct nf_error *why)
{
    neffd_client *client = NULL;
    neffd_client_options o = {.struct_size = sizeof(o), .start_daemon = cc->cfg->start};
    if (cl_client_open(&o, "neffcc " NEFFD_VERSION, &client, why) != NF_OK)
        return CC_ALONE;
    neffd_option *options = NF_NEW_ARRAY(cc->arena, neffd_option, cc->option_count + 1);
    for (size_t i = 0; i < cc->option_count; i++)
        options[i] = (neffd_option){cc->options[i].name, nf_arena_strn(cc->arena, cc->options[i].value.data ? cc->options[i].value.data : "",
                                                                       cc->options[i].value.len)};
    neffd_side_file *side = NF_NEW_ARRAY(cc->arena, neffd_side_file, cc->side_count + 1);
    for (size_t i = 0; i < cc->side_count; i++)
        side[i] = (neffd_side_file){cc->side[i].name, cc->side[i].bytes.data, cc->side[i].bytes.len};
    const char *slash = strrchr(cc->call.input, '/');
    struct waiting waiting;
    neffd_request q = {
        .struct_size = sizeof(q), .graph = cc->graph.data, .graph_bytes = cc->graph.len, .target = cc->call.target,
        .options = options, .option_count = cc->option_count, .side_files = side, .side_file_count = cc->side_count,
        .name = slash ? slash + 1 : cc->call.input, .on_event = on_event, .user = &waiting,
        .ignore_failures = cc->wrapper.retry_failed, .no_publish = cc->wrapper.no_cache,
    };
    int64_t now = nf_now_ns();
    waiting = (struct waiting){cc, now + CC_DOT_NS, now + CC_WORD_NS};
    struct cl_answer answer = {.brief = true};
    struct nf_error err = {0};
    enum cl_action action = cc->cfg->cache_only ? CL_EXPLAIN : CL_COMPILE;
    int r = cl_ask(client, &q, action, &answer, &err);
    enum cc_next next = CC_ALONE;
    const Neffd__V1__Done *done = answer.done;
    cc->via = answer.asked_daemon ? "daemon" : "cache";
    if (done && done->canonical_key.len == NF_DIGEST_BYTES) {
        memcpy(cc->key.bytes, done->canonical_key.data, NF_DIGEST_BYTES);
        cc->has_key = true;
    } else if (answer.artifact && answer.artifact->hit) {
        cc->key = cache_hit_footer(answer.artifact->hit)->key;
        cc->has_key = true;
    }
    if (r == NF_OK && answer.artifact) {
        cc->outcome = outcome_word(neffd_artifact_outcome(answer.artifact));
        r = deliver_artifact(cc, answer.artifact, why);
        *ret_rc = r == NF_OK || r == NF_ECORRUPT ? 0 : cc_replay(cc, why, NULL, 0, false);
        next = r == NF_ECORRUPT ? CC_ALONE : CC_DONE;
    } else if (r == NF_OK || (cc->cfg->cache_only && r == NF_ENOTFOUND)) {
        struct nf_buf line = NF_BUF_INIT;
        if (done && done->explanation)
            cl_explanation_line(done->explanation, 8, &line);
        *ret_rc = cc_miss(cc, CC_NOT_CACHED, line.data);
        nf_buf_done(&line);
        next = CC_DONE;
    } else if (answer.failed && compilers_word(err.code)) {
        struct nf_str *log = NF_NEW_ARRAY(cc->arena, struct nf_str, answer.failed->n_log_tail + 1);
        for (size_t i = 0; i < answer.failed->n_log_tail; i++)
            log[i] = nf_str_c(answer.failed->log_tail[i]);
        if (answer.failed->canonical_key.len == NF_DIGEST_BYTES) {
            memcpy(cc->key.bytes, answer.failed->canonical_key.data, NF_DIGEST_BYTES);
            cc->has_key = true;
        }
        err.exit_code = answer.failed->exit_code;
        *ret_rc = cc_replay(cc, &err, log, answer.failed->n_log_tail, answer.failed->from_cache);
        next = CC_DONE;
    } else if (err.code == NF_ELOCKTIMEOUT) {
        /* The holder is alive and compiles just this. Starting another one would end in as many compiles as there are waiters. */
        *ret_rc = cc_replay(cc, &err, NULL, 0, false);
        next = CC_DONE;
    } else {
        *why = err;
        /* What the daemon cannot key, we cannot either. */
        next = err.code == NF_EGRAPH || err.code == NF_EUNSUPPORTED || err.code == NF_ELIMIT ? CC_EXEC : CC_ALONE;
    }
    cl_answer_done(&answer);
    neffd_client_close(client);
    return next;
}
