/* parse_op.c: operations in generic form, regions, value names, functions, the module, and the entry points.
 *
 *   module-file  ::= (alias-definition | resource-block | operation)*
 *   operation    ::= (results '=')? (generic | mnemonic form) location?
 *   generic      ::= string '(' operands ')' ('<' dict '>')? ('(' regions ')')? dict? ':' function-type
 *   region       ::= '{' (operation* | ('^' label ('(' args ')')? ':' operation*)*) '}' */
#include "pipeline/hlo/parse_internal.h"

#include "base/file.h"
#include "pipeline/hlo/spec_internal.h"

const struct hlo_limits hlo_limits_default = {
    .input_bytes = UINT32_MAX,
    .depth = 256,
    .ops = 20u * 1000 * 1000,
    .literal_bytes = (uint64_t)8 << 30,
    .literals_bytes = (uint64_t)8 << 30,
};

int hlo_limit_hint(const struct hlo_limits *limits, const char *option, struct nf_error *err)
{
    if (limits->are_options)
        nf_error_hint(err, "raise the option %s", option);
    return NF_ELIMIT;
}

static bool parse_operation(struct hlo_parser *p, struct hlo_block *block);

/* ---- value names ---- */

/* Numbers, as printers give them out, have places of their own: those below an eighth of the text, since a name that is defined and used
 * takes more than eight bytes. UINT32_MAX: another name. */
static uint32_t name_number(const struct hlo_parser *p, struct nf_str s)
{
    if (s.len > 9 || !parse_is(*s.data, PARSE_DIGIT) || (*s.data == '0' && s.len > 1))
        return UINT32_MAX;
    uint32_t number = 0;
    for (size_t i = 0; i < s.len; i++)
        number = number * 10 + (uint32_t)(s.data[i] - '0');
    return number < (size_t)(p->end - p->begin) / 8 ? number : UINT32_MAX;
}

static uint32_t name_hash(const struct hlo_parser *p, struct nf_str s)
{
    uint64_t h = (s.len + p->seed) * 0x9e3779b97f4a7c15u, w;
    const char *d = s.data;
    size_t n = s.len;
    for (; n >= 8; n -= 8, d += 8) {
        memcpy(&w, d, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, d, n);
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h ^ (h >> 32));
}

static void names_place(struct hlo_parser *p, uint32_t index)
{
    if (!p->names[index].text) /* a number */
        return;
    uint32_t h = p->names[index].hash & (p->cap_name_slots - 1);
    while (p->name_slots[h])
        h = (h + 1) & (p->cap_name_slots - 1);
    p->name_slots[h] = index + 1;
}

static void names_reserve(struct hlo_parser *p)
{
    if (p->num_names < p->cap_names)
        return;
    p->cap_names = p->cap_names ? p->cap_names * 2 : 64;
    p->names = nf_realloc(p->names, p->cap_names * sizeof *p->names);
}

static bool redefined(struct hlo_parser *p, struct nf_str name, const char *where)
{
    return hlo__parse_fail_at(p, where, NF_EGRAPH, "redefinition of SSA value '%%%.*s'", (int)NF_MIN(name.len, (size_t)80), name.data);
}

