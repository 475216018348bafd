/* import.c: StableHLO into the graph of cg.h: calls are inlined, composite operations taken apart, regions that are one
 * operation recognised, the rest become nested graphs. What cannot be expressed is refused by the operation's name.
 *
 * One file: a function for each kind of operation, over one map of values, and one switch that chooses among them. What has
 * rules of its own, as products (import_dot.c) and checks (import_check.c), stands beside it. */
#include "pipeline/codegen/cg.h"
#include "pipeline/codegen/import_internal.h"

#include <inttypes.h>
#include <math.h>

enum { CALL_DEPTH = 200 };

int imp_refuse(struct import *im, const struct hlo_op *op, const char *why)
{
    struct nf_str name = hlo_op_name(op);
    char where[256];
    if (im->rc) return im->rc;
    im->rc = nf_fail(im->err, NF_EUNSUPPORTED, "native code for cpu does not do %.*s%s%s", NF_STR_ARG(name), why[0] ? ": " : "", why);
    nf_error_location(im->err, "%s", hlo_op_where(im->m, op, where, sizeof where));
    return im->rc;
}

enum cpu_dt imp_type(struct import *im, const struct hlo_op *op, const struct hlo_type *t, int64_t *dims, int *rank)
{
    *rank = 0;
    if (t->kind != HLO_TYPE_TENSOR) {
        imp_refuse(im, op, "a value that is no tensor");
        return CPU_PRED;
    }
    if (!t->is_static) {
        imp_refuse(im, op, "a dimension that is known only at run time");
        return CPU_PRED;
    }
    if (t->rank > CG_RANK_MAX) {
        imp_refuse(im, op, "more than 12 dimensions");
        return CPU_PRED;
    }
    enum hlo_elem e = t->elem != HLO_ELEM_QUANT ? t->elem : im->expressed ? t->quant->expressed : t->quant->storage;
    enum cpu_dt dt = cpu_dt_find(nf_str_c(hlo_elem_name(e)));
    if (e == HLO_ELEM_INDEX) dt = CPU_S64;
    if (dt == CPU_DT_MAX) {
        imp_refuse(im, op, "an element type that it has no code for");
        return CPU_PRED;
    }
    int64_t count = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        dims[d] = t->dims[d];
        if (__builtin_mul_overflow(count, dims[d], &count) || count > (int64_t)1 << 44) imp_refuse(im, op, "a tensor of that size");
    }
    *rank = (int)t->rank;
    return dt;
}

static struct cg_value *get(struct import *im, const struct hlo_value *v)
{
    struct cg_value *c = v->id < im->nmap ? im->map[v->id] : NULL;
    if (!c && !im->rc && v->type->kind != HLO_TYPE_TENSOR) im->rc = nf_fail(im->err, NF_EUNSUPPORTED, "native code for cpu does not do values that are no tensors here");
    if (!c && !im->rc) im->rc = nf_fail(im->err, NF_EINTERNAL, "codegen: a value is used before it is made");
    return c;
}

uint32_t imp_parts(const struct hlo_type *t)
{
    uint32_t n = 0;
    if (t->kind == HLO_TYPE_TOKEN) return 0;
    if (t->kind != HLO_TYPE_TUPLE && t->kind != HLO_TYPE_FUTURE) return 1;
    for (uint32_t i = 0; i < t->num_types; i++) n += imp_parts(t->types[i]); /* as deep as types are read */
    return n;
}

static const struct hlo_type *part_type(const struct hlo_type *t, uint32_t k)
{
    for (uint32_t i = 0; t->kind == HLO_TYPE_TUPLE || t->kind == HLO_TYPE_FUTURE; i = 0) {
        for (uint32_t n; k >= (n = imp_parts(t->types[i])); i++) k -= n;
        t = t->types[i];
    }
    return t;
}

bool imp_get_parts(struct import *im, const struct hlo_value *v, struct cg_value **ret)
{
    uint32_t n = imp_parts(v->type);
    if (n == 0) return true;
    if (v->type->kind != HLO_TYPE_TUPLE && v->type->kind != HLO_TYPE_FUTURE) return (*ret = get(im, v)) != NULL;
    if (!im->parts || !im->parts[v->id]) {
        if (!im->rc) im->rc = nf_fail(im->err, NF_EINTERNAL, "codegen: a value is used before it is made");
        return false;
    }
    memcpy(ret, im->parts[v->id], n * sizeof *ret);
    return true;
}

void imp_set_parts(struct import *im, const struct hlo_value *v, struct cg_value *const *parts)
{
    uint32_t n = imp_parts(v->type);
    if (v->type->kind != HLO_TYPE_TUPLE && v->type->kind != HLO_TYPE_FUTURE) {
        if (n) im->map[v->id] = parts[0];
        return;
    }
    if (!im->parts) im->parts = NF_NEW_ARRAY(im->cg->arena, struct cg_value **, im->nmap + 1);
    im->parts[v->id] = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, n + 1);
    if (n) memcpy(im->parts[v->id], parts, n * sizeof *parts);
}

/* One value for another. */
static void same_parts(struct import *im, const struct hlo_value *to, const struct hlo_value *from)
{
    struct cg_value **v = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, imp_parts(from->type) + 1);
    if (imp_get_parts(im, from, v)) imp_set_parts(im, to, v);
}

/* The arrays of all operands. */
static uint32_t count_operands(const struct hlo_op *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->num_operands; i++) n += imp_parts(hlo_op_operand(op, i)->type);
    return n;
}

static bool all_operands(struct import *im, const struct hlo_op *op, struct cg_value **ret)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        if (!imp_get_parts(im, hlo_op_operand(op, i), ret + at)) return false;
        at += imp_parts(hlo_op_operand(op, i)->type);
    }
    return true;
}

bool imp_operands(struct import *im, const struct hlo_op *op, uint32_t n, struct cg_value **in, size_t room)
{
    if (n > room) {
        imp_refuse(im, op, "more than 64 operands");
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!(in[i] = get(im, hlo_op_operand(op, i)))) return false;
    return true;
}

/* Lines begin after these bytes: one search instead of one count an operation. */
static void find_lines(struct import *im)
{
    struct nf_str t = im->m->text;
    size_t n = 1;
    for (const char *p = t.data; p && (p = memchr(p, '\n', t.len - (size_t)(p - t.data))); p++) n++;
    im->line = NF_NEW_ARRAY(im->cg->arena, size_t, n);
    im->nline = 1;
    for (const char *p = t.data; p && (p = memchr(p, '\n', t.len - (size_t)(p - t.data))); p++) im->line[im->nline++] = (size_t)(p - t.data) + 1;
}

static uint32_t label_of(struct import *im, const struct hlo_op *op)
{
    struct nf_str name = hlo_op_name(op);
    const struct hlo_attr *loc = hlo_op_loc(im->m, op);
    struct nf_buf b = NF_BUF_INIT;
    char text[768];
    if (loc) hlo_attr_print(loc, &b);
    if (b.len && b.len < 600) {
        nf_format(text, sizeof text, "%.*s %.*s", (int)NF_MIN(name.len, (size_t)100), name.data, (int)b.len, b.data);
    } else if (im->m->source == HLO_SOURCE_TEXT) {
        size_t low = 0;
        if (!im->line) find_lines(im);
        for (size_t step = im->nline; step; step /= 2)
            while (low + step < im->nline && im->line[low + step] <= op->pos) low += step;
        nf_format(text, sizeof text, "%.*s %zu:%zu", (int)NF_MIN(name.len, (size_t)100), name.data, low + im->m->first_line, op->pos - im->line[low] + 1);
    } else {
        nf_format(text, sizeof text, "%.*s byte %u", (int)NF_MIN(name.len, (size_t)100), name.data, op->pos);
    }
    nf_buf_done(&b);
    return cg_label(im->cg, nf_str_c(text));
}

/* ------------------------------------------------------------------------------------------------------ elementwise */

static const struct {
    uint16_t hlo, rp;
} elementwise[] = {
    {HLO_OP_ABS, RP_ABS}, {HLO_OP_CBRT, RP_CBRT}, {HLO_OP_CEIL, RP_CEIL}, {HLO_OP_COUNT_LEADING_ZEROS, RP_CLZ}, {HLO_OP_COSINE, RP_COS},
    {HLO_OP_EXPONENTIAL, RP_EXP}, {HLO_OP_EXPONENTIAL_MINUS_ONE, RP_EXPM1}, {HLO_OP_FLOOR, RP_FLOOR}, {HLO_OP_LOG, RP_LOG}, {HLO_OP_LOG_PLUS_ONE, RP_LOG1P},
    {HLO_OP_LOGISTIC, RP_LOGISTIC}, {HLO_OP_NEGATE, RP_NEG}, {HLO_OP_NOT, RP_NOT}, {HLO_OP_POPCNT, RP_POPCNT}, {HLO_OP_ROUND_NEAREST_AFZ, RP_RAZ},
    {HLO_OP_ROUND_NEAREST_EVEN, RP_RNE}, {HLO_OP_RSQRT, RP_RSQRT}, {HLO_OP_SIGN, RP_SIGN}, {HLO_OP_SINE, RP_SIN}, {HLO_OP_SQRT, RP_SQRT}, {HLO_OP_TAN, RP_TAN},
    {HLO_OP_TANH, RP_TANH}, {HLO_OP_CONVERT, RP_CVT}, {HLO_OP_REAL, RP_REAL}, {HLO_OP_IMAG, RP_IMAG}, {HLO_OP_IS_FINITE, RP_FINITE}, {HLO_OP_ADD, RP_ADD},
    {HLO_OP_AND, RP_AND}, {HLO_OP_ATAN2, RP_ATAN2}, {HLO_OP_DIVIDE, RP_DIV}, {HLO_OP_MAXIMUM, RP_MAX}, {HLO_OP_MINIMUM, RP_MIN}, {HLO_OP_MULTIPLY, RP_MUL},
    {HLO_OP_OR, RP_OR}, {HLO_OP_POWER, RP_POW}, {HLO_OP_REMAINDER, RP_REM}, {HLO_OP_SHIFT_LEFT, RP_SHL}, {HLO_OP_SHIFT_RIGHT_ARITHMETIC, RP_SAR},
    {HLO_OP_SHIFT_RIGHT_LOGICAL, RP_SHR}, {HLO_OP_SUBTRACT, RP_SUB}, {HLO_OP_XOR, RP_XOR}, {HLO_OP_COMPLEX, RP_COMPLEX}, {HLO_OP_SELECT, RP_SEL},
    {HLO_OP_CLAMP, RP_CLAMP}, {HLO_OP_CHLO_ACOS, RP_ACOS}, {HLO_OP_CHLO_ACOSH, RP_ACOSH}, {HLO_OP_CHLO_ASIN, RP_ASIN}, {HLO_OP_CHLO_ASINH, RP_ASINH},
    {HLO_OP_CHLO_ATAN, RP_ATAN}, {HLO_OP_CHLO_ATANH, RP_ATANH}, {HLO_OP_CHLO_BESSEL_I1E, RP_I1E}, {HLO_OP_CHLO_COSH, RP_COSH}, {HLO_OP_CHLO_DIGAMMA, RP_DIGAMMA},
    {HLO_OP_CHLO_ERF, RP_ERF}, {HLO_OP_CHLO_ERF_INV, RP_ERFINV}, {HLO_OP_CHLO_ERFC, RP_ERFC}, {HLO_OP_CHLO_LGAMMA, RP_LGAMMA}, {HLO_OP_CHLO_SINH, RP_SINH},
    {HLO_OP_CHLO_TAN, RP_TAN}, {HLO_OP_CHLO_NEXT_AFTER, RP_NEXTAFTER}, {HLO_OP_CHLO_POLYGAMMA, RP_POLYGAMMA}, {HLO_OP_CHLO_ZETA, RP_ZETA}, {HLO_OP_CHLO_MULHI, RP_MULHI},
};

static int rp_of(uint16_t id)
{
    for (size_t i = 0; i < NF_ARRAY_LEN(elementwise); i++)
        if (elementwise[i].hlo == id) return elementwise[i].rp;
    return -1;
}

/* Complex elements of an operand type that the result lacks (abs, real, imag) keep the result's type. */
static struct cg_value *import_elementwise(struct import *im, struct cg_graph *g, const struct hlo_op *op, enum rp_op rp)
{
    int64_t dims[CG_RANK_MAX];
    int rank;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, dims, &rank);
    struct cg_value *in[3] = {0}, *like = NULL;
    if (im->rc) return NULL;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        in[i] = get(im, hlo_op_operand(op, i));
        if (!in[i]) return NULL;
        if (!like || in[i]->rank > like->rank) like = in[i];
    }
    for (uint32_t i = 0; i < op->num_operands; i++)
        if (in[i]->rank != like->rank) in[i] = cg_broadcast(g, in[i], like->rank, like->dims, NULL);
    return cg_ew(g, rp, dt, 0, op->num_operands, in);
}

