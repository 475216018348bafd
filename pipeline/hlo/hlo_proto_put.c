/* Attributes of operations as fields of HloInstructionProto: the inverse of hlo_proto_attrs.c. */
#include "pipeline/hlo/hlo_proto_internal.h"
#include "pipeline/hlo/mesh.h"

static void put_list(struct nf_buf *o, uint32_t num, struct hlo_ints v) { pb_put_ints(o, num, v.n, v.v); }

static void put_message(struct nf_buf *o, uint32_t num, struct nf_buf *message)
{
    pb_put_bytes(o, num, nf_buf_str(message));
    nf_buf_done(message);
}

static void put_precision(const struct hlo_op *op, unsigned algorithm, struct nf_buf *o)
{
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_precision_config);
    struct nf_buf b = NF_BUF_INIT;
    int64_t v[2] = {0, 0};
    if (a && a->kind == HLO_ATTR_ARRAY)
        for (size_t i = 0; i < a->array.n && i < 2; i++)
            v[i] = a->array.v[i]->enumeration.value;
    pb_put_ints(&b, 1, 2, v);
    pb_put_uint(&b, 2, algorithm);
    put_message(o, INST_PRECISION, &b);
}

static int64_t at_or(struct hlo_ints v, size_t i, int64_t absent) { return i < v.n ? v.v[i] : absent; }

/* WindowDimensions of n dimensions; sizes come from `size`. */
static void put_window(const struct hlo_op *op, struct nf_buf *o, size_t n, const int64_t *size, enum hlo_attr_name base, enum hlo_attr_name dilation)
{
    const struct hlo_attr *pad = hlo_op_attr(op, HLO_A_padding);
    struct hlo_ints strides = hlo_op_i64s(op, HLO_A_window_strides), reversal = {0}, bases = {0}, dilations = {0};
    if (hlo_op_slot((enum hlo_op_id)op->id, base) >= 0)
        bases = hlo_op_i64s(op, base);
    if (hlo_op_slot((enum hlo_op_id)op->id, dilation) >= 0)
        dilations = hlo_op_i64s(op, dilation);
    if (op->id == HLO_OP_CONVOLUTION)
        reversal = hlo_op_i64s(op, HLO_A_window_reversal);
    struct nf_buf window = NF_BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        struct nf_buf d = NF_BUF_INIT;
        pb_put_uint(&d, WINDOW_SIZE, (uint64_t)size[i]);
        pb_put_uint(&d, WINDOW_STRIDE, (uint64_t)at_or(strides, i, 1));
        pb_put_uint(&d, WINDOW_LOW, pad ? (uint64_t)hlo_attr_dense_int_at(pad, 2 * i) : 0);
        pb_put_uint(&d, WINDOW_HIGH, pad ? (uint64_t)hlo_attr_dense_int_at(pad, 2 * i + 1) : 0);
        pb_put_uint(&d, WINDOW_DILATION, (uint64_t)at_or(dilations, i, 1));
        pb_put_uint(&d, WINDOW_BASE_DILATION, (uint64_t)at_or(bases, i, 1));
        pb_put_uint(&d, WINDOW_REVERSAL, at_or(reversal, i, 0) != 0);
        put_message(&window, 1, &d);
    }
    put_message(o, INST_WINDOW, &window);
}

static void put_convolution(const struct hlo_op *op, struct nf_buf *o)
{
    const struct hlo_conv *c = hlo_op_attr(op, HLO_A_dimension_numbers)->conv;
    const struct hlo_type *kernel = op->operands[1].value->type;
    int64_t size[32];
    size_t n = NF_MIN(c->kernel_spatial.n, NF_ARRAY_LEN(size));
    for (size_t i = 0; i < n; i++)
        size[i] = kernel->dims[c->kernel_spatial.v[i]];
    put_window(op, o, n, size, HLO_A_lhs_dilation, HLO_A_rhs_dilation);
    struct nf_buf d = NF_BUF_INIT;
    pb_put_uint(&d, CONV_KERNEL_INPUT, (uint64_t)c->kernel_input_feature);
    pb_put_uint(&d, CONV_KERNEL_OUTPUT, (uint64_t)c->kernel_output_feature);
    put_list(&d, CONV_KERNEL_SPATIAL, c->kernel_spatial);
    pb_put_uint(&d, CONV_INPUT_BATCH, (uint64_t)c->input_batch);
    pb_put_uint(&d, CONV_INPUT_FEATURE, (uint64_t)c->input_feature);
    pb_put_uint(&d, CONV_OUTPUT_BATCH, (uint64_t)c->output_batch);
    pb_put_uint(&d, CONV_OUTPUT_FEATURE, (uint64_t)c->output_feature);
    put_list(&d, CONV_INPUT_SPATIAL, c->input_spatial);
    put_list(&d, CONV_OUTPUT_SPATIAL, c->output_spatial);
    put_message(o, INST_CONV_DIMS, &d);
    pb_put_uint(o, INST_FEATURE_GROUPS, (uint64_t)hlo_op_i64(op, HLO_A_feature_group_count, 1));
    pb_put_uint(o, INST_BATCH_GROUPS, (uint64_t)hlo_op_i64(op, HLO_A_batch_group_count, 1));
    put_precision(op, 0, o);
}

