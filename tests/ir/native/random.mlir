// rng: every element type, each draw another one, in loops, branches, regions and manual computations, used or not.
module @every_type {
  func.func @main() {
    %s = stablehlo.constant dense<3> : tensor<1xi64>
    %s4 = stablehlo.constant dense<4> : tensor<1xi64>
    %s0 = stablehlo.constant dense<> : tensor<0xi64>
    %s23 = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
    %s2 = stablehlo.constant dense<[2]> : tensor<1xi64>
    %s5 = stablehlo.constant dense<[5]> : tensor<1xi64>
    %f0 = stablehlo.constant dense<-1.0> : tensor<f32>
    %f1 = stablehlo.constant dense<2.0> : tensor<f32>
    %0 = stablehlo.rng %f0, %f1, %s4, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
    %d0 = stablehlo.constant dense<1.0> : tensor<f64>
    %d1 = stablehlo.constant dense<0.5> : tensor<f64>
    %1 = stablehlo.rng %d0, %d1, %s23, distribution = NORMAL : (tensor<f64>, tensor<f64>, tensor<2xi64>) -> tensor<2x3xf64>
    %b0 = stablehlo.constant dense<1.0> : tensor<bf16>
    %b1 = stablehlo.constant dense<0.5> : tensor<bf16>
    %2 = stablehlo.rng %b0, %b1, %s, distribution = NORMAL : (tensor<bf16>, tensor<bf16>, tensor<1xi64>) -> tensor<3xbf16>
    %h0 = stablehlo.constant dense<1.0> : tensor<f16>
    %h1 = stablehlo.constant dense<9.5> : tensor<f16>
    %3 = stablehlo.rng %h0, %h1, %s, distribution = UNIFORM : (tensor<f16>, tensor<f16>, tensor<1xi64>) -> tensor<3xf16>
    %e0 = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
    %e1 = stablehlo.constant dense<4.0> : tensor<f8E4M3FN>
    %4 = stablehlo.rng %e0, %e1, %s, distribution = NORMAL : (tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<1xi64>) -> tensor<3xf8E4M3FN>
    %i0 = stablehlo.constant dense<-100> : tensor<i8>
    %i1 = stablehlo.constant dense<100> : tensor<i8>
    %5 = stablehlo.rng %i0, %i1, %s, distribution = UNIFORM : (tensor<i8>, tensor<i8>, tensor<1xi64>) -> tensor<3xi8>
    %j0 = stablehlo.constant dense<-8> : tensor<i4>
    %j1 = stablehlo.constant dense<7> : tensor<i4>
    %6 = stablehlo.rng %j0, %j1, %s5, distribution = UNIFORM : (tensor<i4>, tensor<i4>, tensor<1xi64>) -> tensor<5xi4>
    %u0 = stablehlo.constant dense<5> : tensor<ui64>
    %u1 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %7 = stablehlo.rng %u0, %u1, %s, distribution = UNIFORM : (tensor<ui64>, tensor<ui64>, tensor<1xi64>) -> tensor<3xui64>
    %l0 = stablehlo.constant dense<5> : tensor<i64>
    %l1 = stablehlo.constant dense<-5> : tensor<i64>
    %8 = stablehlo.rng %l0, %l1, %s2, distribution = UNIFORM : (tensor<i64>, tensor<i64>, tensor<1xi64>) -> tensor<2xi64>
    %p0 = stablehlo.constant dense<false> : tensor<i1>
    %p1 = stablehlo.constant dense<true> : tensor<i1>
    %9 = stablehlo.rng %p0, %p1, %s4, distribution = UNIFORM : (tensor<i1>, tensor<i1>, tensor<1xi64>) -> tensor<4xi1>
    %c0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
    %10 = stablehlo.rng %c0, %c0, %s2, distribution = UNIFORM : (tensor<complex<f32>>, tensor<complex<f32>>, tensor<1xi64>) -> tensor<2xcomplex<f32>>
    %11 = stablehlo.rng %f0, %f1, %s0, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<0xi64>) -> tensor<f32>
    %unused = stablehlo.rng %f0, %f1, %s4, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
    %12 = stablehlo.rng %f0, %f1, %s4, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
    check.expect_eq_const %0, dense<[1.64156055, 0.0862733498, -0.0416626967, 0.245321155]> : tensor<4xf32>
    check.expect_almost_eq_const %1, dense<[[0.744372955, 0.433687904, 1.56176742], [1.12869593, 1.37126311, 0.972691684]]> : tensor<2x3xf64>
    check.expect_eq_const %2, dense<[0.52734375, 0.63671875, 0.921875]> : tensor<3xbf16>
    check.expect_eq_const %3, dense<[1.99316406, 5.6875, 7.67578125]> : tensor<3xf16>
    check.expect_eq_const %4, dense<[6.0, 5.5, -8.0]> : tensor<3xf8E4M3FN>
    check.expect_eq_const %5, dense<[89, 20, -26]> : tensor<3xi8>
    check.expect_eq_const %6, dense<[-5, 0, -1, 6, -5]> : tensor<5xi4>
    check.expect_eq_const %7, dense<[4614494020605868600, 5447029065866186406, 155932412659770309]> : tensor<3xui64>
    check.expect_eq_const %8, dense<[5, 5]> : tensor<2xi64>
    check.expect_eq_const %9, dense<false> : tensor<4xi1>
    check.expect_eq_const %10, dense<(0.0, 0.0)> : tensor<2xcomplex<f32>>
    check.expect_eq_const %11, dense<1.87636018> : tensor<f32>
    check.expect_eq_const %12, dense<[0.0218953472, -0.576198876, 0.524822533, 1.42894661]> : tensor<4xf32>
    func.return
  }
}

