func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<4x3xf32>
  %i = stablehlo.constant dense<[[0, 1], [-5, 100]]> : tensor<2x2xi32>
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 2>}> : (tensor<4x3xf32>, tensor<2x2xi32>) -> tensor<2x2x2xf32>
  return
}
