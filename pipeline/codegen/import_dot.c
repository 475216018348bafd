/* import_dot.c: products of tensors, convolutions and collectives of StableHLO.
 *
 * A convolution is a product over its windows: the input is padded (and its elements moved apart) first, then every element of
 * a window is an affine form of output position and tap. Depthwise ones are sums of shifted products instead. */
#include "pipeline/codegen/import_internal.h"

/* Pairs by spatial dim; NULL: none, or it is known only at run time. */
static const struct hlo_attr *padding_of(const struct hlo_op *op)
{
    return op->id == HLO_OP_DYNAMIC_CONV ? hlo_value_constant(hlo_op_operand(op, 2)) : hlo_op_attr(op, HLO_A_padding);
}

static int add_loop(struct cg_dot *d, char cls, int64_t extent)
{
    d->loop[d->nloop] = (struct cg_loop){extent, cls};
    return d->nloop++;
}

static struct cg_value *dot_of_shape(struct import *im, struct cg_graph *g, struct cg_dot *d, struct cg_value *a, struct cg_value *b, enum cpu_dt dt, int rank,
                                     const int64_t *dims)
{
    struct cg_value *v = cg_raw(g, CG_DOT, dt, rank, dims);
    v->dot = d;
    v->nin = 2;
    v->in = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, 2);
    /* Numbers that are everywhere the same have no memory to be read from. */
    for (int k = 0; k < 2; k++) {
        struct cg_value *o = k ? b : a, *base = cg_base(o);
        v->in[k] = base->kind == CG_SPLAT || base->kind == CG_IOTA ? cg_copy(g, o) : o;
    }
    v->label = im->label;
    /* Copies stand after it in program order: put it last. */
    for (uint32_t i = v->id; i + 1 < g->n; i++) {
        g->v[i] = g->v[i + 1];
        g->v[i]->id = i;
    }
    g->v[g->n - 1] = v;
    v->id = g->n - 1;
    return v;
}

static void dot_value(struct import *im, struct cg_graph *g, const struct hlo_op *op, struct cg_dot *d, struct cg_value *a, struct cg_value *b)
{
    int64_t dims[CG_RANK_MAX];
    int rank;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, dims, &rank);
    if (!im->rc) im->map[op->results[0].id] = dot_of_shape(im, g, d, a, b, dt, rank, dims);
}

static bool listed(struct hlo_ints l, int64_t x)
{
    for (size_t i = 0; i < l.n; i++)
        if (l.v[i] == x) return true;
    return false;
}

void imp_dot(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *a = imp_get(im, hlo_op_operand(op, 0)), *b = imp_get(im, hlo_op_operand(op, 1));
    static const int64_t zero = 0;
    int64_t last = 0;
    if (im->rc) return;
    struct hlo_dot plain = {0};
    const struct hlo_dot *dn = &plain;
    if (op->id == HLO_OP_DOT) {
        last = a->rank - 1;
        plain.lhs_contracting = (struct hlo_ints){1, &last};
        plain.rhs_contracting = (struct hlo_ints){1, &zero};
    } else {
        dn = hlo_op_attr(op, HLO_A_dot_dimension_numbers)->dot;
    }
    if ((size_t)(a->rank + b->rank) > CG_LOOPS_MAX) {
        imp_refuse(im, op, "that many dimensions");
        return;
    }
    struct cg_dot *d = NF_NEW(im->cg->arena, struct cg_dot);
    int at = 0;
    for (size_t i = 0; i < dn->lhs_batching.n; i++) {
        int l = add_loop(d, 'b', a->dims[dn->lhs_batching.v[i]]);
        d->coef[0][dn->lhs_batching.v[i]][l] = d->coef[1][dn->rhs_batching.v[i]][l] = d->coef[2][at++][l] = 1;
    }
    for (int k = 0; k < a->rank; k++) {
        if (listed(dn->lhs_batching, k) || listed(dn->lhs_contracting, k)) continue;
        int l = add_loop(d, 'm', a->dims[k]);
        d->coef[0][k][l] = d->coef[2][at++][l] = 1;
    }
    for (int k = 0; k < b->rank; k++) {
        if (listed(dn->rhs_batching, k) || listed(dn->rhs_contracting, k)) continue;
        int l = add_loop(d, 'n', b->dims[k]);
        d->coef[1][k][l] = d->coef[2][at++][l] = 1;
    }
    for (size_t i = 0; i < dn->lhs_contracting.n; i++) {
        int l = add_loop(d, 'k', a->dims[dn->lhs_contracting.v[i]]);
        d->coef[0][dn->lhs_contracting.v[i]][l] = d->coef[1][dn->rhs_contracting.v[i]][l] = 1;
    }
    dot_value(im, g, op, d, a, b);
}

