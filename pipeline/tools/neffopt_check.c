/* neffopt_check.c: --check: finds the cases below files and folders, runs them in child processes, reports.
 *
 * A child takes the cases of one file, one after the other, and says over a pipe when it begins and ends each. When it crashes or
 * runs out of time, that case has failed and another child goes on behind it; so a crash costs one case. */
#include "pipeline/tools/neffopt.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct file {
    char *path, *folder, *family;
    size_t first_case, num_cases;
    void (*whole)(const char *path, struct case_result *); /* a binary form: one case; NULL: text, a case a section */
};

struct one_case {
    size_t file;
    size_t begin, end;          /* of the section in the file */
    unsigned first_line;
    char *name;
    struct case_result result;
    bool done;
};

struct tally {
    char *name;
    unsigned passed, failed, skipped;
};

struct run {
    const struct check_options *o;
    struct file *files;
    size_t num_files, cap_files;
    struct one_case *cases;
    size_t num_cases, cap_cases;
};

/* ---- finding ---- */

static bool is_dtype(struct nf_str w)
{
    static const char *const starts[] = {"float", "bfloat", "int", "uint", "bool", "complex", "qi", "f32", "f64"};
    for (size_t i = 0; i < NF_ARRAY_LEN(starts); i++)
        if (nf_str_starts(w, nf_str_c(starts[i])) && w.len > strlen(starts[i]) - 1)
            return w.data[w.len - 1] >= '0' && w.data[w.len - 1] <= '9' ? true : nf_str_eq_c(w, "bool");
    return false;
}

/* "scatter_add_float32_1_50_3.mlir" -> "scatter_add": words up to the first element type. */
static char *family_of(const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    const char *dot = strchr(base, '.');
    size_t len = dot ? (size_t)(dot - base) : strlen(base), keep = 0;
    for (size_t i = 0; i < len;) {
        size_t end = i;
        while (end < len && base[end] != '_')
            end++;
        if (keep && is_dtype(nf_str_n(base + i, end - i)))
            break;
        keep = end;
        i = end + 1;
    }
    return nf_strndup(base, keep ? keep : len);
}

static void add_file(struct run *r, const char *path, const char *root)
{
    if (r->num_files == r->cap_files) {
        r->cap_files = r->cap_files ? r->cap_files * 2 : 256;
        r->files = nf_realloc(r->files, r->cap_files * sizeof *r->files);
    }
    struct file *f = &r->files[r->num_files++];
    const char *slash = strrchr(path, '/');
    (void)root;
    struct nf_str name = nf_str_c(path);
    *f = (struct file){.path = nf_strdup(path), .folder = slash ? nf_strndup(path, (size_t)(slash - path)) : nf_strdup("."), .family = family_of(path),
                       .whole = nf_str_ends(name, NF_STR(".bc")) ? neffopt_case_bytecode : nf_str_ends(name, NF_STR(".pb")) ? neffopt_case_hlo : NULL};
}

