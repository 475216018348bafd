/* print.c: the table as text for people: --help, the sample file, OPTIONS.md. */
#include "config/config_internal.h"

static const struct {
    const char *area, *title;
} areas[] = {
    {"service", "The service"},
    {"pytorch", "PyTorch"},
    {"runtime", "Execution on devices"},
    {"neuron", "Neuron compiler and collectives"},
};

const char *cfg__default_words(const struct cfg__row *row, struct nf_arena *arena)
{
    if (*row->def == '?')
        return row->def + 1;
    if (*row->def == '=')
        return nf_arena_printf(arena, "value of %s", row->def + 1);
    if (strncmp(row->def, "torch>=", 7) == 0) {
        struct nf_str rest = nf_str_c(row->def + 7);
        struct nf_str version = nf_str_cut(&rest, ':'), then = nf_str_cut(&rest, ':');
        return nf_arena_printf(arena, "%.*s with PyTorch >= %.*s, else %.*s", NF_STR_ARG(then), NF_STR_ARG(version), NF_STR_ARG(rest));
    }
    if (strcmp(row->def, "unix:<runtime>/neffd.sock") == 0)
        return "unix:$XDG_RUNTIME_DIR/neffd/neffd.sock, else unix:/run/neffd/neffd.sock";
    return row->def;
}

static void add_wrapped(struct nf_buf *out, const char *indent, const char *text)
{
    size_t column = 0, width = 96 - strlen(indent);
    for (const char *word = text; *word;) {
        size_t len = strcspn(word, " ");
        if (column && column + 1 + len > width) {
            nf_buf_add_char(out, '\n');
            column = 0;
        }
        if (column) {
            nf_buf_add_char(out, ' ');
            column++;
        } else {
            nf_buf_add_c(out, indent);
        }
        nf_buf_add(out, word, len);
        column += len;
        word += len;
        while (*word == ' ')
            word++;
    }
    nf_buf_add_char(out, '\n');
}

static void add_dashed(struct nf_buf *out, const char *name)
{
    for (; *name; name++)
        nf_buf_add_char(out, *name == '_' ? '-' : *name);
}

static void add_env(struct nf_buf *out, const struct cfg__row *row, struct nf_arena *arena, const char *before, const char *after)
{
    const char *const *names = cfg__env_names(row, arena);
    for (size_t i = 0; names[i]; i++)
        nf_buf_addf(out, "%s%s%s%s", i ? ", " : "", before, names[i], after);
}

void cfg_print_help(const struct cfg *cfg, const char *usage, const struct cfg_extra *extra, struct nf_buf *out)
{
    (void)cfg;
    struct nf_arena *arena = nf_arena_new(0);
    nf_buf_addf(out, "%s\n", usage);
    for (; extra && extra->name; extra++) {
        nf_buf_addf(out, "  --%s%s%s\n", extra->name, extra->metavar ? "=" : "", extra->metavar ? extra->metavar : "");
        add_wrapped(out, "        ", extra->help);
    }
    nf_buf_add_c(out, "  --config=FILE\n        read settings from FILE instead of /etc/neffd/neffd.conf (NEFFD_CONFIG)\n"
                      "  --print-config\n        print the settings as a configuration file, and end\n"
                      "  --check-config\n        check the settings, and end\n"
                      "  --help, --version\n");
    for (size_t a = 0; a < NF_ARRAY_LEN(areas); a++) {
        nf_buf_addf(out, "\n%s:\n", areas[a].title);
        for (int i = 0; i < CFG_ID_MAX; i++) {
            const struct cfg__row *row = &cfg__rows[i];
            if (strcmp(row->area, areas[a].area) != 0)
                continue;
            nf_buf_add_c(out, "  --");
            add_dashed(out, row->name);
            nf_buf_addf(out, "=%s\n", row->unit);
            const char *words = cfg__default_words(row, arena);
            add_wrapped(out, "        ", row->help);
            struct nf_buf tail = NF_BUF_INIT;
            nf_buf_addf(&tail, "[default %s; ", *words ? words : "empty");
            add_env(&tail, row, arena, "", "");
            nf_buf_addf(&tail, "%s]", row->effect ? "" : "; no effect in this version");
            add_wrapped(out, "        ", tail.data);
            nf_buf_done(&tail);
        }
    }
    nf_arena_free(arena);
}

static bool needs_quotes(const char *s) { return strchr(s, '#') || strchr(s, '"') || *s == ';'; }

void cfg_print_file(const struct cfg *cfg, struct nf_buf *out)
{
    nf_buf_add_c(out, "# Settings of neffd. A line that starts with # keeps the default.\n[neffd]\n");
    for (size_t a = 0; a < NF_ARRAY_LEN(areas); a++) {
        nf_buf_addf(out, "\n# ---- %s\n", areas[a].title);
        for (int i = 0; i < CFG_ID_MAX; i++) {
            const struct cfg__row *row = &cfg__rows[i];
            if (strcmp(row->area, areas[a].area) != 0)
                continue;
            const char *text = cfg->priv->texts[i], *quote = needs_quotes(text) ? "\"" : "";
            nf_buf_add_char(out, '\n');
            add_wrapped(out, "# ", row->help);
            struct nf_buf tail = NF_BUF_INIT;
            nf_buf_addf(&tail, "(%s; %s, %s%s)", row->unit, cfg__scope_names[row->scope], row->live ? "reread on SIGHUP" : "needs a restart",
                        row->effect ? "" : "; no effect in this version");
            add_wrapped(out, "# ", tail.data);
            nf_buf_done(&tail);
            bool is_default = cfg->priv->sources[i] == CFG_DEFAULT;
            nf_buf_addf(out, "%s%s = %s%s%s\n", is_default ? "#" : "", row->name, quote, text, quote);
        }
    }
}

