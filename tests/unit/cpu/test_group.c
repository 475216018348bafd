/* Where members of a group meet: by kind, channel and who; parcels; waits that nobody would end. */
#include "runtime/cpu/group.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMBERS = 4, ROUNDS = 200 };

struct member {
    struct cpu_rendezvous *g;
    struct cpu_turn turn;
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
        m[i].turn = (struct cpu_turn){.rank = (uint32_t)i};
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
        m->rc = cpu_group_meet(m->g, &m->turn, 1, 7, ids, 2, (uint32_t)(m->rank / 2), &mine, &met, &m->err);
        if (m->rc) break;
        m->sum += *(const int64_t *)cpu_meeting_shown(met, 0) - *(const int64_t *)cpu_meeting_shown(met, 1);
        cpu_group_part(m->g, met);
    }
    cpu_group_end(m->g, &m->turn, m->rc != 0);
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
        cpu_group_send(m->g, &m->turn, 3, (m->rank + 1) % MEMBERS, parcel(i));
        m->rc = cpu_group_receive(m->g, &m->turn, 3, m->rank, &p, &m->err);
        if (m->rc) break;
        m->sum += *(int64_t *)p == i; /* in the order in which they went */
        free(p);
    }
    if (!m->rc) m->rc = cpu_group_receive(m->g, &m->turn, 4, m->rank, &p, &m->err);
    cpu_group_end(m->g, &m->turn, m->rc != 0);
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
    cpu_group_send(g, &m[0].turn, 3, 1, parcel(0)); /* what nobody takes goes with the group */
    cpu_group_leave(g);
}
END_TEST

/* Three wait for the fourth, which fails. */
static void *waits_or_fails(void *arg)
{
    struct member *m = arg;
    int64_t ids[MEMBERS] = {0, 1, 2, 3};
    struct cpu_meeting *met;
    if (m->rank == MEMBERS - 1) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    m->rc = m->rank == MEMBERS - 1 ? -1 : cpu_group_meet(m->g, &m->turn, 1, 7, ids, MEMBERS, (uint32_t)m->rank, &m->rank, &met, &m->err);
    cpu_group_end(m->g, &m->turn, m->rc != 0);
    return NULL;
}

START_TEST(test_who_waits_when_another_fails_is_told_that)
{
    struct member m[MEMBERS] = {{0}};
    struct cpu_rendezvous *g = start(m, waits_or_fails);
    for (int i = 0; i < MEMBERS - 1; i++) {
        ck_assert_int_eq(m[i].rc, NF_EINTERNAL);
        ck_assert_str_eq(m[i].err.message, "another device failed");
    }
    cpu_group_leave(g);
}
END_TEST

/* Waits for a parcel, and does not end. */
static void *receives(void *arg)
{
    struct member *m = arg;
    void *p;
    m->rc = cpu_group_receive(m->g, &m->turn, 4, 0, &p, &m->err);
    return NULL;
}

/* A turn that takes what it has sent itself. */
static void posts(struct cpu_rendezvous *g, const struct cpu_turn *t)
{
    struct nf_error err;
    void *p;
    cpu_group_send(g, t, 5, 0, parcel(9));
    ck_assert_int_eq(cpu_group_receive(g, t, 5, 0, &p, &err), 0);
    ck_assert_int_eq(*(int64_t *)p, 9);
    free(p);
}

