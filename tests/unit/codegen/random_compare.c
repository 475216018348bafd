/* random_compare.c: see random.h. */
#include "tests/unit/codegen/random.h"

#include "base/arena.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/hlo.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/pool.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/types.h"
#include "tests/unit/codegen/random_bound.h"
#include "tests/unit/codegen/random_internal.h"
#include "tests/unit/codegen/stages.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { DEVICES_MAX = 8, VALUES_OUT = 16 };

static void fill(struct rt_array *a, uint64_t *s)
{
    enum cpu_dt t = cpu_dt_of(a->dtype);
    size_t size = cpu_dt_bytes(t);
    for (int64_t i = 0; i < rt_array_count(a); i++) {
        uint64_t r = random_next(s);
        struct cpu_num v = {.i = r % 7 == 0 ? (int64_t)random_next(s) : (int64_t)(r % 19) - 6, .re = (double)(int64_t)(r % 20001) / 10000 - 1, .im = (double)(int64_t)(r / 20001 % 2001) / 1000 - 1};
        if (r % 211 == 0) v.re = 0 * -1.0;
        v.i = t == CPU_PRED ? v.i & 1 : cpu_dt_int(t) ? cpu_int_wrap(t, v.i) : v.i;
        cpu_num_store(t, (char *)a->data + (size_t)i * size, v);
    }
}

/* err: what rounding may have made of the evaluator's value (random_bound.h); here and there. */
static bool close_enough(enum cpu_dt t, const struct rt_array *a, const struct rt_array *e, double err, struct nf_buf *why)
{
    size_t size = cpu_dt_bytes(t);
    int64_t n = rt_array_count(e);
    for (int64_t i = 0; i < n; i++) {
        struct cpu_num x = cpu_num_load(t, (char *)a->data + (size_t)i * size), y = cpu_num_load(t, (char *)e->data + (size_t)i * size);
        bool ok = t <= CPU_U64 ? x.i == y.i : (isnan(x.re) && isnan(y.re)) || x.re == y.re || fabs(x.re - y.re) <= 2 * err;
        ok = ok && ((isnan(x.im) && isnan(y.im)) || x.im == y.im || fabs(x.im - y.im) <= 2 * err);
        if (ok) continue;
        nf_buf_addf(why, "element %" PRId64 " of %s: %.9g%+.9gi, the evaluator has %.9g%+.9gi (%" PRId64 ", %" PRId64 "), rounding explains %.3g", i, cpu_dt_info[t].name, x.re, x.im, y.re, y.im, x.i, y.i, 2 * err);
        return false;
    }
    return true;
}

/* One device of the grid; a grid of one runs on the calling thread. */
struct member {
    struct rt_program *p;
    struct rt_array in[VALUES_OUT], got[VALUES_OUT], again[VALUES_OUT];
    bool second;
    int rc;
    struct nf_error err;
};

static void *run_member(void *arg)
{
    struct member *m = arg;
    const void *in[VALUES_OUT];
    void *out[VALUES_OUT];
    for (size_t i = 0; i < m->p->input_count; i++) in[i] = m->in[i].data;
    for (size_t i = 0; i < m->p->output_count; i++) out[i] = m->second ? m->again[i].data : m->got[i].data;
    m->rc = rt_execute_host(m->p, in, out, &m->err);
    return NULL;
}

static int run_members(struct member *m, unsigned devices, bool second, struct nf_error *err)
{
    pthread_t thread[DEVICES_MAX];
    for (unsigned d = 0; d < devices; d++) {
        m[d].second = second;
        if (d && pthread_create(&thread[d], NULL, run_member, &m[d])) exit(1); /* those that run wait for it */
    }
    run_member(&m[0]);
    for (unsigned d = 1; d < devices; d++) pthread_join(thread[d], NULL);
    for (unsigned d = 0; d < devices; d++)
        if (m[d].rc) {
            *err = m[d].err;
            return m[d].rc;
        }
    return 0;
}

static unsigned grid(const struct hlo_module *m, const char *name)
{
    const struct hlo_attr *a = hlo_op_discardable(m->op, nf_str_c(name));
    return a ? (unsigned)a->i : 1;
}

