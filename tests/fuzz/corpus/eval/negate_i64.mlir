func.func @main() {
  %a = stablehlo.constant dense<1> : tensor<3xi32>
  %b = stablehlo.convert %a : (tensor<3xi32>) -> tensor<3xi64>
  %0 = stablehlo.negate %b : tensor<3xi64>
  return
}
