/* verify_region.c: operations whose bodies are programs: reductions, windows, sort, map, control flow. */
#include "pipeline/hlo/verify_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)
__extension__ typedef __int128 wide;

static const struct hlo_type *operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value->type; }
static bool known(int64_t d) { return d != HLO_DYNAMIC; }
static const struct hlo_op *terminator(const struct hlo_op *op, unsigned region) { return op->regions[region]->first->last; }

/* ---- promotion ---- */

/* Whether a reduction may compute in `to` what is stored as `from`: the same kind of element, not narrower. */
static bool promotable(const struct hlo_type *from, const struct hlo_type *to)
{
    if (from->elem == HLO_ELEM_QUANT || to->elem == HLO_ELEM_QUANT) {
        if (from->elem != to->elem)
            return false;
        const struct hlo_quant *a = from->quant, *b = to->quant;
        return a->expressed == b->expressed && hlo_elem_class(a->storage) == hlo_elem_class(b->storage) && hlo_elem_bits(a->storage) <= hlo_elem_bits(b->storage) &&
               a->per_axis == b->per_axis;
    }
    if (from->elem == to->elem)
        return true;
    enum hlo_elem_class a = hlo_elem_class(from->elem), b = hlo_elem_class(to->elem);
    return a == b && a != HLO_CLASS_OTHER && hlo_elem_bits(from->elem) <= hlo_elem_bits(to->elem);
}

/* The body takes 2n scalars (rank up to allowed, see below) and returns n: (acc.., x..) -> acc.. ; parameters i and results are of
 * one type, to which init i and input i can be promoted. allowed: dimensions that parameters may have (n_allowed; 0: scalars).
 * ret_elems: the types of the results of the body. */
int hlo__check_reducer(struct hlo_verifier *v, const struct hlo_op *op, unsigned region, uint32_t n, const struct hlo_type *const *inputs, const struct hlo_type *const *inits,
                       size_t n_allowed, const int64_t *allowed, const struct hlo_type **ret_elems)
{
    const struct hlo_block *b = op->regions[region]->first;
    if (b->num_args != 2 * n)
        FAIL("Reduction-region must take %u parameters, but takes %u parameter(s)", 2 * n, b->num_args);
    const struct hlo_op *ret = b->last;
    if (ret->num_operands == 0)
        FAIL("The reduction-region expected to return some value(s)");
    for (uint32_t i = 0; i < ret->num_operands; i++)
        if (operand(ret, i)->kind != HLO_TYPE_TENSOR)
            FAIL("Reduction-region here must produce tensor-typed result(s), but produces '%s' instead", hlo__type_text(v, operand(ret, i)));
    if (ret->num_operands != n)
        FAIL("Reduction-region here must produce %u tensors, but produces %u instead", n, ret->num_operands);
    for (uint32_t i = 0; i < n; i++) {
        const struct hlo_type *acc = operand(ret, i);
        for (uint32_t k = 0; k < 2; k++) {
            const struct hlo_type *arg = b->args[i + k * n]->type;
            if (arg->kind != HLO_TYPE_TENSOR)
                FAIL("Reduction-region parameter %u must be a tensor, but is '%s'", i + k * n, hlo__type_text(v, arg));
            if (!hlo__type_compatible(arg, acc))
                FAIL("The type of reduction-region's parameter at index %u is different than the corresponding result type: '%s' vs '%s'", i + k * n, hlo__type_text(v, arg),
                     hlo__type_text(v, acc));
        }
        if (!promotable(inits[i], acc))
            FAIL("The element-type of reduction-region's result type at index %u is expected to be promotable from the op's corresponding init-value element-type: '%s' vs '%s'", i,
                 hlo__type_text(v, acc), hlo__type_text(v, inits[i]));
        if (!hlo__dims_compatible(acc, inits[i]))
            FAIL("The shape of reduction-region's result type at index %u differs from the op's corresponding init-value type: '%s' vs '%s'", i, hlo__type_text(v, acc),
                 hlo__type_text(v, inits[i]));
        const struct hlo_type *arg = b->args[i + n]->type;
        if (!promotable(inputs[i], arg))
            FAIL("The element-type of reduction-region's argument at index %u is expected to be promotable from '%s', but got '%s'", i + n, hlo__type_text(v, inputs[i]),
                 hlo__type_text(v, arg));
        if (arg->rank > n_allowed)
            FAIL("The rank of reduction-region's argument at index %u is expected to be <= %zu, got %u", i + n, n_allowed, arg->rank);
        /* its dimensions appear, in order, among those allowed */
        size_t at = 0;
        for (uint32_t k = 0; k < arg->rank; k++) {
            while (at < n_allowed && known(allowed[at]) && known(arg->dims[k]) && allowed[at] != arg->dims[k])
                at++;
            if (at == n_allowed)
                FAIL("The shape of reduction-region's argument at index %u is not compatible with that of reduce-op's input-parameter at index %u", i + n, i);
            at++;
        }
        if (ret_elems)
            ret_elems[i] = acc;
    }
    return 0;
}

