// Checks, probes and prints that stand where only the program runs them: in functions, loops, branches and manual computations.
module @checks_inside {
  sdy.mesh @two = <["x"=2]>
  func.func @check(%x: tensor<3xf32>) {
    check.expect_eq_const %x, dense<[1.0, -0.0, 3.0]> : tensor<3xf32>
    check.expect_almost_eq_const %x, dense<[1.00001, 0.0, 3.0]> : tensor<3xf32>
    check.expect_eq %x, %x : tensor<3xf32>
    check.expect_almost_eq %x, %x {tolerance = 0.001 : f32} : tensor<3xf32>
    check.expect_close %x, %x, max_ulp_difference = 0 : tensor<3xf32>, tensor<3xf32>
    stablehlo.custom_call @check.expect_close(%x, %x) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
    stablehlo.custom_call @check.expect_eq(%x, %x) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
    stablehlo.custom_call @check.expect_almost_eq(%x, %x) {has_side_effect = true} : (tensor<3xf32>, tensor<3xf32>) -> ()
    interpreter.print %x : tensor<3xf32>
    return
  }
  func.func @eq(%x: tensor<3xf32>) -> tensor<i1> {
    %y = stablehlo.add %x, %x : tensor<3xf32>
    %0 = stablehlo.custom_call @check.eq(%y, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<i1>
    return %0 : tensor<i1>
  }
  func.func @main() {
    %x = stablehlo.constant dense<[1.0, 0.0, 3.0]> : tensor<3xf32>
    %n = stablehlo.constant dense<0> : tensor<i64>
    %two = stablehlo.constant dense<2> : tensor<i64>
    %one = stablehlo.constant dense<1> : tensor<i64>
    func.call @check(%x) : (tensor<3xf32>) -> ()
    %r = stablehlo.while(%i = %n) : tensor<i64>
     cond {
      %p = stablehlo.compare LT, %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      func.call @check(%x) : (tensor<3xf32>) -> ()
      %kept = interpreter.probe %i, probe_id = "round" : tensor<i64>
      %j = stablehlo.add %kept, %one : tensor<i64>
      stablehlo.return %j : tensor<i64>
    }
    func.call @probes(%one) : (tensor<i64>) -> ()
    %y = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %m = sdy.manual_computation(%y) in_shardings=[<@two, [{"x"}]>] out_shardings=[<@two, [{"x"}]>] manual_axes={"x"} (%p: tensor<1xf32>) {
      %z = stablehlo.add %p, %p : tensor<1xf32>
      check.expect_eq %z, %z : tensor<1xf32>
      sdy.return %z : tensor<1xf32>
    } : (tensor<2xf32>) -> tensor<2xf32>
    %same = func.call @eq(%x) : (tensor<3xf32>) -> tensor<i1>
    check.expect_eq_const %same, dense<true> : tensor<i1>
    func.return
  }
  func.func @probes(%x: tensor<i64>) {
    check.expect_serialized_eq %x, probe_id = "round", iter = 2 : tensor<i64>
    return
  }
}
