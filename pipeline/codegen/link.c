/* link.c: the code of one kernel, cut out of the object that LLVM made of several.
 *
 * A kernel's function has a section of its own. It comes first, then the constants that it reads: single entries of the sections that all
 * functions share, so that the bytes do not depend on which kernels were compiled together; that is why they can be kept and used again.
 * Functions and tables that several kernels use have sections of their own and are taken whole. Constants of sizes that have no section of
 * entries (a byte, two, 64) lie in .rodata, where nothing says where one ends: who reads them is compiled alone.
 * Relocations are relative to the place and so are applied here, once. What cannot be applied here is an error: it would mean a call into
 * a library, a writable variable or an address that depends on where the code lies. Objects come from our own LLVM, but every offset in
 * them is checked. */
#include "pipeline/codegen/emit_internal.h"

#include <elf.h>

#define FAIL(...) return nf_fail(err, NF_EINTERNAL, "linking kernels: " __VA_ARGS__)

static bool inside(size_t size, uint64_t off, uint64_t len) { return off <= size && len <= size - off; }

static int patch(struct nf_buf *code, uint16_t machine, uint32_t type, uint64_t at, int64_t target, struct nf_error *err)
{
    int64_t d = target - (int64_t)at;
    uint32_t w;
    if (at + 4 > code->len) FAIL("a relocation outside the image");
    memcpy(&w, code->data + at, 4);
    if (machine == EM_X86_64 && (type == R_X86_64_PC32 || type == R_X86_64_PLT32)) {
        if (d > INT32_MAX || d < INT32_MIN) FAIL("an image of more than 2 GiB");
        w = (uint32_t)d;
    } else if (machine == EM_AARCH64) {
        int64_t page = ((target & ~(int64_t)4095) - ((int64_t)at & ~(int64_t)4095)) >> 12; /* code of aarch64 is laid at a page */
        switch (type) {
        case R_AARCH64_CALL26:
        case R_AARCH64_JUMP26: w |= (uint32_t)(d >> 2) & 0x3ffffff; break;
        case R_AARCH64_ADR_PREL_PG_HI21: w |= (uint32_t)(page & 3) << 29 | (uint32_t)(page >> 2 & 0x7ffff) << 5; break;
        case R_AARCH64_ADD_ABS_LO12_NC:
        case R_AARCH64_LDST8_ABS_LO12_NC: w |= (uint32_t)(target & 4095) << 10; break;
        case R_AARCH64_LDST16_ABS_LO12_NC: w |= (uint32_t)(target >> 1 & 2047) << 10; break;
        case R_AARCH64_LDST32_ABS_LO12_NC: w |= (uint32_t)(target >> 2 & 1023) << 10; break;
        case R_AARCH64_LDST64_ABS_LO12_NC: w |= (uint32_t)(target >> 3 & 511) << 10; break;
        case R_AARCH64_LDST128_ABS_LO12_NC: w |= (uint32_t)(target >> 4 & 255) << 10; break;
        default: FAIL("relocation %u of aarch64 is not one that code without libraries needs", type);
        }
    } else {
        FAIL("relocation %u of machine %u is not one that code without libraries needs", type, machine);
    }
    memcpy(code->data + at, &w, 4);
    return 0;
}

struct object {
    const uint8_t *o;
    size_t size;
    bool alone;           /* of one kernel: what cannot be cut is taken whole */
    Elf64_Ehdr h;
    Elf64_Shdr *s;
    uint64_t *base;       /* of each section that is taken whole, + 1; 0: not taken */
    struct entry {        /* of sections of constants */
        uint32_t section;
        uint64_t from, at;
    } *entry;
    size_t nentry;
};

static const char *string_at(const struct object *x, uint32_t section, uint32_t offset)
{
    if (section >= x->h.e_shnum || x->s[section].sh_type != SHT_STRTAB || !inside(x->size, x->s[section].sh_offset, x->s[section].sh_size)) return NULL;
    const Elf64_Shdr *t = &x->s[section];
    if (offset >= t->sh_size || !memchr(x->o + t->sh_offset + offset, 0, t->sh_size - offset)) return NULL;
    return (const char *)x->o + t->sh_offset + offset;
}

