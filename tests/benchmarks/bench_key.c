/* bench_key.c: keys in MB/s of processor time, beside plain SHA-256 over the same bytes, for a graph of many operations and for one of
 * mostly constants:
 *     front key        a hash of the input as it is
 *     canonical key    parse, verify, canonical form, hash
 *     key stage        what a worker does: the same, the print that artifacts are made from, and the outline that explains the key */
#include "tests/benchmarks/bench.h"

#include "base/arena.h"
#include "base/digest.h"
#include "cache/key.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/pipeline.h"

enum { OPS = 70000, CONSTANT_BYTES = 50 << 20 };

static struct nf_error err;

static void check(int rc, const char *what)
{
    if (rc)
        bench_fail(what, &err);
}

static void many_operations(struct nf_buf *out)
{
    static const char *const ops[] = {"add", "multiply", "subtract", "maximum"};
    nf_buf_add_c(out, "module @bench {\n  func.func public @main(%arg0: tensor<64x64xf32>, %arg1: tensor<64x64xf32>) -> tensor<64x64xf32> {\n");
    for (int i = 0; i < OPS; i++) {
        char operand[32];
        nf_format(operand, sizeof(operand), i ? "%%%d" : "%%arg1", i - 1);
        nf_buf_addf(out, "    %%%d = stablehlo.%s %s, %s : tensor<64x64xf32>\n", i, ops[i % 4], operand, i % 3 ? "%arg0" : operand);
    }
    nf_buf_addf(out, "    return %%%d : tensor<64x64xf32>\n  }\n}\n", OPS - 1);
}

static void many_constants(struct nf_buf *out)
{
    enum { EACH = 1 << 20, COUNT = CONSTANT_BYTES / EACH };
    nf_buf_add_c(out, "module @bench {\n  func.func public @main(%arg0: tensor<262144xf32>) -> tensor<262144xf32> {\n");
    unsigned char *bytes = nf_alloc(EACH);
    for (int i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < EACH; k++)
            bytes[k] = (unsigned char)((k * 2654435761u + (unsigned)i * 97) >> 13) & 0x3F; /* no NaN, whatever the place */
        nf_buf_addf(out, "    %%c%d = stablehlo.constant dense<\"0x", i);
        nf_buf_add_hex(out, bytes, EACH);
        nf_buf_addf(out, "\"> : tensor<262144xf32>\n    %%%d = stablehlo.add ", i);
        nf_buf_addf(out, i ? "%%%d" : "%%arg0", i - 1);
        nf_buf_addf(out, ", %%c%d : tensor<262144xf32>\n", i);
    }
    nf_buf_addf(out, "    return %%%d : tensor<262144xf32>\n  }\n}\n", COUNT - 1);
    free(bytes);
}

static void canonical_key(struct nf_str text, struct nf_digest *ret_key, size_t *ret_memory)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m;
    check(hlo_parse(text, NULL, arena, &m, &err), "parse");
    check(hlo_verify(m, &err), "verify");
    check(hlo_canonicalise(m, &err), "canonicalise");
    check(hlo_key(m, ret_key, &err), "make the key");
    *ret_memory = nf_arena_bytes(arena);
    nf_arena_free(arena);
}

static void key_stage(struct nf_str text, struct nf_digest *ret_key)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct pipe_graph *graph = NULL;
    check(pipe_import(text, PIPE_KIND_STABLEHLO_TEXT, "bench.mlir", NULL, arena, &graph, &err), "import");
    const struct target_id id = {.target = "cpu", .compiler = "bench"};
    const struct pipe_component *parts;
    size_t count;
    pipe_components(graph, &id, NULL, 0, NULL, 0, (struct nf_str){0}, (struct nf_str){0}, arena, &parts, &count);
    struct cache_component *items = NF_NEW_ARRAY(arena, struct cache_component, count);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct cache_component){nf_str_c(parts[i].component), nf_str_c(parts[i].name), parts[i].value, parts[i].location};
    check(cache_key_canonical(items, count, ret_key, &err), "make the key");
    nf_arena_free(arena);
}

static double rate(size_t bytes, int64_t start) { return (double)bytes / 1e6 / ((double)(bench_cpu_ns() - start) / 1e9); }

static void measure(const char *what, struct nf_str text, int rounds)
{
    struct bench_sample plain = {0}, front = {0}, canonical = {0}, stage = {0};
    struct cache_front_parts parts = {.input_kind = PIPE_KIND_STABLEHLO_TEXT, .target = NF_STR("cpu"), .toolchain_id = NF_STR("bench")};
    struct nf_digest key, first = {{0}}, staged, first_staged = {{0}};
    size_t memory = 0;
    char sha_name[64], name[64];
    for (int i = 0; i < rounds; i++) { /* in turn, so that a busy machine is busy for all */
        int64_t start = bench_cpu_ns();
        key = nf_digest_of(text.data, text.len);
        bench_add(&plain, rate(text.len, start));
        start = bench_cpu_ns();
        check(cache_key_front(&parts, text, &key, &err), "make the front key");
        bench_add(&front, rate(text.len, start));
        start = bench_cpu_ns();
        canonical_key(text, &key, &memory);
        bench_add(&canonical, rate(text.len, start));
        start = bench_cpu_ns();
        key_stage(text, &staged);
        bench_add(&stage, rate(text.len, start));
        if (i == 0) {
            first = key;
            first_staged = staged;
        } else if (!nf_digest_eq(&first, &key) || !nf_digest_eq(&first_staged, &staged)) {
            bench_fail("the canonical key is not the same twice", NULL);
        }
    }
    nf_format(sha_name, sizeof(sha_name), "%s: SHA-256", what);
    bench_report(sha_name, "MB/s", &plain, NULL);
    nf_format(name, sizeof(name), "%s: front key", what);
    bench_report(name, "MB/s", &front, sha_name);
    nf_format(name, sizeof(name), "%s: canonical key", what);
    bench_report(name, "MB/s", &canonical, sha_name);
    nf_format(name, sizeof(name), "%s: key stage", what);
    bench_report(name, "MB/s", &stage, sha_name);
    nf_format(name, sizeof(name), "%s: memory over text", what);
    bench_report_value(name, "x", (double)memory / (double)text.len, 1, NULL);
    bench_sample_done(&plain);
    bench_sample_done(&front);
    bench_sample_done(&canonical);
    bench_sample_done(&stage);
}

int main(void)
{
    struct nf_buf text = NF_BUF_INIT;
    many_operations(&text);
    measure("70k operations", nf_buf_str(&text), 7);
    nf_buf_clear(&text);
    many_constants(&text);
    measure("100 MB of constants", nf_buf_str(&text), 5);
    nf_buf_done(&text);
    return 0;
}
