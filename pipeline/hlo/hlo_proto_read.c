/* Computations, calls and regions of HloModuleProto. See hlo_proto.h; the fields of single instructions are hlo_proto_attrs.c's. */
#include "pipeline/hlo/hlo_proto_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define LEAVES_MAX 65536u

int hp_fail(struct hp *p, const struct hp_inst *i, int code, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!i)
        return nf_fail(p->err, code, "%s", text);
    nf_fail(p->err, code, "%.*s: %s", (int)NF_MIN(i->opcode.len, 40u), i->opcode.data, text);
    nf_error_location(p->err, "instruction %.*s, byte %zu", (int)NF_MIN(i->name.len, 120u), i->name.data, (size_t)(i->message.data - p->bytes.data));
    return code;
}

int hp_cut(struct hp *p, const void *at, const char *what)
{
    nf_fail(p->err, NF_EGRAPH, "%s is cut or malformed", what);
    nf_error_location(p->err, "byte %zu", (size_t)((const char *)at - p->bytes.data));
    return NF_EGRAPH;
}

/* ---- the module's tables ---- */

static int by_comp_id(const void *a, const void *b)
{
    int64_t x = ((const struct hp_comp *)a)->id, y = ((const struct hp_comp *)b)->id;
    return (x > y) - (x < y);
}

static int read_computations(struct hp *p)
{
    struct nf_reader r = nf_reader_of(p->bytes);
    struct pb_field f;
    size_t n = 0;
    while (pb_next(&r, &f))
        n += f.num == MODULE_COMPUTATIONS && f.wire == PB_BYTES;
    if (r.failed)
        return hp_cut(p, r.at, "the module");
    if (n == 0)
        return hp_fail(p, NULL, NF_EGRAPH, "no HloModuleProto: it holds no computation");
    p->comps = NF_NEW_ARRAY(p->m->arena, struct hp_comp, n);
    r = nf_reader_of(p->bytes);
    while (p->num_comps < n && pb_next(&r, &f)) {
        if (f.num == MODULE_ENTRY_ID && f.wire == PB_VARINT)
            p->entry = (int64_t)f.v;
        if (f.num != MODULE_COMPUTATIONS || f.wire != PB_BYTES)
            continue;
        struct hp_comp *c = &p->comps[p->num_comps++];
        c->message = f.bytes;
        struct nf_reader inner = nf_reader_of(f.bytes);
        struct pb_field g;
        while (pb_next(&inner, &g)) {
            if (g.num == COMP_ID && g.wire == PB_VARINT)
                c->id = (int64_t)g.v;
            else if (g.num == COMP_ROOT && g.wire == PB_VARINT)
                c->root = (int64_t)g.v;
            else if (g.num == COMP_NAME && g.wire == PB_BYTES)
                c->name = g.bytes;
            else if (g.num == COMP_INSTRUCTIONS && g.wire == PB_BYTES)
                c->num_insts++;
        }
        if (inner.failed)
            return hp_cut(p, inner.at, "a computation");
    }
    p->entry = (int64_t)pb_uint(p->bytes, MODULE_ENTRY_ID, (uint64_t)p->comps[p->num_comps - 1].id);
    qsort(p->comps, n, sizeof(*p->comps), by_comp_id);
    for (size_t i = 1; i < n; i++)
        if (p->comps[i].id == p->comps[i - 1].id)
            return hp_fail(p, NULL, NF_EGRAPH, "two computations with id %lld", (long long)p->comps[i].id);
    return 0;
}

static struct hp_comp *comp_of(struct hp *p, int64_t id)
{
    struct hp_comp key = {.id = id};
    return bsearch(&key, p->comps, p->num_comps, sizeof(key), by_comp_id);
}

static int called(struct hp *p, const struct hp_inst *i, size_t k, struct hp_comp **ret)
{
    *ret = k < i->num_called ? comp_of(p, i->called[k]) : NULL;
    return *ret ? 0 : hp_fail(p, i, NF_EGRAPH, "computation %zu is missing", k);
}

/* ---- one computation ---- */

struct scope {
    struct hp_inst *insts;      /* in the order of the file */
    size_t *by_id;              /* indexes into insts, sorted by id */
    size_t n;
    size_t num_params;
    uint32_t *param_at;         /* num_params + 1 of them */
};

static int read_inst(struct hp *p, struct nf_str message, struct hp_inst *i)
{
    struct nf_reader r = nf_reader_of(message);
    struct pb_field f;
    *i = (struct hp_inst){.message = message};
    while (pb_next(&r, &f)) {
        if (f.wire == PB_BYTES) {
            if (f.num == INST_NAME)
                i->name = f.bytes;
            else if (f.num == INST_OPCODE)
                i->opcode = f.bytes;
            else if (f.num == INST_SHAPE)
                i->shape = f.bytes;
        } else if (f.num == INST_ID) {
            i->id = (int64_t)f.v;
        }
    }
    if (r.failed)
        return hp_cut(p, r.at, "an instruction");
    i->operands = hp_ints(p, message, INST_OPERANDS, &i->num_operands);
    i->called = hp_ints(p, message, INST_CALLED, &i->num_called);
    return 0;
}

/* Merge sort of indexes by id: stable, no context needed. */
static void sort_by_id(const struct hp_inst *insts, size_t *v, size_t *tmp, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = NF_MIN(lo + width, n), hi = NF_MIN(lo + 2 * width, n), a = lo, b = mid;
            for (size_t k = lo; k < hi; k++)
                tmp[k] = a < mid && (b >= hi || insts[v[a]].id <= insts[v[b]].id) ? v[a++] : v[b++];
        }
        memcpy(v, tmp, n * sizeof(*v));
    }
}

static int read_insts(struct hp *p, const struct hp_comp *c, struct scope *s)
{
    struct nf_reader r = nf_reader_of(c->message);
    struct pb_field f;
    int e;
    *s = (struct scope){.insts = NF_NEW_ARRAY(p->m->arena, struct hp_inst, c->num_insts)};
    while (s->n < c->num_insts && pb_next(&r, &f))
        if (f.num == COMP_INSTRUCTIONS && f.wire == PB_BYTES && (e = read_inst(p, f.bytes, &s->insts[s->n++])))
            return e;
    s->by_id = NF_NEW_ARRAY(p->m->arena, size_t, s->n);
    for (size_t i = 0; i < s->n; i++)
        s->by_id[i] = i;
    sort_by_id(s->insts, s->by_id, NF_NEW_ARRAY(p->m->arena, size_t, s->n), s->n);
    return 0;
}

