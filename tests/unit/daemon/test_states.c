/* The table of states, as a graph: whatever state a job is in, it can end, and every state can be reached. */
#include "daemon/job.h"

#include <check.h>

#define B(sym) (1u << JOB_##sym)
static const uint32_t next_of[JOB_STATE_MAX] = {
#define JOB_STATE(sym, name, next) [JOB_##sym] = next,
#include "daemon/job_states.def"
#undef JOB_STATE
};

static uint32_t reach(enum job_state from)
{
    uint32_t set = 1u << from, before = 0;
    while (set != before) {
        before = set;
        for (unsigned s = 0; s < JOB_STATE_MAX; s++)
            if (set & (1u << s))
                set |= next_of[s];
    }
    return set;
}

START_TEST(every_state_is_reached)
{
    ck_assert_uint_eq(reach(JOB_RECEIVE), (1u << JOB_STATE_MAX) - 1);
}
END_TEST

START_TEST(every_job_can_fail_and_be_cancelled)
{
    for (unsigned s = 0; s < JOB_STATE_MAX; s++) {
        if (job_state_terminal((enum job_state)s)) {
            ck_assert_uint_eq(next_of[s], 0);
            continue;
        }
        ck_assert_msg(next_of[s] & B(FAILED), "%s", job_state_name((enum job_state)s));
        ck_assert_msg(next_of[s] & B(CANCELLED), "%s", job_state_name((enum job_state)s));
        ck_assert_msg(reach((enum job_state)s) & B(DONE), "%s", job_state_name((enum job_state)s));
    }
}
END_TEST

START_TEST(names_are_words)
{
    for (unsigned s = 0; s < JOB_STATE_MAX; s++) {
        const char *name = job_state_name((enum job_state)s);
        ck_assert(name[0] && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name));
        for (unsigned k = 0; k < s; k++)
            ck_assert_str_ne(name, job_state_name((enum job_state)k));
    }
    ck_assert_str_eq(job_state_name(JOB_STATE_MAX), "?");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon-states");
    TCase *t = tcase_create("states");
    tcase_add_test(t, every_state_is_reached);
    tcase_add_test(t, every_job_can_fail_and_be_cancelled);
    tcase_add_test(t, names_are_words);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
