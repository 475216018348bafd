/* error.h: what went wrong, where, and what to do next.
 *
 * A function that can fail in a way a person will read takes a last `struct nf_error *err` (may be NULL), fills it only on
 * failure, and returns the same code:
 *
 *     return nf_fail(err, NF_EIO, "cannot read %s: %s", path, strerror(errno));
 *
 * The struct is plain data without pointers: it can be copied, kept, and sent. */
#ifndef NEFFD_BASE_ERROR_H
#define NEFFD_BASE_ERROR_H

#include "base/status.h"

#include <stdint.h>

struct nf_error {
    int code;               /* NF_E...; 0 in an untouched struct */
    int stage;              /* neffd.v1.Stage, 0 if it has none */
    int exit_code;          /* of a compiler: its exit status, or -signal */
    bool from_cache;        /* a remembered failure */
    uint64_t retry_after_ms;
    char message[1024];     /* what happened, to what; no trailing newline or full stop */
    char location[256];     /* file:line:column, byte offset, op, or the user's source line */
    char hint[512];         /* what to do next */
};

#define NF_PRINTF(fmt_index, first) __attribute__((format(printf, fmt_index, first)))

/* Each formats into *err (cut at the field's size on a UTF-8 boundary) when err is not NULL. nf_fail clears what was there. */
int nf_fail(struct nf_error *err, int code, const char *fmt, ...) NF_PRINTF(3, 4);              /* returns code */
int nf_fail_errno(struct nf_error *err, int errnum, const char *fmt, ...) NF_PRINTF(3, 4);      /* code from errno; appends ": strerror" */
void nf_error_location(struct nf_error *err, const char *fmt, ...) NF_PRINTF(2, 3);
void nf_error_hint(struct nf_error *err, const char *fmt, ...) NF_PRINTF(2, 3);
/* "fmt: old message": adds what was being done to an error that came from below. Returns err->code (NF_EINTERNAL if NULL). */
int nf_error_prefix(struct nf_error *err, const char *fmt, ...) NF_PRINTF(2, 3);

/* A place in the file, where err has one without its name ("3:7", "byte 12", "instruction add.3"), as editors read it: "model.mlir:3:7".
 * The standard input ("-") has no name. */
void nf_error_file(struct nf_error *err, const char *path);

/* Prints "program: message" (with its location) and, if there is one, "hint: ..." to stderr. */
void nf_error_print(const char *program, const struct nf_error *err);

#endif
