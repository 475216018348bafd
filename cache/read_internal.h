/* read_internal.h: what read.c and read_key.c share. */
#ifndef NEFFD_CACHE_READ_INTERNAL_H
#define NEFFD_CACHE_READ_INTERNAL_H

#include "cache/cache_internal.h"

#include <pthread.h>
#include <stdatomic.h>

#define CACHE_USES_MAX 256

struct cache_reader {
    char *local_dir, *shared_dir;
    uid_t trusted[8];
    size_t trusted_count;
    atomic_bool verify_always;
    pthread_mutex_t lock;        /* guards uses, use_count, pid; a leaf */
    struct cache__use uses[CACHE_USES_MAX];
    size_t use_count;
    pid_t pid;
};

/* Opens the entry of `key` in one namespace of the local tier; outcomes of cache__file_open. */
int cache__reader_open_local(struct cache_reader *r, const char *space, const char hex[NF_DIGEST_HEX], const struct nf_digest *key,
                             struct cache_hit **ret_hit, struct nf_error *err);
/* NF_ENOTFOUND with its sentence. */
int cache__reader_miss(struct nf_error *err, const char *what, const char *hex, const char *dir);

#endif
