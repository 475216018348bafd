#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------- reading and writing */

int nf_fd_read_all(int fd, size_t limit_bytes, struct nf_buf *ret_bytes)
{
    struct nf_buf b = NF_BUF_INIT;
    struct stat st;
    size_t chunk = 64 << 10;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && (uint64_t)st.st_size < SIZE_MAX / 2)
        chunk = NF_MIN((size_t)st.st_size, limit_bytes) + 1;
    int rc = NF_OK;
    for (;;) {
        if (!nf_buf_reserve(&b, chunk)) {
            rc = NF_ENOMEM;
            break;
        }
        ssize_t n = read(fd, b.data + b.len, chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = nf_status_from_errno(errno);
            break;
        }
        if (n == 0)
            break;
        b.len += (size_t)n;
        b.data[b.len] = 0;
        if (b.len > limit_bytes) {
            rc = NF_ELIMIT;
            break;
        }
        chunk = NF_MAX((size_t)(64 << 10), b.len / 2);
        chunk = NF_MIN(chunk, (size_t)(16 << 20));
        chunk = NF_MIN(chunk, limit_bytes - b.len + 1);
    }
    if (rc) {
        nf_buf_done(&b);
        return rc;
    }
    *ret_bytes = b;
    return NF_OK;
}

void nf_std_open(void)
{
    int fd = 0;
    while (fd >= 0 && fd <= 2)
        fd = open("/dev/null", O_RDWR);
    if (fd > 2)
        close(fd);
}

int nf_file_read(const char *path, size_t limit_bytes, struct nf_buf *ret_bytes, struct nf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", path);
    struct nf_buf b = NF_BUF_INIT;
    errno = 0;
    int rc = nf_fd_read_all(fd, limit_bytes, &b);
    int saved = errno;
    close(fd);
    if (rc == NF_ELIMIT)
        return nf_fail(err, rc, "%s is over the limit of %zu bytes", path, limit_bytes);
    if (rc == NF_ENOMEM)
        return nf_fail(err, rc, "no memory to read %s", path);
    if (rc)
        return nf_fail(err, rc, "cannot read %s: %s", path, strerror(saved));
    *ret_bytes = b;
    return NF_OK;
}

int nf_fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = write(fd, p, NF_MIN(len, (size_t)1 << 30));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return nf_status_from_errno(errno);
        p += n;
        len -= (size_t)n;
    }
    return NF_OK;
}