static uint64_t place(struct nf_buf *code, const struct object *x, uint32_t section, uint64_t from, uint64_t size, uint64_t align)
{
    static const char zero[4096];
    nf_buf_add(code, zero, (size_t)((align - code->len % align) % align));
    uint64_t at = code->len;
    nf_buf_add(code, x->o + x->s[section].sh_offset + from, (size_t)size);
    return at;
}

/* Where what `to` in the section was refers to lies now. */
static int target_of(struct object *x, struct nf_buf *code, uint32_t section, int64_t to, int64_t *ret_target, struct nf_error *err)
{
    const Elf64_Shdr *s = &x->s[section];
    if (!(s->sh_flags & SHF_ALLOC) || s->sh_flags & SHF_WRITE) FAIL("a writable section");
    if (s->sh_type != SHT_PROGBITS || !inside(x->size, s->sh_offset, s->sh_size) || s->sh_size > 1 << 24) FAIL("a section of type %u", s->sh_type);
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1, each = s->sh_entsize;
    if (align > 4096 || align & (align - 1)) FAIL("a section of alignment %llu", (unsigned long long)align);
    const char *name = string_at(x, x->h.e_shstrndx, s->sh_name);
    if (!x->base[section] && (!name || strcmp(name, ".text") == 0 || strncmp(name, ".text.k", 7) == 0)) FAIL("the code calls another kernel");
    bool shared = strcmp(name ? name : "", ".rodata") == 0;
    if (!x->base[section] && s->sh_flags & SHF_MERGE && each && !(each & (each - 1))) {
        /* Operands relative to the end of an instruction: four bytes back, and one more where a byte of immediate follows. */
        int64_t from = to;
        for (int back = 0; x->h.e_machine == EM_X86_64 && back < 2; back++)
            if ((to + 4 + back) % (int64_t)each == 0) {
                from = to + 4 + back;
                break;
            }
        if (from < 0 || !inside(s->sh_size, (uint64_t)from, each)) FAIL("a reference outside the constants");
        shared = from % (int64_t)each; /* into the middle of one */
        size_t i = 0;
        while (i < x->nentry && (x->entry[i].section != section || x->entry[i].from != (uint64_t)from)) i++;
        if (!shared && i == x->nentry) {
            if ((x->nentry & (x->nentry - 1)) == 0) x->entry = nf_realloc(x->entry, (x->nentry ? x->nentry * 2 : 1) * sizeof *x->entry);
            x->entry[x->nentry++] = (struct entry){section, (uint64_t)from, place(code, x, section, (uint64_t)from, each, NF_MAX(align, each))};
        }
        *ret_target = shared ? 0 : (int64_t)x->entry[i].at + (to - from);
        if (!shared) return 0;
    }
    if (shared && !x->alone) return LINK_ALONE;
    if (!x->base[section]) x->base[section] = place(code, x, section, 0, s->sh_size, align) + 1;
    *ret_target = (int64_t)x->base[section] - 1 + to;
    return 0;
}

static int relocate(struct object *x, struct nf_buf *code, const Elf64_Shdr *rs, struct nf_error *err)
{
    if (rs->sh_link >= x->h.e_shnum || !inside(x->size, rs->sh_offset, rs->sh_size)) FAIL("a bad relocation section");
    const Elf64_Shdr *ss = &x->s[rs->sh_link];
    if (ss->sh_type != SHT_SYMTAB || !inside(x->size, ss->sh_offset, ss->sh_size)) FAIL("a bad symbol table");
    for (uint64_t k = 0; k < rs->sh_size / sizeof(Elf64_Rela); k++) {
        Elf64_Rela r;
        Elf64_Sym y;
        int64_t target = 0;
        memcpy(&r, x->o + rs->sh_offset + k * sizeof r, sizeof r);
        uint64_t n = ELF64_R_SYM(r.r_info);
        if (n >= ss->sh_size / sizeof y) FAIL("a bad symbol");
        memcpy(&y, x->o + ss->sh_offset + n * sizeof y, sizeof y);
        if (y.st_shndx == SHN_UNDEF || y.st_shndx >= x->h.e_shnum) {
            const char *name = string_at(x, ss->sh_link, y.st_name);
            FAIL("the code calls %s, which is no part of it", name && *name ? name : "something");
        }
        if (r.r_offset >= x->s[rs->sh_info].sh_size || y.st_value > 1 << 24 || r.r_addend > 1 << 24 || r.r_addend < -(1 << 24)) FAIL("a relocation outside its section");
        int rc = target_of(x, code, y.st_shndx, (int64_t)y.st_value + r.r_addend, &target, err);
        if (!rc) rc = patch(code, x->h.e_machine, (uint32_t)ELF64_R_TYPE(r.r_info), x->base[rs->sh_info] - 1 + r.r_offset, target, err);
        if (rc) return rc;
    }
    return 0;
}

