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
#include "runtime/cpu/scan.h"

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
    uint32_t at;                  /* its number */
};
/* A value and the line that made it. */
struct made {
    struct made *next;
    struct cg_value *v;
    struct nf_str line;
    uint32_t at;
};
struct parser {
    struct scan scan;
    struct nf_str rest, line;     /* the lines behind this one, this one whole */
    struct cg *cg;
    struct fixup *fixups;
    struct made *made;
    uint32_t number;              /* of the line */
    struct nf_str end;            /* the main graph's return */
    uint32_t end_number;
};

/* The next line without its indent; false at the end. */
static bool next_line(struct parser *s)
{
    if (s->scan.bad || !s->rest.data || !s->rest.len) return false;
    s->scan.at = nf_str_cut(&s->rest, '\n');
    s->number++;
    while (s->scan.at.len && s->scan.at.data[0] == ' ') scan_skip(&s->scan, 1);
    s->line = s->scan.at;
    return true;
}
static double real(struct parser *s)
{
    char text[64], *end;
    size_t n = 0;
    while (n < s->scan.at.len && n < sizeof text - 1 && !strchr(", ", s->scan.at.data[n])) n++;
    memcpy(text, s->scan.at.data, n);
    text[n] = 0;
    double v = strtod(text, &end);
    if (n == 0 || *end) s->scan.bad = true;
    scan_skip(&s->scan, n);
    return v;
}
static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
static double bits(struct parser *s)
{
    uint64_t b = 0;
    size_t n = 0;
    double v;
    for (; n < s->scan.at.len && n < 16 && digit(s->scan.at.data[n]) >= 0; n++) b = b << 4 | (uint64_t)digit(s->scan.at.data[n]);
    if (n == 0) s->scan.bad = true;
    scan_skip(&s->scan, n);
    memcpy(&v, &b, 8);
    return v;
}
static struct nf_str bytes(struct parser *s)
{
    size_t n = 0;
    while (n + 1 < s->scan.at.len && digit(s->scan.at.data[n]) >= 0 && digit(s->scan.at.data[n + 1]) >= 0) n += 2;
    char *b = nf_arena_alloc(s->cg->arena, n / 2 + 1);
    for (size_t i = 0; i < n / 2; i++) b[i] = (char)(digit(s->scan.at.data[2 * i]) << 4 | digit(s->scan.at.data[2 * i + 1]));
    scan_skip(&s->scan, n);
    return nf_str_n(b, n / 2);
}
/* Numbers with commas; an empty list is one, too. */
static int64_t *numbers(struct parser *s, uint32_t *ret_n)
{
    uint32_t n = 0, words = 1;
    for (size_t i = 0; i < s->scan.at.len && s->scan.at.data[i] != ' '; i++) words += s->scan.at.data[i] == ',';
    int64_t *v = NF_NEW_ARRAY(s->cg->arena, int64_t, words);
    if (s->scan.at.len && s->scan.at.data[0] != ' ')
        do v[n++] = scan_number(&s->scan, INT64_MIN, INT64_MAX);
        while (!s->scan.bad && n < words && scan_take(&s->scan, ","));
    *ret_n = n;
    return v;
}

static void ref(struct parser *s, struct cg_graph *g, struct cg_value **slot)
{
    struct fixup *f = NF_NEW(s->cg->arena, struct fixup);
    *f = (struct fixup){.next = s->fixups, .slot = slot, .g = g, .line = s->line, .at = s->number};
    if (scan_take(&s->scan, "@")) {
        f->g = NULL;
        f->number = (uint32_t)scan_number(&s->scan, 0, VALUES_MAX);
    }
    scan_need(&s->scan, "%");
    f->id = (uint32_t)scan_number(&s->scan, 0, VALUES_MAX);
    s->fixups = f;
}
/* " %1 @2%3": as many as follow. */
static struct cg_value **refs(struct parser *s, struct cg_graph *g, uint32_t *ret_n)
{
    uint32_t n = 0, words = 1;
    for (size_t i = 0; i < s->scan.at.len; i++) words += s->scan.at.data[i] == '%';
    struct cg_value **v = NF_NEW_ARRAY(s->cg->arena, struct cg_value *, words);
    while (!s->scan.bad && s->scan.at.len > 1 && s->scan.at.data[0] == ' ' && (s->scan.at.data[1] == '%' || s->scan.at.data[1] == '@')) {
        scan_need(&s->scan, " ");
        ref(s, g, &v[n++]);
    }
    *ret_n = n;
    return v;
}

