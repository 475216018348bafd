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
// =====
// passes: refine,dce
func.func @main(%a: tensor<4xf32>, %b: tensor<3xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %s = stablehlo.constant dense<4> : tensor<1xi32>
  %t = stablehlo.constant dense<3> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.dynamic_reshape %b, %t : (tensor<3xf32>, tensor<1xi32>) -> tensor<?xf32>
  %2 = call @twice(%0) : (tensor<?xf32>) -> tensor<?xf32>
  %3 = call @twice(%1) : (tensor<?xf32>) -> tensor<?xf32>
  %4 = call @twice(%2) : (tensor<?xf32>) -> tensor<?xf32>
  return %2, %3, %4 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = call @once(%x) : (tensor<?xf32>) -> tensor<?xf32>
  %1 = call @once(%0) : (tensor<?xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func private @once(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.negate %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
// ----- expected
module {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<3xf32>) -> (tensor<4xf32>, tensor<3xf32>, tensor<4xf32>) {
    %0 = stablehlo.reshape %arg0 : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.reshape %arg1 : (tensor<3xf32>) -> tensor<3xf32>
    %2 = call @twice_0(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = call @twice_1(%1) : (tensor<3xf32>) -> tensor<3xf32>
    %4 = call @twice_0(%2) : (tensor<4xf32>) -> tensor<4xf32>
    return %2, %3, %4 : tensor<4xf32>, tensor<3xf32>, tensor<4xf32>
  }
  func.func private @twice_1(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = call @once_0(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = call @once_0(%0) : (tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @twice_0(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @once_1(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = call @once_1(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @once_1(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @once_0(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.negate %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
// =====
// passes: refine,dce
func.func @loops(%a: tensor<4xf32>, %n: tensor<i32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %s = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %1:3 = stablehlo.while(%i = %zero, %x = %0, %y = %0) : tensor<i32>, tensor<?xf32>, tensor<?xf32>
   cond {
    %2 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  } do {
    %3 = stablehlo.add %i, %one : tensor<i32>
    %4:2 = stablehlo.while(%j = %zero, %z = %x) : tensor<i32>, tensor<?xf32>
     cond {
      %6 = stablehlo.compare LT, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    } do {
      %7 = stablehlo.add %j, %one : tensor<i32>
      %size = stablehlo.get_dimension_size %z, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %shape = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
      %k = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      %8 = stablehlo.add %z, %k : tensor<?xf32>
      stablehlo.return %7, %8 : tensor<i32>, tensor<?xf32>
    }
    %5 = stablehlo.concatenate %y, %4#1, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    stablehlo.return %3, %4#1, %5 : tensor<i32>, tensor<?xf32>, tensor<?xf32>
  }
  return %1#1, %1#2 : tensor<?xf32>, tensor<?xf32>
}
// ----- expected
module {
  func.func @loops(%arg0: tensor<4xf32>, %arg1: tensor<i32>) -> (tensor<4xf32>, tensor<?xf32>) {
    %0 = stablehlo.reshape %arg0 : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %1:3 = "stablehlo.while"(%c, %0, %0) ({
    ^bb0(%iterArg: tensor<i32>, %iterArg_1: tensor<4xf32>, %iterArg_2: tensor<?xf32>):
      %2 = stablehlo.compare LT, %iterArg, %arg1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }, {
    ^bb0(%iterArg: tensor<i32>, %iterArg_1: tensor<4xf32>, %iterArg_2: tensor<?xf32>):
      %2 = stablehlo.add %iterArg, %c_0 : tensor<i32>
      %3:2 = stablehlo.while(%iterArg_3 = %c, %iterArg_4 = %iterArg_1) : tensor<i32>, tensor<4xf32>
       cond {
        %5 = stablehlo.compare LT, %iterArg_3, %iterArg : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %5 : tensor<i1>
      } do {
        %5 = stablehlo.add %iterArg_3, %c_0 : tensor<i32>
        %6 = stablehlo.iota dim = 0 : tensor<4xf32>
        %7 = stablehlo.add %iterArg_4, %6 : tensor<4xf32>
        stablehlo.return %5, %7 : tensor<i32>, tensor<4xf32>
      }
      %4 = stablehlo.concatenate %iterArg_2, %3#1, dim = 0 : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
      stablehlo.return %2, %3#1, %4 : tensor<i32>, tensor<4xf32>, tensor<?xf32>
    }) : (tensor<i32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>, tensor<?xf32>)
    return %1#1, %1#2 : tensor<4xf32>, tensor<?xf32>
  }
}
// =====
// passes: refine,dce
func.func @main(%a: tensor<4x5xf32>, %n: tensor<i32>) -> (tensor<4x?xf32, #stablehlo.bounds<?, 5>>, tensor<2x5xf32>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>) {
  %three = stablehlo.constant dense<3> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %nine = stablehlo.constant dense<9> : tensor<i32>
  %0 = stablehlo.set_dimension_size %a, %three, dim = 1 : (tensor<4x5xf32>, tensor<i32>) -> tensor<4x?xf32, #stablehlo.bounds<?, 5>>
  %1 = stablehlo.set_dimension_size %a, %two, dim = 0 : (tensor<4x5xf32>, tensor<i32>) -> tensor<2x5xf32>
  %2 = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<4x5xf32>, tensor<i32>) -> tensor<?x5xf32, #stablehlo.bounds<4, ?>>
  %3 = stablehlo.set_dimension_size %a, %nine, dim = 0 : (tensor<4x5xf32>, tensor<i32>) -> tensor<?x5xf32, #stablehlo.bounds<4, ?>>
  return %0, %1, %2, %3 : tensor<4x?xf32, #stablehlo.bounds<?, 5>>, tensor<2x5xf32>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>
}
// ----- expected
module {
  func.func @main(%arg0: tensor<4x5xf32>, %arg1: tensor<i32>) -> (tensor<4x3xf32>, tensor<2x5xf32>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>) {
    %c = stablehlo.constant dense<9> : tensor<i32>
    %0 = stablehlo.slice %arg0 [0:4, 0:3] : (tensor<4x5xf32>) -> tensor<4x3xf32>
    %1 = stablehlo.slice %arg0 [0:2, 0:5] : (tensor<4x5xf32>) -> tensor<2x5xf32>
    %2 = stablehlo.set_dimension_size %arg0, %arg1, dim = 0 : (tensor<4x5xf32>, tensor<i32>) -> tensor<?x5xf32, #stablehlo.bounds<4, ?>>
    %3 = stablehlo.set_dimension_size %arg0, %c, dim = 0 : (tensor<4x5xf32>, tensor<i32>) -> tensor<?x5xf32, #stablehlo.bounds<4, ?>>
    return %0, %1, %2, %3 : tensor<4x3xf32>, tensor<2x5xf32>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>, tensor<?x5xf32, #stablehlo.bounds<4, ?>>
  }
}
