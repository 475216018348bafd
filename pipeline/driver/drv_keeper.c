#include "pipeline/driver/drv_keeper.h"

#include "pipeline/driver/drv_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TREE_MAX 4096

/* ------------------------------------------------------------------------------------------------- the process tree */

static char *put_number(char *at, long v)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static ssize_t read_proc(pid_t pid, const char *file, char *out, size_t size)
{
    char path[96], *p = path;
    memcpy(p, "/proc/", 6);
    p = put_number(p + 6, pid);
    for (const char *f = file; *f; f++) {
        if (*f == '@')
            p = put_number(p, pid);
        else
            *p++ = *f;
    }
    *p = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = 0;
    ssize_t r;
    while (n < size && (r = read(fd, out + n, size - n)) > 0)
        n += (size_t)r;
    close(fd);
    return (ssize_t)n;
}

/* Children started by the other threads of a process stand under their threads; a program's own threads that fork are seen because
 * all entries of task/ are looked at. */
static unsigned children(pid_t pid, pid_t *ret_pids, unsigned max)
{
    char path[64], *p = path;
    unsigned n = 0;
    memcpy(p, "/proc/", 6);
    p = put_number(p + 6, pid);
    memcpy(p, "/task", 6);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return 0;
    struct entry {
        uint64_t ino;
        int64_t off;
        uint16_t reclen;
        uint8_t type;
        char name[];
    };
    _Alignas(8) char buf[2048];
    long got;
    while ((got = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
        for (long at = 0; at < got;) {
            const struct entry *e = (const struct entry *)(void *)(buf + at);
            at += e->reclen;
            if (e->name[0] < '0' || e->name[0] > '9')
                continue;
            char file[48], text[4096], *f = file;
            for (const char *c = e->name; *c; c++)
                *f++ = *c;
            memcpy(f, "/children", 10);
            int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
            if (fd < 0)
                continue;
            ssize_t r;
            long value = 0;
            bool digits = false;
            while ((r = read(fd, text, sizeof(text))) > 0) {
                for (ssize_t i = 0; i < r; i++) {
                    if (text[i] >= '0' && text[i] <= '9') {
                        value = value * 10 + (text[i] - '0');
                        digits = true;
                    } else if (digits) {
                        if (n < max && value > 1)   /* one that is reaped meanwhile shows as 0, which kill(2) takes for our group */
                            ret_pids[n++] = (pid_t)value;
                        value = 0;
                        digits = false;
                    }
                }
            }
            close(fd);
        }
    }
    close(dir);
    return n;
}

unsigned drv_tree_list(pid_t pid, pid_t *ret_pids, unsigned max)
{
    unsigned n = children(pid, ret_pids, max);
    for (unsigned at = 0; at < n; at++)
        n += children(ret_pids[at], ret_pids + n, max - n);
    return n;
}

uint64_t drv_tree_rss(pid_t pid, unsigned *ret_count)
{
    pid_t pids[TREE_MAX];
    unsigned n = drv_tree_list(pid, pids, TREE_MAX);
    uint64_t pages = 0;
    for (unsigned i = 0; i < n; i++) {
        char text[128];
        ssize_t len = read_proc(pids[i], "/statm", text, sizeof(text) - 1);
        if (len <= 0)
            continue;
        ssize_t at = 0;
        while (at < len && text[at] != ' ')
            at++;
        uint64_t v = 0;
        for (at++; at < len && text[at] >= '0' && text[at] <= '9'; at++)
            v = v * 10 + (uint64_t)(text[at] - '0');
        pages += v;
    }
    if (ret_count)
        *ret_count = n;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ----------------------------------------------------------------------------------------------------------- keeper */

struct keeper {
    int control;
    pid_t program;
    int64_t cpu_ns;
    uint64_t maxrss;
    bool ended;
    bool deaf;              /* nobody listens any more */
    const char *group;      /* folder of the cgroup, or NULL */
};

static void say(struct keeper *k, int word, int value)
{
    struct keeper_message m = {word, value, k->cpu_ns, k->maxrss};
    if (!k->deaf && send(k->control, &m, sizeof(m), MSG_NOSIGNAL) < 0)
        k->deaf = true;
}

/* Waits for all that have ended. false: there are no children at all. */
static bool reap(struct keeper *k)
{
    for (;;) {
        int status;
        struct rusage u;
        pid_t pid = wait4(-1, &status, WNOHANG, &u);
        if (pid == 0 || (pid < 0 && errno == EINTR))
            return true;
        if (pid < 0)
            return false;
        k->cpu_ns += ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 + ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
        if ((uint64_t)u.ru_maxrss * 1024 > k->maxrss)
            k->maxrss = (uint64_t)u.ru_maxrss * 1024;
        if (pid == k->program) {
            k->ended = true;
            say(k, KEEPER_ENDED, status);
        }
    }
}

static void signal_all(int sig)
{
    pid_t pids[TREE_MAX];
    unsigned n = drv_tree_list(getpid(), pids, TREE_MAX);
    for (unsigned i = 0; i < n; i++)
        kill(pids[i], sig);
}

/* Until there is none: those that are born while we look are seen in the next round, as children of ours. */
_Noreturn static void end_all(struct keeper *k, bool orphaned)
{
    int killed = 0;
    for (;;) {
        pid_t pids[TREE_MAX];
        if (!reap(k))
            break;
        unsigned n = drv_tree_list(getpid(), pids, TREE_MAX);
        for (unsigned i = 0; i < n; i++)
            if (kill(pids[i], SIGKILL) == 0 && pids[i] != k->program)
                killed++;
        struct timespec little = {0, 1000000};
        nanosleep(&little, NULL);
    }
    if (orphaned && k->group)
        rmdir(k->group);
    say(k, KEEPER_GONE, killed);
    _exit(0);
}

_Noreturn static void become(const struct drv_command *c, char *const *env, int control, int procs)
{
    sigset_t none;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int s = 1; s < NSIG; s++)
        sigaction(s, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct rlimit no_core = {0, 0}, mine;
    setrlimit(RLIMIT_CORE, &no_core);
    /* A worker's limits are for the worker. */
    static const int resources[] = {RLIMIT_AS, RLIMIT_CPU};
    for (size_t i = 0; i < sizeof(resources) / sizeof(*resources); i++) {
        if (getrlimit((__rlimit_resource_t)resources[i], &mine) == 0) {
            mine.rlim_cur = mine.rlim_max;
            setrlimit((__rlimit_resource_t)resources[i], &mine);
        }
    }
    if (c->memory_limit_bytes > 0) {     /* of one process, at once; all of them are in a cgroup or watched */
        struct rlimit data = {(rlim_t)c->memory_limit_bytes, (rlim_t)c->memory_limit_bytes};
        setrlimit(RLIMIT_DATA, &data);
    }
    if (c->time_limit_ns > 0) {          /* a last resort, should the clock of the watcher be lost: a day's worth of processors */
        rlim_t s = (rlim_t)(c->time_limit_ns / 1000000000 + 1) * 1024;
        struct rlimit cpu = {s, s};
        setrlimit(RLIMIT_CPU, &cpu);
    }
    if (procs >= 0 && write(procs, "0", 1) < 0)
        procs = -1;
    if (!c->cwd || chdir(c->cwd) == 0)
        execve(c->path, (char *const *)(uintptr_t)c->argv, env);
    struct keeper_message m = {KEEPER_FAILED, errno, 0, 0};
    send(control, &m, sizeof(m), MSG_NOSIGNAL);
    _exit(127);
}

static void close_others(int keep_from)
{
    if (syscall(SYS_close_range, (unsigned)keep_from, ~0u, 0) == 0)
        return;
    struct rlimit r;
    int end = getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < 1u << 20 ? (int)r.rlim_cur : 1 << 20;
    for (int fd = keep_from; fd < end; fd++)
        close(fd);
}

_Noreturn void drv_keeper_main(const struct drv_command *command, char *const *env, int control, int out, int err, int procs, const char *group)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "neffd-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* 0 null, 1 and 2 the pipes, 3 control, 4 cgroup.procs; first out of the way of each other. */
    int fds[5] = {open("/dev/null", O_RDWR | O_CLOEXEC), out, err, control, procs};
    for (int i = 0; i < 5; i++)
        if (fds[i] >= 0)
            fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
    for (int i = 0; i < 5; i++)
        if (fds[i] >= 0)
            dup3(fds[i], i, i < 3 ? 0 : O_CLOEXEC);
    procs = fds[4] >= 0 ? 4 : -1;
    close_others(procs >= 0 ? 5 : 4);
    struct keeper k = {.control = 3, .group = group};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int sfd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    k.program = fork();
    if (k.program == 0)
        become(command, env, k.control, procs);
    if (k.program < 0) {
        say(&k, KEEPER_FAILED, errno);
        _exit(0);
    }
    say(&k, KEEPER_STARTED, k.program);
    dup2(0, 1);                          /* our ends of the pipes: theirs alone count */
    dup2(0, 2);
    close(4);
    for (;;) {
        struct pollfd p[2] = {{k.control, POLLIN, 0}, {sfd, POLLIN, 0}};
        poll(p, sfd >= 0 ? 2 : 1, sfd >= 0 ? 1000 : 20);
        struct signalfd_siginfo info[8];
        while (sfd >= 0 && read(sfd, info, sizeof(info)) > 0)
            ;
        reap(&k);
        if (p[0].revents) {
            char order;
            ssize_t n = recv(k.control, &order, 1, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                end_all(&k, true);       /* whoever wanted this is dead */
            if (n == 1 && order == KEEPER_TERM)
                signal_all(SIGTERM);
            if (n == 1 && order == KEEPER_KILL)
                end_all(&k, false);
        }
    }
}
