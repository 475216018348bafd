#include "pipeline/driver/drv_lines.h"

/* Length of the valid sequence at s, 0 if there is none. */
static size_t sequence(struct nf_str s)
{
    unsigned char c = (unsigned char)s.data[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    return n > 0 && n <= s.len && nf_utf8_valid(nf_str_n(s.data, n)) ? n : 0;
}

void drv_utf8_repair(struct nf_str bytes, struct nf_buf *out)
{
    while (bytes.len > 0) {
        size_t n = sequence(bytes);
        unsigned char c = (unsigned char)bytes.data[0];
        if (n == 0)
            nf_buf_add_c(out, "\xef\xbf\xbd");
        else if (n == 1 && (c < ' ' || c == 127) && c != '\t')
            nf_buf_add_char(out, ' ');
        else
            nf_buf_add(out, bytes.data, n);
        n = n ? n : 1;
        bytes = nf_str_n(bytes.data + n, bytes.len - n);
    }
}

static void give(struct nf_str raw, bool whole, drv_line_fn *fn, void *user)
{
    struct nf_buf b = NF_BUF_INIT;
    drv_utf8_repair(raw, &b);
    fn(user, b.data ? nf_buf_str(&b) : NF_STR(""), whole);
    nf_buf_done(&b);
}

void drv_lines_done(struct drv_lines *l)
{
    nf_buf_done(&l->pending);
}

static bool only_dots(struct nf_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] != '.' && s.data[i] != ' ')
            return false;
    return true;
}

void drv_lines_add(struct drv_lines *l, struct nf_str bytes, size_t max, int64_t now_ns, drv_line_fn *fn, void *user)
{
    while (bytes.len > 0) {
        size_t n = 0;
        while (n < bytes.len && bytes.data[n] != '\n' && bytes.data[n] != '\r')
            n++;
        bool end = n < bytes.len;
        if (l->pending.len == 0) {
            l->since_ns = now_ns;
            l->dots = true;
        }
        struct nf_str part = nf_str_n(bytes.data, n);
        l->dots = l->dots && only_dots(part);
        while (l->pending.len + part.len > max) {
            size_t room = max - l->pending.len;
            nf_buf_add(&l->pending, part.data, room);
            /* Not through the middle of a character. */
            size_t keep = 0;
            while (keep < 3 && keep < l->pending.len && ((unsigned char)l->pending.data[l->pending.len - 1 - keep] & 0xc0) == 0x80)
                keep++;
            if (keep < l->pending.len && ((unsigned char)l->pending.data[l->pending.len - 1 - keep] & 0xc0) == 0xc0)
                keep++;
            if (keep >= l->pending.len)
                keep = 0;
            give(nf_str_n(l->pending.data, l->pending.len - keep), false, fn, user);
            memmove(l->pending.data, l->pending.data + l->pending.len - keep, keep);
            l->pending.len = keep;
            part = nf_str_n(part.data + room, part.len - room);
            l->dots = false;
        }
        nf_buf_add_str(&l->pending, part);
        if (end) {
            bool empty_after_cr = l->pending.len == 0;
            if (!empty_after_cr)
                give(nf_buf_str(&l->pending), true, fn, user);
            nf_buf_clear(&l->pending);
            n++;
        }
        bytes = nf_str_n(bytes.data + n, bytes.len - n);
    }
}

bool drv_lines_flush(struct drv_lines *l, int64_t age_ns, int64_t now_ns, drv_line_fn *fn, void *user)
{
    if (l->pending.len == 0 || now_ns - l->since_ns < age_ns)
        return false;
    if (l->dots && age_ns > 0) {
        l->since_ns = now_ns;
        return true;
    }
    give(nf_buf_str(&l->pending), true, fn, user);
    nf_buf_clear(&l->pending);
    return false;
}
