/* read.c: hits in the local tier, by front key: without a daemon, without SQLite, without hashing. See read.h for the way and the trust. */
#include "cache/read.h"

#include "base/clock.h"
#include "cache/read_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

struct cache_hit {
    struct cache__file file;
    enum cache_tier tier;
    void *map;
    char path[];
};

/* ------------------------------------------------------------------------------------------------- shared with writers */

bool cache__mtime_holds(const struct stat *st, const struct cache_footer *f)
{
    return st->st_mtim.tv_sec == f->mtime_s && st->st_mtim.tv_nsec == 0;
}

int cache__raw_hash_check(int fd, const struct cache_footer *f, struct nf_error *err)
{
    char *buffer = nf_alloc(CACHE_CHUNK);
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    int rc = NF_OK;
    for (uint64_t at = 0; at < f->raw_bytes && !rc;) {
        size_t n = (size_t)NF_MIN(f->raw_bytes - at, (uint64_t)CACHE_CHUNK);
        rc = nf_fd_pread_all(fd, buffer, n, at);
        if (rc)
            rc = nf_fail(err, rc, "cannot read the payload at byte %llu: %s", (unsigned long long)at, nf_status_text(rc));
        else
            nf_sha256_add(&sha, buffer, n);
        at += n;
    }
    free(buffer);
    if (rc)
        return rc;
    struct nf_digest d = nf_sha256_end(&sha);
    if (!nf_digest_eq(&d, &f->sha256))
        return nf_fail(err, NF_ECORRUPT, "the payload's SHA-256 is not the one in its footer");
    return NF_OK;
}

static bool owner_ok(uid_t owner, const uid_t *trusted, size_t count)
{
    if (owner == 0 || owner == geteuid())
        return true;
    for (size_t i = 0; i < count; i++)
        if (trusted[i] == owner)
            return true;
    return false;
}

int cache__file_open(const char *path, const struct nf_digest *key, enum cache_kind kind, const uid_t *trusted, size_t trusted_count,
                     struct cache__file *ret_file, struct nf_error *err)
{
    struct cache__file f = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)};
    if (f.fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR))
        return nf_fail(err, NF_ENOTFOUND, "no entry at %s", path);
    if (f.fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", path);
    int rc = NF_OK;
    if (fstat(f.fd, &f.st) != 0)
        rc = nf_fail_errno(err, errno, "cannot stat %s", path);
    else if (!S_ISREG(f.st.st_mode))
        rc = nf_fail(err, NF_ECORRUPT, "%s is not a file", path);
    else if (!owner_ok(f.st.st_uid, trusted, trusted_count))
        rc = nf_fail(err, NF_EPERM, "%s belongs to uid %u, who is not trusted here", path, (unsigned)f.st.st_uid);
    else if ((rc = cache_footer_read(f.fd, (uint64_t)f.st.st_size, &f.footer, err)))
        rc = err ? nf_error_prefix(err, "%s", path) : rc;
    else if (key && !nf_digest_eq(key, &f.footer.key))
        rc = nf_fail(err, NF_ECORRUPT, "%s holds the entry of another key", path);
    else if (kind != f.footer.kind)
        rc = nf_fail(err, NF_ECORRUPT, "%s holds an entry of kind %s", path, cache_kind_word(f.footer.kind));
    if (rc) {
        close(f.fd);
        return rc;
    }
    *ret_file = f;
    return NF_OK;
}

/* An evictor holds LOCK_EX for the moment of an unlink; whoever holds it for longer is no evictor, and must not hang a
 * reader: an open file needs no lock to stay readable. */
bool cache__lock_shared(int fd)
{
    struct stat st;
    for (int tries = 0; flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK && tries < 5; tries++)
        nf_sleep_ns(NF_MS);
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

struct cache_hit *cache__hit_new(const struct cache__file *file, const char *path, enum cache_tier tier)
{
    size_t len = strlen(path) + 1;
    struct cache_hit *h = nf_alloc(sizeof(*h) + len);
    h->file = *file;
    h->tier = tier;
    memcpy(h->path, path, len);
    return h;
}

int cache__uses_leave(const char *local_dir, const struct cache__use *uses, size_t count)
{
    char dir[4200];
    struct nf_buf b = NF_BUF_INIT;
    if (!count || !nf_format(dir, sizeof(dir), "%s/uses", local_dir))
        return NF_OK;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir_fd < 0)
        return nf_status_from_errno(errno);
    nf_buf_add_c(&b, CACHE_USES_HEAD);
    for (size_t i = 0; i < count; i++) {
        nf_buf_add(&b, uses[i].key.bytes, NF_DIGEST_BYTES);
        nf_buf_add_u64le(&b, (uint64_t)uses[i].at_s);
    }
    /* Not durable on purpose: a lost note costs nothing. Written under a name that the collector ignores, then renamed. */
    uint64_t bits[2];
    char tmp[48], name[48];
    nf_random(bits, sizeof(bits));
    nf_format(tmp, sizeof(tmp), ".use-%016llx%016llx", (unsigned long long)bits[0], (unsigned long long)bits[1]);
    nf_format(name, sizeof(name), "use-%016llx%016llx", (unsigned long long)bits[0], (unsigned long long)bits[1]);
    int fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int rc = fd < 0 ? nf_status_from_errno(errno) : nf_fd_write_all(fd, b.data, b.len);
    if (fd >= 0) {
        if (rc || renameat(dir_fd, tmp, dir_fd, name) != 0)
            unlinkat(dir_fd, tmp, 0);
        close(fd);
    }
    close(dir_fd);
    nf_buf_done(&b);
    return rc;
}

