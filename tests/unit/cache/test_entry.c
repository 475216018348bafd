/* The bytes of an entry: every flipped bit of a footer and of metadata is noticed, sizes are believed only when they add up. */
#include "fixture.h"

#include <sys/mman.h>

static struct cache_footer footer(void)
{
    struct cache_footer f = {.version = 1, .kind = CACHE_KIND_NEFF, .encoding = CACHE_ZSTD, .stored_bytes = 10, .raw_bytes = 20, .meta_bytes = 5,
                             .created_us = 1234567, .mtime_s = 1, .compile_us = 99, .expires_us = 0, .meta_xxh3 = 42};
    nf_random(f.key.bytes, 32);
    nf_random(f.sha256.bytes, 32);
    return f;
}

START_TEST(a_footer_comes_back_as_it_went_in)
{
    struct cache_footer f = footer(), g;
    uint8_t bytes[CACHE_FOOTER_BYTES];
    cache_footer_encode(&f, bytes);
    ASSERT_OK(cache_footer_decode(bytes, 15 + CACHE_FOOTER_BYTES, &g, &err));
    ck_assert(nf_digest_eq(&f.key, &g.key) && nf_digest_eq(&f.sha256, &g.sha256));
    ck_assert(g.kind == f.kind && g.encoding == f.encoding && g.stored_bytes == 10 && g.raw_bytes == 20 && g.meta_bytes == 5);
    ck_assert(g.created_us == f.created_us && g.mtime_s == 1 && g.compile_us == 99 && g.meta_xxh3 == 42);
    for (size_t i = 0; i < CACHE_FOOTER_BYTES * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        ASSERT_FAILS(NF_ECORRUPT, cache_footer_decode(bytes, 15 + CACHE_FOOTER_BYTES, &g, &err));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (uint64_t size = CACHE_FOOTER_BYTES; size < CACHE_FOOTER_BYTES + 40; size++)
        if (size != 15 + CACHE_FOOTER_BYTES)
            ASSERT_FAILS(NF_ECORRUPT, cache_footer_decode(bytes, size, &g, &err));
    f.stored_bytes = UINT64_MAX - 4; /* sums that wrap */
    cache_footer_encode(&f, bytes);
    ASSERT_FAILS(NF_ECORRUPT, cache_footer_decode(bytes, CACHE_FOOTER_BYTES, &g, &err));
    f = footer(), f.encoding = CACHE_RAW; /* raw, and yet of two sizes */
    cache_footer_encode(&f, bytes);
    ASSERT_FAILS(NF_ECORRUPT, cache_footer_decode(bytes, 15 + CACHE_FOOTER_BYTES, &g, &err));
}
END_TEST

START_TEST(metadata_come_back_as_they_went_in)
{
    struct request r = request_of("seed", "2");
    struct cache_publication p = publication_of(&r, NF_STR(""));
    struct nf_buf text = NF_BUF_INIT, bytes = NF_BUF_INIT;
    for (int i = 0; i < 20000; i++)
        nf_buf_addf(&text, "%%%d = stablehlo.add %%%d, %%%d\n", i, i - 1, i - 2);
    p.meta.stablehlo = nf_buf_str(&text);
    p.meta.host = NF_STR("host\0with nul");
    p.meta.attempts = 3;
    p.meta.pid = 77;
    p.meta.started_us = 5;
    p.meta.peak_rss_bytes = 1 << 30;
    ASSERT_OK(cache__meta_encode(&p.meta, 1 << 30, &bytes, &err));
    ck_assert_uint_lt(bytes.len, text.len / 3);
    struct cache_meta m;
    struct nf_str back;
    ASSERT_OK(cache_meta_decode(nf_buf_str(&bytes), arena, &m, &err));
    ck_assert(nf_digest_eq(&m.key, &r.key));
    ck_assert(nf_str_eq(m.host, p.meta.host));
    ck_assert(m.attempts == 3 && m.pid == 77 && m.started_us == 5 && m.peak_rss_bytes == 1 << 30);
    ASSERT_OK(cache_meta_text(&m, arena, &back, &err));
    ck_assert(nf_str_eq(back, nf_buf_str(&text)));
    struct cache_components list;
    ASSERT_OK(cache_meta_components(&m, arena, &list, &err));
    struct nf_digest again;
    ASSERT_OK(cache_key_canonical(list.items, list.count, &again, &err));
    ck_assert(nf_digest_eq(&again, &r.key)); /* what is stored names what it is stored under */
    /* Over the limit: the text goes, the rest stays. */
    nf_buf_clear(&bytes);
    ASSERT_OK(cache__meta_encode(&p.meta, 100, &bytes, &err));
    ASSERT_OK(cache_meta_decode(nf_buf_str(&bytes), arena, &m, &err));
    ASSERT_FAILS(NF_ENOTFOUND, cache_meta_text(&m, arena, &back, &err));
    ASSERT_OK(cache_meta_components(&m, arena, &list, &err));
    nf_buf_done(&text);
    nf_buf_done(&bytes);
}
END_TEST

START_TEST(hostile_metadata_are_errors)
{
    struct request r = request_of("seed", "2");
    struct cache_publication p = publication_of(&r, NF_STR(""));
    struct nf_buf bytes = NF_BUF_INIT;
    struct cache_meta m;
    ASSERT_OK(cache__meta_encode(&p.meta, 1 << 30, &bytes, &err));
    for (size_t n = 0; n < bytes.len; n++) { /* cut anywhere: never a crash; mostly no message, and never another key */
        struct nf_arena *a = nf_arena_new(0);
        if (cache_meta_decode(nf_str_n(bytes.data, n), a, &m, &err) == NF_OK)
            ck_assert(nf_digest_eq(&m.key, &r.key));
        nf_arena_free(a);
    }
    /* Two bytes for an empty component each: what they grow to is bounded. */
    struct nf_buf many = NF_BUF_INIT;
    for (int i = 0; i < 3000000; i++)
        nf_buf_add(&many, "\x92\x01\x00", 3);
    ASSERT_FAILS(NF_ECORRUPT, cache_meta_decode(nf_buf_str(&many), arena, &m, &err));
    /* Sizes that are only claimed. */
    p.meta.stablehlo = NF_STR("text");
    nf_buf_clear(&bytes);
    ASSERT_OK(cache__meta_encode(&p.meta, 1 << 30, &bytes, &err));
    ASSERT_OK(cache_meta_decode(nf_buf_str(&bytes), arena, &m, &err));
    struct nf_str back;
    m.stablehlo_bytes = (uint64_t)1 << 40;
    ASSERT_FAILS(NF_ELIMIT, cache_meta_text(&m, arena, &back, &err));
    m.stablehlo_bytes = 5;
    ASSERT_FAILS(NF_ECORRUPT, cache_meta_text(&m, arena, &back, &err));
    m.ops_bytes++;
    struct cache_components list;
    ASSERT_FAILS(NF_ECORRUPT, cache_meta_components(&m, arena, &list, &err));
    nf_buf_done(&bytes);
    nf_buf_done(&many);
}
END_TEST

START_TEST(packed_payloads_that_lie_about_their_size_are_errors)
{
    struct nf_str raw = bytes_of(300000, false);
    struct nf_buf packed = NF_BUF_INIT;
    ck_assert_int_eq(cache__zstd_pack(raw, &packed), NF_OK);
    int fd = memfd_create("packed", MFD_CLOEXEC);
    ck_assert_int_eq(nf_fd_write_all(fd, packed.data, packed.len), NF_OK);
    static const int64_t off[] = {0, 1, -1};
    char *out = nf_arena_alloc_raw(arena, 400000);
    for (size_t i = 0; i < NF_ARRAY_LEN(off) * 2; i++) {
        struct cache__source s;
        bool cut = i >= NF_ARRAY_LEN(off);
        uint64_t want = (uint64_t)((int64_t)raw.len + off[i % NF_ARRAY_LEN(off)]);
        cache__source_fd(&s, fd, CACHE_ZSTD, packed.len - (cut ? 3 : 0), want);
        size_t n = 1, sum = 0;
        int rc = NF_OK;
        while (!rc && n)
            if (!(rc = cache__source_read(&s, out, 77777, &n, &err)))
                sum += n;
        ck_assert_int_eq(rc, i == 0 ? NF_OK : NF_ECORRUPT);
        if (i == 0)
            ck_assert_uint_eq(sum, raw.len);
        cache__source_done(&s);
    }
    close(fd);
    nf_buf_done(&packed);
}
END_TEST

START_TEST(operations_without_types)
{
    static const char *const pairs[][2] = {
        {"stablehlo.add %0, %1 : tensor<8x128xf32>", "stablehlo.add %0, %1 : tensor"},
        {"%0 = stablehlo.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>", "%0 = stablehlo.constant dense : tensor"},
        {"a : (tensor<8xcomplex<f32>>, tuple<tensor<i32>, tensor<?xf32>>) -> tensor<4x!quant.uniform<i8:f32, 1.0>>", "a : (tensor, tuple) -> tensor"},
        {"#stablehlo.dot<lhs = [0], f = () -> (1)>", "#stablehlo.dot<lhs = [0], f = () -> (1)>"},
        {"x {s = \"tensor<3xf32> \\\" dense<1>\"}", "x {s = \"tensor<3xf32> \\\" dense<1>\"}"},
        {"tensor<unclosed", "tensor"},
        {"\"unclosed", "\"unclosed"},
        {"", ""},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(pairs); i++) {
        struct nf_buf b = NF_BUF_INIT;
        cache_op_strip(nf_str_c(pairs[i][0]), &b);
        ck_assert_str_eq(b.len ? b.data : "", pairs[i][1]);
        nf_buf_done(&b);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-entry");
    TCase *t = tcase_create("entry");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_footer_comes_back_as_it_went_in);
    tcase_add_test(t, metadata_come_back_as_they_went_in);
    tcase_add_test(t, hostile_metadata_are_errors);
    tcase_add_test(t, packed_payloads_that_lie_about_their_size_are_errors);
    tcase_add_test(t, operations_without_types);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
