/* frame.h: messages on the pipe between the daemon and a worker.
 *
 *     frame   = length:u32le type:u8 payload[length]
 *     length  <= RPC_MESSAGE_MAX
 *
 * The payload is a serialised protobuf message; what the types mean is the pipe owner's. The other end may be a process that
 * is being destroyed by a hostile input, so the reader trusts nothing: a length over the limit ends the pipe. */
#ifndef NEFFD_PROTO_FRAME_H
#define NEFFD_PROTO_FRAME_H

#include "proto/rpc.h"

#define RPC_FRAME_HEADER 5

struct rpc_frame {
    uint8_t type;
    struct nf_str payload; /* a view into the buffer that it was read from */
};

/* Appends a frame. NF_ELIMIT: the payload is over RPC_MESSAGE_MAX, nothing was appended. */
int rpc_frame_add(struct nf_buf *out, uint8_t type, struct nf_str payload);
int rpc_frame_add_message(struct nf_buf *out, uint8_t type, const ProtobufCMessage *msg);

/* The next whole frame at *at in `in`: 1 and *at moved past it; 0 if more bytes are needed; NF_EPROTOCOL if the length is
 * over the limit. The view is valid until `in` changes. */
int rpc_frame_next(const struct nf_buf *in, size_t *at, struct rpc_frame *ret_frame);
/* Drops the first `at` bytes, which have been dealt with. */
void rpc_frame_consume(struct nf_buf *in, size_t *at);

/* Blocking, for the worker's side. `in` and *at are kept between calls. NF_EDISCONNECTED at the end of the stream (between frames or
 * inside one), NF_EPROTOCOL, NF_EIO. */
int rpc_frame_read(int fd, struct nf_buf *in, size_t *at, struct rpc_frame *ret_frame);
int rpc_frame_write(int fd, uint8_t type, const ProtobufCMessage *msg);

#endif
