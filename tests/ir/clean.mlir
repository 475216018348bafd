// Common operations, dead ones, deprecated ones.
// =====
// passes: cse
func.func @cse(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.sine %a : tensor<f32>
  %1 = stablehlo.sine %a : tensor<f32>
  %2 = stablehlo.add %0, %1 : tensor<f32>
  %3 = stablehlo.custom_call @effect(%a) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %4 = stablehlo.custom_call @effect(%a) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  %5 = stablehlo.add %3, %4 : tensor<f32>
  return %2, %5 : tensor<f32>, tensor<f32>
}
// ----- expected
module {
  func.func @cse(%arg0: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = stablehlo.sine %arg0 : tensor<f32>
    %1 = stablehlo.add %0, %0 : tensor<f32>
    %2 = stablehlo.custom_call @effect(%arg0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    %3 = stablehlo.custom_call @effect(%arg0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    %4 = stablehlo.add %2, %3 : tensor<f32>
    return %1, %4 : tensor<f32>, tensor<f32>
  }
}
// =====
// passes: dce
func.func @dce(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %a : tensor<f32>
  %1 = stablehlo.cosine %0 : tensor<f32>
  %2 = stablehlo.custom_call @effect(%0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
  return %a : tensor<f32>
}
// ----- expected
module {
  func.func @dce(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %arg0 : tensor<f32>
    %1 = stablehlo.custom_call @effect(%0) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    return %arg0 : tensor<f32>
  }
}
// =====
// passes: legalise
func.func @legalise(%a: tensor<3xf32>, %m: tensor<2x3xf32>, %b: tensor<3x4xf32>, %i: tensor<2xi32>) -> (tensor<2x3xf32>, !stablehlo.token, tensor<2x4xf32>, tensor<4x2xf32>, tensor<2x2xf32>) {
  %0 = stablehlo.broadcast %a, sizes = [2] : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.create_token : !stablehlo.token
  %2 = stablehlo.dot %m, %b, precision = [HIGH, HIGH] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %3 = stablehlo.einsum %m, %b, config = "ab,bc->ca" : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>
  %4 = "stablehlo.torch_index_select"(%m, %i) <{batch_dims = 0 : i64, dim = 1 : i64}> : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x2xf32>
  return %0, %1, %2, %3, %4 : tensor<2x3xf32>, !stablehlo.token, tensor<2x4xf32>, tensor<4x2xf32>, tensor<2x2xf32>
}
// ----- expected
module {
  func.func @legalise(%arg0: tensor<3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<3x4xf32>, %arg3: tensor<2xi32>) -> (tensor<2x3xf32>, !stablehlo.token, tensor<2x4xf32>, tensor<4x2xf32>, tensor<2x2xf32>) {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.after_all : !stablehlo.token
    %2 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [1] x [0], precision = [HIGH, HIGH] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %3 = stablehlo.dot_general %arg1, %arg2, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %4 = stablehlo.transpose %3, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %5 = "stablehlo.gather"(%arg1, %arg3) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 1>}> : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x2xf32>
    return %0, %1, %2, %4, %5 : tensor<2x3xf32>, !stablehlo.token, tensor<2x4xf32>, tensor<4x2xf32>, tensor<2x2xf32>
  }
}
// =====
// passes: legalise
func.func @einsums(%m: tensor<2x3xf32>, %s: tensor<3x3xf32>, %b: tensor<4x1x3xf32>, %v: tensor<5x3xf32>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<3xf32>, tensor<4x5x3xf32>) {
  %0 = stablehlo.unary_einsum %m, config = "ab->a" : (tensor<2x3xf32>) -> tensor<2xf32>
  %1 = stablehlo.unary_einsum %m, config = "...ab->...ba" : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = stablehlo.einsum %s, %m, config = "aa,ba->a" : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<3xf32>
  %3 = stablehlo.einsum %b, %v, config = "...a,...a->...a" : (tensor<4x1x3xf32>, tensor<5x3xf32>) -> tensor<4x5x3xf32>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<3x2xf32>, tensor<3xf32>, tensor<4x5x3xf32>
}
// ----- expected
module {
  func.func @einsums(%arg0: tensor<2x3xf32>, %arg1: tensor<3x3xf32>, %arg2: tensor<4x1x3xf32>, %arg3: tensor<5x3xf32>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<3xf32>, tensor<4x5x3xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %1 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf32>
    %2 = stablehlo.iota dim = 0 : tensor<3x3xi64>
    %3 = stablehlo.iota dim = 1 : tensor<3x3xi64>
    %4 = stablehlo.compare EQ, %2, %3 : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
    %5 = stablehlo.select %4, %arg1, %cst_0 : tensor<3x3xi1>, tensor<3x3xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%arg0 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    %8 = stablehlo.dot_general %6, %7, batching_dims = [0] x [0], contracting_dims = [] x [] : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %9 = stablehlo.reshape %arg2 : (tensor<4x1x3xf32>) -> tensor<4x3xf32>
    %10 = stablehlo.dot_general %9, %arg3, batching_dims = [1] x [1], contracting_dims = [] x [] : (tensor<4x3xf32>, tensor<5x3xf32>) -> tensor<3x4x5xf32>
    %11 = stablehlo.transpose %10, dims = [1, 2, 0] : (tensor<3x4x5xf32>) -> tensor<4x5x3xf32>
    return %0, %1, %8, %11 : tensor<2xf32>, tensor<3x2xf32>, tensor<3xf32>, tensor<4x5x3xf32>
  }
}
// =====
// passes: legalise
func.func @refused(%m: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = stablehlo.unary_einsum %m, config = "ab->c" : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// ----- expected
// error: 3: unary_einsum
// =====
// passes: legalise
func.func @diagonal(%s: tensor<?x?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.unary_einsum %s, config = "aa->a" : (tensor<?x?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
// ----- expected
module {
  func.func @diagonal(%arg0: tensor<?x?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %1 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %2 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
    %4 = stablehlo.concatenate %2, %3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.dynamic_broadcast_in_dim %cst, %4, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x?xf32>
    %6 = stablehlo.dynamic_iota %4, dim = 0 : (tensor<2xi32>) -> tensor<?x?xi64>
    %7 = stablehlo.dynamic_iota %4, dim = 1 : (tensor<2xi32>) -> tensor<?x?xi64>
    %8 = stablehlo.compare EQ, %6, %7 : (tensor<?x?xi64>, tensor<?x?xi64>) -> tensor<?x?xi1>
    %9 = stablehlo.select %8, %arg0, %5 : tensor<?x?xi1>, tensor<?x?xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
    return %10 : tensor<?xf32>
  }
}
