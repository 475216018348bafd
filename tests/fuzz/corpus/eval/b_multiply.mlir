func.func @main() {
  %a = stablehlo.constant dense<[-7, 0, 2147483647, -2147483648]> : tensor<4xi32>
  %b = stablehlo.constant dense<[0, -1, 33, -1]> : tensor<4xi32>
  %0 = stablehlo.multiply %a, %b : tensor<4xi32>
  return
}
