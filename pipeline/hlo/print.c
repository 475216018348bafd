/* print.c: modules as text: value names, operations in generic form, regions. Pretty forms are in print_form.c.
 *
 * Names follow MLIR: arguments %arg0.., results %0.., constants %c and %cst, numbers of a nested region begin where those of
 * the region around it end. Recursion is as deep as regions are nested, which readers limit. */
#include "pipeline/hlo/print_internal.h"
#include "pipeline/hlo/spec_internal.h"

/* Prefixes with a meaning; the first two are numbered, the others get a suffix only when taken. */
static const char *const prefixes[] = {"", "arg", "c", "cst", "iterArg", "output_state", "output", "batch_mean", "batch_var", "grad_operand",
                                       "grad_scale", "grad_offset", "values", "indices"};
enum { P_NUMBER, P_ARG, P_C, P_CST, P_ITER, P_OUTPUT_STATE, P_OUTPUT, P_BATCH_MEAN, P_BATCH_VAR, P_GRAD_OPERAND, P_GRAD_SCALE, P_GRAD_OFFSET, P_VALUES, P_INDICES, P_MAX };

struct counters {
    uint32_t number, arg, conflict;
    uint32_t taken;          /* bit per prefix */
};

static void name_as(struct hlo_printer *p, const struct hlo_value *v, uint32_t prefix, struct counters *c)
{
    struct print_name *n = &p->names[v->id];
    n->prefix = prefix;
    if (prefix == P_NUMBER) {
        n->number = c->number++;
    } else if (prefix == P_ARG) {
        n->number = c->arg++;
    } else if (c->taken & 1u << prefix) {
        n->number = c->conflict++;
    } else {
        c->taken |= 1u << prefix;
        n->number = UINT32_MAX;
    }
}

/* Named results of an operation; NULL: all under one number. */
static const uint8_t *result_names(const struct hlo_op *op)
{
    static const uint8_t rng[] = {P_OUTPUT_STATE, P_OUTPUT}, training[] = {P_OUTPUT, P_BATCH_MEAN, P_BATCH_VAR},
                         grad[] = {P_GRAD_OPERAND, P_GRAD_SCALE, P_GRAD_OFFSET}, top[] = {P_VALUES, P_INDICES};
    if (op->id == HLO_OP_RNG_BIT_GENERATOR && op->num_results == 2)
        return rng;
    if (op->id == HLO_OP_BATCH_NORM_TRAINING && op->num_results == 3)
        return training;
    if (op->id == HLO_OP_BATCH_NORM_GRAD && op->num_results == 3)
        return grad;
    if (op->id == HLO_OP_CHLO_TOP_K && op->num_results == 2)
        return top;
    return NULL;
}

static bool is_constant(const struct hlo_op *op) { return op->id == HLO_OP_CONSTANT || op->id == HLO_OP_CHLO_CONSTANT || op->id == HLO_OP_ARITH_CONSTANT; }

/* Names everything in a region tree. Regions wait on a list with the counters that stood at the end of the region around them. */
struct pending {
    const struct hlo_region *region;
    struct counters c;
};

/* True if an operation in it has regions. */
static bool name_region(struct hlo_printer *p, const struct hlo_region *r, struct counters *c)
{
    bool loop = r->op->id == HLO_OP_WHILE, nested = false;
    HLO_FOR_BLOCKS(b, r) {
        for (uint32_t i = 0; i < b->num_args; i++)
            name_as(p, b->args[i], loop ? P_ITER : P_ARG, c);
        HLO_FOR_OPS(op, b) {
            const uint8_t *named = result_names(op);
            nested |= op->num_regions > 0;
            if (named) {
                for (uint32_t i = 0; i < op->num_results; i++)
                    name_as(p, &op->results[i], named[i], c);
            } else if (op->num_results == 1 && is_constant(op)) {
                const struct hlo_type *t = op->results[0].type;
                enum hlo_elem_class k = t->kind <= HLO_TYPE_SCALAR ? hlo_elem_class(t->elem) : HLO_CLASS_OTHER;
                bool integer = k == HLO_CLASS_BOOL || k == HLO_CLASS_SINT || k == HLO_CLASS_UINT || k == HLO_CLASS_INDEX;
                name_as(p, &op->results[0], integer ? P_C : P_CST, c);
            } else if (op->num_results) {
                uint32_t number = c->number++;
                for (uint32_t i = 0; i < op->num_results; i++)
                    p->names[op->results[i].id] = (struct print_name){P_NUMBER, number};
            }
        }
    }
    return nested;
}

