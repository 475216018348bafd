/* faultfs: a pass-through file system that misbehaves on command, as a stand-in for a network mount.
 *
 *     faultfs BACKING MOUNTPOINT CONTROL [FUSE OPTIONS]
 *
 * CONTROL is an ordinary file outside the mount, read before every operation; its words say what goes wrong from now on:
 *
 *     (empty)        nothing
 *     hang           every operation waits until the word is gone
 *     hang-write     only writing, syncing, linking and creating wait
 *     eio enospc erofs estale    every operation (erofs, enospc: every changing one) fails so
 *     latency N      every operation takes N ms longer
 *     lost-link      link does its work and says EEXIST
 *     short-read     reads of data fail with EIO
 *
 * Two mounts of one backing directory with -o entry_timeout=..,attr_timeout=..,negative_timeout=.. behave as two hosts with caches
 * of their own. flock and fcntl locks are not passed on, as on a mount without them. */
#define FUSE_USE_VERSION 35
#include <fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static int backing;
static const char *control;

static void words(char out[128])
{
    int fd = open(control, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, 127) : 0;
    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = 0;
}

static void sleep_ms(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

/* 0, or the negative errno to answer. */
static int fault(int changes)
{
    char w[128];
    for (words(w); strstr(w, "hang") && (!strstr(w, "hang-write") || changes); words(w)) {
        if (fuse_interrupted())
            return -EINTR;
        sleep_ms(10);
    }
    const char *latency = strstr(w, "latency ");
    if (latency)
        sleep_ms(strtol(latency + 8, NULL, 10));
    if (strstr(w, "eio"))
        return -EIO;
    if (strstr(w, "estale"))
        return -ESTALE;
    if (changes && strstr(w, "enospc"))
        return -ENOSPC;
    if (changes && strstr(w, "erofs"))
        return -EROFS;
    return 0;
}

#define FAULT(changes) \
    do { \
        int fault_ = fault(changes); \
        if (fault_) \
            return fault_; \
    } while (0)

static const char *rel(const char *path) { return path[1] ? path + 1 : "."; }
static int result(int rc) { return rc < 0 ? -errno : 0; }

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    FAULT(0);
    return result(fi ? fstat((int)fi->fh, st) : fstatat(backing, rel(path), st, AT_SYMLINK_NOFOLLOW));
}

static int fs_access(const char *path, int mask)
{
    FAULT((mask & W_OK) != 0);
    return result(faccessat(backing, rel(path), mask, 0));
}

static int fs_readlink(const char *path, char *out, size_t size)
{
    FAULT(0);
    ssize_t n = readlinkat(backing, rel(path), out, size - 1);
    if (n < 0)
        return -errno;
    out[n] = 0;
    return 0;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
    (void)offset;
    (void)fi;
    (void)flags;
    FAULT(0);
    int fd = openat(backing, rel(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return -errno;
    for (struct dirent *e; (e = readdir(dir));)
        if (fill(buf, e->d_name, NULL, 0, 0))
            break;
    closedir(dir);
    return 0;
}

static int fs_mkdir(const char *path, mode_t mode)
{
    FAULT(1);
    return result(mkdirat(backing, rel(path), mode));
}

static int fs_unlink(const char *path)
{
    FAULT(1);
    return result(unlinkat(backing, rel(path), 0));
}

static int fs_rmdir(const char *path)
{
    FAULT(1);
    return result(unlinkat(backing, rel(path), AT_REMOVEDIR));
}

static int fs_symlink(const char *from, const char *to)
{
    FAULT(1);
    return result(symlinkat(from, backing, rel(to)));
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
    FAULT(1);
    return result(renameat2(backing, rel(from), backing, rel(to), flags));
}

static int fs_link(const char *from, const char *to)
{
    FAULT(1);
    char w[128];
    int rc = result(linkat(backing, rel(from), backing, rel(to), 0));
    words(w);
    return rc == 0 && strstr(w, "lost-link") ? -EEXIST : rc;
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    FAULT(1);
    return result(fi ? fchmod((int)fi->fh, mode) : fchmodat(backing, rel(path), mode, 0));
}

static int fs_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
    (void)fi;
    FAULT(1);
    return result(fchownat(backing, rel(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
    FAULT(1);
    if (fi)
        return result(ftruncate((int)fi->fh, size));
    int fd = openat(backing, rel(path), O_WRONLY | O_CLOEXEC);
    int rc = fd < 0 ? -errno : result(ftruncate(fd, size));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int fs_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *fi)
{
    FAULT(1);
    return result(fi ? futimens((int)fi->fh, times) : utimensat(backing, rel(path), times, AT_SYMLINK_NOFOLLOW));
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    FAULT(1);
    int fd = openat(backing, rel(path), fi->flags | O_CREAT | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    fi->fh = (uint64_t)fd;
    return 0;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
    FAULT((fi->flags & O_ACCMODE) != O_RDONLY);
    int fd = openat(backing, rel(path), fi->flags | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    fi->fh = (uint64_t)fd;
    return 0;
}

static int fs_read(const char *path, char *buf, size_t size, off_t offset, struct fuse_file_info *fi)
{
    char w[128];
    (void)path;
    FAULT(0);
    words(w);
    if (strstr(w, "short-read"))
        return -EIO;
    ssize_t n = pread((int)fi->fh, buf, size, offset);
    return n < 0 ? -errno : (int)n;
}

static int fs_write(const char *path, const char *buf, size_t size, off_t offset, struct fuse_file_info *fi)
{
    (void)path;
    FAULT(1);
    ssize_t n = pwrite((int)fi->fh, buf, size, offset);
    return n < 0 ? -errno : (int)n;
}

static int fs_statfs(const char *path, struct statvfs *out)
{
    (void)path;
    FAULT(0);
    return result(fstatvfs(backing, out));
}

static int fs_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    close((int)fi->fh);
    return 0;
}

static int fs_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
    (void)path;
    FAULT(1);
    return result(data_only ? fdatasync((int)fi->fh) : fsync((int)fi->fh));
}

static int fs_fsyncdir(const char *path, int data_only, struct fuse_file_info *fi)
{
    (void)path;
    (void)data_only;
    (void)fi;
    FAULT(1);
    return 0;
}

static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
    (void)conn;
    cfg->use_ino = 1; /* a hard link is the same file */
    return NULL;
}

static const struct fuse_operations operations = {
    .init = fs_init,
    .getattr = fs_getattr, .access = fs_access,   .readlink = fs_readlink, .readdir = fs_readdir,   .mkdir = fs_mkdir,     .unlink = fs_unlink,
    .rmdir = fs_rmdir,     .symlink = fs_symlink, .rename = fs_rename,     .link = fs_link,         .chmod = fs_chmod,     .chown = fs_chown,
    .truncate = fs_truncate, .utimens = fs_utimens, .create = fs_create,   .open = fs_open,         .read = fs_read,       .write = fs_write,
    .statfs = fs_statfs,   .release = fs_release, .fsync = fs_fsync,       .fsyncdir = fs_fsyncdir,
};

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: faultfs BACKING MOUNTPOINT CONTROL [FUSE OPTIONS]\n");
        return 2;
    }
    backing = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    control = argv[3];
    if (backing < 0) {
        fprintf(stderr, "faultfs: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    umask(0);
    char *args[64] = {argv[0], argv[2]};
    int n = 2;
    for (int i = 4; i < argc && n < 63; i++)
        args[n++] = argv[i];
    return fuse_main(n, args, &operations, NULL);
}
