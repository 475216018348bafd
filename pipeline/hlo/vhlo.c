#include "pipeline/hlo/vhlo.h"

#include <stdlib.h>

struct row {
    enum hlo_op_id op;
    unsigned version, since_major, since_minor, until_major, until_minor;
    const char *lacks;
};
static const struct row rows[] = {
#define VHLO(op, version, smaj, smin, umaj, umin, lacks) {HLO_OP_##op, version, smaj, smin, umaj, umin, lacks},
#include "pipeline/hlo/vhlo_ops.def"
#undef VHLO
};

/* Pieces of structures. PART(kind of slot, part, name) */
static const struct {
    enum hlo_attr_spec_kind kind;
    enum vhlo_part part;
    const char *name;
} parts[] = {
    {HLO_AK_DOT, VHLO_DOT_LHS_BATCHING, "lhs_batching_dimensions"},
    {HLO_AK_DOT, VHLO_DOT_RHS_BATCHING, "rhs_batching_dimensions"},
    {HLO_AK_DOT, VHLO_DOT_LHS_CONTRACTING, "lhs_contracting_dimensions"},
    {HLO_AK_DOT, VHLO_DOT_RHS_CONTRACTING, "rhs_contracting_dimensions"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_ACCUMULATION, "accumulation_type"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_IMPRECISE, "allow_imprecise_accumulation"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_LHS_COUNT, "lhs_component_count"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_LHS_PRECISION, "lhs_precision_type"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_PRIMITIVE, "num_primitive_operations"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_RHS_COUNT, "rhs_component_count"},
    {HLO_AK_DOT_ALGORITHM, VHLO_ALGO_RHS_PRECISION, "rhs_precision_type"},
    {HLO_AK_CONV, VHLO_CONV_INPUT_BATCH, "input_batch_dimension"},
    {HLO_AK_CONV, VHLO_CONV_INPUT_FEATURE, "input_feature_dimension"},
    {HLO_AK_CONV, VHLO_CONV_INPUT_SPATIAL, "input_spatial_dimensions"},
    {HLO_AK_CONV, VHLO_CONV_KERNEL_INPUT, "kernel_input_feature_dimension"},
    {HLO_AK_CONV, VHLO_CONV_KERNEL_OUTPUT, "kernel_output_feature_dimension"},
    {HLO_AK_CONV, VHLO_CONV_KERNEL_SPATIAL, "kernel_spatial_dimensions"},
    {HLO_AK_CONV, VHLO_CONV_OUTPUT_BATCH, "output_batch_dimension"},
    {HLO_AK_CONV, VHLO_CONV_OUTPUT_FEATURE, "output_feature_dimension"},
    {HLO_AK_CONV, VHLO_CONV_OUTPUT_SPATIAL, "output_spatial_dimensions"},
    {HLO_AK_GATHER, VHLO_GATHER_OFFSET, "offset_dims"},
    {HLO_AK_GATHER, VHLO_GATHER_COLLAPSED, "collapsed_slice_dims"},
    {HLO_AK_GATHER, VHLO_GATHER_OPERAND_BATCHING, "operand_batching_dims"},
    {HLO_AK_GATHER, VHLO_GATHER_INDICES_BATCHING, "start_indices_batching_dims"},
    {HLO_AK_GATHER, VHLO_GATHER_INDEX_MAP, "start_index_map"},
    {HLO_AK_GATHER, VHLO_GATHER_VECTOR, "index_vector_dim"},
    {HLO_AK_SCATTER, VHLO_SCATTER_WINDOW, "update_window_dims"},
    {HLO_AK_SCATTER, VHLO_SCATTER_INSERTED, "inserted_window_dims"},
    {HLO_AK_SCATTER, VHLO_SCATTER_INPUT_BATCHING, "input_batching_dims"},
    {HLO_AK_SCATTER, VHLO_SCATTER_INDICES_BATCHING, "scatter_indices_batching_dims"},
    {HLO_AK_SCATTER, VHLO_SCATTER_TO_OPERAND, "scatter_dims_to_operand_dims"},
    {HLO_AK_SCATTER, VHLO_SCATTER_VECTOR, "index_vector_dim"},
    {HLO_AK_CHANNEL, VHLO_CHANNEL_ID, "channel_id"},
    {HLO_AK_CHANNEL, VHLO_CHANNEL_TYPE, "channel_type"},
};

