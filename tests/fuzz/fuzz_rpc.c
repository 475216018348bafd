/* Messages from the wire: what is accepted must encode again to bytes that decode to the same bytes. */
#include "proto/rpc.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    enum rpc_method_id id = (enum rpc_method_id)(data[0] / 2 % RPC_METHOD_MAX);
    const struct rpc_method *m = rpc_method(id);
    const ProtobufCMessageDescriptor *desc = data[0] % 2 ? m->reply : m->request;
    ProtobufCMessage *msg = NULL, *again = NULL;
    struct nf_error err = {0};
    int rc = rpc_decode(desc, nf_str_n(data + 1, size - 1), &msg, &err);
    if (rc) {
        if (err.code != rc || msg)
            abort();
        return 0;
    }
    struct nf_buf one = NF_BUF_INIT, two = NF_BUF_INIT;
    if (rpc_encode_limited(msg, SIZE_MAX / 4, &one) != NF_OK)
        abort();
    if (one.len <= RPC_MESSAGE_MAX && rpc_decode(desc, nf_buf_str(&one), &again, &err) == NF_OK) {
        if (rpc_encode(again, &two) != NF_OK || !nf_str_eq(nf_buf_str(&one), nf_buf_str(&two)))
            abort();
        protobuf_c_message_free_unpacked(again, NULL);
    }
    protobuf_c_message_free_unpacked(msg, NULL);
    nf_buf_done(&one);
    nf_buf_done(&two);
    return 0;
}