static void name_all(struct hlo_printer *p)
{
    size_t n = 0, cap = 64;
    struct pending *stack = nf_alloc_array(cap, sizeof *stack);
    stack[n++].region = p->m->op->regions[0];
    while (n) {
        struct pending at = stack[--n];
        if (!name_region(p, at.region, &at.c))
            continue;
        HLO_FOR_BLOCKS(b, at.region) {
            HLO_FOR_OPS(op, b) {
                bool isolated = op->id == HLO_OP_FUNC || op->id == HLO_OP_MODULE || op->id == HLO_OP_ASYNC_START;
                for (uint16_t r = 0; r < op->num_regions; r++) {
                    if (!op->regions[r]->first)
                        continue;
                    if (n == cap)
                        stack = nf_realloc(stack, (cap *= 2) * sizeof *stack);
                    stack[n].region = op->regions[r];
                    stack[n++].c = isolated ? (struct counters){0} : at.c;
                }
            }
        }
    }
    free(stack);
}

/* ---- pieces ---- */

static void print_name_of(struct hlo_printer *p, const struct hlo_value *v)
{
    const struct print_name *n = &p->names[v->id];
    char text[40], *end = text + sizeof text, *at = end;
    if (n->number != UINT32_MAX) {
        at = print_digits(n->number, end);
        if (n->prefix > P_ARG)
            *--at = '_';
    }
    if (n->prefix != P_NUMBER) {
        const char *prefix = prefixes[n->prefix];
        size_t len = strlen(prefix);
        memcpy(at -= len, prefix, len);
    }
    *--at = '%';
    print_put(p->out, at, (size_t)(end - at));
}

void hlo__print_value(struct hlo_printer *p, const struct hlo_value *v)
{
    if (!v) {
        nf_buf_add_c(p->out, "%<null>");
        return;
    }
    print_name_of(p, v);
    if (!v->is_arg && v->def.op->num_results > 1 && !result_names(v->def.op)) {
        nf_buf_add_char(p->out, '#');
        hlo__print_i64(v->index, p->out);
    }
}

void hlo__print_types_begin(struct hlo_printer *p)
{
    p->num_types = p->m->tables->num_types;
    p->types = nf_alloc_array(p->num_types + 1, sizeof *p->types);
}

void hlo__print_types_end(struct hlo_printer *p)
{
    for (size_t i = 0; i < p->num_types; i++)
        free((char *)p->types[i].data);
    free(p->types);
}

void hlo__print_type(struct hlo_printer *p, const struct hlo_type *t)
{
    if (t->id >= p->num_types) {
        hlo_type_print(t, p->out);
        return;
    }
    if (!p->types[t->id].data) {
        size_t from = p->out->len;
        hlo_type_print(t, p->out);
        if (!p->out->failed)
            p->types[t->id] = nf_str_n(nf_strndup(p->out->data + from, p->out->len - from), p->out->len - from);
        return;
    }
    print_put(p->out, p->types[t->id].data, p->types[t->id].len);
}

