#include "lockmgr/lock.h"

#include "base/file.h"
#include "lockmgr/lockmgr_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SWEEP_MARK ".swept"
#define SWEEP_EVERY_NS (600 * NF_SEC)
#define SWEEP_AT_ONCE 1000
#define SAFETY_TRY_NS (1 * NF_SEC)
#define RECORD_MAX 1024

struct lock_host {
    struct lock_dir *dir;
    int fd;
    uint64_t epoch;
    char key[LOCK_KEY_MAX + 1];
};

int lock_dir_open(const char *local_dir, struct lock_dir **ret_dir, struct nf_error *err)
{
    char *path = nf_asprintf("%s/locks", local_dir);
    int r = nf_mkdir_p(path, 0777, err);
    if (r != NF_OK) {
        free(path);
        return r;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        r = nf_fail_errno(err, errno, "cannot open %s", path);
        free(path);
        return r;
    }
    struct lock_dir *d = nf_alloc(sizeof(*d));
    *d = (struct lock_dir){fd, path};
    *ret_dir = d;
    return NF_OK;
}

void lock_dir_close(struct lock_dir *dir)
{
    if (!dir)
        return;
    close(dir->fd);
    free(dir->path);
    free(dir);
}

int lock__key(struct nf_str key, char ret_key[LOCK_KEY_MAX + 1], struct nf_error *err)
{
    if (key.len == 0 || key.len > LOCK_KEY_MAX)
        return nf_fail(err, NF_EINVAL, "a lock's key has %zu bytes; 1 to %d are possible", key.len, LOCK_KEY_MAX);
    for (size_t i = 0; i < key.len; i++) {
        char c = key.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!word && !(c == '.' && i > 0))
            return nf_fail(err, NF_EINVAL, "a lock's key holds a character that a file name may not have");
    }
    memcpy(ret_key, key.data, key.len);
    ret_key[key.len] = 0;
    return NF_OK;
}

/* --------------------------------------------------------------------------------------------------------- record */

static void put_field(struct nf_buf *b, const char *name, const char *text)
{
    nf_buf_addf(b, "%s ", name);
    for (; *text; text++)
        nf_buf_add_char(b, (unsigned char)*text < ' ' || *text == 127 ? ' ' : *text);
    nf_buf_add_char(b, '\n');
}

static void write_record(int fd, struct nf_buf *b)
{
    /* For display and the epoch: a full disk or a file of somebody else's must not cost the lock. */
    if (!b->failed && pwrite(fd, b->data, b->len, 0) == (ssize_t)b->len && ftruncate(fd, (off_t)b->len) < 0)
        return;
}

static bool read_record(int fd, struct lock_owner *ret_owner)
{
    char text[RECORD_MAX];
    ssize_t n = pread(fd, text, sizeof(text), 0);
    if (n <= 0)
        return false;
    struct lock_owner o = {0};
    struct nf_str rest = nf_str_n(text, (size_t)n);
    while (rest.len > 0) {
        struct nf_str line = nf_str_cut(&rest, '\n');
        struct nf_str word = nf_str_cut(&line, ' ');
        uint64_t v = 0;
        if (nf_str_eq_c(word, "epoch") && nf_str_to_u64(line, &v) == NF_OK)
            o.epoch = v;
        else if (nf_str_eq_c(word, "pid") && nf_str_to_u64(line, &v) == NF_OK && v <= INT32_MAX)
            o.pid = (pid_t)v;
        else if (nf_str_eq_c(word, "since_us") && nf_str_to_u64(line, &v) == NF_OK && v <= INT64_MAX)
            o.since_us = (int64_t)v;
        else if (nf_str_eq_c(word, "host"))
            nf_format(o.host, sizeof(o.host), "%.*s", (int)line.len, line.data ? line.data : "");
        else if (nf_str_eq_c(word, "what"))
            nf_format(o.what, sizeof(o.what), "%.*s", (int)line.len, line.data ? line.data : "");
    }
    *ret_owner = o;
    return true;
}

