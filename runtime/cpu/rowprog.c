/* rowprog.c: text form and rules of row programs; rp_run.c runs them. */
#include "runtime/cpu/rowprog.h"

#include <inttypes.h>

const struct rp_op_info rp_op_info[RP_OP_MAX] = {
#define RP_OP(sym, name, nsrc, cost) {name, nsrc, cost},
#include "runtime/cpu/rp_ops.def"
#undef RP_OP
};
const char *const rp_red_names[RP_RED_MAX] = {"sum", "prod", "max", "min", "all", "any", "parity"};

/* ------------------------------------------------------------------------------------------------------------ print */

void rp_print(const struct rp_prog *p, struct nf_buf *out)
{
    if (p->block) nf_buf_addf(out, "col %d %d *", p->block, p->npar);
    else nf_buf_addf(out, "row %s%d *", p->cut ? "cut " : "", p->npar);
    for (int i = 1; i < p->nd; i++) nf_buf_addf(out, " %" PRId64, p->dims[i]);
    nf_buf_add_char(out, '\n');
    for (int i = 0; i < p->nacc; i++) {
        const struct rp_acc *a = &p->acc[i];
        if (a->arg == RP_NO_ARG) nf_buf_add_c(out, "acc -");
        else if (a->arg == RP_SCRATCH) nf_buf_add_c(out, "acc scratch");
        else nf_buf_addf(out, "acc %d", a->arg);
        nf_buf_addf(out, " %s %" PRId64, cpu_dt_info[a->dt].name, a->base);
        for (int d = 0; d < p->nd; d++) nf_buf_addf(out, " %" PRId64, a->stride[d]);
        nf_buf_add_char(out, '\n');
    }
    for (int i = 0; i < p->nins; i++) {
        const struct rp_ins *s = &p->ins[i];
        nf_buf_addf(out, "%s", rp_op_info[s->op].name);
        if (s->op != RP_PASS && s->op != RP_ONCE) {
            nf_buf_addf(out, " %s %u", cpu_dt_info[s->dt].name, s->aux);
            for (int k = 0; k < rp_op_info[s->op].nsrc; k++) nf_buf_addf(out, " %d", s->src[k]);
            if (s->op == RP_ROW) nf_buf_addf(out, " %d", s->src[0]);
            if (s->op == RP_CONST) nf_buf_addf(out, " %" PRIx64, s->bits[0]);
            if (s->op == RP_CONST && s->dt == CPU_C128) nf_buf_addf(out, " %" PRIx64, s->bits[1]);
        }
        nf_buf_add_char(out, '\n');
    }
    nf_buf_add_c(out, "end\n");
}

/* ------------------------------------------------------------------------------------------------------------ parse */

struct scan {
    struct nf_str line;
    bool bad;
};

static struct nf_str word(struct scan *s)
{
    if (!s->line.data || s->line.len == 0) {
        s->bad = true;
        return nf_str_n(NULL, 0);
    }
    return nf_str_cut(&s->line, ' ');
}
static int64_t number(struct scan *s, int64_t low, int64_t high)
{
    int64_t v = 0;
    if (nf_str_to_i64(word(s), &v) || v < low || v > high) {
        s->bad = true;
        return low > 0 ? low : 0;
    }
    return v;
}
static uint64_t hex(struct scan *s)
{
    struct nf_str w = word(s);
    uint64_t v = 0;
    if (w.len == 0 || w.len > 16) s->bad = true;
    for (size_t i = 0; i < w.len && !s->bad; i++) {
        char c = w.data[i];
        if (c >= '0' && c <= '9') v = v << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f') v = v << 4 | (uint64_t)(c - 'a' + 10);
        else s->bad = true;
    }
    return v;
}

static void parse_head(struct scan *s, struct rp_prog *p)
{
    struct nf_str mode = word(s);
    if (nf_str_eq_c(mode, "col")) p->block = (int)number(s, 1, 4096);
    else if (!nf_str_eq_c(mode, "row")) s->bad = true;
    if (!p->block && nf_str_starts(s->line, NF_STR("cut "))) {
        p->cut = true;
        (void)word(s);
    }
    p->npar = (int)number(s, 1, RP_DIMS_MAX);
    if (!nf_str_eq_c(word(s), "*")) s->bad = true;
    p->dims[0] = 1;
    p->nd = 1;
    while (s->line.data && s->line.len && !s->bad) {
        if (p->nd == RP_DIMS_MAX) s->bad = true;
        else p->dims[p->nd++] = number(s, 1, INT64_MAX / 2);
    }
    if (p->npar > p->nd) s->bad = true;
}

