/* What an artifact of machine code must not be: linked with something outside, writable, a stranger's, made for another processor,
 * damaged. And code for the processors that are not here, as far as it can be looked at. */
#include "base/file.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/emit_internal.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/plan.h"
#include "runtime/neff.h"

#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rt_device *device;

/* ------------------------------------------------------------------------------------------------------------ linker */

/* A relocatable object of one function of 16 bytes, with one relocation at 4 against symbol `sym` of section `section`. */
struct made {
    Elf64_Ehdr h;
    unsigned char text[64];
    Elf64_Rela rela;
    Elf64_Sym sym[3];
    char strings[64];      /* of symbols and of sections */
    Elf64_Shdr s[6];
};
enum { NONE, TEXT, RELA, SYMTAB, STRTAB, DATA };

static void make(struct made *m, uint32_t type, uint16_t section)
{
    *m = (struct made){0};
    memcpy(m->h.e_ident, ELFMAG, SELFMAG);
    m->h.e_type = ET_REL;
    m->h.e_machine = EM_X86_64;
    m->h.e_shentsize = sizeof(Elf64_Shdr);
    m->h.e_shnum = 6;
    m->h.e_shoff = offsetof(struct made, s);
    m->h.e_shstrndx = STRTAB;
    memcpy(m->strings, "\0k0\0outside\0.text.k0\0.rodata.t", 31);
    m->sym[1] = (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = TEXT, .st_size = 16};
    m->sym[2] = (Elf64_Sym){.st_name = 4, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), .st_shndx = section};
    m->rela = (Elf64_Rela){.r_offset = 4, .r_info = ELF64_R_INFO(2, type), .r_addend = -4};
    m->s[TEXT] = (Elf64_Shdr){.sh_name = 12, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_offset = offsetof(struct made, text), .sh_size = 16, .sh_addralign = 16};
    m->s[RELA] = (Elf64_Shdr){.sh_type = SHT_RELA, .sh_offset = offsetof(struct made, rela), .sh_size = sizeof m->rela, .sh_link = SYMTAB, .sh_info = TEXT};
    m->s[SYMTAB] = (Elf64_Shdr){.sh_type = SHT_SYMTAB, .sh_offset = offsetof(struct made, sym), .sh_size = sizeof m->sym, .sh_link = STRTAB};
    m->s[STRTAB] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct made, strings), .sh_size = sizeof m->strings};
    m->s[DATA] = (Elf64_Shdr){.sh_name = 21, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_offset = offsetof(struct made, text) + 32, .sh_size = 16, .sh_addralign = 8};
}
static int link_it(const struct made *m, struct nf_error *err)
{
    struct nf_buf code = NF_BUF_INIT;
    int rc = link_kernel(m, sizeof *m, "k0", false, &code, err);
    ck_assert(rc ? code.len == 0 : code.len >= 32);
    nf_buf_done(&code);
    return rc;
}

START_TEST(links_what_is_relative)
{
    struct made m;
    struct nf_error err = {0};
    make(&m, R_X86_64_PC32, DATA);
    ck_assert_msg(link_it(&m, &err) == 0, "%s", err.message);
}
END_TEST