// -----

// A draw of number n gives the n-th of these, wherever it stands: 356629 878448 416709 123959 312041 154589 952163 644397 390321.
module @loops_draw_anew {
  func.func @draw() -> tensor<i32> {
    %a = stablehlo.constant dense<0> : tensor<i32>
    %b = stablehlo.constant dense<1000000> : tensor<i32>
    %s = stablehlo.constant dense<> : tensor<0xi64>
    %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<0xi64>) -> tensor<i32>
    return %r : tensor<i32>
  }
  func.func @main() {
    %n = stablehlo.constant dense<0> : tensor<i64>
    %v = stablehlo.constant dense<0> : tensor<4xi32>
    %first = func.call @draw() : () -> tensor<i32>
    %r:2 = stablehlo.while(%i = %n, %w = %v) : tensor<i64>, tensor<4xi32>
     cond {
      %three = stablehlo.constant dense<3> : tensor<i64>
      %p = stablehlo.compare LT, %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %unused = func.call @draw() : () -> tensor<i32>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i64>
      %x = func.call @draw() : () -> tensor<i32>
      %y = stablehlo.reshape %x : (tensor<i32>) -> tensor<1xi32>
      %u = stablehlo.dynamic_update_slice %w, %y, %i : (tensor<4xi32>, tensor<1xi32>, tensor<i64>) -> tensor<4xi32>
      %j = stablehlo.add %i, %one : tensor<i64>
      stablehlo.return %j, %u : tensor<i64>, tensor<4xi32>
    }
    %last = func.call @draw() : () -> tensor<i32>
    check.expect_eq_const %first, dense<356629> : tensor<i32>
    check.expect_eq_const %r#1, dense<[416709, 312041, 952163, 0]> : tensor<4xi32>
    check.expect_eq_const %last, dense<390321> : tensor<i32>
    func.return
  }
}

// -----

