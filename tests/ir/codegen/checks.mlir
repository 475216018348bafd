// Each is a step in the program's order; names and types are constants.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
  interpreter.print %y : tensor<4xf32>
  check.expect_almost_eq_const %y, dense<0.5> : tensor<4xf32>, tolerance = 0.25
  %p = interpreter.probe %y, probe_id = "half" : tensor<4xf32>
  %0 = stablehlo.custom_call @check.eq(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<i1>
  check.expect_serialized_eq %y, probe_id = "half", iter = 1 : tensor<4xf32>
  return %p : tensor<4xf32>
}
