/* verify_collective.c: operations that talk to other devices. */
#include "pipeline/hlo/verify_internal.h"

#define FAIL(...) return hlo__verify_fail(v, op, __VA_ARGS__)

static const struct hlo_type *operand(const struct hlo_op *op, uint32_t i) { return op->operands[i].value->type; }
static bool known(int64_t d) { return d != HLO_DYNAMIC; }

/* group_size: of each group, 0 when it is not known (mesh axes). A group shorter than the others is filled with -1 where that is
 * allowed. */
static int check_groups(struct hlo_verifier *v, const struct hlo_op *op, bool may_pad, bool all_seen, int64_t *ret_group_size)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_replica_groups), *ch = hlo_op_attr(op, HLO_A_channel_handle);
    bool global = hlo_op_slot((enum hlo_op_id)op->id, HLO_A_use_global_device_ids) >= 0 && hlo_op_bool(op, HLO_A_use_global_device_ids, false);
    *ret_group_size = 0;
    if (a->kind == HLO_ATTR_MESH_AXES) {
        const struct hlo_attr *mesh = a->mesh_axes.mesh;
        if (mesh->kind == HLO_ATTR_SYMBOL) {
            bool found = hlo_module_func(v->m, mesh->str) != NULL;
            HLO_FOR_OPS(f, hlo_module_block(v->m))
                found |= nf_str_eq(hlo_op_string(f, HLO_A_sym_name), mesh->str) && mesh->str.len;
            if (!found)
                FAIL("replica_groups: mesh symbol '%.*s' not found", (int)NF_MIN(mesh->str.len, (size_t)80), mesh->str.data);
        }
        return 0;
    }
    const struct hlo_type *t = a->type;
    uint64_t n;
    if (t->rank != 2)
        FAIL("replica groups should be a rank 2 tensor, but got '%s'", hlo__type_text(v, t));
    if (global && (!ch || ch->channel.handle <= 0)) {
        if (!ch)
            FAIL("channel_id cannot be negative when useGlobalDeviceIds is set");
        FAIL("channel_id must be positive when useGlobalDeviceIds is set but got: %lld", (long long)ch->channel.handle);
    }
    if (!hlo_type_count(t, &n))
        FAIL("replica groups are too many");
    uint8_t *seen = nf_arena_alloc(v->scratch, (size_t)n + 1);
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t id = hlo_attr_dense_int_at(a, i);
        if (id == -1 && may_pad)
            continue;
        if (id < 0)
            FAIL("Invalid replica id %lld", (long long)id);
        count++;
        if ((uint64_t)id >= n)
            continue;
        if (seen[id])
            FAIL("replica id #%lld seen more than once", (long long)id);
        seen[id] = 1;
    }
    for (size_t i = 0; all_seen && i < count; i++)
        if (!seen[i])
            FAIL("replica id #%zu not seen in replica groups", i);
    if (global && may_pad)
        for (size_t i = 0; i < n; i++)
            if (hlo_attr_dense_int_at(a, i) < 0)
                FAIL("Invalid replica id -1 when useGlobalDeviceIds is set");
    *ret_group_size = t->dims[1];
    return 0;
}

