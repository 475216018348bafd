#include "pipeline/hlo/eval_kernels.h"

#include <check.h>
#include <math.h>

static const double inf = (double)INFINITY, nan_d = (double)NAN;

/* op on one pair of doubles in the given float type */
static double pair(enum ev_op op, enum nf_dtype dt, double a, double b)
{
    uint64_t x = 0, y = 0, r = 0;
    double out;
    ev_store_double(1, dt, &a, &x);
    ev_store_double(1, dt, &b, &y);
    ev_kernel k = ev_kernel_find(op, dt);
    ck_assert(k != NULL);
    k(1, &r, &x, &y);
    ev_load_double(1, dt, &r, &out);
    return out;
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

START_TEST(maximum_and_minimum_are_not_each_other)
{
    static const enum nf_dtype types[] = {NF_DT_F64, NF_DT_F32, NF_DT_F16, NF_DT_BF16, NF_DT_F8E5M2, NF_DT_F8E4M3FN};
    for (size_t t = 0; t < NF_ARRAY_LEN(types); t++) {
        enum nf_dtype dt = types[t];
        ck_assert_double_eq(pair(EV_MAX, dt, 1, 2), 2);
        ck_assert_double_eq(pair(EV_MIN, dt, 1, 2), 1);
        ck_assert(same(pair(EV_MAX, dt, -0.0, 0.0), 0.0) && same(pair(EV_MAX, dt, 0.0, -0.0), 0.0));
        ck_assert(same(pair(EV_MIN, dt, -0.0, 0.0), -0.0) && same(pair(EV_MIN, dt, 0.0, -0.0), -0.0));
        ck_assert(isnan(pair(EV_MAX, dt, nan_d, 1)) && isnan(pair(EV_MAX, dt, 1, nan_d)));
        ck_assert(isnan(pair(EV_MIN, dt, nan_d, 1)) && isnan(pair(EV_MIN, dt, 1, nan_d)));
    }
    int32_t a = -3, b = 7, r;
    ev_kernel_find(EV_MAX, NF_DT_S32)(1, &r, &a, &b);
    ck_assert_int_eq(r, 7);
    ev_kernel_find(EV_MIN, NF_DT_S32)(1, &r, &a, &b);
    ck_assert_int_eq(r, -3);
    int32_t xs[3] = {5, -2, 9}, acc = 0;
    ev_fold_find(EV_MAX, NF_DT_S32)(3, &acc, xs, 1);
    ck_assert_int_eq(acc, 9);
    acc = 0;
    ev_fold_find(EV_MIN, NF_DT_S32)(3, &acc, xs, 1);
    ck_assert_int_eq(acc, -2);
}
END_TEST

START_TEST(integers_have_answers_for_every_pair)
{
#define INT(T, dt, op, a, b, want)                                                   \
    do {                                                                             \
        T x_ = (a), y_ = (b), r_ = 0;                                                \
        ev_kernel_find(op, dt)(1, &r_, &x_, &y_);                                    \
        ck_assert_msg(r_ == (T)(want), "%s %d: got %lld", #dt, (int)op, (long long)r_); \
    } while (0)
    INT(int32_t, NF_DT_S32, EV_DIV, 7, 0, -1);
    INT(int32_t, NF_DT_S32, EV_DIV, INT32_MIN, -1, INT32_MIN);
    INT(int64_t, NF_DT_S64, EV_REM, INT64_MIN, -1, 0);
    INT(int64_t, NF_DT_S64, EV_REM, 5, 0, 5);
    INT(uint8_t, NF_DT_U8, EV_DIV, 5, 0, 255);
    INT(int8_t, NF_DT_S8, EV_DIV, -128, -1, -128);
    INT(int8_t, NF_DT_S8, EV_MUL, 100, 2, -56);
    INT(int8_t, NF_DT_S4, EV_ADD, 7, 1, -8);
    INT(uint8_t, NF_DT_U4, EV_ADD, 15, 1, 0);
    INT(int8_t, NF_DT_S2, EV_NEG, -2, 0, -2);
    INT(int32_t, NF_DT_S32, EV_SHL, 1, 32, 0);
    INT(int32_t, NF_DT_S32, EV_SHL, 1, -1, 0);
    INT(int32_t, NF_DT_S32, EV_SHRA, -8, 40, -1);
    INT(int32_t, NF_DT_S32, EV_SHRA, -8, 1, -4);
    INT(int32_t, NF_DT_S32, EV_SHRL, -1, 31, 1);
    INT(int8_t, NF_DT_S8, EV_SHRL, -1, 4, 15);
    INT(uint8_t, NF_DT_U8, EV_SHRA, 0xF0, 2, 0xFC);
    INT(int32_t, NF_DT_S32, EV_POW, 2, -1, 0);
    INT(int32_t, NF_DT_S32, EV_POW, -1, -3, -1);
    INT(int32_t, NF_DT_S32, EV_POW, 0, 0, 1);
    INT(int64_t, NF_DT_S64, EV_POW, 3, 5, 243);
    INT(int32_t, NF_DT_S32, EV_ABS, INT32_MIN, 0, INT32_MIN);
    INT(int32_t, NF_DT_S32, EV_CLZ, 0, 0, 32);
    INT(int8_t, NF_DT_S8, EV_CLZ, 1, 0, 7);
    INT(int8_t, NF_DT_S8, EV_POPCNT, -1, 0, 8);
    INT(int64_t, NF_DT_S64, EV_MULHI, INT64_MIN, 2, -1);
    INT(uint64_t, NF_DT_U64, EV_MULHI, UINT64_MAX, UINT64_MAX, UINT64_MAX - 1);
}
END_TEST

static double convert(enum nf_dtype to, enum nf_dtype from, double v)
{
    uint64_t x[2] = {0}, y[2] = {0};
    double out;
    ev_store_double(1, from, &v, x);
    ev_convert(1, to, y, from, x);
    ev_load_double(1, to, y, &out);
    return out;
}

START_TEST(conversions_saturate_wrap_and_round_once)
{
    ck_assert_double_eq(convert(NF_DT_S32, NF_DT_F32, 3e9), 2147483647.0);
    ck_assert_double_eq(convert(NF_DT_S32, NF_DT_F32, -inf), -2147483648.0);
    ck_assert_double_eq(convert(NF_DT_S8, NF_DT_F64, nan_d), 0);
    ck_assert_double_eq(convert(NF_DT_U8, NF_DT_F64, -1.5), 0);
    ck_assert_double_eq(convert(NF_DT_S8, NF_DT_F64, -1.9), -1);
    ck_assert_double_eq(convert(NF_DT_S8, NF_DT_S32, 300), 44);
    ck_assert_double_eq(convert(NF_DT_PRED, NF_DT_F32, 0.5), 1);
    ck_assert_double_eq(convert(NF_DT_PRED, NF_DT_F32, -0.0), 0);
    /* 1 + 2^-8 + 2^-40 lies just above a tie of bf16: by way of float it would look like the tie */
    ck_assert_double_eq(convert(NF_DT_BF16, NF_DT_F64, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
    ck_assert_double_eq(convert(NF_DT_BF16, NF_DT_F64, 1 + 0x1p-8), 1);
    uint64_t big = ((uint64_t)1 << 63) + ((uint64_t)1 << 55) + 1, out = 0; /* the same for 64-bit integers */
    ev_convert(1, NF_DT_BF16, &out, NF_DT_U64, &big);
    ck_assert_uint_eq(out, 0x5F01);
    float f;
    big = 0xFFFFFF7FFFFFFFFFull;
    ev_convert(1, NF_DT_F32, &f, NF_DT_U64, &big);
    ck_assert_float_eq(f, 0x1.fffffep63f);
}
END_TEST

START_TEST(rounding_and_special_values)
{
    ck_assert_double_eq(pair(EV_ROUND_EVEN, NF_DT_F32, 2.5, 0), 2);
    ck_assert_double_eq(pair(EV_ROUND_EVEN, NF_DT_F64, -3.5, 0), -4);
    ck_assert(same(pair(EV_ROUND_EVEN, NF_DT_F64, -0.4, 0), -0.0));
    ck_assert_double_eq(pair(EV_ROUND_AFZ, NF_DT_F32, 2.5, 0), 3);
    ck_assert(same(pair(EV_SIGN, NF_DT_F32, -0.0, 0), -0.0) && isnan(pair(EV_SIGN, NF_DT_F32, nan_d, 0)));
    ck_assert(same(pair(EV_ABS, NF_DT_F32, -0.0, 0), 0.0) && same(pair(EV_NEG, NF_DT_F64, 0.0, 0), -0.0));
    ck_assert_double_eq(pair(EV_EXP, NF_DT_F32, -200, 0), 0);
    ck_assert_double_eq(pair(EV_MUL, NF_DT_F32, 0x1p-100, 0x1p-45), 0x1p-145); /* subnormals are kept */
    ck_assert_double_eq(pair(EV_RSQRT, NF_DT_F64, 0, 0), inf);
    ck_assert_double_eq(pair(EV_REM, NF_DT_F64, -7, 3), -1);
    ck_assert_double_eq(pair(EV_NEXT_AFTER, NF_DT_BF16, 1, 2), 1 + 0x1p-7);
    ck_assert_double_eq(pair(EV_NEXT_AFTER, NF_DT_F32, 0, -1), -0x1p-149);
    ck_assert_double_eq(pair(EV_NEXT_AFTER, NF_DT_F64, 1, 0), 1 - 0x1p-53);
    double a = -0.0, b = 0.0;
    uint8_t r;
    ev_kernel_find(EV_TOTAL_LT, NF_DT_F64)(1, &r, &a, &b);
    ck_assert_uint_eq(r, 1);
    ev_kernel_find(EV_LT, NF_DT_F64)(1, &r, &a, &b);
    ck_assert_uint_eq(r, 0);
    float v = 3.4028235e38f, out;
    ev_reduce_precision(1, NF_DT_F32, 8, 7, &out, &v);
    ck_assert(isinf(out));
    v = 1.00390625f; /* a tie of 7 bits */
    ev_reduce_precision(1, NF_DT_F32, 8, 7, &out, &v);
    ck_assert_float_eq(out, 1.0f);
    v = 1e-6f; /* below e5's smallest normal */
    ev_reduce_precision(1, NF_DT_F32, 5, 10, &out, &v);
    ck_assert_float_eq(out, 0.0f);
}
END_TEST

START_TEST(bitcasts_keep_bits_across_widths)
{
    uint32_t w = 0x87654321u, back = 0;
    int8_t nib[8];
    ev_bitcast(NF_DT_S4, nib, 8, NF_DT_U32, &w, 1);
    ck_assert_int_eq(nib[0], 1);
    ck_assert_int_eq(nib[7], -8);
    ev_bitcast(NF_DT_U32, &back, 1, NF_DT_S4, nib, 8);
    ck_assert_uint_eq(back, w);
    uint16_t half[2];
    ev_bitcast(NF_DT_U16, half, 2, NF_DT_U32, &w, 1);
    ck_assert_uint_eq(half[0], 0x4321);
}
END_TEST

static struct rt_array array(enum nf_dtype dt, int rank, const int64_t *dims)
{
    struct rt_array a;
    ck_assert_int_eq(rt_array_alloc(dt, rank, dims, 0, &a, NULL), 0);
    return a;
}

/* A padding that cuts on one side, and spreads elements. */
START_TEST(pad_cuts_and_spreads)
{
    struct rt_array in = array(NF_DT_S32, 1, (int64_t[]){4}), out = array(NF_DT_S32, 1, (int64_t[]){7});
    int32_t *p = in.data, v = 9, want[7] = {9, 2, 9, 3, 9, 4, 9};
    for (int i = 0; i < 4; i++)
        p[i] = i + 1;
    ev_pad(&in, &v, (int64_t[]){-1}, (int64_t[]){1}, &out);
    ck_assert_mem_eq(out.data, want, sizeof(want));
    rt_array_done(&in);
    rt_array_done(&out);
}
END_TEST

/* Products against sums written out. */
START_TEST(dot_general_with_batches)
{
    struct rt_array a = array(NF_DT_F32, 3, (int64_t[]){3, 2, 4}), b = array(NF_DT_F32, 3, (int64_t[]){4, 5, 2}), c = array(NF_DT_F32, 3, (int64_t[]){2, 3, 5});
    float *pa = a.data, *pb = b.data, *pc = c.data;
    for (int i = 0; i < 24; i++)
        pa[i] = (float)(i % 7) - 2;
    for (int i = 0; i < 40; i++)
        pb[i] = (float)(i % 5) - 1;
    int64_t lb = 1, rb = 2, lc = 2, rc = 0;
    struct ev_dot d = {{&lb, 1}, {&rb, 1}, {&lc, 1}, {&rc, 1}, false};
    ck_assert_int_eq(ev_dot(&a, &b, &d, &c, NULL), 0);
    for (int q = 0; q < 2; q++)
        for (int m = 0; m < 3; m++)
            for (int n = 0; n < 5; n++) {
                float s = 0;
                for (int k = 0; k < 4; k++)
                    s += pa[(m * 2 + q) * 4 + k] * pb[(k * 5 + n) * 2 + q];
                ck_assert_float_eq(pc[(q * 3 + m) * 5 + n], s);
            }
    rt_array_done(&a);
    rt_array_done(&b);
    rt_array_done(&c);
}
END_TEST

START_TEST(convolution_with_everything)
{
    /* one dimension, two feature groups, strides, padding, both dilations, reversal; against the definition */
    enum { N = 2, L = 7, C = 4, K = 3, O = 6 };
    struct rt_array x = array(NF_DT_F64, 3, (int64_t[]){N, L, C}), w = array(NF_DT_F64, 3, (int64_t[]){K, C / 2, O});
    double *px = x.data, *pw = w.data;
    for (int i = 0; i < N * L * C; i++)
        px[i] = (i * 7) % 11 - 5;
    for (int i = 0; i < K * C / 2 * O; i++)
        pw[i] = (i * 5) % 7 - 3;
    int64_t in_sp = 1, k_sp = 0, out_sp = 1, stride = 2, low = 1, ld = 2, rd = 2;
    bool rev = true;
    int64_t padded = 1 + 2 + (L - 1) * 2 + 1, reach = (K - 1) * 2 + 1, out_len = (padded - reach) / 2 + 1;
    struct rt_array y = array(NF_DT_F64, 3, (int64_t[]){N, out_len, O});
    struct ev_conv c = {.input_batch = 0, .input_feature = 2, .kernel_input_feature = 1, .kernel_output_feature = 2, .output_batch = 0, .output_feature = 2,
        .input_spatial = {&in_sp, 1}, .kernel_spatial = {&k_sp, 1}, .output_spatial = {&out_sp, 1}, .strides = &stride, .pad_low = &low,
        .lhs_dilation = &ld, .rhs_dilation = &rd, .reversal = &rev, .feature_groups = 2, .batch_groups = 1};
    ck_assert_int_eq(ev_convolution(&x, &w, &c, &y, NULL), 0);
    double *py = y.data;
    for (int n = 0; n < N; n++)
        for (int64_t o = 0; o < out_len; o++)
            for (int f = 0; f < O; f++) {
                double s = 0;
                for (int k = 0; k < K; k++) {
                    int64_t p = o * stride + k * rd - low;
                    if (p < 0 || p % ld || p / ld >= L)
                        continue;
                    for (int i = 0; i < C / 2; i++)
                        s += px[(n * L + p / ld) * C + f / (O / 2) * (C / 2) + i] * pw[((K - 1 - k) * (C / 2) + i) * O + f];
                }
                ck_assert_double_eq(py[(n * out_len + o) * O + f], s);
            }
    rt_array_done(&x);
    rt_array_done(&w);
    rt_array_done(&y);
}
END_TEST

/* One channel a group takes a path of its own; integers give exact sums. */
START_TEST(depthwise_convolution)
{
    enum { L = 6, C = 5, K = 3 };
    struct rt_array x = array(NF_DT_S8, 3, (int64_t[]){1, L, C}), w = array(NF_DT_S8, 3, (int64_t[]){K, 1, C}), y = array(NF_DT_S32, 3, (int64_t[]){1, L, C});
    int8_t *px = x.data, *pw = w.data;
    for (int i = 0; i < L * C; i++)
        px[i] = (int8_t)(i * 17 % 120 - 60);
    for (int i = 0; i < K * C; i++)
        pw[i] = (int8_t)(i * 31 % 100 - 50);
    int64_t sp = 1, ksp = 0, one = 1;
    struct ev_conv c = {.input_batch = 0, .input_feature = 2, .kernel_input_feature = 1, .kernel_output_feature = 2, .output_batch = 0, .output_feature = 2,
        .input_spatial = {&sp, 1}, .kernel_spatial = {&ksp, 1}, .output_spatial = {&sp, 1}, .strides = &one, .pad_low = &one, .lhs_dilation = &one,
        .rhs_dilation = &one, .feature_groups = C, .batch_groups = 1};
    ck_assert_int_eq(ev_convolution(&x, &w, &c, &y, NULL), 0);
    for (int o = 0; o < L; o++)
        for (int f = 0; f < C; f++) {
            int s = 0;
            for (int k = 0; k < K; k++)
                if (o + k - 1 >= 0 && o + k - 1 < L)
                    s += px[(o + k - 1) * C + f] * pw[k * C + f];
            ck_assert_int_eq(((int32_t *)y.data)[o * C + f], s);
        }
    rt_array_done(&x);
    rt_array_done(&w);
    rt_array_done(&y);
}
END_TEST

/* All kinds and lengths with small, large and mixed factors, against the sum that defines them. */
START_TEST(fourier_transforms_of_any_length)
{
    static const int64_t lengths[] = {1, 2, 3, 8, 12, 35, 97, 128, 202};
    for (size_t t = 0; t < NF_ARRAY_LEN(lengths); t++) {
        int64_t n = lengths[t], half = n / 2 + 1;
        struct rt_array x = array(NF_DT_C128, 1, &n), f = array(NF_DT_C128, 1, &n), back = array(NF_DT_C128, 1, &n);
        struct rt_array r = array(NF_DT_F64, 1, &n), h = array(NF_DT_C128, 1, &half), rback = array(NF_DT_F64, 1, &n);
        double *px = x.data, *pf = f.data, *pr = r.data, *ph = h.data;
        for (int64_t i = 0; i < n; i++) {
            pr[i] = px[2 * i] = sin((double)i * 1.7) + 0.25;
            px[2 * i + 1] = cos((double)(i * i));
        }
        ck_assert_int_eq(ev_fft(&x, EV_FFT, &n, 1, &f, NULL), 0);
        ck_assert_int_eq(ev_fft(&f, EV_IFFT, &n, 1, &back, NULL), 0);
        ck_assert_int_eq(ev_fft(&r, EV_RFFT, &n, 1, &h, NULL), 0);
        ck_assert_int_eq(ev_fft(&h, EV_IRFFT, &n, 1, &rback, NULL), 0);
        for (int64_t k = 0; k < n; k++) {
            long double re = 0, im = 0, rre = 0, rim = 0;
            for (int64_t i = 0; i < n; i++) {
                long double a = -2 * acosl(-1.0L) * (long double)(i * k % n) / (long double)n;
                re += px[2 * i] * cosl(a) - px[2 * i + 1] * sinl(a);
                im += px[2 * i] * sinl(a) + px[2 * i + 1] * cosl(a);
                rre += pr[i] * cosl(a);
                rim += pr[i] * sinl(a);
            }
            ck_assert_double_eq_tol(pf[2 * k], (double)re, 1e-13 * (double)n);
            ck_assert_double_eq_tol(pf[2 * k + 1], (double)im, 1e-13 * (double)n);
            ck_assert_double_eq_tol(((double *)back.data)[2 * k], px[2 * k], 1e-14);
            ck_assert_double_eq_tol(((double *)rback.data)[k], pr[k], 1e-14);
            if (k < half) {
                ck_assert_double_eq_tol(ph[2 * k], (double)rre, 1e-13 * (double)n);
                ck_assert_double_eq_tol(ph[2 * k + 1], (double)rim, 1e-13 * (double)n);
            }
        }
        struct rt_array *all[] = {&x, &f, &back, &r, &h, &rback};
        for (size_t i = 0; i < NF_ARRAY_LEN(all); i++)
            rt_array_done(all[i]);
    }
}
END_TEST

START_TEST(solves_undo_products)
{
    enum { N = 5, M = 3 };
    int64_t sq[] = {N, N}, lr[] = {N, M}, rl[] = {M, N};
    for (int bits = 0; bits < 24; bits++) {
        struct ev_trsm t = {.left = bits & 1, .lower = bits & 2, .unit_diagonal = bits & 4, .transpose = bits >> 3};
        struct rt_array a = array(NF_DT_C128, 2, sq), b = array(NF_DT_C128, 2, t.left ? lr : rl), x = array(NF_DT_C128, 2, t.left ? lr : rl);
        double *pa = a.data, *pb = b.data, *px = x.data;
        for (int i = 0; i < 2 * N * N; i++)
            pa[i] = (i * 13) % 9 - 4 + (i % (2 * N + 2) == 0 ? 8 : 0);
        for (int i = 0; i < 2 * N * M; i++)
            pb[i] = (i * 7) % 5 - 2;
        ck_assert_int_eq(ev_triangular_solve(&a, &b, &t, &x, NULL), 0);
        for (int i = 0; i < (t.left ? N : M); i++)
            for (int j = 0; j < (t.left ? M : N); j++) {
                double re = 0, im = 0;
                for (int k = 0; k < N; k++) {
                    int r = t.left ? i : k, c = t.left ? k : j;
                    if (t.transpose) {
                        int s = r;
                        r = c;
                        c = s;
                    }
                    double ar = pa[2 * (r * N + c)], ai = pa[2 * (r * N + c) + 1] * (t.transpose == 2 ? -1 : 1);
                    if (r == c && t.unit_diagonal)
                        ar = 1, ai = 0;
                    else if (t.lower ? c > r : c < r)
                        ar = ai = 0;
                    int xi = t.left ? k * M + j : i * N + k;
                    re += ar * px[2 * xi] - ai * px[2 * xi + 1];
                    im += ar * px[2 * xi + 1] + ai * px[2 * xi];
                }
                int at = t.left ? i * M + j : i * N + j;
                ck_assert_msg(fabs(re - pb[2 * at]) < 1e-8 && fabs(im - pb[2 * at + 1]) < 1e-8, "solve %d", bits);
            }
        rt_array_done(&a);
        rt_array_done(&b);
        rt_array_done(&x);
    }
    struct rt_array m = array(NF_DT_F64, 2, (int64_t[]){2, 2}), l = array(NF_DT_F64, 2, (int64_t[]){2, 2});
    memcpy(m.data, (double[]){4, 99, 2, 5}, 32);
    ck_assert_int_eq(ev_cholesky(&m, true, &l, NULL), 0);
    ck_assert_mem_eq(l.data, ((double[]){2, 0, 1, 2}), 32);
    memcpy(m.data, (double[]){1, 0, 2, 1}, 32); /* not positive definite */
    ck_assert_int_eq(ev_cholesky(&m, true, &l, NULL), 0);
    ck_assert(isnan(((double *)l.data)[3]));
    rt_array_done(&m);
    rt_array_done(&l);
}
END_TEST

/* Known answers of the generators' papers (Random123): zero key and counter, all ones. */
START_TEST(random_bits_are_the_published_ones)
{
    struct rt_array state = array(NF_DT_U64, 1, (int64_t[]){2}), next = array(NF_DT_U64, 1, (int64_t[]){2}), bits = array(NF_DT_U32, 1, (int64_t[]){2});
    uint32_t *p = bits.data;
    uint64_t *s = state.data;
    ck_assert_int_eq(ev_rng_bits(EV_RNG_THREE_FRY, &state, &next, &bits, NULL), 0);
    ck_assert_uint_eq(p[0], 0x6b200159u);
    ck_assert_uint_eq(p[1], 0x99ba4efeu);
    ck_assert_uint_eq(((uint64_t *)next.data)[1], 1);
    s[0] = s[1] = UINT64_MAX;
    ck_assert_int_eq(ev_rng_bits(EV_RNG_THREE_FRY, &state, &next, &bits, NULL), 0);
    ck_assert_uint_eq(p[0], 0x1cb996fcu);
    ck_assert_uint_eq(p[1], 0xbb002be7u);
    struct rt_array state3 = array(NF_DT_U64, 1, (int64_t[]){3}), next3 = array(NF_DT_U64, 1, (int64_t[]){3}), four = array(NF_DT_U32, 1, (int64_t[]){4});
    uint32_t zero[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}, ones[4] = {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
    ck_assert_int_eq(ev_rng_bits(EV_RNG_PHILOX, &state3, &next3, &four, NULL), 0);
    ck_assert_mem_eq(four.data, zero, 16);
    memset(state3.data, 0xff, 24);
    ck_assert_int_eq(ev_rng_bits(EV_RNG_PHILOX, &state3, &next3, &four, NULL), 0);
    ck_assert_mem_eq(four.data, ones, 16);
    ck_assert_uint_eq(((uint64_t *)next3.data)[1], 0); /* the counter carries */
    ck_assert_uint_eq(((uint64_t *)next3.data)[2], 0);
    ck_assert_int_eq(ev_rng_bits(EV_RNG_THREE_FRY, &state3, &next3, &four, NULL), NF_EGRAPH);
    struct rt_array *all[] = {&state, &next, &bits, &state3, &next3, &four};
    for (size_t i = 0; i < NF_ARRAY_LEN(all); i++)
        rt_array_done(all[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval-kernels");
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, maximum_and_minimum_are_not_each_other);
    tcase_add_test(t, integers_have_answers_for_every_pair);
    tcase_add_test(t, conversions_saturate_wrap_and_round_once);
    tcase_add_test(t, rounding_and_special_values);
    tcase_add_test(t, bitcasts_keep_bits_across_widths);
    tcase_add_test(t, pad_cuts_and_spreads);
    tcase_add_test(t, dot_general_with_batches);
    tcase_add_test(t, convolution_with_everything);
    tcase_add_test(t, depthwise_convolution);
    tcase_add_test(t, fourier_transforms_of_any_length);
    tcase_add_test(t, solves_undo_products);
    tcase_add_test(t, random_bits_are_the_published_ones);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
