/* warm.c: filling the cache before a job starts: record, run, status, upgrade.
 *
 *     record   a directory of requests: of a command that runs with NEFFD_RECORD_DIR, or of what the cache holds
 *     run      compiles them, several at once, as warm-up (interactive requests go first) and detached; what is there is a hit, so a run
 *              that was interrupted goes on where it was
 *     status   of a run: its state file, which is replaced at each change
 *     upgrade  compiles what is used most again, from the texts kept in the cache, with the compiler that the daemon has now
 *
 * State file: {"total", "done", "hits", "failed", "running", "eta_p50_ms"} and for the reader's sake "pid", "finished", "manifest". */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "base/file.h"
#include "cache/store.h"
#include "client/ctl/request.h"
#include "client/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const struct ctl_option ctl_options_warm_record[] = {
    {"output", 'o', "DIR", "dir", "where requests are kept (default neffd-warm)"},
    {"from-cache", 0, NULL, NULL, "what the cache holds, instead of what a command asks"},
    {"limit", 0, "N", NULL, "with --from-cache: at most N, latest used first"},
    {"namespace", 0, "N", NULL, "with --from-cache: only this cache namespace"},
    {0},
};
const struct ctl_option ctl_options_warm_run[] = {
    {"parallel", 'j', "N", NULL, "requests at once (default 16; the daemon's slots limit what compiles)"},
    {"timeout", 0, "S", NULL, "stop waiting after S seconds; started compiles go on"},
    {"state", 0, "FILE", "file", "state file (default: one of this user, which status reads)"},
    {"start", 0, NULL, NULL, "start a daemon if none answers"},
    {0},
};
const struct ctl_option ctl_options_warm_status[] = {
    {"wait", 0, NULL, NULL, "until the run has finished"},
    {"timeout", 0, "S", NULL, "with --wait: at most S seconds, then exit 5"},
    {"state", 0, "FILE", "file", "state file of the run"},
    {0},
};
const struct ctl_option ctl_options_warm_upgrade[] = {
    {"to", 0, "VERSION", NULL, "version of the compiler that the daemon must have"},
    {"limit", 0, "N", NULL, "at most N entries, latest used first (default 1000)"},
    {"namespace", 0, "N", NULL, "only this cache namespace"},
    {"parallel", 'j', "N", NULL, "requests at once (default 16)"},
    {"timeout", 0, "S", NULL, "stop waiting after S seconds; started compiles go on"},
    {"state", 0, "FILE", "file", "state file"},
    {0},
};

/* One request, from a file of record.c or from the cache. */
struct item {
    struct nf_buf graph;
    struct nf_buf *sides;
    neffd_option *options;
    neffd_side_file *side_files;
    char *target, *base_key, *ns, *name;
    char *unreadable;              /* why its record cannot be used; NULL: it can */
    neffd_request request;
};

struct run {
    struct ctl *c;
    neffd_client *client;
    struct item *items;
    size_t count, cap;
    const char *manifest, *state_path;
    int64_t deadline_ns;
    pthread_mutex_t lock;          /* guards what follows; taken alone */
    size_t next, done, hits, failed, running;
    uint64_t *eta_ms;              /* of the item; what its compile was last said to need */
    uint64_t took_us;              /* by compiling, sum */
    size_t compiled;
    struct json_object *failures;  /* for the summary */
    bool stopped;
};

static struct item *item_add(struct run *r)
{
    if (r->count == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 64;
        r->items = nf_realloc(r->items, r->cap * sizeof(*r->items));
    }
    struct item *it = &r->items[r->count++];
    *it = (struct item){.request.struct_size = sizeof(it->request)};
    return it;
}

static void item_done(struct item *it)
{
    for (size_t i = 0; i < it->request.option_count; i++) {
        free((char *)(uintptr_t)it->options[i].name);
        free((char *)(uintptr_t)it->options[i].value);
    }
    for (size_t i = 0; i < it->request.side_file_count; i++) {
        free((char *)(uintptr_t)it->side_files[i].name);
        nf_buf_done(&it->sides[i]);
    }
    free(it->options);
    free(it->side_files);
    free(it->sides);
    free(it->target);
    free(it->base_key);
    free(it->ns);
    free(it->name);
    free(it->unreadable);
    nf_buf_done(&it->graph);
}

