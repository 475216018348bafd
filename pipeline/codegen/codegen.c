/* codegen.c: the stages in a row, and the artifact.
 *
 *     stage    requires            provides
 *     import   verified module     graph of simple operations, calls inlined, equal values made once
 *     group    graph               spaces, depths, groups = kernels, which values have memory
 *     lower    groups              steps in order: row programs, products, library steps; repeated while views do not fit; then attentions
 *     plan     steps               lifetimes, shared memory, arena, plan
 *     emit     distinct programs   image, kernel offsets */
#include "pipeline/codegen/codegen.h"
#include "pipeline/codegen/cg.h"

#include "base/clock.h"
#include "runtime/cpu/cpu.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/hlo/pass_chlo.h"
#include "pipeline/hlo/passes.h"
#include "runtime/neff.h"

#include <inttypes.h>

enum { ROUNDS_MAX = 200 };

const struct cg_stage cg_stages[] = {
    {"import", "a verified module", "a graph of simple operations; calls inlined, equal values made once"},
    {"group", "a graph", "spaces, depths, groups = kernels, which values have memory"},
    {"plan", "groups", "row programs and steps in order; lifetimes, shared memory, arena"},
    {"assembly", "distinct row programs", "the machine code of each, k0, k1, ... in the plan's order of native kernels"},
    {NULL, NULL, NULL},
};

static int lower_all(struct cg_graph *g, struct nf_error *err)
{
    g->steps = NF_NEW(g->cg->arena, struct cg_steps);
    int rc = cg_lower(g, g->steps, err);
    for (uint32_t i = 0; i < g->n && rc >= 0; i++)
        for (uint32_t k = 0; k < g->v[i]->ngraph && !g->v[i]->dead && rc >= 0; k++) {
            int r = lower_all(g->v[i]->graphs[k], err);
            rc = r < 0 ? r : rc | r;
        }
    return rc;
}

static void print_stage(struct cg *cg, const char *stage, const struct plan *plan)
{
    struct nf_buf b = NF_BUF_INIT;
    if (!cg->print) return;
    if (plan) plan_print(plan, &b);
    else cg_graph_print(cg->main, &b);
    cg->print(cg->print_user, stage, nf_buf_str(&b));
    nf_buf_done(&b);
}

static void tensors(struct hlo_module *m, struct nf_arena *arena, struct neff_writer *w)
{
    const struct hlo_op *f = hlo_module_entry(m);
    const struct hlo_type *type = hlo_func_type(f);
    uint32_t n = type->num_inputs;
    bool counted = true; /* tokens are no tensors, and what is said by number counts them */
    for (uint32_t i = 0; i < type->num_types; i++) counted = counted && type->types[i]->kind != HLO_TYPE_TOKEN;
    for (uint32_t i = 0, ins = 0, outs = 0; i < type->num_types; i++) {
        const struct hlo_type *t = type->types[i];
        if (t->kind == HLO_TYPE_TOKEN) continue;
        enum cpu_dt dt = cpu_dt_find(nf_str_c(hlo_elem_name(t->elem == HLO_ELEM_INDEX ? HLO_ELEM_I64 : t->elem)));
        struct rt_tensor r = {.name = nf_arena_printf(arena, i < n ? "input%u" : "output%u", i < n ? ins++ : outs++), .dtype = cpu_dt_base(dt), .rank = t->rank, .dims = t->dims, .alias = RT_NO_ALIAS};
        rt_tensor_dense_bytes(r.dtype, r.dims, r.rank, &r.bytes);
        for (uint32_t k = 0; i >= n && k < n && counted; k++) {
            const struct hlo_attr *a = hlo_func_arg_attr(f, k, NF_STR("tf.aliasing_output"));
            if (a && a->kind == HLO_ATTR_INT && a->i == (int64_t)(i - n) && type->types[k] == t) r.alias = (int)k;
        }
        if (i < n) neff_writer_input(w, &r);
        else neff_writer_output(w, &r);
    }
}

void cg_artifact_write(const struct cg_artifact *a, struct neff_writer *w)
{
    char processes[32];
    if ((uint64_t)a->replicas * a->partitions > 1) {
        nf_format(processes, sizeof processes, "%u %u", a->replicas, a->partitions);
        neff_writer_note(w, CPU_NOTE_PROCESSES, processes);
    }
    neff_writer_member(w, CPU_MEMBER_PLAN, nf_buf_str(&a->plan), 64);
    if (a->constants.len) neff_writer_member(w, CPU_MEMBER_CONSTANTS, nf_buf_str(&a->constants), 64);
    if (a->image.len) neff_writer_member(w, CPU_MEMBER_IMAGE, nf_buf_str(&a->image), 4096);
}

