/* bench_load.c: 64 processes map one artifact of machine code and load it: processor time of a load, what they share, and how long it is
 * from the mapped file to the first result.
 *
 * The floor is what a loader cannot do without: open, fstat, mmap of file and code, a touch. */
#include "tests/benchmarks/bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 64, LAYERS = 12, AGAIN = 50 };

struct report {
    double floor_us, load_us, again_us, first_us, second_us, code_kb, code_rss_kb, private_kb;
};

/* Layers of other widths each, so that there are many kernels: x W, tanh, a normalisation. */
static void program(struct nf_buf *out)
{
    nf_buf_add_c(out, "func.func @main(%x0: tensor<32x64xf32>) -> tensor<32x64xf32> {\n  %z = stablehlo.constant dense<0.0> : tensor<f32>\n");
    for (int i = 0, width = 64; i < LAYERS; i++) {
        int next = i + 1 == LAYERS ? 64 : 64 + 8 * (i + 1);
        nf_buf_addf(out, "  %%w%d = stablehlo.iota dim = 1 : tensor<%dx%dxf32>\n  %%v%d = stablehlo.cosine %%w%d : tensor<%dx%dxf32>\n", i, width, next, i, i, width, next);
        nf_buf_addf(out, "  %%d%d = stablehlo.dot_general %%x%d, %%v%d, contracting_dims = [1] x [0] : (tensor<32x%dxf32>, tensor<%dx%dxf32>) -> tensor<32x%dxf32>\n", i, i, i, width, width, next, next);
        nf_buf_addf(out, "  %%t%d = stablehlo.tanh %%d%d : tensor<32x%dxf32>\n", i, i, next);
        nf_buf_addf(out, "  %%s%d = stablehlo.reduce(%%t%d init: %%z) applies stablehlo.add across dimensions = [1] : (tensor<32x%dxf32>, tensor<f32>) -> tensor<32xf32>\n", i, i, next);
        nf_buf_addf(out, "  %%b%d = stablehlo.broadcast_in_dim %%s%d, dims = [0] : (tensor<32xf32>) -> tensor<32x%dxf32>\n", i, i, next);
        nf_buf_addf(out, "  %%e%d = stablehlo.exponential %%t%d : tensor<32x%dxf32>\n  %%f%d = stablehlo.subtract %%e%d, %%b%d : tensor<32x%dxf32>\n", i, i, next, i, i, i, next);
        nf_buf_addf(out, "  %%x%d = stablehlo.logistic %%f%d : tensor<32x%dxf32>\n", i + 1, i, next);
        width = next;
    }
    nf_buf_addf(out, "  return %%x%d : tensor<32x64xf32>\n}\n", LAYERS);
}

/* In a child, so that nobody who measures has loaded LLVM. */
static void compile(const char *path)
{
    struct nf_error err = {0};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct nf_buf text = NF_BUF_INIT, neff = NF_BUF_INIT;
        struct nf_arena *a = nf_arena_new(0);
        struct hlo_module *m;
        struct cg_report r = {0};
        program(&text);
        if (hlo_parse(nf_buf_str(&text), NULL, a, &m, &err) || cg_compile(m, &(struct cg_request){.tier = 1}, &neff, &r, &err)) bench_fail("compile", &err);
        if (nf_file_replace(path, nf_buf_str(&neff), 0644, &err)) bench_fail("write", &err);
        fprintf(stderr, "an artifact of %zu bytes, %u kernels, %" PRIu64 " bytes of code\n", neff.len, r.distinct, r.image_bytes);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) bench_fail("the compile", NULL);
}

static struct nf_str map_file(const char *path, int *ret_fd)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) bench_fail("open the artifact", NULL);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) bench_fail("map the artifact", NULL);
    *ret_fd = fd;
    return nf_str_n(p, (size_t)st.st_size);
}

/* Of the executable mapping of the artifact, in KiB. */
static void look(const char *path, struct report *r)
{
    char line[512];
    bool here = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && fgets(line, sizeof line, f)) {
        long kb = 0;
        if (strchr(line, '-') && strchr(line, '-') < line + 20 && strstr(line, "p ")) here = strstr(line, " r-xp ") && strstr(line, path);
        else if (here && sscanf(line, "Size: %ld", &kb) == 1) r->code_kb += (double)kb;
        else if (here && sscanf(line, "Rss: %ld", &kb) == 1) r->code_rss_kb += (double)kb;
        else if (here && (sscanf(line, "Private_Dirty: %ld", &kb) == 1 || sscanf(line, "Private_Clean: %ld", &kb) == 1)) r->private_kb += (double)kb;
    }
    if (f) fclose(f);
}