static void parse_access(struct scan *s, const struct rp_prog *p, struct rp_acc *a)
{
    struct nf_str w = word(s);
    int64_t arg = 0;
    if (nf_str_eq_c(w, "-")) a->arg = RP_NO_ARG;
    else if (nf_str_eq_c(w, "scratch")) a->arg = RP_SCRATCH;
    else if (nf_str_to_i64(w, &arg) || arg < 0 || arg >= RP_ARGS_MAX) s->bad = true;
    else a->arg = (int)arg;
    a->dt = cpu_dt_find(word(s));
    if (a->dt == CPU_DT_MAX) {
        s->bad = true;
        a->dt = CPU_PRED;
    }
    a->base = number(s, INT64_MIN / 4, INT64_MAX / 4);
    for (int d = 0; d < p->nd; d++) a->stride[d] = number(s, INT64_MIN / 4, INT64_MAX / 4);
}

static void parse_instruction(struct scan *s, struct nf_str op, struct rp_ins *ins)
{
    int o = 0;
    while (o < RP_OP_MAX && !nf_str_eq_c(op, rp_op_info[o].name)) o++;
    if (o == RP_OP_MAX) {
        s->bad = true;
        return;
    }
    ins->op = (uint16_t)o;
    if (o == RP_PASS || o == RP_ONCE) return;
    enum cpu_dt t = cpu_dt_find(word(s));
    if (t == CPU_DT_MAX) {
        s->bad = true;
        return;
    }
    ins->dt = (uint8_t)t;
    ins->aux = (uint16_t)number(s, 0, UINT16_MAX);
    int n = o == RP_ROW ? 1 : rp_op_info[o].nsrc;
    for (int k = 0; k < n; k++) ins->src[k] = (int32_t)number(s, 0, RP_INS_MAX);
    if (o == RP_CONST) ins->bits[0] = hex(s);
    if (o == RP_CONST && t == CPU_C128) ins->bits[1] = hex(s);
}