static int64_t entry(struct hlo_ints l, size_t i, int64_t absent) { return i < l.n ? l.v[i] : absent; }

static bool flipped(const struct hlo_attr *rev, int i) { return rev && rev->kind == HLO_ATTR_DENSE_ARRAY && (size_t)i < rev->ints.n && rev->ints.v[i]; }

/* One feature in, one out, by group: for every tap, a slice of the input times a row of the kernel, added up. */
static void depthwise(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_conv *c, struct cg_value *x, struct cg_value *w)
{
    int64_t dims[CG_RANK_MAX], taps = 1, kdims[CG_RANK_MAX];
    int rank, ns = (int)c->input_spatial.n;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, dims, &rank);
    struct hlo_ints stride = hlo_op_i64s(op, HLO_A_window_strides), dil = hlo_op_i64s(op, HLO_A_rhs_dilation);
    const struct hlo_attr *rev = hlo_op_attr(op, HLO_A_window_reversal);
    struct cg_value *sum = NULL;
    for (int i = 0; i < ns; i++) taps *= w->dims[c->kernel_spatial.v[i]];
    for (int64_t t = 0; t < taps; t++) {
        int64_t start[CG_RANK_MAX] = {0}, step[CG_RANK_MAX], part[CG_RANK_MAX], ks[CG_RANK_MAX] = {0}, kstep[CG_RANK_MAX], kp[CG_RANK_MAX], rest = t, map[CG_RANK_MAX], f;
        for (int d = 0; d < x->rank; d++) {
            step[d] = kstep[d] = kp[d] = 1;
            part[d] = x->dims[d];
        }
        for (int i = ns - 1; i >= 0; i--) {
            int64_t n = w->dims[c->kernel_spatial.v[i]], k = rest % n;
            rest /= n;
            start[c->input_spatial.v[i]] = k * entry(dil, (size_t)i, 1);
            step[c->input_spatial.v[i]] = entry(stride, (size_t)i, 1);
            part[c->input_spatial.v[i]] = dims[c->output_spatial.v[i]];
            bool flip = flipped(rev, i);
            ks[c->kernel_spatial.v[i]] = flip ? n - 1 - k : k;
        }
        f = kp[c->kernel_output_feature] = w->dims[c->kernel_output_feature];
        struct cg_value *xs = cg_slice(g, x, part, start, step), *ws = cg_reshape(g, cg_slice(g, w, kp, ks, kstep), 1, &f);
        /* Into the result's order of dims. */
        int64_t perm[CG_RANK_MAX];
        perm[c->output_batch] = c->input_batch;
        perm[c->output_feature] = c->input_feature;
        for (int i = 0; i < ns; i++) perm[c->output_spatial.v[i]] = c->input_spatial.v[i];
        map[0] = c->output_feature;
        xs = cg_convert(g, cg_transpose(g, xs, perm), dt);
        ws = cg_convert(g, cg_broadcast(g, ws, rank, dims, map), dt);
        struct cg_value *p = cg_ew(g, RP_MUL, dt, 0, 2, (struct cg_value *[]){xs, ws});
        sum = sum ? cg_ew(g, RP_ADD, dt, 0, 2, (struct cg_value *[]){sum, p}) : p;
    }
    (void)kdims;
    im->map[op->results[0].id] = sum;
}

/* Elements that are moved apart (the gradient of a strided convolution): most of what a window holds are zeros. Results whose windows hold
 * the same taps make a convolution of their own, over the elements as they are, with every s-th tap. No groups, stride 1. */
