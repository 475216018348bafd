/* graph_text.c: the graph of the stages import and group as text and back: print(parse(text)) == text, and a graph that was read compiles to the
 * plan of the one that was printed. Dead values are left out; what the later stages find out by themselves (uses, liveness) is not said.
 *
 *     text    = "graph replicas=" n " partitions=" n " alias=" numbers NL body
 *     body    = { value NL { "{ @" n " attr=" n { " " ref } NL body "}" NL } } "return" { " " ref } NL         indented by depth
 *     value   = "%" id ":" type "[" dims "]" " = " what { " " ref } { " " field } [ " ; " label ]
 *     what    = an elementwise operation, "step." operation of the plan, "reduce." kind, or the kind's name
 *     ref     = [ "@" graph ] "%" id                   a value of another graph; it may stand further down
 *     field   = "num=" n | "num=" float [ "," float ] | "bits=" hex [ "," hex ] | "data=" hex | "aux=" n | "index=" n | "list=" numbers | "step=" numbers
 *             | "attr=" numbers | "of=" ref | "results=" n | "loops=" { class n } | ( "a" | "b" | "c" ) dim "=" n { "+" n "l" n }
 *             | "space=" n | "depth=" n | "group=" ref | "row" | "stored" | "output" | "barrier" | "solo" | "in_place" | "dead"
 *
 * A "{" gives its graph's number (the main one's is 0), the attribute of the operation that takes the number of the block that the graph becomes,
 * and its parameters. */
#include "pipeline/codegen/cg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { DEPTH_MAX = 64, VALUES_MAX = 1 << 24 };

static const char *const kinds[] = {"arg",   "param",  "const",    "splat", "iota", "",  "broadcast", "reshape", "transpose", "slice",
                                    "reduce", "assemble", "piece", "dot",  "",    "result"};
static const char *const operands[] = {"a", "b", "c"};

/* ------------------------------------------------------------------------------------------------------------ print */

static void print_list(struct nf_buf *out, const char *name, const int64_t *v, uint32_t n)
{
    nf_buf_addf(out, " %s=", name);
    for (uint32_t i = 0; i < n; i++) nf_buf_addf(out, i ? ",%" PRId64 : "%" PRId64, v[i]);
}

static void print_ref(struct nf_buf *out, const char *before, const struct cg_graph *g, const struct cg_value *v)
{
    nf_buf_add_c(out, before);
    if (v->graph != g) nf_buf_addf(out, "@%u", v->graph->number);
    nf_buf_addf(out, "%%%u", v->id);
}

static void print_number(struct nf_buf *out, const struct cg_value *v)
{
    bool whole = v->dt <= CPU_U64, pair = cpu_dt_complex((enum cpu_dt)v->dt);
    uint64_t bits[2];
    memcpy(&bits[0], &v->num.re, 8);
    memcpy(&bits[1], &v->num.im, 8);
    if (whole) nf_buf_addf(out, " num=%" PRId64, v->num.i);
    else if (isnan(v->num.re) || (pair && isnan(v->num.im))) nf_buf_addf(out, pair ? " bits=%" PRIx64 ",%" PRIx64 : " bits=%" PRIx64, bits[0], bits[1]); /* which NaN */
    else if (pair) nf_buf_addf(out, " num=%.17g,%.17g", v->num.re, v->num.im);
    else nf_buf_addf(out, " num=%.17g", v->num.re);
}

static void print_dot(struct nf_buf *out, const struct cg_dot *d)
{
    nf_buf_add_c(out, " loops=");
    for (int l = 0; l < d->nloop; l++) nf_buf_addf(out, "%c%" PRId64, d->loop[l].cls, d->loop[l].extent);
    for (int o = 0; o < 3; o++)
        for (int k = 0; k < CG_RANK_MAX; k++) {
            bool any = d->base[o][k] != 0;
            for (int l = 0; l < d->nloop; l++) any = any || d->coef[o][k][l];
            if (!any) continue;
            nf_buf_addf(out, " %s%d=%" PRId64, operands[o], k, d->base[o][k]);
            for (int l = 0; l < d->nloop; l++)
                if (d->coef[o][k][l]) nf_buf_addf(out, "+%" PRId64 "l%d", d->coef[o][k][l], l);
        }
}

