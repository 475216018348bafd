/* config.h: all settings of a process, read once from one table (config/options.def).
 *
 * Precedence: default < file < environment < command line. Within the environment NEFFD_NAME wins over the other names of
 * a row. A wrong value or an unknown key in the file or on the command line is an error (NF_ECONFIG, NF_EUSAGE) that names
 * the place and the nearest name; an unknown NEFFD_* variable is a warning, since Kubernetes makes such variables.
 *
 *     struct cfg *cfg;
 *     rc = cfg_load(&(struct cfg_sources){.program = "neffd", .argc = argc, .argv = argv}, &cfg, &err);
 *     ... cfg->lock_timeout_ns ... cfg->workers ... cfg->cache_dir
 *     cfg_free(cfg);
 *
 * A loaded configuration is constant: any thread may read it. Strings and lists live as long as it does. The fields come
 * from the table: for a row `name` of type
 *     BOOL01, STRICT01 bool name        TRISTATE enum cfg_tristate name   INT, OCTAL int64_t name   SIZE, BYTES uint64_t name
 *     SECONDS int64_t name_ns           CHOICE int name (index of the word) STR, PATH const char *name (never NULL)
 *     LIST, KVLIST struct cfg_list name RANGES struct cfg_ranges name */
#ifndef NEFFD_CONFIG_CONFIG_H
#define NEFFD_CONFIG_CONFIG_H

#include "base/str.h"

enum cfg_tristate { CFG_UNSET, CFG_OFF, CFG_ON };
enum cfg_source { CFG_DEFAULT, CFG_FILE, CFG_ENV, CFG_COMMAND_LINE, CFG_SOURCE_MAX };

struct cfg_list {
    const char *const *items;
    size_t len;
};

struct cfg_ranges {
    const struct cfg_range {
        int64_t first, last; /* inclusive */
    } *items;
    size_t len;
};

enum cfg_id {
#define CFG(type, name, def, min, max, unit, scope, live, effect, area, env, help) CFG_ID_##name,
#include "config/options.def"
#undef CFG
    CFG_ID_MAX,
};

#define CFG__FIELD_BOOL01(name) bool name;
#define CFG__FIELD_STRICT01(name) bool name;
#define CFG__FIELD_TRISTATE(name) enum cfg_tristate name;
#define CFG__FIELD_INT(name) int64_t name;
#define CFG__FIELD_OCTAL(name) int64_t name;
#define CFG__FIELD_SIZE(name) uint64_t name;
#define CFG__FIELD_BYTES(name) uint64_t name;
#define CFG__FIELD_SECONDS(name) int64_t name##_ns;
#define CFG__FIELD_CHOICE(name) int name;
#define CFG__FIELD_STR(name) const char *name;
#define CFG__FIELD_PATH(name) const char *name;
#define CFG__FIELD_LIST(name) struct cfg_list name;
#define CFG__FIELD_KVLIST(name) struct cfg_list name;
#define CFG__FIELD_RANGES(name) struct cfg_ranges name;

struct cfg {
#define CFG(type, name, def, min, max, unit, scope, live, effect, area, env, help) CFG__FIELD_##type(name)
#include "config/options.def"
#undef CFG
    struct cfg__private *priv;
};

/* Words of the CHOICE rows, in their order. */
enum cfg_verify { CFG_VERIFY_ADMISSION, CFG_VERIFY_ALWAYS };
enum cfg_log_format { CFG_LOG_TEXT, CFG_LOG_JSON };

/* A command-line option that is the program's own and not a setting. With `ret_value` it takes an argument, with `ret_flag`
 * it does not. */
struct cfg_extra {
    const char *name;    /* "stop-after" */
    const char *metavar; /* "STAGE", or NULL */
    const char *help;
    const char **ret_value;
    bool *ret_flag;
};

struct cfg_override {
    const char *name, *value;
};

struct cfg_sources {
    const char *program;                    /* for messages */
    int argc;                               /* 0: no command line */
    char *const *argv;
    const struct cfg_extra *extra;          /* ends with a row whose name is NULL; may be NULL */
    const struct cfg_override *overrides;   /* as if from the command line; ends with name NULL; may be NULL */
    const char *const *env;                 /* NULL: the process's own */
    const char *file;                       /* NULL: --config, NEFFD_CONFIG, else /etc/neffd/neffd.conf if it is there; "": none */
    const char *torch_version;              /* "2.13.0"; NULL: not known */
    int positionals_max;                    /* arguments that are not options; more are a usage error; -1: any number */
};

enum cfg_action { CFG_RUN, CFG_HELP, CFG_VERSION, CFG_PRINT, CFG_CHECK };

int cfg_load(const struct cfg_sources *sources, struct cfg **ret_cfg, struct nf_error *err);
void cfg_free(struct cfg *cfg); /* takes NULL */

/* What --help, --version, --print-config or --check-config asked for. A program prints with cfg_print_x and exits 0. */
enum cfg_action cfg_action(const struct cfg *cfg);
const char *cfg_file(const struct cfg *cfg); /* the file that was read, "" if none */
/* Arguments that are not options; they live as long as argv. */
char *const *cfg_positionals(const struct cfg *cfg, size_t *ret_count);
/* Unknown variables, ignored values, settings without effect: one line each, without newline; i from 0, NULL at the end. */
const char *cfg_warning(const struct cfg *cfg, size_t i);

/* A row of the table with its present value. */
struct cfg_setting {
    const char *name, *help, *area, *unit;
    const char *type;                 /* "bool01", "seconds", ... */
    const char *scope;                /* "client", "request", "daemon" */
    const char *source;               /* "default", "file", "env", "command line" */
    const char *default_value;        /* for people: "1200", "value of cache_dir", "1 with PyTorch >= 2.13, else 0" */
    const char *value;                /* as text that the parsers take back */
    bool in_effect;                   /* its area is there */
    bool live;                        /* a reread changes it */
    bool set;                         /* not from the default */
    const char *const *env;           /* NEFFD_NAME first, NULL at the end */
};
struct cfg_setting cfg_setting(const struct cfg *cfg, enum cfg_id id);
/* By name, with _ or -; CFG_ID_MAX if there is none. */
enum cfg_id cfg_find(struct nf_str name);
/* The known name nearest to this one if it is near enough for a hint, else NULL. */
const char *cfg_nearest(struct nf_str name);

/* For SIGHUP: a copy of `now` in which the rows that may change while running have the values of `next`. Rows that differ but
 * may not change are listed in the result's warnings. Both stay the caller's. */
struct cfg *cfg_reread(const struct cfg *now, const struct cfg *next);

/* "unix:/run/x" or "/run/x" gives "/run/x", HOST:PORT gives NULL. */
const char *cfg_socket_path(const char *socket);

/* Text for people, from the table. */
void cfg_print_help(const struct cfg *cfg, const char *usage, const struct cfg_extra *extra, struct nf_buf *out);
void cfg_print_file(const struct cfg *cfg, struct nf_buf *out);  /* a file that sets what is set now, the rest commented out */
void cfg_print_markdown(struct nf_buf *out);                     /* config/OPTIONS.md */
void cfg_print_man(struct nf_buf *out);                          /* neffd(8) */

#endif
