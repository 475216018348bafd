/* device.h: what runs an artifact, whatever it is made of (DESIGN §6).
 *
 *     device    opened once per process, named "cpu", "neuron:0", "evaluator"
 *     program   a loaded artifact; any number of executions at once, from any threads
 *     buffer    memory that an execution reads or writes: the device's own, or (where the device can) the caller's in place
 *     stream    executions of one stream run in the order in which they were given
 *     event     the end of one execution
 *
 * Registered by each program's main with rt_device_register(), so a device may live in a library that this one does not
 * know (pipeline/hlo/evaluator_device.c). A device's structures start with those below: `struct x_program { struct
 * rt_program base; ... }`.
 *
 * Functions return 0 or a negative code. Destructors take NULL. After fork() the child must open devices of its own, except
 * where a device's README says that it survives. */
#ifndef NEFFD_RUNTIME_DEVICE_H
#define NEFFD_RUNTIME_DEVICE_H

#include "runtime/tensor.h"

struct rt_device_ops;

struct rt_device_config {
    uint32_t index;           /* of "neuron:3" */
    uint32_t threads;         /* cpu: 0: as the affinity mask allows */
    const char *library;      /* neuron: path of libnrt; NULL and "": the usual places */
    uint64_t feature_mask;    /* neuron: NEFF features that its runtime has; 0: not known, it says so itself */
    bool compile_only;        /* a device that cannot be initialised opens all the same; nothing can be loaded on it */
};

struct rt_load_options {
    uint32_t threads;         /* 0: the device's */
    uint32_t rank, world_size;/* of the communicator; world_size 0 reads as 1 */
    const char *group;        /* name of the communicator: programs of one process with one name meet; NULL: none */
    uint32_t lnc;             /* logical NeuronCore size; 0: the artifact's */
    int file_fd;              /* the file that `neff` is a mapping of, at offset 0, so that code can be mapped executable; -1: none */
    uint32_t owner_uid;       /* of that file; code of anybody but root, oneself and trusted_uid is refused */
    uint32_t trusted_uid;     /* the daemon's; (uint32_t)-1: none */
    bool profile;             /* collect times by step, where the device can */
    /* What interpreter.print says, whole lines, from threads that execute; several executions may call it at once. NULL: nobody reads. */
    void (*print)(void *user, struct nf_str text);
    void *print_user;
};
#define RT_LOAD_OPTIONS_INIT ((struct rt_load_options){.file_fd = -1, .owner_uid = (uint32_t)-1, .trusted_uid = (uint32_t)-1})

struct rt_device {
    const struct rt_device_ops *ops;
    uint32_t index;
};

struct rt_program {
    struct rt_device *device;
    size_t input_count, output_count;
    const struct rt_tensor *inputs, *outputs;
};

struct rt_buffer {
    struct rt_device *device;
    size_t bytes;
    void *host;               /* where the host sees the memory; NULL: it cannot, use read and write */
    bool owned;               /* freed with the buffer */
};

struct rt_stream {
    struct rt_device *device;
};

struct rt_event {
    struct rt_device *device;
};

struct rt_device_ops {
    const char *name;                                             /* "cpu" */
    int (*open)(const struct rt_device_config *, struct rt_device **ret_device, struct nf_error *);
    void (*close)(struct rt_device *);                            /* after all programs, buffers, streams and events */

    /* neff is borrowed until unload. NF_EUNSUPPORTED: not for this device or this machine; NF_ECORRUPT: damaged. */
    int (*load)(struct rt_device *, struct nf_str neff, const struct rt_load_options *, struct rt_program **, struct nf_error *);
    void (*unload)(struct rt_program *);                          /* not while one of its executions runs */

    int (*buffer)(struct rt_device *, size_t bytes, struct rt_buffer **, struct nf_error *);       /* zeroed, 64-byte aligned */
    /* The caller's memory as a buffer, in place; NULL op: the device cannot, rt_execute_host copies. */
    int (*wrap)(struct rt_device *, void *host, size_t bytes, struct rt_buffer **, struct nf_error *);
    void (*buffer_free)(struct rt_buffer *);
    int (*write)(struct rt_buffer *, size_t offset, const void *data, size_t bytes, struct nf_error *);
    int (*read)(const struct rt_buffer *, size_t offset, void *data, size_t bytes, struct nf_error *);

    int (*stream)(struct rt_device *, struct rt_stream **, struct nf_error *);   /* NULL op: execute takes only a NULL stream */
    void (*stream_free)(struct rt_stream *);

    /* One buffer a tensor, at least as large as its `bytes`. An output may be the same buffer as the input that it aliases;
     * else no two overlap. stream NULL: runs to its end inside the call. ret_event may be NULL (nobody will wait); *ret_event
     * may be set to NULL (it has ended already). */
    int (*execute)(struct rt_program *, struct rt_stream *, struct rt_buffer *const *in, struct rt_buffer *const *out,
                   struct rt_event **ret_event, struct nf_error *);
    /* Optional shortest way for devices that work on host memory: what rt_execute_host promises, without buffers. */
    int (*execute_host)(struct rt_program *, const void *const *in, void *const *out, struct nf_error *);
    /* NF_ETIMEOUT; else the outcome of the execution. timeout_ns < 0: for ever. */
    int (*wait)(struct rt_event *, int64_t timeout_ns, struct nf_error *);
    void (*event_free)(struct rt_event *);
    /* Optional: a report of the executions since load, for people ("" when it was not asked for). */
    int (*profile)(struct rt_program *, struct nf_buf *text, struct nf_error *);
};

/* ops is borrowed for ever. Before any thread is started. A second one of the same name replaces the first. */
void rt_device_register(const struct rt_device_ops *ops);
const struct rt_device_ops *rt_device_find(struct nf_str name);   /* without ":index"; NULL: not registered */
size_t rt_device_names(const char **ret_names, size_t max);

/* "cpu", "neuron:1". NF_ENODEVICE names what there is. */
int rt_device_open(const char *name, const struct rt_device_config *config, struct rt_device **ret_device, struct nf_error *err);
void rt_device_close(struct rt_device *device);

int rt_program_load(struct rt_device *device, struct nf_str neff, const struct rt_load_options *options,
                    struct rt_program **ret_program, struct nf_error *err);
void rt_program_unload(struct rt_program *program);

/* Runs to the end on host memory: in place where the device can, else through buffers of its own. An output that aliases
 * an input may have the same address as it; other overlaps are an error of the caller. */
int rt_execute_host(struct rt_program *program, const void *const *inputs, void *const *outputs, struct nf_error *err);
int rt_event_wait(struct rt_event *event, int64_t timeout_ns, struct nf_error *err);  /* takes NULL: ended already */
void rt_event_free(struct rt_event *event);
void rt_buffer_free(struct rt_buffer *buffer);

#endif
