/* doctor.c: does this host have what neffd needs? Every check names a path, what was found, and what to do. */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "base/file.h"
#include "cache/key.h"
#include "client/wire.h"
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

const struct ctl_option ctl_options_doctor[] = {{0}};

struct doctor {
    struct ctl *c;
    struct json_object *list;
    size_t bad;
};

static void check(struct doctor *d, const char *name, const char *path, bool ok, const char *fix, const char *detail_fmt, ...) NF_PRINTF(6, 7);
static void check(struct doctor *d, const char *name, const char *path, bool ok, const char *fix, const char *detail_fmt, ...)
{
    struct nf_buf detail = NF_BUF_INIT;
    va_list ap;
    va_start(ap, detail_fmt);
    nf_buf_vaddf(&detail, detail_fmt, ap);
    va_end(ap);
    const char *text = detail.data ? detail.data : "";
    d->bad += !ok;
    if (ok)
        fix = "";
    if (d->c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "name", ctl_json_str(name));
        json_object_object_add(o, "path", ctl_json_str(path));
        json_object_object_add(o, "ok", json_object_new_boolean(ok));
        json_object_object_add(o, "detail", ctl_json_str(text));
        json_object_object_add(o, "fix", ctl_json_str(fix));
        json_object_array_add(d->list, o);
    } else {
        bool color = d->c->color_out;
        printf("%s%-4s%s %-16s %s%s%s\n", ctl_on(color, ok ? CTL_GREEN : CTL_RED), ok ? "ok" : "FAIL", ctl_off(color), name, ctl_clean(path),
            path[0] && text[0] ? ": " : "", ctl_clean(text));
        if (fix[0])
            printf("     %-16s fix: %s\n", "", ctl_clean(fix));
    }
    nf_buf_done(&detail);
}

/* --------------------------------------------------------------------------------------------------------- directories */

struct fs_kind {
    unsigned long magic;
    const char *name;
    bool local;
};
/* Numbers of statfs(2). What is not listed is taken for local. */
static const struct fs_kind fs_kinds[] = {
    {0xEF53, "ext4", true}, {0x58465342, "xfs", true}, {0x9123683E, "btrfs", true}, {0x01021994, "tmpfs", true}, {0x794C7630, "overlayfs", true},
    {0x2FC12FC1, "zfs", true}, {0xF2F52010, "f2fs", true}, {0x858458F6, "ramfs", true}, {0x6969, "nfs", false}, {0x0BD00BD0, "lustre", false},
    {0x65735546, "fuse", false}, {0xFF534D42, "cifs", false}, {0xFE534D42, "smb2", false}, {0x01021997, "9p", false}, {0x00C36400, "ceph", false},
    {0x47504653, "gpfs", false}, {0x5346414F, "afs", false}};

static const struct fs_kind *kind_of(const struct statfs *fs)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(fs_kinds); i++)
        if ((unsigned long)fs->f_type == fs_kinds[i].magic)
            return &fs_kinds[i];
    return NULL;
}

/* The nearest directory at or above path that exists. */
static void existing_parent(const char *path, char *out, size_t size)
{
    struct stat st;
    (void)nf_format(out, size, "%s", path);
    while (stat(out, &st) < 0 || !S_ISDIR(st.st_mode)) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            (void)nf_format(out, size, ".");
            return;
        }
        slash[slash == out ? 1 : 0] = 0;
        if (slash == out)
            return;
    }
}

/* A file of our own: written, locked, linked; what failed in *ret_what. */
static int probe(const char *dir, bool locks, const char **ret_what)
{
    uint64_t id;
    char a[64], b[64];
    nf_random(&id, sizeof(id));
    (void)nf_format(a, sizeof(a), ".neffd-doctor-%016llx", (unsigned long long)id);
    (void)nf_format(b, sizeof(b), ".neffd-doctor-%016llx-2", (unsigned long long)id);
    int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1, e = 0;
    *ret_what = "be opened";
    if (d < 0)
        return errno;
    *ret_what = "be written to";
    fd = openat(d, a, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        e = errno;
        goto out;
    }
    if (write(fd, "neffd", 5) != 5 || fsync(fd) < 0) {
        e = errno ? errno : EIO;
        goto out;
    }
    if (locks) {
        *ret_what = "be locked in (flock)";
        int again = openat(d, a, O_RDWR | O_CLOEXEC);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
            e = errno;
        else if (again >= 0 && flock(again, LOCK_EX | LOCK_NB) == 0)
            e = EPROTO; /* two holders of one exclusive lock */
        if (again >= 0)
            close(again);
        if (e)
            goto out;
    }
    *ret_what = "hold hard links";
    if (linkat(d, a, d, b, 0) < 0)
        e = errno;
out:
    if (fd >= 0) {
        (void)unlinkat(d, a, 0);
        (void)unlinkat(d, b, 0);
        close(fd);
    }
    close(d);
    return e;
}

