/* The writer of HloModuleProto. See hlo_proto.h.
 *
 * Every function and region becomes a computation. An operation with several results becomes an instruction of tuple shape and one
 * get-tuple-element a result. Loops carry one tuple; values that a loop or branch reads from outside are added to its tuple, since
 * HLO computations see nothing but their parameters. */
#include "pipeline/hlo/hlo_proto_internal.h"

#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>

/* Where a value stands: the instruction, if the computation is the one that asks. */
struct place {
    int64_t comp, inst;
};

struct writer {
    struct hlo_module *m;
    struct nf_error *err;
    struct nf_buf comps;        /* finished computations, as fields of the module */
    int64_t next_comp, next_inst;
    struct nf_map *funcs;       /* by symbol: the function's computation, 0 while it is being made */
    struct place *places;       /* by value id; one table for all computations, so that many small ones cost what they are */
    uint32_t *marks, mark;      /* by value id: see captures */
    unsigned depth;
    const struct hlo_op *entry;
    struct nf_str *value_names; /* by value id: the name that the entry's result must keep */
    struct nf_map *kept;        /* all names of the entry that must be kept: no other instruction may have one of them */
};

/* A computation in the making. */
struct comp {
    struct nf_buf insts;
    int64_t id, last;           /* id of the instruction written last */
    struct nf_buf covered;      /* struct covered: what comp_done puts back */
};
struct covered {
    uint32_t value;
    struct place before;
};

/* The instruction of a value in the computation, 0: none. */
static int64_t inst_of(const struct writer *w, const struct comp *c, const struct hlo_value *v)
{
    const struct place *at = &w->places[v->id];
    return at->comp == c->id ? at->inst : 0;
}

/* The value is the instruction written last. */
static void place(struct writer *w, struct comp *c, const struct hlo_value *v)
{
    struct covered was = {v->id, w->places[v->id]};
    if (was.before.comp) /* an outer computation will want it again */
        nf_buf_add(&c->covered, &was, sizeof(was));
    w->places[v->id] = (struct place){c->id, c->last};
}

__attribute__((format(printf, 3, 4)))
static int refuse(struct writer *w, const struct hlo_op *op, const char *fmt, ...)
{
    char text[300], where[160] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    nf_fail(w->err, NF_EUNSUPPORTED, "%s: %s", op ? hlo_op_info((enum hlo_op_id)op->id)->name : "module", text);
    if (op)
        nf_error_location(w->err, "%s", hlo_op_where(w->m, op, where, sizeof(where)));
    return NF_EUNSUPPORTED;
}

/* ---- shapes and constants ---- */

/* layout: minor to major as an index tensor, NULL: row-major */
static int put_array_shape(struct writer *w, const struct hlo_op *op, struct nf_buf *o, const struct hlo_type *t, const struct hlo_attr *order)
{
    struct nf_buf layout = NF_BUF_INIT;
    if (t->kind == HLO_TYPE_TOKEN) {
        pb_put_uint(o, SHAPE_ELEMENT, PRIMITIVE_TOKEN);
        return 0;
    }
    unsigned primitive = t->kind == HLO_TYPE_TENSOR ? hp_primitive_of(t->elem) : 0;
    if (!primitive)
        return refuse(w, op, "a value whose type XLA does not have");
    pb_put_uint(o, SHAPE_ELEMENT, primitive);
    int64_t *dims = nf_alloc_array(t->rank + 1u, sizeof(*dims));
    int e = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        dims[i] = t->dims[i] == HLO_DYNAMIC && t->bounds ? t->bounds[i] : t->dims[i];
        if (dims[i] == HLO_DYNAMIC)
            e = refuse(w, op, "a dynamic dimension without a bound");
    }
    pb_put_ints(o, SHAPE_DIMENSIONS, t->rank, dims);
    for (uint32_t i = 0; i < t->rank; i++)
        dims[i] = order ? hlo_attr_dense_int_at(order, i) : (int64_t)(t->rank - 1 - i);
    pb_put_ints(&layout, LAYOUT_MINOR_TO_MAJOR, t->rank, dims);
    pb_put_bytes(o, SHAPE_LAYOUT, nf_buf_str(&layout));
    for (uint32_t i = 0; i < t->rank; i++)
        dims[i] = t->dims[i] == HLO_DYNAMIC;
    pb_put_ints(o, SHAPE_DYNAMIC, t->rank, dims);
    free(dims);
    nf_buf_done(&layout);
    return e;
}

/* The layout of value i, when the custom call says one that fits. */
static const struct hlo_attr *layout_at(const struct hlo_attr *layouts, uint32_t i, const struct hlo_type *t)
{
    uint64_t n;
    if (!layouts || layouts->kind != HLO_ATTR_ARRAY || i >= layouts->array.n || layouts->array.v[i]->kind != HLO_ATTR_DENSE)
        return NULL;
    return hlo_type_count(layouts->array.v[i]->type, &n) && n == t->rank && t->kind == HLO_TYPE_TENSOR ? layouts->array.v[i] : NULL;
}

/* One array, or the tuple of several (or of one, when `tuple`). layouts: of a custom call, else NULL. */
static int put_shape(struct writer *w, const struct hlo_op *op, struct nf_buf *o, uint32_t num, uint32_t n, const struct hlo_type *const *types, bool tuple, const struct hlo_attr *layouts)
{
    struct nf_buf shape = NF_BUF_INIT;
    int e = 0;
    if (!tuple) {
        e = put_array_shape(w, op, &shape, types[0], layout_at(layouts, 0, types[0]));
    } else {
        pb_put_uint(&shape, SHAPE_ELEMENT, PRIMITIVE_TUPLE);
        for (uint32_t i = 0; i < n && !e; i++) {
            struct nf_buf one = NF_BUF_INIT;
            if (types[i]->kind == HLO_TYPE_TUPLE) {
                e = put_shape(w, op, &shape, SHAPE_TUPLE, types[i]->num_types, types[i]->types, true, NULL);
                continue;
            }
            e = put_array_shape(w, op, &one, types[i], layout_at(layouts, i, types[i]));
            pb_put_bytes(&shape, SHAPE_TUPLE, nf_buf_str(&one));
            nf_buf_done(&one);
        }
    }
    pb_put_bytes(o, num, nf_buf_str(&shape));
    nf_buf_done(&shape);
    return e;
}

static void put_literal_bytes(struct nf_buf *o, enum hlo_elem e, uint32_t num, struct nf_str raw, uint64_t copies)
{
    struct nf_buf b = NF_BUF_INIT;
    unsigned size = hlo_elem_bytes(e);
    enum hlo_elem_class c = hlo_elem_class(e);
    if (e == HLO_ELEM_I4 || e == HLO_ELEM_UI4) {
        uint64_t n = raw.len * copies;
        for (uint64_t i = 0; i < n; i += 2) {
            unsigned lo = (uint8_t)raw.data[i % raw.len] & 15u, hi = i + 1 < n ? (uint8_t)raw.data[(i + 1) % raw.len] & 15u : 0;
            nf_buf_add_char(&b, (char)(lo | hi << 4));
        }
    } else if (c == HLO_CLASS_FLOAT || c == HLO_CLASS_COMPLEX || size <= 2) {
        for (uint64_t i = 0; i < copies; i++)
            nf_buf_add_str(&b, raw);
    } else {
        for (uint64_t i = 0; i < copies; i++)
            for (size_t at = 0; at + size <= raw.len; at += size) {
                int64_t v = 0;
                if (size == 4) {
                    int32_t x;
                    memcpy(&x, raw.data + at, 4);
                    v = c == HLO_CLASS_UINT ? (int64_t)(uint32_t)x : x;
                } else {
                    memcpy(&v, raw.data + at, 8);
                }
                nf_buf_add_varint(&b, (uint64_t)v);
            }
    }
    if (b.len)
        pb_put_bytes(o, num, nf_buf_str(&b));
    nf_buf_done(&b);
}