static int split_inputs(struct hlo_verifier *v, const struct hlo_op *op, uint32_t *ret_n)
{
    uint32_t n = op->num_operands / 2;
    if (op->num_operands % 2 || n == 0)
        FAIL("expects as many inits as inputs, at least one, but got %u operands", op->num_operands);
    if (op->num_results != n)
        FAIL("inferred %u results, but the operation has %u", n, op->num_results);
    for (uint32_t i = 1; i < n; i++)
        if (!hlo__dims_compatible(operand(op, 0), operand(op, i)))
            FAIL("expects all inputs to have compatible shapes. Shape at input-index %u is not compatible with shape at input-index 0", i);
    *ret_n = n;
    return 0;
}

static int reducer_of(struct hlo_verifier *v, const struct hlo_op *op, uint32_t n, size_t n_allowed, const int64_t *allowed, const struct hlo_type **elems)
{
    const struct hlo_type **inputs = nf_arena_alloc_array(v->scratch, (size_t)n * 2, sizeof *inputs), **inits = inputs + n;
    for (uint32_t i = 0; i < n; i++) {
        inputs[i] = operand(op, i);
        inits[i] = operand(op, n + i);
    }
    return hlo__check_reducer(v, op, 0, n, inputs, inits, n_allowed, allowed, elems);
}

static const struct hlo_type *result_like(struct hlo_verifier *v, const struct hlo_type *elem, uint32_t rank, const int64_t *dims)
{
    return hlo_type_with_shape(v->m, elem, rank, dims);
}

int hlo_i_reduce(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    uint32_t n;
    int rc = split_inputs(v, op, &n);
    if (rc)
        return rc;
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_dimensions);
    for (size_t i = 0; i < dims.n; i++) {
        if (dims.v[i] < 0 || dims.v[i] >= t->rank)
            FAIL("Out-of-bounds dimension %lld, expected to be in range [0, %u)", (long long)dims.v[i], t->rank);
        for (size_t k = 0; k < i; k++)
            if (dims.v[k] == dims.v[i])
                FAIL("Duplicate reduction dimension: %lld", (long long)dims.v[i]);
    }
    int64_t *kept = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *kept), *bounds = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *bounds);
    uint32_t rank = 0;
    bool bounded = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool gone = false;
        for (size_t k = 0; k < dims.n; k++)
            gone |= dims.v[k] == i;
        if (gone)
            continue;
        bounds[rank] = t->bounds ? t->bounds[i] : HLO_DYNAMIC;
        bounded |= known(bounds[rank]);
        kept[rank++] = t->dims[i];
    }
    const struct hlo_type **elems = nf_arena_alloc_array(v->scratch, (size_t)n, sizeof *elems);
    if ((rc = reducer_of(v, op, n, rank, kept, elems)))
        return rc;
    for (uint32_t i = 0; i < n; i++) {
        struct hlo_type k = {.kind = HLO_TYPE_TENSOR, .elem = elems[i]->elem, .quant = elems[i]->quant, .text = elems[i]->text, .rank = rank, .dims = kept, .bounds = bounded ? bounds : NULL};
        ret[i] = hlo_type_intern(v->m, &k);
    }
    return 0;
}

