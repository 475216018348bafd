/* The writer of HloModuleProto. See hlo_proto.h.
 *
 * Every function and region becomes a computation. An operation with several results becomes an instruction of tuple shape and one
 * get-tuple-element a result. Loops carry one tuple; values that a loop or branch reads from outside are added to its tuple, since
 * HLO computations see nothing but their parameters. */
#include "pipeline/hlo/hlo_proto_internal.h"

#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>

struct writer {
    struct hlo_module *m;
    struct nf_error *err;
    struct nf_buf comps;        /* finished computations, as fields of the module */
    int64_t next_comp, next_inst;
    int64_t *func_comps;        /* by the id of ... functions are few: parallel lists */
    const struct hlo_op **funcs;
    size_t num_funcs, cap_funcs;
    unsigned depth;
    const struct hlo_op *entry;
    struct nf_str *value_names; /* by value id: the name that the entry's result must keep */
    struct nf_map *kept;        /* all names of the entry that must be kept: no other instruction may have one of them */
};

/* A computation in the making. */
struct comp {
    struct nf_buf insts;
    int64_t id, last;           /* id of the instruction written last */
    int64_t *of_value;          /* instruction of each value of the module, 0: none here */
};

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

static int64_t *value_ids(struct writer *w, struct comp *c, const struct hlo_op *op, uint32_t n, struct hlo_value *const *v)
{
    int64_t *ids = nf_alloc_array(n + 1u, sizeof(*ids));
    for (uint32_t i = 0; i < n; i++) {
        if (!c->of_value[v[i]->id] && hlo_value_constant(v[i]) && put_op(w, c, v[i]->def.op)) { /* a constant from outside is made here again */
            free(ids);
            return NULL;
        }
        ids[i] = c->of_value[v[i]->id];
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
        c->of_value[v[i]->id] = c->last;
    }
    return e;
}

static int put_parameter(struct writer *w, struct comp *c, const struct hlo_op *op, uint32_t number, uint32_t n, const struct hlo_type *const *types, bool tuple, struct nf_str name)
{
    struct nf_buf rest = NF_BUF_INIT;
    pb_put_uint(&rest, INST_PARAMETER, number);
    int e = put_inst(w, c, op, "parameter", n, types, tuple, 0, NULL, &rest, name);
    nf_buf_done(&rest);
    return e;
}

static struct comp comp_new(struct writer *w)
{
    return (struct comp){.id = ++w->next_comp, .of_value = nf_alloc_array((size_t)w->m->num_values + 1, sizeof(int64_t))};
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

static void comp_done(struct comp *c)
{
    nf_buf_done(&c->insts);
    free(c->of_value);
}

static int put_ops(struct writer *w, struct comp *c, struct hlo_block *b);

static struct hlo_op *terminator(const struct hlo_block *b) { return b->last; }

/* What the region returns as the root: the value itself, or a tuple. */
static int put_root(struct writer *w, struct comp *c, const struct hlo_op *ret, bool tuple, uint32_t n_more, struct hlo_value *const *more)
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
    if (!e && tuple)
        e = put_inst(w, c, ret, "tuple", n, types, true, n, ids, NULL, NF_STR(""));
    else if (!e)
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
        e = put_parameter(w, &c, op, i, 1, &r->first->args[i]->type, false, NF_STR(""));
        c.of_value[r->first->args[i]->id] = c.last;
    }
    if (!e)
        e = put_ops(w, &c, r->first);
    if (!e)
        e = put_root(w, &c, terminator(r->first), terminator(r->first)->num_operands != 1, 0, NULL);
    w->depth--;
    if (!e)
        comp_end(w, &c);
    *ret_comp = c.id;
    comp_done(&c);
    return e;
}

