/* parse_lex.c: words, strings, numbers and errors of the text parser. */
#include "pipeline/hlo/parse_internal.h"

#include <stdarg.h>

#define L PARSE_LETTER
#define LH PARSE_LETTER | PARSE_HEX
#define D PARSE_DIGIT | PARSE_HEX
#define X PARSE_ID_EXTRA
const uint8_t hlo__char_class[256] = {
    ['0'] = D, ['1'] = D, ['2'] = D, ['3'] = D, ['4'] = D, ['5'] = D, ['6'] = D, ['7'] = D, ['8'] = D, ['9'] = D,
    ['a'] = LH, ['b'] = LH, ['c'] = LH, ['d'] = LH, ['e'] = LH, ['f'] = LH, ['g'] = L, ['h'] = L, ['i'] = L, ['j'] = L,
    ['k'] = L, ['l'] = L, ['m'] = L, ['n'] = L, ['o'] = L, ['p'] = L, ['q'] = L, ['r'] = L, ['s'] = L, ['t'] = L,
    ['u'] = L, ['v'] = L, ['w'] = L, ['x'] = L, ['y'] = L, ['z'] = L,
    ['A'] = LH, ['B'] = LH, ['C'] = LH, ['D'] = LH, ['E'] = LH, ['F'] = LH, ['G'] = L, ['H'] = L, ['I'] = L, ['J'] = L,
    ['K'] = L, ['L'] = L, ['M'] = L, ['N'] = L, ['O'] = L, ['P'] = L, ['Q'] = L, ['R'] = L, ['S'] = L, ['T'] = L,
    ['U'] = L, ['V'] = L, ['W'] = L, ['X'] = L, ['Y'] = L, ['Z'] = L, ['_'] = L,
    ['$'] = X, ['.'] = X, ['-'] = PARSE_DASH,
};
#undef L
#undef LH
#undef D
#undef X

static void fail_at(struct hlo_parser *p, const char *where, int code, const char *option, const char *fmt, va_list ap)
{
    if (p->code)
        return;
    p->code = code;
    if (p->err) {
        char text[768];
        vsnprintf(text, sizeof text, fmt, ap);
        uint32_t line, col;
        nf_fail(p->err, code, "%s", text);
        hlo_pos_line(p->m, (uint32_t)(where - p->begin), &line, &col);
        nf_error_location(p->err, "%u:%u", line, col);
        if (option)
            hlo_limit_hint(p->limits, option, p->err);
    }
}

bool hlo__parse_fail_at(struct hlo_parser *p, const char *where, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_at(p, where, code, NULL, fmt, ap);
    va_end(ap);
    return false;
}

bool hlo__parse_over(struct hlo_parser *p, const char *where, const char *option, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_at(p, where, NF_ELIMIT, option, fmt, ap);
    va_end(ap);
    return false;
}

/* What comes next, short enough to show. */
static void shown(struct hlo_parser *p, char *out, size_t size)
{
    if (p->at >= p->end) {
        nf_format(out, size, "end of input");
        return;
    }
    size_t n = 0;
    while (n < 20 && p->at + n < p->end && p->at[n] > ' ' && p->at[n] < 127 && (n == 0 || parse_is(p->at[n], PARSE_LETTER | PARSE_DIGIT | PARSE_ID_EXTRA)))
        n++;
    if (n)
        nf_format(out, size, "'%.*s'", (int)n, p->at);
    else
        nf_format(out, size, "byte 0x%02x", (uint8_t)*p->at);
}

bool hlo__parse_wrong(struct hlo_parser *p, const char *expected)
{
    char found[40];
    parse_space(p);
    shown(p, found, sizeof found);
    /* When the next token begins a line, the mistake is at the end of the line before. */
    const char *where = p->at;
    while (where > p->begin && parse_is_space(where[-1]))
        where--;
    if (where == p->begin || !memchr(where, '\n', (size_t)(p->at - where)))
        where = p->at;
    return hlo__parse_fail_at(p, where, NF_EGRAPH, "expected %s, found %s", expected, found);
}

