module @m {
  func.func @q0() -> tensor<2xi64> {
    %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @f(%t: !stablehlo.token) -> (tensor<2xi64>, !stablehlo.token) {
    %0:2 = "stablehlo.infeed"(%t) <{infeed_config = ""}> : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    return %0#0, %0#1 : tensor<2xi64>, !stablehlo.token
  }
  func.func @main() {
    %t = stablehlo.after_all : !stablehlo.token
    %0:2 = "interpreter.run_parallel"(%t) {infeed = [@q0], programs = [[@f]]} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    check.expect_eq_const %0#0, dense<[1, 2]> : tensor<2xi64>
    return
  }
}
