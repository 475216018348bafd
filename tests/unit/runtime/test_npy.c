/* NumPy files: what numpy.save writes, what we write, and what nobody should; and comparing arrays. */
#include "runtime/compare.h"
#include "runtime/npy.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct nf_error err;

static struct nf_buf file(const char *descr, const char *order, const char *shape, const void *data, size_t len)
{
    struct nf_buf b = NF_BUF_INIT, h = NF_BUF_INIT;
    nf_buf_addf(&h, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape);
    while ((10 + h.len + 1) % 64)
        nf_buf_add_char(&h, ' ');
    nf_buf_add_char(&h, '\n');
    nf_buf_add(&b, "\x93NUMPY\x01\x00", 8);
    nf_buf_add_char(&b, (char)(h.len & 255));
    nf_buf_add_char(&b, (char)(h.len >> 8));
    nf_buf_add(&b, h.data, h.len);
    nf_buf_add(&b, data, len);
    nf_buf_done(&h);
    return b;
}

static int parse(struct nf_buf b, enum nf_dtype want, struct rt_array *ret)
{
    memset(&err, 0, sizeof(err));
    int rc = rt_npy_parse(nf_buf_str(&b), want, 1 << 20, ret, &err);
    nf_buf_done(&b);
    return rc;
}

START_TEST(every_type_comes_back)
{
    for (int t = 1; t < NF_DT_MAX; t++) {
        enum nf_dtype dt = (enum nf_dtype)t;
        struct rt_array a, back;
        struct nf_buf b = NF_BUF_INIT;
        ck_assert_int_eq(rt_array_alloc(dt, 2, (int64_t[]){3, 5}, 0, &a, NULL), 0);
        for (size_t i = 0; i < a.bytes; i++)
            ((uint8_t *)a.data)[i] = (uint8_t)(dt == NF_DT_PRED ? i & 1 : i * 37);
        rt_npy_print(&a, &b);
        ck_assert_uint_eq((b.len - a.bytes) % 64, 0);
        ck_assert_int_eq(rt_npy_parse(nf_buf_str(&b), dt, 0, &back, &err), 0);
        ck_assert_int_eq(back.dtype, dt);
        ck_assert(rt_array_same_shape(&a, &back));
        ck_assert_mem_eq(a.data, back.data, a.bytes);
        rt_array_done(&a);
        rt_array_done(&back);
        nf_buf_done(&b);
    }
}
END_TEST

START_TEST(other_byte_and_element_orders)
{
    struct rt_array a;
    ck_assert_int_eq(parse(file(">i2", "False", "(2,)", "\x01\x02\xff\xfe", 4), NF_DT_NONE, &a), 0);
    ck_assert_int_eq(((int16_t *)a.data)[0], 0x0102);
    ck_assert_int_eq(((int16_t *)a.data)[1], -2);
    rt_array_done(&a);
    ck_assert_int_eq(parse(file("|u1", "True", "(2, 3)", "\x01\x04\x02\x05\x03\x06", 6), NF_DT_NONE, &a), 0);
    ck_assert_mem_eq(a.data, "\x01\x02\x03\x04\x05\x06", 6);
    rt_array_done(&a);
    ck_assert_int_eq(parse(file("<f4", "False", "()", "\x00\x00\x80\x3f", 4), NF_DT_F32, &a), 0);
    ck_assert_int_eq(a.rank, 0);
    rt_array_done(&a);
    ck_assert_int_eq(parse(file("<f8", "False", "(0, 4)", "", 0), NF_DT_NONE, &a), 0);
    ck_assert_int_eq(rt_array_count(&a), 0);
    rt_array_done(&a);
}
END_TEST

START_TEST(what_is_wrong_is_refused)
{
    struct rt_array a;
    ck_assert_int_eq(parse(file("|O", "False", "(1,)", "12345678", 8), NF_DT_NONE, &a), NF_EUNSUPPORTED);
    ck_assert_int_eq(parse(file("<f4", "False", "(2,)", "1234", 4), NF_DT_NONE, &a), NF_EINVAL);
    ck_assert_int_eq(parse(file("<f4", "False", "(4611686018427387904, 4)", "", 0), NF_DT_NONE, &a), NF_EINVAL);
    ck_assert_int_eq(parse(file("<f4", "False", "(99999999999999999999,)", "", 0), NF_DT_NONE, &a), NF_EINVAL);
    ck_assert_int_eq(parse(file("<f4", "Maybe", "(1,)", "1234", 4), NF_DT_NONE, &a), NF_EINVAL);
    ck_assert_int_eq(parse(file("<f4", "False", "(-1,)", "1234", 4), NF_DT_NONE, &a), NF_EINVAL);
    ck_assert_int_eq(parse(file("<f4", "False", "(1,), 'shape': (1,)", "1234", 4), NF_DT_NONE, &a), NF_EINVAL);
    ck_assert_int_eq(parse(file("<i4", "False", "(1,)", "1234", 4), NF_DT_F32, &a), NF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "<i4"));
    char *big = nf_alloc(1 << 21);
    ck_assert_int_eq(parse(file("|u1", "False", "(2097152,)", big, 1 << 21), NF_DT_NONE, &a), NF_ELIMIT);
    free(big);
    /* every cut of a good file, and every byte of its header changed: an error or an array, never a crash */
    struct nf_buf good = file("<i4", "False", "(2, 1)", "12345678", 8);
    for (size_t n = 0; n < good.len; n++)
        ck_assert_int_lt(rt_npy_parse(nf_str_n(good.data, n), NF_DT_NONE, 0, &a, NULL), 0);
    for (size_t n = 0; n + 8 < good.len; n++)
        for (int c = 0; c < 256; c += 5) {
            char old = good.data[n];
            good.data[n] = (char)c;
            if (rt_npy_parse(nf_buf_str(&good), NF_DT_NONE, 0, &a, NULL) == NF_OK)
                rt_array_done(&a);
            good.data[n] = old;
        }
    nf_buf_done(&good);
}
END_TEST

