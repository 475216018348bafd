// The initial value fills the padding and the holes between elements, also when it is not nothing.
func.func @padding_counts() {
  %a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %init = stablehlo.constant dense<10> : tensor<i32>
  %0 = "stablehlo.reduce_window"(%a, %init) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %z = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %z : tensor<i32>
  }) : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  check.expect_eq_const %0, dense<[31, 23, 16]> : tensor<3xi32>
  %1 = "stablehlo.reduce_window"(%a, %init) <{window_dimensions = array<i64: 2>, base_dilations = array<i64: 2>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %z = stablehlo.multiply %l, %r : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %y = stablehlo.add %z, %two : tensor<i32>
    stablehlo.return %y : tensor<i32>
  }) : (tensor<3xi32>, tensor<i32>) -> tensor<4xi32>
  check.expect_eq_const %1, dense<[122, 206, 222, 308]> : tensor<4xi32>
  func.return
}
