/* steps_group.c: collectives between the members of a group (group.h), and what goes from one to another. Every member computes its own result
 * from what the others show, in order of the group's list, so all get the same bits. Other members may run other programs: what they show and
 * send is compared with what is expected here. */
#include "runtime/array.h"
#include "runtime/cpu/group.h"
#include "runtime/cpu/steps.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* attributes: kind and block of the reducer, which (above), dim (gathered, scattered, or joined), split dim, number of groups,
 * members of a group, channel, then the ranks group by group (-1: nobody); COLL_PERMUTE: pairs (source, target) as groups of 2, and dim says who meet:
 * 1 the partitions of a replica, 0 the replicas of a partition. One input and one output each, all brought to one meeting. COLL_BROADCAST and COLL_REDUCE may have one input more, which holds the
 * place of the root in the group for each of the others; without it the root is the first. */
int step_collective__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    int64_t which = s->attr[2], groups = s->attr[5], members = s->attr[6];
    bool roots = (which == COLL_BROADCAST || which == COLL_REDUCE) && s->nin == s->nout + 1;
    if ((s->nin != s->nout && !roots) || which < 0 || which >= COLL_MAX || groups < 0 || members < 0 || groups > PLAN_ATTRS_MAX || members > PLAN_ATTRS_MAX ||
        s->nattr != 8 + (uint64_t)(groups * members) || (which == COLL_PERMUTE && groups && members != 2))
        BAD("its groups are not understood");
    for (uint32_t i = 8; i < s->nattr; i++)
        if (s->attr[i] < -1 || s->attr[i] > INT32_MAX) BAD("there is no member %" PRId64, s->attr[i]);
    for (int64_t i = 0; which != COLL_PERMUTE && i < groups; i++)
        if (named_twice(s->attr + 8 + i * members, (uint32_t)members)) BAD("group %" PRId64 " names a member twice", i);
    if (roots && (step_in(p, s, s->nout)->dt != CPU_S32 || step_in(p, s, s->nout)->count != s->nout)) BAD("its roots are not understood");
    for (uint32_t i = 0; i < s->nout; i++) {
        const struct plan_value *v = step_in(p, s, i), *o = step_out(p, s, i);
        int64_t dim = s->attr[3], split = s->attr[4];
        if (v->dt != o->dt || v->rank != o->rank) BAD("result %u has another type", i);
        if ((which == COLL_ALL_REDUCE || which == COLL_PERMUTE || which == COLL_BROADCAST || which == COLL_REDUCE) && !same_shape(v, o)) BAD("result %u has another shape", i);
        if (which == COLL_ALL_GATHER || which == COLL_REDUCE_SCATTER || which == COLL_ALL_TO_ALL) {
            if (dim < 0 || dim >= v->rank || split < 0 || split >= v->rank || members < 1) BAD("there is no dim %" PRId64, dim);
            for (int d = 0; d < v->rank; d++) {
                int64_t want = v->dims[d];
                if (which == COLL_ALL_GATHER && d == dim) want *= members;
                if (which == COLL_REDUCE_SCATTER && d == dim) want = want % members ? -1 : want / members;
                if (which == COLL_ALL_TO_ALL && d == split) want = want % members ? -1 : want / members;
                if (which == COLL_ALL_TO_ALL && d == dim) want *= members;
                if (o->dims[d] != want) BAD("result %u has another shape", i);
            }
        }
        if (which == COLL_ALL_REDUCE || which == COLL_REDUCE_SCATTER || which == COLL_REDUCE) {
            if (s->attr[0] >= RP_RED_MAX || (s->attr[0] < 0 && s->attr[0] != BODY_BLOCK)) BAD("there is no reducer %" PRId64, s->attr[0]);
            const struct plan_block *b = &p->block[s->attr[1] > 0 && s->attr[1] < p->nblocks ? s->attr[1] : 0];
            if (s->attr[0] == BODY_BLOCK && (b->nparam != 2 || b->nresult != 1 || p->value[b->param[0]].dt != v->dt || p->value[b->param[1]].dt != v->dt ||
                                             p->value[b->result[0]].dt != v->dt || p->value[b->param[0]].count != 1 || p->value[b->param[1]].count != 1 ||
                                             p->value[b->result[0]].count != 1 || p->value[b->param[0]].where != PLAN_ARENA || p->value[b->param[1]].where != PLAN_ARENA))
                BAD("the reducer's signature is another");
        }
    }
    return 0;
}

