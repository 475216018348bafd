/* pass_einsum.c: einsum and unary_einsum in terms of what StableHLO kept.
 *
 *   config  ::= letters (',' letters)? '->' letters        letters: a-z A-Z, and at most one "..." a list
 *
 * "..." stands for as many dimensions as the operand has more, counted from the right; the result has all of them. A dimension of size 1 meets one of
 * another size as if it were not there. In this order: a letter that comes twice in an operand keeps its diagonal; letters that
 * only one operand has and the result has not are summed up; what both have is a batch dimension or contracted (dot_general); a
 * transpose puts the rest where the result wants it. */
#include "pipeline/hlo/pass_chlo.h"
#include "pipeline/hlo/passes.h"

#define MAX_LABELS 128
#define FIRST_HIDDEN 64         /* labels of "...": 64 is the rightmost */

struct labels {
    size_t n;
    int v[MAX_LABELS];
    bool dots;
};

/* An operand on its way: its value and the label of each dimension. */
struct term {
    struct hlo_value *value;
    struct labels labels;
};

struct einsum {
    struct hlo_module *m;
    struct hlo_op *op;
};

static int label_of(char c) { return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1; }

/* rank: of the operand; hidden: how many labels "..." is where the rank is not known (the result). */
static bool parse_labels(struct nf_str s, size_t rank, size_t hidden, struct labels *ret)
{
    struct labels l = {0};
    size_t letters = 0;
    for (size_t i = 0; i < s.len; i++)
        letters += label_of(s.data[i]) >= 0;
    if (rank != SIZE_MAX)
        hidden = rank >= letters ? rank - letters : 0;
    if (letters + hidden > MAX_LABELS || hidden > MAX_LABELS - FIRST_HIDDEN)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (label_of(s.data[i]) >= 0) {
            l.v[l.n++] = label_of(s.data[i]);
        } else if (s.len - i >= 3 && memcmp(s.data + i, "...", 3) == 0 && !l.dots) {
            l.dots = true;
            for (size_t k = hidden; k-- > 0;)
                l.v[l.n++] = FIRST_HIDDEN + (int)k;
            i += 2;
        } else if (s.data[i] != ' ') {
            return false;
        }
    }
    *ret = l;
    return rank == SIZE_MAX || l.n == rank;
}

static int place_of(const struct labels *l, int label)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] == label)
            return (int)i;
    return -1;
}

static void drop_label(struct labels *l, size_t at)
{
    l->n--;
    for (size_t i = at; i < l->n; i++)
        l->v[i] = l->v[i + 1];
}

static struct hlo_value *build(struct einsum *e, enum hlo_op_id id, const struct hlo_type *t, uint32_t n, struct hlo_value *const *operands)
{
    return hlo_build(e->m, e->op->block, e->op, id, t, n, operands);
}

static const struct hlo_type *without_dim(struct einsum *e, const struct hlo_type *t, size_t at)
{
    int64_t dims[MAX_LABELS];
    for (uint32_t i = 0, k = 0; i < t->rank; i++)
        if (i != at)
            dims[k++] = t->dims[i];
    return hlo_type_with_shape(e->m, t, t->rank - 1, dims);
}

static struct hlo_value *sum_over(struct einsum *e, struct hlo_value *x, size_t at)
{
    struct hlo_module *m = e->m;
    int64_t dim = (int64_t)at;
    const struct hlo_type *scalar = hlo_type_with_shape(m, x->type, 0, NULL), *t = without_dim(e, x->type, at);
    struct hlo_value *zero = hlo_build_splat(m, e->op->block, e->op, scalar, 0);
    struct hlo_op *reduce = hlo_op_new(m, HLO_OP_REDUCE, 2, (struct hlo_value *[]){x, zero}, 1, &t, 1);
    struct hlo_block *b = hlo_block_new(m, reduce->regions[0]);
    struct hlo_value *v[2] = {hlo_block_add_arg(m, b, scalar), hlo_block_add_arg(m, b, scalar)};
    struct hlo_value *sum = hlo_build(m, b, NULL, HLO_OP_ADD, scalar, 2, v);
    hlo_block_append(b, hlo_op_new(m, HLO_OP_RETURN, 1, &sum, 0, NULL, 0));
    hlo_op_set_attr(reduce, HLO_A_dimensions, hlo_attr_i64s(m, 1, &dim));
    reduce->loc = e->op->loc;
    reduce->pos = e->op->pos;
    hlo_block_insert(e->op->block, e->op, reduce);
    return &reduce->results[0];
}