static void add_prop(struct vhlo_form *f, const char *name, int slot, enum vhlo_part part)
{
    int at = f->num_props++;
    while (at > 0 && strcmp(f->props[at - 1].name, name) > 0) {
        f->props[at] = f->props[at - 1];
        at--;
    }
    f->props[at] = (struct vhlo_prop){name, slot, part, false};
}

void vhlo_form_plain(enum hlo_op_id op, struct vhlo_form *ret_form)
{
    const struct hlo_op_info *info = hlo_op_info(op);
    *ret_form = (struct vhlo_form){.op = op};
    for (int i = 0; i < info->num_attrs && ret_form->num_props < VHLO_PROPS_MAX; i++)
        add_prop(ret_form, info->attrs[i].name, i, VHLO_WHOLE);
}

static bool lacks(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = strstr(list, name); p; p = strstr(p + 1, name))
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
            return true;
    return false;
}

static void fill(enum hlo_op_id op, unsigned version, const char *without, struct vhlo_form *f)
{
    const struct hlo_op_info *info = hlo_op_info(op);
    *f = (struct vhlo_form){.op = op, .version = version, .one_operand = lacks(without, "one_operand"), .no_regions = lacks(without, "regions")};
    bool typed_channel = op == HLO_OP_SEND || op == HLO_OP_RECV;
    for (int i = 0; i < info->num_attrs; i++) {
        bool split = false;
        /* calls carry no attributes of arguments in the portable form */
        if (op == HLO_OP_CALL && info->attrs[i].id != HLO_A_callee)
            continue;
        for (size_t k = 0; k < NF_ARRAY_LEN(parts); k++) {
            if (parts[k].kind != info->attrs[i].kind)
                continue;
            split = true;
            if (parts[k].part == VHLO_CHANNEL_TYPE && !typed_channel)
                continue;
            add_prop(f, parts[k].name, i, parts[k].part);
        }
        if (!split)
            add_prop(f, info->attrs[i].name, i, VHLO_WHOLE);
    }
    if (lacks(without, "+padding"))
        add_prop(f, "padding", -1, VHLO_IGNORED);
    for (int i = 0; i < f->num_props; i++)
        f->props[i].missing = lacks(without, f->props[i].name);
}

static bool portable(enum hlo_op_id op)
{
    return hlo_op_info(op)->dialect == HLO_DIALECT_STABLEHLO || op == HLO_OP_FUNC || op == HLO_OP_CALL || op == HLO_OP_FUNC_RETURN;
}

bool vhlo_form_find(struct nf_str name, struct vhlo_form *ret_form)
{
    size_t cut = name.len;
    while (cut > 0 && name.data[cut - 1] >= '0' && name.data[cut - 1] <= '9')
        cut--;
    uint64_t version;
    if (cut < 3 || name.data[cut - 1] != 'v' || name.data[cut - 2] != '_' || nf_str_to_u64(nf_str_n(name.data + cut, name.len - cut), &version))
        return false;
    char full[80];
    struct nf_str base = nf_str_n(name.data, cut - 2);
    enum hlo_op_id op;
    if (nf_str_eq_c(base, "func"))
        op = HLO_OP_FUNC;
    else if (nf_str_eq_c(base, "call"))
        op = HLO_OP_CALL;
    else if (nf_str_eq_c(base, "return"))
        op = HLO_OP_FUNC_RETURN;
    else if (base.len > 60 || !nf_format(full, sizeof(full), "stablehlo.%.*s", NF_STR_ARG(base)) ||
             (op = hlo_op_find(nf_str_c(full))) == HLO_OP_UNKNOWN)
        return false;
    bool listed = false;
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        if (rows[i].op != op)
            continue;
        listed = true;
        if (rows[i].version == version) {
            fill(op, rows[i].version, rows[i].lacks, ret_form);
            return true;
        }
    }
    if (listed || version != 1 || !portable(op))
        return false;
    fill(op, 1, "", ret_form);
    return true;
}

