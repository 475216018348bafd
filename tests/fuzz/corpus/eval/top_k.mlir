func.func @main() {
  %a = stablehlo.constant dense<[3.0, 0x7FC00000, -0.0, 0.0]> : tensor<4xf32>
  %v, %i = chlo.top_k(%a, k = 3) : tensor<4xf32> -> (tensor<3xf32>, tensor<3xi32>)
  return
}
