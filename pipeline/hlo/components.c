/* components.c: key and explanation material from the canonical form.
 *
 * The key is SHA-256 over a version word and the canonical print in which every constant above 32 bytes stands as the SHA-256 of
 * its bytes (and its type), so that large constants are hashed once and never spelled out. */
#include "pipeline/hlo/hlo_internal.h"
#include "pipeline/hlo/print_internal.h"

#define KEY_VERSION "neffd stablehlo canonical 1"

/* Over the version word and the text with its cuts replaced, each preceded by its length. */
static struct nf_digest key_of(struct nf_str text, const struct print_key *key)
{
    struct nf_sha256 s;
    size_t len = text.len, at = 0;
    for (size_t i = 0; i < key->num_cuts; i++)
        len = len - key->cuts[i].len + key->cuts[i].text_len;
    nf_sha256_init(&s);
    nf_sha256_add_field(&s, NF_STR(KEY_VERSION));
    nf_sha256_add_u64(&s, len);
    for (size_t i = 0; i < key->num_cuts; i++) {
        nf_sha256_add(&s, text.data + at, key->cuts[i].from - at);
        nf_sha256_add(&s, key->cuts[i].text, key->cuts[i].text_len);
        at = key->cuts[i].from + key->cuts[i].len;
    }
    nf_sha256_add(&s, text.data + at, text.len - at);
    return nf_sha256_end(&s);
}

int hlo_print_canonical(const struct hlo_module *m, struct nf_buf *out, struct nf_digest *ret_key)
{
    struct print_key key = {0};
    size_t from = out->len;
    int rc = hlo__print_module_to(m, HLO_CANONICAL, false, ret_key ? &key : NULL, out);
    for (size_t i = 0; i < key.num_cuts; i++)
        key.cuts[i].from -= from;
    if (!rc && ret_key)
        *ret_key = key_of(nf_str_n(out->data + from, out->len - from), &key);
    free(key.cuts);
    return rc;
}

int hlo_key(struct hlo_module *m, struct nf_digest *ret_key, struct nf_error *err)
{
    struct nf_buf text = NF_BUF_INIT;
    struct print_key key = {.only = true};
    int rc = hlo__print_module_to(m, HLO_CANONICAL, false, &key, &text);
    if (!rc)
        *ret_key = key_of(nf_buf_str(&text), &key);
    nf_buf_done(&text);
    return rc ? nf_fail(err, rc, "no memory for the canonical form") : 0;
}

/* The innermost file position of a location, else its name; false if it has neither. */
static bool loc_text(const struct hlo_attr *a, struct nf_buf *out, unsigned depth)
{
    if (!a || a->kind != HLO_ATTR_LOCATION || depth > 64)
        return false;
    const struct hlo_loc *l = a->loc;
    switch (l->kind) {
    case HLO_LOC_UNKNOWN:
        return false;
    case HLO_LOC_FILE:
        nf_buf_add_str(out, l->name);
        nf_buf_addf(out, ":%u:%u", l->line, l->col);
        return true;
    case HLO_LOC_NAME:
        if (l->num_children && loc_text(l->children[0], out, depth + 1))
            return true;
        nf_buf_add_str(out, l->name);
        return true;
    case HLO_LOC_CALLSITE:
    case HLO_LOC_FUSED:
        for (uint32_t i = 0; i < l->num_children; i++)
            if (loc_text(l->children[i], out, depth + 1))
                return true;
        return false;
    }
    return false;
}

static struct nf_str keep(struct hlo_module *m, struct nf_buf *b)
{
    struct nf_str s = nf_arena_str(m->arena, nf_buf_str(b));
    nf_buf_clear(b);
    return s;
}

static struct hlo_value_component value_component(struct hlo_module *m, const struct hlo_type *t, const struct hlo_attr *dicts, uint32_t i, struct nf_buf *b)
{
    hlo_type_print(t, b);
    if (dicts && dicts->kind == HLO_ATTR_ARRAY && i < dicts->array.n && dicts->array.v[i]->kind == HLO_ATTR_DICT && dicts->array.v[i]->dict.n) {
        nf_buf_add_char(b, ' ');
        hlo_attr_print(dicts->array.v[i], b);
    }
    struct hlo_value_component c = {.text = keep(m, b)};
    c.digest = nf_digest_of(c.text.data, c.text.len);
    return c;
}

/* "stablehlo.add %1, %2 {a = 1}"; constants without their value. */
static void op_line(const struct hlo_op *op, struct nf_buf *b)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    bool constant = op->id == HLO_OP_CONSTANT || op->id == HLO_OP_CHLO_CONSTANT;
    struct nf_str name = hlo_op_name(op);
    print_put(b, name.data, name.len);
    if (op->id == HLO_OP_FUNC)
        nf_buf_addf(b, " @%.*s", NF_STR_ARG(hlo_func_name(op)));
    for (uint32_t i = 0; i < op->num_operands; i++) {
        print_put(b, ",", i > 0);
        print_put(b, " %", 2);
        hlo__print_i64(op->operands[i].value->id, b);
    }
    const char *sep = " {";
    for (int i = 0; i < info->num_attrs && op->id != HLO_OP_FUNC; i++) {
        if (!op->attrs[i] || (constant && i == 0))
            continue;
        nf_buf_add_c(b, sep);
        sep = ", ";
        nf_buf_add_c(b, info->attrs[i].name);
        nf_buf_add_c(b, " = ");
        hlo_attr_print(op->attrs[i], b);
    }
    for (uint32_t i = 0; i < op->num_dict; i++) {
        nf_buf_add_c(b, sep);
        sep = ", ";
        hlo__print_dict_body(&op->dict[i], 1, b);
    }
    if (sep[0] == ',')
        nf_buf_add_char(b, '}');
}

