/* alone.c: without a daemon: the same keys, the same lock files, the same cache, the same driver, in this process. place.h says when it may
 * compile; one that ran out of memory tries again when nothing else runs.
 *
 * A signal that ends us is heeded at the next wait, which is never longer than 200 ms: the compiler ends, the working directory goes,
 * then the signal takes its course. What a SIGKILL leaves, the next one sweeps. */
#include "client/cc/cc.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cache/estimate.h"
#include "cache/store.h"
#include "client/cc/place.h"
#include "lockmgr/lock.h"
#include "pipeline/driver/driver.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/pipeline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROOM_BYTES ((uint64_t)64 << 20)
#define WORK_PREFIX "work-neffcc-"
#define SWEEP_AGE_S 60

struct alone {
    struct cc *cc;
    const char *local_dir;
    struct target_id id;
    char toolchain[CACHE_TOOLCHAIN_TEXT];
    struct pipe_graph *graph;
    const struct pipe_option *options;
    size_t option_count;
    struct pipe_side_file *side;
    struct cache_components components;
    struct nf_digest front;
    bool has_front;
    struct cache_store *store;
    struct lock_dir *locks;
    char key[NF_DIGEST_HEX];
    struct nf_str tail[40];            /* last lines of the log, in the arena */
    size_t lines;
    char *artifact;
    char *work_dir;
    int work_lock;                     /* on it, so that nobody sweeps it */
    uint64_t ops;
    struct estimate estimate;
    enum { LOCKED_OUT, IN_LINE, COMPILING, RESTING } phase;
    int64_t phase_since, next_dot, next_word;
};

/* ------------------------------------------------------------------------------------------------------------- waiting */

static void enter(struct alone *a, int phase)
{
    a->phase = phase;
    a->phase_since = nf_now_ns();
}

static void say(struct alone *a, int64_t now)
{
    long long s = (now - a->phase_since) / NF_SEC, left = a->estimate.p50_ns / NF_SEC - s, most = a->estimate.p90_ns / NF_SEC - s;
    struct lock_owner o = {0};
    switch (a->phase) {
    case LOCKED_OUT:
        lock_host_owner(a->locks, nf_str_c(a->key), &o);
        fprintf(stderr, "neffcc: waiting for %lld s for pid %d on %s, which compiles this graph\n", s, (int)o.pid, o.host[0] ? o.host : "this host");
        break;
    case IN_LINE: fprintf(stderr, "neffcc: waiting for %lld s for a slot and %llu MiB of memory\n", s, (unsigned long long)a->estimate.rss_bytes >> 20); break;
    case COMPILING:
        if (a->estimate.known && most > 0)
            fprintf(stderr, "neffcc: compiling for %lld s, about %lld s left (at most %lld s nine times of ten)\n", s, NF_MAX(left, 0LL), most);
        else
            fprintf(stderr, "neffcc: compiling for %lld s\n", s);
        break;
    case RESTING: fprintf(stderr, "neffcc: the compile failed in a way that may pass, waiting before it is tried again\n"); break;
    }
}

/* Asked at every wait: true ends it. A dot a second as neuronx-cc prints them, a word a minute. */
static bool waiting(void *user)
{
    struct alone *a = user;
    int64_t now = nf_now_ns();
    if (now >= a->next_dot) {
        putchar('.');
        fflush(stdout);
        a->next_dot = now + CC_DOT_NS;
    }
    if (now >= a->next_word) {
        say(a, now);
        a->next_word = now + CC_WORD_NS;
    }
    return cc_stop();
}

/* ----------------------------------------------------------------------------------------------------------- the key */

