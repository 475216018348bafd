/* link.c: lays the sections of relocatable objects out in one image that runs wherever it is mapped.
 *
 * Code first, then read-only data, each section at a multiple of 64; relocations are relative to the place and so are applied
 * here, once. What cannot be applied here is an error: it would mean a call into a library, a writable variable or an address
 * that depends on where the image lies. Objects come from our own LLVM, but every offset in them is checked. */
#include "pipeline/codegen/emit_internal.h"

#include <elf.h>

#define FAIL(...) return nf_fail(err, NF_EINTERNAL, "linking kernels: " __VA_ARGS__)

static bool inside(size_t size, uint64_t off, uint64_t len) { return off <= size && len <= size - off; }

static int patch(struct link_image *l, uint16_t machine, uint32_t type, uint64_t at, int64_t target, struct nf_error *err)
{
    int64_t d = target - (int64_t)at;
    uint32_t w;
    if (at + 4 > l->bytes.len) FAIL("a relocation outside the image");
    memcpy(&w, l->bytes.data + at, 4);
    if (machine == EM_X86_64 && (type == R_X86_64_PC32 || type == R_X86_64_PLT32)) {
        if (d > INT32_MAX || d < INT32_MIN) FAIL("an image of more than 2 GiB");
        w = (uint32_t)d;
    } else if (machine == EM_AARCH64) {
        int64_t page = ((target & ~(int64_t)4095) - ((int64_t)at & ~(int64_t)4095)) >> 12; /* the image is mapped at a page */
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
    memcpy(l->bytes.data + at, &w, 4);
    return 0;
}

static void add_symbol(struct link_image *l, const char *name, uint64_t offset)
{
    if (l->nsymbol == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        l->symbols = nf_realloc(l->symbols, l->cap * sizeof *l->symbols);
    }
    nf_format(l->symbols[l->nsymbol].name, sizeof l->symbols->name, "%s", name);
    l->symbols[l->nsymbol++].offset = offset;
}

struct object {
    const uint8_t *o;
    size_t size;
    Elf64_Ehdr h;
    Elf64_Shdr *s;
    uint64_t *base;       /* of each section in the image, + 1; 0: not there */
};

static const char *string_at(const struct object *x, uint32_t section, uint32_t offset)
{
    if (section >= x->h.e_shnum || x->s[section].sh_type != SHT_STRTAB || !inside(x->size, x->s[section].sh_offset, x->s[section].sh_size)) return NULL;
    const Elf64_Shdr *t = &x->s[section];
    if (offset >= t->sh_size || !memchr(x->o + t->sh_offset + offset, 0, t->sh_size - offset)) return NULL;
    return (const char *)x->o + t->sh_offset + offset;
}

static int lay_out(struct link_image *l, struct object *x, struct nf_error *err)
{
    uint64_t end = l->bytes.len;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->h.e_shnum; i++) {
            const Elf64_Shdr *s = &x->s[i];
            if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0 || !(s->sh_flags & SHF_EXECINSTR) != (pass == 1)) continue;
            if (s->sh_flags & SHF_WRITE) FAIL("a writable section");
            if (s->sh_type == SHT_X86_64_UNWIND) continue;
            if (s->sh_type != SHT_PROGBITS || !inside(x->size, s->sh_offset, s->sh_size) || s->sh_addralign > 4096) FAIL("a section of type %u", s->sh_type);
            uint64_t align = s->sh_addralign < 64 ? 64 : s->sh_addralign;
            end = (end + align - 1) / align * align;
            x->base[i] = end + 1;
            end += s->sh_size;
        }
    size_t old = l->bytes.len;
    if (!nf_buf_reserve(&l->bytes, (size_t)end - old)) FAIL("no memory");
    memset(l->bytes.data + old, 0, (size_t)end - old);
    l->bytes.len = (size_t)end;
    for (int i = 0; i < x->h.e_shnum; i++)
        if (x->base[i]) memcpy(l->bytes.data + x->base[i] - 1, x->o + x->s[i].sh_offset, x->s[i].sh_size);
    return 0;
}

