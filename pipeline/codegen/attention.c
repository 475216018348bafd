/* attention.c: a product, a kernel that takes its result row by row (a softmax), and a product of what comes out become one step,
 * so that the scores of a few rows at a time never leave the cache (runtime/cpu/steps_attention.c).
 *
 *     S = A * B      nothing but the kernel reads S
 *     P = kernel(S)  rows are independent: S and P are walked one whole row an iteration
 *     O = P * V      at the place of this step stands the new one
 *
 * P is kept when others read it too. Where a mask says so, only columns that the kernel looks at will be computed. */
#include "pipeline/codegen/cg.h"
#include "runtime/cpu/dot.h"

/* Below these a product packs as well alone, and S lies in the cache anyway. */
enum { ROWS_MIN = 32, SCORES_MIN = 64 << 10, DEPTH_MAX = 512, PACKED_MAX = 2 << 20 };

/* --------------------------------------------------------------------------------------------- what a kernel looks at */

/* A number of a kernel, as base + row * r + column * c. */
struct affine {
    bool known;
    int64_t base, r, c;
};

/* Of predicates: true (false) only at columns below row + these. */
struct bounds {
    int64_t true_below, false_below;
};
enum { EVERYWHERE = INT32_MAX, NOWHERE = INT32_MIN };

static struct affine index_of(const struct rp_prog *p, int ins)
{
    const struct rp_acc *a = &p->acc[p->ins[ins].aux];
    struct affine f = {.known = p->nd == p->npar + 1, .base = a->base};
    if (!f.known) return f;
    f.r = a->stride[p->npar - 1];
    f.c = a->stride[p->nd - 1];
    for (int d = 0; d < p->npar - 1; d++) f.known = f.known && a->stride[d] == 0;
    return f;
}

static struct bounds compare(int kind, struct affine x, struct affine y)
{
    struct bounds none = {EVERYWHERE, EVERYWHERE};
    int64_t r = x.r - y.r, c = x.c - y.c, by = x.base - y.base;
    if (!x.known || !y.known || by > 1 << 30 || by < -(1 << 30)) return none;
    if (r == -1 && c == 1) { /* the other way round */
        static const uint8_t mirrored[] = {[RP_EQ] = RP_EQ, [RP_NE] = RP_NE, [RP_LT] = RP_GT, [RP_LE] = RP_GE, [RP_GT] = RP_LT, [RP_GE] = RP_LE};
        if (kind < 0 || kind > RP_GE) return none;
        kind = mirrored[kind];
        by = -by;
    } else if (r != 1 || c != -1) {
        return none;
    }
    switch (kind) { /* row + by against column */
    case RP_GE: return (struct bounds){by + 1, EVERYWHERE};
    case RP_GT: return (struct bounds){by, EVERYWHERE};
    case RP_LT: return (struct bounds){EVERYWHERE, by + 1};
    case RP_LE: return (struct bounds){EVERYWHERE, by};
    default: return none;
    }
}

/* What instruction i is at its own element. */
struct fact {
    int64_t needs;     /* of the argument: NOWHERE, columns below row + this, EVERYWHERE; beyond that: at other elements too, no mask helps */
    struct affine f;
    struct bounds b;
    bool alike;        /* at all columns that no row looks at it is one number a row */
    int8_t truth;      /* there, of a predicate: -1 unknown */
};

/* Columns of argument `arg` that the kernel needs of a row: those below row + what is returned; EVERYWHERE. Rows are numbered within a batch,
 * which is what the last of the parallel dims must do. */