bool hlo__parse_define(struct hlo_parser *p, struct nf_str name, struct hlo_value *first, uint32_t count, const char *where)
{
    uint32_t number = name_number(p, name);
    if (number != UINT32_MAX) {
        if (number >= p->cap_numbers) {
            uint32_t cap = p->cap_numbers ? p->cap_numbers : 64;
            while (cap <= number)
                cap *= 2;
            uint32_t *grown = NF_NEW_ARRAY(p->scratch, uint32_t, cap);
            if (p->cap_numbers)
                memcpy(grown, p->numbers, p->cap_numbers * sizeof *grown);
            p->numbers = grown;
            p->cap_numbers = cap;
        }
        uint32_t before = p->numbers[number];
        if (before > p->hidden)
            return redefined(p, name, where);
        names_reserve(p);
        p->names[p->num_names] = (struct parse_name){.hash = number, .first = first, .count = count, .before = before};
        p->numbers[number] = ++p->num_names;
        return true;
    }
    uint32_t hash = name_hash(p, name);
    if ((p->num_names + 1) * 2 > p->cap_name_slots) {
        p->cap_name_slots = p->cap_name_slots ? p->cap_name_slots * 2 : 256;
        p->name_slots = NF_NEW_ARRAY(p->scratch, uint32_t, p->cap_name_slots);
        for (uint32_t i = 0; i < p->num_names; i++) /* in their order: taking back from the end stays possible */
            names_place(p, i);
    }
    for (uint32_t h = hash & (p->cap_name_slots - 1); p->name_slots[h]; h = (h + 1) & (p->cap_name_slots - 1)) {
        struct parse_name *n = &p->names[p->name_slots[h] - 1];
        if (p->name_slots[h] > p->hidden && n->hash == hash && n->len == name.len && memcmp(n->text, name.data, name.len) == 0)
            return redefined(p, name, where);
    }
    names_reserve(p);
    p->names[p->num_names] = (struct parse_name){name.data, (uint32_t)name.len, hash, first, count, 0};
    names_place(p, p->num_names++);
    return true;
}

static void names_pop(struct hlo_parser *p, uint32_t to)
{
    while (p->num_names > to) {
        uint32_t index = --p->num_names;
        if (!p->names[index].text) {
            p->numbers[p->names[index].hash] = p->names[index].before;
            continue;
        }
        uint32_t h = p->names[index].hash & (p->cap_name_slots - 1);
        while (p->name_slots[h] != index + 1)
            h = (h + 1) & (p->cap_name_slots - 1);
        p->name_slots[h] = 0; /* the latest entry: nothing was placed past it */
    }
}

bool hlo__parse_value(struct hlo_parser *p, struct hlo_value **ret)
{
    struct nf_str name;
    if (parse_peek(p) != '%')
        return hlo__parse_wrong(p, "an SSA operand");
    const char *where = p->at++;
    if (!hlo__parse_suffix_id(p, &name))
        return false;
    uint64_t index = 0;
    if (p->at < p->end && *p->at == '#') {
        p->at++;
        if (!hlo__parse_u64_at(p, &index))
            return false;
    }
    const struct parse_name *found = NULL;
    uint32_t number = name_number(p, name);
    if (number != UINT32_MAX) {
        if (number < p->cap_numbers && p->numbers[number] > p->hidden)
            found = &p->names[p->numbers[number] - 1];
    } else if (p->cap_name_slots) {
        uint32_t hash = name_hash(p, name);
        for (uint32_t h = hash & (p->cap_name_slots - 1); p->name_slots[h] && !found; h = (h + 1) & (p->cap_name_slots - 1)) {
            const struct parse_name *n = &p->names[p->name_slots[h] - 1];
            if (p->name_slots[h] > p->hidden && n->hash == hash && n->len == name.len && memcmp(n->text, name.data, name.len) == 0)
                found = n;
        }
    }
    if (!found)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "use of undeclared SSA value name '%%%.*s'", (int)NF_MIN(name.len, (size_t)80), name.data);
    if (index >= found->count)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'%%%.*s' has %u results, there is no #%llu", NF_STR_ARG(name), found->count, (unsigned long long)index);
    *ret = found->first + index;
    return true;
}

bool hlo__parse_operand(struct hlo_parser *p)
{
    struct hlo_value *v;
    if (!hlo__parse_value(p, &v))
        return false;
    parse_push_value(p, v);
    return true;
}

bool hlo__parse_operands(struct hlo_parser *p)
{
    if (parse_peek(p) != '%')
        return true;
    do {
        if (!hlo__parse_operand(p))
            return false;
    } while (parse_accept(p, ','));
    return true;
}