static void by_phases(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_conv *c, struct cg_value *x, struct cg_value *w)
{
    int64_t out[CG_RANK_MAX], phases = 1;
    int rank, ns = (int)c->input_spatial.n;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, out, &rank);
    const struct hlo_attr *pad = padding_of(op), *rev = hlo_op_attr(op, HLO_A_window_reversal);
    struct hlo_ints ldil = hlo_op_i64s(op, HLO_A_lhs_dilation);
    struct cg_value *whole = cg_assemble(g, dt, rank, out), *zero = cg_splat(g, (enum cpu_dt)x->dt, 0, NULL, (struct cpu_num){0});
    for (int i = 0; i < ns; i++) phases *= entry(ldil, (size_t)i, 1);
    for (int64_t p = 0; p < phases; p++) {
        int64_t start[CG_RANK_MAX] = {0}, step[CG_RANK_MAX], dims[CG_RANK_MAX], padded[CG_RANK_MAX], low[CG_RANK_MAX] = {0}, interior[CG_RANK_MAX] = {0}, rest = p;
        int64_t taps[CG_RANK_MAX], first[CG_RANK_MAX], count = 1, all_taps = 1;
        for (int d = 0; d < rank; d++) {
            step[d] = 1;
            dims[d] = out[d];
            padded[d] = x->dims[d];
        }
        for (int i = ns - 1; i >= 0; i--) {
            int64_t s = entry(ldil, (size_t)i, 1), at = rest % s, o = c->output_spatial.v[i], in = c->input_spatial.v[i], k = w->dims[c->kernel_spatial.v[i]];
            int64_t before = pad ? hlo_attr_dense_int_at(pad, 2 * (size_t)i) : 0;
            rest /= s;
            first[i] = ((before - at) % s + s) % s; /* result at + s*q and tap first + s*t meet element q + t - low */
            taps[i] = first[i] < k ? (k - first[i] + s - 1) / s : 0;
            start[o] = at;
            step[o] = s;
            dims[o] = out[o] > at ? (out[o] - at + s - 1) / s : 0;
            low[in] = -((at + first[i] - before) / s);
            padded[in] = dims[o] + taps[i] - 1;
            count *= dims[o];
            all_taps *= taps[i];
        }
        if (count == 0) continue;
        if (all_taps == 0) {
            cg_assemble_add(g, whole, cg_splat(g, dt, rank, dims, (struct cpu_num){0}), start, step);
            continue;
        }
        struct cg_dot *d = NF_NEW(im->cg->arena, struct cg_dot);
        int l = add_loop(d, 'm', x->dims[c->input_batch]);
        d->coef[0][c->input_batch][l] = d->coef[2][c->output_batch][l] = 1;
        for (int i = 0; i < ns; i++) {
            l = add_loop(d, 'm', dims[c->output_spatial.v[i]]);
            d->coef[0][c->input_spatial.v[i]][l] = d->coef[2][c->output_spatial.v[i]][l] = 1;
        }
        l = add_loop(d, 'n', w->dims[c->kernel_output_feature]);
        d->coef[1][c->kernel_output_feature][l] = d->coef[2][c->output_feature][l] = 1;
        for (int i = 0; i < ns; i++) {
            int64_t kd = c->kernel_spatial.v[i], s = entry(ldil, (size_t)i, 1);
            bool flip = flipped(rev, i);
            l = add_loop(d, 'k', taps[i]);
            d->coef[0][c->input_spatial.v[i]][l] = 1;
            d->coef[1][kd][l] = flip ? -s : s;
            d->base[1][kd] = flip ? w->dims[kd] - 1 - first[i] : first[i];
        }
        l = add_loop(d, 'k', w->dims[c->kernel_input_feature]);
        d->coef[0][c->input_feature][l] = d->coef[1][c->kernel_input_feature][l] = 1;
        cg_assemble_add(g, whole, dot_of_shape(im, g, d, cg_pad(g, x, zero, padded, low, interior), w, dt, rank, dims), start, step);
    }
    im->map[op->results[0].id] = whole;
}

/* The gradient of a convolution by patches (kernel as large as the stride): every result has one tap, which its place in its patch says.
 * One product: rows are patches, columns places in a patch and features. */