/* -------------------------------------------------------------------------------------------------------------- reader */

int cache_reader_open(const struct cache_reader_options *options, struct cache_reader **ret_reader, struct nf_error *err)
{
    if (!options->local_dir || !options->local_dir[0])
        return nf_fail(err, NF_EINVAL, "a cache reader needs a local directory");
    if (strlen(options->local_dir) > 4000 || (options->shared_dir && strlen(options->shared_dir) > 4000))
        return nf_fail(err, NF_ELIMIT, "the name of a cache directory is too long");
    struct cache_reader *r = nf_alloc(sizeof(*r));
    if (options->trusted_count > NF_ARRAY_LEN(r->trusted)) {
        free(r);
        return nf_fail(err, NF_ELIMIT, "at most %zu trusted users", NF_ARRAY_LEN(r->trusted));
    }
    pthread_mutex_init(&r->lock, NULL);
    r->local_dir = nf_strdup(options->local_dir);
    r->shared_dir = options->shared_dir && options->shared_dir[0] ? nf_strdup(options->shared_dir) : NULL;
    r->trusted_count = options->trusted_count;
    if (options->trusted_count)
        memcpy(r->trusted, options->trusted_uids, options->trusted_count * sizeof(*r->trusted));
    r->verify_always = options->verify_always;
    r->pid = getpid();
    *ret_reader = r;
    return NF_OK;
}

void cache_reader_set_verify(struct cache_reader *r, bool always)
{
    atomic_store(&r->verify_always, always);
}

void cache_reader_flush_uses(struct cache_reader *r)
{
    struct cache__use uses[CACHE_USES_MAX];
    pthread_mutex_lock(&r->lock);
    size_t n = r->pid == getpid() ? r->use_count : 0;
    memcpy(uses, r->uses, n * sizeof(*uses));
    r->use_count = 0;
    r->pid = getpid();
    pthread_mutex_unlock(&r->lock);
    cache__uses_leave(r->local_dir, uses, n);
}

void cache_reader_close(struct cache_reader *r)
{
    if (!r)
        return;
    cache_reader_flush_uses(r);
    pthread_mutex_destroy(&r->lock);
    free(r->local_dir);
    free(r->shared_dir);
    free(r);
}

static void note_use(struct cache_reader *r, const struct nf_digest *key)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    pthread_mutex_lock(&r->lock);
    if (r->pid != getpid()) { /* a child starts afresh: its parent will tell of its own */
        r->pid = getpid();
        r->use_count = 0;
    }
    if (r->use_count < CACHE_USES_MAX)
        r->uses[r->use_count++] = (struct cache__use){*key, (int64_t)now.tv_sec};
    bool full = r->use_count == CACHE_USES_MAX;
    pthread_mutex_unlock(&r->lock);
    if (full)
        cache_reader_flush_uses(r);
}

/* file is open and its footer holds. Takes the descriptor over. */
static int hit_finish(struct cache_reader *r, struct cache__file *file, const char *path, struct cache_hit **ret_hit, struct nf_error *err)
{
    int rc = NF_OK;
    if (file->footer.encoding != CACHE_RAW) {
        rc = nf_fail(err, NF_ECORRUPT, "%s is compressed, which a local entry never is", path);
    } else if (!cache__lock_shared(file->fd)) {
        rc = nf_fail(err, NF_ENOTFOUND, "%s has just been evicted", path);
    } else if (r->verify_always || !cache__mtime_holds(&file->st, &file->footer)) {
        rc = cache__raw_hash_check(file->fd, &file->footer, err);
        if (rc && err)
            nf_error_prefix(err, "%s", path);
        if (!rc && !cache__mtime_holds(&file->st, &file->footer) && file->st.st_uid == geteuid()) {
            struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = file->footer.mtime_s}};
            if (futimens(file->fd, times) == 0) /* so that the next reader need not hash it again */
                fstat(file->fd, &file->st);
        }
    }
    if (rc) {
        close(file->fd);
        return rc;
    }
    note_use(r, &file->footer.key);
    *ret_hit = cache__hit_new(file, path, CACHE_TIER_LOCAL);
    return NF_OK;
}

int cache__reader_open_local(struct cache_reader *r, const char *space, const char hex[NF_DIGEST_HEX], const struct nf_digest *key,
                      struct cache_hit **ret_hit, struct nf_error *err)
{
    char path[4352];
    for (int kind = 0; kind < CACHE_KIND_FAILURE; kind++) {
        struct cache__file file;
        nf_format(path, sizeof(path), "%s/entries/%s/%.2s/%.2s/%s%s", r->local_dir, space, hex, hex + 2, hex, cache_kind_suffix((enum cache_kind)kind));
        int rc = cache__file_open(path, key, (enum cache_kind)kind, r->trusted, r->trusted_count, &file, err);
        if (rc == NF_ENOTFOUND)
            continue;
        return rc ? rc : hit_finish(r, &file, path, ret_hit, err);
    }
    return NF_ENOTFOUND;
}

