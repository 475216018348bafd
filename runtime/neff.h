/* neff.h: the NEFF container: writer and reader.
 *
 * A NEFF is a 1,024-byte header and a tar archive. Header: little-endian, natural C layout, from the SDK's description:
 *
 *     off size field                    off size field                     off size field
 *       0 u64  pkg_version               168 u32  num_tpb                  480  64  tpb_per_node (1 byte a node)
 *       8 u64  header_size (1024)        172  32  hash                     544 u64  feature_bits
 *      16 u64  data_size                 204  16  uuid                     552 u32  lnc_size
 *      24 u64  neff_version_major        220 256  name                     556 468  zero
 *      32 u64  neff_version_minor        476 u32  requested_tpb_count
 *      40 128  neff_build_version
 *
 * Files written here: pkg_version 2, hash = SHA-256 of the archive, uuid = the first 16 bytes of SHA-256(hash), so that equal
 * content is equal bytes. What the hash of other writers covers is not documented: neff_check() tells whether one of the
 * plausible sums matches, and never refuses a foreign file for it.
 *
 * Our archives start with the member `neffd/manifest` (text, version in its first line), which lists what a loader must know:
 *
 *     manifest = "neffd 1\n" { line "\n" }
 *     line     = "target" SP word | "compiler" SP text | "isa" SP text
 *              | "input" SP dtype SP dims SP strides SP bytes SP name
 *              | "output" SP dtype SP dims SP strides SP bytes SP alias SP name
 *              | "x-" word SP text                   ; anything else that a target wants to say, e.g. "x-plan 3"
 *     dims     = "-" | int { "," int }               ; "-": rank 0
 *     strides  = "-" | int { "," int }               ; "-": dense, row-major
 *     alias    = "-" | int                           ; index of an input
 *     text, name = UTF-8 with \n, \r, \\ and NUL as \n \r \\ \0
 *
 * Readers accept unknown lines (a newer writer's) and refuse another version of the first line.
 *
 * Why tar code of our own: members must be views of the mapping (no copy of 200 MB), code must start at a multiple of 4,096
 * of the *file* so that it can be mapped executable, and hostile archives must cost a bounded scan; no library gives the three
 * together. What is written is plain ustar with pax headers (the padding in front of an aligned member is a pax comment), so
 * tar(1), Python's tarfile and neuron-packager read it; tests compare. Read are ustar, pax and GNU long names; a compressed
 * archive (1f 8b) shows its header and `compressed`; its members only after neff_open_inflated().
 *
 * Limits: NEFF_MEMBERS_MAX members, names of 255 bytes, NEFF_TENSORS_MAX tensors; everything is checked against the bytes given,
 * nothing is read outside, nothing recursed. */
#ifndef NEFFD_RUNTIME_NEFF_H
#define NEFFD_RUNTIME_NEFF_H

#include "base/digest.h"
#include "runtime/tensor.h"

#define NEFF_HEADER_BYTES 1024
#define NEFF_PKG_VERSION 2
#define NEFF_MEMBERS_MAX 65536
#define NEFF_TENSORS_MAX 65536
#define NEFF_PAGE 4096
#define NEFF_MANIFEST "neffd/manifest"

struct neff_header {
    uint64_t pkg_version, header_size, data_size, version_major, version_minor;
    char build_version[129];
    uint32_t num_tpb;
    uint8_t hash[32];
    uint8_t uuid[16];
    char name[257];
    uint32_t requested_tpb_count;
    uint8_t tpb_per_node[64];
    uint64_t feature_bits;
    uint32_t lnc_size;
};

/* --------------------------------------------------------------------------------------------------------- reader */

struct neff;

/* bytes: the file as mapped; borrowed until close. Checks the header, the sizes, every tar header and the manifest if there is
 * one; not the hash. NF_ECORRUPT with the byte offset in err->location. */
int neff_open(struct nf_str bytes, struct neff **ret_neff, struct nf_error *err);
/* The same for a file with a gzip'ed archive, which is unpacked into memory (NF_ELIMIT beyond limit_bytes); other files open as
 * neff_open does. */
int neff_open_inflated(struct nf_str bytes, size_t limit_bytes, struct neff **ret_neff, struct nf_error *err);
void neff_close(struct neff *n);                                  /* takes NULL */

