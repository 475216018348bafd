/* exec.c: runs the blocks of a plan: one loop over steps, one call a step. Kernels, copies and control flow are here. */
#include "runtime/cpu/steps.h"

#include "base/clock.h"

#include <inttypes.h>

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

typedef int (*run_fn)(struct cpu_exec *, const struct plan_step *, struct nf_error *);
static const run_fn run_table[PLAN_OP_MAX] = {
#define PLAN_OP(sym, name, in0, in1, out0, out1, attrs) step_##name##__run,
#include "runtime/cpu/plan_ops.def"
#undef PLAN_OP
};

int cpu_exec_block(struct cpu_exec *x, uint32_t block, struct nf_error *err)
{
    const struct plan_block *b = &x->plan->block[block];
    int rc = 0;
    for (uint32_t i = 0; i < b->nstep && !rc; i++) {
        const struct plan_step *s = &b->step[i];
        int64_t start = x->profile ? nf_now_ns() : 0;
        rc = run_table[s->op](x, s, err);
        if (x->profile) x->profile[x->profile_base[block] + i] += nf_now_ns() - start;
        if (rc && s->label != PLAN_NO_LABEL && err && !err->location[0])
            nf_error_location(err, "%.*s", (int)NF_MIN(x->plan->label[s->label].len, (size_t)200), x->plan->label[s->label].data);
    }
    return rc;
}

int cpu_exec_watch(struct cpu_exec *x, int (*seen)(void *user, const struct plan *p, uint32_t step, void *const *values, struct nf_error *err), void *user,
                   struct nf_error *err)
{
    const struct plan_block *b = &x->plan->block[0];
    int rc = 0;
    for (uint32_t i = 0; i < b->nstep && !rc; i++) {
        rc = run_table[b->step[i].op](x, &b->step[i], err);
        if (!rc) rc = seen(user, x->plan, i, x->ptr, err);
    }
    return rc;
}

/* Places of block numbers in the attributes, by op. */
bool step_block(const struct plan_step *s, uint32_t i, int64_t *ret_id)
{
    bool is = false;
    uint32_t at = i;
    switch ((enum plan_op)s->op) {
    case PLAN_WHILE: is = i < 2; break;
    case PLAN_CASE: is = i < s->nattr; break;
    case PLAN_MAP: case PLAN_DEVICES: is = i < 1; break;
    case PLAN_REDUCE: case PLAN_WINDOW: case PLAN_SCATTER: case PLAN_SORT: case PLAN_COLLECTIVE:
        is = i < 1 && s->attr[0] == BODY_BLOCK;
        at = 1;
        break;
    case PLAN_SELSCATTER: {
        uint32_t first = s->attr[0] == BODY_BLOCK, count = first + (s->attr[2] == BODY_BLOCK);
        is = i < count;
        at = i == 0 && first ? 1 : 3;
        break;
    }
    case PLAN_KERNEL: case PLAN_COPY: case PLAN_DOT: case PLAN_ATTENTION: case PLAN_GATHER: case PLAN_DSLICE: case PLAN_DUPDATE: case PLAN_TOPK: case PLAN_FFT:
    case PLAN_CHOLESKY: case PLAN_TRISOLVE: case PLAN_RNGBITS: case PLAN_PROCESS: case PLAN_SEND: case PLAN_RECV: case PLAN_INFEED: case PLAN_RNG: case PLAN_CHECK:
    case PLAN_PROBE: case PLAN_PROBED: case PLAN_PRINT:
    case PLAN_OP_MAX:
        break;
    }
    if (is) *ret_id = s->attr[at];
    return is;
}

/* ----------------------------------------------------------------------------------------------------------- kernel */

int step_kernel_argument(const struct rp_prog *p, int arg, int64_t outer, const struct plan_value *v, bool input, struct nf_error *err)
{
    for (int a = 0; a < p->nacc; a++) {
        const struct rp_acc *acc = &p->acc[a];
        int64_t low, high;
        if (acc->arg != arg) continue;
        if (acc->dt != v->dt || !rp_extent(p, a, outer, &low, &high) || low < 0 || high >= v->count) BAD("access %d is outside its value", a);
    }
    for (int i = 0; input && i < p->nins; i++)
        if (p->ins[i].op == RP_ST && p->acc[p->ins[i].aux].arg == arg) BAD("a kernel stores into its input");
    return 0;
}

