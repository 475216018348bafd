// A concatenation is written by its parts; padding is a fill and a part.
func.func @main(%x: tensor<8x6xf32>) -> (tensor<8x12xf32>, tensor<10x6xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.negate %x : tensor<8x6xf32>
  %t = stablehlo.tanh %x : tensor<8x6xf32>
  %c = stablehlo.concatenate %n, %t, dim = 1 : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x12xf32>
  %p = stablehlo.pad %t, %zero, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<10x6xf32>
  return %c, %p : tensor<8x12xf32>, tensor<10x6xf32>
}
