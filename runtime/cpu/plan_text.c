/* plan_text.c: plans as text and back: plan_print(plan_parse(text)) == text, and nothing of a plan is left out but labels of no step.
 *
 *     plan   = "plan args=" n " outs=" n " values=" n " arena=" n " scratch=" n " features=" { word } NL { kernel } { block }
 *     kernel = "kernel " number ( " interpreted" | " native at=" offset ) " args=" n " range=" n " scratch=" n NL { "    " line of its text NL }
 *     block  = "block " number " (" values ") -> (" values ")" NL { step }
 *     step   = "    " operation " (" values ") -> (" values ") [" { number } "]" [ " ; " label ] NL
 *     value  = "v" number ":" type "[" dims "]@" ( "arg" n | "out" n | "const" | "arena" ) [ "+" offset ]
 *
 * Labels are numbered in the order in which they appear. */
#include "runtime/cpu/plan.h"
#include "runtime/cpu/scan.h"

#include <inttypes.h>

static const char *const where_names[] = {"arg", "out", "const", "arena"};

/* ------------------------------------------------------------------------------------------------------------ print */

static void print_value(const struct plan *p, uint32_t i, struct nf_buf *out)
{
    const struct plan_value *v = &p->value[i];
    nf_buf_addf(out, "v%u:%s[", i, cpu_dt_info[v->dt].name);
    for (int d = 0; d < v->rank; d++) nf_buf_addf(out, d ? "x%" PRId64 : "%" PRId64, v->dims[d]);
    if (v->where <= PLAN_OUT) nf_buf_addf(out, "]@%s%u", where_names[v->where], v->index);
    else nf_buf_addf(out, "]@%s", where_names[v->where]);
    if (v->offset) nf_buf_addf(out, "+%" PRId64, v->offset);
}
static void print_values(const struct plan *p, const uint32_t *id, uint32_t n, struct nf_buf *out)
{
    nf_buf_add_char(out, '(');
    for (uint32_t k = 0; k < n; k++) {
        if (k) nf_buf_add_char(out, ' ');
        print_value(p, id[k], out);
    }
    nf_buf_add_char(out, ')');
}

