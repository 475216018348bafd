/* verify_call.c: module, functions, calls, tuples, tokens, futures, custom calls, composites; check and interpreter operations. */
#include "pipeline/hlo/verify_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)

static const struct hlo_type *operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value->type; }

int hlo_v_module(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (!op->regions[0]->first)
        FAIL("must have a block");
    HLO_FOR_OPS(f, op->regions[0]->first) {
        struct nf_str name = hlo_op_string(f, HLO_A_sym_name);
        if (f->id != HLO_OP_FUNC || !name.data || op != v->m->op)
            continue;
        const struct hlo_op *first = hlo_module_func(v->m, name);
        if (first && first != f)
            return hlo__verify_fail(v, f, "redefinition of symbol named '%.*s'", (int)NF_MIN(name.len, (size_t)100), name.data);
    }
    return 0;
}

int hlo_v_func(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = hlo_func_type(op);
    const struct hlo_block *b = hlo_func_block(op);
    const struct hlo_attr *in = hlo_op_attr(op, HLO_A_arg_attrs), *out = hlo_op_attr(op, HLO_A_res_attrs);
    struct nf_str vis = hlo_op_string(op, HLO_A_sym_visibility);
    if (t->kind != HLO_TYPE_FUNCTION)
        FAIL("function_type must be a function type, but got '%s'", hlo__type_text(v, t));
    if (vis.data && !nf_str_eq_c(vis, "public") && !nf_str_eq_c(vis, "private") && !nf_str_eq_c(vis, "nested"))
        FAIL("visibility must be public, private or nested");
    if (!b) {
        if (!nf_str_eq_c(vis, "private") && !nf_str_eq_c(vis, "nested"))
            FAIL("symbol declaration cannot have public visibility");
        return 0;
    }
    if (b->next)
        FAIL("functions of several blocks are not StableHLO");
    if (b->num_args != t->num_inputs)
        FAIL("entry block must have %u arguments to match function signature, but has %u", t->num_inputs, b->num_args);
    for (uint32_t i = 0; i < b->num_args; i++)
        if (b->args[i]->type != t->types[i])
            FAIL("type of entry block argument #%u('%s') must match the type of the corresponding argument in function signature('%s')", i, hlo__type_text(v, b->args[i]->type),
                 hlo__type_text(v, t->types[i]));
    if ((in && in->array.n != t->num_inputs) || (out && out->array.n != t->num_types - t->num_inputs))
        FAIL("has lists of argument or result attributes that do not match its type");
    if (!b->last || !(hlo_op_info((enum hlo_op_id)b->last->id)->traits & HLO_T_TERMINATOR || b->last->id == HLO_OP_UNKNOWN))
        FAIL("block must end with a terminator");
    return 0;
}

int hlo_v_func_return(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_op *f = hlo_op_parent(op);
    if (!f || f->id != HLO_OP_FUNC)
        FAIL("expects parent op 'func.func'");
    const struct hlo_type *t = hlo_func_type(f);
    if (!t || t->kind != HLO_TYPE_FUNCTION)
        return 0;
    uint32_t n = t->num_types - t->num_inputs;
    if (op->num_operands != n)
        FAIL("has %u operands, but enclosing function (@%.*s) returns %u", op->num_operands, (int)NF_MIN(hlo_func_name(f).len, (size_t)80), hlo_func_name(f).data, n);
    for (uint32_t i = 0; i < n; i++)
        if (operand(op, i) != t->types[t->num_inputs + i])
            FAIL("type of return operand %u ('%s') doesn't match function result type ('%s')", i, hlo__type_text(v, operand(op, i)), hlo__type_text(v, t->types[t->num_inputs + i]));
    return 0;
}

