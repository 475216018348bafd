/* value.c: text to value, one function a type. */
#include "config/config_internal.h"

#include "base/clock.h"

#include <inttypes.h>
#include <strings.h>

struct read {
    const struct cfg__row *row;
    struct nf_str text;
    struct nf_arena *arena;
    void *field;
    const char **text_out;
    char *why;
};

#define WHY(r, ...) (nf_format((r)->why, 160, __VA_ARGS__), NF_ECONFIG)

static bool is_word(struct nf_str s, const char *const *words)
{
    for (; *words; words++)
        if (s.len == strlen(*words) && strncasecmp(s.data, *words, s.len) == 0)
            return true;
    return false;
}

static int read_bool(struct read *r)
{
    static const char *const yes[] = {"1", "true", "yes", "on", NULL}, *const no[] = {"0", "false", "no", "off", NULL};
    bool on = is_word(r->text, yes);
    if (!on && !is_word(r->text, no))
        return WHY(r, "expected 0 or 1");
    *(bool *)r->field = on;
    *r->text_out = on ? "1" : "0";
    return NF_OK;
}

static int read_strict(struct read *r)
{
    if (!nf_str_eq_c(r->text, "0") && !nf_str_eq_c(r->text, "1"))
        return WHY(r, "only 0 and 1 are accepted");
    *(bool *)r->field = r->text.data[0] == '1';
    return NF_OK;
}

static int read_tristate(struct read *r)
{
    *(enum cfg_tristate *)r->field = nf_str_eq_c(r->text, "1") ? CFG_ON : CFG_OFF;
    return NF_OK;
}

static int in_bounds(struct read *r, int64_t v)
{
    if (v >= r->row->min && v <= r->row->max)
        return NF_OK;
    if (r->row->max == INT64_MAX)
        return WHY(r, "expected at least %" PRId64, r->row->min);
    return WHY(r, "expected %" PRId64 " to %" PRId64, r->row->min, r->row->max);
}

static int read_int(struct read *r)
{
    int64_t v;
    int rc = nf_str_to_i64(r->text, &v);
    if (rc == NF_ELIMIT)
        return WHY(r, "the number is too large");
    if (rc)
        return WHY(r, "expected a whole number");
    if ((rc = in_bounds(r, v)) == NF_OK)
        *(int64_t *)r->field = v;
    return rc;
}

static int read_octal(struct read *r)
{
    int64_t v = 0;
    if (r->text.len == 0 || r->text.len > 8)
        return WHY(r, "expected an octal mode such as 0640");
    for (size_t i = 0; i < r->text.len; i++) {
        if (r->text.data[i] < '0' || r->text.data[i] > '7')
            return WHY(r, "expected an octal mode such as 0640");
        v = v * 8 + (r->text.data[i] - '0');
    }
    if (v < r->row->min || v > r->row->max)
        return WHY(r, "expected %#" PRIo64 " to %#" PRIo64, r->row->min, r->row->max);
    *(int64_t *)r->field = v;
    return NF_OK;
}

static int read_bytes(struct read *r)
{
    uint64_t v;
    if (nf_str_to_u64(r->text, &v) != NF_OK)
        return WHY(r, "expected a whole number of bytes without a unit");
    if (v != UINT64_MAX) { /* which is "no limit" */
        if (v > INT64_MAX)
            return WHY(r, "the number is too large");
        int rc = in_bounds(r, (int64_t)v);
        if (rc)
            return rc;
    }
    *(uint64_t *)r->field = v;
    return NF_OK;
}

/* The length of the decimal number at the start: digits, optionally a dot and digits. */
static size_t number_prefix(struct nf_str s)
{
    size_t n = 0, dots = 0;
    while (n < s.len && ((s.data[n] >= '0' && s.data[n] <= '9') || (s.data[n] == '.' && dots++ == 0)))
        n++;
    return n;
}

static int read_size(struct read *r)
{
    size_t n = number_prefix(r->text);
    struct nf_str unit = nf_str_trim(nf_str_n(r->text.data + n, r->text.len - n));
    struct nf_str digits = nf_str_n(r->text.data, n);
    unsigned shift = 0;
    if (unit.len) {
        const char *letters = "KMGTP", *at = strchr(letters, unit.data[0] & ~0x20);
        if (unit.data[0] == 'B' && unit.len == 1)
            at = NULL;
        else if (!at || !*at || (unit.len > 1 && !nf_str_eq_c(nf_str_n(unit.data + 1, unit.len - 1), "iB") && unit.data[1] != 'B') || unit.len > 3 ||
                 (unit.len == 2 && unit.data[1] != 'B'))
            return WHY(r, "expected bytes, with K, M, G or T if wanted (such as 512M)");
        shift = at ? 10 * (unsigned)(at - letters + 1) : 0;
    }
    uint64_t v;
    double fraction;
    int rc = nf_str_to_u64(digits, &v);
    if (rc == NF_OK) {
        if (shift && v > ((uint64_t)INT64_MAX >> shift))
            return WHY(r, "the number is too large");
        v <<= shift;
    } else if (rc == NF_EINVAL && nf_str_to_double(digits, &fraction) == NF_OK && shift) {
        fraction *= (double)((uint64_t)1 << shift);
        if (fraction > 9e18)
            return WHY(r, "the number is too large");
        v = (uint64_t)fraction;
    } else {
        return WHY(r, rc == NF_ELIMIT ? "the number is too large" : "expected bytes, with K, M, G or T if wanted (such as 512M)");
    }
    if (v > INT64_MAX)
        return WHY(r, "the number is too large");
    if ((rc = in_bounds(r, (int64_t)v)) == NF_OK)
        *(uint64_t *)r->field = v;
    return rc;
}