static int fold(struct cpu_exec *x, const struct plan_step *s, enum cpu_dt t, char *acc, const char *el, int64_t n, struct nf_error *err)
{
    if (s->attr[0] >= 0) {
        cpu_combine(t, (int)s->attr[0], acc, el, n, 1);
        return 0;
    }
    const struct plan_block *b = &x->plan->block[s->attr[1]];
    size_t size = cpu_dt_bytes(t);
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        memcpy(x->ptr[b->param[0]], acc + i * (int64_t)size, size);
        memcpy(x->ptr[b->param[1]], el + i * (int64_t)size, size);
        rc = cpu_exec_block(x, (uint32_t)s->attr[1], err);
        if (!rc) memcpy(acc + i * (int64_t)size, x->ptr[b->result[0]], size);
    }
    return rc;
}

/* Copies part `part` of `parts` along `dim` of `from` to place `place` along `into` of `to`. */
static void move_part(const struct plan_value *from, const char *src, int64_t dim, int64_t part, const struct plan_value *to, char *dst, int64_t into, int64_t place,
                      int64_t parts)
{
    struct cpu_copy_dim d[PLAN_RANK_MAX];
    int64_t fs[PLAN_RANK_MAX], ts[PLAN_RANK_MAX], size = (int64_t)cpu_dt_bytes((enum cpu_dt)from->dt);
    row_major(from, fs);
    row_major(to, ts);
    for (int i = 0; i < from->rank; i++) d[i] = (struct cpu_copy_dim){i == dim ? from->dims[i] / parts : from->dims[i], fs[i], ts[i]};
    int64_t piece = dim >= 0 ? from->dims[dim] / parts * part * fs[dim] : 0, step = into >= 0 ? d[into].n * place * ts[into] : 0;
    cpu_copy(dst + step * size, src + piece * size, (size_t)size, from->rank, d);
}

/* Each member's, by value. */
struct shown {
    const struct plan_value *type;
    char *data;
};

/* The members that this one meets, in order; returns how many, 0: it is in no group. */
static uint32_t who_meet(const struct cpu_exec *x, const struct plan_step *s, int64_t me, int64_t *ret)
{
    const int64_t *ids = s->attr + 8, groups = s->attr[5], members = s->attr[6];
    if (s->attr[2] == COLL_PERMUTE) {
        uint32_t n = s->attr[3] ? x->partitions : x->replicas;
        for (uint32_t i = 0; i < n; i++) ret[i] = s->attr[3] ? (int64_t)x->replica * x->partitions + i : (int64_t)i * x->partitions + x->partition;
        return n;
    }
    for (int64_t i = 0; i < groups; i++) {
        if (in_list(ids + i * members, (uint32_t)members, me) == members) continue;
        uint32_t n = 0;
        for (int64_t k = 0; k < members; k++)
            if (ids[i * members + k] >= 0) ret[n++] = ids[i * members + k];
        return n;
    }
    return 0;
}

/* Value k of all n that met, of whom this one is at place `at`. */
static int one_result(struct cpu_exec *x, const struct plan_step *s, uint32_t k, const struct shown *const *all, const int64_t *who, uint32_t n, uint32_t at, int64_t me,
                      struct nf_error *err)
{
    int64_t which = s->attr[2], dim = s->attr[3], split = s->attr[4], root = 0;
    const struct plan_value *v = step_in(x->plan, s, k), *o = step_out(x->plan, s, k);
    char *dst = x->ptr[s->out[k]];
    int rc = 0;
    if (s->nin > s->nout && n) {
        int32_t given;
        memcpy(&given, (const char *)x->ptr[s->in[s->nout]] + 4 * k, 4);
        if (given < 0 || (uint32_t)given >= n) return nf_fail(err, NF_EGRAPH, "the root %d is not in the group of %u", given, n);
        root = given;
    }
    switch (which) {
    case COLL_ALL_REDUCE: case COLL_REDUCE:
        if (n == 0 || (which == COLL_REDUCE && at != root)) break;
        memcpy(dst, all[0][k].data, (size_t)o->bytes);
        for (uint32_t i = 1; i < n && !rc; i++) rc = fold(x, s, (enum cpu_dt)v->dt, dst, all[i][k].data, v->count, err);
        return rc;
    case COLL_REDUCE_SCATTER: {
        char *part = nf_try_alloc((size_t)o->bytes + 1);
        if (!part) return nf_fail(err, NF_ENOMEM, "no memory for a reduction");
        for (uint32_t i = 0; i < n && !rc; i++) {
            move_part(v, all[i][k].data, dim, at, o, i ? part : dst, -1, 0, n);
            if (i) rc = fold(x, s, (enum cpu_dt)v->dt, dst, part, o->count, err);
        }
        free(part);
        return rc;
    }
    case COLL_ALL_GATHER:
        for (uint32_t i = 0; i < n; i++) move_part(v, all[i][k].data, -1, 0, o, dst, dim, i, 1);
        if (n) return 0;
        break;
    case COLL_ALL_TO_ALL:
        for (uint32_t i = 0; i < n; i++) move_part(v, all[i][k].data, split, at, o, dst, dim, i, n);
        return 0;
    case COLL_PERMUTE:
        for (int64_t i = 0; i < s->attr[5]; i++) {
            const int64_t *pair = s->attr + 8 + 2 * i;
            uint32_t from = pair[1] == me ? in_list(who, n, pair[0]) : n;
            if (from == n) continue;
            memcpy(dst, all[from][k].data, (size_t)o->bytes);
            return 0;
        }
        break;
    default:
        if (n == 0) break;
        memcpy(dst, all[root][k].data, (size_t)o->bytes);
        return 0;
    }
    memset(dst, 0, (size_t)o->bytes); /* nobody gives this one anything */
    return 0;
}

