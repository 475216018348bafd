/* The evaluator behind rt_device_ops. Buffers are plain memory, executions run to their end inside execute() on the caller's
 * thread; any number of them at once, since a run shares nothing with others but the prepared module. Results are computed into
 * memory of the run and then copied, so an output may be the input that it aliases. */
#include "pipeline/hlo/evaluator_device.h"

#include "pipeline/hlo/eval.h"
#include "pipeline/target.h"
#include "runtime/neff.h"

#include <stdio.h>
#include <stdlib.h>

struct device {
    struct rt_device base;
};

struct program {
    struct rt_program base;
    struct neff *neff;
    struct nf_arena *arena;
    struct hlo_module *module;
    struct nf_str places;           /* TARGET_CPU_PLACES, or empty */
    struct hlo_eval *eval;
    struct hlo_eval_hooks hooks;
    struct hlo_eval_group *group;   /* NULL: alone */
    uint32_t rank;
};

static int dev_open(const struct rt_device_config *config, struct rt_device **ret_device, struct nf_error *err)
{
    (void)err;
    struct device *d = nf_alloc(sizeof(*d));
    d->base.ops = &hlo_evaluator_device;
    d->base.index = config ? config->index : 0;
    *ret_device = &d->base;
    return NF_OK;
}

static void dev_close(struct rt_device *device) { free(device); }

static void dev_unload(struct rt_program *program)
{
    struct program *p = (struct program *)program;
    if (!p)
        return;
    hlo_eval_group_leave(p->group);
    hlo_eval_free(p->eval);
    nf_arena_free(p->arena);
    neff_close(p->neff);
    free(p);
}

/* The function's tensors must be the manifest's: buffers have the manifest's sizes. */
static int check_tensors(const struct hlo_op *entry, const struct rt_program *base, struct nf_error *err)
{
    const struct hlo_type *type = hlo_func_type(entry);
    uint32_t n_out = type->num_types - type->num_inputs;
    if (base->input_count != type->num_inputs || base->output_count != n_out)
        return nf_fail(err, NF_ECORRUPT, "the manifest lists %zu inputs and %zu outputs, the module has %u and %u", base->input_count, base->output_count,
            type->num_inputs, n_out);
    for (size_t i = 0; i < base->input_count + base->output_count; i++) {
        const struct rt_tensor *t = i < base->input_count ? &base->inputs[i] : &base->outputs[i - base->input_count];
        const struct hlo_type *want = type->types[i];
        size_t bytes;
        bool same = want->kind == HLO_TYPE_TENSOR && want->is_static && hlo_eval_dtype(want) == t->dtype && want->rank == t->rank &&
                    t->rank <= RT_ARRAY_RANK_MAX && !t->strides;
        for (size_t k = 0; same && k < t->rank; k++)
            same = want->dims[k] == t->dims[k];
        same = same && rt_tensor_dense_bytes(t->dtype, t->dims, t->rank, &bytes) == NF_OK && bytes <= t->bytes;
        if (!same)
            return nf_fail(err, NF_ECORRUPT, "tensor %zu of the manifest is not that of the module", i);
    }
    return NF_OK;
}

/* A place in the artifact's module means nothing to who wrote the program: the same operation's in that. */
static void tell_place(const struct program *p, struct nf_error *err)
{
    char there[256];
    struct nf_str text = p->module->text, rest = p->places, place = {0};
    struct hlo_walk w = hlo_walk_of(p->module->op);
    unsigned line = 0, column = 0;
    bool found = false;
    if (!err || !err->location[0])
        return;
    if (sscanf(err->location, "%u:%u", &line, &column) == 2)
        for (unsigned i = 1; i < line; i++)
            (void)nf_str_cut(&text, '\n');
    for (const struct hlo_op *op; line && !found && text.data && (op = hlo_walk_next(&w));) {
        place = rest.len ? nf_str_cut(&rest, '\n') : (struct nf_str){0};
        found = op->pos == (size_t)(text.data - p->module->text.data) + column - 1;
    }
    if (found && place.len) {
        nf_error_location(err, "%.*s", (int)NF_MIN(place.len, (size_t)250), place.data);
    } else {
        nf_format(there, sizeof(there), "%s", err->location);
        nf_error_location(err, "%s of the canonical program", there);
    }
}