int hlo_v_reduce(struct hlo_verifier *v, const struct hlo_op *op)
{
    /* quantised per axis: the axis must not be reduced away */
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_dimensions);
    const struct hlo_type *t = operand(op, 0);
    for (size_t i = 0; t->elem == HLO_ELEM_QUANT && t->quant->per_axis && i < dims.n; i++)
        if (dims.v[i] == t->quant->axis)
            FAIL("the quantization dimension %lld must not be reduced", (long long)t->quant->axis);
    return 0;
}

/* ---- windows ---- */

/* Lists of a window as an operation gives them, with what absent means. */
static int check_list(struct hlo_verifier *v, const struct hlo_op *op, enum hlo_attr_name name, const char *text, size_t n, const char *positive, struct hlo_ints *ret)
{
    struct hlo_ints x = hlo_op_i64s(op, name);
    if (hlo_op_attr(op, name) && x.n != n)
        FAIL("expects %s to have same dimension-size as size of window dimensions (%zu), but got: %zu", text, n, x.n);
    for (size_t i = 0; i < x.n; i++)
        if (x.v[i] <= 0)
            FAIL("expects window to have positive %s for %zu-th window dimension, but got %lld", positive, i, (long long)x.v[i]);
    *ret = x;
    return 0;
}

int hlo__check_padding(struct hlo_verifier *v, const struct hlo_op *op, size_t n, struct hlo_ints *ret)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_padding);
    *ret = (struct hlo_ints){0, NULL};
    if (!a)
        return 0;
    const struct hlo_type *t = a->type;
    if (t->rank != 2 || t->dims[1] != 2) {
        if (t->rank == 2 && t->dims[0] * t->dims[1] == 0 && n == 0)
            return 0;
        FAIL("expects the shape of padding-attribute to be {N, 2}, but got %s", hlo__ints_text(v, (struct hlo_ints){t->rank, t->dims}));
    }
    if ((uint64_t)t->dims[0] != n)
        FAIL("expects padding-entries to have same dimension-size as size of window dimensions (%zu), but got: %lld", n, (long long)t->dims[0]);
    int64_t *p = nf_arena_alloc_array(v->scratch, n * 2 + 1, sizeof *p);
    size_t got;
    if (!hlo_attr_dense_ints(a, n * 2, p, &got))
        FAIL("padding is no list of integers");
    *ret = (struct hlo_ints){n * 2, p};
    return 0;
}

int64_t hlo__window_size(int64_t size, int64_t window, int64_t stride, int64_t low, int64_t high, int64_t base_dilation, int64_t window_dilation)
{
    if (!known(size))
        return HLO_DYNAMIC;
    wide dilated = size == 0 ? 0 : (wide)(size - 1) * base_dilation + 1, padded = dilated + low + high;
    wide reach = window == 0 ? 0 : (wide)(window - 1) * window_dilation + 1;
    if (padded < reach || padded <= 0)
        return 0;
    wide n = (padded - reach) / stride + 1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static int window_dims(struct hlo_verifier *v, const struct hlo_op *op, struct hlo_ints window, bool dilations, const struct hlo_type *t, int64_t *out)
{
    struct hlo_ints strides, base = {0, NULL}, dil = {0, NULL}, pad;
    int rc;
    for (size_t i = 0; i < window.n; i++)
        if (window.v[i] <= 0)
            FAIL("expects window to have positive value for %zu-th window dimension, but got %lld", i, (long long)window.v[i]);
    if ((rc = check_list(v, op, HLO_A_window_strides, "window-strides", window.n, "stride", &strides)))
        return rc;
    if (dilations && ((rc = check_list(v, op, HLO_A_base_dilations, "base-dilation factors", window.n, "base dilation factor", &base)) ||
                      (rc = check_list(v, op, HLO_A_window_dilations, "window-dilation factors", window.n, "window dilation factor", &dil))))
        return rc;
    if ((rc = hlo__check_padding(v, op, window.n, &pad)))
        return rc;
    for (size_t i = 0; i < window.n; i++)
        out[i] = hlo__window_size(t->dims[i], window.v[i], strides.n ? strides.v[i] : 1, pad.n ? pad.v[i * 2] : 0, pad.n ? pad.v[i * 2 + 1] : 0, base.n ? base.v[i] : 1,
                                  dil.n ? dil.v[i] : 1);
    return 0;
}

int hlo_i_reduce_window(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    uint32_t n;
    int rc = split_inputs(v, op, &n);
    if (rc)
        return rc;
    const struct hlo_type *t = operand(op, 0);
    struct hlo_ints window = hlo_op_i64s(op, HLO_A_window_dimensions);
    if (window.n != t->rank)
        FAIL("expects window-dimensions size == input rank, but got window-dimensions size: %zu and input: '%s' with rank = %u", window.n, hlo__type_text(v, t), t->rank);
    int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *d);
    if ((rc = window_dims(v, op, window, true, t, d)))
        return rc;
    const struct hlo_type **elems = nf_arena_alloc_array(v->scratch, (size_t)n, sizeof *elems);
    if ((rc = reducer_of(v, op, n, window.n, window.v, elems)))
        return rc;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = result_like(v, elems[i], t->rank, d);
    return 0;
}

