/* target_cpu.c: target `cpu`. The artifact holds native code where every operation of the module has a native form; else it carries
 * the canonical module, which the evaluator runs. Option native=1 makes the second case an error, native=0 asks for it. What neither
 * has (a custom call that nobody here knows) is an error now, not when the artifact is run. */
#include "pipeline/target.h"

#include "base/log.h"
#include "config/config.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/pipeline.h"
#include "runtime/neff.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int identify(const struct cfg *cfg, struct target_id *ret_id, struct nf_error *err)
{
    (void)err;
    struct target_id id = {.target = "cpu", .compiler = TARGET_CPU_COMPILER};
    struct nf_error why = {0};
    char version[64];
    cg_identify(version, sizeof version, id.isa, sizeof id.isa);
    if (cg_module_check(cfg ? cfg->llvm_module : NULL, &why) < 0) { /* other artifacts, under other keys */
        id.isa[0] = 0;
        nf_format(id.remark, sizeof id.remark, "programs run on the evaluator, which is slow: %s", why.message);
    }
    nf_format(id.version, sizeof id.version, "%s %s", NEFFD_VERSION, version);
    *ret_id = id;
    return NF_OK;
}

/* ----------------------------------------------------------------------------------------------------------- options */

static const struct cpu_option {
    const char *name, *standard, *values[4];
} cpu_options[] = {
    {"native", "auto", {"auto", "0", "1"}},
    {"optlevel", "2", {"1", "2", "3"}},
    {"tier", "1", {"0", "1"}},
};

