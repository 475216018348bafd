func.func @main() {
  %a = stablehlo.iota dim = 0 : tensor<4x2xf32>
  %s = stablehlo.constant dense<1.0> : tensor<2xf32>
  %0:3 = "stablehlo.batch_norm_training"(%a, %s, %s) <{epsilon = 0.001 : f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  %1:3 = "stablehlo.batch_norm_grad"(%a, %s, %0#1, %0#2, %0#0) <{epsilon = 0.001 : f32, feature_index = 1 : i64}> : (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}
