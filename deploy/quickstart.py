"""Shows neffd at work, on this machine, in one go.

usage: deploy/quickstart [--json] [--keep] [--models DIR]

Installs what is missing, builds into build/, starts a private daemon with a cache of its own in a temporary directory, compiles the
models of tests/models, executes them and compares with the numbers that XLA computed, asks again (a hit), lets 64 processes ask for
one new graph (one compile), and has a miss explained. Then it stops what it started.

  --json    one JSON object on standard output instead of the report
  --models  take the models from DIR instead of tests/models
  --keep    leave the daemon and its directory, and print how to use them

Exit status 0 only if every number was right and every step did what it should.
"""
import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TEST_BUILD") or os.path.join(ROOT, "build")  # the tests have built already
BIN = os.path.join(BUILD, "bin")
MODELS = os.path.join(ROOT, "tests", "models")
CLIENTS = 64
ENV = {k: v for k, v in os.environ.items() if not re.match(r"NEFFD_|TORCH_NEURONX_|NEURON_|NEFFCC_", k)}


class Failed(Exception):
    pass


def build():
    if os.environ.get("TEST_BUILD"):
        return 0.0
    fresh = not os.path.exists(os.path.join(BUILD, "build.ninja"))
    start = time.monotonic()
    steps = [["ninja", "-C", BUILD]]
    if fresh:
        have_check = subprocess.run(["pkg-config", "--exists", "check"]).returncode == 0
        steps.insert(0, ["meson", "setup", BUILD] + ([] if have_check else ["-Dtests=false"]))
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode:
            raise Failed("the build failed:\n" + "\n".join(done.stdout.splitlines()[-40:]))
    return time.monotonic() - start


