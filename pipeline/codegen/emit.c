/* emit.c: the distinct row programs of a plan become one image: their code comes from the cache of kernels or from the module that holds LLVM. */
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/cg.h"
#include "pipeline/codegen/emit_internal.h"

#include "base/file.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <unistd.h>

static int target_of(uint64_t features, struct emit_target *t, struct nf_error *err)
{
    const uint64_t v3 = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C | CPU_FEATURE_BMI;
    if (features & CPU_FEATURE_NEON) {
        *t = (struct emit_target){.lanes = 4, .f16 = true, .cpu = "generic", .features = "+neon", .triple = "aarch64-unknown-linux-gnu"};
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

/* The version in the file, found by its symbol, so that nothing of LLVM is loaded; -1: this is no such module. */
static int version_of(const char *path)
{
    struct nf_map_view v;
    const Elf64_Ehdr *e;
    int version = -1;
    if (nf_map_view_open(path, &v, NULL)) return -1;
    const char *base = v.data;
    e = v.data;
    bool good = v.len > sizeof *e && memcmp(e->e_ident, ELFMAG, SELFMAG) == 0 && e->e_ident[EI_CLASS] == ELFCLASS64 && e->e_shentsize == sizeof(Elf64_Shdr) && e->e_phentsize == sizeof(Elf64_Phdr) &&
                e->e_shoff % 8 == 0 && e->e_shoff <= v.len && e->e_shnum <= (v.len - e->e_shoff) / sizeof(Elf64_Shdr) && e->e_phoff % 8 == 0 && e->e_phoff <= v.len &&
                e->e_phnum <= (v.len - e->e_phoff) / sizeof(Elf64_Phdr);
    const Elf64_Shdr *sh = good ? (const void *)(base + e->e_shoff) : NULL;
    const Elf64_Phdr *ph = good ? (const void *)(base + e->e_phoff) : NULL;
    for (int i = 0; good && i < e->e_shnum; i++) {
        const Elf64_Shdr *s = &sh[i];
        if (s->sh_type != SHT_DYNSYM || s->sh_offset % 8 || s->sh_offset > v.len || s->sh_size > v.len - s->sh_offset || s->sh_link >= e->e_shnum) continue;
        const Elf64_Shdr *names = &sh[s->sh_link];
        if (names->sh_offset > v.len || names->sh_size > v.len - names->sh_offset) continue;
        const Elf64_Sym *sym = (const void *)(base + s->sh_offset);
        for (size_t k = 0; k < s->sh_size / sizeof *sym; k++) {
            if (sym[k].st_shndx == SHN_UNDEF || sym[k].st_name >= names->sh_size || names->sh_size - sym[k].st_name < sizeof EMIT_MODULE_SYMBOL ||
                memcmp(base + names->sh_offset + sym[k].st_name, EMIT_MODULE_SYMBOL, sizeof EMIT_MODULE_SYMBOL) != 0)
                continue;
            for (int p = 0; p < e->e_phnum; p++) {
                uint64_t at = sym[k].st_value - ph[p].p_vaddr;
                if (ph[p].p_type != PT_LOAD || sym[k].st_value < ph[p].p_vaddr || ph[p].p_filesz < sizeof version || at > ph[p].p_filesz - sizeof version) continue;
                if (ph[p].p_offset <= v.len && at <= v.len - ph[p].p_offset && v.len - ph[p].p_offset - at >= sizeof version) memcpy(&version, base + ph[p].p_offset + at, sizeof version);
            }
        }
    }
    nf_map_view_close(&v);
    return version;
}

/* Where it is: as told, or beside the program, where it is installed, where it was built. NF_ENOCOMPILER. */
static int find_module(const char *told, char *path, size_t size, struct nf_error *err)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    const char *dir = dirname(exe);
    if (told && told[0]) {
        nf_format(path, size, "%s", told);
    } else {
        nf_format(path, size, "%s/neffd-llvm.so", dir);
        if (access(path, R_OK)) nf_format(path, size, "%s/../lib/neffd/neffd-llvm.so", dir);
        if (access(path, R_OK)) nf_format(path, size, "%s", CG_MODULE_PATH);
    }
    int e = access(path, R_OK) ? errno : 0, version = e ? -2 : version_of(path);
    if (version == EMIT_MODULE_VERSION) return 0;
    if (version == -2 && told && told[0])
        return nf_fail(err, NF_ENOCOMPILER, "native code for cpu needs its LLVM module: %s, which llvm_module names, cannot be read: %s", path, strerror(e));
    if (version == -2) return nf_fail(err, NF_ENOCOMPILER, "native code for cpu needs its LLVM module: neffd-llvm.so is not installed");
    return nf_fail(err, NF_ENOCOMPILER, "native code for cpu needs its LLVM module: %s %s", path, version < 0 ? "is none" : "is of another version");
}

int cg_module_check(const char *told, struct nf_error *err)
{
    char path[4608];
    return find_module(told, path, sizeof path, err);
}

static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER; /* guards module; innermost */
static const struct emit_module *module;

/* Loaded once, and never unloaded. */
static const struct emit_module *llvm_module(const char *told, struct nf_error *err)
{
    char path[4608];
    pthread_mutex_lock(&module_lock);
    if (!module && find_module(told, path, sizeof path, err) == 0) {
        void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        module = h ? dlsym(h, EMIT_MODULE_SYMBOL) : NULL;
        if (!module) nf_fail(err, NF_ENOCOMPILER, "native code for cpu needs its LLVM module: %s", dlerror());
    }
    const struct emit_module *m = module;
    pthread_mutex_unlock(&module_lock);
    return m;
}

/* Code of the kernels that are not in the cache; into code[i]. Those that cannot be told apart from their neighbours are compiled once more. */
static int compile(struct cg *cg, const struct emit_target *t, const struct rp_prog *const *prog, uint32_t n, uint32_t batch, struct nf_buf *code, struct nf_error *err)
{
    struct emit_objects o = {0};
    const struct emit_module *m = llvm_module(cg->options.module, err);
    if (!m) return NF_ENOCOMPILER;
    struct emit_request q = {.target = t, .prog = prog, .count = n, .batch = batch, .tier = cg->options.tier, .threads = cg->options.threads};
    int rc = m->compile(&q, &o, err);
    if (rc) return rc;
    const struct rp_prog **alone = NF_NEW_ARRAY(cg->arena, const struct rp_prog *, n);
    uint32_t *place = NF_NEW_ARRAY(cg->arena, uint32_t, n), left = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        char name[32];
        nf_format(name, sizeof name, "k%u", i);
        rc = i / batch < o.count ? link_kernel(o.object[i / batch].data, o.object[i / batch].len, name, batch == 1, &code[i], err)
                                 : nf_fail(err, NF_EINTERNAL, "linking kernels: an object is missing");
        if (rc != LINK_ALONE) continue;
        rc = 0;
        place[left] = i;
        alone[left++] = prog[i];
    }
    for (uint32_t b = 0; b < o.count; b++) free((void *)(uintptr_t)o.object[b].data);
    free(o.object);
    if (!rc && left) {
        struct nf_buf *made = nf_alloc_array(left, sizeof *made);
        rc = compile(cg, t, alone, left, 1, made, err);
        for (uint32_t i = 0; i < left; i++) code[place[i]] = made[i];
        free(made);
    }
    if (!rc && cg->print && batch > 1) { /* once more, for people */
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
    if (missing) rc = compile(cg, &t, prog, missing, EMIT_BATCH, made, err);
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
