// What is cut is an operand of the devices, which have a piece each; what is not they read where it is.
sdy.mesh @m = <["d"=4]>
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x32xf32> {
  %t = stablehlo.tanh %w : tensor<16x32xf32>
  %r = sdy.manual_computation(%x, %t) in_shardings=[<@m, [{"d"}, {}]>, <@m, [{}, {}]>] out_shardings=[<@m, [{"d"}, {}]>] manual_axes={"d"} (%p: tensor<2x16xf32>, %q: tensor<16x32xf32>) {
    %y = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<2x16xf32>, tensor<16x32xf32>) -> tensor<2x32xf32>
    sdy.return %y : tensor<2x32xf32>
  } : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  return %r : tensor<8x32xf32>
}
