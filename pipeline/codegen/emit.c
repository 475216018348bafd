/* emit.c: the distinct row programs of a plan become one image: their code comes from the cache of kernels or from the module that holds LLVM. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/cg.h"
#include "pipeline/codegen/emit_internal.h"

#include "base/file.h"

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

/* Code of the kernels that are not in the cache; into code[i]. */
static int compile(struct cg *cg, const struct emit_target *t, const struct rp_prog *const *prog, uint32_t n, struct nf_buf *code, struct nf_error *err)
{
    struct emit_objects o = {0};
    const struct emit_module *m = llvm_module(err);
    if (!m) return NF_EUNSUPPORTED;
    struct emit_request q = {.target = t, .prog = prog, .count = n, .tier = cg->options.tier, .threads = cg->options.threads};
    int rc = m->compile(&q, &o, err);
    if (rc) return rc;
    for (uint32_t i = 0; i < n && !rc; i++) {
        char name[32];
        nf_format(name, sizeof name, "k%u", i);
        rc = i / EMIT_BATCH < o.count ? link_kernel(o.object[i / EMIT_BATCH].data, o.object[i / EMIT_BATCH].len, name, &code[i], err)
                                      : nf_fail(err, NF_EINTERNAL, "linking kernels: an object is missing");
    }
    for (uint32_t b = 0; b < o.count; b++) free((void *)(uintptr_t)o.object[b].data);
    free(o.object);
    if (!rc && cg->print) { /* once more, for people */
        struct nf_buf text = NF_BUF_INIT;
        rc = m->assembly(&q, &text, err);
        if (!rc) cg->print(cg->print_user, "assembly", nf_buf_str(&text));
        nf_buf_done(&text);
    }
    return rc;
}

int cg_emit(struct cg *cg, struct plan *plan, struct nf_buf *image, uint32_t *ret_cached, struct nf_error *err)
{
    struct emit_target t;
    const char *why, *dir = cg->print ? NULL : cg->options.cache_dir; /* who wants to see the code sees all of it made */
    int rc = target_of(cg->options.features, &t, err);
    if (rc) return rc;
    uint32_t *native = NF_NEW_ARRAY(cg->arena, uint32_t, cg->nkernel + 1), *fresh = NF_NEW_ARRAY(cg->arena, uint32_t, cg->nkernel + 1), n = 0, missing = 0;
    const struct rp_prog **prog = NF_NEW_ARRAY(cg->arena, const struct rp_prog *, cg->nkernel + 1);
    struct kernel_key *key = NF_NEW_ARRAY(cg->arena, struct kernel_key, cg->nkernel + 1);
    struct nf_buf *code = nf_alloc_array(cg->nkernel + 1, sizeof *code), *made = nf_alloc_array(cg->nkernel + 1, sizeof *made);
    if (dir && nf_mkdir_p(dir, 0700, NULL)) dir = NULL;
    for (uint32_t i = 0; i < cg->nkernel; i++) {
        const struct rp_prog *p = emit_split_complex(cg->kernels[i]->prog, cg->arena);
        if (!p || !emit_supported(p, &t, &why)) continue;
        native[n] = i;
        if (dir) key[n] = kernel_key(cg->kernels[i]->text, &t, cg->options.tier);
        if (!dir || !kernel_cache_get(dir, &key[n], &code[n])) {
            fresh[missing] = n;
            prog[missing++] = p;
        }
        n++;
    }
    *ret_cached = n - missing;
    if (missing) rc = compile(cg, &t, prog, missing, made, err);
    for (uint32_t i = 0; i < missing && !rc; i++) {
        if (dir) kernel_cache_put(dir, &key[fresh[i]], nf_buf_str(&made[i]));
        code[fresh[i]] = made[i];
        made[i] = NF_BUF_INIT;
    }
    const size_t align = cg->options.features & CPU_FEATURE_NEON ? 4096 : 64;
    for (uint32_t i = 0; i < n && !rc; i++) {
        static const char zero[4096];
        nf_buf_add(image, zero, (align - image->len % align) % align);
        plan->kernel[native[i]].image_offset = (int64_t)image->len;
        nf_buf_add(image, code[i].data, code[i].len);
    }
    for (uint32_t i = 0; i < cg->nkernel; i++) {
        nf_buf_done(&code[i]);
        nf_buf_done(&made[i]);
    }
    free(code);
    free(made);
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
