/* What HLO protobuf says of several devices only by the way: Shardy's meshes (a frontend attribute of the module), manual
 * computations (a pair of custom calls around a call), and how many replicas or partitions run (not said at all: the groups of the
 * collectives tell). */
#include "pipeline/hlo/hlo_proto_internal.h"

#include <stdlib.h>

/* "{mesh = #sdy.mesh<["d"=4]>, other = ...}": one sdy.mesh each, in front of the functions. */
static void add_meshes(struct hp *p)
{
    struct nf_str text = pb_map_value(pb_bytes(p->bytes, MODULE_FRONTEND), "xla.sdy.meshes");
    const struct hlo_attr *dict;
    struct nf_error ignored = {0};
    if (!text.len || hlo_parse_attr(p->m, text, &dict, &ignored) || dict->kind != HLO_ATTR_DICT)
        return;
    struct hlo_block *b = hlo_module_block(p->m);
    struct hlo_op *first = b->first;
    for (size_t i = 0; i < dict->dict.n; i++) {
        struct hlo_op *mesh = hlo_op_new(p->m, HLO_OP_SDY_MESH, 0, NULL, 0, NULL, 0);
        hlo_op_set_attr(mesh, HLO_A_sym_name, hlo_attr_string(p->m, dict->dict.v[i].name));
        hlo_op_set_attr(mesh, HLO_A_mesh, dict->dict.v[i].attr);
        hlo_block_insert(b, first, mesh);
    }
}

static bool is_call_of(const struct hlo_op *op, const char *target)
{
    return op && op->id == HLO_OP_CUSTOM_CALL && nf_str_eq_c(hlo_op_string(op, HLO_A_call_target_name), target);
}

static const struct hlo_attr *frontend(const struct hlo_op *op, const char *key)
{
    const struct hlo_attr *dict = hlo_op_discardable(op, NF_STR("mhlo.frontend_attributes"));
    return dict && dict->kind == HLO_ATTR_DICT ? hlo_named_find(dict->dict.v, dict->dict.n, nf_str_c(key)) : NULL;
}

static bool feeds(const struct hlo_op *from, const struct hlo_op *to)
{
    if (from->num_results != to->num_operands)
        return false;
    for (uint32_t i = 0; i < to->num_operands; i++)
        if (to->operands[i].value != &from->results[i])
            return false;
    return true;
}

/* GlobalToLocalShape, call, LocalToGlobalShape -> sdy.manual_computation that calls. */
static void join_manual(struct hp *p, struct hlo_op *in, struct hlo_op *call, struct hlo_op *out)
{
    struct hlo_module *m = p->m;
    const struct hlo_attr *axes = frontend(in, "xla.sdy.manual_axes"), *ins = frontend(in, "xla.sdy.in_shardings"), *outs = frontend(out, "xla.sdy.out_shardings");
    const struct hlo_attr *parsed[3];
    struct nf_error ignored = {0};
    if (!axes || !ins || !outs || hlo_parse_attr(m, ins->str, &parsed[0], &ignored) || hlo_parse_attr(m, outs->str, &parsed[1], &ignored) ||
        hlo_parse_attr(m, axes->str, &parsed[2], &ignored))
        return;
    struct hlo_value **operands = NF_NEW_ARRAY(m->arena, struct hlo_value *, in->num_operands), **results = NF_NEW_ARRAY(m->arena, struct hlo_value *, out->num_results);
    const struct hlo_type **types = NF_NEW_ARRAY(m->arena, const struct hlo_type *, out->num_results);
    for (uint32_t i = 0; i < in->num_operands; i++)
        operands[i] = in->operands[i].value;
    for (uint32_t i = 0; i < out->num_results; i++)
        types[i] = out->results[i].type;
    struct hlo_op *manual = hlo_op_new(m, HLO_OP_SDY_MANUAL_COMPUTATION, in->num_operands, operands, out->num_results, types, 1);
    hlo_op_set_attr(manual, HLO_A_in_shardings, parsed[0]);
    hlo_op_set_attr(manual, HLO_A_out_shardings, parsed[1]);
    hlo_op_set_attr(manual, HLO_A_manual_axes, parsed[2]);
    hlo_block_insert(call->block, in, manual);
    struct hlo_block *b = hlo_block_new(m, manual->regions[0]);
    for (uint32_t i = 0; i < in->num_results; i++)
        hlo_value_replace(&in->results[i], hlo_block_add_arg(m, b, in->results[i].type));
    hlo_op_move(call, b, NULL);
    struct hlo_value **local = NF_NEW_ARRAY(m->arena, struct hlo_value *, out->num_operands);
    for (uint32_t i = 0; i < out->num_operands; i++)
        local[i] = out->operands[i].value;
    hlo_block_append(b, hlo_op_new(m, HLO_OP_SDY_RETURN, out->num_operands, local, 0, NULL, 0));
    for (uint32_t i = 0; i < out->num_results; i++)
        results[i] = &manual->results[i];
    hlo_op_replace(out, results);
    hlo_op_erase(in);
}

