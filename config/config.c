/* config.c: collects the text of each setting from its sources, then reads all of it as values.
 *
 * Sources only record text (and check that the name exists and the value can be read, so that an error names its place);
 * defaults, which may depend on other settings, are filled in last. */
#include "config/config.h"

#include "base/file.h"
#include "config/config_internal.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stddef.h>
#include <unistd.h>

#define CONFIG_FILE "/etc/neffd/neffd.conf"
#define CONFIG_FILE_MAX ((size_t)1 << 20)

extern char **environ;

#define CFG__OFFSET_BOOL01(name) offsetof(struct cfg, name)
#define CFG__OFFSET_STRICT01(name) offsetof(struct cfg, name)
#define CFG__OFFSET_TRISTATE(name) offsetof(struct cfg, name)
#define CFG__OFFSET_INT(name) offsetof(struct cfg, name)
#define CFG__OFFSET_OCTAL(name) offsetof(struct cfg, name)
#define CFG__OFFSET_SIZE(name) offsetof(struct cfg, name)
#define CFG__OFFSET_BYTES(name) offsetof(struct cfg, name)
#define CFG__OFFSET_SECONDS(name) offsetof(struct cfg, name##_ns)
#define CFG__OFFSET_CHOICE(name) offsetof(struct cfg, name)
#define CFG__OFFSET_STR(name) offsetof(struct cfg, name)
#define CFG__OFFSET_PATH(name) offsetof(struct cfg, name)
#define CFG__OFFSET_LIST(name) offsetof(struct cfg, name)
#define CFG__OFFSET_KVLIST(name) offsetof(struct cfg, name)
#define CFG__OFFSET_RANGES(name) offsetof(struct cfg, name)

