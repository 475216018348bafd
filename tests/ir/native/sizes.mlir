// set_dimension_size of what is known when the program is compiled: to its type, to its constant.
module @static_size {
  func.func @main() {
    %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.set_dimension_size %x, %three, dim = 1 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
    %1 = stablehlo.set_dimension_size %x, %two, dim = 1 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x2xi32>
    %2 = stablehlo.set_dimension_size %x, %zero, dim = 0 : (tensor<2x3xi32>, tensor<i32>) -> tensor<0x3xi32>
    check.expect_eq_const %0, dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
    check.expect_eq_const %1, dense<[[1, 2], [4, 5]]> : tensor<2x2xi32>
    check.expect_eq_const %2, dense<> : tensor<0x3xi32>
    func.return
  }
}

// -----

// The constant says what the type does not.
module @bounded {
  func.func @main() {
    %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
    %k = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.add %k, %k : tensor<i32>
    %0 = stablehlo.set_dimension_size %x, %two, dim = 1 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x?xi32, #stablehlo.bounds<?, 3>>
    %1 = stablehlo.multiply %0, %0 : tensor<2x?xi32, #stablehlo.bounds<?, 3>>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x?xi32, #stablehlo.bounds<?, 3>>, tensor<i32>) -> tensor<2xi32>
    %3 = stablehlo.get_dimension_size %1, dim = 1 : (tensor<2x?xi32, #stablehlo.bounds<?, 3>>) -> tensor<i32>
    check.expect_eq_const %2, dense<[5, 41]> : tensor<2xi32>
    check.expect_eq_const %3, dense<2> : tensor<i32>
    func.return
  }
}
