/* emit.c: the distinct row programs of a plan become one image: compiled by the module that holds LLVM, linked here. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/cg.h"
#include "pipeline/codegen/emit_internal.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <unistd.h>

static int target_of(uint64_t features, struct emit_target *t, struct nf_error *err)
{
    const uint64_t v3 = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C | CPU_FEATURE_BMI;
    if (features & CPU_FEATURE_NEON) {
        *t = (struct emit_target){.lanes = 4, .f16 = true, .cpu = "generic", .features = "+neon,+fullfp16", .triple = "aarch64-unknown-linux-gnu"};
        return 0;
    }
    if ((features & v3) != v3)
        return nf_fail(err, NF_EUNSUPPORTED, "native code for cpu needs AVX2, FMA, F16C and BMI2 (x86-64-v3), which this processor lacks");
    *t = (struct emit_target){.lanes = 8, .f16 = true, .cpu = "x86-64-v3", .features = "", .triple = "x86_64-unknown-linux-gnu"};
    if (features & CPU_FEATURE_AVX512) {
        t->lanes = 16;
        t->cpu = "x86-64-v4";
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- the LLVM module */

static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER; /* guards module and why_not; innermost */
static const struct emit_module *module;
static char why_not[512];

static bool try_module(const char *path)
{
    if (access(path, R_OK)) return false;
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct emit_module *m = h ? dlsym(h, EMIT_MODULE_SYMBOL) : NULL;
    if (!m) nf_format(why_not, sizeof why_not, "%s", dlerror());
    else if (m->version != EMIT_MODULE_VERSION) nf_format(why_not, sizeof why_not, "%s is of another version", path);
    else module = m;
    return module != NULL;
}

/* Beside the program, where it is installed, where it was built. Loaded once, and never unloaded. */
static const struct emit_module *llvm_module(struct nf_error *err)
{
    char exe[4096], path[4608];
    pthread_mutex_lock(&module_lock);
    if (!module) {
        ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
        exe[n > 0 ? n : 0] = 0;
        const char *dir = dirname(exe);
        nf_format(why_not, sizeof why_not, "neffd-llvm.so is not installed");
        nf_format(path, sizeof path, "%s/neffd-llvm.so", dir);
        bool found = try_module(path);
        nf_format(path, sizeof path, "%s/../lib/neffd/neffd-llvm.so", dir);
        found = found || try_module(path);
        nf_format(path, sizeof path, "%s", CG_MODULE_PATH);
        found = found || try_module(path);
        (void)found;
    }
    const struct emit_module *m = module;
    if (!m) nf_fail(err, NF_EUNSUPPORTED, "native code for cpu needs its LLVM module: %s", why_not);
    pthread_mutex_unlock(&module_lock);
    return m;
}

int cg_emit(struct cg *cg, struct plan *plan, struct nf_buf *image, struct nf_error *err)
{
    struct emit_target t;
    struct link_image l = {0};
    struct emit_objects o = {0};
    const char *why;
    int rc = target_of(cg->options.features, &t, err);
    if (rc) return rc;
    uint32_t *native = NF_NEW_ARRAY(cg->arena, uint32_t, cg->nkernel + 1), n = 0;
    const struct rp_prog **prog = NF_NEW_ARRAY(cg->arena, const struct rp_prog *, cg->nkernel + 1);
    for (uint32_t i = 0; i < cg->nkernel; i++) {
        const struct rp_prog *p = emit_split_complex(cg->kernels[i]->prog, cg->arena);
        if (!p || !emit_supported(p, &t, &why)) continue;
        prog[n] = p;
        native[n++] = i;
    }
    if (n == 0) return 0;
    const struct emit_module *m = llvm_module(err);
    if (!m) return NF_EUNSUPPORTED;
    struct emit_request q = {.target = &t, .prog = prog, .count = n, .tier = cg->options.tier, .threads = cg->options.threads};
    if ((rc = m->compile(&q, &o, err))) return rc;
    for (uint32_t b = 0; b < o.count; b++) {
        if (!rc) rc = link_add(&l, o.object[b].data, o.object[b].len, err);
        free((void *)(uintptr_t)o.object[b].data);
    }
    free(o.object);
    for (uint32_t i = 0; i < n && !rc; i++) {
        char name[32];
        uint64_t at;
        nf_format(name, sizeof name, "k%u", i);
        if (!link_find(&l, name, &at)) rc = nf_fail(err, NF_EINTERNAL, "linking kernels: %s is missing", name);
        else plan->kernel[native[i]].image_offset = (int64_t)at;
    }
    if (!rc) nf_buf_add(image, l.bytes.data, l.bytes.len);
    if (!rc && cg->print) { /* once more, for people */
        struct nf_buf text = NF_BUF_INIT;
        rc = m->assembly(&q, &text, err);
        if (!rc) cg->print(cg->print_user, "assembly", nf_buf_str(&text));
        nf_buf_done(&text);
    }
    link_done(&l);
    return rc;
}

void cg_identify(char *version, size_t version_size, char *isa, size_t isa_size)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_format(version, version_size, "codegen %d llvm %s", CG_EMITTER_VERSION, CG_LLVM_VERSION);
    cpu_features_print(cpu_features(), &b);
    nf_format(isa, isa_size, "%s", b.data ? b.data : "");
    nf_buf_done(&b);
}