static int read_seconds(struct read *r)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    size_t n = number_prefix(r->text), u = 0;
    struct nf_str unit = nf_str_trim(nf_str_n(r->text.data + n, r->text.len - n));
    double v;
    while (u < NF_ARRAY_LEN(units) && !nf_str_eq_c(unit, units[u].name))
        u++;
    if (u == NF_ARRAY_LEN(units) || nf_str_to_double(nf_str_n(r->text.data, n), &v) != NF_OK)
        return WHY(r, "expected seconds, or a number with ms, s, m, h or d");
    v *= units[u].seconds;
    if (v < (double)r->row->min || v > (double)r->row->max)
        return WHY(r, "expected %" PRId64 " to %" PRId64 " seconds", r->row->min, r->row->max);
    *(int64_t *)r->field = (int64_t)(v * (double)NF_SEC + 0.5);
    return NF_OK;
}

static int read_choice(struct read *r)
{
    struct nf_str rest = nf_str_c(r->row->unit);
    for (int i = 0; rest.data; i++) {
        struct nf_str word = nf_str_cut(&rest, '|');
        if (nf_str_eq(word, r->text)) {
            *(int *)r->field = i;
            return NF_OK;
        }
    }
    nf_format(r->why, 160, "expected one of %s", r->row->unit);
    for (char *c = r->why; *c; c++)
        if (*c == '|')
            *c = ' ';
    return NF_ECONFIG;
}

static int read_str(struct read *r)
{
    if (!nf_utf8_valid(r->text))
        return WHY(r, "the text is not UTF-8");
    *(const char **)r->field = *r->text_out;
    return NF_OK;
}

static int read_path(struct read *r)
{
    *(const char **)r->field = *r->text_out;
    return NF_OK;
}

/* Items between commas, white space around them dropped, empty ones ignored. */
static int read_list(struct read *r)
{
    size_t most = 1;
    for (size_t i = 0; i < r->text.len; i++)
        most += r->text.data[i] == ',';
    const char **items = NF_NEW_ARRAY(r->arena, const char *, most);
    size_t n = 0;
    struct nf_str rest = r->text;
    while (rest.len) {
        struct nf_str item = nf_str_trim(nf_str_cut(&rest, ','));
        if (item.len)
            items[n++] = nf_arena_strn(r->arena, item.data, item.len);
    }
    *(struct cfg_list *)r->field = (struct cfg_list){items, n};
    return NF_OK;
}

static int read_ranges(struct read *r)
{
    size_t most = 1;
    for (size_t i = 0; i < r->text.len; i++)
        most += r->text.data[i] == ',';
    struct cfg_range *items = NF_NEW_ARRAY(r->arena, struct cfg_range, most);
    size_t n = 0;
    struct nf_str rest = r->text;
    while (rest.len) {
        struct nf_str item = nf_str_trim(nf_str_cut(&rest, ','));
        if (item.len == 0)
            continue;
        struct nf_str high = item, low = nf_str_trim(nf_str_cut(&high, '-'));
        int64_t first, last;
        if (nf_str_to_i64(low, &first) != NF_OK || first < 0)
            return WHY(r, "expected indices and ranges such as 0,2-5");
        last = first;
        if (high.data && (nf_str_to_i64(nf_str_trim(high), &last) != NF_OK || last < 0))
            return WHY(r, "expected indices and ranges such as 0,2-5");
        if (last < first)
            return WHY(r, "the range %" PRId64 "-%" PRId64 " runs backwards", first, last);
        items[n++] = (struct cfg_range){first, last};
    }
    *(struct cfg_ranges *)r->field = (struct cfg_ranges){items, n};
    return NF_OK;
}

int cfg__value_read(const struct cfg__row *row, const char *text, struct nf_arena *arena, void *field, const char **ret_text,
                    char why[160])
{
    struct nf_str s = nf_str_trim(nf_str_c(text));
    *ret_text = nf_arena_strn(arena, s.data, s.len);
    struct read r = {row, nf_str_c(*ret_text), arena, field, ret_text, why};
    switch (row->type) {
    case CFG__BOOL01: return read_bool(&r);
    case CFG__STRICT01: return read_strict(&r);
    case CFG__TRISTATE: return read_tristate(&r);
    case CFG__INT: return read_int(&r);
    case CFG__OCTAL: return read_octal(&r);
    case CFG__SIZE: return read_size(&r);
    case CFG__BYTES: return read_bytes(&r);
    case CFG__SECONDS: return read_seconds(&r);
    case CFG__CHOICE: return read_choice(&r);
    case CFG__STR: return read_str(&r);
    case CFG__PATH: return read_path(&r);
    case CFG__LIST: return read_list(&r);
    case CFG__RANGES: return read_ranges(&r);
    case CFG__KVLIST: return read_list(&r);
    case CFG__TYPE_MAX: break;
    }
    return NF_EINTERNAL;
}
