"""XLA:CPU through jaxlib, for peers.py:  peer_xla.py FOLDER --threads N

FOLDER holds module.mlir and inputs/NN.npy. The process first compiles a trivial program, so that start-up is not counted."""
import glob
import os
import sys
import time

threads = int(sys.argv[sys.argv.index('--threads') + 1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # before the runtime counts the cores
if threads == 1:
    os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' --xla_cpu_multi_thread_eigen=false'

import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
import ml_dtypes
from serve import say, serve

jax.config.update('jax_enable_x64', True)
TRIVIAL = 'func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n %y = stablehlo.add %x, %x : tensor<8xf32>\n return %y : tensor<8xf32>\n}'


def build(text):
    device = jax.devices()[0]
    options = compiler.get_compile_options(1, 1, np.array([device]).reshape(1, 1))
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        if 'sym_name' not in module.operation.attributes:
            module.operation.attributes['sym_name'] = ir.StringAttr.get('main')
        main = next(f for f in module.body.operations if f.operation.name == 'func.func' and f.name.value == 'main')
        types = [str(t) for t in main.type.inputs]
        wall, cpu = time.perf_counter(), time.process_time()
        done = device.client.compile_and_load(module, _jax.DeviceList((device,)), options)
        return done, types, time.perf_counter() - wall, time.process_time() - cpu


folder = sys.argv[1]
build(TRIVIAL)
with open(os.path.join(folder, 'module.mlir')) as f:
    text = f.read()
executable, types, wall, cpu = build(text)
temp = executable.get_compiled_memory_stats().temp_size_in_bytes
arrays = [np.load(p) for p in sorted(glob.glob(os.path.join(folder, 'inputs', '*.npy')), key=lambda p: int(os.path.basename(p)[:-4]))]
arrays = [a.view(ml_dtypes.bfloat16) if t.endswith('bf16>') else a for a, t in zip(arrays, types)]


def place():
    return jax.block_until_ready([jax.device_put(a) for a in arrays])


def run(buffers):
    out = executable.execute_sharded(buffers or kept).disassemble_into_single_device_arrays()
    return jax.block_until_ready(out)


kept = None if 'tf.aliasing_output' in text or 'jax.buffer_donor' in text else place()
say(compile_ms=1e3 * wall, compile_cpu_ms=1e3 * cpu, temp_mb=temp / 1e6)
serve(run, place if kept is None else lambda: None)