static void print_value(const struct cg_graph *g, const struct cg_value *v, struct nf_buf *out)
{
    nf_buf_addf(out, "%%%u:%s[", v->id, cpu_dt_info[v->dt].name);
    for (int d = 0; d < v->rank; d++) nf_buf_addf(out, d ? "x%" PRId64 : "%" PRId64, v->dims[d]);
    nf_buf_addf(out, "] = %s%s", v->kind == CG_LIB ? "step." : "", v->kind == CG_EW ? rp_op_info[v->op].name : v->kind == CG_LIB ? plan_op_name((enum plan_op)v->op) : kinds[v->kind]);
    if (v->kind == CG_REDUCE) nf_buf_addf(out, ".%s", rp_red_names[v->aux]);
    for (uint32_t k = 0; k < v->nin; k++) print_ref(out, " ", g, v->in[k]);
    if (v->kind == CG_SPLAT) print_number(out, v);
    if (v->kind == CG_CONST) {
        nf_buf_add_c(out, " data=");
        for (size_t i = 0; i < v->data.len; i++) nf_buf_addf(out, "%02x", (unsigned char)v->data.data[i]);
    }
    if (v->aux && v->kind != CG_REDUCE) nf_buf_addf(out, " aux=%u", v->aux);
    if (v->kind == CG_ARG || v->kind == CG_IOTA || v->kind == CG_RESULT) nf_buf_addf(out, " index=%u", v->index);
    if (v->list) print_list(out, "list", v->list, v->nlist);
    if (v->list2) print_list(out, "step", v->list2, v->nlist);
    if (v->attrs) print_list(out, "attr", v->attrs, v->nattr);
    if (v->owner) print_ref(out, " of=", g, v->owner);
    if (v->nresult) nf_buf_addf(out, " results=%u", v->nresult);
    if (v->dot) print_dot(out, v->dot);
    if (v->space) nf_buf_addf(out, " space=%d depth=%d", v->space, v->depth);
    else if (v->depth) nf_buf_addf(out, " depth=%d", v->depth);
    if (v->space && v->up) print_ref(out, " group=", g, v->up);
    if (v->row) nf_buf_add_c(out, " row");
    if (v->stored) nf_buf_add_c(out, " stored");
    if (v->output) nf_buf_add_c(out, " output");
    if (v->barrier) nf_buf_add_c(out, " barrier");
    if (v->solo) nf_buf_add_c(out, " solo");
    if (v->in_place) nf_buf_add_c(out, " in_place");
    if (v->dead) nf_buf_add_c(out, " dead");
    if (v->label != PLAN_NO_LABEL) {
        nf_buf_add_c(out, " ; ");
        nf_buf_add_str(out, g->cg->labels[v->label]);
    }
    nf_buf_add_char(out, '\n');
}

static void print_depth(const struct cg_graph *g, struct nf_buf *out, int depth)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const struct cg_value *v = g->v[i];
        if (v->dead && v->kind != CG_ARG) continue;
        nf_buf_addf(out, "%*s", 2 * depth, "");
        print_value(g, v, out);
        for (uint32_t k = 0; k < v->ngraph; k++) {
            nf_buf_addf(out, "%*s{ @%u attr=%u", 2 * depth, "", v->graphs[k]->number, v->graph_attr[k]);
            for (uint32_t p = 0; p < v->graphs[k]->nparam; p++) print_ref(out, " ", v->graphs[k], v->graphs[k]->params[p]);
            nf_buf_add_char(out, '\n');
            print_depth(v->graphs[k], out, depth + 1); /* depth: bounded by import */
            nf_buf_addf(out, "%*s}\n", 2 * depth, "");
        }
    }
    nf_buf_addf(out, "%*sreturn", 2 * depth, "");
    for (uint32_t i = 0; i < g->nresult; i++) print_ref(out, " ", g, g->results[i]);
    nf_buf_add_char(out, '\n');
}

static void give_numbers(struct cg_graph *g, uint32_t *next)
{
    g->number = (*next)++;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t k = 0; k < g->v[i]->ngraph && !g->v[i]->dead; k++) give_numbers(g->v[i]->graphs[k], next);
}

