#include "runtime/cpu/gemm.h"

#include <check.h>
#include <math.h>

static float value(int64_t i) { return (float)((i * 7919 + 13) % 41 - 20) / 16; }

/* C of the layout given by strides, against a plain loop in double. */
static void product(int64_t m, int64_t n, int64_t k, bool at, bool bt, bool ct, enum cpu_dt type, bool f64)
{
    size_t size = f64 ? 8 : cpu_dt_bytes(type);
    char *a = nf_alloc((size_t)(m * k) * size + 8), *b = nf_alloc((size_t)(k * n) * size + 8), *c = nf_alloc((size_t)(m * n) * 8 + 8);
    int64_t *t = nf_alloc((size_t)(2 * m + 2 * n + 2 * k + 8) * 8), *am = t, *cm = am + m, *bn = cm + m, *cn = bn + n, *ak = cn + n, *bk = ak + k + 1;
    for (int64_t i = 0; i < m; i++) {
        am[i] = at ? i : i * k;
        cm[i] = ct ? i : i * n;
    }
    for (int64_t i = 0; i < n; i++) {
        bn[i] = bt ? i * k : i;
        cn[i] = ct ? i * m : i;
    }
    for (int64_t i = 0; i < k; i++) {
        ak[i] = at ? i * m : i;
        bk[i] = bt ? i : i * n;
    }
    enum cpu_dt st = f64 ? CPU_F64 : type;
    for (int64_t i = 0; i < m * k; i++) cpu_num_store(st, a + (size_t)i * size, (struct cpu_num){.re = (double)value(i)});
    for (int64_t i = 0; i < k * n; i++) cpu_num_store(st, b + (size_t)i * size, (struct cpu_num){.re = (double)value(i * 3 + 1)});
    struct gemm g = {st, st, f64 ? CPU_F64 : CPU_F32, a, b, c, m, n, k, am, ak, bk, bn, cm, cn};
    void *scratch = nf_alloc(gemm_scratch());
    int64_t rows, cols;
    gemm_block(&g, 3, &rows, &cols);
    ck_assert(rows >= 1 && cols >= 1);
    for (int64_t i = 0; i < m; i += rows)
        for (int64_t j = 0; j < n; j += cols) gemm_run(&g, i, NF_MIN(i + rows, m), j, NF_MIN(j + cols, n), scratch);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double want = 0, got;
            for (int64_t x = 0; x < k; x++)
                want += cpu_num_load(st, a + (size_t)(am[i] + ak[x]) * size).re * cpu_num_load(st, b + (size_t)(bk[x] + bn[j]) * size).re;
            got = cpu_num_load(g.c_type, c + (size_t)(cm[i] + cn[j]) * (f64 ? 8 : 4)).re;
            ck_assert_msg(fabs(got - want) <= (f64 ? 1e-11 : 1e-4) * (1 + (double)k), "%d x %d x %d at %d, %d: %g, not %g", (int)m, (int)n, (int)k, (int)i, (int)j, got, want);
        }
    free(a);
    free(b);
    free(c);
    free(t);
    free(scratch);
}

START_TEST(every_shape_and_layout)
{
    static const int64_t e[] = {1, 2, 3, 5, 6, 7, 11, 13, 16, 17, 31, 33, 49};
    for (size_t i = 0; i < NF_ARRAY_LEN(e); i++)
        for (size_t j = 0; j < NF_ARRAY_LEN(e); j += 2)
            for (int layout = 0; layout < 8; layout++) product(e[i], e[j], e[(i + j) % NF_ARRAY_LEN(e)], layout & 1, layout & 2, layout & 4, CPU_F32, layout == 5);
}
END_TEST

START_TEST(blocks_of_every_dim)
{
    product(160, 40, 600, false, false, false, CPU_F32, false);
    product(7, 1100, 300, false, true, false, CPU_F32, false);
    product(300, 50, 257, true, false, true, CPU_F32, true);
}
END_TEST

START_TEST(narrow_operands)
{
    product(19, 37, 70, false, false, false, CPU_BF16, false);
    product(19, 37, 70, true, true, false, CPU_F16, false);
    product(5, 6, 7, false, true, false, CPU_F8E4M3FN, false);
}
END_TEST

/* Down to one column: inner products, over rows that overlap and are contiguous in stretches, whose lengths are no multiples of a vector. The
 * same bits however the rows are cut. */
