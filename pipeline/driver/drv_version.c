/* drv_version.c: which compiler, and what it calls itself. */
#include "base/clock.h"
#include "config/config.h"
#include "pipeline/driver/driver.h"
#include "pipeline/driver/drv_run.h"
#include "runtime/platform.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION_LIMIT_NS (30 * NF_SEC)

/* neffcc under the name neuronx-cc is told by the file that its links lead to. */
static bool is_neffcc(const char *path)
{
    char *real = realpath(path, NULL);
    const char *base = real ? strrchr(real, '/') : NULL;
    bool yes = base && strcmp(base + 1, "neffcc") == 0;
    free(real);
    return yes;
}

int drv_find(const struct cfg *cfg, const char *not_this, struct nf_buf *ret_path, struct nf_error *err)
{
    const char *name = cfg ? cfg->neuronx_cc : getenv("NEFFD_NEURONX_CC");
    struct stat st;
    if (name && !name[0])
        name = NULL;
    if (name && strchr(name, '/')) {
        if (stat(name, &st) == 0 && S_ISREG(st.st_mode) && access(name, X_OK) == 0 && !is_neffcc(name)) {
            nf_buf_add_c(ret_path, name);
            return NF_OK;
        }
        nf_fail(err, NF_ENOCOMPILER, is_neffcc(name) ? "neuronx_cc names neffcc itself: %s" : "the compiler %s cannot be executed", name);
        nf_error_hint(err, "neuronx_cc (NEFFD_NEURONX_CC) must name the real neuronx-cc");
        return NF_ENOCOMPILER;
    }
    struct nf_str rest = nf_str_c(getenv("PATH"));
    while (rest.data) {
        struct nf_str dir = nf_str_cut(&rest, ':');
        char *one = nf_strndup(dir.len ? dir.data : ".", dir.len ? dir.len : 1);
        struct nf_buf path = NF_BUF_INIT;
        bool found = rt_find_program(name ? name : "neuronx-cc", one, not_this, &path) == NF_OK && !is_neffcc(path.data);
        free(one);
        if (found)
            nf_buf_add_str(ret_path, nf_buf_str(&path));
        nf_buf_done(&path);
        if (found)
            return NF_OK;
    }
    nf_fail(err, NF_ENOCOMPILER, "there is no %s on PATH", name ? name : "neuronx-cc");
    nf_error_hint(err, "install neuronx-cc, or name it with neuronx_cc (NEFFD_NEURONX_CC)");
    return NF_ENOCOMPILER;
}

bool drv_version_parse(struct nf_str text, char *ret_version, size_t size)
{
    static const char mark[] = "ompiler version ";
    while (text.len > 0) {
        struct nf_str line = nf_str_cut(&text, '\n');
        const char *at = line.len ? memmem(line.data, line.len, mark, sizeof(mark) - 1) : NULL;
        if (!at)
            continue;
        at += sizeof(mark) - 1;
        struct nf_str v = nf_str_trim(nf_str_n(at, line.len - (size_t)(at - line.data)));
        v = nf_str_cut(&v, ' ');
        if (v.len == 0 || v.len >= size || v.data[0] < '0' || v.data[0] > '9')
            continue;
        nf_format(ret_version, size, "%.*s", (int)v.len, v.data);
        return true;
    }
    return false;
}

struct asked {
    struct nf_buf text;
    char last[256];
};

static void take_line(void *user, int stream, struct nf_str line, bool whole)
{
    struct asked *a = user;
    (void)whole;
    if (stream == 1 && a->text.len < 65536) {
        nf_buf_add_str(&a->text, line);
        nf_buf_add_char(&a->text, '\n');
    } else if (line.len > 0) {
        nf_format(a->last, sizeof(a->last), "%.*s", (int)NF_MIN(line.len, (size_t)250), line.data);
    }
}

static int ask(const char *path, char *ret_version, size_t size, struct nf_error *err)
{
    struct asked a = {0};
    const char *argv[] = {path, "--version", NULL};
    struct drv_command c = {.path = path, .argv = argv, .cwd = "/", .time_limit_ns = VERSION_LIMIT_NS, .line = take_line, .user = &a};
    struct drv_result result;
    int r = drv_run(&c, &result, err);
    if (r == NF_OK) {
        if (result.end == DRV_TIMED_OUT)
            r = nf_fail(err, NF_ETIMEOUT, "%s --version did not answer within 30 s", path);
        else if (result.end == DRV_NOT_STARTED)
            r = nf_fail(err, NF_ENOCOMPILER, "cannot start %s: %s", path, strerror(result.status));
        else if (result.end != DRV_EXITED || result.status != 0)
            r = nf_fail(err, NF_ENOCOMPILER, "%s --version failed with %s %d%s%s", path, result.end == DRV_SIGNALLED ? "signal" : "exit code",
                        result.status, a.last[0] ? ": " : "", a.last);
        else if (!a.text.data || !drv_version_parse(nf_buf_str(&a.text), ret_version, size))
            r = nf_fail(err, NF_ENOCOMPILER, "%s --version names no version", path);
    }
    if (r != NF_OK)
        nf_error_hint(err, "is it the real neuronx-cc, and does it run by hand?");
    nf_buf_done(&a.text);
    return r;
}

/* What this process has asked already. One binary is the usual number. */
static struct {
    char path[512], version[96];
    int64_t mtime_ns;
    uint64_t size;
} memo[8];
static unsigned memo_next;
static pthread_mutex_t memo_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards both; held while a compiler is asked, so that it is asked once */

int drv_identify(const struct cfg *cfg, const char *target, const char *not_this, struct target_id *ret_id, struct nf_error *err)
{
    struct nf_buf path = NF_BUF_INIT;
    int r = drv_find(cfg, not_this, &path, err);
    if (r != NF_OK) {
        nf_buf_done(&path);
        return r;
    }
    struct target_id id = {0};
    struct stat st;
    bool fits = nf_format(id.path, sizeof(id.path), "%s", path.data) && nf_format(id.target, sizeof(id.target), "%s", target);
    nf_buf_done(&path);
    if (!fits)
        return nf_fail(err, NF_ELIMIT, "the compiler's path is longer than %zu bytes", sizeof(id.path));
    if (stat(id.path, &st) < 0)
        return nf_fail_errno(err, errno, "cannot look at the compiler %s", id.path);
    id.mtime_ns = (int64_t)st.st_mtim.tv_sec * NF_SEC + st.st_mtim.tv_nsec;
    id.size = (uint64_t)st.st_size;
    pthread_mutex_lock(&memo_mutex);
    size_t i = 0;
    while (i < NF_ARRAY_LEN(memo) && !(strcmp(memo[i].path, id.path) == 0 && memo[i].mtime_ns == id.mtime_ns && memo[i].size == id.size))
        i++;
    if (i < NF_ARRAY_LEN(memo)) {
        memcpy(id.version, memo[i].version, sizeof(id.version));
    } else {
        r = ask(id.path, id.version, sizeof(id.version), err);
        if (r == NF_OK) {
            i = memo_next++ % NF_ARRAY_LEN(memo);
            memcpy(memo[i].path, id.path, sizeof(id.path));
            memcpy(memo[i].version, id.version, sizeof(id.version));
            memo[i].mtime_ns = id.mtime_ns;
            memo[i].size = id.size;
        }
    }
    pthread_mutex_unlock(&memo_mutex);
    if (r != NF_OK)
        return r;
    nf_format(id.compiler, sizeof(id.compiler), "neuronx-cc %s", id.version);
    *ret_id = id;
    return NF_OK;
}
