#include "runtime/neuron/nrt_load.h"

#include <dlfcn.h>
#include <pthread.h>

static const struct {
    nrt_status number;
    const char *name;
    int status;
    const char *hint;
} statuses[] = {
#define NRT_STATUS(number, name, status, hint) {number, name, NF_E##status, hint},
#include "runtime/neuron/nrt_status.def"
#undef NRT_STATUS
};

int nrt_fail(struct nf_error *err, nrt_status status, const char *fmt, ...)
{
    char what[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < NF_ARRAY_LEN(statuses); i++) {
        if (statuses[i].number != status)
            continue;
        nf_fail(err, statuses[i].status, "%s: libnrt says %s (%d)", what, statuses[i].name, status);
        if (statuses[i].hint[0])
            nf_error_hint(err, "%s", statuses[i].hint);
        return statuses[i].status;
    }
    return nf_fail(err, NF_ENODEVICE, "%s: libnrt says %d, a status that is not documented", what, status);
}

static const char *const names[] = {
#define NRT(result, name, parameters) "nrt_" #name,
#include "runtime/neuron/nrt_api.def"
#undef NRT
};

static struct nrt_api api;
static bool loaded;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards both */

static int load(const char *library, struct nf_error *err)
{
    static const char *const places[] = {"libnrt.so.1", "libnrt.so", "/opt/aws/neuron/lib/libnrt.so.1", "/opt/aws/neuron/lib/libnrt.so"};
    struct nrt_api a = {0};
    char why[300] = "";
    if (library && library[0]) {
        a.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        nf_format(a.path, sizeof(a.path), "%s", library);
    }
    for (size_t i = 0; !(library && library[0]) && i < NF_ARRAY_LEN(places) && !a.handle; i++) {
        a.handle = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
        nf_format(a.path, sizeof(a.path), "%s", places[i]);
        if (!a.handle && i == 0)
            nf_format(why, sizeof(why), "%s", dlerror());
    }
    if (!a.handle) {
        const char *last = why[0] ? why : dlerror();
        nf_fail(err, NF_ENODEVICE, "the Neuron runtime cannot be loaded: %s", last ? last : library);
        nf_error_hint(err, "install aws-neuronx-runtime-lib, or put its lib folder on LD_LIBRARY_PATH");
        return NF_ENODEVICE;
    }
    void *found[NF_ARRAY_LEN(names)];
    for (size_t i = 0; i < NF_ARRAY_LEN(names); i++) {
        found[i] = dlsym(a.handle, names[i]);
        if (!found[i]) {
            nf_fail(err, NF_ENODEVICE, "%s has no %s: it is too old, or no libnrt", a.path, names[i]);
            nf_error_hint(err, "update aws-neuronx-runtime-lib");
            dlclose(a.handle);
            return NF_ENODEVICE;
        }
    }
    size_t k = 0;
#define NRT(result, name, parameters) memcpy(&a.name, &found[k++], sizeof(a.name));
#include "runtime/neuron/nrt_api.def"
#undef NRT
    nrt_status s = a.get_version(&a.version, sizeof(a.version));
    if (s != 0) {
        dlclose(a.handle);
        return nrt_fail(err, s, "cannot ask %s for its version", a.path);
    }
    if (a.version.rt_major != NRT_MAJOR) {
        nf_fail(err, NF_EUNSUPPORTED, "%s is version %llu.%llu, this program speaks with %d", a.path, (unsigned long long)a.version.rt_major,
                (unsigned long long)a.version.rt_minor, NRT_MAJOR);
        dlclose(a.handle);
        return NF_EUNSUPPORTED;
    }
    api = a;
    loaded = true;
    return NF_OK;
}

int nrt_api_get(const char *library, const struct nrt_api **ret_api, struct nf_error *err)
{
    pthread_mutex_lock(&mutex);
    int r = loaded ? NF_OK : load(library, err);
    if (r == NF_OK && library && library[0] && strcmp(library, api.path) != 0)
        r = nf_fail(err, NF_EBUSY, "this process has loaded %s already, not %s", api.path, library);
    if (r == NF_OK)
        *ret_api = &api;
    pthread_mutex_unlock(&mutex);
    return r;
}
