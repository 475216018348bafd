/* platform.h: the targets' names and which one this host means (DESIGN §6).
 *
 * Default target: what is asked for, then NEURON_PLATFORM_TARGET_OVERRIDE, then the instance's own (the DMI product name up to
 * its first dot), then `cpu`. A host that has Neuron devices but no compiler has no default: an error, not `cpu`. */
#ifndef NEFFD_RUNTIME_PLATFORM_H
#define NEFFD_RUNTIME_PLATFORM_H

#include "base/str.h"

#define RT_TARGET_MAX 16      /* bytes of a target's name with its terminator */

bool rt_target_known(struct nf_str name);                         /* cpu trn1 trn1n trn2 trn3 inf2 */
bool rt_target_is_neuron(struct nf_str name);
const char *rt_target_names(void);                                /* "cpu, trn1, ..." for messages */

/* Where to look; NULL fields mean the real places. Tests give their own. */
struct rt_platform {
    const char *override;     /* value of NEURON_PLATFORM_TARGET_OVERRIDE or of the option; "" and NULL: not set */
    const char *dmi_path;     /* /sys/devices/virtual/dmi/id/product_name */
    const char *device_path;  /* /dev/neuron0 */
    const char *compiler;     /* path or name of the external compiler; NULL: neuronx-cc on PATH */
};

/* The target that `requested` ("" or NULL: none) means here. NF_EINVAL for an unknown name, NF_ENOCOMPILER as said above. */
int rt_target_resolve(const char *requested, const struct rt_platform *platform, char ret_target[RT_TARGET_MAX], struct nf_error *err);

/* First executable `name` on `path` ($PATH syntax) that is not the file (device, inode) of `not_this` (NULL: any). A name with
 * a slash is taken as it is. NF_ENOTFOUND. */
int rt_find_program(const char *name, const char *path, const char *not_this, struct nf_buf *ret_path);

#endif
