"""The protocol between peers.py and what it measures, ours (model_run --serve) included: one JSON line when the program is compiled, then for
every line `run SECONDS` on stdin one with the least and the median time of an execution, wall and processor, over about that time."""
import json
import resource
import sys
import time


def say(**row):
    row['peak_rss_mb'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(row), flush=True)


def serve(run, prepare=lambda: None):
    for line in sys.stdin:
        wall, cpu, until = [], [], time.perf_counter() + float(line.split()[1])
        while not wall or time.perf_counter() < until:
            given = prepare()
            w, c = time.perf_counter(), time.process_time()
            result = run(given)
            cpu.append(1e3 * (time.process_time() - c))
            wall.append(1e3 * (time.perf_counter() - w))
            del given, result
        say(run_ms=min(wall), run_median_ms=sorted(wall)[len(wall) // 2], run_cpu_ms=min(cpu), n=len(wall))
