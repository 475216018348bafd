/* completion.c: completion scripts, from the tables of commands and options. */
#include "client/ctl/ctl.h"

const struct ctl_option ctl_options_completion[] = {{0}};

/* The command's options and the common ones. */
static void add_options(struct nf_buf *out, const struct ctl_command *cmd)
{
    const struct ctl_option *tables[] = {cmd->options, ctl_common_options};
    for (size_t t = 0; t < 2; t++)
        for (const struct ctl_option *o = tables[t]; o->name; o++)
            nf_buf_addf(out, "%s--%s", out->len && out->data[out->len - 1] != '"' ? " " : "", o->name);
}

static bool is_group(size_t i) { return strchr(ctl_commands[i].words, ' ') != NULL; }

/* First words, each once. */
static void add_first_words(struct nf_buf *out, const char *separator)
{
    const char *last = "";
    size_t last_len = 0, n = 0;
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *w = ctl_commands[i].words;
        size_t len = strcspn(w, " ");
        if (len == last_len && memcmp(w, last, len) == 0)
            continue;
        nf_buf_addf(out, "%s%.*s", n++ ? separator : "", (int)len, w);
        last = w;
        last_len = len;
    }
}

static void add_second_words(struct nf_buf *out, const char *first, size_t first_len)
{
    size_t n = 0;
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *w = ctl_commands[i].words;
        if (strncmp(w, first, first_len) == 0 && w[first_len] == ' ')
            nf_buf_addf(out, "%s%s", n++ ? " " : "", w + first_len + 1);
    }
}

static void values_case(struct nf_buf *out, const struct ctl_option *o, const char *indent)
{
    for (; o->name; o++) {
        if (!o->arg)
            continue;
        nf_buf_addf(out, "%s--%s%s%c) ", indent, o->name, o->letter ? "|-" : "", o->letter ? o->letter : ' ');
        if (out->data[out->len - 3] == ' ') { /* without a letter: "--name ) " */
            out->len -= 3;
            nf_buf_add_c(out, ") ");
        }
        if (!o->words)
            nf_buf_add_c(out, "return ;;\n");
        else if (strcmp(o->words, "file") == 0)
            nf_buf_add_c(out, "COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
        else if (strcmp(o->words, "dir") == 0)
            nf_buf_add_c(out, "COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n");
        else
            nf_buf_addf(out, "COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return ;;\n", o->words);
    }
}

static void bash_script(struct nf_buf *out)
{
    nf_buf_add_c(out, "# bash completion of neffctl: source it, or put it into /usr/share/bash-completion/completions/neffctl\n"
                      "_neffctl() {\n"
                      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= i\n"
                      "    COMPREPLY=()\n"
                      "    [ \"$cur\" = \"=\" ] && cur=\n"
                      "    [ \"$prev\" = \"=\" ] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                      "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                      "        case ${COMP_WORDS[i]} in -*) ;; *) cmd=${cmd:+$cmd }${COMP_WORDS[i]} ;; esac\n"
                      "    done\n"
                      "    case $prev in\n");
    values_case(out, ctl_common_options, "    ");
    nf_buf_add_c(out, "    esac\n    case $cmd in\n    \"\") COMPREPLY=($(compgen -W \"");
    add_first_words(out, " ");
    nf_buf_add_c(out, " --help --version\" -- \"$cur\")); return ;;\n");
    const char *done = "";
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *w = ctl_commands[i].words;
        size_t len = strcspn(w, " ");
        if (!is_group(i) || strncmp(done, w, len) == 0)
            continue;
        done = w;
        nf_buf_addf(out, "    %.*s) COMPREPLY=($(compgen -W \"", (int)len, w);
        add_second_words(out, w, len);
        nf_buf_add_c(out, "\" -- \"$cur\")); return ;;\n");
    }
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *cmd = &ctl_commands[i];
        nf_buf_addf(out, "    \"%s\"|\"%s \"*)\n        case $prev in\n", cmd->words, cmd->words);
        values_case(out, cmd->options, "        ");
        nf_buf_add_c(out, "        esac\n        case $cur in -*) COMPREPLY=($(compgen -W \"");
        add_options(out, cmd);
        nf_buf_add_c(out, "\" -- \"$cur\")); return ;; esac\n");
        const char *aw = cmd->arg_words;
        if (aw && strcmp(aw, "file") == 0)
            nf_buf_add_c(out, "        COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n");
        else if (aw && strcmp(aw, "dir") == 0)
            nf_buf_add_c(out, "        COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n");
        else if (aw && strcmp(aw, "key") == 0)
            nf_buf_add_c(out, "        COMPREPLY=($(compgen -W \"$(neffctl cache ls 2>/dev/null | awk 'NR>1 && length($1)==64 {print $1}')\" -- \"$cur\")) ;;\n");
        else if (aw && strcmp(aw, "job") == 0)
            nf_buf_add_c(out, "        COMPREPLY=($(compgen -W \"$(neffctl jobs 2>/dev/null | awk '$1 ~ /^[0-9]+$/ {print $1}')\" -- \"$cur\")) ;;\n");
        else if (aw)
            nf_buf_addf(out, "        COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")) ;;\n", aw);
        else
            nf_buf_add_c(out, "        ;;\n");
    }
    nf_buf_add_c(out, "    esac\n}\ncomplete -o filenames -F _neffctl neffctl\n");
}

