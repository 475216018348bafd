/* passes.c: the table of passes and running them; the small passes (cse, dce, decompose, legalise). */
#include "pipeline/hlo/passes.h"

#include "pipeline/hlo/merge.h"
#include "pipeline/hlo/pass_chlo.h"

static const struct hlo_pass passes[] = {
#define PASS(name, function, needs, gives, breaks, help) {name, function, needs, gives, breaks, help},
#include "pipeline/hlo/passes.def"
#undef PASS
};

const struct hlo_pass *hlo_pass_at(size_t i) { return i < NF_ARRAY_LEN(passes) ? &passes[i] : NULL; }

const struct hlo_pass *hlo_pass_find(struct nf_str name)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(passes); i++)
        if (nf_str_eq_c(name, passes[i].name))
            return &passes[i];
    return NULL;
}

int hlo_passes_run(struct hlo_module *m, struct nf_str names, void (*after)(void *user, const struct hlo_pass *pass, const struct hlo_module *m), void *user,
                   struct nf_error *err)
{
    while (names.len) {
        struct nf_str name = nf_str_trim(nf_str_cut(&names, ','));
        const struct hlo_pass *p = hlo_pass_find(name);
        if (!p) {
            int rc = nf_fail(err, NF_EUSAGE, "there is no pass '%.*s'", (int)NF_MIN(name.len, (size_t)60), name.data ? name.data : "");
            nf_error_hint(err, "neffopt --list-passes");
            return rc;
        }
        int rc = p->run(m, err);
        if (!rc) {
            rc = hlo_verify(m, err);
            if (rc && err)
                err->code = NF_EINTERNAL; /* the pass is to blame, not the program */
        }
        if (rc) {
            nf_error_prefix(err, "pass %s", p->name);
            return err ? err->code : rc;
        }
        if (after)
            after(user, p, m);
    }
    return 0;
}

static uint32_t traits_of(const struct hlo_op *op) { return hlo_op_info((enum hlo_op_id)op->id)->traits; }

/* Every block of the module, those of a region behind the one around it. */
static struct hlo_block **all_blocks(struct hlo_module *m, struct nf_arena *scratch, size_t *ret_n)
{
    size_t n = 0;
    for (int pass = 0;; pass++) {
        struct hlo_block **v = pass ? NF_NEW_ARRAY(scratch, struct hlo_block *, n + 1) : NULL;
        size_t at = 0;
        struct hlo_walk w = hlo_walk_of(m->op);
        for (struct hlo_op *op; (op = hlo_walk_next(&w));)
            for (uint16_t r = 0; r < op->num_regions; r++)
                HLO_FOR_BLOCKS(b, op->regions[r]) {
                    if (pass)
                        v[at] = b;
                    at++;
                }
        n = at;
        if (pass) {
            *ret_n = n;
            return v;
        }
    }
}

int hlo_pass_cse(struct hlo_module *m, struct nf_error *err)
{
    (void)err;
    struct nf_arena *scratch = nf_arena_new(0);
    struct hlo_merge *plain = hlo__merge_new(m, scratch), *all = hlo__merge_new(m, scratch);
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));)
        if (!op->num_regions)
            hlo__merge_op(plain, op);
    size_t n;
    struct hlo_block **blocks = all_blocks(m, scratch, &n);
    while (n--) /* innermost first: with equal bodies, and what is equal because of them */
        HLO_FOR_OPS(op, blocks[n])
            hlo__merge_op(all, op);
    nf_arena_free(scratch);
    return 0;
}

int hlo_pass_dce(struct hlo_module *m, struct nf_error *err)
{
    (void)err;
    struct nf_arena *scratch = nf_arena_new(0);
    size_t n;
    struct hlo_block **blocks = all_blocks(m, scratch, &n);
    while (n--) /* innermost first, each from its end: what only dead operations use dies too */
        for (struct hlo_op *op = blocks[n]->last, *prev; op; op = prev) {
            prev = op->prev;
            bool used = !(traits_of(op) & HLO_T_PURE) || op->num_results == 0;
            for (uint32_t i = 0; !used && i < op->num_results; i++)
                used = !hlo_value_unused(&op->results[i]);
            if (!used)
                hlo_op_erase(op);
        }
    nf_arena_free(scratch);
    return 0;
}

