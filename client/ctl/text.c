/* text.c: text for people: colours, the line that moves, tables. */
#include "client/ctl/ctl.h"

#include <sys/ioctl.h>
#include <unistd.h>

const char *ctl_on(bool color, enum ctl_style style)
{
    static const char *const codes[] = {
        [CTL_PLAIN] = "", [CTL_BOLD] = "\033[1m", [CTL_DIM] = "\033[2m", [CTL_RED] = "\033[31m", [CTL_GREEN] = "\033[32m", [CTL_YELLOW] = "\033[33m"};
    return color ? codes[style] : "";
}

const char *ctl_off(bool color) { return color ? "\033[0m" : ""; }

const char *ctl_clean(const char *text)
{
    static char buffers[8][1200];
    static unsigned next;
    char *out = buffers[next++ % 8];
    size_t n = 0;
    for (; *text && n + 1 < sizeof(buffers[0]); text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == 0xC2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xA0)
            continue; /* C1 controls, which some terminals obey */
        out[n++] = ch < 0x20 && ch != '\t' && ch != '\n' ? '?' : ch == 0x7F ? '?' : (char)ch;
    }
    out[n] = 0;
    return out;
}

static size_t terminal_width(void)
{
    struct winsize w;
    return ioctl(2, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

/* Characters, near enough: bytes that do not continue a UTF-8 sequence. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

void ctl_bar(struct ctl *c, double fraction, const char *text)
{
    char line[400];
    if (!c->bar)
        return;
    text = ctl_clean(text);
    size_t max = NF_MIN(terminal_width() - 1, sizeof(line) / 2);
    if (fraction >= 0) {
        enum { WIDTH = 24 };
        char bar[WIDTH + 1];
        size_t full = (size_t)(NF_MIN(fraction, 1.0) * WIDTH);
        memset(bar, '.', WIDTH);
        memset(bar, '#', full);
        bar[WIDTH] = 0;
        (void)nf_format(line, sizeof(line), "[%s] %s", bar, text);
    } else {
        (void)nf_format(line, sizeof(line), "%s", text);
    }
    size_t bytes = 0, chars = 0;
    while (line[bytes] && (chars < max || ((unsigned char)line[bytes] & 0xC0) == 0x80))
        chars += ((unsigned char)line[bytes++] & 0xC0) != 0x80;
    line[bytes] = 0;
    for (char *nl = line; (nl = strpbrk(nl, "\n\t")); )
        *nl = ' ';
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    c->bar_width = chars;
}

void ctl_bar_clear(struct ctl *c)
{
    if (c->bar && c->bar_width) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        c->bar_width = 0;
    }
}

void ctl_table_add(struct ctl_table *t, const char *fmt, ...)
{
    struct nf_buf b = NF_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    nf_buf_vaddf(&b, fmt, ap);
    va_end(ap);
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->cells = nf_realloc(t->cells, t->cap * sizeof(*t->cells));
    }
    t->cells[t->count++] = b.data ? nf_buf_take(&b) : nf_strdup("");
}

void ctl_table_print(struct ctl *c, struct ctl_table *t)
{
    size_t *widths = nf_alloc_array(t->columns, sizeof(*widths));
    for (size_t i = 0; i < t->count; i++)
        widths[i % t->columns] = NF_MAX(widths[i % t->columns], width_of(t->cells[i]));
    for (size_t i = 0; i < t->count; i++) {
        size_t col = i % t->columns, pad = widths[col] - width_of(t->cells[i]);
        bool last = col + 1 == t->columns, right = t->align[col] == 'r', head = i < t->columns;
        if (col == 0 && head)
            fputs(ctl_on(c->color_out, CTL_BOLD), stdout);
        if (right)
            printf("%*s", (int)pad, "");
        fputs(ctl_clean(t->cells[i]), stdout);
        if (!right && !last)
            printf("%*s", (int)pad, "");
        if (last && head)
            fputs(ctl_off(c->color_out), stdout);
        fputs(last ? "\n" : "  ", stdout);
    }
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(widths);
    *t = (struct ctl_table){0};
}
