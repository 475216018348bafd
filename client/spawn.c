/* spawn.c: starting a daemon from a client.
 *
 * Who starts it is decided by a lock on `<socket>.start`: the holder looks again whether one answers, starts it, and keeps the
 * lock until health says "serving" or the daemon has ended; everybody else waits for either. A starter that fails leaves the
 * reason in the lock file, so that the others, who were there before, report it instead of trying one after the other.
 *
 * The daemon is nobody's child: own session, working directory /, umask 022, no descriptors but a log on 1 and 2, no signal
 * masked or ignored, and an environment made of the names below and of the variables of the option table that are the
 * daemon's own. A job's environment is not the daemon's (DESIGN §8). */
#include "client/client_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "proto/health.pb-c.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define START_LIMIT_NS (30 * NF_SEC)
enum { FAILURE_FRESH_S = 2 };

/* Beside the option table's. The sanitizers' are there because tests start daemons too. */
static const char *const env_names[] = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
    "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"};

static const struct daemon_option {
    const char *name, *scope, *env;
} daemon_options[] = {
#define CFG(type, name, def, min, max, unit, scope, live, effect, area, env, help) {#name, #scope, env},
#include "config/options.def"
#undef CFG
};

/* NEFFD_NAME, or one of the row's other names. */
static bool names_option(struct nf_str variable, const struct daemon_option *o)
{
    struct nf_str prefix = NF_STR("NEFFD_");
    if (nf_str_starts(variable, prefix) && variable.len - prefix.len == strlen(o->name)) {
        size_t i = 0;
        while (o->name[i] && toupper((unsigned char)o->name[i]) == variable.data[prefix.len + i])
            i++;
        if (!o->name[i])
            return true;
    }
    for (const char *p = o->env; *p;) {
        size_t n = strcspn(p, " ,");
        if (n == variable.len && memcmp(p, variable.data, n) == 0)
            return true;
        p += n;
        p += strspn(p, " ,");
    }
    return false;
}

static bool wanted(const char *entry)
{
    struct nf_str rest = nf_str_c(entry), name = nf_str_cut(&rest, '=');
    for (size_t i = 0; i < NF_ARRAY_LEN(env_names); i++)
        if (nf_str_eq_c(name, env_names[i]))
            return true;
    for (size_t i = 0; i < NF_ARRAY_LEN(daemon_options); i++)
        if (strcmp(daemon_options[i].scope, "DAEMON") == 0 && names_option(name, &daemon_options[i]))
            return true;
    return nf_str_eq_c(name, "NEFFD_CONFIG");
}

/* ---------------------------------------------------------------------------------------------------------- which program */

static bool executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* `file`'s directory + tail. */
static bool beside(const char *file, const char *tail, struct nf_buf *out)
{
    const char *slash = strrchr(file, '/');
    nf_buf_clear(out);
    if (!slash)
        return false;
    nf_buf_add(out, file, (size_t)(slash - file) + 1);
    nf_buf_add_c(out, tail);
    return executable(out->data);
}

int cl_daemon_find(const neffd_client *client, struct nf_buf *ret_path, struct nf_error *err)
{
    static const char *const tails[] = {"neffd", "bin/neffd", "../bin/neffd", "../daemon/neffd", "../../bin/neffd"};
    char self[4096];
    Dl_info info;
    const char *given = client->daemon_program;
    if (given) {
        nf_buf_clear(ret_path);
        nf_buf_add_c(ret_path, given);
        if (executable(given))
            return NF_OK;
        return nf_fail(err, NF_ENODAEMON, "the setting `daemon` names %s, which is not an executable file", given);
    }
    /* Beside the library or the program that this code is in, installed or in a build tree. */
    if (dladdr((void *)(uintptr_t)&cl_daemon_find, &info) && info.dli_fname && realpath(info.dli_fname, self))
        for (size_t i = 0; i < NF_ARRAY_LEN(tails); i++)
            if (beside(self, tails[i], ret_path))
                return NF_OK;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0) {
        self[n] = 0;
        for (size_t i = 0; i < NF_ARRAY_LEN(tails); i++)
            if (beside(self, tails[i], ret_path))
                return NF_OK;
    }
    nf_buf_clear(ret_path);
    const char *path = getenv("PATH");
    if (rt_find_program("neffd", path ? path : "/usr/local/bin:/usr/bin:/bin", NULL, ret_path) == NF_OK)
        return NF_OK;
    nf_fail(err, NF_ENODAEMON, "cannot find the program neffd, to start a daemon");
    nf_error_hint(err, "put it on PATH, or name it with NEFFD_DAEMON");
    return NF_ENODAEMON;
}

