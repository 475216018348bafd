/* drv_side.h: side files into the compiler's directory (pipeline/side.h says what they are). */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_SIDE_H
#define NEFFD_PIPELINE_DRIVER_DRV_SIDE_H

#include "pipeline/side.h"
#include "pipeline/target.h"

/* Copies the side files of a request into dir, the compiler's working directory. NF_ESIDEFILE: the graph names a kernel file that is not among them. Nothing
 * outside the request is read: whoever sends a graph reads its files with its own rights. */
int drv_side_stage(const struct compile_input *input, const char *dir, struct nf_error *err);

#endif