static int path_cmp(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int find(struct run *r, const char *path, const char *root, unsigned depth, struct nf_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return nf_fail(err, NF_EINVAL, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        add_file(r, path, root);
        return 0;
    }
    if (depth >= 64)
        return nf_fail(err, NF_EINVAL, "%.200s: folders are nested deeper than 64", path);
    DIR *d = opendir(path);
    if (!d)
        return nf_fail(err, NF_EINVAL, "%s: %s", path, strerror(errno));
    char **names = NULL;
    size_t n = 0, cap = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        if (n == cap)
            names = nf_realloc(names, (cap = cap ? cap * 2 : 64) * sizeof *names);
        names[n++] = nf_asprintf("%s/%s", path, e->d_name);
    }
    closedir(d);
    qsort(names, n, sizeof *names, path_cmp);
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        struct nf_str name = nf_str_c(names[i]);
        bool wanted = nf_str_ends(name, NF_STR(".mlir")) || nf_str_ends(name, NF_STR(".mlir.bc")) || nf_str_ends(name, NF_STR(".hlo.pb"));
        if (stat(names[i], &st) == 0 && (S_ISDIR(st.st_mode) || wanted))
            rc = rc ? rc : find(r, names[i], root, depth + 1, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

static struct one_case *add_case(struct run *r, size_t file)
{
    if (r->num_cases == r->cap_cases) {
        r->cap_cases = r->cap_cases ? r->cap_cases * 2 : 1024;
        r->cases = nf_realloc(r->cases, r->cap_cases * sizeof *r->cases);
    }
    struct one_case *c = &r->cases[r->num_cases++];
    *c = (struct one_case){.file = file, .first_line = 1};
    r->files[file].num_cases++;
    return c;
}

/* The first @name of the section, else its number. */
static char *case_name(struct nf_str text, size_t number)
{
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] == '/' && text.data[i + 1] == '/') {
            const char *nl = memchr(text.data + i, '\n', text.len - i);
            if (!nl)
                break;
            i = (size_t)(nl - text.data);
        } else if (text.data[i] == '@') {
            size_t e = i + 1;
            while (e < text.len && (text.data[e] == '_' || text.data[e] == '.' || (text.data[e] >= '0' && text.data[e] <= '9') ||
                                    (text.data[e] >= 'a' && text.data[e] <= 'z') || (text.data[e] >= 'A' && text.data[e] <= 'Z')))
                e++;
            return nf_strndup(text.data + i, NF_MIN(e - i, (size_t)120));
        }
    }
    return nf_asprintf("#%zu", number);
}

/* Sections stand between lines "// -----". Sections of nothing but comments and white space are none. */
static bool is_empty_section(struct nf_str s)
{
    while (s.len) {
        struct nf_str l = nf_str_trim(nf_str_cut(&s, '\n'));
        if (l.len && !nf_str_starts(l, NF_STR("//")))
            return false;
    }
    return true;
}

static void split(struct run *r, size_t file, struct nf_str text)
{
    size_t begin = 0, at = 0, number = 1;
    unsigned line = 1, first = 1;
    for (;;) {
        const char *nl = at < text.len ? memchr(text.data + at, '\n', text.len - at) : NULL;
        size_t end = nl ? (size_t)(nl - text.data) : text.len;
        struct nf_str l = nf_str_trim(nf_str_n(text.data + at, end - at));
        bool mark = nf_str_eq_c(l, "// -----"), last = end >= text.len;
        if (mark || last) {
            size_t stop = mark ? at : text.len;
            struct nf_str section = nf_str_n(text.data + begin, stop - begin);
            if (!is_empty_section(section)) {
                struct one_case *c = add_case(r, file);
                c->begin = begin;
                c->end = stop;
                c->first_line = first;
                c->name = case_name(section, number++);
            }
            begin = NF_MIN(end + 1, text.len);
            first = line + 1;
        }
        if (last)
            break;
        at = end + 1;
        line++;
    }
}

static void collect(struct run *r)
{
    for (size_t i = 0; i < r->num_files; i++) {
        struct file *f = &r->files[i];
        f->first_case = r->num_cases;
        struct nf_buf text = NF_BUF_INIT;
        struct nf_error err = {0};
        if (f->whole) {
            add_case(r, i)->name = nf_strdup(f->whole == neffopt_case_hlo ? "hlo" : "bytecode");
            continue;
        }
        if (nf_file_read(f->path, (size_t)1 << 32, &text, &err)) {
            struct one_case *c = add_case(r, i);
            c->name = nf_strdup("file");
            c->done = true;
            c->result.verdict = VERDICT_FAIL;
            nf_format(c->result.reason, sizeof c->result.reason, "%s", err.message);
        } else {
            split(r, i, nf_buf_str(&text));
            if (!f->num_cases) {
                struct one_case *c = add_case(r, i);
                c->name = nf_strdup("file");
                c->done = true;
                c->result.verdict = VERDICT_FAIL;
                nf_format(c->result.reason, sizeof c->result.reason, "empty: there is no program in it");
            }
        }
        nf_buf_done(&text);
    }
}

