/* bench.h: measuring and reporting, for the benchmarks in C. One JSON line a result, as tests/bench wants it. */
#ifndef NEFFD_TESTS_BENCHMARKS_BENCH_H
#define NEFFD_TESTS_BENCHMARKS_BENCH_H

#include "base/str.h"

struct bench_sample {
    double *values;
    size_t count, cap;
};

/* Processor time of this thread: what is measured on one thread does not wait for others then, and a busy machine is no excuse. */
int64_t bench_cpu_ns(void);

void bench_add(struct bench_sample *s, double value);
double bench_quantile(struct bench_sample *s, double q); /* sorts; 0 <= q <= 1 */
void bench_sample_done(struct bench_sample *s);

/* Prints the median of the sample as the value. ratio_to: the name of an earlier line of this process, or NULL. */
void bench_report(const char *name, const char *unit, struct bench_sample *s, const char *ratio_to);
/* A single figure. */
void bench_report_value(const char *name, const char *unit, double value, size_t n, const char *ratio_to);
/* The value of an earlier line, or NaN. */
double bench_value(const char *name);
/* Ends the process with a message. */
void bench_fail(const char *what, const struct nf_error *err) __attribute__((noreturn));

#endif
