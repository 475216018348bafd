func.func @main() {
  %a = stablehlo.iota dim = 1 : tensor<4x6xi32>
  %z = stablehlo.constant dense<-2147483648> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 1>, base_dilations = array<i64: 1, 2>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 1], [-1, 2]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %r = stablehlo.maximum %x, %y : tensor<i32>
    stablehlo.return %r : tensor<i32>
  }) : (tensor<4x6xi32>, tensor<i32>) -> tensor<2x10xi32>
  return
}