static struct hp_inst *inst_of(const struct scope *s, int64_t id)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->insts[s->by_id[mid]].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n && s->insts[s->by_id[lo]].id == id ? &s->insts[s->by_id[lo]] : NULL;
}

static int operand(struct hp *p, const struct scope *s, const struct hp_inst *i, size_t k, struct hp_inst **ret)
{
    *ret = k < i->num_operands ? inst_of(s, i->operands[k]) : NULL;
    if (!*ret || !(*ret)->leaves)
        return hp_fail(p, i, NF_EGRAPH, "operand %zu is not defined before it is used", k);
    if ((*ret)->done && !nf_str_eq_c(i->opcode, (*ret)->done))
        return hp_fail(p, i, NF_EGRAPH, "operand %zu is a %.*s, which only %s may read", k, (int)NF_MIN((*ret)->opcode.len, 40u), (*ret)->opcode.data, (*ret)->done);
    return 0;
}

/* All leaves of all operands from `from` on, in order. */
static int operand_leaves(struct hp *p, const struct scope *s, const struct hp_inst *i, size_t from, uint32_t *ret_n, struct hlo_value ***ret)
{
    uint64_t n = 0;
    struct hp_inst *o;
    int e;
    for (size_t k = from; k < i->num_operands; k++) {
        if ((e = operand(p, s, i, k, &o)))
            return e;
        n += o->num_leaves;
    }
    if (n > LEAVES_MAX)
        return hp_fail(p, i, NF_ELIMIT, "%llu operands", (unsigned long long)n);
    struct hlo_value **v = NF_NEW_ARRAY(p->m->arena, struct hlo_value *, (size_t)n);
    n = 0;
    for (size_t k = from; k < i->num_operands; k++) {
        operand(p, s, i, k, &o);
        if (o->num_leaves)
            memcpy(v + n, o->leaves, o->num_leaves * sizeof(*v));
        n += o->num_leaves;
    }
    *ret_n = (uint32_t)n;
    *ret = v;
    return 0;
}

static int result_types(struct hp *p, const struct hp_inst *i, uint32_t *ret_n, const struct hlo_type ***ret)
{
    const struct hlo_type **types = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, 16);
    uint32_t cap = 16;
    for (;;) {
        *ret_n = 0;
        int e = hp_shape_leaves(p, i, i->shape, types, cap, ret_n);
        if (e != NF_ELIMIT || cap >= LEAVES_MAX) {
            *ret = types;
            return e;
        }
        cap *= 16;
        types = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, cap);
    }
}

static void take_results(struct hp *p, struct hp_inst *i, struct hlo_op *op)
{
    i->num_leaves = op->num_results;
    i->leaves = NF_NEW_ARRAY(p->m->arena, struct hlo_value *, op->num_results + 1u);
    for (uint32_t k = 0; k < op->num_results; k++)
        i->leaves[k] = &op->results[k];
}

struct params {
    struct hlo_value *const *leaves;
    uint32_t n;
};

static int import_body(struct hp *p, const struct hp_comp *c, struct hlo_block *b, struct params params, uint32_t *ret_n, struct hlo_value ***ret);

/* A region whose block takes these types; ends with stablehlo.return. */
static int import_region(struct hp *p, const struct hp_inst *i, const struct hp_comp *c, struct hlo_region *r, uint32_t n_types, const struct hlo_type *const *types)
{
    struct hlo_block *b = hlo_block_new(p->m, r);
    for (uint32_t k = 0; k < n_types; k++)
        hlo_block_add_arg(p->m, b, types[k]);
    uint32_t n;
    struct hlo_value **v;
    if (p->depth >= p->limits->depth) {
        hp_fail(p, i, NF_ELIMIT, "computations nest deeper than %u", p->limits->depth);
        return hlo_limit_hint(p->limits, "max_depth", p->err);
    }
    p->depth++;
    int e = import_body(p, c, b, (struct params){b->args, b->num_args}, &n, &v);
    p->depth--;
    if (!e)
        hlo_block_append(b, hlo_op_new(p->m, HLO_OP_RETURN, n, v, 0, NULL, 0));
    return e;
}

/* A branch sees its operand's leaves as they are outside. */
static int import_branch(struct hp *p, const struct scope *s, struct hp_inst *i, size_t branch, size_t arg, struct hlo_region *r)
{
    struct hp_comp *c;
    struct hp_inst *o;
    uint32_t n;
    struct hlo_value **v;
    int e = called(p, i, branch, &c);
    if (e || (e = operand(p, s, i, arg, &o)))
        return e;
    if (p->depth >= p->limits->depth) {
        hp_fail(p, i, NF_ELIMIT, "computations nest deeper than %u", p->limits->depth);
        return hlo_limit_hint(p->limits, "max_depth", p->err);
    }
    struct hlo_block *b = hlo_block_new(p->m, r);
    p->depth++;
    e = import_body(p, c, b, (struct params){o->leaves, o->num_leaves}, &n, &v);
    p->depth--;
    if (!e)
        hlo_block_append(b, hlo_op_new(p->m, HLO_OP_RETURN, n, v, 0, NULL, 0));
    return e;
}

static int import_conditional(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    struct hp_inst *o;
    uint32_t n;
    const struct hlo_type **types;
    int e = operand(p, s, i, 0, &o);
    if (e || (e = result_types(p, i, &n, &types)))
        return e;
    if (o->num_leaves != 1 || i->num_called == 0 || i->num_called > UINT16_MAX || i->num_operands != i->num_called + 1)
        return hp_fail(p, i, NF_EGRAPH, "%zu branches, %zu operands", i->num_called, i->num_operands);
    bool two = o->leaves[0]->type->elem == HLO_ELEM_I1;
    if (two && i->num_called != 2)
        return hp_fail(p, i, NF_EGRAPH, "a predicate with %zu branches", i->num_called);
    struct hlo_op *op = hlo_op_new(p->m, two ? HLO_OP_IF : HLO_OP_CASE, 1, o->leaves, n, types, (uint16_t)i->num_called);
    hlo_block_append(b, op);
    for (size_t k = 0; k < i->num_called && !e; k++)
        e = import_branch(p, s, i, k, k + 1, op->regions[k]);
    take_results(p, i, op);
    return e;
}

