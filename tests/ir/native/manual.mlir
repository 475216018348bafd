module @a_dimension_cut_by_one_axis {
  sdy.mesh @m = <["d"=4]>
  func.func @main() {
    %x = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi32>
    %r:3 = sdy.manual_computation(%x) in_shardings=[<@m, [{"d"}, {}]>] out_shardings=[<@m, [{"d"}, {}]>, <@m, [{}, {}]>, <@m, [{}, {"d"}]>] manual_axes={"d"} (%p: tensor<1x2xi32>) {
      %id = stablehlo.partition_id : tensor<ui32>
      %n = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
      %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<1x2xi32>
      %s = stablehlo.multiply %p, %b : tensor<1x2xi32>
      %t = "stablehlo.all_reduce"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
        ^bb0(%u: tensor<i32>, %v: tensor<i32>):
          %w = stablehlo.add %u, %v : tensor<i32>
          stablehlo.return %w : tensor<i32>
      }) : (tensor<1x2xi32>) -> tensor<1x2xi32>
      sdy.return %s, %t, %p : tensor<1x2xi32>, tensor<1x2xi32>, tensor<1x2xi32>
    } : (tensor<4x2xi32>) -> (tensor<4x2xi32>, tensor<1x2xi32>, tensor<1x8xi32>)
    check.expect_eq_const %r#0, dense<[[0, 0], [3, 4], [10, 12], [21, 24]]> : tensor<4x2xi32>
    check.expect_eq_const %r#1, dense<[[16, 20]]> : tensor<1x2xi32>
    check.expect_eq_const %r#2, dense<[[1, 2, 3, 4, 5, 6, 7, 8]]> : tensor<1x8xi32>
    func.return
  }
}

// -----

// Several axes of one dimension, in any order; parts of an axis; what is the same on several devices is the first one's.
module @dimensions_cut_by_several_axes {
  sdy.mesh @m = <["a"=2, "b"=3]>
  sdy.mesh @line = <["d"=4]>
  func.func @main() {
    %x = stablehlo.constant dense<[0, 1, 2, 3, 4, 5]> : tensor<6xi64>
    %0:2 = sdy.manual_computation(%x) in_shardings=[<@m, [{"b", "a"}]>] out_shardings=[<@m, [{"a", "b"}]>, <@m, [{"b"}]>] manual_axes={"a", "b"} (%p: tensor<1xi64>) {
      sdy.return %p, %p : tensor<1xi64>, tensor<1xi64>
    } : (tensor<6xi64>) -> (tensor<6xi64>, tensor<3xi64>)
    check.expect_eq_const %0#0, dense<[0, 2, 4, 1, 3, 5]> : tensor<6xi64>
    check.expect_eq_const %0#1, dense<[0, 2, 4]> : tensor<3xi64>
    %y = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
    %1 = sdy.manual_computation(%y) in_shardings=[<@line, [{"d":(1)2}, {"d":(2)2}]>] out_shardings=[<@line, [{"d"}, {}]>] manual_axes={"d"} (%p: tensor<1x1xi64>) {
      sdy.return %p : tensor<1x1xi64>
    } : (tensor<2x2xi64>) -> tensor<4x1xi64>
    check.expect_eq_const %1, dense<[[1], [2], [3], [4]]> : tensor<4x1xi64>
    func.return
  }
}

// -----

// Devices that stand elsewhere in the mesh; groups that its axes name; values and functions from outside the region.
module @devices_in_another_order {
  sdy.mesh @back = <["d"=4], device_ids=[3, 2, 1, 0]>
  func.func private @gathered(%p: tensor<1xi64>) -> tensor<4xi64> {
    %g = "stablehlo.all_gather"(%p) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @back, axes = [#stablehlo.axis_ref<name = "d">]>}> : (tensor<1xi64>) -> tensor<4xi64>
    return %g : tensor<4xi64>
  }
  func.func @main() {
    %x = stablehlo.constant dense<[10, 11, 12, 13]> : tensor<4xi64>
    %r = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4xi64>
    %o = stablehlo.multiply %r, %x : tensor<4xi64>
    %s = stablehlo.reverse %o, dims = [0] : tensor<4xi64>
    %0:3 = sdy.manual_computation(%x) in_shardings=[<@back, [{"d"}]>] out_shardings=[<@back, [{}]>, <@back, [{"d"}]>, <@back, [{}]>] manual_axes={"d"} (%p: tensor<1xi64>) {
      %g = func.call @gathered(%p) : (tensor<1xi64>) -> tensor<4xi64>
      %i = stablehlo.partition_id : tensor<ui32>
      %c = stablehlo.convert %i : (tensor<ui32>) -> tensor<i64>
      %v = stablehlo.reshape %c : (tensor<i64>) -> tensor<1xi64>
      %q = stablehlo.add %s, %g : tensor<4xi64>
      sdy.return %g, %v, %q : tensor<4xi64>, tensor<1xi64>, tensor<4xi64>
    } : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>)
    check.expect_eq_const %0#0, dense<[10, 11, 12, 13]> : tensor<4xi64>
    check.expect_eq_const %0#1, dense<[3, 2, 1, 0]> : tensor<4xi64>
    check.expect_eq_const %0#2, dense<[49, 35, 23, 13]> : tensor<4xi64>
    func.return
  }
}