bool hlo__parse_check_types(struct hlo_parser *p, struct parse_op *b, const struct hlo_type *const *types, uint32_t n, const char *where)
{
    uint32_t have = p->num_values - b->values;
    if (have != n)
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "'%.*s' %u operands present, but expected %u", NF_STR_ARG(b->name), have, n);
    for (uint32_t i = 0; i < n; i++) {
        struct hlo_value *v = p->values[b->values + i];
        if (v->type == types[i])
            continue;
        struct nf_buf a = NF_BUF_INIT, c = NF_BUF_INIT;
        hlo_type_print(types[i], &a);
        hlo_type_print(v->type, &c);
        hlo__parse_fail_at(p, where, NF_EGRAPH, "operand %u of '%.*s' expects different type than prior uses: '%.200s' vs '%.200s'", i, NF_STR_ARG(b->name), a.data, c.data);
        nf_buf_done(&a);
        nf_buf_done(&c);
        return false;
    }
    return true;
}

/* ---- attributes of an operation ---- */

static bool set_slot(struct hlo_parser *p, struct parse_op *b, int slot, const struct hlo_attr *a, const char *where)
{
    if (b->slots[slot])
        return hlo__parse_fail_at(p, where, NF_EGRAPH, "attribute '%s' of '%.*s' is given twice", b->info->attrs[slot].name, NF_STR_ARG(b->name));
    b->slots[slot] = hlo__spec_normalise(p->m, b->info->attrs[slot].kind, a);
    return true;
}

bool hlo__parse_set(struct hlo_parser *p, struct parse_op *b, enum hlo_attr_name name, const struct hlo_attr *a)
{
    return set_slot(p, b, hlo_op_slot(b->id, name), a, p->at);
}

/* A dictionary whose entries go to the slots of b or stay on the stack for its own dictionary. */
static bool parse_op_dict(struct hlo_parser *p, struct parse_op *b)
{
    uint32_t base = p->num_named, kept = base;
    const char *where = p->at;
    if (!hlo__parse_dict(p))
        return false;
    for (uint32_t i = base; i < p->num_named; i++) {
        int slot = hlo_op_slot_by_name(b->id, p->named[i].name);
        if (slot >= 0) {
            if (!set_slot(p, b, slot, p->named[i].attr, where))
                return false;
            continue;
        }
        p->named[kept++] = p->named[i];
    }
    p->num_named = kept;
    return true;
}

bool hlo__parse_attr_dict(struct hlo_parser *p, struct parse_op *b)
{
    if (parse_peek(p) == '<' && p->end - p->at > 1 && p->at[1] == '{') {
        p->at++;
        if (!parse_op_dict(p, b) || !parse_expect(p, '>'))
            return false;
    }
    return parse_peek(p) != '{' || parse_op_dict(p, b);
}

/* ---- regions ---- */

struct hlo_region *hlo__parse_region_new(struct hlo_parser *p, struct parse_op *b)
{
    if (b->num_regions == UINT16_MAX) {
        hlo__parse_fail_at(p, p->at, NF_ELIMIT, "more regions than the limit of %d", UINT16_MAX);
        return NULL;
    }
    if (b->num_regions == b->cap_regions) {
        uint32_t cap = b->cap_regions ? b->cap_regions * 2 : 2;
        struct hlo_region **n = NF_NEW_ARRAY(p->scratch, struct hlo_region *, cap);
        for (uint32_t i = 0; i < b->num_regions; i++)
            n[i] = b->regions[i];
        b->regions = n;
        b->cap_regions = cap;
    }
    struct hlo_region *r = NF_NEW(p->scratch, struct hlo_region);
    b->regions[b->num_regions++] = r;
    return r;
}

static void set_arg_loc(struct hlo_parser *p, struct hlo_block *block, uint32_t i, const struct hlo_attr *loc)
{
    uint32_t index = hlo_loc_add(p->m, loc);
    if (!index)
        return;
    if (!block->arg_locs) {
        uint32_t cap = 1;
        while (cap < block->num_args)
            cap *= 2;
        block->arg_locs = NF_NEW_ARRAY(p->arena, uint32_t, cap);
    }
    block->arg_locs[i] = index;
}

