/* nrt.h: what libnrt promises, written down from its documentation (SDK headers of NRT 2.0): the types that cross the border. No header
 * of it is needed to build, no library to link: nrt_api.def lists the functions, nrt_load.c finds them with dlsym. */
#ifndef NEFFD_RUNTIME_NEURON_NRT_H
#define NEFFD_RUNTIME_NEURON_NRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NRT_MAJOR 2

typedef int nrt_status;                 /* NRT_STATUS, an enum there */
struct nrt_model;
struct nrt_tensor;

enum { NRT_FRAMEWORK_NO_FW = 1 };
enum { NRT_PLACEMENT_DEVICE = 0 };
enum { NRT_USAGE_INPUT = 0, NRT_USAGE_OUTPUT = 1 };
enum nrt_dtype {
    NRT_UNKNOWN = 0, NRT_UINT64, NRT_INT8, NRT_UINT8, NRT_INT16, NRT_UINT16, NRT_BFLOAT16, NRT_FLOAT16, NRT_INT32, NRT_UINT32,
    NRT_FLOAT32, NRT_FP32R, NRT_INT64, NRT_FP8_E3, NRT_FP8_E4, NRT_FP8_E5,
};

struct nrt_tensor_info {
    char name[256];
    int usage;
    size_t size;
    int dtype;
    uint32_t *shape;
    uint32_t ndim;
};

struct nrt_tensor_info_array {
    uint64_t tensor_count;
    struct nrt_tensor_info tensor_array[];
};

struct nrt_version {
    uint64_t rt_major, rt_minor, rt_patch, rt_maintenance;
    char rt_detail[128];
    char git_hash[64];
};

#endif
