/* tier.c: one directory of entries: opening, checking, publishing, quarantine, walking.
 *
 * Knows nothing of indexes, other tiers or threads: the store calls it, for the shared tier only from mount threads.
 *
 * Publish (DESIGN §4): temporary on the same mount, bytes, fsync, exclusive link with lost-reply check, fsync of the directory
 * (base/file.h does these). What stands at the name already has won if it is whole; if it is not, it is renamed into the
 * quarantine, and the link is tried again. Directories are made durable when they are made. */
#include "base/clock.h"
#include "base/log.h"
#include "cache/cache_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zstd.h>

#define QUARANTINE_MAX 64
#define PLACE_TRIES 8

/* ------------------------------------------------------------------------------------------------------- file systems */

const char *cache__network_fs(const char *path)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } table[] = {
        {0x6969, "NFS"},          {0x0bd00bd0, "Lustre"},   {0x65735546, "FUSE"},   {0x517b, "SMB"},         {0xff534d42, "CIFS"},
        {0xfe534d42, "SMB2"},     {0x00c36400, "Ceph"},     {0x01021997, "9P"},     {0x5346414f, "AFS"},     {0x6b414653, "AFS"},
        {0x47504653, "GPFS"},     {0x19830326, "BeeGFS"},   {0x01161970, "GFS2"},   {0x7461636f, "OCFS2"},   {0x73757245, "Coda"},
        {0xaad7aaea, "PanFS"},    {0x20030528, "OrangeFS"}, {0x564c, "NCP"},        {0x786f4256, "VirtualBox"},
    };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return NULL;
    for (size_t i = 0; i < NF_ARRAY_LEN(table); i++)
        if ((uint32_t)fs.f_type == table[i].magic)
            return table[i].name;
    return NULL;
}

/* -------------------------------------------------------------------------------------------------------- directories */

/* rel below t->dir, each level made and made durable if it is not there. A descriptor, or a code. */
static int dir_reach(const struct cache__tier *t, const char *rel, struct nf_error *err)
{
    char path[4352];
    nf_format(path, sizeof(path), "%s/%s", t->dir, rel);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return nf_fail_errno(err, errno, "cannot open the directory %s", path);
    fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        int rc = nf_mkdir_p(t->dir, t->dir_mode, err);
        if (rc)
            return rc;
        chmod(t->dir, t->dir_mode); /* whatever the umask says */
        fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open the directory %s", t->dir);
    struct nf_str rest = nf_str_c(rel);
    while (rest.len) {
        struct nf_str part = nf_str_cut(&rest, '/');
        char name[80];
        nf_format(name, sizeof(name), "%.*s", NF_STR_ARG(part));
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (next < 0 && errno == ENOENT) {
            bool made = mkdirat(fd, name, 0700) == 0;
            if (!made && errno != EEXIST) {
                int saved = errno;
                close(fd);
                return nf_fail_errno(err, saved, "cannot make the directory %s/%s", t->dir, rel);
            }
            if (made) {
                fchmodat(fd, name, t->dir_mode, 0); /* the mode that was asked for, whatever the umask */
                fsync(fd);
            }
            next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        }
        int saved = errno;
        close(fd);
        if (next < 0)
            return nf_fail_errno(err, saved, "cannot open the directory %s/%s", t->dir, rel);
        fd = next;
    }
    return fd;
}

int cache__tier_prepare(const struct cache__tier *t, struct nf_error *err)
{
    int fd = dir_reach(t, "entries", err);
    if (fd < 0)
        return fd;
    close(fd);
    return NF_OK;
}

int cache__tier_quarantine(const struct cache__tier *t, const char *path, const char *reason, struct nf_error *err)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    int dir_fd = dir_reach(t, "quarantine", err);
    if (dir_fd < 0)
        return dir_fd;
    uint32_t bits;
    char to[160];
    nf_random(&bits, sizeof(bits));
    nf_format(to, sizeof(to), "%lld-%08x-%.100s", (long long)(nf_wall_us() / 1000000), bits, name);
    int rc = NF_OK;
    if (renameat(AT_FDCWD, path, dir_fd, to) != 0)
        rc = errno == ENOENT ? NF_ENOTFOUND : nf_fail_errno(err, errno, "cannot move the damaged file %s away", path);
    if (rc == NF_OK)
        nf_log(NF_LOG_WARNING, "cache", "damaged entry quarantined", "path=%s reason=%s", nf_log_quote(path), nf_log_quote(reason));

    /* Names begin with their time: the newest QUARANTINE_MAX stay. */
    DIR *dir = fdopendir(dir_fd);
    if (!dir) {
        close(dir_fd);
        return rc;
    }
    for (;;) {
        char oldest[160] = "";
        size_t count = 0;
        rewinddir(dir);
        for (struct dirent *e; (e = readdir(dir));) {
            if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(oldest))
                continue;
            count++;
            if (!oldest[0] || strcmp(e->d_name, oldest) < 0)
                nf_format(oldest, sizeof(oldest), "%s", e->d_name);
        }
        if (count <= QUARANTINE_MAX || unlinkat(dirfd(dir), oldest, 0) != 0)
            break;
    }
    closedir(dir);
    return rc;
}