void cg_graph_print(struct cg_graph *g, struct nf_buf *out)
{
    uint32_t next = 0;
    give_numbers(g, &next);
    nf_buf_addf(out, "graph replicas=%u partitions=%u", g->cg->replicas, g->cg->partitions);
    print_list(out, "alias", g->cg->alias, g->cg->nouts);
    nf_buf_add_char(out, '\n');
    print_depth(g, out, 0);
}

/* ------------------------------------------------------------------------------------------------------------ parse */

struct fixup {
    struct fixup *next;
    struct cg_value **slot;
    struct cg_graph *g;       /* NULL: number says it */
    uint32_t number, id;
    struct nf_str line;
};
struct scan {
    struct nf_str at, rest, line; /* of this line, of the lines behind it, this line whole */
    struct cg *cg;
    struct fixup *fixups;
    uint32_t number;              /* of the line */
    bool bad;
};

static bool take(struct scan *s, const char *text)
{
    struct nf_str t = nf_str_c(text);
    if (s->bad || !nf_str_starts(s->at, t)) return false;
    s->at = nf_str_n(s->at.data + t.len, s->at.len - t.len);
    return true;
}
static void need(struct scan *s, const char *text)
{
    if (!take(s, text)) s->bad = true;
}
/* The next line without its indent; false at the end. */
static bool next_line(struct scan *s)
{
    if (s->bad || !s->rest.data || !s->rest.len) return false;
    s->at = nf_str_cut(&s->rest, '\n');
    s->number++;
    while (s->at.len && s->at.data[0] == ' ') s->at = nf_str_n(s->at.data + 1, s->at.len - 1);
    s->line = s->at;
    return true;
}
static int64_t number(struct scan *s, int64_t low, int64_t high)
{
    size_t n = 0;
    int64_t v = 0;
    while (n < s->at.len && n < 21 && (n == 0 && s->at.data[0] == '-' ? true : s->at.data[n] >= '0' && s->at.data[n] <= '9')) n++;
    if (s->bad || nf_str_to_i64(nf_str_n(s->at.data, n), &v) || v < low || v > high) {
        s->bad = true;
        return low > 0 ? low : 0;
    }
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    return v;
}
static double real(struct scan *s)
{
    char text[64], *end;
    size_t n = 0;
    while (n < s->at.len && n < sizeof text - 1 && !strchr(", ", s->at.data[n])) n++;
    memcpy(text, s->at.data, n);
    text[n] = 0;
    double v = strtod(text, &end);
    if (n == 0 || *end) s->bad = true;
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    return v;
}
static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
static double bits(struct scan *s)
{
    uint64_t b = 0;
    size_t n = 0;
    double v;
    for (; n < s->at.len && n < 16 && digit(s->at.data[n]) >= 0; n++) b = b << 4 | (uint64_t)digit(s->at.data[n]);
    if (n == 0) s->bad = true;
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    memcpy(&v, &b, 8);
    return v;
}
static struct nf_str bytes(struct scan *s)
{
    size_t n = 0;
    while (n + 1 < s->at.len && digit(s->at.data[n]) >= 0 && digit(s->at.data[n + 1]) >= 0) n += 2;
    char *b = nf_arena_alloc(s->cg->arena, n / 2 + 1);
    for (size_t i = 0; i < n / 2; i++) b[i] = (char)(digit(s->at.data[2 * i]) << 4 | digit(s->at.data[2 * i + 1]));
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    return nf_str_n(b, n / 2);
}
/* Numbers with commas; an empty list is one, too. */
static int64_t *numbers(struct scan *s, uint32_t *ret_n)
{
    uint32_t n = 0, words = 1;
    for (size_t i = 0; i < s->at.len && s->at.data[i] != ' '; i++) words += s->at.data[i] == ',';
    int64_t *v = NF_NEW_ARRAY(s->cg->arena, int64_t, words);
    if (s->at.len && s->at.data[0] != ' ')
        do v[n++] = number(s, INT64_MIN, INT64_MAX);
        while (!s->bad && n < words && take(s, ","));
    *ret_n = n;
    return v;
}