/* "%3, %4 = " */
static void op_results(const struct hlo_op *op, struct nf_buf *b)
{
    for (uint32_t i = 0; i < op->num_results && op->id != HLO_OP_FUNC; i++) {
        nf_buf_add_c(b, i ? ", %" : "%");
        hlo__print_i64(op->results[i].id, b);
    }
    if (b->len)
        print_put(b, " = ", 3);
}

/* " : tensor<4xf32>, ..." of the results; a function's are its inputs and outputs, which are components of their own. */
static void op_types(struct hlo_printer *p, const struct hlo_op *op)
{
    for (uint32_t i = 0; i < op->num_results && op->id != HLO_OP_FUNC; i++) {
        nf_buf_add_c(p->out, i ? ", " : " : ");
        hlo__print_type(p, op->results[i].type);
    }
}

static void op_place(const struct hlo_module *m, const struct hlo_op *op, struct nf_buf *b)
{
    if (loc_text(hlo_op_loc(m, op), b, 0))
        return;
    if (m->source == HLO_SOURCE_TEXT) { /* as hlo_op_where says it, for a whole program's operations */
        uint32_t line, col;
        hlo_pos_line(m, op->pos, &line, &col);
        hlo__print_i64(line, b);
        print_put(b, ":", 1);
        hlo__print_i64(col, b);
    } else {
        char where[48];
        nf_buf_add_c(b, hlo_op_where(m, op, where, sizeof where));
    }
}

/* "dense<0.5>", or nothing when it is long. */
static struct nf_str literal_of(struct hlo_module *m, const struct hlo_attr *a, struct nf_buf *b)
{
    if (!a || a->kind != HLO_ATTR_DENSE || (!a->dense.splat && a->dense.raw.len > 32))
        return (struct nf_str){0};
    hlo_attr_print(a, b);
    const char *end = b->len ? memmem(b->data, b->len, "> : ", 4) : NULL;
    size_t len = end ? (size_t)(end - b->data) + 1 : b->len;
    struct nf_str s = len <= 96 ? nf_arena_str(m->arena, nf_str_n(b->data, len)) : (struct nf_str){0};
    nf_buf_clear(b);
    return s;
}

void hlo_components(struct hlo_module *m, struct hlo_components *ret)
{
    struct hlo_components c = {0};
    struct nf_buf b = NF_BUF_INIT;
    struct hlo_printer p = {.m = m, .out = &b};
    const struct hlo_op *entry = hlo_module_entry(m);
    const struct hlo_type *t = entry ? hlo_func_type(entry) : NULL;
    if (t) {
        c.num_inputs = t->num_inputs;
        c.num_outputs = t->num_types - t->num_inputs;
        c.inputs = NF_NEW_ARRAY(m->arena, struct hlo_value_component, c.num_inputs + 1);
        c.outputs = NF_NEW_ARRAY(m->arena, struct hlo_value_component, c.num_outputs + 1);
        for (uint32_t i = 0; i < c.num_inputs; i++)
            c.inputs[i] = value_component(m, t->types[i], hlo_op_attr(entry, HLO_A_arg_attrs), i, &b);
        for (uint32_t i = 0; i < c.num_outputs; i++)
            c.outputs[i] = value_component(m, t->types[t->num_inputs + i], hlo_op_attr(entry, HLO_A_res_attrs), i, &b);
    }
    size_t ops = 0, constants = 0;
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        ops++;
        constants += op->id == HLO_OP_CONSTANT || op->id == HLO_OP_CHLO_CONSTANT;
    }
    c.ops = NF_NEW_ARRAY(m->arena, struct hlo_op_component, ops + 2);
    c.constants = NF_NEW_ARRAY(m->arena, struct hlo_value_component, constants + 1);
    hlo__index_lines(m);
    hlo__print_types_begin(&p);
    /* attributes of the module are the first line */
    op_line(m->op, &b);
    c.ops[c.num_ops++].line = keep(m, &b);
    w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        struct hlo_op_component *o = &c.ops[c.num_ops++];
        op_results(op, &b);
        op_line(op, &b);
        op_types(&p, op);
        o->line = keep(m, &b);
        op_place(m, op, &b);
        o->location = keep(m, &b);
        if (op->id != HLO_OP_CONSTANT && op->id != HLO_OP_CHLO_CONSTANT)
            continue;
        const struct hlo_attr *a = op->attrs[0];
        struct hlo_value_component *k = &c.constants[c.num_constants++];
        hlo_type_print(op->results[0].type, &b);
        k->text = keep(m, &b);
        k->literal = literal_of(m, a, &b);
        if (a && a->kind == HLO_ATTR_DENSE) {
            k->digest = *hlo_attr_digest(m, a);
        } else if (a) {
            hlo_attr_print(a, &b);
            k->digest = nf_digest_of(b.data, b.len);
            nf_buf_clear(&b);
        }
    }
    hlo__print_types_end(&p);
    nf_buf_done(&b);
    *ret = c;
}

struct nf_digest hlo_structure(struct hlo_module *m)
{
    struct nf_buf b = NF_BUF_INIT;
    struct nf_sha256 s;
    nf_sha256_init(&s);
    nf_sha256_add_field(&s, NF_STR(KEY_VERSION));
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op = m->op; op; op = hlo_walk_next(&w)) {
        op_line(op, &b);
        nf_sha256_add_field(&s, nf_buf_str(&b));
        nf_buf_clear(&b);
    }
    nf_buf_done(&b);
    return nf_sha256_end(&s);
}