static int64_t looks_beyond(const struct rp_prog *p, int arg, int64_t batch, int64_t rows, int64_t outer, struct fact *v)
{
    const int64_t elsewhere = (int64_t)EVERYWHERE + 1;
    int64_t all = NOWHERE;
    if (p->nd != p->npar + 1 || (p->npar > 1 ? p->dims[p->npar - 1] != rows : batch != 1 || outer != rows)) return EVERYWHERE;
    for (int i = 0; i < p->nins; i++) {
        const struct rp_ins *s = &p->ins[i];
        const int *src = s->src;
        const bool number = cpu_dt_int((enum cpu_dt)s->dt) && cpu_dt_bytes((enum cpu_dt)s->dt) >= 4, predicate = s->dt == CPU_PRED;
        v[i] = (struct fact){.needs = NOWHERE, .b = {EVERYWHERE, EVERYWHERE}};
        for (int k = 0; k < rp_op_info[s->op].nsrc; k++) v[i].needs = NF_MAX(v[i].needs, v[src[k]].needs);
        switch ((int)s->op) {
        case RP_LD:
            if (p->acc[s->aux].arg == arg) v[i].needs = p->acc[s->aux].base == 0 && p->acc[s->aux].stride[p->nd - 1] == 1 ? EVERYWHERE : elsewhere;
            break;
        case RP_IDX:
            if (number) v[i].f = index_of(p, i);
            break;
        case RP_CONST: {
            struct cpu_num n = cpu_num_load((enum cpu_dt)s->dt, s->bits);
            if (number && n.i < 1 << 30 && n.i > -(1 << 30)) v[i].f = (struct affine){true, n.i, 0, 0};
            break;
        }
        case RP_CVT:
            if (number) v[i].f = v[src[0]].f;
            break;
        case RP_ADD: case RP_SUB: {
            struct affine x = v[src[0]].f, y = v[src[1]].f;
            int64_t sign = s->op == RP_ADD ? 1 : -1;
            if (number) v[i].f = (struct affine){x.known && y.known, x.base + sign * y.base, x.r + sign * y.r, x.c + sign * y.c};
            break;
        }
        case RP_CMP: v[i].b = compare(s->aux, v[src[0]].f, v[src[1]].f); break;
        case RP_NOT:
            if (predicate) v[i].b = (struct bounds){v[src[0]].b.false_below, v[src[0]].b.true_below};
            break;
        case RP_AND: case RP_OR: {
            struct bounds x = v[src[0]].b, y = v[src[1]].b;
            if (!predicate) break;
            if (s->op == RP_AND) v[i].b = (struct bounds){NF_MIN(x.true_below, y.true_below), NF_MAX(x.false_below, y.false_below)};
            else v[i].b = (struct bounds){NF_MAX(x.true_below, y.true_below), NF_MIN(x.false_below, y.false_below)};
            break;
        }
        case RP_SEL: {
            int64_t yes = v[src[1]].needs, no = v[src[2]].needs;
            struct bounds b = v[src[0]].b;
            if (yes <= EVERYWHERE) yes = NF_MIN(yes, b.true_below);
            if (no <= EVERYWHERE) no = NF_MIN(no, b.false_below);
            v[i].needs = NF_MAX(v[src[0]].needs, NF_MAX(yes, no));
            break;
        }
        case RP_ST: case RP_RED: all = NF_MAX(all, v[i].needs); break;
        default: break;
        }
    }
    return all >= EVERYWHERE ? EVERYWHERE : NF_MAX(all, -rows);
}

/* The instruction that made what instruction i loads from the thread's scratch, or i. */
static int kept_by(const struct rp_prog *p, int i)
{
    if (p->ins[i].op != RP_LD || p->acc[p->ins[i].aux].arg != RP_SCRATCH) return i;
    for (int k = 0; k < i; k++)
        if (p->ins[k].op == RP_ST && p->ins[k].aux == p->ins[i].aux) return p->ins[k].src[0];
    return i;
}

/* May the kernel be cut? All columns from row + beyond on must be alike for it, and if it makes zero of one of them they must not count in its
 * reductions: a maximum has it already, and of a sum of exponentials e, no part is an e that is zero itself or by that sum. */