static void check_dir(struct doctor *d, const char *name, const char *path, bool local, uid_t daemon_uid)
{
    struct stat st;
    struct statfs fs;
    char at[4096], label[64];
    const char *what;
    struct nf_buf room = NF_BUF_INIT;
    bool exists = stat(path, &st) == 0;
    int why = errno;
    existing_parent(path, at, sizeof(at));
    (void)nf_format(label, sizeof(label), "%s", name);
    if (exists && !S_ISDIR(st.st_mode)) {
        check(d, label, path, false, local ? "name a directory with --local-dir" : "name a directory with --cache-dir", "is not a directory");
        return;
    }
    if (!exists && why != ENOENT) {
        check(d, label, path, false, "correct the path or its permissions", "cannot be looked at: %s", strerror(why));
        return;
    }
    bool mine = exists && (st.st_uid == geteuid() || geteuid() == 0);
    bool others = exists && !mine;
    if (exists)
        check(d, label, path, true, "", "exists, owner uid %u, mode %04o", st.st_uid, st.st_mode & 07777);
    else
        check(d, label, path, access(at, W_OK) == 0, "make it, or name another place", "does not exist yet; %s in %s", access(at, W_OK) == 0 ? "the daemon makes it" : "and cannot be made", at);
    if (local) {
        (void)nf_format(label, sizeof(label), "%s owner", name);
        bool fine = !exists || st.st_uid == 0 || st.st_uid == geteuid() || st.st_uid == daemon_uid;
        check(d, label, path, fine, "use a directory of your own (--local-dir), or the daemon's user's", fine ? "root's, the daemon's or your own" : "belongs to uid %u: what is in it is not trusted", exists ? st.st_uid : 0);
        (void)nf_format(label, sizeof(label), "%s mode", name);
        bool open_to_all = exists && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX);
        check(d, label, path, !open_to_all, "chmod o-w", open_to_all ? "anybody may write to it" : "not writable for everybody");
    }
    (void)nf_format(label, sizeof(label), "%s writable", name);
    int e = probe(exists ? path : at, local, &what);
    if (e && others && (e == EACCES || e == EPERM || e == EROFS))
        check(d, label, path, true, "", "not by this user (uid %u): it is the daemon's to write", geteuid());
    else
        check(d, label, path, e == 0 || (!local && e == EROFS), local ? "use a directory on a local POSIX file system that you may write to" : "give the daemon's user write permission; hits work without it",
            e ? "cannot %s: %s" : local ? "writing, flock and hard links work" : "writing and hard links work", what, e == EPROTO ? "two holders of one exclusive lock" : strerror(e));
    if (statfs(exists ? path : at, &fs) == 0) {
        const struct fs_kind *kind = kind_of(&fs);
        uint64_t free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
        (void)nf_format(label, sizeof(label), "%s file system", name);
        if (local)
            check(d, label, path, !kind || kind->local, "keep the local tier on a local disk: locks are unreliable on network file systems", "%s", kind ? kind->name : "unknown kind, taken for local");
        else
            check(d, label, path, true, "", "%s%s", kind ? kind->name : "unknown kind", kind && !kind->local ? ", may be shared by hosts" : "");
        (void)nf_format(label, sizeof(label), "%s space", name);
        cl_add_bytes(&room, free_bytes);
        check(d, label, path, free_bytes >= (uint64_t)256 << 20 && (fs.f_files == 0 || fs.f_ffree > 1000), "make room, or move it to a larger file system", "%s free%s", room.data,
            fs.f_files && fs.f_ffree <= 1000 ? ", but no inodes" : "");
        nf_buf_done(&room);
    }
}

/* ------------------------------------------------------------------------------------------------------ socket, daemon */

