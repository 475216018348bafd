/* verify.c: the constraints that hold for every operation: number and classes of operands and results, attributes, regions,
 * traits, dominance of uses, terminators. What is special about an operation is in verify_*.c.
 *
 * Every message names the operation, its place, the rule and the types involved. */
#include "pipeline/hlo/verify_internal.h"

#include "pipeline/hlo/spec_internal.h"

#include <stdarg.h>

int hlo__verify_fail(struct hlo_verifier *v, const struct hlo_op *op, const char *fmt, ...)
{
    if (v->code)
        return v->code;
    v->code = NF_EGRAPH;
    if (v->err) {
        char text[700], where[64];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        struct nf_str name = hlo_op_name(op);
        nf_fail(v->err, NF_EGRAPH, "'%.*s' op %s", (int)NF_MIN(name.len, (size_t)80), name.data, text);
        nf_error_location(v->err, "%s", hlo_op_where(v->m, op, where, sizeof where));
    }
    return v->code;
}

const char *hlo__type_text(struct hlo_verifier *v, const struct hlo_type *t)
{
    struct nf_buf b = NF_BUF_INIT;
    if (!t)
        return "nothing";
    hlo_type_print(t, &b);
    const char *s = nf_arena_printf(v->m->arena, "%.160s", b.data ? b.data : "");
    nf_buf_done(&b);
    return s;
}

const char *hlo__ints_text(struct hlo_verifier *v, struct hlo_ints i)
{
    char text[200];
    size_t at = 0;
    text[0] = 0;
    for (size_t k = 0; k < i.n && at < sizeof text - 24; k++) {
        int n = i.v[k] == HLO_DYNAMIC ? snprintf(text + at, sizeof text - at, "%s?", k ? ", " : "")
                                      : snprintf(text + at, sizeof text - at, "%s%lld", k ? ", " : "", (long long)i.v[k]);
        at += (size_t)n;
    }
    return nf_arena_printf(v->m->arena, "[%s]", text);
}

/* ---- classes of types ---- */

static bool elem_in(char letter, const struct hlo_type *t)
{
    enum hlo_elem_class c = hlo_elem_class(t->elem);
    bool boolean = c == HLO_CLASS_BOOL, integer = c == HLO_CLASS_SINT || c == HLO_CLASS_UINT, fp = c == HLO_CLASS_FLOAT && t->elem != HLO_ELEM_TF32,
         complex = c == HLO_CLASS_COMPLEX, quant = c == HLO_CLASS_QUANT;
    switch (letter) {
    case 'a':
    case 'o':
        return boolean || integer || fp || complex || quant;
    case 'p':
        return boolean;
    case 'b':
        return boolean || integer;
    case 'i':
        return integer || c == HLO_CLASS_INDEX;
    case 'f':
        return fp;
    case 'g':
        return fp || complex;
    case 'q':
        return fp || complex || quant;
    case 'h':
        return t->elem == HLO_ELEM_F32 || t->elem == HLO_ELEM_F64;
    case 'c':
        return complex;
    case 'r':
        return fp || quant;
    case 'u':
        return quant;
    case 'n':
        return integer || fp || complex || quant;
    case 'm':
        return c == HLO_CLASS_SINT || fp || complex || quant;
    case 'x':
        return boolean || integer || fp || complex;
    case 'd':
        return integer || c == HLO_CLASS_INDEX;
    case 's':
        return integer;
    default:
        return false;
    }
}

static const char *class_name(char letter)
{
    switch (letter >= 'A' && letter <= 'Z' ? letter + 'a' - 'A' : letter) {
    case 'a': return "a ranked tensor of bool, integer, float, complex or quantized values";
    case 'o': return "a tensor of bool, integer, float, complex or quantized values";
    case 'p': return "a ranked tensor of bool values";
    case 'b': return "a ranked tensor of bool or integer values";
    case 'i': return "a ranked tensor of integer values";
    case 'f': return "a ranked tensor of float values";
    case 'g': return "a ranked tensor of float or complex values";
    case 'q': return "a ranked tensor of float, complex or quantized values";
    case 'h': return "a ranked tensor of f32 or f64 values";
    case 'c': return "a ranked tensor of complex values";
    case 'r': return "a ranked tensor of float or quantized values";
    case 'u': return "a ranked tensor of quantized values";
    case 'n': return "a ranked tensor of integer, float, complex or quantized values";
    case 'm': return "a ranked tensor of signed integer, float, complex or quantized values";
    case 'x': return "a ranked tensor of bool, integer, float or complex values";
    case 'd': return "a 1-dimensional tensor of integer or index values";
    case 's': return "a 0-dimensional tensor of integer values";
    case 'k': return "a token";
    case 't': return "a tuple";
    case 'w': return "a future";
    case 'z': return "a ranked tensor or a token";
    default: return "a value";
    }
}