/* '(' (%name ':' type location?),* ')' after a label */
static bool parse_block_args(struct hlo_parser *p, struct hlo_block *block)
{
    if (!parse_accept(p, '('))
        return true;
    if (parse_accept(p, ')'))
        return true;
    do {
        struct nf_str name;
        const struct hlo_type *t;
        const struct hlo_attr *loc;
        if (parse_peek(p) != '%')
            return hlo__parse_wrong(p, "a block argument");
        const char *where = p->at++;
        if (!hlo__parse_suffix_id(p, &name) || !parse_expect(p, ':') || !hlo__parse_type(p, &t) || !hlo__parse_opt_location(p, &loc))
            return false;
        struct hlo_value *v = hlo_block_add_arg(p->m, block, t);
        if (!hlo__parse_define(p, name, v, 1, where))
            return false;
        if (loc)
            set_arg_loc(p, block, v->index, loc);
    } while (parse_accept(p, ','));
    return parse_expect(p, ')');
}

static bool parse_block_ops(struct hlo_parser *p, struct hlo_block *block)
{
    for (;;) {
        char c = parse_peek(p);
        if (c == '}' || c == '^')
            return true;
        if (p->at >= p->end)
            return hlo__parse_wrong(p, "'}'");
        if (!parse_operation(p, block))
            return false;
    }
}

bool hlo__parse_region(struct hlo_parser *p, struct parse_op *b, const struct parse_arg *args, uint32_t num_args, bool isolated)
{
    struct hlo_region *r = hlo__parse_region_new(p, b);
    uint32_t scope = p->num_names, hidden = p->hidden;
    if (!r || !parse_expect(p, '{') || !hlo__parse_enter(p))
        return false;
    if (isolated)
        p->hidden = p->num_names;
    bool first = true;
    if (num_args || parse_peek(p) != '^') {
        if (!num_args && parse_peek(p) == '}') {
            first = false; /* {}: no block */
        } else {
            struct hlo_block *block = hlo_block_new(p->m, r);
            for (uint32_t i = 0; i < num_args; i++) {
                struct hlo_value *v = hlo_block_add_arg(p->m, block, args[i].type);
                if (args[i].name.data && !hlo__parse_define(p, args[i].name, v, 1, args[i].where))
                    return false;
            }
            for (uint32_t i = 0; i < num_args; i++)
                if (args[i].loc)
                    set_arg_loc(p, block, i, args[i].loc);
            if (!parse_block_ops(p, block))
                return false;
        }
    }
    (void)first;
    while (parse_accept(p, '^')) {
        struct nf_str label;
        struct hlo_block *block = hlo_block_new(p->m, r);
        if (!hlo__parse_suffix_id(p, &label) || !parse_block_args(p, block) || !parse_expect(p, ':') || !parse_block_ops(p, block))
            return false;
    }
    if (!parse_expect(p, '}'))
        return false;
    names_pop(p, scope);
    p->hidden = hidden;
    parse_leave(p);
    return true;
}

/* ---- operations ---- */

static int named_cmp(const void *a, const void *b) { return nf_str_cmp(((const struct hlo_named *)a)->name, ((const struct hlo_named *)b)->name); }

static void set_row(struct parse_op *b, enum hlo_op_id id)
{
    b->id = id;
    b->info = hlo_op_info(id);
    for (int i = 0; i < b->info->num_attrs; i++)
        b->slots[i] = NULL;
}