static bool check_daemon(struct doctor *d, neffd_client *client)
{
    struct nf_error err = {0};
    struct stat st;
    struct cl_channel *channel;
    char fix[600];
    if (cl_client_channel(client, &channel, &err) < 0) {
        check(d, "socket", client->socket, false, err.hint[0] ? err.hint : "name it with --socket", "%s", err.message);
        return false;
    }
    const char *path = cl_channel_unix_path(channel);
    if (path) {
        char dir[256];
        const char *slash = strrchr(path, '/');
        (void)nf_format(dir, sizeof(dir), "%.*s", slash && slash != path ? (int)(slash - path) : 1, slash ? path : ".");
        if (stat(path, &st) == 0)
            check(d, "socket", path, S_ISSOCK(st.st_mode), "remove the file", S_ISSOCK(st.st_mode) ? "exists, owner uid %u, mode %04o" : "is not a socket (uid %u, mode %04o)", st.st_uid, st.st_mode & 07777);
        else
            check(d, "socket", path, errno == ENOENT, "correct the path's permissions", "%s", errno == ENOENT ? "not there: no daemon has been started" : strerror(errno));
        if (stat(dir, &st) == 0)
            check(d, "socket directory", dir, !(st.st_mode & S_IWOTH) || (st.st_mode & S_ISVTX), "chmod o-w", "owner uid %u, mode %04o", st.st_uid, st.st_mode & 07777);
    }
    Neffd__V1__StatusRequest request = NEFFD__V1__STATUS_REQUEST__INIT;
    ProtobufCMessage *reply;
    int r = cl_unary_message(client, RPC_STATUS, &request.base, cl_deadline(5000), &reply, &err);
    if (r < 0) {
        (void)nf_format(fix, sizeof(fix), "start one: neffd --socket=%s", client->socket);
        check(d, "daemon", client->socket, false, err.hint[0] ? err.hint : fix, "%s", err.message);
        return false;
    }
    Neffd__V1__StatusReply *s = (Neffd__V1__StatusReply *)reply;
    struct nf_buf up = NF_BUF_INIT;
    cl_add_duration_us(&up, s->uptime_us);
    check(d, "daemon", client->socket, !s->draining, "start it again when it has ended", "version %s, pid %u, up %s%s", s->version, s->pid, up.data, s->draining ? ", draining" : "");
    nf_buf_done(&up);
    check(d, "version", "", strcmp(s->version, NEFFD_VERSION) == 0, "install the same version on both sides and restart the daemon", "daemon %s, neffctl %s, API %u", s->version,
        NEFFD_VERSION, s->api_version);
    if (s->cache) {
        check(d, "cache", s->cache->shared_dir, s->cache->trouble[0] == 0, "see the directory checks of the daemon's host and user", "%s",
            s->cache->trouble[0] ? s->cache->trouble : s->cache->shared_writable ? "the daemon reads and writes it" : "the daemon reads it");
        bool same_dirs = strcmp(s->cache->local_dir, client->local_dir) == 0;
        check(d, "same tiers", s->cache->local_dir, same_dirs, "set TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR (or --local-dir) as the daemon has it; until then every hit is a call",
            same_dirs ? "client and daemon use the same local tier" : "the daemon's local tier is not this client's (%s)", client->local_dir);
    }
    neffd__v1__status_reply__free_unpacked(s, NULL);
    return true;
}

/* ------------------------------------------------------------------------------------------------ compiler, clock, rest */