int hlo_v_call(struct hlo_verifier *v, const struct hlo_op *op)
{
    struct nf_str name = hlo_op_string(op, HLO_A_callee);
    const struct hlo_op *f = hlo_module_func(v->m, name);
    if (!f)
        FAIL("'%.*s' does not reference a valid function", (int)NF_MIN(name.len, (size_t)100), name.data);
    const struct hlo_type *t = hlo_func_type(f);
    if (!t || t->kind != HLO_TYPE_FUNCTION)
        FAIL("callee has no function type");
    uint32_t results = t->num_types - t->num_inputs;
    if (op->num_operands != t->num_inputs)
        FAIL("incorrect number of operands for callee: %u, expected %u", op->num_operands, t->num_inputs);
    if (op->num_results != results)
        FAIL("incorrect number of results for callee: %u, expected %u", op->num_results, results);
    for (uint32_t i = 0; i < t->num_inputs; i++)
        if (operand(op, i) != t->types[i])
            FAIL("operand type mismatch: expected operand type '%s', but provided '%s' for operand number %u", hlo__type_text(v, t->types[i]), hlo__type_text(v, operand(op, i)), i);
    for (uint32_t i = 0; i < results; i++)
        if (op->results[i].type != t->types[t->num_inputs + i])
            FAIL("result type mismatch at index %u: expected '%s', but got '%s'", i, hlo__type_text(v, t->types[t->num_inputs + i]), hlo__type_text(v, op->results[i].type));
    return 0;
}

/* ---- tuples, tokens, futures ---- */

int hlo_i_tuple(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type **types = nf_arena_alloc_array(v->scratch, (size_t)op->num_operands + 1, sizeof *types);
    for (uint32_t i = 0; i < op->num_operands; i++)
        types[i] = operand(op, i);
    ret[0] = hlo_type_tuple(v->m, op->num_operands, types);
    return 0;
}

int hlo_i_get_tuple_element(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    int64_t i = hlo_op_i64(op, HLO_A_index, 0);
    if (i < 0)
        FAIL("attribute 'index' must be non-negative, but got %lld", (long long)i);
    if (i >= t->num_types)
        FAIL("index %lld is out of bounds of operand with size %u", (long long)i, t->num_types);
    ret[0] = t->types[i];
    return 0;
}

int hlo_i_token(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    (void)op;
    ret[0] = hlo_type_token(v->m);
    return 0;
}

int hlo_i_ui32(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    (void)op;
    ret[0] = hlo_type_tensor(v->m, HLO_ELEM_UI32, 0, NULL);
    return 0;
}

int hlo_i_async_start(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_block *b = op->regions[0]->first;
    const struct hlo_op *r = b->last;
    if (!b->first || b->first == b->last || b->first->next != b->last)
        FAIL("region must contain exactly one operation and a return");
    if (b->num_args != op->num_operands)
        FAIL("number of operands (%u) must match number of region arguments (%u)", op->num_operands, b->num_args);
    for (uint32_t i = 0; i < b->num_args; i++)
        if (b->args[i]->type != operand(op, i))
            FAIL("operand type '%s' at index %u must match region argument type '%s'", hlo__type_text(v, operand(op, i)), i, hlo__type_text(v, b->args[i]->type));
    const struct hlo_type **types = nf_arena_alloc_array(v->scratch, (size_t)r->num_operands + 1, sizeof *types);
    for (uint32_t i = 0; i < r->num_operands; i++)
        types[i] = operand(r, i);
    ret[0] = hlo_type_future(v->m, r->num_operands, types);
    return 0;
}

int hlo_v_async_start(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_op *inner = op->regions[0]->first->first;
    switch (inner->id) {
    case HLO_OP_ALL_REDUCE:
    case HLO_OP_ALL_GATHER:
    case HLO_OP_ALL_TO_ALL:
    case HLO_OP_COLLECTIVE_PERMUTE:
    case HLO_OP_COLLECTIVE_BROADCAST:
    case HLO_OP_COLLECTIVE_REDUCE:
    case HLO_OP_REDUCE_SCATTER:
    case HLO_OP_SLICE:
    case HLO_OP_DYNAMIC_SLICE:
    case HLO_OP_DYNAMIC_UPDATE_SLICE:
    case HLO_OP_CUSTOM_CALL:
    case HLO_OP_CALL:
    case HLO_OP_SEND:
    case HLO_OP_RECV:
        return 0;
    default:
        FAIL("cannot run '%.*s' asynchronously", (int)NF_MIN(hlo_op_name(inner).len, (size_t)80), hlo_op_name(inner).data);
    }
}

