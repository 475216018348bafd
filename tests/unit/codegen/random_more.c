/* random_more.c: see random_internal.h: operations of several results or types, and those between devices. */
#include "tests/unit/codegen/random_internal.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------------ quantised */

/* A quantised type's spelling: storage, what is expressed, scales and zero points (centred: 0) for all or by one dim. */
struct quant {
    enum cpu_dt storage, expressed;
    int axis;
    int64_t n;             /* scales */
    char text[512];
};

static void quant(struct maker *m, const struct value *v, bool centred, struct quant *q)
{
    static const enum cpu_dt storage[] = {CPU_S8, CPU_S8, CPU_S8, CPU_U8, CPU_S16, CPU_S4, CPU_U4, CPU_S32};
    static const char *const scale[] = {"0.5", "0.1", "0.013", "0.0078125", "1.3", "0.03125"};
    q->storage = storage[pick(m, NF_ARRAY_LEN(storage))];
    q->expressed = v->dt;
    q->axis = v->rank && pick(m, 3) == 0 ? pick(m, v->rank) : -1;
    if (q->axis >= 0 && (v->dims[q->axis] == 0 || v->dims[q->axis] > 9)) q->axis = -1;
    q->n = q->axis >= 0 ? v->dims[q->axis] : 1;
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_addf(&b, "!quant.uniform<%c%d:%s", cpu_dt_info[q->storage].is_signed ? 'i' : 'u', cpu_dt_info[q->storage].bits, cpu_dt_info[v->dt].name);
    if (q->axis >= 0) nf_buf_addf(&b, ":%d", q->axis);
    for (int64_t i = 0; i < q->n; i++)
        nf_buf_addf(&b, "%s%s:%d", i ? "," : q->axis >= 0 ? ", {" : ", ", scale[pick(m, NF_ARRAY_LEN(scale))], centred ? 0 : cpu_dt_info[q->storage].is_signed ? pick(m, 15) - 7 : pick(m, 15));
    nf_format(q->text, sizeof q->text, "%s%s", b.data, q->axis >= 0 ? "}>" : ">");
    nf_buf_done(&b);
}

/* A line whose operands and results have types of their own: `%new = "op"(%a, %b) : (ta, tb) -> t`; the new value's id. Quantised values are
 * known here only. */
static int quant_line(struct maker *m, const char *op, const struct value *shape, int nin, const int *in, const char *const *tin, const char *t)
{
    int id = m->next++;
    nf_buf_addf(m->out, "  %%%d = \"stablehlo.%s\"(", id, op);
    for (int i = 0; i < nin; i++) nf_buf_addf(m->out, i ? ", %%%d" : "%%%d", in[i]);
    nf_buf_add_c(m->out, ") <{}> : (");
    for (int i = 0; i <= nin; i++) {
        nf_buf_add_c(m->out, i == nin ? ") -> tensor<" : i ? ", tensor<" : "tensor<");
        for (int d = 0; d < shape->rank; d++) nf_buf_addf(m->out, "%" PRId64 "x", shape->dims[d]);
        nf_buf_addf(m->out, "%s>", i == nin ? t : tin[i]);
    }
    nf_buf_add_char(m->out, '\n');
    return id;
}