static void put_columns(struct nf_buf *o, uint32_t num, struct hlo_ints a, struct hlo_ints b, struct hlo_ints c)
{
    for (size_t i = 0; i < a.n; i++) {
        struct nf_buf d = NF_BUF_INIT;
        pb_put_uint(&d, 1, (uint64_t)a.v[i]);
        pb_put_uint(&d, 2, (uint64_t)at_or(b, i, 0));
        pb_put_uint(&d, 3, (uint64_t)at_or(c, i, 0));
        put_message(o, num, &d);
    }
}

/* One message a group; groups by mesh axes are written out, which every reader knows. */
static bool put_groups(struct hlo_module *m, const struct hlo_op *op, struct nf_buf *o)
{
    const struct hlo_attr *g = hlo_op_attr(op, HLO_A_replica_groups);
    int64_t rows, cols, *table = NULL;
    if (g->kind == HLO_ATTR_MESH_AXES) {
        if (!hlo_mesh_groups(m, &g->mesh_axes, m->arena, &rows, &cols, &table))
            return false;
    } else {
        rows = g->type->dims[0];
        cols = g->type->dims[1];
    }
    for (int64_t r = 0; r < rows; r++) {
        struct nf_buf b = NF_BUF_INIT, ids = NF_BUF_INIT;
        for (int64_t c = 0; c < cols; c++) {
            int64_t v = table ? table[r * cols + c] : hlo_attr_dense_int_at(g, (size_t)(r * cols + c));
            if (v >= 0)
                nf_buf_add_varint(&ids, (uint64_t)v);
        }
        pb_put_bytes(&b, 1, nf_buf_str(&ids));
        nf_buf_done(&ids);
        put_message(o, INST_GROUPS, &b);
    }
    return true;
}

static void put_channel(const struct hlo_op *op, struct nf_buf *o)
{
    const struct hlo_attr *c = hlo_op_attr(op, HLO_A_channel_handle);
    if (c)
        pb_put_uint(o, INST_CHANNEL, (uint64_t)c->channel.handle);
    if (hlo_op_slot((enum hlo_op_id)op->id, HLO_A_use_global_device_ids) >= 0)
        pb_put_uint(o, INST_GLOBAL_IDS, hlo_op_attr(op, HLO_A_use_global_device_ids) != NULL);
}

static int unsupported(struct hlo_module *m, const struct hlo_op *op, const char *what, struct nf_error *err)
{
    char where[160];
    nf_fail(err, NF_EUNSUPPORTED, "%s: %s has no HLO counterpart", hlo_op_info((enum hlo_op_id)op->id)->name, what);
    nf_error_location(err, "%s", hlo_op_where(m, op, where, sizeof(where)));
    return NF_EUNSUPPORTED;
}

