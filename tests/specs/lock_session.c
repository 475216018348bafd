/* lock_session: one session of a lock spec: a process that does what its standard input says.
 *
 *     lock_session NAME LOCAL_DIR
 *
 * A line "ID COMMAND ARGS..." is answered by one line "ID NANOSECONDS RESULT", perhaps much later and after others. */
#include "base/file.h"
#include "lockmgr/lease.h"
#include "lockmgr/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

struct held {
    struct held *next;
    char key[256];
    struct lock_host *host;       /* of lock and try */
    struct lock_grant *grant;     /* of request */
};

struct command {
    struct command *next;
    int id;
    uint64_t request;
    char key[256];
    int64_t timeout;
    _Atomic bool stop;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards held, pending and stdout */
static struct held *held;
static struct command *pending;
static struct lock_dir *dir;
static struct lock_manager *manager;
static const char *name, *local_dir;

static void answer(int id, const char *fmt, ...) NF_PRINTF(2, 3);
static void answer(int id, const char *fmt, ...)
{
    char text[1500];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    printf("%d %lld %s\n", id, (long long)nf_now_ns(), text);
    fflush(stdout);
}

static void keep(const char *key, struct lock_host *host, struct lock_grant *grant)
{
    struct held *h = nf_alloc(sizeof(*h));
    *h = (struct held){.next = held, .host = host, .grant = grant};
    nf_format(h->key, sizeof(h->key), "%s", key);
    held = h;
}

static struct held *take(const char *key, bool grant)
{
    for (struct held **at = &held; *at; at = &(*at)->next) {
        struct held *h = *at;
        if (strcmp(h->key, key) == 0 && (h->grant != NULL) == grant) {
            *at = h->next;
            return h;
        }
    }
    return NULL;
}

static struct command *begin(int id, const char *key, int64_t timeout)
{
    struct command *c = nf_alloc(sizeof(*c));
    c->id = id;
    c->timeout = timeout;
    nf_format(c->key, sizeof(c->key), "%s", key);
    c->next = pending;
    pending = c;
    return c;
}

static void end(struct command *c)
{
    struct command **at = &pending;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c);
}

static const char *word(int status)
{
    return status == NF_ELOCKTIMEOUT ? "timeout" : status == NF_ECANCELLED ? "cancelled" : status == NF_EBUSY ? "busy" : nf_status_name(status);
}

static bool stopped(void *user)
{
    return atomic_load(&((struct command *)user)->stop);
}

