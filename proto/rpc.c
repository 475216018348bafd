#include "proto/rpc.h"

#include "base/reader.h"
#include "proto/health.pb-c.h"
#include "proto/reflection.pb-c.h"
#include "proto/reflection_v1alpha.pb-c.h"

/* ------------------------------------------------------------------------------------------------ methods */

static const struct rpc_method methods[RPC_METHOD_MAX] = {
#define RPC_METHOD(id, service, method, request, reply, streams, admin) \
    [RPC_##id] = {"/" service "/" method, service, method, &request##__descriptor, &reply##__descriptor, RPC_STREAMS_##streams, admin},
#include "proto/rpc_methods.def"
#undef RPC_METHOD
};

const struct rpc_method *rpc_method(enum rpc_method_id id) { return &methods[id]; }

enum rpc_method_id rpc_method_find(struct nf_str path)
{
    int i = 0;
    while (i < RPC_METHOD_MAX && !nf_str_eq_c(path, methods[i].path))
        i++;
    return (enum rpc_method_id)i;
}

const char *rpc_service(size_t i)
{
    for (size_t m = 0; m < RPC_METHOD_MAX; m++) { /* rows of one service stand together */
        if (m > 0 && strcmp(methods[m].service, methods[m - 1].service) == 0)
            continue;
        if (i-- == 0)
            return methods[m].service;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ decoding
 *
 * The bytes are walked once along the descriptors before protobuf-c sees them: nothing is allocated for input that would be
 * refused, and protobuf-c's own recursion is bounded by what was found here. Recursion depth <= RPC_DEPTH_MAX. */

enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_END_GROUP, WIRE_FIXED32 };

struct walk {
    const uint8_t *base; /* of the whole message, for offsets */
    struct nf_error *err;
};

static int bad(const struct walk *w, const struct nf_reader *r, int code, const ProtobufCMessageDescriptor *desc, const char *field,
               const char *what)
{
    nf_fail(w->err, code, "%s%s%s: %s", desc->name, field ? "." : "", field ? field : "", what);
    nf_error_location(w->err, "byte %zu", (size_t)(r->at - w->base));
    return code;
}

static int walk_message(const struct walk *w, const ProtobufCMessageDescriptor *desc, struct nf_str bytes, int depth)
{
    struct nf_reader r = nf_reader_of(bytes);
    while (nf_reader_left(&r)) {
        uint64_t tag = nf_reader_varint(&r);
        uint64_t number = tag >> 3;
        if (r.failed || number == 0 || number > 0x1FFFFFFF)
            return bad(w, &r, NF_EINVAL, desc, NULL, "a field tag is cut or out of range");
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(desc, (unsigned)number);
        const char *name = f ? f->name : NULL;
        struct nf_str payload = {NULL, 0};
        switch ((enum wire)(tag & 7)) {
        case WIRE_VARINT:
            nf_reader_varint(&r);
            break;
        case WIRE_FIXED64:
            nf_reader_skip(&r, 8);
            break;
        case WIRE_FIXED32:
            nf_reader_skip(&r, 4);
            break;
        case WIRE_BYTES: {
            uint64_t len = nf_reader_varint(&r);
            if (!r.failed && len > nf_reader_left(&r))
                return bad(w, &r, NF_EINVAL, desc, name, "the length runs past the end");
            payload = nf_reader_bytes(&r, (size_t)len);
            break;
        }
        case WIRE_GROUP:
        case WIRE_END_GROUP:
        default:
            return bad(w, &r, NF_EINVAL, desc, name, "a wire type that proto3 does not have");
        }
        if (r.failed)
            return bad(w, &r, NF_EINVAL, desc, name, "the value is cut");
        if (!f || (tag & 7) != WIRE_BYTES)
            continue;
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            if (depth == RPC_DEPTH_MAX)
                return bad(w, &r, NF_ELIMIT, desc, name, "messages are nested too deeply");
            int rc = walk_message(w, f->descriptor, payload, depth + 1);
            if (rc)
                return rc;
        } else if (f->type == PROTOBUF_C_TYPE_STRING) {
            if (payload.len && memchr(payload.data, 0, payload.len))
                return bad(w, &r, NF_EINVAL, desc, name, "the string holds a NUL");
            if (!nf_utf8_valid(payload))
                return bad(w, &r, NF_EINVAL, desc, name, "the string is not UTF-8");
        }
    }
    return NF_OK;
}

int rpc_decode_limited(const ProtobufCMessageDescriptor *desc, struct nf_str bytes, size_t limit_bytes, ProtobufCMessage **ret_msg,
                       struct nf_error *err)
{
    if (bytes.len > limit_bytes)
        return nf_fail(err, NF_ELIMIT, "%s: a message of %zu bytes is over the limit of %zu", desc->name, bytes.len, limit_bytes);
    struct walk w = {(const uint8_t *)bytes.data, err};
    int rc = walk_message(&w, desc, bytes, 1);
    if (rc)
        return rc;
    ProtobufCMessage *msg = protobuf_c_message_unpack(desc, NULL, bytes.len, (const uint8_t *)(bytes.len ? bytes.data : ""));
    if (!msg)
        return nf_fail(err, NF_EINVAL, "%s: a field has a wire type that its declaration does not allow", desc->name);
    *ret_msg = msg;
    return NF_OK;
}

int rpc_decode(const ProtobufCMessageDescriptor *desc, struct nf_str bytes, ProtobufCMessage **ret_msg, struct nf_error *err)
{
    return rpc_decode_limited(desc, bytes, RPC_MESSAGE_MAX, ret_msg, err);
}

int rpc_encode_limited(const ProtobufCMessage *msg, size_t limit_bytes, struct nf_buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(msg);
    if (len > limit_bytes)
        return NF_ELIMIT;
    if (!nf_buf_reserve(out, len))
        return NF_ENOMEM;
    protobuf_c_message_pack(msg, (uint8_t *)out->data + out->len);
    out->len += len;
    out->data[out->len] = 0;
    return NF_OK;
}

int rpc_encode(const ProtobufCMessage *msg, struct nf_buf *out) { return rpc_encode_limited(msg, RPC_MESSAGE_MAX, out); }

/* ------------------------------------------------------------------------------------------------ errors */

#define TEXT(s) ((char *)(uintptr_t)(s))

void rpc_error_to_message(const struct nf_error *err, Neffd__V1__Error *ret_msg)
{
    ret_msg->code = TEXT(nf_status_name(err->code));
    ret_msg->class_ = (Neffd__V1__FailureClass)nf_status_class(err->code);
    ret_msg->message = TEXT(err->message);
    ret_msg->location = TEXT(err->location);
    ret_msg->hint = TEXT(err->hint);
    ret_msg->retryable = nf_status_retryable(err->code);
    ret_msg->retry_after_ms = err->retry_after_ms;
    ret_msg->from_cache = err->from_cache;
    ret_msg->exit_code = err->exit_code;
    ret_msg->stage = (Neffd__V1__Stage)err->stage;
}

void rpc_error_from_message(const Neffd__V1__Error *msg, struct nf_error *ret_err)
{
    struct nf_error e = {0};
    nf_fail(&e, nf_status_from_name(msg->code), "%s", msg->message);
    nf_error_location(&e, "%s", msg->location);
    nf_error_hint(&e, "%s", msg->hint);
    e.retry_after_ms = msg->retry_after_ms;
    e.from_cache = msg->from_cache;
    e.exit_code = msg->exit_code;
    e.stage = (int)msg->stage;
    *ret_err = e;
}

void rpc_error_encode(const struct nf_error *err, struct nf_buf *out)
{
    Neffd__V1__Error msg = NEFFD__V1__ERROR__INIT;
    rpc_error_to_message(err, &msg);
    if (rpc_encode(&msg.base, out) != NF_OK)
        out->failed = true;
}

int rpc_error_decode(struct nf_str bytes, struct nf_error *ret_err)
{
    ProtobufCMessage *msg = NULL;
    int rc = rpc_decode(&neffd__v1__error__descriptor, bytes, &msg, NULL);
    if (rc)
        return rc;
    rpc_error_from_message((const Neffd__V1__Error *)msg, ret_err);
    protobuf_c_message_free_unpacked(msg, NULL);
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------ reflection */

extern const struct rpc_file rpc__files[]; /* generated by embed_descriptors.py; a row with name NULL ends it */

const struct rpc_file *rpc_file(size_t i)
{
    for (size_t at = 0; rpc__files[at].name; at++)
        if (at == i)
            return &rpc__files[at];
    return NULL;
}

const struct rpc_file *rpc_file_by_name(struct nf_str name)
{
    for (const struct rpc_file *f = rpc__files; f->name; f++)
        if (nf_str_eq_c(name, f->name))
            return f;
    return NULL;
}

const struct rpc_file *rpc_file_by_symbol(struct nf_str full_name)
{
    for (int parent = 0; parent < 2; parent++) { /* then what it is a member of: a field, an enum's value */
        for (const struct rpc_file *f = rpc__files; f->name; f++)
            for (const char *const *s = f->symbols; *s; s++)
                if (nf_str_eq_c(full_name, *s))
                    return f;
        while (full_name.len && full_name.data[full_name.len - 1] != '.')
            full_name.len--;
        if (full_name.len)
            full_name.len--;
    }
    return NULL;
}
