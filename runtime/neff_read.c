#include "runtime/neff.h"

#include "base/reader.h"
#include "runtime/neff_internal.h"

static void take_text(struct nf_reader *r, size_t field, char *out)
{
    struct nf_str s = nf_reader_bytes(r, field);
    size_t len = 0;
    while (len < s.len && s.data[len])
        len++;
    if (len > 0)
        memcpy(out, s.data, len);
    out[len] = 0;
}

void neff__header_decode(const uint8_t *bytes, struct neff_header *ret_header)
{
    struct nf_reader r = nf_reader_of(nf_str_n(bytes, NEFF_HEADER_BYTES));
    struct neff_header h = {0};
    h.pkg_version = nf_reader_u64le(&r);
    h.header_size = nf_reader_u64le(&r);
    h.data_size = nf_reader_u64le(&r);
    h.version_major = nf_reader_u64le(&r);
    h.version_minor = nf_reader_u64le(&r);
    take_text(&r, 128, h.build_version);
    h.num_tpb = nf_reader_u32le(&r);
    memcpy(h.hash, nf_reader_bytes(&r, 32).data, 32);
    memcpy(h.uuid, nf_reader_bytes(&r, 16).data, 16);
    take_text(&r, 256, h.name);
    h.requested_tpb_count = nf_reader_u32le(&r);
    memcpy(h.tpb_per_node, nf_reader_bytes(&r, 64).data, 64);
    h.feature_bits = nf_reader_u64le(&r);
    h.lnc_size = nf_reader_u32le(&r);
    *ret_header = h;
}

bool neff_header_peek(struct nf_str bytes, struct neff_header *ret_header)
{
    if (bytes.len < NEFF_HEADER_BYTES)
        return false;
    neff__header_decode((const uint8_t *)bytes.data, ret_header);
    return true;
}

int neff_header_read(struct nf_str bytes, uint64_t file_bytes, struct neff_header *ret_header, struct nf_error *err)
{
    if (bytes.len < NEFF_HEADER_BYTES || file_bytes < NEFF_HEADER_BYTES)
        return nf_fail(err, NF_ECORRUPT, "not a NEFF: %llu bytes, the header alone has 1024",
                       (unsigned long long)NF_MIN((uint64_t)bytes.len, file_bytes));
    struct neff_header h;
    neff__header_decode((const uint8_t *)bytes.data, &h);
    if (h.header_size != NEFF_HEADER_BYTES) {
        nf_fail(err, NF_ECORRUPT, "not a NEFF: header_size is %llu, not 1024", (unsigned long long)h.header_size);
        nf_error_location(err, "byte 8");
        return NF_ECORRUPT;
    }
    if (h.data_size != file_bytes - NEFF_HEADER_BYTES) {
        nf_fail(err, NF_ECORRUPT, "damaged NEFF: %llu bytes after the header, its data_size says %llu",
                (unsigned long long)(file_bytes - NEFF_HEADER_BYTES), (unsigned long long)h.data_size);
        nf_error_location(err, "byte 16");
        return NF_ECORRUPT;
    }
    if (h.version_major == 0) {
        nf_fail(err, NF_ECORRUPT, "not a NEFF: version 0");
        nf_error_location(err, "byte 24");
        return NF_ECORRUPT;
    }
    *ret_header = h;
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------------------ tar */

bool neff__zero_block(const uint8_t *block)
{
    static const uint8_t zero[TAR_BLOCK];
    return memcmp(block, zero, TAR_BLOCK) == 0;
}

uint32_t neff__tar_sum(const uint8_t *block)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += block[i];
    for (size_t i = TAR_SUM; i < TAR_SUM + 8; i++) /* counts as spaces */
        sum += (uint32_t)' ' - block[i];
    return sum;
}

/* Octal digits with leading spaces and an end of NUL or space, or (bit 7 of the first byte) a big-endian binary number. */
static bool tar_number(const uint8_t *field, size_t len, uint64_t *ret_value)
{
    uint64_t v = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        if (field[0] != 0x80)
            return false;
        for (i = 1; i < len; i++) {
            if (v >> 56)
                return false;
            v = v << 8 | field[i];
        }
        *ret_value = v;
        return true;
    }
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        if (v >> 60)
            return false;
        v = v << 3 | (uint64_t)(field[i] - '0');
    }
    for (; i < len; i++)
        if (field[i] != 0 && field[i] != ' ')
            return false;
    *ret_value = v;
    return true;
}