static void *do_lock(void *arg)
{
    struct command *c = arg;
    struct lock_host *l = NULL;
    struct nf_error err = {0};
    int r = lock_host_acquire(dir, nf_str_c(c->key), name, c->timeout, stopped, c, &l, &err);
    pthread_mutex_lock(&mutex);
    if (r == NF_OK)
        keep(c->key, l, NULL);
    answer(c->id, "%s", r == NF_OK ? "granted" : word(r));
    end(c);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void granted(void *user, int status, struct lock_grant *grant, const struct nf_error *err)
{
    (void)err;
    struct command *c = user;
    pthread_mutex_lock(&mutex);
    if (status == NF_OK)
        keep(c->key, NULL, grant);
    answer(c->id, "%s", status == NF_OK ? "granted" : word(status));
    end(c);
    pthread_mutex_unlock(&mutex);
}

/* Uses up descriptors until `left` more can be opened; -1 undoes it. */
static void leave_descriptors(int left)
{
    static int filler[4096];
    static size_t n;
    for (; left < 0 && n > 0; n--)
        close(filler[n - 1]);
    if (left < 0)
        return;
    struct rlimit r = {256, 256};
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = NF_MIN(r.rlim_max, (rlim_t)256);
    setrlimit(RLIMIT_NOFILE, &r);
    int fd;
    while (n < NF_ARRAY_LEN(filler) && (fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
        filler[n++] = fd;
    while (left-- > 0 && n > 0)
        close(filler[--n]);
}

static void simple(int id, const char *cmd, const char *key, const char *path, int64_t number)
{
    struct nf_error err = {0};
    struct nf_str k = nf_str_c(key);
    if (strcmp(cmd, "try") == 0) {
        struct lock_host *l = NULL;
        int r = lock_host_try(dir, k, name, &l, &err);
        if (r == NF_OK)
            keep(key, l, NULL);
        answer(id, "%s", r == NF_OK ? "granted" : word(r));
    } else if (strcmp(cmd, "unlock") == 0 || strcmp(cmd, "release") == 0) {
        struct held *h = take(key, cmd[0] == 'r');
        if (h) {
            lock_host_release(h->host);
            lock_grant_release(h->grant);
        }
        answer(id, "%s", h ? "done" : "not-held");
        free(h);
    } else if (strcmp(cmd, "cancel") == 0) {
        for (struct command *c = pending; c; c = c->next)
            if (strcmp(c->key, key) == 0)
                atomic_store(&c->stop, true);
        answer(id, "done");
    } else if (strcmp(cmd, "withdraw") == 0) {
        struct command *oldest = NULL;
        for (struct command *c = pending; c; c = c->next)
            if (strcmp(c->key, key) == 0 && c->request)
                oldest = c;
        bool done = oldest && lock_manager_cancel(manager, oldest->request);
        if (done) {
            answer(oldest->id, "cancelled");
            end(oldest);
        }
        answer(id, "%s", done ? "done" : "late");
    } else if (strcmp(cmd, "owner") == 0) {
        struct lock_owner o;
        if (lock_host_owner(dir, k, &o) == NF_OK)
            answer(id, "held-by %s", o.what);
        else
            answer(id, "nobody");
    } else if (strcmp(cmd, "epoch") == 0) {
        for (struct held *h = held; h; h = h->next)
            if (strcmp(h->key, key) == 0) {
                answer(id, "epoch %llu", (unsigned long long)(h->host ? lock_host_epoch(h->host) : lock_grant_epoch(h->grant)));
                return;
            }
        answer(id, "not-held");
    } else if (strcmp(cmd, "state") == 0) {
        size_t waiting = 0;
        struct lock_owner o;
        enum lock_wait_on on = lock_manager_state(manager, k, &waiting, &o);
        answer(id, "%s %zu%s%s", on ? lock_wait_on_name(on) : "nothing", waiting, o.pid ? " " : "", o.pid ? o.what : "");
    } else if (strcmp(cmd, "sweep") == 0) {
        size_t removed = 0;
        int r = lock_dir_sweep(dir, number * NF_MS, 0, &removed, &err);
        answer(id, r == NF_OK ? "removed %zu" : "failed %zu", removed);
    } else if (strcmp(cmd, "plant") == 0) {      /* what a dead owner leaves, as no live process has this pid */
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        static const char record[] = "epoch 5\npid 2147483646\nsince_us 1\nhost elsewhere\nwhat ghost\n";
        bool ok = fd >= 0 && write(fd, record, sizeof(record) - 1) > 0;
        close(fd);
        answer(id, "%s", ok ? "done" : "failed");
    } else if (strcmp(cmd, "garbage") == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        bool ok = fd >= 0 && write(fd, "epoch 99999999999999999999999\npid -5\n\377\0what", 40) > 0;
        close(fd);
        answer(id, "%s", ok ? "done" : "failed");
    } else if (strcmp(cmd, "age") == 0) {
        struct timespec t[2] = {{1, 0}, {1, 0}};
        answer(id, "%s", utimensat(AT_FDCWD, path, t, 0) == 0 ? "done" : "failed");
    } else if (strcmp(cmd, "unlink") == 0) {
        answer(id, "%s", unlink(path) == 0 ? "done" : "failed");
    } else if (strcmp(cmd, "exists") == 0) {
        answer(id, "%s", access(path, F_OK) == 0 ? "yes" : "no");
    } else if (strcmp(cmd, "count") == 0) {
        char line[64];
        nf_format(line, sizeof(line), "%lld", (long long)number);
        answer(id, "%s", line);
    } else if (strcmp(cmd, "readonly") == 0) {
        answer(id, "%s", chmod(path, 0444) == 0 ? "done" : "failed");
    } else if (strcmp(cmd, "nobody") == 0) {     /* become a user who cannot write other people's files */
        answer(id, "%s", geteuid() != 0 ? "skip" : setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0 ? "done" : "failed");
    } else if (strcmp(cmd, "child") == 0) {      /* a child that outlives this process; it must not keep our locks */
        char arg0[] = "sleep", arg1[] = "20", *argv[] = {arg0, arg1, NULL};
        pid_t pid = 0;
        int r = posix_spawnp(&pid, "sleep", NULL, NULL, argv, environ);
        answer(id, r == 0 ? "child %d" : "failed %d", r == 0 ? (int)pid : r);
    } else if (strcmp(cmd, "descriptors") == 0) {
        leave_descriptors((int)number);
        answer(id, "done");
    } else {
        answer(id, "unknown-command");
    }
}

static void manager_open(void)
{
    struct nf_error err = {0};
    if (!manager && lock_manager_new(dir, NULL, &manager, &err) != NF_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct nf_error err = {0};
    if (argc != 3)
        return 2;
    name = argv[1];
    local_dir = argv[2];
    if (lock_dir_open(local_dir, &dir, &err) != NF_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    char line[1024];
    while (fgets(line, sizeof(line), stdin)) {
        int id = 0;
        char cmd[64] = "", key[256] = "", path[1024];
        long long number = -1;
        if (sscanf(line, "%d %63s %255s %lld", &id, cmd, key, &number) < 2)
            continue;
        if (strcmp(cmd, "sweep") == 0 || strcmp(cmd, "descriptors") == 0)
            sscanf(key, "%lld", &number);
        nf_format(path, sizeof(path), "%s/locks/%s", local_dir, key);
        int64_t timeout = number < 0 ? LOCK_FOREVER : number * NF_MS;
        pthread_mutex_lock(&mutex);
        if (strcmp(cmd, "lock") == 0) {
            pthread_t t;
            pthread_create(&t, NULL, do_lock, begin(id, key, timeout));
            pthread_detach(t);
        } else if (strcmp(cmd, "request") == 0) {
            manager_open();
            struct command *c = begin(id, key, timeout);
            /* Under our mutex, so that the answer finds the number filled in. */
            c->request = lock_manager_request(manager, nf_str_c(key), name, timeout == LOCK_FOREVER ? timeout : nf_now_ns() + timeout, granted, c);
        } else if (strcmp(cmd, "blind-manager") == 0) { /* one that gets no inotify instance */
            leave_descriptors(1);
            manager_open();
            leave_descriptors(-1);
            answer(id, "done");
        } else {
            simple(id, cmd, key, path, number);
        }
        pthread_mutex_unlock(&mutex);
    }
    return 0;                            /* without releasing anything: the kernel does */
}
