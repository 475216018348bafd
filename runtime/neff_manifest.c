/* neff_manifest.c: the text member that says what a program takes and gives (grammar in neff.h). */
#include "runtime/neff_internal.h"

/* ---------------------------------------------------------------------------------------------------------- write */

void neff__manifest_text(struct nf_buf *out, struct nf_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '\n': nf_buf_add_c(out, "\\n"); break;
        case '\r': nf_buf_add_c(out, "\\r"); break;
        case '\\': nf_buf_add_c(out, "\\\\"); break;
        case 0: nf_buf_add_c(out, "\\0"); break;
        default: nf_buf_add_char(out, text.data[i]);
        }
    }
}

static void add_ints(struct nf_buf *out, const int64_t *v, size_t n)
{
    if (!v || n == 0)
        nf_buf_add_c(out, "- ");
    for (size_t i = 0; v && i < n; i++)
        nf_buf_addf(out, "%lld%c", (long long)v[i], i + 1 < n ? ',' : ' ');
}

void neff__manifest_tensor(struct nf_buf *out, bool output, const struct rt_tensor *t)
{
    nf_buf_addf(out, "%s %s ", output ? "output" : "input", nf_dtype_name(t->dtype));
    add_ints(out, t->dims, t->rank);
    add_ints(out, t->strides, t->rank);
    nf_buf_addf(out, "%zu ", t->bytes);
    if (output && t->alias >= 0)
        nf_buf_addf(out, "%d ", t->alias);
    else if (output)
        nf_buf_add_c(out, "- ");
    neff__manifest_text(out, nf_str_c(t->name ? t->name : ""));
    nf_buf_add_char(out, '\n');
}

/* ----------------------------------------------------------------------------------------------------------- read */

struct reading {
    struct neff *n;
    size_t line;
    struct nf_error *err;
};

static int bad_line(struct reading *g, const char *what)
{
    nf_fail(g->err, NF_ECORRUPT, "damaged NEFF manifest: %s", what);
    nf_error_location(g->err, NEFF_MANIFEST ":%zu", g->line);
    return NF_ECORRUPT;
}

/* A NUL-terminated copy without the escapes; NULL when an escape is unknown. */
static const char *plain_text(struct nf_arena *arena, struct nf_str s)
{
    char *out = nf_arena_alloc_raw(arena, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == 0)
            return NULL;
        if (c == '\\') {
            if (++i == s.len)
                return NULL;
            switch (s.data[i]) {
            case 'n': c = '\n'; break;
            case 'r': c = '\r'; break;
            case '\\': c = '\\'; break;
            case '0': /* a name that held a NUL ends there for C callers */
                out[n] = 0;
                return out;
            default: return NULL;
            }
        }
        out[n++] = c;
    }
    out[n] = 0;
    return out;
}

/* "-" or int {"," int}. *ret_values NULL for "-". */
static bool read_ints(struct nf_arena *arena, struct nf_str s, const int64_t **ret_values, size_t *ret_count)
{
    if (nf_str_eq_c(s, "-")) {
        *ret_values = NULL;
        *ret_count = 0;
        return true;
    }
    size_t n = 1;
    for (size_t i = 0; i < s.len; i++)
        n += s.data[i] == ',';
    if (n > RT_RANK_MAX)
        return false;
    int64_t *v = NF_NEW_ARRAY(arena, int64_t, n);
    for (size_t i = 0; i < n; i++)
        if (nf_str_to_i64(nf_str_cut(&s, ','), &v[i]) != NF_OK)
            return false;
    *ret_values = v;
    *ret_count = n;
    return true;
}

