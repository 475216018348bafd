/* steps_group.c: collectives between the members of a group (group.h). Every member computes its own result from what the
 * others show, in order of the group's list, so all get the same bits. */
#include "runtime/cpu/group.h"
#include "runtime/cpu/steps.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, PERMUTE, BROADCAST, REDUCE, COLLECTIVE_MAX };

/* attributes: kind and block of the reducer, which (above), dim (gathered, scattered, or joined), split dim, number of groups,
 * members of a group, then the ranks group by group (-1: nobody); PERMUTE: pairs (source, target) as groups of 2.
 * One input and one output each; several are done one after the other. BROADCAST and REDUCE may have one input more, which holds the
 * place of the root in the group for each of the others; without it the root is the first. */
int step_collective__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    int64_t which = s->attr[2], groups = s->attr[5], members = s->nattr > 6 ? s->attr[6] : -1;
    bool roots = (which == BROADCAST || which == REDUCE) && s->nin == s->nout + 1;
    if ((s->nin != s->nout && !roots) || which < 0 || which >= COLLECTIVE_MAX || groups < 0 || members < 0 || groups > PLAN_ATTRS_MAX || members > PLAN_ATTRS_MAX ||
        s->nattr != 7 + (uint64_t)(groups * members) || (which == PERMUTE && groups && members != 2))
        BAD("its groups are not understood");
    for (uint32_t i = 7; i < s->nattr; i++)
        if (s->attr[i] < -1 || s->attr[i] > INT32_MAX) BAD("there is no member %" PRId64, s->attr[i]);
    if (roots && (step_in(p, s, s->nout)->dt != CPU_S32 || step_in(p, s, s->nout)->count != s->nout)) BAD("its roots are not understood");
    for (uint32_t i = 0; i < s->nout; i++) {
        const struct plan_value *v = step_in(p, s, i), *o = step_out(p, s, i);
        int64_t dim = s->attr[3], split = s->attr[4];
        if (v->dt != o->dt || v->rank != o->rank) BAD("result %u has another type", i);
        if ((which == ALL_REDUCE || which == PERMUTE || which == BROADCAST || which == REDUCE) && !same_shape(v, o)) BAD("result %u has another shape", i);
        if (which == ALL_GATHER || which == REDUCE_SCATTER || which == ALL_TO_ALL) {
            if (dim < 0 || dim >= v->rank || split < 0 || split >= v->rank || members < 1) BAD("there is no dim %" PRId64, dim);
            for (int d = 0; d < v->rank; d++) {
                int64_t want = v->dims[d];
                if (which == ALL_GATHER && d == dim) want *= members;
                if (which == REDUCE_SCATTER && d == dim) want = want % members ? -1 : want / members;
                if (which == ALL_TO_ALL && d == split) want = want % members ? -1 : want / members;
                if (which == ALL_TO_ALL && d == dim) want *= members;
                if (o->dims[d] != want) BAD("result %u has another shape", i);
            }
        }
        if (which == ALL_REDUCE || which == REDUCE_SCATTER || which == REDUCE) {
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

int step_collective__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    int64_t which = s->attr[2], dim = s->attr[3], split = s->attr[4], groups = s->attr[5], members = s->attr[6];
    const int64_t *ids = s->attr + 7, *mine = NULL;
    int64_t me = (int64_t)x->replica * x->partitions + x->partition, at = 0, size = x->group ? (int64_t)cpu_group_size(x->group) : 1;
    for (int64_t i = 0; which != PERMUTE && i < groups * members; i++)
        if (ids[i] == me) {
            mine = ids + i / members * members;
            at = i % members;
        }
    int64_t count = 0;
    while (mine && count < members && mine[count] >= 0) count++;
    for (int64_t i = 0; i < groups * members; i++)
        if (ids[i] >= size) return nf_fail(err, NF_EINVAL, "the program needs %" PRId64 " devices that run together, this one runs among %" PRId64, ids[i] + 1, size);
    for (uint32_t k = 0; k < s->nout; k++) {
        const struct plan_value *v = step_in(x->plan, s, k), *o = step_out(x->plan, s, k);
        char *dst = x->ptr[s->out[k]];
        const void *alone[1] = {x->ptr[s->in[k]]};
        const void *const *all = alone;
        int64_t root = 0;
        if (s->nin > s->nout && mine) {
            int32_t given;
            memcpy(&given, (const char *)x->ptr[s->in[s->nout]] + 4 * k, 4);
            if (given < 0 || given >= count) return nf_fail(err, NF_EGRAPH, "the root %d is not in the group of %" PRId64, given, count);
            root = given;
        }
        int rc = x->group ? cpu_group_show(x->group, (uint32_t)me, x->ptr[s->in[k]], &all, err) : 0;
        if (rc) return rc;
        switch (which) {
        case ALL_REDUCE:
            if (mine) memcpy(dst, all[mine[0]], (size_t)o->bytes);
            for (int64_t i = 1; i < count && !rc; i++) rc = fold(x, s, (enum cpu_dt)v->dt, dst, all[mine[i]], v->count, err);
            break;
        case REDUCE_SCATTER: {
            char *part = nf_try_alloc((size_t)o->bytes + 1);
            if (!part) {
                rc = nf_fail(err, NF_ENOMEM, "no memory for a reduction");
                break;
            }
            for (int64_t i = 0; i < count && !rc; i++) {
                move_part(v, all[mine[i]], dim, at, o, i ? part : dst, -1, 0, members);
                if (i) rc = fold(x, s, (enum cpu_dt)v->dt, dst, part, o->count, err);
            }
            free(part);
            break;
        }
        case ALL_GATHER:
            for (int64_t i = 0; i < count; i++) move_part(v, all[mine[i]], -1, 0, o, dst, dim, i, 1);
            break;
        case ALL_TO_ALL:
            for (int64_t i = 0; i < count; i++) move_part(v, all[mine[i]], split, at, o, dst, dim, i, members);
            break;
        case PERMUTE:
            memset(dst, 0, (size_t)o->bytes);
            for (int64_t i = 0; i < groups; i++)
                if (ids[2 * i + 1] == me && ids[2 * i] >= 0) memcpy(dst, all[ids[2 * i]], (size_t)o->bytes);
            break;
        case REDUCE:
            if (!mine || at != root) {
                memset(dst, 0, (size_t)o->bytes);
                break;
            }
            memcpy(dst, all[mine[0]], (size_t)o->bytes);
            for (int64_t i = 1; i < count && !rc; i++) rc = fold(x, s, (enum cpu_dt)v->dt, dst, all[mine[i]], v->count, err);
            break;
        default:
            if (mine) memcpy(dst, all[mine[root]], (size_t)o->bytes);
            else memset(dst, 0, (size_t)o->bytes);
            break;
        }
        int left = x->group ? cpu_group_release(x->group, err) : 0;
        if (rc || left) return rc ? rc : left;
    }
    return 0;
}
