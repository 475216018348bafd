/* toolchain.c: see toolchain.h. */
#include "daemon/toolchain.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "pipeline/pipeline.h"
#include "runtime/platform.h"

#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define TOOLCHAINS_MAX 32
#define LOOK_MS 5000
#define IDENTIFY_LIMIT_NS (60 * NF_SEC)
#define TRIES 3              /* in a row, before those who wait are told; from there on tries are LATER_MS apart */
#define LATER_MS 1000

struct toolchains {
    struct daemon *d;
    struct toolchain list[TOOLCHAINS_MAX];
    size_t count;
    bool known, asking, again;
    struct worker *worker;
    uv_timer_t timer;
    unsigned failures;           /* in a row */
    void (*on_change)(struct daemon *d);
    void (*on_failure)(struct daemon *d, const struct nf_error *err);
    uv_fs_t stat_req;
    bool stat_busy;
    bool closing, timer_closed;  /* freed when the timer is closed and no stat is under way */
    size_t stat_at;
};

static void copy_text(char *out, size_t size, const char *text) { nf_format(out, size, "%s", text ? text : ""); }

static void take_identity(struct toolchains *t, const Neffd__Worker__V1__Identity *m)
{
    if (t->count == TOOLCHAINS_MAX)
        return;
    struct toolchain *c = &t->list[t->count++];
    *c = (struct toolchain){0};
    copy_text(c->info.target, sizeof c->info.target, m->target);
    if (m->error) {
        rpc_error_from_message(m->error, &c->err);
        if (!c->err.code)
            nf_fail(&c->err, NF_ENOCOMPILER, "no compiler for %s", m->target);
        nf_log(NF_LOG_DEBUG, "toolchain", "absent", "target=%s why=%s", m->target, nf_log_quote(c->err.message));
        return;
    }
    copy_text(c->info.compiler, sizeof c->info.compiler, m->compiler);
    copy_text(c->info.version, sizeof c->info.version, m->version);
    copy_text(c->info.path, sizeof c->info.path, m->path);
    copy_text(c->isa, sizeof c->isa, m->isa);
    copy_text(c->remark, sizeof c->remark, m->remark);
    c->info.mtime_ns = m->mtime_ns;
    c->info.size = m->size;
    struct target_id id = {0};   /* the same words that the key of an artifact has */
    struct nf_buf text = NF_BUF_INIT;
    copy_text(id.compiler, sizeof id.compiler, m->compiler);
    copy_text(id.isa, sizeof id.isa, m->isa);
    pipe_toolchain_id(&id, &text);
    copy_text(c->info.id, sizeof c->info.id, text.data);
    nf_buf_done(&text);
    if (c->remark[0])
        nf_log(NF_LOG_WARNING, "toolchain", "a compiler does less than it could", "target=%s why=%s", m->target, nf_log_quote(c->remark));
    nf_log(NF_LOG_INFO, "toolchain", "found", "target=%s compiler=%s path=%s", m->target, nf_log_quote(m->compiler), nf_log_quote(m->path));
}