int hlo_i_select_and_scatter(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0), *s = operand(op, 1), *init = operand(op, 2);
    const struct hlo_block *sel = op->regions[0]->first;
    const struct hlo_op *sret = sel->last;
    const struct hlo_type *scalar = hlo_type_with_shape(v->m, t, 0, NULL);
    int rc;
    if (sel->num_args != 2)
        FAIL("expects the select-region to take 2 parameters, but takes %u", sel->num_args);
    for (uint32_t i = 0; i < 2; i++)
        if (!hlo__type_compatible(sel->args[i]->type, scalar))
            FAIL("expects the type of select-region's parameter at index %u to be '%s', but got '%s'", i, hlo__type_text(v, scalar), hlo__type_text(v, sel->args[i]->type));
    if (sret->num_operands != 1)
        FAIL("expects select-region to return single value, but got: %u", sret->num_operands);
    if (operand(sret, 0)->kind != HLO_TYPE_TENSOR || operand(sret, 0)->elem != HLO_ELEM_I1 || operand(sret, 0)->rank != 0)
        FAIL("expects the return-type of select-region to be tensor<i1>, but got: '%s'", hlo__type_text(v, operand(sret, 0)));
    const struct hlo_type *in[1] = {hlo_type_with_shape(v->m, s, 0, NULL)}, *acc[1] = {init}, *elem[1];
    if ((rc = hlo__check_reducer(v, op, 1, 1, in, acc, 0, NULL, elem)))
        return rc;
    struct hlo_ints window = hlo_op_i64s(op, HLO_A_window_dimensions);
    if (!hlo_op_attr(op, HLO_A_window_dimensions)) {
        int64_t *ones = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *ones);
        for (uint32_t i = 0; i < t->rank; i++)
            ones[i] = 1;
        window = (struct hlo_ints){t->rank, ones};
    }
    if (window.n != t->rank)
        FAIL("expects window-dimensions size == operand rank, but got window-dimensions size: %zu and operand-type: '%s' with rank = %u", window.n, hlo__type_text(v, t), t->rank);
    int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *d);
    if ((rc = window_dims(v, op, window, false, t, d)))
        return rc;
    const struct hlo_type *want = hlo_type_with_shape(v->m, t, t->rank, d);
    if (!hlo__type_compatible(want, s))
        FAIL("expects source-type to be '%s', but got '%s'", hlo__type_text(v, want), hlo__type_text(v, s));
    struct hlo_type k = *t;
    k.elem = elem[0]->elem;
    k.quant = elem[0]->quant;
    ret[0] = hlo_type_intern(v->m, &k);
    return 0;
}

/* ---- map, sort ---- */