// Of a branch only what runs counts; a loop and a branch whose results nobody uses run.
module @branches {
  func.func @draw() -> tensor<i32> {
    %a = stablehlo.constant dense<0> : tensor<i32>
    %b = stablehlo.constant dense<1000000> : tensor<i32>
    %s = stablehlo.constant dense<> : tensor<0xi64>
    %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<0xi64>) -> tensor<i32>
    return %r : tensor<i32>
  }
  func.func @main() {
    %k = stablehlo.constant dense<1> : tensor<i32>
    %true = stablehlo.constant dense<true> : tensor<i1>
    %0 = "stablehlo.case"(%k) ({
      %x = func.call @draw() : () -> tensor<i32>
      %y = func.call @draw() : () -> tensor<i32>
      stablehlo.return %y : tensor<i32>
    }, {
      %x = func.call @draw() : () -> tensor<i32>
      %y = stablehlo.negate %x : tensor<i32>
      stablehlo.return %y : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %unused = "stablehlo.if"(%true) ({
      %x = func.call @draw() : () -> tensor<i32>
      stablehlo.return %x : tensor<i32>
    }, {
      stablehlo.return %k : tensor<i32>
    }) : (tensor<i1>) -> tensor<i32>
    %1 = func.call @draw() : () -> tensor<i32>
    check.expect_eq_const %0, dense<-356629> : tensor<i32>
    check.expect_eq_const %1, dense<416709> : tensor<i32>
    func.return
  }
}

// -----

// A region of elements draws for each of them, though it is a sum to whoever looks at its result alone.
module @regions_of_elements {
  func.func @draw() -> tensor<i32> {
    %a = stablehlo.constant dense<0> : tensor<i32>
    %b = stablehlo.constant dense<1000000> : tensor<i32>
    %s = stablehlo.constant dense<> : tensor<0xi64>
    %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<0xi64>) -> tensor<i32>
    return %r : tensor<i32>
  }
  func.func @main() {
    %v = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
    %0 = "stablehlo.map"(%v) <{dimensions = array<i64: 0>}> ({
      ^bb0(%a: tensor<i32>):
        %x = func.call @draw() : () -> tensor<i32>
        %y = stablehlo.add %a, %x : tensor<i32>
        stablehlo.return %y : tensor<i32>
    }) : (tensor<3xi32>) -> tensor<3xi32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %1 = "stablehlo.reduce"(%v, %zero) <{dimensions = array<i64: 0>}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %x = func.call @draw() : () -> tensor<i32>
        %y = stablehlo.add %a, %b : tensor<i32>
        stablehlo.return %y : tensor<i32>
    }) : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
    %2 = func.call @draw() : () -> tensor<i32>
    check.expect_eq_const %0, dense<[356630, 878450, 416712]> : tensor<3xi32>
    check.expect_eq_const %1, dense<6> : tensor<i32>
    check.expect_eq_const %2, dense<952163> : tensor<i32>
    func.return
  }
}

// -----

// Each device of a mesh counts its draws on from those before it, whichever is faster: here the second draws three times. Then their largest count holds.
module @devices {
  sdy.mesh @two = <["x"=2]>
  func.func @draw() -> tensor<i32> {
    %a = stablehlo.constant dense<0> : tensor<i32>
    %b = stablehlo.constant dense<1000000> : tensor<i32>
    %s = stablehlo.constant dense<> : tensor<0xi64>
    %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<0xi64>) -> tensor<i32>
    return %r : tensor<i32>
  }
  func.func @main() {
    %v = stablehlo.constant dense<[0, 0]> : tensor<2xi32>
    %0 = func.call @draw() : () -> tensor<i32>
    %u = sdy.manual_computation(%v) in_shardings=[<@two, [{"x"}]>] out_shardings=[<@two, [{"x"}]>] manual_axes={"x"} (%p: tensor<1xi32>) {
      %x = func.call @draw() : () -> tensor<i32>
      %id = stablehlo.partition_id : tensor<ui32>
      %which = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
      %z = "stablehlo.case"(%which) ({
        stablehlo.return %x : tensor<i32>
      }, {
        %a = func.call @draw() : () -> tensor<i32>
        %b = func.call @draw() : () -> tensor<i32>
        stablehlo.return %b : tensor<i32>
      }) : (tensor<i32>) -> tensor<i32>
      %y = stablehlo.reshape %z : (tensor<i32>) -> tensor<1xi32>
      sdy.return %y : tensor<1xi32>
    } : (tensor<2xi32>) -> tensor<2xi32>
    %1 = func.call @draw() : () -> tensor<i32>
    check.expect_eq_const %0, dense<356629> : tensor<i32>
    check.expect_eq_const %u, dense<[878448, 514536]> : tensor<2xi32>
    check.expect_eq_const %1, dense<312041> : tensor<i32>
    func.return
  }
}
