!q = !quant.uniform<i8:f32, 0.5:1>
!w = !quant.uniform<i32:f32, 0.5:1>
func.func @main() {
  %c = stablehlo.constant dense<[40.0, 40.0, -10.0, 2.5]> : tensor<4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %x = stablehlo.uniform_quantize %c : (tensor<4xf32>) -> tensor<4x!q>
  %i = stablehlo.uniform_quantize %z : (tensor<f32>) -> tensor<!q>
  %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<!w>, %q: tensor<!w>):
   %r = stablehlo.add %p, %q : tensor<!w>
   stablehlo.return %r : tensor<!w>
  }) : (tensor<4x!q>, tensor<!q>) -> tensor<!w>
  %f = stablehlo.uniform_dequantize %0 : (tensor<!w>) -> tensor<f32>
  check.expect_eq_const %f, dense<72.5> : tensor<f32>
  %h = stablehlo.constant dense<[100, 100, 3]> : tensor<3xi8>
  %k = stablehlo.constant dense<0> : tensor<i8>
  %1 = "stablehlo.reduce"(%h, %k) <{dimensions = array<i64: 0>}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
   %r = stablehlo.add %p, %q : tensor<i32>
   stablehlo.return %r : tensor<i32>
  }) : (tensor<3xi8>, tensor<i8>) -> tensor<i32>
  check.expect_eq_const %1, dense<203> : tensor<i32>
  return
}
