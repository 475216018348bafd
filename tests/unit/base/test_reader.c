#include "base/reader.h"

#include <check.h>

START_TEST(integers_are_little_endian)
{
    struct nf_reader r = nf_reader_of(NF_STR("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C\x0D\x0E\x0F"));
    ck_assert_uint_eq(nf_reader_u8(&r), 0x01);
    ck_assert_uint_eq(nf_reader_u16le(&r), 0x0302);
    ck_assert_uint_eq(nf_reader_u32le(&r), 0x07060504);
    ck_assert(nf_reader_u64le(&r) == 0x0F0E0D0C0B0A0908u);
    ck_assert_uint_eq(nf_reader_left(&r), 0);
    ck_assert(!r.failed);
}
END_TEST

START_TEST(an_overrun_sticks)
{
    struct nf_reader r = nf_reader_of(NF_STR("abc"));
    ck_assert_uint_eq(nf_reader_u32le(&r), 0);
    ck_assert(r.failed);
    ck_assert_uint_eq(nf_reader_u8(&r), 0);
    ck_assert_ptr_null(nf_reader_bytes(&r, 1).data);
    ck_assert_uint_eq(nf_reader_offset(&r), 0);
}
END_TEST

START_TEST(varints_of_every_length)
{
    struct nf_buf b = NF_BUF_INIT;
    for (unsigned shift = 0; shift < 64; shift++)
        nf_buf_add_varint(&b, UINT64_MAX >> shift);
    struct nf_reader r = nf_reader_of(nf_buf_str(&b));
    for (unsigned shift = 0; shift < 64; shift++)
        ck_assert(nf_reader_varint(&r) == UINT64_MAX >> shift);
    ck_assert(!r.failed && nf_reader_left(&r) == 0);
    nf_buf_done(&b);
}
END_TEST

START_TEST(overlong_varints_fail)
{
    struct nf_reader r = nf_reader_of(NF_STR("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"));
    nf_reader_varint(&r);
    ck_assert(r.failed);
    r = nf_reader_of(NF_STR("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"));
    nf_reader_varint(&r);
    ck_assert(r.failed);
    r = nf_reader_of(NF_STR("\x80"));
    nf_reader_varint(&r);
    ck_assert(r.failed);
}
END_TEST

START_TEST(huge_lengths_do_not_wrap)
{
    struct nf_reader r = nf_reader_of(NF_STR("abcdef"));
    nf_reader_skip(&r, 2);
    ck_assert_uint_eq(nf_reader_offset(&r), 2);
    nf_reader_bytes(&r, SIZE_MAX);
    ck_assert(r.failed);
    ck_assert_uint_eq(nf_reader_offset(&r), 2);
    r = nf_reader_of((struct nf_str){NULL, 0});
    ck_assert_uint_eq(nf_reader_bytes(&r, 0).len, 0);
    ck_assert(!r.failed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-reader");
    TCase *t = tcase_create("reader");
    tcase_add_test(t, integers_are_little_endian);
    tcase_add_test(t, an_overrun_sticks);
    tcase_add_test(t, varints_of_every_length);
    tcase_add_test(t, overlong_varints_fail);
    tcase_add_test(t, huge_lengths_do_not_wrap);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
