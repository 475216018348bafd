func.func @main() {
  %i = stablehlo.constant dense<-3> : tensor<i32>
  %a = stablehlo.iota dim = 0 : tensor<4xf32>
  %0 = "stablehlo.case"(%i) ({
    stablehlo.return %a : tensor<4xf32>
  }, {
    %1 = stablehlo.negate %a : tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return
}
