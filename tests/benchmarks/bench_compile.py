"""compile: processor time from StableHLO text to a native artifact, beside XLA:CPU's from module to executable.

XLA's parsing is not counted, ours is. One thread each; both processes have compiled a trivial program before.
"""
import peers


def main():
    big, small, ratios = peers.made(peers.BIG), peers.models(), {}
    for name, folder in {**small, **big}.items():
        rows = peers.measure(name, folder, 1, who=("ours", "xla"), rounds=0)
        again = peers.measure(name, folder, 1, who=("ours", "xla"), rounds=0) if name in small else {}
        for w in rows:
            rows[w]["compile_cpu_ms"] = min(r[w]["compile_cpu_ms"] for r in (rows, again) if w in r)
        ratios[name] = peers.compare("compile " + name, rows, "compile_cpu_ms", "cpu ms")
    peers.mean("compile, large ones", [ratios[n] for n in big])
    peers.mean("compile, all", ratios.values())


if __name__ == "__main__":
    main()