int cache__tier_namespaces(const struct cache__tier *t, struct nf_arena *arena, const char ***ret_names, size_t *ret_count)
{
    char path[4352];
    nf_format(path, sizeof(path), "%s/entries", t->dir);
    DIR *dir = opendir(path);
    if (!dir)
        return nf_status_from_errno(errno);
    size_t count = 0, cap = 16;
    const char **names = NF_NEW_ARRAY(arena, const char *, cap);
    for (struct dirent *e; (e = readdir(dir));) {
        bool is_default = strcmp(e->d_name, "_") == 0;
        if (e->d_name[0] == '.' || (!is_default && cache_namespace_check(nf_str_c(e->d_name), NULL)))
            continue;
        if (count == cap) {
            const char **more = NF_NEW_ARRAY(arena, const char *, cap * 2);
            memcpy(more, names, count * sizeof(*names));
            names = more;
            cap *= 2;
        }
        names[count++] = nf_arena_strn(arena, is_default ? "" : e->d_name, is_default ? 0 : strlen(e->d_name));
    }
    closedir(dir);
    *ret_names = names;
    *ret_count = count;
    return NF_OK;
}

/* --------------------------------------------------------------------------------------------------- opening, checking */

/* Who owns a tier's directory may speak for it, beside root and this user. */
static int tier_file_open(const struct cache__tier *t, const char *path, const struct nf_digest *key, enum cache_kind kind,
                          struct cache__file *ret_file, struct nf_error *err)
{
    struct stat st;
    bool known = stat(t->dir, &st) == 0;
    return cache__file_open(path, key, kind, &st.st_uid, known ? 1 : 0, ret_file, err);
}

static int open_in(const struct cache__tier *t, struct nf_str space, const struct nf_digest *key, enum cache_kind kind, char path[4352],
                   struct cache__file *ret_file, struct nf_error *err)
{
    char rel[CACHE_PATH_MAX];
    cache_entry_path(space, key, cache_kind_suffix(kind), rel);
    nf_format(path, 4352, "%s/%s", t->dir, rel);
    int rc = tier_file_open(t, path, key, kind, ret_file, err);
    if (rc == NF_EIO) /* ESTALE and EIO of a network mount: once more, afresh */
        rc = tier_file_open(t, path, key, kind, ret_file, err);
    return rc;
}

int cache__tier_open(const struct cache__tier *t, struct nf_str cache_namespace, const struct nf_digest *key, enum cache_kind kind,
                     char path[4352], struct cache__file *ret_file, struct nf_error *err)
{
    int rc = open_in(t, cache_namespace, key, kind, path, ret_file, err);
    if (rc != NF_ENOTFOUND || cache_namespace.data)
        return rc;
    struct nf_arena *arena = nf_arena_new(0);
    const char **names;
    size_t count;
    if (cache__tier_namespaces(t, arena, &names, &count) == NF_OK)
        for (size_t i = 0; i < count && rc == NF_ENOTFOUND; i++)
            if (names[i][0])
                rc = open_in(t, nf_str_c(names[i]), key, kind, path, ret_file, err);
    nf_arena_free(arena);
    return rc;
}