int target_cpu_options(const struct target_id *id, const struct pipe_option *given, size_t given_count, struct nf_arena *arena,
                       const struct pipe_option **ret_options, size_t *ret_count, struct nf_error *err)
{
    (void)id;
    struct pipe_option *out = NF_NEW_ARRAY(arena, struct pipe_option, NF_ARRAY_LEN(cpu_options));
    for (size_t k = 0; k < NF_ARRAY_LEN(cpu_options); k++)
        out[k] = (struct pipe_option){cpu_options[k].name, nf_str_c(cpu_options[k].standard)};
    for (size_t i = 0; i < given_count; i++) {
        const char *name = given[i].name;
        struct nf_str value = nf_str_trim(given[i].value);
        if (strncmp(name, "env:", 4) == 0)
            continue;                    /* variables of other compilers */
        size_t k = 0;
        while (k < NF_ARRAY_LEN(cpu_options) && strcmp(cpu_options[k].name, name) != 0)
            k++;
        if (k == NF_ARRAY_LEN(cpu_options)) {
            nf_fail(err, NF_EINVAL, "target cpu has no option %s", name);
            nf_error_hint(err, "its options are native (auto, 0, 1), optlevel (1, 2, 3) and tier (0, 1)");
            return NF_EINVAL;
        }
        size_t v = 0;
        while (cpu_options[k].values[v] && !nf_str_eq_c(value, cpu_options[k].values[v]))
            v++;
        if (!cpu_options[k].values[v]) {
            char can[32] = "";
            for (v = 0; cpu_options[k].values[v]; v++)
                nf_format(can + strlen(can), sizeof can - strlen(can), "%s%s", v ? ", " : "", cpu_options[k].values[v]);
            nf_fail(err, NF_EINVAL, "option %s of target cpu cannot be '%.*s'", name, (int)NF_MIN(value.len, (size_t)64), value.data ? value.data : "");
            nf_error_hint(err, "it can be %s", can);
            return NF_EINVAL;
        }
        out[k].value = nf_str_c(cpu_options[k].values[v]);
    }
    *ret_options = out;
    *ret_count = NF_ARRAY_LEN(cpu_options);
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------------- description */

static int describe_tensor(const struct hlo_type *t, const char *what, uint32_t index, struct rt_tensor *ret_tensor, struct nf_error *err)
{
    if (t->kind != HLO_TYPE_TENSOR || !t->is_static || t->rank > RT_RANK_MAX)
        return nf_fail(err, NF_EUNSUPPORTED, "%s %u of the entry function is not a tensor of a static shape", what, index);
    enum nf_dtype dtype = hlo_elem_dtype(t->elem == HLO_ELEM_QUANT && t->quant ? t->quant->storage : t->elem);
    if (dtype == NF_DT_NONE)
        return nf_fail(err, NF_EUNSUPPORTED, "%s %u of the entry function has an element type that target cpu does not hold", what, index);
    struct rt_tensor d = {.name = "", .dtype = dtype, .rank = t->rank, .dims = t->dims, .alias = RT_NO_ALIAS};
    if (rt_tensor_dense_bytes(dtype, t->dims, t->rank, &d.bytes) != NF_OK)
        return nf_fail(err, NF_ELIMIT, "%s %u of the entry function is too large", what, index);
    *ret_tensor = d;
    return NF_OK;
}

int target_cpu_describe(const struct compile_input *input, struct neff_writer **ret_writer, struct nf_error *err)
{
    struct hlo_module *m = input->graph->module;
    if (!m) {
        if (err)
            *err = *input->graph->unread;
        return input->graph->unread->code;
    }
    const struct hlo_op *entry = hlo_module_entry(m);
    if (!entry || !hlo_func_block(entry))
        return nf_fail(err, NF_EGRAPH, "the module has no function main to start with");
    const struct hlo_type *type = hlo_func_type(entry);
    uint32_t n_in = type->num_inputs, n_out = type->num_types - type->num_inputs;
    struct rt_tensor *in = NF_NEW_ARRAY(input->graph->arena, struct rt_tensor, n_in + 1);
    struct rt_tensor *out = NF_NEW_ARRAY(input->graph->arena, struct rt_tensor, n_out + 1);
    int r = NF_OK;
    for (uint32_t i = 0; i < n_in && r == NF_OK; i++)
        r = describe_tensor(type->types[i], "argument", i, &in[i], err);
    for (uint32_t i = 0; i < n_out && r == NF_OK; i++)
        r = describe_tensor(type->types[n_in + i], "result", i, &out[i], err);
    if (r != NF_OK)
        return r;
    for (uint32_t i = 0; i < n_in; i++) {
        const struct hlo_attr *a = hlo_func_arg_attr(entry, i, NF_STR("tf.aliasing_output"));
        if (a && a->kind == HLO_ATTR_INT && a->i >= 0 && a->i < n_out && out[a->i].bytes == in[i].bytes && out[a->i].alias == RT_NO_ALIAS)
            out[a->i].alias = (int)i;
    }
    const struct neff_writer_options o = {
        .name = "", .target = input->target, .compiler = input->id->compiler, .isa = input->id->isa[0] ? input->id->isa : NULL, .lnc_size = 1,
    };
    struct neff_writer *w = neff_writer_new(&o);
    for (uint32_t i = 0; i < n_in; i++)
        neff_writer_input(w, &in[i]);
    for (uint32_t i = 0; i < n_out; i++)
        neff_writer_output(w, &out[i]);
    *ret_writer = w;
    return NF_OK;
}

int target_cpu_finish(const struct compile_input *input, struct neff_writer *writer, struct compile_sink *sink, struct nf_error *err)
{
    char *path = nf_asprintf("%s/artifact.neff", input->work_dir);
    unlink(path);                        /* of an earlier try */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? nf_fail_errno(err, errno, "cannot create %s", path) : neff_writer_finish_fd(writer, fd, NULL, err);
    if (fd >= 0 && close(fd) < 0 && r == NF_OK)
        r = nf_fail_errno(err, errno, "cannot write %s", path);
    if (r == NF_OK)
        sink_artifact(sink, "neff", path);
    free(path);
    return r;
}

static bool option_is(const struct compile_input *input, const char *name, const char *value)
{
    for (size_t i = input->option_count; i-- > 0;)
        if (strcmp(input->options[i].name, name) == 0)
            return nf_str_eq_c(input->options[i].value, value);
    return false;
}

/* The operations of the module in order, taken before passes change it. */
static struct hlo_op **operations(const struct pipe_graph *g, size_t *ret_n)
{
    struct hlo_op **ops, *op;
    struct hlo_walk w = hlo_walk_of(g->module->op);
    size_t n = 0;
    while (hlo_walk_next(&w))
        n++;
    ops = NF_NEW_ARRAY(g->arena, struct hlo_op *, n + 1);
    w = hlo_walk_of(g->module->op);
    for (*ret_n = 0; (op = hlo_walk_next(&w));)
        ops[(*ret_n)++] = op;
    return ops;
}

static void print_places(const struct hlo_module *m, struct hlo_op *const *ops, size_t n, struct nf_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        const struct hlo_attr *loc = hlo_op_loc(m, ops[i]);
        struct nf_buf b = NF_BUF_INIT;
        char where[64];
        if (loc)
            hlo_attr_print(loc, &b);
        if (b.len && b.len < 240 && !memchr(b.data, '\n', b.len))
            nf_buf_add_str(out, nf_buf_str(&b));
        else
            nf_buf_add_c(out, hlo_op_where(m, ops[i], where, sizeof where));
        nf_buf_add_char(out, '\n');
        nf_buf_done(&b);
    }
}

