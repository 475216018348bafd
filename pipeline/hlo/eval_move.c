/* Kernels that move elements without looking at them: all are copies of boxes between strided places. */
#include "pipeline/hlo/eval_kernels.h"

void ev_strides(int rank, const int64_t *dims, int64_t *ret_strides)
{
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; i--) {
        ret_strides[i] = s;
        s *= dims[i] > 0 ? dims[i] : 1;
    }
}

bool ev_next_index(int rank, const int64_t *dims, int64_t *index)
{
    for (int d = rank - 1; d >= 0; d--) {
        if (++index[d] < dims[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static void copy_run(size_t w, int64_t n, char *dst, int64_t ds, const char *src, int64_t ss)
{
    if (ds == 1 && ss == 1) {
        memcpy(dst, src, (size_t)n * w);
        return;
    }
    if (ds == 1 && ss == 0) {
        ev_fill(n, w, dst, src);
        return;
    }
#define RUN(T)                                                                       \
    {                                                                                \
        T *d = (T *)(void *)dst;                                                     \
        const T *s = (const T *)(const void *)src;                                   \
        for (int64_t i = 0; i < n; i++)                                              \
            d[i * ds] = s[i * ss];                                                   \
    }
    if (w == 1)
        RUN(uint8_t)
    else if (w == 2)
        RUN(uint16_t)
    else if (w == 4)
        RUN(uint32_t)
    else if (w == 8)
        RUN(uint64_t)
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds * (int64_t)w, src + i * ss * (int64_t)w, w);
#undef RUN
}

void ev_copy_box(size_t w, int rank, const int64_t *dims, void *dst, const int64_t *dst_strides, const void *src, const int64_t *src_strides)
{
    /* Drop dimensions of size 1, join neighbours that advance together. */
    int64_t d[RT_ARRAY_RANK_MAX], ds[RT_ARRAY_RANK_MAX], ss[RT_ARRAY_RANK_MAX], index[RT_ARRAY_RANK_MAX] = {0};
    int r = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0)
            return;
        if (dims[i] == 1)
            continue;
        if (r && ds[r - 1] == dst_strides[i] * dims[i] && ss[r - 1] == src_strides[i] * dims[i]) {
            d[r - 1] *= dims[i];
            ds[r - 1] = dst_strides[i];
            ss[r - 1] = src_strides[i];
            continue;
        }
        d[r] = dims[i];
        ds[r] = dst_strides[i];
        ss[r] = src_strides[i];
        r++;
    }
    if (r == 0) {
        memcpy(dst, src, w);
        return;
    }
    char *pd = dst;
    const char *ps = src;
    int inner = r - 1;
    for (;;) {
        copy_run(w, d[inner], pd, ds[inner], ps, ss[inner]);
        int k = inner - 1;
        for (; k >= 0; k--) {
            pd += ds[k] * (int64_t)w;
            ps += ss[k] * (int64_t)w;
            if (++index[k] < d[k])
                break;
            pd -= ds[k] * d[k] * (int64_t)w;
            ps -= ss[k] * d[k] * (int64_t)w;
            index[k] = 0;
        }
        if (k < 0)
            return;
    }
}

void ev_broadcast(const struct rt_array *in, const int64_t *dims_map, struct rt_array *out)
{
    int64_t os[RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX], ss[RT_ARRAY_RANK_MAX] = {0};
    ev_strides(out->rank, out->dims, os);
    ev_strides(in->rank, in->dims, is);
    for (int i = 0; i < in->rank; i++)
        if (in->dims[i] != 1 || out->dims[dims_map[i]] == 1)
            ss[dims_map[i]] = is[i];
    ev_copy_box(nf_dtype_bytes(in->dtype), out->rank, out->dims, out->data, os, in->data, ss);
}

void ev_transpose(const struct rt_array *in, const int64_t *perm, struct rt_array *out)
{
    int64_t os[RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX], ss[RT_ARRAY_RANK_MAX];
    ev_strides(out->rank, out->dims, os);
    ev_strides(in->rank, in->dims, is);
    for (int i = 0; i < out->rank; i++)
        ss[i] = is[perm[i]];
    ev_copy_box(nf_dtype_bytes(in->dtype), out->rank, out->dims, out->data, os, in->data, ss);
}

void ev_slice(const struct rt_array *in, const int64_t *start, const int64_t *stride, struct rt_array *out)
{
    int64_t os[RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX], ss[RT_ARRAY_RANK_MAX], at = 0;
    if (out->bytes == 0)
        return;
    ev_strides(out->rank, out->dims, os);
    ev_strides(in->rank, in->dims, is);
    for (int i = 0; i < out->rank; i++) {
        at += start[i] * is[i];
        ss[i] = is[i] * (stride ? stride[i] : 1);
    }
    size_t w = nf_dtype_bytes(in->dtype);
    ev_copy_box(w, out->rank, out->dims, out->data, os, (const char *)in->data + at * (int64_t)w, ss);
}

void ev_reverse(const struct rt_array *in, const int64_t *dims, size_t n, struct rt_array *out)
{
    int64_t os[RT_ARRAY_RANK_MAX], ss[RT_ARRAY_RANK_MAX], at = 0;
    if (out->bytes == 0)
        return;
    ev_strides(out->rank, out->dims, os);
    for (int i = 0; i < out->rank; i++) {
        bool rev = ev_ints_has((struct ev_ints){dims, n}, i);
        ss[i] = rev ? -os[i] : os[i];
        if (rev)
            at += os[i] * (in->dims[i] - 1);
    }
    size_t w = nf_dtype_bytes(in->dtype);
    ev_copy_box(w, out->rank, out->dims, out->data, os, (const char *)in->data + at * (int64_t)w, ss);
}

void ev_pad(const struct rt_array *in, const void *value, const int64_t *low, const int64_t *interior, struct rt_array *out)
{
    size_t w = nf_dtype_bytes(in->dtype);
    ev_fill(rt_array_count(out), w, out->data, value);
    /* Of each dimension, the input positions i with 0 <= low + i * step < size are copied. */
    int64_t os[RT_ARRAY_RANK_MAX], is[RT_ARRAY_RANK_MAX], count[RT_ARRAY_RANK_MAX], dst = 0, src = 0;
    ev_strides(out->rank, out->dims, os);
    ev_strides(in->rank, in->dims, is);
    for (int i = 0; i < out->rank; i++) {
        int64_t step = interior[i] + 1, first = low[i] >= 0 ? 0 : (-low[i] + step - 1) / step;
        int64_t room = out->dims[i] - low[i]; /* positions below this are inside */
        int64_t last = room <= 0 ? 0 : (room - 1) / step + 1;
        last = NF_MIN(last, in->dims[i]);
        if (last <= first)
            return;
        count[i] = last - first;
        dst += (low[i] + first * step) * os[i];
        src += first * is[i];
        os[i] *= step;
    }
    ev_copy_box(w, out->rank, count, (char *)out->data + dst * (int64_t)w, os, (const char *)in->data + src * (int64_t)w, is);
}

void ev_update(struct rt_array *inout, const int64_t *start, const struct rt_array *update)
{
    int64_t os[RT_ARRAY_RANK_MAX], us[RT_ARRAY_RANK_MAX], at = 0;
    if (update->bytes == 0)
        return;
    ev_strides(inout->rank, inout->dims, os);
    ev_strides(update->rank, update->dims, us);
    for (int i = 0; i < inout->rank; i++)
        at += start[i] * os[i];
    size_t w = nf_dtype_bytes(inout->dtype);
    ev_copy_box(w, update->rank, update->dims, (char *)inout->data + at * (int64_t)w, os, update->data, us);
}

void ev_iota(struct rt_array *out, int64_t dim)
{
    int64_t outer = 1, n = out->dims[dim], inner = 1;
    size_t w = nf_dtype_bytes(out->dtype);
    for (int i = 0; i < out->rank; i++) {
        if (i < dim)
            outer *= out->dims[i];
        if (i > dim)
            inner *= out->dims[i];
    }
    if (outer * n * inner == 0)
        return;
    char *p = out->data;
    for (int64_t i = 0; i < n; i++) {
        _Alignas(16) char elem[16];
        ev_convert(1, out->dtype, elem, NF_DT_S64, &i);
        ev_fill(inner, w, p + i * inner * (int64_t)w, elem);
    }
    ev_fill(outer, w * (size_t)(n * inner), p, p);
}

/* Coordinates of one start index: element k of the vector that lies along index_vector_dim. */
void ev_gather(const struct rt_array *operand, const struct rt_array *indices, const struct ev_gather *g, struct rt_array *out)
{
    size_t w = nf_dtype_bytes(operand->dtype);
    int64_t op_strides[RT_ARRAY_RANK_MAX], out_strides[RT_ARRAY_RANK_MAX], ix_strides[RT_ARRAY_RANK_MAX];
    ev_strides(operand->rank, operand->dims, op_strides);
    ev_strides(out->rank, out->dims, out_strides);
    ev_strides(indices->rank, indices->dims, ix_strides);
    if (out->bytes == 0)
        return;
    /* batch dimensions of the output, in order, walk the indices without the vector dimension */
    int batch_rank = 0;
    int64_t batch_dims[RT_ARRAY_RANK_MAX], batch_out[RT_ARRAY_RANK_MAX], batch_ix[RT_ARRAY_RANK_MAX], batch_axis[RT_ARRAY_RANK_MAX];
    for (int d = 0, o = 0; d < indices->rank; d++) {
        if (d == g->index_vector_dim)
            continue;
        while (ev_ints_has(g->offset_dims, o))
            o++;
        batch_dims[batch_rank] = indices->dims[d];
        batch_out[batch_rank] = out_strides[o++];
        batch_ix[batch_rank] = ix_strides[d];
        batch_axis[batch_rank++] = d;
    }
    /* the slice: kept operand dimensions go to offset_dims in order */
    int box_rank = 0;
    int64_t box[RT_ARRAY_RANK_MAX], box_dst[RT_ARRAY_RANK_MAX], box_src[RT_ARRAY_RANK_MAX];
    for (int d = 0; d < operand->rank; d++) {
        if (ev_ints_has(g->collapsed, d) || ev_ints_has(g->operand_batching, d))
            continue;
        box[box_rank] = g->slice_sizes[d];
        box_dst[box_rank] = out_strides[g->offset_dims.v[box_rank]];
        box_src[box_rank] = op_strides[d];
        box_rank++;
    }
    int64_t vec_stride = g->index_vector_dim < indices->rank ? ix_strides[g->index_vector_dim] : 0;
    int64_t at[RT_ARRAY_RANK_MAX] = {0};
    do {
        int64_t dst = 0, ix = 0, src = 0;
        for (int b = 0; b < batch_rank; b++) {
            dst += at[b] * batch_out[b];
            ix += at[b] * batch_ix[b];
        }
        for (size_t k = 0; k < g->index_map.n; k++) {
            int64_t d = g->index_map.v[k], i = ev_int_at(indices->dtype, indices->data, ix + (int64_t)k * vec_stride);
            int64_t most = operand->dims[d] - g->slice_sizes[d];
            src += NF_MAX((int64_t)0, NF_MIN(i, most)) * op_strides[d];
        }
        for (size_t k = 0; k < g->operand_batching.n; k++) {
            for (int b = 0; b < batch_rank; b++)
                if (batch_axis[b] == g->indices_batching.v[k])
                    src += at[b] * op_strides[g->operand_batching.v[k]];
        }
        ev_copy_box(w, box_rank, box, (char *)out->data + dst * (int64_t)w, box_dst, (const char *)operand->data + src * (int64_t)w, box_src);
    } while (ev_next_index(batch_rank, batch_dims, at));
}
