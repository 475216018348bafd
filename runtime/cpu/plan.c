/* plan.c: plans as bytes and their checks; see plan.h. */
#include "runtime/cpu/plan.h"
#include "runtime/cpu/steps.h"

#include "base/reader.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <inttypes.h>
#include <stdatomic.h>

#define MAGIC "NFCPLAN2"

struct row {
    const char *name;
    uint32_t in_min, in_max, out_min, out_max, attrs;
    int (*check)(const struct plan *, const struct plan_step *, struct nf_error *);
};
static const struct row rows[PLAN_OP_MAX] = {
#define PLAN_OP(sym, name, in0, in1, out0, out1, attrs) {#name, in0, in1, out0, out1, attrs, step_##name##__check},
#include "runtime/cpu/plan_ops.def"
#undef PLAN_OP
};

const char *plan_op_name(enum plan_op op) { return (unsigned)op < PLAN_OP_MAX ? rows[op].name : "?"; }

/* ------------------------------------------------------------------------------------------------------------ write */

static void add_u16(struct nf_buf *b, unsigned v)
{
    nf_buf_add_char(b, (char)(v & 255));
    nf_buf_add_char(b, (char)(v >> 8 & 255));
}

void plan_write(const struct plan *p, struct nf_buf *out)
{
    nf_buf_add(out, MAGIC, 8);
    nf_buf_add_u64le(out, p->features);
    nf_buf_add_u64le(out, p->arena_bytes);
    nf_buf_add_u64le(out, p->scratch_bytes);
    const uint32_t counts[] = {p->nargs, p->nouts, p->nvalues, p->nkernels, p->nblocks, p->nlabels};
    for (size_t i = 0; i < NF_ARRAY_LEN(counts); i++) nf_buf_add_u32le(out, counts[i]);
    for (uint32_t i = 0; i < p->nvalues; i++) {
        const struct plan_value *v = &p->value[i];
        add_u16(out, (unsigned)v->dt | (unsigned)v->rank << 8);
        add_u16(out, v->where);
        nf_buf_add_u32le(out, v->index);
        nf_buf_add_u64le(out, (uint64_t)v->offset);
        for (int d = 0; d < v->rank; d++) nf_buf_add_u64le(out, (uint64_t)v->dims[d]);
    }
    for (uint32_t i = 0; i < p->nkernels; i++) {
        const struct plan_kernel *k = &p->kernel[i];
        nf_buf_add_u64le(out, (uint64_t)k->image_offset);
        nf_buf_add_u32le(out, k->args);
        nf_buf_add_u32le(out, (uint32_t)k->text.len);
        nf_buf_add_u64le(out, (uint64_t)k->per_outer);
        nf_buf_add_u64le(out, k->scratch_bytes);
        nf_buf_add_str(out, k->text);
    }
    for (uint32_t i = 0; i < p->nblocks; i++) {
        const struct plan_block *b = &p->block[i];
        nf_buf_add_u32le(out, b->nparam);
        nf_buf_add_u32le(out, b->nresult);
        nf_buf_add_u32le(out, b->nstep);
        for (uint32_t k = 0; k < b->nparam; k++) nf_buf_add_u32le(out, b->param[k]);
        for (uint32_t k = 0; k < b->nresult; k++) nf_buf_add_u32le(out, b->result[k]);
        for (uint32_t k = 0; k < b->nstep; k++) {
            const struct plan_step *s = &b->step[k];
            add_u16(out, s->op);
            add_u16(out, 0);
            nf_buf_add_u32le(out, s->label);
            nf_buf_add_u32le(out, s->nin);
            nf_buf_add_u32le(out, s->nout);
            nf_buf_add_u32le(out, s->nattr);
            for (uint32_t j = 0; j < s->nin; j++) nf_buf_add_u32le(out, s->in[j]);
            for (uint32_t j = 0; j < s->nout; j++) nf_buf_add_u32le(out, s->out[j]);
            for (uint32_t j = 0; j < s->nattr; j++) nf_buf_add_u64le(out, (uint64_t)s->attr[j]);
        }
    }
    for (uint32_t i = 0; i < p->nlabels; i++) {
        nf_buf_add_u32le(out, (uint32_t)p->label[i].len);
        nf_buf_add_str(out, p->label[i]);
    }
}

/* ------------------------------------------------------------------------------------------------------------- read */

/* How many records of at least `each` bytes may follow: a count beyond it is a lie and allocates nothing. */
static bool plausible(const struct nf_reader *r, uint64_t n, uint64_t each) { return n <= nf_reader_left(r) / each; }

