#include "pipeline/driver/drv_flags.h"

enum kind { VALUE, FLAG, PAIR, IGNORED, LIST };

static const struct known {
    const char *name, *aliases;
    enum kind kind;
    const char *values, *standard;
} known[] = {
#define DRV_FLAG(name, aliases, kind, values, standard) {name, aliases, kind, values, standard},
#include "pipeline/driver/drv_flags.def"
#undef DRV_FLAG
};
#define KNOWN NF_ARRAY_LEN(known)

#define RAW '\x1e'
#define SEP '\x1f'

static const struct known *find(struct nf_str name)
{
    char spaced[64];
    bool fits = name.len > 0 && nf_format(spaced, sizeof(spaced), " %.*s ", (int)NF_MIN(name.len, (size_t)256), name.data);
    for (size_t i = 0; fits && i < KNOWN; i++)
        if (nf_str_eq_c(name, known[i].name) || strstr(known[i].aliases, spaced))
            return &known[i];
    return NULL;
}

/* "enable-X" and "disable-X" of a PAIR X. */
static const struct known *find_pair(struct nf_str name, struct nf_str *ret_value)
{
    bool on = nf_str_starts(name, NF_STR("enable-")), off = nf_str_starts(name, NF_STR("disable-"));
    size_t skip = on ? 7 : 8;
    if (!on && !off)
        return NULL;
    const struct known *k = find(nf_str_n(name.data + skip, name.len - skip));
    *ret_value = on ? NF_STR("enabled") : NF_STR("disabled");
    return k && k->kind == PAIR ? k : NULL;
}

static const char *const env_names[] = {
    "NEURON_FRAMEWORK_DEBUG",    "NKI_DEBUG_INFO",                  "XLA_IR_DEBUG",             "XLA_HLO_DEBUG",
    "NEURON_USE_SPLIT_ALLGATHER", "NEURON_USE_SPLIT_REDUCE_SCATTER", "NEURON_USE_NKI_ALLTOALLV", "COLLECTIVE_BUCKETSIZE_IN_MB", NULL,
};

const char *const *drv_env_names(void)
{
    return env_names;
}

