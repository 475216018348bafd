/* lockmgr_internal.h: the host lock's parts that the blocking wait and the watcher share. */
#ifndef NEFFD_LOCKMGR_INTERNAL_H
#define NEFFD_LOCKMGR_INTERNAL_H

#include "lockmgr/lease.h"
#include "lockmgr/lock.h"

struct lock_dir {
    int fd;
    char *path;
};

/* NF_EINVAL for what cannot be a file name; a NUL-terminated copy. */
int lock__key(struct nf_str key, char ret_key[LOCK_KEY_MAX + 1], struct nf_error *err);

/* One try on *fd, the caller's own descriptor of the key's file (-1: not open yet; opened, and reopened when the name has moved on).
 * NF_EBUSY: somebody else holds it, *fd stays open. NF_OK: *fd holds the lock on the file of that name. Else *fd is -1. */
int lock__attempt(struct lock_dir *dir, const char *key, int *fd, struct nf_error *err);
/* Takes over a won descriptor: writes the record. */
struct lock_host *lock__won(struct lock_dir *dir, const char *key, int fd, const char *what);
/* Fills err for a wait that ended without the lock: names the holder. Returns code. */
int lock__not_won(struct lock_dir *dir, const char *key, int code, const char *how, struct nf_error *err);

/* When a waiter tries next. `step` counts tries since the last event; watched: an inotify watch stands. */
int64_t lock__next_try(int64_t now, int *step, bool watched);
#define LOCK__IDLE_STEP 8       /* from here on a watched waiter only makes its safety tries */
/* Adds a watch for the end of the current holder of the file behind fd; -1: not possible. */
int lock__watch(int inotify_fd, int fd);

#endif
