"""ops: single operations beside XLA:CPU and TorchInductor, one thread, processor time of one execution."""
import subprocess
import sys

import peers


def main():
    listed = subprocess.run([peers.python(), "-B", "-c", "import programs_jax; print(*programs_jax.OPS)"], cwd=peers.HERE, stdout=subprocess.PIPE, text=True, check=True)
    programs, ratios = peers.made(listed.stdout.split()), {}
    if peers.no_inductor():
        peers.remark("no Inductor: " + peers.no_inductor())
    for name, folder in programs.items():
        ratios[name] = peers.compare("op " + name, peers.measure(name, folder, 1, seconds=0.3), "run_cpu_ms", "cpu ms")
    peers.mean("ops", ratios.values())
    for name, ratio in sorted(ratios.items(), key=lambda r: -(r[1] or 0)):
        if ratio and ratio > 1.25:
            peers.remark(f"slower than the better one: {name}, {ratio:.2f} x")


if __name__ == "__main__":
    sys.exit(main())
