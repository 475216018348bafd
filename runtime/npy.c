#include "runtime/npy.h"

#include "base/file.h"
#include "base/reader.h"

/* The header is a Python dictionary literal:
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 * Only what NumPy itself writes (strings, True, False, tuples of integers) is taken. */
struct header {
    struct nf_str descr;
    bool fortran, has_descr, has_order, has_shape;
    int rank;
    int64_t dims[RT_ARRAY_RANK_MAX];
};

struct scan {
    struct nf_str text;
    size_t at, base;
};

static void skip_space(struct scan *s)
{
    while (s->at < s->text.len && (s->text.data[s->at] == ' ' || s->text.data[s->at] == '\n' || s->text.data[s->at] == '\t'))
        s->at++;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->at < s->text.len && s->text.data[s->at] == c) {
        s->at++;
        return true;
    }
    return false;
}

static bool take_word(struct scan *s, const char *w)
{
    size_t n = strlen(w);
    skip_space(s);
    if (s->text.len - s->at >= n && memcmp(s->text.data + s->at, w, n) == 0) {
        s->at += n;
        return true;
    }
    return false;
}

static bool take_string(struct scan *s, struct nf_str *ret)
{
    skip_space(s);
    if (s->at >= s->text.len || (s->text.data[s->at] != '\'' && s->text.data[s->at] != '"'))
        return false;
    char quote = s->text.data[s->at++];
    size_t from = s->at;
    while (s->at < s->text.len && s->text.data[s->at] != quote)
        s->at++;
    if (s->at >= s->text.len)
        return false;
    *ret = nf_str_n(s->text.data + from, s->at - from);
    s->at++;
    return true;
}

static bool take_shape(struct scan *s, struct header *h)
{
    if (!take(s, '('))
        return false;
    while (!take(s, ')')) {
        if (h->rank == RT_ARRAY_RANK_MAX)
            return false;
        int64_t v = 0;
        size_t digits = 0;
        skip_space(s);
        while (s->at < s->text.len && s->text.data[s->at] >= '0' && s->text.data[s->at] <= '9') {
            if (v > (INT64_MAX - 9) / 10)
                return false;
            v = v * 10 + (s->text.data[s->at++] - '0');
            digits++;
        }
        if (!digits)
            return false;
        h->dims[h->rank++] = v;
        if (!take(s, ',')) {
            if (!take(s, ')'))
                return false;
            break;
        }
    }
    return true;
}

static bool parse_header(struct scan *s, struct header *h)
{
    if (!take(s, '{'))
        return false;
    while (!take(s, '}')) {
        struct nf_str key;
        if (!take_string(s, &key) || !take(s, ':'))
            return false;
        if (nf_str_eq(key, NF_STR("descr"))) {
            if (h->has_descr || !take_string(s, &h->descr))
                return false;
            h->has_descr = true;
        } else if (nf_str_eq(key, NF_STR("fortran_order"))) {
            h->fortran = take_word(s, "True");
            if (h->has_order || (!h->fortran && !take_word(s, "False")))
                return false;
            h->has_order = true;
        } else if (nf_str_eq(key, NF_STR("shape"))) {
            if (h->has_shape || !take_shape(s, h))
                return false;
            h->has_shape = true;
        } else {
            return false;
        }
        if (!take(s, ',')) {
            if (!take(s, '}'))
                return false;
            break;
        }
    }
    skip_space(s);
    return s->at == s->text.len && h->has_descr && h->has_order && h->has_shape;
}

/* "<f4" and "=f4" mean the same here; ">" asks for a swap; "|" is for single bytes. */
static bool same_descr(struct nf_str d, const char *ours, bool *ret_swap)
{
    if (d.len != strlen(ours) || memcmp(d.data + 1, ours + 1, d.len - 1) != 0)
        return false;
    *ret_swap = d.data[0] == '>' && ours[0] != '|';
    return d.data[0] == '<' || d.data[0] == '>' || d.data[0] == '=' || d.data[0] == '|';
}