int hlo_i_map(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_block *b = op->regions[0]->first;
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_dimensions);
    if (op->num_operands == 0)
        FAIL("expected 1 or more operands, but found 0");
    if (b->num_args != op->num_operands)
        FAIL("expects number of operands to match the arity of map computation, but got: %u and %u", op->num_operands, b->num_args);
    for (uint32_t i = 0; i < b->num_args; i++) {
        const struct hlo_type *a = b->args[i]->type;
        if (a->kind != HLO_TYPE_TENSOR || a->rank != 0)
            FAIL("computation arguments must be 0-rank tensor, but got: arg #%u of type '%s'", i, hlo__type_text(v, a));
        if (!hlo__elem_compatible(a, operand(op, i), true))
            FAIL("element type of operands and computation arguments must match, but got: '%s' and '%s'", hlo__type_text(v, operand(op, i)), hlo__type_text(v, a));
    }
    const struct hlo_op *r = b->last;
    if (r->num_operands != 1)
        FAIL("computation must return single output, but got: %u", r->num_operands);
    if (operand(r, 0)->kind != HLO_TYPE_TENSOR || operand(r, 0)->rank != 0)
        FAIL("computation must return 0-rank tensor, but got: '%s'", hlo__type_text(v, operand(r, 0)));
    const struct hlo_type *t = operand(op, 0);
    for (uint32_t i = 1; i < op->num_operands; i++)
        if (!hlo__dims_compatible(t, operand(op, i)))
            FAIL("requires the same shape for all operands: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, operand(op, i)));
    for (size_t i = 0; i < dims.n; i++)
        if (dims.v[i] != (int64_t)i)
            FAIL("requires monotonically increasing dimension numbers, but got: %s", hlo__ints_text(v, dims));
    if (dims.n != t->rank)
        FAIL("applied to a subset of dimensions currently not supported: operand dimensions = %u, requested map dimensions size = %zu", t->rank, dims.n);
    struct hlo_type k = *t;
    k.elem = operand(r, 0)->elem;
    k.quant = operand(r, 0)->quant;
    ret[0] = hlo_type_intern(v->m, &k);
    return 0;
}

