#include "runtime/neuron/neuron.h"

#include "base/arena.h"
#include "base/log.h"
#include "runtime/neff.h"
#include "runtime/neuron/nrt_load.h"

#include <pthread.h>
#include <unistd.h>

/* One runtime a process: nrt_init with the first device, nrt_close with the last. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the rest; held across init and close */
static unsigned users;
static _Atomic pid_t owner;                                 /* also read without it */

struct neuron_device {
    struct rt_device base;
    const struct nrt_api *api;
    uint64_t feature_mask;
    bool usable;                          /* false: compile only */
    struct nf_error why;
};

struct neuron_program {
    struct rt_program base;
    struct nrt_model *model;
    struct nf_arena *arena;
    pthread_mutex_t mutex;                /* the runtime executes one model once at a time; guards nothing else */
};

struct neuron_buffer {
    struct rt_buffer base;
    struct nrt_tensor *tensor;
};

static struct neuron_device *dev(struct rt_device *d) { return (struct neuron_device *)d; }

int rt_neuron_version(const char *library, struct nf_buf *ret_text, struct nf_error *err)
{
    const struct nrt_api *api;
    int r = nrt_api_get(library, &api, err);
    if (r == NF_OK)
        nf_buf_addf(ret_text, "%llu.%llu.%llu.%llu (git %.63s)", (unsigned long long)api->version.rt_major, (unsigned long long)api->version.rt_minor,
                    (unsigned long long)api->version.rt_patch, (unsigned long long)api->version.rt_maintenance, api->version.git_hash);
    return r;
}

static int start(const struct nrt_api *api, uint32_t index, struct nf_error *err)
{
    int r = NF_OK;
    uint32_t count = 0;
    nrt_status s;
    pthread_mutex_lock(&mutex);
    if (users > 0 && owner != getpid()) {
        r = nf_fail(err, NF_ENODEVICE, "the Neuron runtime was initialised before fork(); the child cannot use it");
        nf_error_hint(err, "open the device in the process that executes, after fork()");
    } else if ((s = api->get_visible_vnc_count(&count)) != 0) {
        r = nrt_fail(err, s, "cannot count the Neuron cores");
    } else if (index >= count) {
        r = nf_fail(err, NF_ENODEVICE, "there is no neuron:%u: %u cores are visible", index, count);
        nf_error_hint(err, "NEURON_RT_VISIBLE_CORES and NEURON_RT_NUM_CORES say which");
    } else if (users == 0 && (s = api->init(NRT_FRAMEWORK_NO_FW, "", "")) != 0) {
        r = nrt_fail(err, s, "cannot initialise the Neuron runtime");
    } else {
        users++;
        owner = getpid();
    }
    pthread_mutex_unlock(&mutex);
    return r;
}

static int device_open(const struct rt_device_config *config, struct rt_device **ret_device, struct nf_error *err)
{
    struct neuron_device *d = nf_alloc(sizeof(*d));
    d->base = (struct rt_device){&rt_neuron_device, config->index};
    d->feature_mask = config->feature_mask;
    int r = nrt_api_get(config->library, &d->api, &d->why);
    if (r == NF_OK)
        r = start(d->api, config->index, &d->why);
    d->usable = r == NF_OK;
    if (!d->usable && !config->compile_only) {
        if (err)
            *err = d->why;
        free(d);
        return r;
    }
    if (!d->usable)
        nf_log(NF_LOG_INFO, "neuron", "compile only", "why=%s", nf_log_quote(d->why.message));
    *ret_device = &d->base;
    return NF_OK;
}

static void device_close(struct rt_device *device)
{
    struct neuron_device *d = dev(device);
    if (d->usable) {
        pthread_mutex_lock(&mutex);
        /* A forked child's copy: the runtime is the parent's. */
        if (owner == getpid() && users > 0 && --users == 0)
            d->api->close();
        pthread_mutex_unlock(&mutex);
    }
    free(d);
}

static int usable(const struct neuron_device *d, struct nf_error *err)
{
    if (!d->usable) {
        if (err)
            *err = d->why;
        return nf_error_prefix(err, "compile only");
    }
    if (owner != getpid())
        return nf_fail(err, NF_ENODEVICE, "the Neuron device was opened before fork(); the child must open its own");
    return NF_OK;
}

/* ----------------------------------------------------------------------------------------------------------- program */

static enum nf_dtype dtype_of(int t)
{
    switch ((enum nrt_dtype)t) {
    case NRT_UINT64: return NF_DT_U64;
    case NRT_INT8: return NF_DT_S8;
    case NRT_UINT8: return NF_DT_U8;
    case NRT_INT16: return NF_DT_S16;
    case NRT_UINT16: return NF_DT_U16;
    case NRT_BFLOAT16: return NF_DT_BF16;
    case NRT_FLOAT16: return NF_DT_F16;
    case NRT_INT32: return NF_DT_S32;
    case NRT_UINT32: return NF_DT_U32;
    case NRT_FLOAT32:
    case NRT_FP32R: return NF_DT_F32;
    case NRT_INT64: return NF_DT_S64;
    case NRT_FP8_E3: return NF_DT_F8E3M4;
    case NRT_FP8_E4: return NF_DT_F8E4M3;
    case NRT_FP8_E5: return NF_DT_F8E5M2;
    case NRT_UNKNOWN: break;
    }
    return NF_DT_NONE;
}

