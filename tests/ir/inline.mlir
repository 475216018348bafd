// Calls become copies; private functions that nobody names go.
// =====
// passes: inline
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
  %1 = call @f(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @f(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.sine %0 : tensor<f32>
  return %1 : tensor<f32>
}
func.func private @g(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.cosine %a : tensor<f32>
  return %0 : tensor<f32>
}
func.func private @unused(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
// ----- expected
module {
  func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.cosine %arg0 : tensor<f32>
    %1 = stablehlo.sine %0 : tensor<f32>
    %2 = stablehlo.cosine %1 : tensor<f32>
    %3 = stablehlo.sine %2 : tensor<f32>
    return %3 : tensor<f32>
  }
}
// =====
// passes: inline
func.func @inside_a_loop(%n: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.while(%i = %n) : tensor<i32>
  cond {
    %1 = func.call @more(%i) : (tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1:2 = func.call @two(%i) : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
    stablehlo.return %1#1 : tensor<i32>
  }
  return %0 : tensor<i32>
}
func.func private @more(%i: tensor<i32>) -> tensor<i1> {
  %c = stablehlo.constant dense<100> : tensor<i32>
  %0 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @two(%i: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %0 = stablehlo.add %i, %i : tensor<i32>
  return %i, %0 : tensor<i32>, tensor<i32>
}
// ----- expected
module {
  func.func @inside_a_loop(%arg0: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.while(%iterArg = %arg0) : tensor<i32>
     cond {
      %c = stablehlo.constant dense<100> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %iterArg, %iterArg : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}
// =====
// passes: decompose,inline
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "my.op" %a {decomposition = @impl} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @impl(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.negate %a : tensor<f32>
  return %0 : tensor<f32>
}
// ----- expected
module {
  func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.negate %arg0 : tensor<f32>
    return %0 : tensor<f32>
  }
}
// =====
// passes: inline
func.func @main() {
  call @main() : () -> ()
  return
}
// ----- expected
// error: 3: calls itself
