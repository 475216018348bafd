"""TorchInductor for peers.py:  peer_torch.py NAME --threads N

The same programs as programs_jax.py (and the large ones of xla_peer.py) written for PyTorch, compiled with an empty cache. Compiling is
counted from torch.compile to the end of the first execution, which is where Inductor does it."""
import os
import sys
import tempfile
import time

threads = int(sys.argv[sys.argv.index('--threads') + 1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
os.environ['OMP_NUM_THREADS'] = str(threads)
scratch = tempfile.TemporaryDirectory(prefix='nf-bench-inductor-')
os.environ['TORCHINDUCTOR_CACHE_DIR'] = scratch.name
os.environ['TORCHINDUCTOR_COMPILE_THREADS'] = '1'  # so that its processor time is this process's and its children's

import torch
import torch.nn.functional as F
from torch import nn
from serve import say, serve

torch.set_num_threads(threads)
torch.manual_seed(0)
MODELS, OPS = {}, {}


def model(f):
    MODELS[f.__name__] = f
    return f


def training(net, loss, inputs, optimizer):
    """One step: forward, loss, backward, optimiser, all compiled."""
    forward = torch.compile(lambda *a: loss(net(a[0]), a[1]))
    update = torch.compile(optimizer.step)

    def step(_):
        optimizer.zero_grad(set_to_none=True)
        value = forward(*inputs)
        value.backward()
        update()
        return value
    return step


def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


class Block(nn.Module):
    def __init__(self, dim, heads, causal, approximate):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj, self.fc, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.heads, self.causal, self.approximate = heads, causal, approximate

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(a.transpose(1, 2).flatten(-2))
        return x + self.out(F.gelu(self.fc(self.n2(x)), approximate=self.approximate))


class GPT2(nn.Module):
    def __init__(self, layers, dim, heads, vocab, time):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Parameter(torch.randn(time, dim) * 0.1)
        self.blocks, self.norm = nn.ModuleList(Block(dim, heads, True, 'tanh') for _ in range(layers)), nn.LayerNorm(dim)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe
        for b in self.blocks:
            x = b(x)
        return self.norm(x) @ self.wte.weight.T


@model
def gpt2_small_train_step(vocab=50257, time=128):
    net, tokens = GPT2(12, 768, 12, vocab, time), torch.randint(vocab, (1, time + 1))
    return training(net, token_loss, (tokens[:, :-1], tokens[:, 1:].contiguous()), torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.01))


def rms_norm(x, scale):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * scale


def rope(x):  # (batch, heads, time, width)
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class LlamaBlock(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        line = lambda i, o: nn.Linear(i, o, bias=False)
        self.q, self.k, self.v, self.o = (line(dim, dim) for _ in range(4))
        self.gate, self.up, self.down = line(dim, hidden), line(dim, hidden), line(hidden, dim)
        self.n1, self.n2, self.heads = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim)), heads

    def forward(self, x):
        h = rms_norm(x, self.n1)
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).flatten(-2))
        h = rms_norm(x, self.n2)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, layers, dim, heads, hidden, vocab):
        super().__init__()
        self.embed, self.head, self.norm = nn.Embedding(vocab, dim), nn.Linear(dim, vocab, bias=False), nn.Parameter(torch.ones(dim))
        self.layers = nn.ModuleList(LlamaBlock(dim, heads, hidden) for _ in range(layers))

    def forward(self, tokens):
        x = self.embed(tokens)
        for l in self.layers:
            x = l(x)
        return self.head(rms_norm(x, self.norm))


@model
def llama_train_step(vocab=8192, batch=4, time=128):
    net, tokens = Llama(12, 256, 4, 688, vocab), torch.randint(vocab, (batch, time + 1))
    return training(net, token_loss, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.01))


class ViT(nn.Module):
    def __init__(self, dim, layers, heads, size, patch, classes):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.token, self.pos = nn.Parameter(torch.randn(1, 1, dim)), nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim))
        self.blocks, self.norm, self.head = nn.ModuleList(Block(dim, heads, False, 'none') for _ in range(layers)), nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x[:, 0]))


@model
def vit_b_fwd():
    net, images = ViT(768, 12, 12, 224, 16, 1000).eval(), torch.randn(4, 3, 224, 224)
    compiled = torch.compile(net)

    def run(_):
        with torch.no_grad():
            return compiled(images)
    return run