bool hlo__parse_enter(struct hlo_parser *p)
{
    if (++p->nodes > PARSE_MAX_NODES)
        return hlo__parse_fail_at(p, p->at, NF_ELIMIT, "more attributes and types than the limit of %u, those behind aliases counted each time", PARSE_MAX_NODES);
    if (++p->depth <= p->limits->depth)
        return true;
    return hlo__parse_over(p, p->at, "max_depth", "nesting is deeper than the limit of %u", p->limits->depth);
}

void hlo__parse_comment(struct hlo_parser *p)
{
    if (p->end - p->at < 2 || p->at[1] != '/')
        return;
    const char *nl = memchr(p->at, '\n', (size_t)(p->end - p->at));
    p->at = nl ? nl : p->end;
}

bool hlo__parse_expect(struct hlo_parser *p, char c)
{
    char expected[4] = {'\'', c, '\'', 0};
    return hlo__parse_wrong(p, expected);
}

bool hlo__parse_accept_str(struct hlo_parser *p, const char *s)
{
    parse_space(p);
    if (!hlo__parse_starts(p, s))
        return false;
    p->at += strlen(s);
    return true;
}

bool hlo__parse_expect_str(struct hlo_parser *p, const char *s)
{
    if (hlo__parse_accept_str(p, s))
        return true;
    char expected[32];
    nf_format(expected, sizeof expected, "'%s'", s);
    return hlo__parse_wrong(p, expected);
}

struct nf_str hlo__parse_peek_word(struct hlo_parser *p)
{
    if (!parse_is(parse_peek(p), PARSE_LETTER) || p->at >= p->end)
        return (struct nf_str){0};
    const char *e = p->at + 1;
    while (e < p->end && parse_is(*e, PARSE_LETTER | PARSE_DIGIT | PARSE_ID_EXTRA))
        e++;
    return nf_str_n(p->at, (size_t)(e - p->at));
}

bool hlo__parse_word(struct hlo_parser *p, struct nf_str *ret)
{
    *ret = hlo__parse_peek_word(p);
    if (!ret->len)
        return hlo__parse_wrong(p, "a word");
    p->at += ret->len;
    return true;
}

bool hlo__parse_accept_word(struct hlo_parser *p, const char *word)
{
    struct nf_str w = hlo__parse_peek_word(p);
    if (!w.len || !nf_str_eq_c(w, word))
        return false;
    p->at += w.len;
    return true;
}

bool hlo__parse_expect_word(struct hlo_parser *p, const char *word)
{
    if (hlo__parse_accept_word(p, word))
        return true;
    char expected[64];
    nf_format(expected, sizeof expected, "'%s'", word);
    return hlo__parse_wrong(p, expected);
}

