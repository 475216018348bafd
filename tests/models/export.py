#!/usr/bin/env python3
"""Exports the models of this folder anew: StableHLO as JAX prints it, inputs, and the numbers that XLA computes.

    python3 -m venv V && V/bin/pip install jax==0.10.2
    V/bin/python tests/models/export.py [NAME...]

Widths are small, structure and operations are those of the real thing; weights come from fixed seeds and are arguments. Each
folder holds module.mlir, inputs/NN.npy in the order of the arguments, expected/NN.npy and manifest.json with the tolerance
|actual - expected| <= rtol * |expected| + atol. Only operations of the first tier are used (matrix products, element-wise,
reductions, shapes), so that every device can run them.
"""
import argparse
import hashlib
import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent
DTYPES = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "bool": "i1"}
RTOL, ATOL = {"f32": 1e-4, "bf16": 2.0**-5}, {"f32": 1e-5, "bf16": 2.0**-5}  # atol: times the largest magnitude


def dense(rng, fan_in, fan_out):
    return {"w": rng.normal(0, fan_in**-0.5, (fan_in, fan_out)).astype(np.float32),
            "b": rng.normal(0, 0.1, (fan_out,)).astype(np.float32)}


def apply(layer, x):
    return x @ layer["w"].astype(x.dtype) + layer["b"].astype(x.dtype)


def layer_norm(p, x):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mlp(rng):
    """Three dense layers with ReLU, class probabilities."""
    sizes = (96, 128, 64, 10)
    params = [dense(rng, a, b) for a, b in zip(sizes, sizes[1:])]
    x = rng.normal(size=(32, sizes[0])).astype(np.float32)

    def forward(params, x):
        for layer in params[:-1]:
            x = jnp.maximum(apply(layer, x), 0)
        return softmax(apply(params[-1], x))

    return forward, (params, x)


def transformer_block(rng, dtype=jnp.float32):
    """One pre-norm transformer block: causal attention with four heads, GELU MLP."""
    width, heads, length, batch = 64, 4, 32, 2

    def norm():
        return {"scale": rng.normal(1, 0.1, width).astype(np.float32), "bias": rng.normal(0, 0.1, width).astype(np.float32)}

    params = {"ln_1": norm(), "qkv": dense(rng, width, 3 * width), "proj": dense(rng, width, width), "ln_2": norm(),
              "fc": dense(rng, width, 4 * width), "out": dense(rng, 4 * width, width)}
    x = jnp.asarray(rng.normal(size=(batch, length, width)), dtype)

    def forward(p, x):
        h = layer_norm(p["ln_1"], x.astype(jnp.float32)).astype(x.dtype)
        q, k, v = jnp.split(apply(p["qkv"], h), 3, axis=-1)
        q, k, v = (t.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = (q @ k.transpose(0, 1, 3, 2)).astype(jnp.float32) * (width // heads)**-0.5
        position = jnp.arange(length)
        scores = jnp.where(position[:, None] >= position[None, :], scores, -jnp.inf)
        mixed = (softmax(scores).astype(x.dtype) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
        x = x + apply(p["proj"], mixed)
        h = layer_norm(p["ln_2"], x.astype(jnp.float32)).astype(x.dtype)
        return x + apply(p["out"], gelu(apply(p["fc"], h)))

    return forward, (params, x)


def transformer_block_bf16(rng):
    """The same block in bfloat16; norms and softmax in float32."""
    return transformer_block(rng, jnp.bfloat16)


MODELS = {f.__name__: f for f in (mlp, transformer_block, transformer_block_bf16)}


def names(tree):
    return ["".join(str(getattr(k, "key", getattr(k, "idx", k))) + "." for k in path).rstrip(".")
            for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def save(folder, kind, index, array):
    array = np.asarray(array)
    dtype = DTYPES[array.dtype.name]
    stored = array.view(np.uint16) if dtype == "bf16" else array
    file = f"{kind}/{index:02}.npy"
    (folder / kind).mkdir(parents=True, exist_ok=True)
    np.save(folder / file, stored)
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    row = {"dtype": dtype, "shape": list(array.shape), "file": file, "sha256": digest}
    if dtype == "bf16":
        row["stored_as"] = "ui16"
    return row


def export(name):
    make = MODELS[name]
    function, arguments = make(np.random.default_rng(sum(map(ord, name))))
    folder = ROOT / name
    lowered = jax.jit(function).lower(*arguments)
    text = re.sub(r"\bmodule @\S+", f"module @{name}", lowered.as_text(), count=1)
    folder.mkdir(exist_ok=True)
    (folder / "module.mlir").write_text(text)
    inputs = [save(folder, "inputs", i, a) for i, a in enumerate(jax.tree_util.tree_leaves(arguments))]
    for row, label in zip(inputs, names(arguments)):
        row["name"] = label
    result = lowered.compile()(*arguments)
    outputs = []
    for i, array in enumerate(jax.tree_util.tree_leaves(result)):
        row = save(folder, "expected", i, array)
        wide = np.asarray(array, np.float64)
        row.update(name=f"out.{i}" if i else "out", rtol=RTOL[row["dtype"]], atol=float(f"{ATOL[row['dtype']] * np.abs(wide).max():.3g}"))
        outputs.append(row)
    manifest = {"name": name, "about": " ".join(make.__doc__.split()), "made_with": {"jax": jax.__version__, "numpy": np.__version__},
                "num_replicas": 1, "num_partitions": 1, "ops": {}, "inputs": inputs, "outputs": outputs}
    for op in re.findall(r"\b((?:stablehlo|chlo)\.\w+)", text):
        manifest["ops"][op] = manifest["ops"].get(op, 0) + 1
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{name}: {len(inputs)} inputs, {len(text)} bytes of StableHLO, {sum(manifest['ops'].values())} operations: {' '.join(sorted(manifest['ops']))}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("name", nargs="*", help=f"of {' '.join(MODELS)}; none: all of them")
names = parser.parse_args().name
for wanted in names:
    if wanted not in MODELS:
        parser.error(f"there is no model {wanted}")
for wanted in names or MODELS:
    export(wanted)
