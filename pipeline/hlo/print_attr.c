/* print_attr.c: spelling of numbers, strings and attributes, as StableHLO's tools write them. */
#include "pipeline/hlo/hlo_internal.h"
#include "pipeline/hlo/print_internal.h"

#include <math.h>

#define MAX_PRINT_DEPTH 512
#define HEX_ABOVE 100 /* elements: longer constants that are no splat are written in hex */

void hlo__print_i64(int64_t v, struct nf_buf *out)
{
    char text[24], *e = text + sizeof text, *s = print_digits(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, e);
    if (v < 0)
        *--s = '-';
    print_put(out, s, (size_t)(e - s));
}

static void print_u64(uint64_t v, struct nf_buf *out)
{
    char text[24], *e = text + sizeof text, *s = print_digits(v, e);
    print_put(out, s, (size_t)(e - s));
}

void hlo__print_string(struct nf_str s, struct nf_buf *out)
{
    static const char hex[] = "0123456789ABCDEF";
    nf_buf_add_char(out, '"');
    size_t from = 0;
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = (uint8_t)s.data[i];
        if (c >= ' ' && c < 127 && c != '"' && c != '\\')
            continue;
        nf_buf_add(out, s.data + from, i - from);
        from = i + 1;
        if (c == '\\')
            nf_buf_add_c(out, "\\\\");
        else
            nf_buf_add(out, (char[3]){'\\', hex[c >> 4], hex[c & 15]}, 3);
    }
    nf_buf_add(out, s.data + from, s.len - from);
    nf_buf_add_char(out, '"');
}

bool hlo__bare_id(struct nf_str s)
{
    if (!s.len || !((s.data[0] >= 'a' && s.data[0] <= 'z') || (s.data[0] >= 'A' && s.data[0] <= 'Z') || s.data[0] == '_'))
        return false;
    for (size_t i = 1; i < s.len; i++) {
        char c = s.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '.'))
            return false;
    }
    return true;
}

void hlo__print_symbol(struct nf_str s, struct nf_buf *out)
{
    for (;;) { /* nested references: @a::@b */
        const char *sep = s.len > 2 ? memmem(s.data, s.len, "::", 2) : NULL;
        struct nf_str part = sep ? nf_str_n(s.data, (size_t)(sep - s.data)) : s;
        nf_buf_add_char(out, '@');
        if (hlo__bare_id(part))
            nf_buf_add_str(out, part);
        else
            hlo__print_string(part, out);
        if (!sep)
            return;
        nf_buf_add_c(out, "::");
        s = nf_str_n(sep + 2, s.len - part.len - 2);
    }
}

void hlo__print_key(struct nf_str s, struct nf_buf *out)
{
    if (hlo__bare_id(s))
        nf_buf_add_str(out, s);
    else
        hlo__print_string(s, out);
}

void hlo__print_ints(struct hlo_ints v, struct nf_buf *out)
{
    for (size_t i = 0; i < v.n; i++) {
        if (i)
            nf_buf_add(out, ", ", 2);
        hlo__print_i64(v.v[i], out);
    }
}

/* ---- floats ---- */

/* Significand bits of the kind, with the hidden one; decides how many digits name a value. */
static int precision_of(enum hlo_elem e)
{
    if (e == HLO_ELEM_F64)
        return 53;
    if (e == HLO_ELEM_F32 || e == HLO_ELEM_TF32)
        return 24;
    const struct nf_float_format *f = nf_dtype_float_format(hlo_elem_dtype(e));
    return f ? f->man_bits + 1 : 24;
}

static void print_hex_bits(enum hlo_elem e, uint64_t bits, struct nf_buf *out)
{
    nf_buf_addf(out, "0x%llX", (unsigned long long)hlo__mask_bits(e, bits));
}

static bool reads_back(enum hlo_elem e, const char *text, uint64_t bits)
{
    double v;
    return nf_str_to_double(nf_str_c(text), &v) == 0 && hlo_float_encode(e, v) == bits;
}

/* First six significant digits with an exponent; when these do not name the value, as many as its precision needs, in plain
 * notation where few zeros are wanted; infinities and NaN as bit patterns. */