/* A product with quantised weights, by columns or by one scale; of v itself, or quantised too. */
static void quantised_product(struct maker *m, const struct value *v)
{
    struct value a = *v, w, like;
    struct quant qa, qw, qr;
    int64_t dims[2] = {0, 1 + pick(m, 5)};
    bool hybrid = pick(m, 3) == 0;
    if (a.rank != 2 || a.dt != CPU_F32 || count(&a) == 0 || count(&a) > 2000) return;
    a = one(m, "stablehlo.tanh", &a, CPU_F32);
    dims[0] = a.dims[1];
    w = weights(m, CPU_F32, 2, dims);
    like = a;
    like.dims[1] = dims[1];
    do quant(m, &w, true, &qw);
    while (qw.axis == 0); /* which is contracted */
    do quant(m, &a, false, &qa);
    while (qa.axis >= 0 || qa.storage != qw.storage);
    do quant(m, &like, false, &qr);
    while (!hybrid && qr.axis >= 0 && qw.axis < 0);
    if (qr.axis == 0) hybrid = true;
    int left = hybrid ? a.id : quant_line(m, "uniform_quantize", &a, 1, &a.id, (const char *[]){"f32"}, qa.text);
    int right = quant_line(m, "uniform_quantize", &w, 1, &w.id, (const char *[]){"f32"}, qw.text), id = m->next++;
    nf_buf_addf(m->out, "  %%%d = \"stablehlo.dot_general\"(%%%d, %%%d) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (", id, left, right);
    nf_buf_addf(m->out, "tensor<%" PRId64 "x%" PRId64 "x%s>, tensor<%" PRId64 "x%" PRId64 "x%s>) -> tensor<%" PRId64 "x%" PRId64 "x%s>\n", a.dims[0], a.dims[1], hybrid ? "f32" : qa.text, w.dims[0], w.dims[1], qw.text,
                like.dims[0], like.dims[1], hybrid ? "f32" : qr.text);
    if (!hybrid) id = quant_line(m, "uniform_dequantize", &like, 1, &id, (const char *[]){qr.text}, "f32");
    add(m, &like)->id = id;
}

/* v quantised, a few operations on that, and numbers again. */
void more_quantised(struct maker *m, const struct value *v)
{
    static const char *const unary[] = {"negate", "abs", "tanh", "logistic", "cosine", "sine"};
    static const char *const binary[] = {"add", "subtract", "multiply", "maximum", "minimum"};
    struct value a = *v;
    struct quant q, r;
    if (pick(m, 3) == 0) {
        quantised_product(m, &a);
        return;
    }
    if (a.dt == CPU_S32 || a.dt == CPU_S8) a = one(m, "stablehlo.convert", &a, CPU_F32); /* equal to the last bit, and so is what follows */
    if (a.dt != CPU_F32 && a.dt != CPU_F64 && a.dt != CPU_F16 && a.dt != CPU_BF16) return;
    quant(m, &a, false, &q);
    int id = quant_line(m, "uniform_quantize", &a, 1, &a.id, (const char *[]){cpu_dt_info[a.dt].name}, q.text), first = id;
    for (int steps = pick(m, 4); steps > 0; steps--) switch (pick(m, 5)) {
        case 0: { /* other scales */
            quant(m, &a, false, &r);
            id = quant_line(m, "uniform_quantize", &a, 1, &id, (const char *[]){q.text}, r.text);
            q = r;
            first = id;
            break;
        }
        case 1:
        case 2:
            if (q.axis >= 0) break;
            id = quant_line(m, unary[pick(m, NF_ARRAY_LEN(unary))], &a, 1, &id, (const char *[]){q.text}, q.text);
            break;
        default: /* of each its own scale, if it is one for all */
            if (q.axis >= 0) break;
            r = q;
            for (int tries = 0; tries < 20 && pick(m, 2); tries++) {
                quant(m, &a, false, &r);
                if (r.axis < 0 && r.storage == q.storage) break;
                r = q;
            }
            id = quant_line(m, binary[pick(m, NF_ARRAY_LEN(binary))], &a, 2, (int[]){id, first}, (const char *[]){q.text, q.text}, r.text);
            q = r;
            first = id;
            break;
        }
    struct value *out = add(m, &a);
    m->next--;
    out->id = quant_line(m, "uniform_dequantize", &a, 1, &id, (const char *[]){q.text}, cpu_dt_info[a.dt].name);
}

/* ------------------------------------------------------------------------------------------------- windows, norms, reductions */