static int put_literal(struct writer *w, const struct hlo_op *op, struct nf_buf *o)
{
    const struct hlo_attr *value = hlo_op_attr(op, HLO_A_value);
    const struct hlo_type *t = op->results[0].type;
    struct nf_buf literal = NF_BUF_INIT;
    uint64_t count;
    if (!value || value->kind != HLO_ATTR_DENSE || !hlo_type_count(t, &count) || !hp_primitive_of(t->elem))
        return refuse(w, op, "a constant without bytes or of a type that XLA does not have");
    int e = put_shape(w, op, &literal, 1, 1, &t, false, NULL);
    if (!e && count)
        put_literal_bytes(&literal, t->elem, hp_literal_field(t->elem), value->dense.raw, value->dense.splat ? count : 1);
    if (!e)
        pb_put_bytes(o, INST_LITERAL, nf_buf_str(&literal));
    nf_buf_done(&literal);
    return e;
}

/* ---- instructions ---- */

/* Writes an instruction: opcode, shape, operands, then `rest`. Its id is c->last. */
static int put_inst(struct writer *w, struct comp *c, const struct hlo_op *op, const char *opcode, uint32_t n_types, const struct hlo_type *const *types,
                    bool tuple, size_t n_operands, const int64_t *operands, const struct nf_buf *rest, struct nf_str name)
{
    struct nf_buf b = NF_BUF_INIT;
    char made[96];
    int64_t id = ++w->next_inst;
    const struct hlo_attr *layouts = op->id == HLO_OP_CUSTOM_CALL && strcmp(opcode, "custom-call") == 0 ? hlo_op_attr(op, HLO_A_result_layouts) : NULL;
    if (!name.len) {
        nf_format(made, sizeof(made), "%s.%lld", opcode, (long long)id);
        for (int more = 0; nf_map_get(w->kept, nf_str_c(made)); more++)
            nf_format(made, sizeof(made), "%s.%lld.%d", opcode, (long long)id, more);
        name = nf_str_c(made);
    }
    pb_put_bytes(&b, INST_NAME, name);
    pb_put_bytes(&b, INST_OPCODE, nf_str_c(opcode));
    int e = put_shape(w, op, &b, INST_SHAPE, n_types, types, tuple, layouts);
    if (rest)
        nf_buf_add_str(&b, nf_buf_str(rest));
    pb_put_uint(&b, INST_ID, (uint64_t)id);
    pb_put_ints(&b, INST_OPERANDS, n_operands, operands);
    pb_put_bytes(&c->insts, COMP_INSTRUCTIONS, nf_buf_str(&b));
    nf_buf_done(&b);
    c->last = id;
    return e;
}

static int put_op(struct writer *w, struct comp *c, struct hlo_op *op);

/* One instruction for each of the values; NULL after a failure. The caller's to free. */
static int64_t *value_ids(struct writer *w, struct comp *c, const struct hlo_op *op, uint32_t n, struct hlo_value *const *v)
{
    int64_t *ids = nf_alloc_array(n + 1u, sizeof(*ids));
    for (uint32_t i = 0; i < n; i++) {
        if (!inst_of(w, c, v[i]) && hlo_value_constant(v[i]) && put_op(w, c, v[i]->def.op)) { /* a constant from outside is made here again */
            free(ids);
            return NULL;
        }
        ids[i] = inst_of(w, c, v[i]);
        if (!ids[i]) {
            refuse(w, op, "its region reads a value from outside");
            free(ids);
            return NULL;
        }
    }
    return ids;
}

static struct nf_str name_of(const struct writer *w, const struct hlo_value *v) { return w->value_names[v->id]; }

static void put_called(struct nf_buf *o, size_t n, const int64_t *comps) { pb_put_ints(o, INST_CALLED, n, comps); }

/* Splits the tuple `id` into the values. */
static int split(struct writer *w, struct comp *c, const struct hlo_op *op, int64_t id, uint32_t n, struct hlo_value *const *v)
{
    int e = 0;
    for (uint32_t i = 0; i < n && !e; i++) {
        struct nf_buf rest = NF_BUF_INIT;
        pb_put_uint(&rest, INST_TUPLE_INDEX, i);
        e = put_inst(w, c, op, "get-tuple-element", 1, &v[i]->type, false, 1, &id, &rest, name_of(w, v[i]));
        nf_buf_done(&rest);
        place(w, c, v[i]);
    }
    return e;
}

/* The instructions that hold the elements of what `id` gives: itself when it is one array. */
static int put_elements(struct writer *w, struct comp *c, const struct hlo_op *op, int64_t id, uint32_t n, const struct hlo_type *const *types, int64_t *ids)
{
    int e = 0;
    ids[0] = id;
    for (uint32_t i = 0; i < n && n != 1 && !e; i++) {
        struct nf_buf rest = NF_BUF_INIT;
        pb_put_uint(&rest, INST_TUPLE_INDEX, i);
        e = put_inst(w, c, op, "get-tuple-element", 1, &types[i], false, 1, &id, &rest, NF_STR(""));
        ids[i] = c->last;
        nf_buf_done(&rest);
    }
    return e;
}

/* decor NULL: none */
static int put_parameter(struct writer *w, struct comp *c, const struct hlo_op *op, uint32_t number, uint32_t n, const struct hlo_type *const *types, bool tuple, const struct hp_decor *decor, struct nf_str name)
{
    struct nf_buf rest = NF_BUF_INIT;
    pb_put_uint(&rest, INST_PARAMETER, number);
    int e = decor && !hp_put_decor(decor, &rest) ? refuse(w, op, "the sharding of argument %u has no HLO counterpart", number) : 0;
    if (!e)
        e = put_inst(w, c, op, "parameter", n, types, tuple, 0, NULL, &rest, name);
    nf_buf_done(&rest);
    return e;
}

static struct comp comp_new(struct writer *w)
{
    return (struct comp){.id = ++w->next_comp};
}

/* The computation joins the module; its root is the instruction written last. */
static void comp_end(struct writer *w, struct comp *c)
{
    struct nf_buf b = NF_BUF_INIT;
    char name[40];
    nf_format(name, sizeof(name), "computation.%lld", (long long)c->id);
    pb_put_bytes(&b, COMP_NAME, nf_str_c(name));
    nf_buf_add_str(&b, nf_buf_str(&c->insts));
    pb_put_uint(&b, COMP_ID, (uint64_t)c->id);
    pb_put_uint(&b, COMP_ROOT, (uint64_t)c->last);
    pb_put_bytes(&w->comps, MODULE_COMPUTATIONS, nf_buf_str(&b));
    nf_buf_done(&b);
}

static void comp_done(struct writer *w, struct comp *c)
{
    for (size_t n = c->covered.len / sizeof(struct covered); n-- > 0;) {
        struct covered was;
        memcpy(&was, c->covered.data + n * sizeof(was), sizeof(was));
        w->places[was.value] = was.before;
    }
    nf_buf_done(&c->insts);
    nf_buf_done(&c->covered);
}

static int put_ops(struct writer *w, struct comp *c, struct hlo_block *b);