void cg_artifact_done(struct cg_artifact *a)
{
    nf_buf_done(&a->plan);
    nf_buf_done(&a->constants);
    nf_buf_done(&a->image);
}

int cg_compile(struct hlo_module *m, const struct cg_request *q, struct nf_buf *ret_neff, struct cg_report *ret_report, struct nf_error *err)
{
    struct cg_artifact a = {0};
    struct nf_buf isa = NF_BUF_INIT;
    int rc = cg_build(m, q, &a, err);
    if (rc) return rc;
    cpu_features_print(q->interpret ? 0 : q->features ? q->features : cpu_features(), &isa);
    struct neff_writer_options o = {.name = q->name ? q->name : "graph", .target = "cpu", .compiler = q->compiler ? q->compiler : "neffd-cpu " NEFFD_VERSION, .isa = isa.data};
    struct neff_writer *w = neff_writer_new(&o);
    struct nf_arena *arena = nf_arena_new(0);
    tensors(m, arena, w);
    cg_artifact_write(&a, w);
    rc = neff_writer_finish(w, ret_neff, err);
    neff_writer_free(w);
    nf_arena_free(arena);
    nf_buf_done(&isa);
    if (!rc && ret_report) *ret_report = a.report;
    cg_artifact_done(&a);
    return rc;
}

static void count(const struct cg *cg, const struct plan *p, struct cg_report *r)
{
    r->distinct = p->nkernels;
    r->arena_bytes = p->arena_bytes;
    r->constant_bytes = cg->constants.len;
    for (uint32_t b = 0; b < p->nblocks; b++)
        for (uint32_t i = 0; i < p->block[b].nstep; i++) {
            r->steps++;
            const int op = p->block[b].step[i].op;
            r->kernels += op == PLAN_KERNEL || op == PLAN_ATTENTION;
            r->dots += op == PLAN_DOT ? 1 : op == PLAN_ATTENTION ? 2 : 0;
        }
    for (uint32_t i = 0; i < p->nkernels; i++) r->native += p->kernel[i].image_offset >= 0;
}

static bool wants_passes(const struct hlo_module *m)
{
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (hlo_op_info((enum hlo_op_id)op->id)->traits & HLO_T_DEPRECATED) return true;
        for (uint32_t i = 0; i < op->num_results; i++)
            if (op->results[i].type->kind == HLO_TYPE_TENSOR && !op->results[i].type->is_static) return true;
    }
    return false;
}

/* Operations of the chlo dialect that are imported as they are; the others are written with StableHLO's first. */
static bool is_imported(const struct hlo_op *op)
{
    const struct hlo_type *t = op->results[0].type;
    switch ((int)op->id) {
    case HLO_OP_CHLO_TOP_K: case HLO_OP_CHLO_SQUARE: case HLO_OP_CHLO_CONJ: case HLO_OP_CHLO_CONSTANT: case HLO_OP_CHLO_IS_INF: case HLO_OP_CHLO_IS_NEG_INF:
    case HLO_OP_CHLO_IS_POS_INF: case HLO_OP_CHLO_TAN:
        return true;
    case HLO_OP_CHLO_ERF: case HLO_OP_CHLO_ERFC: case HLO_OP_CHLO_SINH: case HLO_OP_CHLO_COSH:
        return t->kind == HLO_TYPE_TENSOR && hlo_elem_class(t->elem) == HLO_CLASS_FLOAT && t->elem != HLO_ELEM_F64;
    default: return false;
    }
}

static void trace(const struct cg *cg, struct hlo_module *m, struct cg_traces *ret)
{
    size_t n = 0;
    struct hlo_block *b = hlo_func_block(hlo_module_entry(m));
    HLO_FOR_OPS(op, b) n += op->num_results;
    *ret = (struct cg_traces){.v = nf_alloc_array(n + 1, sizeof *ret->v)};
    HLO_FOR_OPS(op, b) {
        for (uint32_t i = 0; i < op->num_results; i++) {
            const struct cg_value *c = cg->map[op->results[i].id];
            if (c && !c->dead && c->plan_value && c->kind != CG_ARG && c->kind != CG_CONST) ret->v[ret->n++] = (struct cg_trace){&op->results[i], c->plan_value - 1};
        }
    }
}