/* ---- children ---- */

struct message {
    size_t index;
    bool begin;
    struct case_result result;
};

static void child_main(struct run *r, size_t file, size_t from, int fd)
{
    struct file *f = &r->files[file];
    struct nf_buf text = NF_BUF_INIT;
    struct nf_error err = {0};
    if (!f->whole && nf_file_read(f->path, (size_t)1 << 32, &text, &err))
        _exit(1);
    for (size_t i = from; i < f->first_case + f->num_cases; i++) {
        struct one_case *c = &r->cases[i];
        if (c->done)
            continue;
        struct message msg;
        memset(&msg, 0, sizeof msg);
        msg.index = i;
        msg.begin = true;
        if (nf_fd_write_all(fd, &msg, sizeof msg))
            _exit(1);
        if (f->whole) {
            f->whole(f->path, &msg.result);
        } else {
            struct case_input in = {f->path, nf_str_n(text.data + c->begin, c->end - c->begin), c->first_line, r->o->cpu, r->o->time_limit_s};
            neffopt_case(&in, &msg.result);
        }
        msg.begin = false;
        if (nf_fd_write_all(fd, &msg, sizeof msg))
            _exit(1);
    }
    _exit(0);
}

struct child {
    pid_t pid;
    int fd;
    size_t file, current;      /* SIZE_MAX: between cases */
    int64_t since;
};

static bool spawn(struct run *r, struct child *ch, size_t file, size_t from)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return false;
    }
    if (pid == 0) {
        close(fds[0]);
        child_main(r, file, from, fds[1]);
    }
    close(fds[1]);
    *ch = (struct child){pid, fds[0], file, SIZE_MAX, nf_now_ns()};
    return true;
}

static void lost(struct one_case *c, const char *fmt, ...) NF_PRINTF(2, 3);
static void lost(struct one_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    c->done = true;
    c->result.verdict = VERDICT_FAIL;
    c->result.line = c->first_line;
    vsnprintf(c->result.reason, sizeof c->result.reason, fmt, ap);
    va_end(ap);
}

static size_t next_open(const struct run *r, size_t file)
{
    const struct file *f = &r->files[file];
    for (size_t i = f->first_case; i < f->first_case + f->num_cases; i++)
        if (!r->cases[i].done)
            return i;
    return SIZE_MAX;
}

