// A donated weight is updated where it is.
func.func @main(%w: tensor<1000xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<1000xf32>) -> tensor<1000xf32> {
  %lr = stablehlo.constant dense<1.000000e-01> : tensor<1000xf32>
  %s = stablehlo.multiply %g, %lr : tensor<1000xf32>
  %n = stablehlo.subtract %w, %s : tensor<1000xf32>
  return %n : tensor<1000xf32>
}