static int read_tensor(struct reading *g, bool output, struct nf_str rest, struct rt_tensor *ret_tensor)
{
    struct rt_tensor t = {.alias = RT_NO_ALIAS};
    t.dtype = nf_dtype_from_name(nf_str_cut(&rest, ' '));
    if (t.dtype == NF_DT_NONE)
        return bad_line(g, "unknown element type");
    if (!read_ints(g->n->arena, nf_str_cut(&rest, ' '), &t.dims, &t.rank))
        return bad_line(g, "the dimensions are not a list of numbers");
    size_t strides = 0;
    if (!read_ints(g->n->arena, nf_str_cut(&rest, ' '), &t.strides, &strides) || (t.strides && strides != t.rank))
        return bad_line(g, "the strides do not fit the dimensions");
    uint64_t bytes;
    if (nf_str_to_u64(nf_str_cut(&rest, ' '), &bytes) != NF_OK || bytes > PTRDIFF_MAX)
        return bad_line(g, "the size is not a number");
    t.bytes = (size_t)bytes;
    size_t dense;
    if (rt_tensor_dense_bytes(t.dtype, t.dims, t.rank, &dense) != NF_OK)
        return bad_line(g, "the dimensions are negative or too large");
    if (!t.strides && t.bytes < dense)
        return bad_line(g, "the size is smaller than the shape needs");
    if (t.strides && dense > 0) {
        /* The last element must lie inside: sum of (dim - 1) * stride, none negative. */
        size_t last = 0;
        for (size_t i = 0; i < t.rank; i++) {
            size_t step;
            if (t.strides[i] < 0 || __builtin_mul_overflow((size_t)(t.dims[i] - 1), (size_t)t.strides[i], &step) ||
                __builtin_add_overflow(last, step, &last))
                return bad_line(g, "the strides are negative or too large");
        }
        size_t element = nf_dtype_bytes(t.dtype), end;
        if (__builtin_add_overflow(last, (size_t)1, &end) || __builtin_mul_overflow(end, element, &end) || end > t.bytes)
            return bad_line(g, "the strides reach beyond the size");
    }
    if (output) {
        struct nf_str alias = nf_str_cut(&rest, ' ');
        int64_t index;
        if (!nf_str_eq_c(alias, "-")) {
            if (nf_str_to_i64(alias, &index) != NF_OK || index < 0 || index >= NEFF_TENSORS_MAX)
                return bad_line(g, "the alias is not the number of an input");
            t.alias = (int)index;
        }
    }
    t.name = plain_text(g->n->arena, rest);
    if (!t.name)
        return bad_line(g, "the name has an unknown escape");
    *ret_tensor = t;
    return NF_OK;
}

static int read_line(struct reading *g, struct nf_str line)
{
    struct neff *n = g->n;
    struct nf_str rest = line;
    struct nf_str word = nf_str_cut(&rest, ' ');
    if (nf_str_eq_c(word, "input"))
        return read_tensor(g, false, rest, &n->inputs[n->input_count++]);
    if (nf_str_eq_c(word, "output"))
        return read_tensor(g, true, rest, &n->outputs[n->output_count++]);
    const char *text = plain_text(n->arena, rest);
    if (!text)
        return bad_line(g, "a text has an unknown escape");
    if (nf_str_eq_c(word, "target"))
        n->target = text;
    else if (nf_str_eq_c(word, "compiler"))
        n->compiler = text;
    else if (nf_str_eq_c(word, "isa"))
        n->isa = text;
    else if (word.len > 2 && word.data[0] == 'x' && word.data[1] == '-') {
        if (n->note_count == n->note_cap) {
            n->note_cap = n->note_cap ? n->note_cap * 2 : 8;
            n->notes = nf_realloc(n->notes, n->note_cap * sizeof(*n->notes));
        }
        n->notes[n->note_count++] = (struct neff__note){nf_arena_strn(n->arena, word.data + 2, word.len - 2), text};
    }
    return NF_OK;
}

int neff__manifest_read(struct neff *n, struct nf_str text, struct nf_error *err)
{
    struct reading g = {n, 1, err};
    struct nf_str rest = text;
    struct nf_str line = nf_str_cut(&rest, '\n');
    struct nf_str version = line;
    if (!nf_str_eq_c(nf_str_cut(&version, ' '), "neffd"))
        return bad_line(&g, "the first line is not \"neffd 1\"");
    if (!nf_str_eq_c(version, "1")) {
        nf_fail(err, NF_EUNSUPPORTED, "this NEFF's manifest has version %.*s, this program reads 1",
                (int)NF_MIN(version.len, 16), version.data ? version.data : "");
        nf_error_hint(err, "it was written by a newer neffd: update this one");
        return NF_EUNSUPPORTED;
    }
    size_t inputs = 0, outputs = 0;
    for (struct nf_str scan = rest; scan.len > 0;) {
        line = nf_str_cut(&scan, '\n');
        inputs += nf_str_starts(line, NF_STR("input "));
        outputs += nf_str_starts(line, NF_STR("output "));
    }
    if (inputs > NEFF_TENSORS_MAX || outputs > NEFF_TENSORS_MAX)
        return bad_line(&g, "too many tensors");
    n->inputs = NF_NEW_ARRAY(n->arena, struct rt_tensor, inputs + 1);
    n->outputs = NF_NEW_ARRAY(n->arena, struct rt_tensor, outputs + 1);
    while (rest.len > 0) {
        g.line++;
        line = nf_str_cut(&rest, '\n');
        int r = line.len == 0 ? NF_OK
                : nf_str_eq_c(line, "input") || nf_str_eq_c(line, "output") ? bad_line(&g, "a tensor without fields")
                : read_line(&g, line);
        if (r != NF_OK)
            return r;
    }
    for (size_t i = 0; i < n->output_count; i++)
        if (n->outputs[i].alias >= 0 && ((size_t)n->outputs[i].alias >= n->input_count ||
                                         n->inputs[n->outputs[i].alias].bytes != n->outputs[i].bytes))
            return bad_line(&g, "an output aliases an input that does not exist or has another size");
    n->has_manifest = true;
    return NF_OK;
}
