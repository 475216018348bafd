/* estimate.c: see estimate.h. The file:
 *     file = "neffd-estimates 1\n" *line ; line = target SP class SP milliseconds SP bytes "\n"     oldest first */
#include "cache/estimate.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

#define SAMPLES 32
#define CLASSES 40
#define TARGETS 16
#define FILE_MAX ((size_t)1 << 20)

struct samples {
    uint32_t count, next;
    int64_t ns[SAMPLES];
    uint64_t rss[SAMPLES];
};

struct target_samples {
    char target[32];
    struct samples by_class[CLASSES];
};

struct estimates {
    char *path;
    bool dirty;
    size_t count;
    struct target_samples *targets[TARGETS];
};

static unsigned class_of(uint64_t ops)
{
    unsigned c = 0;
    while (ops > 1 && c < CLASSES - 1) {
        ops >>= 1;
        c++;
    }
    return c;
}

static struct target_samples *find(const struct estimates *e, const char *target)
{
    for (size_t i = 0; i < e->count; i++)
        if (strcmp(e->targets[i]->target, target) == 0)
            return e->targets[i];
    return NULL;
}

static void add(struct estimates *e, const char *target, unsigned cls, int64_t ns, uint64_t rss)
{
    struct target_samples *t = find(e, target);
    if (!t) {
        if (e->count == TARGETS)
            return;
        t = e->targets[e->count++] = nf_alloc(sizeof *t);
        nf_format(t->target, sizeof t->target, "%s", target);
    }
    struct samples *s = &t->by_class[cls];
    s->ns[s->next] = ns;
    s->rss[s->next] = rss;
    s->next = (s->next + 1) % SAMPLES;
    s->count = NF_MIN(s->count + 1, (uint32_t)SAMPLES);
}

static void load(struct estimates *e)
{
    struct nf_buf b = NF_BUF_INIT;
    struct nf_error ignored;
    if (nf_file_read(e->path, FILE_MAX, &b, &ignored) == NF_OK) {
        struct nf_str rest = nf_buf_str(&b);
        if (nf_str_eq_c(nf_str_cut(&rest, '\n'), "neffd-estimates 1"))
            while (rest.len) {
                struct nf_str line = nf_str_cut(&rest, '\n');
                struct nf_str target = nf_str_cut(&line, ' ');
                uint64_t cls, ms, rss;
                char name[32];
                if (nf_str_to_u64(nf_str_cut(&line, ' '), &cls) == NF_OK && nf_str_to_u64(nf_str_cut(&line, ' '), &ms) == NF_OK &&
                    nf_str_to_u64(line, &rss) == NF_OK && cls < CLASSES && ms < (uint64_t)INT64_MAX / 1000000 &&
                    nf_format(name, sizeof name, "%.*s", NF_STR_ARG(target)))
                    add(e, name, (unsigned)cls, (int64_t)ms * NF_MS, rss);
            }
    }
    nf_buf_done(&b);
}

struct estimates *estimates_open(const char *local_dir)
{
    struct estimates *e = nf_alloc(sizeof *e);
    e->path = nf_asprintf("%s/estimates", local_dir);
    load(e);
    return e;
}

char *estimates_text(struct estimates *e)
{
    if (!e->dirty)
        return NULL;
    e->dirty = false;
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_c(&b, "neffd-estimates 1\n");
    for (size_t i = 0; i < e->count; i++)
        for (unsigned c = 0; c < CLASSES; c++) {
            const struct samples *s = &e->targets[i]->by_class[c];
            for (uint32_t k = 0; k < s->count; k++) {
                uint32_t at = (s->next + SAMPLES - s->count + k) % SAMPLES;
                nf_buf_addf(&b, "%s %u %lld %llu\n", e->targets[i]->target, c, (long long)(s->ns[at] / NF_MS), (unsigned long long)s->rss[at]);
            }
        }
    return nf_buf_take(&b);
}

void estimates_write(const char *path, const char *text)
{
    struct nf_error err = {0};
    if (nf_file_replace(path, nf_str_c(text), 0644, &err) < 0)
        nf_log(NF_LOG_WARNING, "estimate", "learned times cannot be saved", "why=%s", nf_log_quote(err.message));
}

const char *estimates_path(const struct estimates *e) { return e->path; }

void estimates_close(struct estimates *e)
{
    if (!e)
        return;
    char *text = estimates_text(e);
    if (text)
        estimates_write(e->path, text);
    free(text);
    for (size_t i = 0; i < e->count; i++)
        free(e->targets[i]);
    free(e->path);
    free(e);
}

void estimates_add(struct estimates *e, const char *target, uint64_t ops, int64_t compile_ns, uint64_t rss_bytes)
{
    add(e, target, class_of(ops), compile_ns, rss_bytes);
    e->dirty = true;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t quantile(const uint64_t *sorted, uint32_t n, unsigned percent)
{
    uint32_t at = (n * percent + 99) / 100;
    return sorted[at ? at - 1 : 0];
}

struct estimate estimates_of(const struct estimates *e, const char *target, uint64_t ops)
{
    const struct target_samples *t = find(e, target);
    if (!t)
        return (struct estimate){0};
    /* The class itself, else its nearest neighbours: a graph twice the size says more than nothing. */
    unsigned cls = class_of(ops);
    const struct samples *s = &t->by_class[cls];
    for (unsigned far = 1; !s->count && far <= 3; far++) {
        if (cls >= far && t->by_class[cls - far].count)
            s = &t->by_class[cls - far];
        else if (cls + far < CLASSES && t->by_class[cls + far].count)
            s = &t->by_class[cls + far];
    }
    if (!s->count)
        return (struct estimate){0};
    uint64_t ns[SAMPLES], rss[SAMPLES];
    for (uint32_t i = 0; i < s->count; i++) {
        ns[i] = (uint64_t)s->ns[i];
        rss[i] = s->rss[i];
    }
    qsort(ns, s->count, sizeof *ns, by_value);
    qsort(rss, s->count, sizeof *rss, by_value);
    return (struct estimate){.known = true, .p50_ns = (int64_t)quantile(ns, s->count, 50), .p90_ns = (int64_t)quantile(ns, s->count, 90),
                             .rss_bytes = quantile(rss, s->count, 90)};
}