static bool by_patches(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_conv *c, struct cg_value *x, struct cg_value *w)
{
    int64_t out[CG_RANK_MAX];
    int rank, ns = (int)c->input_spatial.n;
    (void)imp_type(im, op, op->results[0].type, out, &rank);
    const struct hlo_attr *pad = padding_of(op), *rev = hlo_op_attr(op, HLO_A_window_reversal);
    struct hlo_ints ldil = hlo_op_i64s(op, HLO_A_lhs_dilation);
    for (int i = 0; i < ns; i++) {
        int64_t s = entry(ldil, (size_t)i, 1), before = pad ? hlo_attr_dense_int_at(pad, 2 * (size_t)i) : 0;
        if (w->dims[c->kernel_spatial.v[i]] != s || before != s - 1 || out[c->output_spatial.v[i]] != s * x->dims[c->input_spatial.v[i]]) return false;
    }
    struct cg_dot *d = NF_NEW(im->cg->arena, struct cg_dot);
    int l = add_loop(d, 'm', x->dims[c->input_batch]);
    d->coef[0][c->input_batch][l] = d->coef[2][c->output_batch][l] = 1;
    for (int i = 0; i < ns; i++) {
        int64_t s = entry(ldil, (size_t)i, 1), in = c->input_spatial.v[i], kd = c->kernel_spatial.v[i];
        l = add_loop(d, 'm', x->dims[in]);
        d->coef[0][in][l] = 1;
        d->coef[2][c->output_spatial.v[i]][l] = s;
        l = add_loop(d, 'n', s); /* tap s - 1 - place */
        d->coef[2][c->output_spatial.v[i]][l] = 1;
        d->coef[1][kd][l] = flipped(rev, i) ? 1 : -1;
        d->base[1][kd] = flipped(rev, i) ? 0 : s - 1;
    }
    l = add_loop(d, 'n', w->dims[c->kernel_output_feature]);
    d->coef[1][c->kernel_output_feature][l] = d->coef[2][c->output_feature][l] = 1;
    l = add_loop(d, 'k', w->dims[c->kernel_input_feature]);
    d->coef[0][c->input_feature][l] = d->coef[1][c->kernel_input_feature][l] = 1;
    dot_value(im, g, op, d, x, w);
    return true;
}