static int put_custom_call(struct hlo_module *m, const struct hlo_op *op, struct nf_buf *o, struct nf_error *err)
{
    const struct hlo_attr *config = hlo_op_attr(op, HLO_A_backend_config), *aliases = hlo_op_attr(op, HLO_A_output_operand_aliases);
    const struct hlo_attr *called = hlo_op_attr(op, HLO_A_called_computations);
    if (called && called->kind == HLO_ATTR_ARRAY && called->array.n)
        return unsupported(m, op, "a called computation", err);
    pb_put_bytes(o, INST_TARGET, hlo_op_string(op, HLO_A_call_target_name));
    const struct hlo_attr *dict = hlo_op_discardable(op, NF_STR("mhlo.backend_config")); /* a typed call's, as JAX writes it */
    bool typed = dict && (!config || (config->kind == HLO_ATTR_STRING && !config->str.len));
    config = typed ? dict : config;
    if (config && config->kind == HLO_ATTR_STRING) {
        pb_put_bytes(o, INST_BACKEND_CONFIG, config->str);
    } else if (config) {
        struct nf_buf text = NF_BUF_INIT;
        hlo_attr_print(config, &text);
        put_message(o, INST_BACKEND_CONFIG, &text);
    }
    pb_put_uint(o, INST_API_VERSION, typed ? 4 : (uint64_t)hlo_op_i64(op, HLO_A_api_version, 1));
    pb_put_uint(o, INST_SIDE_EFFECT, hlo_op_bool(op, HLO_A_has_side_effect, false));
    for (size_t i = 0; aliases && i < aliases->array.n; i++) {
        const struct hlo_alias *a = aliases->array.v[i]->alias;
        struct nf_buf b = NF_BUF_INIT;
        put_list(&b, 1, a->output_tuple_indices);
        pb_put_uint(&b, 2, (uint64_t)a->operand_index);
        put_list(&b, 3, a->operand_tuple_indices);
        put_message(o, INST_OPERAND_ALIASES, &b);
    }
    return 0;
}

static void put_gather(const struct hlo_gather *g, struct nf_buf *o)
{
    struct nf_buf b = NF_BUF_INIT;
    put_list(&b, 1, g->offset_dims);
    put_list(&b, 2, g->collapsed_slice_dims);
    put_list(&b, 3, g->start_index_map);
    pb_put_uint(&b, 4, (uint64_t)g->index_vector_dim);
    put_list(&b, 5, g->operand_batching_dims);
    put_list(&b, 6, g->start_indices_batching_dims);
    put_message(o, INST_GATHER_DIMS, &b);
}

static void put_scatter(const struct hlo_scatter *s, struct nf_buf *o)
{
    struct nf_buf b = NF_BUF_INIT;
    put_list(&b, 1, s->update_window_dims);
    put_list(&b, 2, s->inserted_window_dims);
    put_list(&b, 3, s->scatter_dims_to_operand_dims);
    pb_put_uint(&b, 4, (uint64_t)s->index_vector_dim);
    put_list(&b, 5, s->input_batching_dims);
    put_list(&b, 6, s->scatter_indices_batching_dims);
    put_message(o, INST_SCATTER_DIMS, &b);
}

static void put_dim(const struct hlo_op *op, enum hlo_attr_name name, struct nf_buf *o)
{
    int64_t v = hlo_op_i64(op, name, 0);
    if (name == HLO_A_dimension && v < 0) /* sort: the last one */
        v += op->operands[0].value->type->rank;
    pb_put_ints(o, INST_DIMENSIONS, 1, &v);
}

static void put_enum_name(const struct hlo_op *op, enum hlo_attr_name name, uint32_t num, struct nf_buf *o)
{
    const struct hlo_attr *a = hlo_op_attr(op, name);
    if (a)
        pb_put_bytes(o, num, nf_str_c(hlo_enum_name(a->enumeration.class, a->enumeration.value)));
}

/* An entry of a map of strings: a string as it is, another attribute as it is spelled. */
static void put_entry(struct nf_buf *map, struct nf_str key, const struct hlo_attr *a, struct nf_str before, struct nf_str after)
{
    struct nf_buf b = NF_BUF_INIT, text = NF_BUF_INIT;
    nf_buf_add_str(&text, before);
    if (a->kind == HLO_ATTR_STRING || a->kind == HLO_ATTR_OPAQUE)
        nf_buf_add_str(&text, a->str);
    else
        hlo_attr_print(a, &text);
    nf_buf_add_str(&text, after);
    pb_put_bytes(&b, 1, key);
    pb_put_bytes(&b, 2, nf_buf_str(&text));
    nf_buf_done(&text);
    put_message(map, 1, &b);
}

bool hp_put_decor(const struct hp_decor *d, struct nf_buf *o) { return hp_put_decor_at(d, INST_FRONTEND, o); }

