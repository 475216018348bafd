/* steps_devices.c: a block that the devices of a mesh run at once, each on its piece of whole arrays (sdy.manual_computation).
 *
 * A device is a thread with memory of its own for what the block and those inside it write, at the same offsets as in the arena; what they only
 * read lies outside and is shared. Collectives inside meet these devices. */
#include "runtime/cpu/group.h"
#include "runtime/cpu/steps.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

enum { DEVICES_MAX = 1024, DIGITS_MAX = 8 };

/* How an array is cut: dim by dim digits of a position in the mesh, which is position / stride % size; the first one outermost. */
struct cut {
    int rank;
    uint32_t n[PLAN_RANK_MAX];
    int64_t digit[PLAN_RANK_MAX][2 * DIGITS_MAX]; /* size, stride */
};

static bool read_cut(struct attrs *a, const struct plan_value *v, struct cut *c)
{
    c->rank = v->rank;
    for (int d = 0; d < v->rank; d++) {
        c->n[d] = attrs_list(a, c->digit[d], 2 * DIGITS_MAX);
        if (a->failed || c->n[d] % 2) return false;
        for (uint32_t k = 0; k < c->n[d]; k++)
            if (c->digit[d][k] < 1 || c->digit[d][k] > DEVICES_MAX) return false;
    }
    return true;
}

/* Of dim d; what is more than the devices there may be counts as one more. */
static int64_t pieces(const struct cut *c, int d)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < c->n[d]; k += 2) n = NF_MIN(n * c->digit[d][k], (int64_t)DEVICES_MAX + 1);
    return n;
}

/* Which piece the position has, by dim. False: so has an earlier one. */
static bool piece_at(const struct cut *c, int64_t pos, int64_t *piece)
{
    int64_t used = 0;
    for (int d = 0; d < c->rank; d++) {
        piece[d] = 0;
        for (uint32_t k = 0; k < c->n[d]; k += 2) {
            int64_t size = c->digit[d][k], stride = c->digit[d][k + 1], digit = pos / stride % size;
            piece[d] = piece[d] * size + digit;
            used += digit * stride;
        }
    }
    return used == pos;
}

/* attributes: block; number of devices; which of them stands at each position of the mesh (a list; empty: in order); for each dim of each input and
 * then of each output a list of digits. The block takes the pieces of the inputs and gives those of the outputs. */
int step_devices__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_block *b = &p->block[s->attr[0]];
    struct attrs a = {.s = s, .at = 2};
    int64_t n = s->attr[1], at[DEVICES_MAX], piece[PLAN_RANK_MAX];
    bool seen[DEVICES_MAX] = {0};
    uint32_t listed = attrs_list(&a, at, DEVICES_MAX);
    if (n < 1 || n > DEVICES_MAX || a.failed || (listed && listed != n)) BAD("its devices are not understood");
    for (uint32_t i = 0; i < listed; i++) {
        if (at[i] < 0 || at[i] >= n || seen[at[i]]) BAD("its devices are not understood");
        seen[at[i]] = true;
    }
    if (b->nparam != s->nin || b->nresult != s->nout) BAD("the block's signature is another");
    for (uint32_t i = 0; i < s->nin + s->nout; i++) {
        const struct plan_value *whole = i < s->nin ? step_in(p, s, i) : step_out(p, s, i - s->nin);
        const struct plan_value *part = &p->value[i < s->nin ? b->param[i] : b->result[i - s->nin]];
        struct cut c;
        int64_t all = 1, firsts = 0;
        if (whole->dt != part->dt || whole->rank != part->rank || !read_cut(&a, whole, &c)) BAD("piece %u has another type", i);
        for (int d = 0; d < c.rank; d++) {
            if (part->dims[d] > INT64_MAX / DEVICES_MAX || pieces(&c, d) > n || whole->dims[d] != part->dims[d] * pieces(&c, d)) BAD("piece %u has another shape", i);
            all = NF_MIN(all * pieces(&c, d), (int64_t)DEVICES_MAX + 1);
        }
        for (int64_t pos = 0; pos < n; pos++) firsts += piece_at(&c, pos, piece);
        if (firsts != all) BAD("value %u is cut by digits that the mesh does not have", i);
        if (i < s->nin && part->where != PLAN_ARENA) BAD("a piece lies outside the arena");
    }
    if (a.at != s->nattr) BAD("it has more attributes than pieces");
    return 0;
}