static void refused(const struct made *m, const char *part)
{
    struct nf_error err = {0};
    ck_assert_int_eq(link_it(m, &err), NF_EINTERNAL);
    ck_assert_msg(strstr(err.message, part) != NULL, "%s", err.message);
}
START_TEST(link_refuses)
{
    struct made m;
    make(&m, R_X86_64_PLT32, SHN_UNDEF);
    refused(&m, "the code calls outside, which is no part of it");
    make(&m, R_X86_64_64, DATA);
    refused(&m, "relocation 1 of machine 62 is not one");
    make(&m, R_X86_64_GOTPCREL, DATA);
    refused(&m, "relocation 9 of machine 62 is not one");
    make(&m, R_X86_64_PC32, DATA);
    m.s[DATA].sh_flags |= SHF_WRITE;
    refused(&m, "a writable section");
    make(&m, R_X86_64_PC32, DATA);
    m.s[DATA].sh_type = SHT_NOBITS; /* .bss */
    refused(&m, "a section of type 8");
    make(&m, R_X86_64_PC32, DATA);
    m.rela.r_offset = 16;
    refused(&m, "a relocation outside its section");
    make(&m, R_X86_64_PC32, DATA);
    m.rela.r_info = ELF64_R_INFO(77, R_X86_64_PC32);
    refused(&m, "a bad symbol");
    make(&m, R_X86_64_PC32, DATA);
    m.h.e_machine = EM_AARCH64;
    refused(&m, "of aarch64 is not one");
}
END_TEST

/* Any byte of an object changed: refused or linked, never a crash. */
START_TEST(objects_with_wrong_bytes)
{
    struct made m;
    size_t bad = 0;
    for (size_t i = 0; i < sizeof m; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct nf_error err = {0};
            struct nf_buf code = NF_BUF_INIT;
            make(&m, R_X86_64_PC32, DATA);
            ((unsigned char *)&m)[i] ^= (unsigned char)(1 << bit);
            bad += link_kernel(&m, sizeof m, "k0", false, &code, &err) != 0;
            nf_buf_done(&code);
        }
    ck_assert_uint_gt(bad, 100);
}
END_TEST

/* ---------------------------------------------------------------------------------------------------------- artifacts */

static const char program[] =
    "func.func @main(%a: tensor<37x64xf32>, %b: tensor<64xf32>) -> (tensor<37xf32>, tensor<37x64xbf16>) {\n"
    "  %w = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<64xf32>) -> tensor<37x64xf32>\n"
    "  %s = stablehlo.sine %a : tensor<37x64xf32>\n  %t = stablehlo.multiply %s, %w : tensor<37x64xf32>\n"
    "  %i = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %r = stablehlo.reduce(%t init: %i) applies stablehlo.add across dimensions = [1] : (tensor<37x64xf32>, tensor<f32>) -> tensor<37xf32>\n"
    "  %h = stablehlo.convert %t : (tensor<37x64xf32>) -> tensor<37x64xbf16>\n"
    "  return %r, %h : tensor<37xf32>, tensor<37x64xbf16>\n}\n";

static int compile(const char *text, uint64_t features, struct nf_buf *neff, struct cg_report *r, struct nf_error *err)
{
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct cg_request q = {.tier = 1, .features = features};
    int rc = hlo_parse(nf_str_c(text), NULL, a, &m, err);
    if (!rc) rc = cg_compile(m, &q, neff, r, err);
    nf_arena_free(a);
    return rc;
}

START_TEST(code_of_a_stranger)
{
    char path[] = "/tmp/test_artifact_XXXXXX";
    struct nf_buf neff = NF_BUF_INIT;
    struct nf_error err = {0};
    struct rt_program *p = NULL;
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    if (geteuid() != 0) return; /* only root may give files away */
    ck_assert_msg(compile(program, 0, &neff, NULL, &err) == 0, "%s", err.message);
    o.file_fd = mkstemp(path);
    ck_assert_int_ge(o.file_fd, 0);
    unlink(path);
    ck_assert_int_eq(nf_fd_write_all(o.file_fd, neff.data, neff.len), 0);
    ck_assert_int_eq(fchown(o.file_fd, 12345, (gid_t)-1), 0);
    ck_assert_int_eq(rt_program_load(device, nf_buf_str(&neff), &o, &p, &err), NF_EPERM);
    ck_assert_msg(strstr(err.message, "belongs to user 12345") != NULL && err.hint[0], "%s", err.message);
    o.trusted_uid = 12345;
    ck_assert_msg(rt_program_load(device, nf_buf_str(&neff), &o, &p, &err) == 0, "%s", err.message);
    rt_program_unload(p);
    close(o.file_fd);
    nf_buf_done(&neff);
}
END_TEST