/* -------------------------------------------------------------------------------------------------------------- spawning */

struct launch {
    char **argv, **envp;
    int log_fd, report_fd; /* report: the daemon's pid, then closed by exec, or an errno */
};

struct report {
    int32_t pid, error;
};

static void close_from(int first)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0)
        return;
#endif
    long max = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < (max > 0 && max < 65536 ? (int)max : 65536); fd++)
        close(fd);
}

/* In the child of the child: nothing but async-signal-safe calls, the process may have had threads. */
static _Noreturn void become_daemon(const struct launch *l)
{
    struct report rep = {.pid = (int32_t)getpid()};
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)umask(022);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (chdir("/") < 0 || null < 0 || dup2(null, 0) < 0 || dup2(l->log_fd, 1) < 0 || dup2(l->log_fd, 2) < 0 || dup2(l->report_fd, 3) < 0 ||
        fcntl(3, F_SETFD, FD_CLOEXEC) < 0) {
        rep.error = errno;
        (void)!write(l->report_fd, &rep, sizeof(rep));
        _exit(127);
    }
    close_from(4);
    (void)!write(3, &rep, sizeof(rep));
    execve(l->argv[0], l->argv, l->envp);
    rep.error = errno;
    (void)!write(3, &rep, sizeof(rep));
    _exit(127);
}