const struct neff_header *neff_header(const struct neff *n);
bool neff_compressed(const struct neff *n);
size_t neff_member_count(const struct neff *n);
/* Views of the mapping; names are NUL-terminated. Only regular files are members. */
const char *neff_member_at(const struct neff *n, size_t i, struct nf_str *ret_data);
bool neff_member(const struct neff *n, const char *name, struct nf_str *ret_data);   /* the first of that name */
/* From the manifest: "" when there is none, or no such line. */
const char *neff_target(const struct neff *n);
const char *neff_compiler(const struct neff *n);
const char *neff_isa(const struct neff *n);
const char *neff_note(const struct neff *n, const char *word);    /* of the line "x-word ..." ; NULL: none */
size_t neff_inputs(const struct neff *n, const struct rt_tensor **ret_tensors);
size_t neff_outputs(const struct neff *n, const struct rt_tensor **ret_tensors);

/* Reads only the header (1,024 bytes are enough) and compares the sizes with file_bytes. */
int neff_header_read(struct nf_str bytes, uint64_t file_bytes, struct neff_header *ret_header, struct nf_error *err);

/* The fields as they stand, nothing compared; false: there are no 1,024 bytes. */
bool neff_header_peek(struct nf_str bytes, struct neff_header *ret_header);

/* What a file must be to be accepted; zero and NULL mean "anything". */
struct neff_expect {
    const char *target;       /* compared where the file says it */
    uint32_t lnc_size;        /* compared where the file's is not 0 */
    uint64_t feature_mask;    /* bits that may be set; 0: all */
    bool members;             /* also walk the archive (inflating a compressed one), not the header alone */
    bool hash;                /* also compute the sums */
};

enum neff_hash { NEFF_HASH_NOT_CHECKED, NEFF_HASH_SHA256, NEFF_HASH_MD5, NEFF_HASH_NONE, NEFF_HASH_OTHER, NEFF_HASH_MAX };
const char *neff_hash_name(enum neff_hash h);   /* "not checked", "sha256", "md5", "none" (all zero), "other" */

/* Everything that is wrong, one text a problem, in *ret_problems (strings and array in `arena`); the count is returned, 0: valid.
 * A hash that matches nothing is a problem only in files with our manifest. ret_hash may be NULL. */
struct nf_arena;
size_t neff_check(struct nf_str bytes, const struct neff_expect *expect, struct nf_arena *arena,
                  const char *const **ret_problems, enum neff_hash *ret_hash);
/* For a file of unknown origin, before its code runs: NF_ECORRUPT when it is one of ours and its archive is not what the header has the
 * hash of. Costs a SHA-256 of the file; what the cache hands out has been through its own. */
int neff_check_hash(const struct neff *n, struct nf_str bytes, struct nf_error *err);

/* --------------------------------------------------------------------------------------------------------- writer */

/* Collects, then writes once. Member data is borrowed until finish; texts are copied. Errors are kept and come out at
 * finish (sticky). Order of calls is the order in the file; equal calls give equal bytes. */
struct neff_writer;

struct neff_writer_options {
    const char *name;         /* header name; cut at 255 bytes */
    const char *target;       /* "cpu" */
    const char *compiler;     /* "neffd-cpu 0.1.0" */
    const char *isa;          /* NULL: none */
    uint64_t feature_bits;
    uint32_t lnc_size;
};

struct neff_writer *neff_writer_new(const struct neff_writer_options *options);
void neff_writer_free(struct neff_writer *w);                     /* takes NULL */
void neff_writer_input(struct neff_writer *w, const struct rt_tensor *t);
void neff_writer_output(struct neff_writer *w, const struct rt_tensor *t);
void neff_writer_note(struct neff_writer *w, const char *word, const char *text);      /* the line "x-word text" */
/* align: of the data's offset in the file; 0 or a power of two up to 1 MiB. */
void neff_writer_member(struct neff_writer *w, const char *name, struct nf_str data, size_t align);
int neff_writer_finish(struct neff_writer *w, struct nf_buf *ret_bytes, struct nf_error *err);   /* appends to ret_bytes */
int neff_writer_finish_fd(struct neff_writer *w, int fd, uint64_t *ret_bytes, struct nf_error *err); /* no second copy in memory; no fsync */

#endif