static struct hlo_op *terminator(const struct hlo_block *b) { return b->last; }

static struct nf_str kept_name(const struct hlo_attr *a) { return a && a->kind == HLO_ATTR_STRING ? a->str : nf_str_n("", 0); }
static int put_result_shardings(struct writer *w, struct comp *c, struct hlo_op *func, int64_t *ids);

/* What the region returns as the root: the value itself, or a tuple. func: the function that it is the body of, else NULL. */
static int put_root(struct writer *w, struct comp *c, const struct hlo_op *ret, bool tuple, uint32_t n_more, struct hlo_value *const *more, struct hlo_op *func)
{
    uint32_t n = ret->num_operands + n_more;
    struct hlo_value **v = nf_alloc_array(n + 1u, sizeof(*v));
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    for (uint32_t i = 0; i < n; i++) {
        v[i] = i < ret->num_operands ? ret->operands[i].value : more[i - ret->num_operands];
        types[i] = v[i]->type;
    }
    int64_t *ids = value_ids(w, c, ret, n, v);
    int e = ids ? 0 : NF_EUNSUPPORTED;
    if (!e && func)
        e = put_result_shardings(w, c, func, ids);
    if (!e && tuple) {
        struct nf_buf rest = NF_BUF_INIT;
        if (func && !hp_result_shardings(w->m, func, &rest))
            e = refuse(w, func, "the sharding of a result has no HLO counterpart");
        if (!e)
            e = put_inst(w, c, ret, "tuple", n, types, true, n, ids, &rest, NF_STR(""));
        nf_buf_done(&rest);
    } else if (!e)
        c->last = ids[0];
    free(ids);
    free(v);
    free(types);
    return e;
}

/* A body whose block arguments are parameters, one array each (reductions, sort, scatter, ...). */
static int put_body(struct writer *w, const struct hlo_op *op, struct hlo_region *r, int64_t *ret_comp)
{
    struct comp c = comp_new(w);
    int e = w->depth > 200 ? refuse(w, op, "regions nest too deeply") : 0;
    w->depth++;
    for (uint32_t i = 0; i < r->first->num_args && !e; i++) {
        e = put_parameter(w, &c, op, i, 1, &r->first->args[i]->type, false, NULL, NF_STR(""));
        place(w, &c, r->first->args[i]);
    }
    if (!e)
        e = put_ops(w, &c, r->first);
    if (!e)
        e = put_root(w, &c, terminator(r->first), terminator(r->first)->num_operands != 1, 0, NULL, NULL);
    w->depth--;
    if (!e)
        comp_end(w, &c);
    *ret_comp = c.id;
    comp_done(w, &c);
    return e;
}

/* Values that operations inside the regions of op read and that are defined outside of it, each once. A value's mark says `inside` or
 * `seen` for this call, since marks only grow. */
static struct hlo_value **captures(struct writer *w, struct hlo_op *op, uint32_t *ret_n)
{
    struct hlo_walk walk = hlo_walk_of(op);
    struct hlo_op *x;
    uint32_t inside = ++w->mark, seen = ++w->mark;
    for (unsigned r = 0; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r])
            for (uint32_t i = 0; i < b->num_args; i++)
                w->marks[b->args[i]->id] = inside;
    size_t uses = 0;
    while ((x = hlo_walk_next(&walk))) {
        uses += x->num_operands;
        for (uint32_t i = 0; i < x->num_results; i++)
            w->marks[x->results[i].id] = inside;
        for (unsigned r = 0; r < x->num_regions; r++)
            HLO_FOR_BLOCKS(b, x->regions[r])
                for (uint32_t i = 0; i < b->num_args; i++)
                    w->marks[b->args[i]->id] = inside;
    }
    struct hlo_value **v = nf_alloc_array(uses + 1, sizeof(*v));
    uint32_t n = 0;
    walk = hlo_walk_of(op);
    while ((x = hlo_walk_next(&walk)))
        for (uint32_t i = 0; i < x->num_operands; i++) {
            struct hlo_value *u = x->operands[i].value;
            if (w->marks[u->id] != inside && w->marks[u->id] != seen) {
                w->marks[u->id] = seen;
                v[n++] = u;
            }
        }
    *ret_n = n;
    return v;
}

/* A computation with one tuple parameter: the block's arguments, then the captured values; `pass`: it also returns the latter. */
static int put_tuple_body(struct writer *w, struct hlo_op *op, struct hlo_region *r, uint32_t n_captured, struct hlo_value *const *captured, bool pass, bool scalar_root, int64_t *ret_comp)
{
    struct hlo_block *b = r->first;
    struct comp c = comp_new(w);
    uint32_t n = b->num_args + n_captured;
    struct hlo_value **v = nf_alloc_array(n + 1u, sizeof(*v));
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    for (uint32_t i = 0; i < n; i++) {
        v[i] = i < b->num_args ? b->args[i] : captured[i - b->num_args];
        types[i] = v[i]->type;
    }
    int e = w->depth > 200 ? refuse(w, op, "regions nest too deeply") : 0;
    w->depth++;
    if (!e)
        e = put_parameter(w, &c, op, 0, n, types, true, NULL, NF_STR(""));
    if (!e)
        e = split(w, &c, op, c.last, n, v);
    if (!e)
        e = put_ops(w, &c, b);
    if (!e)
        e = put_root(w, &c, terminator(b), !scalar_root, pass ? n_captured : 0, captured, NULL);
    w->depth--;
    if (!e)
        comp_end(w, &c);
    *ret_comp = c.id;
    comp_done(w, &c);
    free(v);
    free(types);
    return e;
}

static int put_tuple_of(struct writer *w, struct comp *c, const struct hlo_op *op, uint32_t n, struct hlo_value *const *v, int64_t *ret_id)
{
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    for (uint32_t i = 0; i < n; i++)
        types[i] = v[i]->type;
    int64_t *ids = value_ids(w, c, op, n, v);
    int e = ids ? put_inst(w, c, op, "tuple", n, types, true, n, ids, NULL, NF_STR("")) : NF_EUNSUPPORTED;
    *ret_id = c->last;
    free(ids);
    free(types);
    return e;
}

static int put_while(struct writer *w, struct comp *c, struct hlo_op *op)
{
    uint32_t n_captured, n;
    struct hlo_value **captured = captures(w, op, &n_captured);
    n = op->num_operands + n_captured;
    struct hlo_value **in = nf_alloc_array(n + 1u, sizeof(*in)), **out = nf_alloc_array(op->num_results + 1u, sizeof(*out));
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    int64_t comps[2], tuple;
    for (uint32_t i = 0; i < n; i++) {
        in[i] = i < op->num_operands ? op->operands[i].value : captured[i - op->num_operands];
        types[i] = in[i]->type;
    }
    for (uint32_t i = 0; i < op->num_results; i++)
        out[i] = &op->results[i];
    struct nf_buf rest = NF_BUF_INIT;
    int e = put_tuple_of(w, c, op, n, in, &tuple);
    if (!e)
        e = put_tuple_body(w, op, op->regions[1], n_captured, captured, true, false, &comps[0]);
    if (!e)
        e = put_tuple_body(w, op, op->regions[0], n_captured, captured, false, true, &comps[1]);
    if (!e) {
        put_called(&rest, 2, comps);
        e = put_inst(w, c, op, "while", n, types, true, 1, &tuple, &rest, NF_STR(""));
    }
    if (!e)
        e = split(w, c, op, c->last, op->num_results, out);
    nf_buf_done(&rest);
    free(captured);
    free(in);
    free(out);
    free(types);
    return e;
}