/* ---- what belongs to the devices ---- */

struct span {
    int64_t low, high;
};

struct inside {
    const struct plan *p;
    bool *block, *named;         /* seen; by number */
    struct span *span;           /* written parts of the arena */
    size_t n, cap;
};

static void written(struct inside *in, uint32_t value)
{
    const struct plan_value *v = &in->p->value[value];
    in->named[value] = true;
    if (v->where != PLAN_ARENA || v->bytes == 0) return;
    if (in->n == in->cap) {
        in->cap = in->cap ? 2 * in->cap : 64;
        struct span *more = nf_alloc_array(in->cap, sizeof *more);
        if (in->n) memcpy(more, in->span, in->n * sizeof *more);
        free(in->span);
        in->span = more;
    }
    in->span[in->n++] = (struct span){v->offset, v->offset + v->bytes};
}

static void look_inside(struct inside *in, uint32_t block)
{
    const struct plan_block *b = &in->p->block[block];
    if (in->block[block]) return;
    in->block[block] = true; /* depth: as deep as plan_check lets blocks be */
    for (uint32_t k = 0; k < b->nparam; k++) written(in, b->param[k]);
    for (uint32_t k = 0; k < b->nresult; k++) in->named[b->result[k]] = true;
    for (uint32_t i = 0; i < b->nstep; i++) {
        int64_t id;
        for (uint32_t k = 0; k < b->step[i].nin; k++) in->named[b->step[i].in[k]] = true;
        for (uint32_t k = 0; k < b->step[i].nout; k++) written(in, b->step[i].out[k]);
        for (uint32_t k = 0; step_block(&b->step[i], k, &id); k++) look_inside(in, (uint32_t)id);
    }
}

static int by_low(const void *x, const void *y)
{
    const struct span *a = x, *b = y;
    return a->low < b->low ? -1 : a->low > b->low;
}

/* Sorted, and those that touch made one. */
static void merge_spans(struct inside *in)
{
    size_t n = 0;
    if (in->n) qsort(in->span, in->n, sizeof *in->span, by_low);
    for (size_t i = 0; i < in->n; i++)
        if (n && in->span[i].low <= in->span[n - 1].high) in->span[n - 1].high = NF_MAX(in->span[n - 1].high, in->span[i].high);
        else in->span[n++] = in->span[i];
    in->n = n;
}

static bool owned(const struct inside *in, const struct plan_value *v)
{
    size_t lo = 0, hi = in->n; /* the first span that begins behind the value */
    if (v->where != PLAN_ARENA) return false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (in->span[mid].low < v->offset + v->bytes) lo = mid + 1;
        else hi = mid;
    }
    return lo && in->span[lo - 1].high > v->offset;
}

/* ---- running ---- */

struct device {
    struct cpu_exec x;
    uint32_t block;
    int *first;                  /* the device that failed first, -1: none; all share it */
    char *memory;
    size_t bytes;
    pthread_t thread;
    bool started;
    int rc;
    struct nf_error err;
};