static int import_while(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    struct hp_comp *body, *cond;
    uint32_t n;
    struct hlo_value **v;
    int e = operand_leaves(p, s, i, 0, &n, &v);
    if (e || (e = called(p, i, 0, &body)) || (e = called(p, i, 1, &cond)))
        return e;
    const struct hlo_type **types = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, n);
    for (uint32_t k = 0; k < n; k++)
        types[k] = v[k]->type;
    struct hlo_op *op = hlo_op_new(p->m, HLO_OP_WHILE, n, v, n, types, 2);
    hlo_block_append(b, op);
    if (!(e = import_region(p, i, cond, op->regions[0], n, types)))
        e = import_region(p, i, body, op->regions[1], n, types);
    take_results(p, i, op);
    return e;
}

/* The function that a called computation becomes, made at its first call. */
static int import_function(struct hp *p, struct hp_comp *c, const char *visibility, struct nf_str name, struct hlo_op **ret);

static int import_call(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    struct hp_comp *c;
    uint32_t n, results;
    struct hlo_value **v;
    const struct hlo_type **types;
    struct hlo_op *func;
    int e = called(p, i, 0, &c);
    if (e || (e = operand_leaves(p, s, i, 0, &n, &v)) || (e = result_types(p, i, &results, &types)))
        return e;
    if (!c->symbol.len) {
        char *name = nf_arena_printf(p->m->arena, "computation_%zu", (size_t)(c - p->comps));
        if (p->depth >= p->limits->depth) {
            hp_fail(p, i, NF_ELIMIT, "calls nest deeper than %u", p->limits->depth);
            return hlo_limit_hint(p->limits, "max_depth", p->err);
        }
        p->depth++;
        e = import_function(p, c, "private", nf_str_c(name), &func);
        p->depth--;
        if (e)
            return e;
    }
    if (!c->symbol.data[0])
        return hp_fail(p, i, NF_EGRAPH, "a computation that calls itself");
    struct nf_str frontend = pb_bytes(i->message, INST_FRONTEND), name = pb_map_value(frontend, "composite.name");
    bool composite = pb_uint(i->message, INST_COMPOSITE, 0) && name.len;
    struct hlo_op *op = hlo_op_new(p->m, composite ? HLO_OP_COMPOSITE : HLO_OP_CALL, n, v, results, types, 0);
    op->pos = (uint32_t)NF_MIN((size_t)(i->message.data - p->bytes.data), (size_t)UINT32_MAX);
    hlo_op_set_attr(op, composite ? HLO_A_decomposition : HLO_A_callee, hlo_attr_symbol(p->m, c->symbol));
    hlo_block_append(b, op);
    take_results(p, i, op);
    if (composite) {
        const struct hlo_attr *dict = NULL;
        struct nf_str spelled = pb_map_value(frontend, "composite.attributes"), number = pb_map_value(frontend, "composite.version");
        struct nf_error ignored = {0};
        int64_t version = 0;
        if (spelled.len && (hlo_parse_attr(p->m, spelled, &dict, &ignored) || dict->kind != HLO_ATTR_DICT))
            return hp_fail(p, i, NF_EGRAPH, "the attributes of a composite are no dictionary");
        if (number.len && nf_str_to_i64(number, &version))
            return hp_fail(p, i, NF_EGRAPH, "the version of a composite is no number");
        hlo_op_set_attr(op, HLO_A_name, hlo_attr_string(p->m, name));
        hlo_op_set_attr(op, HLO_A_composite_attributes, dict);
        hlo_op_set_attr(op, HLO_A_version, hlo_attr_int(p->m, HLO_ELEM_I32, version));
    }
    hp_decorate(p, i, op);
    return 0;
}

/* Index of the first leaf of element `index` of the tuple shape, and how many leaves it has. */
static int tuple_part(struct hp *p, const struct hp_inst *i, struct nf_str shape, uint64_t index, uint32_t *ret_at, uint32_t *ret_n)
{
    struct nf_reader r = nf_reader_of(shape);
    struct pb_field f;
    const struct hlo_type **scratch = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, LEAVES_MAX / 16);
    uint32_t at = 0, n;
    uint64_t k = 0;
    while (pb_next(&r, &f)) {
        if (f.num != SHAPE_TUPLE || f.wire != PB_BYTES)
            continue;
        n = 0;
        int e = hp_shape_leaves(p, i, f.bytes, scratch, LEAVES_MAX / 16, &n);
        if (e)
            return e;
        if (k++ == index) {
            *ret_at = at;
            *ret_n = n;
            return 0;
        }
        at += n;
    }
    return hp_fail(p, i, NF_EGRAPH, "element %llu of a tuple that has %llu", (unsigned long long)index, (unsigned long long)k);
}

static int import_tuple_element(struct hp *p, const struct scope *s, struct hp_inst *i)
{
    struct hp_inst *o;
    uint32_t at, n;
    int e = operand(p, s, i, 0, &o);
    if (e)
        return e;
    uint64_t index = pb_uint(i->message, INST_TUPLE_INDEX, 0);
    if (o->num_leaves && nf_str_eq_c(o->opcode, "while") && index < o->num_leaves && pb_uint(i->shape, SHAPE_ELEMENT, 0) != PRIMITIVE_TUPLE) {
        at = (uint32_t)index; /* loops over flat tuples are the usual case: no need to look at the whole shape */
        n = 1;
        struct nf_reader r = nf_reader_of(o->shape);
        struct pb_field f;
        uint32_t elements = 0;
        while (pb_next(&r, &f))
            elements += f.num == SHAPE_TUPLE;
        if (elements != o->num_leaves && (e = tuple_part(p, i, o->shape, index, &at, &n)))
            return e;
    } else if ((e = tuple_part(p, i, o->shape, index, &at, &n))) {
        return e;
    }
    if (at + n > o->num_leaves)
        return hp_fail(p, i, NF_EGRAPH, "an element of something that is no such tuple");
    i->leaves = o->leaves + at;
    i->num_leaves = n;
    return 0;
}

/* ---- send and recv, asynchronous operations: two instructions each ---- */

