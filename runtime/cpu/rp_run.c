/* rp_run.c: runs a row program in C, lane by lane: the path for types and instructions that have no emitted code, and the
 * yardstick of the emitter's tests. Lanes go in groups; every instruction is done for a group before the next one. */
#include "runtime/cpu/rowprog.h"

#include <math.h>

enum { LANES = 32 };

struct run {
    const struct rp_prog *p;
    void *const *args;
    int64_t idx[RP_DIMS_MAX];        /* of the first lane; idx[nd-1] is moved by the lane */
    struct cpu_num (*val)[LANES];    /* by instruction */
    struct cpu_num (*acc)[LANES];    /* of reductions: one number (ROW, lane 0) or one a lane (COL) */
};

static int64_t offset(const struct run *r, int a)
{
    const struct rp_acc *x = &r->p->acc[a];
    int64_t o = x->base;
    for (int d = 0; d < r->p->nd; d++) o += x->stride[d] * r->idx[d];
    return o;
}

static char *address(const struct run *r, int a, int64_t element)
{
    const struct rp_acc *x = &r->p->acc[a];
    char *p = r->args[x->arg == RP_SCRATCH ? r->p->narg : x->arg];
    return p + element * (int64_t)cpu_dt_bytes(x->dt);
}

static struct cpu_num identity(int kind, enum cpu_dt t)
{
    struct cpu_num v = {0};
    bool sgn = cpu_dt_info[t].is_signed;
    int bits = cpu_dt_info[t].bits;
    if (kind == RP_PROD) {
        v.re = 1;
        v.i = 1;
    } else if (kind == RP_ALL) {
        v.i = t == CPU_PRED ? 1 : cpu_int_wrap(t, -1);
    } else if (kind == RP_RMAX || kind == RP_RMIN) {
        bool max = kind == RP_RMAX;
        v.re = max ? -INFINITY : INFINITY;
        if (sgn) v.i = max ? (bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1))) : (bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1);
        else v.i = max ? 0 : cpu_int_wrap(t, -1);
        if (t == CPU_PRED) v.i = !max;
    }
    return v;
}

/* Small floats are summed in f32 and rounded where the reduction ends. */
static struct cpu_num combine(int kind, enum cpu_dt t, struct cpu_num a, struct cpu_num b)
{
    static const uint16_t op[RP_RED_MAX] = {RP_ADD, RP_MUL, RP_MAX, RP_MIN, RP_AND, RP_OR, RP_XOR};
    if (cpu_dt_small(t)) t = CPU_F32;
    struct rp_ins s = {.op = op[kind], .dt = (uint8_t)t};
    return rp_eval(&s, (enum cpu_dt[]){t, t}, (struct cpu_num[]){a, b});
}

static void finish(const struct run *r, int i, int lanes)
{
    enum cpu_dt t = (enum cpu_dt)r->p->ins[i].dt;
    if (!cpu_dt_small(t)) return;
    for (int l = 0; l < lanes; l++) r->acc[i][l] = cpu_num_convert(CPU_F32, t, r->acc[i][l]);
}

