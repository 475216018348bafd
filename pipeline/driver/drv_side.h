/* drv_side.h: files that a graph needs beside itself: NKI kernel artifacts.
 *
 * A graph with NKI kernels holds custom calls AwsNeuronCustomNativeKernel whose payload carries the absolute path of a kernel file as
 * it was at trace time. The compiler looks there, then at <cwd>/<last directory of it>/<file>. So the files travel as side files named
 * "<dir>/<file>", enter the key by content, and are put into the work directory in exactly that shape. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_SIDE_H
#define NEFFD_PIPELINE_DRIVER_DRV_SIDE_H

#include "pipeline/target.h"

/* "<dir>/<file>" of an absolute path: its last directory and its name. false: it has no directory. */
bool drv_side_name(struct nf_str path, char *ret_name, size_t size);
/* Whether a side file's name is <dir>/<file> and stays below the work directory. */
bool drv_side_name_good(const char *name);

/* The absolute paths that a graph's kernels name, each once, in order of appearance. Text and HLO protobuf alike: looked for in the
 * bytes, behind the name of the custom call. */
size_t drv_side_paths(struct nf_str graph, struct nf_arena *arena, const struct nf_str **ret_paths);

/* Copies the side files of a request into the work directory. NF_ESIDEFILE: the graph names a kernel file that is not among them. Nothing
 * outside the request is read: whoever sends a graph reads its files with its own rights. */
int drv_side_stage(const struct compile_input *input, struct nf_error *err);

#endif