static void ref(struct scan *s, struct cg_graph *g, struct cg_value **slot)
{
    struct fixup *f = NF_NEW(s->cg->arena, struct fixup);
    *f = (struct fixup){.next = s->fixups, .slot = slot, .g = g, .line = s->line};
    if (take(s, "@")) {
        f->g = NULL;
        f->number = (uint32_t)number(s, 0, VALUES_MAX);
    }
    need(s, "%");
    f->id = (uint32_t)number(s, 0, VALUES_MAX);
    s->fixups = f;
}
/* " %1 @2%3": as many as follow. */
static struct cg_value **refs(struct scan *s, struct cg_graph *g, uint32_t *ret_n)
{
    uint32_t n = 0, words = 1;
    for (size_t i = 0; i < s->at.len; i++) words += s->at.data[i] == '%';
    struct cg_value **v = NF_NEW_ARRAY(s->cg->arena, struct cg_value *, words);
    while (!s->bad && s->at.len > 1 && s->at.data[0] == ' ' && (s->at.data[1] == '%' || s->at.data[1] == '@')) {
        need(s, " ");
        ref(s, g, &v[n++]);
    }
    *ret_n = n;
    return v;
}

static struct nf_str word(struct scan *s)
{
    size_t n = 0;
    while (n < s->at.len && s->at.data[n] != ' ' && s->at.data[n] != '[' && s->at.data[n] != '=') n++;
    struct nf_str w = nf_str_n(s->at.data, n);
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    return w;
}

static void what(struct scan *s, struct cg_value *v)
{
    struct nf_str w = word(s);
    if (nf_str_starts(w, NF_STR("reduce."))) {
        int k = 0;
        while (k < RP_RED_MAX && !nf_str_eq_c(nf_str_n(w.data + 7, w.len - 7), rp_red_names[k])) k++;
        v->kind = CG_REDUCE;
        v->aux = (uint16_t)k;
        s->bad = s->bad || k == RP_RED_MAX;
        return;
    }
    for (size_t i = 0; i < NF_ARRAY_LEN(kinds); i++)
        if (kinds[i][0] && i != CG_REDUCE && nf_str_eq_c(w, kinds[i])) {
            v->kind = (uint8_t)i;
            if (i == CG_PIECE) v->op = RP_COPY;
            return;
        }
    for (int i = 0; i < RP_OP_MAX; i++)
        if (nf_str_eq_c(w, rp_op_info[i].name)) {
            v->kind = CG_EW;
            v->op = (uint16_t)i;
            return;
        }
    for (int i = 0; i < PLAN_OP_MAX && nf_str_starts(w, NF_STR("step.")); i++)
        if (nf_str_eq_c(nf_str_n(w.data + 5, w.len - 5), plan_op_name((enum plan_op)i))) {
            v->kind = CG_LIB;
            v->op = (uint16_t)i;
            return;
        }
    s->bad = true;
}

static void dot(struct scan *s, struct cg_value *v)
{
    struct cg_dot *d = v->dot = NF_NEW(s->cg->arena, struct cg_dot);
    while (!s->bad && s->at.len && s->at.data[0] != ' ') {
        char c = s->at.data[0];
        s->at = nf_str_n(s->at.data + 1, s->at.len - 1);
        if (d->nloop == CG_LOOPS_MAX || !strchr("bmnk", c)) s->bad = true;
        else d->loop[d->nloop++] = (struct cg_loop){number(s, 0, INT64_MAX), c};
    }
}
static void dot_index(struct scan *s, struct cg_value *v, int o)
{
    int k = (int)number(s, 0, CG_RANK_MAX - 1);
    need(s, "=");
    if (!v->dot) s->bad = true;
    if (s->bad) return;
    v->dot->base[o][k] = number(s, INT64_MIN, INT64_MAX);
    while (take(s, "+")) {
        int64_t c = number(s, INT64_MIN, INT64_MAX);
        need(s, "l");
        int l = (int)number(s, 0, v->dot->nloop - 1);
        if (!s->bad) v->dot->coef[o][k][l] = c;
    }
}

