#include "runtime/platform.h"

#include <check.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct nf_error err;
static char dir[64], dmi[96], cc[96], target[RT_TARGET_MAX];

static void put(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void setup(void)
{
    nf_format(dir, sizeof(dir), "/tmp/platform-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    nf_format(dmi, sizeof(dmi), "%s/product", dir);
    nf_format(cc, sizeof(cc), "%s/neuronx-cc", dir);
}
static void teardown(void)
{
    unlink(dmi);
    unlink(cc);
    rmdir(dir);
}

START_TEST(the_first_that_speaks_wins)
{
    put(dmi, "trn2u.48xlarge\n", 0644);
    put(cc, "#!/bin/sh\n", 0755);
    struct rt_platform p = {.override = "trn3", .dmi_path = dmi, .device_path = "/nonexistent", .compiler = cc};
    ck_assert_int_eq(rt_target_resolve("cpu", &p, target, &err), 0);
    ck_assert_str_eq(target, "cpu");
    ck_assert_int_eq(rt_target_resolve("", &p, target, &err), 0);
    ck_assert_str_eq(target, "trn3");
    p.override = "";
    ck_assert_int_eq(rt_target_resolve(NULL, &p, target, &err), 0);
    ck_assert_str_eq(target, "trn2");
    put(dmi, "m7i.large\n", 0644);
    ck_assert_int_eq(rt_target_resolve(NULL, &p, target, &err), 0);
    ck_assert_str_eq(target, "cpu");
}
END_TEST

START_TEST(a_neuron_host_without_a_compiler_has_no_default)
{
    put(dmi, "inf2.xlarge\n", 0644);
    struct rt_platform p = {.dmi_path = dmi, .device_path = dmi, .compiler = cc};
    ck_assert_int_eq(rt_target_resolve(NULL, &p, target, &err), NF_ENOCOMPILER);
    ck_assert_int_eq(rt_target_resolve("cpu", &p, target, &err), 0);
    put(dmi, "box\n", 0644);
    ck_assert_int_eq(rt_target_resolve(NULL, &p, target, &err), NF_ENOCOMPILER);
    put(cc, "#!/bin/sh\n", 0755);
    ck_assert_int_eq(rt_target_resolve(NULL, &p, target, &err), NF_EINVAL);
}
END_TEST

START_TEST(unknown_targets_name_the_known)
{
    struct rt_platform p = {.override = "trn9", .dmi_path = "/nonexistent", .device_path = "/nonexistent"};
    ck_assert_int_eq(rt_target_resolve("tpu", &p, target, &err), NF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.hint, "trn1n"));
    ck_assert_int_eq(rt_target_resolve("", &p, target, &err), NF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "NEURON_PLATFORM_TARGET_OVERRIDE"));
}
END_TEST

START_TEST(a_program_is_found_that_is_not_oneself)
{
    char path[256], other[96];
    nf_format(other, sizeof(other), "%s/b", dir);
    ck_assert_int_eq(mkdir(other, 0755), 0);
    char second[128];
    nf_format(second, sizeof(second), "%s/neuronx-cc", other);
    put(cc, "#!/bin/sh\n", 0755);
    put(second, "#!/bin/sh\n", 0755);
    nf_format(path, sizeof(path), "/nonexistent:%s:%s", dir, other);
    struct nf_buf found = NF_BUF_INIT;
    ck_assert_int_eq(rt_find_program("neuronx-cc", path, NULL, &found), 0);
    ck_assert_str_eq(found.data, cc);
    nf_buf_clear(&found);
    ck_assert_int_eq(rt_find_program("neuronx-cc", path, cc, &found), 0);
    ck_assert_str_eq(found.data, second);
    ck_assert_int_eq(chmod(second, 0644), 0);
    ck_assert_int_eq(rt_find_program("neuronx-cc", path, cc, &found), NF_ENOTFOUND);
    ck_assert_int_eq(rt_find_program(second, path, NULL, &found), NF_ENOTFOUND);
    nf_buf_done(&found);
    unlink(second);
    rmdir(other);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("runtime-platform");
    TCase *t = tcase_create("platform");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_first_that_speaks_wins);
    tcase_add_test(t, a_neuron_host_without_a_compiler_has_no_default);
    tcase_add_test(t, unknown_targets_name_the_known);
    tcase_add_test(t, a_program_is_found_that_is_not_oneself);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
