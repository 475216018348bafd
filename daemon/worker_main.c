/* worker_main.c: `neffd --worker`: one process that reads, keys and compiles graphs, and may die of them.
 *
 * Two threads. The main one reads a request from descriptor 3, does it, writes the answer. The watcher ends the process with all
 * its descendants when the daemon's end of the pipe closes or SIGTERM comes (also the parent-death signal), whatever the main
 * thread is stuck in. The process is a sub-reaper, so what a compiler leaves behind is handed to it and killed after each job.
 *
 * The last imported graph is kept in its arena: a Compile that follows the Key of its job finds it. */
#include "daemon/worker.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cache/key.h"
#include "config/config.h"
#include "daemon/details.h"
#include "daemon/tree.h"
#include "pipeline/driver/driver.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_FD 3
#define OOM_SCORE "500"

struct state {
    struct cfg *cfg;
    struct nf_buf in;
    size_t in_at;
    /* the graph of the last job */
    uint64_t job;
    struct nf_arena *arena;
    struct nf_map_view input;
    bool has_input;
    struct pipe_graph *graph;
    const struct pipe_option *options;
    size_t option_count;
    struct target_id id;
    /* the compile under way */
    uint64_t compile_job;
    Neffd__Worker__V1__OutputFile files[16];
    Neffd__Worker__V1__OutputFile *file_list[16];
    size_t file_count;
    Neffd__V1__StageTime stages[8];
    Neffd__V1__StageTime *stage_list[8];
    size_t stage_count;
    int stage;
    int64_t stage_began_ns, job_began_ns;
};

/* -------------------------------------------------------------------------------------------------------------- dying */

