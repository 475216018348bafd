/* estimate.h: how long a compile is likely to take and how much memory it needs, learned from those before.
 *
 * Samples are kept by target and size of the graph (power of two of its operations): the last 32 of each class. Good enough to order
 * a queue, to draw a progress bar and not to start two 60 GB compiles at once. Kept in <local>/estimates across restarts. Loop thread. */
#ifndef NEFFD_CACHE_ESTIMATE_H
#define NEFFD_CACHE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

struct estimates;

struct estimate {
    bool known;
    int64_t p50_ns, p90_ns;
    uint64_t rss_bytes;        /* p90 */
};

struct estimates *estimates_open(const char *local_dir);     /* a missing or damaged file is an empty one */
void estimates_close(struct estimates *e);                   /* saves */
/* What is new, as text for estimates_write, which waits for the disk and may run on any thread; NULL: nothing is. Free it. */
char *estimates_text(struct estimates *e);
void estimates_write(const char *path, const char *text);
const char *estimates_path(const struct estimates *e);
void estimates_add(struct estimates *e, const char *target, uint64_t ops, int64_t compile_ns, uint64_t rss_bytes);
struct estimate estimates_of(const struct estimates *e, const char *target, uint64_t ops);

#endif
