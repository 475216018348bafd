#include "base/arena.h"

#include <check.h>
#include <signal.h>
#include <stdint.h>

START_TEST(memory_is_zeroed_aligned_and_apart)
{
    struct nf_arena *a = nf_arena_new(0);
    unsigned char *last = NULL;
    for (size_t i = 1; i < 3000; i++) {
        unsigned char *p = nf_arena_alloc(a, i);
        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        for (size_t j = 0; j < i; j += 97)
            ck_assert_uint_eq(p[j], 0);
        memset(p, 0xFF, i);
        if (last)
            ck_assert_uint_eq(*last, 0xFF);
        last = p;
    }
    ck_assert_uint_gt(nf_arena_bytes(a), 3000 * 1500);
    nf_arena_free(a);
    nf_arena_free(NULL);
}
END_TEST

START_TEST(large_objects_do_not_waste_the_current_block)
{
    struct nf_arena *a = nf_arena_new(0);
    char *first = nf_arena_alloc(a, 16);
    char *large = nf_arena_alloc(a, 8 << 20);
    large[(8 << 20) - 1] = 1;
    char *second = nf_arena_alloc(a, 16);
    ck_assert_int_lt(second - first, 100);
    ck_assert_int_gt(second - first, 0);
    nf_arena_free(a);
}
END_TEST

START_TEST(the_limit_is_reported_not_enforced)
{
    struct nf_arena *a = nf_arena_new(100000);
    nf_arena_alloc(a, 1000);
    ck_assert(!nf_arena_over(a));
    ck_assert_ptr_nonnull(nf_arena_alloc(a, 200000));
    ck_assert(nf_arena_over(a));
    nf_arena_free(a);
}
END_TEST

START_TEST(strings_are_copied_and_terminated)
{
    struct nf_arena *a = nf_arena_new(0);
    struct nf_str s = nf_arena_str(a, nf_str_n("abcdef", 3));
    ck_assert_str_eq(s.data, "abc");
    ck_assert_str_eq(nf_arena_printf(a, "%s-%d", "x", 7), "x-7");
    ck_assert_uint_eq(strlen(nf_arena_printf(a, "%1000d", 7)), 1000);
    int *numbers = NF_NEW_ARRAY(a, int, 10);
    ck_assert_int_eq(numbers[9], 0);
    nf_arena_free(a);
}
END_TEST

START_TEST(an_overflowing_array_ends_the_process)
{
    struct nf_arena *a = nf_arena_new(0);
    nf_arena_alloc_array(a, SIZE_MAX / 2, 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base-arena");
    TCase *t = tcase_create("arena");
    tcase_add_test(t, memory_is_zeroed_aligned_and_apart);
    tcase_add_test(t, large_objects_do_not_waste_the_current_block);
    tcase_add_test(t, the_limit_is_reported_not_enforced);
    tcase_add_test(t, strings_are_copied_and_terminated);
    tcase_add_test_raise_signal(t, an_overflowing_array_ends_the_process, SIGABRT);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