static void item_seal(struct item *it)
{
    it->request.graph = it->graph.data;
    it->request.graph_bytes = it->graph.len;
    it->request.options = it->options;
    it->request.side_files = it->side_files;
    it->request.target = it->target;
    it->request.base_key = it->base_key;
    it->request.cache_namespace = it->ns;
    it->request.name = it->name;
    it->request.priority = NEFFD__V1__PRIORITY__PRIORITY_WARMUP;
    it->request.detach = true;
}

/* -------------------------------------------------------------------------------------------------------------- manifest */

static const char *text_field(struct json_object *o, const char *name)
{
    struct json_object *v;
    return json_object_object_get_ex(o, name, &v) && json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

static int int_field(struct json_object *o, const char *name)
{
    struct json_object *v;
    return json_object_object_get_ex(o, name, &v) && json_object_is_type(v, json_type_int) ? json_object_get_int(v) : 0;
}

/* A file beside the manifest, by a plain name. */
static int read_beside(const char *dir, const char *name, struct nf_buf *out, struct nf_error *err)
{
    if (!name[0] || strchr(name, '/') || name[0] == '.')
        return nf_fail(err, NF_EINVAL, "'%s' is not the name of a file in %s", name, dir);
    char *path = nf_asprintf("%s/%s", dir, name);
    int r = ctl_read_file(path, out, err);
    free(path);
    return r;
}

static int read_request(struct run *r, const char *dir, const char *file, struct nf_error *err)
{
    struct nf_buf text = NF_BUF_INIT;
    struct json_object *o = NULL, *list;
    int rc = read_beside(dir, file, &text, err);
    if (rc >= 0 && (!(o = json_tokener_parse(text.data ? text.data : "")) || !json_object_is_type(o, json_type_object)))
        rc = nf_fail(err, NF_EINVAL, "%s/%s is not a recorded request", dir, file);
    if (rc >= 0) {
        struct item *it = item_add(r);
        rc = read_beside(dir, text_field(o, "graph"), &it->graph, err);
        it->request.input_kind = int_field(o, "input_kind");
        it->request.stop_after = int_field(o, "stop_after");
        it->target = nf_strdup(text_field(o, "target"));
        it->base_key = nf_strdup(text_field(o, "base_key"));
        it->ns = nf_strdup(text_field(o, "namespace"));
        it->name = nf_strdup(text_field(o, "name"));
        if (json_object_object_get_ex(o, "options", &list) && json_object_is_type(list, json_type_array)) {
            size_t n = json_object_array_length(list);
            it->options = nf_alloc_array(n + 1, sizeof(*it->options));
            for (size_t i = 0; i < n; i++) {
                struct json_object *e = json_object_array_get_idx(list, i);
                it->options[it->request.option_count++] = (neffd_option){nf_strdup(text_field(e, "name")), nf_strdup(text_field(e, "value"))};
            }
        }
        if (json_object_object_get_ex(o, "side_files", &list) && json_object_is_type(list, json_type_array)) {
            size_t n = json_object_array_length(list);
            it->side_files = nf_alloc_array(n + 1, sizeof(*it->side_files));
            it->sides = nf_alloc_array(n + 1, sizeof(*it->sides));
            for (size_t i = 0; i < n && rc >= 0; i++) {
                struct json_object *e = json_object_array_get_idx(list, i);
                rc = read_beside(dir, text_field(e, "file"), &it->sides[i], err);
                it->side_files[it->request.side_file_count++] = (neffd_side_file){nf_strdup(text_field(e, "name")), it->sides[i].data, it->sides[i].len};
            }
        }
        item_seal(it);
    }
    json_object_put(o);
    nf_buf_done(&text);
    return rc;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* All requests of a directory, in the order of their names, so that runs are alike. One that cannot be read fails alone. */
static int read_manifest(struct run *r, const char *dir, struct nf_error *err)
{
    char **names = NULL;
    size_t n = 0, cap = 0;
    int rc = NF_OK;
    DIR *d = opendir(dir);
    if (!d) {
        int e = errno;
        (void)ctl_wrong_path(dir, nf_fail_errno(err, e, "cannot open %s", dir), err);
        nf_error_hint(err, "`neffctl warm record` makes one");
        return err->code;
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct nf_str name = nf_str_c(e->d_name);
        if (name.len != 64 + 5 || !nf_str_ends(name, NF_STR(".json")))
            continue;
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            names = nf_realloc(names, cap * sizeof(*names));
        }
        names[n++] = nf_strdup(e->d_name);
    }
    closedir(d);
    if (n)
        qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++) {
        struct nf_error e = {0};
        size_t before = r->count;
        if (read_request(r, dir, names[i], &e) < 0) {
            if (r->count > before)
                item_done(&r->items[--r->count]);
            struct item *it = item_add(r);
            it->name = nf_strdup(names[i]);
            it->unreadable = nf_strdup(e.message);
        }
        free(names[i]);
    }
    free(names);
    if (rc >= 0 && n == 0) {
        rc = nf_fail(err, NF_EINVAL, "%s holds no recorded requests", dir);
        nf_error_hint(err, "`neffctl warm record` makes some");
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------------------------------- state */

static char *default_state(void)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    return dir && dir[0] ? nf_asprintf("%s/neffd-warm.json", dir) : nf_asprintf("/tmp/neffd-warm-%u.json", (unsigned)geteuid());
}

/* What compiles says itself when it ends. The rest, also what waits in the daemon's queue, takes what the others took on average, and as
 * many at once as compile now. */
static uint64_t eta_ms(const struct run *r)
{
    uint64_t sum = 0, longest = 0;
    size_t compiling = 0;
    for (size_t i = 0; i < r->count; i++) {
        sum += r->eta_ms[i];
        longest = NF_MAX(longest, r->eta_ms[i]);
        compiling += r->eta_ms[i] > 0;
    }
    uint64_t mean = r->compiled ? r->took_us / r->compiled / 1000 : longest;
    size_t waiting = r->count - r->done - compiling;
    return NF_MAX(longest, (sum + mean * waiting) / NF_MAX(compiling, (size_t)1));
}

static struct json_object *state_json(struct run *r, bool finished)
{
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "total", ctl_json_u64(r->count));
    json_object_object_add(o, "done", ctl_json_u64(r->done));
    json_object_object_add(o, "hits", ctl_json_u64(r->hits));
    json_object_object_add(o, "failed", ctl_json_u64(r->failed));
    json_object_object_add(o, "running", ctl_json_u64(r->running));
    json_object_object_add(o, "eta_p50_ms", ctl_json_u64(finished ? 0 : eta_ms(r)));
    return o;
}