int random_compare(struct nf_str text, uint64_t seed, int threads, bool interpret, bool *ret_refused, struct nf_buf *why)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_error err = {0}, own = {0};
    struct hlo_module *m = NULL;
    struct hlo_eval *e = NULL;
    struct member *member = nf_alloc_array(DEVICES_MAX, sizeof *member);
    struct rt_array in[DEVICES_MAX * VALUES_OUT] = {{0}}, want[DEVICES_MAX * VALUES_OUT] = {{0}}; /* the evaluator's, device by device */
    struct nf_buf neff = NF_BUF_INIT;
    struct rt_device *dev = NULL;
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    struct bounds bounds = {0};
    struct hlo_eval_hooks hooks = {.user = &bounds, .observe = bounds_observe};
    o.hooks = &hooks;
    size_t n = 0, k = 0;
    int rc = -1;
    *ret_refused = false;
    rt_device_register(&cpu_device_ops);
    if (hlo_parse(text, NULL, arena, &m, &err) || hlo_verify(m, &err)) {
        nf_buf_addf(why, "the program is wrong: %s: %s", err.location, err.message);
        goto out;
    }
    unsigned replicas = grid(m, "mhlo.num_replicas"), partitions = grid(m, "mhlo.num_partitions"), devices = replicas * partitions;
    const struct hlo_block *entry = hlo_func_block(hlo_module_entry(m));
    struct stages stages = {0};
    /* Every other time for a processor without AVX-512, so that both forms run on one that has it. */
    uint64_t features = seed & 8 ? cpu_features() : cpu_features() & ~CPU_FEATURE_AVX512;
    struct cg_request q = {.tier = 0, .interpret = interpret, .features = features, .print = interpret ? stages_keep : NULL, .print_user = &stages};
    int cg = cg_compile(m, &q, &neff, NULL, &own);
    bool back = cg || !interpret || stages_read_back(&stages, &q, why) == 0;
    stages_done(&stages);
    if (!back) goto out;
    int ev = hlo_eval_new(m, &o, &e, &err);
    if (cg || ev) {
        *ret_refused = cg == NF_EUNSUPPORTED && ev == NF_EUNSUPPORTED;
        if (*ret_refused) rc = 0;
        else nf_buf_addf(why, "native: %s; evaluator: %s", cg ? own.message : "fine", ev ? err.message : "fine");
        goto out;
    }
    rc = rt_device_open("cpu", &(struct rt_device_config){.threads = (uint32_t)threads}, &dev, &err);
    struct rt_load_options load = RT_LOAD_OPTIONS_INIT;
    load.world_size = devices;
    load.group = "random";
    for (; !rc && load.rank < devices; load.rank++) rc = rt_program_load(dev, nf_buf_str(&neff), &load, &member[load.rank].p, &err);
    if (rc) {
        nf_buf_addf(why, "load: %s", err.message);
        goto out;
    }
    n = member[0].p->input_count;
    k = member[0].p->output_count;
    for (unsigned d = 0; d < devices; d++) {
        const struct rt_program *p = member[d].p;
        for (size_t i = 0; i < n; i++) {
            rt_array_alloc(p->inputs[i].dtype, (int)p->inputs[i].rank, p->inputs[i].dims, 0, &member[d].in[i], &err);
            fill(&member[d].in[i], &seed);
            in[d * n + i] = member[d].in[i]; /* borrowed */
            bounds_argument(&bounds, entry->args[i], d, &in[d * n + i]);
        }
        for (size_t i = 0; i < k; i++) {
            rt_array_alloc(p->outputs[i].dtype, (int)p->outputs[i].rank, p->outputs[i].dims, 0, &member[d].got[i], &err);
            rt_array_alloc(p->outputs[i].dtype, (int)p->outputs[i].rank, p->outputs[i].dims, 0, &member[d].again[i], &err);
        }
    }
    rc = run_members(member, devices, false, &err);
    if (!rc) rc = devices > 1 ? hlo_eval_run_grid(e, NF_STR(""), replicas, partitions, in, n, want, k, &err) : hlo_eval_run(e, NF_STR(""), in, n, want, k, &err);
    if (rc) {
        nf_buf_addf(why, "run: %s", err.message);
        goto out;
    }
    cpu_pool_set_threads(threads + 1); /* other threads, the same bits */
    if ((rc = run_members(member, devices, true, &err))) {
        nf_buf_addf(why, "run again: %s", err.message);
        goto out;
    }
    for (unsigned d = 0; d < devices && !rc; d++)
        for (size_t i = 0; i < k && !rc; i++) {
            const struct rt_array *got = &member[d].got[i], *w = &want[d * k + i];
            if (got->bytes && memcmp(got->data, member[d].again[i].data, got->bytes) != 0) {
                nf_buf_addf(why, "another one on %d threads", threads + 1);
                rc = -1;
            } else if (!close_enough(cpu_dt_of(w->dtype), got, w, bounds_err(&bounds, entry->last->operands[i].value, d), why)) {
                rc = -1;
            }
            if (rc) nf_buf_addf(why, " (result %zu of device %u)", i, d);
        }
out:
    for (unsigned d = 0; d < DEVICES_MAX; d++) {
        for (size_t i = 0; i < VALUES_OUT; i++) {
            rt_array_done(&member[d].in[i]);
            rt_array_done(&member[d].got[i]);
            rt_array_done(&member[d].again[i]);
            rt_array_done(&want[d * VALUES_OUT + i]);
        }
        rt_program_unload(member[d].p);
    }
    free(member);
    rt_device_close(dev);
    hlo_eval_free(e);
    nf_buf_done(&neff);
    bounds_done(&bounds);
    nf_arena_free(arena);
    return rc;
}