static void reap_descendants(void)
{
    for (int i = 0; i < 200; i++) {
        if (tree_kill(getpid(), false) == 0)
            break;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        nf_sleep_ns(2 * NF_MS);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void *watch(void *arg)
{
    int signals = *(int *)arg;
    struct pollfd p[2] = {{.fd = PIPE_FD, .events = POLLRDHUP}, {.fd = signals, .events = POLLIN}};
    for (;;) {
        int n = poll(p, 2, -1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || (p[0].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) || (p[1].revents & POLLIN)) {
            /* Twice: what was born between the list and the kill is then ours, too. */
            reap_descendants();
            _exit(0);
        }
    }
}

static void limit(int resource, uint64_t value)
{
    if (!value)
        return;
    /* The soft one alone: what a worker starts (a compiler) has limits of its own. */
    struct rlimit r;
    if (getrlimit(resource, &r) != 0)
        return;
    r.rlim_cur = NF_MIN((rlim_t)value, r.rlim_max);
    setrlimit(resource, &r);
}

/* ------------------------------------------------------------------------------------------------------------- answers */

static uint64_t peak_rss(void)
{
    struct rusage self, children;
    uint64_t peak = 0;
    if (getrusage(RUSAGE_SELF, &self) == 0)
        peak = (uint64_t)self.ru_maxrss << 10;
    if (getrusage(RUSAGE_CHILDREN, &children) == 0)
        peak = NF_MAX(peak, (uint64_t)children.ru_maxrss << 10);
    return peak;
}

static void send_frame(int type, const ProtobufCMessage *m)
{
    if (rpc_frame_write(PIPE_FD, (uint8_t)type, m) < 0)
        _exit(0);   /* the daemon is gone, and the watcher is about to say so */
}

static void send_failed(uint64_t job, const struct nf_error *err)
{
    Neffd__V1__Error e = NEFFD__V1__ERROR__INIT;
    Neffd__Worker__V1__Failed f = NEFFD__WORKER__V1__FAILED__INIT;
    rpc_error_to_message(err, &e);
    f.job = job;
    f.error = &e;
    f.peak_rss_bytes = peak_rss();
    send_frame(NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_FAILED, &f.base);
}

static void end_stage(struct state *s)
{
    if (!s->stage || s->stage_count == NF_ARRAY_LEN(s->stages))
        return;
    Neffd__V1__StageTime *t = &s->stages[s->stage_count];
    neffd__v1__stage_time__init(t);
    t->stage = (Neffd__V1__Stage)s->stage;
    t->us = (uint64_t)((nf_now_ns() - s->stage_began_ns) / 1000);
    t->peak_rss_bytes = peak_rss();
    s->stage_list[s->stage_count++] = t;
    s->stage = 0;
}

static void begin_stage(struct state *s, int stage)
{
    end_stage(s);
    s->stage = stage;
    s->stage_began_ns = nf_now_ns();
}

static void send_event(struct state *s, Neffd__Worker__V1__Event *e)
{
    e->job = s->compile_job;
    send_frame(NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_EVENT, &e->base);
}

static void on_stage(void *user, int stage, const char *detail)
{
    struct state *s = user;
    begin_stage(s, stage);
    Neffd__Worker__V1__Event e = NEFFD__WORKER__V1__EVENT__INIT;
    Neffd__V1__StageEvent m = NEFFD__V1__STAGE_EVENT__INIT;
    m.stage = (Neffd__V1__Stage)stage;
    m.since_start_us = (uint64_t)((nf_now_ns() - s->job_began_ns) / 1000);
    m.detail = (char *)(uintptr_t)(detail ? detail : "");
    e.event_case = NEFFD__WORKER__V1__EVENT__EVENT_STAGE;
    e.stage = &m;
    send_event(s, &e);
}

static void on_progress(void *user, double fraction)
{
    Neffd__Worker__V1__Event e = NEFFD__WORKER__V1__EVENT__INIT;
    Neffd__V1__Progress m = NEFFD__V1__PROGRESS__INIT;
    m.fraction = fraction;
    e.event_case = NEFFD__WORKER__V1__EVENT__EVENT_PROGRESS;
    e.progress = &m;
    send_event(user, &e);
}

static void on_log(void *user, int level, const char *source, struct nf_str line)
{
    Neffd__Worker__V1__Event e = NEFFD__WORKER__V1__EVENT__INIT;
    Neffd__V1__LogLine m = NEFFD__V1__LOG_LINE__INIT;
    char *text = nf_strndup(line.data ? line.data : "", NF_MIN(line.len, (size_t)4096));
    m.level = (uint32_t)level;
    m.source = (char *)(uintptr_t)(source ? source : "");
    m.line = text;
    e.event_case = NEFFD__WORKER__V1__EVENT__EVENT_LOG;
    e.log = &m;
    send_event(user, &e);
    free(text);
}

static void on_artifact(void *user, const char *kind, const char *path)
{
    struct state *s = user;
    if (s->file_count == NF_ARRAY_LEN(s->files))
        return;
    Neffd__Worker__V1__OutputFile *f = &s->files[s->file_count];
    neffd__worker__v1__output_file__init(f);
    f->kind = nf_arena_strn(s->arena, kind, strlen(kind));
    f->path = nf_arena_strn(s->arena, path, strlen(path));
    s->file_list[s->file_count++] = f;
}

/* ------------------------------------------------------------------------------------------------------------ identify */

static void identify(struct state *s)
{
    Neffd__Worker__V1__Identified reply = NEFFD__WORKER__V1__IDENTIFIED__INIT;
    enum { MAX = 32 };
    Neffd__Worker__V1__Identity items[MAX], *list[MAX];
    Neffd__V1__Error errors[MAX];
    struct nf_error *errs = nf_alloc_array(MAX, sizeof *errs);
    struct target_id *ids = nf_alloc_array(MAX, sizeof *ids);
    size_t n = 0;
    const struct target_ops *ops;
    for (size_t i = 0; n < MAX && (ops = target_at(i)); i++, n++) {
        Neffd__Worker__V1__Identity *m = list[n] = &items[n];
        neffd__worker__v1__identity__init(m);
        m->target = (char *)(uintptr_t)ops->name;
        if (ops->identify(s->cfg, &ids[n], &errs[n]) < 0) {
            neffd__v1__error__init(&errors[n]);
            rpc_error_to_message(&errs[n], &errors[n]);
            m->error = &errors[n];
            continue;
        }
        m->compiler = ids[n].compiler;
        m->version = ids[n].version;
        m->isa = ids[n].isa;
        m->remark = ids[n].remark;
        m->path = ids[n].path;
        m->mtime_ns = ids[n].mtime_ns;
        m->size = ids[n].size;
    }
    reply.identities = list;
    reply.n_identities = n;
    send_frame(NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_IDENTIFIED, &reply.base);
    free(errs);
    free(ids);
}

/* ----------------------------------------------------------------------------------------------------------------- key */

static void forget(struct state *s)
{
    s->job = 0;
    s->graph = NULL;
    s->options = NULL;
    nf_arena_free(s->arena);
    s->arena = NULL;
    if (s->has_input)
        nf_map_view_close(&s->input);
    s->has_input = false;
}

static void take_id(struct target_id *id, const Neffd__Worker__V1__Identity *m)
{
    *id = (struct target_id){.mtime_ns = m->mtime_ns, .size = m->size};
    nf_format(id->target, sizeof id->target, "%s", m->target);
    nf_format(id->compiler, sizeof id->compiler, "%s", m->compiler);
    nf_format(id->version, sizeof id->version, "%s", m->version);
    nf_format(id->isa, sizeof id->isa, "%s", m->isa);
    nf_format(id->path, sizeof id->path, "%s", m->path);
}

static int import(struct state *s, const Neffd__Worker__V1__Key *k, struct nf_error *err)
{
    forget(s);
    if (!k->identity)
        return nf_fail(err, NF_EPROTOCOL, "a request without a compiler");
    take_id(&s->id, k->identity);
    const struct target_ops *ops = target_find(nf_str_c(s->id.target));
    if (!ops)
        return nf_fail(err, NF_EUNSUPPORTED, "unknown target %s", s->id.target);
    int rc = nf_map_view_open(k->input_path, &s->input, err);
    if (rc < 0)
        return rc;
    s->has_input = true;
    s->arena = nf_arena_new(s->cfg->max_graph_memory);
    struct hlo_limits limits = hlo_limits_default;
    limits.input_bytes = (size_t)NF_MIN(s->cfg->max_input, (uint64_t)limits.input_bytes);
    limits.depth = (uint32_t)s->cfg->max_depth;
    limits.ops = (uint32_t)s->cfg->max_ops;
    limits.literal_bytes = s->cfg->max_literal;
    limits.are_options = true;
    begin_stage(s, NEFFD__V1__STAGE__STAGE_IMPORT);
    rc = pipe_import(nf_str_n(s->input.data, s->input.len), (enum pipe_kind)k->input_kind, "", &limits, s->arena, &s->graph, err);
    if (rc < 0) {
        if (err && !err->stage)
            err->stage = NEFFD__V1__STAGE__STAGE_IMPORT;
        return rc;
    }
    if (nf_arena_over(s->arena)) {
        nf_fail(err, NF_ELIMIT, "the graph needs more than %llu bytes of memory", (unsigned long long)s->cfg->max_graph_memory);
        return hlo_limit_hint(&limits, "max_graph_memory", err);
    }
    struct pipe_option *given = NF_NEW_ARRAY(s->arena, struct pipe_option, k->n_options + 1);
    for (size_t i = 0; i < k->n_options; i++) {
        given[i].name = nf_arena_strn(s->arena, k->options[i]->name, strlen(k->options[i]->name));
        given[i].value = nf_arena_str(s->arena, nf_str_c(k->options[i]->value));
    }
    rc = ops->options(&s->id, given, k->n_options, s->arena, &s->options, &s->option_count, err);
    if (rc < 0)
        return rc;
    end_stage(s);
    s->job = k->job;
    return NF_OK;
}

static struct pipe_side_file *side_files(struct state *s, const Neffd__Worker__V1__Key *k)
{
    struct pipe_side_file *list = NF_NEW_ARRAY(s->arena, struct pipe_side_file, k->n_side_files + 1);
    for (size_t i = 0; i < k->n_side_files; i++) {
        const Neffd__Worker__V1__InputFile *f = k->side_files[i];
        list[i].name = nf_arena_strn(s->arena, f->name, strlen(f->name));
        list[i].path = nf_arena_strn(s->arena, f->path, strlen(f->path));
        list[i].size = f->size;
        if (f->sha256.len == NF_DIGEST_BYTES)
            memcpy(list[i].sha256.bytes, f->sha256.data, NF_DIGEST_BYTES);
    }
    return list;
}

static char *text_of(struct nf_arena *a, struct nf_str s) { return nf_arena_strn(a, s.data ? s.data : "", s.len); }

static int write_file(struct nf_arena *a, const char *dir, const char *name, struct nf_str bytes, struct nf_error *err)
{
    char *path = nf_arena_printf(a, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot make %s", path);
    int rc = nf_fd_write_all(fd, bytes.data, bytes.len);
    if (close(fd) != 0 && rc == NF_OK)
        rc = nf_status_from_errno(errno);
    return rc < 0 ? nf_fail(err, rc, "cannot write %s: %s", path, nf_status_text(rc)) : NF_OK;
}

/* Texts go as C strings: what a graph's names hold beyond UTF-8 without NUL is shown escaped, and never decides a key here. */
static char *clean_text(struct nf_arena *a, struct nf_str s)
{
    char *t = text_of(a, s);
    bool bad = !nf_utf8_valid(s);
    if (!bad && strlen(t) == s.len)
        return t;
    for (size_t i = 0; i < s.len; i++)
        if (t[i] == '\0' || (bad && (unsigned char)t[i] >= 0x80))
            t[i] = '?';
    return t;
}

static int write_details(struct state *s, const Neffd__Worker__V1__Key *k, const struct cache_component *components, size_t count, uint64_t *ret_bytes,
                         uint64_t *ret_ops, struct nf_error *err)
{
    struct nf_arena *a = s->arena;
    Neffd__Worker__V1__Details d = NEFFD__WORKER__V1__DETAILS__INIT;
    d.n_components = count;
    d.components = NF_NEW_ARRAY(a, Neffd__Worker__V1__Component *, count + 1);
    Neffd__Worker__V1__Component *items = NF_NEW_ARRAY(a, Neffd__Worker__V1__Component, count + 1);
    for (size_t i = 0; i < count; i++) {
        Neffd__Worker__V1__Component *c = d.components[i] = &items[i];
        neffd__worker__v1__component__init(c);
        c->component = clean_text(a, components[i].component);
        c->name = clean_text(a, components[i].name);
        c->value = clean_text(a, components[i].value);
        c->location = clean_text(a, components[i].location);
        *ret_ops += cache_component_is_op(&components[i]);
    }
    struct nf_buf b = NF_BUF_INIT;
    int rc = rpc_encode_limited(&d.base, DETAILS_MAX_BYTES, &b);
    if (rc < 0)
        nf_fail(err, rc, "the outline of the graph is too large");
    else
        rc = write_file(a, k->work_dir, DETAILS_FILE, nf_buf_str(&b), err);
    *ret_bytes = b.len;
    nf_buf_done(&b);
    return rc;
}

static int key(struct state *s, const Neffd__Worker__V1__Key *k, Neffd__Worker__V1__Keyed *reply, struct nf_digest *ret_key, struct nf_error *err)
{
    const struct pipe_component *parts;
    size_t count;
    int rc = import(s, k, err);
    if (rc < 0)
        return rc;
    begin_stage(s, NEFFD__V1__STAGE__STAGE_STABLEHLO);
    pipe_components(s->graph, &s->id, s->options, s->option_count, side_files(s, k), k->n_side_files, nf_str_c(k->cache_namespace),
                    nf_str_c(k->base_key), s->arena, &parts, &count);
    struct cache_component *components = NF_NEW_ARRAY(s->arena, struct cache_component, count + 1);
    for (size_t i = 0; i < count; i++)
        components[i] = (struct cache_component){nf_str_c(parts[i].component), nf_str_c(parts[i].name), parts[i].value, parts[i].location};
    rc = cache_key_canonical(components, count, ret_key, err);
    if (rc < 0)
        return rc;
    rc = write_details(s, k, components, count, &reply->details_bytes, &reply->ops, err);
    if (rc == NF_OK)
        rc = write_file(s->arena, k->work_dir, DETAILS_TEXT, s->graph->canonical, err);
    end_stage(s);
    reply->job = k->job;
    reply->canonical_key = rpc_binary(ret_key->bytes, NF_DIGEST_BYTES);
    reply->canonical_bytes = s->graph->canonical.len;
    reply->lowered = s->graph->kind == PIPE_KIND_FX_GRAPH;
    reply->input_kind = (Neffd__V1__InputKind)s->graph->kind;
    return rc;
}

static void do_key(struct state *s, const Neffd__Worker__V1__Key *k)
{
    struct nf_error err = {0};
    struct nf_digest digest;
    Neffd__Worker__V1__Keyed reply = NEFFD__WORKER__V1__KEYED__INIT;
    s->compile_job = k->job;
    s->stage_count = 0;
    s->job_began_ns = nf_now_ns();
    if (key(s, k, &reply, &digest, &err) < 0) {
        s->stage = 0;
        forget(s);
        send_failed(k->job, &err);
        return;
    }
    reply.stages = s->stage_list;
    reply.n_stages = s->stage_count;
    send_frame(NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_KEYED, &reply.base);
}

/* ------------------------------------------------------------------------------------------------------------- compile */

static void do_compile(struct state *s, const Neffd__Worker__V1__Compile *c)
{
    struct nf_error err = {0};
    const Neffd__Worker__V1__Key *k = c->key;
    s->file_count = s->stage_count = 0;
    s->job_began_ns = nf_now_ns();
    if (!k) {
        nf_fail(&err, NF_EPROTOCOL, "a compile without its request");
        send_failed(0, &err);
        return;
    }
    s->compile_job = k->job;
    if (s->job != k->job && import(s, k, &err) < 0) {
        s->stage = 0;
        forget(s);
        send_failed(k->job, &err);
        return;
    }
    struct compile_input in = {
        .graph = s->graph, .target = s->id.target, .id = &s->id, .options = s->options, .option_count = s->option_count,
        .side_files = side_files(s, k), .side_file_count = k->n_side_files, .work_dir = c->work_dir,
        .time_limit_ns = c->time_limit_ms > (uint64_t)INT64_MAX / NF_MS ? 0 : (int64_t)c->time_limit_ms * NF_MS,
        .memory_limit_bytes = c->memory_limit_bytes, .cfg = s->cfg,
    };
    struct compile_sink sink = {.user = s, .stage = on_stage, .progress = on_progress, .log = on_log, .artifact = on_artifact};
    int64_t began = nf_now_ns();
    int rc = pipe_compile(&in, &sink, &err);
    end_stage(s);
    reap_descendants();
    if (rc < 0) {
        if (!err.code)
            nf_fail(&err, rc, "%s", nf_status_text(rc));
        send_failed(k->job, &err);
    } else {
        Neffd__Worker__V1__Compiled m = NEFFD__WORKER__V1__COMPILED__INIT;
        m.job = k->job;
        m.files = s->file_list;
        m.n_files = s->file_count;
        m.stages = s->stage_list;
        m.n_stages = s->stage_count;
        m.peak_rss_bytes = NF_MAX(peak_rss(), sink.peak_rss_bytes);
        m.compile_us = (uint64_t)((nf_now_ns() - began) / 1000);
        send_frame(NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_COMPILED, &m.base);
    }
    forget(s);
}

/* ---------------------------------------------------------------------------------------------------------------- main */

static bool serve_one(struct state *s)
{
    struct rpc_frame f;
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (rpc_frame_read(PIPE_FD, &s->in, &s->in_at, &f) < 0)
        return false;
    const ProtobufCMessageDescriptor *d = f.type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_IDENTIFY ? &neffd__worker__v1__identify__descriptor
                                          : f.type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_KEY    ? &neffd__worker__v1__key__descriptor
                                          : f.type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_COMPILE
                                              ? &neffd__worker__v1__compile__descriptor
                                              : NULL;
    if (!d || rpc_decode(d, f.payload, &m, &err) < 0) {
        if (!d)
            nf_fail(&err, NF_EPROTOCOL, "unknown request %u", f.type);
        send_failed(0, &err);
        return true;
    }
    if (f.type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_IDENTIFY)
        identify(s);
    else if (f.type == NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_KEY)
        do_key(s, (const Neffd__Worker__V1__Key *)m);
    else
        do_compile(s, (const Neffd__Worker__V1__Compile *)m);
    protobuf_c_message_free_unpacked(m, NULL);
    return true;
}

static void lower_oom_standing(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, OOM_SCORE, sizeof OOM_SCORE - 1) < 0)
        nf_log(NF_LOG_DEBUG, "worker", "oom score", "errno=%d", errno);
    close(fd);
}

int worker_main(int argc, char **argv)
{
    static struct state s;
    static int signals;
    struct nf_error err = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    fcntl(PIPE_FD, F_SETFD, FD_CLOEXEC);
    pthread_t watcher;
    if (signals < 0 || pthread_create(&watcher, NULL, watch, &signals) != 0)
        return 8;
    pthread_detach(watcher);
    /* argv[1] is --worker; the rest are the daemon's settings. */
    char **args = nf_alloc_array((size_t)argc + 1, sizeof *args);
    int n = 0;
    for (int i = 0; i < argc; i++)
        if (i != 1)
            args[n++] = argv[i];
    if (cfg_load(&(struct cfg_sources){.program = "neffd --worker", .argc = n, .argv = args, .file = ""}, &s.cfg, &err) < 0) {
        nf_error_print("neffd --worker", &err);
        return nf_status_exit(err.code);
    }
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    limit(RLIMIT_AS, s.cfg->worker_memory);
    limit(RLIMIT_CPU, (uint64_t)(s.cfg->worker_cpu_time_ns / NF_SEC));
    lower_oom_standing();
    drv_register();
    target_register(&target_cpu);
    Neffd__Worker__V1__Hello hello = NEFFD__WORKER__V1__HELLO__INIT;
    hello.pid = (uint32_t)getpid();
    hello.version = (char *)(uintptr_t)NEFFD_VERSION;
    send_frame(NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_HELLO, &hello.base);
    while (serve_one(&s))
        ;
    reap_descendants();
    _exit(0);
}