static int dev_load(struct rt_device *device, struct nf_str bytes, const struct rt_load_options *options, struct rt_program **ret_program, struct nf_error *err)
{
    struct program *p = nf_alloc(sizeof(*p));
    struct nf_str text;
    struct hlo_module *m = NULL;
    p->base.device = device;
    int rc = neff_open(bytes, &p->neff, err);
    if (rc)
        goto fail;
    if (!neff_member(p->neff, TARGET_CPU_MODULE, &text)) {
        rc = nf_fail(err, NF_EUNSUPPORTED, "the artifact (target '%s') holds no module for the evaluator", neff_target(p->neff));
        goto fail;
    }
    p->arena = nf_arena_new(0);
    if ((rc = hlo_parse(text, NULL, p->arena, &m, err)) || (rc = hlo_verify(m, err))) {
        nf_error_prefix(err, "the module of the artifact");
        goto fail;
    }
    p->module = m;
    (void)neff_member(p->neff, TARGET_CPU_PLACES, &p->places);
    const struct hlo_op *entry = hlo_module_entry(m);
    if (!entry || !hlo_func_block(entry)) {
        rc = nf_fail(err, NF_ECORRUPT, "the module of the artifact has no entry function");
        goto fail;
    }
    p->base.input_count = neff_inputs(p->neff, &p->base.inputs);
    p->base.output_count = neff_outputs(p->neff, &p->base.outputs);
    if ((rc = check_tensors(entry, &p->base, err)))
        goto fail;
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    if (options && options->print) {
        p->hooks = (struct hlo_eval_hooks){.user = options->print_user, .print = options->print};
        o.hooks = &p->hooks;
    }
    if ((rc = hlo_eval_new(m, &o, &p->eval, err))) {
        tell_place(p, err);
        goto fail;
    }
    if (options && options->world_size > 1 && options->group) {
        int64_t partitions = 1;
        const struct hlo_attr *a = hlo_op_discardable(m->op, NF_STR("mhlo.num_partitions"));
        if (a && a->kind == HLO_ATTR_INT && a->i > 0 && options->world_size % (uint64_t)a->i == 0)
            partitions = a->i;
        p->rank = options->rank;
        rc = hlo_eval_group_join(options->group, options->world_size / (uint32_t)partitions, (uint32_t)partitions, options->rank, &p->group, err);
        if (rc)
            goto fail;
    }
    *ret_program = &p->base;
    return NF_OK;
fail:
    dev_unload(&p->base);
    return rc;
}

static int dev_buffer(struct rt_device *device, size_t bytes, struct rt_buffer **ret_buffer, struct nf_error *err)
{
    struct rt_buffer *b = nf_alloc(sizeof(*b));
    void *host = NULL;
    if (bytes > SIZE_MAX - 64 || posix_memalign(&host, 64, bytes ? bytes : 1) != 0) {
        free(b);
        return nf_fail(err, NF_ENOMEM, "no memory for a buffer of %zu bytes", bytes);
    }
    memset(host, 0, bytes);
    *b = (struct rt_buffer){.device = device, .bytes = bytes, .host = host, .owned = true};
    *ret_buffer = b;
    return NF_OK;
}

static int dev_wrap(struct rt_device *device, void *host, size_t bytes, struct rt_buffer **ret_buffer, struct nf_error *err)
{
    (void)err;
    struct rt_buffer *b = nf_alloc(sizeof(*b));
    *b = (struct rt_buffer){.device = device, .bytes = bytes, .host = host};
    *ret_buffer = b;
    return NF_OK;
}

