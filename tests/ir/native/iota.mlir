// Indices as numbers where elements are stored backwards, and as complex numbers.
func.func @complex_iota() {
  %0 = stablehlo.iota dim = 0 : tensor<35xcomplex<f32>>
  %r = stablehlo.real %0 : (tensor<35xcomplex<f32>>) -> tensor<35xf32>
  %at = stablehlo.constant dense<33> : tensor<i32>
  %1 = stablehlo.dynamic_slice %0, %at, sizes = [2] : (tensor<35xcomplex<f32>>, tensor<i32>) -> tensor<2xcomplex<f32>>
  check.expect_eq_const %1, dense<[(33.0, 0.0), (34.0, 0.0)]> : tensor<2xcomplex<f32>>
  func.return
}

// -----

func.func @strided_iota() {
  %0 = stablehlo.iota dim = 0 : tensor<5xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.pad %0, %zero, low = [0], high = [0], interior = [1] : (tensor<5xi32>, tensor<i32>) -> tensor<9xi32>
  check.expect_eq_const %1, dense<[0, 0, 1, 0, 2, 0, 3, 0, 4]> : tensor<9xi32>
  func.return
}