START_TEST(test_a_group_of_one_is_clean_for_who_begins_after_a_failure)
{
    struct member a = {0};
    struct nf_error err;
    struct cpu_turn b, c;
    ck_assert_int_eq(cpu_group_join("one", 1, &a.g, &err), 0);
    cpu_group_begin(a.g, 0, &a.turn);
    cpu_group_begin(a.g, 0, &b);
    ck_assert_int_eq(pthread_create(&a.thread, NULL, receives, &a), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    cpu_group_end(a.g, &b, true);
    cpu_group_begin(a.g, 0, &c); /* the first one still runs */
    posts(a.g, &c);
    pthread_join(a.thread, NULL);
    ck_assert_int_eq(a.rc, NF_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(a.err.message, "another member of the group"));
    cpu_group_end(a.g, &a.turn, true);
    posts(a.g, &c);
    cpu_group_end(a.g, &c, false);
    cpu_group_leave(a.g);
}
END_TEST

START_TEST(test_a_group_of_one_is_clean_for_who_begins_after_a_wait_for_none)
{
    struct cpu_rendezvous *g;
    struct nf_error err;
    struct cpu_turn a, c;
    void *p = NULL;
    ck_assert_int_eq(cpu_group_join("one", 1, &g, &err), 0);
    cpu_group_begin(g, 0, &a);
    cpu_group_send(g, &a, 6, 0, parcel(1));
    ck_assert_int_eq(cpu_group_receive(g, &a, 4, 0, &p, &err), NF_EGRAPH);
    ck_assert_ptr_null(p);
    cpu_group_begin(g, 0, &c);
    posts(g, &c);
    cpu_group_end(g, &a, true);
    posts(g, &c);
    ck_assert_int_eq(cpu_group_receive(g, &c, 6, 0, &p, &err), NF_EGRAPH); /* not what the failed one sent; and a new wait for none ends too */
    cpu_group_end(g, &c, true);
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

/* ---- groups that last: rounds ---- */

/* Shows its rank to all, in a turn that has begun; the sum of what they show. */
static int meet_all(struct cpu_rendezvous *g, const struct cpu_turn *t, uint32_t size, int64_t *ret_sum, struct nf_error *err)
{
    int64_t ids[MEMBERS] = {0, 1, 2, 3}, mine = t->rank;
    struct cpu_meeting *met;
    int rc = cpu_group_meet(g, t, 1, 1, ids, size, t->rank, &mine, &met, err);
    if (rc) return rc;
    *ret_sum = 0;
    for (uint32_t i = 0; i < size; i++) *ret_sum += *(const int64_t *)cpu_meeting_shown(met, i);
    cpu_group_part(g, met);
    return 0;
}

/* A turn that meets all, on a thread of its own. */
static void *one_turn(void *arg)
{
    struct member *m = arg;
    cpu_group_begin(m->g, (uint32_t)m->rank, &m->turn);
    m->rc = meet_all(m->g, &m->turn, (uint32_t)m->rounds, &m->sum, &m->err);
    cpu_group_end(m->g, &m->turn, m->rc != 0);
    return NULL;
}

static void all_meet(struct cpu_rendezvous *g, uint32_t size)
{
    struct member m[MEMBERS] = {{0}};
    for (uint32_t i = 0; i < size; i++) {
        m[i] = (struct member){.g = g, .rank = i, .rounds = (int)size};
        ck_assert_int_eq(pthread_create(&m[i].thread, NULL, one_turn, &m[i]), 0);
    }
    for (uint32_t i = 0; i < size; i++) {
        pthread_join(m[i].thread, NULL);
        ck_assert_msg(m[i].rc == 0, "%s", m[i].err.message);
        ck_assert_int_eq(m[i].sum, size * (size - 1) / 2);
    }
}

static void fails(struct cpu_rendezvous *g, uint32_t rank)
{
    struct cpu_turn t;
    cpu_group_begin(g, rank, &t);
    cpu_group_end(g, &t, true);
}

static void is_told(struct cpu_rendezvous *g, uint32_t rank, uint32_t size)
{
    struct member m = {.g = g, .rank = rank, .rounds = (int)size};
    one_turn(&m); /* here: it must not wait */
    ck_assert_int_eq(m.rc, NF_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(m.err.message, "another member of the group"));
}

START_TEST(test_who_begins_when_another_has_failed_is_told)
{
    struct cpu_rendezvous *g;
    struct nf_error err;
    ck_assert_int_eq(cpu_group_join("late", 3, &g, &err), 0);
    all_meet(g, 3);
    fails(g, 1);
    is_told(g, 0, 3);
    is_told(g, 2, 3);
    all_meet(g, 3);
    for (int i = 0; i < 3; i++) fails(g, 2); /* rounds of its own, which the others have not come to yet */
    for (int i = 0; i < 3; i++) {
        is_told(g, 0, 3);
        is_told(g, 1, 3);
    }
    all_meet(g, 3);
    cpu_group_leave(g);
}
END_TEST

START_TEST(test_who_has_done_its_part_is_not_told_later)
{
    struct cpu_rendezvous *g;
    struct nf_error err;
    struct cpu_turn t;
    ck_assert_int_eq(cpu_group_join("early", 2, &g, &err), 0);
    cpu_group_begin(g, 0, &t); /* nothing to meet for */
    cpu_group_end(g, &t, false);
    fails(g, 1);
    all_meet(g, 2);
    cpu_group_leave(g);
}
END_TEST

/* A member that ran more often, alone, is in the round of those whom it met. */
START_TEST(test_who_meets_is_in_one_round)
{
    struct cpu_rendezvous *g;
    struct nf_error err;
    struct cpu_turn t;
    ck_assert_int_eq(cpu_group_join("more", 2, &g, &err), 0);
    for (int i = 0; i < 3; i++) {
        cpu_group_begin(g, 0, &t);
        cpu_group_end(g, &t, false);
    }
    all_meet(g, 2);
    fails(g, 1);
    is_told(g, 0, 2);
    all_meet(g, 2);
    cpu_group_leave(g);
}
END_TEST

START_TEST(test_what_a_failed_round_sent_is_gone)
{
    struct cpu_rendezvous *g;
    struct nf_error err;
    struct cpu_turn a, b;
    void *p;
    ck_assert_int_eq(cpu_group_join("mail", 2, &g, &err), 0);
    cpu_group_begin(g, 0, &a);
    cpu_group_send(g, &a, 5, 1, parcel(1));
    fails(g, 1);
    cpu_group_send(g, &a, 5, 1, parcel(2));
    ck_assert_int_eq(cpu_group_receive(g, &a, 6, 0, &p, &err), NF_EINTERNAL);
    cpu_group_end(g, &a, true);
    cpu_group_begin(g, 0, &a);
    cpu_group_begin(g, 1, &b);
    cpu_group_send(g, &a, 5, 1, parcel(3));
    ck_assert_int_eq(cpu_group_receive(g, &b, 5, 1, &p, &err), 0);
    ck_assert_int_eq(*(int64_t *)p, 3);
    free(p);
    cpu_group_end(g, &a, false);
    cpu_group_end(g, &b, false);
    cpu_group_leave(g);
}
END_TEST

/* Members that do not wait for one another between rounds. In a round some fail before they meet: then it fails for all, else for none. */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}
static bool breaks_off(int64_t rank, int round) { return mixed((uint64_t)(round * MEMBERS + rank + 1)) % 7 == 0; }

static void *many_rounds(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < m->rounds; i++) {
        bool any = false;
        for (int64_t r = 0; r < MEMBERS; r++) any = any || breaks_off(r, i);
        for (uint64_t k = mixed((uint64_t)(m->rank * 7919 + i)) % 20; k; k--) sched_yield();
        cpu_group_begin(m->g, (uint32_t)m->rank, &m->turn);
        int rc = breaks_off(m->rank, i) ? -1 : meet_all(m->g, &m->turn, MEMBERS, &m->sum, &m->err);
        cpu_group_end(m->g, &m->turn, rc != 0);
        m->rc += (rc != 0) != any;
    }
    return NULL;
}

