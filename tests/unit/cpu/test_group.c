/* Where members of a group meet: by kind, channel and who; parcels; waits that nobody would end. */
#include "runtime/cpu/group.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, ROUNDS = 200 };

struct member {
    struct cpu_rendezvous *g;
    int64_t rank;
    int rounds, rc;
    int64_t sum;
    struct nf_error err;
    pthread_t thread;
};

static struct cpu_rendezvous *start(struct member *m, void *(*fn)(void *))
{
    struct cpu_rendezvous *g = cpu_group_new(MEMBERS);
    for (int i = 0; i < MEMBERS; i++) {
        m[i].g = g;
        m[i].rank = i;
        ck_assert_int_eq(pthread_create(&m[i].thread, NULL, fn, &m[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++) pthread_join(m[i].thread, NULL);
    return g;
}

/* Everybody's number of the pairs 0, 2 and 1, 3, as often as each pair likes. */
static void *pairs(void *arg)
{
    struct member *m = arg;
    int64_t ids[2] = {m->rank % 2, m->rank % 2 + 2};
    for (int64_t i = 0; i < m->rounds && !m->rc; i++) {
        struct cpu_meeting *met;
        int64_t mine = m->rank + i;
        m->rc = cpu_group_meet(m->g, 1, 7, ids, 2, (uint32_t)(m->rank / 2), &mine, &met, &m->err);
        if (m->rc) break;
        m->sum += *(const int64_t *)cpu_meeting_shown(met, 0) - *(const int64_t *)cpu_meeting_shown(met, 1);
        cpu_group_part(m->g, met);
    }
    cpu_group_end(m->g, m->rc != 0);
    return NULL;
}

START_TEST(test_disjoint_groups_meet_as_often_as_each_likes)
{
    struct member m[MEMBERS] = {{.rounds = ROUNDS}, {.rounds = 3}, {.rounds = ROUNDS}, {.rounds = 3}};
    struct cpu_rendezvous *g = start(m, pairs);
    for (int i = 0; i < MEMBERS; i++) {
        ck_assert_int_eq(m[i].rc, 0);
        ck_assert_int_eq(m[i].sum, -2 * m[i].rounds);
    }
    cpu_group_leave(g);
}
END_TEST

START_TEST(test_who_waits_for_one_that_has_ended_is_told)
{
    struct member m[MEMBERS] = {{.rounds = 3}, {.rounds = 3}, {.rounds = 2}, {.rounds = 3}};
    struct cpu_rendezvous *g = start(m, pairs);
    ck_assert_int_eq(m[0].rc, NF_EGRAPH);
    ck_assert_ptr_nonnull(strstr(m[0].err.message, "not every member of a group"));
    cpu_group_leave(g);
}
END_TEST

static void *parcel(int64_t v)
{
    int64_t *p = malloc(sizeof *p);
    *p = v;
    return p;
}

/* Round a ring; then all wait for what nobody sends. */
static void *ring(void *arg)
{
    struct member *m = arg;
    void *p;
    for (int64_t i = 0; i < ROUNDS && !m->rc; i++) {
        cpu_group_send(m->g, 3, (m->rank + 1) % MEMBERS, parcel(i));
        m->rc = cpu_group_receive(m->g, 3, m->rank, &p, &m->err);
        if (m->rc) break;
        m->sum += *(int64_t *)p == i; /* in the order in which they went */
        free(p);
    }
    if (!m->rc) m->rc = cpu_group_receive(m->g, 4, m->rank, &p, &m->err);
    cpu_group_end(m->g, m->rc != 0);
    return NULL;
}

START_TEST(test_parcels_come_in_order_and_a_wait_for_none_ends)
{
    struct member m[MEMBERS] = {{0}};
    struct cpu_rendezvous *g = start(m, ring);
    for (int i = 0; i < MEMBERS; i++) {
        ck_assert_int_eq(m[i].sum, ROUNDS);
        ck_assert_int_eq(m[i].rc, NF_EGRAPH);
    }
    cpu_group_send(g, 3, 1, parcel(0)); /* what nobody takes goes with the group */
    cpu_group_leave(g);
}
END_TEST

START_TEST(test_the_queue_of_inputs_is_in_order)
{
    struct cpu_rendezvous *g;
    struct nf_error err;
    ck_assert_int_eq(cpu_group_join("fed", 1, &g, &err), 0);
    cpu_group_feed(g, parcel(1));
    cpu_group_feed(g, parcel(2));
    for (int64_t i = 1; i <= 2; i++) {
        int64_t *p = cpu_group_fed(g);
        ck_assert_int_eq(*p, i);
        free(p);
    }
    ck_assert_ptr_null(cpu_group_fed(g));
    cpu_group_leave(g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cpu-group");
    TCase *t = tcase_create("group");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_disjoint_groups_meet_as_often_as_each_likes);
    tcase_add_test(t, test_who_waits_for_one_that_has_ended_is_told);
    tcase_add_test(t, test_parcels_come_in_order_and_a_wait_for_none_ends);
    tcase_add_test(t, test_the_queue_of_inputs_is_in_order);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