const struct cfg__row cfg__rows[CFG_ID_MAX] = {
#define CFG(type, name, def, min, max, unit, scope, live, effect, area, env, help) \
    {#name, def, unit, area, env, help, min, max, CFG__##type, CFG__##scope, live, effect, CFG__OFFSET_##type(name)},
#include "config/options.def"
#undef CFG
};

const char *const cfg__type_names[CFG__TYPE_MAX] = {"bool01", "strict01", "tristate", "int",  "octal", "size",   "bytes",
                                                    "seconds", "choice",  "str",      "path", "list",  "ranges", "key=value list"};
const char *const cfg__scope_names[CFG__SCOPE_MAX] = {"client", "request", "daemon"};
const char *const cfg__source_names[CFG_SOURCE_MAX] = {"default", "file", "env", "command line"};

/* ------------------------------------------------------------------------------------------------ names */

static bool name_eq(struct nf_str given, const char *name)
{
    if (given.len != strlen(name))
        return false;
    for (size_t i = 0; i < given.len; i++)
        if ((given.data[i] == '-' ? '_' : given.data[i]) != name[i])
            return false;
    return true;
}

enum cfg_id cfg_find(struct nf_str name)
{
    int i = 0;
    while (i < CFG_ID_MAX && !name_eq(name, cfg__rows[i].name))
        i++;
    return (enum cfg_id)i;
}

static const char *nearest(struct nf_str name, const struct cfg_extra *extra)
{
    char plain[64];
    size_t len = NF_MIN(name.len, sizeof(plain) - 1);
    for (size_t i = 0; i < len; i++)
        plain[i] = name.data[i] == '-' ? '_' : (char)tolower((unsigned char)name.data[i]);
    struct nf_str wanted = nf_str_n(plain, len);
    size_t best = NF_MAX((size_t)2, len / 3) + 1;
    const char *found = NULL;
    for (int i = 0; i < CFG_ID_MAX; i++) {
        size_t d = nf_edit_distance(wanted, nf_str_c(cfg__rows[i].name));
        if (d < best) {
            best = d;
            found = cfg__rows[i].name;
        }
    }
    for (; extra && extra->name; extra++) {
        size_t d = nf_edit_distance(name, nf_str_c(extra->name));
        if (d < best) {
            best = d;
            found = extra->name;
        }
    }
    return found;
}

const char *cfg_nearest(struct nf_str name) { return nearest(name, NULL); }

const char *const *cfg__env_names(const struct cfg__row *row, struct nf_arena *arena)
{
    const char **names = NF_NEW_ARRAY(arena, const char *, 8);
    size_t n = 0;
    char *own = nf_arena_printf(arena, "NEFFD_%s", row->name);
    for (char *c = own; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    names[n++] = own;
    for (struct nf_str rest = nf_str_c(row->env); rest.len && n < 7;) {
        struct nf_str name = nf_str_cut(&rest, ' ');
        names[n++] = nf_arena_strn(arena, name.data, name.len);
    }
    return names;
}

void cfg__warn(struct cfg *cfg, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    struct cfg__private *p = cfg->priv;
    p->warnings = nf_realloc(p->warnings, (p->warning_count + 1) * sizeof(*p->warnings));
    p->warnings[p->warning_count++] = nf_arena_strn(p->arena, line, strlen(line));
}

static void *field_of(struct cfg *cfg, enum cfg_id id) { return (char *)cfg + cfg__rows[id].offset; }

/* Records a value from a source; `where` for the message. */
static int set(struct cfg *cfg, enum cfg_id id, const char *text, enum cfg_source source, int code, const char *where, struct nf_error *err)
{
    const struct cfg__row *row = &cfg__rows[id];
    char why[160] = "";
    const char *shown;
    int rc = cfg__value_read(row, text, cfg->priv->arena, field_of(cfg, id), &shown, why);
    if (rc)
        return nf_fail(err, code, "%s: \"%s\" is not a value for %s: %s", where, text, row->name, why);
    cfg->priv->texts[id] = shown;
    cfg->priv->sources[id] = (uint8_t)source;
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------ file
 *
 *     file    = line*
 *     line    = blank | ("#" | ";") text | "[neffd]" | name "=" value
 *     value   = text up to white space and "#", or '"' text '"' (no escapes)
 *
 * A name may be written once. */

static int file_line(struct cfg *cfg, const char *path, size_t number, struct nf_str line, size_t first_seen[], struct nf_error *err)
{
    char where[300];
    nf_format(where, sizeof(where), "%s:%zu", path, number);
    line = nf_str_trim(line);
    if (line.len == 0 || line.data[0] == '#' || line.data[0] == ';')
        return NF_OK;
    if (line.data[0] == '[') {
        if (nf_str_eq_c(line, "[neffd]"))
            return NF_OK;
        return nf_fail(err, NF_ECONFIG, "%s: unknown section %.*s", where, (int)NF_MIN(line.len, (size_t)80), line.data);
    }
    if (!memchr(line.data, '=', line.len))
        return nf_fail(err, NF_ECONFIG, "%s: expected name = value", where);
    struct nf_str value = line, name = nf_str_trim(nf_str_cut(&value, '='));
    value = nf_str_trim(value);
    if (value.len >= 2 && value.data[0] == '"') {
        const char *close = memchr(value.data + 1, '"', value.len - 1);
        struct nf_str after = close ? nf_str_trim(nf_str_n(close + 1, (size_t)(value.data + value.len - close - 1))) : value;
        if (!close || (after.len && after.data[0] != '#'))
            return nf_fail(err, NF_ECONFIG, "%s: the quoted value does not end the line", where);
        value = nf_str_n(value.data + 1, (size_t)(close - value.data - 1));
    } else {
        for (size_t i = 0; i < value.len; i++)
            if (value.data[i] == '#' && (i == 0 || value.data[i - 1] == ' ' || value.data[i - 1] == '\t')) {
                value = nf_str_trim(nf_str_n(value.data, i));
                break;
            }
    }
    enum cfg_id id = cfg_find(name);
    if (id == CFG_ID_MAX) {
        const char *near = cfg_nearest(name);
        nf_fail(err, NF_ECONFIG, "%s: unknown setting %.*s", where, (int)NF_MIN(name.len, (size_t)80), name.data);
        if (near)
            nf_error_hint(err, "did you mean %s?", near);
        else
            nf_error_hint(err, "--help lists the settings");
        return NF_ECONFIG;
    }
    if (first_seen[id])
        return nf_fail(err, NF_ECONFIG, "%s: %s was set in line %zu already", where, cfg__rows[id].name, first_seen[id]);
    first_seen[id] = number;
    char *text = nf_strndup(value.data, value.len);
    int rc = strlen(text) == value.len ? set(cfg, id, text, CFG_FILE, NF_ECONFIG, where, err)
                                       : nf_fail(err, NF_ECONFIG, "%s: the value holds a NUL", where);
    free(text);
    return rc;
}

static int read_file(struct cfg *cfg, const char *path, bool must_exist, struct nf_error *err)
{
    if (!must_exist && access(path, F_OK) != 0)
        return NF_OK;
    struct nf_buf bytes = NF_BUF_INIT;
    int rc = nf_file_read(path, CONFIG_FILE_MAX, &bytes, err);
    if (rc)
        return rc == NF_EPERM || rc == NF_EIO ? rc : (err ? (err->code = NF_ECONFIG) : NF_ECONFIG);
    size_t first_seen[CFG_ID_MAX] = {0}, number = 0;
    struct nf_str rest = nf_buf_str(&bytes);
    if (nf_str_starts(rest, NF_STR("\xEF\xBB\xBF")))
        rest = nf_str_n(rest.data + 3, rest.len - 3);
    while (rest.data && rc == NF_OK) {
        struct nf_str line = nf_str_cut(&rest, '\n');
        rc = file_line(cfg, path, ++number, line, first_seen, err);
    }
    nf_buf_done(&bytes);
    if (rc == NF_OK)
        cfg->priv->file = nf_arena_strn(cfg->priv->arena, path, strlen(path));
    return rc;
}

/* ------------------------------------------------------------------------------------------------ environment */

static const char *env_get(const char *const *env, const char *name)
{
    size_t len = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

/* "TORCH_..._CONFIG.kPoolBoundary" is the key kPoolBoundary of that variable's list. Wrong keys and values only warn: the
 * variable's own documentation wants it so. */
static void read_kvlist(struct cfg *cfg, enum cfg_id list_id, const char *variable)
{
    const struct cfg_list *list = (const struct cfg_list *)field_of(cfg, list_id);
    for (size_t i = 0; i < list->len; i++) {
        struct nf_str value = nf_str_c(list->items[i]), key = nf_str_trim(nf_str_cut(&value, '='));
        char full[200];
        nf_format(full, sizeof(full), "%s.%.*s", cfg__rows[list_id].env, (int)NF_MIN(key.len, (size_t)80), key.data);
        int id = 0;
        while (id < CFG_ID_MAX && strcmp(cfg__rows[id].env, full) != 0)
            id++;
        if (id == CFG_ID_MAX || key.len > 80) {
            cfg__warn(cfg, "%s: unknown key %.*s is ignored", variable, (int)NF_MIN(key.len, (size_t)80), key.data);
            continue;
        }
        if (!value.data) {
            cfg__warn(cfg, "%s: %s has no value and is ignored", variable, list->items[i]);
            continue;
        }
        if (cfg->priv->sources[id] == CFG_ENV) /* NEFFD_NAME has said it */
            continue;
        char why[160];
        const char *shown;
        bool power_of_two = true;
        uint64_t before;
        memcpy(&before, field_of(cfg, (enum cfg_id)id), sizeof(before));
        int rc = cfg__value_read(&cfg__rows[id], value.data, cfg->priv->arena, field_of(cfg, (enum cfg_id)id), &shown, why);
        if (rc == NF_OK && id == CFG_ID_segment_alignment)
            power_of_two = (cfg->segment_alignment & (cfg->segment_alignment - 1)) == 0;
        if (rc || !power_of_two) {
            memcpy(field_of(cfg, (enum cfg_id)id), &before, sizeof(before));
            cfg__warn(cfg, "%s: the value of %s is ignored: %s", variable, list->items[i], rc ? why : "expected a power of two");
            continue;
        }
        cfg->priv->texts[id] = shown;
        cfg->priv->sources[id] = CFG_ENV;
    }
}

/* NEFFD_ variables that are not settings: where the file is, and what the test runner tells its tests. */
static bool is_other_variable(struct nf_str name)
{
    return nf_str_eq_c(name, "NEFFD_CONFIG") || nf_str_eq_c(name, "NEFFD_BUILD") || nf_str_eq_c(name, "NEFFD_SHARED");
}

static int read_env(struct cfg *cfg, const char *const *env, struct nf_error *err)
{
    size_t rank[CFG_ID_MAX]; /* position of the name that was used: earlier ones win */
    for (int i = 0; i < CFG_ID_MAX; i++)
        rank[i] = SIZE_MAX;
    for (const char *const *e = env; *e; e++) {
        const char *eq = strchr(*e, '=');
        if (!eq || (**e != 'N' && **e != 'T' && **e != 'C'))
            continue;
        struct nf_str name = nf_str_n(*e, (size_t)(eq - *e));
        bool known = is_other_variable(name);
        for (int i = 0; i < CFG_ID_MAX && !known; i++) {
            const char *const *names = cfg->priv->env[i];
            for (size_t n = 0; names[n]; n++) {
                if (!nf_str_eq_c(name, names[n]))
                    continue;
                known = true;
                enum cfg__type type = cfg__rows[i].type;
                if (n >= rank[i] || (!eq[1] && type != CFG__STRICT01 && type != CFG__TRISTATE))
                    break; /* empty is not set, where empty cannot mean anything */
                int rc = set(cfg, (enum cfg_id)i, eq + 1, CFG_ENV, NF_ECONFIG, names[n], err);
                if (rc)
                    return rc;
                rank[i] = n;
                cfg->priv->from_env[i] = names[n];
                break;
            }
        }
        if (known || !nf_str_starts(name, NF_STR("NEFFD_")))
            continue;
        const char *near = cfg_nearest(nf_str_n(name.data + 6, name.len - 6));
        char upper[80] = "";
        for (size_t i = 0; near && near[i] && i < sizeof(upper) - 1; i++)
            upper[i] = (char)toupper((unsigned char)near[i]);
        if (near)
            cfg__warn(cfg, "unknown variable %.*s in the environment is ignored; did you mean NEFFD_%s?", (int)NF_MIN(name.len, (size_t)80), name.data, upper);
        else
            cfg__warn(cfg, "unknown variable %.*s in the environment is ignored", (int)NF_MIN(name.len, (size_t)80), name.data);
    }
    for (int i = 0; i < CFG_ID_MAX; i++)
        if (cfg__rows[i].type == CFG__KVLIST && cfg->priv->sources[i] != CFG_DEFAULT)
            read_kvlist(cfg, (enum cfg_id)i, cfg->priv->env[i][rank[i] == SIZE_MAX ? 0 : rank[i]]);
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------ command line */

enum { OPT_HELP = 1000, OPT_VERSION, OPT_PRINT, OPT_CHECK, OPT_CONFIG, OPT_ROW = 2000, OPT_NO_ROW = 3000, OPT_EXTRA = 4000 };

static bool is_flag(enum cfg__type type) { return type == CFG__BOOL01 || type == CFG__STRICT01; }

static bool is_flag_word(const char *s)
{
    static const char *const words[] = {"0", "1", "true", "false", "yes", "no", "on", "off"};
    for (size_t i = 0; s && i < NF_ARRAY_LEN(words); i++)
        if (strcmp(s, words[i]) == 0)
            return true;
    return false;
}

struct line {
    struct option *options; /* for getopt_long */
    char **argv;            /* a copy that getopt may reorder */
    const char *config;     /* --config */
};

static void line_done(struct line *l)
{
    free(l->options);
    free(l->argv);
}

static void build_options(struct line *l, const struct cfg_extra *extra, struct nf_arena *arena)
{
    size_t extras = 0, n = 0;
    while (extra && extra[extras].name)
        extras++;
    l->options = nf_alloc_array(2 * (size_t)CFG_ID_MAX + extras + 8, sizeof(*l->options));
    for (size_t i = 0; i < extras; i++)
        l->options[n++] = (struct option){extra[i].name, extra[i].ret_value ? required_argument : no_argument, NULL, OPT_EXTRA + (int)i};
    for (int i = 0; i < CFG_ID_MAX; i++) {
        char *dashed = nf_arena_strn(arena, cfg__rows[i].name, strlen(cfg__rows[i].name));
        for (char *c = dashed; *c; c++)
            *c = *c == '_' ? '-' : *c;
        bool flag = is_flag(cfg__rows[i].type);
        l->options[n++] = (struct option){dashed, flag ? optional_argument : required_argument, NULL, OPT_ROW + i};
        if (flag)
            l->options[n++] = (struct option){nf_arena_printf(arena, "no-%s", dashed), no_argument, NULL, OPT_NO_ROW + i};
    }
    static const struct option own[] = {{"help", no_argument, NULL, OPT_HELP},
                                        {"version", no_argument, NULL, OPT_VERSION},
                                        {"print-config", no_argument, NULL, OPT_PRINT},
                                        {"check-config", no_argument, NULL, OPT_CHECK},
                                        {"config", required_argument, NULL, OPT_CONFIG}};
    memcpy(l->options + n, own, sizeof(own));
}

static int unknown_option(const char *arg, const struct cfg_extra *extra, struct nf_error *err)
{
    struct nf_str name = nf_str_c(arg);
    while (name.len && name.data[0] == '-')
        name.data++, name.len--;
    struct nf_str rest = name;
    name = nf_str_cut(&rest, '=');
    const char *near = nearest(name, extra);
    nf_fail(err, NF_EUSAGE, "unknown option %s", arg);
    if (near) {
        char dashed[80] = "";
        for (size_t i = 0; near[i] && i < sizeof(dashed) - 1; i++)
            dashed[i] = near[i] == '_' ? '-' : near[i];
        nf_error_hint(err, "did you mean --%s?", dashed);
    } else {
        nf_error_hint(err, "--help lists the options");
    }
    return NF_EUSAGE;
}

/* Two passes over argv: `apply` false finds --config and what is wrong, true records values over the environment's. */
static int read_command_line(struct cfg *cfg, const struct cfg_sources *s, struct line *l, bool apply, struct nf_error *err)
{
    free(l->argv);
    l->argv = nf_alloc_array((size_t)s->argc + 1, sizeof(*l->argv));
    memcpy(l->argv, s->argv, (size_t)s->argc * sizeof(*l->argv));
    free(cfg->priv->positionals);
    cfg->priv->positionals = nf_alloc_array((size_t)s->argc + 1, sizeof(char *));
    cfg->priv->positional_count = 0;

    opterr = 0;
    optind = 0; /* glibc: start afresh */
    for (int c; (c = getopt_long(s->argc, l->argv, ":hV", l->options, NULL)) != -1;) {
        char where[100];
        int rc = NF_OK;
        if (c == '?')
            return unknown_option(l->argv[optind - 1], s->extra, err);
        if (c == ':')
            return nf_fail(err, NF_EUSAGE, "%s needs a value", l->argv[optind - 1]);
        if (c == OPT_HELP || c == 'h')
            cfg->priv->action = CFG_HELP;
        else if (c == OPT_VERSION || c == 'V')
            cfg->priv->action = CFG_VERSION;
        else if (c == OPT_PRINT)
            cfg->priv->action = CFG_PRINT;
        else if (c == OPT_CHECK)
            cfg->priv->action = CFG_CHECK;
        else if (c == OPT_CONFIG)
            l->config = optarg;
        else if (c >= OPT_EXTRA) {
            const struct cfg_extra *x = &s->extra[c - OPT_EXTRA];
            if (x->ret_value)
                *x->ret_value = optarg;
            else
                *x->ret_flag = true;
        } else {
            const char *value = optarg;
            int id = c >= OPT_NO_ROW ? c - OPT_NO_ROW : c - OPT_ROW;
            if (c >= OPT_NO_ROW)
                value = "0";
            else if (!value && optind < s->argc && is_flag_word(l->argv[optind]))
                value = l->argv[optind++];
            nf_format(where, sizeof(where), "--%s", cfg__rows[id].name);
            for (char *d = where; *d; d++)
                *d = *d == '_' ? '-' : *d;
            if (apply)
                rc = set(cfg, (enum cfg_id)id, value ? value : "1", CFG_COMMAND_LINE, NF_EUSAGE, where, err);
        }
        if (rc)
            return rc;
    }
    for (int i = optind; i < s->argc; i++)
        cfg->priv->positionals[cfg->priv->positional_count++] = l->argv[i];
    if (s->positionals_max >= 0 && cfg->priv->positional_count > (size_t)s->positionals_max)
        return nf_fail(err, NF_EUSAGE, "unexpected argument %s", cfg->priv->positionals[s->positionals_max]);
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------ defaults */

/* "2.13.1" >= "2.13" by major and minor. */
static bool torch_at_least(const char *have, const char *want)
{
    int hm = 0, hn = 0, wm = 0, wn = 0;
    return have && sscanf(have, "%d.%d", &hm, &hn) == 2 && sscanf(want, "%d.%d", &wm, &wn) == 2 && (hm > wm || (hm == wm && hn >= wn));
}

/* This user's name from /etc/passwd. Not getpwuid: it loads libraries, and a program without any (neffcc) must not. */
static const char *user_name(char *room, size_t room_bytes)
{
    struct passwd pw, *found = NULL;
    FILE *f = fopen("/etc/passwd", "re");
    while (f && fgetpwent_r(f, &pw, room, room_bytes, &found) == 0 && pw.pw_uid != geteuid())
        found = NULL;
    if (f)
        fclose(f);
    return found ? found->pw_name : "unknown";
}

static const char *expand(struct cfg *cfg, const char *def, const struct cfg_sources *s, const char *const *env)
{
    struct nf_buf out = NF_BUF_INIT;
    char room[4096];
    for (const char *at = def; *at;) {
        if (strncmp(at, "<uid>", 5) == 0) {
            nf_buf_addf(&out, "%u", (unsigned)geteuid());
            at += 5;
        } else if (strncmp(at, "<user>", 6) == 0) {
            const char *user = env_get(env, "USER");
            nf_buf_add_c(&out, user && *user ? user : user_name(room, sizeof(room)));
            at += 6;
        } else if (strncmp(at, "<runtime>", 9) == 0) {
            const char *dir = env_get(env, "XDG_RUNTIME_DIR");
            if (dir && *dir)
                nf_buf_addf(&out, "%s/neffd", dir);
            else
                nf_buf_add_c(&out, "/run/neffd");
            at += 9;
        } else {
            nf_buf_add_char(&out, *at++);
        }
    }
    (void)s;
    const char *text = nf_arena_strn(cfg->priv->arena, out.len ? out.data : "", out.len);
    nf_buf_done(&out);
    return text;
}

static int fill_defaults(struct cfg *cfg, const struct cfg_sources *s, const char *const *env, struct nf_error *err)
{
    for (int pass = 0; pass < 2; pass++) { /* values of other settings need those first */
        for (int i = 0; i < CFG_ID_MAX; i++) {
            const char *def = cfg__rows[i].def;
            if (cfg->priv->sources[i] != CFG_DEFAULT || (*def == '=') != (pass == 1))
                continue;
            if (*def == '?') {
                cfg->priv->texts[i] = "";
                if (cfg__rows[i].type == CFG__STR || cfg__rows[i].type == CFG__PATH)
                    *(const char **)field_of(cfg, (enum cfg_id)i) = "";
                continue;
            }
            if (*def == '=') {
                def = cfg->priv->texts[cfg_find(nf_str_c(def + 1))];
            } else if (strncmp(def, "torch>=", 7) == 0) {
                struct nf_str rest = nf_str_c(def + 7);
                struct nf_str version = nf_str_cut(&rest, ':'), then = nf_str_cut(&rest, ':');
                char *want = nf_strndup(version.data, version.len);
                struct nf_str use = torch_at_least(s->torch_version, want) ? then : rest;
                free(want);
                def = nf_arena_strn(cfg->priv->arena, use.data, use.len);
            } else if (strchr(def, '<')) {
                def = expand(cfg, def, s, env);
            }
            int rc = set(cfg, (enum cfg_id)i, def, CFG_DEFAULT, NF_EINTERNAL, "default", err);
            if (rc)
                return rc;
        }
    }
    return NF_OK;
}

/* The daemon changes its directory, and clients compare names with it: what is ours is absolute. */
static void make_absolute(struct cfg *cfg)
{
    char *cwd = NULL;
    for (int i = 0; i < CFG_ID_MAX; i++) {
        const struct cfg__row *row = &cfg__rows[i];
        const char *text = cfg->priv->texts[i];
        bool directory = strcmp(row->unit, "directory") == 0;
        if (row->type != CFG__PATH || strcmp(row->area, "service") != 0 || !*text || *text == '/' || (!directory && !strchr(text, '/')))
            continue;
        if (!cwd && !(cwd = getcwd(NULL, 0)))
            return;
        text = nf_arena_printf(cfg->priv->arena, "%s/%s", cwd, text);
        cfg->priv->texts[i] = text;
        *(const char **)field_of(cfg, (enum cfg_id)i) = text;
    }
    free(cwd);
}

static int check_pair(uint64_t soft, uint64_t hard, const char *name, struct nf_error *err)
{
    if (soft && hard && soft > hard)
        return nf_fail(err, NF_ECONFIG, "%s_soft_limit is above %s_hard_limit", name, name);
    return NF_OK;
}

static int check_together(struct cfg *cfg, struct nf_error *err)
{
    int rc;
    if ((rc = check_pair(cfg->cache_soft_limit, cfg->cache_hard_limit, "cache", err)) != NF_OK)
        return rc;
    if (cfg->priv->sources[CFG_ID_local_hard_limit] != CFG_DEFAULT && cfg->priv->sources[CFG_ID_local_soft_limit] == CFG_DEFAULT &&
        cfg->local_hard_limit && cfg->local_soft_limit > cfg->local_hard_limit) { /* one was set: the other follows */
        cfg->local_soft_limit = cfg->local_hard_limit / 10 * 8;
        cfg->priv->texts[CFG_ID_local_soft_limit] = nf_arena_printf(cfg->priv->arena, "%zu", (size_t)cfg->local_soft_limit);
    } else if (cfg->priv->sources[CFG_ID_local_soft_limit] != CFG_DEFAULT && cfg->priv->sources[CFG_ID_local_hard_limit] == CFG_DEFAULT &&
               cfg->local_soft_limit > cfg->local_hard_limit) {
        cfg->local_hard_limit = cfg->local_soft_limit + cfg->local_soft_limit / 4;
        cfg->priv->texts[CFG_ID_local_hard_limit] = nf_arena_printf(cfg->priv->arena, "%zu", (size_t)cfg->local_hard_limit);
    }
    if ((rc = check_pair(cfg->local_soft_limit, cfg->local_hard_limit, "local", err)) != NF_OK)
        return rc;
    if (cfg->host_cc && !cfg->enable_streams) {
        nf_fail(err, NF_ECONFIG, "host_cc needs enable_streams, which is off");
        nf_error_hint(err, "set TORCH_NEURONX_ENABLE_STREAMS=1 or TORCH_NEURONX_ENABLE_HOST_CC=0");
        return NF_ECONFIG;
    }
    if (cfg->segment_alignment & (cfg->segment_alignment - 1))
        return nf_fail(err, NF_ECONFIG, "segment_alignment must be a power of two");
    const char *path = cfg_socket_path(cfg->socket);
    struct nf_str host;
    uint16_t port;
    if (path ? *path != '/' : !nf_host_port(cfg->socket, &host, &port)) {
        nf_fail(err, NF_ECONFIG, "socket: \"%s\" is no address", cfg->socket);
        nf_error_hint(err, "unix:/absolute/path or HOST:PORT");
        return NF_ECONFIG;
    }
    return NF_OK;
}

static void warn_without_effect(struct cfg *cfg)
{
    for (int i = 0; i < CFG_ID_MAX; i++) {
        const struct cfg__row *row = &cfg__rows[i];
        if (row->effect || cfg->priv->sources[i] == CFG_DEFAULT || strchr(row->env, '.'))
            continue;
        const char *name = cfg->priv->sources[i] == CFG_ENV && cfg->priv->from_env[i] ? cfg->priv->from_env[i] : row->name;
        cfg__warn(cfg, "%s is set but has no effect in this version", name);
    }
}

/* ------------------------------------------------------------------------------------------------ whole */

static struct cfg *cfg_new(void)
{
    struct cfg *cfg = nf_alloc(sizeof(*cfg));
    cfg->priv = nf_alloc(sizeof(*cfg->priv));
    cfg->priv->arena = nf_arena_new(0);
    cfg->priv->file = "";
    for (int i = 0; i < CFG_ID_MAX; i++) {
        cfg->priv->texts[i] = "";
        cfg->priv->env[i] = cfg__env_names(&cfg__rows[i], cfg->priv->arena);
        cfg->priv->default_words[i] = cfg__default_words(&cfg__rows[i], cfg->priv->arena);
    }
    return cfg;
}

void cfg_free(struct cfg *cfg)
{
    if (!cfg)
        return;
    nf_arena_free(cfg->priv->arena);
    free(cfg->priv->warnings);
    free(cfg->priv->positionals);
    free(cfg->priv);
    free(cfg);
}

int cfg_load(const struct cfg_sources *s, struct cfg **ret_cfg, struct nf_error *err)
{
    struct cfg *cfg = cfg_new();
    struct line line = {0};
    const char *const *env = s->env ? s->env : (const char *const *)environ;
    int rc = NF_OK;

    if (s->argc) {
        build_options(&line, s->extra, cfg->priv->arena);
        if ((rc = read_command_line(cfg, s, &line, false, err)) != NF_OK)
            goto out;
    }
    if (cfg->priv->action != CFG_HELP && cfg->priv->action != CFG_VERSION) { /* help must come whatever the files hold */
        const char *file = s->file ? s->file : line.config ? line.config : env_get(env, "NEFFD_CONFIG");
        if (!file || (!*file && !s->file))
            rc = read_file(cfg, CONFIG_FILE, false, err);
        else if (*file)
            rc = read_file(cfg, file, true, err);
        if (rc || (rc = read_env(cfg, env, err)) != NF_OK)
            goto out;
        if (s->argc && (rc = read_command_line(cfg, s, &line, true, err)) != NF_OK)
            goto out;
        for (const struct cfg_override *o = s->overrides; o && o->name; o++) {
            enum cfg_id id = cfg_find(nf_str_c(o->name));
            if (id == CFG_ID_MAX)
                rc = nf_fail(err, NF_EUSAGE, "unknown setting %s", o->name);
            else
                rc = set(cfg, id, o->value, CFG_COMMAND_LINE, NF_EUSAGE, o->name, err);
            if (rc)
                goto out;
        }
    }
    if ((rc = fill_defaults(cfg, s, env, err)) != NF_OK)
        goto out;
    make_absolute(cfg);
    if ((rc = check_together(cfg, err)) != NF_OK)
        goto out;
    warn_without_effect(cfg);
    *ret_cfg = cfg;
    cfg = NULL;
out:
    line_done(&line);
    cfg_free(cfg);
    return rc;
}

struct cfg *cfg_reread(const struct cfg *now, const struct cfg *next)
{
    struct cfg *cfg = cfg_new();
    struct cfg__private *p = cfg->priv;
    p->action = now->priv->action;
    p->file = nf_arena_strn(p->arena, next->priv->file, strlen(next->priv->file));
    p->positionals = nf_alloc_array(now->priv->positional_count + 1, sizeof(char *));
    p->positional_count = now->priv->positional_count;
    memcpy(p->positionals, now->priv->positionals ? now->priv->positionals : p->positionals, p->positional_count * sizeof(char *));
    for (int i = 0; i < CFG_ID_MAX; i++) {
        const struct cfg__row *row = &cfg__rows[i];
        const struct cfg *from = row->live ? next : now;
        if (!row->live && strcmp(now->priv->texts[i], next->priv->texts[i]) != 0)
            cfg__warn(cfg, "%s changes only with a restart; it stays \"%s\"", row->name, now->priv->texts[i]);
        if (*row->def == '?' && from->priv->sources[i] == CFG_DEFAULT) {
            if (row->type == CFG__STR || row->type == CFG__PATH)
                *(const char **)field_of(cfg, (enum cfg_id)i) = "";
            continue;
        }
        char why[160];
        cfg__value_read(row, from->priv->texts[i], p->arena, field_of(cfg, (enum cfg_id)i), &p->texts[i], why);
        p->sources[i] = from->priv->sources[i];
    }
    return cfg;
}

enum cfg_action cfg_action(const struct cfg *cfg) { return cfg->priv->action; }
const char *cfg_file(const struct cfg *cfg) { return cfg->priv->file; }

char *const *cfg_positionals(const struct cfg *cfg, size_t *ret_count)
{
    *ret_count = cfg->priv->positional_count;
    return cfg->priv->positionals;
}

const char *cfg_warning(const struct cfg *cfg, size_t i) { return i < cfg->priv->warning_count ? cfg->priv->warnings[i] : NULL; }

struct cfg_setting cfg_setting(const struct cfg *cfg, enum cfg_id id)
{
    const struct cfg__row *row = &cfg__rows[id];
    return (struct cfg_setting){
        .name = row->name,
        .help = row->help,
        .area = row->area,
        .unit = row->unit,
        .type = cfg__type_names[row->type],
        .scope = cfg__scope_names[row->scope],
        .source = cfg__source_names[cfg->priv->sources[id]],
        .default_value = cfg->priv->default_words[id],
        .value = cfg->priv->texts[id],
        .in_effect = row->effect,
        .live = row->live,
        .set = cfg->priv->sources[id] != CFG_DEFAULT,
        .env = cfg->priv->env[id],
    };
}

const char *cfg_socket_path(const char *socket)
{
    if (strncmp(socket, "unix:", 5) == 0)
        return socket + 5;
    return *socket == '/' ? socket : NULL;
}
