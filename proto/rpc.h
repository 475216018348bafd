/* rpc.h: the wire contract as C sees it: methods, bounded decoding, errors, reflection data.
 *
 * Messages are protobuf-c structs generated from the .proto files ("proto/neffd.pb-c.h" and so on). Everything that arrives
 * goes through rpc_decode, never through the generated unpack functions: those take any size, any depth and bytes that are
 * not UTF-8. Pure functions over their arguments and constant tables: any thread. */
#ifndef NEFFD_PROTO_RPC_H
#define NEFFD_PROTO_RPC_H

#include "base/str.h"

#include "proto/neffd.pb-c.h"

#include <protobuf-c/protobuf-c.h>

#define RPC_MESSAGE_MAX ((size_t)1 << 20) /* bytes of a serialised message */
#define RPC_DEPTH_MAX 64                  /* messages inside messages */
#define RPC_ERROR_METADATA "neffd-error-bin" /* a serialised neffd.v1.Error in the trailers of a gRPC error */

/* ------------------------------------------------------------------------------------------------ methods */

enum rpc_method_id {
#define RPC_METHOD(id, service, method, request, reply, streams, admin) RPC_##id,
#include "proto/rpc_methods.def"
#undef RPC_METHOD
    RPC_METHOD_MAX,
};

enum rpc_streams { RPC_STREAMS_NONE, RPC_STREAMS_REPLY, RPC_STREAMS_BOTH };

struct rpc_method {
    const char *path;    /* "/neffd.v1.Compiler/Compile" */
    const char *service; /* "neffd.v1.Compiler" */
    const char *name;    /* "Compile" */
    const ProtobufCMessageDescriptor *request, *reply;
    enum rpc_streams streams;
    bool admin;
};

const struct rpc_method *rpc_method(enum rpc_method_id id);
/* RPC_METHOD_MAX if there is none. */
enum rpc_method_id rpc_method_find(struct nf_str path);
/* The services in the table, without doubles; i from 0, NULL at the end. */
const char *rpc_service(size_t i);

/* ------------------------------------------------------------------------------------------------ bytes and messages */

/* A message in memory of its own; free with protobuf_c_message_free_unpacked(msg, NULL) or the generated free function.
 * NF_ELIMIT: over RPC_MESSAGE_MAX or RPC_DEPTH_MAX. NF_EINVAL: cut, malformed, or a string that is not UTF-8 or holds a NUL
 * (a C string would end there, and a check would see another value than the caller sent). err names field and offset. */
int rpc_decode(const ProtobufCMessageDescriptor *desc, struct nf_str bytes, ProtobufCMessage **ret_msg, struct nf_error *err);

/* Same, with a limit of the caller's (files of our own may be larger than a message on the wire). */
int rpc_decode_limited(const ProtobufCMessageDescriptor *desc, struct nf_str bytes, size_t limit_bytes, ProtobufCMessage **ret_msg,
                       struct nf_error *err);

/* Appends; NF_ELIMIT (nothing appended) over RPC_MESSAGE_MAX, NF_ENOMEM. */
int rpc_encode(const ProtobufCMessage *msg, struct nf_buf *out);
int rpc_encode_limited(const ProtobufCMessage *msg, size_t limit_bytes, struct nf_buf *out);

static inline struct nf_str rpc_bytes(ProtobufCBinaryData b) { return nf_str_n(b.data, b.len); }
static inline ProtobufCBinaryData rpc_binary(const void *data, size_t len) { return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)data}; }

/* ------------------------------------------------------------------------------------------------ errors */

/* Fills *ret_msg, which has been initialised, with borrowed pointers: err and what they point to must outlive it, and it is
 * never freed with free_unpacked. log_tail and canonical_key are left to the caller. */
void rpc_error_to_message(const struct nf_error *err, Neffd__V1__Error *ret_msg);
/* An unknown code name reads as NF_EINTERNAL; what is too long is cut on a UTF-8 boundary. */
void rpc_error_from_message(const Neffd__V1__Error *msg, struct nf_error *ret_err);
/* The serialised message, for the trailer. */
void rpc_error_encode(const struct nf_error *err, struct nf_buf *out);
int rpc_error_decode(struct nf_str bytes, struct nf_error *ret_err);

/* ------------------------------------------------------------------------------------------------ reflection */

struct rpc_file {
    const char *name;           /* "neffd.proto" */
    const uint8_t *bytes;       /* a serialised google.protobuf.FileDescriptorProto */
    size_t len;
    const char *const *symbols; /* full names of messages, enums, services and methods, NULL at the end */
    const char *const *imports; /* names of other files, NULL at the end */
};

/* i from 0, NULL at the end. */
const struct rpc_file *rpc_file(size_t i);
const struct rpc_file *rpc_file_by_name(struct nf_str name);
const struct rpc_file *rpc_file_by_symbol(struct nf_str full_name); /* also "pkg.Message.field" */

#endif