void hlo__print_float(enum hlo_elem e, uint64_t bits, struct nf_buf *out)
{
    double v = hlo_float_decode(e, bits);
    if (!isfinite(v) || hlo_float_encode(e, v) != bits) {
        print_hex_bits(e, bits, out);
        return;
    }
    char text[64], digits[40];
    snprintf(text, sizeof text, "%.5e", v); /* d.ddddde+xx, to which one zero is appended before the 'e' */
    if (reads_back(e, text, bits)) {
        char *exp = strchr(text, 'e');
        nf_buf_add(out, text, (size_t)(exp - text));
        nf_buf_add_char(out, '0');
        nf_buf_add_c(out, exp);
        return;
    }
    int wanted = 2 + precision_of(e) * 59 / 196;
    for (;; wanted++) {
        snprintf(text, sizeof text, "%.*e", wanted - 1, v);
        if (wanted >= 17 || reads_back(e, text, bits))
            break;
    }
    const char *s = text;
    bool negative = *s == '-';
    s += negative;
    int n = 0;
    for (; *s && *s != 'e'; s++)
        if (*s != '.')
            digits[n++] = *s;
    int exp = (int)strtol(s + 1, NULL, 10); /* of the first digit */
    while (n > 1 && digits[n - 1] == '0')
        n--;
    bool scientific = exp >= n - 1 ? exp - (n - 1) > 3 || exp + 1 > wanted : exp < 0 && -exp > 3;
    if (!scientific && exp >= n - 1) { /* a whole number without '.' would read as an integer */
        print_hex_bits(e, bits, out);
        return;
    }
    if (negative)
        nf_buf_add_char(out, '-');
    if (scientific) {
        nf_buf_add_char(out, digits[0]);
        nf_buf_add_char(out, '.');
        if (n == 1)
            nf_buf_add_char(out, '0');
        nf_buf_add(out, digits + 1, (size_t)n - 1);
        nf_buf_addf(out, "E%c%d", exp < 0 ? '-' : '+', exp < 0 ? -exp : exp);
    } else if (exp >= 0) {
        nf_buf_add(out, digits, (size_t)exp + 1);
        nf_buf_add_char(out, '.');
        nf_buf_add(out, digits + exp + 1, (size_t)(n - exp - 1));
    } else {
        nf_buf_add_c(out, "0.");
        for (int i = -1; i > exp; i--)
            nf_buf_add_char(out, '0');
        nf_buf_add(out, digits, (size_t)n);
    }
}

static void print_double(double v, struct nf_buf *out)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    hlo__print_float(HLO_ELEM_F64, bits, out);
}

/* ---- dense ---- */

static void print_element(enum hlo_elem e, const char *p, struct nf_buf *out)
{
    size_t each = hlo_elem_bytes(e);
    uint64_t v = 0, w = 0;
    memcpy(&v, p, NF_MIN(each, (size_t)8));
    switch (hlo_elem_class(e)) {
    case HLO_CLASS_BOOL:
        nf_buf_add_c(out, v & 1 ? "true" : "false");
        return;
    case HLO_CLASS_SINT:
    case HLO_CLASS_INDEX:
        if (each < 8)
            v = (uint64_t)((int64_t)(v << (64 - each * 8)) >> (64 - each * 8));
        hlo__print_i64((int64_t)v, out);
        return;
    case HLO_CLASS_UINT:
        print_u64(v, out);
        return;
    case HLO_CLASS_FLOAT:
        hlo__print_float(e, v, out);
        return;
    case HLO_CLASS_COMPLEX: {
        enum hlo_elem part = hlo_elem_part(e);
        size_t half = each / 2;
        v = 0;
        memcpy(&v, p, half);
        memcpy(&w, p + half, half);
        nf_buf_add_char(out, '(');
        hlo__print_float(part, v, out);
        nf_buf_add_char(out, ',');
        hlo__print_float(part, w, out);
        nf_buf_add_char(out, ')');
        return;
    }
    case HLO_CLASS_QUANT:
    case HLO_CLASS_OTHER:
        return;
    }
}