static int compare_aux(const struct hlo_op *op)
{
    static const uint8_t dir[] = {[HLO_EQ] = RP_EQ, [HLO_NE] = RP_NE, [HLO_GE] = RP_GE, [HLO_GT] = RP_GT, [HLO_LE] = RP_LE, [HLO_LT] = RP_LT};
    int64_t d = hlo_op_enum(op, HLO_A_comparison_direction, HLO_EQ);
    bool total = hlo_op_enum(op, HLO_A_compare_type, HLO_COMPARE_NOTYPE) == HLO_COMPARE_TOTALORDER;
    const struct hlo_type *t = hlo_op_operand(op, 0)->type;
    return dir[d] | (total && hlo_elem_class(t->elem) == HLO_CLASS_FLOAT ? RP_CMP_TOTAL : 0);
}

static struct cg_value *number(struct cg_graph *g, const struct cg_value *like, double x)
{
    struct cpu_num n = {.re = x, .i = (int64_t)x};
    if (cpu_dt_float((enum cpu_dt)like->dt)) n = cpu_num_convert(CPU_F64, (enum cpu_dt)like->dt, n);
    return cg_splat(g, (enum cpu_dt)like->dt, like->rank, like->dims, n);
}
static struct cg_value *ew1(struct cg_graph *g, enum rp_op op, struct cg_value *a) { return cg_ew(g, op, (enum cpu_dt)a->dt, 0, 1, &a); }
static struct cg_value *ew2(struct cg_graph *g, enum rp_op op, struct cg_value *a, struct cg_value *b)
{
    return cg_ew(g, op, (enum cpu_dt)a->dt, 0, 2, (struct cg_value *[]){a, b});
}

/* --------------------------------------------------------------------------------------------------- regions as ops */

/* Whether a block is its results: nothing else in it could be seen to run. */
static bool only_results(const struct hlo_block *b)
{
    for (const struct hlo_op *o = b->first; o && o != b->last; o = o->next)
        if (!(hlo_op_info((enum hlo_op_id)o->id)->traits & HLO_T_PURE)) return false;
    return true;
}

/* The kind of a reducer that is one named operation of its two arguments, else -1 (BODY_BLOCK); BODY_SET for "the second". */
static int body_kind(const struct hlo_block *b, uint32_t n)
{
    static const struct {
        uint16_t op;
        int8_t kind;
    } kinds[] = {{HLO_OP_ADD, RP_SUM}, {HLO_OP_MULTIPLY, RP_PROD}, {HLO_OP_MAXIMUM, RP_RMAX}, {HLO_OP_MINIMUM, RP_RMIN}, {HLO_OP_AND, RP_ALL}, {HLO_OP_OR, RP_ANY}, {HLO_OP_XOR, RP_PARITY}};
    const struct hlo_op *ret = b->last;
    if (!ret || b->num_args != 2 * n || ret->num_operands != n || !only_results(b)) return BODY_BLOCK;
    bool set = true;
    for (uint32_t i = 0; i < n; i++) set = set && hlo_op_operand(ret, i) == b->args[n + i];
    if (set) return BODY_SET;
    if (n != 1) return BODY_BLOCK;
    const struct hlo_value *r = hlo_op_operand(ret, 0);
    if (r->is_arg || r->def.op->block != b || r->def.op->num_operands != 2) return BODY_BLOCK;
    const struct hlo_value *x = hlo_op_operand(r->def.op, 0), *y = hlo_op_operand(r->def.op, 1);
    if (!((x == b->args[0] && y == b->args[1]) || (x == b->args[1] && y == b->args[0]))) return BODY_BLOCK;
    for (size_t i = 0; i < NF_ARRAY_LEN(kinds); i++) {
        if (r->def.op->id != kinds[i].op) continue;
        if (kinds[i].kind >= RP_ALL && hlo_elem_class(r->type->elem) == HLO_CLASS_FLOAT) return BODY_BLOCK;
        if (hlo_elem_class(r->type->elem) == HLO_CLASS_COMPLEX && (kinds[i].kind == RP_RMAX || kinds[i].kind == RP_RMIN)) return BODY_BLOCK;
        return kinds[i].kind;
    }
    return BODY_BLOCK;
}

/* outer: arguments that are values from outside, mapped already; dropped: results that nobody wants; NULL: none. */
static struct cg_graph *import_region(struct import *im, struct cg_graph *parent, const struct hlo_block *b, struct cg_value **params, const bool *outer, const bool *dropped);

static bool is_reducer_identity(const struct cg_value *v, int kind)
{
    if (v->kind != CG_SPLAT) return false;
    switch (kind) {
    case RP_SUM: case RP_ANY: case RP_PARITY: return cg_splat_is(v, 0);
    case RP_PROD: return cg_splat_is(v, 1);
    case RP_ALL: return v->dt == CPU_PRED ? v->num.i == 1 : v->num.i == cpu_int_wrap((enum cpu_dt)v->dt, -1);
    case RP_RMAX: return cpu_dt_float((enum cpu_dt)v->dt) ? isinf(v->num.re) && v->num.re < 0 : !cpu_dt_info[v->dt].is_signed ? v->num.i == 0 : v->num.i == cpu_int_wrap((enum cpu_dt)v->dt, (int64_t)((uint64_t)1 << (cpu_dt_info[v->dt].bits - 1)));
    case RP_RMIN: return cpu_dt_float((enum cpu_dt)v->dt) && isinf(v->num.re) && v->num.re > 0;
    default: return false;
    }
}

/* A LIB with a reducer: attributes start with its kind and block. The graph of a block is numbered when the plan is made. */
static void attach_body(struct import *im, struct cg_value *lib, const struct hlo_block *b, uint32_t kind_at)
{
    static const uint32_t at_one[] = {1, 3};
    if (lib->attrs[kind_at] != BODY_BLOCK) return;
    struct cg_graph **graphs = NF_NEW_ARRAY(im->cg->arena, struct cg_graph *, lib->ngraph + 1);
    uint32_t *where = NF_NEW_ARRAY(im->cg->arena, uint32_t, lib->ngraph + 1);
    for (uint32_t i = 0; i < lib->ngraph; i++) {
        graphs[i] = lib->graphs[i];
        where[i] = lib->graph_attr[i];
    }
    graphs[lib->ngraph] = import_region(im, lib->graph, b, NULL, NULL, NULL);
    where[lib->ngraph] = at_one[kind_at / 2];
    lib->graphs = graphs;
    lib->graph_attr = where;
    lib->ngraph++;
}

/* Results of the operation but those in `outer`, which have values. */
static void finish_some(struct import *im, const struct hlo_op *op, struct cg_value *lib, const bool *outer)
{
    uint32_t n = 0, m = 0;
    struct nf_arena *ar = im->cg->arena;
    for (uint32_t i = 0; i < op->num_results; i++) n += imp_parts(op->results[i].type);
    if (n > 4096) {
        imp_refuse(im, op, "more than 4096 results");
        return;
    }
    uint8_t *dt = NF_NEW_ARRAY(ar, uint8_t, n + 1);
    int *rank = NF_NEW_ARRAY(ar, int, n + 1);
    const int64_t **dims = NF_NEW_ARRAY(ar, const int64_t *, n + 1);
    struct cg_value **r = NF_NEW_ARRAY(ar, struct cg_value *, n + 1);
    for (uint32_t i = 0, at = 0; i < op->num_results; at += imp_parts(op->results[i++].type))
        for (uint32_t k = 0; k < imp_parts(op->results[i].type) && !(outer && outer[at]); k++) {
            int64_t *d = NF_NEW_ARRAY(ar, int64_t, CG_RANK_MAX);
            dt[m] = (uint8_t)imp_type(im, op, part_type(op->results[i].type, k), d, &rank[m]);
            dims[m++] = d;
        }
    if (im->rc) return;
    cg_lib_results(lib, m, dt, rank, dims, r);
    for (uint32_t i = 0, at = 0; i < op->num_results; at += imp_parts(op->results[i++].type)) {
        if (outer && outer[at]) continue;
        imp_set_parts(im, &op->results[i], r);
        r += imp_parts(op->results[i].type);
    }
}

static void finish_lib(struct import *im, const struct hlo_op *op, struct cg_value *lib)
{
    if (!im->rc) finish_some(im, op, lib, NULL);
}

static void import_reduce(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    uint32_t n = op->num_results;
    const struct hlo_block *b = hlo_op_body(op, 0);
    struct hlo_ints dims = hlo_op_i64s(op, HLO_A_dimensions);
    int kind = body_kind(b, n);
    struct cg_value *v = get(im, hlo_op_operand(op, 0)), *init = get(im, hlo_op_operand(op, n));
    int64_t sorted[CG_RANK_MAX];
    if (im->rc) return;
    if (kind >= 0 && dims.n <= CG_RANK_MAX) {
        size_t m = 0;
        for (int d = 0; d < v->rank; d++)
            for (size_t i = 0; i < dims.n; i++)
                if (dims.v[i] == d) sorted[m++] = d;
        int64_t out[CG_RANK_MAX];
        int rank;
        enum cpu_dt dt = imp_type(im, op, op->results[0].type, out, &rank);
        if (im->rc) return;
        struct cg_value *first = cg_broadcast(g, init, rank, out, NULL), *r;
        if (v->count == 0) {
            r = first;
        } else {
            static const uint16_t ops[RP_RED_MAX] = {RP_ADD, RP_MUL, RP_MAX, RP_MIN, RP_AND, RP_OR, RP_XOR};
            r = cg_reduce(g, v, (enum rp_red)kind, (uint32_t)m, sorted);
            if (!is_reducer_identity(init, kind)) r = cg_ew(g, (enum rp_op)ops[kind], dt, 0, 2, (struct cg_value *[]){first, r});
        }
        im->map[op->results[0].id] = r;
        return;
    }
    int64_t attrs[2 + 1 + CG_RANK_MAX] = {kind, 0, (int64_t)dims.n};
    struct cg_value *in[128];
    if (!imp_operands(im, op, 2 * n, in, NF_ARRAY_LEN(in))) return;
    for (size_t i = 0; i < dims.n; i++) attrs[3 + i] = dims.v[i];
    struct cg_value *lib = cg_lib(g, PLAN_REDUCE, 2 * n, in, (uint32_t)(3 + dims.n), attrs);
    lib->label = im->label;
    attach_body(im, lib, b, 0);
    finish_lib(im, op, lib);
}

static uint32_t put_list(int64_t *attrs, uint32_t at, struct hlo_ints l, size_t n, int64_t absent)
{
    attrs[at++] = (int64_t)n;
    for (size_t i = 0; i < n; i++) attrs[at++] = i < l.n ? l.v[i] : absent;
    return at;
}
static uint32_t put_padding(int64_t *attrs, uint32_t at, const struct hlo_attr *pad, size_t n, int side)
{
    attrs[at++] = (int64_t)n;
    for (size_t i = 0; i < n; i++) attrs[at++] = pad ? hlo_attr_dense_int_at(pad, 2 * i + (size_t)side) : 0;
    return at;
}

static void import_window(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t attrs[2 + 6 * (1 + CG_RANK_MAX)];
    struct cg_value *in[128];
    uint32_t n = op->num_results, at = 2;
    struct hlo_ints size = hlo_op_i64s(op, HLO_A_window_dimensions);
    const struct hlo_attr *pad = hlo_op_attr(op, HLO_A_padding);
    if (size.n > CG_RANK_MAX) {
        imp_refuse(im, op, "too many dimensions");
        return;
    }
    if (!imp_operands(im, op, 2 * n, in, NF_ARRAY_LEN(in))) return;
    attrs[0] = body_kind(hlo_op_body(op, 0), n);
    attrs[1] = 0;
    at = put_list(attrs, at, size, size.n, 1);
    at = put_list(attrs, at, hlo_op_i64s(op, HLO_A_window_strides), size.n, 1);
    at = put_list(attrs, at, hlo_op_i64s(op, HLO_A_base_dilations), size.n, 1);
    at = put_list(attrs, at, hlo_op_i64s(op, HLO_A_window_dilations), size.n, 1);
    at = put_padding(attrs, at, pad, size.n, 0);
    at = put_padding(attrs, at, pad, size.n, 1);
    struct cg_value *lib = cg_lib(g, PLAN_WINDOW, 2 * n, in, at, attrs);
    lib->label = im->label;
    attach_body(im, lib, hlo_op_body(op, 0), 0);
    finish_lib(im, op, lib);
}

