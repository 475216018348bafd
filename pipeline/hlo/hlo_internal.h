/* hlo_internal.h: what the files of this folder share and nobody else sees. */
#ifndef NEFFD_PIPELINE_HLO_HLO_INTERNAL_H
#define NEFFD_PIPELINE_HLO_HLO_INTERNAL_H

#include "pipeline/hlo/hlo.h"

#define HLO_RECENT 256
struct hlo_recent {
    const void *copy;
    size_t bytes;
};

/* Interned things of a module. All memory is the arena's. */
struct hlo_tables {
    struct hlo_recent recent[HLO_RECENT];         /* lists and attributes made not long ago, by the hash of their bytes */
    const struct hlo_type **types;      /* open addressing, power of two */
    uint32_t *type_hashes;
    uint32_t num_types, cap_types;
    const struct hlo_type *scalars[HLO_ELEM_MAX]; /* the common ones, made on demand */
    const struct hlo_type *token, *none;
    const struct hlo_attr *unit, *bools[2];
    /* symbols: func.func and others with a name in the module's block; rebuilt when NULL */
    struct hlo_op **symbols;
    uint32_t cap_symbols;
    /* where lines of the text begin, in order; NULL: not needed so far, found by reading from the start */
    uint32_t *line_starts;
    uint32_t num_lines, last_line;      /* last_line: found most recently; operations lie in the order of lines */
};

void hlo__index_lines(struct hlo_module *m);                         /* before many places are turned into lines */

struct hlo_type *hlo__type_new_slot(struct hlo_module *m);
bool hlo__quant_eq(const struct hlo_quant *a, const struct hlo_quant *b);
void hlo__print_string(struct nf_str s, struct nf_buf *out);         /* with quotes and escapes */
void hlo__print_ints(struct hlo_ints v, struct nf_buf *out);         /* "1, 2" */
void hlo__print_i64(int64_t v, struct nf_buf *out);
void hlo__print_float(enum hlo_elem e, uint64_t bits, struct nf_buf *out); /* MLIR's spelling; hex for what is not finite */
/* Always in hex from 9 elements on; whole: never elides. */
void hlo__print_dense_value(const struct hlo_attr *a, bool force_hex, struct nf_buf *out); /* inside dense<...> */
void hlo__print_symbol(struct nf_str s, struct nf_buf *out);         /* @name or @"name" */
void hlo__print_key(struct nf_str s, struct nf_buf *out);            /* name or "name" */
bool hlo__bare_id(struct nf_str s);                                  /* letters, digits, _ $ . ; not starting with a digit */
void hlo__print_dict_body(const struct hlo_named *v, size_t n, struct nf_buf *out); /* a = 1, b */
uint64_t hlo__mask_bits(enum hlo_elem e, uint64_t v);                /* the low bits of the element kind */

#endif