/* A large constant where a key is wanted: "dense<sha256:..> : type" in the key. */
static void print_digest(struct hlo_printer *p, const struct hlo_attr *a)
{
    struct print_key *key = p->key;
    char hex[NF_DIGEST_HEX];
    struct print_cut cut = {.from = p->out->len};
    nf_format(cut.text, sizeof cut.text, "dense<%ssha256:%s", a->dense.splat ? "splat " : "", nf_digest_hex(hlo_attr_digest((struct hlo_module *)p->m, a), hex));
    cut.text_len = strlen(cut.text);
    if (key->only) {
        nf_buf_add(p->out, cut.text, cut.text_len);
    } else {
        nf_buf_add_c(p->out, "dense<");
        hlo__print_dense_value(a, p->style == HLO_CANONICAL, p->out);
        cut.len = p->out->len - cut.from;
        if (key->num_cuts == key->cap_cuts) {
            key->cap_cuts = key->cap_cuts ? key->cap_cuts * 2 : 16;
            key->cuts = nf_realloc(key->cuts, key->cap_cuts * sizeof *key->cuts);
        }
        key->cuts[key->num_cuts++] = cut;
    }
    nf_buf_add_c(p->out, "> : ");
    hlo__print_type(p, a->type);
}

void hlo__print_attr(struct hlo_printer *p, const struct hlo_op *op, const struct hlo_attr *a)
{
    if (p->key && a->kind == HLO_ATTR_DENSE && a->dense.raw.len > NF_DIGEST_BYTES) {
        print_digest(p, a);
        return;
    }
    bool chlo = hlo_op_info((enum hlo_op_id)op->id)->dialect == HLO_DIALECT_CHLO;
    hlo__attr_print_in(a, chlo ? "chlo" : "stablehlo", p->style == HLO_CANONICAL, p->out);
}

static void newline(struct hlo_printer *p)
{
    static const char spaces[] = "                                                                ";
    if (p->first) {
        p->first = false;
        return;
    }
    print_put(p->out, "\n", 1);
    for (unsigned n = p->indent; n;) {
        unsigned k = NF_MIN(n, (unsigned)sizeof spaces - 1);
        print_put(p->out, spaces, k);
        n -= k;
    }
}

static void print_loc(struct hlo_printer *p, const struct hlo_attr *loc)
{
    if (!p->locations)
        return;
    nf_buf_add_char(p->out, ' ');
    if (loc)
        hlo_attr_print(loc, p->out);
    else
        nf_buf_add_c(p->out, "loc(unknown)");
}

/* Defaults that the printer leaves out: those of attributes that always have a value. */
static bool elided(const struct hlo_attr_spec *s, const struct hlo_attr *a)
{
    return s->absent && s->kind != HLO_AK_PRECISIONS && s->kind != HLO_AK_A64 && s->kind != HLO_AK_AB && s->kind != HLO_AK_E64 &&
           hlo__spec_default_text(a, s->absent);
}

static void one(struct hlo_printer *p, const struct hlo_op *op, const char **sep, struct nf_str name, const struct hlo_attr *a)
{
    nf_buf_add_c(p->out, *sep);
    *sep = ", ";
    hlo__print_key(name, p->out);
    if (a->kind == HLO_ATTR_UNIT)
        return;
    nf_buf_add_c(p->out, " = ");
    hlo__print_attr(p, op, a);
}

/* Merges slots (not in done, not elided) and dictionary in the order of names. */
static void print_merged(struct hlo_printer *p, const struct hlo_op *op, uint32_t done, bool elide, const char *open, const char *close)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    uint8_t order[16];
    uint32_t n = 0, d = 0;
    for (int i = 0; i < info->num_attrs; i++) {
        if (!op->attrs[i] || done >> i & 1 || (elide && elided(&info->attrs[i], op->attrs[i])))
            continue;
        uint32_t at = n++;
        while (at > 0 && strcmp(info->attrs[order[at - 1]].name, info->attrs[i].name) > 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (uint8_t)i;
    }
    const char *sep = open;
    for (uint32_t i = 0; i < n || d < op->num_dict;) {
        struct nf_str slot = i < n ? nf_str_c(info->attrs[order[i]].name) : (struct nf_str){0};
        if (i < n && (d >= op->num_dict || nf_str_cmp(slot, op->dict[d].name) < 0)) {
            one(p, op, &sep, slot, op->attrs[order[i]]);
            i++;
        } else {
            one(p, op, &sep, op->dict[d].name, op->dict[d].attr);
            d++;
        }
    }
    if (sep != open)
        nf_buf_add_c(p->out, close);
}