int hlo_v_sort(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_block *b = op->regions[0]->first;
    int64_t d = hlo_op_i64(op, HLO_A_dimension, -1);
    if (op->num_operands == 0)
        FAIL("expected 1 or more operands, but found 0");
    const struct hlo_type *t = operand(op, 0);
    for (uint32_t i = 1; i < op->num_operands; i++)
        if (!hlo__dims_compatible(t, operand(op, i)))
            FAIL("requires the same shape for all operands and results: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, operand(op, i)));
    if (d < -(int64_t)t->rank || d >= (int64_t)NF_MAX(t->rank, 1u))
        FAIL("dimension attribute value must be in range [-%u, %u), but found %lld", t->rank, t->rank, (long long)d);
    if (b->num_args != 2 * op->num_operands)
        FAIL("comparator block should have %u arguments, but has %u", 2 * op->num_operands, b->num_args);
    for (uint32_t i = 0; i < b->num_args; i++) {
        const struct hlo_type *want = hlo_type_with_shape(v->m, operand(op, i / 2), 0, NULL);
        if (b->args[i]->type != want)
            FAIL("comparator block argument #%u should be of type '%s' but got '%s'", i, hlo__type_text(v, want), hlo__type_text(v, b->args[i]->type));
    }
    const struct hlo_op *r = b->last;
    if (r->num_operands != 1)
        FAIL("comparator must return single output but got %u", r->num_operands);
    if (operand(r, 0)->kind != HLO_TYPE_TENSOR || operand(r, 0)->rank != 0 || operand(r, 0)->elem != HLO_ELEM_I1)
        FAIL("comparator must return tensor<i1> but got '%s'", hlo__type_text(v, operand(r, 0)));
    return 0;
}

int hlo_i_operand_types(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    if (op->num_operands != op->num_results)
        FAIL("requires the same number of operands and results, but has %u and %u", op->num_operands, op->num_results);
    for (uint32_t i = 0; i < op->num_operands; i++)
        ret[i] = operand(op, i);
    return 0;
}

/* ---- control flow ---- */

static const char *types_text(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_block *b)
{
    struct nf_buf t = NF_BUF_INIT;
    uint32_t n = b ? b->num_args : op->num_operands;
    for (uint32_t i = 0; i < n; i++) {
        nf_buf_add_c(&t, i ? ", '" : "'");
        hlo_type_print(b ? b->args[i]->type : operand(op, i), &t);
        nf_buf_add_char(&t, '\'');
    }
    const char *s = nf_arena_printf(v->m->arena, "%.200s", t.data ? t.data : "nothing");
    nf_buf_done(&t);
    return s;
}

int hlo_v_while(struct hlo_verifier *v, const struct hlo_op *op)
{
    static const char *const names[] = {"condition block arguments", "body block arguments"};
    if (op->num_results != op->num_operands)
        FAIL("requires as many results as operands, but has %u and %u", op->num_results, op->num_operands);
    for (unsigned r = 0; r < 2; r++) {
        const struct hlo_block *b = op->regions[r]->first;
        bool ok = b->num_args == op->num_operands;
        for (uint32_t i = 0; ok && i < b->num_args; i++)
            ok = hlo__type_compatible(b->args[i]->type, operand(op, i));
        if (!ok)
            FAIL("expect operands to be compatible with %s but got %s vs %s", names[r], types_text(v, op, NULL), types_text(v, NULL, b));
    }
    const struct hlo_op *c = terminator(op, 0), *d = terminator(op, 1);
    bool ok = d->num_operands == op->num_operands;
    for (uint32_t i = 0; ok && i < d->num_operands; i++)
        ok = hlo__type_compatible(operand(d, i), operand(op, i));
    if (!ok)
        FAIL("expect operands to be compatible with body block return types but got %s vs %s", types_text(v, op, NULL), types_text(v, d, NULL));
    if (c->num_operands != 1)
        FAIL("expect condition body returns a single value but got %u", c->num_operands);
    const struct hlo_type *t = operand(c, 0);
    if (t->kind != HLO_TYPE_TENSOR || t->elem != HLO_ELEM_I1 || t->rank != 0)
        FAIL("expect condition block return a zero-ranked tensor of i1 but got '%s'", hlo__type_text(v, t));
    for (uint32_t i = 0; i < op->num_results; i++)
        if (!hlo__type_compatible(operand(op, i), op->results[i].type))
            FAIL("inferred type '%s' is incompatible with the type of result #%u, '%s'", hlo__type_text(v, operand(op, i)), i, hlo__type_text(v, op->results[i].type));
    return 0;
}

static int branches(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    for (uint16_t r = 0; r < op->num_regions; r++) {
        const struct hlo_block *b = op->regions[r]->first;
        if (b->num_args)
            FAIL("branch %u must have 0 arguments, but found %u", r, b->num_args);
        const struct hlo_op *first = terminator(op, 0), *t = terminator(op, r);
        bool ok = t->num_operands == first->num_operands;
        for (uint32_t i = 0; ok && i < t->num_operands; i++)
            ok = hlo__type_compatible(operand(first, i), operand(t, i));
        if (!ok)
            FAIL("branch 0 and branch %u have mismatched return types: %s vs %s", r, types_text(v, first, NULL), types_text(v, t, NULL));
    }
    const struct hlo_op *t = terminator(op, 0);
    if (t->num_operands != op->num_results)
        FAIL("inferred types %s are incompatible with the %u results of the operation", types_text(v, t, NULL), op->num_results);
    for (uint32_t i = 0; i < op->num_results; i++) {
        /* what the branches agree on */
        const struct hlo_type *x = operand(t, i);
        ret[i] = x;
        if (x->kind != HLO_TYPE_TENSOR)
            continue;
        int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)x->rank + 1, sizeof *d);
        for (uint32_t k = 0; k < x->rank; k++) {
            d[k] = x->dims[k];
            for (uint16_t r = 1; r < op->num_regions; r++)
                if (operand(terminator(op, r), i)->dims[k] != d[k])
                    d[k] = HLO_DYNAMIC;
        }
        struct hlo_type n = *x;
        n.dims = d;
        if (n.bounds && x->is_static != true)
            for (uint32_t k = 0; k < x->rank; k++)
                if (known(d[k]) && known(n.bounds[k]))
                    n.bounds = NULL;
        ret[i] = hlo_type_intern(v->m, &n);
    }
    return 0;
}

int hlo_i_if(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *p = operand(op, 0);
    if (p->rank != 0)
        FAIL("operand should be a rank 0 tensor of i1, but got '%s'", hlo__type_text(v, p));
    return branches(v, op, ret);
}

int hlo_i_case(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *p = operand(op, 0);
    if (op->num_regions == 0)
        FAIL("expect at least one branch");
    if (p->rank != 0 || p->elem != HLO_ELEM_I32)
        FAIL("index should be tensor<i32>, but got '%s'", hlo__type_text(v, p));
    return branches(v, op, ret);
}