/* Where each window's largest is, is no matter of rounding: v has integers, or is made of them. */
void more_select_and_scatter(struct maker *m, const struct value *v)
{
    struct nf_buf attrs = NF_BUF_INIT, regions = NF_BUF_INIT;
    struct value a = *v, source = a, init;
    int64_t size[RANK_MAX], step[RANK_MAX], pad[2 * RANK_MAX];
    if (a.rank == 0 || !exact(&a) || a.dt == CPU_PRED || count(&a) == 0 || count(&a) > 4000) return;
    if (pick(m, 2)) a = one(m, "stablehlo.convert", &a, (enum cpu_dt[]){CPU_F32, CPU_F32, CPU_F64, CPU_BF16, CPU_F16, CPU_F8E5M2}[pick(m, 6)]);
    source.dt = a.dt;
    for (int d = 0; d < a.rank; d++) {
        size[d] = 1 + pick(m, 3), step[d] = 1 + pick(m, 3), pad[2 * d] = pick(m, (int)size[d]), pad[2 * d + 1] = pick(m, (int)size[d]);
        int64_t room = a.dims[d] + pad[2 * d] + pad[2 * d + 1] - size[d];
        source.dims[d] = room < 0 ? 0 : room / step[d] + 1;
    }
    source = weights(m, a.dt, a.rank, source.dims);
    init = (struct value){.dt = a.dt, .id = scalar(m, a.dt)};
    dense64(&attrs, "window_dimensions", size, a.rank);
    dense64(&attrs, "window_strides", step, a.rank);
    nf_buf_add_c(&attrs, ", padding = dense<[");
    for (int d = 0; d < a.rank; d++) nf_buf_addf(&attrs, "%s[%" PRId64 ", %" PRId64 "]", d ? ", " : "", pad[2 * d], pad[2 * d + 1]);
    nf_buf_addf(&attrs, "]> : tensor<%dx2xi64>", a.rank);
    const char *n = cpu_dt_info[a.dt].name;
    nf_buf_addf(&regions, "{\n  ^bb0(%%l: tensor<%s>, %%r: tensor<%s>):\n    %%z = stablehlo.compare %s, %%l, %%r : (tensor<%s>, tensor<%s>) -> tensor<i1>\n    stablehlo.return %%z : tensor<i1>\n  }, ", n, n,
                (const char *[]){"GE", "LE", "GT", "LT"}[pick(m, 4)], n, n);
    struct nf_buf body = NF_BUF_INIT;
    nf_buf_add_c(&regions, region2(&body, a.dt, cpu_dt_small(a.dt) || pick(m, 3) == 0 ? "maximum" : "add"));
    generic(m, "stablehlo.select_and_scatter", attrs.data, regions.data, 3, (struct value[]){a, source, init}, 1, &a);
    nf_buf_done(&body);
    nf_buf_done(&attrs);
    nf_buf_done(&regions);
}

void more_batch_norm(struct maker *m, const struct value *v)
{
    struct value a = *v, c[4], like[3];
    char attrs[96];
    if (a.rank == 0 || (a.dt != CPU_F32 && a.dt != CPU_F64 && a.dt != CPU_F16 && a.dt != CPU_BF16) || count(&a) == 0) return;
    int f = pick(m, a.rank);
    for (int i = 0; i < 4; i++) c[i] = weights(m, a.dt, 1, &a.dims[f]);
    struct value variance = one(m, "stablehlo.abs", &c[3], a.dt);
    nf_format(attrs, sizeof attrs, "epsilon = 0.25 : f32, feature_index = %d : i64", f);
    a = one(m, "stablehlo.tanh", &a, a.dt);
    like[0] = a;
    like[1] = like[2] = c[0];
    switch (pick(m, 3)) {
    case 0: generic(m, "stablehlo.batch_norm_inference", attrs, NULL, 5, (struct value[]){a, c[0], c[1], c[2], variance}, 1, like); break;
    case 1: generic(m, "stablehlo.batch_norm_training", attrs, NULL, 3, (struct value[]){a, c[0], c[1]}, 3, like); break;
    default: {
        struct value grad = weights(m, a.dt, a.rank, a.dims);
        generic(m, "stablehlo.batch_norm_grad", attrs, NULL, 5, (struct value[]){a, c[0], c[1], variance, grad}, 3, like);
        break;
    }
    }
}

