// What is left of x - ifft(fft(x)) is rounding, of either sign: the bound follows the values that cancelled.
func.func @main(%0: tensor<7x7xf32>) -> tensor<7x4xcomplex<f32>> {
  %1 = "stablehlo.fft"(%0) <{fft_length = array<i64: 7>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<7x7xf32>) -> tensor<7x4xcomplex<f32>>
  %2 = "stablehlo.fft"(%1) <{fft_length = array<i64: 4>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<7x4xcomplex<f32>>) -> tensor<7x4xcomplex<f32>>
  %3 = "stablehlo.fft"(%2) <{fft_length = array<i64: 4>, fft_type = #stablehlo<fft_type IFFT>}> : (tensor<7x4xcomplex<f32>>) -> tensor<7x4xcomplex<f32>>
  %4 = stablehlo.subtract %1, %3 : tensor<7x4xcomplex<f32>>
  return %4 : tensor<7x4xcomplex<f32>>
}
