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

// -----

// Disjoint groups meet as often as each likes: the loop goes round as often as the group's first member says, once more for each group.
module @groups_with_loops_of_their_own {
  func.func @part(%n: tensor<i64>) -> tensor<i64> {
    %zero = stablehlo.constant dense<0> : tensor<i64>
    %r:2 = "stablehlo.while"(%zero, %n) ({
      ^bb0(%i: tensor<i64>, %s: tensor<i64>):
        %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }, {
      ^bb0(%i: tensor<i64>, %s: tensor<i64>):
        %one = stablehlo.constant dense<1> : tensor<i64>
        %j = stablehlo.add %i, %one : tensor<i64>
        %t = "stablehlo.all_reduce"(%s) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
          ^bb0(%a: tensor<i64>, %b: tensor<i64>):
            %m = stablehlo.add %a, %b : tensor<i64>
            stablehlo.return %m : tensor<i64>
        }) : (tensor<i64>) -> tensor<i64>
        stablehlo.return %j, %t : tensor<i64>, tensor<i64>
    }) : (tensor<i64>, tensor<i64>) -> (tensor<i64>, tensor<i64>)
    return %r#1 : tensor<i64>
  }
  func.func @main() {
    %one = stablehlo.constant dense<1> : tensor<i64>
    %five = stablehlo.constant dense<5> : tensor<i64>
    %r:4 = "interpreter.run_parallel"(%one, %five, %one, %five) {programs = [[@part], [@part], [@part], [@part]]} : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>)
    check.expect_eq_const %r#0, dense<2> : tensor<i64>
    check.expect_eq_const %r#1, dense<160> : tensor<i64>
    check.expect_eq_const %r#2, dense<2> : tensor<i64>
    check.expect_eq_const %r#3, dense<160> : tensor<i64>
    func.return
  }
}

// -----

// Two programs have their collectives in opposite orders: each meets whom it names, by channel.
module @collectives_in_other_orders {
  func.func @rows(%x: tensor<1xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
    %a = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<1xi64>) -> tensor<2xi64>
    %b = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids, replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>}> : (tensor<1xi64>) -> tensor<2xi64>
    return %a, %b : tensor<2xi64>, tensor<2xi64>
  }
  func.func @columns(%x: tensor<1xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
    %b = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids, replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>}> : (tensor<1xi64>) -> tensor<2xi64>
    %a = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<1xi64>) -> tensor<2xi64>
    return %a, %b : tensor<2xi64>, tensor<2xi64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[0]> : tensor<1xi64>
    %b = stablehlo.constant dense<[1]> : tensor<1xi64>
    %c = stablehlo.constant dense<[2]> : tensor<1xi64>
    %d = stablehlo.constant dense<[3]> : tensor<1xi64>
    %r:8 = "interpreter.run_parallel"(%a, %b, %c, %d) {programs = [[@rows, @columns, @rows, @columns]]} : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>)
    check.expect_eq_const %r#0, dense<[0, 1]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[2, 0]> : tensor<2xi64>
    check.expect_eq_const %r#2, dense<[0, 1]> : tensor<2xi64>
    check.expect_eq_const %r#3, dense<[1, 3]> : tensor<2xi64>
    check.expect_eq_const %r#4, dense<[2, 3]> : tensor<2xi64>
    check.expect_eq_const %r#5, dense<[2, 0]> : tensor<2xi64>
    check.expect_eq_const %r#6, dense<[2, 3]> : tensor<2xi64>
    check.expect_eq_const %r#7, dense<[1, 3]> : tensor<2xi64>
    func.return
  }
}

// -----

