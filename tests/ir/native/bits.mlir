// Bitcasts between elements of less than a byte and others.
func.func @i4_to_i16() {
  %a = stablehlo.constant dense<[[1, -8, 7, 3], [0, -1, 2, -2]]> : tensor<2x4xi4>
  %b = stablehlo.bitcast_convert %a : (tensor<2x4xi4>) -> tensor<2xi16>
  check.expect_eq_const %b, dense<[14209, -7440]> : tensor<2xi16>
  func.return
}

// -----

func.func @ui8_to_i2_and_back() {
  %a = stablehlo.constant dense<[27, 228]> : tensor<2xui8>
  %b = stablehlo.bitcast_convert %a : (tensor<2xui8>) -> tensor<2x4xi2>
  check.expect_eq_const %b, dense<[[-1, -2, 1, 0], [0, 1, -2, -1]]> : tensor<2x4xi2>
  %c = stablehlo.bitcast_convert %b : (tensor<2x4xi2>) -> tensor<2xui8>
  check.expect_eq_const %c, dense<[27, 228]> : tensor<2xui8>
  func.return
}

// -----

func.func @f32_to_i1() {
  %a = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.bitcast_convert %a : (tensor<f32>) -> tensor<32xi1>
  %c = stablehlo.convert %b : (tensor<32xi1>) -> tensor<32xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32xi32>, tensor<i32>) -> tensor<i32>
  check.expect_eq_const %n, dense<7> : tensor<i32>
  %d = stablehlo.bitcast_convert %b : (tensor<32xi1>) -> tensor<f32>
  check.expect_eq_const %d, dense<1.0> : tensor<f32>
  func.return
}

// -----

// Arithmetic of small integers wraps.
func.func @small_integers() {
  %a = stablehlo.constant dense<[7, -8, 3, -1, 5, 6]> : tensor<6xi4>
  %b = stablehlo.constant dense<[1, -1, 3, 2, 4, 0]> : tensor<6xi4>
  %add = stablehlo.add %a, %b : tensor<6xi4>
  check.expect_eq_const %add, dense<[-8, 7, 6, 1, -7, 6]> : tensor<6xi4>
  %mul = stablehlo.multiply %a, %b : tensor<6xi4>
  check.expect_eq_const %mul, dense<[7, -8, -7, -2, 4, 0]> : tensor<6xi4>
  %shl = stablehlo.shift_left %a, %b : tensor<6xi4>
  check.expect_eq_const %shl, dense<[-2, 0, -8, -4, 0, 6]> : tensor<6xi4>
  %max = stablehlo.maximum %a, %b : tensor<6xi4>
  check.expect_eq_const %max, dense<[7, -1, 3, 2, 5, 6]> : tensor<6xi4>
  %clz = stablehlo.count_leading_zeros %a : tensor<6xi4>
  check.expect_eq_const %clz, dense<[1, 0, 2, 0, 1, 1]> : tensor<6xi4>
  %u = stablehlo.convert %a : (tensor<6xi4>) -> tensor<6xui4>
  check.expect_eq_const %u, dense<[7, 8, 3, 15, 5, 6]> : tensor<6xui4>
  %f = stablehlo.convert %a : (tensor<6xi4>) -> tensor<6xf32>
  check.expect_eq_const %f, dense<[7.0, -8.0, 3.0, -1.0, 5.0, 6.0]> : tensor<6xf32>
  func.return
}