static void member(const char *path, int ready, int go, int result, int stay)
{
    struct nf_error err = {0};
    struct report r = {0};
    struct rt_device *d;
    struct rt_program *p;
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    static float in[32 * 64], out[32 * 64];
    char byte = 0;
    int fd;
    int64_t t = bench_cpu_ns();
    struct nf_str file = map_file(path, &fd);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    byte = *(const volatile char *)code ^ *(const volatile char *)file.data;
    r.floor_us = (double)(bench_cpu_ns() - t) / 1e3;
    munmap(code, 4096);
    close(fd);
    rt_device_register(&cpu_device_ops);
    if (rt_device_open("cpu", &(struct rt_device_config){.threads = 1}, &d, &err)) bench_fail("open the device", &err);
    t = bench_cpu_ns();
    int64_t wall = nf_now_ns();
    file = map_file(path, &fd);
    o.file_fd = fd;
    if (rt_program_load(d, file, &o, &p, &err)) bench_fail("load", &err);
    r.load_us = (double)(bench_cpu_ns() - t) / 1e3;
    if (rt_execute_host(p, (const void *[]){in}, (void *[]){out}, &err)) bench_fail("run", &err);
    r.first_us = (double)(nf_now_ns() - wall) / 1e3;
    wall = nf_now_ns();
    if (rt_execute_host(p, (const void *[]){in}, (void *[]){out}, &err)) bench_fail("run", &err);
    r.second_us = (double)(nf_now_ns() - wall) / 1e3;
    t = bench_cpu_ns();
    for (int i = 0; i < AGAIN; i++) {
        struct rt_program *q;
        if (rt_program_load(d, file, &o, &q, &err)) bench_fail("load", &err);
        rt_program_unload(q);
    }
    r.again_us = (double)(bench_cpu_ns() - t) / 1e3 / AGAIN;
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0) _exit(1);
    look(path, &r);
    if (write(result, &r, sizeof r) != sizeof r) _exit(1);
    if (read(stay, &byte, 1) < 0) _exit(1); /* until all have looked */
    _exit(0);
}

int main(void)
{
    char path[] = "/tmp/neffd_bench_load_XXXXXX";
    int ready[2], go[2], result[2], stay[2], fd = mkstemp(path);
    struct bench_sample floor_s = {0}, load = {0}, again = {0}, first = {0}, second = {0};
    double rss = 0, private = 0, size = 0;
    if (fd < 0 || pipe(ready) || pipe(go) || pipe(result) || pipe(stay)) bench_fail("prepare", NULL);
    close(fd);
    compile(path);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        if (pid < 0) bench_fail("fork", NULL);
        if (pid == 0) {
            close(stay[1]);
            member(path, ready[1], go[0], result[1], stay[0]);
        }
        char byte;
        if (read(ready[0], &byte, 1) != 1) bench_fail("a process", NULL); /* one after the other: each is measured by itself */
    }
    for (int i = 0; i < PROCESSES; i++) {
        struct report r;
        if (write(go[1], "", 1) != 1 || read(result[0], &r, sizeof r) != sizeof r) bench_fail("a process", NULL);
        bench_add(&floor_s, r.floor_us);
        bench_add(&load, r.load_us);
        bench_add(&again, r.again_us);
        bench_add(&first, r.first_us);
        bench_add(&second, r.second_us);
        rss += r.code_rss_kb;
        private += r.private_kb;
        size = r.code_kb;
    }
    close(stay[1]);
    while (wait(NULL) > 0) continue;
    unlink(path);
    bench_report("floor: open, fstat, mmap, touch (processor time)", "us", &floor_s, NULL);
    bench_report("first load of a process (processor time)", "us", &load, "floor: open, fstat, mmap, touch (processor time)");
    bench_report("load again (processor time)", "us", &again, "floor: open, fstat, mmap, touch (processor time)");
    bench_report("second execution (wall)", "us", &second, NULL);
    bench_report("from the mapped artifact to the first result (wall)", "us", &first, "second execution (wall)");
    bench_report_value("code mapped by each process", "KiB", size, PROCESSES, NULL);
    bench_report_value("code resident, all processes together", "KiB", rss, PROCESSES, NULL);
    bench_report_value("of it private to one process", "KiB", private, PROCESSES, "code resident, all processes together");
    return 0;
}
