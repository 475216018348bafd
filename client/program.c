/* program.c: executing an artifact: neffd_program over runtime's devices.
 *
 * Devices are registered by the program's main (cpu, where there is none of ours, by the library at the first load); each
 * opened device lives as long as one of its programs and belongs to the process that opened it: a forked child opens its
 * own. The artifact is kept mapped by its owner: unload programs before unref. */
#include "client/client_internal.h"

#include "base/dtype.h"
#include "runtime/cpu/cpu.h"
#include "runtime/device.h"
#include "runtime/neff.h"
#include "runtime/neuron/neuron.h"

#include <pthread.h>
#include <unistd.h>

struct open_device {
    struct open_device *next;
    struct rt_device *device;
    char *name;
    uint32_t threads;
    pid_t pid;
    unsigned users;
};

/* Guards the list below and nothing else; taken last. Held while a device opens, so that two loads do not open it twice. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct open_device *devices;

struct neffd_program {
    struct rt_program *program;
    struct open_device *device;
    size_t input_count, output_count;
    neffd_tensor_desc *inputs, *outputs;
};

static bool profile_programs;    /* set before threads load, as what follows */
static void (*print_fn)(void *user, struct nf_str text);
static void *print_user;

void cl_profile_programs(bool on) { profile_programs = on; }

void cl_print_programs(void (*print)(void *user, struct nf_str text), void *user)
{
    print_fn = print;
    print_user = user;
}

static int device_get(const char *name, const struct rt_device_config *config, struct open_device **ret_device, struct nf_error *err)
{
    int r = NF_OK;
    struct open_device *d;
    pthread_mutex_lock(&devices_lock);
    if (!rt_device_find(NF_STR("cpu")))
        rt_device_register(&cpu_device_ops); /* where no main of ours has done it: a host program that loads the library */
    if (!rt_device_find(NF_STR("neuron")))
        rt_device_register(&rt_neuron_device);
    for (d = devices; d; d = d->next)
        if (strcmp(d->name, name) == 0 && d->threads == config->threads && d->pid == getpid())
            break;
    if (!d) {
        struct rt_device *device;
        r = rt_device_open(name, config, &device, err);
        if (r == NF_OK) {
            d = nf_alloc(sizeof(*d));
            d->device = device;
            d->name = nf_strdup(name);
            d->threads = config->threads;
            d->pid = getpid();
            d->next = devices;
            devices = d;
        }
    }
    if (d)
        d->users++;
    pthread_mutex_unlock(&devices_lock);
    if (r == NF_OK)
        *ret_device = d;
    return r;
}

static void device_put(struct open_device *d)
{
    pthread_mutex_lock(&devices_lock);
    if (--d->users == 0) {
        for (struct open_device **at = &devices; *at; at = &(*at)->next) {
            if (*at == d) {
                *at = d->next;
                break;
            }
        }
        rt_device_close(d->device);
        free(d->name);
        free(d);
    }
    pthread_mutex_unlock(&devices_lock);
}

static neffd_tensor_desc *describe(const struct rt_tensor *tensors, size_t count)
{
    neffd_tensor_desc *list = nf_alloc_array(count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        list[i] = (neffd_tensor_desc){
            .name = tensors[i].name ? tensors[i].name : "",
            .dtype = nf_dtype_name(tensors[i].dtype),
            .rank = tensors[i].rank,
            .dims = tensors[i].dims,
            .strides = tensors[i].strides,
            .bytes = tensors[i].bytes,
            .alias = tensors[i].alias,
        };
    }
    return list;
}

/* The artifact's own target, where the loader is not told another device. What we make for `cpu` says so; neuronx-cc's says nothing. */
static void default_device(neffd_artifact *artifact, struct nf_str bytes, char out[32])
{
    struct neff *neff;
    bool compilers = false;
    if (!artifact->target[0] && neff_open(bytes, &neff, NULL) == NF_OK) {
        (void)nf_format(artifact->target, sizeof(artifact->target), "%s", neff_target(neff));
        compilers = !artifact->target[0];
        neff_close(neff);
    }
    (void)nf_format(out, 32, "%s", compilers || rt_target_is_neuron(nf_str_c(artifact->target)) ? "neuron:0" : "cpu");
}