int hlo_i_async_done(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    const struct hlo_type *t = operand(op, 0);
    if (t->num_types != op->num_results)
        FAIL("a future of %u values has %u results", t->num_types, op->num_results);
    for (uint32_t i = 0; i < t->num_types; i++)
        ret[i] = t->types[i];
    return 0;
}

/* ---- custom_call ---- */

static int check_layouts(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_attr *layouts, uint32_t n, const struct hlo_type *const *types, const char *what)
{
    if (layouts->array.n != n)
        FAIL("Number of %ss must match the number of %s layouts, %u != %zu", what, what, n, layouts->array.n);
    for (uint32_t i = 0; i < n; i++) {
        const struct hlo_attr *l = layouts->array.v[i];
        const struct hlo_type *t = types[i];
        size_t size = (size_t)l->type->dims[0], want = t->kind <= HLO_TYPE_MEMREF ? t->rank : 0;
        if (t->kind == HLO_TYPE_TUPLE)
            FAIL("Tuple types are not fully supported with layout constraints yet");
        if (t->kind == HLO_TYPE_UNRANKED)
            continue;
        bool ok = size == want && size <= 64;
        uint64_t seen = 0;
        for (size_t k = 0; ok && k < size; k++) {
            int64_t d = hlo_attr_dense_int_at(l, k);
            ok = d >= 0 && d < (int64_t)size && !(seen >> d & 1);
            if (ok)
                seen |= (uint64_t)1 << d;
        }
        if (!ok)
            FAIL("incorrect layout of %s #%u for type '%s', layout must be a permutation of [0, %zu)", what, i, hlo__type_text(v, t), want);
    }
    return 0;
}

/* The part of t that a path of indices names; NULL if it leads nowhere. */
static const struct hlo_type *part_of(const struct hlo_type *t, struct hlo_ints path, size_t from)
{
    for (size_t i = from; i < path.n; i++) {
        if (t->kind != HLO_TYPE_TUPLE || path.v[i] < 0 || path.v[i] >= t->num_types)
            return NULL;
        t = t->types[path.v[i]];
    }
    return t;
}

static bool same_ints(struct hlo_ints a, struct hlo_ints b) { return a.n == b.n && (a.n == 0 || memcmp(a.v, b.v, a.n * sizeof *a.v) == 0); }