int cache__tier_check(const struct cache__file *f, uint64_t max_raw, struct cache_mount_item *beat, struct nf_error *err)
{
    if (f->footer.raw_bytes > max_raw)
        return nf_fail(err, NF_ECORRUPT, "a payload of %llu bytes is over the limit", (unsigned long long)f->footer.raw_bytes);
    struct cache__source source;
    cache__source_fd(&source, f->fd, f->footer.encoding, f->footer.stored_bytes, f->footer.raw_bytes);
    char *buffer = nf_alloc(CACHE_CHUNK);
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    int rc = NF_OK;
    for (size_t n = 1; !rc && n;) {
        rc = cache__source_read(&source, buffer, CACHE_CHUNK, &n, err);
        if (!rc)
            nf_sha256_add(&sha, buffer, n);
        cache_mount_tick(beat);
    }
    struct nf_digest d = nf_sha256_end(&sha);
    if (!rc && !nf_digest_eq(&d, &f->footer.sha256))
        rc = nf_fail(err, NF_ECORRUPT, "the payload's SHA-256 is not the one in its footer");
    if (!rc && f->footer.meta_bytes) { /* and what stands behind it */
        char *meta = nf_try_alloc((size_t)f->footer.meta_bytes);
        if (!meta)
            rc = nf_fail(err, NF_ENOMEM, "no memory for the metadata");
        else if ((rc = nf_fd_pread_all(f->fd, meta, (size_t)f->footer.meta_bytes, f->footer.stored_bytes)))
            nf_fail(err, rc, "cannot read the metadata: %s", nf_status_text(rc));
        else if (nf_xxh3(meta, (size_t)f->footer.meta_bytes) != f->footer.meta_xxh3)
            rc = nf_fail(err, NF_ECORRUPT, "the metadata's checksum does not hold");
        free(meta);
    }
    cache__source_done(&source);
    free(buffer);
    return rc;
}

/* --------------------------------------------------------------------------------------------------------- publishing */

struct writing {
    struct nf_pub pub;
    struct nf_sha256 sha;
    uint64_t raw, stored;
    struct cache_mount_item *beat;
};

static int write_raw(struct writing *w, struct cache__source *source, char *buffer, struct nf_error *err)
{
    for (size_t n = 1; n;) {
        int rc = cache__source_read(source, buffer, CACHE_CHUNK, &n, err);
        if (rc)
            return rc;
        nf_sha256_add(&w->sha, buffer, n);
        nf_pub_write(&w->pub, buffer, n);
        w->raw += n;
        w->stored += n;
        cache_mount_tick(w->beat);
        if (w->pub.failed)
            return nf_fail(err, w->pub.failed, "cannot write the payload: %s", nf_status_text(w->pub.failed));
    }
    return NF_OK;
}

/* NF_EUNSUPPORTED (without a message): it does not pay; what was written is to be taken back. */
static int write_packed(struct writing *w, const struct cache__tier *t, struct cache__source *source, char *buffer, struct nf_error *err)
{
    size_t out_size = ZSTD_CStreamOutSize();
    char *out = nf_alloc(out_size);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    int rc = c ? NF_OK : nf_fail(err, NF_ENOMEM, "no memory for an encoder");
    if (c) {
        ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, t->zstd_level);
        ZSTD_CCtx_setPledgedSrcSize(c, source->raw == UINT64_MAX ? ZSTD_CONTENTSIZE_UNKNOWN : source->raw);
    }
    for (bool end = false; !rc && !end;) {
        size_t n = 0;
        rc = cache__source_read(source, buffer, CACHE_CHUNK, &n, err);
        if (rc)
            break;
        end = n == 0;
        nf_sha256_add(&w->sha, buffer, n);
        w->raw += n;
        ZSTD_inBuffer from = {buffer, n, 0};
        for (size_t left = 1; !rc && (end ? left != 0 : from.pos < from.size);) {
            ZSTD_outBuffer to = {out, out_size, 0};
            left = ZSTD_compressStream2(c, &to, &from, end ? ZSTD_e_end : ZSTD_e_continue);
            if (ZSTD_isError(left))
                rc = nf_fail(err, NF_EINTERNAL, "cannot pack the payload: %s", ZSTD_getErrorName(left));
            nf_pub_write(&w->pub, out, to.pos);
            w->stored += to.pos;
        }
        cache_mount_tick(w->beat);
        if (!rc && w->pub.failed)
            rc = nf_fail(err, w->pub.failed, "cannot write the payload: %s", nf_status_text(w->pub.failed));
        if (!rc && !end && w->raw >= (uint64_t)8 << 20 && w->stored > w->raw / 100 * 97)
            rc = NF_EUNSUPPORTED; /* clearly not: the rest need not be tried */
    }
    if (!rc && w->stored > w->raw / 10 * 9)
        rc = NF_EUNSUPPORTED;
    ZSTD_freeCCtx(c);
    free(out);
    return rc;
}