static int bad_tar(struct nf_error *err, size_t archive_offset, const char *what)
{
    nf_fail(err, NF_ECORRUPT, "damaged NEFF archive: %s", what);
    nf_error_location(err, "byte %zu", NEFF_HEADER_BYTES + archive_offset);
    return NF_ECORRUPT;
}

/* pax records: "LENGTH KEY=VALUE\n". Only path and size matter here. */
static bool pax_records(struct nf_str data, struct nf_str *ret_path, uint64_t *ret_size, bool *ret_has_size)
{
    while (data.len > 0) {
        size_t len = 0, digits = 0;
        while (digits < data.len && digits < 12 && data.data[digits] >= '0' && data.data[digits] <= '9')
            len = len * 10 + (size_t)(data.data[digits++] - '0');
        if (digits == 0 || digits >= data.len || data.data[digits] != ' ' || len > data.len || len < digits + 3 ||
            data.data[len - 1] != '\n')
            return false;
        struct nf_str record = nf_str_n(data.data + digits + 1, len - digits - 2);
        const char *eq = memchr(record.data, '=', record.len);
        if (!eq)
            return false;
        struct nf_str key = nf_str_n(record.data, (size_t)(eq - record.data));
        struct nf_str value = nf_str_n(eq + 1, record.len - key.len - 1);
        if (nf_str_eq_c(key, "path"))
            *ret_path = value;
        else if (nf_str_eq_c(key, "size")) {
            if (nf_str_to_u64(value, ret_size) != NF_OK)
                return false;
            *ret_has_size = true;
        }
        data = nf_str_n(data.data + len, data.len - len);
    }
    return true;
}

static struct nf_str field_text(const uint8_t *field, size_t len)
{
    const uint8_t *nul = memchr(field, 0, len);
    return nf_str_n(field, nul ? (size_t)(nul - field) : len);
}

static int add_member(struct neff *n, struct nf_str prefix, struct nf_str name, struct nf_str data, size_t at, struct nf_error *err)
{
    if (n->member_count == NEFF_MEMBERS_MAX)
        return bad_tar(err, at, "too many members");
    if (prefix.len == 0)
        while (name.len > 2 && name.data[0] == '.' && name.data[1] == '/')
            name = nf_str_n(name.data + 2, name.len - 2);
    size_t len = prefix.len + (prefix.len ? 1 : 0) + name.len;
    if (name.len == 0 || len > 255)
        return bad_tar(err, at, "a member's name is empty or longer than 255 bytes");
    if (memchr(name.data, 0, name.len))
        return bad_tar(err, at, "a member's name holds a NUL");
    char *copy = nf_arena_alloc_raw(n->arena, len + 1);
    if (prefix.len) {
        memcpy(copy, prefix.data, prefix.len);
        copy[prefix.len] = '/';
    }
    memcpy(copy + len - name.len, name.data, name.len);
    copy[len] = 0;
    if (n->member_count == n->member_cap) {
        n->member_cap = n->member_cap ? n->member_cap * 2 : 16;
        n->members = nf_realloc(n->members, n->member_cap * sizeof(*n->members));
    }
    n->members[n->member_count++] = (struct neff__member){copy, data};
    return NF_OK;
}