bool hp_put_decor_at(const struct hp_decor *d, uint32_t frontend, struct nf_buf *o)
{
    struct nf_buf map = NF_BUF_INIT;
    struct nf_buf sharding = NF_BUF_INIT;
    bool any, ok = hp_sharding(d->module, d->sharding, d->sdy, &sharding, &any);
    if (any)
        pb_put_bytes(o, INST_SHARDING, nf_buf_str(&sharding));
    nf_buf_done(&sharding);
    for (size_t i = 0; d->frontend && d->frontend->kind == HLO_ATTR_DICT && i < d->frontend->dict.n; i++)
        put_entry(&map, d->frontend->dict.v[i].name, d->frontend->dict.v[i].attr, NF_STR(""), NF_STR(""));
    if (d->sdy && d->per_value && d->sdy->kind == HLO_ATTR_OPAQUE && nf_str_starts(d->sdy->str, NF_STR("#sdy.sharding<"))) {
        struct nf_str s = d->sdy->str;
        s.data += strlen("#sdy.sharding");
        s.len -= strlen("#sdy.sharding");
        struct hlo_attr list = {.kind = HLO_ATTR_OPAQUE, .str = s};
        put_entry(&map, NF_STR("xla.sdy.sharding"), &list, NF_STR("#sdy.sharding_per_value<["), NF_STR("]>"));
    } else if (d->sdy) {
        put_entry(&map, NF_STR("xla.sdy.sharding"), d->sdy, NF_STR(""), NF_STR(""));
    }
    if (d->rule)
        put_entry(&map, NF_STR("xla.sdy.sharding_rule"), d->rule, NF_STR(""), NF_STR(""));
    for (size_t i = 0; i < NF_ARRAY_LEN(d->more) && d->more[i].name.len; i++)
        put_entry(&map, d->more[i].name, d->more[i].attr, NF_STR(""), NF_STR(""));
    if (map.len)
        put_message(o, frontend, &map);
    return ok;
}

int hp_put_transfer(struct hlo_module *m, const struct hlo_op *op, bool done, struct nf_buf *o, struct nf_error *err)
{
    const struct hlo_attr *pairs = hlo_op_attr(op, HLO_A_source_target_pairs), *sharding = hlo_op_discardable(op, NF_STR("mhlo.sharding"));
    struct hp_decor d = {.sharding = sharding, .frontend = hlo_op_discardable(op, NF_STR("mhlo.frontend_attributes")), .sdy = hlo_op_discardable(op, NF_STR("sdy.sharding"))};
    struct nf_buf text = NF_BUF_INIT, message = NF_BUF_INIT;
    bool any;
    if (!done && hp_sharding(NULL, sharding, NULL, &message, &any) && pb_uint(nf_buf_str(&message), 1, 0) == 2)
        d.sharding = NULL; /* a tuple's: one for each result, and the first instruction holds more */
    nf_buf_done(&message);
    if (pairs) {
        nf_buf_add_char(&text, '{');
        for (int64_t i = 0; i < pairs->type->dims[0]; i++)
            nf_buf_addf(&text, "%s{%lld,%lld}", i ? "," : "", (long long)hlo_attr_dense_int_at(pairs, 2 * (size_t)i), (long long)hlo_attr_dense_int_at(pairs, 2 * (size_t)i + 1));
        nf_buf_add_char(&text, '}');
        d.more[0] = (struct hlo_named){NF_STR(HP_PAIRS), hlo_attr_string(m, nf_arena_str(m->arena, nf_buf_str(&text)))};
        nf_buf_done(&text);
    }
    put_channel(op, o);
    pb_put_uint(o, INST_HOST_TRANSFER, hlo_op_bool(op, HLO_A_is_host_transfer, false));
    return hp_put_decor(&d, o) ? 0 : unsupported(m, op, "its sharding", err);
}

