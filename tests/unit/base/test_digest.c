#include "base/digest.h"

#include <check.h>

START_TEST(sha256_matches_known_answers)
{
    char hex[NF_DIGEST_HEX];
    struct nf_digest d = nf_digest_of("abc", 3);
    ck_assert_str_eq(nf_digest_hex(&d, hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    d = nf_digest_of(NULL, 0);
    ck_assert_str_eq(nf_digest_hex(&d, hex), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
END_TEST

START_TEST(pieces_give_the_same_as_the_whole)
{
    struct nf_sha256 s;
    nf_sha256_init(&s);
    for (int i = 0; i < 1000; i++)
        nf_sha256_add(&s, "0123456789", 10);
    struct nf_digest pieces = nf_sha256_end(&s);
    struct nf_buf b = NF_BUF_INIT;
    for (int i = 0; i < 1000; i++)
        nf_buf_add_c(&b, "0123456789");
    struct nf_digest whole = nf_digest_of(b.data, b.len);
    ck_assert(nf_digest_eq(&pieces, &whole));
    ck_assert(!nf_digest_zero(&whole));
    nf_buf_done(&b);
}
END_TEST

START_TEST(fields_are_never_ambiguous)
{
    struct nf_sha256 s;
    nf_sha256_init(&s);
    nf_sha256_add_field(&s, NF_STR("ab"));
    nf_sha256_add_field(&s, NF_STR("c"));
    struct nf_digest one = nf_sha256_end(&s);
    nf_sha256_init(&s);
    nf_sha256_add_field(&s, NF_STR("a"));
    nf_sha256_add_field(&s, NF_STR("bc"));
    struct nf_digest two = nf_sha256_end(&s);
    ck_assert(!nf_digest_eq(&one, &two));
}
END_TEST

START_TEST(hex_is_read_back)
{
    char hex[NF_DIGEST_HEX];
    struct nf_digest d = nf_digest_of("x", 1), back = {{1}};
    ck_assert_int_eq(nf_digest_parse(nf_str_c(nf_digest_hex(&d, hex)), &back), NF_OK);
    ck_assert(nf_digest_eq(&d, &back));
    hex[5] = 'g';
    ck_assert_int_eq(nf_digest_parse(nf_str_c(hex), &back), NF_EINVAL);
    ck_assert_int_eq(nf_digest_parse(NF_STR("abcd"), &back), NF_EINVAL);
}
END_TEST

START_TEST(xxh3_is_stable)
{
    ck_assert(nf_xxh3("", 0) == 0x2D06800538D394C2u);
    ck_assert(nf_xxh3(NULL, 0) == nf_xxh3("", 0));
    ck_assert(nf_xxh3("a", 1) != nf_xxh3("b", 1));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-digest");
    TCase *t = tcase_create("digest");
    tcase_add_test(t, sha256_matches_known_answers);
    tcase_add_test(t, pieces_give_the_same_as_the_whole);
    tcase_add_test(t, fields_are_never_ambiguous);
    tcase_add_test(t, hex_is_read_back);
    tcase_add_test(t, xxh3_is_stable);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