static int check_aliases(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *list = hlo_op_attr(op, HLO_A_output_operand_aliases);
    for (size_t i = 0; list && i < list->array.n; i++) {
        const struct hlo_alias *a = list->array.v[i]->alias;
        if (a->operand_index < 0 || a->operand_index >= op->num_operands)
            FAIL("expects operandIndex in the output_operand_alias attribute to be in range [0, %u); got: %lld", op->num_operands, (long long)a->operand_index);
        const struct hlo_type *in = part_of(operand(op, (uint32_t)a->operand_index), a->operand_tuple_indices, 0), *out = NULL;
        if (!in)
            FAIL("operand_tuple_indices in the output_operand_alias attribute out of bounds: %s", hlo__ints_text(v, a->operand_tuple_indices));
        if (op->num_results == 1 && (op->results[0].type->kind == HLO_TYPE_TUPLE || a->output_tuple_indices.n == 0))
            out = part_of(op->results[0].type, a->output_tuple_indices, 0);
        else if (a->output_tuple_indices.n && a->output_tuple_indices.v[0] >= 0 && a->output_tuple_indices.v[0] < op->num_results)
            out = part_of(op->results[a->output_tuple_indices.v[0]].type, a->output_tuple_indices, 1);
        if (!out)
            FAIL("output_tuple_indices in the output_operand_alias attribute out of bounds: %s", hlo__ints_text(v, a->output_tuple_indices));
        if (in != out)
            FAIL("shapes mismatch in the output_operand_alias attribute: operand part has type '%s' and output part has type '%s'", hlo__type_text(v, in), hlo__type_text(v, out));
        /* a buffer is given away once, and taken once */
        for (size_t k = 0; k < i; k++) {
            const struct hlo_alias *b = list->array.v[k]->alias;
            if (in->kind == HLO_TYPE_MEMREF && a->operand_index == b->operand_index && same_ints(a->operand_tuple_indices, b->operand_tuple_indices))
                FAIL("buffer operand %lld%s is used in output_operand_alias more than once", (long long)a->operand_index, hlo__ints_text(v, a->operand_tuple_indices));
            if (out->kind == HLO_TYPE_MEMREF && same_ints(a->output_tuple_indices, b->output_tuple_indices))
                FAIL("buffer output %s is used in output_operand_alias more than once", hlo__ints_text(v, a->output_tuple_indices));
        }
    }
    return 0;
}

/* Every buffer that comes out must be one that came in. */
static int check_buffers_aliased(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *t, int64_t *path, size_t depth)
{
    if (t->kind == HLO_TYPE_TUPLE && depth < 32) {
        for (uint32_t i = 0; i < t->num_types; i++) {
            path[depth] = i;
            int rc = check_buffers_aliased(v, op, t->types[i], path, depth + 1);
            if (rc)
                return rc;
        }
        return 0;
    }
    if (t->kind != HLO_TYPE_MEMREF)
        return 0;
    const struct hlo_attr *list = hlo_op_attr(op, HLO_A_output_operand_aliases);
    struct hlo_ints want = {depth, path};
    for (size_t i = 0; list && i < list->array.n; i++)
        if (same_ints(list->array.v[i]->alias->output_tuple_indices, want))
            return 0;
    FAIL("buffer output %s is not used in output_operand_alias", hlo__ints_text(v, want));
}

