func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<8xi32>
  %i = stablehlo.constant dense<[[-2], [6]]> : tensor<2x1xi32>
  %u = stablehlo.constant dense<1> : tensor<2x4xi32>
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    stablehlo.return %y : tensor<i32>
  }) : (tensor<8xi32>, tensor<2x1xi32>, tensor<2x4xi32>) -> tensor<8xi32>
  return
}
