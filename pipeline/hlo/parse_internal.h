/* parse_internal.h: the text parser's state and the calls between its files.
 *
 * Recursive descent over bytes, without a token list: at every point `at` stands behind the last token. Functions return
 * false after the first error, which stays in `code` and *err. Recursion is counted in `depth`. Text may hold anything. */
#ifndef NEFFD_PIPELINE_HLO_PARSE_INTERNAL_H
#define NEFFD_PIPELINE_HLO_PARSE_INTERNAL_H

#include "base/map.h"
#include "pipeline/hlo/hlo_internal.h"

struct parse_name {                 /* a value name in sight: %name or a pack %name:n */
    const char *text;               /* NULL: a number with a place of its own */
    uint32_t len, hash;             /* hash: then the number */
    struct hlo_value *first;        /* results lie one behind the other */
    uint32_t count;
    uint32_t before;                /* of a number: what its place held before this one */
};

struct parse_type_entry {
    const char *text;
    uint32_t len, hash;
    const struct hlo_type *type;
};

struct parse_result_name {
    struct nf_str name;
    uint32_t count;
};

struct hlo_parser {
    const char *begin, *at, *end;
    struct hlo_module *m;
    struct nf_arena *arena, *scratch;       /* scratch dies with the parse */
    const struct hlo_limits *limits;
    struct nf_error *err;
    int code;
    uint32_t depth;
    uint64_t literals;
    uint64_t nodes;                         /* attributes, types and locations, those behind aliases counted each time */
    uint64_t seed;                          /* of the tables below: names are chosen by whoever wrote the text */
    /* value names: log in order of definition (malloc'd, it gets long), open addressing over it; indexes below `hidden` are outside an isolated region */
    struct parse_name *names;
    uint32_t num_names, cap_names, hidden;
    uint32_t *name_slots, cap_name_slots;
    uint32_t *numbers, cap_numbers;         /* of %0, %1, ..: the latest name in the log + 1, 0 none */
    /* stacks that nested operations share; each remembers where it began */
    struct hlo_value **values;
    uint32_t num_values, cap_values;
    const struct hlo_type **types;
    uint32_t num_types, cap_types;
    struct hlo_named *named;
    uint32_t num_named, cap_named;
    struct parse_result_name *results;
    uint32_t num_results, cap_results;
    int64_t *ints;
    uint32_t num_ints, cap_ints;
    /* spelling -> type */
    struct parse_type_entry *type_cache;
    uint32_t num_type_cache, cap_type_cache;
    struct parse_type_entry last_type;      /* found there most recently: types come in runs */
    /* aliases: "#name" or "!name" -> struct parse_alias */
    struct nf_map *aliases;
    bool aliases_scanned;
    struct nf_map *resources;
    bool resources_scanned;
};

/* An operation while it is read. */
#define PARSE_MAX_SLOTS 16
struct parse_op {
    enum hlo_op_id id;
    const struct hlo_op_info *info;
    struct nf_str name;                     /* of an unknown one */
    uint32_t pos;
    uint32_t values, types, named, results; /* bases of the stacks: operands, result types, dictionary, result names */
    const struct hlo_attr **slots;          /* those of the row */
    uint32_t num_regions, cap_regions;
    struct hlo_region **regions;
};

/* ---- errors ---- */
bool hlo__parse_fail_at(struct hlo_parser *p, const char *where, int code, const char *fmt, ...) NF_PRINTF(4, 5); /* returns false */
/* NF_ELIMIT of a limit that may be an option (struct hlo_limits). */
bool hlo__parse_over(struct hlo_parser *p, const char *where, const char *option, const char *fmt, ...) NF_PRINTF(4, 5);
/* At the token that comes next: "expected ..., found '...'". */
bool hlo__parse_wrong(struct hlo_parser *p, const char *expected);

/* ---- characters ---- */
static inline bool parse_is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
extern const uint8_t hlo__char_class[256];
enum { PARSE_LETTER = 1, PARSE_DIGIT = 2, PARSE_ID_EXTRA = 4 /* $ . */, PARSE_DASH = 8, PARSE_HEX = 16 };
static inline bool parse_is(char c, unsigned classes) { return (hlo__char_class[(uint8_t)c] & classes) != 0; }