/* From the list that a daemon or an earlier neffcc has written, if it is about this very binary; else it is asked. */
static int identify(struct alone *a, struct nf_error *err)
{
    struct cc *cc = a->cc;
    struct cache_toolchain t;
    struct nf_buf id = NF_BUF_INIT;
    if (cache_toolchain_read(a->local_dir, cc->call.target, &t, NULL) == NF_OK && strcmp(t.path, cc->compiler) == 0) {
        nf_format(a->id.target, sizeof(a->id.target), "%s", t.target);
        nf_format(a->id.compiler, sizeof(a->id.compiler), "%s", t.compiler);
        nf_format(a->id.version, sizeof(a->id.version), "%s", t.version);
        nf_format(a->id.path, sizeof(a->id.path), "%s", t.path);
        a->id.mtime_ns = t.mtime_ns;
        a->id.size = t.size;
    } else {
        int r = drv_identify(cc->cfg, cc->call.target, cc->self, &a->id, err);
        if (r != NF_OK)
            return r;
    }
    pipe_toolchain_id(&a->id, &id);
    nf_format(a->toolchain, sizeof(a->toolchain), "%s", id.data);
    nf_buf_done(&id);
    if (cache_toolchain_read(a->local_dir, cc->call.target, &t, NULL) != NF_OK || strcmp(t.id, a->toolchain) != 0) {
        struct cache_toolchain mine = {.mtime_ns = a->id.mtime_ns, .size = a->id.size};
        nf_format(mine.target, sizeof(mine.target), "%s", a->id.target);
        nf_format(mine.id, sizeof(mine.id), "%s", a->toolchain);
        nf_format(mine.compiler, sizeof(mine.compiler), "%s", a->id.compiler);
        nf_format(mine.version, sizeof(mine.version), "%s", a->id.version);
        nf_format(mine.path, sizeof(mine.path), "%s", a->id.path);
        cache_toolchain_write(a->local_dir, &mine, 1, NULL);   /* so that the next hit needs no parsing; no harm if it cannot */
    }
    return NF_OK;
}

static int make_key(struct alone *a, struct nf_error *err)
{
    struct cc *cc = a->cc;
    const struct cfg *cfg = cc->cfg;
    struct hlo_limits limits = hlo_limits_default;
    limits.depth = (uint32_t)cfg->max_depth;
    limits.ops = (uint32_t)NF_MIN(cfg->max_ops, (int64_t)UINT32_MAX);
    limits.literal_bytes = cfg->max_literal;
    limits.are_options = true;
    int r = pipe_import(nf_buf_str(&cc->graph), PIPE_KIND_UNKNOWN, cc->call.input, &limits, cc->arena, &a->graph, err);
    if (r == NF_OK)
        r = drv_options(&a->id, cc->options, cc->option_count, cc->arena, &a->options, &a->option_count, err);
    if (r != NF_OK)
        return r;
    a->side = NF_NEW_ARRAY(cc->arena, struct pipe_side_file, cc->side_count + 1);
    for (size_t i = 0; i < cc->side_count; i++)
        a->side[i] = (struct pipe_side_file){cc->side[i].name, nf_digest_of(cc->side[i].bytes.data, cc->side[i].bytes.len), cc->side[i].bytes.len,
                                             cc->side[i].path};
    const struct pipe_component *parts;
    size_t n;
    pipe_components(a->graph, &a->id, a->options, a->option_count, a->side, cc->side_count, nf_str_c(cfg->cache_namespace), (struct nf_str){0},
                    cc->arena, &parts, &n);
    cache_components_init(&a->components, cc->arena);
    for (size_t i = 0; i < n; i++) {
        int kind = cache_component_kind_of(nf_str_c(parts[i].component));
        if (kind < 0)
            return nf_fail(err, NF_EINTERNAL, "no component is called %s", parts[i].component);
        cache_components_add(&a->components, (enum cache_component_kind)kind, nf_str_c(parts[i].name), parts[i].value, parts[i].location);
        a->ops += cache_component_is_op(&a->components.items[i]);
    }
    r = cache_key_canonical(a->components.items, a->components.count, &cc->key, err);
    if (r != NF_OK)
        return r;
    cc->has_key = true;
    nf_digest_hex(&cc->key, a->key);

    struct cache_option *given = NF_NEW_ARRAY(cc->arena, struct cache_option, cc->option_count + 1);
    for (size_t i = 0; i < cc->option_count; i++)
        given[i] = (struct cache_option){nf_str_c(cc->options[i].name), cc->options[i].value};
    struct cache_side_file *side = NF_NEW_ARRAY(cc->arena, struct cache_side_file, cc->side_count + 1);
    for (size_t i = 0; i < cc->side_count; i++)
        side[i] = (struct cache_side_file){nf_str_c(a->side[i].name), a->side[i].sha256, a->side[i].size};
    struct cache_front_parts front = {
        .target = nf_str_c(cc->call.target), .toolchain_id = nf_str_c(a->toolchain), .options = given, .option_count = cc->option_count,
        .side_files = side, .side_file_count = cc->side_count, .cache_namespace = nf_str_c(cfg->cache_namespace),
    };
    a->has_front = cache_key_front(&front, nf_buf_str(&cc->graph), &a->front, NULL) == NF_OK;
    return NF_OK;
}