static void import_select_scatter(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t attrs[4 + 4 * (1 + CG_RANK_MAX)];
    struct cg_value *in[3];
    struct hlo_ints size = hlo_op_i64s(op, HLO_A_window_dimensions);
    const struct hlo_attr *pad = hlo_op_attr(op, HLO_A_padding);
    const struct hlo_block *b = hlo_op_body(op, 0);
    uint32_t at = 4;
    if (!imp_operands(im, op, 3, in, NF_ARRAY_LEN(in))) return;
    attrs[0] = BODY_BLOCK;
    const struct hlo_value *r = b->last ? hlo_op_operand(b->last, 0) : NULL;
    if (r && !r->is_arg && r->def.op->id == HLO_OP_COMPARE && hlo_op_operand(r->def.op, 0) == b->args[0] && hlo_op_operand(r->def.op, 1) == b->args[1] &&
        !(compare_aux(r->def.op) & RP_CMP_TOTAL) && only_results(b))
        attrs[0] = compare_aux(r->def.op);
    attrs[1] = 0;
    attrs[2] = body_kind(hlo_op_body(op, 1), 1);
    attrs[3] = 0;
    at = put_list(attrs, at, size, in[0]->rank, 1);
    at = put_list(attrs, at, hlo_op_i64s(op, HLO_A_window_strides), in[0]->rank, 1);
    at = put_padding(attrs, at, pad, in[0]->rank, 0);
    at = put_padding(attrs, at, pad, in[0]->rank, 1);
    struct cg_value *lib = cg_lib(g, PLAN_SELSCATTER, 3, in, at, attrs);
    lib->label = im->label;
    attach_body(im, lib, b, 0);
    attach_body(im, lib, hlo_op_body(op, 1), 2);
    finish_lib(im, op, lib);
}

static uint32_t put_ints(int64_t *attrs, uint32_t at, struct hlo_ints l) { return put_list(attrs, at, l, l.n, 0); }

static void import_gather(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t attrs[8 + 7 * (1 + CG_RANK_MAX)];
    struct cg_value *in[2];
    uint32_t at = 0;
    if (!imp_operands(im, op, 2, in, NF_ARRAY_LEN(in))) return;
    const struct hlo_gather *d = hlo_op_attr(op, HLO_A_dimension_numbers)->gather;
    struct hlo_ints sizes = hlo_op_i64s(op, HLO_A_slice_sizes);
    int64_t known[CG_RANK_MAX];
    size_t n = 0;
    if (op->id == HLO_OP_DYNAMIC_GATHER) {
        const struct hlo_attr *c = hlo_value_constant(hlo_op_operand(op, 2));
        if (!c || !hlo_attr_dense_ints(c, CG_RANK_MAX, known, &n)) {
            imp_refuse(im, op, "slice sizes that are known only at run time");
            return;
        }
        sizes = (struct hlo_ints){n, known};
    }
    at = put_ints(attrs, at, d->offset_dims);
    at = put_ints(attrs, at, d->collapsed_slice_dims);
    at = put_ints(attrs, at, d->operand_batching_dims);
    at = put_ints(attrs, at, d->start_indices_batching_dims);
    at = put_ints(attrs, at, d->start_index_map);
    attrs[at++] = d->index_vector_dim;
    at = put_ints(attrs, at, sizes);
    struct cg_value *lib = cg_lib(g, PLAN_GATHER, 2, in, at, attrs);
    lib->label = im->label;
    finish_lib(im, op, lib);
}

static void import_scatter(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t attrs[8 + 7 * (1 + CG_RANK_MAX)];
    struct cg_value *in[129];
    uint32_t n = op->num_results, at = 3;
    if (!imp_operands(im, op, op->num_operands, in, NF_ARRAY_LEN(in))) return;
    const struct hlo_scatter *d = hlo_op_attr(op, HLO_A_scatter_dimension_numbers)->scatter;
    attrs[0] = body_kind(hlo_op_body(op, 0), n);
    attrs[1] = attrs[2] = 0;
    at = put_ints(attrs, at, d->update_window_dims);
    at = put_ints(attrs, at, d->inserted_window_dims);
    at = put_ints(attrs, at, d->input_batching_dims);
    at = put_ints(attrs, at, d->scatter_indices_batching_dims);
    at = put_ints(attrs, at, d->scatter_dims_to_operand_dims);
    attrs[at++] = d->index_vector_dim;
    struct cg_value *lib = cg_lib(g, PLAN_SCATTER, op->num_operands, in, at, attrs);
    lib->label = im->label;
    lib->in_place = n == 1;
    attach_body(im, lib, hlo_op_body(op, 0), 0);
    finish_lib(im, op, lib);
}

/* ------------------------------------------------------------------------------------------------------------- sort */

/* Is v the expression of argument `a` where w is the same one of argument `b`? */
static bool same_shape_expr(const struct hlo_value *v, const struct hlo_value *w, const struct hlo_value *a, const struct hlo_value *b, int depth)
{
    if (v == a && w == b) return true;
    if (v->is_arg || w->is_arg || depth > 8) return false;
    const struct hlo_op *p = v->def.op, *q = w->def.op;
    if (p == q && p->id == HLO_OP_CONSTANT) return true;
    if (p->id != q->id || p->num_operands != q->num_operands || p->num_regions) return false;
    if (p->id == HLO_OP_CONSTANT) return hlo_attr_eq(hlo_op_attr(p, HLO_A_value), hlo_op_attr(q, HLO_A_value));
    if (p->id == HLO_OP_COMPARE && compare_aux(p) != compare_aux(q)) return false;
    for (uint32_t i = 0; i < p->num_operands; i++)
        if (!same_shape_expr(hlo_op_operand(p, i), hlo_op_operand(q, i), a, b, depth + 1)) return false;
    return true;
}
/* select(x == 0, 0, x) and select(x != x, NaN, ..) in any nesting, as comparators of floats are written to make zeros and NaNs equal. */
static bool canonical_float(const struct hlo_value *v, const struct hlo_value *a, int depth)
{
    if (v == a) return true;
    if (v->is_arg || depth > 4 || v->def.op->id != HLO_OP_SELECT) return false;
    const struct hlo_value *p = hlo_op_operand(v->def.op, 0), *c = hlo_op_operand(v->def.op, 1);
    if (p->is_arg || p->def.op->id != HLO_OP_COMPARE || !hlo_value_constant(c)) return false;
    return canonical_float(hlo_op_operand(v->def.op, 2), a, depth + 1);
}

static void import_sort(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *in[64] = {0};
    uint32_t n = op->num_operands;
    const struct hlo_block *b = hlo_op_body(op, 0);
    if (!imp_operands(im, op, n, in, NF_ARRAY_LEN(in))) return;
    int64_t dim = hlo_op_i64(op, HLO_A_dimension, -1);
    if (dim < 0) dim += in[0]->rank;
    int64_t attrs[5] = {BODY_BLOCK, 0, NF_MAX(dim, 0), 0, 0};
    const struct hlo_value *r = b->last ? hlo_op_operand(b->last, 0) : NULL;
    if (r && !r->is_arg && r->def.op->id == HLO_OP_COMPARE && only_results(b)) {
        int aux = compare_aux(r->def.op), how = aux & ~RP_CMP_TOTAL;
        const struct hlo_value *x = hlo_op_operand(r->def.op, 0), *y = hlo_op_operand(r->def.op, 1);
        bool fl = hlo_elem_class(x->type->elem) == HLO_CLASS_FLOAT, cplx = hlo_elem_class(x->type->elem) == HLO_CLASS_COMPLEX;
        for (uint32_t k = 0; k < n && (how == RP_LT || how == RP_GT) && !cplx; k++) {
            const struct hlo_value *a = b->args[2 * k], *c = b->args[2 * k + 1];
            bool direct = (x == a && y == c) || (x == c && y == a), reversed = x == c;
            if (!direct && fl && same_shape_expr(x, y, a, c, 0) && canonical_float(x, a, 0)) direct = true;
            else if (!direct && fl && same_shape_expr(x, y, c, a, 0) && canonical_float(x, c, 0)) direct = reversed = true;
            else if (!direct) continue;
            attrs[0] = (how == RP_LT) != reversed ? RP_LT : RP_GT;
            attrs[3] = k;
            attrs[4] = fl && !(x == a || x == c) ? 1 : fl && !(aux & RP_CMP_TOTAL);
            break;
        }
    }
    struct cg_value *lib = cg_lib(g, PLAN_SORT, n, in, 5, attrs);
    lib->label = im->label;
    attach_body(im, lib, b, 0);
    finish_lib(im, op, lib);
}

/* ---------------------------------------------------------------------------------------------------- control flow */

static void import_while(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    uint32_t n = count_operands(op);
    struct cg_value **in = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, n + 1);
    if (!all_operands(im, op, in)) return;
    const struct hlo_block *inside = hlo_op_body(op, 1), *test = hlo_op_body(op, 0);
    if (!inside || !inside->last || inside->last->num_operands != op->num_operands || inside->num_args != op->num_operands || !test || test->num_args != op->num_operands) {
        imp_refuse(im, op, "a loop of another signature");
        return;
    }
    /* What goes round unchanged is no part of the loop: the body reads it where it is. */
    bool *outer = NF_NEW_ARRAY(im->cg->arena, bool, n + 1);
    struct cg_value **carried = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, n + 1);
    uint32_t m = 0;
    for (uint32_t i = 0, at = 0; i < op->num_operands; i++) {
        bool same = hlo_op_operand(inside->last, i) == inside->args[i];
        uint32_t first = at;
        for (uint32_t k = imp_parts(inside->args[i]->type); k; k--, at++) {
            outer[at] = same;
            if (same && cg_base(in[at])->kind != CG_SPLAT) in[at] = cg_dense(g, in[at]); /* once, not in every round */
            if (!same) carried[m++] = in[at];
        }
        if (!same) continue;
        imp_set_parts(im, inside->args[i], in + first);
        imp_set_parts(im, test->args[i], in + first);
        imp_set_parts(im, &op->results[i], in + first);
    }
    int64_t attrs[2] = {0, 0};
    static const uint32_t where[] = {0, 1};
    struct cg_value *lib = cg_lib(g, PLAN_WHILE, m, carried, 2, attrs);
    lib->label = im->label;
    lib->graphs = NF_NEW_ARRAY(im->cg->arena, struct cg_graph *, 2);
    lib->graph_attr = where;
    lib->ngraph = 2;
    struct cg_graph *body = lib->graphs[1] = import_region(im, g, inside, NULL, outer, outer);
    if (im->rc) return;
    lib->graphs[0] = import_region(im, g, test, body->params, outer, NULL);
    if (!im->rc) finish_some(im, op, lib, outer);
}

static void import_case(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *in = get(im, hlo_op_operand(op, 0));
    uint32_t n = op->num_regions;
    if (!in) return;
    if (n > 1024) {
        imp_refuse(im, op, "more than 1024 branches");
        return;
    }
    int64_t *attrs = NF_NEW_ARRAY(im->cg->arena, int64_t, n);
    uint32_t *where = NF_NEW_ARRAY(im->cg->arena, uint32_t, n);
    struct cg_value *lib = cg_lib(g, PLAN_CASE, 1, &in, n, attrs);
    lib->label = im->label;
    lib->graphs = NF_NEW_ARRAY(im->cg->arena, struct cg_graph *, n);
    lib->graph_attr = where;
    for (uint32_t i = 0; i < n && !im->rc; i++) {
        lib->graphs[i] = import_region(im, g, hlo_op_body(op, i), NULL, NULL, NULL);
        where[i] = i;
        lib->ngraph++;
    }
    finish_lib(im, op, lib);
}

/* Reads the operations of a block in g, its arguments being the operands. */
static void run_here(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_block *b)
{
    for (uint32_t i = 0; i < b->num_args && !im->rc; i++) same_parts(im, b->args[i], hlo_op_operand(op, i));
    if (im->rc) return;
    im->depth++;
    imp_block(im, g, b);
    im->depth--;
}

/* The digits that cut each dim, at attrs[at]; returns what is behind, 0: there is no room. */
static uint32_t put_cut(int64_t *attrs, uint32_t at, const struct hlo_mesh_cut *c)
{
    for (int d = 0; d < c->rank; d++) {
        if (at + 1 + 2 * c->n_parts[d] > PLAN_ATTRS_MAX) return 0;
        attrs[at++] = 2 * c->n_parts[d];
        for (unsigned k = 0; k < c->n_parts[d]; k++) {
            attrs[at++] = c->parts[d][k].size;
            attrs[at++] = c->parts[d][k].stride;
        }
    }
    return at;
}