/* The place of the largest, sums beside maxima, products of Gaussian integers: in any order the same. */
void more_reduce_of_several(struct maker *m, const struct value *v)
{
    struct nf_buf attrs = NF_BUF_INIT, r = NF_BUF_INIT;
    struct value a = *v, b, like[2], init[2];
    int64_t dims[RANK_MAX];
    int n = 0, kind = pick(m, 3);
    like[0] = (struct value){.dt = a.dt};
    for (int d = 0; d < a.rank; d++) {
        if (pick(m, 2)) dims[n++] = d;
        else like[0].dims[like[0].rank++] = a.dims[d];
    }
    if (n == 0 || cpu_dt_complex(a.dt) || a.dt == CPU_PRED) return;
    if (kind != 1 && !exact(&a)) kind = 1;
    if (kind == 1 && cpu_dt_small(a.dt)) return;
    b = kind == 1 ? *same_type(m, &a) : weights(m, kind == 0 ? CPU_S32 : a.dt, a.rank, a.dims);
    like[1] = like[0];
    like[1].dt = b.dt;
    const char *s = cpu_dt_info[a.dt].name, *t = cpu_dt_info[b.dt].name;
    for (int i = 0; i < 2; i++) {
        init[i] = (struct value){.dt = i ? b.dt : a.dt, .id = m->next++};
        const char *what = kind == 0 ? (i ? "2147483647" : cpu_dt_info[a.dt].is_signed ? "-1" : "0") : kind == 1 && cpu_dt_float(a.dt) ? "0.0" : kind == 2 && i == 0 ? "1" : "0";
        nf_buf_addf(m->out, "  %%%d = stablehlo.constant dense<%s> : tensor<%s>\n", init[i].id, what, i ? t : s);
    }
    nf_buf_addf(&r, "{\n  ^bb0(%%a: tensor<%s>, %%b: tensor<%s>, %%c: tensor<%s>, %%d: tensor<%s>):\n", s, t, s, t);
    if (kind == 0)
        nf_buf_addf(&r,
                    "    %%g = stablehlo.compare GT, %%a, %%c : (tensor<%s>, tensor<%s>) -> tensor<i1>\n    %%e = stablehlo.compare EQ, %%a, %%c : (tensor<%s>, tensor<%s>) -> tensor<i1>\n"
                    "    %%x = stablehlo.select %%g, %%a, %%c : tensor<i1>, tensor<%s>\n    %%m = stablehlo.minimum %%b, %%d : tensor<%s>\n    %%n = stablehlo.select %%g, %%b, %%d : tensor<i1>, tensor<%s>\n"
                    "    %%y = stablehlo.select %%e, %%m, %%n : tensor<i1>, tensor<%s>\n",
                    s, s, s, s, s, t, t, t);
    else if (kind == 1) nf_buf_addf(&r, "    %%x = stablehlo.add %%a, %%c : tensor<%s>\n    %%y = stablehlo.maximum %%b, %%d : tensor<%s>\n", s, t);
    else
        nf_buf_addf(&r,
                    "    %%p = stablehlo.multiply %%a, %%c : tensor<%s>\n    %%q = stablehlo.multiply %%b, %%d : tensor<%s>\n    %%x = stablehlo.subtract %%p, %%q : tensor<%s>\n"
                    "    %%u = stablehlo.multiply %%a, %%d : tensor<%s>\n    %%v = stablehlo.multiply %%b, %%c : tensor<%s>\n    %%y = stablehlo.add %%u, %%v : tensor<%s>\n",
                    s, s, s, s, s, s);
    nf_buf_addf(&r, "    stablehlo.return %%x, %%y : tensor<%s>, tensor<%s>\n  }", s, t);
    dense64(&attrs, "dimensions", dims, n);
    generic(m, "stablehlo.reduce", attrs.data, r.data, 4, (struct value[]){a, b, init[0], init[1]}, 2, like);
    nf_buf_done(&attrs);
    nf_buf_done(&r);
}