static int write_payload(struct writing *w, const struct cache__tier *t, struct cache__draft *d, struct nf_error *err)
{
    char *buffer = nf_alloc(CACHE_CHUNK);
    int rc = NF_EUNSUPPORTED;
    nf_sha256_init(&w->sha);
    if (t->zstd_level > 0 && d->source->stored) {
        rc = write_packed(w, t, d->source, buffer, err);
        d->footer.encoding = CACHE_ZSTD;
        if (rc == NF_EUNSUPPORTED) {
            nf_sha256_init(&w->sha);
            w->raw = w->stored = 0;
            cache__source_rewind(d->source);
            if (ftruncate(w->pub.fd, 0) != 0 || lseek(w->pub.fd, 0, SEEK_SET) != 0)
                rc = nf_fail_errno(err, errno, "cannot rewrite the temporary file");
        }
    }
    if (rc == NF_EUNSUPPORTED) {
        rc = write_raw(w, d->source, buffer, err);
        d->footer.encoding = CACHE_RAW;
    }
    free(buffer);
    if (rc)
        return rc;
    struct nf_digest sha = nf_sha256_end(&w->sha);
    if (d->sha256_known && (!nf_digest_eq(&sha, &d->footer.sha256) || w->raw != d->footer.raw_bytes))
        return nf_fail(err, NF_ECORRUPT, "the payload's SHA-256 is not the one that was expected");
    d->footer.sha256 = sha;
    d->footer.raw_bytes = w->raw;
    d->footer.stored_bytes = w->stored;
    d->footer.meta_bytes = d->meta.len;
    d->footer.meta_xxh3 = nf_xxh3(d->meta.data ? d->meta.data : "", d->meta.len);
    d->sha256_known = true;
    return NF_OK;
}

/* The whole file under its temporary name; on failure nothing is left of it. */
static int write_file(struct writing *w, const struct cache__tier *t, int dir_fd, struct cache__draft *d, struct nf_error *err)
{
    int rc = nf_pub_begin(dir_fd, &w->pub, err);
    if (rc)
        return rc;
    cache__source_rewind(d->source);
    rc = write_payload(w, t, d, err);
    if (!rc) {
        uint8_t footer[CACHE_FOOTER_BYTES];
        cache_footer_encode(&d->footer, footer);
        nf_pub_write(&w->pub, d->meta.data, d->meta.len);
        nf_pub_write(&w->pub, footer, sizeof(footer));
        if (w->pub.failed)
            rc = nf_fail(err, w->pub.failed, "cannot write the entry: %s", nf_status_text(w->pub.failed));
    }
    if (!rc && t->id != CACHE_TIER_SHARED) { /* the mtime rule */
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = d->footer.mtime_s}};
        if (futimens(w->pub.fd, times) != 0)
            rc = nf_fail_errno(err, errno, "cannot set the entry's mtime");
    }
    if (rc)
        nf_pub_abort(&w->pub);
    return rc;
}

/* What stands at the name: NF_OK and open when it is a whole entry. */
static int occupant_check(const struct cache__tier *t, const char *path, const struct cache__draft *d, struct cache_mount_item *beat, struct cache__file *ret_file, struct nf_error *err)
{
    struct cache__file f;
    int rc = tier_file_open(t, path, &d->footer.key, d->footer.kind, &f, err);
    if (rc)
        return rc;
    rc = cache__tier_check(&f, UINT64_MAX, beat, err);
    if (rc)
        close(f.fd);
    else
        *ret_file = f;
    return rc;
}

/* ignore_cache: a good entry is renamed away and removed; whoever has it open or mapped keeps it. */
static void give_up_name(int dir_fd, const char *name)
{
    uint64_t bits[2];
    char old[64];
    nf_random(bits, sizeof(bits));
    nf_format(old, sizeof(old), ".old-%016llx%016llx", (unsigned long long)bits[0], (unsigned long long)bits[1]);
    if (renameat(dir_fd, name, dir_fd, old) == 0)
        unlinkat(dir_fd, old, 0);
}