static void fields(struct scan *s, struct cg_graph *g, struct cg_value *v)
{
    uint32_t n;
    while (!s->bad && s->at.len) {
        if (take(s, " ; ")) {
            v->label = cg_label(s->cg, s->at);
            s->at = nf_str_n(s->at.data, 0);
        } else if (take(s, " num=")) {
            if (v->dt <= CPU_U64) v->num.i = number(s, INT64_MIN, INT64_MAX);
            else v->num.re = real(s);
            if (take(s, ",")) v->num.im = real(s);
        } else if (take(s, " bits=")) {
            v->num.re = bits(s);
            if (take(s, ",")) v->num.im = bits(s);
        } else if (take(s, " data=")) {
            v->data = bytes(s);
        } else if (take(s, " aux=")) {
            v->aux = (uint16_t)number(s, 0, UINT16_MAX);
        } else if (take(s, " index=")) {
            v->index = (uint32_t)number(s, 0, UINT32_MAX);
        } else if (take(s, " list=")) {
            v->list = numbers(s, &v->nlist);
        } else if (take(s, " step=")) {
            v->list2 = numbers(s, &n);
            s->bad = s->bad || n != v->nlist;
        } else if (take(s, " attr=")) {
            v->attrs = numbers(s, &v->nattr);
        } else if (take(s, " of=")) {
            ref(s, g, &v->owner);
        } else if (take(s, " results=")) {
            v->nresult = (uint32_t)number(s, 0, 65536);
            v->results = NF_NEW_ARRAY(s->cg->arena, struct cg_value *, v->nresult + 1);
        } else if (take(s, " loops=")) {
            dot(s, v);
        } else if (take(s, " space=")) {
            v->space = (int)number(s, 0, INT32_MAX);
        } else if (take(s, " depth=")) {
            v->depth = (int)number(s, 0, INT32_MAX);
        } else if (take(s, " group=")) {
            ref(s, g, &v->up);
        } else if (take(s, " row")) {
            v->row = true;
        } else if (take(s, " stored")) {
            v->stored = true;
        } else if (take(s, " output")) {
            v->output = true;
        } else if (take(s, " barrier")) {
            v->barrier = true;
        } else if (take(s, " solo")) {
            v->solo = true;
        } else if (take(s, " in_place")) {
            v->in_place = true;
        } else if (take(s, " dead")) {
            v->dead = true;
        } else {
            int o = 0;
            need(s, " ");
            while (o < 3 && !take(s, operands[o])) o++;
            if (o == 3) s->bad = true;
            else dot_index(s, v, o);
        }
    }
}

static struct cg_value *value(struct scan *s, struct cg_graph *g)
{
    int64_t dims[CG_RANK_MAX];
    int rank = 0;
    need(s, "%");
    uint32_t id = (uint32_t)number(s, g->n, (int64_t)g->n + 65536); /* a gap is what was dead */
    need(s, ":");
    enum cpu_dt dt = cpu_dt_find(word(s));
    if (dt == CPU_DT_MAX) s->bad = true;
    need(s, "[");
    int64_t n = 1;
    for (bool more = !take(s, "]"); more && !s->bad;) {
        if (rank == CG_RANK_MAX) s->bad = true;
        else dims[rank] = number(s, 0, INT64_MAX / 64);
        if (!s->bad && __builtin_mul_overflow(n, dims[rank], &n)) s->bad = true;
        rank++;
        more = take(s, "x");
        if (!more) need(s, "]");
    }
    if (s->bad) return NULL;
    while (g->n < id) cg_raw(g, CG_SPLAT, CPU_PRED, 0, NULL)->dead = true;
    struct cg_value *v = cg_raw(g, CG_SPLAT, dt, rank, dims);
    need(s, " = ");
    what(s, v);
    v->in = refs(s, g, &v->nin);
    fields(s, g, v);
    return v;
}

