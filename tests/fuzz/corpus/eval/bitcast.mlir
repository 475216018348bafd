func.func @main() {
  %a = stablehlo.constant dense<[1, -1]> : tensor<2xi32>
  %0 = stablehlo.bitcast_convert %a : (tensor<2xi32>) -> tensor<2x8xi4>
  %1 = stablehlo.bitcast_convert %0 : (tensor<2x8xi4>) -> tensor<2xf32>
  return
}