START_TEST(files_are_written_and_read)
{
    char path[] = "/tmp/nf-npy-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    struct rt_array a, b;
    ck_assert_int_eq(rt_array_alloc(NF_DT_F64, 1, (int64_t[]){3}, 0, &a, NULL), 0);
    memcpy(a.data, (double[]){1, -0.0, (double)INFINITY}, 24);
    ck_assert_msg(rt_npy_write(path, &a, &err) == 0, "%s", err.message);
    ck_assert_msg(rt_npy_read(path, NF_DT_NONE, 1000, &b, &err) == 0, "%s", err.message);
    ck_assert_mem_eq(a.data, b.data, 24);
    rt_array_done(&a);
    rt_array_done(&b);
    unlink(path);
    ck_assert_int_lt(rt_npy_read(path, NF_DT_NONE, 1000, &b, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.message, path));
}
END_TEST

static struct rt_array doubles(size_t n, const double *v)
{
    struct rt_array a;
    int64_t count = (int64_t)n;
    ck_assert_int_eq(rt_array_alloc(NF_DT_F64, 1, &count, 0, &a, NULL), 0);
    memcpy(a.data, v, n * 8);
    return a;
}

START_TEST(comparing_with_a_tolerance)
{
    double inf = (double)INFINITY, nan_d = (double)NAN;
    struct rt_array e = doubles(5, (double[]){1, 100, nan_d, inf, 0}), same = doubles(5, (double[]){1, 100, nan_d, inf, -0.0});
    struct rt_array near = doubles(5, (double[]){1.05, 101, nan_d, inf, 0.09}), bad = doubles(5, (double[]){1, 102, 0, -inf, 0});
    struct rt_difference d;
    ck_assert_int_eq(rt_compare(&same, &e, 0, 0, &d, &err), 0);
    ck_assert_int_eq(d.mismatched, 0);
    ck_assert_int_eq(rt_compare(&near, &e, 0.01, 0.1, &d, &err), 0);
    ck_assert_double_eq_tol(d.max_abs, 1, 1e-12);
    ck_assert_double_eq_tol(d.worst, 0.909, 1e-2);
    ck_assert_int_eq(rt_compare(&near, &e, 0.001, 0.01, &d, &err), NF_EMISMATCH);
    ck_assert_int_eq(d.mismatched, 3);
    ck_assert_int_eq(rt_compare(&bad, &e, 0.01, 0.1, &d, &err), NF_EMISMATCH);
    ck_assert_int_eq(d.mismatched, 3);
    ck_assert_int_eq(d.worst_index, 2);
    ck_assert(isinf(d.worst));
    ck_assert_ptr_nonnull(strstr(err.message, "[2]"));
    struct rt_array i, j;
    ck_assert_int_eq(rt_array_alloc(NF_DT_S64, 1, (int64_t[]){2}, 0, &i, NULL), 0);
    ck_assert_int_eq(rt_array_alloc(NF_DT_S64, 1, (int64_t[]){2}, 0, &j, NULL), 0);
    ((int64_t *)i.data)[0] = INT64_MAX;
    ((int64_t *)j.data)[0] = INT64_MAX - 1; /* the same as doubles */
    ck_assert_int_eq(rt_compare(&i, &j, 1, 1e9, &d, &err), NF_EMISMATCH);
    ck_assert_int_eq(rt_compare(&i, &e, 1, 1, &d, &err), NF_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(err.message, "2xi64"));
    struct rt_array *all[] = {&e, &same, &near, &bad, &i, &j};
    for (size_t k = 0; k < NF_ARRAY_LEN(all); k++)
        rt_array_done(all[k]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("runtime-npy");
    TCase *t = tcase_create("npy");
    tcase_add_test(t, every_type_comes_back);
    tcase_add_test(t, other_byte_and_element_orders);
    tcase_add_test(t, what_is_wrong_is_refused);
    tcase_add_test(t, files_are_written_and_read);
    tcase_add_test(t, comparing_with_a_tolerance);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