/* The bytes as hex files hold them: sub-byte kinds without their extension. */
static void print_hex(const struct hlo_attr *a, struct nf_buf *out)
{
    enum hlo_elem e = hlo_type_storage(a->type);
    struct nf_str raw = a->dense.raw;
    nf_buf_add_c(out, "\"0x");
    if (hlo_elem_bits(e) >= 8 || hlo_elem_class(e) != HLO_CLASS_SINT) {
        if (!nf_buf_reserve(out, raw.len * 2 + 1))
            return;
        static const char digits[] = "0123456789ABCDEF";
        char *o = out->data + out->len;
        size_t i = 0;
        for (; i + 4 <= raw.len; i += 4, o += 8) { /* eight digits at once: spread the nibbles, then make them characters */
            uint32_t four;
            memcpy(&four, raw.data + i, 4);
            uint64_t x = four;
            x = (x | x << 16) & 0x0000ffff0000ffffu;
            x = (x | x << 8) & 0x00ff00ff00ff00ffu;
            x = (x >> 4 & 0x000f000f000f000fu) | (x & 0x000f000f000f000fu) << 8;
            uint64_t above = (x + 0x0606060606060606u) >> 4 & 0x0101010101010101u; /* 10 to 15 */
            x += 0x3030303030303030u + above * 7;
            memcpy(o, &x, 8);
        }
        for (; i < raw.len; i++) {
            *o++ = digits[(uint8_t)raw.data[i] >> 4];
            *o++ = digits[(uint8_t)raw.data[i] & 15];
        }
        *o = 0;
        out->len += raw.len * 2;
    } else {
        for (size_t i = 0; i < raw.len; i++)
            nf_buf_addf(out, "%02X", (unsigned)hlo__mask_bits(e, (uint8_t)raw.data[i]));
    }
    nf_buf_add_char(out, '"');
}

void hlo__print_dense_value(const struct hlo_attr *a, bool force_hex, struct nf_buf *out)
{
    const struct hlo_type *t = a->type;
    enum hlo_elem e = hlo_type_storage(t);
    size_t each = hlo_elem_bytes(e);
    uint64_t count;
    if (!hlo_type_count(t, &count) || count == 0 || each == 0)
        return;
    if (a->dense.splat) {
        if (force_hex && hlo_elem_class(e) != HLO_CLASS_BOOL && hlo_elem_class(e) != HLO_CLASS_SINT && hlo_elem_class(e) != HLO_CLASS_UINT) {
            print_hex(a, out);
            return;
        }
        print_element(e, a->dense.raw.data, out);
        return;
    }
    if (count > HEX_ABOVE || (force_hex && count > 8)) {
        print_hex(a, out);
        return;
    }
    /* brackets open and close where a dimension's counter wraps */
    const char *p = a->dense.raw.data;
    for (uint64_t i = 0; i < count; i++, p += each) {
        uint64_t block = 1;
        uint32_t wraps = 0;
        for (uint32_t d = t->rank; d-- > 0;) {
            block *= (uint64_t)t->dims[d];
            if (i % block)
                break;
            wraps++;
        }
        if (i)
            nf_buf_add(out, ", ", 2);
        for (uint32_t k = 0; k < wraps; k++)
            nf_buf_add_char(out, '[');
        print_element(e, p, out);
        block = 1;
        for (uint32_t d = t->rank; d-- > 0;) {
            block *= (uint64_t)t->dims[d];
            if ((i + 1) % block)
                break;
            nf_buf_add_char(out, ']');
        }
    }
}

/* ---- structures ---- */

/* One item of a list in angle brackets: comma before all but the first. */
static void item(struct nf_buf *out, bool *first, const char *key)
{
    if (!*first)
        nf_buf_add(out, ", ", 2);
    *first = false;
    nf_buf_add_c(out, key);
    nf_buf_add(out, " = ", 3);
}

static void list_field(struct nf_buf *out, bool *first, const char *key, struct hlo_ints v)
{
    if (!v.n)
        return;
    item(out, first, key);
    nf_buf_add_char(out, '[');
    hlo__print_ints(v, out);
    nf_buf_add_char(out, ']');
}

