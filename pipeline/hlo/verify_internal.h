/* verify_internal.h: the functions that rows of hlo_ops.def name, and what they work with. Private to the verifier. */
#ifndef NEFFD_PIPELINE_HLO_VERIFY_INTERNAL_H
#define NEFFD_PIPELINE_HLO_VERIFY_INTERNAL_H

#include "pipeline/hlo/hlo_internal.h"

struct hlo_verifier {
    struct hlo_module *m;
    struct nf_error *err;
    struct nf_arena *scratch;
    int code;                   /* the first error */
    uint64_t *fits;             /* by type id: letters of the signatures that are known to be true of it, from 'A' on */
    uint32_t num_fits;
};

/* "'stablehlo.add' op ..." with the place; returns NF_EGRAPH. */
int hlo__verify_fail(struct hlo_verifier *v, const struct hlo_op *op, const char *fmt, ...) NF_PRINTF(3, 4);
const char *hlo__type_text(struct hlo_verifier *v, const struct hlo_type *t);   /* for messages */
const char *hlo__ints_text(struct hlo_verifier *v, struct hlo_ints i);          /* "[1, 2]" */
bool hlo__type_is(char letter, const struct hlo_type *t);                       /* a letter of the signatures */
/* The same as far as both are known: dynamic dimensions fit anything, bounds are upper limits; per-tensor and per-axis quantised
 * elements of one storage fit each other. */
bool hlo__type_compatible(const struct hlo_type *a, const struct hlo_type *b);
bool hlo__dims_compatible(const struct hlo_type *a, const struct hlo_type *b);
bool hlo__elem_compatible(const struct hlo_type *a, const struct hlo_type *b, bool loose_quant);
int hlo__verify_op(struct hlo_verifier *v, const struct hlo_op *op);
bool hlo__unique(struct hlo_ints v);
/* Dimension numbers of a product: batching and contracting ones of both sides. */
int hlo__check_dot_dims(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type *l, const struct hlo_type *r, struct hlo_ints lb, struct hlo_ints rb,
                        struct hlo_ints lc, struct hlo_ints rc_);
/* The body of a reduction: see verify_region.c. */
int hlo__check_reducer(struct hlo_verifier *v, const struct hlo_op *op, unsigned region, uint32_t n, const struct hlo_type *const *inputs,
                       const struct hlo_type *const *inits, size_t n_allowed, const int64_t *allowed, const struct hlo_type **ret_elems);
int hlo__check_padding(struct hlo_verifier *v, const struct hlo_op *op, size_t n, struct hlo_ints *ret); /* 2n numbers, or none if absent */
int64_t hlo__window_size(int64_t size, int64_t window, int64_t stride, int64_t low, int64_t high, int64_t base_dilation, int64_t window_dilation);
bool hlo__sorted(struct hlo_ints v);
/* Values of an integer constant operand; false if it is none. */
bool hlo__constant_ints(struct hlo_verifier *v, const struct hlo_value *value, struct hlo_ints *ret);

/* constraints */
int hlo_v_add(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_all_gather(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_all_reduce(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_all_to_all(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_async_start(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_bitcast_convert(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_broadcast_in_dim(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_call(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_check(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_chlo_broadcast(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_chlo_broadcast_select(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_chlo_constant_like(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_chlo_scan(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_cholesky(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_collective_broadcast(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_collective_permute(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_collective_reduce(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_compare(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_composite(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_constant(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_convolution(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_cross_replica_sum(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_custom_call(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_dot_general(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_dynamic_broadcast_in_dim(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_dynamic_conv(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_dynamic_iota(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_dynamic_pad(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_dynamic_reshape(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_func(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_func_return(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_infeed(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_iota(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_module(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_numpy_broadcast(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_outfeed(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_real_dynamic_slice(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_recv(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_reduce(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_reduce_precision(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_reduce_scatter(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_reshape(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_reverse(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_rng(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_rng_bit_generator(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_run_parallel(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_send(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_sort(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_uniform_quantize(struct hlo_verifier *v, const struct hlo_op *op);
int hlo_v_while(struct hlo_verifier *v, const struct hlo_op *op);

/* result types */
int hlo_i_abs(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_all_reduce(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_all_to_all(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_async_done(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_async_start(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_batch_norm_grad(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_batch_norm_inference(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_batch_norm_training(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_broadcast(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_case(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_chlo_ragged_dot(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_chlo_top_k(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_clamp(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_collective_broadcast(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_collective_reduce(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_compare(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_complex(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_concatenate(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_dot(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_dot_general(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_dynamic_gather(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_dynamic_slice(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_dynamic_update_slice(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_fft(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_gather(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_get_dimension_size(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_get_tuple_element(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_if(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_is_finite(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_map(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_operand_types(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_pad(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_real(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_reduce(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_reduce_window(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_scatter(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_select(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_select_and_scatter(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_set_dimension_size(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_slice(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_token(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_torch_index_select(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_transpose(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_triangular_solve(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_tuple(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_ui32(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);
int hlo_i_uniform_dequantize(struct hlo_verifier *v, const struct hlo_op *op, const struct hlo_type **ret_types);

#endif
