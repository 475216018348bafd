// Devices write the same values at once: none of them may lie in an output's memory, where large ones that die early otherwise do.
module @m {
  sdy.mesh @m = <["a"=2, "b"=2]>
  func.func public @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
    %h = stablehlo.sine %x : tensor<64x64xf32>
    %0:2 = sdy.manual_computation(%h, %w) in_shardings=[<@m, [{"a"}, {"b"}]>, <@m, [{"b"}, {}]>] out_shardings=[<@m, [{"a", "b"}, {}]>, <@m, [{"b"}, {"a"}]>] manual_axes={"a", "b"} (%p: tensor<32x32xf32>, %q: tensor<32x64xf32>) {
      %d = stablehlo.dot_general %p, %q, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
      %r = "stablehlo.reduce_scatter"(%d) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
        ^bb0(%u: tensor<f32>, %v: tensor<f32>):
          %s = stablehlo.add %u, %v : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) : (tensor<32x64xf32>) -> tensor<16x64xf32>
      %n = stablehlo.cosine %d : tensor<32x64xf32>
      %g = "stablehlo.all_gather"(%n) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<32x64xf32>) -> tensor<64x64xf32>
      %t = stablehlo.add %g, %h : tensor<64x64xf32>
      %k = stablehlo.slice %t [0:32, 16:48] : (tensor<64x64xf32>) -> tensor<32x32xf32>
      %i = stablehlo.partition_id : tensor<ui32>
      %c = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<32x32xf32>
      %o = stablehlo.multiply %k, %b : tensor<32x32xf32>
      sdy.return %r, %o : tensor<16x64xf32>, tensor<32x32xf32>
    } : (tensor<64x64xf32>, tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>)
    %1 = stablehlo.add %0#0, %0#1 : tensor<64x64xf32>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.dot_general %2, %2, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %3, %0#1, %2 : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
}
