#include "runtime/neff.h"

#include "base/arena.h"
#include "base/file.h"

#include <check.h>
#include <fcntl.h>
#include <unistd.h>

static struct nf_error err;

static struct nf_buf sample(size_t image_bytes)
{
    static char image[20000];
    for (size_t i = 0; i < sizeof(image); i++)
        image[i] = (char)(i * 7);
    ck_assert_uint_le(image_bytes, sizeof(image));
    const struct neff_writer_options o = {.name = "a graph", .target = "cpu", .compiler = "neffd-cpu 0.1.0", .isa = "x86-64", .lnc_size = 1};
    struct neff_writer *w = neff_writer_new(&o);
    const int64_t dims[] = {4, 8}, strides[] = {1, 4};
    struct rt_tensor a = {.name = "x\ny\\z", .dtype = NF_DT_F32, .rank = 2, .dims = dims, .bytes = 128, .alias = RT_NO_ALIAS};
    struct rt_tensor b = {.name = "", .dtype = NF_DT_S64, .rank = 0, .bytes = 8, .alias = RT_NO_ALIAS};
    struct rt_tensor c = {.name = "out", .dtype = NF_DT_F32, .rank = 2, .dims = dims, .strides = strides, .bytes = 128, .alias = 0};
    neff_writer_input(w, &a);
    neff_writer_input(w, &b);
    neff_writer_output(w, &c);
    neff_writer_note(w, "plan", "3 steps");
    neff_writer_member(w, "text", NF_STR("module {}\n"), 0);
    neff_writer_member(w, "image", nf_str_n(image, image_bytes), NEFF_PAGE);
    neff_writer_member(w, "after", NF_STR("x"), 64);
    struct nf_buf out = NF_BUF_INIT;
    ck_assert_msg(neff_writer_finish(w, &out, &err) == 0, "%s", err.message);
    /* A file descriptor gets the same bytes. */
    char path[] = "/tmp/neff-test-XXXXXX";
    int fd = mkstemp(path);
    uint64_t bytes = 0;
    ck_assert_int_eq(neff_writer_finish_fd(w, fd, &bytes, &err), 0);
    ck_assert_uint_eq(bytes, out.len);
    struct nf_buf again = NF_BUF_INIT;
    ck_assert_int_eq(nf_file_read(path, 1 << 20, &again, &err), 0);
    ck_assert(nf_str_eq(nf_buf_str(&again), nf_buf_str(&out)));
    nf_buf_done(&again);
    close(fd);
    unlink(path);
    neff_writer_free(w);
    return out;
}

START_TEST(what_is_written_is_read)
{
    struct nf_buf b = sample(5000);
    struct neff *n = NULL;
    ck_assert_msg(neff_open(nf_buf_str(&b), &n, &err) == 0, "%s", err.message);
    ck_assert_str_eq(neff_header(n)->name, "a graph");
    ck_assert_str_eq(neff_target(n), "cpu");
    ck_assert_str_eq(neff_compiler(n), "neffd-cpu 0.1.0");
    ck_assert_str_eq(neff_isa(n), "x86-64");
    ck_assert_str_eq(neff_note(n, "plan"), "3 steps");
    ck_assert_ptr_null(neff_note(n, "pla"));
    const struct rt_tensor *in, *out;
    ck_assert_uint_eq(neff_inputs(n, &in), 2);
    ck_assert_uint_eq(neff_outputs(n, &out), 1);
    ck_assert_str_eq(in[0].name, "x\ny\\z");
    ck_assert_int_eq(in[0].dtype, NF_DT_F32);
    ck_assert_uint_eq(in[0].rank, 2);
    ck_assert_int_eq(in[0].dims[1], 8);
    ck_assert_ptr_null(in[0].strides);
    ck_assert_uint_eq(in[1].rank, 0);
    ck_assert_int_eq(out[0].alias, 0);
    ck_assert_int_eq(out[0].strides[1], 4);
    ck_assert_uint_eq(neff_member_count(n), 4);
    struct nf_str image;
    ck_assert(neff_member(n, "image", &image));
    ck_assert_uint_eq(image.len, 5000);
    ck_assert_uint_eq((size_t)(image.data - b.data) % NEFF_PAGE, 0);
    ck_assert_int_eq(image.data[11], 77);
    neff_close(n);
    nf_buf_done(&b);
}
END_TEST

START_TEST(equal_content_is_equal_bytes)
{
    struct nf_buf a = sample(777), b = sample(777), c = sample(778);
    ck_assert(nf_str_eq(nf_buf_str(&a), nf_buf_str(&b)));
    ck_assert(!nf_str_eq(nf_buf_str(&a), nf_buf_str(&c)));
    nf_buf_done(&a);
    nf_buf_done(&b);
    nf_buf_done(&c);
}
END_TEST

static size_t problems_of(struct nf_str bytes, const struct neff_expect *x, char *ret_first, size_t size)
{
    struct nf_arena *arena = nf_arena_new(0);
    const char *const *v;
    size_t n = neff_check(bytes, x, arena, &v, NULL);
    if (ret_first)
        nf_format(ret_first, size, "%s", n ? v[0] : "");
    nf_arena_free(arena);
    return n;
}