static int describe(struct neuron_program *p, const struct nrt_tensor_info_array *info, struct nf_error *err)
{
    if (info->tensor_count > NEFF_TENSORS_MAX)
        return nf_fail(err, NF_EPROTOCOL, "libnrt reports %llu tensors", (unsigned long long)info->tensor_count);
    size_t n = (size_t)info->tensor_count;
    struct rt_tensor *in = NF_NEW_ARRAY(p->arena, struct rt_tensor, n + 1), *out = NF_NEW_ARRAY(p->arena, struct rt_tensor, n + 1);
    size_t n_in = 0, n_out = 0;
    for (size_t i = 0; i < n; i++) {
        const struct nrt_tensor_info *t = &info->tensor_array[i];
        struct rt_tensor *to = t->usage == NRT_USAGE_INPUT ? &in[n_in++] : &out[n_out++];
        enum nf_dtype dtype = dtype_of(t->dtype);
        if (t->ndim > RT_RANK_MAX || (t->usage != NRT_USAGE_INPUT && t->usage != NRT_USAGE_OUTPUT) || dtype == NF_DT_NONE)
            return nf_fail(err, NF_EUNSUPPORTED, "tensor %.200s of the program has a type or shape that is not known here", t->name);
        int64_t *dims = NF_NEW_ARRAY(p->arena, int64_t, t->ndim + 1);
        for (uint32_t k = 0; k < t->ndim; k++)
            dims[k] = t->shape[k];
        *to = (struct rt_tensor){.name = nf_arena_strn(p->arena, t->name, strnlen(t->name, sizeof(t->name))), .dtype = dtype, .rank = t->ndim, .dims = dims,
                                 .bytes = t->size, .alias = RT_NO_ALIAS};
    }
    p->base.inputs = in;
    p->base.outputs = out;
    p->base.input_count = n_in;
    p->base.output_count = n_out;
    return NF_OK;
}

static int program_load(struct rt_device *device, struct nf_str neff, const struct rt_load_options *options, struct rt_program **ret_program,
                        struct nf_error *err)
{
    struct neuron_device *d = dev(device);
    struct neff_header h;
    int r = neff_header_read(neff, neff.len, &h, err);
    if (r != NF_OK)
        return r;
    /* Before anything is sent: the runtime would refuse it late and with a number. */
    uint64_t missing = d->feature_mask ? h.feature_bits & ~d->feature_mask : 0;
    if (missing) {
        nf_fail(err, NF_EUNSUPPORTED, "the artifact needs features 0x%llx that the runtime lacks (it has 0x%llx)", (unsigned long long)missing,
                (unsigned long long)d->feature_mask);
        nf_error_hint(err, "update the runtime, or compile with a compiler that is not newer than it");
        return NF_EUNSUPPORTED;
    }
    if (options->lnc && h.lnc_size && options->lnc != h.lnc_size) {
        nf_fail(err, NF_EUNSUPPORTED, "the artifact is for a logical core size of %u, not %u", h.lnc_size, options->lnc);
        nf_error_hint(err, "NEURON_LOGICAL_NC_CONFIG and the compiler's lnc must agree");
        return NF_EUNSUPPORTED;
    }
    r = usable(d, err);
    if (r != NF_OK)
        return r;
    struct neuron_program *p = nf_alloc(sizeof(*p));
    struct nrt_tensor_info_array *info = NULL;
    p->base.device = device;
    p->arena = nf_arena_new(0);
    pthread_mutex_init(&p->mutex, NULL);
    nrt_status s = options->world_size > 1
                       ? d->api->load_collectives(neff.data, neff.len, (int32_t)device->index, -1, options->rank, options->world_size, &p->model)
                       : d->api->load(neff.data, neff.len, (int32_t)device->index, -1, &p->model);
    if (s != 0) {
        p->model = NULL;
        r = nrt_fail(err, s, "cannot load the artifact on neuron:%u", device->index);
    } else if ((s = d->api->get_model_tensor_info(p->model, &info)) != 0) {
        r = nrt_fail(err, s, "cannot ask for the program's tensors");
    } else {
        r = describe(p, info, err);
        d->api->free_model_tensor_info(info);
    }
    if (r != NF_OK) {
        device->ops->unload(&p->base);
        return r;
    }
    *ret_program = &p->base;
    return NF_OK;
}