int hlo_pass_decompose(struct hlo_module *m, struct nf_error *err)
{
    (void)err;
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (op->id != HLO_OP_COMPOSITE)
            continue;
        struct hlo_value **operands = NF_NEW_ARRAY(m->arena, struct hlo_value *, (size_t)op->num_operands + 1), **results = NF_NEW_ARRAY(m->arena, struct hlo_value *, (size_t)op->num_results + 1);
        const struct hlo_type **types = NF_NEW_ARRAY(m->arena, const struct hlo_type *, (size_t)op->num_results + 1);
        for (uint32_t i = 0; i < op->num_operands; i++)
            operands[i] = op->operands[i].value;
        for (uint32_t i = 0; i < op->num_results; i++)
            types[i] = op->results[i].type;
        struct hlo_op *call = hlo_op_new(m, HLO_OP_CALL, op->num_operands, operands, op->num_results, types, 0);
        hlo_op_set_attr(call, HLO_A_callee, hlo_op_attr(op, HLO_A_decomposition));
        call->loc = op->loc;
        call->pos = op->pos;
        hlo_block_insert(op->block, op, call);
        for (uint32_t i = 0; i < op->num_results; i++)
            results[i] = &call->results[i];
        hlo_op_replace(op, results);
    }
    return 0;
}

/* ---- legalise ---- */

struct hlo_op *hlo__instead(struct hlo_module *m, struct hlo_op *op, enum hlo_op_id id, uint32_t num_operands)
{
    struct hlo_value *v[2] = {num_operands > 0 ? op->operands[0].value : NULL, num_operands > 1 ? op->operands[1].value : NULL};
    struct hlo_op *n = hlo_op_new(m, id, num_operands, v, 1, &op->results[0].type, 0);
    n->dict = op->dict;
    n->num_dict = op->num_dict;
    n->loc = op->loc;
    n->pos = op->pos;
    hlo_block_insert(op->block, op, n);
    return n;
}

void hlo__replace(struct hlo_op *op, struct hlo_op *by) { hlo_op_replace(op, (struct hlo_value *[]){&by->results[0]}); }

/* Gathering whole slices: along `dim`, by indices that share the first batch_dims dimensions with the operand. */
static void legalise_index_select(struct hlo_module *m, struct hlo_op *op)
{
    const struct hlo_type *t = op->operands[0].value->type, *x = op->operands[1].value->type;
    int64_t dim = hlo_op_i64(op, HLO_A_dim, 0), batch = hlo_op_i64(op, HLO_A_batch_dims, 0);
    uint32_t rank = t->rank + x->rank;
    int64_t *offset = NF_NEW_ARRAY(m->arena, int64_t, rank), *sizes = NF_NEW_ARRAY(m->arena, int64_t, rank), *batches = NF_NEW_ARRAY(m->arena, int64_t, rank);
    size_t n = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        sizes[i] = i == dim || i < batch ? 1 : t->dims[i];
    /* result: operand dims before dim (batch ones from the indices), index dims behind the batch, operand dims behind dim */
    for (int64_t i = batch; i < dim; i++)
        offset[n++] = i;
    for (int64_t i = dim + 1; i < t->rank; i++)
        offset[n++] = i - 1 + x->rank - batch;
    for (int64_t i = 0; i < batch; i++)
        batches[i] = i;
    struct hlo_gather g = {.offset_dims = {n, offset}, .collapsed_slice_dims = hlo_ints_copy(m, 1, &dim), .operand_batching_dims = {(size_t)batch, batches},
                           .start_indices_batching_dims = {(size_t)batch, batches}, .start_index_map = hlo_ints_copy(m, 1, &dim), .index_vector_dim = x->rank};
    struct hlo_op *by = hlo__instead(m, op, HLO_OP_GATHER, 2);
    hlo_op_set_attr(by, HLO_A_dimension_numbers, hlo_attr_gather(m, &g));
    hlo_op_set_attr(by, HLO_A_slice_sizes, hlo_attr_i64s(m, t->rank, sizes));
    hlo__replace(op, by);
}