static struct cg_value *one_result(struct cg_value *lib, enum cpu_dt dt, int rank, const int64_t *dims)
{
    struct cg_value *r;
    cg_lib_results(lib, 1, (uint8_t[]){(uint8_t)dt}, &rank, &dims, &r);
    return r;
}

/* By device: a number that each reads by its own. */
static struct cg_value *by_device(struct import *im, struct cg_graph *g, const int32_t *numbers)
{
    int64_t n = im->cg->partitions, one = 1, attr = 1;
    struct cg_value *table = cg_const(g, CPU_S32, 1, &n, nf_arena_str(im->cg->arena, nf_str_n((const char *)numbers, (size_t)n * sizeof *numbers)));
    struct cg_value *id = one_result(cg_lib(g, PLAN_PROCESS, 0, NULL, 1, &attr), CPU_U32, 0, NULL);
    struct cg_value *in[2] = {table, cg_convert(g, id, CPU_S32)};
    return cg_reshape(g, one_result(cg_lib(g, PLAN_DSLICE, 2, in, 0, NULL), CPU_S32, 1, &one), 0, NULL);
}

/* The device's own piece of an array that it has. */
static struct cg_value *piece_of(struct import *im, struct cg_graph *g, struct cg_value *v, const struct hlo_mesh *m, const struct hlo_mesh_cut *cut)
{
    int64_t dims[CG_RANK_MAX], start[HLO_MESH_RANK_MAX];
    struct cg_value *in[1 + CG_RANK_MAX] = {v};
    int32_t *numbers = NF_NEW_ARRAY(im->cg->arena, int32_t, (size_t)m->devices);
    for (int d = 0; d < v->rank; d++) dims[d] = v->dims[d] / hlo_mesh_pieces(cut, d);
    for (int d = 0; d < v->rank; d++) {
        for (int64_t pos = 0; pos < m->devices; pos++) {
            hlo_mesh_start(cut, pos, dims, start);
            numbers[m->device_at[pos]] = (int32_t)start[d];
        }
        in[1 + d] = cut->n_parts[d] ? by_device(im, g, numbers) : cg_splat(g, CPU_S32, 0, NULL, (struct cpu_num){0});
    }
    return one_result(cg_lib(g, PLAN_DSLICE, 1 + v->rank, in, 0, NULL), (enum cpu_dt)v->dt, v->rank, dims);
}

/* The array that the pieces of the devices which differ in its digits make up: gathered along a dim of its own, then put in place. */
static struct cg_value *whole_of(struct import *im, struct cg_graph *g, const struct hlo_op *op, struct cg_value *v, const struct hlo_mesh *m, const struct hlo_mesh_cut *cut)
{
    int64_t attrs[PLAN_ATTRS_MAX] = {RP_SUM, 0, COLL_ALL_GATHER, 0, 0, 0, 0, -1}, dims[2 * CG_RANK_MAX + 1] = {1}, perm[2 * CG_RANK_MAX], whole[CG_RANK_MAX];
    int64_t *at = NF_NEW_ARRAY(im->cg->arena, int64_t, (size_t)m->devices), n = 1;
    int cuts = 0, k = 0, p = 0;
    for (int d = 0; d < v->rank; d++) {
        cuts += cut->n_parts[d] > 0;
        n *= hlo_mesh_pieces(cut, d);
    }
    if (m->devices + 8 > PLAN_ATTRS_MAX || cuts + v->rank > CG_RANK_MAX || v->rank + 1 > CG_RANK_MAX) {
        imp_refuse(im, op, "that many devices or dimensions");
        return v;
    }
    for (int64_t pos = 0; pos < m->devices; pos++) {
        hlo_mesh_pieces_of(cut, pos, at);
        for (int64_t i = 0; i < n && at[0] == pos; i++) attrs[8 + attrs[5] * n + i] = m->device_at[at[i]];
        attrs[5] += at[0] == pos;
    }
    attrs[6] = n;
    memcpy(dims + 1, v->dims, v->rank * sizeof *dims);
    struct cg_value *one = cg_reshape(g, v, v->rank + 1, dims);
    dims[0] = n;
    struct cg_value *all = one_result(cg_lib(g, PLAN_COLLECTIVE, 1, &one, 8 + (uint32_t)m->devices, attrs), (enum cpu_dt)v->dt, v->rank + 1, dims);
    for (int d = 0; d < v->rank; d++)
        if (cut->n_parts[d]) dims[k++] = hlo_mesh_pieces(cut, d);
    memcpy(dims + k, v->dims, v->rank * sizeof *dims);
    for (int d = 0, c = 0; d < v->rank; d++) {
        if (cut->n_parts[d]) perm[p++] = c++;
        perm[p++] = k + d;
        whole[d] = v->dims[d] * hlo_mesh_pieces(cut, d);
    }
    return cg_reshape(g, cg_transpose(g, cg_reshape(g, all, k + v->rank, dims), perm), v->rank, whole);
}

/* On a device that runs already: the region takes its pieces of what is there, and what it gives is put together from the devices that have the rest. */
static void import_inside(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_mesh *m, const struct hlo_mesh_cut *cuts)
{
    const struct hlo_block *b = hlo_op_body(op, 0);
    uint32_t n = op->num_operands;
    bool cut = !hlo_mesh_uncut(cuts, n + op->num_results);
    struct hlo_mesh *outer = im->manual, both = outer ? *outer : (struct hlo_mesh){0};
    if (im->depth >= CALL_DEPTH || (cut && (!outer || !hlo_mesh_nest(&both, m)))) {
        imp_refuse(im, op, "cuts arrays inside another by its axes, or over another mesh");
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct cg_value *v = get(im, hlo_op_operand(op, i));
        if (!v) return;
        im->map[b->args[i]->id] = hlo_mesh_uncut(&cuts[i], 1) ? v : piece_of(im, g, v, m, &cuts[i]);
    }
    if (cut) im->manual = &both;
    im->depth++;
    imp_block(im, g, b);
    im->depth--;
    im->manual = outer;
    for (uint32_t i = 0; i < op->num_results && !im->rc; i++) {
        struct cg_value *v = get(im, hlo_op_operand(b->last, i));
        if (v) im->map[op->results[i].id] = hlo_mesh_uncut(&cuts[n + i], 1) ? v : whole_of(im, g, op, v, m, &cuts[n + i]);
    }
}

/* The region is a block that the devices of the mesh run. To it they are the partitions of the program. */
static void import_manual(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    static const uint32_t where[] = {0};
    struct nf_arena *arena = im->cg->arena;
    struct hlo_mesh mesh;
    struct hlo_mesh_cut *cuts;
    struct nf_error why = {0};
    uint32_t n = op->num_operands, at = 3, partitions = im->cg->partitions, replicas = im->cg->replicas;
    struct cg_value **in = NF_NEW_ARRAY(arena, struct cg_value *, n + 1);
    if (hlo_mesh_manual(im->m, op, arena, &mesh, &cuts, &why)) {
        imp_refuse(im, op, why.message);
        return;
    }
    if (!imp_operands(im, op, n, in, n)) return;
    if (im->manual || partitions > 1) {
        import_inside(im, g, op, &mesh, cuts);
        return;
    }
    int64_t *attrs = NF_NEW_ARRAY(arena, int64_t, PLAN_ATTRS_MAX), devices = mesh.devices;
    const struct hlo_block *b = hlo_op_body(op, 0);
    bool *outer = NF_NEW_ARRAY(arena, bool, n + 1); /* what is not cut is read where it is, by all devices */
    uint32_t m = 0;
    attrs[1] = devices;
    for (int64_t i = 0; mesh.n && i < devices && !attrs[2]; i++)
        if (mesh.device_at[i] != i) attrs[2] = devices;
    for (int64_t i = 0; i < attrs[2]; i++) attrs[at++] = mesh.device_at[i];
    for (uint32_t i = 0; i < n; i++) {
        outer[i] = hlo_mesh_uncut(&cuts[i], 1);
        if (outer[i]) im->map[b->args[i]->id] = cg_base(in[i])->kind == CG_SPLAT ? in[i] : cg_dense(g, in[i]);
        else in[m++] = in[i];
        if (!outer[i] && at) at = put_cut(attrs, at, &cuts[i]);
    }
    for (uint32_t i = n; i < n + op->num_results && at; i++) at = put_cut(attrs, at, &cuts[i]);
    if (!at) {
        imp_refuse(im, op, "that many devices and arrays");
        return;
    }
    struct cg_value *lib = cg_lib(g, PLAN_DEVICES, m, in, at, attrs);
    lib->label = im->label;
    lib->graphs = NF_NEW_ARRAY(arena, struct cg_graph *, 1);
    lib->graph_attr = where;
    lib->ngraph = 1;
    im->manual = &mesh;
    im->cg->replicas = 1;
    im->cg->partitions = (uint32_t)devices;
    lib->graphs[0] = import_region(im, g, b, NULL, outer, NULL);
    im->cg->replicas = replicas;
    im->cg->partitions = partitions;
    im->manual = NULL;
    finish_lib(im, op, lib);
}

static void import_map(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *in[64] = {0};
    uint32_t n = op->num_operands;
    const struct hlo_block *b = hlo_op_body(op, 0);
    if (!imp_operands(im, op, n, in, NF_ARRAY_LEN(in))) return;
    /* A body of elementwise operations is done on whole tensors. */
    bool simple = true;
    for (const struct hlo_op *o = b->first; o; o = o->next)
        simple = simple && (o == b->last || rp_of(o->id) >= 0 || o->id == HLO_OP_COMPARE || o->id == HLO_OP_CONSTANT);
    if (simple && in[0]->rank > 0) {
        for (uint32_t i = 0; i < n; i++) im->map[b->args[i]->id] = in[i];
        for (const struct hlo_op *o = b->first; o && o != b->last && !im->rc; o = o->next) {
            struct cg_value *r, *v[3];
            if (o->id == HLO_OP_CONSTANT) {
                imp_op(im, g, o);
                r = get(im, &o->results[0]);
                if (r) r = cg_broadcast(g, r, in[0]->rank, in[0]->dims, NULL);
            } else {
                for (uint32_t i = 0; i < o->num_operands; i++) {
                    if (!(v[i] = get(im, hlo_op_operand(o, i)))) return;
                    if (v[i]->rank == 0) v[i] = cg_broadcast(g, v[i], in[0]->rank, in[0]->dims, NULL);
                }
                int64_t dims[CG_RANK_MAX];
                int rank;
                enum cpu_dt dt = imp_type(im, o, o->results[0].type, dims, &rank);
                r = o->id == HLO_OP_COMPARE ? cg_ew(g, RP_CMP, CPU_PRED, compare_aux(o), 2, v) : cg_ew(g, (enum rp_op)rp_of(o->id), dt, 0, o->num_operands, v);
            }
            im->map[o->results[0].id] = r;
        }
        struct cg_value *r = get(im, hlo_op_operand(b->last, 0));
        if (r && r->rank == 0) r = cg_broadcast(g, r, in[0]->rank, in[0]->dims, NULL);
        im->map[op->results[0].id] = r;
        return;
    }
    int64_t attrs[1] = {0};
    static const uint32_t where[] = {0};
    struct cg_value *lib = cg_lib(g, PLAN_MAP, n, in, 1, attrs);
    lib->label = im->label;
    lib->graphs = NF_NEW_ARRAY(im->cg->arena, struct cg_graph *, 1);
    lib->graph_attr = where;
    lib->ngraph = 1;
    lib->graphs[0] = import_region(im, g, b, NULL, NULL, NULL);
    finish_lib(im, op, lib);
}

/* Runs the operations of a called function's body in g; results are those of the call. */
static void import_call(struct import *im, struct cg_graph *g, const struct hlo_op *op, struct nf_str callee)
{
    struct hlo_op *f = hlo_module_func(im->m, callee);
    struct hlo_block *b = f ? hlo_func_block(f) : NULL;
    if (!b || b->num_args != op->num_operands || !b->last || b->last->num_operands != op->num_results) {
        imp_refuse(im, op, "a function that has no body here");
        return;
    }
    if (im->depth >= CALL_DEPTH) {
        imp_refuse(im, op, "calls nested that deep");
        return;
    }
    run_here(im, g, op, b);
    for (uint32_t i = 0; i < op->num_results && !im->rc; i++) same_parts(im, &op->results[i], hlo_op_operand(b->last, i));
}

/* An asynchronous operation may run at any time between its start and its end: here at its start. */
static void import_async_start(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    const struct hlo_block *b = hlo_op_body(op, 0);
    if (!b || !b->last || b->num_args != op->num_operands || im->depth >= CALL_DEPTH) {
        imp_refuse(im, op, "a region of another signature, or nested that deep");
        return;
    }
    run_here(im, g, op, b);
    struct cg_value **v = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(b->last) + 1);
    if (im->rc || !all_operands(im, b->last, v)) return;
    if (count_operands(b->last) != imp_parts(op->results[0].type)) imp_refuse(im, op, "a future of other values");
    else imp_set_parts(im, &op->results[0], v);
}