static void program_unload(struct rt_program *program)
{
    struct neuron_program *p = (struct neuron_program *)program;
    if (p->model && owner == getpid())
        dev(program->device)->api->unload(p->model);
    pthread_mutex_destroy(&p->mutex);
    nf_arena_free(p->arena);
    free(p);
}

/* ----------------------------------------------------------------------------------------------------------- buffers */

static int buffer_new(struct rt_device *device, size_t bytes, struct rt_buffer **ret_buffer, struct nf_error *err)
{
    struct neuron_device *d = dev(device);
    int r = usable(d, err);
    if (r != NF_OK)
        return r;
    struct neuron_buffer *b = nf_alloc(sizeof(*b));
    b->base = (struct rt_buffer){.device = device, .bytes = bytes};
    nrt_status s = d->api->tensor_allocate(NRT_PLACEMENT_DEVICE, (int)device->index, bytes ? bytes : 1, NULL, &b->tensor);
    if (s != 0) {
        free(b);
        return nrt_fail(err, s, "cannot allocate %zu bytes on neuron:%u", bytes, device->index);
    }
    *ret_buffer = &b->base;
    return NF_OK;
}

static void buffer_free(struct rt_buffer *buffer)
{
    struct neuron_buffer *b = (struct neuron_buffer *)buffer;
    if (owner == getpid())
        dev(buffer->device)->api->tensor_free(&b->tensor);
    free(b);
}

static int in_range(const struct rt_buffer *b, size_t offset, size_t bytes, struct nf_error *err)
{
    return offset <= b->bytes && bytes <= b->bytes - offset ? NF_OK
                                                            : nf_fail(err, NF_EINVAL, "%zu bytes at %zu of a buffer of %zu", bytes, offset, b->bytes);
}

static int buffer_write(struct rt_buffer *buffer, size_t offset, const void *data, size_t bytes, struct nf_error *err)
{
    int r = in_range(buffer, offset, bytes, err);
    nrt_status s = r == NF_OK ? dev(buffer->device)->api->tensor_write(((struct neuron_buffer *)buffer)->tensor, data, offset, bytes) : 0;
    return r != NF_OK || s == 0 ? r : nrt_fail(err, s, "cannot write to device memory");
}

static int buffer_read(const struct rt_buffer *buffer, size_t offset, void *data, size_t bytes, struct nf_error *err)
{
    int r = in_range(buffer, offset, bytes, err);
    nrt_status s = r == NF_OK ? dev(buffer->device)->api->tensor_read(((const struct neuron_buffer *)buffer)->tensor, data, offset, bytes) : 0;
    return r != NF_OK || s == 0 ? r : nrt_fail(err, s, "cannot read device memory");
}

static int fill_set(const struct nrt_api *api, void *set, const struct rt_tensor *tensors, size_t count, struct rt_buffer *const *buffers, struct nf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (buffers[i]->bytes < tensors[i].bytes)
            return nf_fail(err, NF_EINVAL, "the buffer for %s has %zu bytes, %zu are needed", tensors[i].name, buffers[i]->bytes, tensors[i].bytes);
        nrt_status s = api->add_tensor_to_tensor_set(set, tensors[i].name, ((struct neuron_buffer *)buffers[i])->tensor);
        if (s != 0)
            return nrt_fail(err, s, "cannot hand over %s", tensors[i].name);
    }
    return NF_OK;
}

static int execute(struct rt_program *program, struct rt_stream *stream, struct rt_buffer *const *in, struct rt_buffer *const *out,
                   struct rt_event **ret_event, struct nf_error *err)
{
    struct neuron_program *p = (struct neuron_program *)program;
    struct neuron_device *d = dev(program->device);
    void *sets[2] = {NULL, NULL};
    (void)stream;
    int r = usable(d, err);
    nrt_status s = 0;
    for (int i = 0; i < 2 && r == NF_OK; i++)
        if ((s = d->api->allocate_tensor_set(&sets[i])) != 0)
            r = nrt_fail(err, s, "cannot make a tensor set");
    if (r == NF_OK)
        r = fill_set(d->api, sets[0], program->inputs, program->input_count, in, err);
    if (r == NF_OK)
        r = fill_set(d->api, sets[1], program->outputs, program->output_count, out, err);
    if (r == NF_OK) {
        pthread_mutex_lock(&p->mutex);
        s = d->api->execute(p->model, sets[0], sets[1]);
        pthread_mutex_unlock(&p->mutex);
        if (s != 0)
            r = nrt_fail(err, s, "the execution failed on neuron:%u", program->device->index);
    }
    for (int i = 0; i < 2; i++)
        if (sets[i])
            d->api->destroy_tensor_set(&sets[i]);
    if (r == NF_OK && ret_event)
        *ret_event = NULL;
    return r;
}

const struct rt_device_ops rt_neuron_device = {
    .name = "neuron", .open = device_open, .close = device_close, .load = program_load, .unload = program_unload, .buffer = buffer_new,
    .buffer_free = buffer_free, .write = buffer_write, .read = buffer_read, .execute = execute,
};
