#include "base/log.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[NF_LOG_MAX] = {"error", "warning", "info", "debug"};

static atomic_int log_level = NF_LOG_WARNING;
static atomic_bool log_json;
/* Guards log_fd against a reopen in the middle of a write; a leaf: nothing else is taken while it is held. */
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = STDERR_FILENO;

int nf_log_open(const char *path, enum nf_log_level level, bool json, struct nf_error *err)
{
    int fd = STDERR_FILENO;
    if (path && *path) {
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
        if (fd < 0)
            return nf_fail_errno(err, errno, "cannot open the log file %s", path);
    }
    pthread_mutex_lock(&log_mutex);
    int old = log_fd;
    log_fd = fd;
    pthread_mutex_unlock(&log_mutex);
    if (old != STDERR_FILENO)
        close(old);
    nf_log_set_level(level);
    atomic_store(&log_json, json);
    return NF_OK;
}

void nf_log_set_level(enum nf_log_level level) { atomic_store(&log_level, (int)level); }
bool nf_log_enabled(enum nf_log_level level) { return (int)level <= atomic_load(&log_level); }

static void add_quoted(struct nf_buf *b, struct nf_str s)
{
    nf_buf_add_char(b, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c == '"' || c == '\\') {
            nf_buf_add_char(b, '\\');
            nf_buf_add_char(b, (char)c);
        } else if (c == '\n') {
            nf_buf_add_c(b, "\\n");
        } else if (c == '\t') {
            nf_buf_add_c(b, "\\t");
        } else if (c < 0x20 || c == 0x7F) {
            nf_buf_addf(b, "\\u%04x", c);
        } else if (c >= 0x80) { /* whole sequences pass, stray bytes become U+FFFD */
            size_t n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
            if (n <= s.len - i && nf_utf8_valid(nf_str_n(s.data + i, n))) {
                nf_buf_add(b, s.data + i, n);
                i += n - 1;
            } else {
                nf_buf_add_c(b, "\xEF\xBF\xBD");
            }
        } else {
            nf_buf_add_char(b, (char)c);
        }
    }
    nf_buf_add_char(b, '"');
}

const char *nf_log_quote(const char *value)
{
    enum { SIZE = 520, COUNT = 8 };
    static _Thread_local char ring[COUNT][SIZE];
    static _Thread_local unsigned next;
    char *out = ring[next++ % COUNT];
    struct nf_str s = nf_str_c(value ? value : "");
    s.len = NF_MIN(s.len, (size_t)512);
    struct nf_buf b = NF_BUF_INIT;
    add_quoted(&b, s);
    if (b.len >= SIZE) { /* cut between characters and escapes, then close the quote */
        size_t end = 0;
        for (size_t i = 1; i < b.len - 1 && i <= 512;) {
            end = i;
            unsigned char c = (unsigned char)b.data[i];
            i += c == '\\' ? (b.data[i + 1] == 'u' ? 6 : 2) : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        }
        b.len = end;
        b.data[b.len] = 0;
        nf_buf_add_char(&b, '"');
    }
    memcpy(out, b.data, b.len + 1);
    nf_buf_done(&b);
    return out;
}

/* "key=value key="quoted value"" to ", "key": value" for each; a number or a boolean stays one. */
static void add_json_fields(struct nf_buf *b, struct nf_str s)
{
    for (;;) {
        s = nf_str_trim(s);
        if (s.len == 0)
            return;
        size_t key_len = 0;
        while (key_len < s.len && s.data[key_len] != '=' && s.data[key_len] != ' ')
            key_len++;
        nf_buf_add_char(b, ',');
        add_quoted(b, nf_str_n(s.data, key_len));
        nf_buf_add_char(b, ':');
        if (key_len == s.len || s.data[key_len] == ' ') { /* a bare word */
            nf_buf_add_c(b, "true");
            s.data += key_len, s.len -= key_len;
            continue;
        }
        s.data += key_len + 1, s.len -= key_len + 1;
        size_t n = 0;
        if (s.len && s.data[0] == '"') {
            for (n = 1; n < s.len && s.data[n] != '"'; n++)
                if (s.data[n] == '\\')
                    n++;
            n = NF_MIN(n + 1, s.len);
            if (n >= 2 && s.data[n - 1] == '"') /* nf_log_quote writes JSON strings */
                nf_buf_add(b, s.data, n);
            else
                add_quoted(b, nf_str_n(s.data, n));
        } else {
            while (n < s.len && s.data[n] != ' ')
                n++;
            struct nf_str v = nf_str_n(s.data, n);
            int64_t i;
            bool plain = nf_str_eq_c(v, "true") || nf_str_eq_c(v, "false") ||
                         (nf_str_to_i64(v, &i) == NF_OK && (v.len == 1 || (v.data[0] != '0' && !nf_str_starts(v, NF_STR("-0")))));
            if (plain)
                nf_buf_add_str(b, v);
            else
                add_quoted(b, v);
        }
        s.data += n, s.len -= n;
    }
}

void nf_log(enum nf_log_level level, const char *area, const char *message, const char *fields_fmt, ...)
{
    if (!nf_log_enabled(level))
        return;
    int saved = errno;
    struct nf_buf fields = NF_BUF_INIT, line = NF_BUF_INIT;
    va_list ap;
    va_start(ap, fields_fmt);
    nf_buf_vaddf(&fields, fields_fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < fields.len; i++) /* one event, one line, whatever was passed */
        if ((unsigned char)fields.data[i] < 0x20 || fields.data[i] == 0x7F)
            fields.data[i] = ' ';

    int64_t us = nf_wall_us();
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char stamp[40];
    size_t n = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    nf_format(stamp + n, sizeof(stamp) - n, ".%06dZ", (int)(us % 1000000));

    if (atomic_load(&log_json)) {
        nf_buf_addf(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"area\":", stamp, level_names[level]);
        add_quoted(&line, nf_str_c(area));
        nf_buf_add_c(&line, ",\"message\":");
        add_quoted(&line, nf_str_c(message));
        add_json_fields(&line, nf_buf_str(&fields));
        nf_buf_add_c(&line, "}\n");
    } else {
        nf_buf_addf(&line, "%s %s %s: ", stamp, level_names[level], area);
        for (const char *c = message; *c; c++)
            nf_buf_add_char(&line, (unsigned char)*c < 0x20 ? ' ' : *c);
        if (fields.len) {
            nf_buf_add_char(&line, ' ');
            nf_buf_add_str(&line, nf_buf_str(&fields));
        }
        nf_buf_add_char(&line, '\n');
    }
    if (line.len) {
        pthread_mutex_lock(&log_mutex);
        ssize_t written = write(log_fd, line.data, line.len);
        pthread_mutex_unlock(&log_mutex);
        (void)written; /* a log that cannot be written has nowhere to say so */
    }
    nf_buf_done(&line);
    nf_buf_done(&fields);
    errno = saved;
}