/* --------------------------------------------------------------------------------------------------------- directories */

static int open_store(struct alone *a, const char *local, struct nf_error *err)
{
    const struct cfg *c = a->cc->cfg;
    struct cache_store_options o = {
        .local_dir = local, .shared_dir = c->cache_dir, .local_hard_bytes = c->local_hard_limit, .shared_hard_bytes = c->cache_hard_limit,
        .mount_patience_ns = c->mount_timeout_ns, .mount_threads = 1, .failure_user_ttl_s = c->failure_ttl_ns / NF_SEC,
        .failure_internal_ttl_s = c->internal_failure_ttl_ns / NF_SEC, .file_mode = (mode_t)c->cache_mode,
        .verify_always = c->verify == CFG_VERIFY_ALWAYS, .no_index = true,
    };
    int r = cache_store_open(&o, &a->store, err);
    if (r == NF_OK)
        r = lock_dir_open(local, &a->locks, err);
    if (r == NF_OK && access(local, W_OK) < 0)
        r = nf_fail_errno(err, errno, "cannot write in %s", local);
    if (r != NF_OK) {
        cache_store_close(a->store);
        lock_dir_close(a->locks);
        a->store = NULL;
        a->locks = NULL;
    } else {
        a->local_dir = local;
    }
    return r;
}

/* The configured local tier, else (it is somebody else's, or cannot be written) one of this user's own beside it. */
static int open_tiers(struct alone *a, struct nf_error *err)
{
    int r = open_store(a, a->cc->cfg->local_dir, err);
    if (r == NF_OK)
        return r;
    struct nf_error second = {0};
    const char *tmp = getenv("TMPDIR");
    const char *places[] = {nf_arena_printf(a->cc->arena, "%s.uid%u", a->cc->cfg->local_dir, (unsigned)geteuid()),
                            nf_arena_printf(a->cc->arena, "%s/neffd-uid%u", tmp && tmp[0] ? tmp : "/tmp", (unsigned)geteuid())};
    for (size_t i = 0; i < NF_ARRAY_LEN(places); i++)
        if (open_store(a, places[i], &second) == NF_OK)
            return NF_OK;
    return r;
}

/* ---------------------------------------------------------------------------------------------------------- look, give */

static enum cc_next give(struct alone *a, int fd, uint64_t bytes, const char *outcome, int *ret_rc, struct nf_error *why)
{
    a->cc->outcome = outcome;
    *ret_rc = 0;
    int r = cc_deliver(a->cc, fd, bytes, why);
    if (r == NF_ECORRUPT)
        return CC_EXEC;
    if (r != NF_OK)
        *ret_rc = cc_replay(a->cc, why, NULL, 0, false);
    return CC_DONE;
}

static enum cc_next give_hit(struct alone *a, struct cache_hit *hit, const char *outcome, int *ret_rc, struct nf_error *why)
{
    if (a->has_front)
        cache_store_alias_put(a->store, &a->front, &a->cc->key, a->cc->cfg->cache_namespace, NULL);
    return give(a, cache_hit_fd(hit), cache_hit_footer(hit)->raw_bytes, outcome, ret_rc, why);
}

/* true: answered. */
static bool look_up(struct alone *a, unsigned flags, enum cc_next *ret_next, int *ret_rc, struct nf_error *why)
{
    struct cc *cc = a->cc;
    struct cache_found f = {0};
    if (cc->wrapper.retry_failed)
        flags |= CACHE_LOOKUP_NO_FAILURES;
    if (cache_store_lookup(a->store, &cc->key, cc->cfg->cache_namespace, flags, &f, NULL) != NF_OK)
        return false;
    if (f.hit) {
        *ret_next = give_hit(a, f.hit, f.tier == CACHE_TIER_SHARED ? "hit_shared" : "hit_local", ret_rc, why);
    } else if (f.is_failure) {
        *ret_rc = cc_replay(cc, &f.failure.error, f.failure.log_tail, f.failure.log_count, true);
        *ret_next = CC_DONE;
    }
    bool answered = f.hit || f.is_failure;
    cache_found_done(&f);
    return answered;
}

