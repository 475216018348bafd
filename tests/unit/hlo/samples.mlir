// Every operation of StableHLO once, its attributes set to something else than their defaults where it has any. test_key.c
// changes each attribute of each operation here and expects another key; test_text.c prints and reads all of it.
func.func @elementwise(%f: tensor<4xf32>, %i: tensor<4xi32>, %p: tensor<4xi1>, %z: tensor<4xcomplex<f32>>) -> (tensor<4xf32>, tensor<4xi32>, tensor<4xi1>, tensor<4xcomplex<f32>>) {
  %0 = stablehlo.abs %f : tensor<4xf32>
  %1 = stablehlo.cbrt %0 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %2 = stablehlo.ceil %1 : tensor<4xf32>
  %3 = stablehlo.count_leading_zeros %i : tensor<4xi32>
  %4 = stablehlo.cosine %2 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %5 = stablehlo.exponential %4 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %6 = stablehlo.exponential_minus_one %5 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %7 = stablehlo.floor %6 : tensor<4xf32>
  %8 = stablehlo.log %7 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %9 = stablehlo.log_plus_one %8 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %10 = stablehlo.logistic %9 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %11 = stablehlo.negate %10 : tensor<4xf32>
  %12 = stablehlo.not %p : tensor<4xi1>
  %13 = stablehlo.popcnt %3 : tensor<4xi32>
  %14 = stablehlo.round_nearest_afz %11 : tensor<4xf32>
  %15 = stablehlo.round_nearest_even %14 : tensor<4xf32>
  %16 = stablehlo.rsqrt %15 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %17 = stablehlo.sign %16 : tensor<4xf32>
  %18 = stablehlo.sine %17 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %19 = stablehlo.sqrt %18 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %20 = stablehlo.tan %19 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %21 = stablehlo.tanh %20 {result_accuracy = #stablehlo.result_accuracy<ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %22 = stablehlo.convert %13 : (tensor<4xi32>) -> tensor<4xf32>
  %23 = stablehlo.real %z : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %24 = stablehlo.imag %z : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %25 = stablehlo.is_finite %21 : (tensor<4xf32>) -> tensor<4xi1>
  %26 = stablehlo.reduce_precision %22, format = e5m10 : tensor<4xf32>
  %27 = stablehlo.add %26, %21 : tensor<4xf32>
  %28 = stablehlo.and %25, %12 : tensor<4xi1>
  %29 = stablehlo.atan2 %27, %23 : tensor<4xf32>
  %30 = stablehlo.divide %29, %24 : tensor<4xf32>
  %31 = stablehlo.maximum %30, %f : tensor<4xf32>
  %32 = stablehlo.minimum %31, %f : tensor<4xf32>
  %33 = stablehlo.multiply %32, %32 : tensor<4xf32>
  %34 = stablehlo.or %28, %p : tensor<4xi1>
  %35 = stablehlo.power %33, %f : tensor<4xf32>
  %36 = stablehlo.remainder %35, %f : tensor<4xf32>
  %37 = stablehlo.shift_left %i, %13 : tensor<4xi32>
  %38 = stablehlo.shift_right_arithmetic %37, %13 : tensor<4xi32>
  %39 = stablehlo.shift_right_logical %38, %13 : tensor<4xi32>
  %40 = stablehlo.subtract %36, %f : tensor<4xf32>
  %41 = stablehlo.xor %34, %p : tensor<4xi1>
  %42 = stablehlo.compare LT, %40, %f, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %43 = stablehlo.complex %40, %f : tensor<4xcomplex<f32>>
  %44 = stablehlo.select %42, %40, %f : tensor<4xi1>, tensor<4xf32>
  %45 = stablehlo.clamp %f, %44, %f : tensor<4xf32>
  return %45, %39, %41, %43 : tensor<4xf32>, tensor<4xi32>, tensor<4xi1>, tensor<4xcomplex<f32>>
}

// -----

func.func @movement(%a: tensor<2x3xf32>, %s: tensor<i32>, %f: tensor<f32>, %n: tensor<3x1xi32>) -> (tensor<6x2xf32>, tensor<4x3xf32>, tensor<2x3xui32>, tensor<3x2xf32>, tensor<i32>, tensor<2x?xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %0 = stablehlo.iota dim = 1 : tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x4x3xf32>
  %2 = stablehlo.reshape %1 : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %3 = stablehlo.bitcast_convert %c : (tensor<2x3xf32>) -> tensor<2x3xui32>
  %4 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %5 = stablehlo.reverse %4, dims = [0] : tensor<3x2xf32>
  %6 = stablehlo.concatenate %5, %4, dim = 0 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<6x2xf32>
  %7 = stablehlo.slice %2 [0:8:2, 0:3] : (tensor<8x3xf32>) -> tensor<4x3xf32>
  %8 = stablehlo.dynamic_slice %2, %s, %s, sizes = [4, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  %9 = stablehlo.dynamic_update_slice %8, %7, %s, %s : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  %10 = stablehlo.pad %6, %f, low = [0, 1], high = [1, 0], interior = [0, 2] : (tensor<6x2xf32>, tensor<f32>) -> tensor<7x5xf32>
  %11 = stablehlo.slice %10 [0:6, 0:2] : (tensor<7x5xf32>) -> tensor<6x2xf32>
  %12 = "stablehlo.gather"(%a, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 2, 1>}> : (tensor<2x3xf32>, tensor<3x1xi32>) -> tensor<2x3xf32>
  %13 = "stablehlo.scatter"(%12, %n, %4) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %q = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<2x3xf32>
  %14 = "stablehlo.sort"(%13) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %q = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %15 = stablehlo.get_dimension_size %14, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  %16 = stablehlo.set_dimension_size %14, %15, dim = 1 : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
  %17 = "stablehlo.custom_call"(%16) <{call_target_name = "drop_bound"}> : (tensor<2x?xf32, #stablehlo.bounds<?, 3>>) -> tensor<2x?xf32>
  %18 = stablehlo.reduce(%14 init: %f) applies stablehlo.maximum across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %11, %9, %3, %5, %15, %17, %18 : tensor<6x2xf32>, tensor<4x3xf32>, tensor<2x3xui32>, tensor<3x2xf32>, tensor<i32>, tensor<2x?xf32>, tensor<3xf32>
}

// -----

func.func @dynamic(%a: tensor<?x3xf32>, %shape: tensor<2xi64>, %f: tensor<f32>, %n: tensor<?x1xi32>, %k: tensor<3x3x1x1xf32>, %im: tensor<1x?x8x1xf32>, %pads: tensor<2x2xi64>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x3xf32>, tensor<?x3xf32>, tensor<1x?x?x1xf32>) {
  %0 = stablehlo.dynamic_iota %shape, dim = 1 : (tensor<2xi64>) -> tensor<?x?xf32>
  %1 = stablehlo.dynamic_reshape %a, %shape : (tensor<?x3xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %2 = stablehlo.dynamic_pad %1, %f, %shape, %shape, %shape : (tensor<?x?xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
  %3 = "stablehlo.dynamic_broadcast_in_dim"(%1, %shape) <{broadcast_dimensions = array<i64: 0, 1>, known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 1>}> : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %4 = "stablehlo.dynamic_gather"(%a, %n, %shape) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true}> : (tensor<?x3xf32>, tensor<?x1xi32>, tensor<2xi64>) -> tensor<?x3xf32>
  %5 = stablehlo.real_dynamic_slice %a, %shape, %shape, %shape : (tensor<?x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x3xf32>
  %6 = "stablehlo.dynamic_conv"(%im, %k, %pads) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1, 2>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>], rhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: true, false>, window_strides = array<i64: 2, 1>}> : (tensor<1x?x8x1xf32>, tensor<3x3x1x1xf32>, tensor<2x2xi64>) -> tensor<1x?x?x1xf32>
  return %0, %2, %3, %1, %4, %5, %6 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x3xf32>, tensor<?x3xf32>, tensor<1x?x?x1xf32>
}

// -----

func.func @algebra(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>, %im: tensor<1x8x8x2xf32>, %k: tensor<3x3x2x4xf32>, %w: tensor<4x6xf32>, %src: tensor<2x6xf32>, %f: tensor<f32>, %m: tensor<3x3xf32>, %r: tensor<3x2xf32>, %z: tensor<8xcomplex<f32>>, %v: tensor<2xf32>, %bn: tensor<4x2xf32>) -> (tensor<2x3x5xf32>, tensor<1x3x5x4xf32>, tensor<3x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x3xf32>, tensor<3x2xf32>, tensor<8xcomplex<f32>>, tensor<4x2xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGH, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %1 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, allow_imprecise_accumulation = false> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %2 = stablehlo.add %0, %1 : tensor<2x3x5xf32>
  %3 = stablehlo.convolution(%im, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [3, 3], pad = [[1, 1], [0, 2]], lhs_dilate = [1, 2], rhs_dilate = [2, 2], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x2x5x4xf32>
  %p = stablehlo.pad %3, %f, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x2x5x4xf32>, tensor<f32>) -> tensor<1x3x5x4xf32>
  %4 = "stablehlo.reduce_window"(%w, %f) <{base_dilations = array<i64: 1, 2>, padding = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 2, 1>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %q = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  %5 = "stablehlo.select_and_scatter"(%w, %src, %f) <{padding = dense<[[0, 0], [0, 1]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %q = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %q = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<2x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %6 = "stablehlo.map"(%w) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>):
    %q = stablehlo.negate %x : tensor<f32>
    stablehlo.return %q : tensor<f32>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %7 = stablehlo.cholesky %m, lower = true : tensor<3x3xf32>
  %8 = "stablehlo.triangular_solve"(%7, %r) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = true}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %9 = stablehlo.fft %z, type = IFFT, length = [8] : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  %10:3 = "stablehlo.batch_norm_training"(%bn, %v, %v) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  %11 = "stablehlo.batch_norm_inference"(%10#0, %v, %v, %10#1, %10#2) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %12:3 = "stablehlo.batch_norm_grad"(%11, %v, %v, %v, %11) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %2, %p, %4, %5, %6, %7, %8, %9, %12#0 : tensor<2x3x5xf32>, tensor<1x3x5x4xf32>, tensor<3x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x3xf32>, tensor<3x2xf32>, tensor<8xcomplex<f32>>, tensor<4x2xf32>
}

// -----

func.func @random(%state: tensor<2xui64>, %f: tensor<f32>) -> (tensor<2xui64>, tensor<4xui32>, tensor<3xf32>) {
  %shape = stablehlo.constant dense<3> : tensor<1xi64>
  %0 = stablehlo.rng %f, %f, %shape, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  %1, %2 = stablehlo.rng_bit_generator %state, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %1, %2, %0 : tensor<2xui64>, tensor<4xui32>, tensor<3xf32>
}

// -----

module @control attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%p: tensor<i1>, %i: tensor<i32>, %f: tensor<f32>, %t: !stablehlo.token) -> (tensor<i32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, !stablehlo.token, tensor<ui32>) {
    %c = stablehlo.constant dense<10> : tensor<i32>
    %0 = stablehlo.while(%k = %i) : tensor<i32>
    cond {
      %q = stablehlo.compare LT, %k, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %q = stablehlo.add %k, %k : tensor<i32>
      stablehlo.return %q : tensor<i32>
    }
    %1 = "stablehlo.if"(%p) ({
      stablehlo.return %f : tensor<f32>
    }, {
      %q = stablehlo.negate %f : tensor<f32>
      stablehlo.return %q : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    %2 = "stablehlo.case"(%i) ({
      stablehlo.return %f : tensor<f32>
    }, {
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    %3:2 = stablehlo.optimization_barrier %1, %2 : tensor<f32>, tensor<f32>
    %4 = stablehlo.tuple %3#0, %3#1 : tuple<tensor<f32>, tensor<f32>>
    %5 = stablehlo.get_tuple_element %4[1] : (tuple<tensor<f32>, tensor<f32>>) -> tensor<f32>
    %6 = "stablehlo.custom_call"(%5) <{api_version = 2 : i32, backend_config = "a\00b", call_target_name = "foo", called_computations = [@helper], has_side_effect = true, operand_layouts = [dense<> : tensor<0xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<> : tensor<0xindex>], result_tilings = [1]}> : (tensor<f32>) -> tensor<f32>
    %7 = stablehlo.composite "my.op" %6 {composite_attributes = {n = 1 : i64}, decomposition = @helper, version = 3 : i32} : (tensor<f32>) -> tensor<f32>
    %8 = call @helper(%7) {no_inline} : (tensor<f32>) -> tensor<f32>
    %9 = stablehlo.after_all %t, %t : !stablehlo.token
    %10 = stablehlo.replica_id : tensor<ui32>
    %11 = stablehlo.partition_id : tensor<ui32>
    %12 = stablehlo.add %10, %11 : tensor<ui32>
    return %0, %5, %6, %7, %8, %9, %12 : tensor<i32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, !stablehlo.token, tensor<ui32>
  }
  func.func private @helper(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.cosine %a : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @other(%a: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %a : tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

module @devices attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%a: tensor<8x2xf32>, %root: tensor<1xi32>, %t: !stablehlo.token) -> (tensor<8x8xf32>, tensor<8x2xf32>, tensor<2x2xf32>, tensor<2x8xf32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2xf32>, !stablehlo.token, tensor<8x2xf32>, tensor<4xf32>, tensor<8x2xf32>) {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<8x2xf32>) -> tensor<8x8xf32>
    %1 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %q = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %q : tensor<f32>
    }) : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %2 = "stablehlo.reduce_scatter"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %q = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %q : tensor<f32>
    }) : (tensor<8x2xf32>) -> tensor<2x2xf32>
    %3 = "stablehlo.all_to_all"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %4 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %5 = "stablehlo.collective_broadcast"(%4, %root) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, has_dynamic_root, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8x2xf32>, tensor<1xi32>) -> tensor<8x2xf32>
    %6 = "stablehlo.collective_reduce"(%5, %root) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, has_dynamic_root, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %q = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %q : tensor<f32>
    }) : (tensor<8x2xf32>, tensor<1xi32>) -> tensor<8x2xf32>
    %7 = "stablehlo.send"(%6, %t) <{channel_handle = #stablehlo.channel_handle<handle = 8, type = 2>, is_host_transfer = true, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8x2xf32>, !stablehlo.token) -> !stablehlo.token
    %8:2 = "stablehlo.recv"(%7) <{channel_handle = #stablehlo.channel_handle<handle = 9, type = 3>, is_host_transfer = true, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<8x2xf32>, !stablehlo.token)
    %9:2 = "stablehlo.infeed"(%8#1) <{infeed_config = "in", layout = [[0]]}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %10 = "stablehlo.outfeed"(%9#0, %9#1) <{outfeed_config = "out"}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %11 = "stablehlo.async_start"(%8#0) ({
    ^bb0(%x: tensor<8x2xf32>):
      %q = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8x2xf32>) -> tensor<8x2xf32>
      "stablehlo.return"(%q) : (tensor<8x2xf32>) -> ()
    }) : (tensor<8x2xf32>) -> !stablehlo.future<tensor<8x2xf32>>
    %12 = "stablehlo.async_done"(%11) : (!stablehlo.future<tensor<8x2xf32>>) -> tensor<8x2xf32>
    return %0, %1, %2, %3, %4, %5, %6, %10, %8#0, %9#0, %12 : tensor<8x8xf32>, tensor<8x2xf32>, tensor<2x2xf32>, tensor<2x8xf32>, tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2xf32>, !stablehlo.token, tensor<8x2xf32>, tensor<4xf32>, tensor<8x2xf32>
  }
}

