/* spec.c: what an attribute slot may hold, old spellings, and what absent means. One place for text, bytecode and verifier. */
#include "pipeline/hlo/spec_internal.h"

const struct hlo_attr *hlo__spec_normalise(struct hlo_module *m, enum hlo_attr_spec_kind kind, const struct hlo_attr *a)
{
    if (!a)
        return a;
    if ((kind == HLO_AK_A64 || kind == HLO_AK_AB) && a->kind == HLO_ATTR_DENSE && a->type->rank <= 1) {
        uint64_t n;
        enum hlo_elem want = kind == HLO_AK_AB ? HLO_ELEM_I1 : HLO_ELEM_I64;
        if (a->type->elem != want || !hlo_type_count(a->type, &n) || n > 4096)
            return a;
        int64_t v[4096];
        for (size_t i = 0; i < n; i++)
            v[i] = hlo_attr_dense_int_at(a, i);
        return hlo_attr_dense_array(m, want, (size_t)n, v);
    }
    return a;
}

static bool is_int(const struct hlo_attr *a, enum hlo_elem e) { return a->kind == HLO_ATTR_INT && a->type->elem == e; }
static bool is_enum(const struct hlo_attr *a, enum hlo_enum_class c) { return a->kind == HLO_ATTR_ENUM && a->enumeration.class == c; }
static bool is_array_of(const struct hlo_attr *a, enum hlo_attr_kind kind)
{
    if (a->kind != HLO_ATTR_ARRAY)
        return false;
    for (size_t i = 0; i < a->array.n; i++)
        if (a->array.v[i]->kind != kind)
            return false;
    return true;
}

bool hlo__spec_fits(enum hlo_attr_spec_kind kind, const struct hlo_attr *a)
{
    switch (kind) {
    case HLO_AK_I64:
        return is_int(a, HLO_ELEM_I64);
    case HLO_AK_I32:
        return is_int(a, HLO_ELEM_I32);
    case HLO_AK_F32:
        return a->kind == HLO_ATTR_FLOAT && a->type->elem == HLO_ELEM_F32;
    case HLO_AK_BOOL:
        return a->kind == HLO_ATTR_BOOL;
    case HLO_AK_UNIT:
        return a->kind == HLO_ATTR_UNIT;
    case HLO_AK_STR:
        return a->kind == HLO_ATTR_STRING;
    case HLO_AK_A64:
        return a->kind == HLO_ATTR_DENSE_ARRAY && a->type->elem == HLO_ELEM_I64;
    case HLO_AK_AB:
        return a->kind == HLO_ATTR_DENSE_ARRAY && a->type->elem == HLO_ELEM_I1;
    case HLO_AK_E64:
        return a->kind == HLO_ATTR_DENSE && a->type->elem == HLO_ELEM_I64;
    case HLO_AK_ELEMENTS:
        return a->kind == HLO_ATTR_DENSE || a->kind == HLO_ATTR_RESOURCE || a->kind == HLO_ATTR_OPAQUE;
    case HLO_AK_DIRECTION:
        return is_enum(a, HLO_ENUM_DIRECTION);
    case HLO_AK_COMPARE_TYPE:
        return is_enum(a, HLO_ENUM_COMPARE_TYPE);
    case HLO_AK_FFT:
        return is_enum(a, HLO_ENUM_FFT);
    case HLO_AK_TRANSPOSE:
        return is_enum(a, HLO_ENUM_TRANSPOSE);
    case HLO_AK_RNG_ALGORITHM:
        return is_enum(a, HLO_ENUM_RNG_ALGORITHM);
    case HLO_AK_DISTRIBUTION:
        return is_enum(a, HLO_ENUM_DISTRIBUTION);
    case HLO_AK_PRECISIONS:
        if (!is_array_of(a, HLO_ATTR_ENUM))
            return false;
        for (size_t i = 0; i < a->array.n; i++)
            if (!is_enum(a->array.v[i], HLO_ENUM_PRECISION))
                return false;
        return true;
    case HLO_AK_ACCURACY:
        return a->kind == HLO_ATTR_ACCURACY;
    case HLO_AK_DOT:
        return a->kind == HLO_ATTR_DOT;
    case HLO_AK_CONV:
        return a->kind == HLO_ATTR_CONV;
    case HLO_AK_GATHER:
        return a->kind == HLO_ATTR_GATHER;
    case HLO_AK_SCATTER:
        return a->kind == HLO_ATTR_SCATTER;
    case HLO_AK_RAGGED_DOT:
        return a->kind == HLO_ATTR_RAGGED_DOT;
    case HLO_AK_CHANNEL:
        return a->kind == HLO_ATTR_CHANNEL;
    case HLO_AK_DOT_ALGORITHM:
        return a->kind == HLO_ATTR_DOT_ALGORITHM;
    case HLO_AK_ALIASES:
        return is_array_of(a, HLO_ATTR_ALIAS);
    case HLO_AK_GROUPS:
        return (a->kind == HLO_ATTR_DENSE && a->type->elem == HLO_ELEM_I64) || a->kind == HLO_ATTR_MESH_AXES;
    case HLO_AK_SYMBOL:
        return a->kind == HLO_ATTR_SYMBOL;
    case HLO_AK_SYMBOLS:
        return is_array_of(a, HLO_ATTR_SYMBOL);
    case HLO_AK_DICT:
        return a->kind == HLO_ATTR_DICT;
    case HLO_AK_DICTS:
        return is_array_of(a, HLO_ATTR_DICT);
    case HLO_AK_LAYOUTS:
        if (!is_array_of(a, HLO_ATTR_DENSE))
            return false;
        for (size_t i = 0; i < a->array.n; i++)
            if (a->array.v[i]->type->elem != HLO_ELEM_INDEX || a->array.v[i]->type->rank != 1)
                return false;
        return true;
    case HLO_AK_ARRAY:
        return a->kind == HLO_ATTR_ARRAY;
    case HLO_AK_TYPE:
        return a->kind == HLO_ATTR_TYPE;
    case HLO_AK_ANY:
        return true;
    case HLO_AK_MAX:
        break;
    }
    return false;
}

