"""run: one execution with inputs in place, beside XLA:CPU's, on one thread and on two."""
import peers


def main():
    small, big = peers.models(), peers.big_programs()
    theirs = peers.xla(list(small), list(big), run=True)
    for threads in (1, 2):
        ratios = []
        for name, folder in {**small, **big}.items():
            large = name in big
            mine, other = peers.ours(folder, threads, 5 if large else 200, not large), theirs.get((name, threads))
            if not mine or not other or "run_ms" not in other:
                continue
            what = f"run, {threads} thread{'s' if threads > 1 else ''},"
            peers.pair(what, name, mine["run_ms"], other["run_ms"], "ms", mine["run_median_ms"])
            ratios.append(mine["run_ms"] / other["run_ms"])
        peers.line(f"run, {threads} threads, geometric mean of the ratios", peers.mean(ratios), "ratio")


if __name__ == "__main__":
    main()
