/* random.c: see random.h. Operations are chosen so that rounding stays rounding: what would turn a difference in the last bit into
 * another result (floor, comparisons, conversion to integers) is only applied to integers. */
#include "tests/unit/codegen/random.h"

#include "tests/unit/codegen/random_internal.h"

void type(struct maker *m, const struct value *v)
{
    nf_buf_add_c(m->out, "tensor<");
    for (int d = 0; d < v->rank; d++) nf_buf_addf(m->out, "%" PRId64 "x", v->dims[d]);
    nf_buf_addf(m->out, "%s>", cpu_dt_info[v->dt].name);
}
struct value *add(struct maker *m, const struct value *like)
{
    struct value *v = &m->v[m->n++];
    *v = *like;
    v->id = m->next++;
    return v;
}
static int64_t extent(struct maker *m)
{
    static const int64_t e[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 0};
    return e[pick(m, pick(m, 12) ? 11 : 12)];
}
static enum cpu_dt element(struct maker *m)
{
    static const enum cpu_dt t[] = {CPU_F32, CPU_F32, CPU_F32, CPU_F32, CPU_F64, CPU_BF16, CPU_F16, CPU_S32, CPU_S32, CPU_S8, CPU_U8, CPU_S64, CPU_U32, CPU_S16, CPU_PRED, CPU_U16,
                                     CPU_U64, CPU_S4, CPU_U4, CPU_C64, CPU_F8E4M3FN, CPU_F8E5M2, CPU_F8E4M3FNUZ, CPU_S2, CPU_U2, CPU_C128, CPU_F4E2M1FN, CPU_F6E2M3FN, CPU_F6E3M2FN, CPU_F8E3M4,
                                     CPU_F8E4M3, CPU_F8E4M3B11FNUZ, CPU_F8E5M2FNUZ, CPU_F8E8M0FNU};
    if (pick(m, 3) == 0) return t[pick(m, 4)];
    return t[pick(m, NF_ARRAY_LEN(t))];
}

static struct value *old_value(struct maker *m)
{
    /* Recent ones more often. */
    int i = m->n - 1 - pick(m, NF_MIN(m->n, 1 + pick(m, m->n)));
    return &m->v[i];
}
struct value *same_type(struct maker *m, const struct value *v)
{
    for (int tries = 0; tries < 20; tries++) {
        struct value *w = old_value(m);
        if (w->dt == v->dt && w->rank == v->rank && memcmp(w->dims, v->dims, sizeof *v->dims * (size_t)v->rank) == 0) return w;
    }
    return (struct value *)(uintptr_t)v;
}

/* ---------------------------------------------------------------------------- operations in their generic form, one by one */

static void types(struct maker *m, const struct value *v, int n)
{
    nf_buf_add_char(m->out, '(');
    for (int i = 0; i < n; i++) {
        nf_buf_add_c(m->out, i ? ", " : "");
        type(m, &v[i]);
    }
    nf_buf_add_char(m->out, ')');
}
struct value generic(struct maker *m, const char *op, const char *attrs, const char *region, int nin, const struct value *in, int nout, const struct value *like)
{
    struct value r = *add(m, like);
    nf_buf_addf(m->out, "  %%%d", r.id);
    for (int i = 1; i < nout; i++) nf_buf_addf(m->out, ", %%%d", add(m, &like[i])->id);
    nf_buf_addf(m->out, " = \"%s\"(", op);
    for (int i = 0; i < nin; i++) nf_buf_addf(m->out, "%s%%%d", i ? ", " : "", in[i].id);
    nf_buf_addf(m->out, ") <{%s}>", attrs);
    if (region) nf_buf_addf(m->out, " (%s)", region);
    nf_buf_add_c(m->out, " : ");
    types(m, in, nin);
    nf_buf_add_c(m->out, " -> ");
    types(m, like, nout);
    nf_buf_add_char(m->out, '\n');
    return r;
}
struct value one(struct maker *m, const char *op, const struct value *in, enum cpu_dt dt)
{
    struct value like = *in;
    like.dt = dt;
    return generic(m, op, "", NULL, 1, in, 1, &like);
}
struct value two(struct maker *m, const char *op, const struct value *a, const struct value *b) { return generic(m, op, "", NULL, 2, (struct value[]){*a, *b}, 1, a); }

struct value weights(struct maker *m, enum cpu_dt dt, int rank, const int64_t *dims)
{
    struct value like = {.dt = CPU_S32, .rank = rank}, i;
    char attr[64];
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    nf_format(attr, sizeof attr, "iota_dimension = %d : i64", rank ? pick(m, rank) : 0);
    i = generic(m, "stablehlo.iota", attr, NULL, 0, NULL, 1, &like);
    if (dt == CPU_S32) return i;
    struct value f = one(m, "stablehlo.convert", &i, dt);
    return cpu_dt_float(dt) ? one(m, "stablehlo.cosine", &f, dt) : f;
}

const char *region2(struct nf_buf *b, enum cpu_dt t, const char *op)
{
    const char *n = cpu_dt_info[t].name;
    nf_buf_clear(b);
    nf_buf_addf(b, "{\n  ^bb0(%%l: tensor<%s>, %%r: tensor<%s>):\n    %%z = stablehlo.%s %%l, %%r : tensor<%s>\n    stablehlo.return %%z : tensor<%s>\n  }", n, n, op, n, n);
    return b->data;
}
static const char *less_region(struct nf_buf *b, enum cpu_dt t, int operands, const char *how)
{
    const char *n = cpu_dt_info[t].name;
    nf_buf_clear(b);
    nf_buf_addf(b, "{\n  ^bb0(%%l: tensor<%s>, %%r: tensor<%s>", n, n);
    for (int i = 1; i < operands; i++) nf_buf_addf(b, ", %%l%d: tensor<i32>, %%r%d: tensor<i32>", i, i);
    nf_buf_addf(b, "):\n    %%z = stablehlo.compare %s, %%l, %%r%s : (tensor<%s>, tensor<%s>) -> tensor<i1>\n    stablehlo.return %%z : tensor<i1>\n  }", how, cpu_dt_float(t) ? ", TOTALORDER" : "", n, n);
    return b->data;
}