class Residual(nn.Module):
    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(inputs, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters)
        self.c2, self.b2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters)
        self.side = nn.Sequential(nn.Conv2d(inputs, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)) if stride > 1 or inputs != filters else nn.Identity()

    def forward(self, x):
        return F.relu(self.side(x) + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


@model
def resnet50_like_train_step():
    """Channels last, as Inductor is fastest; batch 2, sixteen blocks."""
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for i, filters in enumerate((64, 128, 256, 512)):
        for j in range(4):
            layers.append(Residual(inputs, filters, 2 if i and not j else 1))
            inputs = filters
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)).to(memory_format=torch.channels_last)
    images = torch.randn(2, 3, 224, 224).to(memory_format=torch.channels_last)
    return training(net, F.cross_entropy, (images, torch.randint(10, (2,))), torch.optim.SGD(net.parameters(), 0.1))


# --------------------------------------------------------------------------------------------------- single operations

def op(name, f, *shapes, ints=None, last=False):
    def make():
        args = [torch.randint(ints, s[1:]) if s and s[0] == 'i' else torch.randn(*s) for s in shapes]
        if last:
            args = [a.to(memory_format=torch.channels_last) for a in args]
        compiled = torch.compile(f)

        def run(_):
            with torch.no_grad():
                return compiled(*args)
        return run
    OPS[name] = make


def adamw(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v * v + 0.001 * g * g
    return p - 1e-3 * (m / (1 - 0.9 ** 11) / ((v / (1 - 0.999 ** 11)).sqrt() + 1e-8) + 0.01 * p), m, v


op('gelu', lambda x, b, s: F.gelu(x + b, approximate='tanh') * s, (512, 3072), (3072,), (3072,))
op('layer_norm', lambda x, s, b: F.layer_norm(x, (768,), s, b), (512, 768), (768,), (768,))
op('softmax', lambda x: x.softmax(-1), (6144, 128))
op('softmax_50257', lambda x: x.softmax(-1), (128, 50257))
op('column_sum', lambda x: x.sum(0), (512, 3072))
op('adamw', adamw, *[(2304, 1024)] * 4)
PRODUCTS = [(512, 768, 768, ''), (512, 3072, 768, ''), (512, 768, 3072, ''), (512, 768, 3072, 'bt'), (768, 3072, 512, 'at'), (512, 256, 256, ''), (512, 1024, 256, ''),
            (256, 1024, 512, 'at'), (8192, 256, 512, 'at'), (784, 768, 768, ''), (1024, 1024, 1024, ''), (64, 64, 64, ''), (32, 32, 32, ''), (8, 768, 768, ''), (1, 768, 768, '')]
for m, n, k, how in PRODUCTS:
    op(f'product_{m}x{n}x{k}{how}', {'': lambda a, b: a @ b, 'bt': lambda a, b: a @ b.T, 'at': lambda a, b: a.T @ b}[how], (k, m) if how == 'at' else (m, k), (n, k) if how == 'bt' else (k, n))
op('product_48x128x128x64bt', lambda a, b: a @ b.transpose(1, 2), (48, 128, 64), (48, 128, 64))
CONVOLUTIONS = [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (56, 64, 128, 3, 2), (56, 64, 256, 1, 1), (224, 3, 768, 16, 16), (224, 3, 64, 7, 2)]


def conv(stride, pad):
    return lambda x, w: F.conv2d(x, w, stride=stride, padding=pad)


def conv_grads(stride, pad):
    return lambda x, w, g: torch.ops.aten.convolution_backward(g, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, [True, True, False])[:2]


for size, ci, co, kernel, stride in CONVOLUTIONS:
    pad = 0 if kernel == 16 else kernel // 2
    o = (size + 2 * pad - kernel) // stride + 1
    tag = f'conv_{size}x{size}_{ci}_{co}_{kernel}x{kernel}_{stride}'
    op(tag, conv(stride, pad), (4, ci, size, size), (co, ci, kernel, kernel), last=True)
    op(tag + '_grads', conv_grads(stride, pad), (4, ci, size, size), (co, ci, kernel, kernel), (4, co, o, o), last=True)
for t in (128, 512, 1024, 4096):
    op(f'attention_{t}', lambda q, k, v: F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2).contiguous(), *[(1, t, 8, 64)] * 3)
op('embedding_gradient', lambda i, g: torch.zeros(8192, 256).index_add(0, i, g), ('i', 512), (512, 256), ints=8192)
op('sort', lambda x: x.sort(-1)[0], (64, 16384))
op('cumsum', lambda x: x.cumsum(-1), (512, 4096))


if __name__ == '__main__':
    run = {**MODELS, **OPS}[sys.argv[1]]()
    torch.compile(lambda x: x + 1)(torch.zeros(8))
    before = os.times()
    wall = time.perf_counter()
    torch._dynamo.reset()
    run(None)
    after = os.times()
    say(compile_ms=1e3 * (time.perf_counter() - wall), compile_cpu_ms=1e3 * sum(b - a for a, b in zip(before[:4], after[:4])), temp_mb=None)
    serve(run)
