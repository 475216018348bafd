#include "base/str.h"

#include <check.h>
#include <locale.h>

START_TEST(numbers_are_whole_and_bounded)
{
    int64_t i = 77;
    uint64_t u = 77;
    ck_assert_int_eq(nf_str_to_i64(NF_STR("-9223372036854775808"), &i), NF_OK);
    ck_assert(i == INT64_MIN);
    ck_assert_int_eq(nf_str_to_i64(NF_STR("9223372036854775808"), &i), NF_ELIMIT);
    ck_assert_int_eq(nf_str_to_u64(NF_STR("18446744073709551615"), &u), NF_OK);
    ck_assert(u == UINT64_MAX);
    ck_assert_int_eq(nf_str_to_u64(NF_STR("18446744073709551616"), &u), NF_ELIMIT);
    i = 5;
    ck_assert_int_eq(nf_str_to_i64(NF_STR(""), &i), NF_EINVAL);
    ck_assert_int_eq(nf_str_to_i64(NF_STR("-"), &i), NF_EINVAL);
    ck_assert_int_eq(nf_str_to_i64(NF_STR("12x"), &i), NF_EINVAL);
    ck_assert_int_eq(nf_str_to_i64(NF_STR(" 1"), &i), NF_EINVAL);
    ck_assert_int_eq(i, 5); /* untouched on failure */
}
END_TEST

START_TEST(doubles_do_not_follow_the_locale)
{
    double d = 0;
    setlocale(LC_ALL, "de_DE.UTF-8");
    ck_assert_int_eq(nf_str_to_double(NF_STR("1.5e3"), &d), NF_OK);
    ck_assert(d == 1500.0);
    ck_assert_int_eq(nf_str_to_double(NF_STR("1,5"), &d), NF_EINVAL);
    ck_assert_int_eq(nf_str_to_double(NF_STR(" 1"), &d), NF_EINVAL);
    ck_assert_int_eq(nf_str_to_double(NF_STR(""), &d), NF_EINVAL);
    struct nf_buf b = NF_BUF_INIT;
    for (int i = 0; i < 300; i++)
        nf_buf_add_char(&b, '1');
    ck_assert_int_eq(nf_str_to_double(nf_buf_str(&b), &d), NF_OK);
    ck_assert(d > 1e299);
    nf_buf_done(&b);
}
END_TEST

START_TEST(cut_walks_a_list)
{
    struct nf_str rest = NF_STR("a,,b");
    ck_assert(nf_str_eq_c(nf_str_cut(&rest, ','), "a"));
    ck_assert(nf_str_eq_c(nf_str_cut(&rest, ','), ""));
    ck_assert(nf_str_eq_c(nf_str_cut(&rest, ','), "b"));
    ck_assert_ptr_null(rest.data);
    rest = NF_STR("x,");
    nf_str_cut(&rest, ',');
    ck_assert_ptr_nonnull(rest.data); /* one more, empty item */
    ck_assert_uint_eq(rest.len, 0);
    ck_assert(nf_str_eq_c(nf_str_trim(NF_STR(" \t a b \n")), "a b"));
    ck_assert(nf_str_starts(NF_STR("abc"), NF_STR("ab")) && !nf_str_starts(NF_STR("a"), NF_STR("ab")));
    ck_assert(nf_str_ends(NF_STR("abc"), NF_STR("bc")) && !nf_str_ends(NF_STR("c"), NF_STR("bc")));
}
END_TEST