void hlo__print_op_dict(struct hlo_printer *p, const struct hlo_op *op, uint32_t done, const char *before)
{
    int attrs = hlo_op_info((enum hlo_op_id)op->id)->num_attrs;
    bool any = op->num_dict > 0;
    for (int i = 0; !any && i < attrs; i++)
        any = op->attrs[i] && !(done >> i & 1);
    if (any) /* most have none */
        print_merged(p, op, done, true, before[1] ? " attributes {" : " {", "}");
}

/* ---- regions ---- */

void hlo__print_region(struct hlo_printer *p, const struct hlo_region *r, bool label)
{
    nf_buf_add_char(p->out, '{');
    p->indent += 2;
    HLO_FOR_BLOCKS(b, r) {
        if (b != r->first || (label && b->num_args)) {
            p->indent -= 2;
            newline(p);
            p->indent += 2;
            uint32_t number = 0;
            for (const struct hlo_block *x = r->first; x != b; x = x->next)
                number++;
            nf_buf_addf(p->out, "^bb%u", number);
            for (uint32_t i = 0; i < b->num_args; i++) {
                nf_buf_add_c(p->out, i ? ", " : "(");
                hlo__print_value(p, b->args[i]);
                nf_buf_add_c(p->out, ": ");
                hlo__print_type(p, b->args[i]->type);
                if (p->locations && b->arg_locs && b->arg_locs[i])
                    print_loc(p, p->m->locs[b->arg_locs[i]]);
            }
            nf_buf_add_c(p->out, b->num_args ? "):" : ":");
        }
        HLO_FOR_OPS(op, b)
            hlo__print_op(p, op);
    }
    p->indent -= 2;
    newline(p);
    nf_buf_add_char(p->out, '}');
}

static void print_type_list(struct hlo_printer *p, const struct hlo_op *op, bool results)
{
    uint32_t n = results ? op->num_results : op->num_operands;
    bool paren = !results || n != 1 || op->results[0].type->kind == HLO_TYPE_FUNCTION;
    if (paren)
        nf_buf_add_char(p->out, '(');
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            nf_buf_add(p->out, ", ", 2);
        hlo__print_type(p, results ? op->results[i].type : op->operands[i].value->type);
    }
    if (paren)
        nf_buf_add_char(p->out, ')');
}

static void print_generic(struct hlo_printer *p, const struct hlo_op *op)
{
    struct nf_str name = hlo_op_name(op);
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    hlo__print_string(name, p->out);
    nf_buf_add_char(p->out, '(');
    for (uint32_t i = 0; i < op->num_operands; i++) {
        if (i)
            nf_buf_add(p->out, ", ", 2);
        hlo__print_value(p, op->operands[i].value);
    }
    nf_buf_add_char(p->out, ')');
    /* inherent attributes as properties, the dictionary behind the regions */
    struct hlo_op only = *op;
    only.num_dict = 0;
    if (info->num_attrs)
        print_merged(p, &only, 0, p->style == HLO_CANONICAL, " <{", "}>");
    if (op->num_regions) {
        nf_buf_add_c(p->out, " (");
        for (uint16_t i = 0; i < op->num_regions; i++) {
            if (i)
                nf_buf_add_c(p->out, ", ");
            hlo__print_region(p, op->regions[i], true);
        }
        nf_buf_add_char(p->out, ')');
    }
    const char *sep = " {";
    for (uint32_t i = 0; i < op->num_dict; i++)
        one(p, op, &sep, op->dict[i].name, op->dict[i].attr);
    if (op->num_dict)
        nf_buf_add_char(p->out, '}');
    nf_buf_add_c(p->out, " : ");
    print_type_list(p, op, false);
    nf_buf_add_c(p->out, " -> ");
    print_type_list(p, op, true);
}