void hlo__parse_comment(struct hlo_parser *p);      /* at stands on '/' */
static inline void parse_space(struct hlo_parser *p)
{
    for (;;) {
        while (p->at < p->end && parse_is_space(*p->at))
            p->at++;
        if (p->at >= p->end || *p->at != '/')
            return;
        const char *before = p->at;
        hlo__parse_comment(p);
        if (p->at == before)
            return;
    }
}
/* The next character after white space, 0 at the end. */
static inline char parse_peek(struct hlo_parser *p)
{
    parse_space(p);
    return p->at < p->end ? *p->at : 0;
}
static inline bool parse_accept(struct hlo_parser *p, char c)
{
    if (parse_peek(p) != c || p->at >= p->end)
        return false;
    p->at++;
    return true;
}
bool hlo__parse_expect(struct hlo_parser *p, char c);
static inline bool parse_expect(struct hlo_parser *p, char c) { return parse_accept(p, c) || hlo__parse_expect(p, c); }
bool hlo__parse_accept_str(struct hlo_parser *p, const char *s);     /* punctuation of several characters, e.g. "->" */
bool hlo__parse_accept_word(struct hlo_parser *p, const char *word);  /* a whole bare identifier */
bool hlo__parse_expect_word(struct hlo_parser *p, const char *word);
bool hlo__parse_expect_str(struct hlo_parser *p, const char *s);
struct nf_str hlo__parse_peek_word(struct hlo_parser *p);             /* empty if none comes next */
bool hlo__parse_word(struct hlo_parser *p, struct nf_str *ret);       /* letter or _, then letters digits _ $ . */
bool hlo__parse_suffix_id(struct hlo_parser *p, struct nf_str *ret);  /* after a sigil: digits, or letters digits _ $ . - */
bool hlo__parse_string(struct hlo_parser *p, struct nf_str *ret);     /* "..." with its escapes undone */
bool hlo__parse_symbol(struct hlo_parser *p, struct nf_str *ret);     /* @name, @"name", @a::@b */
bool hlo__parse_i64(struct hlo_parser *p, int64_t *ret);              /* [-] decimal or 0x */
bool hlo__parse_u64_at(struct hlo_parser *p, uint64_t *ret);          /* digits right here, decimal only */
bool hlo__parse_bool(struct hlo_parser *p, bool *ret);
/* "[1, 2, -3]" pushed onto p->ints; *ret_n of them from *ret_base. Both pops are the caller's: p->num_ints = base. */
bool hlo__parse_i64_list(struct hlo_parser *p, struct hlo_ints *ret);  /* copied into the arena */
bool hlo__parse_balanced(struct hlo_parser *p, struct nf_str *ret);    /* at an opening bracket: text to its partner, both included */
struct nf_str hlo__parse_squeeze(struct hlo_parser *p, struct nf_str text); /* white space outside strings reduced */
bool hlo__parse_enter(struct hlo_parser *p);                          /* depth + 1 and nodes + 1, checked */
#define PARSE_MAX_NODES (64u << 20)
static inline void parse_leave(struct hlo_parser *p) { p->depth--; }
/* Right here, no space skipped; inline for the sake of constant lengths. */
static inline bool hlo__parse_starts(const struct hlo_parser *p, const char *s)
{
    size_t n = strlen(s);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, s, n) == 0;
}

