// Generic in, pretty out, as StableHLO's own tools print.
// =====
// print
func.func @forms(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>, %arg2: tensor<2x3xi1>) -> (tensor<2xf32>, tensor<2x3xf32>) {
  %0 = "stablehlo.constant"() {value = dense<[0.1, 100000.0, 1.0e-10]> : tensor<3xf32>} : () -> tensor<3xf32>
  %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<3xf32>) -> tensor<2x3xf32>
  %2 = "stablehlo.select"(%arg2, %1, %arg0) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "stablehlo.reduce"(%2, %arg1) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %4:2 = "stablehlo.while"(%2, %arg1) ({
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<f32>):
    %t = "stablehlo.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    "stablehlo.return"(%t) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<f32>):
    "stablehlo.return"(%a, %b) : (tensor<2x3xf32>, tensor<f32>) -> ()
  }) : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<f32>)
  "func.return"(%3, %4#0) : (tensor<2xf32>, tensor<2x3xf32>) -> ()
}
// ----- expected
module {
  func.func @forms(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>, %arg2: tensor<2x3xi1>) -> (tensor<2xf32>, tensor<2x3xf32>) {
    %cst = stablehlo.constant dense<[1.000000e-01, 1.000000e+05, 1.000000e-10]> : tensor<3xf32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.select %arg2, %0, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>
    %2 = stablehlo.reduce(%1 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %3:2 = stablehlo.while(%iterArg = %1, %iterArg_0 = %arg1) : tensor<2x3xf32>, tensor<f32>
     cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %iterArg, %iterArg_0 : tensor<2x3xf32>, tensor<f32>
    }
    return %2, %3#0 : tensor<2xf32>, tensor<2x3xf32>
  }
}