static int put_conditional(struct writer *w, struct comp *c, struct hlo_op *op)
{
    uint32_t n_captured;
    struct hlo_value **captured = captures(w, op, &n_captured), **out = nf_alloc_array(op->num_results + 1u, sizeof(*out));
    const struct hlo_type **types = nf_alloc_array(op->num_results + 1u, sizeof(*types));
    int64_t *comps = nf_alloc_array(op->num_regions, sizeof(*comps)), *ids = nf_alloc_array(op->num_regions + 1u, sizeof(*ids)), tuple;
    struct nf_buf rest = NF_BUF_INIT;
    int e = put_tuple_of(w, c, op, n_captured, captured, &tuple);
    for (uint32_t i = 0; i < op->num_results; i++) {
        out[i] = &op->results[i];
        types[i] = out[i]->type;
    }
    for (unsigned i = 0; i < op->num_regions && !e; i++)
        e = put_tuple_body(w, op, op->regions[i], n_captured, captured, false, false, &comps[i]);
    int64_t *index = e ? NULL : value_ids(w, c, op, 1, &op->operands[0].value);
    if (!e && !index)
        e = NF_EUNSUPPORTED;
    ids[0] = index ? index[0] : 0;
    free(index);
    for (unsigned i = 0; i < op->num_regions; i++)
        ids[i + 1] = tuple;
    if (!e) {
        put_called(&rest, op->num_regions, comps);
        e = put_inst(w, c, op, "conditional", op->num_results, types, true, op->num_regions + 1u, ids, &rest, NF_STR(""));
    }
    if (!e)
        e = split(w, c, op, c->last, op->num_results, out);
    nf_buf_done(&rest);
    free(captured);
    free(out);
    free(types);
    free(comps);
    free(ids);
    return e;
}

static int put_function(struct writer *w, struct hlo_op *func, int64_t *ret_comp);

/* call, or a composite: a call of its decomposition that says what it stands for */
static int put_call(struct writer *w, const struct hlo_op *op, struct nf_buf *rest)
{
    bool composite = op->id == HLO_OP_COMPOSITE;
    struct hlo_op *callee = hlo_module_func(w->m, hlo_op_string(op, composite ? HLO_A_decomposition : HLO_A_callee));
    int64_t comp = 0;
    if (!callee || !hlo_func_block(callee))
        return refuse(w, op, "the called function is not here");
    int e = w->depth > 200 ? refuse(w, op, "calls nest too deeply") : 0;
    w->depth++;
    if (!e)
        e = put_function(w, callee, &comp);
    w->depth--;
    put_called(rest, 1, &comp);
    struct hp_decor d = {.sharding = hlo_op_discardable(op, NF_STR("mhlo.sharding")), .frontend = hlo_op_discardable(op, NF_STR("mhlo.frontend_attributes")),
                         .sdy = hlo_op_discardable(op, NF_STR("sdy.sharding"))};
    if (composite) {
        const struct hlo_attr *dict = hlo_op_attr(op, HLO_A_composite_attributes);
        char version[24];
        nf_format(version, sizeof(version), "%lld", (long long)hlo_op_i64(op, HLO_A_version, 0));
        d.more[0] = (struct hlo_named){NF_STR("composite.attributes"), dict ? dict : hlo_attr_dict(w->m, 0, NULL)};
        d.more[1] = (struct hlo_named){NF_STR("composite.name"), hlo_op_attr(op, HLO_A_name)};
        d.more[2] = (struct hlo_named){NF_STR("composite.version"), hlo_attr_string(w->m, nf_str_c(version))};
        pb_put_uint(rest, INST_COMPOSITE, 1);
    }
    return e || hp_put_decor(&d, rest) ? e : refuse(w, op, "its sharding has no HLO counterpart");
}

static void opcode_of(const struct hlo_op *op, char *out, size_t size)
{
    static const struct {
        enum hlo_op_id id;
        const char *opcode;
    } others[] = {
#define HLO_OP(opcode, id) {HLO_OP_##id, opcode},
#include "pipeline/hlo/hlo_proto_ops.def"
#undef HLO_OP
    };
    for (size_t k = 0; k < NF_ARRAY_LEN(others); k++)
        if (others[k].id == op->id) {
            nf_format(out, size, "%s", others[k].opcode);
            return;
        }
    nf_format(out, size, "%s", hlo_op_info((enum hlo_op_id)op->id)->mnemonic);
    for (char *ch = out; *ch; ch++)
        if (*ch == '_')
            *ch = '-';
}

/* HLO's broadcast copies only: dimensions of size 1 that grow are dropped by a reshape first. */
static int put_broadcast(struct writer *w, struct comp *c, const struct hlo_op *op)
{
    const struct hlo_type *in = op->operands[0].value->type, *out = op->results[0].type;
    struct hlo_ints map = hlo_op_i64s(op, HLO_A_broadcast_dimensions);
    int64_t *dims = nf_alloc_array(in->rank + 1u, sizeof(*dims)), *to = nf_alloc_array(in->rank + 1u, sizeof(*to));
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->rank; i++)
        if (in->dims[i] == out->dims[map.v[i]]) {
            dims[n] = in->dims[i];
            to[n++] = map.v[i];
        }
    int64_t *ids = value_ids(w, c, op, 1, &op->operands[0].value), id = ids ? ids[0] : 0;
    int e = ids ? 0 : NF_EUNSUPPORTED;
    if (!e && n != in->rank) {
        const struct hlo_type *t = hlo_type_with_shape(w->m, in, n, dims);
        e = put_inst(w, c, op, "reshape", 1, &t, false, 1, &id, NULL, NF_STR(""));
        id = c->last;
    }
    struct nf_buf rest = NF_BUF_INIT;
    pb_put_ints(&rest, INST_DIMENSIONS, n, to);
    if (!e)
        e = put_inst(w, c, op, "broadcast", 1, &out, false, 1, &id, &rest, name_of(w, &op->results[0]));
    place(w, c, &op->results[0]);
    nf_buf_done(&rest);
    free(ids);
    free(dims);
    free(to);
    return e;
}

/* A barrier takes one value: of several, their tuple. */
static int put_barrier(struct writer *w, struct comp *c, struct hlo_op *op)
{
    uint32_t n = op->num_operands;
    struct hlo_value **in = nf_alloc_array(n + 1u, sizeof(*in)), **out = nf_alloc_array(n + 1u, sizeof(*out));
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    int64_t tuple;
    for (uint32_t i = 0; i < n; i++) {
        in[i] = op->operands[i].value;
        out[i] = &op->results[i];
        types[i] = in[i]->type;
    }
    int e = put_tuple_of(w, c, op, n, in, &tuple);
    if (!e)
        e = put_inst(w, c, op, "opt-barrier", n, types, true, 1, &tuple, NULL, NF_STR(""));
    if (!e)
        e = split(w, c, op, c->last, n, out);
    free(in);
    free(out);
    free(types);
    return e;
}