/* The instruction whose end i is: its one operand. */
static int ended_by(struct hp *p, const struct scope *s, const struct hp_inst *i, struct hp_inst **ret)
{
    int e = operand(p, s, i, 0, ret);
    if (e)
        return e;
    if (i->num_operands != 1 || !(*ret)->done)
        return hp_fail(p, i, NF_EGRAPH, "the end of nothing that was started");
    if ((*ret)->ended)
        return hp_fail(p, i, NF_EGRAPH, "the second end of %.*s", (int)NF_MIN((*ret)->name.len, 100u), (*ret)->name.data);
    (*ret)->ended = true;
    return 0;
}

static bool same_types(uint32_t n, const struct hlo_type *const *a, uint32_t m, const struct hlo_type *const *b)
{
    bool same = n == m;
    for (uint32_t k = 0; k < n && same; k++)
        same = a[k] == b[k];
    return same;
}

static const struct hlo_type **types_of(struct hp *p, uint32_t n, struct hlo_value *const *v)
{
    const struct hlo_type **types = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, n + 1u);
    for (uint32_t k = 0; k < n; k++)
        types[k] = v[k]->type;
    return types;
}

/* send: (data, u32, token) of data and a token; recv: the same of a token. Data of several arrays is a tuple. */
static int import_transfer(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    bool send = nf_str_eq_c(i->opcode, "send");
    uint32_t n, m, at, data;
    struct hlo_value **v;
    const struct hlo_type **types;
    int e = operand_leaves(p, s, i, 0, &n, &v);
    if (e || (e = result_types(p, i, &m, &types)) || (e = tuple_part(p, i, i->shape, 0, &at, &data)))
        return e;
    const struct hlo_type *token = hlo_type_token(p->m);
    if (i->num_operands != (send ? 2 : 1) || !n || v[n - 1]->type != token)
        return hp_fail(p, i, NF_EGRAPH, "its operands are not %sa token", send ? "data and " : "");
    if (m != data + 2 || types[m - 1] != token || types[m - 2] != hlo_type_tensor(p->m, HLO_ELEM_UI32, 0, NULL) ||
        (send ? !same_types(n - 1, types_of(p, n - 1, v), data, types) : n != 1))
        return hp_fail(p, i, NF_EGRAPH, "its shape is not that of data, a u32 and a token");
    types[data] = token;
    struct hlo_op *op = hlo_op_new(p->m, send ? HLO_OP_SEND : HLO_OP_RECV, n, v, send ? 1 : data + 1, send ? &token : types, 0);
    hlo_block_append(b, op);
    take_results(p, i, op);
    i->op = op;
    i->done = send ? "send-done" : "recv-done";
    return hp_transfer_attributes(p, i, op);
}

/* What ends must have the shape of what `o` began. */
static int gives(struct hp *p, const struct hp_inst *i, const struct hp_inst *o, uint32_t count, const struct hlo_type *const *began)
{
    uint32_t n;
    const struct hlo_type **types;
    int e = result_types(p, i, &n, &types);
    if (!e && !same_types(n, types, count, began))
        e = hp_fail(p, i, NF_EGRAPH, "another shape than what %.*s began", (int)NF_MIN(o->name.len, 100u), o->name.data);
    return e;
}

static int import_transfer_done(struct hp *p, const struct scope *s, struct hp_inst *i)
{
    struct hp_inst *o;
    int e = ended_by(p, s, i, &o);
    if (e || (e = gives(p, i, o, o->num_leaves, types_of(p, o->num_leaves, o->leaves))))
        return e;
    if (pb_uint(i->message, INST_CHANNEL, 0) != pb_uint(o->message, INST_CHANNEL, 0))
        return hp_fail(p, i, NF_EGRAPH, "another channel than that of %.*s", (int)NF_MIN(o->name.len, 100u), o->name.data);
    i->leaves = o->leaves;
    i->num_leaves = o->num_leaves;
    hp_decorate(p, i, o->op);
    return 0;
}

static enum hlo_op_id op_of(struct nf_str opcode)
{
    static const struct {
        const char *opcode;
        enum hlo_op_id id;
    } others[] = {
#define HLO_OP(opcode, id) {opcode, HLO_OP_##id},
#include "pipeline/hlo/hlo_proto_ops.def"
#undef HLO_OP
    };
    for (size_t k = 0; k < NF_ARRAY_LEN(others); k++)
        if (nf_str_eq_c(opcode, others[k].opcode))
            return others[k].id;
    char name[80];
    if (opcode.len > 60 || !nf_format(name, sizeof(name), "stablehlo.%.*s", NF_STR_ARG(opcode)))
        return HLO_OP_UNKNOWN;
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    return hlo_op_find(nf_str_c(name));
}

/* Types of the arguments of a body: elements of operands [0, n) as scalars, `twice`: one after the other again. */
static const struct hlo_type **scalar_args(struct hp *p, uint32_t n, struct hlo_value *const *v, bool interleaved)
{
    const struct hlo_type **types = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, 2 * (size_t)n);
    for (uint32_t k = 0; k < n; k++) {
        const struct hlo_type *t = hlo_type_tensor(p->m, v[k]->type->elem, 0, NULL);
        types[interleaved ? 2 * k : k] = t;
        types[interleaved ? 2 * k + 1 : n + k] = t;
    }
    return types;
}

