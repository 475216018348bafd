#include "runtime/neff.h"

#include "base/arena.h"
#include "base/file.h"
#include "runtime/neff_internal.h"

struct entry {
    const char *name;
    struct nf_str data;
    size_t align;
};

struct neff_writer {
    struct neff_writer_options options;
    struct nf_arena *arena;
    struct nf_buf manifest;      /* after the first lines */
    struct entry *entries;
    size_t count, cap;
    int failed;                  /* sticky */
    const char *why;
};

/* The archive as a list of views, so that nothing large is copied before it is written. */
struct pieces {
    struct nf_str *v;
    size_t count, cap;
    uint64_t bytes;
    struct nf_arena *arena;
};

static const char zeros[TAR_BLOCK * 2];

static void piece(struct pieces *p, struct nf_str s)
{
    if (s.len == 0)
        return;
    if (p->count == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 64;
        p->v = nf_realloc(p->v, p->cap * sizeof(*p->v));
    }
    p->v[p->count++] = s;
    p->bytes += s.len;
}

struct neff_writer *neff_writer_new(const struct neff_writer_options *options)
{
    struct neff_writer *w = nf_alloc(sizeof(*w));
    w->arena = nf_arena_new(0);
    w->options = *options;
    w->options.name = nf_arena_printf(w->arena, "%s", options->name ? options->name : "");
    w->options.target = nf_arena_printf(w->arena, "%s", options->target ? options->target : "");
    w->options.compiler = nf_arena_printf(w->arena, "%s", options->compiler ? options->compiler : "");
    if (options->isa)
        w->options.isa = nf_arena_printf(w->arena, "%s", options->isa);
    return w;
}

void neff_writer_free(struct neff_writer *w)
{
    if (!w)
        return;
    nf_buf_done(&w->manifest);
    free(w->entries);
    nf_arena_free(w->arena);
    free(w);
}

static void fail(struct neff_writer *w, int code, const char *why)
{
    if (w->failed == NF_OK) {
        w->failed = code;
        w->why = why;
    }
}

static void add_tensor(struct neff_writer *w, bool output, const struct rt_tensor *t)
{
    if (t->dtype == NF_DT_NONE || (unsigned)t->dtype >= NF_DT_MAX || t->rank > RT_RANK_MAX)
        fail(w, NF_EINVAL, "a tensor has an unknown type or too many dimensions");
    else
        neff__manifest_tensor(&w->manifest, output, t);
}

void neff_writer_input(struct neff_writer *w, const struct rt_tensor *t) { add_tensor(w, false, t); }
void neff_writer_output(struct neff_writer *w, const struct rt_tensor *t) { add_tensor(w, true, t); }

void neff_writer_note(struct neff_writer *w, const char *word, const char *text)
{
    if (word[0] == 0 || strpbrk(word, " \n\\"))
        fail(w, NF_EINVAL, "a note's word is empty or holds a space");
    nf_buf_addf(&w->manifest, "x-%s ", word);
    neff__manifest_text(&w->manifest, nf_str_c(text));
    nf_buf_add_char(&w->manifest, '\n');
}

void neff_writer_member(struct neff_writer *w, const char *name, struct nf_str data, size_t align)
{
    size_t len = strlen(name);
    if (len == 0 || len > 99)
        fail(w, NF_EINVAL, "a member's name is empty or longer than 99 bytes");
    else if (data.len >> 33)
        fail(w, NF_ELIMIT, "a member is larger than 8 GiB");
    else if (align > (1u << 20) || (align & (align - 1)) != 0)
        fail(w, NF_EINVAL, "an alignment is not a power of two up to 1 MiB");
    else if (w->count == NEFF_MEMBERS_MAX - 1)
        fail(w, NF_ELIMIT, "too many members");
    else {
        if (w->count == w->cap) {
            w->cap = w->cap ? w->cap * 2 : 8;
            w->entries = nf_realloc(w->entries, w->cap * sizeof(*w->entries));
        }
        w->entries[w->count++] = (struct entry){nf_arena_strn(w->arena, name, len), data, align};
    }
}

