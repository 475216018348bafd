/* bench_eval.c: the reference evaluator: products, a convolution, elementary functions, a reduction with a body of its own, a sort and a
 * loop, each a program of one operation; operations or multiply-adds per second. */
#include "tests/benchmarks/bench.h"

#include "base/clock.h"
#include "pipeline/hlo/eval.h"

#include <stdlib.h>

static struct nf_error err;

static void measure(const char *name, const char *unit, double work, const char *text)
{
    struct nf_arena *a = nf_arena_new(0);
    struct hlo_module *m;
    struct hlo_eval *e;
    struct bench_sample s = {0};
    if (hlo_parse(nf_str_c(text), NULL, a, &m, &err) || hlo_verify(m, &err) || hlo_eval_new(m, NULL, &e, &err))
        bench_fail(name, &err);
    for (int i = 0; i < 5; i++) {
        int64_t t = nf_now_ns();
        if (hlo_eval_run(e, NF_STR(""), NULL, 0, NULL, 0, &err))
            bench_fail(name, &err);
        bench_add(&s, work / ((double)(nf_now_ns() - t) / 1e9) / 1e6);
    }
    bench_report(name, unit, &s, NULL);
    bench_sample_done(&s);
    hlo_eval_free(e);
    nf_arena_free(a);
}

static void product(const char *type)
{
    char name[64], text[512];
    nf_format(name, sizeof(name), "eval.dot_512.%s", type);
    nf_format(text, sizeof(text),
        "func.func @main() {\n %%a = stablehlo.constant dense<1> : tensor<512x512xi8>\n %%b = stablehlo.convert %%a : (tensor<512x512xi8>) -> tensor<512x512x%s>\n"
        " %%0 = stablehlo.dot_general %%b, %%b, contracting_dims = [1] x [0] : (tensor<512x512x%s>, tensor<512x512x%s>) -> tensor<512x512x%s>\n return\n}\n", type, type, type, type);
    measure(name, "Mmac/s", 512.0 * 512 * 512, text);
}

int main(void)
{
    static const char *const types[] = {"f32", "bf16", "f64", "i32"};
    for (size_t i = 0; i < NF_ARRAY_LEN(types); i++)
        product(types[i]);
    measure("eval.convolution_3x3", "Mmac/s", 8.0 * 32 * 32 * 64 * 64 * 9,
        "func.func @main() {\n %a = stablehlo.constant dense<1.5> : tensor<8x32x32x64xf32>\n %w = stablehlo.constant dense<0.5> : tensor<3x3x64x64xf32>\n"
        " %0 = stablehlo.convolution(%a, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, "
        "feature_group_count = 1 : i64} : (tensor<8x32x32x64xf32>, tensor<3x3x64x64xf32>) -> tensor<8x32x32x64xf32>\n return\n}\n");
    measure("eval.exponential", "Melem/s", 1e6,
        "func.func @main() {\n %a = stablehlo.constant dense<1.5> : tensor<1000x1000xf32>\n %0 = stablehlo.exponential %a : tensor<1000x1000xf32>\n return\n}\n");
    measure("eval.argmax", "Melem/s", 1e6,
        "func.func @main() {\n %a = stablehlo.constant dense<1.5> : tensor<1000x1000xf32>\n %b = stablehlo.iota dim = 1 : tensor<1000x1000xi32>\n"
        " %c = stablehlo.constant dense<0xFF800000> : tensor<f32>\n %d = stablehlo.constant dense<0> : tensor<i32>\n"
        " %0:2 = stablehlo.reduce(%a init: %c), (%b init: %d) across dimensions = [1] : (tensor<1000x1000xf32>, tensor<1000x1000xi32>, tensor<f32>, tensor<i32>) -> (tensor<1000xf32>, tensor<1000xi32>)\n"
        "  reducer(%x: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {\n"
        "   %1 = stablehlo.compare GT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "   %2 = stablehlo.select %1, %x, %y : tensor<i1>, tensor<f32>\n %3 = stablehlo.select %1, %i, %j : tensor<i1>, tensor<i32>\n"
        "   stablehlo.return %2, %3 : tensor<f32>, tensor<i32>\n  }\n return\n}\n");
    measure("eval.sort", "Melem/s", 1e5,
        "func.func @main() {\n %a = stablehlo.iota dim = 0 : tensor<100000xf32>\n %0 = \"stablehlo.sort\"(%a) <{dimension = 0 : i64, is_stable = true}> ({\n"
        " ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n %1 = stablehlo.compare GT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n stablehlo.return %1 : tensor<i1>\n"
        " }) : (tensor<100000xf32>) -> tensor<100000xf32>\n return\n}\n");
    measure("eval.loop", "Mops/s", 4e5,
        "func.func @main() {\n %a = stablehlo.constant dense<0> : tensor<i32>\n %n = stablehlo.constant dense<100000> : tensor<i32>\n %one = stablehlo.constant dense<1> : tensor<i32>\n"
        " %0 = stablehlo.while(%i = %a) : tensor<i32>\n cond { %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n stablehlo.return %1 : tensor<i1> }\n"
        " do { %1 = stablehlo.add %i, %one : tensor<i32>\n stablehlo.return %1 : tensor<i32> }\n return\n}\n");
    return 0;
}