/* ------------------------------------------------------------------------------------------------------------- compile */

static void on_log(void *user, int level, const char *source, struct nf_str line)
{
    struct alone *a = user;
    (void)level, (void)source;
    a->tail[a->lines++ % NF_ARRAY_LEN(a->tail)] = nf_arena_str(a->cc->arena, nf_str_n(line.data, NF_MIN(line.len, (size_t)2048)));
    cc_log_line(a->cc, line);
}

static void on_artifact(void *user, const char *kind, const char *path)
{
    struct alone *a = user;
    if (strcmp(kind, "neff") == 0) {
        free(a->artifact);
        a->artifact = nf_strdup(path);
    }
}

static int compile_once(struct alone *a, uint64_t *ret_peak, struct nf_error *err)
{
    struct cc *cc = a->cc;
    struct compile_input in = {
        .graph = a->graph, .target = a->id.target, .id = &a->id, .options = a->options, .option_count = a->option_count,
        .side_files = a->side, .side_file_count = cc->side_count, .work_dir = a->work_dir, .time_limit_ns = cc->cfg->compile_timeout_ns, .cfg = cc->cfg,
    };
    struct compile_sink sink = {.user = a, .log = on_log, .artifact = on_artifact, .cancelled = waiting};
    a->lines = 0;
    free(a->artifact);
    a->artifact = NULL;
    int r = pipe_compile(&in, &sink, err);
    *ret_peak = sink.peak_rss_bytes;
    return r;
}

static size_t tail_of(struct alone *a, struct nf_str *out)
{
    size_t n = NF_MIN(a->lines, NF_ARRAY_LEN(a->tail));
    for (size_t i = 0; i < n; i++)
        out[i] = a->tail[(a->lines - n + i) % NF_ARRAY_LEN(a->tail)];
    return n;
}

static void fill_meta(struct alone *a, uint32_t attempts, int64_t started_us, struct cache_meta *m)
{
    struct cc *cc = a->cc;
    char host[65] = "";
    gethostname(host, sizeof(host) - 1);
    const char *slash = strrchr(cc->call.input, '/');
    *m = (struct cache_meta){
        .key = cc->key, .kind = CACHE_KIND_NEFF, .name = nf_str_c(slash ? slash + 1 : cc->call.input),
        .cache_namespace = nf_str_c(cc->cfg->cache_namespace), .target = nf_str_c(a->id.target), .compiler = nf_str_c(a->id.compiler),
        .toolchain_id = nf_str_c(a->toolchain), .host = nf_str_c(nf_arena_printf(cc->arena, "%s", host)), .pid = (uint32_t)getpid(),
        .created_by = nf_str_c(nf_arena_printf(cc->arena, "uid %u, neffcc %s", (unsigned)geteuid(), NEFFD_VERSION)), .attempts = attempts,
        .started_us = started_us, .components = a->components.items, .component_count = a->components.count,
        .stablehlo = a->graph->module ? a->graph->canonical : (struct nf_str){0},
    };
}

static enum cc_next publish(struct alone *a, struct cache_meta *meta, int *ret_rc, struct nf_error *why)
{
    struct cc *cc = a->cc;
    int fd = open(a->artifact, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        nf_fail_errno(why, errno, "cannot open %s", a->artifact);
        if (fd >= 0)
            close(fd);
        return CC_EXEC;
    }
    struct cache_publication p = {.meta = *meta, .artifact_fd = fd};
    struct cache_published out = {0};
    struct nf_error err = {0};
    enum cc_next next;
    if (!cc->cfg->disable_cache && !cc->wrapper.no_cache && cache_store_publish(a->store, &p, &out, &err) == NF_OK && out.hit) {
        next = give_hit(a, out.hit, "compiled", ret_rc, why);          /* the winner's bytes, if somebody was faster */
        cache_hit_close(out.hit);
    } else {
        if (err.code)
            nf_log(NF_LOG_WARNING, "neffcc", "the artifact was made but not kept", "why=%s", nf_log_quote(err.message));
        next = give(a, fd, (uint64_t)st.st_size, "compiled", ret_rc, why);
    }
    close(fd);
    return next;
}