static void put_octal(uint8_t *field, size_t width, uint64_t v)
{
    for (size_t i = width - 1; i-- > 0; v >>= 3)
        field[i] = (uint8_t)('0' + (v & 7));
    field[width - 1] = 0;
}

static void tar_head(struct pieces *p, const char *name, char type, uint64_t size)
{
    uint8_t *h = nf_arena_alloc(p->arena, TAR_BLOCK);
    memcpy(h + TAR_NAME, name, NF_MIN(strlen(name), (size_t)99));
    put_octal(h + TAR_MODE, 8, 0644);
    put_octal(h + TAR_UID, 8, 0);
    put_octal(h + TAR_GID, 8, 0);
    put_octal(h + TAR_SIZE, 12, size);
    put_octal(h + TAR_MTIME, 12, 0);
    h[TAR_TYPE] = (uint8_t)type;
    memcpy(h + TAR_MAGIC, "ustar\0" "00", 8);
    put_octal(h + TAR_SUM, 7, neff__tar_sum(h));
    h[TAR_SUM + 7] = ' ';
    piece(p, nf_str_n(h, TAR_BLOCK));
}

/* A pax comment whose blocks move the next member's data to a multiple of align. */
static void pad_to(struct pieces *p, size_t align)
{
    uint64_t data_at = NEFF_HEADER_BYTES + p->bytes + TAR_BLOCK;
    if (align <= TAR_BLOCK || data_at % align == 0)
        return;
    uint64_t blocks = (align - (data_at + TAR_BLOCK) % align) % align / TAR_BLOCK;
    if (blocks == 0)
        blocks = align / TAR_BLOCK;
    size_t len = (size_t)blocks * TAR_BLOCK;
    char *record = nf_arena_alloc_raw(p->arena, len + 1);
    memset(record, ' ', len);
    char head[32];
    int n = snprintf(head, sizeof(head), "%zu comment=", len);
    memcpy(record, head, (size_t)n);
    record[len - 1] = '\n';
    tar_head(p, "neffd/pad", 'x', len);
    piece(p, nf_str_n(record, len));
}

static void tar_member(struct pieces *p, const char *name, struct nf_str data, size_t align)
{
    pad_to(p, align);
    tar_head(p, name, '0', data.len);
    piece(p, data);
    if (data.len % TAR_BLOCK)
        piece(p, nf_str_n(zeros, TAR_BLOCK - data.len % TAR_BLOCK));
}

static void put_u32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

static void put_u64(uint8_t *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> 8 * i);
}

void neff__header_encode(const struct neff_header *header, uint8_t *bytes)
{
    memset(bytes, 0, NEFF_HEADER_BYTES);
    put_u64(bytes, header->pkg_version);
    put_u64(bytes + 8, header->header_size);
    put_u64(bytes + 16, header->data_size);
    put_u64(bytes + 24, header->version_major);
    put_u64(bytes + 32, header->version_minor);
    memcpy(bytes + 40, header->build_version, NF_MIN(strlen(header->build_version), (size_t)127));
    put_u32(bytes + 168, header->num_tpb);
    memcpy(bytes + 172, header->hash, 32);
    memcpy(bytes + 204, header->uuid, 16);
    memcpy(bytes + 220, header->name, NF_MIN(strlen(header->name), (size_t)255));
    put_u32(bytes + 476, header->requested_tpb_count);
    memcpy(bytes + 480, header->tpb_per_node, 64);
    put_u64(bytes + 544, header->feature_bits);
    put_u32(bytes + 552, header->lnc_size);
}