/* A system of larger pages, as some of aarch64 are: they can be had of a file at their own multiples only. */
static size_t large_page;
static int maps_of_code, maps_left;
long __real_sysconf(int name);
long __wrap_sysconf(int name);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
static char *code_at;
static size_t code_len;

long __wrap_sysconf(int name) { return large_page && name == _SC_PAGESIZE ? (long)large_page : __real_sysconf(name); }
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (large_page && offset % (off_t)large_page) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    void *p = __real_mmap64(at, len, prot, flags, fd, offset);
    if (large_page && prot & PROT_EXEC) {
        maps_of_code++;
        maps_left++;
        code_at = p;
        code_len = len;
    }
    return p;
}
int __wrap_munmap(void *at, size_t len)
{
    if (large_page && at == code_at && len == code_len) maps_left--;
    return __real_munmap(at, len);
}

START_TEST(code_in_large_pages)
{
    char path[] = "/tmp/test_artifact_XXXXXX";
    static float a[37 * 64], b[64], want[37], got[37];
    static uint16_t want_half[37 * 64], got_half[37 * 64];
    struct nf_buf neff = NF_BUF_INIT;
    struct nf_error err = {0};
    struct nf_str image;
    struct neff *n;
    struct rt_program *p = NULL;
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    for (int i = 0; i < 37 * 64; i++) a[i] = (float)(i % 100) / 7 - 6;
    for (int i = 0; i < 64; i++) b[i] = (float)i / 9;
    ck_assert_msg(compile(program, 0, &neff, NULL, &err) == 0, "%s", err.message);
    ck_assert_int_eq(neff_open(nf_buf_str(&neff), &n, &err), 0);
    ck_assert(neff_member(n, CPU_MEMBER_IMAGE, &image));
    ck_assert_uint_ne((size_t)(image.data - neff.data) % 65536, 0);
    neff_close(n);
    ck_assert_msg(rt_program_load(device, nf_buf_str(&neff), NULL, &p, &err) == 0, "%s", err.message);
    ck_assert_int_eq(rt_execute_host(p, (const void *[]){a, b}, (void *[]){want, want_half}, &err), 0);
    rt_program_unload(p);
    o.file_fd = mkstemp(path);
    ck_assert_int_ge(o.file_fd, 0);
    unlink(path);
    ck_assert_int_eq(nf_fd_write_all(o.file_fd, neff.data, neff.len), 0);
    large_page = 65536;
    ck_assert_msg(rt_program_load(device, nf_buf_str(&neff), &o, &p, &err) == 0, "%s", err.message);
    ck_assert_int_eq(maps_of_code, 1);
    struct stat st;
    ck_assert_int_eq(fstat(o.file_fd, &st), 0);
    char line[512];
    bool of_file = false;
    FILE *f = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long from, inode;
        if (sscanf(line, "%lx-%*x %*s %*x %*s %lu", &from, &inode) == 2 && (char *)from == code_at) of_file = inode == (unsigned long)st.st_ino;
    }
    fclose(f);
    ck_assert_msg(of_file, "the code is not mapped from its file");
    ck_assert_int_eq(rt_execute_host(p, (const void *[]){a, b}, (void *[]){got, got_half}, &err), 0);
    ck_assert_mem_eq(got, want, sizeof want);
    ck_assert_mem_eq(got_half, want_half, sizeof want_half);
    rt_program_unload(p);
    ck_assert_int_eq(maps_left, 0);
    large_page = 0;
    close(o.file_fd);
    nf_buf_done(&neff);
}
END_TEST