int step_collective__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    int64_t which = s->attr[2], groups = s->attr[5], members = s->attr[6], me = (int64_t)x->replica * x->partitions + x->partition;
    int64_t size = x->group ? (int64_t)cpu_group_size(x->group) : 1;
    for (int64_t i = 8; i < 8 + groups * members; i++)
        if (s->attr[i] >= size)
            return nf_fail(err, NF_EINVAL, "the program needs %" PRId64 " devices that run together, this one runs among %" PRId64, s->attr[i] + 1, size);
    int64_t *who = nf_alloc_array(NF_MAX((size_t)size, (size_t)members) + 1, sizeof *who);
    struct shown *mine = nf_alloc_array(s->nout, sizeof *mine);
    const struct shown **all = nf_alloc_array((size_t)size + 1, sizeof *all);
    struct cpu_meeting *m = NULL;
    uint32_t n = who_meet(x, s, me, who), at = in_list(who, n, me);
    int rc = 0;
    if ((which == COLL_REDUCE_SCATTER || which == COLL_ALL_TO_ALL || (which == COLL_ALL_GATHER && members > 1)) && n != members)
        rc = nf_fail(err, NF_EGRAPH, "the array does not split over the group: %u members, not %" PRId64, n, members);
    for (uint32_t k = 0; k < s->nout; k++) mine[k] = (struct shown){step_in(x->plan, s, k), x->ptr[s->in[k]]};
    all[0] = mine;
    if (!rc && n && x->group) rc = cpu_group_meet(x->group, &x->turn, (int)which << 16 | (int)s->nout, s->attr[7], who, n, at, mine, &m, err);
    for (uint32_t i = 0; i < n && m; i++) {
        all[i] = cpu_meeting_shown(m, i);
        for (uint32_t k = 0; k < s->nout && !rc; k++)
            if (all[i][k].type->dt != mine[k].type->dt || !same_shape(all[i][k].type, mine[k].type))
                rc = nf_fail(err, NF_EGRAPH, "members of the group bring arrays of different types");
    }
    for (uint32_t k = 0; k < s->nout && !rc; k++) rc = one_result(x, s, k, all, who, n, at, me, err);
    if (m) cpu_group_part(x->group, m);
    free(all);
    free(mine);
    free(who);
    return rc;
}

/* ---- parcels ---- */

struct parcel {
    size_t n;
    struct {
        uint8_t dt, rank;
        int64_t dims[PLAN_RANK_MAX];
        size_t at, bytes;
    } v[];                      /* then the bytes, each value at `at` from the start */
};

static struct parcel *new_parcel(size_t n, size_t bytes)
{
    struct parcel *p = nf_try_alloc(sizeof *p + n * sizeof *p->v + bytes);
    if (p) p->n = n;
    return p;
}

