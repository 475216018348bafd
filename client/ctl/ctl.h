/* ctl.h: neffctl's frame: a table of commands, one parser for their options, one way to print results and errors.
 *
 * A command gets its parsed arguments, prints its result on stdout (JSON with --json, else text), errors through ctl_fail, and
 * returns the exit code of the interface page. To add one: a row in commands.def, a function, its options' table. Help,
 * completion and "did you mean" follow from the tables. */
#ifndef NEFFD_CLIENT_CTL_CTL_H
#define NEFFD_CLIENT_CTL_CTL_H

#include "client/client_internal.h"
#include "client/ctl/json.h"

enum { CTL_OK = 0, CTL_WRONG = 1, CTL_USAGE = 2, CTL_NOT_FOUND = 3, CTL_NO_DAEMON = 4, CTL_TIMEOUT = 5, CTL_INTERNAL = 8 };

struct ctl;

struct ctl_option {
    const char *name;   /* "target"; NULL ends a table */
    char letter;        /* 0: none */
    const char *arg;    /* "T"; NULL: a flag; "[T]": may be left out, the value is then "" */
    const char *words;  /* for completion: "a b c", "file", "dir"; NULL: nothing */
    const char *help;
};

struct ctl_command {
    const char *words;  /* "cache ls" */
    int (*run)(struct ctl *);
    const struct ctl_option *options;
    int min_args, max_args;   /* max -1: any number */
    const char *arguments;    /* "FILE" */
    const char *arg_words;    /* for completion, as in ctl_option */
    const char *summary;
};

extern const struct ctl_command ctl_commands[];
extern const size_t ctl_command_count;
extern const struct ctl_option ctl_common_options[];

struct ctl {
    const struct ctl_command *command;
    bool json, quiet, verbose;
    bool color_out, color_err, bar;      /* bar: stderr is a terminal that may be drawn on */
    const char **args;
    size_t arg_count;
    struct ctl_given {
        const char *name, *value;        /* value "" for flags */
        bool took;                       /* the word behind it, which it could do without */
    } *given;
    size_t given_count;
    neffd_client *client;                /* opened by ctl_client */
    size_t bar_width;                    /* of what stands on the line now */
    bool terminal;                       /* stderr is one */
    struct nf_map *shown;                /* lines of a compile's log that stand on it already; NULL: none */
};

/* The right-most value of an option, NULL if it was not given. */
const char *ctl_value(const struct ctl *c, const char *name);
bool ctl_flag(const struct ctl *c, const char *name);
/* Parsers of values: 0 when the option is absent; NF_EUSAGE with a message that names the option. */
int ctl_value_seconds_ms(const struct ctl *c, const char *name, uint64_t *ret_ms, struct nf_error *err);
int ctl_value_u64(const struct ctl *c, const char *name, uint64_t max, uint64_t *ret_value, struct nf_error *err);
int ctl_value_double(const struct ctl *c, const char *name, double *ret_value, struct nf_error *err);
int ctl_value_size(const struct ctl *c, const char *name, uint64_t *ret_bytes, struct nf_error *err);

/* The client, opened at first use with --socket, --cache-dir, --local-dir, --start. */
int ctl_client(struct ctl *c, neffd_client **ret_client, struct nf_error *err);
/* As cl_unary_message on that client, with the hint that belongs to a missing daemon. */
int ctl_call(struct ctl *c, enum rpc_method_id method, const ProtobufCMessage *request, uint64_t timeout_ms, ProtobufCMessage **ret_reply,
    struct nf_error *err);
/* A server stream: `each` for every message (0: go on). */
typedef int ctl_each_fn(struct ctl *c, const ProtobufCMessage *message, void *user, struct nf_error *err);
int ctl_stream(struct ctl *c, enum rpc_method_id method, const ProtobufCMessage *request, ctl_each_fn *each, void *user, struct nf_error *err);
void ctl_no_daemon_hint(struct ctl *c, struct nf_error *err);

/* Prints the error (with --json {"error": ...} on stdout, else on stderr with location, log tail and hint; on a terminal without what
 * ctl_shown was told of) and returns its exit code.
 * failed: the message it came from, if there is one; may be NULL. */
int ctl_fail(struct ctl *c, const struct nf_error *err, const Neffd__V1__Error *failed);
int ctl_usage(struct ctl *c, const char *fmt, ...) NF_PRINTF(2, 3);   /* prints, returns CTL_USAGE */
void ctl_shown(struct ctl *c, const char *line);                      /* a line of the log has just been printed on stderr */

/* A path that names no file (absent, too long, a loop of links, a directory) is a wrong argument, not a miss nor trouble of the disk:
 * r, or NF_EINVAL, also in err->code. */
int ctl_wrong_path(const char *path, int r, struct nf_error *err);

/* Input files: the whole file, "-" is stdin. Absent or unreadable ones are NF_EINVAL or the file system's error. */
int ctl_read_file(const char *path, struct nf_buf *ret_bytes, struct nf_error *err);
/* 64 hex digits; 32 for a key that was imported from TorchNeuron. */
bool ctl_is_key(const char *text, struct nf_digest *ret_key);

/* Every NEFF of both tiers, each key once, from the directories themselves (trees.c). */
typedef void ctl_entry_fn(void *user, const struct nf_digest *key, const char *cache_namespace);
void ctl_each_entry(neffd_client *client, const char *only_namespace, ctl_entry_fn *fn, void *user);

/* Text. Styles are empty strings where colours are off. */
enum ctl_style { CTL_PLAIN, CTL_BOLD, CTL_DIM, CTL_RED, CTL_GREEN, CTL_YELLOW };
const char *ctl_on(bool color, enum ctl_style style);
const char *ctl_off(bool color);
/* Text of others on a terminal: control characters become '?'. In one of 8 rotating buffers, cut at 400 bytes. */
const char *ctl_clean(const char *text);
/* A line on stderr that the next one replaces; nothing unless `bar`. fraction < 0: no bar, only the text. */
void ctl_bar(struct ctl *c, double fraction, const char *text);
void ctl_bar_clear(struct ctl *c);

/* Tables: cells by row; columns as wide as their widest cell; `right`: characters of "lr" for each column. */
struct ctl_table {
    size_t columns;
    const char *align;
    char **cells;
    size_t count, cap;
};
void ctl_table_add(struct ctl_table *t, const char *fmt, ...) NF_PRINTF(2, 3);
void ctl_table_print(struct ctl *c, struct ctl_table *t);  /* the first row is the head; frees the table */

#define CTL_DECLARE(name) int ctl_cmd_##name(struct ctl *c); extern const struct ctl_option ctl_options_##name[];
#define CTL_COMMAND(words, name, min, max, arguments, arg_words, summary) CTL_DECLARE(name)
#include "client/ctl/commands.def"
#undef CTL_COMMAND

#endif