/* Makes the operation from what b collected, appends it, gives its results their names, reads its location. */
static bool finish(struct hlo_parser *p, struct parse_op *b, struct hlo_block *block)
{
    struct hlo_module *m = p->m;
    uint32_t num_results = p->num_types - b->types, names = p->num_results - b->results, bound = 0;
    if (m->num_ops >= p->limits->ops)
        return hlo__parse_over(p, p->begin + b->pos, "max_ops", "more operations than the limit of %u", p->limits->ops);
    for (uint32_t i = 0; i < names; i++)
        bound += p->results[b->results + i].count;
    if (names && bound != num_results)
        return hlo__parse_fail_at(p, p->begin + b->pos, NF_EGRAPH, "'%.*s' defines %u results but was provided %u to bind", NF_STR_ARG(b->name), num_results, bound);
    uint32_t num_operands = p->num_values - b->values;
    struct hlo_value **operands = p->values + b->values;
    const struct hlo_type **types = p->types + b->types;
    struct hlo_op *op = b->id == HLO_OP_UNKNOWN ? hlo_op_new_unknown(m, b->name, num_operands, operands, num_results, types, (uint16_t)b->num_regions)
                                                : hlo_op_new(m, b->id, num_operands, operands, num_results, types, (uint16_t)b->num_regions);
    op->pos = b->pos;
    for (int i = 0; i < b->info->num_attrs; i++)
        op->attrs[i] = b->slots[i];
    uint32_t n = p->num_named - b->named;
    if (n) {
        op->dict = nf_arena_alloc_raw(p->arena, n * sizeof *op->dict);
        memcpy(op->dict, p->named + b->named, n * sizeof *op->dict);
        op->num_dict = n;
        if (n > 1)
            qsort(op->dict, n, sizeof *op->dict, named_cmp);
        for (uint32_t i = 1; i < n; i++)
            if (nf_str_eq(op->dict[i - 1].name, op->dict[i].name))
                return hlo__parse_fail_at(p, p->begin + b->pos, NF_EGRAPH, "attribute '%.*s' is given twice", NF_STR_ARG(op->dict[i].name));
    }
    for (uint32_t i = 0; i < b->num_regions; i++)
        hlo_region_take(op->regions[i], b->regions[i]);
    hlo_block_append(block, op);
    uint32_t at = 0;
    for (uint32_t i = 0; i < names; i++) {
        struct parse_result_name *r = &p->results[b->results + i];
        if (!hlo__parse_define(p, r->name, &op->results[at], r->count, r->name.data - 1))
            return false;
        at += r->count;
    }
    p->num_values = b->values;
    p->num_types = b->types;
    p->num_named = b->named;
    p->num_results = b->results;
    const struct hlo_attr *loc;
    if (!hlo__parse_opt_location(p, &loc))
        return false;
    if (loc)
        op->loc = hlo_loc_add(m, loc);
    return true;
}

static bool parse_generic(struct hlo_parser *p, struct parse_op *b)
{
    struct nf_str name;
    if (!hlo__parse_string(p, &name))
        return false;
    b->name = name;
    set_row(b, hlo_op_find(name));
    if (b->id == HLO_OP_UNKNOWN) {
        const char *dot = name.len ? memchr(name.data, '.', name.len) : NULL;
        if (!name.len)
            return hlo__parse_fail_at(p, p->at, NF_EGRAPH, "empty operation name");
        if (!dot)
            return hlo__parse_fail_at(p, name.data, NF_EUNSUPPORTED, "operation '%.*s' has no dialect", (int)NF_MIN(name.len, (size_t)80), name.data);
        struct nf_str dialect = nf_str_n(name.data, (size_t)(dot - name.data));
        if (nf_str_eq_c(dialect, "stablehlo") || nf_str_eq_c(dialect, "chlo") || nf_str_eq_c(dialect, "func") || nf_str_eq_c(dialect, "builtin"))
            return hlo__parse_fail_at(p, name.data, NF_EUNSUPPORTED, "there is no operation '%.*s'", (int)NF_MIN(name.len, (size_t)80), name.data);
    }
    if (!parse_expect(p, '(') || !hlo__parse_operands(p) || !parse_expect(p, ')'))
        return false;
    if (parse_peek(p) == '[')
        return hlo__parse_fail_at(p, p->at, NF_EUNSUPPORTED, "operations with successors are not supported");
    if (parse_accept(p, '<') && (!parse_op_dict(p, b) || !parse_expect(p, '>')))
        return false;
    if (parse_accept(p, '(')) {
        do {
            if (!hlo__parse_region(p, b, NULL, 0, (b->info->traits & HLO_T_ISOLATED) != 0))
                return false;
        } while (parse_accept(p, ','));
        if (!parse_expect(p, ')'))
            return false;
    }
    if (parse_peek(p) == '{' && !parse_op_dict(p, b))
        return false;
    if (!parse_expect(p, ':'))
        return false;
    parse_space(p);
    const char *where = p->at;
    if (parse_peek(p) != '(')
        return hlo__parse_wrong(p, "a function type");
    uint32_t base = p->num_types;
    if (!hlo__parse_type_list_paren(p))
        return false;
    if (!hlo__parse_check_types(p, b, p->types + base, p->num_types - base, where))
        return false;
    p->num_types = base;
    return hlo__parse_expect_str(p, "->") && hlo__parse_type_list_paren(p);
}

