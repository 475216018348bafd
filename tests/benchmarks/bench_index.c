/* bench_index.c: a million synthetic entries in the index: insert, open, get, list; bytes an entry. Against inserts into a plain SQLite
 * table of the same key there is no comparison: the aims are absolute (open 100 ms, get and insert 20 us, 320 bytes an entry). */
#include "tests/benchmarks/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "cache/index.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct nf_error err;
static char dir[128];
static size_t entries = 1000000;

static void rebuild(void *user) { (void)user; }

static struct cache__index *open_index(void)
{
    struct cache__index *ix = NULL;
    if (cache__index_open(dir, rebuild, NULL, &ix, &err) != NF_OK)
        bench_fail("open the index", &err);
    return ix;
}

static struct nf_digest key_of(size_t i) { return nf_digest_of(&i, sizeof(i)); }

static void put(struct cache__index *ix, size_t i)
{
    char name[32];
    nf_format(name, sizeof(name), "train_step.%zu", i % 1000);
    struct cache__row row = {.key = key_of(i), .sha256 = key_of(i ^ 0x5555555555u), .kind = CACHE_KIND_NEFF, .raw_bytes = 1000000 + i, .local_bytes = 1000500 + i,
                             .created_s = 1700000000 + (int64_t)i, .used_s = 1700000000 + (int64_t)(i * 7919 % entries), .uses = i % 50, .compile_us = 1000000 + i,
                             .owner = 1000, .name = nf_str_c(name), .target = NF_STR("trn2"), .compiler = NF_STR("neuronx-cc 2.21.1234.0+abcdef12"),
                             .created_by = NF_STR("uid 1000, neffd-torch 0.1.0"), .cache_namespace = NF_STR("")};
    for (size_t g = 0; g < CACHE_GROUP_MAX; g++)
        memcpy(&row.sketch.group[g], row.key.bytes + g % 7 * 4, 4);
    memcpy(row.sketch.ops, row.sha256.bytes, sizeof(row.sketch.ops));
    cache__index_put(ix, &row);
}

static double directory_bytes(void)
{
    double sum = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            sum += (double)st.st_blocks * 512;
    }
    if (d)
        closedir(d);
    return sum;
}

static int count_row(void *user, const struct cache__row *row)
{
    (void)row;
    ++*(size_t *)user;
    return 0;
}

int main(void)
{
    const char *tmp = getenv("TMPDIR"), *wanted = getenv("BENCH_ENTRIES");
    uint64_t n;
    if (wanted && nf_str_to_u64(nf_str_c(wanted), &n) == NF_OK && n > 1000)
        entries = (size_t)n;
    nf_format(dir, sizeof(dir), "%s/nf-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        bench_fail("make a directory", NULL);

    struct cache__index *ix = open_index();
    int64_t start = nf_now_ns();
    for (size_t i = 0; i < entries; i++) {
        put(ix, i);
        if (i % 32768 == 32767) /* as a rebuild does: no faster than it is written */
            cache__index_flush(ix, 600 * NF_SEC);
    }
    cache__index_flush(ix, 600 * NF_SEC);
    bench_report_value("insert, in bulk", "us", (double)(nf_now_ns() - start) / 1e3 / (double)entries, entries, NULL);
    cache__index_set_complete(ix);
    cache__index_close(ix);
    bench_report_value("bytes an entry", "bytes", directory_bytes() / (double)entries, entries, NULL);

    struct bench_sample s = {0};
    struct nf_arena *arena = nf_arena_new(0);
    struct cache__row row;
    for (int i = 0; i < 15; i++) { /* open, and the first answer */
        struct nf_digest key = key_of((size_t)i * 7919 % entries);
        start = nf_now_ns();
        ix = open_index();
        while (cache__index_get(ix, &key, false, arena, &row) != NF_OK) { /* it opens on a thread of its own */
            if (nf_now_ns() - start > 20 * NF_SEC)
                bench_fail("find an entry after opening", NULL);
            nf_sleep_ns(NF_MS / 10);
        }
        bench_add(&s, (double)(nf_now_ns() - start) / 1e6);
        cache__index_close(ix);
    }
    bench_report("open, to the first answer", "ms", &s, NULL);
    bench_sample_done(&s);

    ix = open_index();
    while (cache__index_get(ix, &(struct nf_digest){{0}}, false, arena, &row) != NF_ENOTFOUND)
        nf_sleep_ns(NF_MS);
    for (size_t i = 0; i < 50000; i++) {
        struct nf_digest key = key_of(i * 104729 % entries);
        start = nf_now_ns();
        if (cache__index_get(ix, &key, false, arena, &row) != NF_OK)
            bench_fail("find an entry", NULL);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
        if (i % 1000 == 0) {
            nf_arena_free(arena);
            arena = nf_arena_new(0);
        }
    }
    bench_report("get", "us", &s, NULL);
    bench_sample_done(&s);

    for (size_t i = 0; i < 2000; i++) { /* what one publish queues */
        start = nf_now_ns();
        put(ix, entries + i);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
    }
    cache__index_flush(ix, 60 * NF_SEC);
    bench_report("queue one insert", "us", &s, NULL);
    bench_sample_done(&s);

    size_t seen = 0;
    start = nf_now_ns();
    if (cache__index_scan_sizes(ix, count_row, &seen) != 0 || seen < entries)
        bench_fail("scan", NULL);
    bench_report_value("scan of all for eviction", "ms", (double)(nf_now_ns() - start) / 1e6, seen, NULL);
    cache__index_close(ix);
    nf_arena_free(arena);
    nf_remove_tree(AT_FDCWD, dir);
    return 0;
}
