// Products that are large enough for blocks and tiles: complex numbers against the products of their parts, integers of each width against f64, which
// holds them exactly, and what wraps around.

func.func @complex_numbers() {
  %i = stablehlo.iota dim = 0 : tensor<3000xf32>
  %s = stablehlo.sine %i : tensor<3000xf32>
  %c = stablehlo.cosine %i : tensor<3000xf32>
  %ar0 = stablehlo.slice %s [0:800] : (tensor<3000xf32>) -> tensor<800xf32>
  %ai0 = stablehlo.slice %c [0:800] : (tensor<3000xf32>) -> tensor<800xf32>
  %br0 = stablehlo.slice %s [1000:2480] : (tensor<3000xf32>) -> tensor<1480xf32>
  %bi0 = stablehlo.slice %c [1000:2480] : (tensor<3000xf32>) -> tensor<1480xf32>
  %ar = stablehlo.reshape %ar0 : (tensor<800xf32>) -> tensor<20x40xf32>
  %ai = stablehlo.reshape %ai0 : (tensor<800xf32>) -> tensor<20x40xf32>
  %br = stablehlo.reshape %br0 : (tensor<1480xf32>) -> tensor<37x40xf32>
  %bi = stablehlo.reshape %bi0 : (tensor<1480xf32>) -> tensor<37x40xf32>
  %a = stablehlo.complex %ar, %ai : tensor<20x40xcomplex<f32>>
  %b = stablehlo.complex %br, %bi : tensor<37x40xcomplex<f32>>
  %p = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<20x40xcomplex<f32>>, tensor<37x40xcomplex<f32>>) -> tensor<20x37xcomplex<f32>>
  %rr = stablehlo.dot_general %ar, %br, contracting_dims = [1] x [1] : (tensor<20x40xf32>, tensor<37x40xf32>) -> tensor<20x37xf32>
  %ii = stablehlo.dot_general %ai, %bi, contracting_dims = [1] x [1] : (tensor<20x40xf32>, tensor<37x40xf32>) -> tensor<20x37xf32>
  %ri = stablehlo.dot_general %ar, %bi, contracting_dims = [1] x [1] : (tensor<20x40xf32>, tensor<37x40xf32>) -> tensor<20x37xf32>
  %ir = stablehlo.dot_general %ai, %br, contracting_dims = [1] x [1] : (tensor<20x40xf32>, tensor<37x40xf32>) -> tensor<20x37xf32>
  %re = stablehlo.subtract %rr, %ii : tensor<20x37xf32>
  %im = stablehlo.add %ri, %ir : tensor<20x37xf32>
  %want = stablehlo.complex %re, %im : tensor<20x37xcomplex<f32>>
  check.expect_almost_eq %p, %want : tensor<20x37xcomplex<f32>>
  %q = stablehlo.dot_general %b, %a, contracting_dims = [1] x [1] : (tensor<37x40xcomplex<f32>>, tensor<20x40xcomplex<f32>>) -> tensor<37x20xcomplex<f32>>
  %turned = stablehlo.transpose %q, dims = [1, 0] : (tensor<37x20xcomplex<f32>>) -> tensor<20x37xcomplex<f32>>
  check.expect_almost_eq %turned, %want : tensor<20x37xcomplex<f32>>
  return
}

func.func @complex_numbers_of_f64_in_batches() {
  %a = stablehlo.iota dim = 2 : tensor<3x9x16xf64>
  %z = stablehlo.constant dense<0.5> : tensor<3x9x16xf64>
  %ca = stablehlo.complex %z, %a : tensor<3x9x16xcomplex<f64>>
  %b = stablehlo.iota dim = 0 : tensor<3x16x11xf64>
  %y = stablehlo.constant dense<-2.0> : tensor<3x16x11xf64>
  %cb = stablehlo.complex %b, %y : tensor<3x16x11xcomplex<f64>>
  %p = stablehlo.dot_general %ca, %cb, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x9x16xcomplex<f64>>, tensor<3x16x11xcomplex<f64>>) -> tensor<3x9x11xcomplex<f64>>
  // Of 16 terms (0.5 + ki)(b - 2i) = (0.5 b + 2k) + (kb - 1)i: 8 b + 240 and 120 b - 16.
  %n = stablehlo.iota dim = 0 : tensor<3x9x11xf64>
  %c8 = stablehlo.constant dense<8.0> : tensor<3x9x11xf64>
  %c240 = stablehlo.constant dense<240.0> : tensor<3x9x11xf64>
  %c120 = stablehlo.constant dense<120.0> : tensor<3x9x11xf64>
  %c16 = stablehlo.constant dense<16.0> : tensor<3x9x11xf64>
  %r0 = stablehlo.multiply %n, %c8 : tensor<3x9x11xf64>
  %re = stablehlo.add %r0, %c240 : tensor<3x9x11xf64>
  %i0 = stablehlo.multiply %n, %c120 : tensor<3x9x11xf64>
  %im = stablehlo.subtract %i0, %c16 : tensor<3x9x11xf64>
  %want = stablehlo.complex %re, %im : tensor<3x9x11xcomplex<f64>>
  check.expect_eq %p, %want : tensor<3x9x11xcomplex<f64>>
  return
}

