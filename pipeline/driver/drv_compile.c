/* drv_compile.c: one graph through neuronx-cc. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "config/config.h"
#include "pipeline/driver/driver.h"
#include "pipeline/driver/drv_classify.h"
#include "pipeline/driver/drv_flags.h"
#include "pipeline/driver/drv_run.h"
#include "pipeline/driver/drv_side.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"
#include "runtime/neff.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define OUTPUT_NAME "module.neff"
#define LOG_NAME "neffd-compiler-log.txt"
#define LOG_HEAD_BYTES ((uint64_t)4 << 20)   /* of the log file; then only the tail is kept */
#define LATE_NS (5 * NF_SEC)                 /* how long an output may come after the compiler's end while something of it lives */
#define FORWARD_BURST 400                    /* lines handed on at once; then FORWARD_PER_S */
#define FORWARD_PER_S 50

struct compile {
    const struct compile_input *input;
    struct compile_sink *sink;
    struct drv_evidence evidence;
    int log_fd;
    uint64_t log_bytes, lines_not_logged;
    double tokens;
    int64_t tokens_at;
    uint64_t not_forwarded, last_forwarded;  /* last: number of the last line that went to the sink */
    char *dir;                               /* of this run alone: its working directory */
    char *output;                            /* where it must come */
    char *found;                             /* where it was found */
    const char *expected_lnc;
    char problem[512];
};

/* ------------------------------------------------------------------------------------------------------------- output */

static int level_of(struct nf_str line, int stream)
{
    static const struct {
        const char *word;
        int level;
    } words[] = {{"ERROR", NF_LOG_ERROR}, {"[CRITICAL]", NF_LOG_ERROR}, {"WARNING", NF_LOG_WARNING}, {"INFO", NF_LOG_INFO}, {"DEBUG", NF_LOG_DEBUG}};
    size_t look = NF_MIN(line.len, (size_t)120);
    for (size_t i = 0; i < NF_ARRAY_LEN(words); i++)
        if (look > 0 && memmem(line.data, look, words[i].word, strlen(words[i].word)))
            return words[i].level;
    return stream == 2 ? NF_LOG_WARNING : NF_LOG_INFO;
}

static void forward(struct compile *c, int stream, struct nf_str line)
{
    int64_t now = nf_now_ns();
    c->tokens = NF_MIN(c->tokens + (double)(now - c->tokens_at) / (double)NF_SEC * FORWARD_PER_S, (double)FORWARD_BURST);
    c->tokens_at = now;
    if (c->tokens < 1) {
        c->not_forwarded++;
        return;
    }
    c->tokens -= 1;
    c->last_forwarded = c->evidence.lines;
    sink_log(c->sink, level_of(line, stream), "neuronx-cc", line);
}

static void on_line(void *user, int stream, struct nf_str line, bool whole)
{
    struct compile *c = user;
    (void)whole;
    drv_evidence_line(&c->evidence, line);
    if (c->log_fd >= 0 && c->log_bytes < LOG_HEAD_BYTES) {
        struct nf_buf b = NF_BUF_INIT;
        nf_buf_add_str(&b, line);
        nf_buf_add_char(&b, '\n');
        if (nf_fd_write_all(c->log_fd, b.data, b.len) == NF_OK)
            c->log_bytes += b.len;
        else
            c->log_bytes = LOG_HEAD_BYTES;
        nf_buf_done(&b);
    } else {
        c->lines_not_logged++;
    }
    forward(c, stream, line);
}

static void on_alive(void *user)
{
    sink_progress(((struct compile *)user)->sink, -1);
}

static bool on_cancelled(void *user)
{
    return sink_cancelled(((struct compile *)user)->sink);
}

/* The end of what was left out, so that the last lines are always seen. */
static void finish_log(struct compile *c)
{
    size_t n = drv_evidence_tail_count(&c->evidence);
    if (c->lines_not_logged > 0 && c->log_fd >= 0) {
        struct nf_buf b = NF_BUF_INIT;
        uint64_t left_out = c->lines_not_logged > n ? c->lines_not_logged - n : 0;
        nf_buf_addf(&b, "... %llu lines left out ...\n", (unsigned long long)left_out);
        for (size_t i = n - NF_MIN((size_t)c->lines_not_logged, n); i < n; i++) {
            nf_buf_add_str(&b, drv_evidence_tail(&c->evidence, i));
            nf_buf_add_char(&b, '\n');
        }
        if (nf_fd_write_all(c->log_fd, b.data, b.len) != NF_OK)
            sink_log(c->sink, NF_LOG_WARNING, "neffd", NF_STR("the compiler's log could not be written to its end"));
        nf_buf_done(&b);
    }
    size_t unseen = c->evidence.lines - NF_MIN(c->evidence.lines, (size_t)c->last_forwarded);
    if (c->not_forwarded == 0 || unseen == 0)
        return;
    char text[96];
    nf_format(text, sizeof(text), "... %llu lines left out, the last ones follow ...", (unsigned long long)c->not_forwarded);
    sink_log(c->sink, NF_LOG_INFO, "neffd", nf_str_c(text));
    for (size_t i = n - NF_MIN(unseen, n); i < n; i++) {
        struct nf_str line = drv_evidence_tail(&c->evidence, i);
        sink_log(c->sink, level_of(line, 1), "neuronx-cc", line);
    }
}

