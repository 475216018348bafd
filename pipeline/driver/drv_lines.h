/* drv_lines.h: bytes of a pipe to lines of valid UTF-8. */
#ifndef NEFFD_PIPELINE_DRIVER_DRV_LINES_H
#define NEFFD_PIPELINE_DRIVER_DRV_LINES_H

#include "base/str.h"

struct drv_lines {
    struct nf_buf pending;
    int64_t since_ns;                    /* when its first byte came */
    bool dots;                           /* nothing but progress marks so far */
};

typedef void drv_line_fn(void *user, struct nf_str text, bool whole);

void drv_lines_done(struct drv_lines *l);
/* Calls fn for each line that is complete (ends: \n, \r\n, \r) and for parts of lines over max bytes. */
void drv_lines_add(struct drv_lines *l, struct nf_str bytes, size_t max, int64_t now_ns, drv_line_fn *fn, void *user);
/* Gives out what has waited longer than age_ns (0: all of it), except progress dots, for which it returns true. */
bool drv_lines_flush(struct drv_lines *l, int64_t age_ns, int64_t now_ns, drv_line_fn *fn, void *user);

/* Invalid sequences become U+FFFD, control characters other than tab a space. Appends to out. */
void drv_utf8_repair(struct nf_str bytes, struct nf_buf *out);

#endif