/* attributes: kernel, extent of the outermost dim, grain (iterations of the range a chunk) */
int step_kernel__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    int64_t k = s->attr[0], outer = s->attr[1], range;
    if (k < 0 || k >= p->nkernels || outer < 0 || s->attr[2] < 1) BAD("there is no kernel %" PRId64, k);
    const struct plan_kernel *kernel = &p->kernel[k];
    if (kernel->args != s->nin + s->nout || kernel->args > 1024) BAD("kernel %" PRId64 " takes %u arguments", k, kernel->args);
    if (kernel->prog && kernel->prog->cut) BAD("kernel %" PRId64 " is cut", k);
    if (__builtin_mul_overflow(outer, kernel->per_outer, &range)) BAD("the range is too large");
    for (uint32_t a = 0; kernel->prog && outer && a < kernel->args; a++) {
        int rc = step_kernel_argument(kernel->prog, (int)a, outer, a < s->nin ? step_in(p, s, a) : step_out(p, s, a - s->nin), a < s->nin, err);
        if (rc) return rc;
    }
    return 0;
}

struct kernel_job {
    cpu_kernel_fn fn;
    const struct rp_prog *prog;
    void **args; /* one more than the kernel has: the thread's scratch */
    uint32_t nargs;
    char *scratch;
    size_t stride;
};

static void kernel_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct kernel_job *j = ctx;
    void *args[1024 + 1];
    memcpy(args, j->args, j->nargs * sizeof *args);
    args[j->nargs] = j->scratch + (size_t)thread * j->stride;
    if (j->fn) j->fn(args, lo, hi);
    else rp_run(j->prog, args, lo, hi);
}

int step_kernel__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_kernel *k = &x->plan->kernel[s->attr[0]];
    void *args[1024];
    struct kernel_job j = {.prog = k->prog, .args = args, .nargs = k->args, .scratch = x->scratch, .stride = x->scratch_stride};
    int64_t range = s->attr[1] * k->per_outer;
    (void)err;
    for (uint32_t i = 0; i < s->nin; i++) args[i] = x->ptr[s->in[i]];
    for (uint32_t i = 0; i < s->nout; i++) args[s->nin + i] = x->ptr[s->out[i]];
    if (k->image_offset >= 0) {
        const char *at = x->image + k->image_offset;
        memcpy(&j.fn, &at, sizeof j.fn);
    }
    if (range <= s->attr[2]) {
        if (range > 0) kernel_chunk(&j, 0, range, 0);
        return 0;
    }
    cpu_pool_for(range, s->attr[2], kernel_chunk, &j);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- copy */

struct copy_job {
    char *dst;
    const char *src;
    size_t size;
    int nd;
    const struct cpu_copy_dim *dims;
};

#define COPY_ROW(type)                                                                                   \
    do {                                                                                                 \
        for (int64_t i = 0; i < n; i++) *(type *)(void *)(dst + i * ds) = *(const type *)(const void *)(src + i * ss); \
    } while (0)

struct word16 {
    uint64_t a, b;
};