int hlo_pass_legalise(struct hlo_module *m, struct nf_error *err)
{
    bool any = false;
    for (int id = 0; id < HLO_OP_MAX; id++)
        any |= m->made[id] && hlo_op_info((enum hlo_op_id)id)->traits & HLO_T_DEPRECATED;
    if (!any) /* of nearly every program */
        return 0;
    struct hlo_walk w = hlo_walk_of(m->op);
    char where[64];
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (!(traits_of(op) & HLO_T_DEPRECATED))
            continue;
        if (op->id == HLO_OP_BROADCAST) { /* new dimensions in front */
            const struct hlo_type *t = op->operands[0].value->type, *r = op->results[0].type;
            int64_t *d = NF_NEW_ARRAY(m->arena, int64_t, (size_t)t->rank + 1);
            for (uint32_t i = 0; i < t->rank; i++)
                d[i] = r->rank - t->rank + i;
            struct hlo_op *by = hlo__instead(m, op, HLO_OP_BROADCAST_IN_DIM, 1);
            hlo_op_set_attr(by, HLO_A_broadcast_dimensions, hlo_attr_i64s(m, t->rank, d));
            hlo__replace(op, by);
        } else if (op->id == HLO_OP_CREATE_TOKEN) {
            hlo__replace(op, hlo__instead(m, op, HLO_OP_AFTER_ALL, 0));
        } else if (op->id == HLO_OP_DOT) {
            int64_t last = op->operands[0].value->type->rank - 1, zero = 0;
            struct hlo_dot d = {{0, &zero}, {0, &zero}, hlo_ints_copy(m, 1, &last), hlo_ints_copy(m, 1, &zero)};
            struct hlo_op *by = hlo__instead(m, op, HLO_OP_DOT_GENERAL, 2);
            hlo_op_set_attr(by, HLO_A_dot_dimension_numbers, hlo_attr_dot(m, &d));
            hlo_op_set_attr(by, HLO_A_precision_config, hlo_op_attr(op, HLO_A_precision_config));
            hlo__replace(op, by);
        } else if (op->id == HLO_OP_EINSUM || op->id == HLO_OP_UNARY_EINSUM) {
            if (!hlo__legalise_einsum(m, op)) {
                nf_fail(err, NF_EUNSUPPORTED, "'%s' with config \"%.*s\" has no replacement", hlo_op_info((enum hlo_op_id)op->id)->name,
                        (int)NF_MIN(hlo_op_string(op, HLO_A_einsum_config).len, (size_t)200), hlo_op_string(op, HLO_A_einsum_config).data);
                nf_error_location(err, "%s", hlo_op_where(m, op, where, sizeof where));
                return NF_EUNSUPPORTED;
            }
        } else if (op->id == HLO_OP_TORCH_INDEX_SELECT) {
            legalise_index_select(m, op);
        } else if (op->id == HLO_OP_CROSS_REPLICA_SUM) {
            const struct hlo_type *scalar = hlo_type_with_shape(m, op->operands[0].value->type, 0, NULL);
            struct hlo_op *by = hlo_op_new(m, HLO_OP_ALL_REDUCE, 1, (struct hlo_value *[]){op->operands[0].value}, 1, &op->results[0].type, 1);
            struct hlo_block *b = hlo_block_new(m, by->regions[0]);
            struct hlo_value *a = hlo_block_add_arg(m, b, scalar), *c = hlo_block_add_arg(m, b, scalar);
            struct hlo_value *sum = hlo_build(m, b, NULL, HLO_OP_ADD, scalar, 2, (struct hlo_value *[]){a, c});
            hlo_block_append(b, hlo_op_new(m, HLO_OP_RETURN, 1, &sum, 0, NULL, 0));
            hlo_op_set_attr(by, HLO_A_replica_groups, hlo_op_attr(op, HLO_A_replica_groups));
            by->loc = op->loc;
            by->pos = op->pos;
            hlo_block_insert(op->block, op, by);
            hlo__replace(op, by);
        } else {
            nf_fail(err, NF_EUNSUPPORTED, "'%s' is deprecated and has no replacement", hlo_op_info((enum hlo_op_id)op->id)->name);
            nf_error_location(err, "%s", hlo_op_where(m, op, where, sizeof where));
            return NF_EUNSUPPORTED;
        }
    }
    return 0;
}