bool drv_env_counts(struct nf_str name)
{
    for (size_t i = 0; env_names[i]; i++)
        if (nf_str_eq_c(name, env_names[i]))
            return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------------- splitting */

static bool wrapper_flag(const char *word, struct drv_wrapper *w)
{
    if (strncmp(word, "--cache_dir=", 12) == 0)
        w->cache_dir = word + 12;
    else if (strcmp(word, "--no_cache") == 0)
        w->no_cache = true;
    else if (strcmp(word, "--retry_failed_compilation") == 0)
        w->retry_failed = true;
    else if (strncmp(word, "--log_level=", 12) == 0)
        w->log_level = word + 12;
    else if (strncmp(word, "--compile_workdir=", 18) == 0)
        w->compile_workdir = word + 18;
    else
        return false;
    return true;
}

/* "--model-type=transformer--cache_dir=/x": text was appended without a space in between. Returns where the second one starts. */
static const char *glued(const char *word)
{
    const char *eq = strchr(word, '=');
    if (strncmp(word, "--", 2) != 0 || !eq)
        return NULL;
    for (const char *at = strstr(eq + 2, "--"); at; at = strstr(at + 2, "--")) {
        struct drv_wrapper probe = {0};
        struct nf_str name = nf_str_n(at + 2, strcspn(at + 2, "= "));
        struct nf_str value;
        if (!strchr(" ='\"-", at[-1]) && (find(name) || find_pair(name, &value) || wrapper_flag(at, &probe)))
            return at;
    }
    return NULL;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int drv_cc_flags_split(struct nf_str text, struct nf_arena *arena, char ***ret_argv, size_t *ret_argc, struct drv_wrapper *ret_wrapper,
                       struct nf_error *err)
{
    char **argv = NF_NEW_ARRAY(arena, char *, text.len / 2 + 2);
    size_t argc = 0, i = 0;
    struct drv_wrapper w = {0};
    if (text.len > 0 && memchr(text.data, 0, text.len))
        return nf_fail(err, NF_EUSAGE, "NEURON_CC_FLAGS holds a NUL");
    for (;;) {
        while (i < text.len && blank(text.data[i]))
            i++;
        if (i == text.len)
            break;
        struct nf_buf word = NF_BUF_INIT;
        size_t start = i;
        char quote = 0;
        for (; i < text.len && (quote || !blank(text.data[i])); i++) {
            char c = text.data[i];
            if (quote == '\'') {
                if (c == '\'')
                    quote = 0;
                else
                    nf_buf_add_char(&word, c);
            } else if (c == '\\' && i + 1 < text.len && (!quote || strchr("\"\\$`\n", text.data[i + 1]))) {
                if (text.data[++i] != '\n')
                    nf_buf_add_char(&word, text.data[i]);
            } else if (quote && c == '"') {
                quote = 0;
            } else if (!quote && (c == '\'' || c == '"')) {
                quote = c;
            } else {
                nf_buf_add_char(&word, c);
            }
        }
        char *copy = nf_arena_strn(arena, word.data ? word.data : "", word.len);
        nf_buf_done(&word);
        if (quote) {
            nf_fail(err, NF_EUSAGE, "NEURON_CC_FLAGS: a %c is not closed", quote);
            nf_error_location(err, "byte %zu", start);
            return NF_EUSAGE;
        }
        const char *second = glued(copy);
        if (second) {
            nf_fail(err, NF_EUSAGE, "NEURON_CC_FLAGS: two flags are glued together in %s", copy);
            nf_error_hint(err, "put a space in front of %s", second);
            return NF_EUSAGE;
        }
        if (!wrapper_flag(copy, &w))
            argv[argc++] = copy;
    }
    argv[argc] = NULL;
    *ret_argv = argv;
    *ret_argc = argc;
    if (ret_wrapper)
        *ret_wrapper = w;
    return NF_OK;
}

/* ---------------------------------------------------------------------------------------------------------- parsing */

struct parsing {
    struct nf_arena *arena;
    struct pipe_option *v;
    size_t count;
};

static struct pipe_option *look_up(struct parsing *p, const char *name)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return &p->v[i];
    return NULL;
}

static struct pipe_option *append(struct parsing *p, const char *name)
{
    p->v[p->count] = (struct pipe_option){name, {0}};
    return &p->v[p->count++];
}

static bool plain(struct nf_str v)
{
    return v.len == 0 || (v.data[0] != RAW && v.data[0] != SEP);
}

/* One more occurrence of an unknown flag. form: what stands behind RAW. */
static void add_raw(struct parsing *p, const char *name, struct nf_str form)
{
    struct pipe_option *o = look_up(p, name);
    bool simple = form.len == 0 || (form.data[0] == '=' && form.len > 1 && plain(nf_str_n(form.data + 1, form.len - 1)) &&
                                    !memchr(form.data, SEP, form.len));
    if (!o && simple) {
        append(p, name)->value = form.len == 0 ? (struct nf_str){0} : nf_arena_str(p->arena, nf_str_n(form.data + 1, form.len - 1));
        return;
    }
    struct nf_buf b = NF_BUF_INIT;
    if (o && plain(o->value)) {          /* spell the one that is there in the raw form */
        nf_buf_add_char(&b, RAW);
        if (o->value.len > 0)
            nf_buf_add_char(&b, '=');
    }
    if (!o)
        o = append(p, name);
    nf_buf_add_str(&b, o->value);
    nf_buf_add_char(&b, RAW);
    nf_buf_add_str(&b, form);
    o->value = nf_arena_str(p->arena, nf_buf_str(&b));
    nf_buf_done(&b);
}

static void set_known(struct drv_call *c, struct parsing *p, const struct known *k, struct nf_str value)
{
    const char *text = nf_arena_strn(p->arena, value.data ? value.data : "", value.len);
    if (strcmp(k->name, "target") == 0)
        c->target = text;
    else if (strcmp(k->name, "output") == 0)
        c->output = text;
    else if (strcmp(k->name, "logfile") == 0)
        c->logfile = text;
    else if (strcmp(k->name, "verbose") == 0)
        c->verbose = text;
    else if (strcmp(k->name, "workdir") == 0)
        c->workdir = text;
    if (k->kind == IGNORED)
        return;
    struct pipe_option *o = look_up(p, k->name);
    if (!o)
        o = append(p, k->name);
    o->value = nf_str_n(text, value.len);
}

static bool graph_file(const char *word)
{
    struct nf_str w = nf_str_c(word);
    return nf_str_ends(w, NF_STR(".pb")) || nf_str_ends(w, NF_STR(".mlir")) || nf_str_ends(w, NF_STR(".hlo")) ||
           nf_str_ends(w, NF_STR(".bc")) || nf_str_ends(w, NF_STR(".mlirbc"));
}

static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] != 0;
}

