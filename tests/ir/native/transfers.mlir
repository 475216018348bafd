// What has an order: send and recv, by channel and by pairs, in loops and branches, with tokens that go round; infeed; asynchronous operations.
module @between_two_by_pairs {
  func.func @swap(%x: tensor<2xi64>, %t: !stablehlo.token) -> (tensor<2xi64>, tensor<2xi64>, !stablehlo.token) {
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
    %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    %2 = "stablehlo.send"(%1#0, %1#1) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
    %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    return %1#0, %3#0, %3#1 : tensor<2xi64>, tensor<2xi64>, !stablehlo.token
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %b = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
    %t = stablehlo.create_token : !stablehlo.token
    %r:6 = "interpreter.run_parallel"(%a, %t, %b, %t) {programs = [[@swap, @swap]]} : (tensor<2xi64>, !stablehlo.token, tensor<2xi64>, !stablehlo.token) -> (tensor<2xi64>, tensor<2xi64>, !stablehlo.token, tensor<2xi64>, tensor<2xi64>, !stablehlo.token)
    check.expect_eq_const %r#0, dense<[3, 4]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[0, 0]> : tensor<2xi64>
    check.expect_eq_const %r#3, dense<[1, 2]> : tensor<2xi64>
    check.expect_eq_const %r#4, dense<[3, 4]> : tensor<2xi64>
    func.return
  }
}

// -----

// Three parcels on one channel come in the order in which they went, though nobody uses what the sender's loop gives.
module @in_the_order_of_a_loop {
  func.func @sender(%x: tensor<2xi64>) {
    %t = stablehlo.create_token : !stablehlo.token
    %n = stablehlo.constant dense<0> : tensor<i64>
    %r:3 = "stablehlo.while"(%n, %x, %t) ({
      ^bb0(%i: tensor<i64>, %v: tensor<2xi64>, %k: !stablehlo.token):
        %three = stablehlo.constant dense<3> : tensor<i64>
        %p = stablehlo.compare LT, %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
    }, {
      ^bb0(%i: tensor<i64>, %v: tensor<2xi64>, %k: !stablehlo.token):
        %one = stablehlo.constant dense<1> : tensor<i64>
        %j = stablehlo.add %i, %one : tensor<i64>
        %w = stablehlo.add %v, %v : tensor<2xi64>
        %m = "stablehlo.send"(%w, %j, %k) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}> : (tensor<2xi64>, tensor<i64>, !stablehlo.token) -> !stablehlo.token
        stablehlo.return %j, %w, %m : tensor<i64>, tensor<2xi64>, !stablehlo.token
    }) : (tensor<i64>, tensor<2xi64>, !stablehlo.token) -> (tensor<i64>, tensor<2xi64>, !stablehlo.token)
    return
  }
  func.func @receiver() -> tensor<6xi64> {
    %t = stablehlo.create_token : !stablehlo.token
    %a:3 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}> : (!stablehlo.token) -> (tensor<2xi64>, tensor<i64>, !stablehlo.token)
    %b:3 = "stablehlo.recv"(%a#2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}> : (!stablehlo.token) -> (tensor<2xi64>, tensor<i64>, !stablehlo.token)
    %c:3 = "stablehlo.recv"(%b#2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}> : (!stablehlo.token) -> (tensor<2xi64>, tensor<i64>, !stablehlo.token)
    %0 = stablehlo.concatenate %c#0, %a#0, %b#0, dim = 0 : (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<6xi64>
    %1 = stablehlo.broadcast_in_dim %b#1, dims = [] : (tensor<i64>) -> tensor<6xi64>
    %2 = stablehlo.add %0, %1 : tensor<6xi64>
    return %2 : tensor<6xi64>
  }
  func.func @main() {
    %x = stablehlo.constant dense<[1, 10]> : tensor<2xi64>
    %r = "interpreter.run_parallel"(%x) {programs = [[@receiver, @sender]]} : (tensor<2xi64>) -> tensor<6xi64>
    check.expect_eq_const %r, dense<[10, 82, 4, 22, 6, 42]> : tensor<6xi64>
    func.return
  }
}

// -----

// Each replica has a branch of its own, and what it sends first the other one receives last.
module @in_branches_with_tokens {
  func.func @part(%x: tensor<i32>) -> tensor<i32> {
    %t = stablehlo.create_token : !stablehlo.token
    %id = stablehlo.replica_id : tensor<ui32>
    %zero = stablehlo.constant dense<0> : tensor<ui32>
    %p = stablehlo.compare EQ, %id, %zero : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %r:2 = "stablehlo.if"(%p) ({
      %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}> : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
      %y = stablehlo.multiply %x, %x : tensor<i32>
      %1 = "stablehlo.send"(%y, %0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, is_host_transfer = false}> : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
      stablehlo.return %1, %y : !stablehlo.token, tensor<i32>
    }, {
      %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, is_host_transfer = false}> : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)
      %1:2 = "stablehlo.recv"(%0#1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}> : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)
      %2 = stablehlo.subtract %0#0, %1#0 : tensor<i32>
      stablehlo.return %1#1, %2 : !stablehlo.token, tensor<i32>
    }) : (tensor<i1>) -> (!stablehlo.token, tensor<i32>)
    %o = "stablehlo.outfeed"(%r#1, %r#0) : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
    return %r#1 : tensor<i32>
  }
  func.func @main() {
    %x = stablehlo.constant dense<7> : tensor<i32>
    %r:2 = "interpreter.run_parallel"(%x, %x) {programs = [[@part], [@part]]} : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
    check.expect_eq_const %r#0, dense<49> : tensor<i32>
    check.expect_eq_const %r#1, dense<42> : tensor<i32>
    func.return
  }
}

