/* side.h: files that a graph needs beside itself: NKI kernel artifacts.
 *
 * A graph with NKI kernels holds custom calls AwsNeuronCustomNativeKernel whose payload carries the absolute path of a kernel file as
 * it was at trace time. The compiler looks there, then at <cwd>/<last directory of it>/<file>. So the files travel as side files named
 * "<dir>/<file>", enter the key by content, and are put into the compiler's directory in exactly that shape; of the path nothing but
 * these two words enters the key. */
#ifndef NEFFD_PIPELINE_SIDE_H
#define NEFFD_PIPELINE_SIDE_H

#include "base/arena.h"

/* "<dir>/<file>" of an absolute path: its last directory and its name. false: it has no directory. */
bool pipe_side_name(struct nf_str path, char *ret_name, size_t size);
/* Whether a side file's name is <dir>/<file> and stays below the work directory. */
bool pipe_side_name_good(const char *name);

/* The absolute paths that a graph's kernels name, each once, in order of appearance. Text and HLO protobuf alike: looked for in the
 * bytes, behind the name of the custom call. */
size_t pipe_side_paths(struct nf_str graph, struct nf_arena *arena, const struct nf_str **ret_paths);

/* Whether a custom call of that name has kernel files. */
bool pipe_side_is_kernel(struct nf_str call_target);
/* A payload with each path cut to "/<dir>/<file>"; the very same view when it has none. */
struct nf_str pipe_side_strip_payload(struct nf_str payload, struct nf_arena *arena);
/* The graph with each such path cut to "/<dir>/<file>"; the graph itself when it has none. */
struct nf_str pipe_side_strip(struct nf_str graph, struct nf_arena *arena);

#endif