/* HLO's all-to-all takes one array and leaves the pieces where it split: another dimension is joined by moving them there. */
static int put_all_to_all(struct writer *w, struct comp *c, struct hlo_op *op)
{
    int64_t split = hlo_op_i64(op, HLO_A_split_dimension, 0), concat = hlo_op_i64(op, HLO_A_concat_dimension, 0), count = hlo_op_i64(op, HLO_A_split_count, 1);
    int e = 0;
    for (uint32_t i = 0; i < op->num_operands && !e; i++) {
        const struct hlo_type *in = op->operands[i].value->type, *out = op->results[i].type;
        struct nf_str name = name_of(w, &op->results[i]);
        struct nf_buf rest = NF_BUF_INIT;
        int64_t *ids = value_ids(w, c, op, 1, &op->operands[i].value);
        e = ids ? hp_put_attributes(w->m, op, &rest, w->err) : NF_EUNSUPPORTED;
        if (!e)
            e = put_inst(w, c, op, "all-to-all", 1, &in, false, 1, ids, &rest, split == concat ? name : NF_STR(""));
        nf_buf_done(&rest);
        free(ids);
        if (!e && split != concat) {
            int64_t dims[HLO_MAX_RANK + 1], moved[HLO_MAX_RANK + 1], order[HLO_MAX_RANK + 1], n = 0;
            if (in->rank >= HLO_MAX_RANK || in->dims[split] == HLO_DYNAMIC)
                return refuse(w, op, "it splits one dimension and joins another, of a type that is not static");
            for (int64_t d = 0; d < (int64_t)in->rank; d++) { /* the split dimension becomes two: pieces, and the rest of it */
                dims[d + (d > split)] = in->dims[d];
                if (d == concat)
                    order[n++] = split;
                order[n++] = d + (d >= split);
            }
            dims[split] = count;
            dims[split + 1] = in->dims[split] / count;
            for (int64_t d = 0; d < n; d++)
                moved[d] = dims[order[d]];
            const struct hlo_type *apart = hlo_type_with_shape(w->m, in, (uint32_t)n, dims), *turned = hlo_type_with_shape(w->m, in, (uint32_t)n, moved);
            struct nf_buf perm = NF_BUF_INIT;
            pb_put_ints(&perm, INST_DIMENSIONS, (size_t)n, order);
            e = put_inst(w, c, op, "reshape", 1, &apart, false, 1, (int64_t[]){c->last}, NULL, NF_STR(""));
            if (!e)
                e = put_inst(w, c, op, "transpose", 1, &turned, false, 1, (int64_t[]){c->last}, &perm, NF_STR(""));
            if (!e)
                e = put_inst(w, c, op, "reshape", 1, &out, false, 1, (int64_t[]){c->last}, NULL, name);
            nf_buf_done(&perm);
        }
        place(w, c, &op->results[i]);
    }
    return e;
}

/* A custom call of Shardy's with these frontend attributes. ids: one an operand. */
static int put_sdy_call(struct writer *w, struct comp *c, const struct hlo_op *op, const char *target, const struct hp_decor *d, uint32_t n_types,
                        const struct hlo_type *const *types, uint32_t n, const int64_t *ids, struct nf_str name)
{
    struct nf_buf rest = NF_BUF_INIT;
    pb_put_bytes(&rest, INST_TARGET, nf_str_c(target));
    pb_put_uint(&rest, INST_SIDE_EFFECT, strcmp(target, "Sharding") != 0);
    pb_put_uint(&rest, INST_API_VERSION, 1);
    int e = hp_put_decor(d, &rest) ? put_inst(w, c, op, "custom-call", n_types, types, n_types != 1, n, ids, &rest, name)
                                   : refuse(w, op, "its sharding has no HLO counterpart");
    nf_buf_done(&rest);
    return e;
}

/* sdy.sharding_constraint and sdy.reshard, both of which Shardy exports as a call of "Sharding" */
static int put_constraint(struct writer *w, struct comp *c, struct hlo_op *op)
{
    struct hp_decor d = {.module = w->m, .sdy = hlo_op_attr(op, HLO_A_sharding), .per_value = true, .sharding = hlo_op_discardable(op, NF_STR("mhlo.sharding"))};
    int64_t *ids = value_ids(w, c, op, 1, &op->operands[0].value);
    int e = ids ? put_sdy_call(w, c, op, "Sharding", &d, 1, &(const struct hlo_type *){op->results[0].type}, 1, ids, name_of(w, &op->results[0])) : NF_EUNSUPPORTED;
    place(w, c, &op->results[0]);
    free(ids);
    return e;
}

/* A block that does nothing but call a function with all it is given: the call, else NULL. */
static struct hlo_op *only_call(const struct hlo_block *b)
{
    struct hlo_op *call = b->first, *ret = b->last;
    if (call->id != HLO_OP_CALL || call->next != ret || call->num_operands != b->num_args || call->num_results != ret->num_operands)
        return NULL;
    for (uint32_t i = 0; i < b->num_args; i++)
        if (call->operands[i].value != b->args[i])
            return NULL;
    for (uint32_t i = 0; i < ret->num_operands; i++)
        if (ret->operands[i].value != &call->results[i])
            return NULL;
    return call;
}

/* sdy.manual_computation: a call of its body between two custom calls that change from whole arrays to pieces and back */
static int put_manual(struct writer *w, struct comp *c, struct hlo_op *op)
{
    struct hlo_block *b = op->regions[0]->first;
    const struct hlo_op *ret = terminator(b);
    uint32_t n = NF_MAX(NF_MAX(b->num_args, ret->num_operands), op->num_results);
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    int64_t *ids = nf_alloc_array(n + 1u, sizeof(*ids)), comp = 0;
    struct hlo_value **in = nf_alloc_array(op->num_operands + 1u, sizeof(*in)), **out = nf_alloc_array(op->num_results + 1u, sizeof(*out));
    struct hp_decor d = {.more = {{NF_STR("xla.sdy.in_shardings"), hlo_op_attr(op, HLO_A_in_shardings)}, {NF_STR("xla.sdy.manual_axes"), hlo_op_attr(op, HLO_A_manual_axes)}}};
    for (uint32_t i = 0; i < op->num_operands; i++)
        in[i] = op->operands[i].value;
    for (uint32_t i = 0; i < op->num_results; i++)
        out[i] = &op->results[i];
    int64_t *whole = value_ids(w, c, op, op->num_operands, in);
    int e = whole ? 0 : NF_EUNSUPPORTED;
    for (uint32_t i = 0; i < b->num_args; i++)
        types[i] = b->args[i]->type;
    if (!e)
        e = put_sdy_call(w, c, op, "xla.sdy.GlobalToLocalShape", &d, b->num_args, types, op->num_operands, whole, NF_STR(""));
    if (!e)
        e = put_elements(w, c, op, c->last, b->num_args, types, ids);
    for (uint32_t i = 0; i < ret->num_operands; i++)
        types[i] = ret->operands[i].value->type;
    struct hlo_op *call = only_call(b); /* what a body that was read from HLO is */
    if (!e) {
        struct nf_buf rest = NF_BUF_INIT;
        e = call ? put_call(w, call, &rest) : put_body(w, op, op->regions[0], &comp);
        if (!call)
            put_called(&rest, 1, &comp);
        if (!e)
            e = put_inst(w, c, op, "call", ret->num_operands, types, ret->num_operands != 1, b->num_args, ids, &rest, NF_STR(""));
        nf_buf_done(&rest);
    }
    if (!e)
        e = put_elements(w, c, op, c->last, ret->num_operands, types, ids);
    for (uint32_t i = 0; i < op->num_results; i++)
        types[i] = op->results[i].type;
    d.more[0] = d.more[1];
    d.more[1] = (struct hlo_named){NF_STR("xla.sdy.out_shardings"), hlo_op_attr(op, HLO_A_out_shardings)};
    if (!e)
        e = put_sdy_call(w, c, op, "xla.sdy.LocalToGlobalShape", &d, op->num_results, types, ret->num_operands, ids, op->num_results == 1 ? name_of(w, out[0]) : NF_STR(""));
    if (!e && op->num_results == 1)
        place(w, c, out[0]);
    else if (!e)
        e = split(w, c, op, c->last, op->num_results, out);
    free(types);
    free(ids);
    free(whole);
    free(in);
    free(out);
    return e;
}

