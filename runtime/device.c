#include "runtime/device.h"

#define DEVICES_MAX 16

/* Written before any thread is started (rt_device_register), read afterwards. */
static const struct rt_device_ops *devices[DEVICES_MAX];
static size_t device_count;

void rt_device_register(const struct rt_device_ops *ops)
{
    for (size_t i = 0; i < device_count; i++) {
        if (strcmp(devices[i]->name, ops->name) == 0) {
            devices[i] = ops;
            return;
        }
    }
    if (device_count < DEVICES_MAX)
        devices[device_count++] = ops;
}

const struct rt_device_ops *rt_device_find(struct nf_str name)
{
    for (size_t i = 0; i < device_count; i++)
        if (nf_str_eq_c(name, devices[i]->name))
            return devices[i];
    return NULL;
}

size_t rt_device_names(const char **ret_names, size_t max)
{
    size_t n = NF_MIN(device_count, max);
    for (size_t i = 0; i < n; i++)
        ret_names[i] = devices[i]->name;
    return device_count;
}

int rt_device_open(const char *name, const struct rt_device_config *config, struct rt_device **ret_device, struct nf_error *err)
{
    struct nf_str rest = nf_str_c(name);
    struct nf_str kind = nf_str_cut(&rest, ':');
    struct rt_device_config own = config ? *config : (struct rt_device_config){0};
    if (rest.len > 0) {
        uint64_t index;
        if (nf_str_to_u64(rest, &index) != NF_OK || index > UINT32_MAX)
            return nf_fail(err, NF_EINVAL, "device %s: the part after the colon is not a number", name);
        own.index = (uint32_t)index;
    }
    const struct rt_device_ops *ops = rt_device_find(kind);
    if (!ops) {
        nf_fail(err, NF_ENODEVICE, "no device %.*s in this program", (int)NF_MIN(kind.len, 64), kind.data ? kind.data : "");
        struct nf_buf all = NF_BUF_INIT;
        for (size_t i = 0; i < device_count; i++)
            nf_buf_addf(&all, "%s%s", i ? ", " : "", devices[i]->name);
        if (all.len > 0)
            nf_error_hint(err, "devices here: %s", all.data);
        nf_buf_done(&all);
        return NF_ENODEVICE;
    }
    return ops->open(&own, ret_device, err);
}

void rt_device_close(struct rt_device *device)
{
    if (device)
        device->ops->close(device);
}

int rt_program_load(struct rt_device *device, struct nf_str neff, const struct rt_load_options *options,
                    struct rt_program **ret_program, struct nf_error *err)
{
    struct rt_load_options own = options ? *options : RT_LOAD_OPTIONS_INIT;
    if (own.world_size == 0)
        own.world_size = 1;
    if (own.rank >= own.world_size)
        return nf_fail(err, NF_EINVAL, "rank %u of a group of %u", own.rank, own.world_size);
    return device->ops->load(device, neff, &own, ret_program, err);
}

void rt_program_unload(struct rt_program *program)
{
    if (program)
        program->device->ops->unload(program);
}

void rt_buffer_free(struct rt_buffer *buffer)
{
    if (buffer)
        buffer->device->ops->buffer_free(buffer);
}

void rt_event_free(struct rt_event *event)
{
    if (event)
        event->device->ops->event_free(event);
}

int rt_event_wait(struct rt_event *event, int64_t timeout_ns, struct nf_error *err)
{
    return event ? event->device->ops->wait(event, timeout_ns, err) : NF_OK;
}

/* The general way: a buffer a tensor. An output that shares its address with an input shares its buffer. */
static int execute_with_buffers(struct rt_program *program, const void *const *inputs, void *const *outputs, struct nf_error *err)
{
    const struct rt_device_ops *ops = program->device->ops;
    size_t n_in = program->input_count, n_out = program->output_count;
    struct rt_buffer **buffers = nf_alloc_array(n_in + n_out + 1, sizeof(*buffers));
    bool *shared = nf_alloc_array(n_out + 1, sizeof(*shared));
    struct rt_event *event = NULL;
    int r = NF_OK;

    for (size_t i = 0; i < n_in && r == NF_OK; i++) {
        size_t bytes = program->inputs[i].bytes;
        if (ops->wrap) {
            /* Aliased inputs may be written, as the caller asked by giving one address twice. */
            void *p;
            memcpy(&p, &inputs[i], sizeof(p));
            r = ops->wrap(program->device, p, bytes, &buffers[i], err);
            continue;
        }
        r = ops->buffer(program->device, bytes, &buffers[i], err);
        if (r == NF_OK && bytes > 0)
            r = ops->write(buffers[i], 0, inputs[i], bytes, err);
    }
    for (size_t i = 0; i < n_out && r == NF_OK; i++) {
        int alias = program->outputs[i].alias;
        size_t bytes = program->outputs[i].bytes;
        if (alias >= 0 && (size_t)alias < n_in && outputs[i] == inputs[alias]) {
            buffers[n_in + i] = buffers[alias];
            shared[i] = true;
        } else if (ops->wrap) {
            r = ops->wrap(program->device, outputs[i], bytes, &buffers[n_in + i], err);
        } else {
            r = ops->buffer(program->device, bytes, &buffers[n_in + i], err);
        }
    }
    if (r == NF_OK)
        r = ops->execute(program, NULL, buffers, buffers + n_in, &event, err);
    if (r == NF_OK)
        r = rt_event_wait(event, -1, err);
    if (!ops->wrap)
        for (size_t i = 0; i < n_out && r == NF_OK; i++)
            if (program->outputs[i].bytes > 0)
                r = ops->read(buffers[n_in + i], 0, outputs[i], program->outputs[i].bytes, err);
    rt_event_free(event);
    for (size_t i = 0; i < n_out; i++)
        if (!shared[i])
            rt_buffer_free(buffers[n_in + i]);
    for (size_t i = 0; i < n_in; i++)
        rt_buffer_free(buffers[i]);
    free(shared);
    free(buffers);
    return r;
}

int rt_execute_host(struct rt_program *program, const void *const *inputs, void *const *outputs, struct nf_error *err)
{
    if (program->device->ops->execute_host)
        return program->device->ops->execute_host(program, inputs, outputs, err);
    return execute_with_buffers(program, inputs, outputs, err);
}
