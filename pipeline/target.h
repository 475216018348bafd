/* target.h: what a compiler is to the rest of neffd: who it is, which options it takes, how it turns a graph into a NEFF.
 *
 * One row per target, registered by each program's main. compile() runs in a worker process (or in neffcc), on one thread,
 * in a private work directory; everything it allocates goes to the arena and dies with the compile. */
#ifndef NEFFD_PIPELINE_TARGET_H
#define NEFFD_PIPELINE_TARGET_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/str.h"

struct cfg;
struct pipe_graph;            /* pipeline.h */

/* An option as the caller gave it: name without dashes, order kept, the right-most of a name wins. */
struct pipe_option {
    const char *name;
    struct nf_str value;
};

/* A file that the graph needs beside itself (NKI kernel artifacts): name is "<dir>/<file>". */
struct pipe_side_file {
    const char *name;
    struct nf_digest sha256;
    uint64_t size;
    const char *path;         /* where its bytes are now, on this host */
};

/* The compiler behind a target; all of it enters the key. Found once per binary. */
struct target_id {
    char target[16];
    char compiler[128];       /* "neffd-cpu 0.1.0", "neuronx-cc 2.21.1234.0+abcd" */
    char version[96];
    char isa[160];            /* cpu: the instruction set code is made for, "" where none can be; "" elsewhere */
    char remark[256];         /* what it does worse than it could, and why; "": nothing. Not in the key */
    char path[512];           /* of the binary; "": built in. Not in the key */
    int64_t mtime_ns;
    uint64_t size;
};

struct compile_input {
    const struct pipe_graph *graph;      /* verified, canonical */
    const char *target;
    const struct target_id *id;
    const struct pipe_option *options;   /* effective: as target_ops.options gave them */
    size_t option_count;
    const struct pipe_side_file *side_files;
    size_t side_file_count;
    const char *work_dir;                /* private, empty, on a local file system; removed by the caller */
    int64_t time_limit_ns;               /* 0: none */
    uint64_t memory_limit_bytes;         /* 0: none */
    const struct cfg *cfg;
};

/* What comes out. Callbacks run on the thread of compile(). */
struct compile_sink {
    void *user;
    void (*stage)(void *user, int stage, const char *detail);    /* a value of neffd.v1.Stage */
    void (*progress)(void *user, double fraction);               /* < 0: not known, but alive */
    /* level as enum nf_log_level; line is valid UTF-8 without its newline, at most 4 KiB */
    void (*log)(void *user, int level, const char *source, struct nf_str line);
    /* A finished file in the work directory: kind "neff" once; "log", "stablehlo", "arguments", "metadata" as they come. */
    void (*artifact)(void *user, const char *kind, const char *path);
    bool (*cancelled)(void *user);                               /* asked at least every 200 ms; may be NULL */
    uint64_t peak_rss_bytes;             /* filled by compile: of children; 0: nothing but this process */
};

struct target_ops {
    const char *name;
    /* Cheap after the first call of a process. NF_ENOCOMPILER when there is none. */
    int (*identify)(const struct cfg *cfg, struct target_id *ret_id, struct nf_error *err);
    /* The options that count, normalised: aliases resolved, of a repeated name the right-most, defaults as the compiler has
     * them, what does not change the result (verbosity, log file) left out. Two lists that mean the same come out equal, in a
     * fixed order. NF_EINVAL or NF_EUNSUPPORTED for what the target refuses. Memory from the arena. */
    int (*options)(const struct target_id *id, const struct pipe_option *given, size_t given_count, struct nf_arena *arena,
                   const struct pipe_option **ret_options, size_t *ret_count, struct nf_error *err);
    int (*compile)(const struct compile_input *input, struct compile_sink *sink, struct nf_error *err);
};

/* ops is borrowed for ever; before any thread is started. A second one of the same name replaces the first. */
void target_register(const struct target_ops *ops);
const struct target_ops *target_find(struct nf_str name);         /* NULL: not registered */
const struct target_ops *target_at(size_t i);                     /* NULL: past the last */

/* pipeline/target_cpu.c: built in. The artifact holds a plan and machine code (runtime/cpu/cpu.h), or, where an operation has no
 * native form, the canonical print of the module in the member TARGET_CPU_MODULE, which the evaluator runs
 * (pipeline/hlo/evaluator_device.c). */
#define TARGET_CPU_MODULE "neffd/module.1.mlir"
/* Beside it, for messages alone: for each operation of the module, in order of hlo_walk, a line with its place in what the caller gave. */
#define TARGET_CPU_PLACES "neffd/places.1.txt"
#define TARGET_CPU_COMPILER "neffd-cpu " NEFFD_VERSION
extern const struct target_ops target_cpu;
/* The options of `cpu`, for every form of it. */
int target_cpu_options(const struct target_id *id, const struct pipe_option *given, size_t given_count, struct nf_arena *arena,
                       const struct pipe_option **ret_options, size_t *ret_count, struct nf_error *err);
/* Writes what every artifact for `cpu` says: target, compiler, tensors, aliases. The caller adds members and finishes. NF_EUNSUPPORTED
 * for an entry function whose arguments or results are no static tensors. */
struct neff_writer;
int target_cpu_describe(const struct compile_input *input, struct neff_writer **ret_writer, struct nf_error *err);
/* Finishes into `<work_dir>/artifact.neff` and gives that to the sink. */
int target_cpu_finish(const struct compile_input *input, struct neff_writer *writer, struct compile_sink *sink, struct nf_error *err);

/* Helpers for sinks: take NULL callbacks. */
void sink_stage(struct compile_sink *s, int stage, const char *detail);
void sink_progress(struct compile_sink *s, double fraction);
void sink_log(struct compile_sink *s, int level, const char *source, struct nf_str line);
void sink_artifact(struct compile_sink *s, const char *kind, const char *path);
bool sink_cancelled(struct compile_sink *s);

#endif