// -----

func.func @quantised(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi8>) {
  %0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:-3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:-3>>) -> tensor<2x3xf32>
  %2 = stablehlo.constant() <{value = dense<3> : tensor<2x3xi8>}> : () -> tensor<2x3x!quant.uniform<i8:f32:1, {1.000000e-01, 2.000000e-01:5, 3.000000e-01}>>
  %3 = stablehlo.bitcast_convert %2 : (tensor<2x3x!quant.uniform<i8:f32:1, {1.000000e-01, 2.000000e-01:5, 3.000000e-01}>>) -> tensor<2x3xi8>
  return %1, %3 : tensor<2x3xf32>, tensor<2x3xi8>
}

// -----

func.func @deprecated(%a: tensor<3xf32>, %m: tensor<2x3xf32>, %b: tensor<3x4xf32>, %i: tensor<2xi32>) -> (tensor<2x3xf32>, !stablehlo.token, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2x2xf32>) {
  %0 = stablehlo.broadcast %a, sizes = [2] : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.create_token : !stablehlo.token
  %2 = "stablehlo.cross-replica-sum"(%0) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.dot %m, %b, precision = [HIGH, HIGH] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %4 = stablehlo.einsum %m, %b, config = "ab,bc->ac" : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %5 = stablehlo.unary_einsum %m, config = "ab->a" : (tensor<2x3xf32>) -> tensor<2xf32>
  %6 = "stablehlo.torch_index_select"(%m, %i) <{batch_dims = 0 : i64, dim = 1 : i64}> : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x2xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xf32>, !stablehlo.token, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2x2xf32>
}