START_TEST(test_a_round_fails_for_all_or_for_none)
{
    struct member m[MEMBERS];
    struct nf_error err;
    for (int i = 0; i < MEMBERS; i++) {
        m[i] = (struct member){.rank = i, .rounds = ROUNDS};
        ck_assert_int_eq(cpu_group_join("rounds", MEMBERS, &m[i].g, &err), 0);
    }
    for (int i = 0; i < MEMBERS; i++) ck_assert_int_eq(pthread_create(&m[i].thread, NULL, many_rounds, &m[i]), 0);
    for (int i = 0; i < MEMBERS; i++) pthread_join(m[i].thread, NULL);
    for (int i = 0; i < MEMBERS; i++) {
        ck_assert_int_eq(m[i].rc, 0);
        cpu_group_leave(m[i].g);
    }
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
    tcase_add_test(t, test_who_waits_when_another_fails_is_told_that);
    tcase_add_test(t, test_a_group_of_one_is_clean_for_who_begins_after_a_failure);
    tcase_add_test(t, test_a_group_of_one_is_clean_for_who_begins_after_a_wait_for_none);
    tcase_add_test(t, test_the_queue_of_inputs_is_in_order);
    tcase_add_test(t, test_who_begins_when_another_has_failed_is_told);
    tcase_add_test(t, test_who_has_done_its_part_is_not_told_later);
    tcase_add_test(t, test_who_meets_is_in_one_round);
    tcase_add_test(t, test_what_a_failed_round_sent_is_gone);
    tcase_add_test(t, test_a_round_fails_for_all_or_for_none);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