static int import_bodies(struct hp *p, const struct hp_inst *i, struct hlo_op *op)
{
    struct hlo_value **v = NF_NEW_ARRAY(p->m->arena, struct hlo_value *, op->num_operands);
    struct hp_comp *c;
    uint32_t n = op->num_operands;
    int e;
    for (uint32_t k = 0; k < n; k++) {
        v[k] = op->operands[k].value;
        if (v[k]->type->kind != HLO_TYPE_TENSOR)
            return hp_fail(p, i, NF_EGRAPH, "operand %u is no array", k);
    }
    switch ((int)op->id) {
    case HLO_OP_SORT:
        return (e = called(p, i, 0, &c)) ? e : import_region(p, i, c, op->regions[0], 2 * n, scalar_args(p, n, v, true));
    case HLO_OP_REDUCE:
    case HLO_OP_REDUCE_WINDOW:
        if (n < 2 || n % 2)
            return hp_fail(p, i, NF_EGRAPH, "%u operands", n);
        /* the accumulators have the types of the initial values */
        return (e = called(p, i, 0, &c)) ? e : import_region(p, i, c, op->regions[0], n, scalar_args(p, n / 2, v + n / 2, false));
    case HLO_OP_SCATTER:
        if (n < 3 || n % 2 == 0)
            return hp_fail(p, i, NF_EGRAPH, "%u operands", n);
        return (e = called(p, i, 0, &c)) ? e : import_region(p, i, c, op->regions[0], n - 1, scalar_args(p, n / 2, v, false));
    case HLO_OP_SELECT_AND_SCATTER:
        if (n != 3)
            return hp_fail(p, i, NF_EGRAPH, "%u operands", n);
        for (size_t k = 0; k < 2; k++)
            if ((e = called(p, i, k, &c)) || (e = import_region(p, i, c, op->regions[k], 2, scalar_args(p, 1, v, false))))
                return e;
        return 0;
    case HLO_OP_ALL_REDUCE:
    case HLO_OP_REDUCE_SCATTER:
        if (n < 1)
            return hp_fail(p, i, NF_EGRAPH, "%u operands", n);
        return (e = called(p, i, 0, &c)) ? e : import_region(p, i, c, op->regions[0], 2, scalar_args(p, 1, v, false));
    case HLO_OP_MAP: {
        const struct hlo_type **types = scalar_args(p, n, v, false);
        return (e = called(p, i, 0, &c)) ? e : import_region(p, i, c, op->regions[0], n, types);
    }
    default: return i->num_called && op->id != HLO_OP_CUSTOM_CALL ? hp_fail(p, i, NF_EUNSUPPORTED, "with called computations") : 0;
    }
}

static int import_op(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    enum hlo_op_id id = op_of(i->opcode);
    uint32_t n, results;
    struct hlo_value **v;
    const struct hlo_type **types;
    int e;
    if (id == HLO_OP_UNKNOWN || id == HLO_OP_WHILE || id == HLO_OP_TUPLE || id == HLO_OP_RETURN)
        return hp_fail(p, i, NF_EUNSUPPORTED, "an HLO operation without a StableHLO counterpart");
    if (id == HLO_OP_CUSTOM_CALL && i->num_called)
        return hp_fail(p, i, NF_EUNSUPPORTED, "a custom call with computations");
    if ((e = operand_leaves(p, s, i, 0, &n, &v)) || (e = result_types(p, i, &results, &types)))
        return e;
    const struct hlo_op_info *info = hlo_op_info(id);
    if (id == HLO_OP_RNG && n == 2 && results == 1 && types[0]->kind == HLO_TYPE_TENSOR) { /* HLO has the shape in the result only */
        int64_t rank = types[0]->rank;
        const struct hlo_type *t = hlo_type_tensor(p->m, HLO_ELEM_I64, 1, &rank);
        struct hlo_op *shape = hlo_op_new(p->m, HLO_OP_CONSTANT, 0, NULL, 1, &t, 0);
        hlo_op_set_attr(shape, HLO_A_value, hlo_attr_dense_i64s(p->m, 1, &rank, types[0]->dims));
        hlo_block_append(b, shape);
        struct hlo_value **three = NF_NEW_ARRAY(p->m->arena, struct hlo_value *, 3);
        memcpy(three, v, 2 * sizeof(*v));
        three[n++] = &shape->results[0];
        v = three;
    }
    if ((int)n < info->min_operands || (info->max_operands >= 0 && (int)n > info->max_operands) || (int)results < info->min_results ||
        (info->max_results >= 0 && (int)results > info->max_results))
        return hp_fail(p, i, NF_EGRAPH, "%u operands and %u results", n, results);
    struct hlo_op *op = hlo_op_new(p->m, id, n, v, results, types, info->regions > 0 ? (uint16_t)info->regions : 0);
    op->pos = (uint32_t)NF_MIN((size_t)(i->message.data - p->bytes.data), (size_t)UINT32_MAX);
    hlo_block_append(b, op);
    if ((e = hp_attributes(p, i, op)) || (e = import_bodies(p, i, op)))
        return e;
    take_results(p, i, op);
    hp_decorate(p, i, op);
    return 0;
}

