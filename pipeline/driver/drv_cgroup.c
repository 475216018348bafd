#include "pipeline/driver/drv_cgroup.h"

#include "base/clock.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(const char *dir, const char *file, const char *text)
{
    char *path = nf_asprintf("%s/%s", dir, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    free(path);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static bool get(const char *dir, const char *file, struct nf_buf *out)
{
    char *path = nf_asprintf("%s/%s", dir, file);
    int r = nf_file_read(path, 65536, out, NULL);
    free(path);
    return r == NF_OK;
}

/* Where this process stands in the unified hierarchy: "0::/user.slice/x" below the mount. NULL: there is none. */
static char *own_place(void)
{
    struct nf_buf text = NF_BUF_INIT;
    char *found = NULL;
    if (nf_file_read("/proc/self/cgroup", 65536, &text, NULL) == NF_OK) {
        struct nf_str rest = nf_buf_str(&text);
        while (rest.len > 0 && !found) {
            struct nf_str line = nf_str_cut(&rest, '\n');
            if (!nf_str_starts(line, NF_STR("0::/")))
                continue;
            static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
            for (size_t i = 0; i < NF_ARRAY_LEN(mounts) && !found; i++) {
                char *path = nf_asprintf("%s%.*s", mounts[i], (int)(line.len - 3), line.data + 3);
                char *probe = nf_asprintf("%s/cgroup.procs", path);
                char *type = nf_asprintf("%s/cgroup.controllers", mounts[i]);
                if (access(probe, W_OK) == 0 && access(type, F_OK) == 0)
                    found = path;
                else
                    free(path);
                free(probe);
                free(type);
            }
        }
    }
    nf_buf_done(&text);
    return found;
}

/* Those of processes that were killed together with their keepers. What still has members cannot be removed, so nothing is lost. */
static void sweep(const char *place)
{
    DIR *d = opendir(place);
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = 0;
        unsigned n;
        if (sscanf(e->d_name, "neffd-%d-%u", &pid, &n) == 2 && pid > 1 && kill(pid, 0) < 0 && errno == ESRCH)
            unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
}

void drv_cgroup_make(struct drv_cgroup *g, uint64_t memory_limit_bytes)
{
    static _Atomic unsigned number;
    *g = (struct drv_cgroup){.procs = -1};
    char *place = own_place();
    if (!place)
        return;
    unsigned mine = atomic_fetch_add(&number, 1);
    if (mine == 0)
        sweep(place);
    char *path = nf_asprintf("%s/neffd-%d-%u", place, (int)getpid(), mine);
    free(place);
    if (mkdir(path, 0755) < 0) {
        free(path);
        return;
    }
    if (memory_limit_bytes > 0) {
        char text[32];
        nf_format(text, sizeof(text), "%llu", (unsigned long long)memory_limit_bytes);
        g->limited = put(path, "memory.max", text) == 0;
        if (g->limited)
            put(path, "memory.swap.max", "0");
    }
    char *procs = nf_asprintf("%s/cgroup.procs", path);
    g->procs = open(procs, O_WRONLY | O_CLOEXEC);
    free(procs);
    g->path = path;
}

bool drv_cgroup_oom(const struct drv_cgroup *g)
{
    struct nf_buf text = NF_BUF_INIT;
    bool oom = false;
    if (g->path && get(g->path, "memory.events", &text)) {
        struct nf_str rest = nf_buf_str(&text);
        while (rest.len > 0) {
            struct nf_str line = nf_str_cut(&rest, '\n');
            oom = oom || (nf_str_starts(line, NF_STR("oom_kill ")) && !nf_str_eq_c(line, "oom_kill 0"));
        }
    }
    nf_buf_done(&text);
    return oom;
}

uint64_t drv_cgroup_peak(const struct drv_cgroup *g)
{
    struct nf_buf text = NF_BUF_INIT;
    uint64_t peak = 0;
    if (g->path && get(g->path, "memory.peak", &text))
        nf_str_to_u64(nf_str_trim(nf_buf_str(&text)), &peak);
    nf_buf_done(&text);
    return peak;
}

void drv_cgroup_remove(struct drv_cgroup *g)
{
    if (!g->path)
        return;
    if (g->procs >= 0)
        close(g->procs);
    put(g->path, "cgroup.kill", "1");
    for (int i = 0; i < 200 && rmdir(g->path) < 0 && errno == EBUSY; i++)
        nf_sleep_ns(5 * NF_MS);
    free(g->path);
    *g = (struct drv_cgroup){.procs = -1};
}

/* ------------------------------------------------------------------------------------------------------------ memory */

static bool number(const char *dir, const char *file, const char *word, uint64_t *ret_value)
{
    struct nf_buf text = NF_BUF_INIT;
    bool found = false;
    if (get(dir, file, &text)) {
        struct nf_str rest = nf_buf_str(&text);
        while (rest.len > 0 && !found) {
            struct nf_str line = nf_str_cut(&rest, '\n');
            if (word && !nf_str_eq_c(nf_str_cut(&line, ' '), word))
                continue;
            struct nf_str value = nf_str_trim(line);
            struct nf_str digits = nf_str_cut(&value, ' ');       /* "12 kB" */
            found = nf_str_to_u64(digits, ret_value) == NF_OK;    /* not "max" */
            if (!word)
                break;
        }
    }
    nf_buf_done(&text);
    return found;
}

uint64_t drv_oom_kills(void)
{
    uint64_t n = 0;
    number("/proc", "vmstat", "oom_kill", &n);
    return n;
}

static const struct hierarchy {
    const char *mount, *line, *limit, *usage, *cache;
} hierarchies[] = {
    {"/sys/fs/cgroup", "0::", "memory.max", "memory.current", "inactive_file"},
    {"/sys/fs/cgroup/memory", ":memory:", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/* From our own cgroup to the root: any of them may be the tightest. One that is not mounted where we are has no files. */
static void limit_by(const struct hierarchy *h, const char *place, uint64_t *total, uint64_t *available)
{
    char *dir = nf_asprintf("%s%s", h->mount, place);
    for (size_t root = strlen(h->mount);;) {
        uint64_t limit, usage, cache = 0;
        if (number(dir, h->limit, NULL, &limit) && number(dir, h->usage, NULL, &usage)) {
            number(dir, "memory.stat", h->cache, &cache);
            usage -= NF_MIN(usage, cache);
            *total = NF_MIN(*total, limit);
            *available = NF_MIN(*available, limit - NF_MIN(limit, usage));
        }
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= root || !slash)
            break;
        *slash = 0;
    }
    free(dir);
}

void drv_memory(uint64_t *ret_total, uint64_t *ret_available)
{
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), available = total, kib;
    if (number("/proc", "meminfo", "MemAvailable:", &kib))
        available = NF_MIN(total, kib * 1024);
    struct nf_buf text = NF_BUF_INIT;
    if (nf_file_read("/proc/self/cgroup", 65536, &text, NULL) == NF_OK) {
        struct nf_str rest = nf_buf_str(&text);
        while (rest.len > 0) {
            struct nf_str line = nf_str_cut(&rest, '\n');
            for (size_t i = 0; i < NF_ARRAY_LEN(hierarchies); i++) {
                const char *at = memmem(line.data, line.len, hierarchies[i].line, strlen(hierarchies[i].line));
                if (!at)
                    continue;
                const char *from = at + strlen(hierarchies[i].line);
                char *place = nf_asprintf("%.*s", (int)(line.data + line.len - from), from);
                limit_by(&hierarchies[i], place, &total, &available);
                free(place);
            }
        }
    }
    nf_buf_done(&text);
    *ret_total = total;
    *ret_available = available;
}