/* Of a module, or of the text of a graph. */
static int build(struct hlo_module *m, struct nf_str graph, const struct cg_request *q, struct cg_artifact *ret, struct nf_error *err)
{
    struct cg cg = {.arena = nf_arena_new(0), .print = q->print, .print_user = q->print_user, .err = err};
    struct nf_buf image = NF_BUF_INIT;
    struct plan *plan = NULL;
    struct cg_report rep = {0};
    int64_t t0 = nf_now_ns(), t1;
    cg.options = (struct cg_options){.tier = q->tier, .interpret = q->interpret, .features = q->features ? q->features : cpu_features(), .recompute = 6, .threads = q->threads, .module = q->module, .cache_dir = q->cache_dir};
    cg.options.lanes = cg.options.features & CPU_FEATURE_AVX512 ? 16 : cg.options.features & CPU_FEATURE_AVX2 ? 8 : 4;
    /* Deprecated operations are rewritten, dynamic shapes refined from the entry's; what stays is refused by name below. */
    struct nf_error ignored = {0};
    if (m && wants_passes(m) && !hlo_pass_legalise(m, &ignored) && !hlo_pass_inline(m, &ignored)) (void)hlo_pass_refine(m, &ignored);
    int rc = m ? hlo_chlo_expand(m, is_imported, err) : cg_graph_parse(&cg, graph, err);
    if (!rc && m) rc = cg_import(&cg, m, err);
    if (rc) goto out;
    t1 = nf_now_ns();
    rep.import_ns = t1 - t0;
    print_stage(&cg, "import", NULL);
    int again = 1;
    for (int round = 0; again > 0; round++) {
        if (round == ROUNDS_MAX) {
            rc = nf_fail(err, NF_EINTERNAL, "codegen: views do not settle");
            goto out;
        }
        cg_group(cg.main);
        again = lower_all(cg.main, err);
        if (again < 0) {
            rc = again;
            goto out;
        }
    }
    cg_fuse_attention(cg.main);
    print_stage(&cg, "group", NULL);
    t0 = nf_now_ns();
    rep.group_ns = t0 - t1;
    if ((rc = cg_plan(&cg, &plan, err))) goto out;
    t1 = nf_now_ns();
    rep.plan_ns = t1 - t0;
    if (!q->interpret && (rc = cg_emit(&cg, plan, &image, &rep.cached, err))) goto out;
    rep.emit_ns = nf_now_ns() - t1;
    rep.image_bytes = image.len;
    print_stage(&cg, "plan", plan);
    struct plan_sizes z = {.arg_bytes = cg.arg_bytes, .out_bytes = cg.out_bytes, .nargs = cg.nargs, .nouts = cg.nouts, .const_bytes = cg.constants.len, .image_bytes = image.len};
    if ((rc = plan_check(plan, &z, cg.arena, err))) { /* what we make must pass the check that files must pass */
        if (err) err->code = NF_EINTERNAL;
        nf_error_prefix(err, "codegen");
        rc = NF_EINTERNAL;
        goto out;
    }
    count(&cg, plan, &rep);
    struct cg_artifact a = {.constants = cg.constants, .image = image, .replicas = cg.replicas, .partitions = cg.partitions, .report = rep};
    plan_write(plan, &a.plan);
    cg.constants = image = NF_BUF_INIT;
    if (q->ret_traces && m) trace(&cg, m, q->ret_traces);
    *ret = a;
out:
    nf_buf_done(&image);
    nf_buf_done(&cg.constants);
    for (struct cg_graph *g = cg.newest; g; g = g->older) nf_map_free(g->cse);
    nf_map_free(cg.space_map);
    nf_map_free(cg.kernel_map);
    nf_map_free(cg.const_map);
    nf_map_free(cg.label_map);
    nf_arena_free(cg.arena);
    return rc;
}

int cg_build(struct hlo_module *m, const struct cg_request *q, struct cg_artifact *ret, struct nf_error *err)
{
    return build(m, (struct nf_str){0}, q, ret, err);
}

int cg_build_text(struct nf_str graph, const struct cg_request *q, struct cg_artifact *ret, struct nf_error *err) { return build(NULL, graph, q, ret, err); }
