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

struct scan {
    struct nf_str at;            /* the rest of the line */
    struct plan *p;
    struct nf_arena *arena;
    uint32_t nlabel;
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
/* Digits, with a sign. */
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

static uint32_t value(struct scan *s)
{
    need(s, "v");
    uint32_t i = (uint32_t)number(s, 0, (int64_t)s->p->nvalues - 1);
    need(s, ":");
    size_t n = 0;
    while (n < s->at.len && s->at.data[n] != '[') n++;
    enum cpu_dt t = cpu_dt_find(nf_str_n(s->at.data, n));
    if (s->bad || t == CPU_DT_MAX) {
        s->bad = true;
        return 0;
    }
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    struct plan_value *v = &s->p->value[i];
    *v = (struct plan_value){.dt = (uint8_t)t, .count = 1};
    need(s, "[");
    for (bool more = !take(s, "]"); more && !s->bad;) {
        if (v->rank == PLAN_RANK_MAX) s->bad = true;
        else v->dims[v->rank] = number(s, 0, INT64_MAX / 64);
        if (!s->bad && __builtin_mul_overflow(v->count, v->dims[v->rank], &v->count)) s->bad = true;
        v->rank++;
        more = take(s, "x");
        if (!more) need(s, "]");
    }
    need(s, "@");
    int w = 0;
    while (w < PLAN_WHERE_MAX && !take(s, where_names[w])) w++;
    if (w == PLAN_WHERE_MAX) s->bad = true;
    v->where = (uint8_t)w;
    if (w <= PLAN_OUT) v->index = (uint32_t)number(s, 0, UINT32_MAX);
    if (take(s, "+")) v->offset = number(s, 1, INT64_MAX);
    if (__builtin_mul_overflow(v->count, (int64_t)cpu_dt_bytes(t), &v->bytes)) s->bad = true;
    return i;
}
static const uint32_t *values(struct scan *s, uint32_t *ret_n)
{
    size_t words = 1;
    for (size_t i = 0; i < s->at.len && s->at.data[i] != ')'; i++) words += s->at.data[i] == ' ';
    uint32_t *id = nf_arena_alloc_array(s->arena, words, sizeof *id), n = 0;
    need(s, "(");
    for (bool more = !take(s, ")"); more && !s->bad && n < words;) {
        id[n++] = value(s);
        more = take(s, " ");
        if (!more) need(s, ")");
    }
    *ret_n = n;
    return id;
}

static void parse_step(struct scan *s, struct plan_step *st)
{
    size_t n = 0, words = 1;
    while (n < s->at.len && s->at.data[n] != ' ') n++;
    int op = 0;
    while (op < PLAN_OP_MAX && !nf_str_eq_c(nf_str_n(s->at.data, n), plan_op_name((enum plan_op)op))) op++;
    if (op == PLAN_OP_MAX) s->bad = true;
    st->op = (uint16_t)op;
    s->at = nf_str_n(s->at.data + n, s->at.len - n);
    need(s, " ");
    st->in = values(s, &st->nin);
    need(s, " -> ");
    st->out = values(s, &st->nout);
    need(s, " [");
    for (size_t i = 0; i < s->at.len && s->at.data[i] != ']'; i++) words += s->at.data[i] == ' ';
    int64_t *attr = nf_arena_alloc_array(s->arena, words, sizeof *attr);
    for (bool more = !take(s, "]"); more && !s->bad && st->nattr < words;) {
        attr[st->nattr++] = number(s, INT64_MIN, INT64_MAX);
        more = take(s, " ");
        if (!more) need(s, "]");
    }
    st->attr = attr;
    st->label = PLAN_NO_LABEL;
    if (!take(s, " ; ")) return;
    for (uint32_t i = 0; i < s->nlabel && st->label == PLAN_NO_LABEL; i++)
        if (nf_str_eq(s->p->label[i], s->at)) st->label = i;
    if (st->label == PLAN_NO_LABEL) {
        s->p->label[s->nlabel] = s->at;
        st->label = s->nlabel++;
    }
    s->at = nf_str_n(s->at.data, 0);
}

static uint64_t features(struct scan *s)
{
    uint64_t f = 0;
    while (s->at.data && s->at.len) {
        struct nf_str w = nf_str_cut(&s->at, ' ');
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
        if (!known) s->bad = true;
    }
    return f;
}

static void parse_kernel(struct scan *s, struct plan_kernel *k, struct nf_str *rest)
{
    k->image_offset = -1;
    if (!take(s, " interpreted")) {
        need(s, " native at=");
        k->image_offset = number(s, 0, INT64_MAX);
    }
    need(s, " args=");
    k->args = (uint32_t)number(s, 0, UINT32_MAX);
    need(s, " range=");
    k->per_outer = number(s, INT64_MIN, INT64_MAX);
    need(s, " scratch=");
    k->scratch_bytes = (uint64_t)number(s, 0, INT64_MAX);
    if (s->at.len) s->bad = true;
    struct nf_buf text = NF_BUF_INIT;
    while (!s->bad && nf_str_starts(*rest, NF_STR("    "))) {
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
    struct scan s = {.p = p, .arena = arena};
    struct nf_str rest = text;
    size_t line = 0, words = 0, lines = 0;
    if (text.len > (size_t)1 << 28) return nf_fail(err, NF_ECORRUPT, "a plan of %zu bytes of text", text.len);
    for (size_t i = 0; i < text.len; i++) {
        words += text.data[i] == '@';
        lines += text.data[i] == '\n';
    }
    s.at = nf_str_cut(&rest, '\n');
    line++;
    need(&s, "plan args=");
    p->nargs = (uint32_t)number(&s, 0, UINT32_MAX);
    need(&s, " outs=");
    p->nouts = (uint32_t)number(&s, 0, UINT32_MAX);
    need(&s, " values=");
    p->nvalues = (uint32_t)number(&s, 0, (int64_t)words); /* each is named somewhere */
    need(&s, " arena=");
    p->arena_bytes = (uint64_t)number(&s, 0, INT64_MAX);
    need(&s, " scratch=");
    p->scratch_bytes = (uint64_t)number(&s, 0, INT64_MAX);
    need(&s, " features=");
    p->features = features(&s);
    p->value = NF_NEW_ARRAY(arena, struct plan_value, p->nvalues + 1);
    p->kernel = NF_NEW_ARRAY(arena, struct plan_kernel, lines + 1);
    p->block = NF_NEW_ARRAY(arena, struct plan_block, lines + 1);
    p->label = NF_NEW_ARRAY(arena, struct nf_str, lines + 1);
    while (!s.bad && rest.data && rest.len) {
        s.at = nf_str_cut(&rest, '\n');
        line++;
        if (take(&s, "kernel ")) {
            if (number(&s, p->nkernels, p->nkernels) != p->nkernels || p->nblocks) s.bad = true;
            parse_kernel(&s, &p->kernel[p->nkernels++], &rest);
            continue;
        }
        need(&s, "block ");
        (void)number(&s, p->nblocks, p->nblocks);
        struct plan_block *b = &p->block[p->nblocks++];
        need(&s, " ");
        b->param = values(&s, &b->nparam);
        need(&s, " -> ");
        b->result = values(&s, &b->nresult);
        if (s.at.len) s.bad = true;
        uint32_t n = 0;
        for (struct nf_str ahead = rest; nf_str_starts(ahead, NF_STR("    ")); n++) nf_str_cut(&ahead, '\n');
        b->step = NF_NEW_ARRAY(arena, struct plan_step, n + 1);
        for (; !s.bad && b->nstep < n; b->nstep++) {
            s.at = nf_str_cut(&rest, '\n');
            line++;
            need(&s, "    ");
            if (!s.bad) parse_step(&s, &b->step[b->nstep]);
            if (s.at.len) s.bad = true;
        }
    }
    p->nlabels = s.nlabel;
    if (s.bad) return nf_fail(err, NF_ECORRUPT, "plan: line %zu is not understood", line);
    *ret_plan = p;
    return 0;
}
