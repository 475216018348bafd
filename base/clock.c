#include "base/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * NF_SEC + t.tv_nsec;
}

int64_t nf_now_ns(void) { return read_clock(CLOCK_MONOTONIC); }
int64_t nf_wall_us(void) { return read_clock(CLOCK_REALTIME) / 1000; }

void nf_sleep_ns(int64_t ns)
{
    if (ns <= 0)
        return;
    struct timespec t = {(time_t)(ns / NF_SEC), (long)(ns % NF_SEC)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}