int hlo_v_custom_call(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *ol = hlo_op_attr(op, HLO_A_operand_layouts), *rl = hlo_op_attr(op, HLO_A_result_layouts), *config = hlo_op_attr(op, HLO_A_backend_config);
    int64_t api = hlo_op_i64(op, HLO_A_api_version, 1);
    struct nf_str target = hlo_op_string(op, HLO_A_call_target_name);
    int rc;
    if (!hlo_enum_name(HLO_ENUM_CUSTOM_CALL_API, api))
        FAIL("api_version must be one of 0 to 4, but got %lld", (long long)api);
    if ((ol != NULL) != (rl != NULL))
        FAIL("Layout attributes should be specified for either both operands and results or none");
    if (ol) {
        const struct hlo_type **types = nf_arena_alloc_array(v->scratch, (size_t)op->num_operands + op->num_results + 1, sizeof *types);
        for (uint32_t i = 0; i < op->num_operands; i++)
            types[i] = operand(op, i);
        if ((rc = check_layouts(v, op, ol, op->num_operands, types, "operand")))
            return rc;
        for (uint32_t i = 0; i < op->num_results; i++)
            types[i] = op->results[i].type;
        if (op->num_results == 1 && types[0]->kind == HLO_TYPE_TUPLE) {
            if ((rc = check_layouts(v, op, rl, types[0]->num_types, types[0]->types, "result")))
                return rc;
        } else if ((rc = check_layouts(v, op, rl, op->num_results, types, "result"))) {
            return rc;
        }
    }
    if (config && api == 4 && config->kind != HLO_ATTR_DICT)
        FAIL("backend_config for api_version API_VERSION_TYPED_FFI must be a dictionary attribute");
    if (config && api != 4 && config->kind != HLO_ATTR_STRING)
        FAIL("backend_config for api_version %s must be a string attribute", hlo_enum_name(HLO_ENUM_CUSTOM_CALL_API, api));
    if ((rc = check_aliases(v, op)))
        return rc;
    const struct hlo_type *in = op->num_operands ? operand(op, 0) : NULL, *out = op->num_results ? op->results[0].type : NULL;
    bool create = nf_str_eq_c(target, "CreateBuffer"), pin = nf_str_eq_c(target, "Pin"), unpin = nf_str_eq_c(target, "Unpin");
    if (create) {
        if (op->num_operands)
            FAIL("CreateBuffer custom_call shouldn't have any inputs");
        if (op->num_results != 1 || out->kind != HLO_TYPE_MEMREF)
            FAIL("CreateBuffer custom_call should have one memref output");
        return 0;
    }
    if (pin) {
        if (op->num_operands != 1 || in->kind != HLO_TYPE_TENSOR)
            FAIL("Pin custom_call should have one tensor input");
        if (op->num_results != 1 || out->kind != HLO_TYPE_MEMREF)
            FAIL("Pin custom_call should have a memref output");
        if (in->elem != out->elem || !hlo__dims_compatible(in, out))
            FAIL("Pin custom_call should have compatible input and output types: '%s' and '%s'", hlo__type_text(v, in), hlo__type_text(v, out));
        return 0;
    }
    if (unpin) {
        if (op->num_operands != 1 || in->kind != HLO_TYPE_MEMREF)
            FAIL("Unpin custom_call should have one memref input");
        if (op->num_results != 1 || out->kind != HLO_TYPE_TENSOR)
            FAIL("Unpin custom_call should have one tensor output");
        if (in->elem != out->elem || !hlo__dims_compatible(in, out))
            FAIL("Unpin custom_call should have compatible input and output types: '%s' and '%s'", hlo__type_text(v, in), hlo__type_text(v, out));
        return 0;
    }
    int64_t path[40];
    for (uint32_t i = 0; i < op->num_results; i++) {
        path[0] = i;
        bool lone = op->num_results == 1;
        if ((rc = check_buffers_aliased(v, op, op->results[i].type, path, lone ? 0 : 1)))
            return rc;
    }
    return 0;
}

/* ---- composite ---- */

/* namespace '.' name, each part of letters, digits, '_' and '$', parts joined by dots, beginning with a letter */
static bool composite_name(struct nf_str s)
{
    const char *dot = s.len ? memchr(s.data, '.', s.len) : NULL;
    if (!dot || dot == s.data || dot == s.data + s.len - 1)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
        if (i == 0 ? !letter : !(letter || digit || c == '_' || c == '$' || c == '.'))
            return false;
    }
    return s.data[s.len - 1] != '.';
}

int hlo_v_composite(struct hlo_verifier *v, const struct hlo_op *op)
{
    struct nf_str name = hlo_op_string(op, HLO_A_name), callee = hlo_op_string(op, HLO_A_decomposition);
    if (!composite_name(name))
        FAIL("name must be a valid namespaced op name, but is '%.*s'", (int)NF_MIN(name.len, (size_t)80), name.data);
    const struct hlo_op *f = hlo_module_func(v->m, callee);
    if (!f)
        FAIL("'%.*s' does not reference a valid function", (int)NF_MIN(callee.len, (size_t)100), callee.data);
    const struct hlo_type *t = hlo_func_type(f);
    uint32_t results = t && t->kind == HLO_TYPE_FUNCTION ? t->num_types - t->num_inputs : 0;
    if (!t || t->kind != HLO_TYPE_FUNCTION)
        FAIL("decomposition has no function type");
    if (t->num_inputs != op->num_operands)
        FAIL("has %u operand(s), but decomposition has %u", op->num_operands, t->num_inputs);
    if (results != op->num_results)
        FAIL("has %u result(s), but decomposition has %u", op->num_results, results);
    for (uint32_t i = 0; i < op->num_operands; i++)
        if (operand(op, i) != t->types[i])
            FAIL("operand at index %u has type '%s', but decomposition has type '%s'", i, hlo__type_text(v, operand(op, i)), hlo__type_text(v, t->types[i]));
    for (uint32_t i = 0; i < results; i++)
        if (op->results[i].type != t->types[t->num_inputs + i])
            FAIL("result at index %u has type '%s', but decomposition has type '%s'", i, hlo__type_text(v, op->results[i].type), hlo__type_text(v, t->types[t->num_inputs + i]));
    return 0;
}

