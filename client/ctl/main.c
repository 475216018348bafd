/* main.c: neffctl: finds the command, parses its options, runs it. */
#include "client/ctl/ctl.h"

#include "base/file.h"
#include "base/map.h"
#include "client/ctl/devices.h"
#include "pipeline/target.h"

#include <signal.h>
#include <unistd.h>

const struct ctl_command ctl_commands[] = {
#define CTL_COMMAND(words, name, min, max, arguments, arg_words, summary) \
    {words, ctl_cmd_##name, ctl_options_##name, min, max, arguments, arg_words, summary},
#include "client/ctl/commands.def"
#undef CTL_COMMAND
};
const size_t ctl_command_count = NF_ARRAY_LEN(ctl_commands);

const struct ctl_option ctl_common_options[] = {
    {"json", 0, NULL, NULL, "print the result as JSON, one object, or one a line for streams"},
    {"socket", 0, "ADDRESS", "file", "the daemon: unix:PATH or HOST:PORT (else NEFFD_SOCKET, else the default place)"},
    {"cache-dir", 0, "DIR", "dir", "shared tier (else TORCH_NEURONX_NEFF_CACHE_DIR)"},
    {"local-dir", 0, "DIR", "dir", "this host's tier (else TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR)"},
    {"quiet", 'q', NULL, NULL, "no progress, no remarks"},
    {"verbose", 'v', NULL, NULL, "every event as a line on stderr"},
    {"help", 'h', NULL, NULL, "this text"},
    {"version", 0, NULL, NULL, "the version"},
    {0},
};

/* ------------------------------------------------------------------------------------------------------------------ help */

static void print_options(const struct ctl_option *o)
{
    for (; o->name; o++) {
        char left[64];
        if (o->letter && o->arg)
            (void)nf_format(left, sizeof(left), "-%c, --%s %s", o->letter, o->name, o->arg);
        else if (o->letter)
            (void)nf_format(left, sizeof(left), "-%c, --%s", o->letter, o->name);
        else if (o->arg)
            (void)nf_format(left, sizeof(left), "    --%s %s", o->name, o->arg);
        else
            (void)nf_format(left, sizeof(left), "    --%s", o->name);
        printf("  %-26s %s\n", left, o->help);
    }
}

static int help_all(void)
{
    puts("usage: neffctl COMMAND [OPTION]... [ARGUMENT]...\n\nThe people's tool for neffd, a compile daemon for AWS Neuron.\n\ncommands:");
    for (size_t i = 0; i < ctl_command_count; i++) {
        char left[64];
        (void)nf_format(left, sizeof(left), "%s %s", ctl_commands[i].words, ctl_commands[i].arguments);
        printf("  %-28s %s\n", left, ctl_commands[i].summary);
    }
    puts("\noptions of every command:");
    print_options(ctl_common_options);
    puts("\nexit code: 0 done, 1 wrong graph, request or result, 2 usage, 3 not found, 4 no daemon, 5 out of time,\n"
         "6 again may help, 7 environment (disk, permission, missing compiler), 8 internal error\n\n"
         "neffctl COMMAND --help says more about a command.");
    return CTL_OK;
}

static int help_command(const struct ctl_command *command)
{
    printf("usage: neffctl %s%s%s%s\n\n%s\n", command->words, command->arguments[0] ? " " : "", command->arguments,
        command->options[0].name ? " [OPTION]..." : "", command->summary);
    if (command->options[0].name) {
        puts("\noptions:");
        print_options(command->options);
    }
    puts("\noptions of every command:");
    print_options(ctl_common_options);
    return CTL_OK;
}

/* "cache" alone, or "cache --help": the group's commands. */
static bool help_group(const char *word)
{
    size_t len = strlen(word);
    bool any = false;
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *w = ctl_commands[i].words;
        if (strncmp(w, word, len) == 0 && w[len] == ' ') {
            if (!any)
                printf("usage: neffctl %s COMMAND [OPTION]... [ARGUMENT]...\n\ncommands:\n", word);
            any = true;
            char left[64];
            (void)nf_format(left, sizeof(left), "%s %s", w, ctl_commands[i].arguments);
            printf("  %-28s %s\n", left, ctl_commands[i].summary);
        }
    }
    return any;
}

/* --------------------------------------------------------------------------------------------------------------- parsing */

static const struct ctl_option *find_option(const struct ctl_command *command, struct nf_str name, char letter)
{
    const struct ctl_option *tables[] = {command ? command->options : NULL, ctl_common_options};
    for (size_t t = 0; t < 2; t++)
        for (const struct ctl_option *o = tables[t]; o && o->name; o++)
            if (letter ? o->letter == letter : nf_str_eq_c(name, o->name))
                return o;
    return NULL;
}

