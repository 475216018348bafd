/* Front and canonical keys, options, namespaces, and the list of toolchains. */
#include "fixture.h"

#include <sys/wait.h>

static struct cache_front_parts parts(void)
{
    return (struct cache_front_parts){.input_kind = 1, .target = NF_STR("cpu"), .toolchain_id = NF_STR("tc")};
}

static struct nf_digest front(struct cache_front_parts p, const char *input)
{
    struct nf_digest d;
    ASSERT_OK(cache_key_front(&p, nf_str_c(input), &d, &err));
    return d;
}

static bool same(struct nf_digest a, struct nf_digest b) { return nf_digest_eq(&a, &b); }

START_TEST(every_part_of_a_request_changes_the_front_key)
{
    struct cache_front_parts p = parts();
    struct nf_digest base = front(p, "module {}");
    ck_assert(same(base, front(parts(), "module {}")));
    ck_assert(!same(base, front(p, "module { }")));
    p = parts(), p.input_kind = 2;
    ck_assert(!same(base, front(p, "module {}")));
    p = parts(), p.stop_after = 4;
    ck_assert(!same(base, front(p, "module {}")));
    p = parts(), p.target = NF_STR("trn2");
    ck_assert(!same(base, front(p, "module {}")));
    p = parts(), p.toolchain_id = NF_STR("tc2");
    ck_assert(!same(base, front(p, "module {}")));
    p = parts(), p.cache_namespace = NF_STR("n");
    ck_assert(!same(base, front(p, "module {}")));
    p = parts(), p.base_key = NF_STR("b");
    struct nf_digest scoped = front(p, "module {}");
    ck_assert(!same(base, scoped));
    p.uid = 7;
    ck_assert(!same(scoped, front(p, "module {}")));
    p.uid = 0, p.cache_namespace = NF_STR("n");
    ck_assert(!same(scoped, front(p, "module {}")));
    p = parts(), p.uid = 7; /* without a base key the caller is nobody in particular */
    ck_assert(same(base, front(p, "module {}")));
    struct cache_side_file f = {.name = NF_STR("a/b"), .size = 3};
    p = parts(), p.side_files = &f, p.side_file_count = 1;
    struct nf_digest with_file = front(p, "module {}");
    ck_assert(!same(base, with_file));
    f.sha256.bytes[31] = 1;
    ck_assert(!same(with_file, front(p, "module {}")));
}
END_TEST

START_TEST(of_one_option_the_right_most_wins_and_fields_never_run_together)
{
    struct cache_option two[] = {{NF_STR("optlevel"), NF_STR("1")}, {NF_STR("lnc"), NF_STR("2")}, {NF_STR("optlevel"), NF_STR("3")}};
    struct cache_option one[] = {{NF_STR("lnc"), NF_STR("2")}, {NF_STR("optlevel"), NF_STR("3")}};
    struct cache_front_parts a = parts(), b = parts();
    a.options = two, a.option_count = 3;
    b.options = one, b.option_count = 2;
    ck_assert(same(front(a, "x"), front(b, "x")));
    struct cache_option effective[3];
    ck_assert_uint_eq(cache_options_effective(two, 3, effective), 2);
    ck_assert(nf_str_eq_c(effective[0].name, "lnc") && nf_str_eq_c(effective[1].value, "3"));
    ck_assert_uint_eq(cache_options_effective(two, 3, two), 2); /* in place */

    struct cache_option l[] = {{NF_STR("ab"), NF_STR("c")}}, r[] = {{NF_STR("a"), NF_STR("bc")}};
    a.options = l, b.options = r, a.option_count = b.option_count = 1;
    ck_assert(!same(front(a, "x"), front(b, "x")));
    a = parts(), b = parts();
    a.target = NF_STR("ab"), a.toolchain_id = NF_STR("c");
    b.target = NF_STR("a"), b.toolchain_id = NF_STR("bc");
    ck_assert(!same(front(a, "x"), front(b, "x")));
}
END_TEST

START_TEST(chunks_give_the_same_key_as_the_whole)
{
    struct cache_front_parts p = parts();
    struct nf_digest whole = front(p, "0123456789"), d;
    for (size_t step = 1; step <= 10; step++) {
        struct cache_front_hash h;
        p.input_bytes = 10;
        ASSERT_OK(cache_front_begin(&h, &p, &err));
        for (size_t at = 0; at < 10; at += step)
            cache_front_add(&h, &"0123456789"[at], NF_MIN(step, 10 - at));
        ASSERT_OK(cache_front_end(&h, &d, &err));
        ck_assert(same(whole, d));
    }
    struct cache_front_hash h;
    ASSERT_OK(cache_front_begin(&h, &p, &err));
    cache_front_add(&h, "012345678", 9);
    ASSERT_FAILS(NF_EINVAL, cache_front_end(&h, &d, &err));
    ASSERT_OK(cache_front_begin(&h, &p, &err));
    cache_front_add(&h, "0123456789a", 11);
    ASSERT_FAILS(NF_EINVAL, cache_front_end(&h, &d, &err));
    p.toolchain_id = (struct nf_str){0};
    ASSERT_FAILS(NF_EINVAL, cache_front_begin(&h, &p, &err));
}
END_TEST