/* What compiles of graphs of this size have taken; learned by daemons and by us, in one file. */
static void recall(struct alone *a)
{
    struct estimates *known = estimates_open(a->local_dir);
    a->estimate = estimates_of(known, a->id.target, a->ops);
    estimates_close(known);
}

static void learn(struct alone *a, int64_t compile_ns, uint64_t rss_bytes)
{
    struct lock_host *lock = NULL;
    if (lock_host_acquire(a->locks, NF_STR("estimates"), "neffcc", NF_SEC, waiting, a, &lock, NULL) != NF_OK)
        return;
    struct estimates *known = estimates_open(a->local_dir);
    estimates_add(known, a->id.target, a->ops, compile_ns, rss_bytes);
    estimates_close(known);
    lock_host_release(lock);
}

static enum cc_next compile(struct alone *a, int *ret_rc, struct nf_error *why)
{
    struct cc *cc = a->cc;
    struct cc_place place = {0};
    struct nf_error err = {0};
    int64_t patience = cc->cfg->lock_timeout_ns + (cc->cfg->compile_timeout_ns > 0 ? cc->cfg->compile_timeout_ns : 24 * 3600 * NF_SEC);
    int64_t backoff = cc->cfg->retry_backoff_ns, started_us = nf_wall_us(), took = 0;
    enum cc_next next = CC_EXEC;
    uint64_t peak = 0, need = a->estimate.rss_bytes;
    uint32_t attempts = 0;
    int r = NF_OK;
    for (bool again = true; again;) {
        enter(a, IN_LINE);
        r = cc_place_take(a->locks, cc->cfg, need, patience, waiting, a, &place, why);
        if (r != NF_OK)
            return CC_EXEC;
        memset(&err, 0, sizeof(err));
        enter(a, COMPILING);
        r = compile_once(a, &peak, &err);
        took = nf_now_ns() - a->phase_since;
        attempts++;
        cc_place_leave(&place);
        if (r == NF_OK || r == NF_ENOMEM || r == NF_ECOMPILETIMEOUT)
            learn(a, took, peak);
        enum nf_class cls = nf_status_class(r);
        int64_t allowed = cls == NF_CLASS_TRANSIENT ? cc->cfg->retries : cls == NF_CLASS_INTERNAL ? NF_MIN(cc->cfg->retries, (int64_t)1) : 0;
        again = r != NF_OK && (int64_t)attempts <= allowed && !cc_stop();
        if (again) {
            nf_log(NF_LOG_WARNING, "neffcc", "the compile failed and is tried again", "attempt=%u why=%s", attempts, nf_log_quote(err.message));
            if (r == NF_ENOMEM || r == NF_ECOMPILERKILLED)   /* the second is often the first, without anybody saying so */
                need = CC_NEED_ALL;
            enter(a, RESTING);
            for (int64_t end = nf_now_ns() + backoff; nf_now_ns() < end && !waiting(a);)
                nf_sleep_ns(NF_MIN(end - nf_now_ns(), 200 * NF_MS));
            backoff *= 2;
        }
    }
    if (cc_stop())
        return CC_DONE;
    struct cache_meta meta;
    fill_meta(a, attempts, started_us, &meta);
    meta.compile_us = (uint64_t)took / 1000;
    meta.peak_rss_bytes = peak;
    if (r == NF_OK)
        return publish(a, &meta, ret_rc, why);
    struct nf_str log[NF_ARRAY_LEN(a->tail)];
    size_t lines = tail_of(a, log);
    enum nf_class cls = nf_status_class(r);
    if (cls == NF_CLASS_USER || cls == NF_CLASS_INTERNAL) {
        struct cache_failure f = {.error = err, .cls = cls, .attempts = attempts, .log_tail = log, .log_count = lines};
        meta.kind = CACHE_KIND_FAILURE;
        meta.failure = &f;
        cache_store_remember_failure(a->store, &meta, NULL);
    }
    bool ours = (cls == NF_CLASS_ENVIRONMENT && r != NF_ESIDEFILE) ||
                (err.exit_code == 0 && r != NF_ECOMPILERCRASH && r != NF_ECOMPILETIMEOUT && r != NF_ENOMEM && r != NF_ESIDEFILE);
    if (ours) {
        *why = err;                     /* not the compiler's word: let it speak for itself */
    } else {
        *ret_rc = cc_replay(cc, &err, log, lines, false);
        next = CC_DONE;
    }
    return next;
}