// Who is in no group gets zeros; the groups of a padded table are as long as what they name.
module @not_in_any_group {
  func.func @part(%x: tensor<i64>) -> tensor<i64> {
    %t = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[1, -1], [2, 0]]> : tensor<2x2xi64>}> ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %m = stablehlo.add %a, %b : tensor<i64>
        stablehlo.return %m : tensor<i64>
    }) : (tensor<i64>) -> tensor<i64>
    return %t : tensor<i64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<1> : tensor<i64>
    %b = stablehlo.constant dense<2> : tensor<i64>
    %c = stablehlo.constant dense<4> : tensor<i64>
    %d = stablehlo.constant dense<8> : tensor<i64>
    %r:4 = "interpreter.run_parallel"(%a, %b, %c, %d) {programs = [[@part], [@part], [@part], [@part]]} : (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> (tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>)
    check.expect_eq_const %r#0, dense<5> : tensor<i64>
    check.expect_eq_const %r#1, dense<2> : tensor<i64>
    check.expect_eq_const %r#2, dense<5> : tensor<i64>
    check.expect_eq_const %r#3, dense<0> : tensor<i64>
    func.return
  }
}

// -----

// Marks of shardings beside collectives say nothing to a program that already runs on its partition; a manual computation that cuts nothing is its region.
module @shardings_beside_collectives {
  sdy.mesh @m = <["d"=2]>
  func.func @part(%x: tensor<1xi64>) -> (tensor<2xi64>, tensor<1xui32>) {
    %s = sdy.sharding_constraint %x <@m, [{}]> : tensor<1xi64>
    %g = "stablehlo.all_gather"(%s) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<1xi64>) -> tensor<2xi64>
    %h = sdy.reshard %g <@m, [{}]> : tensor<2xi64>
    %r:2 = sdy.manual_computation(%h) in_shardings=[<@m, [{}]>] out_shardings=[<@m, [{}]>, <@m, [{}]>] manual_axes={"d"} (%p: tensor<2xi64>) {
      %q = stablehlo.add %p, %p : tensor<2xi64>
      %id = stablehlo.partition_id : tensor<ui32>
      %v = stablehlo.reshape %id : (tensor<ui32>) -> tensor<1xui32>
      sdy.return %q, %v : tensor<2xi64>, tensor<1xui32>
    } : (tensor<2xi64>) -> (tensor<2xi64>, tensor<1xui32>)
    return %r#0, %r#1 : tensor<2xi64>, tensor<1xui32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1]> : tensor<1xi64>
    %b = stablehlo.constant dense<[2]> : tensor<1xi64>
    %r:4 = "interpreter.run_parallel"(%a, %b) {programs = [[@part, @part]]} : (tensor<1xi64>, tensor<1xi64>) -> (tensor<2xi64>, tensor<1xui32>, tensor<2xi64>, tensor<1xui32>)
    check.expect_eq_const %r#0, dense<[2, 4]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[0]> : tensor<1xui32>
    check.expect_eq_const %r#3, dense<[1]> : tensor<1xui32>
    func.return
  }
}

// -----

// Replicas that each run the devices of a mesh, between collectives of their own.
module @manual_computations_of_replicas {
  sdy.mesh @m = <["d"=2]>
  func.func @part(%x: tensor<2xi64>) -> tensor<2xi64> {
    %s = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %m = stablehlo.add %a, %b : tensor<i64>
        stablehlo.return %m : tensor<i64>
    }) : (tensor<2xi64>) -> tensor<2xi64>
    %r = sdy.manual_computation(%s) in_shardings=[<@m, [{"d"}]>] out_shardings=[<@m, [{"d"}]>] manual_axes={"d"} (%p: tensor<1xi64>) {
      %q = "stablehlo.collective_permute"(%p) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<1xi64>) -> tensor<1xi64>
      sdy.return %q : tensor<1xi64>
    } : (tensor<2xi64>) -> tensor<2xi64>
    %id = stablehlo.replica_id : tensor<ui32>
    %n = stablehlo.convert %id : (tensor<ui32>) -> tensor<i64>
    %v = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %o = stablehlo.add %r, %v : tensor<2xi64>
    return %o : tensor<2xi64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 10]> : tensor<2xi64>
    %r:2 = "interpreter.run_parallel"(%a, %a) {programs = [[@part], [@part]]} : (tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)
    check.expect_eq_const %r#0, dense<[20, 2]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[21, 3]> : tensor<2xi64>
    func.return
  }
}