static const char *nearest_option(const struct ctl_command *command, struct nf_str name)
{
    const struct ctl_option *tables[] = {command ? command->options : NULL, ctl_common_options};
    const char *best = NULL;
    size_t best_d = name.len / 3 + 2;
    for (size_t t = 0; t < 2; t++) {
        for (const struct ctl_option *o = tables[t]; o && o->name; o++) {
            size_t d = nf_edit_distance(name, nf_str_c(o->name));
            if (d < best_d) {
                best_d = d;
                best = o->name;
            }
        }
    }
    return best;
}

static void give(struct ctl *c, const struct ctl_option *o, const char *value, bool took)
{
    c->given[c->given_count++] = (struct ctl_given){o->name, value ? value : "", took};
    if (strcmp(o->name, "json") == 0)
        c->json = true;
    else if (strcmp(o->name, "quiet") == 0)
        c->quiet = true;
    else if (strcmp(o->name, "verbose") == 0)
        c->verbose = true;
}

/* "--profile FILE" with no other argument: the word is the command's, which needs one. */
static void give_back(struct ctl *c)
{
    for (size_t i = c->given_count; i-- > 0 && c->arg_count == 0 && c->command->min_args == 1;) {
        if (c->given[i].took) {
            c->args[c->arg_count++] = c->given[i].value;
            c->given[i].value = "";
        }
    }
}

/* -1: go on, else the exit code. */
static int parse(struct ctl *c, int argc, char **argv)
{
    bool only_args = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (only_args || a[0] != '-' || a[1] == 0) {
            c->args[c->arg_count++] = a;
            only_args = only_args || (c->command && c->command->run == ctl_cmd_warm_record); /* what follows is the command's own */
            continue;
        }
        if (strcmp(a, "--") == 0) {
            only_args = true;
            continue;
        }
        if (a[1] == '-') {
            struct nf_str rest = nf_str_c(a + 2), name = rest;
            const char *eq = strchr(a + 2, '=');
            if (eq)
                name.len = (size_t)(eq - a - 2);
            const struct ctl_option *o = find_option(c->command, name, 0);
            if (!o) {
                const char *near = nearest_option(c->command, name);
                return near ? ctl_usage(c, "unknown option --%.*s; did you mean --%s?", NF_STR_ARG(name), near)
                            : ctl_usage(c, "unknown option --%.*s", NF_STR_ARG(name));
            }
            if (!o->arg && eq)
                return ctl_usage(c, "--%s takes no value", o->name);
            bool free = o->arg && o->arg[0] == '[', next = i + 1 < argc && (!free || argv[i + 1][0] != '-' || !argv[i + 1][1]);
            if (o->arg && !eq && !next && !free)
                return ctl_usage(c, "--%s needs a value (%s)", o->name, o->arg);
            give(c, o, !o->arg ? NULL : eq ? eq + 1 : next ? argv[++i] : NULL, free && !eq && next);
            continue;
        }
        for (const char *p = a + 1; *p; p++) {
            const struct ctl_option *o = find_option(c->command, (struct nf_str){0}, *p);
            if (!o)
                return ctl_usage(c, "unknown option -%c", *p);
            if (!o->arg) {
                give(c, o, NULL, false);
                continue;
            }
            if (!p[1] && i + 1 >= argc)
                return ctl_usage(c, "-%c needs a value (%s)", *p, o->arg);
            give(c, o, p[1] ? p + 1 : argv[++i], false);
            break;
        }
    }
    return -1;
}

/* The longest command whose words stand at the front of argv; their number in *ret_words. */
static const struct ctl_command *find_command(int argc, char **argv, int *ret_words)
{
    for (int n = NF_MIN(argc, 2); n >= 1; n--) {
        char words[64];
        bool fits = n == 1 ? nf_format(words, sizeof(words), "%s", argv[0]) : nf_format(words, sizeof(words), "%s %s", argv[0], argv[1]);
        for (size_t i = 0; fits && i < ctl_command_count; i++) {
            if (strcmp(ctl_commands[i].words, words) == 0) {
                *ret_words = n;
                return &ctl_commands[i];
            }
        }
    }
    return NULL;
}

static const char *nearest_command(int argc, char **argv)
{
    char two[64];
    const char *best = NULL;
    size_t best_d = 3;
    (void)nf_format(two, sizeof(two), "%s %s", argv[0], argc > 1 ? argv[1] : "");
    for (size_t i = 0; i < ctl_command_count; i++) {
        const char *w = ctl_commands[i].words;
        size_t d = nf_edit_distance(nf_str_c(strchr(w, ' ') ? two : argv[0]), nf_str_c(w));
        if (d < best_d) {
            best_d = d;
            best = w;
        }
    }
    return best;
}