/* Those of neffccs that were killed: old enough that it is not just being made, and nobody holds its lock. */
static void sweep(const char *place)
{
    int base = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = base >= 0 ? fdopendir(dup(base)) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!nf_str_starts(nf_str_c(e->d_name), NF_STR(WORK_PREFIX)))
            continue;
        int dir = openat(base, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dir >= 0 && fstat(dir, &st) == 0 && st.st_uid == geteuid() && nf_wall_us() / 1000000 - st.st_mtime > SWEEP_AGE_S &&
            flock(dir, LOCK_EX | LOCK_NB) == 0)
            nf_remove_tree(base, e->d_name);
        if (dir >= 0)
            close(dir);
    }
    if (d)
        closedir(d);
    if (base >= 0)
        close(base);
}

/* In the local directory, or where there is more room. */
static int make_work_dir(struct alone *a, struct nf_error *err)
{
    const char *tmp = getenv("TMPDIR");
    const char *places[] = {a->local_dir, tmp && tmp[0] ? tmp : "/tmp"};
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < NF_ARRAY_LEN(places); i++) {
            struct statvfs v;
            bool room = statvfs(places[i], &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize >= ROOM_BYTES + 4 * (uint64_t)a->cc->graph.len;
            if (!room && pass == 0)
                continue;
            sweep(places[i]);
            char *path = nf_asprintf("%s/" WORK_PREFIX "XXXXXX", places[i]);
            if (mkdtemp(path)) {
                a->work_dir = path;
                a->work_lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (a->work_lock >= 0)
                    flock(a->work_lock, LOCK_SH);
                return NF_OK;
            }
            nf_fail_errno(err, errno, "cannot make a working directory in %s", places[i]);
            free(path);
        }
    }
    return NF_EIO;
}

static void remove_work_dir(struct alone *a)
{
    if (!a->work_dir)
        return;
    char *name = strrchr(a->work_dir, '/');
    *name = 0;
    int dir = open(a->work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        nf_remove_tree(dir, name + 1);
        close(dir);
    }
    free(a->work_dir);
    if (a->work_lock >= 0)
        close(a->work_lock);
}

enum cc_next cc_alone(struct cc *cc, int *ret_rc, struct nf_error *why)
{
    struct alone a = {.cc = cc};
    enum cc_next next = CC_EXEC;
    struct lock_host *lock = NULL;
    bool no_cache = cc->cfg->disable_cache || cc->wrapper.no_cache;
    cc->via = "cache";
    if (!cc->compiler && !cc->cfg->cache_only) {
        nf_fail(why, NF_ENOCOMPILER, "no compiler");
        return CC_EXEC;
    }
    drv_register();
    cc_catch_signals();
    if (open_tiers(&a, why) != NF_OK || identify(&a, why) != NF_OK || make_key(&a, why) != NF_OK)
        goto out;
    if (!no_cache && look_up(&a, 0, &next, ret_rc, why))
        goto out;
    if (cc->cfg->cache_only) {
        *ret_rc = cc_miss(cc, CC_NOT_CACHED, NULL);
        next = CC_DONE;
        goto out;
    }
    recall(&a);
    enter(&a, LOCKED_OUT);
    a.next_dot = a.phase_since + CC_DOT_NS;
    a.next_word = a.phase_since + CC_WORD_NS;
    int r = lock_host_acquire(a.locks, nf_str_c(a.key), "neffcc " NEFFD_VERSION, cc->cfg->lock_timeout_ns, waiting, &a, &lock, why);
    if (r == NF_ELOCKTIMEOUT) {          /* the holder is alive and compiles just this: see ask.c */
        *ret_rc = cc_replay(cc, why, NULL, 0, false);
        next = CC_DONE;
    }
    if (r != NF_OK)
        goto out;
    if (!no_cache && look_up(&a, CACHE_LOOKUP_CLAIMED, &next, ret_rc, why))
        goto out;
    if (make_work_dir(&a, why) == NF_OK)
        next = compile(&a, ret_rc, why);
out:
    remove_work_dir(&a);
    lock_host_release(lock);
    free(a.artifact);
    lock_dir_close(a.locks);
    cache_store_close(a.store);
    cc_end_if_stopped(cc);
    return next;
}
