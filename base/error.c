#include "base/error.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* snprintf into a field; a cut never leaves half a UTF-8 sequence. */
static void NF_PRINTF(3, 0) format(char *out, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(out, size, fmt, ap);
    if (n < 0) {
        out[0] = 0;
        return;
    }
    if ((size_t)n < size)
        return;
    size_t end = size - 1;
    size_t lead = end;
    while (lead > 0 && end - lead < 4 && ((unsigned char)out[lead - 1] & 0xC0) == 0x80)
        lead--;
    if (lead > 0) {
        unsigned char c = (unsigned char)out[lead - 1];
        size_t want = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        if (end - (lead - 1) < want)
            out[lead - 1] = 0;
    }
}

int nf_fail(struct nf_error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        *err = (struct nf_error){.code = code};
        va_start(ap, fmt);
        format(err->message, sizeof(err->message), fmt, ap);
        va_end(ap);
    }
    return code;
}

int nf_fail_errno(struct nf_error *err, int errnum, const char *fmt, ...)
{
    int code = nf_status_from_errno(errnum);
    if (err) {
        va_list ap;
        *err = (struct nf_error){.code = code};
        va_start(ap, fmt);
        format(err->message, sizeof(err->message), fmt, ap);
        va_end(ap);
        size_t len = strlen(err->message);
        snprintf(err->message + len, sizeof(err->message) - len, ": %s", strerror(errnum));
    }
    return code;
}

void nf_error_location(struct nf_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, fmt);
    format(err->location, sizeof(err->location), fmt, ap);
    va_end(ap);
}

void nf_error_hint(struct nf_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list ap;
    va_start(ap, fmt);
    format(err->hint, sizeof(err->hint), fmt, ap);
    va_end(ap);
}

int nf_error_prefix(struct nf_error *err, const char *fmt, ...)
{
    if (!err)
        return NF_EINTERNAL;
    char old[sizeof(err->message)];
    memcpy(old, err->message, sizeof(old));
    va_list ap;
    va_start(ap, fmt);
    format(err->message, sizeof(err->message), fmt, ap);
    va_end(ap);
    size_t len = strlen(err->message);
    int n = snprintf(err->message + len, sizeof(err->message) - len, ": %s", old);
    (void)n;
    return err->code;
}

void nf_error_file(struct nf_error *err, const char *path)
{
    struct nf_str at = nf_str_c(err->location);
    bool line = at.len && at.data[0] >= '0' && at.data[0] <= '9';
    if (strcmp(path, "-") == 0 || !(line || nf_str_starts(at, NF_STR("byte ")) || nf_str_starts(at, NF_STR("instruction "))))
        return;
    char place[sizeof(err->location)];
    memcpy(place, err->location, sizeof(place));
    nf_error_location(err, "%s:%s%s", path, line ? "" : " ", place);
    size_t n = strlen(path); /* once is enough */
    if (strncmp(err->message, path, n) == 0 && strncmp(err->message + n, ": ", 2) == 0)
        memmove(err->message, err->message + n + 2, strlen(err->message + n + 2) + 1);
}

void nf_error_print(const char *program, const struct nf_error *err)
{
    if (err->location[0])
        fprintf(stderr, "%s: %s: %s\n", program, err->location, err->message);
    else
        fprintf(stderr, "%s: %s\n", program, err->message);
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", err->hint);
}
