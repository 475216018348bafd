func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<6x7xf32>
  %0 = stablehlo.fft %a, type = RFFT, length = [6, 7] : (tensor<6x7xf32>) -> tensor<6x4xcomplex<f32>>
  %1 = stablehlo.fft %0, type = IRFFT, length = [6, 7] : (tensor<6x4xcomplex<f32>>) -> tensor<6x7xf32>
  return
}
