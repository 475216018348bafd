/* kernel_cache.c: the code of kernels, kept between compiles: programs that differ in a layer share nearly all of their kernels.
 *
 * A directory of SLOTS files at most; a kernel's digest says which one is its own, and a newer kernel replaces an older one, so the
 * directory needs no eviction. A file is the digest, a checksum and the code:
 *
 *     file = magic "NFKERN01" sha256[32] u64 xxh3-of-code code
 *
 * It is written as SLOT.new and renamed, without waiting for the disk: what a crash leaves of it does not match its checksum. Who writes holds a
 * lock on SLOT.new, which a kill releases: the next one takes the file that was left over; while somebody is at it, others keep nothing.
 * Code is run by clients, so files that another user owns or could write are not taken. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/emit_internal.h"

#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

enum { SLOTS = 4096, HEAD = 48, CODE_MAX = 1 << 20 };
#define MAGIC "NFKERN01"

struct kernel_key kernel_key(struct nf_str text, const struct emit_target *t, int tier)
{
    struct nf_sha256 s;
    nf_sha256_init(&s);
    nf_sha256_add_u64(&s, CG_EMITTER_VERSION);
    nf_sha256_add_field(&s, nf_str_c(CG_LLVM_VERSION));
    nf_sha256_add_field(&s, nf_str_c(t->triple));
    nf_sha256_add_field(&s, nf_str_c(t->cpu));
    nf_sha256_add_field(&s, nf_str_c(t->features));
    nf_sha256_add_u64(&s, (uint64_t)t->lanes);
    nf_sha256_add_u64(&s, (uint64_t)tier);
    nf_sha256_add_field(&s, text);
    return (struct kernel_key){nf_sha256_end(&s)};
}

static void slot(const char *dir, const struct kernel_key *key, char *path, size_t size)
{
    nf_format(path, size, "%s/%03x", dir, ((unsigned)key->digest.bytes[0] << 8 | key->digest.bytes[1]) % SLOTS);
}

bool kernel_cache_get(const char *dir, const struct kernel_key *key, struct nf_buf *ret_code)
{
    char path[4096];
    struct stat st;
    struct nf_buf b = NF_BUF_INIT;
    uint64_t sum;
    slot(dir, key, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) && nf_fd_read_all(fd, HEAD + CODE_MAX, &b) == 0;
    ok = ok && b.len > HEAD && memcmp(b.data, MAGIC, 8) == 0 && memcmp(b.data + 8, key->digest.bytes, 32) == 0;
    if (ok) memcpy(&sum, b.data + 40, 8);
    ok = ok && nf_xxh3(b.data + HEAD, b.len - HEAD) == sum;
    if (ok) nf_buf_add(ret_code, b.data + HEAD, b.len - HEAD);
    if (fd >= 0) close(fd);
    nf_buf_done(&b);
    return ok;
}

void kernel_cache_put(const char *dir, const struct kernel_key *key, struct nf_str code)
{
    char path[4096], mine[4200];
    struct nf_buf b = NF_BUF_INIT;
    struct stat st, named;
    uint64_t sum = nf_xxh3(code.data, code.len);
    if (code.len > CODE_MAX) return;
    slot(dir, key, path, sizeof path);
    nf_format(mine, sizeof mine, "%s.new", path);
    nf_buf_add(&b, MAGIC, 8);
    nf_buf_add(&b, key->digest.bytes, 32);
    nf_buf_add(&b, &sum, 8);
    nf_buf_add_str(&b, code);
    int fd = open(mine, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* Locked, and still the file of that name: another one may have renamed it meanwhile. */
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && stat(mine, &named) == 0 && st.st_ino == named.st_ino && st.st_dev == named.st_dev && st.st_uid == geteuid()) {
        bool ok = ftruncate(fd, 0) == 0 && nf_fd_write_all(fd, b.data, b.len) == 0;
        if (!ok || rename(mine, path)) unlink(mine);
    }
    if (fd >= 0) close(fd);
    nf_buf_done(&b);
}