static void dev_buffer_free(struct rt_buffer *b)
{
    if (b && b->owned)
        free(b->host);
    free(b);
}

static int dev_write(struct rt_buffer *b, size_t offset, const void *data, size_t bytes, struct nf_error *err)
{
    if (offset > b->bytes || bytes > b->bytes - offset)
        return nf_fail(err, NF_EINVAL, "%zu bytes at %zu do not fit a buffer of %zu", bytes, offset, b->bytes);
    if (bytes)
        memcpy((char *)b->host + offset, data, bytes);
    return NF_OK;
}

static int dev_read(const struct rt_buffer *b, size_t offset, void *data, size_t bytes, struct nf_error *err)
{
    if (offset > b->bytes || bytes > b->bytes - offset)
        return nf_fail(err, NF_EINVAL, "%zu bytes at %zu are not in a buffer of %zu", bytes, offset, b->bytes);
    if (bytes)
        memcpy(data, (const char *)b->host + offset, bytes);
    return NF_OK;
}

static int dev_execute(struct rt_program *program, struct rt_stream *stream, struct rt_buffer *const *in, struct rt_buffer *const *out,
                       struct rt_event **ret_event, struct nf_error *err)
{
    struct program *p = (struct program *)program;
    size_t n_in = program->input_count, n_out = program->output_count;
    if (stream)
        return nf_fail(err, NF_EINVAL, "the evaluator has no streams");
    struct rt_array *a = nf_alloc_array(n_in + n_out + 1, sizeof(*a)), *results = a + n_in;
    int rc = NF_OK;
    for (size_t i = 0; i < n_in + n_out && !rc; i++) {
        const struct rt_tensor *t = i < n_in ? &program->inputs[i] : &program->outputs[i - n_in];
        struct rt_buffer *b = i < n_in ? in[i] : out[i - n_in];
        size_t dense = 0;
        (void)rt_tensor_dense_bytes(t->dtype, t->dims, t->rank, &dense);
        if (!b || b->bytes < dense) {
            rc = nf_fail(err, NF_EINVAL, "%s %zu has a buffer that is too small", i < n_in ? "input" : "output", i < n_in ? i : i - n_in);
            break;
        }
        if (i >= n_in)
            continue;
        a[i] = (struct rt_array){.dtype = t->dtype, .rank = (int)t->rank, .data = b->host, .bytes = dense};
        for (size_t k = 0; k < t->rank; k++)
            a[i].dims[k] = t->dims[k];
    }
    if (!rc)
        rc = p->group ? hlo_eval_run_member(p->eval, p->group, p->rank, a, n_in, results, n_out, err)
                      : hlo_eval_run(p->eval, NF_STR(""), a, n_in, results, n_out, err);
    if (rc)
        tell_place(p, err);
    for (size_t i = 0; i < n_out && !rc; i++) {
        if (results[i].bytes)
            memcpy(out[i]->host, results[i].data, results[i].bytes);
        rt_array_done(&results[i]);
    }
    free(a);
    if (!rc && ret_event)
        *ret_event = NULL; /* ended already */
    return rc;
}

static int dev_wait(struct rt_event *event, int64_t timeout_ns, struct nf_error *err)
{
    (void)event, (void)timeout_ns, (void)err;
    return NF_OK;
}

static void dev_event_free(struct rt_event *event) { (void)event; }

const struct rt_device_ops hlo_evaluator_device = {
    .name = "evaluator",
    .open = dev_open,
    .close = dev_close,
    .load = dev_load,
    .unload = dev_unload,
    .buffer = dev_buffer,
    .wrap = dev_wrap,
    .buffer_free = dev_buffer_free,
    .write = dev_write,
    .read = dev_read,
    .execute = dev_execute,
    .wait = dev_wait,
    .event_free = dev_event_free,
};