static void write_list(struct toolchains *t)
{
    struct cache_toolchain *list = nf_alloc_array(t->count + 2, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        if (!t->list[i].err.code)
            list[n++] = t->list[i].info;
    /* A client that names no target computes its front key for what this daemon would compile for. */
    const struct toolchain *chosen;
    if (toolchains_find(t, "", &chosen, NULL) == NF_OK) {
        copy_text(list[n].target, sizeof list[n].target, CACHE_TOOLCHAIN_DEFAULT);
        copy_text(list[n].id, sizeof list[n].id, chosen->info.target);
        n++;
    }
    struct nf_error err = {0};
    if (cache_toolchain_write(t->d->cfg->local_dir, list, n, &err) < 0)
        nf_log(NF_LOG_WARNING, "toolchain", "the list for clients cannot be written", "why=%s", nf_log_quote(err.message));
    free(list);
}

static void ask(struct toolchains *t);

static void failed(struct toolchains *t, const struct nf_error *why)
{
    t->again = true;
    if (t->known || ++t->failures < TRIES || !t->on_failure)
        return;
    struct nf_error err = {0};
    nf_fail(&err, NF_ENOCOMPILER, "the daemon cannot ask for this host's compilers: %s", why->message);
    nf_error_hint(&err, "its log says more; it goes on trying");
    t->on_failure(t->d, &err);
}

static void on_answer(void *user, const struct worker_answer *a)
{
    struct toolchains *t = user;
    t->asking = false;
    if (a->lost)
        t->worker = NULL;
    if (a->err.code || a->frame != NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_IDENTIFIED) {
        nf_log(NF_LOG_ERROR, "toolchain", "compilers cannot be identified", "why=%s", nf_log_quote(a->err.message));
        if (!t->known)   /* again soon: nothing can be compiled without it */
            failed(t, &a->err);
    } else {
        const Neffd__Worker__V1__Identified *m = (const Neffd__Worker__V1__Identified *)a->message;
        t->count = 0;
        for (size_t i = 0; i < m->n_identities; i++)
            take_identity(t, m->identities[i]);
        t->known = true;
        t->failures = 0;
        write_list(t);
    }
    struct worker *w = t->worker;
    t->worker = NULL;
    if (w)
        worker_release(w);
    if (t->known && t->on_change)
        t->on_change(t->d);
}

static void ask(struct toolchains *t)
{
    if (t->asking) {
        t->again = true;
        return;
    }
    struct nf_error err = {0};
    t->worker = worker_take(t->d->workers, &err);
    if (!t->worker) {
        t->again = true;
        if (err.code) {
            nf_log(NF_LOG_ERROR, "toolchain", "no worker can be started", "why=%s", nf_log_quote(err.message));
            failed(t, &err);
        }
        return;
    }
    Neffd__Worker__V1__Identify m = NEFFD__WORKER__V1__IDENTIFY__INIT;
    struct worker_request r = {.frame = NEFFD__WORKER__V1__FRAME_TYPE__FRAME_TYPE_IDENTIFY, .message = &m.base,
                               .time_limit_ns = IDENTIFY_LIMIT_NS, .on_answer = on_answer, .user = t};
    t->again = false;
    t->asking = true;
    if (worker_submit(t->worker, &r, &err) < 0) {
        t->asking = false;
        worker_release(t->worker);
        t->worker = NULL;
    }
}

/* A compiler that was replaced: its file has another time or size. Through the pool, because it may lie on a mount. */
static void look(struct toolchains *t);

static void on_stat(uv_fs_t *req)
{
    struct toolchains *t = req->data;
    bool changed = false;
    if (t->closing) {
        uv_fs_req_cleanup(req);
        t->stat_busy = false;
        if (t->timer_closed)
            free(t);
        return;
    }
    if (t->stat_at < t->count) {
        const struct cache_toolchain *c = &t->list[t->stat_at].info;
        int64_t mtime = (int64_t)req->statbuf.st_mtim.tv_sec * NF_SEC + req->statbuf.st_mtim.tv_nsec;
        changed = req->result < 0 || mtime != c->mtime_ns || req->statbuf.st_size != c->size;
    }
    uv_fs_req_cleanup(req);
    t->stat_busy = false;
    t->stat_at++;
    if (changed) {
        nf_log(NF_LOG_INFO, "toolchain", "a compiler has changed", "path=%s", nf_log_quote(t->list[t->stat_at - 1].info.path));
        worker_pool_retire_all(t->d->workers);
        ask(t);
    } else {
        look(t);
    }
}

static void look(struct toolchains *t)
{
    while (t->stat_at < t->count && (t->list[t->stat_at].err.code || !t->list[t->stat_at].info.path[0]))
        t->stat_at++;
    if (t->stat_at >= t->count || t->stat_busy)
        return;
    t->stat_busy = true;
    t->stat_req.data = t;
    if (uv_fs_stat(t->d->loop, &t->stat_req, t->list[t->stat_at].info.path, on_stat) != 0)
        t->stat_busy = false;
}

static void on_timer(uv_timer_t *timer)
{
    struct toolchains *t = timer->data;
    if (t->again) {
        ask(t);
    } else if (t->known && !t->asking && !t->stat_busy) {
        t->stat_at = 0;
        look(t);
    }
    uv_timer_start(&t->timer, on_timer, t->known ? LOOK_MS : t->failures < TRIES ? 200 : LATER_MS, 0);
}

/* The list of an earlier daemon may name another compiler than this one will use, and its file may still be there: until this
 * daemon has looked, clients would take that compiler's entries for hits. Without a list they ask. */
static void drop_stale_list(struct daemon *d)
{
    static const char *const targets[] = {"trn1", "trn1n", "trn2", "trn3", "inf2"};
    struct nf_buf found = NF_BUF_INIT;
    struct cache_toolchain row;
    struct stat now, then;
    const char *path = getenv("PATH");
    bool have = rt_find_program(d->cfg->neuronx_cc[0] ? d->cfg->neuronx_cc : "neuronx-cc", path ? path : "", NULL, &found) == NF_OK &&
                stat(found.data, &now) == 0;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        if (cache_toolchain_read(d->cfg->local_dir, targets[i], &row, NULL) < 0 || !row.path[0])
            continue;
        if (have && stat(row.path, &then) == 0 && then.st_dev == now.st_dev && then.st_ino == now.st_ino)
            continue;
        char *list = nf_asprintf("%s/toolchains", d->cfg->local_dir);
        nf_log(NF_LOG_INFO, "toolchain", "the list names another compiler and is made anew", "was=%s", nf_log_quote(row.path));
        (void)unlink(list);
        free(list);
        break;
    }
    nf_buf_done(&found);
}

