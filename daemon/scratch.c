/* scratch.c: see scratch.h. */
#include "daemon/scratch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uv.h>

#define ROOTS_MAX 4
#define ROOM_BYTES ((uint64_t)32 << 20)
#define LOOSE_KEEP_NS (600 * NF_SEC)
#define SWEEP_MS 30000

struct root {
    char *path;               /* ROOT/<marker> */
    char *base;               /* ROOT */
    int lock_fd;              /* on ROOT/<marker>, held while we live */
    int64_t bad_until_ns;
};

struct scratch {
    uv_loop_t *loop;
    struct root roots[ROOTS_MAX];
    size_t count;
    uint64_t next_upload;
    struct nf_map *loose;     /* digest -> struct loose_file */
    uv_timer_t sweep;
    char *spill;
};

static bool marker_name(const char *name) { return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32; }

/* Directories whose lock nobody holds belonged to daemons that are dead. */
static void remove_dead(const char *base)
{
    struct nf_error ignored;
    int fd = nf_dir_open(base, &ignored);
    if (fd < 0)
        return;
    DIR *d = fdopendir(dup(fd));
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!marker_name(e->d_name))
            continue;
        int dir = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (dir < 0)
            continue;
        if (flock(dir, LOCK_EX | LOCK_NB) == 0)
            nf_remove_tree(fd, e->d_name);
        close(dir);
    }
    if (d)
        closedir(d);
    close(fd);
}

static void add_root(struct scratch *s, char *base, const char *marker)
{
    struct nf_error err = {0};
    struct root *r = &s->roots[s->count];
    *r = (struct root){.base = base, .path = nf_asprintf("%s/%s", base, marker), .lock_fd = -1};
    int rc = nf_mkdir_p(base, 0711, &err);
    if (rc == NF_OK) {
        remove_dead(base);
        rc = nf_mkdir_p(r->path, 0711, &err);
    }
    if (rc == NF_OK) {
        int fd = nf_dir_open(r->path, &err);
        if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0)
            r->lock_fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    if (r->lock_fd < 0) {
        nf_log(NF_LOG_WARNING, "scratch", "a working directory cannot be used", "path=%s why=%s", nf_log_quote(base), nf_log_quote(err.message));
        free(r->path);
        free(r->base);
        return;
    }
    s->count++;
}

static void on_sweep(uv_timer_t *t)
{
    struct scratch *s = t->data;
    int64_t now = nf_now_ns();
    struct nf_str key;
    void *value;
    for (size_t it = 0; nf_map_next(s->loose, &it, &key, &value);) {
        struct loose_file *f = value;
        if (f->expires_ns > now)
            continue;
        nf_map_del(s->loose, key);
        unlink(f->path);
        free(f->path);
        free(f);
    }
}