static void int_field(struct nf_buf *out, bool *first, const char *key, int64_t v)
{
    if (!v)
        return;
    item(out, first, key);
    hlo__print_i64(v, out);
}

static void print_conv_list(struct nf_buf *out, int64_t a, char a_name, int64_t b, char b_name, struct hlo_ints spatial)
{
    size_t n = spatial.n + 2;
    nf_buf_add_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            nf_buf_add(out, ", ", 2);
        if ((int64_t)i == a) {
            nf_buf_add_char(out, a_name);
        } else if ((int64_t)i == b) {
            nf_buf_add_char(out, b_name);
        } else {
            size_t k = 0;
            while (k < spatial.n && spatial.v[k] != (int64_t)i)
                k++;
            if (k < spatial.n)
                nf_buf_addf(out, "%zu", k);
            else
                nf_buf_add_char(out, '?');
        }
    }
    nf_buf_add_char(out, ']');
}

static bool conv_list_regular(int64_t a, int64_t b, struct hlo_ints spatial)
{
    uint64_t seen = 0;
    int64_t n = (int64_t)spatial.n + 2;
    if (n > 60 || a < 0 || a >= n || b < 0 || b >= n || a == b)
        return false;
    seen = (uint64_t)1 << a | (uint64_t)1 << b;
    for (size_t i = 0; i < spatial.n; i++) {
        if (spatial.v[i] < 0 || spatial.v[i] >= n || seen >> spatial.v[i] & 1)
            return false;
        seen |= (uint64_t)1 << spatial.v[i];
    }
    return true;
}

bool hlo__conv_regular(const struct hlo_conv *c)
{
    return conv_list_regular(c->input_batch, c->input_feature, c->input_spatial) &&
           conv_list_regular(c->kernel_input_feature, c->kernel_output_feature, c->kernel_spatial) &&
           conv_list_regular(c->output_batch, c->output_feature, c->output_spatial);
}

void hlo__print_conv_dims(const struct hlo_conv *c, struct nf_buf *out)
{
    print_conv_list(out, c->input_batch, 'b', c->input_feature, 'f', c->input_spatial);
    nf_buf_add_char(out, 'x');
    print_conv_list(out, c->kernel_input_feature, 'i', c->kernel_output_feature, 'o', c->kernel_spatial);
    nf_buf_add(out, "->", 2);
    print_conv_list(out, c->output_batch, 'b', c->output_feature, 'f', c->output_spatial);
}

static void print_conv_raw(const struct hlo_conv *c, struct nf_buf *out)
{
    bool first = true;
    nf_buf_add_c(out, "raw ");
    int_field(out, &first, "input_batch_dimension", c->input_batch);
    int_field(out, &first, "input_feature_dimension", c->input_feature);
    list_field(out, &first, "input_spatial_dimensions", c->input_spatial);
    int_field(out, &first, "kernel_input_feature_dimension", c->kernel_input_feature);
    int_field(out, &first, "kernel_output_feature_dimension", c->kernel_output_feature);
    list_field(out, &first, "kernel_spatial_dimensions", c->kernel_spatial);
    int_field(out, &first, "output_batch_dimension", c->output_batch);
    int_field(out, &first, "output_feature_dimension", c->output_feature);
    list_field(out, &first, "output_spatial_dimensions", c->output_spatial);
}

void hlo__print_dot_algorithm(const struct hlo_dot_algorithm *a, struct nf_buf *out)
{
    nf_buf_add_c(out, "<lhs_precision_type = ");
    hlo_type_print(a->lhs_precision, out);
    nf_buf_add_c(out, ", rhs_precision_type = ");
    hlo_type_print(a->rhs_precision, out);
    nf_buf_add_c(out, ", accumulation_type = ");
    hlo_type_print(a->accumulation, out);
    nf_buf_addf(out, ", lhs_component_count = %lld, rhs_component_count = %lld, num_primitive_operations = %lld, allow_imprecise_accumulation = %s>",
                (long long)a->lhs_components, (long long)a->rhs_components, (long long)a->primitive_operations, a->allow_imprecise ? "true" : "false");
}

