#include "runtime/platform.h"

#include "base/file.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *const targets[] = {"cpu", "trn1", "trn1n", "trn2", "trn3", "inf2"};

bool rt_target_known(struct nf_str name)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(targets); i++)
        if (nf_str_eq_c(name, targets[i]))
            return true;
    return false;
}

bool rt_target_is_neuron(struct nf_str name)
{
    return rt_target_known(name) && !nf_str_eq_c(name, "cpu");
}

const char *rt_target_names(void)
{
    return "cpu, trn1, trn1n, trn2, trn3, inf2";
}

static int take(struct nf_str name, const char *from, char ret_target[RT_TARGET_MAX], struct nf_error *err)
{
    if (!rt_target_known(name)) {
        nf_fail(err, NF_EINVAL, "unknown target %.*s%s%s", (int)NF_MIN(name.len, 64), name.data ? name.data : "", from[0] ? " from " : "", from);
        nf_error_hint(err, "targets: %s", rt_target_names());
        return NF_EINVAL;
    }
    nf_format(ret_target, RT_TARGET_MAX, "%.*s", (int)name.len, name.data);
    return NF_OK;
}

/* "trn2u.48xlarge" is a trn2; a name that is no Neuron instance gives an empty string. */
static struct nf_str instance_target(struct nf_str product)
{
    static const struct {
        const char *family, *target;
    } families[] = {
        {"trn1", "trn1"}, {"trn1n", "trn1n"}, {"trn2", "trn2"}, {"trn2n", "trn2"}, {"trn2u", "trn2"}, {"trn2p", "trn2"},
        {"trn3", "trn3"}, {"trn3pds98", "trn3"}, {"inf2", "inf2"}, {"inf2e", "inf2"},
    };
    struct nf_str family = nf_str_cut(&product, '.');
    for (size_t i = 0; i < NF_ARRAY_LEN(families); i++)
        if (nf_str_eq_c(family, families[i].family))
            return nf_str_c(families[i].target);
    return (struct nf_str){0};
}

int rt_target_resolve(const char *requested, const struct rt_platform *platform, char ret_target[RT_TARGET_MAX], struct nf_error *err)
{
    static const struct rt_platform real;
    const struct rt_platform *p = platform ? platform : &real;
    if (requested && requested[0])
        return take(nf_str_c(requested), "", ret_target, err);
    if (p->override && p->override[0])
        return take(nf_str_c(p->override), "the setting target (NEFFD_TARGET, NEURON_PLATFORM_TARGET_OVERRIDE)", ret_target, err);

    struct nf_buf product = NF_BUF_INIT;
    struct nf_str instance = {0};
    if (nf_file_read(p->dmi_path ? p->dmi_path : "/sys/devices/virtual/dmi/id/product_name", 4096, &product, NULL) == NF_OK)
        instance = instance_target(nf_str_trim(nf_buf_str(&product)));
    bool devices = access(p->device_path ? p->device_path : "/dev/neuron0", F_OK) == 0;
    int r = NF_OK;
    if (instance.len == 0 && !devices) {
        r = take(NF_STR("cpu"), "", ret_target, err);
    } else {
        const char *compiler = p->compiler && p->compiler[0] ? p->compiler : "neuronx-cc";
        struct nf_buf path = NF_BUF_INIT;
        if (rt_find_program(compiler, getenv("PATH"), NULL, &path) != NF_OK) {
            r = nf_fail(err, NF_ENOCOMPILER, "this is a Neuron host, but there is no %s: there is no default target", compiler);
            nf_error_hint(err, "install neuronx-cc, name it with NEFFD_NEURONX_CC, or ask for a target (cpu works everywhere)");
        } else if (instance.len > 0) {
            r = take(instance, "the instance's type", ret_target, err);
        } else {
            r = nf_fail(err, NF_EINVAL, "this host has Neuron devices, but its instance type is not known");
            nf_error_hint(err, "ask for a target, or set NEURON_PLATFORM_TARGET_OVERRIDE: %s", rt_target_names());
        }
        nf_buf_done(&path);
    }
    nf_buf_done(&product);
    return r;
}

static bool executable(const char *path, const struct stat *not_this)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || access(path, X_OK) < 0)
        return false;
    return !not_this || st.st_dev != not_this->st_dev || st.st_ino != not_this->st_ino;
}

int rt_find_program(const char *name, const char *path, const char *not_this, struct nf_buf *ret_path)
{
    struct stat self;
    const struct stat *avoid = not_this && stat(not_this, &self) == 0 ? &self : NULL;
    if (strchr(name, '/')) {
        if (!executable(name, avoid))
            return NF_ENOTFOUND;
        nf_buf_add_c(ret_path, name);
        return NF_OK;
    }
    struct nf_str rest = nf_str_c(path ? path : "/usr/local/bin:/usr/bin:/bin");
    struct nf_buf candidate = NF_BUF_INIT;
    while (rest.data) {
        struct nf_str dir = nf_str_cut(&rest, ':');
        nf_buf_clear(&candidate);
        if (dir.len == 0)
            nf_buf_add_char(&candidate, '.');
        nf_buf_add_str(&candidate, dir);
        nf_buf_addf(&candidate, "/%s", name);
        if (!candidate.failed && executable(candidate.data, avoid)) {
            nf_buf_add_str(ret_path, nf_buf_str(&candidate));
            nf_buf_done(&candidate);
            return NF_OK;
        }
    }
    nf_buf_done(&candidate);
    return NF_ENOTFOUND;
}
