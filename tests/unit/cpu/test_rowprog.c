#include "runtime/cpu/rowprog.h"

#include <check.h>
#include <math.h>

static const char softmax[] =
    "row 1 * 5\nacc 0 f32 0 5 1\nacc 1 f32 0 5 1\n"
    "pass\nld f32 0\nred f32 2 1\n"
    "pass\nld f32 0\nrow f32 0 2\nsub f32 0 4 5\nexp f32 0 6\nred f32 0 7\n"
    "pass\nld f32 0\nrow f32 0 2\nsub f32 0 10 11\nexp f32 0 12\nrow f32 0 8\ndiv f32 0 13 14\nst f32 1 15\nend\n";

static struct rp_prog *parsed(struct nf_arena *a, const char *text)
{
    struct rp_prog *p = NULL;
    struct nf_error err = {0};
    ck_assert_msg(rp_parse(nf_str_c(text), a, &p, &err) == 0, "%s", err.message);
    return p;
}

START_TEST(prints_what_it_reads)
{
    struct nf_arena *a = nf_arena_new(0);
    struct nf_buf b = NF_BUF_INIT;
    rp_print(parsed(a, softmax), &b);
    ck_assert_str_eq(b.data, softmax);
    nf_buf_clear(&b);
    const char *col = "col 8 1 * 3 10\nacc 0 complex<f64> -4 30 10 1\nacc - i64 7 0 0 1\nacc scratch f32 0 0 0 1\npass\nconst complex<f64> 0 3ff0000000000000 bff0000000000000\nidx i32 1\nst complex<f64> 0 1\nend\n";
    rp_print(parsed(a, col), &b);
    ck_assert_str_eq(b.data, col);
    nf_buf_done(&b);
    nf_arena_free(a);
}
END_TEST

START_TEST(runs_by_rows)
{
    struct nf_arena *a = nf_arena_new(0);
    float x[10] = {1, 2, 3, 4, 5, -1, 0, 1, 0, -1}, y[10];
    void *args[] = {x, y, NULL};
    rp_run(parsed(a, softmax), args, 0, 2);
    for (int r = 0; r < 2; r++) {
        double sum = 0, all = 0;
        for (int i = 0; i < 5; i++) sum += exp((double)x[5 * r + i]);
        for (int i = 0; i < 5; i++) {
            ck_assert(fabs((double)y[5 * r + i] - exp((double)x[5 * r + i]) / sum) < 1e-6);
            all += (double)y[5 * r + i];
        }
        ck_assert(fabs(all - 1) < 1e-6);
    }
    nf_arena_free(a);
}
END_TEST

START_TEST(runs_by_columns)
{
    struct nf_arena *a = nf_arena_new(0);
    struct rp_prog *p = parsed(a, "col 4 1 * 3 6\nacc 0 i32 0 18 6 1\nacc 1 i32 0 6 0 1\npass\nld i32 0\nred i32 0 1\nonce\nrow i32 0 2\nst i32 1 4\nend\n");
    int32_t x[36], y[12] = {0};
    for (int i = 0; i < 36; i++) x[i] = i * i;
    void *args[] = {x, y, NULL};
    ck_assert_int_eq(rp_range(p, 2), 4);
    rp_run(p, args, 0, 4);
    for (int o = 0; o < 2; o++)
        for (int c = 0; c < 6; c++) ck_assert_int_eq(y[6 * o + c], x[18 * o + c] + x[18 * o + 6 + c] + x[18 * o + 12 + c]);
    nf_arena_free(a);
}
END_TEST

