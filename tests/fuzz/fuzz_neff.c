/* A NEFF: any bytes give a reader whose views lie inside them, or an error; the check never refuses without a reason. */
#include "runtime/neff.h"

#include "base/arena.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(struct nf_str whole, struct nf_str part, bool own_memory)
{
    if (!own_memory && part.len > 0 && (part.data < whole.data || part.data + part.len > whole.data + whole.len))
        abort();
    volatile unsigned sum = 0;
    for (size_t i = 0; i < part.len; i += 61)
        sum += (unsigned char)part.data[i];
    if (part.len > 0)
        sum += (unsigned char)part.data[part.len - 1];
    (void)sum;
}

static void tensors(const struct rt_tensor *t, size_t count, size_t inputs)
{
    for (size_t i = 0; i < count; i++) {
        size_t dense;
        if (t[i].rank > RT_RANK_MAX || t[i].dtype == NF_DT_NONE || rt_tensor_dense_bytes(t[i].dtype, t[i].dims, t[i].rank, &dense) != NF_OK)
            abort();
        if (t[i].alias >= 0 && (size_t)t[i].alias >= inputs)
            abort();
        if (strlen(t[i].name) > (size_t)1 << 30)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nf_str bytes = nf_str_n(data, size);
    struct nf_error err = {0};
    struct neff *n = NULL;
    int r = neff_open_inflated(bytes, (size_t)1 << 22, &n, &err);
    if (r ? err.code != r || !err.message[0] : !n)
        abort();
    if (n) {
        struct nf_str member;
        const struct rt_tensor *in, *out;
        for (size_t i = 0; i < neff_member_count(n); i++) {
            const char *name = neff_member_at(n, i, &member);
            if (!name[0] || strlen(name) > 255)
                abort();
            inside(bytes, member, neff_compressed(n));
        }
        size_t inputs = neff_inputs(n, &in);
        tensors(in, inputs, inputs);
        size_t outputs = neff_outputs(n, &out);
        tensors(out, outputs, inputs);
        if (strlen(neff_target(n)) + strlen(neff_compiler(n)) + strlen(neff_isa(n)) > size)
            abort();
    }
    neff_close(n);
    struct nf_arena *arena = nf_arena_new(0);
    const char *const *problems;
    enum neff_hash hash;
    struct neff_expect x = {.target = "cpu", .lnc_size = 1, .feature_mask = 0xff, .hash = true};
    size_t count = neff_check(bytes, &x, arena, &problems, &hash);
    for (size_t i = 0; i < count; i++)
        if (!problems[i][0])
            abort();
    nf_arena_free(arena);
    return 0;
}
