/* The worker's pipe: bytes that come in pieces give the same frames as bytes that come at once. */
#include "proto/frame.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t walk(const uint8_t *data, size_t size, size_t piece)
{
    struct nf_buf in = NF_BUF_INIT;
    struct rpc_frame frame;
    size_t at = 0;
    uint64_t sum = 0;
    int rc = 0;
    for (size_t done = 0; done < size && rc >= 0; done += piece) {
        nf_buf_add(&in, data + done, NF_MIN(piece, size - done));
        while ((rc = rpc_frame_next(&in, &at, &frame)) == 1) {
            sum = sum * 31 + frame.type + frame.payload.len;
            for (size_t i = 0; i < frame.payload.len; i++)
                sum = sum * 31 + (uint8_t)frame.payload.data[i];
        }
        rpc_frame_consume(&in, &at);
    }
    nf_buf_done(&in);
    return sum * 2 + (rc < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    uint64_t whole = walk(data, size, size + 1);
    if (walk(data, size, 1) != whole || walk(data, size, 7) != whole)
        abort();
    return 0;
}