static int walk(struct neff *n, struct nf_str tar, struct nf_error *err)
{
    const uint8_t *p = (const uint8_t *)tar.data;
    struct nf_str long_name = {0};
    uint64_t pax_size = 0;
    bool has_pax_size = false;
    size_t at = 0;

    for (;;) {
        if (tar.len - at < TAR_BLOCK)
            return bad_tar(err, at, "it has no end mark");
        const uint8_t *h = p + at;
        if (neff__zero_block(h))
            return NF_OK;
        uint64_t sum, size;
        if (!tar_number(h + TAR_SUM, 8, &sum) || sum != neff__tar_sum(h))
            return bad_tar(err, at, "a member's header has a wrong checksum");
        if (!tar_number(h + TAR_SIZE, 12, &size))
            return bad_tar(err, at, "a member's size is not a number");
        char type = (char)h[TAR_TYPE];
        bool regular = type == '0' || type == 0 || type == '7';
        bool extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
        if (regular && has_pax_size)
            size = pax_size;
        if (!regular && !extended)
            size = type >= '1' && type <= '6' ? 0 : size;
        size_t room = tar.len - at - TAR_BLOCK;
        if (size > room)
            return bad_tar(err, at, "a member is longer than the archive");
        struct nf_str data = nf_str_n(h + TAR_BLOCK, (size_t)size);
        if (type == 'x') {
            if (!pax_records(data, &long_name, &pax_size, &has_pax_size))
                return bad_tar(err, at + TAR_BLOCK, "a pax record is malformed");
        } else if (type == 'L') {
            long_name = field_text((const uint8_t *)data.data, data.len);
        } else if (!extended) {
            if (regular) {
                bool ustar = memcmp(h + TAR_MAGIC, "ustar", 5) == 0;
                /* GNU's old format keeps times where POSIX has the prefix. */
                bool posix = ustar && h[TAR_MAGIC + 5] == 0;
                struct nf_str name = long_name.len ? long_name : field_text(h + TAR_NAME, 100);
                struct nf_str prefix = posix && !long_name.len ? field_text(h + TAR_PREFIX, 155) : (struct nf_str){0};
                int r = add_member(n, prefix, name, data, at, err);
                if (r != NF_OK)
                    return r;
            }
            long_name = (struct nf_str){0};
            has_pax_size = false;
        }
        size_t padded = ((size_t)size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        if (padded > room)
            return bad_tar(err, at, "the last member is not padded to a block");
        at += TAR_BLOCK + padded;
    }
}

/* ----------------------------------------------------------------------------------------------------------- open */

static int open_archive(struct nf_str bytes, size_t inflate_limit, struct neff **ret_neff, struct nf_error *err)
{
    struct neff_header header;
    int r = neff_header_read(bytes, bytes.len, &header, err);
    if (r != NF_OK)
        return r;
    struct neff *n = nf_alloc(sizeof(*n));
    n->file = bytes;
    n->header = header;
    n->arena = nf_arena_new(0);
    n->target = n->compiler = n->isa = "";
    struct nf_str tar = nf_str_n(bytes.data + NEFF_HEADER_BYTES, bytes.len - NEFF_HEADER_BYTES);
    n->compressed = tar.len >= 2 && (uint8_t)tar.data[0] == 0x1f && (uint8_t)tar.data[1] == 0x8b;
    if (n->compressed && inflate_limit > 0) {
        struct nf_buf out = NF_BUF_INIT;
        r = neff__inflate(tar, inflate_limit, &out, err);
        tar = nf_buf_str(&out);
        n->inflated = out.data;
        if (r != NF_OK)
            goto fail;
    }
    if (!n->compressed || n->inflated) {
        r = walk(n, tar, err);
        if (r != NF_OK)
            goto fail;
        struct nf_str manifest;
        if (neff_member(n, NEFF_MANIFEST, &manifest)) {
            r = neff__manifest_read(n, manifest, err);
            if (r != NF_OK)
                goto fail;
        }
    }
    *ret_neff = n;
    return NF_OK;
fail:
    neff_close(n);
    return r;
}

int neff_open(struct nf_str bytes, struct neff **ret_neff, struct nf_error *err)
{
    return open_archive(bytes, 0, ret_neff, err);
}

int neff_open_inflated(struct nf_str bytes, size_t limit_bytes, struct neff **ret_neff, struct nf_error *err)
{
    return open_archive(bytes, limit_bytes ? limit_bytes : 1, ret_neff, err);
}

void neff_close(struct neff *n)
{
    if (!n)
        return;
    nf_arena_free(n->arena);
    free(n->members);
    free(n->notes);
    free(n->inflated);
    free(n);
}

const struct neff_header *neff_header(const struct neff *n) { return &n->header; }
bool neff_compressed(const struct neff *n) { return n->compressed; }
size_t neff_member_count(const struct neff *n) { return n->member_count; }
const char *neff_target(const struct neff *n) { return n->target; }
const char *neff_compiler(const struct neff *n) { return n->compiler; }
const char *neff_isa(const struct neff *n) { return n->isa; }

const char *neff_member_at(const struct neff *n, size_t i, struct nf_str *ret_data)
{
    if (ret_data)
        *ret_data = n->members[i].data;
    return n->members[i].name;
}

bool neff_member(const struct neff *n, const char *name, struct nf_str *ret_data)
{
    for (size_t i = 0; i < n->member_count; i++) {
        if (strcmp(n->members[i].name, name) == 0) {
            *ret_data = n->members[i].data;
            return true;
        }
    }
    return false;
}

const char *neff_note(const struct neff *n, const char *word)
{
    for (size_t i = 0; i < n->note_count; i++)
        if (strcmp(n->notes[i].word, word) == 0)
            return n->notes[i].text;
    return NULL;
}

size_t neff_inputs(const struct neff *n, const struct rt_tensor **ret_tensors)
{
    *ret_tensors = n->inputs;
    return n->input_count;
}

size_t neff_outputs(const struct neff *n, const struct rt_tensor **ret_tensors)
{
    *ret_tensors = n->outputs;
    return n->output_count;
}