/* ---- send and recv, asynchronous operations: two instructions each ---- */

/* Data that goes together: the array, or the tuple of none or several. */
static const struct hlo_type *together(struct hlo_module *m, uint32_t n, const struct hlo_type *const *types)
{
    return n == 1 ? types[0] : hlo_type_tuple(m, n, types);
}

/* send: (data, u32, token), then send-done: the token. recv: the same, then recv-done: (data, token), taken apart. */
static int put_transfer(struct writer *w, struct comp *c, struct hlo_op *op)
{
    bool send = op->id == HLO_OP_SEND;
    uint32_t n = (send ? op->num_operands : op->num_results) - 1;
    struct hlo_value **v = nf_alloc_array(n + 1u, sizeof(*v)), *token = &op->results[send ? 0 : n];
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    for (uint32_t i = 0; i < n; i++) {
        v[i] = send ? op->operands[i].value : &op->results[i];
        types[i] = v[i]->type;
    }
    const struct hlo_type *data = together(w->m, n, types), *start[] = {data, hlo_type_tensor(w->m, HLO_ELEM_UI32, 0, NULL), token->type}, *done[] = {data, token->type};
    struct nf_buf first = NF_BUF_INIT, second = NF_BUF_INIT, index = NF_BUF_INIT;
    int64_t in[2] = {0}, *ids = NULL;
    size_t n_in = 0;
    int e = hp_put_transfer(w->m, op, false, &first, w->err);
    if (!e)
        e = hp_put_transfer(w->m, op, true, &second, w->err);
    if (!e && send && n != 1)
        e = put_tuple_of(w, c, op, n, v, &in[n_in++]);
    else if (!e && send && (ids = value_ids(w, c, op, 1, v)))
        in[n_in++] = ids[0];
    else if (!e && send)
        e = NF_EUNSUPPORTED;
    free(ids);
    ids = e ? NULL : value_ids(w, c, op, 1, &op->operands[op->num_operands - 1].value);
    if (!e && !ids)
        e = NF_EUNSUPPORTED;
    if (!e) {
        in[n_in++] = ids[0];
        e = put_inst(w, c, op, send ? "send" : "recv", 3, start, true, n_in, in, &first, NF_STR(""));
    }
    if (!e)
        e = put_inst(w, c, op, send ? "send-done" : "recv-done", send ? 1 : 2, send ? &token->type : done, !send, 1, (int64_t[]){c->last}, &second, send ? name_of(w, token) : NF_STR(""));
    if (!e && !send) {
        int64_t both = c->last;
        if (n > 1 && !(e = put_inst(w, c, op, "get-tuple-element", n, types, true, 1, &both, NULL, NF_STR(""))))
            e = split(w, c, op, c->last, n, v);
        else if (!e && n == 1)
            e = split(w, c, op, both, 1, v);
        pb_put_uint(&index, INST_TUPLE_INDEX, 1);
        if (!e)
            e = put_inst(w, c, op, "get-tuple-element", 1, &token->type, false, 1, &both, &index, name_of(w, token));
    }
    place(w, c, token);
    nf_buf_done(&first);
    nf_buf_done(&second);
    nf_buf_done(&index);
    free(ids);
    free(v);
    free(types);
    return e;
}

/* The opcode, without -start and -done, of an asynchronous operation: three have their own, the others are async. */
static const char *async_opcode(const struct hlo_op *start)
{
    switch ((int)start->regions[0]->first->first->id) {
    case HLO_OP_ALL_REDUCE: return "all-reduce";
    case HLO_OP_ALL_GATHER: return "all-gather";
    case HLO_OP_COLLECTIVE_PERMUTE: return "collective-permute";
    default: return "async";
    }
}

static int put_async_start(struct writer *w, struct comp *c, struct hlo_op *op)
{
    struct hlo_op *inner = op->regions[0]->first->first;
    const char *opcode = async_opcode(op);
    bool generic = strcmp(opcode, "async") == 0;
    const struct hlo_value *future = &op->results[0];
    uint32_t n = op->num_operands;
    char name[64];
    if (!future->uses || future->uses->next_use || future->uses->user->id != HLO_OP_ASYNC_DONE)
        return refuse(w, op, "its future is not for one async_done");
    if (!generic && n != 1)
        return refuse(w, op, "several arrays at once, which XLA's translation does not support");
    if (inner->id == HLO_OP_ALL_TO_ALL && (n != 1 || hlo_op_i64(inner, HLO_A_split_dimension, 0) != hlo_op_i64(inner, HLO_A_concat_dimension, 0)))
        return refuse(w, op, "an all_to_all that is more than one HLO operation");
    struct hlo_value **v = nf_alloc_array(n + 1u, sizeof(*v));
    const struct hlo_type **types = nf_alloc_array(n + 1u, sizeof(*types));
    for (uint32_t i = 0; i < n; i++) {
        v[i] = op->operands[i].value;
        types[i] = v[i]->type;
    }
    const struct hlo_type *shape[] = {generic ? hlo_type_tuple(w->m, n, types) : types[0], together(w->m, future->type->num_types, future->type->types)};
    struct nf_buf rest = NF_BUF_INIT;
    int64_t comp = 0, *ids = value_ids(w, c, op, n, v);
    struct hlo_region *body = generic ? op->regions[0] : inner->num_regions ? inner->regions[0] : NULL;
    int e = ids ? 0 : NF_EUNSUPPORTED;
    if (!e)
        e = hp_put_attributes(w->m, generic ? op : inner, &rest, w->err);
    if (!e && !generic && !hlo_op_discardable(inner, NF_STR("mhlo.sharding")) && !hlo_op_discardable(inner, NF_STR("mhlo.frontend_attributes")) &&
        !hlo_op_discardable(inner, NF_STR("sdy.sharding"))) /* one instruction for both: what is said of the other, then */
        e = hp_put_attributes(w->m, op, &rest, w->err);
    if (!e && body)
        e = put_body(w, op, body, &comp);
    if (!e && body)
        put_called(&rest, 1, &comp);
    nf_format(name, sizeof(name), "%s-start", opcode);
    bool all_reduce = inner->id == HLO_OP_ALL_REDUCE; /* the only one that does not keep its operand */
    if (!e)
        e = put_inst(w, c, op, name, all_reduce ? 1 : 2, all_reduce ? &shape[1] : shape, !all_reduce, n, ids, &rest, NF_STR(""));
    place(w, c, future);
    nf_buf_done(&rest);
    free(ids);
    free(v);
    free(types);
    return e;
}

