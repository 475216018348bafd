/* neuron.h: the device for Neuron hardware: libnrt, found with dlopen in the process that executes. The daemon never opens it: nrt_init
 * takes cores away from whoever is meant to train on them. */
#ifndef NEFFD_RUNTIME_NEURON_NEURON_H
#define NEFFD_RUNTIME_NEURON_NEURON_H

#include "runtime/device.h"

extern const struct rt_device_ops rt_neuron_device;      /* "neuron", "neuron:3" is the fourth visible core */

/* Version of the library as it says itself, without initialising anything: "2.31.24.0 (git 1a2b3c)". NF_ENODEVICE: there is none. */
int rt_neuron_version(const char *library, struct nf_buf *ret_text, struct nf_error *err);

#endif
