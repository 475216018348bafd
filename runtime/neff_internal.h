/* neff_internal.h: shared by the reader, the writer and the check. */
#ifndef NEFFD_RUNTIME_NEFF_INTERNAL_H
#define NEFFD_RUNTIME_NEFF_INTERNAL_H

#include "runtime/neff.h"

#include "base/arena.h"

#define TAR_BLOCK 512

enum { /* offsets in a ustar header */
    TAR_NAME = 0, TAR_MODE = 100, TAR_UID = 108, TAR_GID = 116, TAR_SIZE = 124, TAR_MTIME = 136, TAR_SUM = 148,
    TAR_TYPE = 156, TAR_LINK = 157, TAR_MAGIC = 257, TAR_PREFIX = 345,
};

struct neff__member {
    const char *name;
    struct nf_str data;
};

struct neff {
    struct nf_str file;
    struct neff_header header;
    struct nf_arena *arena;
    bool compressed;
    char *inflated;                    /* owned copy of the unpacked archive, or NULL */
    struct neff__member *members;      /* grown by doubling in malloc memory */
    size_t member_count, member_cap;
    bool has_manifest;
    const char *target, *compiler, *isa;
    struct neff__note { const char *word, *text; } *notes;
    size_t note_count, note_cap;
    struct rt_tensor *inputs, *outputs;
    size_t input_count, output_count;
};

/* Fields as they stand, nothing compared. bytes has at least NEFF_HEADER_BYTES. */
void neff__header_decode(const uint8_t *bytes, struct neff_header *ret_header);
void neff__header_encode(const struct neff_header *header, uint8_t *bytes);
uint32_t neff__tar_sum(const uint8_t *block);
bool neff__zero_block(const uint8_t *block);
/* runtime/neff_manifest.c */
int neff__manifest_read(struct neff *n, struct nf_str text, struct nf_error *err);
void neff__manifest_tensor(struct nf_buf *out, bool output, const struct rt_tensor *t);
void neff__manifest_text(struct nf_buf *out, struct nf_str text);
/* Unpacks a gzip stream. */
int neff__inflate(struct nf_str packed, size_t limit_bytes, struct nf_buf *ret_bytes, struct nf_error *err);

#endif
