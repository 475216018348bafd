// Two draws alike are two steps, and so is one that nobody uses, before that of the loop and each of its rounds.
func.func @main(%n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<[4]> : tensor<1xi64>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %1 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %unused = stablehlo.rng %a, %b, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %r:2 = stablehlo.while(%i = %n, %acc = %1) : tensor<i32>, tensor<4xf32>
   cond {
    %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %x = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
    %y = stablehlo.add %acc, %x : tensor<4xf32>
    %j = stablehlo.subtract %i, %one : tensor<i32>
    stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
  }
  return %0, %1, %r#1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
