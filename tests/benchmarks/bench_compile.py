"""compile: processor time from StableHLO text to a native artifact, beside XLA:CPU's from module to executable.

XLA's parsing is not counted (xla_peer.py starts from a module), ours is. One thread each.
"""
import peers


def main():
    small, big = peers.models(), peers.big_programs()
    theirs = peers.xla(list(small), list(big), run=False, threads=(1,))
    ratios = {}
    for name, folder in {**small, **big}.items():
        mine, other = peers.ours(folder, 1, 0, False), theirs.get((name, 1))
        if not mine or not other:
            continue
        peers.pair("compile", name, mine["compile_cpu_ms"], 1e3 * other["compile_cpu_s"], "cpu ms")
        ratios[name] = mine["compile_cpu_ms"] / (1e3 * other["compile_cpu_s"])
    peers.line("compile, large ones, geometric mean of the ratios", peers.mean([ratios[n] for n in big if n in ratios]), "ratio")
    peers.line("compile, all, geometric mean of the ratios", peers.mean(list(ratios.values())), "ratio")


if __name__ == "__main__":
    main()
