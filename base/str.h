/* str.h: bytes in (nf_str) and bytes out (nf_buf).
 *
 * nf_str borrows: pointer and length, no terminator promised, NULL data only with length 0.
 * nf_buf owns: data is always NUL-terminated one past len (so it can be passed as a C string when it holds no NUL),
 * data is never NULL after the first append; grow by appending; nf_buf_done frees, and leaves it empty and usable.
 * Memory: a request beyond NF_BUF_MAX, or that malloc refuses, sets `failed`; later appends do nothing; check once at the
 * end (sticky). */
#ifndef NEFFD_BASE_STR_H
#define NEFFD_BASE_STR_H

#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

struct nf_str {
    const char *data;
    size_t len;
};

#define NF_STR(literal) ((struct nf_str){("" literal), sizeof(literal) - 1})
#define NF_STR_ARG(s) (int)(s).len, (s).data /* for "%.*s"; the caller knows that it is short */

static inline struct nf_str nf_str_c(const char *c) { return (struct nf_str){c, c ? strlen(c) : 0}; }
static inline struct nf_str nf_str_n(const void *data, size_t len) { return (struct nf_str){(const char *)data, len}; }
static inline bool nf_str_eq(struct nf_str a, struct nf_str b) { return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0); }
bool nf_str_eq_c(struct nf_str a, const char *b);
int nf_str_cmp(struct nf_str a, struct nf_str b);                 /* bytewise, shorter first */
bool nf_str_starts(struct nf_str s, struct nf_str prefix);
bool nf_str_ends(struct nf_str s, struct nf_str suffix);
struct nf_str nf_str_trim(struct nf_str s);                        /* ASCII white space, both ends */
/* Cuts the part before the first `sep` off *s and returns it; without one, all of it, and *s becomes empty with data NULL. */
struct nf_str nf_str_cut(struct nf_str *s, char sep);
int nf_str_to_i64(struct nf_str s, int64_t *ret_value);            /* whole string, decimal; NF_EINVAL or NF_ELIMIT */
int nf_str_to_u64(struct nf_str s, uint64_t *ret_value);
int nf_str_to_double(struct nf_str s, double *ret_value);          /* locale-independent */
/* "HOST:PORT" with a host (an IPv6 one in its brackets) and a port to 65535; 0 is one too: any, where it is listened to. */
bool nf_host_port(const char *address, struct nf_str *ret_host, uint16_t *ret_port);
int nf_hex_digit(char c);                                           /* 0 to 15, either case; -1 if it is none */
bool nf_utf8_valid(struct nf_str s);
size_t nf_edit_distance(struct nf_str a, struct nf_str b);          /* for "did you mean"; caps at 64 bytes each */

struct nf_buf {
    char *data;
    size_t len, cap;
    bool failed;
};
#define NF_BUF_INIT ((struct nf_buf){0})
#define NF_BUF_MAX ((size_t)1 << 40)

void nf_buf_done(struct nf_buf *b);
void nf_buf_clear(struct nf_buf *b);                               /* keeps the memory */
bool nf_buf_reserve(struct nf_buf *b, size_t extra);               /* room for extra more; false sets failed */
void nf_buf_add(struct nf_buf *b, const void *data, size_t len);
void nf_buf_add_str(struct nf_buf *b, struct nf_str s);
void nf_buf_add_c(struct nf_buf *b, const char *c);
void nf_buf_add_char(struct nf_buf *b, char c);
void nf_buf_addf(struct nf_buf *b, const char *fmt, ...) NF_PRINTF(2, 3);
void nf_buf_vaddf(struct nf_buf *b, const char *fmt, va_list ap) NF_PRINTF(2, 0);
void nf_buf_add_hex(struct nf_buf *b, const void *data, size_t len);
void nf_buf_add_u32le(struct nf_buf *b, uint32_t v);
void nf_buf_add_u64le(struct nf_buf *b, uint64_t v);
void nf_buf_add_varint(struct nf_buf *b, uint64_t v);              /* protobuf's base-128 */
/* "1 job", "2 jobs". */
void nf_buf_add_count(struct nf_buf *b, size_t n, const char *one, const char *many);
/* Before item `i` (from 0) of a list in brackets, " (" or ", "; true. Behind eight ", ..." stands for the rest; false: the list ends. Behind a list
 * with items comes a ')'. */
bool nf_buf_add_item(struct nf_buf *b, size_t i);
static inline struct nf_str nf_buf_str(const struct nf_buf *b) { return (struct nf_str){b->data, b->len}; }
char *nf_buf_take(struct nf_buf *b);                               /* the memory, to be freed; b is empty again */

/* malloc family for small, already checked sizes: never NULL, the process ends with a message if memory is gone. For
 * anything whose size comes from outside use nf_try_alloc, which may return NULL. */
void *nf_alloc(size_t bytes);                                      /* zeroed */
void *nf_alloc_array(size_t count, size_t bytes);                  /* zeroed, overflow-checked */
void *nf_realloc(void *p, size_t bytes);
char *nf_strdup(const char *c);                                    /* NULL gives NULL */
char *nf_strndup(const char *data, size_t len);
char *nf_asprintf(const char *fmt, ...) NF_PRINTF(1, 2);
void *nf_try_alloc(size_t bytes);                                  /* not zeroed, may be NULL */

/* snprintf that always terminates and says whether all of it fitted. */
bool nf_format(char *out, size_t size, const char *fmt, ...) NF_PRINTF(3, 4);

#define NF_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define NF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define NF_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