static void import_async_done(struct import *im, const struct hlo_op *op)
{
    struct cg_value **v = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(op) + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < op->num_results; i++) n += imp_parts(op->results[i].type);
    if (!all_operands(im, op, v)) return;
    if (n != count_operands(op)) {
        imp_refuse(im, op, "a future of other values");
        return;
    }
    for (uint32_t i = 0; i < op->num_results; v += imp_parts(op->results[i++].type)) imp_set_parts(im, &op->results[i], v);
}

/* Between two devices, or from the host. What is not an array is the token, which orders nothing here that is not in order already. */
static void import_transfer(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    enum plan_op p = op->id == HLO_OP_SEND ? PLAN_SEND : op->id == HLO_OP_RECV ? PLAN_RECV : PLAN_INFEED;
    const struct hlo_attr *channel = hlo_op_attr(op, HLO_A_channel_handle), *pairs = hlo_op_attr(op, HLO_A_source_target_pairs);
    struct cg_value **in = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(op) + 1);
    int64_t attrs[PLAN_ATTRS_MAX];
    uint64_t n = 0;
    if (!all_operands(im, op, in)) return;
    attrs[0] = channel && channel->kind == HLO_ATTR_CHANNEL ? channel->channel.handle : 0;
    if (!pairs || pairs->kind != HLO_ATTR_DENSE || !hlo_type_count(pairs->type, &n)) n = 0;
    n -= n % 2;
    if (n + 1 > PLAN_ATTRS_MAX) {
        imp_refuse(im, op, "that many devices");
        return;
    }
    for (uint64_t i = 0; i < n; i++) attrs[1 + i] = hlo_attr_dense_int_at(pairs, i);
    struct cg_value *lib = cg_lib(g, p, count_operands(op), in, p == PLAN_INFEED ? 0 : (uint32_t)n + 1, attrs);
    lib->label = im->label;
    finish_lib(im, op, lib);
}

/* -------------------------------------------------------------------------------------------------------- quantised */

static enum cpu_dt elem_of(enum hlo_elem e) { return cpu_dt_find(nf_str_c(hlo_elem_name(e))); }

/* Scales or zero points in type dt, in the shape of v. */
static struct cg_value *quant_numbers(struct import *im, struct cg_graph *g, const struct cg_value *v, const struct hlo_quant *q, enum cpu_dt dt, bool scales)
{
    if (!q->per_axis) {
        struct cpu_num n = {.re = scales ? q->scales[0] : (double)q->zero_points[0]};
        return cg_splat(g, dt, v->rank, v->dims, cpu_num_convert(CPU_F64, dt, n));
    }
    int64_t n = (int64_t)q->count, map[1] = {q->axis};
    char *data = nf_arena_alloc(im->cg->arena, q->count * 8 + 8);
    for (size_t i = 0; i < q->count; i++) cpu_num_store(dt, data + i * cpu_dt_bytes(dt), (struct cpu_num){.re = scales ? q->scales[i] : (double)q->zero_points[i]});
    return cg_broadcast(g, cg_const(g, dt, 1, &n, nf_str_n(data, q->count * cpu_dt_bytes(dt))), v->rank, v->dims, map);
}

static struct cg_value *dequantise(struct import *im, struct cg_graph *g, struct cg_value *v, const struct hlo_quant *q)
{
    enum cpu_dt to = elem_of(q->expressed), dt = to == CPU_F64 ? CPU_F64 : CPU_F32;
    struct cg_value *x = cg_convert(g, v, CPU_F64); /* exact for storage of up to 32 bits */
    x = cg_convert(g, ew2(g, RP_SUB, x, quant_numbers(im, g, v, q, CPU_F64, false)), dt);
    return cg_convert(g, ew2(g, RP_MUL, x, quant_numbers(im, g, v, q, dt, true)), to);
}

static struct cg_value *quantise(struct import *im, struct cg_graph *g, struct cg_value *v, const struct hlo_quant *q)
{
    enum cpu_dt dt = v->dt == CPU_F64 ? CPU_F64 : CPU_F32;
    struct cg_value *x = cg_convert(g, v, dt);
    x = ew2(g, RP_ADD, ew2(g, RP_DIV, x, quant_numbers(im, g, v, q, dt, true)), quant_numbers(im, g, v, q, dt, false));
    struct cg_value *nan = cg_ew(g, RP_CMP, CPU_PRED, RP_NE, 2, (struct cg_value *[]){x, x});
    x = cg_ew(g, RP_SEL, dt, 0, 3, (struct cg_value *[]){nan, number(g, x, 0), x});
    x = cg_ew(g, RP_CLAMP, dt, 0, 3, (struct cg_value *[]){number(g, x, (double)q->storage_min), x, number(g, x, (double)q->storage_max)});
    return cg_convert(g, ew1(g, RP_RNE, x), elem_of(q->storage));
}

/* Operations that only move elements, or run others, take quantised values as they are stored. */
static bool moves_storage(const struct hlo_op *op)
{
    switch ((int)op->id) {
    case HLO_OP_CONSTANT: case HLO_OP_BROADCAST_IN_DIM: case HLO_OP_DYNAMIC_BROADCAST_IN_DIM: case HLO_OP_BROADCAST: case HLO_OP_RESHAPE: case HLO_OP_DYNAMIC_RESHAPE:
    case HLO_OP_TRANSPOSE: case HLO_OP_REVERSE: case HLO_OP_SLICE: case HLO_OP_CONCATENATE: case HLO_OP_PAD: case HLO_OP_GATHER: case HLO_OP_DYNAMIC_GATHER:
    case HLO_OP_DYNAMIC_SLICE: case HLO_OP_DYNAMIC_UPDATE_SLICE: case HLO_OP_SELECT: case HLO_OP_BITCAST_CONVERT: case HLO_OP_OPTIMIZATION_BARRIER: case HLO_OP_CALL:
    case HLO_OP_COMPOSITE: case HLO_OP_WHILE: case HLO_OP_IF: case HLO_OP_CASE: case HLO_OP_CUSTOM_CALL: case HLO_OP_GET_DIMENSION_SIZE: case HLO_OP_ALL_GATHER: case HLO_OP_SDY_MANUAL_COMPUTATION:
    case HLO_OP_ALL_TO_ALL: case HLO_OP_COLLECTIVE_PERMUTE: case HLO_OP_COLLECTIVE_BROADCAST: case HLO_OP_TUPLE: case HLO_OP_GET_TUPLE_ELEMENT:
    case HLO_OP_SEND: case HLO_OP_RECV: case HLO_OP_INFEED: case HLO_OP_OUTFEED: case HLO_OP_ASYNC_START: case HLO_OP_ASYNC_DONE:
        return true;
    default: return false;
    }
}

static bool any_quant(const struct hlo_op *op)
{
    bool q = false;
    for (uint32_t i = 0; i < op->num_operands; i++) q = q || hlo_type_is_quant(hlo_op_operand(op, i)->type);
    for (uint32_t i = 0; i < op->num_results; i++) q = q || hlo_type_is_quant(op->results[i].type);
    return q;
}

/* On the expressed values: operands are replaced while the operation is read, its results are quantised. */
static void import_quantised(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *kept[64];
    if (op->num_operands > NF_ARRAY_LEN(kept) || op->num_regions) {
        imp_refuse(im, op, "quantised elements");
        return;
    }
    for (uint32_t i = 0; i < op->num_operands; i++)
        if (!(kept[i] = get(im, hlo_op_operand(op, i)))) return;
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_value *v = hlo_op_operand(op, i);
        if (hlo_type_is_quant(v->type)) im->map[v->id] = dequantise(im, g, kept[i], v->type->quant);
    }
    if (op->id == HLO_OP_UNIFORM_QUANTIZE || op->id == HLO_OP_UNIFORM_DEQUANTIZE) {
        im->map[op->results[0].id] = im->map[hlo_op_operand(op, 0)->id];
    } else {
        im->expressed = true;
        imp_op(im, g, op);
        im->expressed = false;
    }
    for (uint32_t i = 0; i < op->num_operands; i++) im->map[hlo_op_operand(op, i)->id] = kept[i];
    for (uint32_t i = 0; i < op->num_results && !im->rc; i++)
        if (hlo_type_is_quant(op->results[i].type)) im->map[op->results[i].id] = quantise(im, g, im->map[op->results[i].id], op->results[i].type->quant);
}

/* The first elements along a dim, as many as the type of the result says: that must be what the operation is told. */
static void import_set_dimension_size(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t dims[CG_RANK_MAX], start[CG_RANK_MAX] = {0}, step[CG_RANK_MAX], dim = hlo_op_i64(op, HLO_A_dimension, 0);
    int rank;
    struct cg_value *v = get(im, hlo_op_operand(op, 0)), *size = get(im, hlo_op_operand(op, 1));
    (void)imp_type(im, op, op->results[0].type, dims, &rank);
    if (im->rc) return;
    for (int d = 0; d < rank; d++) step[d] = 1;
    if (size->kind != CG_SPLAT) imp_refuse(im, op, "a size that is known only at run time");
    else if (size->num.i != dims[dim] || dims[dim] > v->dims[dim]) imp_refuse(im, op, "a size that does not fit its dimension");
    else im->map[op->results[0].id] = cg_slice(g, v, dims, start, step);
}

/* The elements of a constant of integers, at most one a dim. */
static bool constant_ints(const struct hlo_value *v, int64_t *out, size_t want)
{
    const struct hlo_attr *c = hlo_value_constant(v);
    size_t n = 0;
    if (!c || c->kind != HLO_ATTR_DENSE) return false;
    if (!c->dense.splat) return hlo_attr_dense_ints(c, CG_RANK_MAX, out, &n) && n == want;
    for (size_t i = 0; i < want; i++) out[i] = hlo_attr_dense_int_at(c, i);
    return true;
}

static void import_dynamic_move(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t dims[CG_RANK_MAX], a[CG_RANK_MAX], b[CG_RANK_MAX], c[CG_RANK_MAX];
    int rank;
    imp_type(im, op, op->results[0].type, dims, &rank);
    struct cg_value *v = get(im, hlo_op_operand(op, 0));
    if (im->rc) return;
    bool pad = op->id == HLO_OP_DYNAMIC_PAD;
    uint32_t at = pad ? 2 : 1;
    if (!constant_ints(hlo_op_operand(op, at), a, v->rank) || !constant_ints(hlo_op_operand(op, at + 1), b, v->rank) || !constant_ints(hlo_op_operand(op, at + 2), c, v->rank)) {
        imp_refuse(im, op, "places that are known only at run time");
        return;
    }
    struct cg_value *fill = pad ? get(im, hlo_op_operand(op, 1)) : NULL;
    if (im->rc) return;
    im->map[op->results[0].id] = pad ? cg_pad(g, v, fill, dims, a, c) : cg_slice(g, v, dims, a, c);
}

/* ------------------------------------------------------------------------------------------------------- everything */

struct cg_value *imp_constant(struct import *im, struct cg_graph *g, const struct hlo_op *op, const struct hlo_type *t)
{
    int64_t dims[CG_RANK_MAX];
    int rank;
    enum cpu_dt dt = imp_type(im, op, t, dims, &rank);
    const struct hlo_attr *a = hlo_op_attr(op, HLO_A_value);
    if (im->rc) return NULL;
    if (!a || a->kind != HLO_ATTR_DENSE) {
        imp_refuse(im, op, "a constant whose data the file does not hold");
        return NULL;
    }
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= dims[d];
    if (a->dense.raw.len < (a->dense.splat || count == 0 ? (count != 0) : (uint64_t)count) * cpu_dt_bytes(dt)) {
        imp_refuse(im, op, "a constant that is cut off");
        return NULL;
    }
    if (a->dense.splat || count <= 1) {
        struct cpu_num n = {0};
        if (count) n = cpu_num_load(dt, a->dense.raw.data);
        return cg_splat(g, dt, rank, dims, n);
    }
    return cg_const(g, dt, rank, dims, a->dense.raw);
}

static void import_constant(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *v = imp_constant(im, g, op, op->results[0].type);
    if (v) im->map[op->results[0].id] = v;
}