/* ---- host ---- */

static int check_token_last(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (op->num_results == 0)
        FAIL("result is expected to be at least of size 1, but got 0");
    for (uint32_t i = 0; i + 1 < op->num_results; i++)
        if (op->results[i].type->kind != HLO_TYPE_TENSOR)
            FAIL("all elements of result types, except the last element, are expected to be of tensor type, but got '%s'", hlo__type_text(v, op->results[i].type));
    const struct hlo_type *last = op->results[op->num_results - 1].type;
    if (last->kind != HLO_TYPE_TOKEN)
        FAIL("last element of result types is expected to be of token type, but got '%s'", hlo__type_text(v, last));
    return 0;
}

int hlo_v_infeed(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *layout = hlo_op_attr(op, HLO_A_layout);
    int rc = check_token_last(v, op);
    if (rc || !layout)
        return rc;
    if (layout->array.n != op->num_results - 1)
        FAIL("layout-attribute size must be %u (which is the number of op-results - 1 (for token result)), but got %zu", op->num_results - 1, layout->array.n);
    for (size_t i = 0; i < layout->array.n; i++) {
        const struct hlo_attr *l = layout->array.v[i];
        if (l->kind != HLO_ATTR_ARRAY)
            FAIL("layout-attribute expected to have elements of type array, but element %zu is none", i);
        for (size_t k = 0; k < l->array.n; k++)
            if (l->array.v[k]->kind != HLO_ATTR_INT)
                FAIL("layout-attribute's leaf elements are expected to be of type integer, but element %zu is none", k);
    }
    return 0;
}

int hlo_v_outfeed(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (op->num_operands == 0 || operand(op, op->num_operands - 1)->kind != HLO_TYPE_TOKEN)
        FAIL("last operand must be a token");
    for (uint32_t i = 0; i + 1 < op->num_operands; i++)
        if (operand(op, i)->kind != HLO_TYPE_TENSOR)
            FAIL("operand #%u must be a ranked tensor, but got '%s'", i, hlo__type_text(v, operand(op, i)));
    return 0;
}

static int check_host_channel(struct hlo_verifier *v, const struct hlo_op *op, int64_t host_type, const char *host_name)
{
    const struct hlo_channel c = hlo_op_attr(op, HLO_A_channel_handle)->channel;
    bool host = hlo_op_bool(op, HLO_A_is_host_transfer, false);
    if (host && c.type != host_type)
        FAIL("channel_type should be %s when is_host_transfer is true, but got %lld", host_name, (long long)c.type);
    if (!host && c.type != 1)
        FAIL("channel_type should be DEVICE_TO_DEVICE when is_host_transfer is false, but got %lld", (long long)c.type);
    return 0;
}

int hlo_v_send(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (op->num_operands == 0 || operand(op, op->num_operands - 1)->kind != HLO_TYPE_TOKEN)
        FAIL("last operand must be a token");
    return check_host_channel(v, op, 2, "DEVICE_TO_HOST");
}

int hlo_v_recv(struct hlo_verifier *v, const struct hlo_op *op)
{
    int rc = check_host_channel(v, op, 3, "HOST_TO_DEVICE");
    return rc ? rc : check_token_last(v, op);
}

/* ---- check, interpreter ---- */

