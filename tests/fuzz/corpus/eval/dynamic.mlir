func.func @main() {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %a = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<?x?xi32>
  %t = stablehlo.constant dense<[3, 2]> : tensor<2xi64>
  %0 = stablehlo.dynamic_reshape %a, %t : (tensor<?x?xi32>, tensor<2xi64>) -> tensor<?x?xi32>
  %u = stablehlo.constant dense<[4, 3, 2]> : tensor<3xi64>
  %1 = stablehlo.dynamic_broadcast_in_dim %0, %u, dims = [1, 2] : (tensor<?x?xi32>, tensor<3xi64>) -> tensor<?x?x?xi32>
  return
}