static const uint32_t *read_ids(struct nf_reader *r, struct nf_arena *arena, uint32_t n)
{
    if (r->failed || !plausible(r, n, 4)) {
        r->failed = true;
        return NULL;
    }
    uint32_t *ids = nf_arena_alloc_array(arena, n ? n : 1, 4);
    for (uint32_t i = 0; i < n; i++) ids[i] = nf_reader_u32le(r);
    return ids;
}

static void read_step(struct nf_reader *r, struct nf_arena *arena, struct plan_step *s)
{
    s->op = nf_reader_u16le(r);
    nf_reader_u16le(r);
    s->label = nf_reader_u32le(r);
    s->nin = nf_reader_u32le(r);
    s->nout = nf_reader_u32le(r);
    s->nattr = nf_reader_u32le(r);
    s->in = read_ids(r, arena, s->nin);
    s->out = read_ids(r, arena, s->nout);
    if (r->failed || s->nattr > PLAN_ATTRS_MAX || !plausible(r, s->nattr, 8)) {
        r->failed = true;
        return;
    }
    int64_t *attr = nf_arena_alloc_array(arena, s->nattr ? s->nattr : 1, 8);
    for (uint32_t i = 0; i < s->nattr; i++) attr[i] = (int64_t)nf_reader_u64le(r);
    s->attr = attr;
}

static void read_block(struct nf_reader *r, struct nf_arena *arena, struct plan_block *b)
{
    b->nparam = nf_reader_u32le(r);
    b->nresult = nf_reader_u32le(r);
    b->nstep = nf_reader_u32le(r);
    b->param = read_ids(r, arena, b->nparam);
    b->result = read_ids(r, arena, b->nresult);
    if (r->failed || !plausible(r, b->nstep, 20)) {
        r->failed = true;
        return;
    }
    b->step = NF_NEW_ARRAY(arena, struct plan_step, b->nstep ? b->nstep : 1);
    for (uint32_t i = 0; i < b->nstep && !r->failed; i++) read_step(r, arena, &b->step[i]);
}

