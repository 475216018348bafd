/* Counter-based random bits, laid out as XLA lays them out.
 *
 * THREE_FRY (threefry2x32, 20 rounds): state {key, counter}. For elements of at most 32 bits the shape is split into halves along
 * its first even dimension (else its largest, rounded up); block k, the row-major number in the half shape, gives the elements 2i
 * and 2i+1 of that dimension. 64-bit elements take one block each. Smaller elements are the low bits of 32-bit ones.
 * PHILOX (philox4x32, 10 rounds): state {key, counter low, counter high}; with two words the counter is {state[1], state[0]}. Blocks of
 * four words fill the array in row-major order. The counter grows by the number of blocks. */
#include "pipeline/hlo/eval_kernels.h"

#include "runtime/random.h"

static inline uint32_t rotl(uint32_t v, int by) { return v << by | v >> (32 - by); }

static void threefry(uint64_t key, uint64_t counter, uint32_t out[2])
{
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t k[3] = {(uint32_t)key, (uint32_t)(key >> 32), 0};
    k[2] = 0x1BD11BDAu ^ k[0] ^ k[1];
    uint32_t x0 = (uint32_t)counter + k[0], x1 = (uint32_t)(counter >> 32) + k[1];
    for (unsigned group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x0 += x1;
            x1 = rotl(x1, rotations[group & 1][i]) ^ x0;
        }
        x0 += k[(group + 1) % 3];
        x1 += k[(group + 2) % 3] + group + 1;
    }
    out[0] = x0;
    out[1] = x1;
}

/* 32 random bits into element i of any type of at most 32 bits (its own low bits; i1: the lowest). */
static void put32(struct rt_array *a, int64_t i, uint32_t v)
{
    switch (nf_dtype_bytes(a->dtype)) {
    case 1: {
        unsigned bits = nf_dtype_bits(a->dtype);
        uint8_t b = (uint8_t)(v & ((1u << bits) - 1));
        if (nf_dtype_class(a->dtype) == NF_DTC_SINT && bits < 8)
            b = (uint8_t)((int8_t)(b << (8 - bits)) >> (8 - bits));
        ((uint8_t *)a->data)[i] = b;
        break;
    }
    case 2:
        ((uint16_t *)a->data)[i] = (uint16_t)v;
        break;
    default:
        ((uint32_t *)a->data)[i] = v;
    }
}

static void threefry_fill(uint64_t key, uint64_t *counter, struct rt_array *out)
{
    int64_t n = rt_array_count(out);
    uint32_t w[2];
    if (nf_dtype_bytes(out->dtype) == 8) {
        for (int64_t i = 0; i < n; i++) {
            threefry(key, *counter + (uint64_t)i, w);
            ((uint64_t *)out->data)[i] = (uint64_t)w[1] << 32 | w[0];
        }
        *counter += (uint64_t)n;
        return;
    }
    if (out->rank == 0) {
        threefry(key, (*counter)++, w);
        put32(out, 0, w[0]);
        return;
    }
    int split = -1;
    for (int d = 0; d < out->rank && split < 0; d++)
        if (out->dims[d] % 2 == 0)
            split = d;
    if (split < 0) {
        split = 0;
        for (int d = 1; d < out->rank; d++)
            if (out->dims[d] > out->dims[split])
                split = d;
    }
    int64_t outer = 1, inner = 1, size = out->dims[split], half = (size + 1) / 2;
    for (int d = 0; d < split; d++)
        outer *= out->dims[d];
    for (int d = split + 1; d < out->rank; d++)
        inner *= out->dims[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t h = 0; h < half; h++)
            for (int64_t i = 0; i < inner; i++) {
                threefry(key, *counter + (uint64_t)((o * half + h) * inner + i), w);
                put32(out, (o * size + 2 * h) * inner + i, w[0]);
                if (2 * h + 1 < size)
                    put32(out, (o * size + 2 * h + 1) * inner + i, w[1]);
            }
    *counter += (uint64_t)(outer * half * inner);
}

static void philox_fill(uint64_t key, uint64_t *low, uint64_t *high, struct rt_array *out)
{
    int64_t n = rt_array_count(out);
    bool wide = nf_dtype_bytes(out->dtype) == 8;
    int64_t blocks = wide ? (n + 1) / 2 : (n + 3) / 4;
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t l = *low + (uint64_t)b;
        uint32_t w[4];
        rt_philox(key, l, *high + (l < *low), w);
        for (int64_t i = 0; i < (wide ? 2 : 4); i++) {
            int64_t at = wide ? 2 * b + i : 4 * b + i;
            if (at >= n)
                break;
            if (wide)
                ((uint64_t *)out->data)[at] = (uint64_t)w[2 * i + 1] << 32 | w[2 * i];
            else
                put32(out, at, w[i]);
        }
    }
    uint64_t l = *low + (uint64_t)blocks;
    *high += l < *low;
    *low = l;
}

int ev_rng_bits(enum ev_rng kind, const struct rt_array *state, struct rt_array *out_state, struct rt_array *out_bits, struct nf_error *err)
{
    size_t words = state->bytes / 8;
    uint64_t s[3] = {0};
    if (state->bytes % 8 || words < 2 || words > 3 || (kind == EV_RNG_THREE_FRY && words != 2))
        return nf_fail(err, NF_EGRAPH, "a random generator's state of %zu bytes does not fit its algorithm", state->bytes);
    if (nf_dtype_bytes(out_bits->dtype) > 8 || nf_dtype_is_complex(out_bits->dtype))
        return nf_fail(err, NF_EUNSUPPORTED, "random bits as %s are not supported", nf_dtype_name(out_bits->dtype));
    memcpy(s, state->data, state->bytes);
    if (kind == EV_RNG_THREE_FRY)
        threefry_fill(s[0], &s[1], out_bits);
    else if (words == 3)
        philox_fill(s[0], &s[1], &s[2], out_bits);
    else {
        uint64_t low = s[1], high = s[0];
        philox_fill(s[0], &low, &high, out_bits);
        s[1] = low;
    }
    memcpy(out_state->data, s, state->bytes);
    return NF_OK;
}

/* Deterministic from the seed. a, b: low and high bound (uniform), mean and deviation (normal), of out's type. */
void ev_rng_fill(uint64_t seed, bool normal, const void *a, const void *b, struct rt_array *out)
{
    enum { CHUNK = 256 };
    double d[CHUNK];
    uint64_t u[CHUNK];
    bool floats = nf_dtype_is_float(out->dtype);
    int64_t n = rt_array_count(out);
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t m = NF_MIN((int64_t)CHUNK, n - at);
        char *to = (char *)out->data + (size_t)at * nf_dtype_bytes(out->dtype);
        if (floats) {
            rt_random_floats(seed, normal, out->dtype, nf_elem_to_double(out->dtype, a), nf_elem_to_double(out->dtype, b), at, m, d);
            ev_store_double(m, out->dtype, d, to);
        } else {
            rt_random_ints(seed, ev_int_at(out->dtype, a, 0), ev_int_at(out->dtype, b, 0), at, m, u);
            ev_convert(m, out->dtype, to, NF_DT_U64, u);
        }
    }
}
