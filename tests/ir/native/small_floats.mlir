// A float without -0: negated, zero stays what it is.
func.func @no_negative_zero() {
  %0 = stablehlo.constant dense<[0.0, 1.0, -2.0]> : tensor<3xf8E4M3FNUZ>
  %a = stablehlo.optimization_barrier %0 : tensor<3xf8E4M3FNUZ>
  %1 = stablehlo.negate %a : tensor<3xf8E4M3FNUZ>
  %2 = stablehlo.atan2 %a, %1 : tensor<3xf8E4M3FNUZ>
  check.expect_eq_const %2, dense<[0.0, 2.25, -0.8125]> : tensor<3xf8E4M3FNUZ>
  func.return
}
