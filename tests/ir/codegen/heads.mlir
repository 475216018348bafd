// Transposed operands are strides, the transposed result is written in place: no copies.
func.func @main(%x: tensor<2x16x64xf32>, %w: tensor<2x16x64xf32>) -> tensor<2x16x4x16xf32> {
  %a = stablehlo.reshape %x : (tensor<2x16x64xf32>) -> tensor<2x16x4x16xf32>
  %q = stablehlo.transpose %a, dims = [0, 2, 1, 3] : (tensor<2x16x4x16xf32>) -> tensor<2x4x16x16xf32>
  %b = stablehlo.reshape %w : (tensor<2x16x64xf32>) -> tensor<2x16x4x16xf32>
  %k = stablehlo.transpose %b, dims = [0, 2, 1, 3] : (tensor<2x16x4x16xf32>) -> tensor<2x4x16x16xf32>
  %d = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  %t = stablehlo.transpose %d, dims = [0, 2, 1, 3] : (tensor<2x4x16x16xf32>) -> tensor<2x16x4x16xf32>
  return %t : tensor<2x16x4x16xf32>
}