/* Largest id in the lists of a collective, -1 without one. */
static int64_t last_id(const struct hlo_op *op)
{
    const struct hlo_attr *a = hlo_op_slot((enum hlo_op_id)op->id, HLO_A_replica_groups) >= 0 ? hlo_op_attr(op, HLO_A_replica_groups) : NULL;
    uint64_t n;
    int64_t last = -1;
    if (op->id == HLO_OP_COLLECTIVE_PERMUTE || op->id == HLO_OP_SEND || op->id == HLO_OP_RECV)
        a = hlo_op_attr(op, HLO_A_source_target_pairs);
    if (!a || a->kind != HLO_ATTR_DENSE || !hlo_type_count(a->type, &n))
        return -1;
    for (uint64_t i = 0; i < n; i++)
        last = NF_MAX(last, hlo_attr_dense_int_at(a, (size_t)i));
    return last;
}

void hp_devices(struct hp *p)
{
    int64_t replicas = 0, partitions = 0;
    struct hlo_walk w = hlo_walk_of(p->m->op);
    struct hlo_op *op;
    add_meshes(p);
    const struct hlo_attr *more = hp_frontend(p, pb_bytes(p->bytes, MODULE_FRONTEND), NF_STR("xla.sdy.meshes"));
    if (more)
        hlo_op_set_named(p->m, p->m->op, NF_STR("mhlo.frontend_attributes"), more);
    HLO_FOR_BLOCKS(mb, p->m->op->regions[0])
        HLO_FOR_OPS(func, mb)
        {
            struct hlo_block *b = func->id == HLO_OP_FUNC ? hlo_func_block(func) : NULL;
            for (struct hlo_op *in = b ? b->first : NULL, *next; in; in = next) {
                next = in->next;
                struct hlo_op *call = next, *out = call ? call->next : NULL;
                if (is_call_of(in, "xla.sdy.GlobalToLocalShape") && call && call->id == HLO_OP_CALL && is_call_of(out, "xla.sdy.LocalToGlobalShape") &&
                    feeds(in, call) && feeds(call, out)) {
                    next = out->next;
                    join_manual(p, in, call, out);
                }
            }
        }
    w = hlo_walk_of(p->m->op);
    while ((op = hlo_walk_next(&w))) {
        int64_t last = last_id(op);
        if (last < 1 || last > 1 << 20)
            continue;
        bool across_partitions = hlo_op_slot((enum hlo_op_id)op->id, HLO_A_channel_handle) >= 0 && hlo_op_attr(op, HLO_A_channel_handle);
        int64_t *count = across_partitions ? &partitions : &replicas;
        *count = NF_MAX(*count, last + 1);
    }
    if (replicas)
        hlo_op_set_named(p->m, p->m->op, NF_STR("mhlo.num_replicas"), hlo_attr_int(p->m, HLO_ELEM_I32, replicas));
    if (partitions)
        hlo_op_set_named(p->m, p->m->op, NF_STR("mhlo.num_partitions"), hlo_attr_int(p->m, HLO_ELEM_I32, partitions));
}