START_TEST(the_canonical_key_covers_what_it_says)
{
    struct request r = request_of("seed", "2"), again = request_of("seed", "2"), other = request_of("seed", "1");
    ck_assert(same(r.key, again.key));
    ck_assert(!same(r.key, other.key));
    struct nf_digest d;
    /* in any order */
    for (size_t i = 0; i < r.list.count / 2; i++) {
        struct cache_component t = r.list.items[i];
        r.list.items[i] = r.list.items[r.list.count - 1 - i];
        r.list.items[r.list.count - 1 - i] = t;
    }
    ASSERT_OK(cache_key_canonical(r.list.items, r.list.count, &d, &err));
    ck_assert(same(r.key, d));
    /* names for people, and what is only there to explain, do not count */
    for (size_t i = 0; i < r.list.count; i++) {
        struct cache_component saved = r.list.items[i], *c = &r.list.items[i];
        bool op = cache_component_is_op(c), shown = nf_str_eq_c(c->component, "input") || nf_str_eq_c(c->component, "output");
        c->value = NF_STR("changed");
        ASSERT_OK(cache_key_canonical(r.list.items, r.list.count, &d, &err));
        ck_assert_int_eq(same(r.key, d), op || shown);
        *c = saved;
        c->location = NF_STR("elsewhere");
        ASSERT_OK(cache_key_canonical(r.list.items, r.list.count, &d, &err));
        ck_assert(same(r.key, d));
        *c = saved;
        if (nf_str_eq_c(c->component, "compiler")) {
            c->name = NF_STR("renamed");
            ASSERT_OK(cache_key_canonical(r.list.items, r.list.count, &d, &err));
            ck_assert(same(r.key, d));
            *c = saved;
        }
    }
    /* every component of the table has its say, once */
    struct nf_str none = {0};
    static const enum cache_component_kind more[] = {CACHE_COMPONENT_OPTION, CACHE_COMPONENT_SIDE_FILE, CACHE_COMPONENT_FORMAT, CACHE_COMPONENT_NAMESPACE};
    for (size_t i = 0; i < NF_ARRAY_LEN(more); i++) {
        struct request extra = request_of("seed", "2");
        cache_components_add(&extra.list, more[i], NF_STR("x"), NF_STR("y"), none);
        ASSERT_OK(cache_key_canonical(extra.list.items, extra.list.count, &d, &err));
        ck_assert(!same(r.key, d));
        cache_components_add(&extra.list, more[i], NF_STR("x"), NF_STR("y"), none);
        ASSERT_FAILS(NF_EINVAL, cache_key_canonical(extra.list.items, extra.list.count, &d, &err));
    }
    ASSERT_FAILS(NF_EINVAL, cache_key_canonical(r.list.items, 1, &d, &err));
    struct cache_component unknown = {NF_STR("colour"), none, none, none};
    ASSERT_FAILS(NF_EINVAL, cache_key_canonical(&unknown, 1, &d, &err));
}
END_TEST

