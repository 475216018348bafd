/* hlo.h: what the rest of neffd calls: read, check, print, canonical form and key material of StableHLO programs.
 *
 * All functions are bounded by struct hlo_limits and by the arena's own limit; hostile input gives an error, never a crash. */
#ifndef NEFFD_PIPELINE_HLO_HLO_H
#define NEFFD_PIPELINE_HLO_HLO_H

#include "pipeline/hlo/ir.h"

struct hlo_limits {
    size_t input_bytes;      /* of text or bytecode */
    uint32_t depth;          /* nesting of regions, attributes, types, locations */
    uint32_t ops;            /* operations in all */
    uint64_t literal_bytes;  /* of one constant, decoded */
    uint64_t literals_bytes; /* of all constants, decoded */
    bool are_options;        /* depth, ops, literal_bytes and the arena's limit are the caller's options max_depth, max_ops, max_literal and
                                max_graph_memory: an error of one of them names it in its hint */
};
/* Behind the failure of one of these limits; returns NF_ELIMIT. */
int hlo_limit_hint(const struct hlo_limits *limits, const char *option, struct nf_error *err);
/* 4 GiB - 1 of input, depth 256, 20 M operations, 8 GiB literals. */
extern const struct hlo_limits hlo_limits_default;

/* MLIR text. The text is borrowed: constants may be views of it and messages count its lines, so it must outlive the module.
 * *err has location "line:column". NF_EGRAPH, NF_ELIMIT, NF_EUNSUPPORTED. limits NULL: the default. */
int hlo_parse(struct nf_str text, const struct hlo_limits *limits, struct nf_arena *arena, struct hlo_module **ret_module,
              struct nf_error *err);
/* The same for a part of a larger file (tests): messages count from first_line; unregistered operations in generic form are
 * always kept, pretty forms only of known ones. */
int hlo_parse_section(struct nf_str text, uint32_t first_line, const struct hlo_limits *limits, struct nf_arena *arena,
                      struct hlo_module **ret_module, struct nf_error *err);

/* One attribute by its spelling, `{uplo = 76 : ui8}`; no aliases. The text must live as long as the module. */
int hlo_parse_attr(struct hlo_module *m, struct nf_str text, const struct hlo_attr **ret_attr, struct nf_error *err);

/* The constraints of the StableHLO specification, for every operation; the first violation. NF_EGRAPH. */
int hlo_verify(struct hlo_module *m, struct nf_error *err);

enum hlo_style {
    HLO_PRETTY,          /* as StableHLO's own tools print */
    HLO_GENERIC,         /* every operation in MLIR's generic form */
    HLO_CANONICAL,       /* deterministic and complete (constants in full, hex); meant for the output of hlo_canonicalise */
};
struct hlo_print_options {
    enum hlo_style style;
    bool locations;      /* loc(...) behind operations */
};
int hlo_print(const struct hlo_module *m, enum hlo_style style, struct nf_buf *out);
int hlo_print_with(const struct hlo_module *m, const struct hlo_print_options *options, struct nf_buf *out);

/* Canonical form (in place): what cannot change the result is removed or made uniform, and nothing else; see README.md,
 * "canonical form". Afterwards modules that mean the same print the same. */
int hlo_canonicalise(struct hlo_module *m, struct nf_error *err);
/* Prints the canonical form; hlo_canonicalise must have run. It parses back to a module with the same canonical print. The key, when
 * it is wanted (else NULL), is that of hlo_key: whoever needs both prints once. */
int hlo_print_canonical(const struct hlo_module *m, struct nf_buf *out, struct nf_digest *ret_key);
/* SHA-256 over the canonical form (large constants by digest), format version included; without the print. */
int hlo_key(struct hlo_module *m, struct nf_digest *ret_key, struct nf_error *err);

/* NF_EUNSUPPORTED names the first operation, or custom call, that the evaluator has no function for, with its place: such a program need
 * not be tried. */
int hlo_evaluable(const struct hlo_module *m, struct nf_error *err);
/* A custom call that gives back what it takes: marks of partitioners, layouts, placements. */
bool hlo_call_passes(const struct hlo_op *op);

/* What a cache key is explained with. Everything lives in the module's arena. */
struct hlo_value_component {
    struct nf_str text;              /* input, output: type and the attributes that matter; constant: type */
    struct nf_digest digest;         /* constant: of its bytes; else of text */
    struct nf_str literal;           /* constant: "dense<0.5>" when that is short, else empty */
};
struct hlo_op_component {
    struct nf_str line;              /* the operation without constants' values: "%3 = stablehlo.add %1, %2 : tensor<4xf32>" */
    struct nf_str location;          /* "file.py:12:3", line:column of the input, or empty */
};
struct hlo_components {
    size_t num_inputs, num_outputs, num_constants, num_ops;
    struct hlo_value_component *inputs, *outputs, *constants;
    struct hlo_op_component *ops;
};
/* hlo_canonicalise must have run. */
void hlo_components(struct hlo_module *m, struct hlo_components *ret_components);
/* Over the operations without results and types: equal when two programs differ in types and constants alone. */
struct nf_digest hlo_structure(struct hlo_module *m);

#endif
