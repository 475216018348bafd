/* scan.h: a line of a printed form, read word by word. The first thing that is not as expected sets `bad` (sticky); a parser looks once a
 * line. For plan_text.c and pipeline/codegen/graph_text.c, whose forms are written by us and read by tools and tests. */
#ifndef NEFFD_RUNTIME_CPU_SCAN_H
#define NEFFD_RUNTIME_CPU_SCAN_H

#include "base/str.h"

struct scan {
    struct nf_str at;            /* the rest of the line */
    bool bad;
};

static inline void scan_skip(struct scan *s, size_t n) { s->at = nf_str_n(s->at.data + n, s->at.len - n); }

/* Whether the text stands here; then it is behind us. */
static inline bool scan_take(struct scan *s, const char *text)
{
    struct nf_str t = nf_str_c(text);
    if (s->bad || !nf_str_starts(s->at, t)) return false;
    scan_skip(s, t.len);
    return true;
}
static inline void scan_need(struct scan *s, const char *text)
{
    if (!scan_take(s, text)) s->bad = true;
}
/* Digits, with a sign. What is no number between low and high is bad, and reads as a number that is. */
static inline int64_t scan_number(struct scan *s, int64_t low, int64_t high)
{
    size_t n = 0;
    int64_t v = 0;
    while (n < s->at.len && n < 21 && (n == 0 && s->at.data[0] == '-' ? true : s->at.data[n] >= '0' && s->at.data[n] <= '9')) n++;
    if (s->bad || nf_str_to_i64(nf_str_n(s->at.data, n), &v) || v < low || v > high) {
        s->bad = true;
        return low > 0 ? low : 0;
    }
    scan_skip(s, n);
    return v;
}

#endif
