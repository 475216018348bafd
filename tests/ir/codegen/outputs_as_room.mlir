// What is dead before an output is written lies in the output's memory: the gradient in that of the updated weights, which are written over it.
func.func @main(%x: tensor<16x64xf32>, %g: tensor<16x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %rate = stablehlo.constant dense<0.5> : tensor<64x64xf32>
  %dw = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
  %step = stablehlo.multiply %dw, %rate : tensor<64x64xf32>
  %new = stablehlo.subtract %w, %step : tensor<64x64xf32>
  return %new : tensor<64x64xf32>
}