static bool tuple_is_fine(const struct hlo_type *t, unsigned depth)
{
    for (uint32_t i = 0; i < t->num_types; i++) {
        const struct hlo_type *e = t->types[i];
        if (depth > 64)
            return false;
        if (e->kind == HLO_TYPE_TUPLE ? !tuple_is_fine(e, depth + 1)
                                      : !(e->kind == HLO_TYPE_TOKEN || ((e->kind == HLO_TYPE_TENSOR || e->kind == HLO_TYPE_UNRANKED || e->kind == HLO_TYPE_MEMREF))))
            return false;
    }
    return true;
}

/* An axis that exists, with as many scales as it is long; zero points that can be stored. */
static bool quant_is_fine(const struct hlo_type *t)
{
    const struct hlo_quant *q = t->quant;
    for (size_t i = 0; i < q->count; i++)
        if (q->zero_points[i] < q->storage_min || q->zero_points[i] > q->storage_max)
            return false;
    if (!q->per_axis || t->kind == HLO_TYPE_UNRANKED)
        return true;
    return q->axis < (int64_t)t->rank && (t->dims[q->axis] == HLO_DYNAMIC || (uint64_t)t->dims[q->axis] == q->count);
}

bool hlo__type_is(char letter, const struct hlo_type *t)
{
    bool axis = letter >= 'A' && letter <= 'Z';
    if (axis)
        letter = (char)(letter + 'a' - 'A');
    if (letter != 'v' && t->kind <= HLO_TYPE_UNRANKED && t->elem == HLO_ELEM_QUANT && (!quant_is_fine(t) || (t->quant->per_axis && !axis)))
        return false;
    switch (letter) {
    case 'v':
        return true;
    case 'k':
        return t->kind == HLO_TYPE_TOKEN;
    case 't':
        return t->kind == HLO_TYPE_TUPLE && tuple_is_fine(t, 0);
    case 'w':
        return t->kind == HLO_TYPE_FUTURE;
    case 'z':
        return t->kind == HLO_TYPE_TOKEN || (t->kind == HLO_TYPE_TENSOR && elem_in('a', t));
    case 'o':
        return (t->kind == HLO_TYPE_TENSOR || t->kind == HLO_TYPE_UNRANKED) && elem_in('o', t);
    case 'd':
        return t->kind == HLO_TYPE_TENSOR && t->rank == 1 && elem_in('d', t);
    case 's':
        return t->kind == HLO_TYPE_TENSOR && t->rank == 0 && elem_in('s', t);
    default:
        return t->kind == HLO_TYPE_TENSOR && elem_in(letter, t);
    }
}

/* ---- compatibility ---- */

bool hlo__dims_compatible(const struct hlo_type *a, const struct hlo_type *b)
{
    if (a->kind == HLO_TYPE_UNRANKED || b->kind == HLO_TYPE_UNRANKED)
        return true;
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != HLO_DYNAMIC && b->dims[i] != HLO_DYNAMIC && a->dims[i] != b->dims[i])
            return false;
        /* a bound is an upper limit of what the other says */
        int64_t ab = a->bounds ? a->bounds[i] : HLO_DYNAMIC, bb = b->bounds ? b->bounds[i] : HLO_DYNAMIC;
        if ((ab != HLO_DYNAMIC && b->dims[i] != HLO_DYNAMIC && b->dims[i] > ab) || (bb != HLO_DYNAMIC && a->dims[i] != HLO_DYNAMIC && a->dims[i] > bb))
            return false;
    }
    return true;
}

static bool quant_close(const struct hlo_quant *a, const struct hlo_quant *b)
{
    return a->storage == b->storage && a->expressed == b->expressed && a->storage_min == b->storage_min && a->storage_max == b->storage_max;
}

bool hlo__elem_compatible(const struct hlo_type *a, const struct hlo_type *b, bool loose_quant)
{
    if (a->elem != b->elem)
        return false;
    if (a->elem == HLO_ELEM_QUANT)
        return loose_quant ? quant_close(a->quant, b->quant) : hlo__quant_eq(a->quant, b->quant);
    return a->elem != HLO_ELEM_OTHER || nf_str_eq(a->text, b->text);
}

bool hlo__type_compatible(const struct hlo_type *a, const struct hlo_type *b)
{
    if (a == b)
        return true;
    bool shaped_a = a->kind <= HLO_TYPE_MEMREF, shaped_b = b->kind <= HLO_TYPE_MEMREF;
    if (shaped_a && shaped_b) {
        if ((a->kind == HLO_TYPE_MEMREF) != (b->kind == HLO_TYPE_MEMREF))
            return false;
        return hlo__elem_compatible(a, b, true) && hlo__dims_compatible(a, b);
    }
    if (a->kind != b->kind || a->num_types != b->num_types || a->num_inputs != b->num_inputs)
        return false;
    if (a->kind == HLO_TYPE_TUPLE || a->kind == HLO_TYPE_FUTURE) {
        for (uint32_t i = 0; i < a->num_types; i++)
            if (!hlo__type_compatible(a->types[i], b->types[i]))
                return false;
        return true;
    }
    return false;
}