/* Values that operations inside the regions of op read and that are defined outside of it, each once. */
static struct hlo_value **captures(struct writer *w, struct hlo_op *op, uint32_t *ret_n)
{
    struct hlo_walk walk = hlo_walk_of(op);
    struct hlo_op *x;
    char *inside = nf_alloc((size_t)w->m->num_values + 1), *seen = nf_alloc((size_t)w->m->num_values + 1);
    for (unsigned r = 0; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r])
            for (uint32_t i = 0; i < b->num_args; i++)
                inside[b->args[i]->id] = 1;
    size_t uses = 0;
    while ((x = hlo_walk_next(&walk))) {
        uses += x->num_operands;
        for (uint32_t i = 0; i < x->num_results; i++)
            inside[x->results[i].id] = 1;
        for (unsigned r = 0; r < x->num_regions; r++)
            HLO_FOR_BLOCKS(b, x->regions[r])
                for (uint32_t i = 0; i < b->num_args; i++)
                    inside[b->args[i]->id] = 1;
    }
    struct hlo_value **v = nf_alloc_array(uses + 1, sizeof(*v));
    uint32_t n = 0;
    walk = hlo_walk_of(op);
    while ((x = hlo_walk_next(&walk)))
        for (uint32_t i = 0; i < x->num_operands; i++) {
            struct hlo_value *u = x->operands[i].value;
            if (!inside[u->id] && !seen[u->id]) {
                seen[u->id] = 1;
                v[n++] = u;
            }
        }
    free(inside);
    free(seen);
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
        e = put_parameter(w, &c, op, 0, n, types, true, NF_STR(""));
    if (!e)
        e = split(w, &c, op, c.last, n, v);
    if (!e)
        e = put_ops(w, &c, b);
    if (!e)
        e = put_root(w, &c, terminator(b), !scalar_root, pass ? n_captured : 0, captured);
    w->depth--;
    if (!e)
        comp_end(w, &c);
    *ret_comp = c.id;
    comp_done(&c);
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
    ids[0] = c->of_value[op->operands[0].value->id];
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

static int put_call(struct writer *w, const struct hlo_op *op, struct nf_buf *rest)
{
    struct hlo_op *callee = hlo_module_func(w->m, hlo_op_string(op, HLO_A_callee));
    int64_t comp = 0;
    if (!callee || !hlo_func_block(callee))
        return refuse(w, op, "the called function is not here");
    int e = w->depth > 200 ? refuse(w, op, "calls nest too deeply") : 0;
    w->depth++;
    if (!e)
        e = put_function(w, callee, &comp);
    w->depth--;
    put_called(rest, 1, &comp);
    return e;
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
    int64_t id = c->of_value[op->operands[0].value->id];
    int e = 0;
    if (n != in->rank) {
        const struct hlo_type *t = hlo_type_with_shape(w->m, in, n, dims);
        e = put_inst(w, c, op, "reshape", 1, &t, false, 1, &id, NULL, NF_STR(""));
        id = c->last;
    }
    struct nf_buf rest = NF_BUF_INIT;
    pb_put_ints(&rest, INST_DIMENSIONS, n, to);
    if (!e)
        e = put_inst(w, c, op, "broadcast", 1, &out, false, 1, &id, &rest, name_of(w, &op->results[0]));
    c->of_value[op->results[0].id] = c->last;
    nf_buf_done(&rest);
    free(dims);
    free(to);
    return e;
}

/* A barrier takes one value: of several, their tuple. */
static int put_barrier(struct writer *w, struct comp *c, const struct hlo_op *op)
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
    if ((info->dialect != HLO_DIALECT_STABLEHLO && op->id != HLO_OP_CALL && op->id != HLO_OP_CHLO_ERF && op->id != HLO_OP_CHLO_TOP_K) ||
        (info->traits & HLO_T_DEPRECATED) || op->id == HLO_OP_COMPOSITE || op->id == HLO_OP_TUPLE || op->id == HLO_OP_GET_TUPLE_ELEMENT)
        return refuse(w, op, "has no HLO counterpart");
    if (op->id == HLO_OP_CALL)
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
    int64_t *ids = e ? NULL : value_ids(w, c, op, op->num_operands, in);
    if (!e && !ids)
        e = NF_EUNSUPPORTED;
    if (!e) {
        opcode_of(op, opcode, sizeof(opcode));
        e = put_inst(w, c, op, opcode, op->num_results, types, op->num_results != 1, op->num_operands, ids, &rest,
                     op->num_results == 1 ? name_of(w, out[0]) : nf_str_n("", 0));
    }
    if (!e && op->num_results == 1)
        c->of_value[op->results[0].id] = c->last;
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

