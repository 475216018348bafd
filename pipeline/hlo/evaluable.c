/* What the evaluator has no function for, said before it runs; without the evaluator itself, so that a compiler can ask. */
#include "pipeline/hlo/hlo.h"

static bool has_function(const struct hlo_op *op)
{
    static const char *const functions[HLO_OP_MAX] = {
#define OP(id, dialect, mnemonic, operands, results, regions, tier, traits, form, verify, infer, eval, attributes) [HLO_OP_##id] = #eval,
#include "pipeline/hlo/hlo_ops.def"
#undef OP
    };
    static const char *const targets[] = {
#define TARGET(name, function) name,
#include "pipeline/hlo/eval_targets.def"
#undef TARGET
    };
    if (op->id == HLO_OP_CUSTOM_CALL) {
        for (size_t i = 0; i < NF_ARRAY_LEN(targets); i++)
            if (nf_str_eq_c(hlo_op_string(op, HLO_A_call_target_name), targets[i]))
                return true;
        return false;
    }
    bool structure = op->id == HLO_OP_FUNC || op->id == HLO_OP_SDY_MESH || (hlo_op_info((enum hlo_op_id)op->id)->traits & HLO_T_TERMINATOR);
    return structure || strcmp(functions[op->id], "NONE") != 0;
}

bool hlo_call_passes(const struct hlo_op *op)
{
    static const struct {
        const char *name, *function;
    } targets[] = {
#define TARGET(name, function) {name, #function},
#include "pipeline/hlo/eval_targets.def"
#undef TARGET
    };
    if (op->id != HLO_OP_CUSTOM_CALL || op->num_operands != op->num_results)
        return false;
    for (uint32_t i = 0; i < op->num_results; i++)
        if (op->operands[i].value->type != op->results[i].type)
            return false;
    for (size_t i = 0; i < NF_ARRAY_LEN(targets); i++)
        if (strcmp(targets[i].function, "target_pass") == 0 && nf_str_eq_c(hlo_op_string(op, HLO_A_call_target_name), targets[i].name))
            return true;
    return false;
}

int hlo_evaluable(const struct hlo_module *m, struct nf_error *err)
{
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (has_function(op))
            continue;
        char where[160];
        struct nf_str name = op->id == HLO_OP_CUSTOM_CALL ? hlo_op_string(op, HLO_A_call_target_name) : hlo_op_name(op);
        nf_fail(err, NF_EUNSUPPORTED, "%s%.*s has no implementation for cpu", op->id == HLO_OP_CUSTOM_CALL ? "custom call @" : "", (int)NF_MIN(name.len, (size_t)200), name.data);
        nf_error_location(err, "%s", hlo_op_where(m, op, where, sizeof(where)));
        return NF_EUNSUPPORTED;
    }
    return NF_OK;
}
