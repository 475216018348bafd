/* steps_sort.c: sort and top_k: a stable merge sort of positions, along one dim, of several operands at once. */
#include "runtime/cpu/steps.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

/* How two positions compare: by number keys, or by a block of the plan. */
struct order {
    struct cpu_exec *x;
    const struct plan_step *s;
    const int64_t *key;          /* smaller first; NULL: by block */
    int64_t base, step;          /* of the row, in elements */
    int rc;                      /* first failure of the block */
    struct nf_error *err;
};

static bool before(struct order *o, int64_t a, int64_t b)
{
    if (o->key) return o->key[a] < o->key[b];
    const struct plan *p = o->x->plan;
    const struct plan_block *blk = &p->block[o->s->attr[1]];
    for (uint32_t i = 0; i < o->s->nin; i++) {
        int64_t size = p->value[blk->param[2 * i]].bytes;
        memcpy(o->x->ptr[blk->param[2 * i]], (const char *)o->x->ptr[o->s->in[i]] + (o->base + a * o->step) * size, (size_t)size);
        memcpy(o->x->ptr[blk->param[2 * i + 1]], (const char *)o->x->ptr[o->s->in[i]] + (o->base + b * o->step) * size, (size_t)size);
    }
    int rc = cpu_exec_block(o->x, (uint32_t)o->s->attr[1], o->err);
    if (rc && !o->rc) o->rc = rc;
    return !rc && *(const uint8_t *)o->x->ptr[blk->result[0]] != 0;
}

/* Sorts pos[0..n) with room for as much in tmp: short runs by insertion, then merges. */
static void merge_sort(struct order *o, int32_t *pos, int32_t *tmp, int64_t n)
{
    enum { RUN = 12 };
    for (int64_t lo = 0; lo < n; lo += RUN)
        for (int64_t i = lo + 1; i < NF_MIN(lo + RUN, n); i++) {
            int32_t v = pos[i];
            int64_t k = i;
            for (; k > lo && before(o, v, pos[k - 1]); k--) pos[k] = pos[k - 1];
            pos[k] = v;
        }
    for (int64_t w = RUN; w < n && !o->rc; w *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * w) {
            int64_t mid = NF_MIN(lo + w, n), hi = NF_MIN(lo + 2 * w, n), a = lo, b = mid, k = lo;
            while (a < mid && b < hi) tmp[k++] = before(o, pos[b], pos[a]) ? pos[b++] : pos[a++];
            while (a < mid) tmp[k++] = pos[a++];
            while (b < hi) tmp[k++] = pos[b++];
        }
        memcpy(pos, tmp, (size_t)n * sizeof *pos);
    }
}

/* A number that sorts like the element: ascending; floats in IEEE total order or with all zeros and all NaNs equal, NaNs last. */
enum key_kind { KEY_TOTAL, KEY_EQUAL_ZEROS };
static int64_t key_of(enum cpu_dt t, struct cpu_num v, enum key_kind kind)
{
    if (cpu_dt_float(t)) {
        if (kind == KEY_EQUAL_ZEROS && v.re == 0) v.re = 0;
        if (kind == KEY_EQUAL_ZEROS && isnan(v.re)) return INT64_MAX;
        int64_t k;
        memcpy(&k, &v.re, 8);
        return k < 0 ? k ^ INT64_MAX : k;
    }
    return t == CPU_U64 ? (int64_t)((uint64_t)v.i ^ (uint64_t)1 << 63) : v.i;
}

struct rows {
    const struct plan_value *v;
    int64_t n, step, count;
};
static void rows_of(const struct plan_value *v, int64_t dim, struct rows *r)
{
    r->v = v;
    r->step = 1;
    for (int d = v->rank - 1; d > dim; d--) r->step *= v->dims[d];
    r->n = v->rank ? v->dims[dim] : 1;
    r->count = r->n ? v->count / r->n : 0;
}
static int64_t row_base(const struct rows *r, int64_t i) { return i / r->step * r->n * r->step + i % r->step; }

/* attributes: kind (BODY_BLOCK, or enum rp_cmp LT or GT of one key), block, dim, key operand, key kind (enum key_kind);
 * parameters of the block: (a, b) of operand 0, (a, b) of operand 1, ... */
int step_sort__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0);
    if (s->nin != s->nout || s->attr[2] < 0 || (v->rank && s->attr[2] >= v->rank)) BAD("its operands are not understood");
    for (uint32_t i = 0; i < s->nin; i++)
        if (!same_shape(v, step_in(p, s, i)) || !same_shape(v, step_out(p, s, i)) || step_in(p, s, i)->dt != step_out(p, s, i)->dt) BAD("operand %u has another type", i);
    if (v->rank && v->dims[s->attr[2]] > INT32_MAX) BAD("it is too long");
    if (s->attr[0] != BODY_BLOCK) {
        if ((s->attr[0] != RP_LT && s->attr[0] != RP_GT) || s->attr[3] < 0 || s->attr[3] >= s->nin || s->attr[4] < 0 || s->attr[4] > KEY_EQUAL_ZEROS ||
            cpu_dt_complex((enum cpu_dt)step_in(p, s, (uint32_t)s->attr[3])->dt))
            BAD("its key is not understood");
        return 0;
    }
    const struct plan_block *b = &p->block[s->attr[1]];
    if (b->nparam != 2 * s->nin || b->nresult != 1 || p->value[b->result[0]].dt != CPU_PRED || p->value[b->result[0]].count != 1) BAD("the comparator's signature is another");
    for (uint32_t i = 0; i < b->nparam; i++) {
        const struct plan_value *e = &p->value[b->param[i]];
        if (e->dt != step_in(p, s, i / 2)->dt || e->count != 1 || e->where != PLAN_ARENA) BAD("parameter %u of the comparator has another type", i);
    }
    return 0;
}