START_TEST(code_for_another_processor)
{
    const uint64_t others[] = {CPU_FEATURE_NEON, CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C | CPU_FEATURE_BMI | CPU_FEATURE_AVX512};
    ck_assert_uint_eq(cpu_features() & ~(others[0] | others[1]), 0); /* what no code uses is not asked for either */
    for (size_t i = 0; i < NF_ARRAY_LEN(others); i++) {
        struct nf_buf neff = NF_BUF_INIT;
        struct nf_error err = {0};
        struct rt_program *p = NULL;
        if (!(others[i] & ~cpu_features())) continue;
        ck_assert_msg(compile(program, others[i], &neff, NULL, &err) == 0, "%s", err.message);
        ck_assert_int_eq(rt_program_load(device, nf_buf_str(&neff), NULL, &p, &err), NF_EUNSUPPORTED);
        const char *lacks = strstr(err.message, "lacks: ");
        ck_assert_msg(lacks && strstr(lacks, i ? "avx512" : "neon") && err.hint[0], "%s", err.message);
        nf_buf_done(&neff);
    }
    struct nf_buf b = NF_BUF_INIT;
    cpu_features_print(CPU_FEATURE_AVX2 | (uint64_t)1 << 41, &b);   /* one that this version does not know */
    ck_assert_str_eq(b.data, "avx2 bit41");
    nf_buf_done(&b);
}
END_TEST

/* Every bit of the file counts: what checks files before they are mapped finds what loading does not, and nothing crashes. */
START_TEST(damaged_files)
{
    struct nf_buf neff = NF_BUF_INIT;
    struct nf_error err = {0};
    struct nf_str image;
    struct neff *n;
    ck_assert_msg(compile(program, 0, &neff, NULL, &err) == 0, "%s", err.message);
    ck_assert_int_eq(neff_open(nf_buf_str(&neff), &n, &err), 0);
    ck_assert(neff_member(n, CPU_MEMBER_IMAGE, &image));
    size_t from = (size_t)(image.data - neff.data), to = from + image.len, missed = 0, tried = 0;
    ck_assert_uint_eq(from % 4096, 0);
    neff_close(n);
    for (size_t i = 0; i < neff.len; i += i >= from && i < to ? 1 : 7) {
        struct rt_program *p = NULL;
        struct nf_arena *arena = nf_arena_new(0);
        const char *const *problems;
        neff.data[i] = (char)(neff.data[i] ^ (1 << i % 8));
        bool found = neff_check(nf_buf_str(&neff), &(struct neff_expect){.members = true, .hash = true}, arena, &problems, NULL) != 0;
        bool loads = rt_program_load(device, nf_buf_str(&neff), NULL, &p, &err) == 0;
        if (loads) rt_program_unload(p);
        if (i >= from && i < to) ck_assert_msg(found, "a change of the code at %zu was not noticed", i - from);
        if (i >= 1024 && loads && !found) missed++; /* the header is not part of its own hash: entries of a cache have one of the whole file */
        neff.data[i] = (char)(neff.data[i] ^ (1 << i % 8));
        nf_arena_free(arena);
        tried++;
    }
    ck_assert_msg(missed == 0, "%zu of %zu changes were not noticed", missed, tried);
    for (size_t k = 0; k < neff.len; k += 97) {
        struct rt_program *p = NULL;
        ck_assert_int_ne(rt_program_load(device, nf_str_n(neff.data, k), NULL, &p, &err), 0);
    }
    nf_buf_done(&neff);
}
END_TEST

/* --------------------------------------------------------------------------------------- processors that are elsewhere */

static const char *const functions[] = {"exponential", "log", "tanh", "sine", "cosine", "logistic", "rsqrt", "cbrt", "exponential_minus_one", "log_plus_one", "floor", "round_nearest_afz", "tan", "is_finite", "sign"};
static const char *const types[] = {"f32", "bf16", "f16", "f64", "f8E4M3FN", "f8E5M2"};
static const char *const binary[] = {"add", "divide", "remainder", "power", "maximum", "shift_right_logical", "multiply"};
static const char *const integers[] = {"i4", "i8", "i16", "i32", "i64", "ui8", "ui64"};
static const char *const complexes[] = {"exponential", "log", "sqrt", "tanh", "sine", "negate"};

