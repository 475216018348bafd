#include "tests/benchmarks/bench.h"

#include <time.h>

#include <math.h>

static struct {
    char name[96];
    double value;
} lines[64];
static size_t line_count;

int64_t bench_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void bench_add(struct bench_sample *s, double value)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 1024;
        s->values = nf_realloc(s->values, s->cap * sizeof(*s->values));
    }
    s->values[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(struct bench_sample *s, double q)
{
    if (s->count == 0)
        return NAN;
    qsort(s->values, s->count, sizeof(*s->values), by_value);
    return s->values[(size_t)(q * (double)(s->count - 1) + 0.5)];
}

void bench_sample_done(struct bench_sample *s)
{
    free(s->values);
    *s = (struct bench_sample){0};
}

double bench_value(const char *name)
{
    for (size_t i = 0; i < line_count; i++)
        if (strcmp(lines[i].name, name) == 0)
            return lines[i].value;
    return NAN;
}

static void print(const char *name, const char *unit, double value, double p99, size_t n, const char *ratio_to)
{
    printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"ratio_to\":\"%s\",\"ratio\":", name, value, unit, ratio_to ? ratio_to : "");
    double against = ratio_to ? bench_value(ratio_to) : NAN;
    if (isfinite(against) && against != 0)
        printf("%.4g", value / against);
    else
        printf("null");
    printf(",\"median\":%.6g,\"p99\":%.6g,\"n\":%zu}\n", value, p99, n);
    fflush(stdout);
    if (line_count < NF_ARRAY_LEN(lines)) {
        nf_format(lines[line_count].name, sizeof(lines[line_count].name), "%s", name);
        lines[line_count++].value = value;
    }
}

void bench_report(const char *name, const char *unit, struct bench_sample *s, const char *ratio_to)
{
    double median = bench_quantile(s, 0.5);
    print(name, unit, median, bench_quantile(s, 0.99), s->count, ratio_to);
}

void bench_report_value(const char *name, const char *unit, double value, size_t n, const char *ratio_to)
{
    print(name, unit, value, value, n, ratio_to);
}

void bench_fail(const char *what, const struct nf_error *err)
{
    fprintf(stderr, "bench: %s: %s\n", what, err && err->message[0] ? err->message : "failed");
    exit(1);
}
