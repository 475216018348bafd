"""What bench_compile.py and bench_run.py share: the programs, XLA:CPU's figures for them, and ours.

XLA:CPU comes with jaxlib, installed into build/bench-venv the first time. Programs: the fixtures in ../shared/models (or NEFFD_SHARED) and
the large ones that ../shared/peers/xla_peer.py makes. Without that folder there is nothing to compare with, and the benchmark says so.
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("NEFFD_BUILD", os.path.join(ROOT, "build"))
SHARED = os.environ.get("NEFFD_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
RUNNER = os.path.join(BUILD, "tests", "benchmarks", "model_run")
VENV = os.environ.get("NEFFD_BENCH_VENV", os.path.join(BUILD, "bench-venv"))
BIG = ("gpt2_small_train_step", "resnet50_like_train_step")
SKIP = ("linalg_lapack", "replica_allreduce", "sharded_allreduce", "sharded_mlp_train_step")  # other devices, other libraries


def remark(text):
    print(text, file=sys.stderr, flush=True)


def python():
    binary = os.path.join(VENV, "bin", "python")
    if not os.path.exists(binary):
        remark("installing jaxlib into " + VENV)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([os.path.join(VENV, "bin", "pip"), "install", "-q", "jax==0.10.2", "flax", "optax"], check=True, stdout=subprocess.DEVNULL)
    return binary


def models():
    folder = os.path.join(SHARED, "models")
    if not os.path.isdir(folder):
        sys.exit(remark("no programs: " + folder + " is not there (set NEFFD_SHARED)") or 0)
    names = [n for n in sorted(os.listdir(folder)) if os.path.exists(os.path.join(folder, n, "module.mlir")) and n not in SKIP]
    return {n: os.path.join(folder, n) for n in names}


def big_programs():
    out = {}
    for name in BIG:
        folder = os.path.join(os.environ.get("NEFFD_BENCH_PROGRAMS", os.path.join(BUILD, "bench-programs")), name)
        if not os.path.exists(os.path.join(folder, "module.mlir")):
            remark("making " + name)
            subprocess.run([python(), os.path.join(SHARED, "peers", "xla_peer.py"), "--big", name, "--dump", os.path.dirname(folder)], check=True)
        out[name] = folder
    return out


def xla(small, big, run, threads=(1, 2), rounds=1):
    """{(name, threads): row} of xla_peer.py, which does every program in a process of its own."""
    out = os.path.join(BUILD, "bench-xla.jsonl")
    command = [python(), os.path.join(SHARED, "peers", "xla_peer.py"), "--threads", *map(str, threads), "--rounds", str(rounds), "--out", out]
    if big:
        command += ["--big", *big]
    if small:
        command += ["--only", *small, *(big or ()), "dispatch"]
    if not run:
        command += ["--no-run", *small, *(big or ())]
    command += ["--", *([os.path.join(SHARED, "models")] if small else [])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out) as f:
        rows = [json.loads(line) for line in f]
    return {(r["name"], r["threads"]): r for r in rows if "error" not in r}


def ours(folder, threads, repeat, check, rounds=3):
    """The best figures of some processes, as xla_peer.py takes them."""
    best = None
    for _ in range(rounds):
        command = [RUNNER, folder, "--threads", str(threads), "--repeat", str(repeat), *([] if check else ["--no-check"]), *([] if repeat or check else ["--no-run"])]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not done.stdout.startswith("{"):
            remark(f"{folder}: {done.stderr.strip()}")
            return None
        row = json.loads(done.stdout)
        if check and not row.get("ok"):
            sys.exit(remark(f"{folder}: wrong results: {done.stdout}") or 1)
        if best is None:
            best = row
        for key in row:
            if key.endswith(("_ms", "_us")):
                best[key] = min(best[key], row[key])
    return best


def line(name, value, unit, ratio_to="", ratio=None, median=None, n=1):
    print(json.dumps({"name": name, "value": value, "unit": unit, "ratio_to": ratio_to, "ratio": ratio, "median": median, "p99": None, "n": n}), flush=True)


def pair(what, name, mine, other, unit, median=None):
    line(f"{what} {name} xla", other, unit)
    line(f"{what} {name}", mine, unit, f"{what} {name} xla", mine / other if other else None, median)


def mean(ratios):
    product = 1.0
    for r in ratios:
        product *= r
    return product ** (1 / len(ratios)) if ratios else None