bool hlo__parse_suffix_id(struct hlo_parser *p, struct nf_str *ret)
{
    const char *s = p->at, *e = s;
    if (e < p->end && parse_is(*e, PARSE_DIGIT)) {
        while (e < p->end && parse_is(*e, PARSE_DIGIT))
            e++;
    } else if (e < p->end && parse_is(*e, PARSE_LETTER | PARSE_ID_EXTRA | PARSE_DASH)) {
        /* a '-' before '>' belongs to an arrow */
        while (e < p->end && parse_is(*e, PARSE_LETTER | PARSE_DIGIT | PARSE_ID_EXTRA | PARSE_DASH) &&
               !(*e == '-' && e + 1 < p->end && e[1] == '>'))
            e++;
    }
    if (e == s)
        return hlo__parse_wrong(p, "a name");
    *ret = nf_str_n(s, (size_t)(e - s));
    p->at = e;
    return true;
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

bool hlo__parse_string(struct hlo_parser *p, struct nf_str *ret)
{
    if (parse_peek(p) != '"')
        return hlo__parse_wrong(p, "a string");
    const char *s = ++p->at;
    const char *q = memchr(s, '"', (size_t)(p->end - s));
    if (!q)
        return hlo__parse_fail_at(p, s - 1, NF_EGRAPH, "the string does not end");
    if (!memchr(s, '\\', (size_t)(q - s))) {
        const char *nl = memchr(s, '\n', (size_t)(q - s));
        if (nl)
            return hlo__parse_fail_at(p, s - 1, NF_EGRAPH, "the string does not end on its line");
        *ret = nf_str_n(s, (size_t)(q - s));
        p->at = q + 1;
        return true;
    }
    /* With escapes: find the end, then undo them into the arena. */
    const char *e = s;
    while (e < p->end && *e != '"' && *e != '\n')
        e += *e == '\\' ? 2 : 1;
    if (e >= p->end || *e != '"')
        return hlo__parse_fail_at(p, s - 1, NF_EGRAPH, "the string does not end on its line");
    char *out = nf_arena_alloc_raw(p->arena, (size_t)(e - s) + 1), *o = out;
    while (s < e) {
        if (*s != '\\') {
            *o++ = *s++;
            continue;
        }
        char c = s[1];
        if (c == '"' || c == '\\') {
            *o++ = c;
            s += 2;
        } else if (e - s >= 3 && parse_is(c, PARSE_HEX) && parse_is(s[2], PARSE_HEX)) {
            *o++ = (char)(hex_digit(c) << 4 | hex_digit(s[2]));
            s += 3;
        } else if (c == 'n') {
            *o++ = '\n';
            s += 2;
        } else if (c == 't') {
            *o++ = '\t';
            s += 2;
        } else {
            return hlo__parse_fail_at(p, s, NF_EGRAPH, "unknown escape in a string");
        }
    }
    *ret = nf_str_n(out, (size_t)(o - out));
    p->at = e + 1;
    return true;
}

bool hlo__parse_symbol(struct hlo_parser *p, struct nf_str *ret)
{
    struct nf_str name;
    if (!parse_accept(p, '@'))
        return hlo__parse_wrong(p, "a symbol");
    if (p->at < p->end && *p->at == '"') {
        if (!hlo__parse_string(p, &name))
            return false;
    } else if (!hlo__parse_suffix_id(p, &name)) {
        return false;
    }
    while (hlo__parse_starts(p, "::@")) {
        struct nf_str inner;
        p->at += 3;
        if (p->at < p->end && *p->at == '"') {
            if (!hlo__parse_string(p, &inner))
                return false;
        } else if (!hlo__parse_suffix_id(p, &inner)) {
            return false;
        }
        name = nf_str_c(nf_arena_printf(p->arena, "%.*s::%.*s", NF_STR_ARG(name), NF_STR_ARG(inner)));
    }
    *ret = name;
    return true;
}

bool hlo__parse_u64_at(struct hlo_parser *p, uint64_t *ret)
{
    const char *s = p->at;
    uint64_t v = 0;
    while (p->at < p->end && parse_is(*p->at, PARSE_DIGIT)) {
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p->at - '0'), &v))
            return hlo__parse_fail_at(p, s, NF_EGRAPH, "the integer is too large");
        p->at++;
    }
    if (p->at == s)
        return hlo__parse_wrong(p, "an integer");
    *ret = v;
    return true;
}

bool hlo__parse_i64(struct hlo_parser *p, int64_t *ret)
{
    bool negative = parse_accept(p, '-');
    const char *s = p->at;
    uint64_t v = 0;
    if (p->end - p->at > 2 && p->at[0] == '0' && p->at[1] == 'x' && parse_is(p->at[2], PARSE_HEX)) {
        for (p->at += 2; p->at < p->end && parse_is(*p->at, PARSE_HEX); p->at++) {
            if (v >> 60)
                return hlo__parse_fail_at(p, s, NF_EGRAPH, "the integer is too large");
            v = v << 4 | (uint64_t)hex_digit(*p->at);
        }
    } else if (!hlo__parse_u64_at(p, &v)) {
        return false;
    }
    if (v > (uint64_t)INT64_MAX + negative)
        return hlo__parse_fail_at(p, s, NF_EGRAPH, "the integer is too large");
    *ret = (int64_t)(negative ? 0 - v : v);
    return true;
}

