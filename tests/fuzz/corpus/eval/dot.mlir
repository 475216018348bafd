func.func @main() {
  %a = stablehlo.iota dim = 1 : tensor<2x3x4xf32>
  %b = stablehlo.iota dim = 0 : tensor<2x4x5xf32>
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return
}