/* ---- types, attributes, locations ---- */
bool hlo__parse_type(struct hlo_parser *p, const struct hlo_type **ret);
bool hlo__parse_type_list(struct hlo_parser *p);                      /* T, U pushed onto p->types */
bool hlo__parse_type_list_paren(struct hlo_parser *p);                /* (T, U) or T pushed */
bool hlo__parse_attr(struct hlo_parser *p, const struct hlo_attr **ret);
bool hlo__parse_location(struct hlo_parser *p, const struct hlo_attr **ret);  /* loc(...), `loc` not yet read */
bool hlo__parse_opt_location(struct hlo_parser *p, const struct hlo_attr **ret); /* NULL if none comes */
bool hlo__parse_dict(struct hlo_parser *p);                           /* {..} pushed onto p->named */
const struct hlo_attr *hlo__parse_dict_attr(struct hlo_parser *p, uint32_t base); /* from the stack, sorted; pops */
bool hlo__parse_enum(struct hlo_parser *p, enum hlo_enum_class c, const struct hlo_attr **ret); /* bare word */
bool hlo__parse_precisions(struct hlo_parser *p, const struct hlo_attr **ret);   /* [DEFAULT, HIGH] */
bool hlo__parse_conv_dims(struct hlo_parser *p, const struct hlo_attr **ret);    /* [b, 0, f]x[..]->[..] */
bool hlo__parse_dot_algorithm(struct hlo_parser *p, const struct hlo_attr **ret); /* <...> */
bool hlo__parse_dense(struct hlo_parser *p, const struct hlo_type *type, const struct hlo_attr **ret); /* "dense" read; type NULL: behind it */
bool hlo__parse_dense_resource(struct hlo_parser *p, const struct hlo_attr **ret);
bool hlo__parse_alias(struct hlo_parser *p, char sigil, struct nf_str name, const struct hlo_attr **ret_attr, const struct hlo_type **ret_type);
bool hlo__parse_alias_value(struct hlo_parser *p, char sigil, struct nf_str name);
/* A float literal at p->at, sign already read. */
bool hlo__parse_number(struct hlo_parser *p, bool negative, const struct hlo_attr **ret);
double hlo__strtod(const char *s, const char *end, const char **ret_end);

/* ---- operations ---- */
bool hlo__parse_value(struct hlo_parser *p, struct hlo_value **ret);           /* %name[#n] */
bool hlo__parse_operand(struct hlo_parser *p);                                /* pushed onto p->values */
bool hlo__parse_operands(struct hlo_parser *p);                               /* %a, %b: none if no % comes */
bool hlo__parse_define(struct hlo_parser *p, struct nf_str name, struct hlo_value *first, uint32_t count, const char *where);
bool hlo__parse_form(struct hlo_parser *p, struct parse_op *b);                /* behind the mnemonic, up to the location */
bool hlo__parse_attr_dict(struct hlo_parser *p, struct parse_op *b);           /* optional {..} (and <{..}>), into slots and dictionary */
bool hlo__parse_set(struct hlo_parser *p, struct parse_op *b, enum hlo_attr_name name, const struct hlo_attr *a);
/* A region; arguments (names and types) may be given by the operation's syntax instead of a label. */
struct parse_arg {
    struct nf_str name;
    const struct hlo_type *type;
    const char *where;
    const struct hlo_attr *loc;
};
bool hlo__parse_region(struct hlo_parser *p, struct parse_op *b, const struct parse_arg *args, uint32_t num_args, bool isolated);
struct hlo_region *hlo__parse_region_new(struct hlo_parser *p, struct parse_op *b);
bool hlo__parse_check_types(struct hlo_parser *p, struct parse_op *b, const struct hlo_type *const *types, uint32_t n, const char *where);

#define PARSE_PUSH(p, stack, num, cap)                                                                                     \
    do {                                                                                                                   \
        if ((p)->num == (p)->cap) {                                                                                        \
            uint32_t cap_ = (p)->cap ? (p)->cap * 2 : 64;                                                                  \
            void *grown_ = nf_arena_alloc_raw((p)->scratch, (size_t)cap_ * sizeof *(p)->stack);                            \
            if ((p)->num)                                                                                                  \
                memcpy(grown_, (p)->stack, (size_t)(p)->num * sizeof *(p)->stack);                                         \
            (p)->stack = grown_;                                                                                           \
            (p)->cap = cap_;                                                                                               \
        }                                                                                                                  \
    } while (0)
static inline void parse_push_value(struct hlo_parser *p, struct hlo_value *v) { PARSE_PUSH(p, values, num_values, cap_values); p->values[p->num_values++] = v; }
static inline void parse_push_type(struct hlo_parser *p, const struct hlo_type *t) { PARSE_PUSH(p, types, num_types, cap_types); p->types[p->num_types++] = t; }
static inline void parse_push_named(struct hlo_parser *p, struct nf_str n, const struct hlo_attr *a) { PARSE_PUSH(p, named, num_named, cap_named); p->named[p->num_named++] = (struct hlo_named){n, a}; }
static inline void parse_push_int(struct hlo_parser *p, int64_t v) { PARSE_PUSH(p, ints, num_ints, cap_ints); p->ints[p->num_ints++] = v; }

#endif
