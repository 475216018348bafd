/* model_run.c: compiles a program natively and runs it: compares results with those beside it, and takes times.
 *
 *     model_run FOLDER|FILE [--interpret] [--tier N] [--threads N] [--compile-threads N] [--repeat N] [--profile]
 *               [--print STAGE] [--no-run] [--zeros] [--no-check] [--neff OUT] [--serve]
 *     model_run --help
 *
 * FOLDER is a fixture as tests/models describes: module.mlir, inputs/NN.npy, expected/NN.npy, manifest.json. One JSON object on
 * stdout: {"name","compile_ms","compile_cpu_ms","run_ms","run_median_ms","worst","ok","kernels","distinct","native",...}. Exit 1 when a
 * result is outside its tolerance.
 *
 * --serve speaks the protocol of serve.py: one line when the program is compiled (a trivial one before it has loaded LLVM), then for every
 * line `run SECONDS` on stdin one with the times of an execution. */
#include "base/clock.h"
#include "base/file.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/pool.h"
#include "runtime/cpu/types.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <time.h>
#include <sys/resource.h>

struct args {
    const char *path, *print, *neff;
    bool interpret, profile, no_run, zeros, no_check, serve;
    int tier, threads, compile_threads, repeat;
};

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * NF_SEC + t.tv_nsec;
}

/* Data of a .npy file of version 1 to 3 in C order. */
static bool npy(const char *path, struct nf_buf *b, struct nf_str *ret_data)
{
    struct nf_error err = {0};
    if (nf_file_read(path, (size_t)8 << 30, b, &err)) return false;
    if (b->len < 12 || memcmp(b->data, "\x93NUMPY", 6) != 0) return false;
    size_t at = b->data[6] == 1 ? 10 : 12, n = (unsigned char)b->data[8] | (size_t)(unsigned char)b->data[9] << 8;
    if (at + n > b->len) return false;
    *ret_data = nf_str_n(b->data + at + n, b->len - at - n);
    return true;
}

static double tolerance(struct nf_str manifest, size_t output, const char *key, double absent)
{
    const char *p = manifest.data ? strstr(manifest.data, "\"outputs\": [") : NULL;
    for (size_t i = 0; p && i <= output; i++) p = strstr(p + 1, "{ \"name\"");
    const char *q = p ? strstr(p, key) : NULL;
    return q ? strtod(q + strlen(key) + 2, NULL) : absent;
}

static double worst_of(enum cpu_dt t, const char *a, const char *e, int64_t n, double rel, double abs_)
{
    double worst = 0;
    size_t size = cpu_dt_bytes(t);
    for (int64_t i = 0; i < n; i++) {
        struct cpu_num x = cpu_num_load(t, a + (size_t)i * size), y = cpu_num_load(t, e + (size_t)i * size);
        if (t <= CPU_U64) {
            if (x.i != y.i) return INFINITY;
            continue;
        }
        double d = fmax(fabs(x.re - y.re), fabs(x.im - y.im)), limit = rel * fmax(fabs(y.re), fabs(y.im)) + abs_;
        if (x.re == y.re && x.im == y.im) continue;
        if (isnan(x.re) && isnan(y.re)) continue;
        if (isnan(d)) return INFINITY;
        worst = fmax(worst, limit > 0 ? d / limit : INFINITY);
    }
    return worst;
}

static void show(void *user, const char *stage, struct nf_str text)
{
    const struct args *a = user;
    if (a->print && (strcmp(a->print, stage) == 0 || strcmp(a->print, "all") == 0)) fprintf(stderr, "==== %s\n%.*s", stage, (int)text.len, text.data);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double peak_mb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1e3;
}