void plan_print(const struct plan *p, struct nf_buf *out)
{
    nf_buf_addf(out, "plan args=%u outs=%u values=%u arena=%" PRIu64 " scratch=%" PRIu64 " features=", p->nargs, p->nouts, p->nvalues, p->arena_bytes, p->scratch_bytes);
    cpu_features_print(p->features, out);
    nf_buf_add_char(out, '\n');
    for (uint32_t i = 0; i < p->nkernels; i++) {
        const struct plan_kernel *k = &p->kernel[i];
        if (k->image_offset < 0) nf_buf_addf(out, "kernel %u interpreted", i);
        else nf_buf_addf(out, "kernel %u native at=%" PRId64, i, k->image_offset);
        nf_buf_addf(out, " args=%u range=%" PRId64 " scratch=%" PRIu64 "\n", k->args, k->per_outer, k->scratch_bytes);
        struct nf_str rest = k->text;
        while (rest.data && rest.len) {
            struct nf_str l = nf_str_cut(&rest, '\n');
            nf_buf_add_c(out, "    ");
            nf_buf_add_str(out, l);
            nf_buf_add_char(out, '\n');
        }
    }
    for (uint32_t i = 0; i < p->nblocks; i++) {
        const struct plan_block *b = &p->block[i];
        nf_buf_addf(out, "block %u ", i);
        print_values(p, b->param, b->nparam, out);
        nf_buf_add_c(out, " -> ");
        print_values(p, b->result, b->nresult, out);
        nf_buf_add_char(out, '\n');
        for (uint32_t k = 0; k < b->nstep; k++) {
            const struct plan_step *s = &b->step[k];
            nf_buf_addf(out, "    %s ", plan_op_name((enum plan_op)s->op));
            print_values(p, s->in, s->nin, out);
            nf_buf_add_c(out, " -> ");
            print_values(p, s->out, s->nout, out);
            nf_buf_add_c(out, " [");
            for (uint32_t j = 0; j < s->nattr; j++) nf_buf_addf(out, j ? " %" PRId64 : "%" PRId64, s->attr[j]);
            nf_buf_add_c(out, "]");
            if (s->label != PLAN_NO_LABEL) {
                nf_buf_add_c(out, " ; ");
                nf_buf_add_str(out, p->label[s->label]);
            }
            nf_buf_add_char(out, '\n');
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------ parse */

struct parser {
    struct scan scan;
    struct plan *p;
    struct nf_arena *arena;
    uint32_t nlabel;
};

static uint32_t value(struct parser *s)
{
    scan_need(&s->scan, "v");
    uint32_t i = (uint32_t)scan_number(&s->scan, 0, (int64_t)s->p->nvalues - 1);
    scan_need(&s->scan, ":");
    size_t n = 0;
    while (n < s->scan.at.len && s->scan.at.data[n] != '[') n++;
    enum cpu_dt t = cpu_dt_find(nf_str_n(s->scan.at.data, n));
    if (s->scan.bad || t == CPU_DT_MAX) {
        s->scan.bad = true;
        return 0;
    }
    scan_skip(&s->scan, n);
    struct plan_value *v = &s->p->value[i];
    int64_t dims[PLAN_RANK_MAX];
    *v = (struct plan_value){.dt = (uint8_t)t, .count = 1};
    scan_need(&s->scan, "[");
    for (bool more = !scan_take(&s->scan, "]"); more && !s->scan.bad;) {
        if (v->rank == PLAN_RANK_MAX) s->scan.bad = true;
        else dims[v->rank] = scan_number(&s->scan, 0, INT64_MAX / 64);
        if (!s->scan.bad && __builtin_mul_overflow(v->count, dims[v->rank], &v->count)) s->scan.bad = true;
        if (!s->scan.bad) v->rank++;
        more = scan_take(&s->scan, "x");
        if (!more) scan_need(&s->scan, "]");
    }
    v->dims = nf_arena_alloc_raw(s->arena, v->rank * sizeof *v->dims);
    memcpy(v->dims, dims, v->rank * sizeof *dims);
    scan_need(&s->scan, "@");
    int w = 0;
    while (w < PLAN_WHERE_MAX && !scan_take(&s->scan, where_names[w])) w++;
    if (w == PLAN_WHERE_MAX) s->scan.bad = true;
    v->where = (uint8_t)w;
    if (w <= PLAN_OUT) v->index = (uint32_t)scan_number(&s->scan, 0, UINT32_MAX);
    if (scan_take(&s->scan, "+")) v->offset = scan_number(&s->scan, 1, INT64_MAX);
    if (__builtin_mul_overflow(v->count, (int64_t)cpu_dt_bytes(t), &v->bytes)) s->scan.bad = true;
    return i;
}
static const uint32_t *values(struct parser *s, uint32_t *ret_n)
{
    size_t words = 1;
    for (size_t i = 0; i < s->scan.at.len && s->scan.at.data[i] != ')'; i++) words += s->scan.at.data[i] == ' ';
    uint32_t *id = nf_arena_alloc_array(s->arena, words, sizeof *id), n = 0;
    scan_need(&s->scan, "(");
    for (bool more = !scan_take(&s->scan, ")"); more && !s->scan.bad && n < words;) {
        id[n++] = value(s);
        more = scan_take(&s->scan, " ");
        if (!more) scan_need(&s->scan, ")");
    }
    *ret_n = n;
    return id;
}

static void parse_step(struct parser *s, struct plan_step *st)
{
    size_t n = 0, words = 1;
    while (n < s->scan.at.len && s->scan.at.data[n] != ' ') n++;
    int op = 0;
    while (op < PLAN_OP_MAX && !nf_str_eq_c(nf_str_n(s->scan.at.data, n), plan_op_name((enum plan_op)op))) op++;
    if (op == PLAN_OP_MAX) s->scan.bad = true;
    st->op = (uint16_t)op;
    scan_skip(&s->scan, n);
    scan_need(&s->scan, " ");
    st->in = values(s, &st->nin);
    scan_need(&s->scan, " -> ");
    st->out = values(s, &st->nout);
    scan_need(&s->scan, " [");
    for (size_t i = 0; i < s->scan.at.len && s->scan.at.data[i] != ']'; i++) words += s->scan.at.data[i] == ' ';
    int64_t *attr = nf_arena_alloc_array(s->arena, words, sizeof *attr);
    for (bool more = !scan_take(&s->scan, "]"); more && !s->scan.bad && st->nattr < words;) {
        attr[st->nattr++] = scan_number(&s->scan, INT64_MIN, INT64_MAX);
        more = scan_take(&s->scan, " ");
        if (!more) scan_need(&s->scan, "]");
    }
    st->attr = attr;
    st->label = PLAN_NO_LABEL;
    if (!scan_take(&s->scan, " ; ")) return;
    for (uint32_t i = 0; i < s->nlabel && st->label == PLAN_NO_LABEL; i++)
        if (nf_str_eq(s->p->label[i], s->scan.at)) st->label = i;
    if (st->label == PLAN_NO_LABEL) {
        s->p->label[s->nlabel] = s->scan.at;
        st->label = s->nlabel++;
    }
    s->scan.at = nf_str_n(s->scan.at.data, 0);
}

static uint64_t features(struct parser *s)
{
    uint64_t f = 0;
    while (s->scan.at.data && s->scan.at.len) {
        struct nf_str w = nf_str_cut(&s->scan.at, ' ');
        struct nf_buf b = NF_BUF_INIT;
        bool known = nf_str_eq_c(w, "none");
        for (int i = 0; i < 64 && !known; i++) {
            nf_buf_clear(&b);
            cpu_features_print((uint64_t)1 << i, &b);
            if (!nf_str_eq(nf_buf_str(&b), w)) continue;
            f |= (uint64_t)1 << i;
            known = true;
        }
        nf_buf_done(&b);
        if (!known) s->scan.bad = true;
    }
    return f;
}

static void parse_kernel(struct parser *s, struct plan_kernel *k, struct nf_str *rest)
{
    k->image_offset = -1;
    if (!scan_take(&s->scan, " interpreted")) {
        scan_need(&s->scan, " native at=");
        k->image_offset = scan_number(&s->scan, 0, INT64_MAX);
    }
    scan_need(&s->scan, " args=");
    k->args = (uint32_t)scan_number(&s->scan, 0, UINT32_MAX);
    scan_need(&s->scan, " range=");
    k->per_outer = scan_number(&s->scan, INT64_MIN, INT64_MAX);
    scan_need(&s->scan, " scratch=");
    k->scratch_bytes = (uint64_t)scan_number(&s->scan, 0, INT64_MAX);
    if (s->scan.at.len) s->scan.bad = true;
    struct nf_buf text = NF_BUF_INIT;
    while (!s->scan.bad && nf_str_starts(*rest, NF_STR("    "))) {
        struct nf_str l = nf_str_cut(rest, '\n');
        nf_buf_add(&text, l.data + 4, l.len - 4);
        nf_buf_add_char(&text, '\n');
    }
    k->text = nf_str_c(nf_arena_printf(s->arena, "%.*s", (int)text.len, text.data ? text.data : ""));
    nf_buf_done(&text);
}

int plan_parse(struct nf_str text, struct nf_arena *arena, struct plan **ret_plan, struct nf_error *err)
{
    struct plan *p = NF_NEW(arena, struct plan);
    struct parser s = {.p = p, .arena = arena};
    struct nf_str rest = text;
    size_t line = 0, words = 0, lines = 0;
    if (text.len > (size_t)1 << 28) return nf_fail(err, NF_ECORRUPT, "a plan of %zu bytes of text", text.len);
    for (size_t i = 0; i < text.len; i++) {
        words += text.data[i] == '@';
        lines += text.data[i] == '\n';
    }
    s.scan.at = nf_str_cut(&rest, '\n');
    line++;
    scan_need(&s.scan, "plan args=");
    p->nargs = (uint32_t)scan_number(&s.scan, 0, UINT32_MAX);
    scan_need(&s.scan, " outs=");
    p->nouts = (uint32_t)scan_number(&s.scan, 0, UINT32_MAX);
    scan_need(&s.scan, " values=");
    p->nvalues = (uint32_t)scan_number(&s.scan, 0, (int64_t)words); /* each is named somewhere */
    scan_need(&s.scan, " arena=");
    p->arena_bytes = (uint64_t)scan_number(&s.scan, 0, INT64_MAX);
    scan_need(&s.scan, " scratch=");
    p->scratch_bytes = (uint64_t)scan_number(&s.scan, 0, INT64_MAX);
    scan_need(&s.scan, " features=");
    p->features = features(&s);
    p->value = NF_NEW_ARRAY(arena, struct plan_value, p->nvalues + 1);
    p->kernel = NF_NEW_ARRAY(arena, struct plan_kernel, lines + 1);
    p->block = NF_NEW_ARRAY(arena, struct plan_block, lines + 1);
    p->label = NF_NEW_ARRAY(arena, struct nf_str, lines + 1);
    while (!s.scan.bad && rest.data && rest.len) {
        s.scan.at = nf_str_cut(&rest, '\n');
        line++;
        if (scan_take(&s.scan, "kernel ")) {
            if (scan_number(&s.scan, p->nkernels, p->nkernels) != p->nkernels || p->nblocks) s.scan.bad = true;
            parse_kernel(&s, &p->kernel[p->nkernels++], &rest);
            continue;
        }
        scan_need(&s.scan, "block ");
        (void)scan_number(&s.scan, p->nblocks, p->nblocks);
        struct plan_block *b = &p->block[p->nblocks++];
        scan_need(&s.scan, " ");
        b->param = values(&s, &b->nparam);
        scan_need(&s.scan, " -> ");
        b->result = values(&s, &b->nresult);
        if (s.scan.at.len) s.scan.bad = true;
        uint32_t n = 0;
        for (struct nf_str ahead = rest; nf_str_starts(ahead, NF_STR("    ")); n++) nf_str_cut(&ahead, '\n');
        b->step = NF_NEW_ARRAY(arena, struct plan_step, n + 1);
        for (; !s.scan.bad && b->nstep < n; b->nstep++) {
            s.scan.at = nf_str_cut(&rest, '\n');
            line++;
            scan_need(&s.scan, "    ");
            if (!s.scan.bad) parse_step(&s, &b->step[b->nstep]);
            if (s.scan.at.len) s.scan.bad = true;
        }
    }
    p->nlabels = s.nlabel;
    if (s.scan.bad) return nf_fail(err, NF_ECORRUPT, "plan: line %zu is not understood", line);
    *ret_plan = p;
    return 0;
}
