#include "client/ctl/json.h"

#include "client/wire.h"

#include <math.h>

/* What is not UTF-8 becomes U+FFFD, one for each byte. */
struct json_object *ctl_json_str(const char *text)
{
    struct nf_str s = nf_str_c(text ? text : "");
    if (nf_utf8_valid(s))
        return json_object_new_string_len(s.data ? s.data : "", (int)s.len);
    struct nf_buf out = NF_BUF_INIT;
    for (size_t i = 0; i < s.len;) {
        size_t n = 1;
        while (n <= 4 && i + n <= s.len && !nf_utf8_valid(nf_str_n(s.data + i, n)))
            n++;
        if (n <= 4 && i + n <= s.len) {
            nf_buf_add(&out, s.data + i, n);
            i += n;
        } else {
            nf_buf_add_c(&out, "\xEF\xBF\xBD");
            i++;
        }
    }
    struct json_object *o = json_object_new_string_len(out.data, (int)out.len);
    nf_buf_done(&out);
    return o;
}

struct json_object *ctl_json_u64(uint64_t value) { return json_object_new_uint64(value); }

struct json_object *ctl_json_double(double value)
{
    char text[40];
    if (isnan(value))
        return NULL;
    if (isinf(value))
        return json_object_new_double_s(value, value < 0 ? "-1e999" : "1e999");
    for (int digits = 6; digits <= 17; digits++) {
        (void)nf_format(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return json_object_new_double_s(value, text);
}

static struct json_object *hex(const ProtobufCBinaryData *b)
{
    struct nf_buf out = NF_BUF_INIT;
    nf_buf_add_hex(&out, b->data, b->len);
    struct json_object *o = json_object_new_string_len(out.data ? out.data : "", (int)out.len);
    nf_buf_done(&out);
    return o;
}

/* One value of a field; `at` points to it. */
static struct json_object *value_of(const ProtobufCFieldDescriptor *f, const void *at)
{
    char word[64];
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: return json_object_new_int(*(const int32_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return json_object_new_int64(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return json_object_new_int64(*(const int64_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return ctl_json_u64(*(const uint64_t *)at);
    case PROTOBUF_C_TYPE_FLOAT: return ctl_json_double((double)*(const float *)at);
    case PROTOBUF_C_TYPE_DOUBLE: return ctl_json_double(*(const double *)at);
    case PROTOBUF_C_TYPE_BOOL: return json_object_new_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_ENUM:
        return json_object_new_string(cl_enum_word(f->descriptor, *(const int *)at, word, sizeof(word)));
    case PROTOBUF_C_TYPE_STRING: return ctl_json_str(*(char *const *)at);
    case PROTOBUF_C_TYPE_BYTES: return hex(at);
    case PROTOBUF_C_TYPE_MESSAGE: return ctl_json_of_message(*(const ProtobufCMessage *const *)at);
    default: return NULL;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
    default: return 4;
    }
}

struct json_object *ctl_json_of_message(const ProtobufCMessage *message)
{
    if (!message)
        return NULL;
    struct json_object *o = json_object_new_object();
    const ProtobufCMessageDescriptor *d = message->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const char *at = (const char *)message + f->offset;
        struct json_object *v = NULL;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)((const char *)message + f->quantifier_offset);
            const char *items = *(const char *const *)at;
            v = json_object_new_array();
            for (size_t k = 0; k < n; k++)
                json_object_array_add(v, value_of(f, items + k * size_of(f)));
        } else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            if (*(const uint32_t *)((const char *)message + f->quantifier_offset) == f->id)
                v = value_of(f, at);
        } else {
            v = value_of(f, at);
        }
        json_object_object_add(o, f->name, v);
    }
    return o;
}

void ctl_json_print(struct json_object *object)
{
    fputs(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE), stdout);
    fputc('\n', stdout);
    fflush(stdout);
    json_object_put(object);
}
