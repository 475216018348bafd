module @m {
 sdy.mesh @grid = <["a"=2, "b"=2]>
 sdy.mesh @line = <["d"=4]>
 sdy.mesh @back = <["d"=4], device_ids=[3, 2, 1, 0]>
 func.func @main() {
  %x = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %0 = sdy.manual_computation(%x) in_shardings=[<@grid, [{"a", "b"}]>] out_shardings=[<@grid, [{"a"}]>] manual_axes={} (%p: tensor<1xi64>) {
   %g = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "b">]>}> : (tensor<1xi64>) -> tensor<2xi64>
   sdy.return %g : tensor<2xi64>
  } : (tensor<4xi64>) -> tensor<4xi64>
  check.expect_eq_const %0, dense<[0, 1, 2, 3]> : tensor<4xi64>
  %1 = sdy.manual_computation(%x) in_shardings=[<@grid, [{"a", "b"}]>] out_shardings=[<@grid, [{"b"}]>] manual_axes={} (%p: tensor<1xi64>) {
   %g = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "a">]>}> : (tensor<1xi64>) -> tensor<2xi64>
   sdy.return %g : tensor<2xi64>
  } : (tensor<4xi64>) -> tensor<4xi64>
  check.expect_eq_const %1, dense<[0, 2, 1, 3]> : tensor<4xi64>
  %2 = sdy.manual_computation(%x) in_shardings=[<@grid, [{"a", "b"}]>] out_shardings=[<@grid, [{}]>] manual_axes={} (%p: tensor<1xi64>) {
   %g = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @grid, axes = [#stablehlo.axis_ref<name = "b">, #stablehlo.axis_ref<name = "a">]>}> : (tensor<1xi64>) -> tensor<4xi64>
   sdy.return %g : tensor<4xi64>
  } : (tensor<4xi64>) -> tensor<4xi64>
  check.expect_eq_const %2, dense<[0, 2, 1, 3]> : tensor<4xi64>
  %3 = sdy.manual_computation(%x) in_shardings=[<@line, [{"d"}]>] out_shardings=[<@line, [{"d":(2)2}]>] manual_axes={} (%p: tensor<1xi64>) {
   %g = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @line, axes = [#stablehlo.axis_ref<name = "d", sub_axis_info = (1)2>]>}> : (tensor<1xi64>) -> tensor<2xi64>
   sdy.return %g : tensor<2xi64>
  } : (tensor<4xi64>) -> tensor<4xi64>
  check.expect_eq_const %3, dense<[0, 2, 1, 3]> : tensor<4xi64>
  %4 = sdy.manual_computation(%x) in_shardings=[<@back, [{"d"}]>] out_shardings=[<@back, [{}]>] manual_axes={} (%p: tensor<1xi64>) {
   %g = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @back, axes = [#stablehlo.axis_ref<name = "d">]>}> : (tensor<1xi64>) -> tensor<4xi64>
   sdy.return %g : tensor<4xi64>
  } : (tensor<4xi64>) -> tensor<4xi64>
  check.expect_eq_const %4, dense<[0, 1, 2, 3]> : tensor<4xi64>
  %5 = sdy.manual_computation(%x) in_shardings=[<@back, [{"d"}]>] out_shardings=[<@back, [{"d"}]>] manual_axes={"d"} (%p: tensor<1xi64>) {
   %i = stablehlo.partition_id : tensor<ui32>
   %r = stablehlo.reshape %i : (tensor<ui32>) -> tensor<1xui32>
   %c = stablehlo.convert %r : (tensor<1xui32>) -> tensor<1xi64>
   sdy.return %c : tensor<1xi64>
  } : (tensor<4xi64>) -> tensor<4xi64>
  check.expect_eq_const %5, dense<[3, 2, 1, 0]> : tensor<4xi64>
  return
 }
}
