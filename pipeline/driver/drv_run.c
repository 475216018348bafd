#include "pipeline/driver/drv_run.h"

#include "base/clock.h"
#include "pipeline/driver/drv_cgroup.h"
#include "pipeline/driver/drv_keeper.h"
#include "pipeline/driver/drv_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define TICK_NS (50 * NF_MS)
#define SAMPLE_NS (200 * NF_MS)
#define CANCEL_NS (100 * NF_MS)

struct run {
    const struct drv_command *c;
    struct drv_result *result;
    int control, pipe[2];            /* ends of ours; -1: closed */
    pid_t keeper;
    struct drv_lines lines[2];
    int stream;                      /* whose line is being given */
    bool ended, gone;                /* the program; all of them */
    int wait_status;
    int64_t started, ended_at, term_at, next_sample, next_cancel, next_alive;
    bool killing;
    uint64_t peak;
    unsigned live;
};

static void give_line(void *user, struct nf_str text, bool whole)
{
    struct run *r = user;
    if (r->c->line)
        r->c->line(r->c->user, r->stream, text, whole);
}

static void order(struct run *r, char what)
{
    if (r->control >= 0)
        send(r->control, &what, 1, MSG_NOSIGNAL);
}

/* The first reason stays. */
static void stop(struct run *r, enum drv_end why, bool gently, int64_t now)
{
    if (r->killing || r->term_at)
        return;
    r->result->end = why;
    if (gently && r->c->grace_ns > 0) {
        r->term_at = now;
        order(r, KEEPER_TERM);
    } else {
        r->killing = true;
        order(r, KEEPER_KILL);
    }
}

static void read_control(struct run *r)
{
    struct keeper_message m;
    ssize_t n;
    while (r->control >= 0 && (n = recv(r->control, &m, sizeof(m), MSG_DONTWAIT)) != 0) {
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR)
                return;
            break;
        }
        if (n != (ssize_t)sizeof(m))
            continue;
        r->result->cpu_ns = NF_MAX(r->result->cpu_ns, m.cpu_ns);
        r->peak = NF_MAX(r->peak, m.maxrss_bytes);
        switch ((enum keeper_word)m.word) {
        case KEEPER_STARTED:
            break;
        case KEEPER_FAILED:
            r->result->end = DRV_NOT_STARTED;
            r->result->status = m.value;
            break;
        case KEEPER_ENDED:
            r->ended = true;
            r->ended_at = nf_now_ns();
            r->wait_status = m.value;
            break;
        case KEEPER_GONE:
            r->result->leftovers = (unsigned)m.value;
            r->gone = true;
            break;
        }
    }
    if (r->control >= 0 && !r->gone) {   /* the keeper was killed: the program has died with it, what it started may live */
        r->gone = true;
    }
    close(r->control);
    r->control = -1;
}