/* An unknown flag or a list, with the words behind it. Words behind an unknown flag may be its values or the input file: the last
 * one is the input if there is none yet and its ending is that of a graph. Returns how many words were taken. */
static int unknown_flag(struct drv_call *c, struct parsing *p, struct nf_str name, bool has_value, struct nf_str value, bool list, bool compile,
                        int left, char *const *words)
{
    struct nf_buf form = NF_BUF_INIT;
    int take = 0;
    while (!has_value && take < left && !is_flag(words[take]) && (compile || strcmp(words[take], "compile") != 0))
        take++;
    if (take > 0 && !list && !c->input && graph_file(words[take - 1]))
        take--;
    if (has_value) {
        nf_buf_add_char(&form, '=');
        nf_buf_add_str(&form, value);
    }
    for (int t = 0; t < take; t++) {
        nf_buf_add_char(&form, SEP);
        nf_buf_add_c(&form, words[t]);
    }
    if (form.failed || (form.len > 0 && memchr(form.data, RAW, form.len)))
        c->strange = "a control character in an argument";
    add_raw(p, nf_arena_strn(p->arena, name.data, name.len), nf_buf_str(&form));
    nf_buf_done(&form);
    return take;
}

int drv_call_parse(int argc, char *const *argv, struct nf_arena *arena, struct drv_call *ret_call, struct nf_error *err)
{
    struct drv_call c = {0};
    struct parsing p = {.arena = arena, .v = NF_NEW_ARRAY(arena, struct pipe_option, (size_t)argc + 1)};
    bool compile = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (!is_flag(a)) {
            if (!compile && strcmp(a, "compile") == 0)
                compile = true;
            else if (!compile)
                return nf_fail(err, NF_EUSAGE, "%s is not compile", a);
            else if (!c.input)
                c.input = a;
            else
                c.strange = nf_arena_printf(arena, "a second input file %s", a);
            continue;
        }
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0 || strcmp(a, "--version") == 0)
            return nf_fail(err, NF_EUSAGE, "%s is not compile", a);
        bool longer = a[1] == '-';
        struct nf_str body = nf_str_c(a + (longer ? 2 : 1)), value = body, pair_value;
        struct nf_str name = nf_str_cut(&value, '=');
        bool has_value = name.len < body.len;
        if (!longer && !has_value && name.len > 1 && name.data[0] == 'O') {      /* -O2 */
            value = nf_str_n(name.data + 1, name.len - 1);
            name.len = 1;
            has_value = true;
        }
        const struct known *pair = has_value ? NULL : find_pair(name, &pair_value);
        const struct known *k = find(name);
        if (pair) {
            set_known(&c, &p, pair, pair_value);
        } else if (k && (k->kind == VALUE || k->kind == IGNORED)) {
            if (!has_value && i + 1 >= argc)
                c.strange = nf_arena_printf(arena, "%s has no value", a);
            else
                set_known(&c, &p, k, has_value ? value : nf_str_c(argv[++i]));
        } else if (k && k->kind == FLAG && !has_value) {
            set_known(&c, &p, k, NF_STR("true"));
        } else if (!longer) {
            c.strange = nf_arena_printf(arena, "the short flag %s", a);
        } else if (name.len == 0) {
            c.strange = "an argument without a name";
        } else {
            i += unknown_flag(&c, &p, name, has_value, value, k && k->kind == LIST, compile, argc - i - 1, argv + i + 1);
        }
    }
    if (!compile)
        return nf_fail(err, NF_EUSAGE, "no command");
    if (!c.input && !c.strange)
        c.strange = "no input file";
    c.options = p.v;
    c.option_count = p.count;
    *ret_call = c;
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------------ normal form */

