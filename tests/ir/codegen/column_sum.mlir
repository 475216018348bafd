// By columns, in blocks of lanes; the bias gradient.
func.func @main(%x: tensor<512x96xf32>, %s: tensor<f32>) -> tensor<96xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<512x96xf32>
  %p = stablehlo.multiply %x, %sb : tensor<512x96xf32>
  %r = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<512x96xf32>, tensor<f32>) -> tensor<96xf32>
  return %r : tensor<96xf32>
}
