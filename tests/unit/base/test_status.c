#include "base/error.h"

#include <check.h>
#include <errno.h>

START_TEST(every_code_has_a_name_and_back)
{
    for (int code = 0; code > -NF_ESTATUS_MAX; code--)
        ck_assert_int_eq(nf_status_from_name(nf_status_name(code)), code);
    ck_assert_str_eq(nf_status_name(-1000), "internal");
    ck_assert_str_eq(nf_status_name(5), "internal");
}
END_TEST

START_TEST(errno_keeps_its_meaning)
{
    ck_assert_int_eq(nf_status_from_errno(EDQUOT), NF_ENOSPACE);
    ck_assert_int_eq(nf_status_from_errno(EROFS), NF_EREADONLY);
    ck_assert_int_eq(nf_status_from_errno(EIO), NF_EIO);
}
END_TEST

START_TEST(a_cut_message_stays_valid_utf8)
{
    struct nf_error err = {0};
    char long_text[1100];
    memset(long_text, 'x', sizeof(long_text));
    memcpy(long_text + 1022, "\xE2\x82\xAC", 3); /* a euro sign across the end of the field */
    long_text[1025] = 0;
    nf_fail(&err, NF_EIO, "%s", long_text);
    ck_assert_uint_eq(strlen(err.message), 1022);
    nf_fail(&err, NF_EIO, "inner");
    ck_assert_int_eq(nf_error_prefix(&err, "outer %d", 1), NF_EIO);
    ck_assert_str_eq(err.message, "outer 1: inner");
}
END_TEST

START_TEST(a_place_gets_the_name_of_its_file)
{
    static const struct { const char *path, *at, *is; } cases[] = {
        {"m.mlir", "3:7", "m.mlir:3:7"}, {"m.bin", "byte 12", "m.bin: byte 12"}, {"m.pb", "instruction add.3, byte 9", "m.pb: instruction add.3, byte 9"},
        {"-", "3:7", "3:7"}, {"m.mlir", "", ""}, {"m.mlir", "model.py:3", "model.py:3"}, {"m.mlir", "m.mlir:3:7", "m.mlir:3:7"},
    };
    struct nf_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nf_fail(&err, NF_EGRAPH, "wrong");
        nf_error_location(&err, "%s", cases[i].at);
        nf_error_file(&err, cases[i].path);
        ck_assert_str_eq(err.location, cases[i].is);
        ck_assert_str_eq(err.message, "wrong");
    }
    nf_fail(&err, NF_ECORRUPT, "a.npy: cut short");
    nf_error_location(&err, "byte 4");
    nf_error_file(&err, "a.npy");
    ck_assert_str_eq(err.location, "a.npy: byte 4");
    ck_assert_str_eq(err.message, "cut short");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-status");
    TCase *t = tcase_create("status");
    tcase_add_test(t, every_code_has_a_name_and_back);
    tcase_add_test(t, errno_keeps_its_meaning);
    tcase_add_test(t, a_cut_message_stays_valid_utf8);
    tcase_add_test(t, a_place_gets_the_name_of_its_file);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
