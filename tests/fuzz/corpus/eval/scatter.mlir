func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<4x3xf32>
  %i = stablehlo.constant dense<[[0], [-5], [3], [9223372036854775807]]> : tensor<4x1xi64>
  %u = stablehlo.iota dim = 1 : tensor<4x3xf32>
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %r = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<4x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}
