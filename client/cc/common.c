#include "client/cc/cc.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "pipeline/side.h"
#include "runtime/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ------------------------------------------------------------------------------------------------------- NEFFCC_LOG */

static void json_text(struct nf_buf *b, const char *s)
{
    struct nf_buf clean = NF_BUF_INIT;
    for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
        if (*p == '"' || *p == '\\')
            nf_buf_addf(&clean, "\\%c", *p);
        else if (*p < ' ')
            nf_buf_addf(&clean, "\\u%04x", *p);
        else
            nf_buf_add_char(&clean, (char)*p);
    }
    nf_buf_add_char(b, '"');
    if (clean.data && nf_utf8_valid(nf_buf_str(&clean)))
        nf_buf_add_str(b, nf_buf_str(&clean));
    else
        for (size_t i = 0; i < clean.len; i++)        /* bytes that are no text: one by one */
            if ((unsigned char)clean.data[i] < 0x80)
                nf_buf_add_char(b, clean.data[i]);
            else
                nf_buf_addf(b, "\\u%04x", (unsigned char)clean.data[i]);
    nf_buf_add_char(b, '"');
    nf_buf_done(&clean);
}

void cc_write_log(const struct cc *cc, int rc)
{
    const char *path = cc->cfg ? cc->cfg->neffcc_log : getenv("NEFFCC_LOG");
    if (!path || !path[0])
        return;
    struct nf_buf b = NF_BUF_INIT;
    char hex[NF_DIGEST_HEX] = "";
    if (cc->has_key)
        nf_digest_hex(&cc->key, hex);
    nf_buf_add_c(&b, "{\"argv\":[");
    for (int i = 0; i < cc->argc; i++) {
        if (i)
            nf_buf_add_char(&b, ',');
        json_text(&b, cc->argv[i]);
    }
    nf_buf_addf(&b, "],\"outcome\":\"%s\",\"canonical_key\":\"%s\",\"rc\":%d,\"total_us\":%lld,\"via\":\"%s\"}\n", cc->outcome, hex, rc,
                (long long)(nf_now_ns() - cc->began_ns) / 1000, cc->via);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
        (void)!write(fd, b.data, b.len);               /* one write a line; a log that cannot be written breaks no build */
        close(fd);
    }
    nf_buf_done(&b);
}

/* ------------------------------------------------------------------------------------------------------ the real one */

static volatile pid_t child;
static volatile sig_atomic_t ended_by;

static void on_stop(int sig) { ended_by = sig; }

static void pass_on(int sig)
{
    if (child > 0)
        kill(child, sig);
}

/* Sets a handler for the signals that end us, where `was` is what stands now: one that is ignored stays so. ret_which (may be NULL): those. */
static void each_end_signal(void (*was)(int), void (*handler)(int), int flags, sigset_t *ret_which)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction now, act = {.sa_handler = handler, .sa_flags = flags};
    for (size_t i = 0; i < NF_ARRAY_LEN(signals); i++) {
        if (sigaction(signals[i], NULL, &now) != 0 || now.sa_handler != was)
            continue;
        sigaction(signals[i], &act, NULL);
        if (ret_which)
            sigaddset(ret_which, signals[i]);
    }
}

/* Without settings (one of them is wrong) the variable speaks for itself. */
static bool cache_only(const struct cc *cc)
{
    const char *v = getenv("NEFFD_CACHE_ONLY");
    return cc->cfg ? cc->cfg->cache_only : v && v[0] && strcmp(v, "0") != 0;
}

int cc_miss(struct cc *cc, const char *what, const char *why)
{
    cc->outcome = "miss";
    fprintf(stderr, "neffcc: cache_only: %s%s%s\nhint: without NEFFD_CACHE_ONLY it would be compiled; `neffctl explain` says why it misses\n", what,
            why && why[0] ? ": " : "", why ? why : "");
    return nf_status_exit(NF_ENOTFOUND);
}