static void import_move(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t dims[CG_RANK_MAX], a[CG_RANK_MAX], b[CG_RANK_MAX], zero[CG_RANK_MAX] = {0};
    int rank;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, dims, &rank);
    struct cg_value *v = op->num_operands ? get(im, hlo_op_operand(op, 0)) : NULL, *r = NULL;
    struct hlo_ints l;
    if (im->rc) return;
    switch ((int)op->id) {
    case HLO_OP_IOTA:
    case HLO_OP_DYNAMIC_IOTA: r = cg_iota(g, dt, rank, dims, (uint32_t)hlo_op_i64(op, HLO_A_iota_dimension, 0)); break;
    case HLO_OP_BROADCAST_IN_DIM:
    case HLO_OP_DYNAMIC_BROADCAST_IN_DIM: r = cg_broadcast(g, v, rank, dims, hlo_op_i64s(op, HLO_A_broadcast_dimensions).v); break;
    case HLO_OP_BROADCAST:
        for (int d = 0; d < v->rank; d++) a[d] = rank - v->rank + d;
        r = cg_broadcast(g, v, rank, dims, a);
        break;
    case HLO_OP_RESHAPE:
    case HLO_OP_DYNAMIC_RESHAPE: r = cg_reshape(g, v, rank, dims); break;
    case HLO_OP_TRANSPOSE: r = cg_transpose(g, v, hlo_op_i64s(op, HLO_A_permutation).v); break;
    case HLO_OP_REVERSE:
        l = hlo_op_i64s(op, HLO_A_dimensions);
        for (int d = 0; d < rank; d++) {
            a[d] = 0;
            b[d] = 1;
            for (size_t i = 0; i < l.n; i++)
                if (l.v[i] == d) {
                    a[d] = dims[d] - 1;
                    b[d] = -1;
                }
        }
        r = v->count == 0 ? v : cg_slice(g, v, dims, a, b);
        break;
    case HLO_OP_SLICE: r = cg_slice(g, v, dims, hlo_op_i64s(op, HLO_A_start_indices).v, hlo_op_i64s(op, HLO_A_strides).v); break;
    case HLO_OP_PAD: {
        struct cg_value *fill = get(im, hlo_op_operand(op, 1));
        if (im->rc) return;
        r = cg_pad(g, v, fill, dims, hlo_op_i64s(op, HLO_A_edge_padding_low).v, hlo_op_i64s(op, HLO_A_interior_padding).v);
        break;
    }
    case HLO_OP_CONCATENATE: {
        int64_t dim = hlo_op_i64(op, HLO_A_dimension, 0), at = 0;
        uint32_t parts = 0;
        for (int d = 0; d < rank; d++) b[d] = 1;
        for (uint32_t i = 0; i < op->num_operands; i++) {
            struct cg_value *p = get(im, hlo_op_operand(op, i));
            if (!p) return;
            if (p->count) {
                parts++;
                r = p;
            }
        }
        if (parts > 1) {
            r = cg_assemble(g, dt, rank, dims);
            for (uint32_t i = 0; i < op->num_operands; i++) {
                struct cg_value *p = get(im, hlo_op_operand(op, i));
                memcpy(a, zero, sizeof a);
                a[dim] = at;
                cg_assemble_add(g, r, p, a, b);
                at += p->dims[dim];
            }
        } else if (parts == 0) {
            r = cg_splat(g, dt, rank, dims, (struct cpu_num){0});
        }
        break;
    }
    default: imp_refuse(im, op, ""); return;
    }
    im->map[op->results[0].id] = r;
}

static enum cpu_dt bits_type(int bits)
{
    return bits == 1 ? CPU_PRED : bits == 2 ? CPU_U2 : bits == 4 ? CPU_U4 : bits == 8 ? CPU_U8 : bits == 16 ? CPU_U16 : bits == 32 ? CPU_U32 : CPU_U64;
}
/* Elements of less than a byte take a byte each, so a bitcast between their widths and others moves bits: the last dim counts parts. */
static struct cg_value *bitcast_parts(struct cg_graph *g, struct cg_value *v, enum cpu_dt dt, int rank, const int64_t *dims)
{
    int from = cpu_dt_info[v->dt].bits, to = cpu_dt_info[dt].bits, wide = NF_MAX(from, to), part = NF_MIN(from, to);
    enum cpu_dt u = bits_type(wide);
    const int64_t *whole = to > from ? v->dims : dims;
    int n = to > from ? v->rank : rank;
    struct cg_value *x = v->dt == bits_type(from) ? v : cg_ew(g, RP_BITS, bits_type(from), 0, 1, &v), *at = cg_iota(g, u, n, whole, (uint32_t)n - 1);
    at = ew2(g, RP_MUL, at, cg_splat(g, u, n, whole, (struct cpu_num){.i = part}));
    if (to > from) {
        int64_t last = n - 1;
        x = cg_reduce(g, ew2(g, RP_SHL, cg_convert(g, x, u), at), RP_ANY, 1, &last);
    } else {
        int64_t map[CG_RANK_MAX];
        for (int d = 0; d < v->rank; d++) map[d] = d;
        x = ew2(g, RP_SHR, cg_broadcast(g, x, n, whole, map), at);
        x = cg_convert(g, ew2(g, RP_AND, x, cg_splat(g, u, n, whole, (struct cpu_num){.i = (int64_t)(((uint64_t)1 << part) - 1)})), bits_type(part));
    }
    return dt == bits_type(to) ? x : cg_ew(g, RP_BITS, dt, 0, 1, &x);
}

static void import_bitcast(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int64_t dims[CG_RANK_MAX];
    int rank;
    enum cpu_dt dt = imp_type(im, op, op->results[0].type, dims, &rank);
    struct cg_value *v = get(im, hlo_op_operand(op, 0));
    if (im->rc) return;
    size_t from = cpu_dt_bytes((enum cpu_dt)v->dt), to = cpu_dt_bytes(dt);
    if (cpu_dt_info[v->dt].bits == cpu_dt_info[dt].bits && from == to) {
        im->map[op->results[0].id] = cg_ew(g, RP_BITS, dt, 0, 1, &v);
        return;
    }
    if (cpu_dt_info[v->dt].bits < 8 || cpu_dt_info[dt].bits < 8) {
        im->map[op->results[0].id] = bitcast_parts(g, v, dt, rank, dims);
        return;
    }
    /* The same bytes with another element type: a copy between two views of memory. */
    int64_t whole[3] = {0, 0, -1};
    struct cg_value *lib = cg_lib(g, PLAN_COPY, 1, &v, 3, whole);
    lib->label = im->label;
    finish_lib(im, op, lib);
}

static void import_batch_norm(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *in[5] = {0};
    if (!imp_operands(im, op, op->num_operands, in, NF_ARRAY_LEN(in))) return;
    struct cg_value *x = in[0];
    int64_t f = hlo_op_i64(op, HLO_A_feature_index, 0), others[CG_RANK_MAX], map[1] = {f};
    double eps = hlo_op_float(op, HLO_A_epsilon, 0), n = 1;
    uint32_t m = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != f) {
            others[m++] = d;
            n *= (double)x->dims[d];
        }
#define SPREAD(v) cg_broadcast(g, (v), x->rank, x->dims, map)
    if (op->id == HLO_OP_BATCH_NORM_TRAINING || op->id == HLO_OP_BATCH_NORM_INFERENCE) {
        struct cg_value *mean = in[3], *var = in[4];
        if (op->id == HLO_OP_BATCH_NORM_TRAINING) {
            struct cg_value *sum = cg_reduce(g, x, RP_SUM, m, others);
            mean = ew2(g, RP_DIV, sum, number(g, sum, n));
            struct cg_value *c = ew2(g, RP_SUB, x, SPREAD(mean)), *sq = cg_reduce(g, ew2(g, RP_MUL, c, c), RP_SUM, m, others);
            var = ew2(g, RP_DIV, sq, number(g, sq, n));
        }
        struct cg_value *sd = ew1(g, RP_SQRT, ew2(g, RP_ADD, var, number(g, var, eps)));
        struct cg_value *y = ew2(g, RP_DIV, ew2(g, RP_SUB, x, SPREAD(mean)), SPREAD(sd));
        im->map[op->results[0].id] = ew2(g, RP_ADD, ew2(g, RP_MUL, SPREAD(in[1]), y), SPREAD(in[2]));
        if (op->id == HLO_OP_BATCH_NORM_TRAINING) {
            im->map[op->results[1].id] = mean;
            im->map[op->results[2].id] = var;
        }
        return;
    }
    /* operand, scale, mean, variance, grad_output */
    struct cg_value *dy = in[4], *sd = ew1(g, RP_SQRT, ew2(g, RP_ADD, in[3], number(g, in[3], eps)));
    struct cg_value *c = ew2(g, RP_SUB, x, SPREAD(in[2])), *sum = cg_reduce(g, dy, RP_SUM, m, others), *dot = cg_reduce(g, ew2(g, RP_MUL, dy, c), RP_SUM, m, others);
    struct cg_value *i1 = ew2(g, RP_MUL, dy, number(g, dy, n)), *i2 = SPREAD(sum);
    struct cg_value *i3 = ew2(g, RP_MUL, c, SPREAD(dot)), *i4 = ew2(g, RP_DIV, i3, SPREAD(ew2(g, RP_ADD, in[3], number(g, in[3], eps))));
    struct cg_value *k = ew2(g, RP_DIV, ew2(g, RP_DIV, in[1], sd), number(g, sd, n));
    im->map[op->results[0].id] = ew2(g, RP_MUL, SPREAD(k), ew2(g, RP_SUB, ew2(g, RP_SUB, i1, i2), i4));
    im->map[op->results[1].id] = ew2(g, RP_DIV, dot, sd);
    im->map[op->results[2].id] = sum;
#undef SPREAD
}

static void import_library(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    struct cg_value *in[64], *lib;
    int64_t attrs[16] = {0};
    if (!imp_operands(im, op, op->num_operands, in, NF_ARRAY_LEN(in))) return;
    uint32_t n = op->num_operands, na = 0;
    enum plan_op p;
    switch ((int)op->id) {
    case HLO_OP_DYNAMIC_SLICE: p = PLAN_DSLICE; break;
    case HLO_OP_DYNAMIC_UPDATE_SLICE: p = PLAN_DUPDATE; break;
    case HLO_OP_CHOLESKY:
        p = PLAN_CHOLESKY;
        attrs[na++] = hlo_op_bool(op, HLO_A_lower, false);
        break;
    case HLO_OP_TRIANGULAR_SOLVE:
        p = PLAN_TRISOLVE;
        attrs[na++] = hlo_op_bool(op, HLO_A_left_side, false);
        attrs[na++] = hlo_op_bool(op, HLO_A_lower, false);
        attrs[na++] = hlo_op_bool(op, HLO_A_unit_diagonal, false);
        attrs[na++] = NF_MAX(hlo_op_enum(op, HLO_A_transpose_a, HLO_NO_TRANSPOSE) - HLO_NO_TRANSPOSE, 0);
        break;
    case HLO_OP_FFT: {
        p = PLAN_FFT;
        struct hlo_ints l = hlo_op_i64s(op, HLO_A_fft_length);
        attrs[na++] = hlo_op_enum(op, HLO_A_fft_type, HLO_FFT);
        if (l.n > 3) {
            imp_refuse(im, op, "more than 3 dimensions");
            return;
        }
        na = put_ints(attrs, na, l);
        break;
    }
    case HLO_OP_RNG_BIT_GENERATOR:
        p = PLAN_RNGBITS;
        attrs[na++] = hlo_op_enum(op, HLO_A_rng_algorithm, HLO_RNG_DEFAULT);
        break;
    case HLO_OP_CHLO_TOP_K:
        p = PLAN_TOPK;
        attrs[na++] = hlo_op_i64(op, HLO_A_k, 0);
        break;
    case HLO_OP_RNG:
        p = PLAN_RNG;
        n = 2; /* the third is the shape of the result */
        attrs[na++] = hlo_op_enum(op, HLO_A_rng_distribution, HLO_RNG_INVALID) == HLO_RNG_NORMAL;
        break;
    default:
        p = PLAN_PROCESS;
        attrs[na++] = op->id == HLO_OP_PARTITION_ID;
        break;
    }
    lib = cg_lib(g, p, n, in, na, attrs);
    lib->label = im->label;
    lib->in_place = p == PLAN_DUPDATE;
    finish_lib(im, op, lib);
}

/* A character of a LAPACK call's configuration; 0: none. */
static char lapack_char(const struct hlo_op *op, const char *name)
{
    const struct hlo_attr *cfg = hlo_op_discardable(op, NF_STR("mhlo.backend_config"));
    if (!cfg) cfg = hlo_op_attr(op, HLO_A_backend_config);
    const struct hlo_attr *v = cfg && cfg->kind == HLO_ATTR_DICT ? hlo_named_find(cfg->dict.v, cfg->dict.n, nf_str_c(name)) : NULL;
    return v && v->kind == HLO_ATTR_INT ? (char)v->i : 0;
}