/* With the lock held. */
static void write_state(struct run *r, bool finished)
{
    struct json_object *o = state_json(r, finished);
    json_object_object_add(o, "finished", json_object_new_boolean(finished));
    json_object_object_add(o, "pid", json_object_new_int((int)getpid()));
    json_object_object_add(o, "manifest", ctl_json_str(r->manifest));
    const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (nf_file_replace(r->state_path, nf_str_c(text), 0644, NULL) < 0 && finished && !r->c->quiet)
        fprintf(stderr, "neffctl: the state could not be written to %s\n", r->state_path);
    json_object_put(o);
}

static void show(struct run *r)
{
    struct nf_buf t = NF_BUF_INIT;
    nf_buf_addf(&t, "%zu of %zu: %zu hits, %zu compiled, %zu failed, %zu running", r->done, r->count, r->hits, r->compiled, r->failed, r->running);
    uint64_t eta = eta_ms(r);
    if (eta) {
        nf_buf_add_c(&t, ", about ");
        cl_add_duration_us(&t, eta * 1000);
        nf_buf_add_c(&t, " left");
    }
    ctl_bar(r->c, r->count ? (double)r->done / (double)r->count : 1, t.data);
    nf_buf_done(&t);
}

/* --------------------------------------------------------------------------------------------------------------- running */