START_TEST(refuses_what_is_wrong)
{
    static const char *const bad[] = {
        "", "row", "row 1 *\n", "row 0 *\npass\nend\n", "row 1 * 0\npass\nend\n", "row 2 *\npass\nend\n", "col 8 1 *\npass\nend\n",
        "row 1 *\nend\n", "row 1 *\npass\nld f32 0\nend\n",                                       /* no access */
        "row 1 *\nacc 0 f32 0 1\npass\nld f64 0\nend\n",                                          /* another type */
        "row 1 *\nacc 0 f32 0 1\npass\nld f32 0\nadd f32 0 1 2\nend\n",                            /* an operand that follows */
        "row 1 *\nacc 0 f32 0 1\npass\nld f32 0\npass\nneg f32 0 1\nend\n",                        /* of another pass */
        "row 1 *\nacc 0 f32 0 1\npass\nld f32 0\nand f32 0 1 1\nend\n", "row 1 *\npass\nrow f32 0 0\nend\n",
        "row 1 *\nacc 0 f32 0 1\nonce\nld f32 0\nred f32 0 1\nend\n", "row 1 *\nacc scratch f32 0 1\npass\nld f32 0\nend\n",
        "row 1 *\nacc 0 f32 0 9223372036854775807\npass\nend\n", "row 1 *\npass\nfrobnicate f32 0\nend\n", "row 1 *\npass\nend\nmore\n", "row 1 *\npass\n",
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(bad); i++) {
        struct nf_arena *a = nf_arena_new(0);
        struct rp_prog *p;
        struct nf_error err = {0};
        ck_assert_msg(rp_parse(nf_str_c(bad[i]), a, &p, &err) == NF_ECORRUPT, "taken: %s", bad[i]);
        ck_assert(err.message[0]);
        nf_arena_free(a);
    }
}
END_TEST

static struct cpu_num eval2(enum rp_op op, enum cpu_dt t, int64_t a, int64_t b)
{
    struct rp_ins s = {.op = (uint16_t)op, .dt = (uint8_t)t};
    return rp_eval(&s, (enum cpu_dt[]){t, t}, (struct cpu_num[]){{.i = a}, {.i = b}});
}

START_TEST(integers_as_stablehlo_has_them)
{
    ck_assert_int_eq(eval2(RP_DIV, CPU_S32, 7, 0).i, -1);
    ck_assert_int_eq(eval2(RP_DIV, CPU_S32, INT32_MIN, -1).i, INT32_MIN);
    ck_assert_int_eq(eval2(RP_REM, CPU_S32, 7, 0).i, 7);
    ck_assert_int_eq(eval2(RP_SHL, CPU_U8, 255, 9).i, 0);
    ck_assert_int_eq(eval2(RP_SAR, CPU_S8, -128, 100).i, -1);
    ck_assert_int_eq(eval2(RP_SHR, CPU_S8, -128, 7).i, 1);
    ck_assert_int_eq(eval2(RP_MUL, CPU_S8, 127, 127).i, 1);
    ck_assert_int_eq(eval2(RP_POW, CPU_S32, -1, -3).i, -1);
    ck_assert_int_eq(eval2(RP_ADD, CPU_PRED, 1, 1).i, 1);
    struct cpu_num f = cpu_num_convert(CPU_F32, CPU_S8, (struct cpu_num){.re = 1e9});
    ck_assert_int_eq(f.i, 127);
    f = cpu_num_convert(CPU_F32, CPU_U32, (struct cpu_num){.re = NAN});
    ck_assert_int_eq(f.i, 0);
    struct rp_ins max = {.op = RP_MAX, .dt = CPU_F32};
    struct cpu_num r = rp_eval(&max, (enum cpu_dt[]){CPU_F32, CPU_F32}, (struct cpu_num[]){{.re = -0.0}, {.re = 0.0}});
    ck_assert(!signbit(r.re));
    r = rp_eval(&max, (enum cpu_dt[]){CPU_F32, CPU_F32}, (struct cpu_num[]){{.re = 1}, {.re = NAN}});
    ck_assert(isnan(r.re));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rowprog");
    TCase *c = tcase_create("rowprog");
    tcase_add_test(c, prints_what_it_reads);
    tcase_add_test(c, runs_by_rows);
    tcase_add_test(c, runs_by_columns);
    tcase_add_test(c, refuses_what_is_wrong);
    tcase_add_test(c, integers_as_stablehlo_has_them);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