int cache__tier_place(const struct cache__tier *t, struct cache__draft *d, bool replace, struct cache_mount_item *beat,
                      enum cache__place *ret_place, struct cache__file *ret_file, uint64_t *quarantined, struct nf_error *err)
{
    char rel[CACHE_PATH_MAX], path[4352];
    cache_entry_path(d->cache_namespace, &d->footer.key, cache_kind_suffix(d->footer.kind), rel);
    nf_format(path, sizeof(path), "%s/%s", t->dir, rel);
    char *name = strrchr(rel, '/');
    *name++ = 0;
    int dir_fd = dir_reach(t, rel, err);
    if (dir_fd < 0)
        return dir_fd;
    int rc = NF_EEXISTS;
    for (int tries = 0; rc == NF_EEXISTS && tries < PLACE_TRIES; tries++) {
        if (cache_mount_given_up(beat)) {
            rc = nf_fail(err, NF_ECANCELLED, "given up");
            break;
        }
        struct writing w = {.beat = beat};
        rc = write_file(&w, t, dir_fd, d, err);
        if (rc)
            break;
        if (replace)
            give_up_name(dir_fd, name);
        replace = false;
        cache_mount_tick(beat);
        rc = nf_pub_commit(&w.pub, name, t->file_mode, err);
        cache_mount_tick(beat);
        if (rc == NF_OK) {
            struct cache__file mine;
            rc = tier_file_open(t, path, &d->footer.key, d->footer.kind, &mine, err);
            if (rc == NF_OK) {
                *ret_place = CACHE_PLACED;
                *ret_file = mine;
            }
            break;
        }
        if (rc != NF_EEXISTS)
            break;
        struct cache__file theirs;
        struct nf_error why = {0};
        int held = occupant_check(t, path, d, beat, &theirs, &why);
        if (held == NF_OK) {
            *ret_place = CACHE_LOST;
            *ret_file = theirs;
            rc = NF_OK;
        } else if (held == NF_ECORRUPT) {
            int moved = cache__tier_quarantine(t, path, why.message, err);
            if (moved == NF_OK)
                ++*quarantined;
            else if (moved != NF_ENOTFOUND)
                rc = moved;
        } else if (held == NF_ENOTFOUND) {
            nf_sleep_ns(2 * NF_MS); /* somebody's probe stood there, or it has been removed since */
        } else {
            rc = held;
            if (err)
                *err = why;
        }
    }
    close(dir_fd);
    if (rc && err && rc != NF_ECANCELLED && rc != NF_ECORRUPT && !strstr(err->message, t->dir)) /* corrupt is the source */
        nf_error_prefix(err, "%s", path);
    return rc;
}

/* ------------------------------------------------------------------------------------------------------------- walking */

static int walk_leaf(const struct cache__tier *t, struct cache_mount_item *beat, const char *space, const char *ab, const char *cd,
                     cache__walk_fn *fn, void *user)
{
    char path[4352];
    nf_format(path, sizeof(path), "%s/entries/%s/%s/%s", t->dir, space, ab, cd);
    DIR *dir = opendir(path);
    int rc = NF_OK;
    if (!dir)
        return NF_OK;
    for (struct dirent *e; !rc && (e = readdir(dir));) {
        struct nf_digest key;
        enum cache_kind kind;
        char file[4500];
        if (!cache__entry_name_parse(e->d_name, &key, &kind) || !nf_format(file, sizeof(file), "%s/%s", path, e->d_name))
            continue;
        cache_mount_tick(beat);
        rc = fn(user, file, strcmp(space, "_") == 0 ? "" : space, &key, kind);
    }
    closedir(dir);
    return rc;
}

static bool is_hex2(const char *name)
{
    return name[0] && name[1] && !name[2] && strspn(name, "0123456789abcdef") == 2;
}

static int walk_level(const struct cache__tier *t, struct cache_mount_item *beat, const char *space, const char *ab, cache__walk_fn *fn, void *user)
{
    char path[4352];
    nf_format(path, sizeof(path), "%s/entries/%s%s%s", t->dir, space, ab ? "/" : "", ab ? ab : "");
    DIR *dir = opendir(path);
    int rc = NF_OK;
    if (!dir)
        return NF_OK;
    for (struct dirent *e; !rc && (e = readdir(dir));) {
        cache_mount_tick(beat);
        if (cache_mount_given_up(beat))
            rc = NF_ECANCELLED;
        else if (is_hex2(e->d_name))
            rc = ab ? walk_leaf(t, beat, space, ab, e->d_name, fn, user) : walk_level(t, beat, space, e->d_name, fn, user);
    }
    closedir(dir);
    return rc;
}

int cache__tier_walk(const struct cache__tier *t, struct cache_mount_item *beat, cache__walk_fn *fn, void *user, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    const char **names = NULL;
    size_t count = 0;
    int rc = cache__tier_namespaces(t, arena, &names, &count);
    if (rc == NF_ENOTFOUND)
        rc = NF_OK; /* no entries yet */
    else if (rc)
        nf_fail(err, rc, "cannot list %s/entries: %s", t->dir, nf_status_text(rc));
    for (size_t i = 0; i < count && !rc; i++)
        rc = walk_level(t, beat, names[i][0] ? names[i] : "_", NULL, fn, user);
    nf_arena_free(arena);
    return rc;
}