static void print_accuracy(const struct hlo_accuracy *a, struct nf_buf *out)
{
    bool first = true;
    if (a->absolute != 0) {
        item(out, &first, "atol");
        print_double(a->absolute, out);
    }
    if (a->relative != 0) {
        item(out, &first, "rtol");
        print_double(a->relative, out);
    }
    int_field(out, &first, "ulps", a->ulps);
    item(out, &first, "mode");
    const char *mode = hlo_enum_name(HLO_ENUM_ACCURACY, a->mode);
    nf_buf_addf(out, "#stablehlo.result_accuracy_mode<%s>", mode ? mode : "DEFAULT");
}

static void print_loc_body(const struct hlo_loc *l, struct nf_buf *out, unsigned depth)
{
    if (depth > MAX_PRINT_DEPTH) {
        nf_buf_add_c(out, "unknown");
        return;
    }
    switch (l->kind) {
    case HLO_LOC_UNKNOWN:
        nf_buf_add_c(out, "unknown");
        return;
    case HLO_LOC_FILE:
        hlo__print_string(l->name, out);
        nf_buf_addf(out, ":%u:%u", l->line, l->col);
        if (l->end_col && l->end_line == l->line)
            nf_buf_addf(out, " to :%u", l->end_col);
        else if (l->end_col)
            nf_buf_addf(out, " to %u:%u", l->end_line, l->end_col);
        return;
    case HLO_LOC_NAME:
        hlo__print_string(l->name, out);
        if (l->num_children) {
            nf_buf_add_char(out, '(');
            print_loc_body(l->children[0]->loc, out, depth + 1);
            nf_buf_add_char(out, ')');
        }
        return;
    case HLO_LOC_CALLSITE:
        nf_buf_add_c(out, "callsite(");
        print_loc_body(l->children[0]->loc, out, depth + 1);
        nf_buf_add_c(out, " at ");
        print_loc_body(l->children[1]->loc, out, depth + 1);
        nf_buf_add_char(out, ')');
        return;
    case HLO_LOC_FUSED:
        nf_buf_add_c(out, "fused");
        if (l->metadata) {
            nf_buf_add_char(out, '<');
            hlo_attr_print(l->metadata, out);
            nf_buf_add_char(out, '>');
        }
        nf_buf_add_char(out, '[');
        for (uint32_t i = 0; i < l->num_children; i++) {
            if (i)
                nf_buf_add_c(out, ", ");
            print_loc_body(l->children[i]->loc, out, depth + 1);
        }
        nf_buf_add_char(out, ']');
        return;
    }
}

void hlo__print_dict_body(const struct hlo_named *v, size_t n, struct nf_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            nf_buf_add(out, ", ", 2);
        hlo__print_key(v[i].name, out);
        if (v[i].attr->kind != HLO_ATTR_UNIT) {
            nf_buf_add(out, " = ", 3);
            hlo_attr_print(v[i].attr, out);
        }
    }
}