int hlo_v_all_gather(struct hlo_verifier *v, const struct hlo_op *op)
{
    int64_t dim = hlo_op_i64(op, HLO_A_all_gather_dim, 0), group;
    int rc = check_groups(v, op, false, true, &group);
    if (rc)
        return rc;
    if (op->num_operands != op->num_results)
        FAIL("requires the same number of operands and results, but has %u and %u", op->num_operands, op->num_results);
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_type *t = operand(op, i), *r = op->results[i].type;
        if (!hlo__elem_compatible(t, r, true))
            FAIL("requires the same element type for operand and result at index %u: '%s' and '%s'", i, hlo__type_text(v, t), hlo__type_text(v, r));
        if (t->rank != r->rank)
            FAIL("operand and result must have the same rank: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
        if (dim < 0 || dim >= t->rank)
            FAIL("all_gather_dim must be a valid index of operand, but is %lld for '%s'", (long long)dim, hlo__type_text(v, t));
        for (uint32_t k = 0; k < t->rank; k++)
            if (k != dim && known(t->dims[k]) && known(r->dims[k]) && t->dims[k] != r->dims[k])
                FAIL("operand and result should have the same shape except for the dimension size at 'all_gather_dim': '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
        int64_t a = t->dims[dim], b = r->dims[dim];
        if (a == 0)
            FAIL("dimension size of operand at 'all_gather_dim' cannot be zero");
        if (!known(a) || !known(b))
            continue;
        if (b % a)
            FAIL("result gather dimension has size %lld, expected to be a multiple of operand gather dimension size %lld", (long long)b, (long long)a);
    }
    return 0;
}

static int check_computation(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *t, const struct hlo_type **ret_elem)
{
    const struct hlo_type *scalar[1] = {hlo_type_with_shape(v->m, t, 0, NULL)};
    return hlo__check_reducer(v, op, 0, 1, scalar, scalar, 0, NULL, ret_elem);
}

/* One computation for all operands: the elements of each result are what it returns. */
static int infer_reduced(struct hlo_verifier *v, const struct hlo_op *op, uint32_t n, const struct hlo_type **ret)
{
    for (uint32_t i = 0; i < n && i < op->num_results; i++) {
        const struct hlo_type *elem, *t = operand(op, i);
        int rc = check_computation(v, op, t, &elem);
        if (rc)
            return rc;
        struct hlo_type k = *t;
        k.elem = elem->elem;
        k.quant = elem->quant;
        k.text = elem->text;
        ret[i] = hlo_type_intern(v->m, &k);
    }
    if (op->num_results != n)
        FAIL("inferred %u results, but the operation has %u", n, op->num_results);
    return 0;
}

int hlo_i_all_reduce(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    int64_t group;
    if (op->num_operands == 0)
        FAIL("expected 1 or more operands, but found 0");
    int rc = check_groups(v, op, true, true, &group);
    return rc ? rc : infer_reduced(v, op, op->num_operands, ret);
}

int hlo_v_all_reduce(struct hlo_verifier *v, const struct hlo_op *op)
{
    for (uint32_t i = 0; i < op->num_operands; i++)
        if (!hlo__dims_compatible(operand(op, i), op->results[i].type))
            FAIL("requires the same shape for operand and result at index %u", i);
    return 0;
}

int hlo_v_reduce_scatter(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_type *t = operand(op, 0), *r = op->results[0].type, *elem;
    int64_t d = hlo_op_i64(op, HLO_A_scatter_dimension, 0), group;
    if (d < 0)
        FAIL("attribute 'scatter_dimension' must be non-negative, but got %lld", (long long)d);
    int rc = check_groups(v, op, false, true, &group);
    if (rc || (rc = check_computation(v, op, t, &elem)))
        return rc;
    if (t->rank != r->rank)
        FAIL("operand and result should have same rank: '%s' and '%s'", hlo__type_text(v, t), hlo__type_text(v, r));
    if (d >= t->rank)
        FAIL("scatter dim should be less than operand/result rank, but is %lld for '%s'", (long long)d, hlo__type_text(v, t));
    if (r->dims[d] == 0)
        FAIL("result dimension size at scatter_dimension cannot be zero");
    if (t->dims[d] == 0)
        FAIL("operand dimension size at scatter_dimension cannot be zero");
    if (known(t->dims[d]) && known(r->dims[d])) {
        if (t->dims[d] % r->dims[d])
            FAIL("operand scatter dimension has size %lld, expected to be a multiple of result scatter dimension size %lld", (long long)t->dims[d], (long long)r->dims[d]);
    }
    for (uint32_t i = 0; i < t->rank; i++)
        if (i != d && known(t->dims[i]) && known(r->dims[i]) && t->dims[i] != r->dims[i])
            FAIL("non scatter dimensions should be same for operand (%lld) and result (%lld)", (long long)t->dims[i], (long long)r->dims[i]);
    if (!hlo__elem_compatible(elem, r, true))
        FAIL("result element-type is expected to be '%s', but got '%s'", hlo__type_text(v, elem), hlo__type_text(v, r));
    return 0;
}

int hlo_i_all_to_all(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    int64_t split = hlo_op_i64(op, HLO_A_split_dimension, 0), concat = hlo_op_i64(op, HLO_A_concat_dimension, 0), count = hlo_op_i64(op, HLO_A_split_count, 0), group;
    if (op->num_operands != op->num_results)
        FAIL("requires the same number of operands and results, but has %u and %u", op->num_operands, op->num_results);
    if (split < 0)
        FAIL("attribute 'split_dimension' must be non-negative, but got %lld", (long long)split);
    if (concat < 0)
        FAIL("attribute 'concat_dimension' must be non-negative, but got %lld", (long long)concat);
    if (count <= 0)
        FAIL("attribute 'split_count' must be positive, but got %lld", (long long)count);
    int rc = check_groups(v, op, false, true, &group);
    if (rc)
        return rc;
    if (group && group != count)
        FAIL("group size of replica_groups must be %lld, but is %lld", (long long)count, (long long)group);
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_type *t = operand(op, i);
        if (split >= t->rank)
            FAIL("AllToAll split_dimension %lld is out-of-bounds for input rank %u", (long long)split, t->rank);
        if (concat >= t->rank)
            FAIL("AllToAll concat_dimension %lld is out-of-bounds for input rank %u", (long long)concat, t->rank);
        int64_t *d = nf_arena_alloc_array(v->scratch, (size_t)t->rank + 1, sizeof *d);
        memcpy(d, t->dims, t->rank * sizeof *d);
        if (known(d[split])) {
            if (d[split] % count)
                FAIL("split dimension has size %lld, expected to be a multiple of split_count %lld", (long long)d[split], (long long)count);
            d[split] /= count;
        }
        if (known(d[concat]) && __builtin_mul_overflow(d[concat], count, &d[concat]))
            FAIL("concat dimension becomes too large");
        struct hlo_type k = *t;
        k.dims = d;
        k.bounds = NULL;
        ret[i] = hlo_type_intern(v->m, &k);
    }
    return 0;
}