static void complex_unary(struct maker *m, const struct value *v)
{
    struct value a = *v, t;
    enum cpu_dt part = a.dt == CPU_C64 ? CPU_F32 : CPU_F64;
    switch (pick(m, 6)) {
    case 0: one(m, "stablehlo.negate", &a, a.dt); break;
    case 1: one(m, "stablehlo.real", &a, part); break;
    case 2: one(m, "stablehlo.imag", &a, part); break;
    case 3: one(m, "stablehlo.abs", &a, part); break;
    case 4: one(m, "chlo.conj", &a, a.dt); break;
    default: /* of numbers whose parts are at most 1 */
        t = one(m, "stablehlo.real", &a, part);
        t = one(m, "stablehlo.tanh", &t, part);
        t = generic(m, "stablehlo.complex", "", NULL, 2, (struct value[]){t, t}, 1, &a);
        static const char *const f[] = {"exponential", "sine", "cosine", "sqrt", "log_plus_one", "exponential_minus_one", "tanh", "logistic"};
        char name[64];
        nf_format(name, sizeof name, "stablehlo.%s", f[pick(m, 8)]);
        one(m, name, &t, a.dt);
        break;
    }
}

static void rare_unary(struct maker *m, const struct value *v)
{
    static const char *const any[] = {"stablehlo.cbrt", "chlo.erf", "chlo.erfc", "chlo.sinh", "chlo.atan", "chlo.asinh", "stablehlo.exponential_minus_one", "chlo.digamma_"};
    struct value a = *v, b;
    if (!cpu_dt_float(a.dt)) {
        if (cpu_dt_int(a.dt) && cpu_dt_info[a.dt].is_signed) one(m, "stablehlo.sign", &a, a.dt);
        return;
    }
    b = one(m, "stablehlo.tanh", &a, a.dt);
    switch (pick(m, 6)) {
    case 0: /* of what is not negative */
        b = one(m, "stablehlo.abs", &b, a.dt);
        one(m, pick(m, 2) ? "stablehlo.sqrt" : "stablehlo.log_plus_one", &b, a.dt);
        break;
    case 1: one(m, "stablehlo.is_finite", &b, CPU_PRED); break;
    case 2: { /* away from where both are 0, and from the cut: of b and a positive or the other way round, or of a negative and b */
        struct value c = one(m, "stablehlo.exponential", &b, a.dt);
        int way = pick(m, 3);
        if (way == 2) c = one(m, "stablehlo.negate", &c, a.dt);
        two(m, "stablehlo.atan2", way ? &c : &b, way ? &b : &c);
        break;
    }
    case 3: /* of what is between 1 and e */
        b = one(m, "stablehlo.abs", &b, a.dt);
        b = one(m, "stablehlo.exponential", &b, a.dt);
        one(m, (const char *[]){"stablehlo.log", "stablehlo.rsqrt", "chlo.lgamma", "chlo.digamma", "chlo.acosh"}[pick(m, 5)], &b, a.dt);
        break;
    default: one(m, any[pick(m, 7)], &b, a.dt); break;
    }
}

static void make_complex(struct maker *m, const struct value *v)
{
    struct value a = *v, b = *same_type(m, v), like = a;
    if (a.dt != CPU_F32 && a.dt != CPU_F64) return;
    like.dt = a.dt == CPU_F32 ? CPU_C64 : CPU_C128;
    generic(m, "stablehlo.complex", "", NULL, 2, (struct value[]){a, b}, 1, &like);
}

static void clamp(struct maker *m, const struct value *v)
{
    struct value a = *v, lo = {.dt = a.dt}, hi = {.dt = a.dt};
    if (a.dt == CPU_PRED || cpu_dt_complex(a.dt)) return;
    lo.id = scalar(m, a.dt);
    hi.id = scalar(m, a.dt);
    generic(m, "stablehlo.clamp", "", NULL, 3, (struct value[]){lo, a, hi}, 1, &a);
}