static void check_toolchains(struct doctor *d, neffd_client *client)
{
    static const char *const targets[] = {"cpu", "trn1", "trn1n", "trn2", "trn3", "inf2"};
    struct nf_error err = {0};
    struct nf_buf found = NF_BUF_INIT, program = NF_BUF_INIT;
    char path[4200], target[RT_TARGET_MAX];
    struct cache_toolchain row;
    size_t n = 0;
    neffd_request request = {.struct_size = sizeof(request)};
    (void)nf_format(path, sizeof(path), "%s/toolchains", client->local_dir);
    for (size_t i = 0; i < NF_ARRAY_LEN(targets); i++)
        if (cache_toolchain_read(client->local_dir, targets[i], &row, &err) == NF_OK)
            nf_buf_addf(&found, "%s%s (%s%s%s)", n++ ? ", " : "", targets[i], row.compiler, row.version[0] ? " " : "", row.version);
    check(d, "toolchains", path, n > 0, err.code == NF_EPERM ? "let this user read the directory (its group, or cache_mode); until then hits need a call"
        : "start the daemon once: it writes the list; until then hits need a call", "%s", n ? found.data : err.message);

    const char *given = getenv("NEFFD_NEURONX_CC"), *search = getenv("PATH");
    int r = rt_find_program(given && given[0] ? given : "neuronx-cc", search ? search : "", NULL, &program);
    int t = cl_target(client, &request, target, &err);
    bool needed = t < 0 || rt_target_is_neuron(nf_str_c(target));
    check(d, "target", "", t >= 0, err.hint[0] ? err.hint : "name a target, or install the compiler", "%s", t >= 0 ? target : err.message);
    check(d, "compiler", r == NF_OK ? program.data : given && given[0] ? given : "neuronx-cc", r == NF_OK || (!needed && !(given && given[0])),
        "install neuronx-cc, or name it with NEFFD_NEURONX_CC", "%s", r == NF_OK ? "found" : needed ? "not found" : "not found; the cpu target needs none");
    nf_buf_done(&found);
    nf_buf_done(&program);
}

/* A mount's server stamps files with its own clock; leases and ages compare the two. */
static void check_clock(struct doctor *d, const char *dir)
{
    char at[4096];
    struct stat st;
    uint64_t id;
    existing_parent(dir, at, sizeof(at));
    nf_random(&id, sizeof(id));
    char *path = nf_asprintf("%s/.neffd-doctor-%016llx", at, (unsigned long long)id);
    int64_t before = nf_wall_us();
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, "x", 1) == 1 && fstat(fd, &st) == 0) {
        int64_t file_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
        int64_t off_ms = (file_us - before) / 1000;
        bool sane = before > (int64_t)1600000000 * 1000000;
        check(d, "clock", at, sane && off_ms > -5000 && off_ms < 5000, "let NTP set the clocks of this host and of the file server", sane ? "the file system's clock differs by %lld ms" : "this host's clock is wrong (%lld ms from the file system's)", (long long)off_ms);
    } else {
        bool sane = before > (int64_t)1600000000 * 1000000;
        check(d, "clock", "", sane, "let NTP set this host's clock", sane ? "plausible" : "this host's clock is wrong");
    }
    if (fd >= 0) {
        (void)unlink(path);
        close(fd);
    }
    free(path);
}

int ctl_cmd_doctor(struct ctl *c)
{
    struct doctor d = {.c = c, .list = c->json ? json_object_new_array() : NULL};
    struct nf_error err = {0};
    struct cfg *cfg;
    struct rlimit files;
    neffd_client *client;
    if (cfg_load(&(struct cfg_sources){.program = "neffctl"}, &cfg, &err) < 0) {
        check(&d, "configuration", "", false, err.hint[0] ? err.hint : "correct the setting", "%s", err.message);
    } else {
        size_t n = 0;
        for (; cfg_warning(cfg, n); n++)
            check(&d, "configuration", cfg_file(cfg), false, "correct or unset it", "%s", cfg_warning(cfg, n));
        if (n == 0)
            check(&d, "configuration", cfg_file(cfg), true, "", "%s", cfg_file(cfg)[0] ? "read" : "no file; environment and defaults");
        cfg_free(cfg);
    }
    if (ctl_client(c, &client, &err) < 0) {
        check(&d, "client", "", false, err.hint, "%s", err.message);
    } else {
        (void)check_daemon(&d, client);
        check_dir(&d, "local", client->local_dir, true, cl_client_daemon_uid(client));
        check_dir(&d, "shared", client->shared_dir, false, cl_client_daemon_uid(client));
        check_toolchains(&d, client);
        check_clock(&d, client->shared_dir);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        check(&d, "open files", "", files.rlim_cur >= 256, "ulimit -n 1024", "limit %llu", (unsigned long long)files.rlim_cur);
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "ok", json_object_new_boolean(d.bad == 0));
        json_object_object_add(o, "checks", d.list);
        ctl_json_print(o);
    } else if (d.bad) {
        printf("%zu checks failed\n", d.bad);
    }
    return d.bad ? CTL_WRONG : CTL_OK;
}