func.func @integers() {
  %i = stablehlo.iota dim = 0 : tensor<1200xi64>
  %k = stablehlo.constant dense<7919> : tensor<1200xi64>
  %m = stablehlo.multiply %i, %k : tensor<1200xi64>
  %d = stablehlo.constant dense<251> : tensor<1200xi64>
  %r = stablehlo.remainder %m, %d : tensor<1200xi64>
  %h = stablehlo.constant dense<125> : tensor<1200xi64>
  %v = stablehlo.subtract %r, %h : tensor<1200xi64>
  %a64 = stablehlo.reshape %v : (tensor<1200xi64>) -> tensor<30x40xi64>
  %f = stablehlo.convert %a64 : (tensor<30x40xi64>) -> tensor<30x40xf64>
  %pf = stablehlo.dot_general %f, %f, contracting_dims = [1] x [1] : (tensor<30x40xf64>, tensor<30x40xf64>) -> tensor<30x30xf64>
  %a8 = stablehlo.convert %a64 : (tensor<30x40xi64>) -> tensor<30x40xi8>
  %p32 = stablehlo.dot_general %a8, %a8, contracting_dims = [1] x [1] : (tensor<30x40xi8>, tensor<30x40xi8>) -> tensor<30x30xi32>
  %p32f = stablehlo.convert %p32 : (tensor<30x30xi32>) -> tensor<30x30xf64>
  check.expect_eq %p32f, %pf : tensor<30x30xf64>
  %p64 = stablehlo.dot_general %a64, %a64, contracting_dims = [1] x [1] : (tensor<30x40xi64>, tensor<30x40xi64>) -> tensor<30x30xi64>
  %p64f = stablehlo.convert %p64 : (tensor<30x30xi64>) -> tensor<30x30xf64>
  check.expect_eq %p64f, %pf : tensor<30x30xf64>
  %p8 = stablehlo.dot_general %a8, %a8, contracting_dims = [1] x [1] : (tensor<30x40xi8>, tensor<30x40xi8>) -> tensor<30x30xi8>
  %low = stablehlo.convert %p32 : (tensor<30x30xi32>) -> tensor<30x30xi8>
  check.expect_eq %p8, %low : tensor<30x30xi8>
  %a16 = stablehlo.convert %a64 : (tensor<30x40xi64>) -> tensor<30x40xui16>
  %p16 = stablehlo.dot_general %a16, %a16, contracting_dims = [1] x [1] : (tensor<30x40xui16>, tensor<30x40xui16>) -> tensor<30x30xui16>
  %low16 = stablehlo.convert %p32 : (tensor<30x30xi32>) -> tensor<30x30xui16>
  check.expect_eq %p16, %low16 : tensor<30x30xui16>
  return
}

func.func @truth_values() {
  %i = stablehlo.iota dim = 0 : tensor<60x50xi32>
  %j = stablehlo.iota dim = 1 : tensor<60x50xi32>
  %a = stablehlo.compare EQ, %i, %j : (tensor<60x50xi32>, tensor<60x50xi32>) -> tensor<60x50xi1>
  %t = stablehlo.constant dense<true> : tensor<50x4xi1>
  %p = stablehlo.dot_general %a, %t, contracting_dims = [1] x [0] : (tensor<60x50xi1>, tensor<50x4xi1>) -> tensor<60x4xi1>
  %row = stablehlo.iota dim = 0 : tensor<60x4xi32>
  %n = stablehlo.constant dense<50> : tensor<60x4xi32>
  %want = stablehlo.compare LT, %row, %n : (tensor<60x4xi32>, tensor<60x4xi32>) -> tensor<60x4xi1>
  check.expect_eq %p, %want : tensor<60x4xi1>
  return
}
