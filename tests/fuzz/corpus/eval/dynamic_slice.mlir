func.func @main() {
  %a = stablehlo.iota dim = 1 : tensor<4x3xi64>
  %i = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
  %j = stablehlo.constant dense<9223372036854775807> : tensor<i64>
  %0 = stablehlo.dynamic_slice %a, %i, %j, sizes = [2, 2] : (tensor<4x3xi64>, tensor<i64>, tensor<i64>) -> tensor<2x2xi64>
  %1 = stablehlo.dynamic_update_slice %a, %0, %j, %i : (tensor<4x3xi64>, tensor<2x2xi64>, tensor<i64>, tensor<i64>) -> tensor<4x3xi64>
  return
}
