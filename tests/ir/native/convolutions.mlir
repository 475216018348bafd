// Convolutions of elements that are moved apart: what gradients of strided ones are. By phases, with a phase that has no tap, and by patches.
func.func @by_phases() {
  %x = stablehlo.constant dense<[[[3.0, -4.0], [-3.0, -2.0], [-3.0, 3.0], [3.0, 1.0]]]> : tensor<1x4x2xf32>
  %w = stablehlo.constant dense<[[[-3.0, -3.0], [-1.0, 0.0]], [[1.0, 0.0], [-2.0, -2.0]], [[1.0, 2.0], [-3.0, -3.0]]]> : tensor<3x2x2xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {stride = [1], pad = [[2, 1]], lhs_dilate = [2], rhs_dilate = [1], reverse = [true]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}
    : (tensor<1x4x2xf32>, tensor<3x2x2xf32>) -> tensor<1x8x2xf32>
  check.expect_eq_const %0, dense<[[[-5.0, -9.0], [11.0, 8.0], [26.0, 27.0], [1.0, 4.0], [9.0, 9.0], [-9.0, -6.0], [-22.0, -24.0], [1.0, -2.0]]]> : tensor<1x8x2xf32>
  func.return
}

// -----

func.func @a_phase_without_taps() {
  %x = stablehlo.constant dense<[[[0.0], [-1.0], [3.0]], [[0.0], [-1.0], [-1.0]]]> : tensor<2x3x1xf32>
  %w = stablehlo.constant dense<[[[1.0, 1.0]], [[-2.0, 2.0]]]> : tensor<2x1x2xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {stride = [1], pad = [[1, 2]], lhs_dilate = [3], rhs_dilate = [1], reverse = [false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}
    : (tensor<2x3x1xf32>, tensor<2x1x2xf32>) -> tensor<2x9x2xf32>
  check.expect_eq_const %0, dense<[[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [2.0, -2.0], [-1.0, -1.0], [0.0, 0.0], [-6.0, 6.0], [3.0, 3.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [2.0, -2.0], [-1.0, -1.0], [0.0, 0.0], [2.0, -2.0], [-1.0, -1.0], [0.0, 0.0]]]> : tensor<2x9x2xf32>
  func.return
}

// -----

func.func @by_patches() {
  %x = stablehlo.constant dense<[[[2.0, 4.0], [3.0, -2.0], [-2.0, 1.0]]]> : tensor<1x3x2xf32>
  %w = stablehlo.constant dense<[[[1.0, 1.0], [3.0, -1.0]], [[3.0, -3.0], [-3.0, 3.0]]]> : tensor<2x2x2xf32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {stride = [1], pad = [[1, 1]], lhs_dilate = [2], rhs_dilate = [1], reverse = [true]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}
    : (tensor<1x3x2xf32>, tensor<2x2x2xf32>) -> tensor<1x6x2xf32>
  check.expect_eq_const %0, dense<[[[14.0, -2.0], [-6.0, 6.0], [-3.0, 5.0], [15.0, -15.0], [1.0, -3.0], [-9.0, 9.0]]]> : tensor<1x6x2xf32>
  func.return
}

// -----

// Padding that is an operand, and a constant.
module @padding_as_an_operand {
  func.func @main() {
    %x = stablehlo.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
    %w = stablehlo.constant dense<[[[1.0]], [[10.0]]]> : tensor<2x1x1xf32>
    %p = stablehlo.constant dense<[[2, 1]]> : tensor<1x2xi32>
    %r = "stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>}> : (tensor<1x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x5x1xf32>
    check.expect_eq_const %r, dense<[[[0.0], [10.0], [21.0], [32.0], [3.0]]]> : tensor<1x5x1xf32>
    func.return
  }
}