// -----

module @takes_from_a_queue {
  func.func @take(%token: !stablehlo.token) -> (tensor<2xi64>, tensor<2xi64>, !stablehlo.token) {
    %a:2 = "stablehlo.infeed"(%token) <{infeed_config = "", layout = [[0]]}> : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    %b:2 = "stablehlo.infeed"(%a#1) <{infeed_config = "", layout = [[0]]}> : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
    %c = "stablehlo.outfeed"(%b#0, %b#1) : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
    return %a#0, %b#0, %c : tensor<2xi64>, tensor<2xi64>, !stablehlo.token
  }
  func.func @first() -> tensor<2xi64> {
    %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @second() -> tensor<2xi64> {
    %0 = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
    return %0 : tensor<2xi64>
  }
  func.func @main() {
    %t = stablehlo.after_all : !stablehlo.token
    %r:3 = "interpreter.run_parallel"(%t) {infeed = [@first, @second], programs = [[@take]]} : (!stablehlo.token) -> (tensor<2xi64>, tensor<2xi64>, !stablehlo.token)
    check.expect_eq_const %r#0, dense<[1, 2]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[3, 4]> : tensor<2xi64>
    func.return
  }
}

// -----

// An asynchronous collective, and what it gives in a tuple that goes round a loop.
module @asynchronous_and_in_tuples {
  func.func @part(%x: tensor<2xi64>) -> (tensor<4xi64>, tensor<2xi64>) {
    %f = "stablehlo.async_start"(%x) ({
      ^bb0(%v: tensor<2xi64>):
        %g = "stablehlo.all_gather"(%v) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xi64>) -> tensor<4xi64>
        stablehlo.return %g : tensor<4xi64>
    }) : (tensor<2xi64>) -> !stablehlo.future<tensor<4xi64>>
    %d = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<4xi64>>) -> tensor<4xi64>
    %n = stablehlo.constant dense<0> : tensor<i64>
    %t = "stablehlo.tuple"(%x, %n) : (tensor<2xi64>, tensor<i64>) -> tuple<tensor<2xi64>, tensor<i64>>
    %w = "stablehlo.while"(%t) ({
      ^bb0(%p: tuple<tensor<2xi64>, tensor<i64>>):
        %i = "stablehlo.get_tuple_element"(%p) <{index = 1 : i32}> : (tuple<tensor<2xi64>, tensor<i64>>) -> tensor<i64>
        %three = stablehlo.constant dense<3> : tensor<i64>
        %c = stablehlo.compare LT, %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
    }, {
      ^bb0(%p: tuple<tensor<2xi64>, tensor<i64>>):
        %v = "stablehlo.get_tuple_element"(%p) <{index = 0 : i32}> : (tuple<tensor<2xi64>, tensor<i64>>) -> tensor<2xi64>
        %i = "stablehlo.get_tuple_element"(%p) <{index = 1 : i32}> : (tuple<tensor<2xi64>, tensor<i64>>) -> tensor<i64>
        %one = stablehlo.constant dense<1> : tensor<i64>
        %j = stablehlo.add %i, %one : tensor<i64>
        %u = stablehlo.add %v, %v : tensor<2xi64>
        %q = "stablehlo.tuple"(%u, %j) : (tensor<2xi64>, tensor<i64>) -> tuple<tensor<2xi64>, tensor<i64>>
        stablehlo.return %q : tuple<tensor<2xi64>, tensor<i64>>
    }) : (tuple<tensor<2xi64>, tensor<i64>>) -> tuple<tensor<2xi64>, tensor<i64>>
    %e = "stablehlo.get_tuple_element"(%w) <{index = 0 : i32}> : (tuple<tensor<2xi64>, tensor<i64>>) -> tensor<2xi64>
    return %d, %e : tensor<4xi64>, tensor<2xi64>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %b = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
    %r:4 = "interpreter.run_parallel"(%a, %b) {programs = [[@part], [@part]]} : (tensor<2xi64>, tensor<2xi64>) -> (tensor<4xi64>, tensor<2xi64>, tensor<4xi64>, tensor<2xi64>)
    check.expect_eq_const %r#0, dense<[1, 2, 3, 4]> : tensor<4xi64>
    check.expect_eq_const %r#1, dense<[8, 16]> : tensor<2xi64>
    check.expect_eq_const %r#2, dense<[1, 2, 3, 4]> : tensor<4xi64>
    check.expect_eq_const %r#3, dense<[24, 32]> : tensor<2xi64>
    func.return
  }
}
