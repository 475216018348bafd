// As many probes of one name as a long loop has: each is found by its number, and none is counted through all before it.
module @probes_of_a_loop {
func.func @probes_in_a_loop() {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<300000> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.while(%i = %c0) : tensor<i32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %q = interpreter.probe %i, probe_id = "round" : tensor<i32>
      %s = stablehlo.add %q, %one : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }
  check.expect_eq %r, %n : tensor<i32>
  %want = stablehlo.constant dense<299999> : tensor<i32>
  func.call @last(%want) : (tensor<i32>) -> ()
  return
}
func.func @last(%x: tensor<i32>) {
  check.expect_serialized_eq %x, probe_id = "round", iter = 300000 : tensor<i32>
  return
}
}
