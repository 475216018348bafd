// CHLO operations that native code takes apart first.
func.func @scan_backwards() {
  %input = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %init = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  %0:2 = "chlo.scan"(%input, %init) <{dimension = 1 : i64, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%x: tensor<2xi32>, %sum: tensor<2xi32>):
    %1 = stablehlo.add %x, %sum : tensor<2xi32>
    stablehlo.return %sum, %1 : tensor<2xi32>, tensor<2xi32>
  }) : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
  check.expect_eq_const %0#0, dense<[[15, 13, 10], [31, 26, 20]]> : tensor<2x3xi32>
  check.expect_eq_const %0#1, dense<[16, 35]> : tensor<2xi32>
  func.return
}

// -----

func.func @ragged_rows() {
  %lhs = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %rhs = stablehlo.constant dense<[[[1.0], [1.0]], [[10.0], [100.0]]]> : tensor<2x2x1xf32>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %0 = "chlo.ragged_dot"(%lhs, %rhs, %sizes) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],
      rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>,
    precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]
  } : (tensor<3x2xf32>, tensor<2x2x1xf32>, tensor<2xi64>) -> tensor<3x1xf32>
  check.expect_eq_const %0, dense<[[3.0], [430.0], [650.0]]> : tensor<3x1xf32>
  func.return
}

// -----

func.func @rare_functions() {
  %a = stablehlo.constant dense<[0.5, -0.25, 0.75]> : tensor<3xf32>
  %asin = chlo.asin %a : tensor<3xf32> -> tensor<3xf32>
  check.expect_almost_eq_const %asin, dense<[0.523598776, -0.252680255, 0.848062079]> : tensor<3xf32>
  %erfinv = chlo.erf_inv %a : tensor<3xf32> -> tensor<3xf32>
  check.expect_almost_eq_const %erfinv, dense<[0.476936276, -0.225312055, 0.813419847]> : tensor<3xf32>
  %b = stablehlo.constant dense<[0.5, 3.0, 10.5]> : tensor<3xf32>
  %lgamma = chlo.lgamma %b : tensor<3xf32> -> tensor<3xf32>
  check.expect_almost_eq_const %lgamma, dense<[0.572364943, 0.693147181, 13.9406252]> : tensor<3xf32>
  %digamma = chlo.digamma %b : tensor<3xf32> -> tensor<3xf32>
  check.expect_almost_eq_const %digamma, dense<[-1.96351003, 0.922784335, 2.30300103]> : tensor<3xf32>
  %next = chlo.next_after %a, %b : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  check.expect_eq_const %next, dense<[0.5, -0.249999985, 0.75000006]> : tensor<3xf32>
  func.return
}