/* lapack_?potrf_ffi: the factor, with the other triangle as it was, and 0 or 1 (not positive); lapack_?trsm_ffi: a system with a triangle. */
static void import_lapack(struct import *im, struct cg_graph *g, const struct hlo_op *op, bool solve)
{
    struct cg_value *a = get(im, hlo_op_operand(op, 0)), *b = solve && op->num_operands == 2 ? get(im, hlo_op_operand(op, 1)) : NULL;
    char side = lapack_char(op, "side"), uplo = lapack_char(op, "uplo"), trans = lapack_char(op, "trans_x"), diag = lapack_char(op, "diag");
    bool fits = uplo == 'L' || uplo == 'U';
    if (im->rc) return;
    if (solve) fits = fits && b && op->num_results == 1 && (side == 'L' || side == 'R') && (trans == 'N' || trans == 'T' || trans == 'C') && (diag == 'N' || diag == 'U') && a->rank >= 2;
    else fits = fits && op->num_operands == 1 && op->num_results == 2 && a->rank >= 2 && a->dims[a->rank - 1] == a->dims[a->rank - 2] && a->count > 0;
    if (!fits) {
        imp_refuse(im, op, "this form of a LAPACK call");
        return;
    }
    int64_t attrs[4] = {side == 'L', uplo == 'L', diag == 'U', trans == 'N' ? 0 : trans == 'T' ? 1 : 2};
    if (solve) {
        struct cg_value *in[2] = {a, b}, *lib = cg_lib(g, PLAN_TRISOLVE, 2, in, 4, attrs);
        lib->label = im->label;
        finish_lib(im, op, lib);
        return;
    }
    struct cg_value *lib = cg_lib(g, PLAN_CHOLESKY, 1, &a, 1, &attrs[1]), *r, *row, *col;
    lib->label = im->label;
    cg_lib_results(lib, 1, &a->dt, (int[]){a->rank}, (const int64_t *[]){a->dims}, &r);
    row = cg_iota(g, CPU_S32, a->rank, a->dims, (uint32_t)a->rank - 2);
    col = cg_iota(g, CPU_S32, a->rank, a->dims, (uint32_t)a->rank - 1);
    struct cg_value *mine = cg_ew(g, RP_CMP, CPU_PRED, uplo == 'L' ? RP_GE : RP_LE, 2, (struct cg_value *[]){row, col});
    im->map[op->results[0].id] = cg_ew(g, RP_SEL, (enum cpu_dt)a->dt, 0, 3, (struct cg_value *[]){mine, r, a});
    int64_t dims[CG_RANK_MAX], start[CG_RANK_MAX] = {0}, step[CG_RANK_MAX];
    for (int d = 0; d < a->rank; d++) {
        dims[d] = d < a->rank - 2 ? a->dims[d] : 1;
        step[d] = 1;
    }
    struct cg_value *first = cg_reshape(g, cg_slice(g, r, dims, start, step), a->rank - 2, dims);
    first = cg_ew(g, RP_CMP, CPU_PRED, RP_NE, 2, (struct cg_value *[]){first, first});
    int rank;
    enum cpu_dt dt = imp_type(im, op, op->results[1].type, dims, &rank);
    if (rank == first->rank) im->map[op->results[1].id] = cg_convert(g, first, dt);
    else imp_refuse(im, op, "this form of a LAPACK call");
}

void imp_op(struct import *im, struct cg_graph *g, const struct hlo_op *op)
{
    int rp = rp_of(op->id);
    struct cg_value *v = NULL, *w, *r;
    uint32_t before = g->n;
    im->label = label_of(im, op);
    if (!im->expressed && any_quant(op) && !moves_storage(op)) {
        import_quantised(im, g, op);
    } else if (rp >= 0) {
        if ((r = import_elementwise(im, g, op, (enum rp_op)rp))) im->map[op->results[0].id] = r;
    } else switch ((int)op->id) {
    case HLO_OP_COMPARE:
        v = get(im, hlo_op_operand(op, 0));
        w = get(im, hlo_op_operand(op, 1));
        if (v && w) im->map[op->results[0].id] = cg_ew(g, RP_CMP, CPU_PRED, compare_aux(op), 2, (struct cg_value *[]){v, w});
        break;
    case HLO_OP_REDUCE_PRECISION:
        if (!(v = get(im, hlo_op_operand(op, 0)))) break;
        im->map[op->results[0].id] = cg_ew(g, RP_PREC, (enum cpu_dt)v->dt, (int)(hlo_op_i64(op, HLO_A_exponent_bits, 8) << 8 | hlo_op_i64(op, HLO_A_mantissa_bits, 23)), 1, &v);
        break;
    case HLO_OP_CHLO_SQUARE:
        if (!(v = get(im, hlo_op_operand(op, 0)))) break;
        if (cpu_dt_complex((enum cpu_dt)v->dt)) { /* (x - y)(x + y), 2xy: infinities do not meet */
            enum cpu_dt part = v->dt == CPU_C64 ? CPU_F32 : CPU_F64;
            struct cg_value *x = cg_ew(g, RP_REAL, part, 0, 1, &v), *y = cg_ew(g, RP_IMAG, part, 0, 1, &v), *xy = ew2(g, RP_MUL, x, y);
            struct cg_value *ax = ew1(g, RP_ABS, x), *ay = ew1(g, RP_ABS, y), *re = ew2(g, RP_MUL, ew2(g, RP_SUB, x, y), ew2(g, RP_ADD, x, y));
            struct cg_value *equal = cg_ew(g, RP_CMP, CPU_PRED, RP_EQ, 2, (struct cg_value *[]){ax, ay}), *finite = cg_ew(g, RP_FINITE, CPU_PRED, 0, 1, &x);
            equal = cg_ew(g, RP_AND, CPU_PRED, 0, 2, (struct cg_value *[]){equal, finite}); /* 0, though the sum overflows */
            re = cg_ew(g, RP_SEL, part, 0, 3, (struct cg_value *[]){equal, number(g, re, 0), re});
            r = cg_ew(g, RP_COMPLEX, (enum cpu_dt)v->dt, 0, 2, (struct cg_value *[]){re, ew2(g, RP_ADD, xy, xy)});
        } else {
            r = ew2(g, RP_MUL, v, v);
        }
        im->map[op->results[0].id] = r;
        break;
    case HLO_OP_CHLO_CONJ:
        if (!(v = get(im, hlo_op_operand(op, 0)))) break;
        if (cpu_dt_complex((enum cpu_dt)v->dt)) {
            enum cpu_dt part = v->dt == CPU_C64 ? CPU_F32 : CPU_F64;
            struct cg_value *re = cg_ew(g, RP_REAL, part, 0, 1, &v), *imv = cg_ew(g, RP_IMAG, part, 0, 1, &v);
            v = cg_ew(g, RP_COMPLEX, (enum cpu_dt)v->dt, 0, 2, (struct cg_value *[]){re, ew1(g, RP_NEG, imv)});
        }
        im->map[op->results[0].id] = v;
        break;
    case HLO_OP_CHLO_IS_INF:
    case HLO_OP_CHLO_IS_NEG_INF:
    case HLO_OP_CHLO_IS_POS_INF:
        if (!(v = get(im, hlo_op_operand(op, 0)))) break;
        if (op->id == HLO_OP_CHLO_IS_INF) v = ew1(g, RP_ABS, v);
        w = number(g, v, op->id == HLO_OP_CHLO_IS_NEG_INF ? -INFINITY : INFINITY);
        im->map[op->results[0].id] = cg_ew(g, RP_CMP, CPU_PRED, RP_EQ, 2, (struct cg_value *[]){v, w});
        break;
    case HLO_OP_CONSTANT:
    case HLO_OP_CHLO_CONSTANT:
    case HLO_OP_ARITH_CONSTANT: import_constant(im, g, op); break;
    case HLO_OP_IOTA: case HLO_OP_DYNAMIC_IOTA: case HLO_OP_BROADCAST_IN_DIM: case HLO_OP_DYNAMIC_BROADCAST_IN_DIM: case HLO_OP_BROADCAST: case HLO_OP_RESHAPE:
    case HLO_OP_DYNAMIC_RESHAPE: case HLO_OP_TRANSPOSE: case HLO_OP_REVERSE: case HLO_OP_SLICE: case HLO_OP_PAD: case HLO_OP_CONCATENATE:
        import_move(im, g, op);
        break;
    case HLO_OP_GET_DIMENSION_SIZE: {
        v = get(im, hlo_op_operand(op, 0));
        struct cpu_num n = {.i = v ? v->dims[hlo_op_i64(op, HLO_A_dimension, 0)] : 0};
        im->map[op->results[0].id] = cg_splat(g, CPU_S32, 0, NULL, n);
        break;
    }
    case HLO_OP_SET_DIMENSION_SIZE: import_set_dimension_size(im, g, op); break;
    case HLO_OP_BITCAST_CONVERT: import_bitcast(im, g, op); break;
    case HLO_OP_REDUCE: import_reduce(im, g, op); break;
    case HLO_OP_REDUCE_WINDOW: import_window(im, g, op); break;
    case HLO_OP_SELECT_AND_SCATTER: import_select_scatter(im, g, op); break;
    case HLO_OP_GATHER: case HLO_OP_DYNAMIC_GATHER: import_gather(im, g, op); break;
    case HLO_OP_SCATTER: import_scatter(im, g, op); break;
    case HLO_OP_SORT: import_sort(im, g, op); break;
    case HLO_OP_MAP: import_map(im, g, op); break;
    case HLO_OP_DOT_GENERAL: case HLO_OP_DOT: imp_dot(im, g, op); break;
    case HLO_OP_CONVOLUTION: case HLO_OP_DYNAMIC_CONV: imp_convolution(im, g, op); break;
    case HLO_OP_BATCH_NORM_TRAINING: case HLO_OP_BATCH_NORM_INFERENCE: case HLO_OP_BATCH_NORM_GRAD: import_batch_norm(im, g, op); break;
    case HLO_OP_DYNAMIC_SLICE: case HLO_OP_DYNAMIC_UPDATE_SLICE: case HLO_OP_CHOLESKY: case HLO_OP_TRIANGULAR_SOLVE: case HLO_OP_FFT:
    case HLO_OP_RNG_BIT_GENERATOR: case HLO_OP_RNG: case HLO_OP_CHLO_TOP_K: case HLO_OP_REPLICA_ID: case HLO_OP_PARTITION_ID:
        import_library(im, g, op);
        break;
    case HLO_OP_WHILE: import_while(im, g, op); break;
    case HLO_OP_SDY_MANUAL_COMPUTATION: import_manual(im, g, op); break;
    case HLO_OP_IF: case HLO_OP_CASE: import_case(im, g, op); break;
    case HLO_OP_CALL: import_call(im, g, op, hlo_op_string(op, HLO_A_callee)); break;
    case HLO_OP_COMPOSITE: import_call(im, g, op, hlo_op_string(op, HLO_A_decomposition)); break;
    case HLO_OP_OPTIMIZATION_BARRIER:
        for (uint32_t i = 0; i < op->num_results && !im->rc; i++) same_parts(im, &op->results[i], hlo_op_operand(op, i));
        break;
    case HLO_OP_AFTER_ALL: case HLO_OP_CREATE_TOKEN: case HLO_OP_OUTFEED: break; /* nobody takes what goes out */
    case HLO_OP_TUPLE: {
        struct cg_value **parts = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(op) + 1);
        if (all_operands(im, op, parts)) imp_set_parts(im, &op->results[0], parts);
        break;
    }
    case HLO_OP_GET_TUPLE_ELEMENT: {
        const struct hlo_type *t = hlo_op_operand(op, 0)->type;
        struct cg_value **parts = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(op) + 1);
        int64_t at = hlo_op_i64(op, HLO_A_index, 0);
        if (!all_operands(im, op, parts)) break;
        for (int64_t i = 0; i < at && i < t->num_types; i++) parts += imp_parts(t->types[i]);
        if (t->kind == HLO_TYPE_TUPLE && at >= 0 && at < t->num_types) imp_set_parts(im, &op->results[0], parts);
        else imp_refuse(im, op, "an element that the tuple does not have");
        break;
    }
    case HLO_OP_ASYNC_START: import_async_start(im, g, op); break;
    case HLO_OP_ASYNC_DONE: import_async_done(im, op); break;
    case HLO_OP_SEND: case HLO_OP_RECV: case HLO_OP_INFEED: import_transfer(im, g, op); break;
    case HLO_OP_DYNAMIC_PAD: case HLO_OP_REAL_DYNAMIC_SLICE: import_dynamic_move(im, g, op); break;
    case HLO_OP_INTERPRETER_PROBE: imp_probe(im, g, op); break;
    case HLO_OP_INTERPRETER_PRINT: imp_print(im, g, op); break;
    case HLO_OP_CHECK_EXPECT_EQ: case HLO_OP_CHECK_EXPECT_EQ_CONST: case HLO_OP_CHECK_EXPECT_ALMOST_EQ: case HLO_OP_CHECK_EXPECT_ALMOST_EQ_CONST:
    case HLO_OP_CHECK_EXPECT_CLOSE: case HLO_OP_CHECK_EXPECT_SERIALIZED_EQ:
        imp_check(im, g, op);
        break;
    case HLO_OP_SDY_RESHARD: case HLO_OP_TENSOR_CAST: case HLO_OP_SDY_SHARDING_CONSTRAINT: im->map[op->results[0].id] = get(im, hlo_op_operand(op, 0)); break;
    case HLO_OP_ALL_REDUCE: case HLO_OP_ALL_GATHER: case HLO_OP_REDUCE_SCATTER: case HLO_OP_ALL_TO_ALL: case HLO_OP_COLLECTIVE_PERMUTE: case HLO_OP_COLLECTIVE_BROADCAST:
    case HLO_OP_COLLECTIVE_REDUCE:
        imp_collective(im, g, op);
        break;
    case HLO_OP_CUSTOM_CALL: {
        struct nf_str target = hlo_op_string(op, HLO_A_call_target_name);
        if (hlo_call_passes(op)) {
            for (uint32_t i = 0; i < op->num_results && !im->rc; i++) same_parts(im, &op->results[i], hlo_op_operand(op, i));
            break;
        }
        if (imp_check_call(im, g, op)) break;
        static const char *const lapack[] = {"lapack_spotrf_ffi", "lapack_dpotrf_ffi", "lapack_cpotrf_ffi", "lapack_zpotrf_ffi", "lapack_strsm_ffi", "lapack_dtrsm_ffi", "lapack_ctrsm_ffi", "lapack_ztrsm_ffi"};
        size_t l = 0;
        while (l < NF_ARRAY_LEN(lapack) && !nf_str_eq_c(target, lapack[l])) l++;
        if (l < NF_ARRAY_LEN(lapack) && op->num_operands >= 1) {
            import_lapack(im, g, op, l >= 4);
            break;
        }
        char *why = nf_arena_printf(im->cg->arena, "the target \"%.*s\"", NF_STR_ARG(target));
        imp_refuse(im, op, why);
        break;
    }
    default: imp_refuse(im, op, ""); break;
    }
    for (uint32_t i = before; i < g->n && !im->rc; i++)
        if (g->v[i]->label == PLAN_NO_LABEL) g->v[i]->label = im->label;
}