void imp_convolution(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *x = imp_get(im, hlo_op_operand(op, 0)), *w = imp_get(im, hlo_op_operand(op, 1));
    int64_t out[CG_RANK_MAX];
    int rank;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, out, &rank);
    if (im->rc) return;
    const struct hlo_conv *c = hlo_op_attr(op, HLO_A_dimension_numbers)->conv;
    const struct hlo_attr *pad = padding_of(op), *rev = hlo_op_attr(op, HLO_A_window_reversal);
    struct hlo_ints stride = hlo_op_i64s(op, HLO_A_window_strides), ldil = hlo_op_i64s(op, HLO_A_lhs_dilation), rdil = hlo_op_i64s(op, HLO_A_rhs_dilation);
    int64_t fg = hlo_op_i64(op, HLO_A_feature_group_count, 1), bg = hlo_op_i64(op, HLO_A_batch_group_count, 1);
    int ns = (int)c->input_spatial.n;
    if (3 * ns + 6 > CG_LOOPS_MAX) {
        imp_refuse(im, op, "that many dimensions");
        return;
    }
    if (op->id == HLO_OP_DYNAMIC_CONV && (!pad || pad->kind != HLO_ATTR_DENSE)) {
        imp_refuse(im, op, "padding that is known only at run time");
        return;
    }
    int64_t dims[CG_RANK_MAX], low[CG_RANK_MAX] = {0}, interior[CG_RANK_MAX] = {0};
    for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
    for (int i = 0; i < ns; i++) {
        int64_t d = c->input_spatial.v[i], l = pad ? hlo_attr_dense_int_at(pad, 2 * (size_t)i) : 0, h = pad ? hlo_attr_dense_int_at(pad, 2 * (size_t)i + 1) : 0;
        low[d] = l;
        interior[d] = entry(ldil, (size_t)i, 1) - 1;
        dims[d] = (x->dims[d] ? (x->dims[d] - 1) * (interior[d] + 1) + 1 : 0) + l + h;
        if (dims[d] < 0) dims[d] = 0;
    }
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= out[d];
    struct cg_value *zero = cg_splat(g, (enum cpu_dt)x->dt, 0, NULL, (struct cpu_num){0});
    if (count == 0 || x->count == 0 || w->count == 0) {
        im->map[op->results[0].id] = cg_splat(g, dt, rank, out, (struct cpu_num){0});
        return;
    }
    bool apart = false, plain = fg == 1 && bg == 1;
    int64_t phases = 1;
    for (int i = 0; i < ns; i++) {
        apart = apart || entry(ldil, (size_t)i, 1) > 1;
        plain = plain && entry(stride, (size_t)i, 1) == 1 && entry(rdil, (size_t)i, 1) == 1 && entry(ldil, (size_t)i, 1) <= 64;
        if (plain) phases *= entry(ldil, (size_t)i, 1);
    }
    if (apart && plain && ns <= 3) {
        if (by_patches(im, g, op, c, x, w)) return;
        if (phases <= 64) {
            by_phases(im, g, op, c, x, w);
            return;
        }
    }
    x = cg_pad(g, x, zero, dims, low, interior);
    int64_t taps = 1;
    for (int i = 0; i < ns; i++) taps *= w->dims[c->kernel_spatial.v[i]];
    if (fg > 1 && bg == 1 && fg == x->dims[c->input_feature] && fg == w->dims[c->kernel_output_feature] && taps <= 64 && dt >= CPU_F32) {
        depthwise(im, g, op, c, x, w);
        return;
    }
    struct cg_dot *d = NF_NEW(im->cg->arena, struct cg_dot);
    int64_t groups = fg > 1 ? fg : bg, nf = w->dims[c->kernel_output_feature] / groups, nc = w->dims[c->kernel_input_feature], nb = x->dims[c->input_batch] / bg;
    if (groups > 1) {
        int l = add_loop(d, 'b', groups);
        if (fg > 1) d->coef[0][c->input_feature][l] = nc;
        else d->coef[0][c->input_batch][l] = nb;
        d->coef[1][c->kernel_output_feature][l] = nf;
        d->coef[2][c->output_feature][l] = nf;
    }
    int l = add_loop(d, 'm', nb);
    d->coef[0][c->input_batch][l] = d->coef[2][c->output_batch][l] = 1;
    for (int i = 0; i < ns; i++) {
        l = add_loop(d, 'm', out[c->output_spatial.v[i]]);
        d->coef[0][c->input_spatial.v[i]][l] = entry(stride, (size_t)i, 1);
        d->coef[2][c->output_spatial.v[i]][l] = 1;
    }
    l = add_loop(d, 'n', nf);
    d->coef[1][c->kernel_output_feature][l] = d->coef[2][c->output_feature][l] = 1;
    for (int i = 0; i < ns; i++) {
        int64_t kd = c->kernel_spatial.v[i], n = w->dims[kd];
        bool flip = flipped(rev, i);
        l = add_loop(d, 'k', n);
        d->coef[0][c->input_spatial.v[i]][l] = entry(rdil, (size_t)i, 1);
        d->coef[1][kd][l] = flip ? -1 : 1;
        d->base[1][kd] = flip ? n - 1 : 0;
    }
    l = add_loop(d, 'k', nc);
    d->coef[0][c->input_feature][l] = d->coef[1][c->kernel_input_feature][l] = 1;
    dot_value(im, g, op, d, x, w);
}

/* ------------------------------------------------------------------------------------------------------ collectives */