static int relocate(struct link_image *l, const struct object *x, const Elf64_Shdr *rs, struct nf_error *err)
{
    if (rs->sh_link >= x->h.e_shnum || !inside(x->size, rs->sh_offset, rs->sh_size)) FAIL("a bad relocation section");
    const Elf64_Shdr *ss = &x->s[rs->sh_link];
    if (ss->sh_type != SHT_SYMTAB || !inside(x->size, ss->sh_offset, ss->sh_size)) FAIL("a bad symbol table");
    for (uint64_t k = 0; k < rs->sh_size / sizeof(Elf64_Rela); k++) {
        Elf64_Rela r;
        Elf64_Sym y;
        memcpy(&r, x->o + rs->sh_offset + k * sizeof r, sizeof r);
        uint64_t n = ELF64_R_SYM(r.r_info);
        if (n >= ss->sh_size / sizeof y) FAIL("a bad symbol");
        memcpy(&y, x->o + ss->sh_offset + n * sizeof y, sizeof y);
        if (y.st_shndx == SHN_UNDEF || y.st_shndx >= x->h.e_shnum || !x->base[y.st_shndx]) {
            const char *name = string_at(x, ss->sh_link, y.st_name);
            FAIL("the code calls %s, which is no part of it", name && *name ? name : "something");
        }
        if (r.r_offset >= x->s[rs->sh_info].sh_size) FAIL("a relocation outside its section");
        int rc = patch(l, x->h.e_machine, (uint32_t)ELF64_R_TYPE(r.r_info), x->base[rs->sh_info] - 1 + r.r_offset, (int64_t)(x->base[y.st_shndx] - 1 + y.st_value) + r.r_addend, err);
        if (rc) return rc;
    }
    return 0;
}

int link_add(struct link_image *l, const void *object, size_t size, struct nf_error *err)
{
    struct object x = {.o = object, .size = size};
    int rc = 0;
    if (size < sizeof x.h) FAIL("an object that is too short");
    memcpy(&x.h, object, sizeof x.h);
    if (memcmp(x.h.e_ident, ELFMAG, SELFMAG) != 0 || x.h.e_type != ET_REL || x.h.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(size, x.h.e_shoff, (uint64_t)x.h.e_shnum * sizeof(Elf64_Shdr)))
        FAIL("not a relocatable object");
    x.s = nf_alloc_array(x.h.e_shnum + 1u, sizeof *x.s);
    x.base = nf_alloc_array(x.h.e_shnum + 1u, sizeof *x.base);
    memcpy(x.s, x.o + x.h.e_shoff, x.h.e_shnum * sizeof *x.s);
    rc = lay_out(l, &x, err);
    for (int i = 0; i < x.h.e_shnum && !rc; i++) {
        const Elf64_Shdr *s = &x.s[i];
        if (s->sh_type == SHT_RELA && s->sh_info < x.h.e_shnum && x.base[s->sh_info]) rc = relocate(l, &x, s, err);
        if (s->sh_type != SHT_SYMTAB || !inside(size, s->sh_offset, s->sh_size)) continue;
        for (uint64_t k = 0; k < s->sh_size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym y;
            memcpy(&y, x.o + s->sh_offset + k * sizeof y, sizeof y);
            const char *name = string_at(&x, s->sh_link, y.st_name);
            if (name && ELF64_ST_TYPE(y.st_info) == STT_FUNC && ELF64_ST_BIND(y.st_info) == STB_GLOBAL && y.st_shndx < x.h.e_shnum && x.base[y.st_shndx])
                add_symbol(l, name, x.base[y.st_shndx] - 1 + y.st_value);
        }
    }
    free(x.s);
    free(x.base);
    return rc;
}

bool link_find(const struct link_image *l, const char *name, uint64_t *ret_offset)
{
    for (size_t i = 0; i < l->nsymbol; i++)
        if (strcmp(l->symbols[i].name, name) == 0) {
            *ret_offset = l->symbols[i].offset;
            return true;
        }
    return false;
}

void link_done(struct link_image *l)
{
    nf_buf_done(&l->bytes);
    free(l->symbols);
    l->symbols = NULL;
    l->nsymbol = l->cap = 0;
}
