/* log.h: structured log, one line an event: time, level, area, message, then key=value fields.
 *
 *     nf_log(NF_LOG_INFO, "cache", "entry quarantined", "key=%s reason=%s", hex, "digest");
 *
 * The field format is printf's; values that hold spaces, quotes, control characters or `=` must go through %s of
 * nf_log_quote(). Output as text (default) or as one JSON object a line. Any thread; one write(2) a line. */
#ifndef NEFFD_BASE_LOG_H
#define NEFFD_BASE_LOG_H

#include "base/str.h"

enum nf_log_level { NF_LOG_ERROR, NF_LOG_WARNING, NF_LOG_INFO, NF_LOG_DEBUG, NF_LOG_MAX };

/* path NULL: stderr. Before the first call: stderr, text, warnings. Can be called again (SIGHUP reopens the file). */
int nf_log_open(const char *path, enum nf_log_level level, bool json, struct nf_error *err);
void nf_log_set_level(enum nf_log_level level);
bool nf_log_enabled(enum nf_log_level level);
void nf_log(enum nf_log_level level, const char *area, const char *message, const char *fields_fmt, ...) NF_PRINTF(4, 5);
/* A quoted, escaped copy in one of 8 rotating per-thread buffers; cut at 512 bytes. */
const char *nf_log_quote(const char *value);

#endif