START_TEST(every_cut_is_found)
{
    struct nf_buf b = sample(5000);
    struct neff_expect x = {.members = true};
    ck_assert_uint_eq(problems_of(nf_buf_str(&b), &x, NULL, 0), 0);
    for (size_t len = 0; len < b.len; len += len < 1100 ? 1 : 97)
        ck_assert_uint_ge(problems_of(nf_str_n(b.data, len), &x, NULL, 0), 1);
    nf_buf_done(&b);
}
END_TEST

START_TEST(a_cut_with_a_right_data_size_is_found)
{
    struct nf_buf b = sample(5000);
    for (size_t cut = 1; cut < b.len - 1024; cut += 61) {
        char *copy = nf_try_alloc(b.len - cut);
        memcpy(copy, b.data, b.len - cut);
        uint64_t data = b.len - cut - 1024;
        memcpy(copy + 16, &data, 8);
        struct neff_expect x = {.members = true, .hash = true};
        ck_assert_uint_ge(problems_of(nf_str_n(copy, b.len - cut), &x, NULL, 0), 1);
        free(copy);
    }
    nf_buf_done(&b);
}
END_TEST

START_TEST(every_flipped_byte_of_the_archive_fails_the_hash)
{
    struct nf_buf b = sample(600);
    for (size_t i = 1024; i < b.len; i += 13) {
        b.data[i] = (char)(b.data[i] ^ 0x10);
        struct neff_expect x = {.members = true, .hash = true};
        ck_assert_uint_ge(problems_of(nf_buf_str(&b), &x, NULL, 0), 1);
        b.data[i] = (char)(b.data[i] ^ 0x10);
    }
    nf_buf_done(&b);
}
END_TEST

START_TEST(expectations_are_compared)
{
    struct nf_buf b = sample(1);
    char first[256];
    struct neff_expect x = {.target = "trn1"};
    ck_assert_uint_eq(problems_of(nf_buf_str(&b), &x, first, sizeof(first)), 1);
    ck_assert_str_eq(first, "it is for target cpu, trn1 was asked for");
    x = (struct neff_expect){.lnc_size = 2};
    ck_assert_uint_eq(problems_of(nf_buf_str(&b), &x, first, sizeof(first)), 1);
    b.data[544 + 1] = 1; /* feature 0x100 */
    x = (struct neff_expect){.feature_mask = 0xff};
    ck_assert_uint_eq(problems_of(nf_buf_str(&b), &x, first, sizeof(first)), 1);
    ck_assert_str_eq(first, "features 0x100 are not supported, only 0xff are");
    nf_buf_done(&b);
}
END_TEST

/* Rewrites the manifest's bytes in place (same length) and gives the outcome. */
static int with_manifest(const char *from, const char *to)
{
    struct nf_buf b = sample(1);
    ck_assert_uint_eq(strlen(from), strlen(to));
    char *at = memmem(b.data, b.len, from, strlen(from));
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    struct neff *n = NULL;
    int r = neff_open(nf_buf_str(&b), &n, &err);
    neff_close(r == 0 ? n : NULL);
    nf_buf_done(&b);
    return r;
}

START_TEST(hostile_manifests_are_refused)
{
    ck_assert_int_eq(with_manifest("neffd 1\n", "neffd 1\n"), 0);
    ck_assert_int_eq(with_manifest("neffd 1\n", "neffd 2\n"), NF_EUNSUPPORTED);
    ck_assert_int_eq(with_manifest("input f32 4,8", "input f99 4,8"), NF_ECORRUPT);
    ck_assert_int_eq(with_manifest("input f32 4,8", "input f32 -,8"), NF_ECORRUPT);
    ck_assert_int_eq(with_manifest("input f32 4,8", "input f32 9,9"), NF_ECORRUPT); /* larger than its bytes */
    ck_assert_int_eq(with_manifest("4,8 1,4 128 0", "4,8 1,5 128 0"), NF_ECORRUPT); /* strides reach beyond */
    ck_assert_int_eq(with_manifest("4,8 1,4 128 0", "4,8 1,4 128 9"), NF_ECORRUPT); /* alias of nothing */
    ck_assert_int_eq(with_manifest("4,8 1,4 128 0", "4,8 1,4 128 1"), NF_ECORRUPT); /* alias of another size */
    ck_assert_int_eq(with_manifest("x\\ny", "x\\qy"), NF_ECORRUPT);
    ck_assert_int_eq(with_manifest("compiler ", "composer "), 0); /* not a known line: ignored */
}
END_TEST

START_TEST(writers_errors_come_out_at_the_end)
{
    const struct neff_writer_options o = {.name = "n", .target = "cpu", .compiler = "c"};
    struct neff_writer *w = neff_writer_new(&o);
    neff_writer_member(w, "", NF_STR("x"), 0);
    neff_writer_member(w, "ok", NF_STR("x"), 0);
    struct nf_buf b = NF_BUF_INIT;
    ck_assert_int_eq(neff_writer_finish(w, &b, &err), NF_EINVAL);
    ck_assert_uint_eq(b.len, 0);
    neff_writer_free(w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("runtime-neff");
    TCase *t = tcase_create("neff");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_is_written_is_read);
    tcase_add_test(t, equal_content_is_equal_bytes);
    tcase_add_test(t, every_cut_is_found);
    tcase_add_test(t, a_cut_with_a_right_data_size_is_found);
    tcase_add_test(t, every_flipped_byte_of_the_archive_fails_the_hash);
    tcase_add_test(t, expectations_are_compared);
    tcase_add_test(t, hostile_manifests_are_refused);
    tcase_add_test(t, writers_errors_come_out_at_the_end);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