class Service:
    """The private daemon and its directory."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="neffd-quickstart-")
        self.socket = f"unix:{self.dir}/neffd.sock"
        self.log = os.path.join(self.dir, "neffd.log")
        self.places = [f"--socket={self.socket}", f"--cache-dir={self.dir}/cache", f"--local-dir={self.dir}/local"]
        self.process = None

    def start(self):
        self.process = subprocess.Popen([os.path.join(BIN, "neffd"), *self.places, f"--log-file={self.log}"], env=ENV, cwd=self.dir,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        done = subprocess.run([os.path.join(BIN, "neffctl"), *self.places, "ping", "--wait", "20"], env=ENV, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"the daemon does not answer: {done.stderr.strip()}\n{self.log_tail()}")

    def log_tail(self):
        try:
            with open(self.log, errors="replace") as f:
                return "".join(f.readlines()[-15:])
        except OSError:
            return ""

    def ctl(self, *arguments, accept=(0,)):
        """neffctl with --json; returns the exit status and what it printed."""
        done = subprocess.run([os.path.join(BIN, "neffctl"), *self.places, *arguments, "--json"], env=ENV, capture_output=True, text=True, timeout=300)
        if done.returncode not in accept:
            raise Failed(f"neffctl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}\n{self.log_tail()}")
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            raise Failed(f"neffctl {' '.join(arguments)} printed no JSON: {done.stdout[:500]!r} {done.stderr[:500]}") from None

    def counters(self):
        return self.ctl("status")[1]["counters"]

    def stop(self, keep):
        if keep:
            return
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        log = self.log_tail()
        shutil.rmtree(self.dir, ignore_errors=True)
        if self.process and self.process.returncode:
            raise Failed(f"the daemon ended with {self.process.returncode}:\n{log}")


def manifest(name):
    with open(os.path.join(MODELS, name, "manifest.json"), encoding="utf-8") as f:
        return json.load(f)


def models():
    return sorted(e for e in os.listdir(MODELS) if os.path.exists(os.path.join(MODELS, e, "manifest.json")))


def graph(name):
    return os.path.join(MODELS, name, "module.mlir")


def damaged(name):
    """Files of a model that are not as they were exported: a wrong bit may be too small for the tolerance to see."""
    facts, wrong = manifest(name), []
    for row in facts["inputs"] + facts["outputs"]:
        with open(os.path.join(MODELS, name, row["file"]), "rb") as f:
            if hashlib.sha256(f.read()).hexdigest() != row["sha256"]:
                wrong.append(f"{name}: tensor {row['name']} ({row['file']}) is not as it was exported: its digest differs")
    return wrong


def execute(service, name):
    """Compiles and runs a model; every output against the number beside it."""
    folder = os.path.join(MODELS, name)
    _, ran = service.ctl("run", graph(name), "--inputs", os.path.join(folder, "inputs"), "--expected", os.path.join(folder, "expected"), accept=(0, 1))
    if "error" in ran:
        raise Failed(f"{name}: {ran['error'].get('message')}")
    facts = manifest(name)
    if len(ran["outputs"]) != len(facts["outputs"]):
        raise Failed(f"{name}: {len(ran['outputs'])} outputs came, {len(facts['outputs'])} were expected")
    outputs = []
    for got, want in zip(ran["outputs"], facts["outputs"]):
        outputs.append({"name": want["name"], "file": want["file"], "dtype": want["dtype"], "shape": want["shape"], "matches": bool(got["matches"]),
                        "mismatched": got["mismatched"], "max_abs_err": got["max_abs_err"]})
        if (got["dtype"], list(got["shape"])) != (want["dtype"], want["shape"]):
            outputs[-1]["matches"] = False
    return {"name": name, "about": facts["about"], "outcome": ran["outcome"], "compile_us": ran["times"]["compile_us"],
            "execute_us": ran["times"]["median_us"], "outputs": outputs}


def hits(service, name, count=21):
    """What a second asker waits: the client's own time, without the start of the process."""
    times, outcome = [], ""
    for _ in range(count):
        _, done = service.ctl("lookup", graph(name))
        outcome = done["outcome"]
        times.append(done["times"]["total_us"])
    times.sort()
    return {"outcome": outcome, "median_us": times[len(times) // 2], "min_us": times[0], "n": count}


def storm(service, name):
    """Many processes, one graph that nobody has compiled."""
    text = open(graph(name), encoding="utf-8").read()
    fresh = os.path.join(service.dir, "storm.mlir")
    changed = re.sub(r"stablehlo\.tanh|stablehlo\.maximum %", lambda m: {"stablehlo.tanh": "stablehlo.negate"}.get(m.group(0), "stablehlo.minimum %"), text, count=1)
    if changed == text:
        raise Failed(f"{name}: no operation to change for the storm")
    with open(fresh, "w", encoding="utf-8") as f:
        f.write(changed)
    before = service.counters()
    start = time.monotonic()
    clients = [subprocess.Popen([os.path.join(BIN, "neffctl"), *service.places, "compile", fresh, "--json"], env=ENV,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(CLIENTS)]
    outcomes, digests = {}, set()
    for client in clients:
        out, err = client.communicate(timeout=300)
        if client.returncode:
            raise Failed(f"a client of the storm ended with {client.returncode}: {err.strip() or out.strip()}")
        done = json.loads(out)
        outcomes[done["outcome"]] = outcomes.get(done["outcome"], 0) + 1
        digests.add(done["artifact"]["sha256"])
    after = service.counters()
    return {"clients": CLIENTS, "compiles": after["compiles"] - before["compiles"], "outcomes": outcomes, "different_artifacts": len(digests),
            "seconds": round(time.monotonic() - start, 3)}


def explained(service, name):
    """A copy with one operation changed misses, and the miss names it."""
    lines = open(graph(name), encoding="utf-8").read().split("\n")
    at = next(i for i, line in enumerate(lines) if "stablehlo.exponential" in line)
    lines[at] = lines[at].replace("stablehlo.exponential", "stablehlo.negate")
    path = os.path.join(service.dir, "changed.mlir")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    _, done = service.ctl("explain", path)
    found = done.get("explanation") or {}
    return {"changed_line": at + 1, "found": bool(found.get("found")), "nearest_name": found.get("nearest_name", ""), "similarity": found.get("similarity", 0),
            "differences": found.get("differences", [])}


def judge(result):
    """What is wrong, in words; empty if nothing is."""
    wrong = []
    for model in result["models"]:
        for output in model["outputs"]:
            if not output["matches"]:
                wrong.append(f"{model['name']}: tensor {output['name']} ({output['file']}) differs from XLA's numbers: "
                             f"{output['mismatched']} elements, by up to {output['max_abs_err']}")
        if model["outcome"] != "compiled":
            wrong.append(f"{model['name']}: the first request was answered as {model['outcome']}, not compiled")
    if not result["hit"]["outcome"].startswith("hit_"):
        wrong.append(f"the second request was answered as {result['hit']['outcome']}")
    if result["storm"]["compiles"] != 1:
        wrong.append(f"the storm of {CLIENTS} clients took {result['storm']['compiles']} compiles")
    if result["storm"]["different_artifacts"] != 1:
        wrong.append("the clients of the storm did not all get the same bytes")
    differences = result["miss"]["differences"]
    if not result["miss"]["found"] or [d["component"] for d in differences] != ["structure"]:
        wrong.append(f"the miss was not explained by its one changed operation: {differences}")
    elif f"{result['miss']['changed_line']}:" not in differences[0]["location"]:
        wrong.append(f"the miss was explained at {differences[0]['location'] or 'no place'}, the change is in line {result['miss']['changed_line']}")
    return wrong


def duration(us):
    return f"{us:,.0f} µs" if us < 10_000 else f"{us / 1000:,.0f} ms" if us < 10_000_000 else f"{us / 1e6:,.1f} s"


def report(result, keep, service):
    print(f"built in {result['build_s']:.0f} s; the daemon answers at {service.socket}\n")
    for model in result["models"]:
        print(f"{model['name']}: {model['about']}")
        print(f"  compiled in {duration(model['compile_us'])}, executed in {duration(model['execute_us'])}")
        for output in model["outputs"]:
            shape = "x".join(map(str, output["shape"]))
            verdict = "equals XLA's numbers within tolerance" if output["matches"] else "DIFFERS from XLA's numbers"
            print(f"  {output['name']} {output['dtype']}[{shape}] {verdict} (largest difference {output['max_abs_err']:.3g})")
    hit, load, miss = result["hit"], result["storm"], result["miss"]
    print(f"\nasked again: {hit['outcome'].replace('_', ' ')} in {duration(hit['median_us'])} (median of {hit['n']}, least {duration(hit['min_us'])})")
    answered = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in sorted(load["outcomes"].items()))
    print(f"storm: {load['clients']} clients -> {load['compiles']} compile ({answered}) in {load['seconds']:.1f} s")
    print(f"a miss, explained: nearest entry {miss['nearest_name'] or '(unnamed)'}, {int(1000 * miss['similarity']) / 10} % alike")
    for d in miss["differences"]:
        print(f"  {d['component']} {d['name']}: cached {d['cached']}; requested {d['requested']}" + (f" at {d['location']}" if d["location"] else ""))
    if keep:
        print(f"\nkept, in {service.dir}: use it with\n  export NEFFD_SOCKET={service.socket} NEFFD_CACHE_DIR={service.dir}/cache NEFFD_LOCAL_DIR={service.dir}/local"
              f"\n  {os.path.relpath(BIN)}/neffctl status\nand stop it with\n  kill {service.process.pid}")


def main():
    global MODELS
    parser = argparse.ArgumentParser(prog="deploy/quickstart", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--models", default=MODELS, metavar="DIR")
    options = parser.parse_args()
    MODELS = os.path.abspath(options.models)
    service, result, wrong = None, {}, []
    try:
        if not options.json:
            print("building ...", flush=True)
        result["build_s"] = round(build(), 1)
        service = Service()
        service.start()
        names = models()
        wrong = [problem for name in names for problem in damaged(name)]
        result["models"] = [execute(service, name) for name in names]
        result["hit"] = hits(service, names[0])
        result["storm"] = storm(service, names[-1])
        result["miss"] = explained(service, names[0])
        wrong += judge(result)
        if not options.json:
            report(result, options.keep, service)
    except (Failed, OSError, KeyError, subprocess.TimeoutExpired) as problem:
        wrong.append(f"{type(problem).__name__}: {problem}" if not isinstance(problem, Failed) else str(problem))
    finally:
        if service:
            try:
                service.stop(options.keep)
            except Failed as problem:
                wrong.append(str(problem))
    if options.json:
        if options.keep and service:
            result["kept"] = {"socket": service.socket, "dir": service.dir, "pid": service.process.pid if service.process else 0}
        print(json.dumps({"ok": not wrong, **result, "problems": wrong}))
    else:
        for problem in wrong:
            print(f"quickstart: {problem}", file=sys.stderr)
        print("\n" + ("every number was right" if not wrong else "NOT everything was right"))
    return 1 if wrong else 0


sys.exit(main())