static struct nf_str kept_name(const struct hlo_attr *a) { return a && a->kind == HLO_ATTR_STRING ? a->str : nf_str_n("", 0); }

static int put_function(struct writer *w, struct hlo_op *func, int64_t *ret_comp)
{
    for (size_t i = 0; i < w->num_funcs; i++)
        if (w->funcs[i] == func) {
            *ret_comp = w->func_comps[i];
            return *ret_comp ? 0 : refuse(w, func, "a function that calls itself");
        }
    if (w->num_funcs == w->cap_funcs) {
        w->cap_funcs = w->cap_funcs ? 2 * w->cap_funcs : 16;
        w->funcs = nf_realloc(w->funcs, w->cap_funcs * sizeof(*w->funcs));
        w->func_comps = nf_realloc(w->func_comps, w->cap_funcs * sizeof(*w->func_comps));
    }
    size_t slot = w->num_funcs++;
    w->funcs[slot] = func;
    w->func_comps[slot] = 0;
    struct hlo_block *b = hlo_func_block(func);
    struct comp c = comp_new(w);
    bool entry = func == w->entry;
    int e = 0;
    for (uint32_t i = 0; i < b->num_args && !e; i++) {
        struct nf_str name = kept_name(hlo_func_arg_attr(func, i, NF_STR("neffd.name")));
        e = put_parameter(w, &c, func, i, 1, &b->args[i]->type, false, entry ? name : nf_str_n("", 0));
        c.of_value[b->args[i]->id] = c.last;
    }
    if (!e)
        e = put_ops(w, &c, b);
    if (!e)
        e = put_root(w, &c, b->last, entry || b->last->num_operands != 1, 0, NULL);
    if (!e)
        comp_end(w, &c);
    w->func_comps[slot] = c.id;
    *ret_comp = c.id;
    comp_done(&c);
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

int hlo_proto_write(struct hlo_module *m, struct nf_buf *out, struct nf_error *err)
{
    struct writer w = {.m = m, .err = err};
    struct hlo_op *entry = hlo_module_entry(m);
    int64_t comp = 0;
    if (!entry || !hlo_func_block(entry))
        return nf_fail(err, NF_EGRAPH, "the module has no entry function");
    w.entry = entry;
    w.value_names = nf_alloc_array((size_t)m->num_values + 1, sizeof(*w.value_names));
    w.kept = nf_map_new(false);
    const struct hlo_block *body = hlo_func_block(entry);
    for (uint32_t i = 0; i < body->num_args; i++)
        nf_map_put(w.kept, kept_name(hlo_func_arg_attr(entry, i, NF_STR("neffd.name"))), m);
    for (uint32_t i = body->last->num_operands; i-- > 0;) {
        struct hlo_value *v = body->last->operands[i].value;
        struct nf_str name = kept_name(hlo_func_result_attr(entry, i, NF_STR("neffd.name")));
        if (v->is_arg || (nf_map_get(w.kept, name) && !nf_str_eq(w.value_names[v->id], name)))
            continue; /* the argument's own name, or one that stands already */
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
        if (out->failed)
            e = nf_fail(err, NF_ENOMEM, "no memory for the module");
    }
    nf_buf_done(&shape);
    nf_buf_done(&w.comps);
    free(w.funcs);
    free(w.func_comps);
    free(w.value_names);
    nf_map_free(w.kept);
    return e;
}
