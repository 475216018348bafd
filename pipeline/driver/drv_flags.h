/* drv_flags.h: the command line of `neuronx-cc compile`, both ways.
 *
 * An option of a request is NAME=VALUE. A flag that is not known by name must come out at the compiler as it went in, so the value of
 * such an option may hold more than one value:
 *
 *     --foo=bar              foo = "bar"
 *     --foo                  foo = ""
 *     --foo bar baz          foo = "\x1e" "\x1f" "bar" "\x1f" "baz"
 *     --foo= --foo=a         foo = "\x1e=" "\x1e=a"            (all of one name together, in their order)
 *
 * raw value = { "\x1e" [ "=" text ] { "\x1f" token } }, used where the plain forms do not say it. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_FLAGS_H
#define NEFFD_PIPELINE_DRIVER_DRV_FLAGS_H

#include "pipeline/target.h"

/* What an invocation `neuronx-cc compile ...` says. Everything points into argv or the arena. */
struct drv_call {
    const char *input;                 /* the graph's file; NULL: none given */
    const char *output;                /* NULL: file.neff in the working directory */
    const char *target;                /* NULL: not given */
    const char *logfile;               /* NULL: log-neuron-cc.txt */
    const char *verbose;
    const char *workdir;
    const struct pipe_option *options; /* those that count, one a name */
    size_t option_count;
    const char *strange;               /* why this call is better left to the compiler itself; NULL: understood */
};

/* argv without the program's name; "compile" may stand behind flags (old compilers took --target first). NF_EUSAGE: another command
 * than compile, or none. */
int drv_call_parse(int argc, char *const *argv, struct nf_arena *arena, struct drv_call *ret_call, struct nf_error *err);

/* NEURON_CC_FLAGS as a shell would split it: quotes, backslashes, empty words. Flags of the wrapper (--cache_dir=, --no_cache,
 * --retry_failed_compilation, --log_level=, --compile_workdir=) are taken out; flags that are glued together are an error that says so. */
struct drv_wrapper {
    const char *cache_dir;             /* NULL: not given */
    bool no_cache, retry_failed;
    const char *log_level, *compile_workdir;
};
int drv_cc_flags_split(struct nf_str text, struct nf_arena *arena, char ***ret_argv, size_t *ret_argc, struct drv_wrapper *ret_wrapper,
                       struct nf_error *err);

/* target_ops.options of the Neuron targets. */
int drv_options(const struct target_id *id, const struct pipe_option *given, size_t given_count, struct nf_arena *arena,
                const struct pipe_option **ret_options, size_t *ret_count, struct nf_error *err);

/* before, then the flags that stand for effective options, then after: a NULL-terminated array in the arena. Left out are env:NAME and what
 * this compiler does anyway, so that an older one does not meet flags that it has not heard of. */
const char **drv_arguments(const struct target_id *id, const struct pipe_option *effective, size_t count, const char *const *before,
                           const char *const *after, struct nf_arena *arena);

/* What an option comes to: as given, else as the compiler has it; NULL: not known. */
const char *drv_option_value(const struct target_id *id, const struct pipe_option *effective, size_t count, const char *name, struct nf_arena *arena);

/* Variables that change what the compiler writes: they travel as options "env:NAME". */
bool drv_env_counts(struct nf_str name);
const char *const *drv_env_names(void);    /* ends with NULL */

#endif