static int find_function(struct object *x, const char *wanted, struct nf_error *err)
{
    for (uint32_t i = 0; i < x->h.e_shnum; i++) {
        const Elf64_Shdr *s = &x->s[i];
        if (s->sh_flags & SHF_ALLOC && s->sh_flags & SHF_WRITE && s->sh_size) FAIL("a writable section");
        if (s->sh_type != SHT_SYMTAB || !inside(x->size, s->sh_offset, s->sh_size)) continue;
        for (uint64_t k = 0; k < s->sh_size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym y;
            memcpy(&y, x->o + s->sh_offset + k * sizeof y, sizeof y);
            const char *name = string_at(x, s->sh_link, y.st_name);
            if (name && strcmp(name, wanted) == 0 && ELF64_ST_TYPE(y.st_info) == STT_FUNC && y.st_shndx < x->h.e_shnum && y.st_value == 0) return y.st_shndx;
        }
    }
    FAIL("%s is missing", wanted);
}

int link_kernel(const void *object, size_t size, const char *name, bool alone, struct nf_buf *ret_code, struct nf_error *err)
{
    struct object x = {.o = object, .size = size, .alone = alone};
    struct nf_buf code = NF_BUF_INIT;
    if (size < sizeof x.h) FAIL("an object that is too short");
    memcpy(&x.h, object, sizeof x.h);
    if (memcmp(x.h.e_ident, ELFMAG, SELFMAG) != 0 || x.h.e_type != ET_REL || x.h.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(size, x.h.e_shoff, (uint64_t)x.h.e_shnum * sizeof(Elf64_Shdr)))
        FAIL("not a relocatable object");
    x.s = nf_alloc_array(x.h.e_shnum + 1u, sizeof *x.s);
    x.base = nf_alloc_array(x.h.e_shnum + 1u, sizeof *x.base);
    memcpy(x.s, x.o + x.h.e_shoff, x.h.e_shnum * sizeof *x.s);
    int f = find_function(&x, name, err), rc = f < 0 ? f : 0;
    if (!rc && (x.s[f].sh_type != SHT_PROGBITS || !(x.s[f].sh_flags & SHF_EXECINSTR) || !inside(size, x.s[f].sh_offset, x.s[f].sh_size)))
        rc = nf_fail(err, NF_EINTERNAL, "linking kernels: %s is no code", name);
    if (!rc) x.base[f] = place(&code, &x, (uint32_t)f, 0, x.s[f].sh_size, 64) + 1;
    for (bool more = true; more && !rc;) { /* sections that were taken have relocations too */
        more = false;
        for (int i = 0; i < x.h.e_shnum && !rc; i++) {
            Elf64_Shdr *s = &x.s[i];
            if (s->sh_type != SHT_RELA || s->sh_info >= x.h.e_shnum || !x.base[s->sh_info]) continue;
            rc = relocate(&x, &code, s, err);
            s->sh_type = SHT_NULL;
            more = true;
        }
    }
    if (!rc) nf_buf_add(ret_code, code.data, code.len);
    nf_buf_done(&code);
    free(x.s);
    free(x.base);
    free(x.entry);
    return rc;
}
