func.func @main() {
  %a = stablehlo.constant dense<[[2.0, 1.0], [1.0, 3.0]]> : tensor<2x2xf64>
  %0 = stablehlo.cholesky %a, lower = true : tensor<2x2xf64>
  %1 = "stablehlo.triangular_solve"(%0, %a) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
  return
}