/* Dimensions i and k > i become one: what is not on the diagonal is replaced by zeros, then summed up. */
static struct hlo_value *diagonal(struct einsum *e, struct hlo_value *x, size_t i, size_t k)
{
    struct hlo_module *m = e->m;
    const struct hlo_type *t = x->type, *index = hlo_type_tensor(m, HLO_ELEM_I64, t->rank, t->dims), *mask = hlo_type_tensor(m, HLO_ELEM_I1, t->rank, t->dims);
    struct hlo_value *at[2], *shape = NULL; /* of x, where it is known at run time */
    struct hlo_value *zeros = hlo__chlo_const(&(struct hlo_chlo){.m = m, .at = e->op, .t = t, .like = x, .shape = &shape}, 0);
    for (int d = 0; d < 2; d++) {
        at[d] = build(e, shape ? HLO_OP_DYNAMIC_IOTA : HLO_OP_IOTA, index, shape ? 1 : 0, &shape);
        hlo_op_set_attr(at[d]->def.op, HLO_A_iota_dimension, hlo_attr_int(m, HLO_ELEM_I64, (int64_t)(d ? k : i)));
    }
    struct hlo_value *equal = build(e, HLO_OP_COMPARE, mask, 2, at);
    hlo_op_set_attr(equal->def.op, HLO_A_comparison_direction, hlo_attr_enum(m, HLO_ENUM_DIRECTION, HLO_EQ));
    return sum_over(e, build(e, HLO_OP_SELECT, t, 3, (struct hlo_value *[]){equal, x, zeros}), k);
}

static bool diagonals(struct einsum *e, struct term *t)
{
    for (size_t i = 0; i < t->labels.n; i++)
        for (size_t k = i + 1; k < t->labels.n;) {
            if (t->labels.v[k] != t->labels.v[i]) {
                k++;
                continue;
            }
            const struct hlo_type *x = t->value->type;
            if (x->dims[i] != x->dims[k] && x->dims[i] != HLO_DYNAMIC && x->dims[k] != HLO_DYNAMIC)
                return false;
            t->value = diagonal(e, t->value, i, k);
            drop_label(&t->labels, k);
        }
    return true;
}

/* Sizes of shared labels agree; a 1 that meets something else is left out. */
static bool agree(struct einsum *e, struct term *a, struct term *b)
{
    for (size_t i = 0; i < a->labels.n;) {
        int k = place_of(&b->labels, a->labels.v[i]);
        int64_t x = a->value->type->dims[i], y = k < 0 ? x : b->value->type->dims[k];
        if (x == y || x == HLO_DYNAMIC || y == HLO_DYNAMIC) {
            i++;
            continue;
        }
        struct term *one = x == 1 ? a : y == 1 ? b : NULL;
        size_t at = one == a ? i : (size_t)k;
        if (!one || !one->value->type->is_static)
            return false;
        one->value = build(e, HLO_OP_RESHAPE, without_dim(e, one->value->type, at), 1, &one->value);
        drop_label(&one->labels, at);
    }
    return true;
}

static void sum_lonely(struct einsum *e, struct term *t, const struct labels *other, const struct labels *out)
{
    for (size_t i = 0; i < t->labels.n;) {
        if (place_of(out, t->labels.v[i]) >= 0 || (other && place_of(other, t->labels.v[i]) >= 0)) {
            i++;
            continue;
        }
        t->value = sum_over(e, t->value, i);
        drop_label(&t->labels, i);
    }
}

static void product(struct einsum *e, struct term *a, const struct term *b, const struct labels *out)
{
    struct labels have = {0};
    int64_t batch[2][MAX_LABELS], sum[2][MAX_LABELS], dims[MAX_LABELS];
    size_t nb = 0, ns = 0;
    const struct hlo_type *at = a->value->type, *bt = b->value->type;
    for (size_t i = 0; i < a->labels.n; i++) {
        int k = place_of(&b->labels, a->labels.v[i]);
        if (k >= 0 && place_of(out, a->labels.v[i]) >= 0) {
            batch[0][nb] = (int64_t)i;
            batch[1][nb++] = k;
            dims[have.n] = at->dims[i];
            have.v[have.n++] = a->labels.v[i];
        } else if (k >= 0) {
            sum[0][ns] = (int64_t)i;
            sum[1][ns++] = k;
        }
    }
    for (size_t i = 0; i < a->labels.n; i++)
        if (place_of(&b->labels, a->labels.v[i]) < 0) {
            dims[have.n] = at->dims[i];
            have.v[have.n++] = a->labels.v[i];
        }
    for (size_t i = 0; i < b->labels.n; i++)
        if (place_of(&a->labels, b->labels.v[i]) < 0) {
            dims[have.n] = bt->dims[i];
            have.v[have.n++] = b->labels.v[i];
        }
    struct hlo_dot d = {hlo_ints_copy(e->m, nb, batch[0]), hlo_ints_copy(e->m, nb, batch[1]), hlo_ints_copy(e->m, ns, sum[0]), hlo_ints_copy(e->m, ns, sum[1])};
    struct hlo_value *v[2] = {a->value, b->value};
    a->value = build(e, HLO_OP_DOT_GENERAL, hlo_type_with_shape(e->m, e->op->results[0].type, (uint32_t)have.n, dims), 2, v);
    hlo_op_set_attr(a->value->def.op, HLO_A_dot_dimension_numbers, hlo_attr_dot(e->m, &d));
    a->labels = have;
}