static bool parse_result_names(struct hlo_parser *p)
{
    do {
        struct nf_str name;
        uint64_t count = 1;
        if (parse_peek(p) != '%')
            return hlo__parse_wrong(p, "an SSA name");
        p->at++;
        if (!hlo__parse_suffix_id(p, &name))
            return false;
        if (parse_accept(p, ':')) {
            parse_space(p);
            const char *where = p->at;
            if (!hlo__parse_u64_at(p, &count))
                return false;
            if (count == 0 || count > 1u << 20)
                return hlo__parse_fail_at(p, where, NF_EGRAPH, "expected named operation to have at least 1 result");
        }
        PARSE_PUSH(p, results, num_results, cap_results);
        p->results[p->num_results++] = (struct parse_result_name){name, (uint32_t)count};
    } while (parse_accept(p, ','));
    return parse_expect(p, '=');
}

static bool parse_operation(struct hlo_parser *p, struct hlo_block *block)
{
    const struct hlo_attr *slots[PARSE_MAX_SLOTS];
    struct parse_op b = {.slots = slots, .values = p->num_values, .types = p->num_types, .named = p->num_named, .results = p->num_results};
    if (parse_peek(p) == '%' && !parse_result_names(p))
        return false;
    char c = parse_peek(p);
    b.pos = (uint32_t)(p->at - p->begin);
    if (c == '"')
        return parse_generic(p, &b) && finish(p, &b, block);
    struct nf_str w = hlo__parse_peek_word(p);
    if (!w.len)
        return hlo__parse_wrong(p, "an operation");
    b.name = w;
    enum hlo_op_id id = hlo_op_find(w);
    if (id == HLO_OP_UNKNOWN) {
        if (nf_str_eq_c(w, "return"))
            id = HLO_OP_FUNC_RETURN;
        else if (nf_str_eq_c(w, "call"))
            id = HLO_OP_CALL;
        else if (nf_str_eq_c(w, "func"))
            id = HLO_OP_FUNC;
        else if (nf_str_eq_c(w, "module"))
            id = HLO_OP_MODULE;
        else
            return hlo__parse_fail_at(p, p->at, NF_EUNSUPPORTED, "custom op '%.*s' is unknown", (int)NF_MIN(w.len, (size_t)80), w.data);
    }
    set_row(&b, id);
    p->at += w.len;
    /* quantised constants are printed as "stablehlo.constant() <{..}> : .." and others keep their form */
    return hlo__parse_form(p, &b) && finish(p, &b, block);
}

/* ---- the file ---- */

static bool parse_top(struct hlo_parser *p)
{
    struct hlo_block *block = hlo_module_block(p->m);
    for (;;) {
        char c = parse_peek(p);
        if (p->at >= p->end)
            break;
        if ((c == '#' || c == '!') && p->end - p->at > 1) {
            const char *start = p->at++;
            struct nf_str name;
            if (!hlo__parse_suffix_id(p, &name))
                return false;
            if (!parse_expect(p, '='))
                return false;
            if (memchr(name.data, '.', name.len))
                return hlo__parse_fail_at(p, start, NF_EGRAPH, "an alias name has no '.'");
            if (!hlo__parse_alias_value(p, c, name))
                return false;
            continue;
        }
        if (hlo__parse_starts(p, "{-#")) {
            const char *e = memmem(p->at, (size_t)(p->end - p->at), "#-}", 3);
            if (!e)
                return hlo__parse_fail_at(p, p->at, NF_EGRAPH, "the resource block does not end");
            p->at = e + 3;
            continue;
        }
        if (!parse_operation(p, block))
            return false;
    }
    /* a lone module is the module; other operations stand in an implicit one */
    if (block->first && block->first == block->last && block->first->id == HLO_OP_MODULE) {
        struct hlo_op *inner = block->first;
        hlo_op_remove(inner);
        p->m->op = inner;
        if (!inner->regions[0]->first)
            hlo_block_new(p->m, inner->regions[0]);
    }
    return true;
}