static void gather(struct maker *m, const struct value *v, bool scatters)
{
    struct nf_buf attrs = NF_BUF_INIT, region = NF_BUF_INIT;
    struct value a = *v, index = {.dt = CPU_S32, .rank = 1, .id = 0}, rows = a;
    if (a.rank == 0 || count(&a) == 0) return;
    index.dims[0] = 1 + pick(m, 6);
    index.id = m->next++;
    rows.dims[0] = index.dims[0];
    nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<[", index.id);
    for (int64_t i = 0; i < index.dims[0]; i++) nf_buf_addf(m->out, "%s%d", i ? ", " : "", pick(m, (int)a.dims[0] + 4) - 2);
    nf_buf_add_c(m->out, "]> : ");
    type(m, &index);
    nf_buf_add_char(m->out, '\n');
    nf_buf_addf(&attrs, scatters ? "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [" : "dimension_numbers = #stablehlo.gather<offset_dims = [");
    for (int d = 1; d < a.rank; d++) nf_buf_addf(&attrs, d > 1 ? ", %d" : "%d", d);
    nf_buf_addf(&attrs, scatters ? "], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>" : "], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1");
    if (!scatters) {
        for (int d = 1; d < a.rank; d++) nf_buf_addf(&attrs, ", %" PRId64, a.dims[d]);
        nf_buf_add_char(&attrs, '>');
        generic(m, "stablehlo.gather", attrs.data, NULL, 2, (struct value[]){a, index}, 1, &rows);
    } else {
        static const char *const how[] = {"add", "maximum", "minimum", "multiply"};
        struct value updates = weights(m, a.dt == CPU_PRED || cpu_dt_complex(a.dt) ? CPU_S32 : a.dt, rows.rank, rows.dims);
        if (updates.dt != a.dt) updates = one(m, "stablehlo.convert", &updates, a.dt);
        const char *op = a.dt == CPU_PRED || cpu_dt_complex(a.dt) ? "add" : how[pick(m, cpu_dt_small(a.dt) ? 3 : 4)];
        if (cpu_dt_small(a.dt) && op == how[0]) op = "maximum"; /* sums round at other places */
        generic(m, "stablehlo.scatter", attrs.data, region2(&region, a.dt, op), 3, (struct value[]){a, index, updates}, 1, &a);
    }
    nf_buf_done(&attrs);
    nf_buf_done(&region);
}

void dense64(struct nf_buf *b, const char *name, const int64_t *v, int n)
{
    nf_buf_addf(b, "%s%s = array<i64", b->len ? ", " : "", name);
    for (int i = 0; i < n; i++) nf_buf_addf(b, i ? ", %" PRId64 : ": %" PRId64, v[i]);
    nf_buf_add_char(b, '>');
}

static void window(struct maker *m, const struct value *v)
{
    struct nf_buf attrs = NF_BUF_INIT, region = NF_BUF_INIT;
    struct value a = *v, like = a, init = {.dt = a.dt};
    int64_t size[RANK_MAX] = {0}, step[RANK_MAX] = {0}, base[RANK_MAX] = {0}, dil[RANK_MAX] = {0}, pad[2 * RANK_MAX] = {0};
    if (a.rank == 0 || cpu_dt_complex(a.dt) || count(&a) == 0) return;
    for (int d = 0; d < a.rank; d++) {
        size[d] = 1 + pick(m, 3), step[d] = 1 + pick(m, 2), base[d] = 1 + pick(m, 4) / 3, dil[d] = 1 + pick(m, 4) / 3;
        pad[2 * d] = pick(m, 3), pad[2 * d + 1] = pick(m, 3);
        if (pick(m, 8) == 0) size[d] = a.dims[d], pad[2 * d] = a.dims[d] - 1, pad[2 * d + 1] = 0, step[d] = base[d] = dil[d] = 1; /* a scan */
        int64_t room = (a.dims[d] - 1) * base[d] + 1 + pad[2 * d] + pad[2 * d + 1] - ((size[d] - 1) * dil[d] + 1);
        like.dims[d] = room < 0 ? 0 : room / step[d] + 1;
    }
    dense64(&attrs, "window_dimensions", size, a.rank);
    dense64(&attrs, "window_strides", step, a.rank);
    dense64(&attrs, "base_dilations", base, a.rank);
    dense64(&attrs, "window_dilations", dil, a.rank);
    nf_buf_add_c(&attrs, ", padding = dense<[");
    for (int d = 0; d < a.rank; d++) nf_buf_addf(&attrs, "%s[%" PRId64 ", %" PRId64 "]", d ? ", " : "", pad[2 * d], pad[2 * d + 1]);
    nf_buf_addf(&attrs, "]> : tensor<%dx2xi64>", a.rank);
    const char *op = cpu_dt_small(a.dt) || a.dt == CPU_PRED ? "maximum" : (const char *[]){"add", "maximum", "minimum"}[pick(m, 3)];
    init.id = scalar(m, a.dt);
    generic(m, "stablehlo.reduce_window", attrs.data, region2(&region, a.dt, op), 2, (struct value[]){a, init}, 1, &like);
    nf_buf_done(&attrs);
    nf_buf_done(&region);
}

static void sort(struct maker *m, const struct value *v)
{
    struct nf_buf region = NF_BUF_INIT;
    struct value a = *v;
    char attrs[96];
    if (a.rank == 0 || cpu_dt_complex(a.dt) || a.dt == CPU_PRED || (!exact(&a) && cpu_dt_info[a.dt].bits < 16)) return; /* signs of NaN are anybody's */
    int dim = pick(m, a.rank), n = exact(&a) ? 1 + pick(m, 2) : 1;
    nf_format(attrs, sizeof attrs, "dimension = %d : i64, is_stable = true", dim);
    struct value in[2] = {a, a}, like[2] = {a, a};
    if (n == 2) {
        in[1] = weights(m, CPU_S32, a.rank, a.dims);
        like[1] = in[1];
    }
    generic(m, "stablehlo.sort", attrs, less_region(&region, a.dt, n, pick(m, 2) ? "LT" : "GT"), n, in, n, like);
    if (exact(&a) && pick(m, 2)) {
        struct value k[2] = {a, a};
        k[0].dims[a.rank - 1] = k[1].dims[a.rank - 1] = a.dims[a.rank - 1] ? 1 + pick(m, (int)a.dims[a.rank - 1]) : 0;
        k[1].dt = CPU_S32;
        nf_format(attrs, sizeof attrs, "k = %" PRId64 " : i64", k[0].dims[a.rank - 1]);
        generic(m, "chlo.top_k", attrs, NULL, 1, &a, 2, k);
    }
    nf_buf_done(&region);
}

/* b spatial.. f, with a kernel of its own. */
static void convolution(struct maker *m, const struct value *v)
{
    struct nf_buf attrs = NF_BUF_INIT;
    struct value a = *v, like = a;
    if (a.rank < 3 || a.dt == CPU_PRED || cpu_dt_small(a.dt) || cpu_dt_complex(a.dt) || count(&a) == 0 || count(&a) > 4000) return;
    int s = a.rank - 2;
    int64_t f = a.dims[a.rank - 1], groups = f % 2 == 0 && pick(m, 2) ? 2 : pick(m, 4) == 0 ? f : 1, out = groups * (1 + pick(m, 3)), kd[RANK_MAX] = {0}, step[RANK_MAX] = {0}, ld[RANK_MAX] = {0}, rd[RANK_MAX] = {0}, pad[2 * RANK_MAX] = {0};
    for (int d = 0; d < s; d++) {
        kd[d] = 1 + pick(m, 3), step[d] = 1 + pick(m, 2), ld[d] = 1 + pick(m, 4) / 3, rd[d] = 1 + pick(m, 4) / 3, pad[2 * d] = pick(m, 3), pad[2 * d + 1] = pick(m, 3);
        int64_t room = (a.dims[1 + d] - 1) * ld[d] + 1 + pad[2 * d] + pad[2 * d + 1] - ((kd[d] - 1) * rd[d] + 1);
        like.dims[1 + d] = room < 0 ? 0 : room / step[d] + 1;
    }
    kd[s] = f / groups;
    kd[s + 1] = out;
    like.dims[a.rank - 1] = out;
    struct value w = weights(m, a.dt, s + 2, kd);
    dense64(&attrs, "window_strides", step, s);
    dense64(&attrs, "lhs_dilation", ld, s);
    dense64(&attrs, "rhs_dilation", rd, s);
    nf_buf_add_c(&attrs, ", padding = dense<[");
    for (int d = 0; d < s; d++) nf_buf_addf(&attrs, "%s[%" PRId64 ", %" PRId64 "]", d ? ", " : "", pad[2 * d], pad[2 * d + 1]);
    nf_buf_addf(&attrs, "]> : tensor<%dx2xi64>, feature_group_count = %" PRId64 " : i64, batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<%s>", s, groups,
                s == 1 ? "[b, 0, f]x[0, i, o]->[b, 0, f]" : "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]");
    struct value r = generic(m, "stablehlo.convolution", attrs.data, NULL, 2, (struct value[]){a, w}, 1, &like);
    if (!exact(&a)) one(m, "stablehlo.tanh", &r, a.dt);
    nf_buf_done(&attrs);
}

static void fft(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    char attrs[128];
    if (a.rank == 0 || count(&a) == 0 || (a.dt != CPU_F32 && a.dt != CPU_F64 && !cpu_dt_complex(a.dt))) return;
    int64_t n = a.dims[a.rank - 1];
    bool real = !cpu_dt_complex(a.dt);
    like.dt = a.dt == CPU_F32 || a.dt == CPU_C64 ? CPU_C64 : CPU_C128;
    if (real) like.dims[a.rank - 1] = n / 2 + 1;
    nf_format(attrs, sizeof attrs, "fft_length = array<i64: %" PRId64 ">, fft_type = #stablehlo<fft_type %s>", n, real ? "RFFT" : pick(m, 2) ? "FFT" : "IFFT");
    generic(m, "stablehlo.fft", attrs, NULL, 1, &a, 1, &like);
}

static void random_bits(struct maker *m)
{
    static const char *const how[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
    static const enum cpu_dt t[] = {CPU_U32, CPU_U64, CPU_U8, CPU_U16, CPU_S32};
    struct value state = {.dt = CPU_U64, .rank = 1, .dims = {2}, .id = m->next++}, like[2] = {state, {.dt = t[pick(m, 5)], .rank = pick(m, 3)}};
    char attrs[96];
    for (int d = 0; d < like[1].rank; d++) like[1].dims[d] = extent(m);
    nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<[%d, %d]> : tensor<2xui64>\n", state.id, pick(m, 1000000), pick(m, 1000000));
    nf_format(attrs, sizeof attrs, "rng_algorithm = #stablehlo<rng_algorithm %s>", how[pick(m, 3)]);
    generic(m, "stablehlo.rng_bit_generator", attrs, NULL, 1, &state, 2, like);
}

/* Of one device: those of a grid draw from the evaluator's numbers in any order. */
static void random_numbers(struct maker *m, const struct value *v)
{
    struct value like = *v, in[3] = {{.dt = v->dt}, {.dt = v->dt}, {.dt = CPU_S64, .rank = 1, .dims = {v->rank}}};
    char attrs[96];
    if (m->replicas * m->partitions > 1) return;
    for (int i = 0; i < 2; i++) in[i].id = scalar(m, v->dt);
    in[2].id = m->next++;
    nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<", in[2].id);
    for (int d = 0; d < v->rank; d++) nf_buf_addf(m->out, "%s%" PRId64 "%s", d ? ", " : "[", v->dims[d], d == v->rank - 1 ? "]" : "");
    nf_buf_addf(m->out, "> : tensor<%dxi64>\n", v->rank);
    nf_format(attrs, sizeof attrs, "rng_distribution = #stablehlo<rng_distribution %s>", cpu_dt_float(v->dt) && pick(m, 2) ? "NORMAL" : "UNIFORM");
    generic(m, "stablehlo.rng", attrs, NULL, 3, in, 1, &like);
}

static void branches(struct maker *m, const struct value *v)
{
    struct nf_buf r = NF_BUF_INIT;
    struct value a = *v, b = *same_type(m, v), which = {.dt = CPU_S32, .id = scalar(m, CPU_S32)};
    const char *op = a.dt == CPU_PRED ? "xor" : "add";
    for (int k = 0; k < 3; k++) {
        nf_buf_addf(&r, "%s{\n    %%c%d = stablehlo.%s %%%d, %%%d : ", k ? ", " : "", k, op, k == 1 ? b.id : a.id, k == 2 ? a.id : b.id);
        struct nf_buf *keep = m->out;
        m->out = &r;
        type(m, &a);
        nf_buf_addf(&r, "\n    stablehlo.return %%c%d : ", k);
        type(m, &a);
        m->out = keep;
        nf_buf_add_c(&r, "\n  }");
    }
    generic(m, "stablehlo.case", "", r.data, 1, &which, 1, &a);
    nf_buf_done(&r);
}

/* Cholesky's factor of v vT + n I, and a system of equations with it. */
static void factor(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a, i, j;
    if (a.rank != 2 || (a.dt != CPU_F32 && a.dt != CPU_F64) || a.dims[0] > 9 || count(&a) == 0) return;
    a = one(m, "stablehlo.tanh", &a, a.dt);
    like.dims[1] = a.dims[0];
    struct value p = generic(m, "stablehlo.dot_general", "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>", NULL, 2, (struct value[]){a, a}, 1, &like);
    struct value n = like, diag = like;
    n.dt = CPU_S32;
    diag.dt = CPU_PRED;
    i = generic(m, "stablehlo.iota", "iota_dimension = 0 : i64", NULL, 0, NULL, 1, &n);
    j = generic(m, "stablehlo.iota", "iota_dimension = 1 : i64", NULL, 0, NULL, 1, &n);
    diag = generic(m, "stablehlo.compare", "comparison_direction = #stablehlo<comparison_direction EQ>", NULL, 2, (struct value[]){i, j}, 1, &diag);
    diag = one(m, "stablehlo.convert", &diag, a.dt);
    p = two(m, "stablehlo.add", &p, &diag);
    struct value l = generic(m, "stablehlo.cholesky", pick(m, 2) ? "lower = true" : "lower = false", NULL, 1, &p, 1, &like);
    generic(m, "stablehlo.triangular_solve", "left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>", NULL, 2, (struct value[]){l, a}, 1, &a);
}

static void bits_of(struct maker *m, const struct value *v)
{
    static const enum cpu_dt t[] = {CPU_U8, CPU_S16, CPU_U32, CPU_S64, CPU_S4, CPU_PRED};
    struct value a = *v, like = a;
    if (!exact(&a)) return;
    like.dt = t[pick(m, 6)];
    int from = cpu_dt_info[a.dt].bits, to = cpu_dt_info[like.dt].bits;
    if (from > to) {
        if (a.rank == RANK_MAX) return;
        like.dims[like.rank++] = from / to;
    } else if (from < to) {
        if (a.rank == 0 || a.dims[a.rank - 1] != to / from) return;
        like.rank--;
    }
    if (count(&like) > 20000) return;
    generic(m, "stablehlo.bitcast_convert", "", NULL, 1, &a, 1, &like);
}

static void unary(struct maker *m, const struct value *v)
{
    static const char *const floats[] = {"tanh", "negate", "abs", "sine", "cosine", "logistic", "exponential"};
    static const char *const ints[] = {"negate", "not", "popcnt", "count_leading_zeros"};
    if (cpu_dt_complex(v->dt)) {
        complex_unary(m, v);
        return;
    }
    const char *op = cpu_dt_float(v->dt) ? floats[pick(m, 7)] : v->dt == CPU_PRED ? "not" : ints[pick(m, 4)];
    struct value in = *v, *r;
    if (strcmp(op, "exponential") == 0 || strcmp(op, "sine") == 0 || strcmp(op, "cosine") == 0) { /* of what is at most 1 */
        r = add(m, &in);
        nf_buf_addf(m->out, "  %%%d = stablehlo.tanh %%%d : ", r->id, in.id);
        type(m, r);
        nf_buf_add_char(m->out, '\n');
        in = *r;
    }
    r = add(m, &in);
    nf_buf_addf(m->out, "  %%%d = stablehlo.%s %%%d : ", r->id, op, in.id);
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void binary(struct maker *m, const struct value *v)
{
    static const char *const floats[] = {"add", "subtract", "multiply", "maximum", "minimum"};
    static const char *const ints[] = {"add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor", "divide", "remainder", "shift_left", "shift_right_logical", "shift_right_arithmetic"};
    static const char *const preds[] = {"and", "or", "xor", "add", "multiply", "maximum", "minimum"};
    struct value a = *v, b = *same_type(m, v);
    const char *op = cpu_dt_complex(v->dt) ? floats[pick(m, 3)] : cpu_dt_float(v->dt) ? floats[pick(m, 5)] : v->dt == CPU_PRED ? preds[pick(m, 7)] : ints[pick(m, 13)];
    struct value *r = add(m, &a);
    nf_buf_addf(m->out, "  %%%d = stablehlo.%s %%%d, %%%d : ", r->id, op, a.id, b.id);
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void line2(struct maker *m, struct value *from, const struct value *r)
{
    nf_buf_add_c(m->out, " : (");
    type(m, from);
    nf_buf_add_c(m->out, ") -> ");
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void compare(struct maker *m, const struct value *v)
{
    static const char *const dir[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    struct value a = *v, b = *same_type(m, v), like = a;
    if (!exact(&a)) return;
    like.dt = CPU_PRED;
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.compare %s, %%%d, %%%d : (", r->id, dir[pick(m, 6)], a.id, b.id);
    type(m, &a);
    nf_buf_add_c(m->out, ", ");
    type(m, &b);
    nf_buf_add_c(m->out, ") -> ");
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void select_op(struct maker *m, const struct value *v)
{
    struct value a = *v, b = *same_type(m, v), p = {0};
    bool found = false;
    for (int i = 0; i < m->n; i++)
        if (m->v[i].dt == CPU_PRED && m->v[i].rank == a.rank && memcmp(m->v[i].dims, a.dims, sizeof *a.dims * (size_t)a.rank) == 0) {
            p = m->v[i];
            found = true;
        }
    if (!found) return;
    struct value *r = add(m, &a);
    nf_buf_addf(m->out, "  %%%d = stablehlo.select %%%d, %%%d, %%%d : ", r->id, p.id, a.id, b.id);
    type(m, &p);
    nf_buf_add_c(m->out, ", ");
    type(m, &a);
    nf_buf_add_char(m->out, '\n');
}

static void convert(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    like.dt = element(m);
    if (!exact(&a) && exact(&like)) return;
    if (cpu_dt_complex(a.dt) && !cpu_dt_complex(like.dt)) return;
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.convert %%%d", r->id, a.id);
    line2(m, &a, r);
}

static void list(struct maker *m, const char *name, const int64_t *v, int n)
{
    nf_buf_addf(m->out, "%s", name);
    for (int i = 0; i < n; i++) nf_buf_addf(m->out, i ? ", %" PRId64 : "%" PRId64, v[i]);
    nf_buf_add_char(m->out, ']');
}

static void transpose(struct maker *m, const struct value *v)
{
    int64_t perm[RANK_MAX];
    struct value a = *v, like = a;
    for (int i = 0; i < a.rank; i++) perm[i] = i;
    for (int i = a.rank - 1; i > 0; i--) {
        int k = pick(m, i + 1);
        int64_t t = perm[i];
        perm[i] = perm[k];
        perm[k] = t;
    }
    for (int i = 0; i < a.rank; i++) like.dims[i] = a.dims[perm[i]];
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.transpose %%%d", r->id, a.id);
    list(m, ", dims = [", perm, a.rank);
    line2(m, &a, r);
}

static void reshape(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    int64_t left = count(&a);
    like.rank = 0;
    if (left == 0) return;
    while (like.rank < RANK_MAX - 1 && (left > 1 || pick(m, 3) == 0)) {
        int64_t d = left;
        for (int tries = 0; tries < 6; tries++) {
            int64_t c = 1 + pick(m, (int)NF_MIN(left, (int64_t)40));
            if (left % c == 0) d = c;
        }
        like.dims[like.rank++] = d;
        left /= d;
    }
    if (left > 1) like.dims[like.rank++] = left;
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.reshape %%%d", r->id, a.id);
    line2(m, &a, r);
}

static void broadcast(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    int64_t map[RANK_MAX];
    if (a.rank == RANK_MAX) return;
    int at = pick(m, a.rank + 1);
    like.rank = a.rank + 1;
    for (int d = 0, k = 0; d < like.rank; d++) {
        if (d == at) {
            like.dims[d] = 1 + pick(m, 5);
            continue;
        }
        map[k] = d;
        like.dims[d] = a.dims[k] == 1 && pick(m, 2) ? 1 + pick(m, 9) : a.dims[k];
        k++;
    }
    if (count(&like) > 20000) return;
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.broadcast_in_dim %%%d", r->id, a.id);
    list(m, ", dims = [", map, a.rank);
    line2(m, &a, r);
}

static void slice(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    int64_t lo[RANK_MAX], hi[RANK_MAX], st[RANK_MAX];
    for (int d = 0; d < a.rank; d++) {
        st[d] = 1 + pick(m, 3);
        lo[d] = a.dims[d] ? pick(m, (int)a.dims[d]) : 0;
        hi[d] = lo[d] + (a.dims[d] - lo[d] ? pick(m, (int)(a.dims[d] - lo[d]) + 1) : 0);
        if (pick(m, 2)) {
            lo[d] = 0;
            hi[d] = a.dims[d];
            st[d] = 1;
        }
        like.dims[d] = (hi[d] - lo[d] + st[d] - 1) / st[d];
    }
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.slice %%%d [", r->id, a.id);
    for (int d = 0; d < a.rank; d++) nf_buf_addf(m->out, "%s%" PRId64 ":%" PRId64 ":%" PRId64, d ? ", " : "", lo[d], hi[d], st[d]);
    nf_buf_add_char(m->out, ']');
    line2(m, &a, r);
}

static void reverse(struct maker *m, const struct value *v)
{
    struct value a = *v;
    int64_t dims[RANK_MAX];
    int n = 0;
    for (int d = 0; d < a.rank; d++)
        if (pick(m, 2)) dims[n++] = d;
    struct value *r = add(m, &a);
    nf_buf_addf(m->out, "  %%%d = stablehlo.reverse %%%d", r->id, a.id);
    list(m, ", dims = [", dims, n);
    nf_buf_add_c(m->out, " : ");
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void concatenate(struct maker *m, const struct value *v)
{
    struct value a = *v, b = *same_type(m, v), like = a;
    if (a.rank == 0) return;
    int d = pick(m, a.rank);
    like.dims[d] = 2 * a.dims[d];
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.concatenate %%%d, %%%d, dim = %d : (", r->id, a.id, b.id, d);
    type(m, &a);
    nf_buf_add_c(m->out, ", ");
    type(m, &b);
    nf_buf_add_c(m->out, ") -> ");
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

int scalar(struct maker *m, enum cpu_dt t)
{
    int id = m->next++;
    if (t == CPU_PRED) nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<%s> : tensor<i1>\n", id, pick(m, 2) ? "true" : "false");
    else if (cpu_dt_float(t) || cpu_dt_complex(t)) nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<%s> : tensor<%s>\n", id, cpu_dt_complex(t) ? "(0.5, -0.25)" : pick(m, 2) ? "0.0" : "-0.5", cpu_dt_info[t].name);
    else nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<%d> : tensor<%s>\n", id, pick(m, 4), cpu_dt_info[t].name);
    return id;
}

static void pad(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    int64_t lo[RANK_MAX], hi[RANK_MAX], in[RANK_MAX];
    int fill = scalar(m, a.dt);
    for (int d = 0; d < a.rank; d++) {
        lo[d] = pick(m, 5) - 2;
        hi[d] = pick(m, 5) - 2;
        in[d] = pick(m, 3) ? 0 : pick(m, 3);
        like.dims[d] = (a.dims[d] ? (a.dims[d] - 1) * (in[d] + 1) + 1 : 0) + lo[d] + hi[d];
        if (like.dims[d] < 0) {
            lo[d] = hi[d] = 0;
            like.dims[d] = a.dims[d] ? (a.dims[d] - 1) * (in[d] + 1) + 1 : 0;
        }
    }
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.pad %%%d, %%%d", r->id, a.id, fill);
    list(m, ", low = [", lo, a.rank);
    list(m, ", high = [", hi, a.rank);
    list(m, ", interior = [", in, a.rank);
    nf_buf_add_c(m->out, " : (");
    type(m, &a);
    nf_buf_addf(m->out, ", tensor<%s>) -> ", cpu_dt_info[a.dt].name);
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void reduce(struct maker *m, const struct value *v)
{
    static const char *const floats[] = {"add", "maximum", "minimum"};
    static const char *const ints[] = {"add", "maximum", "minimum", "multiply", "and", "or", "xor"};
    struct value a = *v, like = a;
    int64_t dims[RANK_MAX];
    int n = 0;
    like.rank = 0;
    for (int d = 0; d < a.rank; d++) {
        if (pick(m, 2)) dims[n++] = d;
        else like.dims[like.rank++] = a.dims[d];
    }
    if (n == 0) return;
    /* Sums of narrow floats differ on purpose: native code rounds them once, the evaluator at every step. */
    const char *op = cpu_dt_complex(a.dt) ? "add" : cpu_dt_small(a.dt) ? floats[1 + pick(m, 2)] : cpu_dt_float(a.dt) ? floats[pick(m, 3)] : ints[pick(m, 7)];
    int init = scalar(m, a.dt);
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.reduce(%%%d init: %%%d) applies stablehlo.%s across dimensions = [", r->id, a.id, init, op);
    for (int i = 0; i < n; i++) nf_buf_addf(m->out, i ? ", %" PRId64 : "%" PRId64, dims[i]);
    nf_buf_add_c(m->out, "] : (");
    type(m, &a);
    nf_buf_addf(m->out, ", tensor<%s>) -> ", cpu_dt_info[a.dt].name);
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void dot(struct maker *m, const struct value *v)
{
    struct value a = *v, b = *same_type(m, v), like = a;
    if (a.rank < 2 || a.dt == CPU_PRED || (!exact(&a) && cpu_dt_info[a.dt].bits < 16)) return;
    int batch = pick(m, a.rank - 1), k = a.rank - 1;
    int64_t na = 1, nb = 1;
    like.rank = 0;
    for (int d = 0; d < batch; d++) like.dims[like.rank++] = a.dims[d];
    for (int side = 0; side < 2; side++)
        for (int d = batch; d < k; d++) {
            if (like.rank == RANK_MAX) return;
            like.dims[like.rank++] = a.dims[d];
            if (side) nb *= a.dims[d];
            else na *= a.dims[d];
        }
    if (count(&like) > 20000 || na * nb > 20000) return;
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.dot_general %%%d, %%%d", r->id, a.id, b.id);
    if (batch) {
        nf_buf_add_c(m->out, ", batching_dims = [");
        for (int s = 0; s < 2; s++) {
            for (int d = 0; d < batch; d++) nf_buf_addf(m->out, d ? ", %d" : "%d", d);
            nf_buf_add_c(m->out, s ? "]" : "] x [");
        }
    }
    nf_buf_addf(m->out, ", contracting_dims = [%d] x [%d] : (", k, k);
    type(m, &a);
    nf_buf_add_c(m->out, ", ");
    type(m, &b);
    nf_buf_add_c(m->out, ") -> ");
    type(m, r);
    nf_buf_add_char(m->out, '\n');
    if (!exact(&a)) { /* back to small numbers */
        struct value in = *r, *t = add(m, &in);
        nf_buf_addf(m->out, "  %%%d = stablehlo.tanh %%%d : ", t->id, in.id);
        type(m, t);
        nf_buf_add_char(m->out, '\n');
    }
}

static void iota(struct maker *m)
{
    struct value like = {.dt = element(m), .rank = 1 + pick(m, 3)};
    for (int d = 0; d < like.rank; d++) like.dims[d] = 1 + pick(m, 9);
    if (like.dt == CPU_PRED) like.dt = CPU_S32;
    int d = pick(m, like.rank);
    struct value *r = add(m, &like);
    nf_buf_addf(m->out, "  %%%d = stablehlo.iota dim = %d : ", r->id, d);
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

static void dynamic(struct maker *m, const struct value *v)
{
    struct value a = *v, like = a;
    int at[RANK_MAX];
    bool update = pick(m, 2);
    if (a.rank == 0 || count(&a) == 0) return;
    for (int d = 0; d < a.rank; d++) {
        at[d] = m->next++;
        nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<%d> : tensor<i32>\n", at[d], pick(m, 40) - 10);
        like.dims[d] = 1 + pick(m, (int)a.dims[d]);
    }
    struct value *part = add(m, &like), p = *part;
    nf_buf_addf(m->out, "  %%%d = stablehlo.dynamic_slice %%%d", p.id, a.id);
    for (int d = 0; d < a.rank; d++) nf_buf_addf(m->out, ", %%%d", at[d]);
    list(m, ", sizes = [", like.dims, a.rank);
    nf_buf_add_c(m->out, " : (");
    type(m, &a);
    for (int d = 0; d < a.rank; d++) nf_buf_add_c(m->out, ", tensor<i32>");
    nf_buf_add_c(m->out, ") -> ");
    type(m, &p);
    nf_buf_add_char(m->out, '\n');
    if (!update) return;
    struct value *r = add(m, &a);
    nf_buf_addf(m->out, "  %%%d = stablehlo.dynamic_update_slice %%%d, %%%d", r->id, a.id, p.id);
    for (int d = 0; d < a.rank; d++) nf_buf_addf(m->out, ", %%%d", at[(d + 1) % a.rank]);
    nf_buf_add_c(m->out, " : (");
    type(m, &a);
    nf_buf_add_c(m->out, ", ");
    type(m, &p);
    for (int d = 0; d < a.rank; d++) nf_buf_add_c(m->out, ", tensor<i32>");
    nf_buf_add_c(m->out, ") -> ");
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

/* A loop that adds a value to itself some times, carrying two more values that change places. */
static void loop(struct maker *m, const struct value *v)
{
    struct value a = *v, b = *same_type(m, v);
    if (a.dt == CPU_PRED || cpu_dt_small(a.dt) || cpu_dt_complex(a.dt)) return;
    int zero = m->next++, limit = m->next++, one = m->next++;
    nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<0> : tensor<i32>\n  %%%d = stablehlo.constant dense<%d> : tensor<i32>\n  %%%d = stablehlo.constant dense<1> : tensor<i32>\n", zero, limit, pick(m, 4), one);
    int w = m->next++;
    nf_buf_addf(m->out, "  %%%d:3 = stablehlo.while(%%i%d = %%%d, %%a%d = %%%d, %%b%d = %%%d) : tensor<i32>, ", w, w, zero, w, a.id, w, b.id);
    type(m, &a);
    nf_buf_add_c(m->out, ", ");
    type(m, &a);
    nf_buf_addf(m->out, "\n   cond {\n    %%c%d = stablehlo.compare LT, %%i%d, %%%d : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    stablehlo.return %%c%d : tensor<i1>\n  } do {\n", w, w, limit, w);
    nf_buf_addf(m->out, "    %%n%d = stablehlo.add %%i%d, %%%d : tensor<i32>\n    %%s%d = stablehlo.%s %%a%d, %%%d : ", w, w, one, w, pick(m, 2) ? "maximum" : "subtract", w, b.id);
    type(m, &a);
    nf_buf_addf(m->out, "\n    stablehlo.return %%n%d, %%b%d, %%s%d : tensor<i32>, ", w, w, w);
    type(m, &a);
    nf_buf_add_c(m->out, ", ");
    type(m, &a);
    nf_buf_add_c(m->out, "\n  }\n");
    struct value *r = add(m, &a);
    /* A name of its own for the second result. */
    nf_buf_addf(m->out, "  %%%d = stablehlo.%s %%%d#1, %%%d#2 : ", r->id, "maximum", w, w);
    type(m, r);
    nf_buf_add_char(m->out, '\n');
}

void random_program(uint64_t seed, int ops, struct nf_buf *out)
{
    static const int grid[][2] = {{2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 4}, {3, 2}};
    struct maker m = {.state = seed, .out = out, .replicas = 1, .partitions = 1};
    int args = 1 + pick(&m, 4);
    if (pick(&m, 5) == 0) {
        int g = pick(&m, NF_ARRAY_LEN(grid));
        m.replicas = grid[g][0];
        m.partitions = grid[g][1];
        nf_buf_addf(out, "module @m attributes {mhlo.num_replicas = %d : i32, mhlo.num_partitions = %d : i32} {\n", m.replicas, m.partitions);
    }
    nf_buf_add_c(out, "func.func @main(");
    for (int i = 0; i < args; i++) {
        struct value v = {.dt = element(&m), .rank = pick(&m, 4)};
        for (int d = 0; d < v.rank; d++) v.dims[d] = extent(&m);
        if (i && pick(&m, 2)) {
            int id = m.v[0].id;
            (void)id;
            enum cpu_dt dt = v.dt;
            v = m.v[0];
            if (pick(&m, 3) == 0) v.dt = dt;
        }
        struct value *r = add(&m, &v);
        nf_buf_addf(out, "%s%%%d: ", i ? ", " : "", r->id);
        type(&m, r);
    }
    struct nf_buf body = NF_BUF_INIT;
    m.out = &body;
    int want = 1 + pick(&m, ops);
    for (int i = 0; i < want && m.n < VALUES_MAX - 32; i++) {
        struct value v = *old_value(&m);
        switch (pick(&m, m.replicas * m.partitions > 1 ? 49 : 46)) {
        case 0: case 1: case 2: case 3: unary(&m, &v); break;
        case 4: case 5: case 6: case 7: case 8: binary(&m, &v); break;
        case 9: compare(&m, &v); break;
        case 10: select_op(&m, &v); break;
        case 11: convert(&m, &v); break;
        case 12: transpose(&m, &v); break;
        case 13: reshape(&m, &v); break;
        case 14: broadcast(&m, &v); break;
        case 15: slice(&m, &v); break;
        case 16: reverse(&m, &v); break;
        case 17: concatenate(&m, &v); break;
        case 18: pad(&m, &v); break;
        case 19: case 20: reduce(&m, &v); break;
        case 21: dot(&m, &v); break;
        case 22: iota(&m); break;
        case 23: dynamic(&m, &v); break;
        case 24: rare_unary(&m, &v); break;
        case 25: make_complex(&m, &v); break;
        case 26: clamp(&m, &v); break;
        case 27: gather(&m, &v, false); break;
        case 28: gather(&m, &v, true); break;
        case 29: case 30: window(&m, &v); break;
        case 31: sort(&m, &v); break;
        case 32: convolution(&m, &v); break;
        case 33: fft(&m, &v); break;
        case 34: random_bits(&m); break;
        case 35: branches(&m, &v); break;
        case 36: factor(&m, &v); break;
        case 37: bits_of(&m, &v); break;
        case 38: case 39: loop(&m, &v); break;
        case 40: more_select_and_scatter(&m, &v); break;
        case 41: more_batch_norm(&m, &v); break;
        case 42: more_reduce_of_several(&m, &v); break;
        case 43: case 44: more_quantised(&m, &v); break;
        case 45: random_numbers(&m, &v); break;
        default: more_collective(&m, &v); break;
        }
    }
    int outs = NF_MIN(1 + pick(&m, 8), m.n);
    nf_buf_add_c(out, ") -> (");
    int chosen[8];
    for (int i = 0; i < outs; i++) {
        chosen[i] = i == 0 ? m.n - 1 : pick(&m, m.n);
        nf_buf_add_c(out, i ? ", " : "");
        m.out = out;
        type(&m, &m.v[chosen[i]]);
    }
    nf_buf_add_c(out, ") {\n");
    nf_buf_add_str(out, nf_buf_str(&body));
    nf_buf_add_c(out, "  return ");
    for (int i = 0; i < outs; i++) nf_buf_addf(out, "%s%%%d", i ? ", " : "", m.v[chosen[i]].id);
    nf_buf_add_c(out, " : ");
    for (int i = 0; i < outs; i++) {
        nf_buf_add_c(out, i ? ", " : "");
        type(&m, &m.v[chosen[i]]);
    }
    nf_buf_add_c(out, m.replicas * m.partitions > 1 ? "\n}\n}\n" : "\n}\n");
    nf_buf_done(&body);
}