static int tool(int argc, char **argv)
{
    struct ctl c = {0};
    int words = 0, rc;
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    bool colors = !(no_color && no_color[0]) && !(term && strcmp(term, "dumb") == 0);

    nf_std_open();
    (void)signal(SIGPIPE, SIG_DFL); /* `neffctl ... | head` ends quietly */
    c.color_out = colors && isatty(1);
    c.terminal = isatty(2);
    c.color_err = colors && c.terminal;
    ctl_devices_register();
    target_register(&target_cpu); /* its rules, for keys without a daemon */

    /* Options may stand before the command: "neffctl --json status". */
    int first = 1;
    while (first < argc && argv[first][0] == '-' && argv[first][1]) {
        const char *a = argv[first];
        struct nf_str name = nf_str_c(a + (a[1] == '-' ? 2 : 1));
        const char *eq = strchr(a, '=');
        if (eq)
            name.len = (size_t)(eq - name.data);
        const struct ctl_option *o = a[1] == '-' ? find_option(NULL, name, 0) : find_option(NULL, name, a[1]);
        if (o && strcmp(o->name, "json") == 0)
            c.json = true;
        if (o && strcmp(o->name, "help") == 0)
            return help_all();
        if (o && strcmp(o->name, "version") == 0) {
            puts("neffctl " NEFFD_VERSION);
            return CTL_OK;
        }
        if (!o)
            return ctl_usage(&c, "unknown option %s", a);
        first += o->arg && !eq && a[1] == '-' ? 2 : 1;
    }
    if (first >= argc)
        return ctl_usage(&c, "no command was given");
    const char *word = argv[first];
    if (strcmp(word, "help") == 0) {
        int n;
        const struct ctl_command *about = first + 1 < argc ? find_command(argc - first - 1, argv + first + 1, &n) : NULL;
        return about ? help_command(about) : first + 1 < argc && help_group(argv[first + 1]) ? CTL_OK : help_all();
    }
    c.command = find_command(argc - first, argv + first, &words);
    if (!c.command) {
        bool alone = first + 1 >= argc || argv[first + 1][0] == '-';
        if (alone && first + 1 < argc && (strcmp(argv[first + 1], "--help") == 0 || strcmp(argv[first + 1], "-h") == 0) && help_group(word))
            return CTL_OK;
        bool group = false;
        for (size_t i = 0; i < ctl_command_count; i++)
            group = group || (strncmp(ctl_commands[i].words, word, strlen(word)) == 0 && ctl_commands[i].words[strlen(word)] == ' ');
        if (group && alone)
            return ctl_usage(&c, "%s needs a command: neffctl %s --help lists them", word, word);
        const char *near = nearest_command(argc - first, argv + first), *second = group ? argv[first + 1] : "";
        return near ? ctl_usage(&c, "unknown command %s%s%s; did you mean %s?", word, second[0] ? " " : "", second, near)
                    : ctl_usage(&c, "unknown command %s%s%s", word, second[0] ? " " : "", second);
    }
    c.args = nf_alloc_array((size_t)argc + 1, sizeof(*c.args));
    size_t letters = 0; /* "-qv" is two */
    for (int i = 1; i < argc; i++)
        letters += NF_MIN(strlen(argv[i]), (size_t)1 << 20);
    c.given = nf_alloc_array(letters + 1, sizeof(*c.given));
    rc = parse(&c, first - 1, argv + 1);
    if (rc < 0) {
        c.arg_count = 0; /* values of options in front are no arguments */
        rc = parse(&c, argc - first - words, argv + first + words);
        give_back(&c);
    }
    c.bar = !c.quiet && !c.json && c.terminal && !(term && strcmp(term, "dumb") == 0);
    if (rc < 0 && ctl_flag(&c, "help"))
        rc = help_command(c.command);
    else if (rc < 0 && ctl_flag(&c, "version"))
        rc = (puts("neffctl " NEFFD_VERSION), CTL_OK);
    else if (rc < 0 && (int)c.arg_count < c.command->min_args)
        rc = ctl_usage(&c, "%s is missing", c.command->arguments);
    else if (rc < 0 && c.command->max_args >= 0 && (int)c.arg_count > c.command->max_args)
        rc = ctl_usage(&c, "too many arguments: %s", c.args[c.command->max_args]);
    if (rc < 0)
        rc = c.command->run(&c);
    ctl_bar_clear(&c);
    neffd_client_close(c.client);
    nf_map_free(c.shown);
    free(c.args);
    free(c.given);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = tool(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("neffctl: cannot write the result to standard output\n", stderr);
        return rc ? rc : nf_status_exit(NF_EIO);
    }
    return rc;
}
