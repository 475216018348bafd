/* A device that keeps its memory to itself (so rt_execute_host must copy), and one that works in place. */
#include "runtime/device.h"

#include <check.h>

static struct nf_error err;
static size_t live_buffers;

struct far_program {
    struct rt_program base;
    struct rt_tensor in[2], out[1];
};

static int far_open(const struct rt_device_config *c, struct rt_device **ret_device, struct nf_error *e);
static void far_close(struct rt_device *d) { free(d); }

static int far_load(struct rt_device *d, struct nf_str neff, const struct rt_load_options *o, struct rt_program **ret_program, struct nf_error *e)
{
    static const int64_t dims[] = {4};
    if (neff.len == 0)
        return nf_fail(e, NF_ECORRUPT, "empty");
    ck_assert_uint_ge(o->world_size, 1);
    struct far_program *p = nf_alloc(sizeof(*p));
    for (int i = 0; i < 3; i++) {
        struct rt_tensor *t = i < 2 ? &p->in[i] : &p->out[0];
        *t = (struct rt_tensor){.name = "t", .dtype = NF_DT_F32, .rank = 1, .dims = dims, .bytes = 16, .alias = i == 2 ? 1 : RT_NO_ALIAS};
    }
    p->base = (struct rt_program){d, 2, 1, p->in, p->out};
    *ret_program = &p->base;
    return NF_OK;
}
static void far_unload(struct rt_program *p) { free(p); }

struct far_buffer {
    struct rt_buffer base;
    float *hidden;
};
static int far_buffer(struct rt_device *d, size_t bytes, struct rt_buffer **ret_buffer, struct nf_error *e)
{
    (void)e;
    struct far_buffer *b = nf_alloc(sizeof(*b));
    b->base = (struct rt_buffer){.device = d, .bytes = bytes};
    b->hidden = nf_alloc(bytes);
    live_buffers++;
    *ret_buffer = &b->base;
    return NF_OK;
}
static void far_buffer_free(struct rt_buffer *b)
{
    live_buffers--;
    free(((struct far_buffer *)b)->hidden);
    free(b);
}
static int far_write(struct rt_buffer *b, size_t at, const void *data, size_t n, struct nf_error *e)
{
    (void)e;
    memcpy((char *)((struct far_buffer *)b)->hidden + at, data, n);
    return NF_OK;
}
static int far_read(const struct rt_buffer *b, size_t at, void *data, size_t n, struct nf_error *e)
{
    (void)e;
    memcpy(data, (const char *)((const struct far_buffer *)b)->hidden + at, n);
    return NF_OK;
}
static int far_execute(struct rt_program *p, struct rt_stream *s, struct rt_buffer *const *in, struct rt_buffer *const *out,
                       struct rt_event **ret_event, struct nf_error *e)
{
    (void)p;
    (void)s;
    const float *a = ((struct far_buffer *)in[0])->hidden, *b = ((struct far_buffer *)in[1])->hidden;
    float *c = ((struct far_buffer *)out[0])->hidden;
    if (a[0] < 0)
        return nf_fail(e, NF_EINTERNAL, "negative");
    for (int i = 0; i < 4; i++)
        c[i] = a[i] + b[i];
    *ret_event = NULL;
    return NF_OK;
}

static const struct rt_device_ops far_ops = {
    .name = "far", .open = far_open, .close = far_close, .load = far_load, .unload = far_unload, .buffer = far_buffer,
    .buffer_free = far_buffer_free, .write = far_write, .read = far_read, .execute = far_execute,
};

static int far_open(const struct rt_device_config *c, struct rt_device **ret_device, struct nf_error *e)
{
    (void)e;
    struct rt_device *d = nf_alloc(sizeof(*d));
    *d = (struct rt_device){&far_ops, c->index};
    *ret_device = d;
    return NF_OK;
}

START_TEST(host_memory_goes_through_the_devices_buffers)
{
    struct rt_device *d = NULL;
    struct rt_program *p = NULL;
    ck_assert_int_eq(rt_device_open("far:3", NULL, &d, &err), 0);
    ck_assert_uint_eq(d->index, 3);
    ck_assert_int_eq(rt_program_load(d, NF_STR("x"), NULL, &p, &err), 0);
    float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, c[4] = {0};
    const void *in[] = {a, b};
    void *out[] = {c};
    ck_assert_int_eq(rt_execute_host(p, in, out, &err), 0);
    ck_assert_float_eq(c[3], 44);
    ck_assert_float_eq(b[3], 40);
    out[0] = b; /* donated */
    ck_assert_int_eq(rt_execute_host(p, in, out, &err), 0);
    ck_assert_float_eq(b[3], 44);
    a[0] = -1;
    ck_assert_int_eq(rt_execute_host(p, in, out, &err), NF_EINTERNAL);
    ck_assert_uint_eq(live_buffers, 0);
    rt_program_unload(p);
    rt_device_close(d);
}
END_TEST

START_TEST(wrong_names_are_told)
{
    struct rt_device *d = NULL;
    struct rt_program *p = NULL;
    ck_assert_int_eq(rt_device_open("near", NULL, &d, &err), NF_ENODEVICE);
    ck_assert_str_eq(err.hint, "devices here: far");
    ck_assert_int_eq(rt_device_open("far:x", NULL, &d, &err), NF_EINVAL);
    ck_assert_int_eq(rt_device_open("far", NULL, &d, &err), 0);
    struct rt_load_options o = RT_LOAD_OPTIONS_INIT;
    o.rank = 1;
    ck_assert_int_eq(rt_program_load(d, NF_STR("x"), &o, &p, &err), NF_EINVAL);
    ck_assert_int_eq(rt_program_load(d, NF_STR(""), NULL, &p, &err), NF_ECORRUPT);
    rt_device_close(d);
}
END_TEST

int main(void)
{
    rt_device_register(&far_ops);
    rt_device_register(&far_ops);
    Suite *s = suite_create("runtime-device");
    TCase *t = tcase_create("device");
    tcase_add_test(t, host_memory_goes_through_the_devices_buffers);
    tcase_add_test(t, wrong_names_are_told);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