static struct nf_str word(struct parser *s)
{
    size_t n = 0;
    while (n < s->scan.at.len && s->scan.at.data[n] != ' ' && s->scan.at.data[n] != '[' && s->scan.at.data[n] != '=') n++;
    struct nf_str w = nf_str_n(s->scan.at.data, n);
    scan_skip(&s->scan, n);
    return w;
}

static void what(struct parser *s, struct cg_value *v)
{
    struct nf_str w = word(s);
    if (nf_str_starts(w, NF_STR("reduce."))) {
        int k = 0;
        while (k < RP_RED_MAX && !nf_str_eq_c(nf_str_n(w.data + 7, w.len - 7), rp_red_names[k])) k++;
        v->kind = CG_REDUCE;
        v->aux = (uint16_t)k;
        s->scan.bad = s->scan.bad || k == RP_RED_MAX;
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
    s->scan.bad = true;
}

static void dot(struct parser *s, struct cg_value *v)
{
    struct cg_dot *d = v->dot = NF_NEW(s->cg->arena, struct cg_dot);
    while (!s->scan.bad && s->scan.at.len && s->scan.at.data[0] != ' ') {
        char c = s->scan.at.data[0];
        scan_skip(&s->scan, 1);
        if (d->nloop == CG_LOOPS_MAX || !strchr("bmnk", c)) s->scan.bad = true;
        else d->loop[d->nloop++] = (struct cg_loop){scan_number(&s->scan, 0, INT64_MAX), c};
    }
}
static void dot_index(struct parser *s, struct cg_value *v, int o)
{
    int k = (int)scan_number(&s->scan, 0, CG_RANK_MAX - 1);
    scan_need(&s->scan, "=");
    if (!v->dot) s->scan.bad = true;
    if (s->scan.bad) return;
    v->dot->base[o][k] = scan_number(&s->scan, INT64_MIN, INT64_MAX);
    while (scan_take(&s->scan, "+")) {
        int64_t c = scan_number(&s->scan, INT64_MIN, INT64_MAX);
        scan_need(&s->scan, "l");
        int l = (int)scan_number(&s->scan, 0, v->dot->nloop - 1);
        if (!s->scan.bad) v->dot->coef[o][k][l] = c;
    }
}

static void fields(struct parser *s, struct cg_graph *g, struct cg_value *v)
{
    uint32_t n;
    while (!s->scan.bad && s->scan.at.len) {
        if (scan_take(&s->scan, " ; ")) {
            v->label = cg_label(s->cg, s->scan.at);
            s->scan.at = nf_str_n(s->scan.at.data, 0);
        } else if (scan_take(&s->scan, " num=")) {
            if (v->dt <= CPU_U64) v->num.i = scan_number(&s->scan, INT64_MIN, INT64_MAX);
            else v->num.re = real(s);
            if (scan_take(&s->scan, ",")) v->num.im = real(s);
        } else if (scan_take(&s->scan, " bits=")) {
            v->num.re = bits(s);
            if (scan_take(&s->scan, ",")) v->num.im = bits(s);
        } else if (scan_take(&s->scan, " data=")) {
            v->data = bytes(s);
        } else if (scan_take(&s->scan, " aux=")) {
            v->aux = (uint16_t)scan_number(&s->scan, 0, UINT16_MAX);
        } else if (scan_take(&s->scan, " index=")) {
            v->index = (uint32_t)scan_number(&s->scan, 0, UINT32_MAX);
        } else if (scan_take(&s->scan, " list=")) {
            v->list = numbers(s, &v->nlist);
        } else if (scan_take(&s->scan, " step=")) {
            v->list2 = numbers(s, &n);
            s->scan.bad = s->scan.bad || n != v->nlist;
        } else if (scan_take(&s->scan, " attr=")) {
            v->attrs = numbers(s, &v->nattr);
        } else if (scan_take(&s->scan, " of=")) {
            ref(s, g, &v->owner);
        } else if (scan_take(&s->scan, " results=")) {
            v->nresult = (uint32_t)scan_number(&s->scan, 0, 65536);
            v->results = NF_NEW_ARRAY(s->cg->arena, struct cg_value *, v->nresult + 1);
        } else if (scan_take(&s->scan, " loops=")) {
            dot(s, v);
        } else if (scan_take(&s->scan, " space=")) {
            v->space = (int)scan_number(&s->scan, 0, INT32_MAX);
        } else if (scan_take(&s->scan, " depth=")) {
            v->depth = (int)scan_number(&s->scan, 0, INT32_MAX);
        } else if (scan_take(&s->scan, " group=")) {
            ref(s, g, &v->up);
        } else if (scan_take(&s->scan, " row")) {
            v->row = true;
        } else if (scan_take(&s->scan, " stored")) {
            v->stored = true;
        } else if (scan_take(&s->scan, " output")) {
            v->output = true;
        } else if (scan_take(&s->scan, " barrier")) {
            v->barrier = true;
        } else if (scan_take(&s->scan, " solo")) {
            v->solo = true;
        } else if (scan_take(&s->scan, " in_place")) {
            v->in_place = true;
        } else if (scan_take(&s->scan, " dead")) {
            v->dead = true;
        } else {
            int o = 0;
            scan_need(&s->scan, " ");
            while (o < 3 && !scan_take(&s->scan, operands[o])) o++;
            if (o == 3) s->scan.bad = true;
            else dot_index(s, v, o);
        }
    }
}

static struct cg_value *value(struct parser *s, struct cg_graph *g)
{
    int64_t dims[CG_RANK_MAX];
    int rank = 0;
    scan_need(&s->scan, "%");
    uint32_t id = (uint32_t)scan_number(&s->scan, g->n, (int64_t)g->n + 65536); /* a gap is what was dead */
    scan_need(&s->scan, ":");
    enum cpu_dt dt = cpu_dt_find(word(s));
    if (dt == CPU_DT_MAX) s->scan.bad = true;
    scan_need(&s->scan, "[");
    int64_t n = 1;
    for (bool more = !scan_take(&s->scan, "]"); more && !s->scan.bad;) {
        if (rank == CG_RANK_MAX) s->scan.bad = true;
        else dims[rank] = scan_number(&s->scan, 0, INT64_MAX / 64);
        if (!s->scan.bad && __builtin_mul_overflow(n, dims[rank], &n)) s->scan.bad = true;
        rank++;
        more = scan_take(&s->scan, "x");
        if (!more) scan_need(&s->scan, "]");
    }
    if (s->scan.bad) return NULL;
    while (g->n < id) cg_raw(g, CG_SPLAT, CPU_PRED, 0, NULL)->dead = true;
    struct cg_value *v = cg_raw(g, CG_SPLAT, dt, rank, dims);
    struct made *m = NF_NEW(s->cg->arena, struct made);
    *m = (struct made){.next = s->made, .v = v, .line = s->line, .at = s->number};
    s->made = m;
    scan_need(&s->scan, " = ");
    what(s, v);
    v->in = refs(s, g, &v->nin);
    fields(s, g, v);
    return v;
}

static struct cg_graph *body(struct parser *s, struct cg_graph *g, int depth)
{
    struct cg_value *last = NULL;
    uint32_t *where = NULL;
    while (next_line(s)) {
        if (scan_take(&s->scan, "return")) {
            if (depth == 0) {
                s->end = s->line;
                s->end_number = s->number;
            }
            g->results = refs(s, g, &g->nresult);
            s->scan.bad = s->scan.bad || s->scan.at.len;
            return g;
        }
        if (!scan_take(&s->scan, "{")) {
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
        scan_need(&s->scan, " @");
        b->number = (uint32_t)scan_number(&s->scan, 1, VALUES_MAX);
        scan_need(&s->scan, " attr=");
        where[last->ngraph] = (uint32_t)scan_number(&s->scan, 0, UINT32_MAX);
        last->graphs[last->ngraph++] = b;
        b->params = refs(s, b, &b->nparam);
        s->scan.bad = s->scan.bad || s->scan.at.len;
        body(s, b, depth + 1);
        if (!next_line(s) || !scan_take(&s->scan, "}")) break;
    }
    s->scan.bad = true;
    return g;
}

/* ------------------------------------------------------------------------------------------------------------ check */

/* What the later stages take for granted of a value: the constructors of graph.c see to it, a text may say anything. */

static bool within(int64_t first, int64_t count, int64_t step, int64_t dim)
{
    int64_t last;
    if (count == 0) return true;
    return !__builtin_mul_overflow(count - 1, step, &last) && !__builtin_add_overflow(last, first, &last) && first >= 0 && first < dim && last >= 0 && last < dim;
}

static bool same_shape(const struct cg_value *a, const struct cg_value *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* list and list2 as starts and steps of `part` in `whole`. */
static bool places(const struct cg_value *v, const struct cg_value *part, const struct cg_value *whole)
{
    if (part->rank != whole->rank || v->nlist != part->rank || (part->rank && (!v->list || !v->list2))) return false;
    for (int d = 0; d < part->rank; d++)
        if (!within(v->list[d], part->dims[d], v->list2[d], whole->dims[d])) return false;
    return true;
}

static bool view_holds(const struct cg_value *v, const struct cg_value *in)
{
    bool seen[CG_RANK_MAX] = {0};
    if (v->dt != in->dt) return false;
    if (v->kind == CG_RESHAPE) return v->count == in->count;
    if (v->kind == CG_SLICE) return places(v, v, in);
    if (v->nlist != in->rank || (in->rank && !v->list) || (v->kind == CG_TRANSPOSE && v->rank != in->rank)) return false;
    for (int d = 0; d < in->rank; d++) {
        int64_t to = v->list[d];
        if (to < 0 || to >= v->rank || seen[to]) return false;
        seen[to] = true;
        if (v->kind == CG_TRANSPOSE ? v->dims[d] != in->dims[to] : in->dims[d] != 1 && in->dims[d] != v->dims[to]) return false;
    }
    return true;
}

static bool reduce_holds(const struct cg_value *v, const struct cg_value *in)
{
    uint32_t at = 0;
    int kept = 0;
    if (v->dt != in->dt || !v->nlist || v->rank + v->nlist != in->rank) return false;
    for (int d = 0; d < in->rank; d++) {
        if (at < v->nlist && v->list[at] == d) at++;
        else if (kept == v->rank || v->dims[kept++] != in->dims[d]) return false;
    }
    return at == v->nlist;
}

static bool dot_holds(const struct cg_value *v)
{
    if (!v->dot || v->nin < 2) return false;
    for (int o = 0; o < 3; o++) {
        const struct cg_value *x = o == 2 ? v : v->in[o];
        for (int k = 0; k < CG_RANK_MAX; k++) {
            int64_t low = v->dot->base[o][k], high = low, reach;
            bool empty = false;
            for (int l = 0; l < v->dot->nloop; l++) {
                int64_t c = v->dot->coef[o][k][l], n = v->dot->loop[l].extent;
                empty = empty || n == 0;
                if (n && (__builtin_mul_overflow(c, n - 1, &reach) || __builtin_add_overflow(reach, c < 0 ? low : high, c < 0 ? &low : &high))) return false;
            }
            if (k >= x->rank ? low || high : !empty && (low < 0 || high >= x->dims[k])) return false;
        }
    }
    return true;
}

static bool holds(const struct cg_value *v)
{
    for (uint32_t i = 0; i < v->nin; i++)
        if ((v->in[i]->graph == v->graph && v->in[i]->id >= v->id) || (v->in[i]->kind == CG_PIECE && v->kind != CG_ASSEMBLE)) return false;
    switch ((enum cg_kind)v->kind) {
    case CG_ARG: case CG_PARAM: case CG_SPLAT: return v->nin == 0;
    case CG_CONST: return v->nin == 0 && v->data.len == (uint64_t)v->count * cpu_dt_bytes((enum cpu_dt)v->dt);
    case CG_IOTA: return v->nin == 0 && v->index < v->rank;
    case CG_EW:
        if (v->nin == 0 || v->nin != rp_op_info[v->op].nsrc || v->op == RP_ST || v->op == RP_RED) return false;
        for (uint32_t i = 0; i < v->nin; i++)
            if (!same_shape(v->in[i], v)) return false;
        return v->op != RP_CMP || v->aux < RP_CMP_TOTAL;
    case CG_BROADCAST: case CG_RESHAPE: case CG_TRANSPOSE: case CG_SLICE: return v->nin == 1 && view_holds(v, v->in[0]);
    case CG_REDUCE: return v->nin == 1 && reduce_holds(v, v->in[0]);
    case CG_ASSEMBLE:
        for (uint32_t i = 0; i < v->nin; i++)
            if (v->in[i]->kind != CG_PIECE || v->in[i]->owner != v) return false;
        return true;
    case CG_PIECE:
        return v->nin == 1 && v->owner && v->owner->kind == CG_ASSEMBLE && v->owner->graph == v->graph && v->dt == v->in[0]->dt && v->dt == v->owner->dt &&
               same_shape(v, v->in[0]) && places(v, v, v->owner);
    case CG_DOT: return dot_holds(v);
    case CG_LIB:
        for (uint32_t i = 0; i < v->ngraph; i++)
            if (v->graph_attr[i] >= v->nattr) return false;
        return true;
    case CG_RESULT: return v->nin == 1 && v->in[0]->kind == CG_LIB && v->in[0]->graph == v->graph;
    }
    return false;
}

/* What may stand in the buffer of a result of the program: something that is computed into it. */
static bool is_result(const struct cg_value *v)
{
    return v->output && v->stored && (v->kind == CG_EW || v->kind == CG_REDUCE || v->kind == CG_ASSEMBLE || v->kind == CG_DOT || v->kind == CG_RESULT);
}

static bool resolve(struct parser *s)
{
    for (struct fixup *f = s->fixups; f; f = f->next) {
        s->line = f->line;
        s->number = f->at;
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
    bool good = true;
    for (const struct made *m = s->made; m; m = m->next) {   /* the last first, so that the first that does not hold is named */
        if (m->v->dead || holds(m->v)) continue;
        good = false;
        s->line = m->line;
        s->number = m->at;
    }
    if (!good) return false;
    for (struct cg_graph *g = s->cg->newest; g; g = g->older)
        for (uint32_t i = 0; i < g->n; i++) cg_enter(g->v[i]);
    return true;
}

static void name_line(struct parser *s, const struct cg_value *v)
{
    for (const struct made *m = s->made; m; m = m->next)
        if (m->v == v) {
            s->line = m->line;
            s->number = m->at;
        }
}

int cg_graph_parse(struct cg *cg, struct nf_str text, struct nf_error *err)
{
    struct parser s = {.rest = text, .cg = cg};
    uint32_t n = 0;
    next_line(&s);
    scan_need(&s.scan, "graph replicas=");
    cg->replicas = (uint32_t)scan_number(&s.scan, 1, 65536);
    scan_need(&s.scan, " partitions=");
    cg->partitions = (uint32_t)scan_number(&s.scan, 1, 65536);
    scan_need(&s.scan, " alias=");
    cg->alias = numbers(&s, &cg->nouts);
    s.scan.bad = s.scan.bad || s.scan.at.len;
    struct cg_graph *g = cg->main = cg_graph_new(cg, NULL);
    if (!s.scan.bad) body(&s, g, 0);
    bool good = !s.scan.bad && s.rest.len == 0 && resolve(&s);
    if (good) {
        s.line = s.end;
        s.number = s.end_number;
        good = g->nresult == cg->nouts;
    }
    for (uint32_t i = 0; good && i < g->n; i++) n += g->v[i]->kind == CG_ARG;
    cg->args = NF_NEW_ARRAY(cg->arena, struct cg_value *, n + 1);
    cg->arg_bytes = NF_NEW_ARRAY(cg->arena, uint64_t, n + 1);
    cg->out_bytes = NF_NEW_ARRAY(cg->arena, uint64_t, cg->nouts + 1);
    cg->nargs = n;
    for (uint32_t i = 0; good && i < g->n; i++) {
        struct cg_value *v = g->v[i];
        if (v->kind != CG_ARG) continue;
        good = v->index < n && !cg->args[v->index];
        if (!good) {
            name_line(&s, v);
            break;
        }
        cg->args[v->index] = v;
        cg->arg_bytes[v->index] = (uint64_t)v->count * cpu_dt_bytes((enum cpu_dt)v->dt);
    }
    for (uint32_t i = 0; good && i < cg->nouts; i++) good = is_result(g->results[i]);
    for (uint32_t i = 0; good && i < cg->nouts; i++) cg->out_bytes[i] = (uint64_t)g->results[i]->count * cpu_dt_bytes((enum cpu_dt)g->results[i]->dt);
    if (good) return 0;
    nf_fail(err, NF_EGRAPH, "this is no graph of the native code generator: \"%.*s\"", (int)NF_MIN(s.line.len, (size_t)80), s.line.data ? s.line.data : "");
    nf_error_location(err, "%u:1", s.number);
    return NF_EGRAPH;
}
