/* toolchain.c: the list of this host's compilers, `<local>/toolchains` (grammar in key.h).
 *
 * Readers are many and take no lock: the file is replaced whole. Writers are few and serialise on a lock file, because each
 * keeps the lines of the targets that it does not know. */
#include "cache/key.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define LIST_LIMIT ((size_t)1 << 20)
#define HEAD "neffd-toolchains 1"

void cache_toolchain_make_id(struct nf_str compiler, struct nf_str version, struct nf_str detail, char out[NF_DIGEST_HEX])
{
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    nf_sha256_add_field(&sha, NF_STR("neffd toolchain"));
    nf_sha256_add_field(&sha, compiler);
    nf_sha256_add_field(&sha, version);
    nf_sha256_add_field(&sha, detail);
    struct nf_digest d = nf_sha256_end(&sha);
    nf_digest_hex(&d, out);
}

static int64_t mtime_ns_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool take(struct nf_str text, char *out, size_t size)
{
    if (text.len >= size)
        return false;
    memcpy(out, text.data ? text.data : "", text.len);
    out[text.len] = 0;
    return true;
}

/* line without its newline */
static int line_parse(struct nf_str line, struct cache_toolchain *t)
{
    struct nf_str field[7], rest = line;
    for (size_t i = 0; i < NF_ARRAY_LEN(field); i++) {
        if (!rest.data)
            return NF_ECORRUPT;
        field[i] = nf_str_cut(&rest, '\t');
    }
    *t = (struct cache_toolchain){0};
    if (rest.data || !field[0].len || !field[1].len || !take(field[0], t->target, sizeof(t->target)) || !take(field[1], t->id, sizeof(t->id)) ||
        !take(field[2], t->compiler, sizeof(t->compiler)) || !take(field[3], t->version, sizeof(t->version)) ||
        !take(nf_str_eq_c(field[4], "-") ? NF_STR("") : field[4], t->path, sizeof(t->path)) || nf_str_to_i64(field[5], &t->mtime_ns) ||
        nf_str_to_u64(field[6], &t->size))
        return NF_ECORRUPT;
    return NF_OK;
}

static int head_check(struct nf_str *rest, const char *path, struct nf_error *err)
{
    if (!nf_str_eq_c(nf_str_cut(rest, '\n'), HEAD))
        return nf_fail(err, NF_ECORRUPT, "%s is not a toolchain list of this version", path);
    return NF_OK;
}

int cache_toolchain_read(const char *local_dir, const char *target, struct cache_toolchain *ret_toolchain, struct nf_error *err)
{
    char path[4096];
    if (!nf_format(path, sizeof(path), "%s/toolchains", local_dir))
        return nf_fail(err, NF_ELIMIT, "the name of the local cache directory is too long");
    struct nf_buf text = NF_BUF_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return nf_fail(err, NF_ENOTFOUND, "no toolchain list at %s", path);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", path);
    struct stat st, dir;
    int rc = NF_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        rc = nf_fail(err, NF_ECORRUPT, "%s is not a file", path);
        goto out;
    }
    if (st.st_uid != 0 && st.st_uid != geteuid() && (stat(local_dir, &dir) != 0 || dir.st_uid != st.st_uid)) {
        rc = nf_fail(err, NF_EPERM, "%s belongs to uid %u, who does not own %s", path, (unsigned)st.st_uid, local_dir);
        goto out;
    }
    rc = nf_fd_read_all(fd, LIST_LIMIT, &text);
    if (rc) {
        rc = nf_fail(err, rc, "cannot read %s: %s", path, nf_status_text(rc));
        goto out;
    }
    struct nf_str rest = nf_buf_str(&text);
    rc = head_check(&rest, path, err);
    while (!rc && rest.len) {
        struct nf_str line = nf_str_cut(&rest, '\n');
        if (!rest.data || !nf_str_starts(line, nf_str_c(target)) || line.len <= strlen(target) || line.data[strlen(target)] != '\t')
            continue; /* a last line without its newline is not a line */
        struct cache_toolchain t;
        if (line_parse(line, &t)) {
            rc = nf_fail(err, NF_ECORRUPT, "the line of %s in %s is damaged", target, path);
            goto out;
        }
        if (t.path[0] && (stat(t.path, &st) != 0 || mtime_ns_of(&st) != t.mtime_ns || (uint64_t)st.st_size != t.size)) {
            rc = nf_fail(err, NF_ENOTFOUND, "%s is not the compiler that %s records for %s", t.path, path, target);
            goto out;
        }
        *ret_toolchain = t;
        goto out;
    }
    if (!rc)
        rc = nf_fail(err, NF_ENOTFOUND, "no toolchain for target %s in %s", target, path);