/* ----------------------------------------------------------------------------------------------------------- artifact */

/* Whether a file is what the compiler owes us. Regular, not a link, and a NEFF by header, sizes and archive. */
static bool good_neff(struct compile *c, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0) {
        nf_format(c->problem, sizeof(c->problem), errno == ENOENT ? "there is no output file" : "the output file cannot be opened");
        return false;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        nf_format(c->problem, sizeof(c->problem), "the output is not a regular file");
        close(fd);
        return false;
    }
    if (st.st_size == 0) {
        nf_format(c->problem, sizeof(c->problem), "the output file is empty");
        close(fd);
        return false;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        nf_format(c->problem, sizeof(c->problem), "the output file cannot be mapped");
        return false;
    }
    struct neff_expect expect = {.target = c->input->target};
    uint64_t lnc;
    if (c->expected_lnc && nf_str_to_u64(nf_str_c(c->expected_lnc), &lnc) == NF_OK)
        expect.lnc_size = (uint32_t)lnc;
    struct nf_arena *arena = nf_arena_new(0);
    const char *const *problems;
    size_t n = neff_check(nf_str_n(p, (size_t)st.st_size), &expect, arena, &problems, NULL);
    if (n > 0)
        nf_format(c->problem, sizeof(c->problem), "%s", problems[0]);
    nf_arena_free(arena);
    munmap(p, (size_t)st.st_size);
    return n == 0;
}

/* The output may come late, under another name, or in a folder below: the one good NEFF in the work directory is it. */
static bool on_finished(void *user)
{
    struct compile *c = user;
    if (c->found)
        return true;
    if (good_neff(c, c->output)) {
        c->found = nf_strdup(c->output);
        return true;
    }
    char kept[sizeof(c->problem)];
    memcpy(kept, c->problem, sizeof(kept));
    struct stat st;
    if (lstat(c->output, &st) == 0)
        return false;                        /* it is there and not good: nothing else can stand for it */
    char *candidate = NULL;
    unsigned candidates = 0;
    DIR *d = opendir(c->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!nf_str_ends(nf_str_c(e->d_name), NF_STR(".neff")))
            continue;
        char *path = nf_asprintf("%s/%s", c->dir, e->d_name);
        if (good_neff(c, path)) {
            candidates++;
            free(candidate);
            candidate = path;
        } else {
            free(path);
        }
    }
    if (d)
        closedir(d);
    memcpy(c->problem, kept, sizeof(kept));
    if (candidates == 1) {
        c->found = candidate;
        return true;
    }
    free(candidate);
    return false;
}

/* -------------------------------------------------------------------------------------------------------------- input */

static int write_file(const char *path, struct nf_str bytes, struct nf_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot create %s", path);
    int r = nf_fd_write_all(fd, bytes.data, bytes.len);
    if (close(fd) < 0 && r == NF_OK)
        r = nf_status_from_errno(errno);
    return r == NF_OK ? r : nf_fail(err, r, "cannot write %s: %s", path, nf_status_text(r));
}

/* The environment of this process with the options env:NAME laid over it. */
static const char **environment(const struct compile_input *input, struct nf_arena *arena)
{
    size_t n = 0;
    while (environ[n])
        n++;
    const char **env = NF_NEW_ARRAY(arena, const char *, n + input->option_count + 1);
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        struct nf_str rest = nf_str_c(environ[i]);
        struct nf_str name = nf_str_cut(&rest, '=');
        /* What counts comes from the request alone: the same key must give the same artifact in any daemon. */
        if (!drv_env_counts(name) && !nf_str_eq_c(name, "NEURON_CC_FLAGS"))
            env[out++] = environ[i];
    }
    for (size_t i = 0; i < input->option_count; i++) {
        const struct pipe_option *o = &input->options[i];
        if (strncmp(o->name, "env:", 4) == 0)
            env[out++] = nf_arena_printf(arena, "%s=%.*s", o->name + 4, (int)NF_MIN(o->value.len, (size_t)65536), o->value.data ? o->value.data : "");
    }
    return env;
}

/* Results leave the compiler's directory for the work directory itself; those of an earlier try go. */
static const char *hand_over(struct compile *c, const char *from, const char *name, struct nf_arena *arena)
{
    const char *to = nf_arena_printf(arena, "%s/%s", c->input->work_dir, name);
    return rename(from, to) == 0 ? to : NULL;
}