bool vhlo_form_for(enum hlo_op_id op, struct vhlo_version v, struct vhlo_form *ret_form)
{
    bool listed = false;
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++) {
        if (rows[i].op != op)
            continue;
        listed = true;
        bool since = vhlo_at_least(v, rows[i].since_major, rows[i].since_minor);
        bool until = !vhlo_at_least(v, rows[i].until_major, rows[i].until_minor + 1);
        if (since && until) {
            fill(op, rows[i].version, rows[i].lacks, ret_form);
            return true;
        }
    }
    if (listed || !portable(op))
        return false;
    fill(op, 1, "", ret_form);
    return true;
}

/* Columns: code, element, since (major * 100 + minor). */
static const struct {
    unsigned char code;
    enum hlo_elem elem;
    unsigned since;
} elems[] = {
    {0, HLO_ELEM_I1, 9},          {2, HLO_ELEM_BF16, 9},         {3, HLO_ELEM_F16, 9},        {4, HLO_ELEM_F32, 9},
    {5, HLO_ELEM_F64, 9},         {6, HLO_ELEM_F8E4M3FN, 9},     {7, HLO_ELEM_F8E5M2, 9},     {9, HLO_ELEM_INDEX, 9},
    {10, HLO_ELEM_I4, 9},         {11, HLO_ELEM_I8, 9},          {12, HLO_ELEM_I16, 9},       {13, HLO_ELEM_I32, 9},
    {14, HLO_ELEM_I64, 9},        {15, HLO_ELEM_UI4, 9},         {16, HLO_ELEM_UI8, 9},       {17, HLO_ELEM_UI16, 9},
    {18, HLO_ELEM_UI32, 9},       {19, HLO_ELEM_UI64, 9},        {27, HLO_ELEM_F8E4M3FNUZ, 10}, {28, HLO_ELEM_F8E5M2FNUZ, 10},
    {29, HLO_ELEM_F8E4M3B11FNUZ, 11}, {31, HLO_ELEM_I2, 102},    {32, HLO_ELEM_UI2, 102},     {34, HLO_ELEM_TF32, 106},
    {35, HLO_ELEM_F8E4M3, 107},   {36, HLO_ELEM_F8E3M4, 107},    {37, HLO_ELEM_F4E2M1FN, 108}, {38, HLO_ELEM_F6E2M3FN, 108},
    {39, HLO_ELEM_F6E3M2FN, 108}, {40, HLO_ELEM_F8E8M0FNU, 108},
};

enum hlo_elem vhlo_elem_of_code(unsigned code)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(elems); i++)
        if (elems[i].code == code)
            return elems[i].elem;
    return HLO_ELEM_MAX;
}

int vhlo_code_of_elem(enum hlo_elem e)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(elems); i++)
        if (elems[i].elem == e)
            return elems[i].code;
    return -1;
}

unsigned vhlo_elem_since(enum hlo_elem e)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(elems); i++)
        if (elems[i].elem == e)
            return elems[i].since;
    return 9;
}

static const struct {
    unsigned char code;
    enum hlo_enum_class class;
} enums[] = {
    {VHLO_A_DIRECTION, HLO_ENUM_DIRECTION},         {VHLO_A_COMPARE_TYPE, HLO_ENUM_COMPARE_TYPE},
    {VHLO_A_API_VERSION, HLO_ENUM_CUSTOM_CALL_API}, {VHLO_A_FFT, HLO_ENUM_FFT},
    {VHLO_A_PRECISION, HLO_ENUM_PRECISION},         {VHLO_A_RNG_ALGORITHM, HLO_ENUM_RNG_ALGORITHM},
    {VHLO_A_DISTRIBUTION, HLO_ENUM_DISTRIBUTION},   {VHLO_A_TRANSPOSE, HLO_ENUM_TRANSPOSE},
    {VHLO_A_ACCURACY_MODE, HLO_ENUM_ACCURACY},
};

enum hlo_enum_class vhlo_enum_of_code(unsigned code)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(enums); i++)
        if (enums[i].code == code)
            return enums[i].class;
    return HLO_ENUM_CLASS_MAX;
}

int vhlo_code_of_enum(enum hlo_enum_class c)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(enums); i++)
        if (enums[i].class == c)
            return enums[i].code;
    return -1;
}