/* The daemon's pid, or what went wrong before it ran. */
static int launch(const struct launch *l, int report_read, pid_t *ret_pid, struct nf_error *err)
{
    struct report rep;
    pid_t got = 0;
    int error = 0, status;
    /* _Fork: no handlers of the host program (BLAS, OpenMP, CUDA have some) run in a child that only execs. */
    pid_t pid = _Fork();
    if (pid < 0) {
        close(l->report_fd);
        return nf_fail_errno(err, errno, "cannot fork");
    }
    if (pid == 0) {
        (void)setsid();
        pid_t again = _Fork();
        if (again == 0)
            become_daemon(l);
        _exit(again < 0 ? 1 : 0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    close(l->report_fd);
    for (;;) {
        ssize_t n = read(report_read, &rep, sizeof(rep));
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(rep))
            break;
        got = rep.pid;
        error = rep.error;
    }
    if (error)
        return nf_fail_errno(err, error, "cannot run %s", l->argv[0]);
    if (got == 0)
        return nf_fail(err, NF_EIO, "cannot start %s: the process ended before it ran", l->argv[0]);
    *ret_pid = got;
    return NF_OK;
}

static char **environment(void)
{
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **list = nf_alloc_array(n + 1, sizeof(*list));
    for (size_t i = 0; i < n; i++)
        if (wanted(environ[i]))
            list[k++] = environ[i];
    return list;
}

static int spawn(neffd_client *client, const char *log_path, pid_t *ret_pid, struct nf_error *err)
{
    struct nf_buf program = NF_BUF_INIT;
    int pipe_fds[2] = {-1, -1};
    struct launch l = {.log_fd = -1, .report_fd = -1};
    char *argv[8] = {0};
    size_t n = 0;
    int r = cl_daemon_find(client, &program, err);
    if (r < 0)
        goto out;
    l.log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (l.log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0) {
        r = nf_fail_errno(err, errno, "cannot open %s for the daemon's log", log_path);
        goto out;
    }
    argv[n++] = program.data;
    argv[n++] = nf_asprintf("--socket=%s", client->socket);
    if (client->shared_given)
        argv[n++] = nf_asprintf("--cache-dir=%s", client->shared_dir);
    if (client->local_given)
        argv[n++] = nf_asprintf("--local-dir=%s", client->local_dir);
    /* Above 3, which the child gives new meanings. */
    l.report_fd = fcntl(pipe_fds[1], F_DUPFD_CLOEXEC, 16);
    int log_fd = fcntl(l.log_fd, F_DUPFD_CLOEXEC, 16);
    if (l.report_fd < 0 || log_fd < 0) {
        r = nf_fail_errno(err, errno, "cannot start a daemon");
        if (l.report_fd >= 0)
            close(l.report_fd);
        goto out;
    }
    close(l.log_fd);
    l.log_fd = log_fd;
    close(pipe_fds[1]);
    pipe_fds[1] = -1;
    l.argv = argv;
    l.envp = environment();
    r = launch(&l, pipe_fds[0], ret_pid, err);
    free(l.envp);
out:
    if (pipe_fds[0] >= 0)
        close(pipe_fds[0]);
    if (pipe_fds[1] >= 0)
        close(pipe_fds[1]);
    if (l.log_fd >= 0)
        close(l.log_fd);
    for (size_t i = 1; i < n; i++)
        free(argv[i]);
    nf_buf_done(&program);
    return r;
}

/* --------------------------------------------------------------------------------------------------------------- waiting */

/* 1 serving, 0 not yet; an error that waiting does not mend. */
static int health(neffd_client *client, int64_t deadline_ns, struct nf_error *err)
{
    struct cl_channel *channel;
    struct nf_buf reply = NF_BUF_INIT;
    ProtobufCMessage *base;
    int serving = 0;
    int r = cl_client_channel(client, &channel, err);
    if (r < 0)
        return r;
    r = cl_unary(channel, rpc_method(RPC_HEALTH_CHECK)->path, (struct nf_str){0}, deadline_ns, &reply, err);
    if (r >= 0)
        r = rpc_decode(&grpc__health__v1__health_check_response__descriptor, nf_buf_str(&reply), &base, err);
    if (r >= 0) {
        serving = ((Grpc__Health__V1__HealthCheckResponse *)base)->status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
        protobuf_c_message_free_unpacked(base, NULL);
    }
    nf_buf_done(&reply);
    if (r < 0 && r != NF_ENODAEMON && r != NF_EDISCONNECTED && r != NF_ETIMEOUT && r != NF_EDRAINING)
        return r;
    return serving;
}

int cl_daemon_ping(neffd_client *client, int64_t deadline_ns, struct nf_error *err)
{
    struct nf_error why = {0};
    int r = health(client, deadline_ns, &why);
    if (r == 1)
        return NF_OK;
    if (why.code == 0)
        nf_fail(&why, NF_EDRAINING, "the daemon answers, but says that it is not serving");
    if (err)
        *err = why;
    return why.code;
}

int cl_daemon_wait(neffd_client *client, int64_t deadline_ns, struct nf_error *err)
{
    struct nf_error why = {0}, last = {0};
    for (int64_t pause = 5 * NF_MS;; pause = NF_MIN(pause * 2, 100 * NF_MS)) {
        int64_t now = nf_now_ns();
        why = (struct nf_error){0};
        int r = health(client, NF_MIN(deadline_ns, now + 5 * NF_SEC), &why);
        if (r == 1)
            return NF_OK;
        now = nf_now_ns();
        /* What the last whole attempt found says more than that time ran out in front of the next. */
        if (last.code == 0 || why.code != NF_ETIMEOUT)
            last = why;
        if (r < 0 || now >= deadline_ns) {
            if (last.code == 0)
                nf_fail(&last, NF_ETIMEOUT, "the daemon answers, but did not say in time that it serves");
            if (err)
                *err = last;
            return last.code;
        }
        nf_sleep_ns(NF_MIN(pause, NF_MAX(deadline_ns - now, NF_MS)));
    }
}

/* The last lines of the log that came after `from`, as the reason of a daemon's early end. */
static void log_reason(const char *log_path, off_t from, struct nf_buf *out)
{
    char tail[2048];
    int fd = open(log_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END);
    if (end > from) {
        off_t at = NF_MAX(from, end - (off_t)sizeof(tail));
        ssize_t n = pread(fd, tail, sizeof(tail), at);
        struct nf_str s = nf_str_trim(nf_str_n(tail, n > 0 ? (size_t)n : 0));
        struct nf_str last = s;
        for (size_t i = s.len; i > 0; i--) {
            if (s.data[i - 1] == '\n') {
                struct nf_str line = nf_str_n(s.data + i, s.len - i);
                /* An error is often "program: what: why" and then "hint: ..."; the first of the two is the reason. */
                if (nf_str_starts(line, NF_STR("hint:"))) {
                    s = nf_str_trim(nf_str_n(s.data, i - 1));
                    last = s;
                    i = s.len + 1;
                    continue;
                }
                last = line;
                break;
            }
        }
        if (last.len > 400)
            last.len = 400;
        if (nf_utf8_valid(last))
            nf_buf_add_str(out, last);
    }
    close(fd);
}

/* Not a child of ours, and where nobody reaps orphans it stays a zombie: a pidfd shows the end in both cases. */
static bool process_ended(pid_t pid, int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0)
        return poll(&p, 1, 0) > 0;
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static int start_and_wait(neffd_client *client, const char *log_path, int64_t until_ns, struct nf_error *err)
{
    struct stat st;
    struct nf_buf reason = NF_BUF_INIT;
    pid_t pid = 0;
    off_t log_from = stat(log_path, &st) == 0 ? st.st_size : 0;
    int r = spawn(client, log_path, &pid, err);
    if (r < 0)
        return r;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    for (int64_t pause = 5 * NF_MS;; pause = NF_MIN(pause * 2, 50 * NF_MS)) {
        struct nf_error why = {0};
        int h = health(client, NF_MIN(until_ns, nf_now_ns() + 5 * NF_SEC), &why);
        if (h == 1) {
            r = NF_OK;
            break;
        }
        if (h < 0) {
            *err = why;
            r = h;
            break;
        }
        if (process_ended(pid, pidfd)) {
            /* Gone. Unless it left because another daemon has the socket, that is the end. */
            if (health(client, nf_now_ns() + NF_SEC, &why) == 1)
                break;
            log_reason(log_path, log_from, &reason);
            r = nf_fail(err, NF_ENODAEMON, "the daemon ended as soon as it was started%s%s", reason.len ? ": " : "", reason.data ? reason.data : "");
            nf_error_hint(err, "its log is %s", log_path);
            break;
        }
        if (nf_now_ns() >= until_ns) {
            r = nf_fail(err, NF_ETIMEOUT, "the daemon (pid %d) was started, but does not serve yet", (int)pid);
            nf_error_hint(err, "its log is %s", log_path);
            break;
        }
        nf_sleep_ns(pause);
    }
    if (pidfd >= 0)
        close(pidfd);
    nf_buf_done(&reason);
    return r;
}

/* ------------------------------------------------------------------------------------------------------------- the election */

static int make_socket_dir(const char *socket_path, struct nf_error *err)
{
    char dir[256];
    const char *slash = strrchr(socket_path, '/');
    struct stat st;
    if (!slash || slash == socket_path)
        return NF_OK;
    (void)nf_format(dir, sizeof(dir), "%.*s", (int)(slash - socket_path), socket_path);
    if (stat(dir, &st) == 0)
        return NF_OK;
    int r = nf_mkdir_p(dir, 0700, err);
    if (r < 0)
        nf_error_hint(err, "choose a place that you may write to with --socket or NEFFD_SOCKET, or set XDG_RUNTIME_DIR");
    return r;
}

/* What the last starter failed with, if that was while this process waited for it. */
static bool left_reason(int fd, struct nf_error *err)
{
    char text[1024];
    struct stat st;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n <= 0 || fstat(fd, &st) < 0 || time(NULL) - st.st_mtime > FAILURE_FRESH_S)
        return false;
    text[n] = 0;
    nf_fail(err, NF_ENODAEMON, "%s", text);
    return true;
}