static bool version_at_least(const char *version, const char *least)
{
    unsigned a = 0, b = 0, x = 0, y = 0;
    return sscanf(version, "%u.%u", &a, &b) == 2 && sscanf(least, "%u.%u", &x, &y) == 2 && (a > x || (a == x && b >= y));
}

/* What absence of the flag means to this compiler; NULL: not known. */
static const char *standard(const struct known *k, const struct target_id *id)
{
    if (k->standard[0] != '?')
        return k->standard[0] ? k->standard : NULL;
    if (strcmp(k->standard, "?lnc") == 0)
        return strcmp(id->target, "trn2") == 0 || strcmp(id->target, "trn3") == 0 ? "2" : "1";
    const char *colon = strchr(k->standard, ':');
    return colon && version_at_least(id->version, k->standard + 1) ? colon + 1 : NULL;
}

static bool one_of(const char *list, struct nf_str v)
{
    struct nf_str rest = nf_str_c(list);
    while (rest.data)
        if (nf_str_eq(nf_str_cut(&rest, '|'), v))
            return true;
    return false;
}

static int check_unknown(const char *name, struct nf_error *err)
{
    if (strncmp(name, "env:", 4) == 0) {
        if (drv_env_counts(nf_str_c(name + 4)))
            return NF_OK;
        nf_fail(err, NF_EINVAL, "%.64s is not a variable that the compiler's output depends on", name);
        nf_error_hint(err, "a compiler has the environment of the process that starts it");
        return NF_EINVAL;
    }
    size_t n = strlen(name);
    bool good = n > 0 && n <= 200 && name[0] != '-';
    for (size_t i = 0; i < n; i++)
        good = good && ((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
                        strchr("-_.", name[i]));
    return good ? NF_OK : nf_fail(err, NF_EINVAL, "%.64s cannot be the name of an option", name);
}

int drv_options(const struct target_id *id, const struct pipe_option *given, size_t given_count, struct nf_arena *arena,
                const struct pipe_option **ret_options, size_t *ret_count, struct nf_error *err)
{
    struct nf_str value[KNOWN] = {0};
    bool set[KNOWN] = {0};
    struct pipe_option *out = NF_NEW_ARRAY(arena, struct pipe_option, KNOWN + given_count + 1);
    size_t n = 0;
    for (size_t i = 0; i < given_count; i++) {
        struct nf_str name = nf_str_c(given[i].name), v = given[i].value;
        if (v.len > 0 && memchr(v.data, 0, v.len))
            return nf_fail(err, NF_EINVAL, "option %.64s holds a NUL", given[i].name);
        const struct known *k = find_pair(name, &v);
        if (!k)
            k = find(name);
        if (!k || k->kind == LIST)
            continue;
        if (k->kind == FLAG) {
            set[k - known] = !(nf_str_eq_c(v, "false") || nf_str_eq_c(v, "0"));
            value[k - known] = NF_STR("true");
            continue;
        }
        if (k->values[0] && !one_of(k->values, v)) {
            nf_fail(err, NF_EINVAL, "option %s cannot be %.*s", k->name, (int)NF_MIN(v.len, (size_t)64), v.data ? v.data : "");
            nf_error_hint(err, "it can be %s", k->values);
            return NF_EINVAL;
        }
        if (strcmp(k->name, "distribution-strategy") == 0 && nf_str_eq_c(v, "NEMO"))
            v = NF_STR("llm-training");
        set[k - known] = true;
        value[k - known] = v;
    }
    for (size_t k = 0; k < KNOWN; k++) {
        const char *s = standard(&known[k], id);
        /* What follows from the target alone is said by the target alone. */
        if (s && strcmp(known[k].standard, "?lnc") == 0 && (!set[k] || nf_str_eq_c(value[k], s)))
            continue;
        if (known[k].kind != IGNORED && known[k].kind != LIST && (set[k] || s))
            out[n++] = (struct pipe_option){known[k].name, set[k] ? value[k] : nf_str_c(s)};
    }
    /* The rest in the caller's order, the right-most of a name. */
    for (size_t i = 0; i < given_count; i++) {
        struct nf_str v;
        const struct known *k = find(nf_str_c(given[i].name));
        bool later = (k && k->kind != LIST) || find_pair(nf_str_c(given[i].name), &v);
        for (size_t j = i + 1; j < given_count && !later; j++)
            later = strcmp(given[j].name, given[i].name) == 0;
        if (later)
            continue;
        int r = check_unknown(given[i].name, err);
        if (r != NF_OK)
            return r;
        out[n++] = given[i];
    }
    *ret_options = out;
    *ret_count = n;
    return NF_OK;
}

/* --------------------------------------------------------------------------------------------------------- arguments */

struct words {
    struct nf_arena *arena;
    const char **v;
    size_t count, cap;
};

static void word(struct words *w, const char *text)
{
    if (w->count + 1 >= w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 32;
        const char **v = NF_NEW_ARRAY(w->arena, const char *, cap);
        if (w->count)
            memcpy(v, w->v, w->count * sizeof(*v));
        w->v = v;
        w->cap = cap;
    }
    w->v[w->count++] = text;
    w->v[w->count] = NULL;
}

/* Cuts what stands before the next `mark`, which stays at the front of the rest. */
static struct nf_str cut_before(struct nf_str *s, char mark)
{
    const char *end = s->len ? memchr(s->data, mark, s->len) : NULL;
    size_t len = end ? (size_t)(end - s->data) : s->len;
    struct nf_str head = nf_str_n(s->data, len);
    *s = nf_str_n(s->data + len, s->len - len);
    return head;
}

static struct nf_str skip_one(struct nf_str s)
{
    return nf_str_n(s.data + 1, s.len - 1);
}

static void raw_words(struct words *w, const char *name, struct nf_str v)
{
    while (v.len > 0) {
        v = skip_one(v);                 /* RAW */
        struct nf_str form = cut_before(&v, RAW);
        struct nf_str own = cut_before(&form, SEP);
        word(w, nf_arena_printf(w->arena, "--%s%s", name, nf_arena_strn(w->arena, own.data ? own.data : "", own.len)));
        while (form.len > 0) {
            form = skip_one(form);       /* SEP */
            struct nf_str token = cut_before(&form, SEP);
            word(w, nf_arena_strn(w->arena, token.data ? token.data : "", token.len));
        }
    }
}

const char **drv_arguments(const struct target_id *id, const struct pipe_option *effective, size_t count, const char *const *before,
                           const char *const *after, struct nf_arena *arena)
{
    struct words w = {.arena = arena, .v = NF_NEW_ARRAY(arena, const char *, 2), .cap = 1};
    for (; before && *before; before++)
        word(&w, *before);
    for (size_t i = 0; i < count; i++) {
        const struct pipe_option *o = &effective[i];
        const struct known *k = find(nf_str_c(o->name));
        const char *usual = k ? standard(k, id) : NULL;
        if (strncmp(o->name, "env:", 4) == 0 || (usual && nf_str_eq_c(o->value, usual) && strcmp(o->name, "framework") != 0))
            continue;
        const char *text = nf_arena_strn(arena, o->value.data ? o->value.data : "", o->value.len);
        if (k && k->kind == PAIR)
            word(&w, nf_arena_printf(arena, "--%s-%s", strcmp(text, "enabled") == 0 ? "enable" : "disable", o->name));
        else if ((k && k->kind == FLAG) || o->value.len == 0)
            word(&w, nf_arena_printf(arena, "--%s", o->name));
        else if (!plain(o->value))
            raw_words(&w, o->name, o->value);
        else
            word(&w, nf_arena_printf(arena, "--%s=%s", o->name, text));
    }
    for (; after && *after; after++)
        word(&w, *after);
    return w.v;
}

const char *drv_option_value(const struct target_id *id, const struct pipe_option *effective, size_t count, const char *name, struct nf_arena *arena)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(effective[i].name, name) == 0)
            return nf_arena_strn(arena, effective[i].value.data ? effective[i].value.data : "", effective[i].value.len);
    const struct known *k = find(nf_str_c(name));
    return k ? standard(k, id) : NULL;
}