struct sort_job {
    struct cpu_exec *x;
    const struct plan_step *s;
    struct rows r;
    atomic_int rc;
    struct nf_error *err;
};

static void sort_rows(void *ctx, int64_t lo, int64_t hi, int thread)
{
    struct sort_job *j = ctx;
    const struct plan_step *s = j->s;
    const struct plan *p = j->x->plan;
    int64_t n = j->r.n;
    (void)thread;
    size_t widest = 16;
    char *mem = nf_try_alloc((size_t)n * (2 * sizeof(int32_t) + 8 + widest) + 64);
    if (!mem) {
        atomic_store(&j->rc, NF_ENOMEM);
        return;
    }
    int64_t *key = (int64_t *)(void *)mem;
    char *line = mem + n * 8;
    int32_t *pos = (int32_t *)(void *)(line + (size_t)n * widest), *tmp = pos + n;
    for (int64_t row = lo; row < hi; row++) {
        struct order o = {.x = j->x, .s = s, .base = row_base(&j->r, row), .step = j->r.step, .err = j->err};
        if (s->attr[0] != BODY_BLOCK) {
            uint32_t which = (uint32_t)s->attr[3];
            enum cpu_dt t = (enum cpu_dt)step_in(p, s, which)->dt;
            const char *src = j->x->ptr[s->in[which]];
            for (int64_t i = 0; i < n; i++) {
                key[i] = key_of(t, cpu_num_load(t, src + (o.base + i * o.step) * (int64_t)cpu_dt_bytes(t)), (enum key_kind)s->attr[4]);
                if (s->attr[0] == RP_GT) key[i] = ~key[i];
            }
            o.key = key;
        }
        for (int64_t i = 0; i < n; i++) pos[i] = (int32_t)i;
        merge_sort(&o, pos, tmp, n);
        if (o.rc) atomic_store(&j->rc, o.rc);
        for (uint32_t k = 0; k < s->nin; k++) {
            int64_t size = (int64_t)cpu_dt_bytes((enum cpu_dt)step_in(p, s, k)->dt);
            const char *src = j->x->ptr[s->in[k]];
            char *dst = j->x->ptr[s->out[k]];
            for (int64_t i = 0; i < n; i++) memcpy(line + i * size, src + (o.base + pos[i] * o.step) * size, (size_t)size);
            for (int64_t i = 0; i < n; i++) memcpy(dst + (o.base + i * o.step) * size, line + i * size, (size_t)size);
        }
    }
    free(mem);
}

int step_sort__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct sort_job j = {.x = x, .s = s, .err = err};
    rows_of(step_in(x->plan, s, 0), s->attr[2], &j.r);
    if (step_in(x->plan, s, 0)->count == 0) return 0;
    if (s->attr[0] == BODY_BLOCK) sort_rows(&j, 0, j.r.count, 0);
    else cpu_pool_for(j.r.count, 2048 / j.r.n + 1, sort_rows, &j);
    int rc = atomic_load(&j.rc);
    return rc == NF_ENOMEM ? nf_fail(err, NF_ENOMEM, "no memory to sort %" PRId64 " elements", j.r.n) : rc;
}

/* attributes: k; outputs: the k largest of each row of the last dim, descending, and their positions (i32). NaNs come first. */
int step_top_k__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0), *o = step_out(p, s, 0), *i = step_out(p, s, 1);
    int last = v->rank - 1;
    if (v->rank < 1 || o->rank != v->rank || i->rank != v->rank || v->dt != o->dt || i->dt != CPU_S32 || cpu_dt_complex((enum cpu_dt)v->dt)) BAD("its results have other types");
    for (int d = 0; d < last; d++)
        if (o->dims[d] != v->dims[d] || i->dims[d] != v->dims[d]) BAD("its results have other shapes");
    if (s->attr[0] < 0 || s->attr[0] > v->dims[last] || o->dims[last] != s->attr[0] || i->dims[last] != s->attr[0] || v->dims[last] > INT32_MAX) BAD("there are no %" PRId64 " elements", s->attr[0]);
    return 0;
}

int step_top_k__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(x->plan, s, 0);
    enum cpu_dt t = (enum cpu_dt)v->dt;
    int64_t n = v->dims[v->rank - 1], k = s->attr[0], size = (int64_t)cpu_dt_bytes(t);
    if (v->count == 0 || k == 0) return 0;
    int64_t *key = nf_try_alloc((size_t)n * 16);
    if (!key) return nf_fail(err, NF_ENOMEM, "no memory to sort %" PRId64 " elements", n);
    int32_t *pos = (int32_t *)(void *)(key + n), *tmp = pos + n;
    for (int64_t row = 0; row < v->count / n; row++) {
        const char *src = (const char *)x->ptr[s->in[0]] + row * n * size;
        struct order o = {.x = x, .s = s, .key = key};
        for (int64_t i = 0; i < n; i++) {
            key[i] = ~key_of(t, cpu_num_load(t, src + i * size), KEY_TOTAL);
            pos[i] = (int32_t)i;
        }
        merge_sort(&o, pos, tmp, n);
        for (int64_t i = 0; i < k; i++) memcpy((char *)x->ptr[s->out[0]] + (row * k + i) * size, src + pos[i] * size, (size_t)size);
        memcpy((char *)x->ptr[s->out[1]] + row * k * 4, pos, (size_t)k * 4);
    }
    free(key);
    return 0;
}