/* ' in single quotes of a shell: '\'' ; of fish: \' */
static void add_quoted(struct nf_buf *out, const char *text, const char *quote)
{
    nf_buf_add_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            nf_buf_add_c(out, quote);
        else
            nf_buf_add_char(out, *text);
    }
    nf_buf_add_char(out, '\'');
}

/* _arguments has its own syntax in brackets and colons. */
static void add_zsh_text(struct nf_buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            nf_buf_add_char(out, '\\');
        if (*text == '\'')
            nf_buf_add_c(out, "'\\''");
        else
            nf_buf_add_char(out, *text);
    }
}

static void zsh_values(struct nf_buf *out, const char *words)
{
    if (!words)
        nf_buf_add_c(out, " ");
    else if (strcmp(words, "file") == 0)
        nf_buf_add_c(out, "_files");
    else if (strcmp(words, "dir") == 0)
        nf_buf_add_c(out, "_files -/");
    else if (strcmp(words, "key") == 0 || strcmp(words, "job") == 0)
        nf_buf_add_c(out, " ");
    else
        nf_buf_addf(out, "(%s)", words);
}

static void zsh_script(struct nf_buf *out)
{
    nf_buf_add_c(out, "#compdef neffctl\n# zsh completion of neffctl: as _neffctl in a directory of $fpath\n_neffctl() {\n"
                      "    local -a cmds\n    local cmd=\n    local -i i shift_by=0\n"
                      "    for ((i = 2; i < CURRENT; i++)); do\n"
                      "        case ${words[i]} in\n        -*) ;;\n        *) cmd=${cmd:+$cmd }${words[i]}; shift_by=i-1\n"
                      "            case $cmd in");
    nf_buf_add_c(out, "\n");
    for (size_t i = 0; i < ctl_command_count; i++)
        nf_buf_addf(out, "            \"%s\") break ;;\n", ctl_commands[i].words);
    nf_buf_add_c(out, "            esac ;;\n        esac\n    done\n    case $cmd in\n");
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *cmd = &ctl_commands[i];
        nf_buf_addf(out, "    \"%s\")\n        words=(\"${words[@]:$shift_by}\"); ((CURRENT -= shift_by))\n        _arguments", cmd->words);
        const struct ctl_option *tables[] = {cmd->options, ctl_common_options};
        for (size_t t = 0; t < 2; t++) {
            for (const struct ctl_option *o = tables[t]; o->name; o++) {
                nf_buf_addf(out, " \\\n            '*--%s%s[", o->name, o->arg ? "=" : "");
                add_zsh_text(out, o->help);
                nf_buf_add_c(out, "]");
                if (o->arg) {
                    nf_buf_addf(out, "%s:%s:", o->arg[0] == '[' ? ":" : "", o->arg);
                    zsh_values(out, o->words);
                }
                nf_buf_add_c(out, "'");
            }
        }
        if (cmd->max_args != 0) {
            nf_buf_add_c(out, " \\\n            '*:argument:");
            zsh_values(out, cmd->arg_words);
            nf_buf_add_c(out, "'");
        }
        nf_buf_add_c(out, " ;;\n");
    }
    const char *done = "";
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *w = ctl_commands[i].words;
        size_t len = strcspn(w, " ");
        if (!is_group(i) || strncmp(done, w, len) == 0)
            continue;
        done = w;
        nf_buf_addf(out, "    %.*s) compadd -- ", (int)len, w);
        add_second_words(out, w, len);
        nf_buf_add_c(out, " ;;\n");
    }
    nf_buf_add_c(out, "    *) compadd -- ");
    add_first_words(out, " ");
    nf_buf_add_c(out, " --help --version ;;\n    esac\n}\n"
                      "if [ \"$funcstack[1]\" = _neffctl ]; then _neffctl \"$@\"; else compdef _neffctl neffctl; fi\n");
}