bool hlo__legalise_einsum(struct hlo_module *m, struct hlo_op *op)
{
    struct einsum e = {m, op};
    struct nf_str config = hlo_op_string(op, HLO_A_einsum_config);
    const char *arrow = config.len ? memmem(config.data, config.len, "->", 2) : NULL;
    const struct hlo_type *result = op->results[0].type;
    struct term t[2] = {{0}};
    struct labels out;
    size_t hidden = 0;
    if (!arrow || result->kind != HLO_TYPE_TENSOR)
        return false;
    struct nf_str in = nf_str_n(config.data, (size_t)(arrow - config.data)), to = nf_str_n(arrow + 2, config.len - in.len - 2);
    for (uint32_t i = 0; i < op->num_operands; i++) {
        struct hlo_value *x = op->operands[i].value;
        bool last = i + 1 == op->num_operands;
        struct nf_str list = last ? in : nf_str_cut(&in, ',');
        t[i].value = x;
        if (x->type->kind != HLO_TYPE_TENSOR || x->type->quant || !parse_labels(list, x->type->rank, 0, &t[i].labels))
            return false;
        for (size_t k = 0; k < t[i].labels.n; k++)
            if (t[i].labels.v[k] >= FIRST_HIDDEN)
                hidden = NF_MAX(hidden, (size_t)(t[i].labels.v[k] - FIRST_HIDDEN) + 1);
    }
    if (!parse_labels(to, SIZE_MAX, hidden, &out) || out.n != result->rank)
        return false;
    for (size_t i = 0; i < out.n; i++) {
        int a = place_of(&t[0].labels, out.v[i]), b = place_of(&t[1].labels, out.v[i]);
        if (place_of(&out, out.v[i]) != (int)i || (a < 0 && b < 0))
            return false;
    }
    if (!diagonals(&e, &t[0]))
        return false;
    if (op->num_operands == 2) {
        if (!diagonals(&e, &t[1]) || !agree(&e, &t[0], &t[1]))
            return false;
        sum_lonely(&e, &t[0], &t[1].labels, &out);
        sum_lonely(&e, &t[1], &t[0].labels, &out);
        product(&e, &t[0], &t[1], &out);
        t[0].value->def.op->dict = op->dict;
        t[0].value->def.op->num_dict = op->num_dict;
    } else {
        sum_lonely(&e, &t[0], NULL, &out);
    }
    int64_t perm[MAX_LABELS];
    bool same = t[0].labels.n == out.n;
    for (size_t i = 0; i < out.n; i++) {
        perm[i] = place_of(&t[0].labels, out.v[i]);
        same &= perm[i] == (int64_t)i;
    }
    if (!same) {
        int64_t dims[MAX_LABELS];
        for (size_t i = 0; i < out.n; i++)
            dims[i] = t[0].value->type->dims[perm[i]];
        t[0].value = build(&e, HLO_OP_TRANSPOSE, hlo_type_with_shape(m, t[0].value->type, (uint32_t)out.n, dims), 1, &t[0].value);
        hlo_op_set_attr(t[0].value->def.op, HLO_A_permutation, hlo_attr_i64s(m, out.n, perm));
    }
    if (t[0].value->type != result) { /* what is not known here may be known there */
        if (t[0].value->type->elem != result->elem)
            return false;
        for (size_t i = 0; i < out.n; i++)
            if (t[0].value->type->dims[i] != result->dims[i] && t[0].value->type->dims[i] != HLO_DYNAMIC && result->dims[i] != HLO_DYNAMIC)
                return false;
        if (t[0].value != op->operands[0].value)
            t[0].value->type = result;
        else
            return false;
    }
    hlo_op_replace(op, &t[0].value);
    return true;
}
