// Running sums along either dim, from either end; nine rows, which is no multiple of what is done at once.
func.func @along_rows() {
  %x = stablehlo.constant dense<[[2.0, 3.0, -4.0, 3.0, 0.0, 0.0], [1.0, -2.0, 4.0, -4.0, -2.0, -1.0], [1.0, -1.0, -3.0, -4.0, -4.0, -4.0], [-3.0, 4.0, -3.0, 1.0, 2.0, -2.0], [-2.0, -1.0, -2.0, 4.0, -3.0, 4.0], [3.0, 3.0, -3.0, -1.0, 1.0, 0.0], [1.0, 2.0, 1.0, -4.0, 4.0, 1.0], [4.0, -2.0, -1.0, 3.0, -3.0, -4.0], [-1.0, 2.0, -3.0, 3.0, -1.0, -2.0]]> : tensor<9x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 6>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x6xf32>, tensor<f32>) -> tensor<9x6xf32>
  check.expect_eq_const %0, dense<[[2.0, 5.0, 1.0, 4.0, 4.0, 4.0], [1.0, -1.0, 3.0, -1.0, -3.0, -4.0], [1.0, 0.0, -3.0, -7.0, -11.0, -15.0], [-3.0, 1.0, -2.0, -1.0, 1.0, -1.0], [-2.0, -3.0, -5.0, -1.0, -4.0, 0.0], [3.0, 6.0, 3.0, 2.0, 3.0, 3.0], [1.0, 3.0, 4.0, 0.0, 4.0, 5.0], [4.0, 2.0, 1.0, 4.0, 1.0, -3.0], [-1.0, 1.0, -2.0, 1.0, 0.0, -2.0]]> : tensor<9x6xf32>
  func.return
}

// -----

func.func @along_rows_backwards() {
  %x = stablehlo.constant dense<[[2.0, 3.0, -4.0, 3.0, 0.0, 0.0], [1.0, -2.0, 4.0, -4.0, -2.0, -1.0], [1.0, -1.0, -3.0, -4.0, -4.0, -4.0], [-3.0, 4.0, -3.0, 1.0, 2.0, -2.0], [-2.0, -1.0, -2.0, 4.0, -3.0, 4.0], [3.0, 3.0, -3.0, -1.0, 1.0, 0.0], [1.0, 2.0, 1.0, -4.0, 4.0, 1.0], [4.0, -2.0, -1.0, 3.0, -3.0, -4.0], [-1.0, 2.0, -3.0, 3.0, -1.0, -2.0]]> : tensor<9x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[0, 0], [0, 5]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 6>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x6xf32>, tensor<f32>) -> tensor<9x6xf32>
  check.expect_eq_const %0, dense<[[4.0, 2.0, -1.0, 3.0, 0.0, 0.0], [-4.0, -5.0, -3.0, -7.0, -3.0, -1.0], [-15.0, -16.0, -15.0, -12.0, -8.0, -4.0], [-1.0, 2.0, -2.0, 1.0, 0.0, -2.0], [0.0, 2.0, 3.0, 5.0, 1.0, 4.0], [3.0, 0.0, -3.0, 0.0, 1.0, 0.0], [5.0, 4.0, 2.0, 1.0, 5.0, 1.0], [-3.0, -7.0, -5.0, -4.0, -7.0, -4.0], [-2.0, -1.0, -3.0, 0.0, -3.0, -2.0]]> : tensor<9x6xf32>
  func.return
}

// -----

func.func @along_columns() {
  %x = stablehlo.constant dense<[[2.0, 3.0, -4.0, 3.0, 0.0, 0.0], [1.0, -2.0, 4.0, -4.0, -2.0, -1.0], [1.0, -1.0, -3.0, -4.0, -4.0, -4.0], [-3.0, 4.0, -3.0, 1.0, 2.0, -2.0], [-2.0, -1.0, -2.0, 4.0, -3.0, 4.0], [3.0, 3.0, -3.0, -1.0, 1.0, 0.0], [1.0, 2.0, 1.0, -4.0, 4.0, 1.0], [4.0, -2.0, -1.0, 3.0, -3.0, -4.0], [-1.0, 2.0, -3.0, 3.0, -1.0, -2.0]]> : tensor<9x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[8, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 9, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x6xf32>, tensor<f32>) -> tensor<9x6xf32>
  check.expect_eq_const %0, dense<[[2.0, 3.0, -4.0, 3.0, 0.0, 0.0], [3.0, 1.0, 0.0, -1.0, -2.0, -1.0], [4.0, 0.0, -3.0, -5.0, -6.0, -5.0], [1.0, 4.0, -6.0, -4.0, -4.0, -7.0], [-1.0, 3.0, -8.0, 0.0, -7.0, -3.0], [2.0, 6.0, -11.0, -1.0, -6.0, -3.0], [3.0, 8.0, -10.0, -5.0, -2.0, -2.0], [7.0, 6.0, -11.0, -2.0, -5.0, -6.0], [6.0, 8.0, -14.0, 1.0, -6.0, -8.0]]> : tensor<9x6xf32>
  func.return
}

// -----

func.func @along_columns_backwards() {
  %x = stablehlo.constant dense<[[2.0, 3.0, -4.0, 3.0, 0.0, 0.0], [1.0, -2.0, 4.0, -4.0, -2.0, -1.0], [1.0, -1.0, -3.0, -4.0, -4.0, -4.0], [-3.0, 4.0, -3.0, 1.0, 2.0, -2.0], [-2.0, -1.0, -2.0, 4.0, -3.0, 4.0], [3.0, 3.0, -3.0, -1.0, 1.0, 0.0], [1.0, 2.0, 1.0, -4.0, 4.0, 1.0], [4.0, -2.0, -1.0, 3.0, -3.0, -4.0], [-1.0, 2.0, -3.0, 3.0, -1.0, -2.0]]> : tensor<9x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %zero) <{padding = dense<[[0, 8], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 9, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x6xf32>, tensor<f32>) -> tensor<9x6xf32>
  check.expect_eq_const %0, dense<[[6.0, 8.0, -14.0, 1.0, -6.0, -8.0], [4.0, 5.0, -10.0, -2.0, -6.0, -8.0], [3.0, 7.0, -14.0, 2.0, -4.0, -7.0], [2.0, 8.0, -11.0, 6.0, 0.0, -3.0], [5.0, 4.0, -8.0, 5.0, -2.0, -1.0], [7.0, 5.0, -6.0, 1.0, 1.0, -5.0], [4.0, 2.0, -3.0, 2.0, 0.0, -5.0], [3.0, 0.0, -4.0, 6.0, -4.0, -6.0], [-1.0, 2.0, -3.0, 3.0, -1.0, -2.0]]> : tensor<9x6xf32>
  func.return
}
