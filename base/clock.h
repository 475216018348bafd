/* clock.h: time. Durations and deadlines use the monotonic clock, records for people the wall clock. */
#ifndef NEFFD_BASE_CLOCK_H
#define NEFFD_BASE_CLOCK_H

#include <stdint.h>

#define NF_MS ((int64_t)1000000)
#define NF_SEC ((int64_t)1000000000)

int64_t nf_now_ns(void);   /* CLOCK_MONOTONIC */
int64_t nf_wall_us(void);  /* microseconds since the epoch */
void nf_sleep_ns(int64_t ns);

#endif