void *cpu_parcel_of(const struct rt_array *values, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += values[i].bytes;
    struct parcel *p = new_parcel(n, bytes);
    for (size_t i = 0, at = sizeof *p + n * sizeof *p->v; p && i < n; i++) {
        p->v[i].dt = (uint8_t)cpu_dt_of(values[i].dtype);
        p->v[i].rank = (uint8_t)values[i].rank;
        memcpy(p->v[i].dims, values[i].dims, NF_MIN((size_t)values[i].rank, (size_t)PLAN_RANK_MAX) * sizeof *p->v[i].dims);
        p->v[i].at = at;
        p->v[i].bytes = values[i].bytes;
        if (values[i].bytes) memcpy((char *)p + at, values[i].data, values[i].bytes);
        at += values[i].bytes;
    }
    return p;
}

/* Into the outputs of the step; the parcel goes. */
static int unpack(struct cpu_exec *x, const struct plan_step *s, struct parcel *p, struct nf_error *err)
{
    int rc = 0;
    if (p->n != s->nout) rc = nf_fail(err, NF_EGRAPH, "%zu values were sent where %u are received", p->n, s->nout);
    for (uint32_t i = 0; i < s->nout && !rc; i++) {
        const struct plan_value *o = step_out(x->plan, s, i);
        if (p->v[i].dt != o->dt || p->v[i].rank != o->rank || memcmp(p->v[i].dims, o->dims, o->rank * sizeof *o->dims) != 0 || p->v[i].bytes != (size_t)o->bytes)
            rc = nf_fail(err, NF_EGRAPH, "value %u was sent with another type than it is received with", i);
        else if (o->bytes) memcpy(x->ptr[s->out[i]], (const char *)p + p->v[i].at, (size_t)o->bytes);
    }
    free(p);
    return rc;
}

/* attributes: channel, then pairs of who sends and who receives; none: whoever receives on the channel. */
int step_send__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    (void)p;
    if (s->nattr % 2 == 0) BAD("its pairs are not understood");
    return 0;
}

int step_recv__check(const struct plan *p, const struct plan_step *s, struct nf_error *err) { return step_send__check(p, s, err); }

/* With whom: -1 anybody, -2 nobody. */
static int64_t partner(const struct cpu_exec *x, const struct plan_step *s, bool sending)
{
    int64_t me = (int64_t)x->replica * x->partitions + x->partition;
    for (uint32_t i = 1; i < s->nattr; i += 2)
        if (s->attr[sending ? i : i + 1] == me) return s->attr[sending ? i + 1 : i];
    return s->nattr > 1 ? -2 : -1;
}

int step_send__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    size_t bytes = 0;
    if (!x->group) return nf_fail(err, NF_EUNSUPPORTED, "there is nobody to receive: the program runs alone");
    int64_t to = partner(x, s, true);
    if (to == -2) return 0;
    for (uint32_t i = 0; i < s->nin; i++) bytes += (size_t)step_in(x->plan, s, i)->bytes;
    struct parcel *p = new_parcel(s->nin, bytes);
    if (!p) return nf_fail(err, NF_ENOMEM, "no memory for the %zu bytes that are sent", bytes);
    size_t at = sizeof *p + s->nin * sizeof *p->v;
    for (uint32_t i = 0; i < s->nin; i++) {
        const struct plan_value *v = step_in(x->plan, s, i);
        p->v[i].dt = v->dt;
        p->v[i].rank = v->rank;
        memcpy(p->v[i].dims, v->dims, v->rank * sizeof *v->dims);
        p->v[i].at = at;
        p->v[i].bytes = (size_t)v->bytes;
        if (v->bytes) memcpy((char *)p + at, x->ptr[s->in[i]], (size_t)v->bytes);
        at += (size_t)v->bytes;
    }
    cpu_group_send(x->group, &x->turn, s->attr[0], to, p);
    return 0;
}

int step_recv__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    void *p = NULL;
    if (!x->group) return nf_fail(err, NF_EUNSUPPORTED, "there is nobody to send: the program runs alone");
    if (partner(x, s, false) == -2) {
        for (uint32_t i = 0; i < s->nout; i++) memset(x->ptr[s->out[i]], 0, (size_t)step_out(x->plan, s, i)->bytes);
        return 0;
    }
    int rc = cpu_group_receive(x->group, &x->turn, s->attr[0], (int64_t)x->replica * x->partitions + x->partition, &p, err);
    return rc ? rc : unpack(x, s, p, err);
}

/* No attributes. */
int step_infeed__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    (void)p;
    if (s->nattr) BAD("it takes no attributes");
    return 0;
}

int step_infeed__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    void *p = x->group ? cpu_group_fed(x->group) : NULL;
    return p ? unpack(x, s, p, err) : nf_fail(err, NF_EUNSUPPORTED, "the queue of inputs is empty");
}