int scratch_open(uv_loop_t *loop, const char *local_dir, const char *work_dir, const char *marker, struct scratch **ret_scratch, struct nf_error *err)
{
    struct scratch *s = nf_alloc(sizeof *s);
    s->loop = loop;
    s->loose = nf_map_new(true);
    add_root(s, work_dir && *work_dir ? nf_strdup(work_dir) : nf_asprintf("%s/work", local_dir), marker);
    const char *tmp = getenv("TMPDIR");
    add_root(s, nf_asprintf("%s/neffd-work-%u", tmp && *tmp == '/' ? tmp : "/tmp", (unsigned)geteuid()), marker);
    add_root(s, nf_asprintf("/dev/shm/neffd-work-%u", (unsigned)geteuid()), marker);
    if (!s->count) {
        nf_map_free(s->loose);
        free(s);
        return nf_fail(err, NF_EIO, "no working directory can be made, neither below %s nor in /tmp or /dev/shm", local_dir);
    }
    s->spill = nf_asprintf("%s/spill", s->roots[s->count > 1 ? 1 : 0].path);
    uv_timer_init(loop, &s->sweep);
    s->sweep.data = s;
    uv_timer_start(&s->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    uv_unref((uv_handle_t *)&s->sweep);
    *ret_scratch = s;
    return NF_OK;
}

static void on_closed(uv_handle_t *h)
{
    struct scratch *s = h->data;
    free(s);
}

void scratch_close(struct scratch *s)
{
    if (!s)
        return;
    struct nf_str key;
    void *value;
    for (size_t it = 0; nf_map_next(s->loose, &it, &key, &value);) {
        struct loose_file *f = value;
        free(f->path);
        free(f);
    }
    nf_map_free(s->loose);
    for (size_t i = 0; i < s->count; i++) {
        struct root *r = &s->roots[i];
        struct nf_error ignored;
        int fd = nf_dir_open(r->base, &ignored);
        if (fd >= 0) {
            nf_remove_tree(fd, strrchr(r->path, '/') + 1);
            close(fd);
        }
        close(r->lock_fd);
        free(r->path);
        free(r->base);
    }
    free(s->spill);
    uv_close((uv_handle_t *)&s->sweep, on_closed);
}

const char *scratch_spill_dir(const struct scratch *s) { return s->spill; }

static struct root *best_root(struct scratch *s)
{
    int64_t now = nf_now_ns();
    for (size_t i = 0; i < s->count; i++) {
        struct statvfs v;
        struct root *r = &s->roots[i];
        if (r->bad_until_ns > now || statvfs(r->path, &v) != 0 || (v.f_flag & ST_RDONLY) || (uint64_t)v.f_bavail * v.f_frsize < ROOM_BYTES)
            continue;
        return r;
    }
    return &s->roots[0];
}

bool scratch_avoid(struct scratch *s, const char *path)
{
    int64_t now = nf_now_ns();
    for (size_t i = 0; i < s->count; i++)
        if (strncmp(path, s->roots[i].path, strlen(s->roots[i].path)) == 0)
            s->roots[i].bad_until_ns = now + 30 * NF_SEC;
    for (size_t i = 0; i < s->count; i++)
        if (s->roots[i].bad_until_ns <= now)
            return true;
    return false;
}

int scratch_dir(struct scratch *s, uint64_t number, char **ret_path, struct nf_error *err)
{
    int saved = 0;
    for (size_t tries = 0; tries <= s->count; tries++) {
        struct root *r = best_root(s);
        char *path = nf_asprintf("%s/job-%llu", r->path, (unsigned long long)number);
        if (mkdir(path, 0700) == 0) {
            *ret_path = path;
            return NF_OK;
        }
        saved = errno;
        nf_fail_errno(err, saved, "cannot make the working directory %s", path);
        free(path);
        r->bad_until_ns = nf_now_ns() + 30 * NF_SEC;
    }
    return nf_status_from_errno(saved);
}

int scratch_file(struct scratch *s, char **ret_path, int *ret_fd, struct nf_error *err)
{
    int saved = 0;
    for (size_t tries = 0; tries <= s->count; tries++) {
        struct root *r = best_root(s);
        char *path = nf_asprintf("%s/up-%llu", r->path, (unsigned long long)++s->next_upload);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            *ret_path = path;
            *ret_fd = fd;
            return NF_OK;
        }
        saved = errno;
        nf_fail_errno(err, saved, "cannot make %s", path);
        free(path);
        if (saved == EMFILE || saved == ENFILE)
            return nf_fail(err, NF_EOVERLOADED, "no file descriptor is free for what the caller sends");
        r->bad_until_ns = nf_now_ns() + 30 * NF_SEC;
    }
    return nf_status_from_errno(saved);
}

struct removal {
    uv_work_t work;
    char *path;
};

static void run_removal(uv_work_t *w)
{
    struct removal *r = w->data;
    char *slash = strrchr(r->path, '/');
    struct nf_error ignored;
    if (!slash || slash == r->path)
        return;
    *slash = '\0';
    int fd = nf_dir_open(r->path, &ignored);
    if (fd >= 0) {
        nf_remove_tree(fd, slash + 1);
        close(fd);
    }
}

static void end_removal(uv_work_t *w, int status)
{
    struct removal *r = w->data;
    (void)status;
    free(r->path);
    free(r);
}

void scratch_remove(struct scratch *s, char *path)
{
    if (!path)
        return;
    struct removal *r = nf_alloc(sizeof *r);
    r->path = path;
    r->work.data = r;
    if (uv_queue_work(s->loop, &r->work, run_removal, end_removal) != 0) {
        free(path);
        free(r);
    }
}

void scratch_set_aside(struct scratch *s, char *path)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct root *r = &s->roots[i];
        size_t n = strlen(r->path);
        if (strncmp(path, r->path, n) != 0)
            continue;
        char *to = nf_asprintf("%s/failed-%.8s-%s", r->base, strrchr(r->path, '/') + 1, path + n + 1);
        if (rename(path, to) == 0)
            nf_log(NF_LOG_INFO, "scratch", "the working directory of a failed compile is kept", "path=%s", nf_log_quote(to));
        else
            nf_log(NF_LOG_WARNING, "scratch", "a working directory cannot be kept", "path=%s errno=%d", nf_log_quote(path), errno);
        free(to);
        break;
    }
    free(path);
}