int cl_daemon_start(neffd_client *client, int64_t deadline_ns, struct nf_error *out)
{
    struct nf_error local = {0}, *err = out ? out : &local;
    struct cl_channel *channel;
    int r = cl_client_channel(client, &channel, err);
    if (r < 0)
        return r;
    const char *path = cl_channel_unix_path(channel);
    if (!path) {
        nf_fail(err, NF_ENODAEMON, "no daemon answers at %s, and only one with a Unix socket is started from here", client->socket);
        return NF_ENODAEMON;
    }
    r = make_socket_dir(path, err);
    if (r < 0)
        return r;
    char *lock_path = nf_asprintf("%s.start", path);
    char *log_path = nf_asprintf("%s.log", path);
    int64_t until = NF_MIN(deadline_ns, nf_now_ns() + START_LIMIT_NS);
    bool waited = false;
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        r = nf_fail_errno(err, errno, "cannot open %s, which decides who starts the daemon", lock_path);
        goto out;
    }
    for (int64_t pause = 5 * NF_MS;; pause = NF_MIN(pause * 2, 50 * NF_MS)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            break;
        if (errno != EWOULDBLOCK && errno != EINTR) {
            r = nf_fail_errno(err, errno, "cannot lock %s", lock_path);
            goto out;
        }
        waited = true;
        if (health(client, NF_MIN(until, nf_now_ns() + NF_SEC), NULL) == 1) {
            r = NF_OK;
            goto out;
        }
        if (nf_now_ns() >= until) {
            r = nf_fail(err, NF_ETIMEOUT, "somebody else is starting a daemon at %s and has not finished in time", client->socket);
            goto out;
        }
        nf_sleep_ns(pause);
    }
    if (health(client, NF_MIN(until, nf_now_ns() + NF_SEC), NULL) == 1) {
        r = NF_OK;
    } else if (waited && left_reason(fd, err)) {
        r = NF_ENODAEMON;
    } else {
        r = start_and_wait(client, log_path, until, err);
        (void)!ftruncate(fd, 0);
        if (r < 0)
            (void)!pwrite(fd, err->message, strlen(err->message), 0);
    }
out:
    if (fd >= 0)
        close(fd);
    free(lock_path);
    free(log_path);
    return r;
}
