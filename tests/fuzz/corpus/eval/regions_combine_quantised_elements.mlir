!q = !quant.uniform<i8:f32, 0.5:1>
!w = !quant.uniform<i32:f32, 0.5:1>
func.func @main() {
  %c = stablehlo.constant dense<[40.0, 40.0, -10.0, 2.5]> : tensor<4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.uniform_quantize %c : (tensor<4xf32>) -> tensor<4x!q>
  %i = stablehlo.uniform_quantize %z : (tensor<f32>) -> tensor<!q>
  %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.add %p, %q : tensor<!q>
   stablehlo.return %r : tensor<!q>
  }) : (tensor<4x!q>, tensor<!q>) -> tensor<!q>
  %f0 = stablehlo.uniform_dequantize %0 : (tensor<!q>) -> tensor<f32>
  check.expect_eq_const %f0, dense<55.5> : tensor<f32>
  %1 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.maximum %p, %q : tensor<!q>
   stablehlo.return %r : tensor<!q>
  }) : (tensor<4x!q>, tensor<!q>) -> tensor<3x!q>
  %f1 = stablehlo.uniform_dequantize %1 : (tensor<3x!q>) -> tensor<3xf32>
  check.expect_eq_const %f1, dense<[40.0, 40.0, 2.5]> : tensor<3xf32>
  %2 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.add %p, %q : tensor<!q>
   stablehlo.return %r : tensor<!q>
  }) : (tensor<4x!q>, tensor<4x!q>) -> tensor<4x!q>
  %f2 = stablehlo.uniform_dequantize %2 : (tensor<4x!q>) -> tensor<4xf32>
  check.expect_eq_const %f2, dense<[63.0, 63.0, -20.0, 5.0]> : tensor<4xf32>
  %3 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.compare LT, %p, %q : (tensor<!q>, tensor<!q>) -> tensor<i1>
   stablehlo.return %r : tensor<i1>
  }) : (tensor<4x!q>) -> tensor<4x!q>
  %f3 = stablehlo.uniform_dequantize %3 : (tensor<4x!q>) -> tensor<4xf32>
  check.expect_eq_const %f3, dense<[-10.0, 2.5, 40.0, 40.0]> : tensor<4xf32>
  %n = stablehlo.constant dense<[[1], [1], [3]]> : tensor<3x1xi64>
  %u = stablehlo.slice %x [1:4] : (tensor<4x!q>) -> tensor<3x!q>
  %4 = "stablehlo.scatter"(%x, %n, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.add %p, %q : tensor<!q>
   stablehlo.return %r : tensor<!q>
  }) : (tensor<4x!q>, tensor<3x1xi64>, tensor<3x!q>) -> tensor<4x!q>
  %f4 = stablehlo.uniform_dequantize %4 : (tensor<4x!q>) -> tensor<4xf32>
  check.expect_eq_const %f4, dense<[40.0, 53.0, -10.0, 5.0]> : tensor<4xf32>
  %t = stablehlo.slice %x [2:4] : (tensor<4x!q>) -> tensor<2x!q>
  %5 = "stablehlo.select_and_scatter"(%x, %t, %i) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.compare GE, %p, %q : (tensor<!q>, tensor<!q>) -> tensor<i1>
   stablehlo.return %r : tensor<i1>
  }, {
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.add %p, %q : tensor<!q>
   stablehlo.return %r : tensor<!q>
  }) : (tensor<4x!q>, tensor<2x!q>, tensor<!q>) -> tensor<4x!q>
  %f5 = stablehlo.uniform_dequantize %5 : (tensor<4x!q>) -> tensor<4xf32>
  check.expect_eq_const %f5, dense<[-10.0, 0.0, 0.0, 2.5]> : tensor<4xf32>
  %6 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
  ^bb0(%p: tensor<!q>, %q: tensor<!q>):
   %r = stablehlo.add %p, %q : tensor<!q>
   stablehlo.return %r : tensor<!q>
  }) : (tensor<4x!q>) -> tensor<4x!q>
  %f6 = stablehlo.uniform_dequantize %6 : (tensor<4x!q>) -> tensor<4xf32>
  check.expect_eq_const %f6, dense<[40.0, 40.0, -10.0, 2.5]> : tensor<4xf32>
  return
}