int cache__reader_miss(struct nf_error *err, const char *what, const char *hex, const char *dir)
{
    return nf_fail(err, NF_ENOTFOUND, "no entry of %s %.12s in %s", what, hex, dir);
}

/* alias text: <namespace or _> "/" <64 hex> */
static int alias_read(struct cache_reader *r, const char hex[NF_DIGEST_HEX], char space[65], struct nf_digest *ret_key, struct nf_error *err)
{
    char path[4352], text[160];
    struct stat st;
    nf_format(path, sizeof(path), "%s/aliases/%.2s/%s", r->local_dir, hex, hex);
    ssize_t n = readlink(path, text, sizeof(text) - 1);
    if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
        return cache__reader_miss(err, "front key", hex, r->local_dir);
    if (n < 0 && errno == EINVAL)
        return nf_fail(err, NF_ECORRUPT, "%s is not an alias", path);
    if (n < 0)
        return nf_fail_errno(err, errno, "cannot read %s", path);
    if (lstat(path, &st) != 0)
        return cache__reader_miss(err, "front key", hex, r->local_dir);
    if (!owner_ok(st.st_uid, r->trusted, r->trusted_count))
        return nf_fail(err, NF_EPERM, "%s belongs to uid %u, who is not trusted here", path, (unsigned)st.st_uid);
    struct nf_str rest = nf_str_n(text, (size_t)n), name = nf_str_cut(&rest, '/');
    bool ok = name.len && (nf_str_eq_c(name, "_") || cache_namespace_check(name, NULL) == NF_OK) && nf_digest_parse(rest, ret_key) == NF_OK;
    if (!ok)
        return nf_fail(err, NF_ECORRUPT, "%s is a damaged alias", path);
    memcpy(space, name.data, name.len);
    space[name.len] = 0;
    return NF_OK;
}

int cache_reader_alias(struct cache_reader *r, const struct nf_digest *front_key, struct nf_digest *ret_canonical, char *ret_namespace,
                       struct nf_error *err)
{
    char hex[NF_DIGEST_HEX], space[65];
    struct nf_digest key;
    int rc = alias_read(r, nf_digest_hex(front_key, hex), space, &key, err);
    if (rc)
        return rc;
    *ret_canonical = key;
    if (ret_namespace)
        nf_format(ret_namespace, 65, "%s", strcmp(space, "_") == 0 ? "" : space);
    return NF_OK;
}

int cache_reader_lookup_front(struct cache_reader *r, const struct nf_digest *front_key, struct cache_hit **ret_hit, struct nf_error *err)
{
    char front[NF_DIGEST_HEX], hex[NF_DIGEST_HEX], space[65];
    struct nf_digest key;
    int rc = alias_read(r, nf_digest_hex(front_key, front), space, &key, err);
    if (rc)
        return rc;
    rc = cache__reader_open_local(r, space, nf_digest_hex(&key, hex), &key, ret_hit, err);
    return rc == NF_ENOTFOUND ? cache__reader_miss(err, "front key", front, r->local_dir) : rc;
}

/* ---------------------------------------------------------------------------------------------------------------- hits */

const struct cache_footer *cache_hit_footer(const struct cache_hit *hit)
{
    return &hit->file.footer;
}

const char *cache_hit_path(const struct cache_hit *hit)
{
    return hit->path;
}

enum cache_tier cache_hit_tier(const struct cache_hit *hit)
{
    return hit->tier;
}

uid_t cache_hit_owner(const struct cache_hit *hit)
{
    return hit->file.st.st_uid;
}

int cache_hit_fd(const struct cache_hit *hit)
{
    return hit->file.fd;
}

int cache_hit_map(struct cache_hit *hit, const void **ret_data, struct nf_error *err)
{
    size_t len = (size_t)hit->file.footer.raw_bytes;
    if (!hit->map && len) {
        void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, hit->file.fd, 0);
        if (p == MAP_FAILED)
            return nf_fail_errno(err, errno, "cannot map %s", hit->path);
        hit->map = p;
    }
    *ret_data = len ? hit->map : "";
    return NF_OK;
}

int cache_hit_meta(struct cache_hit *hit, struct nf_arena *arena, struct cache_meta *ret_meta, struct nf_error *err)
{
    int rc = cache_meta_read(hit->file.fd, &hit->file.footer, arena, ret_meta, err);
    return rc && err ? nf_error_prefix(err, "%s", hit->path) : rc;
}

void cache_hit_close(struct cache_hit *hit)
{
    if (!hit)
        return;
    if (hit->map)
        munmap(hit->map, (size_t)hit->file.footer.raw_bytes);
    close(hit->file.fd); /* and with it the lock */
    free(hit);
}