static struct cg_graph *body(struct scan *s, struct cg_graph *g, int depth)
{
    struct cg_value *last = NULL;
    uint32_t *where = NULL;
    while (next_line(s)) {
        if (take(s, "return")) {
            g->results = refs(s, g, &g->nresult);
            s->bad = s->bad || s->at.len;
            return g;
        }
        if (!take(s, "{")) {
            last = value(s, g);
            where = NULL;
            continue;
        }
        if (!last || last->ngraph == 64 || depth == DEPTH_MAX) break;
        if (!where) {
            where = NF_NEW_ARRAY(s->cg->arena, uint32_t, 64);
            last->graph_attr = where;
            last->graphs = NF_NEW_ARRAY(s->cg->arena, struct cg_graph *, 64);
        }
        struct cg_graph *b = cg_graph_new(s->cg, g);
        need(s, " @");
        b->number = (uint32_t)number(s, 1, VALUES_MAX);
        need(s, " attr=");
        where[last->ngraph] = (uint32_t)number(s, 0, UINT32_MAX);
        last->graphs[last->ngraph++] = b;
        b->params = refs(s, b, &b->nparam);
        s->bad = s->bad || s->at.len;
        body(s, b, depth + 1);
        if (!next_line(s) || !take(s, "}")) break;
    }
    s->bad = true;
    return g;
}

static bool resolve(struct scan *s)
{
    for (struct fixup *f = s->fixups; f; f = f->next) {
        s->line = f->line;
        for (struct cg_graph *g = s->cg->newest; g && !f->g; g = g->older)
            if (g->number == f->number) f->g = g;
        if (!f->g || f->id >= f->g->n || (f->g->v[f->id]->dead && f->g->v[f->id]->kind != CG_ARG)) return false;
        *f->slot = f->g->v[f->id];
    }
    for (struct cg_graph *g = s->cg->newest; g; g = g->older)
        for (uint32_t i = 0; i < g->n; i++) {
            struct cg_value *v = g->v[i];
            if (v->kind != CG_RESULT) continue;
            if (v->nin != 1 || v->index >= v->in[0]->nresult) return false;
            v->in[0]->results[v->index] = v;
        }
    for (struct cg_graph *g = s->cg->newest; g; g = g->older)
        for (uint32_t i = 0; i < g->n; i++)
            for (uint32_t k = 0; k < g->v[i]->nresult; k++)
                if (!g->v[i]->results[k]) return false;
    for (struct cg_graph *g = s->cg->newest; g; g = g->older)
        for (uint32_t i = 0; i < g->n; i++) cg_enter(g->v[i]);
    return true;
}

int cg_graph_parse(struct cg *cg, struct nf_str text, struct nf_error *err)
{
    struct scan s = {.rest = text, .cg = cg};
    uint32_t n = 0;
    next_line(&s);
    need(&s, "graph replicas=");
    cg->replicas = (uint32_t)number(&s, 1, 65536);
    need(&s, " partitions=");
    cg->partitions = (uint32_t)number(&s, 1, 65536);
    need(&s, " alias=");
    cg->alias = numbers(&s, &cg->nouts);
    s.bad = s.bad || s.at.len;
    struct cg_graph *g = cg->main = cg_graph_new(cg, NULL);
    if (!s.bad) body(&s, g, 0);
    bool good = !s.bad && s.rest.len == 0 && resolve(&s) && g->nresult == cg->nouts;
    for (uint32_t i = 0; good && i < g->n; i++) n += g->v[i]->kind == CG_ARG;
    cg->args = NF_NEW_ARRAY(cg->arena, struct cg_value *, n + 1);
    cg->arg_bytes = NF_NEW_ARRAY(cg->arena, uint64_t, n + 1);
    cg->out_bytes = NF_NEW_ARRAY(cg->arena, uint64_t, cg->nouts + 1);
    cg->nargs = n;
    for (uint32_t i = 0; good && i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (v->kind != CG_ARG) continue;
        good = v->index < n && !cg->args[v->index];
        if (!good) break;
        cg->args[v->index] = v;
        cg->arg_bytes[v->index] = (uint64_t)v->count * cpu_dt_bytes((enum cpu_dt)v->dt);
    }
    for (uint32_t i = 0; good && i < cg->nouts; i++) cg->out_bytes[i] = (uint64_t)g->results[i]->count * cpu_dt_bytes((enum cpu_dt)g->results[i]->dt);
    if (good) return 0;
    nf_fail(err, NF_EGRAPH, "this is no graph of the native code generator: \"%.*s\"", (int)NF_MIN(s.line.len, (size_t)80), s.line.data ? s.line.data : "");
    nf_error_location(err, "%u:1", s.number);
    return NF_EGRAPH;
}