static bool read_message(int fd, struct message *msg)
{
    size_t have = 0;
    while (have < sizeof *msg) {
        ssize_t n = read(fd, (char *)msg + have, sizeof *msg - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

static int run_all(struct run *r)
{
    size_t jobs = (size_t)NF_MAX(r->o->jobs, 1), next = 0, alive = 0;
    struct child *children = nf_alloc_array(jobs, sizeof *children);
    struct pollfd *polls = nf_alloc_array(jobs, sizeof *polls);
    int64_t limit_ns = (int64_t)(r->o->time_limit_s * 1e9);
    int rc = 0;
    while (!rc) {
        while (alive < jobs && next < r->num_files) {
            if (next_open(r, next) != SIZE_MAX) {
                if (!spawn(r, &children[alive], next, next_open(r, next))) {
                    fprintf(stderr, "neffopt: cannot start a child process: %s\n", strerror(errno));
                    rc = 1;
                    break;
                }
                alive++;
            }
            next++;
        }
        if (!alive)
            break;
        int64_t now = nf_now_ns(), wait_ns = limit_ns;
        for (size_t i = 0; i < alive; i++) {
            polls[i] = (struct pollfd){.fd = children[i].fd, .events = POLLIN};
            wait_ns = NF_MIN(wait_ns, children[i].since + limit_ns - now);
        }
        poll(polls, alive, (int)NF_MAX(wait_ns / 1000000 + 1, 0));
        now = nf_now_ns();
        for (size_t i = 0; i < alive; i++) {
            struct child *ch = &children[i];
            struct message msg;
            bool ended = false;
            if (polls[i].revents) {
                if (read_message(ch->fd, &msg) && msg.index < r->num_cases) {
                    ch->since = now;
                    ch->current = msg.begin ? msg.index : SIZE_MAX;
                    if (!msg.begin) {
                        r->cases[msg.index].result = msg.result;
                        r->cases[msg.index].done = true;
                    }
                } else {
                    ended = true;
                }
            } else if (now - ch->since > limit_ns) {
                kill(ch->pid, SIGKILL);
                if (ch->current != SIZE_MAX)
                    lost(&r->cases[ch->current], "not done within %g s", r->o->time_limit_s);
                ch->current = SIZE_MAX;
                ended = true;
            }
            if (!ended)
                continue;
            int status = 0;
            while (waitpid(ch->pid, &status, 0) < 0 && errno == EINTR)
                ;
            close(ch->fd);
            size_t open = next_open(r, ch->file);
            if (ch->current != SIZE_MAX && !r->cases[ch->current].done) {
                lost(&r->cases[ch->current], WIFSIGNALED(status) ? "crashed with signal %d" : "ended with status %d", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
                open = next_open(r, ch->file);
            } else if (open != SIZE_MAX && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
                lost(&r->cases[open], "the child process ended with status %d", WEXITSTATUS(status));
                open = next_open(r, ch->file);
            }
            if (open != SIZE_MAX && spawn(r, ch, ch->file, open)) {
                polls[i].revents = 0;
                continue;
            }
            children[i] = children[alive - 1];
            polls[i] = polls[alive - 1];
            alive--;
            i--;
        }
    }
    free(children);
    free(polls);
    return rc;
}

/* ---- report ---- */

static struct tally *tally_for(struct nf_map *map, const char *name)
{
    struct tally *t = nf_map_get(map, nf_str_c(name));
    if (!t) {
        t = nf_alloc(sizeof *t);
        t->name = nf_strdup(name);
        nf_map_put(map, nf_str_c(t->name), t);
    }
    return t;
}

static void count(struct tally *t, enum verdict v)
{
    t->passed += v == VERDICT_PASS;
    t->failed += v == VERDICT_FAIL;
    t->skipped += v == VERDICT_SKIP;
}

static void print_tallies(const struct nf_map *map, const char *title)
{
    struct nf_str key;
    void *value;
    printf("\n%-40s %8s %8s %8s\n", title, "passed", "failed", "skipped");
    for (size_t it = 0; nf_map_next(map, &it, &key, &value);) {
        struct tally *t = value;
        printf("%-40s %8u %8u %8u\n", t->name, t->passed, t->failed, t->skipped);
    }
}

static void free_tallies(struct nf_map *map)
{
    struct nf_str key;
    void *value;
    for (size_t it = 0; nf_map_next(map, &it, &key, &value);) {
        struct tally *t = value;
        free(t->name);
        free(t);
    }
    nf_map_free(map);
}

void json_string(struct nf_str s, struct nf_buf *out)
{
    nf_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = (uint8_t)s.data[i];
        if (c == '"' || c == '\\')
            nf_buf_addf(out, "\\%c", c);
        else if (c < 32)
            nf_buf_addf(out, "\\u%04x", c);
        else
            nf_buf_add_char(out, (char)c);
    }
    nf_buf_add_char(out, '"');
}

static void report(struct run *r)
{
    struct nf_map *folders = nf_map_new(false), *families = nf_map_new(false);
    struct tally all = {0};
    unsigned checks = 0;
    for (size_t i = 0; i < r->num_cases; i++) {
        struct one_case *c = &r->cases[i];
        count(tally_for(folders, r->files[c->file].folder), c->result.verdict);
        count(tally_for(families, r->files[c->file].family), c->result.verdict);
        count(&all, c->result.verdict);
        checks += c->result.checks;
    }
    if (!r->o->json) {
        for (size_t i = 0; i < r->num_cases; i++) {
            struct one_case *c = &r->cases[i];
            if (c->result.verdict == VERDICT_FAIL)
                printf("%s:%u: %s: %s\n", r->files[c->file].path, c->result.line ? c->result.line : c->first_line, c->name, c->result.reason);
        }
        print_tallies(folders, "folder");
        print_tallies(families, "family");
        printf("\n%zu cases, %u passed, %u failed, %u skipped, %u checks\n", r->num_cases, all.passed, all.failed, all.skipped, checks);
    } else {
        struct nf_buf b = NF_BUF_INIT;
        nf_buf_addf(&b, "{\"cases\":%zu,\"passed\":%u,\"failed\":%u,\"skipped\":%u,\"checks\":%u,\"failures\":[", r->num_cases, all.passed, all.failed, all.skipped, checks);
        const char *sep = "";
        for (size_t i = 0; i < r->num_cases; i++) {
            struct one_case *c = &r->cases[i];
            if (c->result.verdict != VERDICT_FAIL)
                continue;
            nf_buf_addf(&b, "%s{\"file\":", sep);
            json_string(nf_str_c(r->files[c->file].path), &b);
            nf_buf_addf(&b, ",\"line\":%u,\"case\":", c->result.line ? c->result.line : c->first_line);
            json_string(nf_str_c(c->name), &b);
            nf_buf_add_c(&b, ",\"reason\":");
            json_string(nf_str_c(c->result.reason), &b);
            nf_buf_add_char(&b, '}');
            sep = ",";
        }
        nf_buf_add_c(&b, "],\"skips\":[");
        sep = "";
        for (size_t i = 0; i < r->num_cases; i++) {
            struct one_case *c = &r->cases[i];
            if (c->result.verdict != VERDICT_SKIP)
                continue;
            nf_buf_addf(&b, "%s{\"file\":", sep);
            json_string(nf_str_c(r->files[c->file].path), &b);
            nf_buf_add_c(&b, ",\"case\":");
            json_string(nf_str_c(c->name), &b);
            nf_buf_add_c(&b, ",\"reason\":");
            json_string(nf_str_c(c->result.reason), &b);
            nf_buf_add_char(&b, '}');
            sep = ",";
        }
        nf_buf_add_c(&b, "],\"families\":{");
        struct nf_str key;
        void *value;
        sep = "";
        for (size_t it = 0; nf_map_next(families, &it, &key, &value);) {
            struct tally *t = value;
            nf_buf_add_c(&b, sep);
            json_string(key, &b);
            nf_buf_addf(&b, ":{\"passed\":%u,\"failed\":%u,\"skipped\":%u}", t->passed, t->failed, t->skipped);
            sep = ",";
        }
        nf_buf_add_c(&b, "}}\n");
        fwrite(b.data, 1, b.len, stdout);
        nf_buf_done(&b);
    }
    free_tallies(folders);
    free_tallies(families);
}

int neffopt_check(const struct check_options *o)
{
    struct run r = {.o = o};
    int rc = 0;
    struct nf_error err = {0};
    for (size_t i = 0; i < o->num_paths && !rc; i++)
        rc = find(&r, o->paths[i], o->paths[i], 0, &err);
    collect(&r);
    if (!rc && r.num_cases == 0)
        rc = nf_fail(&err, NF_EINVAL, "no cases found");
    if (rc)
        neffopt_fail(&err);
    if (!rc && o->list) {
        for (size_t i = 0; i < r.num_cases; i++)
            printf("%s:%u: %s\n", r.files[r.cases[i].file].path, r.cases[i].first_line, r.cases[i].name);
    } else if (!rc) {
        rc = run_all(&r);
        report(&r);
        for (size_t i = 0; i < r.num_cases; i++)
            rc |= r.cases[i].result.verdict == VERDICT_FAIL || (!r.cases[i].done);
    }
    for (size_t i = 0; i < r.num_files; i++) {
        free(r.files[i].path);
        free(r.files[i].folder);
        free(r.files[i].family);
    }
    for (size_t i = 0; i < r.num_cases; i++)
        free(r.cases[i].name);
    free(r.files);
    free(r.cases);
    return rc ? 1 : 0;
}