// -----

// Axes that are not manual cut nothing, their devices do the same; the region has loops of its own length on each device, and is itself in a loop.
module @some_axes_and_loops {
  sdy.mesh @m = <["a"=2, "b"=2]>
  func.func @main() {
    %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2x2xf32>
    cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %m = sdy.manual_computation(%v) in_shardings=[<@m, [{"a", ?}, {"b"}]>] out_shardings=[<@m, [{"a"}, {"b"}]>] manual_axes={"a"} (%p: tensor<1x2xf32>) {
        %id = stablehlo.partition_id : tensor<ui32>
        %two = stablehlo.constant dense<2> : tensor<ui32>
        %row = stablehlo.divide %id, %two : tensor<ui32>
        %rounds = stablehlo.convert %row : (tensor<ui32>) -> tensor<i32>
        %t:2 = stablehlo.while(%k = %zero, %q = %p) : tensor<i32>, tensor<1x2xf32>
        cond {
          %c = stablehlo.compare LE, %k, %rounds : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %kn = stablehlo.add %k, %one : tensor<i32>
          %d = stablehlo.add %q, %q : tensor<1x2xf32>
          stablehlo.return %kn, %d : tensor<i32>, tensor<1x2xf32>
        }
        %s = sdy.sharding_constraint %t#1 <@m, [{}, {"b"}]> : tensor<1x2xf32>
        sdy.return %s : tensor<1x2xf32>
      } : (tensor<2x2xf32>) -> tensor<2x2xf32>
      stablehlo.return %n, %m : tensor<i32>, tensor<2x2xf32>
    }
    check.expect_eq_const %w#1, dense<[[8.0, 16.0], [192.0, 256.0]]> : tensor<2x2xf32>
    func.return
  }
}

// -----

// One inside another that cuts nothing, as JAX writes the index along an axis where other axes are not manual.
module @one_inside_another {
  sdy.mesh @m = <["a"=2, "b"=2]>
  func.func @main() {
    %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
    %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{"a"}]>] manual_axes={"a"} (%p: tensor<2xi32>) {
      %1 = sdy.manual_computation(%p) in_shardings=[<@m, [{}]>] out_shardings=[<@m, [{}]>] manual_axes={"b"} (%q: tensor<2xi32>) {
        %two = stablehlo.constant dense<2> : tensor<ui32>
        %id = stablehlo.partition_id : tensor<ui32>
        %row = stablehlo.divide %id, %two : tensor<ui32>
        %n = stablehlo.convert %row : (tensor<ui32>) -> tensor<i32>
        %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<2xi32>
        %s = stablehlo.add %q, %b : tensor<2xi32>
        sdy.return %s : tensor<2xi32>
      } : (tensor<2xi32>) -> tensor<2xi32>
      sdy.return %1 : tensor<2xi32>
    } : (tensor<4xi32>) -> tensor<4xi32>
    check.expect_eq_const %0, dense<[1, 2, 4, 5]> : tensor<4xi32>
    func.return
  }
}

// -----