/* async-start has a computation; all-reduce-start, all-gather-start and collective-permute-start say of one operation what it says itself. */
static int import_async_start(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    struct nf_str what = nf_str_n(i->opcode.data, i->opcode.len - strlen("-start"));
    bool generic = nf_str_eq_c(what, "async");
    enum hlo_op_id id = generic ? HLO_OP_CALL : op_of(what);
    uint32_t n, m, at_in = 0, n_in = 0, at = 0, n_out;
    struct hlo_value **v;
    const struct hlo_type **types;
    struct hp_comp *c = NULL;
    if (!generic && id != HLO_OP_ALL_REDUCE && id != HLO_OP_ALL_GATHER && id != HLO_OP_COLLECTIVE_PERMUTE)
        return hp_fail(p, i, NF_EUNSUPPORTED, "an HLO operation without a StableHLO counterpart");
    int e = operand_leaves(p, s, i, 0, &n, &v);
    if (e || (e = result_types(p, i, &m, &types)))
        return e;
    if (!generic && n != 1) /* XLA's importer says the same */
        return hp_fail(p, i, NF_EUNSUPPORTED, "several arrays at once, which are not supported in StableHLO");
    n_out = m;
    if (id != HLO_OP_ALL_REDUCE && ((e = tuple_part(p, i, i->shape, 0, &at_in, &n_in)) || (e = tuple_part(p, i, i->shape, 1, &at, &n_out))))
        return e;
    const struct hlo_type **in = types_of(p, n, v), **out = types + at;
    if ((id != HLO_OP_ALL_REDUCE && !same_types(n, in, n_in, types)) || (!generic && n_out != 1))
        return hp_fail(p, i, NF_EGRAPH, "its shape is not that of operands and results");
    for (uint32_t k = 0; k < n_out; k++)
        if (out[k]->kind != HLO_TYPE_TENSOR)
            return hp_fail(p, i, NF_EUNSUPPORTED, "results that are not arrays, which StableHLO's futures hold");
    if (generic && (e = called(p, i, 0, &c)))
        return e;
    const struct hlo_type *future = hlo_type_future(p->m, n_out, out);
    struct hlo_op *op = hlo_op_new(p->m, HLO_OP_ASYNC_START, n, v, 1, &future, 1), *inner;
    op->pos = (uint32_t)NF_MIN((size_t)(i->message.data - p->bytes.data), (size_t)UINT32_MAX);
    hlo_block_append(b, op);
    if (generic) {
        if ((e = import_region(p, i, c, op->regions[0], n, in)))
            return e;
        inner = op->regions[0]->first->first;
        const struct hlo_op *ret = op->regions[0]->first->last;
        bool one = inner != ret && inner->next == ret && inner->num_results == ret->num_operands;
        for (uint32_t k = 0; one && k < ret->num_operands; k++)
            one = ret->operands[k].value == &inner->results[k];
        if (!one)
            return hp_fail(p, i, NF_EUNSUPPORTED, "a computation of more or less than one operation, which StableHLO's async_start has");
        hp_decorate(p, i, op);
    } else {
        struct hlo_block *body = hlo_block_new(p->m, op->regions[0]);
        hlo_block_add_arg(p->m, body, in[0]);
        inner = hlo_op_new(p->m, id, 1, body->args, 1, out, hlo_op_info(id)->regions > 0 ? (uint16_t)hlo_op_info(id)->regions : 0);
        inner->pos = op->pos;
        hlo_block_append(body, inner);
        if ((e = hp_attributes(p, i, inner)) || (e = import_bodies(p, i, inner)))
            return e;
        hp_decorate(p, i, inner);
        struct hlo_value *result = &inner->results[0];
        hlo_block_append(body, hlo_op_new(p->m, HLO_OP_RETURN, 1, &result, 0, NULL, 0));
    }
    for (uint32_t k = 0; k < inner->num_results; k++)
        if (inner->num_results != n_out || inner->results[k].type != out[k])
            return hp_fail(p, i, NF_EGRAPH, "its shape has other results than its computation");
    take_results(p, i, op);
    i->op = op;
    i->done = nf_arena_printf(p->m->arena, "%.*s-done", NF_STR_ARG(what));
    return 0;
}

static int import_async_done(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b)
{
    struct hp_inst *o;
    int e = ended_by(p, s, i, &o);
    const struct hlo_type *future = e ? NULL : o->leaves[0]->type;
    if (e || (e = gives(p, i, o, future->num_types, future->types)))
        return e;
    struct hlo_op *op = hlo_op_new(p->m, HLO_OP_ASYNC_DONE, 1, o->leaves, future->num_types, future->types, 0);
    hlo_block_append(b, op);
    take_results(p, i, op);
    hp_decorate(p, i, op);
    return 0;
}

static bool ends_in(struct nf_str s, const char *end)
{
    size_t n = strlen(end);
    return s.len > n && s.len < 60 && memcmp(s.data + s.len - n, end, n) == 0;
}

static int import_constant(struct hp *p, struct hp_inst *i, struct hlo_block *b)
{
    uint32_t n;
    const struct hlo_type **types;
    const struct hlo_attr *value;
    int e = result_types(p, i, &n, &types);
    if (e)
        return e;
    if (n != 1 || types[0]->kind != HLO_TYPE_TENSOR)
        return hp_fail(p, i, NF_EUNSUPPORTED, "a constant that is no array");
    if ((e = hp_literal(p, i, types[0], &value)))
        return e;
    struct hlo_op *op = hlo_op_new(p->m, HLO_OP_CONSTANT, 0, NULL, 1, types, 0);
    hlo_op_set_attr(op, HLO_A_value, value);
    hlo_block_append(b, op);
    take_results(p, i, op);
    return 0;
}

/* Where the leaves of each parameter begin among those that the computation is given: they stand in order of the numbers. */
static int parameter_offsets(struct hp *p, struct scope *s)
{
    for (size_t k = 0; k < s->n; k++)
        s->num_params += nf_str_eq_c(s->insts[k].opcode, "parameter");
    s->param_at = NF_NEW_ARRAY(p->m->arena, uint32_t, s->num_params + 1);
    for (size_t k = 0; k < s->n; k++) {
        const struct hp_inst *i = &s->insts[k];
        if (!nf_str_eq_c(i->opcode, "parameter"))
            continue;
        uint64_t number = pb_uint(i->message, INST_PARAMETER, 0);
        uint32_t n = 0;
        const struct hlo_type **types;
        int e = result_types(p, i, &n, &types);
        if (e)
            return e;
        if (number >= s->num_params || s->param_at[number + 1])
            return hp_fail(p, i, NF_EGRAPH, "parameter number %llu of %zu", (unsigned long long)number, s->num_params);
        s->param_at[number + 1] = n;
    }
    uint64_t sum = 0;
    for (size_t k = 1; k <= s->num_params; k++) {
        sum += s->param_at[k];
        if (sum > UINT32_MAX)
            return hp_fail(p, NULL, NF_ELIMIT, "a computation with more than %u parameters", UINT32_MAX);
        s->param_at[k] = (uint32_t)sum;
    }
    return 0;
}

/* parameter K: the leaves of the K-th argument. */
static int import_parameter(struct hp *p, const struct scope *s, struct hp_inst *i, struct params params)
{
    uint64_t number = pb_uint(i->message, INST_PARAMETER, 0);
    uint32_t n = 0, at = s->param_at[number];
    const struct hlo_type **types = NULL;
    int e = result_types(p, i, &n, &types);
    if (e)
        return e;
    if (at > params.n || n > params.n - at)
        return hp_fail(p, i, NF_EGRAPH, "parameter %llu of a computation that is given %u arrays", (unsigned long long)number, params.n);
    i->leaves = NF_NEW_ARRAY(p->m->arena, struct hlo_value *, n + 1u);
    i->num_leaves = n;
    for (uint32_t k = 0; k < n; k++) {
        i->leaves[k] = params.leaves[at + k];
        if (i->leaves[k]->type != types[k])
            return hp_fail(p, i, NF_EGRAPH, "parameter %llu has another type than what it is given", (unsigned long long)number);
    }
    return 0;
}

