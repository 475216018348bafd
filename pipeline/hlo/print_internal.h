/* print_internal.h: the printer's pieces. */
#ifndef NEFFD_PIPELINE_HLO_PRINT_INTERNAL_H
#define NEFFD_PIPELINE_HLO_PRINT_INTERNAL_H

#include "pipeline/hlo/hlo_internal.h"

struct print_name {
    uint32_t prefix;       /* 0 "", 1 "arg", else hlo__print_prefix */
    uint32_t number;       /* UINT32_MAX: none */
};

/* What a key covers: the print, in which large constants stand by their SHA-256. Where the print has them in full, `cuts` says what the
 * key leaves out there, and what it has instead. */
struct print_cut {
    size_t from, len;      /* in the print */
    char text[NF_DIGEST_HEX + 32];
    size_t text_len;
};
struct print_key {
    bool only;             /* the print itself is not wanted: the digests are printed */
    struct print_cut *cuts;
    size_t num_cuts, cap_cuts;
};

struct hlo_printer {
    const struct hlo_module *m;
    struct nf_buf *out;
    enum hlo_style style;
    bool locations;
    struct print_key *key; /* NULL: no key is wanted */
    unsigned indent;
    bool first;            /* nothing has been printed: no line break in front */
    struct print_name *names;      /* by value id */
    struct nf_str *types;          /* spelled types, by type id, malloc'd */
    size_t num_types;
};

/* nf_buf_add for the many short pieces of a print. */
static inline void print_put(struct nf_buf *out, const char *data, size_t len)
{
    if (out->failed || out->cap - out->len <= len) {
        nf_buf_add(out, data, len);
        return;
    }
    memcpy(out->data + out->len, data, len);
    out->len += len;
    out->data[out->len] = 0;
}

/* Writes the decimal digits of v so that they end before `end`, two at a time; returns where they begin. */
static inline char *print_digits(uint64_t v, char *end)
{
    static const char pairs[] = "00010203040506070809" "10111213141516171819" "20212223242526272829" "30313233343536373839" "40414243444546474849"
                                "50515253545556575859" "60616263646566676869" "70717273747576777879" "80818283848586878889" "90919293949596979899";
    for (; v >= 100; v /= 100)
        memcpy(end -= 2, &pairs[v % 100 * 2], 2);
    if (v >= 10)
        memcpy(end -= 2, &pairs[v * 2], 2);
    else
        *--end = (char)('0' + v);
    return end;
}

void hlo__attr_print_in(const struct hlo_attr *a, const char *dialect, bool hex, struct nf_buf *out);
bool hlo__conv_regular(const struct hlo_conv *c);
void hlo__print_conv_dims(const struct hlo_conv *c, struct nf_buf *out);
void hlo__print_dot_algorithm(const struct hlo_dot_algorithm *a, struct nf_buf *out);

void hlo__print_value(struct hlo_printer *p, const struct hlo_value *v);
/* Types are spelled once: between these two, hlo__print_type copies. */
void hlo__print_types_begin(struct hlo_printer *p);
void hlo__print_types_end(struct hlo_printer *p);
void hlo__print_type(struct hlo_printer *p, const struct hlo_type *t);
void hlo__print_attr(struct hlo_printer *p, const struct hlo_op *op, const struct hlo_attr *a);
void hlo__print_op(struct hlo_printer *p, const struct hlo_op *op);
/* " {a = 1}" of the dictionary and those slots that are set, not in `done` (a bit each) and not at their default; nothing if empty. */
void hlo__print_op_dict(struct hlo_printer *p, const struct hlo_op *op, uint32_t done, const char *before);
void hlo__print_region(struct hlo_printer *p, const struct hlo_region *r, bool label);   /* "{ ... }" */
/* The pretty form behind the mnemonic; false if this operation cannot be spelled that way (nothing printed). */
bool hlo__print_form(struct hlo_printer *p, const struct hlo_op *op);
int hlo__print_module_to(const struct hlo_module *m, enum hlo_style style, bool locations, struct print_key *key, struct nf_buf *out);

#endif
