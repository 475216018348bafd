func.func @main() {
  %a = stablehlo.constant dense<[4.0, 15.0]> : tensor<2xf32>
  %q = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>
  %s = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>
  %d = stablehlo.uniform_dequantize %s : (tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>) -> tensor<2xf32>
  return
}