out:
    nf_buf_done(&text);
    close(fd);
    return rc;
}

static bool text_ok(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

static int line_print(struct nf_buf *out, const struct cache_toolchain *t, struct nf_error *err)
{
    if (!t->target[0] || !t->id[0] || !text_ok(t->target) || !text_ok(t->id) || !text_ok(t->compiler) || !text_ok(t->version) || !text_ok(t->path))
        return nf_fail(err, NF_EINVAL, "the toolchain of target \"%s\" has no id or holds control characters", t->target);
    int64_t mtime_ns = 0;
    uint64_t size = 0;
    struct stat st;
    if (t->path[0]) {
        if (stat(t->path, &st) != 0)
            return nf_fail_errno(err, errno, "cannot stat the compiler %s", t->path);
        mtime_ns = mtime_ns_of(&st);
        size = (uint64_t)st.st_size;
    }
    nf_buf_addf(out, "%s\t%s\t%s\t%s\t%s\t%lld\t%llu\n", t->target, t->id, t->compiler, t->version, t->path[0] ? t->path : "-",
                (long long)mtime_ns, (unsigned long long)size);
    return NF_OK;
}

static bool is_replaced(struct nf_str line, const struct cache_toolchain *list, size_t count)
{
    struct nf_str target = nf_str_cut(&line, '\t');
    for (size_t i = 0; i < count; i++)
        if (nf_str_eq_c(target, list[i].target))
            return true;
    return false;
}

int cache_toolchain_write(const char *local_dir, const struct cache_toolchain *list, size_t count, struct nf_error *err)
{
    char path[4096], lock[4096];
    if (!nf_format(path, sizeof(path), "%s/toolchains", local_dir) || !nf_format(lock, sizeof(lock), "%s/toolchains.lock", local_dir))
        return nf_fail(err, NF_ELIMIT, "the name of the local cache directory is too long");
    int lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", lock);
    struct nf_buf old = NF_BUF_INIT, text = NF_BUF_INIT;
    int rc = NF_OK;
    while (flock(lock_fd, LOCK_EX) != 0)
        if (errno != EINTR) {
            rc = nf_fail_errno(err, errno, "cannot lock %s", lock);
            goto out;
        }
    nf_buf_add_c(&text, HEAD "\n");
    for (size_t i = 0; i < count; i++)
        if ((rc = line_print(&text, &list[i], err)))
            goto out;
    if (nf_file_read(path, LIST_LIMIT, &old, NULL) == NF_OK) {
        struct nf_str rest = nf_buf_str(&old);
        struct cache_toolchain ignored;
        if (head_check(&rest, path, NULL) == NF_OK)
            while (rest.len) {
                struct nf_str line = nf_str_cut(&rest, '\n');
                if (rest.data && !is_replaced(line, list, count) && line_parse(line, &ignored) == NF_OK) {
                    nf_buf_add_str(&text, line);
                    nf_buf_add_char(&text, '\n');
                }
            }
    }
    if (nf_str_eq(nf_buf_str(&old), nf_buf_str(&text)) && old.len)
        goto out; /* nothing new: readers keep what they know */
    rc = nf_file_replace(path, nf_buf_str(&text), 0644, err);
out:
    nf_buf_done(&old);
    nf_buf_done(&text);
    close(lock_fd);
    return rc;
}
