func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<4x3xi16>
  %z = stablehlo.constant dense<9> : tensor<i16>
  %0 = stablehlo.pad %a, %z, low = [-1, 2], high = [2, -1], interior = [1, 0] : (tensor<4x3xi16>, tensor<i16>) -> tensor<8x4xi16>
  return
}