START_TEST(namespaces_are_names_of_directories)
{
    static const char *const good[] = {"", "a", "team-1", "A.b_c", "0123456789012345678901234567890123456789012345678901234567890123"};
    static const char *const bad[] = {".", "..", ".a", "_", "a/b", "a b", "\xc3\xa9", "01234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < NF_ARRAY_LEN(good); i++)
        ASSERT_OK(cache_namespace_check(nf_str_c(good[i]), &err));
    for (size_t i = 0; i < NF_ARRAY_LEN(bad); i++)
        ASSERT_FAILS(NF_EINVAL, cache_namespace_check(nf_str_c(bad[i]), &err));
    ASSERT_FAILS(NF_EINVAL, cache_namespace_check(nf_str_n("a\0b", 3), &err));
}
END_TEST

START_TEST(toolchains_are_written_and_read)
{
    char compiler[256], path[256];
    struct cache_toolchain t;
    ASSERT_OK(nf_mkdir_p(local_dir, 0755, &err));
    ASSERT_FAILS(NF_ENOTFOUND, cache_toolchain_read(local_dir, "cpu", &t, &err));
    nf_format(compiler, sizeof(compiler), "%s/neuronx-cc", root);
    ASSERT_OK(nf_file_replace(compiler, NF_STR("#!/bin/sh\n"), 0755, &err));
    struct cache_toolchain list[2] = {{.target = "cpu", .id = "neffd-cpu 0.1.0 avx512", .compiler = "neffd-cpu", .version = "0.1.0"},
                                      {.target = "trn2", .id = "id2", .compiler = "neuronx-cc", .version = "2.21"}};
    nf_format(list[1].path, sizeof(list[1].path), "%s", compiler);
    ASSERT_OK(cache_toolchain_write(local_dir, list, 2, &err));
    ASSERT_OK(cache_toolchain_read(local_dir, "cpu", &t, &err));
    ck_assert_str_eq(t.id, "neffd-cpu 0.1.0 avx512");
    ck_assert_str_eq(t.path, "");
    ASSERT_OK(cache_toolchain_read(local_dir, "trn2", &t, &err));
    ck_assert_str_eq(t.path, compiler);
    ck_assert_uint_eq(t.size, 10);
    ASSERT_FAILS(NF_ENOTFOUND, cache_toolchain_read(local_dir, "trn", &t, &err));
    /* Another daemon's targets stay. */
    struct cache_toolchain third = {.target = "trn1", .id = "id1", .compiler = "neuronx-cc", .version = "2.20"};
    ASSERT_OK(cache_toolchain_write(local_dir, &third, 1, &err));
    ASSERT_OK(cache_toolchain_read(local_dir, "cpu", &t, &err));
    ASSERT_OK(cache_toolchain_read(local_dir, "trn1", &t, &err));
    /* A compiler that was replaced is another one. */
    ASSERT_OK(nf_file_replace(compiler, NF_STR("#!/bin/sh\n#\n"), 0755, &err));
    ASSERT_FAILS(NF_ENOTFOUND, cache_toolchain_read(local_dir, "trn2", &t, &err));
    ASSERT_OK(cache_toolchain_write(local_dir, &list[1], 1, &err));
    ASSERT_OK(cache_toolchain_read(local_dir, "trn2", &t, &err));
    third.version[0] = '\n';
    ASSERT_FAILS(NF_EINVAL, cache_toolchain_write(local_dir, &third, 1, &err));

    nf_format(path, sizeof(path), "%s/toolchains", local_dir);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 12345, 12345), 0);
        ASSERT_FAILS(NF_EPERM, cache_toolchain_read(local_dir, "cpu", &t, &err));
    }
    static const char *const bad[] = {"", "neffd-toolchains 2\ncpu\ta\tb\tc\t-\t0\t0\n", "neffd-toolchains 1\ncpu\ta\tb\n", "neffd-toolchains 1\ncpu\ta\tb\tc\t-\tx\t0\n",
                                      "neffd-toolchains 1\ncpu\t\tb\tc\t-\t0\t0\n", "neffd-toolchains 1\ncpu\ta\tb\tc\t-\t0\t0\t9\n"};
    for (size_t i = 0; i < NF_ARRAY_LEN(bad); i++) {
        ASSERT_OK(nf_file_replace(path, nf_str_c(bad[i]), 0644, &err));
        ASSERT_FAILS(NF_ECORRUPT, cache_toolchain_read(local_dir, "cpu", &t, &err));
    }
    ASSERT_OK(nf_file_replace(path, NF_STR("neffd-toolchains 1\ncpu\ta\tb\tc\t-\t0\t0"), 0644, &err)); /* cut off */
    ASSERT_FAILS(NF_ENOTFOUND, cache_toolchain_read(local_dir, "cpu", &t, &err));
}
END_TEST

START_TEST(writers_of_the_list_do_not_lose_each_others_lines)
{
    ASSERT_OK(nf_mkdir_p(local_dir, 0755, &err));
    pid_t pids[6];
    for (int i = 0; i < 6; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct cache_toolchain t = {.id = "id", .compiler = "c", .version = "1"};
            nf_format(t.target, sizeof(t.target), "t%d", i);
            _exit(cache_toolchain_write(local_dir, &t, 1, NULL) ? 1 : 0);
        }
    }
    for (int i = 0; i < 6; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    for (int i = 0; i < 6; i++) {
        char target[16];
        struct cache_toolchain t;
        nf_format(target, sizeof(target), "t%d", i);
        ASSERT_OK(cache_toolchain_read(local_dir, target, &t, &err));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-key");
    TCase *t = tcase_create("key");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_add_test(t, every_part_of_a_request_changes_the_front_key);
    tcase_add_test(t, of_one_option_the_right_most_wins_and_fields_never_run_together);
    tcase_add_test(t, chunks_give_the_same_key_as_the_whole);
    tcase_add_test(t, the_canonical_key_covers_what_it_says);
    tcase_add_test(t, namespaces_are_names_of_directories);
    tcase_add_test(t, toolchains_are_written_and_read);
    tcase_add_test(t, writers_of_the_list_do_not_lose_each_others_lines);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