/* ------------------------------------------------------------------------------------------------------ loose files */

static int hash_file(int fd, struct nf_digest *ret, uint64_t *ret_size)
{
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    enum { CHUNK = 1 << 18 };
    char *chunk = nf_alloc(CHUNK);
    uint64_t at = 0;
    ssize_t n;
    while ((n = pread(fd, chunk, CHUNK, (off_t)at)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) {
            nf_sha256_add(&sha, chunk, (size_t)n);
            at += (uint64_t)n;
        }
    free(chunk);
    if (n < 0)
        return nf_status_from_errno(errno);
    *ret = nf_sha256_end(&sha);
    *ret_size = at;
    return NF_OK;
}

static const struct loose_file *remember(struct scratch *s, const struct nf_digest *sha, uint64_t size, char *path)
{
    struct loose_file *f = nf_map_get(s->loose, nf_digest_str(sha));
    if (f) {
        if (strcmp(f->path, path) != 0)
            unlink(path);
        free(path);
    } else {
        f = nf_alloc(sizeof *f);
        *f = (struct loose_file){.sha256 = *sha, .path = path, .size = size};
        nf_map_put(s->loose, nf_digest_str(&f->sha256), f);
    }
    f->expires_ns = nf_now_ns() + LOOSE_KEEP_NS;
    return f;
}

static char *loose_path(const struct scratch *s, size_t root, const struct nf_digest *sha, const char *kind)
{
    char hex[NF_DIGEST_HEX];
    return nf_asprintf("%s/loose-%s.%s", s->roots[root].path, nf_digest_hex(sha, hex), kind);
}

int scratch_hash_file(const char *path, struct nf_digest *ret_sha256, uint64_t *ret_size, struct nf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", path);
    int rc = hash_file(fd, ret_sha256, ret_size);
    close(fd);
    return rc < 0 ? nf_fail(err, rc, "cannot read %s", path) : NF_OK;
}

int scratch_keep_file(struct scratch *s, const char *path, const char *kind, const struct nf_digest *sha256, uint64_t size,
                      struct loose_file const **ret_file, struct nf_error *err)
{
    if (chmod(path, 0644) != 0)
        return nf_fail_errno(err, errno, "cannot set the mode of %s", path);
    for (size_t i = 0; i < s->count; i++) {
        if (strncmp(path, s->roots[i].path, strlen(s->roots[i].path)) != 0)
            continue;
        char *to = loose_path(s, i, sha256, kind);
        if (rename(path, to) == 0) {
            *ret_file = remember(s, sha256, size, to);
            return NF_OK;
        }
        int rc = nf_fail_errno(err, errno, "cannot rename %s to %s", path, to);
        free(to);
        return rc;
    }
    return nf_fail(err, NF_EINTERNAL, "%s is not below a working directory", path);
}

int scratch_keep_bytes(struct scratch *s, struct nf_str bytes, const char *kind, struct loose_file const **ret_file, struct nf_error *err)
{
    struct nf_digest sha = nf_digest_of(bytes.data, bytes.len);
    struct loose_file *known = nf_map_get(s->loose, nf_digest_str(&sha));
    if (known) {
        known->expires_ns = nf_now_ns() + LOOSE_KEEP_NS;
        *ret_file = known;
        return NF_OK;
    }
    char *tmp;
    int fd;
    int rc = scratch_file(s, &tmp, &fd, err);
    if (rc < 0)
        return rc;
    rc = nf_fd_write_all(fd, bytes.data, bytes.len);
    close(fd);
    if (rc < 0)
        nf_fail(err, rc, "cannot write %s", tmp);
    else
        rc = scratch_keep_file(s, tmp, kind, &sha, bytes.len, ret_file, err);
    if (rc < 0)
        unlink(tmp);
    free(tmp);
    return rc;
}

void scratch_note(struct scratch *s, const struct nf_digest *sha256, uint64_t size, const char *path) { remember(s, sha256, size, nf_strdup(path)); }

const struct loose_file *scratch_find(struct scratch *s, const struct nf_digest *sha256)
{
    struct loose_file *f = nf_map_get(s->loose, nf_digest_str(sha256));
    if (f)
        f->expires_ns = nf_now_ns() + LOOSE_KEEP_NS;
    return f;
}
