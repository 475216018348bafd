/* hlo_inputs.h: programs that the benchmarks of the pipeline read: many operations of many kinds, and mostly constants. */
#ifndef NEFFD_TESTS_BENCHMARKS_HLO_INPUTS_H
#define NEFFD_TESTS_BENCHMARKS_HLO_INPUTS_H

#include "tests/benchmarks/bench.h"

#include "base/arena.h"
#include "base/digest.h"
#include "pipeline/hlo/hlo.h"

/* Blocks as a transformer has them, up to `ops` operations in functions of 1,000. */
static inline void hlo_inputs_operations(struct nf_buf *out, int ops)
{
    nf_buf_add_c(out, "module @bench {\n  func.func public @main(%arg0: tensor<8x64xf32>) -> tensor<8x64xf32> {\n");
    int functions = ops / 1000;
    for (int f = 0; f < functions; f++)
        nf_buf_addf(out, "    %%%d = call @f%d(%%%s%d) : (tensor<8x64xf32>) -> tensor<8x64xf32>\n", f, f, f ? "" : "arg", f ? f - 1 : 0);
    nf_buf_addf(out, "    return %%%d : tensor<8x64xf32>\n  }\n", functions - 1);
    for (int f = 0; f < functions; f++) {
        nf_buf_addf(out, "  func.func private @f%d(%%arg0: tensor<8x64xf32>) -> tensor<8x64xf32> {\n    %%cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n", f);
        for (int i = 0; i < 1000; i += 8) {
            char x[32];
            nf_format(x, sizeof x, i ? "%%%d" : "%%arg0", i - 1);
            nf_buf_addf(out, "    %%%d = stablehlo.reduce(%s init: %%cst) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>\n", i, x);
            nf_buf_addf(out, "    %%%d = stablehlo.broadcast_in_dim %%%d, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>\n", i + 1, i);
            nf_buf_addf(out, "    %%%d = stablehlo.subtract %s, %%%d : tensor<8x64xf32>\n", i + 2, x, i + 1);
            nf_buf_addf(out, "    %%%d = stablehlo.transpose %%%d, dims = [1, 0] : (tensor<8x64xf32>) -> tensor<64x8xf32>\n", i + 3, i + 2);
            nf_buf_addf(out, "    %%%d = stablehlo.dot_general %%%d, %%%d, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>\n",
                        i + 4, i + 2, i + 3);
            nf_buf_addf(out, "    %%%d = stablehlo.dot_general %%%d, %s, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>\n",
                        i + 5, i + 4, x);
            nf_buf_addf(out, "    %%%d = stablehlo.compare GT, %%%d, %s, FLOAT : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xi1>\n", i + 6, i + 5, x);
            nf_buf_addf(out, "    %%%d = stablehlo.select %%%d, %%%d, %%%d : tensor<8x64xi1>, tensor<8x64xf32>\n", i + 7, i + 6, i + 5, i + 2);
        }
        nf_buf_add_c(out, "    return %999 : tensor<8x64xf32>\n  }\n");
    }
    nf_buf_add_c(out, "}\n");
}

/* One constant of `bytes` bytes, in hex. */
static inline void hlo_inputs_constant(struct nf_buf *out, size_t bytes)
{
    unsigned char *raw = nf_alloc(bytes);
    for (size_t k = 0; k < bytes; k++)
        raw[k] = (unsigned char)(k * 2654435761u >> 13) & 0x3F;
    nf_buf_addf(out, "func.func @main() -> tensor<%zuxf32> {\n  %%c = stablehlo.constant dense<\"0x", bytes / 4);
    nf_buf_add_hex(out, raw, bytes);
    nf_buf_addf(out, "\"> : tensor<%zuxf32>\n  return %%c : tensor<%zuxf32>\n}\n", bytes / 4, bytes / 4);
    free(raw);
}

enum hlo_bench { HLO_BENCH_PARSE, HLO_BENCH_PRINT, HLO_BENCH_VERIFY };

static inline void hlo_bench_one(enum hlo_bench what, const char *input, struct nf_str text, int rounds)
{
    static const char *const names[] = {"parse", "print", "verify"};
    struct bench_sample rate = {0}, ops = {0}, sha = {0};
    char name[64], base[64];
    size_t memory = 0;
    for (int i = 0; i < rounds; i++) { /* in turn, so that a busy machine is busy for all */
        struct nf_arena *arena = nf_arena_new(0);
        struct hlo_module *m;
        struct nf_error err = {0};
        struct nf_buf out = NF_BUF_INIT;
        int64_t t = bench_cpu_ns();
        nf_digest_of(text.data, text.len);
        bench_add(&sha, (double)text.len / 1e6 / ((double)(bench_cpu_ns() - t) / 1e9));
        t = bench_cpu_ns();
        if (hlo_parse(text, NULL, arena, &m, &err))
            bench_fail("parse", &err);
        int64_t end = bench_cpu_ns();
        if (what == HLO_BENCH_PRINT) {
            t = bench_cpu_ns();
            hlo_print(m, HLO_PRETTY, &out);
            end = bench_cpu_ns();
        } else if (what == HLO_BENCH_VERIFY) {
            t = bench_cpu_ns();
            if (hlo_verify(m, &err))
                bench_fail("verify", &err);
            end = bench_cpu_ns();
        }
        double seconds = (double)(end - t) / 1e9;
        bench_add(&rate, (double)text.len / 1e6 / seconds);
        bench_add(&ops, (double)m->num_ops / seconds);
        memory = nf_arena_bytes(arena);
        nf_buf_done(&out);
        nf_arena_free(arena);
    }
    nf_format(base, sizeof base, "%s-%s-sha256", names[what], input);
    bench_report(base, "MB/s", &sha, NULL);
    nf_format(name, sizeof name, "%s-%s", names[what], input);
    bench_report(name, "MB/s", &rate, base);
    nf_format(name, sizeof name, "%s-%s-ops", names[what], input);
    bench_report(name, "ops/s", &ops, NULL);
    if (what == HLO_BENCH_PARSE) {
        nf_format(name, sizeof name, "%s-%s-memory", names[what], input);
        bench_report_value(name, "bytes per byte", (double)memory / (double)text.len, 1, NULL);
    }
    bench_sample_done(&rate);
    bench_sample_done(&ops);
    bench_sample_done(&sha);
}

static inline int hlo_bench_main(enum hlo_bench what)
{
    struct nf_buf text = NF_BUF_INIT;
    hlo_inputs_operations(&text, 70000);
    hlo_bench_one(what, "operations", nf_buf_str(&text), 7);
    nf_buf_clear(&text);
    if (what != HLO_BENCH_VERIFY) {
        hlo_inputs_constant(&text, (size_t)50 << 20);
        hlo_bench_one(what, "constants", nf_buf_str(&text), 5);
    }
    nf_buf_done(&text);
    return 0;
}

#endif