/* Only code that needs nothing from outside links: relocations relative to the place, no calls into libraries. */
static void crosses(const char *text, uint64_t features)
{
    struct nf_buf neff = NF_BUF_INIT;
    struct nf_error err = {0};
    struct cg_report r = {0};
    struct nf_str image;
    struct neff *n;
    ck_assert_msg(compile(text, features, &neff, &r, &err) == 0, "%s\n%s", err.message, text);
    ck_assert_msg(r.native == r.distinct && r.native > 0, "%u of %u kernels have code\n%s", r.native, r.distinct, text);
    ck_assert_int_eq(neff_open(nf_buf_str(&neff), &n, &err), 0);
    ck_assert(neff_member(n, CPU_MEMBER_IMAGE, &image) && image.len > 0);
    neff_close(n);
    nf_buf_done(&neff);
}

START_TEST(cross_compiles)
{
    const uint64_t v3 = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C | CPU_FEATURE_BMI, target[] = {v3, v3 | CPU_FEATURE_AVX512, CPU_FEATURE_NEON};
    uint64_t f = target[_i];
    char text[1024];
    crosses(program, f);
    for (size_t t = 0; t < NF_ARRAY_LEN(types); t++)
        for (size_t i = 0; i < NF_ARRAY_LEN(functions); i++) {
            bool test = strcmp(functions[i], "is_finite") == 0;
            if (strcmp(functions[i], "cbrt") == 0 && strcmp(types[t], "f64") == 0) continue; /* interpreted */
            nf_format(text, sizeof text, "func.func @main(%%a: tensor<9x37x%s>) -> tensor<9x37x%s> {\n  %%r = stablehlo.%s %%a : (tensor<9x37x%s>) -> tensor<9x37x%s>\n  return %%r : tensor<9x37x%s>\n}\n", types[t],
                      test ? "i1" : types[t], functions[i], types[t], test ? "i1" : types[t], test ? "i1" : types[t]);
            crosses(text, f);
        }
    for (size_t t = 0; t < NF_ARRAY_LEN(integers); t++)
        for (size_t i = 0; i < NF_ARRAY_LEN(binary); i++) {
            nf_format(text, sizeof text, "func.func @main(%%a: tensor<9x37x%s>, %%b: tensor<9x37x%s>) -> tensor<37x9x%s> {\n  %%r = stablehlo.%s %%a, %%b : tensor<9x37x%s>\n  %%t = stablehlo.transpose %%r, dims = [1, 0] : (tensor<9x37x%s>) -> tensor<37x9x%s>\n  return %%t : tensor<37x9x%s>\n}\n",
                      integers[t], integers[t], integers[t], binary[i], integers[t], integers[t], integers[t], integers[t]);
            crosses(text, f);
        }
    for (size_t i = 0; i < NF_ARRAY_LEN(complexes); i++) {
        nf_format(text, sizeof text, "func.func @main(%%a: tensor<37xcomplex<f32>>) -> tensor<37xcomplex<f32>> {\n  %%r = stablehlo.%s %%a : tensor<37xcomplex<f32>>\n  return %%r : tensor<37xcomplex<f32>>\n}\n", complexes[i]);
        crosses(text, f);
    }
    for (size_t t = 0; t < 4; t++)
        for (int d = 0; d < 2; d++) {
            nf_format(text, sizeof text, "func.func @main(%%a: tensor<40x70x%s>) -> tensor<%dx%s> {\n  %%i = stablehlo.constant dense<0.0> : tensor<%s>\n  %%r = stablehlo.reduce(%%a init: %%i) applies stablehlo.add across dimensions = [%d] : (tensor<40x70x%s>, tensor<%s>) -> tensor<%dx%s>\n  return %%r : tensor<%dx%s>\n}\n",
                      types[t], d ? 40 : 70, types[t], types[t], d, types[t], types[t], d ? 40 : 70, types[t], d ? 40 : 70, types[t]);
            crosses(text, f);
        }
}
END_TEST

