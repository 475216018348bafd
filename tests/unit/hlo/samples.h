/* samples.h: the sections of samples.mlir. */
#ifndef NEFFD_TESTS_UNIT_HLO_SAMPLES_H
#define NEFFD_TESTS_UNIT_HLO_SAMPLES_H

#include "base/file.h"
#include "pipeline/hlo/hlo.h"

#include <check.h>

#define SAMPLES_MAX 64

static struct nf_buf samples_text;
static struct nf_str samples[SAMPLES_MAX];
static size_t num_samples;

static inline void samples_load(void)
{
    struct nf_error err = {0};
    const char *path = getenv("HLO_SAMPLES");
    if (num_samples)
        return;
    ck_assert_msg(path && nf_file_read(path, 1 << 22, &samples_text, &err) == 0, "samples: %s", err.message);
    struct nf_str rest = nf_buf_str(&samples_text);
    while (rest.len) {
        const char *mark = memmem(rest.data, rest.len, "// -----", 8);
        size_t len = mark ? (size_t)(mark - rest.data) : rest.len;
        ck_assert_uint_lt(num_samples, SAMPLES_MAX);
        samples[num_samples++] = nf_str_n(rest.data, len);
        rest = mark ? nf_str_n(mark + 8, rest.len - len - 8) : (struct nf_str){0};
    }
}

static inline struct hlo_module *parse_ok(struct nf_arena *arena, struct nf_str text)
{
    struct hlo_module *m = NULL;
    struct nf_error err = {0};
    ck_assert_msg(hlo_parse(text, NULL, arena, &m, &err) == 0, "%s: %s", err.location, err.message);
    return m;
}

static inline struct nf_digest key_of(struct nf_str text)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m = parse_ok(arena, text);
    struct nf_error err = {0};
    struct nf_digest d;
    ck_assert_msg(hlo_verify(m, &err) == 0, "%s: %s", err.location, err.message);
    ck_assert_msg(hlo_canonicalise(m, &err) == 0, "%s", err.message);
    ck_assert_int_eq(hlo_key(m, &d, &err), 0);
    nf_arena_free(arena);
    return d;
}

static inline struct nf_digest key_of_c(const char *text) { return key_of(nf_str_c(text)); }

#endif
