/* Text that parses and verifies is evaluated, under small limits: no program crashes the evaluator, whatever its values. Functions that
 * take inputs get zeros, ones and the bytes of the text. */
#include "base/clock.h"
#include "pipeline/hlo/eval.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_check(void *user, const struct hlo_eval_check *c)
{
    (void)user, (void)c;
    return 0;
}

static void on_print(void *user, struct nf_str text) { (void)user, (void)text; }

static void run(struct hlo_eval *e, const struct hlo_op *func, const uint8_t *data, size_t size)
{
    struct rt_array in[8] = {{0}}, out[16] = {{0}};
    struct nf_str name = hlo_func_name(func);
    size_t n_in = hlo_eval_num_inputs(e, name), n_out = hlo_eval_num_outputs(e, name);
    const struct hlo_type *type = hlo_func_type(func);
    bool ready = n_in <= NF_ARRAY_LEN(in) && n_out <= NF_ARRAY_LEN(out);
    for (size_t i = 0; i < n_in && ready; i++) {
        const struct hlo_type *t = type->types[i];
        int64_t dims[RT_ARRAY_RANK_MAX];
        if (t->kind == HLO_TYPE_TOKEN)
            continue;
        ready = t->kind == HLO_TYPE_TENSOR && t->rank <= RT_ARRAY_RANK_MAX && hlo_eval_dtype(t) != NF_DT_NONE;
        for (uint32_t k = 0; k < t->rank && ready; k++)
            dims[k] = t->dims[k] == HLO_DYNAMIC ? 2 : t->dims[k];
        ready = ready && rt_array_alloc(hlo_eval_dtype(t), (int)t->rank, dims, (size_t)1 << 20, &in[i], NULL) == NF_OK;
        if (ready && i % 3 == 1)
            memset(in[i].data, 1, in[i].bytes);
        if (ready && i % 3 == 2 && in[i].dtype != NF_DT_PRED && nf_dtype_bits(in[i].dtype) >= 8)
            memcpy(in[i].data, data, NF_MIN(size, in[i].bytes));
    }
    struct nf_error err = {0};
    if (ready && hlo_eval_run(e, name, in, n_in, out, n_out, &err) == NF_OK)
        for (size_t i = 0; i < n_out; i++)
            rt_array_done(&out[i]);
    for (size_t i = 0; i < NF_ARRAY_LEN(in); i++)
        rt_array_done(&in[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 16)
        return 0;
    struct hlo_limits limits = {.input_bytes = 1 << 16, .depth = 64, .ops = 2000, .literal_bytes = 1 << 20, .literals_bytes = 1 << 22};
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_error err = {0};
    struct hlo_module *m;
    char *text = nf_strndup((const char *)data, size);
    if (!hlo_parse(nf_str_n(text, size), &limits, arena, &m, &err) && !hlo_verify(m, &err)) {
        struct hlo_eval_hooks hooks = {.check = on_check, .print = on_print};
        struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
        struct hlo_eval *e;
        o.memory_limit_bytes = (size_t)32 << 20;
        o.depth_limit = 30;
        o.deadline_ns = nf_now_ns() + 200 * NF_MS;
        o.hooks = &hooks;
        if (!hlo_eval_new(m, &o, &e, &err)) {
            HLO_FOR_OPS(op, hlo_module_block(m))
                if (op->id == HLO_OP_FUNC && hlo_func_block(op))
                    run(e, op, data, size);
            hlo_eval_free(e);
        }
    }
    free(text);
    nf_arena_free(arena);
    return 0;
}