static int serve(struct rt_program *p, const void *const *in, void *const *out, struct nf_error *err)
{
    enum { MOST = 100000 };
    char request[64];
    int64_t *wall = nf_alloc_array(MOST, sizeof *wall), *cpu = nf_alloc_array(MOST, sizeof *cpu);
    int rc = 0;
    while (!rc && fgets(request, sizeof request, stdin)) {
        if (strncmp(request, "run ", 4) != 0) break;
        int64_t until = nf_now_ns() + (int64_t)(strtod(request + 4, NULL) * 1e9);
        size_t n = 0;
        do {
            int64_t w = nf_now_ns(), c = cpu_ns();
            rc = rt_execute_host(p, in, out, err);
            cpu[n] = cpu_ns() - c;
            wall[n++] = nf_now_ns() - w;
        } while (!rc && n < MOST && nf_now_ns() < until);
        qsort(wall, n, sizeof *wall, by_value);
        qsort(cpu, n, sizeof *cpu, by_value);
        printf("{\"run_ms\": %.6f, \"run_median_ms\": %.6f, \"run_cpu_ms\": %.6f, \"n\": %zu, \"peak_rss_mb\": %.1f}\n", (double)wall[0] / 1e6, (double)wall[n / 2] / 1e6,
               (double)cpu[0] / 1e6, n, peak_mb());
        fflush(stdout);
    }
    free(wall);
    free(cpu);
    return rc;
}

static int compile_text(const struct args *a, struct nf_str text, struct nf_buf *neff, struct cg_report *r, int64_t *ret_parse_ns, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m;
    int64_t start = nf_now_ns();
    int rc = hlo_parse(text, NULL, arena, &m, err);
    if (!rc) rc = hlo_verify(m, err);
    *ret_parse_ns = nf_now_ns() - start;
    struct cg_request q = {.tier = a->tier, .interpret = a->interpret, .threads = a->compile_threads, .name = "model", .print = a->print ? show : NULL, .print_user = (void *)(uintptr_t)a};
    if (!rc) rc = cg_compile(m, &q, neff, r, err);
    nf_arena_free(arena);
    return rc;
}

static int warm(const struct args *a, struct nf_error *err)
{
    struct nf_buf neff = NF_BUF_INIT;
    struct args quiet = {.tier = a->tier, .compile_threads = 1};
    struct cg_report r;
    int64_t ns;
    int rc = compile_text(&quiet, NF_STR("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %y = stablehlo.add %x, %x : tensor<8xf32>\n  return %y : tensor<8xf32>\n}\n"), &neff, &r, &ns, err);
    nf_buf_done(&neff);
    return rc;
}

static int run(const struct args *a, struct nf_str neff, const char *folder, struct nf_str manifest, struct nf_buf *json, struct nf_error *err)
{
    struct rt_device *dev;
    struct rt_program *p;
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    char path[4096];
    int rc;
    rt_device_register(&cpu_device_ops);
    if ((rc = rt_device_open("cpu", &(struct rt_device_config){.threads = (uint32_t)a->threads}, &dev, err))) return rc;
    o.profile = a->profile;
    int64_t t0 = nf_now_ns();
    if ((rc = rt_program_load(dev, neff, &o, &p, err))) return rc;
    double load_us = (double)(nf_now_ns() - t0) / 1e3;
    const void **in = nf_alloc_array(p->input_count + 1, sizeof *in);
    void **out = nf_alloc_array(p->output_count + 1, sizeof *out);
    struct nf_buf *files = nf_alloc_array(p->input_count + 1, sizeof *files);
    for (size_t i = 0; i < p->input_count; i++) {
        struct nf_str data = {0};
        nf_format(path, sizeof path, "%s/inputs/%02zu.npy", folder, i);
        void *m = aligned_alloc(64, (p->inputs[i].bytes + 127) & ~(size_t)63);
        memset(m, 0, p->inputs[i].bytes);
        if (!a->zeros) {
            if (!npy(path, &files[i], &data) || data.len < p->inputs[i].bytes) return nf_fail(err, NF_EINVAL, "%s is not what the program takes", path);
            memcpy(m, data.data, p->inputs[i].bytes);
            nf_buf_done(&files[i]);
        }
        in[i] = m;
    }
    for (size_t i = 0; i < p->output_count; i++) {
        out[i] = aligned_alloc(64, (p->outputs[i].bytes + 127) & ~(size_t)63);
        memset(out[i], 0, p->outputs[i].bytes + 1);
    }
    t0 = nf_now_ns();
    if ((rc = rt_execute_host(p, in, out, err))) return rc;
    double first_us = (double)(nf_now_ns() - t0) / 1e3, worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < p->output_count && !a->zeros && !a->no_check; i++) {
        struct nf_buf f = NF_BUF_INIT;
        struct nf_str data;
        nf_format(path, sizeof path, "%s/expected/%02zu.npy", folder, i);
        if (!npy(path, &f, &data) || data.len < p->outputs[i].bytes) return nf_fail(err, NF_EINVAL, "%s is not what the program gives", path);
        enum cpu_dt t = cpu_dt_of(p->outputs[i].dtype);
        double w = worst_of(t, out[i], data.data, (int64_t)(p->outputs[i].bytes / cpu_dt_bytes(t)), tolerance(manifest, i, "\"rtol\"", 1e-4), tolerance(manifest, i, "\"atol\"", 1e-5));
        if (w > worst) {
            worst = w;
            where = i;
        }
        nf_buf_done(&f);
    }
    if (a->serve) {
        if ((rc = serve(p, in, out, err))) return rc;
    }
    int n = a->repeat;
    int64_t *t = nf_alloc_array((size_t)n + 1, sizeof *t);
    for (int i = 0; i < n; i++) {
        t0 = nf_now_ns();
        if ((rc = rt_execute_host(p, in, out, err))) return rc;
        t[i] = nf_now_ns() - t0;
    }
    qsort(t, (size_t)n, sizeof *t, by_value);
    nf_buf_addf(json, ", \"load_us\": %.1f, \"first_us\": %.1f", load_us, first_us);
    if (n) nf_buf_addf(json, ", \"run_ms\": %.4f, \"run_median_ms\": %.4f", (double)t[0] / 1e6, (double)t[n / 2] / 1e6);
    if (!a->zeros && !a->no_check) nf_buf_addf(json, ", \"worst\": %.4g, \"worst_output\": %zu, \"ok\": %s", isinf(worst) ? 1e30 : worst, where, worst <= 1 ? "true" : "false");
    if (a->profile) {
        struct nf_buf b = NF_BUF_INIT;
        cpu_device_ops.profile(p, &b, err);
        fprintf(stderr, "%s", b.data ? b.data : "");
        nf_buf_done(&b);
    }
    for (size_t i = 0; i < p->input_count; i++) free((void *)(uintptr_t)in[i]);
    for (size_t i = 0; i < p->output_count; i++) free(out[i]);
    rt_program_unload(p);
    rt_device_close(dev);
    return worst <= 1 ? 0 : 1;
}