static int import_inst(struct hp *p, const struct scope *s, struct hp_inst *i, struct hlo_block *b, struct params params)
{
    struct hp_inst *o;
    int e;
    if (p->m->num_ops >= p->limits->ops) {
        hp_fail(p, i, NF_ELIMIT, "more than %u operations", p->limits->ops);
        return hlo_limit_hint(p->limits, "max_ops", p->err);
    }
    if (nf_arena_over(p->m->arena)) {
        hp_fail(p, i, NF_ELIMIT, "the program takes more memory than allowed");
        return hlo_limit_hint(p->limits, "max_graph_memory", p->err);
    }
    if (nf_str_eq_c(i->opcode, "parameter"))
        return import_parameter(p, s, i, params);
    if (nf_str_eq_c(i->opcode, "constant"))
        return import_constant(p, i, b);
    if (nf_str_eq_c(i->opcode, "tuple"))
        return operand_leaves(p, s, i, 0, &i->num_leaves, &i->leaves);
    if (nf_str_eq_c(i->opcode, "get-tuple-element"))
        return import_tuple_element(p, s, i);
    if (nf_str_eq_c(i->opcode, "copy") || nf_str_eq_c(i->opcode, "add-dependency")) {
        if ((e = operand(p, s, i, 0, &o)))
            return e;
        i->leaves = o->leaves;
        i->num_leaves = o->num_leaves;
        return 0;
    }
    if (nf_str_eq_c(i->opcode, "call"))
        return import_call(p, s, i, b);
    if (nf_str_eq_c(i->opcode, "while"))
        return import_while(p, s, i, b);
    if (nf_str_eq_c(i->opcode, "conditional"))
        return import_conditional(p, s, i, b);
    if (nf_str_eq_c(i->opcode, "send") || nf_str_eq_c(i->opcode, "recv"))
        return import_transfer(p, s, i, b);
    if (nf_str_eq_c(i->opcode, "send-done") || nf_str_eq_c(i->opcode, "recv-done"))
        return import_transfer_done(p, s, i);
    if (ends_in(i->opcode, "-start"))
        return import_async_start(p, s, i, b);
    if (ends_in(i->opcode, "-done"))
        return import_async_done(p, s, i, b);
    return import_op(p, s, i, b);
}

static int import_body(struct hp *p, const struct hp_comp *c, struct hlo_block *b, struct params params, uint32_t *ret_n, struct hlo_value ***ret)
{
    struct scope s;
    int e = read_insts(p, c, &s);
    if (!e)
        e = parameter_offsets(p, &s);
    for (size_t k = 0; k < s.n && !e; k++) {
        /* tuples without elements have no leaves, but are defined */
        e = import_inst(p, &s, &s.insts[k], b, params);
        if (!e && !s.insts[k].leaves)
            s.insts[k].leaves = NF_NEW_ARRAY(p->m->arena, struct hlo_value *, 1);
    }
    if (e)
        return e;
    for (size_t k = 0; k < s.n; k++)
        if (s.insts[k].done && !s.insts[k].ended)
            return hp_fail(p, &s.insts[k], NF_EGRAPH, "no %s ends it", s.insts[k].done);
    struct hp_inst *root = inst_of(&s, c->root);
    if (root && root->done)
        return hp_fail(p, root, NF_EGRAPH, "the root, which only %s may read", root->done);
    if (!root)
        return hp_fail(p, NULL, NF_EGRAPH, "computation %.*s has no root", (int)NF_MIN(c->name.len, 100u), c->name.data);
    *ret_n = root->num_leaves;
    *ret = root->leaves;
    return 0;
}

/* ---- functions ---- */

/* Leaves of all parameters of a computation, in order of their numbers; with the instruction of each. */
static int parameters(struct hp *p, const struct scope *s, uint32_t *ret_n, const struct hlo_type ***ret_types, const struct hp_inst ***ret_insts)
{
    size_t count = 0;
    for (size_t k = 0; k < s->n; k++)
        count += nf_str_eq_c(s->insts[k].opcode, "parameter");
    const struct hp_inst **order = NF_NEW_ARRAY(p->m->arena, const struct hp_inst *, count);
    for (size_t k = 0; k < s->n; k++) {
        const struct hp_inst *i = &s->insts[k];
        if (!nf_str_eq_c(i->opcode, "parameter"))
            continue;
        uint64_t number = pb_uint(i->message, INST_PARAMETER, 0);
        if (number >= count || order[number])
            return hp_fail(p, i, NF_EGRAPH, "parameter number %llu of %zu", (unsigned long long)number, count);
        order[number] = i;
    }
    uint32_t cap = 0, n = 0;
    const struct hlo_type **all = NULL;
    const struct hp_inst **insts = NULL;
    for (size_t k = 0; k < count; k++) {
        uint32_t m;
        const struct hlo_type **types;
        int e = result_types(p, order[k], &m, &types);
        if (e)
            return e;
        if (n + m > cap) {
            cap = NF_MAX(2 * cap, n + m);
            const struct hlo_type **grown = NF_NEW_ARRAY(p->m->arena, const struct hlo_type *, cap);
            const struct hp_inst **grown_insts = NF_NEW_ARRAY(p->m->arena, const struct hp_inst *, cap);
            if (n) {
                memcpy(grown, all, n * sizeof(*all));
                memcpy(grown_insts, insts, n * sizeof(*insts));
            }
            all = grown;
            insts = grown_insts;
        }
        for (uint32_t j = 0; j < m; j++) {
            all[n] = types[j];
            insts[n++] = order[k];
        }
    }
    *ret_n = n;
    *ret_types = all;
    *ret_insts = insts;
    return 0;
}

/* tf.aliasing_output and jax.buffer_donor of parameter k, from the module's alias and donor tables (flat parameters only). */
static size_t donations(struct hp *p, uint32_t k, struct hlo_named out[1])
{
    struct nf_str alias = pb_bytes(p->bytes, MODULE_ALIAS), donors = pb_bytes(p->bytes, MODULE_DONORS);
    struct nf_reader r = nf_reader_of(alias);
    struct pb_field f;
    size_t n;
    while (pb_next(&r, &f)) {
        if (f.num != 1 || f.wire != PB_BYTES || pb_uint(f.bytes, 2, 0) != k)
            continue;
        int64_t *index = hp_ints(p, f.bytes, 1, &n);
        out[0] = (struct hlo_named){NF_STR("tf.aliasing_output"), hlo_attr_int(p->m, HLO_ELEM_I32, n ? index[0] : 0)};
        return 1;
    }
    r = nf_reader_of(donors);
    while (pb_next(&r, &f))
        if (f.num == 1 && f.wire == PB_BYTES && pb_uint(f.bytes, 1, 0) == k) {
            out[0] = (struct hlo_named){NF_STR("jax.buffer_donor"), hlo_attr_bool(p->m, true)};
            return 1;
        }
    return 0;
}

