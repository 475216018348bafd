#include "proto/frame.h"

#include "base/file.h"

#include <errno.h>
#include <unistd.h>

static int add_header(struct nf_buf *out, uint8_t type, size_t len)
{
    if (len > RPC_MESSAGE_MAX)
        return NF_ELIMIT;
    if (!nf_buf_reserve(out, RPC_FRAME_HEADER + len))
        return NF_ENOMEM;
    nf_buf_add_u32le(out, (uint32_t)len);
    nf_buf_add_char(out, (char)type);
    return NF_OK;
}

int rpc_frame_add(struct nf_buf *out, uint8_t type, struct nf_str payload)
{
    int rc = add_header(out, type, payload.len);
    if (rc)
        return rc;
    nf_buf_add_str(out, payload);
    return NF_OK;
}

int rpc_frame_add_message(struct nf_buf *out, uint8_t type, const ProtobufCMessage *msg)
{
    int rc = add_header(out, type, protobuf_c_message_get_packed_size(msg));
    return rc ? rc : rpc_encode(msg, out);
}

int rpc_frame_next(const struct nf_buf *in, size_t *at, struct rpc_frame *ret_frame)
{
    size_t left = in->len - *at;
    if (left < RPC_FRAME_HEADER)
        return 0;
    const uint8_t *p = (const uint8_t *)in->data + *at;
    size_t len = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (len > RPC_MESSAGE_MAX)
        return NF_EPROTOCOL;
    if (left - RPC_FRAME_HEADER < len)
        return 0;
    *ret_frame = (struct rpc_frame){p[4], nf_str_n(p + RPC_FRAME_HEADER, len)};
    *at += RPC_FRAME_HEADER + len;
    return 1;
}

void rpc_frame_consume(struct nf_buf *in, size_t *at)
{
    if (*at == 0)
        return;
    memmove(in->data, in->data + *at, in->len - *at + 1); /* with the terminator */
    in->len -= *at;
    *at = 0;
}

int rpc_frame_read(int fd, struct nf_buf *in, size_t *at, struct rpc_frame *ret_frame)
{
    for (;;) {
        int rc = rpc_frame_next(in, at, ret_frame);
        if (rc < 0)
            return rc;
        if (rc == 1)
            return NF_OK;
        rpc_frame_consume(in, at);
        if (!nf_buf_reserve(in, 64 << 10))
            return NF_ENOMEM;
        ssize_t n = read(fd, in->data + in->len, 64 << 10);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == ECONNRESET ? NF_EDISCONNECTED : NF_EIO;
        if (n == 0)
            return NF_EDISCONNECTED;
        in->len += (size_t)n;
        in->data[in->len] = 0;
    }
}

int rpc_frame_write(int fd, uint8_t type, const ProtobufCMessage *msg)
{
    struct nf_buf out = NF_BUF_INIT;
    int rc = rpc_frame_add_message(&out, type, msg);
    if (rc == NF_OK)
        rc = nf_fd_write_all(fd, out.data, out.len);
    nf_buf_done(&out);
    return rc;
}
