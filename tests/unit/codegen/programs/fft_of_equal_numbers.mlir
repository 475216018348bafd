// All frequencies of equal large numbers but the first are 0 up to rounding, of either sign and beside 10^9 no small number.
func.func @main(%0: tensor<33x7xi32>) -> (tensor<33x4xf32>, tensor<33x4xf32>) {
  %1 = stablehlo.constant dense<2147483600> : tensor<33x7xi32>
  %2 = stablehlo.maximum %0, %1 : tensor<33x7xi32>
  %3 = stablehlo.convert %2 : (tensor<33x7xi32>) -> tensor<33x7xf32>
  %4 = "stablehlo.fft"(%3) <{fft_length = array<i64: 7>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<33x7xf32>) -> tensor<33x4xcomplex<f32>>
  %5 = stablehlo.real %4 : (tensor<33x4xcomplex<f32>>) -> tensor<33x4xf32>
  %6 = stablehlo.tanh %5 : tensor<33x4xf32>
  return %5, %6 : tensor<33x4xf32>, tensor<33x4xf32>
}