static void keep_assembly(void *user, const char *stage, struct nf_str text)
{
    if (strcmp(stage, "assembly") == 0) nf_buf_add_str(user, text);
}

/* Code for NEON asks for no more than every aarch64 processor has: f16 is converted, but not put into registers or computed with, which
 * ARMv8.2 brought. */
START_TEST(code_for_every_aarch64_processor)
{
    static const char text[] =
        "func.func @main(%p: tensor<9x37xi1>, %n: tensor<9x37xi8>) -> (tensor<9x37xf16>, tensor<3xf16>, tensor<9x37xf16>, tensor<f16>) {\n  %s = stablehlo.constant dense<3> : tensor<1xi64>\n"
        "  %a = stablehlo.constant dense<1.5> : tensor<9x37xf16>\n  %b = stablehlo.constant dense<9.1> : tensor<9x37xf16>\n"
        "  %r = stablehlo.select %p, %a, %b : tensor<9x37xi1>, tensor<9x37xf16>\n  %z = stablehlo.constant dense<1.0> : tensor<f16>\n"
        "  %one = stablehlo.rng %z, %z, %s, distribution = UNIFORM : (tensor<f16>, tensor<f16>, tensor<1xi64>) -> tensor<3xf16>\n"
        "  %c = stablehlo.convert %n : (tensor<9x37xi8>) -> tensor<9x37xf16>\n"
        "  %m = stablehlo.reduce(%c init: %z) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<9x37xf16>, tensor<f16>) -> tensor<f16>\n"
        "  return %r, %one, %c, %m : tensor<9x37xf16>, tensor<3xf16>, tensor<9x37xf16>, tensor<f16>\n}\n";
    struct nf_buf neff = NF_BUF_INIT, assembly = NF_BUF_INIT;
    struct nf_error err = {0};
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct cg_request q = {.tier = 1, .features = CPU_FEATURE_NEON, .print = keep_assembly, .print_user = &assembly};
    ck_assert_msg(hlo_parse(nf_str_c(text), NULL, a, &m, &err) == 0, "%s", err.message);
    ck_assert_msg(cg_compile(m, &q, &neff, NULL, &err) == 0, "%s", err.message);
    ck_assert_ptr_nonnull(strstr(assembly.data, "fcvt"));
    static const char *const not_in_the_first[] = {"\tfmov\th", "\tscvtf\th", "\tucvtf\th", "\tfadd\th", "\tfmax\th"};
    for (size_t i = 0; i < NF_ARRAY_LEN(not_in_the_first); i++) ck_assert_msg(!strstr(assembly.data, not_in_the_first[i]), "%s", not_in_the_first[i]);
    nf_arena_free(a);
    nf_buf_done(&neff);
    nf_buf_done(&assembly);
}
END_TEST

/* A kernel's bytes do not depend on what else is compiled with it, so that they are the same with and without a cache: constants of every size,
 * for every processor. */