/* Instructions [from, to) for `lanes` lanes. */
static void group(struct run *r, int from, int to, int lanes)
{
    const struct rp_prog *p = r->p;
    for (int i = from; i < to; i++) {
        const struct rp_ins *s = &p->ins[i];
        int n = rp_op_info[s->op].nsrc;
        int64_t o = 0, step = 0;
        if (s->op == RP_LD || s->op == RP_ST || s->op == RP_IDX) {
            o = offset(r, s->aux);
            step = p->acc[s->aux].stride[p->nd - 1];
        }
        for (int l = 0; l < lanes; l++) {
            struct cpu_num v[3] = {{0}};
            enum cpu_dt t[3] = {0};
            for (int k = 0; k < n; k++) {
                v[k] = r->val[s->src[k]][l];
                t[k] = (enum cpu_dt)p->ins[s->src[k]].dt;
            }
            switch ((int)s->op) {
            case RP_LD: r->val[i][l] = cpu_num_load((enum cpu_dt)s->dt, address(r, s->aux, o + step * l)); break;
            case RP_IDX: {
                struct cpu_num x = {.i = o + step * l};
                r->val[i][l] = cpu_num_convert(CPU_S64, (enum cpu_dt)s->dt, x);
                break;
            }
            case RP_ROW: r->val[i][l] = r->acc[s->src[0]][p->block ? l : 0]; break;
            case RP_ST: cpu_num_store((enum cpu_dt)s->dt, address(r, s->aux, o + step * l), v[0]); break;
            case RP_RED: {
                int at = p->block ? l : 0;
                r->acc[i][at] = combine(s->aux, (enum cpu_dt)s->dt, r->acc[i][at], v[0]);
                break;
            }
            default: r->val[i][l] = rp_eval(s, t, v); break;
            }
        }
    }
}

/* One pass over the sequential dims and (ROW) the vector dim. */
static void pass(struct run *r, int from, int to, int64_t first, int64_t width)
{
    const struct rp_prog *p = r->p;
    int last = p->nd - 1;
    bool vector = last >= p->npar; /* else every dim is parallel and a pass has one lane */
    for (int d = p->npar; d < last; d++) r->idx[d] = 0;
    for (;;) {
        if (!vector) {
            group(r, from, to, 1);
        } else {
            for (int64_t at = 0; at < width; at += LANES) {
                r->idx[last] = first + at;
                group(r, from, to, width - at < LANES ? (int)(width - at) : LANES);
            }
        }
        int d = last - 1;
        while (d >= p->npar && ++r->idx[d] == p->dims[d]) r->idx[d--] = 0;
        if (d < p->npar) break;
    }
}

static void one(struct run *r, int64_t first, int64_t width)
{
    const struct rp_prog *p = r->p;
    int lanes = p->block ? (int)width : 1;
    for (int from = 0, to; from < p->nins; from = to) {
        for (to = from + 1; to < p->nins && p->ins[to].op != RP_PASS && p->ins[to].op != RP_ONCE; to++) {
            if (p->ins[to].op != RP_RED) continue;
            for (int l = 0; l < lanes; l++) r->acc[to][l] = identity(p->ins[to].aux, (enum cpu_dt)p->ins[to].dt);
        }
        if (p->ins[from].op == RP_ONCE) {
            for (int d = p->npar; d < p->nd; d++) r->idx[d] = 0;
            if (p->block) r->idx[p->nd - 1] = first;
            group(r, from + 1, to, lanes);
            continue;
        }
        pass(r, from + 1, to, first, width);
        for (int i = from; i < to; i++)
            if (p->ins[i].op == RP_RED) finish(r, i, lanes);
    }
}

void rp_run(const struct rp_prog *p, void *const *args, int64_t lo, int64_t hi)
{
    struct run r = {.p = p, .args = args};
    int64_t n = p->cut ? (int64_t)(intptr_t)args[p->narg + 1] : p->dims[p->nd - 1], blocks = p->block ? (n + p->block - 1) / p->block : 1;
    r.val = nf_alloc_array((size_t)p->nins, sizeof *r.val);
    r.acc = nf_alloc_array((size_t)p->nins, sizeof *r.acc);
    for (int64_t flat = lo; flat < hi; flat++) {
        int64_t rest = flat / blocks, first = flat % blocks * p->block;
        for (int d = p->npar - 1; d > 0; d--) {
            r.idx[d] = rest % p->dims[d];
            rest /= p->dims[d];
        }
        r.idx[0] = rest;
        if (!p->block) {
            one(&r, 0, n);
            continue;
        }
        int64_t end = NF_MIN(first + p->block, n);
        for (int64_t at = first; at < end; at += LANES) one(&r, at, NF_MIN(end - at, LANES));
    }
    free(r.val);
    free(r.acc);
}