// One that cuts arrays inside another: its devices have the piece of the outer axes, and what they give is put together along the inner ones.
module @inside_another {
  sdy.mesh @m = <["a"=2, "b"=2, "c"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
  func.func @main() {
    %x = stablehlo.constant dense<[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]> : tensor<4x4xi32>
    %r:3 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}, {}]>] out_shardings=[<@m, [{"a"}, {}]>, <@m, [{"a"}, {}]>, <@m, [{"a"}]>] manual_axes={"a"} (%p: tensor<2x4xi32>) {
      %two = stablehlo.constant dense<2> : tensor<2x4xi32>
      %d = stablehlo.multiply %p, %two : tensor<2x4xi32>
      %q:3 = sdy.manual_computation(%p, %d) in_shardings=[<@m, [{"c"}, {"b"}]>, <@m, [{}, {"b", "c"}]>] out_shardings=[<@m, [{"c"}, {"b"}]>, <@m, [{}, {"c", "b"}]>, <@m, [{}]>] manual_axes={"b", "c"} (%s: tensor<1x2xi32>, %t: tensor<2x1xi32>) {
        %n = stablehlo.negate %s : tensor<1x2xi32>
        %f = stablehlo.reshape %s : (tensor<1x2xi32>) -> tensor<2xi32>
        %g = "stablehlo.all_reduce"(%f) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "b">, #stablehlo.axis_ref<name = "c">]>, use_global_device_ids}> ({
          ^bb0(%u: tensor<i32>, %v: tensor<i32>):
            %w = stablehlo.add %u, %v : tensor<i32>
            stablehlo.return %w : tensor<i32>
        }) : (tensor<2xi32>) -> tensor<2xi32>
        sdy.return %n, %t, %g : tensor<1x2xi32>, tensor<2x1xi32>, tensor<2xi32>
      } : (tensor<2x4xi32>, tensor<2x4xi32>) -> (tensor<2x4xi32>, tensor<2x4xi32>, tensor<2xi32>)
      sdy.return %q#0, %q#1, %q#2 : tensor<2x4xi32>, tensor<2x4xi32>, tensor<2xi32>
    } : (tensor<4x4xi32>) -> (tensor<4x4xi32>, tensor<4x4xi32>, tensor<4xi32>)
    check.expect_eq_const %r#0, dense<[[0, -1, -2, -3], [-4, -5, -6, -7], [-8, -9, -10, -11], [-12, -13, -14, -15]]> : tensor<4x4xi32>
    check.expect_eq_const %r#1, dense<[[0, 4, 2, 6], [8, 12, 10, 14], [16, 20, 18, 22], [24, 28, 26, 30]]> : tensor<4x4xi32>
    check.expect_eq_const %r#2, dense<[12, 16, 44, 48]> : tensor<4xi32>
    func.return
  }
}

// -----

// What is not cut is one array to all devices: what each makes of it, in place or in a loop, is its own.
module @uncut_operands_are_shared {
  sdy.mesh @m = <["d"=4]>
  func.func @main() {
    %x = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4096xi64>
    %one = stablehlo.constant dense<1> : tensor<i64>
    %zero = stablehlo.constant dense<0> : tensor<i64>
    %three = stablehlo.constant dense<3> : tensor<i64>
    %y = stablehlo.slice %x [0:4] : (tensor<4096xi64>) -> tensor<4xi64>
    %r:3 = sdy.manual_computation(%y, %x, %one) in_shardings=[<@m, [{"d"}]>, <@m, [{}]>, <@m, []>] out_shardings=[<@m, [{"d"}]>, <@m, [{"d"}]>, <@m, [{}]>] manual_axes={"d"} (%p: tensor<1xi64>, %q: tensor<4096xi64>, %k: tensor<i64>) {
      %i = stablehlo.reshape %p : (tensor<1xi64>) -> tensor<i64>
      %u = stablehlo.dynamic_update_slice %q, %p, %zero : (tensor<4096xi64>, tensor<1xi64>, tensor<i64>) -> tensor<4096xi64>
      %l:2 = stablehlo.while(%n = %zero, %v = %q) : tensor<i64>, tensor<4096xi64>
       cond {
        %c = stablehlo.compare LT, %n, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %w = stablehlo.dynamic_update_slice %v, %p, %n : (tensor<4096xi64>, tensor<1xi64>, tensor<i64>) -> tensor<4096xi64>
        %j = stablehlo.add %n, %k : tensor<i64>
        stablehlo.return %j, %w : tensor<i64>, tensor<4096xi64>
      }
      %s = stablehlo.reduce(%u init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096xi64>, tensor<i64>) -> tensor<i64>
      %f = stablehlo.reduce(%l#1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4096xi64>, tensor<i64>) -> tensor<i64>
      %s1 = stablehlo.reshape %s : (tensor<i64>) -> tensor<1xi64>
      %f1 = stablehlo.reshape %f : (tensor<i64>) -> tensor<1xi64>
      sdy.return %s1, %f1, %q : tensor<1xi64>, tensor<1xi64>, tensor<4096xi64>
    } : (tensor<4xi64>, tensor<4096xi64>, tensor<i64>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4096xi64>)
    check.expect_eq_const %r#0, dense<[8386560, 8386561, 8386562, 8386563]> : tensor<4xi64>
    check.expect_eq_const %r#1, dense<[8386557, 8386560, 8386563, 8386566]> : tensor<4xi64>
    check.expect_eq %r#2, %x : tensor<4096xi64>
    func.return
  }
}