static bool may_be_cut(const struct rp_prog *p, int arg_s, int arg_p, int64_t cols, int64_t beyond, struct fact *v)
{
    int sum = -1;
    bool of_sum = false, once = false;
    if (beyond >= EVERYWHERE || p->dims[p->nd - 1] != cols || cols % RP_CUT || cols == RP_CUT) return false;
    for (int i = 0; i < p->nins; i++) {
        const struct rp_ins *s = &p->ins[i];
        const int *src = s->src;
        const struct rp_acc *a = s->op == RP_LD || s->op == RP_ST || s->op == RP_IDX ? &p->acc[s->aux] : NULL;
        v[i].truth = s->dt != CPU_PRED ? -1 : v[i].b.true_below <= beyond ? 0 : v[i].b.false_below <= beyond ? 1 : -1;
        v[i].alike = true;
        for (int k = 0; k < rp_op_info[s->op].nsrc; k++) v[i].alike = v[i].alike && v[src[k]].alike;
        switch ((int)s->op) {
        case RP_PASS: case RP_ONCE: once = s->op == RP_ONCE; break;
        case RP_LD: v[i].alike = a->arg == RP_SCRATCH || (a->arg != arg_s && a->stride[p->nd - 1] == 0); break;
        case RP_IDX: v[i].alike = a->stride[p->nd - 1] == 0; break;
        case RP_SEL:
            if (v[src[0]].truth >= 0) v[i].alike = v[v[src[0]].truth ? src[1] : src[2]].alike;
            break;
        case RP_RED:
            if (!v[i].alike) return false;
            if (s->aux == RP_RMAX || s->aux == RP_RMIN || s->aux == RP_ALL || s->aux == RP_ANY) break;
            if (s->aux != RP_SUM || sum >= 0 || p->ins[kept_by(p, src[0])].op != RP_EXP) return false;
            sum = i;
            break;
        case RP_ST: {
            const struct rp_ins *q = &p->ins[src[0]];
            const bool by_sum = q->op == RP_DIV && p->ins[q->src[1]].op == RP_ROW && p->ins[q->src[1]].src[0] == sum;
            if (a->arg == RP_SCRATCH || (once && a->arg != arg_p)) break;
            if (!v[i].alike || a->arg != arg_p || sum < 0) return false;
            of_sum = kept_by(p, by_sum ? q->src[0] : src[0]) == kept_by(p, p->ins[sum].src[0]);
            if (!of_sum) return false;
            break;
        }
        default: break;
        }
        if (v[i].truth >= 0) v[i].alike = true;
    }
    return of_sum;
}

/* ----------------------------------------------------------------------------------------------------------- products */

static bool read_product(const struct cg_step *st, struct dot *ret)
{
    struct plan_step s = {.nattr = st->nattr, .attr = st->attr};
    return dot_read(&s, 0, s.nattr, ret);
}