static void copy_row(char *dst, const char *src, int64_t n, int64_t ds, int64_t ss, size_t size)
{
    ds *= (int64_t)size;
    ss *= (int64_t)size;
    if (ds == (int64_t)size && ss == (int64_t)size) {
        memcpy(dst, src, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY_ROW(uint8_t); break;
    case 2: COPY_ROW(uint16_t); break;
    case 4: COPY_ROW(uint32_t); break;
    case 8: COPY_ROW(uint64_t); break;
    default: COPY_ROW(struct word16); break;
    }
}

/* The last two dims of a transposition in tiles, so that neither side walks memory by columns. */
static void copy_tiles(char *dst, const char *src, const struct cpu_copy_dim *a, const struct cpu_copy_dim *b, size_t size)
{
    enum { TILE = 16 };
    for (int64_t i = 0; i < a->n; i += TILE)
        for (int64_t j = 0; j < b->n; j += TILE) {
            int64_t ni = NF_MIN(a->n - i, TILE), nj = NF_MIN(b->n - j, TILE);
            for (int64_t k = 0; k < ni; k++)
                copy_row(dst + ((i + k) * a->dst + j * b->dst) * (int64_t)size, src + ((i + k) * a->src + j * b->src) * (int64_t)size, nj, b->dst, b->src, size);
        }
}

static void copy_chunk(void *ctx, int64_t lo, int64_t hi, int thread)
{
    const struct copy_job *j = ctx;
    int inner = j->nd >= 3 || (j->nd == 2 && j->dims[1].src != 1 && j->dims[1].dst == 1 && j->dims[0].src == 1) ? 2 : 1;
    (void)thread;
    if (inner == 2 && j->nd == 2) { /* chunks of rows of a plain transposition */
        struct cpu_copy_dim a = j->dims[0];
        a.n = hi - lo;
        copy_tiles(j->dst + lo * a.dst * (int64_t)j->size, j->src + lo * a.src * (int64_t)j->size, &a, &j->dims[1], j->size);
        return;
    }
    int outer = j->nd - inner;
    for (int64_t flat = lo; flat < hi; flat++) {
        int64_t rest = flat, so = 0, dof = 0;
        for (int d = outer - 1; d >= 0; d--) {
            int64_t i = rest % j->dims[d].n;
            rest /= j->dims[d].n;
            so += i * j->dims[d].src;
            dof += i * j->dims[d].dst;
        }
        char *dst = j->dst + dof * (int64_t)j->size;
        const char *src = j->src + so * (int64_t)j->size;
        const struct cpu_copy_dim *a = &j->dims[outer], *b = &j->dims[j->nd - 1];
        if (inner == 1) copy_row(dst, src, a->n, a->dst, a->src, j->size);
        else copy_tiles(dst, src, a, b, j->size);
    }
}

void cpu_copy(char *dst, const char *src, size_t size, int nd, const struct cpu_copy_dim *dims)
{
    struct cpu_copy_dim d[PLAN_RANK_MAX + 2];
    int n = 0;
    int64_t count = 1;
    for (int i = 0; i < nd; i++) { /* drop unit dims, merge neighbours that continue one another */
        count *= dims[i].n;
        if (dims[i].n == 1) continue;
        if (n && d[n - 1].src == dims[i].src * dims[i].n && d[n - 1].dst == dims[i].dst * dims[i].n) {
            d[n - 1] = (struct cpu_copy_dim){d[n - 1].n * dims[i].n, dims[i].src, dims[i].dst};
            continue;
        }
        d[n++] = dims[i];
    }
    if (count == 0) return;
    if (n == 0) d[n++] = (struct cpu_copy_dim){1, 1, 1};
    if (n == 1 && d[0].n > 16384) { /* one long row: cut it */
        int64_t rows = 1;
        while (d[0].n % (rows * 2) == 0 && d[0].n / (rows * 2) >= 4096) rows *= 2;
        if (rows > 1) {
            d[1] = (struct cpu_copy_dim){d[0].n / rows, d[0].src, d[0].dst};
            d[0] = (struct cpu_copy_dim){rows, d[1].n * d[1].src, d[1].n * d[1].dst};
            n = 2;
        }
    }
    struct copy_job j = {dst, src, size, n, d};
    bool plain = n == 2 && d[1].src != 1 && d[1].dst == 1 && d[0].src == 1;
    int inner = n >= 3 || plain ? 2 : 1, outer = n - inner;
    int64_t range = 1, each = count;
    for (int i = 0; i < outer; i++) range *= d[i].n;
    if (plain) range = d[0].n;
    each = count / range;
    int64_t grain = 32768 / (each * (int64_t)size) + 1;
    if (plain) grain = NF_MAX(grain, 16);
    if (count * (int64_t)size < 65536) grain = range;
    cpu_pool_for(range, grain, copy_chunk, &j);
}

void cpu_memcpy(void *dst, const void *src, size_t bytes)
{
    if (dst == src || bytes == 0) return;
    cpu_copy(dst, src, 1, 1, &(struct cpu_copy_dim){(int64_t)bytes, 1, 1});
}

/* attributes: source offset, destination offset, n, then n triples (extent, source stride, destination stride) in elements;
 * n -1: all bytes as they are, whatever the elements */
int step_copy__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *in = step_in(p, s, 0), *out = step_out(p, s, 0);
    int64_t n = s->attr[2], low[2] = {s->attr[0], s->attr[1]}, high[2] = {s->attr[0], s->attr[1]};
    if (n == -1) {
        if (in->bytes != out->bytes) BAD("values of different sizes");
        return 0;
    }
    if (cpu_dt_bytes((enum cpu_dt)in->dt) != cpu_dt_bytes((enum cpu_dt)out->dt)) BAD("elements of different sizes");
    if (n < 0 || n > PLAN_RANK_MAX || s->nattr != 3 + 3 * (uint64_t)n) BAD("copies over %" PRId64 " dims", n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t *t = s->attr + 3 + 3 * i;
        if (t[0] < 0) BAD("copies over a negative extent");
        if (t[0] == 0) return 0;
        for (int k = 0; k < 2; k++) {
            int64_t span;
            if (__builtin_mul_overflow(t[0] - 1, t[1 + k], &span) || __builtin_add_overflow(span < 0 ? low[k] : high[k], span, span < 0 ? &low[k] : &high[k]))
                BAD("copies too far");
        }
    }
    if (low[0] < 0 || high[0] >= in->count || low[1] < 0 || high[1] >= out->count) BAD("copies outside its values");
    return 0;
}