/* ------------------------------------------------------------------------------------------------------- attempts */

static int open_file(struct lock_dir *dir, const char *key, struct nf_error *err)
{
    int fd = openat(dir->fd, key, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0 && errno == EACCES)      /* somebody else's file: flock needs no write permission */
        fd = openat(dir->fd, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open the lock file %s/%s", dir->path, key);
    return fd;
}

/* L3: the name still leads to the file behind fd. */
static bool same_file(struct lock_dir *dir, const char *key, int fd)
{
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && fstatat(dir->fd, key, &named, AT_SYMLINK_NOFOLLOW) == 0 && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

int lock__attempt(struct lock_dir *dir, const char *key, int *fd, struct nf_error *err)
{
    for (int tries = 0; tries < 1000; tries++) {
        if (*fd < 0) {
            int opened = open_file(dir, key, err);
            if (opened < 0)
                return opened;
            *fd = opened;
        }
        int r;
        do
            r = flock(*fd, LOCK_EX | LOCK_NB);
        while (r < 0 && errno == EINTR);
        if (r < 0 && errno != EWOULDBLOCK) {
            int code = nf_fail_errno(err, errno, "cannot lock %s/%s", dir->path, key);
            nf_error_hint(err, "TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR must be on a local file system that has flock");
            close(*fd);
            *fd = -1;
            return code;
        }
        if (same_file(dir, key, *fd))
            return r == 0 ? NF_OK : NF_EBUSY;
        close(*fd);                     /* swept: this inode has no name any more */
        *fd = -1;
    }
    return nf_fail(err, NF_EIO, "the lock file %s/%s is replaced again and again", dir->path, key);
}

struct lock_host *lock__won(struct lock_dir *dir, const char *key, int fd, const char *what)
{
    struct lock_host *l = nf_alloc(sizeof(*l));
    *l = (struct lock_host){.dir = dir, .fd = fd};
    nf_format(l->key, sizeof(l->key), "%s", key);
    struct lock_owner before = {0};
    read_record(fd, &before);
    /* The clock stands in for the record of a file that was swept. */
    l->epoch = NF_MAX(before.epoch + 1, (uint64_t)nf_wall_us());
    char host[65] = "";
    gethostname(host, sizeof(host) - 1);
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_addf(&b, "epoch %llu\npid %d\nsince_us %lld\n", (unsigned long long)l->epoch, (int)getpid(), (long long)nf_wall_us());
    put_field(&b, "host", host);
    char cut[128];
    nf_format(cut, sizeof(cut), "%s", what ? what : "");
    put_field(&b, "what", cut);
    write_record(fd, &b);
    nf_buf_done(&b);
    return l;
}

int lock__not_won(struct lock_dir *dir, const char *key, int code, const char *how, struct nf_error *err)
{
    struct lock_owner o;
    if (lock_host_owner(dir, nf_str_c(key), &o) == NF_OK && o.pid > 0)
        nf_fail(err, code, "%s: lock %s is held by pid %d on %s (%s) for %lld s", how, key, (int)o.pid, o.host, o.what,
                (long long)(nf_wall_us() - o.since_us) / 1000000);
    else
        nf_fail(err, code, "%s: lock %s", how, key);
    if (code == NF_ELOCKTIMEOUT)
        nf_error_hint(err, "the holder is alive and goes on; wait longer with TORCH_NEURONX_NEFF_CACHE_LOCK_TIMEOUT, or end it");
    return code;
}

static void sweep_now_and_then(struct lock_dir *dir)
{
    struct stat st;
    if (fstatat(dir->fd, SWEEP_MARK, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        int64_t age = nf_wall_us() - ((int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000);
        if (age >= 0 && age < SWEEP_EVERY_NS / 1000)
            return;
    }
    int fd = openat(dir->fd, SWEEP_MARK, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0)
        return;
    bool mine = flock(fd, LOCK_EX | LOCK_NB) == 0 && futimens(fd, NULL) == 0;
    if (mine)
        lock_dir_sweep(dir, LOCK_SWEEP_AGE_NS, SWEEP_AT_ONCE, NULL, NULL);
    close(fd);
}

int lock_host_try(struct lock_dir *dir, struct nf_str key, const char *what, struct lock_host **ret_lock, struct nf_error *err)
{
    char name[LOCK_KEY_MAX + 1];
    int fd = -1, r = lock__key(key, name, err);
    if (r != NF_OK)
        return r;
    sweep_now_and_then(dir);
    r = lock__attempt(dir, name, &fd, err);
    if (r == NF_EBUSY)
        lock__not_won(dir, name, NF_EBUSY, "not free", err);
    if (r != NF_OK) {
        if (fd >= 0)
            close(fd);
        return r;
    }
    *ret_lock = lock__won(dir, name, fd, what);
    return NF_OK;
}

int64_t lock__next_try(int64_t now, int *step, bool watched)
{
    int s = (*step)++;
    if (s < LOCK__IDLE_STEP - 1)                     /* after an event: 0.5, 1, 2 ... 32 ms apart */
        return now + (NF_MS / 2 << NF_MIN(s, 6));
    return now + (watched ? SAFETY_TRY_NS : LOCK_POLL_NS);
}

int lock__watch(int inotify_fd, int fd)
{
    if (inotify_fd < 0)
        return -1;
    char path[48];
    nf_format(path, sizeof(path), "/proc/self/fd/%d", fd);
    return inotify_add_watch(inotify_fd, path, IN_CLOSE | IN_DELETE_SELF | IN_ATTRIB);
}

int lock_host_acquire(struct lock_dir *dir, struct nf_str key, const char *what, int64_t timeout_ns,
                      bool (*stop)(void *user), void *user, struct lock_host **ret_lock, struct nf_error *err)
{
    char name[LOCK_KEY_MAX + 1];
    int fd = -1, watched_fd = -1, r = lock__key(key, name, err);
    if (r != NF_OK)
        return r;
    sweep_now_and_then(dir);
    int64_t now = nf_now_ns();
    int64_t deadline = timeout_ns >= LOCK_FOREVER - now ? LOCK_FOREVER : now + timeout_ns;
    int notify = -1, wd = -1, step = 0;
    bool asked = false;
    for (;;) {
        r = lock__attempt(dir, name, &fd, err);
        if (r != NF_EBUSY)
            break;
        if (!asked) {
            asked = true;
            notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        }
        if (wd < 0 || watched_fd != fd) {
            wd = lock__watch(notify, fd);
            watched_fd = fd;
            if (wd >= 0 && step == 0) {              /* the release may have come before the watch */
                step = 1;
                continue;
            }
        }
        now = nf_now_ns();
        if (now >= deadline) {
            r = lock__not_won(dir, name, NF_ELOCKTIMEOUT, "waited too long", err);
            break;
        }
        if (stop && stop(user)) {
            r = nf_fail(err, NF_ECANCELLED, "the wait for lock %s was cancelled", name);
            break;
        }
        int64_t until = NF_MIN(lock__next_try(now, &step, wd >= 0), deadline);
        if (stop)
            until = NF_MIN(until, now + 100 * NF_MS);
        struct pollfd p = {notify, POLLIN, 0};
        struct timespec wait = {(until - now) / NF_SEC, (until - now) % NF_SEC};
        if (ppoll(&p, notify >= 0, &wait, NULL) > 0) {
            char events[4096];
            while (read(notify, events, sizeof(events)) > 0)
                ;
            step = 1;
        }
    }
    if (notify >= 0)
        close(notify);
    if (r == NF_OK)
        *ret_lock = lock__won(dir, name, fd, what);
    else if (fd >= 0)
        close(fd);
    return r;
}

void lock_host_release(struct lock_host *lock)
{
    if (!lock)
        return;
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_addf(&b, "epoch %llu\n", (unsigned long long)lock->epoch);
    write_record(lock->fd, &b);
    nf_buf_done(&b);
    flock(lock->fd, LOCK_UN);           /* before close, so that the watchers' event finds it free */
    close(lock->fd);
    free(lock);
}

uint64_t lock_host_epoch(const struct lock_host *lock) { return lock->epoch; }
int lock_host_fd(const struct lock_host *lock) { return lock->fd; }

/* --------------------------------------------------------------------------------------------------------- owner */

/* Whether the kernel shows a held flock on the file. "5: FLOCK  ADVISORY  WRITE 814 fe:00:1835037 0 EOF"; waiters have "->". */
static bool kernel_shows(const struct stat *st, pid_t recorded)
{
    struct nf_buf all = NF_BUF_INIT;
    bool found = false;
    int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        nf_fd_read_all(fd, 16u << 20, &all);
        close(fd);
    }
    struct nf_str rest = nf_buf_str(&all);
    while (rest.len > 0 && !found) {
        char line[160], kind[16], mode[16], access[16];
        struct nf_str l = nf_str_cut(&rest, '\n');
        unsigned maj, min;
        unsigned long long ino;
        int pid;
        nf_format(line, sizeof(line), "%.*s", (int)NF_MIN(l.len, sizeof(line) - 1), l.data ? l.data : "");
        if (sscanf(line, "%*d: %15s %15s %15s %d %x:%x:%llu", kind, mode, access, &pid, &maj, &min, &ino) == 7 &&
            strcmp(kind, "FLOCK") == 0 && ino == st->st_ino)
            found = makedev(maj, min) == st->st_dev || pid == recorded;
    }
    nf_buf_done(&all);
    return found;
}

int lock_host_owner(struct lock_dir *dir, struct nf_str key, struct lock_owner *ret_owner)
{
    char name[LOCK_KEY_MAX + 1];
    if (lock__key(key, name, NULL) != NF_OK)
        return NF_ENOTFOUND;
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NF_ENOTFOUND;
    struct lock_owner o = {0};
    struct stat st;
    bool held = read_record(fd, &o) && o.pid > 0 && fstat(fd, &st) == 0;
    if (held && !kernel_shows(&st, o.pid) && flock(fd, LOCK_SH | LOCK_NB) == 0) {
        flock(fd, LOCK_UN);
        held = false;
    }
    close(fd);
    if (!held)
        return NF_ENOTFOUND;
    *ret_owner = o;
    return NF_OK;
}

/* --------------------------------------------------------------------------------------------------------- sweep */

static bool sweep_one(struct lock_dir *dir, const char *name, int64_t before_us)
{
    struct stat st;
    bool removed = false;
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000 <= before_us &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && same_file(dir, name, fd))
        removed = unlinkat(dir->fd, name, 0) == 0;   /* still locked: whoever waits on this inode finds that it lost its name */
    close(fd);
    return removed;
}

int lock_dir_sweep(struct lock_dir *dir, int64_t min_age_ns, size_t max, size_t *ret_removed, struct nf_error *err)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int r = nf_fail_errno(err, errno, "cannot list %s", dir->path);
        if (fd >= 0)
            close(fd);
        return r;
    }
    int64_t before_us = nf_wall_us() - min_age_ns / 1000;
    size_t seen = 0, removed = 0;
    for (struct dirent *e; (e = readdir(d)) && (max == 0 || seen < max);) {
        char name[LOCK_KEY_MAX + 1];
        if (lock__key(nf_str_c(e->d_name), name, NULL) != NF_OK)
            continue;
        seen++;
        removed += sweep_one(dir, name, before_us);
    }
    closedir(d);
    if (ret_removed)
        *ret_removed = removed;
    return NF_OK;
}