/* For the artifact tree that TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS asks for: one argument a line. */
static void write_arguments(struct compile *c, const char *const *argv, struct nf_arena *arena)
{
    struct nf_buf b = NF_BUF_INIT;
    for (; *argv; argv++)
        nf_buf_addf(&b, "%s\n", *argv);
    const char *path = nf_arena_printf(arena, "%s/compiler_args.txt", c->dir);
    const char *result = write_file(path, nf_buf_str(&b), NULL) == NF_OK ? hand_over(c, path, "compiler_args.txt", arena) : NULL;
    if (result)
        sink_artifact(c->sink, "arguments", result);
    nf_buf_done(&b);
}

int drv_compile(const struct compile_input *input, struct compile_sink *sink, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct compile c = {.input = input, .sink = sink, .log_fd = -1, .tokens = FORWARD_BURST, .tokens_at = nf_now_ns()};
    drv_evidence_init(&c.evidence);
    bool proto = input->graph->kind == PIPE_KIND_HLO_PROTO;
    /* A second try in one work directory meets nothing of the first. */
    c.dir = nf_asprintf("%s/cc-XXXXXX", input->work_dir);
    int r = mkdtemp(c.dir) ? NF_OK : nf_fail_errno(err, errno, "cannot make a directory in %s", input->work_dir);
    const char *graph = nf_arena_printf(arena, "%s/%s", c.dir, proto ? "module.hlo.pb" : input->graph->module ? "module.mlir" : "module.mlir.bc");
    char *log_path = nf_asprintf("%s/%s", c.dir, LOG_NAME);
    c.output = nf_asprintf("%s/%s", c.dir, OUTPUT_NAME);
    c.expected_lnc = drv_option_value(input->id, input->options, input->option_count, "logical-nc-config", arena);
    if (r == NF_OK)
        r = write_file(graph, proto ? input->graph->original : input->graph->canonical, err);
    if (r == NF_OK)
        r = drv_side_stage(input, c.dir, err);
    if (r != NF_OK)
        goto out;
    c.log_fd = open(log_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    const char *before[] = {input->id->path, "compile", graph, "--target", input->target, NULL};
    const char *after[] = {"--output", c.output, "--verbose=35", NULL};
    const char **argv = drv_arguments(input->id, input->options, input->option_count, before, after, arena);
    write_arguments(&c, argv, arena);
    struct drv_command command = {
        .path = input->id->path, .argv = argv, .env = environment(input, arena), .cwd = c.dir,
        .time_limit_ns = input->time_limit_ns, .grace_ns = input->cfg ? input->cfg->compiler_grace_ns : 2 * NF_SEC,
        .memory_limit_bytes = input->memory_limit_bytes ? input->memory_limit_bytes : input->cfg ? input->cfg->compiler_memory : 0,
        .line = on_line, .alive = on_alive, .cancelled = on_cancelled, .finished = on_finished, .late_ns = LATE_NS, .user = &c,
    };
    struct drv_result result;
    r = drv_run(&command, &result, err);
    if (r != NF_OK)
        goto out;
    sink->peak_rss_bytes = NF_MAX(sink->peak_rss_bytes, result.peak_rss_bytes);
    finish_log(&c);
    bool clean = result.end == DRV_EXITED && result.status == 0;
    if (!clean || !on_finished(&c))
        r = drv_classify(input->id->compiler, &c.evidence, &result, clean ? c.problem : NULL, err);
    if (r != NF_OK && err)
        err->stage = PIPE_STAGE_COMPILE;
    const char *log = c.log_fd >= 0 ? hand_over(&c, log_path, LOG_NAME, arena) : NULL;
    if (log)
        sink_artifact(sink, "log", log);
    if (r == NF_OK) {
        const char *neff = hand_over(&c, c.found, "artifact.neff", arena);
        if (neff)
            sink_artifact(sink, "neff", neff);
        else
            r = nf_fail_errno(err, errno, "cannot move %s", c.found);
    }
out:
    if (c.log_fd >= 0)
        close(c.log_fd);
    free(log_path);
    free(c.output);
    free(c.dir);
    free(c.found);
    drv_evidence_done(&c.evidence);
    nf_arena_free(arena);
    return r;
}

/* -------------------------------------------------------------------------------------------------------- registration */

#define NEURON_TARGETS(X) X(trn1) X(trn1n) X(trn2) X(trn3) X(inf2)
#define X(name)                                                                                            \
    static int identify_##name(const struct cfg *cfg, struct target_id *ret_id, struct nf_error *err)      \
    {                                                                                                      \
        return drv_identify(cfg, #name, NULL, ret_id, err);                                                \
    }                                                                                                      \
    static const struct target_ops target_##name = {#name, identify_##name, drv_options, drv_compile};
NEURON_TARGETS(X)
#undef X

void drv_register(void)
{
#define X(name) target_register(&target_##name);
    NEURON_TARGETS(X)
#undef X
}
