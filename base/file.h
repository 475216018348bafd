/* file.h: whole files, safely. Everything opens with O_CLOEXEC and O_NOFOLLOW where said.
 *
 * Exclusive publish (DESIGN §4): a reader sees either nothing or a whole, durable file.
 *     nf_pub_begin  creates `.tmp-<128 random bits>` in dir_fd's directory, mode 0600
 *     nf_pub_write  appends (short writes are finished, errors are kept)
 *     nf_pub_commit fchmod, fsync, link(2) to `name` (renameat2(NOREPLACE) where links are refused), lost-reply check by
 *                   inode, fsync of the directory, unlink of the temporary. NF_EEXISTS: somebody else's file stands there.
 *     nf_pub_abort  removes the temporary (takes one that was committed or never begun) */
#ifndef NEFFD_BASE_FILE_H
#define NEFFD_BASE_FILE_H

#include "base/str.h"

#include <sys/stat.h>
#include <sys/types.h>

/* Afterwards 0, 1 and 2 are open: who starts us without them would have what we print in the next file that we open. First in main. */
void nf_std_open(void);
int nf_file_read(const char *path, size_t limit_bytes, struct nf_buf *ret_bytes, struct nf_error *err);
int nf_fd_read_all(int fd, size_t limit_bytes, struct nf_buf *ret_bytes);      /* NF_ELIMIT when there is more */
int nf_fd_write_all(int fd, const void *data, size_t len);                     /* NF_EIO, NF_ENOSPC, ... */
int nf_fd_pread_all(int fd, void *data, size_t len, uint64_t offset);          /* NF_ECORRUPT when the file ends first */
/* Replaces path atomically (temporary, fsync, rename, fsync of the directory). For files with one owner, never for entries. */
int nf_file_replace(const char *path, struct nf_str bytes, mode_t mode, struct nf_error *err);
int nf_mkdir_p(const char *path, mode_t mode, struct nf_error *err);

/* What a user told us to write, wherever that is. nf_file_replace would put a file in the place of a device, a pipe or a link, root's
 * /dev/null among them. True: it is to be opened and written into. False: a new file may take the place of *ret_path (to be freed), which
 * is `path` behind its links. */
bool nf_output_is_stream(const char *path, char **ret_path);
/* A stream of these; a descriptor, or the status that nf_output_status makes. */
int nf_output_open(const char *path, struct nf_error *err);
/* What was written may be refused only here (a network's file system, a quota). */
int nf_output_close(int fd, const char *path, struct nf_error *err);
/* Writes all of it, by either way; the status is that of nf_output_status. */
int nf_output_write(const char *path, struct nf_str bytes, mode_t mode, struct nf_error *err);
/* A folder that is not there is no miss (NF_ENOTFOUND, exit 3) but trouble of the place: r, or NF_EIO, also in err->code. */
int nf_output_status(int r, struct nf_error *err);
int nf_dir_open(const char *path, struct nf_error *err);                        /* a descriptor */
int nf_remove_tree(int dir_fd, const char *name);                               /* never follows links, never leaves the tree */

struct nf_map_view {
    const void *data;
    size_t len;
    int fd;
};
int nf_map_view_open(const char *path, struct nf_map_view *ret_view, struct nf_error *err); /* read-only, private */
void nf_map_view_close(struct nf_map_view *v);

struct nf_pub {
    int dir_fd, fd;
    int failed;          /* first error, sticky */
    char tmp[48];
};
int nf_pub_begin(int dir_fd, struct nf_pub *ret_pub, struct nf_error *err);
void nf_pub_write(struct nf_pub *p, const void *data, size_t len);
int nf_pub_commit(struct nf_pub *p, const char *name, mode_t mode, struct nf_error *err);
void nf_pub_abort(struct nf_pub *p);

/* Cryptographically random bytes; ends the process if the kernel has none. */
void nf_random(void *out, size_t len);

#endif