static int compile(const struct compile_input *input, struct compile_sink *sink, struct nf_error *err)
{
    struct neff_writer *w = NULL;
    struct cg_artifact native = {0};
    struct nf_error why = {0};
    struct nf_buf places = NF_BUF_INIT;
    bool made = false;
    size_t n = 0;
    int r = target_cpu_describe(input, &w, err);
    if (r != NF_OK)
        return r;
    struct hlo_op **ops = operations(input->graph, &n);
    if (!option_is(input, "native", "0")) {
        char kernels[4096];
        nf_format(kernels, sizeof kernels, "%s/kernels", input->cfg ? input->cfg->local_dir : "");
        struct cg_request q = {.module = input->cfg ? input->cfg->llvm_module : NULL, .tier = !option_is(input, "tier", "0"), .threads = (int)sysconf(_SC_NPROCESSORS_ONLN), .cache_dir = input->cfg && input->cfg->local_dir ? kernels : NULL};
        r = cg_build(input->graph->module, &q, &native, &why);
        made = r == NF_OK;
        if (!made && ((r != NF_EUNSUPPORTED && r != NF_ENOCOMPILER) || option_is(input, "native", "1"))) {
            if (err)
                *err = why;
            goto out;
        }
        char said[1200];
        if (made)
            nf_format(said, sizeof said, "%u kernels, %u of them as machine code, %u from the cache", native.report.distinct, native.report.native, native.report.cached);
        else
            nf_format(said, sizeof said, "the program will run on the evaluator: %s", why.message);
        sink_log(sink, r == NF_ENOCOMPILER ? NF_LOG_WARNING : NF_LOG_INFO, "cpu", nf_str_c(said));
    }
    if (!made && (r = hlo_evaluable(input->graph->module, err)) != NF_OK)
        goto out;
    if (made)
        cg_artifact_write(&native, w);
    else {
        neff_writer_member(w, TARGET_CPU_MODULE, input->graph->canonical, 0);
        print_places(input->graph->module, ops, n, &places);
        neff_writer_member(w, TARGET_CPU_PLACES, nf_buf_str(&places), 0);
    }
    r = target_cpu_finish(input, w, sink, err);
out:
    nf_buf_done(&places);
    neff_writer_free(w);
    cg_artifact_done(&native);
    return r;
}

const struct target_ops target_cpu = {.name = "cpu", .identify = identify, .options = target_cpu_options, .compile = compile};