static void swap_numbers(int64_t *a, int64_t *b)
{
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* The same product with a and b, rows and columns exchanged. */
static void turn(struct dot *d)
{
    struct dot_dims *dims[] = {&d->batch, &d->m, &d->n, &d->k}, m;
    for (size_t c = 0; c < NF_ARRAY_LEN(dims); c++)
        for (int i = 0; i < dims[c]->n; i++) swap_numbers(&dims[c]->s[DOT_A][i], &dims[c]->s[DOT_B][i]);
    swap_numbers(&d->offset[DOT_A], &d->offset[DOT_B]);
    m = d->m;
    d->m = d->n;
    d->n = m;
}

/* Puts dims into the order of the operand's memory; may its numbers then be those of rows and columns? */
static bool in_memory_order(struct dot *d, int operand)
{
    struct dot_dims *by[] = {operand == DOT_C ? &d->n : &d->k, &d->m, &d->batch};
    for (size_t c = 0; c < NF_ARRAY_LEN(by); c++) {
        struct dot_dims *x = by[c];
        for (int i = 1; i < x->n; i++)
            for (int k = i; k > 0 && x->s[operand][k - 1] < x->s[operand][k]; k--) {
                swap_numbers(&x->extent[k - 1], &x->extent[k]);
                for (int o = 0; o < 3; o++) swap_numbers(&x->s[o][k - 1], &x->s[o][k]);
            }
    }
    return dot_in_order(d, operand);
}

static uint32_t write_product(const struct dot *d, int64_t *attr)
{
    static const bool uses[4][3] = {{true, true, true}, {true, false, true}, {false, true, true}, {true, true, false}};
    const struct dot_dims *dims[] = {&d->batch, &d->m, &d->n, &d->k};
    uint32_t at = 0;
    for (int o = 0; o < 3; o++) attr[at++] = d->offset[o];
    for (int c = 0; c < 4; c++) {
        attr[at++] = dims[c]->n;
        for (int i = 0; i < dims[c]->n; i++) {
            attr[at++] = dims[c]->extent[i];
            for (int o = 0; o < 3; o++)
                if (uses[c][o]) attr[at++] = dims[c]->s[o][i];
        }
    }
    return at;
}

/* ------------------------------------------------------------------------------------------------------------- steps */

/* The one dim of rows in two, the inner one of that extent. */
static void split_rows(struct dot *d, int64_t inner)
{
    struct dot_dims *m = &d->m;
    if (m->n != 1 || m->extent[0] <= inner || m->extent[0] % inner) return;
    m->n = 2;
    m->extent[0] /= inner;
    m->extent[1] = inner;
    for (int k = 0; k < 3; k++) {
        m->s[k][1] = m->s[k][0];
        m->s[k][0] *= inner;
    }
}

/* Rows of several dims, of which the first are others' batches (heads that share keys): they are batches here too, so that rows count along
 * one dim, which is what masks go by; the kernel's innermost one of rows. */
static void rows_of_one_dim(struct dot *s, struct dot *o, const struct rp_prog *kernel)
{
    if (kernel->npar > 1) {
        split_rows(s, kernel->dims[kernel->npar - 1]);
        split_rows(o, kernel->dims[kernel->npar - 1]);
    }
    const int n = s->m.n - 1;
    if (n < 1 || o->m.n - 1 != n || s->m.extent[n] < ROWS_MIN || s->batch.n + n > PLAN_RANK_MAX) return;
    for (int i = 0; i <= n; i++)
        if (s->m.extent[i] != o->m.extent[i]) return;
    struct dot *both[] = {s, o};
    for (int b = 0; b < 2; b++) {
        struct dot_dims *to = &both[b]->batch, *m = &both[b]->m;
        for (int i = 0; i < n; i++, to->n++) {
            to->extent[to->n] = m->extent[i];
            for (int k = 0; k < 3; k++) to->s[k][to->n] = k == DOT_B ? 0 : m->s[k][i];
            to->total *= m->extent[i];
        }
        m->total = m->extent[0] = m->extent[n];
        for (int k = 0; k < 3; k++) m->s[k][0] = m->s[k][n];
        m->n = 1;
    }
}

struct found {
    uint32_t product, kernel, second;  /* steps */
    struct cg_value *s, *p;
    int arg_s, arg_p;                  /* of the kernel */
    struct dot first, last;
    bool first_turned, last_turned;
};

static bool f32(const struct cg_value *v) { return v->dt == CPU_F32; }

/* Is the step at f->second the product that reads P, and all three as they must be? */
static bool fits(const struct cg_graph *g, struct found *f)
{
    const struct cg_step *a = &g->steps->s[f->product], *k = &g->steps->s[f->kernel], *o = &g->steps->s[f->second];
    const bool left = cg_memory(o->in[0]) == f->p, right = cg_memory(o->in[1]) == f->p;
    bool by_rows = false;
    if (left == right || !f32(o->in[0]) || !f32(o->in[1]) || !f32(o->out[0]) || !read_product(o, &f->last)) return false;
    f->last_turned = right;
    if (right) turn(&f->last);
    for (int t = 0; t < 2 && !by_rows; t++) { /* rows of S may be the product's columns */
        if (!read_product(a, &f->first)) return false;
        f->first_turned = t;
        if (t) turn(&f->first);
        by_rows = in_memory_order(&f->first, DOT_C) && cpu_attention_rowwise(k->prog, f->arg_s, f->first.n.total) &&
                  rp_range(k->prog, k->outer) == f->first.batch.total * f->first.m.total;
    }
    rows_of_one_dim(&f->first, &f->last, k->prog);
    const int64_t rows = f->first.m.total, cols = f->first.n.total, depth = f->first.k.total, width = f->last.n.total;
    if (!by_rows || !in_memory_order(&f->last, DOT_A) || !cpu_attention_rowwise(k->prog, f->arg_p, cols)) return false;
    if (f->last.batch.total != f->first.batch.total || f->last.m.total != rows || f->last.k.total != cols) return false;
    if (rows < ROWS_MIN || f->s->count < SCORES_MIN || depth < 1 || depth > DEPTH_MAX || width > DEPTH_MAX || cols * (depth + width) > PACKED_MAX) return false;
    /* The kernel moves down to the second product: nothing before may read what it makes, nor that product anything but P. */
    for (uint32_t q = 0; q < k->nout; q++) {
        if (k->out[q]->captured || k->out[q]->kind == CG_ASSEMBLE) return false;
        for (uint32_t i = f->kernel + 1; i <= f->second; i++)
            for (uint32_t n = 0; n < g->steps->s[i].nin; n++)
                if (cg_memory(g->steps->s[i].in[n]) == k->out[q] && (i < f->second || k->out[q] != f->p)) return false;
    }
    return true;
}

/* One step, where the second product was; the other two are emptied. */
static void fuse(struct cg_graph *g, const struct found *f, bool kept)
{
    struct nf_arena *ar = g->cg->arena;
    struct cg_step *a = &g->steps->s[f->product], *k = &g->steps->s[f->kernel], *o = &g->steps->s[f->second];
    struct cg_step st = {.op = PLAN_ATTENTION, .label = k->label != PLAN_NO_LABEL ? k->label : o->label, .prog = k->prog, .outer = k->outer};
    st.in = NF_NEW_ARRAY(ar, struct cg_value *, k->nin + 3);
    st.out = NF_NEW_ARRAY(ar, struct cg_value *, k->nout + 1);
    st.in[st.nin++] = a->in[f->first_turned];
    st.in[st.nin++] = a->in[!f->first_turned];
    st.in[st.nin++] = o->in[!f->last_turned];
    st.out[st.nout++] = o->out[0];
    for (uint32_t i = 0; i < k->nin; i++)
        if ((int)i != f->arg_s) st.in[st.nin++] = k->in[i];
    for (uint32_t i = 0; i < k->nout; i++)
        if (kept || k->out[i] != f->p) st.out[st.nout++] = k->out[i];
    struct fact *facts = nf_arena_alloc_array(ar, (size_t)k->prog->nins, sizeof *facts);
    const int64_t rows = f->first.m.total, cols = f->first.n.total, beyond = looks_beyond(k->prog, f->arg_s, f->first.batch.total, rows, k->outer, facts);
    k->prog->cut = may_be_cut(k->prog, f->arg_s, f->arg_p, cols, beyond, facts);
    int64_t *attr = st.attr = NF_NEW_ARRAY(ar, int64_t, 8 + 2 * (7 + 4 * 4 * PLAN_RANK_MAX));
    attr[st.nattr++] = 0; /* the kernel's number, known later */
    attr[st.nattr++] = k->outer;
    attr[st.nattr++] = f->arg_s;
    attr[st.nattr++] = f->arg_p;
    attr[st.nattr++] = kept ? ATTENTION_KEPT : cg_in_place(k->prog, f->arg_s, f->arg_p) ? ATTENTION_IN_PLACE : ATTENTION_BESIDE;
    attr[st.nattr++] = NF_MIN(beyond, cols);
    attr[st.nattr++] = k->prog->cut;
    attr[st.nattr] = write_product(&f->first, attr + st.nattr + 1);
    st.nattr += 1 + (uint32_t)attr[st.nattr];
    st.nattr += write_product(&f->last, attr + st.nattr);
    *o = st;
    a->op = k->op = PLAN_OP_MAX;
}

void cg_fuse_attention(struct cg_graph *g)
{
    struct cg_steps *s = g->steps;
    struct nf_arena *ar = g->cg->arena;
    uint32_t *uses = NF_NEW_ARRAY(ar, uint32_t, g->n + 1), *made = NF_NEW_ARRAY(ar, uint32_t, g->n + 1), n = 0;
    for (uint32_t i = 0; i < s->n; i++) { /* made: the product that makes a value, + 1 */
        for (uint32_t k = 0; k < s->s[i].nin; k++)
            if (cg_memory(s->s[i].in[k])->graph == g) uses[cg_memory(s->s[i].in[k])->id]++;
        if (s->s[i].op == PLAN_DOT && s->s[i].out[0]->graph == g) made[s->s[i].out[0]->id] = i + 1;
    }
    for (uint32_t i = 0; i < g->nresult; i++)
        if (cg_memory(g->results[i])->graph == g) uses[cg_memory(g->results[i])->id] += 2;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct cg_step *k = &s->s[i];
        struct found f = {.kernel = i};
        bool done = false;
        if (k->op != PLAN_KERNEL || k->prog->block) continue;
        for (uint32_t in = 0; in < k->nin && !done; in++) {
            f.s = k->in[in];
            f.arg_s = (int)in;
            if (f.s->graph != g || !made[f.s->id] || uses[f.s->id] != 1 || f.s->captured || f.s->output || !f32(f.s)) continue;
            f.product = made[f.s->id] - 1;
            const struct cg_step *a = &s->s[f.product];
            if (f.product > i || !f32(a->in[0]) || !f32(a->in[1])) continue;
            for (uint32_t out = 0; out < k->nout && !done; out++) {
                f.p = k->out[out];
                f.arg_p = (int)(k->nin + out);
                if (f.p->graph != g || !f32(f.p) || f.p->count != f.s->count) continue;
                for (f.second = i + 1; f.second < s->n && !done; f.second++) {
                    if (s->s[f.second].op != PLAN_DOT || !fits(g, &f)) continue;
                    done = true;
                    fuse(g, &f, f.p->output || uses[f.p->id] > 1);
                    break;
                }
            }
        }
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->s[i].op != PLAN_OP_MAX) s->s[n++] = s->s[i];
    s->n = n;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i]->ngraph && !g->v[i]->dead; k++) cg_fuse_attention(g->v[i]->graphs[k]);
}
