// A depthwise convolution is a sum of shifted products, one kernel.
func.func @main(%x: tensor<1x16x8xf32>, %k: tensor<3x1x8xf32>) -> tensor<1x16x8xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 0]]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64} : (tensor<1x16x8xf32>, tensor<3x1x8xf32>) -> tensor<1x16x8xf32>
  return %y : tensor<1x16x8xf32>
}
