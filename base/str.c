#include "base/str.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>

/* ---------------------------------------------------------------------------------------------------- memory */

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "neffd: out of memory: %zu bytes\n", bytes);
    abort();
}

void *nf_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

void *nf_alloc_array(size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        out_of_memory(SIZE_MAX);
    return nf_alloc(total);
}

void *nf_realloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

char *nf_strdup(const char *c) { return c ? nf_strndup(c, strlen(c)) : NULL; }

char *nf_strndup(const char *data, size_t len)
{
    char *p = nf_alloc(len + 1);
    if (len)
        memcpy(p, data, len);
    return p;
}

char *nf_asprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *ret = NULL;
    int n = vasprintf(&ret, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory(0);
    return ret;
}

void *nf_try_alloc(size_t bytes) { return malloc(bytes ? bytes : 1); }

bool nf_format(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, size, fmt, ap);
    va_end(ap);
    if (n < 0 && size)
        out[0] = 0;
    return n >= 0 && (size_t)n < size;
}

/* ---------------------------------------------------------------------------------------------------- nf_str */

bool nf_str_eq_c(struct nf_str a, const char *b) { return nf_str_eq(a, nf_str_c(b)); }

bool nf_host_port(const char *address, struct nf_str *ret_host, uint16_t *ret_port)
{
    const char *colon = strrchr(address, ':');
    uint64_t port;
    if (!colon || colon == address || nf_str_to_u64(nf_str_c(colon + 1), &port) < 0 || port > UINT16_MAX)
        return false;
    *ret_host = nf_str_n(address, (size_t)(colon - address));
    *ret_port = (uint16_t)port;
    return true;
}

int nf_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int nf_str_cmp(struct nf_str a, struct nf_str b)
{
    size_t n = NF_MIN(a.len, b.len);
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

bool nf_str_starts(struct nf_str s, struct nf_str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.data, prefix.data, prefix.len) == 0);
}

bool nf_str_ends(struct nf_str s, struct nf_str suffix)
{
    return s.len >= suffix.len && (suffix.len == 0 || memcmp(s.data + s.len - suffix.len, suffix.data, suffix.len) == 0);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

struct nf_str nf_str_trim(struct nf_str s)
{
    while (s.len && is_space(s.data[0]))
        s.data++, s.len--;
    while (s.len && is_space(s.data[s.len - 1]))
        s.len--;
    return s;
}

struct nf_str nf_str_cut(struct nf_str *s, char sep)
{
    const char *at = s->len ? memchr(s->data, sep, s->len) : NULL;
    struct nf_str head = *s;
    if (!at) {
        *s = (struct nf_str){NULL, 0};
        return head;
    }
    head.len = (size_t)(at - s->data);
    *s = (struct nf_str){at + 1, s->len - head.len - 1};
    return head;
}

int nf_str_to_u64(struct nf_str s, uint64_t *ret_value)
{
    if (s.len == 0)
        return NF_EINVAL;
    uint64_t v = 0;
    bool over = false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return NF_EINVAL;
        over |= __builtin_mul_overflow(v, (uint64_t)10, &v);
        over |= __builtin_add_overflow(v, (uint64_t)(s.data[i] - '0'), &v);
    }
    if (over)
        return NF_ELIMIT;
    *ret_value = v;
    return NF_OK;
}

int nf_str_to_i64(struct nf_str s, int64_t *ret_value)
{
    bool negative = s.len && s.data[0] == '-';
    if (negative)
        s.data++, s.len--;
    uint64_t v;
    int rc = nf_str_to_u64(s, &v);
    if (rc)
        return rc;
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return NF_ELIMIT;
    *ret_value = negative ? (int64_t)(0 - v) : (int64_t)v;
    return NF_OK;
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

int nf_str_to_double(struct nf_str s, double *ret_value)
{
    char small[128];
    if (s.len == 0 || is_space(s.data[0]) || memchr(s.data, 0, s.len))
        return NF_EINVAL;
    char *copy = small;
    if (s.len >= sizeof(small)) {
        copy = nf_try_alloc(s.len + 1);
        if (!copy)
            return NF_ENOMEM;
    }
    memcpy(copy, s.data, s.len);
    copy[s.len] = 0;
    pthread_once(&c_locale_once, make_c_locale);
    char *end;
    double v = c_locale ? strtod_l(copy, &end, c_locale) : strtod(copy, &end);
    bool whole = end == copy + s.len;
    if (copy != small)
        free(copy);
    if (!whole)
        return NF_EINVAL;
    *ret_value = v;
    return NF_OK;
}

bool nf_utf8_valid(struct nf_str s)
{
    const unsigned char *p = (const unsigned char *)s.data, *end = p + s.len;
    while (p < end) {
        if (*p < 0x80) {
            uint64_t word;
            while (end - p >= 8 && (memcpy(&word, p, 8), (word & 0x8080808080808080u) == 0))
                p += 8;
            while (p < end && *p < 0x80)
                p++;
            continue;
        }
        size_t n = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
        if (*p < 0xC2 || *p > 0xF4 || (size_t)(end - p) <= n)
            return false;
        unsigned low = 0x80, high = 0xBF; /* of the second byte: no overlong form, no surrogate, nothing past U+10FFFF */
        if (*p == 0xE0)
            low = 0xA0;
        else if (*p == 0xED)
            high = 0x9F;
        else if (*p == 0xF0)
            low = 0x90;
        else if (*p == 0xF4)
            high = 0x8F;
        if (p[1] < low || p[1] > high)
            return false;
        for (size_t i = 2; i <= n; i++)
            if ((p[i] & 0xC0) != 0x80)
                return false;
        p += n + 1;
    }
    return true;
}

size_t nf_edit_distance(struct nf_str a, struct nf_str b)
{
    enum { CAP = 64 };
    size_t row[CAP + 1];
    a.len = NF_MIN(a.len, (size_t)CAP);
    b.len = NF_MIN(b.len, (size_t)CAP);
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a.data[i - 1] != b.data[j - 1]);
            best = NF_MIN(best, above + 1);
            best = NF_MIN(best, row[j - 1] + 1);
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b.len];
}