static int put_async_done(struct writer *w, struct comp *c, struct hlo_op *op)
{
    struct hlo_value *future = op->operands[0].value, **out = nf_alloc_array(op->num_results + 1u, sizeof(*out));
    struct nf_buf rest = NF_BUF_INIT;
    int64_t *ids = value_ids(w, c, op, 1, &future);
    char name[64];
    int e = ids ? 0 : NF_EUNSUPPORTED;
    if (!e && (future->is_arg || future->def.op->id != HLO_OP_ASYNC_START))
        e = refuse(w, op, "its future is not of an async_start");
    if (!e)
        e = hp_put_attributes(w->m, op, &rest, w->err);
    for (uint32_t i = 0; i < op->num_results; i++)
        out[i] = &op->results[i];
    bool one = op->num_results == 1;
    if (!e) {
        nf_format(name, sizeof(name), "%s-done", async_opcode(future->def.op));
        e = put_inst(w, c, op, name, op->num_results, future->type->types, !one, 1, ids, &rest, one ? name_of(w, out[0]) : NF_STR(""));
    }
    if (!e && one)
        place(w, c, out[0]);
    else if (!e)
        e = split(w, c, op, c->last, op->num_results, out);
    nf_buf_done(&rest);
    free(ids);
    free(out);
    return e;
}

static int put_op(struct writer *w, struct comp *c, struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    struct nf_buf rest = NF_BUF_INIT;
    char opcode[64];
    int e = 0;
    if (op->id == HLO_OP_WHILE)
        return put_while(w, c, op);
    if (op->id == HLO_OP_IF || op->id == HLO_OP_CASE)
        return put_conditional(w, c, op);
    if (op->id == HLO_OP_BROADCAST_IN_DIM)
        return put_broadcast(w, c, op);
    if (op->id == HLO_OP_OPTIMIZATION_BARRIER && op->num_operands != 1)
        return put_barrier(w, c, op);
    if (op->id == HLO_OP_ALL_TO_ALL)
        return put_all_to_all(w, c, op);
    if (op->id == HLO_OP_SEND || op->id == HLO_OP_RECV)
        return put_transfer(w, c, op);
    if (op->id == HLO_OP_ASYNC_START)
        return put_async_start(w, c, op);
    if (op->id == HLO_OP_ASYNC_DONE)
        return put_async_done(w, c, op);
    if (op->id == HLO_OP_SDY_SHARDING_CONSTRAINT || op->id == HLO_OP_SDY_RESHARD)
        return put_constraint(w, c, op);
    if (op->id == HLO_OP_SDY_MANUAL_COMPUTATION)
        return put_manual(w, c, op);
    if ((info->dialect != HLO_DIALECT_STABLEHLO && op->id != HLO_OP_CALL && op->id != HLO_OP_CHLO_ERF && op->id != HLO_OP_CHLO_TOP_K) ||
        (info->traits & HLO_T_DEPRECATED) || op->id == HLO_OP_TUPLE || op->id == HLO_OP_GET_TUPLE_ELEMENT) {
        refuse(w, op, "has no HLO counterpart");
        if (info->dialect == HLO_DIALECT_CHLO || (info->traits & HLO_T_DEPRECATED))
            nf_error_hint(w->err, "rewrite it first: --passes=%s", info->dialect == HLO_DIALECT_CHLO ? "chlo" : "legalise");
        return NF_EUNSUPPORTED;
    }
    if (op->id == HLO_OP_CALL || op->id == HLO_OP_COMPOSITE)
        e = put_call(w, op, &rest);
    else if (op->id == HLO_OP_CONSTANT)
        e = put_literal(w, op, &rest);
    else
        e = hp_put_attributes(w->m, op, &rest, w->err);
    const struct hlo_attr *layouts = op->id == HLO_OP_CUSTOM_CALL ? hlo_op_attr(op, HLO_A_operand_layouts) : NULL;
    if (layouts) {
        pb_put_uint(&rest, INST_CONSTRAIN_LAYOUT, 1);
        for (uint32_t i = 0; i < op->num_operands && !e; i++) {
            const struct hlo_type *t = op->operands[i].value->type;
            struct nf_buf shape = NF_BUF_INIT;
            e = put_array_shape(w, op, &shape, t, layout_at(layouts, i, t));
            pb_put_bytes(&rest, INST_OPERAND_SHAPES, nf_buf_str(&shape));
            nf_buf_done(&shape);
        }
    }
    int64_t comps[2];
    for (unsigned i = 0; i < op->num_regions && i < 2 && !e; i++)
        e = put_body(w, op, op->regions[i], &comps[i]);
    if (!e && op->num_regions)
        put_called(&rest, op->num_regions, comps);
    struct hlo_value **in = nf_alloc_array(op->num_operands + 1u, sizeof(*in)), **out = nf_alloc_array(op->num_results + 1u, sizeof(*out));
    const struct hlo_type **types = nf_alloc_array(op->num_results + 1u, sizeof(*types));
    for (uint32_t i = 0; i < op->num_operands; i++)
        in[i] = op->operands[i].value;
    for (uint32_t i = 0; i < op->num_results; i++) {
        out[i] = &op->results[i];
        types[i] = out[i]->type;
    }
    uint32_t n = op->id == HLO_OP_RNG ? 2 : op->num_operands; /* HLO has the shape of rng in its result only */
    int64_t *ids = e ? NULL : value_ids(w, c, op, n, in);
    if (!e && !ids)
        e = NF_EUNSUPPORTED;
    if (!e) {
        opcode_of(op, opcode, sizeof(opcode));
        e = put_inst(w, c, op, opcode, op->num_results, types, op->num_results != 1, n, ids, &rest,
                     op->num_results == 1 ? name_of(w, out[0]) : nf_str_n("", 0));
    }
    if (!e && op->num_results == 1)
        place(w, c, &op->results[0]);
    else if (!e)
        e = split(w, c, op, c->last, op->num_results, out);
    free(ids);
    free(in);
    free(out);
    free(types);
    nf_buf_done(&rest);
    return e;
}

static int put_ops(struct writer *w, struct comp *c, struct hlo_block *b)
{
    int e = 0;
    HLO_FOR_OPS(op, b)
    {
        if (e || op == b->last)
            break;
        e = put_op(w, c, op);
    }
    return e;
}

/* ---- functions and the module ---- */

/* sdy.sharding of what the function returns, as Shardy exports it: a custom call on each. ids: the instructions to return, replaced. */
static int put_result_shardings(struct writer *w, struct comp *c, struct hlo_op *func, int64_t *ids)
{
    const struct hlo_op *ret = hlo_func_block(func)->last;
    int e = 0;
    for (uint32_t i = 0; i < ret->num_operands && !e; i++) {
        struct hp_decor d = {.sdy = hlo_func_result_attr(func, i, NF_STR("sdy.sharding")), .per_value = true};
        struct nf_str name = func == w->entry && d.sdy ? kept_name(hlo_func_result_attr(func, i, NF_STR("neffd.name"))) : nf_str_n("", 0);
        if (!d.sdy)
            continue;
        if (name.len && nf_map_get(w->kept, name) != ret->operands[i].value) /* the name of something else too */
            name.len = 0;
        e = put_sdy_call(w, c, ret, "xla.sdy.FuncResultSharding", &d, 1, &(const struct hlo_type *){ret->operands[i].value->type}, 1, &ids[i], name);
        ids[i] = c->last;
    }
    return e;
}