/* ---- module and functions ---- */

static void print_module(struct hlo_printer *p, const struct hlo_op *op)
{
    nf_buf_add_c(p->out, "module");
    struct nf_str name = hlo_op_string(op, HLO_A_sym_name);
    if (name.data && name.len) {
        nf_buf_add_char(p->out, ' ');
        hlo__print_symbol(name, p->out);
    }
    print_merged(p, op, 1, false, " attributes {", "}");
    nf_buf_add_char(p->out, ' ');
    hlo__print_region(p, op->regions[0], false);
}

static void print_arg_dict(struct hlo_printer *p, const struct hlo_op *op, const struct hlo_attr *dicts, uint32_t i)
{
    if (!dicts || i >= dicts->array.n || dicts->array.v[i]->dict.n == 0)
        return;
    nf_buf_add_char(p->out, ' ');
    hlo__print_attr(p, op, dicts->array.v[i]);
}

static bool func_is_regular(const struct hlo_op *op)
{
    const struct hlo_type *t = hlo_func_type(op);
    struct nf_str vis = hlo_op_string(op, HLO_A_sym_visibility);
    const struct hlo_attr *in = hlo_op_attr(op, HLO_A_arg_attrs), *out = hlo_op_attr(op, HLO_A_res_attrs);
    if (!t || t->kind != HLO_TYPE_FUNCTION || !hlo_func_name(op).data || op->num_regions != 1 || op->num_operands || op->num_results)
        return false;
    if (vis.data && !nf_str_eq_c(vis, "public") && !nf_str_eq_c(vis, "private") && !nf_str_eq_c(vis, "nested"))
        return false;
    if ((in && (!hlo__spec_fits(HLO_AK_DICTS, in) || in->array.n != t->num_inputs)) || (out && (!hlo__spec_fits(HLO_AK_DICTS, out) || out->array.n != t->num_types - t->num_inputs)))
        return false;
    struct hlo_block *b = hlo_func_block(op);
    return !b || b->num_args == t->num_inputs;
}

static void print_func(struct hlo_printer *p, const struct hlo_op *op)
{
    const struct hlo_type *t = hlo_func_type(op);
    struct hlo_block *b = hlo_func_block(op);
    struct nf_str vis = hlo_op_string(op, HLO_A_sym_visibility);
    const struct hlo_attr *in = hlo_op_attr(op, HLO_A_arg_attrs), *out = hlo_op_attr(op, HLO_A_res_attrs);
    nf_buf_add_c(p->out, "func.func ");
    if (vis.data) {
        nf_buf_add_str(p->out, vis);
        nf_buf_add_char(p->out, ' ');
    }
    hlo__print_symbol(hlo_func_name(op), p->out);
    nf_buf_add_char(p->out, '(');
    for (uint32_t i = 0; i < t->num_inputs; i++) {
        if (i)
            nf_buf_add_c(p->out, ", ");
        if (b) {
            hlo__print_value(p, b->args[i]);
            nf_buf_add_c(p->out, ": ");
        }
        hlo__print_type(p, t->types[i]);
        print_arg_dict(p, op, in, i);
        if (b && p->locations && b->arg_locs && b->arg_locs[i])
            print_loc(p, p->m->locs[b->arg_locs[i]]);
    }
    nf_buf_add_char(p->out, ')');
    uint32_t results = t->num_types - t->num_inputs;
    if (results) {
        bool plain = results == 1 && !(out && out->array.v[0]->dict.n) && t->types[t->num_inputs]->kind != HLO_TYPE_FUNCTION;
        nf_buf_add_c(p->out, plain ? " -> " : " -> (");
        for (uint32_t i = 0; i < results; i++) {
            if (i)
                nf_buf_add_c(p->out, ", ");
            hlo__print_type(p, t->types[t->num_inputs + i]);
            print_arg_dict(p, op, out, i);
        }
        if (!plain)
            nf_buf_add_char(p->out, ')');
    }
    print_merged(p, op, 31, false, " attributes {", "}");
    if (b) {
        nf_buf_add_char(p->out, ' ');
        hlo__print_region(p, op->regions[0], false);
    }
}

