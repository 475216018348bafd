func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<6x5xf32>
  %0 = stablehlo.slice %a [1:6:2, 0:5:3] : (tensor<6x5xf32>) -> tensor<3x2xf32>
  return
}