static const char usage[] = "usage: model_run FOLDER|FILE [OPTION]...\n"
                            "Compiles a program, executes it, compares and measures. One JSON object on standard output.\n\n"
                            "  --tier N  --compile-threads N       how it is compiled (1, 1)\n"
                            "  --interpret                         no machine code\n"
                            "  --print STAGE                       prints what the program is there\n"
                            "  --neff FILE                         the artifact\n"
                            "  --no-run                            compile only\n"
                            "  --threads N  --repeat N             how it is executed (0: as many as there are processors; 0)\n"
                            "  --zeros                             inputs are zeros instead of those beside the program\n"
                            "  --no-check                          results are not compared\n"
                            "  --profile                           times of its steps\n"
                            "  --serve                             the protocol of serve.py\n"
                            "  --help                              this text\n\n"
                            "Exit status: 0 done, 1 it failed or a result is outside its tolerance, 2 usage.\n";

enum { TIER = 256, THREADS, COMPILE_THREADS, REPEAT, PRINT, NEFF, HELP };

/* -1: go on. Else the exit status. */
static int take_options(int argc, char **argv, struct args *a)
{
    int interpret = 0, profile = 0, no_run = 0, zeros = 0, no_check = 0, serve = 0;
    const struct option options[] = {
        {"interpret", no_argument, &interpret, 1}, {"profile", no_argument, &profile, 1}, {"no-run", no_argument, &no_run, 1},
        {"zeros", no_argument, &zeros, 1}, {"no-check", no_argument, &no_check, 1}, {"serve", no_argument, &serve, 1},
        {"tier", required_argument, NULL, TIER}, {"threads", required_argument, NULL, THREADS},
        {"compile-threads", required_argument, NULL, COMPILE_THREADS}, {"repeat", required_argument, NULL, REPEAT},
        {"print", required_argument, NULL, PRINT}, {"neff", required_argument, NULL, NEFF}, {"help", no_argument, NULL, HELP}, {0},
    };
    int *const numbers[] = {&a->tier, &a->threads, &a->compile_threads, &a->repeat};
    for (int o, at = 0; (o = getopt_long(argc, argv, "", options, &at)) != -1;) {
        int64_t v = 0;
        switch (o) {
        case 0:
            break;
        case TIER: case THREADS: case COMPILE_THREADS: case REPEAT:
            if (nf_str_to_i64(nf_str_c(optarg), &v) < 0 || v < 0 || v > INT32_MAX) {
                fprintf(stderr, "model_run: --%s does not take '%s'\n", options[at].name, optarg);
                return 2;
            }
            *numbers[o - TIER] = (int)v;
            break;
        case PRINT:
            a->print = optarg;
            break;
        case NEFF:
            a->neff = optarg;
            break;
        case HELP:
            fputs(usage, stdout);
            return 0;
        default:   /* getopt has said what is wrong */
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return 2;
    }
    a->path = argv[optind];
    a->interpret = interpret;
    a->profile = profile;
    a->no_run = no_run;
    a->zeros = zeros;
    a->no_check = no_check || serve;
    a->serve = serve;
    return -1;
}

int main(int argc, char **argv)
{
    struct args a = {.tier = 1, .compile_threads = 1, .repeat = 0};
    struct nf_error err = {0};
    struct nf_buf text = NF_BUF_INIT, manifest = NF_BUF_INIT, neff = NF_BUF_INIT, json = NF_BUF_INIT;
    char path[4096];
    int rc = take_options(argc, argv, &a);
    if (rc >= 0) return rc;
    struct stat st;
    bool folder = stat(a.path, &st) == 0 && S_ISDIR(st.st_mode);
    nf_format(path, sizeof path, "%s%s", a.path, folder ? "/module.mlir" : "");
    rc = nf_file_read(path, (size_t)8 << 30, &text, &err);
    if (rc) goto out;
    if (folder) {
        nf_format(path, sizeof path, "%s/manifest.json", a.path);
        struct nf_error none;
        nf_file_read(path, 1 << 24, &manifest, &none);
    }
    struct cg_report r = {0};
    int64_t parse_ns;
    if (a.serve && (rc = warm(&a, &err))) goto out;
    int64_t w0 = nf_now_ns(), c0 = cpu_ns();
    if ((rc = compile_text(&a, nf_buf_str(&text), &neff, &r, &parse_ns, &err))) goto out;
    int64_t w2 = nf_now_ns(), c2 = cpu_ns();
    if (a.serve) {
        printf("{\"compile_ms\": %.3f, \"compile_cpu_ms\": %.3f, \"temp_mb\": %.3f, \"peak_rss_mb\": %.1f}\n", (double)(w2 - w0) / 1e6, (double)(c2 - c0) / 1e6, (double)r.arena_bytes / 1e6, peak_mb());
        fflush(stdout);
    }
    nf_buf_addf(&json, "{\"name\": \"%s\", \"parse_ms\": %.2f, \"compile_ms\": %.2f, \"compile_cpu_ms\": %.2f, \"import_ms\": %.2f, \"group_ms\": %.2f, \"plan_ms\": %.2f, \"emit_ms\": %.2f", a.path, (double)parse_ns / 1e6,
                (double)(w2 - w0) / 1e6, (double)(c2 - c0) / 1e6, (double)r.import_ns / 1e6, (double)r.group_ns / 1e6, (double)r.plan_ns / 1e6, (double)r.emit_ns / 1e6);
    nf_buf_addf(&json, ", \"steps\": %u, \"kernels\": %u, \"distinct\": %u, \"native\": %u, \"dots\": %u, \"arena_mb\": %.2f, \"image_kb\": %.1f", r.steps, r.kernels, r.distinct, r.native, r.dots, (double)r.arena_bytes / 1e6, (double)r.image_bytes / 1e3);
    if (a.neff) rc = nf_file_replace(a.neff, nf_buf_str(&neff), 0644, &err);
    if (!rc && !a.no_run) rc = run(&a, nf_buf_str(&neff), a.path, nf_buf_str(&manifest), &json, &err);
    nf_buf_addf(&json, ", \"peak_rss_mb\": %.1f}", peak_mb());
    if (!a.serve) printf("%s\n", json.data);
out:
    if (rc < 0) nf_error_print("model_run", &err);
    return rc ? 1 : 0;
}
