func.func @main() {
  %a = stablehlo.constant dense<[-0.5, 1.5, 30.0]> : tensor<3xf32>
  %0 = chlo.erf %a : tensor<3xf32> -> tensor<3xf32>
  %1 = chlo.erfc %a : tensor<3xf32> -> tensor<3xf32>
  %2 = chlo.erf_inv %a : tensor<3xf32> -> tensor<3xf32>
  %3 = chlo.lgamma %a : tensor<3xf32> -> tensor<3xf32>
  %4 = chlo.digamma %a : tensor<3xf32> -> tensor<3xf32>
  %5 = chlo.bessel_i1e %a : tensor<3xf32> -> tensor<3xf32>
  %6 = chlo.acos %a : tensor<3xf32> -> tensor<3xf32>
  %7 = chlo.asinh %a : tensor<3xf32> -> tensor<3xf32>
  %8 = chlo.atanh %a : tensor<3xf32> -> tensor<3xf32>
  %9 = chlo.sinh %a : tensor<3xf32> -> tensor<3xf32>
  return
}