int step_copy__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    struct cpu_copy_dim d[PLAN_RANK_MAX];
    const struct plan_value *out = step_out(x->plan, s, 0);
    size_t size = cpu_dt_bytes((enum cpu_dt)out->dt);
    int n = (int)s->attr[2];
    (void)err;
    if (n < 0) {
        cpu_memcpy(x->ptr[s->out[0]], x->ptr[s->in[0]], (size_t)out->bytes);
        return 0;
    }
    for (int i = 0; i < n; i++) d[i] = (struct cpu_copy_dim){s->attr[3 + 3 * i], s->attr[4 + 3 * i], s->attr[5 + 3 * i]};
    cpu_copy((char *)x->ptr[s->out[0]] + s->attr[1] * (int64_t)size, (const char *)x->ptr[s->in[0]] + s->attr[0] * (int64_t)size, size, n, d);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- control flow */

static bool same_type(const struct plan_value *a, const struct plan_value *b) { return a->dt == b->dt && same_shape(a, b); }

static bool overlap(const char *a, int64_t an, const char *b, int64_t bn) { return an && bn && a < b + bn && b < a + an; }

/* dst[i] <- src[i], all at once: what would be overwritten before it is read is set aside. */
static int copy_all(struct cpu_exec *x, const uint32_t *dst, const uint32_t *src, uint32_t n, struct nf_error *err)
{
    const struct plan *p = x->plan;
    char **aside = NULL;
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        const char *from = x->ptr[src[i]];
        if (from == x->ptr[dst[i]]) continue;
        bool clash = false;
        for (uint32_t j = 0; j < n && !clash; j++)
            clash = x->ptr[dst[j]] != x->ptr[src[j]] && (j < i || x->ptr[dst[j]] != from) && overlap(x->ptr[dst[j]], p->value[dst[j]].bytes, from, p->value[src[i]].bytes);
        if (!clash) continue;
        if (!aside) aside = nf_alloc_array(n, sizeof *aside);
        aside[i] = nf_try_alloc((size_t)p->value[src[i]].bytes);
        if (!aside[i]) rc = nf_fail(err, NF_ENOMEM, "no memory to exchange the values of a loop");
        else memcpy(aside[i], from, (size_t)p->value[src[i]].bytes);
    }
    for (uint32_t i = 0; i < n && !rc; i++) cpu_memcpy(x->ptr[dst[i]], aside && aside[i] ? aside[i] : x->ptr[src[i]], (size_t)p->value[dst[i]].bytes);
    for (uint32_t i = 0; aside && i < n; i++) free(aside[i]);
    free(aside);
    return rc;
}

/* attributes: block of the condition, block of the body; both have the parameters of the loop */
int step_while__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_block *c = &p->block[s->attr[0]], *b = &p->block[s->attr[1]];
    if (s->nin != s->nout || b->nparam != s->nin || b->nresult != s->nin || c->nparam != s->nin || c->nresult != 1) BAD("the body's signature is another");
    if (p->value[c->result[0]].dt != CPU_PRED || p->value[c->result[0]].count != 1) BAD("the condition is not a predicate");
    for (uint32_t i = 0; i < s->nin; i++) {
        const struct plan_value *v = step_in(p, s, i);
        if (c->param[i] != b->param[i]) BAD("condition and body have different parameters");
        if (!same_type(v, &p->value[b->param[i]]) || !same_type(v, &p->value[b->result[i]]) || !same_type(v, step_out(p, s, i))) BAD("value %u changes its type", i);
        if (p->value[b->param[i]].where == PLAN_CONST || p->value[b->param[i]].where == PLAN_ARG) BAD("a loop writes a constant");
    }
    return 0;
}

