func.func @main() {
  %a = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<7> : tensor<i32>
  %v = stablehlo.iota dim = 0 : tensor<4xf32>
  %0:2 = stablehlo.while(%i = %a, %x = %v) : tensor<i32>, tensor<4xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.add %x, %v : tensor<4xf32>
    stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
  }
  return
}
