"""run: one execution with inputs in place, beside XLA:CPU's and (large programs) TorchInductor's, on one thread and on two.

On one thread processor time counts, as other load disturbs it least; on two, wall time. `memory` is what a program needs beside its
arguments and results.
"""
import peers


def main():
    big, small = peers.made(peers.BIG), peers.models()
    if peers.no_inductor():
        peers.remark("no Inductor: " + peers.no_inductor())
    for threads in (1, 2):
        ratios = {}
        for name, folder in {**small, **big}.items():
            large = name in big
            rows = peers.measure(name, folder, threads, ("ours", "xla", "inductor") if large else ("ours", "xla"), 4.0 if large else 0.3, 4 if large else 3)
            what = f"run, {threads} thread{'s' if threads > 1 else ''}, {name}"
            if threads == 1:
                ratios[name] = peers.compare(what, rows, "run_cpu_ms", "cpu ms")
                peers.compare("memory of " + name, rows, "temp_mb", "MB")
            else:
                ratios[name] = peers.compare(what, rows, "run_ms", "ms", "run_median_ms")
        peers.mean(f"run, {threads} threads, large ones", [ratios[n] for n in big])
        peers.mean(f"run, {threads} threads, all", ratios.values())


if __name__ == "__main__":
    main()