int rp_parse(struct nf_str text, struct nf_arena *arena, struct rp_prog **ret_prog, struct nf_error *err)
{
    struct rp_prog *p = NF_NEW(arena, struct rp_prog);
    size_t accs = 0, lines = 0;
    struct nf_str rest = text;
    while (rest.data && rest.len) {
        struct nf_str l = nf_str_cut(&rest, '\n');
        if (nf_str_starts(l, NF_STR("acc "))) accs++;
        lines++;
    }
    if (lines < 2 || lines > RP_INS_MAX || accs > RP_ACCS_MAX) return nf_fail(err, NF_ECORRUPT, "row program of %zu lines", lines);
    p->acc = NF_NEW_ARRAY(arena, struct rp_acc, accs + 1);
    p->ins = NF_NEW_ARRAY(arena, struct rp_ins, lines + 1);
    rest = text;
    struct scan s = {nf_str_cut(&rest, '\n'), false};
    parse_head(&s, p);
    size_t line = 1;
    bool ended = false;
    while (!s.bad && rest.data && rest.len && !ended) {
        s.line = nf_str_cut(&rest, '\n');
        line++;
        struct nf_str w = word(&s);
        if (nf_str_eq_c(w, "end")) ended = true;
        else if (nf_str_eq_c(w, "acc")) {
            if (p->nins) s.bad = true;
            else parse_access(&s, p, &p->acc[p->nacc++]);
        } else {
            parse_instruction(&s, w, &p->ins[p->nins++]);
        }
        if (s.line.data && s.line.len) s.bad = true;
    }
    if (s.bad) return nf_fail(err, NF_ECORRUPT, "row program: line %zu is not understood", line);
    if (!ended || (rest.data && rest.len)) return nf_fail(err, NF_ECORRUPT, "row program has no end");
    int rc = rp_verify(p, err);
    if (rc) return rc;
    *ret_prog = p;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- verify */

#define BAD(...) return nf_fail(err, NF_ECORRUPT, __VA_ARGS__)

static bool is_any_float(enum cpu_dt t) { return cpu_dt_float(t) || cpu_dt_complex(t); }

/* Do the operand types t suit the instruction? */
static bool typed(const struct rp_ins *s, const enum cpu_dt *t)
{
    enum cpu_dt r = (enum cpu_dt)s->dt;
    bool same = t[0] == r, fl = is_any_float(r), num = r != CPU_PRED;
    switch ((enum rp_op)s->op) {
    case RP_LD: case RP_CONST: case RP_ROW: case RP_PASS: case RP_ONCE: case RP_OP_MAX: return true;
    case RP_IDX: return r != CPU_PRED;
    case RP_ST: case RP_COPY: return same;
    case RP_RED:
        if (s->aux >= RP_RED_MAX || !same) return false;
        if (s->aux >= RP_ALL) return r == CPU_PRED || cpu_dt_int(r);
        return !(cpu_dt_complex(r) && s->aux >= RP_RMAX);
    case RP_NEG: case RP_ABS:
        if (s->op == RP_ABS && cpu_dt_complex(t[0])) return r == (t[0] == CPU_C64 ? CPU_F32 : CPU_F64);
        return same && num;
    case RP_SIGN: return same && num;
    case RP_NOT: return same && !fl;
    case RP_POPCNT: case RP_CLZ: return same && cpu_dt_int(r);
    case RP_FLOOR: case RP_CEIL: case RP_RNE: case RP_RAZ: case RP_PREC: case RP_ERF: case RP_ERFC: case RP_ERFINV: case RP_LGAMMA:
    case RP_DIGAMMA: case RP_I1E:
        return same && cpu_dt_float(r);
    case RP_SQRT: case RP_RSQRT: case RP_CBRT: case RP_EXP: case RP_EXPM1: case RP_LOG: case RP_LOG1P: case RP_LOGISTIC: case RP_TANH:
    case RP_SIN: case RP_COS: case RP_TAN: case RP_ASIN: case RP_ACOS: case RP_ATAN: case RP_SINH: case RP_COSH: case RP_ASINH:
    case RP_ACOSH: case RP_ATANH:
        return same && fl;
    case RP_FINITE: return r == CPU_PRED && cpu_dt_float(t[0]);
    case RP_REAL: case RP_IMAG: return cpu_dt_complex(t[0]) ? r == (t[0] == CPU_C64 ? CPU_F32 : CPU_F64) : same && cpu_dt_float(r);
    case RP_CVT: return true;
    case RP_BITS: return cpu_dt_info[r].bits == cpu_dt_info[t[0]].bits && cpu_dt_bytes(r) == cpu_dt_bytes(t[0]);
    case RP_ADD: case RP_MUL: return same && t[1] == r;
    case RP_SUB: case RP_DIV: case RP_POW: return same && t[1] == r && num;
    case RP_MAX: case RP_MIN: return same && t[1] == r;
    case RP_REM: return same && t[1] == r && num && !cpu_dt_complex(r);
    case RP_ATAN2: return same && t[1] == r && fl;
    case RP_NEXTAFTER: case RP_ZETA: case RP_POLYGAMMA: return same && t[1] == r && cpu_dt_float(r);
    case RP_AND: case RP_OR: case RP_XOR: return same && t[1] == r && !fl;
    case RP_SHL: case RP_SHR: case RP_SAR: case RP_MULHI: return same && t[1] == r && cpu_dt_int(r);
    case RP_CMP: return r == CPU_PRED && t[0] == t[1] && (s->aux & ~RP_CMP_TOTAL) < RP_CMP_MAX && (!(s->aux & RP_CMP_TOTAL) || cpu_dt_float(t[0]));
    case RP_COMPLEX: return t[0] == t[1] && ((r == CPU_C64 && t[0] == CPU_F32) || (r == CPU_C128 && t[0] == CPU_F64));
    case RP_SEL: return t[0] == CPU_PRED && t[1] == r && t[2] == r;
    case RP_CLAMP: return same && t[1] == r && t[2] == r && !cpu_dt_complex(r);
    }
    return false;
}

static bool has_result(enum rp_op op) { return op != RP_ST && op != RP_RED && op != RP_PASS && op != RP_ONCE; }

int rp_verify(struct rp_prog *p, struct nf_error *err)
{
    int pass = 0;
    if (p->nd < 1 || p->nd > RP_DIMS_MAX || p->npar < 1 || p->npar > p->nd) BAD("row program of %d dims, %d of them parallel", p->nd, p->npar);
    if (p->block && p->npar == p->nd) BAD("row program by columns without a vector dimension");
    if (p->cut && (p->block || p->npar == p->nd || p->dims[p->nd - 1] % RP_CUT)) BAD("row program cut where it can't be");
    for (int i = 1; i < p->nd; i++)
        if (p->dims[i] < 1) BAD("row program with extent %" PRId64, p->dims[i]);
    p->narg = 0;
    p->scratch_bytes = 0;
    for (int i = 0; i < p->nacc; i++) {
        struct rp_acc *a = &p->acc[i];
        int64_t low, high;
        if (a->arg >= p->narg) p->narg = a->arg + 1;
        if (!rp_extent(p, i, 1, &low, &high)) BAD("row program: access %d is out of range", i);
        if (a->arg != RP_SCRATCH) continue;
        if (low < 0 || high > INT32_MAX) BAD("row program: scratch access %d is out of range", i);
        for (int d = 0; d < p->npar; d++)
            if (a->stride[d]) BAD("row program: scratch access %d depends on the parallel index", i);
        if ((high + 1) * (int64_t)cpu_dt_bytes(a->dt) > p->scratch_bytes) p->scratch_bytes = (high + 1) * (int64_t)cpu_dt_bytes(a->dt);
    }
    if (p->nins < 1 || (p->ins[0].op != RP_PASS && p->ins[0].op != RP_ONCE)) BAD("row program does not start with a pass");
    for (int i = 0; i < p->nins; i++) {
        const struct rp_ins *s = &p->ins[i];
        enum cpu_dt t[3] = {0};
        if (s->op >= RP_OP_MAX || s->dt >= CPU_DT_MAX) BAD("row program: instruction %d is not one", i);
        if (s->op == RP_PASS || s->op == RP_ONCE) pass = i;
        for (int k = 0; k < rp_op_info[s->op].nsrc; k++) {
            if (s->src[k] <= pass || s->src[k] >= i || !has_result((enum rp_op)p->ins[s->src[k]].op))
                BAD("row program: operand %d of instruction %d is not a value of its pass", k, i);
            t[k] = (enum cpu_dt)p->ins[s->src[k]].dt;
        }
        if (!typed(s, t)) BAD("row program: instruction %d (%s) does not take these types", i, rp_op_info[s->op].name);
        if (s->op == RP_LD || s->op == RP_ST || s->op == RP_IDX) {
            if (s->aux >= p->nacc) BAD("row program: instruction %d has no access %u", i, s->aux);
            const struct rp_acc *a = &p->acc[s->aux];
            if ((s->op == RP_IDX) != (a->arg == RP_NO_ARG)) BAD("row program: instruction %d uses an access of another kind", i);
            if (s->op != RP_IDX && a->dt != s->dt) BAD("row program: instruction %d has another type than its access", i);
        }
        if (s->op == RP_RED && p->ins[pass].op == RP_ONCE) BAD("row program: instruction %d reduces in a pass without a loop", i);
        if (s->op == RP_ROW && (s->src[0] < 0 || s->src[0] >= pass || p->ins[s->src[0]].op != RP_RED || p->ins[s->src[0]].dt != s->dt))
            BAD("row program: instruction %d is of no finished reduction", i);
    }
    return 0;
}

int64_t rp_range(const struct rp_prog *p, int64_t outer)
{
    int64_t r = outer;
    for (int i = 1; i < p->npar; i++) r *= p->dims[i];
    return p->block ? r * ((p->dims[p->nd - 1] + p->block - 1) / p->block) : r;
}

bool rp_extent(const struct rp_prog *p, int a, int64_t outer, int64_t *ret_low, int64_t *ret_high)
{
    int64_t low = p->acc[a].base, high = low;
    for (int d = 0; d < p->nd; d++) {
        int64_t n = (d ? p->dims[d] : outer) - 1, span;
        if (n < 0 || __builtin_mul_overflow(n, p->acc[a].stride[d], &span)) return false;
        if (__builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high)) return false;
    }
    *ret_low = low;
    *ret_high = high;
    return true;
}