struct lane {
    struct run *run;
    size_t item;
};

static int on_event(void *user, const char *line, const void *bytes, size_t len)
{
    struct lane *lane = user;
    struct run *r = lane->run;
    ProtobufCMessage *base;
    (void)line;
    if (rpc_decode(&neffd__v1__compile_event__descriptor, nf_str_n(bytes, len), &base, NULL) < 0)
        return 0;
    const Neffd__V1__CompileEvent *e = (const Neffd__V1__CompileEvent *)base;
    if (e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_PROGRESS) {
        pthread_mutex_lock(&r->lock);
        r->eta_ms[lane->item] = e->progress->eta_p50_ms;
        show(r);
        pthread_mutex_unlock(&r->lock);
    }
    protobuf_c_message_free_unpacked(base, NULL);
    return 0;
}

static void note_failure(struct run *r, const struct item *it, const struct nf_error *err)
{
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "name", ctl_json_str(it->name));
    json_object_object_add(o, "code", ctl_json_str(nf_status_name(err->code)));
    json_object_object_add(o, "message", ctl_json_str(err->message));
    json_object_array_add(r->failures, o);
    if (!r->c->json) {
        ctl_bar_clear(r->c);
        fprintf(stderr, "%sneffctl:%s warm: %s: %s\n", ctl_on(r->c->color_err, CTL_RED), ctl_off(r->c->color_err), ctl_clean(it->name && it->name[0] ? it->name : "unnamed"),
            ctl_clean(err->message));
    }
}

static void *lane_run(void *user)
{
    struct run *r = user;
    for (;;) {
        struct lane lane = {.run = r};
        pthread_mutex_lock(&r->lock);
        bool over = r->next >= r->count || r->stopped;
        if (!over) {
            lane.item = r->next++;
            r->running++;
            write_state(r, false);
            show(r);
        }
        pthread_mutex_unlock(&r->lock);
        if (over)
            return NULL;
        struct item *it = &r->items[lane.item];
        struct cl_answer answer = {0};
        struct nf_error err = {0};
        neffd_request q = it->request;
        q.on_event = on_event;
        q.user = &lane;
        int rc = NF_OK;
        if (r->deadline_ns != CL_NO_DEADLINE) {
            int64_t left = (r->deadline_ns - nf_now_ns()) / NF_MS;
            q.timeout_ms = left > 0 ? (uint64_t)left : 1;
        }
        rc = it->unreadable ? nf_fail(&err, NF_EINVAL, "%s", it->unreadable) : cl_ask(r->client, &q, CL_COMPILE, &answer, &err);
        pthread_mutex_lock(&r->lock);
        r->running--;
        r->done++;
        r->eta_ms[lane.item] = 0;
        if (rc < 0) {
            r->failed++;
            note_failure(r, it, &err);
            r->stopped = r->stopped || rc == NF_ENODAEMON || (rc == NF_ETIMEOUT && r->deadline_ns != CL_NO_DEADLINE && nf_now_ns() >= r->deadline_ns);
        } else if (answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL || answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED) {
            r->hits++;
        } else {
            r->compiled++;
            r->took_us += answer.done->times ? answer.done->times->compile_us : 0;
        }
        write_state(r, false);
        show(r);
        pthread_mutex_unlock(&r->lock);
        cl_answer_done(&answer);
    }
}

