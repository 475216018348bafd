// A view that does not fit is stored before it is read, even where a later step asks for the same copy.
func.func @main(%a: tensor<5x16xf32>) -> (tensor<40x3x2xf32>, tensor<2x5x16xf32>) {
  %m = stablehlo.negate %a : tensor<5x16xf32>
  %0 = stablehlo.broadcast_in_dim %m, dims = [1, 2] : (tensor<5x16xf32>) -> tensor<3x5x16xf32>
  %1 = stablehlo.reshape %0 : (tensor<3x5x16xf32>) -> tensor<40x3x2xf32>
  %2 = "stablehlo.sort"(%1) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %z = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }) : (tensor<40x3x2xf32>) -> tensor<40x3x2xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = "stablehlo.reduce_window"(%0, %c) <{window_dimensions = array<i64: 2, 1, 1>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %z = stablehlo.minimum %l, %r : tensor<f32>
    stablehlo.return %z : tensor<f32>
  }) : (tensor<3x5x16xf32>, tensor<f32>) -> tensor<2x5x16xf32>
  return %2, %3 : tensor<40x3x2xf32>, tensor<2x5x16xf32>
}
