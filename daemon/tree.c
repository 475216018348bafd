/* tree.c: see tree.h. Reads /proc/PID/task/TID/children where the kernel has it, else the parents of all processes. */
#include "daemon/tree.h"

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#define TREE_MAX 4096

static bool is_number(const char *name)
{
    for (const char *p = name; *p; p++)
        if (!isdigit((unsigned char)*p))
            return false;
    return *name != '\0';
}

static pid_t to_pid(const char *name)
{
    int64_t v = 0;
    return nf_str_to_i64(nf_str_c(name), &v) == NF_OK ? (pid_t)v : 0;
}

/* The whole of a small /proc file; those report no size and must be read in few calls. */
static ssize_t read_proc(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = 0;
    while (n + 1 < size) {
        ssize_t got = read(fd, out + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    out[n] = '\0';
    return (ssize_t)n;
}

static size_t children_of_task(pid_t pid, const char *tid, pid_t *out, size_t cap, bool *ret_known)
{
    char path[96], text[16384];
    nf_format(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, tid);
    ssize_t n = read_proc(path, text, sizeof text);
    if (n < 0) {
        *ret_known = errno != ENOENT;
        return 0;
    }
    *ret_known = true;
    size_t count = 0;
    struct nf_str rest = nf_str_n(text, (size_t)n);
    while (rest.len && count < cap) {
        struct nf_str word = nf_str_trim(nf_str_cut(&rest, ' '));
        int64_t v;
        /* A child that is reaped while the list is made shows as 0, and kill(0) is the end of our own process group. */
        if (word.len && nf_str_to_i64(word, &v) == NF_OK && v > 1)
            out[count++] = (pid_t)v;
    }
    return count;
}

/* The fourth field of stat, behind a command name that may hold anything. */
static pid_t parent_of(pid_t pid)
{
    char path[64], text[1024];
    nf_format(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (read_proc(path, text, sizeof text) <= 0)
        return 0;
    char *p = strrchr(text, ')');
    if (!p || strlen(p) < 5)
        return 0;
    struct nf_str rest = nf_str_c(p + 4);   /* ") S " */
    int64_t v = 0;
    return nf_str_to_i64(nf_str_cut(&rest, ' '), &v) == NF_OK ? (pid_t)v : 0;
}

size_t tree_children(pid_t root, pid_t *out, size_t cap)
{
    char path[64];
    nf_format(path, sizeof path, "/proc/%d/task", (int)root);
    DIR *d = opendir(path);
    if (!d)
        return 0;
    size_t n = 0;
    bool known = true;
    for (struct dirent *e; (e = readdir(d)) && n < cap && known;)
        if (is_number(e->d_name))
            n += children_of_task(root, e->d_name, out + n, cap - n, &known);
    closedir(d);
    if (known || n)
        return n;
    if (!(d = opendir("/proc")))   /* a kernel without CONFIG_PROC_CHILDREN, or a task that has just ended */
        return 0;
    for (struct dirent *e; (e = readdir(d)) && n < cap;)
        if (is_number(e->d_name) && parent_of(to_pid(e->d_name)) == root)
            out[n++] = to_pid(e->d_name);
    closedir(d);
    return n;
}

size_t tree_descendants(pid_t root, pid_t *out, size_t cap)
{
    size_t n = tree_children(root, out, cap);
    for (size_t i = 0; i < n && n < cap; i++)
        n += tree_children(out[i], out + n, cap - n);
    return n;
}

size_t tree_kill(pid_t root, bool with_root)
{
    if (root <= 1)   /* nobody's tree: 0 is our group for kill(2), 1 is everything */
        return 0;
    pid_t *pids = nf_alloc_array(TREE_MAX, sizeof *pids);
    /* The root first: it can then start nothing more, and its children are handed to the sub-reaper above it. */
    size_t n = tree_descendants(root, pids, TREE_MAX), killed = 0;
    if (with_root && kill(root, SIGKILL) == 0)
        killed++;
    /* The others from the leaves up: whoever adopts orphans on the way (a compiler's keeper) goes last, so that nobody is left to init
     * if this process itself is killed half-way, as a worker is when its daemon dies. */
    for (size_t i = n; i > 0; i--)
        if (kill(pids[i - 1], SIGKILL) == 0)
            killed++;
    free(pids);
    return killed;
}

uint64_t tree_rss_of(pid_t pid)
{
    char path[64], text[256];
    nf_format(path, sizeof path, "/proc/%d/statm", (int)pid);
    if (read_proc(path, text, sizeof text) <= 0)
        return 0;
    struct nf_str rest = nf_str_c(text);
    nf_str_cut(&rest, ' ');
    uint64_t pages = 0;
    if (nf_str_to_u64(nf_str_cut(&rest, ' '), &pages) < 0)
        return 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t tree_rss_bytes(pid_t root)
{
    pid_t pids[256];
    size_t n = tree_descendants(root, pids, NF_ARRAY_LEN(pids));
    uint64_t sum = tree_rss_of(root);
    for (size_t i = 0; i < n; i++)
        sum += tree_rss_of(pids[i]);
    return sum;
}

/* ------------------------------------------------------------------------------------------------------- instances */

static bool has_marker(pid_t pid, const char *wanted, char *text, size_t size)
{
    char path[64];
    nf_format(path, sizeof path, "/proc/%d/environ", (int)pid);
    ssize_t n = read_proc(path, text, size);
    if (n <= 0)
        return false;
    struct nf_str rest = nf_str_n(text, (size_t)n);
    while (rest.len)
        if (nf_str_eq_c(nf_str_cut(&rest, '\0'), wanted))
            return true;
    return false;
}

size_t tree_kill_marked(const char *marker, pid_t except)
{
    DIR *d = opendir("/proc");
    if (!d)
        return 0;
    char *wanted = nf_asprintf(TREE_MARKER "=%s", marker);
    enum { ENVIRON_MAX = 1 << 20 };
    char *text = nf_alloc(ENVIRON_MAX);
    size_t killed = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!is_number(e->d_name))
            continue;
        pid_t pid = to_pid(e->d_name);
        if (pid > 1 && pid != except && pid != getpid() && has_marker(pid, wanted, text, ENVIRON_MAX) && kill(pid, SIGKILL) == 0)
            killed++;
    }
    closedir(d);
    free(text);
    free(wanted);
    return killed;
}

static void sweep_dead(int dir_fd)
{
    int copy = dup(dir_fd);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    if (!d) {
        if (copy >= 0)
            close(copy);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (strlen(e->d_name) != TREE_MARKER_LEN - 1 || strspn(e->d_name, "0123456789abcdef") != TREE_MARKER_LEN - 1)
            continue;
        int fd = openat(dir_fd, e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {   /* nobody holds it: that daemon is dead */
            size_t killed = 0, round = 0;
            for (size_t n; (n = tree_kill_marked(e->d_name, 0)) > 0 && round < 20; round++) {
                killed += round == 0 ? n : 0;
                usleep(10000);
            }
            if (killed)
                nf_log(NF_LOG_WARNING, "daemon", "leftovers of a killed daemon removed", "instance=%s processes=%zu", e->d_name, killed);
            unlinkat(dir_fd, e->d_name, 0);
        }
        close(fd);
    }
    closedir(d);
}

int tree_instance_open(const char *local_dir, char ret_marker[TREE_MARKER_LEN], int *ret_lock_fd, struct nf_error *err)
{
    unsigned char bits[16];
    nf_random(bits, sizeof bits);
    for (size_t i = 0; i < sizeof bits; i++)
        nf_format(ret_marker + 2 * i, 3, "%02x", bits[i]);
    *ret_lock_fd = -1;
    char *path = nf_asprintf("%s/run", local_dir);
    int rc = nf_mkdir_p(path, 0700, err);
    int dir_fd = rc == NF_OK ? nf_dir_open(path, err) : rc;
    if (dir_fd >= 0) {
        sweep_dead(dir_fd);
        /* Locked before it has its final name, so that nobody sees it free. */
        char tmp[TREE_MARKER_LEN + 8];
        nf_format(tmp, sizeof tmp, ".new-%s", ret_marker);
        int fd = openat(dir_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && renameat(dir_fd, tmp, dir_fd, ret_marker) == 0) {
            *ret_lock_fd = fd;
        } else {
            rc = nf_fail_errno(err, errno, "cannot make %s/%s", path, ret_marker);
            if (fd >= 0)
                close(fd);
            unlinkat(dir_fd, tmp, 0);
        }
        close(dir_fd);
    } else {
        rc = dir_fd;
    }
    free(path);
    return rc < 0 ? rc : NF_OK;
}

void tree_instance_close(const char *local_dir, const char *marker, int lock_fd)
{
    if (lock_fd < 0)
        return;
    char *path = nf_asprintf("%s/run/%s", local_dir, marker);
    unlink(path);
    free(path);
    close(lock_fd);
}
