/* StableHLO text: what parses and verifies is printed in every form, reads back the same, gets a key, and goes through the passes. */
#include "pipeline/hlo/hlo.h"
#include "pipeline/hlo/passes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nf_arena *arena = nf_arena_new((size_t)256 << 20);
    struct hlo_limits limits = hlo_limits_default;
    struct nf_error err = {0};
    struct hlo_module *m, *back;
    struct nf_buf a = NF_BUF_INIT, b = NF_BUF_INIT;
    struct nf_digest key;
    limits.literal_bytes = limits.literals_bytes = (uint64_t)1 << 20;
    limits.ops = 100000;
    if (hlo_parse(nf_str_n(data, size), &limits, arena, &m, &err)) {
        if (!err.message[0])
            abort(); /* an error must say what is wrong */
        goto out;
    }
    hlo_print(m, HLO_GENERIC, &b);
    nf_buf_clear(&b);
    hlo_print(m, HLO_PRETTY, &a);
    if (hlo_verify(m, &err))
        goto out;
    /* what is valid reads back, and prints the same */
    if (hlo_parse(nf_buf_str(&a), &limits, arena, &back, &err) == 0) {
        hlo_print(back, HLO_PRETTY, &b);
        if (!nf_str_eq(nf_buf_str(&a), nf_buf_str(&b)))
            abort();
        static const char *const passes[] = {"legalise", "chlo", "decompose", "refine", "inline", "refine", "cse", "dce"};
        for (size_t i = 0; i < NF_ARRAY_LEN(passes); i++)
            if (hlo_pass_find(nf_str_c(passes[i]))->run(back, &err) || nf_arena_over(arena))
                break;
    }
    if (!hlo_canonicalise(m, &err))
        hlo_key(m, &key, &err);
out:
    nf_buf_done(&a);
    nf_buf_done(&b);
    nf_arena_free(arena);
    return 0;
}