/* Held by a run as long as it lives, so that whoever looks can tell, from any container that shares the directory. */
static int state_lock(const char *state_path)
{
    char *path = nf_asprintf("%s.lock", state_path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    free(path);
    if (fd >= 0)
        flock(fd, LOCK_EX | LOCK_NB);    /* two runs with one state: the first says that it lives */
    return fd;
}

/* Whether the run that wrote the state has ended without saying so. */
static bool run_died(const char *state_path)
{
    char *path = nf_asprintf("%s.lock", state_path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    free(path);
    bool died = fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return died;
}

static int run_all(struct run *r)
{
    struct ctl *c = r->c;
    struct nf_error err = {0};
    uint64_t lanes = 16, timeout_ms = 0;
    char *state = NULL;
    if (ctl_value_u64(c, "parallel", 1024, &lanes, &err) < 0 || ctl_value_seconds_ms(c, "timeout", &timeout_ms, &err) < 0)
        return ctl_fail(c, &err, NULL);
    r->deadline_ns = cl_deadline(timeout_ms);
    r->state_path = ctl_value(c, "state") ? ctl_value(c, "state") : (state = default_state());
    int lock = state_lock(r->state_path);
    r->eta_ms = nf_alloc_array(r->count + 1, sizeof(*r->eta_ms));
    r->failures = json_object_new_array();
    pthread_mutex_init(&r->lock, NULL);
    lanes = NF_MAX(NF_MIN(lanes, (uint64_t)r->count), (uint64_t)1);
    pthread_t *threads = nf_alloc_array(lanes, sizeof(*threads));
    size_t started = 0;
    int64_t begin = nf_now_ns();
    while (started + 1 < lanes && pthread_create(&threads[started], NULL, lane_run, r) == 0)
        started++;
    (void)lane_run(r); /* this thread is a lane, too */
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    ctl_bar_clear(c);
    size_t left = r->count - r->done;
    write_state(r, true);
    if (c->json) {
        struct json_object *o = state_json(r, true);
        json_object_object_add(o, "failures", json_object_get(r->failures));
        ctl_json_print(o);
    } else if (!c->quiet) {
        struct nf_buf t = NF_BUF_INIT;
        cl_add_duration_us(&t, (uint64_t)(nf_now_ns() - begin) / 1000);
        printf("%zu graphs: %zu hits, %zu compiled, %zu failed%s in %s\n", r->count, r->hits, r->compiled, r->failed, left ? ", the rest not asked for" : "", t.data);
        nf_buf_done(&t);
    }
    json_object_put(r->failures);
    pthread_mutex_destroy(&r->lock);
    if (lock >= 0)
        close(lock);
    free(threads);
    free(r->eta_ms);
    free(state);
    return left ? nf_status_exit(NF_ETIMEOUT) : r->failed ? CTL_WRONG : CTL_OK;
}

static void run_done(struct run *r)
{
    for (size_t i = 0; i < r->count; i++)
        item_done(&r->items[i]);
    free(r->items);
}

int ctl_cmd_warm_run(struct ctl *c)
{
    struct run r = {.c = c, .manifest = c->args[0]};
    struct nf_error err = {0};
    int rc = ctl_client(c, &r.client, &err);
    if (rc >= 0)
        rc = read_manifest(&r, c->args[0], &err);
    if (rc >= 0 && !ctl_flag(c, "start"))
        rc = cl_daemon_ping(r.client, cl_deadline(20000), &err);
    if (rc < 0)
        ctl_no_daemon_hint(c, &err);
    rc = rc < 0 ? ctl_fail(c, &err, NULL) : run_all(&r);
    run_done(&r);
    return rc;
}

/* ---------------------------------------------------------------------------------------------------------------- status */

int ctl_cmd_warm_status(struct ctl *c)
{
    static const char *const fields[] = {"total", "done", "hits", "failed", "running", "eta_p50_ms"};
    struct nf_error err = {0};
    char *state = NULL;
    const char *path = ctl_value(c, "state") ? ctl_value(c, "state") : (state = default_state());
    uint64_t timeout_ms = 0;
    int rc = ctl_value_seconds_ms(c, "timeout", &timeout_ms, &err);
    if (rc < 0)
        rc = ctl_fail(c, &err, NULL);
    int64_t deadline = cl_deadline(timeout_ms);
    while (rc == NF_OK) {
        struct nf_buf text = NF_BUF_INIT;
        struct json_object *o = NULL, *v;
        int r = nf_file_read(path, (size_t)1 << 20, &text, &err);
        if (r >= 0 && (!(o = json_tokener_parse(text.data ? text.data : "")) || !json_object_is_type(o, json_type_object)))
            r = nf_fail(&err, NF_ECORRUPT, "%s is not the state of a warm-up", path);
        nf_buf_done(&text);
        if (r == NF_ENOTFOUND) {
            if (ctl_flag(c, "wait") && nf_now_ns() < deadline) { /* it may not have begun yet */
                nf_sleep_ns(200 * NF_MS);
                continue;
            }
            nf_fail(&err, NF_ENOTFOUND, "no warm-up is known here (%s)", path);
            nf_error_hint(&err, "`neffctl warm run DIR` starts one");
        }
        if (r < 0) {
            rc = ctl_fail(c, &err, NULL);
            json_object_put(o);
            break;
        }
        bool finished = json_object_object_get_ex(o, "finished", &v) && json_object_get_boolean(v);
        bool died = !finished && run_died(path);
        if (!finished && !died && ctl_flag(c, "wait") && nf_now_ns() < deadline) {
            char line[64];
            (void)nf_format(line, sizeof(line), "%d of %d", int_field(o, "done"), int_field(o, "total"));
            ctl_bar(c, int_field(o, "total") ? (double)int_field(o, "done") / int_field(o, "total") : -1, line);
            json_object_put(o);
            nf_sleep_ns(200 * NF_MS);
            continue;
        }
        ctl_bar_clear(c);
        if (c->json) {
            struct json_object *out = json_object_new_object();
            for (size_t i = 0; i < NF_ARRAY_LEN(fields); i++)
                json_object_object_add(out, fields[i], json_object_new_int64(json_object_object_get_ex(o, fields[i], &v) ? json_object_get_int64(v) : 0));
            ctl_json_print(out);
        } else {
            printf("%d of %d: %d hits, %d failed, %d running%s\n", int_field(o, "done"), int_field(o, "total"), int_field(o, "hits"), int_field(o, "failed"),
                int_field(o, "running"), finished ? "; finished" : died ? "; interrupted: run it again to go on" : "");
        }
        /* Ready when everything was asked for and nothing failed. */
        bool whole = int_field(o, "done") >= int_field(o, "total"), waited = ctl_flag(c, "wait") && !died;
        if (!finished)
            rc = nf_status_exit(waited ? NF_ETIMEOUT : NF_EOVERLOADED);
        else if (!whole)
            rc = nf_status_exit(NF_ETIMEOUT);
        else
            rc = int_field(o, "failed") ? CTL_WRONG : CTL_OK;
        json_object_put(o);
        break;
    }
    free(state);
    return rc;
}

/* ------------------------------------------------------------------------------------------------- from the cache's entries */

struct pick {
    struct run *run;
    const char *not_version;       /* upgrade: entries of this compiler are done already; NULL: all */
    size_t without_text, limit;
};

/* Rebuilds the request of an entry: its canonical text and its options. */
static int request_of_entry(struct pick *p, const Neffd__V1__Entry *e, struct nf_error *err)
{
    struct nf_digest key;
    struct cache_hit *hit = NULL;
    struct cache_meta meta;
    struct cache_components list;
    struct nf_str text = {0};
    if (e->canonical_key.len != NF_DIGEST_BYTES)
        return NF_OK;
    memcpy(key.bytes, e->canonical_key.data, NF_DIGEST_BYTES);
    if (cache_reader_lookup(p->run->client->reader, &key, e->cache_namespace, &hit, NULL) < 0 &&
        cache_reader_lookup_shared(p->run->client->reader, &key, e->cache_namespace, &hit, NULL) < 0) {
        p->without_text++;
        return NF_OK;
    }
    struct nf_arena *arena = nf_arena_new(0);
    int r = cache_hit_meta(hit, arena, &meta, err);
    if (r >= 0 && (cache_meta_text(&meta, arena, &text, NULL) < 0 || text.len == 0)) {
        p->without_text++;
    } else if (r >= 0 && (r = cache_meta_components(&meta, arena, &list, err)) >= 0) {
        struct item *it = item_add(p->run);
        nf_buf_add_str(&it->graph, text);
        it->options = nf_alloc_array(list.count + 1, sizeof(*it->options));
        for (size_t i = 0; i < list.count; i++)
            if (nf_str_eq_c(list.items[i].component, cache_component_word(CACHE_COMPONENT_OPTION)))
                it->options[it->request.option_count++] =
                    (neffd_option){nf_strndup(list.items[i].name.data, list.items[i].name.len), nf_strndup(list.items[i].value.data, list.items[i].value.len)};
        it->target = nf_strndup(meta.target.data, meta.target.len);
        it->ns = nf_strndup(meta.cache_namespace.data, meta.cache_namespace.len);
        it->name = nf_strndup(meta.name.data, meta.name.len);
        it->request.input_kind = NEFFD__V1__INPUT_KIND__INPUT_KIND_STABLEHLO_TEXT;
        item_seal(it);
    }
    nf_arena_free(arena);
    cache_hit_close(hit);
    return r;
}

static int each_entry(struct ctl *c, const ProtobufCMessage *message, void *user, struct nf_error *err)
{
    struct pick *p = user;
    const Neffd__V1__Entry *e = (const Neffd__V1__Entry *)message;
    (void)c;
    if (p->run->count >= p->limit || e->failure || !e->artifact || strcmp(e->artifact->kind, "neff") != 0)
        return NF_OK;
    if (p->not_version && strstr(e->artifact->compiler, p->not_version))
        return NF_OK;
    return request_of_entry(p, e, err);
}

static int pick_entries(struct run *r, struct pick *p, struct nf_error *err)
{
    Neffd__V1__ListEntriesRequest request = NEFFD__V1__LIST_ENTRIES_REQUEST__INIT;
    uint64_t limit = p->limit;
    p->run = r;
    if (ctl_value_u64(r->c, "limit", 10000000, &limit, err) < 0)
        return NF_EUSAGE;
    p->limit = limit;
    if (ctl_value(r->c, "namespace"))
        request.cache_namespace = (char *)(uintptr_t)ctl_value(r->c, "namespace");
    return ctl_stream(r->c, RPC_LIST_ENTRIES, &request.base, each_entry, p, err);
}

int ctl_cmd_warm_upgrade(struct ctl *c)
{
    static const char *const targets[] = {"cpu", "trn1", "trn1n", "trn2", "trn3", "inf2"};
    struct run r = {.c = c, .manifest = "upgrade"};
    struct pick p = {.not_version = ctl_value(c, "to"), .limit = 1000};
    struct nf_error err = {0};
    struct cache_toolchain row;
    struct nf_buf have = NF_BUF_INIT;
    bool fits = false;
    if (!p.not_version || !p.not_version[0])
        return ctl_usage(c, "--to VERSION is missing");
    int rc = ctl_client(c, &r.client, &err);
    if (rc >= 0)
        rc = cl_daemon_ping(r.client, cl_deadline(20000), &err);
    for (size_t i = 0; i < NF_ARRAY_LEN(targets) && rc >= 0; i++) {
        if (cache_toolchain_read(r.client->local_dir, targets[i], &row, NULL) < 0)
            continue;
        fits = fits || strstr(row.compiler, p.not_version) || strstr(row.version, p.not_version);
        nf_buf_addf(&have, "%s%s for %s", have.len ? ", " : "", row.compiler, targets[i]);
    }
    if (rc >= 0 && !fits) {
        rc = nf_fail(&err, NF_ENOCOMPILER, "the daemon has no compiler of version %s; it has %s", p.not_version, have.len ? have.data : "none");
        nf_error_hint(&err, "give the daemon the new compiler first (neuronx_cc, or PATH), then run this");
    }
    nf_buf_done(&have);
    if (rc >= 0)
        rc = pick_entries(&r, &p, &err);
    if (rc >= 0 && p.without_text && !c->quiet && !c->json)
        fprintf(stderr, "neffctl: warm upgrade: %zu entries have no text to compile from, or cannot be read by this user\n", p.without_text);
    ctl_no_daemon_hint(c, &err);
    rc = rc < 0 ? ctl_fail(c, &err, NULL) : run_all(&r);
    run_done(&r);
    return rc;
}

/* ---------------------------------------------------------------------------------------------------------------- record */

static size_t count_requests(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct nf_str name = nf_str_c(e->d_name);
        n += name.len == 64 + 5 && nf_str_ends(name, NF_STR(".json"));
    }
    if (d)
        closedir(d);
    return n;
}

static int record_command(struct ctl *c, const char *dir)
{
    struct nf_error err = {0};
    int status;
    char *full = NULL;
    int r = nf_output_status(nf_mkdir_p(dir, 0755, &err), &err);
    if (r >= 0 && !(full = realpath(dir, NULL)))
        r = nf_fail_errno(&err, errno, "cannot find %s", dir);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    char **argv = nf_alloc_array(c->arg_count + 1, sizeof(*argv));
    for (size_t i = 0; i < c->arg_count; i++)
        argv[i] = (char *)(uintptr_t)c->args[i];
    fflush(NULL);
    (void)setenv("NEFFD_RECORD_DIR", full, 1);
    pid_t pid = fork();
    if (pid == 0) {
        if (c->json) /* stdout is for the one object */
            (void)dup2(2, 1);
        execvp(argv[0], argv);
        fprintf(stderr, "neffctl: warm record: cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    free(argv);
    if (pid < 0) {
        nf_fail_errno(&err, errno, "cannot start the command");
        free(full);
        return ctl_fail(c, &err, NULL);
    }
    /* Interrupts are the command's to answer. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    size_t n = count_requests(full);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "manifest", ctl_json_str(full));
        json_object_object_add(o, "requests", ctl_json_u64(n));
        json_object_object_add(o, "exit_code", json_object_new_int(code));
        ctl_json_print(o);
    } else if (!c->quiet) {
        fprintf(stderr, "neffctl: %zu requests are recorded in %s\n", n, full);
    }
    free(full);
    return code;
}

int ctl_cmd_warm_record(struct ctl *c)
{
    const char *dir = ctl_value(c, "output") ? ctl_value(c, "output") : "neffd-warm";
    if (!ctl_flag(c, "from-cache"))
        return c->arg_count ? record_command(c, dir) : ctl_usage(c, "name the command to run, or --from-cache");
    struct run r = {.c = c};
    struct pick p = {.limit = 10000000};
    struct nf_error err = {0};
    int rc = ctl_client(c, &r.client, &err);
    if (rc >= 0)
        rc = pick_entries(&r, &p, &err);
    if (rc >= 0)
        rc = nf_output_status(nf_mkdir_p(dir, 0755, &err), &err);
    if (rc >= 0 && access(dir, W_OK | X_OK) < 0)
        rc = nf_fail_errno(&err, errno, "cannot write in %s", dir);
    if (rc >= 0) {
        free(r.client->record_dir);
        r.client->record_dir = nf_strdup(dir);
        for (size_t i = 0; i < r.count; i++)
            cl_record(r.client, &r.items[i].request);
        size_t n = count_requests(dir);
        if (c->json) {
            struct json_object *o = json_object_new_object();
            json_object_object_add(o, "manifest", ctl_json_str(dir));
            json_object_object_add(o, "requests", ctl_json_u64(n));
            json_object_object_add(o, "without_text", ctl_json_u64(p.without_text));
            ctl_json_print(o);
        } else if (!c->quiet) {
            printf("%zu requests are recorded in %s\n", n, dir);
            if (p.without_text)
                printf("%zu entries have no text to compile from\n", p.without_text);
        }
    }
    rc = rc < 0 ? ctl_fail(c, &err, NULL) : CTL_OK;
    run_done(&r);
    return rc;
}
