"""bench_storm.py: many processes, one graph that nobody has compiled: how long until the last has it, how many compiles it took.

The compiler is the fake one and takes 3 s, so what is measured beyond those is the service: the start of the processes, joining,
waking all waiters. The daemon's own record says how far apart its first and last answer were.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TEST_BUILD", os.path.join(ROOT, "build"))
BIN = os.path.join(BUILD, "bin")
FAKE = os.path.join(BUILD, "tests", "fake-neuronx-cc", "fake-neuronx-cc")
GRAPH = os.path.join(ROOT, "tests", "models", "mlp", "module.mlir")
CLIENTS = (64, 256)


def line(name, value, unit, n, ratio_to="", ratio=None):
    print(json.dumps({"name": name, "value": value, "unit": unit, "ratio_to": ratio_to, "ratio": ratio, "median": value, "p99": value, "n": n}), flush=True)


def main():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NEFFD_", "TORCH_NEURONX_", "NEURON_"))}
    with tempfile.TemporaryDirectory(prefix="nf-storm-") as root:
        places = [f"--socket=unix:{root}/s", f"--cache-dir={root}/cache", f"--local-dir={root}/local"]
        daemon_env = dict(env, FAKE_NEURONX_CC="slow:3", FAKE_NEURONX_CC_LOG=f"{root}/compiles")
        daemon = subprocess.Popen([os.path.join(BIN, "neffd"), *places, f"--neuronx-cc={FAKE}", f"--log-file={root}/log"], env=daemon_env)
        try:
            subprocess.run([os.path.join(BIN, "neffctl"), *places, "ping", "--wait", "20"], env=env, check=True, stdout=subprocess.DEVNULL)
            floor = None
            for clients in CLIENTS:
                before = status(places, env)
                start = time.monotonic()
                command = [os.path.join(BIN, "neffctl"), *places, "compile", GRAPH, "--target=trn2", "-O", f"optlevel={1 + CLIENTS.index(clients)}", "--json"]
                running = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(clients)]
                digests, joined = set(), 0
                for process in running:
                    out, err = process.communicate(timeout=300)
                    if process.returncode:
                        sys.exit(f"a client failed: {err or out}")
                    done = json.loads(out)
                    digests.add(done["artifact"]["sha256"])
                    joined += done["outcome"] == "joined"
                took = time.monotonic() - start
                compiles = status(places, env)["counters"]["compiles"] - before["counters"]["compiles"]
                if len(digests) != 1:
                    sys.exit("not all clients got the same bytes")
                start = time.monotonic()
                for process in [subprocess.Popen([command[0], "--version"], env=env, stdout=subprocess.DEVNULL) for _ in range(clients)]:
                    process.wait()
                floor = time.monotonic() - start
                line(f"start of {clients} processes", floor * 1000, "ms", clients)
                line(f"storm of {clients}: all answered, less the compiler's 3 s", (took - 3) * 1000, "ms", clients, f"start of {clients} processes", round((took - 3) / floor, 3))
                line(f"storm of {clients}: compiles", compiles, "", clients)
                line(f"storm of {clients}: joined", joined, "", clients)
        finally:
            daemon.terminate()
            daemon.wait(timeout=60)


def status(places, env):
    return json.loads(subprocess.run([os.path.join(BIN, "neffctl"), *places, "status", "--json"], env=env, check=True, capture_output=True, text=True).stdout)


main()