static enum nf_dtype choose_dtype(struct nf_str descr, enum nf_dtype want, bool *ret_swap)
{
    if (want != NF_DT_NONE) {
        if (same_descr(descr, nf_dtype_npy(want), ret_swap))
            return want;
        bool bits = nf_dtype_is_float(want) && nf_dtype_bytes(want) <= 2; /* f16 may come as its bits, too */
        if (bits && same_descr(descr, nf_dtype_bytes(want) == 2 ? "<u2" : "|u1", ret_swap))
            return want;
        if (want == NF_DT_PRED && same_descr(descr, "|u1", ret_swap))
            return want;
        return NF_DT_NONE;
    }
    static const enum nf_dtype plain[] = {NF_DT_PRED, NF_DT_S8, NF_DT_S16, NF_DT_S32, NF_DT_S64, NF_DT_U8, NF_DT_U16, NF_DT_U32, NF_DT_U64,
        NF_DT_F16, NF_DT_F32, NF_DT_F64, NF_DT_C64, NF_DT_C128};
    for (size_t i = 0; i < NF_ARRAY_LEN(plain); i++)
        if (same_descr(descr, nf_dtype_npy(plain[i]), ret_swap))
            return plain[i];
    return NF_DT_NONE;
}

static void swap_parts(struct rt_array *t)
{
    size_t w = nf_dtype_bytes(nf_dtype_part(t->dtype));
    unsigned char *p = t->data;
    for (size_t i = 0; w > 1 && i < t->bytes; i += w)
        for (size_t a = 0, b = w - 1; a < b; a++, b--) {
            unsigned char c = p[i + a];
            p[i + a] = p[i + b];
            p[i + b] = c;
        }
}

/* Column-major bytes at src into row-major dst: walk dst in order, keep the source offset. */
static void from_fortran(const struct rt_array *t, const unsigned char *src)
{
    size_t w = nf_dtype_bytes(t->dtype), n = w ? t->bytes / w : 0;
    int64_t index[RT_ARRAY_RANK_MAX] = {0};
    size_t stride[RT_ARRAY_RANK_MAX] = {0}, s = 1, at = 0;
    for (int i = 0; i < t->rank; i++) {
        stride[i] = s;
        s *= (size_t)t->dims[i];
    }
    for (size_t k = 0; k < n; k++) {
        memcpy((unsigned char *)t->data + k * w, src + at * w, w);
        for (int d = t->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < t->dims[d])
                break;
            at -= stride[d] * (size_t)t->dims[d];
            index[d] = 0;
        }
    }
}

