module @reduce_to_a_root {
  func.func @part(%x: tensor<2xi32>, %root: tensor<1xi32>) -> tensor<2xi32> {
    %0 = "stablehlo.collective_reduce"(%x, %root) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %m = stablehlo.maximum %a, %b : tensor<i32>
        stablehlo.return %m : tensor<i32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, has_dynamic_root} : (tensor<2xi32>, tensor<1xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 9]> : tensor<2xi32>
    %b = stablehlo.constant dense<[5, 2]> : tensor<2xi32>
    %root = stablehlo.constant dense<1> : tensor<1xi32>
    %r:2 = "interpreter.run_parallel"(%a, %root, %b, %root) {programs = [[@part], [@part]]} : (tensor<2xi32>, tensor<1xi32>, tensor<2xi32>, tensor<1xi32>) -> (tensor<2xi32>, tensor<2xi32>)
    check.expect_eq_const %r#0, dense<[0, 0]> : tensor<2xi32>
    check.expect_eq_const %r#1, dense<[5, 9]> : tensor<2xi32>
    func.return
  }
}

// -----

module @broadcast_from_a_root {
  func.func @part(%x: tensor<2xf32>, %root: tensor<1xi32>) -> tensor<2xf32> {
    %0 = "stablehlo.collective_broadcast"(%x, %root) {replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, has_dynamic_root} : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
    %root = stablehlo.constant dense<1> : tensor<1xi32>
    %r:2 = "interpreter.run_parallel"(%a, %root, %b, %root) {programs = [[@part], [@part]]} : (tensor<2xf32>, tensor<1xi32>, tensor<2xf32>, tensor<1xi32>) -> (tensor<2xf32>, tensor<2xf32>)
    check.expect_eq_const %r#0, dense<[1.0, 2.0]> : tensor<2xf32>
    check.expect_eq_const %r#1, dense<[1.0, 2.0]> : tensor<2xf32>
    func.return
  }
}