static void add_cell(struct nf_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '<')
            nf_buf_add_char(out, '\\');
        nf_buf_add_char(out, *text);
    }
}

void cfg_print_markdown(struct nf_buf *out)
{
    struct nf_arena *arena = nf_arena_new(0);
    nf_buf_add_c(out, "# Settings\n\n"
                      "Generated from `options.def` by `build/config/cfgdoc --markdown`; a test compares the two.\n\n"
                      "Each is `name = value` in the file, `--name-with-dashes` on the command line, and a variable in the environment.\n"
                      "Scope: *client* is read in the caller's process, *request* travels with a request, *daemon* is the daemon's own.\n"
                      "Live: a reread (SIGHUP) changes it.\n");
    for (size_t a = 0; a < NF_ARRAY_LEN(areas); a++) {
        nf_buf_addf(out, "\n## %s\n\n| name | type | default | unit | scope | live | in effect | environment | meaning |\n"
                         "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", areas[a].title);
        for (int i = 0; i < CFG_ID_MAX; i++) {
            const struct cfg__row *row = &cfg__rows[i];
            if (strcmp(row->area, areas[a].area) != 0)
                continue;
            nf_buf_addf(out, "| `%s` | %s | ", row->name, cfg__type_names[row->type]);
            add_cell(out, cfg__default_words(row, arena));
            nf_buf_add_c(out, " | ");
            add_cell(out, row->unit);
            nf_buf_addf(out, " | %s | %s | %s | ", cfg__scope_names[row->scope], row->live ? "yes" : "no", row->effect ? "yes" : "no");
            add_env(out, row, arena, "`", "`");
            nf_buf_add_c(out, " | ");
            add_cell(out, row->help);
            nf_buf_add_c(out, " |\n");
        }
    }
    nf_arena_free(arena);
}

static void add_roff(struct nf_buf *out, const char *text)
{
    for (bool start = true; *text; start = *text == '\n', text++) {
        if (*text == '\\')
            nf_buf_add_c(out, "\\e");
        else if (*text == '-')
            nf_buf_add_c(out, "\\-");
        else if (start && (*text == '.' || *text == '\''))
            nf_buf_addf(out, "\\&%c", *text);
        else
            nf_buf_add_char(out, *text);
    }
}

void cfg_print_man(struct nf_buf *out)
{
    struct nf_arena *arena = nf_arena_new(0);
    nf_buf_add_c(out, ".TH NEFFD 8 \"\" \"neffd " NEFFD_VERSION "\" \"System administration\"\n.SH NAME\nneffd \\- compile daemon for AWS Neuron\n"
                      ".SH SYNOPSIS\n.B neffd\n[\\fB\\-\\-config\\fR=\\fIFILE\\fR] [\\fB\\-\\-\\fINAME\\fR=\\fIVALUE\\fR]...\n.br\n.B neffd\n"
                      "\\fB\\-\\-print\\-config\\fR | \\fB\\-\\-check\\-config\\fR | \\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR\n"
                      ".SH DESCRIPTION\nCompiles each distinct graph once, however many processes ask, and serves the artifacts from a cache. Runs in the\n"
                      "foreground, and is ready when it has written\n.I ready\nto its log. SIGTERM drains and ends with status 0; a second one ends at once. SIGHUP opens the\n"
                      "log file anew and rereads the settings that may change.\n.SH OPTIONS\n"
                      "Each setting is an option, a line \\fIname\\fR = \\fIvalue\\fR of the file, and a variable. The command line wins over the environment, that over the\n"
                      "file, that over the default. An unknown option or line is an error, an unknown NEFFD_ variable a warning.\n");
    for (size_t a = 0; a < NF_ARRAY_LEN(areas); a++) {
        nf_buf_addf(out, ".SS %s\n", areas[a].title);
        for (int i = 0; i < CFG_ID_MAX; i++) {
            const struct cfg__row *row = &cfg__rows[i];
            if (strcmp(row->area, areas[a].area) != 0)
                continue;
            struct nf_buf line = NF_BUF_INIT;
            nf_buf_add_c(&line, "--");
            add_dashed(&line, row->name);
            nf_buf_add_c(out, ".TP\n\\fB");
            add_roff(out, line.data);
            nf_buf_clear(&line);
            nf_buf_addf(&line, "=%s", row->unit);
            nf_buf_add_c(out, "\\fR");
            add_roff(out, line.data);
            nf_buf_add_char(out, '\n');
            nf_buf_clear(&line);
            const char *words = cfg__default_words(row, arena);
            nf_buf_addf(&line, "%s. Default: %s. Variables: ", row->help, *words ? words : "empty");
            add_env(&line, row, arena, "", "");
            nf_buf_addf(&line, ".%s%s\n", row->live ? " Reread on SIGHUP." : "", row->effect ? "" : " No effect in this version.");
            add_roff(out, line.data);
            nf_buf_done(&line);
        }
    }
    nf_buf_add_c(out, ".SH FILES\n.TP\n.I /etc/neffd/neffd.conf\nsettings, unless \\fB\\-\\-config\\fR or NEFFD_CONFIG names another file\n"
                      ".SH EXIT STATUS\n0 ended as asked, 2 wrong usage or setting, 7 a directory, socket or permission is not as it must be, 8 a defect\n"
                      ".SH SEE ALSO\n.BR neffctl (1)\n");
    nf_arena_free(arena);
}