const char *hlo__spec_wants(enum hlo_attr_spec_kind kind)
{
    switch (kind) {
    case HLO_AK_I64: return "a 64-bit signless integer";
    case HLO_AK_I32: return "a 32-bit signless integer";
    case HLO_AK_F32: return "a 32-bit float";
    case HLO_AK_BOOL: return "a bool";
    case HLO_AK_UNIT: return "a unit attribute";
    case HLO_AK_STR: return "a string";
    case HLO_AK_A64: return "array<i64: ...>";
    case HLO_AK_AB: return "array<i1: ...>";
    case HLO_AK_E64: return "64-bit integer elements";
    case HLO_AK_ELEMENTS: return "elements";
    case HLO_AK_DIRECTION: return "a comparison direction";
    case HLO_AK_COMPARE_TYPE: return "a comparison type";
    case HLO_AK_FFT: return "an fft type";
    case HLO_AK_TRANSPOSE: return "a transpose";
    case HLO_AK_RNG_ALGORITHM: return "an rng algorithm";
    case HLO_AK_DISTRIBUTION: return "an rng distribution";
    case HLO_AK_PRECISIONS: return "a list of precisions";
    case HLO_AK_ACCURACY: return "a result accuracy";
    case HLO_AK_DOT: return "dot dimension numbers";
    case HLO_AK_CONV: return "convolution dimension numbers";
    case HLO_AK_GATHER: return "gather dimension numbers";
    case HLO_AK_SCATTER: return "scatter dimension numbers";
    case HLO_AK_RAGGED_DOT: return "ragged dot dimension numbers";
    case HLO_AK_CHANNEL: return "a channel handle";
    case HLO_AK_DOT_ALGORITHM: return "a dot algorithm";
    case HLO_AK_ALIASES: return "a list of output operand aliases";
    case HLO_AK_GROUPS: return "64-bit integer elements or mesh axes";
    case HLO_AK_SYMBOL: return "a symbol";
    case HLO_AK_SYMBOLS: return "a list of symbols";
    case HLO_AK_DICT: return "a dictionary";
    case HLO_AK_DICTS: return "a list of dictionaries";
    case HLO_AK_LAYOUTS: return "a list of layouts (1-dimensional tensors of index)";
    case HLO_AK_ARRAY: return "a list";
    case HLO_AK_TYPE: return "a type";
    case HLO_AK_ANY: return "an attribute";
    case HLO_AK_MAX: break;
    }
    return "an attribute";
}