static void device_ends(struct device *d)
{
    int none = -1;
    if (d->rc) __atomic_compare_exchange_n(d->first, &none, (int)d->x.partition, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    cpu_group_end(d->x.group, &d->x.turn, d->rc != 0);
}

static void *device_run(void *arg)
{
    struct device *d = arg;
    d->rc = cpu_exec_block(&d->x, d->block, &d->err);
    device_ends(d);
    return NULL;
}

static int device_init(struct device *d, const struct cpu_exec *x, const struct inside *in, struct nf_error *err)
{
    size_t arena = ((size_t)x->plan->arena_bytes + 127) & ~(size_t)63;
    d->bytes = arena + x->scratch_stride * (size_t)cpu_pool_threads();
    d->memory = cpu_map_memory(d->bytes); /* pages that nobody touches cost nothing */
    if (!d->memory) return nf_fail(err, NF_ENOMEM, "no memory for the %zu bytes that each device works in", d->bytes);
    d->x.scratch = d->memory + arena;
    d->x.ptr = nf_alloc_array(x->plan->nvalues + 1, sizeof *d->x.ptr);
    for (uint32_t v = 0; v < x->plan->nvalues; v++) {
        const struct plan_value *pv = &x->plan->value[v];
        if (in->named[v]) d->x.ptr[v] = owned(in, pv) ? d->memory + pv->offset : x->ptr[v];
    }
    return 0;
}

/* Between a whole array and a device's piece of it. */
static void move_piece(const struct plan_value *whole, char *w, const struct plan_value *part, char *q, const int64_t *piece, bool back)
{
    struct cpu_copy_dim d[PLAN_RANK_MAX];
    int64_t ws[PLAN_RANK_MAX], qs[PLAN_RANK_MAX], at = 0;
    size_t size = cpu_dt_bytes((enum cpu_dt)whole->dt);
    row_major(whole, ws);
    row_major(part, qs);
    for (int i = 0; i < whole->rank; i++) {
        d[i] = (struct cpu_copy_dim){part->dims[i], back ? qs[i] : ws[i], back ? ws[i] : qs[i]};
        at += piece[i] * part->dims[i] * ws[i];
    }
    w += at * (int64_t)size;
    cpu_copy(back ? w : q, back ? q : w, size, whole->rank, d);
}

static void move_all(struct cpu_exec *x, const struct plan_step *s, struct device *dev, bool back)
{
    const struct plan_block *b = &x->plan->block[s->attr[0]];
    struct attrs a = {.s = s, .at = 2};
    int64_t n = s->attr[1], at[DEVICES_MAX], piece[PLAN_RANK_MAX];
    uint32_t listed = attrs_list(&a, at, DEVICES_MAX);
    for (uint32_t i = 0; i < s->nin + s->nout; i++) {
        bool out = i >= s->nin;
        uint32_t whole = out ? s->out[i - s->nin] : s->in[i], part = out ? b->result[i - s->nin] : b->param[i];
        struct cut c;
        read_cut(&a, &x->plan->value[whole], &c);
        for (int64_t pos = 0; pos < n && out == back; pos++) {
            bool first = piece_at(&c, pos, piece); /* of what is the same on several devices, the first one's is the result */
            char *q = dev[listed ? at[pos] : pos].x.ptr[part];
            if (!back || first) move_piece(&x->plan->value[whole], x->ptr[whole], &x->plan->value[part], q, piece, back);
        }
    }
}

static void run_all(struct device *dev, int64_t n)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int64_t i = 1; i < n; i++) {
        int e = pthread_create(&dev[i].thread, NULL, device_run, &dev[i]);
        dev[i].started = e == 0;
        if (e == 0) continue;
        dev[i].rc = nf_fail_errno(&dev[i].err, e, "cannot start a thread for device %" PRId64, i);
        device_ends(&dev[i]);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    device_run(&dev[0]);
    for (int64_t i = 1; i < n; i++)
        if (dev[i].started) pthread_join(dev[i].thread, NULL);
}

int step_devices__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    int64_t n = s->attr[1];
    int first = -1, rc = 0;
    struct inside in = {.p = x->plan, .block = nf_alloc_array(x->plan->nblocks, sizeof(bool)), .named = nf_alloc_array(x->plan->nvalues + 1, sizeof(bool))};
    struct device *dev = nf_alloc_array((size_t)n, sizeof *dev);
    struct cpu_rendezvous *group = cpu_group_new((uint32_t)n);
    look_inside(&in, (uint32_t)s->attr[0]);
    merge_spans(&in);
    for (int64_t i = 0; i < n && !rc; i++) {
        dev[i] = (struct device){.x = *x, .block = (uint32_t)s->attr[0], .first = &first};
        dev[i].x.profile = NULL; /* the step's time counts, not that of each device inside */
        dev[i].x.group = group;
        dev[i].x.turn = (struct cpu_turn){.rank = (uint32_t)i};
        dev[i].x.replica = 0;
        dev[i].x.partition = (uint32_t)i;
        dev[i].x.replicas = 1;
        dev[i].x.partitions = (uint32_t)n;
        dev[i].x.ptr = NULL;
        rc = device_init(&dev[i], x, &in, err);
    }
    if (!rc) {
        move_all(x, s, dev, false);
        run_all(dev, n);
        if (first >= 0) {
            rc = dev[first].rc;
            if (err) *err = dev[first].err;
        }
    }
    if (!rc) move_all(x, s, dev, true);
    for (int64_t i = 0; i < n; i++) {
        x->draws = NF_MAX(x->draws, dev[i].x.draws);
        free(dev[i].x.ptr);
        if (dev[i].memory) munmap(dev[i].memory, dev[i].bytes);
    }
    cpu_group_leave(group);
    free(dev);
    free(in.block);
    free(in.named);
    free(in.span);
    return rc;
}
