func.func @main() {
  %a = stablehlo.constant dense<1> : tensor<3xi32>
  %b = stablehlo.convert %a : (tensor<3xi32>) -> tensor<3xf32>
  %0 = stablehlo.cosine %b : tensor<3xf32>
  return
}