static int program_load(neffd_client *client, neffd_artifact *artifact, const neffd_load_options *options, neffd_program **ret_program,
    struct nf_error *err)
{
    static const neffd_load_options none = {.struct_size = sizeof(none)};
    char device_name[32];
    const void *data;
    neffd_error mapped;
    if (!artifact || !ret_program)
        return nf_fail(err, NF_EINVAL, "no artifact was given");
    if (!options)
        options = &none;
    int r = cl_struct_check("neffd_load_options", options, options->struct_size, sizeof(*options), err);
    if (r < 0)
        return r;
    uid_t daemon = client ? cl_client_daemon_uid(client) : (uid_t)-1;
    if (artifact->owner_uid != 0 && artifact->owner_uid != geteuid() && artifact->owner_uid != daemon) {
        nf_fail(err, NF_EPERM, "%s belongs to uid %u: its code is not loaded", artifact->path, artifact->owner_uid);
        nf_error_hint(err, "code is taken from root, from the daemon's user and from oneself");
        return NF_EPERM;
    }
    r = neffd_artifact_map(artifact, &data, &mapped);
    if (r < 0) {
        nf_fail(err, r, "%s", mapped.message);
        return r;
    }
    default_device(artifact, nf_str_n(data, artifact->bytes), device_name);
    if (options->device && options->device[0] && !nf_format(device_name, sizeof(device_name), "%s", options->device))
        return nf_fail(err, NF_EINVAL, "the device name %s is too long", options->device);

    uint32_t threads = options->threads ? options->threads : client ? client->cpu_threads : 0;
    struct rt_load_options load = RT_LOAD_OPTIONS_INIT;
    load.threads = threads;
    load.rank = options->rank;
    load.world_size = options->world_size;
    load.group = options->group;
    load.lnc = options->lnc;
    load.file_fd = artifact->hit ? cache_hit_fd(artifact->hit) : artifact->fd;
    load.owner_uid = artifact->owner_uid;
    load.trusted_uid = daemon;
    load.profile = profile_programs;
    load.print = print_fn;
    load.print_user = print_user;
    struct open_device *device = NULL;
    struct rt_program *program = NULL;
    const struct rt_device_config config = {
        .threads = threads, .library = client ? client->libnrt : NULL, .feature_mask = client ? client->neff_features : 0,
        .compile_only = client && client->compile_only,
    };
    r = device_get(device_name, &config, &device, err);
    if (r < 0)
        return r;
    r = rt_program_load(device->device, nf_str_n(data, artifact->bytes), &load, &program, err);
    if (r < 0) {
        device_put(device);
        return r;
    }
    neffd_program *p = nf_alloc(sizeof(*p));
    p->program = program;
    p->device = device;
    p->input_count = program->input_count;
    p->output_count = program->output_count;
    p->inputs = describe(program->inputs, program->input_count);
    p->outputs = describe(program->outputs, program->output_count);
    *ret_program = p;
    return NF_OK;
}

/* Not always the one that was asked for: cpu hands what it has no code for to the evaluator. */
const char *cl_program_device(const neffd_program *program)
{
    const struct rt_device *device = program->program->device;
    return device == program->device->device ? program->device->name : device->ops->name;
}

struct rt_program *cl_program_rt(const neffd_program *program) { return program->program; }

CL_EXPORT int neffd_program_load(neffd_client *client, neffd_artifact *artifact, const neffd_load_options *options,
    neffd_program **ret_program, neffd_error *out)
{
    struct nf_error err = {0};
    int r = program_load(client, artifact, options, ret_program, &err);
    return r < 0 ? cl_error_out(&err, out) : NF_OK;
}

CL_EXPORT size_t neffd_program_inputs(const neffd_program *program, const neffd_tensor_desc **ret_descs)
{
    if (ret_descs)
        *ret_descs = program->inputs;
    return program->input_count;
}

CL_EXPORT size_t neffd_program_outputs(const neffd_program *program, const neffd_tensor_desc **ret_descs)
{
    if (ret_descs)
        *ret_descs = program->outputs;
    return program->output_count;
}

CL_EXPORT int neffd_program_execute(neffd_program *program, const void *const *inputs, void *const *outputs, neffd_error *out)
{
    struct nf_error err = {0};
    int r = program ? rt_execute_host(program->program, inputs, outputs, &err) : nf_fail(&err, NF_EINVAL, "no program was given");
    return r < 0 ? cl_error_out(&err, out) : NF_OK;
}

CL_EXPORT void neffd_program_unload(neffd_program *program)
{
    if (!program)
        return;
    rt_program_unload(program->program);
    device_put(program->device);
    free(program->inputs);
    free(program->outputs);
    free(program);
}