int hlo_parse_section(struct nf_str text, uint32_t first_line, const struct hlo_limits *limits, struct nf_arena *arena,
                      struct hlo_module **ret_module, struct nf_error *err)
{
    if (!limits)
        limits = &hlo_limits_default;
    if (text.len > limits->input_bytes || text.len > UINT32_MAX)
        return nf_fail(err, NF_ELIMIT, "the text of %zu bytes is over the limit of %zu", text.len, limits->input_bytes);
    static const char nothing[1] = "";
    struct hlo_parser p = {.begin = text.data ? text.data : nothing, .arena = arena, .limits = limits, .err = err};
    p.at = p.begin;
    p.end = p.begin + text.len;
    p.m = hlo_module_new(arena);
    p.m->source = HLO_SOURCE_TEXT;
    p.m->text = text;
    p.m->first_line = first_line;
    p.scratch = nf_arena_new(0);
    nf_random(&p.seed, sizeof p.seed);
    p.cap_values = p.cap_types = p.cap_named = p.cap_results = p.cap_ints = 64; /* never NULL, whatever offset 0 is taken of */
    p.values = NF_NEW_ARRAY(p.scratch, struct hlo_value *, 64);
    p.types = NF_NEW_ARRAY(p.scratch, const struct hlo_type *, 64);
    p.named = NF_NEW_ARRAY(p.scratch, struct hlo_named, 64);
    p.results = NF_NEW_ARRAY(p.scratch, struct parse_result_name, 64);
    p.ints = NF_NEW_ARRAY(p.scratch, int64_t, 64);
    p.aliases = nf_map_new(false);
    p.resources = nf_map_new(false);
    bool ok = parse_top(&p);
    if (ok && nf_arena_over(arena)) {
        ok = false;
        p.code = nf_fail(err, NF_ELIMIT, "the module needs more memory than its limit");
        hlo_limit_hint(limits, "max_graph_memory", err);
    }
    nf_map_free(p.aliases);
    nf_map_free(p.resources);
    free(p.names);
    nf_arena_free(p.scratch);
    if (!ok)
        return p.code;
    *ret_module = p.m;
    return 0;
}

int hlo_parse(struct nf_str text, const struct hlo_limits *limits, struct nf_arena *arena, struct hlo_module **ret_module, struct nf_error *err)
{
    return hlo_parse_section(text, 1, limits, arena, ret_module, err);
}

int hlo_parse_attr(struct hlo_module *m, struct nf_str text, const struct hlo_attr **ret_attr, struct nf_error *err)
{
    if (text.len > UINT32_MAX || text.len == 0)
        return nf_fail(err, NF_EGRAPH, "an attribute of %zu bytes", text.len);
    struct hlo_parser p = {.begin = text.data, .at = text.data, .end = text.data + text.len, .m = m, .arena = m->arena, .limits = &hlo_limits_default, .err = err};
    const struct hlo_attr *a;
    p.scratch = nf_arena_new(0);
    nf_random(&p.seed, sizeof p.seed);
    p.cap_values = p.cap_types = p.cap_named = p.cap_results = p.cap_ints = 64; /* never NULL, whatever offset 0 is taken of */
    p.values = NF_NEW_ARRAY(p.scratch, struct hlo_value *, 64);
    p.types = NF_NEW_ARRAY(p.scratch, const struct hlo_type *, 64);
    p.named = NF_NEW_ARRAY(p.scratch, struct hlo_named, 64);
    p.results = NF_NEW_ARRAY(p.scratch, struct parse_result_name, 64);
    p.ints = NF_NEW_ARRAY(p.scratch, int64_t, 64);
    p.aliases = nf_map_new(false);
    p.resources = nf_map_new(false);
    bool ok = hlo__parse_attr(&p, &a);
    if (ok && parse_peek(&p)) {
        ok = false;
        p.code = nf_fail(err, NF_EGRAPH, "text behind an attribute");
    }
    nf_map_free(p.aliases);
    nf_map_free(p.resources);
    free(p.names);
    nf_arena_free(p.scratch);
    if (!ok)
        return p.code;
    *ret_attr = a;
    return 0;
}