/* ---- one operation ---- */

/* hlo__type_is, remembered: there are few types. */
static bool fits(struct hlo_verifier *v, char letter, const struct hlo_type *t)
{
    uint64_t bit = (uint64_t)1 << (letter - 'A');
    if (t->id >= v->num_fits) /* made by an inference */
        return hlo__type_is(letter, t);
    if (!(v->fits[t->id] & bit) && hlo__type_is(letter, t))
        v->fits[t->id] |= bit;
    return (v->fits[t->id] & bit) != 0;
}

static int check_signature(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_op_info *info, bool results)
{
    const char *sig = results ? info->results : info->operands, *what = results ? "result" : "operand";
    uint32_t n = results ? op->num_results : op->num_operands, at = 0, fixed = (uint32_t)(results ? info->min_results : info->min_operands);
    for (const char *s = sig; *s; s++) {
        char letter = *s;
        uint32_t times = 1;
        if (s[1] == '*') {
            times = n >= fixed ? n - fixed : 0;
            s++;
        } else if (s[1] == '?') {
            times = n > fixed;
            s++;
        }
        for (; times && at < n; times--, at++) {
            const struct hlo_type *t = results ? op->results[at].type : op->operands[at].value->type;
            if (!fits(v, letter, t))
                return hlo__verify_fail(v, op, "%s #%u must be %s, but got '%s'", what, at, class_name(letter), hlo__type_text(v, t));
        }
    }
    return 0;
}

static int check_attrs(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_op_info *info)
{
    for (int i = 0; i < info->num_attrs; i++) {
        if (!op->attrs[i]) {
            if (info->attrs[i].required)
                return hlo__verify_fail(v, op, "requires attribute '%s'", info->attrs[i].name);
            continue;
        }
        if (!hlo__spec_fits(info->attrs[i].kind, op->attrs[i]))
            return hlo__verify_fail(v, op, "attribute '%s' must be %s", info->attrs[i].name, hlo__spec_wants(info->attrs[i].kind));
        if (info->attrs[i].kind == HLO_AK_ACCURACY && hlo__accuracy_wrong(op->attrs[i]->accuracy))
            return hlo__verify_fail(v, op, "%s", hlo__accuracy_wrong(op->attrs[i]->accuracy));
    }
    return 0;
}

static int check_traits(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_op_info *info)
{
    uint32_t t = info->traits;
    if (!(t & (HLO_T_SAME_TYPE | HLO_T_SAME_SHAPE | HLO_T_SAME_ELEM)) || op->num_operands + op->num_results < 2)
        return 0;
    const struct hlo_type *first = op->num_operands ? op->operands[0].value->type : op->results[0].type;
    for (uint32_t i = 0; i < op->num_operands + op->num_results; i++) {
        const struct hlo_type *o = i < op->num_operands ? op->operands[i].value->type : op->results[i - op->num_operands].type;
        if (o == first || o->kind > HLO_TYPE_MEMREF || first->kind > HLO_TYPE_MEMREF)
            continue;
        if (!hlo__dims_compatible(first, o))
            return hlo__verify_fail(v, op, "requires compatible shapes of all operands and results: '%s' and '%s'", hlo__type_text(v, first), hlo__type_text(v, o));
        if ((t & (HLO_T_SAME_TYPE | HLO_T_SAME_ELEM)) && !hlo__elem_compatible(first, o, true))
            return hlo__verify_fail(v, op, "requires the same element type for all operands and results: '%s' and '%s'", hlo__type_text(v, first), hlo__type_text(v, o));
    }
    return 0;
}

static int check_regions(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_op_info *info)
{
    if (info->regions >= 0 && op->num_regions != info->regions)
        return hlo__verify_fail(v, op, "requires %d region%s, but has %u", info->regions, info->regions == 1 ? "" : "s", op->num_regions);
    if (op->id == HLO_OP_FUNC || op->id == HLO_OP_MODULE || op->id == HLO_OP_UNKNOWN)
        return 0;
    for (uint16_t r = 0; r < op->num_regions; r++) {
        const struct hlo_block *b = op->regions[r]->first;
        if (!b)
            return hlo__verify_fail(v, op, "region #%u must not be empty", r);
        if (b->next)
            return hlo__verify_fail(v, op, "region #%u must have exactly one block", r);
        enum hlo_op_id want = op->id == HLO_OP_SDY_MANUAL_COMPUTATION ? HLO_OP_SDY_RETURN : HLO_OP_RETURN;
        if (!b->last || b->last->id != want)
            return hlo__verify_fail(v, op, "region #%u must end with %s", r, hlo_op_info(want)->name);
    }
    return 0;
}

