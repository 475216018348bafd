"""What bench_compile.py, bench_run.py and bench_ops.py share: the programs, and ours, XLA:CPU and TorchInductor side by side.

Each of the three is a process that compiles a program and then executes it when told (serve.py), in turn, several rounds, so that what else
the machine does falls on all of them; the least of the rounds counts. Processor time of one thread is the steadiest figure.

jaxlib and torch are installed into build/bench-venv the first time; without torch, or without network, Inductor is left out, and the bench
says why. Programs: the fixtures in ../shared/models (or NEFFD_SHARED), the large ones of ../shared/peers/xla_peer.py, and programs_jax.py.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("NEFFD_BUILD", os.path.join(ROOT, "build"))
SHARED = os.environ.get("NEFFD_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
RUNNER = os.path.join(BUILD, "tests", "benchmarks", "model_run")
VENV = os.environ.get("NEFFD_BENCH_VENV", os.path.join(BUILD, "bench-venv"))
PROGRAMS = os.environ.get("NEFFD_BENCH_PROGRAMS", os.path.join(BUILD, "bench-programs"))
BIG = ("gpt2_small_train_step", "llama_train_step", "resnet50_like_train_step", "vit_b_fwd")
OF_XLA_PEER = ("gpt2_small_train_step", "resnet50_like_train_step")
SKIP = ("linalg_lapack", "replica_allreduce", "sharded_allreduce", "sharded_mlp_train_step")  # other devices, other libraries


def remark(text):
    print(text, file=sys.stderr, flush=True)


def chosen():
    """NEFFD_BENCH_ONLY=name,name keeps only these programs."""
    only = os.environ.get("NEFFD_BENCH_ONLY")
    return (lambda name: name in only.split(",")) if only else lambda name: True


def python():
    binary, done = os.path.join(VENV, "bin", "python"), os.path.join(VENV, "installed")
    if not os.path.exists(done):
        remark("installing jaxlib and torch into " + VENV)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        pip = [os.path.join(VENV, "bin", "pip"), "install", "-q"]
        subprocess.run(pip + ["jax==0.10.2", "flax", "optax"], check=True, stdout=subprocess.DEVNULL)
        torch = subprocess.run(pip + ["torch==2.13.0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with open(done, "w") as f:
            f.write("" if torch.returncode == 0 else torch.stderr.strip().splitlines()[-1])
    return binary


def no_inductor():
    """Why there is no Inductor, or ""."""
    python()
    with open(os.path.join(VENV, "installed")) as f:
        return f.read()


def models():
    folder = os.path.join(SHARED, "models")
    if not os.path.isdir(folder):
        remark("no fixtures: " + folder + " is not there (set NEFFD_SHARED)")
        return {}
    wanted = chosen()
    names = [n for n in sorted(os.listdir(folder)) if os.path.exists(os.path.join(folder, n, "module.mlir")) and n not in SKIP and wanted(n)]
    return {n: os.path.join(folder, n) for n in names}


def made(names):
    """Folders of programs that are made on the fly."""
    out, wanted = {}, chosen()
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    for name in filter(wanted, names):
        folder = os.path.join(PROGRAMS, name)
        if not os.path.exists(os.path.join(folder, "module.mlir")):
            remark("making " + name)
            script = os.path.join(SHARED, "peers", "xla_peer.py")
            if name in OF_XLA_PEER:
                if not os.path.exists(script):
                    remark(f"{name}: left out, {script} is not there")
                    continue
                command = [script, "--big", name, "--dump", PROGRAMS]
            else:
                command = [os.path.join(HERE, "programs_jax.py"), PROGRAMS, name]
            subprocess.run([python(), *command], check=True, env=env)
        out[name] = folder
    return out


class Peer:
    def __init__(self, who, name, folder, threads):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        tail = ["--threads", str(threads)]
        command = {"ours": [RUNNER, folder, "--serve", *tail], "xla": [python(), os.path.join(HERE, "peer_xla.py"), folder, *tail],
                   "inductor": [python(), os.path.join(HERE, "peer_torch.py"), name, *tail]}[who]
        self.errors = os.path.join(BUILD, f"bench-{who}.log")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.errors, "w"), text=True,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores), env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        self.row = self.read()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        with open(self.errors) as f:
            lines = f.read().strip().splitlines() or ["no output"]
        remark(f"{' '.join(self.process.args[:3])}: {lines[-1]}")
        return None

    def run(self, seconds):
        try:
            self.process.stdin.write(f"run {seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def measure(name, folder, threads, who=("ours", "xla", "inductor"), seconds=1.0, rounds=3):
    """{who: row}: compile_*, and with rounds run_*, the least of the rounds."""
    peers = {w: Peer(w, name, folder, threads) for w in who if w != "inductor" or not no_inductor()}
    rows = {w: p.row for w, p in peers.items() if p.row}
    for _ in range(rounds):
        for w in list(rows):
            r = peers[w].run(seconds)
            if not r:
                del rows[w]
                continue
            for key in ("run_ms", "run_median_ms", "run_cpu_ms"):
                rows[w][key] = min(rows[w].get(key, r[key]), r[key])
            rows[w]["n"] = rows[w].get("n", 0) + r["n"]
            rows[w]["peak_rss_mb"] = r["peak_rss_mb"]
    for p in peers.values():
        p.close()
    return rows


def line(name, value, unit, ratio_to="", ratio=None, median=None, n=1):
    print(json.dumps({"name": name, "value": value, "unit": unit, "ratio_to": ratio_to, "ratio": ratio, "median": median, "p99": None, "n": n}), flush=True)


def compare(what, rows, key, unit, median=None):
    """A line for each; ours with the ratio to the better of the others, which is returned (below 1: ours is less)."""
    others = {w: r[key] for w, r in rows.items() if w != "ours" and r.get(key)}
    for w, value in others.items():
        line(f"{what}, {w}", value, unit, median=rows[w].get(median) if median else None, n=rows[w].get("n", 1))
    if "ours" not in rows:
        return None
    best = min(others, key=others.get) if others else None
    ratio = rows["ours"][key] / others[best] if best else None
    line(what, rows["ours"][key], unit, f"{what}, {best}" if best else "", ratio, rows["ours"].get(median) if median else None, rows["ours"].get("n", 1))
    return ratio


def mean(what, ratios):
    ratios = [r for r in ratios if r]
    if not ratios:
        return
    product = 1.0
    for r in ratios:
        product *= r
    line(what + ", geometric mean of the ratios", product ** (1 / len(ratios)), "ratio", n=len(ratios))
