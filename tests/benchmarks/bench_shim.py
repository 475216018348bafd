"""bench_shim.py: a hit of neffcc as a whole process, beside /bin/true (what starting any process costs) and, where ccache is installed, a
ccache hit on a C file. Turn by turn in one run, so that a busy machine is busy for all of them."""
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TEST_BUILD", os.path.join(ROOT, "build"))
NEFFCC = os.path.join(BUILD, "bin", "neffcc")
FAKE = os.path.join(BUILD, "tests", "fake-neuronx-cc", "fake-neuronx-cc")
GRAPH = os.path.join(ROOT, "tests", "models", "mlp", "module.mlir")
N = 200


def once(argv, env, null):
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{argv[0]} ended with {status}")
    return (time.perf_counter_ns() - start) / 1000, (used.ru_utime + used.ru_stime) * 1e6


def main():
    root = tempfile.mkdtemp(prefix="nf-shim-")
    null = os.open("/dev/null", os.O_WRONLY)
    try:
        os.chdir(root)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("NEFF", "TORCH_NEURONX_", "NEURON_"))}
        env.update(NEFFD_SOCKET=f"{root}/s", TORCH_NEURONX_NEFF_CACHE_DIR=f"{root}/cache", TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR=f"{root}/local",
                   NEFFD_NEURONX_CC=FAKE, FAKE_NEURONX_CC_LOG=f"{root}/compiles", CCACHE_DIR=f"{root}/ccache")
        runs = {"true": [shutil.which("true")],
                "neffcc hit": [NEFFCC, "compile", GRAPH, "--framework", "XLA", "--target", "trn2", "--output", f"{root}/o.neff"]}
        ccache, cc = shutil.which("ccache"), shutil.which("gcc")
        if ccache and cc:
            with open(f"{root}/t.c", "w") as f:
                f.write("#include <stdio.h>\nint main(void)\n{\n    puts(\"hello\");\n    return 0;\n}\n")
            runs["ccache hit"] = [ccache, cc, "-O2", "-c", f"{root}/t.c", "-o", f"{root}/t.o"]
        for argv in runs.values():
            for _ in range(3):
                once(argv, env, null)
        times = {name: [] for name in runs}
        for _ in range(N):
            for name, argv in runs.items():
                times[name].append(once(argv, env, null))
        with open(f"{root}/compiles") as f:
            compiles = sum('"event":"start"' in line for line in f)
        if compiles != 1:
            raise SystemExit(f"{compiles} compiles, not one: these were no hits")
        # Wall time, and processor time, which a busy machine changes less.
        for which, suffix in ((0, ""), (1, ", processor")):
            floor = statistics.median(t[which] for t in times["true"])
            for name, both in times.items():
                t = sorted(x[which] for x in both)
                median = statistics.median(t)
                print(json.dumps({"name": name + suffix, "value": round(median, 1), "unit": "us", "ratio_to": "" if name == "true" else "true" + suffix,
                                  "ratio": None if name == "true" else round(median / max(floor, 1), 2), "median": round(median, 1),
                                  "p99": round(t[int(len(t) * 0.99)], 1), "n": len(t)}), flush=True)
    finally:
        os.close(null)
        os.chdir("/")
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