/* Whether what the pretty form needs is there, so that an unverified module prints too. */
static bool is_regular(const struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    if ((int)op->num_operands < info->min_operands || (info->max_operands >= 0 && (int)op->num_operands > info->max_operands) ||
        (int)op->num_results < info->min_results || (info->max_results >= 0 && (int)op->num_results > info->max_results) ||
        (info->regions >= 0 && op->num_regions != info->regions))
        return false;
    for (int i = 0; i < info->num_attrs; i++)
        if (op->attrs[i] ? !hlo__spec_fits(info->attrs[i].kind, op->attrs[i]) : info->attrs[i].required)
            return false;
    return true;
}

void hlo__print_op(struct hlo_printer *p, const struct hlo_op *op)
{
    newline(p);
    if (op->num_results) {
        if (result_names(op)) {
            for (uint32_t i = 0; i < op->num_results; i++) {
                if (i)
                    nf_buf_add(p->out, ", ", 2);
                hlo__print_value(p, &op->results[i]);
            }
        } else {
            print_name_of(p, &op->results[0]);
            if (op->num_results > 1) {
                nf_buf_add_char(p->out, ':');
                hlo__print_i64(op->num_results, p->out);
            }
        }
        print_put(p->out, " = ", 3);
    }
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    size_t mark = p->out->len;
    if (p->style == HLO_GENERIC || info->form == HLO_FORM_GENERIC || !is_regular(op)) {
        print_generic(p, op);
    } else if (op->id == HLO_OP_FUNC) {
        if (func_is_regular(op))
            print_func(p, op);
        else
            print_generic(p, op);
    } else if (op->id == HLO_OP_MODULE) {
        print_module(p, op);
    } else {
        const char *name = info->name;
        if ((op->id == HLO_OP_CALL || op->id == HLO_OP_FUNC_RETURN) && op->block && op->block->region->op->id == HLO_OP_FUNC)
            name = info->mnemonic;
        print_put(p->out, name, strlen(name));
        if (!hlo__print_form(p, op)) {
            p->out->len = mark;
            print_generic(p, op);
        }
    }
    if (p->locations)
        print_loc(p, hlo_op_loc(p->m, op));
}

int hlo__print_module_to(const struct hlo_module *m, enum hlo_style style, bool locations, struct print_key *key, struct nf_buf *out)
{
    struct hlo_printer p = {.m = m, .out = out, .style = style, .locations = locations, .key = key, .first = true};
    hlo__print_types_begin(&p);
    p.names = nf_alloc_array((size_t)m->num_values + 1, sizeof *p.names);
    name_all(&p);
    nf_buf_reserve(out, (size_t)m->num_ops * 64); /* about what it will take: growing copies */
    hlo__print_op(&p, m->op);
    nf_buf_add_char(out, '\n');
    hlo__print_types_end(&p);
    free(p.names);
    return out->failed ? NF_ENOMEM : 0;
}

int hlo_print_with(const struct hlo_module *m, const struct hlo_print_options *o, struct nf_buf *out)
{
    return hlo__print_module_to(m, o->style, o->locations, NULL, out);
}

int hlo_print(const struct hlo_module *m, enum hlo_style style, struct nf_buf *out) { return hlo__print_module_to(m, style, false, NULL, out); }
