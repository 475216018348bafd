#include "pipeline/driver/drv_classify.h"

#include <errno.h>
#include <signal.h>

enum kind { TEXT, CODE };

static const struct row {
    enum kind kind;
    const char *match;
    int status;
    const char *about, *hint;
} rows[] = {
#define DRV_FAILURE(kind, match, status, about, hint) {kind, match, NF_E##status, about, hint},
#include "pipeline/driver/drv_failures.def"
#undef DRV_FAILURE
};

void drv_evidence_init(struct drv_evidence *e)
{
    memset(e, 0, sizeof(*e));
    e->row = -1;
}

void drv_evidence_done(struct drv_evidence *e)
{
    for (size_t i = 0; i < DRV_TAIL_LINES; i++)
        nf_buf_done(&e->tail[i]);
}

static const char *find_text(struct nf_str line, const char *text)
{
    return line.len > 0 ? memmem(line.data, line.len, text, strlen(text)) : NULL;
}

static bool upper_or_digit(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A code is NCC_ and capitals and digits, or three capitals and three digits between brackets. */
static bool find_code(struct nf_str line, const char *prefix, char *ret_code, size_t size)
{
    size_t want = strlen(prefix);
    for (size_t i = 0; i < line.len; i++) {
        bool ncc = line.len - i > 4 && memcmp(line.data + i, "NCC_", 4) == 0;
        bool bracket = line.data[i] == '[';
        size_t start = i + (ncc ? 4 : 1), end = start;
        if (!ncc && !bracket)
            continue;
        while (end < line.len && upper_or_digit(line.data[end]))
            end++;
        if (bracket && (end >= line.len || line.data[end] != ']' || end - start != 6 || want < 3))
            continue;
        if (end - start < 6 || end - start > 12 || line.data[end - 1] < '0' || line.data[end - 1] > '9')
            continue;
        if (memcmp(line.data + start, prefix, NF_MIN(want, end - start)) == 0 && want <= end - start) {
            nf_format(ret_code, size, "%.*s", (int)(end - start + (ncc ? 4 : 2)), line.data + i);
            return true;
        }
    }
    return false;
}

static bool looks_like_error(struct nf_str line)
{
    static const char *const words[] = {"ERROR", "Error", "error:", "NCC_", "[F137]", "Traceback", "Killed", "fatal", "Assertion", "terminated"};
    for (size_t i = 0; i < NF_ARRAY_LEN(words); i++)
        if (find_text(line, words[i]))
            return true;
    return false;
}

void drv_evidence_line(struct drv_evidence *e, struct nf_str line)
{
    struct nf_buf *slot = &e->tail[e->lines++ % DRV_TAIL_LINES];
    nf_buf_clear(slot);
    nf_buf_add(slot, line.data, NF_MIN(line.len, (size_t)1024));
    bool error = looks_like_error(line);
    if (error && !e->first_error[0])
        nf_format(e->first_error, sizeof(e->first_error), "%.*s", (int)NF_MIN(line.len, (size_t)390), line.data);
    int end = e->row < 0 ? (int)NF_ARRAY_LEN(rows) : e->row;
    for (int i = 0; i < end; i++) {
        char code[24] = "";
        bool hit = rows[i].kind == TEXT ? find_text(line, rows[i].match) != NULL : find_code(line, rows[i].match, code, sizeof(code));
        if (!hit)
            continue;
        e->row = i;
        nf_format(e->code, sizeof(e->code), "%s", rows[i].match[0] == '[' ? rows[i].match : code);
        nf_format(e->matched, sizeof(e->matched), "%.*s", (int)NF_MIN(line.len, (size_t)390), line.data);
        break;
    }
}

size_t drv_evidence_tail_count(const struct drv_evidence *e)
{
    return NF_MIN(e->lines, (size_t)DRV_TAIL_LINES);
}

struct nf_str drv_evidence_tail(const struct drv_evidence *e, size_t i)
{
    size_t first = e->lines > DRV_TAIL_LINES ? e->lines - DRV_TAIL_LINES : 0;
    return nf_buf_str(&e->tail[(first + i) % DRV_TAIL_LINES]);
}

static const char *signal_name(int sig)
{
    const char *name = sigabbrev_np(sig);
    return name ? name : "?";
}

static int by_row(const char *compiler, const struct drv_evidence *e, struct nf_error *err)
{
    const struct row *r = &rows[e->row];
    nf_fail(err, r->status, "%s failed%s%s: %s: %s", compiler, e->code[0] ? " with " : "", e->code, r->about, e->matched);
    nf_error_hint(err, "%s", r->hint);
    return r->status;
}

static int by_memory(const char *compiler, const struct drv_result *result, struct nf_error *err)
{
    nf_fail(err, NF_ENOMEM, "%s was killed for memory (peak %llu MB)", compiler, (unsigned long long)(result->peak_rss_bytes >> 20));
    nf_error_hint(err, "run fewer compiles at once (compile_slots, memory_limit), or use a host with more memory");
    return NF_ENOMEM;
}

static int by_signal(const char *compiler, const struct drv_evidence *e, const struct drv_result *result, struct nf_error *err)
{
    int sig = result->status;
    if (result->oom_killed || (sig == SIGKILL && (result->oom_nearby || (e->row >= 0 && rows[e->row].status == NF_ENOMEM))))
        return by_memory(compiler, result, err);
    if (sig == SIGKILL || sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT || sig == SIGPIPE || sig == SIGXCPU) {
        nf_fail(err, NF_ECOMPILERKILLED, "%s was killed by signal %d (%s) (peak %llu MB)", compiler, sig, signal_name(sig),
                (unsigned long long)(result->peak_rss_bytes >> 20));
        nf_error_hint(err, sig == SIGKILL ? "somebody or the kernel killed it, often for memory; see dmesg" : "somebody ended it");
        return NF_ECOMPILERKILLED;
    }
    nf_fail(err, NF_ECOMPILERCRASH, "%s crashed with signal %d (%s)%s%s", compiler, sig, signal_name(sig), e->first_error[0] ? ": " : "",
            e->first_error);
    nf_error_hint(err, "a defect of the compiler: try another optlevel or another version of it");
    return NF_ECOMPILERCRASH;
}

static int by_exit(const char *compiler, const struct drv_evidence *e, const struct drv_result *result, const char *problem, struct nf_error *err)
{
    int status = result->status;
    if (e->row >= 0 && !(status == 0 && problem))
        return by_row(compiler, e, err);
    if (status == 0) {
        if (e->row >= 0 && nf_status_class(rows[e->row].status) != NF_CLASS_USER)
            return by_row(compiler, e, err);
        nf_fail(err, NF_ECOMPILERCRASH, "%s ended with 0, but its output is not a NEFF: %s", compiler, problem ? problem : "nothing is there");
        nf_error_hint(err, "the file counts, not what the compiler says; try again, and look at its log");
        return NF_ECOMPILERCRASH;
    }
    if (result->oom_killed)
        return by_memory(compiler, result, err);
    if (status == 126 || status == 127) {
        nf_fail(err, NF_ENOCOMPILER, "%s could not start something (exit %d)%s%s", compiler, status, e->first_error[0] ? ": " : "", e->first_error);
        nf_error_hint(err, "its installation is not whole: try it by hand with --version");
        return NF_ENOCOMPILER;
    }
    if (status == 137 || status == 143) {
        nf_fail(err, status == 137 ? NF_ENOMEM : NF_ECOMPILERKILLED, "%s ended with %d: a part of it was killed", compiler, status);
        nf_error_hint(err, "usually memory: run fewer compiles at once, or use a host with more memory");
        return status == 137 ? NF_ENOMEM : NF_ECOMPILERKILLED;
    }
    if (status == 70) {
        nf_fail(err, NF_ECOMPILERUNSTABLE, "%s ended with 70 and no error code%s%s", compiler, e->first_error[0] ? ": " : "", e->first_error);
        nf_error_hint(err, "known to pass sometimes when tried again");
        return NF_ECOMPILERUNSTABLE;
    }
    nf_fail(err, NF_ECOMPILEFAILED, "%s ended with %d%s%s", compiler, status, e->first_error[0] ? ": " : "", e->first_error);
    nf_error_hint(err, "the compiler's log says more");
    return NF_ECOMPILEFAILED;
}

int drv_classify(const char *compiler, const struct drv_evidence *e, const struct drv_result *result, const char *problem, struct nf_error *err)
{
    struct nf_error own = {0};
    struct nf_error *x = err ? err : &own;
    int r = NF_EINTERNAL;
    switch (result->end) {
    case DRV_EXITED:
        r = by_exit(compiler, e, result, problem, x);
        break;
    case DRV_SIGNALLED:
        r = by_signal(compiler, e, result, x);
        break;
    case DRV_TIMED_OUT:
        r = nf_fail(x, NF_ECOMPILETIMEOUT, "%s was ended after %lld s, its time limit", compiler, (long long)(result->wall_ns / 1000000000));
        nf_error_hint(x, "raise compile_timeout, or lower optlevel");
        break;
    case DRV_CANCELLED:
        r = nf_fail(x, NF_ECANCELLED, "%s was ended because nobody waits for it any more", compiler);
        break;
    case DRV_OVER_MEMORY:
        r = nf_fail(x, NF_ENOMEM, "%s was ended over its memory limit (%llu MB in use)", compiler, (unsigned long long)(result->peak_rss_bytes >> 20));
        nf_error_hint(x, "raise compiler_memory, or use a smaller graph");
        break;
    case DRV_NOT_STARTED:
        r = nf_fail_errno(x, result->status, "cannot start %s", compiler);
        if (r == NF_ENOTFOUND || r == NF_EPERM || result->status == ENOEXEC)
            x->code = r = NF_ENOCOMPILER;
        nf_error_hint(x, "name the real compiler with neuronx_cc (NEFFD_NEURONX_CC)");
        break;
    }
    x->exit_code = result->end == DRV_EXITED ? result->status : result->end == DRV_SIGNALLED ? -result->status : 0;
    return r;
}
