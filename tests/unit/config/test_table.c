/* The option table against the reference list of variables (when that lies beside the repository) and against OPTIONS.md. */
#include "config/config.h"

#include "base/file.h"

#include <check.h>

static struct cfg *cfg;

static enum cfg_id row_of_variable(struct nf_str variable)
{
    for (int i = 0; i < CFG_ID_MAX; i++) {
        const char *const *env = cfg_setting(cfg, (enum cfg_id)i).env;
        for (size_t n = 1; env[n]; n++)
            if (nf_str_eq_c(variable, env[n]))
                return (enum cfg_id)i;
    }
    return CFG_ID_MAX;
}

/* Defaults are written for people in both lists; the words differ, the meaning must not. */
static bool same_default(struct nf_str listed, const char *ours)
{
    static const struct {
        const char *listed, *ours;
    } words[] = {
        {"True", "1"}, {"False", "0"}, {"\"\"", ""}, {"SIZE_MAX", "18446744073709551615"},
        {"PyTorch >= 2.13: True; otherwise False", "1 with PyTorch >= 2.13, else 0"},
        {"kMinRoundedSize", "value of segment_min_rounded_size"}, {"kPoolBoundary", "value of segment_pool_boundary"},
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(words); i++)
        if (nf_str_eq_c(listed, words[i].listed) && strcmp(ours, words[i].ours) == 0)
            return true;
    return nf_str_eq_c(listed, ours);
}

static bool same_type(struct nf_str listed, const char *ours) { return nf_str_eq_c(listed, ours) || (nf_str_eq_c(listed, "int0-3") && strcmp(ours, "int") == 0); }

START_TEST(every_listed_variable_has_a_row_that_agrees)
{
    static const char *const no_env[] = {NULL};
    ck_assert_int_eq(cfg_load(&(struct cfg_sources){.env = no_env, .file = ""}, &cfg, NULL), NF_OK);
    const char *shared = getenv("NEFFD_SHARED");
    char path[600];
    nf_format(path, sizeof(path), "%s/reference/env_vars.tsv", shared && *shared ? shared : SOURCE_ROOT "/../shared");
    struct nf_buf b = NF_BUF_INIT;
    struct nf_error err = {0};
    if (nf_file_read(path, 1 << 20, &b, &err) != NF_OK) {
        printf("SKIP every_listed_variable_has_a_row_that_agrees: %s\n", err.message);
        cfg_free(cfg);
        return;
    }
    struct nf_str rest = nf_buf_str(&b);
    nf_str_cut(&rest, '\n'); /* headings */
    size_t rows = 0;
    while (rest.len) {
        struct nf_str line = nf_str_cut(&rest, '\n');
        if (line.len == 0)
            continue;
        struct nf_str name = nf_str_cut(&line, '\t'), type = nf_str_cut(&line, '\t'), def = nf_str_cut(&line, '\t'), scope = nf_str_cut(&line, '\t');
        enum cfg_id id = row_of_variable(name);
        ck_assert_msg(id != CFG_ID_MAX, "%.*s has no row", NF_STR_ARG(name));
        struct cfg_setting s = cfg_setting(cfg, id);
        ck_assert_msg(same_type(type, s.type), "%.*s: type %s, listed %.*s", NF_STR_ARG(name), s.type, NF_STR_ARG(type));
        ck_assert_msg(same_default(def, s.default_value), "%.*s: default %s, listed %.*s", NF_STR_ARG(name), s.default_value, NF_STR_ARG(def));
        ck_assert_msg(nf_str_eq_c(scope, s.scope), "%.*s: scope %s, listed %.*s", NF_STR_ARG(name), s.scope, NF_STR_ARG(scope));
        rows++;
    }
    ck_assert_uint_ge(rows, 51);
    nf_buf_done(&b);
    cfg_free(cfg);
}
END_TEST

START_TEST(options_md_is_what_the_table_prints)
{
    struct nf_buf want = NF_BUF_INIT, have = NF_BUF_INIT;
    struct nf_error err = {0};
    cfg_print_markdown(&want);
    ck_assert_msg(nf_file_read(SOURCE_ROOT "/config/OPTIONS.md", 1 << 22, &have, &err) == NF_OK, "%s", err.message);
    ck_assert_msg(nf_str_eq(nf_buf_str(&want), nf_buf_str(&have)), "config/OPTIONS.md is old: build/config/cfgdoc --markdown > config/OPTIONS.md");
    nf_buf_done(&want);
    nf_buf_done(&have);
}
END_TEST

START_TEST(names_are_unique)
{
    static const char *const no_env[] = {NULL};
    ck_assert_int_eq(cfg_load(&(struct cfg_sources){.env = no_env, .file = ""}, &cfg, NULL), NF_OK);
    for (int i = 0; i < CFG_ID_MAX; i++) {
        struct cfg_setting a = cfg_setting(cfg, (enum cfg_id)i);
        ck_assert_int_eq(cfg_find(nf_str_c(a.name)), i);
        ck_assert_msg(a.help[0] != 0, "%s has no help", a.name);
        for (int j = 0; j < i; j++)
            for (size_t n = 0; a.env[n]; n++)
                for (size_t m = 0; cfg_setting(cfg, (enum cfg_id)j).env[m]; m++)
                    ck_assert_str_ne(a.env[n], cfg_setting(cfg, (enum cfg_id)j).env[m]);
    }
    cfg_free(cfg);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config-table");
    TCase *t = tcase_create("table");
    tcase_add_test(t, every_listed_variable_has_a_row_that_agrees);
    tcase_add_test(t, options_md_is_what_the_table_prints);
    tcase_add_test(t, names_are_unique);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
