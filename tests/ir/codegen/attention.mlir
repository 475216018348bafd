// Causal attention of two heads, whose queries, keys and values are parts of one tensor.
func.func @main(%qkv: tensor<256x3x2x8xf32>) -> tensor<256x2x8xf32> {
  %q0 = stablehlo.slice %qkv [0:256, 0:1, 0:2, 0:8] : (tensor<256x3x2x8xf32>) -> tensor<256x1x2x8xf32>
  %k0 = stablehlo.slice %qkv [0:256, 1:2, 0:2, 0:8] : (tensor<256x3x2x8xf32>) -> tensor<256x1x2x8xf32>
  %v0 = stablehlo.slice %qkv [0:256, 2:3, 0:2, 0:8] : (tensor<256x3x2x8xf32>) -> tensor<256x1x2x8xf32>
  %q = stablehlo.reshape %q0 : (tensor<256x1x2x8xf32>) -> tensor<256x2x8xf32>
  %k = stablehlo.reshape %k0 : (tensor<256x1x2x8xf32>) -> tensor<256x2x8xf32>
  %v = stablehlo.reshape %v0 : (tensor<256x1x2x8xf32>) -> tensor<256x2x8xf32>
  %s = stablehlo.dot_general %q, %k, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<256x2x8xf32>, tensor<256x2x8xf32>) -> tensor<2x256x256xf32>
  %r = stablehlo.iota dim = 1 : tensor<2x256x256xi32>
  %c = stablehlo.iota dim = 2 : tensor<2x256x256xi32>
  %m = stablehlo.compare GE, %r, %c : (tensor<2x256x256xi32>, tensor<2x256x256xi32>) -> tensor<2x256x256xi1>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %lows = stablehlo.constant dense<0xFF800000> : tensor<2x256x256xf32>
  %x = stablehlo.select %m, %s, %lows : tensor<2x256x256xi1>, tensor<2x256x256xf32>
  %top = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<2x256x256xf32>, tensor<f32>) -> tensor<2x256xf32>
  %tops = stablehlo.broadcast_in_dim %top, dims = [0, 1] : (tensor<2x256xf32>) -> tensor<2x256x256xf32>
  %d = stablehlo.subtract %x, %tops : tensor<2x256x256xf32>
  %e = stablehlo.exponential %d : tensor<2x256x256xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x256x256xf32>, tensor<f32>) -> tensor<2x256xf32>
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1] : (tensor<2x256xf32>) -> tensor<2x256x256xf32>
  %p = stablehlo.divide %e, %sums : tensor<2x256x256xf32>
  %o = stablehlo.dot_general %p, %v, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<2x256x256xf32>, tensor<256x2x8xf32>) -> tensor<2x256x8xf32>
  %t = stablehlo.transpose %o, dims = [1, 0, 2] : (tensor<2x256x8xf32>) -> tensor<256x2x8xf32>
  return %t : tensor<256x2x8xf32>
}
