// What must be real is real, also where the length is no power of two.
func.func @real_lines() {
  %a = stablehlo.constant dense<[[0.1, 0.7, -0.3, 0.9, 0.2], [0.3, -0.4, 0.8, 0.1, 0.6]]> : tensor<2x5xf32>
  %0 = stablehlo.fft %a, type = RFFT, length = [2, 5] : (tensor<2x5xf32>) -> tensor<2x3xcomplex<f32>>
  %1 = stablehlo.imag %0 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %1 [0:2, 0:1] : (tensor<2x3xf32>) -> tensor<2x1xf32>
  check.expect_eq_const %2, dense<[[0.0], [0.0]]> : tensor<2x1xf32>
  func.return
}
