// What vanishes, what stays, in which order.
// =====
// canonical
module @name attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32} {
  func.func private @b(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %x : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @a(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.cosine %x : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @never(%x: tensor<f32>) -> tensor<f32> {
    return %x : tensor<f32>
  }
  func.func public @main(%x: tensor<f32> {mhlo.layout_mode = "default", tf.aliasing_output = 0 : i32}) -> (tensor<f32> {jax.result_info = "r"}) {
    %dead = stablehlo.negate %x : tensor<f32>
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %1 = call @a(%x) : (tensor<f32>) -> tensor<f32> loc("here")
    %0 = call @b(%1) : (tensor<f32>) -> tensor<f32>
    %c2 = stablehlo.constant dense<0x40000000> : tensor<f32>
    %2 = stablehlo.multiply %0, %c2 : tensor<f32>
    %3 = stablehlo.add %c, %2 : tensor<f32>
    %4 = stablehlo.compare LT, %3, %x, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.select %4, %3, %x : tensor<i1>, tensor<f32>
    return %5 : tensor<f32>
  }
}
// ----- expected
module {
  func.func @main(%arg0: tensor<f32> {tf.aliasing_output = 0 : i32}) -> tensor<f32> {
    %0 = call @f0(%arg0) : (tensor<f32>) -> tensor<f32>
    %1 = call @f1(%0) : (tensor<f32>) -> tensor<f32>
    %cst = stablehlo.constant dense<"0x00000040"> : tensor<f32>
    %2 = stablehlo.multiply %1, %cst : tensor<f32>
    %3 = stablehlo.add %cst, %2 : tensor<f32>
    %4 = stablehlo.compare LT, %3, %arg0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.select %4, %3, %arg0 : tensor<i1>, tensor<f32>
    return %5 : tensor<f32>
  }
  func.func @f0(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.cosine %arg0 : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @f1(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.sine %arg0 : tensor<f32>
    return %0 : tensor<f32>
  }
}
