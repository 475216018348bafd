/* pipeline.h: the way from bytes to an artifact, as worker processes, neffcc and neffopt walk it.
 *
 *     pipe_import      bytes -> verified IR in canonical form, and its print
 *     pipe_components  what the canonical key is made of (DESIGN §3)
 *     pipe_compile     canonical print -> artifact, by a target
 *
 * Everything is a function of its arguments: no global state, no environment. One arena, one thread. */
#ifndef NEFFD_PIPELINE_PIPELINE_H
#define NEFFD_PIPELINE_PIPELINE_H

#include "pipeline/target.h"

/* Values of neffd.v1.InputKind. */
enum pipe_kind {
    PIPE_KIND_UNKNOWN = 0,
    PIPE_KIND_STABLEHLO_TEXT,
    PIPE_KIND_STABLEHLO_BYTECODE,
    PIPE_KIND_HLO_PROTO,
    PIPE_KIND_FX_GRAPH,
    PIPE_KIND_MAX,
};
const char *pipe_kind_name(enum pipe_kind kind);                  /* "stablehlo text", ... */
/* From the first bytes: "ML\xefR" bytecode; a protobuf whose first field is a HloModuleProto's name or an fx Graph's; else text when
 * it looks like text. PIPE_KIND_UNKNOWN for the rest, empty input included. */
enum pipe_kind pipe_kind_sniff(struct nf_str bytes);

struct hlo_module;
struct hlo_limits;

/* Bytes of any kind to IR, not yet verified. The bytes must outlive the arena's module. kind UNKNOWN: sniffed. */
int pipe_read(struct nf_str bytes, enum pipe_kind kind, const struct hlo_limits *limits, struct nf_arena *arena,
              struct hlo_module **ret_module, struct nf_error *err);

struct pipe_graph {
    enum pipe_kind kind;                 /* of what was imported */
    struct hlo_module *module;           /* in canonical form; NULL: of a kind that is keyed by its bytes and compiled outside only */
    struct nf_str canonical;             /* its print: what artifacts are made from, and what the key covers */
    struct nf_digest key;                /* of the IR alone: hlo_key, or without a module over the bytes */
    struct nf_str original;              /* the bytes that came in: compilers of HLO protobuf take these */
    struct nf_arena *arena;
    const struct nf_error *unread;       /* why there is no module; NULL: there is one */
};

/* bytes, and file_name for locations in errors ("" none), are borrowed as long as the arena lives. kind UNKNOWN: sniffed. limits
 * NULL: the defaults. NF_EGRAPH, NF_EUNSUPPORTED, NF_ELIMIT with the place in err->location. */
int pipe_import(struct nf_str bytes, enum pipe_kind kind, const char *file_name, const struct hlo_limits *limits,
                struct nf_arena *arena, struct pipe_graph **ret_graph, struct nf_error *err);

/* Version of what artifacts hold; goes up when an old one must not be served any more. */
#define PIPE_ARTIFACT_FORMAT "1"

/* One component of a request: the words, names and values of cache/key.h (which lists them). location: of an op line. */
struct pipe_component {
    const char *component;
    const char *name;
    struct nf_str value;
    struct nf_str location;
};

/* Everything that the key covers and that explain compares, op lines last. base_key not empty: it stands for the IR (the caller
 * has scoped it). The toolchain's id is the compiler's text with, where there is one, its instruction set. */
void pipe_components(const struct pipe_graph *graph, const struct target_id *id, const struct pipe_option *effective_options,
                     size_t option_count, const struct pipe_side_file *side_files, size_t side_file_count, struct nf_str cache_namespace,
                     struct nf_str base_key, struct nf_arena *arena, const struct pipe_component **ret_components, size_t *ret_count);
/* The value of the component `compiler`: what a toolchain list stores as id. */
void pipe_toolchain_id(const struct target_id *id, struct nf_buf *out);

/* target_find, the stages, and a check of what came out: a NEFF that neff_check accepts for the target. On success the sink has
 * been given one "neff". err->stage and err->exit_code are filled. */
int pipe_compile(const struct compile_input *input, struct compile_sink *sink, struct nf_error *err);

#endif