START_TEST(kernels_do_not_depend_on_their_neighbours)
{
    const uint64_t v3 = CPU_FEATURE_AVX2 | CPU_FEATURE_FMA | CPU_FEATURE_F16C | CPU_FEATURE_BMI, target[] = {v3, v3 | CPU_FEATURE_AVX512, CPU_FEATURE_NEON};
    enum { KERNELS = 10 };
    static const char *const element[KERNELS] = {"i8", "i16", "f32", "i32", "f64", "ui8", "ui16", "bf16", "f16", "i64"};
    char dir[] = "/tmp/nf-kernels-XXXXXX", path[64];
    struct cg_artifact art[3];
    struct nf_error err = {0};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    memset(art, 0, sizeof art);
    for (int round = 0; round < 3; round++) { /* into the cache one by one, all from it, all at once without it */
        struct nf_buf args = NF_BUF_INIT, body = NF_BUF_INIT, results = NF_BUF_INIT, names = NF_BUF_INIT, text = NF_BUF_INIT;
        for (int i = 0; i < KERNELS; i++) {
            char t[64];
            struct nf_buf *one[] = {&args, &body, &results, &names};
            for (size_t k = 0; k < NF_ARRAY_LEN(one) && !round; k++) one[k]->len = 0;
            const char *sep = args.len ? ", " : "";
            nf_format(t, sizeof t, "tensor<%dx%dx%s>", 3 + i, 70 + i, element[i]);
            nf_buf_addf(&args, "%s%%a%d: %s", sep, i, t);
            nf_buf_addf(&results, "%s%s", sep, t);
            nf_buf_addf(&names, "%s%%r%d", sep, i);
            nf_buf_addf(&body, "  %%c%d = stablehlo.constant dense<%d%s> : %s\n  %%s%d = stablehlo.add %%a%d, %%c%d : %s\n  %%r%d = stablehlo.reverse %%s%d, dims = [1] : %s\n", i, 3 + i,
                        strchr(element[i], 'f') ? ".0" : "", t, i, i, i, t, i, i, t);
            if (round && i + 1 < KERNELS) continue;
            text.len = 0;
            nf_buf_addf(&text, "func.func @main(%s) -> (%s) {\n%s  return %s : %s\n}\n", args.data, results.data, body.data, names.data, results.data);
            struct nf_arena *a = nf_arena_new(0);
            struct hlo_module *m;
            struct cg_request q = {.tier = 1, .features = target[_i], .cache_dir = round < 2 ? dir : NULL};
            cg_artifact_done(&art[round]);
            ck_assert_msg(hlo_parse(nf_buf_str(&text), NULL, a, &m, &err) == 0, "%s", err.message);
            ck_assert_msg(cg_build(m, &q, &art[round], &err) == 0, "%s", err.message);
            nf_arena_free(a);
        }
        struct nf_buf *every[] = {&args, &body, &results, &names, &text};
        for (size_t k = 0; k < NF_ARRAY_LEN(every); k++) nf_buf_done(every[k]);
    }
    ck_assert_uint_eq(art[1].report.native, KERNELS);
    ck_assert_uint_eq(art[1].report.cached, KERNELS);
    ck_assert(nf_str_eq(nf_buf_str(&art[1].image), nf_buf_str(&art[2].image)));
    for (int i = 0; i < 3; i++) cg_artifact_done(&art[i]);
    for (int k = 0; k < 4096; k++) {
        nf_format(path, sizeof path, "%s/%03x", dir, (unsigned)k);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
    struct nf_error err = {0};
    struct nf_buf neff = NF_BUF_INIT;
    rt_device_register(&cpu_device_ops);
    if (rt_device_open("cpu", &(struct rt_device_config){.threads = 1}, &device, &err)) return 1;
    if (compile(program, 0, &neff, NULL, &err)) return 1; /* libLLVM is loaded before the cases fork */
    nf_buf_done(&neff);
    Suite *s = suite_create("artifact");
    TCase *c = tcase_create("artifact");
    tcase_set_timeout(c, 240);
    tcase_add_test(c, links_what_is_relative);
    tcase_add_test(c, link_refuses);
    tcase_add_test(c, objects_with_wrong_bytes);
    tcase_add_test(c, code_of_a_stranger);
    tcase_add_test(c, code_in_large_pages);
    tcase_add_test(c, code_for_another_processor);
    tcase_add_test(c, damaged_files);
    tcase_add_test(c, code_for_every_aarch64_processor);
    tcase_add_loop_test(c, kernels_do_not_depend_on_their_neighbours, 0, 3);
    tcase_add_loop_test(c, cross_compiles, 0, 3);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
