"""Programs in JAX, for bench_compile.py, bench_run.py and bench_ops.py; needs only jax. `programs_torch.py` has the same ones.

    programs_jax.py FOLDER NAME...     writes FOLDER/NAME/module.mlir and inputs/NN.npy
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MODELS, OPS = {}, {}


def model(f):
    MODELS[f.__name__] = f
    return f


def normal(rng, *shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


# ------------------------------------------------------------------------------------------------------- whole models

def adamw(params, grads, m, v, count, rate=1e-3, decay=0.01):
    count = count + 1
    c1, c2 = 1 - 0.9 ** count.astype(jnp.float32), 1 - 0.999 ** count.astype(jnp.float32)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    params = jax.tree.map(lambda p, m, v: p - rate * (m / c1 / (jnp.sqrt(v / c2) + 1e-8) + decay * p), params, m, v)
    return params, m, v, count


def attention(q, k, v, causal):
    scores = jnp.einsum('bqhd,bkhd->bhqk', q, k) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum('bhqk,bkhd->bqhd', jax.nn.softmax(scores), v)


def rope(x):
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], axis=-1)


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


@model
def llama_train_step(rng, layers=12, dim=256, heads=4, hidden=688, vocab=8192, batch=4, time=128):
    """Llama, 12 layers of width 256: rotary positions, RMS norm, SwiGLU; loss, gradients, AdamW."""
    dense = lambda i, o: normal(rng, i, o, scale=i ** -0.5)
    params = {'embed': normal(rng, vocab, dim, scale=0.5), 'head': dense(dim, vocab), 'norm': np.ones(dim, np.float32),
              'layers': [{'wq': dense(dim, dim), 'wk': dense(dim, dim), 'wv': dense(dim, dim), 'wo': dense(dim, dim), 'gate': dense(dim, hidden),
                          'up': dense(dim, hidden), 'down': dense(hidden, dim), 'n1': np.ones(dim, np.float32), 'n2': np.ones(dim, np.float32)}
                         for _ in range(layers)]}

    def loss_fn(params, tokens, targets):
        x = params['embed'][tokens]
        for p in params['layers']:
            h = rms_norm(x, p['n1'])
            q, k, v = ((h @ w).reshape(batch, time, heads, -1) for w in (p['wq'], p['wk'], p['wv']))
            x = x + attention(rope(q), rope(k), v, True).reshape(x.shape) @ p['wo']
            h = rms_norm(x, p['n2'])
            x = x + (jax.nn.silu(h @ p['gate']) * (h @ p['up'])) @ p['down']
        logp = jax.nn.log_softmax(rms_norm(x, params['norm']) @ params['head'])
        return -jnp.take_along_axis(logp, targets[..., None], -1).mean()

    def step(params, m, v, count, tokens, targets):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
        return *adamw(params, grads, m, v, count), loss
    tokens = rng.integers(0, vocab, (batch, time + 1), np.int32)
    m = jax.tree.map(lambda p: normal(rng, *p.shape, scale=0.01), params)
    v = jax.tree.map(lambda p: rng.uniform(1e-3, 2e-3, p.shape).astype(np.float32), params)
    return step, (params, m, v, np.int32(10), tokens[:, :-1], tokens[:, 1:])


@model
def vit_b_fwd(rng, layers=12, dim=768, heads=12, batch=4, size=224, patch=16, classes=1000):
    """ViT-B/16, forward."""
    dense = lambda i, o: {'w': normal(rng, i, o, scale=i ** -0.5), 'b': normal(rng, o, scale=0.1)}
    norm = lambda: {'s': np.ones(dim, np.float32), 'b': np.zeros(dim, np.float32)}
    n = (size // patch) ** 2
    params = {'patch': normal(rng, patch, patch, 3, dim, scale=0.03), 'patch_b': normal(rng, dim, scale=0.1), 'token': normal(rng, 1, 1, dim), 'pos': normal(rng, 1, n + 1, dim),
              'layers': [{'n1': norm(), 'qkv': dense(dim, 3 * dim), 'proj': dense(dim, dim), 'n2': norm(), 'fc': dense(dim, 4 * dim), 'out': dense(4 * dim, dim)}
                         for _ in range(layers)], 'norm': norm(), 'head': dense(dim, classes)}
    apply = lambda p, x: x @ p['w'] + p['b']

    def layer_norm(p, x):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-6) * p['s'] + p['b']

    def forward(params, images):
        x = lax.conv_general_dilated(images, params['patch'], (patch, patch), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC')) + params['patch_b']
        x = x.reshape(batch, n, dim)
        x = jnp.concatenate([jnp.tile(params['token'], (batch, 1, 1)), x], axis=1) + params['pos']
        for p in params['layers']:
            q, k, v = (t.reshape(batch, n + 1, heads, -1) for t in jnp.split(apply(p['qkv'], layer_norm(p['n1'], x)), 3, axis=-1))
            x = x + apply(p['proj'], attention(q, k, v, False).reshape(x.shape))
            x = x + apply(p['out'], jax.nn.gelu(apply(p['fc'], layer_norm(p['n2'], x)), approximate=False))
        return apply(params['head'], layer_norm(params['norm'], x[:, 0]))
    return forward, (params, normal(rng, batch, size, size, 3))


# --------------------------------------------------------------------------------------------------- single operations

def op(name, f, *shapes, ints=None):
    OPS[name] = lambda rng: (f, tuple(rng.integers(0, ints, s[1:], np.int32) if s and s[0] == 'i' else normal(rng, *s) for s in shapes))


def layer_norm_op(x, s, b):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * s + b


def conv(stride, pad):
    return lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=('NHWC', 'HWIO', 'NHWC'))


def conv_grads(stride, pad):
    def f(x, w, g):
        return jax.vjp(conv(stride, pad), x, w)[1](g)
    return f


op('gelu', lambda x, b, s: jax.nn.gelu(x + b) * s, (512, 3072), (3072,), (3072,))
op('layer_norm', layer_norm_op, (512, 768), (768,), (768,))
op('softmax', jax.nn.softmax, (6144, 128))
op('softmax_50257', jax.nn.softmax, (128, 50257))
op('column_sum', lambda x: x.sum(0), (512, 3072))
op('adamw', lambda p, g, m, v: adamw(p, g, m, jnp.square(v), jnp.int32(10))[:3], *[(2304, 1024)] * 4)
PRODUCTS = [(512, 768, 768, ''), (512, 3072, 768, ''), (512, 768, 3072, ''), (512, 768, 3072, 'bt'), (768, 3072, 512, 'at'), (512, 256, 256, ''), (512, 1024, 256, ''),
            (256, 1024, 512, 'at'), (8192, 256, 512, 'at'), (784, 768, 768, ''), (1024, 1024, 1024, ''), (64, 64, 64, ''), (32, 32, 32, ''), (8, 768, 768, ''), (1, 768, 768, '')]
for m, n, k, how in PRODUCTS:
    op(f'product_{m}x{n}x{k}{how}', {'': lambda a, b: a @ b, 'bt': lambda a, b: a @ b.T, 'at': lambda a, b: a.T @ b}[how], (k, m) if how == 'at' else (m, k), (n, k) if how == 'bt' else (k, n))
op('product_48x128x128x64bt', lambda a, b: jnp.einsum('bqd,bkd->bqk', a, b), (48, 128, 64), (48, 128, 64))
CONVOLUTIONS = [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (56, 64, 128, 3, 2), (56, 64, 256, 1, 1), (224, 3, 768, 16, 16), (224, 3, 64, 7, 2)]
for size, ci, co, kernel, stride in CONVOLUTIONS:
    p = 'VALID' if kernel == 16 else [(kernel // 2, kernel // 2)] * 2
    o = (size + (0 if kernel == 16 else 2 * (kernel // 2)) - kernel) // stride + 1
    tag = f'conv_{size}x{size}_{ci}_{co}_{kernel}x{kernel}_{stride}'
    op(tag, conv(stride, p), (4, size, size, ci), (kernel, kernel, ci, co))
    op(tag + '_grads', conv_grads(stride, p), (4, size, size, ci), (kernel, kernel, ci, co), (4, o, o, co))
for t in (128, 512, 1024, 4096):
    op(f'attention_{t}', lambda q, k, v: attention(q, k, v, True), *[(1, t, 8, 64)] * 3)
op('embedding_gradient', lambda i, g: jnp.zeros((8192, 256), jnp.float32).at[i].add(g), ('i', 512), (512, 256), ints=8192)
op('sort', lambda x: jnp.sort(x, axis=-1), (64, 16384))
op('cumsum', lambda x: jnp.cumsum(x, axis=-1), (512, 4096))


def dump(name, folder):
    f, args = {**MODELS, **OPS}[name](np.random.default_rng(0))
    os.makedirs(os.path.join(folder, 'inputs'), exist_ok=True)
    for i, array in enumerate(jax.tree.leaves(args)):
        np.save(os.path.join(folder, 'inputs', f'{i:02}.npy'), array)
    text = jax.jit(f, keep_unused=True).lower(*args).as_text()
    with open(os.path.join(folder, 'module.mlir'), 'w') as out:
        out.write(text)


if __name__ == '__main__':
    for name in sys.argv[2:]:
        dump(name, os.path.join(sys.argv[1], name))