/* Lays the archive out and makes its header. */
static int lay_out(struct neff_writer *w, struct pieces *p, uint8_t *header, struct nf_error *err)
{
    if (w->failed != NF_OK)
        return nf_fail(err, w->failed, "cannot write a NEFF: %s", w->why);
    struct nf_buf text = NF_BUF_INIT;
    nf_buf_addf(&text, "neffd 1\ntarget ");
    neff__manifest_text(&text, nf_str_c(w->options.target));
    nf_buf_add_c(&text, "\ncompiler ");
    neff__manifest_text(&text, nf_str_c(w->options.compiler));
    if (w->options.isa) {
        nf_buf_add_c(&text, "\nisa ");
        neff__manifest_text(&text, nf_str_c(w->options.isa));
    }
    nf_buf_add_char(&text, '\n');
    nf_buf_add_str(&text, nf_buf_str(&w->manifest));
    if (text.failed || w->manifest.failed) {
        nf_buf_done(&text);
        return nf_fail(err, NF_ENOMEM, "out of memory while writing a NEFF");
    }
    tar_member(p, NEFF_MANIFEST, nf_arena_str(p->arena, nf_buf_str(&text)), 0);
    nf_buf_done(&text);
    for (size_t i = 0; i < w->count; i++)
        tar_member(p, w->entries[i].name, w->entries[i].data, w->entries[i].align);
    piece(p, nf_str_n(zeros, TAR_BLOCK * 2));

    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    for (size_t i = 0; i < p->count; i++)
        nf_sha256_add(&sha, p->v[i].data, p->v[i].len);
    struct nf_digest hash = nf_sha256_end(&sha);
    struct nf_digest uuid = nf_digest_of(hash.bytes, sizeof(hash.bytes));
    struct neff_header h = {
        .pkg_version = NEFF_PKG_VERSION, .header_size = NEFF_HEADER_BYTES, .data_size = p->bytes,
        .version_major = 2, .num_tpb = 1, .requested_tpb_count = 1,
        .feature_bits = w->options.feature_bits, .lnc_size = w->options.lnc_size,
    };
    nf_format(h.build_version, sizeof(h.build_version), "%s", w->options.compiler);
    nf_format(h.name, sizeof(h.name), "%s", w->options.name);
    memcpy(h.hash, hash.bytes, 32);
    memcpy(h.uuid, uuid.bytes, 16);
    h.tpb_per_node[0] = 1;
    neff__header_encode(&h, header);
    return NF_OK;
}

int neff_writer_finish(struct neff_writer *w, struct nf_buf *ret_bytes, struct nf_error *err)
{
    struct pieces p = {.arena = w->arena};
    uint8_t header[NEFF_HEADER_BYTES];
    int r = lay_out(w, &p, header, err);
    if (r == NF_OK && !nf_buf_reserve(ret_bytes, p.bytes + sizeof(header)))
        r = nf_fail(err, NF_ENOMEM, "out of memory while writing a NEFF of %llu bytes", (unsigned long long)p.bytes);
    if (r == NF_OK) {
        nf_buf_add(ret_bytes, header, sizeof(header));
        for (size_t i = 0; i < p.count; i++)
            nf_buf_add_str(ret_bytes, p.v[i]);
    }
    free(p.v);
    return r;
}

int neff_writer_finish_fd(struct neff_writer *w, int fd, uint64_t *ret_bytes, struct nf_error *err)
{
    struct pieces p = {.arena = w->arena};
    uint8_t header[NEFF_HEADER_BYTES];
    int r = lay_out(w, &p, header, err);
    if (r == NF_OK) {
        /* Small pieces (headers, padding) are gathered, large ones written from where they are. */
        struct nf_buf small = NF_BUF_INIT;
        nf_buf_add(&small, header, sizeof(header));
        for (size_t i = 0; i < p.count && r == NF_OK; i++) {
            if (p.v[i].len < 65536)
                nf_buf_add_str(&small, p.v[i]);
            if (small.len >= 65536 || p.v[i].len >= 65536) {
                r = nf_fd_write_all(fd, small.data, small.len);
                nf_buf_clear(&small);
            }
            if (r == NF_OK && p.v[i].len >= 65536)
                r = nf_fd_write_all(fd, p.v[i].data, p.v[i].len);
        }
        if (r == NF_OK)
            r = nf_fd_write_all(fd, small.data, small.len);
        nf_buf_done(&small);
        if (r != NF_OK)
            nf_fail(err, r, "cannot write the artifact: %s", nf_status_text(r));
        else if (ret_bytes)
            *ret_bytes = p.bytes + sizeof(header);
    }
    free(p.v);
    return r;
}