/* ---------------------------------------------------------------------------------------------------- nf_buf */

void nf_buf_done(struct nf_buf *b)
{
    free(b->data);
    *b = NF_BUF_INIT;
}

void nf_buf_clear(struct nf_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

bool nf_buf_reserve(struct nf_buf *b, size_t extra)
{
    if (b->failed)
        return false;
    if (b->cap && extra < b->cap - b->len) /* cap counts the terminator */
        return true;
    if (extra >= NF_BUF_MAX - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + extra + 1;
    size_t cap = b->cap < 64 ? 64 : b->cap + b->cap / 2;
    cap = NF_MAX(cap, need);
    char *data = realloc(b->data, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    if (!b->data)
        data[0] = 0;
    b->data = data;
    b->cap = cap;
    return true;
}

void nf_buf_add(struct nf_buf *b, const void *data, size_t len)
{
    if (!nf_buf_reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void nf_buf_add_str(struct nf_buf *b, struct nf_str s) { nf_buf_add(b, s.data, s.len); }
void nf_buf_add_c(struct nf_buf *b, const char *c) { nf_buf_add(b, c, strlen(c)); }
void nf_buf_add_char(struct nf_buf *b, char c) { nf_buf_add(b, &c, 1); }

void nf_buf_vaddf(struct nf_buf *b, const char *fmt, va_list ap)
{
    if (!nf_buf_reserve(b, 64))
        return;
    va_list again;
    va_copy(again, ap);
    size_t room = b->cap - b->len;
    int n = vsnprintf(b->data + b->len, room, fmt, ap);
    if (n >= 0 && (size_t)n >= room) {
        b->data[b->len] = 0;
        if (nf_buf_reserve(b, (size_t)n))
            vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    if (n < 0)
        b->failed = true;
    if (b->failed) {
        b->data[b->len] = 0;
        return;
    }
    b->len += (size_t)n;
}

void nf_buf_addf(struct nf_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    nf_buf_vaddf(b, fmt, ap);
    va_end(ap);
}

void nf_buf_add_count(struct nf_buf *b, size_t n, const char *one, const char *many) { nf_buf_addf(b, "%zu %s", n, n == 1 ? one : many); }

bool nf_buf_add_item(struct nf_buf *b, size_t i)
{
    nf_buf_add_c(b, i == 8 ? ", ..." : i ? ", " : " (");
    return i < 8;
}

void nf_buf_add_hex(struct nf_buf *b, const void *data, size_t len)
{
    const unsigned char *p = data;
    if (len > NF_BUF_MAX / 2 || !nf_buf_reserve(b, len * 2)) {
        b->failed = true;
        return;
    }
    for (size_t i = 0; i < len; i++) {
        b->data[b->len++] = "0123456789abcdef"[p[i] >> 4];
        b->data[b->len++] = "0123456789abcdef"[p[i] & 15];
    }
    b->data[b->len] = 0;
}

void nf_buf_add_u32le(struct nf_buf *b, uint32_t v)
{
    unsigned char bytes[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16), (unsigned char)(v >> 24)};
    nf_buf_add(b, bytes, sizeof(bytes));
}

void nf_buf_add_u64le(struct nf_buf *b, uint64_t v)
{
    nf_buf_add_u32le(b, (uint32_t)v);
    nf_buf_add_u32le(b, (uint32_t)(v >> 32));
}

void nf_buf_add_varint(struct nf_buf *b, uint64_t v)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (unsigned char)(v | 0x80);
    bytes[n++] = (unsigned char)v;
    nf_buf_add(b, bytes, n);
}

char *nf_buf_take(struct nf_buf *b)
{
    char *data = b->data ? b->data : nf_alloc(1);
    *b = NF_BUF_INIT;
    return data;
}
