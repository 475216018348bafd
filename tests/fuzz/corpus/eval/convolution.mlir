func.func @main() {
  %a = stablehlo.iota dim = 1 : tensor<2x7x4xf32>
  %w = stablehlo.iota dim = 0 : tensor<3x2x6xf32>
  %0 = stablehlo.convolution(%a, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 2]], lhs_dilate = [2], rhs_dilate = [2], reverse = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x7x4xf32>, tensor<3x2x6xf32>) -> tensor<2x6x6xf32>
  return
}