int hp_put_attributes(struct hlo_module *m, const struct hlo_op *op, struct nf_buf *o, struct nf_error *err)
{
    struct nf_buf b = NF_BUF_INIT;
    struct hlo_ints v;
    const struct hlo_attr *a;
    float epsilon;
    if (!hp_put_decor(&(struct hp_decor){.sharding = hlo_op_discardable(op, NF_STR("mhlo.sharding")), .frontend = hlo_op_discardable(op, NF_STR("mhlo.frontend_attributes")),
                                    .sdy = hlo_op_discardable(op, NF_STR("sdy.sharding")), .rule = hlo_op_discardable(op, NF_STR("sdy.sharding_rule"))}, o))
        return unsupported(m, op, "its sharding", err);
    switch ((int)op->id) {
    case HLO_OP_COMPARE:
        put_enum_name(op, HLO_A_comparison_direction, INST_DIRECTION, o);
        a = hlo_op_attr(op, HLO_A_compare_type);
        if (a && a->enumeration.value != HLO_COMPARE_NOTYPE)
            put_enum_name(op, HLO_A_compare_type, INST_COMPARE_TYPE, o);
        break;
    case HLO_OP_REDUCE_PRECISION:
        pb_put_uint(o, INST_EXPONENT_BITS, (uint64_t)hlo_op_i64(op, HLO_A_exponent_bits, 0));
        pb_put_uint(o, INST_MANTISSA_BITS, (uint64_t)hlo_op_i64(op, HLO_A_mantissa_bits, 0));
        break;
    case HLO_OP_IOTA: put_dim(op, HLO_A_iota_dimension, o); break;
    case HLO_OP_TRANSPOSE: put_list(o, INST_DIMENSIONS, hlo_op_i64s(op, HLO_A_permutation)); break;
    case HLO_OP_REVERSE:
    case HLO_OP_REDUCE:
    case HLO_OP_MAP: put_list(o, INST_DIMENSIONS, hlo_op_i64s(op, HLO_A_dimensions)); break;
    case HLO_OP_SORT: pb_put_uint(o, INST_STABLE, hlo_op_bool(op, HLO_A_is_stable, false)); put_dim(op, HLO_A_dimension, o); break;
    case HLO_OP_CONCATENATE:
    case HLO_OP_GET_DIMENSION_SIZE:
    case HLO_OP_SET_DIMENSION_SIZE: put_dim(op, HLO_A_dimension, o); break;
    case HLO_OP_SLICE:
        put_columns(o, INST_SLICE, hlo_op_i64s(op, HLO_A_start_indices), hlo_op_i64s(op, HLO_A_limit_indices), hlo_op_i64s(op, HLO_A_strides));
        break;
    case HLO_OP_DYNAMIC_SLICE: put_list(o, INST_DYNAMIC_SIZES, hlo_op_i64s(op, HLO_A_slice_sizes)); break;
    case HLO_OP_PAD:
        put_columns(&b, 1, hlo_op_i64s(op, HLO_A_edge_padding_low), hlo_op_i64s(op, HLO_A_edge_padding_high), hlo_op_i64s(op, HLO_A_interior_padding));
        put_message(o, INST_PADDING, &b);
        break;
    case HLO_OP_DOT_GENERAL: {
        const struct hlo_dot *d = hlo_op_attr(op, HLO_A_dot_dimension_numbers)->dot;
        unsigned algorithm = (a = hlo_op_attr(op, HLO_A_algorithm)) ? hp_algorithm_of(a->algorithm) : 0;
        if (a && !algorithm)
            return unsupported(m, op, "its algorithm", err);
        put_list(&b, 1, d->lhs_contracting);
        put_list(&b, 2, d->rhs_contracting);
        put_list(&b, 3, d->lhs_batching);
        put_list(&b, 4, d->rhs_batching);
        put_message(o, INST_DOT_DIMS, &b);
        put_precision(op, algorithm, o);
        break;
    }
    case HLO_OP_CONVOLUTION: put_convolution(op, o); break;
    case HLO_OP_REDUCE_WINDOW:
    case HLO_OP_SELECT_AND_SCATTER:
        v = hlo_op_i64s(op, HLO_A_window_dimensions);
        put_window(op, o, v.n, v.v, HLO_A_base_dilations, HLO_A_window_dilations);
        break;
    case HLO_OP_GATHER:
        put_gather(hlo_op_attr(op, HLO_A_dimension_numbers)->gather, o);
        put_list(o, INST_GATHER_SIZES, hlo_op_i64s(op, HLO_A_slice_sizes));
        pb_put_uint(o, INST_SORTED, hlo_op_bool(op, HLO_A_indices_are_sorted, false));
        break;
    case HLO_OP_SCATTER:
        put_scatter(hlo_op_attr(op, HLO_A_scatter_dimension_numbers)->scatter, o);
        pb_put_uint(o, INST_SORTED, hlo_op_bool(op, HLO_A_indices_are_sorted, false));
        pb_put_uint(o, INST_UNIQUE, hlo_op_bool(op, HLO_A_unique_indices, false));
        break;
    case HLO_OP_CHOLESKY:
        pb_put_uint(&b, 1, hlo_op_bool(op, HLO_A_lower, false));
        put_message(o, INST_CHOLESKY, &b);
        break;
    case HLO_OP_TRIANGULAR_SOLVE:
        pb_put_uint(&b, 1, hlo_op_bool(op, HLO_A_left_side, false));
        pb_put_uint(&b, 2, hlo_op_bool(op, HLO_A_lower, false));
        pb_put_uint(&b, 3, hlo_op_bool(op, HLO_A_unit_diagonal, false));
        pb_put_uint(&b, 4, (uint64_t)hlo_op_enum(op, HLO_A_transpose_a, HLO_NO_TRANSPOSE));
        put_message(o, INST_TRIANGULAR, &b);
        break;
    case HLO_OP_FFT:
        pb_put_uint(o, INST_FFT_TYPE, (uint64_t)hlo_op_enum(op, HLO_A_fft_type, 0));
        put_list(o, INST_FFT_LENGTH, hlo_op_i64s(op, HLO_A_fft_length));
        break;
    case HLO_OP_BATCH_NORM_TRAINING:
    case HLO_OP_BATCH_NORM_INFERENCE:
    case HLO_OP_BATCH_NORM_GRAD: {
        uint32_t bits;
        epsilon = (float)hlo_op_float(op, HLO_A_epsilon, 0);
        memcpy(&bits, &epsilon, 4);
        pb_put_tag(o, INST_EPSILON, PB_FIXED32);
        nf_buf_add_u32le(o, bits);
        pb_put_uint(o, INST_FEATURE, (uint64_t)hlo_op_i64(op, HLO_A_feature_index, 0));
        break;
    }
    case HLO_OP_RNG: pb_put_uint(o, INST_DISTRIBUTION, (uint64_t)hlo_op_enum(op, HLO_A_rng_distribution, 0)); break;
    case HLO_OP_RNG_BIT_GENERATOR: pb_put_uint(o, INST_RNG_ALGORITHM, (uint64_t)hlo_op_enum(op, HLO_A_rng_algorithm, 0)); break;
    case HLO_OP_CHLO_TOP_K:
        pb_put_uint(o, INST_K, (uint64_t)hlo_op_i64(op, HLO_A_k, 0));
        pb_put_uint(o, INST_LARGEST, 1);
        break;
    case HLO_OP_CUSTOM_CALL: return put_custom_call(m, op, o, err);
    case HLO_OP_ALL_GATHER:
    case HLO_OP_REDUCE_SCATTER:
    case HLO_OP_ALL_REDUCE:
    case HLO_OP_COLLECTIVE_BROADCAST:
    case HLO_OP_ALL_TO_ALL: /* joining another dimension is hlo_proto_write.c's */
        if (op->id == HLO_OP_ALL_GATHER)
            put_dim(op, HLO_A_all_gather_dim, o);
        else if (op->id == HLO_OP_REDUCE_SCATTER)
            put_dim(op, HLO_A_scatter_dimension, o);
        else if (op->id == HLO_OP_ALL_TO_ALL)
            put_dim(op, HLO_A_split_dimension, o);
        if (!put_groups(m, op, o))
            return unsupported(m, op, "the mesh of its replica groups", err);
        put_channel(op, o);
        break;
    case HLO_OP_COLLECTIVE_PERMUTE:
        a = hlo_op_attr(op, HLO_A_source_target_pairs);
        for (int64_t i = 0; i < a->type->dims[0]; i++) {
            struct nf_buf pair = NF_BUF_INIT;
            pb_put_uint(&pair, 1, (uint64_t)hlo_attr_dense_int_at(a, 2 * (size_t)i));
            pb_put_uint(&pair, 2, (uint64_t)hlo_attr_dense_int_at(a, 2 * (size_t)i + 1));
            put_message(o, INST_PAIRS, &pair);
        }
        put_channel(op, o);
        break;
    case HLO_OP_INFEED: pb_put_bytes(o, INST_INFEED_CONFIG, hlo_op_string(op, HLO_A_infeed_config)); break;
    case HLO_OP_OUTFEED: pb_put_bytes(o, INST_OUTFEED_CONFIG, hlo_op_string(op, HLO_A_outfeed_config)); break;
    case HLO_OP_COLLECTIVE_REDUCE:
    case HLO_OP_UNIFORM_QUANTIZE:
    case HLO_OP_UNIFORM_DEQUANTIZE: return unsupported(m, op, "the operation", err);
    default: break;
    }
    return 0;
}