START_TEST(few_columns)
{
    enum { M = 29, K = 297, TAPS = 3 };
    static float a[M * 5 + TAPS * 120], b[K * 9], c[2][M * 9];
    int64_t am[M], cm[M], ak[K], bk[K], bn[9], cn[9];
    void *scratch = nf_alloc(gemm_scratch());
    for (size_t i = 0; i < NF_ARRAY_LEN(a); i++) a[i] = value((int64_t)i);
    for (size_t i = 0; i < NF_ARRAY_LEN(b); i++) b[i] = value((int64_t)i * 5 + 2);
    for (int n = 1; n <= 9; n++) {
        product(27, n, 300, false, false, false, CPU_F32, false);
        product(27, n, 64, false, true, true, CPU_F32, false);
        for (int i = 0; i < M; i++) {
            am[i] = i * 5;
            cm[i] = i * n;
        }
        for (int k = 0; k < K; k++) {
            ak[k] = k / (K / TAPS) * 120 + k % (K / TAPS);
            bk[k] = (K - 1 - k) * n;
        }
        for (int j = 0; j < n; j++) bn[j] = cn[j] = j;
        for (int cut = 0; cut < 2; cut++) {
            struct gemm g = {CPU_F32, CPU_F32, CPU_F32, a, b, c[cut], M, n, K, am, ak, bk, bn, cm, cn};
            for (int i = 0, rows = cut ? 7 : M; i < M; i += rows) gemm_run(&g, i, NF_MIN(i + rows, M), 0, n, scratch);
        }
        ck_assert_int_eq(memcmp(c[0], c[1], sizeof(float) * (size_t)(M * n)), 0);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < n; j++) {
                double want = 0;
                for (int k = 0; k < K; k++) want += (double)a[am[i] + ak[k]] * (double)b[bk[k] + bn[j]];
                ck_assert_msg(fabs((double)c[0][i * n + j] - want) < 1e-3, "%d columns at %d, %d: %g, not %g", n, i, j, (double)c[0][i * n + j], want);
            }
    }
    free(scratch);
}
END_TEST

/* Windows of 3 x 3 over an image: rows of C that are neighbours in A up to the end of a row of the image, which tiles of all kernels meet, in more
 * rows than a block has. */
START_TEST(windows_of_an_image)
{
    enum { SIDE_MAX = 42, TAPS = 9, N = 16 };
    static float a[(SIDE_MAX + 2) * (SIDE_MAX + 2)], b[TAPS * N], c[SIDE_MAX * SIDE_MAX * N];
    static int64_t am[SIDE_MAX * SIDE_MAX], cm[SIDE_MAX * SIDE_MAX], ak[TAPS], bk[TAPS], bn[N], cn[N];
    void *scratch = nf_alloc(gemm_scratch());
    for (size_t i = 0; i < NF_ARRAY_LEN(a); i++) a[i] = value((int64_t)i);
    for (size_t i = 0; i < NF_ARRAY_LEN(b); i++) b[i] = value((int64_t)i * 5 + 2);
    for (int j = 0; j < N; j++) bn[j] = cn[j] = j;
    for (int side = 20; side <= SIDE_MAX; side++) {
        for (int i = 0; i < side * side; i++) {
            am[i] = i / side * (side + 2) + i % side;
            cm[i] = i * N;
        }
        for (int k = 0; k < TAPS; k++) {
            ak[k] = k / 3 * (side + 2) + k % 3;
            bk[k] = k * N;
        }
        struct gemm g = {CPU_F32, CPU_F32, CPU_F32, a, b, c, side * side, N, TAPS, am, ak, bk, bn, cm, cn};
        gemm_run(&g, 0, side * side, 0, N, scratch);
        for (int i = 0; i < side * side; i++)
            for (int j = 0; j < N; j++) {
                double want = 0;
                for (int k = 0; k < TAPS; k++) want += (double)a[am[i] + ak[k]] * (double)b[bk[k] + bn[j]];
                ck_assert_msg(fabs((double)c[i * N + j] - want) < 1e-4, "side %d at %d, %d: %g, not %g", side, i, j, (double)c[i * N + j], want);
            }
    }
    free(scratch);
}
END_TEST

