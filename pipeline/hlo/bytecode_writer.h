/* bytecode_writer.h: what the two parts of the bytecode writer share.
 *   bytecode_encode.c  types and attributes, bottom-up, each kept once by its bytes
 *   bytecode_write.c   operations, regions, sections */
#ifndef NEFFD_PIPELINE_HLO_BYTECODE_WRITER_H
#define NEFFD_PIPELINE_HLO_BYTECODE_WRITER_H

#include "base/map.h"
#include "pipeline/hlo/bytecode.h"
#include "pipeline/hlo/vhlo.h"

enum { BW_BUILTIN, BW_VHLO, BW_SDY, BW_MAX };

/* Things numbered by their bytes. */
struct bw_table {
    struct nf_map *index;       /* bytes -> number + 1 */
    struct nf_buf bytes;        /* all of them, in order */
    struct nf_buf sizes;        /* uint64_t each */
    struct nf_buf dialects;     /* char each */
    size_t n;
};

struct bw {
    const struct hlo_module *m;
    struct nf_error *err;
    struct vhlo_version version;
    bool debug_info;
    struct bw_table strings, attrs, types, props, ops;
    uint64_t *loc_numbers;      /* of m->locs, + 1 */
    uint64_t *value_numbers;    /* by value id */
    struct nf_map *type_numbers[2]; /* hlo_type pointer -> number + 1, builtin and portable */
    unsigned depth;
};

void hlo__bw_varint(struct nf_buf *o, uint64_t v);
/* Number of the bytes in the table; `dialect` is part of the identity. */
uint64_t hlo__bw_number(struct bw_table *t, int dialect, struct nf_str bytes);
uint64_t hlo__bw_string_number(struct bw *w, struct nf_str s);
/* NF_EUNSUPPORTED with the operation (NULL: none in particular) and its place. */
int hlo__bw_fail(struct bw *w, const struct hlo_op *op, const char *fmt, ...) NF_PRINTF(3, 4);

/* Numbers of a type and an attribute in a dialect's spelling, encoding them when they are new. */
int hlo__bw_type_number(struct bw *w, const struct hlo_type *t, int dialect, uint64_t *ret);
int hlo__bw_attr_number(struct bw *w, const struct hlo_attr *a, int dialect, uint64_t *ret);
/* The number, appended to o. */
int hlo__bw_put_type(struct bw *w, struct nf_buf *o, const struct hlo_type *t, int dialect);
int hlo__bw_put_types(struct bw *w, struct nf_buf *o, uint32_t n, const struct hlo_type *const *v, int dialect);
int hlo__bw_put_attr(struct bw *w, struct nf_buf *o, const struct hlo_attr *a, int dialect);
int hlo__bw_put_string(struct bw *w, struct nf_buf *o, struct nf_str s, int dialect);

#endif
