// Integer arithmetic, movement and sizes; floats stay.
// =====
// passes: fold
func.func @arithmetic() -> (tensor<2xi32>, tensor<i8>, tensor<ui8>, tensor<i1>) {
  %a = stablehlo.constant dense<[7, -7]> : tensor<2xi32>
  %b = stablehlo.constant dense<2> : tensor<2xi32>
  %0 = stablehlo.divide %a, %b : tensor<2xi32>
  %1 = stablehlo.remainder %a, %b : tensor<2xi32>
  %2 = stablehlo.multiply %0, %1 : tensor<2xi32>
  %c = stablehlo.constant dense<127> : tensor<i8>
  %d = stablehlo.constant dense<1> : tensor<i8>
  %3 = stablehlo.add %c, %d : tensor<i8>
  %e = stablehlo.constant dense<200> : tensor<ui8>
  %f = stablehlo.constant dense<100> : tensor<ui8>
  %4 = stablehlo.subtract %f, %e : tensor<ui8>
  %5 = stablehlo.compare GT, %e, %f : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
  return %2, %3, %4, %5 : tensor<2xi32>, tensor<i8>, tensor<ui8>, tensor<i1>
}
// ----- expected
module {
  func.func @arithmetic() -> (tensor<2xi32>, tensor<i8>, tensor<ui8>, tensor<i1>) {
    %c = stablehlo.constant dense<3> : tensor<2xi32>
    %c_0 = stablehlo.constant dense<-128> : tensor<i8>
    %c_1 = stablehlo.constant dense<156> : tensor<ui8>
    %c_2 = stablehlo.constant dense<true> : tensor<i1>
    return %c, %c_0, %c_1, %c_2 : tensor<2xi32>, tensor<i8>, tensor<ui8>, tensor<i1>
  }
}
// =====
// passes: fold
func.func @division_by_zero_stays(%x: tensor<4x5xf32>) -> (tensor<i32>, tensor<i32>, tensor<f32>) {
  %a = stablehlo.constant dense<1> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.divide %a, %z : tensor<i32>
  %1 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<4x5xf32>) -> tensor<i32>
  %c = stablehlo.constant dense<1.5> : tensor<f32>
  %2 = stablehlo.add %c, %c : tensor<f32>
  return %0, %1, %2 : tensor<i32>, tensor<i32>, tensor<f32>
}
// ----- expected
module {
  func.func @division_by_zero_stays(%arg0: tensor<4x5xf32>) -> (tensor<i32>, tensor<i32>, tensor<f32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.divide %c, %c_0 : tensor<i32>
    %c_1 = stablehlo.constant dense<5> : tensor<i32>
    %cst = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %1 = stablehlo.add %cst, %cst : tensor<f32>
    return %0, %c_1, %1 : tensor<i32>, tensor<i32>, tensor<f32>
  }
}
// =====
// passes: fold
func.func @movement() -> (tensor<3x2xi64>, tensor<4xi64>, tensor<2xi64>) {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xi64>) -> tensor<3x2xi64>
  %b = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %c = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
  %1 = stablehlo.concatenate %b, %c, dim = 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %2 = stablehlo.slice %1 [0:4:2] : (tensor<4xi64>) -> tensor<2xi64>
  return %0, %1, %2 : tensor<3x2xi64>, tensor<4xi64>, tensor<2xi64>
}
// ----- expected
module {
  func.func @movement() -> (tensor<3x2xi64>, tensor<4xi64>, tensor<2xi64>) {
    %c = stablehlo.constant dense<[[1, 4], [2, 5], [3, 6]]> : tensor<3x2xi64>
    %c_0 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
    %c_1 = stablehlo.constant dense<[1, 3]> : tensor<2xi64>
    return %c, %c_0, %c_1 : tensor<3x2xi64>, tensor<4xi64>, tensor<2xi64>
  }
}