START_TEST(utf8_is_strict)
{
    static const struct {
        const char *bytes;
        bool valid;
    } rows[] = {
        {"", true}, {"plain ascii that is longer than one word", true}, {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", true},
        {"\xC0\x80", false}, {"\xC1\xBF", false}, {"\xE0\x9F\xBF", false}, {"\xED\xA0\x80", false}, {"\xF0\x8F\xBF\xBF", false},
        {"\xF4\x90\x80\x80", false}, {"\xF5\x80\x80\x80", false}, {"\x80", false}, {"\xE2\x82", false}, {"abcdefgh\xFF", false},
        {"\xF4\x8F\xBF\xBF", true}, {"\xEF\xBF\xBF", true},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++)
        ck_assert_msg(nf_utf8_valid(nf_str_c(rows[i].bytes)) == rows[i].valid, "row %zu", i);
    ck_assert(nf_utf8_valid(NF_STR("a\0b")));
}
END_TEST

START_TEST(edit_distance_counts_edits)
{
    ck_assert_uint_eq(nf_edit_distance(NF_STR("kitten"), NF_STR("sitting")), 3);
    ck_assert_uint_eq(nf_edit_distance(NF_STR(""), NF_STR("abc")), 3);
    ck_assert_uint_eq(nf_edit_distance(NF_STR("same"), NF_STR("same")), 0);
}
END_TEST

START_TEST(a_buffer_grows_and_stays_terminated)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add(&b, "", 0);
    ck_assert_ptr_nonnull(b.data);
    ck_assert_int_eq(b.data[0], 0);
    for (int i = 0; i < 1000; i++)
        nf_buf_addf(&b, "%d,", i);
    ck_assert_uint_eq(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    ck_assert_int_eq(b.data[b.len], 0);
    ck_assert_uint_eq(strlen(b.data), b.len);
    nf_buf_clear(&b);
    nf_buf_add_hex(&b, "\x00\xAB", 2);
    nf_buf_add_u32le(&b, 0x04030201);
    nf_buf_add_varint(&b, 300);
    ck_assert(nf_str_eq(nf_buf_str(&b), NF_STR("00ab\x01\x02\x03\x04\xAC\x02")));
    char *taken = nf_buf_take(&b);
    ck_assert_ptr_null(b.data);
    ck_assert_int_eq(taken[0], '0');
    free(taken);
    char *longer = nf_asprintf("%0500d", 1);
    nf_buf_addf(&b, "%s", longer);
    ck_assert_uint_eq(b.len, 500);
    free(longer);
    nf_buf_done(&b);
}
END_TEST

START_TEST(a_count_and_a_list_read_well)
{
    static const struct { size_t n; const char *text; } cases[] = {
        {0, "0 jobs"}, {1, "1 job (0)"}, {2, "2 jobs (0, 1)"}, {8, "8 jobs (0, 1, 2, 3, 4, 5, 6, 7)"}, {9, "9 jobs (0, 1, 2, 3, 4, 5, 6, 7, ...)"},
    };
    for (size_t c = 0; c < NF_ARRAY_LEN(cases); c++) {
        struct nf_buf b = NF_BUF_INIT;
        size_t i = 0;
        nf_buf_add_count(&b, cases[c].n, "job", "jobs");
        for (; i < cases[c].n && nf_buf_add_item(&b, i); i++)
            nf_buf_addf(&b, "%zu", i);
        nf_buf_add_c(&b, i ? ")" : "");
        ck_assert_str_eq(b.data, cases[c].text);
        nf_buf_done(&b);
    }
}
END_TEST

START_TEST(an_address_has_a_host_and_a_port)
{
    static const char *const wrong[] = {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8x", "host: 80"};
    struct nf_str host;
    uint16_t port;
    for (size_t i = 0; i < NF_ARRAY_LEN(wrong); i++)
        ck_assert_msg(!nf_host_port(wrong[i], &host, &port), "%s", wrong[i]);
    ck_assert(nf_host_port("localhost:65535", &host, &port) && nf_str_eq_c(host, "localhost") && port == 65535);
    ck_assert(nf_host_port("[::1]:0", &host, &port) && nf_str_eq_c(host, "[::1]") && port == 0);
}
END_TEST

START_TEST(a_buffer_failure_sticks)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_c(&b, "kept");
    ck_assert(!nf_buf_reserve(&b, NF_BUF_MAX));
    ck_assert(b.failed);
    nf_buf_add_c(&b, "lost");
    ck_assert(nf_str_eq_c(nf_buf_str(&b), "kept"));
    nf_buf_done(&b);
    ck_assert(!b.failed);
    ck_assert(!nf_buf_reserve(&b, SIZE_MAX));
    nf_buf_done(&b);
}
END_TEST

START_TEST(format_says_whether_it_fitted)
{
    char small[4];
    ck_assert(nf_format(small, sizeof(small), "%s", "abc"));
    ck_assert(!nf_format(small, sizeof(small), "%s", "abcd"));
    ck_assert_str_eq(small, "abc");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-str");
    TCase *t = tcase_create("str");
    tcase_add_test(t, numbers_are_whole_and_bounded);
    tcase_add_test(t, doubles_do_not_follow_the_locale);
    tcase_add_test(t, cut_walks_a_list);
    tcase_add_test(t, utf8_is_strict);
    tcase_add_test(t, edit_distance_counts_edits);
    tcase_add_test(t, a_buffer_grows_and_stays_terminated);
    tcase_add_test(t, a_count_and_a_list_read_well);
    tcase_add_test(t, an_address_has_a_host_and_a_port);
    tcase_add_test(t, a_buffer_failure_sticks);
    tcase_add_test(t, format_says_whether_it_fitted);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
