/* tree.h: process trees, so that nothing of ours is ever left behind.
 *
 * Every process that a daemon starts, however deep and in whatever session, carries the environment variable
 * TREE_MARKER=<128 random bits of the daemon's instance>. Alive, the daemon and its workers are sub-reapers and kill what they are
 * handed; after a kill -9 of the daemon the workers see their pipe end and do the same; what survives even that (worker
 * and daemon killed together) is found by its marker when the next daemon starts on the same local directory. */
#ifndef NEFFD_DAEMON_TREE_H
#define NEFFD_DAEMON_TREE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TREE_MARKER "NEFFD_INSTANCE"
#define TREE_MARKER_LEN 33 /* 32 hex digits and a terminator */

/* All living descendants of root, parents before their children; root itself is not among them. Returns how many were
 * written. */
size_t tree_descendants(pid_t root, pid_t *out, size_t cap);
/* Children only. */
size_t tree_children(pid_t root, pid_t *out, size_t cap);
/* SIGKILL to root (with_root) and all that descends from it. New ones may have been born meanwhile: call again until
 * tree_descendants finds none, or be a sub-reaper. Returns how many were signalled. */
size_t tree_kill(pid_t root, bool with_root);
/* Resident bytes of root and all that descends from it. */
uint64_t tree_rss_bytes(pid_t root);
uint64_t tree_rss_of(pid_t pid);

/* This instance's marker, made at start: a file <local>/run/<marker> with a lock on it, held while the daemon lives. Kills what
 * dead instances have left, and removes their files. The lock's descriptor stays open for the life of the process. Without a
 * writable local directory there is a marker all the same, and a warning. */
int tree_instance_open(const char *local_dir, char ret_marker[TREE_MARKER_LEN], int *ret_lock_fd, struct nf_error *err);
void tree_instance_close(const char *local_dir, const char *marker, int lock_fd);
/* Kills every process of this user (of any user, for root) whose environment has the marker, but not `except`. */
size_t tree_kill_marked(const char *marker, pid_t except);

#endif
