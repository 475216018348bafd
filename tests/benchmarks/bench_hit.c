/* bench_hit.c: a hit on this host without a daemon, against the floor: open, fstat, mmap and a touch of a file of the same size.
 *
 * Lines come in the order in which they are compared. The front key is beside them: it is a hash of the caller's bytes, which a hit
 * cannot do without, but depends on the graph's size and not on the cache. */
#include "tests/benchmarks/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "cache/read.h"
#include "client/neffd.h"
#include "tests/benchmarks/entry.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 20000, PAYLOAD = 1 << 20, GRAPH = 16 << 10, LARGE_GRAPH = 8 << 20 };

static struct nf_error err;
static char root[128], local[160];

static void check(int rc, const char *what)
{
    if (rc)
        bench_fail(what, &err);
}

static void check_client(int rc, const char *what, const neffd_error *e)
{
    if (rc) {
        nf_fail(&err, rc, "%s", e->message);
        bench_fail(what, &err);
    }
}

static void *noise(size_t bytes)
{
    unsigned char *p = nf_alloc(bytes);
    nf_random(p, bytes);
    return p;
}

static volatile unsigned char sink;

static void measure_floor(const char *path)
{
    struct bench_sample s = {0};
    for (int i = 0; i < ROUNDS; i++) {
        int64_t start = nf_now_ns();
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) != 0)
            bench_fail("open the payload", NULL);
        unsigned char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            bench_fail("map the payload", NULL);
        sink = p[0];
        munmap(p, (size_t)st.st_size);
        close(fd);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
    }
    bench_report("floor: open, fstat, mmap, touch", "us", &s, NULL);
    bench_sample_done(&s);
}

static void measure_reader(const struct nf_digest *front, bool map, const char *name)
{
    struct cache_reader *reader = NULL;
    struct bench_sample s = {0};
    check(cache_reader_open(&(struct cache_reader_options){.local_dir = local}, &reader, &err), "open the reader");
    for (int i = 0; i < ROUNDS; i++) {
        int64_t start = nf_now_ns();
        struct cache_hit *hit = NULL;
        const void *data = NULL;
        check(cache_reader_lookup_front(reader, front, &hit, &err), "look up");
        if (map) {
            check(cache_hit_map(hit, &data, &err), "map");
            sink = *(const unsigned char *)data;
        }
        cache_hit_close(hit);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
    }
    bench_report(name, "us", &s, "floor: open, fstat, mmap, touch");
    bench_sample_done(&s);
    cache_reader_close(reader);
}

static void measure_client(neffd_client *client, const neffd_request *request, bool map, const char *name)
{
    struct bench_sample s = {0};
    for (int i = 0; i < ROUNDS; i++) {
        neffd_error e;
        neffd_artifact *artifact = NULL;
        const void *data = NULL;
        int64_t start = nf_now_ns();
        check_client(neffd_lookup(client, request, &artifact, &e), "neffd_lookup", &e);
        if (map) {
            check_client(neffd_artifact_map(artifact, &data, &e), "neffd_artifact_map", &e);
            sink = *(const unsigned char *)data;
        }
        neffd_artifact_unref(artifact);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
    }
    bench_report(name, "us", &s, "floor: open, fstat, mmap, touch");
    bench_sample_done(&s);
}

static void measure_front_key(neffd_client *client, const neffd_request *request, int rounds, const char *name)
{
    struct bench_sample s = {0};
    for (int i = 0; i < rounds; i++) {
        neffd_error e;
        uint8_t key[32];
        int64_t start = nf_now_ns();
        check_client(neffd_front_key(client, request, key, &e), "neffd_front_key", &e);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
    }
    bench_report(name, "us", &s, NULL);
    bench_sample_done(&s);
}

static void measure_open(const neffd_client_options *options, const neffd_request *request)
{
    struct bench_sample s = {0};
    for (int i = 0; i < 300; i++) {
        neffd_error e;
        neffd_client *client = NULL;
        neffd_artifact *artifact = NULL;
        int64_t start = nf_now_ns();
        check_client(neffd_client_open(options, &client, &e), "neffd_client_open", &e);
        check_client(neffd_lookup(client, request, &artifact, &e), "neffd_lookup", &e);
        bench_add(&s, (double)(nf_now_ns() - start) / 1e3);
        neffd_artifact_unref(artifact);
        neffd_client_close(client);
    }
    bench_report("open a client and the first hit", "us", &s, NULL);
    bench_sample_done(&s);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    nf_format(root, sizeof(root), "%s/nf-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root))
        bench_fail("make a directory", NULL);
    nf_format(local, sizeof(local), "%s/local", root);
    check(nf_mkdir_p(local, 0700, &err), "make a directory");

    struct cache_toolchain toolchain = {.target = "cpu", .id = "bench", .compiler = "bench", .version = "1"};
    check(cache_toolchain_write(local, &toolchain, 1, &err), "write the toolchain list");
    char *graph = noise(LARGE_GRAPH), *payload = noise(PAYLOAD);
    memcpy(graph, "module", 6);
    neffd_client_options options = {.struct_size = sizeof(options), .local_dir = local, .shared_dir = root, .offline = true};
    neffd_request request = {.struct_size = sizeof(request), .graph = graph, .graph_bytes = GRAPH, .input_kind = NEFFD_INPUT_KIND_STABLEHLO_TEXT, .target = "cpu"};
    neffd_request large = request;
    large.graph_bytes = LARGE_GRAPH;
    neffd_client *client = NULL;
    neffd_error e;
    struct nf_digest front;
    check_client(neffd_client_open(&options, &client, &e), "neffd_client_open", &e);
    check_client(neffd_front_key(client, &request, front.bytes, &e), "neffd_front_key", &e);
    bench_publish(local, &front, payload, PAYLOAD);

    char *path = nf_asprintf("%s/floor", root);
    check(nf_file_replace(path, nf_str_n(payload, PAYLOAD), 0600, &err), "write a file");
    measure_floor(path);
    measure_reader(&front, false, "hit by front key, not mapped");
    measure_reader(&front, true, "hit by front key, mapped and touched");
    measure_front_key(client, &request, ROUNDS, "front key of 16 KiB");
    measure_front_key(client, &large, 100, "front key of 8 MiB");
    measure_client(client, &request, false, "neffd_lookup, with the front key of 16 KiB");
    measure_client(client, &request, true, "neffd_lookup, mapped and touched");
    neffd_client_close(client);
    measure_open(&options, &request);

    free(path);
    free(graph);
    free(payload);
    nf_remove_tree(AT_FDCWD, root);
    return 0;
}