int rt_npy_parse(struct nf_str file, enum nf_dtype want, size_t limit_bytes, struct rt_array *ret_array, struct nf_error *err)
{
    struct nf_reader r = nf_reader_of(file);
    struct nf_str magic = nf_reader_bytes(&r, 6);
    uint8_t major = nf_reader_u8(&r);
    (void)nf_reader_u8(&r);
    size_t header_len = major == 1 ? nf_reader_u16le(&r) : nf_reader_u32le(&r);
    if (r.failed || !nf_str_eq(magic, NF_STR("\x93NUMPY")) || major < 1 || major > 3)
        return nf_fail(err, NF_EINVAL, "not a NumPy array file (.npy)");
    if (header_len > 65536 || header_len > nf_reader_left(&r)) {
        nf_fail(err, NF_EINVAL, "the header of the NumPy array is cut off or too long");
        nf_error_location(err, "byte %zu", nf_reader_offset(&r));
        return NF_EINVAL;
    }
    struct scan s = {.base = nf_reader_offset(&r)};
    s.text = nf_reader_bytes(&r, header_len);
    struct header h = {0};
    if (!parse_header(&s, &h)) {
        nf_fail(err, NF_EINVAL, "the header of the NumPy array does not parse");
        nf_error_location(err, "byte %zu", s.base + s.at);
        return NF_EINVAL;
    }
    bool swap = false;
    enum nf_dtype dtype = h.descr.len >= 2 && h.descr.len < 16 ? choose_dtype(h.descr, want, &swap) : NF_DT_NONE;
    if (dtype == NF_DT_NONE) {
        if (want != NF_DT_NONE)
            return nf_fail(err, NF_EINVAL, "the NumPy array has elements '%.*s', not %s ('%s')", (int)NF_MIN(h.descr.len, 32), h.descr.data,
                nf_dtype_name(want), nf_dtype_npy(want));
        return nf_fail(err, NF_EUNSUPPORTED, "elements '%.*s' of a NumPy array are not supported", (int)NF_MIN(h.descr.len, 32), h.descr.data);
    }
    int64_t n = rt_shape_count(dtype, h.rank, h.dims);
    if (n < 0 || (size_t)n * nf_dtype_bytes(dtype) != nf_reader_left(&r)) {
        nf_fail(err, NF_EINVAL, "the NumPy array's data does not have the size of its shape: %zu bytes are left", nf_reader_left(&r));
        nf_error_location(err, "byte %zu", nf_reader_offset(&r));
        return NF_EINVAL;
    }
    struct rt_array t;
    int rc = rt_array_alloc(dtype, h.rank, h.dims, limit_bytes, &t, err);
    if (rc)
        return rc;
    if (h.fortran && h.rank > 1)
        from_fortran(&t, r.at);
    else if (t.bytes)
        memcpy(t.data, r.at, t.bytes);
    if (swap)
        swap_parts(&t);
    if (dtype == NF_DT_PRED)
        for (size_t i = 0; i < t.bytes; i++)
            ((uint8_t *)t.data)[i] = ((uint8_t *)t.data)[i] != 0;
    *ret_array = t;
    return NF_OK;
}

int rt_npy_read(const char *path, enum nf_dtype want, size_t limit_bytes, struct rt_array *ret_array, struct nf_error *err)
{
    struct nf_buf bytes = NF_BUF_INIT;
    int rc = nf_file_read(path, limit_bytes ? limit_bytes + 70000 : NF_BUF_MAX, &bytes, err);
    if (rc)
        return rc;
    rc = rt_npy_parse(nf_buf_str(&bytes), want, limit_bytes, ret_array, err);
    if (rc)
        nf_error_prefix(err, "%s", path);
    nf_buf_done(&bytes);
    return rc;
}

void rt_npy_print(const struct rt_array *t, struct nf_buf *out)
{
    struct nf_buf h = NF_BUF_INIT;
    nf_buf_addf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", nf_dtype_npy(t->dtype));
    for (int i = 0; i < t->rank; i++)
        nf_buf_addf(&h, i + 1 < t->rank ? "%lld, " : t->rank == 1 ? "%lld," : "%lld", (long long)t->dims[i]);
    nf_buf_add_c(&h, "), }");
    while ((10 + h.len + 1) % 64)
        nf_buf_add_char(&h, ' ');
    nf_buf_add_char(&h, '\n');
    nf_buf_add(out, "\x93NUMPY\x01\x00", 8);
    nf_buf_add_char(out, (char)(h.len & 0xff));
    nf_buf_add_char(out, (char)(h.len >> 8));
    nf_buf_add(out, h.data, h.len);
    nf_buf_add(out, t->data, t->bytes);
    if (h.failed)
        out->failed = true;
    nf_buf_done(&h);
}

int rt_npy_write(const char *path, const struct rt_array *t, struct nf_error *err)
{
    struct nf_buf b = NF_BUF_INIT;
    rt_npy_print(t, &b);
    int rc = b.failed ? nf_fail(err, NF_ENOMEM, "no memory to write %s", path) : nf_file_replace(path, nf_buf_str(&b), 0644, err);
    nf_buf_done(&b);
    return rc;
}