/* ---------------------------------------------------------------------------------------------------------- collectives */

static void shuffle(struct maker *m, int *v, int n)
{
    for (int i = 0; i < n; i++) v[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = pick(m, i + 1), t = v[i];
        v[i] = v[k];
        v[k] = t;
    }
}

/* replica_groups: all of n, in groups of equal size, which is returned. */
static int groups(struct maker *m, struct nf_buf *attrs, int n)
{
    int id[16], size = 1 + pick(m, n);
    while (n % size) size--;
    if (pick(m, 3)) size = n;
    shuffle(m, id, n);
    nf_buf_addf(attrs, "%sreplica_groups = dense<[", attrs->len ? ", " : "");
    for (int i = 0; i < n; i++) nf_buf_addf(attrs, "%s%s%d%s", i ? ", " : "", i % size ? "" : "[", id[i], i % size == size - 1 ? "]" : "");
    nf_buf_addf(attrs, "]> : tensor<%dx%dxi64>", n / size, size);
    return size;
}

static void channel(struct maker *m, struct nf_buf *attrs) { nf_buf_addf(attrs, "%schannel_handle = #stablehlo.channel_handle<handle = %d, type = 1>", attrs->len ? ", " : "", ++m->channels); }

/* Devices by their number. Returns how many meet. */
static int all_meet(struct maker *m, struct nf_buf *attrs)
{
    int size = groups(m, attrs, m->replicas * m->partitions);
    channel(m, attrs);
    nf_buf_add_c(attrs, ", use_global_device_ids");
    return size;
}
/* Who reduces and gathers: replicas, replicas of all partitions, or devices by their number. */
static int meeting(struct maker *m, struct nf_buf *attrs)
{
    int how = pick(m, 3), size;
    if (how == 0) return all_meet(m, attrs);
    size = groups(m, attrs, m->replicas);
    if (how == 1) return size;
    channel(m, attrs);
    return size * m->partitions;
}
/* Who exchanges: replicas or partitions. */
static int half_meeting(struct maker *m, struct nf_buf *attrs)
{
    if (pick(m, 2)) return groups(m, attrs, m->replicas);
    int size = groups(m, attrs, m->partitions);
    channel(m, attrs);
    return size;
}

/* Some devices send to others, all go on with what came (who got nothing, with zeros): two parcels on a channel, which come as they went. */
static void transfer(struct maker *m, const struct value *v)
{
    int from[16], to[16], all = m->replicas * m->partitions, n = 1 + pick(m, all), c = ++m->channels;
    struct nf_buf attrs = NF_BUF_INIT;
    struct value a = *v, b = *same_type(m, v);
    shuffle(m, from, all);
    shuffle(m, to, all);
    nf_buf_addf(&attrs, "<{channel_handle = #stablehlo.channel_handle<handle = %d, type = 1>, is_host_transfer = false, source_target_pairs = dense<[", c);
    for (int i = 0; i < n; i++) nf_buf_addf(&attrs, "%s[%d, %d]", i ? ", " : "", from[i], to[i]);
    nf_buf_addf(&attrs, "]> : tensor<%dx2xi64>}>", n);
    nf_buf_addf(m->out, "  %%t%d_0 = stablehlo.create_token : !stablehlo.token\n", c);
    for (int i = 0; i < 4; i++) {
        bool sends = i < 2;
        if (sends) nf_buf_addf(m->out, "  %%t%d_%d = \"stablehlo.send\"(%%%d, %%t%d_%d) %s : (", c, i + 1, (i ? &b : &a)->id, c, i, attrs.data);
        else nf_buf_addf(m->out, "  %%%d, %%t%d_%d = \"stablehlo.recv\"(%%t%d_%d) %s : (!stablehlo.token) -> (", add(m, &a)->id, c, i + 1, c, i, attrs.data);
        type(m, &a);
        nf_buf_add_c(m->out, sends ? ", !stablehlo.token) -> !stablehlo.token\n" : ", !stablehlo.token)\n");
    }
    nf_buf_done(&attrs);
}