static int check_infer(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_op_info *info)
{
    const struct hlo_type *few[8], **types = few;
    if (op->num_results > 8)
        types = NF_NEW_ARRAY(v->m->arena, const struct hlo_type *, op->num_results);
    for (uint32_t i = 0; i < op->num_results; i++)
        types[i] = NULL;
    int rc = info->infer(v, op, types);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < op->num_results; i++)
        if (types[i] && !hlo__type_compatible(types[i], op->results[i].type))
            return hlo__verify_fail(v, op, "inferred type '%s' is incompatible with the type of result #%u, '%s'", hlo__type_text(v, types[i]), i,
                                    hlo__type_text(v, op->results[i].type));
    return 0;
}

int hlo__verify_op(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    int rc;
    if (op->id == HLO_OP_UNKNOWN)
        return 0;
    if ((int)op->num_operands < info->min_operands || (info->max_operands >= 0 && (int)op->num_operands > info->max_operands))
        return hlo__verify_fail(v, op, "expected %s%d operands, but found %u", info->max_operands < 0 ? "at least " : "", info->min_operands, op->num_operands);
    if ((int)op->num_results < info->min_results || (info->max_results >= 0 && (int)op->num_results > info->max_results))
        return hlo__verify_fail(v, op, "expected %s%d results, but found %u", info->max_results < 0 ? "at least " : "", info->min_results, op->num_results);
    if ((rc = check_signature(v, op, info, false)) || (rc = check_signature(v, op, info, true)) || (rc = check_attrs(v, op, info)) ||
        (rc = check_regions(v, op, info)) || (rc = check_traits(v, op, info)))
        return rc;
    if (info->infer && (rc = check_infer(v, op, info)))
        return rc;
    return info->verify ? info->verify(v, op) : 0;
}

/* Operations that end a block stand only there, and nothing else does where one is due. */
static int check_place(struct hlo_verifier *v, const struct hlo_op *op)
{
    const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)op->id);
    if ((info->traits & HLO_T_TERMINATOR) && op->next)
        return hlo__verify_fail(v, op, "must be the last operation in its block");
    return 0;
}

/* A use must stand behind its definition; in text the parser sees to it, builders can get it wrong. Values are marked when defined
 * in the order of the walk, which is the order of dominance for single blocks; those of a region that was left are out of sight
 * because nothing outside can name them unless a builder did. */
static int check_dominance(struct hlo_verifier *v, const struct hlo_op *op, uint8_t *seen)
{
    for (uint32_t i = 0; i < op->num_operands; i++) {
        const struct hlo_value *o = op->operands[i].value;
        if (!o)
            return hlo__verify_fail(v, op, "operand #%u is missing", i);
        if (o->id >= v->m->num_values || !seen[o->id])
            return hlo__verify_fail(v, op, "operand #%u does not dominate this use", i);
    }
    for (uint16_t r = 0; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r])
            for (uint32_t i = 0; i < b->num_args; i++)
                seen[b->args[i]->id] = 1;
    for (uint32_t i = 0; i < op->num_results; i++)
        seen[op->results[i].id] = 1;
    return 0;
}

/* The operands of what stands in the regions of op, before rules look into them. */
static int check_inside(struct hlo_verifier *v, const struct hlo_op *op)
{
    if (!op->num_regions || op->id == HLO_OP_FUNC || op->id == HLO_OP_MODULE)
        return 0;
    for (uint16_t r = 0; r < op->num_regions; r++)
        HLO_FOR_BLOCKS(b, op->regions[r]) {
            HLO_FOR_OPS(inner, b) {
                for (uint32_t i = 0; i < inner->num_operands; i++)
                    if (!inner->operands[i].value)
                        return hlo__verify_fail(v, inner, "operand #%u is missing", i);
            }
        }
    return 0;
}

int hlo_verify(struct hlo_module *m, struct nf_error *err)
{
    struct hlo_verifier v = {.m = m, .err = err, .scratch = nf_arena_new(0)};
    uint8_t *seen = nf_arena_alloc(v.scratch, (size_t)m->num_values + 1);
    v.num_fits = m->tables->num_types;
    v.fits = NF_NEW_ARRAY(v.scratch, uint64_t, v.num_fits + 1);
    int rc = hlo__verify_op(&v, m->op);
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; !rc && (op = hlo_walk_next(&w));) {
        rc = check_dominance(&v, op, seen);
        if (!rc)
            rc = check_inside(&v, op);
        if (!rc)
            rc = check_place(&v, op);
        if (!rc)
            rc = hlo__verify_op(&v, op);
    }
    nf_arena_free(v.scratch);
    return rc;
}