/* With a log to write, we must see it end; else it takes our place. */
_Noreturn void cc_exec_real(struct cc *cc, const char *why)
{
    struct drv_call call;
    if (cache_only(cc) && drv_call_parse(cc->argc - 1, cc->argv + 1, cc->arena, &call, NULL) == NF_OK) {
        /* Also what cannot be looked up would be a compile. */
        cc->via = "cache";
        int rc = cc_miss(cc, "this graph cannot be looked up", why);
        cc_write_log(cc, rc);
        exit(rc);
    }
    cc->via = "exec";
    if (!cc->compiler) {
        bool both = why && why[0] && strcmp(why, cc->no_compiler) != 0;
        fprintf(stderr, "neffcc: the real compiler cannot be found: %s%s%s\nhint: install neuronx-cc, or name it with NEFFD_NEURONX_CC\n", cc->no_compiler,
                both ? "; it is needed: " : "", both ? why : "");
        cc_write_log(cc, 127);
        exit(127);
    }
    setenv(CC_ACTIVE, "1", 1);
    signal(SIGPIPE, cc->sigpipe);
    char *name = cc->argv[0];
    cc->argv[0] = cc->compiler;
    const char *log = cc->cfg ? cc->cfg->neffcc_log : getenv("NEFFCC_LOG");
    int e = 0;
    if (log && log[0]) {
        /* Who ignores a signal (nohup) goes on doing so, and so does the compiler. None comes between the start and our knowing whom. */
        sigset_t ours, before;
        sigemptyset(&ours);
        each_end_signal(on_stop, SIG_DFL, 0, NULL);
        each_end_signal(SIG_DFL, pass_on, 0, &ours);
        sigprocmask(SIG_BLOCK, &ours, &before);
        posix_spawnattr_t attr;
        posix_spawnattr_init(&attr);
        posix_spawnattr_setsigdefault(&attr, &ours);
        posix_spawnattr_setsigmask(&attr, &before);
        posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
        pid_t pid = 0;
        e = posix_spawn(&pid, cc->compiler, NULL, &attr, cc->argv, environ);
        if (e == 0) {
            child = pid;
            sigprocmask(SIG_SETMASK, &before, NULL);
            int status = 0;
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
            cc->argv[0] = name;
            int rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            cc_write_log(cc, rc);
            if (WIFSIGNALED(status)) {
                signal(WTERMSIG(status), SIG_DFL);
                raise(WTERMSIG(status));
            }
            exit(rc);
        }
    } else {
        execve(cc->compiler, cc->argv, environ);
        e = errno;
    }
    cc->argv[0] = name;
    fprintf(stderr, "neffcc: cannot start %s: %s\n", cc->compiler, strerror(e));
    cc_write_log(cc, 126);
    exit(126);
}

/* ------------------------------------------------------------------------------------------------------- what is said */

#define LOG_MAX_BYTES ((size_t)4 << 20)

