// What must be real is real, also where the length is no power of two.
func.func @real_lines() {
  %a = stablehlo.constant dense<[[0.1, 0.7, -0.3, 0.9, 0.2], [0.3, -0.4, 0.8, 0.1, 0.6]]> : tensor<2x5xf32>
  %0 = stablehlo.fft %a, type = RFFT, length = [2, 5] : (tensor<2x5xf32>) -> tensor<2x3xcomplex<f32>>
  %1 = stablehlo.imag %0 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %1 [0:2, 0:1] : (tensor<2x3xf32>) -> tensor<2x1xf32>
  check.expect_eq_const %2, dense<[[0.0], [0.0]]> : tensor<2x1xf32>
  func.return
}

// -----

// Sums of real numbers are real when they are not finite, too; those of complex numbers are not.
func.func @not_finite() {
  %x = stablehlo.constant dense<[0x7FC00000, 1.0, 2.0]> : tensor<3xf32>
  %y = stablehlo.constant dense<[1.0, 0x7F800000, 2.0, 3.0]> : tensor<4xf32>
  %0 = stablehlo.fft %x, type = RFFT, length = [3] : (tensor<3xf32>) -> tensor<2xcomplex<f32>>
  %1 = stablehlo.fft %y, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
  %i0 = stablehlo.imag %0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %i1 = stablehlo.imag %1 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %p0 = stablehlo.is_finite %i0 : (tensor<2xf32>) -> tensor<2xi1>
  %p1 = stablehlo.is_finite %i1 : (tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %p0, dense<[true, false]> : tensor<2xi1>
  check.expect_eq_const %p1, dense<[true, false, true]> : tensor<3xi1>
  %z = stablehlo.constant dense<0.0> : tensor<3xf32>
  %c = stablehlo.complex %x, %z : tensor<3xcomplex<f32>>
  %2 = stablehlo.fft %c, type = FFT, length = [3] : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
  %i2 = stablehlo.imag %2 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %p2 = stablehlo.is_finite %i2 : (tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %p2, dense<false> : tensor<3xi1>
  func.return
}
