/* config_internal.h: the table as data, shared by the files of this folder. */
#ifndef NEFFD_CONFIG_CONFIG_INTERNAL_H
#define NEFFD_CONFIG_CONFIG_INTERNAL_H

#include "base/arena.h"
#include "config/config.h"

enum cfg__type {
    CFG__BOOL01,
    CFG__STRICT01,
    CFG__TRISTATE,
    CFG__INT,
    CFG__OCTAL,
    CFG__SIZE,
    CFG__BYTES,
    CFG__SECONDS,
    CFG__CHOICE,
    CFG__STR,
    CFG__PATH,
    CFG__LIST,
    CFG__RANGES,
    CFG__KVLIST,
    CFG__TYPE_MAX,
};

enum cfg__scope { CFG__CLIENT, CFG__REQUEST, CFG__DAEMON, CFG__SCOPE_MAX };

struct cfg__row {
    const char *name, *def, *unit, *area, *env, *help;
    int64_t min, max;
    enum cfg__type type;
    enum cfg__scope scope;
    bool live, effect;
    size_t offset; /* of the field in struct cfg */
};

extern const struct cfg__row cfg__rows[CFG_ID_MAX];
extern const char *const cfg__type_names[CFG__TYPE_MAX];
extern const char *const cfg__scope_names[CFG__SCOPE_MAX];
extern const char *const cfg__source_names[CFG_SOURCE_MAX];

struct cfg__private {
    struct nf_arena *arena; /* of every string and list */
    const char *texts[CFG_ID_MAX];
    uint8_t sources[CFG_ID_MAX];
    const char *from_env[CFG_ID_MAX]; /* the variable that said it; NULL: none */
    const char *const *env[CFG_ID_MAX];
    const char *default_words[CFG_ID_MAX];
    const char **warnings; /* malloc'ed array, strings in the arena */
    size_t warning_count;
    enum cfg_action action;
    const char *file;
    char **positionals; /* malloc'ed array of argv's strings */
    size_t positional_count;
};

/* Reads text as the row's type. On success *field (of struct cfg) is set and *ret_text is the text as it should be shown;
 * else `why` says what was expected. */
int cfg__value_read(const struct cfg__row *row, const char *text, struct nf_arena *arena, void *field, const char **ret_text,
                    char why[160]);

void cfg__warn(struct cfg *cfg, const char *fmt, ...) NF_PRINTF(2, 3);
/* Environment names of a row, NEFFD_NAME first, NULL at the end. */
const char *const *cfg__env_names(const struct cfg__row *row, struct nf_arena *arena);
/* The default as people should read it. */
const char *cfg__default_words(const struct cfg__row *row, struct nf_arena *arena);

#endif