/* What is said of arguments: of the entry's their names and donations, of any their shardings. */
static void argument_attributes(struct hp *p, struct hlo_op *func, bool entry, uint32_t n, const struct hp_inst *const *insts)
{
    const struct hlo_attr **args = NF_NEW_ARRAY(p->m->arena, const struct hlo_attr *, n);
    bool any = entry;
    for (uint32_t k = 0; k < n; k++) {
        struct hlo_named v[4];
        size_t m = 0;
        if (entry) {
            v[m++] = (struct hlo_named){NF_STR("neffd.name"), hlo_attr_string(p->m, insts[k]->name)};
            m += donations(p, k, &v[m]);
        }
        if ((k == 0 || insts[k] != insts[k - 1]) && (k + 1 == n || insts[k] != insts[k + 1])) /* a tuple's is not its elements' */
            m += hp_decoration(p, insts[k], &v[m]);
        any = any || m;
        args[k] = hlo_attr_dict(p->m, m, v);
    }
    if (any)
        hlo_op_set_attr(func, HLO_A_arg_attrs, hlo_attr_array(p->m, n, args));
}

/* Names of the entry's results, and their shardings. */
static void result_names(struct hp *p, const struct hp_comp *c, struct hlo_op *func, uint32_t results)
{
    struct scope s;
    if (read_insts(p, c, &s))
        return;
    struct hp_inst *root = inst_of(&s, c->root);
    bool tuple = root && nf_str_eq_c(root->opcode, "tuple");
    if (!root || (tuple ? root->num_operands != results : results != 1))
        return;
    const struct hlo_attr **res = NF_NEW_ARRAY(p->m->arena, const struct hlo_attr *, results);
    struct nf_str *shardings = NF_NEW_ARRAY(p->m->arena, struct nf_str, results);
    if (!tuple || !results || hp_tuple_shardings(pb_bytes(root->message, INST_SHARDING), results, shardings) != results)
        shardings = NULL;
    for (uint32_t k = 0; k < results; k++) {
        struct hp_inst *o = tuple ? inst_of(&s, root->operands[k]) : root;
        struct hlo_named v[2] = {{NF_STR("neffd.name"), hlo_attr_string(p->m, o ? o->name : NF_STR(""))}};
        if (shardings)
            v[1] = (struct hlo_named){NF_STR("mhlo.sharding"), hlo_attr_string(p->m, shardings[k])};
        res[k] = hlo_attr_dict(p->m, shardings ? 2 : 1, v);
    }
    hlo_op_set_attr(func, HLO_A_res_attrs, hlo_attr_array(p->m, results, res));
}

static int import_function(struct hp *p, struct hp_comp *c, const char *visibility, struct nf_str name, struct hlo_op **ret)
{
    struct hlo_module *m = p->m;
    struct scope s;
    uint32_t n = 0, results = 0;
    const struct hlo_type **types = NULL;
    const struct hp_inst **insts = NULL;
    struct hlo_value **v = NULL;
    c->symbol = nf_str_n("\0", 1); /* being made: a call to it from inside is a circle */
    int e = read_insts(p, c, &s);
    if (e || (e = parameters(p, &s, &n, &types, &insts)))
        return e;
    struct hlo_op *func = hlo_op_new(m, HLO_OP_FUNC, 0, NULL, 0, NULL, 1);
    struct hlo_block *b = hlo_block_new(m, func->regions[0]);
    for (uint32_t k = 0; k < n; k++)
        hlo_block_add_arg(m, b, types[k]);
    if ((e = import_body(p, c, b, (struct params){b->args, n}, &results, &v)))
        return e;
    hlo_block_append(b, hlo_op_new(m, HLO_OP_FUNC_RETURN, results, v, 0, NULL, 0));
    const struct hlo_type **out = NF_NEW_ARRAY(m->arena, const struct hlo_type *, results);
    for (uint32_t k = 0; k < results; k++)
        out[k] = v[k]->type;
    hlo_op_set_attr(func, HLO_A_sym_name, hlo_attr_string(m, name));
    hlo_op_set_attr(func, HLO_A_function_type, hlo_attr_type(m, hlo_type_function(m, n, types, results, out)));
    hlo_op_set_attr(func, HLO_A_sym_visibility, hlo_attr_string(m, nf_str_c(visibility)));
    argument_attributes(p, func, c->id == p->entry, n, insts);
    if (c->id == p->entry)
        result_names(p, c, func, results);
    hlo_block_append(hlo_module_block(m), func);
    c->symbol = name;
    *ret = func;
    return 0;
}

int hlo_proto_read(struct nf_str bytes, const struct hlo_limits *limits, struct nf_arena *arena, struct hlo_module **ret_module,
                   struct nf_error *err)
{
    struct hp p = {.limits = limits ? limits : &hlo_limits_default, .err = err, .bytes = bytes};
    struct hlo_op *func;
    if (bytes.len > p.limits->input_bytes)
        return nf_fail(err, NF_ELIMIT, "input of %zu bytes, more than %zu", bytes.len, p.limits->input_bytes);
    p.m = hlo_module_new(arena);
    p.m->source = HLO_SOURCE_BYTES;
    p.m->text = bytes;
    int e = read_computations(&p);
    if (e)
        return e;
    struct hp_comp *entry = comp_of(&p, p.entry);
    if (!entry)
        return hp_fail(&p, NULL, NF_EGRAPH, "the entry computation %lld is missing", (long long)p.entry);
    if ((e = import_function(&p, entry, "public", NF_STR("main"), &func)))
        return e;
    struct nf_str name = pb_bytes(bytes, MODULE_NAME);
    if (name.len)
        hlo_op_set_attr(p.m->op, HLO_A_sym_name, hlo_attr_string(p.m, name));
    hp_devices(&p);
    hlo_module_symbols_changed(p.m);
    *ret_module = p.m;
    return 0;
}