void cc_log_line(struct cc *cc, struct nf_str line)
{
    if (cc->no_compiler_log)
        return;
    bool first = !cc->compiler_log;
    if (first) {
        /* Cut behind its first line, not to nothing: ext4 writes a file out at once that has been empty. */
        int fd = open(cc->call.logfile ? cc->call.logfile : "log-neuron-cc.txt", O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        cc->compiler_log = fd >= 0 ? fdopen(fd, "w") : NULL;
        cc->no_compiler_log = !cc->compiler_log;
        if (cc->no_compiler_log)
            return;
    }
    if (cc->compiler_log_bytes > LOG_MAX_BYTES)
        line = NF_STR("... more was said than is kept here ...");
    fwrite(line.data, 1, line.len, cc->compiler_log);
    putc('\n', cc->compiler_log);
    cc->no_compiler_log = cc->compiler_log_bytes > LOG_MAX_BYTES;
    cc->compiler_log_bytes += line.len + 1;
    if (first && (fflush(cc->compiler_log) != 0 || ftruncate(fileno(cc->compiler_log), (off_t)line.len + 1) != 0))
        clearerr(cc->compiler_log);                    /* a device or a pipe: there is nothing to cut */
}

/* NF_ECORRUPT: it cannot be read to its end, which is our trouble; anything else is the output's. */
static int copy_bytes(int from, int to, uint64_t bytes)
{
    off_t at = 0;
    while ((uint64_t)at < bytes) {                     /* shares the blocks where the file system can */
        size_t want = (size_t)NF_MIN(bytes - (uint64_t)at, (uint64_t)1 << 30);
        ssize_t n = copy_file_range(from, &at, to, NULL, want, 0);
        if (n <= 0)
            break;
    }
    char buf[65536];
    while ((uint64_t)at < bytes) {
        ssize_t n = pread(from, buf, (size_t)NF_MIN(bytes - (uint64_t)at, (uint64_t)sizeof(buf)), at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return NF_ECORRUPT;
        int r = nf_fd_write_all(to, buf, (size_t)n);
        if (r != NF_OK)
            return r;
        at += n;
    }
    return NF_OK;
}

/* What is half written goes when a signal ends us, too. */
static char *volatile half_written;

static void on_end(int sig)
{
    if (half_written)
        unlink(half_written);
    signal(sig, SIG_DFL);
    raise(sig);
}

void cc_catch_signals(void) { each_end_signal(SIG_DFL, on_stop, (int)SA_RESETHAND, NULL); }   /* a second one ends us at once */

bool cc_stop(void) { return ended_by != 0; }

void cc_end_if_stopped(struct cc *cc)
{
    if (!ended_by)
        return;
    cc->outcome = "interrupted";
    cc_write_log(cc, 128 + (int)ended_by);
    fflush(NULL);
    signal((int)ended_by, SIG_DFL);
    raise((int)ended_by);
}

/* A temporary beside it takes its place, so that whoever looks sees nothing or all of it. */
static int write_output(const struct cc *cc, int fd, uint64_t bytes, struct nf_error *err)
{
    struct stat st;
    char *path = NULL, *tmp = NULL;
    bool there = lstat(cc->output, &st) == 0;
    if (there && S_ISLNK(st.st_mode)) {                /* what it leads to becomes the output, as for whoever opens it */
        path = realpath(cc->output, NULL);
        there = path && lstat(path, &st) == 0;
    } else {
        path = nf_strdup(cc->output);
    }
    int out = -1, r = NF_OK;
    if (path && (!there || S_ISREG(st.st_mode))) {
        tmp = nf_asprintf("%s.neffcc-%d", path, (int)getpid());
        half_written = tmp;
        each_end_signal(SIG_DFL, on_end, 0, NULL);
        out = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    bool in_place = out < 0;                           /* a device, a pipe, a folder that takes no new file: as the compiler would */
    if (in_place)
        out = open(cc->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        r = nf_status_from_errno(errno);
    if (r == NF_OK)
        r = copy_bytes(fd, out, bytes);
    if (out >= 0 && close(out) < 0 && r == NF_OK)
        r = nf_status_from_errno(errno);
    /* To change places costs less than to replace: ext4 writes a file out at once when it replaces another. */
    bool changed = r == NF_OK && !in_place && there && renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE) == 0;
    if (r == NF_OK && !in_place && !changed && rename(tmp, path) < 0)
        r = nf_status_from_errno(errno);
    if (changed || (r != NF_OK && !in_place))
        unlink(tmp);
    half_written = NULL;
    free(tmp);
    free(path);
    if (r != NF_OK) {
        nf_fail(err, r, "cannot write %s: %s", cc->output, nf_status_text(r));
        nf_error_hint(err, "make room or name another place, then ask again");
    }
    return r;
}

bool cc_output_possible(const struct cc *cc)
{
    struct stat st;
    if (!cc->output[0])
        return false;
    if (stat(cc->output, &st) == 0)
        return !S_ISDIR(st.st_mode) && access(cc->output, W_OK) == 0;
    const char *slash = strrchr(cc->output, '/');
    return access(slash ? nf_arena_printf(cc->arena, "%.*s", (int)(slash - cc->output + 1), cc->output) : ".", W_OK | X_OK) == 0;
}

int cc_deliver(struct cc *cc, int fd, uint64_t bytes, struct nf_error *err)
{
    int r = write_output(cc, fd, bytes, err);
    if (r == NF_OK) {
        cc_log_line(cc, nf_str_c(nf_arena_printf(cc->arena, "neffcc: %s", cc->outcome)));
        fputs(".\nCompiler status PASS\n", stdout);
        fflush(stdout);
    }
    return r;
}

int cc_replay(struct cc *cc, const struct nf_error *err, const struct nf_str *log, size_t lines, bool remembered)
{
    for (size_t i = 0; i < lines; i++) {
        fprintf(stderr, "%.*s\n", (int)NF_MIN(log[i].len, (size_t)65536), log[i].data ? log[i].data : "");
        cc_log_line(cc, log[i]);
    }
    fprintf(stderr, "neffcc: %s%s\n", remembered ? "remembered: " : "", err->message);
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", err->hint);
    cc->outcome = remembered ? "failure_from_cache" : "failed";
    if (err->exit_code < 0)
        return 128 - err->exit_code;
    return err->exit_code > 0 && err->exit_code < 256 ? err->exit_code : err->code == NF_ECOMPILETIMEOUT ? 124 : 70;
}

/* ------------------------------------------------------------------------------------------------------------- input */

int cc_side_files(struct cc *cc, struct nf_error *err)
{
    const struct nf_str *paths;
    size_t n = pipe_side_paths(nf_buf_str(&cc->graph), cc->arena, &paths);
    cc->side = NF_NEW_ARRAY(cc->arena, struct cc_side, n + 1);
    for (size_t i = 0; i < n; i++) {
        char name[512];
        if (!pipe_side_name(paths[i], name, sizeof(name)))
            continue;
        const char *path = nf_arena_strn(cc->arena, paths[i].data, paths[i].len);
        bool twice = false;
        for (size_t k = 0; k < cc->side_count; k++)
            twice = twice || strcmp(cc->side[k].name, name) == 0;
        if (twice)
            continue;
        struct cc_side *s = &cc->side[cc->side_count];
        /* As the compiler looks: where it was traced, then below the working directory. */
        const char *places[] = {path, name};
        int r = NF_ENOTFOUND;
        for (size_t k = 0; k < 2 && r != NF_OK; k++) {
            struct stat st;
            if (stat(places[k], &st) == 0 && S_ISREG(st.st_mode))
                r = nf_file_read(places[k], cc->cfg->max_side_bytes, &s->bytes, NULL);
            s->path = nf_arena_printf(cc->arena, "%s", places[k]);
        }
        if (r != NF_OK) {
            nf_fail(err, NF_ESIDEFILE, "the graph needs the kernel file %s, which is neither there nor at ./%s", path, name);
            nf_error_hint(err, "trace again, or put the file back; a temporary directory may have been cleaned");
            return NF_ESIDEFILE;
        }
        s->name = nf_arena_printf(cc->arena, "%s", name);
        cc->side_count++;
    }
    return NF_OK;
}

static void take_options(struct cc *cc)
{
    size_t n = cc->call.option_count, env = 0;
    const char *const *names = drv_env_names();
    while (names[env])
        env++;
    cc->options = NF_NEW_ARRAY(cc->arena, struct pipe_option, n + env + 1);
    if (n)
        memcpy(cc->options, cc->call.options, n * sizeof(*cc->options));
    for (size_t i = 0; i < env; i++) {
        const char *v = getenv(names[i]);
        if (v)
            cc->options[n++] = (struct pipe_option){nf_arena_printf(cc->arena, "env:%s", names[i]), nf_str_c(v)};
    }
    cc->option_count = n;
}

const char *cc_prepare(struct cc *cc, struct nf_error *err)
{
    struct stat st;
    if (cc->call.strange)
        return cc->call.strange;
    if (!cc->call.target)
        return "no target is given";
    if (!rt_target_is_neuron(nf_str_c(cc->call.target)))
        return "the target is not one of Neuron's";
    cc->output = cc->call.output ? cc->call.output : "file.neff";
    if (stat(cc->call.input, &st) != 0 || !S_ISREG(st.st_mode))
        return "the graph is no regular file";         /* a pipe can be read once only, and not by us */
    if (nf_file_read(cc->call.input, cc->cfg->max_input, &cc->graph, err) != NF_OK)
        return "the graph cannot be read";
    if (cc->graph.len == 0)
        return "the graph is empty";
    take_options(cc);
    for (size_t i = 0; i < cc->option_count; i++)
        if (!nf_utf8_valid(cc->options[i].value) || !nf_utf8_valid(nf_str_c(cc->options[i].name)))
            return "an argument is not UTF-8";
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------------- begin */

void cc_begin(struct cc *cc, int argc, char **argv, struct nf_error *why)
{
    struct nf_error err = {0};
    const char *self = getenv(CC_SELF);
    nf_std_open();
    *cc = (struct cc){.argc = argc, .argv = argv, .began_ns = nf_now_ns(), .outcome = "passed_through", .via = "exec"};
    cc->sigpipe = signal(SIGPIPE, SIG_IGN);
    cc->arena = nf_arena_new(0);
    cc->self = realpath(self && self[0] ? self : "/proc/self/exe", NULL);
    char *no_args[] = {argv[0], NULL};
    if (cfg_load(&(struct cfg_sources){.program = "neffcc", .argc = 1, .argv = no_args}, &cc->cfg, &err) != NF_OK) {
        if (!self)
            nf_error_print("neffcc", &err);            /* and go on: a build is no place to die of a typing error */
        cc->cfg = NULL;
    }
    struct nf_buf path = NF_BUF_INIT;
    if (drv_find(cc->cfg, cc->self, &path, &err) == NF_OK)
        cc->compiler = nf_buf_take(&path);
    else
        cc->no_compiler = nf_arena_printf(cc->arena, "%s", err.message);
    if (!cc->cfg || getenv(CC_ACTIVE))
        cc_exec_real(cc, err.message);
    static const enum nf_log_level levels[] = {NF_LOG_ERROR, NF_LOG_WARNING, NF_LOG_INFO, NF_LOG_DEBUG};
    nf_log_open(NULL, levels[cc->cfg->client_log_level & 3], false, NULL);
    if (drv_call_parse(argc - 1, argv + 1, cc->arena, &cc->call, why) != NF_OK)
        cc_exec_real(cc, why->message);
    /* The front end has split the variable and handed its flags on as arguments; what is meant for the wrapper stands only here. */
    const char *flags = getenv("NEURON_CC_FLAGS");
    char **ignored;
    size_t count;
    if (flags && drv_cc_flags_split(nf_str_c(flags), cc->arena, &ignored, &count, &cc->wrapper, &err) != NF_OK && !self)
        nf_error_print("neffcc: warning", &err);
    const char *cannot = cc_prepare(cc, why);
    if (cannot)
        cc_exec_real(cc, cannot);
    if (cc_side_files(cc, why) != NF_OK) {
        cc->via = "cache";
        int rc = cc_replay(cc, why, NULL, 0, false);
        cc_write_log(cc, rc);
        exit(rc);
    }
}

_Noreturn void cc_end(struct cc *cc, int rc)
{
    if (cc->compiler_log)
        fclose(cc->compiler_log);
    cc_write_log(cc, rc);
    exit(rc);                                          /* memory goes with the process */
}
