#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <check.h>
#include <pthread.h>
#include <unistd.h>

static char path[64];

static struct nf_buf logged(bool json, enum nf_log_level level)
{
    nf_format(path, sizeof(path), "/tmp/nf-log-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(nf_log_open(path, level, json, NULL), NF_OK);
    return NF_BUF_INIT;
}

static void read_back(struct nf_buf *b)
{
    ck_assert_int_eq(nf_log_open(NULL, NF_LOG_WARNING, false, NULL), NF_OK);
    ck_assert_int_eq(nf_file_read(path, 1 << 24, b, NULL), NF_OK);
    unlink(path);
}

START_TEST(one_line_an_event)
{
    struct nf_buf b = logged(false, NF_LOG_INFO);
    nf_log(NF_LOG_INFO, "cache", "entry quarantined", "key=%s path=%s", "abc", nf_log_quote("a b\n\"c\""));
    nf_log(NF_LOG_DEBUG, "cache", "hidden", "x=%d", 1);
    read_back(&b);
    ck_assert_ptr_nonnull(strstr(b.data, "Z info cache: entry quarantined key=abc path=\"a b\\n\\\"c\\\"\"\n"));
    ck_assert_ptr_null(strstr(b.data, "hidden"));
    ck_assert_ptr_eq(strchr(b.data, '\n'), b.data + b.len - 1);
    nf_buf_done(&b);
}
END_TEST

START_TEST(json_fields_keep_their_types)
{
    struct nf_buf b = logged(true, NF_LOG_INFO);
    nf_log(NF_LOG_ERROR, "daemon", "two\nlines", "n=%d f=%s t=true hex=%s word=%s", 42, nf_log_quote("x y"), "0123", "plain");
    read_back(&b);
    ck_assert_ptr_nonnull(strstr(b.data, "\"level\":\"error\",\"area\":\"daemon\",\"message\":\"two\\nlines\",\"n\":42,\"f\":\"x y\",\"t\":true,\"hex\":\"0123\",\"word\":\"plain\"}\n"));
    nf_buf_done(&b);
}
END_TEST

START_TEST(a_quoted_value_is_cut_between_characters)
{
    char value[2000];
    memset(value, '\n', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    const char *quoted = nf_log_quote(value);
    size_t len = strlen(quoted);
    ck_assert_uint_le(len, 520);
    ck_assert_int_eq(quoted[0], '"');
    ck_assert_int_eq(quoted[len - 1], '"');
    ck_assert_uint_eq(len % 2, 0); /* whole escapes of two */
    ck_assert_str_eq(nf_log_quote("\xFF"), "\"\xEF\xBF\xBD\"");
    ck_assert_str_eq(nf_log_quote(NULL), "\"\"");
    for (size_t i = 0; i + 3 < sizeof(value); i += 3)
        memcpy(value + i, "\xE2\x82\xAC", 3);
    ck_assert(nf_utf8_valid(nf_str_c(nf_log_quote(value))));
}
END_TEST

static void *write_lines(void *arg)
{
    for (int i = 0; i < 500; i++)
        nf_log(NF_LOG_INFO, "test", "line", "thread=%d i=%d tail=end", *(int *)arg, i);
    return NULL;
}

START_TEST(lines_of_threads_do_not_mix)
{
    struct nf_buf b = logged(false, NF_LOG_INFO);
    pthread_t threads[4];
    int numbers[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, write_lines, &numbers[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    read_back(&b);
    size_t lines = 0;
    struct nf_str rest = nf_buf_str(&b);
    while (rest.len) {
        struct nf_str line = nf_str_cut(&rest, '\n');
        ck_assert(nf_str_ends(line, NF_STR("tail=end")));
        lines++;
    }
    ck_assert_uint_eq(lines, 2000);
    nf_buf_done(&b);
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_is_named)
{
    struct nf_error err = {0};
    ck_assert_int_eq(nf_log_open("/nonexistent/dir/log", NF_LOG_INFO, false, &err), NF_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "/nonexistent/dir/log"));
}
END_TEST

START_TEST(clocks_move_forward)
{
    int64_t start = nf_now_ns();
    nf_sleep_ns(5 * NF_MS);
    nf_sleep_ns(-1);
    int64_t took = nf_now_ns() - start;
    ck_assert_int_ge(took, 5 * NF_MS);
    ck_assert_int_gt(nf_wall_us(), INT64_C(1600000000000000));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-log");
    TCase *t = tcase_create("log");
    tcase_add_test(t, one_line_an_event);
    tcase_add_test(t, json_fields_keep_their_types);
    tcase_add_test(t, a_quoted_value_is_cut_between_characters);
    tcase_add_test(t, lines_of_threads_do_not_mix);
    tcase_add_test(t, a_file_that_cannot_be_opened_is_named);
    tcase_add_test(t, clocks_move_forward);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