void toolchains_open(struct daemon *d, struct toolchains **ret_toolchains)
{
    struct toolchains *t = nf_alloc(sizeof *t);
    t->d = d;
    uv_timer_init(d->loop, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_timer, 200, 0);
    *ret_toolchains = t;
    drop_stale_list(d);
    ask(t);
}

static void on_closed(uv_handle_t *h)
{
    struct toolchains *t = h->data;
    t->timer_closed = true;
    if (!t->stat_busy)
        free(t);
}

void toolchains_close(struct toolchains *t)
{
    if (!t)
        return;
    t->closing = true;
    if (t->stat_busy)
        (void)uv_cancel((uv_req_t *)&t->stat_req);
    uv_timer_stop(&t->timer);
    uv_close((uv_handle_t *)&t->timer, on_closed);
}

void toolchains_refresh(struct toolchains *t)
{
    worker_pool_retire_all(t->d->workers);   /* they remember what they have found */
    ask(t);
}

bool toolchains_known(const struct toolchains *t) { return t->known; }

void toolchains_on_change(struct toolchains *t, void (*fn)(struct daemon *d), void (*failure)(struct daemon *d, const struct nf_error *err))
{
    t->on_change = fn;
    t->on_failure = failure;
}

const struct toolchain *toolchains_at(const struct toolchains *t, size_t i) { return i < t->count ? &t->list[i] : NULL; }

int toolchains_find(const struct toolchains *t, const char *target, const struct toolchain **ret_toolchain, struct nf_error *err)
{
    const struct cfg *cfg = t->d->cfg;
    struct rt_platform platform = {.override = cfg->target, .compiler = cfg->neuronx_cc[0] ? cfg->neuronx_cc : NULL};
    char name[RT_TARGET_MAX];
    int rc = rt_target_resolve(target, &platform, name, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->list[i].info.target, name) != 0)
            continue;
        if (t->list[i].err.code) {
            if (err)
                *err = t->list[i].err;
            return t->list[i].err.code;
        }
        *ret_toolchain = &t->list[i];
        return NF_OK;
    }
    return nf_fail(err, NF_EUNSUPPORTED, "this daemon has no compiler for target %s", name);
}

void toolchain_to_identity(const struct toolchain *t, Neffd__Worker__V1__Identity *m)
{
    neffd__worker__v1__identity__init(m);
    m->target = (char *)(uintptr_t)t->info.target;
    m->compiler = (char *)(uintptr_t)t->info.compiler;
    m->version = (char *)(uintptr_t)t->info.version;
    m->isa = (char *)(uintptr_t)t->isa;
    m->path = (char *)(uintptr_t)t->info.path;
    m->mtime_ns = t->info.mtime_ns;
    m->size = t->info.size;
}