bool hlo__spec_default_text(const struct hlo_attr *a, const char *absent)
{
    switch (a->kind) {
    case HLO_ATTR_INT: {
        int64_t v;
        return nf_str_to_i64(nf_str_c(absent), &v) == 0 && v == a->i;
    }
    case HLO_ATTR_BOOL:
        return strcmp(absent, a->b ? "true" : "false") == 0;
    case HLO_ATTR_STRING:
        return nf_str_eq_c(a->str, absent);
    case HLO_ATTR_ARRAY:
        if (strcmp(absent, "DEFAULT") == 0) { /* precisions */
            for (size_t i = 0; i < a->array.n; i++)
                if (a->array.v[i]->kind != HLO_ATTR_ENUM || a->array.v[i]->enumeration.value != HLO_PRECISION_DEFAULT)
                    return false;
            return true;
        }
        return a->array.n == 0 && strcmp(absent, "[]") == 0;
    case HLO_ATTR_DICT:
        return a->dict.n == 0 && strcmp(absent, "{}") == 0;
    case HLO_ATTR_ACCURACY:
        return strcmp(absent, "DEFAULT") == 0 && a->accuracy->mode == HLO_ACCURACY_DEFAULT && a->accuracy->absolute == 0 && a->accuracy->relative == 0 &&
               a->accuracy->ulps == 0;
    case HLO_ATTR_DENSE_ARRAY: {
        int64_t want = strcmp(absent, "ones") == 0 ? 1 : 0;
        if (!want && strcmp(absent, "falses") != 0 && strcmp(absent, "zeros") != 0)
            return false;
        for (size_t i = 0; i < a->ints.n; i++)
            if (a->ints.v[i] != want)
                return false;
        return true;
    }
    case HLO_ATTR_DENSE: {
        uint64_t n;
        if (strcmp(absent, "zeros") != 0 || !hlo_type_count(a->type, &n))
            return false;
        for (size_t i = 0; i < (a->dense.splat ? NF_MIN(n, (uint64_t)1) : n); i++)
            if (hlo_attr_dense_int_at(a, i) != 0)
                return false;
        return true;
    }
    case HLO_ATTR_UNIT:
    case HLO_ATTR_FLOAT:
    case HLO_ATTR_TYPE:
    case HLO_ATTR_SYMBOL:
    case HLO_ATTR_ENUM:
    case HLO_ATTR_DOT:
    case HLO_ATTR_CONV:
    case HLO_ATTR_GATHER:
    case HLO_ATTR_SCATTER:
    case HLO_ATTR_RAGGED_DOT:
    case HLO_ATTR_CHANNEL:
    case HLO_ATTR_DOT_ALGORITHM:
    case HLO_ATTR_ALIAS:
    case HLO_ATTR_MESH_AXES:
    case HLO_ATTR_BOUNDS:
    case HLO_ATTR_LOCATION:
    case HLO_ATTR_RESOURCE:
    case HLO_ATTR_OPAQUE:
    case HLO_ATTR_KIND_MAX:
        break;
    }
    return false;
}

const char *hlo__accuracy_wrong(const struct hlo_accuracy *a)
{
    if (a->absolute < 0 || a->relative < 0 || a->ulps < 0)
        return "tolerances of a result accuracy must not be negative";
    if (a->mode != HLO_ACCURACY_TOLERANCE && (a->absolute != 0 || a->relative != 0 || a->ulps != 0))
        return a->mode == HLO_ACCURACY_HIGHEST ? "invalid tolerances for a result accuracy of mode HIGHEST, must be all zero"
                                               : "invalid tolerances for a result accuracy of mode DEFAULT, must be all zero";
    return NULL;
}