void imp_collective(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    uint32_t P = im->cg->partitions, R = im->cg->replicas, n = op->num_operands;
    struct cg_value *in[64];
    const struct hlo_attr *groups = hlo_op_attr(op, op->id == HLO_OP_COLLECTIVE_PERMUTE ? HLO_A_source_target_pairs : HLO_A_replica_groups);
    const struct hlo_attr *channel = hlo_op_attr(op, HLO_A_channel_handle);
    bool has_channel = channel && channel->kind == HLO_ATTR_CHANNEL && channel->channel.handle > 0;
    bool global = hlo_op_attr(op, HLO_A_use_global_device_ids) != NULL && hlo_op_bool(op, HLO_A_use_global_device_ids, false);
    if (!imp_operands(im, op, n, in, NF_ARRAY_LEN(in))) return;
    int64_t ng = 0, size = 0, *table = NULL;
    bool by_axes = groups && groups->kind == HLO_ATTR_MESH_AXES;
    if (by_axes ? !hlo_mesh_groups(im->m, &groups->mesh_axes, im->cg->arena, &ng, &size, &table) : !groups || groups->kind != HLO_ATTR_DENSE || groups->type->rank != 2) {
        imp_refuse(im, op, by_axes ? "the mesh axes of its groups" : "groups that are no table");
        return;
    }
    if (!table) {
        ng = groups->type->dims[0];
        size = groups->type->dims[1];
    }
    int64_t attrs[PLAN_ATTRS_MAX] = {RP_SUM, 0, 0, 0, 0, 0, 0, channel && channel->kind == HLO_ATTR_CHANNEL ? channel->channel.handle : 0};
    uint32_t at = 8;
    bool permute = op->id == HLO_OP_COLLECTIVE_PERMUTE;
    bool partitions = has_channel && (permute || op->id == HLO_OP_ALL_TO_ALL || op->id == HLO_OP_COLLECTIVE_BROADCAST || (op->id == HLO_OP_COLLECTIVE_REDUCE && !global));
    bool whole = !permute && (ng == 0 || size == 0);
    if (whole) {
        ng = 1;
        size = global ? (int64_t)R * P : partitions ? P : R;
    }
    int64_t copies = global && has_channel ? 1 : partitions ? R : has_channel ? 1 : P, members = size;
    if (has_channel && !partitions && !global) members = size * P;
    if ((uint64_t)(ng * copies * members) + 8 > PLAN_ATTRS_MAX) {
        imp_refuse(im, op, "that many devices");
        return;
    }
#define ID(i, k) (whole ? (k) : table ? table[(i) * size + (k)] : hlo_attr_dense_int_at(groups, (size_t)((i) * size + (k))))
    for (int64_t c = 0; c < copies; c++)
        for (int64_t i = 0; i < ng; i++) {
            if (has_channel && !partitions && !global) {
                for (uint32_t p = 0; p < P; p++)
                    for (int64_t k = 0; k < size; k++) attrs[at++] = ID(i, k) < 0 ? -1 : ID(i, k) * P + p;
                continue;
            }
            for (int64_t k = 0; k < size; k++) {
                int64_t id = ID(i, k);
                attrs[at++] = id < 0 ? -1 : global && has_channel ? id : partitions ? c * P + id : id * P + c;
            }
        }
#undef ID
    attrs[5] = ng * copies;
    attrs[6] = members;
    for (int64_t i = 0; !permute && i < attrs[5]; i++)
        if (named_twice(attrs + 8 + i * members, (uint32_t)members)) {
            imp_refuse(im, op, "a group that names a device twice");
            return;
        }
    switch ((int)op->id) {
    case HLO_OP_ALL_REDUCE:
    case HLO_OP_REDUCE_SCATTER:
    case HLO_OP_COLLECTIVE_REDUCE:
        attrs[0] = imp_body_kind(hlo_op_body(op, 0), 1);
        attrs[2] = op->id == HLO_OP_ALL_REDUCE ? COLL_ALL_REDUCE : op->id == HLO_OP_REDUCE_SCATTER ? COLL_REDUCE_SCATTER : COLL_REDUCE;
        attrs[3] = hlo_op_i64(op, HLO_A_scatter_dimension, 0);
        if (attrs[0] == BODY_SET) {
            imp_refuse(im, op, "a reducer that takes the last value");
            return;
        }
        break;
    case HLO_OP_ALL_GATHER:
        attrs[2] = COLL_ALL_GATHER;
        attrs[3] = hlo_op_i64(op, HLO_A_all_gather_dim, 0);
        break;
    case HLO_OP_ALL_TO_ALL:
        attrs[2] = COLL_ALL_TO_ALL;
        attrs[3] = hlo_op_i64(op, HLO_A_concat_dimension, 0);
        attrs[4] = hlo_op_i64(op, HLO_A_split_dimension, 0);
        break;
    case HLO_OP_COLLECTIVE_PERMUTE:
        attrs[2] = COLL_PERMUTE;
        attrs[3] = partitions;
        break;
    default: attrs[2] = COLL_BROADCAST; break;
    }
    struct cg_value *lib = cg_lib(g, PLAN_COLLECTIVE, n, in, at, attrs);
    lib->label = im->label;
    if (attrs[2] == COLL_ALL_REDUCE || attrs[2] == COLL_REDUCE_SCATTER || attrs[2] == COLL_REDUCE) imp_attach_body(im, lib, hlo_op_body(op, 0));
    imp_finish_lib(im, op, lib);
}