int step_while__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    uint32_t cond = (uint32_t)s->attr[0], body = (uint32_t)s->attr[1];
    const struct plan_block *b = &x->plan->block[body], *c = &x->plan->block[cond];
    int rc = copy_all(x, b->param, s->in, s->nin, err);
    while (!rc) {
        rc = cpu_exec_block(x, cond, err);
        if (rc || !*(const uint8_t *)x->ptr[c->result[0]]) break;
        rc = cpu_exec_block(x, body, err);
        if (!rc) rc = copy_all(x, b->param, b->result, s->nin, err);
    }
    return rc ? rc : copy_all(x, s->out, b->param, s->nout, err);
}

/* attributes: the block of each branch; input: i1 (then, else) or i32 (the last branch takes what is out of range) */
int step_case__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_value *v = step_in(p, s, 0);
    if (v->count != 1 || (v->dt != CPU_PRED && v->dt != CPU_S32) || (v->dt == CPU_PRED && s->nattr != 2)) BAD("the branch is not chosen by a number");
    for (uint32_t i = 0; i < s->nattr; i++) {
        const struct plan_block *b = &p->block[s->attr[i]];
        if (b->nparam || b->nresult != s->nout) BAD("branch %u has another signature", i);
        for (uint32_t k = 0; k < s->nout; k++)
            if (!same_type(&p->value[b->result[k]], step_out(p, s, k))) BAD("branch %u gives another type", i);
    }
    return 0;
}

int step_case__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    int32_t which = 0;
    if (step_in(x->plan, s, 0)->dt == CPU_PRED) which = !*(const uint8_t *)x->ptr[s->in[0]];
    else memcpy(&which, x->ptr[s->in[0]], 4);
    if (which < 0 || (uint32_t)which >= s->nattr) which = (int32_t)s->nattr - 1;
    uint32_t block = (uint32_t)s->attr[which];
    int rc = cpu_exec_block(x, block, err);
    return rc ? rc : copy_all(x, s->out, x->plan->block[block].result, s->nout, err);
}

/* attributes: block; applied to each element of the inputs in turn */
int step_map__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    const struct plan_block *b = &p->block[s->attr[0]];
    if (b->nparam != s->nin || b->nresult != s->nout) BAD("the body's signature is another");
    for (uint32_t i = 0; i < s->nin + s->nout; i++) {
        const struct plan_value *v = i < s->nin ? step_in(p, s, i) : step_out(p, s, i - s->nin);
        const struct plan_value *e = &p->value[i < s->nin ? b->param[i] : b->result[i - s->nin]];
        if (v->dt != e->dt || e->count != 1 || v->count != step_in(p, s, 0)->count) BAD("value %u has another type", i);
        if (i < s->nin && e->where != PLAN_ARENA) BAD("a body writes outside the arena");
    }
    return 0;
}

int step_map__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    const struct plan *p = x->plan;
    const struct plan_block *b = &p->block[s->attr[0]];
    int64_t n = step_in(p, s, 0)->count;
    int rc = 0;
    for (int64_t i = 0; i < n && !rc; i++) {
        for (uint32_t k = 0; k < s->nin; k++) {
            int64_t size = p->value[b->param[k]].bytes;
            memcpy(x->ptr[b->param[k]], (const char *)x->ptr[s->in[k]] + i * size, (size_t)size);
        }
        rc = cpu_exec_block(x, (uint32_t)s->attr[0], err);
        for (uint32_t k = 0; k < s->nout && !rc; k++) {
            int64_t size = p->value[b->result[k]].bytes;
            memcpy((char *)x->ptr[s->out[k]] + i * size, x->ptr[b->result[k]], (size_t)size);
        }
    }
    return rc;
}

/* attributes: 0 replica_id, 1 partition_id */
int step_process_id__check(const struct plan *p, const struct plan_step *s, struct nf_error *err)
{
    if (step_out(p, s, 0)->dt != CPU_U32 || step_out(p, s, 0)->count != 1) BAD("the result is not a number");
    return 0;
}

int step_process_id__run(struct cpu_exec *x, const struct plan_step *s, struct nf_error *err)
{
    (void)err;
    memcpy(x->ptr[s->out[0]], s->attr[0] ? &x->partition : &x->replica, 4);
    return 0;
}