/* Of the kernel's own type, what overflows included. */
#define INTEGERS(type, kernel, columns)                                                                                                  \
    for (int rows = 1; rows <= all[s]->mr; rows++) {                                                                                     \
        const int nr = all[s]->columns;                                                                                                  \
        type ia[GEMM_MR_MAX * 40], ib[GEMM_NR_MAX * 40], ic[GEMM_MR_MAX * GEMM_NR_MAX];                                                  \
        for (size_t i = 0; i < NF_ARRAY_LEN(ia); i++) ia[i] = (type)(i * 0x9e3779b97f4a7c15u);                                           \
        for (size_t i = 0; i < NF_ARRAY_LEN(ib); i++) ib[i] = (type)(i * 0xc2b2ae3d27d4eb4fu + 1);                                       \
        for (int pass = 0; pass < 2; pass++) all[s]->kernel(rows, 40, ia, ib, nr, ic, nr, pass);                                         \
        for (int i = 0; i < rows; i++)                                                                                                   \
            for (int j = 0; j < nr; j++) {                                                                                               \
                type want = 0;                                                                                                           \
                for (int k = 0; k < 40; k++) want += 2 * ia[k * rows + i] * ib[k * nr + j];                                              \
                ck_assert_msg(ic[i * nr + j] == want, "%s, " #kernel ", %d rows, at %d, %d", all[s]->isa, rows, i, j);                   \
            }                                                                                                                            \
    }

/* The kernels of the portable form are the yardstick of the others: the same tile, to rounding. */
START_TEST(kernels_agree)
{
    static const struct gemm_kernels *const all[] = {&gemm_kernels_portable,
#if defined(__x86_64__)
                                                     &gemm_kernels_avx2, &gemm_kernels_avx512,
#endif
    };
    float a[GEMM_MR_MAX * 40], b[GEMM_NR_MAX * 40], c[GEMM_MR_MAX * GEMM_NR_MAX];
    for (size_t i = 0; i < NF_ARRAY_LEN(a); i++) a[i] = value((int64_t)i);
    for (size_t i = 0; i < NF_ARRAY_LEN(b); i++) b[i] = value((int64_t)i + 5);
    for (size_t s = 0; s < NF_ARRAY_LEN(all); s++) {
#if defined(__x86_64__)
        if (s > 0 && !(__builtin_cpu_supports("fma") && (s == 1 ? __builtin_cpu_supports("avx2") : __builtin_cpu_supports("avx512f")))) continue;
#endif
        for (int rows = 1; rows <= all[s]->mr; rows++) {
            int nr = all[s]->nr32;
            for (int pass = 0; pass < 2; pass++) all[s]->f32(rows, 40, a, b, nr, c, nr, pass);
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < nr; j++) {
                    double want = 0;
                    for (int k = 0; k < 40; k++) want += 2 * (double)a[k * rows + i] * (double)b[k * nr + j];
                    ck_assert_msg(fabs((double)c[i * nr + j] - want) < 1e-4, "%s, %d rows, at %d, %d", all[s]->isa, rows, i, j);
                }
        }
        INTEGERS(uint32_t, u32, nr32)
        INTEGERS(uint64_t, u64, nr64)
        for (int cols = 1; cols <= GEMM_NARROW_COLS; cols++) {
            static float narrow_b[GEMM_NARROW_COLS * GEMM_KC];
            const float *row[GEMM_NARROW_ROWS_MAX];
            struct gemm_runs runs = {.n = 2, .offset = {1, 20}, .length = {17, 11}};
            for (size_t i = 0; i < NF_ARRAY_LEN(narrow_b); i++) narrow_b[i] = value((int64_t)i + 3);
            for (int i = 0; i < gemm_narrow_rows(cols); i++) row[i] = a + 5 * i;
            all[s]->f32_narrow(cols, row, &runs, narrow_b, c);
            for (int i = 0; i < gemm_narrow_rows(cols); i++)
                for (int j = 0; j < cols; j++) {
                    double want = 0;
                    for (int k = 0; k < 28; k++) want += (double)row[i][k < 17 ? 1 + k : 3 + k] * (double)narrow_b[j * GEMM_KC + k];
                    ck_assert_msg(fabs((double)c[i * cols + j] - want) < 1e-4, "%s, %d columns, at %d, %d", all[s]->isa, cols, i, j);
                }
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gemm");
    TCase *c = tcase_create("gemm");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, every_shape_and_layout);
    tcase_add_test(c, blocks_of_every_dim);
    tcase_add_test(c, narrow_operands);
    tcase_add_test(c, few_columns);
    tcase_add_test(c, windows_of_an_image);
    tcase_add_test(c, kernels_agree);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