bool hlo__parse_bool(struct hlo_parser *p, bool *ret)
{
    if (hlo__parse_accept_word(p, "true"))
        *ret = true;
    else if (hlo__parse_accept_word(p, "false"))
        *ret = false;
    else
        return hlo__parse_wrong(p, "true or false");
    return true;
}

bool hlo__parse_i64_list(struct hlo_parser *p, struct hlo_ints *ret)
{
    uint32_t base = p->num_ints;
    if (!parse_expect(p, '['))
        return false;
    if (!parse_accept(p, ']')) {
        do {
            int64_t v;
            if (!hlo__parse_i64(p, &v))
                return false;
            parse_push_int(p, v);
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ']'))
            return false;
    }
    *ret = hlo_ints_copy(p->m, p->num_ints - base, p->ints + base);
    p->num_ints = base;
    return true;
}

bool hlo__parse_balanced(struct hlo_parser *p, struct nf_str *ret)
{
    const char *start = p->at;
    char stack[256];
    size_t depth = 0;
    while (p->at < p->end) {
        char c = *p->at;
        if (c == '"') {
            struct nf_str ignored;
            if (!hlo__parse_string(p, &ignored))
                return false;
            continue;
        }
        if (c == '/' && p->end - p->at > 1 && p->at[1] == '/') {
            hlo__parse_comment(p);
            continue;
        }
        if (c == '-' && p->end - p->at > 1 && p->at[1] == '>') {
            p->at += 2;
            continue;
        }
        p->at++;
        if (c == '<' || c == '[' || c == '{' || c == '(') {
            if (depth == sizeof stack)
                return hlo__parse_fail_at(p, p->at, NF_ELIMIT, "brackets are nested too deeply");
            stack[depth++] = c == '<' ? '>' : c == '[' ? ']' : c == '{' ? '}' : ')';
        } else if (c == '>' || c == ']' || c == '}' || c == ')') {
            if (depth == 0 || stack[depth - 1] != c)
                return hlo__parse_fail_at(p, p->at - 1, NF_EGRAPH, "the brackets do not match");
            if (--depth == 0) {
                *ret = nf_str_n(start, (size_t)(p->at - start));
                return true;
            }
        }
    }
    return hlo__parse_fail_at(p, start, NF_EGRAPH, "the bracket is not closed");
}

struct nf_str hlo__parse_squeeze(struct hlo_parser *p, struct nf_str text)
{
    char *out = nf_arena_alloc_raw(p->arena, text.len + 1);
    size_t n = 0;
    bool in_string = false, gap = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!in_string && parse_is_space(c)) {
            gap = true;
            continue;
        }
        if (!in_string && c == '/' && i + 1 < text.len && text.data[i + 1] == '/') {
            while (i < text.len && text.data[i] != '\n')
                i++;
            gap = true;
            continue;
        }
        if (gap) {
            /* one space is kept where words would run together, and after commas, as printers write them */
            char before = n ? out[n - 1] : 0;
            if (n && (before == ',' || before == ':' || before == '=' || c == '=' || c == ':' ||
                      (parse_is(before, PARSE_LETTER | PARSE_DIGIT) && parse_is(c, PARSE_LETTER | PARSE_DIGIT)) ||
                      (before != '<' && before != '[' && before != '{' && before != '(' && c != '>' && c != ']' && c != '}' && c != ')' && c != ',')))
                out[n++] = ' ';
            gap = false;
        }
        if (c == '"')
            in_string = !in_string;
        else if (c == '\\' && in_string && i + 1 < text.len) {
            out[n++] = c;
            c = text.data[++i];
        }
        out[n++] = c;
    }
    return nf_str_n(out, n);
}
