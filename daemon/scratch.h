/* scratch.h: private directories of jobs, and files that are delivered without being entries of the cache.
 *
 * Everything of one daemon lies below ROOT/<instance marker>/: `up-N` what callers send, `job-N` where a job's worker writes, and
 * `loose-SHA256.KIND` artifacts that the cache does not hold (no_publish, intermediates, a cache that cannot write). The root is
 * <local>/work; when that cannot be written or is full, the temporary directory, then /dev/shm: a compile must not fail because of
 * one full disk. Directories of dead instances are removed at start. Loop thread only, but for scratch_remove. */
#ifndef NEFFD_DAEMON_SCRATCH_H
#define NEFFD_DAEMON_SCRATCH_H

#include "base/digest.h"
#include "base/error.h"

struct uv_loop_s;
struct scratch;

struct loose_file {
    struct nf_digest sha256;
    char *path;
    uint64_t size;
    int64_t expires_ns;
};

int scratch_open(struct uv_loop_s *loop, const char *local_dir, const char *work_dir, const char *marker, struct scratch **ret_scratch, struct nf_error *err);
void scratch_close(struct scratch *s);                       /* removes all of it */
/* A new path below the best root: a directory (mode 0700), or a file opened for writing. The path is the caller's to free. */
int scratch_dir(struct scratch *s, uint64_t number, char **ret_path, struct nf_error *err);
int scratch_file(struct scratch *s, char **ret_path, int *ret_fd, struct nf_error *err);
/* The root that was used last has turned out to be full or broken: another one next time. False: there is no other. */
bool scratch_avoid(struct scratch *s, const char *path);
/* Removes a directory of scratch_dir, on a thread of the pool. Takes the path over. */
void scratch_remove(struct scratch *s, char *path);
/* Leaves it for people to look at, beside the directories of instances; logs where. Takes the path over. */
void scratch_set_aside(struct scratch *s, char *path);
/* Where the store may put payloads that its local tier cannot take. */
const char *scratch_spill_dir(const struct scratch *s);

/* Takes a finished file of a work directory out of it (rename, or copy across file systems), readable for everybody who knows its name.
 * It is kept for ten minutes after its last use. */
int scratch_keep_file(struct scratch *s, const char *path, const char *kind, const struct nf_digest *sha256, uint64_t size,
                      struct loose_file const **ret_file, struct nf_error *err);
/* What scratch_keep_file must be told. Any thread. */
int scratch_hash_file(const char *path, struct nf_digest *ret_sha256, uint64_t *ret_size, struct nf_error *err);
int scratch_keep_bytes(struct scratch *s, struct nf_str bytes, const char *kind, struct loose_file const **ret_file, struct nf_error *err);
/* A file of the spill directory, which the cache wrote: found by its digest, removed with the others. */
void scratch_note(struct scratch *s, const struct nf_digest *sha256, uint64_t size, const char *path);
const struct loose_file *scratch_find(struct scratch *s, const struct nf_digest *sha256);

#endif
