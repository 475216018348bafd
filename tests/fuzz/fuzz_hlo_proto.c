/* HloModuleProto: import, digest; what verifies can be written again. */
#include "pipeline/hlo/hlo_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nf_arena *arena = nf_arena_new((size_t)256 << 20);
    struct hlo_limits limits = hlo_limits_default;
    struct nf_error err = {0};
    struct nf_digest digest;
    struct hlo_module *m;
    struct nf_buf out = NF_BUF_INIT;
    limits.literal_bytes = limits.literals_bytes = (uint64_t)1 << 20;
    limits.ops = 100000;
    hlo_proto_digest(nf_str_n(data, size), &digest, &err);
    if (!hlo_proto_read(nf_str_n(data, size), &limits, arena, &m, &err) && !hlo_verify(m, &err))
        hlo_proto_write(m, &out, &err);
    nf_buf_done(&out);
    nf_arena_free(arena);
    return 0;
}