int plan_read(struct nf_str bytes, const struct plan_sizes *sizes, struct nf_arena *arena, struct plan **ret_plan, struct nf_error *err)
{
    struct nf_reader r = nf_reader_of(bytes);
    struct nf_str magic = nf_reader_bytes(&r, 8);
    if (r.failed || !nf_str_starts(magic, NF_STR("NFCPLAN"))) return nf_fail(err, NF_ECORRUPT, "not a plan for cpu");
    if (!nf_str_eq_c(magic, MAGIC))
        return nf_fail(err, NF_EUNSUPPORTED, "plan of another version (%.*s, this runtime reads %s)", NF_STR_ARG(magic), MAGIC);
    struct plan *p = NF_NEW(arena, struct plan);
    p->features = nf_reader_u64le(&r);
    p->arena_bytes = nf_reader_u64le(&r);
    p->scratch_bytes = nf_reader_u64le(&r);
    uint32_t *counts[] = {&p->nargs, &p->nouts, &p->nvalues, &p->nkernels, &p->nblocks, &p->nlabels};
    for (size_t i = 0; i < NF_ARRAY_LEN(counts); i++) *counts[i] = nf_reader_u32le(&r);
    if (r.failed || !plausible(&r, p->nvalues, 16) || !plausible(&r, p->nkernels, 32) || !plausible(&r, p->nblocks, 12) || !plausible(&r, p->nlabels, 4))
        return nf_fail(err, NF_ECORRUPT, "plan is cut off or its counts are wrong");
    p->value = NF_NEW_ARRAY(arena, struct plan_value, p->nvalues + 1);
    p->kernel = NF_NEW_ARRAY(arena, struct plan_kernel, p->nkernels + 1);
    p->block = NF_NEW_ARRAY(arena, struct plan_block, p->nblocks + 1);
    p->label = NF_NEW_ARRAY(arena, struct nf_str, p->nlabels + 1);
    for (uint32_t i = 0; i < p->nvalues && !r.failed; i++) {
        struct plan_value *v = &p->value[i];
        v->dt = nf_reader_u8(&r);
        v->rank = nf_reader_u8(&r);
        v->where = nf_reader_u8(&r);
        nf_reader_u8(&r);
        v->index = nf_reader_u32le(&r);
        v->offset = (int64_t)nf_reader_u64le(&r);
        if (v->rank > PLAN_RANK_MAX) return nf_fail(err, NF_ECORRUPT, "plan: value %u has rank %u", i, v->rank);
        v->dims = nf_arena_alloc_raw(arena, v->rank * sizeof *v->dims);
        for (int d = 0; d < v->rank; d++) v->dims[d] = (int64_t)nf_reader_u64le(&r);
    }
    for (uint32_t i = 0; i < p->nkernels && !r.failed; i++) {
        struct plan_kernel *k = &p->kernel[i];
        k->image_offset = (int64_t)nf_reader_u64le(&r);
        k->args = nf_reader_u32le(&r);
        uint32_t len = nf_reader_u32le(&r);
        k->per_outer = (int64_t)nf_reader_u64le(&r);
        k->scratch_bytes = nf_reader_u64le(&r);
        k->text = nf_reader_bytes(&r, len);
    }
    for (uint32_t i = 0; i < p->nblocks && !r.failed; i++) read_block(&r, arena, &p->block[i]);
    for (uint32_t i = 0; i < p->nlabels && !r.failed; i++) p->label[i] = nf_reader_bytes(&r, nf_reader_u32le(&r));
    if (r.failed || nf_reader_left(&r)) return nf_fail(err, NF_ECORRUPT, "plan is cut off or too long at byte %zu", nf_reader_offset(&r));
    int rc = plan_check(p, sizes, arena, err);
    if (rc) return rc;
    *ret_plan = p;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ check */

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

static int check_value(const struct plan *p, const struct plan_sizes *z, uint32_t i, struct nf_error *err)
{
    struct plan_value *v = &p->value[i];
    uint64_t room = 0;
    if (v->dt >= CPU_DT_MAX || v->rank > PLAN_RANK_MAX || v->where >= PLAN_WHERE_MAX) BAD("plan: value %u is not one", i);
    v->count = 1;
    for (int d = 0; d < v->rank; d++)
        if (v->dims[d] < 0 || __builtin_mul_overflow(v->count, v->dims[d], &v->count)) BAD("plan: value %u is too large", i);
    if (__builtin_mul_overflow(v->count, (int64_t)cpu_dt_bytes((enum cpu_dt)v->dt), &v->bytes)) BAD("plan: value %u is too large", i);
    if (v->where == PLAN_ARG && v->index < z->nargs) room = z->arg_bytes[v->index];
    else if (v->where == PLAN_OUT && v->index < z->nouts) room = z->out_bytes[v->index];
    else if (v->where == PLAN_CONST) room = z->const_bytes;
    else if (v->where == PLAN_ARENA) room = p->arena_bytes;
    else BAD("plan: value %u is of no argument or output", i);
    if (v->offset < 0 || (uint64_t)v->offset > room || (uint64_t)v->bytes > room - (uint64_t)v->offset) BAD("plan: value %u is outside its buffer", i);
    return 0;
}

static int check_ids(const struct plan *p, const uint32_t *id, uint32_t n, struct nf_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (id[i] >= p->nvalues) BAD("plan: there is no value %u", id[i]);
    return 0;
}

static int check_block(struct plan *p, uint32_t i, int depth, struct nf_error *err);

/* Blocks that a step runs: while has two, case some, the bodies one or two. */
static int check_blocks_of(struct plan *p, const struct plan_step *s, int depth, struct nf_error *err)
{
    int64_t id;
    for (uint32_t i = 0; step_block(s, i, &id); i++) {
        if (id <= 0 || id >= p->nblocks) BAD("plan: there is no block %" PRId64, id);
        int rc = check_block(p, (uint32_t)id, depth + 1, err);
        if (rc) return rc;
    }
    return 0;
}

static int check_block(struct plan *p, uint32_t i, int depth, struct nf_error *err)
{
    struct plan_block *b = &p->block[i];
    int rc = 0;
    if (b->open || depth > PLAN_DEPTH_MAX) BAD("plan: blocks are nested without end");
    b->open = true;
    if ((rc = check_ids(p, b->param, b->nparam, err)) || (rc = check_ids(p, b->result, b->nresult, err))) return rc;
    for (uint32_t k = 0; k < b->nstep; k++) {
        const struct plan_step *s = &b->step[k];
        if (s->op >= PLAN_OP_MAX) BAD("plan: step %u of block %u is not one", k, i);
        const struct row *row = &rows[s->op];
        if (s->nin < row->in_min || s->nin > row->in_max || s->nout < row->out_min || s->nout > row->out_max || s->nattr < row->attrs ||
            s->nattr > PLAN_ATTRS_MAX)
            BAD("plan: step %u of block %u (%s) has %u inputs, %u outputs, %u attributes", k, i, row->name, s->nin, s->nout, s->nattr);
        if (s->label != PLAN_NO_LABEL && s->label >= p->nlabels) BAD("plan: step %u of block %u has no such label", k, i);
        if ((rc = check_ids(p, s->in, s->nin, err)) || (rc = check_ids(p, s->out, s->nout, err))) return rc;
        for (uint32_t j = 0; j < s->nout; j++)
            if (p->value[s->out[j]].where == PLAN_CONST) BAD("plan: step %u of block %u writes a constant", k, i);
        if ((rc = check_blocks_of(p, s, depth, err))) return rc;
        rc = row->check(p, s, err);
        if (rc) {
            nf_error_prefix(err, "plan: step %u of block %u (%s)", k, i, row->name);
            return rc;
        }
    }
    b->open = false;
    return 0;
}

int plan_check(struct plan *p, const struct plan_sizes *z, struct nf_arena *arena, struct nf_error *err)
{
    int rc;
    if (p->nargs != z->nargs || p->nouts != z->nouts) BAD("plan is for %u arguments and %u outputs, the artifact has %u and %u", p->nargs, p->nouts, z->nargs, z->nouts);
    if (p->nvalues > PLAN_VALUES_MAX || p->nblocks == 0) BAD("plan has %u values and %u blocks", p->nvalues, p->nblocks);
    if (p->arena_bytes > (uint64_t)1 << 46 || p->scratch_bytes > (uint64_t)1 << 32) BAD("plan asks for %" PRIu64 " bytes of memory", p->arena_bytes);
    for (uint32_t i = 0; i < p->nvalues; i++)
        if ((rc = check_value(p, z, i, err))) return rc;
    for (uint32_t i = 0; i < p->nkernels; i++) {
        struct plan_kernel *k = &p->kernel[i];
        if (k->args > RP_ARGS_MAX || k->per_outer < 0 || k->scratch_bytes > p->scratch_bytes) BAD("plan: kernel %u is not one", i);
        if (k->image_offset >= 0) {
            if ((uint64_t)k->image_offset >= z->image_bytes) BAD("plan: kernel %u is outside the image", i);
            continue;
        }
        if ((rc = rp_parse(k->text, arena, &k->prog, err))) return rc;
        if ((uint32_t)k->prog->narg > k->args || rp_range(k->prog, 1) != k->per_outer || (uint64_t)k->prog->scratch_bytes > k->scratch_bytes)
            BAD("plan: kernel %u is not what its text says", i);
    }
    if (p->block[0].nparam || p->block[0].nresult) BAD("plan: the program itself takes parameters");
    return check_block(p, 0, 0, err);
}

/* --------------------------------------------------------------------------------------------------------- features */

static const struct {
    uint64_t bit;
    const char *name;
} feature_names[] = {{CPU_FEATURE_AVX2, "avx2"},     {CPU_FEATURE_FMA, "fma"},  {CPU_FEATURE_F16C, "f16c"},
                     {CPU_FEATURE_AVX512, "avx512"}, {CPU_FEATURE_BMI, "bmi2"}, {CPU_FEATURE_NEON, "neon"}};

void cpu_features_print(uint64_t features, struct nf_buf *out)
{
    bool first = true;
    for (size_t i = 0; i < NF_ARRAY_LEN(feature_names); i++) {
        if (!(features & feature_names[i].bit)) continue;
        nf_buf_addf(out, "%s%s", first ? "" : " ", feature_names[i].name);
        first = false;
        features &= ~feature_names[i].bit;
    }
    for (int bit = 0; bit < 64; bit++) {   /* of a later version, or damage */
        if (!(features >> bit & 1)) continue;
        nf_buf_addf(out, "%sbit%d", first ? "" : " ", bit);
        first = false;
    }
    if (first) nf_buf_add_c(out, "none");
}

#define FEATURES_KNOWN ((uint64_t)1 << 63)

/* Asking CPUID costs a microsecond in a virtual machine: once a process. */
uint64_t cpu_features(void)
{
    static _Atomic uint64_t known;
    uint64_t f = atomic_load_explicit(&known, memory_order_relaxed);
    if (f) return f & ~FEATURES_KNOWN;
    f = FEATURES_KNOWN;
#if defined(__x86_64__)
    unsigned eax, ebx, ecx = 0, edx;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx")) __cpuid(1, eax, ebx, ecx, edx);
    if (__builtin_cpu_supports("avx2")) f |= CPU_FEATURE_AVX2;
    if (__builtin_cpu_supports("fma")) f |= CPU_FEATURE_FMA;
    /* Not every compiler's builtin knows f16c; the system keeps its registers where it keeps AVX's. */
    if (__builtin_cpu_supports("avx") && (ecx & bit_F16C)) f |= CPU_FEATURE_F16C;
    if (__builtin_cpu_supports("bmi2") && __builtin_cpu_supports("bmi")) f |= CPU_FEATURE_BMI;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        f |= CPU_FEATURE_AVX512;
#elif defined(__aarch64__)
    f |= CPU_FEATURE_NEON; /* as the compiler that made this takes for granted; code asks for nothing beyond ARMv8.0 */
#endif
    atomic_store_explicit(&known, f, memory_order_relaxed);
    return f & ~FEATURES_KNOWN;
}
