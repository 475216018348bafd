module @transformer_block_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256xf32>, %arg1: tensor<64x256xf32>, %arg2: tensor<64xf32>, %arg3: tensor<64xf32>, %arg4: tensor<64xf32>, %arg5: tensor<64xf32>, %arg6: tensor<64xf32>, %arg7: tensor<256x64xf32>, %arg8: tensor<64xf32>, %arg9: tensor<64x64xf32>, %arg10: tensor<192xf32>, %arg11: tensor<64x192xf32>, %arg12: tensor<2x32x64xbf16>) -> (tensor<2x32x64xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg12 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<2x32x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<2x32x64xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<2x32x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<2x32x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %13 = stablehlo.add %11, %12 : tensor<2x32x1xf32>
    %14 = stablehlo.rsqrt %13 : tensor<2x32x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %16 = stablehlo.multiply %6, %15 : tensor<2x32x64xf32>
    %17 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x32x64xf32>
    %19 = stablehlo.multiply %16, %18 : tensor<2x32x64xf32>
    %20 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x32x64xf32>
    %22 = stablehlo.add %19, %21 : tensor<2x32x64xf32>
    %23 = stablehlo.convert %22 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %24 = stablehlo.convert %arg11 : (tensor<64x192xf32>) -> tensor<64x192xbf16>
    %25 = stablehlo.dot_general %23, %24, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x192xbf16>) -> tensor<2x32x192xbf16>
    %26 = stablehlo.convert %arg10 : (tensor<192xf32>) -> tensor<192xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [2] : (tensor<192xbf16>) -> tensor<1x1x192xbf16>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<1x1x192xbf16>) -> tensor<2x32x192xbf16>
    %29 = stablehlo.add %25, %28 : tensor<2x32x192xbf16>
    %30 = stablehlo.slice %29 [0:2, 0:32, 0:64] : (tensor<2x32x192xbf16>) -> tensor<2x32x64xbf16>
    %31 = stablehlo.slice %29 [0:2, 0:32, 64:128] : (tensor<2x32x192xbf16>) -> tensor<2x32x64xbf16>
    %32 = stablehlo.slice %29 [0:2, 0:32, 128:192] : (tensor<2x32x192xbf16>) -> tensor<2x32x64xbf16>
    %33 = stablehlo.reshape %30 : (tensor<2x32x64xbf16>) -> tensor<2x32x4x16xbf16>
    %34 = stablehlo.transpose %33, dims = [0, 2, 1, 3] : (tensor<2x32x4x16xbf16>) -> tensor<2x4x32x16xbf16>
    %35 = stablehlo.reshape %31 : (tensor<2x32x64xbf16>) -> tensor<2x32x4x16xbf16>
    %36 = stablehlo.transpose %35, dims = [0, 2, 1, 3] : (tensor<2x32x4x16xbf16>) -> tensor<2x4x32x16xbf16>
    %37 = stablehlo.reshape %32 : (tensor<2x32x64xbf16>) -> tensor<2x32x4x16xbf16>
    %38 = stablehlo.transpose %37, dims = [0, 2, 1, 3] : (tensor<2x32x4x16xbf16>) -> tensor<2x4x32x16xbf16>
    %39 = stablehlo.transpose %36, dims = [0, 1, 3, 2] : (tensor<2x4x32x16xbf16>) -> tensor<2x4x16x32xbf16>
    %40 = stablehlo.dot_general %34, %39, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x32x16xbf16>, tensor<2x4x16x32xbf16>) -> tensor<2x4x32x32xbf16>
    %41 = stablehlo.convert %40 : (tensor<2x4x32x32xbf16>) -> tensor<2x4x32x32xf32>
    %cst_4 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %43 = stablehlo.multiply %41, %42 : tensor<2x4x32x32xf32>
    %44 = stablehlo.iota dim = 0 : tensor<32xi32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0] : (tensor<32xi32>) -> tensor<32x1xi32>
    %46 = stablehlo.broadcast_in_dim %44, dims = [1] : (tensor<32xi32>) -> tensor<1x32xi32>
    %47 = stablehlo.broadcast_in_dim %45, dims = [0, 1] : (tensor<32x1xi32>) -> tensor<32x32xi32>
    %48 = stablehlo.broadcast_in_dim %46, dims = [0, 1] : (tensor<1x32xi32>) -> tensor<32x32xi32>
    %49 = stablehlo.compare GE, %47, %48, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = call @_where(%49, %43, %cst_5) : (tensor<32x32xi1>, tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32x32xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %51 = stablehlo.reduce(%50 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %54 = stablehlo.subtract %50, %53 : tensor<2x4x32x32xf32>
    %55 = stablehlo.exponential %54 : tensor<2x4x32x32xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.reduce(%55 init: %cst_7) applies stablehlo.add across dimensions = [3] : (tensor<2x4x32x32xf32>, tensor<f32>) -> tensor<2x4x32xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2] : (tensor<2x4x32xf32>) -> tensor<2x4x32x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2, 3] : (tensor<2x4x32x1xf32>) -> tensor<2x4x32x32xf32>
    %59 = stablehlo.divide %55, %58 : tensor<2x4x32x32xf32>
    %60 = stablehlo.convert %59 : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xbf16>
    %61 = stablehlo.dot_general %60, %38, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x32x32xbf16>, tensor<2x4x32x16xbf16>) -> tensor<2x4x32x16xbf16>
    %62 = stablehlo.transpose %61, dims = [0, 2, 1, 3] : (tensor<2x4x32x16xbf16>) -> tensor<2x32x4x16xbf16>
    %63 = stablehlo.reshape %62 : (tensor<2x32x4x16xbf16>) -> tensor<2x32x64xbf16>
    %64 = stablehlo.convert %arg9 : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %65 = stablehlo.dot_general %63, %64, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x64xbf16>) -> tensor<2x32x64xbf16>
    %66 = stablehlo.convert %arg8 : (tensor<64xf32>) -> tensor<64xbf16>
    %67 = stablehlo.broadcast_in_dim %66, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %69 = stablehlo.add %65, %68 : tensor<2x32x64xbf16>
    %70 = stablehlo.add %arg12, %69 : tensor<2x32x64xbf16>
    %71 = stablehlo.convert %70 : (tensor<2x32x64xbf16>) -> tensor<2x32x64xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_9 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %75 = stablehlo.divide %73, %74 : tensor<2x32x1xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %77 = stablehlo.subtract %71, %76 : tensor<2x32x64xf32>
    %78 = stablehlo.multiply %77, %77 : tensor<2x32x64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %79 = stablehlo.reduce(%78 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<2x32xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1] : (tensor<2x32xf32>) -> tensor<2x32x1xf32>
    %cst_11 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %82 = stablehlo.divide %80, %81 : tensor<2x32x1xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x32x1xf32>
    %84 = stablehlo.add %82, %83 : tensor<2x32x1xf32>
    %85 = stablehlo.rsqrt %84 : tensor<2x32x1xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<2x32x1xf32>) -> tensor<2x32x64xf32>
    %87 = stablehlo.multiply %77, %86 : tensor<2x32x64xf32>
    %88 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x32x64xf32>
    %90 = stablehlo.multiply %87, %89 : tensor<2x32x64xf32>
    %91 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x32x64xf32>
    %93 = stablehlo.add %90, %92 : tensor<2x32x64xf32>
    %94 = stablehlo.convert %93 : (tensor<2x32x64xf32>) -> tensor<2x32x64xbf16>
    %95 = stablehlo.convert %arg1 : (tensor<64x256xf32>) -> tensor<64x256xbf16>
    %96 = stablehlo.dot_general %94, %95, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x64xbf16>, tensor<64x256xbf16>) -> tensor<2x32x256xbf16>
    %97 = stablehlo.convert %arg0 : (tensor<256xf32>) -> tensor<256xbf16>
    %98 = stablehlo.broadcast_in_dim %97, dims = [2] : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x32x256xbf16>
    %100 = stablehlo.add %96, %99 : tensor<2x32x256xbf16>
    %cst_13 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %101 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %102 = stablehlo.multiply %101, %100 : tensor<2x32x256xbf16>
    %cst_14 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %103 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %104 = stablehlo.multiply %103, %100 : tensor<2x32x256xbf16>
    %105 = stablehlo.multiply %104, %100 : tensor<2x32x256xbf16>
    %106 = stablehlo.multiply %105, %100 : tensor<2x32x256xbf16>
    %107 = stablehlo.add %100, %106 : tensor<2x32x256xbf16>
    %cst_15 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %108 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %109 = stablehlo.multiply %108, %107 : tensor<2x32x256xbf16>
    %110 = stablehlo.tanh %109 : tensor<2x32x256xbf16>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %111 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<2x32x256xbf16>
    %112 = stablehlo.add %111, %110 : tensor<2x32x256xbf16>
    %113 = stablehlo.multiply %102, %112 : tensor<2x32x256xbf16>
    %114 = stablehlo.convert %arg7 : (tensor<256x64xf32>) -> tensor<256x64xbf16>
    %115 = stablehlo.dot_general %113, %114, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x32x256xbf16>, tensor<256x64xbf16>) -> tensor<2x32x64xbf16>
    %116 = stablehlo.convert %arg6 : (tensor<64xf32>) -> tensor<64xbf16>
    %117 = stablehlo.broadcast_in_dim %116, dims = [2] : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x32x64xbf16>
    %119 = stablehlo.add %115, %118 : tensor<2x32x64xbf16>
    %120 = stablehlo.add %70, %119 : tensor<2x32x64xbf16>
    return %120 : tensor<2x32x64xbf16>
  }
  func.func private @_where(%arg0: tensor<32x32xi1>, %arg1: tensor<2x4x32x32xf32>, %arg2: tensor<f32>) -> tensor<2x4x32x32xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<32x32xi1>) -> tensor<2x4x32x32xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x32x32xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x32x32xi1>, tensor<2x4x32x32xf32>
    return %3 : tensor<2x4x32x32xf32>
  }
}