int nf_fd_pread_all(int fd, void *data, size_t len, uint64_t offset)
{
    char *p = data;
    while (len) {
        ssize_t n = pread(fd, p, NF_MIN(len, (size_t)1 << 30), (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return nf_status_from_errno(errno);
        if (n == 0)
            return NF_ECORRUPT;
        p += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------- directories */

int nf_dir_open(const char *path, struct nf_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open the directory %s", path);
    return fd;
}

int nf_mkdir_p(const char *path, mode_t mode, struct nf_error *err)
{
    if (!*path)
        return nf_fail(err, NF_EINVAL, "an empty name cannot be a directory");
    char *copy = nf_strdup(path);
    int rc = NF_OK;
    for (char *at = copy + 1;; at++) {
        if (*at && *at != '/')
            continue;
        bool last = !*at;
        *at = 0;
        if (mkdir(copy, mode) != 0 && errno != EEXIST) {
            int saved = errno;
            struct stat st; /* a parent that exists may refuse with EROFS or EACCES before it says EEXIST */
            if (stat(copy, &st) != 0 || !S_ISDIR(st.st_mode)) {
                rc = nf_fail_errno(err, saved, "cannot make the directory %s", copy);
                if (rc == NF_ENOTFOUND) {  /* as in /proc: it is not the directory that was looked for */
                    rc = NF_EPERM;
                    if (err)
                        err->code = rc;
                }
                break;
            }
        }
        if (last) {
            struct stat st;
            if (stat(copy, &st) != 0)
                rc = nf_fail_errno(err, errno, "cannot make the directory %s", copy);
            else if (!S_ISDIR(st.st_mode))
                rc = nf_fail(err, NF_EEXISTS, "%s exists and is not a directory", copy);
            break;
        }
        *at = '/';
    }
    free(copy);
    return rc;
}

static int remove_tree(int dir_fd, const char *name, int depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return NF_OK;
    if (errno != EISDIR && errno != EPERM)
        return nf_status_from_errno(errno);
    if (depth == 0)
        return NF_ELIMIT;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? NF_OK : nf_status_from_errno(errno);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int rc = nf_status_from_errno(errno);
        close(fd);
        return rc;
    }
    int first = NF_OK;
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int rc = remove_tree(dirfd(dir), e->d_name, depth - 1);
        if (rc && !first)
            first = rc;
    }
    closedir(dir);
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT && !first)
        first = nf_status_from_errno(errno);
    return first;
}

int nf_remove_tree(int dir_fd, const char *name)
{
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return NF_EINVAL;
    return remove_tree(dir_fd, name, 128);
}

/* ------------------------------------------------------------------------------------------- mapping */

int nf_map_view_open(const char *path, struct nf_map_view *ret_view, struct nf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", path);
    struct stat st;
    int rc = NF_OK;
    void *data = NULL;
    if (fstat(fd, &st) != 0)
        rc = nf_fail_errno(err, errno, "cannot stat %s", path);
    else if (!S_ISREG(st.st_mode))
        rc = nf_fail(err, NF_EINVAL, "%s is not a regular file", path);
    else if (st.st_size > 0 && (data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        rc = nf_fail_errno(err, errno, "cannot map %s", path);
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_view = (struct nf_map_view){data ? data : "", (size_t)st.st_size, fd};
    return NF_OK;
}

void nf_map_view_close(struct nf_map_view *v)
{
    if (!v->data)
        return;
    if (v->len)
        munmap((void *)(uintptr_t)v->data, v->len);
    close(v->fd);
    *v = (struct nf_map_view){NULL, 0, -1};
}

/* ------------------------------------------------------------------------------------------- publishing */

void nf_random(void *out, size_t len)
{
    unsigned char *p = out;
    while (len) {
        ssize_t n = getrandom(p, NF_MIN(len, (size_t)256), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fprintf(stderr, "neffd: the kernel gives no random bytes: %s\n", strerror(errno));
            abort();
        }
        p += n;
        len -= (size_t)n;
    }
}

static int tmp_open(int dir_fd, mode_t mode, char tmp[48])
{
    unsigned char bits[16];
    nf_random(bits, sizeof(bits));
    size_t at = 0;
    memcpy(tmp, ".tmp-", 5);
    at = 5;
    for (size_t i = 0; i < sizeof(bits); i++, at += 2)
        nf_format(tmp + at, 48 - at, "%02x", bits[i]);
    return openat(dir_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

int nf_pub_begin(int dir_fd, struct nf_pub *ret_pub, struct nf_error *err)
{
    struct nf_pub p = {.dir_fd = dir_fd, .fd = -1};
    p.fd = tmp_open(dir_fd, 0600, p.tmp);
    if (p.fd < 0)
        return nf_fail_errno(err, errno, "cannot create a temporary file");
    *ret_pub = p;
    return NF_OK;
}

void nf_pub_write(struct nf_pub *p, const void *data, size_t len)
{
    if (!p->failed)
        p->failed = nf_fd_write_all(p->fd, data, len);
}

static bool same_file(int dir_fd, const char *name, const struct stat *mine)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == mine->st_ino && st.st_dev == mine->st_dev;
}

int nf_pub_commit(struct nf_pub *p, const char *name, mode_t mode, struct nf_error *err)
{
    int rc = NF_OK;
    struct stat mine;
    if (p->failed)
        rc = nf_fail(err, p->failed, "cannot write the temporary file of %s: %s", name, nf_status_text(p->failed));
    else if (fchmod(p->fd, mode) != 0)
        rc = nf_fail_errno(err, errno, "cannot set the mode of %s", name);
    else if (fsync(p->fd) != 0)
        rc = nf_fail_errno(err, errno, "cannot make %s durable", name);
    else if (fstat(p->fd, &mine) != 0)
        rc = nf_fail_errno(err, errno, "cannot stat the temporary file of %s", name);
    if (rc) {
        nf_pub_abort(p);
        return rc;
    }

    /* A network mount may do the operation and lose the answer, so that a retry reports EEXIST or ENOENT about our own
     * success: whoever's inode stands at the name has won. */
    bool placed = linkat(p->dir_fd, p->tmp, p->dir_fd, name, 0) == 0;
    int why = errno;
    if (!placed && (why == EPERM || why == EOPNOTSUPP || why == ENOSYS || why == EMLINK || why == EACCES)) {
        placed = renameat2(p->dir_fd, p->tmp, p->dir_fd, name, RENAME_NOREPLACE) == 0;
        if (!placed && errno != EINVAL && errno != ENOSYS)
            why = errno;
    }
    if (!placed)
        placed = same_file(p->dir_fd, name, &mine);
    if (!placed) {
        rc = why == EEXIST ? nf_fail(err, NF_EEXISTS, "%s exists already", name) : nf_fail_errno(err, why, "cannot publish %s", name);
    } else if (fsync(p->dir_fd) != 0 && errno != EINVAL && errno != ENOTSUP) {
        rc = nf_fail_errno(err, errno, "cannot make the name %s durable", name);
    }
    nf_pub_abort(p); /* after a link the temporary is a second name of the same file, after a rename it is gone */
    return rc;
}

void nf_pub_abort(struct nf_pub *p)
{
    if (!p->tmp[0])
        return;
    unlinkat(p->dir_fd, p->tmp, 0);
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    p->tmp[0] = 0;
}

int nf_file_replace(const char *path, struct nf_str bytes, mode_t mode, struct nf_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL ? nf_strdup(".") : slash == path ? nf_strdup("/") : nf_strndup(path, (size_t)(slash - path));
    const char *name = slash ? slash + 1 : path;
    int dir_fd = nf_dir_open(dir, err);
    free(dir);
    if (dir_fd < 0)
        return dir_fd;
    char tmp[48];
    int rc = NF_OK;
    int fd = tmp_open(dir_fd, 0600, tmp);
    if (fd < 0) {
        rc = nf_fail_errno(err, errno, "cannot create a temporary file beside %s", path);
        goto out;
    }
    if ((rc = nf_fd_write_all(fd, bytes.data, bytes.len)) != NF_OK)
        nf_fail(err, rc, "cannot write %s: %s", path, nf_status_text(rc));
    else if (fchmod(fd, mode) != 0 || fsync(fd) != 0)
        rc = nf_fail_errno(err, errno, "cannot make %s durable", path);
    else if (renameat(dir_fd, tmp, dir_fd, name) != 0)
        rc = nf_fail_errno(err, errno, "cannot replace %s", path);
    else if (fsync(dir_fd) != 0 && errno != EINVAL)
        rc = nf_fail_errno(err, errno, "cannot make the name %s durable", path);
    if (rc)
        unlinkat(dir_fd, tmp, 0);
    close(fd);
out:
    close(dir_fd);
    return rc;
}

bool nf_output_is_stream(const char *path, char **ret_path)
{
    struct stat st, link;
    bool there = stat(path, &st) == 0, linked = lstat(path, &link) == 0 && S_ISLNK(link.st_mode);
    /* Links of these folders stand for descriptors: what holds one open would not see another file. */
    bool handed = linked && (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0);
    if (there && !S_ISDIR(st.st_mode) && (handed || !S_ISREG(st.st_mode)))
        return true;
    char *real = there && linked ? realpath(path, NULL) : NULL;
    *ret_path = real ? real : nf_strdup(path);
    return false;
}

int nf_output_open(const char *path, struct nf_error *err)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? nf_output_status(nf_fail_errno(err, errno, "cannot open %s", path), err) : fd;
}

int nf_output_close(int fd, const char *path, struct nf_error *err)
{
    /* After EINTR it is closed as well. */
    return close(fd) < 0 && errno != EINTR ? nf_fail_errno(err, errno, "cannot write %s", path) : NF_OK;
}

int nf_output_write(const char *path, struct nf_str bytes, mode_t mode, struct nf_error *err)
{
    char *real;
    int rc;
    if (!nf_output_is_stream(path, &real)) {
        rc = nf_file_replace(real, bytes, mode, err);
        free(real);
        return nf_output_status(rc, err);
    }
    int fd = nf_output_open(path, err);
    if (fd < 0)
        return fd;
    if ((rc = nf_fd_write_all(fd, bytes.data, bytes.len)) == NF_OK)
        return nf_output_close(fd, path, err);
    close(fd);
    return nf_fail(err, rc, "cannot write %s: %s", path, nf_status_text(rc));
}

int nf_output_status(int r, struct nf_error *err)
{
    if (r == NF_ENOTFOUND && err)
        err->code = NF_EIO;
    return r == NF_ENOTFOUND ? NF_EIO : r;
}