static void fish_condition(struct nf_buf *out, const char *words)
{
    const char *space = strchr(words, ' ');
    if (space)
        nf_buf_addf(out, "-n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s'", (int)(space - words), words, space + 1);
    else
        nf_buf_addf(out, "-n '__fish_seen_subcommand_from %s'", words);
}

static void fish_values(struct nf_buf *out, const char *words)
{
    if (words && (strcmp(words, "file") == 0))
        nf_buf_add_c(out, " -F");
    else if (words && strcmp(words, "dir") == 0)
        nf_buf_add_c(out, " -xa '(__fish_complete_directories)'");
    else if (words && strcmp(words, "key") != 0 && strcmp(words, "job") != 0)
        nf_buf_addf(out, " -xa '%s'", words);
}

static void fish_script(struct nf_buf *out)
{
    nf_buf_add_c(out, "# fish completion of neffctl: as neffctl.fish in ~/.config/fish/completions\ncomplete -c neffctl -f\n");
    for (size_t i = 0; i < ctl_command_count; i++) {
        const struct ctl_command *cmd = &ctl_commands[i];
        const char *space = strchr(cmd->words, ' ');
        nf_buf_add_c(out, "complete -c neffctl ");
        if (space) {
            int len = (int)(space - cmd->words);
            nf_buf_addf(out, "-n '__fish_use_subcommand' -a '%.*s'\ncomplete -c neffctl -n '__fish_seen_subcommand_from %.*s' -a '%s' -d ", len, cmd->words, len,
                cmd->words, space + 1);
        } else {
            nf_buf_addf(out, "-n '__fish_use_subcommand' -a '%s' -d ", cmd->words);
        }
        add_quoted(out, cmd->summary, "\\'");
        nf_buf_add_c(out, "\n");
        for (const struct ctl_option *o = cmd->options; o->name; o++) {
            nf_buf_add_c(out, "complete -c neffctl ");
            fish_condition(out, cmd->words);
            nf_buf_addf(out, " -l %s", o->name);
            if (o->letter)
                nf_buf_addf(out, " -s %c", o->letter);
            if (o->arg && o->arg[0] != '[')
                nf_buf_add_c(out, " -r");
            fish_values(out, o->words);
            nf_buf_add_c(out, " -d ");
            add_quoted(out, o->help, "\\'");
            nf_buf_add_c(out, "\n");
        }
        if (cmd->arg_words) {
            nf_buf_add_c(out, "complete -c neffctl ");
            fish_condition(out, cmd->words);
            fish_values(out, cmd->arg_words);
            nf_buf_add_c(out, "\n");
        }
    }
    for (const struct ctl_option *o = ctl_common_options; o->name; o++) {
        nf_buf_addf(out, "complete -c neffctl -l %s", o->name);
        if (o->letter)
            nf_buf_addf(out, " -s %c", o->letter);
        if (o->arg)
            nf_buf_add_c(out, " -r");
        fish_values(out, o->words);
        nf_buf_add_c(out, " -d ");
        add_quoted(out, o->help, "\\'");
        nf_buf_add_c(out, "\n");
    }
}

int ctl_cmd_completion(struct ctl *c)
{
    struct nf_buf out = NF_BUF_INIT;
    if (strcmp(c->args[0], "bash") == 0)
        bash_script(&out);
    else if (strcmp(c->args[0], "zsh") == 0)
        zsh_script(&out);
    else if (strcmp(c->args[0], "fish") == 0)
        fish_script(&out);
    else
        return ctl_usage(c, "'%s' is no shell that is known here: bash, zsh or fish", c->args[0]);
    fwrite(out.data, 1, out.len, stdout);
    nf_buf_done(&out);
    return CTL_OK;
}