static void read_pipe(struct run *r, int i, int64_t now)
{
    char buf[65536];
    for (int rounds = 0; rounds < 16; rounds++) {
        ssize_t n = read(r->pipe[i], buf, sizeof(buf));
        if (n > 0) {
            r->stream = i + 1;
            drv_lines_add(&r->lines[i], nf_str_n(buf, (size_t)n), DRV_LINE_MAX, now, give_line, r);
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        close(r->pipe[i]);
        r->pipe[i] = -1;
        return;
    }
}

static void on_time(struct run *r, int64_t now)
{
    for (int i = 0; i < 2; i++) {
        r->stream = i + 1;
        if (drv_lines_flush(&r->lines[i], DRV_LINE_NS, now, give_line, r) && now >= r->next_alive && r->c->alive) {
            r->next_alive = now + NF_SEC;
            r->c->alive(r->c->user);
        }
    }
    if (now >= r->next_sample) {
        r->next_sample = now + SAMPLE_NS;
        uint64_t rss = drv_tree_rss(r->keeper, &r->live);
        r->peak = NF_MAX(r->peak, rss);
        if (r->c->memory_limit_bytes && rss > r->c->memory_limit_bytes)
            stop(r, DRV_OVER_MEMORY, false, now);
    }
    if (r->c->cancelled && now >= r->next_cancel) {
        r->next_cancel = now + CANCEL_NS;
        if (r->c->cancelled(r->c->user))
            stop(r, DRV_CANCELLED, true, now);
    }
    if (r->c->time_limit_ns > 0 && now - r->started >= r->c->time_limit_ns && !r->ended)
        stop(r, DRV_TIMED_OUT, true, now);
    if (r->term_at && !r->killing && (r->ended || now - r->term_at >= r->c->grace_ns)) {
        r->killing = true;
        order(r, KEEPER_KILL);
    }
    if (r->ended && !r->killing && !r->term_at) {
        /* Its output may still be on its way, written by something that it has left running. */
        bool good = WIFEXITED(r->wait_status) && WEXITSTATUS(r->wait_status) == 0;
        bool wait = good && r->c->finished && now - r->ended_at < r->c->late_ns && !r->c->finished(r->c->user);
        if (wait && drv_tree_rss(r->keeper, &r->live) == 0 && r->live == 0)
            wait = false;
        if (!wait) {
            r->killing = true;
            order(r, KEEPER_KILL);
        }
    }
}

static void watch(struct run *r)
{
    while (!r->gone) {
        struct pollfd p[3] = {{r->control, POLLIN, 0}, {r->pipe[0], POLLIN, 0}, {r->pipe[1], POLLIN, 0}};
        struct timespec tick = {0, TICK_NS};
        if (r->ended && !r->killing)
            tick.tv_nsec = 10 * NF_MS;
        ppoll(p, 3, &tick, NULL);
        int64_t now = nf_now_ns();
        for (int i = 0; i < 2; i++)
            if (r->pipe[i] >= 0 && p[i + 1].revents)
                read_pipe(r, i, now);
        if (p[0].revents)
            read_control(r);
        if (!r->gone)
            on_time(r, nf_now_ns());
    }
    /* What stands in the pipes. Nobody holds their other ends any more; if the keeper was killed somebody may: do not wait for them. */
    for (int i = 0; i < 2; i++) {
        for (int rounds = 0; rounds < 64 && r->pipe[i] >= 0; rounds++) {
            struct pollfd p = {r->pipe[i], POLLIN, 0};
            if (poll(&p, 1, 0) <= 0)
                break;
            read_pipe(r, i, nf_now_ns());
        }
        r->stream = i + 1;
        drv_lines_flush(&r->lines[i], 0, nf_now_ns(), give_line, r);
    }
}

int drv_run(const struct drv_command *command, struct drv_result *ret_result, struct nf_error *err)
{
    struct drv_result result = {.end = DRV_EXITED};
    struct run r = {.c = command, .result = &result, .control = -1, .pipe = {-1, -1}, .keeper = -1};
    struct drv_cgroup group = {.procs = -1};
    int pair[2] = {-1, -1}, out[2] = {-1, -1}, errp[2] = {-1, -1}, rc = NF_OK;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(errp, O_CLOEXEC) < 0) {
        rc = nf_fail_errno(err, errno, "cannot make pipes for %s", command->path);
        goto out;
    }
    drv_cgroup_make(&group, command->memory_limit_bytes);
    uint64_t oom_kills = drv_oom_kills();
    r.started = nf_now_ns();
    r.keeper = fork();
    if (r.keeper == 0)
        drv_keeper_main(command, command->env ? (char *const *)(uintptr_t)command->env : environ, pair[1], out[1], errp[1], group.procs, group.path);
    if (r.keeper < 0) {
        rc = nf_fail_errno(err, errno, "cannot start a process for %s", command->path);
        goto out;
    }
    r.control = pair[0];
    r.pipe[0] = out[0];
    r.pipe[1] = errp[0];
    pair[0] = out[0] = errp[0] = -1;
    int *theirs[] = {&pair[1], &out[1], &errp[1]};
    for (size_t i = 0; i < NF_ARRAY_LEN(theirs); i++) {
        close(*theirs[i]);
        *theirs[i] = -1;
    }
    for (int i = 0; i < 2; i++)
        fcntl(r.pipe[i], F_SETFL, O_NONBLOCK);
    watch(&r);
    result.oom_killed = drv_cgroup_oom(&group);
    result.oom_nearby = drv_oom_kills() > oom_kills;
    r.peak = NF_MAX(r.peak, drv_cgroup_peak(&group));
    while (waitpid(r.keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    result.wall_ns = nf_now_ns() - r.started;
    result.peak_rss_bytes = r.peak;
    if (result.end == DRV_EXITED) {
        if (!r.ended) {                  /* the keeper was killed, and the program with it */
            result.end = DRV_SIGNALLED;
            result.status = SIGKILL;
        } else if (WIFSIGNALED(r.wait_status)) {
            result.end = DRV_SIGNALLED;
            result.status = WTERMSIG(r.wait_status);
        } else {
            result.status = WEXITSTATUS(r.wait_status);
        }
    }
    *ret_result = result;
out:
    drv_cgroup_remove(&group);
    for (int i = 0; i < 2; i++) {
        drv_lines_done(&r.lines[i]);
        int fds[] = {r.pipe[i], pair[i], out[i], errp[i]};
        for (size_t k = 0; k < NF_ARRAY_LEN(fds); k++)
            if (fds[k] >= 0)
                close(fds[k]);
    }
    if (r.control >= 0)
        close(r.control);
    return rc;
}