static void print_at(const struct hlo_attr *a, const char *dialect, bool hex, struct nf_buf *out, unsigned depth)
{
    bool first = true;
    if (depth > MAX_PRINT_DEPTH) {
        nf_buf_add_c(out, "unit");
        return;
    }
    switch (a->kind) {
    case HLO_ATTR_UNIT:
        nf_buf_add_c(out, "unit");
        return;
    case HLO_ATTR_BOOL:
        nf_buf_add_c(out, a->b ? "true" : "false");
        return;
    case HLO_ATTR_INT:
        if (hlo_elem_class(a->type->elem) == HLO_CLASS_UINT)
            print_u64((uint64_t)a->i, out);
        else
            hlo__print_i64(a->i, out);
        nf_buf_add(out, " : ", 3);
        hlo_type_print(a->type, out);
        return;
    case HLO_ATTR_FLOAT:
        hlo__print_float(a->type->elem, a->bits, out);
        nf_buf_add(out, " : ", 3);
        hlo_type_print(a->type, out);
        return;
    case HLO_ATTR_STRING:
        hlo__print_string(a->str, out);
        if (a->type) {
            nf_buf_add(out, " : ", 3);
            hlo_type_print(a->type, out);
        }
        return;
    case HLO_ATTR_TYPE:
        hlo_type_print(a->type, out);
        return;
    case HLO_ATTR_ARRAY:
        nf_buf_add_char(out, '[');
        for (size_t i = 0; i < a->array.n; i++) {
            if (i)
                nf_buf_add(out, ", ", 2);
            print_at(a->array.v[i], dialect, hex, out, depth + 1);
        }
        nf_buf_add_char(out, ']');
        return;
    case HLO_ATTR_DICT:
        nf_buf_add_char(out, '{');
        for (size_t i = 0; i < a->dict.n; i++) {
            if (i)
                nf_buf_add(out, ", ", 2);
            hlo__print_key(a->dict.v[i].name, out);
            if (a->dict.v[i].attr->kind != HLO_ATTR_UNIT) {
                nf_buf_add(out, " = ", 3);
                print_at(a->dict.v[i].attr, dialect, hex, out, depth + 1);
            }
        }
        nf_buf_add_char(out, '}');
        return;
    case HLO_ATTR_SYMBOL:
        hlo__print_symbol(a->str, out);
        return;
    case HLO_ATTR_DENSE:
        nf_buf_add_c(out, "dense<");
        hlo__print_dense_value(a, hex, out);
        nf_buf_add_c(out, "> : ");
        hlo_type_print(a->type, out);
        return;
    case HLO_ATTR_RESOURCE:
        nf_buf_add_c(out, "dense_resource<");
        hlo__print_key(a->str, out);
        nf_buf_add_c(out, "> : ");
        hlo_type_print(a->type, out);
        return;
    case HLO_ATTR_DENSE_ARRAY: {
        enum hlo_elem e = a->type->elem;
        nf_buf_add_c(out, "array<");
        nf_buf_add_c(out, hlo_elem_name(e));
        for (size_t i = 0; i < a->ints.n; i++) {
            nf_buf_add(out, i ? ", " : ": ", 2);
            if (e == HLO_ELEM_I1)
                nf_buf_add_c(out, a->ints.v[i] ? "true" : "false");
            else if (hlo_elem_class(e) == HLO_CLASS_FLOAT)
                hlo__print_float(e, (uint64_t)a->ints.v[i], out);
            else
                hlo__print_i64(a->ints.v[i], out);
        }
        nf_buf_add_char(out, '>');
        return;
    }
    case HLO_ATTR_ENUM: {
        const char *name = hlo_enum_name(a->enumeration.class, a->enumeration.value);
        if (a->enumeration.class == HLO_ENUM_ACCURACY)
            nf_buf_addf(out, "#stablehlo.result_accuracy_mode<%s>", name ? name : "DEFAULT");
        else
            nf_buf_addf(out, "#%s<%s %s>", dialect, hlo_enum_mnemonic(a->enumeration.class), name ? name : "?");
        return;
    }
    case HLO_ATTR_DOT:
        nf_buf_add_c(out, "#stablehlo.dot<");
        list_field(out, &first, "lhs_batching_dimensions", a->dot->lhs_batching);
        list_field(out, &first, "rhs_batching_dimensions", a->dot->rhs_batching);
        list_field(out, &first, "lhs_contracting_dimensions", a->dot->lhs_contracting);
        list_field(out, &first, "rhs_contracting_dimensions", a->dot->rhs_contracting);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_RAGGED_DOT:
        nf_buf_add_c(out, "#chlo.ragged_dot<");
        list_field(out, &first, "lhs_batching_dimensions", a->ragged->lhs_batching);
        list_field(out, &first, "rhs_batching_dimensions", a->ragged->rhs_batching);
        list_field(out, &first, "lhs_contracting_dimensions", a->ragged->lhs_contracting);
        list_field(out, &first, "rhs_contracting_dimensions", a->ragged->rhs_contracting);
        list_field(out, &first, "lhs_ragged_dimensions", a->ragged->lhs_ragged);
        list_field(out, &first, "rhs_group_dimensions", a->ragged->rhs_group);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_CONV:
        nf_buf_add_c(out, "#stablehlo.conv<");
        if (hlo__conv_regular(a->conv))
            hlo__print_conv_dims(a->conv, out);
        else
            print_conv_raw(a->conv, out);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_GATHER:
        nf_buf_add_c(out, "#stablehlo.gather<");
        list_field(out, &first, "offset_dims", a->gather->offset_dims);
        list_field(out, &first, "collapsed_slice_dims", a->gather->collapsed_slice_dims);
        list_field(out, &first, "operand_batching_dims", a->gather->operand_batching_dims);
        list_field(out, &first, "start_indices_batching_dims", a->gather->start_indices_batching_dims);
        list_field(out, &first, "start_index_map", a->gather->start_index_map);
        int_field(out, &first, "index_vector_dim", a->gather->index_vector_dim);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_SCATTER:
        nf_buf_add_c(out, "#stablehlo.scatter<");
        list_field(out, &first, "update_window_dims", a->scatter->update_window_dims);
        list_field(out, &first, "inserted_window_dims", a->scatter->inserted_window_dims);
        list_field(out, &first, "input_batching_dims", a->scatter->input_batching_dims);
        list_field(out, &first, "scatter_indices_batching_dims", a->scatter->scatter_indices_batching_dims);
        list_field(out, &first, "scatter_dims_to_operand_dims", a->scatter->scatter_dims_to_operand_dims);
        int_field(out, &first, "index_vector_dim", a->scatter->index_vector_dim);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_CHANNEL:
        nf_buf_addf(out, "#stablehlo.channel_handle<handle = %lld, type = %lld>", (long long)a->channel.handle, (long long)a->channel.type);
        return;
    case HLO_ATTR_DOT_ALGORITHM:
        nf_buf_add_c(out, "#stablehlo.dot_algorithm");
        hlo__print_dot_algorithm(a->algorithm, out);
        return;
    case HLO_ATTR_ALIAS:
        nf_buf_add_c(out, "#stablehlo.output_operand_alias<output_tuple_indices = [");
        hlo__print_ints(a->alias->output_tuple_indices, out);
        nf_buf_addf(out, "], operand_index = %lld, operand_tuple_indices = [", (long long)a->alias->operand_index);
        hlo__print_ints(a->alias->operand_tuple_indices, out);
        nf_buf_add_c(out, "]>");
        return;
    case HLO_ATTR_ACCURACY:
        nf_buf_add_c(out, "#stablehlo.result_accuracy<");
        print_accuracy(a->accuracy, out);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_MESH_AXES:
        nf_buf_add_c(out, "#stablehlo.replica_group_mesh_axes<mesh = ");
        print_at(a->mesh_axes.mesh, dialect, hex, out, depth + 1);
        nf_buf_add_c(out, ", axes = ");
        print_at(a->mesh_axes.axes, dialect, hex, out, depth + 1);
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_BOUNDS:
        nf_buf_add_c(out, "#stablehlo.bounds<");
        for (size_t i = 0; i < a->ints.n; i++) {
            if (i)
                nf_buf_add(out, ", ", 2);
            if (a->ints.v[i] == HLO_DYNAMIC)
                nf_buf_add_char(out, '?');
            else
                hlo__print_i64(a->ints.v[i], out);
        }
        nf_buf_add_char(out, '>');
        return;
    case HLO_ATTR_LOCATION:
        nf_buf_add_c(out, "loc(");
        print_loc_body(a->loc, out, depth + 1);
        nf_buf_add_char(out, ')');
        return;
    case HLO_ATTR_OPAQUE:
        nf_buf_add_str(out, a->str);
        return;
    case HLO_ATTR_KIND_MAX:
        break;
    }
}

void hlo_attr_print(const struct hlo_attr *a, struct nf_buf *out) { print_at(a, "stablehlo", false, out, 0); }
void hlo__attr_print_in(const struct hlo_attr *a, const char *dialect, bool hex, struct nf_buf *out) { print_at(a, dialect, hex, out, 0); }
