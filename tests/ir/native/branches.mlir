// A branch reads a value that no operand names: what computes it comes before.
func.func @reads_of_branches() {
  %0 = stablehlo.iota dim = 0 : tensor<5x4x8xui16>
  %1 = stablehlo.constant dense<0> : tensor<ui16>
  %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.xor across dimensions = [0, 1] : (tensor<5x4x8xui16>, tensor<ui16>) -> tensor<8xui16>
  %3 = stablehlo.constant dense<1> : tensor<i32>
  %4 = "stablehlo.case"(%3) ({
    %c = stablehlo.add %0, %0 : tensor<5x4x8xui16>
    stablehlo.return %c : tensor<5x4x8xui16>
  }, {
    %c = stablehlo.multiply %0, %0 : tensor<5x4x8xui16>
    stablehlo.return %c : tensor<5x4x8xui16>
  }) : (tensor<i32>) -> tensor<5x4x8xui16>
  %5 = stablehlo.shift_left %4, %4 : tensor<5x4x8xui16>
  %7 = "stablehlo.case"(%3) ({
    %c = stablehlo.add %5, %4 : tensor<5x4x8xui16>
    stablehlo.return %c : tensor<5x4x8xui16>
  }, {
    %c = stablehlo.subtract %5, %4 : tensor<5x4x8xui16>
    stablehlo.return %c : tensor<5x4x8xui16>
  }) : (tensor<i32>) -> tensor<5x4x8xui16>
  %8 = stablehlo.xor %7, %5 : tensor<5x4x8xui16>
  %9 = stablehlo.reduce(%8 init: %1) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<5x4x8xui16>, tensor<ui16>) -> tensor<ui16>
  %10 = stablehlo.reduce(%2 init: %1) applies stablehlo.add across dimensions = [0] : (tensor<8xui16>, tensor<ui16>) -> tensor<ui16>
  check.expect_eq_const %10, dense<0> : tensor<ui16>
  %11 = stablehlo.convert %9 : (tensor<ui16>) -> tensor<i64>
  check.expect_eq_const %11, dense<36032> : tensor<i64>
  func.return
}