void imp_block(struct import *im, struct cg_graph *g, const struct hlo_block *b)
{
    for (const struct hlo_op *op = b->first; op && op != b->last && !im->rc; op = op->next) imp_op(im, g, op);
}

struct cg_value *imp_get(struct import *im, const struct hlo_value *v) { return get(im, v); }

void imp_finish_lib(struct import *im, const struct hlo_op *op, struct cg_value *lib) { finish_lib(im, op, lib); }

int imp_body_kind(const struct hlo_block *b, uint32_t n) { return body_kind(b, n); }

void imp_attach_body(struct import *im, struct cg_value *lib, const struct hlo_block *b) { attach_body(im, lib, b, 0); }

/* params: given (a loop's condition has the body's), or made from the block's arguments. Results are stored values. */
static struct cg_graph *import_region(struct import *im, struct cg_graph *parent, const struct hlo_block *b, struct cg_value **params, const bool *outer, const bool *dropped)
{
    struct cg_graph *g = cg_graph_new(im->cg, parent);
    if (im->depth >= CALL_DEPTH || !b || !b->last) {
        if (!im->rc) im->rc = nf_fail(im->err, NF_EUNSUPPORTED, "regions nested that deep");
        return g;
    }
    uint32_t nparam = 0;
    for (uint32_t i = 0; i < b->num_args; i++) nparam += imp_parts(b->args[i]->type);
    g->params = params ? params : NF_NEW_ARRAY(im->cg->arena, struct cg_value *, nparam + 1);
    for (uint32_t i = 0, at = 0; i < b->num_args && !im->rc; at += imp_parts(b->args[i++]->type)) {
        if (outer && outer[at]) continue;
        uint32_t first = g->nparam;
        for (uint32_t p = 0; p < imp_parts(b->args[i]->type); p++) {
            uint32_t k = g->nparam++;
            if (params) continue;
            int64_t dims[CG_RANK_MAX];
            int rank;
            enum cpu_dt dt = imp_type(im, b->last, part_type(b->args[i]->type, p), dims, &rank);
            g->params[k] = cg_raw(g, CG_PARAM, dt, rank, dims);
            g->params[k]->index = k;
            g->params[k]->stored = true;
        }
        imp_set_parts(im, b->args[i], g->params + first);
    }
    im->depth++;
    imp_block(im, g, b);
    im->depth--;
    struct cg_value **results = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(b->last) + 1);
    g->results = NF_NEW_ARRAY(im->cg->arena, struct cg_value *, count_operands(b->last) + 1);
    if (im->rc || !all_operands(im, b->last, results)) return g;
    for (uint32_t i = 0; i < count_operands(b->last); i++)
        if (!dropped || !dropped[i]) g->results[g->nresult++] = cg_dense(g, results[i]);
    return g;
}

static int64_t module_number(const struct hlo_module *m, struct nf_str name)
{
    const struct hlo_attr *a = hlo_op_discardable(m->op, name);
    return a && a->kind == HLO_ATTR_INT && a->i > 0 && a->i <= 65536 ? a->i : 1;
}

/* Notes in `seen` the functions that are called outside of manual computations. */
static void called_outside(const struct hlo_module *m, struct hlo_op *f, struct nf_map *seen, int depth)
{
    if (!f || depth > CALL_DEPTH || nf_map_put(seen, hlo_func_name(f), f)) return;
    struct hlo_walk w = hlo_walk_of(f);
    for (const struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (op->id == HLO_OP_SDY_MANUAL_COMPUTATION) hlo_walk_skip(&w);
        if (op->id == HLO_OP_CALL) called_outside(m, hlo_module_func(m, hlo_op_string(op, HLO_A_callee)), seen, depth + 1);
        if (op->id == HLO_OP_COMPOSITE) called_outside(m, hlo_module_func(m, hlo_op_string(op, HLO_A_decomposition)), seen, depth + 1);
    }
}

static bool cuts_arrays(const struct hlo_module *m, const struct hlo_op *op, struct nf_arena *arena)
{
    struct hlo_mesh mesh;
    struct hlo_mesh_cut *cuts;
    struct nf_error ignored;
    return !hlo_mesh_manual(m, op, arena, &mesh, &cuts, &ignored) && !hlo_mesh_uncut(cuts, op->num_operands + op->num_results);
}

/* A program with shardings speaks of whole arrays. One in which no device does anything of its own but in manual computations computes them alone,
 * and so does one whose manual computations cut arrays, which no partition of a program could run. */
static bool whole_arrays(const struct cg *cg, const struct hlo_module *m)
{
    bool sharded = false, alone = true, cut = false;
    struct nf_map *seen = nf_map_new(true);
    called_outside(m, hlo_module_entry(m), seen, 0);
    HLO_FOR_OPS(f, hlo_module_block(m)) {
        if (f->id != HLO_OP_FUNC || !nf_map_get(seen, hlo_func_name(f))) continue;
        struct hlo_walk w = hlo_walk_of(f);
        for (const struct hlo_op *op; (op = hlo_walk_next(&w));) {
            if ((hlo_op_info((enum hlo_op_id)op->id)->traits & HLO_T_COLLECTIVE) || op->id == HLO_OP_PARTITION_ID || op->id == HLO_OP_REPLICA_ID || op->id == HLO_OP_SEND ||
                op->id == HLO_OP_RECV || op->id == HLO_OP_INFEED)
                alone = false;
            sharded = sharded || op->id == HLO_OP_SDY_SHARDING_CONSTRAINT || op->id == HLO_OP_SDY_MANUAL_COMPUTATION;
            if (op->id != HLO_OP_SDY_MANUAL_COMPUTATION) continue;
            cut = cut || cuts_arrays(m, op, cg->arena);
            hlo_walk_skip(&w);
        }
    }
    nf_map_free(seen);
    return sharded && (alone || (cut && cg->partitions > 1));
}

int cg_import(struct cg *cg, struct hlo_module *m, struct nf_error *err)
{
    struct hlo_op *f = hlo_module_entry(m);
    struct hlo_block *b = f ? hlo_func_block(f) : NULL;
    if (!b || !b->last) return nf_fail(err, NF_EGRAPH, "the program has no entry function");
    struct import im = {.cg = cg, .m = m, .err = err, .nmap = m->num_values, .probed = imp_asks_for_probes(m)};
    cg->map = im.map = NF_NEW_ARRAY(cg->arena, struct cg_value *, m->num_values + 1);
    cg->replicas = (uint32_t)module_number(m, NF_STR("mhlo.num_replicas"));
    cg->partitions = (uint32_t)module_number(m, NF_STR("mhlo.num_partitions"));
    if (whole_arrays(cg, m)) cg->replicas = cg->partitions = 1;
    struct cg_graph *g = cg->main = cg_graph_new(cg, NULL);
    cg->args = NF_NEW_ARRAY(cg->arena, struct cg_value *, b->num_args + 1);
    cg->arg_bytes = NF_NEW_ARRAY(cg->arena, uint64_t, b->num_args + 1);
    cg->out_bytes = NF_NEW_ARRAY(cg->arena, uint64_t, b->last->num_operands + 1);
    cg->alias = NF_NEW_ARRAY(cg->arena, int64_t, b->last->num_operands + 1);
    const struct hlo_value **outs = NF_NEW_ARRAY(cg->arena, const struct hlo_value *, b->last->num_operands + 1);
    for (uint32_t i = 0; i < b->last->num_operands; i++) { /* tokens hold nothing */
        const struct hlo_value *v = hlo_op_operand(b->last, i);
        cg->alias[i] = -1;
        if (v->type->kind != HLO_TYPE_TOKEN) outs[cg->nouts++] = v;
    }
    for (uint32_t i = 0; i < b->num_args; i++) {
        if (b->args[i]->type->kind == HLO_TYPE_TOKEN) continue;
        int64_t dims[CG_RANK_MAX];
        int rank;
        enum cpu_dt dt = imp_type(&im, f, b->args[i]->type, dims, &rank);
        if (im.rc) return im.rc;
        struct cg_value *v = cg_raw(g, CG_ARG, dt, rank, dims);
        v->index = cg->nargs++;
        v->stored = true;
        cg->args[v->index] = im.map[b->args[i]->id] = v;
        cg->arg_bytes[v->index] = (uint64_t)v->count * cpu_dt_bytes(dt);
        const struct hlo_attr *a = hlo_func_arg_attr(f, i, NF_STR("tf.aliasing_output"));
        bool counted = cg->nouts == b->last->num_operands; /* else the number is another one's */
        if (counted && a && a->kind == HLO_ATTR_INT && a->i >= 0 && a->i < cg->nouts && cg->alias[a->i] < 0) cg->alias[a->i] = v->index;
    }
    imp_block(&im, g, b);
    g->nresult = cg->nouts;
    g->results = NF_NEW_ARRAY(cg->arena, struct cg_value *, cg->nouts + 1);
    for (uint32_t i = 0; i < cg->nouts && !im.rc; i++) {
        struct cg_value *v = get(&im, outs[i]);
        if (!v) break;
        /* An output is written where it is computed; one that is an argument, a view, or another output too, is copied. */
        if (cg_is_view(v) || v->kind <= CG_IOTA || v->kind == CG_PARAM || v->output || v->graph != g) {
            struct cg_value *c = cg_raw(g, CG_EW, (enum cpu_dt)v->dt, v->rank, v->dims);
            c->op = RP_COPY;
            c->nin = 1;
            c->in = NF_NEW_ARRAY(cg->arena, struct cg_value *, 1);
            c->in[0] = v;
            c->label = b->last->loc ? label_of(&im, b->last) : PLAN_NO_LABEL;
            v = c;
        }
        v->output = true;
        v->stored = true;
        g->results[i] = v;
        cg->out_bytes[i] = (uint64_t)v->count * cpu_dt_bytes((enum cpu_dt)v->dt);
        if (cg->alias[i] >= 0 && cg->arg_bytes[cg->alias[i]] != cg->out_bytes[i]) cg->alias[i] = -1;
    }
    return im.rc;
}