int hlo_v_check(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_value);
    const struct hlo_type *t = operand(op, 0), *other = a ? a->type : op->num_operands > 1 ? operand(op, 1) : NULL;
    if (other && !hlo__type_compatible(t, other))
        FAIL("requires the same type for what is compared: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, other));
    bool almost = op->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ || op->id == HLO_OP_CHECK_EXPECT_ALMOST_EQ_CONST || op->id == HLO_OP_CHECK_EXPECT_CLOSE;
    enum hlo_elem_class c = hlo_elem_class(t->elem);
    if (almost && c != HLO_CLASS_FLOAT && c != HLO_CLASS_COMPLEX)
        FAIL("compares floats or complex numbers, but got '%s'", hlo__type_text(v, t));
    return 0;
}

int hlo_v_run_parallel(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *programs = hlo_op_attr(op, HLO_A_programs), *infeed = hlo_op_attr(op, HLO_A_infeed);
    if (programs->array.n == 0)
        FAIL("`programs` attribute cannot be empty");
    if (programs->array.v[0]->kind != HLO_ATTR_ARRAY || programs->array.v[0]->array.n == 0)
        FAIL("`programs` attribute must be a list of lists of functions");
    size_t columns = programs->array.v[0]->array.n;
    uint64_t inputs = 0, results = 0;
    for (size_t r = 0; r < programs->array.n; r++) {
        const struct hlo_attr *row = programs->array.v[r];
        if (row->kind != HLO_ATTR_ARRAY)
            FAIL("`programs` attribute must be a list of lists of functions");
        if (row->array.n != columns)
            FAIL("Sizes of second dimension of `programs` should all match %zu but got %zu", columns, row->array.n);
    }
    for (size_t r = 0; r < programs->array.n; r++)
        for (size_t c = 0; c < columns; c++) {
            const struct hlo_attr *s = programs->array.v[r]->array.v[c];
            const struct hlo_op *f = s->kind == HLO_ATTR_SYMBOL ? hlo_module_func(v->m, s->str) : NULL;
            if (!f || !hlo_func_type(f))
                FAIL("Function \"%.*s\" not found", s->kind == HLO_ATTR_SYMBOL ? (int)NF_MIN(s->str.len, (size_t)80) : 1, s->kind == HLO_ATTR_SYMBOL ? s->str.data : "?");
            inputs += hlo_func_type(f)->num_inputs;
            results += hlo_func_type(f)->num_types - hlo_func_type(f)->num_inputs;
        }
    if (inputs != op->num_operands)
        FAIL("Number of inputs (%u) should match the sum of the number of inputs of all programs (%llu)", op->num_operands, (unsigned long long)inputs);
    if (results != op->num_results)
        FAIL("Number of results (%u) should match the sum of the number of results of all programs (%llu)", op->num_results, (unsigned long long)results);
    if (!infeed)
        return 0;
    if (infeed->array.n == 0)
        FAIL("infeed attribute is optional or should not be empty");
    for (size_t i = 0; i < infeed->array.n; i++) {
        struct nf_str name = infeed->array.v[i]->str;
        const struct hlo_op *f = hlo_module_func(v->m, name);
        const struct hlo_type *t = f ? hlo_func_type(f) : NULL;
        if (!t)
            FAIL("Function \"%.*s\" not found", (int)NF_MIN(name.len, (size_t)80), name.data);
        if (t->num_types - t->num_inputs != 1)
            FAIL("Function \"%.*s\" should return 1 tensor but returns %u", (int)NF_MIN(name.len, (size_t)80), name.data, t->num_types - t->num_inputs);
        if (t->types[t->num_inputs]->kind != HLO_TYPE_TENSOR)
            FAIL("Function \"%.*s\" should return a tensor type, but instead returns '%s'", (int)NF_MIN(name.len, (size_t)80), name.data, hlo__type_text(v, t->types[t->num_inputs]));
    }
    return 0;
}
