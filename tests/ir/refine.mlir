// Shapes follow from operands and constants; dynamic operations become static ones.
// =====
// passes: refine,dce
func.func @shapes(%a: tensor<4x5xf32>, %f: tensor<f32>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>) {
  %s = stablehlo.constant dense<[10, 2]> : tensor<2xi32>
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4x5xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %1 = stablehlo.sine %0 : tensor<?x?xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %3 = stablehlo.get_dimension_size %2, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
  %4 = stablehlo.reshape %3 : (tensor<i32>) -> tensor<1xi32>
  %5 = stablehlo.dynamic_iota %4, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %lo = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %6 = stablehlo.dynamic_pad %a, %f, %lo, %lo, %lo : (tensor<4x5xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %1, %2, %5, %6 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?x?xf32>
}
// ----- expected
module {
  func.func @shapes(%arg0: tensor<4x5xf32>, %arg1: tensor<f32>) -> (tensor<10x2xf32>, tensor<2x10xf32>, tensor<2xf32>, tensor<9x5xf32>) {
    %0 = stablehlo.reshape %arg0 : (tensor<4x5xf32>) -> tensor<10x2xf32>
    %1 = stablehlo.sine %0 : tensor<10x2xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<10x2xf32>) -> tensor<2x10xf32>
    %3 = stablehlo.iota dim = 0 : tensor<2xf32>
    %4 = stablehlo.pad %arg0, %arg1, low = [1, 0], high = [1, 0], interior = [1, 0] : (tensor<4x5xf32>, tensor<f32>) -> tensor<9x5xf32>
    return %1, %2, %3, %4 : tensor<10x2xf32>, tensor<2x10xf32>, tensor<2xf32>, tensor<9x5xf32>
  }
}
