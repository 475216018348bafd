#include "base/map.h"

#include <check.h>

START_TEST(what_was_put_is_found)
{
    struct nf_map *m = nf_map_new(true);
    char key[32];
    for (uintptr_t i = 1; i <= 10000; i++) {
        nf_format(key, sizeof(key), "key-%zu", (size_t)i);
        ck_assert_ptr_null(nf_map_put(m, nf_str_c(key), (void *)i));
    }
    ck_assert_uint_eq(nf_map_len(m), 10000);
    for (uintptr_t i = 1; i <= 10000; i += 3) {
        nf_format(key, sizeof(key), "key-%zu", (size_t)i);
        ck_assert_ptr_eq(nf_map_del(m, nf_str_c(key)), (void *)i);
        ck_assert_ptr_null(nf_map_get(m, nf_str_c(key)));
    }
    for (uintptr_t i = 1; i <= 10000; i++) {
        nf_format(key, sizeof(key), "key-%zu", (size_t)i);
        ck_assert_ptr_eq(nf_map_get(m, nf_str_c(key)), i % 3 == 1 ? NULL : (void *)i);
    }
    ck_assert_ptr_null(nf_map_get(m, NF_STR("other")));
    nf_map_free(m);
    nf_map_free(NULL);
}
END_TEST

START_TEST(put_replaces_and_keeps_the_place)
{
    struct nf_map *m = nf_map_new(false);
    int one, two, three;
    nf_map_put(m, NF_STR("a"), &one);
    nf_map_put(m, NF_STR("b"), &two);
    ck_assert_ptr_eq(nf_map_put(m, NF_STR("a"), &three), &one);
    ck_assert_uint_eq(nf_map_len(m), 2);
    size_t it = 0;
    struct nf_str key;
    void *value;
    ck_assert(nf_map_next(m, &it, &key, &value));
    ck_assert(nf_str_eq_c(key, "a") && value == &three);
    ck_assert(nf_map_next(m, &it, &key, &value));
    ck_assert(nf_str_eq_c(key, "b"));
    ck_assert(!nf_map_next(m, &it, &key, &value));
    nf_map_free(m);
}
END_TEST

START_TEST(the_current_pair_may_be_deleted_while_walking)
{
    struct nf_map *m = nf_map_new(true);
    char key[16];
    for (uintptr_t i = 1; i <= 100; i++) {
        nf_format(key, sizeof(key), "%zu", (size_t)i);
        nf_map_put(m, nf_str_c(key), (void *)i);
    }
    size_t it = 0, seen = 0;
    struct nf_str k;
    for (void *v; nf_map_next(m, &it, &k, &v);) {
        seen++;
        if ((uintptr_t)v % 2)
            ck_assert_ptr_eq(nf_map_del(m, k), v);
    }
    ck_assert_uint_eq(seen, 100);
    ck_assert_uint_eq(nf_map_len(m), 50);
    nf_map_free(m);
}
END_TEST

START_TEST(keys_are_bytes_of_any_length)
{
    struct nf_map *m = nf_map_new(true);
    int a, b, c;
    nf_map_put(m, NF_STR("x\0y"), &a);
    nf_map_put(m, NF_STR("x\0z"), &b);
    nf_map_put(m, nf_str_n(NULL, 0), &c);
    ck_assert_ptr_eq(nf_map_get(m, NF_STR("x\0y")), &a);
    ck_assert_ptr_eq(nf_map_get(m, NF_STR("x\0z")), &b);
    ck_assert_ptr_eq(nf_map_get(m, NF_STR("")), &c);
    nf_map_free(m);
}
END_TEST

START_TEST(churn_does_not_grow_it)
{
    struct nf_map *m = nf_map_new(true);
    char key[32];
    for (size_t i = 0; i < 200000; i++) {
        nf_format(key, sizeof(key), "%zu", i);
        nf_map_put(m, nf_str_c(key), m);
        ck_assert_ptr_eq(nf_map_del(m, nf_str_c(key)), m);
    }
    ck_assert_uint_eq(nf_map_len(m), 0);
    nf_map_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-map");
    TCase *t = tcase_create("map");
    tcase_add_test(t, what_was_put_is_found);
    tcase_add_test(t, put_replaces_and_keeps_the_place);
    tcase_add_test(t, the_current_pair_may_be_deleted_while_walking);
    tcase_add_test(t, keys_are_bytes_of_any_length);
    tcase_add_test(t, churn_does_not_grow_it);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
