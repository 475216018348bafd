/* ops.c: the operation table as data, and finding rows by name. */
#include "pipeline/hlo/ops.h"

#include "pipeline/hlo/verify_internal.h"

#define REQ true
#define OPT false
#define NONE NULL
#define A(name, kind, required, absent) {#name, HLO_A_##name, HLO_AK_##kind, required, absent},

/* One array of attribute rows for each operation; the last entry only keeps empty ones legal. */
#define OP(id, dialect, mnemonic, operands, results, regions, tier, traits, form, verify, infer, eval, attributes)                \
    static const struct hlo_attr_spec attrs_##id[] = {attributes{NULL, HLO_A_MAX, HLO_AK_MAX, false, NULL}};
#define HLO_T_NO 0
#define T1(a) HLO_T_##a
#define T2(a, b) HLO_T_##a | HLO_T_##b
#define T3(a, b, c) HLO_T_##a | HLO_T_##b | HLO_T_##c
#define T4(a, b, c, d) HLO_T_##a | HLO_T_##b | HLO_T_##c | HLO_T_##d
#define T5(a, b, c, d, e) HLO_T_##a | HLO_T_##b | HLO_T_##c | HLO_T_##d | HLO_T_##e
#include "pipeline/hlo/hlo_ops.def"
#undef OP

#define NAME_STABLEHLO "stablehlo."
#define NAME_CHLO "chlo."
#define NAME_FUNC "func."
#define NAME_BUILTIN "builtin."
#define NAME_SDY "sdy."
#define NAME_CHECK "check."
#define NAME_INTERPRETER "interpreter."
#define NAME_ARITH "arith."
#define NAME_UNKNOWN ""
#define NAME_TENSOR "tensor."
#define NAME_TEST "hlo_test_broadcast."

struct hlo_op_info hlo__op_infos[HLO_OP_MAX] = {
#define OP(op, dialect_, mnemonic_, operands_, results_, regions_, tier_, traits_, form_, verify_, infer_, eval, attributes)      \
    [HLO_OP_##op] = {                                                                                                      \
        .dialect = HLO_DIALECT_##dialect_,                                                                                 \
        .name = NAME_##dialect_ mnemonic_,                                                                                 \
        .mnemonic = mnemonic_,                                                                                             \
        .operands = operands_,                                                                                             \
        .results = results_,                                                                                               \
        .regions = regions_,                                                                                               \
        .traits = traits_,                                                                                                 \
        .form = HLO_FORM_##form_,                                                                                          \
        .verify = verify_,                                                                                                 \
        .infer = infer_,                                                                                                   \
        .attrs = attrs_##op,                                                                                               \
        .num_attrs = (int)(sizeof(attrs_##op) / sizeof(attrs_##op[0])) - 1,                                                \
        .tier = tier_,                                                                                                     \
    },
#include "pipeline/hlo/hlo_ops.def"
#undef OP
};

static const char *const attr_names[HLO_A_MAX] = {
#define ATTR(name) [HLO_A_##name] = #name,
#include "pipeline/hlo/hlo_attrs.def"
#undef ATTR
};

static const char *const dialect_names[HLO_DIALECT_MAX] = {
    [HLO_DIALECT_UNKNOWN] = "unknown", [HLO_DIALECT_BUILTIN] = "builtin",   [HLO_DIALECT_FUNC] = "func",
    [HLO_DIALECT_STABLEHLO] = "stablehlo", [HLO_DIALECT_CHLO] = "chlo",     [HLO_DIALECT_SDY] = "sdy",
    [HLO_DIALECT_CHECK] = "check",     [HLO_DIALECT_INTERPRETER] = "interpreter", [HLO_DIALECT_ARITH] = "arith",
    [HLO_DIALECT_TENSOR] = "tensor",   [HLO_DIALECT_TEST] = "hlo_test_broadcast",
};

/* Perfect enough: open addressing over all names, filled once. slots[op][attr] is the slot + 1. */
#define TABLE_SIZE 1024
static uint16_t by_name[TABLE_SIZE];
static uint8_t name_lens[HLO_OP_MAX];
static uint8_t slots[HLO_OP_MAX][HLO_A_MAX];

static uint32_t name_hash(const char *s, size_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15u, w;
    for (; len >= 8; len -= 8, s += 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, s, len);
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h ^ (h >> 32));
}

static void signature_bounds(const char *sig, int *ret_min, int *ret_max)
{
    int min = 0, max = 0;
    for (; *sig; sig++) {
        if (sig[1] == '*') {
            max = -1;
            sig++;
        } else if (sig[1] == '?') {
            max = max < 0 ? max : max + 1;
            sig++;
        } else {
            min++;
            max = max < 0 ? max : max + 1;
        }
    }
    *ret_min = min;
    *ret_max = max;
}

/* Before main: what is derived from the table's text is constant for every thread. */
__attribute__((constructor)) static void fill(void)
{
    for (int i = 0; i < HLO_OP_MAX; i++) {
        struct hlo_op_info *info = &hlo__op_infos[i];
        signature_bounds(info->operands, &info->min_operands, &info->max_operands);
        signature_bounds(info->results, &info->min_results, &info->max_results);
        for (int a = 0; a < info->num_attrs; a++)
            slots[i][info->attrs[a].id] = (uint8_t)(a + 1);
        if (i == HLO_OP_UNKNOWN)
            continue;
        name_lens[i] = (uint8_t)strlen(info->name);
        uint32_t h = name_hash(info->name, name_lens[i]) % TABLE_SIZE;
        while (by_name[h])
            h = (h + 1) % TABLE_SIZE;
        by_name[h] = (uint16_t)i;
    }
}

enum hlo_op_id hlo_op_find(struct nf_str name)
{
    for (uint32_t h = name_hash(name.data, name.len) % TABLE_SIZE; by_name[h]; h = (h + 1) % TABLE_SIZE)
        if (name.len == name_lens[by_name[h]] && memcmp(name.data, hlo__op_infos[by_name[h]].name, name.len) == 0)
            return (enum hlo_op_id)by_name[h];
    return HLO_OP_UNKNOWN;
}

int hlo_op_slot(enum hlo_op_id id, enum hlo_attr_name name) { return (int)slots[id][name] - 1; }

int hlo_op_slot_by_name(enum hlo_op_id id, struct nf_str name)
{
    for (int i = 0; i < hlo__op_infos[id].num_attrs; i++)
        if (nf_str_eq_c(name, hlo__op_infos[id].attrs[i].name))
            return i;
    return -1;
}

const char *hlo_attr_name_text(enum hlo_attr_name name) { return attr_names[name]; }

const char *hlo_dialect_name(enum hlo_dialect d) { return dialect_names[d]; }