static int put_function(struct writer *w, struct hlo_op *func, int64_t *ret_comp)
{
    struct nf_str symbol = hlo_func_name(func);
    int64_t *known = nf_map_get(w->funcs, symbol);
    if (known) {
        *ret_comp = *known;
        return *ret_comp ? 0 : refuse(w, func, "a function that calls itself");
    }
    known = NF_NEW(w->m->arena, int64_t);
    nf_map_put(w->funcs, symbol, known);
    struct hlo_block *b = hlo_func_block(func);
    struct comp c = comp_new(w);
    bool entry = func == w->entry;
    int e = 0;
    for (uint32_t i = 0; i < b->num_args && !e; i++) {
        struct nf_str name = kept_name(hlo_func_arg_attr(func, i, NF_STR("neffd.name")));
        struct hp_decor d = {.sharding = hlo_func_arg_attr(func, i, NF_STR("mhlo.sharding")), .frontend = hlo_func_arg_attr(func, i, NF_STR("mhlo.frontend_attributes")),
                             .sdy = hlo_func_arg_attr(func, i, NF_STR("sdy.sharding")), .module = w->m};
        e = put_parameter(w, &c, func, i, 1, &b->args[i]->type, false, &d, entry ? name : nf_str_n("", 0));
        place(w, &c, b->args[i]);
    }
    if (!e)
        e = put_ops(w, &c, b);
    if (!e)
        e = put_root(w, &c, b->last, entry || b->last->num_operands != 1, 0, NULL, func);
    if (!e)
        comp_end(w, &c);
    *known = *ret_comp = c.id;
    comp_done(w, &c);
    return e;
}

static int put_program_shape(struct writer *w, struct nf_buf *out)
{
    const struct hlo_type *t = hlo_func_type(w->entry);
    struct nf_buf shape = NF_BUF_INIT;
    int e = 0;
    for (uint32_t i = 0; i < t->num_inputs && !e; i++)
        e = put_shape(w, w->entry, &shape, 1, 1, &t->types[i], false, NULL);
    if (!e)
        e = put_shape(w, w->entry, &shape, 2, t->num_types - t->num_inputs, t->types + t->num_inputs, true, NULL);
    for (uint32_t i = 0; i < t->num_inputs; i++) {
        char name[24];
        struct nf_str kept = kept_name(hlo_func_arg_attr(w->entry, i, NF_STR("neffd.name")));
        nf_format(name, sizeof(name), "Arg_%u", i);
        pb_put_bytes(&shape, 3, kept.len ? kept : nf_str_c(name));
    }
    pb_put_bytes(out, MODULE_PROGRAM_SHAPE, nf_buf_str(&shape));
    nf_buf_done(&shape);
    return e;
}

/* Donated arguments: alias of output {index} with parameter, or a donor without a chosen output. */
static void put_donations(struct writer *w, struct nf_buf *out)
{
    const struct hlo_type *t = hlo_func_type(w->entry);
    struct nf_buf aliases = NF_BUF_INIT, donors = NF_BUF_INIT;
    for (uint32_t i = 0; i < t->num_inputs; i++) {
        const struct hlo_attr *a = hlo_func_arg_attr(w->entry, i, NF_STR("tf.aliasing_output"));
        struct nf_buf one = NF_BUF_INIT;
        if (a && a->kind == HLO_ATTR_INT) {
            pb_put_ints(&one, 1, 1, &a->i);
            pb_put_uint(&one, 2, i);
            pb_put_uint(&one, 4, 1); /* may alias */
            pb_put_bytes(&aliases, 1, nf_buf_str(&one));
        } else if (hlo_func_arg_attr(w->entry, i, NF_STR("jax.buffer_donor"))) {
            pb_put_uint(&one, 1, i);
            pb_put_bytes(&donors, 1, nf_buf_str(&one));
        }
        nf_buf_done(&one);
    }
    if (aliases.len)
        pb_put_bytes(out, MODULE_ALIAS, nf_buf_str(&aliases));
    if (donors.len)
        pb_put_bytes(out, MODULE_DONORS, nf_buf_str(&donors));
    nf_buf_done(&aliases);
    nf_buf_done(&donors);
}

/* Frontend attributes of the module: Shardy's meshes among them. */
static void put_frontend(struct writer *w, struct nf_buf *out)
{
    struct hp_decor d = {.frontend = hlo_op_discardable(w->m->op, NF_STR("mhlo.frontend_attributes"))};
    size_t n = 0;
    HLO_FOR_OPS(op, hlo_module_block(w->m))
        n += op->id == HLO_OP_SDY_MESH;
    struct hlo_named *v = NF_NEW_ARRAY(w->m->arena, struct hlo_named, n + 1);
    n = 0;
    HLO_FOR_OPS(op, hlo_module_block(w->m))
        if (op->id == HLO_OP_SDY_MESH)
            v[n++] = (struct hlo_named){hlo_op_string(op, HLO_A_sym_name), hlo_op_attr(op, HLO_A_mesh)};
    if (n)
        d.more[0] = (struct hlo_named){NF_STR("xla.sdy.meshes"), hlo_attr_dict(w->m, n, v)};
    hp_put_decor_at(&d, MODULE_FRONTEND, out);
}

int hlo_proto_write(struct hlo_module *m, struct nf_buf *out, struct nf_error *err)
{
    struct writer w = {.m = m, .err = err};
    struct hlo_op *entry = hlo_module_entry(m);
    int64_t comp = 0;
    if (!entry || !hlo_func_block(entry))
        return nf_fail(err, NF_EGRAPH, "the module has no entry function");
    w.entry = entry;
    w.value_names = nf_alloc_array((size_t)m->num_values + 1, sizeof(*w.value_names));
    w.places = nf_alloc_array((size_t)m->num_values + 1, sizeof(*w.places));
    w.marks = nf_alloc_array((size_t)m->num_values + 1, sizeof(*w.marks));
    w.funcs = nf_map_new(false);
    w.kept = nf_map_new(false);
    const struct hlo_block *body = hlo_func_block(entry);
    for (uint32_t i = 0; i < body->num_args; i++)
        nf_map_put(w.kept, kept_name(hlo_func_arg_attr(entry, i, NF_STR("neffd.name"))), m);
    for (uint32_t i = body->last->num_operands; i-- > 0;) {
        struct hlo_value *v = body->last->operands[i].value;
        struct nf_str name = kept_name(hlo_func_result_attr(entry, i, NF_STR("neffd.name")));
        if (v->is_arg || (nf_map_get(w.kept, name) && !nf_str_eq(w.value_names[v->id], name)))
            continue; /* the argument's own name, or one that stands already */
        if (hlo_func_result_attr(entry, i, NF_STR("sdy.sharding"))) { /* the call that says it has the name */
            nf_map_put(w.kept, name, v);
            continue;
        }
        w.value_names[v->id] = name;
        nf_map_put(w.kept, name, m);
    }
    struct nf_buf shape = NF_BUF_INIT;
    int e = put_program_shape(&w, &shape);
    if (!e)
        e = put_function(&w, entry, &comp);
    if (!e) {
        char name[40];
        struct nf_str module = hlo_op_string(m->op, HLO_A_sym_name);
        nf_format(name, sizeof(name), "computation.%lld", (long long)comp);
        pb_put_bytes(out, MODULE_NAME, module.len ? module : NF_STR("main"));
        pb_put_bytes(out, MODULE_ENTRY_NAME, nf_str_c(name));
        nf_buf_add_str(out, nf_buf_str(&w.comps));
        nf_buf_add_str(out, nf_buf_str(&shape));
        pb_put_uint(out, MODULE_ID, 1);
        pb_put_uint(out, MODULE_ENTRY_ID, (uint64_t)comp);
        put_donations(&w, out);
        put_frontend(&w, out);
        if (out->failed)
            e = nf_fail(err, NF_ENOMEM, "no memory for the module");
    }
    nf_buf_done(&shape);
    nf_buf_done(&w.comps);
    nf_map_free(w.funcs);
    free(w.places);
    free(w.marks);
    free(w.value_names);
    nf_map_free(w.kept);
    return e;
}