void more_collective(struct maker *m, const struct value *v)
{
    struct nf_buf attrs = NF_BUF_INIT, region = NF_BUF_INIT;
    struct value a = *v, like = a;
    int d = a.rank ? pick(m, a.rank) : 0, e = a.rank ? pick(m, a.rank) : 0, size;
    const char *sum = a.dt == CPU_PRED ? "or" : cpu_dt_small(a.dt) ? "maximum" : cpu_dt_complex(a.dt) ? "add" : (const char *[]){"add", "add", "maximum", "minimum"}[pick(m, 4)];
    if (exact(v) && pick(m, 6) == 0) {
        transfer(m, v);
        return;
    }
    switch (pick(m, 8)) {
    case 0: generic(m, "stablehlo.all_reduce", (meeting(m, &attrs), attrs.data), region2(&region, a.dt, sum), 1, &a, 1, &a); break;
    case 1:
        if (a.rank == 0 || a.dims[d] == 0) break;
        like.dims[d] *= meeting(m, &attrs);
        nf_buf_addf(&attrs, ", all_gather_dim = %d : i64", d);
        if (count(&like) < 20000) generic(m, "stablehlo.all_gather", attrs.data, NULL, 1, &a, 1, &like);
        break;
    case 2:
        if (a.rank == 0) break;
        size = meeting(m, &attrs);
        if (a.dims[d] % size || a.dims[d] == 0) break;
        like.dims[d] /= size;
        nf_buf_addf(&attrs, ", scatter_dimension = %d : i64", d);
        generic(m, "stablehlo.reduce_scatter", attrs.data, region2(&region, a.dt, sum), 1, &a, 1, &like);
        break;
    case 3:
        if (a.rank == 0) break;
        size = half_meeting(m, &attrs);
        if (a.dims[d] % size) break;
        like.dims[d] /= size;
        like.dims[e] *= size;
        nf_buf_addf(&attrs, ", split_dimension = %d : i64, concat_dimension = %d : i64, split_count = %d : i64", d, e, size);
        generic(m, "stablehlo.all_to_all", attrs.data, NULL, 1, &a, 1, &like);
        break;
    case 4: {
        int from[16], to[16], all = pick(m, 2) ? m->replicas : (channel(m, &attrs), m->partitions), n = 1 + pick(m, all);
        shuffle(m, from, all);
        shuffle(m, to, all);
        nf_buf_addf(&attrs, "%ssource_target_pairs = dense<[", attrs.len ? ", " : "");
        for (int i = 0; i < n; i++) nf_buf_addf(&attrs, "%s[%d, %d]", i ? ", " : "", from[i], to[i]);
        nf_buf_addf(&attrs, "]> : tensor<%dx2xi64>", n);
        generic(m, "stablehlo.collective_permute", attrs.data, NULL, 1, &a, 1, &a);
        break;
    }
    case 5: generic(m, "stablehlo.collective_broadcast", (half_meeting(m, &attrs), attrs.data), NULL, 1, &a, 1, &a); break;
    case 6: generic(m, "stablehlo.collective_reduce", (pick(m, 2) ? half_meeting(m, &attrs) : all_meet(m, &attrs), attrs.data), region2(&region, a.dt, sum), 1, &a, 1, &a); break;
    default:
        like = (struct value){.dt = CPU_U32};
        generic(m, pick(m, 2) ? "stablehlo.replica_id" : "stablehlo.partition_id", "", NULL, 0, NULL, 1, &like);
        break;
    }
    nf_buf_done(&attrs);
    nf_buf_done(&region);
}