int hlo_v_all_to_all(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (op->num_operands == 0)
        FAIL("expected 1 or more operands, but found 0");
    return 0;
}

int hlo_v_collective_permute(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_source_target_pairs);
    const struct hlo_type *t = a->type;
    uint64_t n;
    if (t->rank != 2)
        FAIL("expect source_target_pairs attribute to be of rank 2, but got rank %u", t->rank);
    if (t->dims[1] != 2)
        FAIL("expect source_target_pairs attribute of shape (N, 2), but got '%s'", hlo__type_text(v, t));
    if (!hlo_type_count(t, &n) || n > 1u << 20)
        FAIL("source_target_pairs are too many");
    for (size_t i = 0; i < n; i++) {
        int64_t id = hlo_attr_dense_int_at(a, i);
        if (id < 0)
            FAIL("replica ids in source_target_pairs must be >= 0, but got %lld", (long long)id);
        for (size_t k = i % 2; k < i && n <= 8192; k += 2)
            if (hlo_attr_dense_int_at(a, k) == id)
                FAIL("duplicate %s not allowed: %lld", i % 2 ? "targets" : "sources", (long long)id);
    }
    return 0;
}

/* With a dynamic root the last operand says which device it is. */
static int check_root(struct hlo_verifier *v, const struct hlo_op *op, const char *name, uint32_t *ret_data)
{
    bool root = hlo_op_bool(op, HLO_A_has_dynamic_root, false);
    *ret_data = op->num_operands - root;
    if (root && op->num_operands < 2)
        FAIL("%s with has_dynamic_root=true requires at least two operands (data + root)", name);
    if (op->num_operands == 0)
        FAIL("%s requires at least one data operand", name);
    if (!root)
        return 0;
    const struct hlo_type *t = operand(op, op->num_operands - 1);
    if (t->rank != 1 || t->elem != HLO_ELEM_I32)
        FAIL("last operand of %s with has_dynamic_root=true must be a rank-1 i32 tensor, but got '%s'", name, hlo__type_text(v, t));
    if (known(t->dims[0]) && t->dims[0] != *ret_data)
        FAIL("last operand of %s with has_dynamic_root=true must have the same number of elements as data operands (%u), but got %lld", name, *ret_data, (long long)t->dims[0]);
    return 0;
}

int hlo_i_collective_broadcast(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    uint32_t n;
    int rc = check_root(v, op, "collective_broadcast", &n);
    if (rc)
        return rc;
    if (op->num_results != n)
        FAIL("inferred %u results, but the operation has %u", n, op->num_results);
    for (uint32_t i = 0; i < n; i++)
        ret[i] = operand(op, i);
    return 0;
}

int hlo_v_collective_broadcast(struct hlo_verifier *v, const struct hlo_op *op)
{
    int64_t group;
    return check_groups(v, op, false, false, &group);
}

int hlo_i_collective_reduce(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret)
{
    uint32_t n;
    int rc = check_root(v, op, "collective_reduce", &n);
    return rc ? rc : infer_reduced(v, op, n, ret);
}

int hlo_v_collective_reduce(struct hlo_verifier *v, const struct hlo_op *op)
{
    int64_t group;
    return check_groups(v, op, false, false, &group);
}

int hlo_v_cross_replica_sum(struct hlo_verifier *v, const struct hlo_op *op)
{
    int64_t group;
    return check_groups(v, op, true, true, &group);
}
